/**
 * Layers that are divided along an axis of a mesh: tensor parallelism.
 *
 * @module
 */
import { checkInteger, checkOptions } from "../helpers/options.ts";
import { Embedding, type EmbeddingOptions } from "../nn/layers/embedding.ts";
import { Linear } from "../nn/layers/linear.ts";
import type { MeshShape, Spec } from "../uop/core/sharding.ts";

/** Options of {@linkcode ColumnLinear} and {@linkcode RowLinear}. */
export interface ParallelLinearOptions {
  /** The axis of the mesh; "model" unless given. */
  readonly axis?: string;
  /** Whether to add a bias; true unless given. */
  readonly bias?: boolean;
}

/** Puts a linear layer on a mesh: its weight `[out, in]` along `spec`, its bias as the rows of that. */
function divide(layer: Linear, mesh: MeshShape, spec: Spec): void {
  const { weight, bias } = layer;
  weight.replace(weight.shard(mesh, spec));
  bias?.replace(bias.shard(mesh, [spec[0]]));
}

function checkLayer(name: string, inFeatures: number, outFeatures: number, options: ParallelLinearOptions): void {
  checkOptions(`make ${name}`, options, ["axis", "bias"]);
  checkInteger(`make ${name}`, "inFeatures", inFeatures, 1);
  checkInteger(`make ${name}`, "outFeatures", outFeatures, 1);
}

/**
 * `x @ weight.T + bias` with the outputs divided: each device has some rows of the weight, and computes these outputs of
 * all of `x`. Shape `[..., inFeatures]` to `[..., outFeatures@axis]`; nothing moves. Shoeybi et al., "Megatron-LM" (2019).
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { ColumnLinear, Mesh, RowLinear } from "./dist.ts";
 * const mesh = Mesh.of({ model: 2 }, { devices: ["JS", "JS:1"] });
 * const up = new ColumnLinear(4, 8, mesh), down = new RowLinear(8, 4, mesh, { bias: false });
 * const x = Tensor.ones([3, 4]).shard(mesh, [null, null]), hidden = up.call(x).relu();
 * console.log(hidden.sharding, down.call(hidden).sharding); // float32[3, 8@model] float32[3, 4]{model: sum}
 * ```
 */
export class ColumnLinear extends Linear {
  /** @throws {ArgumentError} for an unknown option, a bad size, or an axis that the mesh has not */
  constructor(inFeatures: number, outFeatures: number, mesh: MeshShape, options: ParallelLinearOptions = {}) {
    checkLayer("ColumnLinear", inFeatures, outFeatures, options);
    const { axis = "model", bias } = options;
    super(inFeatures, outFeatures, { bias });
    divide(this, mesh, [axis, null]);
  }
}

/**
 * `x @ weight.T + bias` with the inputs divided: each device has some columns of the weight, and computes its part of the
 * sum. Shape `[..., inFeatures@axis]` to `[..., outFeatures]`, which one allReduce adds up where it is read. It follows a
 * {@linkcode ColumnLinear}.
 */
export class RowLinear extends Linear {
  /** @throws {ArgumentError} for an unknown option, a bad size, or an axis that the mesh has not */
  constructor(inFeatures: number, outFeatures: number, mesh: MeshShape, options: ParallelLinearOptions = {}) {
    checkLayer("RowLinear", inFeatures, outFeatures, options);
    const { axis = "model", bias } = options;
    super(inFeatures, outFeatures, { bias });
    divide(this, mesh, [null, axis]);
  }
}

/** Options of {@linkcode VocabEmbedding}. */
export interface VocabEmbeddingOptions extends EmbeddingOptions {
  /** The axis of the mesh; "model" unless given. */
  readonly axis?: string;
}

/**
 * A table of rows that is divided by rows: each device has some of the vocabulary, and looks up these. Integer shape
 * `[...]` to `[..., embedSize]`, which one allReduce adds up where it is read; gradients are of the own rows. The logits of
 * a {@linkcode ColumnLinear} with as many outputs are divided by classes, and `logits.crossEntropy(labels)` of these moves
 * three numbers a row: their maximum, the sum of exponentials, and the loss.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { ColumnLinear, Mesh, VocabEmbedding } from "./dist.ts";
 * const mesh = Mesh.of({ model: 2 }, { devices: ["JS", "JS:1"] });
 * const table = new VocabEmbedding(100, 8, mesh), head = new ColumnLinear(8, 100, mesh, { bias: false });
 * const tokens = new Tensor([3, 99, 0]).shard(mesh, [null]), logits = head.call(table.call(tokens));
 * console.log(table.weight.sharding, logits.sharding); // float32[100@model, 8] float32[3, 100@model]
 * console.log(logits.crossEntropy(tokens).shape.length); // 0
 * ```
 */
export class VocabEmbedding extends Embedding {
  /** @throws {ArgumentError} for an unknown option, a bad size, or an axis that the mesh has not */
  constructor(vocabSize: number, embedSize: number, mesh: MeshShape, options: VocabEmbeddingOptions = {}) {
    checkOptions("make VocabEmbedding", options, ["axis", "paddingIdx"]);
    const { axis = "model", paddingIdx } = options;
    super(vocabSize, embedSize, { paddingIdx });
    this.weight.replace(this.weight.shard(mesh, [axis, null]));
  }
}
