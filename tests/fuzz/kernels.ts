/**
 * Random kernels of every family at the sizes of real models: what code generation decides for each must be possible.
 *
 *     deno run -A tests/fuzz/kernels.ts [--count N] [--seed S] [--writer CUDA]
 *
 * Elementwise graphs with broadcasts, transposes, slices and gathers, reductions over any axes, contractions, convolutions
 * and pools with their gradients, scans, scatters, sorts, transforms. They are compiled for a machine that is not there (snapshot_writers.ts), so that
 * large sizes cost nothing; an error, or a program beyond the limits of the machine, is a finding.
 *
 * @module
 */
import { dtypes, Tensor } from "../../mod.ts";
import { parseArgs } from "@std/cli/parse-args";
import { openObserving, WRITERS } from "../support/snapshot_writers.ts";
import { Random } from "../support/random.ts";

/** Draws from a seed. */
export class Draw extends Random {
  /** @param most elements that a tensor may have */
  constructor(seed: number, readonly most: number) {
    super(seed);
  }
  /** An extent: round, odd, small or large. */
  size(most = 4096): number {
    const n = this.pick([
      1,
      2,
      3,
      5,
      7,
      8,
      16,
      24,
      31,
      32,
      49,
      56,
      64,
      96,
      100,
      112,
      128,
      224,
      256,
      257,
      512,
      768,
      1000,
    ]);
    return this.below(4) === 0 ? Math.min(most, this.pick([1024, 2048, 3000, 4096, 8192])) : Math.min(most, n);
  }
}

/** Elements of the largest tensor: a WebGPU binding has 128 MB. */
const LARGEST: Readonly<Record<string, number>> = { CUDA: 2 ** 28, PTX: 2 ** 28, CLANG: 2 ** 26, WEBGPU: 2 ** 22 };

/** A random program: its text and its results. */
interface Made {
  readonly text: string;
  readonly results: Tensor[];
}
type Family = (d: Draw, empty: (...shape: number[]) => Tensor) => Made;

function axesOf(d: Draw, rank: number): number[] {
  const axes = Array.from({ length: rank }, (_, i) => i).filter(() => d.below(2) === 0);
  return axes.length === 0 ? [d.below(rank)] : axes;
}

function shapeOf(d: Draw, rank: number): number[] {
  const shape: number[] = [];
  let left = d.most;
  for (let i = 0; i < rank; i++) {
    const n = Math.min(d.size(), Math.max(1, left));
    shape.push(n);
    left = Math.floor(left / n);
  }
  return shape;
}

/** Random kernels by family. */
export const FAMILIES: Readonly<Record<string, Family>> = {
  elementwise(d, empty) {
    const shape = shapeOf(d, 1 + d.below(4)), x = empty(...shape);
    const y = empty(...shape.map((n) => d.below(3) === 0 ? 1 : n)), order = shape.map((_, i) => i);
    order.sort(() => d.below(3) - 1);
    const z = x.mul(y).add(1).exp(),
      out = d.below(2) === 0 ? z.permute(order).contiguous() : z.sum(d.below(shape.length));
    return { text: `[${shape}] times [${y.shape}] in order ${order}`, results: [out] };
  },
  view(d, empty) {
    const shape = shapeOf(d, 2 + d.below(2)), x = empty(...shape), [rows] = shape, step = d.pick([1, 2, 3]);
    const kind = d.pick(["strided", "flipped", "gathered", "shifted"]);
    const places = empty(d.size()).cast(dtypes.int32).contiguous();
    const y = kind === "strided"
      ? x.at(...shape.map((n) => [0, n, Math.min(n, step)] as [number, number, number]))
      : kind === "flipped"
      ? x.flip([shape.length - 1])
      : kind === "gathered"
      ? x.at(places)
      : x.pad([...shape.slice(1).flatMap(() => [0, 0]), 1, 0]).shrink([
        [0, rows],
        ...shape.slice(1).map((n) => [0, n] as [number, number]),
      ]);
    const out = d.below(2) === 0 ? y.square().add(1) : y.sum(d.below(shape.length));
    return { text: `${kind} [${shape}], step ${step}, ${places.shape} places`, results: [out] };
  },
  pair(d, empty) {
    const [m, k, n] = [d.size(512), d.size(512), d.size(512)], x = empty(m, k), [v, w] = [empty(k, n), empty(n, k)];
    const a = d.below(2) === 0 ? x.mul(empty(k)).relu() : x, gate = a.matmul(v), up = a.matmul(w.transpose(0, 1));
    const text = `products of ${a === x ? "" : "a computed "}${m}x${k} by two of ${k}x${n}`;
    return { text, results: [gate.silu().mul(up)] };
  },
  depthwise(d, empty) {
    const channels = d.pick([8, 32, 96]),
      kernel = d.pick([3, 5, 7]),
      side = d.pick([14, 28, 57]),
      images = d.pick([1, 4]);
    const x = empty(images, channels, side, side), isTransposed = d.below(3) === 0, isGradient = d.below(3) === 0;
    const w = isTransposed ? empty(channels, d.pick([4, 16]), kernel, kernel) : empty(channels, 1, kernel, kernel);
    const out = isTransposed
      ? x.convTranspose2d(w, undefined, { stride: 2 })
      : x.conv2d(w, undefined, { padding: kernel >> 1, groups: channels });
    const text = `${isTransposed ? "transposed" : "depthwise"} convolution of [${x.shape}] by [${w.shape}]`;
    return {
      text: isGradient ? `${text}, gradient` : text,
      results: isGradient ? out.square().sum().gradient([x, w]) : [out],
    };
  },
  reduction(d, empty) {
    const shape = shapeOf(d, 1 + d.below(4)), x = empty(...shape), axes = axesOf(d, shape.length);
    const kind = d.pick(["sum", "mean", "max", "var", "argmax", "logsumexp", "any"]);
    const [first] = axes;
    const out = kind === "var"
      ? x.var(axes)
      : kind === "argmax"
      ? x.argmax(first)
      : kind === "logsumexp"
      ? x.logsumexp(first)
      : kind === "any"
      ? x.gt(0).any(axes)
      : kind === "max"
      ? x.max(axes)
      : kind === "mean"
      ? x.mean(axes)
      : x.sum(axes);
    return { text: `${kind} of [${shape}] over [${axes}]`, results: [out] };
  },
  norm(d, empty) {
    const shape = shapeOf(d, 2 + d.below(3)), x = empty(...shape), axes = axesOf(d, shape.length);
    const [v, m] = x.varMean(axes, { keepdim: true }), out = x.sub(m).mul(v.add(1e-5).rsqrt());
    const isGradient = d.below(3) === 0;
    const results = isGradient ? out.mul(empty(...shape)).sum().gradient([x]) : [out];
    return { text: `norm of [${shape}] over [${axes}]${isGradient ? ", gradient" : ""}`, results };
  },
  softmax(d, empty) {
    const shape = shapeOf(d, 1 + d.below(3)), x = empty(...shape), axis = d.below(shape.length);
    const out = d.below(2) === 0 ? x.softmax(axis) : x.logSoftmax(axis).mul(empty(...shape)).sum(axis);
    return { text: `softmax of [${shape}] along ${axis}`, results: [out] };
  },
  product(d, empty) {
    const [m, k, n] = [d.size(), d.size(), d.size()], batch = d.below(3) === 0 ? [d.size(64)] : [];
    const dtype = d.pick([dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float32]),
      isTurned = d.below(3) === 0;
    const a = empty(...batch, m, k).cast(dtype).contiguous();
    const b = (isTurned ? empty(...batch, n, k).transpose(-1, -2) : empty(...batch, k, n)).cast(dtype);
    let out = a.matmul(d.below(2) === 0 ? b.contiguous() : b);
    if (d.below(2) === 0) out = out.add(empty(n).cast(dtype)).relu();
    if (d.below(6) === 0) out = out.mul(a.matmul(b));
    return { text: `${dtype} product [${batch}] ${m}x${k}x${n}${isTurned ? " turned" : ""}`, results: [out] };
  },
  convolution(d, empty) {
    const kernel = d.pick([1, 2, 3, 5, 7]),
      stride = d.pick([1, 1, 2]),
      padding = d.below(kernel),
      dilation = d.pick([1, 1, 2]);
    const groups = d.pick([1, 1, 2, 8]),
      channels = groups * d.pick([1, 3, 4, 16, 32]),
      outs = groups * d.pick([1, 4, 8, 32]);
    const side = d.pick([14, 28, 56, 112, 57]),
      images = d.pick([1, 2, 8, 64]),
      dtype = d.pick([dtypes.float32, dtypes.float16]);
    const x = empty(images, channels, side, side).cast(dtype).contiguous();
    const w = empty(outs, channels / groups, kernel, kernel).cast(dtype).contiguous();
    const out = x.conv2d(w, undefined, { stride, padding, dilation, groups }), isGradient = d.below(3) === 0;
    const text = `${dtype} convolution of [${x.shape}] by [${w.shape}], stride ${stride}, padding ${padding}, ` +
      `dilation ${dilation}, groups ${groups}${isGradient ? ", gradient" : ""}`;
    return { text, results: isGradient ? out.float().square().sum().gradient([x, w]) : [out] };
  },
  pool(d, empty) {
    const size = d.pick([2, 3, 5]),
      stride = d.pick([1, 2, 3]),
      shape = [d.pick([1, 4, 64]), d.pick([3, 64]), d.size(224), d.size(224)];
    shape[2] = Math.max(8, shape[2]);
    shape[3] = Math.max(8, shape[3]);
    const x = empty(...shape), isMax = d.below(2) === 0, isGradient = d.below(3) === 0;
    const out = isMax ? x.maxPool2d(size, { stride, padding: 1 }) : x.avgPool2d(size, { stride });
    const text = `${isMax ? "max" : "average"} pool of [${shape}] by ${size}, stride ${stride}`;
    return {
      text: isGradient ? `${text}, gradient` : text,
      results: isGradient ? out.square().sum().gradient([x]) : [out],
    };
  },
  scan(d, empty) {
    const shape = shapeOf(d, 1 + d.below(3)), axis = d.below(shape.length), x = empty(...shape);
    const out = d.below(2) === 0 ? x.cumsum(axis) : x.cummax(axis)[0];
    return { text: `scan of [${shape}] along ${axis}`, results: [out] };
  },
  scatter(d, empty) {
    const [rows, width, places] = [d.size(65536), d.size(1024), d.size()], isGradient = d.below(2) === 0;
    const i = empty(rows).cast(dtypes.int32).contiguous();
    const text = `${isGradient ? "gradient of an embedding" : "scatter"} of ${rows}x${width} to ${places}`;
    if (isGradient) {
      const table = empty(places, width);
      return { text, results: table.at(i).square().sum().gradient([table]) };
    }
    const index = i.unsqueeze(1).expand([rows, width]);
    return { text, results: [Tensor.zeros([places, width]).scatterReduce(0, index, empty(rows, width), "sum")] };
  },
  network(d, empty) {
    const rows = d.pick([1, 3, 64, 1000]), n = d.pick([33, 128, 1000, 4096, 8192, 50257]), axis = d.below(2);
    const dtype = d.pick([dtypes.float32, dtypes.float16, dtypes.int32, dtypes.uint8]), kind = d.below(3);
    const x = empty(...axis === 0 ? [n, rows] : [rows, n]).cast(dtype).contiguous();
    if (kind === 0) return { text: `sort of ${dtype} [${x.shape}] along ${axis}`, results: x.sort(axis) };
    if (kind === 1) {
      const k = Math.min(n, d.pick([1, 7, 50, 300]));
      return { text: `topk ${k} of ${dtype} [${x.shape}] along ${axis}`, results: x.topk(k, axis) };
    }
    return { text: `transform of [${x.shape}] along ${axis}`, results: [x.float().rfft(axis).square().sum(-1)] };
  },
  attention(d, empty) {
    const [heads, queries, keys, size] = [
      d.pick([1, 8, 12]),
      d.pick([1, 8, 64, 500]),
      d.pick([64, 512, 1000]),
      d.pick([32, 64, 80]),
    ];
    const dtype = d.pick([dtypes.float32, dtypes.bfloat16]), isCausal = d.below(2) === 0;
    const operand = (n: number): Tensor => empty(2, heads, n, size).cast(dtype).contiguous();
    const x = [operand(queries), operand(keys), operand(keys)], isGradient = d.below(3) === 0;
    const out = x[0].scaledDotProductAttention(x[1], x[2], undefined, { isCausal });
    const text = `${dtype} attention of ${queries} to ${keys}, ${heads} heads of ${size}${isCausal ? ", causal" : ""}`;
    return {
      text: isGradient ? `${text}, gradient` : text,
      results: isGradient ? out.float().sum().gradient(x) : [out],
    };
  },
};

/** What is wrong with a random program on a machine; undefined where nothing is. */
export function findingOf(writer: string, seed: number): { text: string; kernels: number; error?: string } {
  const d = new Draw(seed, LARGEST[writer] ?? 2 ** 24),
    family = d.pick(Object.keys(FAMILIES)),
    device = openObserving(writer);
  let text = family;
  try {
    const made = FAMILIES[family](d, (...shape) => Tensor.empty(shape, { device: device.name }));
    text = made.text;
    Tensor.realize(made.results);
    return { text, kernels: device.kernels.length };
  } catch (error) {
    return { text, kernels: device.kernels.length, error: String((error as Error).message) };
  }
}

function main(): number {
  const { count = "500", seed = "1", writer = "CUDA" } = parseArgs(Deno.args, {
    string: ["count", "seed", "writer"],
  });
  if (!Object.hasOwn(WRITERS, writer)) throw new Error(`no writer ${writer}; there are ${Object.keys(WRITERS)}`);
  let kernels = 0, found = 0;
  const start = performance.now();
  for (let i = 0; i < Number(count); i++) {
    const made = findingOf(writer, Number(seed) * 1_000_003 + i);
    kernels += made.kernels;
    if (made.error === undefined) continue;
    found++;
    console.log(`seed ${seed}, program ${i}: ${made.text}\n  ${made.error.slice(0, 600)}`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${writer}: ${count} programs, ${kernels} kernels, ${found} findings, ${seconds} s`);
  return found === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(main());
