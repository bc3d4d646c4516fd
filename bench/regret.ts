/**
 * How far the chooser is from the best opts, on kernels that nobody looked at: random ones of every family, each under
 * the choice and under candidates (near it, best by the model, drawn), all checked and raced in turns.
 *
 *     deno task bench:regret [--device D] [--count 200] [--seed S] [--candidates 64] [--only a,b] [--json] [--out FILE] [--check|--shared]
 *
 * A line a kernel: regret (its time over that of the best measured), microseconds, how many candidates ran, the rank
 * correlation of what the model estimates with the clock, and the share of the roofline. Then median, 95th percentile and
 * worst by family, and the twenty worst with their opts and the best ones. A candidate that is wrong, fails, or ends the
 * process (another one measures on) is told of and left out; the exit code is then 1.
 *
 * `--shared` takes times of the processor instead of the wall's, for a machine that others use: with THREADS=1 alone.
 * `--check` looks at values alone: of `--count` small kernels of all lengths, under what is chosen and under candidates,
 * against what each computes without opts.
 *
 * @module
 */
import process from "node:process";
import { CompiledKernel, context, Device, schedule, Tensor } from "../mod.ts";
import { estimateOf } from "../src/codegen/choose/loop_costs.ts";
import { type Opt, optsText, parseOpts } from "../src/codegen/opt/opt.ts";
import { beforeOpts } from "../src/codegen/passes.ts";
import { hasPhases } from "../src/uop/algebra/row_phases.ts";
import { median, race } from "../src/engine/tuning/race.ts";
import { rooflineOf } from "../src/engine/roofline.ts";
import { candidatesOf, compileCandidates, tunedKey, whyNotTuned } from "../src/engine/tuning/search.ts";
import { toProgram } from "../src/codegen/to_program.ts";
import { Trial } from "../src/engine/tuning/trial.ts";
import type { LinearProgram } from "../src/renderer/renderer.ts";
import { OutOfMemoryError } from "../src/helpers/errors.ts";
import { Draw, FAMILIES } from "../tests/fuzz/kernels.ts";
import { sum } from "../src/helpers/math.ts";
import { option } from "./json.ts";

/** Elements of the largest tensor: by a kernel of some milliseconds at most. */
const MOST_CPU = 1 << 19, MOST_CARD = 1 << 26;
/**
 * Kernels that take less, or more, are not looked at, in milliseconds: the clock, and patience, of which those have more that
 * take so many times as long as the roofline says.
 */
const LEAST_MS = 0.02, MOST_MS = 8, SLOW_MS = 100, SLOW = 20;
/** Arithmetic of a kernel that is not even tried. */
const MOST_FLOPS_CPU = 2e8, MOST_FLOPS_CARD = 1e11;
/** Kernels of one program that are measured: those that take longest. */
const KERNELS = 2;
/** Rounds of a race from which a median counts. */
const ROUNDS = 7;
/** The longest race, in milliseconds. */
const RACE_MS = 5000;
const WORST = 20;
/** Kernels whose values alone are looked at: elements of the largest tensor, extents, arithmetic, elements of an operand. */
const CHECK_MOST = 1 << 12, CHECK_EXTENT = 70, CHECK_FLOPS = 3e7, CHECK_ELEMENTS = 1 << 21;
const CHECK_CANDIDATES = 12;

/** What was measured of one kernel. */
export interface RegretRow {
  readonly family: string;
  readonly program: string;
  readonly kernel: string;
  readonly regret: number;
  readonly us: number;
  readonly candidates: number;
  /** Spearman's rank correlation of estimate and clock; absent where there is no estimate. */
  readonly correlation?: number;
  /** Least time by arithmetic and bytes over the time that it takes. */
  readonly roofline?: number;
  readonly opts: string;
  readonly best: string;
}

/** What was wrong with a candidate. */
export interface RegretProblem {
  readonly program: string;
  readonly kernel: string;
  readonly opts: string;
  readonly problem: string;
}

/** Ranks from 0, the same for equal values. */
function ranksOf(values: readonly number[]): number[] {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]), ranks: number[] = [];
  for (let i = 0; i < order.length;) {
    let j = i;
    while (j < order.length && values[order[j]] === values[order[i]]) j++;
    for (let k = i; k < j; k++) ranks[order[k]] = (i + j - 1) / 2;
    i = j;
  }
  return ranks;
}

/** Spearman's rank correlation; NaN where one side does not vary. */
export function rankCorrelation(a: readonly number[], b: readonly number[]): number {
  const x = ranksOf(a), y = ranksOf(b), mean = (a.length - 1) / 2;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < a.length; i++) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) ** 2;
    yy += (y[i] - mean) ** 2;
  }
  return xy / Math.sqrt(xx * yy);
}

/** The value below which a share of all lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}

/** Where problems go, and who is told what runs for the first time; `isKnown` tells kernels that need no measuring. */
export interface RegretSink {
  readonly onFirst: (kernel: string, opts: string) => void;
  readonly onProblem: (problem: RegretProblem) => void;
  readonly isKnown: (key: string) => boolean;
  /** Candidates that ended a process before. */
  readonly crashed: ReadonlySet<string>;
}

/** Draws small extents: round, odd, and such that leave a rest. */
export class SmallDraw extends Draw {
  constructor(seed: number) {
    super(seed, CHECK_MOST);
  }
  override size(most?: number): number {
    return Math.min(super.size(most), 1 + this.below(CHECK_EXTENT));
  }
}

/** How many kernels of one random program were compared, with which family and how many candidates. */
export interface Checked {
  readonly family: string;
  readonly kernels: number;
  readonly candidates: number;
}

/** Compares the kernels of one random program, as chosen and under candidates, with themselves without opts. */
export function checkProgram(...args: Parameters<typeof checked>): Checked {
  return context({ NOOPT: 0 }, () => checked(...args));
}

function checked(device: string, family: string, draw: Draw, count: number, sink: RegretSink): Checked {
  const open = Device.get(device), made = FAMILIES[family](draw, (...shape) => Tensor.empty(shape, { device }));
  let kernels = 0, candidates = 0;
  for (const { runner, bufs } of schedule(made.results)) {
    if (!(runner instanceof CompiledKernel) || bufs[0].device.name !== open.name) continue;
    const { ast, program: chosen } = runner, { linear } = chosen, { name: kernel, opts: chosenOpts = "" } = linear;
    const isLarge = linear.flops > CHECK_FLOPS || linear.params.some((p) => p.size > CHECK_ELEMENTS);
    if (isLarge || whyNotTuned(open, ast) !== undefined || sink.isKnown(tunedKey(open, ast))) continue;
    const tell = (o: string, problem: string): void =>
      sink.onProblem({ program: `${family}: ${made.text}`, kernel, opts: o, problem });
    const [plain] = context({ NOOPT: 1 }, () => open.compiler.compile([toProgram(ast, open.renderer)]));
    const lists = candidatesOf(open, ast, chosenOpts, count).filter((o) =>
      !sink.crashed.has(`${kernel} ${optsText(o)}`)
    );
    const all = compileCandidates(open, ast, lists, chosen, (o, error) => tell(optsText(o), error.message));
    const trial = new Trial(open, ast, plain);
    try {
      for (const { opts, program } of [{ opts: parseOpts(chosenOpts) ?? [], program: chosen }, ...all]) {
        const o = optsText(opts);
        if (sink.crashed.has(`${kernel} ${o}`)) continue;
        sink.onFirst(kernel, o);
        const wrong = trial.wrong(program);
        if (wrong !== undefined) tell(o, wrong);
      }
    } finally {
      trial.free();
    }
    kernels++;
    candidates += all.length;
  }
  return { family, kernels, candidates };
}

/** Measures the kernels of one random program on a device: their opts, also where those are off. */
export function measureProgram(...args: Parameters<typeof measured>): RegretRow[] {
  return context({ NOOPT: 0 }, () => measured(...args));
}

/** What a kernel takes at least, in milliseconds; NaN where the device's peaks are not known. */
function rooflineMs(device: ReturnType<typeof Device.get>, { flops, bytes }: LinearProgram): number {
  const roof = rooflineOf(device);
  return roof === undefined ? NaN : Math.max(flops / roof.gflops, bytes / roof.gbs) / 1e6;
}

function measured(
  device: string,
  family: string,
  draw: Draw,
  count: number,
  { onFirst, onProblem, isKnown, crashed }: RegretSink,
  leastMs: number = LEAST_MS,
  clock?: () => number,
): RegretRow[] {
  const open = Device.get(device), { caps } = open.renderer;
  const made = FAMILIES[family](draw, (...shape) => Tensor.empty(shape, { device }));
  const kernels = schedule(made.results).filter((i) =>
    i.runner instanceof CompiledKernel && i.bufs[0].device.name === open.name
  );
  const timed: { trial: Trial; item: typeof kernels[number]; ms: number; runner: CompiledKernel }[] = [];
  const rows: RegretRow[] = [];
  try {
    for (const item of kernels) {
      const runner = item.runner as CompiledKernel;
      if (runner.program.linear.flops > (caps.hasGrid ? MOST_FLOPS_CARD : MOST_FLOPS_CPU)) continue;
      if (whyNotTuned(open, runner.ast) !== undefined || isKnown(tunedKey(open, runner.ast))) continue;
      try {
        const trial = new Trial(open, runner.ast, runner.program, clock);
        const ms = Math.min(trial.time(runner.program), trial.time(runner.program));
        const isSlow = ms > SLOW * rooflineMs(open, runner.program.linear);
        if (ms < leastMs || ms > (isSlow ? SLOW_MS : MOST_MS)) trial.free();
        else timed.push({ trial, item, ms, runner });
      } catch (error) {
        if (!(error instanceof OutOfMemoryError)) throw error;
      }
    }
    timed.sort((a, b) => b.ms - a.ms);
    for (const { trial, runner } of timed.slice(0, KERNELS)) {
      const { program, ast } = runner, kernel = program.linear.name, opts = program.linear.opts ?? "";
      if (hasPhases(ast)) continue; // takes no opts
      const tell = (o: readonly Opt[], problem: string): void =>
        onProblem({ program: `${family}: ${made.text}`, kernel, opts: optsText(o), problem });
      const lists = candidatesOf(open, ast, opts, count).filter((o) => !crashed.has(`${kernel} ${optsText(o)}`));
      const all = compileCandidates(open, ast, lists, program, (o, error) => tell(o, error.message));
      const standings = race(trial, [program, ...all.map((c) => c.program)], {
        until: performance.now() + RACE_MS,
        onFirst: (i) => onFirst(kernel, optsText(all[i - 1].opts)),
      });
      const before = beforeOpts(ast, open.renderer), estimates: number[] = [], ratios: number[] = [];
      let best = 1, bestOpts = opts;
      standings.forEach(({ problem, ratio: inTurns, leastMs, rounds }, i) => {
        // who else runs adds to times of a processor, and to none of them always
        const ratio = clock === undefined ? inTurns : leastMs / standings[0].leastMs;
        const o = i === 0 ? parseOpts(opts) ?? [] : all[i - 1].opts;
        if (problem !== undefined) return tell(o, problem);
        if (rounds >= ROUNDS && ratio < best) [best, bestOpts] = [ratio, optsText(o)];
        const estimate = estimateOf(before, caps, o);
        if (estimate === undefined || !(ratio > 0)) return;
        estimates.push(estimate);
        ratios.push(ratio);
      });
      const ms = clock === undefined ? standings[0].ms : standings[0].leastMs, floor = rooflineMs(open, program.linear);
      rows.push({
        family,
        program: made.text,
        kernel,
        regret: 1 / best,
        us: ms * 1e3,
        candidates: all.length,
        ...(estimates.length > 3 ? { correlation: rankCorrelation(estimates, ratios) } : {}),
        ...(Number.isNaN(floor) ? {} : { roofline: floor / ms }),
        opts,
        best: bestOpts,
      });
    }
    return rows;
  } finally {
    for (const { trial } of timed) trial.free();
  }
}

const fixed = (x: number | undefined, digits = 2): string =>
  x === undefined || Number.isNaN(x) ? "-" : x.toFixed(digits);

function lineOf(r: RegretRow): string {
  const numbers = [fixed(r.regret).padStart(7), r.us.toFixed(0).padStart(8), String(r.candidates).padStart(4)];
  return [
    ...numbers,
    fixed(r.correlation).padStart(6),
    fixed(r.roofline).padStart(5),
    r.family.padEnd(12),
    r.kernel,
    r.program,
  ].join(" ");
}

/** The summary: by family, and the worst. */
export function summaryOf(rows: readonly RegretRow[]): string[] {
  const lines: string[] = [];
  const line = (name: string, some: readonly RegretRow[]): void => {
    const regrets = some.map((r) => r.regret),
      correlations = some.flatMap((r) =>
        r.correlation === undefined || Number.isNaN(r.correlation) ? [] : [r.correlation]
      );
    const numbers = [median(regrets), percentile(regrets, 0.95), Math.max(...regrets)].map((x) => fixed(x).padStart(7));
    lines.push(
      `${name.padEnd(14)} ${String(some.length).padStart(4)} ${numbers.join(" ")} ${
        fixed(median(correlations)).padStart(12)
      }`,
    );
  };
  lines.push(`${"family".padEnd(14)}    n  median     p95     max  correlation`);
  for (const family of new Set(rows.map((r) => r.family))) line(family, rows.filter((r) => r.family === family));
  if (rows.length > 0) line("all", rows);
  lines.push("", `the ${WORST} worst`);
  for (const r of rows.toSorted((a, b) => b.regret - a.regret).slice(0, WORST)) {
    lines.push(
      `${fixed(r.regret)}  ${r.us.toFixed(0)} us  ${r.family}: ${r.program}  ${r.kernel}`,
      `    chosen ${r.opts}`,
      `    best   ${r.best}`,
    );
  }
  return lines;
}

/** The summary of what was checked: by family. */
export function checkedOf(checks: readonly Checked[]): string[] {
  const line = (name: string, some: readonly Checked[]): string => {
    const [kernels, candidates] = [sum(some.map((c) => c.kernels)), sum(some.map((c) => c.candidates))];
    return `${name.padEnd(14)} ${String(kernels).padStart(7)} ${String(candidates).padStart(11)}`;
  };
  const families = [...new Set(checks.map((c) => c.family))];
  return [
    `${"family".padEnd(14)} kernels  candidates`,
    ...families.map((f) => line(f, checks.filter((c) => c.family === f))),
    line("all", checks),
  ];
}

/** What one process tells the one that started it. */
type Message =
  | { readonly begin: number }
  | { readonly first: readonly [kernel: string, opts: string] }
  | { readonly row: RegretRow }
  | { readonly checked: Checked }
  | { readonly wrong: RegretProblem };

/** Families by name, all without a list. @throws {RangeError} for one that there is not */
export function familiesOf(only: string | undefined): readonly string[] {
  const known = Object.keys(FAMILIES), names = only?.split(",") ?? known;
  const wrong = names.find((name) => !known.includes(name));
  if (wrong !== undefined) throw new RangeError(`Cannot measure ${wrong}: the families are ${known.join(", ")}`);
  return names;
}

/** Milliseconds of processors that this process has taken. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
}

/** Measures from program `from` on, and tells on standard output. */
async function measureAll(args: readonly string[], tell: (m: Message) => void): Promise<void> {
  const named = option(args, "device");
  if (named !== undefined) await Device.open(named);
  const device = named ?? Device.default, { caps } = Device.get(device).renderer;
  const count = Number(option(args, "count") ?? 200), seed = Number(option(args, "seed") ?? 1);
  const isCheck = args.includes("--check"), clock = args.includes("--shared") ? processorMs : undefined;
  const usual = isCheck ? CHECK_CANDIDATES : caps.hasGrid ? 32 : 64;
  const candidates = Number(option(args, "candidates") ?? usual) - 1;
  const only = familiesOf(option(args, "only")), known = new Set<string>();
  const sink: RegretSink = {
    onFirst: (kernel, opts) => tell({ first: [kernel, opts] }),
    onProblem: (wrong) => tell({ wrong }),
    isKnown: (key) => known.has(key) || (known.add(key), false),
    crashed: new Set(JSON.parse(option(args, "crashed") ?? "[]") as string[]),
  };
  // programs whose kernels are too short give none
  for (
    let i = Number(option(args, "from") ?? 0), n = Number(option(args, "done") ?? 0);
    n < count && i < 20 * count;
    i++
  ) {
    tell({ begin: i });
    const family = only[i % only.length], at = seed * 1_000_003 + i;
    if (isCheck) {
      const now = checkProgram(device, family, new SmallDraw(at), candidates, sink);
      tell({ checked: now });
      n += now.kernels;
    } else {
      const draw = new Draw(at, caps.hasGrid ? MOST_CARD : MOST_CPU);
      const rows = measureProgram(device, family, draw, candidates, sink, LEAST_MS, clock);
      for (const row of rows) tell({ row });
      n += rows.length;
    }
    await new Promise((done) => setTimeout(done, 0)); // a macrotask, so that what the last one left is freed
  }
}

async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--child")) {
    await measureAll(args, (m) => console.log(JSON.stringify(m)));
    return 0;
  }
  familiesOf(option(args, "only"));
  const rows: RegretRow[] = [],
    checks: Checked[] = [],
    problems: RegretProblem[] = [],
    crashed: string[] = [],
    isJson = args.includes("--json");
  for (let from = 0;;) {
    let first: readonly [string, string] | undefined;
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        "--v8-flags=--no-liftoff", // what WebAssembly first runs as is half as fast, until it has run for long
        import.meta.filename!,
        "--child",
        ...args,
        `--from=${from}`,
        `--done=${rows.length + sum(checks.map((c) => c.kernels))}`,
        `--crashed=${JSON.stringify(crashed)}`,
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    let rest = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const m = JSON.parse(line) as Message;
        if ("begin" in m) from = m.begin;
        else if ("first" in m) first = m.first;
        else if ("wrong" in m) {
          problems.push(m.wrong);
          console.error(`left out: ${JSON.stringify(m.wrong)}`);
        } else if ("checked" in m) checks.push(m.checked);
        else {
          rows.push(m.row);
          console.log(isJson ? JSON.stringify(m.row) : lineOf(m.row));
        }
      }
    }
    const { success, code } = await child.status;
    if (success) break;
    if (first === undefined) return 1; // no candidate is to blame
    const [kernel, opts] = first, at = `${kernel} ${opts}`;
    problems.push({ program: `number ${from}`, kernel, opts, problem: `the process ended with ${code}` });
    console.error(`left out: program ${from}, kernel ${at}: the process ended with ${code}`);
    if (crashed.includes(at)) from++;
    crashed.push(at);
  }
  const text = [
    ...(checks.length > 0 ? checkedOf(checks) : summaryOf(rows)),
    "",
    `${problems.length} candidates were left out`,
    ...problems.slice(0, WORST).map((p) => JSON.stringify(p)),
  ];
  console.log(text.join("\n"));
  const out = option(args, "out");
  if (out !== undefined) await Deno.writeTextFile(out, `${text.join("\n")}\n`);
  return problems.length === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
