/**
 * Tensors on several devices of one process: what shard, reshard and sharding say and do, which collectives run, gradients,
 * writes, training, and what is refused. Every op is in fuzz/sharding_test.ts.
 */
import assert from "node:assert/strict";
import { context, Device, DeviceError, GlobalCounters, jit, nn, ShapeError, Tensor } from "../../mod.ts";
import { backendOf } from "../../src/device/device.ts";
import { Mesh } from "../../src/dist/dist.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"];
const mesh = Mesh.of({ data: 2, model: 2 }, { devices });

function floats(...shape: number[]): Tensor {
  return Tensor.arange(shape.reduce((n, k) => n * k, 1)).cast("float32").reshape(shape);
}

/** The collectives that `body` runs. */
function collectivesOf(body: () => unknown): number {
  const before = GlobalCounters.collectiveCount;
  body();
  return GlobalCounters.collectiveCount - before;
}

Deno.test("shard: a tensor says how it is divided, and reads as what it was", async () => {
  const x = floats(8, 4).shard(mesh, ["data", null]);
  assert.equal(x.sharding, "float32[8@data, 4]");
  assert.deepEqual(x.devices, devices);
  assert.deepEqual(x.shape, [8, 4]);
  assert.deepEqual(await x.realize().tolist(), await floats(8, 4).tolist());
  assert.equal(floats(2).sharding, "float32[2]");
  assert.equal(x.sum(0).sharding, "float32[4]{data: sum}");
  assert.equal(x.max().sharding, "float32[]{data: max}");
  assert.equal(x.matmul(floats(4, 6).shard(mesh, [null, "model"])).sharding, "float32[8@data, 6@model]");
  const rows = x.reshard(mesh, [null, "model"]).matmul(floats(4, 6).shard(mesh, ["model", null]));
  assert.equal(rows.sharding, "float32[8, 6]{model: sum}");
  assert.equal(rows.realize().sharding, "float32[8, 6]");
  assert.equal(floats(8, 2).shardLike(x).sharding, "float32[8@data, 2]");
});

Deno.test("shard: a mesh of one device is a mesh, beside the device itself", async () => {
  const one = Mesh.of({ data: 1 }, { devices: ["JS:1"] }), x = floats(4, 2).shard(one, ["data", null]);
  assert.deepEqual([x.sharding, x.devices], ["float32[4, 2]", ["JS:1"]]);
  assert.deepEqual(await x.sum(0).tolist(), [12, 16]);
  assert.deepEqual(await floats(4, 2).to("JS:1").sum(0).tolist(), [12, 16]);
});

Deno.test("shard: a mesh of one device is none of the open devices, and its memory counts once", () => {
  const x = floats(1024).realize(), before = GlobalCounters.memUsed;
  const y = x.shard(Mesh.of({ data: 1 }, { devices: ["JS"] }), ["data"]).realize();
  assert.equal(GlobalCounters.memUsed - before, y.nbytes());
  assert.ok(!(y.device in Device.memory()));
  assert.equal(backendOf(y.device).name, "JS");
});

Deno.test("shard: a list of devices is tinygrad's form, a tuple in to is a copy on each", async () => {
  const x = floats(4, 2).shard(["JS", "JS:1"], { axis: -2 });
  assert.equal(x.sharding, "float32[4@devices, 2]");
  const w = floats(2, 3).to(["JS", "JS:1"]);
  assert.deepEqual(await x.matmul(w).tolist(), await floats(4, 2).matmul(floats(2, 3)).tolist());
  assert.deepEqual(await w.to("JS").tolist(), await floats(2, 3).tolist());
  const y = floats(4);
  assert.equal(y.shardInPlace(["JS", "JS:1"], { axis: 0 }).sharding, "float32[4@devices]");
  assert.equal(Tensor.ones([4, 2]).shard(["JS", "JS:1"], 0).sharding, "float32[4@devices, 2]");
  assert.equal(
    Tensor.ones([4, 2]).shard(["JS", "JS:1"], -1).reshard(["JS", "JS:1"], 0).sharding,
    "float32[4@devices, 2]",
  );
});

for (const n of [1, 2, 3, 5, 7]) {
  Deno.test(`shard: ${n} elements on four devices, uneven or none on some`, async () => {
    const line = Mesh.of({ data: 4 }, { devices }), want = floats(n).add(1), x = want.shard(line, ["data"]);
    assert.deepEqual(await x.tolist(), await want.tolist());
    assert.equal(await x.sum().item(), await want.sum().item());
    assert.equal(await x.prod().item(), await want.prod().item());
    assert.equal(await x.neg().max().item(), -1);
    assert.deepEqual(await x.reshard(line, [null]).tolist(), await want.tolist());
    assert.deepEqual(await floats(n).shard(line, [null]).add(x).tolist(), await floats(n).add(want).tolist());
  });
}

Deno.test("shard: one schedule and one set of kernels, and no more collectives than are needed", () => {
  const x = floats(8, 4).shard(mesh, ["data", null]).realize(), w = floats(4, 4).shard(mesh, [null, null]).realize();
  assert.equal(collectivesOf(() => x.mul(2).add(1).realize()), 0);
  const kernels = GlobalCounters.kernelCount;
  assert.equal(collectivesOf(() => x.matmul(w).relu().sum().realize()), 1); // the sum
  assert.ok(GlobalCounters.kernelCount - kernels <= 2);
  // sums of partial sums are added up once, and a part of a sum is a reduceScatter
  const [item] = x.sum(0).add(x.mul(3).sum(0)).schedule().filter((i) => i.runner.kind === "CollectiveStep");
  assert.match(String(item), /^allReduce data\(2\)/);
  const part = x.sum(0).reshard(mesh, ["data"]).schedule().filter((i) => i.runner.kind === "CollectiveStep");
  assert.deepEqual(part.map((i) => String(i).split(" ")[0]), ["reduceScatter"]);
  const turned = x.reshard(mesh, [null, "data"]).schedule().filter((i) => i.runner.kind === "CollectiveStep");
  assert.deepEqual(turned.map((i) => String(i).split(" ")[0]), ["allToAll"]);
});

Deno.test("shard: gradients are those of one device, and are added up once", async () => {
  const loss = (x: Tensor, w: Tensor): Tensor => x.matmul(w).sigmoid().mean();
  const w1 = floats(4, 3).mul(0.01).realize(), w2 = w1.shard(mesh, [null, null]).realize(), x = floats(8, 4).mul(0.1);
  w1.requiresGrad = w2.requiresGrad = true;
  loss(x, w1).backward();
  loss(x.shard(mesh, ["data", null]).realize(), w2).backward();
  assert.equal(w2.grad!.sharding, "float32[4, 3]{data: sum}");
  assert.equal(collectivesOf(() => w2.grad!.realize()), 1);
  const want = await w1.grad!.data(), got = await w2.grad!.data();
  want.forEach((v, i) => assert.ok(Math.abs(v - got[i]) < 1e-6));
});

Deno.test("shard: the gradient of a sum, a constant, is divided as its tensor is", async () => {
  const w = Tensor.ones([4]).shard(["JS", "JS:1"], { axis: 0 });
  w.requiresGrad = true;
  w.sum().backward();
  assert.deepEqual([w.grad!.device, `${w.grad!.realize().sharding}`], [w.device, `${w.sharding}`]);
  assert.deepEqual(await w.sub(w.grad!).tolist(), [0, 0, 0, 0]);
});

Deno.test("shard: writes keep how a tensor is divided", async () => {
  const x = floats(4, 2).shard(mesh, ["data", null]).realize();
  x.assign(x.add(floats(4, 2).shard(mesh, [null, null]))).realize();
  assert.equal(x.sharding, "float32[4@data, 2]");
  x.setAt([":", 1], 9);
  assert.deepEqual(await x.tolist(), [[0, 9], [4, 9], [8, 9], [12, 9]]);
  x.assign(floats(4, 2).shard(mesh, [null, "model"])).realize();
  assert.equal(x.sharding, "float32[4@data, 2]");
  assert.deepEqual(await x.tolist(), await floats(4, 2).tolist());
});

/** Losses of twenty steps of a small model, its tensors put where `place` says. */
async function losses(place: (t: Tensor, isData: boolean) => Tensor, captured = false): Promise<number[]> {
  Tensor.manualSeed(3);
  const layers = [new nn.Linear(6, 8), new nn.Linear(8, 3)], x = Tensor.randn([16, 6]), y = x.argmax(1).mod(3);
  const parameters = layers.flatMap((l) => [l.weight, l.bias!]);
  for (const p of parameters) p.replace(place(p, false));
  const data = [x, y].map((t) => place(t.realize(), true).realize());
  const opt = new nn.optim.Adam(parameters, { lr: 0.05 });
  const step = (a: Tensor, b: Tensor): Tensor =>
    Tensor.train(() => {
      opt.zeroGrad();
      const loss = layers[1].call(layers[0].call(a).relu()).crossEntropy(b).backward();
      opt.step();
      return loss;
    });
  const run = captured ? jit(step) : step, out: number[] = [];
  for (let i = 0; i < 20; i++) out.push(await run(data[0], data[1]).item());
  return out;
}

Deno.test("shard: twenty steps of training have the losses of one device, captured and not", async () => {
  const want = await losses((t) => t);
  assert.ok(want[19] < want[0] / 2);
  for (const captured of [false, true]) {
    const got = await losses(
      (t, isData) => t.shard(mesh, t.shape.map((_, i) => isData && i === 0 ? "data" : null)),
      captured,
    );
    want.forEach((v, i) => assert.ok(Math.abs(v - got[i]) <= 1e-5 * v, `step ${i}: ${got[i]} instead of ${v}`));
  }
});

Deno.test("shard: a captured call is captured anew for tensors that are divided otherwise", async () => {
  const twice = jit((x: Tensor) => x.add(x).sum(1)), want = await floats(4, 2).mul(2).sum(1).tolist();
  for (const spec of [["data", null], ["data", null], ["data", null], [null, "data"], ["model", "data"]]) {
    const x = floats(4, 2).shard(mesh, spec).realize();
    assert.deepEqual(await twice(x).tolist(), want);
  }
});

Deno.test("shard: what would move values is an error that names the reshard, which is legal then", () => {
  const x = floats(4, 6).shard(mesh, ["data", null]);
  assert.throws(() => x.flip([0]), (e: Error) => {
    assert.ok(e instanceof ShapeError);
    assert.match(e.message, /dimension 0 is divided along data: \.reshard\(mesh, \[null, null\]\) first/);
    return true;
  });
  assert.equal(x.reshard(mesh, [null, null]).flip([0]).sharding, "float32[4, 6]");
  assert.throws(
    () => x.add(floats(4, 6).shard(mesh, [null, "data"])),
    /dimensions 0 and 1 are both divided along data/,
  );
  const other = Mesh.of({ rows: 4 }, { devices });
  assert.throws(() => x.add(floats(4, 6).shard(other, ["rows", null])), /they are on two meshes/);
});

Deno.test("shard: bad meshes and specs are errors by name", () => {
  const x = floats(4, 6);
  assert.throws(() => Mesh.of({ data: 2 }, { devices: ["JS", "JS"] }), /JS is listed twice/);
  assert.throws(() => Mesh.of({ data: 2 }, { devices: ["JS", "NULL"] }), DeviceError);
  assert.throws(() => Mesh.of({ data: 3 }, { devices: ["JS", "JS:1"] }), /axes data: 3 are 3 devices, not 2/);
  assert.throws(() => Mesh.of({}), /it takes sizes by name/);
  assert.throws(() => x.shard(mesh, ["data"]), /1 entries are given for 2 dimensions/);
  assert.throws(() => x.shard(mesh, ["rows", null]), /has no axis "rows"/);
  assert.throws(() => x.shard(mesh, ["data", "data"]), /cannot both be divided along data/);
  assert.throws(() => x.realize().reshard(mesh, ["data", null]), /use \.shard\(mesh/);
  assert.throws(() => x.realize().shard(mesh, ["data", null]).add(x), /move one with \.to/);
});

for (const base of ["WASM", "NULL"]) {
  Deno.test(`shard: a captured product on two devices of ${base}, one set of kernels for both`, async () => {
    const pair = Mesh.of({ data: 2 }, { devices: [base, `${base}:1`] });
    const run = jit((x: Tensor, w: Tensor) => x.matmul(w).relu().sum(1));
    const x = floats(6, 4), w = floats(4, 5), want = await x.matmul(w).relu().sum(1).tolist();
    for (let i = 0; i < 3; i++) {
      const got = run(x.shard(pair, ["data", null]).realize(), w.shard(pair, [null, null]).realize());
      assert.equal(got.sharding, "float32[6@data]");
      assert.deepEqual(await got.tolist(), base === "NULL" ? [0, 0, 0, 0, 0, 0] : want);
    }
  });
}

Deno.test("shard: sums in the order of ranks and of a ring are the same for whole numbers, in every dtype", async () => {
  const line = Mesh.of({ data: 4 }, { devices });
  for (const dtype of ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"] as const) {
    const x = Tensor.arange(24).mod(5).cast(dtype).reshape([4, 6]), want = await x.sum(0).tolist();
    for (const values of [{ RING: 0 }, { RING: 2 }, { ALL2ALL: 2 }]) {
      const got = context(values, () => x.shard(line, ["data", null]).sum(0).realize());
      assert.deepEqual(await got.tolist(), want, `${dtype} ${JSON.stringify(values)}`);
    }
  }
});
