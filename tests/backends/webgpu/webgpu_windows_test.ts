/** Buffers larger than what a binding holds: the WEBGPU device with bindings of few bytes, beside the JS device. */
import { assert, assertClose, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openGpu } from "../../../backends/webgpu/adapter.ts";
import { webgpuBackend } from "../../../backends/webgpu/webgpu.ts";
import { WebGpuDevice } from "../../../backends/webgpu/webgpu_device.ts";
import { context, DeviceError, jit, Tensor, Variable } from "../../../mod.ts";
import { registerBackend } from "../../../src/device/device.ts";
import { dawnComplaints, hasDawn } from "../../fixtures/dawn.ts";
import { kernelsElsewhere } from "../../fixtures/kernels_elsewhere.ts";
import { Random } from "../../support/random.ts";

const NAME = "WINDOWS", BYTES = 65536;

let device: WebGpuDevice | undefined;
if (webgpuBackend.unavailable() === undefined) {
  await context({ WEBGPU_LIMITS: `default,maxStorageBufferBindingSize=${BYTES}` }, async () => {
    const opened = await openGpu(navigator.gpu).catch((error) => console.log(`WEBGPU is left out: ${error.message}`));
    if (opened) device = new WebGpuDevice(NAME, opened);
  });
}
registerBackend({
  name: NAME,
  description: "WEBGPU with small bindings, for tests",
  permissions: [],
  unavailable: () => device === undefined ? "no adapter" : undefined,
  open: () => device!,
});

/** A test whose kernels run on the device alone. */
function test(name: string, fn: () => Promise<void>): void {
  Deno.test({
    name: `WEBGPU windows: ${name}`,
    ignore: device === undefined,
    fn: async () => {
      await context({ DEV: NAME }, fn);
    },
  });
}

/** The same on the device and on the host. */
async function same(f: (input: (shape: number[], dtype?: string) => Tensor) => Tensor, tolerance = 0): Promise<void> {
  const on = (name: string): Tensor => {
    const random = new Random(7);
    return f((shape, dtype = "float32") => {
      const n = shape.reduce((a, b) => a * b, 1), values = Int32Array.from({ length: n }, () => random.int(-8, 8));
      return new Tensor(values, { device: name }).cast(dtype as "float32").reshape(shape).contiguous().realize();
    });
  };
  const want = await on("JS").realize().data(), before = kernelsElsewhere(NAME);
  const got = await on(NAME).realize().data();
  assertEquals(kernelsElsewhere(NAME), before, "kernels ran elsewhere");
  assertClose(got, want, tolerance);
}

const N = 50_000; // floats: four windows

const CASES: [name: string, f: Parameters<typeof same>[0], tolerance?: number][] = [
  ["elementwise", (x) => x([N]).mul(2).add(x([N])).sub(x([N]))],
  ["an odd number of elements", (x) => x([N + 3]).neg()],
  ["a shift by one", (x) => x([N]).shrink([[1, N]]).add(1)],
  ["a row added to all", (x) => x([250, 200]).add(x([200]))],
  ["rows padded", (x) => x([250, 200]).pad([[1, 2], [3, 4]])],
  ["flipped", (x) => x([N]).flip([0])],
  ["transposed", (x) => x([200, 250]).permute([1, 0]).contiguous().add(1)],
  ["joined", (x) => x([N]).cat([x([N])])],
  ["sum of all", (x) => x([N]).sum()],
  ["sums of rows", (x) => x([100, 500]).sum(1)],
  ["sums of columns", (x) => x([500, 100]).sum(0)],
  ["maximum of all", (x) => x([N]).max()],
  ["softmax of rows", (x) => x([100, 500]).softmax(1), 1e-5],
  ["product", (x) => x([150, 160]).matmul(x([160, 150])), 1e-4],
  ["product with a long inner axis", (x) => x([4, 10000]).matmul(x([10000, 4])), 1e-4],
  ["batched product", (x) => x([20, 40, 40]).matmul(x([20, 40, 40])), 1e-4],
  ["convolution", (x) => x([2, 4, 60, 60]).conv2d(x([8, 4, 3, 3])), 1e-4],
  ["gather of rows", (x) => x([500, 100]).at(x([300], "int32").abs().mul(60))],
  ["uint8", (x) => x([4 * N], "uint8").add(3)],
  ["uint8 of odd length", (x) => x([4 * N + 3], "uint8").shrink([[1, 4 * N + 3]]).mul(3)],
  ["bool", (x) => x([4 * N]).gt(0).logicalNot()],
  ["int64", (x) => x([N], "int64").mul(10n ** 10n).add(1)],
  ["float16", (x) => x([2 * N], "float16").add(1)],
  ["cumulative sum", (x) => x([N]).cumsum()],
  ["sort", (x) => x([20000]).sort()[0]],
];
for (const [name, f, tolerance] of CASES) test(name, () => same(f, tolerance));

test("a write in place changes one element of one window", async () => {
  const x = Tensor.zeros([N]).contiguous().realize();
  x.setAt([N - 2], 5);
  const got = await x.realize().data();
  assertEquals([got[N - 3], got[N - 2], got[N - 1], got.length], [0, 5, 0, N]);
});

test("a replay with other buffers and another scalar", async () => {
  const f = jit((x: Tensor, k: Tensor) => x.mul(k).add(1));
  for (let i = 0; i < 4; i++) {
    const x = Tensor.full([N], i).contiguous().realize(), k = Tensor.full([1], 2 * i).contiguous().realize();
    const got = await f(x, k).data();
    assertEquals([got[0], got[N >> 1], got[N - 1]], [2 * i * i + 1, 2 * i * i + 1, 2 * i * i + 1]);
  }
});

test("a symbolic size runs the boxes that it has", async () => {
  const rows = new Variable("rows", 1, 250), x = Tensor.arange(N).reshape([250, 200]).contiguous().realize();
  const f = jit((t: Tensor) => t.mul(2).sum(1));
  for (const n of [3, 120, 250, 81]) {
    const got = await f(x.at([0, rows.bind(n)])).data();
    assertEquals([got.length, got[n - 1]], [n, 2 * (200 * 200 * (n - 1) + 199 * 100)]);
  }
});

test("an elementwise kernel takes one window a buffer, whatever its size", async () => {
  const x = Tensor.rand([40 * N]).realize(), y = x.add(1).realize();
  const [a, b] = await Promise.all([x.data(), y.data()]);
  assert(a.every((v, i) => Math.fround(Number(v) + 1) === b[i]));
});

test("what takes more bindings than there are says so", async () => {
  const x = Tensor.zeros([2 ** 20]).contiguous().realize(), i = Tensor.arange(100).contiguous().realize();
  const t = x.at(i.cast("int32"));
  const error = await assertRejects(() => Promise.resolve().then(() => t.realize()), DeviceError);
  assertMatch(error.message, /^Cannot compile kernel \w+ for WINDOWS: buffers larger than a binding \(.*\) take \d+/);
});

Deno.test("WEBGPU windows: limits that are none are refused", async () => {
  if (device === undefined) return;
  for (const text of ["maxBytes=4", "maxBufferSize=x", "maxBufferSize"]) {
    const error = await assertRejects(
      () => context({ WEBGPU_LIMITS: text }, () => openGpu(navigator.gpu)),
      DeviceError,
    );
    assertMatch(error.message, /WEBGPU_LIMITS is ".*", and takes default or <limit>=<number>; limits are max/);
  }
});

Deno.test({
  name: "WEBGPU windows: Dawn takes every kernel",
  ignore: device === undefined || !await hasDawn(),
  fn: async () => assertEquals(await dawnComplaints(device!.compiler.sources), []),
});
