/**
 * The page at work: loads the data, shows it, and listens to keys, links, the wheel and what is typed. As page_text.ts,
 * these functions are in the page as their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { runsOf, twinsOf } from "./page_compare.ts";
import { type PackedData, unpackData } from "./page_data.ts";
import { linkTo, numberOf, type Ui } from "./page_parts.ts";
import { passesShown } from "./page_passes.ts";
import { drawBars, type Layouts, type PageEvent, type PageWindow, show, type Shown, viewNames } from "./page_show.ts";
import { barAt, barsOf, type Range } from "./page_timeline.ts";
import type { VizData } from "./viz_data.ts";

/** The data of the page: in it, packed, or from the server. */
export async function loadData(page: PageWindow, name: string): Promise<VizData | undefined> {
  const held = page.document.getElementById(name)?.textContent?.trim() ?? "";
  let bytes: Uint8Array<ArrayBuffer>;
  if (held !== "") bytes = Uint8Array.from(atob(held), (c) => c.charCodeAt(0));
  else {
    const answer = await fetch(name).catch(() => {
      throw new Error("the program that served it has ended; VIZ=page.html keeps a page in a file");
    });
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
    document.documentElement.dataset.state = "failed";
    return;
  }
  if (data === undefined) return;
  const ui: Ui = {
    data,
    other,
    twins: other === undefined ? undefined : twinsOf(data, other),
    runs: runsOf(data),
    selection: {},
    graphs: new Map(),
    graphCount: 0,
    graphHeight: 60,
    graphWidth: 0,
    shown: undefined,
  };
  const bars = barsOf(ui), range: Range = { from: 0, ms: bars.endMs * 1.02 || 1 };
  const url = URL.createObjectURL(new Blob([layoutText], { type: "text/javascript" }));
  const layouts: Layouts = { url, worker: undefined, asked: 0, waiting: new Map(), known: new Map() };
  const shown: Shown = { page, ui, bars, range, layouts, standing: { frame: "", places: new Map() } };
  const error = data.error === undefined ? "" : `<p class="error">The program threw: ${escapeHtml(data.error)}</p>`;
  const tabs = viewNames().map((name, i) => `<a class="tab" data-view="${name}">${name} <kbd>${i + 1}</kbd></a>`);
  root.innerHTML = `<header><h1>${escapeHtml(data.title)}</h1><nav class="tabs">${tabs.join("")}</nav></header>` +
    `${error}<main id="view"></main>`;
  page.addEventListener("hashchange", () => show(shown));
  page.addEventListener("resize", () => {
    ui.graphWidth = 0;
    drawBars(shown);
  });
  page.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawBars(shown));
  listenTo(shown);
  show(shown);
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
export function listenTo(shown: Shown): void {
  const { page, ui, bars, range } = shown, { document, location } = page;
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
      drawBars(shown);
    }
  });
  document.addEventListener("input", (e) => {
    if (e.target?.tagName !== "INPUT") return;
    location.hash = linkTo(ui, { q: e.target.value, pass: undefined, change: undefined });
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
    drawBars(shown);
  }, { passive: false });
  let last: PageEvent | undefined;
  document.addEventListener("pointermove", (e) => {
    const canvas = e.target?.closest("#timeline");
    if (e.buttons === 1 && canvas !== null && canvas !== undefined && last !== undefined) {
      range.from -= (e.clientX - last.clientX) * range.ms / (canvas.width - 70);
      drawBars(shown);
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
