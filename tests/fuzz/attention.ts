/**
 * Random programs like attention: `deno run -A tests/fuzz/attention.ts --count N --seed S --device D`. Scores by any
 * spelling, with masks, caps, slopes and shared heads; weights by a softmax, which may be divided by after the product, by
 * sigmoids or by nothing; results and gradients. The oracle evaluates the graph op by op (tests/reference.ts). The device
 * is SIM where none is named: a grid with matrix units in plain JavaScript. Prints each program that disagrees, and how
 * many did.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, Tensor } from "../../mod.ts";
import { registerSim } from "../fixtures/sim.ts";
import { evaluateTensor } from "../reference.ts";
import { Random } from "../support/random.ts";

/**
 * Largest share of the deviation of what is wanted by which results may be off, by dtype, and what counts at least. Where
 * a narrow dtype rounds more, they may be a quarter further from the values in float32 than what is wanted is.
 */
const SHARE: Readonly<Record<string, number>> = { float32: 1e-4, float16: 6e-4, bfloat16: 6e-2 };
const MORE = 1.25;
const LEAST_DEVIATION = 0.05;

/** A program: what is drawn for it. */
export interface AttentionProgram {
  readonly dtype: "float32" | "float16" | "bfloat16";
  readonly heads: number;
  readonly shared: number;
  readonly rows: number;
  readonly keys: number;
  readonly width: number;
  readonly columns: number;
  /** Do heads stand inside of rows in memory? */
  readonly isInside: boolean;
  readonly product: "dot" | "matmul" | "einsum" | "call";
  readonly scores: readonly ("scale" | "cap" | "slope" | "bias" | "causal" | "window" | "mask")[];
  readonly weights: "softmax" | "sigmoid" | "square" | "none" | "after";
  readonly result: "value" | "gradients" | "weights too" | "rows";
}

/** Draws a program. */
export function drawAttention(r: Random): AttentionProgram {
  const heads = r.pick([1, 2, 4]), keys = r.pick([5, 16, 24, 33, 48, 64, 70]);
  const kinds = ["scale", "cap", "slope", "bias", "causal", "window", "mask"] as const;
  return {
    dtype: r.pick(["bfloat16", "bfloat16", "float16", "float32"]),
    heads,
    shared: r.pick([1, 1, 2, heads].filter((n) => heads % n === 0)),
    rows: r.pick([1, 4, 8, 16, 17, 33, 40, 64]),
    keys,
    width: r.pick([4, 8, 16, 20, 32, 40, 72]),
    columns: r.pick([8, 16, 24, 32, 40]),
    isInside: r.below(3) === 0,
    product: r.pick(["dot", "matmul", "einsum", "call"]),
    scores: kinds.filter(() => r.below(4) === 0),
    weights: r.pick(["softmax", "softmax", "sigmoid", "square", "none", "after"]),
    result: r.pick(["value", "gradients", "gradients", "weights too", "rows"]),
  };
}

/** What a program gives on a device; `isWide` computes with the same numbers in float32. */
export function makeAttention(p: AttentionProgram, device: string, isWide = false): Tensor[] {
  const { heads, shared, rows, keys, width, columns } = p, kv = heads / shared, dtype = isWide ? "float32" : p.dtype;
  /** Numbers in (-1, 1). */
  const numbers = (shape: readonly number[], seed: number, own: string = p.dtype): Tensor => {
    const r = new Random(seed), n = shape.reduce((a, b) => a * b, 1);
    const values = Float32Array.from({ length: n }, () => 2 * r.next() - 1), as = own === p.dtype ? dtype : own;
    return new Tensor(values, { device }).reshape([...shape]).cast(own as "float32").cast(as as "float32").contiguous()
      .realize();
  };
  const operand = (h: number, n: number, w: number, seed: number): [leaf: Tensor, moved: Tensor] => {
    const leaf = numbers(p.isInside ? [2, n, h, w] : [2, h, n, w], seed);
    if (p.result === "gradients") leaf.requiresGrad = true;
    return [leaf, p.isInside ? leaf.permute([0, 2, 1, 3]) : leaf];
  };
  const [q0, q] = operand(heads, rows, width, 1), [k0, k1] = operand(kv, keys, width, 2);
  const [v0, v1] = operand(kv, keys, columns, 3);
  const repeat = (t: Tensor): Tensor =>
    shared === 1 ? t : t.unsqueeze(2).expand([2, kv, shared, keys, t.shape[3]]).reshape([2, heads, keys, t.shape[3]]);
  const [k, v] = [repeat(k1), repeat(v1)];
  const finish = (out: Tensor, weights?: Tensor): Tensor[] => {
    if (p.result !== "gradients") return weights !== undefined && p.result === "weights too" ? [out, weights] : [out];
    out.mul(numbers(out.shape, 4)).float().sum().backward();
    return [q0, k0, v0].map((t) => t.grad!).filter((t) => t !== undefined);
  };
  if (p.product === "call") {
    const isCausal = p.scores.includes("causal");
    const mask = isCausal || !p.scores.includes("bias") ? undefined : numbers([rows, keys], 5);
    return finish(q.scaledDotProductAttention(k, v, mask, { isCausal }));
  }
  let s = p.product === "dot"
    ? q.dot(k.transpose(-2, -1), { dtype: "float32" })
    : p.product === "matmul"
    ? q.matmul(k.transpose(-2, -1))
    : Tensor.einsum("bhqd,bhkd->bhqk", [q, k]);
  const row = Tensor.arange(rows, { device }).reshape([rows, 1]), key = Tensor.arange(keys, { device });
  for (const step of p.scores) {
    if (step === "scale") s = s.mul(0.3);
    else if (step === "cap") s = s.div(3).tanh().mul(3);
    else if (step === "slope") s = s.add(row.sub(key).abs().cast(s.dtype).mul(-0.1));
    else if (step === "bias") s = s.add(numbers([rows, keys], 5));
    else if (step === "causal") s = key.le(row).where(s, -Infinity);
    else if (step === "window" && rows <= keys) s = key.gt(row.sub(9)).where(s, -Infinity);
    else if (step === "mask") s = numbers([keys], 6, "float32").gt(0).bitwiseOr(key.eq(0)).where(s, -1e4);
  }
  if (p.result === "rows") return [p.weights === "softmax" ? s.logsumexp(-1) : s.max(-1), s.float().sigmoid().sum(-1)];
  if (p.weights === "after") {
    const e = s.float().sub(s.float().max(-1, { keepdim: true })).exp();
    return finish(e.cast(dtype).matmul(v).div(e.sum(-1, { keepdim: true }).cast(dtype)));
  }
  const w = p.weights === "softmax"
    ? s.softmax(-1)
    : p.weights === "sigmoid"
    ? s.sigmoid()
    : p.weights === "square"
    ? s.maximum(-1).square().mul(0.1)
    : s.maximum(-9).mul(0.1);
  const weights = w.cast(dtype);
  return finish(p.product === "einsum" ? Tensor.einsum("bhqk,bhkd->bhqd", [weights, v]) : weights.matmul(v), weights);
}

type Values = ArrayLike<unknown>;

/** By how much values are off from others, where those are finite, of the deviation of these. */
function offBy(values: Values, want: Values): number {
  let error = 0, size = 0;
  for (let j = 0; j < values.length; j++) {
    const x = Number(want[j]);
    if (!Number.isFinite(x)) continue;
    error += (Number(values[j]) - x) ** 2;
    size += x * x;
  }
  return Math.sqrt(error / values.length) / Math.max(LEAST_DEVIATION, Math.sqrt(size / values.length));
}

/** In what a program's results on a device differ from those of the graph op by op; undefined where they agree. */
export async function checkAttention(p: AttentionProgram, device: string): Promise<string | undefined> {
  const want = makeAttention(p, "JS").map((t) => evaluateTensor(t).data), got = makeAttention(p, device);
  Tensor.realize(got);
  for (const [i, t] of got.entries()) {
    const values = await t.float().data() as Float32Array;
    const at = values.findIndex((x, j) => Number.isNaN(x) !== Number.isNaN(Number(want[i][j])));
    if (at >= 0) return `result ${i}: element ${at} is ${values[at]}, want ${want[i][at]}`;
    const off = offBy(values, want[i]);
    if (off <= SHARE[p.dtype]) continue;
    const wide = evaluateTensor(makeAttention(p, "JS", true)[i]).data;
    if (p.dtype !== "float32" && offBy(values, wide) <= MORE * offBy(want[i], wide)) continue;
    return `result ${i} is off by ${off.toPrecision(2)} of its deviation`;
  }
  return undefined;
}

async function main(): Promise<void> {
  const { count = "100", seed = "1", device = "SIM" } = parseArgs(Deno.args, { string: ["count", "seed", "device"] });
  let wrong = 0;
  for (let i = 0; i < Number(count); i++) {
    const p = drawAttention(new Random(Number(seed) + i));
    let why: string | undefined;
    try {
      why = await checkAttention(p, device);
    } catch (thrown) {
      why = (thrown as Error).stack;
    }
    if (why === undefined) continue;
    wrong++;
    console.log(`seed ${Number(seed) + i}: ${why}\n  ${JSON.stringify(p)}`);
  }
  console.log(`${count} programs on ${device} from seed ${seed}: ${wrong} disagree`);
}

registerSim();
if (import.meta.main) {
  if (Deno.args.includes("WEBGPU")) await Device.open("WEBGPU");
  await main();
}
