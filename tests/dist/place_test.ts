/**
 * Models on a mesh: state.place, replicated and divided in memory, tensor-parallel layers, and optimizers on them. Losses are
 * those of one device.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import { ColumnLinear, Mesh, RowLinear } from "../../src/dist/dist.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"];
const grid = Mesh.of({ data: 2, model: 2 }, { devices });

type Up = { up: nn.Linear; down: nn.Linear };

/** A model of two layers with the same weights each time. */
function model(): Up {
  Tensor.manualSeed(5);
  return { up: new nn.Linear(6, 8), down: new nn.Linear(8, 4) };
}

/** Losses of twenty steps, with gradients clipped. */
async function losses(m: Up, put: (t: Tensor) => Tensor, captured = false): Promise<number[]> {
  Tensor.manualSeed(7);
  const x = put(Tensor.randn([16, 6]).realize()).realize(),
    y = put(Tensor.randint([16], { high: 4 }).realize()).realize();
  const parameters = state.getParameters(m), opt = new nn.optim.AdamW(parameters, { lr: 0.03, weightDecay: 0.01 });
  const step = (a: Tensor, b: Tensor): Tensor =>
    Tensor.train(() => {
      opt.zeroGrad();
      const loss = m.down.call(m.up.call(a).gelu()).crossEntropy(b).backward();
      opt.step();
      return loss;
    });
  const run = captured ? jit(step) : step, out: number[] = [];
  for (let i = 0; i < 20; i++) out.push(await run(x, y).item());
  return out;
}

const want = await losses(model(), (t) => t);

function near(got: readonly number[]): void {
  assert.ok(want[19] < want[0] * 0.8);
  want.forEach((v, i) => assert.ok(Math.abs(v - got[i]) <= 1e-5 * v, `step ${i}: ${got[i]} instead of ${v}`));
}
const rows = (mesh: Mesh, axis: string) => (t: Tensor): Tensor =>
  t.shard(mesh, t.shape.map((_, i) => i === 0 ? axis : null));

for (const captured of [false, true]) {
  const how = captured ? "captured" : "not captured";
  Deno.test(`place: data parallel, replicated, ${how}`, async () => {
    near(await losses(state.place(model(), grid), rows(grid, "data"), captured));
  });
  Deno.test(`place: divided in memory, with gradients and what the optimizer keeps, ${how}`, async () => {
    const line = Mesh.of({ data: 4 }, { devices }), m = state.place(model(), line, { shard: "data" });
    assert.equal(m.up.weight.sharding, "float32[8@data, 6]");
    near(await losses(m, rows(line, "data"), captured));
    assert.equal(m.up.weight.sharding, "float32[8@data, 6]");
    assert.equal(m.down.bias!.sharding, "float32[4@data]");
  });
}

Deno.test("place: columns, then rows, with the batch divided along another axis", async () => {
  const plain = model(), m = { up: new ColumnLinear(6, 8, grid), down: new RowLinear(8, 4, grid) };
  for (const name of ["up", "down"] as const) {
    m[name].weight.assign(plain[name].weight.shardLike(m[name].weight)).realize();
    m[name].bias!.assign(plain[name].bias!.shardLike(m[name].bias!)).realize();
  }
  assert.equal(m.up.weight.sharding, "float32[8@model, 6]");
  assert.equal(m.down.weight.sharding, "float32[4, 8@model]");
  near(await losses(m, rows(grid, "data")));
});

for (const zero of [1, 2, 3] as const) {
  Deno.test(`place: what layers have divided stays so, what belongs to it is divided further, zero ${zero}`, async () => {
    const plain = model(), m = { up: new ColumnLinear(6, 8, grid), down: new RowLinear(8, 4, grid) };
    for (const name of ["up", "down"] as const) {
      m[name].weight.assign(plain[name].weight.shardLike(m[name].weight)).realize();
      m[name].bias!.assign(plain[name].bias!.shardLike(m[name].bias!)).realize();
    }
    state.place(m, grid, { shard: "data", zero });
    near(await losses(m, rows(grid, "data"), true));
    assert.equal(m.up.weight.sharding, "float32[8@model, 6]");
    assert.equal(m.down.weight.sharding, "float32[4, 8@model]");
    const optimizer = new nn.optim.Adam([m.up.weight, m.down.weight]) as unknown as { mean: Tensor[] };
    assert.deepEqual(optimizer.mean.map((t) => t.sharding), ["float32[8@model, 6@data]", "float32[4@data, 8@model]"]);
    assert.equal(
      m.up.weight.grad!.sharding,
      zero === 1 ? "float32[8@model, 6]{data: sum}" : "float32[8@model, 6@data]",
    );
  });
}

Deno.test("place: rows of a large table are looked up by divided tokens, which no sort moves", async () => {
  const table = new nn.Embedding(300, 4), tokens = Tensor.arange(4096).mod(300).reshape([4, 1024]).realize();
  state.place(table, grid);
  const got = table.call(rows(grid, "data")(tokens).realize()).square().sum().backward();
  const want = table.weight.to("JS"), counts = Tensor.arange(300).lt(4096 % 300).float().add(13).unsqueeze(1);
  assert.ok(Math.abs(await got.item() as number - (await want.square().mul(counts).sum().item() as number)) < 1e-3);
  const g = await table.weight.grad!.tolist() as number[][],
    expected = await want.mul(2).mul(counts).tolist() as number[][];
  g.forEach((row, i) => row.forEach((x, k) => assert.ok(Math.abs(x - expected[i][k]) < 1e-4)));
});

Deno.test("place: a step on divided memory gathers each weight, and scatters each gradient", async () => {
  const line = Mesh.of({ data: 4 }, { devices }), m = state.place({ w: Tensor.ones([8, 8]) }, line, { shard: "data" });
  m.w.requiresGrad = true;
  const opt = new nn.optim.Adam([m.w], { lr: 0.1 }), x = Tensor.randn([8, 8]).shard(line, ["data", null]).realize();
  Tensor.train(() => x.matmul(m.w).square().sum().backward());
  const before = GlobalCounters.collectiveCount;
  Tensor.train(() => opt.step());
  // the weight is gathered, the loss added up, the gradient added up and divided
  assert.equal(GlobalCounters.collectiveCount - before, 3);
  assert.deepEqual(state.getParameters(opt).map((t) => t.sharding).filter((s) => s.includes("@")), [
    "float32[8@data, 8]",
    "float32[8@data, 8]",
    "float32[8@data, 8]",
  ]);
  assert.ok((await m.w.data()).every(Number.isFinite));
});

Deno.test("place: files of one mesh are loaded on another, and on one device", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/model.safetensors`;
  try {
    const line = Mesh.of({ data: 4 }, { devices }), from = state.place(model(), line, { shard: "data" });
    const uneven = Tensor.arange(35).cast("float32").reshape([7, 5]).shard(grid, ["data", "model"]).realize();
    await state.distSave({ from, uneven }, path);
    const names = [...Deno.readDirSync(folder)].map((e) => e.name).sort();
    assert.equal(names.length, 5);
    assert.ok(names.includes("model-00004-of-00004.safetensors") && names.includes("model.safetensors.index.json"));
    const m = model();
    for (const t of state.getParameters(m)) t.assign(0);
    const to = { from: state.place(m, grid, { shard: "model" }), uneven: Tensor.zeros([7, 5]).contiguous().realize() };
    await state.distLoad(to, path);
    const want = model();
    for (const name of ["up", "down"] as const) {
      assert.deepEqual(await to.from[name].weight.tolist(), await want[name].weight.tolist());
      assert.deepEqual(await to.from[name].bias!.tolist(), await want[name].bias!.tolist());
    }
    assert.equal(to.from.up.weight.sharding, "float32[8@model, 6]");
    assert.deepEqual(await to.uneven.tolist(), await uneven.tolist());
    await assert.rejects(() => state.distLoad({ other: Tensor.zeros([2]) }, path), /it has no tensor "other"/);
    await assert.rejects(() => state.distLoad({ uneven: Tensor.zeros([2]) }, path), /the tree has it with shape \[2\]/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
