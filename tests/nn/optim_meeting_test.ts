/** Optimizers whose parameters meet in one loss: each steps as one optimizer of all would. @module */
import assert from "node:assert/strict";
import { ArgumentError, Device, GlobalCounters, jit, nn, Tensor } from "../../mod.ts";

Device.get(); // opened before the tests
const DEVICES = ["JS", "WASM", "CLANG"].filter((d) =>
  Device.list().some(({ name, available }) => name === d && available)
);
// what devices load stays loaded
for (const device of DEVICES) new Tensor([1, 2], { device }).add(1).realize();

const LOSSES: Record<string, (a: Tensor, b: Tensor) => Tensor> = {
  "product": (a, b) => a.mul(b).sum(),
  "matmul": (a, b) => a.matmul(b).sum(),
  "relu of matmul": (a, b) => a.matmul(b).relu().sum(),
  "square of matmul": (a, b) => a.matmul(b).square().mean(),
  "sum": (a, b) => a.add(b).square().mean(),
};
const STEPS: Record<string, (one: nn.optim.Optimizer, two: nn.optim.Optimizer, a: Tensor, b: Tensor) => void> = {
  "one after the other": (one, two) => [one, two].forEach((o) => o.step()),
  "the other way round": (one, two) => [two, one].forEach((o) => o.step()),
  "once a gradient is realized": (one, two, _a, b) => [b.grad!.realize(), one.step(), two.step()],
  "once the other one is": (one, two, a) => [a.grad!.realize(), one.step(), two.step()],
  "in one schedule": (one, two) => Tensor.realize([...one.scheduleStep(), ...two.scheduleStep()]),
  "as a group": (one, two) => new nn.optim.OptimizerGroup(one, two).step(),
};

type Step = (typeof STEPS)[string];

async function train(device: string, loss: (a: Tensor, b: Tensor) => Tensor, step: Step | undefined, jitted: boolean) {
  const make = (values: number[][]) => new Tensor(values, { dtype: "float32", device, requiresGrad: true });
  const a = make([[1, 2], [-1, 0.5]]), b = make([[3, -4], [0.25, 1]]), lr = 0.125;
  const both = step === undefined
    ? [new nn.optim.SGD([a, b], { lr })]
    : [a, b].map((p) => new nn.optim.SGD([p], { lr }));
  const once = (scale: Tensor) =>
    Tensor.train(() => {
      for (const o of both) o.zeroGrad();
      const out = loss(a, b).mul(scale).backward();
      if (step === undefined) both[0].step();
      else step(both[0], both[1], a, b);
      return out;
    });
  const f = jitted ? jit(once) : once, out: unknown[] = [];
  for (let i = 1; i < 5; i++) {
    out.push(
      await f(new Tensor(i / 4, { dtype: "float32", device }).realize()).item(),
      await a.tolist(),
      await b.tolist(),
    );
  }
  return (out.flat(3) as number[]).map((x) => Number(x.toPrecision(4)));
}

for (const device of DEVICES) {
  for (const [name, loss] of Object.entries(LOSSES)) {
    Deno.test(`optim: two optimizers that meet in a ${name} step as one (${device})`, async () => {
      const want = await train(device, loss, undefined, false);
      for (const [how, step] of Object.entries(STEPS)) {
        for (const jitted of [false, true]) {
          assert.deepEqual(await train(device, loss, step, jitted), want, `${how}${jitted ? ", under jit" : ""}`);
        }
      }
    });
  }

  Deno.test(`optim: a leaf that no optimizer has keeps its gradient over a step (${device})`, async () => {
    const make = (values: number[]) => new Tensor(values, { dtype: "float32", device, requiresGrad: true });
    const a = make([1, 2]), b = make([3, 4]), optimizer = new nn.optim.SGD([a], { lr: 1 });
    a.mul(b).sum().backward();
    Tensor.train(() => optimizer.step());
    assert.deepEqual([await a.tolist(), await b.grad!.tolist()], [[-2, -2], [1, 2]]);
  });

  Deno.test(`optim: fused tells which parameter has no gradient, and its ways out work (${device})`, async () => {
    const make = (values: number[]) => new Tensor(values, { dtype: "float32", device, requiresGrad: true });
    const a = make([1, 2]), b = make([3, 4, 5]), all = new nn.optim.SGD([a, b], { lr: 1, fused: true });
    a.sum().backward();
    assert.throws(() => Tensor.train(() => all.step()), (e: unknown) => {
      assert.ok(e instanceof ArgumentError);
      assert.match(
        e.message,
        /fused: true .* one has no gradient: params 1 \(\[3\]\); make the optimizer without fused, or of/,
      );
      return true;
    });
    Tensor.train(() => new nn.optim.SGD([a, b], { lr: 1 }).step());
    Tensor.train(() => new nn.optim.SGD([a], { lr: 1, fused: true }).step());
    assert.deepEqual([await a.tolist(), await b.tolist()], [[-1, 0], [3, 4, 5]]);
  });
}

Deno.test("optim: a group runs the kernels of one optimizer for parameters that meet", () => {
  const kernels = (grouped: boolean): number => {
    const make = (values: number[]) => new Tensor(values, { dtype: "float32", device: "JS", requiresGrad: true });
    const a = make([1, 2]), b = make([3, 4]);
    const optimizer = grouped
      ? new nn.optim.OptimizerGroup(new nn.optim.SGD([a], { lr: 1 }), new nn.optim.SGD([b], { lr: 1 }))
      : new nn.optim.SGD([a, b], { lr: 1 });
    a.mul(b).square().sum().backward();
    const before = GlobalCounters.kernelCount;
    Tensor.train(() => optimizer.step());
    return GlobalCounters.kernelCount - before;
  };
  assert.equal(kernels(true), kernels(false));
});
