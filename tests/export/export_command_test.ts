/**
 * `deno task export` as people call it: a model, several functions that share weights and state for every target, and what
 * it says of programs that give nothing.
 */
import assert from "node:assert/strict";
import { ROOT } from "../system/subprocess.ts";
import { compilersHere, run } from "./build.ts";

const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

const HEAD = `import { Device, nn, state, Tensor } from "${new URL("mod.ts", ROOT).href}";
Device.default = "WASM";
Tensor.manualSeed(1);
const net = new nn.Linear(2, 3), x = new Tensor([[1.5, -2]]), y = new Tensor([2]);
await Tensor.realize(state.getParameters(net));
const optimizer = new nn.optim.SGD(state.getParameters(net), { lr: 0.5 });
const learn = (x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = net.call(x).crossEntropy(y).backward();
    optimizer.step();
    return loss;
  });
`;
const PROGRAMS: Readonly<Record<string, string>> = {
  one: `${HEAD}export const exported = { f: net, args: [x] };\n`,
  two: `${HEAD}export const exported = { entries: { learn: [learn, [x, y]], scores: [net, [x]] }, weights: net };\n`,
  none: "export const other = 1;\n",
  torn: `${HEAD}export const exported = { f: net };\n`,
  wrong: `${HEAD}export const exported = { entries: { scores: net } };\n`,
};
for (const [name, text] of Object.entries(PROGRAMS)) Deno.writeTextFileSync(`${folder}/${name}.ts`, text);

/** What the command prints. */
async function command(...args: string[]): Promise<{ success: boolean; text: string }> {
  const file = new URL("src/export/export_command.ts", ROOT).pathname;
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", file, ...args],
    cwd: folder,
  }).output();
  return { success, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}
async function made(...args: string[]): Promise<string> {
  const { success, text } = await command(...args);
  assert.ok(success, text);
  return text;
}

Deno.test("deno task export: a model by its method call, with the names of its weights", async () => {
  assert.match(await made("one.ts", "--style", "plain", "--out", "one"), /make -C one && one\/example/);
  const header = Deno.readTextFileSync(`${folder}/one/one.h`);
  assert.match(header, /void one_run\(one_context \*context, const float \w+\[2\], float y\[3\]\);/);
  assert.match(Deno.readTextFileSync(`${folder}/one/one.c`), /weight/);
});

Deno.test("deno task export: functions that share what one of them learns, in C", async () => {
  await made("two.ts", "--out=c", "--name", "agent");
  const header = Deno.readTextFileSync(`${folder}/c/agent.h`);
  assert.match(
    header,
    /void agent_learn\(agent_context \*context, const float x\[2\], const int y\[1\], float \w+\[1\]\)/,
  );
  assert.match(header, /void agent_scores\(agent_context \*context, const float x\[2\], float y\[3\]\)/);
  const [compiler] = compilersHere();
  if (compiler === undefined) return;
  await Deno.writeTextFile(
    `${folder}/c/main.c`,
    `#include "agent.h"
#include <stdio.h>
static agent_context c;
int main(void) {
  const float x[2] = {1.5f, -2};
  const int label[1] = {2};
  float loss[1], scores[3];
  agent_init(&c, agent_weights());
  for (int i = 0; i < 40; i++) {
    agent_learn(&c, x, label, loss);
    agent_scores(&c, x, scores);
    if (i == 0 || i == 39) printf("%g %g ", (double)loss[0], (double)(scores[2] - scores[0]));
  }
  return 0;
}
`,
  );
  const at = `${folder}/c`;
  await run(compiler.path, ["-std=c11", "-DAGENT_EMBED", "-o", "main", "main.c", "agent.c", "-lm"], at);
  const [loss, margin, later, wider] = (await run("./main", [], at)).trim().split(" ").map(Number);
  assert.ok(later < 0.2 * loss && wider > margin + 1, `${loss} ${margin} ${later} ${wider}`);
});

Deno.test("deno task export: functions for a page, a module and Deno", async () => {
  for (const target of ["wasm", "web", "deno"]) {
    const text = await made("two.ts", "--target", target, "--out", target, ...(target === "web" ? ["--single"] : []));
    if (target === "web") assert.match(text, /open web\/index.html/);
  }
  const { load } = await import(`file://${folder}/wasm/two.js`), m = await load();
  const before = m.scores([1.5, -2])[2], first = m.learn([1.5, -2], [2])[0], second = m.learn([1.5, -2], [2])[0];
  assert.ok(second < first && m.scores([1.5, -2])[2] > before);
  const main = `${folder}/deno/main.ts`;
  const answers = await run(Deno.execPath(), ["run", "--allow-read", main, "learn", "scores", "[1.5, -2]"], folder);
  assert.equal(answers.trim().split("\n").length, 2);
  assert.equal((JSON.parse(answers.trim().split("\n")[1]).y as number[]).length, 3);
});

Deno.test("deno task export: what gives nothing to write down is told what to give", async () => {
  for (
    const [file, why] of [
      ["none.ts", /none\.ts exports nothing to write down: export const exported = \{ f, args/],
      ["torn.ts", /torn\.ts lacks a part: export const exported/],
      ["wrong.ts", /scores must be \[f, args\], not a Linear/],
    ] as const
  ) {
    const { success, text } = await command(file, "--out", "nowhere");
    assert.ok(!success);
    assert.match(text, why);
  }
  assert.match((await command("two.ts", "--target", "rust")).text, /target must be one of "c", "wasm"/);
});
