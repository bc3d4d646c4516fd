/**
 * What lowering depends on beside the kernel: the library that is running, and what the device can do, as text. Lowered
 * kernels of one text are never read under another.
 *
 * @module
 */
import { hostFiles, mayReadFolder } from "../../device/host_files.ts";
import { digest } from "../../device/object_cache.ts";
import { DTYPES } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";

/** Folders of all that a lowered kernel is made by, and compiled: layers above them only say which kernels there are. */
export const LOWERING_FOLDERS: readonly string[] = [
  ...["helpers", "dtype", "uop", "renderer", "device", "collectives", "codegen", "engine/lowered"].map((f) =>
    `/src/${f}`
  ),
  "/backends",
];
/** Folders beside these of all that schedules are made by. */
export const SCHEDULING_FOLDERS: readonly string[] = ["/src/schedule"];
/** Where a module of this folder is in a checkout. */
const TREE = /^(.*)\/src\/engine\/lowered\/[^/]*$/;
/** How files of the package are named. */
const PACKAGE_FILE = /^(file:.*\/)dinograd(?:[-.][^/]*)?\.js$/;

/**
 * What names the library that is running, whose module `url` is: what lowered something under another text may have been
 * another compiler. undefined where that cannot be told, as of sources that changed after the process began.
 *
 * @param folders of a checkout that matter; the package and what has a version are named as a whole
 */
export function libraryText(
  url: string | undefined,
  folders: readonly string[] = LOWERING_FOLDERS,
): string | undefined {
  const files = hostFiles();
  if (url === undefined || files === undefined) return undefined;
  const tree = TREE.exec(url)?.[1], inPackage = PACKAGE_FILE.exec(url);
  // what has a version there never changes
  if (tree !== undefined && /^https:\/\/jsr\.io\/@[^/]+\/[^/]+\/\d[^/]*$/.test(tree)) return tree;
  const path = (u: string): string => decodeURIComponent(new URL(u).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
  try {
    if (inPackage !== null) {
      const folder = path(inPackage[1]);
      if (!mayReadFolder(folder)) return undefined;
      const names = [...files.readDirSync(folder)].map((e) => e.name).filter((n) => /^dinograd([-.].*)?\.js$/.test(n));
      return names.sort().map((n) => `${n} ${digest(files.readTextFileSync(folder + n))}`).join("\n");
    }
    if (!tree?.startsWith("file:")) return undefined;
    const root = path(tree), lines: string[] = [];
    if (!mayReadFolder(root)) return undefined;
    const began = performance.timeOrigin;
    const list = (folder: string): boolean => {
      for (const name of [...files.readDirSync(root + folder)].map((e) => e.name).sort()) {
        if (!name.includes(".")) {
          if (!list(`${folder}/${name}`)) return false;
        } else if (name.endsWith(".ts")) {
          const { size, mtime } = files.statSync(`${root}${folder}/${name}`);
          if (mtime === null || mtime.getTime() >= began) return false; // what runs may be what was there before
          lines.push(`${folder}/${name} ${size} ${mtime.getTime()}`);
        }
      }
      return true;
    };
    return folders.every(list) ? lines.join("\n") : undefined;
  } catch {
    return undefined;
  }
}

/** What names the scheduler beside the library: of a checkout its own sources. undefined where that cannot be told. */
export function schedulerText(url: string | undefined): string | undefined {
  return TREE.test(url ?? "") && url!.startsWith("file:") ? libraryText(url, SCHEDULING_FOLDERS) : "";
}

/** What a device can do, as text; undefined where that is told by functions of its own. */
export function capsText(name: string, caps: Capabilities): string | undefined {
  if (caps.hasGrid) return undefined;
  let isKnown = true;
  const { vectorLanes, ...rest } = caps;
  const text = JSON.stringify(rest, (_, v: unknown) => {
    if (typeof v === "function") isKnown = false;
    if (typeof v === "number" && !Number.isFinite(v)) return String(v);
    return v instanceof Object && "itemsize" in v ? String(v) : v;
  });
  return isKnown ? `${name} ${text} ${DTYPES.map((d) => vectorLanes(d)).join()}` : undefined;
}
