/**
 * The op smoke suite in headless Chromium, from the bundle: on WASM, and on WEBGPU where the browser offers an adapter.
 * `CHROMIUM` names the program; playwright-core (npm, for tests alone) drives it.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { Library, Outcome } from "./smoke.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Their names. */
const BROWSERS: readonly string[] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/** What drives it. */
const DRIVER = "npm:playwright-core@1.56.1";
const HTML = "<!doctype html><title>dinograd</title>";
const PATIENCE_MS = 180_000;

/** What became of the suite on a device; `page` where it is not the usual one. */
export interface Report {
  readonly device: string;
  readonly page?: string;
  readonly adapter?: string;
  /** Why the device was left out. */
  readonly skipped?: string;
  readonly outcomes: readonly Outcome[];
}

/** What is used of a browser of playwright-core, and of its pages. */
export interface Browser<P> {
  /** A page of its own. */
  newPage(options?: object): Promise<P>;
  /** Ends it. */
  close(): Promise<void>;
}
/** What is used of what a page tells. */
export interface Told {
  type(): string;
  text(): string;
  url(): string;
  readonly message: string;
}

/** Errors that a page logs or throws, and its requests to other hosts than that of `url`: a list that grows. */
export function errorsOf(page: { on(event: string, listener: (x: Told) => void): void }, url: string): string[] {
  const errors: string[] = [];
  page.on("console", (m) => m.type() === "error" ? errors.push(m.text()) : undefined);
  page.on("pageerror", (e) => errors.push(e.message));
  page.on("request", (r) => {
    if (!r.url().startsWith(url) && !/^(data|blob):/.test(r.url())) errors.push(`a request to ${r.url()}`);
  });
  return errors;
}

interface Page {
  setDefaultTimeout(ms: number): void;
  on(event: "pageerror", listener: (error: Error) => void): void;
  route(pattern: string, answer: (route: Route) => Promise<void>): Promise<void>;
  goto(url: string): Promise<unknown>;
  evaluate<T>(f: () => Promise<T>): Promise<T>;
}
interface Route {
  request(): { url(): string };
  fulfill(answer: { status: number; headers: Record<string, string>; body: string | Buffer }): Promise<void>;
}

/** Path of the browser; undefined where there is none. */
async function findBrowser(): Promise<string | undefined> {
  const named = Deno.env.get("CHROMIUM");
  for (const name of named ? [named] : BROWSERS) {
    try {
      const { success, stdout } = await new Deno.Command("/bin/sh", {
        args: ["-c", 'command -v "$0"', name],
        stderr: "null",
      }).output();
      if (success) return new TextDecoder().decode(stdout).trim();
    } catch { /* no shell, no browser */ }
  }
}

async function bundle(entry: string, to: string): Promise<string> {
  const args = ["bundle", "--quiet", "--platform", "browser", "-o", to, entry];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: ROOT, stdout: "null" }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return await Deno.readTextFile(to);
}

/** Runs in the page, which has nothing but what it imports. */
async function inPage(): Promise<Report[]> {
  // paths of the page, which no checker of this module knows
  const from = (path: string): Promise<unknown> => import(path), reports: Report[] = [];
  const library = await from("/dinograd.js") as Library;
  const { smoke } = await from("/smoke.js") as typeof import("./smoke.ts");
  reports.push({ device: "WASM", outcomes: await smoke(library, "WASM") });
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return [...reports, { device: "WEBGPU", skipped: "the browser offers no adapter", outcomes: [] }];
  const { vendor, architecture, description } = adapter.info, name = description || `${vendor} ${architecture}`;
  return [...reports, { device: "WEBGPU", adapter: name, outcomes: await smoke(library, "WEBGPU") }];
}

/** Runs in a page whose policy forbids code from text, and helpers from it. */
async function inStrictPage(): Promise<Report[]> {
  const from = (path: string): Promise<unknown> => import(path), reports: Report[] = [];
  const library = await from("/dinograd.js") as Library;
  const { smoke } = await from("/smoke.js") as typeof import("./smoke.ts");
  let outcome: string | undefined = "the page made code of text";
  try {
    new Function("");
  } catch {
    outcome = undefined;
  }
  const page = "a strict page", policy = { name: "the policy holds", error: outcome };
  for (const device of ["WASM", "JS"]) {
    reports.push({ device, page, outcomes: [policy, ...await smoke(library, device)] });
  }
  return reports;
}

/** The policy of a page that is careful, without `'unsafe-eval'`. */
const STRICT = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";

/** What a page is made of: by path, folders end with "/" and have HTML. */
type Files = Readonly<Record<string, string | Buffer>>;

/** How a browser is started: as any user, with WebGPU by its processor. */
const BROWSER_ARGS: readonly string[] = [
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
];

/** Opens pages of `files` in a browser. @throws {Error} where what `use` waits for does not come */
async function withPage<T>(launch: Launch<Page>, files: Files, use: (page: Page) => Promise<T>): Promise<T> {
  const browser = await launch();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the page did not end in ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.route("**/*", (route) => {
      const { pathname } = new URL(route.request().url()), body = files[pathname];
      return route.fulfill({
        status: body === undefined ? 404 : 200,
        headers: {
          "content-type": pathname.endsWith("/") ? "text/html" : "text/javascript",
          ...(pathname === "/strict/" ? { "content-security-policy": STRICT } : {}),
          // shared memory, and so threads, only where the page is isolated
          "cross-origin-opener-policy": "same-origin",
          "cross-origin-embedder-policy": "require-corp",
        },
        body: body ?? "",
      });
    });
    return await Promise.race([use(page), late]);
  } finally {
    clearTimeout(timer);
    await browser.close();
  }
}

/** Starts a browser, perhaps with more flags. */
export type Launch<P> = (...flags: readonly string[]) => Promise<Browser<P>>;

/** What starts the browser, of pages as its caller uses them; text says why there is none. */
export async function findLaunch<P>(): Promise<Launch<P> | string> {
  const executablePath = await findBrowser();
  if (executablePath === undefined) {
    return `no browser (${BROWSERS.join(", ")}); "apt-get install chromium" brings one`;
  }
  try {
    const { chromium } = await import(DRIVER);
    return (...flags) => chromium.launch({ executablePath, args: [...BROWSER_ARGS, ...flags] });
  } catch (error) {
    return `playwright-core cannot be fetched: ${(error as Error).message.split("\n")[0]}`;
  }
}

/**
 * What a page has found out: the value that its module puts into `globalThis.found`, as soon as it is there. Text says why
 * there is no browser.
 *
 * @param folder of the page; its index.html is what is opened
 */
export async function findInPage(folder: string): Promise<{ readonly found: unknown } | string> {
  const launch = await findLaunch<Page>(), files: Record<string, Buffer> = {};
  if (typeof launch === "string") return launch;
  const walk = async (path: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(folder + path)) {
      if (isDirectory) await walk(`${path}${name}/`);
      else files[path + (name === "index.html" ? "" : name)] = Buffer.from(await Deno.readFile(folder + path + name));
    }
  };
  await walk("/");
  return await withPage(launch, files, async (page) => {
    const failed = new Promise<never>((_, reject) => page.on("pageerror", reject));
    await page.goto("http://localhost/");
    const found = page.evaluate(async () => {
      const page = globalThis as { found?: unknown };
      while (page.found === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
      return page.found;
    });
    return { found: await Promise.race([found, failed]) };
  });
}

/** Runs the suite; text says why it could not. @throws {Error} where the page fails */
export async function runInBrowser(): Promise<Report[] | string> {
  const launch = await findLaunch<Page>();
  if (typeof launch === "string") return launch;
  const folder = await Deno.makeTempDir({ prefix: "dinograd-web-" });
  try {
    // deno bundle fetches its bundler once
    const bundled = await bundle("mod.ts", `${folder}/dinograd.js`).catch((error: Error) => error);
    if (bundled instanceof Error && /dns|connect|offline|download|fetch/i.test(bundled.message)) {
      return `deno bundle cannot fetch its bundler: ${bundled.message.split("\n")[0]}`;
    }
    if (bundled instanceof Error) throw bundled;
    const smoke = await bundle("tests/web/smoke.ts", `${folder}/smoke.js`);
    const files = { "/": HTML, "/strict/": HTML, "/dinograd.js": bundled, "/smoke.js": smoke };
    return await withPage(launch, files, async (page) => {
      await page.goto("http://localhost/");
      const usual = await page.evaluate(inPage);
      await page.goto("http://localhost/strict/");
      return [...usual, ...await page.evaluate(inStrictPage)];
    });
  } finally {
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  }
}

/** A step of a test that is left out, and says why no browser was there. */
export async function leaveOut(t: Deno.TestContext, why: string): Promise<void> {
  await t.step({ name: `Chromium: ${why}`, ignore: true, fn() {} });
}
