/**
 * ONNX: windows over spatial axes: convolutions and pools. Padding is made explicit first, which is then alike for all:
 * so many elements before and after each axis that the windows fit exactly.
 *
 * @module
 */
import { dtypeMin, dtypes } from "../../dtype/dtype.ts";
import { prod, stridesOf } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { stash } from "./norm_ops.ts";

/** Windows over the spatial axes. */
export interface Windows {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  /** Elements before each axis, and behind it, as the model says. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly out: readonly number[];
  /** What to pad for the windows to fit exactly: beyond `after` where sizes are rounded up. */
  readonly pads: readonly (readonly [number, number])[];
}

/** The windows of a node over axes of `sizes`. */
function windowsOf(c: Call, sizes: readonly number[], kernel: readonly number[]): Windows {
  const n = sizes.length, ones = new Array<number>(n).fill(1), auto = c.text("auto_pad", "NOTSET");
  if (kernel.length !== n) throw c.fail(`a kernel of ${kernel.length} axes does not fit ${n} spatial ones`);
  const strides = c.ints("strides", ones), dilations = c.ints("dilations", ones), ceil = c.int("ceil_mode", 0) === 1;
  const pads = c.ints("pads", new Array<number>(2 * n).fill(0)),
    spans = kernel.map((k, i) => (k - 1) * dilations[i] + 1);
  const before: number[] = [], after: number[] = [], out: number[] = [];
  for (let i = 0; i < n; i++) {
    if (auto === "SAME_UPPER" || auto === "SAME_LOWER") {
      const m = Math.ceil(sizes[i] / strides[i]), total = Math.max(0, (m - 1) * strides[i] + spans[i] - sizes[i]);
      const less = Math.floor(total / 2);
      before.push(auto === "SAME_UPPER" ? less : total - less);
      after.push(total - before[i]);
      out.push(m);
      continue;
    }
    before.push(auto === "VALID" ? 0 : pads[i]);
    after.push(auto === "VALID" ? 0 : pads[i + n]);
    const room = sizes[i] + before[i] + after[i] - spans[i];
    if (room < 0) throw c.fail(`a window of ${spans[i]} does not fit into ${sizes[i] + before[i] + after[i]}`);
    let m = (ceil ? Math.ceil : Math.floor)(room / strides[i]) + 1;
    if (ceil && (m - 1) * strides[i] >= sizes[i] + before[i]) m--; // no window starts behind the input
    out.push(m);
  }
  const fit = out.map((m, i): [number, number] => [before[i], (m - 1) * strides[i] + spans[i] - sizes[i] - before[i]]);
  return { kernel, strides, dilations, before, after, out, pads: fit };
}

/** Pads the spatial axes. */
function padded(x: Tensor, pads: readonly (readonly [number, number])[], value: number): Tensor {
  if (pads.every(([a, b]) => a === 0 && b === 0)) return x;
  const all = [...new Array(x.ndim - pads.length).fill([0, 0]), ...pads] as [number, number][];
  return x.pad(all, { value });
}

/** A convolution, of floats or whole numbers. */
export function convolve(c: Call, x: Tensor, w: Tensor, bias?: Tensor): Tensor {
  const groups = c.int("group", 1), sizes = x.shape.slice(2), kernel = c.ints("kernel_shape", w.shape.slice(2));
  const win = windowsOf(c, sizes, kernel), even = win.before.every((b, i) => b === win.after[i]);
  const options = { groups, stride: [...win.strides], dilation: [...win.dilations] };
  if (even) return x.conv2d(w, bias, { ...options, padding: [...win.before] });
  return padded(x, win.before.map((b, i) => [b, win.after[i]] as const), 0).conv2d(w, bias, options);
}

function convTranspose(c: Call): Result {
  const x = c.x(0), w = c.x(1), groups = c.int("group", 1), sizes = x.shape.slice(2), n = sizes.length;
  const ones = new Array<number>(n).fill(1), zeros = new Array<number>(n).fill(0), auto = c.text("auto_pad", "NOTSET");
  const strides = c.ints("strides", ones),
    dilations = c.ints("dilations", ones),
    more = c.ints("output_padding", zeros);
  const kernel = w.shape.slice(2),
    full = sizes.map((s, i) => (s - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1);
  const given = c.hasAttribute("output_shape") ? c.ints("output_shape").slice(-n) : undefined,
    pads = [...c.ints("pads", [...zeros, ...zeros])];
  if (given !== undefined || auto.startsWith("SAME")) {
    for (let i = 0; i < n; i++) {
      const total = full[i] + more[i] - (given?.[i] ?? sizes[i] * strides[i]), half = Math.floor(total / 2);
      pads[i] = auto === "SAME_UPPER" ? half : total - half;
      pads[i + n] = total - pads[i];
    }
  } else if (auto === "VALID") pads.fill(0);
  const y = x.convTranspose2d(w, undefined, { groups, stride: [...strides], dilation: [...dilations] });
  const cut = padded(y, zeros.map((_, i) => [-pads[i], more[i] - pads[i + n]] as const), 0);
  return c.like(c.has(2) ? cut.add(c.x(2).reshape([1, -1, ...ones])) : cut);
}

/** Means over windows: what lies outside counts, or not. */
export function averages(c: Call, x: Tensor): Tensor {
  const win = windowsOf(c, x.shape.slice(2), c.ints("kernel_shape"));
  const mean = (t: Tensor) => t.avgPool2d([...win.kernel], { stride: [...win.strides], dilation: [...win.dilations] });
  if (win.pads.every(([a, b]) => a === 0 && b <= 0)) return mean(padded(x, win.pads, 0));
  const y = stash(x), inner = Tensor.ones([1, 1, ...x.shape.slice(2)], { dtype: y.dtype });
  const outer = padded(inner, win.before.map((b, i) => [b, win.after[i]] as const), 1),
    all = c.int("count_include_pad", 0) === 1;
  const weight = all
    ? padded(outer, win.pads.map(([, b], i) => [0, b - win.after[i]] as const), 0)
    : padded(inner, win.pads, 0);
  return mean(padded(y, win.pads, 0)).div(mean(weight));
}

function lpPool(c: Call): Result {
  const x = stash(c.x(0)), p = c.int("p", 2), win = windowsOf(c, x.shape.slice(2), c.ints("kernel_shape"));
  const y = padded(x.abs().pow(p), win.pads, 0);
  const sum = y.avgPool2d([...win.kernel], { stride: [...win.strides], dilation: [...win.dilations] }).mul(
    prod(win.kernel),
  );
  return c.like(sum.pow(1 / p));
}

/** Maxima over windows, and where they stand in the whole input. */
function maxPool(c: Call): Result {
  const x = c.x(0), win = windowsOf(c, x.shape.slice(2), c.ints("kernel_shape"));
  const y = padded(x, win.pads, dtypeMin(x.dtype)),
    options = { stride: [...win.strides], dilation: [...win.dilations] };
  if (!c.wants(1)) return c.like(y.maxPool2d([...win.kernel], options));
  const [values, places] = y.maxPool2d([...win.kernel], { ...options, returnIndices: true });
  const from = y.shape.slice(2), to = x.shape.slice(2), fromStrides = stridesOf(from);
  const toStrides = c.int("storage_order", 0) === 0 ? stridesOf(to) : to.map((_, i) => prod(to.slice(0, i)));
  const flat = from.map((n, i) => places.floorDiv(fromStrides[i]).mod(n).sub(win.before[i]).mul(toStrides[i]))
    .reduce((a, b) => a.add(b));
  const [batch, channels] = x.shape, ones = to.map(() => 1);
  const image = Tensor.arange(batch * channels).mul(prod(to));
  return [c.like(values), flat.add(image.reshape([batch, channels, ...ones])).cast(dtypes.int64)];
}

function maxUnpool(c: Call): Result {
  const x = c.x(0), n = x.ndim - 2, kernel = c.ints("kernel_shape"), strides = c.ints("strides", kernel.map(() => 1));
  const pads = c.ints("pads", new Array<number>(2 * n).fill(0));
  const sizes = kernel.map((k, i) => (x.shape[i + 2] - 1) * strides[i] + k - pads[i] - pads[i + n]);
  const shape = [x.shape[0], x.shape[1], ...sizes],
    zeros = Tensor.zeros([prod(shape)], { dtype: x.dtype });
  const y = zeros.scatter(0, c.x(1).reshape([-1]), x.reshape([-1])).reshape(shape);
  if (!c.has(2)) return c.like(y);
  return c.like(y.pad(c.numbers(2).map((m, i): [number, number] => [0, m - shape[i]])));
}

/** Columns added up where their windows stand. */
function col2im(c: Call): Result {
  const sizes = c.numbers(1), kernel = c.numbers(2), n = sizes.length, ones = sizes.map(() => 1), x = c.x(0);
  const strides = c.ints("strides", ones),
    dilations = c.ints("dilations", ones),
    pads = c.ints("pads", [...ones, ...ones].map(() => 0));
  const full = sizes.map((s, i) => s + pads[i] + pads[i + n]), each = prod(kernel), channels = x.shape[1] / each;
  const counts = full.map((s, i) => Math.floor((s - (kernel[i] - 1) * dilations[i] - 1) / strides[i]) + 1);
  if (x.shape[2] !== prod(counts)) {
    const padded = `[${sizes.join(", ")}] with pads [${pads.join(", ")}]`;
    throw c.fail(
      `its input has ${x.shape[2]} blocks, and ${padded} has ${
        counts.join(" by ")
      } (pads begin all axes, then end them)`,
    );
  }
  const columns = x.reshape([x.shape[0], channels, ...kernel, ...counts]);
  let out: Tensor | undefined;
  for (let k = 0; k < each; k++) {
    const at = kernel.map((s, i) => Math.floor(k / prod(kernel.slice(i + 1))) % s);
    let part: Tensor = columns.at(":", ":", ...at);
    // each axis stretched by its stride, and moved to where the window's element stands
    counts.forEach((m, i) => {
      const axis = i + 2, stretched = part.unsqueeze(axis + 1);
      const gaps = stretched.shape.map((_, a): [number, number] => a === axis + 1 ? [0, strides[i] - 1] : [0, 0]);
      const shape = [...part.shape], start = at[i] * dilations[i];
      shape[axis] = m * strides[i];
      const moved = shape.map((s, a): [number, number] => a === axis ? [start, full[i] - s - start] : [0, 0]);
      part = stretched.pad(gaps).reshape(shape).pad(moved);
    });
    out = out?.add(part) ?? part;
  }
  const cut = full.map((s, i): [number, number] => [pads[i], s - pads[i + n]]);
  return c.like(out!.shrink([[0, x.shape[0]], [0, channels], ...cut]));
}

/** A convolution whose windows' elements are moved by offsets, between elements linearly. */
function deformConv(c: Call): Result {
  const x = c.x(0), w = c.x(1), offset = c.x(2), groups = c.int("group", 1), moves = c.int("offset_group", 1);
  const [batch, channels, height, width] = x.shape, [outChannels, , kh, kw] = w.shape, mask = c.opt(4);
  const win = windowsOf(c, [height, width], [kh, kw]),
    [oh, ow] = win.out,
    each = channels / moves;
  const shifts = offset.reshape([batch, moves, kh * kw, 2, oh, ow]);
  const base = (n: number, axis: number, k: number) =>
    Tensor.arange(n).mul(win.strides[axis]).add(k * win.dilations[axis] - win.before[axis]).float();
  const columns: Tensor[] = [];
  for (let k = 0; k < kh * kw; k++) {
    const parts: Tensor[] = [];
    for (let g = 0; g < moves; g++) {
      const y = shifts.at(":", g, k, 0).add(base(oh, 0, Math.floor(k / kw)).reshape([1, oh, 1]));
      const z = shifts.at(":", g, k, 1).add(base(ow, 1, k % kw).reshape([1, 1, ow]));
      const scale = (t: Tensor, n: number) => n === 1 ? t.mul(2) : t.mul(2 / (n - 1)).sub(1);
      const grid = scale(z, width).stack([scale(y, height)], -1);
      const images = x.shrink([[0, batch], [g * each, (g + 1) * each], [0, height], [0, width]]);
      let part = images.gridSample(grid, { alignCorners: true });
      if (mask !== undefined) part = part.mul(mask.reshape([batch, moves, kh * kw, oh, ow]).at(":", g, k).unsqueeze(1));
      parts.push(part);
    }
    columns.push(parts[0].cat(parts.slice(1), 1));
  }
  const all = columns[0].stack(columns.slice(1), 2).reshape([batch, groups, channels / groups * kh * kw, oh * ow]);
  const weight = w.reshape([1, groups, outChannels / groups, channels / groups * kh * kw]);
  const y = weight.matmul(all).reshape([batch, outChannels, oh, ow]);
  return c.like(c.has(3) ? y.add(c.x(3).reshape([1, -1, 1, 1])) : y);
}

const overSpace = (name: string, f: (x: Tensor, axes: number[]) => Tensor): OpRow =>
  op(name, (c) => c.like(f(c.x(0), c.shape(0).map((_, i) => i).slice(2))));

/** The rows of this family. */
export const WINDOWS: readonly OpRow[] = [
  op("Conv", (c) => c.like(convolve(c, c.x(0), c.x(1), c.opt(2)))),
  op("ConvTranspose", convTranspose),
  op("DeformConv", deformConv),
  op("AveragePool", (c) => c.like(averages(c, c.x(0)))),
  op("MaxPool", maxPool),
  op("LpPool", lpPool),
  op("MaxUnpool", maxUnpool, [2]),
  op("Col2Im", col2im, [1, 2]),
  overSpace("GlobalAveragePool", (x, axes) => x.mean(axes, { keepdim: true })),
  overSpace("GlobalMaxPool", (x, axes) => x.max(axes, { keepdim: true })),
  op("GlobalLpPool", (c) => {
    const x = c.x(0), p = c.int("p", 2);
    return c.like(x.abs().pow(p).sum(x.shape.map((_, i) => i).slice(2), { keepdim: true }).pow(1 / p));
  }),
  op("CausalConvWithState", causalConv),
  op("CausalConvWithState", causalConv, [], 1, "ai.onnx.preview"),
];

/** A convolution of each channel over time, which sees the past alone; what it keeps of the past is given too. */
function causalConv(c: Call): Result {
  const x = c.x(0), w = c.x(1), keep = w.shape[w.ndim - 1] - 1, channels = x.shape[1];
  const kernel = w.ndim === 2 ? w.unsqueeze(1) : w, [batch] = x.shape;
  const past = c.opt(3) ?? Tensor.zeros([batch, channels, keep], { dtype: x.dtype });
  const all = past.cast(x.dtype).cat([x], 2), total = all.shape[2];
  let y = all.conv2d(kernel, c.opt(2), { groups: channels });
  const activation = c.text("activation", "none");
  if (activation === "silu" || activation === "swish") y = y.silu();
  else if (activation !== "none" && activation !== "") throw c.fail(`activation "${activation}" is not known`);
  return [c.like(y), c.like(all.shrink([[0, batch], [0, channels], [total - keep, total]]))];
}
