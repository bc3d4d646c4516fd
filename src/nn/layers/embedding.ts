/**
 * The embedding layer: rows of a table by index.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { lookUp, sorts } from "../../tensor/nodes/segments.ts";
import { checkShards } from "../../engine/front/engine.ts";
import { dividingMesh } from "../../tensor/shard.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** Options of {@linkcode Embedding}. */
export interface EmbeddingOptions {
  /** A row that is zeros at first and gets no gradient, as of what pads sentences; from the end if negative. Default none. */
  readonly paddingIdx?: number | null;
}

/** In how many equal parts indices lie on devices, one after the other; 0 where they lie otherwise: to sort them would move them. */
function partsOf(indices: Tensor): number {
  const mesh = dividingMesh(indices);
  if (mesh === undefined) return 1;
  const [first, ...rest] = checkShards(indices.uop).axes, count = first === null ? 0 : mesh.sizeOf(first);
  return rest.every((a) => a === null) && indices.shape[0] % count === 0 ? count : 0;
}

/** Whether whoever reads a table has a part of each row. */
function isCut(weight: Tensor): boolean {
  return dividingMesh(weight, true) !== undefined && checkShards(weight.uop).axes[1] !== null;
}

/** A table of `vocabSize` rows. Integer shape `[...]` to `[..., embedSize]`. An index outside the table gives zeros. */
export class Embedding {
  /** `[vocabSize, embedSize]`. */
  weight: Tensor;
  readonly vocabSize: number;
  readonly embedSize: number;
  /** Which row gets no gradient, or undefined. */
  readonly paddingIdx: number | undefined;

  /** @throws {ArgumentError} if a size is no positive integer, or the padding is no row */
  constructor(vocabSize: number, embedSize: number, options: EmbeddingOptions = {}) {
    checkInteger("make Embedding", "vocabSize", vocabSize, 1);
    checkInteger("make Embedding", "embedSize", embedSize, 1);
    this.vocabSize = vocabSize;
    this.embedSize = embedSize;
    const { paddingIdx } = checkOptions("make Embedding", options, ["paddingIdx"]);
    this.weight = Tensor.glorotUniform([vocabSize, embedSize], { requiresGrad: true });
    if (paddingIdx === undefined || paddingIdx === null) return;
    if (checkInteger("make Embedding", "paddingIdx", paddingIdx, -vocabSize) >= vocabSize) {
      throw new ArgumentError("make Embedding", { reason: `paddingIdx ${paddingIdx} is none of ${vocabSize} rows` });
    }
    this.paddingIdx = paddingIdx < 0 ? paddingIdx + vocabSize : paddingIdx;
    this.weight = Tensor.where(this.padding(), 0, this.weight.detach()).contiguous();
    this.weight.requiresGrad = true;
  }

  /** Which rows pad: `[vocabSize, 1]`. */
  private padding(): Tensor {
    return Tensor.arange(this.vocabSize).to(this.weight.device).eq(this.paddingIdx!).unsqueeze(1);
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
    const weight = this.paddingIdx === undefined
      ? this.weight
      : Tensor.where(this.padding(), this.weight.detach(), this.weight);
    const rows = Tensor.arange(vocabSize, undefined, undefined, { dtype: indices.dtype }).reshape([vocabSize, 1]);
    const hot = indices.reshape([...indices.shape, 1, 1]).eq(rows);
    const found = hot.where(weight, 0).sum(-2).reshape([...indices.shape, embedSize]);
    const count = indices.numel();
    const parts = count === 0 || isCut(weight) ? 0 : partsOf(indices);
    if (parts === 0 || !sorts(indices.uop, count / parts, vocabSize, embedSize)) return found;
    // the same, with a gradient that sorts the indices, on each device its own
    const keys = indices.lt(0).bitwiseOr(indices.ge(vocabSize)).where(-1, indices).cast(dtypes.int32);
    const known = lookUp(
      weight.reshape([1, vocabSize, embedSize]).expand([parts, vocabSize, embedSize]).uop,
      keys.reshape([parts, count / parts]).uop,
      found.reshape([parts, count / parts, embedSize]).uop,
    );
    return new Tensor(known).reshape(found.shape);
  }
}
