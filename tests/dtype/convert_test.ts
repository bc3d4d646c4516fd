/** Bits and roundings of src/dtype/convert.ts against the machine's own Float16Array where there is one. */
import { assertEquals } from "@std/assert";
import { Bytes } from "../../backends/wasm/encoder.ts";
import {
  bf16BitsToF32,
  f32Bits,
  f32FromBits,
  f32ToBf16Bits,
  f64Bits,
  roundBf16,
  truncateTo,
  writeScalar,
} from "../../src/dtype/convert.ts";
import { f16Bits, f16Round, f16Value } from "../../src/dtype/float16.ts";
import { literalOf } from "../../src/renderer/ptx/ptx_emitter.ts";
import { arrayName, type DType, DTYPES, dtypes } from "../../src/dtype/dtype.ts";
import { Random } from "../support/random.ts";

const f16: [number, number][] = [
  [0, 0],
  [-0, 0x8000],
  [1, 0x3c00],
  [-2, 0xc000],
  [65504, 0x7bff],
  [65519.996, 0x7bff],
  [65520, 0x7c00],
  [Infinity, 0x7c00],
  [-Infinity, 0xfc00],
  [2 ** -14, 0x0400],
  [2 ** -24, 0x0001],
  [2 ** -25, 0x0000], // a tie goes to even
  [1.5 * 2 ** -24, 0x0002],
  [2 ** -14 - 2 ** -26, 0x0400], // subnormal that rounds to the smallest normal
  [1 + 2 ** -11, 0x3c00],
  [1 + 3 * 2 ** -11, 0x3c02],
];
Deno.test("convert: float16 bits", () => {
  for (const [x, bits] of f16) assertEquals(f16Bits(x), bits, String(x));
  assertEquals(f16Bits(NaN) & 0x7e00, 0x7e00);
  for (let bits = 0; bits < 65536; bits++) {
    const x = f16Value(bits);
    if (x === x) assertEquals(f16Bits(x), bits);
  }
});

/** The NaN that a CPU makes of 0/0: with a sign. */
const SIGNED_NAN = new Float64Array(BigUint64Array.of(0xfff8n << 48n).buffer)[0];
Deno.test("convert: the bits of NaN do not depend on where it comes from", () => {
  for (const x of [NaN, SIGNED_NAN]) {
    assertEquals([f32Bits(x), f16Bits(x), f32ToBf16Bits(x)], [0x7fc00000, 0x7e00, 0x7fc0]);
    assertEquals(f64Bits(x), 0x7ff8n << 48n);
    const view = new DataView(new ArrayBuffer(8));
    writeScalar(view, 0, dtypes.float64, x);
    assertEquals(view.getBigUint64(0, true), 0x7ff8n << 48n);
    writeScalar(view, 0, dtypes.float32, x);
    assertEquals(view.getUint32(0, true), 0x7fc00000);
    assertEquals([literalOf(dtypes.float32, x), literalOf(dtypes.float64, x)], ["0f7FC00000", "0d7FF8000000000000"]);
    assertEquals([...new Bytes().f32(x).f64(x).take()], [0, 0, 192, 127, 0, 0, 0, 0, 0, 0, 248, 127]);
  }
});

Deno.test("convert: float16 as the machine rounds", () => {
  const native = (Math as { f16round?: (x: number) => number }).f16round;
  if (native === undefined) return;
  const random = new Random(1);
  for (let i = 0; i < 20000; i++) {
    const x = f32FromBits(random.below(2 ** 32));
    assertEquals(f16Round(x), native(x), String(x));
  }
});

const bf16: [number, number][] = [
  [1, 0x3f80],
  [-0, 0x8000],
  [1 + 2 ** -8, 0x3f80],
  [1 + 3 * 2 ** -8, 0x3f82],
  [3.4e38, 0x7f80],
  [Infinity, 0x7f80],
];
Deno.test("convert: bfloat16 bits", () => {
  for (const [x, bits] of bf16) assertEquals(f32ToBf16Bits(x), bits, String(x));
  assertEquals(Number.isNaN(roundBf16(NaN)), true);
  for (let bits = 0; bits < 65536; bits++) {
    const x = bf16BitsToF32(bits);
    if (x === x) assertEquals(f32ToBf16Bits(x), bits);
  }
});

const cut: [DType, number, number][] = [
  [dtypes.int8, 200, -56],
  [dtypes.int8, -129, 127],
  [dtypes.uint8, -1, 255],
  [dtypes.int16, 40000, -25536],
  [dtypes.uint16, -1, 65535],
  [dtypes.int32, 2 ** 31, -(2 ** 31)],
  [dtypes.int32, -1.9, -1],
  [dtypes.uint32, -1, 2 ** 32 - 1],
  [dtypes.int64, -1.5, -1],
  [dtypes.bool, 3, 1],
  [dtypes.bool, NaN, 1],
  [dtypes.float32, 0.1, Math.fround(0.1)],
  [dtypes.float64, 0.1, 0.1],
  [dtypes.float16, 1e6, Infinity],
  [dtypes.bfloat16, 1.01, 1.0078125],
];
Deno.test("convert: truncateTo", () => {
  for (const [d, x, want] of cut) assertEquals(truncateTo(d, x), want, `${d} ${x}`);
  assertEquals(f32Bits(1), 0x3f800000);
});

const written: [DType, number | bigint, number[]][] = [
  [dtypes.bool, 1, [1]],
  [dtypes.int8, 200, [200]],
  [dtypes.uint16, -1, [255, 255]],
  [dtypes.int32, -2, [254, 255, 255, 255]],
  [dtypes.uint32, 2 ** 32 - 2, [254, 255, 255, 255]],
  [dtypes.int64, -(1n << 63n), [0, 0, 0, 0, 0, 0, 0, 128]],
  [dtypes.uint64, 3, [3, 0, 0, 0, 0, 0, 0, 0]],
  [dtypes.float16, -2, [0, 0xc0]],
  [dtypes.bfloat16, 1, [0x80, 0x3f]],
  [dtypes.fp8e5m2, 1, [0x3c]],
  [dtypes.float32, 1, [0, 0, 0x80, 0x3f]],
  [dtypes.float64, 1, [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]],
];
Deno.test("convert: a scalar in memory, and the array of its dtype", () => {
  for (const [d, x, want] of written) {
    const bytes = new Uint8Array(d.itemsize);
    writeScalar(new DataView(bytes.buffer), 0, d, x);
    assertEquals([...bytes], want, `${d} ${x}`);
  }
  const arrays = globalThis as unknown as Record<string, { BYTES_PER_ELEMENT: number }>;
  for (const d of DTYPES.slice(1)) assertEquals(arrays[arrayName(d)].BYTES_PER_ELEMENT, d.itemsize, `${d}`);
  assertEquals([dtypes.int64, dtypes.bfloat16].map(arrayName), ["BigInt64Array", "Uint16Array"]);
});
