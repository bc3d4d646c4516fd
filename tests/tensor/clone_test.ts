/** A clone is what was there when it was made, whatever is written later. */
import { assertEquals } from "@std/assert";
import { jit, nn, Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

const real = (x: number[], requiresGrad = false): Tensor => new Tensor(x, { dtype: "float32", requiresGrad }).realize();
for (const device of ["JS", "WASM"]) {
  const test = (name: string, fn: () => Promise<void>): void =>
    Deno.test(`clone ${device}: ${name}`, async () => {
      await onDevice(device, fn);
    });

  test("a swap by three lines", async () => {
    const a = real([1, 2]), b = real([3, 4]);
    const t = a.clone();
    a.assign(b);
    b.assign(t);
    assertEquals([await a.tolist(), await b.tolist()], [[3, 4], [1, 2]]);
  });

  test("a clone is what was there", async () => {
    const w = real([4], true), optimizer = new nn.optim.SGD([w], { lr: 0.5 });
    const best = { w: w.clone(), half: w.at([0, 1]).clone() };
    Tensor.train(() => {
      w.sum().backward();
      optimizer.step();
    });
    assertEquals([await w.tolist(), await best.w.tolist(), await best.half.tolist()], [[3.5], [4], [4]]);
    w.assign(best.w);
    assertEquals(await w.tolist(), [4]);
  });

  const lazy: Readonly<Record<string, () => Tensor>> = {
    "a list": () => new Tensor([1, 2], { dtype: "float32", requiresGrad: true }),
    "zeros": () => Tensor.zeros([2], { requiresGrad: true }),
    "random numbers": () => Tensor.rand([2], { requiresGrad: true }),
    "a value": () => real([1, 2]).mul(3),
    "a clone": () => real([1, 2]).clone(),
    "what waits for a write": () => real([1, 2], true).assign([5, 6]),
  };
  for (const [name, make] of Object.entries(lazy)) {
    test(`of ${name}, which was not in memory`, async () => {
      const run = async (isReal: boolean): Promise<unknown[]> => {
        Tensor.manualSeed(3);
        const w = make(), old = [w.detach().clone(), w.at([0, 1]).clone(), w.add(1).clone()];
        if (isReal) Tensor.realize(old);
        const optimizer = new nn.optim.SGD([w], { lr: 0.5 });
        for (let i = 0; i < 2; i++) {
          Tensor.train(() => {
            optimizer.zeroGrad();
            w.sum().backward();
            optimizer.step();
          });
        }
        return await Promise.all([...old, w].map((t) => t.tolist()));
      };
      assertEquals(await run(false), await run(true));
    });
  }

  test("beside a jit function", async () => {
    const w = real([0]), step = jit(() => w.assign(w.add(1)).sum()), seen: Tensor[] = [];
    for (let i = 0; i < 5; i++) {
      seen.push(w.clone());
      await step().item();
    }
    assertEquals(await Promise.all(seen.map((t) => t.item())), [0, 1, 2, 3, 4]);
  });
}
