/** The examples run as the README says: the quickstart without any permission. @module */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "./subprocess.ts";
import { inFolder } from "../support/folder.ts";

Deno.test("examples: the quickstart needs no permission", async () => {
  const { code, stdout, stderr } = await runDeno(["run", "--no-check", "--no-prompt", "examples/quickstart.ts"]);
  assert.equal(code, 0, stderr);
  const losses = stdout.split("\n").flatMap((l) => /^step \d+ {2}loss ([\d.]+)$/.exec(l)?.[1] ?? []).map(Number);
  assert.equal(losses.length, 6);
  assert.ok(losses[5] < 0.01 && losses[5] < losses[0], String(losses));
});

Deno.test("examples: a short demo trains, saves, reloads and closes with its accuracy", () =>
  inFolder(async (dir) => {
    const demo = new URL("examples/demo.ts", ROOT).href;
    const child = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", demo, "--epochs", "2", "--seed", "1"],
      cwd: dir,
      stdin: "null",
    }).output();
    const text = new TextDecoder().decode(child.stdout), errors = new TextDecoder().decode(child.stderr);
    assert.equal(child.code, 0, errors);
    assert.match(text.trimEnd().split("\n").at(-1)!, /^test accuracy \d+\.\d\d %$/);
    assert.match(text, /360 of 360 predictions are equal/);
    assert.match(text, /\d+ kernels a step, [\d.]+ ms a step/);
    assert.ok(Deno.statSync(`${dir}/digits.safetensors`).size > 10_000);
    assert.equal(errors.includes("█"), false);
  }));

Deno.test("examples: the demo refuses unknown options", async () => {
  const { code, stderr } = await runDeno(["run", "--no-check", "-A", "examples/demo.ts", "--sead", "1"]);
  assert.equal(code, 2);
  assert.match(stderr, /--sead.*--seed N/);
});
