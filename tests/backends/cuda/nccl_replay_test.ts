/**
 * Replays of steps with collectives, of one rank of two on the driver that records its calls, with a library whose other
 * rank does the same: what is captured into graphs, what stands between them, what is counted, and what ranks compare.
 */
import assert from "node:assert/strict";
import type { CudaDevice } from "../../../backends/cuda/cuda_device.ts";
import { ID_BYTES } from "../../../backends/cuda/nccl/nccl_library.ts";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../../../mod.ts";
import { world } from "../../../src/collectives/engines.ts";
import { setSelfTest } from "../../../src/device/device.ts";
import { processes } from "../../../src/device/group.ts";
import { Mesh } from "../../../src/dist/dist.ts";
import { context } from "../../../src/helpers/env.ts";
import { canFake } from "./cuda_fake.ts";
import { fake, folder, test } from "./cuda_harness.ts";
import { FakeNccl } from "./fake_nccl.ts";

const nccl = new FakeNccl(fake);
nccl.mirrors = true;
let mesh: Mesh;
if (canFake) {
  const place = { rank: 0, size: 2, device: "CUDA" }, { symbols } = nccl;
  const set = {
    CUDA_DRIVER_PATH: `${folder}/libfake.so`,
    NVRTC_PATH: `${folder}/libfake.so`,
    CACHEDIR: `${folder}/cache`,
  };
  setSelfTest(() => undefined); // its kernels compute nothing
  const device = context(set, () => Device.get("CUDA")) as unknown as CudaDevice;
  processes.place = place;
  world.communicator = device.join({ ...place, id: new Uint8Array(ID_BYTES), timeoutMs: 5000 }, symbols);
  for (let i = 0; i < 16; i++) world.communicator.agree("what comes", "").wait(); // from here on graphs compare
  Device.default = "CUDA";
  mesh = Mesh.of({ data: 2 });
}

/** A step of three layers, placed as `how` says. */
function stepOf(how?: Parameters<typeof state.place>[2]): () => Tensor {
  const layers = [0, 1, 2].map(() => new nn.Linear(8, 8));
  state.place(layers, mesh, how);
  const optimizer = new nn.optim.SGD(state.getParameters(layers), { lr: 0.02 });
  const x = Tensor.ones([4, 8]).contiguous().shard(mesh, ["data", null]).realize();
  return jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layers.reduce((t, l) => l.call(t).tanh(), x).square().mean().backward();
      optimizer.step();
      return loss.realize();
    })
  );
}

/** What a call runs. */
function heard(
  call: () => void,
): { readonly driver: string[]; readonly collectives: string[]; readonly counted: number[] } {
  GlobalCounters.reset();
  fake.log();
  nccl.log.length = 0;
  call();
  const calls = fake.log().map((l) => l.split(" ")[0]).filter((l) => /Capture$|Capture_v2$|Launch/.test(l));
  const [compared, ...driver] = calls;
  assert.equal(compared, "cuGraphLaunch", "what ranks compare");
  const { kernelCount, copyCount, collectiveCount, collectiveBytes } = GlobalCounters;
  const collectives = nccl.log.filter((l) => /^(all|reduce)/.test(l)).map((l) => l.split(" ")[0]);
  return { driver, collectives, counted: [kernelCount, copyCount, collectiveCount, collectiveBytes] };
}

const HOWS: readonly (readonly [string, Parameters<typeof state.place>[2]])[] = [
  ["with gradients added up", undefined],
  ["divided", { shard: "data" } as Parameters<typeof state.place>[2]],
];
for (const [name, how] of HOWS) {
  test(`a replayed step, ${name}, is one graph with its collectives, and counts them`, () => {
    const step = stepOf(how);
    step(), step();
    const first = heard(step); // captured, and run
    const again = heard(step), third = heard(step);
    assert.deepEqual(again.driver, ["cuGraphLaunch"], "one call");
    assert.deepEqual(third, again);
    assert.deepEqual(again.collectives, []);
    assert.ok(
      first.collectives.length > 0 && first.driver.includes("cuStreamBeginCapture_v2"),
      `${first.driver}`,
    );
    assert.deepEqual(again.counted, first.counted);
    assert.ok(again.counted.every((n) => n > 0), `${again.counted}`);
    const singly = context({ JIT: 2 }, () => heard(step));
    assert.ok(!singly.driver.includes("cuGraphLaunch") && singly.collectives.length > 0);
    assert.deepEqual(singly.counted, again.counted);
  });
}

for (const [rows, isInside] of [[4, true], [2 ** 22, false]] as const) {
  test(`a collective on ${rows} rows that each call brings ${isInside ? "is copied into the graph" : "stands between graphs"}`, () => {
    const f = jit((x: Tensor) =>
      [x.reshard(mesh, [null, null]), x.sum(0).reshard(mesh, [null])].map((y) => y.realize())
    );
    const of = (): Tensor => Tensor.ones([rows, 8]).contiguous().shard(mesh, ["data", null]).realize();
    const calls = [of(), of(), of(), of()].map((x) => heard(() => f(x)));
    assert.deepEqual(calls[3].collectives, isInside ? [] : ["allGather"]);
    assert.equal(calls.some(({ driver }) => driver.includes("cuStreamBeginCapture_v2")), true);
    assert.deepEqual(calls[3].counted.slice(1), calls[0].counted.slice(1));
  });
}

test("the first run of steps is compared before anything of it, later ones beside it", () => {
  const step = stepOf();
  /** Whether the end of the comparison is asked for before anything else is queued. */
  const waits = (): boolean => {
    fake.log();
    step();
    const calls = fake.log().map((l) => l.split(" ")[0]), compared = calls.indexOf("cuGraphLaunch");
    const next = calls.findIndex((c, i) => i > compared && /Launch/.test(c)),
      asked = calls.indexOf("cuEventQuery", compared);
    assert.ok(compared >= 0 && next > compared);
    return asked > compared && asked < next;
  };
  step(), step();
  assert.deepEqual([waits(), waits(), waits()], [true, false, false], "made ready, then again");
});
