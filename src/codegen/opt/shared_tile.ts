/**
 * The STAGE opt on a grid: a tile of an input is copied to shared memory by all threads of a group together, once for each
 * iteration of the loops around; then each thread reads what it needs from there. What a thread or its neighbors read in
 * one iteration makes the tile: the ranges of threads, copies and unrolled reductions that the LOAD depends on.
 *
 * The tile lies in memory as the input does: the range with stride 1 first. So both sides of the copy are wide accesses, and
 * reads along that range are too. Rows are padded by 16 bytes, so that neighboring rows lie in other banks.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, RangeArg, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, load, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { indexForm, strideAlong } from "../../uop/algebra/linear_form.ts";
import { compareLoops, isThreadKind, kindOf } from "../ast/range_facts.ts";
import { renameFree } from "../ast/replace_ranges.ts";
import { type Opt, optText } from "./opt.ts";
import { loadsOfInput } from "./packed_tile.ts";

/** Bytes of an access, at most, and of the padding of a row. */
export const WIDE = 16;

/** True for ranges that are inside of a tile: threads, copies, unrolled iterations, elements of matrix units. */
function isInside(r: UOp): boolean {
  const kind = kindOf(r);
  return kind === AxisKind.LOCAL || kind === AxisKind.WARP || kind === AxisKind.UPCAST || kind === AxisKind.UNROLL ||
    kind === AxisKind.VECTOR;
}

/** Ranges of a tile in memory order, the fastest first, and the elements of a row. */
interface Tile {
  readonly ranges: readonly UOp[];
  readonly width: number;
}

/**
 * How far an index moves by each step along a range, from where all ranges start; Infinity where the steps differ. This is
 * no reading of its form: quotients and remainders of matrix units are computed.
 */
function stepOf(idx: UOp, r: UOp): number {
  const ranges = rangesOf(idx), n = sizeOf(r) - 1;
  const at = (i: number): number => {
    const u = simplifyKernel(renameFree(idx, new Map(ranges.map((x) => [x, constant(x === r ? i : 0, x.dtype)]))));
    return u.op === Ops.CONST ? u.value : NaN;
  };
  const from = at(0), step = at(1) - from;
  return at(n) - from === step * n ? step : Infinity;
}

/** The tile that the threads read of `l` at a time; undefined where there is none. */
function tileOf(l: UOp, onUnits: boolean): Tile | undefined {
  const ranges = rangesOf(l).filter(isInside);
  const isReduced = ranges.some((r) => kindOf(r) === AxisKind.UNROLL || kindOf(r) === AxisKind.VECTOR);
  if (!isReduced || ranges.some((r) => sizeOf(r) === 0)) return undefined;
  const idx = l.src[0].src[1], form = indexForm(idx);
  // matrix units read rows along the sum, also where its index has quotients
  const strides = new Map(ranges.map((r) => [r, strideAlong(form, r) || (onUnits ? stepOf(idx, r) : Infinity)]));
  const stride = (r: UOp): number => Math.abs(strides.get(r)!);
  const order = ranges.slice().sort((a, b) => stride(a) - stride(b) || compareLoops(b, a));
  let width = 1;
  for (const r of order) {
    if (stride(r) !== width) break;
    width *= sizeOf(r);
  }
  return { ranges: order, width: width === 1 ? sizeOf(order[0]) : width };
}

/** Keeps the tiles of the input in slot `opt.axis` in shared memory, `opt.arg` of them in a ring. @throws {ArgumentError} */
export function stageShared(ast: UOp, opt: Opt, threads: number, onUnits: boolean): UOp {
  const fail = (reason: string): never => {
    throw new ArgumentError(`apply ${optText(opt)}`, { reason });
  };
  const nodes = toposort(ast), next = freeIds(nodes);
  const map = new Map<UOp, UOp>();
  for (const l of loadsOfInput(nodes, opt.axis)) {
    const tile = tileOf(l, onUnits);
    if (tile === undefined) continue;
    const { dtype } = l.src[0].src[1];
    const size = prod(tile.ranges.map(sizeOf));
    let lanes = WIDE / l.dtype.itemsize;
    while (lanes > 1 && (tile.width % lanes !== 0 || size % (threads * lanes) !== 0)) lanes /= 2;
    if (size % (threads * lanes) !== 0) fail(`${threads} threads cannot fill ${size} elements alike`);
    // who fills which element
    const make = (n: number, kind: AxisKind): UOp =>
      uop(Ops.RANGE, dtype, [constant(n, dtype)], new RangeArg(next.range++, kind));
    const own: UOp[] = [];
    let flat: UOp = constant(0, dtype), stride = size;
    for (
      const [n, kind] of [[size / (threads * lanes), AxisKind.UPCAST], [threads, AxisKind.LOCAL], [
        lanes,
        AxisKind.UPCAST,
      ]] as const
    ) {
      stride /= n;
      if (n === 1) continue;
      const r = make(n, kind);
      own.push(r);
      flat = flat.add(stride === 1 ? r : r.mul(stride));
    }
    const renamed = new Map<UOp, UOp>();
    let at: UOp = constant(0, dtype), before = 1;
    const pad = WIDE / l.dtype.itemsize;
    for (const r of tile.ranges) {
      const n = sizeOf(r);
      const shifted = before === 1 ? flat : flat.floorDiv(before);
      const digit = before * n === size ? shifted : shifted.floorMod(n);
      renamed.set(r, r.dtype === dtype ? digit : digit.cast(r.dtype));
      const step = before < tile.width ? before : before / tile.width * (tile.width + pad);
      const x = r.dtype === dtype ? r : r.cast(dtype);
      at = at.add(step === 1 ? x : x.mul(step));
      before *= n;
    }
    const value = simplifyKernel(renameFree(l, renamed));
    // a ring is filled along one loop
    const loops = rangesOf(l).filter((r) => !isInside(r) && !isThreadKind(kindOf(r)));
    const ring = loops.length === 1 && sizeOf(loops[0]) > 0 ? Math.max(1, opt.arg) : 1;
    const arg = new StageArg(next.stage++, "shared", "padded", ring > 1 ? "cp.async" : "copy", ring, tile.width);
    map.set(l, load(index(uop(Ops.STAGE, l.dtype, [value, ...own], arg), at)));
  }
  if (map.size === 0) fail("no LOAD of that input can be kept");
  return substitute(ast, map);
}

/** Where element `flat` of a STAGE lies, with its padding. */
export function paddedIndex(arg: StageArg, itemsize: number, flat: UOp): UOp {
  if (arg.width === 0) return flat;
  return flat.add(flat.floorDiv(arg.width).mul(WIDE / itemsize));
}

/** Bytes of shared memory that `u` takes: 0 where it is no STAGE there. */
export function bytesOfStage(u: UOp): number {
  if (u.op !== Ops.STAGE || argOf(u, Ops.STAGE).scope !== "shared") return 0;
  const arg = argOf(u, Ops.STAGE), { itemsize } = u.dtype;
  return paddedSize(arg, itemsize, prod(u.src.slice(1).map(sizeOf))) * itemsize * arg.depth;
}

/** Elements of memory that `size` elements of a STAGE take. */
export function paddedSize(arg: StageArg, itemsize: number, size: number): number {
  return arg.width === 0 ? size : size / arg.width * (arg.width + WIDE / itemsize);
}
