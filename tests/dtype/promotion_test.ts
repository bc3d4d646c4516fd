/** The promotion lattice, what casts lose, bounds, and the 8-bit floats. */
import { assertEquals } from "@std/assert";
import { f32ToFp8Bits, fp8BitsToF32 } from "../../src/dtype/convert.ts";
import { type DType, dtypeMax, dtypeMin, DTYPES, dtypes, smallFloatOf } from "../../src/dtype/dtype.ts";
import { isLossless, promote, promoteAll, promoteScalar, sumDType } from "../../src/dtype/promotion.ts";

const PAIRS: readonly [string, string, string][] = [
  ["bool", "uint8", "uint8"],
  ["int8", "uint8", "int16"],
  ["int16", "uint16", "int32"],
  ["int32", "uint32", "int64"],
  ["int64", "uint64", "float32"],
  ["int64", "fp8e4m3", "fp8e4m3"],
  ["uint64", "fp8e5m2", "fp8e5m2"],
  ["int64", "float16", "float16"],
  ["fp8e4m3", "fp8e5m2", "float16"],
  ["fp8e4m3", "bfloat16", "bfloat16"],
  ["float16", "bfloat16", "float32"],
  ["float32", "float64", "float64"],
  ["bool", "complex64", "complex64"],
  ["int64", "complex64", "complex64"],
  ["bfloat16", "complex64", "complex64"],
  ["float32", "complex64", "complex64"],
  ["float64", "complex64", "complex128"],
  ["uint64", "complex128", "complex128"],
  ["complex64", "complex128", "complex128"],
];
Deno.test("dtype: in JSON it is its name, vectors too", () => {
  const text = JSON.stringify({ dtype: dtypes.float32, lanes: dtypes.int8.vec(4) });
  assertEquals(text, '{"dtype":"float32","lanes":"int8x4"}');
});

const of = (name: string): DType => (dtypes as unknown as Record<string, DType>)[name];

Deno.test("promotion: the least dtype above both, in either order", () => {
  for (const [a, b, want] of PAIRS) {
    assertEquals([promote(of(a), of(b)).name, promote(of(b), of(a)).name], [want, want], `${a} and ${b}`);
  }
  for (const d of DTYPES.slice(1)) assertEquals(promote(d, d), d);
});

Deno.test("promotion: of many, in any order", () => {
  const rows: [string[], string][] = [
    [["int64", "uint64", "float16"], "float16"],
    [["int8", "uint8", "uint64"], "float32"],
    [["fp8e4m3", "fp8e5m2", "bfloat16"], "bfloat16"],
    [["bool", "int8", "uint16"], "int32"],
    [["uint64", "int8"], "float32"],
    [["bool"], "bool"],
    [["int8", "complex64", "float64"], "complex128"],
    [["uint64", "int8", "complex64"], "complex64"],
  ];
  for (const [names, want] of rows) {
    const orders = names.map((_, i) => [...names.slice(i), ...names.slice(0, i)]);
    for (const order of [...orders, [...names].reverse()]) {
      assertEquals(promoteAll(order.map(of)).name, want, `${order}`);
    }
  }
});

Deno.test("promotion: scalars are weak, and sums widen", () => {
  assertEquals(promoteScalar(dtypes.uint8, 3), dtypes.uint8);
  assertEquals(promoteScalar(dtypes.fp8e4m3, 0.5), dtypes.fp8e4m3);
  assertEquals(promoteScalar(dtypes.int32, 0.5), dtypes.float32);
  assertEquals(promoteScalar(dtypes.bool, 3), dtypes.int32);
  assertEquals(promoteScalar(dtypes.complex64, 0.5), dtypes.complex64);
  for (const d of [dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.float16, dtypes.bfloat16]) {
    assertEquals(sumDType(d), dtypes.float32);
  }
});

Deno.test("promotion: isLossless where every value survives", () => {
  const yes = [["bool", "fp8e5m2"], ["int8", "float16"], ["uint16", "int32"], ["fp8e4m3", "bfloat16"], [
    "float16",
    "float32",
  ]];
  const no = [["int8", "fp8e4m3"], ["int32", "float32"], ["uint8", "int8"], ["fp8e4m3", "fp8e5m2"], [
    "float32",
    "bfloat16",
  ]];
  for (const [a, b] of yes) assertEquals(isLossless(of(a), of(b)), true, `${a} to ${b}`);
  for (const [a, b] of no) assertEquals(isLossless(of(a), of(b)), false, `${a} to ${b}`);
});

Deno.test("dtypes: bounds", () => {
  assertEquals([dtypeMin(dtypes.int8), dtypeMax(dtypes.int8), dtypeMax(dtypes.uint16)], [-128, 127, 65535]);
  assertEquals([dtypeMin(dtypes.fp8e4m3), dtypeMax(dtypes.fp8e5m2), dtypeMax(dtypes.bool)], [-Infinity, Infinity, 1]);
});

for (const d of [dtypes.fp8e4m3, dtypes.fp8e5m2]) {
  Deno.test(`convert: all bits of ${d} survive, and values round to the nearest, ties to even`, () => {
    const finite: number[] = [];
    for (let bits = 0; bits < 256; bits++) {
      const x = fp8BitsToF32(bits, d);
      if (x !== x) continue;
      assertEquals(f32ToFp8Bits(x, d), bits);
      if (bits < 128 && Number.isFinite(x)) finite.push(x);
    }
    for (let i = 1; i < finite.length; i++) {
      const [a, b] = [finite[i - 1], finite[i]], even = i % 2 === 0 ? b : a;
      const near = [a + (b - a) * 0.375, (a + b) / 2, a + (b - a) * 0.625];
      assertEquals(near.map((x) => fp8BitsToF32(f32ToFp8Bits(x, d), d)), [a, even, b]);
    }
    const most = finite[finite.length - 1];
    assertEquals(fp8BitsToF32(f32ToFp8Bits(-most * 3, d), d), -most);
    assertEquals(fp8BitsToF32(f32ToFp8Bits(Infinity, d), d), smallFloatOf(d)!.mantissa === 2 ? Infinity : most);
    assertEquals(fp8BitsToF32(f32ToFp8Bits(NaN, d), d), NaN);
  });
}
