/** What a function under jit does to gradients, against the same function without: wherever they were made. @module */
import assert from "node:assert/strict";
import { context, Device, jit, nn, Tensor } from "../../mod.ts";

const DEVICES = ["JS", "WASM", "CLANG"].filter((d) =>
  Device.list().some(({ name, available }) => name === d && available)
);
// what devices load stays loaded
for (const device of DEVICES) new Tensor([1, 2], { device }).add(1).realize();

type Body = (w: Tensor, x: Tensor) => unknown;

/** Functions that find a gradient, and leave one; all but those of {@linkcode FILLS} need one to begin with. */
const CHANGES: Record<string, Body> = {
  "norm clipped": (w) => nn.optim.clipGradNorm([w], 1),
  "values clipped": (w) => nn.optim.clipGradValue([w], 7),
  "clipped twice": (w) => [nn.optim.clipGradValue([w], 7), nn.optim.clipGradNorm([w], 1)],
  "read": (w) => w.grad!.sum(),
  "replaced": (w) => w.grad!.replace(w.grad!.mul(2)),
  "replaced by the argument": (w, x) => w.grad!.replace(x),
  "replaced, and added to": (w, x) => [w.grad!.replace(w.grad!.mul(2)), w.mul(x).sum().backward()],
  "scaled in place": (w) => w.grad!.mulInPlace(2),
  "assigned": (w, x) => w.grad!.assign(x.mul(3)),
  "another one": (w) => w.grad = w.grad!.mul(2),
};
const FILLS: Record<string, Body> = {
  "of a product": (w, x) => w.mul(x).sum().backward(),
  "of a dot product": (w, x) => w.dot(x).backward(),
  "that is the argument": (w, x) => w.backward(x),
  "that is the argument, reshaped": (w, x) => w.add(1).reshape([2, 1]).backward(x.reshape([2, 1])),
  "that is the argument, turned": (w, x) => w.flip(0).backward(x),
  "set to the argument": (w, x) => w.grad = x,
  "set to the argument, detached": (w, x) => w.grad = x.detach(),
  "and clipped": (w, x) => [w.mul(x).sum().backward(), nn.optim.clipGradNorm([w], 1)],
  "and returned": (w, x) => [w.backward(x), w.grad],
};

/** The gradients of five calls, of which those kept are read at the end, too. */
async function gradients(device: string, body: Body, outside: boolean, adds: boolean, jitted: boolean) {
  const make = (values: number[], requiresGrad = false) =>
    new Tensor(values, { dtype: "float32", device, requiresGrad }).realize();
  const w = make([0.5, -2], true), run = (x: Tensor) => (body(w, x), x.sum());
  const f = jitted ? jit(run) : run, out: unknown[] = [], kept: Tensor[] = [];
  for (let i = 1; i < 6; i++) {
    if (!adds) w.grad = undefined;
    if (outside) w.mul(make([3 * i, 4 * i])).sum().backward();
    out.push(await f(make([i, -i])).item(), await w.grad!.tolist());
    kept.push(w.grad!);
  }
  if (!adds && !outside) { for (const g of kept) out.push(await g.tolist()); }
  return out;
}

for (const device of DEVICES) {
  for (const [bodies, outside] of [[CHANGES, true], [FILLS, true], [FILLS, false]] as const) {
    for (const [name, body] of Object.entries(bodies)) {
      for (const adds of [false, true]) {
        const form = `${outside ? ", beside one made outside" : ""}${adds ? ", over calls" : ""}`;
        Deno.test(`jit: a gradient ${name}${form} (${device})`, async () => {
          const want = await gradients(device, body, outside, adds, false);
          assert.deepEqual(await gradients(device, body, outside, adds, true), want);
          await context({ JIT_CHECK: 1 }, async () => {
            assert.deepEqual(await gradients(device, body, outside, adds, true), want);
          });
        });
      }
    }
  }
  Deno.test(`jit: gradients of two leaves change places (${device})`, async () => {
    const make = (values: number[], requiresGrad = false) =>
      new Tensor(values, { dtype: "float32", device, requiresGrad }).realize();
    const a = make([1, 2], true), b = make([3, 4], true);
    const swaps: (() => unknown)[] = [
      () => [a.grad, b.grad] = [b.grad, a.grad],
      () => a.grad = b.grad,
      () => a.grad!.replace(b.grad!),
      () => [a.grad!.replace(b.grad!), b.grad!.replace(b.grad!.mul(2))],
    ];
    for (const swap of swaps) {
      const run = (x: Tensor) => (swap(), x.add(1)), f = jit(run), got: unknown[] = [], want: unknown[] = [];
      for (const [call, out] of [[run, want], [f, got]] as const) {
        for (let i = 1; i < 6; i++) {
          a.grad = b.grad = undefined;
          a.mul(make([i, 1])).add(b.mul(make([-i, 2]))).sum().backward();
          call(make([i]));
          out.push(await a.grad!.tolist(), await b.grad!.tolist());
        }
      }
      assert.deepEqual(got, want, String(swap));
    }
  });
  Deno.test(`jit: an optimizer steps outside with a gradient that is the argument (${device})`, async () => {
    const w = new Tensor([0, 0], { dtype: "float32", device, requiresGrad: true });
    const optimizer = new nn.optim.SGD([w], { lr: 1 });
    const f = jit((x: Tensor) => {
      optimizer.zeroGrad();
      w.backward(x);
    });
    for (let i = 1, sum = 0; i < 6; i++) {
      f(new Tensor([i, 2 * i], { dtype: "float32", device }));
      Tensor.train(() => optimizer.step());
      sum += i;
      assert.deepEqual(await w.tolist(), [-sum, -2 * sum]);
    }
  });
}

Deno.test("jit: a gradient that is a donated argument keeps its memory", async () => {
  const w = new Tensor([0, 0], { dtype: "float32", device: "JS", requiresGrad: true });
  const f = jit((x: Tensor) => void w.backward(x), { donate: true });
  for (let i = 1; i < 6; i++) {
    w.grad = undefined;
    f(new Tensor([i, i], { dtype: "float32", device: "JS" }));
    assert.deepEqual(await w.grad!.tolist(), [i, i]);
  }
});
