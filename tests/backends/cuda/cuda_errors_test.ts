/** What errors of the CUDA backend say, on a driver that fails as it is told to. */
import assert from "node:assert/strict";
import { cudaBackend } from "../../../backends/cuda/cuda.ts";
import { resultText } from "../../../backends/cuda/results.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { CompileError, DeviceError, OutOfMemoryError } from "../../../src/helpers/errors.ts";
import { int } from "../../../src/uop/core/uop.ts";
import { runDeno } from "../../system/subprocess.ts";
import { buildFake } from "./cuda_fake.ts";
import {
  buffersOn,
  errorOf,
  fake,
  folder,
  gridProgram,
  launchOf,
  refusesToOpen,
  test,
  withDevice,
} from "./cuda_harness.ts";

const f32 = dtypes.float32;

test("errors: no driver, a driver that is too old, no device, an ordinal out of range, an old card", () => {
  fake.reset();
  refusesToOpen(
    /^Cannot open device CUDA: the driver that CUDA_DRIVER_PATH names cannot be opened: \/nowhere\/libcuda.so.1: /,
    0,
    { CUDA_DRIVER_PATH: "/nowhere/libcuda.so.1" },
  );
  const old = `${folder}/libold.so`;
  buildFake(old, "-DOLD");
  refusesToOpen(
    "Cannot open device CUDA: the NVIDIA driver is too old: it has no cuGraphInstantiateWithFlags; update it to 470 or " +
      "newer (CUDA 11.4)",
    0,
    { CUDA_DRIVER_PATH: old },
  );
  fake.set("version", 11020);
  refusesToOpen(
    "Cannot open device CUDA: the NVIDIA driver is too old: it supports CUDA 11.2; update it to 470 or newer (CUDA 11.4)",
  );
  fake.reset();
  fake.fail("cuInit", 100);
  refusesToOpen(/^Cannot open device CUDA: CUDA_ERROR_NO_DEVICE \(100\): the driver sees no device; check nvidia-smi/);
  fake.reset();
  refusesToOpen("Cannot open device CUDA:7: the driver sees 2 devices, CUDA to CUDA:1", 7);
  fake.set("major", 6);
  refusesToOpen("Cannot open device CUDA: Fake 0 has compute capability 6; 7.0 or newer is needed");
  fake.reset();
  fake.fail("cuStreamCreate", 46);
  refusesToOpen(/^Cannot open device CUDA: CUDA_ERROR_DEVICE_UNAVAILABLE \(46\): another process has the device/);
});

test("errors: unavailable says why, and is asked once", () => {
  fake.reset();
  const ask = (path: string): string | undefined =>
    context({ CUDA_DRIVER_PATH: path }, () => cudaBackend.unavailable());
  assert.match(ask("/nowhere/a.so")!, /^the driver that CUDA_DRIVER_PATH names cannot be opened: /);
  // no driver, or one that is given no card
  if (ask("") !== undefined) {
    assert.match(
      ask("")!,
      /no NVIDIA driver was found \(libcuda.so.1\); install one|NVIDIA|sees no device; check nvidia-smi/,
    );
  }
});

test("errors: a process without the permission names it", async () => {
  const mod = JSON.stringify(new URL("../../../mod.ts", import.meta.url).href);
  const program =
    `import { Tensor } from ${mod}; try { new Tensor([1]).realize() } catch (e) { console.log(String(e)) }`;
  const url = `data:application/typescript,${encodeURIComponent(program)}`;
  const args = ["run", "--no-prompt", "--no-check", "--allow-env", url];
  const { stdout } = await runDeno(args, { env: { DEV: "CUDA", CUDA_DRIVER_PATH: fake.path } });
  assert.match(stdout, /^DeviceError: Cannot open device CUDA: it needs --allow-ffi; available here: WASM/);
});

test("errors: out of memory has the table of holders", async () => {
  await withDevice((device) => {
    const [held] = buffersOn(device, 1000);
    held.shape = [10, 100];
    fake.set("freeBytes", 100_000);
    const error = errorOf(() => new Buffer(device, f32, 2 ** 28).memory) as OutOfMemoryError;
    assert.ok(error instanceof OutOfMemoryError);
    assert.match(
      error.message,
      /^Cannot allocate 1073741824 bytes on CUDA: the device has 100 kB free of 17.2 GB; 4.00 kB are held in 1 blocks; the largest of them:\n.*float32 +\[10, 100\]/,
    );
    assert.equal(error.holders[0], held);
    // what was kept for reuse is given back before that is said
    fake.set("freeBytes", 2 ** 30);
    new Buffer(device, f32, 64).copyIn(new Uint8Array(256)).free();
    fake.fail("cuMemAlloc_v2", 2);
    fake.log();
    assert.ok(new Buffer(device, f32, 128).memory);
    const calls = fake.calls().filter((c) => c.startsWith("cuMem"));
    assert.deepEqual(calls, ["cuMemAlloc_v2", "cuMemGetInfo_v2", "cuMemFree_v2", "cuMemAlloc_v2"]);
  });
});

test("errors: an illegal address names the kernel and its shapes; later calls say that the device was lost", async () => {
  await withDevice(async (device) => {
    const launch = launchOf(device, gridProgram("E_2_32", int(2)));
    device.run([launch]);
    fake.fail("cuEventSynchronize", 700);
    const first = errorOf(() => launch.buffers[0].copyOut(new Uint8Array(256)));
    assert.ok(first instanceof DeviceError);
    assert.equal(
      first.message,
      "Cannot run kernel E_2_32 (float32[64], float32[64]) on CUDA: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel read or " +
        "wrote outside of its buffers; restart the process: it cannot use the device any more",
    );
    const later =
      "Cannot use device CUDA: it was lost earlier, when it could not run kernel E_2_32 (float32[64], float32[64]) on " +
      "CUDA: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel read or wrote outside of its buffers; restart the process";
    for (
      const act of [
        () => device.run([launch]),
        () => launch.buffers[0].copyOut(new Uint8Array(256)),
        () => launch.buffers[0].copyIn(new Uint8Array(256)),
        () => new Buffer(device, f32, 1).memory,
        () => device.compiler.compile([gridProgram("other", int(1))]),
        () => device.graph([launch, launch]).run(),
      ]
    ) assert.equal(errorOf(act).message, later);
    await assert.rejects(launch.buffers[0].copyOutAsync(new Uint8Array(256)), { message: later });
    await assert.rejects(device.synchronize(), { message: later });
    launch.buffers[0].free(); // harmless
    launch.buffers[0].free(false);
  }).catch((error) => {
    // the driver takes nothing back from a context that is lost: the end of the process does
    assert.match(error.message, /all is freed on close/);
  });
  assert.equal(fake.alive().contexts, undefined, "the context is released all the same");
});

test("errors: a failure after several launches names those that may have made it", async () => {
  await withDevice((device) => {
    const launches = ["a", "b", "c"].map((name) => launchOf(device, gridProgram(name, int(1))));
    device.run(launches);
    fake.fail("cuEventRecord", 719);
    assert.match(
      errorOf(() => launches[0].buffers[0].copyOut(new Uint8Array(4))).message,
      /^Cannot run one of c \(float32\[64\], float32\[64\]\), b \(.*\), a \(.*\), on CUDA: CUDA_ERROR_LAUNCH_FAILED \(719\): a kernel failed; DEBUG=2 waits for each kernel and so names the one; restart the process/,
    );
  }).catch((error) => assert.match(error.message, /all is freed on close/));
});

test("errors: a launch that is refused names its sizes, and the device lives on", async () => {
  await withDevice((device) => {
    const launch = launchOf(device, gridProgram("E_2_32", int(2)));
    fake.fail("cuLaunchKernel", 701);
    assert.match(
      errorOf(() => device.run([launch])).message,
      /^Cannot launch kernel E_2_32 \(float32\[64\], float32\[64\]\) as 2x1x1 groups of 32x1x1 threads, 0 bytes of shared memory on CUDA: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES \(701\): a kernel needs more registers/,
    );
    device.run([launch]);
    const graph = device.graph([launch, launch]);
    fake.fail("cuGraphInstantiateWithFlags", 2);
    assert.match(
      errorOf(() => graph.run()).message,
      /^Cannot prepare a graph of 2 kernels on CUDA: CUDA_ERROR_OUT_OF_/,
    );
    graph.run();
  });
});

for (const [PTX, tool] of [[0, "NVRTC 13.0"], [1, "the driver's assembler (CUDA 13.0)"]] as const) {
  test(`errors: a source that is refused (PTX=${PTX}): kernel, line and log`, async () => {
    await withDevice((device) => {
      const error = errorOf(() => device.compiler.compile([gridProgram("BROKEN", int(1))])) as CompileError;
      assert.ok(error instanceof CompileError, error.stack);
      assert.ok(error.message.startsWith(`Cannot compile kernel BROKEN for CUDA: ${tool} says at line 2: `));
      assert.match(error.message, /BROKEN/);
      assert.match(error.log, /error/);
      assert.match(error.source, /BROKEN/);
      device.compiler.compile([gridProgram("sound", int(1))]);
    }, { PTX });
  });
}

test("errors: a driver that is too old for the PTX says both versions", async () => {
  await withDevice((device) => {
    const make = (name: string) => device.compiler.compile([gridProgram(name, int(1))]);
    fake.fail("cuModuleLoadDataEx", 222);
    assert.match(
      errorOf(() => make("k")).message,
      /^Cannot load kernel k on CUDA: CUDA_ERROR_UNSUPPORTED_PTX_VERSION \(222\): the driver is too old for this version of PTX; update it; the kernel is PTX \d\.\d, the driver supports CUDA 13.0$/,
    );
    fake.fail("cuModuleGetFunction", 500);
    assert.match(errorOf(() => make("k")).message, /^Cannot find kernel k in its module on CUDA: CUDA_ERROR_NOT_FOUND/);
    make("k");
  }, { PTX: 1 });
});

test("errors: every code has its name, the common ones a cause", () => {
  assert.equal(resultText(716).slice(0, 37), "CUDA_ERROR_MISALIGNED_ADDRESS (716): ");
  assert.equal(resultText(403), "CUDA error 403");
  assert.equal(resultText(912), "CUDA_ERROR_INVALID_CLUSTER_SIZE (912)");
});
