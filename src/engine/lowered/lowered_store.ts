/**
 * Lowered kernels on disk, for devices of loops: a kernel that an earlier process has lowered is read, and not made again.
 * A file a kernel, named by a digest of all that lowering depends on: the kernel itself, what the device can do, the flags
 * that passes read, and this library, by the sizes and times of its sources or, in a package, by what is in its files.
 * What is damaged, or does not read back as the very same kernel, is as good as absent.
 *
 * @module
 */
import type { Device } from "../../device/device.ts";
import { cacheRoot, hostFiles, mayReadFolder, mayUseFolder } from "../../device/host_files.ts";
import { digest } from "../../device/object_cache.ts";
import { DTYPES } from "../../dtype/dtype.ts";
import { type ContextVar, envNumber } from "../../helpers/env.ts";
import { type Capabilities, type LinearProgram, programOf, type Renderer } from "../../renderer/renderer.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { TextArg } from "../../uop/core/custom_arg.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { isRecording } from "../../uop/rewrite/record.ts";
import { debugPrint } from "../front/listening.ts";
import { graphOf, graphText } from "./stored_graph.ts";

/** Flags that lowering reads, or may come to. */
export const LOWERING_FLAGS: readonly ContextVar[] = ["NOOPT", "ALLOW_TF32", "BEAM", "TMA", "PTX"];
/** Flags under which kernels are lowered to be looked at, and none is read. */
export const WATCHING_FLAGS: readonly ContextVar[] = ["SPEC", "TRACK_MATCH_STATS"];
/** So much of what is printed tells of rewrites. */
const PRINTS_REWRITES = 6;
/** Kernels that are kept of one library, and libraries. Those written first go first. */
const MOST_KERNELS = 8192, MOST_LIBRARIES = 4;
/** How much is left where there was too much. */
const LEFT_FULL = 0.75;
/** How an entry of a file begins; a digest follows. */
const MARK = "lowered ", CHECK_LENGTH = 32;
/** How files of the package are named. */
const PACKAGE_FILE = /^(file:.*\/)dinograd(?:[-.][^/]*)?\.js$/;

/**
 * What names the library that is running, whose module `url` is: what lowered something under another text may have been
 * another compiler. undefined where that cannot be told, as of sources that changed after the process began.
 */
export function libraryText(url: string | undefined): string | undefined {
  const files = hostFiles();
  if (url === undefined || files === undefined) return undefined;
  const tree = /^(.*)\/src\/engine\/lowered\/[^/]*$/.exec(url)?.[1], inPackage = PACKAGE_FILE.exec(url);
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
    return list("/src") && list("/backends") ? lines.join("\n") : undefined;
  } catch {
    return undefined;
  }
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

/** What is written of a program, beside its list. */
interface Head {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  readonly opts: string | undefined;
  readonly streams: boolean;
}

/** A lowered kernel as text, which reads back as the same; undefined for one that does not. */
export function programText(p: LinearProgram): string | undefined {
  const { name, flops, bytes, opts, streams = false, uops } = p;
  if (p.text !== undefined || p.grid !== undefined || p.maps !== undefined) return undefined;
  if (!Number.isFinite(flops) || !Number.isFinite(bytes)) return undefined;
  const list = graphText(uops);
  if (list === undefined) return undefined;
  const text = `${JSON.stringify({ name, flops, bytes, opts, streams } satisfies Head)}\n${list}`,
    made = programFrom(text);
  // of nodes that are equal and yet two, one would be left
  return made !== undefined && graphText(made.uops) === list && isSame(made, p) ? text : undefined;
}

/** Whether all that follows from the list of a program is what it was. */
function isSame(a: LinearProgram, b: LinearProgram): boolean {
  if (a.threads !== b.threads || a.params.length !== b.params.length || a.vars.length !== b.vars.length) return false;
  if (a.vars.some((u, i) => u.dtype !== b.vars[i].dtype || String(u.arg) !== String(b.vars[i].arg))) return false;
  return a.params.every((p, i) => {
    const o = b.params[i];
    return p.slot === o.slot && p.dtype === o.dtype && p.size === o.size && p.reads === o.reads &&
      p.writes === o.writes;
  });
}

/** The program that {@linkcode programText} wrote. */
export function programFrom(text: string): LinearProgram | undefined {
  const end = text.indexOf("\n"), { name, flops, bytes, opts, streams } = JSON.parse(text.slice(0, end)) as Head;
  const uops = graphOf(text.slice(end + 1));
  if (uops === undefined) return undefined;
  const made = programOf(name, uops, flops, bytes);
  return { ...made, ...(opts === undefined ? {} : { opts }), ...(streams ? { streams } : {}) };
}

/** Kernels read, written, and found damaged so far in this process. */
export const storeStats: { read: number; written: number; damaged: number } = { read: 0, written: 0, damaged: 0 };
let library: { readonly text: string | undefined } | undefined;
const identities = new WeakMap<Renderer, { readonly text: string | undefined }>();
const stores = new Map<string, LoweredStore>();

/** The lowered kernels of one cache folder and one library. */
class LoweredStore {
  private readonly folder: string;
  private isSwept = false;
  private canWrite = true;

  /** @param root of the cache @param library as {@linkcode libraryText} names it */
  constructor(private readonly root: string, library: string) {
    this.folder = `${root}/lowered/${digest(library).slice(0, 16)}`;
  }

  private path(key: string): string {
    return `${this.folder}/${key}`;
  }

  /** What is known under a key; undefined where that is nothing, or damaged. */
  get(key: string): LinearProgram | undefined {
    let text: string;
    try {
      text = hostFiles()!.readTextFileSync(this.path(key));
    } catch {
      return undefined; // there is none yet
    }
    // what was torn, and written once more, has the last word
    for (let end = text.length; end > 0;) {
      const start = text.lastIndexOf(`\n${MARK}`, end - 1);
      if (start < 0) break;
      const check = text.slice(start + 1 + MARK.length, start + 1 + MARK.length + CHECK_LENGTH);
      const body = text.slice(start + 2 + MARK.length + CHECK_LENGTH, end).replace(/\n$/, "");
      if (check === digest(`${key}${body}`)) {
        storeStats.read++;
        return programFrom(body);
      }
      end = start;
    }
    storeStats.damaged++;
    if (envNumber("DEBUG") >= 1) debugPrint(`${this.path(key)} is damaged; its kernel is lowered again`);
    return undefined;
  }

  /** Keeps a program where it can be read back. */
  set(key: string, program: LinearProgram): void {
    if (!this.canWrite) return;
    const body = programText(program);
    if (body === undefined) return;
    try {
      const files = hostFiles()!;
      if (!this.isSwept) {
        this.isSwept = true;
        files.mkdirSync(this.folder, { recursive: true });
        this.sweep();
      }
      // one append: others see all of it, or what does not agree with its digest
      files.writeTextFileSync(this.path(key), `\n${MARK}${digest(`${key}${body}`)}\n${body}\n`, { append: true });
      storeStats.written++;
    } catch (error) {
      this.canWrite = false;
      if (envNumber("DEBUG") < 1) return;
      debugPrint(`${this.folder} cannot be written (${(error as Error).message}): kernels are lowered in each process`);
    }
  }

  /** Removes what was written first where there is too much, once a process. */
  private sweep(): void {
    const files = hostFiles()!;
    const oldest = (folder: string, most: number): string[] => {
      const names = [...files.readDirSync(folder)].map((e) => `${folder}/${e.name}`);
      if (names.length <= most) return [];
      const times = new Map(names.map((n) => [n, files.statSync(n).mtime?.getTime() ?? 0]));
      return names.sort((a, b) => times.get(b)! - times.get(a)!).slice(Math.ceil(most * LEFT_FULL));
    };
    try {
      const gone = [...oldest(`${this.root}/lowered`, MOST_LIBRARIES), ...oldest(this.folder, MOST_KERNELS)];
      for (const path of gone) if (path !== this.folder) files.removeSync(path, { recursive: true });
    } catch { /* another process does the same */ }
  }
}

/** The store for a device now: undefined where none is, or each kernel is to be lowered for those who watch. */
function storeNow({ name, renderer: { caps } }: Device): LoweredStore | undefined {
  if (caps.hasGrid || isRecording() || wantsNotes() || WATCHING_FLAGS.some((f) => envNumber(f) !== 0)) return undefined;
  if (envNumber("DEBUG") >= PRINTS_REWRITES || /^NULL\b/.test(name)) return undefined;
  let root: string | undefined;
  try {
    root = cacheRoot();
  } catch { /* relative to a folder that may not be asked for */ }
  if (root === undefined || !mayUseFolder(root)) return undefined;
  let store = stores.get(root);
  if (store === undefined) {
    library ??= { text: libraryText(import.meta.url) };
    if (library.text === undefined) return undefined;
    const runtime = (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent ?? "";
    stores.set(root, store = new LoweredStore(root, `${runtime}\n${library.text}`));
  }
  return store;
}

/** The key of a kernel for a device: a digest of all that lowering reads; undefined where that cannot be told. */
export function loweredKey(ast: UOp, renderer: Renderer): string | undefined {
  if (ast.arg instanceof TextArg) return undefined; // nothing is lowered
  let identity = identities.get(renderer);
  if (identity === undefined) identities.set(renderer, identity = { text: capsText(renderer.name, renderer.caps) });
  if (identity.text === undefined) return undefined;
  const text = graphText([ast]);
  if (text === undefined) return undefined;
  return digest(`${identity.text}\n${LOWERING_FLAGS.map((f) => envNumber(f)).join()}\n${text}`);
}

/** The lowered kernel of the store, else what `lower` makes, which is then kept. */
export function loweredBefore(ast: UOp, device: Device, lower: () => LinearProgram): LinearProgram {
  const store = storeNow(device), key = store === undefined ? undefined : loweredKey(ast, device.renderer);
  if (store === undefined || key === undefined) return lower();
  const known = store.get(key);
  if (known !== undefined) return known;
  const made = lower();
  store.set(key, made);
  return made;
}
