/**
 * What sources say of themselves that keys of stored kernels and schedules must have: the flags that they read, and the
 * modules that they are made of.
 *
 * @module
 */
import { specifiersOf } from "../../support/specifiers.ts";
import { ROOT } from "../../system/subprocess.ts";

/** Where files of a folder read flags that are none of these. */
export function otherFlags(folder: string, known: ReadonlySet<string>): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return otherFlags(`${folder}${name}/`, known);
    const flags = Deno.readTextFileSync(new URL(folder + name, ROOT)).matchAll(/\benv(?:Number|Text)\(\s*"?(\w+)/g);
    return [...flags].map(([, flag]) => flag).filter((flag) => !known.has(flag)).map((f) => `${folder}${name}: ${f}`);
  });
}

/** All modules that these import, themselves included, by their paths in the project. */
export function modulesOf(roots: readonly string[]): Set<string> {
  const seen = new Set<string>();
  const visit = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    const url = new URL(path, "file:///");
    for (const s of specifiersOf(Deno.readTextFileSync(new URL(`.${path}`, ROOT)))) visit(new URL(s, url).pathname);
  };
  roots.forEach(visit);
  return seen;
}

/** Those that are in none of these folders. */
export function outsideOf(folders: readonly string[], modules: Iterable<string>): string[] {
  return [...modules].filter((path) => !folders.some((f) => path.startsWith(f + "/")));
}
