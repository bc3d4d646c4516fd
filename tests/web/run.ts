/**
 * `deno task test:web`: the op smoke suite in headless Chromium, from the bundle: on WASM, and on WEBGPU where the browser
 * offers an adapter. Closes with `N passed, N failed, N skipped`; without a browser all of it is skipped. `CHROMIUM` names
 * the program.
 *
 * @module
 */
import type { Outcome } from "./smoke.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const PATIENCE_MS = 180_000;

/** What the page sends back. */
interface Report {
  readonly device: string;
  readonly adapter?: string;
  /** Why the device was left out. */
  readonly skipped?: string;
  readonly outcomes: readonly Outcome[];
}

const PAGE = `<!doctype html><title>dinograd</title><script type="module">
const send = (report) => fetch("/report", { method: "POST", body: JSON.stringify(report) });
const reports = [];
try {
  const library = await import("/dinograd.js"), { smoke } = await import("/smoke.js");
  reports.push({ device: "WASM", outcomes: await smoke(library, "WASM") });
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) reports.push({ device: "WEBGPU", skipped: navigator.gpu ? "no adapter" : "no navigator.gpu", outcomes: [] });
  else {
    const { vendor, architecture, description } = adapter.info;
    const name = description || vendor + " " + architecture;
    reports.push({ device: "WEBGPU", adapter: name, outcomes: await smoke(library, "WEBGPU") });
  }
} catch (e) {
  reports.push({ device: "page", outcomes: [{ name: "the page", error: String(e.stack ?? e) }] });
}
await send(reports);
</script>`;

async function find(): Promise<string | undefined> {
  const named = Deno.env.get("CHROMIUM");
  for (const name of named ? [named] : BROWSERS) {
    try {
      if ((await new Deno.Command(name, { args: ["--version"], stdout: "null", stderr: "null" }).output()).success) {
        return name;
      }
    } catch { /* the next one */ }
  }
}

async function bundle(entry: string, to: string): Promise<string> {
  const args = ["bundle", "--quiet", "--platform", "browser", "-o", to, entry];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: ROOT, stdout: "null" }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return await Deno.readTextFile(to);
}

async function runPage(browser: string, folder: string): Promise<Report[]> {
  const files: Record<string, string> = {
    "/": PAGE,
    "/dinograd.js": await bundle("mod.ts", `${folder}/dinograd.js`),
    "/smoke.js": await bundle("tests/web/smoke.ts", `${folder}/smoke.js`),
  };
  const { promise, resolve } = Promise.withResolvers<Report[]>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/report") {
      resolve(await request.json());
      return new Response();
    }
    return new Response(files[pathname] ?? "", {
      status: pathname in files ? 200 : 404,
      headers: {
        "content-type": pathname === "/" ? "text/html" : "text/javascript",
        // shared memory, and so threads, only where the page is isolated
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-embedder-policy": "require-corp",
      },
    });
  });
  const child = new Deno.Command(browser, {
    args: [
      "--headless=new",
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--enable-unsafe-webgpu",
      "--use-webgpu-adapter=swiftshader",
      `--user-data-dir=${folder}/profile`,
      `http://127.0.0.1:${server.addr.port}/`,
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<Report[]>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the page did not report in ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
  });
  const ended = child.status.then(({ code }): Report[] => {
    throw new Error(`${browser} ended with code ${code} before the page reported`);
  });
  ended.catch(() => {});
  try {
    return await Promise.race([promise, late, ended]);
  } finally {
    clearTimeout(timer);
    try {
      child.kill("SIGTERM");
    } catch { /* it has ended */ }
    await child.status;
    await server.shutdown();
  }
}

async function main(): Promise<number> {
  const browser = await find();
  if (browser === undefined) {
    console.log(`left out: no browser (${BROWSERS.join(", ")}); "apt-get install chromium" brings one`);
    console.log("0 passed, 0 failed, 2 skipped");
    return 0;
  }
  const folder = await Deno.makeTempDir({ prefix: "dinograd-web-" });
  let passed = 0, failed = 0, skipped = 0;
  try {
    for (const { device, adapter, skipped: why, outcomes } of await runPage(browser, folder)) {
      if (why !== undefined) {
        skipped++;
        console.log(`${device}: left out: ${why}`);
        continue;
      }
      const bad = outcomes.filter((o) => o.error !== undefined);
      passed += outcomes.length - bad.length;
      failed += bad.length;
      console.log(`${device}${adapter ? ` (${adapter})` : ""}: ${outcomes.length - bad.length} of ${outcomes.length}`);
      for (const { name, error } of bad) console.log(`  ${name}: ${error}`);
    }
  } catch (error) {
    failed++;
    console.log(String((error as Error).message));
  } finally {
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  }
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
