/** Whole numbers of any size beside integers: exact, on every device. What DESIGN.md 1 says of scalars. */
import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

type Make = (device: string) => Tensor;
const i64 = (...x: bigint[]) => (device: string) => new Tensor(new BigInt64Array(x), { device }).realize();
const u64 = (...x: bigint[]) => (device: string) => new Tensor(new BigUint64Array(x), { device }).realize();
const u32 = (...x: number[]) => (device: string) => new Tensor(new Uint32Array(x), { device }).realize();
const i32 = (...x: number[]) => (device: string) => new Tensor(new Int32Array(x), { device }).realize();
const u8 = (...x: number[]) => (device: string) => new Tensor(new Uint8Array(x), { device }).realize();
const E = 2 ** 40 + 1;

const ROWS: readonly [name: string, x: Make, f: (x: Tensor) => Tensor, want: unknown, dtype: string][] = [
  ["uint32 eq", u32(3000000000), (x) => x.eq(3000000001), [false], "bool"],
  ["uint32 eq itself", u32(3000000001), (x) => x.eq(3000000001), [true], "bool"],
  ["uint32 beyond", u32(4294967295), (x) => x.lt(2 ** 32), [true], "bool"],
  ["uint32 below", u32(0), (x) => x.gt(-(2 ** 31)), [true], "bool"],
  ["int64 ge", i64(3000000000n), (x) => x.ge(3000000001), [false], "bool"],
  ["int64 le 2^63", i64(2n ** 63n - 1n), (x) => x.le(2 ** 63), [true], "bool"],
  ["int64 ne 2^63", i64(2n ** 63n - 1n), (x) => x.ne(2 ** 63), [true], "bool"],
  ["int64 gt a bigint", i64(2n ** 62n + 1n), (x) => x.gt(2n ** 62n), [true], "bool"],
  ["uint64 lt a bigint", u64(2n ** 63n), (x) => x.lt(2n ** 63n + 1n), [true], "bool"],
  ["uint64 gt -1", u64(2n ** 64n - 1n), (x) => x.gt(-1), [true], "bool"],
  ["uint8 eq 259", u8(3), (x) => x.eq(259), [false], "bool"],
  ["uint8 ge -1", u8(255), (x) => x.ge(-1), [true], "bool"],
  ["int32 lt 3e9", i32(2147483647), (x) => x.lt(3e9), [true], "bool"],
  ["int64 eq a list", i64(3000000000n), (x) => x.eq([3000000000]), [true], "bool"],
  ["two bounds", u64(2n ** 60n), (x) => x.lt(2n ** 60n + 1n).bitwiseAnd(x.lt(2n ** 60n)), [false], "bool"],
  ["int64 add", i64(1n), (x) => x.add(E), [E + 1], "int64"],
  ["int64 sub", i64(1n), (x) => x.sub(E), [1 - E], "int64"],
  ["int64 mul", i64(3n), (x) => x.mul(3000000001), [9000000003], "int64"],
  ["int64 floorDiv", i64(9000000004n), (x) => x.floorDiv(3000000001), [3], "int64"],
  ["int64 mod", i64(9000000004n), (x) => x.mod(3000000001), [1], "int64"],
  ["int64 reversed", i64(7n), (x) => x.floorDiv(E, { reverse: true }), [Math.floor(E / 7)], "int64"],
  ["int64 pow", i64(-1n), (x) => x.pow(2 ** 31 + 1), [-1], "int64"],
  ["int64 to the power", i64(2n), (x) => x.pow(3000000001, { reverse: true }), [9000000006000000001n], "int64"],
  ["uint32 add", u32(5), (x) => x.add(4294967290), [4294967295], "uint32"],
  ["uint32 add beyond", u32(5), (x) => x.add(2 ** 32), [4294967301], "int64"],
  ["uint32 bits", u32(0xf0f0f0f0), (x) => x.bitwiseAnd(0xff00ff00), [0xf000f000], "uint32"],
  ["uint32 far below", u32(5), (x) => x.add(-(2 ** 31)), [5 - 2 ** 31], "int64"],
  ["int32 and the least", i32(5), (x) => x.add(-(2 ** 31)), [5 - 2 ** 31], "int32"],
  ["int32 and what float32 holds", i32(5), (x) => x.mul(2 ** 31), [5 * 2 ** 31], "float32"],
  ["int32 and what it would round", i32(1), (x) => x.add(2147483649), [2147483650], "int64"],
  ["uint8 and the least int32", u8(5), (x) => x.add(-(2 ** 31)), [5 - 2 ** 31], "int32"],
  ["int32 beside a list with the least", i32(123456789), (x) => x.add([-(2 ** 31)]), [123456789 - 2 ** 31], "int32"],
  ["int32 and its high bit", i32(-5), (x) => x.bitwiseAnd(0x80000000), [-(2 ** 31)], "int32"],
  ["int32 and high bits", i32(0x12345678), (x) => x.bitwiseAnd(0xffff0000), [0x12340000], "int32"],
  ["int32 or a word", i32(5), (x) => x.bitwiseOr(0xdeadbeef), [0xdeadbeef | 5], "int32"],
  ["int32 xor all bits", i32(5), (x) => x.bitwiseXor(0xffffffff), [-6], "int32"],
  ["bits of a word, reversed", i32(5), (x) => x.bitwiseXor(0x80000001, { reverse: true }), [5 ^ 0x80000001], "int32"],
  ["int32 xor words", i32(5, 7), (x) => x.bitwiseXor([0x80000000, 1]), [5 ^ 0x80000000, 6], "int32"],
  ["uint8 and a word", u8(0xff), (x) => x.bitwiseOr(0x8000000f), [0x800000ff | 0], "int32"],
  ["int64 and a word", i64(-1n), (x) => x.bitwiseAnd(0x80000000), [2 ** 31], "int64"],
  ["bool xor a word", (device) => new Tensor([true], { device }), (x) => x.bitwiseXor(0x80000000), [
    1 - 2 ** 31,
  ], "int32"],
  ["where the least", i32(1), (x) => x.eq(1).where(-(2 ** 31), 2 ** 31 - 1), [-(2 ** 31)], "int32"],
  ["uint64 less", u64(2n ** 63n), (x) => x.add(-E), [2n ** 63n - BigInt(E)], "uint64"],
  ["int64 clamp", i64(2n ** 62n), (x) => x.clamp(0, E), [E], "int64"],
  ["int64 maximum", i64(1n), (x) => x.maximum(E), [E], "int64"],
  ["uint8 clamp beyond both", u8(7), (x) => x.clamp(-1, 300), [7], "uint8"],
  ["uint8 minimum", u8(7), (x) => x.minimum(300), [7], "uint8"],
  ["int64 maskedFill", i64(5000000001n), (x) => x.maskedFill(x.ne(0), 5000000003), [5000000003], "int64"],
  ["int64 where", i64(1n), (x) => x.eq(0).where(x, E), [E], "int64"],
  ["where of scalars", i64(1n), (x) => x.eq(0).where(2 ** 31, 2147483649), [2147483649], "int64"],
  ["int64 setAt", i64(1n), (x) => x.setAt([0], E), [E], "int64"],
  ["int64 setAt, cut", i64(1n), (x) => x.setAt([0], 5000000001.75), [5000000001], "int64"],
  ["int64 setAt a list", i64(1n, 2n), (x) => x.setAt([[0, 2]], [E, -E]), [E, -E], "int64"],
  ["uint32 setAt", u32(1), (x) => x.setAt([0], 4294967295), [4294967295], "uint32"],
  ["int64 assign", i64(1n), (x) => x.assign(E), [E], "int64"],
  ["int64 addInPlace", i64(1n), (x) => x.addInPlace(E), [E + 1], "int64"],
  ["int64 scatter", i64(1n), (x) => x.scatter(0, new Tensor([0], { device: x.device }), E), [E], "int64"],
  ["int64 pad", i64(1n), (x) => x.pad([[0, 1]], { value: E }), [1, E], "int64"],
  ["int64 fullLike", i64(1n), (x) => x.fullLike(E), [E], "int64"],
  ["uint8 shifted by 256", u8(7), (x) => x.lshift(256), [0], "uint8"],
  ["uint32 shifted by 2^32", u32(7), (x) => x.rshift(2 ** 32), [0], "uint32"],
];

for (const device of await devicesHere()) {
  Deno.test(`whole numbers ${device}`, async () => {
    for (const [name, x, f, want, dtype] of ROWS) {
      const made = f(x(device));
      assertEquals([await made.tolist(), made.dtype.name], [want, dtype], name);
    }
  });
}

Deno.test("whole numbers: new tensors", async () => {
  const rows: [Tensor, unknown, string][] = [
    [new Tensor([2147483649, 1]), [2147483649, 1], "int64"],
    [new Tensor([2147483648, 1]), [2147483648, 1], "float32"],
    [new Tensor([-(2 ** 31), 2 ** 31 - 1]), [-(2 ** 31), 2 ** 31 - 1], "int32"],
    [new Tensor(-(2 ** 31)), -(2 ** 31), "int32"],
    [Tensor.full([1], -(2 ** 31)), [-(2 ** 31)], "int32"],
    [new Tensor([2 ** 31, 2 ** 31 - 1]), [2 ** 31, 2 ** 31 - 1], "int64"],
    [new Tensor([3e9, 16777217]), [3e9, 16777217], "int64"],
    [new Tensor([[-(2 ** 32), 1], [2, 33554433]]), [[-(2 ** 32), 1], [2, 33554433]], "int64"],
    [new Tensor([3e9, true]), [3e9, 1], "float32"],
    [new Tensor([2 ** 63, 16777217]), [2 ** 63, 16777216], "float32"],
    [new Tensor([2147483649, 0.5]), [2147483648, 0.5], "float32"],
    [new Tensor([1e20, 2147483649]), [Math.fround(1e20), 2147483648], "float32"],
    [new Tensor([-(2 ** 53), 2147483649]), [-(2 ** 53), 2147483649], "int64"],
    [new Tensor(2147483649), 2147483649, "int64"],
    [Tensor.full([1], 3000000001), [3000000001], "int64"],
    [Tensor.full([1], 3000000000), [3000000000], "float32"],
    [new Tensor([2n ** 63n], { dtype: "uint64" }), [2n ** 63n], "uint64"],
    [new Tensor([2n ** 53n + 1n, 2n ** 24n + 1n], { dtype: "float32" }), [2 ** 53, 2 ** 24], "float32"],
  ];
  for (const [x, want, dtype] of rows) assertEquals([await x.tolist(), x.dtype.name], [want, dtype]);
  assertThrows(() => new Tensor([1n, 2n ** 63n]), DTypeError, 'does not fit; give { dtype: "uint64" }');
  assertThrows(
    () => new Tensor([1]).bitwiseAnd(2 ** 32),
    DTypeError,
    "4294967296 is beyond the bits of int32; t.long()",
  );
  assertThrows(() => new Tensor(-(2n ** 70n)), DTypeError, "no integer dtype holds it");
});
