/**
 * What pages of the site do in a browser: search, light and dark, and examples that are edited and run in a worker. Nothing
 * is fetched from elsewhere. Built to site.js.
 *
 * @module
 */
/// <reference lib="dom" />

/** A heading of a page, and the text below it. */
export interface Entry {
  readonly page: string;
  readonly anchor: string;
  readonly title: string;
  readonly text: string;
}

/** The best places for what is looked for: in titles first, then in texts. */
export function search(entries: readonly Entry[], query: string): Entry[] {
  const words = query.toLowerCase().split(/\s+/).filter((w) => w !== "");
  if (words.length === 0) return [];
  const rank = ({ title, text }: Entry): number => {
    const t = title.toLowerCase(), all = `${t} ${text.toLowerCase()}`;
    if (!words.every((w) => all.includes(w))) return 0;
    const bare = t.replace(/[^\w.]/g, "");
    if (bare === words.join("")) return 5;
    if (words.every((w) => t.startsWith(w))) return 4;
    return words.every((w) => t.includes(w)) ? 3 : words.some((w) => t.includes(w)) ? 2 : 1;
  };
  return entries.map((e) => [rank(e), e] as const).filter(([r]) => r > 0).sort(([a], [b]) => b - a).slice(0, 20)
    .map(([, e]) => e);
}

function startSearch(): void {
  const input = document.querySelector<HTMLInputElement>("#search")!;
  const box = document.querySelector<HTMLElement>("#found")!;
  let entries: Promise<Entry[]> | undefined;
  const load = () => entries ??= fetch("search.json").then((r) => r.json());
  input.addEventListener("focus", load);
  input.addEventListener("input", async () => {
    const found = search(await load(), input.value);
    box.hidden = input.value.trim() === "";
    box.replaceChildren(...found.map(({ page, anchor, title, text }) => {
      const a = document.createElement("a"), small = document.createElement("small");
      a.href = `${page}.html${anchor === "" ? "" : `#${anchor}`}`;
      small.textContent = `${page}: ${text}`;
      a.append(title, small);
      return a;
    }));
    if (found.length === 0) box.textContent = "Nothing found.";
  });
  addEventListener("keydown", (e) => {
    if (e.key === "Escape") box.hidden = true;
    if (e.key === "/" && !(e.target as HTMLElement).closest("input, [contenteditable]")) {
      e.preventDefault();
      input.focus();
    }
    if (e.key === "Enter" && e.target === input) box.querySelector("a")?.click();
  });
  addEventListener("click", (e) => {
    if (!(e.target as HTMLElement).closest("#found, header")) box.hidden = true;
    if ((e.target as HTMLElement).closest("#found a")) box.hidden = true;
  });
}

function startTheme(): void {
  const set = (theme: string) => document.documentElement.dataset.theme = theme;
  const kept = localStorage.getItem("theme");
  if (kept !== null) set(kept);
  document.querySelector("#theme")!.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    set(next);
    localStorage.setItem("theme", next);
  });
}

/** A button, and where the example runs; what it prints and throws goes below. */
function startSnippet(snippet: HTMLElement): void {
  const code = snippet.querySelector<HTMLElement>("code")!, output = document.createElement("output");
  const bar = document.createElement("div"), run = document.createElement("button");
  const device = document.createElement("select");
  for (const name of ["WASM", "WEBGPU", "JS"]) {
    if (name !== "WEBGPU" || "gpu" in navigator) device.add(new Option(name));
  }
  device.ariaLabel = "device";
  bar.className = "bar";
  bar.append(run, device);
  run.textContent = "Run";
  code.contentEditable = "plaintext-only";
  code.spellcheck = false;
  code.ariaLabel = "code, which may be changed";
  snippet.append(bar, output);
  let worker: Worker | undefined;
  const stop = () => {
    worker?.terminate();
    worker = undefined;
    run.textContent = "Run";
    output.ariaBusy = "false";
  };
  const say = (text: string, isWrong = false) => {
    const line = document.createElement("div");
    line.textContent = text;
    if (isWrong) line.className = "wrong";
    output.append(line);
  };
  const start = () => {
    if (worker !== undefined) return stop();
    output.replaceChildren();
    output.ariaBusy = "true";
    run.textContent = "Stop";
    worker = new Worker("runner.js", { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<{ printed?: string; error?: string }>) => {
      if (data.printed !== undefined) say(data.printed);
      else {
        if (data.error !== undefined) say(data.error, true);
        stop();
      }
    };
    worker.onerror = (e) => {
      say(e.message || "the worker could not be started", true);
      stop();
    };
    worker.postMessage({ code: code.innerText, device: device.value });
  };
  run.addEventListener("click", start);
  code.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    start();
  });
}

if (typeof document !== "undefined") {
  startTheme();
  startSearch();
  document.querySelectorAll<HTMLElement>(".snippet").forEach(startSnippet);
  const menu = document.querySelector<HTMLDetailsElement>("nav details")!;
  menu.open = !matchMedia("(max-width: 760px)").matches;
}
