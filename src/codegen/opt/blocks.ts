/**
 * Axes in whole blocks and a rest. In: a kernel AST and one of its ranges. Out: the AST where that range ends at a multiple
 * of the block, so that opts can split the block, and what follows is computed by a loop of its own; and that range.
 *
 * The rest of a reduction is reduced apart and combined; what is stored has STOREs of its own for the rest. Threads of a
 * grid go on behind the end instead, where they touch no memory and add nothing ({@linkcode maskRange}). A row that a kernel
 * keeps is filled to the end of its last block, for which there is memory: what is behind its end is read by nobody.
 *
 * @module
 */
import { vmax } from "../../uop/algebra/bounds.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, RangeArg } from "../../uop/core/args.ts";
import { carrierOf, identityConst, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds } from "../../uop/core/ranges.ts";
import { constant, index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { lanesOf, rebuildKernel } from "../ast/replace_ranges.ts";
import { separateNests } from "../ast/simplify.ts";

/** An AST in which an axis is cut, and the range of its blocks. */
export interface Cut {
  readonly ast: UOp;
  readonly head: UOp;
}

/** The ranges of the first `main` iterations of a range, and of the `rest` that follow. */
function halves(ast: UOp, range: UOp, main: UOp, rest: UOp): [head: UOp, tail: UOp] {
  const { id, kind, sub } = argOf(range, Ops.RANGE);
  const part = (end: UOp, arg: RangeArg): UOp => uop(Ops.RANGE, range.dtype, [end], arg);
  return [part(main, new RangeArg(id, kind, sub)), part(rest, new RangeArg(freeIds(toposort(ast)).range, kind, 0))];
}

/** Cuts a reduce range at `main` of its iterations; the `rest` that follow become a reduction of their own, combined after. */
export function cutReduce(ast: UOp, range: UOp, main: UOp, rest: UOp): Cut {
  const [head, tail] = halves(ast, range, main, rest), shifted = tail.add(main);
  const made = rebuildKernel(ast, (u, src) => {
    if (u.op !== Ops.REDUCE || !u.src.includes(range)) return undefined;
    const carrier = carrierOf(u), n = carrier.lanes;
    const parts = [[head, head], [tail, shifted]].map(([r, value]) => {
      const lifts = src.slice(0, n).map((s) => substitute(s, new Map([[range, value]])));
      return lanesOf(reduce(carrier, lifts, src.slice(n).map((s) => s === range ? r : s)));
    });
    return carrier.combine(parts[0], parts[1]);
  });
  return { ast: separateNests(made), head };
}

/** The whole blocks of `k` iterations of a range that ends at a variable. */
export function blocksOf(range: UOp, k: number): UOp {
  return simplify(range.src[0].floorDiv(k));
}

/** The iterations of a range that ends at a variable: those in its whole blocks of `k`, and the rest. */
function wholeAndRest(range: UOp, k: number): [main: UOp, rest: UOp] {
  return [simplify(blocksOf(range, k).mul(k)), simplify(range.src[0].floorMod(k))];
}

/** Cuts a reduce range that ends at a variable after its last whole block of `k`. */
export function blockReduce(ast: UOp, range: UOp, k: number): Cut {
  return cutReduce(ast, range, ...wholeAndRest(range, k));
}

/** Are there STAGEs inside of a range? */
export function stagesIn(ast: UOp, range: UOp): boolean {
  return toposort(ast).some((u) => u.op === Ops.STAGE && dependsOn(u, range));
}

/** Cuts a range of STOREs that ends at a variable after its last whole block of `k`; `rest` is the range of what follows. */
export function blockStores(ast: UOp, range: UOp, k: number): Cut & { readonly rest: UOp } {
  const [main, left] = wholeAndRest(range, k), [head, rest] = halves(ast, range, main, left);
  const cut = ast.src.filter((s) => dependsOn(s, range)), others = ast.src.filter((s) => !dependsOn(s, range));
  const both = [head, rest.add(main)].flatMap((i) => cut.map((s) => substitute(s, new Map([[range, i]]))));
  return { ast: separateNests(ast.withSrc([...others, ...both])), head, rest };
}

/** May a STAGE compute elements behind its end? Not where what it loads says where it loads from. */
function mayOverfill(ast: UOp, range: UOp): boolean {
  return toposort(ast).every((u) => {
    if (u.op !== Ops.INDEX || !dependsOn(u, range)) return true;
    return u.src.slice(1).every((place) => toposort(place).every((x) => x.op !== Ops.LOAD));
  });
}

/** Rounds a range of a STAGE that ends at a variable up to blocks of `k`; undefined where that would leave its memory. */
export function blockStage(ast: UOp, range: UOp, k: number): Cut | undefined {
  const end = range.src[0];
  if (vmax(end) % k !== 0 || argOf(range, Ops.RANGE).kind !== AxisKind.LOOP || !mayOverfill(ast, range)) {
    return undefined;
  }
  const up = simplify(end.add(k - 1).floorDiv(k).mul(k));
  const head = uop(Ops.RANGE, range.dtype, [up], range.arg);
  return { ast: simplifyKernel(rebuildKernel(ast, (u) => u === range ? [head] : undefined)), head };
}

/** Is `lift` the identity where what it loads along `range` is 0? */
function isWithoutLoads(lift: UOp, range: UOp, identity: UOp): boolean {
  const zeros = new Map<UOp, UOp>();
  for (const u of toposort(lift)) {
    if (u.op === Ops.LOAD && u.src.length === 1 && dependsOn(u.src[0], range)) zeros.set(u, constant(0, u.dtype));
  }
  return zeros.size > 0 && simplify(substitute(lift, zeros)) === identity;
}

/** A range with the iterations of another end, `size` of them: those that are added touch no memory and add nothing. */
export function maskRange(ast: UOp, range: UOp, size: UOp): Cut {
  const head = uop(Ops.RANGE, range.dtype, [size], range.arg), valid = head.lt(range.src[0]);
  const masked = rebuildKernel(ast, (u, src) => {
    if (u === range) return [head];
    if (u.op === Ops.INDEX && dependsOn(u, range)) {
      return [index(src[0], src[1], src.length > 2 ? src[2].and(valid) : valid)];
    }
    if (u.op !== Ops.REDUCE || !u.src.includes(range)) return undefined;
    const carrier = carrierOf(u);
    const lifts = src.slice(0, carrier.lanes).map((x, i) => {
      const identity = identityConst(carrier, i);
      return isWithoutLoads(x, head, identity) ? x : valid.where(x, identity);
    });
    return lanesOf(reduce(carrier, lifts, src.slice(carrier.lanes)));
  });
  return { ast: masked, head };
}
