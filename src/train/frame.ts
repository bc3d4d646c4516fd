/**
 * The picture of plots: axes with ticks, a grid, a legend, and in them lines, dots or bars, as SVG, light or dark as the page
 * is. In: points by name; out: text. What is not finite is a gap.
 *
 * @module
 */
import { checkBoolean, checkInteger } from "../helpers/options.ts";
import { escapeHtml } from "../helpers/text.ts";

/** How a plot looks. */
export interface FrameOptions {
  /** Above the picture; none unless given. */
  readonly title?: string;
  /** Below the axis. */
  readonly xLabel?: string;
  /** Beside the axis of values; none unless given. */
  readonly yLabel?: string;
  /** Whether values are on a logarithmic scale; those of 0 and below are gaps there. False unless given. */
  readonly logY?: boolean;
  /** Pixels; 720 by 400 unless given. */
  readonly width?: number;
  /** As `width`. */
  readonly height?: number;
}

/** Places and values. */
export type Points = (readonly [x: number, y: number])[];

/** What a point becomes: a corner of a line, a dot, or a bar of `width` to its right. */
export type Mark = "line" | "dots" | { readonly width: number };

/** The names of {@linkcode FrameOptions}. */
export const FRAME_OPTIONS = ["title", "xLabel", "yLabel", "logY", "width", "height"] as const;

/** Told apart also without colors of one kind, on white and on black. */
const COLORS = ["#2f7ed8", "#e07b00", "#2ca02c", "#d03b3b", "#8a63d2", "#8c6d46", "#d65db1", "#6b7785"];

/** Round places of ticks from low to high, about `count` of them. */
function ticksOf(low: number, high: number, count: number): number[] {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw)), part = raw / power;
  const step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10), first = Math.ceil(low / step - 1e-9);
  const out: number[] = [];
  for (let i = first; i * step <= high + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

/** Powers of ten, with 2 and 5 between where there are few. */
function logTicks(low: number, high: number): number[] {
  const out: number[] = [], isShort = high - low < 2;
  for (let p = Math.floor(low); p <= Math.ceil(high); p++) {
    for (const m of isShort ? [1, 2, 5] : [1]) {
      const at = Math.log10(m) + p;
      if (at >= low - 1e-9 && at <= high + 1e-9) out.push(at);
    }
  }
  const every = Math.ceil(out.length / 8);
  return out.filter((_, i) => i % every === 0);
}

function short(x: number): string {
  if (x === 0) return "0";
  return Math.abs(x) >= 1e-4 && Math.abs(x) < 1e6
    ? String(Number(x.toPrecision(6)))
    : x.toExponential().replace("e+", "e");
}

/** How an SVG image begins; readers of screens are told the title. */
export function svgHead(width: number, height: number, title: string): string[] {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="system-ui, sans-serif" font-size="12">`,
    `<title>${escapeHtml(title)}</title>`,
  ];
}

/** The text of an SVG image of `curves`. */
export function drawn(
  action: string,
  curves: ReadonlyMap<string, Points>,
  xName: string,
  mark: Mark,
  options: FrameOptions,
): string {
  const logY = options.logY !== undefined && checkBoolean(action, "logY", options.logY);
  const width = checkInteger(action, "width", options.width ?? 720, 160),
    height = checkInteger(action, "height", options.height ?? 400, 120);
  const up = (y: number): number => logY ? y > 0 ? Math.log10(y) : NaN : y;
  const all = [...curves.values()].flatMap((points) => points.map(([x, y]) => [x, up(y)] as const))
    .filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const range = (values: readonly number[], pad: number): [number, number] => {
    let low = Infinity, high = -Infinity;
    for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)];
    if (low > high) return [0, 1];
    const more = (high - low || Math.abs(high) || 1) * (low === high ? 0.5 : pad);
    return [low - more, high + more];
  };
  const bar = typeof mark === "object" ? mark.width : 0;
  const xs = all.flatMap(([x]) => [x, x + bar]), ys = all.map(([, y]) => y);
  const [x0, x1] = range(xs, mark === "dots" ? 0.03 : 0);
  const [y0, y1] = bar > 0 ? [0, Math.max(1, ...ys) * 1.05] : range(ys, 0.05);
  const left = 64, right = 16, top = options.title === undefined ? 16 : 40, bottom = 72;
  const wide = width - left - right, high = height - top - bottom;
  const px = (x: number): number => left + (x - x0) / (x1 - x0) * wide,
    py = (y: number): number => top + (y1 - y) / (y1 - y0) * high;
  const n = (x: number): string => String(Math.round(x * 10) / 10);
  const out: string[] = [
    ...svgHead(width, height, options.title ?? [...curves.keys()].join(", ")),
    "<style>.ink{fill:#222}.grid{stroke:#8884;stroke-width:1}.back{fill:#fff}.line{fill:none;stroke-width:2;stroke-linejoin:round}" +
    "@media(prefers-color-scheme:dark){.ink{fill:#ddd}.back{fill:#161616}}</style>",
    `<rect class="back" width="${width}" height="${height}"/>`,
  ];
  const text = (x: number, y: number, s: string, more = ""): void => {
    out.push(`<text class="ink" x="${n(x)}" y="${n(y)}"${more}>${escapeHtml(s)}</text>`);
  };
  if (options.title !== undefined) text(left, 24, options.title, ' font-size="15" font-weight="600"');
  for (const t of logY ? logTicks(y0, y1) : ticksOf(y0, y1, high / 50)) {
    out.push(`<line class="grid" x1="${left}" x2="${n(left + wide)}" y1="${n(py(t))}" y2="${n(py(t))}"/>`);
    text(left - 8, py(t) + 4, short(logY ? 10 ** t : t), ' text-anchor="end"');
  }
  for (const t of ticksOf(x0, x1, wide / 80)) {
    out.push(`<line class="grid" x1="${n(px(t))}" x2="${n(px(t))}" y1="${top}" y2="${n(top + high)}"/>`);
    text(px(t), top + high + 16, short(t), ' text-anchor="middle"');
  }
  text(left + wide / 2, top + high + 34, options.xLabel ?? xName, ' text-anchor="middle"');
  if (options.yLabel !== undefined) {
    text(14, top + high / 2, options.yLabel, ` text-anchor="middle" transform="rotate(-90 14 ${n(top + high / 2)})"`);
  }
  let at = left, k = 0;
  for (const [name, points] of curves) {
    const color = COLORS[k++ % COLORS.length];
    let d = "", isOpen = false;
    for (const [x, y] of points) {
      const v = up(y), isPoint = Number.isFinite(x) && Number.isFinite(v);
      if (isPoint && mark !== "line") {
        out.push(
          mark === "dots"
            ? `<circle cx="${n(px(x))}" cy="${n(py(v))}" r="3" fill="${color}" fill-opacity="0.7"/>`
            : `<rect x="${n(px(x))}" y="${n(py(v))}" width="${n(Math.max(1, px(x + bar) - px(x) - 1))}" height="${
              n(py(0) - py(v))
            }" fill="${color}"/>`,
        );
        continue;
      }
      if (isPoint) d += `${isOpen ? "L" : "M"}${n(px(x))} ${n(py(v))}`;
      isOpen = isPoint;
    }
    if (points.length === 1 && d !== "") d += "h.01";
    if (mark === "line") {
      out.push(
        `<path class="line" stroke="${color}" stroke-linecap="round" d="${d}"><title>${
          escapeHtml(name)
        }</title></path>`,
      );
    }
    out.push(`<rect x="${n(at)}" y="${height - 20}" width="14" height="4" rx="2" fill="${color}"/>`);
    text(at + 20, height - 13, name);
    at += 36 + name.length * 7;
  }
  return [...out, "</svg>"].join("\n");
}
