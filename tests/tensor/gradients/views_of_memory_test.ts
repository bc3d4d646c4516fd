/**
 * Gradients with respect to a value and to what shows all of it, in memory or not: whichever is realized, and in which
 * order, each is what was computed of it. Without requiresGrad what cannot be known is refused, and nothing is another value.
 */
import { deepStrictEqual as assertEquals, match, ok } from "node:assert/strict";
import { Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

/** What shows all of a tensor, and the slope of that. */
const VIEWS: Readonly<Record<string, readonly [(t: Tensor) => Tensor, slope: number]>> = {
  detach: [(t) => t.detach(), 0],
  "a copy for gradients": [(t) => t.contiguousBackward(), 1],
  "a transpose, turned back": [(t) => t.transpose(0, 1).transpose(0, 1), 1],
  contiguous: [(t) => t.contiguous(), 1],
  flat: [(t) => t.flatten(), 1],
  "a shape and back": [(t) => t.flatten().reshape([2, 3]), 1],
  "flat, detached": [(t) => t.flatten().detach(), 0],
  "detached, flat": [(t) => t.detach().flatten(), 0],
  clone: [(t) => t.clone(), 1],
  "another dtype and back": [(t) => t.cast("float32").cast("float64"), 1],
  "a flip, turned back": [(t) => t.flip(0).flip(0), 1],
  padded: [(t) => t.pad([[0, 1], [0, 0]]).shrink([[0, 2], [0, 3]]), 1],
};
/** What is realized: the value, the view, both in one schedule, one after the other, the loss. */
const ORDERS = ["", "y", "v", "yv", "vy", "y;v", "v;y", "v;y;l"];

/** The first element of a gradient; undefined where it is refused. */
async function first(loss: Tensor, t: Tensor): Promise<number | undefined> {
  try {
    const [g] = loss.gradient([t]);
    return (await g.flatten().tolist<number[]>())[0];
  } catch (error) {
    match(String(error), /computed from it and realized or read/);
    return undefined;
  }
}

for (const device of ["JS", "WASM"] as const) {
  for (const [name, [view, slope]] of Object.entries(VIEWS)) {
    Deno.test(`views of memory: ${name}, ${device}`, () =>
      onDevice(device, async () => {
        for (const isLeaf of [true, false]) {
          for (const factor of [1, 2]) {
            for (const order of ORDERS) {
              const x = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float64" });
              if (isLeaf) x.requiresGrad = true;
              const y = factor === 1 ? x : x.mul(factor), v = view(y), loss = y.mul(3).sum().add(v.mul(5).sum());
              for (const step of order.split(";").filter((s) => s !== "")) {
                Tensor.realize([...step].map((c) => c === "v" ? v : c === "y" ? y : loss));
              }
              // built after that
              const later = y.mul(3).sum().add(v.mul(5).sum()), text = `${isLeaf}, ${factor}, ${order}`;
              for (const l of [loss, later]) {
                const want = [factor * (3 + 5 * slope), 3 + 5 * slope, 5];
                const got = [await first(l, x), await first(l, y), await first(l, v)];
                if (isLeaf) assertEquals(got, want, text);
                else ok(got.every((g, i) => g === undefined || g === want[i]), `${text}: ${got}, want ${want}`);
              }
            }
          }
        }
      }));
  }
  Deno.test(`views of memory: shapes, parts and transposes beside what they are of, ${device}`, () =>
    onDevice(device, async () => {
      for (const isRealized of [false, true]) {
        const pause = (...t: Tensor[]) => void (isRealized && Tensor.realize(t));
        const leaf = () => new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float64", requiresGrad: true });
        const y = leaf().mul(2), f = y.flatten(), g = f.reshape([3, 2]);
        pause(f, y);
        const shapes = g.mul(3).sum().add(f.sum()).add(y.mul(10).sum());
        for (const [t, want] of [[g, 3], [f, 4], [y, 14]] as const) assertEquals(await first(shapes, t), want);
        const m = leaf().mul(2), a = m.shrink([[0, 2], [0, 2]]), b = a.shrink([[0, 1], [1, 2]]);
        pause(m);
        const parts = a.sum().add(b.mul(5).sum()).add(m.mul(100).sum()), [ga] = parts.gradient([a]);
        assertEquals(await ga.tolist(), [[1, 6], [1, 1]]);
        const e = leaf().mul(2).reshape([2, 3, 1, 1]).expand([2, 3, 2, 1]), many = e.expand([2, 3, 2, 4]);
        pause(e);
        assertEquals(await first(many.sum().add(e.sum()), e), 5);
      }
    }));
}

Deno.test("views of memory: steps in place of a leaf that a loss reads through a view, which nobody realizes apart", async () => {
  const p = Tensor.ones([3, 2]).contiguous().realize();
  p.requiresGrad = true;
  for (let i = 0; i < 6; i++) {
    const loss = p.reshape([6]).abs().sum();
    p.grad = undefined;
    loss.backward();
    Tensor.noGrad(() => p.subInPlace(p.grad!.mul(0.125)));
    assertEquals(await loss.item(), 6 - i * 0.75);
  }
});

Deno.test("views of memory: a value that is all of another tensor's memory is a target before and after it gets memory of its own", async () => {
  for (const requiresGrad of [false, true]) {
    for (const make of [(x: Tensor) => x.unsqueeze(0).sum(0), (x: Tensor) => x.reshape([3, 1]).max([1])]) {
      const x = new Tensor([1, 2, 3], { dtype: "float64", requiresGrad }), v = make(x);
      const before = v.mul(v).sum();
      await v.realize();
      assertEquals(await before.gradient([v])[0].tolist(), [2, 4, 6]);
      assertEquals(await Promise.all(before.add(x.sum()).gradient([v, x]).map((g) => g.tolist())), [
        [2, 4, 6],
        [3, 5, 7],
      ]);
      assertEquals(await before.add(v.mul(3).sum()).gradient([v])[0].tolist(), [5, 7, 9]);
    }
  }
});
