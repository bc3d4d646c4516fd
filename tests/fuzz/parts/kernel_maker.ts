/** Random kernels, and random lists of opts that are possible for one: on a grid, and on loops. */
import { simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { Kernel } from "../../../src/codegen/opt/kernel.ts";
import { axisOpt, type Opt } from "../../../src/codegen/opt/opt.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import { chainOf, type TensorCore } from "../../../src/renderer/tensor_core_table.ts";
import { AxisKind, type ParamArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { vmax, vmin } from "../../../src/uop/algebra/bounds.ts";
import { index, load, param, range, sink, store, toposort, type UOp, variable } from "../../../src/uop/core/uop.ts";
import { type Data, integers, paramsOf } from "../../codegen/harness.ts";
import type { Random } from "../../support/random.ts";

const f32 = dtypes.float32;

const SIZES = [1, 2, 3, 4, 5, 8, 12, 16, 17, 20, 32, 33];

/** Iterations of an axis, at most. */
function room(r: UOp): number {
  return vmax(r.src[0]);
}

/** A read of slot `slot` at a random layout of `loops`: some axes left out, in a random order, perhaps shifted and gated. */
function read(random: Random, slot: number, loops: readonly UOp[], all: boolean): UOp {
  const axes = loops.filter(() => all || random.below(4) > 0);
  if (random.below(2) > 0) axes.reverse();
  let at: UOp | undefined, gate: UOp | undefined, size = 1;
  for (const r of axes) {
    let n = room(r), x = r;
    if (n > 2 && random.below(8) === 0) {
      // a shifted axis, of which the first element is beyond the edge
      x = r.add(-1);
      const inside = r.lt(1).ne(1);
      gate = gate === undefined ? inside : gate.and(inside);
      n--;
    }
    at = at === undefined ? x : at.mul(n).add(x);
    size *= n;
  }
  return load(index(param(slot, f32, size), at ?? range(1, 99, AxisKind.LOOP).constLike(0), gate));
}

/**
 * A kernel: an expression, a reduction, a product, a reduction and what follows it, or a reduction of reductions. Axes of
 * one that `isOpen` may end at the variable `n`.
 */
export function randomKernel(random: Random, isOpen = false): UOp {
  let id = 0, budget = 8000;
  const end = variable("n", 0, isOpen ? random.pick(SIZES.slice(3)) : 1);
  const axis = (kind: AxisKind): UOp => {
    if (isOpen && random.below(3) === 0 && vmax(end) <= budget) {
      budget = Math.floor(budget / vmax(end));
      return range(end, id++, kind);
    }
    const n = Math.min(random.pick(SIZES), Math.max(1, budget));
    budget = Math.floor(budget / n);
    return range(n, id++, kind);
  };
  const axes = (kind: AxisKind, least: number, most: number): UOp[] =>
    Array.from({ length: least + random.below(most - least + 1) }, () => axis(kind));
  const add = opCarrier(Ops.ADD, f32), max = opCarrier(Ops.MAX, f32);
  const kind = random.below(5), outer = axes(AxisKind.LOOP, 1, kind < 2 ? 3 : 1);
  let written = outer, value: UOp;
  if (kind === 0) value = read(random, 1, outer, true).add(read(random, 2, outer, false));
  else if (kind === 1) {
    const own = axes(AxisKind.REDUCE, 1, 3);
    value = reduce(random.pick([add, max]), [read(random, 1, [...outer, ...own], true)], own);
  } else if (kind === 2) {
    const columns = axes(AxisKind.LOOP, 1, 2), own = axes(AxisKind.REDUCE, 1, 2);
    written = [...outer, ...columns];
    value = reduce(
      add,
      [read(random, 1, [...outer, ...own], true).mul(read(random, 2, [...columns, ...own], true))],
      own,
    );
  } else if (kind === 3) {
    const own = axes(AxisKind.REDUCE, 1, 2), after = axes(AxisKind.LOOP, 1, 2);
    written = [...outer, ...after];
    value = read(random, 2, written, true).add(reduce(add, [read(random, 1, [...outer, ...own], true)], own));
  } else {
    const first = axes(AxisKind.REDUCE, 1, 1), second = axes(AxisKind.REDUCE, 1, 1);
    const inner = reduce(max, [read(random, 1, [...outer, ...first, ...second], true)], second);
    value = reduce(add, [inner.add(read(random, 2, [...outer, ...first], false))], first);
  }
  if (random.below(3) === 0) value = value.mul(2).add(1);
  const order = random.below(3) === 0 ? written.toReversed() : written;
  let at: UOp | undefined, size = 1;
  for (const r of order) {
    at = at === undefined ? r : at.mul(room(r)).add(r);
    size *= room(r);
  }
  return sink([store(index(param(0, f32, size), at!), value)]);
}

const UNIT_SIZES = [8, 16, 16, 17, 24, 32, 40, 48, 64, 72, 96, 100, 128];

/**
 * A product of matrices for a matrix unit of an input dtype: perhaps in batches, of operands in either order, with a number
 * added and stored in any order. Some of its axes end at the variable `n`, at a multiple of it or a number behind it.
 */
export function randomProduct(random: Random, input: DType): UOp {
  const end = variable("n", 0, random.pick([40, 130, 140, 200])), sumType = input.isInt ? dtypes.int32 : f32;
  let id = 0;
  const ends = [end, end, end.mul(2), end.add(random.pick([1, 8, 16, 40]))];
  const axis = (kind: AxisKind): UOp => {
    const isOpen = random.below(2) === 0;
    return isOpen ? range(random.pick(ends), id++, kind) : range(random.pick(UNIT_SIZES), id++, kind);
  };
  const batch = random.below(3) === 0 ? [range(random.pick([2, 3]), id++, AxisKind.LOOP)] : [];
  const row = axis(AxisKind.LOOP), column = axis(AxisKind.LOOP), own = axis(AxisKind.REDUCE);
  const flat = (axes: readonly UOp[]): [at: UOp, size: number] => {
    const sizes = axes.map(room);
    const at = axes.slice(1).reduce((x, r, i) => x.mul(sizes[i + 1]).add(r), axes[0]);
    return [at, sizes.reduce((a, b) => a * b, 1)];
  };
  const ordered = (axes: readonly UOp[]): UOp[] => random.below(2) === 0 ? axes.toReversed() : axes.slice();
  const operand = (slot: number, side: UOp, isShared: boolean): UOp => {
    const [at, size] = flat([...isShared ? [] : batch, ...ordered([side, own])]);
    return load(index(param(slot, input, size), at)).cast(sumType);
  };
  let value = reduce(
    opCarrier(Ops.ADD, sumType),
    [operand(1, row, false).mul(operand(2, column, random.below(2) === 0))],
    [own],
  );
  if (random.below(3) === 0) value = value.mul(2).add(1);
  const [at, size] = flat([...batch, ...ordered([row, column])]);
  return sink([store(index(param(0, sumType, size), at), value)]);
}

/** Opts that have matrix unit `number` compute the product or the chain of a kernel, in tiles; undefined where it cannot. */
export function unitOpts(random: Random, ast: UOp, cores: readonly TensorCore[], number: number): Opt[] | undefined {
  const k = new Kernel(simplifyRanges(ast), true, cores), core = cores[number], outputs = k.outputAxes.length;
  const chain = k.chainAxes(core), found = chain ?? k.productAxes(core), { axes } = k;
  if (found === undefined) return undefined;
  const isShared = core.shared !== undefined,
    { outer, inner } = (chain && chainOf(core)) ?? { outer: core, inner: core };
  const sum = outputs + (chain?.middle ?? (found as { sum: number }).sum);
  /** So many tiles of `unit` along an axis, or fewer, of which an axis that ends at a variable has two. */
  const fitting = (axis: number, unit: number, count: number): number => {
    while (count > 1 && axes[axis].isOpen && 2 * unit * count > room(axes[axis].range)) count /= 2;
    return count;
  };
  const near = chain === undefined && !isShared ? fitting(found.rows, outer.m, random.pick([1, 1, 2])) : 1;
  const threads = fitting(found.rows, outer.m * near, random.pick([1, 1, 2]));
  const depth = fitting(sum, outer.k, isShared ? chain === undefined ? 4 : 1 : random.pick([1, 2, 4]));
  const pair = isShared ? 1 : 2;
  // a chain has all columns of a row in one group
  const across = found.columns < 0
    ? 1
    : chain !== undefined
    ? Math.ceil(axes[found.columns].size / outer.n / pair) * pair
    : isShared
    ? Math.max(1, 64 / outer.n)
    : fitting(found.columns, outer.n, random.pick([1, 2, 4]));
  const sides: [axis: number, size: number][] = [
    [found.rows, outer.m * threads * near],
    [found.columns, outer.n * across],
    [sum, outer.k * depth],
    ...(chain?.sums ?? []).map((s): [number, number] => [outputs + s, isShared ? 64 : inner.k]),
  ];
  try {
    for (const [axis, size] of sides) {
      if (axis >= 0 && (axes[axis].isOpen || axes[axis].size % size !== 0)) k.apply({ op: "PADTO", axis, size });
    }
    k.apply({ op: "TC", unit: number });
    if (near > 1) k.apply({ op: "UPCAST", axis: found.rows, size: near });
    if (threads > 1) k.apply({ op: "LOCAL", axis: found.rows, size: threads });
    if (across > 1) k.apply({ op: "UPCAST", axis: found.columns, size: across });
    if (depth > 1) k.apply({ op: "UNROLL", reduce: sum - outputs, size: depth });
    for (const s of chain?.sums ?? []) {
      const { rest } = k.axes[outputs + s];
      if (rest > 1) k.apply({ op: "UNROLL", reduce: s, size: rest });
    }
    const ring = random.pick([1, 2, 3, 4]), inputs = chain === undefined ? [1, 2] : chain.columns < 0 ? [2] : [2, 3];
    if (isShared || random.below(4) > 0) { for (const input of inputs) k.apply({ op: "STAGE", input, ring }); }
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    return undefined;
  }
  return k.applied;
}

/** A value of each variable of a kernel, which has one at most. */
export function drawnVars(random: Random, ast: UOp): number[] {
  return toposort(ast).flatMap((u) => u.op === Ops.VARIABLE ? vmin(u) + random.below(vmax(u) - vmin(u) + 1) : []);
}

/** Opts of a grid that are possible, one after the other. */
export function gridOpts(random: Random, ast: UOp): Opt[] {
  const k = new Kernel(ast, true, []), out: Opt[] = [];
  let threads = 1;
  for (let i = 1 + random.below(7); i > 0; i--) {
    const outputs = k.outputAxes.length, reduces = k.axes.length - outputs, any = random.below(outputs + reduces);
    const factor = random.pick([2, 3, 4, 5, 8]);
    const o: Opt = random.pick<Opt>([
      { op: "LOCAL", axis: random.below(outputs), size: factor },
      { op: "LOCAL", axis: random.below(outputs), size: factor },
      { op: "UPCAST", axis: random.below(outputs), size: factor },
      { op: "UNROLL", reduce: random.below(reduces + 1), size: factor },
      { op: "GROUP", reduce: random.below(reduces + 1), size: random.pick([2, 4, 8, 32, 64]) },
      { op: "GROUPTOP", reduce: random.below(reduces + 1), size: random.pick([2, 4, 8]) },
      { op: "PADTO", axis: any, size: factor },
      { op: "MERGE", axis: any, other: random.below(outputs + reduces) },
      { op: "STAGE", input: 1 + random.below(2), ring: random.pick([1, 3]) },
    ]);
    const more = o.op === "LOCAL" || o.op === "GROUP" || o.op === "GROUPTOP" ? o.size : 1;
    if (threads * more > 256) continue;
    try {
      k.apply(o);
      out.push(o);
      threads *= more;
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
    }
  }
  return out;
}

/** Opts of loops that are possible, one after the other; axes count those of the kernel once its ranges are simplified. */
export function loopOpts(random: Random, ast: UOp): Opt[] {
  const k = new Kernel(simplifyRanges(ast));
  for (let i = 1 + random.below(6); i > 0; i--) {
    const op = random.pick(["UPCAST", "UNROLL", "VECTOR", "VECTOR", "PADTO", "THREAD", "SWAP", "STAGE"] as const);
    const axis = random.below(k.axes.length + 1), size = random.pick([2, 3, 4, 5, 8, 16]);
    const o: Opt = op === "STAGE"
      ? { op, input: random.below(4), loops: random.below(4) }
      : axisOpt(op, axis, op === "SWAP" ? random.below(3) : op === "THREAD" ? random.pick([0, 2]) : size);
    try {
      k.apply(o);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
    }
  }
  return k.applied;
}

/** Data of whole numbers; what is only written holds NaN before: an element that nothing writes shows. */
export function poisoned(ast: UOp, seed: number): Data[] {
  const data = integers(paramsOf(ast), seed), loaded = new Set<number>();
  for (const u of toposort(ast)) if (u.op === Ops.LOAD) loaded.add((u.src[0].src[0].arg as ParamArg).slot);
  data.forEach((d, slot) => {
    if (!loaded.has(slot)) d.fill(NaN);
  });
  return data;
}
