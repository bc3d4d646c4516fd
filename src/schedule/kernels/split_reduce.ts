/**
 * Splits a reduction of much into little over many threads or groups of threads, or a long one so that its parts fit the
 * cache: a kernel that reduces parts, and one that combines them. In: the AST of a kernel and what the device can do. Out:
 * the two ASTs, or nothing where one kernel keeps the device as busy.
 *
 * The carrier's combine puts the parts together, in their order, so reruns are bit-equal. Parts are cut off the reduced axes
 * that are outermost in memory, so that each is contiguous where the reduction is.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import { cacheShare, type Capabilities, hasLoopCache } from "../../renderer/renderer.ts";
import { chainOf } from "../../renderer/tensor_core_table.ts";
import { contraction, factorsOf } from "../../uop/algebra/contraction.ts";
import { indexForm, liesAlong, strideAlong } from "../../uop/algebra/linear_form.ts";
import { type Chain, findChain } from "../../uop/algebra/product_chain.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { type CarrierArg, carrierOf, getTuple, identityConst, reduce } from "../../uop/core/carrier.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, iterationsOf, ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import {
  constant,
  index,
  int,
  INT32_MAX,
  load,
  mayHave,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
} from "../../uop/core/uop.ts";
import { addIndex, mulIndex } from "../../uop/graph/movement_index.ts";
import { note } from "../../uop/rewrite/record.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { MIN_RESULTS } from "../fuse/fusion_plan.ts";

/**
 * Elements that a part has at least: on a grid (32 for each of 256 threads), and on loops shared by threads (some 16 MB: what
 * the caches do not hold).
 */
const LEAST_PART_GRID = 1 << 13, LEAST_PART_LOOPS = 1 << 22;
/** Elements of one group on a grid that take as long as another launch does. */
const WORTH_PARTS = 1 << 16;
/**
 * Threads of a group that share a reduction, at most, or results side by side (a sector of 32 bytes) where what is reduced is not;
 * such groups that keep a multiprocessor busy: it holds 1536 to 2048.
 */
const GROUP_THREADS = 256, LANES = 8, GROUPS_A_UNIT = 8;

/** A kernel in two. */
export interface SplitKernel {
  /** Reduces parts into the new buffers. */
  readonly partial: UOp;
  /** Combines them, and does the rest of the kernel. */
  readonly combine: UOp;
  /** Dtype and elements of each new buffer. */
  readonly made: readonly { readonly dtype: UOp["dtype"]; readonly size: number }[];
}

/**
 * Into how many parts a reduction of `length` elements is cut, of which there are `outputs`; 1 for none. On a grid as a whole
 * so many groups of threads do it as `groupsOf` gives.
 */
export function partsOf(
  outputs: number,
  length: number,
  caps: Capabilities,
  groupsOf: () => number = () => outputs,
): number {
  if (caps.hasGrid) {
    const { units } = caps.grid!;
    if (outputs * length < WORTH_PARTS) return 1; // without a look at what it reads
    const groups = Math.max(1, groupsOf()), each = outputs * length / groups;
    if (groups >= 2 * units || each < WORTH_PARTS) return 1;
    return Math.max(1, Math.min(Math.floor(units * GROUPS_A_UNIT / groups), Math.floor(each / LEAST_PART_GRID)));
  }
  if (caps.threads < 2 || outputs >= caps.threads) return 1;
  return Math.max(1, Math.min(ceilDiv(caps.threads, outputs), Math.floor(length / LEAST_PART_LOOPS)));
}

/** The same for a product whose result has so many tiles. */
function partsOfProduct(tiles: number, length: number, caps: Capabilities): number {
  const { units } = caps.grid!;
  if (tiles >= 2 * units) return 1;
  const least = tiles >= units ? LONG_SUM : LEAST_SUM;
  return Math.max(1, Math.min(Math.floor(units * GROUPS_A_UNIT / tiles), Math.floor(length / least)));
}

/** Sides of the tile of a product that a group of threads has, about (64 or 128 in tile_candidates.ts); sides that have one. */
const TILE_SIDE = 64, LEAST_SIDE = 4;
/** Iterations of a product's sum that are worth a part: while units are idle, and where all have a tile already. */
const LEAST_SUM = 256, LONG_SUM = 4096;

/**
 * Tiles of the result of a product of two reads, on a grid: a group of threads has one, because each read is for many
 * elements. 0 where the reduction is something else.
 */
function tilesOf(u: UOp, around: readonly UOp[]): number {
  if (u.op !== Ops.REDUCE || carrierOf(u).key !== "ADD") return 0;
  const loads = toposort(u.src[0]).filter((x) => x.op === Ops.LOAD);
  if (loads.length !== 2) return 0;
  const [a, b] = loads, axes = contraction(around, [], (r) => dependsOn(a, r), (r) => dependsOn(b, r));
  if (axes === undefined) return 0;
  const rows = iterationsOf(axes.rows), columns = iterationsOf(axes.columns);
  if (Math.min(rows, columns) < LEAST_SIDE) return 0;
  const batch = iterationsOf(around) / rows / columns;
  return ceilDiv(rows, TILE_SIDE) * ceilDiv(columns, TILE_SIDE) * batch;
}

/**
 * Rows of both operands of a product that a tile of its result reads, on loops: a few of each, with the lanes along the sum.
 * Where rows of memory are no whole vectors, and fewer than so many, lanes lie across the rows of an operand that is packed:
 * two vectors of them, and some rows of the other.
 */
const TILE_READS = 11, PACKED_READS = 8, SHORT_ROW = 4;
/** Share of the second-level cache for them, where all do not fit: the rest is for the results and what comes next. */
const READ_SHARE = 1 / 2;
/** Share of it that the results of a product whose parts are cut for the cache take at most. */
const RESULT_SHARE = 1 / 2;

/**
 * Into how many parts a long sum of products is cut on loops, so that what the next tile of the result reads again stays in
 * the cache: where both operands lie along the sum in memory (what does not is packed). 1 for others.
 */
function partsForCache(u: UOp, outputs: number, length: number, caps: Capabilities): number {
  if (!hasLoopCache(caps) || factorsOf(u) === undefined) return 1;
  const { itemsize } = u.dtype, [last] = u.src.slice(-1), lanes = caps.vectorLanes(u.dtype);
  const isShort = sizeOf(last) % lanes !== 0 && sizeOf(last) < SHORT_ROW * lanes;
  const nbytes = length * itemsize * (isShort ? PACKED_READS + 2 * lanes : TILE_READS);
  if (outputs < MIN_RESULTS || outputs * itemsize > cacheShare(caps, RESULT_SHARE) || nbytes <= caps.l2) return 1;
  const loads = toposort(u.src[0]).filter((x) => x.op === Ops.LOAD);
  if (loads.length !== 2 || !loads.every((l) => liesAlong(indexForm(l.src[0].src[1]), last))) return 1;
  const parts = ceilDiv(nbytes, cacheShare(caps, READ_SHARE));
  return parts * outputs <= INT32_MAX ? parts : 1;
}

/** Groups of threads that a unit of a grid has side by side where they do chains of products, each with tiles in memory. */
const CHAINS_A_UNIT = 4;
/** Rows of a group that does a chain, and steps of the middle that are worth a part. */
const CHAIN_ROWS = 64, LEAST_MIDDLE = 128;
/** Share of what a chain's parts read that their results may be, which are written and read again. */
const PARTS_SHARE = 1 / 8;

/** Into how many parts a chain of products is cut over its middle: few queries of many keys leave units idle. */
function partsOfChain({ outer, rows, columns, middle }: Chain, outputs: number, { grid }: Capabilities): number {
  const width = columns === undefined ? 1 : sizeOf(columns), many = sizeOf(rows), steps = sizeOf(middle);
  const batch = outputs / width / many, groups = batch * ceilDiv(many, CHAIN_ROWS), { units } = grid!;
  if (groups >= 2 * units) return 1;
  const made = 2 * outputs * carrierOf(outer).lanes * outer.src[0].dtype.itemsize;
  const read = toposort(outer).reduce((n, l) => {
    const isRead = l.op === Ops.LOAD && dependsOn(l, middle);
    return isRead ? n + iterationsOf(rangesOf(l)) * l.dtype.itemsize : n;
  }, 0);
  return Math.floor(Math.min(units * CHAINS_A_UNIT / groups, steps / LEAST_MIDDLE, PARTS_SHARE * read / made));
}

/** A reduction that can be split. */
interface Splittable {
  readonly u: UOp;
  readonly chain: Chain | undefined;
}

/** The reductions of a kernel that can be split: neither inside of another nor around one, or the outer one of a chain of products. */
function splittable(ast: UOp, { grid }: Capabilities): Splittable[] {
  if (!mayHave(ast, Ops.REDUCE)) return [];
  const nodes = toposort(ast), reduces = nodes.filter((u) => u.op === Ops.REDUCE);
  if (nodes.some((u) => u.op === Ops.STAGE)) return [];
  let chain: Chain | undefined;
  if (reduces.length > 1) {
    for (const c of grid?.tensorCores ?? []) chain ??= chainOf(c) && findChain(ast, c);
  }
  const alone = reduces.filter((u) => !u.src.some((s) => mayHave(s, Ops.REDUCE)));
  const inside = new Set(reduces.filter((u) => !alone.includes(u)).flatMap((u) => toposort(u.src)));
  const found = chain !== undefined ? [chain.outer] : alone.filter((u) => !inside.has(u));
  const isLoop = (r: UOp): boolean => r.op === Ops.RANGE && argOf(r, Ops.RANGE).kind === AxisKind.LOOP && sizeOf(r) > 0;
  return found.filter((u) =>
    ownRanges(u).every((r) => r.op === Ops.RANGE && sizeOf(r) > 0) && rangesOf(u).every(isLoop)
  ).map((u) => ({ u, chain }));
}

/** Where a reduction reads. */
function placesOf(u: UOp): UOp[] {
  return toposort(u.src[0]).filter((x) => x.op === Ops.LOAD).map((l) => l.src[0]);
}

/** The reduced ranges, the furthest apart in memory first, by the read that has most of them. */
function outermostFirst(u: UOp): readonly UOp[] {
  const ranges = ownRanges(u), forms = placesOf(u).map((i) => indexForm(i.src[1]));
  if (ranges.length < 2 || forms.length === 0) return ranges;
  const steps = new Map(ranges.map((r) => [r, Math.max(...forms.map((f) => Math.abs(strideAlong(f, r))))]));
  return ranges.toSorted((a, b) => steps.get(b)! - steps.get(a)!);
}

/**
 * Elements that follow each other in all that a reduction reads, of those that it reduces: `ranges` has the innermost last.
 * Where a gate asks for one of the ranges, as at the edges of an image, rows end with it.
 */
function rowOf(u: UOp, ranges: readonly UOp[]): number {
  const indices = placesOf(u);
  const forms = indices.map((i) => indexForm(i.src[1])), gates = indices.flatMap((i) => i.src.slice(2));
  const step = (r: UOp): number[] => forms.map((f) => strideAlong(f, r)), last = ranges[ranges.length - 1];
  const isCut = (r: UOp): boolean => gates.some((g) => dependsOn(g, r)), first = step(last);
  let row = sizeOf(last);
  for (const r of ranges.slice(0, -1).reverse()) {
    if (isCut(last) || isCut(r) || !step(r).every((s, i) => s === row * first[i])) break;
    row *= sizeOf(r);
  }
  return row;
}

/** Groups of threads that do a reduction as a whole: one a result, where as many of its elements lie in a row as a group has threads. */
function groupsOf(u: UOp, ranges: readonly UOp[], around: readonly UOp[]): number {
  const forms = placesOf(u).map((i) => indexForm(i.src[1]));
  const areNear = (some: readonly UOp[]): boolean =>
    forms.some((f) => some.some((r) => Math.abs(strideAlong(f, r)) === 1));
  const outputs = iterationsOf(around);
  if (!areNear(ranges) && areNear(around)) return outputs / LANES;
  return outputs * Math.min(1, rowOf(u, ranges) / GROUP_THREADS);
}

/** `x` in the dtype of `r`. */
function typed(x: UOp, r: UOp): UOp {
  return x.dtype === r.dtype ? x : x.cast(r.dtype);
}

/** A divisor of `n` near `want`: at least as many where that is not too far off; 0 where there is none. */
function divisorNear(n: number, want: number): number {
  for (let k = want; k <= Math.min(n, 2 * want); k++) if (n % k === 0) return k;
  for (let k = want - 1; k > want / 2; k--) if (n % k === 0) return k;
  return 0;
}

/** Cuts a reduction of a kernel's AST in parts where that keeps the device busier. `slot`: PARAM of the first new buffer. */
export function splitKernel(ast: UOp, caps: Capabilities, slot: number): SplitKernel | undefined {
  for (const found of splittable(ast, caps)) {
    const split = splitReduce(ast, found, caps, slot);
    if (split !== undefined) return split;
  }
  return undefined;
}

function splitReduce(ast: UOp, { u, chain }: Splittable, caps: Capabilities, slot: number): SplitKernel | undefined {
  const carrier = carrierOf(u), n = carrier.lanes;
  const ranges = outermostFirst(u), around = rangesOf(u);
  const outputs = iterationsOf(around), length = iterationsOf(ranges), tiles = caps.hasGrid ? tilesOf(u, around) : 0;
  const cached = chain !== undefined ? 1 : partsForCache(u, outputs, length, caps);
  const want = chain !== undefined
    ? partsOfChain(chain, outputs, caps)
    : cached > 1
    ? cached
    : tiles > 0
    ? partsOfProduct(tiles, length, caps)
    : partsOf(outputs, length, caps, () => groupsOf(u, ranges, around));
  if (want < 2 || outputs * want > INT32_MAX) return undefined;
  let next = freeIds(toposort(ast)).range;
  const fresh = (size: number, kind: AxisKind): UOp => range(size, next++, kind);
  // what becomes of the reduced ranges: whole ones number parts, one is cut, the others stay
  const cut = cutRanges(ranges, want, fresh);
  if (cut === undefined) return undefined;
  if (wantsNotes()) {
    const parts = iterationsOf(cut.parts),
      why = cached > 1 ? "each reads what a cache holds" : "more of the device has work";
    note("passed", u, `a reduction of ${length} terms for ${outputs} results is cut in ${parts} parts: ${why}`, {
      length,
      outputs,
      parts,
    });
  }
  let lifts = u.src.slice(0, n).map((x) => substitute(x, cut.map));
  if (cut.valid !== undefined) lifts = masked(carrier, lifts, cut.ranges, cut.valid);
  // one part after the other, where they are for the cache: their loop stands around those of the results
  const inner = cached > 1 ? around.map((r) => fresh(sizeOf(r), AxisKind.LOOP)) : around;
  if (cached > 1) {
    const renamed = new Map(around.map((r, i) => [r, typed(inner[i], r)]));
    lifts = lifts.map((x) => substitute(x, renamed));
  }
  // on a grid neighbors among the results stay neighbors
  const ordered = (results: readonly UOp[], parts: readonly UOp[]): UOp[] =>
    cached > 1 || caps.hasGrid ? [...parts, ...results] : [...results, ...parts];
  const body = reduce(carrier, lifts, cut.rest), loops = ordered(inner, cut.parts);
  const size = iterationsOf(loops);
  const made = carrier.dtypes.map((dtype) => ({ dtype, size }));
  const flat = (over: readonly UOp[]): UOp => {
    let at: UOp | undefined;
    for (const r of over) {
      at = at === undefined ? r : addIndex(mulIndex(at, sizeOf(r)), r);
    }
    return at ?? int(0);
  };
  const stores = made.map(({ dtype }, i) => store(index(param(slot + i, dtype, size), flat(loops)), getTuple(body, i)));
  const again = cut.parts.map((r) => fresh(sizeOf(r), AxisKind.REDUCE));
  const read = made.map(({ dtype }, i) => load(index(param(slot + i, dtype, size), flat(ordered(around, again)))));
  const total = reduce(carrier, read, again);
  const map = new Map<UOp, UOp>();
  for (const x of toposort(ast)) {
    if (x.op === Ops.GETTUPLE && x.src[0] === u) map.set(x, getTuple(total, argOf(x, Ops.GETTUPLE)));
  }
  if (n === 1) map.set(u, total);
  return { partial: sink(stores), combine: substitute(ast, map), made };
}

interface Cut {
  /** By old range. */
  readonly map: Map<UOp, UOp>;
  /** Ranges that number the parts. */
  readonly parts: readonly UOp[];
  /** Ranges that are still reduced. */
  readonly rest: readonly UOp[];
  /** Ranges of which some iterations are beyond the end, and what holds for the others. */
  readonly ranges: readonly UOp[];
  readonly valid: UOp | undefined;
}

function cutRanges(
  ranges: readonly UOp[],
  want: number,
  fresh: (size: number, kind: AxisKind) => UOp,
): Cut | undefined {
  const map = new Map<UOp, UOp>(), parts: UOp[] = [], rest: UOp[] = [];
  let valid: UOp | undefined;
  const beyond: UOp[] = [];
  ranges.forEach((r, i) => {
    const n = sizeOf(r);
    if (want < 2 || (n < 2 && i < ranges.length - 1)) {
      rest.push(r);
      return;
    }
    if (i < ranges.length - 1 && (n <= want || divisorNear(n, want) === n)) {
      const p = fresh(n, AxisKind.LOOP);
      map.set(r, typed(p, r));
      parts.push(p);
      want = Math.max(1, Math.floor(want / n));
      return;
    }
    let k = divisorNear(n, want);
    if (k === n) k = 0;
    // else parts of a round size, the last of which is not full
    const chunk = k > 0 ? n / k : ceilDiv(ceilDiv(n, want), 64) * 64;
    if (k === 0) k = ceilDiv(n, chunk);
    want = 1;
    if (k < 2) {
      rest.push(r);
      return;
    }
    const p = fresh(k, AxisKind.LOOP), inner = fresh(chunk, AxisKind.REDUCE);
    const value = addIndex(mulIndex(p, chunk), inner);
    if (k * chunk > n) {
      valid = value.lt(n);
      beyond.push(p, inner);
    }
    map.set(r, typed(value, r));
    parts.push(p);
    rest.push(inner);
  });
  return parts.length === 0 || rest.length === 0 ? undefined : { map, parts, rest, ranges: beyond, valid };
}

/** Lifts that read nothing and add nothing where `valid` does not hold. */
function masked(carrier: CarrierArg, lifts: readonly UOp[], ranges: readonly UOp[], valid: UOp): UOp[] {
  const map = new Map<UOp, UOp>();
  for (const x of toposort(lifts)) {
    if (x.op !== Ops.INDEX || !ranges.some((r) => rangesOf(x).includes(r))) continue;
    map.set(x, index(x.src[0], x.src[1], x.src.length > 2 ? x.src[2].and(valid) : valid));
  }
  return lifts.map((x, i) => valid.where(substitute(x, map), identityConst(carrier, i, constant(0, x.dtype).dtype)));
}
