/**
 * `deno task test:web`: the op smoke suite in headless Chromium. Closes with `N passed, N failed, N skipped`; without a
 * browser all of it is skipped. `--json` prints what became of each case instead, `--page FOLDER` what a page of that
 * folder has found out.
 *
 * @module
 */
import { findInPage, runInBrowser } from "./browser.ts";

async function main(): Promise<number> {
  let passed = 0, failed = 0, skipped = 0;
  try {
    const reports = await runInBrowser();
    if (typeof reports === "string") {
      console.log(`left out: ${reports}`);
      console.log("0 passed, 0 failed, 2 skipped");
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
  else Deno.exit(await main());
}
