/** What the runners of the tests read: reports and the summaries of tools. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { wrongWith } from "./bare.ts";
import { runDeno } from "./system/subprocess.ts";
import { parseReport, reasonFor, sanitizerErrors, type TestRun } from "./run.ts";
import { SUITES } from "./run_cuda.ts";
import { isMeasuredAgain, joinRuns, splitTimed, timedFiles, toldAgain } from "./timed.ts";

const ROOT = new URL("../", import.meta.url);

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

Deno.test("run: a bare run that passes nothing, or goes around what it claims, fails", () => {
  const by = (...names: string[]) => names.map((n) => `used: ${n}: some cases\n`).join("");
  assertEquals(wrongWith(by("gcc", "node", "mpi"), "gcc", 5, true), []);
  assertEquals(wrongWith(by("node"), "nothing", 5, true), []);
  assertEquals(wrongWith("", "gcc", 5, false), []);
  assertEquals(wrongWith("", "gcc", 5, true), ["gcc was not used"]);
  assertEquals(wrongWith("", "nothing", 0, false), ["no test passed"]);
  assertEquals(wrongWith(by("gcc"), "nothing", 5, true), ["gcc was used, which was to be hidden"]);
  assertEquals(wrongWith(by("gcc", "vulkan"), "gcc", 5, true), ["vulkan was used, which was to be hidden"]);
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

/** A run of a file with cases a, b, ...: p passed, f failed, s skipped. */
function ran(states: string, code = states.includes("f") ? 1 : 0): TestRun {
  const names = { p: "passed", f: "failed", s: "skipped" } as const;
  const cases = [...states].map((s, i) => ({ file: "x", name: "abcd"[i], state: names[s as "p" | "f" | "s"] }));
  return { code, cases };
}

Deno.test("run: what asserts times is measured again where a case fails, twice at most, and each case counts once", () => {
  const rows: [runs: string[], again: boolean, code: number, states: string][] = [
    [["pps"], false, 0, "pps"],
    [["fps"], true, 1, "fps"],
    [["fps", "pps"], false, 0, "pps"],
    [["fps", "pfs"], false, 0, "pps"], // b was measured again for a's sake
    [["ffp", "pfp"], true, 1, "pfp"],
    [["ffp", "pfp", "fpp"], false, 0, "ppp"],
    [["fpp", "fpp", "fpp"], false, 1, "fpp"],
    [["", "pp"], false, 0, "pp"],
  ];
  for (const [runs, again, code, states] of rows) {
    const all = runs.map((r) => ran(r)), joined = joinRuns(all);
    assertEquals([isMeasuredAgain(all), joined.code], [again, code], runs.join());
    assertEquals(joined, { ...ran(states), code }, runs.join());
  }
  // a module that does not load, a process that is killed: no accident of a measurement
  assertEquals([isMeasuredAgain([ran("", 1)]), joinRuns([ran("", 1)]).code], [false, 1]);
  assertEquals([isMeasuredAgain([ran("pp", 137)]), joinRuns([ran("fp"), ran("pp", 137)]).code], [false, 137]);
  // two cases of one name are two
  const twice = ["failed", "passed"].map((state) => ({ file: "x", name: "a", state }) as TestRun["cases"][number]);
  const joined = joinRuns([{ code: 1, cases: twice }, { code: 1, cases: twice.toReversed() }]);
  assertEquals([joined.code, joined.cases.map((c) => c.state)], [0, ["passed", "passed"]]);
  assertEquals([toldAgain([ran("p")]), toldAgain([ran("fp"), ran("fp"), ran("pp")])], [[], [
    "measured again: x a: passed, after 2 of 3 failed",
  ]]);
});

Deno.test("run: files, folders and globs ask for the timed files among them", () => {
  const files = ["tests/a_timed_test.ts", "tests/t/b_timed_test.ts", "tests/t/u/c_timed_test.ts"];
  const rows: [args: string[], timed: number[], others: string[]][] = [
    [["tests"], [0, 1, 2], ["tests"]],
    [["."], [0, 1, 2], ["."]],
    [["./tests/t/"], [1, 2], ["./tests/t/"]],
    [["tests/t/u", "tests/a_test.ts"], [2], ["tests/t/u", "tests/a_test.ts"]],
    [["tests/a_timed_test.ts", "tests/a_test.ts"], [0], ["tests/a_test.ts"]],
    [[`${ROOT.pathname}tests/t/b_timed_test.ts`], [1], []],
    [["tests/t/*_test.ts"], [1], ["tests/t/*_test.ts"]],
    [["tests/**/*_timed_test.ts"], [0, 1, 2], []],
    [["tests/none_timed_test.ts"], [], ["tests/none_timed_test.ts"]], // deno test says that it is none
    [["tests/ta"], [], ["tests/ta"]],
  ];
  for (const [args, timed, others] of rows) {
    assertEquals(splitTimed(args, files, ROOT), { timed: timed.map((i) => files[i]), others }, args.join());
  }
});

Deno.test("run: timed files run when they are named, and in no job with others", async () => {
  const all = timedFiles(ROOT), folder = "tests/story/viz/", timed = `${folder}page_graph_timed_test.ts`;
  assert(all.includes(timed) && all.every((f) => /^tests\/.*_timed_test\.ts$/.test(f)), all.join());
  const { code, stdout, stderr } = await runDeno(["run", "-A", "tests/run.ts", `${folder}page_graph_*test.ts`]);
  const ran = [...(stdout + stderr).matchAll(/^running \d+ tests? from \.\/(.*)$/gm)].map((m) => m[1]);
  assertEquals([code, ran], [0, [`${folder}page_graph_test.ts`, timed]], stdout + stderr);
  assertMatch(stdout, /^[3-9] passed, 0 failed, 0 skipped$/m);
});

Deno.test("test:cuda runs every folder of tests/tensor", () => {
  const named = new Set(Object.values(SUITES).flat());
  for (const { name, isDirectory } of Deno.readDirSync(new URL("tensor/", import.meta.url))) {
    if (isDirectory) {
      assert(named.has(`tests/tensor/${name}/`), `no suite of tests/run_cuda.ts runs tests/tensor/${name}/`);
    }
  }
});
