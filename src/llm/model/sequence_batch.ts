/**
 * Several sequences at once: texts that are written go on together, a token each, so that weights are read once for all of
 * them; new ones join, and are read a chunk at a time between those steps. A text begins in the sequence that has most of
 * it, or with what another one has.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { BatchStep, type Begun } from "./batch_step.ts";
import type { Decoder } from "./decoder.ts";
import { type CacheKind, cacheOfRow, type LayerCache, memoryOf } from "./cache_memory.ts";
import type { Pooling } from "./model_spec.ts";
import type { Sampling } from "./sampler.ts";
import {
  CHUNK,
  type NextToken,
  Sequence,
  type Speculation,
  type TokenConstraint,
  type TokenLogprobs,
} from "./sequence.ts";

/** How a reader that waits is given its token, or what went wrong. */
interface Wanted {
  readonly resolve: (token: NextToken | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** A text that is written. */
interface Member {
  readonly sequence: Sequence;
  /** Where its reader waits for a token. */
  wants: Wanted | undefined;
  /** Its reader wants no more. */
  aborted: boolean;
  /** Others have waited for its reader once, and do no more until it wants a token. */
  late: boolean;
}

/** Who waits for a sequence. */
interface Waiting {
  readonly tokens: readonly number[];
  readonly resolve: (sequence: Sequence | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** How a text is written, beside its tokens. */
export interface Writing {
  readonly sampling: Sampling;
  readonly constraint?: TokenConstraint;
  readonly speculation?: Speculation;
  /** Ends it, also between chunks of the text that is read. */
  readonly signal?: AbortSignal;
  /** Is told how many tokens of the text need no reading. */
  readonly onRead?: (cached: number) => void;
  /** Whether it ends by itself: it waits for no reader, and may wait for a sequence. */
  readonly whole?: boolean;
}

/** A step of several texts. */
interface Together {
  readonly members: readonly Member[];
  readonly step: Begun;
}

/** How long texts wait for those whose readers are slow, and after how long other tasks of the program have a turn. */
const PATIENCE_MS = 2, TURN_MS = 20;

/** The sequences of a decoder. */
export class SequenceBatch {
  private readonly sequences: readonly Sequence[];
  private readonly caches: readonly LayerCache[];
  private readonly members: Set<Member> = new Set();
  /** Those that are taken, and whether by what ends by itself. */
  private readonly taken: Map<Sequence, boolean> = new Map();
  /** Who is next where all are taken. */
  private readonly line: Waiting[] = [];
  private gone: ArgumentError | undefined;
  private readonly step: BatchStep;
  /** What was begun before anybody asked for it. */
  private under: Together | undefined;
  private running = false;
  /** When other tasks last ran. */
  private turnStarted = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Whose chunk is read next. */
  private turn = 0;
  private readonly used: number[];
  private uses = 0;

  /** `count` of them, with caches of this kind. */
  constructor(readonly decoder: Decoder, kind: CacheKind = dtypes.float32, count = 1) {
    const caches = this.caches = decoder.makeCache(kind, count === 1 ? undefined : count);
    const whole = caches.flatMap(memoryOf);
    this.sequences = Array.from({ length: count }, (_, i) => {
      const layers = count === 1 ? caches : caches.map((c) => cacheOfRow(c, i));
      return new Sequence(decoder, { layers, whole }, i);
    });
    this.used = Array(count).fill(0);
    this.step = new BatchStep(decoder, caches, this.sequences);
  }

  /** How many texts may be written at once. */
  get size(): number {
    return this.sequences.length;
  }
  /**
   * Forgets all texts, and what was captured: weights are others.
   *
   * @throws {ArgumentError} while a text is written, which would go on without what it says
   */
  reset(): void {
    if (this.taken.size > 0) {
      throw new ArgumentError("forget the last text", {
        reason: "the model is generating one; wait until that has ended",
      });
    }
    this.sequences.forEach((s) => s.reset());
    this.step.reset();
    this.under = undefined;
  }

  /**
   * Chooses the token behind `tokens`, again and again until the caller stops: the text goes on by what was chosen.
   *
   * @throws {ArgumentError} for more tokens than the context has, and where all sequences are taken: what is `whole` waits
   * for one that ends by itself
   */
  async *generate(tokens: readonly number[], how: Writing): AsyncGenerator<NextToken> {
    const { sampling, constraint, speculation, signal, whole = false } = how;
    if (signal?.aborted) return;
    const sequence = await this.take(tokens, whole, signal);
    if (sequence === undefined) return;
    const member: Member = { sequence, wants: undefined, aborted: false, late: false };
    const abort = (): void => {
      // a chunk or a step that is under way ends first
      member.aborted = true;
      this.wake();
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.members.add(member);
    try {
      const known = sequence.begin(tokens, sampling, constraint, speculation);
      how.onRead?.(known);
      while (!sequence.full) {
        const next = await new Promise<NextToken | undefined>((resolve, reject) => {
          if (this.gone !== undefined) return reject(this.gone);
          [member.wants, member.late] = [{ resolve, reject }, false];
          this.wake();
        });
        if (next === undefined) return;
        yield next;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      this.members.delete(member);
      this.used[sequence.row] = ++this.uses;
      this.leave(sequence);
      this.wake();
    }
  }

  /**
   * The states of the tokens as one vector, float32 `[dim]`: their mean, that of the first or that of the last.
   *
   * @throws {ArgumentError} as {@linkcode SequenceBatch.generate}
   */
  async pooled(tokens: readonly number[], pooling: Pooling): Promise<Float32Array<ArrayBuffer>> {
    const sequence = (await this.take(tokens, true))!, { dim } = this.decoder.spec, out = new Float32Array(dim);
    let at = 0;
    try {
      for await (const states of sequence.statesOf(tokens)) {
        for (let row = 0; row < states.length; row += dim, at++) {
          const counts = pooling === "mean" || at === (pooling === "first" ? 0 : tokens.length - 1);
          if (counts) { for (let i = 0; i < dim; i++) out[i] += states[row + i]; }
        }
      }
    } finally {
      this.leave(sequence);
    }
    return pooling === "mean" ? out.map((x) => x / tokens.length) : out;
  }

  /**
   * How probable each token is behind those before it, the first one apart, and the `best` ones there.
   *
   * @throws {ArgumentError} as {@linkcode SequenceBatch.generate}
   */
  async logprobsOf(tokens: readonly number[], best: number): Promise<TokenLogprobs[]> {
    const sequence = (await this.take(tokens, true))!;
    try {
      return await sequence.logprobsOf(tokens, best);
    } finally {
      this.leave(sequence);
    }
  }

  /** A sequence for a text; undefined where `signal` came before there was one. */
  private async take(tokens: readonly number[], whole: boolean, signal?: AbortSignal): Promise<Sequence | undefined> {
    if (this.taken.size < this.size) return this.sequenceFor(tokens, whole);
    // of readers of streams each may wait for what another one asks
    if (!whole || ![...this.taken.values()].includes(true)) {
      const what = this.size === 1 ? "another" : `${this.size} others`;
      throw new ArgumentError("generate a text", {
        reason: `the model is generating ${what}; wait until that has ended, or load it with more sequences`,
      });
    }
    return await new Promise((resolve, reject) => {
      const waiting = { tokens, resolve, reject };
      this.line.push(waiting);
      signal?.addEventListener("abort", () => {
        const at = this.line.indexOf(waiting);
        if (at >= 0) resolve((this.line.splice(at, 1), undefined));
      }, { once: true });
    });
  }
  /** Gives a sequence to who waits, if somebody does. */
  private leave(sequence: Sequence): void {
    this.taken.delete(sequence);
    const next = this.line.shift();
    if (next === undefined) return;
    try {
      next.resolve(this.sequenceFor(next.tokens, true));
    } catch (error) {
      next.reject(error);
      this.leave(sequence);
    }
  }
  /** Takes the one that rests and has most of the tokens; of those with none the one that rests longest. */
  private sequenceFor(tokens: readonly number[], whole: boolean): Sequence {
    const rests = this.sequences.filter((s) => !this.taken.has(s));
    const common = this.sequences.map((s) => s.common(tokens));
    const own = rests.reduce((a, b) => {
      const more = common[b.row] - common[a.row];
      return more > 0 || more === 0 && this.used[b.row] < this.used[a.row] ? b : a;
    });
    const best = this.sequences.reduce((a, b) => common[b.row] > common[a.row] ? b : a, own);
    if (common[best.row] >= common[own.row] + CHUNK) own.copyFrom(best, common[best.row]);
    this.taken.set(own, whole);
    return own;
  }

  /** Goes on when all readers want a token, or when those that do have waited for the others, once for each. */
  private wake(): void {
    if (this.running) return;
    const members = [...this.members], wanting = members.filter((m) => m.wants !== undefined).length;
    if (wanting === 0 || members.every((m) => m.wants !== undefined || m.late)) {
      clearTimeout(this.timer);
      this.timer = undefined;
      if (wanting > 0) void this.run();
      return;
    }
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      for (const m of this.members) m.late = m.wants === undefined;
      this.wake();
    }, PATIENCE_MS);
  }
  private async run(): Promise<void> {
    this.running = true;
    await this.turnOfOthers();
    for (const m of this.members) if (m.aborted) settle(m, (wants) => wants.resolve(undefined));
    const wanting = [...this.members].filter((m) => m.wants !== undefined);
    const reading = wanting.filter((m) => m.sequence.reads);
    try {
      // one chunk of one text, then a token of all that are read
      if (reading.length > 0) reading[this.turn++ % reading.length].sequence.readChunk();
      await this.stepAll(wanting.filter((m) => !m.sequence.reads));
    } catch (error) {
      this.under = undefined;
      for (const m of wanting) settle(m, (wants) => wants.reject(error));
    }
    this.running = false;
    this.wake();
  }
  /** Lets other tasks of the program run, now and then. */
  private async turnOfOthers(): Promise<void> {
    const now = performance.now();
    if (now - this.turnStarted < TURN_MS) return;
    await new Promise<void>((resolve) => setTimeout(resolve));
    this.turnStarted = performance.now();
  }

  /** A token of each: of those that can go on together in one step, behind which the next one may begin at once. */
  private async stepAll(members: readonly Member[]): Promise<void> {
    const single = members.filter((m) => m.sequence.single);
    let under = this.under, served = single.filter((m) => under?.members.includes(m));
    if (served.length === 0) under = single.length > 1 ? this.begin(served = single) : undefined;
    this.under = undefined;
    // who comes while a step is under way is in the next one
    const alone = under === undefined ? members : members.filter((m) => !single.includes(m));
    const told = under?.step.told(served.map((m) => m.sequence)) ?? [];
    const answers = served.map((m, i) => this.answer(m, () => told[i])), next = single.filter((m) => !m.sequence.full);
    if (under !== undefined && next.length > 1 && this.step.canFollow(under.step, next.map((m) => m.sequence))) {
      this.under = this.begin(next, under.step);
    }
    for (const m of alone) await this.answer(m, () => m.sequence.step());
    await Promise.all(answers);
  }
  private begin(members: readonly Member[], before?: Begun): Together {
    return { members, step: this.step.begin(members.map((m) => m.sequence), before) };
  }
  private async answer(m: Member, next: () => Promise<NextToken>): Promise<void> {
    try {
      const token = await next();
      settle(m, (wants) => wants.resolve(token));
    } catch (error) {
      settle(m, (wants) => wants.reject(error));
    }
  }

  /** Gives the memory of the caches back. */
  [Symbol.dispose](): void {
    clearTimeout(this.timer);
    const gone = this.gone = new ArgumentError("generate a text", { reason: "the model was disposed; load it again" });
    for (const m of this.members) settle(m, (wants) => wants.reject(gone));
    this.line.splice(0).forEach((waiting) => waiting.reject(gone));
    this.sequences.forEach((s) => s[Symbol.dispose]());
    for (const c of this.caches) memoryOf(c).forEach((t) => t.dispose());
  }
}

function settle(m: Member, how: (wants: Wanted) => void): void {
  const { wants } = m;
  m.wants = undefined;
  if (wants !== undefined) how(wants);
}
