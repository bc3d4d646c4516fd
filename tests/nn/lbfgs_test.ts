/** L-BFGS against PyTorch's on Rosenbrock's function: where it stands after each step, and how often it asked. @module */
import assert from "node:assert/strict";
import { ArgumentError, Device, nn, Tensor } from "../../mod.ts";

Device.default = "JS";

/** Three steps from (-1.2, 1). */
async function run(options: nn.optim.LBFGSOptions): Promise<[calls: number, x: number, y: number][]> {
  const at = new Tensor([-1.2, 1], { requiresGrad: true }), optimizer = new nn.optim.LBFGS([at], options);
  let calls = 0;
  const rows: [number, number, number][] = [];
  for (let k = 0; k < 3; k++) {
    await optimizer.step(() => {
      calls++;
      optimizer.zeroGrad();
      const [a, b] = [at.at(0), at.at(1)];
      return a.sub(1).square().add(b.sub(a.square()).square().mul(100)).backward();
    });
    const [x, y] = await at.tolist<number[]>();
    rows.push([calls, x, y]);
  }
  return rows;
}

Deno.test("lbfgs: steps of one length are PyTorch's", async () => {
  const want = [[20, -1.0447195768, 1.0623773336], [40, -1.0055984259, 1.0268996954], [
    60,
    -0.5499513745,
    0.2825676203,
  ]];
  for (const [i, row] of (await run({ lr: 0.1 })).entries()) {
    assert.equal(row[0], want[i][0]);
    for (const k of [1, 2]) assert.ok(Math.abs(row[k] - want[i][k]) < 2e-6, `${row} is not ${want[i]}`);
  }
});

for (const historySize of [100, 3]) {
  Deno.test(`lbfgs: with a line search it finds the least value, remembering ${historySize}`, async () => {
    const [[calls, x, y]] = await run({ lineSearchFn: "strongWolfe", maxIter: 60, historySize });
    assert.ok(calls <= 50, `${calls} calls`); // PyTorch: 43 and 45
    assert.ok(Math.abs(x - 1) < 1e-4 && Math.abs(y - 1) < 1e-4, `${x}, ${y}`);
  });
}

Deno.test("lbfgs: several parameters, an asynchronous closure, and what it refuses", async () => {
  const on = { requiresGrad: true }, w = Tensor.zeros([2, 1], on), b = Tensor.zeros([1], on);
  const x = new Tensor([[1, 2], [3, 1], [2, 5]], { dtype: "float32" }),
    y = x.matmul(new Tensor([[2], [-1]]).float()).add(0.5);
  const optimizer = new nn.optim.LBFGS([w, b], { lineSearchFn: "strongWolfe" });
  const loss = async (): Promise<Tensor> => {
    await Promise.resolve();
    optimizer.zeroGrad();
    return x.matmul(w).add(b).mseLoss(y).backward();
  };
  const first = await (await optimizer.step(loss)).item();
  await optimizer.step(loss);
  assert.ok(first > 1 && await (await loss()).item() < 1e-6);
  await assert.rejects(optimizer.step(() => 3 as never), /the closure must give the loss, not 3/);
  const other = new nn.optim.LBFGS([new Tensor([1, 2], on)]);
  await assert.rejects(other.step(() => x.sum()), /call loss\.backward\(\) in the closure/);
  assert.throws(() => new nn.optim.LBFGS([]), ArgumentError);
});

Deno.test("lbfgs: MultiplicativeLR multiplies by what its function gives", () => {
  const sgd = new nn.optim.SGD([Tensor.ones([2], { requiresGrad: true })], { lr: 1 });
  const schedule = new nn.optim.MultiplicativeLR(sgd, (epoch) => epoch < 3 ? 0.5 : 0.1);
  const rates = [sgd.getLr()];
  for (let i = 0; i < 3; i++) {
    schedule.step();
    rates.push(sgd.getLr());
  }
  assert.deepEqual(rates.map((r) => Number(r.toFixed(6))), [1, 0.5, 0.25, 0.025]);
});
