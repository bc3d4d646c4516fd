/**
 * Sums of whole numbers times a scale: a sum over blocks and their elements of s(b) * q(b, k) * x(b, k) becomes the sum over
 * blocks of s(b) times the sum over k of q * x, and what is added to the numbers of a block leaves its sum likewise:
 * x * (s * q + o) is s times a sum of x * q and o times one of x, which rows of results share. What is the same in a block is
 * added once, times the number of its elements. In and out: a kernel AST with
 * its opts applied, for loops.
 *
 * A REDUCE becomes a REDUCE of REDUCEs: inside, the loops and copies that the scale does not depend on; outside, the others
 * and the lanes, which meet once. Only for products with whole numbers of few bits: what is
 * left without its scale is hardly larger, and no sum overflows that would not have.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { boundsOf } from "../../uop/algebra/bounds.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { carrierOf, reduce, RescaleCarrier } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { compareLoops, kindOf } from "../ast/range_facts.ts";
import { rebuildKernel } from "../ast/replace_ranges.ts";

/** Whole numbers of so many bits, at most. */
const BITS = 16;
/** Scales of blocks within blocks, at most. */
const LEVELS = 4;
/** Summands that a product is cut into, at most. */
const MOST_TERMS = 2;

/** A summand: factors that stand before the sum inside, and factors that it adds products of. */
interface Term {
  readonly outer: readonly UOp[];
  readonly inner: readonly UOp[];
}

/** Whole numbers, as floats. */
function isWhole(u: UOp): boolean {
  if (u.op !== Ops.CAST || !u.src[0].dtype.isInt) return false;
  const [low, high] = boundsOf(u.src[0]);
  return low >= -(2 ** BITS) && high <= 2 ** BITS;
}

/** `u` as a sum of products of factors that are the same along `inside`, and others. */
function termsOf(u: UOp, inside: readonly UOp[]): readonly Term[] {
  if (!rangesOf(u).some((r) => inside.includes(r))) return [{ outer: [u], inner: [] }];
  const whole = [{ outer: [], inner: [u] }];
  if (u.op !== Ops.MUL && u.op !== Ops.ADD) return whole;
  const [a, b] = u.src.map((s) => termsOf(s, inside));
  const terms = u.op === Ops.ADD
    ? [...a, ...b]
    : a.flatMap((x) => b.map((y) => ({ outer: [...x.outer, ...y.outer], inner: [...x.inner, ...y.inner] })));
  return terms.length <= MOST_TERMS && (u.op === Ops.MUL || terms.some((t) => t.outer.length > 0)) ? terms : whole;
}

function copiesOf(ranges: readonly UOp[]): number {
  return prod(ranges.map((r) => r.src[0].op === Ops.CONST ? sizeOf(r) : Infinity));
}
function upcastsOf(u: UOp): readonly UOp[] {
  return rangesOf(u).filter((r) => kindOf(r) === AxisKind.UPCAST);
}

/** Those of which there are fewest copies and lanes first: their product is computed least often. */
function byCopies(factors: readonly UOp[]): readonly UOp[] {
  const isCopy = (r: UOp): boolean => kindOf(r) === AxisKind.UPCAST || kindOf(r) === AxisKind.VECTOR;
  const copies = (u: UOp): number => u.op === Ops.CONST ? 0 : copiesOf(rangesOf(u).filter(isCopy));
  return factors.toSorted((a, b) => copies(a) - copies(b));
}

function product(factors: readonly UOp[]): UOp {
  return factors.reduce((a, b) => a.mul(b));
}

/** How a sum is cut. */
interface Plan {
  readonly inside: readonly UOp[];
  readonly terms: readonly Term[];
}

/** Products below `u` that are computed again along `inside`, for each copy of `lift`: the sums beside them cost nothing. */
function productsIn(u: UOp, inside: readonly UOp[], lift: UOp): number {
  if ((u.op !== Ops.MUL && u.op !== Ops.ADD) || !rangesOf(u).some((r) => inside.includes(r))) return 0;
  const below = u.src.reduce((n, s) => n + productsIn(s, inside, lift), 0);
  return below + (u.op === Ops.MUL ? copiesOf(upcastsOf(u)) / copiesOf(upcastsOf(lift)) : 0);
}

/** The same for what a plan computes; a sum without a product is as much as one. */
function workOf(lift: UOp, { inside, terms }: Plan): number {
  const each = terms.map(({ inner }) => {
    if (inner.length === 0) return 0;
    const x = product(inner), n = inner.length > 1 ? 0 : copiesOf(upcastsOf(x)) / copiesOf(upcastsOf(lift));
    return n + productsIn(x, inside, lift) + 1 / copiesOf(inside);
  });
  return each.reduce((a, b) => a + b);
}

/** The best plan for a REDUCE; undefined where it stays. */
function planOf(u: UOp): Plan | undefined {
  const carrier = carrierOf(u), [lift] = u.src;
  if (
    carrier instanceof RescaleCarrier || carrier.key !== "ADD" || !u.dtype.isFloat ||
    (lift.op !== Ops.MUL && lift.op !== Ops.ADD)
  ) {
    return undefined;
  }
  const own = u.src.slice(1), isKind = (kind: AxisKind) => (r: UOp) => r.op === Ops.RANGE && kindOf(r) === kind;
  const loops = own.filter(isKind(AxisKind.REDUCE)).sort(compareLoops), copies = own.filter(isKind(AxisKind.UNROLL));
  let best: Plan | undefined, most = 0;
  // a scale may be one of some copies
  const parts = loops.map((_, from) => [...loops.slice(from), ...copies]).toReversed(),
    some = copies.length < 2 ? [] : copies.map((c) => copies.filter((r) => r !== c));
  for (const inside of [copies, ...parts, ...some]) {
    const terms = termsOf(lift, inside), plan = { inside, terms };
    if (!Number.isFinite(copiesOf(inside)) || !terms.every((t) => t.outer.length > 0)) continue;
    const isSame = terms.every((t) => t.inner.length === 0), added = isSame ? 1 - 1 / copiesOf(inside) : 0;
    const saved = productsIn(lift, inside, lift) + added - workOf(lift, plan);
    const isExact = isSame || terms.some((t) => [...t.inner, ...t.outer].some(isWhole));
    if (saved > most && isExact) [best, most] = [plan, saved];
  }
  return best;
}

/** The sum of sums that a plan says. */
function factored(u: UOp, { inside, terms }: Plan): UOp {
  const carrier = carrierOf(u);
  const count = copiesOf(inside);
  const sums = terms.map(({ outer, inner }) =>
    inner.length === 0
      ? product(byCopies([u.constLike(count), ...outer]))
      : product(byCopies(outer)).mul(reduce(carrier, [product(inner)], inside))
  );
  const outside = u.src.slice(1).filter((r) => !inside.includes(r));
  return reduce(carrier, [sums.reduce((a, b) => a.add(b))], outside);
}

/** A kernel AST in which scales stand before the sums of their blocks, and those of blocks of blocks before their sums. */
export function factorSums(ast: UOp): UOp {
  if (!mayHave(ast, Ops.REDUCE) || !mayHave(ast, Ops.CAST)) return ast;
  let made = ast;
  for (let i = 0, before; i < LEVELS && made !== before; i++) made = once(before = made);
  return made;
}

function once(ast: UOp): UOp {
  const nodes = toposort(ast), plans = new Map<UOp, Plan>();
  for (const u of nodes) {
    const plan = u.op === Ops.REDUCE ? planOf(u) : undefined;
    if (plan !== undefined) plans.set(u, plan);
  }
  if (plans.size === 0) return ast;
  return rebuildKernel(ast, (u, src) => {
    const plan = plans.get(u);
    if (plan === undefined || src.some((s, i) => s !== u.src[i])) return undefined;
    note("passed", u, "the scale of a block stands before the sum of the block");
    return [factored(u, plan)];
  });
}
