/**
 * Sampling on the device against a scalar model of it, over random logits and options; stop texts against a search in the
 * whole text.
 */
import assert from "node:assert/strict";
import { Device, dtypes, Tensor } from "../../mod.ts";
import { sample, sampleRows, samplingOf, type SamplingOptions } from "../../src/llm/model/sampler.ts";
import { StopFilter } from "../../src/llm/use/generation.ts";
import { Random } from "../support/random.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const VOCAB = 37;

interface Case {
  readonly logits: Float32Array<ArrayBuffer>;
  readonly options: SamplingOptions;
  readonly counts: Float32Array<ArrayBuffer>;
  readonly mask: readonly boolean[] | undefined;
  readonly position: number;
}

function randomCase(random: Random): Case {
  const some = <T>(make: () => T): T | undefined => random.below(2) === 0 ? make() : undefined;
  const given: SamplingOptions = {
    temperature: random.pick([0, 0.3, 1, 2]),
    topK: some(() => random.int(1, VOCAB + 3)),
    topP: some(() => random.pick([0, 0.3, 0.9])),
    minP: some(() => random.pick([0.01, 0.2, 1])),
    repetitionPenalty: some(() => random.pick([0.5, 1.5])),
    presencePenalty: some(() => random.pick([-1, 0.7])),
    frequencyPenalty: some(() => random.pick([-0.5, 0.4])),
    logitBias: some(() => ({ [random.below(VOCAB)]: 3, [random.below(VOCAB)]: -100 })),
    seed: random.below(2 ** 31),
  };
  const allowed = some(() => Array.from({ length: VOCAB }, (_, i) => i === 5 || random.below(3) === 0));
  return {
    logits: Float32Array.from({ length: VOCAB }, () => random.next() * 8 - 4),
    options: Object.fromEntries(Object.entries(given).filter(([, v]) => v !== undefined)),
    counts: Float32Array.from({ length: VOCAB }, () => Math.max(0, random.int(-4, 3))),
    mask: allowed,
    position: random.below(1000),
  };
}

/** The logits after bias, penalties, mask and temperature. */
function pressed({ logits, options: o, counts, mask }: Case): number[] {
  const { repetitionPenalty: r = 1, presencePenalty: p = 0, frequencyPenalty: f = 0, temperature = 0 } = o;
  const bias = (o.logitBias ?? {}) as Record<string, number>;
  return Array.from(logits, (logit, i) => {
    let x = logit + (bias[i] ?? 0);
    if (counts[i] > 0) x = (x > 0 ? x / r : x * r) - p - f * counts[i];
    if (mask?.[i] === false) x = -Infinity;
    return temperature === 0 ? x : x / temperature;
  });
}
/** The tokens that may be drawn, the most probable first. */
function keptBy(x: readonly number[], { topK = 0, topP = 1, minP = 0 }: SamplingOptions): number[] {
  const order = x.map((_, i) => i).sort((a, b) => x[b] - x[a] || a - b).slice(0, topK || undefined);
  const e = order.map((i) => Math.exp(x[i] - x[order[0]])), sum = e.reduce((a, b) => a + b);
  let before = 0;
  return order.filter((_, k) => {
    const kept = k === 0 || (topP === 1 || before / sum < topP) && (minP === 0 || e[k] >= minP);
    before += e[k];
    return kept;
  });
}

Deno.test("sampler: the device chooses what a scalar model chooses", async () => {
  const random = new Random(4), taken = { greedy: 0, drawn: 0, cut: 0 };
  for (let n = 0; n < 30; n++) {
    const c = randomCase(random), { options } = c, words = new Uint32Array(2);
    c.mask?.forEach((may, i) => words[i >> 5] |= may ? 1 << (i & 31) : 0);
    const s = samplingOf("test", options, VOCAB, 2, c.mask !== undefined);
    const bias = new Float32Array(VOCAB);
    s.bias.forEach((value, id) => bias[id] = value);
    const seed = new Tensor(Uint32Array.of(s.seed)), position = new Tensor(c.position, { dtype: dtypes.int32 });
    const got = sample(new Tensor(c.logits), s.plan, {
      numbers: new Tensor(s.numbers),
      seed,
      position,
      counts: new Tensor(c.counts),
      bias: new Tensor(bias),
      mask: new Tensor(words),
    });
    const id = (await got.token.data() as Int32Array)[0], x = pressed(c), kept = keptBy(x, options);
    if (s.plan.greedy) {
      assert.equal(id, x.indexOf(Math.max(...x)), JSON.stringify(options));
      taken.greedy++;
    } else {
      // the draw is the largest sum of a logit and noise, which stands by rank where ranks are known
      const ranked = s.plan.topK > 0 || s.plan.topP, size = s.plan.topK || VOCAB;
      const bits = await Tensor.randomBits([s.seed, c.position], 0, ranked ? size : VOCAB).data() as Uint32Array;
      const noise = Array.from(bits, (b) => -Math.log(-Math.log(((b >>> 8) + 0.5) * 2 ** -24)));
      const order = x.map((_, i) => i).sort((a, b) => x[b] - x[a] || a - b);
      const sum = (i: number) => x[i] + noise[ranked ? order.indexOf(i) : i];
      const want = kept.reduce((a, b) => sum(b) > sum(a) ? b : a);
      assert.ok(kept.includes(id), `${id} was cut off by ${JSON.stringify(options)}`);
      assert.ok(Math.abs(sum(want) - sum(id)) < 1e-3, `${id}, not ${want}, for ${JSON.stringify(options)}`);
      taken.drawn++;
      if (kept.length < VOCAB) taken.cut++;
    }
    // log probabilities are those of the model
    const total = Math.log(c.logits.reduce((a, b) => a + Math.exp(b), 0)), best = [...c.logits].sort((a, b) => b - a);
    const [own, first, second] = await got.logprobs!.data() as Float32Array;
    for (const [have, logit] of [[own, c.logits[id]], [first, best[0]], [second, best[1]]]) {
      assert.ok(Math.abs(have - (logit - total)) < 1e-4, `${have}, not ${logit - total}`);
    }
  }
  assert.ok(taken.greedy > 3 && taken.drawn > 12 && taken.cut > 6, JSON.stringify(taken));
});

Deno.test("sampler: rows are chosen as each is alone, bit for bit", async () => {
  const random = new Random(9), rows = 5;
  for (let n = 0; n < 12; n++) {
    const { options } = randomCase(random), allowed = { ...options, logitBias: undefined };
    const plain = samplingOf(
      "test",
      { ...allowed, repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 },
      VOCAB,
      n % 3,
    );
    const all = Array.from({ length: rows }, () => ({
      logits: Float32Array.from({ length: VOCAB }, () => random.pick([random.next() * 8 - 4, 1])),
      numbers: plain.numbers.map((x, i) => i === 0 ? random.pick([0.5, 1, 2]) : x),
      seed: random.below(2 ** 31),
      position: random.below(1000),
    }));
    const together = sampleRows(new Tensor(all.map((r) => [...r.logits])), plain.plan, {
      numbers: new Tensor(all.map((r) => [...r.numbers])),
      seeds: new Tensor(all.map((r) => [r.seed]), { dtype: dtypes.uint32 }),
      positions: new Tensor(all.map((r) => r.position), { dtype: dtypes.int32 }),
    });
    const got = [await together.token.data(), await together.logprobs!.data(), await together.best?.data()];
    for (const [i, r] of all.entries()) {
      const one = sample(new Tensor(r.logits), plain.plan, {
        numbers: new Tensor(r.numbers),
        seed: new Tensor(Uint32Array.of(r.seed)),
        position: new Tensor(r.position, { dtype: dtypes.int32 }),
      });
      const want = [await one.token.data(), await one.logprobs!.data(), await one.best?.data()];
      want.forEach((x, k) => {
        const width = (x?.length ?? 0) as number;
        assert.deepEqual(x && [...x], x && [...got[k]!.subarray(i * width, (i + 1) * width)], JSON.stringify(options));
      });
    }
  }
});

Deno.test("sampler: stop texts are found however the text is cut", () => {
  const random = new Random(9),
    text = (n: number) => Array.from({ length: n }, () => random.pick(["a", "b", "é"])).join("");
  let stops = 0;
  for (let n = 0; n < 2000; n++) {
    const all = text(random.int(0, 14)), ends = Array.from({ length: random.int(0, 3) }, () => text(random.int(1, 4)));
    const filter = new StopFilter(ends);
    let shown = "", stopped = false;
    for (let at = 0; at < all.length && !stopped;) {
      const size = random.int(0, 4), [some, ended] = filter.push(all.slice(at, at + size));
      shown += some;
      stopped = ended;
      at += size;
    }
    if (!stopped) shown += filter.end();
    assert.equal(shown, cutOf(all, ends), `${all} by ${ends}`);
    if (stopped) stops++;
  }
  assert.ok(stops > 500);
});

/** What stands before the stop text that is complete first; of several, the longest. */
function cutOf(all: string, ends: readonly string[]): string {
  for (let n = 1; n <= all.length; n++) {
    const starts = ends.filter((e) => all.slice(0, n).endsWith(e)).map((e) => n - e.length);
    if (starts.length > 0) return all.slice(0, Math.min(...starts));
  }
  return all;
}
