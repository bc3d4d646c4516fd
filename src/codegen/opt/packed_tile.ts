/**
 * The STAGE opt: a tile of an input is copied into kernel memory once for each iteration of the outer loops, in the order
 * in which the inner loops read it. On a CPU that is packing: strided reads become contiguous, pages and cache sets are
 * touched once a tile instead of once a use.
 *
 * Legality is one function, {@linkcode stageable}: a LOAD of the input inside a REDUCE, whose inner ranges have constant
 * sizes. Its gate and alternative go into the copy.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, RangeArg, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, rangesOf } from "../../uop/core/ranges.ts";
import { constant, index, load, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { slopeOf } from "../../uop/algebra/linear_form.ts";
import { compareLoops } from "../ast/range_facts.ts";
import { renameFree } from "../ast/replace_ranges.ts";
import { type Opt, optText } from "./opt.ts";

/** Elements that a tile may have at most. */
const MAX_TILE = 1 << 20;

/** Order of the axes of a tile in memory: loops, then copies, lanes last. */
function layoutRank(r: UOp): number {
  const { kind } = argOf(r, Ops.RANGE);
  return kind === AxisKind.VECTOR ? 3 : kind === AxisKind.UPCAST ? 2 : kind === AxisKind.UNROLL ? 1 : 0;
}

function isReduceLike(r: UOp): boolean {
  const { kind } = argOf(r, Ops.RANGE);
  return kind === AxisKind.REDUCE || kind === AxisKind.UNROLL;
}

/** The ranges of the tile of `l` that is kept inside of the loops `outer`, in its layout; undefined where none can be. */
export function stageable(l: UOp, outer: readonly UOp[]): UOp[] | undefined {
  if (l.op !== Ops.LOAD || l.src[0].op !== Ops.INDEX || l.src[0].src[0].op !== Ops.PARAM) return undefined;
  const inner = rangesOf(l).filter((r) => !outer.includes(r));
  if (!inner.some(isReduceLike) || inner.some((r) => r.src[0].op !== Ops.CONST)) return undefined;
  if (prod(inner.map((r) => r.src[0].value)) > MAX_TILE) return undefined;
  return inner.sort((a, b) => layoutRank(a) - layoutRank(b) || compareLoops(a, b));
}

/** The LOADs of the input in a slot. */
export function loadsOfInput(nodes: readonly UOp[], slot: number): UOp[] {
  return nodes.filter((l) => {
    if (l.op !== Ops.LOAD || l.src[0].op !== Ops.INDEX) return false;
    const base = l.src[0].src[0];
    return base.op === Ops.PARAM && argOf(base, Ops.PARAM).slot === slot;
  });
}

/** Keeps tiles of the input in slot `opt.axis` inside the outermost `opt.arg` loops. @throws {ArgumentError} */
export function stageInput(ast: UOp, opt: Opt): UOp {
  const nodes = toposort(ast);
  const loops = new Set<UOp>();
  for (const s of ast.src) for (const r of rangesOf(s)) if (layoutRank(r) === 0) loops.add(r);
  const outer = [...loops].sort(compareLoops).slice(0, opt.arg);
  const next = freeIds(nodes);
  const map = new Map<UOp, UOp>();
  for (const l of loadsOfInput(nodes, opt.axis)) {
    const inner = stageable(l, outer);
    if (inner === undefined) continue;
    const renamed = new Map<UOp, UOp>();
    let flat: UOp | undefined, stride = prod(inner.map((r) => r.src[0].value));
    for (const r of inner) {
      const { kind } = argOf(r, Ops.RANGE);
      const lanes = kind === AxisKind.VECTOR && copiesLanes(l, r);
      renamed.set(r, uop(Ops.RANGE, r.dtype, r.src, new RangeArg(next.range++, lanes ? kind : AxisKind.LOOP)));
      stride /= r.src[0].value;
      const term = stride === 1 ? r : r.mul(constant(stride, r.dtype));
      flat = flat === undefined ? term : flat.add(term);
    }
    const value = simplifyKernel(renameFree(l, renamed));
    const tile = uop(Ops.STAGE, l.dtype, [value, ...renamed.values()], new StageArg(next.stage++, "thread", "packed"));
    map.set(l, load(index(tile, flat!)));
  }
  if (map.size === 0) {
    throw new ArgumentError(`apply ${optText(opt)}`, { reason: "no LOAD of that input can be kept" });
  }
  return substitute(ast, map);
}

/** Can the copy itself use the lanes: are they contiguous in the input? */
function copiesLanes(l: UOp, lane: UOp): boolean {
  const at = l.src[0];
  const depends = (u: UOp): boolean => rangesOf(u).includes(lane);
  if (l.src.length > 1 && depends(l.src[1])) return false;
  return slopeOf(at.src[1], lane, lane.src[0].value, depends) === 1;
}
