/** Ranks of a program by the launchers that are here: Open MPI's and MPICH's. @module */
import { runCommand } from "../system/subprocess.ts";
import type { Outcome } from "../system/subprocess.ts";

/** A launcher: its name, and how it starts ranks. */
export interface Launcher {
  readonly name: "Open MPI" | "MPICH";
  /** What it is called and its options before the number of ranks; undefined where it is not here. */
  readonly command: readonly string[] | undefined;
}

/** The first of `programs` that says `text` of itself. */
function find(programs: readonly string[], text: RegExp): string | undefined {
  for (const program of programs) {
    try {
      const { stdout, stderr } = new Deno.Command(program, { args: ["--version"], stdin: "null" }).outputSync();
      if (text.test(new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr))) return program;
    } catch { /* no such program */ }
  }
}

const openMpi = find(["mpirun.openmpi", "mpirun"], /Open MPI/);
const mpich = find(["mpiexec.hydra", "mpirun.mpich", "mpirun"], /HYDRA/i);

/** Both launchers. */
export const LAUNCHERS: readonly Launcher[] = [
  { name: "Open MPI", command: openMpi && [openMpi, "--oversubscribe"] },
  { name: "MPICH", command: mpich && [mpich] },
].map(({ name, command }) => ({ name: name as Launcher["name"], command: command || undefined }));

/** Runs a program of the project in `ranks` processes, for `seconds` at most; `timeout` then ends them with code 124. */
export function runRanks(
  { command }: Launcher,
  ranks: number,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  seconds = 60,
): Promise<Outcome> {
  const root = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" };
  const deno = [Deno.execPath(), "run", "-A", "--no-check", ...args];
  return runCommand("timeout", ["-k", "2", String(seconds), ...command!, "-n", String(ranks), ...deno], {
    env: { THREADS: "1", ...root, ...env },
    timeoutMs: 1e3 * (seconds + 10), // after the other: what it says is the better of the two
  });
}
