/**
 * Tiles of a chain of products (chain_tiles.ts) that add nothing, because conditions hide all of their elements, are not
 * computed: the loop over them ends earlier. In: a kernel AST with the pieces of a chain. Out: where its loop ends for each
 * group. Where the tiles at the beginning are hidden, the loop runs from the last one down; where those at both ends are, from
 * the first that is not. Groups with the most tiles come first.
 *
 * A condition is a comparison that is linear in the middle axis; what is hidden is 0 of a sum, and -infinity of a maximum.
 * Numbers in memory count as finite: of infinite ones the hidden share would be no number.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { indexForm, type Linear, rangeOfFactor } from "../../uop/algebra/linear_form.ts";
import { chainAt, type ChainRanges, type Unit } from "../../uop/algebra/product_chain.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { ownRanges, sizeOf } from "../../uop/core/ranges.ts";
import { int, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { plus, times } from "../ast/alu_builder.ts";
import { kindOf } from "../ast/range_facts.ts";

/** What is known of a value. */
const FINITE = 0, ZERO = 1, NEGATIVE_INFINITY = 2;
type Known = typeof FINITE | typeof ZERO | typeof NEGATIVE_INFINITY;

/** Where a loop ends: an expression of the group. */
export interface Bound {
  readonly loop: UOp;
  readonly end: UOp;
}

/** What `value` is where a condition, of which `clause` is a part, does not hold. */
function hidden(value: UOp, clause: UOp): Known {
  const known = new Map<UOp, Known>();
  for (const u of toposort(value)) {
    const [a, b] = u.src, of = (x: UOp): Known => known.get(x) ?? FINITE;
    let k: Known = FINITE;
    switch (u.op) {
      case Ops.CONST:
        k = u.isConst(0) ? ZERO : u.isConst(-Infinity) ? NEGATIVE_INFINITY : FINITE;
        break;
      case Ops.WHERE:
        if (splitAnd(a).includes(clause)) k = of(u.src[2]);
        else if (isNot(clause) && clause.src[0] === a) k = of(b);
        else if (of(b) === of(u.src[2])) k = of(b);
        break;
      case Ops.CAST:
        k = of(a);
        break;
      case Ops.ADD:
        if (of(a) === of(b)) k = of(a);
        else if (of(a) === NEGATIVE_INFINITY || of(b) === NEGATIVE_INFINITY) k = NEGATIVE_INFINITY;
        break;
      case Ops.MUL:
        if (of(a) === ZERO || of(b) === ZERO) k = ZERO;
        else if (of(a) === NEGATIVE_INFINITY && b.op === Ops.CONST && b.value > 0) k = NEGATIVE_INFINITY;
        break;
      case Ops.FDIV:
        if (of(a) === ZERO) k = ZERO;
        break;
      case Ops.EXP2:
        if (of(a) === NEGATIVE_INFINITY) k = ZERO;
        break;
    }
    known.set(u, k);
  }
  return known.get(value)!;
}

/** What hides an element from a REDUCE: undefined where nothing is known of it. */
function identityOf(outer: UOp): Known | undefined {
  const { key } = carrierOf(outer);
  return key === "ADD" ? ZERO : key.startsWith("MAX") || key.startsWith("RESCALE") ? NEGATIVE_INFINITY : undefined;
}

/** The first iteration of a loop in which a condition may hold, or the end of them, by groups: along `growing` it grows. */
interface Limit {
  readonly isEnd: boolean;
  readonly at: UOp;
  readonly growing: readonly UOp[];
}

function isNot({ op, src }: UOp): boolean {
  return op === Ops.CMPNE && src[1].isConst(1);
}

/** The sum that is negative where `clause` holds: a - b of a < b, or of not (b - 1 < a). undefined for others. */
export function negativeWhere(clause: UOp): Readonly<Linear> | undefined {
  const isNegated = isNot(clause), less = isNegated ? clause.src[0] : clause;
  if (less.op !== Ops.CMPLT || !less.src[0].dtype.isInt) return undefined;
  const [a, b] = isNegated ? [less.src[1], less.src[0].add(1)] : less.src;
  return indexForm(a.add(b.mul(-1)));
}

/** The first iteration of `loop`, or the end, in which `clause` may hold for a thread of the group. */
function boundOf(clause: UOp, loop: UOp): Limit | undefined {
  const sum = negativeWhere(clause);
  if (sum === undefined) return undefined;
  const { factors, coefs, constant: offset } = sum;
  let step = 0, least = offset, rest: UOp | undefined;
  const rising: UOp[] = [], falling: UOp[] = [];
  for (let i = 0; i < factors.length; i++) {
    const r = rangeOfFactor(factors[i]), k = coefs[i];
    if (r === loop) step += k;
    else if (r === undefined && isOfVariables(factors[i])) rest = plus(rest, times(asInt(factors[i]), k));
    else if (r === undefined || sizeOf(r) === 0) return undefined;
    else if (kindOf(r) === AxisKind.GLOBAL) {
      (k > 0 ? rising : falling).push(r);
      rest = plus(rest, times(asInt(r), k));
    } else if (k < 0) least += k * (sizeOf(r) - 1);
  }
  if (step === 0) return undefined;
  // step * iteration + start < 0
  const start = plus(rest, int(least)), size = Math.abs(step);
  return step > 0
    ? { isEnd: true, at: start.mul(-1).add(size - 1).floorDiv(size), growing: falling }
    : { isEnd: false, at: start.floorDiv(size).add(1), growing: rising };
}

function asInt(u: UOp): UOp {
  return u.dtype === dtypes.int32 ? u : u.cast(dtypes.int32);
}

/** Is it the same in all of a kernel, and known before it runs? */
function isOfVariables(u: UOp): boolean {
  return u.dtype.bits <= 32 &&
    toposort(u).every(({ op }) => isAlu(op) || op === Ops.CAST || op === Ops.CONST || op === Ops.VARIABLE);
}

function least(x: UOp, n: number): UOp {
  return x.lt(n).where(x, int(n));
}

/** Of a choice, the clauses without which it has its other value; with `isOpen` also that without which it has its first. */
function clausesOf({ src: [condition] }: UOp, isOpen: boolean): UOp[] {
  const clauses = splitAnd(condition);
  return isOpen && clauses.length === 1 && !isNot(condition) ? [condition, condition.ne(1)] : clauses;
}

/** Where the loop of a chain ends; with the AST, in which its tiles may have another order. undefined where nothing is hidden. */
export function boundChain(ast: UOp, unit: Unit, ranges: ChainRanges): { ast: UOp; bound: Bound } | undefined {
  const { outer, values: [value] } = chainAt(toposort(ast), unit, ranges), { lanes } = carrierOf(outer);
  const identity = identityOf(outer);
  const loops = ownRanges(outer).filter((r) => r.op === Ops.RANGE && kindOf(r) === AxisKind.REDUCE && sizeOf(r) !== 1);
  if (loops.length !== 1) return undefined;
  const [loop] = loops, n = sizeOf(loop), limits: Limit[] = [];
  for (const c of new Set(toposort(value).flatMap((u) => u.op === Ops.WHERE ? clausesOf(u, n === 0) : []))) {
    const l = hidden(value, c) === identity ? boundOf(c, loop) : undefined;
    if (l !== undefined) limits.push(l);
  }
  if (limits.length === 0) return undefined;
  const ends = limits.filter((l) => l.isEnd), firsts = limits.filter((l) => !l.isEnd);
  const early = (end: UOp): { ast: UOp; bound: Bound } => {
    const back = new Map(ends.flatMap((l) => l.growing).map((r) => [r, r.mul(-1).add(sizeOf(r) - 1)]));
    return { ast: substitute(ast, back), bound: { loop, end: substitute(end, back) } };
  };
  if (n === 0) {
    // it begins at the beginning: where there is no iteration, none is done
    const count = asInt(loop.src[0]);
    const end = ends.reduce((e: UOp | undefined, { at }) => e === undefined ? at : at.lt(e).where(at, e), undefined);
    if (end === undefined) return undefined;
    const some = end.max(1);
    return early(some.lt(count).where(some, count));
  }
  const end = ends.reduce((e, { at }) => at.lt(e).where(at, e), int(n) as UOp);
  const first = firsts.reduce((f, { at }) => f.max(at), int(0) as UOp);
  const reordered = (at: UOp): UOp => {
    const to = at.dtype === loop.dtype ? at : at.cast(loop.dtype);
    const src = outer.src.map((s, i) => i < lanes ? substitute(s, new Map([[loop, to]])) : s);
    return substitute(ast, new Map([[outer, outer.withSrc(src)]]));
  };
  if (ends.length === 0) {
    return { ast: reordered(loop.mul(-1).add(n - 1)), bound: { loop, end: first.mul(-1).add(n).max(1) } };
  }
  if (firsts.length > 0) {
    // what is fetched ahead is there, used or not
    const from = least(first, n - 1);
    return { ast: reordered(least(from.add(loop), n - 1)), bound: { loop, end: end.add(from.mul(-1)).max(1) } };
  }
  return early(end.max(1));
}
