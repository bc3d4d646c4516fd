/**
 * The workloads of DESIGN.md section 8 on CUDA: names, shapes and dtypes as PyTorch's measurements have them; random
 * normal operands, made on the device; and whether a result is right, by sums in float64 on the host at some positions.
 *
 * @module
 */
import { dtypes, Tensor } from "../mod.ts";

type Half = "bf16" | "f16" | "f32";

const DTYPES = { bf16: dtypes.bfloat16, f16: dtypes.float16, f32: dtypes.float32 } as const;
/** Errors that are accepted, as a share of the larger of the value and the deviation of all values. */
const TOLERANCE: Readonly<Record<Half, number>> = { bf16: 2e-2, f16: 4e-3, f32: 2e-4 };

/** Values on the host. */
type Values = ArrayLike<number>;

/** One workload. */
export interface CudaWorkload {
  readonly shapes: readonly (readonly number[])[];
  readonly dtype: Half;
  readonly graph: (...operands: Tensor[]) => Tensor;
  /** What element `at` of the result should be. `operands` are on the host. */
  readonly want: (at: number, operands: readonly Values[]) => number;
  /** About the deviation of the elements of the result. */
  readonly scale: number;
  readonly flops?: number;
  readonly nbytes?: number;
  /** The share of the better PyTorch's speed that is asked for. */
  readonly reach?: number;
}

function matmul(m: number, k: number, n: number, dtype: Half, layout = "nn", reach?: number): CudaWorkload {
  const [ta, tb] = [layout[0] === "t", layout[1] === "t"];
  return {
    shapes: [ta ? [k, m] : [m, k], tb ? [n, k] : [k, n]],
    dtype,
    graph: (a, b) => (ta ? a.transpose() : a).matmul(tb ? b.transpose() : b),
    want(at, [a, b]) {
      const row = Math.floor(at / n), column = at % n;
      let s = 0;
      for (let i = 0; i < k; i++) s += a[ta ? i * m + row : row * k + i] * b[tb ? column * k + i : i * n + column];
      return s;
    },
    scale: Math.sqrt(k),
    ...(m === 1 ? { nbytes: 2 * k * n } : { flops: 2 * m * k * n }),
    reach,
  };
}

function gelu(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

const B = 2 ** 28, ROWS = 16384, WIDTH = 4096;

/** The row of a matrix of `WIDTH` columns that element `at` is in. */
function rowAt(x: Values, at: number): Values {
  const start = Math.floor(at / WIDTH) * WIDTH;
  return (x as Float32Array).subarray(start, start + WIDTH);
}
function meanOf(x: Values, f: (v: number) => number = (v) => v): number {
  let s = 0;
  for (let i = 0; i < x.length; i++) s += f(x[i]);
  return s / x.length;
}
function varianceOf(x: Values): number {
  const mean = meanOf(x);
  return meanOf(x, (v) => (v - mean) ** 2);
}

function attention(isCausal: boolean): CudaWorkload {
  const [batch, heads, length, size] = [4, 32, 4096, 128], each = length * size;
  return {
    shapes: Array.from({ length: 3 }, () => [batch, heads, length, size]),
    dtype: "bf16",
    graph: (q, k, v) => q.scaledDotProductAttention(k, v, undefined, { isCausal }),
    want(at, [q, k, v]) {
      const head = Math.floor(at / each) * each, row = Math.floor(at % each / size), column = at % size;
      const scores: number[] = [];
      for (let j = 0; j < (isCausal ? row + 1 : length); j++) {
        let s = 0;
        for (let d = 0; d < size; d++) s += q[head + row * size + d] * k[head + j * size + d];
        scores.push(s / Math.sqrt(size));
      }
      const top = scores.reduce((a, b) => Math.max(a, b), -Infinity);
      let sum = 0, out = 0;
      scores.forEach((s, j) => {
        const e = Math.exp(s - top);
        sum += e;
        out += e * v[head + j * size + column];
      });
      return out / sum;
    },
    // of scores of deviation 1 the weights' squares add up to e / length
    scale: Math.sqrt(Math.E / length),
    flops: (isCausal ? 2 : 4) * batch * heads * length * length * size,
    reach: isCausal ? undefined : 0.25,
  };
}

function convolution(): CudaWorkload {
  const [n, c, side] = [64, 256, 56];
  return {
    shapes: [[n, c, side, side], [c, c, 3, 3]],
    dtype: "f16",
    graph: (x, w) => x.conv2d(w, undefined, { padding: 1 }),
    want(at, [x, w]) {
      const column = at % side, row = Math.floor(at / side) % side, out = Math.floor(at / side ** 2) % c;
      const image = Math.floor(at / (side * side * c));
      let s = 0;
      for (let i = 0; i < c; i++) {
        for (let dy = -1; dy <= 1; dy++) {
          for (let dx = -1; dx <= 1; dx++) {
            const y = row + dy, z = column + dx;
            if (y < 0 || z < 0 || y >= side || z >= side) continue;
            s += x[((image * c + i) * side + y) * side + z] * w[((out * c + i) * 3 + dy + 1) * 3 + dx + 1];
          }
        }
      }
      return s;
    },
    scale: Math.sqrt(9 * c),
    flops: 2 * n * c * c * 9 * side * side,
    reach: 0.25,
  };
}

/** A function of whole arrays, element by element or to one value. */
function large(
  operands: number,
  nbytes: number,
  graph: CudaWorkload["graph"],
  want: CudaWorkload["want"],
  scale: number,
  reach: number,
): CudaWorkload {
  return { shapes: Array.from({ length: operands }, () => [B]), dtype: "f32", graph, want, scale, nbytes, reach };
}

/** All workloads, by the names that PyTorch's measurements have. */
export const CUDA_WORKLOADS: Readonly<Record<string, CudaWorkload>> = {
  ...Object.fromEntries([1024, 2048, 4096, 8192].flatMap((n) =>
    (["bf16", "f16", "f32"] as const).map((d) => {
      const reach = d === "f32" ? (n === 4096 ? 0.7 : undefined) : n >= 4096 ? 0.45 : n === 2048 ? 0.4 : undefined;
      return [`matmul_${d}_${n}`, matmul(n, n, n, d, "nn", reach)];
    })
  )),
  ...Object.fromEntries(
    ["nt", "tn", "tt"].map((l) => [`matmul_bf16_4096_${l}`, matmul(4096, 4096, 4096, "bf16", l)]),
  ),
  "matmul_bf16_4096x576x7168": matmul(4096, 7168, 576, "bf16"),
  "matmul_bf16_128x7168x16384": matmul(128, 16384, 7168, "bf16"),
  "matmul_bias_gelu_bf16_4096": {
    ...matmul(4096, 4096, 4096, "bf16"),
    shapes: [[4096, 4096], [4096, 4096], [4096]],
    graph: (a, b, c) => a.matmul(b).add(c).gelu({ approximate: "tanh" }),
    want: (at, [a, b, c]) => gelu(matmul(4096, 4096, 4096, "bf16").want(at, [a, b]) + c[at % 4096]),
  },
  "add_256M": large(2, 12 * B, (a, b) => a.add(b), (i, [a, b]) => a[i] + b[i], 1, 0.95),
  "sum_256M": large(1, 4 * B, (a) => a.sum(), (_, [a]) => meanOf(a) * a.length, Math.sqrt(B), 0.95),
  "var_256M": large(1, 4 * B, (a) => a.var(), (_, [a]) => varianceOf(a) * B / (B - 1), 1, 0.85),
  "fused_256M": large(
    2,
    12 * B,
    (a, b) => a.mul(b).add(a).relu().mul(2).sub(b),
    (i, [a, b]) => Math.max(a[i] * b[i] + a[i], 0) * 2 - b[i],
    1,
    0.95,
  ),
  "softmax_16384x4096": {
    shapes: [[ROWS, WIDTH]],
    dtype: "f32",
    graph: (x) => x.softmax(-1),
    want: (at, [x]) => Math.exp(x[at]) / (meanOf(rowAt(x, at), Math.exp) * WIDTH),
    scale: 1 / WIDTH,
    nbytes: 8 * ROWS * WIDTH,
    reach: 0.95,
  },
  "layernorm_16384x4096": {
    shapes: [[ROWS, WIDTH]],
    dtype: "f32",
    graph: (x) => x.layernorm(),
    want: (at, [x]) => (x[at] - meanOf(rowAt(x, at))) / Math.sqrt(varianceOf(rowAt(x, at)) + 1e-5),
    scale: 1,
    nbytes: 8 * ROWS * WIDTH,
    reach: 0.85,
  },
  "gemv_bf16_4096x14336": matmul(1, 4096, 14336, "bf16", "nn", 0.85),
  "attention_bf16_4x32x4096x128": attention(false),
  "attention_causal_bf16_4x32x4096x128": attention(true),
  "conv_f16_64x256x56": convolution(),
};

/** Operands of a workload: random normal numbers on the device. */
export function operandsOf({ shapes, dtype }: CudaWorkload, device: string): Tensor[] {
  return shapes.map((shape) => Tensor.randn([...shape], { device }).cast(DTYPES[dtype]).realize());
}

/** Positions that are checked: the corners of tiles are among them. */
function positions(count: number): Set<number> {
  const corners = [0, 1, 127, 128, 4095, 4096, count - 1].filter((at) => at < count);
  return new Set([...corners, ...Array.from({ length: 40 }, (_, i) => Math.floor(i * count / 40 + i * 61) % count)]);
}

/** The largest error of a result, as a share of what is accepted. Beyond 1 it is wrong. */
export async function errorOf(w: CudaWorkload, result: Tensor, operands: readonly Tensor[]): Promise<number> {
  const host: Values[] = [];
  for (const o of operands) {
    const values = await o.data() as Float32Array, deviation = Math.sqrt(varianceOf(values.subarray(0, 4096)));
    if (!(Math.abs(deviation - 1) < 0.1)) {
      throw new Error(`the operands are not normal: their deviation is ${deviation}`);
    }
    host.push(values);
  }
  const got = await result.data() as Values;
  let worst = 0;
  for (const at of positions(got.length)) {
    const want = w.want(at, host), error = Math.abs(got[at] - want) / Math.max(Math.abs(want), w.scale);
    worst = Math.max(worst, Number.isFinite(error) ? error / TOLERANCE[w.dtype] : Infinity);
  }
  return worst;
}
