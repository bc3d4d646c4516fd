/** The op smoke suite in headless Chromium, each case a test. Left out where there is no browser. */
import { assert, assertEquals } from "@std/assert";
import { runDeno } from "../system/subprocess.ts";
import type { Report } from "./browser.ts";

// in a process of its own: its driver is in no lock file, which would have every run fetch it
const args = ["run", "-A", "--no-lock", "--no-check", "tests/web/run.ts", "--json"];
const { stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
let found: readonly Report[] | string;
try {
  found = JSON.parse(stdout);
} catch {
  throw new Error(`the suite did not run in Chromium: ${stderr}`);
}
const reports = typeof found === "string" ? [] : found;
if (typeof found === "string") console.log(`Chromium is left out: ${found}`);

Deno.test({
  name: "Chromium: the suite runs on WASM",
  ignore: typeof found === "string",
  fn: () => {
    assertEquals(reports.map((r) => r.device), ["WASM", "WEBGPU", "WASM", "JS"]);
    assert(reports[0].outcomes.length > 20);
  },
});
for (const { device, page, skipped, outcomes } of reports) {
  if (skipped !== undefined) Deno.test({ name: `Chromium ${device}: ${skipped}`, ignore: true, fn: () => {} });
  for (const { name, error } of outcomes) {
    const where = page === undefined ? device : `${device} in ${page}`;
    Deno.test(`Chromium ${where}: ${name}`, () => assertEquals(error, undefined));
  }
}
