/**
 * The CUDA backend on a card: what a recording driver cannot tell. Kernels by NVRTC where it is found, and as PTX.
 */
import assert from "node:assert/strict";
import { type CudaDevice, openCuda } from "../../../backends/cuda/cuda_device.ts";
import { cudaBackend } from "../../../backends/cuda/cuda.ts";
import type { CudaProgram } from "../../../backends/cuda/cuda_launch.ts";
import { nvrtcCounters } from "../../../backends/cuda/nvrtc.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { OutOfMemoryError } from "../../../src/helpers/errors.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { KERNEL_FIXTURES } from "../../fixtures/kernels.ts";
import { runDeno } from "../../system/subprocess.ts";

const ignore = cudaBackend.unavailable() !== undefined;
const cache = ignore ? "" : Deno.makeTempDirSync({ prefix: "dinograd-test-" });
const devices: CudaDevice[] = [];
if (!ignore) {
  const before = nvrtcCounters.opened;
  devices.push(context({ PTX: 1, CACHEDIR: cache }, () => openCuda(0)));
  assert.equal(nvrtcCounters.opened, before, "PTX=1 opens no NVRTC");
  const other = context({ PTX: 0, CACHEDIR: cache }, () => openCuda(0));
  if (nvrtcCounters.opened > before) devices.push(other);
  else other.close();
  addEventListener("unload", () => {
    devices.forEach((d) => d.close());
    Deno.removeSync(cache, { recursive: true });
  });
}

function test(name: string, fn: (device: CudaDevice) => void | Promise<void>): void {
  if (ignore) return Deno.test({ name: `CUDA card: ${name}`, ignore, fn: () => {} });
  for (const device of devices) {
    Deno.test(`CUDA card: ${name} (${device.renderer.name})`, async () => await fn(device));
  }
}

const f32 = dtypes.float32;
function upload(device: CudaDevice, values: Float32Array): Buffer {
  return new Buffer(device, f32, values.length).copyIn(new Uint8Array(values.buffer));
}
function floats(buffer: Buffer): Float32Array {
  return new Float32Array(buffer.copyOut(new Uint8Array(buffer.nbytes)).buffer);
}

for (const k of KERNEL_FIXTURES) {
  if (k.linear === undefined) continue;
  test(`one thread: ${k.name}`, (device) => {
    const inputs = k.sizes.slice(1).map((n, s) => Float32Array.from({ length: n }, (_, i) => (i * (s + 3)) % 7 - 2));
    const buffers = [new Float32Array(k.sizes[0]).fill(99), ...inputs].map((x) => upload(device, x));
    const [program] = device.compiler.compile([programOf(k.name, k.linear!)]);
    device.run([{ program, buffers, vars: [] }]);
    assert.deepEqual([...floats(buffers[0])], k.expected(inputs));
    buffers.forEach((b) => b.free());
  });
}

/** out = a x b, n x n. */
function matmul(n: number): UOp {
  const out = param(0, f32, n * n), a = param(1, f32, n * n), b = param(2, f32, n * n);
  const i = range(n, 0, AxisKind.LOOP), j = range(n, 1, AxisKind.LOOP), k = range(n, 2, AxisKind.REDUCE);
  const product = load(index(a, i.mul(n).add(k))).mul(load(index(b, k.mul(n).add(j))));
  return sink([store(index(out, i.mul(n).add(j)), reduce(opCarrier(Ops.ADD, f32), [product], [k]))]);
}
function ramp(n: number, by: number): Float32Array {
  return Float32Array.from({ length: n }, (_, i) => i * by % 13 - 6);
}

for (const NOOPT of [1, 0]) {
  test(`a matrix product, NOOPT=${NOOPT}, spills nothing and comes from the cache the second time`, (device) => {
    const n = 128, linear = context({ NOOPT }, () => toProgram(matmul(n), device.renderer));
    const start = performance.now(), [program] = device.compiler.compile([linear]) as CudaProgram[];
    const coldMs = performance.now() - start;
    assert.equal(program.localBytes, 0);
    const a = ramp(n * n, 7), b = ramp(n * n, 5);
    const buffers = [new Float32Array(n * n), a, b].map((x) => upload(device, x));
    device.run([{ program, buffers, vars: [] }]);
    const got = floats(buffers[0]);
    for (const at of [0, 1, n, 5 * n + 77, n * n - 1]) {
      let want = 0;
      for (let k = 0; k < n; k++) want += a[Math.floor(at / n) * n + k] * b[k * n + at % n];
      assert.equal(got[at], want, `element ${at}`);
    }
    const compiled = nvrtcCounters.compiled;
    program.dispose();
    const again = performance.now();
    device.compiler.compile([linear])[0].dispose();
    const cachedMs = performance.now() - again;
    assert.equal(nvrtcCounters.compiled, compiled);
    console.log(`${device.renderer.name}: ${coldMs.toFixed(1)} ms cold, ${cachedMs.toFixed(1)} ms cached`);
    buffers.forEach((x) => x.free());
  });
}

test("a graph with patched buffers computes what single launches do", (device) => {
  const n = 64, linear = toProgram(matmul(n), device.renderer), [program] = device.compiler.compile([linear]);
  const [a, b, other] = [7, 5, 3].map((by) => upload(device, ramp(n * n, by)));
  const [t, u, direct] = [0, 1, 2].map(() => upload(device, new Float32Array(n * n)));
  const launches = [{ program, buffers: [t, a, b], vars: [] }, { program, buffers: [u, t, b], vars: [] }];
  const graph = device.graph(launches);
  graph.run();
  device.run([launches[0], { program, buffers: [direct, t, b], vars: [] }]);
  assert.deepEqual(floats(u), floats(direct));
  graph.setBuffer(0, 1, other);
  graph.run();
  device.run([{ program, buffers: [t, other, b], vars: [] }, { program, buffers: [direct, t, b], vars: [] }]);
  assert.deepEqual(floats(u), floats(direct));
  for (let i = 0; i < 100; i++) graph.run();
  graph.dispose();
  for (const x of [a, b, other, t, u, direct]) x.free();
});

test("large copies, synchronous and not, while the process serves others", async (device) => {
  const bytes = new Uint8Array(96 * 2 ** 20 + 5);
  for (let i = 0; i < bytes.length; i += 97) bytes[i] = i % 251;
  const buffer = new Buffer(device, dtypes.uint8, bytes.length).copyIn(bytes);
  assert.ok(sameBytes(buffer.copyOut(new Uint8Array(bytes.length)), bytes));
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  const got = await buffer.copyOutAsync(new Uint8Array(bytes.length));
  clearInterval(timer);
  assert.ok(sameBytes(got, bytes));
  buffer.free(false);
});
function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

test("time by events is about what the clock of the host says", (device) => {
  const n = 512, [program] = device.compiler.compile([toProgram(matmul(n), device.renderer)]);
  const buffers = [0, 1, 2].map(() => upload(device, new Float32Array(n * n)));
  const launch = { program, buffers, vars: [] };
  device.run([launch]);
  const start = performance.now(), ms = device.timeSync(() => device.run(Array.from({ length: 50 }, () => launch)));
  assert.ok(ms > 0 && ms <= performance.now() - start, `${ms} ms`);
  buffers.forEach((b) => b.free());
});

test("more memory than the card has: the table of holders", (device) => {
  const held = upload(device, new Float32Array(1000));
  assert.throws(() => new Buffer(device, f32, 2 ** 40).memory, (error: unknown) => {
    assert.ok(error instanceof OutOfMemoryError, String(error));
    assert.match(
      error.message,
      /^Cannot allocate 4398046511104 bytes on CUDA: the device has .* free of .*; 4.00 kB are/,
    );
    return true;
  });
  held.free();
});

Deno.test({
  name: "CUDA card: a stray write loses the device: the kernel is named, later calls say so",
  ignore: ignore || Deno.env.get("SANITIZED") !== undefined,
  async fn() {
    for (const PTX of ["0", "1"]) {
      const { stdout, stderr } = await runDeno(["run", "-A", "--no-check", "tests/fixtures/cuda_illegal.ts"], {
        env: { PTX },
      });
      const [first, later] = stdout.trim().split("\n");
      // what lies 8 GiB behind the buffer, nothing or the window of shared memory, is the driver's choice
      assert.match(
        first,
        /^Cannot run kernel stray \(float32\[16\]\) on CUDA: CUDA_ERROR_(ILLEGAL_ADDRESS \(700\)|INVALID_ADDRESS_SPACE \(717\)): .*; restart the process/,
        stderr,
      );
      assert.match(later, /^Cannot use device CUDA: it was lost earlier, when it could not run kernel stray /);
    }
  },
});

Deno.test({
  name: "CUDA card: two cards copy between them",
  ignore: ignore || openCount() < 2,
  fn() {
    const other = context({ CACHEDIR: cache }, () => openCuda(1));
    try {
      const values = ramp(1 << 20, 7), from = upload(devices[0], values), to = new Buffer(other, f32, values.length);
      other.allocator.transfer!(to.memory, 0, from.memory, 0, from.nbytes, devices[0].allocator);
      assert.deepEqual(floats(to), values);
      from.free();
    } finally {
      other.close();
    }
  },
});

function openCount(): number {
  return ignore ? 0 : devices[0].cardCount;
}
