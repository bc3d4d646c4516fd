/**
 * Tables of the angles of positions: cosine and sine of each position and pair, computed once, in float64. Scaling of
 * angles beyond the context that a model was trained with: linear, YaRN (https://arxiv.org/abs/2309.00071), and factors
 * given by the file (Llama 3, LongRoPE, https://arxiv.org/abs/2402.13753).
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import type { RopeSpec } from "./model_spec.ts";

/** Cosine and sine, float32 `[context, pairs]`. */
export interface RopeTable {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/** How much of the angle of pair `i` is kept as it is, by YaRN. */
function yarnKept(rope: RopeSpec, base: number, pairs: number): (i: number) => number {
  const { dim, originalContext, betaFast, betaSlow } = rope;
  const place = (turns: number) => dim * Math.log(originalContext / (turns * 2 * Math.PI)) / (2 * Math.log(base));
  const low = Math.max(0, Math.floor(place(betaFast))), high = Math.min(2 * pairs - 1, Math.ceil(place(betaSlow)));
  return (i) => 1 - Math.min(1, Math.max(0, (i - low) / Math.max(0.001, high - low)));
}

/** The table of `context` positions. `factors` divide the angles of pairs. */
export function ropeTable(
  rope: RopeSpec,
  context: number,
  window: boolean,
  factors: ArrayLike<number> | undefined,
  device: string,
): RopeTable {
  const pairs = rope.dim / 2,
    base = window ? rope.windowBase : rope.base,
    factor = window ? rope.windowFactor : rope.factor;
  const yarn = rope.scaling === "yarn" ? yarnKept(rope, base, pairs) : undefined;
  const scaled = rope.scaling === "linear" || rope.scaling === "yarn" ? 1 / factor : 1;
  const speeds = Float64Array.from({ length: pairs }, (_, i) => {
    const speed = base ** (-2 * i / rope.dim) / (factors?.[i] ?? 1), kept = yarn?.(i) ?? 0;
    return speed * scaled * (1 - kept) + speed * kept;
  });
  const grown = (part: number) => 1 + 0.1 * part * Math.log(factor), whole = rope.logMultiplier === 0;
  const size = (yarn !== undefined && whole ? grown(1) : 1) * rope.attentionFactor;
  const make = (f: (x: number) => number) => {
    const out = new Float32Array(context * pairs);
    for (let p = 0; p < context; p++) for (let i = 0; i < pairs; i++) out[p * pairs + i] = size * f(p * speeds[i]);
    return new Tensor(out, { device }).reshape([context, pairs]).realize();
  };
  return { cos: make(Math.cos), sin: make(Math.sin) };
}

/** Turns the first elements of heads `[T, H, dim]` by tables of `[T, pairs]`. */
export function turn(x: Tensor, kind: "pairs" | "halves", { cos, sin }: RopeTable): Tensor {
  const [t, h, dim] = x.shape, pairs = cos.shape[1], c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  const part = 2 * pairs === dim ? x : x.at("...", [0, 2 * pairs]);
  const cut = kind === "pairs" ? part.reshape([t, h, pairs, 2]) : part.reshape([t, h, 2, pairs]);
  const axis = kind === "pairs" ? 3 : 2, [a, b] = [0, 1].map((i) => cut.select(axis, i));
  const turned = a.mul(c).sub(b.mul(s)).stack([a.mul(s).add(b.mul(c))], axis).reshape([t, h, 2 * pairs]);
  return 2 * pairs === dim ? turned : turned.cat([x.at("...", [2 * pairs, null])], 2);
}
