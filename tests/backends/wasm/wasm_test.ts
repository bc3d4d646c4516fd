/** WASM as a device: modules, threads, memory, graphs, and what goes wrong. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { WasmDevice } from "../../../backends/wasm/wasm_device.ts";
import { Bytes } from "../../../backends/wasm/encoder.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { CompileError, DeviceError, OutOfMemoryError } from "../../../src/helpers/errors.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { index, load, param, range, store, variable } from "../../../src/uop/core/uop.ts";
import { addKernel, addThreadVector, KERNEL_FIXTURES } from "../../fixtures/kernels.ts";
import { arrayOf, compile, device, elementwise, js, Lines, run, sample, single, viewOf } from "./wasm_harness.ts";

const { float32: f32, int32: i32 } = dtypes;
const { LOOP, THREAD } = AxisKind;

const DEVICE_URL = new URL("../../../backends/wasm/wasm_device.ts", import.meta.url).href;

/** Runs a script in a process of its own: its output and exit code. */
async function evaluate(script: string, env: Record<string, string> = {}): Promise<{ text: string; code: number }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", script],
    env: { NO_COLOR: "1", ...env },
  }).output();
  const decode = (b: Uint8Array) => new TextDecoder().decode(b).trim();
  return { text: decode(stdout) + decode(stderr), code };
}

Deno.test("wasm: LEB128", () => {
  for (
    const [bytes, want] of [
      [new Bytes().u32(0), [0]],
      [new Bytes().u32(624485), [0xe5, 0x8e, 0x26]],
      [new Bytes().u32(-1), [0xff, 0xff, 0xff, 0xff, 0x0f]],
      [new Bytes().s32(63), [0x3f]],
      [new Bytes().s32(64), [0xc0, 0]],
      [new Bytes().s32(-64), [0x40]],
      [new Bytes().s32(-123456), [0xc0, 0xbb, 0x78]],
      [new Bytes().s64(-1n), [0x7f]],
      [new Bytes().s64(2n ** 40n), [0x80, 0x80, 0x80, 0x80, 0x80, 0x20]],
    ] as const
  ) assertEquals([...bytes.take()], [...want]);
});

for (const on of [device, single]) {
  for (const k of KERNEL_FIXTURES) {
    if (k.linear === undefined) continue;
    Deno.test(`wasm: ${on.name} ${k.name}`, () => {
      const inputs = k.sizes.slice(1).map((n, s) => Float32Array.from({ length: n }, (_, i) => (i * (s + 3)) % 7 - 2));
      const out = new Float32Array(k.sizes[0]).fill(99);
      const got = run(on, programOf(k.name, k.linear!), [out, ...inputs].map((x) => new Uint8Array(x.buffer)));
      assertEquals([...new Float32Array(got.buffer)], k.expected(inputs));
    });
  }
}

Deno.test("wasm: a batch is one module, and known kernels are not compiled again", () => {
  const kernels = [addKernel(11), addKernel(12), addThreadVector(5)].map((k) => programOf(k.name, k.linear!));
  const { kernels: k0, modules: m0 } = device.info();
  const first = device.compiler.compile([...kernels, kernels[0]]);
  assertEquals(device.info().kernels, k0 as number + 3);
  assertEquals(device.info().modules, m0 as number + 1);
  assert(first[0] === first[3]);
  device.compiler.compile([programOf("renamed", addKernel(11).linear!), ...kernels]);
  assertEquals(device.info().modules, m0 as number + 1);
  assert(first[0].source.includes("f32.add"));
});

/** out[i] += i for a vector of `n`, in `n / 64` shared chunks. */
function addIndex(n: number): LinearProgram {
  const l = new Lines(), p = param(0, i32, n);
  const t = l.add(range(n / 64, 0, THREAD)), j = l.add(range(64, 1, LOOP)), at = t.mul(64).add(j);
  l.add(store(index(p, at), l.add(load(index(p, at))).add(at)));
  l.end(j);
  l.end(t);
  return programOf("addIndex", l.list, n * 10, n * 8);
}

Deno.test("wasm: floats that a comparison of floats selects are selected by their bits, others by branches", () => {
  for (const [isData, bits] of [[true, true], [false, false]] as const) {
    const l = new Lines(), [p, q] = [param(0, f32, 64), param(1, f32, 64)];
    const i = l.add(range(64, 0, LOOP)), x = l.add(load(index(q, i)));
    l.add(store(index(p, i), (isData ? x.lt(0) : i.lt(3)).where(x.mul(3), x)));
    l.end(i);
    const [program] = device.compiler.compile([programOf(`select${isData}`, l.list)]);
    assertEquals(program.source.includes("f32.reinterpret_i32"), bits, program.source);
  }
});

function waitForHelpers(): void {
  for (let i = 0; i < 200 && device.pool.ready === 0; i++) Atomics.wait(device.memory.i32, 8, 0, 10);
  assert(device.pool.ready > 0, "no helper came");
}

Deno.test("wasm: threads share launches, in order", () => {
  waitForHelpers();
  const n = 1 << 16;
  const program = compile(device, addIndex(n));
  const buffer = new Buffer(device, i32, n).copyIn(new Uint8Array(n * 4));
  for (let round = 0; round < 20; round++) {
    device.run(Array.from({ length: 10 }, () => ({ program, buffers: [buffer], vars: [] })));
  }
  const got = new Int32Array(buffer.copyOut(new Uint8Array(n * 4)).buffer);
  for (let i = 0; i < n; i++) if (got[i] !== 200 * i) throw new Error(`element ${i} is ${got[i]}`);
  buffer.free();
});

Deno.test("wasm: a graph replays with patched buffers and variables", () => {
  const l = new Lines(), x = variable("x", 0, 1e6), out = param(0, i32, 4), a = param(1, i32, 4);
  l.add(x);
  const i = l.add(range(4, 0, LOOP));
  l.add(store(index(out, i), l.add(load(index(a, i))).mul(2).add(x)));
  l.end(i);
  const program = compile(device, programOf("graph", l.list));
  const make = (values: number[]) => new Buffer(device, i32, 4).copyIn(arrayOf(i32, values));
  const a0 = make([1, 2, 3, 4]), a1 = make([5, 6, 7, 8]), mid = make([0, 0, 0, 0]), end = make([0, 0, 0, 0]);
  const graph = device.graph([
    { program, buffers: [mid, a0], vars: [1] },
    { program, buffers: [end, mid], vars: [0] },
  ]);
  const read = () => Array.from(new Int32Array(end.copyOut(new Uint8Array(16)).buffer));
  graph.run();
  assertEquals(read(), [6, 10, 14, 18]);
  graph.setBuffer(0, 1, a1);
  graph.setVar(1, 0, 100);
  graph.run();
  assertEquals(read(), [122, 126, 130, 134]);
  // a view of a buffer
  const two = new Buffer(device, i32, 8).copyIn(arrayOf(i32, [0, 0, 0, 0, 1, 1, 1, 1]));
  graph.setBuffer(0, 1, two.view(16, 4));
  graph.run();
  assertEquals(read(), [106, 106, 106, 106]);
  graph.dispose();
  graph.dispose();
  assertThrows(() => graph.run(), DeviceError, "it was disposed");
});

Deno.test("wasm: memory grows while graphs and helpers live, and blocks are reused", () => {
  waitForHelpers();
  const n = 1 << 14;
  const program = compile(device, addIndex(n));
  const buffer = new Buffer(device, i32, n).copyIn(new Uint8Array(n * 4));
  const graph = device.graph([{ program, buffers: [buffer], vars: [] }]);
  graph.run();
  const before = device.memory.nbytes;
  const large = new Buffer(device, f32, 1 << 24);
  large.copyIn(new Uint8Array(large.nbytes).fill(1));
  assert(device.memory.nbytes > before);
  graph.run();
  // a kernel compiled after the growth, on memory that came with it, also reaches the helpers
  const top = large.view((1 << 26) - n * 4, n, i32);
  top.copyIn(new Uint8Array(n * 4));
  const later = compile(device, { ...addIndex(n), name: "later" });
  for (let i = 0; i < 50; i++) device.run([{ program: later, buffers: [top], vars: [] }]);
  const got = new Int32Array(top.copyOut(new Uint8Array(n * 4)).buffer);
  for (let i = 0; i < n; i++) assertEquals(got[i], 50 * i);
  assertEquals(new Int32Array(buffer.copyOut(new Uint8Array(n * 4)).buffer)[n - 1], 2 * (n - 1));
  large.free();
  device.allocator.drop();
  const size = device.memory.nbytes;
  for (let i = 0; i < 10; i++) {
    const b = new Buffer(device, f32, 1 << 22);
    b.copyIn(new Uint8Array(4));
    b.free();
    device.allocator.drop();
  }
  assertEquals(device.memory.nbytes, size);
});

Deno.test("wasm: the allocator merges neighbors and reports what does not fit", () => {
  const { memory } = single;
  const blocks = Array.from({ length: 8 }, () => memory.alloc(1000));
  for (const b of blocks) assertEquals(b.address % 64, 0);
  for (const i of [1, 3, 2, 5, 7, 6, 4, 0]) memory.free(blocks[i]);
  const whole = memory.alloc(8 * 1024);
  assertEquals(whole.address, blocks[0].address);
  memory.free(whole);
  const error = assertThrows(() => new Buffer(single, f32, 2 ** 31).memory, OutOfMemoryError) as OutOfMemoryError;
  assertEquals([error.device, error.nbytes], ["WASM:1", 2 ** 33]);
});

Deno.test("wasm: a kernel of a batch of which another one cannot be rendered is compiled again, in a place of its own", () => {
  const bad = elementwise("sine", f32, [f32], 8, 1, ([x]) => x.sin());
  const kernels = [21, 22].map((n) => programOf("add", addKernel(n).linear!));
  assertThrows(() => device.compiler.compile([...kernels, bad]), CompileError);
  const other = programOf("other", addThreadVector(7).linear!); // takes the places that they had
  device.compiler.compile([other]);
  for (const [k, linear] of kernels.entries()) {
    const inputs = [1, 2].map((s) => Float32Array.from({ length: 21 + k }, (_, i) => i * s));
    const got = run(device, linear, [new Float32Array(21 + k), ...inputs].map((x) => new Uint8Array(x.buffer)));
    assertEquals([...new Float32Array(got.buffer)], Array.from(inputs[0], (x) => 3 * x));
  }
});

Deno.test("wasm: what cannot be rendered is a CompileError", () => {
  const linear = elementwise("sine", f32, [f32], 4, 1, ([x]) => x.sin());
  assertThrows(() => device.compiler.compile([linear]), CompileError, "SIN");
  const half = elementwise("half", dtypes.float16, [dtypes.float16], 4, 1, ([x]) => x);
  assertThrows(() => device.compiler.compile([half]), CompileError, "float16");
});

Deno.test("wasm: a trap is a DeviceError, and the device works on", () => {
  // far outside of memory
  const l = new Lines(), p = param(0, i32, 64);
  const t = l.add(range(64, 0, THREAD));
  l.add(store(index(p, t.mul(1 << 24).add(1 << 29)), t));
  l.end(t);
  const linear = programOf("wild", l.list, 1e9, 0);
  const buffer = new Buffer(device, i32, 64);
  for (let i = 0; i < 3; i++) {
    assertThrows(
      () => device.run([{ program: compile(device, linear), buffers: [buffer], vars: [] }]),
      DeviceError,
      "wild",
    );
  }
  const k = addKernel(10);
  const got = run(device, programOf(k.name, k.linear!), k.sizes.map((n) => arrayOf(f32, new Array<number>(n).fill(2))));
  assertEquals(Array.from(viewOf(f32, got) as ArrayLike<unknown>), new Array(10).fill(4));
});

for (
  const [name, f] of [
    ["without shared memory", { simd: true, relaxed: true, threads: false }],
    ["without relaxed SIMD", { simd: true, relaxed: false, threads: true }],
    ["without SIMD", { simd: false, relaxed: false, threads: false }],
  ] as const
) {
  const plain = new WasmDevice("WASM:2", f);
  Deno.test(`wasm: ${name}`, () => {
    const { caps } = plain.renderer;
    assertEquals([caps.hasMulAcc, caps.vectorLanes(f32)], [f.relaxed, f.simd ? 4 : 1]);
    if (!f.threads) assertEquals(plain.info().threads, 1);
    const lanes = caps.vectorLanes(f32);
    const linear = elementwise("plain", f32, [f32, f32], 8, lanes, ([x, y]) => x.lt(y).where(x.mul(y), y));
    const data = [new Uint8Array(32), sample(f32, 8, 0), sample(f32, 8, 1)];
    assert(WebAssembly.validate(plain.renderer.render(linear) as Uint8Array<ArrayBuffer>));
    assertEquals(run(plain, linear, data), run(js, linear, data));
  });
}

// with one helper: the first of many would be idle before the last are there
Deno.test("wasm: web Workers help, and end when idle", async () => {
  const { code, text } = await evaluate(
    `
    globalThis.process = undefined;
    const { WasmDevice } = await import("${DEVICE_URL}");
    const device = new WasmDevice("WASM");
    device.pool.webIdle = 1e8;
    device.pool.start();
    for (let i = 0; i < 300 && device.pool.ready === 0; i++) Atomics.wait(device.memory.i32, 8, 0, 10);
    const came = device.pool.ready;
    for (let i = 0; i < 300 && device.pool.ready > 0; i++) await new Promise((r) => setTimeout(r, 10));
    console.log(device.pool.helpers, came, device.pool.ready);`,
    { THREADS: "2" },
  );
  assertEquals(code, 0, text);
  const [helpers, came, left] = text.split(" ").map(Number);
  assert(came === helpers && left === 0, text);
});

// with few helpers: four times those of 64 processors take longer than is waited for
Deno.test("wasm: web Workers that come later than others were started in their place go", async () => {
  const { code, text } = await evaluate(
    `
    globalThis.process = undefined;
    const { WasmDevice } = await import("${DEVICE_URL}");
    const device = new WasmDevice("WASM"), { now } = performance;
    let later = 0;
    performance.now = () => now.call(performance) + later;
    for (let i = 0; i < 4; i++) {
      device.pool.start();
      later += 6000; // as where a page was busy for so long that its Workers have not begun
    }
    let most = 0;
    for (let i = 0, beyond = 0; i < 1000 && beyond < 100; i++) {
      most = Math.max(most, device.pool.ready);
      if (most >= device.pool.helpers) beyond++; // more may come
      await new Promise((r) => setTimeout(r, 10));
    }
    console.log(device.pool.helpers, most);
    device.pool.close();`,
    { THREADS: "8" },
  );
  assertEquals(code, 0, text);
  const [helpers, most] = text.split(" ").map(Number);
  assertEquals(most, helpers);
});
