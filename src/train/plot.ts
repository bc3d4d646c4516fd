/**
 * Plots for notebooks and files: lines, dots, histograms and matrices of numbers, as SVG. In: values that were read
 * (`await t.data()`); out: what a notebook shows as the last line of a cell. Photographs are `display(t, { image: true })`.
 *
 * @module
 */
import { ArgumentError } from "../helpers/errors.ts";
import { checkInteger, checkOptions, describe } from "../helpers/options.ts";
import { drawn, FRAME_OPTIONS, type FrameOptions } from "./frame.ts";
import { type Curve, plotCurves } from "./curves.ts";
import { heatMap, type ImageOptions } from "./heat_map.ts";

/** Numbers: a list or a TypedArray. */
export type Numbers = ArrayLike<number | bigint>;

/** Options of {@linkcode plot}'s histogram. */
export interface HistOptions extends FrameOptions {
  /** How many bars; 20 unless given. */
  readonly bins?: number;
}

/** A picture that notebooks show. */
export class Plot {
  /** The text of the SVG image. */
  readonly svg: string;

  /** A picture of this text. */
  constructor(svg: string) {
    this.svg = svg;
    const bundle = { "image/svg+xml": svg, "text/plain": "a plot" };
    Object.defineProperty(this, Symbol.for("Jupyter.display"), { value: (): Record<string, string> => bundle });
  }
  /** The text, for a file. */
  toString(): string {
    return this.svg;
  }
}

function numbers(action: string, name: string, list: unknown): number[] {
  if (!Array.isArray(list) && !ArrayBuffer.isView(list)) {
    throw new ArgumentError(action, {
      reason: `${name} must be a list of numbers (await t.data()), not ${describe(list)}`,
    });
  }
  return Array.from(list as unknown as Numbers, Number);
}

/** The type of {@linkcode plot}. */
export interface PlotApi {
  /** Lines over 0, 1, 2, ..., or over the places of `[x, y]`: one list, or lists by name. @throws {ArgumentError} */
  line(curves: Curve | Numbers | Readonly<Record<string, Curve | Numbers>>, options?: FrameOptions): Plot;
  /** A dot for each x and y. @throws {ArgumentError} for lists of two lengths */
  scatter(x: Numbers, y: Numbers, options?: FrameOptions): Plot;
  /** How many values are in each of equal intervals; what is not finite is left out. @throws {ArgumentError} */
  hist(values: Numbers, options?: HistOptions): Plot;
  /** A square for each number of a matrix, by rows; brighter for larger ones. @throws {ArgumentError} @throws {ShapeError} */
  image(rows: ArrayLike<Numbers>, options?: ImageOptions): Plot;
}

/**
 * Plots: `plot.line`, `plot.scatter`, `plot.hist`, `plot.image`.
 *
 * ```ts
 * import { plot } from "./train.ts";
 * const waves = plot.line({ sine: [0, 0.8, 0.9, 0.1], cosine: [1, 0.5, -0.4, -1] }, { title: "waves" });
 * console.log(waves.svg.match(/<path/g)!.length, plot.hist([1, 1, 2, 9], { bins: 4 }).svg.includes("<rect")); // 2 true
 * console.log(plot.image([[1, 2], [3, 4]], { title: "weights" }).svg.includes("<image")); // true
 * ```
 */
export const plot: PlotApi = {
  line(curves, options = {}) {
    checkOptions("plot curves", options, [...FRAME_OPTIONS, "x"]);
    const isList = Array.isArray(curves) || ArrayBuffer.isView(curves);
    const lists = (isList ? { "": curves } : curves) as Readonly<Record<string, Curve>>;
    return new Plot(plotCurves(lists, { xLabel: "", ...options }));
  },
  scatter(x, y, options = {}) {
    const action = "plot dots";
    checkOptions(action, options, FRAME_OPTIONS);
    const xs = numbers(action, "x", x), ys = numbers(action, "y", y);
    if (xs.length !== ys.length) {
      throw new ArgumentError(action, { reason: `x has ${xs.length} numbers and y ${ys.length}` });
    }
    return new Plot(drawn(action, new Map([["", xs.map((at, i) => [at, ys[i]] as const)]]), "", "dots", options));
  },
  hist(values, options = {}) {
    const action = "plot a histogram";
    checkOptions(action, options, [...FRAME_OPTIONS, "bins"]);
    const bins = checkInteger(action, "bins", options.bins ?? 20, 1);
    const list = numbers(action, "values", values).filter(Number.isFinite);
    let low = Infinity, high = -Infinity;
    for (const v of list) [low, high] = [Math.min(low, v), Math.max(high, v)];
    if (low > high) [low, high] = [0, 1];
    const width = (high - low || 1) / bins, counts = new Array<number>(bins).fill(0);
    for (const v of list) counts[Math.min(bins - 1, Math.floor((v - low) / width))]++;
    const bars = counts.map((count, i) => [low + i * width, count] as const);
    return new Plot(drawn(action, new Map([["", bars]]), "", { width }, options));
  },
  image(rows, options = {}) {
    return new Plot(heatMap(rows, options));
  },
};
