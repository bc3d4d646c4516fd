/** What the runners of the tests read: reports and the summaries of tools. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runDeno } from "./system/subprocess.ts";
import { parseReport, reasonFor, sanitizerErrors } from "./run.ts";
import { SUITES } from "./run_cuda.ts";

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

Deno.test("run: a test of a device that is here may not be skipped", async () => {
  const allowed = JSON.parse(await Deno.readTextFile(new URL("allowed_skips.json", import.meta.url)));
  const rows: [name: string, device: string, here: boolean][] = [
    ["processes CLANG: THREADS", "CLANG", false],
    ["clang: sums", "CLANG", false],
    ["CUDA C as C++: plain kernels give what JS gives (CLANG)", "CLANG", false],
    ["clang: the register tile stays in registers", "CLANG", true],
    ["WEBGPU windows: sort", "WEBGPU", false],
    ["WEBGPU windows: Dawn takes every kernel", "WEBGPU", true],
    ["CUDA card: one thread: add", "CUDA", false],
    ["Chromium WEBGPU: the browser offers no adapter", "WEBGPU", true],
  ];
  const others = ["errors: names", "golden CLANGER", "in place WASM: a CUDALIKE view"];
  for (const [name, device, here] of rows) {
    const reasons = [false, true].map((is) => reasonFor(name, allowed, (d) => d !== device || is));
    assertEquals(reasons.map((r) => r !== undefined), [true, here], name);
  }
  for (const name of others) assertEquals(reasonFor(name, allowed, () => false), undefined);
});

Deno.test("run: what is required and was not used fails", async () => {
  const run = (...args: string[]) => runDeno(["run", "-A", "tests/run.ts", ...args, "tests/renderer/natural_test.ts"]);
  const names = ["clang", "gcc", "vulkan", "chromium", "node", "bun"];
  const [free, bound] = await Promise.all([run(), run(`--require=${names}`)]);
  assertEquals([free.code, bound.code], [0, 1], free.stdout + bound.stdout);
  for (const name of names) assertStringIncludes(bound.stdout, `failed: ${name} is required, and was not used\n`);
  assertMatch(bound.stdout, /\d+ passed, 6 failed, \d+ skipped\n$/);
});

Deno.test("test:cuda runs every folder of tests/tensor", () => {
  const named = new Set(Object.values(SUITES).flat());
  for (const { name, isDirectory } of Deno.readDirSync(new URL("tensor/", import.meta.url))) {
    if (isDirectory) {
      assert(named.has(`tests/tensor/${name}/`), `no suite of tests/run_cuda.ts runs tests/tensor/${name}/`);
    }
  }
});
