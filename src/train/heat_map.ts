/**
 * A matrix as a picture: a rectangle a number, dark for the least and bright for the largest one, beside a scale, as SVG. In:
 * rows of numbers and options; out: text. The pixels are a PNG inside of it, so that a million of them is no long text.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { checkNumber, checkOptions, describe } from "../helpers/options.ts";
import { encodePng } from "../helpers/png.ts";
import { base64, escapeHtml } from "../helpers/text.ts";
import { svgHead } from "./frame.ts";

/** Options of {@linkcode heatMap}. */
export interface ImageOptions {
  /** Above the picture; none unless given. */
  readonly title?: string;
  /** What is darkest; the least finite number unless given. */
  readonly low?: number;
  /** What is brightest; the largest finite number unless given. */
  readonly high?: number;
  /** Pixels across; 480 unless given. Rectangles are squares. */
  readonly width?: number;
}

/** Five colors of viridis (S. van der Walt, N. Smith, 2015), between which others are mixed: as bright as the number is large. */
const COLORS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]] as const;
/** Pixels around the picture, beside it for the scale, and above it for the title. */
const EDGE = 12, SCALE = 84, TITLE = 24;

/** The color of a part in [0, 1] of the way from the least to the largest number. */
function colorOf(part: number): readonly number[] {
  const at = Math.min(1, Math.max(0, part)) * (COLORS.length - 1), i = Math.min(COLORS.length - 2, Math.floor(at));
  return COLORS[i].map((c, k) => Math.round(c + (COLORS[i + 1][k] - c) * (at - i)));
}

/** The numbers of rows, row by row. @throws {ArgumentError} @throws {ShapeError} for rows of several lengths */
function matrixOf(action: string, rows: unknown): { readonly values: number[]; readonly columns: number } {
  const isList = (x: unknown): x is ArrayLike<unknown> => Array.isArray(x) || ArrayBuffer.isView(x);
  if (!isList(rows) || rows.length === 0 || !Array.from(rows).every((r) => isList(r) && r.length > 0)) {
    const given = isList(rows) ? `a list of ${rows.length}` : describe(rows);
    throw new ArgumentError(action, { reason: `rows must be lists of numbers (await t.tolist()), not ${given}` });
  }
  const lists = Array.from(rows) as ArrayLike<number | bigint>[], columns = lists[0].length;
  const other = lists.find((r) => r.length !== columns);
  if (other !== undefined) {
    throw new ShapeError(action, { shapes: [[columns], [other.length]], reason: "rows must be of one length" });
  }
  return { values: lists.flatMap((r) => Array.from(r, Number)), columns };
}

/** The picture of rows of numbers, as the text of an SVG image. NaN is left open, infinities are the ends of the scale. */
export function heatMap(rows: ArrayLike<ArrayLike<number | bigint>>, options: ImageOptions = {}): string {
  const action = "plot an image", { values, columns } = matrixOf(action, rows), height = values.length / columns;
  const { title = "", width = 480 } = checkOptions(action, options, ["title", "low", "high", "width"]);
  const finite = values.filter(Number.isFinite),
    limit = (name: "low" | "high", found: number): number =>
      options[name] === undefined ? Number.isFinite(found) ? found : 0 : checkNumber(action, name, options[name]);
  const low = limit("low", finite.reduce((a, b) => Math.min(a, b), Infinity));
  const high = limit("high", finite.reduce((a, b) => Math.max(a, b), -Infinity)), span = high - low || 1;
  const pixels = new Uint8Array(values.length * 4);
  values.forEach((v, i) => {
    if (!Number.isNaN(v)) pixels.set([...colorOf((v - low) / span), 255], i * 4);
  });
  const across = Math.max(1, checkNumber(action, "width", width) - 2 * EDGE - SCALE), down = across * height / columns;
  const top = EDGE + (title === "" ? 0 : TITLE), barX = EDGE + across + EDGE, barHeight = Math.max(40, down);
  const png = base64(encodePng(pixels, columns, height, 4)),
    text = (x: number, y: number, t: string): string => `<text class="ink" x="${x}" y="${y}">${escapeHtml(t)}</text>`;
  return [
    ...svgHead(Math.ceil(width), Math.ceil(barHeight + top + EDGE), title),
    "<style>.ink{fill:#222}@media(prefers-color-scheme:dark){.ink{fill:#ddd}}</style>",
    `<defs><linearGradient id="scale" x1="0" y1="1" x2="0" y2="0">${
      COLORS.map((c, i) => `<stop offset="${i / (COLORS.length - 1)}" stop-color="rgb(${c.join()})"/>`).join("")
    }</linearGradient></defs>`,
    ...title === "" ? [] : [text(EDGE, EDGE + 12, title)],
    `<image x="${EDGE}" y="${top}" width="${across}" height="${down}" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,${png}"/>`,
    `<rect x="${barX}" y="${top}" width="12" height="${barHeight}" fill="url(#scale)"/>`,
    text(barX + 18, top + 10, String(Number(high.toPrecision(4)))),
    text(barX + 18, top + barHeight, String(Number(low.toPrecision(4)))),
    "</svg>",
  ].join("\n");
}
