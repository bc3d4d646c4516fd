/** What the runners of the tests read: reports and the summaries of tools. */
import { assertEquals } from "@std/assert";
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
