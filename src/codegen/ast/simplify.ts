/**
 * Simplifies a kernel AST before it is optimized: algebra and gates; each loop nest gets ranges of its own; ranges that
 * are only used by quotient and remainder are split; adjacent ranges that every index runs through as one are merged.
 *
 * @module
 */
import { hasPhases } from "../../uop/algebra/row_phases.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { closedRangesOf, dependsOn, freeIds, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { indexForm, type Linear, rangeOfFactor, strideAlong } from "../../uop/algebra/linear_form.ts";
import { descend } from "../../uop/rewrite/walk.ts";
import { cutLongRanges } from "./long_ranges.ts";
import { compareLoops } from "./range_facts.ts";
import { lanesOf, rebuildKernel, renameFree, renumberNest, type Replacement, replaceRanges } from "./replace_ranges.ts";

/** All ranges of an AST in loop order. */
function rangesIn(ast: UOp): UOp[] {
  return toposort(ast).filter((u) => u.op === Ops.RANGE).sort(compareLoops);
}

function withId(r: UOp, id: number, size?: number): UOp {
  const { kind } = argOf(r, Ops.RANGE);
  return range(size === undefined ? r.src[0] : constant(size, r.dtype), id, kind);
}

/**
 * Gives every loop nest its own ranges: REDUCEs that share a range but depend on different loops (or on each other), and
 * STOREs that would nest a shared loop in different ways, get copies.
 */
export function separateNests(ast: UOp): UOp {
  let nextId = freeIds(rangesIn(ast)).range;
  const apart = (nest: readonly UOp[]): Map<UOp, UOp> => renumberNest(nest, new Map(), () => nextId++);
  /** By reduce range: the loops around it where it was first met, those that reduce with it included. */
  const around = new Map<UOp, readonly UOp[]>();
  ast = rebuildKernel(ast, (u, src) => {
    if (u.op !== Ops.REDUCE) return undefined;
    const n = carrierOf(u).lanes;
    const now = u.withSrc(src), own = now.src.slice(n), outer = rangesOf(now);
    const outside = (r: UOp) => [...outer, ...own.slice(0, own.indexOf(r))]; // the loops of a REDUCE nest as it lists them
    const below = new Set<UOp>();
    for (let i = 0; i < n; i++) for (const r of closedRangesOf(src[i])) below.add(r);
    const clash = own.some((r) => {
      const first = around.get(r);
      return below.has(r) || (first !== undefined && !sameList(first, outside(r)));
    });
    if (!clash) {
      for (const r of own) around.set(r, outside(r));
      return lanesOf(now);
    }
    const map = apart(own);
    const lifts = src.slice(0, n).map((s) => renameFree(s, map));
    return lanesOf(now.withSrc([...lifts, ...own.map((r) => map.get(r)!)]));
  });
  const prefix = new Map<UOp, string>();
  const stores = ast.src.map((s) => {
    const chain = rangesOf(s).slice().sort(compareLoops);
    const key = (i: number): string => chain.slice(0, i).map((r) => argOf(r, Ops.RANGE).toString()).join();
    if (chain.every((r, i) => (prefix.get(r) ?? key(i)) === key(i))) {
      chain.forEach((r, i) => prefix.set(r, key(i)));
      return s;
    }
    return renameFree(s, apart(chain));
  });
  return ast.withSrc(stores);
}

function sameList(a: readonly UOp[], b: readonly UOp[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

/** Splits ranges r that are used as r // c and r % c, where c divides their size: both become ranges. */
function splitRanges(ast: UOp): UOp {
  for (let round = 0; round < 6; round++) {
    const divisors = new Map<UOp, number>();
    for (const u of toposort(ast)) {
      if (u.op !== Ops.FLOORMOD && u.op !== Ops.FLOORDIV) continue;
      const [r, c] = u.src;
      if (r.op !== Ops.RANGE || c.op !== Ops.CONST || argOf(r, Ops.RANGE).kind === AxisKind.THREAD) continue;
      const n = sizeOf(r), k = c.value;
      if (n === 0 || k < 2 || n <= k || n % k !== 0) continue;
      divisors.set(r, Math.min(divisors.get(r) ?? k, k));
    }
    if (divisors.size === 0) return ast;
    const map = new Map<UOp, Replacement>();
    let id = 0;
    for (const r of rangesIn(ast)) {
      const k = divisors.get(r);
      if (k === undefined) {
        const to = withId(r, id++);
        map.set(r, { value: to, ranges: [to] });
      } else {
        const a = withId(r, id++, sizeOf(r) / k), b = withId(r, id++, k);
        map.set(r, { value: a.mul(k).add(b), ranges: [a, b] });
      }
    }
    ast = simplifyKernel(replaceRanges(ast, map));
  }
  return ast;
}

/** Merges neighbors: ranges i, j of sizes m, n that every index uses as (i * n + j) become one of size m * n. */
function mergeRanges(ast: UOp): UOp {
  const forms = new Map<UOp, Readonly<Linear>>();
  const fixed = new Set<UOp>(); // ranges used as values, or in terms that are no multiple of them
  const neighbors = new Map<UOp, UOp | null>(); // by reduce range: the one before it in every REDUCE
  descend([ast], (u) => {
    if (u.op === Ops.RANGE) {
      fixed.add(u);
      return [];
    }
    if (u.op === Ops.INDEX) {
      const form = indexForm(u.src[1]);
      forms.set(u, form);
      // what a position is computed of has loops too: of reduces, and of rows that are kept
      return [u.src[0], ...form.factors.filter((x) => rangeOfFactor(x) === undefined), ...u.src.slice(2)];
    }
    let n = u.src.length;
    if (u.op === Ops.REDUCE) {
      n = carrierOf(u).lanes;
      for (let i = n; i < u.src.length; i++) {
        const r = u.src[i], before = i > n ? u.src[i - 1] : null;
        if (neighbors.has(r) && neighbors.get(r) !== before) neighbors.set(r, null);
        else neighbors.set(r, before);
      }
    } else if (u.op === Ops.STAGE) { for (const r of u.src.slice(1)) fixed.add(r); }
    return u.src.slice(0, n);
  });
  // a range must stand in the same REDUCEs as the one before it
  const followers = new Map<UOp, number>();
  for (const before of neighbors.values()) if (before !== null) followers.set(before, (followers.get(before) ?? 0) + 1);
  const all = rangesIn(ast);
  for (const f of forms.values()) {
    for (const x of f.factors) {
      if (rangeOfFactor(x) === undefined) { for (const r of all) if (dependsOn(x, r)) fixed.add(r); }
    }
  }
  const list = [...forms.values()];
  const mergeable = (i: UOp, j: UOp): boolean => {
    if (fixed.has(i) || fixed.has(j) || i.dtype !== j.dtype || sizeOf(i) === 0 || sizeOf(j) === 0) return false;
    const a = argOf(i, Ops.RANGE), b = argOf(j, Ops.RANGE);
    if (a.kind !== b.kind || (a.kind !== AxisKind.LOOP && a.kind !== AxisKind.REDUCE)) return false;
    if (a.kind === AxisKind.REDUCE && (neighbors.get(j) !== i || (followers.get(i) ?? 0) > 1)) return false;
    if (sizeOf(i) * sizeOf(j) > 2 ** 31 - 1) return false;
    return list.every((f) => strideAlong(f, i) === strideAlong(f, j) * sizeOf(j));
  };
  const outputs = new Set<UOp>();
  for (const s of ast.src) for (const r of rangesOf(s)) outputs.add(r);
  // output loops must also be in the same STOREs
  const together = (i: UOp, j: UOp): boolean =>
    outputs.has(i) === outputs.has(j) && ast.src.every((s) => dependsOn(s, i) === dependsOn(s, j));
  const map = new Map<UOp, Replacement>();
  let id = 0, merged = false;
  for (let k = 0; k < all.length;) {
    let size = sizeOf(all[k]), end = k + 1;
    while (end < all.length && mergeable(all[end - 1], all[end]) && together(all[end - 1], all[end])) {
      if (size * sizeOf(all[end]) > 2 ** 31 - 1) break;
      size *= sizeOf(all[end++]);
    }
    const last = all[end - 1];
    const to = withId(last, id++, end > k + 1 ? size : undefined);
    merged ||= end > k + 1;
    for (let i = k; i < end - 1; i++) map.set(all[i], { value: constant(0, last.dtype), ranges: [] });
    map.set(last, { value: to, ranges: [to] });
    k = end;
  }
  return merged ? simplifyKernel(replaceRanges(ast, map)) : ast;
}

/** Simplifies the ranges of a kernel AST and all that depends on them. */
export function simplifyRanges(ast: UOp): UOp {
  const split = splitRanges(separateNests(simplifyKernel(ast))), short = cutLongRanges(split);
  const made = short === split ? split : simplifyKernel(short);
  // the threads of a phase are shared out over its own ranges
  return hasPhases(made) ? made : mergeRanges(made);
}
