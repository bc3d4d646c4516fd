/**
 * A generator's cases shared among programs: a run with `--jobs 4` starts four of itself, each with the cases whose number
 * leaves another rest. What they print comes out as it is; the exit says whether any found something.
 *
 * @module
 */

/** Which cases are this program's: those with `number % parts === part`. */
export interface Part {
  readonly part: number;
  readonly parts: number;
}

/** The part that `--part` and `--parts` name; all of them where they are absent. */
export function partOf(args: { readonly part?: string; readonly parts?: string }): Part {
  return { part: Number(args.part ?? 0), parts: Number(args.parts ?? 1) };
}

/** Which random cases a command line asks for: `--seed`, and `--case`, one, or `--count` from the first on. */
export function casesOf(
  args: { readonly seed?: string; readonly case?: string; readonly count?: string },
  count: number,
): { seed: number; from: number; count: number } {
  const seed = Number(args.seed ?? 1);
  return args.case === undefined
    ? { seed, from: 0, count: Number(args.count ?? count) }
    : { seed, from: Number(args.case), count: 1 };
}

/** Runs `script` with this program's arguments in `jobs` parts; how many of them failed. */
export async function runParts(script: string, jobs: number): Promise<number> {
  const runs = Array.from({ length: jobs }, (_, part) =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", script, ...Deno.args, "--jobs=1", `--part=${part}`, `--parts=${jobs}`],
      stdout: "inherit",
      stderr: "inherit",
    }).output());
  return (await Promise.all(runs)).filter((run) => !run.success).length;
}
