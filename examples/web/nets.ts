/**
 * Trained networks of the page, on pixels and samples: what is heard, read, made larger, found. In: files of a network, then
 * arrays; out: texts, pictures, boxes. Sizes that differ are brought to a few, so that each network is captured once or
 * a few times. Nothing here knows a page.
 *
 * @module
 */
import { type DeviceName, jit, Tensor } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadLayersModel } from "../../src/tfjs/tfjs.ts";

/** Gives a file of the page by its path. */
export type Files = (path: string) => Promise<Uint8Array<ArrayBuffer>>;
/** A picture: red, green, blue and opacity of each pixel, by rows. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray<ArrayBuffer>;
}
/** A part of a picture, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** From 0 to 1. */
  readonly score: number;
}
const parse = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes));

/**
 * A part of a picture as `[3, height, width]`, by linear interpolation, with a function of each value from 0 to 255. What is
 * `beyond` a width is zero.
 */
function sampled(
  { width, height, data }: Picture,
  part: { x: number; y: number; width: number; height: number },
  to: { width: number; height: number; filled?: number },
  f: (value: number, channel: number) => number,
): Float32Array<ArrayBuffer> {
  const out = new Float32Array(3 * to.width * to.height), filled = to.filled ?? to.width;
  for (let y = 0; y < to.height; y++) {
    const fy = Math.min(height - 1, Math.max(0, part.y + (y + 0.5) * part.height / to.height - 0.5)),
      y0 = Math.floor(fy);
    const y1 = Math.min(height - 1, y0 + 1), ty = fy - y0;
    for (let x = 0; x < filled; x++) {
      const fx = Math.min(width - 1, Math.max(0, part.x + (x + 0.5) * part.width / filled - 0.5)), x0 = Math.floor(fx);
      const x1 = Math.min(width - 1, x0 + 1), tx = fx - x0;
      for (let c = 0; c < 3; c++) {
        const at = (px: number, py: number): number => data[(py * width + px) * 4 + c];
        const top = at(x0, y0) * (1 - tx) + at(x1, y0) * tx, low = at(x0, y1) * (1 - tx) + at(x1, y1) * tx;
        out[(c * to.height + y) * to.width + x] = f(top * (1 - ty) + low * ty, c);
      }
    }
  }
  return out;
}

/** Makes pictures twice as large: ESRGAN, a layers model, tile by tile. */
export class Upscaler {
  private constructor(private readonly device: DeviceName, private readonly run: (x: Tensor) => Tensor) {}

  /** Pixels of a tile, and those around that only help. */
  static readonly TILE = 64;
  static readonly MARGIN = 8;

  static async load(device: DeviceName, files: Files): Promise<Upscaler> {
    const model = parse(await files("upscale/model.json")) as { weightsManifest: { paths: string[] }[] };
    const paths = model.weightsManifest.flatMap((g) => g.paths);
    const all = await Promise.all(paths.map(async (p) => [p, await files(`upscale/${p}`)] as const));
    const net = await loadLayersModel({ model, files: Object.fromEntries(all) }, { device });
    return new Upscaler(device, jit((x: Tensor) => net.call(x)[0].clamp(0, 255)));
  }

  /** A picture of twice the width and height; `told` hears how much is done, from 0 to 1. */
  async call(picture: Picture, told: (share: number) => void): Promise<Picture> {
    const { width, height } = picture, { TILE, MARGIN } = Upscaler, step = TILE - 2 * MARGIN;
    const out = new Uint8ClampedArray(16 * width * height);
    const columns = Math.ceil(width / step), rows = Math.ceil(height / step);
    for (let k = 0; k < rows * columns; k++) {
      const x0 = (k % columns) * step - MARGIN, y0 = Math.floor(k / columns) * step - MARGIN;
      const planes = sampled(
        picture,
        { x: x0, y: y0, width: TILE, height: TILE },
        { width: TILE, height: TILE },
        (v) => v,
      );
      const x = new Tensor(planes, { device: this.device }).reshape([1, 3, TILE, TILE]).permute([0, 2, 3, 1])
        .contiguous();
      const y = await this.run(x.realize()).data() as Float32Array, side = 2 * TILE;
      for (let ty = 2 * MARGIN; ty < side - 2 * MARGIN; ty++) {
        for (let tx = 2 * MARGIN; tx < side - 2 * MARGIN; tx++) {
          const px = 2 * x0 + tx, py = 2 * y0 + ty;
          if (px >= 2 * width || py >= 2 * height) continue;
          const to = (py * 2 * width + px) * 4, from = (ty * side + tx) * 3;
          for (let c = 0; c < 3; c++) out[to + c] = y[from + c];
          out[to + 3] = 255;
        }
      }
      told((k + 1) / (rows * columns));
    }
    return { width: 2 * width, height: 2 * height, data: out };
  }
}

/** Boxes that overlap others of a higher score by less than a share of both. */
function distinct(boxes: Box[], share: number): Box[] {
  const kept: Box[] = [];
  for (const b of boxes.sort((p, q) => q.score - p.score)) {
    const overlaps = kept.some((k) => {
      const w = Math.min(b.x + b.width, k.x + k.width) - Math.max(b.x, k.x);
      const h = Math.min(b.y + b.height, k.y + k.height) - Math.max(b.y, k.y);
      const both = Math.max(0, w) * Math.max(0, h);
      return both / (b.width * b.height + k.width * k.height - both) > share;
    });
    if (!overlaps) kept.push(b);
  }
  return kept;
}

/** Finds faces: the Ultra-Light detector, whose input is 320 by 240. */
export class FaceFinder {
  private constructor(private readonly device: DeviceName, private readonly run: (x: Tensor) => Tensor[]) {}

  static async load(device: DeviceName, files: Files): Promise<FaceFinder> {
    const net = await onnx.load(await files("faces/model.onnx"), { device });
    return new FaceFinder(device, jit((x: Tensor) => Object.values(net.call(x)) as Tensor[]));
  }

  /** Boxes of faces, the surest first. */
  async call(picture: Picture): Promise<Box[]> {
    const all = { x: 0, y: 0, width: picture.width, height: picture.height };
    const planes = sampled(picture, all, { width: 320, height: 240 }, (v) => (v - 127) / 128);
    const [s, b] = this.run(new Tensor(planes, { device: this.device }).reshape([1, 3, 240, 320]).realize());
    const scores = await s.data() as Float32Array, corners = await b.data() as Float32Array, found: Box[] = [];
    for (let i = 0; i < corners.length / 4; i++) {
      if (scores[2 * i + 1] < 0.7) continue;
      const [x0, y0, x1, y1] = corners.subarray(4 * i, 4 * i + 4);
      found.push({
        x: x0 * picture.width,
        y: y0 * picture.height,
        width: (x1 - x0) * picture.width,
        height: (y1 - y0) * picture.height,
        score: scores[2 * i + 1],
      });
    }
    return distinct(found, 0.3);
  }
}

/** Reads lines of text: PP-OCR, which finds them and then reads one by one. */
export class TextReader {
  private constructor(
    private readonly device: DeviceName,
    private readonly letters: readonly string[],
    private readonly find: (x: Tensor) => Tensor,
    private readonly read: (x: Tensor) => Tensor,
  ) {}

  /** Sides of the picture in which text is found; widths of lines. */
  static readonly SIDE = 480;
  static readonly WIDTHS: readonly number[] = [160, 320, 640, 1280];

  static async load(device: DeviceName, files: Files): Promise<TextReader> {
    const [find, read] = await Promise.all(
      ["read/find.onnx", "read/read.onnx"].map(async (p) => await onnx.load(await files(p), { device })),
    );
    const keys = new TextDecoder().decode(await files("read/keys.txt")).replace(/\r?\n$/, "").split(/\r?\n/);
    const first = (net: onnx.OnnxModel, x: Tensor): Tensor => Object.values(net.call(x))[0] as Tensor;
    return new TextReader(
      device,
      ["", ...keys, " "],
      jit((x: Tensor) => first(find, x)),
      jit((x: Tensor) => first(read, x).argmax(2)),
    );
  }

  /** Lines from top to bottom: boxes with their texts. */
  async call(picture: Picture, told: (share: number) => void): Promise<(Box & { readonly text: string })[]> {
    const boxes = await this.lines(picture), out = [];
    for (const [i, box] of boxes.entries()) {
      const want = Math.round(48 * box.width / box.height), { WIDTHS } = TextReader;
      const width = WIDTHS.find((w) => w >= want) ?? WIDTHS.at(-1)!, filled = Math.min(want, width);
      const planes = sampled(picture, box, { width, height: 48, filled }, (v) => v / 127.5 - 1);
      const ids = await this.read(new Tensor(planes, { device: this.device }).reshape([1, 3, 48, width]).realize())
        .data();
      const text = Array.from(ids as ArrayLike<number>, Number)
        .filter((id, k, all) => id !== 0 && id !== all[k - 1])
        .map((id) => this.letters[id] ?? "").join("").trim();
      if (text !== "") out.push({ ...box, text });
      told((i + 1) / boxes.length);
    }
    return out;
  }

  /** Where lines are: what the network marks, grown by what it was taught to leave out. */
  private async lines(picture: Picture): Promise<Box[]> {
    const { SIDE } = TextReader, scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
    const mean = [0.485, 0.456, 0.406], deviation = [0.229, 0.224, 0.225];
    const whole = { x: 0, y: 0, width: SIDE / scale, height: SIDE / scale };
    const planes = sampled(picture, whole, { width: SIDE, height: SIDE }, (v, c) => (v / 255 - mean[c]) / deviation[c]);
    const x = new Tensor(planes, { device: this.device }).reshape([1, 3, SIDE, SIDE]).realize();
    const marks = await this.find(x).data() as Float32Array, seen = new Uint8Array(marks.length), found: Box[] = [];
    for (let start = 0; start < marks.length; start++) {
      if (seen[start] || marks[start] < 0.3) continue;
      const stack = [start];
      let [x0, x1, y0, y1, sum, count] = [SIDE, 0, SIDE, 0, 0, 0];
      seen[start] = 1;
      for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
        const px = at % SIDE, py = Math.floor(at / SIDE);
        [x0, x1, y0, y1] = [Math.min(x0, px), Math.max(x1, px), Math.min(y0, py), Math.max(y1, py)];
        sum += marks[at];
        count++;
        for (const [nx, ny] of [[px - 1, py], [px + 1, py], [px, py - 1], [px, py + 1]]) {
          const next = ny * SIDE + nx;
          if (nx < 0 || ny < 0 || nx >= SIDE || ny >= SIDE || seen[next] || marks[next] < 0.3) continue;
          seen[next] = 1;
          stack.push(next);
        }
      }
      const w = x1 - x0 + 1, h = y1 - y0 + 1, grow = 1.6 * w * h / (2 * (w + h));
      if (count < 12 || sum / count < 0.5 || Math.min(w, h) < 3) continue;
      const left = Math.max(0, (x0 - grow) / scale), top = Math.max(0, (y0 - grow) / scale);
      const right = Math.min(picture.width, (x1 + 1 + grow) / scale),
        low = Math.min(picture.height, (y1 + 1 + grow) / scale);
      if (right > left && low > top) {
        found.push({ x: left, y: top, width: right - left, height: low - top, score: sum / count });
      }
    }
    return found.sort((a, b) => Math.abs(a.y - b.y) < Math.min(a.height, b.height) / 2 ? a.x - b.x : a.y - b.y);
  }
}

/** Writes down what is said: Moonshine, on 16,000 samples a second. */
export class Transcriber {
  private constructor(
    private readonly device: DeviceName,
    private readonly words: readonly string[],
    private readonly encode: (x: Tensor) => Tensor,
    private readonly decoder: onnx.OnnxSession,
  ) {}

  /** Samples a second; silence is added up to a multiple of some seconds; more than the last are left out. */
  static readonly RATE = 16000;
  static readonly SECONDS = 6;
  static readonly MOST = 30;

  static async load(device: DeviceName, files: Files): Promise<Transcriber> {
    const [encoder, decoder] = await Promise.all(
      ["speech/encoder.onnx", "speech/decoder.onnx"].map(async (p) => await onnx.load(await files(p), { device })),
    );
    const gives = ({ logits }: onnx.OnnxOutputs) => ({ next: (logits as Tensor).at(0, -1).argmax() });
    return new Transcriber(
      device,
      parse(await files("speech/words.json")) as string[],
      jit((x: Tensor) => Object.values(encoder.call(x))[0] as Tensor),
      onnx.session(decoder, { length: 256, gives }),
    );
  }

  /** The text of a sound, samples from -1 to 1; `told` hears what is there so far. */
  async call(samples: Float32Array, told: (text: string) => void): Promise<string> {
    const { RATE, SECONDS, MOST } = Transcriber, count = Math.min(samples.length, MOST * RATE);
    const filled = new Float32Array(Math.max(1, Math.ceil(count / (SECONDS * RATE))) * SECONDS * RATE);
    filled.set(samples.subarray(0, count));
    const heard = this.encode(new Tensor(filled, { device: this.device }).reshape([1, filled.length]).realize())
      .realize();
    // some six tokens a second is more than anybody says
    const ids = [1], most = Math.min(250, 8 + Math.ceil(6.5 * count / RATE));
    this.decoder.reset();
    while (ids.at(-1) !== 2 && ids.length < most) {
      const { next } = this.decoder.step({
        input_ids: new Tensor([[ids.at(-1)!]], { dtype: "int64", device: this.device }),
        encoder_hidden_states: heard,
        use_cache_branch: [ids.length > 1],
      });
      ids.push(Number(await (next as Tensor).item()));
      told(this.text(ids));
    }
    return this.text(ids);
  }

  private text(ids: readonly number[]): string {
    const bytes: number[] = [], encoder = new TextEncoder();
    for (const id of ids) {
      const word = this.words[id] ?? "", byte = /^<0x([0-9A-F]{2})>$/.exec(word);
      if (id <= 2) continue;
      if (byte) bytes.push(parseInt(byte[1], 16));
      else bytes.push(...encoder.encode(word.replaceAll("▁", " ")));
    }
    return new TextDecoder().decode(Uint8Array.from(bytes)).trim();
  }
}
