/**
 * Programs that run, end and run again: what an earlier process left in the cache folder changes no bit of what the next
 * one computes, also where that one was ended, its files are cut or filled with zeros, and two run at once.
 *
 * @module
 */
import assert from "node:assert/strict";
import { inFolder } from "../support/folder.ts";
import { ROOT, runDeno } from "../system/subprocess.ts";

/** A notebook: a step of training under jit, rows that are written at places told late, a slice whose end is a variable. */
const PROGRAM = `
  import { jit, nn, state, Tensor, Variable } from "${ROOT}mod.ts";
  const width = Number(Deno.env.get("WIDTH") ?? 6), told = [];
  const put = async (t) => told.push([...new Uint8Array((await t.contiguous().data()).slice().buffer)].join());
  Tensor.manualSeed(5);
  const model = { a: new nn.Linear(5, width), b: new nn.Linear(width, 3) }, weights = state.getParameters(model);
  const optimizer = new nn.optim.AdamW(weights, { lr: 0.01 });
  const x = Tensor.rand([8, 5]).realize(), y = Tensor.randint([8], { high: 3 }).realize();
  const step = jit((x, y) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.b.call(model.a.call(x).relu()).crossEntropy(y).backward();
      optimizer.step();
      return loss;
    })
  );
  for (let i = 0; i < 4; i++) await put(step(x, y));
  for (const w of weights) await put(w);
  const rows = Tensor.zeros([6, 4]).contiguous().realize(), n = new Variable("n", 1, 6);
  for (let i = 1; i < 4; i++) {
    rows.setAt([[i, i + 2]], Tensor.ones([2, 4]).mul(i)).realize();
    await put(rows.at([0, n.bind(i)]).sum());
  }
  await put(rows);
  console.log(told.join(";"));
`;

async function told(cache: string, env?: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await runDeno(["eval", "--no-check", PROGRAM], {
    env: { DEV: "WASM", CACHEDIR: cache, NOOPT: "0", SPEC: "0", ...env },
  });
  assert.equal(code, 0, stderr);
  return stdout;
}
function* filesOf(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    if (isDirectory) yield* filesOf(`${folder}/${name}`);
    else yield `${folder}/${name}`;
  }
}

Deno.test("restarts: a second process tells what the first one told, whatever ran in between", async () => {
  await inFolder(async (folder) => {
    const cache = `${folder}/cache`, first = await told(cache);
    const fresh = { SCACHE: "0", CACHEDIR: `${folder}/other` };
    for (const [name, value] of [["WIDTH", "7"], ["NOOPT", "1"]]) {
      const env = { [name]: value };
      const before = await told(cache, env);
      assert.equal(before, await told(cache, { ...env, ...fresh }));
      assert.equal(await told(cache), first);
    }
  });
});

Deno.test("restarts: files that are cut, or are zeros, cost time alone", async () => {
  await inFolder(async (folder) => {
    const cache = `${folder}/cache`, first = await told(cache);
    for (const path of filesOf(cache)) Deno.truncateSync(path, Deno.statSync(path).size * 2 / 3);
    assert.equal(await told(cache), first);
    for (const path of filesOf(cache)) Deno.writeFileSync(path, new Uint8Array(Deno.statSync(path).size));
    assert.equal(await told(cache), first);
    assert.equal(await told(cache), first);
  });
});

Deno.test("restarts: two processes at once fill one folder", async () => {
  await inFolder(async (folder) => {
    const cache = `${folder}/cache`, [a, b] = await Promise.all([told(cache), told(cache)]);
    assert.equal(a, b);
    assert.equal(await told(cache), a);
  });
});
