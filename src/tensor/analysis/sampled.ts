/**
 * Sequences of samples: convolution, interpolation between given points, powers of points. All are made of what tensors
 * have besides; promotion is that of elementwise.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkChoice, checkCount, checkNumber, checkOptions } from "../../helpers/options.ts";
import { resolveAxis } from "../handle/axes.ts";
import { type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import type { ScanTensor } from "../index/scan.ts";
import type { NormTensor } from "../math/norms.ts";
import type { ProductTensor } from "../math/products.ts";
import { constantAxis } from "../handle/dims.ts";

/** Options of {@linkcode SampledTensor.convolve} and {@linkcode SampledTensor.correlate}. */
export interface ShiftOptions {
  /** All shifts, as many as the longer one has elements, or those at which the shorter one lies within it. */
  readonly mode?: "full" | "same" | "valid";
}
type ShiftMode = NonNullable<ShiftOptions["mode"]>;

/** Options of {@linkcode SampledTensor.interp}. */
export interface InterpOptions {
  /** What stands below the first point. Default: its value. */
  readonly below?: number;
  /** What stands above the last point. Default: its value. */
  readonly above?: number;
}

/** The families that it is written in. */
export interface SampledTensor extends NormTensor, ProductTensor, ScanTensor {}
/** Tensors that are sequences of samples. */
export abstract class SampledTensor extends TensorBase {
  /** Throws unless it is 1-D. */
  private sequence(action: string, x: TensorBase): void {
    if (x.ndim === 1) return;
    throw new ShapeError(action, { shapes: [x.shape], reason: "it must be 1-D" });
  }

  /** The mode of products with `v` at shifts. @throws {ShapeError} unless both are 1-D and have elements */
  private shiftsOf(action: string, v: this, options: ShiftOptions, usual: ShiftMode): ShiftMode {
    const { mode = usual } = checkOptions(action, options, ["mode"]);
    checkChoice(action, "mode", mode, ["full", "same", "valid"]);
    for (const x of [this, v]) {
      this.sequence(action, x);
      if (x.shape[0] === 0) throw new ShapeError(action, { shapes: [x.shape], reason: "it has no elements" });
      constantAxis(action, x.uop, 0);
    }
    return mode;
  }

  /**
   * The convolution of two sequences, `[n]` and `[m]`: "full" `[n + m - 1]`, "same" the middle of that, as long as the
   * longer one, "valid" where they overlap whole.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([1, 2, 3]).convolve(new Tensor([0, 1, 10])).tolist()); // [0, 1, 12, 23, 30]
   * ```
   *
   * @throws {ShapeError} unless both are 1-D and have elements
   */
  convolve(v: TensorLike, options: ShiftOptions = {}): this {
    const y = this.tensorOf("convolve", "v", v), mode = this.shiftsOf("convolve", y, options, "full");
    const [long, short] = this.shape[0] < y.shape[0] ? [y, this] : [this, y], n = long.shape[0], m = short.shape[0];
    const around = mode === "full" ? [m - 1, m - 1] : mode === "valid" ? [0, 0] : [m >> 1, (m - 1) >> 1];
    const d = promote(this.dtype, y.dtype), windows = long.cast(d).pad([around as [number, number]]);
    return windows.unfold(0, m, 1).dot(short.cast(d).flip(0)).reshape([n + around[0] + around[1] - m + 1]);
  }

  /**
   * The values at this of the lines through the points (`xp`, `fp`), which are 1-D, as long, and ascend in `xp`. Floats.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const at = new Tensor([0, 1.5, 9]), xp = new Tensor([1, 2, 3]), fp = new Tensor([10, 20, 0]);
   * console.log(await at.interp(xp, fp).tolist()); // [10, 15, 0]
   * ```
   *
   * @throws {ShapeError} for other points
   */
  interp(xp: TensorLike, fp: TensorLike, options: InterpOptions = {}): this {
    const action = "interp", given = checkOptions(action, options, ["below", "above"]);
    const points = [this.tensorOf(action, "xp", xp), this.tensorOf(action, "fp", fp)], [from, to] = points;
    for (const x of points) this.sequence(action, x);
    const n = from.shape[0];
    if (n !== to.shape[0] || n === 0) {
      throw new ShapeError(action, {
        shapes: points.map((x) => x.shape),
        reason: "there must be as many of both, and one",
      });
    }
    const d = floatOf(promote(promote(this.dtype, from.dtype), to.dtype)),
      [x, at, value] = [this.cast(d), from.cast(d), to.cast(d)];
    const first = value.at(0), last = value.at(-1);
    let found: this = last.expand(this.symbolicShape) as this;
    if (n > 1) {
      const i = at.searchsorted(x, { right: true }).clamp(1, n - 1) as this, before = i.sub(1);
      const [x0, x1, y0, y1] = [at.take(before), at.take(i), value.take(before), value.take(i)];
      found = y0.add(x.sub(x0).div(x1.sub(x0)).mul(y1.sub(y0)));
    }
    const below = given.below === undefined ? first : checkNumber(action, "below", given.below);
    const above = given.above === undefined ? last : checkNumber(action, "above", given.above);
    found = x.lt(at.at(0)).where(below, x.gt(at.at(-1)).where(above, x.eq(at.at(-1)).where(last, found))) as this;
    return x.isnan().where(x, found) as this;
  }

  /**
   * Powers of the elements of this, `[..., m]` to `[..., m, n]`: x^(n - 1) to 1, or 1 to x^(n - 1) where they are
   * `increasing`. n is m unless given. A scalar is one element.
   */
  vander(n?: number, options: { readonly increasing?: boolean } = {}): this {
    const action = "vander", { increasing = false } = checkOptions(action, options, ["increasing"]);
    checkBoolean(action, "increasing", increasing);
    const shape = this.ndim === 0 ? [1] : this.shape, whole = this.dtype.isBool ? this.cast(dtypes.int32) : this;
    if (n === undefined) constantAxis(action, this.uop, this.ndim - 1, "give n, how many powers there are to be");
    const columns = n === undefined ? shape[shape.length - 1] : checkCount(action, "n", n, 0);
    const x = whole.reshape([...shape, 1]), one = x.constLike(1) as this;
    if (columns < 2) return one.expand([...shape, columns]) as this;
    const powers = one.cat([x.expand([...shape, columns - 1])], -1).cumprod(-1) as this;
    return increasing ? powers : powers.flip(-1);
  }
  /**
   * The products of this with `v` at all shifts, `[n]` and `[m]`: element k sums this[n + k] conj(v[n]). "valid" where they
   * overlap whole, "same" as long as the longer one, "full" `[n + m - 1]`.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([1, 2, 3]).correlate(new Tensor([0, 1, 0.5]), { mode: "same" }).tolist()); // [2, 3.5, 3]
   * ```
   *
   * @throws {ShapeError} unless both are 1-D and have elements
   */
  correlate(v: TensorLike, options: ShiftOptions = {}): this {
    const y = this.tensorOf("correlate", "v", v), mode = this.shiftsOf("correlate", y, options, "valid");
    const whole = this.convolve(y.conj().flip(0)), n = this.shape[0], m = y.shape[0];
    if (mode === "full") return whole;
    const long = Math.max(n, m), short = Math.min(n, m), odd = n < m ? short - (short >> 1) - 1 : short >> 1;
    return mode === "valid" ? whole.at([short - 1, long]) : whole.at([short - 1 - odd, short - 1 - odd + long]);
  }

  /**
   * The polynomial whose coefficients this has, `[n]`, the highest power first, at `x`: the shape of `x`. By Horner's scheme.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([3, 0, 1]).polyval(5).item()); // 76
   * ```
   *
   * @throws {ShapeError} unless the coefficients are 1-D
   */
  polyval(x: Operand): this {
    this.sequence("polyval", this);
    const at = this.operand(x, "polyval") as this, d = promote(this.dtype, at.dtype), z = at.cast(d);
    let value = z.constLike(0) as this;
    for (let i = 0; i < this.shape[0]; i++) value = (i === 0 ? value : value.mul(z)).add(this.at(i).cast(d)) as this;
    return value;
  }

  /**
   * Angles without jumps along `axis` (the last): where neighbors differ by more than `discont` (half of `period`), multiples
   * of `period` (2π) are added to what follows, so that they differ by no more than half of it.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([0, 1, 2, -1, 0]).unwrap(0, { period: 4 }).tolist()); // [0, 1, 2, 3, 4]
   * ```
   *
   * @throws {ShapeError} for a scalar, {ArgumentError} for a period that is not above 0
   */
  unwrap(axis = -1, options: { readonly discont?: number; readonly period?: number } = {}): this {
    const action = "unwrap", { period = 2 * Math.PI, ...more } = checkOptions(action, options, ["discont", "period"]);
    if (!(checkNumber(action, "period", period) > 0)) {
      throw new ArgumentError(action, { reason: `period must be above 0, not ${period}` });
    }
    const half = period / 2, least = Math.max(checkNumber(action, "discont", more.discont ?? half), half);
    if (this.ndim === 0) throw new ShapeError(action, { shapes: [[]], reason: "a scalar has no neighbors" });
    const dim = resolveAxis(action, axis, this.shape), isInt = !this.dtype.isFloat && Number.isInteger(period);
    const x = isInt ? this : this.cast(floatOf(this.dtype)), steps = x.diff({ dim });
    if (this.shape[dim] < 2) return x;
    const low = isInt ? -(period >> 1) : -half, near = steps.sub(low).mod(period).add(low) as this;
    const up = isInt && period % 2 === 1 ? near : near.eq(low).bitwiseAnd(steps.gt(0)).where(-low, near) as this;
    const moved = steps.abs().lt(least).where(0, up.sub(steps)) as this;
    const first = x.shrink(x.shape.map((n, i): [number, number] => [0, i === dim ? 1 : n]));
    const others = x.shrink(x.shape.map((n, i): [number, number] => [i === dim ? 1 : 0, n]));
    return first.cat([others.add(moved.cumsum(dim)).cast(x.dtype)], dim);
  }
}
