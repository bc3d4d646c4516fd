/**
 * Decides which nodes of a tensor graph get a buffer of their own, or a row in their kernel; all others are computed inside
 * their consumers. What is read at one set of indices, once an element, fuses; a reduce read at several, or by an expanded
 * consumer, is realized; elementwise work is recomputed while that is cheaper than memory. Two tables say so, row by row.
 *
 * @module
 */
import { sameArray } from "../../helpers/math.ts";
import { cacheShare, hasLoopCache, ROW_BYTES, TILE_SHARE } from "../../renderer/renderer.ts";
import { argOf, AxisKind, reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { iterationsOf } from "../../uop/core/ranges.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { range, toposort, type UOp } from "../../uop/core/uop.ts";
import { dependence, isLoop, isOutputOnly, outputDependence } from "../../uop/graph/movement_index.ts";
import { isRecording, noteChange } from "../../uop/rewrite/record.ts";
import { type Context, type Facts, MOST_COPIES, MOST_KEPT } from "./contexts.ts";
import { type Decision, tellDecision } from "./decisions.ts";
import {
  type ChainPlan,
  type FusionCaps,
  isLeaf,
  MIN_RESULTS,
  NO_CHAINS,
  outputRanges,
  type ToldPlan,
} from "./fusion_plan.ts";
import {
  elementsBelow,
  isOfUnits,
  isOperandOf,
  isProduct,
  isTiledProduct,
  LONG_PRODUCT,
  readsOf,
  termsOf,
} from "./reduce_forms.ts";
import { outputAxes, ReduceReads } from "./reduce_reads.ts";
import { KEEP_COST_REPEATED, readersIn, reducesOfRows, type Surroundings, workAgain } from "./recompute.ts";
import { isTimesByte } from "./scaled_bytes.ts";

/**
 * Work an element (`opWork`) beyond which a value is kept rather than computed again for a second reader. Measured with 4M
 * floats that two kernels read: both are as fast at 24 to 32 with the 4 lanes of WASM, at 48 to 64 with 16 lanes.
 */
const KEEP_COST = 30;
/** The same for a row that is read twice in one kernel: a store, two loads and their addresses, in the nearest cache. */
const STAGE_COST = 8;
/** Elements of a row that is kept, at most: 64 KB of float32, which stay in a second-level cache beside what is read. */
const MAX_ROW = 1 << 14;
/** Rows side by side in the registers, where what is kept is the result of a reduce: 2 to 4 accumulators each, of 16 to 32. */
const TILE_ROWS = 8;
/** Share of the second-level cache for what is read again for each tile: the rest is for rows and results. */
const OPERAND_SHARE = 1 / 2;
/** Rows that a kernel with reduces in front of its inner loops must have: one for each thread of a small machine. */
const MIN_ROWS = 8;
/** Share of a kernel's iterations that work outside of its inner loops may add, an element each, before it is kept. */
const HOISTED_SHARE = 0.05;
/** Work up to which one row after another in one thread is cheaper than a kernel more: some microseconds, as is its launch. */
const MAX_SERIAL = 1 << 14;
/** How many times more a sum inside a sum may compute rather than go through memory. */
const SUM_OF_SUMS = 2;
/** Plans that are made of a graph, each knowing more of what is kept, at most: each takes as long as the first. */
const MOST_PLANS = 4;
/** A node read at more sets of indices than this is realized: each set is a copy of its body in the kernel. */
const MAX_CONTEXTS = 8;
/** Times each element is computed from which one kernel for all of them is worth more. */
const MANY_TIMES = 8;
/**
 * Products that an element of an operand is in, and all that there are, from which a kernel that narrows it is worth more.
 * On an H100 units that find both operands in shared memory are three times as fast as those whose threads narrow what
 * they read (600 and 200 TFLOP/s): a product takes 6.7 fs less, against 8 bytes more at 3 TB/s, and 3 us of a launch.
 */
const NARROWED_TIMES = 400, NARROWED_LEAST = 4.5e8;

const ANY_DEVICE: FusionCaps = { l2: 0, hasGrid: false, vectorLanes: () => 1 };

/** A node that is to be decided on, and where it is read. */
class Case {
  readonly numel: number;
  /** Times an element is computed, if it is computed wherever it is read. */
  readonly repeats: number;
  private readonly active: number;
  private known: Rows | undefined | null = null;

  constructor(
    private readonly fuser: Fuser,
    readonly u: UOp,
    readonly list: readonly Context[],
    readonly facts: Facts,
  ) {
    let active = 0;
    for (let i = 0; i < list.length; i++) active += list[i].active;
    this.active = active;
    this.numel = numelOf(u);
    this.repeats = active / Math.max(1, this.numel);
  }

  get isReduce(): boolean {
    return this.u.op === Ops.REDUCE;
  }
  /** Is it more than the cache keeps until it is read? */
  get exceedsCache(): boolean {
    return this.numel * this.u.dtype.itemsize > this.fuser.capsOf(this.list[0].kernel).l2;
  }
  /** Whether one kernel reads it, wherever it does. */
  get isOneKernel(): boolean {
    return this.list.every((c) => c.kernel === this.list[0].kernel);
  }
  /** The rows of it that loops of its kernel run through. */
  get rows(): Rows | undefined {
    if (this.known === null) this.known = this.fuser.rowsOf(this.u, this.list);
    return this.known;
  }
  /** Work that is done besides the inner loops of the kernels, or beside a reduce, costs next to nothing. */
  get isBeside(): boolean {
    const { list, fuser, facts: { cost } } = this, entered = list.reduce((t, c) => t + fuser.entered(c), 0);
    const share = list.every((c) => fuser.of(c.kernel).reduces) ? 1 : HOISTED_SHARE;
    return entered * cost <= share * this.active;
  }
  /** Work that another kernel does when it computes the node too. */
  get isDearAgain(): boolean {
    return this.fuser.marginalCost(this.u, this.list) >= KEEP_COST;
  }
}

/** Axes of a node that one loop runs over as a whole wherever it is read, and the output axes of the loops around them. */
interface Rows {
  readonly axes: number[];
  readonly outer: number[];
}

/** A row of a table: the first one that holds decides. */
interface Reason {
  readonly name: string;
  readonly when: (c: Case, f: Fuser) => boolean;
  readonly then: Decision;
}

/** Of all nodes. */
const FIRST: readonly Reason[] = [
  // a chain of products computes its parts in one kernel
  { name: "part of a product chain, or of what goes by key", when: ({ u }, f) => f.inPlace.has(u), then: "in place" },
  // matrix units take what is narrow, and memory less of it
  { name: "widened where it is read", when: (c, f) => f.isWidened(c), then: "in place" },
  // a position, or a comparison of one, is computed faster than it is read
  {
    name: "read in too many ways",
    when: ({ list, facts: { loads, reduces, cost } }, f) =>
      list.length > f.mostContexts(list[0]) && (loads || reduces || cost >= KEEP_COST),
    then: "realize",
  },
  {
    name: "a position read in many ways",
    when: ({ list }, f) => list.length > f.mostContexts(list[0]),
    then: "in place",
  },
];

/** Of nodes with which no reduce is computed. */
const ELEMENTWISE: readonly Reason[] = [
  ...FIRST,
  { name: "computed once", when: ({ repeats, list }) => repeats <= 1 && list.length < 2, then: "in place" },
  // few devices have the memory
  { name: "too large to keep", when: ({ numel }) => numel >= MOST_KEPT, then: "in place" },
  // the tiles of a product are copied from memory, each from one place
  {
    name: "an operand of a product in tiles, from several reads",
    when: (c, f) => f.isOperandOfReads(c),
    then: "realize",
  },
  // and units that read them there take what is narrow as it is
  { name: "an operand of a product, narrowed", when: (c, f) => f.isNarrowedOperand(c), then: "realize" },
  { name: "beside the inner loops", when: (c) => c.isBeside, then: "in place" },
  { name: "a row that several loops read", when: (c, f) => f.keepsRow(c), then: "keep row" },
  { name: "computed once an element", when: ({ repeats }) => repeats <= 1, then: "in place" },
  // a sum of products of bytes is computed by words of them
  { name: "bytes that are multiplied with bytes", when: (c, f) => f.multipliesBytes(c), then: "in place" },
  // what is read from memory and computed is read from memory computed
  {
    name: "each element many times",
    when: ({ repeats, facts: { loads, cost } }) => loads && repeats >= MANY_TIMES && cost >= KEEP_COST_REPEATED,
    then: "realize",
  },
  { name: "dear to compute again", when: (c) => c.facts.cost >= KEEP_COST && c.isDearAgain, then: "realize" },
  { name: "cheap to compute again", when: () => true, then: "in place" },
];

/** The rows of what several kernels would have to reduce, and of what its kernel cannot keep. */
const FOR_SEVERAL = "reduced for several kernels", NO_ROW = "no row worth keeping";

/** Of reduces, and of what is computed with one. */
const REDUCING: readonly Reason[] = [
  ...FIRST,
  // the tiles of a kernel are those of one product
  { name: "a second product", when: (c, f) => f.isSecondProduct(c), then: "realize" },
  // one sum over the axes of both has terms that only one operand tells apart
  { name: "a product that matrix units would lose to a sum", when: (c, f) => f.losesUnits(c), then: "realize" },
  // as many threads as a row's sum takes have no tiles
  { name: "a sum beside a product in tiles", when: (c, f) => f.isBesideProduct(c), then: "realize" },
  {
    name: "reduced once",
    when: ({ u, list, repeats }, f) => list.length === 1 && repeats <= 1 && !f.isNested(u, list[0]),
    then: "in place",
  },
  { name: "one sum with the sum that reads it", when: (c, f) => f.isInnerSum(c), then: "in place" },
  // a reduce would run in each of them
  {
    name: FOR_SEVERAL,
    when: (c) => !c.isOneKernel && (c.isReduce || c.isDearAgain),
    then: "realize",
  },
  { name: "cheap for several kernels", when: (c) => !c.isOneKernel, then: "in place" },
  { name: "one pass with the next reduce", when: (c, f) => f.joins(c), then: "in place" },
  { name: "outside of the inner loops", when: (c, f) => f.isHoisted(c), then: "in place" },
  // only what is reduced below it is expensive
  { name: "a row cheap to compute again", when: (c, f) => !c.isReduce && f.isCheapRow(c), then: "in place" },
  { name: NO_ROW, when: (c, f) => !f.keepsRows(c), then: "realize" },
  { name: "a row of what is kept anyway", when: ({ facts }) => facts.fullCost < STAGE_COST, then: "in place" },
  { name: "a row that its kernel keeps", when: () => true, then: "keep row" },
];

/** Decides by the tables. */
class Fuser extends ReduceReads implements ToldPlan {
  private surroundings: Surroundings | undefined;
  /** By kernel: the product that it computes in tiles, and those of which its results may be made. */
  private readonly products = new Map<UOp, UOp>();
  private readonly tiled = new Map<UOp, readonly UOp[]>();
  /** By reduce: what was last found of a kernel that would compute it. */
  private readonly tilings = new Map<UOp, { kernel: UOp; idx: readonly UOp[]; isTiled: boolean }>();
  private readonly decided: (readonly [c: Case, then: Decision, name: string])[] = [];

  constructor(
    order: readonly UOp[],
    readonly capsOf: (kernel: UOp) => FusionCaps,
    inPlace: ReadonlySet<UOp>,
    private readonly readers: () => ReadonlyMap<UOp, readonly UOp[]>,
  ) {
    super(order, inPlace);
  }

  protected override decide(u: UOp, list: readonly Context[]): Context | undefined {
    const c = new Case(this, u, list, this.of(u)), table = c.facts.reduces ? REDUCING : ELEMENTWISE;
    let i = 0;
    while (!table[i].when(c, this)) i++;
    const { then, name } = table[i];
    if (isRecording() || wantsNotes()) this.decided.push([c, then, name]);
    if (then === "realize") {
      this.realized.add(u);
      if (this.isSumUnderSum(c)) this.deepSums.push(u);
      else if (name === NO_ROW && !c.isReduce) this.keptRows.push(u);
      if (name === FOR_SEVERAL && !c.isReduce && c.exceedsCache) this.sharedRows.push(u);
    } else if (isTiledProduct(u)) { for (const { kernel } of list) this.products.set(kernel, u); }
    return then === "keep row" ? this.keepRow(u, list[0], c.rows!.axes) : undefined;
  }

  /** What is to have buffers in plans that may need fewer. */
  others(start: ReadonlySet<UOp>, isOnLoops: boolean): readonly (readonly UOp[])[] {
    const made = [...(isOnLoops ? this.keptReduces(start, true) : []), ...this.keptBelow(this.deepSums, start)];
    const rows = reducesOfRows(this.sharedRows, (u) => this.realized.has(u));
    return [made, ...rows, isOnLoops ? [] : this.keptBelow(this.keptRows, start, true)].filter((list) =>
      list.length > 0
    );
  }

  tell(): void {
    for (const [c, then, name] of this.decided) {
      if (isRecording()) noteChange(`${then}: ${name}`, c.u);
      if (wantsNotes()) tellDecision(c.u, c.list, c.repeats, c.facts.cost, then, name);
    }
  }

  /** Sets of indices at which a node may be read: where there are copies of the body anyway, two for each. */
  mostContexts({ kernel }: Context): number {
    return (this.kernels.get(kernel)?.copied.length ?? 0) > 0 ? 2 * MOST_COPIES : MAX_CONTEXTS;
  }

  /** Is it, on a grid, values that were narrower before, and are the same? */
  isWidened({ u, list: [{ kernel }] }: Case): boolean {
    if (u.op !== Ops.CAST || !u.dtype.isFloat || !this.capsOf(kernel).hasGrid) return false;
    const from = u.src[0].dtype;
    return from.isFloat && from.itemsize > 1 && from.itemsize < u.dtype.itemsize;
  }

  /** Is it bytes and a scale, on a device that multiplies bytes four at a time, and multiplied with others of that kind? */
  multipliesBytes({ u, list }: Case): boolean {
    return list.every(({ kernel }) => this.capsOf(kernel).hasDots === true) && isTimesByte(u, this.around.readers);
  }

  /** Is it a product of a kernel on a grid that computes another one, or is one? */
  isSecondProduct({ u, list }: Case): boolean {
    return isTiledProduct(u) &&
      list.some(({ kernel }) =>
        this.capsOf(kernel).hasGrid && (isTiledProduct(kernel) || (this.products.get(kernel) ?? u) !== u)
      );
  }

  /** Is it a product on matrix units below a sum, of which one of its operands has no axis? */
  losesUnits({ u, list: [c] }: Case): boolean {
    const cores = c.underSum && isTiledProduct(u) ? this.capsOf(c.kernel).grid?.tensorCores : undefined;
    return cores !== undefined && isOfUnits(u, cores) &&
      dependence(c.idx).some((r) => !isLoop(r) && !this.areFactorsAlong(u, c, r));
  }

  /** Is it, on a grid, a reduce that is no product, read by a kernel that computes a product in tiles? */
  isBesideProduct({ u, list, isReduce }: Case): boolean {
    if (!isReduce || isTiledProduct(u)) return false;
    const products = list.flatMap(({ kernel }) => this.capsOf(kernel).hasGrid ? this.productsOf(kernel) : []);
    if (products.length === 0) return false;
    const below = new Set(toposort(u.src, (x) => !isLeaf(x) && !this.realized.has(x)));
    return products.some((p) => !below.has(p));
  }

  /** Does a kernel on a grid compute a product in tiles of which `u` is an operand? */
  private takesOperand({ kernel }: Context, u: UOp): boolean {
    const product = isTiledProduct(kernel) ? kernel : this.products.get(kernel);
    return product !== undefined && this.capsOf(kernel).hasGrid && isOperandOf(u, product);
  }

  /** Is it, on a grid, what a product in tiles has of rows or of columns, and made of more than one read? */
  isOperandOfReads({ u, list, repeats }: Case): boolean {
    if (repeats < MANY_TIMES || !isAlu(u.op)) return false;
    return list.some((c) => this.takesOperand(c, u)) && readsOf(u, this.realized) > 1;
  }

  /** Is it what a large product in tiles has of rows or of columns, narrowed to what units take that read shared memory? */
  isNarrowedOperand({ u, list, repeats, numel }: Case): boolean {
    if (u.op !== Ops.CAST || u.src[0].dtype.itemsize <= u.dtype.itemsize) return false;
    if (repeats < NARROWED_TIMES || repeats * numel < NARROWED_LEAST) return false;
    const hasUnit = ({ kernel }: Context): boolean =>
      this.capsOf(kernel).grid?.tensorCores.some((t) => t.shared !== undefined && t.input === u.dtype) === true;
    return list.some((c) => hasUnit(c) && this.takesOperand(c, u));
  }

  /** The products in tiles from which a kernel makes its results elementwise. */
  private productsOf(kernel: UOp): readonly UOp[] {
    let known = this.tiled.get(kernel);
    if (known === undefined) {
      const isWay = (x: UOp): boolean => x === kernel || ((isAlu(x.op) || isMovement(x.op)) && x.op !== Ops.EXPAND);
      known = toposort([kernel], isWay).filter((x) => !this.realized.has(x) && isTiledProduct(x));
      this.tiled.set(kernel, known);
    }
    return known;
  }

  /**
   * Work that computing `u` again in all but one of its kernels adds: counted up to KEEP_COST, infinite where a reduce
   * would run again.
   */
  marginalCost(u: UOp, list: readonly Context[]): number {
    const kernels = list.map((c) => c.kernel), most = this.of(u).reduces ? Infinity : this.of(u).cost;
    if (new Set(kernels).size < list.length) return most; // read at other indices by one kernel
    return workAgain(u, kernels, this.around, KEEP_COST) ?? most;
  }

  private get around(): Surroundings {
    return this.surroundings ??= {
      readers: this.readers(),
      isStored: (v) => isLeaf(v) || this.realized.has(v),
      isIn: (v, k) => this.realized.has(v) ? v === k : this.of(v).contexts.some((c) => c.kernel === k),
    };
  }

  /** Keeps rows of `u`: the context in which they are computed. */
  private keepRow(u: UOp, { kernel, idx }: Context, axes: readonly number[]): Context {
    const shape = shapeOf(u);
    this.planOf(kernel).staged.set(u, axes);
    const inner = idx.map((x, i) =>
      axes.includes(i) && shape[i] !== 1 ? range(shape[i], this.newRange(kernel), AxisKind.LOOP) : x
    );
    return { kernel, idx: inner, active: numelOf(u), underSum: false };
  }

  /**
   * Do several loops of a kernel run through rows of a node without reduces, where the kernel has rows anyway, and takes to
   * compute an element again longer than to keep it?
   */
  keepsRow(c: Case): boolean {
    const { u, list, facts: { cost } } = c, { kernel } = list[0];
    if (list.length < 2 || kernel.op === Ops.STORE || !c.isOneKernel) return false;
    const outer = this.kernels.get(kernel)?.outer;
    const caps = this.capsOf(kernel), { hasGrid, vectorLanes } = caps;
    // without vectors, an operation and an access cost the same
    const least = vectorLanes(u.dtype) > 1 ? STAGE_COST : 1;
    if (hasGrid || outer === undefined || cost < least) return false;
    const { rows } = c;
    if (rows === undefined || !sameArray(rows.outer, outer)) return false;
    // what it is multiplied with is read again for every few rows: then all of it should be near
    const row = rows.axes.reduce((n, i) => n * shapeOf(u)[i], u.dtype.itemsize);
    return !list.some((x) => x.active > c.numel) || 2 * TILE_ROWS * row <= cacheShare(caps, TILE_SHARE);
  }

  /**
   * Is it a sum of sums, which is one sum, even if masked shifts make it compute a little more (the gradient of windows)?
   * Where more is reduced below, only one of operands that get buffers, and not on a grid: there products are tiled, and
   * memory is quick.
   */
  isInnerSum(c: Case): boolean {
    const { u, list, facts: { depth } } = c;
    return this.isSumUnderSum(c) && (depth === 1 || (isProduct(u.src[0]) && !this.capsOf(list[0].kernel).hasGrid));
  }
  private isSumUnderSum({ u, list: [c, ...others], repeats }: Case): boolean {
    return others.length === 0 && c.underSum && repeats < SUM_OF_SUMS && u.op === Ops.REDUCE &&
      reduceOf(u).op === Ops.ADD;
  }

  /** Does a reduce, or what is made of one, run outside of the loops that it does not depend on? */
  isHoisted({ u, list, isReduce }: Case): boolean {
    return list.length === 1 && (isReduce ? this.hoist(u, list[0]) : this.hoistable(u, list[0]));
  }

  /** Are there rows of it, better kept than all of it written to memory, that the loops of its kernel leave whole? */
  keepsRows({ u, list, rows }: Case): boolean {
    return rows !== undefined && this.pays(u, list, rows.axes) && this.fixOuter(list[0].kernel, rows.outer);
  }

  /**
   * A reduce inside of the loop of another one runs in one thread with it, and takes its lanes: worth it for little work
   * only (a sum of sums is one sum, and no such case).
   */
  isNested(u: UOp, c: Context): boolean {
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
    const below = this.nearestReduce(u, c.idx);
    if (below === undefined) return false;
    // what is computed with a reduce asks for it one after the other; nothing below it has been decided on in between
    const { reduce, idx } = below, known = this.tilings.get(reduce);
    if (known?.kernel === c.kernel && sameArray(known.idx, idx)) return known.isTiled;
    const wide = outputRanges(shapeOf(c.kernel)).filter((r) => r.op === Ops.RANGE && r.src[0].value >= TILE_ROWS);
    const isTiled = this.everyOperand(reduce, idx, (o) => wide.some((r) => !o.ranges.includes(r)));
    this.tilings.set(reduce, { kernel: c.kernel, idx, isTiled });
    return isTiled;
  }

  /**
   * Computes the first reduce of a cascade in one pass with the second one, where it cannot stand in front of it: the row
   * is too long to be read twice from a cache, or there are too few rows to share out.
   */
  joins({ u, list: [c, ...others] }: Case): boolean {
    const cascade = others.length === 0 ? this.cascades.get(u) : undefined;
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
    const caps = this.capsOf(kernel);
    // an exponential more for each element, where arithmetic is what the device has too little of
    if (kind === "rescale" && hasLoopCache(caps)) return false;
    // the units of a grid share its cache: what costs little is rather done than read again by all of them
    const kept = caps.hasGrid && kind !== "rescale" ? ROW_BYTES : cacheShare(caps, 1 / 2, ROW_BYTES);
    if (count * u.src[0].dtype.itemsize <= kept) return false;
    const { joined } = this.planOf(kernel);
    joined.set(u, cascade).set(second, cascade);
    return ranges.length === 0 || this.fixOuter(kernel, outputAxes(ranges));
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
    return this.fixOuter(c.kernel, outputAxes(ranges));
  }

  /** Would a long sum of products give up the lanes of its innermost output axis for a few results that it is spread over? */
  private losesLanes(u: UOp, c: Context, iterations: number): boolean {
    const { hasGrid, vectorLanes } = this.capsOf(c.kernel), lanes = hasGrid ? 1 : vectorLanes(u.dtype);
    const copies = (c.kernel.op === Ops.STORE ? iterations : numelOf(c.kernel)) / iterations;
    return copies > 1 && copies < lanes && termsOf(u) >= LONG_PRODUCT;
  }

  /** Little work in the iterations of a reduce, none of it done twice: one thread may do it all. */
  private isSmall(u: UOp, c: Context): boolean {
    return this.entries(c) <= numelOf(u) && Math.max(numelOf(u), this.workBelow(u)) <= MAX_SERIAL;
  }

  /** A row that is cheaper to compute again than to keep: only what is reduced below it is expensive. */
  isCheapRow({ u, list, facts: { fullCost } }: Case): boolean {
    if (fullCost >= STAGE_COST) return false;
    return list.every((c) => !dependence(c.idx).every(isLoop) && numelOf(u) <= MAX_SERIAL);
  }

  /** Where the contexts of `u` differ only in which loop runs over whole axes: those axes, and the loops around them. */
  rowsOf(u: UOp, list: readonly Context[]): Rows | undefined {
    const shape = shapeOf(u);
    const axes: number[] = [], outer = new Set<number>();
    for (let i = 0; i < shape.length; i++) {
      const first = list[0].idx[i];
      const ranges = outputDependence([first]);
      if (ranges !== undefined && list.every((c) => c.idx[i] === first)) {
        for (const a of outputAxes(ranges)) outer.add(a);
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
    if (list.length === 1 && numelOf(u) <= elementsBelow(below.reduce, this.realized)) return false;
    if (!hasLoopCache(caps)) return true;
    const around = idx.filter((_, i) => !axes.includes(i));
    const outer = dependence(around).filter(isLoop).sort((a, b) => argOf(b, Ops.RANGE).id - argOf(a, Ops.RANGE).id);
    if (outer.length === 0 || TILE_ROWS * row > cacheShare(caps, TILE_SHARE)) return false;
    return this.everyOperand(below.reduce, below.idx, (o) => {
      const part = o.nbytes / iterationsOf(outer.filter((r) => o.ranges.includes(r)));
      return o.ranges.includes(outer[0]) || part <= cacheShare(caps, OPERAND_SHARE);
    });
  }
}

/**
 * Chooses the nodes to realize below `roots`, and what each kernel keeps.
 * Roots are stores, copies, or values already stripped of RESHAPE. `kept` are realized in any case.
 */
export function planFusion(
  roots: readonly UOp[],
  capsOf: (kernel: UOp) => FusionCaps = () => ANY_DEVICE,
  chains: ChainPlan = NO_CHAINS,
  kept: readonly UOp[] = [],
): ToldPlan {
  const order = toposort(roots), always = [...chains.realized, ...kept, ...roots.filter((r) => !isLeaf(r))];
  let known: ReadonlyMap<UOp, readonly UOp[]> | undefined;
  const readers = () => known ??= readersIn(order);
  const planned = (start: ReadonlySet<UOp>): Fuser => {
    const fuser = new Fuser(order, capsOf, chains.inside, readers);
    for (const u of start) fuser.realized.add(u);
    fuser.measure();
    fuser.run();
    return fuser;
  };
  // on a grid later passes join what is left apart here
  const isOnLoops = roots.every((r) => !capsOf(r).hasGrid);
  let start: ReadonlySet<UOp> = new Set(always), fuser = planned(start);
  for (let left = MOST_PLANS; --left > 0;) {
    const kept = fuser.keptReduces(start);
    const others = kept.length > 0 ? [] : fuser.others(start, isOnLoops);
    // such a buffer may be there for a kernel that another plan has not: what needs fewer is better
    const isBetter = others.some((made) => {
      const other = new Set([...start, ...made]), trial = planned(other);
      if (trial.realized.size >= fuser.realized.size) return false;
      [start, fuser] = [other, trial];
      return true;
    });
    if (isBetter) continue;
    if (kept.length === 0 && !fuser.cutBodies()) break;
    start = kept.length > 0 ? new Set([...start, ...kept]) : fuser.realized; // the cuts too
    fuser = planned(start);
  }
  return fuser;
}
