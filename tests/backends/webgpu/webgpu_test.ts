/** The WEBGPU device on a real adapter, or a software one: dtypes, launches, errors, loss. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import type { WebGpuDevice } from "../../../backends/webgpu/webgpu_device.ts";
import { WebGpuCompiler } from "../../../backends/webgpu/pipelines.ts";
import {
  CompileError,
  context,
  Device,
  DeviceError,
  DTypeError,
  type HostArray,
  init,
  jit,
  Tensor,
} from "../../../mod.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Program } from "../../../src/device/program.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, toposort, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { kernelsElsewhere } from "../../fixtures/kernels_elsewhere.ts";
import { runDeno } from "../../system/subprocess.ts";

// asks each device whether it is there, for which CUDA opens its driver
Device.list();
let device: WebGpuDevice | undefined;
try {
  device = await Device.open("WEBGPU") as WebGpuDevice;
} catch (error) {
  console.log(`WEBGPU is left out: ${(error as Error).message}`);
}
const ignore = device === undefined;
const gpu = (): WebGpuDevice => Device.get("WEBGPU") as unknown as WebGpuDevice;

/** A test in which tensors live on WEBGPU, and no other device runs a kernel. */
function test(name: string, fn: () => Promise<void>): void {
  Deno.test({
    name: `WEBGPU: ${name}`,
    ignore,
    fn: async () => {
      const before = kernelsElsewhere("WEBGPU");
      await context({ DEV: "WEBGPU" }, fn);
      assertEquals(kernelsElsewhere("WEBGPU"), before, "kernels ran elsewhere");
    },
  });
}

/** Calls of a method of a class while `fn` runs. */
async function countCalls(prototype: object, method: string, fn: () => Promise<unknown>): Promise<number> {
  const target = prototype as Record<string, (...args: unknown[]) => unknown>, original = target[method];
  let n = 0;
  target[method] = function (this: unknown, ...args: unknown[]): unknown {
    n++;
    return original.apply(this, args);
  };
  try {
    await fn();
  } finally {
    target[method] = original;
  }
  return n;
}

/** A program of `n` elements: `out[i] = value(loads of the other slots)`. */
function elementwise(out: DType, n: number, value: (i: UOp) => UOp): Program {
  const i = range(n, 0, AxisKind.LOOP);
  return gpu().compiler.compile([toProgram(sink([store(index(param(0, out, n), i), value(i))]), gpu().renderer)])[0];
}
function bufferOf(values: ArrayLike<number>): Buffer {
  const x = Float32Array.from(values);
  return new Buffer(gpu(), dtypes.float32, x.length).copyIn(new Uint8Array(x.buffer));
}
async function floatsOf(b: Buffer): Promise<number[]> {
  return [...new Float32Array((await b.copyOutAsync(new Uint8Array(b.nbytes))).buffer)];
}

Deno.test("WEBGPU: before it is opened it says how", async () => {
  const program = `import { Device } from "./mod.ts"; Device.get("WEBGPU");`;
  const { code, stderr } = await runDeno(["eval", "--no-check", program]);
  assertEquals(code, 1);
  assertMatch(
    stderr,
    /DeviceError: Cannot open device WEBGPU: (it opens asynchronously; call await Device\.open\("WEBGPU"\) or await init\(\) first|this JavaScript engine has no WebGPU)/,
  );
});

test("a slot that a kernel does not use is no other kernel's layout", async () => {
  const f = dtypes.float32, [a, b, unused] = [bufferOf([1, 2, 3, 4]), bufferOf([0, 0, 0, 0]), bufferOf([5])];
  const near = elementwise(f, 4, (i) => load(index(param(1, f, 4), i)).add(10));
  const far = elementwise(f, 4, (i) => load(index(param(2, f, 4), i)).add(20));
  gpu().run([{ program: near, buffers: [b, a], vars: [] }]);
  assertEquals(await floatsOf(b), [11, 12, 13, 14]);
  gpu().run([{ program: far, buffers: [b, unused, a], vars: [] }]);
  assertEquals(await floatsOf(b), [21, 22, 23, 24]);
  for (const x of [a, b, unused]) x.free();
});

test("there is one adapter", async () => {
  const error = await assertRejects(() => Device.open("WEBGPU:1"), DeviceError);
  assertMatch(error.message, /there is no ordinal 1: WebGPU offers one adapter/);
});

test("init opens it, and opening twice gives one device", async () => {
  assert((await init()).includes("WEBGPU"));
  const [a, b] = await Promise.all([Device.open("WEBGPU"), Device.open("webgpu:0")]);
  assert(a === b && a === gpu() as unknown);
});

test("a schedule is one submit, and reads of a moment are one map", async () => {
  const a = Tensor.rand([64, 64]).realize(), b = Tensor.rand([64, 64]).realize();
  const run = (): [Tensor, Tensor] => {
    const m = a.matmul(b), s = m.sum(0).contiguous().mul(m.max());
    Tensor.realize([m, s]);
    return [m, s];
  };
  run();
  assertEquals(await countCalls(GPUQueue.prototype, "submit", () => Promise.resolve(run())), 1);
  const list = run();
  assertEquals(await countCalls(GPUBuffer.prototype, "mapAsync", () => Promise.all(list.map((t) => t.data()))), 1);
});

test("narrow integers of any length", async () => {
  for (const dtype of ["int8", "uint8", "int16", "uint16"] as const) {
    const bits = dtype.endsWith("8") ? 8 : 16, wrap = dtype.startsWith("u") ? BigInt.asUintN : BigInt.asIntN;
    for (const n of [1, 3, 4, 5, 31]) {
      const x = Array.from({ length: n }, (_, i) => i * 37 - 20);
      const got = await new Tensor(x, { dtype: "int32" }).cast(dtype).mul(5).add(1).tolist();
      assertEquals(got, x.map((v) => Number(wrap(bits, BigInt(v * 5 + 1)))), `${dtype} x${n}`);
    }
  }
  assertEquals(await new Tensor([1, 0, 3, -1, 0]).cast("bool").tolist(), [true, false, true, true, false]);
});

test("writing some elements of a word leaves the others", async () => {
  const t = new Tensor([1, 2, 3, 4, 5, 6, 7], { dtype: "uint8" }).realize();
  t.setAt([[1, 6, 2]], new Tensor([10, 20, 30], { dtype: "uint8" }));
  assertEquals(await t.tolist(), [1, 10, 3, 20, 5, 30, 7]);
});

/** 64-bit operands that carry, borrow and change sign. */
const WIDE = [0n, 1n, -1n, 7n, -7n, 65535n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, -(2n ** 33n) - 5n, 2n ** 62n + 3n];

for (const dtype of ["int64", "uint64"] as const) {
  const wrap = (x: bigint): bigint => dtype === "int64" ? BigInt.asIntN(64, x) : BigInt.asUintN(64, x);
  const pairs = WIDE.flatMap((a) => WIDE.map((b) => [wrap(a), wrap(b)] as const));
  const floor = (a: bigint, b: bigint): bigint => a / b - (a % b !== 0n && (a < 0n) !== (b < 0n) ? 1n : 0n);
  const cases: [string, (a: Tensor, b: Tensor) => Tensor, (a: bigint, b: bigint) => bigint | boolean][] = [
    ["add", (a, b) => a.add(b), (a, b) => a + b],
    ["sub", (a, b) => a.sub(b), (a, b) => a - b],
    ["mul", (a, b) => a.mul(b), (a, b) => a * b],
    ["floor division", (a, b) => a.floorDiv(b), (a, b) => b === 0n ? 0n : floor(a, b)],
    ["remainder", (a, b) => a.mod(b), (a, b) => b === 0n ? 0n : a - floor(a, b) * b],
    ["maximum", (a, b) => a.maximum(b), (a, b) => a > b ? a : b],
    ["less", (a, b) => a.lt(b), (a, b) => a < b],
    ["equal", (a, b) => a.eq(b), (a, b) => a === b],
    ["and", (a, b) => a.bitwiseAnd(b), (a, b) => a & b],
    ["xor", (a, b) => a.bitwiseXor(b), (a, b) => a ^ b],
    ["shift left", (a) => a.lshift(13), (a) => a << 13n],
    ["shift right", (a) => a.rshift(37), (a) => a >> 37n],
    ["to float32 and back", (a) => a.cast("float32").cast(dtype), (a) => BigInt(Math.fround(Number(a)))],
    ["to int32", (a) => a.cast("int32").cast(dtype), (a) => BigInt.asIntN(32, a)],
    ["where", (a, b) => a.ne(0).where(a, b), (a, b) => a !== 0n ? a : b],
  ];
  test(`${dtype} as pairs of words`, async () => {
    const a = new Tensor(pairs.map((p) => p[0]), { dtype }).realize();
    const b = new Tensor(pairs.map((p) => p[1]), { dtype }).realize();
    const built = cases.map(([, fn]) => fn(a, b));
    Tensor.realize(built);
    const got = await Promise.all(built.map((t): Promise<HostArray> => t.data()));
    cases.forEach(([name, , want], k) => {
      pairs.forEach(([x, y], i) => {
        // by zero: whatever it is, it does not trap
        if (y === 0n && (name === "floor division" || name === "remainder")) return;
        const w = want(x, y), g = got[k][i];
        // rounded up, beyond the dtype
        if (name.startsWith("to float32") && typeof w === "bigint" && wrap(w) !== w) return;
        const same = typeof w === "boolean" ? Boolean(g) === w : g === wrap(w);
        assert(same, `${name} of ${x} and ${y} is ${g}, want ${typeof w === "boolean" ? w : wrap(w)}`);
      });
    });
  });
}

test("sums and products of 64-bit integers carry", async () => {
  const x = new Tensor([2n ** 40n, 2n ** 31n, -5n, 2n ** 33n], { dtype: "int64" });
  assertEquals(await x.sum().item(), 2 ** 40 + 2 ** 31 - 5 + 2 ** 33);
  assertEquals(await x.max().item(), 2 ** 40);
});

test("infinities, NaN and signs of zero", async () => {
  const x = new Tensor([Infinity, -Infinity, NaN, -0, 1], { dtype: "float32" });
  assertEquals(await x.maximum(0.5).tolist(), [Infinity, 0.5, NaN, 0.5, 1]);
  assertEquals(await x.ne(x).tolist(), [false, false, true, false, false]);
  assertEquals(await x.isnan().tolist(), [false, false, true, false, false]);
  assertEquals(await x.max().item(), NaN);
  assertEquals(await x.mul(Infinity).tolist(), [Infinity, -Infinity, NaN, NaN, Infinity]);
  assert(Object.is((await x.mul(1).data())[3], -0));
  assertEquals(await new Tensor([1, -1, 0]).div(0).tolist(), [Infinity, -Infinity, NaN]);
});

test("NaN passes through limits and what is made of them", async () => {
  for (const dtype of ["float32", "float16"] as const) {
    const x = new Tensor([NaN, -30, 30], { dtype }).realize();
    const functions: [string, (t: Tensor) => Tensor, number, number][] = [
      ["relu", (t) => t.relu(), 0, 30],
      ["clamp", (t) => t.clamp(-1, 1), -1, 1],
      ["relu6", (t) => t.relu6(), 0, 6],
      ["hardtanh", (t) => t.hardtanh(), -1, 1],
      ["maximum", (t) => t.maximum(0), 0, 30],
      ["minimum", (t) => t.minimum(0), -30, 0],
      ["tanh", (t) => t.tanh(), -1, 1],
      ["erf", (t) => t.erf(), -1, 1],
      ["gelu", (t) => t.gelu(), -0, 30],
      ["sigmoid", (t) => t.sigmoid().round(), 0, 1],
      ["maximum of columns", (t) => t.reshape([1, 3]).cat([Tensor.full([1, 3], -40, { dtype })]).max(0), -30, 30],
    ];
    const made = functions.map(([, f]) => f(x));
    Tensor.realize(made);
    const got = await Promise.all(made.map((t) => t.tolist()));
    functions.forEach(([name, , low, high], i) => assertEquals(got[i], [NaN, low, high], `${name} of ${dtype}`));
  }
});

test("integer division by zero does not trap", async () => {
  const got = await new Tensor([7, -7, 0]).floorDiv(new Tensor([0, 2, 0])).data();
  assertEquals(got[1], -4);
});

test("float16 and bfloat16", async () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const half = new Tensor([1, 2.5, -3, 65504, 0.1], { dtype }).add(0.25);
    const want = dtype === "float16"
      ? [1.25, 2.75, -2.75, 65504, 0.35009765625]
      : [1.25, 2.75, -2.75, 65536, 0.349609375];
    assertEquals(await half.tolist(), want, dtype);
  }
});

test("float64 is a named error", async () => {
  const t = Tensor.ones([3], { dtype: "float64" }).contiguous().realize().add(1);
  const error = await assertRejects(() => t.tolist(), DTypeError);
  assertEquals(error.dtypes, ["float64"]);
  assertMatch(error.message, /^Cannot compile a kernel for WEBGPU with values of float64: WGSL has no such type/);
});

test("reading at once is refused, with what to do", async () => {
  const t = new Tensor([1, 2, 3]).add(1).realize();
  assertThrows(() => t.dataSync(), DeviceError, "WEBGPU reads only asynchronously: use await t.data()");
  assertThrows(() => t.to("WASM").realize(), DeviceError, "reads only asynchronously: await t.data()");
  assertEquals(await t.tolist(), [2, 3, 4]);
});

test("a jit replays with other inputs, and its results stay", async () => {
  const w = Tensor.ones([8, 8]).contiguous().realize();
  const f = jit((x: Tensor) => x.matmul(w).relu().add(x.sum()));
  const results: Tensor[] = [];
  for (let i = 0; i < 5; i++) results.push(f(Tensor.full([8, 8], i).contiguous().realize()));
  const got = await Promise.all(results.map((t) => t.at(0, 0).item()));
  assertEquals(got, [0, 72, 144, 216, 288]);
});

test("a scalar argument that changes is a uniform", async () => {
  const x = new Tensor([1, 2, 3]).realize(), before = gpu().compiler.sources.length;
  for (let k = 3.5; k < 9; k++) assertEquals(await x.mul(k).add(k / 2).tolist(), [1, 2, 3].map((v) => v * k + k / 2));
  assert(gpu().compiler.sources.length - before <= 2, "a pipeline for each value");
});

test("one buffer read and written by two bindings", async () => {
  const f = dtypes.float32, a = bufferOf([1, 2, 3, 4]);
  const program = elementwise(f, 4, (i) => load(index(param(1, f, 4), i)).mul(3));
  gpu().run([{ program, buffers: [a, a], vars: [] }, { program, buffers: [a, a], vars: [] }]);
  assertEquals(await floatsOf(a), [9, 18, 27, 36]);
  const graph = gpu().graph([{ program, buffers: [a, a], vars: [] }]);
  graph.run();
  assertEquals(await floatsOf(a), [27, 54, 81, 108]);
  graph.dispose();
  a.free();
});

test("buffers that start between alignments", async () => {
  const f = dtypes.float32, a = bufferOf([1, 2, 3, 4, 5, 6, 7, 8]);
  const program = elementwise(f, 2, (i) => load(index(param(1, f, 2), i)).add(100));
  gpu().run([{ program, buffers: [a.view(4, 2), a.view(20, 2)], vars: [] }]);
  assertEquals(await floatsOf(a), [1, 106, 107, 4, 5, 6, 7, 8]);
  assertEquals(await floatsOf(a.view(8, 3)), [107, 4, 5]);
  a.free();
});

test("constants that overflow compile", async () => {
  const f = dtypes.float32, i32 = dtypes.int32, big = (x: number): UOp => uop(Ops.CONST, f, [], x);
  const int = (x: number): UOp => uop(Ops.CONST, i32, [], x);
  const alu = (op: Ops, d: DType, ...src: UOp[]): UOp => uop(op, d, src);
  const values = [
    alu(Ops.MUL, f, big(1e38), big(1e10)),
    alu(Ops.FDIV, f, big(1), big(0)),
    alu(Ops.CAST, f, alu(Ops.ADD, i32, int(2147483647), int(1))),
    alu(Ops.CAST, f, alu(Ops.SHL, i32, int(3), int(33))),
    alu(Ops.CAST, f, alu(Ops.CAST, dtypes.uint32, big(-1))),
    alu(Ops.CAST, f, alu(Ops.CDIV, i32, int(5), int(0))),
  ];
  // codegen folds such constants: this program holds them as they are
  const to = param(0, f, values.length);
  const uops = toposort(sink(values.map((v, n) => store(index(to, int(n)), v))));
  const out = bufferOf(values.map(() => 7)), program = gpu().compiler.compile([programOf("constants", uops)])[0];
  gpu().run([{ program, buffers: [out], vars: [] }]);
  const got = await floatsOf(out);
  assertEquals(got.slice(0, 5), [Infinity, Infinity, -2147483648, 6, 4294967296]);
  out.free();
});

test("a rejected shader: kernel, line, poison, then all is well", async () => {
  const { context: gpuContext, renderer } = gpu(), f = dtypes.float32;
  const broken = new WebGpuCompiler(gpuContext, {
    ...renderer,
    name: "WGSL",
    caps: renderer.caps,
    render: () => "\n\nbogus",
  }, Infinity);
  const ast = sink([
    store(index(param(0, f, 4), range(4, 0, AxisKind.LOOP)), load(index(param(1, f, 4), range(4, 0, AxisKind.LOOP)))),
  ]);
  const [bad] = broken.compile([toProgram(ast, renderer)]);
  const [a, b, c] = [bufferOf([1, 2, 3, 4]), bufferOf([0, 0, 0, 0]), bufferOf([0, 0, 0, 0])];
  (bad as { owner?: unknown }).owner = gpu().compiler;
  gpu().run([{ program: bad, buffers: [b, a], vars: [] }]);
  const good = elementwise(f, 4, (i) => load(index(param(1, f, 4), i)).add(1));
  gpu().run([{ program: good, buffers: [c, b], vars: [] }]);
  for (const poisoned of [b, c]) {
    const error = await assertRejects(() => floatsOf(poisoned), CompileError);
    assertMatch(error.message, /^Cannot compile kernel \w+ for WEBGPU: (line 3: .|.)/);
    assertEquals(error.source, "\n\nbogus");
  }
  await assertRejects(() => Device.synchronize("WEBGPU"), CompileError);
  await Device.synchronize("WEBGPU");
  const fresh = bufferOf([0, 0, 0, 0]);
  gpu().run([{ program: good, buffers: [fresh, a], vars: [] }]);
  assertEquals(await floatsOf(fresh), [2, 3, 4, 5]);
  for (const x of [a, b, c, fresh]) x.free();
});

test("more memory than a buffer has", async () => {
  const limit = gpu().renderer.caps.maxBufferBytes!, t = Tensor.zeros([limit / 4 + 1]).contiguous();
  await assertRejects(() => Promise.resolve().then(() => t.realize()), RangeError, "on WEBGPU: the device allows");
});

test("kernels are timed by the device", async () => {
  if (!gpu().hasTimestamps) return;
  const f = dtypes.float32, a = bufferOf([1, 2]), b = bufferOf([0, 0]);
  const program = elementwise(f, 2, (i) => load(index(param(1, f, 2), i)).add(1));
  const times = await gpu().time([{ program, buffers: [b, a], vars: [] }, { program, buffers: [a, b], vars: [] }]);
  assert(times.length === 2 && times.every((t) => t >= 0));
  assertEquals(await floatsOf(a), [3, 4]);
  a.free();
  b.free();
});

test("memory is flat over many schedules", async () => {
  const x = Tensor.ones([256]).contiguous().realize();
  const step = async (): Promise<void> => {
    using y = x.add(1).contiguous().realize();
    await y.sum().item();
  };
  for (let i = 0; i < 5; i++) await step();
  const { bytes } = Device.memory().WEBGPU;
  for (let i = 0; i < 20; i++) await step();
  assert(Device.memory().WEBGPU.bytes <= bytes + 65536);
});

test("a lost device says so, and another takes its place", async () => {
  const old = new Tensor([1, 2, 3]).add(1).realize(), lost = gpu();
  lost.context.gpu.destroy();
  await lost.context.gpu.lost;
  const text = /WEBGPU was lost \(destroyed.*\) with all tensors on it; await Device\.open\("WEBGPU"\) opens it anew/;
  assertMatch((await assertRejects(() => old.tolist(), DeviceError)).message, text);
  assertMatch((await assertRejects(() => Device.synchronize("WEBGPU"), DeviceError)).message, text);
  assert(await Device.open("WEBGPU") !== lost as unknown);
  assertEquals(await new Tensor([1, 2, 3]).add(1).tolist(), [2, 3, 4]);
  await assertRejects(() => old.tolist(), DeviceError);
});
