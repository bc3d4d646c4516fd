/** Simulated ranks: costs by hand, the collectives and the traffic of real devices, and thousands of ranks of a GPT. */
import assert from "node:assert/strict";
import { Gpt } from "../../examples/gpt_support.ts";
import { Device, GlobalCounters, nn, state, Tensor } from "../../mod.ts";
import { collectiveCost, Mesh, simulate } from "../../src/dist/dist.ts";

Device.default = "JS";
const MACHINE = { bandwidth: 1e9, latency: 1e-5, flops: 1e12 } as const;

Deno.test("simulate: what collectives send, and after how many messages they are done", () => {
  for (
    const [kind, ranks, sent, messages] of [
      ["allReduce", 4, 1500, 4],
      ["allReduce", 1000, 1998, 20],
      ["reduceScatter", 4, 750, 2],
      ["allGather", 4, 3000, 2],
      ["allToAll", 8, 875, 3],
      ["permute", 8, 1000, 1],
      ["allReduce", 1, 0, 0],
    ] as const
  ) assert.deepEqual(collectiveCost(kind, ranks, 1000), { sent, messages });
});

/** A step of two layers with all gradients and weights updated. */
function twoLayers(mesh: Mesh, shard?: string): () => void {
  const model = [new nn.Linear(64, 128), new nn.Linear(128, 32)];
  state.place(model, mesh, shard === undefined ? {} : { shard });
  const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 });
  const x = Tensor.ones([256, 64]).shard(mesh, ["data", null]).realize();
  return () =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      model[1].call(model[0].call(x).relu()).square().mean().backward();
      optimizer.step();
    });
}

Deno.test("simulate: data parallel sends each gradient round once, whatever the number of ranks", () => {
  const bytes = 4 * (64 * 128 + 128 + 128 * 32 + 32);
  for (const ranks of [1, 2, 4, 64, 256]) {
    const got = simulate({ ...MACHINE, ranks }, (mesh) => twoLayers(mesh));
    const want = 2 * (ranks - 1) / ranks * bytes;
    // gradients begin at multiples of 256 bytes, and the loss goes along
    assert.ok(
      got.trafficBytes >= want && got.trafficBytes <= want + 2 * 1024,
      `${ranks}: ${got.trafficBytes} for ${want}`,
    );
    assert.equal(got.ranks, ranks);
    assert.ok(
      got.overlappedMs <= got.timeMs + 1e-9 && got.overlappedMs >= Math.max(got.computeMs, got.collectiveMs) - 1e-9,
    );
    assert.ok(Math.abs(got.timeMs - got.computeMs - got.collectiveMs) < 1e-9);
    const messages = ranks === 1 ? 0 : 2 * Math.ceil(Math.log2(ranks)) * got.collectives;
    assert.ok(Math.abs(got.collectiveMs - (got.trafficBytes / 1e6 + messages * 1e-2)) < 1e-9);
  }
});

Deno.test("simulate: collectives are those of devices that are there", () => {
  for (const shard of [undefined, "data"]) {
    for (const ranks of [2, 4]) {
      const devices = ["JS", "JS:1", "JS:2", "JS:3"].slice(0, ranks),
        step = twoLayers(Mesh.of({ data: ranks }, { devices }), shard);
      step();
      const before = GlobalCounters.collectiveCount;
      step();
      const want = GlobalCounters.collectiveCount - before;
      const got = simulate({ ...MACHINE, ranks }, (mesh) => twoLayers(mesh, shard));
      assert.equal(got.collectives, want);
      assert.ok(want > 1);
    }
  }
});

Deno.test("simulate: what is divided takes less memory", () => {
  const of = (shard?: string) => simulate({ ...MACHINE, ranks: 8 }, (mesh) => twoLayers(mesh, shard)).memoryBytes;
  assert.ok(of("data") < of(), `${of("data")} ${of()}`);
});

Deno.test("simulate: ten thousand ranks of a GPT", () => {
  const shape = { vocabulary: 1024, context: 32, layers: 2, heads: 8, width: 64 };
  const train = (perRank: number) => (mesh: Mesh) => {
    const rows = perRank * mesh.sizeOf("data"), model = new Gpt(shape, mesh);
    state.place(model, mesh, { shard: "data", zero: 1 });
    const optimizer = new nn.optim.AdamW(state.getParameters(model));
    const tokens = Tensor.zeros([rows, 32], { dtype: "int32" }).shard(mesh, ["data", null]).realize();
    return () =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        model.loss(tokens, tokens).backward();
        optimizer.step();
      });
  };
  const machine = { bandwidth: { data: 50e9, model: 450e9 }, latency: 5e-6, flops: 4e14, memoryBandwidth: 3e12 };
  const few = simulate({ ...machine, ranks: { data: 2, model: 8 } }, train(2));
  const many = simulate({ ...machine, ranks: { data: 1250, model: 8 } }, train(2));
  assert.equal(many.ranks, 10_000);
  assert.ok(Math.abs(many.flops / few.flops - 1) < 0.05, "a rank computes as much");
  assert.ok(many.trafficBytes > few.trafficBytes && many.trafficBytes < 3 * few.trafficBytes);
  const some = simulate({ ...machine, ranks: { data: 32, model: 8 } }, train(2));
  assert.ok(some.memoryBytes < few.memoryBytes, "what the optimizer keeps is divided further");
});

Deno.test("simulate: bad machines are told, and the default device is what it was", () => {
  const program = () => () => {}, bad = (options: unknown) => () => simulate(options as never, program);
  assert.throws(bad({ ...MACHINE, ranks: 2, flops: 0 }), /flops must be a number above 0, not 0/);
  assert.throws(
    bad({ ...MACHINE, ranks: { data: 2, model: 2 }, bandwidth: { data: 1 } }),
    /bandwidth of axis model must be/,
  );
  assert.throws(bad({ ...MACHINE }), /ranks must be a number, or sizes by axis/);
  assert.throws(bad({ ...MACHINE, ranks: 2, cards: 3 }), /unknown option "cards"/);
  assert.throws(() =>
    simulate({ ...MACHINE, ranks: 2 }, () => {
      throw new Error("a mistake");
    }), /a mistake/);
  assert.equal(Device.default, "JS");
});

Deno.test("simulate: the chart of the documentation shows all that bench:dist draws", async () => {
  const svg = await Deno.readTextFile(new URL("../../docs/distributed_scaling.svg", import.meta.url));
  const page = await Deno.readTextFile(new URL("../../docs/distributed.md", import.meta.url));
  assert.match(page, /!\[[^\]]+\]\(distributed_scaling\.svg\)/);
  assert.match(svg, /^<svg [^]*<\/svg>\s*$/);
  for (const name of ["GPT-2 XL, 2 of 48 layers", "GPT-3 6.7B, 2 of 32 layers"]) assert.ok(svg.includes(name));
});
