/**
 * Models that benches build: ResNet-50, a 12-layer GPT-2, the MNIST convnet, a small MLP. Weights are as layers make them.
 *
 * @module
 */
import { nn, Tensor } from "../mod.ts";

/** Anything with `call`. */
export interface Layer {
  call(x: Tensor): Tensor;
}

/** A step of training a classifier; gives the loss of the batch before it. */
export function trainStep(model: Layer, optimizer: nn.optim.Optimizer, x: Tensor, labels: Tensor): Tensor {
  return Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = model.call(x).sparseCategoricalCrossentropy(labels).backward();
    optimizer.step();
    return loss;
  });
}

/** A residual block of ResNet-50: 1x1, 3x3 and 1x1 convolutions. */
class Bottleneck {
  readonly conv1: nn.Conv2d;
  readonly bn1: nn.BatchNorm;
  readonly conv2: nn.Conv2d;
  readonly bn2: nn.BatchNorm;
  readonly conv3: nn.Conv2d;
  readonly bn3: nn.BatchNorm;
  readonly downsample: readonly [nn.Conv2d, nn.BatchNorm] | undefined;

  constructor(inPlanes: number, planes: number, stride: number) {
    const out = planes * 4;
    this.conv1 = new nn.Conv2d(inPlanes, planes, 1, { bias: false });
    this.bn1 = new nn.BatchNorm(planes);
    this.conv2 = new nn.Conv2d(planes, planes, 3, { padding: 1, stride, bias: false });
    this.bn2 = new nn.BatchNorm(planes);
    this.conv3 = new nn.Conv2d(planes, out, 1, { bias: false });
    this.bn3 = new nn.BatchNorm(out);
    this.downsample = stride !== 1 || inPlanes !== out
      ? [new nn.Conv2d(inPlanes, out, 1, { stride, bias: false }), new nn.BatchNorm(out)]
      : undefined;
  }
  call(x: Tensor): Tensor {
    let y = this.bn1.call(this.conv1.call(x)).relu();
    y = this.bn2.call(this.conv2.call(y)).relu();
    y = this.bn3.call(this.conv3.call(y));
    const skip = this.downsample === undefined ? x : this.downsample[1].call(this.downsample[0].call(x));
    return y.add(skip).relu();
  }
}

/** ResNet-50 (He et al., arXiv 1512.03385). `[N, 3, 224, 224]` to `[N, 1000]`. */
export class ResNet50 {
  readonly conv1: nn.Conv2d = new nn.Conv2d(3, 64, 7, { stride: 2, padding: 3, bias: false });
  readonly bn1: nn.BatchNorm = new nn.BatchNorm(64);
  readonly blocks: Layer[] = [];
  readonly fc: nn.Linear = new nn.Linear(2048, 1000);

  constructor() {
    let planes = 64;
    for (const [i, count] of [3, 4, 6, 3].entries()) {
      for (let k = 0; k < count; k++) {
        this.blocks.push(new Bottleneck(planes, 64 << i, k === 0 && i > 0 ? 2 : 1));
        planes = (64 << i) * 4;
      }
    }
  }
  call(x: Tensor): Tensor {
    x = this.bn1.call(this.conv1.call(x)).relu().pad([1, 1, 1, 1]).maxPool2d(3, { stride: 2 });
    for (const block of this.blocks) x = block.call(x);
    return this.fc.call(x.mean([2, 3]));
  }
}

/** A layer of GPT-2. */
class Block {
  readonly ln1: nn.LayerNorm;
  readonly qkv: nn.Linear;
  readonly proj: nn.Linear;
  readonly ln2: nn.LayerNorm;
  readonly fc: nn.Linear;
  readonly out: nn.Linear;
  constructor(readonly dim: number, readonly heads: number) {
    this.ln1 = new nn.LayerNorm(dim);
    this.qkv = new nn.Linear(dim, 3 * dim);
    this.proj = new nn.Linear(dim, dim);
    this.ln2 = new nn.LayerNorm(dim);
    this.fc = new nn.Linear(dim, 4 * dim);
    this.out = new nn.Linear(4 * dim, dim);
  }
  call(x: Tensor): Tensor {
    const [n, t] = x.shape, { dim, heads } = this;
    const [q, k, v] = this.qkv.call(this.ln1.call(x)).chunk(3, 2).map((part) =>
      part.reshape([n, t, heads, dim / heads]).permute([0, 2, 1, 3])
    );
    const mixed = q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
    x = x.add(this.proj.call(mixed.permute([0, 2, 1, 3]).reshape([n, t, dim])));
    return x.add(this.out.call(this.fc.call(this.ln2.call(x)).gelu({ approximate: "tanh" })));
  }
}

/** GPT-2 small: 12 layers, 12 heads, 768 wide. int32 `[N, T]` to `[N, T, 50257]`. */
export class Gpt2 {
  readonly wte: nn.Embedding;
  readonly wpe: nn.Embedding;
  readonly blocks: Block[];
  readonly lnF: nn.LayerNorm;
  constructor(
    layers: number = 12,
    dim: number = 768,
    heads: number = 12,
    vocab: number = 50257,
    context: number = 1024,
  ) {
    this.wte = new nn.Embedding(vocab, dim);
    this.wpe = new nn.Embedding(context, dim);
    this.blocks = Array.from({ length: layers }, () => new Block(dim, heads));
    this.lnF = new nn.LayerNorm(dim);
  }
  call(tokens: Tensor): Tensor {
    const positions = Tensor.arange(tokens.shape[1]).reshape([1, -1]);
    let x = this.wte.call(tokens).add(this.wpe.call(positions));
    for (const block of this.blocks) x = block.call(x);
    return this.lnF.call(x).matmul(this.wte.weight.transpose());
  }
}

/** The convnet of tinygrad's MNIST example. `[N, 1, 28, 28]` to `[N, 10]`. */
export class MnistConvNet {
  readonly c1: nn.Conv2d = new nn.Conv2d(1, 32, 5);
  readonly c2: nn.Conv2d = new nn.Conv2d(32, 32, 5);
  readonly bn1: nn.BatchNorm = new nn.BatchNorm(32);
  readonly c3: nn.Conv2d = new nn.Conv2d(32, 64, 3);
  readonly c4: nn.Conv2d = new nn.Conv2d(64, 64, 3);
  readonly bn2: nn.BatchNorm = new nn.BatchNorm(64);
  readonly head: nn.Linear = new nn.Linear(576, 10);
  call(x: Tensor): Tensor {
    x = this.bn1.call(this.c2.call(this.c1.call(x).relu()).relu()).maxPool2d(2);
    x = this.bn2.call(this.c4.call(this.c3.call(x).relu()).relu()).maxPool2d(2);
    return this.head.call(x.flatten(1));
  }
}

/** 784 to 512 to 10. */
export class Mlp {
  readonly l1: nn.Linear = new nn.Linear(784, 512);
  readonly l2: nn.Linear = new nn.Linear(512, 10);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).relu());
  }
}
