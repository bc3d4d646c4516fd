/** A clone is what was there when it was made, whatever is written later. */
import { assertEquals } from "@std/assert";
import { Device, jit, nn, Tensor } from "../../mod.ts";

const real = (x: number[], requiresGrad = false): Tensor => new Tensor(x, { dtype: "float32", requiresGrad }).realize();
for (const device of ["JS", "WASM"]) {
  const before = Device.default,
    test = (name: string, fn: () => Promise<void>): void =>
      Deno.test(`clone ${device}: ${name}`, async () => {
        Device.default = device;
        try {
          await fn();
        } finally {
          Device.default = before;
        }
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

  test("beside a jit function", async () => {
    const w = real([0]), step = jit(() => w.assign(w.add(1)).sum()), seen: Tensor[] = [];
    for (let i = 0; i < 5; i++) {
      seen.push(w.clone());
      await step().item();
    }
    assertEquals(await Promise.all(seen.map((t) => t.item())), [0, 1, 2, 3, 4]);
  });
}
