/**
 * Gradients of several parameters as one collective: next to each other in memory, without a copy, in an order that the graph
 * alone decides; values are those of one collective each.
 */
import assert from "node:assert/strict";
import { context, Device, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import { Mesh } from "../../src/dist/dist.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { bringTogether, joinCollectives } from "../../src/schedule/order/join_collectives.ts";
import type { Node } from "../../src/schedule/order/kernel_graph.ts";
import { versionKey } from "../../src/schedule/order/kernel_graph.ts";
import { planMemory } from "../../src/schedule/order/memory_plan.ts";
import type { EntryInfo, TemplateItem } from "../../src/schedule/order/template.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { listenToNotes, type Note } from "../../src/uop/core/notes.ts";
import { constant } from "../../src/uop/core/uop.ts";
import { CollectiveArg, MeshShape } from "../../src/uop/core/sharding.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"], mesh = Mesh.of({ data: 4 }, { devices });

/** Losses of four steps of three layers, the collectives of the last, and its copies. */
async function train(
  captured: boolean,
): Promise<{ losses: number[]; collectives: number; nbytes: number; copies: number }> {
  Tensor.manualSeed(2);
  const layers = [new nn.Linear(6, 10), new nn.Linear(10, 10), new nn.Linear(10, 3)];
  state.place(layers, mesh);
  const optimizer = new nn.optim.Adam(state.getParameters(layers), { lr: 0.02 });
  const rows = (t: Tensor) => t.shard(mesh, t.shape.map((_, i) => i === 0 ? "data" : null)).realize();
  const x = rows(Tensor.randn([8, 6]).realize()), y = rows(Tensor.randint([8], { high: 3 }).realize());
  const step = (x: Tensor, y: Tensor): Tensor =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layers.reduce((t, l) => l.call(t).tanh(), x).crossEntropy(y).backward();
      optimizer.step();
      return loss;
    });
  const run = captured ? jit(step) : step, losses: number[] = [];
  let collectives = 0, nbytes = 0, copies = 0;
  for (let i = 0; i < 4; i++) {
    const before = [GlobalCounters.collectiveCount, GlobalCounters.collectiveBytes, GlobalCounters.copiedBytes];
    const loss = run(x, y);
    [collectives, nbytes, copies] = [
      GlobalCounters.collectiveCount,
      GlobalCounters.collectiveBytes,
      GlobalCounters.copiedBytes,
    ]
      .map((n, k) => n - before[k]);
    losses.push(await loss.item() as number);
  }
  return { losses, collectives, nbytes, copies };
}

for (const captured of [false, true]) {
  Deno.test(`buckets: six gradients go as one collective${captured ? ", captured" : ""}`, async () => {
    const got = await train(captured), apart = await context({ NO_MEMORY_PLANNER: 1 }, () => train(captured));
    // the gradients, and the loss, which is kept
    assert.equal(got.collectives, 2);
    assert.equal(got.copies, 0);
    assert.equal(apart.collectives, 7, "memory of its own for each temporary: each goes alone");
    assert.deepEqual(got.losses, apart.losses);
    // each of the gradients begins at a multiple of 256 bytes
    const floats = [60, 10, 100, 10, 30, 3], most = 4 * (4 + floats.reduce((n, k) => n + Math.ceil(k / 64) * 256, 0));
    assert.ok(got.nbytes >= 4 * 4 * 214 && got.nbytes <= most, `${got.nbytes} bytes`);
  });
}

const shape = new MeshShape(["data", "model"], [2, 2], "JS");
/** A step on entries: the op and the axis of a collective, or a kernel. */
function node(writes: number[], reads: number[], axis?: string): Node {
  const collective = axis === undefined ? undefined : new CollectiveArg("allReduce", shape, [axis], Ops.ADD);
  const step = collective &&
    { kind: "collective", device: "JS", entries: [...writes, ...reads], ast: undefined, vars: [], at: 0 };
  return {
    device: "JS",
    step: step === undefined ? undefined : { ...step, collective } as TemplateItem,
    reads: new Set(reads.map((e) => versionKey(e, 1))),
    writes: writes.map((e) => versionKey(e, 1)),
    stores: [],
    slots: { entries: [] } as never,
    roots: [],
    line: undefined,
    at: undefined,
  };
}
function infos(count: number, size: (e: number) => number = () => 8): EntryInfo[] {
  return Array.from({ length: count }, (_, e) => (
    { device: "JS", dtype: dtypes.float32, size: size(e), slot: undefined, versions: 1, kept: false, view: undefined }
  ));
}
/** What each node writes, in order. */
const text = (nodes: readonly Node[]): string =>
  nodes.map((n) =>
    (n.step === undefined ? "" : "*") + [...n.writes]
      .map((w) => w - versionKey(0, 1)).map((w) => w / (versionKey(1, 1) - versionKey(0, 1)))
  ).join(" ");

Deno.test("collectives: among the ranks of an axis of one there are none", async () => {
  const thin = Mesh.of({ data: 4, model: 1 }, { devices }), x = Tensor.arange(48).reshape([8, 6]).float();
  const before = GlobalCounters.collectiveCount, shared = x.shard(thin, [null, "model"]);
  assert.equal(await shared.sum(1).mul(2).reshard(thin, [null]).sum().item(), 2 * 47 * 24);
  assert.deepEqual(await shared.reshard(thin, ["model", null]).cumsum(1).at(1).tolist(), [6, 13, 21, 30, 40, 51]);
  assert.equal(GlobalCounters.collectiveCount, before);
  state.place(new nn.Linear(8, 4), thin, { shard: "model" });
  assert.equal(GlobalCounters.collectiveCount, before);
});

Deno.test("buckets: collectives wait for those that may go with them, and readers for both", () => {
  // 0 -> *1 -> 2 (an update); 3 -> *4 -> 5
  const nodes = [
    node([0], []),
    node([1], [0], "data"),
    node([2], [1]),
    node([3], []),
    node([4], [3], "data"),
    node([5], [4]),
  ];
  assert.equal(text(bringTogether(nodes, infos(6))), "0 3 *1 *4 2 5");
  const chained = [node([0], []), node([1], [0], "data"), node([2], [1]), node([3], [2], "data")];
  assert.equal(text(bringTogether(chained, infos(4))), "0 *1 2 *3", "one that needs the other's result cannot");
  const axes = [node([0], []), node([1], [0], "data"), node([2], [0]), node([3], [2], "model")];
  assert.equal(bringTogether(axes, infos(4)), axes, "other ranks");
});

Deno.test("buckets: gradients wait while the way back needs collectives of its own, and are computed meanwhile", () => {
  // way back: 0 *1(model) 2 *3(model) 4; gradients: 5 from 0, *6(data); 7 from 2, *8(data); updates 9, 10
  const nodes = [
    node([0], []),
    node([5], [0]),
    node([6], [5], "data"),
    node([9], [6]),
    node([1], [0], "model"),
    node([2], [1]),
    node([7], [2]),
    node([8], [7], "data"),
    node([10], [8]),
    node([3], [2], "model"),
    node([4], [3]),
  ];
  assert.equal(text(bringTogether(nodes, infos(11))), "0 *1 5 2 *3 7 *6 *8 9 10 4");
});

Deno.test("buckets: gradients are computed as soon as they can be, so that they go beside the rest of the way back", () => {
  // way back: 0 1 2; gradients: 3 from 0, *4; 5 from 1, *6; updates 7, 8
  const nodes = [
    node([0], []),
    node([1], [0]),
    node([2], [1]),
    node([3], [0]),
    node([4], [3], "data"),
    node([5], [1]),
    node([6], [5], "model"),
    node([7], [4]),
    node([8], [6]),
  ];
  assert.equal(text(bringTogether(nodes, infos(9))), "0 3 *4 1 5 *6 2 7 8");
});

Deno.test("buckets: they end at their size, the first one early", () => {
  // six gradients of 400 kB: three are more than a megabyte
  const nodes: Node[] = [];
  for (let i = 0; i < 6; i++) nodes.push(node([2 * i], []), node([2 * i + 1], [2 * i], "data"));
  const made = bringTogether(nodes, infos(12, () => 100_000));
  assert.equal(text(made), "0 2 4 *1 *3 *5 6 8 10 *7 *9 *11");
  const items = joinCollectives(
    made.map((n) => n.step ?? { kind: "kernel", entries: [] } as never),
    infos(12, () => 100_000),
  );
  assert.deepEqual(items.filter((i) => i.kind === "collective").map((i) => i.entries), [[1, 3, 5, 0, 2, 4], [
    7,
    9,
    11,
    6,
    8,
    10,
  ]]);
});

/** What is noted where collectives are joined. */
async function notesOf(fn: () => unknown): Promise<[kind: string, text: string, numbers: Record<string, number>][]> {
  const heard: Note[] = [], stop = listenToNotes((n) => heard.push(n));
  try {
    await fn();
  } finally {
    stop();
  }
  return heard.filter((n) => /collectives? go/.test(n.text)).map((n) => [n.kind, n.text, n.numbers]);
}

Deno.test("buckets: notes tell what goes as one, and why the rest does not", async () => {
  const heard = await context({ SCACHE: 0 }, () => notesOf(() => train(false)));
  const loss = ["missed", "a collective goes not with those before: the one before goes with no other"];
  assert.deepEqual(heard.map(([kind, text]) => [kind, text]).slice(0, 2), [
    ["passed", "6 collectives go as one, of 852 bytes"],
    loss,
  ]);
  assert.deepEqual(heard[0][2], { collectives: 6, bytes: 852 });

  // by pairs: a full bucket, other ranks, another dtype, a step between, and memory that both use
  const all = infos(20, () => 300_000),
    item = (entries: number[], axis = "data"): TemplateItem => ({
      kind: "collective",
      device: "JS",
      entries,
      ast: undefined,
      vars: [],
      at: 0,
      collective: new CollectiveArg("allReduce", shape, [axis], Ops.ADD),
    });
  const kernel = { ...item([18]), kind: "kernel" } as TemplateItem,
    gather = (entries: number[]): TemplateItem => ({
      ...item(entries),
      collective: new CollectiveArg("allGather", shape, ["data"], undefined as never),
    });
  all[3] = { ...all[3], dtype: dtypes.float16 };
  all[6] = { ...all[6], kept: true };
  for (
    const [items, want] of [
      [[item([0, 1]), item([6, 7])], "its memory is the program's"],
      [[item([0, 1]), item([4, 5])], "those before have as many bytes as go at once"],
      [[item([0, 1]), item([4, 5], "model")], "the one before is among other ranks"],
      [[item([2, 3]), item([4, 5])], "the one before is of float16"],
      [[item([0, 1]), kernel, item([4, 5])], "a step between them waits for the one before, or is waited for"],
      [[item([0, 1]), item([4, 0])], "they use the same memory"],
      [[item([0, 1]), gather([4, 5])], "allGather has its parts apart"],
      [[gather([0, 1]), item([4, 5])], "the one before goes with no other"],
    ] as const
  ) {
    const texts = await notesOf(() => joinCollectives(items, all, () => constant(1, dtypes.int32)));
    const { collectives, bytes } = { collectives: 1, bytes: 1_200_000 };
    assert.deepEqual(texts, [["missed", `a collective goes not with those before: ${want}`, { collectives, bytes }]]);
  }
  assert.deepEqual(await notesOf(() => joinCollectives([item([0, 1])], all, () => constant(1, dtypes.int32))), []);
});

Deno.test("memory plan: neighbors lie one after the other, in their order, while any is in use", () => {
  const list = infos(6, (e) => 10 + 60 * e), neighbors = [[3, 0, 1]];
  const items = [[0], [2], [1], [4], [3], [0, 1, 3], [5]].map((entries) => ({ entries }));
  const layout = { arenas: true, maxBytes: Infinity, viewAlign: 1 } as never;
  const { places, blocks } = planMemory({ entries: list, items, neighbors }, () => layout);
  const at = (e: number) => places[e]!.offset;
  assert.equal(places[3]!.block, places[0]!.block);
  assert.equal(at(0) - at(3), Math.ceil(190 * 4 / 256) * 256);
  assert.equal(at(1) - at(0), 256);
  // 2 and 4 are in use beside them, 5 is not
  const end = at(1) + Math.ceil(70 * 4 / 256) * 256;
  for (const e of [2, 4]) {
    assert.ok(places[e]!.block !== places[3]!.block || at(e) >= end || at(e) + list[e].size * 4 <= at(3));
  }
  assert.equal(blocks.length, 1);
});
