/**
 * The embedding layer: rows of a table by index.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { DTypeError } from "../helpers/errors.ts";
import { checkInteger } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import { lookUp, sorts } from "../tensor/nodes/segments.ts";
import { Tensor } from "../tensor/tensor.ts";

/** A table of `vocabSize` rows. Integer shape `[...]` to `[..., embedSize]`. An index outside the table gives zeros. */
export class Embedding {
  /** `[vocabSize, embedSize]`. */
  weight: Tensor;
  readonly vocabSize: number;
  readonly embedSize: number;

  /** @throws {ArgumentError} if a size is no positive integer */
  constructor(vocabSize: number, embedSize: number) {
    checkInteger("make Embedding", "vocabSize", vocabSize, 1);
    checkInteger("make Embedding", "embedSize", embedSize, 1);
    this.vocabSize = vocabSize;
    this.embedSize = embedSize;
    this.weight = Tensor.glorotUniform([vocabSize, embedSize], { requiresGrad: true });
  }

  /** @throws {DTypeError} if `indices` are no integers */
  call(indices: Tensor): Tensor {
    if (!checkTensor("look up an embedding", "indices", indices).dtype.isInt) {
      throw new DTypeError("look up an embedding by dtype", {
        dtypes: [indices.dtype],
        reason: "indices must be integers",
      });
    }
    // A sum over one-hot rows; the scheduler turns it into a gated load, so nothing of this size is ever computed.
    const { vocabSize, embedSize } = this;
    const rows = Tensor.arange(vocabSize, undefined, undefined, { dtype: indices.dtype }).reshape([vocabSize, 1]);
    const hot = indices.reshape([...indices.shape, 1, 1]).eq(rows);
    const found = hot.where(this.weight, 0).sum(-2).reshape([...indices.shape, embedSize]);
    const count = indices.numel();
    if (count === 0 || !sorts(count, vocabSize, embedSize)) return found;
    // the same, with a gradient that sorts the indices
    const keys = indices.lt(0).bitwiseOr(indices.ge(vocabSize)).where(-1, indices).cast(dtypes.int32);
    const known = lookUp(
      this.weight.reshape([1, vocabSize, embedSize]).uop,
      keys.reshape([1, count]).uop,
      found.reshape([1, count, embedSize]).uop,
    );
    return new Tensor(known).reshape(found.shape);
  }
}
