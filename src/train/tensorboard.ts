/**
 * Event files of TensorBoard: scalars, histograms, images and text by step. In: values; out: records as TFRecord frames them
 * (length, masked CRC-32C, bytes), each an Event of tensorflow/core/util/event.proto, of which few fields are used.
 *
 * @module
 */
import { crc32c } from "../helpers/crc.ts";
import { ArgumentError, FormatError, ShapeError } from "../helpers/errors.ts";
import { checkChoice, checkInteger, checkOptions, checkText, describe } from "../helpers/options.ts";
import { encodePng } from "../helpers/png.ts";
import { protoBytes, type ProtoWriter } from "../helpers/protobuf.ts";
import { Tensor } from "../tensor/tensor.ts";
import { LogFile, logPath } from "./log_file.ts";

/** A CRC that is stored beside what it is of. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** A record as it is in the file. */
function framed(data: Uint8Array): Uint8Array {
  const out = new Uint8Array(16 + data.length), view = new DataView(out.buffer);
  view.setBigUint64(0, BigInt(data.length), true);
  view.setUint32(8, masked(out.subarray(0, 8)), true);
  out.set(data, 12);
  view.setUint32(12 + data.length, masked(data), true);
  return out;
}

/** A number, or the element of a tensor. */
async function numberOf(action: string, x: number | Tensor): Promise<number> {
  if (typeof x === "number") return x;
  if (x instanceof Tensor) return Number(await x.item());
  throw new ArgumentError(action, { reason: `the value must be a number or a tensor, not ${describe(x)}` });
}

/** How values lie: buckets of one width between the smallest and the largest. */
function histogramOf(values: ArrayLike<number>, bins: number): Uint8Array {
  let min = Infinity, max = -Infinity, sum = 0, squares = 0, count = 0;
  for (let i = 0; i < values.length; i++) {
    const x = values[i];
    if (!Number.isFinite(x)) continue;
    [min, max] = [Math.min(min, x), Math.max(max, x)];
    sum += x;
    squares += x * x;
    count++;
  }
  if (count === 0) [min, max] = [0, 0];
  const width = (max - min) / bins || 1, buckets = new Array<number>(bins).fill(0);
  for (let i = 0; i < values.length; i++) {
    if (Number.isFinite(values[i])) buckets[Math.min(bins - 1, Math.floor((values[i] - min) / width))]++;
  }
  const limits = buckets.map((_, i) => i === bins - 1 ? Math.max(max, min + bins * width) : min + (i + 1) * width);
  return protoBytes((w) => {
    [min, max, count, sum, squares].forEach((x, i) => w.double(i + 1, x));
    w.doubles(6, limits);
    w.doubles(7, buckets);
  });
}

let writers = 0;

/**
 * Writes what TensorBoard shows, to an event file of its own in `logDir`: `tensorboard --logdir runs`. Numbers and host
 * arrays are in the file when the call returns; of tensors, when what it gives is awaited, or what `close` gives.
 *
 * ```ts ignore files
 * import { nn } from "../../mod.ts";
 * import { SummaryWriter } from "./train.ts";
 * using writer = new SummaryWriter("runs/first");
 * writer.addScalar("loss", 0.25, 1);
 * await writer.addHistogram("weight", new nn.Linear(8, 2).weight, 1);
 * ```
 */
export class SummaryWriter {
  /** The event file. */
  readonly path: string;
  private readonly file: LogFile;
  /** Records of values that are still being read. */
  private readonly reading = new Set<Promise<void>>();
  private isClosed = false;

  /** Makes the folder and the file. @throws {FormatError} naming the file and why it cannot be written */
  constructor(logDir: string | URL) {
    const now = Date.now() / 1000, folder = logPath(logDir).replace(/[/\\]+$/, "");
    this.path = `${folder}/events.out.tfevents.${Math.floor(now)}.${crypto.randomUUID().slice(0, 8)}.${writers++}`;
    this.file = new LogFile(this.path, true);
    this.file.append(framed(protoBytes((w) => {
      w.double(1, now);
      w.text(3, "brain.Event:2");
    })));
  }

  /** A value of a summary, as an event. */
  private add(action: string, tag: string, write: (w: ProtoWriter) => void, step: number, isLate = false): void {
    if (this.isClosed && !isLate) throw new FormatError("log", { file: this.path, reason: "it is closed" });
    checkText(action, "the tag", tag);
    checkInteger(action, "step", step, 0);
    const event = protoBytes((w) => {
      w.double(1, Date.now() / 1000);
      w.uint(2, step);
      w.message(5, (summary) =>
        summary.message(1, (v) => {
          v.text(1, tag);
          write(v);
        }));
    });
    this.file.append(framed(event));
  }

  /** A record of a value that is read first, and comes into the file before that is closed. */
  private addLate<T>(
    value: () => Promise<T>,
    [action, tag, step]: readonly [action: string, tag: string, step: number],
    write: (w: ProtoWriter, x: T) => void,
  ): Promise<void> {
    if (this.isClosed) this.add(action, tag, () => {}, step);
    const done = value().then((x) => this.add(action, tag, (w) => write(w, x), step, true)).finally(() => {
      this.reading.delete(done);
      if (this.isClosed && this.reading.size === 0) this.file.close();
    });
    this.reading.add(done);
    return done;
  }

  /** A number at a step. */
  addScalar(tag: string, value: number | Tensor, step = 0): Promise<void> {
    const action = "log a scalar";
    if (typeof value !== "number") {
      return this.addLate(() => numberOf(action, value), [action, tag, step], (w, x) => w.float(2, x));
    }
    this.add(action, tag, (w) => w.float(2, value), step);
    return Promise.resolve();
  }
  /** Several numbers at a step, as `main/name`. */
  async addScalars(main: string, values: Readonly<Record<string, number | Tensor>>, step = 0): Promise<void> {
    await Promise.all(Object.entries(values).map(([name, value]) => this.addScalar(`${main}/${name}`, value, step)));
  }
  /** How values lie at a step; what is not finite is left out. `bins` is 64 unless given. */
  async addHistogram(
    tag: string,
    values: Tensor | ArrayLike<number>,
    step = 0,
    options: { readonly bins?: number } = {},
  ): Promise<void> {
    const action = "log a histogram";
    checkOptions(action, options, ["bins"]);
    const bins = checkInteger(action, "bins", options.bins ?? 64, 1);
    const write = (w: ProtoWriter, all: ArrayLike<number | bigint>): void =>
      w.chunk(5, histogramOf(Array.from(all, Number), bins));
    if (values instanceof Tensor) await this.addLate(() => values.data(), [action, tag, step], write);
    else this.add(action, tag, (w) => write(w, values), step);
  }
  /**
   * An image at a step: `[C, H, W]` of 1, 3 or 4 channels, or as `dataformats` says; uint8, or floats from 0 to 1.
   * @throws {ShapeError}
   */
  async addImage(
    tag: string,
    image: Tensor,
    step = 0,
    options: { readonly dataformats?: "CHW" | "HWC" | "HW" } = {},
  ): Promise<void> {
    const action = "log an image";
    checkOptions(action, options, ["dataformats"]);
    const form = checkChoice(action, "dataformats", options.dataformats ?? (image.ndim === 2 ? "HW" : "CHW"), [
      "CHW",
      "HWC",
      "HW",
    ]);
    if (image.ndim !== form.length) {
      throw new ShapeError(`${action} of`, { shapes: [image.shape], reason: `${form} has ${form.length} axes` });
    }
    const x = form === "CHW" ? image.permute([1, 2, 0]) : form === "HW" ? image.unsqueeze(2) : image;
    const scaled = x.isFloatingPoint() ? x.float().clamp(0, 1).mul(255).round() : x;
    const [height, width, channels] = x.shape;
    await this.addLate(() => scaled.data(), [action, tag, step], (w, pixels) =>
      w.message(4, (image) => {
        [height, width, channels].forEach((n, i) => image.uint(i + 1, n));
        image.chunk(4, encodePng(Uint8Array.from(pixels, Number), width, height, channels));
      }));
  }
  /** Text at a step, Markdown. */
  addText(tag: string, text: string, step = 0): Promise<void> {
    checkText("log text", "it", text);
    this.add("log text", tag, (w) => {
      w.message(8, (tensor) => {
        tensor.uint(1, 7);
        tensor.message(2, (shape) => shape.message(2, (dim) => dim.uint(1, 1)));
        tensor.text(8, text);
      });
      w.message(9, (metadata) => metadata.message(1, (plugin) => plugin.text(1, "text")));
    }, step);
    return Promise.resolve();
  }
  /** All that was logged is in the file when what it gives is awaited; of numbers and host arrays, already. */
  async flush(): Promise<void> {
    await Promise.allSettled(this.reading);
  }
  /** Closes the file: at once, or when values that are being read are in it, which may be awaited. */
  close(): Promise<void> {
    this.isClosed = true;
    if (this.reading.size === 0) this.file.close();
    return this.flush();
  }
  /** As {@linkcode SummaryWriter.close}. */
  [Symbol.dispose](): void {
    this.close();
  }
  /** As {@linkcode SummaryWriter.close}, and waits for it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
