/**
 * Replaces ranges in a kernel AST: by an expression where they are used, by any number of ranges where a REDUCE or STAGE
 * closes them.
 *
 * @module
 */
import { argOf } from "../../uop/core/args.ts";
import { carrierOf, getTuple } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { closingStart, rangesOf, renumbered } from "../../uop/core/ranges.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";

/** What a range becomes. */
export interface Replacement {
  readonly value: UOp;
  /** The ranges that stand for it, outermost first. */
  readonly ranges: readonly UOp[];
}

/** The AST with ranges replaced. Indices are not simplified. */
export function replaceRanges(ast: UOp, map: ReadonlyMap<UOp, Replacement>): UOp {
  return rebuildKernel(ast, (u, src) => {
    const to = map.get(u);
    if (to !== undefined) return [to.value];
    const start = closingStart(u);
    if (start < 0) return undefined;
    // the end of a range may depend on another one
    const ranges = u.src.slice(start).flatMap((r, i) => map.get(r)?.ranges ?? [src[start + i]]);
    if (u.op === Ops.REDUCE && ranges.length === 0) return src.slice(0, start);
    const made = uop(u.op, u.dtype, [...src.slice(0, start), ...ranges], u.arg);
    return u.op === Ops.REDUCE ? lanesOf(made) : [made];
  });
}

/** The value of each carrier lane of a REDUCE. */
export function lanesOf(reduce: UOp): UOp[] {
  return carrierOf(reduce).dtypes.map((_, i) => getTuple(reduce, i));
}

/**
 * A kernel AST built anew, sources first. `fn` gets a node and its new sources and gives what it becomes (for a REDUCE: the
 * value of each lane), or undefined to keep it.
 */
export function rebuildKernel(ast: UOp, fn: (u: UOp, src: readonly UOp[]) => readonly UOp[] | undefined): UOp {
  const tuples = new Map<UOp, readonly UOp[]>();
  return rebuild(ast, (u, src) => {
    if (u.op === Ops.GETTUPLE && tuples.has(u.src[0])) return tuples.get(u.src[0])![argOf(u, Ops.GETTUPLE)];
    const made = fn(u, src);
    if (made !== undefined && u.op === Ops.REDUCE && carrierOf(u).lanes > 1) tuples.set(u, made);
    return made?.[0];
  });
}

/** Adds to `map` loops by the next numbers for those of a nest, outermost first: where one ends may hang on others of `map`. */
export function renumberNest(nest: readonly UOp[], map: Map<UOp, UOp>, next: () => number): Map<UOp, UOp> {
  for (const r of nest) {
    const to = renumbered(r, next()), end = renameFree(r.src[0], map);
    map.set(r, end === r.src[0] ? to : to.withSrc([end]));
  }
  return map;
}

/** `u` with other ranges in place of those that are free in it; what closes a range of its own keeps it. */
export function renameFree(u: UOp, map: ReadonlyMap<UOp, UOp>): UOp {
  const keys = [...map.keys()];
  const inside = (x: UOp): boolean => {
    const free = rangesOf(x);
    return keys.some((k) => free.includes(k));
  };
  return rebuild(u, () => undefined, inside, new Map(map));
}
