/**
 * Where each node of a tensor graph is read: by which kernels, at which indices, how often. Contexts flow from consumers to
 * sources; at each node that is read it is decided whether it gets a buffer, is kept in a row, or is computed in place.
 *
 * @module
 */
import { sameArray } from "../../helpers/math.ts";
import { argOf, AxisKind, reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { iterationsOf } from "../../uop/core/ranges.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { int, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { dependence, isLoop, sourceIndex } from "../../uop/graph/movement_index.ts";
import { type Cascade, cascadeOf } from "./cascade.ts";
import {
  emptyPlan,
  isLeaf,
  type KernelPlan,
  mustRealize,
  outputRanges,
  readsMemory,
  stripReshape,
} from "./fusion_plan.ts";
import { isSelection } from "./reduce_forms.ts";
import { bodyWeight, KEEP_COST_REPEATED, ownCost } from "./recompute.ts";
import { stackedAxis } from "./stacked.ts";

/** Numbers of the ranges of a kernel's output; those of its reduces and rows follow. */
export const OUTPUT_RANGES: number = 1 << 16;
/** Elements beyond which nothing is kept that could be computed again: few devices have the memory. */
export const MOST_KEPT: number = 2 ** 31;
/** Weight of a kernel's nodes beyond which it is cut in two: compilers take more than linear time, and walks a stack. */
const MOST_BODY = 1024;
/** Reshapes in a row beyond which a copy is made: each may divide what the ones before made of an index. */
const MOST_RESHAPES = 64;

/** Copies of a body that selections ask for, at most: they are in registers together. */
export const MOST_COPIES: number = 64;

/** The output axis of a kernel that an index runs along; undefined for others. */
function outputAxisOf(index: UOp): number | undefined {
  if (index.op !== Ops.RANGE) return undefined;
  const { id } = argOf(index, Ops.RANGE);
  return id < OUTPUT_RANGES ? id : undefined;
}

/** One way in which a node is read. */
export interface Context {
  readonly kernel: UOp;
  readonly idx: readonly UOp[];
  /** Times the body is entered: product of the ranges around it. */
  active: number;
  /** Only movement ops stand between this and a sum that reads it. */
  underSum: boolean;
}

type Read = (u: UOp, kernel: UOp, idx: readonly UOp[], active: number, underSum: boolean) => void;

/** What the graph below a node says of it, and where it is read. */
export interface Facts {
  /** Work an element. */
  readonly cost: number;
  /** The same with the reduces below, as far as they are not repeated by an EXPAND. */
  readonly fullCost: number;
  /** Whether a reduce, and whether a load, is computed with it. */
  readonly reduces: boolean;
  readonly loads: boolean;
  /** Reduces stacked below it, itself included. */
  readonly depth: number;
  /** Reshapes stacked below it, up to what is reduced or repeated. */
  readonly reshapes: number;
  contexts: Context[];
  /** The contexts by kernel, where they are many. */
  byKernel: Map<UOp, Context[]> | undefined;
}

/** Contexts of a node that are looked at one by one. */
const FEW_CONTEXTS = 16;

/** The contexts of a node among which one in `kernel` would be. */
function contextsIn(facts: Facts, kernel: UOp): readonly Context[] {
  if (facts.contexts.length < FEW_CONTEXTS) return facts.contexts;
  if (facts.byKernel === undefined) {
    facts.byKernel = new Map();
    for (const c of facts.contexts) putContext(facts.byKernel, c);
  }
  return facts.byKernel.get(kernel) ?? NO_CONTEXTS;
}

function putContext(byKernel: Map<UOp, Context[]>, c: Context): void {
  const list = byKernel.get(c.kernel);
  if (list === undefined) byKernel.set(c.kernel, [c]);
  else list.push(c);
}

/** Adds a context to those of a node. */
function addContext(facts: Facts, c: Context): void {
  if (facts.contexts.length === 0) facts.contexts = [c];
  else facts.contexts.push(c);
  if (facts.byKernel !== undefined) putContext(facts.byKernel, c);
}

/** What a node has that is not read yet: a list to be replaced. */
const NO_CONTEXTS: Context[] = [];

/** A graph, and what is decided of it so far. */
export abstract class ContextWalk {
  readonly realized: Set<UOp> = new Set();
  readonly kernels: Map<UOp, KernelPlan> = new Map();
  protected readonly facts: Map<UOp, Facts> = new Map();
  /** By the first reduce of a cascade. */
  protected readonly cascades: Map<UOp, Cascade> = new Map();
  /** By kernel: the next range of a reduce or of a row. Kernels that are alike have the same ones, and the same indices. */
  private readonly nextRange = new Map<UOp, number>();
  /** What was kept for what is reduced below: sums that are read by a sum, and rows of what is made of reduces. */
  protected readonly deepSums: UOp[] = [];
  protected readonly keptRows: UOp[] = [];
  /** What is made of reduces, and got a buffer because several kernels would run those. */
  protected readonly sharedRows: UOp[] = [];

  /** @param inPlace nodes that are computed in place, whatever it costs */
  constructor(protected readonly order: readonly UOp[], readonly inPlace: ReadonlySet<UOp>) {}

  /** Realizes `u`, which is read in `list`, where that is cheaper; a context of its own where a row of it is kept. */
  protected abstract decide(u: UOp, list: readonly Context[]): Context | undefined;

  /** Bottom-up facts: work an element, whether a reduce or a load is below. */
  measure(): void {
    const { order } = this;
    for (let k = 0; k < order.length; k++) {
      const u = order[k];
      this.realizeSources(u);
      const isReduce = u.op === Ops.REDUCE, isExpand = u.op === Ops.EXPAND;
      let cost = ownCost(u), full = cost, depth = 0, reduces = isReduce, reshapes = 0;
      let loads = u.op === Ops.BUFFER || u.op === Ops.AFTER;
      for (let i = 0; i < u.src.length; i++) {
        const s = u.src[i], below = this.of(s), isRealized = this.realized.has(s);
        if (isRealized || below.loads) loads = true;
        if (isRealized || isLeaf(s)) continue;
        cost += below.cost;
        full += below.fullCost;
        reshapes = Math.max(reshapes, below.reshapes);
        depth = Math.max(depth, below.depth);
        reduces ||= below.reduces;
      }
      // what is repeated by an EXPAND is decided on below it; a reduce runs once or is realized
      if (isExpand) {
        cost = Math.min(cost, KEEP_COST_REPEATED - 1);
        full = Math.min(full, KEEP_COST_REPEATED - 1);
      } else if (isReduce) full = (full + 1) * numelOf(u.src[0]) / Math.max(1, numelOf(u));
      if (isReduce || isExpand) reshapes = 0;
      else if (u.op === Ops.RESHAPE && ++reshapes > MOST_RESHAPES) this.cut(u);
      const cascade = isReduce ? cascadeOf(u) : undefined;
      if (cascade !== undefined) this.cascades.set(cascade.first, cascade);
      this.facts.set(u, {
        cost: isReduce ? 0 : Math.min(cost, 1e6),
        fullCost: Math.min(full, 1e9),
        reduces: reduces && !isExpand,
        loads,
        depth: isReduce ? depth + 1 : depth,
        reshapes,
        contexts: NO_CONTEXTS,
        byKernel: undefined,
      });
    }
  }

  /** Realizes nodes so that no kernel has too much of a body; false where none has. */
  cutBodies(): boolean {
    const bodies = new Map<UOp, number>(), before = this.realized.size;
    for (const u of this.order) {
      if (isLeaf(u)) continue;
      let body = bodyWeight(u);
      for (const s of u.src) if (!this.realized.has(s)) body += bodies.get(s) ?? 0;
      if (body > MOST_BODY && (body = this.bodyOf(u)) > MOST_BODY) this.cut(u);
      bodies.set(u, body);
    }
    return this.realized.size > before;
  }

  /**
   * The reduces that got buffers, where something above one of them got one because it was decided before that this reduce
   * would run with it: knowing them, another plan may read it there. None where they decide nothing. `start` had buffers
   * from the start. With `made` also what is made of reduces without buffers.
   */
  keptReduces(start: ReadonlySet<UOp>, made = false): readonly UOp[] {
    const found: UOp[] = [], above = new Set<UOp>(), running = new Set<UOp>();
    let isOpen = false;
    for (const u of this.order) {
      if (isLeaf(u) || !this.of(u).reduces) continue;
      const runs = u.op === Ops.REDUCE || u.src.some((s) => running.has(s));
      // what only reads others is elementwise once they are known
      const isFound = runs && this.realized.has(u) && (made || u.op === Ops.REDUCE), isKept = isFound || start.has(u);
      if (runs && !isKept) running.add(u);
      if (start.has(u)) continue;
      if (isFound) found.push(u);
      else if (!u.src.some((s) => above.has(s))) continue;
      else isOpen ||= this.realized.has(u);
      above.add(u);
    }
    return isOpen ? found : [];
  }

  /**
   * What got buffers below what was kept for it: another plan, knowing it, computes that where it is read. With `isAlone` only
   * where that is elementwise.
   */
  keptBelow(list: readonly UOp[], start: ReadonlySet<UOp>, isAlone = false): readonly UOp[] {
    const isKept = (u: UOp): boolean => isLeaf(u) || this.realized.has(u);
    return list.flatMap((made) => {
      const below = toposort(made.src, (u) => !isKept(u));
      if (below.some((u) => !isKept(u) && (isAlone ? !isAlu(u.op) : u.op === Ops.REDUCE))) return [];
      return below.filter((u) => isKept(u) && !isLeaf(u) && !start.has(u));
    });
  }

  /** Weight of the nodes that are computed with `u`, each once; counted up to the limit. */
  private bodyOf(u: UOp): number {
    const list = [u];
    let weight = 0;
    u.at = 0;
    for (let k = 0; k < list.length && weight <= MOST_BODY; k++) {
      weight += bodyWeight(list[k]);
      for (const s of list[k].src) {
        if (list[s.at] === s || isLeaf(s) || this.realized.has(s)) continue;
        s.at = list.length;
        list.push(s);
      }
    }
    return weight;
  }

  /** Realizes `u`, of which there is too much for one kernel; a node that only spreads values is left to those that read it. */
  private cut(u: UOp): void {
    const isValue = isAlu(u.op) || u.op === Ops.REDUCE || (isMovement(u.op) && numelOf(u) <= numelOf(u.src[0]));
    if (isValue && !this.inPlace.has(u) && numelOf(u) < MOST_KEPT) this.realized.add(u);
  }

  /** Realizes `u`, or what it reads, where it cannot be otherwise. */
  private realizeSources(u: UOp): void {
    if (mustRealize(u)) this.realized.add(u);
    const resized = u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize;
    if (!readsMemory(u) && !resized) return;
    for (const s of u.op === Ops.CUSTOM ? u.src : [u.src[0]]) {
      const base = stripReshape(s);
      if (base.op !== Ops.BUFFER && base.op !== Ops.AFTER) this.realized.add(base); // numbers have no memory of their own
    }
  }

  of(u: UOp): Facts {
    return this.facts.get(u)!;
  }

  protected planOf(kernel: UOp): KernelPlan {
    let plan = this.kernels.get(kernel);
    if (plan === undefined) this.kernels.set(kernel, plan = emptyPlan());
    return plan;
  }

  /** Decides, from consumers to sources, on each node that is read. */
  run(): void {
    const read: Read = (u, kernel, idx, active, underSum) => {
      if (isLeaf(u)) return;
      const facts = this.of(u), list = contextsIn(facts, kernel);
      for (let i = 0; i < list.length; i++) {
        const c = list[i];
        if (c.kernel !== kernel || !sameArray(c.idx, idx)) continue;
        if (c.active < active) {
          c.active = active;
          c.underSum = false;
        }
        return;
      }
      addContext(facts, { kernel, idx, active, underSum });
    };
    for (let k = this.order.length - 1; k >= 0; k--) {
      const u = this.order[k];
      if (isLeaf(u)) continue;
      let list = this.of(u).contexts;
      if (!this.realized.has(u) && list.length > 0 && !isMovement(u.op)) {
        const staged = this.decide(u, list);
        if (staged !== undefined) list = [staged];
      }
      if (this.realized.has(u)) {
        if (readsMemory(u)) continue;
        if (u.op === Ops.STORE) {
          read(u.src[1], u, outputRanges(shapeOf(u.src[1])), numelOf(u.src[1]), false);
          continue;
        }
        list = [{ kernel: u, idx: outputRanges(shapeOf(u)), active: numelOf(u), underSum: false }];
      }
      for (let i = 0; i < list.length; i++) {
        if (u.op !== Ops.REDUCE || !this.isJoined(u, list[i].kernel)) this.enter(u, list[i], read);
      }
    }
  }

  /** Whether a kernel computes `u`, the first reduce of a cascade, with the second one. */
  private isJoined(u: UOp, kernel: UOp): boolean {
    return this.kernels.get(kernel)?.joined.get(u)?.first === u;
  }

  protected newRange(kernel: UOp): number {
    // a reduce that is only looked at, in the place of a kernel, has others than the kernel that reads it
    const id = this.nextRange.get(kernel) ?? (this.realized.has(kernel) ? 1 : 2) * OUTPUT_RANGES;
    this.nextRange.set(kernel, id + 1);
    return id;
  }

  /** Times a reduce is computed: once for each iteration of the loops that it depends on, output loops around the others. */
  protected entries(c: Context): number {
    const ranges = dependence(c.idx), inner = ranges.filter((r) => !isLoop(r));
    if (inner.length === 0) return iterationsOf(ranges);
    return (c.kernel.op === Ops.STORE ? Infinity : numelOf(c.kernel)) * iterationsOf(inner);
  }

  /** Makes the output axis along which `u` selects between values copies of its kernel's body, as long as there are few. */
  private copyStacked(u: UOp, { kernel, idx }: Context): void {
    const axis = stackedAxis(u), at = axis === undefined ? undefined : outputAxisOf(idx[axis]);
    if (at === undefined || this.kernels.get(kernel)?.copied.includes(at)) return;
    const { copied } = this.planOf(kernel), shape = shapeOf(kernel.op === Ops.STORE ? kernel.src[1] : kernel);
    if (copied.reduce((n, i) => n * shape[i], shape[at]) <= MOST_COPIES) copied.push(at);
  }

  /** Copies of a kernel's body that share what EXPAND `u` repeats for them. */
  private copiesOver(u: UOp, { kernel, idx }: Context): number {
    const copied = this.kernels.get(kernel)?.copied, from = shapeOf(u.src[0]), to = shapeOf(u);
    if (copied === undefined || copied.length === 0) return 1;
    return idx.reduce((n, x, i) => from[i] < to[i] && copied.includes(outputAxisOf(x) ?? -1) ? n * to[i] : n, 1);
  }

  /** Passes the context of a node computed in place on to its sources. */
  protected enter(u: UOp, c: Context, read: Read): void {
    if (isMovement(u.op)) {
      const active = c.active / (u.op === Ops.EXPAND ? this.copiesOver(u, c) : 1);
      return read(u.src[0], c.kernel, sourceIndex(u, c.idx).idx, active, c.underSum);
    }
    if (u.op === Ops.WHERE) this.copyStacked(u, c);
    if (u.op === Ops.REDUCE) {
      const { op, axes } = reduceOf(u);
      const from = shapeOf(u.src[0]);
      let active = c.active;
      // a reduce outside of some loops is entered once for each iteration of the others
      active = Math.min(active, this.entries(c));
      const idx = c.idx.slice(), selects = isSelection(u); // which loads one element, and runs no loop
      for (let i = 0; i < idx.length; i++) {
        if (!axes.includes(i)) continue;
        if (!selects) active *= from[i];
        idx[i] = from[i] === 1 ? int(0) : range(from[i], this.newRange(c.kernel), AxisKind.REDUCE);
      }
      return read(u.src[0], c.kernel, idx, active, op === Ops.ADD);
    }
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) return;
    for (let i = 0; i < u.src.length; i++) read(u.src[i], c.kernel, c.idx, c.active, false);
  }
}
