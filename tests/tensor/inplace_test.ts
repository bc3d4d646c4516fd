/** Writes through views, and writes that read each other: what an eager program gives. On every device that opens here. */
import { assertEquals, assertThrows } from "@std/assert";
import { Device, StaleReadError, Tensor, Variable } from "../../mod.ts";
import { internals } from "../../src/tensor/handle/base.ts";
import type { NestedValues } from "../../src/tensor/nodes/host.ts";
import { realFloats as real } from "../support/tensors.ts";
import { onDevice } from "../support/on_device.ts";

const devices: string[] = [];
for (const name of ["JS", "WASM", "CLANG", "WEBGPU"]) {
  try {
    await Device.open(name);
    devices.push(name);
  } catch {
    // not here
  }
}

// what is read at once is on a device that can be
if (Device.default === "WEBGPU") Device.default = "WASM";

const four = () => real([1, 2, 3, 4]);
const grid = () => real([[1, 2, 3], [4, 5, 6]]);
const variable = () => new Variable("p", 0, 2).bind(1);

/** A program: the tensors that it gives, and what they hold. */
const PROGRAMS: [name: string, run: () => Tensor | Tensor[], want: NestedValues][] = [
  ["a slice", () => {
    const c = four();
    c.at([1, 3]).assign(real([20, 30]));
    return c;
  }, [1, 20, 30, 4]],
  ["a slice, realized", () => {
    const c = four();
    c.at([1, 3]).assign(real([20, 30])).realize();
    return c;
  }, [1, 20, 30, 4]],
  ["every second from a step that leaves the axis", () => {
    const c = real([1, 2, 3, 4, 5]);
    c.at([null, null, 3]).assign(0);
    return c;
  }, [0, 2, 3, 0, 5]],
  ["backward slices", () => {
    const c = four();
    c.at([null, null, -1]).at([0, 2]).assign(real([40, 30]));
    return c;
  }, [1, 2, 30, 40]],
  ["permute", () => {
    const c = grid();
    c.permute([1, 0]).assign(real([[1, 2], [3, 4], [5, 6]]));
    return c;
  }, [[1, 3, 5], [2, 4, 6]]],
  ["shrink, flip, detach, reshape", () => {
    const c = grid();
    c.shrink([[0, 1], [0, 2]]).assign(0);
    c.flip(0).setAt([0, 0], 9);
    c.detach().setAt([1, 1], 8);
    c.reshape([3, 2]).setAt([1, 0], 7);
    return c;
  }, [[0, 0, 7], [9, 8, 6]]],
  ["a view of a view, and both", () => {
    const c = grid(), row = c.at(1);
    row.setAt([2], 5);
    row.at([0, 2]).assign(0);
    row.flip(0).mulInPlace(3);
    return [c, row];
  }, [[[1, 2, 3], [0, 0, 15]], [0, 0, 15]]],
  ["a write behind the back of a view, then one through it", () => {
    const c = four(), part = c.at([0, 2]);
    c.setAt([1], 7);
    part.mulInPlace(10);
    return [c, part];
  }, [[10, 70, 3, 4], [10, 70]]],
  ["parts of one buffer in one schedule", () => {
    const c = four(), a = c.at([0, 2]), b = c.at([2, 4]);
    a.assign(a.add(1));
    b.assign(b.add(1));
    Tensor.realize([a, b]);
    return [c, a, b];
  }, [[2, 3, 4, 5], [2, 3], [4, 5]]],
  ["in a loop, realized each time", () => {
    const c = four(), a = c.at([0, 2]);
    for (let i = 0; i < 3; i++) a.assign(a.add(1)).realize();
    for (let i = 0; i < 3; i++) a.addInPlace(1).realize();
    return [c, a];
  }, [[7, 8, 3, 4], [7, 8]]],
  ["with a bound variable", () => {
    const c = real([[1, 2], [3, 4], [5, 6]]), p = variable(), row = c.at([p, p.add(1)], ":");
    row.assign(real([[9, 8]]));
    return [c, row];
  }, [[[1, 2], [9, 8], [5, 6]], [[9, 8]]]],
  ["bits", () => {
    const c = four();
    c.bitcast("int32").at([1, 3]).assign(new Tensor([0x40400000, -5], { dtype: "int32" }));
    c.bitcast("uint8").setAt([3], 0xc0);
    c.bitcast("int32").addInPlace(0);
    return [c.at([0, 2]), c.bitcast("int32").at(2)];
  }, [[-4, 3], -5]],
  ["a value that nobody has realized", () => {
    const y = four().add(1), part = y.at([0, 2]);
    part.assign(7);
    y.at(3).mulInPlace(2);
    return y;
  }, [7, 7, 4, 10]],
  ["zeros, and a sum that a view was made of before a write to it", () => {
    const z = Tensor.zeros([3]), y = grid().sum(0), part = y.at([0, 2]);
    z.at([0, 2]).assign(5);
    y.setAt([2], 1);
    part.assign(0);
    return [z, y];
  }, [[5, 5, 0], [0, 0, 1]]],
  ["a value that waits for a write of a constant that is written again", () => {
    const a = grid().sum(0), b = a.cumsum(0);
    b.assign(2);
    a.assign(b);
    b.subInPlace(b);
    b.realize();
    return [a, b];
  }, [[2, 2, 2], [0, 0, 0]]],
  ["the view that is written is a result", () => {
    const a = real([0, 1, 2]), before = a.at(1), m = real([[0, 1], [2, 3]]), column = m.at(":", 1);
    a.setAt([1], 9);
    m.setAt([":", 1], 7);
    Tensor.realize([column, a, before, m]);
    return [a, before, m, column];
  }, [[0, 9, 2], 1, [[0, 7], [2, 7]], [1, 3]]],
  ["a circle through a tensor that is written twice", () => {
    const a = four(), b = real([5, 6, 7, 8]), was = a.mul(2), turned = a.flip(0);
    turned.addInPlace(turned);
    turned.mulInPlace(b);
    b.assign(was);
    return [turned, b];
  }, [[40, 36, 28, 16], [2, 4, 6, 8]]],
  ["two change places", () => {
    const a = real([1, 2]), b = real([3, 4]), wasA = a.flip(0), wasB = b.flip(0);
    a.assign(wasB);
    b.assign(wasA);
    Tensor.realize([a, b]);
    return [a, b];
  }, [[4, 3], [2, 1]]],
  ["three change places", () => {
    const a = real([1, 2]), b = real([3, 4]), c = real([5, 6]), was = a.mul(1);
    a.assign(b);
    b.assign(c);
    c.assign(was);
    Tensor.realize([c, b, a]);
    return [a, b, c];
  }, [[3, 4], [5, 6], [1, 2]]],
  ["what reads before and after a write", () => {
    const x = real([1, 2]), before = x.flip(0);
    x.assign(x.add(1));
    const both = before.add(x);
    Tensor.realize([both, x]);
    return [both, x];
  }, [[4, 4], [2, 3]]],
  ["an old value over a part that was written", () => {
    const a = real([1, 2, 3]), old = a.mul(2);
    a.setAt([0], 7);
    a.assign(old);
    return a;
  }, [2, 4, 6]],
  ["overlapping slices", () => {
    const a = four(), b = a.at([0, 3]), c = a.at([1, 4]);
    c.assign(b);
    a.at([0, 2]).assign(a.at([2, 4]));
    return a;
  }, [2, 3, 2, 3]],
  ["a view that was realized", () => {
    const c = four(), part = c.at([0, 2]).realize();
    part.setAt([0], 9);
    return [c, part];
  }, [[9, 2, 3, 4], [9, 2]]],
  ["a view of a value that was realized", () => {
    const c = four().mul(2), part = c.at([0, 2]).realize();
    part.setAt([0], 9);
    return [c, part];
  }, [[9, 4, 6, 8], [9, 4]]],
  ["a view of a view that was realized", () => {
    const c = four(), turned = c.flip(0).realize();
    turned.at([0, 2]).realize().mulInPlace(10);
    return [c, turned];
  }, [[1, 2, 30, 40], [40, 30, 2, 1]]],
  ["a realized view of a value whose sources were overwritten: nobody can see more of that", () => {
    const c = four(), part = c.mul(2).at([0, 2]).realize();
    c.assign(0).realize();
    part.addInPlace(1);
    return [c, part];
  }, [[0, 0, 0, 0], [3, 5]]],
  ["a realized view of a tensor that was disposed of", () => {
    const c = four(), part = c.at([0, 2]).realize();
    c.dispose();
    return part.addInPlace(1);
  }, [2, 3]],
  ["a realized view that became a weight", () => {
    const c = four(), part = c.at([0, 2]).realize();
    part.requiresGrad = true;
    part.assign(7);
    return [c, part];
  }, [[1, 2, 3, 4], [7, 7]]],
  ["a value that movement ends, through all of it in order", () => {
    const c = real([1, 2, 3, 4]).reshape([2, 2]).cumsum(0), whole = c.detach();
    whole.mulInPlace(2).realize();
    c.assign(5);
    return [c, whole];
  }, [[[5, 5], [5, 5]], [[5, 5], [5, 5]]]],
  ["a value that was assigned, realized, and written again while it reads what is overwritten", () => {
    const c = four(), whole = c.permute([0]), v = whole.add(whole);
    v.setAt([":"], 3);
    v.realize();
    v.setAt([whole.gt(2)], 6);
    whole.assign(v).realize();
    return [c, v.realize()];
  }, [[3, 3, 6, 6], [3, 3, 6, 6]]],
  ["reading does not part a view from its tensor", () => {
    const c = four(), part = c.at([0, 2]);
    part.at(0).item(); // begins to read
    part.setAt([0], 9);
    return [c, part];
  }, [[9, 2, 3, 4], [9, 2]]],
  ["there and back", () => {
    const c = four();
    c.reshape([2, 2]).reshape([4]).setAt([0], 9);
    c.reshape([2, 2]).permute([1, 0]).permute([1, 0]).setAt([0, 1], 8);
    return c;
  }, [9, 8, 3, 4]],
  ["a view that was realized between the write and its schedule", () => {
    const c = four(), part = c.at([1, 3]), twin = c.at([1, 3]);
    part.assign(0);
    twin.realize();
    return [c, twin, part];
  }, [[1, 0, 0, 4], [2, 3], [0, 0]]],
  ["equal expressions, and values that are another tensor's", () => {
    const x = four(), a = x.add(1), b = x.add(1), same = x.mul(1), copy = x.contiguous();
    Tensor.realize([a, b, same, copy]);
    a.setAt([0], 9);
    same.setAt([1], 8);
    copy.setAt([2], 7);
    Tensor.realize([a, same, copy]);
    return [x, a, b, same, copy];
  }, [[1, 2, 3, 4], [9, 3, 4, 5], [2, 3, 4, 5], [1, 8, 3, 4], [1, 2, 7, 4]]],
  ["a value that was taken over whole, and a sum over one element", () => {
    const x = four(), y = x.add(1), column = x.reshape([4, 1]), sum = column.sum(1);
    y.setAt([":"], x);
    y.mulInPlace(2);
    sum.addInPlace(1);
    return [x, y, sum];
  }, [[1, 2, 3, 4], [2, 4, 6, 8], [2, 3, 4, 5]]],
  ["before and after a write, in one kernel", () => {
    const c = four().clone(), before = c.detach();
    c.setAt([0], 6);
    c.subInPlace(before);
    return c;
  }, [5, 0, 0, 0]],
  ["an operand that is what the target is a view of", () => {
    const c = four(), row = c.reshape([1, 4]), all = row.at(":");
    c.assign(5);
    all.mulInPlace(row);
    return c;
  }, [5, 10, 15, 20]],
  ["another tensor under the same name", () => {
    const c = four(), part = c.at([0, 2]), other = real([5, 6, 7, 8]);
    c.replace(other);
    part.assign(0);
    return [c, part];
  }, [[5, 6, 7, 8], [0, 0]]],
];

for (const device of devices) {
  for (const [name, run, want] of PROGRAMS) {
    Deno.test(`in place ${device}: ${name}`, async () => {
      await onDevice(device, async () => {
        const made = run();
        const got = Array.isArray(made) ? await Promise.all(made.map((t) => t.tolist())) : await made.tolist();
        assertEquals(got as NestedValues, want);
      });
    });
  }
}

Deno.test("in place: reads through data() keep a view a view", async () => {
  const c = four(), part = c.at([0, 2]);
  assertEquals(await part.tolist(), [1, 2]);
  part.assign(0);
  assertEquals(await c.tolist(), [0, 0, 3, 4]);
});

Deno.test("in place: a view that is read while another write goes with it is what was read, later, too", async () => {
  const c = grid(), turned = c.at(":", [null, null, -1]), sums = turned.cumsum(1), late = sums.detach();
  turned.assign(sums);
  c.mulInPlace(late);
  for (let i = 0; i < 2; i++) assertEquals(await turned.tolist(), [[3, 5, 6], [6, 11, 15]]);
  assertEquals(await turned.add(1).tolist(), [[4, 6, 7], [7, 12, 16]]);
  assertEquals(await c.tolist(), [[18, 25, 18], [90, 121, 90]]);
  turned.assign(0); // it still is a view
  assertEquals(await c.sum().item(), 0);
});

Deno.test("in place: a window that was read stays a view of its tensor, whatever is collected since", async () => {
  type Named = { ref: { deref(): Tensor | undefined } }[];
  for (const isMemory of [true, false]) {
    const c = isMemory ? grid() : grid().add(0).mul(1), at = (max: number) => new Variable("p", 0, max).bind(1);
    const window = c.at([at(1), at(1).add(1)], [at(2), at(2).add(1)]);
    assertEquals(internals.aliases(window)[0], c);
    assertEquals(await window.tolist(), [[5]]);
    const { named } = (window as unknown as { source: { named: Named } }).source;
    assertEquals(named.at(-1)!.ref.deref(), c);
    for (const link of named.slice(0, -1)) link.ref = { deref: () => undefined }; // nobody's, they are collected
    c.at([0, 2]).assign(c.mul(2));
    window.assign(9);
    assertEquals(await c.tolist(), [[2, 4, 6], [8, 9, 12]]);
  }
});

Deno.test("in place: a view of a value that is what another view shows is read as that", () => {
  for (const dtype of ["float32", "int32"] as const) {
    for (const move of [(t: Tensor) => t.permute([0]), (t: Tensor) => t.flip(0), (t: Tensor) => t.reshape([3, 1])]) {
      const make = () => new Tensor([1, 2, 3], { dtype }).flip(0).pow(1), want = move(make().add(0));
      const real = move(make()).realize(), value = make(), view = move(value);
      assertEquals([real, view, value].map((t) => t.tolistSync()), [want.tolistSync(), want.tolistSync(), [3, 2, 1]]);
    }
  }
});

Deno.test("in place: a view of a value that is what another view shows is written to the value, read before or not", () => {
  const moves = [
    (t: Tensor) => t.permute([0]),
    (t: Tensor) => t.flip(0),
    (t: Tensor) => t.at([0, 3]),
    (t: Tensor) => t.detach(),
  ];
  for (const move of moves) {
    for (const read of [[], [0], [1], [0, 1], [1, 0]]) {
      const value = new Tensor([1, 2, 3]).flip(0).pow(1), view = move(value), want = move(new Tensor([6, 4, 2]));
      for (const i of read) [value, view][i].tolistSync();
      view.assign(view.mul(2));
      assertEquals([value.tolistSync(), view.tolistSync()], [[6, 4, 2], want.tolistSync()], `${move} ${read}`);
    }
  }
});

Deno.test("in place: a value that is what a view shows of what it was is none of its shapes", () => {
  for (const view of [(t: Tensor) => t.flip(0), (t: Tensor) => t.reshape([2, 2]).permute([1, 0]).reshape([4])]) {
    const want = view(four().add(8)).tolistSync();
    for (const order of [0, 1, 2]) {
      const y = four().clone().add(8), part = view(y);
      y.setAt([":"], part);
      Tensor.realize([[part], [y], [y, part]][order]);
      assertEquals([part.tolistSync(), y.tolistSync()], [want, want], `${view}, ${order}`);
      y.addInPlace(1);
      assertEquals(
        [part.tolistSync(), y.tolistSync()],
        [want, (want as number[]).map((v) => v + 1)],
        `${view}, ${order}`,
      );
    }
  }
});

Deno.test("in place: what another graph computes on its way is computed again where it was written as a tensor", () => {
  const rows: [string, (t: Tensor) => Tensor, (t: Tensor) => Tensor][] = [
    ["rows that a gather repeats", (t) => t.unsqueeze(0).expand([2, 4]), (t) => t.at(new Tensor([3, 0]))],
    ["a sum", (t) => t.sum(0), (t) => t.sum().add(t.flip(0))],
    ["a mean", (t) => t.mean(), (t) => t.sub(t.mean()).square()],
    ["a cast", (t) => t.cast("int32"), (t) => t.cast("int32").mul(2)],
    ["a sum of a sum", (t) => t.add(1).sum(0).add(2), (t) => t.add(1).sum(0).add(2).mul(t)],
  ];
  for (const [name, part, all] of rows) {
    const t = four(), own = part(t), late = all(t), want = all(four()).tolistSync();
    own.realize();
    own.setAt([0].slice(0, own.ndim), 7).realize();
    assertEquals(late.tolistSync(), want, name);
  }
  const t = four().add(1), early = t.mul(2), late = t.realize().mul(2);
  t.assign(0).realize();
  assertEquals(early.tolistSync(), [4, 6, 8, 10]);
  assertThrows(() => late.tolistSync(), StaleReadError);
});

Deno.test("in place: a read that comes too late says so, and its advice works, whatever the read is", async () => {
  const reads: [string, (t: Tensor) => Tensor][] = [
    ["add", (t) => t.add(1)],
    ["sum over one element", (t) => t.reshape([4, 1]).sum(1)],
    ["cast", (t) => t.cast(t.dtype)],
    ["reshape", (t) => t.reshape([2, 2])],
    ["unsqueeze", (t) => t.unsqueeze(0)],
    ["detach", (t) => t.detach()],
    ["slice", (t) => t.at([0, 2])],
    ["flip", (t) => t.flip(0)],
    ["permute", (t) => t.reshape([2, 2]).permute([1, 0])],
    ["expand", (t) => t.unsqueeze(0).expand([2, 4])],
    ["contiguous", (t) => t.contiguous()],
  ];
  const text = "realize a clone() of the read before the write, or together with it by Tensor.realize([...])";
  for (const [name, read] of reads) {
    const want = await read(four()).tolist();
    for (const write of [(t: Tensor) => t.assign(0), (t: Tensor) => t.at([0, 2]).assign(0)]) {
      const a = four(), late = read(a);
      write(a).realize();
      assertThrows(() => (late.realize(), late.tolistSync()), StaleReadError, text, name);
      const b = four(), early = read(b).clone().realize();
      write(b).realize();
      assertEquals(await early.tolist(), want, name);
      const c = four(), both = read(c).clone();
      write(c);
      Tensor.realize([c, both]);
      assertEquals(await both.tolist(), want, name);
      for (const make of [four, () => new Tensor([1, 2, 3, 4], { dtype: "float32" }), () => four().clone()]) {
        const d = make(), beside = read(d);
        write(d);
        Tensor.realize([d, beside]);
        assertEquals(await beside.tolist(), want, `${name}, itself`);
      }
    }
  }
});

Deno.test("inplace: a whole write to a lazy value is a copy of what is written", async () => {
  const from = new Tensor([1, 2, 3]).realize(), to = from.add(1);
  to.setAt([":"], from);
  to.realize();
  from.setAt([0], 9).realize();
  assertEquals([await to.tolist(), await from.tolist()], [[1, 2, 3], [9, 2, 3]]);
});

Deno.test("inplace: a view of a view that had been read, and is then realized, stays one of what that was a view of", async () => {
  const ways: readonly ((t: Tensor) => Tensor)[] = [
    (t) => t.at([0, 1]),
    (t) => t.at([variable(), null]),
    (t) => t.flip([0, 1]),
    (t) => t.permute([1, 0]),
    (t) => t.detach(),
  ];
  for (const below of ways) {
    for (const above of [...ways, (t: Tensor) => t.flip([1]).at([0, 1])]) {
      const got: unknown[] = [];
      for (const isRead of [false, true]) {
        const t = real([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), view = below(t);
        if (isRead) await view.tolist();
        const upper = above(view);
        view.realize();
        upper.assign(upper.mul(10));
        got.push([await t.tolist(), await upper.tolist()]);
      }
      assertEquals(got[1], got[0], `${below} ${above}`);
    }
  }
});

Deno.test("inplace: views of a copy that is no other node than what it copies are read, in whatever order", async () => {
  const copies: readonly ((t: Tensor) => Tensor)[] = [
    (t) => t.pad([[0, 0]]),
    (t) => t.pad([[0, 0]]).pad([[0, 0]]),
    (t) => t.flip(0).pad([[0, 0]]),
    (t) => t.pad([[0, 0]]).expand([1]),
  ];
  const views: readonly ((t: Tensor) => Tensor)[] = [
    (t) => t.reshape([1]).at([0, 1]),
    (t) => t.shrink([[0, 1]]).flatten(),
    (t) => t.at(0).reshape([1]),
    (t) => t.flip(0),
    (t) => t.detach(),
    (t) => t.unsqueeze(0).at(0),
  ];
  for (const copy of copies) {
    for (let first = 0; first < views.length; first++) {
      const all = new Tensor([1, 8, 15, 22]).realize(), copied = copy(all.at([3, 4]));
      const made = views.map((view) => view(copied));
      for (let i = 0; i < made.length; i++) {
        const k = (first + i) % made.length;
        assertEquals(await made[k].tolist(), [22], `${copy} ${views[k]}, read as number ${i}`);
      }
      made[first].assign([5]);
      assertEquals([await all.tolist(), await copied.tolist()], [[1, 8, 15, 22], [5]], `${copy} ${views[first]}`);
    }
  }
});

Deno.test("inplace: a write to a view without elements is none", async () => {
  const t = four();
  t.at([2, 2]).assign(5);
  t.at([4, 4]).addInPlace(1);
  assertEquals(await t.tolist(), [1, 2, 3, 4]);
  const none = new Tensor([], { dtype: "float32" }).realize();
  assertEquals(await none.addInPlace(1).tolist(), []);
});

Deno.test("inplace: views stay views of what they were made of, whatever is realized beside them", async () => {
  const made = (values: number[], shape: number[]): Tensor => new Tensor(values, { dtype: "int32" }).reshape(shape);
  { // one that is equal to a view that got memory of its own
    const t = made([1, 2, 3, 4], [2, 2]).realize(), part = t.at(1), same = part.permute([0]);
    part.realize();
    same.assign(part);
    same.addInPlace(part);
    assertEquals(await t.tolist(), [[1, 2], [6, 8]]);
  }
  { // one that was merged with another rearrangement
    const t = made([1, 2, 3, 4], [2, 2]).realize(), sums = t.cumsum(0), turned = sums.permute([1, 0]);
    sums.realize();
    turned.at(0).assign(9);
    assertEquals([await sums.tolist(), await turned.tolist()], [[[9, 2], [9, 6]], [[9, 9], [2, 6]]]);
  }
  { // one that was written through, overwritten, and realized twice
    const t = made([5, 4, -1, -1], [4]).realize(), whole = t.at(":");
    whole.addInPlace(1);
    t.mulInPlace(2);
    whole.realize();
    whole.realize();
    whole.subInPlace(7);
    assertEquals(await t.tolist(), [5, 3, -7, -7]);
  }
  { // one whose part is another view, which was realized and written
    const t = made([-2, 0, 3, 5], [2, 2]).realize(),
      row = t.at([null, null, 2]),
      back = t.at([null, null, 3], [null, null, -1]);
    row.realize();
    row.setAt([0], 9);
    row.realize();
    assertEquals(await back.detach().tolist(), [[0, -2]]);
  }
  { // one that shows a view which was realized, in another shape
    const t = made([0, 9, 2, 1, 8, 1], [3, 2]).clone(), turned = t.permute([1, 0]), back = turned.reshape([3, 2]);
    turned.realize();
    back.realize();
    back.setAt([0], 7);
    await back.tolist();
    assertEquals(await t.tolist(), [[7, 9], [7, 1], [8, 1]]);
    assertEquals([await turned.tolist(), await back.tolist()], [[[7, 7, 8], [9, 1, 1]], [[7, 7], [8, 9], [1, 1]]]);
  }
  { // one that what it was made of is assigned to
    const t = made([1, 2, 3, 4], [4]), a = t.permute([0]), b = a.flip([]);
    t.setAt([1], 7);
    b.assign(t);
    assertEquals(await a.mul(1).tolist(), [1, 7, 3, 4]);
  }
});

Deno.test("in place: a constant that is realized stays one for all that are equal to it", async () => {
  const one = Tensor.full([1], 1).realize(), x = new Tensor([[1, 2], [3, 4]]).realize();
  const p = new Variable("p", 0, 1).bind(1);
  assertEquals(await x.add(5).at(1, [p, p.add(1)]).tolist(), [9]);
  const scalar = new Tensor(1).realize(), other = new Tensor(1);
  scalar.assign(7);
  assertEquals([await scalar.item(), await other.item(), await one.tolist()], [7, 1, [1]]);
});
