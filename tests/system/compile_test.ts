/**
 * `deno compile` of the quickstart, and what its binary prints. Deno fetches the runtime that it puts into binaries, so
 * the test is left out where that cannot be had.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type Outcome, runCommand, runDeno } from "./subprocess.ts";

const dir = await Deno.makeTempDir({ prefix: "dinograd-test-" });
globalThis.addEventListener("unload", () => Deno.removeSync(dir, { recursive: true }));
const binary = `${dir}/quickstart${Deno.build.os === "windows" ? ".exe" : ""}`;
const compiled: Outcome = await runDeno(
  ["compile", "--no-check", "--output", binary, "examples/quickstart.ts"],
  { timeoutMs: 60_000 },
);
/** Deno says so when it looks for its runtime and fails; every other failure is ours. */
const lacksRuntime = compiled.code !== 0 && /Setting up base binary|denort|dl\.deno\.land/.test(compiled.stderr);

/** The losses and the two guesses that the quickstart prints. */
function valuesIn(text: string): { device: string; losses: number[]; guesses: number[] } {
  const device = /^training on (\S+)$/m.exec(text)?.[1] ?? "";
  const losses = [...text.matchAll(/^step \d+ {2}loss (\S+)$/gm)].map((m) => Number(m[1]));
  const guesses = [...(/= (\[.*?\]) should/s.exec(text)?.[1] ?? "").matchAll(/[\d.]+/g)].map((m) => Number(m[0]));
  return { device, losses, guesses };
}

Deno.test({
  name: "compile: the binary of the quickstart prints what the quickstart prints (denort)",
  ignore: lacksRuntime,
  async fn() {
    assert.equal(compiled.code, 0, compiled.stderr);
    // from elsewhere, with nothing on PATH: it needs no file and no tool
    const made = await runCommand(binary, [], { cwd: dir, env: { PATH: "" } });
    assert.equal(made.code, 0, made.stderr);
    const source = await runDeno(["run", "--no-prompt", "examples/quickstart.ts"]);
    assert.equal(source.code, 0, source.stderr);
    const values = valuesIn(made.stdout);
    assert.deepEqual(values, valuesIn(source.stdout));
    assert.equal(values.device, "WASM");
    assert.equal(values.losses.length, 6);
    assert.ok(values.losses[5] < 0.01, String(values.losses));
    const [a, b] = values.guesses;
    assert.ok(Math.abs(a - Math.sin(0.5)) < 0.1 && Math.abs(b - Math.sin(1.5)) < 0.1, String(values.guesses));
  },
});
