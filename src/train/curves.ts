/**
 * Learning curves as SVG: lines over steps with axes, ticks, a grid and a legend, on a linear or logarithmic scale, light or
 * dark as the page is. In: numbers by name; out: text. Values that are not finite are gaps.
 *
 * @module
 */
import { ArgumentError } from "../helpers/errors.ts";
import { checkOptions, describe, isPlain } from "../helpers/options.ts";
import { drawn, FRAME_OPTIONS, type FrameOptions, type Points } from "./frame.ts";
import type { LogRow } from "./csv_logger.ts";

/** A line: values at 0, 1, 2, ..., or places and values. */
export type Curve = readonly number[] | readonly (readonly [x: number, y: number])[];

/** Options of {@linkcode plotCurves}. */
export interface PlotOptions extends FrameOptions {
  /** Below the axis; "step", or the column, unless given. */
  readonly xLabel?: string;
  /** The column of places, of rows; "step" or "epoch" unless given, else rows are counted. */
  readonly x?: string;
}

function curvesOf(action: string, history: unknown, options: PlotOptions): [Map<string, Points>, string] {
  const curves = new Map<string, Points>();
  if (Array.isArray(history)) {
    const rows = history as LogRow[], names = [...new Set(rows.flatMap((r) => isPlain(r) ? Object.keys(r) : []))];
    const x = options.x ?? names.find((n) => n === "step") ?? names.find((n) => n === "epoch");
    for (const name of names) {
      if (name === x) continue;
      const points = rows.flatMap((r, i): Points => {
        const at = x === undefined ? i : r[x], y = r[name];
        return typeof at === "number" && typeof y === "number" ? [[at, y]] : [];
      });
      if (points.length > 0) curves.set(name, points);
    }
    return [curves, x ?? "step"];
  }
  if (!isPlain(history)) {
    throw new ArgumentError(action, {
      reason: `it takes lists of numbers by name, or a list of rows, not ${describe(history)}`,
    });
  }
  for (const [name, list] of Object.entries(history)) {
    if (!Array.isArray(list) && !ArrayBuffer.isView(list)) {
      throw new ArgumentError(action, { reason: `"${name}" must be a list of numbers, not ${describe(list)}` });
    }
    curves.set(
      name,
      Array.from(
        list as readonly unknown[],
        (v, i) => Array.isArray(v) ? [Number(v[0]), Number(v[1])] : [i, Number(v)],
      ),
    );
  }
  return [curves, "step"];
}

/**
 * Curves as the text of an SVG image. `history` is lists by name, of values or of `[x, y]`, or rows as a `CSVLogger` has them.
 *
 * ```ts
 * import { plotCurves } from "./train.ts";
 * const svg = plotCurves({ loss: [1, 0.5, 0.3], "test loss": [1.1, 0.7, 0.6] }, { title: "digits", logY: true });
 * console.log(svg.startsWith("<svg"), svg.match(/<path/g)!.length); // true 2
 * ```
 *
 * @throws {ArgumentError} for what is no list of numbers
 */
export function plotCurves(
  history: Readonly<Record<string, Curve>> | readonly LogRow[],
  options: PlotOptions = {},
): string {
  const action = "plot curves";
  checkOptions(action, options, [...FRAME_OPTIONS, "x"]);
  const [curves, xName] = curvesOf(action, history, options);
  return drawn(action, curves, xName, "line", options);
}
