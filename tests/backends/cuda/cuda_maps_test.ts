/** Arguments of CUDA kernels that are made of the addresses of buffers: encoded once for each, patched in graphs. */
import assert from "node:assert/strict";
import { layoutOf } from "../../../backends/cuda/cuda_launch.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { DeviceError } from "../../../src/helpers/errors.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { TensorMapArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { int, param, uop } from "../../../src/uop/core/uop.ts";
import { addressText, errorOf, fake, gridProgram, launchOf, ordered, test, withDevice } from "./cuda_harness.ts";

const { bfloat16, uint64 } = dtypes;
const MAP = new TensorMapArg(64, [40, 30], [1, 128], [64, 16]);

/** Where the driver of these tests says that the map is. */
const PLACE = 48;

/** A program that has a map of its second buffer, and does nothing with it. */
function mapped(): LinearProgram {
  const from = param(1, bfloat16, 4096), map = uop(Ops.TENSOR_MAP, uint64, [from], MAP);
  return programOf("mapped", ordered([param(0, bfloat16, 64), map]));
}

test("maps: behind the other arguments, where the assembler has put them", () => {
  const { maps, nbytes, vars } = layoutOf(mapped(), (i) => i * 24);
  assert.deepEqual([vars, maps, nbytes], [[], [48], 48 + 128]);
});

test("maps: encoded once for an address, with that of their first element, and patched in a graph", async () => {
  await withDevice((device) => {
    const launch = launchOf(device, mapped()), other = launchOf(device, gridProgram("E_2_32", int(2)));
    const encoded = (): string[] => fake.log().filter((l) => l.startsWith("cuTensorMap"));
    const argumentsOf = (source: Buffer): string => {
      const view = new Buffer(device, bfloat16, 1, source, source.offset + 128);
      const padding = "0".repeat(2 * (PLACE - 16));
      return addressText(launch.buffers[0]) + addressText(source) + padding + addressText(view).repeat(16);
    };
    fake.log();
    device.run([launch]);
    const log = fake.log();
    assert.deepEqual(log.filter((l) => l.startsWith("cuTensorMap")), [
      "cuTensorMapEncodeTiled type 1 rank 2 40x30 by 256 in 64x16 by 1,1 as 0,3,3,0",
    ]);
    assert.ok(log.at(-1)!.endsWith(` ${argumentsOf(launch.buffers[1])}`), log.at(-1));
    device.run([other, launch]);
    assert.deepEqual(encoded(), [], "it is known");
    const graph = device.graph([launch, other]), input = new Buffer(device, bfloat16, 4096);
    input.copyIn(new Uint8Array(8192));
    graph.run();
    assert.deepEqual(encoded(), []);
    graph.setBuffer(0, 1, input);
    graph.run();
    const patched = fake.log();
    assert.equal(patched.filter((l) => l.startsWith("cuTensorMap")).length, 1);
    assert.ok(patched.find((l) => l.startsWith("cuGraphExecKernelNodeSetParams"))!.endsWith(argumentsOf(input)));
  });
});

test("maps: what the driver refuses is an error that names buffer and kernel", async () => {
  await withDevice((device) => {
    const launch = launchOf(device, mapped());
    fake.fail("cuTensorMapEncodeTiled", 1);
    const error = errorOf(() => device.run([launch]));
    assert.ok(error instanceof DeviceError);
    assert.match(
      error.message,
      /describe buffer 1 of kernel mapped \(bfloat16, 64 of 40 by 1, 16 of 30 by 128 at 64\)/,
    );
  });
});

test("maps: a card of Hopper whose driver has them says what brings its tiles", async () => {
  for (const [TMA, copies] of [[1, "TMA"], [0, "cp.async"]] as const) {
    await withDevice(
      (device) => {
        assert.equal(device.info().tileCopies, copies);
        assert.equal(device.renderer.caps.grid!.copyEngine !== undefined, TMA === 1);
      },
      { TMA },
      () => fake.set("major", 9),
    );
  }
});
