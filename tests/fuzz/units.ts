/**
 * Random products and convolutions that matrix units take, with their gradients: in 16 bits and int8, nested strides and
 * transposed operands, epilogues, extents that no tile divides; against float32 (int32) of the same operands on WASM.
 *
 *     deno run -A tests/fuzz/units.ts [--device CUDA] [--count 100] [--seed 1] [--case 17] [--work 1e9]
 *
 * A case is named before it runs, as a kernel that breaks its device's context ends the run. `--work` is the most FLOP of
 * a case. Exits with 1 where a value differs by more than its dtype's rounding.
 *
 * @module
 */
import { type DType, dtypes, Tensor } from "../../mod.ts";
import { parseArgs } from "@std/cli/parse-args";
import { Random } from "../support/random.ts";

/** A case: how its results come of operands on whatever device and dtype. */
interface Case {
  readonly text: string;
  readonly dtype: DType;
  readonly operands: readonly Tensor[];
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

/** The largest error: in steps of the dtype, where values near zero may be what a sum before them was rounded by. */
function errorOf(got: ArrayLike<number>, want: ArrayLike<number>, step: number): { error: number; at: number } {
  let sum = 0, error = 0, at = -1;
  for (let i = 0; i < want.length; i++) sum += want[i] * want[i];
  const near = Math.sqrt(sum / Math.max(1, want.length)) * Math.max(2 ** -10, 2 * step);
  for (let i = 0; i < want.length; i++) {
    const e = Math.abs(got[i] - want[i]) / (Math.abs(want[i]) * step + (step === 0 ? 0.5 : near));
    if (!(e <= error)) [error, at] = [e, i];
    if (Number.isNaN(e)) return { error: Infinity, at: i };
  }
  return { error, at };
}

/** What is wrong with a case, or undefined. */
async function check(c: Case, device: string): Promise<string | undefined> {
  const there = c.results(c.operands.map((t) => t.to(device).realize()));
  const wide = c.dtype === dtypes.int8 ? c.dtype : dtypes.float32;
  const here = c.results(c.operands.map((t) => t.to("WASM").cast(wide).realize()));
  await Tensor.realize([...there, ...here]);
  for (const [i, t] of there.entries()) {
    const got = await t.cast(t.dtype === dtypes.int32 ? t.dtype : dtypes.float32).data() as ArrayLike<number>;
    const want = await here[i].data() as ArrayLike<number>, step = STEP[t.dtype.name];
    const { error, at } = errorOf(got, want, step);
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
): Promise<string[]> {
  const failures: string[] = [];
  for (let i = first; i < first + count; i++) {
    const random = new Random(seed * 1_000_003 + i), c = (random.below(2) === 0 ? product : convolution)(random, work);
    if (tell) console.log(`case ${i}: ${c.text}`);
    const wrong = await check(c, device).catch((e) => `${e}`);
    if (wrong !== undefined) failures.push(`seed ${seed} case ${i}: ${c.text}: ${wrong}`);
  }
  return failures;
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, {
    string: ["device", "count", "seed", "case", "work"],
    default: { device: "CUDA", count: "100", seed: "1", work: "1e9" },
  });
  const [first, count] = args.case === undefined ? [0, Number(args.count)] : [Number(args.case), 1];
  const failures = await runUnits(`${args.device}`, Number(args.seed), first, count, Number(args.work), true);
  for (const text of failures) console.error(text);
  console.log(`${count} cases, ${failures.length} failures`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
