/**
 * Programs with state as people write them (simulations, averages of weights, queues, steps that perturb and put back),
 * with and without jit, against plain arithmetic.
 */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { context, Device, jit, nn, Tensor } from "../../mod.ts";

type Wrap = <A extends unknown[], R>(fn: (...args: A) => R) => (...args: A) => R;
const float = (x: number[] | number[][]): Tensor => new Tensor(x, { dtype: "float32" });
const close = async (got: Tensor, want: readonly number[]): Promise<void> => {
  const values = [...await got.data()].map(Number);
  assertEquals(values.length, want.length);
  values.forEach((x, i) => assertAlmostEquals(x, want[i], 1e-4));
};
/** A gradient step on the sum of sin(w x). */
const slopes = (w: readonly number[], x: readonly number[]): number[] => w.map((v, i) => Math.cos(v * x[i]) * x[i]);
const XS = [[0.3, 0.9], [0.5, 0.1], [0.7, 0.4], [0.2, 0.8], [0.6, 0.5], [0.1, 0.7]];

const PROGRAMS: Readonly<Record<string, (wrap: Wrap) => Promise<void>>> = {
  "heat in the rows of a grid": async (wrap) => {
    const start = [[9, 0, 0, 0, 1], [0, 0, 5, 0, 0], [2, 2, 2, 2, 7]], grid = float(start).clone();
    const step = wrap((u: Tensor) => {
      const inner = u.at([1, -1]);
      inner.addInPlace(u.at([0, -2]).add(u.at([2, null])).sub(inner.mul(2)).mul(0.25));
    });
    const want = start.map((row) => [...row]);
    for (let s = 0; s < 4; s++) {
      for (const [i, row] of want.entries()) {
        step(grid.at(i));
        const old = [...row];
        for (let k = 1; k < 4; k++) row[k] += 0.25 * (old[k - 1] + old[k + 1] - 2 * old[k]);
      }
    }
    await close(grid, want.flat());
  },
  "slow weights that follow fast ones": async (wrap) => {
    const w = new Tensor([1, -2], { dtype: "float32", requiresGrad: true }), slow = w.detach().clone();
    const optimizer = new nn.optim.SGD([w], { lr: 0.1 });
    const step = wrap((x: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        w.mul(x).sin().sum().backward();
        optimizer.step();
      })
    );
    const meet = wrap(() => {
      slow.assign(slow.add(w.detach().sub(slow).mul(0.5)));
      w.assign(slow);
    });
    let fast = [1, -2], late = fast;
    for (const [i, x] of XS.entries()) {
      step(float(x));
      const g = slopes(fast, x);
      fast = fast.map((v, k) => v - 0.1 * g[k]);
      if (i % 2 === 0) continue;
      meet();
      late = fast = late.map((v, k) => (v + fast[k]) / 2);
    }
    await close(w, fast);
    await close(slow, late);
  },
  "a step from where weights were, by the slope of where they are pushed": async (wrap) => {
    const w = new Tensor([1, -2], { dtype: "float32", requiresGrad: true });
    const optimizer = new nn.optim.SGD([w], { lr: 0.1 });
    const step = wrap((x: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        w.mul(x).sin().sum().backward();
        const old = w.detach().clone();
        w.assign(w.detach().add(w.grad!.mul(0.05)));
        optimizer.zeroGrad();
        w.mul(x).sin().sum().backward();
        w.assign(old);
        optimizer.step();
      })
    );
    let want = [1, -2];
    for (const x of XS) {
      step(float(x));
      const g = slopes(want, x), pushed = slopes(want.map((v, k) => v + 0.05 * g[k]), x);
      want = want.map((v, k) => v - 0.1 * pushed[k]);
    }
    await close(w, want);
  },
  "a ring of rows, and where it is": async (wrap) => {
    const ring = Tensor.zeros([4, 2]), at = new Tensor([0]);
    const push = wrap((x: Tensor) => {
      ring.setAt([at.mod(4)], x);
      at.addInPlace(1);
    });
    const want = [[0, 0], [0, 0], [0, 0], [0, 0]];
    for (const [i, x] of XS.entries()) {
      push(float(x));
      want[i % 4] = x;
    }
    await close(ring, want.flat());
    assertEquals(await at.tolist(), [6]);
  },
};

for (const device of ["JS", "WASM"]) {
  await Device.open(device);
  for (const [name, run] of Object.entries(PROGRAMS)) {
    Deno.test(`stateful ${device}: ${name}`, async () => {
      Device.default = device;
      await run((fn) => fn);
      await run((fn) => jit(fn as never));
      await context({ JIT_CHECK: 1 }, () => run((fn) => jit(fn as never)));
    });
  }
}
