/**
 * Workloads of real models beside those that the other benches name: losses and norms with their gradients, statistics
 * over columns, sorting, scans, odd products, stems and depthwise convolutions, decoding. Data, shapes and names are such
 * that other libraries can compute the same: see {@linkcode data}.
 *
 * @module
 */
import { type DType, dtypes, nn, state, Tensor } from "../mod.ts";
import { Gpt2, ResNet50 } from "./models.ts";

/** Sizes for a card with gigabytes, in 16 bits where models are; or for two cores, in float32. */
export type Scale = "big" | "small";

/** One workload at one scale. */
export interface BreadthWorkload {
  /** Its operands, realized. */
  readonly make: () => Tensor[];
  /** What is measured, under `jit` with the operands as arguments; the first result is the one that is checked. */
  readonly graph: (...operands: Tensor[]) => Tensor[];
  readonly flops?: number;
  /** Bytes read and written at least. */
  readonly nbytes?: number;
  /** Whether PyTorch's side is timed by the clock and not by events on a card. */
  readonly isWhole?: boolean;
}

/** A fixed, quick sequence below 2^31 - 1: the same for everybody who has 64-bit integers. */
function sequence(seed: number, shape: readonly number[]): Tensor {
  const count = shape.reduce((a, b) => a * b, 1), prime = 2147483647;
  const i = Tensor.arange(count).cast(dtypes.int64);
  return i.mul(1103515245).add(12345 + seed * 7919).mod(prime).mul(48271).mod(prime);
}

/** Numbers in [-1.7, 1.7), in steps of 3.4 / 65536. */
export function data(seed: number, shape: readonly number[], dtype: DType = dtypes.float32): Tensor {
  const unit = sequence(seed, shape).mod(65536).cast(dtypes.float32).div(65536).sub(0.5).mul(3.4);
  return unit.reshape([...shape]).cast(dtype).contiguous().realize();
}

/** Whole numbers below `below`. */
export function ints(seed: number, below: number, shape: readonly number[]): Tensor {
  return sequence(seed, shape).mod(below).cast(dtypes.int32).reshape([...shape]).contiguous().realize();
}

type Graph = (...operands: Tensor[]) => Tensor;

/** The gradients of a scalar with respect to its first operands. */
function gradients(loss: Graph, count: number): (...operands: Tensor[]) => Tensor[] {
  return (...xs) => loss(...xs).gradient(xs.slice(0, count));
}

function product(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** All workloads of a scale by name. `isNarrow`: 16 bits where models have them. */
export function breadthWorkloads(scale: Scale, isNarrow: boolean = scale === "big"): Record<string, BreadthWorkload> {
  const isBig = scale === "big";
  const of = <T>(big: T, small: T): T => isBig ? big : small;
  const bf16 = isNarrow ? dtypes.bfloat16 : dtypes.float32, f16 = isNarrow ? dtypes.float16 : dtypes.float32;
  const { itemsize } = bf16;
  const out: Record<string, BreadthWorkload> = {};
  const add = (name: string, make: () => Tensor[], graph: Graph, sizes: { flops?: number; nbytes?: number }): void => {
    out[name] = { make, graph: (...xs) => [graph(...xs)], ...sizes };
  };
  const addGradient = (
    name: string,
    make: () => Tensor[],
    count: number,
    loss: Graph,
    sizes: { flops?: number; nbytes?: number },
  ): void => {
    out[name] = { make, graph: gradients(loss, count), ...sizes };
  };

  // products
  const [batch, rows, inner, columns] = of([64, 1024, 1024, 512], [16, 256, 256, 128]);
  add("bmm", () => [data(1, [batch, rows, inner], f16), data(2, [batch, inner, columns], f16)], (x, y) => x.matmul(y), {
    flops: 2 * batch * rows * inner * columns,
  });
  const [m, k, n] = of([3000, 5000, 7000], [700, 1100, 900]);
  add("matmul_odd", () => [data(1, [m, k], bf16), data(2, [k, n], bf16)], (x, y) => x.matmul(y), {
    flops: 2 * m * k * n,
  });
  const [tokens, width, hidden] = of([4096, 4096, 11008], [256, 512, 1376]);
  const weights = (seed: number, a: number, b: number) => data(seed, [a, b], bf16).div(32).contiguous().realize();
  add(
    "swiglu",
    () => [
      data(1, [tokens, width], bf16),
      weights(2, width, hidden),
      weights(3, width, hidden),
      weights(4, hidden, width),
    ],
    (x, gate, up, down) => x.matmul(gate).silu().mul(x.matmul(up)).matmul(down),
    { flops: 6 * tokens * width * hidden },
  );

  // rows and columns
  const wide = of([16384, 8192], [2048, 2048]);
  add(
    "rms_residual",
    () => [data(1, wide, bf16), data(2, wide, bf16), data(3, [wide[1]], bf16)],
    (x, y, weight) => {
      const sum = x.add(y), f = sum.float();
      return f.mul(f.square().mean(-1, { keepdim: true }).add(1e-6).rsqrt()).cast(sum.dtype).mul(weight);
    },
    { nbytes: 3 * product(wide) * itemsize },
  );
  const classes = of([8192, 50257], [512, 8192]);
  const labeled = () => [data(1, classes), ints(2, classes[1], [classes[0]])];
  const loss: Graph = (x, y) => x.sparseCategoricalCrossentropy(y);
  add("cross_entropy", labeled, loss, { nbytes: 4 * product(classes) });
  addGradient("cross_entropy_grad", labeled, 1, loss, { nbytes: 8 * product(classes) });
  const normed = of([16384, 4096], [1024, 1024]);
  addGradient(
    "layernorm_grad",
    () => [data(1, normed), data(2, [normed[1]]), data(3, [normed[1]]), data(4, normed)],
    3,
    (x, weight, bias, out) => x.layernorm().mul(weight).add(bias).mul(out).sum(),
    { nbytes: 12 * product(normed) },
  );
  const tall = of([4096, 16384], [1024, 4096]);
  add("softmax_columns", () => [data(1, tall)], (x) => x.softmax(0), { nbytes: 8 * product(tall) });
  const scanned = of([4096, 32768], [512, 8192]);
  add("cumsum_rows", () => [data(1, scanned)], (x) => x.cumsum(1), { nbytes: 8 * product(scanned) });
  const searched = of([16384, 32000], [1024, 8192]);
  add("argmax_rows", () => [data(1, searched)], (x) => x.argmax(1), { nbytes: 4 * product(searched) });
  const ranked = of([1024, 32000], [64, 8192]);
  add("topk50", () => [data(1, ranked)], (x) => x.topk(50, 1)[0], { nbytes: 4 * product(ranked) });
  const sorted = of([4096, 8192], [64, 4096]);
  add("sort_rows", () => [data(1, sorted)], (x) => x.sort(1)[0], { nbytes: 8 * product(sorted) });
  const signal = of([4096, 4096], [256, 4096]);
  add("fft_rows", () => [data(1, signal)], (x) => x.rfft().square().sum(-1).sqrt(), { nbytes: 4 * product(signal) });
  const masked = of([8192, 8192], [1024, 1024]);
  add(
    "masked_mean",
    () => [data(1, masked), data(2, masked)],
    (x, y) => y.gt(0).where(x, 0).sum(1).div(y.gt(0).sum(1)),
    { nbytes: 8 * product(masked) },
  );
  const spread = of([65536, 4096], [8192, 512]);
  add("var_columns", () => [data(1, spread)], (x) => x.var(0), { nbytes: 4 * product(spread) });
  const [points, features] = of([4096, 64], [512, 64]);
  add(
    "pairwise",
    () => [data(1, [points, features]), data(2, [points, features])],
    (x, y) => x.unsqueeze(1).sub(y.unsqueeze(0)).square().sum(-1),
    { flops: 3 * points ** 2 * features },
  );

  // movement and indexing
  const side = of(16384, 4096);
  add("transpose", () => [data(1, [side, side])], (x) => x.transpose().contiguous(), { nbytes: 8 * side * side });
  const heads = of([64, 512, 16, 64], [8, 256, 8, 64]);
  add("permute_heads", () => [data(1, heads, bf16)], (x) => x.permute([0, 2, 1, 3]).contiguous(), {
    nbytes: 2 * product(heads) * itemsize,
  });
  const [vocabulary, dim, sequences, length] = of([50257, 768, 64, 1024], [8192, 256, 8, 256]);
  const looked = () => [data(1, [vocabulary, dim]), ints(2, vocabulary, [sequences, length])];
  const lookUp: Graph = (x, y) => x.at(y);
  add("embedding", looked, lookUp, { nbytes: 8 * dim * sequences * length });
  addGradient("embedding_grad", looked, 1, (x, y) => lookUp(x, y).square().sum(), {
    nbytes: 4 * vocabulary * dim + 8 * dim * sequences * length,
  });
  const [edges, each, places] = of([65536, 1024, 4096], [4096, 256, 512]);
  add(
    "scatter_add",
    () => [data(1, [edges, each]), ints(2, places, [edges])],
    (x, i) => Tensor.zeros([places, each]).scatterReduce(0, i.unsqueeze(1).expand([edges, each]), x, "sum"),
    { nbytes: 4 * edges * each },
  );

  // images
  const images = of(64, 4);
  add(
    "conv_stem",
    () => [data(1, [images, 3, 224, 224], f16), data(2, [64, 3, 7, 7], f16)],
    (x, y) => x.conv2d(y, undefined, { stride: 2, padding: 3 }),
    { flops: 2 * images * 64 * 112 * 112 * 147 },
  );
  const deep = of([64, 256, 56, 56], [4, 64, 56, 56]);
  add(
    "conv_depthwise",
    () => [data(1, deep, f16), data(2, [deep[1], 1, 3, 3], f16)],
    (x, y) => x.conv2d(y, undefined, { padding: 1, groups: deep[1] }),
    { nbytes: 2 * product(deep) * itemsize },
  );
  const block = of([64, 128, 28, 28], [8, 32, 28, 28]);
  const sixteenth = (seed: number, shape: number[]) => data(seed, shape, f16).div(16).contiguous().realize();
  addGradient(
    "conv_grad",
    () => [data(1, block, f16), sixteenth(2, [block[1], block[1], 3, 3]), sixteenth(3, block)],
    2,
    (x, y, out) => x.conv2d(y, undefined, { padding: 1 }).mul(out).sum(),
    { flops: 6 * product(block) * block[1] * 9 },
  );
  const maps = of([32, 512, 64, 64], [4, 64, 64, 64]);
  add(
    "groupnorm",
    () => [data(1, maps)],
    (x) => x.reshape([maps[0], 32, -1]).layernorm(-1, { eps: 1e-5 }).reshape(maps),
    { nbytes: 8 * product(maps) },
  );
  add(
    "batchnorm_train",
    () => [data(1, maps)],
    (x) => {
      const [variance, mean] = x.varMean([0, 2, 3], { correction: 0, keepdim: true });
      return x.sub(mean).mul(variance.add(1e-5).rsqrt());
    },
    { nbytes: 8 * product(maps) },
  );
  const pooled = of([64, 64, 112, 112], [4, 32, 112, 112]);
  add("maxpool", () => [data(1, pooled)], (x) => x.maxPool2d(3, { stride: 2, padding: 1 }), {
    nbytes: 5 * product(pooled),
  });

  // attention
  const attended = of([8, 16, 2048, 64], [2, 8, 256, 64]), [, , positions, size] = attended;
  const queries = () => [1, 2, 3].map((seed) => data(seed, attended, bf16));
  const attend: Graph = (q, k, v) => q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
  const scores = attended[0] * attended[1] * positions ** 2 * size;
  add("attention_64", queries, attend, { flops: 2 * scores });
  addGradient("attention_grad", queries, 3, (...x) => attend(...x).float().sum(), { flops: 7 * scores });
  const [users, many, few, cached, each1] = of([32, 32, 8, 8192, 128], [4, 8, 2, 2048, 64]);
  add(
    "attention_decode",
    () => [
      data(1, [users, many, 1, each1], bf16),
      data(2, [users, few, cached, each1], bf16),
      data(3, [users, few, cached, each1], bf16),
    ],
    (q, k, v) => q.scaledDotProductAttention(k, v, undefined, { enableGqa: true }),
    { nbytes: 2 * users * few * cached * each1 * itemsize },
  );

  // models
  const [layers, modelDim, modelHeads, words, context, together] = of(
    [12, 768, 12, 50257, 1024, 4],
    [4, 256, 4, 4096, 128, 4],
  );
  let step: ((x: Tensor, y: Tensor) => Tensor) | undefined;
  out.gpt_train = {
    make: () => {
      const model = new Gpt2(layers, modelDim, modelHeads, words, context);
      const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 3e-4 });
      step = (x, y) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const loss = model.call(x).flatten(0, 1).sparseCategoricalCrossentropy(y.flatten()).backward();
          optimizer.step();
          return loss;
        });
      return [ints(1, words, [together, context]), ints(2, words, [together, context])];
    },
    graph: (x, y) => [step!(x, y)],
    isWhole: true,
  };
  const photos = of(64, 4);
  let network: ResNet50 | undefined;
  out.resnet50 = {
    make: () => {
      network = new ResNet50();
      if (isNarrow) {
        const narrow = state.getStateDict(network);
        for (const t of Object.values(narrow)) if (t.dtype === dtypes.float32) t.replace(t.half());
      }
      return [data(1, [photos, 3, 224, 224], f16)];
    },
    graph: (x) => [network!.call(x)],
    isWhole: true,
  };
  return out;
}
