/**
 * Axes, positions and memory beyond what 32 bits count: on every device where nothing is stored, and stored on CLANG.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { scheduleNodes } from "../../../src/schedule/schedule.ts";
import { context, Device, OutOfMemoryError, ShapeError, Tensor } from "../../../mod.ts";
import { openDevices } from "../../fuzz/programs.ts";
import { fuzzSizes } from "../../fuzz/sizes.ts";
import { onDevice } from "../../support/on_device.ts";

const devices = await openDevices();
/** A tensor of positions. */
const places = (...x: number[]): Tensor => new Tensor(new BigInt64Array(x.map(BigInt)));
const row = (): Tensor => Tensor.arange(70000).contiguous().realize();

const READS: readonly (readonly [name: string, make: () => Tensor, want: unknown])[] = [
  ["cat", () =>
    new Tensor([1]).realize().expand([3e9]).cat([new Tensor([2]).realize().expand([3e9])])
      .at(places(2999999999, 3000000000, 5999999999)), [1, 2, 2]],
  ["pad", () => new Tensor([1, 2]).realize().pad([3e9, 5], { value: 7 }).at(places(2999999999, 3000000000)), [7, 1]],
  ["flip", () => row().reshape([70000, 1]).expand([70000, 70000]).flatten().flip(0).at([0, 2]), [69999, 69999]],
  ["at computed", () => row().reshape([70000, 1]).expand([70000, 70000]).flatten().at(places(4899999999).add(0)), [
    69999,
  ]],
  ["shrink", () => row().reshape([70000, 1]).add(row()).flatten().shrink([[4899999997, 4899999999]]), [139996, 139997]],
  ["stride", () => row().reshape([70000, 1]).expand([70000, 70000]).flatten().at([1, null, 69999]).at([-2, null]), [
    69998,
    69999,
  ]],
  ["arange", () => Tensor.arange(5e9).at([4999999998, null]), [4999999998, 4999999999]],
  ["arange by 2", () => Tensor.arange(0, 1e10, 2).at(places(4999999999, 0)), [9999999998, 0]],
  ["negative int32", () => Tensor.arange(5e9).at(new Tensor([-1, 5])), [4999999999, 5]],
  ["gather", () => Tensor.arange(5e9).gather(0, places(4999999999, 7)), [4999999999, 7]],
  ["roll", () => Tensor.arange(3e9).roll([1e9], [0]).at(places(0, 999999999, 1e9, 2999999999)), [
    2e9,
    2999999999,
    0,
    1999999999,
  ]],
  // what an index selects is computed for it alone: all of it would not fit in memory
  [
    "at of what is padded, rolled and repeated",
    () =>
      new Tensor([1, 8], { dtype: "int64" }).realize().pad([[65536, 1181655703]], { value: -5 }).roll([692032279], [0])
        .unsqueeze(1).expand([1181721241, 412100]).reshape([486987323416100])
        .at(places(0, 692097815 * 412100, 692097816 * 412100 + 7, 486987323416099)),
    [-5, 1, 8, -5],
  ],
  ["repeat", () => new Tensor([1, 2, 3]).realize().repeat([1e9]).at(places(2999999999, 2999999998, 0)), [3, 2, 1]],
  ["repeatInterleave", () => new Tensor([1, 2, 3]).repeatInterleave(1e9).at(places(2999999999, 1e9, 999999999)), [
    3,
    2,
    1,
  ]],
  ["tril", () => Tensor.ones([70000, 70000]).tril().flatten().at(places(4899999999, 69999, 4899930000)), [1, 0, 1]],
  ["eye", () => Tensor.eye(70000).flatten().at(places(4899999999, 69999, 0, 70001, 4899999998)), [1, 0, 1, 1, 0]],
  ["diagonal", () => row().reshape([70000, 1]).expand([70000, 70000]).diagonal().at([-2, null]), [69998, 69999]],
  ["unfold", () => Tensor.arange(5e9).unfold(0, 3, 2).at(places(2499999998)), [[4999999996, 4999999997, 4999999998]]],
  [
    "stack",
    () => Tensor.arange(3e9).stack([Tensor.arange(3e9).mul(2)], 1).flatten().at(places(5999999999, 5999999998)),
    [5999999998, 2999999999],
  ],
  ["setAt a slice", () => {
    const t = Tensor.zeros([5e9]);
    t.setAt([[4999999990, null]], 3);
    return t.at([4999999988, 4999999992]);
  }, [0, 0, 3, 3]],
  ["setAt by a tensor", () => {
    const t = Tensor.zeros([5e9]);
    t.setAt([places(4999999990)], 3);
    return t.at([4999999989, 4999999992]);
  }, [0, 3, 0]],
  ["nllLoss", () => Tensor.arange(3e9).cast("float32").reshape([1, 3e9]).nllLoss(places(2999999999)), -3e9],
  ["oneHot", () => places(2999999999).oneHot(3e9).at(0, [2999999998, null]), [0, 1]],
  // numerators of 2 * 44100 * 88200
  [
    "interpolate",
    () => row().at([0, 44100]).cast("float32").reshape([1, 1, 44100]).interpolate([88200]).at(0, 0, [88198, null]),
    [44098.75, 44099],
  ],
  ["sum", () => Tensor.ones([5e9]).sum(), 5e9],
];

for (const device of devices) {
  for (const [name, make, want] of READS) {
    Deno.test(`sizes ${device}: ${name} beyond 2^31`, () =>
      onDevice(device, async () => assertEquals(await make().tolist(), want)));
  }
  Deno.test(`sizes ${device}: random movement`, async () => {
    assertEquals(await fuzzSizes(device === "WEBGPU" ? 10 : 25, 11, device), []);
    // ptxas 13.0 took (-x >> 2) + y for y - (x >> 2) here
    const row = Tensor.arange(0, 16, 1, { dtype: "int64", device }).reshape([4, 4]).realize().transpose().flatten();
    const some = row.at([2, null, 5]).flip(0), far = some.cat([some.flip(0)]).unsqueeze(1).expand([6, 6621857198]);
    const at = new Tensor([0n, 8589934591n, 18577616000n, 39731143187n], { dtype: "int64", device });
    assertEquals(await far.flatten().at(at).tolist(), [3, 13, 8, 3]);
  });
}

Deno.test("sizes: loops are counted in 32 bits, positions in 64", () => {
  const { renderer } = Device.get("NULL");
  for (const n of [2 ** 31 + 16, 2147483659]) { // the second is a prime
    const x = Tensor.empty([n], { dtype: "uint8", device: "NULL" }).realize();
    for (const NOOPT of [0, 1]) {
      const uops = context({ NOOPT }, () => {
        const [item] = scheduleNodes([x.flip(0).contiguous().uop]).variant.items;
        return toProgram(item.ast!, renderer).uops;
      });
      const loops = uops.filter((u) => u.op === Ops.RANGE);
      assert(loops.length > 0 && loops.every((r) => r.dtype.name === "int32"));
      const addresses = uops.filter((u) => u.op === Ops.INDEX && u.src[1].op !== Ops.CONST);
      assert(addresses.length > 1 && addresses.every((u) => u.src[1].dtype.name === "int64"));
    }
  }
});

Deno.test("sizes: dtypes of positions", () => {
  assertEquals(Tensor.arange(2 ** 31 - 1).argmax().dtype.name, "int32");
  assertEquals(Tensor.arange(2 ** 31).argmax().dtype.name, "int64");
  assertEquals(Tensor.arange(2 ** 31).cummax(0)[1].dtype.name, "int64");
});

Deno.test("sizes: a flattened axis of more than 2^53 elements is a ShapeError", () => {
  const x = Tensor.empty([3]).realize().reshape([3, 1, 1]).expand([3, 2 ** 30, 2 ** 30]);
  assertThrows(() => x.flatten(), ShapeError, "2^53");
});

Deno.test({
  name: "sizes CLANG: 2^31 stored elements and more",
  ignore: !devices.includes("CLANG") || Deno.systemMemoryInfo().available < 6e9,
  fn: async () => {
    const n = 2147483659;
    const x = Tensor.full([n], 7, { dtype: "uint8", device: "CLANG" }).contiguous().realize();
    x.setAt([[n - 3, null]], new Tensor([1, 9, 3], { dtype: "uint8", device: "CLANG" })).realize();
    assertEquals(await x.flip(0).at([0, 4]).tolist(), [3, 9, 1, 7]);
    assertEquals(Number(await x.argmax().item()), n - 2);
    const y = x.flip(0).add(1).realize();
    x.dispose();
    assertEquals(await y.at([0, 4]).tolist(), [4, 10, 2, 8]);
    assertEquals(await y.at([n - 2, null]).tolist(), [8, 8]);
    y.dispose();
  },
});

Deno.test({
  name: "sizes: more than a device holds is an OutOfMemoryError",
  fn: () => {
    for (const device of devices.filter((d) => d === "JS" || d === "WASM")) {
      assertThrows(
        () => Tensor.full([2 ** 44], 1, { dtype: "uint8", device }).contiguous().realize(),
        OutOfMemoryError,
      );
    }
  },
});
