/**
 * `deno task test:cuda`: on a machine with an NVIDIA card, the op suites on CUDA with kernels by NVRTC and again as PTX,
 * and what is tested of the card itself. Suites are processes of their own and run side by side, so that a kernel that takes
 * the device with it ends one of them only; files that assert wall times are left to `deno task test`, which runs them alone.
 *
 * - `--report out.json`: what passed and failed, by run
 * - `--only nvrtc` or `ptx`: kernels that way alone; `--suites golden,tensor`: those alone
 * - `--jobs N`: processes at a time (half the processors)
 * - `--sanitize memcheck,racecheck`: also under these tools of compute-sanitizer, where that is found
 * - `--logs folder`: the output of each run
 *
 * @module
 */
import { Device } from "../mod.ts";
import { option } from "../bench/json.ts";
import { parseReport, sanitizerErrors } from "./run.ts";
import { TIMED } from "./timed.ts";

const ROOT = new URL("../", import.meta.url);

/** Suites by name, as paths, each a process. Those of `card` choose their kernels themselves. */
export const SUITES: Readonly<Record<string, readonly string[]>> = {
  card: [
    "tests/backends/cuda/cuda_card_test.ts",
    "tests/backends/cuda/cuda_test.ts",
    "tests/backends/cuda/cuda_errors_test.ts",
  ],
  programs: ["tests/backends/cuda/cuda_programs_test.ts"],
  golden: ["tests/golden/golden_test.ts"],
  gradient: ["tests/gradient_test.ts"],
  tensor: ["tests/tensor/*_test.ts"],
  tensor_index: ["tests/tensor/index/"],
  tensor_math: ["tests/tensor/math/"],
  tensor_ops: ["tests/tensor/ops/"],
  tensor_jit: ["tests/tensor/jit/", "tests/tensor/symbolic/", "tests/tensor/transforms/"],
  tensor_handle: ["tests/tensor/gradients/", "tests/tensor/handle/", "tests/tensor/images/", "tests/tensor/nodes/"],
  nn: ["tests/nn/", "tests/state/"],
  schedule: ["tests/schedule/"],
};
/** What the sanitizers run: kernels of every op, in little time. */
const SANITIZED: readonly string[] = ["programs", "card", "golden"];

interface Run {
  readonly name: string;
  readonly suite: string;
  readonly env: Readonly<Record<string, string>>;
  /** A tool of compute-sanitizer. */
  readonly tool?: string;
}
interface Outcome {
  readonly name: string;
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: number;
  readonly seconds: number;
  readonly code: number;
  /** What the sanitizer counted. */
  readonly errors?: number;
}

const SANITIZER_EXIT = 86;

async function runSuite({ name, suite, env, tool }: Run, logs: string): Promise<Outcome> {
  const report = `${logs}/${name}.xml`, started = performance.now();
  // the device that DEV names is opened before tests, which would be blamed for its library
  const preload = "DEV" in env ? ["--preload=tests/fixtures/open_default.ts"] : [];
  const args = [
    "test",
    "-A",
    "--no-check",
    ...preload,
    `--junit-path=${report}`,
    `--ignore=${TIMED}`,
    ...SUITES[suite],
  ];
  const sanitizer = ["--tool", tool ?? "", "--error-exitcode", String(SANITIZER_EXIT), "--target-processes", "all"];
  const command = new Deno.Command(tool === undefined ? Deno.execPath() : "compute-sanitizer", {
    args: tool === undefined ? args : [...sanitizer, Deno.execPath(), ...args],
    cwd: ROOT,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder(), text = decoder.decode(stdout) + decoder.decode(stderr);
  await Deno.writeTextFile(`${logs}/${name}.log`, text);
  const cases = await Deno.readTextFile(report).then(parseReport, () => []);
  const failed = cases.filter((c) => c.state === "failed").map((c) => c.name);
  // a module that does not load, or a process that ends early, has no case of its own
  if (code !== 0 && failed.length === 0 && tool === undefined) failed.push(`the process ended with ${code}`);
  return {
    name,
    passed: cases.filter((c) => c.state === "passed").length,
    failed,
    skipped: cases.filter((c) => c.state === "skipped").length,
    seconds: Math.round((performance.now() - started) / 100) / 10,
    code,
    ...(tool !== undefined ? { errors: sanitizerErrors(text) } : {}),
  };
}

function list(args: readonly string[], name: string): string[] | undefined {
  return option(args, name)?.split(",").filter((s) => s !== "");
}

function hasSanitizer(): boolean {
  try {
    return new Deno.Command("compute-sanitizer", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync()
      .success;
  } catch {
    return false;
  }
}

function isGood(o: Outcome): boolean {
  return o.failed.length === 0 && (o.errors === undefined ? o.code === 0 : o.errors === 0);
}

async function main(args: readonly string[]): Promise<number> {
  const why = Device.list().find((d) => d.name === "CUDA")?.reason;
  if (why !== undefined) {
    console.log(`nothing was tested: CUDA is not available: ${why}`);
    return 0;
  }
  const suites = list(args, "suites") ?? Object.keys(SUITES), only = option(args, "only");
  const unknown = suites.filter((s) => !(s in SUITES));
  if (unknown.length > 0) throw new Error(`no suite ${unknown}; known are ${Object.keys(SUITES)}`);
  const logs = option(args, "logs") ?? await Deno.makeTempDir({ prefix: "dinograd-cuda-" });
  await Deno.mkdir(logs, { recursive: true });
  const runs: Run[] = [];
  for (const suite of suites) {
    if (suite === "card") runs.push({ name: "card", suite, env: {} });
    else {
      for (const [way, env] of [["nvrtc", { PTX: "0" }], ["ptx", { PTX: "1" }]] as const) {
        if (only === undefined || only === way) {
          runs.push({ name: `${suite}-${way}`, suite, env: { DEV: "CUDA", ...env } });
        }
      }
    }
  }
  const tools = list(args, "sanitize") ?? [];
  if (tools.length > 0 && !hasSanitizer()) console.log("compute-sanitizer was not found: nothing is sanitized");
  else {
    for (const tool of tools) {
      for (const suite of suites.filter((s) => SANITIZED.includes(s))) {
        runs.push({ name: `${suite}-${tool}`, suite, tool, env: { DEV: "CUDA", SANITIZED: "1" } });
      }
    }
  }
  const outcomes: Outcome[] = [],
    jobs = Number(option(args, "jobs") ?? Math.max(1, navigator.hardwareConcurrency >> 1));
  const waiting = [...runs];
  const worker = async (): Promise<void> => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) {
      const o = await runSuite(run, logs);
      outcomes.push(o);
      const sanitizer = o.errors === undefined
        ? ""
        : `, sanitizer: ${o.errors < 0 ? "no summary" : `${o.errors} errors`}`;
      console.log(
        `${isGood(o) ? "good" : "BAD "} ${o.name.padEnd(20)} ${o.passed} passed, ${o.failed.length} failed, ` +
          `${o.skipped} skipped${sanitizer} in ${o.seconds} s`,
      );
      for (const name of o.failed) console.log(`       ${name}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  const report = option(args, "report"), device = Device.get("CUDA");
  if (report !== undefined) {
    const text = { date: new Date().toISOString(), device: device.info(), outcomes };
    await Deno.writeTextFile(report, `${JSON.stringify(text, null, 1)}\n`);
  }
  const sum = (of: (o: Outcome) => number): number => outcomes.reduce((n, o) => n + of(o), 0);
  console.log(`logs in ${logs}`);
  console.log(
    `${sum((o) => o.passed)} passed, ${sum((o) => o.failed.length)} failed, ${sum((o) => o.skipped)} skipped`,
  );
  return outcomes.every(isGood) ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
