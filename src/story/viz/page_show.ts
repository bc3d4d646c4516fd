/**
 * Shows in the page the view that the URL names, and draws graphs when a worker has placed them. In: what is selected; out:
 * what stands in the document. As page_text.ts, these functions are in the page as their own text; what they use of a
 * browser is named here and in page_parts.ts, as little as it is.
 *
 * @module
 */
import { type GraphSpec, graphSvg, type Placed } from "./page_graph.ts";
import {
  linkTo,
  markRow,
  numberOf,
  type PageElement,
  type Selection,
  showView,
  type Standing,
  type Ui,
} from "./page_parts.ts";
import { passesView } from "./page_passes.ts";
import { type Bars, drawTimeline, type Pen, type Range, timelineView } from "./page_timeline.ts";
import { kernelView, programView, scheduleView } from "./page_views.ts";

/** What happened in the page. */
export interface PageEvent {
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
/** An element that is drawn on, or listened to. */
export interface Element extends PageElement {
  closest(selector: string): Element | null;
  querySelector(selector: string): Element | null;
  querySelectorAll(selector: string): Iterable<Element>;
  getContext(kind: "2d"): Pen;
  addEventListener(kind: string, heard: (e: PageEvent) => void, options?: { passive: boolean }): void;
}
/** A worker of the browser. */
export interface PageWorker {
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

/** A graph whose boxes a worker places. */
export interface Asked {
  readonly place: PageElement;
  readonly graph: GraphSpec;
  readonly key: string;
  timer: ReturnType<typeof setTimeout> | undefined;
}
/** The worker that places boxes; another, where one took too long. */
export interface Layouts {
  readonly url: string;
  worker: PageWorker | undefined;
  asked: number;
  readonly waiting: Map<number, Asked>;
  /** Where boxes of the last graphs stand. */
  readonly known: Map<string, Placed>;
}
/** What is shown, and by what. */
export interface Shown {
  readonly page: PageWindow;
  readonly ui: Ui;
  readonly bars: Bars;
  readonly range: Range;
  readonly layouts: Layouts;
  readonly standing: Standing;
}

/** How long a layout may take. */
export function layoutLimitMs(): number {
  return 2000;
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
export function show(shown: Shown): void {
  const { page: { document, location }, ui, bars, layouts, standing } = shown, main = document.getElementById("view")!;
  const before = standing.frame;
  ui.selection = selectionOf(location.hash);
  const { view = "program", q = "" } = ui.selection;
  for (const tab of document.querySelectorAll("[data-view]")) {
    const name = tab.dataset.view!;
    tab.setAttribute("href", linkTo(ui, { view: name }));
    tab.setAttribute("class", name === view ? "tab on" : "tab");
  }
  main.setAttribute("class", view);
  const made = showView(
    main,
    view === "schedule"
      ? scheduleView(ui)
      : view === "passes"
      ? passesView(ui)
      : view === "kernel"
      ? kernelView(ui)
      : view === "timeline"
      ? timelineView(ui, bars)
      : programView(ui),
    standing,
  );
  if (standing.frame !== before) ui.graphWidth = 0;
  const search = document.getElementById("search");
  if (search !== null && search !== document.activeElement) search.value = q;
  drawBars(shown);
  for (const [id, { place, timer }] of layouts.waiting) {
    if (place.isConnected) continue; // something else is shown by now
    clearTimeout(timer);
    layouts.waiting.delete(id);
  }
  for (const part of made) {
    for (const place of part.querySelectorAll("[data-graph]")) {
      const number = Number(place.dataset.graph), graph = ui.graphs.get(number)!;
      ui.graphs.delete(number);
      drawGraph(shown, place as Element, graph);
    }
  }
  tellState(shown);
}

/** Says in the title which view is shown, and in `data-state` of the document when all of it is drawn. */
export function tellState({ page: { document }, ui, layouts }: Shown): void {
  const { view = "program" } = ui.selection, title = `viz: ${view}`;
  document.documentElement.dataset.state = layouts.waiting.size > 0 ? "drawing" : view;
  if (document.title !== title) document.title = title; // it is told to the window's manager
}

/** Draws a graph, at once if its boxes have been placed before, else when the worker has placed them. */
export function drawGraph(shown: Shown, place: Element, graph: GraphSpec): void {
  const { layouts } = shown, key = JSON.stringify([graph.boxes.map((b) => [b.id, b.label.length]), graph.edges]);
  const placed = layouts.known.get(key);
  if (placed !== undefined) return drawPlaced(shown, place, graph, placed);
  const id = ++layouts.asked;
  layouts.waiting.set(id, { place, graph, key, timer: undefined });
  askWorker(shown, id);
}

/** Has the worker place boxes; where that takes too long another worker does the rest, and the place says so. */
export function askWorker(shown: Shown, id: number): void {
  const { page, layouts } = shown, { waiting, known } = layouts, asked = waiting.get(id)!, limit = layoutLimitMs();
  let { worker } = layouts;
  if (worker === undefined) {
    worker = layouts.worker = new page.Worker(layouts.url);
    worker.onmessage = ({ data: { id, placed } }): void => {
      const done = waiting.get(id);
      if (done === undefined) return;
      waiting.delete(id);
      clearTimeout(done.timer);
      known.set(done.key, placed);
      for (const first of known.keys()) if (known.size > 64) known.delete(first);
      drawPlaced(shown, done.place as Element, done.graph, placed);
      tellState(shown);
    };
  }
  asked.timer = setTimeout(() => {
    layouts.worker!.terminate();
    layouts.worker = undefined;
    waiting.delete(id);
    asked.place.innerHTML = `<p class="quiet">no layout in ${limit / 1000} s: see the text</p>`;
    for (const [other, { timer }] of waiting) {
      clearTimeout(timer);
      askWorker(shown, other);
    }
    tellState(shown);
  }, limit);
  worker.postMessage({ id, graph: asked.graph });
}

/** Draws a graph whose boxes have places. */
export function drawPlaced({ ui, standing }: Shown, place: Element, graph: GraphSpec, placed: Placed): void {
  place.innerHTML = graphSvg(graph, placed);
  place.setAttribute("style", "");
  ui.graphHeight = panAndZoom(place, placed, ui.graphWidth ||= place.clientWidth);
  const part = place.closest("[data-part]"), at = standing.places.get(part?.dataset.part ?? "");
  if (at !== undefined && at.on !== undefined) markRow(at.place, at.on);
}

/** A picture that the wheel zooms and dragging moves; at first as large as it is, or as the place has room for: its height. */
export function panAndZoom(place: Element, { width, height }: Placed, room: number): number {
  const svg = place.querySelector("svg")!, scale = Math.min(1, room / width, 420 / height);
  const view = { x: 0, y: 0, w: room / Math.max(scale, 0.25), h: 0 };
  const high = Math.min(420, Math.max(60, height * Math.max(scale, 0.25)));
  svg.setAttribute("style", `height:${high}px`);
  view.h = view.w * high / room;
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
  return high;
}

/** Draws the timeline, where it is shown. */
export function drawBars({ page, ui, bars, range }: Shown): void {
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
