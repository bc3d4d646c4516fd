/**
 * Decides which nodes of a tensor graph get a buffer of their own; all others are computed inside their consumers.
 * Ranges flow from consumers to sources: a node read at one set of indices, once an element, fuses; a reduce read at
 * several, or by an expanded consumer, is realized; elementwise work is recomputed while that is cheaper than memory.
 *
 * @module
 */
import { sameArray } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { argOf, AxisKind, reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type Extents, int, range, toposort, type UOp } from "../../uop/core/uop.ts";
import {
  dependence,
  isLoop,
  isOutputOnly,
  iterationsOf,
  outputDependence,
  sourceIndex,
} from "../../uop/graph/movement_index.ts";
import { type Cascade, cascadeOf } from "./cascade.ts";
import { bodyWeight, KEEP_COST_REPEATED, ownCost, readersIn, type Surroundings, workAgain } from "./recompute.ts";

/** Work an element beyond which a value is kept rather than computed again for a second reader. */
const KEEP_COST = 30;
/** Work an element from which a row that is read twice in one kernel is kept rather than computed again. */
const STAGE_COST = 8;
/** Elements of a row that is kept. */
const MAX_ROW = 1 << 14;
/** Bytes of a row of an input that is kept where no cache keeps it. */
export const ROW_BYTES: number = 1 << 17;
/** Rows side by side in the registers, where what is kept is the result of a reduce. */
const TILE_ROWS = 8;
/** Share of the second-level cache for the rows of a tile. */
export const TILE_SHARE: number = 1 / 8;
/** Share of it for what is read again for each tile. */
const OPERAND_SHARE = 1 / 2;
/** Results of a reduce inside of a reduce that fill the lanes and the registers of a machine. */
const MIN_RESULTS = 1 << 12;
/** Rows that a kernel with reduces in front of its inner loops must have, for threads to share. */
const MIN_ROWS = 8;
/** Share of a kernel's iterations that work outside of its inner loops may add, an element each, before it is kept. */
const HOISTED_SHARE = 0.05;
/** Work up to which one row after another in one thread is cheaper than a kernel more. */
const MAX_SERIAL = 1 << 14;
/** Terms from which a sum of products is long. */
const LONG_PRODUCT = 64;
/** How much more a sum inside a sum may compute rather than go through memory. */
const SUM_OF_SUMS = 2;
/** Nodes below one that are looked at to decide on it. */
const MAX_LOOKED_AT = 96;
/** Numbers of the ranges of a kernel's output; those of its reduces and rows follow. */
const OUTPUT_RANGES = 1 << 16;
/** Elements beyond which nothing is kept that could be computed again: few devices have the memory. */
const MOST_KEPT = 2 ** 31;
/** Weight of a kernel's nodes beyond which it is cut in two: compilers take more than linear time, and walks a stack. */
const MOST_BODY = 1024;
/** Reshapes in a row beyond which a copy is made: each may divide what the ones before made of an index. */
const MOST_RESHAPES = 64;
/** Plans that are made of a graph with more and more cuts. */
const MOST_PLANS = 4;
/** A node read at more sets of indices than this is realized. */
const MAX_CONTEXTS = 8;

/** True for nodes that are storage already or always get some. */
export function mustRealize(u: UOp): boolean {
  return u.op === Ops.CONTIGUOUS || u.op === Ops.COPY || u.op === Ops.STORE || u.op === Ops.CUSTOM;
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

interface Context {
  readonly kernel: UOp;
  readonly idx: readonly UOp[];
  /** Times the body is entered: product of the ranges around it. */
  active: number;
  /** Only movement ops stand between this and a sum that reads it. */
  underSum: boolean;
}

/** What is kept inside of one kernel besides its output. */
export interface KernelPlan {
  /** Output axes that reduces of the kernel depend on: their loops are outermost, the reduces run once in each iteration. */
  outer: readonly number[] | undefined;
  /** Nodes whose values over some axes are kept in a STAGE for each iteration of the outer loops: those axes. */
  readonly staged: Map<UOp, readonly number[]>;
  /** Reduces that are lanes of one carrier, both of a cascade by node. */
  readonly joined: Map<UOp, Cascade>;
}

/** Which nodes get buffers, and what else each kernel keeps. */
export interface FusionPlan {
  readonly realized: Set<UOp>;
  readonly kernels: Map<UOp, KernelPlan>;
}

/** Output ranges of a kernel over `shape`: ids 0, 1, ... by axis, `outer` axes first; axes of size 1 are the constant 0. */
export function outputRanges(
  shape: readonly number[],
  outer: readonly number[] = [],
  extents: Extents | null = null,
): UOp[] {
  const out = new Array<UOp>(shape.length);
  let next = outer.length; // of the axes that are not outer ones
  for (let i = 0; i < shape.length; i++) {
    const at = outer.indexOf(i), id = at < 0 ? next++ : at;
    out[i] = shape[i] === 1 ? int(0) : range(extents?.[i] ?? shape[i], id, AxisKind.LOOP);
  }
  return out;
}

/** What the fuser asks of the device of a kernel. */
export type FusionCaps = Pick<Capabilities, "l2" | "hasGrid" | "grid" | "vectorLanes">;

/** Nodes to be computed in place, whatever it costs elsewhere, and nodes that get buffers. */
export interface OnlinePlan {
  readonly inside: ReadonlySet<UOp>;
  readonly realized: ReadonlySet<UOp>;
}

/** The plan of a graph without online products. */
export const NOT_ONLINE: OnlinePlan = { inside: new Set(), realized: new Set() };

const ANY_DEVICE: FusionCaps = { l2: 0, hasGrid: false, vectorLanes: () => 1 };

/** Something that a computation reads: its bytes, and the ranges that its indices depend on. */
interface Operand {
  readonly nbytes: number;
  readonly ranges: readonly UOp[];
}

type Read = (u: UOp, kernel: UOp, idx: readonly UOp[], active: number, underSum: boolean) => void;

/** What the graph below a node says of it, and where it is read. */
interface Facts {
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

/** Products that an element of `u` is the sum of, or the sum of sums of; 0 where it is something else. */
function termsOf(u: UOp): number {
  let terms = 1;
  for (;; u = u.src[0]) {
    if (u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD) {
      terms *= numelOf(u.src[0]) / Math.max(1, numelOf(u));
    } else if (!isMovement(u.op)) return u.op === Ops.MUL ? terms : 0;
  }
}

/** A product of two operands, of each element of which there are many uses? */
function isProduct(u: UOp): boolean {
  return u.op === Ops.MUL && u.src.every((s) => {
    while (isMovement(s.op) && s.op !== Ops.EXPAND) s = s.src[0];
    return s.op === Ops.EXPAND;
  });
}

/** Decides, from consumers to sources, which nodes are realized. */
class Fuser {
  readonly realized = new Set<UOp>();
  readonly kernels = new Map<UOp, KernelPlan>();
  private readonly facts = new Map<UOp, Facts>();
  /** By the first reduce of a cascade. */
  private readonly cascades = new Map<UOp, Cascade>();
  private surroundings: Surroundings | undefined;
  /** By kernel: the next range of a reduce or of a row. Kernels that are alike have the same ones, and the same indices. */
  private readonly nextRange = new Map<UOp, number>();

  /** @param inPlace nodes that are computed in place, whatever it costs */
  constructor(
    private readonly order: readonly UOp[],
    private readonly capsOf: (kernel: UOp) => FusionCaps,
    private readonly inPlace: ReadonlySet<UOp>,
  ) {}

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
    if (u.op !== Ops.COPY && u.op !== Ops.CUSTOM && !resized) return;
    for (const s of u.op === Ops.CUSTOM ? u.src : [u.src[0]]) {
      const base = stripReshape(s);
      if (base.op !== Ops.BUFFER && base.op !== Ops.AFTER) this.realized.add(base); // numbers have no memory of their own
    }
  }

  private of(u: UOp): Facts {
    return this.facts.get(u)!;
  }

  private planOf(kernel: UOp): KernelPlan {
    let plan = this.kernels.get(kernel);
    if (plan === undefined) this.kernels.set(kernel, plan = { outer: undefined, staged: new Map(), joined: new Map() });
    return plan;
  }

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
        if (u.op === Ops.COPY || u.op === Ops.CUSTOM) continue;
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

  /** Realizes `u` where that is cheaper; a context of its own where it is kept in a STAGE. */
  private decide(u: UOp, list: readonly Context[]): Context | undefined {
    const { realized } = this;
    if (this.inPlace.has(u)) return undefined;
    const { cost, reduces, loads } = this.of(u);
    if (list.length > MAX_CONTEXTS) {
      // a position, or a comparison of one, is computed faster than it is read
      if (loads || reduces || cost >= KEEP_COST) realized.add(u);
      return undefined;
    }
    let active = 0;
    for (let i = 0; i < list.length; i++) active += list[i].active;
    const repeats = active / Math.max(1, numelOf(u));
    if (!reduces) {
      if ((repeats <= 1 && list.length < 2) || numelOf(u) >= MOST_KEPT) return undefined;
      const entered = list.reduce((t, c) => t + this.entered(c), 0);
      // outside of the inner loops, or beside a reduce, it costs next to nothing
      const share = list.every((c) => this.of(c.kernel).reduces) ? 1 : HOISTED_SHARE;
      if (entered * cost <= share * active) return undefined;
      const kept = this.keepRow(u, list);
      if (kept !== undefined) return kept;
      if (repeats <= 1) return undefined;
      const isRepeated = loads && repeats >= 8 && cost >= KEEP_COST_REPEATED;
      if (isRepeated || (cost >= KEEP_COST && this.marginalCost(u, list) >= KEEP_COST)) realized.add(u);
      return undefined;
    }
    if (list.length === 1 && repeats <= 1 && !this.isNested(u, list[0])) return undefined;
    // a sum of sums is one sum, even if masked shifts make it compute a little more (the gradient of windows); where more is
    // reduced below, only one of operands that get buffers, and not on a grid: there products are tiled, and memory is quick
    if (
      list.length === 1 && list[0].underSum && repeats < SUM_OF_SUMS && u.op === Ops.REDUCE &&
      reduceOf(u).op === Ops.ADD &&
      (this.of(u).depth === 1 || (isProduct(u.src[0]) && !this.capsOf(list[0].kernel).hasGrid))
    ) {
      return undefined;
    }
    const { kernel } = list[0];
    if (list.some((c) => c.kernel !== kernel)) {
      if (u.op === Ops.REDUCE || this.marginalCost(u, list) >= KEEP_COST) realized.add(u);
      return undefined;
    }
    if (list.length === 1) {
      if (u.op === Ops.REDUCE && this.join(u, list[0])) return undefined;
      if (u.op === Ops.REDUCE ? this.hoist(u, list[0]) : this.hoistable(u, list[0])) return undefined;
    }
    if (u.op !== Ops.REDUCE && this.isCheapRow(u, list)) return undefined;
    const rows = this.rowAxes(u, list);
    if (rows === undefined || !this.pays(u, list, rows.axes) || !this.fixOuter(kernel, rows.outer)) {
      realized.add(u);
      return undefined;
    }
    return this.of(u).fullCost < STAGE_COST ? undefined : this.stage(u, list[0], rows.axes);
  }

  /**
   * Work that computing `u` again in all but one of its kernels adds: counted up to KEEP_COST, infinite where a reduce
   * would run again.
   */
  private marginalCost(u: UOp, list: readonly Context[]): number {
    const kernels = list.map((c) => c.kernel), most = this.of(u).reduces ? Infinity : this.of(u).cost;
    if (new Set(kernels).size < list.length) return most; // read at other indices by one kernel
    this.surroundings ??= {
      readers: readersIn(this.order),
      isStored: (v) => isLeaf(v) || this.realized.has(v),
      isIn: (v, k) => this.realized.has(v) ? v === k : this.of(v).contexts.some((c) => c.kernel === k),
    };
    return workAgain(u, kernels, this.surroundings, KEEP_COST) ?? most;
  }

  /** Keeps rows of `u`: the context in which they are computed. */
  private stage(u: UOp, { kernel, idx }: Context, axes: readonly number[]): Context {
    const shape = shapeOf(u);
    this.planOf(kernel).staged.set(u, axes);
    const inner = idx.map((x, i) =>
      axes.includes(i) && shape[i] !== 1 ? range(shape[i], this.newRange(kernel), AxisKind.LOOP) : x
    );
    return { kernel, idx: inner, active: numelOf(u), underSum: false };
  }

  /**
   * Keeps rows of a node without reduces that several loops of a kernel run through, where the kernel has rows anyway, and
   * to compute an element again takes longer than to keep it.
   */
  private keepRow(u: UOp, list: readonly Context[]): Context | undefined {
    const { kernel } = list[0];
    if (list.length < 2 || kernel.op === Ops.STORE || list.some((c) => c.kernel !== kernel)) return undefined;
    const outer = this.kernels.get(kernel)?.outer;
    const { l2, hasGrid, vectorLanes } = this.capsOf(kernel);
    // without vectors, an operation and an access cost the same
    const least = vectorLanes(u.dtype) > 1 ? STAGE_COST : 1;
    if (hasGrid || outer === undefined || this.of(u).cost < least) return undefined;
    const rows = this.rowAxes(u, list);
    if (rows === undefined || !sameArray(rows.outer, outer)) return undefined;
    // what it is multiplied with is read again for every few rows: then all of it should be near
    const row = rows.axes.reduce((n, i) => n * shapeOf(u)[i], u.dtype.itemsize);
    const isRepeated = list.some((c) => c.active > numelOf(u));
    if (isRepeated && l2 > 0 && 2 * TILE_ROWS * row > l2 * TILE_SHARE) return undefined;
    return this.stage(u, list[0], rows.axes);
  }

  /**
   * A reduce inside of the loop of another one runs in one thread with it, and takes its lanes: worth it for little work
   * only (a sum of sums is one sum, and no such case).
   */
  private isNested(u: UOp, c: Context): boolean {
    if (isOutputOnly(c.idx)) return false;
    const isSum = u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD && c.underSum && this.of(u).depth === 1;
    return !isSum && this.workBelow(u) > MAX_SERIAL && !this.isTiled(u, c);
  }

  /**
   * A reduce inside of the loop of another one that fills lanes and registers by the output axes alone: there are enough
   * results, and every operand serves several of them.
   */
  private isTiled(u: UOp, c: Context): boolean {
    if (c.kernel.op === Ops.STORE || numelOf(c.kernel) < MIN_RESULTS || this.capsOf(c.kernel).hasGrid) return false;
    const outputs = outputRanges(shapeOf(c.kernel)).filter((r) => r.op === Ops.RANGE);
    const wide = outputs.filter((r) => r.src[0].value >= TILE_ROWS);
    const below = this.nearestReduce(u, c.idx);
    return below !== undefined &&
      this.everyOperand(below.reduce, below.idx, (o) => wide.some((r) => !o.ranges.includes(r)));
  }

  /** Elements that reduce `u` is made of: of storage, of nodes to be realized and of other reduces. */
  private elementsBelow(u: UOp): number {
    const isEnd = (v: UOp): boolean => isLeaf(v) || this.realized.has(v) || v.op === Ops.REDUCE;
    let elements = 0;
    for (const v of toposort(u.src, (v) => !isEnd(v))) {
      if (v.op !== Ops.CONST && v.op !== Ops.IOTA && isEnd(v)) elements += numelOf(v);
    }
    return elements;
  }

  /** The nearest reduce below `u` that is computed with it, and where it is read if `u` is read at `idx`. */
  private nearestReduce(u: UOp, idx: readonly UOp[]): { reduce: UOp; idx: readonly UOp[] } | undefined {
    while (u.op !== Ops.REDUCE) {
      const next = u.op === Ops.EXPAND ? undefined : u.src.find((s) => this.of(s).reduces && !this.realized.has(s));
      if (next === undefined) return undefined;
      if (isMovement(u.op)) idx = sourceIndex(u, idx).idx;
      u = next;
    }
    return { reduce: u, idx };
  }

  /**
   * Does `test` hold for all that reduce `u`, read at `idx`, reads: storage, nodes to be realized, other reduces? false
   * also where there is too much to look at.
   */
  private everyOperand(u: UOp, idx: readonly UOp[], test: (o: Operand) => boolean): boolean {
    const seen = new Map<UOp, (readonly UOp[])[]>();
    let left = MAX_LOOKED_AT;
    const visit = (v: UOp, at: readonly UOp[]): void => {
      if (left <= 0 || v.op === Ops.CONST || v.op === Ops.IOTA || v.op === Ops.VARIABLE || v.op === Ops.BIND) return;
      const before = seen.get(v);
      if (before === undefined) seen.set(v, [at]);
      else if (before.some((x) => sameArray(x, at))) return;
      else before.push(at);
      left--;
      if (isLeaf(v) || this.realized.has(v) || (v.op === Ops.REDUCE && v !== u)) {
        if (!test({ nbytes: numelOf(v) * v.dtype.itemsize, ranges: dependence(at) })) left = 0;
        return;
      }
      this.enter(v, { kernel: u, idx: at, active: 1, underSum: false }, (s, _, i) => visit(s, i));
    };
    visit(u, idx);
    return left > 0;
  }

  /** Elements that the nearest reduces below `u` read. */
  private workBelow(u: UOp): number {
    while (isAlu(u.op) || isMovement(u.op)) {
      const next = u.src.find((s) => this.of(s).reduces && !this.realized.has(s));
      if (next === undefined) return 0;
      u = next;
    }
    return u.op === Ops.REDUCE ? numelOf(u.src[0]) : 0;
  }

  /** The output axis of each range, as {@linkcode outputRanges} numbers them without an order. */
  private axesOf(ranges: readonly UOp[]): number[] {
    return ranges.map((r) => argOf(r, Ops.RANGE).id).filter((id) => id < OUTPUT_RANGES).sort((a, b) => a - b);
  }

  /** Times a node without reduces is computed: outside of the output loops behind the last one that it depends on. */
  private entered(c: Context): number {
    const ranges = outputDependence(c.idx);
    if (ranges === undefined) return c.active;
    const shape = shapeOf(c.kernel.op === Ops.STORE ? c.kernel.src[1] : c.kernel);
    const last = Math.max(-1, ...this.axesOf(ranges));
    return shape.slice(0, last + 1).reduce((n, size) => n * size, 1);
  }

  /**
   * Computes the first reduce of a cascade in one pass with the second one, where it cannot stand in front of it: the row
   * is too long to be read twice from a cache, or there are too few rows to share out.
   */
  private join(u: UOp, c: Context): boolean {
    const cascade = this.cascades.get(u);
    if (cascade === undefined || c.kernel.op === Ops.STORE) return false;
    const { second, kind, count } = cascade, { kernel } = c;
    const at = second === kernel
      ? outputRanges(shapeOf(second))
      : this.realized.has(second)
      ? undefined
      : this.facts.get(second)?.contexts.find((x) => x.kernel === kernel)?.idx;
    if (at === undefined || !sameArray(at, c.idx)) return false;
    const ranges = outputDependence(c.idx);
    if (ranges === undefined || iterationsOf(ranges) > numelOf(u)) return false;
    const { l2, hasGrid } = this.capsOf(kernel);
    if (count * u.src[0].dtype.itemsize <= (l2 === 0 ? ROW_BYTES : l2 / 2)) return false;
    // an exponential more for each element, where arithmetic is what the device has too little of
    if (kind === "rescale" && l2 > 0 && !hasGrid) return false;
    const { joined } = this.planOf(kernel);
    joined.set(u, cascade).set(second, cascade);
    return ranges.length === 0 || this.fixOuter(kernel, this.axesOf(ranges));
  }

  private hoistable(u: UOp, c: Context): boolean {
    const ranges = dependence(c.idx);
    return ranges.every(isLoop) ? iterationsOf(ranges) <= numelOf(u) : this.isSmall(u, c);
  }

  /** Makes `outer` the outermost loops of a kernel, unless it has others already. */
  private fixOuter(kernel: UOp, outer: readonly number[]): boolean {
    if (kernel.op === Ops.STORE) return false;
    const plan = this.planOf(kernel);
    plan.outer ??= outer;
    return sameArray(plan.outer, outer);
  }

  /**
   * A reduce that depends on some output loops only runs outside of the others, if enough remain to share out. One that
   * depends on the loop of another reduce too runs once in each of its iterations, where there is little to do.
   */
  private hoist(u: UOp, c: Context): boolean {
    const numel = numelOf(u), ranges = dependence(c.idx);
    if (!ranges.every(isLoop)) return this.isSmall(u, c);
    const iterations = iterationsOf(ranges);
    if (iterations > numel || this.losesLanes(u, c, iterations)) return false;
    if (iterations < MIN_ROWS && c.active > MAX_SERIAL) return false;
    return this.fixOuter(c.kernel, this.axesOf(ranges));
  }

  /** Would a long sum of products give up the lanes of its innermost output axis for a few results that it is spread over? */
  private losesLanes(u: UOp, c: Context, iterations: number): boolean {
    const { hasGrid, vectorLanes } = this.capsOf(c.kernel), lanes = hasGrid ? 1 : vectorLanes(u.dtype);
    const copies = (c.kernel.op === Ops.STORE ? iterations : numelOf(c.kernel)) / iterations;
    return copies > 1 && copies < lanes && termsOf(u) >= LONG_PRODUCT;
  }

  /** Times a reduce is computed: once for each iteration of the loops that it depends on, output loops around the others. */
  private entries(c: Context): number {
    const ranges = dependence(c.idx), inner = ranges.filter((r) => !isLoop(r));
    if (inner.length === 0) return iterationsOf(ranges);
    return (c.kernel.op === Ops.STORE ? Infinity : numelOf(c.kernel)) * iterationsOf(inner);
  }

  /** Little work in the iterations of a reduce, none of it done twice: one thread may do it all. */
  private isSmall(u: UOp, c: Context): boolean {
    return this.entries(c) <= numelOf(u) && Math.max(numelOf(u), this.workBelow(u)) <= MAX_SERIAL;
  }

  /** A row that is cheaper to compute again than to keep: only what is reduced below it is expensive. */
  private isCheapRow(u: UOp, list: readonly Context[]): boolean {
    if (this.of(u).fullCost >= STAGE_COST) return false;
    return list.every((c) => !dependence(c.idx).every(isLoop) && numelOf(u) <= MAX_SERIAL);
  }

  /** Where the contexts of `u` differ only in which loop runs over whole axes: those axes, and the loops around them. */
  private rowAxes(u: UOp, list: readonly Context[]): { axes: number[]; outer: number[] } | undefined {
    const shape = shapeOf(u);
    const axes: number[] = [], outer = new Set<number>();
    for (let i = 0; i < shape.length; i++) {
      const first = list[0].idx[i];
      const ranges = outputDependence([first]);
      if (ranges !== undefined && list.every((c) => c.idx[i] === first)) {
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

  /**
   * Is a row of `u` better kept than all of it written to memory? Where it is the result of a reduce, the loops of which
   * run again for each few rows: if what they read stays in the cache, and, for a single reader, only if there is more of
   * `u` than of what it is made of.
   */
  private pays(u: UOp, list: readonly Context[], axes: readonly number[]): boolean {
    const { kernel, idx } = list[0], caps = this.capsOf(kernel);
    const below = this.nearestReduce(u, idx);
    if (below === undefined) return list.length > 1;
    if (caps.hasGrid || kernel.op === Ops.STORE) return false;
    const shape = shapeOf(u), row = axes.reduce((n, i) => n * shape[i], 1) * u.dtype.itemsize;
    if (list.length === 1 && numelOf(u) <= this.elementsBelow(below.reduce)) return false;
    if (caps.l2 === 0) return true;
    const around = idx.filter((_, i) => !axes.includes(i));
    const outer = dependence(around).filter(isLoop).sort((a, b) => argOf(b, Ops.RANGE).id - argOf(a, Ops.RANGE).id);
    if (outer.length === 0 || TILE_ROWS * row > caps.l2 * TILE_SHARE) return false;
    return this.everyOperand(below.reduce, below.idx, (o) => {
      const part = o.nbytes / iterationsOf(outer.filter((r) => o.ranges.includes(r)));
      return o.ranges.includes(outer[0]) || part <= caps.l2 * OPERAND_SHARE;
    });
  }

  private newRange(kernel: UOp): number {
    // a reduce that is only looked at, in the place of a kernel, has others than the kernel that reads it
    const id = this.nextRange.get(kernel) ?? (this.realized.has(kernel) ? 1 : 2) * OUTPUT_RANGES;
    this.nextRange.set(kernel, id + 1);
    return id;
  }

  /** Passes the context of a node computed in place on to its sources. */
  private enter(u: UOp, c: Context, read: Read): void {
    if (isMovement(u.op)) return read(u.src[0], c.kernel, sourceIndex(u, c.idx).idx, c.active, c.underSum);
    if (u.op === Ops.REDUCE) {
      const { op, axes } = reduceOf(u);
      const from = shapeOf(u.src[0]);
      let active = c.active;
      // a reduce outside of some loops is entered once for each iteration of the others
      active = Math.min(active, this.entries(c));
      const idx = c.idx.slice();
      for (let i = 0; i < idx.length; i++) {
        if (!axes.includes(i)) continue;
        active *= from[i];
        idx[i] = from[i] === 1 ? int(0) : range(from[i], this.newRange(c.kernel), AxisKind.REDUCE);
      }
      return read(u.src[0], c.kernel, idx, active, op === Ops.ADD);
    }
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) return;
    for (let i = 0; i < u.src.length; i++) read(u.src[i], c.kernel, c.idx, c.active, false);
  }
}

/**
 * Chooses the nodes to realize below `roots`, and what each kernel keeps.
 * Roots are stores, copies, or values already stripped of RESHAPE.
 */
export function planFusion(
  roots: readonly UOp[],
  capsOf: (kernel: UOp) => FusionCaps = () => ANY_DEVICE,
  online: OnlinePlan = NOT_ONLINE,
): FusionPlan {
  const order = toposort(roots), always = [...online.realized, ...roots.filter((r) => !isLeaf(r))];
  for (let kept: Iterable<UOp> = always, left = MOST_PLANS;;) {
    const fuser = new Fuser(order, capsOf, online.inside);
    for (const u of kept) fuser.realized.add(u);
    fuser.measure();
    fuser.run();
    if (--left === 0 || !fuser.cutBodies()) return fuser;
    kept = fuser.realized; // the cuts too
  }
}
