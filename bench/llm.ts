/**
 * `deno task llm:bench [MODEL.gguf]`: how fast a language model reads and writes.
 *
 *     deno task llm:bench model.gguf --device CUDA --prompt 2048
 *     deno task llm:bench --synthetic 110m-q8_0
 *
 * `--synthetic SIZE-FORMAT` takes random weights: tiny, 15m, 110m, 1b or 8b, in any block format or a mix of them
 * (q8_0, q4_k_m, bf16 ...). Other options: --device D, --prompt N tokens to read (512), --tokens N to write (64),
 * --runs N of which the median counts (5), --context N, --cache DTYPE, --json for one line of JSON, --sequences 1,4,16:
 * how fast so many texts at once are written, together. The first run, which compiles, is told apart. `cpuMs` is the processor time of a written token, of all threads: the figure to
 * compare on a machine that does other work.
 */
import { cpuUsage, memoryUsage } from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import { Device, type DTypeLike, GlobalCounters, jit, Tensor } from "../mod.ts";
import { LanguageModel, type LoadModelOptions, readGguf } from "../src/llm/llm.ts";
import { syntheticModel } from "./llm_synthetic.ts";

const STORIES = new URL("../examples/models/stories260K.gguf", import.meta.url);
/** What is measured: how many tokens are read and written, how often. */
export interface LlmBenchOptions {
  readonly prompt: number;
  readonly tokens: number;
  readonly runs: number;
}

/** What a model does, of medians. */
export interface LlmMeasurement {
  readonly model: string;
  readonly device: string;
  /** Millions of elements of weights, and megabytes of them. */
  readonly parametersM: number;
  readonly weightsMB: number;
  /** Reading: tokens a second, and how many there were. */
  readonly prompt: number;
  readonly prefill: number;
  /** Writing, one token after the other. */
  readonly decode: number;
  /** Processor time of a token that is written. */
  readonly cpuMs: number;
  /** Of a token that is written: kernels, megabytes that they touch. */
  readonly kernels: number;
  readonly touchedMB: number;
  /** What reading memory reaches on this device, and the share of it that weights of a token times tokens a second are. */
  readonly bandwidthGBs: number;
  readonly share: number;
  /** Until the first token of the first run: loading is no part of it, compiling is. */
  readonly firstMs: number;
  /** Of the device and of the process, at the end. */
  readonly deviceMB: number;
  readonly residentMB: number;
}

/** Prompts that have no beginning in common. */
function promptOf(run: number, n: number, vocabulary: number): number[] {
  return Array.from({ length: n }, (_, i) => 3 + (i * 7919 + run * 31 + 5) % (vocabulary - 3));
}
function median(x: readonly number[]): number {
  return [...x].sort((a, b) => a - b)[x.length >> 1];
}

/** Bytes a second that a sum over as much memory as the weights reads. */
async function bandwidth(device: string, nbytes: number): Promise<number> {
  const n = Math.min(1 << 28, Math.max(1 << 18, Math.floor(nbytes / 4))),
    x = Tensor.ones([n], { device }).contiguous().realize();
  const sum = jit((x: Tensor) => x.sum().realize()), times: number[] = [];
  for (let i = 0; i < 9; i++) {
    const start = performance.now();
    const got = await sum(x).item();
    if (i > 1) times.push(performance.now() - start);
    if (got !== n) throw new Error(`the sum of ${n} ones is ${got}`);
  }
  x.dispose();
  return 4 * n / median(times) * 1e3;
}

/** One run: reads a prompt, and goes on with it. */
interface Run {
  readonly promptMs: number;
  readonly tokenMs: number;
  readonly cpuMs: number;
  readonly kernels: number;
  readonly touched: number;
}
async function runOnce(model: LanguageModel, run: number, { prompt, tokens }: LlmBenchOptions): Promise<Run> {
  const pieces = model.generate(promptOf(run, prompt, model.decoder.vocabulary), { maxTokens: tokens });
  // the second token may compile its step: the third is the first of those that count
  const warm = 2;
  let count = 0, from = 0, cpu = 0, kernels = 0, touched = 0;
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) {
      const n = Math.max(1, count - warm), used = cpuUsage();
      return {
        promptMs: value.promptMs,
        tokenMs: (performance.now() - from) / n,
        cpuMs: ((used.user + used.system) / 1e3 - cpu) / n,
        kernels: (GlobalCounters.kernelCount - kernels) / n,
        touched: (GlobalCounters.globalMem - touched) / n,
      };
    }
    if (value.id !== undefined && ++count === warm) {
      const used = cpuUsage();
      [from, cpu] = [performance.now(), (used.user + used.system) / 1e3];
      [kernels, touched] = [GlobalCounters.kernelCount, GlobalCounters.globalMem];
    }
  }
}

/** Measures a model. */
export async function measureModel(model: LanguageModel, options: LlmBenchOptions): Promise<LlmMeasurement> {
  const { decoder } = model, { runs } = options, round = (x: number, digits: number) => Number(x.toFixed(digits));
  const prompt = Math.min(options.prompt, decoder.context - options.tokens - 1), all: Run[] = [];
  if (prompt < 1) throw new Error(`a context of ${decoder.context} has no room for ${options.tokens} tokens`);
  for (let i = 0; i <= runs; i++) all.push(await runOnce(model, i, { ...options, prompt }));
  const [first, ...rest] = all, of = (key: keyof Run) => median(rest.map((r) => r[key]));
  const decode = 1e3 / of("tokenMs"), reads = await bandwidth(decoder.device, decoder.nbytes);
  return {
    model: model.name,
    device: decoder.device,
    parametersM: round(decoder.parameters / 1e6, 1),
    weightsMB: round(decoder.nbytes / 1e6, 1),
    prompt,
    prefill: round(prompt / of("promptMs") * 1e3, 1),
    decode: round(decode, 1),
    cpuMs: round(of("cpuMs"), 3),
    kernels: round(of("kernels"), 1),
    touchedMB: round(of("touched") / 1e6, 2),
    bandwidthGBs: round(reads / 1e9, 1),
    share: Number((decoder.nbytesRead * decode / reads).toPrecision(3)),
    firstMs: round(first.promptMs, 0),
    deviceMB: round(GlobalCounters.memUsed / 1e6, 1),
    residentMB: round(memoryUsage().rss / 1e6, 0),
  };
}

/** How fast several texts are written at once. */
export interface BatchMeasurement {
  readonly sequences: number;
  /** Tokens a second of all of them together, while all are written. */
  readonly decode: number;
  /** Processor time of one of their tokens. */
  readonly cpuMs: number;
}

/** One run: while each text has a second token and none has its last. */
async function batchOnce(model: LanguageModel, run: number, { prompt, tokens }: LlmBenchOptions): Promise<number[]> {
  const n = model.sequences, warm = 2, counts: number[] = Array(n).fill(0);
  let all = 0, from: { readonly at: number; readonly cpu: number; readonly tokens: number } | undefined;
  let until: typeof from;
  const now = (): NonNullable<typeof from> => {
    const { user, system } = cpuUsage();
    return { at: performance.now(), cpu: (user + system) / 1e3, tokens: all };
  };
  const write = async (i: number): Promise<void> => {
    const ids = promptOf(run * n + i, prompt, model.decoder.vocabulary);
    for await (const { id } of model.generate(ids, { maxTokens: tokens })) {
      if (id === undefined) continue;
      all++;
      counts[i]++;
      if (from === undefined && counts.every((c) => c >= warm)) from = now();
    }
    until ??= now();
  };
  await Promise.all(counts.map((_, i) => write(i)));
  if (from === undefined || until === undefined || until.tokens <= from.tokens) {
    throw new Error(`of ${n} texts with ${tokens} tokens one ended before all had begun: more --tokens are needed`);
  }
  const written = until.tokens - from.tokens;
  return [(until.at - from.at) / written, (until.cpu - from.cpu) / written];
}

/** Measures a model that was loaded with as many sequences as there shall be. */
export async function measureBatch(model: LanguageModel, options: LlmBenchOptions): Promise<BatchMeasurement> {
  const all: number[][] = [];
  for (let i = 0; i <= options.runs; i++) all.push(await batchOnce(model, i, options));
  const [ms, cpuMs] = [0, 1].map((k) => median(all.slice(1).map((r) => r[k])));
  return { sequences: model.sequences, decode: Number((1e3 / ms).toFixed(1)), cpuMs: Number(cpuMs.toFixed(3)) };
}

/** What is printed for people. */
function report(m: LlmMeasurement, batches: readonly BatchMeasurement[]): string {
  return [
    `${m.model}: ${m.parametersM} M parameters in ${m.weightsMB} MB, on ${m.device}`,
    `prefill of ${m.prompt} tokens: ${m.prefill} tokens/s; the first time ${m.firstMs} ms`,
    `decode: ${m.decode} tokens/s, ${m.cpuMs} ms of processors, ${m.kernels} kernels and ${m.touchedMB} MB a token`,
    `bandwidth: ${(m.share * m.bandwidthGBs).toFixed(1)} of ${m.bandwidthGBs} GB/s, ${(m.share * 100).toFixed(0)} %`,
    `memory: ${m.deviceMB} MB of the device, ${m.residentMB} MB resident`,
    ...batches.map(({ sequences, decode, cpuMs }) => {
      const times = (decode / batches[0].decode).toFixed(2), first = batches[0].sequences;
      return `${sequences} at once: ${decode} tokens/s together, ${times} times those of ${first}, ${cpuMs} ms of processors each`;
    }),
  ].join("\n");
}

/** The number of an option, from 1 on. */
function countOf(value: string | undefined, name: string, fallback: number): number {
  const n = Number(value ?? fallback);
  if (!Number.isInteger(n) || n < 1) throw new Error(`--${name} is ${value}, no count from 1 on`);
  return n;
}

async function main(): Promise<void> {
  const args = parseArgs(Deno.args, {
    string: ["synthetic", "device", "prompt", "tokens", "runs", "context", "cache", "sequences"],
    boolean: ["json"],
    strict: true,
  });
  const device = args.device ?? Device.default,
    options: LoadModelOptions = {
      device,
      ...args.context === undefined ? {} : { context: countOf(args.context, "context", 1) },
      ...args.cache === undefined ? {} : { cache: args.cache as DTypeLike },
    };
  const from = args._[0] ?? STORIES,
    file = args.synthetic === undefined
      ? await readGguf(from, { device: "DISK" })
      : await syntheticModel(args.synthetic, device);
  const counts = args.sequences?.split(",").map((n) => countOf(n, "sequences", 1)) ?? [];
  const what = {
    prompt: countOf(args.prompt, "prompt", 512),
    tokens: Math.max(4, countOf(args.tokens, "tokens", 64)),
    runs: countOf(args.runs, "runs", 5),
  };
  const load = (sequences: number) =>
    new LanguageModel(file, String(args.synthetic ?? from), { ...options, sequences });
  const single = async (): Promise<LlmMeasurement> => {
    using model = load(1);
    return await measureModel(model, what);
  };
  const measured = await single(), batches: BatchMeasurement[] = [];
  for (const n of counts) {
    using model = load(n);
    const prompt = Math.min(what.prompt, model.decoder.context - what.tokens - 1);
    batches.push(await measureBatch(model, { ...what, prompt }));
  }
  console.log(args.json ? JSON.stringify({ ...measured, batches }) : report(measured, batches));
}

if (import.meta.main) await main();
