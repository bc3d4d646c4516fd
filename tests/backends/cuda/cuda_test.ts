/**
 * The CUDA backend against a driver that records its calls: order of calls, layout of arguments, and that everything is
 * freed. What goes wrong is in cuda_errors_test.ts; what kernels compute is tested on cards, by the suites that run on
 * every device.
 */
import assert from "node:assert/strict";
import type { CudaDevice } from "../../../backends/cuda/cuda_device.ts";
import type { CudaProgram } from "../../../backends/cuda/cuda_launch.ts";
import { nvrtcCounters } from "../../../backends/cuda/nvrtc.ts";
import { DRIVER_SYMBOLS } from "../../../backends/cuda/symbols.ts";
import { LocalCommunicator } from "../../../src/collectives/local.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Launch } from "../../../src/device/program.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { LocalArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, int, load, param, store, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";
import { Random } from "../../support/random.ts";
import {
  addressText,
  buffersOn,
  errorOf,
  fake,
  folder,
  gridProgram,
  launchOf,
  ordered,
  refusesToOpen,
  test,
  withDevice,
} from "./cuda_harness.ts";

const f32 = dtypes.float32;

test("opening asks for no more than it needs, and closing frees it all", async () => {
  await withDevice((device) => {
    assert.deepEqual(fake.calls().filter((name) => name !== "cuDeviceGetAttribute"), [
      ...["cuDriverGetVersion", "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName"],
      ...["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate", "cuEventCreate", "cuMemGetInfo_v2"],
    ]);
    assert.equal(device.name, "CUDA");
    const { caps } = device.renderer, { grid } = caps;
    assert.equal(grid!.units, 132);
    assert.equal(grid!.sharedBytes, 232448);
    assert.equal(grid!.unitShared, 233472);
    assert.deepEqual(grid!.maxGroups, [2147483647, 65535, 65535]);
    assert.equal(caps.l2, 62914560);
    assert.ok(grid!.hasAsyncCopy && grid!.tensorCores.length >= 3);
    const info = device.info();
    assert.equal(info.computeCapability, "9.0");
    assert.equal(info.arch, "sm_90a");
    assert.equal(info.driver, "13.0");
    assert.equal(info.memoryGBs, 4917);
    assert.equal(info.nvrtcVersion, "13.0");
  });
  assert.deepEqual(fake.calls(), [
    ...["cuStreamSynchronize", "cuEventDestroy_v2", "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2"],
  ]);
});

test("every function of the table is in the fake, and is called by the name in the driver", () => {
  const { stdout } = new Deno.Command("nm", { args: ["-D", "--defined-only", fake.path] }).outputSync();
  const exported = new TextDecoder().decode(stdout);
  for (const name of Object.keys(DRIVER_SYMBOLS)) assert.match(exported, new RegExp(` T ${name}\n`));
});

test("a launch: groups, threads, and arguments in one buffer", async () => {
  await withDevice((device) => {
    const linear = gridProgram("E_2_32", int(2)), launch = launchOf(device, linear);
    const [out, a] = launch.buffers;
    fake.log();
    device.run([launch]);
    const line = fake.log().find((l) => l.startsWith("cuLaunchKernel"));
    assert.equal(line, `cuLaunchKernel E_2_32 2,1,1 32,1,1 0 ${addressText(out)}${addressText(a)}`);
    const part = new Buffer(device, f32, 128).view(64, 64);
    device.run([{ ...launch, buffers: [out, part] }]);
    assert.ok(fake.log().some((l) => l.endsWith(addressText(out) + addressText(part))), "views start at their offset");
  });
});

test("a launch: variables follow the buffers, each at a multiple of its size", async () => {
  await withDevice((device) => {
    const n = variable("v0", 1, 8), f = variable("v1", 0, 1, dtypes.float32), big = variable("v2", 0, 1, dtypes.int64);
    const cast = (u: UOp): UOp => uop(Ops.CAST, dtypes.int32, [u]);
    const linear = gridProgram("E_v0_32", n, () => cast(f).add(cast(big)));
    const launch = launchOf(device, linear, [2, 1.5, -2n]);
    assert.deepEqual((launch.program as CudaProgram).layout, { vars: [16, 20, 24], maps: [], nbytes: 32 });
    fake.log();
    device.run([launch, { ...launch, vars: [0, 1.5, -2n] }, { ...launch, vars: [5, 0, 1n] }]);
    const lines = fake.log().filter((l) => l.startsWith("cuLaunchKernel"));
    const head = launch.buffers.map(addressText).join("");
    assert.deepEqual(lines, [
      `cuLaunchKernel E_v0_32 2,1,1 32,1,1 0 ${head}020000000000c03ffeffffffffffffff`,
      `cuLaunchKernel E_v0_32 5,1,1 32,1,1 0 ${head}05000000000000000100000000000000`,
    ], "a launch of no groups is left out");
  });
});

test("a kernel with much shared memory asks for it; every launch gets it", async () => {
  await withDevice((device) => {
    const shared = uop(Ops.LOCAL, f32, [], new LocalArg(0, 16384, "shared"));
    const l = uop(Ops.SPECIAL, dtypes.int32, [int(32)], "lidx0");
    const put = store(index(shared, l), load(index(param(1, f32, 32), l)));
    const wait = uop(Ops.BARRIER, dtypes.void, [put]);
    const back = load(index(uop(Ops.AFTER, f32, [shared, wait]), l));
    const linear = programOf("S_32", ordered([put, wait, store(index(param(0, f32, 32), l), back)]));
    const launch = launchOf(device, linear);
    assert.ok(fake.log().includes("cuFuncSetAttribute S_32 8 65536"));
    device.run([launch]);
    assert.match(fake.log().find((x) => x.startsWith("cuLaunchKernel"))!, /^cuLaunchKernel S_32 1,1,1 32,1,1 65536 /);
  });
});

test("copies go through pinned memory, in order, and large ones in parts", async () => {
  await withDevice(async (device) => {
    const n = 9 * 2 ** 18, bytes = new Uint8Array(4 * n).map((_, i) => i * 7 + (i >> 11)); // 9 MiB
    const buffer = new Buffer(device, f32, n);
    fake.log();
    buffer.copyIn(bytes);
    const written = fake.log().filter((l) => l.startsWith("cuMemcpyHtoD"));
    assert.deepEqual(written, [4194304, 4194304, 1048576].map((b) => `cuMemcpyHtoDAsync_v2 ${b}`));
    assert.deepEqual(buffer.copyOut(new Uint8Array(4 * n)), bytes);
    assert.equal(fake.log().filter((l) => l.startsWith("cuMemcpyDtoH")).length, 3);
    assert.deepEqual(await buffer.copyOutAsync(new Uint8Array(4 * n)), bytes);
    assert.deepEqual(fake.calls().filter((c) => /egister|DtoH|Query/.test(c)), [
      ...["cuMemHostRegister_v2", "cuMemcpyDtoHAsync_v2", "cuEventQuery", "cuMemHostUnregister"],
    ]);
    const small = new Buffer(device, dtypes.uint8, 3);
    for (let i = 0; i < 200; i++) small.copyIn(new Uint8Array([i, i + 1, i + 2]));
    assert.deepEqual([...small.copyOut(new Uint8Array(3))], [199, 200, 201]);
    assert.ok(fake.alive().pinned <= 6);
  });
});

test("where memory cannot be pinned, a large read is synchronous", async () => {
  await withDevice(async (device) => {
    fake.set("noRegister", 1);
    const bytes = new Uint8Array(5 * 2 ** 20).map((_, i) => i % 251),
      buffer = new Buffer(device, dtypes.uint8, bytes.length);
    assert.deepEqual(await buffer.copyIn(bytes).copyOutAsync(new Uint8Array(bytes.length)), bytes);
    assert.ok(!fake.calls().includes("cuEventQuery"));
  });
});

test("an asynchronous read lets others run, and sees no later write", async () => {
  await withDevice(async (device) => {
    const [buffer] = buffersOn(device, 4);
    buffer.copyIn(new Uint8Array(16).fill(1));
    fake.set("late", 1000);
    const reading = buffer.copyOutAsync(new Uint8Array(16));
    buffer.copyIn(new Uint8Array(16).fill(2));
    let ticks = 0;
    const timer = setInterval(() => {
      if (++ticks === 3) fake.set("late", 0);
    }, 1);
    assert.deepEqual(await reading, new Uint8Array(16).fill(1));
    clearInterval(timer);
    assert.ok(ticks >= 3);
    assert.deepEqual(buffer.copyOut(new Uint8Array(16)), new Uint8Array(16).fill(2));
    await device.synchronize();
  });
});

test("many reads at once share pinned memory, and one of them asks at a time", async () => {
  await withDevice(async (device) => {
    const random = new Random(3), sizes = Array.from({ length: 300 }, () => random.int(1, 50_000));
    const blocks = sizes.map((n, i) =>
      new Buffer(device, dtypes.uint8, n).copyIn(new Uint8Array(n).map((_, k) => k * i))
    );
    const before = fake.alive().pinned, total = sizes.reduce((a, b) => a + b);
    fake.set("late", 1e9);
    fake.log();
    const reading = Promise.all(blocks.map((b) => b.copyOutAsync(new Uint8Array(b.nbytes))));
    await new Promise((go) => setTimeout(go, 3));
    assert.equal(new Set(fake.log().filter((l) => l.startsWith("cuEventQuery"))).size, 1);
    assert.ok(fake.alive().pinned <= before + Math.ceil(total / 2 ** 22) + 1, `${fake.alive().pinned}`);
    fake.set("late", 0);
    const got = await reading;
    got.forEach((x, i) => assert.deepEqual(x, new Uint8Array(sizes[i]).map((_, k) => k * i)));
    // and again, mixed with reads of more than a slot
    const large = new Buffer(device, dtypes.uint8, 10 ** 7).copyIn(new Uint8Array(10 ** 7).map((_, k) => k * 7));
    assert.deepEqual(large.copyOut(new Uint8Array(10 ** 7)), new Uint8Array(10 ** 7).map((_, k) => k * 7));
    const again = await Promise.all(blocks.map((b) => b.copyOutAsync(new Uint8Array(b.nbytes))));
    assert.deepEqual(again, got);
    assert.ok(fake.alive().pinned <= 4 + 5);
  });
});

test("copies between two devices wait for both streams, and enable access once", async () => {
  await withDevice((device) => {
    const other = fake.open(1);
    try {
      const a = new Buffer(device, f32, 8).copyIn(new Uint8Array(32).fill(5)), b = new Buffer(other, f32, 8);
      assert.ok(other.allocator.peer(device.allocator));
      fake.log();
      for (let i = 0; i < 2; i++) {
        other.allocator.transfer!(b.memory, b.offset, a.memory, a.offset, a.nbytes, device.allocator);
      }
      const log = fake.log();
      assert.equal(log.filter((l) => l.startsWith("cuCtxEnablePeerAccess")).length, 1);
      assert.equal(log.filter((l) => l === "cuMemcpyPeerAsync 101 100 32").length, 2);
      const at = log.indexOf("cuMemcpyPeerAsync 101 100 32");
      const order = log.filter((l, i) => i <= at + 4 && /Record|WaitEvent|Peer[A]sync/.test(l)).map((l) =>
        l.split(" ")[0]
      );
      assert.deepEqual(order, [
        ...["cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync", "cuEventRecord", "cuStreamWaitEvent"],
      ]);
      assert.deepEqual(b.copyOut(new Uint8Array(32)), new Uint8Array(32).fill(5));
      const twin = new Buffer(device, f32, 8);
      device.allocator.transfer!(twin.memory, 0, a.memory, 0, 32);
      assert.ok(fake.log().some((l) => l.startsWith("cuMemcpyDtoDAsync_v2 32")));
      assert.deepEqual(twin.copyOut(new Uint8Array(32)), new Uint8Array(32).fill(5));
    } finally {
      other.close();
    }
  });
});

test("collectives of cards of one process go from card to card, and are reduced there", async () => {
  await withDevice((device) => {
    const other = fake.open(1), cards = [device, other], reductions: string[] = [];
    try {
      const local = new LocalCommunicator(2, (op, to, parts) => {
        reductions.push(`${op} on ${to.device.name} of ${parts.map((p) => p.device.name)}`);
        to.copyIn(new Uint8Array(to.nbytes).fill(7));
      });
      const ranges = cards.map((d, i) => new Buffer(d, f32, 8).copyIn(new Uint8Array(32).fill(i + 1)));
      const wide = cards.map((d) => new Buffer(d, f32, 16).copyIn(new Uint8Array(64)));
      fake.log();
      local.start({ kind: "allGather" }, ranges, wide).join();
      const gathered = fake.log();
      assert.equal(gathered.filter((l) => l.startsWith("cuMemcpyPeerAsync")).length, 2);
      assert.ok(!gathered.some((l) => /HtoD|DtoH|Synchronize/.test(l)), gathered.join("\n"));
      local.start({ kind: "allReduce", op: "sum" }, ranges, ranges).join();
      const reduced = fake.log();
      assert.deepEqual(reductions, ["sum on CUDA of CUDA,CUDA", "sum on CUDA:1 of CUDA:1,CUDA:1"]);
      assert.equal(reduced.filter((l) => l.startsWith("cuMemcpyPeerAsync")).length, 2);
      assert.ok(!reduced.some((l) => /DtoH|Synchronize/.test(l)), reduced.join("\n"));
      for (const b of ranges) assert.deepEqual(b.copyOut(new Uint8Array(32)), new Uint8Array(32).fill(7));
      for (const b of wide) {
        assert.deepEqual([...b.copyOut(new Uint8Array(64))], [...Array(32).fill(1), ...Array(32).fill(2)]);
      }
    } finally {
      other.close();
    }
  });
});

test("a graph: made once, patched where arguments changed, launched by one call", async () => {
  await withDevice((device) => {
    const n = variable("v0", 1, 8);
    const first = launchOf(device, gridProgram("E_2_32", int(2))),
      buffers = [new Buffer(device, f32, 64), first.buffers[0]];
    const second: Launch = { program: device.compiler.compile([gridProgram("E_v0_32", n)])[0], buffers, vars: [2] };
    const graph = device.graph([first, second]);
    fake.log();
    graph.run();
    const made = fake.log(), [one, two] = made.filter((l) => l.startsWith("cuGraphAddKernelNode"));
    assert.match(one, /^cuGraphAddKernelNode after 0 E_2_32 2,1,1 32,1,1 0 /);
    assert.match(two, /^cuGraphAddKernelNode after [1-9a-f][0-9a-f]* E_v0_32 2,1,1 32,1,1 0 /);
    assert.equal(/after (\w+)/.exec(two)![1], / is (\w+)/.exec(one)![1]);
    assert.deepEqual(made.map((l) => l.split(" ")[0]).filter((x) => /Instantiate|Launch/.test(x)), [
      ...["cuGraphInstantiateWithFlags", "cuGraphLaunch"],
    ]);
    graph.run();
    assert.deepEqual(fake.calls(), ["cuGraphLaunch"], "nothing changed");
    const input = new Buffer(device, f32, 64).copyIn(new Uint8Array(256));
    fake.log();
    graph.setBuffer(0, 1, input);
    graph.setVar(1, 0, 4);
    graph.setVar(1, 0, 4);
    graph.run();
    const node = (line: string): string => / is (\w+)/.exec(line)![1];
    assert.deepEqual(fake.log(), [
      `cuGraphExecKernelNodeSetParams ${node(one)} E_2_32 2,1,1 32,1,1 0 ${addressText(first.buffers[0])}${
        addressText(input)
      }`,
      `cuGraphExecKernelNodeSetParams ${node(two)} E_v0_32 4,1,1 32,1,1 0 ${buffers.map(addressText).join("")}04000000`,
      "cuGraphLaunch",
    ]);
    graph.setVar(1, 0, 0);
    graph.run();
    assert.deepEqual(fake.calls(), ["cuLaunchKernel"], "a node cannot have no groups");
    assert.equal(fake.alive().executables, 1);
    graph.dispose();
    graph.dispose();
    assert.equal(fake.alive().executables, undefined);
    device.graph([first]).run();
    assert.equal(fake.calls().at(-1), "cuLaunchKernel", "one launch needs no graph");
    device.graph([first, second]).run(); // closing destroys it
  });
});

test("equal sources share a module; the last dispose unloads it", async () => {
  await withDevice((device) => {
    const [a, b] = device.compiler.compile([gridProgram("E", int(2)), gridProgram("E", int(2))]);
    assert.equal(fake.alive().modules, 1);
    a.dispose();
    a.dispose();
    assert.equal(fake.alive().modules, 1);
    b.dispose();
    assert.equal(fake.alive().modules, undefined);
    assert.equal(device.compiler.compile([gridProgram("E", int(2))])[0].registers, 40);
  });
});

test("machine code is kept on disk, by source and options", async () => {
  const set = { CACHEDIR: `${folder}/kept` };
  for (const compiled of [1, 0]) {
    await withDevice((device) => {
      const before = nvrtcCounters.compiled;
      device.run([launchOf(device, gridProgram("E_2_32", int(2)))]);
      assert.equal(nvrtcCounters.compiled - before, compiled);
      const log = fake.log();
      assert.ok(log.includes("cuModuleLoadDataEx cubin"));
      if (compiled === 0) return;
      const options = log.find((l) => l.startsWith("nvrtcCompileProgram"));
      assert.match(options!, /--gpu-architecture=sm_90a .*--fmad=false/);
    }, set);
  }
});

test("NVRTC compiles several programs at a time, in threads that end with the device", async () => {
  await withDevice((device) => {
    fake.set("compileMs", 5);
    const { assembler } = device.compiler, text = new TextDecoder();
    for (const round of ["a", "b"]) {
      const sources = Array.from({ length: 60 }, (_, i) => `kernel ${round}${i}`),
        names = sources.map((_, i) => `k${i}`);
      const images = assembler.assemble(sources, names);
      assert.deepEqual(images.map((x) => text.decode(x)), sources.map((s) => `CUBIN ${s}\0`));
      assert.equal(fake.alive().programs, undefined);
      const broken = sources.map((s, i) => `${s}${i % 20 === 9 ? " BROKEN" : ""}!`);
      assert.throws(() => assembler.assemble(broken, names), /compile kernel k9 for CUDA: NVRTC 13.0 says at line 2/);
      // what was compiled beside what is refused is kept
      const before = nvrtcCounters.compiled;
      assembler.assemble(broken.filter((s) => !s.includes("BROKEN")), names);
      assert.equal(nvrtcCounters.compiled, before);
      assert.equal(fake.alive().programs, undefined);
    }
    if (navigator.hardwareConcurrency > 1) assert.ok(fake.mostCompiling() > 1, "one at a time");
  });
});

test("PTX=1 hands PTX to the driver and never opens NVRTC", async () => {
  const before = nvrtcCounters.opened;
  await withDevice((device) => {
    device.run([launchOf(device, gridProgram("E_2_32", int(2)))]);
    assert.ok(fake.log().includes("cuModuleLoadDataEx ptx"));
    assert.equal(device.info().language, "PTX");
    assert.equal(device.info().ptx, "PTX=1");
  }, { PTX: 1 });
  assert.equal(nvrtcCounters.opened, before);
});

test("NVRTC that is of no use is passed over, or refused where NVRTC_PATH names it", () => {
  fake.reset();
  fake.set("nvrtcMajor", 14);
  refusesToOpen(
    `Cannot open NVRTC: NVRTC_PATH names ${fake.path}, which is of no use: ${fake.path}: version 14.0, but the driver ` +
      "supports CUDA 13.0; unset it to look elsewhere, or set PTX=1 to do without",
  );
  fake.reset();
  fake.set("major", 12);
  refusesToOpen(/does not know sm_120; unset it/);
  fake.reset();
  refusesToOpen(
    "Cannot open NVRTC: NVRTC_PATH names /nowhere/libnvrtc.so, which is of no use: there is no such library; unset it " +
      "to look elsewhere, or set PTX=1 to do without",
    0,
    { NVRTC_PATH: "/nowhere/libnvrtc.so" },
  );
});

test("a closed device says so", async () => {
  let closed: CudaDevice | undefined;
  await withDevice((device) => {
    closed = device;
  });
  assert.equal(errorOf(() => closed!.run([])).message, "Cannot use device CUDA: it was closed");
  closed!.close();
});

test("time is that between two events", async () => {
  await withDevice((device) => {
    const launch = launchOf(device, gridProgram("E_2_32", int(2)));
    fake.log();
    assert.equal(device.timeSync(() => device.run([launch])), 1.5);
    assert.deepEqual(fake.calls().filter((c) => /Event|Launch/.test(c)), [
      ...["cuEventRecord", "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"],
    ]);
  });
});

/** The dtype of a variable decides how its value is written. */
test("scalars of every dtype are written in its width", async () => {
  await withDevice((device) => {
    const rows: readonly (readonly [DType, number | bigint, string])[] = [
      [dtypes.bool, 1, "01"],
      [dtypes.int8, -1, "ff"],
      [dtypes.uint16, 65535, "ffff"],
      [dtypes.float16, 1, "003c"],
      [dtypes.uint32, 4294967295, "ffffffff"],
      [dtypes.float64, 1, "000000000000f03f"],
      [dtypes.uint64, (1n << 64n) - 1n, "ffffffffffffffff"],
    ];
    for (const [dtype, value, bytes] of rows) {
      const linear = gridProgram("E", int(1)), v = variable("v0", 0, 1, dtype);
      const program = { ...linear, vars: [v], uops: [v, ...linear.uops] };
      const launch = launchOf(device, program, [value]);
      fake.log();
      device.run([launch]);
      const line = fake.log().find((l) => l.startsWith("cuLaunchKernel"))!;
      assert.equal(line.split(" ").at(-1)!.slice(32), bytes, String(dtype));
    }
  });
});
