/**
 * Visits the gallery of examples/web in headless Chromium: it trains, reads what is drawn by keyboard and by pointer, runs
 * on WebGPU where there is an adapter, fits a phone, works offline. Prints what was seen as JSON; `--shots FOLDER` keeps
 * pictures, `--gpu` reads on WebGPU, too.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { errorsOf, type Told } from "./browser.ts";
import { visitBuilt } from "./visit_built.ts";

/** What was seen. */
export interface GallerySeen {
  /** Devices that are offered. */
  readonly devices: readonly string[];
  /** What the page says of a training. */
  readonly loss: number;
  /** Digits that were read rightly, in percent. */
  readonly accuracy: number;
  readonly chart: string;
  readonly credit: string;
  /** What it reads of a one that was drawn by keyboard, and of a zero that was drawn by pointer. */
  readonly typed: string;
  readonly drawn: string;
  readonly cleared: string;
  /** The status when WebGPU has been chosen; undefined without an adapter. */
  readonly gpu: string | undefined;
  /** Width of the page on a screen of 360 pixels. */
  readonly width: number;
  /** The status when it was loaded again without a network. */
  readonly offline: string;
  /** What demos say whose networks are not there. */
  readonly missing: readonly string[];
  /** Errors that were logged or thrown, and requests to other hosts. */
  readonly errors: readonly string[];
}

/** What is used of playwright-core. */
interface Locator {
  click(): Promise<void>;
  focus(): Promise<void>;
  innerText(): Promise<string>;
  allInnerTexts(): Promise<string[]>;
  getAttribute(name: string): Promise<string | null>;
  selectOption(value: string): Promise<unknown>;
  boundingBox(): Promise<{ x: number; y: number; width: number; height: number } | null>;
}
interface Page {
  readonly keyboard: { press(key: string): Promise<void> };
  readonly mouse: {
    move(x: number, y: number, o?: { steps: number }): Promise<void>;
    down(): Promise<void>;
    up(): Promise<void>;
  };
  setDefaultTimeout(ms: number): void;
  on(event: string, listener: (x: Told) => void): void;
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  locator(selector: string): Locator;
  screenshot(o: { path: string; fullPage: boolean }): Promise<unknown>;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  waitForFunction(code: string): Promise<unknown>;
  evaluate<T>(code: string): Promise<T>;
  context(): { setOffline(offline: boolean): Promise<void> };
}

/** What the program is asked for. */
interface Options {
  readonly shots?: string;
  /** Whether it reads on WebGPU, too: most of a minute where a processor stands for the card. */
  readonly gpu: boolean;
}

const text = (id: string): string => `document.getElementById("${id}").textContent`;

async function visit(page: Page, url: string, { shots, gpu: reads }: Options): Promise<GallerySeen> {
  const errors = errorsOf(page, url),
    shot = async (name: string): Promise<void> => {
      if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
    };
  page.setDefaultTimeout(90_000);
  await page.setViewportSize({ width: 1100, height: 800 });
  await page.goto(url);
  await page.waitForFunction(`!document.getElementById("train").disabled`);
  const devices = await page.locator("#device option").allInnerTexts();
  await page.locator("#train").click();
  await page.waitForFunction(`/^Trained on/.test(${text("status")})`);
  const loss = Number(await page.locator("#loss").innerText());
  const accuracy = parseFloat(await page.locator("#accuracy").innerText());
  const chart = (await page.locator("#chart").getAttribute("aria-label"))!;
  const credit = await page.locator("#credit").innerText(), guessed = `/reads \\d/.test(${text("guess")})`;
  await page.locator("#pad").focus();
  for (const key of [..."UUUUU", " ", ..."DDDDDDDDDD", " "]) {
    await page.keyboard.press(key === " " ? "Space" : key === "U" ? "ArrowUp" : "ArrowDown");
  }
  await page.waitForFunction(guessed);
  const typed = await page.locator("#guess").innerText();
  await page.locator("#clear").click();
  const cleared = await page.locator("#guess").innerText(), box = (await page.locator("#pad").boundingBox())!;
  for (let i = 0; i <= 24; i++) {
    const turn = 2 * Math.PI * i / 24;
    await page.mouse.move(
      box.x + box.width * (0.5 + 0.22 * Math.sin(turn)),
      box.y + box.height * (0.5 - 0.36 * Math.cos(turn)),
    );
    if (i === 0) await page.mouse.down();
  }
  await page.mouse.up();
  await page.waitForFunction(guessed);
  const drawn = await page.locator("#guess").innerText();
  await shot("gallery");
  const missing = await page.locator("#speech-status, #read-status, #upscale-status, #faces-status").allInnerTexts();
  let gpu: string | undefined;
  if (devices.includes("WebGPU")) {
    await page.locator("#device").selectOption("WEBGPU");
    await page.waitForFunction(`/^Ready on WEBGPU/.test(${text("status")})`);
    if (reads) {
      await page.locator("#clear").click();
      await page.locator("#pad").click(); // a dot, which a network that has seen nothing reads as something
      await page.waitForFunction(guessed);
    }
    gpu = await page.locator("#status").innerText();
  }
  await page.setViewportSize({ width: 360, height: 780 });
  const width = await page.evaluate<number>("document.documentElement.scrollWidth");
  await shot("gallery-phone");
  await page.waitForFunction("navigator.serviceWorker.controller !== null");
  await page.context().setOffline(true);
  await page.reload();
  await page.waitForFunction(`/^Ready/.test(${text("status")})`);
  const offline = await page.locator("#status").innerText();
  return { devices, loss, accuracy, chart, credit, typed, drawn, cleared, gpu, width, offline, missing, errors };
}

if (import.meta.main) {
  const options = parseArgs(Deno.args, { string: ["shots"], boolean: ["gpu"] }) as Options;
  console.log(JSON.stringify(await visitBuilt((page: Page, url) => visit(page, url, options))));
  Deno.exit();
}
