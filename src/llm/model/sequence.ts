/**
 * A sequence that a decoder goes on: its cache, the tokens in it, and the captured steps. Tokens that a new text has in
 * common with the last one are not computed again.
 *
 * @module
 */
import { type DTypeLike, dtypes } from "../../dtype/dtype.ts";
import { jit, type JitFunction } from "../../tensor/jit/jit.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Variable } from "../../tensor/variable.ts";
import { checkRoom, type Decoder } from "./decoder.ts";
import type { LayerCache } from "./linear_layers.ts";
import { sample, type Sampled, type Sampling, type SamplingPlan } from "./sampler.ts";

/** Log probabilities of a token, natural logarithms. */
export interface TokenLogprobs {
  /** Of the token that was taken. */
  readonly own: number;
  /** The most probable ones, the first first. */
  readonly best: readonly { readonly id: number; readonly logprob: number }[];
}

/** A token that was chosen. */
export interface NextToken {
  readonly id: number;
  readonly logprobs: TokenLogprobs | undefined;
}

/** What may come next. */
export interface TokenConstraint {
  /** A bit for each token that may come, the lowest first. */
  mask(): Uint32Array<ArrayBuffer>;
  /** Takes the token that came. @throws {ArgumentError} where it may not */
  accept(id: number): void;
}

/** Tokens that are computed together while a text is read. */
export const CHUNK = 32;

/** One sequence. */
export class Sequence {
  /** The tokens whose keys and values are in the cache. */
  private readonly held: number[] = [];
  private readonly cache: LayerCache[];
  private readonly counts: Tensor;
  private readonly bias: Tensor;
  private readonly position: Variable;
  /** Of the first token of a chunk. */
  private readonly chunkStart: Variable;
  private readonly chunk: number;
  private readonly last: Variable;
  private readonly step: JitFunction<
    [token: Tensor, start: Tensor, last: Tensor, numbers: Tensor, seed: Tensor, mask: Tensor, plan: SamplingPlan],
    Sampled
  >;
  private readonly read: JitFunction<[tokens: Tensor, start: Tensor], Tensor>;

  /** Allocates the cache. */
  constructor(readonly decoder: Decoder, cacheDType: DTypeLike = dtypes.float32) {
    const { vocabulary, device, context } = decoder;
    this.cache = decoder.makeCache(cacheDType);
    this.counts = Tensor.zeros([vocabulary], { device }).contiguous().realize();
    this.bias = Tensor.zeros([vocabulary], { device }).contiguous().realize();
    const chunk = this.chunk = Math.min(CHUNK, context - 1);
    this.position = new Variable("position", 0, context - 1);
    this.chunkStart = new Variable("chunk_start", 0, context - chunk);
    this.last = new Variable("last", 0, chunk - 1);
    const { cache, counts, bias } = this;
    this.step = jit(
      (
        tokens: Tensor,
        start: Tensor,
        last: Tensor,
        numbers: Tensor,
        seed: Tensor,
        mask: Tensor,
        plan: SamplingPlan,
      ) => {
        const logits = decoder.logits(tokens, start, last, cache);
        const next = sample(logits, plan, { numbers, seed, position: start.add(last), counts, bias, mask });
        if (plan.penalties) counts.setAt([next.token], counts.at(next.token).add(1));
        Tensor.realize([
          next.token,
          ...[next.logprobs, next.best].filter((t) => t !== undefined),
          ...cache.flatMap((c) => [c.keys, c.values]),
          ...plan.penalties ? [counts] : [],
        ]);
        return next;
      },
    );
    // what is read without a token behind it: only the cache is wanted, and the logits are not computed
    this.read = jit((tokens: Tensor, start: Tensor) => {
      const logits = decoder.logits(tokens, start, tokens.shape[0] - 1, cache);
      Tensor.realize([...cache.flatMap((c) => [c.keys, c.values])]);
      void logits;
      return cache[0].keys;
    });
  }

  /** How many tokens are in the cache. */
  get length(): number {
    return this.held.length;
  }
  /** Forgets all tokens from `count` on. */
  cut(count: number): void {
    this.held.length = Math.min(this.held.length, count);
  }

  /** Forgets all tokens, and the captured steps: weights are others. */
  reset(): void {
    this.cut(0);
    this.step.reset();
    this.read.reset();
  }

  private tensor(ids: readonly number[], size: number): Tensor {
    const padded = Int32Array.from({ length: size }, (_, i) => ids[i] ?? 0);
    return new Tensor(padded, { device: this.decoder.device });
  }

  /**
   * Chooses the token behind `tokens`, again and again until the caller stops: the text goes on by what was chosen.
   * `onRead` is told how many tokens of the text need no reading. A plan with a mask takes it from `constraint`.
   *
   * @throws {ArgumentError} for more tokens than the context has
   */
  async *generate(
    tokens: readonly number[],
    sampling: Sampling,
    onRead?: (cached: number) => void,
    constraint?: TokenConstraint,
  ): AsyncGenerator<NextToken> {
    const { context, device, vocabulary } = this.decoder, { plan } = sampling, words = Math.ceil(vocabulary / 32);
    checkRoom(tokens.length, context);
    let common = 0;
    while (common < this.held.length && common < tokens.length - 1 && this.held[common] === tokens[common]) common++;
    this.held.length = common;
    onRead?.(common);
    this.prepare(tokens, sampling);
    const numbers = new Tensor(sampling.numbers, { device }).realize();
    const seed = new Tensor(Uint32Array.of(sampling.seed), { device }).realize();
    let rest = tokens.slice(common);
    const { chunk } = this, room = () => this.held.length + chunk <= context;
    while (rest.length > chunk || rest.length > 1 && !room()) {
      // near the end of the context there is no room for a chunk that is not full
      const size = room() ? chunk : 1, part = this.tensor(rest.slice(0, size), size);
      this.read(part, (size > 1 ? this.chunkStart : this.position).bind(this.held.length));
      this.held.push(...rest.slice(0, size));
      rest = rest.slice(size);
    }
    const many = rest.length > 1;
    let input = this.tensor(rest, many ? chunk : 1), last = rest.length - 1;
    let start = (many ? this.chunkStart : this.position).bind(this.held.length);
    const bits = (): Tensor => new Tensor(constraint?.mask() ?? new Uint32Array(words), { device }).realize();
    for (let mask = bits();;) {
      const next = this.step(input, start, this.last.bind(last), numbers, seed, mask, plan);
      this.held.push(...rest);
      const id = (await next.token.data() as Int32Array)[0];
      if (constraint !== undefined) {
        constraint.accept(id);
        mask = bits();
      }
      yield { id, logprobs: await logprobsOf(next) };
      if (this.held.length >= context) return;
      [input, last, rest, start] = [next.token, 0, [id], this.position.bind(this.held.length)];
    }
  }

  /** Puts bias and counts on the device. */
  private prepare(tokens: readonly number[], { plan, bias }: Sampling): void {
    const { vocabulary, device } = this.decoder;
    const put = (target: Tensor, fill: (x: Float32Array) => void): void => {
      const values = new Float32Array(vocabulary);
      fill(values);
      target.assign(new Tensor(values, { device })).realize();
    };
    if (plan.bias) put(this.bias, (x) => bias.forEach((value, id) => x[id] = value));
    if (plan.penalties) put(this.counts, (x) => tokens.forEach((id) => x[id]++));
  }

  /** Gives the memory of the cache back. */
  [Symbol.dispose](): void {
    for (const { keys, values } of this.cache) [keys, values].forEach((t) => t.dispose());
    this.counts.dispose();
    this.bias.dispose();
    this.held.length = 0;
  }
}

async function logprobsOf({ logprobs, best }: Sampled): Promise<TokenLogprobs | undefined> {
  if (logprobs === undefined) return undefined;
  const [own, ...values] = await logprobs.data() as Float32Array,
    ids = best === undefined ? [] : [...await best.data() as Int32Array];
  return { own, best: ids.map((id, i) => ({ id, logprob: values[i] })) };
}
