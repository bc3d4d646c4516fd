/**
 * The page at work: loads the data, shows the view that the URL names, draws graphs when a worker has placed them, and
 * listens to keys, links and the wheel. As page_text.ts, these functions are in the page as their own text; what they use
 * of a browser is named here, as little as it is.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { type PackedData, unpackData } from "./page_data.ts";
import { type GraphSpec, graphSvg, type Placed } from "./page_graph.ts";
import { barAt, type Bars, barsOf, drawTimeline, type Pen, type Range, timelineView } from "./page_timeline.ts";
import {
  kernelView,
  linkTo,
  numberOf,
  passesShown,
  passesView,
  programView,
  scheduleView,
  type Selection,
  type Ui,
} from "./page_views.ts";
import type { VizData } from "./viz_data.ts";

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}
interface PageEvent {
  readonly target: Element | null;
  readonly key: string;
  readonly deltaY: number;
  readonly clientX: number;
  readonly clientY: number;
  readonly buttons: number;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  preventDefault(): void;
}
interface Element {
  innerHTML: string;
  textContent: string | null;
  value: string;
  scrollTop: number;
  readonly isConnected: boolean;
  width: number;
  readonly clientWidth: number;
  readonly dataset: Record<string, string | undefined>;
  readonly classList: { add(name: string): void; remove(name: string): void };
  readonly tagName: string;
  closest(selector: string): Element | null;
  focus(): void;
  scrollIntoView(options: { block: string }): void;
  querySelector(selector: string): Element | null;
  querySelectorAll(selector: string): Iterable<Element>;
  getBoundingClientRect(): Box;
  setAttribute(name: string, value: string): void;
  getContext(kind: "2d"): Pen;
  addEventListener(kind: string, heard: (e: PageEvent) => void, options?: { passive: boolean }): void;
  setSelectionRange(from: number, to: number): void;
}
interface PageWorker {
  onmessage: ((e: { data: { id: number; placed: Placed } }) => void) | null;
  postMessage(asked: { id: number; graph: GraphSpec }): void;
  terminate(): void;
}
/** What the page uses of its window. */
export interface PageWindow {
  readonly document: Element & {
    title: string;
    readonly body: Element;
    readonly documentElement: Element;
    getElementById(id: string): Element | null;
    readonly activeElement: Element | null;
  };
  readonly location: { hash: string };
  readonly history: { replaceState(state: null, title: string, url: string): void };
  readonly navigator: { readonly clipboard?: { writeText(text: string): Promise<void> } };
  getComputedStyle(e: Element): { getPropertyValue(name: string): string };
  addEventListener(kind: string, heard: () => void): void;
  matchMedia(query: string): { addEventListener(kind: "change", heard: () => void): void };
  readonly Worker: new (url: string) => PageWorker;
}

/** The worker that places boxes; another, where one took too long. */
interface Layouts {
  readonly url: string;
  worker: PageWorker | undefined;
  asked: number;
  readonly waiting: Map<number, (placed: Placed) => void>;
}

/** How long a layout may take. */
export function layoutLimitMs(): number {
  return 2000;
}

/** The data of the page: in it, packed, or from the server. */
export async function loadData(page: PageWindow, name: string): Promise<VizData | undefined> {
  const held = page.document.getElementById(name)?.textContent?.trim() ?? "";
  let bytes: Uint8Array<ArrayBuffer>;
  if (held !== "") bytes = Uint8Array.from(atob(held), (c) => c.charCodeAt(0));
  else {
    const answer = await fetch(name);
    if (answer.status === 204) return undefined;
    if (!answer.ok) throw new Error(`the program has ended, or does not answer (${answer.status})`);
    bytes = new Uint8Array(await answer.arrayBuffer());
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const packed = await new Response(stream).json() as PackedData | null;
  return packed === null ? undefined : unpackData(packed);
}

/** Begins. @param layoutText the layout as a worker runs it */
export async function startPage(page: PageWindow, layoutText: string): Promise<void> {
  const { document } = page, root = document.getElementById("root")!;
  let data: VizData | undefined, other: VizData | undefined;
  try {
    data = await loadData(page, "data");
    other = await loadData(page, "other");
  } catch (error) {
    root.innerHTML = `<p class="error">Cannot show the recording: ${escapeHtml((error as Error).message)}</p>`;
    document.title = "viz: failed";
    return;
  }
  if (data === undefined) return;
  const runs = data.kernels.map(() => ({ count: 0, ms: 0 }));
  for (const e of data.events) {
    if (e.kind !== "launch" || e.kernel === undefined) continue;
    runs[e.kernel].count++;
    runs[e.kernel].ms += e.deviceMs ?? e.timeMs;
  }
  const ui: Ui = { data, other, runs, users: undefined, selection: {}, graphs: [] };
  const bars = barsOf(ui), range: Range = { from: 0, ms: bars.endMs * 1.02 || 1 };
  const url = URL.createObjectURL(new Blob([layoutText], { type: "text/javascript" }));
  const layouts: Layouts = { url, worker: undefined, asked: 0, waiting: new Map() };
  const again = (): void => show(page, ui, bars, range, layouts);
  page.addEventListener("hashchange", again);
  page.addEventListener("resize", () => drawBars(page, ui, bars, range));
  page.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawBars(page, ui, bars, range));
  listenTo(page, ui, bars, range);
  again();
}

/** The selection that the URL has. */
export function selectionOf(hash: string): Selection {
  const out: Record<string, string> = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at <= 0) continue;
    try {
      out[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch { /* not of this page */ }
  }
  return out;
}

/** The views, in the order of their keys. */
export function viewNames(): readonly string[] {
  return ["program", "schedule", "passes", "kernel", "timeline"];
}

/** Shows what is selected. */
export function show(page: PageWindow, ui: Ui, bars: Bars, range: Range, layouts: Layouts): void {
  const { document } = page, root = document.getElementById("root")!, { data } = ui;
  const kept = new Map<string, number>();
  for (const e of root.querySelectorAll("[data-keep]")) kept.set(e.dataset.keep!, e.scrollTop);
  ui.selection = selectionOf(page.location.hash);
  ui.graphs = [];
  const { view = "program" } = ui.selection;
  const links = viewNames().map((name, i) =>
    `<a class="tab${name === view ? " on" : ""}" href="${linkTo(ui, { view: name })}">${name} <kbd>${i + 1}</kbd></a>`
  );
  const error = data.error === undefined ? "" : `<p class="error">The program threw: ${escapeHtml(data.error)}</p>`;
  const body = view === "schedule"
    ? scheduleView(ui)
    : view === "passes"
    ? passesView(ui)
    : view === "kernel"
    ? kernelView(ui)
    : view === "timeline"
    ? timelineView(ui, bars)
    : programView(ui);
  root.innerHTML = `<header><h1>${escapeHtml(data.title)}</h1><nav class="tabs">${links.join("")}</nav></header>` +
    `${error}<main class="${escapeHtml(view)}">${body}</main>`;
  for (const e of root.querySelectorAll("[data-keep]")) e.scrollTop = kept.get(e.dataset.keep!) ?? 0;
  for (const e of root.querySelectorAll(".list .row.on")) e.scrollIntoView({ block: "nearest" });
  drawBars(page, ui, bars, range);
  const places = [...root.querySelectorAll("[data-graph]")];
  document.title = places.length === 0 ? `viz: ${view}` : "viz: drawing";
  let open = places.length;
  for (const place of places) {
    drawGraph(page, place, ui.graphs[Number(place.dataset.graph)], layouts, () => {
      if (--open === 0) document.title = `viz: ${view}`;
    });
  }
}

/** Draws a graph when the worker has placed its boxes; text, where that takes too long. */
export function drawGraph(
  page: PageWindow,
  place: Element,
  graph: GraphSpec,
  layouts: Layouts,
  done: () => void,
): void {
  const worker = layouts.worker ??= new page.Worker(layouts.url), id = ++layouts.asked;
  const timer = setTimeout(() => {
    worker.terminate();
    layouts.worker = undefined;
    place.innerHTML = `<p class="quiet">no layout in ${layoutLimitMs() / 1000} s: see the text</p>`;
    done();
  }, layoutLimitMs());
  layouts.waiting.set(id, (placed) => {
    clearTimeout(timer);
    if (!place.isConnected) return; // something else is shown by now
    place.innerHTML = graphSvg(graph, placed);
    panAndZoom(place, placed);
    done();
  });
  worker.onmessage = ({ data }): void => {
    layouts.waiting.get(data.id)?.(data.placed);
    layouts.waiting.delete(data.id);
  };
  worker.postMessage({ id, graph });
}

/** A picture that the wheel zooms and dragging moves; at first as large as it is, or as the place has room for. */
export function panAndZoom(place: Element, { width, height }: Placed): void {
  const svg = place.querySelector("svg");
  if (svg === null) return;
  const room = place.getBoundingClientRect(), scale = Math.min(1, room.width / width, 420 / height);
  const view = { x: 0, y: 0, w: room.width / Math.max(scale, 0.25), h: 0 };
  const high = Math.min(420, Math.max(60, height * Math.max(scale, 0.25)));
  svg.setAttribute("style", `height:${high}px`);
  view.h = view.w * high / room.width;
  view.x = Math.max(0, (width - view.w) / 2);
  if (view.w > width) view.x = (width - view.w) / 2;
  const apply = (): void => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
  apply();
  place.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return; // the page scrolls
    e.preventDefault();
    const by = e.deltaY > 0 ? 1.2 : 1 / 1.2, box = place.getBoundingClientRect();
    view.x += (1 - by) * view.w * (e.clientX - box.left) / box.width;
    view.y += (1 - by) * view.h * (e.clientY - box.top) / box.height;
    view.w *= by;
    view.h *= by;
    apply();
  }, { passive: false });
  let last: PageEvent | undefined;
  place.addEventListener("pointermove", (e) => {
    if (e.buttons === 1 && last !== undefined) {
      const unit = view.w / place.getBoundingClientRect().width;
      view.x -= (e.clientX - last.clientX) * unit;
      view.y -= (e.clientY - last.clientY) * unit;
      apply();
    }
    last = e;
  });
}

/** Draws the timeline, where it is shown. */
export function drawBars(page: PageWindow, ui: Ui, bars: Bars, range: Range): void {
  const canvas = page.document.getElementById("timeline");
  if (canvas === null) return;
  canvas.width = canvas.clientWidth;
  const style = page.getComputedStyle(page.document.documentElement), at = numberOf(ui, "event");
  const chosen = at === undefined ? undefined : bars.bars.findIndex((b) => b.event === at);
  drawTimeline(
    canvas.getContext("2d"),
    bars,
    range,
    canvas.width,
    chosen,
    (n) => style.getPropertyValue(`--${n}`).trim(),
  );
}

/** Moves the selection of a view by one. */
export function stepBy(ui: Ui, by: number): string {
  const { data, selection: { view = "program" } } = ui;
  if (view === "passes") {
    const shown = passesShown(ui), pass = numberOf(ui, "pass") ?? shown[0], change = numberOf(ui, "change");
    const of = data.passes[pass]?.changes.length ?? 0, next = (change ?? -1) + by;
    if (of > 0 && next >= 0 && next < of) return linkTo(ui, { pass: String(pass), change: String(next) });
    const at = shown[Math.max(0, Math.min(shown.length - 1, shown.indexOf(pass) + by))];
    return linkTo(ui, { pass: at === undefined ? undefined : String(at), change: undefined });
  }
  const key = view === "kernel" ? "kernel" : view === "schedule" ? "step" : view === "timeline" ? "event" : undefined;
  if (key === undefined) return linkTo(ui, {});
  const count = key === "kernel"
    ? data.kernels.length
    : key === "step"
    ? data.schedules[numberOf(ui, "schedule") ?? 0]?.steps.length ?? 0
    : data.events.length;
  const next = Math.max(0, Math.min(count - 1, (numberOf(ui, key) ?? (by > 0 ? -1 : 0)) + by));
  return linkTo(ui, { [key]: String(next) });
}

/** Hears keys, the mouse, and what is typed. */
export function listenTo(page: PageWindow, ui: Ui, bars: Bars, range: Range): void {
  const { document, location } = page;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const isTyping = e.target !== null && /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (isTyping) {
      if (e.key === "Escape") document.body.focus();
      return;
    }
    const view = viewNames()[Number(e.key) - 1];
    if (view !== undefined) location.hash = linkTo(ui, { view });
    else if (e.key === "j" || e.key === "ArrowDown") {
      e.preventDefault();
      location.hash = stepBy(ui, 1);
    } else if (e.key === "k" || e.key === "ArrowUp") {
      e.preventDefault();
      location.hash = stepBy(ui, -1);
    } else if (e.key === "/") {
      e.preventDefault();
      document.getElementById("search")?.focus();
    } else if (e.key === "0") {
      range.from = 0;
      range.ms = bars.endMs * 1.02 || 1;
      drawBars(page, ui, bars, range);
    }
  });
  document.addEventListener("input", (e) => {
    if (e.target?.tagName !== "INPUT") return;
    const { value } = e.target;
    location.hash = linkTo(ui, { q: value, pass: undefined, change: undefined });
    setTimeout(() => {
      const search = document.getElementById("search");
      search?.focus();
      search?.setSelectionRange(value.length, value.length);
    });
  });
  document.addEventListener("change", (e) => {
    if (e.target?.tagName === "SELECT") location.hash = linkTo(ui, { other: e.target.value });
  });
  document.addEventListener("click", (e) => {
    const copy = e.target?.closest("[data-copy]")?.dataset.copy;
    if (copy !== undefined) page.navigator.clipboard?.writeText(ui.data.kernels[Number(copy)].source);
    const canvas = e.target?.closest("#timeline");
    if (canvas === null || canvas === undefined) return;
    const box = canvas.getBoundingClientRect();
    const at = barAt(bars, range, canvas.width, e.clientX - box.left, e.clientY - box.top);
    if (at === undefined) return;
    const { event } = bars.bars[at];
    location.hash = event >= 0 ? linkTo(ui, { event: String(event) }) : linkTo(ui, {
      view: "passes",
      pass: String(-1 - event),
      change: undefined,
      all: "1",
      of: undefined,
      q: undefined,
    });
  });
  document.addEventListener("wheel", (e) => {
    const canvas = e.target?.closest("#timeline");
    if (canvas === null || canvas === undefined) return;
    e.preventDefault();
    const by = e.deltaY > 0 ? 1.25 : 0.8, width = canvas.width - 70;
    const at = Math.max(0, (e.clientX - canvas.getBoundingClientRect().left - 70) / width);
    range.from += (1 - by) * range.ms * at;
    range.ms = Math.max(1e-3, range.ms * by);
    drawBars(page, ui, bars, range);
  }, { passive: false });
  let last: PageEvent | undefined;
  document.addEventListener("pointermove", (e) => {
    const canvas = e.target?.closest("#timeline");
    if (e.buttons === 1 && canvas !== null && canvas !== undefined && last !== undefined) {
      range.from -= (e.clientX - last.clientX) * range.ms / (canvas.width - 70);
      drawBars(page, ui, bars, range);
    }
    last = e;
  });
  // what is the same node elsewhere is marked, too
  document.addEventListener("pointerover", (e) => {
    const n = e.target?.closest("[data-n]")?.dataset.n;
    for (const m of document.querySelectorAll(".same")) m.classList.remove("same");
    if (n === undefined || n === "-1") return;
    for (const m of document.querySelectorAll(`[data-n="${n}"]`)) m.classList.add("same");
  });
}
