/**
 * The opt STAGE: a tile of an input is copied into memory of the kernel, once for each iteration of the loops around it, and
 * read from there. What a thread, or the threads of a group together, read of the input in one iteration makes the tile.
 *
 * On loops that is packing: the tile lies in the order in which it is read, loops first, lanes last, so that strided reads
 * become contiguous, and pages and cache sets are touched once a tile instead of once a use.
 *
 * On a grid all threads of a group fill a tile in shared memory. It lies as the input does, the range with stride 1 first:
 * both sides of the copy are wide accesses, and reads along that range are too. Rows are padded by 16 bytes, so that
 * neighboring rows lie in other banks, or swizzled where matrix units find the tile by themselves. In a ring of buffers,
 * tiles are fetched ahead.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { indexForm, slopeOf, strideAlong } from "../../uop/algebra/linear_form.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { SHARED_ALIGN, sharedItemOf } from "../../renderer/lanes.ts";
import type { CopyEngine, GridCaps } from "../../renderer/renderer.ts";
import {
  type SharedTile,
  SWIZZLED_PIECE,
  SWIZZLED_ROW,
  SWIZZLED_ROWS,
  type TensorCore,
} from "../../renderer/tensor_core_table.ts";
import { argOf, AxisKind, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, iterationsOf, ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, load, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { plus, times } from "../ast/alu_builder.ts";
import { compareLoops, isThreadKind, kindOf } from "../ast/range_facts.ts";
import { renameFree, type Replacement, replaceRanges } from "../ast/replace_ranges.ts";
import { optText, type StageOpt } from "./opt.ts";

/** Bytes of an access, at most, and of the padding of a row. */
export const WIDE = 16;
/** Elements that a tile may have at most, on loops. */
const MAX_TILE = 1 << 20;

/** What fills tiles on a grid. */
interface Group {
  readonly threads: number;
  /** The matrix unit that reads them. */
  readonly core: TensorCore | undefined;
  /** What brings boxes to memory that it reads. */
  readonly engine?: CopyEngine;
}

/** A tile of what a LOAD reads. */
interface Tile {
  /** Its ranges, how far apart their iterations lie in memory, and of how many of them: then all of the tile follow first. */
  readonly steps: readonly (readonly [range: UOp, step: number, run?: number])[];
  /** The ranges of the copy, outermost first, and what the tile's ranges are in it. */
  readonly own: readonly UOp[];
  readonly renamed: ReadonlyMap<UOp, UOp>;
  readonly arg: StageArg;
}

type NextIds = ReturnType<typeof freeIds>;
type Fail = (reason: string) => never;

/** Order of the ranges of a tile in memory: loops, then copies, lanes last. */
function layoutRank(r: UOp): number {
  const kind = kindOf(r);
  return kind === AxisKind.VECTOR ? 3 : kind === AxisKind.UPCAST ? 2 : kind === AxisKind.UNROLL ? 1 : 0;
}

/** The tile of `l` inside of the loops `outer`, for one thread; undefined where none can be. */
function packedTile(l: UOp, outer: readonly UOp[], next: NextIds): Tile | undefined {
  const inner = rangesOf(l).filter((r) => !outer.includes(r));
  const isReduced = inner.some((r) => kindOf(r) === AxisKind.REDUCE || kindOf(r) === AxisKind.UNROLL);
  if (!isReduced || inner.some((r) => sizeOf(r) === 0) || prod(inner.map(sizeOf)) > MAX_TILE) return undefined;
  inner.sort((a, b) => layoutRank(a) - layoutRank(b) || compareLoops(a, b));
  const renamed = new Map(inner.map((r) => {
    const kind = kindOf(r) === AxisKind.VECTOR && copiesLanes(l, r) ? AxisKind.VECTOR : AxisKind.LOOP;
    return [r, range(r.src[0], next.range++, kind)];
  }));
  let step = prod(inner.map(sizeOf));
  const steps = inner.map((r) => [r, step /= sizeOf(r)] as const);
  return { steps, own: [...renamed.values()], renamed, arg: new StageArg(next.stage++, "thread") };
}

/** Can the copy itself use the lanes: are they contiguous in the input? */
function copiesLanes(l: UOp, lane: UOp): boolean {
  const depends = (u: UOp): boolean => rangesOf(u).includes(lane);
  if (l.src.length > 1 && depends(l.src[1])) return false;
  return slopeOf(l.src[0].src[1], lane, sizeOf(lane), depends) === 1;
}

/** True for ranges that are inside of a group's tile: threads, copies, unrolled iterations. */
function isInside(r: UOp): boolean {
  const kind = kindOf(r);
  return kind === AxisKind.LOCAL || kind === AxisKind.UPCAST || kind === AxisKind.UNROLL;
}

/** How far an index moves by each step along a range, from where all ranges start; Infinity where the steps differ. */
function stepOf(idx: UOp, r: UOp): number {
  const n = sizeOf(r) - 1, from = indexAt(idx, r, 0), step = indexAt(idx, r, 1) - from;
  return indexAt(idx, r, n) - from === step * n ? step : Infinity;
}

/** An index where range `r` is at `i` and all others are at their start; NaN where that is not known. */
export function indexAt(idx: UOp, r: UOp, i: number): number {
  const at = new Map(rangesOf(idx).map((x) => [x, constant(x === r ? i : 0, x.dtype)]));
  const u = simplifyKernel(renameFree(idx, at));
  return u.op === Ops.CONST ? u.value : NaN;
}

/** Is `l` read in one loop, with no other around it? Along that a ring is filled, once. */
function hasOneLoop(l: UOp, nodes: readonly UOp[]): boolean {
  const loopsOf = (ranges: readonly UOp[]): UOp[] => ranges.filter((r) => !isInside(r) && !isThreadKind(kindOf(r)));
  const loops = loopsOf(rangesOf(l));
  if (loops.length !== 1) return false;
  return nodes.every((u) => {
    const own = u.op === Ops.REDUCE || u.op === Ops.STAGE ? ownRanges(u) : [];
    return !own.includes(loops[0]) || loopsOf([...own, ...rangesOf(u)]).every((r) => r === loops[0]);
  });
}

/** Orders the pieces of a tile's axes as units that read shared memory do: those of the first one's axis, inner ones first. */
function byAxis(inner: UOp[]): void {
  const { id } = argOf(inner[0], Ops.RANGE);
  const isFar = (r: UOp): number => argOf(r, Ops.RANGE).id === id ? 0 : 1;
  inner.sort((a, b) => isFar(a) - isFar(b) || argOf(a, Ops.RANGE).sub - argOf(b, Ops.RANGE).sub);
}

/** The tile that the threads of a group read of `l` at a time; undefined where there is none. */
function sharedTile(
  l: UOp,
  ring: number,
  { threads, core }: Group,
  nodes: readonly UOp[],
  next: NextIds,
  fail: Fail,
): Tile | undefined {
  const inner = rangesOf(l).filter(isInside);
  if (!inner.some((r) => kindOf(r) === AxisKind.UNROLL) || inner.some((r) => sizeOf(r) === 0)) return undefined;
  const idx = l.src[0].src[1], form = indexForm(idx), onUnits = core !== undefined, { itemsize } = l.dtype;
  // matrix units read rows along the sum, also where its index has quotients
  const strides = new Map(inner.map((r) => [r, strideAlong(form, r) || (onUnits ? stepOf(idx, r) : Infinity)]));
  const stride = (r: UOp): number => Math.abs(strides.get(r)!);
  inner.sort((a, b) => stride(a) - stride(b) || compareLoops(b, a));
  const isSwizzled = core?.shared !== undefined;
  if (isSwizzled) byAxis(inner);
  let width = 1;
  for (const r of inner) {
    // matrix units read eight rows at a time, each in other banks
    if (stride(r) !== width || (onUnits && argOf(r, Ops.RANGE).id !== argOf(inner[0], Ops.RANGE).id)) break;
    width *= sizeOf(r);
  }
  if (width === 1) width = sizeOf(inner[0]);
  const size = prod(inner.map(sizeOf)), pad = WIDE / itemsize;
  const row = SWIZZLED_ROW / itemsize, rows = size / width;
  if (isSwizzled && (width % row !== 0 || rows % SWIZZLED_ROWS !== 0)) {
    fail(`${rows} rows of ${width} elements are no swizzled rows of ${SWIZZLED_ROW} bytes`);
  }
  let lanes = pad;
  while (lanes > 1 && (width % lanes !== 0 || size % (threads * lanes) !== 0)) lanes /= 2;
  const each = size / (threads * lanes);
  if (!Number.isInteger(each)) fail(`${threads} threads cannot fill ${size} elements alike`);
  // who fills which element
  const { dtype } = idx, own: UOp[] = [], renamed = new Map<UOp, UOp>();
  let flat: UOp = constant(0, dtype), left = size;
  for (const [n, kind] of [[each, AxisKind.UPCAST], [threads, AxisKind.LOCAL], [lanes, AxisKind.UPCAST]] as const) {
    left /= n;
    if (n === 1) continue;
    const r = range(constant(n, dtype), next.range++, kind);
    own.push(r);
    flat = plus(flat, times(r, left));
  }
  let before = 1;
  const steps = inner.map((r): readonly [UOp, number, number?] => {
    const n = sizeOf(r), shifted = before === 1 ? flat : flat.floorDiv(before);
    const digit = before * n === size ? shifted : shifted.floorMod(n), from = before;
    renamed.set(r, r.dtype === dtype ? digit : digit.cast(r.dtype));
    before *= n;
    if (!isSwizzled) return [r, from < width ? from : from / width * (width + pad)];
    if (from >= width) return [r, from / width * row];
    // a row of the tile goes on in the next block
    return from >= row ? [r, from * rows] : [r, from, before > row ? row / from : undefined];
  });
  const depth = ring > 1 && hasOneLoop(l, nodes) ? ring : 1;
  return { steps, own, renamed, arg: new StageArg(next.stage++, "shared", width, depth, isSwizzled) };
}

/** The LOADs of the input in a slot. */
function loadsOfInput(nodes: readonly UOp[], slot: number): UOp[] {
  return nodes.filter((l) => {
    if (l.op !== Ops.LOAD || l.src[0].op !== Ops.INDEX) return false;
    const base = l.src[0].src[0];
    return base.op === Ops.PARAM && argOf(base, Ops.PARAM).slot === slot;
  });
}

/** Keeps tiles of an input: for each thread, or with `group` for a group of them. @throws {ArgumentError} */
export function stage(ast: UOp, opt: StageOpt, group?: Group): UOp {
  const fail: Fail = (reason) => {
    throw new ArgumentError(`apply ${optText(opt)}`, { reason });
  };
  const { ring = 1 } = opt, nodes = toposort(ast), next = freeIds(nodes), map = new Map<UOp, UOp>();
  if (group !== undefined && opt.loops !== undefined) fail("the threads of a group fill it inside of all loops");
  if (group === undefined && ring > 1) fail("a loop fills one tile at a time");
  const loops = nodes.filter((u) => u.op === Ops.RANGE && layoutRank(u) === 0).sort(compareLoops);
  for (const l of loadsOfInput(nodes, opt.input)) {
    const tile = group === undefined
      ? packedTile(l, loops.slice(0, opt.loops), next)
      : sharedTile(l, ring, group, nodes, next, fail);
    if (tile === undefined) continue;
    const { steps, own, renamed, arg } = tile, { dtype } = group === undefined ? steps[0][0] : l.src[0].src[1];
    let at: UOp | undefined;
    for (const [r, step, run] of steps) {
      const x = r.dtype === dtype ? r : r.cast(dtype);
      if (run === undefined) at = plus(at, times(x, step));
      else {
        const block = blockOf(arg, prod(own.map(sizeOf)), l.dtype);
        at = plus(plus(at, times(x.floorDiv(run), block)), times(x.floorMod(run), step));
      }
    }
    const mayCopy = opt.boxes === true && arg.isSwizzled && arg.depth > 1;
    const box = mayCopy
      ? group?.engine?.boxOf(l, steps.map(([r]) => r), arg.width, SWIZZLED_ROW / l.dtype.itemsize)
      : undefined;
    const value = box ?? simplifyKernel(renameFree(l, renamed));
    map.set(l, load(index(uop(Ops.STAGE, l.dtype, [value, ...own], arg), at!)));
  }
  return map.size === 0 ? fail("no LOAD of that input can be kept") : substitute(ast, map);
}

/** Elements of a STAGE, at most. */
function elementsOf(u: UOp): number {
  return prod(u.src.slice(1).map((r) => vmax(r.src[0])));
}

/** Elements of one buffer of a STAGE, with what is not used behind its rows. */
export function bufferSizeOf(u: UOp): number {
  const { width, isSwizzled } = argOf(u, Ops.STAGE), size = elementsOf(u);
  return width === 0 || isSwizzled ? size : size / width * (width + WIDE / u.dtype.itemsize);
}

/** Elements of a block of swizzled rows, in a tile of `size`. */
function blockOf({ width }: StageArg, size: number, { itemsize }: DType): number {
  return size / width * SWIZZLED_ROW / itemsize;
}

/** How a unit finds the tile that `u`, a swizzled STAGE, keeps; `isAlong` as in {@linkcode SharedTile}. */
export function sharedTileOf(u: UOp, isAlong: boolean): SharedTile {
  return { isAlong, block: blockOf(argOf(u, Ops.STAGE), elementsOf(u), u.dtype) * u.dtype.itemsize };
}

/** Where in a buffer of STAGE `u` its element `flat` lies. */
export function placeIn(u: UOp, flat: UOp): UOp {
  const arg = argOf(u, Ops.STAGE), { width } = arg;
  if (width === 0) return flat;
  const y = flat.floorDiv(width), { itemsize } = u.dtype, piece = SWIZZLED_PIECE / itemsize;
  if (!arg.isSwizzled) return simplifyKernel(flat.add(y.mul(WIDE / itemsize)));
  const row = SWIZZLED_ROW / itemsize, x = flat.floorMod(width), inRow = x.floorMod(row);
  const turned = inRow.floorDiv(piece).xor(y.floorMod(SWIZZLED_ROWS)).mul(piece).add(inRow.floorMod(piece));
  return simplifyKernel(x.floorDiv(row).mul(blockOf(arg, elementsOf(u), u.dtype)).add(y.mul(row)).add(turned));
}

/** Bytes of shared memory of `grid` that `u` takes: 0 where it is no STAGE there. */
export function sharedBytesOfStage(u: UOp, grid?: Pick<GridCaps, "sharedItem">): number {
  if (u.op !== Ops.STAGE || argOf(u, Ops.STAGE).scope !== "shared") return 0;
  const { depth } = argOf(u, Ops.STAGE), barriers = isOfBoxes(u) ? SHARED_ALIGN : 0;
  return bufferSizeOf(u) * sharedItemOf(u.dtype, grid) * depth + barriers;
}

/** Does a copy engine bring the tiles of STAGE `u`? */
export function isOfBoxes(u: UOp): boolean {
  return u.src[0].op === Ops.ASYNC_BOX;
}

/**
 * The AST with one loop for each REDUCE that had several, whose indices are its quotients and remainders: who fills a ring
 * ahead needs to know what comes next.
 */
export function oneLoop(ast: UOp): UOp {
  const map = new Map<UOp, Replacement>();
  const loopsOf = (u: UOp): UOp[] =>
    u.src.filter((r) => r.op === Ops.RANGE && kindOf(r) === AxisKind.REDUCE).sort(compareLoops);
  const lists = toposort(ast).filter((u) => u.op === Ops.REDUCE).map(loopsOf);
  for (const loops of lists) {
    if (loops.length < 2 || loops.some((r) => map.has(r) || sizeOf(r) === 0)) continue;
    // another reduction with some of the loops keeps them
    if (
      lists.some((l) =>
        loops.some((r) => l.includes(r)) && (l.length !== loops.length || loops.some((r, i) => l[i] !== r))
      )
    ) continue;
    const [{ dtype, arg }] = loops;
    const count = iterationsOf(loops);
    if (count > 2 ** 31 - 1) continue;
    const all = uop(Ops.RANGE, dtype, [constant(count, dtype)], arg);
    let left = count;
    loops.forEach((r, i) => {
      const shifted = (left /= sizeOf(r)) === 1 ? all : all.floorDiv(left);
      const digit = i === 0 ? shifted : shifted.floorMod(sizeOf(r));
      map.set(r, { value: digit.dtype === r.dtype ? digit : digit.cast(r.dtype), ranges: i === 0 ? [all] : [] });
    });
  }
  return map.size === 0 ? ast : simplifyKernel(replaceRanges(ast, map));
}
