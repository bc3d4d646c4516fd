/** Gradients with respect to views and to what was computed, in forms that have an answer: none is refused, none is another. */
import { deepStrictEqual as assertEquals } from "node:assert/strict";
import { Tensor } from "../../../mod.ts";

const numbers = (n: number) => Float32Array.from({ length: n }, (_, i) => (i * 5 % 7) - 2.5);
const of = (...shape: number[]) =>
  new Tensor(numbers(shape.reduce((a, b) => a * b, 1)), { device: "JS" }).reshape(shape);

/** A loss, what it is asked for, and what the gradient is. */
type Form = (x: Tensor) => readonly [loss: Tensor, target: Tensor, want: Tensor];
const square = (t: Tensor) => t.square().sum();
const FORMS: Readonly<Record<string, Form>> = {
  "a list of numbers in a shape, flat": (x) => [square(x.flatten()), x, x.mul(2)],
  "such a list both ways": (x) => [square(x.flatten()).add(x.sum()), x, x.mul(2).add(1)],
  "the reshape of a reshape": (x) => {
    const v = x.reshape([4, 3]);
    return [square(v.flatten()), v, v.mul(2)];
  },
  "what a view views": (x) => [square(x.reshape([4, 3])), x, x.mul(2)],
  "a transpose turned back": (x) => {
    const t = x.transpose(0, 1);
    return [square(t.transpose(0, 1)), t, t.mul(2)];
  },
  "what was transposed": (x) => [square(x.transpose(0, 1).transpose(0, 1)), x, x.mul(2)],
  "a flip turned back": (x) => {
    const f = x.flip([0]);
    return [square(f.flip([0])), f, f.mul(2)];
  },
  "a padded tensor, cut": (x) => {
    const p = x.pad([[1, 1], [0, 0]]);
    return [square(p.shrink([[1, 4], [0, 4]])), p, p.mul(2)];
  },
  "a slice": (x) => {
    const s = x.at([1, 3]);
    return [square(s), s, s.mul(2)];
  },
  "a sum that is given an axis again": (x) => {
    const m = x.sum(0);
    return [x.mul(m.unsqueeze(0)).sum(), m, x.sum(0)];
  },
  "a mean that is taken off": (x) => {
    const m = x.mean(0);
    return [x.sub(m).mul(x).sum(), m, x.sum(0).mul(-1)];
  },
  "a product in heads": (x) => {
    const h = x.matmul(of(4, 6)).reshape([3, 2, 3]);
    return [square(h.permute([1, 0, 2])), h, h.mul(2)];
  },
  "a product, its shape alone": (x) => {
    const h = x.matmul(of(4, 6));
    return [square(h.reshape([3, 2, 3])), h, h.mul(2)];
  },
  "expanded rows": (x) => {
    const row = x.at(0), e = row.expand([3, 4]);
    return [square(e), row, row.mul(6)];
  },
  "a copy in order": (x) => {
    const c = x.transpose(0, 1).contiguous();
    return [square(c.flatten()), c, c.mul(2)];
  },
  "another dtype": (x) => {
    const c = x.cast("float64");
    return [square(c.reshape([12])), c, c.mul(2)];
  },
};

for (const [name, form] of Object.entries(FORMS)) {
  for (const isRealized of [false, true]) {
    Deno.test(`computed views: ${name}${isRealized ? ", of memory" : ""}`, async () => {
      const x = of(3, 4);
      if (isRealized) x.realize();
      const [loss, target, want] = form(x), [got] = loss.gradient([target]);
      assertEquals(await got.tolist(), await want.cast(got.dtype).tolist());
    });
  }
}
