/**
 * A step of several sequences on the device: the last token of each is read, and the next one of each is chosen. What a
 * step chose, the next one may read before anybody was told of it.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { jit, type JitFunction } from "../../tensor/jit/jit.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Variable } from "../../tensor/variable.ts";
import { type LayerCache, memoryOf } from "./cache_memory.ts";
import type { Decoder } from "./decoder.ts";
import { type Sampled, sampleRows, type Sampling, type SamplingPlan } from "./sampler.ts";
import { logprobsOf, type NextToken, type Sequence } from "./sequence.ts";

/** How rows are chosen that are chosen alike. */
interface Alike {
  readonly plan: SamplingPlan;
  /** Which they are: bool `[B]`. */
  readonly mine: Tensor;
  /** Float32 `[B, 7]`, as in {@linkcode Sampling}. */
  readonly numbers: Tensor;
  /** Uint32 `[B, 1]`. */
  readonly seeds: Tensor;
}

/** A step that was begun. */
export interface Begun {
  /** What was chosen, int32 `[B]`; undefined where some of them choose for themselves. */
  readonly tokens: Tensor | undefined;
  /** What some of them go on by, in order; queued when it is called. */
  readonly told: (some: readonly Sequence[]) => readonly Promise<NextToken>[];
}

/** Steps of the sequences of a decoder, whose caches are rows of `caches`. */
export class BatchStep {
  private readonly scored: JitFunction<
    [given: Tensor, before: Tensor, starts: readonly Tensor[], positions: Tensor, end: Tensor],
    Tensor
  >;
  private readonly chosen: JitFunction<[logits: Tensor, tokens: Tensor, positions: Tensor, Alike], Sampled>;
  private readonly end: Variable;
  private readonly hasQueue: boolean;
  /** How the rows of the last step are chosen, and what that was made of. */
  private samplings: readonly (Sampling | undefined)[] = [];
  private groups: ReadonlyMap<string, Alike> = new Map();

  constructor(
    private readonly decoder: Decoder,
    caches: readonly LayerCache[],
    private readonly sequences: readonly Sequence[],
  ) {
    const whole = caches.flatMap(memoryOf);
    this.end = new Variable("end", 1, decoder.context);
    this.hasQueue = getDevice(decoder.device).renderer.caps.hasGrid;
    this.scored = jit((given, before, starts, positions, end) => {
      const tokens = given.lt(0).where(before, given);
      const logits = decoder.logitsOfRows(tokens, { starts, positions }, end, caches);
      Tensor.realize([logits, ...whole]);
      return logits;
    });
    this.chosen = jit((logits, tokens, positions, { plan, mine, numbers, seeds }) => {
      const { token, logprobs, best } = sampleRows(logits, plan, { numbers, seeds, positions });
      const next = { token: mine.where(token, tokens), logprobs, best };
      Tensor.realize(Object.values(next).filter((t) => t !== undefined));
      return next;
    });
  }

  /** Forgets what was captured. */
  reset(): void {
    this.scored.reset();
    this.chosen.reset();
  }

  /**
   * Begins a step of sequences that have one token each to be read. Where nobody was told yet which one that is, it is what
   * `before` has chosen.
   */
  begin(active: readonly Sequence[], before?: Begun): Begun {
    const rows = this.rowsOf(active), { device } = this.decoder;
    const ints = (of: (s: Sequence) => number): Tensor => new Tensor(Int32Array.from(rows, of), { device });
    rows.filter((s) => !active.includes(s)).forEach((s) => s.rests());
    const given = ints((s) => active.includes(s) ? s.input : 0);
    const positions = ints((s) => s.length);
    const end = this.end.bind(Math.max(...active.map((s) => s.length)) + 1);
    const logits = this.scored(given, before?.tokens ?? given, rows.map((s) => s.place()), positions, end);
    const samplings = rows.map((s) => active.includes(s) ? s.shared : undefined);
    const chosen = new Map<string, Sampled>();
    let tokens = given;
    for (const [key, alike] of this.groupsOf(samplings)) {
      const next = this.chosen(logits, tokens, positions, alike);
      chosen.set(key, next);
      tokens = next.token;
    }
    // what depends on more than logits and a seed, each chooses for itself
    const apart = new Map(active.filter((s) => s.shared === undefined).map((s) => [s, s.chosenFrom(logits)]));
    // what comes next on the device may have its memory
    logits.dispose();
    const told = (some: readonly Sequence[]): readonly Promise<NextToken>[] => {
      const ids = chosen.size > 0 ? tokens.data() : undefined;
      const logprobs = new Map([...chosen].map(([key, next]) => [key, logprobsOf(next)]));
      return some.map(async (s) => {
        const own = apart.get(s), row = rows.indexOf(s);
        if (own !== undefined) return await s.take(own);
        const { plan, best } = samplings[row]!;
        s.advance();
        return s.follow((await ids as Int32Array)[row], (await logprobs.get(keyOf(plan))!)(best, row));
      });
    };
    return { tokens: apart.size > 0 ? undefined : tokens, told };
  }
  /** Whether a step of these sequences can begin before those of another one were told what they go on by. */
  canFollow({ tokens }: Begun, active: readonly Sequence[]): boolean {
    return this.hasQueue && tokens !== undefined && tokens.shape[0] === this.rowsOf(active).length &&
      active.every((s) => s.length < this.decoder.context);
  }

  /** The first sequences, as many as hold all of these: a power of two, so that few steps are captured. */
  private rowsOf(active: readonly Sequence[]): readonly Sequence[] {
    const most = Math.max(...active.map((s) => s.row)) + 1;
    return this.sequences.slice(0, Math.min(this.sequences.length, 2 ** Math.ceil(Math.log2(most))));
  }
  /** How rows are chosen, by the keys of their plans. */
  private groupsOf(samplings: readonly (Sampling | undefined)[]): ReadonlyMap<string, Alike> {
    const last = this.samplings, { device } = this.decoder;
    if (samplings.length === last.length && samplings.every((s, i) => s === last[i])) return this.groups;
    const groups = new Map<string, Alike>();
    for (const first of samplings) {
      if (first === undefined) continue;
      const key = keyOf(first.plan);
      if (groups.has(key)) continue;
      const rows = samplings.map((s) => s !== undefined && keyOf(s.plan) === key ? s : undefined);
      const numbers = rows.map((s) => [...(s ?? first).numbers]), seeds = rows.map((s) => [(s ?? first).seed]);
      const alike = {
        plan: first.plan,
        mine: new Tensor(rows.map((s) => s !== undefined), { device }),
        numbers: new Tensor(numbers, { device }),
        seeds: new Tensor(seeds, { dtype: dtypes.uint32, device }),
      };
      Tensor.realize([alike.mine, alike.numbers, alike.seeds]);
      groups.set(key, alike);
    }
    this.samplings = samplings;
    return this.groups = groups;
  }
}

/** Equal for plans that are alike. */
function keyOf(plan: SamplingPlan): string {
  return JSON.stringify(plan);
}
