/** Deno as a child process, for tests of what a user types. @module */

/** The folder of the project. */
export const ROOT: URL = new URL("../../", import.meta.url);

/** What a process left. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How to start it. */
export interface SpawnOptions {
  /** Beside the environment of this process. DEV and DEBUG are empty, colors off, unless set here. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the project. */
  readonly cwd?: string | URL;
  /** Kills the process then; its code is 143. */
  readonly timeoutMs?: number;
}

/** Runs a program to its end, without standard input. */
export async function runCommand(
  command: string | URL,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<Outcome> {
  const process = new Deno.Command(command, {
    args: [...args],
    cwd: options.cwd ?? ROOT,
    env: { NO_COLOR: "1", DEV: "", DEBUG: "0", ...options.env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => process.kill("SIGTERM"), options.timeoutMs ?? 120_000);
  const { code, stdout, stderr } = await process.output();
  clearTimeout(timer);
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** Runs a script that imports packages of npm; undefined, and told, where these cannot be fetched. */
export async function runWithNpm(what: string, ...script: readonly string[]): Promise<Outcome | undefined> {
  const outcome = await runDeno(["run", "-A", "--no-check", "--no-lock", ...script]), { code, stderr } = outcome;
  const isFetched = code === 0 || /AssertionError/.test(stderr) ||
    !/registry\.npmjs\.org|npm package|Failed loading/.test(stderr);
  if (!isFetched) console.log(`npm's ${what} cannot be fetched: its checks are left out`);
  return isFetched ? outcome : undefined;
}

/** Runs this Deno with `args` to its end. */
export function runDeno(args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  return runCommand(Deno.execPath(), args, options);
}
