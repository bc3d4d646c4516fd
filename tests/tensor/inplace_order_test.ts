/** Values that were read, realized or copied before a write, and writes that wait for each other. @module */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, nn, Tensor } from "../../mod.ts";
import { scheduleNodes } from "../../src/schedule/schedule.ts";
import type { NestedValues } from "../../src/tensor/nodes/host.ts";
import { realFloats as real } from "../support/tensors.ts";

await Device.open(Device.default);
const grid = () => real([[1, 2, 3], [4, 5, 6]]);

Deno.test("in place: a value that was realized or read is one, also where it is what was in memory", async () => {
  const values: [string, (t: Tensor) => Tensor][] = [
    ["sum", (t) => t.sum(1)],
    ["max", (t) => t.max(1, { keepdim: true })],
    ["prod", (t) => t.prod(1)],
    ["cumsum", (t) => t.cumsum(1)],
    ["cat", (t) => Tensor.cat([t])],
    ["repeat", (t) => t.repeat([1, 1])],
    ["sort", (t) => t.sort(1)[0]],
    ["times one", (t) => t.mul(1)],
    ["a shape of one", (t) => t.sum(1).reshape([1, 4])],
    ["a part of one", (t) => t.sum(1).flip(0)],
  ];
  const lazy = (): Tensor => new Tensor([[1], [2], [3], [4]], { dtype: "float32", device: "JS" });
  const column = (): Tensor => lazy().realize();
  const realize = (v: Tensor): unknown => v.realize(), read = (v: Tensor): unknown => v.dataSync();
  const made: (() => Tensor)[] = [
    column,
    () => column().clone(),
    lazy,
    () => column().mul(1),
    () => column().addInPlace(0),
  ];
  for (const [name, value] of values) {
    const want = await value(column()).tolist();
    for (const make of made) {
      for (const isFirst of [true, false]) {
        for (const get of [realize, read]) {
          const t = make(), v = value(t);
          if (isFirst) get(v);
          t.addInPlace(9);
          get(v);
          t.realize();
          assertEquals([await v.tolist(), await t.tolist()], [want, [[10], [11], [12], [13]]], name);
          v.addInPlace(1);
          assertEquals([await t.tolist(), await v.sub(1).tolist()], [[[10], [11], [12], [13]], want], name);
        }
      }
    }
  }
  const t = column(), sum = t.sum(1), shape = sum.reshape([2, 2]); // views of it stay views of it
  await shape.tolist();
  shape.assign(7);
  assertEquals([await sum.tolist(), await t.tolist()], [[7, 7, 7, 7], [[1], [2], [3], [4]]]);
  const w = new Tensor([[2], [3]], { requiresGrad: true }), loss = w.sum(1).realize().square().sum().backward();
  assertEquals([await loss.item(), await w.grad!.tolist()], [13, [[4], [6]]]);
});

Deno.test("in place: a write to all of a copy that reaches nobody is refused, and its advice works", async () => {
  const on = { device: "JS" }, index = new Tensor([0, 2], on), zeros = Tensor.zeros([2], on);
  const four = () => new Tensor([1, 2, 3, 4], { dtype: "float32", ...on }).realize();
  const copies: [string, (t: Tensor) => Tensor, string][] = [
    ["at() by an index tensor", (t) => t.at(index), "t.setAt([index], value)"],
    ["at() by an index tensor", (t) => t.reshape([2, 2]).at(new Tensor([1], on)), "t.setAt([index], value)"],
    ["cast", (t) => t.cast("float64"), "cast the value"],
    ["cast", (t) => t.cast("int32"), "cast the value"],
    ["roll", (t) => t.roll(1), "roll the value back"],
    ["roll", (t) => t.roll(4), "roll the value back"],
    ["expand", (t) => t.unsqueeze(0).expand([2, 4]), "assign to that tensor"],
    ["pad", (t) => t.pad([1, 1]), "what is inside"],
    ["pad", (t) => t.pad([0, 0]), "what is inside"],
    ["pad", (t) => t.pad([1, 1], { value: 2 }), "what is inside"],
    ["pad", (t) => t.pad([1, 1], { mode: "circular" }), "what is inside"],
  ];
  for (const [name, copy, instead] of copies) {
    const t = four(), text = `Cannot assign to what ${name} gives: it is a copy`;
    const error = assertThrows(() => copy(t).assign(7), ArgumentError, text);
    assert(error.message.includes(instead), error.message);
    assertThrows(() => copy(t).assign(copy(four())), ArgumentError, text);
    const values = await copy(t).tolist();
    assertEquals(await copy(t).clone().assign(7).eq(7).all().item(), true);
    // a copy that is read is meant: by its own new value, by realizing it, or in part
    const own = copy(t), kept = copy(t).realize(), part = copy(t);
    assertEquals(await own.assign(own.add(0)).tolist(), values, name);
    assertEquals(await kept.assign(own).tolist(), values, name);
    part.setAt([0], 5);
    assertEquals(await part.at(0).eq(5).all().item(), true, name);
    assertEquals(await copy(t).addInPlace(0).tolist(), values, name);
    assertEquals(await t.tolist(), [1, 2, 3, 4]);
  }
  // a cast to its own dtype and an expansion to its own shape are views, and constants and results are values
  const t = four();
  t.cast("float32").assign(5);
  t.expand([4]).at([1, 2]).assign(7);
  t.setAt([index], 8);
  assertEquals(await t.tolist(), [8, 7, 8, 5]);
  assertEquals(await zeros.cast("float16").assign(3).tolist(), [3, 3]);
  assertEquals(await t.add(1).at(index).assign(3).tolist(), [3, 3]);
  assertEquals(await t.add(1).cast("int32").assign(3).tolist(), [3, 3, 3, 3]);
});

Deno.test("in place: a part of what ends in a part, which has other memory by now, is written there", async () => {
  const y = new Tensor(grid().add(1).at(":", [0, 2]).uop), part = y.at(":", [0, 1]);
  y.setAt([0], 1);
  part.assign(0);
  assertEquals([await y.tolist(), await part.tolist()], [[[0, 1], [0, 6]], [[0], [0]]]);
});

/** The kernels that a program runs, and the largest of its intermediates, in bytes. */
function costOf(tensors: Tensor[]): { kernels: number; largest: number } {
  const bound = scheduleNodes(tensors.map((t) => t.uop));
  const largest = Math.max(
    0,
    ...bound.variant.entries.map((e) => e.slot === undefined ? e.size * e.dtype.itemsize : 0),
  );
  for (const t of bound.temporaries) t.free();
  return { kernels: bound.variant.items.length, largest };
}

Deno.test("in place: only what stands in a circle is kept, the smaller side of it", () => {
  type Three = { big: Tensor; small: Tensor; many: Tensor };
  const made = (): Three => {
    const ones = (shape: number[]) => Tensor.ones(shape, { device: "JS" }).contiguous().realize();
    return { big: ones([64, 64]), small: ones([64]), many: ones([64, 64]) };
  };
  const rows: [string, (t: Three) => Tensor[], { kernels: number; largest: number }][] = [
    ["one way", ({ big, small }) => [big.clone().assign(big.add(small)), small.assign(small.mul(2))], {
      kernels: 2,
      largest: 16384,
    }],
    ["both ways, a row", ({ big, small }) => {
      const sum = big.sum(0);
      return [big.assign(big.add(small)), small.assign(sum)];
    }, { kernels: 3, largest: 256 }],
    ["both ways, a sum of what is overwritten", ({ big, many }) => {
      const sums = big.sum(1).mul(2).reshape([64, 1]).expand([64, 64]), was = many.flip(0);
      return [big.assign(was), many.assign(sums)];
    }, { kernels: 3, largest: 256 }],
    ["a write of a part", ({ big, many }) => {
      const one = big.at([0, 1]), was = many.permute([1, 0]);
      return [big.assign(was), many.setAt([[3, 4]], one.mul(3))];
    }, { kernels: 3, largest: 256 }],
  ];
  for (const [name, run, want] of rows) assertEquals(costOf(run(made())), want, name);
});

Deno.test("in place: optimizers step models whose parameters meet", async () => {
  const x = real([[1, 2], [3, 5]]), y = real([[1], [2]]);
  const makers: [string, (p: Tensor[]) => nn.optim.Optimizer][] = [
    ["SGD", (p) => new nn.optim.SGD(p, { lr: 0.01 })],
    ["momentum", (p) => new nn.optim.SGD(p, { lr: 0.01, momentum: 0.9 })],
    ["Adam", (p) => new nn.optim.Adam(p, { lr: 0.01 })],
    ["AdamW", (p) => new nn.optim.AdamW(p, { lr: 0.01 })],
    ["LAMB", (p) => new nn.optim.LAMB(p, { lr: 0.01 })],
    ["LARS", (p) => new nn.optim.LARS(p, { lr: 0.01 })],
    ["Muon", (p) => new nn.optim.Muon(p, { lr: 0.01 })],
  ];
  for (const [name, make] of makers) {
    // the same with the gradients realized first: nothing then reads a weight beside its update
    const results: NestedValues[] = [];
    for (const apart of [false, true]) {
      const w = real([[0.5, -1], [2, 1]]), v = real([[1, 0.5], [0.25, -1]]), b = real([[0.1]]), s = real([[0.3]]);
      const params = [w, v, b, s];
      for (const p of params) p.requiresGrad = true;
      const opt = make(params);
      for (let i = 0; i < 3; i++) {
        Tensor.train(() => {
          opt.zeroGrad();
          const h = x.matmul(w.add(w.matmul(v).mul(s))).softmax();
          const loss = h.matmul(v).sum(1, { keepdim: true }).mul(s).add(b).sub(y).square().mean().backward();
          if (apart) Tensor.realize([loss, ...params.map((p) => p.grad!)]);
          opt.step();
        });
      }
      results.push(await Promise.all(params.map((p) => p.tolist())) as NestedValues);
    }
    const [together, apart] = results.map((r) => (r as number[][][]).flat(2));
    together.forEach((t, i) => assertEquals(Math.abs(t - apart[i]) < 1e-4, true, `${name}: ${t} and ${apart[i]}`));
  }
});
