/**
 * Random tensor programs: each is computed by the reference from its unscheduled graph, then on every open device, as the
 * code generator optimizes it and with `NOOPT=1`. Results must agree within the error bounds that tracked.ts derives, and
 * gradients with differences (gradients.ts). A failure is shrunk and printed as a script that a person can run.
 *
 * Run: `deno run -A tests/fuzz/programs.ts --seconds 120 --seed 1`. Other options: `--count 10000` (so many, in 600 seconds
 * unless told otherwise), `--jobs 2` (in so many programs, with one `--seed`), `--devices JS,WASM,SIM`, `--case 17` (only
 * that one), `--failures 5` (stop after as many), `--trace` (name each case before it runs).
 */
import { parseArgs } from "@std/cli/parse-args";
import { context } from "../../src/helpers/env.ts";
import { Device, Tensor } from "../../mod.ts";
import { registerLoops, registerSim } from "../fixtures/sim.ts";
import { checkDifference, gradientProgram } from "./parts/gradients.ts";
import type { OpRow } from "./parts/op_rows.ts";
import { ALL_ROWS } from "./parts/op_rows_more.ts";
import {
  LEAF_SOURCE,
  LIBRARY_NAMES,
  type Line,
  type Names,
  type Program,
  ProgramMaker,
  runLines,
} from "./parts/program_maker.ts";
import { type Part, partOf, runParts } from "../support/parts.ts";
import { Random } from "../support/random.ts";
import { compareTracked, evaluateTracked, type Tracked } from "./parts/tracked.ts";
import { onDevice } from "../support/on_device.ts";

/** Where and how a program runs. */
export interface Mode {
  readonly device: string;
  readonly noopt: boolean;
}

/** What is wrong with one program in the last of these modes; `kind` stays the same while it is shrunk. */
export interface Failure {
  readonly modes: readonly Mode[];
  readonly kind: string;
  readonly why: string;
}

/** Those of `names` that open here. */
export async function openDevices(
  names: readonly string[] = ["JS", "WASM", "CLANG", "WEBGPU", "CUDA"],
): Promise<string[]> {
  const open: string[] = [];
  if (names.includes("SIM")) registerSim();
  if (names.includes("LOOPS")) registerLoops();
  for (const name of names) {
    try {
      await Device.open(name);
      open.push(name);
    } catch {
      // not here
    }
  }
  return open;
}

/** Both modes of each device. */
export function modesOf(devices: readonly string[]): Mode[] {
  return devices.flatMap((device) => [{ device, noopt: true }, { device, noopt: false }]);
}

/** Builds the lines without realizing anything: host memory holds the leaves. */
function build(lines: readonly Line[]): Names {
  return onDevice("JS", () => {
    Tensor.manualSeed(1);
    return runLines(lines, false);
  });
}

/** What the outputs are, by the reference; with `onlyFinite`, where no infinity or NaN is on the way. */
export function expected(program: Program, onlyFinite: boolean = false): Tracked[] {
  const names = build(program.lines);
  return evaluateTracked(program.outputs.map((name) => names[name].uop), undefined, onlyFinite);
}

/** The error that a program may deserve: a read of what was overwritten, assignments that need each other. */
const DESERVED = /^(StaleReadError|CycleError)$/;
/** What a device lacks: no program of this dtype is for it. */
const LACKS: Readonly<Record<string, string>> = { WEBGPU: "float64" };

/** What a program computes in a mode, or the name of the error that refuses it, where it may deserve that. */
async function run(program: Program, { device, noopt }: Mode): Promise<ArrayLike<number | bigint>[] | string> {
  try {
    const outputs = onDevice(device, () =>
      context({ NOOPT: noopt ? 1 : 0 }, () => {
        Tensor.manualSeed(1);
        const names = runLines(program.lines, true);
        const list = program.outputs.map((name) => names[name]);
        Tensor.realize(list);
        return list;
      }));
    const out: ArrayLike<number | bigint>[] = [];
    for (const t of outputs) out.push(await t.data() as ArrayLike<number | bigint>);
    return out;
  } catch (error) {
    const { name, message } = error as Error, lacks = LACKS[device];
    if (DESERVED.test(name)) return name;
    if (name === "DTypeError" && lacks !== undefined && message.includes(lacks)) return `no ${lacks}`;
    throw error;
  }
}

/** What came of a program in one mode: the error that refused it, or how many elements were held to the reference. */
export interface Outcome {
  readonly refused?: string;
  readonly compared: number;
}

/** What is wrong with a program, if anything, and what came of it in each mode up to there. */
export interface Verdict {
  readonly failure?: Failure;
  readonly outcomes: readonly Outcome[];
}

/** Runs a program in each mode. What refuses it, except for a dtype that a device lacks, must be the same in all. */
export async function check(program: Program, want: readonly Tracked[], modes: readonly Mode[]): Promise<Verdict> {
  const outcomes: Outcome[] = [];
  let first: { readonly mode: Mode; readonly refused: string | undefined } | undefined;
  for (const mode of modes) {
    const fails = (kind: string, why: string, beside: readonly Mode[] = []): Verdict => (
      { failure: { modes: [...beside, mode], kind, why }, outcomes }
    );
    let got: Awaited<ReturnType<typeof run>>;
    try {
      got = await run(program, mode);
    } catch (error) {
      const { name, message, stack } = error as Error;
      return fails(`throws ${name}`, `${name}: ${message}\n${stack?.split("\n    at ").slice(1, 6).join("\n  ")}`);
    }
    const refused = typeof got === "string" ? got : undefined;
    if (refused === undefined || DESERVED.test(refused)) {
      first ??= { mode, refused };
      if (refused !== first.refused) {
        const why = `${refused ?? "no error"}, and ${first.refused ?? "no error"} on ${nameOf(first.mode)}`;
        return fails("is refused otherwise", why, [first.mode]);
      }
    }
    let compared = 0;
    if (typeof got !== "string") {
      const bounds = mode.device === "WEBGPU" && want.some((w) => w.finite === false) ? expected(program, true) : want;
      for (const [i, name] of program.outputs.entries()) {
        const { why, compared: n } = compareTracked(got[i], bounds[i]);
        if (why !== undefined) return fails("is wrong", `${name}: ${why}`);
        compared += n;
      }
    }
    outcomes.push({ refused, compared });
  }
  return { outcomes };
}

/** A mode in words. */
export const nameOf = ({ device, noopt }: Mode): string => `${device}${noopt ? " with NOOPT=1" : ""}`;

// ---- shrinking

const NAME = /(?<![\w.])t\d+\b/g;
const definedBy = (line: Line): string[] => (/^const ([^=]*) =/.exec(line.text)?.[1].match(NAME) ?? []);
const usedBy = (line: Line): string[] => {
  const defined = definedBy(line);
  return (line.text.match(NAME) ?? []).filter((name) => !defined.includes(name));
};
const rename = (line: Line, from: string, to: string): Line => ({
  ...line,
  text: line.text.replace(NAME, (name) => name === from ? to : name),
});

/** Lines that outputs need, or that write to what they need. */
function needed(program: Program): Program {
  const wanted = new Set(program.outputs), kept: Line[] = [];
  for (const line of [...program.lines].reverse()) {
    const uses = usedBy(line);
    if (!definedBy(line).some((n) => wanted.has(n)) && !(line.kind === "write" && wanted.has(uses[0]))) {
      if (line.kind !== "realize" || !uses.every((n) => wanted.has(n))) continue;
    }
    for (const n of uses) wanted.add(n);
    kept.push(line);
  }
  return { ...program, lines: kept.reverse() };
}

const numbersIn = (text: string): number[] => (text.match(/(?<![\w.])\d+(?![\w.])/g) ?? []).map(Number);

/** How large a program is: statements, those that are no leaf, then its text and numbers. */
function sizeOf({ lines, outputs }: Program): number {
  const text = lines.map((l) => l.text).join();
  const numbers = numbersIn(text).reduce((a, b) => a + Math.min(b, 1000), 0);
  return lines.length * 100_000 + lines.filter((l) => l.kind !== "leaf").length * 200_000 + outputs.length * 50_000 +
    text.length * 20 + numbers;
}

function* smaller(program: Program): Generator<Program> {
  const { lines, outputs } = program;
  yield needed(program);
  if (outputs.length > 1) { for (const name of outputs) yield needed({ lines, outputs: [name] }); }
  const names = build(lines);
  for (const [i, line] of lines.entries()) {
    const rest = [...lines.slice(0, i), ...lines.slice(i + 1)];
    const defined = definedBy(line);
    if (defined.length === 0) {
      yield needed({ lines: rest, outputs });
      continue;
    }
    for (const name of usedBy(line)) {
      if (line.kind === "op") yield needed({ lines: lines.slice(0, i), outputs: [name] });
    }
    for (const name of defined) {
      const { shape, dtype } = names[name];
      const twins = Object.keys(names).filter((n) =>
        n !== name && names[n].dtype === dtype && names[n].shape.join() === shape.join() &&
        Number(n.slice(1)) < Number(name.slice(1))
      );
      const swap = (to: string): Program => ({
        lines: defined.length === 1
          ? [...lines.slice(0, i), ...lines.slice(i + 1).map((l) => rename(l, name, to))]
          : [...lines.slice(0, i + 1), ...lines.slice(i + 1).map((l) => rename(l, name, to))],
        outputs: [...new Set(outputs.map((o) => o === name ? to : o))],
      });
      for (const twin of twins) yield needed(swap(twin));
      if (line.kind === "op" && defined.length === 1) {
        const text = `const ${name} = leaf([${shape.join(", ")}], "${dtype.name}", 1);`;
        yield needed({ lines: [...lines.slice(0, i), { text, kind: "leaf" }, ...lines.slice(i + 1)], outputs });
      }
    }
    // optional arguments, and calls at the end of a chain
    const cuts = [/, \{[^{}]*\}/, /\.\w+\([^()]*\)(?=;$)/, /^const (\[[^\]]*\]) = (.*);$/];
    for (const cut of cuts.slice(0, 2)) {
      const text = line.text.replace(cut, "");
      if (text !== line.text) yield needed({ lines: lines.map((l) => l === line ? { ...l, text } : l), outputs });
    }
  }
  const replaced = (text: string, from: number, to: number): string =>
    text.replace(/(?<![\w.])\d+(?![\w.])/g, (n) => Number(n) === from ? String(to) : n);
  for (const v of new Set(lines.flatMap((l) => numbersIn(l.text)))) {
    for (const to of [0, 1, 2, v >> 1, v - 1]) {
      if (to >= v || to < 0) continue;
      yield { lines: lines.map((l) => ({ ...l, text: replaced(l.text, v, to) })), outputs };
      for (const line of lines) {
        const text = replaced(line.text, v, to);
        if (text !== line.text) yield { lines: lines.map((l) => l === line ? { ...l, text } : l), outputs };
      }
    }
  }
}

/** The smallest program found by greedy steps that fails alike. */
export async function shrink(program: Program, failure: Failure, seconds = 60): Promise<[Program, Failure]> {
  const deadline = performance.now() + seconds * 1000;
  for (let again = true; again && performance.now() < deadline;) {
    again = false;
    for (const p of smaller(program)) {
      if (performance.now() > deadline) break;
      if (sizeOf(p) >= sizeOf(program) || p.lines.length === 0) continue;
      let f: Failure | undefined;
      try {
        f = (await check(p, expected(p), failure.modes)).failure;
      } catch {
        continue; // no program
      }
      if (f === undefined || f.kind !== failure.kind) continue;
      [program, failure] = [p, f];
      again = true;
      break;
    }
  }
  return [program, failure];
}

/** The program as a script to be run beside mod.ts. */
export function script({ lines, outputs }: Program, { device, noopt }: Mode): string {
  const text = lines.map((l) => l.text).join("\n");
  return [
    `import { ${
      ["Device", "Tensor", ...LIBRARY_NAMES.filter((n) => text.includes(`${n}(`))].join(", ")
    } } from "./mod.ts";`,
    `Device.default = "${device}";`,
    ...(noopt ? ["// with NOOPT=1"] : []),
    ...(text.includes("leaf(") ? [LEAF_SOURCE] : []),
    text,
    `Tensor.realize([${outputs.join(", ")}]);`,
    ...outputs.map((name) => `console.log(await ${name}.tolist());`),
  ].join("\n");
}

const ROWS = ALL_ROWS.flatMap(([, rows]) => rows);

/** The op of the table that program `at` of a seed has. Each has its turn, in an order of the seed's own. */
function opOf(seed: number, at: number): OpRow {
  return ROWS[(seed * 31 + at * 89) % ROWS.length];
}

/** One program of a seed. */
export function programOf(seed: number, at: number): Program {
  const r = new Random(seed * 1000003 + at);
  return onDevice("JS", () => new ProgramMaker(r, { op: opOf(seed, at) }).make(r.int(3, 12)));
}

/** What is wrong with the gradient of the op of a program in float64, by differences. */
function wrongGradient(seed: number, at: number): string | undefined {
  const op = opOf(seed, at), program = op.smooth ? gradientProgram(op, seed * 1000003 + at) : undefined;
  const why = program === undefined ? undefined : checkDifference(program).why;
  return why && `${why}\n\n${script(program!, { device: "JS", noopt: false })}\n`;
}

/** What programs came to in one mode. */
export interface ModeReport {
  /** Programs that ran, and that a named error refused, by its name. */
  programs: number;
  readonly refused: Record<string, number>;
  /** Elements of the outputs of those that ran, and how many were held to the reference within a bound. */
  elements: number;
  compared: number;
}

/** What a run found; what `modes` has is by the name of the mode. */
export interface Report {
  readonly programs: number;
  readonly modes: Readonly<Record<string, ModeReport>>;
  readonly failures: readonly string[];
}

/** Options of {@linkcode fuzzPrograms}. */
export interface FuzzOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Stop after so many programs. */
  readonly count?: number;
  /** Of these only the cases of a part. */
  readonly share?: Part;
  readonly devices: readonly string[];
  /** Only this case. */
  readonly only?: number;
  /** Stop after so many. */
  readonly failures?: number;
  /** Devices whose compilers or read-backs take long see one program in so many. */
  readonly slowEvery?: number;
  readonly log?: (text: string) => void;
  /** Name each case before it runs: for what ends or hangs the process. */
  readonly trace?: boolean;
}

const SLOW = ["CLANG", "WEBGPU", "CUDA"];

/** Runs programs until the time is up. */
export async function fuzzPrograms(options: FuzzOptions): Promise<Report> {
  const { seed, seconds, count = Infinity, only, slowEvery = 1, log = () => {} } = options;
  const { part, parts } = options.share ?? { part: 0, parts: 1 };
  const deadline = performance.now() + seconds * 1000, failures: string[] = [];
  const modes = modesOf(options.devices), reports: Record<string, ModeReport> = {};
  for (const mode of modes) reports[nameOf(mode)] = { programs: 0, refused: {}, elements: 0, compared: 0 };
  let programs = 0;
  const end = only === undefined ? count : only + 1;
  for (let at = only ?? 0; performance.now() < deadline && at < end; at++) {
    if (only === undefined && at % parts !== part) continue;
    const here = modes.filter(({ device }) => !SLOW.includes(device) || at % slowEvery === 0);
    if (here.length === 0) continue;
    const head = `seed ${seed} case ${at}`;
    if (options.trace) options.log?.(head);
    const slope = wrongGradient(seed, at);
    if (slope !== undefined) {
      failures.push(`${head}: ${slope}`);
      log(failures[failures.length - 1]);
      if (failures.length >= (options.failures ?? 1)) break;
    }
    let program: Program | undefined, want: Tracked[];
    try {
      program = programOf(seed, at);
      want = expected(program);
    } catch (error) {
      const text = program === undefined ? "" : program.lines.map((l) => l.text).join("\n");
      failures.push(`${head}: ${(error as Error).stack}\n${text}`);
      log(failures[failures.length - 1]);
      if (failures.length >= (options.failures ?? 1)) break;
      continue;
    }
    programs++;
    const elements = want.reduce((n, w) => n + w.error.length, 0);
    const { failure, outcomes } = await check(program, want, here);
    for (const [i, { refused, compared }] of outcomes.entries()) {
      const report = reports[nameOf(here[i])];
      if (refused !== undefined) report.refused[refused] = (report.refused[refused] ?? 0) + 1;
      else {
        report.programs++;
        report.elements += elements;
        report.compared += compared;
      }
    }
    if (failure !== undefined) {
      const [small, { kind, why, modes }] = await shrink(program, failure), mode = modes.at(-1)!;
      failures.push(`${head} on ${nameOf(mode)} ${kind}: ${why}\n\n${script(small, mode)}\n`);
      log(failures[failures.length - 1]);
    }
    if (failures.length >= (options.failures ?? 1)) break;
    await new Promise((done) => setTimeout(done, 0)); // finalizers
  }
  return { programs, modes: reports, failures };
}

if (import.meta.main) {
  const given = parseArgs(Deno.args, {
    string: ["seed", "case", "count", "devices", "seconds", "failures", "jobs", "part", "parts"],
    boolean: ["trace"],
  });
  if (Number(given.jobs ?? 1) > 1) Deno.exit(await runParts(import.meta.url, Number(given.jobs)));
  const seed = Number(given.seed ?? Math.floor(Math.random() * 1e6)), only = given.case;
  const devices = await openDevices(given.devices?.split(","));
  const { programs, modes, failures } = await fuzzPrograms({
    seed,
    seconds: Number(given.seconds ?? (only === undefined && given.count === undefined ? 20 : 600)),
    count: given.count === undefined ? undefined : Number(given.count),
    share: partOf(given),
    devices,
    only: only === undefined ? undefined : Number(only),
    failures: Number(given.failures ?? 1),
    log: (text) => console.log(text),
    trace: given.trace,
  });
  for (const [name, { programs, refused, elements, compared }] of Object.entries(modes)) {
    const others = Object.entries(refused).map(([error, n]) => `, ${n} refused: ${error}`).join("");
    console.log(`${name}: ${programs} programs, ${compared} of ${elements} elements compared${others}`);
  }
  const found = failures.length === 0 ? "all agree" : `${failures.length} fail`;
  console.log(`${programs} programs, seed ${seed}: ${found}`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
