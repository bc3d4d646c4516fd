/**
 * Symmetric and Hermitian matrices that need not be positive definite, as L D Lᵀ: factored by pivots of size 1 and 2 (Bunch
 * and Kaufman, 1977), in LAPACK's form (sytrf and hetrf, of the lower triangle), and solved by it. With PyTorch's names.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, uop } from "../../uop/core/uop.ts";
import { checkTensor, internals, TensorBase } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { step } from "../math/decompositions.ts";
import type { SystemTensor } from "../math/systems.ts";
import type { SpecialTensor } from "../ops/special.ts";
import { constantAxes } from "../handle/dims.ts";

/** Options of {@linkcode SymmetricTensor.ldlFactor}. */
export interface LdlOptions {
  /** Whether complex matrices are Hermitian, not symmetric. Default false. */
  readonly hermitian?: boolean;
}

/** What a pivot may be smaller than its column by: least growth of two steps of size 1, or one of size 2. */
const ALPHA = (1 + Math.sqrt(17)) / 8;

/** In memory of its own. */
function held<T extends SymmetricTensor>(t: T): T {
  return internals.wrap(t, uop(Ops.CONTIGUOUS, t.dtype, [t.uop]));
}
/** Sizes as LAPACK compares them: of complex numbers the sum of both parts. */
function sizes<T extends SymmetricTensor>(t: T): T {
  return t.dtype.isComplex ? t.real().abs().add(t.imag().abs()) : t.abs();
}
/** Places along an axis, from the end, of matrices like these. */
function places<T extends SymmetricTensor>(t: T, axis: -1 | -2): T {
  const n = t.shape.length;
  return internals.wrap(t, iotaAlong(t.shape[n + axis], n + axis, n));
}
/** The other half of what is symmetric, or Hermitian. */
function turned<T extends SymmetricTensor>(t: T, hermitian: boolean): T {
  const other = t.transpose(-1, -2) as T;
  return hermitian && t.dtype.isComplex ? other.conj() : other;
}
/** Rows with two of them exchanged. */
function exchanged<T extends SymmetricTensor>(t: T, a: T, b: T): T {
  const rows = places(t, -2), from = rows.eq(a).where(b, rows.eq(b).where(a, rows)) as T;
  return t.gather(-2, from.expand(t.shape).cast(dtypes.int32));
}
/** Of complex numbers on the diagonal of Hermitian matrices the real part counts. */
function real<T extends SymmetricTensor>(t: T, hermitian: boolean): T {
  return t.dtype.isComplex && hermitian ? t.real().cast(t.dtype) as T : t;
}
/** Columns x and y over matrices `[[a, conj(b)], [b, c]]`, from the right; by parts of the size of b, for range. */
function overPair<T extends SymmetricTensor>(
  [x, y]: readonly [T, T],
  [a, b, c]: readonly [T, T, T],
  hermitian: boolean,
): [T, T] {
  const size = b.abs(), s = size.eq(0).where(1, size).cast(b.dtype) as T;
  const [p, q, r] = [a, b, c].map((t) => t.div(s)) as [T, T, T], back = hermitian && b.dtype.isComplex ? q.conj() : q;
  const whole = p.mul(r).sub(q.mul(back)).mul(s);
  return [x.mul(r).sub(y.mul(q)).div(whole) as T, y.mul(p).sub(x.mul(back)).div(whole) as T];
}

/** The families that it is written in. */
export interface SymmetricTensor extends SpecialTensor, SystemTensor {}
/** Tensors with the factors of symmetric matrices. */
export abstract class SymmetricTensor extends TensorBase {
  /** Square matrices of floats, and the option. @throws {ShapeError} {ArgumentError} */
  private symmetric(action: string, options: LdlOptions): [a: this, hermitian: boolean] {
    const { hermitian = false } = checkOptions(action, options, ["hermitian"]), shape = this.shape;
    checkBoolean(action, "hermitian", hermitian);
    if (shape.length < 2 || shape.at(-1) !== shape.at(-2)) {
      throw new ShapeError(action, { shapes: [shape], reason: "it takes square matrices, in the last two axes" });
    }
    constantAxes(action, this.uop, 2);
    return [this.cast(promote(floatOf(this.dtype), dtypes.float32)), hermitian];
  }

  /**
   * Symmetric matrices `[..., n, n]` (complex ones with `hermitian`: Hermitian) as P L D Lᵀ Pᵀ: L, whose diagonal is 1, and D
   * of blocks of size 1 and 2 in one triangle, and `pivots` `[..., n]` (int32): for {@linkcode SymmetricTensor.ldlSolve}. Only
   * the lower triangle is looked at. As LAPACK and PyTorch have them: a positive pivot k says that its row was exchanged
   * for row k, counted from 1, two equal negative ones, -k, that the second row of their block was.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const [LD, pivots] = new Tensor([[0, 2], [2, 0]]).ldlFactor();
   * console.log(await pivots.tolist()); // [-2, -2]
   * console.log(await LD.ldlSolve(pivots, new Tensor([[4], [6]])).tolist()); // [[3], [2]]
   * ```
   *
   * @throws {ShapeError} unless they are square
   */
  ldlFactor(options: LdlOptions = {}): [LD: this, pivots: this] {
    const [given, hermitian] = this.symmetric("ldlFactor", options),
      n = given.shape.at(-1)!,
      lead = given.shape.slice(0, -2);
    const half = given.tril(-1);
    let w = held(half.add(turned(half, hermitian)).add(real(given.tril().triu() as this, hermitian)) as this);
    const r = places(w, -2), c = places(w, -1), int = (x: this): this => x.cast(dtypes.int32);
    const nought = this.wrap(constant(0, dtypes.int32)), zero = nought.expand([...lead, 1, 1]) as this;
    let pivots = nought.expand([...lead, 1, n]) as this, isSecond = zero.eq(1) as this;
    const column = (x: this, k: this): this => x.at("...", k).unsqueeze(-1) as this;
    const cell = (x: this, i: this, j: this): this =>
      r.eq(i).logicalAnd(c.eq(j)).where(x, x.constLike(0)).sum([-1, -2], { keepdim: true }) as this;
    for (let i = 0; i < n; i++) {
      const k = this.wrap(step(i, n)), next = k.add(1).minimum(n - 1) as this;
      // which pivot, and of which size
      const below = r.gt(k).where(sizes(column(w, k)), 0) as this, most = below.max(-2, { keepdim: true });
      const row = int(below.argmax(-2, { keepdim: true }).maximum(k) as this),
        own = sizes(real(cell(w, k, k), hermitian));
      const others = r.eq(row).logicalAnd(c.ne(row)).logicalAnd(c.ge(k)).where(sizes(w), 0).max([-1, -2], {
        keepdim: true,
      }) as this;
      const isOwn = own.ge(most.mul(ALPHA)).logicalOr(most.eq(0))
        .logicalOr(own.mul(others).ge(most.mul(most).mul(ALPHA)));
      const isOther = sizes(real(cell(w, row, row), hermitian)).ge(others.mul(ALPHA));
      const isFirst = isSecond.logicalNot(),
        isPair = held(isOwn.logicalOr(isOther).logicalNot().logicalAnd(isFirst) as this);
      const to = isPair.where(next, k).expand(zero.shape) as this;
      const from = held(isFirst.where(isOwn.where(k.add(zero), row), to) as this);
      const live = r.ge(k).logicalAnd(c.ge(k)) as this;
      const moved = exchanged(w, to, from).transpose(-1, -2) as this;
      w = held(live.where(exchanged(moved, to, from).transpose(-1, -2), w) as this);
      const here = c.eq(k).logicalAnd(isFirst).logicalOr(c.eq(next).logicalAnd(isPair));
      pivots = held(here.where(isPair.where(from.add(1).neg(), from.add(1)), pivots) as this);
      // columns of L, and what is left
      const a = real(cell(w, k, k), hermitian), d = real(cell(w, next, next), hermitian);
      const block = ([a, cell(w, next, k), d] as const).map((t, i) => isPair.where(t, i === 1 ? 0 : 1));
      const x = column(w, k), y = column(w, next), isZero = a.eq(0);
      const lone = isZero.where(x.mul(0), x.div(isZero.where(1, a) as this)) as this;
      const [u, v] = overPair<this>([x, y], block as [this, this, this], hermitian);
      const [over, across] = [turned(x, hermitian), turned(y, hermitian)];
      const pairUp = u.dot(over).add(v.dot(across)), loneUp = lone.dot(over);
      const tail = (k: this): this => r.gt(k).logicalAnd(c.gt(k)) as this;
      const change = isPair.where(tail(next).where(pairUp, 0), tail(k).logicalAnd(isFirst).where(loneUp, 0)) as this;
      const left = isPair.where(
        r.gt(next).logicalAnd(c.eq(k)).where(u, r.gt(next).logicalAnd(c.eq(next)).where(v, w)),
        r.gt(k).logicalAnd(c.eq(k)).logicalAnd(isFirst).where(lone, w),
      ) as this;
      w = held(left.sub(change) as this);
      isSecond = isPair;
    }
    return [w.tril().cast(floatOf(this.dtype)), pivots.squeeze(-2)];
  }

  /**
   * `X` with A X = b, by what `A.ldlFactor()` gives: this and `pivots`; `b` is `[..., n, k]`, and `hermitian` what it was there.
   *
   * @throws {ShapeError} where they do not fit @throws {ArgumentError} for pivots that are no whole numbers
   */
  ldlSolve(pivots: this, b: this, options: LdlOptions = {}): this {
    const action = "ldlSolve", [ld, hermitian] = this.symmetric(action, options), n = ld.shape.at(-1)!;
    checkTensor(action, "pivots", pivots), checkTensor(action, "b", b);
    if (!sameArray(pivots.shape, ld.shape.slice(0, -1)) || b.ndim < 2 || b.shape.at(-2) !== n) {
      throw new ShapeError(action, {
        shapes: [this.shape, pivots.shape, b.shape],
        reason: `they take the forms [..., n, n], [..., n] and [..., n, k], with n ${n}`,
      });
    }
    if (!pivots.dtype.isInt) {
      throw new ArgumentError(action, {
        reason: `pivots are whole numbers, as ldlFactor gives them, not ${pivots.dtype}`,
      });
    }
    const d = promote(ld.dtype, b.dtype), lead = broadcastShape(action, [ld.shape.slice(0, -2), b.shape.slice(0, -2)]);
    let l = ld.cast(d).expand([...lead, n, n]) as this;
    const x = b.cast(d).expand([...lead, n, b.shape.at(-1)!]) as this;
    const p = pivots.cast(dtypes.int32).expand([...lead, n]) as this, isPart = p.lt(0);
    // negative ones come in pairs
    const isFirst = isPart.logicalAnd(isPart.cast(dtypes.int32).cumsum(-1).bitwiseAnd(1).eq(1));
    const first = held(isFirst.unsqueeze(-1) as this), r = places(l, -2), c = places(l, -1);
    const rows = this.wrap(iotaAlong(n, lead.length, lead.length + 2)).cast(dtypes.int32);
    let order = rows.expand([...lead, n, 1]) as this;
    for (let i = 0; i < n; i++) {
      const k = this.wrap(step(i, n)), pick = (t: this): this => t.at("...", k).unsqueeze(-1).unsqueeze(-1) as this;
      const at = pick(p), isPair = pick(isFirst as this), isLater = at.lt(0).logicalAnd(isPair.logicalNot());
      const own = isPair.where(k.add(1), k) as this, to = isLater.where(own, at.abs().sub(1)) as this; // 2nd rows stay
      // what was found before moves with the rows
      l = held(c.lt(k).where(exchanged(l, own, to), l) as this);
      order = held(exchanged(order, own, to));
    }
    const next = (t: this): this => t.pad([0, 0, 0, 1]).at("...", [1, n + 1], ":") as this;
    const own = real(l.diagonal({ dim1: -2, dim2: -1 }).unsqueeze(-1) as this, hermitian);
    const under = n === 0
      ? own
      : l.diagonal({ offset: -1, dim1: -2, dim2: -1 }).unsqueeze(-1).pad([0, 0, 0, 1]) as this;
    const block = ([own, under, next(own)] as const).map((t, i) => first.where(t, i === 1 ? 0 : 1)) as [
      this,
      this,
      this,
    ];
    const isBlock = r.eq(c.add(1)).logicalAnd(first.transpose(-1, -2));
    const unit = r.eq(c).where(1, isBlock.where(0, l.tril(-1))) as this;
    const y = held(unit.solveTriangular(x.gather(-2, order.expand(x.shape)) as this, { upper: false }));
    const back = turned(block[1], hermitian).transpose(-1, -2) as this;
    const [up, down] = overPair<this>([y, next(y)], [block[0], back, block[2]], hermitian);
    const second = down.pad([0, 0, 1, 0]).at("...", [0, n], ":"), part = isPart.unsqueeze(-1);
    const z = first.where(up, part.where(second, y.div(part.where(1, own) as this))) as this;
    const found = turned(unit, hermitian).solveTriangular(held(z), { upper: true });
    // back to where the rows were
    const place = order.argsort(-2) as this;
    return found.gather(-2, place.expand(found.shape));
  }
}
