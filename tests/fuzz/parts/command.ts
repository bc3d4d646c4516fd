/**
 * What the commands of generators have in common: cases of a seed, one after the other on a device, until so many have
 * failed or the time is up.
 *
 * @module
 */
import { Device } from "../../../mod.ts";
import { parseArgs } from "../../support/parse_args.ts";

/** Which cases are run, and for how long. */
export interface CaseOptions {
  readonly seed: number;
  readonly count: number;
  readonly seconds: number;
  readonly device: string;
  /** Only this case. */
  readonly only?: number;
  /** Stop after so many. */
  readonly failures?: number;
  readonly log?: (text: string) => void;
}

/** Runs cases until the time is up. `check` gives what is wrong with one, and its program where that is to be told. */
export async function runCases(
  { seed, count, seconds, only, failures: most = 1, log = () => {} }: Omit<CaseOptions, "device">,
  check: (at: number) => string | undefined | Promise<string | undefined>,
): Promise<{ programs: number; failures: string[] }> {
  const deadline = performance.now() + seconds * 1000, failures: string[] = [];
  let programs = 0;
  for (let at = only ?? 0; at < (only === undefined ? count : only + 1) && performance.now() < deadline; at++) {
    const why = await check(at);
    programs++;
    if (why !== undefined) {
      failures.push(`seed ${seed} case ${at}: ${why}`);
      log(failures.at(-1)!);
      if (failures.length >= most) break;
    }
    await new Promise((done) => setTimeout(done, 0)); // finalizers
  }
  return { programs, failures };
}

/** The options of the command line: --seed --count --case --device --failures --seconds, and --show. The device is open, and the default. */
export async function caseOptions(
  defaults: Omit<CaseOptions, "seconds" | "device">,
): Promise<Required<Omit<CaseOptions, "only">> & { readonly only?: number; readonly show: boolean }> {
  const given = parseArgs(Deno.args, {
    string: ["seed", "count", "case", "device", "failures", "seconds"],
    boolean: ["show"],
  });
  const device = given.device ?? "WASM";
  await Device.open(device);
  Device.default = device;
  return {
    device,
    seed: Number(given.seed ?? defaults.seed),
    count: Number(given.count ?? defaults.count),
    seconds: Number(given.seconds ?? 600),
    only: given.case === undefined ? undefined : Number(given.case),
    failures: Number(given.failures ?? defaults.failures ?? 1),
    log: (text) => console.log(text),
    show: given.show,
  };
}

/** A generator's command: how many of its cases fail, and an exit with 1 where some do. */
export async function checkCommand(
  check: (seed: number, at: number) => string | undefined | Promise<string | undefined>,
  failures: number,
): Promise<void> {
  const options = await caseOptions({ seed: 1, count: 1000, failures });
  const found = await runCases(options, (at) => check(options.seed, at));
  console.log(`${found.programs} programs on ${options.device}, ${found.failures.length} failures`);
  if (found.failures.length > 0) Deno.exit(1);
}
