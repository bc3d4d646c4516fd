/**
 * Layers of large models on a mesh: tables that are divided by rows with the cross entropy of divided classes, and attention
 * over divided sequences, both against one device, with gradients.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import { ColumnLinear, Mesh, ringAttention, VocabEmbedding } from "../../src/dist/dist.ts";
import { assertClose } from "../support/assert.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"], line = Mesh.of({ model: 4 }, { devices });
const grid = Mesh.of({ data: 2, seq: 2 }, { devices });

for (const isCausal of [false, true]) {
  for (const [mesh, n] of [[Mesh.of({ seq: 4 }, { devices }), 8], [grid, 6]] as const) {
    const how = `${isCausal ? "causal" : "full"}, on ${mesh}`;
    Deno.test(`ring attention is attention: ${how}`, async () => {
      Tensor.manualSeed(4);
      const batch = mesh === grid ? "data" : null, shape = [2, 3, n, 4];
      const whole = [0, 1, 2].map(() => Tensor.randn(shape).realize()), g = Tensor.randn(shape).realize();
      for (const t of whole) t.requiresGrad = true;
      const want = whole[0].scaledDotProductAttention(whole[1], whole[2], undefined, { isCausal });
      want.mul(g).sum().backward();
      const put = (t: Tensor) => t.detach().shard(mesh, [batch, null, "seq", null]).realize();
      const parts = whole.map(put);
      for (const t of parts) t.requiresGrad = true;
      const got = ringAttention(parts[0], parts[1], parts[2], { isCausal });
      assert.equal(got.sharding, `float32[2${batch === null ? "" : "@data"}, 3, ${n}@seq, 4]`);
      got.mul(put(g)).sum().backward();
      assertClose(await got.data(), await want.data());
      for (let i = 0; i < 3; i++) {
        assert.equal(parts[i].grad!.sharding, got.sharding);
        assertClose(await parts[i].grad!.data(), await whole[i].grad!.data());
      }
      const captured = jit((q: Tensor, k: Tensor, v: Tensor) => ringAttention(q, k, v, { isCausal }).realize());
      for (let i = 0; i < 3; i++) assertClose(await captured(parts[0], parts[1], parts[2]).data(), await want.data());
    });
  }
}

Deno.test("ring attention: blocks go round, and no device gathers the sequence", () => {
  const mesh = Mesh.of({ seq: 4 }, { devices }), x = Tensor.ones([8, 4]).shard(mesh, ["seq", null]).realize();
  const before = [GlobalCounters.collectiveCount, GlobalCounters.collectiveBytes];
  ringAttention(x, x, x).realize();
  // three rotations of keys and of values, each of 2 x 4 floats on four devices
  assert.deepEqual(
    [GlobalCounters.collectiveCount - before[0], GlobalCounters.collectiveBytes - before[1]],
    [3, 3 * 4 * 2 * 4 * 4],
    "keys and values are one tensor here, and go as one",
  );
});

Deno.test("ring attention: what cannot go round is told, and the advice works", async () => {
  const mesh = Mesh.of({ seq: 4 }, { devices }), x = Tensor.arange(32).float().div(32).reshape([8, 4]).realize();
  const rows = (t: Tensor) => t.shard(mesh, ["seq", null]);
  assert.throws(
    () => ringAttention(x, x, x),
    /dimension -2 of float32\[8, 4\], is not divided: .*or use query\.scaled/,
  );
  const whole = x.shard(mesh, [null, null]);
  assert.throws(
    () => ringAttention(rows(x), whole, rows(x)),
    /key is float32\[8, 4\]; .*8 positions, divided along seq/,
  );
  const short = x.shrink([[0, 6], [0, 4]]);
  assert.throws(() => ringAttention(rows(short), rows(short), rows(short)), /6 positions .* 4 parts: pad them to 8/);
  const padded = rows(short.pad([[0, 2], [0, 0]]));
  const got = await ringAttention(padded, padded, padded, { isCausal: true }).tolist() as number[][];
  const want = await short.scaledDotProductAttention(short, short, undefined, { isCausal: true })
    .tolist() as number[][];
  assertClose(got.slice(0, 6), want);
});

Deno.test("embeddings on a mesh are looked up and their gradients sorted as on one device, whatever is divided", async () => {
  const rows = 300, width = 8;
  for (const [data, model] of [[1, 1], [2, 1], [4, 1], [1, 4], [2, 2]]) {
    const devices = Array.from({ length: data * model }, (_, i) => `JS:${i}` as const);
    const mesh = Mesh.of({ data, model }, { devices });
    Tensor.manualSeed(3);
    const plain = new nn.Embedding(rows, width), own = new VocabEmbedding(rows, width, mesh);
    own.weight.assign(plain.weight.detach().shardLike(own.weight)).realize();
    state.place(own, mesh);
    const ids = Tensor.randint([8, 64], { low: -3, high: rows + 3 }).realize(),
      by = Tensor.randn([8, 64, width]).realize();
    const run = (e: nn.Embedding, ids: Tensor, by: Tensor): Tensor[] => {
      const found = e.call(ids);
      return [found, found.mul(by).sum().gradient([e.weight])[0]];
    };
    const want = run(plain, ids, by);
    const got = run(own, ids.shard(mesh, ["data", null]), by.shard(mesh, ["data", null, null]));
    assert.equal(got[0].sharding.startsWith(`float32[8${data > 1 ? "@data" : ""}, 64, 8]`), true);
    for (const [i, t] of got.entries()) assertClose(await t.data(), await want[i].data());
  }
});

Deno.test("a part of a table is looked up by loads, not by a sum over its rows", async () => {
  const mesh = Mesh.of({ model: 4 }, { devices: ["JS", "JS:1", "JS:2", "JS:3"] }),
    table = new VocabEmbedding(4096, 4, mesh);
  const ids = Tensor.arange(16).mul(255).int().shard(mesh, [null]).realize();
  table.weight.realize();
  const before = GlobalCounters.globalOps;
  await table.call(ids).realize().data();
  assert(GlobalCounters.globalOps - before < 4096 * 4, "each row was looked at");
});

Deno.test("vocabulary-parallel: an embedding and the cross entropy of its classes are those of one device", async () => {
  for (const paddingIdx of [undefined, 2]) {
    Tensor.manualSeed(6);
    const table = new nn.Embedding(10, 4, { paddingIdx }), head = new nn.Linear(4, 10, { bias: false });
    Tensor.realize([table.weight, head.weight]);
    const tokens = Tensor.randint([7], { high: 10 }).realize(), labels = Tensor.randint([7], { high: 10 }).realize();
    const own = new VocabEmbedding(10, 4, line, { paddingIdx }),
      ownHead = new ColumnLinear(4, 10, line, { bias: false });
    own.weight.assign(table.weight.detach().shardLike(own.weight)).realize();
    ownHead.weight.assign(head.weight.detach().shardLike(ownHead.weight)).realize();
    for (const w of [table.weight, head.weight, own.weight, ownHead.weight]) w.requiresGrad = true;
    const want = head.call(table.call(tokens)).crossEntropy(labels).backward();
    const all = (t: Tensor) => t.shard(line, [null]);
    const logits = ownHead.call(own.call(all(tokens)));
    assert.equal(logits.sharding, "float32[7, 10@model]");
    const loss = logits.crossEntropy(all(labels), { labelSmoothing: 0 }).backward();
    assertClose(await loss.item(), await want.item());
    assert.equal(own.weight.grad!.sharding, "float32[10@model, 4]");
    assert.equal(ownHead.weight.grad!.sharding, "float32[10@model, 4]");
    assertClose(await own.weight.grad!.data(), await table.weight.grad!.data());
    assertClose(await ownHead.weight.grad!.data(), await head.weight.grad!.data());
  }
});

Deno.test("vocabulary-parallel: the cross entropy moves three numbers a row, and never the logits", () => {
  const logits = Tensor.randn([8, 64]).shard(line, [null, "model"]).realize(),
    labels = Tensor.zeros([8], { dtype: "int32" });
  logits.requiresGrad = true;
  const loss = logits.crossEntropy(labels.shard(line, [null]).realize()).backward();
  const before = [GlobalCounters.collectiveCount, GlobalCounters.collectiveBytes];
  Tensor.realize([loss, logits.grad!]);
  const [count, nbytes] = [GlobalCounters.collectiveCount - before[0], GlobalCounters.collectiveBytes - before[1]];
  assert.equal(count, 3);
  assert.ok(nbytes <= 4 * 3 * 8 * 4, `${nbytes} bytes`);
  assert.throws(() => new VocabEmbedding(4, 2, line, { axis: "rows" }), /has no axis "rows"/);
  assert.throws(() => new VocabEmbedding(4, 2, line, { axes: "model" } as never), /unknown option "axes"/);
});
