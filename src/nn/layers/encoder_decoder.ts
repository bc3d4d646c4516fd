/**
 * Transformers whole (Vaswani et al., arXiv 1706.03762), as PyTorch's: blocks one after the other as an encoder, as a
 * decoder, and both.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkCount, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { copyOf, isLayer, xavierUniform } from "./init.ts";
import { LayerNorm } from "./norm.ts";
import {
  checkLayerOptions,
  type SequenceMasks,
  TransformerDecoderLayer,
  TransformerEncoderLayer,
  type TransformerLayerOptions,
} from "./transformer.ts";

/** What may be behind the last block. */
type Norm = { call(x: Tensor): Tensor };

/** Blocks with own weights, which begin as those of the one given, and what is behind them. */
abstract class Stack<L extends object> {
  readonly layers: L[];
  readonly norm: Norm | undefined;

  /** @param name of the class; its blocks are named so, too */
  protected constructor(name: string, Layer: new (...args: never) => L, layer: L, count: number, norm?: Norm) {
    const what = `make ${name}`;
    if (!(layer instanceof Layer)) {
      throw new ArgumentError(what, { reason: `it takes a ${name}Layer, not ${describe(layer)}` });
    }
    checkCount(what, "numLayers", count, 1);
    if (norm !== undefined && !isLayer(norm)) {
      throw new ArgumentError(what, { reason: `norm must be a layer, not ${describe(norm)}` });
    }
    this.layers = Array.from({ length: count }, () => copyOf(layer));
    this.norm = norm;
  }
  /** `x` through all blocks, and normalized. */
  protected through(x: Tensor, block: (layer: L, x: Tensor) => Tensor): Tensor {
    const y = this.layers.reduce((x, layer) => block(layer, x), x);
    return this.norm === undefined ? y : this.norm.call(y);
  }
}

/** `numLayers` blocks that begin as copies of one, one after the other, then `norm`, if any. Keeps the shape, `[L, N, dModel]`. */
export class TransformerEncoder extends Stack<TransformerEncoderLayer> {
  /** @throws {ArgumentError} for a block of another class, or a number of them that is not positive */
  constructor(encoderLayer: TransformerEncoderLayer, numLayers: number, norm?: { call(x: Tensor): Tensor }) {
    super("TransformerEncoder", TransformerEncoderLayer, encoderLayer, numLayers, norm);
  }
  /** Each block has the same masks. @throws {ShapeError} {DTypeError} for masks that do not fit */
  call(x: Tensor, masks: SequenceMasks = {}): Tensor {
    return this.through(x, (layer, x) => layer.call(x, masks));
  }
}

/** `numLayers` blocks that begin as copies of one, which attend to one `memory`, then `norm`, if any. Keeps the shape. */
export class TransformerDecoder extends Stack<TransformerDecoderLayer> {
  /** @throws {ArgumentError} for a block of another class, or a number of them that is not positive */
  constructor(decoderLayer: TransformerDecoderLayer, numLayers: number, norm?: { call(x: Tensor): Tensor }) {
    super("TransformerDecoder", TransformerDecoderLayer, decoderLayer, numLayers, norm);
  }
  /** `masks` are of the sequence, `memoryMasks` of memory. @throws {ShapeError} {DTypeError} for masks that do not fit */
  call(x: Tensor, memory: Tensor, masks: SequenceMasks = {}, memoryMasks: SequenceMasks = {}): Tensor {
    return this.through(x, (layer, x) => layer.call(x, memory, masks, memoryMasks));
  }
}

/** Options of {@linkcode Transformer}. */
export interface TransformerOptions extends TransformerLayerOptions {
  /** Blocks of the encoder; 6 unless given. */
  readonly numEncoderLayers?: number;
  /** Blocks of the decoder; 6 unless given. */
  readonly numDecoderLayers?: number;
}

/** Options of {@linkcode Transformer.call}: masks of what attends to what. */
export interface TransformerMasks {
  /** Of the source to itself. */
  readonly src?: SequenceMasks;
  /** Of the target to itself. */
  readonly tgt?: SequenceMasks;
  /** Of the target to what the encoder made of the source. */
  readonly memory?: SequenceMasks;
}

/**
 * An encoder of a source and a decoder of a target, each normalized at its end. `src` `[S, N, dModel]` and `tgt`
 * `[T, N, dModel]` to `[T, N, dModel]`, or with the batch first. Matrices are drawn as Xavier's.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const net = new nn.Transformer(16, 4, { numEncoderLayers: 2, numDecoderLayers: 1, dimFeedforward: 32, batchFirst: true });
 * const src = Tensor.zeros([2, 7, 16]), tgt = Tensor.zeros([2, 5, 16]);
 * console.log(net.call(src, tgt, { tgt: { isCausal: true } }).shape); // [2, 5, 16]
 * ```
 */
export class Transformer {
  readonly encoder: TransformerEncoder;
  readonly decoder: TransformerDecoder;

  /** dModel 512, numHeads 8 unless given. @throws {ArgumentError} for a bad option */
  constructor(dModel = 512, numHeads = 8, options: TransformerOptions = {}) {
    const what = "make Transformer";
    const layer = checkLayerOptions(what, options, ["numEncoderLayers", "numDecoderLayers"]);
    const count = (name: "numEncoderLayers" | "numDecoderLayers") => checkCount(what, name, options[name] ?? 6, 1);
    const norm = () => new LayerNorm(dModel, { eps: layer.layerNormEps, bias: layer.bias });
    const [encoders, decoders] = [count("numEncoderLayers"), count("numDecoderLayers")];
    this.encoder = new TransformerEncoder(new TransformerEncoderLayer(dModel, numHeads, layer), encoders, norm());
    this.decoder = new TransformerDecoder(new TransformerDecoderLayer(dModel, numHeads, layer), decoders, norm());
    for (const block of [...this.encoder.layers, ...this.decoder.layers]) {
      for (const holder of parts(block)) {
        for (const [name, t] of Object.entries(holder)) {
          if (t instanceof Tensor && t.ndim > 1) Object.assign(holder, { [name]: xavierUniform(t.shape) });
        }
      }
    }
  }

  /** @throws {ShapeError} {DTypeError} for masks that do not fit */
  call(src: Tensor, tgt: Tensor, masks: TransformerMasks = {}): Tensor {
    const { src: ofSource, tgt: ofTarget, memory } = checkOptions("apply Transformer", masks, ["src", "tgt", "memory"]);
    return this.decoder.call(tgt, this.encoder.call(src, ofSource), ofTarget, memory);
  }

  /** `[size, size]`, float32: 0 where a position may be seen, -Infinity behind it. @throws {ArgumentError} */
  static generateSquareSubsequentMask(size: number): Tensor {
    checkInteger("make a mask", "size", size, 0);
    return Tensor.ones([size, size], { dtype: "bool" }).triu(1).where(-Infinity, Tensor.zeros([])) as Tensor;
  }
}

/** A layer with all layers that it has. */
function parts(layer: object): object[] {
  const inner = Object.values(layer).filter((x) => typeof x === "object" && x !== null && !(x instanceof Tensor));
  return [layer, ...inner.flatMap((x) => parts(x as object))];
}
