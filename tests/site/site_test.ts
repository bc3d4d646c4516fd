/** The site: whole, found, run and read in headless Chromium. Left out where there is no browser, or nothing to build it with. */
import assert from "node:assert/strict";
import { runDeno } from "../system/subprocess.ts";
import type { Seen } from "./browse.ts";
import { isRunnable } from "./build.ts";
import { type Entry, search } from "./client.ts";
import { textOf } from "./runner.ts";

Deno.test("site: titles are found before texts", () => {
  const entries = [["a", "about softmax"], ["logSoftmax", ""], ["softmax", ""], ["sort", ""]].map((
    [title, text],
  ): Entry => ({
    page: "p",
    anchor: title,
    title,
    text,
  }));
  const found = (query: string) => search(entries, query).map((e) => e.title);
  assert.deepEqual(found("softmax"), ["softmax", "logSoftmax", "a"]);
  assert.deepEqual(found(" SOFT  about "), ["a"]);
  assert.deepEqual(found(""), []);
});

Deno.test("site: values as one reads them", () => {
  const rows: [unknown, string][] = [
    ["a", "a"],
    [[1, -0, "a", 2n, null], '[1, -0, "a", 2n, null]'],
    [{ re: 1, im: NaN }, "{ re: 1, im: NaN }"],
    [new Float32Array([0.5, 2]), "Float32Array [0.5, 2]"],
    [new RangeError("no"), "RangeError: no"],
    [undefined, "undefined"],
  ];
  for (const [value, want] of rows) assert.equal(textOf(value), want);
});

Deno.test("site: examples that need more than a page are shown, not run", () => {
  assert.ok(isRunnable("nn", "ts", 'import { Tensor } from "../mod.ts";'));
  for (
    const code of [
      'import { UPat } from "../src/ir/ir.ts";',
      "Deno.serve(f);",
      "await state.safeSave(a, path);",
      'import { Tensor } from "https://example.com/mod.ts";',
    ]
  ) {
    assert.ok(!isRunnable("nn", "ts", code), code);
  }
  assert.ok(!isRunnable("nn", "ts ignore", "x;") && !isRunnable("nn", "sh", "ls"));
});

// in a process of its own: its driver is in no lock file, which would have every run fetch it
const args = ["run", "-A", "--no-lock", "--no-check", "tests/site/browse.ts"];
const { stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
const seen = (stdout === "" ? stderr : JSON.parse(stdout.trim().split("\n").at(-1)!)) as Seen | string;
if (typeof seen === "string" && stdout === "") throw new Error(`the site was not visited: ${seen}`);
if (typeof seen === "string") console.log(`Chromium is left out: ${seen}`);

Deno.test({
  name: "Chromium: examples of the site run, search finds, pages fit a phone",
  ignore: typeof seen === "string",
  fn: () => {
    const { printed, value, wrong, found, widths, backs, errors } = seen as Seen;
    assert.deepEqual(errors, []);
    assert.equal(printed, "[2, 2] true\n[[2.5, 2.5], [4.5, 4.5]]");
    assert.equal(value, "int32 [2]: [0, 2]");
    assert.match(wrong, /^ShapeError: Cannot reshape/);
    assert.match(found[0], /^softmax\n/);
    assert.deepEqual(widths, [360, 360, 360, 360, 360]);
    assert.deepEqual(backs, ["rgb(20, 23, 26)", "rgb(255, 255, 255)"]);
  },
});
