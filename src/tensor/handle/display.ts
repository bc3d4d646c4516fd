/**
 * How tensors are shown: their values, where those are in memory already, as text, as an HTML table and as an image for
 * notebooks. The rule: showing a tensor computes nothing, copies nothing to a device and waits for nothing.
 *
 * @module
 */
import { bufferOf } from "../../device/buffer.ts";
import type { DType } from "../../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { encodePng } from "../../helpers/png.ts";
import { base64, escapeHtml } from "../../helpers/text.ts";
import { argOf } from "../../uop/core/args.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { deviceOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { bare } from "../../uop/graph/complex.ts";
import { latest } from "../../uop/graph/resolve.ts";
import { formatValues, type HostArray, typedArrayOf } from "../nodes/host.ts";
import { checkTensor, TensorBase } from "./base.ts";
import { type View, viewOf } from "./view_of.ts";

/** Representations of one thing, by MIME type, as notebooks take them. Images are in base64. */
export type MimeBundle = Record<string, string>;

/** Options of {@linkcode display}. */
export interface DisplayOptions {
  /** True draws an image; false never does. Default: for uint8 pixels only. */
  readonly image?: boolean;
  /** The value drawn black. Default: 0 for uint8, else the smallest. */
  readonly min?: number;
  /** The value drawn white. Default: 255 for uint8, else the largest. */
  readonly max?: number;
  /** How many pixels wide a value is drawn. Default: such that small images can be seen. */
  readonly scale?: number;
}

/** What {@linkcode display} gives: an object that notebooks know how to show. */
export interface Display {
  /** The representations. */
  readonly bundle: MimeBundle;
}

/** Values are read for showing only up to this many; images up to so many values. */
const MAX_VALUES = 1 << 20, MAX_IMAGE = 1 << 22;
/** Longer axes of a table show so many entries of each end; so many 2-D slices are shown. */
const EDGE = 8, MAX_SLICES = 8;
/** uint8 tensors with a shorter side are numbers rather than a picture; pictures are enlarged up to this. */
const MIN_SIDE = 8, VISIBLE = 160;
/** Devices whose memory is the host's: reading it waits for no queue. */
const HOST = /^(JS|WASM|CLANG)$/;

// ---- values that are there

/** What can be seen of a tensor: nothing, or one of these. */
export interface Visible {
  /** Its values, row-major. */
  readonly values?: HostArray;
  /** The constant that all its values are. */
  readonly constant?: UOp;
  /** Where it was disposed. */
  readonly disposedAt?: string;
  /** True where its values are in memory, but too many, or behind a queue. */
  readonly hidden?: true;
}

/** What can be seen of a tensor without computing anything. @param anyDevice also read devices with a queue */
function visible(t: TensorBase, limit: number = MAX_VALUES, anyDevice: boolean = false): Visible {
  let base = latest(bare(t.uop)), repeats = true;
  while (isMovement(base.op)) {
    repeats &&= base.op === Ops.RESHAPE || base.op === Ops.EXPAND;
    base = latest(base.src[0]);
  }
  if (base.op === Ops.CONST) return repeats ? { constant: base } : {};
  // what a copy that has not been made is of: host data on its way to a device
  while (base.op === Ops.COPY || base.op === Ops.RESHAPE || base.op === Ops.CONTIGUOUS || base.op === Ops.DETACH) {
    base = latest(base.src[0]);
  }
  if (base.op !== Ops.BUFFER) return {};
  const { storage, version } = argOf(base, Ops.BUFFER);
  if (storage.disposedAt !== "") return { disposedAt: String(storage.disposedAt) };
  const buffer = bufferOf(storage);
  if (buffer === undefined || !buffer.isAllocated || storage.version !== version) return {};
  const view = viewOf(t), n = t.dtype.isComplex ? 2 * t.numel() : t.numel();
  if (view === undefined) return {};
  if (buffer.device.allocator.copyOut === undefined || !(anyDevice || HOST.test(storage.device))) {
    return { hidden: true };
  }
  if (storage.size > limit || n > limit) return { hidden: true };
  const all = typedArrayOf(buffer.copyOut(new Uint8Array(storage.nbytes)), storage.dtype);
  return { values: isWhole(view, storage.size) ? all : gathered(all, view, n) };
}

/** True for a view of the whole buffer in its order. */
function isWhole(view: View, size: number): boolean {
  let step = 1;
  for (let i = view.shape.length - 1; i >= 0; i--) {
    if (view.shape[i] !== 1 && view.strides[i] !== step) return false;
    step *= view.shape[i];
  }
  return view.mask === undefined && view.offset === 0 && step === size;
}

/** The values of a view, in order; zero outside its mask. */
function gathered(all: HostArray, view: View, n: number): HostArray {
  const { shape, strides, mask } = view;
  const out = new (all.constructor as new (n: number) => HostArray)(n);
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0; i < n; i++) {
    if (mask === undefined || mask.every(([a, b], axis) => index[axis] >= a && index[axis] < b)) {
      out[i] = all[index.reduce((at, x, axis) => at + x * strides[axis], view.offset)];
    }
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
  return out;
}

// ---- text

/** "Tensor [2, 3] float32 WASM requiresGrad". */
function headText(t: TensorBase): string {
  const grad = t.requiresGrad ? ` requiresGrad${t.grad ? ", grad filled" : ""}` : "";
  return `Tensor [${t.shape.join(", ")}] ${t.dtype} ${deviceOf(t.uop) ?? "constant"}${grad}`;
}

/** A tensor as text: shape, dtype, device, and its values if they can be seen. */
function textOf(t: TensorBase): string {
  const { values, constant, disposedAt, hidden } = visible(t);
  if (values !== undefined) return `${headText(t)}\n${formatValues(values, t.shape, t.dtype)}`;
  if (constant !== undefined) return `${headText(t)}\n${t.ndim === 0 ? "" : "filled with "}${constantText(constant)}`;
  return `${headText(t)} (${hidden ? "realized" : disposedAt === undefined ? "lazy" : `disposed at ${disposedAt}`})`;
}

function constantText(u: UOp): string {
  return u.dtype.isBool ? String(u.arg !== 0) : Object.is(u.arg, -0) ? "-0" : String(u.arg);
}

// ---- HTML

/** The positions of an axis that are shown; -1 stands for those left out. */
function shown(n: number, edge: number = EDGE): number[] {
  const all = Array.from({ length: n }, (_, i) => i);
  return n <= 2 * edge + 1 ? all : [...all.slice(0, edge), -1, ...all.slice(n - edge)];
}

/** The last two axes as a table, with the positions along both; 1-D is one row. */
function tableOf(values: HostArray, at: number, rows: number, cols: number, dtype: DType): string {
  const columns = shown(cols);
  const head = columns.map((j) => `<th>${j < 0 ? "…" : j}</th>`).join("");
  const lines = shown(rows).map((i) => {
    if (i < 0) return `<tr><th>…</th>${"<td>…</td>".repeat(columns.length)}</tr>`;
    const cells = columns.map((j) => {
      const one = dtype.isComplex ? 2 : 1, k = one * (at + i * cols + j);
      return `<td>${j < 0 ? "…" : escapeHtml(formatValues(values.subarray(k, k + one), [], dtype))}</td>`;
    });
    return `<tr><th>${i}</th>${cells.join("")}</tr>`;
  });
  return `<table><thead><tr><th></th>${head}</tr></thead><tbody>${lines.join("")}</tbody></table>`;
}

/** Values as HTML: a table for each matrix of the last two axes. Long axes show both ends. */
function htmlTable(head: string, values: HostArray, shape: readonly number[], dtype: DType): string {
  const title = `<div><code>${escapeHtml(head)}</code></div>`;
  const cols = shape.at(-1) ?? 1, rows = shape.at(-2) ?? 1;
  if (values.length === 0) return `${title}<div>no elements</div>`;
  const leading = shape.slice(0, -2), parts: string[] = [title];
  const slices = prod(shape.slice(0, -2));
  for (let s = 0; s < Math.min(slices, MAX_SLICES); s++) {
    if (leading.length > 0) {
      const index: number[] = [];
      for (let rest = s, axis = leading.length - 1; axis >= 0; rest = Math.floor(rest / leading[axis--])) {
        index.unshift(rest % leading[axis]);
      }
      parts.push(`<div><code>[${index.join(", ")}, :, :]</code></div>`);
    }
    parts.push(tableOf(values, s * rows * cols, rows, cols, dtype));
  }
  if (slices > MAX_SLICES) parts.push(`<div>… ${slices - MAX_SLICES} more</div>`);
  return parts.join("\n");
}

// ---- images

/** Height, width and channels of what can be drawn: [H, W] or [H, W, 1 | 3 | 4]. */
function imageSize(shape: readonly number[]): [height: number, width: number, channels: number] | undefined {
  const [height, width, channels = 1] = shape;
  if (shape.length !== 2 && !(shape.length === 3 && (channels === 1 || channels === 3 || channels === 4))) return;
  return height > 0 && width > 0 ? [height, width, channels] : undefined;
}

/** The smallest and largest finite value. */
function extent(values: HostArray): [min: number, max: number] {
  let min = Infinity, max = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const x = Number(values[i]);
    if (x < min && x > -Infinity) min = x;
    if (x > max && x < Infinity) max = x;
  }
  return min <= max ? [min, max] : [0, 1];
}

/** Values as a PNG: `min` is black, `max` white, what is beyond them too; NaN is black. */
function pngOf(
  values: HostArray,
  [height, width, channels]: readonly [number, number, number],
  dtype: DType,
  options: DisplayOptions,
): Uint8Array {
  const bytes = dtype.name === "uint8";
  const [low, high] = bytes ? [0, 255] : dtype.isBool ? [0, 1] : extent(values);
  const min = options.min ?? low, max = options.max ?? high, range = max > min ? 255 / (max - min) : 0;
  const scale = options.scale ?? Math.max(1, Math.floor(VISIBLE / Math.max(height, width)));
  const pixels = new Uint8Array(height * scale * width * scale * channels);
  let at = 0;
  for (let y = 0; y < height * scale; y++) {
    for (let x = 0; x < width * scale; x++) {
      const from = (Math.floor(y / scale) * width + Math.floor(x / scale)) * channels;
      for (let c = 0; c < channels; c++) {
        const v = (Number(values[from + c]) - min) * range;
        pixels[at++] = v >= 255 ? 255 : v > 0 ? Math.round(v) : 0;
      }
    }
  }
  return encodePng(pixels, width * scale, height * scale, channels);
}

// ---- notebooks

/**
 * A tensor's representations: text always; where its values can be seen an HTML table, or, for uint8 pixels and where
 * `options.image` asks for it, a PNG.
 *
 * @throws {ShapeError} if an image is asked for and the shape is none
 */
function bundleOf(t: TensorBase, options: DisplayOptions = {}): MimeBundle {
  const shape = t.shape, size = imageSize(shape);
  if (options.image && size === undefined) {
    throw new ShapeError("draw an image of", {
      shapes: [shape],
      reason: "an image has shape [height, width] or [height, width, 1 | 3 | 4]",
    });
  }
  const pixels = t.dtype.name === "uint8" && size !== undefined && Math.min(size[0], size[1]) >= MIN_SIDE;
  const bundle: MimeBundle = { "text/plain": textOf(t) };
  const { values } = visible(t, MAX_IMAGE, true);
  if (values === undefined) return bundle;
  if (!t.dtype.isComplex && size !== undefined && (options.image ?? pixels)) {
    bundle["image/png"] = base64(pngOf(values, size, t.dtype, options));
  } else bundle["text/html"] = htmlTable(headText(t), values, shape, t.dtype);
  return bundle;
}

/**
 * Shows a tensor in a notebook as `options` say; without options a tensor shows itself. Computes nothing: what is not
 * realized shows its shape, dtype and device.
 *
 * ```ts
 * import { display, Tensor } from "../../../mod.ts";
 * const ramp = Tensor.arange(64).reshape([8, 8]).float().realize();
 * display(ramp, { image: true }); // as the last line of a cell: 8 by 8 squares from black to white
 * ```
 *
 * @throws {ShapeError} if an image is asked for and the shape is none, {ArgumentError} for unknown or wrong options
 */
export function display(tensor: TensorBase, options: DisplayOptions = {}): Display {
  const action = "display a tensor";
  checkOptions(action, options, ["image", "min", "max", "scale"]);
  checkTensor(action, "it", tensor);
  if (options.scale !== undefined) checkInteger(action, "scale", options.scale, 1);
  if (options.scale !== undefined && options.scale > VISIBLE) {
    throw new ArgumentError(action, { reason: `scale must be at most ${VISIBLE}, not ${options.scale}` });
  }
  const bundle = bundleOf(tensor, options);
  const shown = { bundle };
  Object.defineProperty(shown, Symbol.for("Jupyter.display"), { value: (): MimeBundle => bundle });
  return shown;
}

/** Tensors that are printed. */
export abstract class DisplayTensor extends TensorBase {
  /** Shape, dtype, device, and the values where they are on the host already. Computes nothing. */
  override toString(): string {
    return textOf(this);
  }

  /** Values are read asynchronously, and JSON is made at once. @throws {ArgumentError} that says how */
  toJSON(): never {
    throw new ArgumentError("make JSON of a tensor", {
      reason: "read its values first: JSON.stringify(await t.tolist())",
    });
  }

  /** How Deno, Node and Jupyter print a tensor. */
  static {
    const text = function (this: TensorBase): string {
      return this.toString();
    };
    const display = function (this: TensorBase): MimeBundle {
      return bundleOf(this);
    };
    for (
      const [key, value] of [["Deno.customInspect", text], ["nodejs.util.inspect.custom", text], [
        "Jupyter.display",
        display,
      ]] as const
    ) Object.defineProperty(this.prototype, Symbol.for(key), { value, configurable: true, writable: true });
  }
  /** Tensors have methods, not operators. @throws {ArgumentError} but where a string is asked for */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new ArgumentError("use an operator on a tensor", {
      reason: "JavaScript cannot overload them; write a.add(b), and `await t.item()` for a value",
    });
  }
}
