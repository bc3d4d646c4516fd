/**
 * Collectives beside kernels: where each starts and where it is waited for, by the graph alone; what it uses is left alone
 * meanwhile. The engine of one process moves data when it is waited for, so that all other tests of shards see values that
 * were read too early.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import type { Work } from "../../src/collectives/communicator.ts";
import { LocalCommunicator } from "../../src/collectives/local.ts";
import { Mesh } from "../../src/dist/dist.ts";
import { lastBeside, waitsOf } from "../../src/schedule/order/under_way.ts";

Device.default = "JS";
const mesh = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });

/** A collective, and the kernels that had run when it was started and when it was waited for. */
interface Seen {
  readonly kind: string;
  readonly started: number;
  joined: number;
}

/** The collectives that `body` runs. */
function watched(body: () => void): Seen[] {
  const seen: Seen[] = [], { start } = LocalCommunicator.prototype;
  LocalCommunicator.prototype.start = function (...args): Work {
    const work = start.apply(this, args),
      own: Seen = { kind: args[0].kind, started: GlobalCounters.kernelCount, joined: -1 };
    seen.push(own);
    return {
      isDone: () => work.isDone(),
      wait: () => work.wait(),
      done: () => work.done(),
      join: () => {
        own.joined = GlobalCounters.kernelCount;
        work.join();
      },
    };
  };
  try {
    body();
  } finally {
    LocalCommunicator.prototype.start = start;
  }
  return seen;
}

/** A step of four layers, placed as `how` says. */
function stepOf(how: Parameters<typeof state.place>[2], width = 8): () => Tensor {
  Tensor.manualSeed(2);
  const layers = [0, 1, 2, 3].map(() => new nn.Linear(width, width, { bias: width === 8 }));
  state.place(layers, mesh, how);
  const optimizer = new nn.optim.SGD(state.getParameters(layers), { lr: 0.02 });
  const x = Tensor.randn([4, width]).shard(mesh, ["data", null]).realize();
  return () =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layers.reduce((t, l) => l.call(t).tanh(), x).square().mean().backward();
      optimizer.step();
      return loss.realize();
    });
}

for (const captured of [false, true]) {
  Deno.test(`overlap: weights are gathered while the layer before computes${captured ? ", captured" : ""}`, () => {
    const plain = stepOf({ shard: "data" }), step = captured ? jit(plain) : plain;
    for (let i = 0; i < 2; i++) step();
    const seen = watched(step), gathers = seen.filter((s) => s.kind === "allGather");
    assert.ok(gathers.length >= 4 && seen.every((s) => s.joined >= s.started), JSON.stringify(seen));
    const beside = gathers.filter((s) => s.joined > s.started);
    assert.ok(beside.length >= gathers.length / 2, `${beside.length} of ${gathers.length} are beside kernels`);
    const most = Math.max(
      ...seen.map((a) => gathers.filter((b) => b.started <= a.started && a.started < b.joined).length),
    );
    assert.ok(most <= 3, `${most} gathered at a time`);
  });
}

Deno.test("overlap: gradients go while those of the layers before are computed", () => {
  const step = stepOf({ shard: "data", zero: 2 }, 512); // each is more than the first bucket
  step();
  const scatters = watched(step).filter((s) => s.kind === "reduceScatter");
  assert.equal(scatters.length, 4);
  assert.ok(
    scatters[0].joined > scatters[0].started && scatters[0].started < scatters[3].started,
    JSON.stringify(scatters),
  );
});

Deno.test("overlap: small gradients that are divided go as a group", () => {
  const groups: number[] = [], { startGroup } = LocalCommunicator.prototype;
  const step = stepOf({ shard: "data", zero: 2 });
  step();
  LocalCommunicator.prototype.startGroup = function (collective, pairs, site) {
    groups.push(pairs.length);
    return startGroup.call(this, collective, pairs, site);
  };
  try {
    step();
  } finally {
    LocalCommunicator.prototype.startGroup = startGroup;
  }
  assert.deepEqual(groups, [8], "four weights and four biases");
});

/** What is waited for before each step; each reads and writes entries, and moves bytes where a number is given. */
function waits(steps: readonly (readonly [writes: number[], reads: number[], moved?: number])[]): number[][] {
  const has = (a: readonly number[], b: readonly number[]): boolean => a.some((x) => b.includes(x));
  return waitsOf({
    count: steps.length,
    movedBytes: (i) => steps[i][2],
    conflicts: (i, c) => {
      const [writes, reads] = steps[i];
      return has(writes, steps[c][0]) || has(writes, steps[c][1]) || has(reads, steps[c][0]);
    },
  }).map((list) => [...list]);
}

Deno.test("overlap: a collective is waited for where its result is read, or what it uses is written", () => {
  assert.deepEqual(waits([[[1], [0], 8], [[2], [0]], [[3], [1]], [[4], [1]]]), [[], [], [0], [], []]);
  assert.deepEqual(waits([[[1], [0], 8], [[0], []]]), [[], [0], []]);
  assert.deepEqual(waits([[[1], [0], 8], [[1], []]]), [[], [0], []]);
  assert.deepEqual(waits([[[1], [0], 8], [[2], []]]), [[], [], [0]], "at the end");
  assert.deepEqual(waits([[[1], [0], 8], [[2], [1], 8], [[3], [2]]]), [[], [0], [1], []]);
  assert.deepEqual([...lastBeside(waits([[[1], [0], 8], [[2], []], [[3], []], [[4], [1]]]))], [[0, 2]]);
});

Deno.test("overlap: what is under way is bounded in bytes: the oldest is waited for", () => {
  const of = (k: number): [number[], number[], number] => [[2 * k + 1], [2 * k], 20e6];
  assert.deepEqual(waits([0, 1, 2, 3].map(of)), [[], [], [0], [1], [2, 3]]);
});
