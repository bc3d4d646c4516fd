/** `deno task onnx MODEL --bench` as people call it: free sizes, names that are not there, files that are none. */
import assert from "node:assert/strict";
import { runDeno } from "../system/subprocess.ts";
import { buildModel } from "./build_model.ts";

const folder = Deno.makeTempDirSync({ prefix: "dinograd-test-" }), model = `${folder}/window.onnx`;
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const port = [1, ["batch", 1, "length"]] as const;
Deno.writeFileSync(
  model,
  buildModel({
    nodes: [["Conv", ["x", "w"], ["y"], {}, "window"]],
    initializers: [{ name: "w", dims: [1, 1, 4], values: [1, 2, 3, 4] }],
    inputs: { x: port },
    outputs: { y: port },
  }),
);

async function command(...args: string[]): Promise<{ code: number; text: string; lines: number }> {
  const all = ["run", "-A", "--no-check", "src/onnx/onnx_command.ts", ...args];
  const { code, stdout, stderr } = await runDeno(all);
  return { code, text: stdout + stderr, lines: stderr.trim().split("\n").length };
}
const BENCH = [model, "--bench", "--device", "WASM", "--runs", "2"];

Deno.test("deno task onnx: a size that is free is given by its name, and the error of another says so", async () => {
  const made = await command(...BENCH, "--sizes", "length=9");
  assert.equal(made.code, 0, made.text);
  assert.match(made.text, /x: float\[batch, 1, length\]\n[^]*then [\d.]+ ms a run \(median of 2\), 1 kernels/);
  const { code, text, lines } = await command(...BENCH);
  assert.equal(code, 1);
  assert.match(
    text,
    /Conv "window": a window of 4 does not fit into 1; free sizes were batch=1,length=1: give others by --sizes name=n/,
  );
  assert.equal(lines, 1);
});

Deno.test("deno task onnx: what is asked for wrongly is told in a line", async () => {
  for (
    const [args, why] of [
      [[...BENCH, "--sizes", "width=9"], /There is no "width" for --sizes: batch, length$/],
      [[...BENCH, "--values", "y=9"], /There is no "y" for --values: x$/],
      [[...BENCH.slice(0, -1), "few"], /--runs takes a number, not "few"$/],
      [[...BENCH, "--size", "length=9"], /There is no option --size: deno task onnx MODEL/],
      [[`${folder}/none.onnx`], /none\.onnx/],
      [[new URL(import.meta.url).pathname], /Cannot tell about an ONNX model .*: it is text/],
      [[], /Name one model: deno task onnx MODEL/],
    ] as const
  ) {
    const { code, text, lines } = await command(...args);
    assert.deepEqual([code, lines], [1, 1], text);
    assert.match(text.trim(), why);
  }
});
