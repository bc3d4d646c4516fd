/**
 * Networks that tests write as ONNX models: functions, arguments, which axes are free, and which operators a reader of the
 * model is to find. As a program it runs each in onnxruntime beside our own results, of the sizes given and of others:
 * `deno run -A --no-check tests/onnx/saved_models.ts` ends with 1 where one differs by more than 1e-5 of the largest value.
 *
 * @module
 */
import { nn, Tensor } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { compareModels, onnxruntime } from "./against_onnxruntime.ts";

/** A network. */
export interface SavedModel {
  readonly f: (...args: Tensor[]) => unknown;
  readonly args: readonly Tensor[];
  /** Arguments of other sizes, where axes are free. */
  readonly others?: readonly Tensor[];
  readonly options?: onnx.SaveOptions;
  /** Operators that it has to have. */
  readonly has: readonly string[];
}

/** Floats from -1 to 1 that repeat at no axis. */
function wave(...shape: number[]): Tensor {
  const n = shape.reduce((a, b) => a * b, 1);
  return new Tensor(Float32Array.from({ length: n }, (_, i) => Math.sin(i * 1.7 + 0.3))).reshape(shape).realize();
}
const ids = (rows: number[][]): Tensor => new Tensor(rows, { dtype: "int32" }).realize();

/** What the normal distribution has far out, where it is small. */
function tailsOf(x: Tensor): Tensor[] {
  return [x.erfc(), x.erfcx(), x.neg().ndtr(), x.neg().logNdtr()];
}

class Block {
  readonly table = new nn.Embedding(11, 8);
  readonly norm1 = new nn.LayerNorm(8);
  readonly query = new nn.Linear(8, 8);
  readonly key = new nn.Linear(8, 8);
  readonly value = new nn.Linear(8, 8);
  readonly norm2 = new nn.LayerNorm(8);
  readonly up = new nn.Linear(8, 16);
  readonly down = new nn.Linear(16, 8);
  call(tokens: Tensor): Tensor {
    let x = this.table.call(tokens);
    const [n, t] = x.shape, heads = (y: Tensor) => y.reshape([n, t, 2, 4]).transpose(1, 2), y = this.norm1.call(x);
    const [q, k, v] = [this.query, this.key, this.value].map((l) => heads(l.call(y)));
    const seen = q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
    x = x.add(seen.transpose(1, 2).reshape([n, t, 8]));
    x = x.add(this.down.call(this.up.call(this.norm2.call(x)).gelu()));
    return x.matmul(this.table.weight.transpose());
  }
}

/** All networks, made anew. */
export function savedModels(): Record<string, SavedModel> {
  Tensor.manualSeed(3);
  const l1 = new nn.Linear(6, 5), l2 = new nn.Linear(5, 3), block = new Block();
  const conv1 = new nn.Conv2d(3, 8, 3, { padding: 1, stride: 2 }), norm = new nn.BatchNorm(8);
  const conv2 = new nn.Conv2d(8, 4, [3, 1], { groups: 2, dilation: 2, padding: [2, 0] });
  const down1 = new nn.Conv2d(2, 4, 3, { stride: 2, padding: 1 }), groups = new nn.GroupNorm(2, 6);
  const down2 = new nn.Conv2d(4, 6, 3, { stride: 2, padding: 1 }), up2 = new nn.ConvTranspose2d(6, 2, 2, { stride: 2 });
  const up1 = new nn.ConvTranspose2d(6, 2, 2, { stride: 2 });
  const far = new Tensor(Float32Array.from({ length: 40 }, (_, i) => 1 + i * 0.2051)).realize();
  const lstm = new nn.LSTM(4, 5, { batchFirst: true }), up = new nn.ConvTranspose2d(3, 2, 3, { stride: 2 });
  return {
    mlp: {
      f: (x) => l2.call(l1.call(x).gelu()).softmax(),
      args: [wave(4, 6)],
      others: [wave(7, 6)],
      options: { weights: { l1, l2 }, dynamic: { x: { 0: "batch" } } },
      has: ["Gemm", "Gelu", "Gemm", "Softmax"],
    },
    convnet: {
      f: (x) => conv2.call(norm.call(conv1.call(x)).relu().maxPool2d(2)).mean([2, 3]).logSoftmax(),
      args: [wave(2, 3, 16, 16)],
      others: [wave(5, 3, 16, 16)],
      options: { weights: { conv1, norm, conv2 }, dynamic: { x: { 0: "batch" } } },
      has: ["Conv", "Relu", "MaxPool", "Conv", "ReduceMean", "LogSoftmax"],
    },
    pools: {
      f: (x) => ({ most: x.maxPool2d(3, { stride: 2, padding: 1 }), mean: x.avgPool2d(3, { stride: 1, padding: 1 }) }),
      args: [wave(2, 3, 9, 9)],
      has: ["MaxPool", "AveragePool"],
    },
    block: {
      f: (tokens) => block.call(tokens),
      args: [ids([[1, 2, 3, 4], [5, 6, 7, 10]])],
      others: [ids([[3, 1, 4, 1, 5, 9]])],
      options: { weights: block, dynamic: { tokens: { 0: "batch", 1: "time" } } },
      has: ["Gather", "LayerNormalization", "MatMul", "Softmax", "MatMul", "LayerNormalization", "Gelu"],
    },
    lstm: {
      f: (x) => lstm.call(x)[0],
      args: [wave(2, 7, 4)],
      others: [wave(3, 7, 4)],
      options: { weights: lstm, dynamic: { x: { 0: "batch" } } },
      has: ["MatMul", "Gemm", "Sigmoid", "Tanh", "Concat"],
    },
    upscaler: { f: (x) => up.call(x).tanh(), args: [wave(1, 3, 5, 5)], options: { weights: up }, has: ["Tanh"] },
    places: {
      f: (
        x,
        i,
      ) => [Tensor.cat([x, x.sin()], 1).cumsum(1), x.argmax(1), x.gather(1, i), x.flip(1).pad([[0, 1], [2, 0]])],
      args: [wave(2, 6), ids([[1, 2, 0], [5, 3, 1]])],
      has: ["Sin", "Concat", "CumSum", "ArgMax", "GatherElements", "Slice", "Pad"],
    },
    scatters: {
      // places beyond both ends go nowhere or count from the end, and some are there twice
      f: (x, i, y) => [
        x.scatterReduce(1, i, y, "sum"),
        x.scatterReduce(1, i, y, "prod"),
        x.mul(9).cast("int32").scatterReduce(1, i, y.mul(9).cast("int32"), "amax"),
        x.scatterReduce(0, i.abs().mod(2), y, "sum", false),
      ],
      args: [wave(2, 5), ids([[1, 2, -1, 1], [0, 1, 1, -5]]), wave(2, 4)],
      has: ["ScatterElements", "ScatterElements", "ScatterElements"],
    },
    // halved twice and put together again: of pictures whose sizes are multiples of 4
    halves: {
      f: (x) => {
        const wide = down1.call(x).relu(), small = groups.call(down2.call(wide)).silu();
        return Tensor.cat([x, up1.call(Tensor.cat([wide, up2.call(small)], 1))], 1).mean([2, 3]);
      },
      args: [wave(1, 2, 8, 12)],
      others: [wave(3, 2, 20, 16)],
      options: { weights: { down1, down2, up1, up2, groups }, dynamic: { x: { 0: "batch", 2: "high", 3: "wide" } } },
      has: ["Conv", "Relu", "Conv", "Concat", "ReduceMean"],
    },
    // by how much they are off from what is wanted, four times: no more than if the square were the exponent as it is
    tails: {
      f: (x, ...wanted) => tailsOf(x).map((y, i) => y.div(wanted[i]).sub(1).mul(4)),
      args: [far, ...tailsOf(far.double()).map((y) => y.float().realize())],
      has: ["Floor", "Exp"],
    },
    // fewer distinct values than places: those beyond pick nothing
    distinct: {
      f: (x) => x.unique({ size: 9, fillValue: -1 }),
      args: [ids([[3, 1, 3, 2], [1, 1, 5, 3]])],
      has: ["TopK"],
    },
    chosen: {
      f: (x) => x.maskedSelect(x.gt(2), { size: 9, fillValue: -1 }),
      args: [ids([[3, 1, 3, 2], [1, 1, 5, 3]])],
      has: ["Where"],
    },
    // an input is called as results without a name are
    criterion: {
      f: (x, y) => x.crossEntropy(y),
      args: [wave(3, 5), ids([[0, 4, 1]]).reshape([3])],
      others: [wave(4, 5), ids([[2, 2, 0, 3]]).reshape([4])],
      options: { dynamic: { x: { 0: "batch" }, y: { 0: "batch" } } },
      has: ["LogSoftmax", "GatherElements", "ReduceMean"],
    },
    embeddingGradient: {
      f: (w, i) => w.at(i).square().sum().gradient([w])[0],
      args: [wave(7, 3), ids([[0, 1, 6], [1, 1, 2]])],
      others: [wave(7, 3), ids([[5, 1, 6, 5], [1, 1, 2, 0], [3, 3, 3, 3]])],
      options: { dynamic: { i: { 0: "batch", 1: "time" } } },
      has: ["Gather", "ScatterElements"],
    },
    whole: {
      f: (
        a,
        b,
      ) => [
        a.floorDiv(b),
        a.mod(b),
        a.bitwiseXor(b),
        a.maximum(b),
        a.lshift(2),
        a.rshift(1),
        a.lt(b).where(a, b),
        a.reshape([1, 1, 2, 2]).conv2d(b.reshape([1, 1, 2, 2]), undefined, { padding: 1 }),
      ],
      args: [ids([[7, -7, 2147483, -2147483]]), ids([[2, -3, 5, -1]])],
      has: ["Mod", "BitwiseXor", "Max", "BitShift", "Less", "Where"],
    },
  };
}

if (import.meta.main) {
  const ort = await onnxruntime();
  let wrong = 0;
  for (const [name, { f, args, others, options }] of Object.entries(savedModels())) {
    const bytes = await onnx.toBytes(f, args, options), model = await onnx.load(bytes);
    for (const given of [args, ...(others === undefined ? [] : [others])]) {
      const inputs = Object.fromEntries(model.inputs.map((p, i) => [p.name, given[i]]));
      for (const { name: output, difference, largest } of await compareModels(ort, bytes, inputs, model)) {
        const isRight = difference <= 1e-5 * Math.max(1, largest);
        if (!isRight) wrong++;
        console.log(`${name} ${output} [${given[0].shape}]: ${difference.toExponential(1)}${isRight ? "" : ", WRONG"}`);
      }
    }
  }
  Deno.exit(wrong > 0 ? 1 : 0);
}
