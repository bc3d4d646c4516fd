/**
 * `deno task test`: runs every test that this machine can run, says what was left out and why, and closes with
 * `N passed, N failed, N skipped`. A skip that no entry of `allowed_skips.json` explains is a failure.
 *
 * What was used is printed in lines "used: clang ...": compilers, adapters, browsers; `--require=clang,gcc,vulkan,chromium,node,mpi`
 * makes what was not used a failure. Other arguments are handed to `deno test`: files, `--filter=...`. Two processes run side
 * by side, and on machines of eight processors or more as many as those, each with a file of its own; the files that assert
 * wall times (timed.ts) come last, alone.
 *
 * @module
 */
import { findCompiler } from "../backends/clang/toolchain.ts";
import { context, Device } from "../mod.ts";
import { NO_VULKAN } from "./bare.ts";
import { isMeasuredAgain, joinRuns, splitTimed, testFiles, TIMED, timedFiles, toldAgain } from "./timed.ts";

const ROOT = new URL("../", import.meta.url);

export interface AllowedSkip {
  /** A regular expression on the name of the test. */
  readonly pattern: string;
  /** The device that must be absent: where it is here, the test may not be skipped for this reason. */
  readonly without?: string;
  readonly reason: string;
}

/** Why a test may be skipped where devices are absent; undefined where it may not. */
export function reasonFor(
  name: string,
  allowed: readonly AllowedSkip[],
  isHere: (device: string) => boolean,
): string | undefined {
  return allowed.find((a) => new RegExp(a.pattern).test(name) && (a.without === undefined || !isHere(a.without)))
    ?.reason;
}

export interface Case {
  readonly file: string;
  readonly name: string;
  readonly state: "passed" | "failed" | "skipped";
}

function unescape(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(?:#x([0-9a-fA-F]+)|#(\d+)|(\w+));/g, (all, hex, decimal, name) => {
    if (hex !== undefined) return String.fromCodePoint(parseInt(hex, 16));
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    return named[name] ?? all;
  });
}

/** What a tool of compute-sanitizer counts in what it printed: errors, or hazards of racecheck; -1 without a summary. */
export function sanitizerErrors(text: string): number {
  const count = /(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)/.exec(text)?.[1];
  return count === undefined ? -1 : Number(count);
}

/** The test cases of a JUnit report. */
export function parseReport(xml: string): Case[] {
  const cases: Case[] = [];
  for (const m of xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const attribute = (name: string) => unescape(new RegExp(`\\b${name}="([^"]*)"`).exec(m[1])?.[1] ?? "");
    const body = m[2] ?? "";
    const state = /<(?:failure|error)\b/.test(body) ? "failed" : /<skipped\b/.test(body) ? "skipped" : "passed";
    cases.push({ file: attribute("classname"), name: attribute("name"), state });
  }
  return cases;
}

/** How one `deno test` ended. */
export interface TestRun {
  /** What it was of, where it was one run. */
  readonly about?: string;
  readonly code: number;
  readonly cases: readonly Case[];
}

/** Opens the device that DEV names, in each test file before it loads. */
const preload = Deno.env.get("DEV") ? ["--preload=tests/fixtures/open_default.ts"] : [];

/** One `deno test`: its arguments and environment, and a name of what it is about. */
interface Job {
  readonly about: string;
  readonly args: readonly string[];
  readonly env?: Record<string, string>;
  /** The cases that are meant, where the arguments leave others out; a filter reports those as skipped. */
  readonly only?: RegExp;
}

/** Writes all bytes at once: nothing of another job comes between them. */
function writeWhole(...parts: readonly Uint8Array[]): void {
  for (const bytes of parts) for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
}

/** Runs a job; its output is shown as it comes, or whole at its end, so that those of two do not mix. */
async function runTests({ args, env = {}, about, only }: Job, live: boolean): Promise<TestRun> {
  const dir = await Deno.makeTempDir({ prefix: "dinograd-test-" }), report = `${dir}/report.xml`;
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "--no-check", ...preload, `--junit-path=${report}`, ...args],
      cwd: ROOT,
      env,
      stdin: "null",
      stdout: live ? "inherit" : "piped",
      stderr: live ? "inherit" : "piped",
    }).spawn();
    const output = live ? undefined : await child.output(), { code } = output ?? await child.status;
    if (output !== undefined) writeWhole(new TextEncoder().encode(`\n${about}:\n`), output.stdout, output.stderr);
    try {
      const cases = parseReport(await Deno.readTextFile(report));
      return { about, code, cases: only === undefined ? cases : cases.filter((c) => only.test(c.name)) };
    } catch (error) {
      console.log(`deno test wrote no report of ${about}: ${(error as Error).message}`);
      return { about, code: code || 1, cases: [] };
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const CORES = navigator.hardwareConcurrency;
/** Processors from which each file is a job. */
const MANY = 8;
/** Processes side by side. */
const WORKERS = CORES < MANY ? Math.min(2, CORES) : CORES - 1;

/** Runs all jobs, as many at a time as there are processors for; the first is shown as it comes. */
async function runAll(jobs: readonly Job[]): Promise<TestRun[]> {
  const runs: TestRun[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < jobs.length) {
      const k = next++;
      runs[k] = await runTests(jobs[k], k === 0 || workers === 1);
    }
  };
  const workers = Math.min(WORKERS, jobs.length);
  await Promise.all(Array.from({ length: workers }, worker));
  return runs;
}

/** Runs files that assert wall times, with nothing beside them; what failed is measured again. */
async function runTimed(files: readonly string[], flags: readonly string[]): Promise<TestRun[]> {
  const joined: TestRun[] = [];
  for (const file of files) {
    const runs: TestRun[] = [];
    do runs.push(await runTests({ about: file, args: [...flags, file] }, true)); while (isMeasuredAgain(runs));
    joined.push(joinRuns(runs));
    for (const line of toldAgain(runs)) console.log(line);
  }
  return joined;
}

interface Compiler {
  readonly path: string;
  readonly version: string;
}

const isClang = ({ version }: Compiler): boolean => /clang/i.test(version);

/** Names of what was used, with more about it. */
type Used = Map<string, string>;

function passed(run: TestRun, start: string): number {
  return run.cases.filter((c) => c.state === "passed" && c.name.startsWith(start)).length;
}

/** What is used where cases pass whose names start so. */
const COUNTED: readonly (readonly [name: string, start: string])[] = [
  ["chromium", "Chromium WASM"],
  ["node", "the package in node"],
  ["bun", "the package in bun"],
  ["mpi", "mpi: Open MPI"],
  ["mpich", "mpi: MPICH"],
];

/** What the cases of a run that passed have used; `compiler` is that of CLANG in this run. */
function noteUsed(used: Used, run: TestRun, compiler: Compiler | undefined, adapter?: string): void {
  const kernels = passed(run, "golden CLANG");
  if (kernels > 0 && compiler !== undefined) {
    const { path, version } = compiler;
    used.set(isClang(compiler) ? "clang" : "gcc", `${path} (${version}), ${kernels} golden cases of CLANG`);
  }
  const shaders = passed(run, "golden WEBGPU");
  if (shaders > 0) used.set("vulkan", `${adapter}, ${shaders} golden cases of WEBGPU`);
  for (const [name, start] of COUNTED) {
    const cases = passed(run, start);
    if (cases > 0) used.set(name, `${cases} cases`);
  }
}

/** The compiler that CLANG takes here; undefined without one. */
function compilerHere(): Compiler | undefined {
  if (!Device.list().find((d) => d.name === "CLANG")!.available) return undefined;
  try {
    const { compiler, version } = Device.get("CLANG").info();
    return { path: String(compiler), version: String(version) };
  } catch {
    return undefined;
  }
}

const GOLDEN = "tests/golden/golden_test.ts";
/** About as much to do as golden cases are. */
const TENSORS = ["tests/tensor", "tests/programs", "tests/system", "tests/web"];
/** What is built on tensors: models in and out, several devices, what tells of programs. */
const MODELS = ["llm", "onnx", "tfjs", "export", "story", "dist", "collectives", "train"].map((f) => `tests/${f}`);
/** The parts of golden cases that are jobs of their own where there are many processors and DEV names no device. */
const PARTS = ["reference", "JS", "WASM", "CLANG", "WEBGPU"];

/** All test files but those that assert wall times: in four jobs, or, for many processors, each as one. */
function jobsOfAll(flags: readonly string[]): Job[] {
  // WEBGPU with 8 storage buffers and bindings of 128 MiB, what every adapter has; with what this one has, some cases
  const golden = { about: "golden cases", args: [...flags, GOLDEN], env: { WEBGPU_LIMITS: "default" } };
  if (CORES < MANY) {
    const apart = [TIMED, GOLDEN, ...TENSORS, ...MODELS].join(",");
    return [
      { about: "other tests", args: [...flags, `--ignore=${apart}`, "tests/"] },
      { about: "tensors, pages and programs", args: [...flags, `--ignore=${TIMED}`, ...TENSORS] },
      { about: "models, ranks and explanations", args: [...flags, `--ignore=${TIMED}`, ...MODELS] },
      golden,
    ];
  }
  const cases = PARTS.map((part): Job => {
    const only = `^golden ${part}:`;
    return {
      ...golden,
      about: `golden cases, ${part}`,
      args: [...flags, `--filter=/${only}/`, GOLDEN],
      only: new RegExp(only),
    };
  });
  const timed = timedFiles(ROOT),
    sized = testFiles(ROOT).filter((f) => f !== GOLDEN && !timed.includes(f)).map((path) => {
      return { path, size: Deno.statSync(new URL(path, ROOT)).size };
    });
  const isWhole = flags.some((f) => f.startsWith("--filter")) || Boolean(Deno.env.get("DEV"));
  return [
    ...isWhole ? [golden] : cases,
    // the largest first, since they take longest
    ...sized.sort((a, b) => b.size - a.size).map(({ path }): Job => ({ about: path, args: [...flags, path] })),
  ];
}

/** The suites that run once more by gcc, where clang is what CLANG takes: values must be the same by both, of each program. */
const BY_EACH_COMPILER = [
  GOLDEN,
  "tests/fuzz/programs_test.ts",
  "tests/fuzz/floats_test.ts",
  "tests/tensor/symbolic/symbolic_ops_test.ts",
  "tests/programs",
];

async function main(args: readonly string[]): Promise<number> {
  const required = args.find((a) => a.startsWith("--require="))?.slice("--require=".length).split(",") ?? [];
  args = args.filter((a) => !a.startsWith("--require="));
  console.log("devices:");
  for (const { name, reason } of Device.list()) {
    console.log(`  ${name.padEnd(8)} ${reason === undefined ? "tested" : `left out: ${reason}`}`);
  }
  const files = args.filter((a) => !a.startsWith("-") && a !== "");
  const flags = args.filter((a) => a.startsWith("-") && a !== "--");
  const started = performance.now();
  const used: Used = new Map(), compiler = compilerHere();
  const adapter = await Device.open("WEBGPU").then((d) => String(d.info().adapter), () => undefined);
  const jobs: Job[] = [], other = context({ CC: "gcc" }, () => findCompiler());
  const { timed, others } = splitTimed(files.length > 0 ? files : ["tests"], timedFiles(ROOT), ROOT);
  const untimed = [...flags, `--ignore=${TIMED}`];
  if (files.length > 0) { if (others.length > 0) jobs.push({ about: "tests", args: [...untimed, ...others] }); }
  else {
    jobs.push(...jobsOfAll(flags));
    // what codegen makes for cards is right, also where there is none: a card's limits, and WebGPU's on one
    for (const [grid, every] of [["cuda", "1"], ["webgpu", "4"]]) {
      jobs.push({
        about: `golden cases on a simulated grid, ${grid}`,
        args: [...flags, "--filter=/golden SIM/", GOLDEN],
        env: { DEV: "SIM", SIM: grid, GOLDEN_EVERY: every },
        only: /^golden SIM/,
      });
    }
    if (adapter !== undefined) {
      jobs.push({
        about: "golden cases with all that the adapter has",
        args: [...flags, "--filter=/golden WEBGPU/", GOLDEN],
        env: { DEV: "WEBGPU", GOLDEN_EVERY: "8" },
        only: /^golden WEBGPU/,
      });
    }
    if (compiler !== undefined && isClang(compiler) && other !== undefined) {
      const only = /CLANG|programs on all devices/,
        args = [...flags, `--filter=${only}`, ...BY_EACH_COMPILER];
      // no adapter is needed, and one in software takes its threads into the end of the process
      const env = { CC: other, GOLDEN_MOST: "2", ...NO_VULKAN };
      jobs.push({ about: "once more by gcc", args, env, only });
    }
  }
  const runs = await runAll(jobs);
  runs.forEach((run, k) => {
    const by = jobs[k].env?.CC;
    noteUsed(used, run, by === undefined ? compiler : { path: by, version: "gcc" }, adapter);
  });
  runs.push(...await runTimed(timed, flags));
  const code = runs.find((r) => r.code !== 0)?.code ?? 0;
  const cases = runs.flatMap((r) => r.cases);
  const allowed = JSON.parse(await Deno.readTextFile(new URL("allowed_skips.json", import.meta.url))) as AllowedSkip[];
  const isHere = (device: string): boolean =>
    device === "WEBGPU" ? adapter !== undefined : Device.list().some((d) => d.name === device && d.available);
  let failed = cases.filter((c) => c.state === "failed").length;
  const skipped = cases.filter((c) => c.state === "skipped");
  const reasons = new Map<string, string[]>();
  for (const c of skipped) {
    const why = reasonFor(c.name, allowed, isHere);
    if (why === undefined) failed++;
    const list = reasons.get(why ?? "NOT ALLOWED: no reason in tests/allowed_skips.json");
    if (list === undefined) reasons.set(why ?? "NOT ALLOWED: no reason in tests/allowed_skips.json", [c.name]);
    else list.push(c.name);
  }
  if (reasons.size > 0) console.log("left out:");
  for (const [why, names] of reasons) {
    console.log(`  ${why}:`);
    for (const name of names) console.log(`    ${name}`);
  }
  for (const [name, what] of used) console.log(`used: ${name}: ${what}`);
  for (const name of required) {
    if (used.has(name)) continue;
    failed++;
    console.log(`failed: ${name} is required, and was not used`);
  }
  // what docs/coverage.md says that tests assert
  const asserted = JSON.parse(await Deno.readTextFile(new URL("pages/asserted.json", import.meta.url)));
  for (
    const [row, [file, name]] of files.length > 0 || flags.length > 0 ? [] : Object.entries<[string, string]>(asserted)
  ) {
    if (cases.some((c) => c.state === "passed" && c.name === name && c.file.endsWith(file))) continue;
    failed++;
    console.log(
      `failed: ${row} of docs/coverage.md: there is no test "${name}" in ${file} that passed: deno task coverage`,
    );
  }
  for (const c of cases) if (c.state === "failed") console.log(`failed: ${c.file} ${c.name}`);
  // A module that does not load has no case of its own.
  for (const run of runs) {
    if (run.code === 0 || run.cases.some((c) => c.state === "failed")) continue;
    failed++;
    console.log(`failed: ${run.about ?? "a file"} ended with ${run.code}`);
  }
  const good = cases.filter((c) => c.state === "passed").length;
  console.log(`${((performance.now() - started) / 1000).toFixed(1)} s`);
  console.log(`${good} passed, ${failed} failed, ${skipped.length} skipped`);
  return failed === 0 && code === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
