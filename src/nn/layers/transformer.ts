/**
 * The blocks of transformers (Vaswani et al., arXiv 1706.03762), as PyTorch's layers: attention and a network of two
 * layers, each added to its input, normalized before or after.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { MultiHeadAttention } from "./attention.ts";
import { Dropout } from "./dropout.ts";
import { Linear } from "./linear.ts";
import { LayerNorm } from "./norm.ts";

/** Options of {@linkcode TransformerEncoderLayer} and {@linkcode TransformerDecoderLayer}. */
export interface TransformerLayerOptions {
  /** Features between the two linear layers; 2048 unless given. */
  readonly dimFeedforward?: number;
  /** Share that is dropped in training, after each part and inside attention; 0.1 unless given. */
  readonly dropout?: number;
  /** Between the two linear layers; "relu" unless given. */
  readonly activation?: "relu" | "gelu" | ((x: Tensor) => Tensor);
  /** Of the normalizations; 1e-5 unless given. */
  readonly layerNormEps?: number;
  /** Whether sequences are `[N, L, E]` instead of `[L, N, E]`; false unless given. */
  readonly batchFirst?: boolean;
  /** Whether to normalize before each part instead of after it; false unless given. */
  readonly normFirst?: boolean;
  /** Whether linear layers and normalizations have biases; true unless given. */
  readonly bias?: boolean;
}

const OPTIONS = ["dimFeedforward", "dropout", "activation", "layerNormEps", "batchFirst", "normFirst", "bias"];

const MASKS = ["attnMask", "keyPaddingMask", "isCausal"];

/** Masks of a sequence, as {@linkcode MultiHeadAttention.call} takes them. */
export interface SequenceMasks {
  readonly attnMask?: Tensor;
  readonly keyPaddingMask?: Tensor;
  readonly isCausal?: boolean;
}

/** The options of a block, without `others`, which a caller has beside them. @throws {ArgumentError} for unknown ones */
export function checkLayerOptions(
  what: string,
  options: TransformerLayerOptions,
  others: readonly string[] = [],
): TransformerLayerOptions {
  const given = checkOptions(what, options, [...OPTIONS, ...others]);
  return Object.fromEntries(Object.entries(given).filter(([name]) => !others.includes(name)));
}

/** What encoder and decoder share: attention of a sequence to itself, and the network behind it. */
abstract class Block {
  selfAttn: MultiHeadAttention;
  linear1: Linear;
  linear2: Linear;
  norm1: LayerNorm;
  norm2: LayerNorm;
  readonly normFirst: boolean;
  /** How all parts are dropped, and what is between the linear layers. */
  protected readonly drop: Dropout;
  protected readonly activation: (x: Tensor) => Tensor;

  protected constructor(what: string, dModel: number, numHeads: number, options: TransformerLayerOptions) {
    checkLayerOptions(what, options);
    const { activation = "relu", dropout = 0.1, bias = true } = options;
    const width = checkInteger(what, "dimFeedforward", options.dimFeedforward ?? 2048, 1);
    if (typeof activation !== "function" && activation !== "relu" && activation !== "gelu") {
      throw new ArgumentError(what, {
        reason: `activation is ${describe(activation)}, not "relu", "gelu" or a function`,
      });
    }
    this.selfAttn = this.attention(dModel, numHeads, options);
    this.linear1 = new Linear(dModel, width, { bias });
    this.linear2 = new Linear(width, dModel, { bias });
    const norm = { eps: options.layerNormEps, bias };
    this.norm1 = new LayerNorm(dModel, norm);
    this.norm2 = new LayerNorm(dModel, norm);
    this.normFirst = options.normFirst ?? false;
    this.drop = new Dropout(dropout);
    this.activation = activation === "relu" ? (x) => x.relu() : activation === "gelu" ? (x) => x.gelu() : activation;
  }

  /** Attention with the options of the block. */
  protected attention(dModel: number, numHeads: number, options: TransformerLayerOptions): MultiHeadAttention {
    const { dropout = 0.1, bias, batchFirst } = options;
    return new MultiHeadAttention(dModel, numHeads, { dropout, bias, batchFirst });
  }
  /** `x` and what `part` makes of it, added and normalized. */
  protected residual(x: Tensor, norm: LayerNorm, part: (x: Tensor) => Tensor): Tensor {
    return this.normFirst ? x.add(this.drop.call(part(norm.call(x)))) : norm.call(x.add(this.drop.call(part(x))));
  }
  /** The network of two layers. */
  protected feedForward(x: Tensor): Tensor {
    const inner = checkTensor("apply activation", "what it gives", this.activation(this.linear1.call(x)));
    return this.linear2.call(this.drop.call(inner));
  }
}

/** A block of an encoder: a sequence attends to itself. Keeps the shape, `[L, N, dModel]`. */
export class TransformerEncoderLayer extends Block {
  /** @throws {ArgumentError} for an unknown option, or features that do not divide into the heads */
  constructor(dModel: number, numHeads: number, options: TransformerLayerOptions = {}) {
    super("make TransformerEncoderLayer", dModel, numHeads, options);
  }
  /** @throws {ShapeError} {DTypeError} for masks that do not fit */
  call(x: Tensor, masks: SequenceMasks = {}): Tensor {
    checkTensor("encode", "x", x);
    checkOptions("encode", masks, MASKS);
    x = this.residual(x, this.norm1, (y) => this.selfAttn.call(y, y, y, masks)[0]);
    return this.residual(x, this.norm2, (y) => this.feedForward(y));
  }
}

/** A block of a decoder: a sequence attends to itself, then to `memory`, what an encoder made. Keeps the shape. */
export class TransformerDecoderLayer extends Block {
  multiheadAttn: MultiHeadAttention;
  norm3: LayerNorm;

  /** @throws {ArgumentError} for an unknown option, or features that do not divide into the heads */
  constructor(dModel: number, numHeads: number, options: TransformerLayerOptions = {}) {
    super("make TransformerDecoderLayer", dModel, numHeads, options);
    this.multiheadAttn = this.attention(dModel, numHeads, options);
    this.norm3 = new LayerNorm(dModel, { eps: options.layerNormEps, bias: options.bias });
  }
  /** `masks` are of the sequence, `memoryMasks` of memory. @throws {ShapeError} {DTypeError} for masks that do not fit */
  call(x: Tensor, memory: Tensor, masks: SequenceMasks = {}, memoryMasks: SequenceMasks = {}): Tensor {
    checkTensor("decode", "x", x);
    checkTensor("decode", "memory", memory);
    checkOptions("decode", masks, MASKS);
    checkOptions("decode", memoryMasks, MASKS);
    x = this.residual(x, this.norm1, (y) => this.selfAttn.call(y, y, y, masks)[0]);
    x = this.residual(x, this.norm2, (y) => this.multiheadAttn.call(y, memory, memory, memoryMasks)[0]);
    return this.residual(x, this.norm3, (y) => this.feedForward(y));
  }
}
