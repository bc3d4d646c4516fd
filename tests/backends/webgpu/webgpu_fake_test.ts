/** The WEBGPU device on a fake GPU: adapters, limits, errors that come late, loss. */
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { openGpu } from "../../../backends/webgpu/adapter.ts";
import { WebGpuDevice } from "../../../backends/webgpu/webgpu_device.ts";
import { CompileError, context, DeviceError, OutOfMemoryError } from "../../../mod.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Program } from "../../../src/device/program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { selfTestAsync } from "../../../src/engine/self_test.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { index, load, param, range, sink, store } from "../../../src/uop/core/uop.ts";
import { FAKE_LIMITS, type FakeDevice, FakeGpu, type FakeOptions } from "../../fixtures/fake_gpu.ts";

const asGpu = (fake: FakeGpu): GPU => fake as unknown as GPU;

async function openFake(options: FakeOptions = {}): Promise<{ device: WebGpuDevice; fake: FakeDevice; gpu: FakeGpu }> {
  const gpu = new FakeGpu(options), device = new WebGpuDevice("WEBGPU", await openGpu(asGpu(gpu)));
  return { device, fake: gpu.device!, gpu };
}

/** out[i] = in[i] + 1 for 8 floats. */
function increment(device: WebGpuDevice): Program {
  const i = range(8, 0, AxisKind.LOOP), f = dtypes.float32;
  const ast = sink([store(index(param(0, f, 8), i), load(index(param(1, f, 8), i)).add(1))]);
  return device.compiler.compile([toProgram(ast, device.renderer)])[0];
}
function floats(device: WebGpuDevice): Buffer {
  return new Buffer(device, dtypes.float32, 8).copyIn(new Uint8Array(32));
}
function run(device: WebGpuDevice, program: Program, out: Buffer, from: Buffer): void {
  device.run([{ program, buffers: [out, from], vars: [] }]);
}
const read = (b: Buffer): Promise<Uint8Array> => b.copyOutAsync(new Uint8Array(b.nbytes));

Deno.test("fake WEBGPU: without an adapter the packages are named", async () => {
  const error = await assertRejects(() => openGpu(asGpu(new FakeGpu({ noAdapter: true }))), DeviceError);
  assertMatch(error.message, /^Cannot open device WEBGPU: no adapter was found; .*libvulkan1.*mesa-vulkan-drivers/);
});

Deno.test("fake WEBGPU: an adapter that throws", async () => {
  const gpu = { requestAdapter: () => Promise.reject(new Error("no loader")) } as unknown as GPU;
  const error = await assertRejects(() => openGpu(gpu), DeviceError);
  assertMatch(error.message, /the request failed: no loader/);
});

Deno.test("fake WEBGPU: an adapter of OpenGL is refused by name unless it is asked for", async () => {
  const gl = () => asGpu(new FakeGpu({ limits: { maxBindingsPerBindGroup: 2 ** 32 - 1, maxBufferSize: 2 ** 31 - 1 } }));
  const error = await assertRejects(() => openGpu(gl()), DeviceError);
  assertMatch(error.message, /the only adapter \(.*\) is one of OpenGL, .*mesa-vulkan-drivers.*WEBGPU_OPENGL=1/);
  const { description } = await context({ WEBGPU_OPENGL: 1 }, () => openGpu(gl()));
  assertMatch(description, /, OpenGL$/);
});

Deno.test("fake WEBGPU: limits are raised to the adapter's, and lowered step by step where it refuses", async () => {
  const { device, gpu } = await openFake({ features: ["shader-f16", "subgroups"] });
  assertEquals(gpu.requests[0].requiredFeatures, ["shader-f16"]);
  assertEquals(gpu.requests[0].requiredLimits, FAKE_LIMITS);
  assertEquals(device.renderer.caps.maxBuffers, 16);
  assertEquals(device.renderer.caps.maxBufferBytes, 2 ** 30);
  assertEquals(device.info().bindingBytes, 2 ** 28);
  const refused = await openFake({ refusals: 1, features: ["shader-f16"] });
  assertEquals(refused.device.renderer.caps.maxBuffers, 8);
  assertEquals(refused.device.renderer.caps.maxBufferBytes, 2 ** 30);
  const plain = await openFake({ refusals: 3, features: ["shader-f16"] });
  assertEquals(plain.gpu.requests[3], {});
  assertEquals([plain.device.renderer.caps.maxBufferBytes, plain.device.info().bindingBytes], [2 ** 29, 2 ** 27]);
  assertEquals(plain.device.renderer.caps.computeDTypes.includes(dtypes.float16), false);
  const error = await assertRejects(() => openFake({ refusals: 4 }), DeviceError);
  assertMatch(error.message, /the adapter gives no device, even with default limits: limits are too high/);
});

Deno.test("fake WEBGPU: WEBGPU_LIMITS=default raises no limit", async () => {
  const { gpu } = await context({ WEBGPU_LIMITS: "default" }, () => openFake());
  assertEquals(gpu.requests.map((r) => r.requiredLimits), [undefined]);
});

Deno.test("fake WEBGPU: a software adapter is warned about once", async () => {
  const said: string[] = [], { warn } = console;
  console.warn = (text: string) => void said.push(text);
  try {
    for (let i = 0; i < 3; i++) assertEquals((await openFake({ isFallback: true })).device.info().software, true);
  } finally {
    console.warn = warn;
  }
  assertEquals(said, ["WEBGPU runs on a software adapter (fake adapter): results are right, but slow"]);
});

Deno.test("fake WEBGPU: reads of one moment go together; writes are exact and whole words", async () => {
  const { device, fake } = await openFake();
  const list = [3, 5, 8].map((n) => new Buffer(device, dtypes.uint8, n).copyIn(new Uint8Array(n).fill(n)));
  assertEquals(fake.log, ["write 4", "write 8", "write 8"]);
  const bytes = await Promise.all(list.map(read));
  assertEquals(bytes.map((b) => [...b]), [[3, 3, 3], [5, 5, 5, 5, 5], [8, 8, 8, 8, 8, 8, 8, 8]]);
  assertEquals(fake.log.filter((x) => x === "submit").length, 1);
  device.close();
});

Deno.test("fake WEBGPU: a list of launches is one submit", async () => {
  const { device, fake } = await openFake();
  const program = increment(device), [a, b, c] = [floats(device), floats(device), floats(device)];
  device.run([{ program, buffers: [b, a], vars: [] }, { program, buffers: [c, b], vars: [] }]);
  assertEquals(fake.log.filter((x) => x === "submit").length, 1);
  await device.synchronize();
});

Deno.test("fake WEBGPU: wrong results refuse the device", async () => {
  const { device } = await openFake();
  const wrong = await selfTestAsync(device);
  assertMatch(
    wrong!.message,
    /^Cannot use device WEBGPU: its self-test "add" gave NaN instead of .* cannot be trusted$/,
  );
});

Deno.test("fake WEBGPU: a rejected shader is told by what depends on it, with kernel and line", async () => {
  const { device, fake } = await openFake();
  const [a, b, c, other] = Array.from({ length: 4 }, () => floats(device));
  fake.next.set("createShaderModule", { kind: "validation", message: "Shader '' parsing error" });
  const bad = increment(device);
  fake.next.set("submit", { kind: "validation", message: "Invalid pipeline" });
  run(device, bad, b, a);
  const i = range(8, 0, AxisKind.LOOP), f = dtypes.float32;
  const doubled = sink([store(index(param(0, f, 8), i), load(index(param(1, f, 8), i)).mul(2))]);
  const good = device.compiler.compile([toProgram(doubled, device.renderer)])[0];
  run(device, good, c, b);
  for (const poisoned of [b, c]) {
    const error = await assertRejects(() => read(poisoned), CompileError);
    assertMatch(error.message, /^Cannot compile kernel \w+ for WEBGPU: line 7: unknown identifier: 'bogus'$/);
    assertMatch(error.source, /fn main/);
  }
  await read(other);
  await assertRejects(() => device.synchronize(), CompileError);
  await device.synchronize();
  assertThrows(() => run(device, bad, b, a), CompileError);
});

Deno.test("fake WEBGPU: a validation error names the kernel and poisons its outputs", async () => {
  const { device, fake } = await openFake();
  const [a, b, c] = [floats(device), floats(device), floats(device)], program = increment(device);
  fake.next.set("submit", { kind: "validation", message: "Buffer is used twice" });
  run(device, program, b, a);
  run(device, program, c, a);
  const error = await assertRejects(() => read(b), DeviceError);
  assertMatch(error.message, /^Cannot run kernel \w+: Buffer is used twice$/);
  await read(c);
  await assertRejects(() => device.synchronize(), DeviceError);
});

Deno.test("fake WEBGPU: lack of memory names the holders, and the next owner starts anew", async () => {
  const { device, fake } = await openFake();
  const held = floats(device);
  fake.next.set("createBuffer", { kind: "out-of-memory", message: "Not enough memory left" });
  const b = floats(device);
  const error = await assertRejects(() => read(b), OutOfMemoryError);
  assertEquals([error.device, error.nbytes, error.holders.length], ["WEBGPU", 32, 2]);
  assertMatch(error.message, /the adapter refused the buffer: Not enough memory left; 64 bytes are held in 2 blocks/);
  assertThrows(
    () => new Buffer(device, dtypes.uint8, 2 ** 31).memory,
    OutOfMemoryError,
    "Cannot allocate 2147483648 bytes on WEBGPU: the device allows 1.07 GB a buffer",
  );
  b.free();
  await read(floats(device)); // memory of its own, not the refused block
  held.free();
  await assertRejects(() => device.synchronize(), OutOfMemoryError);
});

Deno.test("fake WEBGPU: after its loss every use says so", async () => {
  const { device, fake } = await openFake();
  const program = increment(device), [a, b] = [floats(device), floats(device)];
  run(device, program, b, a);
  const pending = read(b);
  fake.loseDevice("unknown", "the driver was reset");
  const lost =
    /^Cannot .*: WEBGPU was lost \(unknown: the driver was reset\) with all tensors on it; await Device\.open/;
  assertMatch((await assertRejects(() => pending, DeviceError)).message, lost);
  assertEquals(device.isLost, true);
  assertMatch((await assertRejects(() => read(a), DeviceError)).message, lost);
  assertMatch((await assertRejects(() => device.synchronize(), DeviceError)).message, lost);
  assertMatch(assertThrows(() => run(device, program, b, a), DeviceError).message, lost);
  assertMatch(assertThrows(() => floats(device), DeviceError).message, lost);
  device.close();
});

Deno.test("fake WEBGPU: a closed device says so", async () => {
  const { device } = await openFake(), program = increment(device), [a, b] = [floats(device), floats(device)];
  device.close();
  device.close();
  const closed = /^Cannot .*: WEBGPU was closed$/;
  assertMatch(assertThrows(() => run(device, program, b, a), DeviceError).message, closed);
  assertMatch((await assertRejects(() => read(a), DeviceError)).message, closed);
});

Deno.test("fake WEBGPU: a program runs on the device that took the place of a lost one", async () => {
  const first = await openFake(), program = increment(first.device);
  first.fake.loseDevice("unknown", "");
  const second = await openFake(), [a, b] = [floats(second.device), floats(second.device)];
  run(second.device, program, b, a);
  await read(b);
  assertEquals(second.device.compiler.sources.length, 1);
});
