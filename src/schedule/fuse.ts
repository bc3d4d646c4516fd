/**
 * Decides which nodes of a tensor graph get a buffer of their own; all others are computed inside their consumers.
 * Ranges flow from consumers to sources: a node read at one set of indices, once an element, fuses; a reduce read at
 * several, or by an expanded consumer, is realized; elementwise work is recomputed while that is cheaper than memory.
 *
 * @module
 */
import { sameArray } from "../helpers/math.ts";
import { AxisKind, type RangeArg, type ReduceArg } from "../uop/args.ts";
import { rangesOf } from "../uop/ranges.ts";
import { numelOf } from "../uop/movement.ts";
import { isAlu, isMovement, Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { int, range, toposort, type UOp } from "../uop/uop.ts";
import { sourceIndex } from "./indexing.ts";

/** Work an element beyond which a value is kept rather than computed again for a second reader. */
const KEEP_COST = 30;
/** The same where each element would be computed at least eight times. */
const KEEP_COST_REPEATED = 4;
/** Work an element from which a row that is read twice in one kernel is kept rather than computed again. */
const STAGE_COST = 8;
/** Elements of a row that is kept. */
const MAX_ROW = 1 << 14;
/** Rows that a kernel with reduces in front of its inner loops must have, for threads to share. */
const MIN_ROWS = 8;
/** Share of a kernel's iterations that work outside of its inner loops may add, an element each, before it is kept. */
const HOISTED_SHARE = 0.05;
/** Work up to which one row after another in one thread is cheaper than a kernel more. */
const MAX_SERIAL = 1 << 14;
/** How much more a sum inside a sum may compute rather than go through memory. */
const SUM_OF_SUMS = 2;
/** A node read at more sets of indices than this is realized. */
const MAX_CONTEXTS = 8;

/** True for nodes that are storage already or always get some. */
export function mustRealize(u: UOp): boolean {
  return u.op === Ops.CONTIGUOUS || u.op === Ops.COPY || u.op === Ops.STORE;
}

/** True where reading a node reads memory or needs none: nothing is computed. */
export function isLeaf(u: UOp): boolean {
  switch (u.op) {
    case Ops.BUFFER:
    case Ops.CONST:
    case Ops.VARIABLE:
    case Ops.BIND:
    case Ops.IOTA:
    case Ops.AFTER:
      return true;
    default:
      return false;
  }
}

/** The node below RESHAPEs: what a buffer would hold. */
export function stripReshape(u: UOp): UOp {
  while (u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

function ownCost(u: UOp): number {
  switch (u.op) {
    case Ops.EXP2:
    case Ops.LOG2:
    case Ops.SIN:
      return 12;
    case Ops.SQRT:
    case Ops.FDIV:
      return 4;
    case Ops.FLOORDIV:
    case Ops.FLOORMOD:
    case Ops.CDIV:
    case Ops.CMOD:
      return 6;
    case Ops.CAST:
    case Ops.BITCAST:
      return 0;
    default:
      return isAlu(u.op) ? 1 : 0;
  }
}

interface Context {
  readonly kernel: UOp;
  readonly idx: readonly UOp[];
  /** Times the body is entered: product of the ranges around it. */
  readonly active: number;
  /** Only movement ops stand between this and a sum that reads it. */
  readonly underSum: boolean;
}

/** What is kept inside of one kernel besides its output. */
export interface KernelPlan {
  /** Output axes that reduces of the kernel depend on: their loops are outermost, the reduces run once in each iteration. */
  outer: readonly number[] | undefined;
  /** Nodes whose values over some axes are kept in a STAGE for each iteration of the outer loops: those axes. */
  readonly staged: Map<UOp, readonly number[]>;
}

/** Which nodes get buffers, and what else each kernel keeps. */
export interface FusionPlan {
  readonly realized: Set<UOp>;
  readonly kernels: Map<UOp, KernelPlan>;
}

/** Output ranges of a kernel over `shape`: ids 0, 1, ... by axis, `outer` axes first; axes of size 1 are the constant 0. */
export function outputRanges(shape: readonly number[], outer: readonly number[] = []): UOp[] {
  const order = [...outer, ...shape.map((_, i) => i).filter((i) => !outer.includes(i))];
  return shape.map((n, i) => n === 1 ? int(0) : range(n, order.indexOf(i), AxisKind.LOOP));
}

type Read = (u: UOp, kernel: UOp, idx: readonly UOp[], active: number, underSum: boolean) => void;

/** The LOOP ranges that indices depend on, or undefined where they depend on a range being reduced. */
function outputDependence(idx: readonly UOp[]): UOp[] | undefined {
  const found = new Set<UOp>();
  for (const x of idx) {
    for (const r of rangesOf(x)) {
      if ((r.arg as RangeArg).kind !== AxisKind.LOOP) return undefined;
      found.add(r);
    }
  }
  return [...found];
}

/** Decides, from consumers to sources, which nodes are realized. */
class Fuser {
  readonly realized = new Set<UOp>();
  readonly kernels = new Map<UOp, KernelPlan>();
  private readonly cost = new Map<UOp, number>();
  private readonly reduces = new Set<UOp>();
  private readonly loads = new Set<UOp>();
  /** Reduces stacked below a node, itself included. */
  private readonly depth = new Map<UOp, number>();
  private readonly contexts = new Map<UOp, Context[]>();
  private nextRange = 1 << 16;

  constructor(private readonly order: readonly UOp[]) {}

  /** Bottom-up facts: work an element, whether a reduce or a load is below. */
  measure(): void {
    const { realized, cost, reduces, loads } = this;
    for (const u of this.order) {
      if (mustRealize(u)) realized.add(u);
      if (u.op === Ops.COPY || (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize)) {
        const base = stripReshape(u.src[0]);
        if (!isLeaf(base) || base.op === Ops.CONST || base.op === Ops.IOTA) realized.add(base);
      }
      let c = ownCost(u), r = u.op === Ops.REDUCE, stacked = 0;
      for (const s of u.src) {
        if (realized.has(s) || loads.has(s)) loads.add(u);
        if (realized.has(s) || isLeaf(s)) continue;
        c += cost.get(s)!;
        stacked = Math.max(stacked, this.depth.get(s)!);
        r ||= reduces.has(s);
      }
      if (u.op === Ops.BUFFER || u.op === Ops.AFTER) loads.add(u);
      this.depth.set(u, stacked + (u.op === Ops.REDUCE ? 1 : 0));
      // what is repeated by an EXPAND is decided on below it; a reduce runs once or is realized
      if (u.op === Ops.EXPAND) c = Math.min(c, KEEP_COST_REPEATED - 1);
      cost.set(u, u.op === Ops.REDUCE ? 0 : Math.min(c, 1e6));
      if (r && u.op !== Ops.EXPAND) reduces.add(u);
    }
  }

  private planOf(kernel: UOp): KernelPlan {
    let plan = this.kernels.get(kernel);
    if (plan === undefined) this.kernels.set(kernel, plan = { outer: undefined, staged: new Map() });
    return plan;
  }

  run(): void {
    const read: Read = (u, kernel, idx, active, underSum) => {
      if (isLeaf(u)) return;
      const list = this.contexts.get(u);
      if (list === undefined) this.contexts.set(u, [{ kernel, idx, active, underSum }]);
      else if (!list.some((c) => c.kernel === kernel && sameArray(c.idx, idx))) {
        list.push({ kernel, idx, active, underSum });
      }
    };
    for (let k = this.order.length - 1; k >= 0; k--) {
      const u = this.order[k];
      if (isLeaf(u)) continue;
      let list = this.contexts.get(u) ?? [];
      if (!this.realized.has(u) && list.length > 0 && !isMovement(u.op)) {
        const staged = this.decide(u, list);
        if (staged !== undefined) list = [staged];
      }
      if (this.realized.has(u)) {
        if (u.op === Ops.COPY) continue;
        if (u.op === Ops.STORE) {
          read(u.src[1], u, outputRanges(shapeOf(u.src[1])), numelOf(u.src[1]), false);
          continue;
        }
        list = [{ kernel: u, idx: outputRanges(shapeOf(u)), active: numelOf(u), underSum: false }];
      }
      for (const c of list) this.enter(u, c, read);
    }
  }

  /** Realizes `u` where that is cheaper; a context of its own where it is kept in a STAGE. */
  private decide(u: UOp, list: readonly Context[]): Context | undefined {
    const { realized } = this;
    if (list.length > MAX_CONTEXTS) {
      realized.add(u);
      return undefined;
    }
    const cost = this.cost.get(u)!, numel = Math.max(1, numelOf(u));
    const repeats = list.reduce((t, c) => t + c.active, 0) / numel;
    if (!this.reduces.has(u)) {
      const hasLoads = this.loads.has(u);
      const entered = list.reduce((t, c) => t + this.entered(c), 0), active = list.reduce((t, c) => t + c.active, 0);
      // outside of the inner loops, or beside a reduce, it costs next to nothing
      const share = list.every((c) => this.reduces.has(c.kernel)) ? 1 : HOISTED_SHARE;
      if (entered * cost <= share * active) return undefined;
      if (repeats > 1 && (cost >= KEEP_COST || (hasLoads && repeats >= 8 && cost >= KEEP_COST_REPEATED))) {
        realized.add(u);
      }
      return undefined;
    }
    if (list.length === 1 && repeats <= 1 && !this.isNested(u, list[0])) return undefined;
    // a sum of sums is one sum, even if masked shifts make it compute a little more (the gradient of windows)
    if (
      list.length === 1 && list[0].underSum && repeats < SUM_OF_SUMS && u.op === Ops.REDUCE &&
      this.depth.get(u) === 1 &&
      (u.arg as ReduceArg).op === Ops.ADD
    ) {
      return undefined;
    }
    const { kernel } = list[0];
    if (list.some((c) => c.kernel !== kernel)) {
      realized.add(u);
      return undefined;
    }
    if (u.op === Ops.REDUCE) {
      if (list.length > 1 || !this.hoist(kernel, list[0], numel)) realized.add(u);
      return undefined;
    }
    if (list.every((c) => this.hoistable(c, numel))) {
      // computed once in each iteration of the outer loops, or cheap enough to compute in several of the inner ones
      if (list.length === 1) return undefined;
    }
    const rows = this.rowAxes(u, list);
    if (rows === undefined || !this.fixOuter(kernel, rows.outer)) {
      realized.add(u);
      return undefined;
    }
    if (cost < STAGE_COST) return undefined;
    const shape = shapeOf(u);
    const idx = list[0].idx.map((x, i) =>
      rows.axes.includes(i) && shape[i] !== 1 ? range(shape[i], this.nextRange++, AxisKind.LOOP) : x
    );
    this.planOf(kernel).staged.set(u, rows.axes);
    return { kernel, idx, active: numel, underSum: false };
  }

  /**
   * A reduce inside of the loop of another one runs in one thread with it, and takes its lanes: worth it for little work
   * only (a sum of sums is one sum, and no such case).
   */
  private isNested(u: UOp, c: Context): boolean {
    if (outputDependence(c.idx) !== undefined) return false;
    const isSum = u.op === Ops.REDUCE && (u.arg as ReduceArg).op === Ops.ADD && c.underSum && this.depth.get(u) === 1;
    return !isSum && this.workBelow(u) > MAX_SERIAL;
  }

  /** Elements that the nearest reduces below `u` read. */
  private workBelow(u: UOp): number {
    while (isAlu(u.op) || isMovement(u.op)) {
      const next = u.src.find((s) => this.reduces.has(s) && !this.realized.has(s));
      if (next === undefined) return 0;
      u = next;
    }
    return u.op === Ops.REDUCE ? numelOf(u.src[0]) : 0;
  }

  /** The output axis of each range, as {@linkcode outputRanges} numbers them without an order. */
  private axesOf(ranges: readonly UOp[]): number[] {
    return ranges.map((r) => (r.arg as RangeArg).id).filter((id) => id < 1 << 16).sort((a, b) => a - b);
  }

  /** Times a node without reduces is computed: outside of the output loops behind the last one that it depends on. */
  private entered(c: Context): number {
    const ranges = outputDependence(c.idx);
    if (ranges === undefined) return c.active;
    const shape = shapeOf(c.kernel.op === Ops.STORE ? c.kernel.src[1] : c.kernel);
    const last = Math.max(-1, ...this.axesOf(ranges));
    return shape.slice(0, last + 1).reduce((n, size) => n * size, 1);
  }

  private hoistable(c: Context, numel: number): boolean {
    const ranges = outputDependence(c.idx);
    if (ranges === undefined) return false;
    return ranges.reduce((n, r) => n * r.src[0].value, 1) <= numel;
  }

  /** Makes `outer` the outermost loops of a kernel, unless it has others already. */
  private fixOuter(kernel: UOp, outer: readonly number[]): boolean {
    if (kernel.op === Ops.STORE) return false;
    const plan = this.planOf(kernel);
    plan.outer ??= outer;
    return sameArray(plan.outer, outer);
  }

  /** A reduce that depends on some output loops only runs outside of the others, if enough remain to share out. */
  private hoist(kernel: UOp, c: Context, numel: number): boolean {
    const ranges = outputDependence(c.idx);
    if (ranges === undefined) return false;
    const iterations = ranges.reduce((n, r) => n * r.src[0].value, 1);
    if (iterations > numel) return false;
    if (iterations < MIN_ROWS && c.active > MAX_SERIAL) return false;
    return this.fixOuter(kernel, this.axesOf(ranges));
  }

  /** Where the contexts of `u` differ only in which loop runs over whole axes: those axes, and the loops around them. */
  private rowAxes(u: UOp, list: readonly Context[]): { axes: number[]; outer: number[] } | undefined {
    const shape = shapeOf(u);
    const axes: number[] = [], outer = new Set<number>();
    for (let i = 0; i < shape.length; i++) {
      const first = list[0].idx[i];
      if (list.every((c) => c.idx[i] === first)) {
        const ranges = outputDependence([first]);
        if (ranges === undefined) return undefined;
        for (const a of this.axesOf(ranges)) outer.add(a);
        continue;
      }
      if (list.some((c) => c.idx[i].op !== Ops.RANGE || c.idx[i].src[0].value !== shape[i])) return undefined;
      axes.push(i);
    }
    const row = axes.reduce((n, i) => n * shape[i], 1), rows = numelOf(u) / Math.max(row, 1);
    if (axes.length === 0 || row > MAX_ROW || (rows < MIN_ROWS && numelOf(u) > MAX_SERIAL)) return undefined;
    return { axes, outer: [...outer].sort((a, b) => a - b) };
  }

  /** Passes the context of a node computed in place on to its sources. */
  private enter(u: UOp, c: Context, read: Read): void {
    if (isMovement(u.op)) return read(u.src[0], c.kernel, sourceIndex(u, c.idx).idx, c.active, c.underSum);
    if (u.op === Ops.REDUCE) {
      const { op, axes } = u.arg as ReduceArg;
      const from = shapeOf(u.src[0]);
      let active = c.active;
      const outputs = outputDependence(c.idx);
      // a reduce outside of some output loops is entered once for each iteration of the others
      if (outputs !== undefined) active = Math.min(active, outputs.reduce((n, r) => n * r.src[0].value, 1));
      const idx = c.idx.map((x, i) => {
        if (!axes.includes(i)) return x;
        active *= from[i];
        return from[i] === 1 ? int(0) : range(from[i], this.nextRange++, AxisKind.REDUCE);
      });
      return read(u.src[0], c.kernel, idx, active, op === Ops.ADD);
    }
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) return;
    for (const s of u.src) read(s, c.kernel, c.idx, c.active, false);
  }
}

/**
 * Chooses the nodes to realize below `roots`, and what each kernel keeps.
 * Roots are stores, copies, or values already stripped of RESHAPE.
 */
export function planFusion(roots: readonly UOp[]): FusionPlan {
  const fuser = new Fuser(toposort(roots));
  for (const r of roots) if (!isLeaf(r)) fuser.realized.add(r);
  fuser.measure();
  fuser.run();
  return fuser;
}
