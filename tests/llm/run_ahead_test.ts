/**
 * Steps that run before their token is asked for, on devices with a queue: texts are what they are where each step waits,
 * whoever stops them, whatever comes next and beside.
 */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { type GenerateOptions, LanguageModel } from "../../src/llm/llm.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { Random } from "../support/random.ts";

const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const BEGINS = ["Once upon a time", "Once upon a time, there was a boy", "The dog", "a"];
const QUEUES = (await devicesHere()).filter((d) => Device.get(d).renderer.caps.hasGrid);

/** What is asked one after the other: prompts of which some begin alike, and how they go on. */
function questions(random: Random, count: number): [string, GenerateOptions][] {
  const ways: GenerateOptions[] = [{}, {}, { temperature: 0.8, seed: 3 }, { repetitionPenalty: 1.3 }, { logprobs: 2 }, {
    speculate: 2,
  }, { stop: [" the", "."] }];
  return Array.from({ length: count }, () => [
    random.pick(BEGINS),
    { maxTokens: random.int(1, 12), ...random.pick(ways) },
  ]);
}

for (const device of QUEUES) {
  Deno.test(`steps ahead ${device}: texts one after the other, left early, to the end of the context`, async () => {
    using ahead = await LanguageModel.load(STORIES, { device, context: 48 });
    using waits = await LanguageModel.load(STORIES, { device: "WASM", context: 48 });
    const random = new Random(5);
    for (const [prompt, options] of [...questions(random, 14), [BEGINS[0], {}] as const]) {
      const leaves = random.below(3) === 0 ? random.int(1, 4) : Infinity, told: unknown[][] = [[], []];
      for (const [i, model] of [ahead, waits].entries()) {
        for await (const { id, text, logprobs } of model.generate(prompt, options)) {
          told[i].push([id, text, logprobs?.best.map((b) => [b.id, b.logprob.toFixed(3)])]);
          if (told[i].length === leaves) break;
        }
      }
      assert.deepEqual(told[0], told[1], `${prompt} ${JSON.stringify(options)}`);
    }
  });

  Deno.test(`steps ahead ${device}: beside another text that comes and goes`, async () => {
    using both = await LanguageModel.load(STORIES, { device, context: 48, sequences: 2 });
    using waits = await LanguageModel.load(STORIES, { device: "WASM", context: 48 });
    const asked = questions(new Random(8), 8), want: string[] = [], got: string[] = [];
    for (const [prompt, options] of asked) want.push((await waits.complete(prompt, options)).text);
    let next = 0;
    const worker = async () => {
      for (let i = next++; i < asked.length; i = next++) got[i] = (await both.complete(...asked[i])).text;
    };
    await Promise.all([worker(), worker()]);
    assert.deepEqual(got, want);
  });

  Deno.test(`steps ahead ${device}: of up to five texts that are chosen in many ways, read slowly, left`, async () => {
    using many = await LanguageModel.load(STORIES, { device, context: 48, sequences: 5 });
    using waits = await LanguageModel.load(STORIES, { device: "WASM", context: 48 });
    const random = new Random(12),
      ways: GenerateOptions[] = [
        ...[{}, {}, { temperature: 0.8, seed: 3 }, { temperature: 0.8, seed: 4 }, { temperature: 1, topK: 8, seed: 5 }],
        ...[{ temperature: 1, topK: 7, topP: 0.9, minP: 0.05, seed: 6 }, { logprobs: 2 }, {
          logprobs: 0,
          temperature: 1,
          seed: 1,
        }],
        ...[{ repetitionPenalty: 1.3 }, { logitBias: { 300: 3 } }, { grammar: 'root ::= "The " [a-z ]+' }, {
          speculate: 2,
        }],
      ];
    const asked = Array.from({ length: 24 }, (_, i): [string, GenerateOptions, number] => {
      const options = {
        maxTokens: i % 8 === 7 ? 99 : random.int(1, 14),
        ...random.pick(i < 12 ? ways.slice(0, 8) : ways),
      };
      return [random.pick(BEGINS), options, random.below(4) === 0 ? random.int(1, 6) : Infinity];
    });
    const told = async (model: LanguageModel, [prompt, options, leaves]: typeof asked[number], slow: boolean) => {
      const pieces: unknown[] = [];
      for await (const { id, logprobs } of model.generate(prompt, options)) {
        pieces.push([id, logprobs?.own.toFixed(3), logprobs?.best.map((b) => [b.id, b.logprob.toFixed(3)])]);
        if (pieces.length === leaves) break;
        if (slow && random.below(5) === 0) await new Promise((go) => setTimeout(go, random.int(1, 6)));
      }
      return pieces;
    };
    const want: unknown[] = [], got: unknown[] = [];
    for (const one of asked) want.push(await told(waits, one, false));
    let next = 0;
    const worker = async (slow: boolean) => {
      for (let i = next++; i < asked.length; i = next++) got[i] = await told(many, asked[i], slow);
    };
    await Promise.all([false, true, false, false, true].map(worker));
    asked.forEach((one, i) => assert.deepEqual(got[i], want[i], `${i}: ${JSON.stringify(one)}`));
  });
}

Deno.test("steps ahead: tests ran where there is a device with a queue", () => {
  assert.ok(QUEUES.length > 0 || !Device.list().some((d) => d.available && ["WEBGPU", "CUDA"].includes(d.name)));
});
