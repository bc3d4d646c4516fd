/**
 * Visits the site in headless Chromium: an example runs, a wrong one says why, search finds, pages fit a phone, nothing is
 * logged as an error, nothing is asked of another host. Prints what was seen as JSON; `--shots FOLDER` keeps pictures.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { findLaunch } from "../web/browser.ts";
import { makeSite, writeSite } from "./build.ts";

/** What was seen. */
export interface Seen {
  /** What the first example of the quickstart printed. */
  readonly printed: string;
  /** What an example of the page of methods gave, on another device. */
  readonly value: string;
  /** What a wrong one said. */
  readonly wrong: string;
  /** The first results for "softmax". */
  readonly found: readonly string[];
  /** Widths of pages on a screen of 360 pixels. */
  readonly widths: readonly number[];
  /** The color of the background, dark and after a click. */
  readonly backs: readonly string[];
  /** Errors that were logged or thrown, and requests to other hosts. */
  readonly errors: readonly string[];
}

/** What is used of playwright-core. */
interface Locator {
  first(): Locator;
  nth(i: number): Locator;
  locator(selector: string): Locator;
  click(): Promise<void>;
  fill(text: string): Promise<void>;
  innerText(): Promise<string>;
  allInnerTexts(): Promise<string[]>;
  selectOption(value: string): Promise<unknown>;
  waitFor(): Promise<void>;
}
interface Page {
  setDefaultTimeout(ms: number): void;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  emulateMedia(media: { colorScheme: "dark" | "light" }): Promise<void>;
  on(event: string, listen: (e: { type?(): string; text?(): string; message?: string }) => void): void;
  route(pattern: string, answer: (route: Route) => Promise<void>): Promise<void>;
  goto(url: string): Promise<unknown>;
  locator(selector: string): Locator;
  evaluate<T>(code: string): Promise<T>;
  screenshot(options: { path: string }): Promise<unknown>;
}
interface Route {
  request(): { url(): string };
  fulfill(answer: { status: number; contentType: string; body: string }): Promise<void>;
}

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html",
  css: "text/css",
  js: "text/javascript",
  json: "application/json",
};

async function visit(page: Page, folder: string, shots: string | undefined): Promise<Seen> {
  const errors: string[] = [];
  page.setDefaultTimeout(60_000);
  page.on("console", (m) => m.type?.() === "error" ? errors.push(m.text!()) : undefined);
  page.on("pageerror", (e) => errors.push(e.message!));
  await page.route("**/*", async (route) => {
    const url = new URL(route.request().url()), name = url.pathname.slice(1);
    if (url.host !== "localhost") errors.push(`a request to ${url}`);
    const body = await Deno.readTextFile(`${folder}/${name}`).catch(() => undefined);
    const contentType = TYPES[name.split(".").at(-1)!] ?? "text/plain";
    await route.fulfill({ status: body === undefined ? 404 : 200, contentType, body: body ?? "" });
  });
  const shot = async (name: string) => {
    if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png` });
  };
  /** Runs an example to its end; what it printed. */
  const run = async (snippet: Locator): Promise<string> => {
    await snippet.locator("button").click();
    await snippet.locator('output[aria-busy="false"]').waitFor();
    return (await snippet.locator("output").innerText()).trim();
  };
  await page.setViewportSize({ width: 1200, height: 900 });
  await page.goto("http://localhost/quickstart.html");
  const snippets = page.locator(".snippet"), printed = await run(snippets.first());
  await shot("wide");
  await snippets.nth(1).locator("code").fill("new Tensor([1, 2]).reshape([3])");
  const wrong = await run(snippets.nth(1));
  await page.goto("http://localhost/tensor.html#relu");
  const relu = page.locator("h3#relu ~ .snippet").first();
  await relu.locator("select").selectOption("JS");
  const value = await run(relu);
  await page.locator("#search").fill("softmax");
  await page.locator("#found a").first().waitFor();
  const found = await page.locator("#found a").allInnerTexts();
  await shot("search");
  const widths: number[] = [];
  await page.setViewportSize({ width: 360, height: 780 });
  for (const name of ["index", "quickstart", "tensor", "coverage", "coming"]) {
    await page.goto(`http://localhost/${name}.html`);
    widths.push(await page.evaluate<number>("document.documentElement.scrollWidth"));
    await shot(`phone-${name}`);
  }
  await page.emulateMedia({ colorScheme: "dark" });
  const back = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
  const backs = [await back()];
  await shot("dark");
  await page.locator("#theme").click();
  backs.push(await back());
  return { printed, value, wrong, found: found.slice(0, 3), widths, backs, errors };
}

/** Builds and visits the site; text says why it could not. */
async function browse(shots: string | undefined): Promise<Seen | string> {
  const launch = await findLaunch<Page>();
  if (typeof launch === "string") return launch;
  const folder = await Deno.makeTempDir({ prefix: "dinograd-site-" });
  try {
    try {
      await writeSite(folder, await makeSite());
    } catch (error) {
      const [line] = (error as Error).message.split("\n");
      if (/dns|connect|offline|download|fetch|npm/i.test(line)) {
        return `what builds the site cannot be fetched: ${line}`;
      }
      throw error;
    }
    const browser = await launch();
    try {
      return await visit(await browser.newPage(), folder, shots);
    } finally {
      await browser.close();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

if (import.meta.main) console.log(JSON.stringify(await browse(parseArgs(Deno.args, { string: ["shots"] }).shots)));
