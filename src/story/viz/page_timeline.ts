/**
 * The timeline of the page: the host's work in nested rows, a row for each device, drawn on a canvas; below it what took
 * longest. In: the data; out: bars with places, HTML, and the drawing of what is in view. As page_text.ts, these functions
 * are in the page as their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { countedText, timeText } from "./page_text.ts";
import { linkTo, numberOf, type Ui, type View } from "./page_parts.ts";

/** Something that took time, in its row. */
export interface Bar {
  readonly start: number;
  readonly ms: number;
  readonly name: string;
  readonly kind: string;
  readonly row: number;
  /** Its number among the events, or that of its pass before -1. */
  readonly event: number;
}

/** All bars, by time in each row, and what the rows are called. */
export interface Bars {
  readonly bars: readonly Bar[];
  readonly rows: readonly string[];
  readonly endMs: number;
}

/** What is drawn with. */
export interface Pen {
  fillStyle: unknown;
  font: string;
  fillRect(x: number, y: number, w: number, h: number): void;
  clearRect(x: number, y: number, w: number, h: number): void;
  fillText(text: string, x: number, y: number): void;
}

/** What is in view: from when on, and how many milliseconds. */
export interface Range {
  from: number;
  ms: number;
}

/** Events and passes as bars: what contains another stands above it. */
export function barsOf(ui: Ui): Bars {
  const { events, passes } = ui.data, host: Bar[] = [], rows: string[] = [], bars: Bar[] = [];
  const byDevice = new Map<string, Bar[]>();
  events.forEach((e, i) => {
    const isDevice = ["launch", "copy", "collective"].includes(e.kind) && e.device !== undefined;
    const list = isDevice ? byDevice.get(e.device!) ?? [] : host;
    if (isDevice) byDevice.set(e.device!, list);
    // a device's own time ends when the host has waited for it
    const ms = isDevice ? e.deviceMs ?? e.timeMs : e.timeMs, start = e.startMs + e.timeMs - ms;
    list.push({ start, ms, name: e.name, kind: e.kind, row: 0, event: i });
  });
  passes.forEach((p, i) => {
    if (p.depth === 0) host.push({ start: p.startMs, ms: p.timeMs, name: p.name, kind: "pass", row: 0, event: -1 - i });
  });
  let first = 0, end = 0;
  for (const [name, list] of [["host", host] as const, ...byDevice]) {
    list.sort((a, b) => a.start - b.start || b.ms - a.ms);
    const open: number[] = [];
    let deepest = 0;
    for (const b of list) {
      while (open.length > 0 && open[open.length - 1] <= b.start + 1e-6) open.pop();
      const depth = Math.min(open.length, 7);
      open.push(b.start + b.ms);
      deepest = Math.max(deepest, depth);
      end = Math.max(end, b.start + b.ms);
      bars.push({ ...b, row: first + depth });
    }
    if (list.length > 0) { for (let d = 0; d <= deepest; d++) rows.push(d === 0 ? name : ""); }
    first = rows.length;
  }
  return { bars, rows, endMs: end };
}

/** The timeline; its canvas is drawn when it stands. */
export function timelineView(ui: Ui, { rows, bars, endMs }: Bars): View {
  if (bars.length === 0) return { frame: `<p>Nothing that took time was recorded.</p>`, parts: [] };
  const { dropped } = ui.data, byKind = new Map<string, number>(), links = linkTo(ui, { event: undefined });
  for (const b of bars) byKind.set(b.kind, (byKind.get(b.kind) ?? 0) + b.ms);
  const kinds = [...byKind].map(([kind, ms]) => `<span class="key ${kind}"></span>${kind} ${timeText(ms)}`).join(" ");
  return {
    frame: `<p>${timeText(endMs)} in all. ${kinds}${dropped > 0 ? ` · ${dropped} later events are not kept` : ""}</p>` +
      `<canvas id="timeline" height="${rows.length * 22 + 24}" tabindex="0" ` +
      `aria-label="timeline of ${bars.length} events"></canvas><div data-part="event"></div><div data-part="top"></div>`,
    parts: [
      { name: "event", key: linkTo(ui, {}), html: () => eventHtml(ui) },
      { name: "top", key: links, html: () => topHtml(ui) },
    ],
  };
}

/** The event that is selected. */
export function eventHtml(ui: Ui): string {
  const at = numberOf(ui, "event"), e = at === undefined ? undefined : ui.data.events[at];
  if (e === undefined) return `<p class="quiet">click a bar; scroll to zoom, drag to move, 0 shows all</p>`;
  return `<p id="event"><b>${escapeHtml(e.name)}</b> ${e.kind}${
    e.device === undefined ? "" : ` on ${escapeHtml(e.device)}`
  }, at ${timeText(e.startMs)}, took ${timeText(e.timeMs)}${
    e.deviceMs === undefined ? "" : `, ${timeText(e.deviceMs)} by the device's clock`
  }${e.isQueued ? ", only queued: when the device did it is not known" : ""}${
    e.line === undefined ? "" : ` <code>${escapeHtml(e.line)}</code>`
  }${
    e.kernel === undefined
      ? ""
      : ` <a href="${linkTo(ui, { view: "kernel", kernel: String(e.kernel) })}">its kernel</a>`
  }${
    e.schedule === undefined
      ? ""
      : ` <a href="${linkTo(ui, { view: "schedule", schedule: String(e.schedule), step: undefined })}">its schedule</a>`
  }</p>`;
}

/** The kernels that took longest. */
export function topHtml(ui: Ui): string {
  const { kernels } = ui.data, total = ui.runs.reduce((s, r) => s + r.ms, 0) || 1;
  const order = kernels.map((_, i) => i).filter((i) => ui.runs[i].count > 0).sort((a, b) =>
    ui.runs[b].ms - ui.runs[a].ms
  );
  const top = order.slice(0, 40).map((i) => {
    const { count, ms } = ui.runs[i], k = kernels[i];
    return `<tr><td><a href="${linkTo(ui, { view: "kernel", kernel: String(i) })}">${escapeHtml(k.name)}</a></td>` +
      `<td class="num">${count}</td><td class="num">${timeText(ms)}</td><td class="num">${
        (100 * ms / total).toFixed(1)
      } %</td>` +
      `<td class="num">${countedText(k.flops / ms * count * 1e3, "FLOP/s")}</td>` +
      `<td class="num">${countedText(k.bytes / ms * count * 1e3, "B/s")}</td></tr>`;
  });
  return `<table class="wide"><thead><tr><th>kernel</th>${
    ["launches", "time", "share", "rate", "memory"].map((t) => `<th class="num">${t}</th>`).join("")
  }</tr></thead>` +
    `${top.join("")}</table>`;
}

/** Draws what is in view; the bars that are too narrow to be seen run together. */
export function drawTimeline(
  pen: Pen,
  { bars, rows }: Bars,
  { from, ms }: Range,
  width: number,
  chosen: number | undefined,
  color: (name: string) => string,
): void {
  const left = 70, scale = (width - left) / ms, height = rows.length * 22 + 24;
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  const step = 10 ** Math.ceil(Math.log10(ms / 8));
  for (let t = Math.ceil(from / step) * step; t < from + ms; t += step) {
    const x = left + (t - from) * scale;
    pen.fillStyle = color("line");
    pen.fillRect(x, 18, 1, height);
    pen.fillStyle = color("quiet");
    pen.fillText(timeText(t), x + 2, 12);
  }
  const done = new Float64Array(rows.length).fill(-Infinity);
  bars.forEach((b, i) => {
    const x = left + (b.start - from) * scale, w = Math.max(b.ms * scale, 1), y = 22 + b.row * 22;
    if (x + w < left || x > width || x + w < done[b.row] + 0.5) return;
    done[b.row] = x + w;
    const x0 = Math.max(x, left);
    pen.fillStyle = chosen === i ? color("on") : color(b.kind);
    pen.fillRect(x0, y, x + w - x0, 19);
    if (x + w - x0 > 40) {
      pen.fillStyle = color("bartext");
      pen.fillText(b.name.slice(0, Math.floor((x + w - x0 - 6) / 6.5)), x0 + 3, y + 14);
    }
  });
  pen.fillStyle = color("page");
  pen.fillRect(0, 18, left, height);
  pen.fillStyle = color("text");
  rows.forEach((name, i) => name !== "" && pen.fillText(name, 4, 22 + i * 22 + 14));
}

/** The bar at a place of the canvas; the innermost of the narrow ones that is nearest. */
export function barAt({ bars }: Bars, { from, ms }: Range, width: number, x: number, y: number): number | undefined {
  const scale = (width - 70) / ms, t = from + (x - 70) / scale, row = Math.floor((y - 22) / 22);
  let best: number | undefined, far = 4 / scale;
  bars.forEach((b, i) => {
    if (b.row !== row) return;
    const distance = t < b.start ? b.start - t : t > b.start + b.ms ? t - b.start - b.ms : 0;
    if (distance < far || (distance === 0 && best === undefined)) {
      far = distance;
      best = i;
    }
  });
  return best;
}
