/**
 * Random products, convolutions and attentions that matrix units take, with their gradients: in 16 bits and int8, nested
 * strides and transposed operands, epilogues, masks, shared heads, extents that no tile divides; against float32 (int32) of
 * the same operands on WASM.
 *
 *     deno run -A tests/fuzz/units.ts [--device CUDA] [--count 100] [--seed 1] [--case 17] [--work 1e9] [--kind attention]
 *
 * A case is named before it runs, as a kernel that breaks its device's context ends the run. `--work` is the most FLOP of
 * a case; on SIM are the units of all cards, on SIM:1 those alone that read shared
 * memory. Exits with 1 where a value differs by more than its dtype's rounding.
 *
 * @module
 */
import { type DType, dtypes, Tensor } from "../../mod.ts";
import { parseArgs } from "@std/cli/parse-args";
import { registerBackend } from "../../src/device/device.ts";
import { WGMMA } from "../../src/renderer/tensor_core_table.ts";
import { makeSimDevice, SIM_GRID, simBackend } from "../fixtures/sim.ts";
import { Random } from "../support/random.ts";

/** A case: how its results come of operands on whatever device and dtype. */
interface Case {
  readonly text: string;
  readonly dtype: DType;
  readonly operands: readonly Tensor[];
  /** Values that are rounded to the dtype one after the other, beside operands; 1 where it is left out. */
  readonly roundings?: number;
  /** @param operands of the case, on some device, cast to the dtype that sums have there */
  readonly results: (operands: readonly Tensor[]) => Tensor[];
}

/** Distance of a float16's (bfloat16's) neighbors near 1: results are rounded once. */
const STEP: Readonly<Record<string, number>> = { float16: 2 ** -10, bfloat16: 2 ** -7, float32: 2 ** -18, int32: 0 };

function numbers(random: Random, dtype: DType, ...shape: number[]): Tensor {
  const count = shape.reduce((a, b) => a * b, 1), isInteger = dtype === dtypes.int8;
  const values = Float32Array.from({ length: count }, () => isInteger ? random.int(-128, 127) : random.next() * 2 - 1);
  return new Tensor(values, { device: "JS" }).reshape(shape).cast(dtype).realize();
}

function product(random: Random, work: number): Case {
  const dtype = random.pick([dtypes.float16, dtypes.bfloat16, dtypes.int8]), isInteger = dtype === dtypes.int8;
  const extent = () => random.pick([8, 16, 40, 64, 96, 100, 128, 192, 200, 256, 384, 511, 512, 640, 1024]);
  let [b, m, k, n] = [random.pick([1, 1, 1, 2, 3, 8]), extent(), extent(), extent()];
  while (2 * b * m * k * n > work) [b, m, n] = [1, Math.ceil(m / 2), Math.ceil(n / 2)];
  const [atT, btT] = [random.below(2) === 0, random.below(2) === 0], batch = b === 1 ? [] : [b];
  const a = numbers(random, dtype, ...batch, ...(atT ? [k, m] : [m, k]));
  const c = numbers(random, dtype, ...(random.below(2) === 0 ? batch : []), ...(btT ? [n, k] : [k, n]));
  const epilogue = isInteger ? "none" : random.pick(["none", "none", "bias", "relu", "residual", "gradient"]);
  const bias = numbers(random, dtype, n), other = numbers(random, dtype, ...batch, m, n);
  const text = `${dtype.name} ${atT ? "transposed " : ""}[${a.shape}] by ${btT ? "transposed " : ""}[${c.shape}], ` +
    epilogue;
  return {
    text,
    dtype,
    operands: [a, c, bias, other],
    results([a, c, bias, other]) {
      const x = atT ? a.transpose(-1, -2) : a, y = btT ? c.transpose(-1, -2) : c;
      const z = isInteger ? x.matmul(y, { dtype: dtypes.int32 }) : x.matmul(y);
      if (epilogue === "bias") return [z.add(bias)];
      if (epilogue === "relu") return [z.relu()];
      if (epilogue === "residual") return [z.add(other)];
      return epilogue === "gradient" ? z.mul(other).sum().gradient([a, c]) : [z];
    },
  };
}

function convolution(random: Random, work: number): Case {
  const dtype = random.pick([dtypes.float16, dtypes.bfloat16]), kernel = random.pick([1, 1, 3, 3, 3, 5, 7]);
  const groups = random.pick([1, 1, 1, 1, 2, 4]), isTransposed = random.below(5) === 0;
  const channels = () => groups * random.pick([3, 8, 16, 24, 32, 64, 96, 128]), cin = channels(), cout = channels();
  let images = random.pick([1, 2, 4, 8, 16]), side = random.pick([7, 14, 15, 28, 30, 56]);
  const flops = () => 2 * images * side * side * cin * cout / groups * kernel * kernel;
  while (flops() > work && side > 7) [images, side] = [Math.ceil(images / 2), Math.ceil(side / 1.5)];
  const stride = random.pick([1, 1, 1, 2]), padding = random.pick([0, kernel >> 1, 1]);
  side = Math.max(side, kernel);
  const dilation = side > 2 * kernel && random.below(4) === 0 ? 2 : 1, isGradient = random.below(2) === 0;
  const x = numbers(random, dtype, images, cin, side, side);
  const weight = isTransposed ? [cin, cout / groups, kernel, kernel] : [cout, cin / groups, kernel, kernel];
  const w = numbers(random, dtype, ...weight);
  const bias = numbers(random, dtype, cout), options = { stride, padding, groups, dilation };
  const run = (x: Tensor, w: Tensor, b?: Tensor) =>
    isTransposed ? x.convTranspose2d(w, b, options) : x.conv2d(w, b, options);
  const scale = numbers(random, dtype, ...run(x, w).shape as number[]);
  const text = `${dtype.name} ${isTransposed ? "transposed " : ""}convolution of [${x.shape}] by [${w.shape}], ` +
    `${JSON.stringify(options)}${isGradient ? ", gradient" : ""}`;
  return {
    text,
    dtype,
    operands: [x, w, bias, scale],
    results: ([x, w, bias, scale]) =>
      isGradient ? run(x, w).mul(scale).sum().gradient([x, w]) : [run(x, w, bias).relu()],
  };
}

function attention(random: Random, work: number): Case {
  const dtype = random.pick([dtypes.float16, dtypes.bfloat16]), isGradient = random.below(3) === 0;
  const length = () => random.pick([1, 7, 16, 33, 64, 100, 128, 192, 200, 255, 256, 320, 512, 777, 1024]);
  const size = random.pick([16, 32, 40, 64, 64, 64, 80, 96, 128, 128, 128, 192, 256]);
  let [batch, heads, shared] = [random.pick([1, 2, 3]), random.pick([1, 2, 3, 8]), random.pick([1, 1, 2, 4])];
  let [rows, keys] = [length(), length()];
  const mask = random.pick(["none", "none", "causal", "causal", "choice", "bias"]);
  if (mask === "causal" || random.below(2) === 0) keys = rows;
  while (4 * batch * heads * shared * rows * keys * size > work) {
    if (batch * heads * shared > 1) [batch, heads, shared] = [1, Math.ceil(heads / 2), Math.ceil(shared / 2)];
    else [rows, keys] = rows === keys ? [rows >> 1, keys >> 1] : [Math.ceil(rows / 2), keys];
  }
  const all = heads * shared, q = numbers(random, dtype, batch, all, rows, size);
  const [k, v] = [0, 1].map(() => numbers(random, dtype, batch, heads, keys, size)),
    factor = random.pick([undefined, 1]);
  const scale = numbers(random, dtype, batch, all, rows, size);
  // each row has a key that is not hidden
  const extra = numbers(random, dtype, rows, keys),
    isHidden = Tensor.arange(keys, { device: "JS" }).mul(7).mod(5).eq(3);
  const text = `${dtype.name} attention of [${q.shape}] to [${k.shape}], ${mask}, ` +
    `${factor ? "not scaled" : "scaled"}${isGradient ? ", gradient" : ""}`;
  return {
    text,
    dtype,
    operands: [q, k, v, scale, extra],
    roundings: isGradient ? 3 : 2, // weights, what they are made of, and results
    results([q, k, v, scale, extra]) {
      const choice = isHidden.to(q.device).logicalNot().expand([rows, keys]);
      const bias = mask === "choice" ? choice : mask === "bias" ? extra : undefined;
      const options = { isCausal: mask === "causal", enableGqa: shared > 1, scale: factor };
      const made = q.scaledDotProductAttention(k, v, bias, options);
      return isGradient ? made.mul(scale).sum().gradient([q, k, v]) : [made];
    },
  };
}

const KINDS: Readonly<Record<string, (random: Random, work: number) => Case>> = { product, convolution, attention };

/** The root of the mean square of values; 0 of none. */
function sizeOf(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] * values[i];
  return Math.sqrt(sum / Math.max(1, values.length));
}

/**
 * The largest error: in steps of the dtype, where values near zero may be what a sum before them was rounded by. That is
 * of the size of the values; but of `terms` where these have cancelled, as far as float32 can tell: the gradient of scores
 * that one key gets is 0, the difference of two sums of the results' size. Equal values are no error.
 */
export function errorOf(
  got: ArrayLike<number>,
  want: ArrayLike<number>,
  step: number,
  terms: number,
): { error: number; at: number } {
  const size = sizeOf(want), isCancelled = size <= terms * STEP.float32;
  const near = (isCancelled ? terms : size) * Math.max(2 ** -10, 2 * step);
  let error = 0, at = -1;
  for (let i = 0; i < want.length; i++) {
    if (got[i] === want[i]) continue;
    const e = Math.abs(got[i] - want[i]) / (Math.abs(want[i]) * step + (step === 0 ? 0.5 : near));
    if (Number.isNaN(e)) return { error: Infinity, at: i };
    if (e > error) [error, at] = [e, i];
  }
  return { error, at };
}

/** What is wrong with a case, or undefined. */
async function check(c: Case, device: string): Promise<string | undefined> {
  const there = c.results(c.operands.map((t) => t.to(device).realize()));
  const wide = c.dtype === dtypes.int8 ? c.dtype : dtypes.float32;
  const here = c.results(c.operands.map((t) => t.to("WASM").cast(wide).realize()));
  await Tensor.realize([...there, ...here]);
  const wanted = await Promise.all(here.map((t) => t.data())) as ArrayLike<number>[];
  const terms = Math.max(...wanted.map(sizeOf));
  for (const [i, t] of there.entries()) {
    const got = await t.cast(t.dtype === dtypes.int32 ? t.dtype : dtypes.float32).data() as ArrayLike<number>;
    const want = wanted[i], step = STEP[t.dtype.name];
    const { error, at } = errorOf(got, want, step * (c.roundings ?? 1), terms);
    if (error > 1) return `result ${i} [${t.shape}] at ${at}: ${got[at]}, and ${want[at]} in float32 (${error})`;
  }
}

/** Checks cases from `first` on: what is wrong with each that is. */
export async function runUnits(
  device: string,
  seed: number,
  first: number,
  count: number,
  work: number,
  tell = false,
  kind?: string,
): Promise<string[]> {
  const failures: string[] = [];
  for (let i = first; i < first + count; i++) {
    const random = new Random(seed * 1_000_003 + i), c = KINDS[kind ?? random.pick(Object.keys(KINDS))](random, work);
    if (tell) console.log(`case ${i}: ${c.text}`);
    const wrong = await check(c, device).catch((e) => `${e}`);
    if (wrong === undefined) continue;
    failures.push(`seed ${seed} case ${i}: ${c.text}: ${wrong}`);
    if (tell) console.error(failures[failures.length - 1]);
  }
  return failures;
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, {
    string: ["device", "count", "seed", "case", "work", "kind"],
    default: { device: "CUDA", count: "100", seed: "1", work: "1e9" },
  });
  const [first, count] = args.case === undefined ? [0, Number(args.count)] : [Number(args.case), 1];
  const [some, all] = [WGMMA, [...SIM_GRID.tensorCores, ...WGMMA]];
  registerBackend({
    ...simBackend,
    open: (i) => makeSimDevice({ ...SIM_GRID, tensorCores: i === 0 ? all : some }, i === 0 ? "SIM" : `SIM:${i}`),
  });
  const failures = await runUnits(
    `${args.device}`,
    Number(args.seed),
    first,
    count,
    Number(args.work),
    true,
    args.kind,
  );
  console.log(`${count} cases, ${failures.length} failures`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
