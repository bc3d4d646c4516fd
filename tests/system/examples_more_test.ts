/** Each example does what its first lines say, with the permissions that they name, and prints what it claims. @module */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "./subprocess.ts";
import { inFolder } from "../support/folder.ts";

/** Runs an example, and gives what it printed. */
async function output(name: string, flags: readonly string[] = [], args: readonly string[] = [], cwd?: string) {
  const file = new URL(`examples/${name}`, ROOT).href;
  const { code, stdout, stderr } = await runDeno(["run", "--no-check", "--no-prompt", ...flags, file, ...args], {
    cwd,
  });
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The numbers that `pattern` captures. */
function numbers(text: string, pattern: RegExp): number[] {
  return [...text.matchAll(pattern)].map((m) => Number(m[1]));
}

Deno.test("examples: regression finds the slopes and the offset", async () => {
  const text = await output("regression.ts");
  const errors = numbers(text, /mean squared error ([\d.]+)/g);
  assert.equal(errors.length, 4);
  assert.ok(errors[0] > 5 && errors[3] < 0.02, String(errors));
  const [, a, b] = /^slopes (\S+), (\S+) in truth 3, -2$/m.exec(text)!.map(Number);
  assert.ok(Math.abs(a - 3) < 0.05 && Math.abs(b + 2) < 0.05, text);
  assert.ok(Math.abs(numbers(text, /^offset (\S+) in truth 0.5$/gm)[0] - 0.5) < 0.05, text);
  assert.ok(numbers(text, /explained variance ([\d.]+)/g)[0] > 0.99, text);
});

Deno.test("examples: the perceptron tells the spirals apart, also where it has not been", async () => {
  const text = await output("mlp.ts");
  const accuracies = numbers(text, /on new points ([\d.]+) %/g);
  assert.equal(accuracies.length, 6, text);
  assert.ok(accuracies[5] > 95, text);
});

Deno.test("examples: the convnet reads digits by other writers", async () => {
  const text = await output("convnet.ts", [], ["4"]);
  assert.match(text, /CC BY 4\.0/);
  const losses = numbers(text, /^epoch \d+ {2}loss ([\d.]+)$/gm);
  assert.ok(losses.length === 4 && losses[3] < 0.2 && losses[3] < losses[0], text);
  assert.ok(numbers(text, /accuracy on 360 images by other writers: ([\d.]+) %/g)[0] > 90, text);
});

Deno.test("examples: weights survive a file", () =>
  inFolder(async (dir) => {
    const text = await output("save_load.ts", ["--allow-read", "--allow-write"], [], dir);
    assert.ok(numbers(text, /before loading: (\S+)/g)[0] > 0, text);
    assert.deepEqual(numbers(text, /after loading: +(\S+)/g), [0], text);
    assert.match(text, /layers\.0\.weight +float32 \[16,4\]/);
    assert.match(text, /it lacks norm\.weight/);
    assert.equal(Deno.statSync(`${dir}/net.safetensors`).size, numbers(text, /net\.safetensors: (\d+) bytes/g)[0]);
  }));

Deno.test("examples: a training loop is stopped and gone on with, and its log is the same", () =>
  inFolder(async (dir) => {
    const flags = ["--allow-read", "--allow-write"];
    const run = (out: string, ...args: string[]) => output("train.ts", flags, ["--out", out, ...args], dir);
    const [whole, part] = await Promise.all([run("a", "--epochs", "2"), run("b", "--epochs", "1")]);
    assert.ok(numbers(whole, /test accuracy ([\d.]+) %/g)[1] > 85, whole);
    assert.equal(numbers(part, /^epoch (\d+)/gm).length, 1);
    assert.match(await run("b", "--epochs", "2", "--resume"), /goes on from b\/epoch-001\.safetensors/);
    const read = (path: string) => Deno.readTextFileSync(`${dir}/${path}`);
    assert.equal(read("b/log.csv"), read("a/log.csv"));
    assert.equal(read("b/curves.svg"), read("a/curves.svg"));
    assert.deepEqual([...Deno.readDirSync(`${dir}/a`)].map((e) => e.name).sort(), [
      "curves.svg",
      "epoch-001.safetensors",
      "epoch-002.safetensors",
      "log.csv",
    ]);
  }));

Deno.test("examples: docs/README.md lists each of them", () => {
  const page = Deno.readTextFileSync(new URL("docs/README.md", ROOT));
  const listed = [...page.matchAll(/^\| `(\w+\.ts)` /gm)].map((m) => m[1]).sort();
  const there = [...Deno.readDirSync(new URL("examples/", ROOT))].map((e) => e.name);
  assert.deepEqual(listed, there.filter((n) => n.endsWith(".ts") && !n.endsWith("_support.ts")).sort());
});
