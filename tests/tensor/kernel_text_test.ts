/** Kernels given as text: values and gradients on the devices whose languages they are in, and misuse. */
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, CompileError, context, Device, DeviceError, jit, Tensor } from "../../mod.ts";
import type { KernelText } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";

/** out = x * 2 + y and rest = x - y, of 6 floats. */
const BLEND: KernelText = {
  name: "blend",
  writes: [0, 1],
  groups: [2],
  threads: [3],
  text: {
    CLANG: `
#include <stddef.h>
static float twice(float x) { return 2 * x; }
void blend(float *out, float *rest, const float *x, const float *y) {
  for (size_t i = 0; i < 6; i++) {
    out[i] = twice(x[i]) + y[i];
    rest[i] = x[i] - y[i];
  }
}`,
    CUDA: `
__device__ float twice(float x) { return 2 * x; }
extern "C" __global__ void blend(float *out, float *rest, const float *x, const float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = twice(x[i]) + y[i];
  rest[i] = x[i] - y[i];
}`,
    WEBGPU: `
@group(0) @binding(0) var<storage, read_write> result: array<f32>;
@group(0) @binding(1) var<storage, read_write> rest: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> y: array<f32>;
fn twice(x: f32) -> f32 { return 2 * x; }
@compute @workgroup_size(3)
fn blend(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  result[i] = twice(x[i]) + y[i];
  rest[i] = x[i] - y[i];
}`,
  },
};

const named = (await devicesHere()).filter((d) => BLEND.text[d] !== undefined);
/** Devices that compile the language of their text: CUDA without NVRTC compiles PTX. */
const devices = named.filter((d) => Device.get(d).renderer.name !== "PTX");

for (const device of named.filter((d) => !devices.includes(d))) {
  Deno.test(`kernel text ${device}: without its compiler the error names both languages`, () => {
    const x = Tensor.empty([2, 3], { device });
    const run = () => x.customKernel([x, x, x], BLEND)[0].realize();
    assertThrows(run, DeviceError, "written in CUDA C, and the device compiles PTX");
  });
}

for (const device of devices) {
  const on = { device }, empty = () => Tensor.empty([2, 3], on);
  Deno.test(`kernel text ${device}: two results, between lazy inputs and readers`, async () => {
    const x = Tensor.arange(6, undefined, undefined, { dtype: "float32", ...on }).reshape([2, 3]), y = x.add(1).mul(10);
    const [out, rest, ...others] = empty().customKernel([empty(), x.flip(1), y], BLEND);
    Tensor.realize([out, rest]);
    assertEquals(others.length, 2);
    assertEquals(await out.add(1).tolist(), [[15, 23, 31], [51, 59, 67]]);
    assertEquals(await rest.tolist(), [[-8, -19, -30], [-35, -46, -57]]);
  });
  Deno.test(`kernel text ${device}: its gradient, jit, and other functions of the same names`, async () => {
    const other = Object.fromEntries(
      Object.entries(BLEND.text).map(([d, t]) => [d, t.replace("return 2 *", "return 3 *")]),
    );
    const x = new Tensor([1, 2, 3, 4, 5, 6], { dtype: "float32", requiresGrad: true, ...on }).reshape([2, 3]);
    const step = jit((a: Tensor) =>
      [BLEND, { ...BLEND, text: other }].map((k) => empty().customKernel([empty(), a, a], k)[0])
    );
    for (let i = 0; i < 3; i++) {
      const [two, three] = step(x.add(i).realize());
      assertEquals(await two.sub(x.add(i).mul(3)).abs().sum().item(), 0);
      assertEquals(await three.sub(x.add(i).mul(4)).abs().sum().item(), 0);
    }
    const [y] = empty().customKernel([empty(), x, x.detach()], BLEND, { gradFxn: (g) => [g.mul(2)] });
    assertEquals(await y.square().sum().gradient([x])[0].tolist(), [[12, 24, 36], [48, 60, 72]]);
  });
  Deno.test(`kernel text ${device}: checks of kernels leave it out`, async () => {
    const x = Tensor.ones([2, 3], on).contiguous();
    const out = context({ VALIDATE_WITH_JS: 1 }, () => empty().customKernel([empty(), x, x], BLEND)[0].realize());
    assertEquals(await out.sum().item(), 18);
  });
  Deno.test(`kernel text ${device}: what its compiler says`, async () => {
    const text = { ...BLEND.text, [device]: BLEND.text[device].replace("2 * x", "2 * nothing") };
    const error = await assertRejects(async () => {
      await empty().customKernel([empty(), empty(), empty()], { ...BLEND, text })[0].tolist();
    }, CompileError);
    assertMatch(error.message, /^Cannot compile kernel blend.* for .*nothing/s);
  });
}

const put = { name: "put", text: { CLANG: "void put(float *out) { out[0] = 1; }" } };
const ROWS: [name: string, kernel: unknown, type: typeof ArgumentError | typeof DeviceError, text: string][] = [
  ["another device", put, DeviceError, "Cannot run kernel put: the tensors are on JS, and its text is for CLANG"],
  ["no text", { name: "put", text: {} }, DeviceError, "the tensors are on JS, and its text is for no device"],
  ["no name", { text: put.text }, ArgumentError, "its name must be an identifier, not undefined"],
  ["a bad name", { ...put, name: "a b" }, ArgumentError, 'its name must be an identifier, not "a b"'],
  ["texts that are none", { ...put, text: "void" }, ArgumentError, 'its text must be one a device, not "void"'],
  [
    "an unknown language",
    { ...put, text: { JS: "x" } },
    ArgumentError,
    'texts for CLANG, CUDA, WEBGPU, not "x" for JS',
  ],
  ["an option", { ...put, grid: 1 }, ArgumentError, 'unknown option "grid"'],
];
for (const [name, kernel, type, text] of ROWS) {
  Deno.test(`kernel text: ${name}`, () => {
    assertThrows(() => Tensor.empty([1], { device: "JS" }).customKernel([], kernel as KernelText), type, text);
  });
}

Deno.test({
  name: "kernel text: sizes and tensors that are none",
  ignore: !devices.includes("CLANG"),
  fn() {
    const run = (more: object) => Tensor.empty([1], { device: "CLANG" }).customKernel([], { ...put, ...more });
    assertThrows(() => run({ writes: [1] }), ArgumentError, "writes names tensor 1, and there are 1");
    assertThrows(() => run({ writes: [] }), ArgumentError, "writes must list the tensors that it writes");
    assertThrows(() => run({ groups: [1, 2, 3, 4] }), ArgumentError, "groups must be a list of one to three sizes");
    assertThrows(() => run({ threads: [0] }), ArgumentError, "threads must be an integer of at least 1, not 0");
    assertEquals(Device.get("CLANG").name, "CLANG");
  },
});
