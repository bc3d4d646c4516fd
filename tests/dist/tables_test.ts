/**
 * Gradients of tables on a mesh, as they are made for devices that sort the indices: wherever the rows lie, in whole, divided
 * in memory alone, or by rows, no rank compares each index with each row.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, nn, state, Tensor } from "../../mod.ts";
import { Mesh, VocabEmbedding } from "../../src/dist/dist.ts";
import { scheduleTarget } from "../../src/schedule/schedule_target.ts";

Device.default = "JS";
const ROWS = 2000, WIDTH = 16, TEXTS = 8, LENGTH = 256;

/** A graph as it is made for a device with a grid. */
function onGrid<T>(make: () => T): T {
  scheduleTarget.now = { name: "grid", caps: { ...Device.get("JS").renderer.caps, hasGrid: true } };
  try {
    return make();
  } finally {
    scheduleTarget.now = undefined;
  }
}

type Axes = Record<"data" | "model", number>;
const WAYS: readonly (readonly [name: string, axes: Axes, table: "whole" | "stored" | "rows"])[] = [
  ["in whole", { data: 2, model: 1 }, "whole"],
  ["divided in memory alone", { data: 2, model: 1 }, "stored"],
  ["divided in memory alone, among four", { data: 4, model: 1 }, "stored"],
  ["divided by rows", { data: 1, model: 2 }, "rows"],
  ["divided by rows, and indices beside that", { data: 2, model: 2 }, "rows"],
];
for (const [name, axes, how] of WAYS) {
  Deno.test(`tables: a gradient sorts the indices where rows lie ${name}`, async () => {
    const devices = Array.from({ length: axes.data * axes.model }, (_, i) => `JS:${i}` as const);
    const mesh = Mesh.of(axes, { devices });
    Tensor.manualSeed(5);
    const plain = new nn.Embedding(ROWS, WIDTH);
    const table = how === "rows" ? new VocabEmbedding(ROWS, WIDTH, mesh) : new nn.Embedding(ROWS, WIDTH);
    table.weight.assign(
      how === "rows" ? plain.weight.detach().shardLike(table.weight) : plain.weight.detach(),
    ).realize();
    state.place(table, mesh, how === "stored" ? { shard: "data" } : {});
    const ids = Tensor.randint([TEXTS, LENGTH], { low: -2, high: ROWS + 2 }).realize();
    const by = Tensor.randn([TEXTS, LENGTH, WIDTH]).realize();
    const want = await plain.call(ids).mul(by).sum().gradient([plain.weight])[0].tolist() as number[][];
    const own = ids.shard(mesh, ["data", null]).realize(), times = by.shard(mesh, ["data", null, null]).realize();
    const gradient = onGrid(() => table.call(own).mul(times).sum().gradient([table.weight])[0]);
    const before = GlobalCounters.kernelCount;
    gradient.realize();
    // this device would go through the indices once instead of comparing them
    assert.ok(GlobalCounters.kernelCount - before > 10, `${GlobalCounters.kernelCount - before} kernels sort nothing`);
    const got = await gradient.tolist() as number[][];
    want.forEach((row, i) => row.forEach((x, k) => assert.ok(Math.abs(x - got[i][k]) < 1e-4, `${i} ${k}`)));
  });
}
