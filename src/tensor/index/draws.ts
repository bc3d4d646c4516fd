/**
 * Draws with the probabilities that a tensor has, and the function that all random numbers are made by.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { defaultFloat } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { flat } from "../../uop/graph/given_gradient.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { floatConst } from "../nodes/numeric.ts";
import { checkWeights, drawnLike, drawUniform, threefryNode } from "../nodes/random.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { hostValuesBehind } from "../nodes/select.ts";
import type { IndexingTensor } from "./indexing.ts";
import type { ScanTensor } from "./scan.ts";
import type { SortTensor } from "./sort.ts";

/** The families that it is written in. */
export interface DrawTensor extends IndexingTensor, ScanTensor, SortTensor {}
/** Tensors that are drawn from. */
export abstract class DrawTensor extends TensorBase {
  /**
   * Draws positions with probabilities proportional to this, 1-D or one distribution a row; int32. Weights must be finite
   * and at least 0, and some of each row more: as many as are drawn without replacement. Those that were computed are not
   * looked at, and what breaks this then draws any positions.
   *
   * @param options `numSamples` 1, `replacement` false; a number is `numSamples`
   * @param others those beside a number, as in `weights.multinomial(100, { replacement: true })`
   * @throws {ShapeError} for other ranks, {ArgumentError} for more samples than positions without replacement, and for such
   * weights that are known on the host
   */
  multinomial(
    options: number | { readonly numSamples?: number; readonly replacement?: boolean } = {},
    others: { readonly replacement?: boolean } = {},
  ): this {
    const action = "multinomial", { replacement: beside } = checkOptions(action, others, ["replacement"]);
    const given = typeof options === "number" ? { numSamples: options } : options;
    const { numSamples = 1, replacement = beside ?? false } = checkOptions(action, given, [
      "numSamples",
      "replacement",
    ]);
    checkInteger(action, "numSamples", numSamples, 1);
    const shape = this.shape;
    if (shape.length !== 1 && shape.length !== 2) {
      throw new ShapeError(action, { shapes: [shape], reason: "weights must be 1-D or 2-D" });
    }
    const n = shape[shape.length - 1], rows = shape.length === 2 ? shape[0] : 1;
    if (!replacement && numSamples > n) {
      throw new ArgumentError(action, { reason: `${numSamples} samples of ${n} positions need replacement: true` });
    }
    checkWeights(action, hostValuesBehind(this.uop), n, replacement ? 1 : numSamples);
    const weights = this.float().reshape([rows, n]);
    let picked: this;
    if (replacement || numSamples === 1) { // where the running sum passes a uniform share of the total
      const running = weights.cumsum(1);
      const total = running.at(":", [-1, null]);
      const u = this.wrap(drawUniform([rows, numSamples], dtypes.float32)).mul(total) as this;
      picked = running.unsqueeze(1).le(u.unsqueeze(2)).sum(-1).clamp(0, n - 1) as this;
    } else { // keys log(u) / w: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006)
      const u = this.wrap(drawUniform([rows, n], dtypes.float32)).mul(-1).add(1) as this;
      picked = u.log().div(weights).topk(numSamples, 1)[1];
    }
    return picked.cast(dtypes.int32).reshape(shape.length === 2 ? [rows, numSamples] : [numSamples]);
  }

  /**
   * 1 with the probability that this says at each place, or with `p` at all of them, else 0; the dtype of this. Its gradient
   * is 0. Probabilities that were computed are not looked at: those above 1 always draw 1, those below 0 and NaN never.
   *
   * @throws {ArgumentError} for a probability outside [0, 1] that is known on the host {DTypeError} without `p` unless of floats
   */
  bernoulli(p?: number): this {
    const action = "bernoulli", d = this.dtype, shape = this.shape;
    if (p === undefined && (!d.isFloat || d.isComplex)) {
      const floats = asFloats(this, defaultFloat());
      if (floats !== this) return floats.bernoulli();
      throw new DTypeError(`${action} of dtype`, { dtypes: [d], reason: "probabilities are floats; or give p" });
    }
    for (const share of p === undefined ? hostValuesBehind(this.uop) ?? [] : [checkNumber(action, "p", p)]) {
      if (share >= 0 && share <= 1) continue;
      throw new ArgumentError(action, { reason: `a probability must lie in [0, 1], not ${share}` });
    }
    const share = p === undefined ? castNode(this.uop, dtypes.float32) : floatConst(p, dtypes.float32);
    const draw = drawnLike(this.uop, drawUniform, dtypes.float32);
    return this.wrap(flat(castNode(draw.lt(broadcastTo(share, shape)), d), [this.uop]));
  }

  /**
   * threefry2x32 of the 64-bit counters in this under the 64-bit keys in `seed`; uint64.
   * @throws {DTypeError} unless both are integers
   */
  threefry(seed: Operand): this {
    const key = this.operand(seed, "threefry");
    for (const { dtype } of [this, key]) {
      if (dtype.isInt) continue;
      throw new DTypeError("threefry of dtype", { dtypes: [dtype], reason: "counters and keys are integers" });
    }
    const [x, k] = this.cast(dtypes.uint64).broadcasted("threefry", this.wrap(castNode(key.uop, dtypes.uint64)));
    const low = (u: UOp) => castNode(u.and(scalarConst(0xffffffff, dtypes.uint64)), dtypes.uint32);
    const high = (u: UOp) => castNode(u.shr(scalarConst(32, dtypes.uint64)), dtypes.uint32);
    const [a, b] = threefryNode([low(k), high(k)], [low(x), high(x)]).map((u) => castNode(u, dtypes.uint64));
    return this.wrap(b.shl(scalarConst(32, dtypes.uint64)).or(a));
  }
}
