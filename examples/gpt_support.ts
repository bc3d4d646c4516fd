/** A GPT whose layers are divided along axis "model" of a mesh, for batches that are divided along "data". @module */
import { nn, Tensor } from "../mod.ts";
import { ColumnLinear, type Mesh, RowLinear, VocabEmbedding } from "../src/dist/dist.ts";

/** Sizes of a model. */
export interface GptShape {
  readonly vocabulary: number;
  readonly context: number;
  readonly layers: number;
  readonly heads: number;
  readonly width: number;
}

/** Attention and an MLP, each with one sum over the devices of "model". */
class Block {
  readonly norm1: nn.LayerNorm;
  readonly norm2: nn.LayerNorm;
  readonly qkv: ColumnLinear;
  readonly out: RowLinear;
  readonly up: ColumnLinear;
  readonly down: RowLinear;

  constructor(private readonly shape: GptShape, mesh: Mesh) {
    const { width } = shape;
    this.norm1 = new nn.LayerNorm(width);
    this.norm2 = new nn.LayerNorm(width);
    this.qkv = new ColumnLinear(width, 3 * width, mesh);
    this.out = new RowLinear(width, width, mesh);
    this.up = new ColumnLinear(width, 4 * width, mesh);
    this.down = new RowLinear(4 * width, width, mesh);
  }
  private attend(x: Tensor): Tensor {
    const { heads, width } = this.shape, [batch, length] = x.shape;
    // heads come first, so that each device has some of them, with their queries, keys and values
    const all = this.qkv.call(x).reshape([batch, length, heads, 3, width / heads]).permute([3, 0, 2, 1, 4]);
    const [q, k, v] = all.split(1).map((t) => t.squeeze(0));
    const seen = q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
    return this.out.call(seen.permute([0, 2, 1, 3]).reshape([batch, length, width]));
  }
  call(x: Tensor): Tensor {
    x = x.add(this.attend(this.norm1.call(x)));
    return x.add(this.down.call(this.up.call(this.norm2.call(x)).gelu()));
  }
}

/** Tokens `[batch@data, length]` to logits `[batch@data, length, vocabulary@model]`. */
export class Gpt {
  readonly tokens: VocabEmbedding;
  readonly positions: Tensor;
  readonly blocks: readonly Block[];
  readonly norm: nn.LayerNorm;
  readonly head: ColumnLinear;

  constructor(readonly shape: GptShape, mesh: Mesh) {
    const { vocabulary, context, layers, width } = shape;
    this.tokens = new VocabEmbedding(vocabulary, width, mesh);
    this.positions = Tensor.randn([context, width]).mul(0.02);
    this.blocks = Array.from({ length: layers }, () => new Block(shape, mesh));
    this.norm = new nn.LayerNorm(width);
    this.head = new ColumnLinear(width, vocabulary, mesh, { bias: false });
  }
  call(tokens: Tensor): Tensor {
    let x = this.tokens.call(tokens).add(this.positions.shrink([[0, tokens.shape[1]], null]));
    for (const block of this.blocks) x = block.call(x);
    return this.head.call(this.norm.call(x));
  }
  /** The mean cross entropy of the next tokens. */
  loss(tokens: Tensor, next: Tensor): Tensor {
    const logits = this.call(tokens), [batch, length, classes] = logits.shape;
    return logits.reshape([batch * length, classes]).crossEntropy(next.reshape([batch * length]));
  }
}
