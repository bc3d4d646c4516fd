import { assertEquals, assertThrows } from "@std/assert";
import { jsBackend, jsCounters, makeJsDevice } from "../../../backends/js/js.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Device } from "../../../src/device/device.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { Tensor } from "../../../mod.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, int, load, param, range, store, toposort, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { addKernel, KERNEL_FIXTURES } from "../../fixtures/kernels.ts";

const device = jsBackend.open(0);
const f32 = dtypes.float32;

function bufferOfBytes(on: Device, dtype: DType, bytes: Uint8Array): Buffer {
  return new Buffer(on, dtype, bytes.byteLength / dtype.itemsize).copyIn(bytes);
}

for (const k of KERNEL_FIXTURES) {
  if (k.linear === undefined) continue;
  Deno.test(`js: ${k.name}`, () => {
    const inputs = k.sizes.slice(1).map((n, s) => Float32Array.from({ length: n }, (_, i) => (i * (s + 3)) % 7 - 2));
    const out = new Float32Array(k.sizes[0]).fill(99);
    const buffers = [out, ...inputs].map((x) => bufferOfBytes(device, f32, new Uint8Array(x.buffer)));
    const [program] = device.compiler.compile([programOf(k.name, k.linear!)]);
    device.run([{ program, buffers, vars: [] }]);
    buffers[0].copyOut(new Uint8Array(out.buffer));
    assertEquals([...out], k.expected(inputs));
    buffers.forEach((b) => b.free());
  });
}

/** Runs `f` on one element of each input; inputs and output as the bytes of typed arrays of one element or more. */
function evaluate(inputs: readonly (readonly [DType, ArrayBufferView])[], f: (x: UOp[]) => UOp): Uint8Array {
  const zero = int(0);
  const values = inputs.map(([d, view], s) => {
    const n = view.byteLength / d.itemsize;
    return uop(Ops.LOAD, d.vec(n), [index(param(s + 1, d, n), zero)]);
  });
  const value = f(values), n = value.dtype.count;
  const write = store(index(param(0, value.dtype.scalar, n), zero), value);
  const [program] = device.compiler.compile([programOf("one", toposort(write))]);
  const bytes = (v: ArrayBufferView) => new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
  const out = new Buffer(device, value.dtype.scalar, n);
  const buffers = [out, ...inputs.map(([d, view]) => bufferOfBytes(device, d, bytes(view)))];
  device.run([{ program, buffers, vars: [] }]);
  const got = out.copyOut(new Uint8Array(out.nbytes));
  buffers.forEach((b) => b.free());
  return got;
}

const I8 = (...x: number[]): [DType, Int8Array] => [dtypes.int8, Int8Array.from(x)];
const I32 = (...x: number[]): [DType, Int32Array] => [dtypes.int32, Int32Array.from(x)];
const U32 = (...x: number[]): [DType, Uint32Array] => [dtypes.uint32, Uint32Array.from(x)];
const I64 = (...x: bigint[]): [DType, BigInt64Array] => [dtypes.int64, BigInt64Array.from(x)];
const F32 = (...x: number[]): [DType, Float32Array] => [f32, Float32Array.from(x)];
const F16 = (...x: number[]): [DType, Float16Array] => [dtypes.float16, Float16Array.from(x)];
const op = (o: Ops) => (x: UOp[]): UOp => x[0].alu(o, ...x.slice(1));

for (
  const [name, inputs, f, want] of [
    ["int8 add wraps", [I8(127), I8(2)], op(Ops.ADD), Int8Array.of(-127)],
    ["int32 mul wraps", [I32(0x10001, -7), I32(0x10001, 3)], op(Ops.MUL), Int32Array.of(0x20001, -21)],
    ["uint32 mul wraps", [U32(0xffffffff), U32(0xfffffffe)], op(Ops.MUL), Uint32Array.of(2)],
    ["int64 mul wraps", [I64(1n << 62n), I64(6n)], op(Ops.MUL), BigInt64Array.of(-(1n << 63n))],
    ["int32 cdiv", [I32(-7, 7, 7), I32(2, -2, 0)], op(Ops.CDIV), Int32Array.of(-3, -3, 0)],
    ["int32 cmod", [I32(-7, 7, 7), I32(2, -2, 0)], op(Ops.CMOD), Int32Array.of(-1, 1, 0)],
    ["int64 cdiv", [I64(-7n, 7n, 7n), I64(2n, -2n, 0n)], op(Ops.CDIV), BigInt64Array.of(-3n, -3n, 0n)],
    ["int32 floor", [I32(-7, 7), I32(2, -2)], op(Ops.FLOORDIV), Int32Array.of(-4, -4)],
    ["int32 floor mod", [I32(-7, 7), I32(2, -2)], op(Ops.FLOORMOD), Int32Array.of(1, -1)],
    ["int32 shr", [I32(-8), I32(1)], op(Ops.SHR), Int32Array.of(-4)],
    ["uint32 shr", [U32(0xfffffff8), U32(1)], op(Ops.SHR), Uint32Array.of(0x7ffffffc)],
    ["uint32 xor", [U32(0xffffffff), U32(1)], op(Ops.XOR), Uint32Array.of(0xfffffffe)],
    ["max takes NaN", [F32(NaN, 1, 2), F32(1, NaN, 3)], op(Ops.MAX), Float32Array.of(NaN, NaN, 3)],
    ["float32 rounds", [F32(16777216), F32(1)], op(Ops.ADD), Float32Array.of(16777216)],
    ["float16 rounds", [F16(2048), F16(1)], op(Ops.ADD), Float16Array.of(2048)],
    ["float to int8", [F32(-3.7, 300, NaN)], ([x]) => x.cast(dtypes.int8.vec(3)), Int8Array.of(-3, 44, 0)],
    ["float to int64", [F32(-3.7, 2 ** 40)], ([x]) => x.cast(dtypes.int64.vec(2)), BigInt64Array.of(-3n, 2n ** 40n)],
    ["NaN to bool", [F32(NaN, 0, -0, 2)], ([x]) => x.cast(dtypes.bool.vec(4)), Uint8Array.of(1, 0, 0, 1)],
    ["int64 to int32", [I64(-1n, 2n ** 33n + 5n)], ([x]) => x.cast(dtypes.int32.vec(2)), Int32Array.of(-1, 5)],
    ["int8 to uint32", [I8(-1)], ([x]) => x.cast(dtypes.uint32), Uint32Array.of(0xffffffff)],
    ["bits", [F32(1, -0)], ([x]) => x.bitcast(dtypes.int32.vec(2)), Int32Array.of(0x3f800000, -0x80000000)],
    [
      "bfloat16 bits",
      [F32(1.00390625, 3.14159)],
      ([x]) => x.cast(dtypes.bfloat16.vec(2)),
      Uint16Array.of(0x3f80, 0x4049),
    ],
    ["lanes", [F32(1, 2, 3)], ([x]) => uop(Ops.EXTRACT, f32, [x], 2), Float32Array.of(3)],
    [
      "vector select",
      [F32(1, 5, 3), F32(4, 4, 4)],
      ([x, y]) => uop(Ops.CMPLT, dtypes.bool.vec(3), [x, y]).where(x, y),
      Float32Array.of(1, 4, 3),
    ],
    ["constants", [F32(1)], ([x]) => x.mul(constant(0.1, f32)), Float32Array.of(0.1)],
  ] as readonly [string, readonly [DType, ArrayBufferView][], (x: UOp[]) => UOp, ArrayBufferView][]
) {
  Deno.test(`js: ${name}`, () => {
    const Class = want.constructor as new (buffer: ArrayBufferLike) => ArrayBufferView;
    assertEquals(new Class(evaluate(inputs, f).buffer), want);
  });
}

Deno.test("js: counts bytes and flops, not what a gate hides", () => {
  const n = 6, i = range(n, 0, AxisKind.LOOP);
  const at = index(param(1, f32, n), i, i.lt(4)), x = load(at, constant(7, f32)), y = x.mul(x);
  const to = index(param(0, f32, n), i), write = store(to, y);
  const uops = [
    ...[to.src[0], at.src[0], int(n), int(4), constant(7, f32), i, i.lt(4), at, x, y, to, write],
    uop(Ops.END, dtypes.void, [i]),
  ];
  const [program] = device.compiler.compile([programOf("gated", uops)]);
  const buffers = [new Buffer(device, f32, n), bufferOfBytes(device, f32, new Uint8Array(4 * n))];
  jsCounters.reset();
  device.run([{ program, buffers, vars: [] }]);
  assertEquals({ ...jsCounters }, { read: 16, written: 24, flops: 6, launches: 1 });
  const out = new Float32Array(n);
  buffers[0].copyOut(new Uint8Array(out.buffer));
  assertEquals([...out], [0, 0, 0, 0, 49, 49]);
});

Deno.test("js: an access outside its buffer is an error", () => {
  const k = addKernel(4), uops = k.linear!.map((u) => u);
  const [program] = device.compiler.compile([programOf("add", uops)]);
  const small = () => new Buffer(device, f32, 3);
  assertThrows(() => device.run([{ program, buffers: [small(), small(), small()], vars: [] }]), RangeError);
});

Deno.test("js: a graph replays with other buffers", () => {
  const k = addKernel(2);
  const [program] = device.compiler.compile([programOf("add", k.linear!)]);
  const of = (...x: number[]) => bufferOfBytes(device, f32, new Uint8Array(Float32Array.from(x).buffer));
  const out = of(0, 0), graph = device.graph([{ program, buffers: [out, of(1, 2), of(3, 4)], vars: [] }]);
  const read = () => [...new Float32Array(out.copyOut(new Uint8Array(8)).buffer)];
  graph.run();
  assertEquals(read(), [4, 6]);
  graph.setBuffer(0, 1, of(10, 20));
  graph.run();
  assertEquals(read(), [13, 24]);
  graph.dispose();
});

Deno.test("js: capabilities can be given", () => {
  assertEquals(makeJsDevice({ vectorBytes: 64 }).renderer.caps.vectorBytes, 64);
});

Deno.test("js: e^x is without the rounding of x log2(e)", async () => {
  const x = [88.5, -80.25, 50.7, 1e-3], t = new Tensor(x, { dtype: "float32", device: "JS" });
  assertEquals(await t.exp().tolist(), x.map((v) => Math.fround(Math.exp(Math.fround(v)))));
});
