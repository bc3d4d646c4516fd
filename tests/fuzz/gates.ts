/**
 * Random kernels whose loops end at variables, often ones that may be 0, and whose reads are under conditions of loops and
 * variables. A read is in its memory exactly where its condition holds: what folds the condition where no iteration runs, or
 * reads where it does not hold, reads beyond the memory, which JS checks, or another value. The oracle counts with numbers. Run: `deno run -A tests/fuzz/gates.ts --count 1000 --seed 1 --device WASM`; `--case 17 --show` runs only
 * that one, and prints it.
 *
 * @module
 */
import { Device } from "../../mod.ts";
import { makeJsDevice } from "../../backends/js/js.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import type { Device as Machine } from "../../src/device/device.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { context } from "../../src/helpers/env.ts";
import { argOf, AxisKind } from "../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, index, int, load, param, range, sink, store, type UOp, variable } from "../../src/uop/core/uop.ts";
import { CAPS, type Data, integers, paramsOf, runOn } from "../codegen/harness.ts";
import { Random } from "../support/random.ts";
import { caseOptions, runCases } from "./parts/command.ts";

const f32 = dtypes.float32, zero = constant(0, f32);

/** Values of variables and iterations of loops. */
type Point = readonly number[];
/** An integer: as a node, as text, and what it is at a point. */
interface Sum {
  readonly node: UOp;
  readonly text: string;
  readonly at: (p: Point) => number;
}
/** A condition. */
interface Gate extends Omit<Sum, "at"> {
  readonly holds: (p: Point) => boolean;
}
/** A float, and which iterations of what is summed it has. */
interface Term {
  readonly node: UOp;
  readonly text: string;
  readonly at: (p: Point, data: readonly Data[]) => number;
}
/** A variable, or a loop; where a loop ends. */
interface Symbol extends Sum {
  readonly bounds: readonly [min: number, max: number];
  readonly end?: Sum;
}

class Maker {
  private readonly symbols: Symbol[] = [];
  private slots = 1;
  constructor(private readonly random: Random) {}

  private add(node: UOp, text: string, bounds: readonly [number, number], end?: Sum): Symbol {
    const i = this.symbols.length, made = { node, text, bounds, end, at: (p: Point) => p[i] };
    this.symbols.push(made);
    return made;
  }

  /** A sum of some of these symbols and a constant. */
  private sum(of: readonly Symbol[]): Sum {
    const { random } = this,
      terms = of.map((s) => ({ s, k: random.pick([0, 0, 1, 1, -1, 2, -2]) })).filter((t) => t.k !== 0);
    const c = random.int(-3, 4);
    return {
      node: terms.reduce((a, { s, k }) => a.add(k === 1 ? s.node : s.node.mul(k)), int(c)),
      text: [...terms.map(({ s, k }) => k === 1 ? s.text : `${k}${s.text}`), `${c}`].join("+"),
      at: (p) => terms.reduce((a, { s, k }) => a + k * s.at(p), c),
    };
  }

  private condition(of: readonly Symbol[]): Gate {
    const { random } = this,
      a = this.sum(of),
      isLoop = random.below(3) === 0,
      loops = of.filter((s) => s.end !== undefined);
    // often as a loop ends, which the algebra knows
    const l = isLoop && loops.length > 0 ? random.pick(loops) : undefined, more = random.int(0, 2);
    const [left, right]: [Sum, Sum] = l === undefined
      ? [a, this.sum([])]
      : [l, { node: l.end!.node.add(more), text: `${l.end!.text}+${more}`, at: (p) => l.end!.at(p) + more }];
    const less = left.node.lt(right.node), text = `${left.text} < ${right.text}`;
    if (random.below(3) > 0) return { node: less, text, holds: (p) => left.at(p) < right.at(p) };
    const node = less.alu(Ops.CMPNE, constant(1, dtypes.bool));
    return { node, text: `!(${text})`, holds: (p) => left.at(p) >= right.at(p) };
  }

  /** All values of the variables, with all iterations of these loops, of each so many at least. */
  points(vars: readonly Point[], loops: readonly Symbol[], least = 0): Point[] {
    return loops.reduce<Point[]>(
      (points, l) =>
        points.flatMap((p) =>
          Array.from({ length: Math.max(l.end!.at(p), least) }, (_, i) => {
            const q = [...p];
            q[this.symbols.indexOf(l)] = i;
            return q;
          })
        ),
      [...vars],
    );
  }

  /**
   * A read that is in its memory just where its condition holds, undefined where that is nowhere. What depends on no loop is
   * read before it, and so where it does not run: as in a first iteration.
   */
  private read(vars: readonly Point[], loops: readonly Symbol[], gates: readonly Gate[]): Term | undefined {
    const { random } = this, own = random.below(3) === 0 ? loops.slice(random.below(loops.length + 1)) : loops;
    const place = this.sum([...this.symbols.slice(0, 2), ...own]);
    const ats = this.points(vars, loops, 1).filter((p) => gates.every((g) => g.holds(p))).map(place.at);
    if (ats.length === 0) return undefined;
    const low = Math.min(...ats), slot = this.slots++, memory = param(slot, f32, Math.max(...ats) - low + 1);
    const gate = gates.map((g) => g.node).reduce<UOp | undefined>(
      (a, g) => a === undefined ? g : a.alu(Ops.AND, g),
      undefined,
    );
    return {
      node: load(index(memory, place.node.add(-low), gate)),
      text: `x${slot}[${place.text}+${-low}${gates.length > 0 ? ` if ${gates.map((g) => g.text).join(" & ")}` : ""}]`,
      at: (p, data) => gates.every((g) => g.holds(p)) ? Number(data[slot][place.at(p) - low]) : 0,
    };
  }

  private term(vars: readonly Point[], loops: readonly Symbol[]): Term | undefined {
    const { random } = this, of = [...this.symbols.slice(0, 2), ...loops];
    const gates = Array.from({ length: random.int(0, 2) }, () => this.condition(of));
    const a = this.read(vars, loops, gates);
    if (a === undefined || gates.length === 0 || random.int(0, 1) === 0) return a;
    // what is joined: one where it holds, the other elsewhere
    const [{ node, text, holds }] = gates, not = node.alu(Ops.CMPNE, constant(1, dtypes.bool));
    const b = this.read(vars, loops, [{ node: not, text: `!(${text})`, holds: (p) => !holds(p) }]);
    return {
      node: node.where(a.node, b?.node ?? zero),
      text: `(${text} ? ${a.text} : ${b?.text ?? 0})`,
      at: (p, data) => holds(p) ? a.at(p, data) : b?.at(p, data) ?? 0,
    };
  }

  private value(vars: readonly Point[], loops: readonly Symbol[], id: number): Term | undefined {
    const { random } = this;
    if (random.below(3) > 0) return this.term(vars, loops);
    const l = this.loop(this.symbols.slice(0, 2), id, AxisKind.REDUCE), inside = this.term(vars, [...loops, l]);
    if (inside === undefined) return undefined;
    return {
      node: reduce(opCarrier(Ops.ADD, f32), [inside.node], [l.node]),
      text: `sum(${l.text} < ${l.end!.text}: ${inside.text})`,
      at: (p, data) => this.points([p], [l]).reduce((a, q) => a + inside.at(q, data), 0),
    };
  }

  private loop(of: readonly Symbol[], id: number, kind: AxisKind): Symbol {
    const { random } = this, n = random.int(1, 9);
    const fixed: Sum = { node: int(n), text: `${n}`, at: () => n };
    const ends = of.flatMap((v): Sum[] => {
      const more = random.int(0, 2);
      return [v, { node: v.node.add(more), text: `${v.text}+${more}`, at: (p) => v.at(p) + more }];
    });
    const both: Sum = {
      node: of[0].node.add(of[1].node),
      text: `${of[0].text}+${of[1].text}`,
      at: (p) => of[0].at(p) + of[1].at(p),
    };
    const end = random.pick([fixed, ...ends, ...ends, both]), most = end.at(of.map((v) => v.bounds[1]));
    return this.add(range(end.node, id, kind), `i${id}`, [0, most], end);
  }

  /** A kernel, its text, the values of its variables, and what it writes for those. */
  make():
    | { ast: UOp; text: string; vars: Point[]; want: (vars: Point, data: readonly Data[]) => Float32Array }
    | undefined {
    const { random } = this;
    const bounds = [0, 1].map(() => {
      const min = random.pick([0, 0, 0, 1]);
      return [min, min + random.pick([2, 3, 5])] as const;
    });
    const variables = bounds.map(([min, max], i) => this.add(variable("nm"[i], min, max), "nm"[i], [min, max]));
    const counts = bounds.map(([min, max]) => Array.from({ length: max - min + 1 }, (_, i) => min + i));
    const vars = counts[0].flatMap((n) => counts[1].map((m): Point => [n, m]));
    const loops = [0, 1].map((id) => this.loop(variables, id, AxisKind.LOOP));
    const terms = Array.from({ length: random.int(1, 3) }, (_, i) => this.value(vars, loops, 2 + i));
    const some = terms.filter((t) => t !== undefined);
    const [rows, columns] = loops.map((l) => l.bounds[1]);
    if (some.length === 0 || rows * columns === 0) return undefined;
    const place = loops[0].node.mul(columns).add(loops[1].node),
      value = some.map((t) => t.node).reduce((a, b) => a.add(b));
    const ast = sink([store(index(param(0, f32, rows * columns), place), value)]);
    const text = `n ${bounds[0]}, m ${bounds[1]}; ${loops.map((l) => `${l.text} < ${l.end!.text}`).join(", ")}: ` +
      some.map((t) => t.text).join(" + ");
    const want = (p: Point, data: readonly Data[]): Float32Array => {
      const out = Float32Array.from(data[0] as Float32Array);
      for (const q of this.points([p], loops)) {
        out[loops[0].at(q) * columns + loops[1].at(q)] = some.reduce((a, t) => a + t.at(q, data), 0);
      }
      return out;
    };
    return { ast, text, vars, want };
  }
}

/** A machine that JS plays, or a device: what kernels are made for, and run on. */
function machines(device: string): [name: string, device: Machine][] {
  if (device !== "JS") return [[device, Device.get(device)]];
  return Object.entries(CAPS).map(([kind, caps]) => [`JS as a ${kind} machine`, makeJsDevice(caps)]);
}

/** What is wrong with case `at` of a seed on a device. */
export function checkGates(seed: number, at: number, device: string, show = false): string | undefined {
  const made = new Maker(new Random(seed * 1_000_003 + at)).make();
  if (made === undefined) return undefined;
  const { ast, text, vars, want } = made, data = integers(paramsOf(ast));
  if (show) console.log(text);
  const wanted = vars.map((p) => want(p, data));
  for (const [name, machine] of machines(device)) {
    for (const NOOPT of [0, 1]) {
      const what = `${text}: on ${name}${NOOPT === 1 ? " without opts" : ""}`;
      try {
        const linear = context({ NOOPT }, () => toProgram(ast, machine.renderer));
        const [program] = machine.compiler.compile([linear]);
        for (const [k, p] of vars.entries()) {
          const values = linear.vars.map((v) => p["nm".indexOf(argOf(v, Ops.VARIABLE).name)]);
          const [got] = runOn(machine, ast, data, program, values), wrong = wanted[k].findIndex((x, i) => x !== got[i]);
          if (wrong >= 0) return `${what}, at [${p}] place ${wrong} is ${got[wrong]}, not ${wanted[k][wrong]}`;
        }
      } catch (error) {
        return `${what}: ${(error as Error).stack}`;
      }
    }
  }
  return undefined;
}
if (import.meta.main) {
  const { device, show, ...options } = await caseOptions({ seed: 1, count: 1000, failures: 3 });
  const found = await runCases(options, (at) => checkGates(options.seed, at, device, show));
  console.log(`${found.programs} kernels on ${device}, ${found.failures.length} failures`);
  if (found.failures.length > 0) Deno.exit(1);
}
