/**
 * Random lists of opts over random kernels and those of tests/codegen/kernels.ts: whatever is possible computes what the
 * kernel computes without opts, and touches no memory beyond its buffers. JS checks the bounds of each access, as a small, a
 * large and a scalar machine; on CLANG memory ends where a page without access begins (SPEC=1), and a process that dies of
 * that tells its case; GRID is a simulated grid. On UNITS matrix units of such a grid compute products and chains of them
 * whose axes end at variables.
 *
 *     deno run -A tests/fuzz/opts.ts [--device JS,CLANG,GRID,UNITS] [--count 1000] [--seed 1] [--case 17]
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { clangBackend } from "../../backends/clang/clang.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { type Opt, optsText, parseOpts, withOpts } from "../../src/codegen/opt/opt.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import type { Device } from "../../src/device/device.ts";
import { context } from "../../src/helpers/env.ts";
import { ArgumentError } from "../../src/helpers/errors.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { chainOf, WGMMA } from "../../src/renderer/tensor_core_table.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, toposort, type UOp, variable } from "../../src/uop/core/uop.ts";
import { substitute } from "../../src/uop/rewrite/rewrite.ts";
import { dataOf, kernel as chainKernel, KERNELS as CHAINS, wrong } from "../codegen/chains.ts";
import { CAPS, compile, type Data, expectSame, possible, run, runOn } from "../codegen/harness.ts";
import { KERNELS } from "../codegen/kernels.ts";
import { SIM_GRID, simCaps } from "../fixtures/sim.ts";
import { Random } from "../support/random.ts";
import {
  drawnVars,
  gridOpts,
  loopOpts,
  poisoned,
  randomKernel,
  randomProduct,
  unitOpts,
} from "./parts/kernel_maker.ts";

/** Where kernels run. */
export type Place = "JS" | "CLANG" | "GRID" | "UNITS";

/** Some cases: from the `first` on. */
export interface Cases {
  readonly seed: number;
  readonly first: number;
  readonly count: number;
}

/** What a run found. */
export interface Found {
  /** Lists that were possible. */
  possible: number;
  readonly failures: string[];
}

/** A kernel under a list of opts. */
export interface Case {
  readonly text: string;
  readonly ast: UOp;
  readonly opts: readonly Opt[];
  readonly vars: readonly number[];
  readonly data: readonly Data[];
  readonly want: readonly Data[];
}

/** Case `index` of a run, and what it must compute. */
export function caseOf(seed: number, index: number, place: Place): Case {
  const random = new Random(seed * 1_000_003 + index), isGrid = place === "GRID", names = Object.keys(KERNELS);
  const name = isGrid || random.below(2) === 0 ? undefined : random.pick(names);
  const ast = name === undefined ? randomKernel(random, random.below(3) === 0) : KERNELS[name];
  const vars = drawnVars(random, ast);
  const opts = isGrid ? gridOpts(random, ast) : loopOpts(random, ast), data = poisoned(ast, index);
  const text = `seed ${seed} case ${index} on ${place}: ${name ?? "a random kernel"} under ${optsText(opts)}`;
  return { text, ast, opts, vars, data, want: run(ast, data, [], {}, vars) };
}

/** Runs cases on JS or a simulated grid. */
export function runCases(place: "JS" | "GRID", { seed, first, count }: Cases): Found {
  const found: Found = { possible: 0, failures: [] }, machines = place === "JS" ? CAPS : { grid: simCaps(SIM_GRID) };
  for (let i = first; i < first + count; i++) {
    const { text, ast, opts, vars, data, want } = caseOf(seed, i, place);
    for (const [machine, caps] of Object.entries(machines)) {
      try {
        const program = possible(ast, opts, caps);
        if (program === undefined) continue;
        found.possible++;
        expectSame(ast, run(ast, data, opts, caps, vars, program), want, machine);
      } catch (error) {
        found.failures.push(`${text}, ${machine}: ${error}`);
      }
    }
  }
  return found;
}

/** Matrix units of all kinds whose tiles are small, on a simulated grid. */
const UNITS = [...SIM_GRID.tensorCores, ...WGMMA.filter((c) => c.n <= 64)],
  ON_UNITS = simCaps({ ...SIM_GRID, tensorCores: UNITS });

/** A product of matrices, or a chain of products, some of whose axes end at a variable: for a unit that is drawn. */
function unitKernel(random: Random): { ast: UOp; number: number; text: string; isExact: boolean } {
  if (random.below(3) > 0) {
    const input = random.pick([dtypes.float16, dtypes.float16, dtypes.int8]);
    const numbers = UNITS.flatMap((c, i) => c.input === input ? [i] : []), number = random.pick(numbers);
    return { ast: randomProduct(random, input), number, text: `a product of ${input}`, isExact: true };
  }
  const dtype = random.pick([dtypes.float16, dtypes.bfloat16]), name = random.pick(Object.keys(CHAINS));
  const middle = random.pick([130, 160, 200]), most = middle - random.pick([0, 1, 30]), n = variable("n", 0, most);
  const masks = [
    undefined,
    (row: UOp, middle: UOp) => middle.lt(row.add(1)),
    (row: UOp, middle: UOp) => row.add(n).lt(middle).ne(1),
    (row: UOp, middle: UOp) => middle.lt(row.add(n).add(-40)),
    (row: UOp, middle: UOp) => middle.lt(row.add(n)).and(row.add(n).add(-50).lt(middle)),
  ];
  const hide = random.pick(masks), rows = random.pick([1, 8, 17, 32, 64, 70]), terms = random.pick([16, 24, 64]);
  const shape = { rows, middle, end: n.add(middle - most), terms, columns: random.pick([8, 20, 32, 64]), dtype, hide };
  const numbers = UNITS.flatMap((c, i) => c.input === dtype && chainOf(c) !== undefined ? [i] : []);
  return { ast: chainKernel(name, shape), number: random.pick(numbers), text: `${name} in ${dtype}`, isExact: false };
}

/**
 * Does a chain give the bits that it gives under the same opts where its variable is a number? Where large terms cancel,
 * operands that are rounded make more of a difference to the scalar form than a tolerance has.
 */
function isAsKnown(ast: UOp, made: readonly Opt[], vars: readonly number[]): boolean {
  const ends = toposort(ast).filter((u) => u.op === Ops.VARIABLE);
  const known = substitute(ast, new Map(ends.map((u, i) => [u, constant(vars[i], u.dtype)])));
  if (possible(known, made, ON_UNITS) === undefined) return false;
  const data = dataOf(ast), [a] = run(ast, data, made, ON_UNITS, vars), [b] = run(known, data, made, ON_UNITS);
  return a.every((x, i) => Object.is(x, b[i]));
}

/** Runs cases on matrix units: under opts that are drawn, or as the model chooses. */
export function runOnUnits({ seed, first, count }: Cases): Found {
  const found: Found = { possible: 0, failures: [] };
  for (let i = first; i < first + count; i++) {
    const random = new Random(seed * 1_000_003 + i), { ast, number, text, isExact } = unitKernel(random);
    const vars = drawnVars(random, ast);
    let made: readonly Opt[] | undefined;
    for (let k = random.below(6); k > 0 && made === undefined; k--) made = unitOpts(random, ast, UNITS, number);
    const what = made === undefined ? "what the model chooses" : optsText(made);
    try {
      const program = made === undefined ? compile(ast, made, ON_UNITS) : possible(ast, made, ON_UNITS);
      if (program === undefined) continue;
      if (program.uops.some((u) => u.op === Ops.WMMA)) found.possible++;
      if (isExact) {
        const data = poisoned(ast, i), want = run(ast, data, [], {}, vars);
        expectSame(ast, run(ast, data, made, ON_UNITS, vars, program), want, what);
      } else {
        const why = wrong(ast, made, ON_UNITS, vars), own = made ?? parseOpts(program.opts ?? "") ?? [];
        if (why !== undefined && !isAsKnown(ast, own, vars)) throw new Error(why);
      }
    } catch (error) {
      found.failures.push(`seed ${seed} case ${i} on UNITS: ${text} of ${vars} under ${what}: ${error}`);
    }
  }
  return found;
}

/** Cases that are compiled, and run by one process, at a time. */
const TOGETHER = 64;

/** Runs cases on a guarded CLANG, in this process; `tell` hears the case that is about to run. */
function runGuarded(device: Device, { seed, first, count }: Cases, tell: (text: string) => void): Found {
  const found: Found = { possible: 0, failures: [] }, cases: Case[] = [], linear: LinearProgram[] = [];
  for (let i = first; i < first + count; i++) {
    const made = caseOf(seed, i, "CLANG");
    try {
      linear.push(toProgram(withOpts(made.ast, made.opts), device.renderer));
      cases.push(made);
    } catch (error) {
      if (!(error instanceof ArgumentError)) found.failures.push(`${made.text}: ${error}`);
    }
  }
  device.compiler.compile(linear).forEach((program, k) => {
    const { text, ast, vars, data, want } = cases[k];
    tell(text);
    try {
      expectSame(ast, runOn(device, ast, data, program, vars), want, "values");
    } catch (error) {
      found.failures.push(`${text}: ${error}`);
    }
  });
  found.possible = cases.length;
  return found;
}

/** What a process that runs guarded cases says. */
const AT = "at ", FOUND = "found ";

/** Runs cases on CLANG, each part of them in a process of its own. */
export function runInProcesses({ seed, first, count }: Cases): Found {
  const all: Found = { possible: 0, failures: [] };
  for (let at = first; at < first + count; at += TOGETHER) {
    const part: Cases = { seed, first: at, count: Math.min(TOGETHER, first + count - at) };
    const { stdout, stderr, success } = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", import.meta.url, "--part", JSON.stringify(part)],
    }).outputSync();
    const lines = new TextDecoder().decode(stdout).split("\n");
    const said = lines.findLast((l) => l.startsWith(FOUND));
    if (success && said !== undefined) {
      const found: Found = JSON.parse(said.slice(FOUND.length));
      all.possible += found.possible;
      all.failures.push(...found.failures);
      continue;
    }
    const last = lines.findLast((l) => l.startsWith(AT))?.slice(AT.length);
    all.failures.push(
      `${last ?? `cases from ${at} on`}: the process ended; ${new TextDecoder().decode(stderr).slice(0, 600)}`,
    );
  }
  return all;
}

function main(): number {
  const { device = "JS,CLANG,GRID,UNITS", count = "1000", seed = "1", case: only, part } = parseArgs(Deno.args, {
    string: ["device", "count", "seed", "case", "part"],
  });
  if (part !== undefined) {
    const guarded = context({ SPEC: 1, THREADS: 2 }, () => clangBackend.open(0));
    const found = runGuarded(guarded, JSON.parse(part), (text) => console.log(`${AT}${text}`));
    console.log(`${FOUND}${JSON.stringify(found)}`);
    return 0;
  }
  let failed = 0;
  for (const place of device.split(",") as Place[]) {
    const start = performance.now(), first = Number(only ?? 0);
    const cases: Cases = { seed: Number(seed), first, count: only === undefined ? Number(count) : 1 };
    const { possible, failures } = place === "CLANG"
      ? runInProcesses(cases)
      : place === "UNITS"
      ? runOnUnits(cases)
      : runCases(place, cases);
    for (const text of failures) console.log(text);
    failed += failures.length;
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(`${place}: ${cases.count} cases, ${possible} possible, ${failures.length} findings, ${seconds} s`);
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(main());
