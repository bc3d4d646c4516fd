/**
 * Encoders of texts (BERT, MiniLM, BGE, nomic-embed): every token sees all others, and what stands behind the last layer is
 * pooled to one vector a text.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { FormatError } from "../../helpers/errors.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Metadata } from "../text/vocabulary.ts";
import type { Gguf } from "../files/gguf.ts";
import { threeProducts } from "./cached_attention.ts";
import { feedForward } from "./feed_forward.ts";
import { type Layer, needed, neededNorm } from "./linear_layers.ts";
import { ENCODERS, type ModelSpec, modelSpec, type Pooling, POOLINGS } from "./model_spec.ts";
import { type RopeTable, ropeTable, turn } from "./rope_tables.ts";
import { type Weight, WeightStore } from "./weight_store.ts";

/** A layer of activations `[T, dim]`, where keys `[T]` are open. */
type EncoderLayer = (x: Tensor, open: Tensor, angles: RopeTable | undefined) => Tensor;

/** Attention and feed-forward, each with the norm behind its sum with what it reads. */
function encoderLayer(spec: ModelSpec, store: WeightStore, layer: number): EncoderLayer {
  const { dim, heads, headDim, rope } = spec, at = `blk.${layer}.`, project = threeProducts(spec, store, at);
  const out = needed(store, `${at}attn_output`, dim, heads * headDim), feed = feedForward(spec, store, at);
  const afterAttention = neededNorm(spec, store, `${at}attn_output_norm`),
    afterFeed = neededNorm(spec, store, `${at}layer_output_norm`);
  return (x, open, angles) => {
    const [t] = x.shape, placed = project(x);
    if (angles !== undefined) [0, 1].forEach((i) => placed[i] = turn(placed[i], rope.kind as "halves", angles));
    const [q, k, v] = placed.map((y) => y.transpose(0, 1).repeatInterleave(heads / y.shape[1], 0));
    const scores = open.where(q.mul(spec.attentionScale).matmul(k.transpose(1, 2)), -Infinity);
    const mixed = scores.softmax(-1).matmul(v).transpose(0, 1).reshape([t, heads * headDim]);
    const y = afterAttention(x.add(out(mixed)));
    return afterFeed(y.add(feed(y)));
  };
}

/** An encoder: its description and what it computes. */
export class Encoder {
  /** What it is made of. */
  readonly spec: ModelSpec;
  /** How vectors are pooled. */
  readonly pooling: Pooling;
  private readonly embedding: Weight;
  private readonly types: Weight | undefined;
  private readonly positions: Weight | undefined;
  private readonly firstNorm: Layer;
  private readonly layers: readonly EncoderLayer[];
  private readonly angles: RopeTable | undefined;

  /**
   * Reads the weights of a file onto `device`; before that, when all of them are there in their shapes, it calls `fits`.
   *
   * @throws {FormatError} for another architecture, a weight that is missing or of another shape, pooling that is not known
   */
  constructor(file: Gguf, name: string, readonly device: string, fits?: () => void) {
    const meta = new Metadata(file.metadata, name), spec = this.spec = modelSpec(file.metadata, name, ENCODERS);
    const pooling = POOLINGS[meta.count(`${spec.architecture}.pooling_type`, 1)];
    if (pooling === undefined) {
      throw new FormatError("load", {
        file: name,
        reason: "its texts are not pooled by their mean, first or last token",
      });
    }
    const store = new WeightStore(file.tensors, device, name), { dim, layers, context, rope } = spec;
    this.pooling = pooling;
    this.embedding = store.get("token_embd.weight");
    this.types = store.maybe("token_types.weight");
    this.positions = rope.kind === "none" ? store.get("position_embd.weight", [context, dim]) : undefined;
    this.firstNorm = neededNorm(spec, store, "token_embd_norm");
    this.layers = Array.from({ length: layers }, (_, i) => encoderLayer(spec, store, i));
    fits?.();
    this.angles = rope.kind === "none" ? undefined : ropeTable(rope, context, false, undefined, device);
    store.realize();
  }

  /**
   * The vectors, float32 `[B, dim]`, of texts of int32 `[B, T]` tokens, of which the first `count` `[B]` are the text and
   * others fill the row. Lazy.
   */
  embed(tokens: Tensor, count: Tensor): Tensor {
    const [b, t] = tokens.shape, { dim } = this.spec;
    let x = this.embedding.rows(tokens);
    if (this.types !== undefined) {
      x = x.add(this.types.rows(new Tensor([0], { dtype: dtypes.int32, device: this.device })));
    }
    if (this.positions !== undefined) x = x.add(this.positions.values().at([0, t]));
    x = this.firstNorm(x);
    const open = Tensor.arange(t, { dtype: dtypes.int32, device: this.device }).lt(count.reshape([b, 1]));
    const angles = this.angles && { cos: this.angles.cos.at([0, t]), sin: this.angles.sin.at([0, t]) };
    const rows = Array.from({ length: b }, (_, i) => {
      const y = this.layers.reduce((y, layer) => layer(y, open.at(i), angles), x.at(i));
      if (this.pooling === "first") return y.at(0);
      if (this.pooling === "last") return y.at(count.at(i).sub(1)).reshape([dim]);
      return open.at(i).unsqueeze(1).where(y, 0).sum(0).div(count.at(i));
    });
    return Tensor.stack(rows, 0);
  }
}
