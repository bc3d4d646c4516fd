/** Realized slices share the memory of what they are slices of, and no write in place is seen through it. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { context, Device, DisposedError, GlobalCounters, jit, schedule, scope, Tensor } from "../../mod.ts";
import { bufferOf } from "../../src/device/buffer.ts";
import { settleMemory } from "../../src/device/pressure.ts";
import { realizedBuffer } from "../../src/tensor/realize.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import type { BufferArg } from "../../src/uop/core/args.ts";

Device.default = "JS";

const kinds = (t: Tensor): string[] => schedule([t]).map((i) => i.runner.kind);
function bufferBelow(t: Tensor): Buffer {
  return bufferOf((realizedBuffer(t.uop)!.arg as BufferArg).storage)!;
}
function sharesMemory(a: Tensor, b: Tensor): boolean {
  return bufferBelow(a).base === bufferBelow(b).base;
}

/** Devices of this machine; opened before the tests, as what they load stays. */
const devices = ["JS", "WASM", "CLANG"].filter((name) => {
  try {
    return Device.get(name).name === name;
  } catch {
    return false; // no compiler here
  }
});

for (const device of devices) {
  const rows = (n = 10): Tensor => {
    using flat = new Tensor(Float32Array.from({ length: n * 2 }, (_, i) => i), { device });
    return flat.reshape([n, 2]).realize();
  };
  /** Bytes of this device, after what other tests left behind is gone. */
  const held = async (): Promise<number> => {
    await settleMemory();
    return Device.memory()[device].bytes;
  };
  const test = (name: string, fn: () => Promise<void> | void) => Deno.test(`view ${device}: ${name}`, fn);

  const FORMS: [name: string, make: (x: Tensor) => Tensor, want: string][] = [
    ["rows", (x) => x.at([2, 5]), "ViewOp"],
    ["rows, contiguous", (x) => x.at([2, 5]).contiguous(), "ViewOp"],
    ["one element", (x) => x.at(3, 1), "ViewOp"],
    ["rows under another shape", (x) => x.at([2, 5]).reshape([3, 1, 2]).permute([1, 0, 2]), "ViewOp"],
    ["a slice of a slice", (x) => x.at([2, 8]).at([1, 3]), "ViewOp"],
    ["one column", (x) => x.at(":", 1), "CompiledKernel"],
    ["every other row", (x) => x.at([0, 10, 2]), "CompiledKernel"],
    ["transposed", (x) => x.permute([1, 0]), "CompiledKernel"],
    ["flipped", (x) => x.flip([0]), "CompiledKernel"],
    ["padded", (x) => x.at([2, 5]).pad([[1, 0], [0, 0]]), "CompiledKernel"],
    ["repeated", (x) => x.at([2, 3]).expand([4, 2]), "CompiledKernel"],
    ["computed", (x) => x.at([2, 5]).add(1), "CompiledKernel"],
    ["a clone", (x) => x.at([2, 5]).clone(), "CompiledKernel"],
  ];
  for (const [name, make, want] of FORMS) {
    test(`${name}: ${want}`, async () => {
      const x = rows(), lazy = make(x), steps = kinds(lazy);
      assertEquals(steps, [want]);
      const copied = await make(x).add(0).mul(1).tolist();
      assertEquals(await lazy.realize().tolist(), copied);
      assertEquals(sharesMemory(lazy, x), want === "ViewOp");
    });
  }

  test("reading a slice runs nothing and takes no memory", async () => {
    await settleMemory(); // nobody else's memory goes meanwhile
    const x = rows(), { kernelCount } = GlobalCounters, { bytes, count } = Device.memory()[device];
    assertEquals(await x.at([2, 4]).tolist(), [[4, 5], [6, 7]]);
    const after = Device.memory()[device];
    assertEquals([GlobalCounters.kernelCount, after.bytes, after.count], [kernelCount, bytes, count]);
  });

  test("a later write to the base is not seen by the view", async () => {
    const x = rows(), y = x.at([2, 4]).realize();
    x.assign(x.mul(10)).realize();
    assertEquals([await y.tolist(), await x.at([2, 4]).tolist()], [[[4, 5], [6, 7]], [[40, 50], [60, 70]]]);
    x.setAt([3], -1).realize();
    assertEquals(await y.tolist(), [[4, 5], [6, 7]]);
  });

  test("a later write to the view is one to the base, and other views name what was there before", async () => {
    const x = rows(), y = x.at([2, 4]).realize(), z = x.at([3, 5]).realize();
    y.setAt([1], -1).realize();
    assertEquals(await y.tolist(), [[4, 5], [-1, -1]]);
    assertEquals([await x.at(3).tolist(), await z.tolist()], [[-1, -1], [[6, 7], [8, 9]]]);
  });

  test("what is computed from the view after a write to the base uses what was there", async () => {
    const x = rows(), y = x.at([2, 4]).realize(), later = y.sum();
    x.assign(Tensor.zeros([10, 2], { device })).realize();
    assertEquals(await later.item(), 22);
  });

  test("base and view in one schedule with a write to the base", async () => {
    const x = rows(), y = x.at([2, 4]).realize(), inner = y.at([0, 1]).contiguous().mul(2);
    x.assign(x.add(100));
    Tensor.realize([x, inner]);
    assertEquals([await inner.tolist(), await y.tolist()], [[[8, 10]], [[4, 5], [6, 7]]]);
  });

  test("a slice in the schedule of the write is a copy of the old values", async () => {
    const x = rows(), y = x.at([2, 4]).contiguous();
    x.assign(x.add(100));
    Tensor.realize([x, y]);
    assertEquals([await y.tolist(), sharesMemory(x, y)], [[[4, 5], [6, 7]], false]);
  });

  test("parts change places through contiguous", async () => {
    const x = rows(4);
    const low = x.at([0, 2]).contiguous(), high = x.at([2, 4]).contiguous();
    x.setAt([[0, 2]], high);
    x.setAt([[2, 4]], low);
    assertEquals(await x.tolist(), [[4, 5], [6, 7], [0, 1], [2, 3]]);
  });

  test("the base is disposed: a view of half keeps its memory, a small one moves out", async () => {
    const bytes = await held();
    const x = rows(), half = x.at([0, 5]).realize();
    x.dispose();
    assertEquals([(await half.tolist() as number[][])[4], Device.memory()[device].bytes - bytes], [[8, 9], 80]);
    half.dispose();
    const z = rows(), one = z.at(7).realize();
    z.dispose();
    assertEquals([await one.tolist(), Device.memory()[device].bytes - bytes], [[14, 15], 8]);
    one.dispose();
    assertEquals(Device.memory()[device].bytes, bytes);
  });

  test("the view is disposed: the base lives on, the view does not", async () => {
    const x = rows(), y = x.at([2, 4]).realize();
    y.dispose();
    assertThrows(() => y.add(1).realize(), DisposedError);
    assertEquals(await x.at(2).tolist(), [4, 5]);
  });

  test("a view leaves the scope that its base ends with", async () => {
    const bytes = await held();
    const y = scope(() => rows().at([8, 10]).realize());
    assertEquals([await y.tolist(), Device.memory()[device].bytes - bytes], [[[16, 17], [18, 19]], 16]);
    y.dispose();
  });

  test("jit: a view as an argument is where it is in each call", async () => {
    const x = rows(), f = jit((t: Tensor) => t.mul(2));
    for (let i = 0; i < 4; i++) {
      assertEquals(await f(x.at([2 * i, 2 * i + 2])).at(0).tolist(), [8 * i, 8 * i + 2]);
    }
    assertEquals(await f(x.at([1, 3])).tolist(), [[4, 6], [8, 10]]);
  });

  test("jit: a view of what replays write keeps its values", async () => {
    const state = rows(), f = jit((d: Tensor) => state.assign(state.add(d)));
    const one = Tensor.full([10, 2], 1, { dtype: "float32", device }).contiguous().realize();
    for (let i = 0; i < 3; i++) f(one);
    const y = state.at([2, 4]).realize();
    assertEquals(sharesMemory(y, state), true);
    f(one);
    assertEquals([await y.tolist(), await state.at(2).tolist()], [[[7, 8], [9, 10]], [8, 9]]);
  });

  test("jit: a view that is closed over is where the capture found it, whatever becomes of the base", async () => {
    const x = rows(), y = x.at([2, 4]).realize(), f = jit((t: Tensor) => t.add(y));
    const zero = Tensor.zeros([2, 2], { dtype: "float32", device }).contiguous().realize();
    for (let i = 0; i < 3; i++) assertEquals(await f(zero).tolist(), [[4, 5], [6, 7]]);
    x.assign(x.mul(0)).realize();
    assertEquals(await f(zero).tolist(), [[4, 5], [6, 7]]);
    x.dispose();
    assertEquals(await f(zero).tolist(), [[4, 5], [6, 7]]);
  });

  test("jit: slices inside are computed anew in each replay", async () => {
    const f = jit((t: Tensor) => t.at([1, 3]).contiguous().add(0).realize().at([0, 1]));
    for (let i = 0; i < 4; i++) {
      const t = rows().add(i).realize();
      assertEquals(await f(t).tolist(), [[2 + i, 3 + i]]);
    }
  });

  test("jit: reused outputs are not seen through slices of them", async () => {
    const f = jit((t: Tensor) => t.add(1), { reuseOutputs: true });
    f(rows());
    const y = f(rows()).at([0, 5]).realize();
    f(rows().add(50).realize());
    assertEquals(await y.at(0).tolist(), [1, 2]);
  });
}

Deno.test("view: on a device with aligned views the others are copies", () => {
  const x = new Tensor([...Array(256).keys()], { device: "JS", dtype: "int32" }).realize();
  const { layout } = Device.get("JS").allocator;
  Object.assign(layout, { viewAlign: 256 });
  try {
    context({ SCACHE: 0 }, () => {
      assertEquals(kinds(x.at([64, 70])), ["ViewOp"]);
      assertEquals(kinds(x.at([63, 70])), ["CompiledKernel"]);
    });
  } finally {
    Object.assign(layout, { viewAlign: 1 });
  }
  const [item] = schedule([x.at([64, 70])]);
  assertEquals(String(item), "ViewOp 24 bytes at 256 (int32x6@JS, int32x256@JS)");
  assertStrictEquals(item.bufs[0].base, item.bufs[1]);
});

const COPIES: [from: string, to: string, kind: string][] = [
  ["JS", "JS:1", "BufferXfer"],
  ["JS:1", "JS", "BufferXfer"],
  ["WASM", "WASM:1", "BufferXfer"],
  ["NULL", "NULL:2", "BufferXfer"],
  ["JS", "WASM", "BufferCopy"],
  ["WASM:1", "JS:1", "BufferCopy"],
];
for (const [from, to, kind] of COPIES) {
  Deno.test(`copy: ${from} to ${to} is a ${kind}`, async () => {
    const x = new Tensor([1, 2, 3, 4, 5, 6], { device: from }).realize();
    assertEquals(schedule([x.to(to)]).map(String), [
      `${kind} 24 bytes, ${to} <- ${from} (int32x6@${to}, int32x6@${from})`,
    ]);
    const [view, copy] = schedule([x.at([2, 4]).to(to)]);
    assertEquals([view.runner.kind, copy.runner.kind, copy.bufs[1].offset], ["ViewOp", kind, 8]);
    if (from === "NULL") return;
    assertEquals(await x.to(to).tolist(), [1, 2, 3, 4, 5, 6]);
    assertEquals(await x.at([2, 4]).to(to).mul(2).tolist(), [6, 8]);
  });
}
