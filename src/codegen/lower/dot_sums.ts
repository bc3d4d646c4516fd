/**
 * Sums of products of 8-bit integers, four at a time: what devices have one instruction for (DOT). In and out: a kernel AST
 * with its opts applied, for loops.
 *
 * A REDUCE of a product of whole numbers, as integers or as floats that are exact, along a range over which the bytes of
 * both operands are neighbors in memory becomes one over a fourth of the range: operands are words of four bytes, and what
 * they are computed by (nibbles, bits, signs) is done to the four at once. A word is an ordinary value of 32 bits: lanes and
 * copies are those of the sum as it was.
 *
 * DOT takes unsigned bytes and signed ones. What is added to all bytes of an operand leaves the sum with a sum of the other
 * operand: of signed times signed bytes a - 128 is summed, and of u - z, for a zero point z, u.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { slopeOf } from "../../uop/algebra/linear_form.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, RangeArg } from "../../uop/core/args.ts";
import { carrierOf, opCarrier, reduce, RescaleCarrier } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { kindOf } from "../ast/range_facts.ts";
import { rebuildKernel } from "../ast/replace_ranges.ts";

/** Bytes of a word. */
const WORD = 4;
/** Whole numbers that float32 adds up exactly are smaller. */
const EXACT = 2 ** 24;

const { int32 } = dtypes;

/** Four bytes alike, as a word. */
function splat(byte: number): UOp {
  return constant(Math.imul(byte & 255, 0x01010101), int32);
}

/** Sums of offsets, folded: what is 0 is no sum of another operand. */
function plus(a: UOp, b: UOp): UOp {
  if (a.op === Ops.CONST && b.op === Ops.CONST) return constant((a.value + b.value) | 0, int32);
  return a.isConst(0) ? b : b.isConst(0) ? a : a.add(b);
}

/** An operand: the word of four of its values modulo 256, their bounds, and what is added to each behind that. */
interface Bytes {
  readonly word: UOp;
  readonly low: number;
  readonly high: number;
  /** int32; the same along all ranges that are summed over. */
  readonly offset: UOp;
}

/** Words of values along `along`, a range of four of which only the values depend on it. */
class Words {
  constructor(private readonly along: UOp) {}

  /** The word of the values of `u` modulo 256; undefined where that is no word of memory with bits changed. */
  of(u: UOp): UOp | undefined {
    if (!u.dtype.isInt) return undefined;
    if (u.op === Ops.CONST) return splat(u.value);
    if (!dependsOn(u, this.along)) return u.cast(int32).and(255).mul(0x01010101);
    const [x, y] = u.src;
    switch (u.op) {
      case Ops.LOAD:
        return this.load(u);
      case Ops.CAST:
      case Ops.BITCAST:
        return this.of(x);
      case Ops.AND:
        return y.op === Ops.CONST ? this.masked(x, y.value & 255) : this.both(u);
      case Ops.OR:
      case Ops.XOR:
        return this.both(u);
      case Ops.FLOORMOD:
        return exponent(y) === undefined ? undefined : this.masked(x, (y.value - 1) & 255);
      case Ops.SHL:
      case Ops.MUL: {
        const n = u.op === Ops.SHL && y.op === Ops.CONST ? y.value : u.op === Ops.MUL ? exponent(y) : undefined;
        if (n === undefined) return this.multiple(x, y);
        const word = n > 7 ? undefined : this.of(x);
        const made = word?.alu(Ops.SHL, constant(n!, int32)), isWithin = vmin(x) >= 0 && vmax(x) << n! <= 255;
        return isWithin ? made : made?.and(splat(255 << n!));
      }
      case Ops.SHR:
      case Ops.FLOORDIV:
        return this.masked(u, 255);
      case Ops.ADD:
        return vmin(x) >= 0 && vmin(y) >= 0 && vmax(x) + vmax(y) <= 255 ? this.both(u) : undefined;
      case Ops.WHERE: {
        if (dependsOn(x, this.along)) return undefined;
        const [a, b] = u.src.slice(1).map((s) => this.of(s));
        return a && b && x.where(a, b);
      }
    }
    return undefined;
  }

  /** A multiple of which each is a byte: nothing is carried. */
  private multiple(x: UOp, y: UOp): UOp | undefined {
    if (y.op !== Ops.CONST || y.value < 0 || vmin(x) < 0 || vmax(x) * y.value > 255) return undefined;
    return this.of(x)?.mul(y.value);
  }
  private both(u: UOp): UOp | undefined {
    const [a, b] = u.src.map((s) => this.of(s));
    return a && b && a.alu(u.op, b);
  }

  /** `mask` of the bits of `x`. What is shifted out of a byte goes where the mask is 0. */
  private masked(x: UOp, mask: number): UOp | undefined {
    const n = x.op === Ops.SHR ? x.src[1] : x.op === Ops.FLOORDIV ? quotientBits(x.src[1]) : undefined;
    if (n === undefined || dependsOn(n, this.along)) {
      return x.op === Ops.SHR || x.op === Ops.FLOORDIV ? undefined : this.of(x)?.and(splat(mask));
    }
    const [y] = x.src, most = vmax(n), kept = mask & (255 >> vmin(n));
    if (vmin(y) < 0 || vmax(y) > 255 || vmin(n) < 0 || most > 7 || (kept & ~(255 >> most)) !== 0) return undefined;
    return this.of(y)?.alu(Ops.SHR, n.dtype === int32 ? n : n.cast(int32)).and(splat(kept));
  }

  private load(u: UOp): UOp | undefined {
    const [at, alt] = u.src, [base, idx, gate] = at.src as readonly (UOp | undefined)[], { along } = this;
    if (base!.op !== Ops.PARAM || u.dtype.itemsize !== 1 || u.dtype.count !== 1) return undefined;
    if ((gate !== undefined && dependsOn(gate, along)) || (alt !== undefined && !alt.isConst(0))) return undefined;
    if (slopeOf(idx!, along, WORD, (x) => dependsOn(x, along)) !== 1) return undefined;
    const first = substitute(at, new Map([[along, constant(0, along.dtype)]]));
    return uop(Ops.LOAD, int32, alt === undefined ? [first] : [first, constant(0, int32)]);
  }
}

/** k of a constant 2^k. */
function exponent(u: UOp): number | undefined {
  const k = u.op === Ops.CONST && u.value > 0 ? Math.log2(u.value) : NaN;
  return Number.isInteger(k) ? k : undefined;
}
function quotientBits(divisor: UOp): UOp | undefined {
  const k = exponent(divisor);
  return k === undefined ? undefined : constant(k, int32);
}

/** `u` without what is the same along all of `own` and added to it. */
function withoutOffset(u: UOp, own: readonly UOp[]): { value: UOp; offset: UOp } {
  if (u.op === Ops.ADD && u.dtype === int32) {
    for (const [x, c] of [u.src, u.src.toReversed()]) {
      if (own.some((r) => dependsOn(c, r))) continue;
      const { value, offset } = withoutOffset(x, own);
      return { value, offset: plus(offset, c) };
    }
  }
  if (u.op === Ops.CAST && u.dtype === int32 && u.src[0].dtype === int32) return withoutOffset(u.src[0], own);
  return { value: u, offset: constant(0, int32) };
}

/** The whole number that a factor is; undefined where it is none. */
function wholeOf(u: UOp): UOp | undefined {
  if (u.dtype === int32) return u;
  return u.op === Ops.CAST && u.dtype === dtypes.float32 && u.src[0].dtype.isInt ? u.src[0] : undefined;
}

/** A REDUCE that becomes one of DOTs: its factors, as whole numbers (one of them alone is a sum of values). */
interface Sum {
  readonly factors: readonly UOp[];
  readonly own: readonly UOp[];
}

/** The sum of products that a REDUCE is, if integers of 32 bits hold it as exactly as its dtype does. */
function sumOf(u: UOp): Sum | undefined {
  if (u.op !== Ops.REDUCE) return undefined;
  const carrier = carrierOf(u), [lift] = u.src, own = u.src.slice(1).filter((r) => r.op === Ops.RANGE);
  if (carrier instanceof RescaleCarrier || carrier.key !== "ADD") return undefined;
  const isFloat = u.dtype === dtypes.float32;
  if (!isFloat && u.dtype !== int32) return undefined;
  const factors = (lift.op === Ops.MUL ? lift.src : [lift]).map(wholeOf);
  if (factors.some((f) => f === undefined)) return undefined;
  if (isFloat) {
    const most = factors.map((f) => Math.max(-vmin(f!), vmax(f!)));
    if (!(prod(most) * prod(own.map((r) => sizeOf(r) || Infinity)) < EXACT)) return undefined;
  }
  return { factors: factors as UOp[], own };
}

/** A range in words, and a range that counts the bytes of a word. */
interface Cut {
  readonly range: UOp;
  /** undefined where a word is all of it. */
  readonly words: UOp | undefined;
  readonly along: UOp;
  readonly value: UOp;
}

function cutOf(range: UOp, id: number): Cut | undefined {
  const kind = kindOf(range), n = range.src[0].op === Ops.CONST ? sizeOf(range) : 0, { dtype } = range;
  if ((kind !== AxisKind.REDUCE && kind !== AxisKind.UNROLL) || n === 0 || n % WORD !== 0) return undefined;
  const arg = argOf(range, Ops.RANGE);
  const along = uop(Ops.RANGE, dtype, [constant(WORD, dtype)], new RangeArg(id, AxisKind.UNROLL));
  if (n === WORD) return { range, words: undefined, along, value: along };
  const words = uop(Ops.RANGE, dtype, [constant(n / WORD, dtype)], arg);
  return { range, words, along, value: words.mul(WORD).add(along) };
}

/** The operand that a factor is. */
function bytesOf(factor: UOp, { range, along, value }: Cut, own: readonly UOp[]): Bytes | undefined {
  const { value: core, offset } = withoutOffset(factor, own);
  const at = simplifyKernel(substitute(core, new Map([[range, value]])));
  if (!dependsOn(at, along)) return undefined;
  const word = new Words(along).of(at), [low, high] = [vmin(core), vmax(core)];
  return word === undefined || low < -128 || high > 255 ? undefined : { word, low, high, offset };
}

/** The same values as unsigned bytes, or as signed ones; undefined where they are of neither kind. */
function asBytes(x: Bytes, isSigned: boolean): Bytes | undefined {
  const [low, high] = isSigned ? [-128, 127] : [0, 255];
  if (x.low >= low && x.high <= high) return x;
  // flipped, the highest bit is 128 more of a signed byte, and 128 less of an unsigned one
  const [least, most] = isSigned ? [0, 255] : [-128, 127];
  if (x.low < least || x.high > most) return undefined;
  const flipped = x.word.alu(Ops.XOR, splat(128));
  return { word: flipped, low, high, offset: plus(x.offset, constant(isSigned ? 128 : -128, int32)) };
}

/** Copies and lanes of a value. */
function copiesOf(u: UOp): number {
  const isCopy = (r: UOp): boolean => kindOf(r) === AxisKind.UPCAST || kindOf(r) === AxisKind.VECTOR;
  return prod(rangesOf(u).map((r) => isCopy(r) ? sizeOf(r) : 1));
}

/** What the sums cost that have to be added for what is left out of DOTs: those of what has fewer copies are cheap. */
function extras(a: Bytes, b: Bytes): number {
  return [[a, b], [b, a]].reduce((n, [x, y]) => x.offset.isConst(0) ? n : n + copiesOf(y.word), 0);
}

/** The REDUCE in DOTs; undefined where it has no bytes side by side. */
function dotted(u: UOp, { factors, own }: Sum, id: number): UOp | undefined {
  // the innermost first: there bytes are mostly neighbors
  for (const range of own.toReversed()) {
    const cut = cutOf(range, id), bytes = cut && factors.map((f) => bytesOf(f, cut, own));
    if (cut === undefined || bytes!.some((x) => x === undefined)) continue;
    const one: Bytes = { word: splat(1), low: 1, high: 1, offset: constant(0, int32) };
    const [x, y = one] = bytes as Bytes[];
    let best: readonly [Bytes, Bytes] | undefined;
    for (const [p, q] of [[x, y], [y, x]]) {
      const a = asBytes(p, false), b = asBytes(q, true);
      if (a !== undefined && b !== undefined && (best === undefined || extras(a, b) < extras(...best))) best = [a, b];
    }
    if (best === undefined) continue;
    const [a, b] = best, ranges = own.flatMap((r) => r !== range ? [r] : cut.words === undefined ? [] : [cut.words]);
    const sum = (p: UOp, q: UOp): UOp => {
      const lift = uop(Ops.DOT, int32, [p, q, constant(0, int32)]);
      return ranges.length === 0 ? lift : reduce(opCarrier(Ops.ADD, int32), [lift], ranges);
    };
    const count = prod(own.map(sizeOf));
    const made = [
      sum(a.word, b.word),
      ...(a.offset.isConst(0) ? [] : [a.offset.mul(sum(splat(1), b.word))]),
      ...(b.offset.isConst(0) ? [] : [b.offset.mul(sum(a.word, splat(1)))]),
      ...(a.offset.isConst(0) || b.offset.isConst(0) ? [] : [a.offset.mul(b.offset).mul(count)]),
    ].reduce((p, q) => p.add(q));
    return u.dtype === int32 ? made : made.cast(u.dtype);
  }
  return undefined;
}

/** A kernel AST in which sums of products of bytes are sums of DOTs. */
export function dotSums(ast: UOp): UOp {
  if (!mayHave(ast, Ops.REDUCE)) return ast;
  const nodes = toposort(ast), made = new Map<UOp, UOp>(), id = freeIds(nodes).range;
  for (const u of nodes) {
    const sum = sumOf(u), dots = sum && dotted(u, sum, id);
    if (dots !== undefined) made.set(u, dots);
  }
  if (made.size === 0) return ast;
  return rebuildKernel(ast, (u, src) => {
    const to = made.get(u);
    if (to === undefined || src.some((s, i) => s !== u.src[i])) return undefined;
    note("passed", u, "products of bytes are added four at a time");
    return [to];
  });
}
