/** No kernel asks for more shared memory, threads or buffers than its device has: opts are given up, or an error names it. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { makeNullDevice } from "../../../backends/null/null.ts";
import { excessOf } from "../../../src/codegen/machine/group_limits.ts";
import { Kernel } from "../../../src/codegen/opt/kernel.ts";
import { type Backend, registerBackend } from "../../../src/device/device.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { CudaRenderer } from "../../../src/renderer/c/cuda_c.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { sharedBytesOf } from "../../../src/renderer/lanes.ts";
import type { Capabilities, LinearProgram, Renderer } from "../../../src/renderer/renderer.ts";
import { DEFAULT_LIMITS, webGpuCaps } from "../../../src/renderer/webgpu_caps.ts";
import { AxisKind, LocalArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { DeviceError, Tensor } from "../../../mod.ts";
import { SMALL_GRID } from "../../fixtures/sim.ts";
import { onDevice } from "../../support/on_device.ts";

const H200 = cudaCaps({ arch: "sm_90" });
/** The devices of these tests by ordinal: an H200, and grids with less and less to share. */
const GRIDS: readonly Capabilities[] = [
  H200,
  ...[102400, 49152, 16384].map((sharedBytes) => ({
    ...H200,
    grid: { ...H200.grid!, sharedBytes },
  })),
  { ...H200, maxBuffers: 8, grid: { ...H200.grid!, ...SMALL_GRID } },
];

const seen: LinearProgram[] = [];
const backend: Backend = {
  name: "NULL",
  description: "compiles for grids, launches nothing",
  permissions: [],
  unavailable: () => undefined,
  textLanguage: "CUDA C",
  open: (ordinal) => {
    const inner = new CudaRenderer(GRIDS[ordinal], 90);
    const renderer: Renderer = {
      name: inner.name,
      caps: inner.caps,
      render: (program) => {
        seen.push(program);
        return inner.render(program);
      },
    };
    return makeNullDevice(renderer, ordinal === 0 ? "NULL" : `NULL:${ordinal}`);
  },
};
registerBackend(backend);

const PROGRAMS: Record<string, (t: (shape: number[]) => Tensor) => Tensor[]> = {
  "the gradients of a convolution": (t) => {
    const x = t([64, 128, 28, 28]), w = t([128, 128, 3, 3]), g = t([64, 128, 28, 28]);
    return x.conv2d(w, undefined, { padding: 1 }).mul(g).sum().gradient([x, w]);
  },
  "a convolution with a stride": (t) => [t([8, 64, 56, 56]).conv2d(t([128, 64, 3, 3]), undefined, { stride: 2 })],
  "the gradients of a transposed convolution": (t) => {
    const x = t([4, 64, 14, 14]), w = t([64, 64, 4, 4]);
    return x.convTranspose2d(w, undefined, { stride: 2, padding: 1 }).square().sum().gradient([x, w]);
  },
  "a product": (t) => [t([512, 1024]).matmul(t([1024, 512]))],
  "a product of transposed ones": (t) => [t([1024, 520]).T.matmul(t([300, 1024]).T)],
  attention: (t) => [t([2, 8, 256, 64]).scaledDotProductAttention(t([2, 8, 256, 64]), t([2, 8, 256, 64]))],
};

GRIDS.forEach((caps, ordinal) => {
  const device = ordinal === 0 ? "NULL" : `NULL:${ordinal}`, { sharedBytes } = caps.grid!;
  Deno.test(`limits: kernels for ${sharedBytes} bytes of shared memory, ${caps.maxBuffers} buffers`, () => {
    onDevice(device, () => {
      for (const [name, program] of Object.entries(PROGRAMS)) {
        for (const dtype of ["float16", "bfloat16", "float32"] as const) {
          seen.length = 0;
          Tensor.realize(program((shape) => Tensor.empty(shape, { dtype, requiresGrad: true })));
          assert(seen.length > 0);
          for (const p of seen) assertEquals(excessOf(p, caps), undefined, `${name} in ${dtype}: ${p.name} ${p.opts}`);
        }
      }
    });
  });
});

/** The rings of a product of `n` x `n` matrices, four and three tiles deep where `room` is enough. */
function ringsOf(dtype: DType, room: { sharedBytes: number; sharedItem?: (d: DType) => number }): string {
  const n = 256;
  const i = range(n, 0, AxisKind.LOOP), j = range(n, 1, AxisKind.LOOP), k = range(n, 2, AxisKind.REDUCE);
  const at = (slot: number, x: UOp, y: UOp): UOp => load(index(param(slot, dtype, n * n), x.mul(n).add(y)));
  const sum = reduce(opCarrier(Ops.ADD, dtype), [at(1, i, k).mul(at(2, k, j))], [k]);
  const kernel = new Kernel(sink([store(index(param(0, dtype, n * n), i.mul(n).add(j)), sum)]), true);
  kernel.apply({ op: "LOCAL", axis: 0, size: 16 }).apply({ op: "LOCAL", axis: 1, size: 16 });
  kernel.apply({ op: "UNROLL", reduce: 0, size: 16 });
  kernel.apply({ op: "STAGE", input: 1, ring: 4 }).apply({ op: "STAGE", input: 2, ring: 3 }).finish(room);
  return kernel.applied.flatMap((o) => o.op === "STAGE" ? [o.ring] : []).join(" ");
}

Deno.test("limits: rings are given up before tiles", () => {
  // a tile of 16 x 16, each row with 16 bytes that are not used
  const tile = 16 * (16 + 4) * 4;
  for (const [tiles, want] of [[7, "4 3"], [6, "3 3"], [3, "1 1"], [1, ""]] as const) {
    assertEquals(ringsOf(dtypes.float32, { sharedBytes: tiles * tile }), want, `${tiles} tiles`);
  }
  // integers of eight bits take a word each where WGSL shares them
  const bytes = 16 * (16 + 16), { sharedItem } = webGpuCaps(DEFAULT_LIMITS, true, false).grid!;
  assertEquals(ringsOf(dtypes.uint8, { sharedBytes: 7 * bytes }), "4 3");
  assertEquals(ringsOf(dtypes.uint8, { sharedBytes: 7 * bytes, sharedItem }), "");
  assertEquals(ringsOf(dtypes.uint8, { sharedBytes: 7 * 4 * bytes, sharedItem }), "4 3");
});

Deno.test("limits: what has fewer bits than a word is a word where WGSL shares it", () => {
  const grid = webGpuCaps(DEFAULT_LIMITS, true, false).grid!, plain = { ...grid, sharedItem: undefined };
  for (
    const [dtype, each] of [[dtypes.bool, 4], [dtypes.uint8, 4], [dtypes.int16, 4], [dtypes.float16, 2], [
      dtypes.float32,
      4,
    ], [
      dtypes.int64,
      8,
    ]] as const
  ) {
    const memory = uop(Ops.LOCAL, dtype, [], new LocalArg(0, 4096, "shared"));
    const program = { uops: [memory], params: [], grid: { size: [1, 1, 1] } } as unknown as LinearProgram;
    assertEquals(sharedBytesOf(program, grid), 4096 * each, dtype.name);
    assertEquals(sharedBytesOf(program, plain), 4096 * dtype.itemsize, dtype.name);
    assertEquals(excessOf(program, { ...H200, grid }) === undefined, each < 8, dtype.name);
  }
  assertEquals(webGpuCaps(DEFAULT_LIMITS, false, false).grid!.sharedItem!(dtypes.float16), 4);
});

Deno.test("limits: a kernel given as text is held to them by name, before it is compiled", () => {
  const text = { NULL: 'extern "C" __global__ void mine(float *out) { out[0] = 1; }' };
  const run = (threads: number) =>
    Tensor.empty([4], { device: "NULL" }).customKernel([], { name: "mine", text, threads: [threads] })[0].realize();
  run(1024);
  const error = assertThrows(() => run(2048), DeviceError);
  assertMatch(error.message, /^Cannot compile kernel mine: its groups have 2048 threads, and a group may have 1024$/);
});
