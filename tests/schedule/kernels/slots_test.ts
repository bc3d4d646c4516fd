/** Kernels number their own buffers: those that differ in nothing else are one node, merged or not, split or not. */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { scheduleNodes } from "../../../src/schedule/schedule.ts";
import { factsOf, loadsOf, renumber, Slots, slotWritten } from "../../../src/schedule/kernels/slots.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { index, load, param, range, store, type UOp } from "../../../src/uop/core/uop.ts";

const { float32 } = dtypes;

function empty(...shape: number[]): Tensor {
  return Tensor.empty(shape, { device: "NULL" }).realize();
}

function kernelsOf(...tensors: Tensor[]): { asts: UOp[]; entries: (readonly number[])[] } {
  const items = scheduleNodes(tensors.map((t) => t.uop)).variant.items.filter((i) => i.kind === "kernel");
  return { asts: items.map((i) => i.ast!), entries: items.map((i) => i.entries) };
}

Deno.test("slots: layers that are alike are one node, each with entries of its own", () => {
  Device.get("NULL");
  let x = empty(32, 32);
  const made = [0, 1, 2].map(() => x = x.matmul(empty(32, 32)).relu().contiguous());
  const { asts, entries } = kernelsOf(...made);
  assertEquals(asts.length, 3);
  assertEquals(new Set(asts).size, 1);
  assertEquals(new Set(entries.map(String)).size, 3);
});

Deno.test("slots: so are kernels with several outputs", () => {
  const made = [0, 1].flatMap(() => {
    const a = empty(64), b = empty(64);
    return [a.add(b), a.mul(b)];
  });
  const { asts, entries } = kernelsOf(...made);
  assertEquals(asts.length, 2);
  assert(asts[0] === asts[1]);
  assertEquals(asts[0].src.length, 2);
  assertEquals(entries.map((e) => e.length), [4, 4]);
  assertEquals(new Set(entries.flat()).size, 8);
});

Deno.test("slots: and the parts of a reduction that is split", () => {
  const { asts } = kernelsOf(...[0, 1].map(() => empty(1 << 24).sum()));
  assertEquals(asts.length, 4);
  assertEquals(new Set(asts).size, 2);
});

Deno.test("slots: renumber takes a store into the numbering of another kernel", () => {
  const from = new Slots(), to = new Slots(), i = range(8, 0, AxisKind.LOOP);
  const [out, a, b] = [10, 11, 12].map((entry) => param(from.take(entry), float32, 8));
  const s = store(index(out, i), load(index(a, i)).add(load(index(b, i))));
  assertEquals([12, 20, 11].map((entry) => to.take(entry)), [0, 1, 2]);
  const moved = renumber(s, from, to);
  assertEquals(slotWritten(moved), 3);
  assertEquals(to.entries, [12, 20, 11, 10]);
  assertEquals(loadsOf(moved, 2).length, 1);
  assertEquals(loadsOf(moved, 1).length, 0);
  assertEquals(loadsOf(moved, to.find(99)).length, 0);
  assertEquals(factsOf(moved).params.length, 3);
  assert(renumber(s, from, from) === s);
});
