/**
 * What newcomers write around tensors: lists where positions, weights and labels go, functions of functions without
 * annotations, data sets of their own in threads, logs that are closed at once, plots. Values are PyTorch's.
 */
import assert from "node:assert/strict";
import { ArgumentError, checkpoint, grad, hessian, jacobian, jit, nn, Tensor, valueAndGrad, vmap } from "../../mod.ts";
import { plot, SummaryWriter } from "../../src/train/train.ts";
import { inFolder } from "../support/folder.ts";
import { equal, onAllDevices, thrown } from "./reported.ts";

const F = (v: ConstructorParameters<typeof Tensor>[0]): Tensor => new Tensor(v, { dtype: "float32" });

onAllDevices("newcomers", "positions, masks, weights and labels may be lists", async () => {
  const x = F([[1, 2, 3], [4, 5, 6]]), row = F([1, 2, 3]);
  await equal(x.gather(1, [[0], [1]]), [[1], [5]]);
  await equal(x.scatter(1, [[0], [1]], 9), [[9, 2, 3], [4, 9, 6]]);
  await equal(x.indexSelect(-1, [2, 0]), [[3, 1], [6, 4]]);
  await equal(x.indexAdd(1, new Int32Array([0, 0]), [[1, 1], [2, 2]]), [[3, 2, 3], [8, 5, 6]]);
  await equal(x.indexCopy(0, [1], [[7, 8, 9]]), [[1, 2, 3], [7, 8, 9]]);
  await equal(x.indexFill(1, [1], 0), [[1, 0, 3], [4, 0, 6]]);
  await equal(x.indexReduce(1, [0], [[2], [3]], "prod"), [[2, 2, 3], [12, 5, 6]]);
  await equal(x.take([0, 5]), [1, 6]);
  await equal(x.put([0, 5], [8, 9]), [[8, 2, 3], [4, 5, 9]]);
  await equal(x.takeAlongDim([[2], [0]], 1), [[3], [4]]);
  await equal(await x.maskedSelect([true, false, true]), [1, 3, 4, 6]);
  await equal(row.convolve([0, 1, 0.5]), [0, 1, 2.5, 4, 1.5], 1e-6);
  await equal(row.correlate([1, 2]), [5, 8]);
  await equal(F([0.5, 1.5]).interp([0, 1, 2], [10, 20, 15]), [15, 17.5], 1e-6);
  await equal(F([0, 1, 2, 3]).polyfit([1, 3, 5, 7], 1), [2, 1], 1e-5);
  await equal(row.average(0, { weights: [1, 1, 2] }), 2.25, 1e-6);
  await equal(await new Tensor([0, 1, 1]).bincount({ weights: [1.5, 2, 3] }), [1.5, 5]);
  await equal(x.cov({ fweights: [1, 2, 1] }), [[2 / 3, 2 / 3], [2 / 3, 2 / 3]], 1e-5);
  await equal(row.trapezoid([0, 1, 3]), 6.5, 1e-6);
  await equal(row.outer([1, 2]), [[1, 2], [2, 4], [3, 6]]);
  await equal(row.cross([0, 0, 1]), [2, -1, 0]);
  await equal(row.kron([1, 2]), [1, 2, 2, 4, 3, 6]);
  await equal(row.vdot([1, 2, 3]), 14);
  await equal(row.inner([1, 2, 3]), 14);
  await equal(x.tensordot([1, 2, 3], 1), [14, 32]);
  await equal(x.crossEntropy([2, 0]), 1.4076059, 1e-5);
  await equal(x.logSoftmax(1).nllLoss([2, 0]), 1.4076059, 1e-5);
  // the gradient goes on through what is no list
  await equal(grad((w) => w.indexSelect(0, [2, 2]).sum())(row), [0, 0, 2]);
  const step = jit((v: Tensor) => v.take([2, 0]).outer([1, 2]));
  for (let i = 0; i < 3; i++) await equal(step(row.add(i).realize()), [[3 + i, 6 + 2 * i], [1 + i, 2 + 2 * i]]);
});

Deno.test("newcomers: a number where positions go, and labels that are none, are errors", () => {
  const x = F([[1, 2, 3]]);
  assert.deepEqual(thrown(() => x.take(5 as never)), [
    "ArgumentError",
    "Cannot take: index must be a tensor, not 5",
  ]);
  assert.deepEqual(thrown(() => x.maskedSelect("all" as never)), [
    "ArgumentError",
    'Cannot maskedSelect: mask must be a tensor, not "all"',
  ]);
  assert.deepEqual(thrown(() => x.maskedSelect([1, 0, 1])), [
    "DTypeError",
    "Cannot maskedSelect with a mask of dtype int32: the mask must be a bool tensor",
  ]);
  assert.equal(thrown(() => x.indexSelect(1, [0.5]))[0], "IndexError");
});

onAllDevices("newcomers", "derivatives by several arguments", async () => {
  const x = F([1, 2]), y = F([3, 5, 7]);
  const [byX, byY] = jacobian((x, y) => x.unsqueeze(1).mul(y.square()), { argnums: [0, 1] })(x, y);
  assert.deepEqual([byX.shape, byY.shape], [[2, 3, 2], [2, 3, 3]]);
  await equal(byX, [[[9, 0], [25, 0], [49, 0]], [[0, 9], [0, 25], [0, 49]]]);
  await equal(byY.at(1), [[12, 0, 0], [0, 20, 0], [0, 0, 28]]);
  const second = hessian((x, y) => x.prod().mul(y.square().sum()), { argnums: [0, 1] })(x, y);
  await equal(second, [[[[0, 83], [83, 0]], [[12, 20, 28], [6, 10, 14]]], [
    [[12, 6], [20, 10], [28, 14]],
    [[4, 0, 0], [0, 4, 0], [0, 0, 4]],
  ]], 1e-6);
  await equal(jacobian((a, b) => a.mul(b), { argnums: 1 })(x, x), [[1, 0], [0, 2]]);
  assert.deepEqual(thrown(() => jacobian((a) => a, { argnums: [0, -1] })), [
    "ArgumentError",
    "Cannot compute jacobian: argnums must be an integer of at least 0, not -1",
  ]);
  assert.throws(() => hessian((a) => a.sum(), { argnums: [0, 1] })(x), /argument 1 must be a tensor of floats/);
});

onAllDevices("newcomers", "parameters without annotations are tensors", async () => {
  const x = F([1, 2]);
  await equal(vmap((row) => row.mul(row.sum()))(F([[1, 2], [3, 4]])), [[3, 6], [21, 28]]);
  await equal(checkpoint((v) => v.square())(x), [1, 4]);
  await equal(jit((v) => v.add(1))(x), [2, 3]);
  const [value, slope] = valueAndGrad((v) => v.square().sum())(x);
  await equal([value, slope], [5, [2, 4]]);
});

Deno.test("newcomers: scalars of one event stay when the log is closed at once, and plots refuse what are no options", () =>
  inFolder((folder) => {
    const writer = new SummaryWriter(folder);
    writer.addScalars("loss", { train: 0.5, test: 0.25 }, 1);
    writer.close();
    const text = new TextDecoder("latin1").decode(Deno.readFileSync(writer.path));
    assert.deepEqual(["loss/train", "loss/test"].map((tag) => text.includes(tag)), [true, true]);
    assert.throws(() => plot.line([1, 2], F([1, 2]) as never), {
      name: "ArgumentError",
      message:
        "Cannot plot curves: the options must be an object with title, xLabel, yLabel, logY, width, height, x, not a Tensor",
    });
    return Promise.resolve();
  }));

Deno.test("newcomers: threads take the module of a data set by its path", () =>
  inFolder(async (folder) => {
    const path = `${folder}/squares 1%.ts`;
    Deno.writeTextFileSync(path, "export const dataset = { length: 5, get: (i) => ({ y: i * i }) };");
    const dataset = { length: 5, get: (i: number) => ({ y: i * i }) };
    const rows = [];
    for await (const { y } of new nn.data.DataLoader(dataset, { batchSize: 2, numWorkers: 2, workerModule: path })) {
      rows.push(await y.tolist());
    }
    assert.deepEqual(rows, [[0, 1], [4, 9], [16]]);
    const loader = new nn.data.DataLoader(dataset, { numWorkers: 1, workerModule: "./squares.ts" });
    await assert.rejects(loader[Symbol.asyncIterator]().next(), (error: Error) => {
      assert.ok(error instanceof ArgumentError);
      return /workerModule must be new URL\("\.\/squares\.ts", import\.meta\.url\)/.test(error.message);
    });
  }));
