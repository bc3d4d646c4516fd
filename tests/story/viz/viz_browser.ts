/**
 * The page of VIZ in headless Chromium, as a program of its own: its driver is in no lock file. Prints what happened as
 * JSON. `--shots DIR` keeps pictures; `--docs` makes only those of docs/watching.md, in docs/pictures; `--large` shows a large
 * recording too, and how long that takes.
 *
 * @module
 */
import { ResNet50 } from "../../../bench/models.ts";
import { context, nn, record, Tensor } from "../../../mod.ts";
import { pageScript, vizPage } from "../../../src/story/viz/page.ts";
import { vizData } from "../../../src/story/viz/viz_data.ts";
import { findLaunch } from "../../web/browser.ts";
import type { Seen } from "./seen.ts";

interface Page {
  on(kind: string, heard: (e: { type?(): string; text?(): string }) => void): void;
  goto(url: string): Promise<unknown>;
  click(selector: string): Promise<void>;
  hover(selector: string): Promise<void>;
  fill(selector: string, text: string): Promise<void>;
  selectOption(selector: string, value: string): Promise<unknown>;
  evaluate<T>(f: string): Promise<T>;
  screenshot(options: { path: string }): Promise<unknown>;
  readonly keyboard: { press(key: string): Promise<void> };
  readonly mouse: { click(x: number, y: number): Promise<void>; wheel(x: number, y: number): Promise<void> };
}

function recorded(): Promise<string> {
  const recording = context({ SCACHE: 0 }, () =>
    record(() => {
      const x = Tensor.rand([16, 24], { device: "WASM" });
      const layers = context({ DEV: "WASM" }, () => [new nn.Linear(24, 12), new nn.Linear(12, 5)]);
      const y = layers[1].call(layers[0].call(x).relu()).softmax();
      return y.realize();
    }));
  return vizPage(vizData(recording, "two layers"));
}

/** The same program with and without optimizations, one beside the other. */
function recordedTwice(): Promise<string> {
  const [one, two] = [["optimized", 0], ["as written", 1]].map(([title, NOOPT]) => {
    const recording = context({ SCACHE: 0, DEV: "WASM", NOOPT: Number(NOOPT) }, () =>
      record(() => {
        const x = Tensor.ones([40, 48]).contiguous().realize();
        x.add(0.5).contiguous().sum(1).realize();
      }));
    return vizData(recording, String(title));
  });
  return vizPage(one, two);
}

/** Two recordings compared: what differs is listed, a click shows how, and the address brings it back. */
async function compare(page: Page, url: string, shot: (name: string) => Promise<void>): Promise<Seen> {
  const seen: Seen = {}, ready = `document.documentElement.dataset.state === "kernel"`;
  await page.goto(`${url}#view=kernel`);
  await until(page, ready);
  const text = (selector: string): Promise<string> =>
    page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? "(none)"`);
  seen.differences = await text(".compared p");
  seen.marks = await page.evaluate<number>(`document.querySelectorAll(".row .mark").length`);
  await page.click(".compared a");
  await until(page, `location.hash.includes("other=b") && ${ready}`);
  seen.sections = await page.evaluate<string[]>(
    `[...document.querySelectorAll(".detail h3")].map((h) => h.textContent)`,
  );
  seen.changed = await page.evaluate<number>(`document.querySelectorAll(".diff .new, .diff .old").length`);
  seen.times = await page.evaluate<string>(
    `[...document.querySelectorAll(".detail p")].map((p) => p.textContent).find((t) => t.includes("A launch takes"))`,
  );
  seen.beside = await text(".detail p:nth-of-type(2)");
  await shot("compared");
  const hash = await page.evaluate<string>("location.hash");
  await page.goto("about:blank");
  await page.goto(url + hash);
  await until(page, ready);
  seen.again = await page.evaluate<number>(`document.querySelectorAll(".diff .new, .diff .old").length`);
  return seen;
}

/** What compiling ResNet-50 does, all passes, on a device that runs nothing. */
function recordedLarge(): Promise<string> {
  const recording = context(
    { SCACHE: 0, DEV: "NULL" },
    () => record(() => new ResNet50().call(Tensor.empty([1, 3, 224, 224])).realize()),
  );
  return vizPage(vizData(recording, "ResNet-50"));
}

/** How fast a large recording is shown: milliseconds, the best of some times, since others use the machine too. */
async function large(page: Page, url: string, seen: Seen, shot: (name: string) => Promise<void>): Promise<void> {
  let openMs = Infinity;
  for (let i = 0; i < 3; i++) {
    await page.goto("about:blank");
    const start = performance.now();
    await page.goto(url);
    await until(page, `document.documentElement.dataset.state === "program"`);
    openMs = Math.min(openMs, performance.now() - start);
  }
  seen.openMs = openMs;
  await shot("program");
  for (const [key, view] of [["2", "schedule"], ["3", "passes"]]) {
    await page.keyboard.press(key);
    await until(page, `document.documentElement.dataset.state === "${view}"`);
    await shot(view);
  }
  seen.passes = await page.evaluate<number>(`document.querySelectorAll(".two > .list .row").length`);
  // the pass with the most changes, and each of some of them
  await page.evaluate(`(() => {
    const rows = [...document.querySelectorAll(".two > .list .row")], of = (r) => Number(r.querySelector(".num").textContent) || 0;
    rows.sort((a, b) => of(b) - of(a))[0].click();
  })()`);
  await until(
    page,
    `document.querySelectorAll(".list.short .row").length > 8 && document.documentElement.dataset.state === "passes"`,
  );
  seen.changes = await page.evaluate<number>(`document.querySelectorAll(".list.short .row").length`);
  const moves: number[] = [];
  for (let i = 0; i < 8; i++) {
    moves.push(
      await page.evaluate<number>(`(async () => {
        const start = performance.now();
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
        const wait = () => new Promise((done) => setTimeout(done));
        do await wait(); while (!location.hash.includes("change=${i}") || document.documentElement.dataset.state !== "passes");
        return performance.now() - start;
      })()`),
    );
  }
  seen.moveMs = moves.toSorted((a, b) => a - b)[1];
  seen.boxes = await page.evaluate<number>(`document.querySelectorAll(".picture .box").length`);
  await shot("passes");
}

/** Waits until an expression holds in the page. */
async function until(page: Page, expression: string): Promise<void> {
  for (let i = 0; i < 500; i++) {
    if (await page.evaluate<boolean>(expression)) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error(
    `it never held: ${expression}; ${await page.evaluate<string>(
      "document.documentElement.dataset.state + location.hash",
    )}`,
  );
}

async function walk(page: Page, seen: Seen, shot: (name: string) => Promise<void>): Promise<void> {
  const text = (selector: string): Promise<string> =>
    page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? "(none)"`);
  const count = (selector: string): Promise<number> =>
    page.evaluate<number>(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
  const hash = (): Promise<string> => page.evaluate<string>("location.hash");
  const ready = (view: string): Promise<unknown> => until(page, `document.documentElement.dataset.state === "${view}"`);
  await ready("program");
  seen.lines = await count(".tree code");
  seen.program = await text("table.wide");
  await shot("program");
  await page.keyboard.press("2");
  await ready("schedule");
  seen.steps = await count(".list .row");
  seen.boxes = await count(".picture .box");
  seen.memory = await count(".memory rect");
  await page.click(".picture .box");
  await ready("schedule");
  seen.selectedStep = await hash();
  await shot("schedule");
  // a rewrite: a pass with changes, then its first change
  await page.keyboard.press("3");
  await ready("passes");
  seen.passes = await count(".two > .list .row");
  await page.fill("#search", "MULACC");
  await until(page, `location.hash.includes("MULACC")`);
  await ready("passes");
  seen.found = await count(".two > .list .row");
  await page.fill("#search", "");
  await until(page, `!location.hash.includes("MULACC")`);
  await ready("passes");
  await page.evaluate(`document.activeElement.blur()`);
  const rows = `[...document.querySelectorAll(".two > .list .row")]`;
  await page.evaluate(`${rows}.find((r) => Number(r.querySelector(".num").textContent) > 2).click()`);
  await until(page, `document.querySelectorAll(".list.short .row").length > 2`);
  await page.click(".list.short .row:nth-child(1)");
  await until(page, `document.querySelector("h3")?.textContent.startsWith("change 1 of")`);
  await ready("passes");
  seen.change = await text("h3");
  seen.rule = await text(".detail p code");
  seen.old = await count(".diff .old");
  seen.new = await count(".diff .new");
  seen.changeBoxes = await count(".picture .box");
  // a move makes nothing anew but what the change is; one back, to a graph that was drawn before, asks no layout
  await page.evaluate(`(() => {
    for (const e of document.querySelectorAll(".row, .tools *, h2, header *")) e.wasThere = true;
    const { postMessage } = Worker.prototype;
    globalThis.asked = 0;
    Worker.prototype.postMessage = function (m) { asked++; return postMessage.call(this, m); };
  })()`);
  await page.keyboard.press("j");
  await until(page, `document.querySelector("h3")?.textContent.startsWith("change 2 of")`);
  await ready("passes");
  await shot("passes");
  const selected = `document.querySelector(".list.short .row.on .num").textContent`;
  seen.onAfterMove = await page.evaluate<string>(selected);
  seen.askedForward = await page.evaluate<number>("asked");
  await page.keyboard.press("k");
  await until(page, `document.querySelector("h3")?.textContent.startsWith("change 1 of")`);
  await ready("passes");
  seen.onAfterBack = await page.evaluate<string>(selected);
  seen.askedBack = await page.evaluate<number>("asked - " + seen.askedForward);
  seen.backBoxes = await count(".picture .box");
  seen.madeAnew = await page.evaluate<number>(
    `[...document.querySelectorAll(".row, h2, header *")].filter((e) => !e.wasThere).length`,
  );
  seen.moveMs = await page.evaluate<number>(`(async () => {
    const start = performance.now(), n = 5;
    for (let i = 0; i < n; i++) {
      location.hash = location.hash.replace(/change=\\d+/, "change=" + i % 2);
      await new Promise((done) => setTimeout(done));
      while (document.documentElement.dataset.state !== "passes") await new Promise((done) => setTimeout(done));
    }
    return (performance.now() - start) / n;
  })()`);
  await page.click("main .tools a");
  await until(page, `location.hash.includes("all=1")`);
  seen.all = await count(".two > .list .row");
  // a kernel
  await page.keyboard.press("4");
  await ready("kernel");
  await page.click(".two > .list .row:nth-child(4)");
  await until(page, `location.hash.includes("kernel=3")`);
  await ready("kernel");
  seen.kernel = await text("h2");
  seen.sections = await page.evaluate<string[]>(
    `[...document.querySelectorAll("section h3")].map((h) => h.textContent)`,
  );
  seen.source = await text("pre.source");
  await page.hover("section pre div[data-n]");
  seen.same = await count("pre .same");
  await shot("kernel");
  await page.selectOption("#other", "a0");
  await until(page, `location.hash.includes("other=a0")`);
  seen.compared = await count(".diff");
  await page.selectOption("#other", "");
  // the timeline
  await page.keyboard.press("5");
  await ready("timeline");
  seen.legend = await text("main p");
  seen.topKernels = await count("table.wide tr");
  const box = await page.evaluate<{ x: number; y: number; w: number }>(
    `(() => { const b = document.querySelector("#timeline").getBoundingClientRect(); return { x: b.left, y: b.top, w: b.width }; })()`,
  );
  seen.drawn = await page.evaluate<number>(`(() => {
    const c = document.querySelector("#timeline"), d = c.getContext("2d").getImageData(75, 0, c.width - 75, c.height).data;
    const colors = new Set(); for (let i = 0; i < d.length; i += 4) colors.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
    return colors.size;
  })()`);
  // somewhere in the first row is something that is no pass, which would lead to the passes
  for (let part = 0.97; part > 0 && !(await hash()).includes("event="); part -= 0.06) {
    await page.mouse.click(box.x + 70 + (box.w - 70) * part, box.y + 32);
    if ((await hash()).includes("view=timeline")) continue;
    await page.keyboard.press("5");
    await ready("timeline");
  }
  await until(page, `document.querySelector("#event") !== null`); // drawn after the address has changed
  seen.event = await text("#event");
  await page.mouse.wheel(0, -200);
  await shot("timeline");
  seen.hash = await hash();
}

/** How the page is shown: by name, scheme, width and height. */
type Shown = readonly [name: string, scheme: string, width: number, height: number];
const SHOWN: readonly Shown[] = [["light", "light", 1280, 860], ["dark", "dark", 1280, 860], [
  "narrow",
  "light",
  480,
  860,
]];

async function main(shots: string | undefined, isForDocs: boolean, isLarge: boolean): Promise<unknown> {
  const launch = await findLaunch<Page>();
  if (typeof launch === "string") return launch;
  const file = await Deno.makeTempFile({ suffix: ".html" });
  await Deno.writeTextFile(file, await recorded());
  const browser = await launch();
  try {
    const errors: string[] = [], all: Seen[] = [];
    const shown: readonly Shown[] = isForDocs ? [["viz", "light", 1100, 600]] : SHOWN;
    for (const [name, colorScheme, width, height] of shown) {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme }), seen: Seen = {};
      page.on("console", (m) => m.type?.() === "error" && errors.push(`${name}: ${m.text?.()}`));
      page.on("pageerror", (e) => errors.push(`${name}: ${e}`));
      await page.goto(`file://${file}`);
      await walk(page, seen, async (view) => {
        seen[`wide ${view}`] = await page.evaluate<number>(`document.documentElement.scrollWidth - innerWidth`);
        if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}_${view}.png` });
      });
      seen.background = await page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
      all.push(seen);
    }
    if (isForDocs) return { errors };
    const beside = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
    beside.on("console", (m) => m.type?.() === "error" && errors.push(`compared: ${m.text?.()}`));
    beside.on("pageerror", (e) => errors.push(`compared: ${e}`));
    await Deno.writeTextFile(file, await recordedTwice());
    const compared = await compare(beside, `file://${file}`, async (view) => {
      if (shots !== undefined) await beside.screenshot({ path: `${shots}/${view}.png` });
    });
    const big: Seen = {};
    if (isLarge) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
      page.on("console", (m) => m.type?.() === "error" && errors.push(`large: ${m.text?.()}`));
      page.on("pageerror", (e) => errors.push(`large: ${e}`));
      await Deno.writeTextFile(file, await recordedLarge());
      await large(page, `file://${file}`, big, async (view) => {
        if (shots !== undefined) await page.screenshot({ path: `${shots}/large_${view}.png` });
      });
    }
    const script = new Blob([pageScript()]).stream().pipeThrough(new CompressionStream("gzip"));
    return {
      errors,
      seen: all,
      compared,
      large: big,
      scriptBytes: (await new Response(script).arrayBuffer()).byteLength,
    };
  } finally {
    await browser.close();
    await Deno.remove(file);
  }
}

if (import.meta.main) {
  const at = Deno.args.indexOf("--shots"), isForDocs = Deno.args.includes("--docs");
  const shots = isForDocs ? new URL("../../../docs/pictures", import.meta.url).pathname : Deno.args[at + 1];
  if (isForDocs) await Deno.mkdir(shots, { recursive: true });
  const found = await main(isForDocs || at >= 0 ? shots : undefined, isForDocs, Deno.args.includes("--large"));
  console.log(JSON.stringify(found));
}
