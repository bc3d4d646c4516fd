/**
 * A view as a frame and parts in it, so that a move of the selection makes anew only what it changes: a part stands until
 * its key is another one, and the mark of the selected row moves by itself. In: views; out: a document that shows them. As
 * page_text.ts, these functions are in the page as their own text; what they use of a browser is named here.
 *
 * @module
 */
import type { GraphSpec } from "./page_graph.ts";
import type { VizData } from "./viz_data.ts";

/** What was selected, as in the URL behind "#": view, kernel, schedule, pass, step, event, q, other, all. */
export type Selection = Readonly<Record<string, string | undefined>>;

/** Kernels of one recording and those of another that do the same. */
export interface Twins {
  /** By kernel, the number of its twin; undefined where there is none. */
  readonly of: readonly (number | undefined)[];
  /** Kernels of the other recording that are no twins. */
  readonly left: readonly number[];
  /** By kernel that has a twin, what they differ in: "AST", "opts", "source". */
  readonly differ: readonly (readonly string[])[];
}

/** The page as it is. */
export interface Ui {
  readonly data: VizData;
  /** Another recording, to compare with. */
  readonly other: VizData | undefined;
  /** Which kernels of both do the same. */
  readonly twins: Twins | undefined;
  /** Of each kernel, how often it ran and for how long. */
  readonly runs: readonly { readonly count: number; readonly ms: number }[];
  selection: Selection;
  /** To be drawn where the HTML has a place with their number. */
  readonly graphs: Map<number, GraphSpec>;
  /** How many there were. */
  graphCount: number;
  /** How high the last one is: so much room the next one gets until it is drawn. */
  graphHeight: number;
  /** How wide graphs are in the view that is shown; 0 where that is not known. */
  graphWidth: number;
  /** Which passes the list has, and for which selection. */
  shown: { readonly key: string; readonly passes: readonly number[] } | undefined;
}

/** A piece of a view. */
export interface Part {
  /** Where it stands: in the element of the frame with this `data-part`. */
  readonly name: string;
  /** As long as it is equal the HTML is, too. */
  readonly key: string;
  readonly html: () => string;
  /** What is selected in it: the row or the box with this number. */
  readonly on?: number;
}

/** A view: HTML with places for parts, and these. */
export interface View {
  readonly frame: string;
  readonly parts: readonly Part[];
}

/** What is used of an element. */
export interface PageElement {
  innerHTML: string;
  textContent: string | null;
  value: string;
  scrollTop: number;
  readonly isConnected: boolean;
  width: number;
  readonly clientWidth: number;
  readonly clientHeight: number;
  readonly dataset: Record<string, string | undefined>;
  readonly classList: { add(name: string): void; remove(name: string): void };
  readonly tagName: string;
  closest(selector: string): PageElement | null;
  focus(): void;
  scrollIntoView(options: { block: string }): void;
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
  getBoundingClientRect(): {
    readonly left: number;
    readonly top: number;
    readonly width: number;
    readonly height: number;
  };
  setAttribute(name: string, value: string): void;
}

/** What stands in the page: the frame, and of each part its place and key. */
export interface Standing {
  frame: string;
  readonly places: Map<string, { readonly place: PageElement; key: string | undefined; on: number | undefined }>;
}

/** The selection with changes, as the address of a link. */
export function linkTo(ui: Ui, change: Selection): string {
  const all = { ...ui.selection, ...change };
  const parts = Object.entries(all).filter(([, v]) => v !== undefined && v !== "");
  return `#${parts.map(([k, v]) => `${k}=${encodeURIComponent(v!)}`).join("&")}`;
}

/** A number of the selection; undefined where there is none. */
export function numberOf(ui: Ui, name: string): number | undefined {
  const text = ui.selection[name];
  return text === undefined || !/^\d+$/.test(text) ? undefined : Number(text);
}

/** How many boxes a picture has at most, and rows a list. */
export function limitsOf(): { readonly boxes: number; readonly rows: number } {
  return { boxes: 400, rows: 400 };
}

/** A place for a graph. */
export function graphHtml(ui: Ui, graph: GraphSpec): string {
  const number = ui.graphCount++;
  ui.graphs.set(number, graph);
  return `<div class="graph" data-graph="${number}" style="min-height:${ui.graphHeight}px" tabindex="0" ` +
    `aria-label="graph of ${graph.boxes.length} nodes"></div>`;
}

/** The first row of those, at most `limit`, that stand while `at` is selected: the same for many rows, so that they stay. */
export function windowStart(count: number, at: number, limit: number): number {
  const half = limit >> 1, start = Math.floor(Math.max(0, at) / half) * half - (half >> 1);
  return Math.max(0, Math.min(start, count - limit));
}

/** A list of `count` rows, of which `limit` from `from` on are made. */
export function windowHtml(count: number, rowOf: (i: number) => string, from: number, limit: number): string {
  const to = Math.min(count, from + limit);
  const more = (n: number, where: string): string => n > 0 ? `<div class="quiet">${n} more ${where}</div>` : "";
  let rows = "";
  for (let i = from; i < to; i++) rows += rowOf(i);
  return more(from, "above") + rows + more(count - to, "below");
}

/** Marks what is selected in a part, and has it seen. */
export function markRow(place: PageElement, on: number | undefined): void {
  for (const e of place.querySelectorAll(".row.on, .box.on")) e.classList.remove("on");
  if (on === undefined) return;
  for (const e of place.querySelectorAll(`.row[data-row="${on}"], .box[data-n="${on}"]`)) {
    e.classList.add("on");
    if (place.dataset.list === undefined) continue;
    // within its list alone: the page stays where it is
    const row = e.getBoundingClientRect(), list = place.getBoundingClientRect();
    if (row.top < list.top + row.height) place.scrollTop += row.top - list.top - row.height;
    else if (row.top + row.height > list.top + place.clientHeight) {
      place.scrollTop += row.top + row.height - list.top - place.clientHeight;
    }
  }
}

/** Shows a view where another one, or the same with another selection, stands; gives the places whose HTML is new. */
export function showView(root: PageElement, { frame, parts }: View, standing: Standing): PageElement[] {
  if (frame !== standing.frame) {
    root.innerHTML = frame;
    standing.frame = frame;
    standing.places.clear();
    for (const place of root.querySelectorAll("[data-part]")) {
      standing.places.set(place.dataset.part!, { place, key: undefined, on: undefined });
    }
  }
  const made: PageElement[] = [];
  for (const { name, key, html, on } of parts) {
    const at = standing.places.get(name)!, isNew = at.key !== key;
    if (isNew) {
      at.place.innerHTML = html();
      at.place.scrollTop = 0;
      at.key = key;
      made.push(at.place);
    }
    if (!isNew && at.on === on) continue;
    at.on = on;
    markRow(at.place, on);
  }
  return made;
}
