/**
 * From logits to the next token, on the device: bias, penalties, temperature, the best k, the most probable p, a least
 * probability, and a draw by the Gumbel trick from counter-based random bits, so that a seed gives the same text on every
 * device.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { vmap } from "../../tensor/transforms/transforms.ts";

/** How tokens are chosen. */
export interface SamplingOptions {
  /** 0 takes the most probable token; above, logits are divided by it. Default 0. */
  readonly temperature?: number;
  /** Only the `topK` most probable; 0, the default, for all. */
  readonly topK?: number;
  /** Only the most probable whose probabilities sum up to it; default 1. */
  readonly topP?: number;
  /** Only those at least this part as probable as the first; default 0. */
  readonly minP?: number;
  /** Divides logits above 0 of tokens that were there, and multiplies those below; default 1. */
  readonly repetitionPenalty?: number;
  /** Taken off the logits of tokens that were there; default 0. */
  readonly presencePenalty?: number;
  /** Taken off for each time that a token was there; default 0. */
  readonly frequencyPenalty?: number;
  /** Added to the logits of tokens, by id. */
  readonly logitBias?: ReadonlyMap<number, number> | Readonly<Record<string, number>>;
  /** Of the random draws; a random one unless given. */
  readonly seed?: number;
}

/**
 * What a captured step is made for; the numbers beside it may change from call to call. How many tokens are looked at is
 * a power of two: the next number that somebody asks for needs no other step.
 */
export interface SamplingPlan {
  readonly greedy: boolean;
  /** How many of the most probable are looked at, the number in `numbers` or more; 0 for all. */
  readonly topK: number;
  readonly topP: boolean;
  readonly minP: boolean;
  readonly penalties: boolean;
  readonly bias: boolean;
  /** Whether only some tokens may come, as a grammar says. */
  readonly masked: boolean;
  /** For how many alternatives there are log probabilities, `best` or more; -1 for no log probabilities at all. */
  readonly logprobs: number;
}

/** How many tokens a step looks at that is asked for `n`. */
export function roomFor(n: number, vocabulary: number): number {
  return n <= 0 ? n : Math.min(vocabulary, 2 ** Math.ceil(Math.log2(n)));
}

/** Options that were checked. */
export interface Sampling {
  readonly plan: SamplingPlan;
  /** temperature, topP, minP, repetition, presence, frequency, topK. */
  readonly numbers: Float32Array<ArrayBuffer>;
  /** How many alternatives are told. */
  readonly best: number;
  readonly seed: number;
  readonly bias: ReadonlyMap<number, number>;
}

/** The names of all options. */
export const SAMPLING_OPTIONS: readonly (keyof SamplingOptions)[] = [
  ...(["temperature", "topK", "topP", "minP", "repetitionPenalty"] as const),
  ...(["presencePenalty", "frequencyPenalty", "logitBias", "seed"] as const),
];

/** Checks options. @throws {ArgumentError} naming the option */
export function samplingOf(
  action: string,
  options: SamplingOptions,
  vocabulary: number,
  logprobs = -1,
  masked = false,
): Sampling {
  const number = (name: keyof SamplingOptions, fallback: number, min: number, max: number): number => {
    const x = options[name] === undefined ? fallback : checkNumber(action, name, options[name]);
    if (x >= min && x <= max) return x;
    throw new ArgumentError(action, { reason: `${name} is ${x}, not from ${min} to ${max}` });
  };
  const temperature = number("temperature", 0, 0, 100), topP = number("topP", 1, 0, 1), minP = number("minP", 0, 0, 1);
  const repetition = number("repetitionPenalty", 1, 0.01, 100);
  const presence = number("presencePenalty", 0, -100, 100), frequency = number("frequencyPenalty", 0, -100, 100);
  const topK = options.topK === undefined ? 0 : checkInteger(action, "topK", options.topK, 0);
  const seed = options.seed === undefined
    ? Math.floor(Math.random() * 2 ** 32)
    : checkInteger(action, "seed", options.seed);
  const given = options.logitBias ?? {}, pairs = given instanceof Map ? [...given] : Object.entries(given);
  const bias = new Map<number, number>();
  for (const [id, value] of pairs as [number | string, number][]) {
    const i = Number(id);
    if (!Number.isInteger(i) || i < 0 || i >= vocabulary) {
      throw new ArgumentError(action, { reason: `logitBias names token ${id}; tokens are 0 to ${vocabulary - 1}` });
    }
    if (typeof value !== "number" || Number.isNaN(value)) {
      throw new ArgumentError(action, { reason: `logitBias of token ${id} is no number` });
    }
    bias.set(i, value);
  }
  // what is cut off leaves the most probable token
  const greedy = temperature === 0 || topK === 1;
  return {
    plan: {
      greedy,
      topK: greedy ? 0 : roomFor(topK, vocabulary),
      topP: !greedy && topP < 1,
      minP: !greedy && minP > 0,
      penalties: repetition !== 1 || presence !== 0 || frequency !== 0,
      bias: bias.size > 0,
      masked,
      logprobs: roomFor(logprobs, vocabulary),
    },
    numbers: Float32Array.of(temperature || 1, topP, minP, repetition, presence, frequency, topK),
    best: Math.max(0, logprobs),
    seed: seed >>> 0,
    bias,
  };
}

/** What sampling reads beside the logits. */
export interface SamplingInputs {
  /** float32 `[7]`, as in {@linkcode Sampling}. */
  readonly numbers: Tensor;
  /** uint32 `[1]`. */
  readonly seed: Tensor;
  /** Where the token will stand: int32, a bound variable. */
  readonly position: Tensor;
  /** float32 `[vocabulary]`: how often each token was there. As the next two, where the plan says so. */
  readonly counts?: Tensor;
  /** float32 `[vocabulary]`. */
  readonly bias?: Tensor;
  /** uint32 `[ceil(vocabulary / 32)]`: a bit for each token that may come, the lowest first. */
  readonly mask?: Tensor;
}

/** What sampling of rows reads: float32 `[B, 7]`, uint32 `[B, 1]`, int32 `[B]`. */
export interface RowInputs {
  readonly numbers: Tensor;
  readonly seeds: Tensor;
  readonly positions: Tensor;
}

/** A token and, where they are asked for, log probabilities. */
export interface Sampled {
  /** int32 `[1]`. */
  readonly token: Tensor;
  /** float32 `[1 + n]`: of the token, then of the n most probable. */
  readonly logprobs: Tensor | undefined;
  /** int32 `[n]`: those. */
  readonly best: Tensor | undefined;
}

/** Draws that prefer what is probable: the largest sum of a logit and one of these has the probability of the softmax. */
function gumbel(inputs: SamplingInputs, n: number): Tensor {
  const key = inputs.seed.cat([inputs.position.cast(dtypes.uint32).reshape([1])], 0);
  const bits = Tensor.randomBits(key, 0, n).rshift(8).cast(dtypes.float32).add(0.5).mul(2 ** -24);
  return bits.log().neg().log().neg();
}

/** Which of `n` tokens the bits of a mask allow: bool `[n]`. */
function allowed(mask: Tensor, n: number): Tensor {
  const bit = Tensor.arange(32, { dtype: dtypes.uint32, device: mask.device });
  return mask.unsqueeze(1).rshift(bit).bitwiseAnd(1).ne(0).reshape([-1]).at([0, n]);
}

/** The most probable token of float32 logits `[vocabulary]`, or of each row of them: int32 `[1]` or `[T]`. Lazy. */
export function mostProbable(logits: Tensor): Tensor {
  return logits.argmax(-1).cast(dtypes.int32).reshape([-1]);
}

/** Whether a plan takes {@linkcode mostProbable}, and tells no more. */
export function isPlain(plan: SamplingPlan): boolean {
  return plan.greedy && !plan.penalties && !plan.bias && !plan.masked && plan.logprobs < 0;
}

/** The next token of float32 logits `[vocabulary]`. Lazy. */
export function sample(logits: Tensor, plan: SamplingPlan, inputs: SamplingInputs): Sampled {
  const { numbers } = inputs, at = (i: number) => numbers.at(i);
  let x = logits;
  if (plan.bias) x = x.add(inputs.bias!);
  if (plan.penalties) {
    const counts = inputs.counts!, seen = counts.gt(0), rep = at(3);
    const pressed = seen.where(x.gt(0).where(x.div(rep), x.mul(rep)), x);
    x = pressed.sub(counts.mul(at(5))).sub(seen.cast(dtypes.float32).mul(at(4)));
  }
  if (plan.masked) x = allowed(inputs.mask!, x.shape[0]).where(x, -Infinity);
  const token = plan.greedy ? mostProbable(x) : draw(x.div(at(0)), plan, inputs).cast(dtypes.int32).reshape([1]);
  if (plan.logprobs < 0) return { token, logprobs: undefined, best: undefined };
  const log = logits.logSoftmax(-1), own = log.at(token);
  if (plan.logprobs === 0) return { token, logprobs: own, best: undefined };
  const [values, best] = log.topk(plan.logprobs);
  return { token, logprobs: own.cat([values], 0), best };
}

/** The next tokens of float32 logits `[B, vocabulary]`, int32 `[B]`, each as {@linkcode sample} chooses it. Lazy. */
export function sampleRows(logits: Tensor, plan: SamplingPlan, { numbers, seeds, positions }: RowInputs): Sampled {
  const each = vmap((logits: Tensor, numbers: Tensor, seed: Tensor, position: Tensor) =>
    sample(logits, plan, { numbers, seed, position })
  );
  const { token, logprobs, best } = each(logits, numbers, seeds, positions);
  return { token: token.reshape([-1]), logprobs, best };
}

function draw(x: Tensor, plan: SamplingPlan, inputs: SamplingInputs): Tensor {
  const n = x.shape[0], { numbers } = inputs;
  if (plan.topK === 0 && !plan.topP) {
    const kept = plan.minP ? x.ge(x.max().add(numbers.at(2).log())).where(x, -Infinity) : x;
    return kept.add(gumbel(inputs, n)).argmax();
  }
  const [values, ids] = x.topk(plan.topK || n), rank = Tensor.arange(values.shape[0], { device: x.device });
  let kept = plan.topK === 0 ? values : rank.lt(numbers.at(6)).where(values, -Infinity);
  const p = kept.softmax(-1);
  if (plan.topP) kept = p.cumsum(0).sub(p).lt(numbers.at(1)).where(kept, -Infinity);
  if (plan.minP) kept = p.ge(p.at(0).mul(numbers.at(2))).where(kept, -Infinity);
  return ids.at(kept.add(gumbel(inputs, values.shape[0])).argmax());
}
