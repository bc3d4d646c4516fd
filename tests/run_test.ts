/** What the runners of the tests read: reports and the summaries of tools. */
import { assertEquals, assertMatch } from "@std/assert";
import { runDeno } from "./system/subprocess.ts";
import { parseReport, sanitizerErrors } from "./run.ts";

Deno.test("run: summaries of compute-sanitizer", () => {
  assertEquals(sanitizerErrors("========= ERROR SUMMARY: 0 errors\n"), 0);
  assertEquals(sanitizerErrors("========= ERROR SUMMARY: 1 error\n"), 1);
  assertEquals(sanitizerErrors("ok\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"), 0);
  assertEquals(sanitizerErrors("========= RACECHECK SUMMARY: 12 hazards displayed (10 errors, 2 warnings)"), 12);
  assertEquals(sanitizerErrors("Error: no kernels were run"), -1);
});

Deno.test("run: cases of a report", () => {
  const xml =
    `<testsuite><testcase name="a &lt; b" classname="x"/><testcase name="c"><failure message="no"/></testcase>` +
    `<testcase name="d"><skipped/></testcase></testsuite>`;
  assertEquals(parseReport(xml).map((c) => [c.name, c.state]), [["a < b", "passed"], ["c", "failed"], [
    "d",
    "skipped",
  ]]);
});

Deno.test("run: what is required and was not used fails", async () => {
  const run = (...args: string[]) => runDeno(["run", "-A", "tests/run.ts", ...args, "tests/renderer/natural_test.ts"]);
  const [free, bound] = await Promise.all([run(), run("--require=clang,chromium")]);
  assertEquals([free.code, bound.code], [0, 1], free.stdout + bound.stdout);
  assertMatch(bound.stdout, /failed: clang is required, and was not used\nfailed: chromium is required/);
  assertMatch(bound.stdout, /\d+ passed, 2 failed, \d+ skipped\n$/);
});
