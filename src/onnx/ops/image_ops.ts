/**
 * ONNX: pictures: resizing, sampling at points, regions. Sizes are known on the host, so which elements an element is
 * made of, and how much each counts, is arithmetic there; the device gathers and adds.
 *
 * @module
 */
import type { DeviceName } from "../../device/device.ts";
import { prod } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { knownValue, valueOf } from "../values/value.ts";
import { INT64, UINT8 } from "../wire/element_types.ts";
import { placesOn } from "./index_ops.ts";
import { decodePicture } from "./special/picture_codecs.ts";

/** How one axis is resized: `taps` elements make up each, at `at[k][i]` with weight `weight[k][i]`. */
interface Taps {
  readonly at: number[][];
  readonly weight: number[][];
  /** Elements that lie outside and get a constant instead. */
  readonly outside: boolean[];
}
interface AxisResize {
  readonly input: number;
  readonly output: number;
  readonly scale: number;
  readonly roi: readonly [number, number];
}

/** Where element `i` lies in the input, by the transformation of coordinates that the node names. */
function origin(mode: string, i: number, { input, output, scale, roi }: AxisResize): number {
  const width = scale * input;
  switch (mode) {
    case "align_corners":
      return width === 1 ? 0 : i * (input - 1) / (width - 1);
    case "asymmetric":
      return i / scale;
    case "tf_crop_and_resize":
      return (width === 1 ? (roi[1] - roi[0]) * (input - 1) / 2 : i * (roi[1] - roi[0]) * (input - 1) / (width - 1)) +
        roi[0] * (input - 1);
    case "pytorch_half_pixel":
      return width === 1 ? -0.5 : (i + 0.5) / scale - 0.5;
    case "half_pixel_symmetric":
      return input / 2 * (1 - output / width) + (i + 0.5) / scale - 0.5;
    case "tf_half_pixel_for_nn":
      return (i + 0.5) / scale;
  }
  return (i + 0.5) / scale - 0.5;
}
/** Keys' cubic kernel. */
function cubic(x: number, a: number): number {
  x = Math.abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/** The elements and weights of an axis. */
function tapsOf(c: Call, axis: AxisResize, mode: string, coordinates: string, rounding: string): Taps {
  const a = c.float("cubic_coeff_a", -0.75),
    anti = c.int("antialias", 0) === 1,
    scale = anti ? Math.min(1, axis.scale) : 1;
  const reach = mode === "cubic" ? 2 : 1, start = mode === "nearest" ? 0 : Math.floor(-reach / scale) + 1;
  const count = mode === "nearest" ? 1 : 2 - 2 * start, exclude = c.int("exclude_outside", 0) === 1, n = axis.input;
  c.list(axis.output * count);
  const at: number[][] = Array.from({ length: count }, () => []),
    weight = at.map((): number[] => []),
    outside: boolean[] = [];
  for (let i = 0; i < axis.output; i++) {
    const x = origin(coordinates, i, axis), whole = Number.isInteger(x), base = whole ? x - 1 : Math.floor(x);
    const ratio = whole ? 1 : x - base;
    outside.push(coordinates === "tf_crop_and_resize" && (x < 0 || x > n - 1));
    let ws: number[];
    let first = base + start;
    if (mode === "nearest") {
      const up = rounding === "ceil" ||
        (rounding === "floor" ? ratio === 1 : rounding === "round_prefer_ceil" ? ratio >= 0.5 : ratio > 0.5);
      first = base + (up ? 1 : 0);
      ws = [1];
    } else {
      ws = Array.from({ length: count }, (_, k) => {
        const d = (start + k - ratio) * scale;
        return mode === "cubic" ? cubic(d, a) : Math.max(0, 1 - Math.abs(d));
      });
    }
    if (exclude) ws = ws.map((w, k) => first + k < 0 || first + k >= n ? 0 : w);
    const total = anti || exclude ? ws.reduce((p, q) => p + q, 0) : 1;
    for (let k = 0; k < count; k++) {
      at[k].push(Math.max(0, Math.min(n - 1, first + k)));
      weight[k].push(ws[k] / total);
    }
  }
  return { at, weight, outside };
}

/** A vector along an axis. */
function along(c: Call, values: readonly number[], axis: number, rank: number): Tensor {
  const t = new Tensor(Float32Array.from(values), { device: c.device as "JS" });
  return t.reshape(Array.from({ length: rank }, (_, i) => i === axis ? values.length : 1));
}
/** The elements of an axis at places: repeated without a gather where each stands as often. */
function taken(c: Call, x: Tensor, axis: number, at: readonly number[]): Tensor {
  const n = x.shape[axis], times = at.length / n;
  if (Number.isInteger(times) && at.every((p, i) => p === Math.floor(i / times))) {
    return times === 1 ? x : x.repeatInterleave(times, axis);
  }
  return x.indexSelect(axis, placesOn(c, at));
}

function resizeBy(
  c: Call,
  x: Tensor,
  axes: readonly (AxisResize & { axis: number })[],
  mode: string,
  coordinates: string,
  rounding: string,
): Tensor {
  let y = x, outside: Tensor | undefined;
  for (const a of axes) {
    const taps = tapsOf(c, a, mode, coordinates, rounding), parts: Tensor[] = [];
    if (mode === "nearest") y = taken(c, y, a.axis, taps.at[0]);
    else if (
      a.input !== a.output || taps.weight.some((ws) => ws.some((w) => w !== 0 && w !== 1)) ||
      taps.outside.includes(true)
    ) {
      taps.at.forEach((at, k) => {
        const ws = taps.weight[k];
        if (ws.some((w) => w !== 0)) {
          parts.push(y.indexSelect(a.axis, placesOn(c, at)).mul(along(c, ws, a.axis, x.ndim)));
        }
      });
      y = parts.reduce((p, q) => p.add(q));
    }
    if (taps.outside.includes(true)) {
      const flags = along(c, taps.outside.map(Number), a.axis, x.ndim).ne(0);
      outside = outside?.logicalOr(flags) ?? flags;
    }
  }
  return outside === undefined ? y : outside.where(c.float("extrapolation_value", 0), y);
}

function resize(c: Call): Result {
  const x = c.x(0), rank = x.ndim, old = c.version < 11, mode = c.text("mode", "nearest"), shape = x.shape;
  const axes = c.hasAttribute("axes") ? c.ints("axes").map((a) => c.axis(a, rank)) : shape.map((_, i) => i);
  const filled = (i: number) => c.has(i) && c.value(i).count > 0 ? c.numbers(i) : undefined;
  const scales = old ? filled(1) : filled(2), sizes = old ? undefined : filled(3), roi = old ? undefined : filled(1);
  if (scales === undefined && sizes === undefined) throw c.fail("it has neither scales nor sizes");
  if ((scales ?? sizes)!.length !== axes.length) {
    throw c.fail(`${(scales ?? sizes)!.length} sizes or scales do not fit ${axes.length} axes`);
  }
  let each = axes.map((a, i) => scales?.[i] ?? sizes![i] / shape[a]);
  let out = axes.map((a, i) => sizes?.[i] ?? Math.floor(shape[a] * scales![i]));
  const policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (sizes !== undefined && policy !== "stretch") {
    const scale = policy === "not_larger" ? Math.min(...each) : Math.max(...each);
    each = axes.map(() => scale);
    out = axes.map((a) => Math.floor(scale * shape[a] + 0.5));
  }
  const list = axes.map((axis, i) => ({
    axis,
    input: shape[axis],
    output: out[i],
    scale: each[i],
    roi: [roi?.[i] ?? 0, roi?.[i + axes.length] ?? 1] as const,
  })).filter((a) =>
    a.input !== a.output || a.scale !== 1 || c.text("coordinate_transformation_mode", "") === "tf_crop_and_resize"
  );
  const coordinates = c.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const rounding = c.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  const kind = mode === "bilinear" ? "linear" : mode, wide = kind === "nearest" ? x : x.float();
  const y = resizeBy(c, wide, list, kind, coordinates, rounding);
  return c.like(x.dtype.isInt && kind !== "nearest" ? y.round() : y);
}
function upsample(c: Call): Result {
  const x = c.x(0), scales = c.version < 9 ? c.floats("scales") : c.numbers(1), mode = c.text("mode", "nearest");
  const axes = x.shape.map((n, axis) => ({
    axis,
    input: n,
    output: Math.floor(n * scales[axis]),
    scale: scales[axis],
    roi: [0, 1] as const,
  })).filter((a) => a.input !== a.output);
  return c.like(resizeBy(c, x, axes, mode === "bilinear" ? "linear" : mode, "asymmetric", "floor"));
}

function gridSample(c: Call): Result {
  const mode = c.text("mode", "linear"),
    known = mode.includes("cubic") ? "bicubic" : mode === "nearest" ? "nearest" : "bilinear";
  const paddingMode = c.text("padding_mode", "zeros") as "zeros" | "border" | "reflection";
  return c.like(c.x(0).gridSample(c.x(1), { mode: known, paddingMode, alignCorners: c.int("align_corners", 0) === 1 }));
}

/** Points of a grid, moved by maps. */
function affineGrid(c: Call): Result {
  const theta = c.x(0), [n, , ...sizes] = c.numbers(1), corners = c.int("align_corners", 0) === 1, rank = sizes.length;
  const axes = sizes.map((s, i) => {
    const points = Array.from(
      { length: c.list(s) },
      (_, k) => corners ? (s === 1 ? 0 : -1 + 2 * k / (s - 1)) : (2 * k + 1) / s - 1,
    );
    return along(c, points, i, rank).expand(sizes);
  });
  const grid = axes[axes.length - 1].stack([...axes.slice(0, -1).reverse(), Tensor.ones(sizes)], -1);
  const y = grid.reshape([1, prod(sizes), rank + 1]).matmul(theta.float().transpose(1, 2));
  return c.like(y.reshape([n, ...sizes, rank]));
}

/** Means or maxima over points in each part of each region. */
function roiAlign(c: Call): Result {
  const x = c.x(0),
    [, channels, height, width] = x.shape,
    rois = c.numbers(1),
    images = c.numbers(2),
    count = images.length;
  const oh = c.int("output_height", 1), ow = c.int("output_width", 1), ratio = c.int("sampling_ratio", 0);
  const scale = c.float("spatial_scale", 1), max = c.text("mode", "avg") === "max";
  const half =
    c.text("coordinate_transformation_mode", c.version < 16 ? "output_half_pixel" : "half_pixel") === "half_pixel";
  const regions = images.map((image, r) => {
    const [x1, y1, x2, y2] = [0, 1, 2, 3].map((k) => rois[4 * r + k] * scale - (half ? 0.5 : 0));
    const w = half ? x2 - x1 : Math.max(1, x2 - x1), h = half ? y2 - y1 : Math.max(1, y2 - y1);
    return {
      image,
      x1,
      y1,
      w,
      h,
      ny: ratio > 0 ? ratio : Math.ceil(h / oh),
      nx: ratio > 0 ? ratio : Math.ceil(w / ow),
    };
  });
  const most = Math.max(1, ...regions.map((r) => r.nx * r.ny)), at: number[] = [], weights: number[] = [];
  c.list(4 * count * oh * ow * most);
  for (const r of regions) {
    for (let py = 0; py < oh; py++) {
      for (let px = 0; px < ow; px++) {
        const total = Math.max(1, r.nx * r.ny);
        for (let s = 0; s < most; s++) {
          const live = s < r.nx * r.ny,
            k = live ? s : 0,
            iy = Math.floor(k / Math.max(1, r.nx)),
            ix = k % Math.max(1, r.nx);
          const y = r.y1 + (py + (iy + 0.5) / Math.max(1, r.ny)) * r.h / oh,
            z = r.x1 + (px + (ix + 0.5) / Math.max(1, r.nx)) * r.w / ow;
          const inside = y >= -1 && y <= height && z >= -1 && z <= width,
            factor = (live || max) && inside ? (max ? 1 : 1 / total) : 0;
          const cy = Math.max(0, y),
            cx = Math.max(0, z),
            ylow = Math.min(height - 1, Math.floor(cy)),
            xlow = Math.min(width - 1, Math.floor(cx));
          const yhigh = Math.min(height - 1, ylow + 1), xhigh = Math.min(width - 1, xlow + 1);
          const ly = ylow === height - 1 ? 0 : cy - ylow, lx = xlow === width - 1 ? 0 : cx - xlow;
          const base = r.image * height * width;
          for (
            const [py2, px2, w] of [[ylow, xlow, (1 - ly) * (1 - lx)], [ylow, xhigh, (1 - ly) * lx], [
              yhigh,
              xlow,
              ly * (1 - lx),
            ], [yhigh, xhigh, ly * lx]]
          ) {
            at.push(base + py2 * width + px2);
            weights.push(w * factor);
          }
        }
      }
    }
  }
  const pixels = x.permute([0, 2, 3, 1]).reshape([-1, channels]).indexSelect(0, placesOn(c, at));
  const weighted = pixels.mul(along(c, weights, 0, 2)).reshape([count, oh, ow, most * 4, channels]);
  return c.like((max ? weighted.max(3) : weighted.sum(3)).permute([0, 3, 1, 2]));
}

/** Boxes by descending score that no better one of their class overlaps. */
function nonMaxSuppression(c: Call): Result {
  const boxes = c.numbers(0), scores = c.numbers(1), [batches, spots] = c.shape(0), classes = c.shape(1)[1];
  const limit = c.number(2, 0), overlap = c.number(3, 0), least = c.has(4) ? c.number(4) : -Infinity;
  const center = c.int("center_point_box", 0) === 1, found: number[] = [];
  const corners = (b: number, i: number): [number, number, number, number] => {
    const [p, q, r, s] = [0, 1, 2, 3].map((k) => boxes[(b * spots + i) * 4 + k]);
    if (center) return [q - s / 2, p - r / 2, q + s / 2, p + r / 2];
    return [Math.min(p, r), Math.min(q, s), Math.max(p, r), Math.max(q, s)];
  };
  for (let b = 0; b < batches; b++) {
    for (let k = 0; k < classes; k++) {
      const score = (i: number): number => scores[(b * classes + k) * spots + i],
        kept: [number, number, number, number][] = [];
      const order = Array.from({ length: spots }, (_, i) => i).filter((i) => score(i) > least).sort((i, j) =>
        score(j) - score(i) || i - j
      );
      for (const i of order) {
        if (kept.length >= limit) break;
        const [y1, x1, y2, x2] = corners(b, i), area = (y2 - y1) * (x2 - x1);
        const clear = kept.every(([v1, u1, v2, u2]) => {
          const both = Math.max(0, Math.min(y2, v2) - Math.max(y1, v1)) *
            Math.max(0, Math.min(x2, u2) - Math.max(x1, u1));
          const all = area + (v2 - v1) * (u2 - u1) - both;
          return !(all > 0 && both / all > overlap);
        });
        if (!clear) continue;
        kept.push([y1, x1, y2, x2]);
        found.push(b, k, i);
      }
    }
  }
  return knownValue(INT64, [found.length / 3, 3], found);
}

/** A picture of the host as [height, width, channels]. */
function imageDecoder(c: Call): Result {
  const format = c.text("pixel_format", "RGB");
  const { width, height, rgb } = decodePicture(Uint8Array.from(c.numbers(0)), (reason) => c.fail(reason));
  const isGray = format === "Grayscale";
  if (!isGray && format !== "RGB" && format !== "BGR") throw c.fail(`its pixel_format is "${format}"`);
  const out = isGray ? new Uint8Array(width * height) : rgb;
  for (let i = 0; i < width * height; i++) {
    const [r, g, b] = rgb.subarray(3 * i, 3 * i + 3);
    // the weights of ITU-R 601
    if (isGray) out[i] = Math.round(0.299 * r + 0.587 * g + 0.114 * b);
    else if (format === "BGR") [out[3 * i], out[3 * i + 2]] = [b, r];
  }
  const t = new Tensor(out, { device: c.device as DeviceName });
  return valueOf(t.reshape([height, width, isGray ? 1 : 3]), UINT8);
}

/** The rows of this family. */
export const IMAGES: readonly OpRow[] = [
  op("ImageDecoder", imageDecoder, [0], 20),
  op("Resize", resize, [1, 2, 3]),
  op("Upsample", upsample, [1]),
  op("GridSample", gridSample),
  op("AffineGrid", affineGrid, [1]),
  op("RoiAlign", roiAlign, [1, 2]),
  op("NonMaxSuppression", nonMaxSuppression, [0, 1, 2, 3, 4]),
];
