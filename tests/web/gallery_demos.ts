/**
 * Visits the demos of the gallery in headless Chromium: sound, photo, picture, camera, each by what a visitor does. With small
 * networks that are made here, so that no file is fetched, or with trained ones:
 *
 *     deno run -A --no-lock --no-check tests/web/gallery_demos.ts [--models --faces FILE --speech FILE] [--gpu] [--shots FOLDER]
 *
 * Prints what was seen as JSON.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { parseArgs } from "@std/cli/parse-args";
import { buildPage } from "../../examples/web/build.ts";
import { buildModel, type ModelSpec } from "../onnx/build_model.ts";
import { errorsOf, type Told } from "./browser.ts";
import { visitBuilt } from "./visit_built.ts";

/** What was seen. */
export interface DemosSeen {
  /** What each demo says of itself before anything is asked of it. */
  readonly before: Readonly<Record<string, string>>;
  /** Which controls of which demo cannot be used. */
  readonly disabled: readonly string[];
  readonly speech: readonly [text: string, status: string];
  readonly read: readonly [lines: readonly string[], status: string];
  readonly upscale: readonly [size: readonly number[], pixel: readonly number[], status: string];
  /** A photo, the camera where it is denied, and where it is allowed. */
  readonly photo: string;
  readonly denied: string;
  readonly camera: string;
  /** A file that is no picture. */
  readonly broken: string;
  /** The picture made larger on WebGPU; undefined without an adapter. */
  readonly gpu: string | undefined;
  /** What the keyboard reaches in the sections of the demos, in order. */
  readonly stops: readonly string[];
  /** Controls without a name. */
  readonly nameless: readonly string[];
  /** Width of the page on a screen of 360 pixels. */
  readonly width: number;
  readonly errors: readonly string[];
}

interface Locator {
  click(): Promise<void>;
  innerText(): Promise<string>;
  allInnerTexts(): Promise<string[]>;
  setInputFiles(file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>;
  selectOption(value: string): Promise<unknown>;
}
interface Page {
  setDefaultTimeout(ms: number): void;
  on(event: string, listener: (x: Told) => void): void;
  goto(url: string): Promise<unknown>;
  locator(selector: string): Locator;
  screenshot(o: { path: string; fullPage: boolean; quality?: number }): Promise<unknown>;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  waitForFunction(code: string): Promise<unknown>;
  evaluate<T>(code: string): Promise<T>;
  context(): { grantPermissions(names: string[]): Promise<void> };
}

const F = 1, I = 7, B = 9;
const ints = (name: string, values: readonly number[], dims: readonly number[] = [values.length]) => ({
  name,
  dims,
  values,
  type: I,
});

/** Networks of a few nodes with the inputs and outputs of the trained ones. */
const SMALL: Readonly<Record<string, ModelSpec>> = {
  // the darker a picture, the more it is a face: one box in the middle
  "faces/model.onnx": {
    nodes: [
      ["ReduceMean", ["input"], ["m"], { keepdims: { int: 0 } }],
      ["Less", ["m", "zero"], ["dark"]],
      ["Cast", ["dark"], ["d"], { to: { int: F } }],
      ["Mul", ["both", "d"], ["scores"]],
      ["Mul", ["corners", "one"], ["boxes"]],
    ],
    inputs: { input: [F, [1, 3, 240, 320]] },
    outputs: { scores: [F, [1, 1, 2]], boxes: [F, [1, 1, 4]] },
    initializers: [
      { name: "zero", dims: [], values: [0] },
      { name: "one", dims: [], values: [1] },
      { name: "both", dims: [1, 1, 2], values: [0.1, 0.9] },
      { name: "corners", dims: [1, 1, 4], values: [0.25, 0.25, 0.75, 0.75] },
    ],
  },
  // what is dark is text
  "read/find.onnx": {
    nodes: [
      ["ReduceMean", ["x", "axis"], ["m"]],
      ["MaxPool", ["m"], ["p"], {
        kernel_shape: { ints: [31, 31] },
        pads: { ints: [15, 15, 15, 15] },
      }],
      ["Neg", ["m"], ["n"]],
      ["MaxPool", ["n"], ["w"], { kernel_shape: { ints: [15, 41] }, pads: { ints: [7, 20, 7, 20] } }],
      [
        "Sigmoid",
        ["w"],
        ["y"],
      ],
    ],
    inputs: { x: [F, [1, 3, "h", "w"]] },
    outputs: { y: [F, [1, 1, "h", "w"]] },
    initializers: [ints("axis", [1])],
  },
  // every line is "ab": of six places, of four letters
  "read/read.onnx": {
    nodes: [["ReduceMean", ["x"], ["m"], { keepdims: { int: 0 } }], ["Mul", ["m", "none"], ["z"]], ["Add", [
      "letters",
      "z",
    ], ["y"]]],
    inputs: { x: [F, [1, 3, 48, "w"]] },
    outputs: { y: [F, [1, 6, 4]] },
    initializers: [
      { name: "none", dims: [], values: [0] },
      {
        name: "letters",
        dims: [1, 6, 4],
        values: [1, 1, 0, 2, 2, 0].flatMap((k) => [0, 1, 2, 3].map((i) => i === k ? 1 : 0)),
      },
    ],
  },
  "speech/encoder.onnx": {
    nodes: [["ReduceMean", ["input_values"], ["m"]], ["Unsqueeze", ["m", "axis"], ["last_hidden_state"]]],
    inputs: { input_values: [F, [1, "n"]] },
    outputs: { last_hidden_state: [F, [1, 1, 1]] },
    initializers: [ints("axis", [2])],
  },
  // after the first comes the third, and so on
  "speech/decoder.onnx": {
    nodes: [
      ["Cast", ["input_ids"], ["id"], { to: { int: F } }],
      ["Unsqueeze", ["id", "axes"], ["row"]],
      ["Concat", ["past_key_values.0.key", "row"], ["present.0.key"], { axis: { int: 1 } }],
      ["Gather", ["table", "input_ids"], ["picked"]],
      ["Cast", ["use_cache_branch"], ["used"], { to: { int: F } }],
      ["Mul", ["used", "none"], ["zero"]],
      ["Mul", ["encoder_hidden_states", "zero"], ["heard"]],
      ["Add", ["picked", "heard"], ["logits"]],
    ],
    inputs: {
      input_ids: [I, [1, "k"]],
      encoder_hidden_states: [F, [1, 1, 1]],
      "past_key_values.0.key": [F, [1, "past", 1]],
      use_cache_branch: [B, [1]],
    },
    outputs: { logits: [F, [1, "k", 6]], "present.0.key": [F, [1, "past + 1", 1]] },
    initializers: [
      ints("axes", [2]),
      { name: "none", dims: [], values: [0] },
      {
        name: "table",
        dims: [6, 6],
        values: [0, 3, 0, 4, 5, 2].flatMap((k) => [0, 1, 2, 3, 4, 5].map((i) => i === k ? 1 : 0)),
      },
    ],
  },
};

/** Writes the small networks where the page looks for trained ones. */
async function writeSmall(folder: string): Promise<void> {
  for (const name of ["speech", "read", "upscale", "faces"]) {
    await Deno.mkdir(`${folder}/models/${name}`, { recursive: true });
  }
  for (const [path, spec] of Object.entries(SMALL)) await Deno.writeFile(`${folder}/models/${path}`, buildModel(spec));
  const layers = [{
    class_name: "UpSampling2D",
    config: { name: "u", size: [2, 2], batch_input_shape: [null, null, null, 3] },
  }];
  const model = {
    modelTopology: { class_name: "Sequential", config: { layers } },
    weightsManifest: [{ paths: ["w.bin"], weights: [] }],
  };
  await Deno.writeTextFile(`${folder}/models/upscale/model.json`, JSON.stringify(model));
  await Deno.writeFile(`${folder}/models/upscale/w.bin`, new Uint8Array(0));
  await Deno.writeTextFile(`${folder}/models/read/keys.txt`, "a\nb\n");
  await Deno.writeTextFile(
    `${folder}/models/speech/words.json`,
    JSON.stringify(["", "", "", "▁a", "▁small", "<0x21>"]),
  );
  const index = Object.fromEntries(
    ["speech", "read", "upscale", "faces"].map((d) => [d, { credit: "made by a test, MIT" }]),
  );
  await Deno.writeTextFile(`${folder}/models/index.json`, JSON.stringify(index));
}

/** A tone of half a second, as a WAV file. */
function tone(): Buffer {
  const rate = 16000, count = rate / 2, wav = Buffer.alloc(44 + 2 * count);
  wav.write("RIFF", 0);
  wav.writeUInt32LE(36 + 2 * count, 4);
  wav.write("WAVEfmt ", 8);
  [[16, 4], [1, 2], [1, 2], [rate, 4], [2 * rate, 4], [2, 2], [16, 2]].reduce(
    (at, [x, n]) => wav.writeUIntLE(x, at, n),
    16,
  );
  wav.write("data", 36);
  wav.writeUInt32LE(2 * count, 40);
  for (let i = 0; i < count; i++) wav.writeInt16LE(Math.round(8000 * Math.sin(i * 0.1)), 44 + 2 * i);
  return wav;
}
const text = (id: string): string => `document.getElementById("${id}").textContent`;
const idle = (demo: string): string =>
  `document.getElementById("${demo}-section").getAttribute("aria-busy") === "false" && / s on /.test(${
    text(`${demo}-status`)
  })`;
/** A picture of one color, as a file. */
const PNG = (w: number, h: number, color: string): string =>
  `(() => { const c = document.createElement("canvas"); c.width = ${w}; c.height = ${h}; const g = c.getContext("2d");
    g.fillStyle = "${color}"; g.fillRect(0, 0, ${w}, ${h}); return c.toDataURL("image/png").split(",")[1]; })()`;

async function visit(page: Page, url: string, { shots, hasSamples, gpu }: {
  shots?: string;
  hasSamples: boolean;
  gpu: boolean;
}): Promise<DemosSeen> {
  const errors = errorsOf(page, url);
  page.setDefaultTimeout(240_000);
  await page.setViewportSize({ width: 1100, height: 800 });
  await page.goto(url);
  await page.waitForFunction(`!document.getElementById("train").disabled && !/^Loading/.test(${text("faces-status")})`);
  const status = (demo: string) => page.locator(`#${demo}-status`).innerText(),
    demos = ["speech", "read", "upscale", "faces"];
  const before: Record<string, string> = {};
  for (const demo of demos) before[demo] = await status(demo);
  const disabled = await page.evaluate<string[]>(
    `[...document.querySelectorAll("section button:disabled, section input:disabled")].map((c) => c.id)`,
  );
  const file = async (id: string, color: string, w = 96, h = 64) =>
    await page.locator(`#${id}`).setInputFiles({
      name: "a.png",
      mimeType: "image/png",
      buffer: Buffer.from(await page.evaluate<string>(PNG(w, h, color)), "base64"),
    });
  if (hasSamples && !disabled.includes("speech-sample")) await page.locator("#speech-sample").click();
  else await page.locator("#speech-file").setInputFiles({ name: "a.wav", mimeType: "audio/wav", buffer: tone() });
  await page.waitForFunction(idle("speech"));
  const speech = [await page.locator("#speech-text").innerText(), await status("speech")] as const;
  await page.locator("#read-sample").click();
  await page.waitForFunction(idle("read"));
  const read = [await page.locator("#read-text li").allInnerTexts(), await status("read")] as const;
  if (hasSamples) await page.locator("#upscale-sample").click();
  else await file("upscale-file", "rgb(10, 200, 90)");
  await page.waitForFunction(idle("upscale"));
  const [size, pixel] = await page.evaluate<[number[], number[]]>(
    `(() => { const c = document.getElementById("upscale-after"); return [[c.width, c.height],
      [...c.getContext("2d").getImageData(c.width >> 1, c.height >> 1, 1, 1).data]]; })()`,
  );
  const upscale = [size, pixel, await status("upscale")] as const;
  await file("faces-file", "#111");
  await page.waitForFunction(idle("faces"));
  const photo = await status("faces");
  await page.locator("#faces-camera").click();
  await page.waitForFunction(`/denied/.test(${text("faces-status")})`);
  const denied = await status("faces");
  await page.context().grantPermissions(["camera"]);
  await page.locator("#faces-camera").click();
  await page.waitForFunction(`${text("faces-camera")} === "Stop the camera" && ${idle("faces")}`);
  const camera = await status("faces");
  await page.locator("#faces-camera").click();
  await page.waitForFunction(`${text("faces-camera")} === "Start the camera" && ${idle("faces")}`);
  await page.locator("#read-file").setInputFiles({
    name: "a.png",
    mimeType: "image/png",
    buffer: Buffer.from("no picture"),
  });
  await page.waitForFunction(`!/ s on |^Reading|^Loading/.test(${text("read-status")})`);
  const broken = await status("read");
  if (shots !== undefined) {
    await page.locator("#read-sample").click();
    await page.waitForFunction(idle("read"));
    await page.locator("#train").click(); // the picture shows all parts at work
    await page.waitForFunction(`/^Trained on/.test(${text("status")})`);
    await page.screenshot({ path: `${shots}/gallery.jpg`, fullPage: true, quality: 70 });
  }
  let onGpu: string | undefined;
  if (gpu && (await page.locator("#device option").allInnerTexts()).includes("WebGPU")) {
    await page.locator("#device").selectOption("WEBGPU");
    await page.waitForFunction(`/^Ready on WEBGPU/.test(${text("status")})`);
    await file("upscale-file", "rgb(10, 200, 90)", 40, 40);
    await page.waitForFunction(`/WEBGPU/.test(${text("upscale-status")})`);
    onGpu = await status("upscale");
  }
  const sections = demos.map((d) => `#${d}-section`).join(", ");
  const stops = await page.evaluate<string[]>(
    `[...document.querySelectorAll("${sections}")].flatMap((s) => [...s.querySelectorAll("button, input, select, [tabindex]")]
      .filter((c) => c.tabIndex >= 0 && !c.disabled).map((c) => c.id))`,
  );
  const nameless = await page.evaluate<string[]>(
    `[...document.querySelectorAll("button, input, canvas, section, output, ul")].filter((c) =>
      !(c.textContent.trim() || c.getAttribute("aria-label") || c.labels?.length || c.getAttribute("aria-labelledby"))).map((c) => c.id)`,
  );
  await page.setViewportSize({ width: 360, height: 780 });
  const width = await page.evaluate<number>("document.documentElement.scrollWidth");
  if (shots !== undefined) await page.screenshot({ path: `${shots}/gallery-phone.jpg`, fullPage: true, quality: 70 });
  return {
    before,
    disabled,
    speech,
    read,
    upscale,
    photo,
    denied,
    camera,
    broken,
    gpu: onGpu,
    stops,
    nameless,
    width,
    errors,
  };
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["faces", "speech", "shots"], boolean: ["models", "gpu"] });
  const options = { shots: args.shots, hasSamples: args.models, gpu: args.gpu };
  const build = async (folder: string): Promise<void> => {
    await buildPage(folder, { npm: args.models, faces: args.faces, speech: args.speech });
    if (!args.models) await writeSmall(folder);
  };
  const seen = await visitBuilt((page: Page, url) => visit(page, url, options), build, [
    "--use-fake-device-for-media-stream",
  ]);
  console.log(JSON.stringify(seen));
  Deno.exit();
}
