/**
 * Small programs that people take elsewhere first, each as plain and fast C and as a module, which do the recorded call again,
 * and as an ONNX file, which gives here what the function gives: recurrent state, attention, pictures, spectra, rankings,
 * every kind of number, results that are numbers, empty, several or what came in, and steps of training.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor, Variable } from "../../mod.ts";
import { exportModel } from "../../src/export/export.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { compilersHere, run } from "./build.ts";
import { wave } from "./programs.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const [compiler] = compilersHere().filter((c) => !c.isCpp);

/** A function, what it is called with, and what has its weights; what ONNX says of it where it has no form for it. */
interface Made {
  readonly f: (...args: never[]) => unknown;
  readonly args: readonly unknown[];
  readonly weights?: unknown;
  readonly refused?: RegExp;
}
const of = (f: Made["f"], args: readonly unknown[], more: Partial<Made> = {}): Made => ({ f, args, ...more });
const whole = (list: readonly number[], dtype: "int32" | "uint8" | "bool" | "int64" = "int32") =>
  new Tensor(list.slice(), { dtype }).realize();

const PROGRAMS: Readonly<Record<string, () => Made>> = {
  lstm_stream: () => {
    const weights = new nn.LSTMCell(4, 6), [h, c] = [0, 1].map(() => Tensor.zeros([1, 6]).contiguous().realize());
    const f = (x: Tensor) => {
      const [nextH, nextC] = weights.call(x, [h, c]);
      h.assign(nextH);
      c.assign(nextC);
      return nextH.sum(1);
    };
    return of(f, [wave([1, 4])], { weights, refused: /a graph has no state/ });
  },
  block: () => {
    const attend = new nn.MultiheadAttention(8, 2), norm = new nn.LayerNorm(8);
    const f = (x: Tensor) => {
      const y = norm.call(x);
      return x.add(attend.call(y, y, y)[0]).gelu();
    };
    return of(f, [wave([1, 5, 8])], { weights: { attend, norm } });
  },
  picture: () => {
    const conv = new nn.Conv2d(3, 4, 3), norm = new nn.BatchNorm2d(4), weights = { conv, norm };
    return of((x: Tensor) => norm.call(conv.call(x)).relu().maxPool2d(2).mean([2, 3]), [wave([1, 3, 10, 10])], {
      weights,
    });
  },
  // so many loops inside of each other that each takes its lanes alone
  pooled: () => {
    const weights = new nn.Conv2d(3, 8, 3);
    return of((x: Tensor) => weights.call(x).gelu().mean([2, 3]).softmax(), [wave([1, 3, 12, 12])], { weights });
  },
  resized: () => of((x: Tensor) => x.interpolate([7, 9], { mode: "bilinear" }), [wave([1, 2, 4, 5])]),
  spectrum: () => of((x: Tensor) => x.rfft().abs().square().add(1e-6).log(), [wave([16])]),
  ranking: () =>
    of((x: Tensor) => {
      const [values, indices] = x.topk(3);
      return { values, indices };
    }, [wave([2, 9])]),
  order: () => of((x: Tensor) => x.argsort(-1).cast("int64"), [wave([11])]),
  bytes: () =>
    of((x: Tensor) => x.float().div(255).sub(0.5).sum(-1), [whole([1, 2, 255, 128, 0, 7], "uint8").reshape([2, 3])]),
  mask: () => of((m: Tensor, x: Tensor) => m.where(x, 0).sum(), [whole([1, 0, 1], "bool"), wave([3])]),
  words: () => {
    const weights = new nn.Embedding(7, 3);
    return of((i: Tensor) => weights.call(i), [whole([1, 6, 0], "int64")], { weights });
  },
  doubles: () => of((x: Tensor) => x.exp().sum(0).log(), [wave([4, 3]).cast("float64").realize()]),
  halves: () => of((x: Tensor) => x.mul(2).add(1), [wave([6]).half().realize()]),
  narrow: () => of((x: Tensor) => x.matmul(x.T), [wave([3, 4]).cast("bfloat16").realize()]),
  sums: () => of((x: Tensor) => x.cumsum(1).flip(1), [wave([3, 40])]),
  draws: () => of((x: Tensor) => x.add(Tensor.rand([5])), [wave([5])], { refused: /draws random numbers/ }),
  learning: () => {
    const weights = new nn.Linear(3, 2), optimizer = new nn.optim.SGD([weights.weight, weights.bias!], { lr: 0.1 });
    const f = (x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = weights.call(x).sub(y).square().mean().backward();
        optimizer.step();
        return loss;
      });
    return of(f, [wave([4, 3]), wave([4, 2])], { weights, refused: /it reads or realizes/ });
  },
  sizes: () => {
    const n = new Variable("n", 1, 8), args = [wave([8]), n.bind(5)];
    return of((x: Tensor, n: Tensor) => x.at([0, n]).softmax(0).sum(), args, {
      refused: /a bound variable, and a graph/,
    });
  },
  solved: () => of((a: Tensor, b: Tensor) => a.add(Tensor.eye(4).mul(5)).solve(b), [wave([4, 4]), wave([4, 2])]),
  moved: () => of((x: Tensor, at: Tensor) => x.gridSample(at.mul(0.5)), [wave([1, 2, 5, 5]), wave([1, 3, 3, 2])]),
  sequence: () => {
    const weights = new nn.GRU(3, 4);
    return of((x: Tensor) => weights.call(x)[0], [wave([6, 1, 3])], { weights });
  },
  nothing: () => of((x: Tensor) => x.at([0, 0]), [wave([3])]),
  same: () => of((x: Tensor) => x, [wave([3])]),
  table: () => of(() => Tensor.arange(5).mul(2), []),
  collected: () =>
    of((x: Tensor, i: Tensor) => Tensor.zeros([5]).scatterAdd(0, i, x), [wave([6]), whole([0, 1, 1, 4, 2, 0])]),
};

/** All numbers of tensors in a result. */
async function numbersOf(result: unknown): Promise<number[]> {
  const tensors = result instanceof Tensor ? [result] : Object.values(result as Record<string, Tensor>),
    out: number[] = [];
  for (const t of tensors) out.push(...[await t.tolist()].flat(9).map(Number));
  return out;
}

for (const [name, make] of Object.entries(PROGRAMS)) {
  Deno.test({
    name: `first programs: ${name} in C`,
    ignore: compiler === undefined,
    async fn() {
      for (const style of ["plain", "fast"] as const) {
        const { f, args, weights } = make(), at = `${folder}/${name}_${style}`;
        await (await exportModel(f, args, { target: "c", style, name, weights })).write(at);
        const flags = `-std=c11 -O1 -Wall -Wextra -Werror -pedantic -D${name.toUpperCase()}_EMBED`.split(" ");
        await run(compiler.path, [...flags, `${name}.c`, `${name}_test.c`, "-o", "test", "-lm"], at);
        assert.match(await run(`${at}/test`, [], at), /largest difference from what was recorded/);
      }
    },
  });
  Deno.test(`first programs: ${name} as a module`, async () => {
    const { f, args, weights } = make(), at = `${folder}/${name}_wasm`;
    await (await exportModel(f, args, { target: "wasm", name, weights })).write(at);
    assert.match(await run(Deno.execPath(), ["run", "-A", "--no-check", `${name}_test.js`], at), /largest difference/);
  });
  Deno.test(`first programs: ${name} as ONNX`, async () => {
    const { f, args, refused } = make();
    if (refused !== undefined) return await assert.rejects(() => onnx.toBytes(f, args), refused);
    const model = await onnx.load(await onnx.toBytes(f, args));
    const got = await numbersOf(model.call(...args as Tensor[])), want = await numbersOf(f(...args as never[]));
    assert.equal(got.length, want.length);
    got.forEach((x, i) =>
      assert.ok(Math.abs(x - want[i]) <= 1e-5 * Math.max(1, Math.abs(want[i])), `${x}, not ${want[i]}`)
    );
  });
}

Deno.test({
  name: "first programs: what is compiled for newer machines, too, gives the same bits",
  ignore: compiler === undefined,
  async fn() {
    Tensor.manualSeed(4);
    const weights = new nn.Conv2d(3, 8, 3), at = `${folder}/machines`, name = "machines";
    const f = (x: Tensor) => weights.call(x).gelu().sum([2, 3]).softmax();
    await (await exportModel(f, [wave([1, 3, 12, 12])], { target: "c", name, weights })).write(at);
    await Deno.writeTextFile(
      `${at}/bits.c`,
      `#include "machines.h"
#include <stdio.h>
static machines_context context;
static float x[432], y[8];
int main(void) {
  int i;
  for (i = 0; i < 432; i++) x[i] = (float)(i % 17) / 17;
  machines_init(&context, machines_weights());
  machines_run(&context, x, y);
  for (i = 0; i < 8; i++) printf("%a ", (double)y[i]);
  return 0;
}
`,
    );
    const bits: string[] = [];
    for (const flag of ["-DANY", "-DONE_MACHINE"]) {
      const flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DMACHINES_EMBED", flag];
      await run(compiler.path, [...flags, "bits.c", "machines.c", "-o", "bits", "-lm"], at);
      bits.push(await run(`${at}/bits`, [], at));
    }
    assert.match(bits[0], /^(?:0x1(?:\.[0-9a-f]+)?p[-+]\d+ ){8}$/);
    assert.equal(bits[0], bits[1]);
  },
});
