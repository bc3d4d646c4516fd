/**
 * `deno task test:web`: the op smoke suite in headless Chromium, then the tests that drive pages there: the gallery, the page
 * of the language model, that of a server, exports, or those that are named. Closes with `N passed, N failed, N skipped`;
 * without a browser all of it is skipped. `--json` prints what became of each case of the smoke suite instead,
 * `--page FOLDER` what a page of that folder has found out.
 *
 * @module
 */
import { findInPage, runInBrowser } from "./browser.ts";

/** Tests that drive pages. */
const PAGES: readonly string[] = [
  "tests/web/gallery_test.ts",
  "tests/web/talk_test.ts",
  "tests/web/chat_test.ts",
  "tests/export/web_export_test.ts",
];

/** Runs the tests of pages, which print what they test. @throws {Error} where they do not end with counts */
async function pages(files: readonly string[]): Promise<[passed: number, failed: number, skipped: number]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--no-check", ...files],
    cwd: new URL("../../", import.meta.url),
    env: { NO_COLOR: "1" },
    stderr: "inherit",
  }).output();
  const text = new TextDecoder().decode(stdout);
  console.log(text.trim());
  const counts = /^(?:ok|FAILED) \| (\d+) passed.* \| (\d+) failed(?:.* \| (\d+) ignored)?/m.exec(text);
  if (counts === null) throw new Error("the tests of pages did not end");
  return [Number(counts[1]), Number(counts[2]), Number(counts[3] ?? 0)];
}

async function main(files: readonly string[]): Promise<number> {
  let passed = 0, failed = 0, skipped = 0;
  try {
    const reports = await runInBrowser();
    if (typeof reports === "string") {
      console.log(`left out: ${reports}`);
      console.log(`0 passed, 0 failed, ${2 + files.length} skipped`);
      return 0;
    }
    for (const { device, page, adapter, skipped: why, outcomes } of reports) {
      if (why !== undefined) {
        skipped++;
        console.log(`${device}: left out: ${why}`);
        continue;
      }
      const bad = outcomes.filter((o) => o.error !== undefined);
      passed += outcomes.length - bad.length;
      failed += bad.length;
      console.log(
        `${device}${page ? ` in ${page}` : ""}${adapter ? ` (${adapter})` : ""}: ${
          outcomes.length - bad.length
        } of ${outcomes.length}`,
      );
      for (const { name, error } of bad) console.log(`  ${name}: ${error}`);
    }
    const counts = await pages(files);
    passed += counts[0];
    failed += counts[1];
    skipped += counts[2];
  } catch (error) {
    failed++;
    console.log(String((error as Error).message));
  }
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) {
  const [first, folder] = Deno.args;
  if (first === "--page") console.log(JSON.stringify(await findInPage(folder)));
  else if (first === "--json") console.log(JSON.stringify(await runInBrowser()));
  else Deno.exit(await main(Deno.args.length > 0 ? Deno.args : PAGES));
}
