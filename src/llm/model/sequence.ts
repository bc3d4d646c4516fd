/**
 * A sequence that a decoder goes on: its cache, the tokens in it, and the captured steps. Tokens that a new text has in
 * common with the last one are not computed again.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { jit, type JitFunction } from "../../tensor/jit/jit.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Variable } from "../../tensor/variable.ts";
import { checkRoom, type Decoder } from "./decoder.ts";
import { type LayerCache, memoryOf } from "./cache_memory.ts";
import { isPlain, mostProbable, roomFor, sample, type Sampled, type Sampling, type SamplingPlan } from "./sampler.ts";

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
  /** Whether it was guessed, and computed with the one before. */
  readonly guessed: boolean;
  readonly logprobs: TokenLogprobs | undefined;
}

/** What may come next. */
export interface TokenConstraint {
  /** A bit for each token that may come, the lowest first. */
  mask(): Uint32Array<ArrayBuffer>;
  /** Takes the token that came. @throws {ArgumentError} where it may not */
  accept(id: number): void;
}

/**
 * Tokens that may follow, at most `count`: guesses, which are computed together and kept as far as they are what is chosen
 * (speculative decoding, https://arxiv.org/abs/2211.17192; here each position draws the same with or without guesses).
 */
export type Guesser = (tokens: readonly number[], count: number) => readonly number[] | Promise<readonly number[]>;

/** How tokens are guessed. */
export interface Speculation {
  readonly count: number;
  readonly guess: Guesser;
}

/** The tokens that followed when the last few stood there before (https://arxiv.org/abs/2304.04487). */
export function guessByRepetition(tokens: readonly number[], count: number): readonly number[] {
  const n = tokens.length;
  for (const size of [3, 2]) {
    for (let at = n - size - 1; at >= 0; at--) {
      let same = 0;
      while (same < size && tokens[at + same] === tokens[n - size + same]) same++;
      if (same === size) return tokens.slice(at + size, at + size + count);
    }
  }
  return [];
}

/** Tokens that are computed together while a text is read. */
export const CHUNK = 32;
/** As many with matrix units, the least that hold what there is to read: they do more than memory brings. */
const UNIT_CHUNKS: readonly number[] = [CHUNK, 128, 512];

/** Bytes of the scores of a chunk beyond which smaller ones are read. */
const SCORE_BYTES = 2 ** 31;

/** Bytes of the scores of `chunk` tokens over a whole context, which are there three times. */
export function scoreBytes(heads: number, chunk: number, context: number): number {
  return 12 * heads * chunk * context;
}

/** How many tokens a decoder may compute together, ascending. */
export function chunksOf(device: string, heads: number, context: number): readonly number[] {
  const hasUnits = (getDevice(device).renderer.caps.grid?.tensorCores.length ?? 0) > 0;
  const fitting = (hasUnits ? UNIT_CHUNKS : [CHUNK]).filter((n) =>
    n < context && (n === CHUNK || scoreBytes(heads, n, context) <= SCORE_BYTES)
  );
  return fitting.length > 0 ? fitting : [context - 1];
}

/** Where a sequence keeps its keys and values: those of a layer may be a part of larger memory. */
export interface SequenceMemory {
  readonly layers: readonly LayerCache[];
  /** What is realized when they are written. */
  readonly whole: readonly Tensor[];
}

/** Of tokens of a text: their log probabilities and those of the best ones `[T, 1 + best]`, and which these are. */
interface Scored {
  readonly logprobs: Tensor;
  readonly best: Tensor | undefined;
}

/**
 * What the decoder says of tokens, by one capture however the next ones are chosen: the logits, and of them the most probable
 * token, which most texts go on by.
 */
interface Told {
  readonly logits: Tensor;
  readonly token: Tensor;
}

/** How the next token of a text is chosen. */
interface Choice {
  readonly sampling: Sampling;
  readonly constraint: TokenConstraint | undefined;
  readonly speculation: Speculation | undefined;
  readonly numbers: Tensor;
  readonly seed: Tensor;
}

type Sampler = readonly [numbers: Tensor, seed: Tensor, mask: Tensor, plan: SamplingPlan];

/** One sequence: {@linkcode Sequence.begin}, then steps, of which each gives a token. */
export class Sequence {
  /** The tokens whose keys and values are in the cache. */
  private readonly held: number[] = [];
  /** Those of the text that are not yet; a step takes the last ones. */
  private rest: readonly number[] = [];
  /** Guesses that were right, in order; they are in the cache, but for the last. */
  private ahead: number[] = [];
  /** The last token, where a step of its own chose it. */
  private token: Tensor | undefined;
  /** The step behind the token that was told last: on a device with a queue it runs before anybody asks for it. */
  private under: Sampled | undefined;
  private readonly hasQueue: boolean;
  private choice: Choice | undefined;
  private readonly cache: readonly LayerCache[];
  private readonly counts: Tensor;
  private readonly bias: Tensor;
  /** Stands for a mask where none is read. */
  private readonly noMask: Tensor;
  private readonly position: Variable;
  private readonly chunks: readonly number[];
  private readonly last: Variable;
  private readonly copied: Variable;
  private readonly starts: Map<number, Variable> = new Map();
  private readonly behind: JitFunction<[tokens: Tensor, start: Tensor, last: Tensor], Told>;
  private readonly chosen: JitFunction<[logits: Tensor, position: Tensor, ...Sampler], Sampled>;
  private readonly behindEach: JitFunction<[tokens: Tensor, start: Tensor], Told>;
  private readonly chosenEach: JitFunction<[logits: Tensor, start: Tensor, ...Sampler], Tensor>;
  private readonly read: JitFunction<[tokens: Tensor, start: Tensor], void>;
  private readonly states: JitFunction<[tokens: Tensor, start: Tensor], Tensor>;
  private readonly scored: JitFunction<[tokens: Tensor, start: Tensor, next: Tensor, best: number], Scored>;

  /** Of several in one batch, `row` is the own one. */
  constructor(readonly decoder: Decoder, memory: SequenceMemory, readonly row = 0) {
    const { vocabulary, device, context } = decoder, { layers, whole } = memory;
    this.cache = layers;
    this.hasQueue = getDevice(device).renderer.caps.hasGrid;
    this.counts = Tensor.zeros([vocabulary], { device }).contiguous().realize();
    this.bias = Tensor.zeros([vocabulary], { device }).contiguous().realize();
    this.noMask = Tensor.zeros([Math.ceil(vocabulary / 32)], { dtype: dtypes.uint32, device }).contiguous().realize();
    const chunks = this.chunks = chunksOf(device, decoder.spec.heads, context);
    this.position = new Variable(`position${row || ""}`, 0, context - 1);
    this.last = new Variable("last", 0, chunks[chunks.length - 1] - 1);
    this.copied = new Variable("copied", 1, context);
    const { counts, bias } = this;
    const told = (logits: Tensor): Told => {
      const token = mostProbable(logits);
      Tensor.realize([logits, token, ...whole]);
      return { logits, token };
    };
    this.behind = jit((tokens: Tensor, start: Tensor, last: Tensor) =>
      told(decoder.logits(tokens, start, last, layers))
    );
    this.behindEach = jit((tokens: Tensor, start: Tensor) => told(decoder.logitsOfAll(tokens, start, layers)));
    this.chosen = jit((all: Tensor, position: Tensor, ...[numbers, seed, mask, plan]: Sampler) => {
      const logits = all.ndim === 1 ? all : all.at(row);
      const next = sample(logits, plan, { numbers, seed, position, counts, bias, mask });
      if (plan.penalties) counts.setAt([next.token], counts.at(next.token).add(1));
      const told = [next.logprobs, next.best].filter((t) => t !== undefined);
      Tensor.realize([next.token, ...told, ...plan.penalties ? [counts] : []]);
      return next;
    });
    this.chosenEach = jit((logits: Tensor, start: Tensor, ...[numbers, seed, mask, plan]: Sampler) => {
      const at = (i: number) =>
        sample(logits.at(i), plan, { numbers, seed, position: start.add(i), counts, bias, mask }).token;
      return Tensor.cat(Array.from({ length: logits.shape[0] }, (_, i) => at(i))).realize();
    });
    this.states = jit((tokens: Tensor, start: Tensor) => {
      const x = decoder.states(tokens, start, layers);
      Tensor.realize([x, ...whole]);
      return x;
    });
    this.scored = jit((tokens: Tensor, start: Tensor, next: Tensor, best: number) => {
      const log = decoder.logitsOfAll(tokens, start, layers).logSoftmax(-1);
      const own = log.gather(1, next.unsqueeze(1)), [values, ids] = best > 0 ? log.topk(best, -1) : [];
      const logprobs = values === undefined ? own : own.cat([values], 1);
      Tensor.realize([logprobs, ...ids === undefined ? [] : [ids], ...whole]);
      return { logprobs, best: ids };
    });
    // what is read without a token behind it: only the cache is wanted, and the logits are not computed
    this.read = jit((tokens: Tensor, start: Tensor) => {
      const logits = decoder.logits(tokens, start, tokens.shape[0] - 1, layers);
      Tensor.realize([...whole]);
      void logits;
    });
  }

  /** The states of all tokens of a text, `dim` numbers each, a chunk at a time. */
  async *statesOf(tokens: readonly number[]): AsyncGenerator<Float32Array> {
    checkRoom(tokens.length, this.decoder.context);
    this.held.length = 0;
    while (this.held.length < tokens.length) {
      const at = this.held.length,
        size = this.sizeFor(Math.max(2, tokens.length - at)),
        part = tokens.slice(at, at + size);
      const x = this.states(this.tensor(part, size), this.startOf(size).bind(at));
      const values = await x.data() as Float32Array;
      this.held.push(...part);
      yield values.subarray(0, part.length * this.decoder.spec.dim);
    }
    // what fills the last chunk is in a state as well
    if (this.decoder.spec.recurrent !== undefined) this.held.length = 0;
  }
  /**
   * How probable each token of a text is behind those before it, the first one apart: natural logarithms, and those of the
   * `best` most probable ones.
   *
   * @throws {ArgumentError} for more tokens than the context has
   */
  async logprobsOf(tokens: readonly number[], best: number): Promise<TokenLogprobs[]> {
    const out: TokenLogprobs[] = [], last = tokens.length - 1, room = roomFor(best, this.decoder.vocabulary);
    checkRoom(tokens.length, this.decoder.context);
    this.held.length = 0;
    while (this.held.length < last) {
      const at = this.held.length, size = this.sizeFor(Math.max(2, last - at)), end = Math.min(at + size, last);
      const part = tokens.slice(at, end), next = this.tensor(tokens.slice(at + 1, end + 1), size);
      const told = this.scored(this.tensor(part, size), this.startOf(size).bind(at), next, room);
      const values = await told.logprobs.data() as Float32Array,
        ids = await told.best?.data() as Int32Array | undefined;
      part.forEach((_, i) => {
        const [own, ...others] = values.subarray(i * (room + 1), i * (room + 1) + best + 1);
        out.push({ own, best: others.map((logprob, k) => ({ id: ids![i * room + k], logprob })) });
      });
      this.held.push(...part);
    }
    // what fills the last chunk is in a state as well
    if (this.decoder.spec.recurrent !== undefined) this.held.length = 0;
    return out;
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
    this.behind.reset();
    this.behindEach.reset();
    this.chosen.reset();
    this.chosenEach.reset();
    this.read.reset();
    this.states.reset();
    this.scored.reset();
  }

  private tensor(ids: readonly number[], size: number): Tensor {
    const padded = Int32Array.from({ length: size }, (_, i) => ids[i] ?? 0);
    return new Tensor(padded, { device: this.decoder.device });
  }

  /** How many of these tokens the cache has; of a whole text the last is read again. */
  common(tokens: readonly number[]): number {
    const most = Math.min(this.held.length, tokens.length - 1);
    let n = 0;
    while (n < most && this.held[n] === tokens[n]) n++;
    // a state cannot go back
    if (this.decoder.spec.recurrent !== undefined && n < this.held.length) return 0;
    return n;
  }
  /** Takes the first `count` tokens of another, whose cache has them. */
  copyFrom(other: Sequence, count: number): void {
    const end = this.copied.bind(count);
    const written = this.cache.flatMap((mine, i) => {
      const theirs = memoryOf(other.cache[i]);
      return memoryOf(mine).map((x, k) => x.setAt([":", [0, end]], theirs[k].at(":", [0, end])));
    });
    Tensor.realize(written);
    this.held.splice(0, Infinity, ...other.held.slice(0, count));
  }

  /**
   * Begins a text, of which the tokens in common with the last one stay; a plan with a mask takes it from `constraint`.
   * Gives how many those are.
   *
   * @throws {ArgumentError} for more tokens than the context has
   */
  begin(
    tokens: readonly number[],
    sampling: Sampling,
    constraint?: TokenConstraint,
    speculation?: Speculation,
  ): number {
    const { context, device, spec } = this.decoder, { penalties, logprobs } = sampling.plan;
    checkRoom(tokens.length, context);
    const common = this.common(tokens);
    this.held.length = common;
    this.rest = tokens.slice(common);
    this.ahead = [];
    this.token = this.under = undefined;
    this.prepare(tokens, sampling);
    this.choice = {
      sampling,
      constraint,
      // what depends on the tokens before cannot be chosen for several at once, and a state cannot go back
      speculation: penalties || logprobs >= 0 || constraint || spec.recurrent ? undefined : speculation,
      numbers: new Tensor(sampling.numbers, { device }).realize(),
      seed: new Tensor(Uint32Array.of(sampling.seed), { device }).realize(),
    };
    return common;
  }
  /** Whether a chunk must be read before a step. */
  get reads(): boolean {
    return this.rest.length > this.sizeFor(this.rest.length);
  }
  /** Whether a step is of a single token, as those of other sequences. */
  get single(): boolean {
    return this.rest.length === 1 && this.ahead.length === 0;
  }
  /** Whether no token fits any more. */
  get full(): boolean {
    return this.held.length >= this.decoder.context && this.ahead.length === 0;
  }
  /** The token of a step; -1 where a batch has chosen it, and not told. */
  get input(): number {
    return this.rest[0] ?? 0;
  }
  /**
   * How many tokens are computed together where `count` are to be: the least that hold them, or the most. Near the end of
   * the context there is no room for a chunk that is not full.
   */
  private sizeFor(count: number): number {
    const fitting = count === 1 ? [] : this.chunks.filter((n) => this.held.length + n <= this.decoder.context);
    return fitting.find((n) => n >= count) ?? fitting[fitting.length - 1] ?? 1;
  }

  /** Reads a chunk. */
  readChunk(): void {
    const size = this.sizeFor(this.rest.length), part = this.rest.slice(0, size);
    this.read(this.tensor(part, size), this.startOf(size).bind(this.held.length));
    this.held.push(...part);
    this.rest = this.rest.slice(size);
  }
  /** Where the next token of a step stands, bound. A sequence that rests has a place, too, that nothing is read from. */
  place(): Tensor {
    return this.position.bind(Math.min(this.held.length, this.decoder.context - 1));
  }
  /** A batch writes behind the tokens of those that rest. */
  rests(): void {
    this.cut(this.decoder.context - 1);
  }

  /** Chooses the token behind the text. */
  async step(): Promise<NextToken> {
    const known = this.ahead.shift() ?? await this.guessed();
    if (known !== undefined) return { id: known, logprobs: undefined, guessed: true };
    const next = this.under ?? this.launched();
    this.under = undefined;
    return await this.take(next, next.token);
  }
  /** Begins the step of the tokens that are not in the cache. */
  private launched(): Sampled {
    const { length } = this.rest, size = this.sizeFor(length), input = this.token ?? this.tensor(this.rest, size);
    const { logits, token } = this.behind(input, this.startOf(size).bind(this.held.length), this.last.bind(length - 1));
    const next = isPlain(this.choice!.sampling.plan)
      ? { token, logprobs: undefined, best: undefined }
      : this.chosen(logits, this.position.bind(this.held.length + length - 1), ...this.sampler());
    logits.dispose(); // what comes next on the device may have its memory
    return next;
  }
  /**
   * Does the step behind a token take nothing that its number decides? What it writes to the cache behind the tokens that
   * are held is read by nobody where no other step follows; counts and states are not as forgiving.
   */
  private get runsAhead(): boolean {
    const { choice, decoder, held } = this, { constraint, speculation, sampling } = choice!;
    return this.hasQueue && constraint === undefined && speculation === undefined && !sampling.plan.penalties &&
      decoder.spec.recurrent === undefined && held.length < decoder.context;
  }
  /** The position of the first of so many tokens. */
  private startOf(size: number): Variable {
    if (size === 1) return this.position;
    let start = this.starts.get(size);
    if (start === undefined) {
      this.starts.set(size, start = new Variable(`start${size}`, 0, this.decoder.context - size));
    }
    return start;
  }
  /** Chooses tokens where guesses stand, and keeps those up to the first guess that is wrong. Gives the first of them. */
  private async guessed(): Promise<number | undefined> {
    const { speculation } = this.choice!, { held, rest } = this;
    if (speculation === undefined || !this.single) return undefined;
    const size = speculation.count + 1;
    if (held.length + size > this.decoder.context) return undefined;
    const guesses = await speculation.guess([...held, ...rest], speculation.count);
    if (guesses.length === 0) return undefined;
    const start = this.startOf(size).bind(held.length);
    const { logits, token } = this.behindEach(this.tensor([...rest, ...guesses], size), start);
    const next = isPlain(this.choice!.sampling.plan) ? token : this.chosenEach(logits, start, ...this.sampler());
    logits.dispose();
    const chosen = await next.data() as Int32Array;
    let right = 0;
    while (right < guesses.length && guesses[right] === chosen[right]) right++;
    held.push(...rest, ...guesses.slice(0, right));
    this.rest = [chosen[right]];
    this.token = undefined;
    this.ahead = [...chosen.subarray(1, right + 1)];
    return chosen[0];
  }
  /** How a batch chooses for it; undefined where that needs more than logits and a seed. */
  get shared(): Sampling | undefined {
    const { sampling, constraint } = this.choice!, { plan } = sampling;
    return constraint !== undefined || plan.penalties || plan.bias ? undefined : sampling;
  }
  /** What it chooses from the logits `[n, vocabulary]` of a batch, for {@linkcode Sequence.take}. */
  chosenFrom(logits: Tensor): Sampled {
    return this.chosen(logits, this.place(), ...this.sampler());
  }
  /** Its token was read by a batch, which has chosen the next one. */
  advance(): void {
    this.under = this.token = undefined;
    this.held.push(...this.rest);
    this.rest = [-1];
  }
  /** Goes on by the token that a batch chose. */
  follow(id: number, logprobs: TokenLogprobs | undefined): NextToken {
    this.rest = [id];
    return { id, logprobs, guessed: false };
  }
  private sampler(): Sampler {
    const { sampling, constraint, numbers, seed } = this.choice!, { device } = this.decoder;
    const mask = constraint === undefined ? this.noMask : new Tensor(constraint.mask(), { device }).realize();
    return [numbers, seed, mask, sampling.plan];
  }
  /** Goes on by what was chosen; the next step reads it from `token`, and may begin before it is told. */
  async take(next: Sampled, token?: Tensor): Promise<NextToken> {
    const { choice } = this, { best } = choice!.sampling;
    this.held.push(...this.rest);
    // queued in this order: what is told does not wait for the step that goes on meanwhile
    const told = Promise.all([next.token.data(), logprobsOf(next)]);
    if (token !== undefined && this.runsAhead) {
      [this.rest, this.token] = [[0], token];
      this.under = this.launched();
    }
    const [ids, logprobs] = await told, [id] = ids as Int32Array;
    choice!.constraint?.accept(id);
    this.rest = [id];
    this.token = token;
    return { id, logprobs: logprobs(best), guessed: false };
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

  /** Gives the memory of its own back; that of the cache is its maker's. */
  [Symbol.dispose](): void {
    this.counts.dispose();
    this.bias.dispose();
    this.noMask.dispose();
    this.held.length = 0;
  }
}

/** The log probabilities of what was chosen: of a row, with those of so many of the best. */
export async function logprobsOf(
  { logprobs, best }: Sampled,
): Promise<(count: number, row?: number) => TokenLogprobs | undefined> {
  if (logprobs === undefined) return () => undefined;
  const width = logprobs.shape.at(-1)!, read = [logprobs.data(), best?.data()] as const;
  const [values, ids] = await Promise.all(read) as [Float32Array, Int32Array | undefined];
  return (count, row = 0) => ({
    own: values[row * width],
    best: Array.from({ length: count }, (_, i) => ({
      id: ids![row * (width - 1) + i],
      logprob: values[row * width + 1 + i],
    })),
  });
}
