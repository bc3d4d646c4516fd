/**
 * Programs as people write them on shards: values against one device, refusals whose advice is followed, and collectives of
 * tensors that are divided.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import * as dist from "../../src/dist/dist.ts";
import { assertClose } from "../support/assert.ts";

Device.default = "JS";
const devices = ["JS", "JS:1"], mesh = dist.Mesh.of({ data: 2 }, { devices });

/** `t` with dimension `dim` divided. */
function rows(t: Tensor, dim = 0): Tensor {
  return t.shard(mesh, t.shape.map((_, i) => i === dim ? "data" : null));
}

/** The numbers 0 to n - 1 in memory of the default device. */
function numbers(...shape: number[]): Tensor {
  return Tensor.arange(shape.reduce((n, k) => n * k, 1)).reshape(shape).realize();
}

const CONSTANT: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  "zero times": (x) => x.mul(0),
  "a number for all": (x) => x.mul(0).add(3),
  "a sum over what is divided": (x) => x.mul(0).add(3).sum(0),
  "a maximum over what is divided": (x) => x.mul(0).add(3).max(0),
  "a sum over no elements": (x) => x.shrink([null, [1, 1]]).sum(1),
  "a sum of no elements": (x) => x.shrink([null, [1, 1]]).sum(),
  "no elements": (x) => x.shrink([null, [1, 1]]),
};
for (const [what, f] of Object.entries(CONSTANT)) {
  Deno.test(`shards that become constants: ${what}`, async () => {
    const x = numbers(5, 2), want = await f(x).tolist();
    assert.deepEqual(await f(rows(x)).tolist(), want);
    assert.deepEqual(await f(rows(x).realize()).tolist(), want);
    const again = jit((t: Tensor) => f(t).realize());
    for (let i = 0; i < 3; i++) assert.deepEqual(await again(rows(x).realize()).tolist(), want);
  });
}

Deno.test("shards: of no elements there are no parts", async () => {
  const none = Tensor.zeros([0, 3]);
  assert.deepEqual(await rows(none).sum(0).tolist(), [0, 0, 0]);
  assert.deepEqual(await rows(none).sum(1).tolist(), []);
  assert.deepEqual(await rows(none, 1).sum(0).tolist(), [0, 0, 0]);
});

Deno.test("shards: a refusal inside of an op names the tensor that the program has, and its reshard works", async () => {
  const x = numbers(4, 3).float(), whole = (t: Tensor) => t.reshard(mesh, t.shape.map(() => null));
  assert.throws(() => rows(x).matmul(rows(x).T), /\.reshard\(mesh, \[null, null\]\) the float32\[4@data, 3\] that one/);
  assert.deepEqual(await rows(x).matmul(whole(rows(x)).T).tolist(), await x.matmul(x.T).tolist());
  const image = numbers(1, 1, 4, 4).float(), kernel = Tensor.ones([1, 1, 3, 3]);
  assert.throws(
    () => rows(image, 2).conv2d(kernel),
    /\.reshard\(mesh, \[null, null, null, null\]\) the float32\[1, 1, 4@data, 4\] that it is made of first/,
  );
  assert.deepEqual(await whole(rows(image, 2)).conv2d(kernel).tolist(), await image.conv2d(kernel).tolist());
});

Deno.test("shards: what is on one device is told to go where the shards are, and that works", async () => {
  const x = rows(numbers(4, 2)), bias = new Tensor([10, 20]), advice = /move one with \.to\("JS,JS:1"\), or divide it/;
  assert.throws(() => x.add(bias), advice);
  assert.throws(() => bias.add(x), advice);
  const want = [[10, 21], [12, 23], [14, 25], [16, 27]];
  assert.deepEqual(await x.add(bias.to("JS,JS:1")).tolist(), want);
  assert.deepEqual(await bias.shard(mesh, [null]).add(x).tolist(), want);
});

/** Losses of four steps of a convolution and a layer by `make`'s optimizer, on a mesh where `put` is given. */
async function losses(
  make: (parameters: Tensor[]) => nn.optim.Optimizer,
  put?: (model: object) => unknown,
  isPut: (step: number) => boolean = () => put !== undefined,
): Promise<number[]> {
  Tensor.manualSeed(3);
  const model = { conv: new nn.Conv2d(1, 4, 3), out: new nn.Linear(16, 4) };
  const whole = Tensor.randn([4, 1, 4, 4]).realize();
  put?.(model);
  const optimizer = make(state.getParameters(model)), out: number[] = [];
  for (let i = 0; i < 4; i++) {
    const x = isPut(i) ? rows(whole) : whole;
    const loss = Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.out.call(model.conv.call(x).tanh().flatten(1)).square().mean().backward();
      optimizer.step();
      return loss;
    });
    out.push(await loss.item());
  }
  return out;
}

const OPTIMIZERS: Readonly<Record<string, (parameters: Tensor[]) => nn.optim.Optimizer>> = {
  Muon: (p) => new nn.optim.Muon(p, { lr: 0.05 }),
  LARS: (p) => new nn.optim.LARS(p, { lr: 0.05, nsSteps: 2 }),
  LAMB: (p) => new nn.optim.LAMB(p, { lr: 0.05 }),
};
for (const [name, make] of Object.entries(OPTIMIZERS)) {
  Deno.test(`place: ${name} takes the steps of one device`, async () => {
    const want = await losses(make);
    assertClose(await losses(make, (model) => state.place(model, mesh)), want);
    for (const zero of [1, 2, 3] as const) {
      assertClose(await losses(make, (model) => state.place(model, mesh, { shard: "data", zero })), want);
    }
  });
}

const FIRST: Readonly<Record<string, (parameters: Tensor[]) => nn.optim.Optimizer>> = {
  Adam: (p) => new nn.optim.Adam(p, { lr: 0.05 }),
  "SGD with momentum": (p) => new nn.optim.SGD(p, { lr: 0.05, momentum: 0.9 }),
  "SGD without": (p) => new nn.optim.SGD(p, { lr: 0.05 }),
  "fused AdamW": (p) => new nn.optim.AdamW(p, { lr: 0.05, fused: true }),
};
for (const [name, make] of Object.entries(FIRST)) {
  Deno.test(`place: an optimizer made before, ${name}, follows its parameters, in the middle of training too`, async () => {
    const want = await losses(make), options = [undefined, { shard: "data" }, { shard: "data", zero: 1 }] as const;
    for (const how of options) {
      let model: object | undefined;
      const first = await losses(make, (m) => model = m, (step) => {
        if (step === 2) state.place(model!, mesh, how);
        return step >= 2;
      });
      assertClose(first, want);
    }
  });
}

Deno.test("place: norms of divided gradients are those of whole ones, and a scaler skips the same steps", async () => {
  const run = async (zero?: 1 | 2 | 3): Promise<number[]> => {
    Tensor.manualSeed(3);
    const model = { out: new nn.Linear(4, 2) }, x0 = Tensor.randn([4, 4]).realize(), out: number[] = [];
    if (zero !== undefined) state.place(model, mesh, { shard: "data", zero });
    const x = zero === undefined ? x0 : rows(x0), parameters = state.getParameters(model);
    const optimizer = new nn.optim.Adam(parameters, { lr: 0.1 }), scaler = new nn.optim.GradScaler({ initScale: 4 });
    for (let i = 0; i < 4; i++) {
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = model.out.call(i === 2 ? x.div(0) : x).square().sum();
        scaler.backward(loss);
        scaler.unscale(optimizer);
        const norm = nn.optim.clipGradNorm(parameters, 0.5);
        scaler.step(optimizer, { also: [norm] });
        if (i !== 2) out.push(norm.dataSync()[0] as number);
      });
      out.push(...await model.out.weight.data());
    }
    return out;
  };
  const want = await run();
  for (const zero of [1, 2, 3] as const) assertClose(await run(zero), want);
});

Deno.test("place: bad options are told", () => {
  const model = new nn.Linear(2, 2), bad = (options: unknown) => () => state.place(model, mesh, options as never);
  assert.throws(bad({ shard: "data", zero: 4 }), /zero must be 1, 2 or 3, not 4/);
  assert.throws(bad({ zero: 1 }), /name the axis, too, as \{ shard: "data", zero: 1 \}/);
  assert.throws(bad({ shard: "rows" }), /mesh \{data: 2\} has no axis "rows"/);
});

Deno.test("place: a list of devices is a mesh of one axis", async () => {
  const model = state.place(new nn.Linear(3, 4), devices, { shard: "devices" });
  assert.equal(model.weight.sharding, "float32[4@devices, 3]");
  const x = Tensor.ones([2, 3]).shard(devices, { axis: 0 });
  assertClose(
    await model.call(x).tolist(),
    await Tensor.ones([2, 3]).matmul(model.weight.to("JS").T)
      .add(model.bias!.to("JS")).tolist(),
  );
  assert.throws(() => state.place(model, 3 as unknown as dist.Mesh), /takes a mesh, .* or a list of devices, not 3/);
});

Deno.test("collectives: a divided tensor is refused, and given whole as told", async () => {
  await dist.init();
  const x = rows(numbers(4).float());
  await assert.rejects(
    dist.allReduce(x),
    /it is float32\[4@data\], of which each rank has a part: .*t\.reshard\(mesh, \[null\]\)/,
  );
  assert.deepEqual(await (await dist.allGather(x.reshard(mesh, [null]).to("JS"))).tolist(), [0, 1, 2, 3]);
});

/** The collectives that realizing `make`'s results takes. */
function collectivesOf(make: () => Tensor | readonly Tensor[]): number {
  const results = [make()].flat() as Tensor[], before = GlobalCounters.collectiveCount;
  Tensor.realize(results);
  return GlobalCounters.collectiveCount - before;
}

const ONCE: Readonly<Record<string, (sum: Tensor, w: Tensor) => Tensor | readonly Tensor[]>> = {
  "tanh": (s) => s.mul(0.01).tanh(),
  "gelu": (s) => s.gelu(),
  "silu": (s) => s.silu(),
  "softmax": (s) => s.softmax(),
  "layernorm": (s) => s.layernorm(),
  "a product beside what needs the value": (s, w) => s.mul(w).add(s.exp()),
  "itself beside a product": (s, w) => [s, s.mul(w)],
  "a chosen part beside what needs the value": (s) => s.gt(2).where(s, 0),
};
for (const [what, f] of Object.entries(ONCE)) {
  Deno.test(`shards: what several steps read of a sum is added up once: ${what}`, async () => {
    const x = numbers(6, 4).float().div(7).realize(), w = new Tensor([1, 2, 3, 4]);
    const own = rows(x).realize(), factors = w.to("JS,JS:1").realize(), made = () => f(own.sum(0), factors);
    assert.equal(collectivesOf(made), 1);
    for (const [i, t] of [made()].flat().entries()) {
      assertClose(await (t as Tensor).tolist(), await ([f(x.sum(0), w)].flat() as Tensor[])[i].tolist());
    }
  });
}

Deno.test("shards: gradients that are clipped by their norm are added up once", () => {
  const layer = new nn.Linear(6, 4, { bias: false }), x = rows(numbers(4, 6).float().div(9).realize()).realize();
  state.place(layer, mesh);
  const optimizer = new nn.optim.SGD([layer.weight], { lr: 0.1 });
  const before = GlobalCounters.collectiveBytes;
  Tensor.train(() => {
    layer.call(x).square().mean().backward();
    nn.utils.clipGradNorm([layer.weight], 0.1);
    optimizer.step();
  });
  assert.equal(GlobalCounters.collectiveBytes - before, 2 * 4 * (24 + 1), "the gradient and the loss, of two devices");
});
