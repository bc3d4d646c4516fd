/**
 * Tests whose assertion is a wall time, or a ratio of wall times: files `*_timed_test.ts`. What else runs meanwhile is part
 * of what they measure, so `tests/run.ts` runs them last, alone, and measures again what failed: where a change has made
 * something slow, it is slow each time.
 *
 * @module
 */
import { matchesGlob } from "node:path";
import type { TestRun } from "./run.ts";

/** For `deno test --ignore`, which then leaves them out of folders that it is given. */
export const TIMED = "**/*_timed_test.ts";
/** How often a case may be measured until it fails. */
export const MOST_MEASURED = 3;

/** The test files of a folder and of those in it, as paths that begin with its own. */
export function testFiles(root: URL, folder = "tests"): string[] {
  const paths: string[] = [];
  for (const { name, isDirectory } of Deno.readDirSync(new URL(`${folder}/`, root))) {
    const path = `${folder}/${name}`;
    if (isDirectory) paths.push(...testFiles(root, path));
    else if (name.endsWith("_test.ts")) paths.push(path);
  }
  return paths.sort();
}
/** Those among them that assert wall times. */
export function timedFiles(root: URL, folder = "tests"): string[] {
  return testFiles(root, folder).filter((path) => path.endsWith("_timed_test.ts"));
}

/** Whether a file of the project is what an argument of `deno test` (a file, folder or glob of it) names. */
function isNamed(file: string, arg: string, root: URL): boolean {
  const path = arg.replace(root.pathname, "").replace(/^(\.\/)+/, "").replace(/\/+$/, "");
  return path === "." || path === "" || file === path || file.startsWith(`${path}/`) || matchesGlob(file, path);
}

/** The files of `timed` that arguments name, and the arguments that name others, or none. */
export function splitTimed(
  args: readonly string[],
  timed: readonly string[],
  root: URL,
): { readonly timed: string[]; readonly others: string[] } {
  return {
    timed: timed.filter((file) => args.some((a) => isNamed(file, a, root))),
    others: args.filter((a) => !a.endsWith("_timed_test.ts") || !timed.some((file) => isNamed(file, a, root))),
  };
}

/** Whether a file that was run so is to be measured again: what failed is a case, and may have been an accident. */
export function isMeasuredAgain(runs: readonly TestRun[]): boolean {
  return runs.length < MOST_MEASURED && joinRuns(runs).cases.some((c) => c.state === "failed");
}

/**
 * Several runs of a file as one: each case once, as it ended, or passed where it has passed in one of them. The code is
 * that of a run which ended badly for another reason than a case, else what follows from the cases.
 */
export function joinRuns(runs: readonly TestRun[]): TestRun {
  const cases = new Map<string, TestRun["cases"][number]>();
  for (const run of runs) {
    const seen = new Map<string, number>();
    for (const c of run.cases) {
      const nth = (seen.get(c.name) ?? 0) + 1, key = `${c.name}\0${nth}`;
      seen.set(c.name, nth);
      if (cases.get(key)?.state !== "passed") cases.set(key, c);
    }
  }
  const other = runs.find((r) => r.code !== 0 && !r.cases.some((c) => c.state === "failed"));
  const all = [...cases.values()];
  return { code: other?.code ?? (all.some((c) => c.state === "failed") ? 1 : 0), cases: all };
}

/** What became of the cases that failed at first, a line each. */
export function toldAgain(runs: readonly TestRun[]): string[] {
  const lines: string[] = [];
  for (const { file, name, state } of joinRuns(runs).cases) {
    const states = runs.map((r) => r.cases.find((c) => c.name === name)?.state);
    const failures = states.filter((s) => s === "failed").length;
    if (runs.length === 1 || failures === 0) continue;
    lines.push(`measured again: ${file} ${name}: ${state}, after ${failures} of ${runs.length} failed`);
  }
  return lines;
}
