/**
 * A kernel whose ranges are being optimized. Opts change how its axes will be split; `finish` rewrites the AST once, with
 * a new RANGE for every piece. What an opt may do is checked here, and only here.
 *
 * Axes: output axes count 0, 1, ... in the order of their range ids, reduce axes follow them, and the axes of STAGEs those;
 * opts that take reduce axes alone count these from 0 (opt.ts). They count after simplify.ts has split and merged ranges.
 *
 * Each split takes the innermost part of what is left of an axis (axis.ts). Where a size is no multiple: an output axis
 * overlaps its last tile with the one before (the same values are written twice), unless the kernel reads what it writes; a
 * reduce axis leaves its tail to a loop of its own. An axis that ends at a variable is cut in blocks first (PADTO), of which
 * there are as many as the variable says (blocks.ts).
 *
 * On a grid there are no lanes (neighboring accesses become wide ones later), tiles do not overlap (what
 * is beyond the end repeats the last element and stores nothing), and what is left of an output axis are groups: GLOBAL,
 * unless a long reduction does not depend on the axis, which then stays a loop of the threads that did the reduction.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { ceilDiv, rangeOf } from "../../helpers/math.ts";
import { sharedBytesFor } from "../../renderer/lanes.ts";
import { chainOf, type TensorCore } from "../../renderer/tensor_core_table.ts";
import type { CopyEngine, GridCaps } from "../../renderer/renderer.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { contraction } from "../../uop/algebra/contraction.ts";
import { findChain, productOf } from "../../uop/algebra/product_chain.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, iterationsOf, ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { compareLoops, isReduceKind, kindOf } from "../ast/range_facts.ts";
import { type Replacement, replaceRanges } from "../ast/replace_ranges.ts";
import { type Axis, axisRanges, AxisState } from "./axis.ts";
import { blockReduce, blocksOf, blockStage, blockStores, type Cut, cutReduce, maskRange } from "./blocks.ts";
import { type AxisOpt, type Opt, optText, type PairOpt } from "./opt.ts";
import { type Bound, boundChain } from "./chain_bounds.ts";
import { useChain } from "./chain_tiles.ts";
import { oneLoop, sharedBytesOfStage, stage } from "./stage.ts";
import { useTensorCore } from "./tensor_core.ts";

/** What a group of threads may share. */
type SharedRoom = Pick<GridCaps, "sharedBytes" | "sharedItem">;

/** Opts that take output axes alone. */
const OUTPUT_OPTS: ReadonlySet<string> = new Set<AxisOpt["op"]>(["LOCAL", "THREAD", "SWAP"]);
/** Elements that a reduction may read for every thread to do it for itself. */
const REPEATED_REDUCE = 256;

/** Output axes of a kernel, outermost first: those that are copies already are none. */
function outputRanges(ast: UOp): UOp[] {
  const found = new Set<UOp>();
  for (const s of ast.src) for (const r of rangesOf(s)) if (kindOf(r) !== AxisKind.UPCAST) found.add(r);
  return [...found].sort(compareLoops);
}

/** Iterations of the pieces of a kind that were split off an axis. */
function sizeOfPieces(a: AxisState, kind: AxisKind): number {
  return a.pieces.reduce((n, p) => p.kind === kind ? n * p.size : n, 1);
}

/** A kernel AST with opts on their way in. */
export class Kernel {
  /** The opts applied so far. */
  applied: Opt[] = [];
  /** After {@linkcode finish}: where a loop ends in each group, before the end of its range. */
  bound: Bound | undefined;
  private readonly output: AxisState[];
  private readonly reduce: AxisState[];
  private readonly staged: AxisState[];
  /** What follows the blocks of output axes: the innermost loops of STOREs of their own. */
  private readonly rests: AxisState[] = [];
  /** Output axes in loop order. */
  private readonly order: AxisState[];
  /** The matrix unit in use, and the axes whose first pieces are its tile. */
  private onUnit:
    | { core: TensorCore; axes: readonly (AxisState | undefined)[]; sums: readonly AxisState[] }
    | undefined;
  /** True where a buffer is both read and written: then no element may be computed twice. */
  private readonly inPlace: boolean;

  /**
   * @param grid true for devices whose output axes are threads and groups
   * @param cores matrix units, as TC numbers them
   * @param engine what copies boxes
   */
  constructor(
    public ast: UOp,
    private readonly grid: boolean = false,
    private readonly cores: readonly TensorCore[] = [],
    private readonly engine: CopyEngine | undefined = undefined,
  ) {
    const nodes = toposort(ast);
    const reduced = nodes.filter((u) => u.op === Ops.RANGE && isReduceKind(kindOf(u))).sort(compareLoops);
    this.output = outputRanges(ast).map((r) => new AxisState(r, sizeOf(r), "output"));
    this.reduce = reduced.map((r) => new AxisState(r, sizeOf(r), "reduce"));
    const own = new Set<UOp>();
    for (const u of nodes) if (u.op === Ops.STAGE) { for (let i = 1; i < u.src.length; i++) own.add(u.src[i]); }
    this.staged = [...own].sort(compareLoops).map((r) => new AxisState(r, sizeOf(r), "stage"));
    this.order = this.output.slice();
    const written = new Set(ast.src.map((s) => s.src[0].src[0]));
    this.inPlace = nodes.some((u) => u.op === Ops.LOAD && written.has(u.src[0].src[0]));
  }

  /** Output axes, then reduce axes, then those of STAGEs. */
  get axes(): readonly Axis[] {
    return [...this.output, ...this.reduce, ...this.staged];
  }
  get outputAxes(): readonly Axis[] {
    return this.output;
  }
  /** Ranges of an output that are copies of its body already: no opt takes them. */
  get copies(): readonly UOp[] {
    return toposort(this.ast).filter((u) => u.op === Ops.RANGE && kindOf(u) === AxisKind.UPCAST).sort(compareLoops);
  }

  /** The matrix unit that it is on, by number; undefined for none. */
  get unit(): number | undefined {
    for (const o of this.applied) if (o.op === "TC") return o.unit;
    return undefined;
  }

  /** True where the last tile of an output axis may overlap the one before. */
  get mayOverlap(): boolean {
    return !this.inPlace && !this.grid;
  }

  /** True where axes may become one. */
  get mayMerge(): boolean {
    return this.grid && this.applied.length === 0;
  }

  /** Applies one opt. @throws {ArgumentError} where it is not possible, leaving the kernel as it was */
  apply(opt: Opt): this {
    const fail = (reason: string): never => {
      throw new ArgumentError(`apply ${optText(opt)}`, { reason });
    };
    if (opt.op === "STAGE" || opt.op === "TC") {
      if (opt.op === "TC") this.tile(opt.unit, fail);
      else if (this.grid && this.isGrouped) fail("its threads share a reduction");
      this.applied.push(opt);
      return this;
    }
    const a = this.axisOf(opt) ?? fail("the kernel has no such axis");
    if (a.size === 0 && opt.op !== "SWAP" && opt.op !== "PADTO") {
      fail("the axis has no constant size");
    }
    switch (opt.op) {
      case "UPCAST":
      case "UNROLL":
      case "VECTOR": {
        const kind = AxisKind[opt.op];
        if (opt.op === "VECTOR" && this.grid) {
          fail("the lanes of a grid are its threads: UPCAST and UNROLL make copies");
        }
        if (!Number.isInteger(opt.size) || opt.size < 2) fail("it takes at least 2");
        if (kind === AxisKind.VECTOR) {
          if ((opt.size & (opt.size - 1)) !== 0) fail("the lanes of a vector are a power of two");
          this.checkLanes(a, fail);
        }
        this.split(a, opt.size, kind, fail);
        break;
      }
      case "PADTO":
        if (!Number.isInteger(opt.size) || opt.size < 2) fail("it takes at least 2");
        if (a.tiled || a.chunks > 0) fail("the axis is cut in tiles already");
        if (a.size === 0) {
          this.block(a, opt.size, fail);
          break;
        }
        if (a.role === "stage") fail("a STAGE keeps its size");
        if (a.role === "reduce" || this.inPlace || this.grid || a.rest < opt.size) {
          if (a.steps.length > 0) fail("the axis was split before");
          this.padMasked(a, opt.size);
        } else {
          const last = a.rest % opt.size === 0 ? undefined : a.rest - opt.size;
          a.steps.push({ type: "tile", size: opt.size, last });
          a.outer = ceilDiv(a.rest, opt.size);
          a.rest = opt.size;
          a.tiled = true;
        }
        break;
      case "THREAD": {
        if (this.output.some((x) => x.thread)) fail("the kernel has a THREAD axis");
        if (this.ast.src.some((s) => !dependsOn(s, a.range))) fail("a STORE does not depend on the axis");
        const n = a.tiled ? a.outer : a.rest;
        if (opt.chunks > 0 && n % opt.chunks !== 0) fail(`${n} iterations are no multiple of ${opt.chunks}`);
        a.thread = true;
        if (opt.chunks > 0 && opt.chunks < n) a.chunks = opt.chunks;
        break;
      }
      case "SWAP": {
        const b = this.output[opt.other];
        if (b === undefined) fail("the kernel has no such axis");
        const i = this.order.indexOf(a), j = this.order.indexOf(b);
        [this.order[i], this.order[j]] = [this.order[j], this.order[i]];
        break;
      }
      case "MERGE":
        if (!this.grid) fail("loops stay apart where there is no grid");
        if (this.applied.some((o) => o.op !== "MERGE")) fail("it comes before other opts");
        this.merge(a, this.axisAt(opt.other), fail);
        break;
      case "LOCAL":
        if (!this.grid) fail("no device with loops has it");
        if (!Number.isInteger(opt.size) || opt.size < 2) fail("it takes at least 2");
        this.split(a, opt.size, AxisKind.LOCAL, fail);
        break;
      case "GROUP":
      case "GROUPTOP":
        if (!this.grid) fail("no device with loops has it");
        this.group(a, opt.size, fail, opt.op === "GROUPTOP");
        break;
    }
    this.applied.push(opt);
    return this;
  }

  /** Every value has the lanes of one axis. */
  private checkLanes(a: AxisState, fail: (reason: string) => never): void {
    const hasLanes = (x: AxisState): boolean => sizeOfPieces(x, AxisKind.VECTOR) > 1;
    if (hasLanes(a)) fail("the axis has lanes already");
    const others = [...this.output, ...this.reduce, ...this.staged].filter(hasLanes).map((x) => x.range);
    if (others.length === 0) return;
    const meets = (ranges: readonly UOp[]): boolean =>
      ranges.includes(a.range) && ranges.some((r) => others.includes(r));
    // a sum of what depends on neither has copies of both all the same
    const around = (u: UOp): readonly UOp[] => u.op === Ops.REDUCE ? [...rangesOf(u), ...ownRanges(u)] : rangesOf(u);
    if (toposort(this.ast).some((u) => meets(around(u)))) fail("a value depends on another axis that has lanes");
  }

  /** The axis that an opt is about: where it takes one of the output alone, no other. */
  private axisOf(opt: AxisOpt): AxisState | undefined {
    if ("reduce" in opt) return this.reduce[opt.reduce];
    return OUTPUT_OPTS.has(opt.op) ? this.output[opt.axis] : this.axisAt(opt.axis);
  }

  private axisAt(i: number): AxisState | undefined {
    const inner = i - this.output.length;
    return this.output[i] ?? this.reduce[inner] ?? this.staged[inner - this.reduce.length];
  }

  private split(a: AxisState, k: number, kind: AxisKind, fail: (reason: string) => never): void {
    const onTiles = a.tiled && a.rest === 1;
    if (a.chunks > 0 && (onTiles || !a.tiled)) fail("the axis is split over threads already");
    const left = onTiles ? a.outer : a.rest;
    if (k > left) fail(`the axis has ${left} iterations left`);
    let last: number | undefined, limit: number | undefined;
    if (left % k !== 0) {
      if (a.role === "stage") fail(`${left} iterations are no multiple of ${k}`);
      if (a.role === "reduce") {
        if (a.steps.length > 0) fail(`${left} iterations are no multiple of ${k}`);
        this.peel(a, k);
      } else if (this.grid) limit = left;
      else if (this.inPlace) fail(`${left} iterations are no multiple of ${k}, and the kernel works in place`);
      else last = left - k;
    }
    a.steps.push({ type: "split", size: k, kind, last, limit });
    if (onTiles) a.outer = ceilDiv(a.outer, k);
    else a.rest = ceilDiv(a.rest, k);
  }

  /** Why axes cannot become one; undefined where they can. */
  private mergeProblem(a: AxisState, b: AxisState | undefined): string | undefined {
    if (b === undefined || a === b || a.size === 0 || b.size === 0 || b.role !== a.role) {
      return "it takes two axes of a kind";
    }
    if (a.role === "stage") return "a STAGE keeps its axes";
    if (a.size * b.size > 2 ** 31 - 1) return "one index cannot count both";
    const [outer, inner] = [a.range, b.range];
    if (a.role === "output") {
      if (this.ast.src.some((s) => dependsOn(s, outer) !== dependsOn(s, inner))) return "a STORE has only one of them";
    } else {
      for (const u of toposort(this.ast)) {
        if (u.op === Ops.REDUCE && u.src.includes(outer) !== u.src.includes(inner)) {
          return "a REDUCE has only one of them";
        }
      }
    }
    return undefined;
  }

  /** May axes `a` and `b`, by position, become one? */
  canMerge(a: number, b: number): boolean {
    const all = [...this.output, ...this.reduce, ...this.staged];
    return all[a] !== undefined && this.mergeProblem(all[a], all[b]) === undefined;
  }

  /** Makes one axis of two: their indices become its quotient and remainder. */
  private merge(a: AxisState, b: AxisState | undefined, fail: (reason: string) => never): void {
    const problem = this.mergeProblem(a, b);
    if (problem !== undefined || b === undefined) return fail(problem!);
    const [outer, inner] = [a.range, b.range];
    const all = uop(Ops.RANGE, inner.dtype, [constant(a.size * b.size, inner.dtype)], inner.arg);
    const high = all.floorDiv(b.size);
    this.ast = simplifyKernel(replaceRanges(
      this.ast,
      new Map([
        [outer, { value: high.dtype === outer.dtype ? high : high.cast(outer.dtype), ranges: [] }],
        [inner, { value: all.floorMod(b.size), ranges: [all] }],
      ]),
    ));
    b.range = all;
    b.size = b.rest = a.size * b.size;
    for (const list of [this.output, this.reduce, this.order]) {
      const i = list.indexOf(a);
      if (i >= 0) list.splice(i, 1);
    }
  }

  /** The axes of rows, columns and sums that matrix unit `core` works on: by position; undefined where there are none. */
  productAxes(core: TensorCore): { rows: number; columns: number; sum: number } | undefined {
    for (const u of toposort(this.ast)) {
      const product = productOf(u, core);
      if (product === undefined) continue;
      const own = this.reduce.findLastIndex((r) => u.src.includes(r.range) && (r.isOpen || r.size >= core.k));
      const isIn = (x: UOp) => (i: number): boolean => dependsOn(x, this.output[i].range);
      const axes = contraction(rangeOf(this.output.length), [], isIn(product.a), isIn(product.b));
      if (own < 0 || axes === undefined) continue;
      return { rows: axes.rows[axes.rows.length - 1], columns: axes.columns[axes.columns.length - 1], sum: own };
    }
    return undefined;
  }

  /**
   * The axes of a chain of products that matrix unit `core` works on: by position, of sums among the reduce axes; columns
   * are -1 where each row has one result. undefined where there is none.
   */
  chainAxes(core: TensorCore): { rows: number; columns: number; middle: number; sums: readonly number[] } | undefined {
    const chain = chainOf(core) && findChain(this.ast, core);
    if (chain === undefined) return undefined;
    const at = (list: readonly AxisState[], r: UOp | undefined): number => list.findIndex((a) => a.range === r);
    const sums = new Set(chain.inner.map(({ sum }) => at(this.reduce, sum)));
    return {
      rows: at(this.output, chain.rows),
      columns: at(this.output, chain.columns),
      middle: at(this.reduce, chain.middle),
      sums: [...sums],
    };
  }

  /** Splits the tile of a matrix unit off the axes of a product. */
  private tile(number: number, fail: (reason: string) => never): void {
    const core = this.cores[number];
    if (core === undefined) return fail("the device has no such matrix unit");
    if (this.applied.some((o) => o.op !== "PADTO" && o.op !== "SWAP" && o.op !== "MERGE")) {
      fail("it comes before other opts");
    }
    const chain = this.chainAxes(core), axes = chain === undefined ? this.productAxes(core) : undefined;
    const found = chain ?? axes;
    if (found === undefined) return fail("there is no sum of products of its dtypes");
    const list: (AxisState | undefined)[] = [this.output[found.rows], this.output[found.columns]];
    list.push(this.reduce[chain?.middle ?? axes!.sum]);
    const sums = chain?.sums.map((i) => this.reduce[i]) ?? [];
    const { inner, outer } = chain === undefined ? { inner: core, outer: core } : chainOf(core)!;
    const sizes = [outer.m, outer.n, outer.k, inner.k];
    const pieces = [...list, ...sums].map((a, i) => ({ a, size: sizes[Math.min(i, 3)] }));
    for (const { a, size } of pieces) {
      if (a === undefined) continue;
      if (a.size === 0) fail("an axis that ends at a variable is cut in blocks first");
      if (a.rest % size !== 0) fail(`${a.rest} iterations are no multiple of ${size}`);
    }
    pieces.forEach(({ a, size }, i) => a && this.split(a, size, i < 2 ? AxisKind.UPCAST : AxisKind.UNROLL, fail));
    this.onUnit = { core, axes: list, sums };
  }

  /** Splits a reduce axis over `k` threads, neighbors or (`top`) each with a part of its own. */
  private group(a: AxisState, k: number, fail: (reason: string) => never, top: boolean): void {
    if (!Number.isInteger(k) || k < 2 || (k & (k - 1)) !== 0) fail("the threads are a power of two");
    if (this.applied.some((o) => o.op === "STAGE")) fail("the threads fill a STAGE");
    if (a.pieces.some((p) => p.kind === AxisKind.GROUP_REDUCE)) fail("the axis is split over threads already");
    const others = this.reduce.flatMap((r) => r.pieces.filter((p) => p.kind === AxisKind.GROUP_REDUCE));
    if (others.some((p) => p.size !== k)) fail("all reductions of a kernel share the same threads");
    for (const u of toposort(this.ast)) {
      if (u.op !== Ops.REDUCE || !u.src.includes(a.range)) continue;
      const shared = this.reduce.some((r) =>
        r !== a && u.src.includes(r.range) && r.pieces.some((p) => p.kind === AxisKind.GROUP_REDUCE)
      );
      if (shared) fail("another axis of the reduction is split over threads");
      if (rangesOf(u).some((r) => isReduceKind(kindOf(r)))) fail("the reduction is inside of another one");
    }
    if (a.rest % k !== 0) {
      if (a.steps.length > 0) fail(`${a.rest} iterations are no multiple of ${k}`);
      this.padMasked(a, k);
    }
    if (!top) return this.split(a, k, AxisKind.GROUP_REDUCE, fail);
    const inner = a.rest / k;
    a.steps.push({ type: "split", size: inner, kind: AxisKind.REDUCE, last: undefined });
    a.steps.push({ type: "split", size: k, kind: AxisKind.GROUP_REDUCE, last: undefined });
    a.rest = 1;
  }

  /** On a grid: may the iterations of output axis `i` be groups and threads of their own? */
  isParallel(i: number): boolean {
    return this.globalAxes().has(this.output[i]);
  }

  /** The threads that go on after a reduction that they share are those that have shared it, or fewer. */
  private checkThreads(): void {
    const grouped = this.reduce.filter((r) => sizeOfPieces(r, AxisKind.GROUP_REDUCE) > 1);
    if (grouped.length === 0) return;
    const shared = toposort(this.ast).filter((u) =>
      u.op === Ops.REDUCE && grouped.some((r) => u.src.includes(r.range))
    );
    const threads = sizeOfPieces(grouped[0], AxisKind.GROUP_REDUCE);
    const after = this.output.filter((a) => !shared.some((u) => dependsOn(u, a.range)));
    for (const s of this.ast.src) {
      const n = after.reduce((n, a) => dependsOn(s, a.range) ? n * sizeOfPieces(a, AxisKind.LOCAL) : n, 1);
      if (n <= threads) continue;
      throw new ArgumentError("apply LOCAL", {
        reason: `${n} threads go on after a reduction that ${threads} threads share`,
      });
    }
  }

  private get isGrouped(): boolean {
    return this.reduce.some((r) => r.pieces.some((p) => p.kind === AxisKind.GROUP_REDUCE));
  }

  /** On a grid: the output axes whose iterations are groups. */
  private globalAxes(): Set<AxisState> {
    const grouped = this.isGrouped;
    const nodes = toposort(this.ast).filter((u) => u.op === Ops.REDUCE || u.op === Ops.STAGE);
    const serial = new Set<AxisState>(), workOf = (u: UOp): number => iterationsOf(ownRanges(u)) || Infinity;
    for (const u of nodes) {
      const work = workOf(u);
      if (!grouped && work <= REPEATED_REDUCE) continue;
      // inside of another one it is done again in each of its iterations, whoever does them
      if (rangesOf(u).some((r) => isReduceKind(kindOf(r)))) continue;
      for (const a of this.output) {
        if (dependsOn(u, a.range)) continue;
        // groups that reduce as much each for itself do this again beside it
        const isBeside = grouped &&
          nodes.some((x) => x.op === Ops.REDUCE && dependsOn(x, a.range) && workOf(x) >= work);
        if (!isBeside) serial.add(a);
      }
    }
    // a component of its own must keep its size
    const open = this.output.filter((a) => !serial.has(a));
    const useful = grouped || open.some((a) => a.size !== 1);
    return new Set(useful ? open : this.output);
  }

  /** Cuts a reduce axis at a multiple of `k`; what follows becomes a reduction of its own, combined after. */
  private peel(a: AxisState, k: number): void {
    const main = a.size - a.size % k, { dtype } = a.range;
    this.cut(a, cutReduce(this.ast, a.range, constant(main, dtype), constant(a.size - main, dtype)));
    a.size = a.rest = main;
  }

  /** Cuts an axis that ends at a variable in blocks of `k`, which opts then split; on a grid the last one may be part of one. */
  private block(a: AxisState, k: number, fail: (reason: string) => never): void {
    const [end] = a.range.src, most = vmax(end), started = simplify(end.add(k - 1).floorDiv(k));
    const count = this.grid || a.role === "stage" ? started : blocksOf(a.range, k);
    if (2 * k > most) fail(`its ${most} iterations are less than two blocks of ${k}`);
    if (this.grid) {
      if (a.role === "stage") fail("a STAGE keeps its size");
      this.cut(a, maskRange(this.ast, a.range, simplify(count.mul(k))));
    } else if (a.role === "output") {
      const cut = blockStores(this.ast, a.range, k);
      this.cut(a, cut);
      this.rests.push(new AxisState(cut.rest, 0, "output"));
    } else {
      const cut = a.role === "reduce" ? blockReduce(this.ast, a.range, k) : blockStage(this.ast, a.range, k);
      this.cut(a, cut ?? fail(`its row of ${most} elements does not hold blocks of ${k}`));
    }
    a.blocks = count;
    a.size = a.rest = k;
    a.expected = ceilDiv(most, 2);
    a.tiled = true;
    a.steps.push({ type: "tile", size: k, last: undefined });
  }

  private cut(a: AxisState, { ast, head }: Cut): void {
    this.ast = ast;
    a.range = head;
  }

  /** Rounds an axis up to a multiple of `k`; the added iterations touch no memory and add nothing. */
  private padMasked(a: AxisState, k: number): void {
    const size = ceilDiv(a.size, k) * k;
    if (size === a.size) return;
    this.cut(a, maskRange(this.ast, a.range, constant(size, a.range.dtype)));
    a.size = a.rest = size;
  }

  /**
   * The AST with all opts in it. Indices are not simplified yet.
   * @param room what a group may share: beyond it rings are given up buffer by buffer, then tiles
   */
  finish(room?: SharedRoom): UOp {
    if (this.applied.length === 0 && !this.grid) return this.ast;
    this.checkThreads();
    const groups = this.grid ? this.globalAxes() : new Set<AxisState>();
    const depends = this.ast.src.map((s) => this.output.map((a) => dependsOn(s, a.range)));
    const axes = [...this.output, ...this.reduce, ...this.staged, ...this.rests];
    const known = new Set(axes.map((a) => a.range));
    // new ids must not meet those of ranges that stay
    const base = freeIds(toposort(this.ast).filter((u) => u.op === Ops.RANGE && !known.has(u))).range;
    const n = this.output.length;
    const map = new Map<UOp, Replacement>();
    const inside = new Map<AxisState, readonly UOp[]>();
    // the loop within a tile stands inside of all others, but where a STAGE is filled between: that stands inside of it
    const outside = new Set<UOp>();
    for (const u of toposort(this.ast)) if (u.op === Ops.STAGE) { for (const r of rangesOf(u)) outside.add(r); }
    this.order.forEach((a, i) => {
      const tile = outside.has(a.range) ? base + i : base + n + i;
      const made = axisRanges(a, base + i, tile, groups.has(a));
      inside.set(a, made.inside);
      map.set(a.range, made);
    });
    this.reduce.forEach((a, i) => map.set(a.range, axisRanges(a, base + 2 * n + i, base + 2 * n + i)));
    [...this.staged, ...this.rests].forEach((a, i) => {
      const id = base + 2 * n + this.reduce.length + i;
      map.set(a.range, axisRanges(a, id, id));
    });
    this.ast = replaceRanges(this.ast, map);
    const gates = depends.map((d) => this.output.flatMap((a, i) => d[i] ? inside.get(a)! : []));
    this.ast = this.ast.withSrc(this.ast.src.map((s, i) => gates[i].reduce(gated, s)));
    const last = (a: AxisState | undefined): UOp | undefined => a && map.get(a.range)!.ranges.at(-1)!;
    const unit = this.onUnit, [rows, columns, middle] = unit?.axes.map(last) ?? [];
    const chain = { rows: rows!, columns, middle: middle!, sums: unit?.sums.map(last) as UOp[] };
    if (unit !== undefined && unit.sums.length > 0) {
      const bounded = boundChain(this.ast, unit.core, chain);
      if (bounded !== undefined) [this.ast, this.bound] = [bounded.ast, bounded.bound];
    }
    this.ast = this.withStages(this.ast, room);
    if (unit !== undefined) {
      this.ast = unit.sums.length > 0
        ? useChain(this.ast, unit.core, chain)
        : useTensorCore(this.ast, unit.core, rows!, columns!, middle!);
    }
    return this.ast;
  }

  /** The AST with the STAGEs that {@linkcode finish} leaves. */
  private withStages(ast: UOp, room?: SharedRoom): UOp {
    const stages = this.applied.filter((o) => o.op === "STAGE");
    const rings = stages.map(({ ring = 1 }) => ring), depth = Math.max(0, ...rings);
    const threads = [...this.output, ...this.reduce].reduce(
      (n, a) => n * sizeOfPieces(a, AxisKind.LOCAL),
      this.onUnit?.core.lanes ?? 1,
    );
    const group = this.grid ? { threads, core: this.onUnit?.core, engine: this.engine } : undefined;
    const made = stages.reduce((u, s) => stage(u, s, group), depth > 1 ? oneLoop(ast) : ast);
    if (depth === 0 || room === undefined) return made;
    if (sharedBytesFor(toposort(made).map((u) => sharedBytesOfStage(u, room))) <= room.sharedBytes) return made;
    this.applied = this.applied.flatMap((o): Opt[] => {
      if (o.op !== "STAGE") return [o];
      return depth < 2 ? [] : [{ ...o, ring: Math.min(o.ring ?? 1, depth - 1) }];
    });
    return this.withStages(ast, room);
  }
}

/**
 * Applies opts that merge axes, whose positions are those before the first of them, which must be the first opts of all.
 * False, and nothing done, where one is not possible.
 */
export function applyMerges(kernel: Kernel, opts: readonly PairOpt[]): boolean {
  if (!opts.every((o) => kernel.canMerge(o.axis, o.other))) return false;
  const gone: number[] = [];
  const now = (i: number): number => i - gone.filter((g) => g < i).length;
  for (const o of opts) {
    kernel.apply({ ...o, axis: now(o.axis), other: now(o.other) });
    gone.push(o.axis);
  }
  return true;
}

/** A STORE that is executed only where `valid`. */
function gated(s: UOp, valid: UOp): UOp {
  const at = s.src[0];
  return s.withSrc([index(at.src[0], at.src[1], at.src.length > 2 ? at.src[2].and(valid) : valid), s.src[1]]);
}
