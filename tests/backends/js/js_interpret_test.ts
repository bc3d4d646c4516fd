/**
 * JS where code must not be made of text, as under a page's policy without 'unsafe-eval': its tests and a third of the
 * golden cases, with kernels and rewrite rules interpreted.
 */
import { match, strictEqual } from "node:assert/strict";
import { runDeno } from "../../system/subprocess.ts";

const FORBID = "--v8-flags=--disallow-code-generation-from-strings";

for (
  const [name, args, least] of [
    [
      "its own tests, and those of the rewriter",
      ["tests/backends/js/js_test.ts", "tests/uop/rewrite/rewrite_test.ts"],
      20,
    ],
    ["golden cases", ["--filter=/golden JS: /", "tests/golden/golden_test.ts"], 900],
  ] as const
) {
  Deno.test(`JS without code from text: ${name}`, async () => {
    const options = { env: { DEV: "JS", GOLDEN_EVERY: "3" }, timeoutMs: 600_000 };
    const { code, stdout, stderr } = await runDeno(["test", "-A", "--no-check", FORBID, ...args], options);
    const [, passed, failed] = /(\d+) passed(?: \(\d+ steps\))? \| (\d+) failed/.exec(stdout) ?? [];
    strictEqual(`${code} ${failed}`, "0 0", stdout.slice(-3000) + stderr);
    strictEqual(Number(passed) >= least, true, `${passed} passed`);
  });
}

Deno.test("JS without code from text: it is forbidden there", async () => {
  const { stdout } = await runDeno(["eval", FORBID, 'try { new Function("")() } catch (e) { console.log(e.name) }']);
  match(stdout, /EvalError/);
});
