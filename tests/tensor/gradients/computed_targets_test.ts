/** Gradients with respect to what was computed: views that others were made from, realized or not. */
import assert from "node:assert/strict";
import { Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

const REFUSAL = /it is a view, and the tensor was computed from what it views/;
const numbers = (...values: number[]): Tensor => new Tensor(values, { dtype: "float32" });
const leaf = (): Tensor => new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32", requiresGrad: true });

function isRefused(loss: Tensor, target: Tensor): boolean {
  try {
    loss.gradient([target]);
    return false;
  } catch (error) {
    assert.match(String(error), REFUSAL);
    return true;
  }
}

/** A program of a leaf, and what is asked for of it. */
type Program = (x: Tensor, pause: (...t: Tensor[]) => void) => [Tensor, Tensor];
/** By name: a program, its gradient (PyTorch's), and whether it may be refused. */
type Row = readonly [name: string, run: Program, want: number[], mayBeRefused?: boolean];
const ROWS: readonly Row[] = [
  ["a transpose beside its matrix", (x, pause) => {
    const t = x.transpose(0, 1);
    pause(x);
    return [t.mul(3).sum().add(x.mul(x).sum()), t];
  }, [3, 3, 3, 3, 3, 3]],
  ["a shape beside what has it", (x, pause) => {
    const y = x.mul(2), f = y.flatten();
    pause(x);
    return [f.mul(numbers(1, 2, 3, 4, 5, 6)).sum().add(y.mul(10).sum()), f];
  }, [1, 2, 3, 4, 5, 6]],
  ["a shape that was made another shape", (x, pause) => {
    const f = x.mul(2).flatten(), g = f.reshape([3, 2]);
    pause(x);
    return [g.mul(3).sum().add(f.sum()), f];
  }, [4, 4, 4, 4, 4, 4]],
  ["what has a shape and a shape of it", (x, pause) => {
    const y = x.mul(2), f = y.flatten();
    pause(y);
    return [f.mul(3).sum().add(y.sum()), y];
  }, [4, 4, 4, 4, 4, 4]],
  ["a part, and a part of that", (x, pause) => {
    const y = x.mul(2), a = y.shrink([[0, 2], [0, 2]]), b = a.shrink([[0, 1], [1, 2]]);
    pause(x);
    return [a.sum().add(b.mul(5).sum()).add(y.mul(100).sum()), a];
  }, [1, 6, 1, 1]],
  [
    "a transpose, turned back",
    (x, pause) => {
      const t = x.mul(2).transpose(0, 1), back = t.transpose(0, 1);
      pause(x);
      return [back.mul(7).sum(), t];
    },
    [7, 7, 7, 7, 7, 7],
    true,
  ],
  ["what was repeated once and again", (x, pause) => {
    const e = x.mul(2).reshape([2, 3, 1, 1]).expand([2, 3, 2, 1]), f = e.expand([2, 3, 2, 4]);
    pause(x);
    return [f.sum().add(e.sum()), e];
  }, Array.from({ length: 12 }, () => 5)],
  ["a padded matrix whose source was realized with it", (x, pause) => {
    const t = x.transpose(0, 1), p = t.pad([[0, 1], [0, 0]]);
    pause(x, t, p);
    const loss = p.mul(p).sum();
    pause(loss);
    return [loss, t];
  }, [2, 8, 4, 10, 6, 12]],
  [
    "a transpose of what was realized, turned back",
    (x, pause) => {
      const y = x.mul(2);
      pause(y);
      const t = y.transpose(0, 1), back = t.transpose(0, 1);
      return [back.mul(7).sum().add(t.sum()), t];
    },
    [8, 8, 8, 8, 8, 8],
    true,
  ],
  [
    "a shape and what it is of, realized together",
    (x, pause) => {
      const y = x.sum(0), u = y.unsqueeze(0);
      pause(y, u);
      return [y.mul(3).sum().add(u.mul(2).sum()), u];
    },
    [2, 2, 2],
    true,
  ],
];

for (const device of ["JS", "WASM"] as const) {
  for (const [name, run, want, mayBeRefused] of ROWS) {
    Deno.test(`computed targets: ${name}, ${device}`, () =>
      onDevice(device, async () => {
        for (const isRealized of [false, true]) {
          const [loss, target] = run(leaf(), isRealized ? (...t) => Tensor.realize(t) : () => {});
          if (mayBeRefused && isRefused(loss, target)) continue;
          const got = [loss.gradient([target])[0], ...loss.gradient([target, target])];
          for (const g of got) assert.deepEqual(await g.flatten().tolist(), want);
        }
      }));
  }
  Deno.test(`computed targets: memory under two shapes is refused or right, ${device}`, () =>
    onDevice(device, async () => {
      const y = leaf().exp();
      Tensor.realize([y]);
      const f = y.flatten(), loss = y.mul(100).sum().add(f.mul(numbers(1, 2, 3, 4, 5, 6)).sum());
      assert.throws(() => loss.gradient([f]), REFUSAL);
      const alone = f.mul(numbers(1, 2, 3, 4, 5, 6)).sum();
      assert.deepEqual(await alone.gradient([f])[0].tolist(), [1, 2, 3, 4, 5, 6]);
    }));
  Deno.test(`computed targets: images under a shape of their own, ${device}`, () =>
    onDevice(device, async () => {
      const x = new Tensor(Float32Array.from({ length: 16 }, (_, i) => i)).reshape([1, 1, 4, 4]);
      const y = x.conv2d(Tensor.ones([1, 1, 2, 2])).sum();
      assert.deepEqual(await y.gradient([x])[0].flatten().tolist(), [1, 2, 2, 1, 2, 4, 4, 2, 2, 4, 4, 2, 1, 2, 2, 1]);
    }));
  Deno.test(`computed targets: a leaf whose cut or copy for gradients was realized goes on having them, ${device}`, () =>
    onDevice(device, async () => {
      const x = leaf(), v = x.contiguousBackward(), o = x.mul(7).sum();
      x.realize();
      const cut = x.detach().realize();
      v.realize();
      const loss = v.mul(2).sum().add(o).add(cut.mul(50).sum()).add(x.mul(1).sum());
      assert.deepEqual(await loss.gradient([x])[0].flatten().tolist(), [10, 10, 10, 10, 10, 10]);
    }));
}
