/**
 * Everyday programs of people who build pages, servers and tools with tensors, and of those who look inside, written
 * without a cast or a way around.
 */
import { assert, assertClose, assertEquals, assertThrows } from "@std/assert";
import { graphRewrite, PatternMatcher, rule, UPat } from "../../src/ir/ir.ts";
import {
  context,
  Device,
  DeviceError,
  jit,
  kernel,
  nn,
  record,
  schedule,
  scope,
  ShapeError,
  state,
  Tensor,
  Variable,
} from "../../mod.ts";
import { programs } from "./everyday.ts";

const program = programs("everyday apps", 2);

program("a server: a captured model, requests beside each other, JSON in and out", async () => {
  const model = new nn.Linear(3, 2), predict = jit((x: Tensor) => model.call(x).softmax(-1));
  const answer = async (request: Request): Promise<Response> => {
    const { inputs } = await request.json();
    return Response.json({ outputs: await predict(new Tensor(inputs, { dtype: "float32" })).tolist() });
  };
  const ask = (inputs: number[][]) =>
    answer(new Request("http://a/", { method: "POST", body: JSON.stringify({ inputs }) }));
  const answers = await Promise.all([1, 2, 3, 4, 5].map((k) => ask([[k, 0, 1], [0, 1, k]])));
  for (const response of answers) {
    const { outputs }: { outputs: number[][] } = await response.json();
    assertClose(outputs.map((row) => row[0] + row[1]), [1, 1], 1e-5);
  }
});

program("a page: XOR learned while timers run", async () => {
  const net = { a: new nn.Linear(2, 8), b: new nn.Linear(8, 1) };
  const x = new Tensor([[0, 0], [0, 1], [1, 0], [1, 1]], { dtype: "float32" }), y = new Tensor([[0], [1], [1], [0]]);
  const optimizer = new nn.optim.Adam(state.getParameters(net), { lr: 0.05 });
  const call = (x: Tensor) => net.b.call(net.a.call(x).tanh());
  const step = jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = call(x).binaryCrossentropyLogits(y.float()).backward();
      optimizer.step();
      return loss;
    })
  );
  let ticks = 0, loss = 1;
  const timer = setInterval(() => ticks++, 5), history: number[] = [];
  for (let i = 0; i < 200; i++) history.push(loss = await step().item());
  clearInterval(timer);
  assert(loss < 0.1 && ticks > 1, `${history.at(0)?.toFixed(3)} to ${loss.toFixed(3)}, ${ticks} ticks`);
  assertEquals(await call(x).gt(0).flatten().tolist<boolean[]>(), [false, true, true, false]);
});

program("an image from a canvas: pixels to channels, gray, blurred, edges, and back", async () => {
  const [width, height] = [8, 6], pixels = new Uint8ClampedArray(width * height * 4).fill(255);
  const image = new Tensor(pixels).reshape([height, width, 4]).at(":", ":", [0, 3]).permute([2, 0, 1]).float().div(255);
  const gray = image.mul(new Tensor([0.299, 0.587, 0.114]).reshape([3, 1, 1])).sum(0);
  const blurred = gray.reshape([1, 1, height, width]).avgPool2d([3, 3], {
    stride: 1,
    padding: 1,
    countIncludePad: false,
  });
  const edges = blurred.conv2d(new Tensor([[[[-1, 0, 1]]]], { dtype: "float32" }));
  const back = new Uint8ClampedArray(await gray.mul(255).round().clamp(0, 255).cast("uint8").data());
  assertEquals([edges.shape, back.length, back[0]], [[1, 1, 6, 6], 48, 255]);
  assertClose(await edges.abs().max().item(), 0, 1e-6);
});

program("search by meaning: nearest vectors, names and scores", async () => {
  const words = ["cat", "dog", "car"], vectors = new Tensor([[1, 0.1], [0.9, 0.3], [0, 1]]);
  const unit = vectors.div(vectors.square().sum(-1, { keepdim: true }).sqrt());
  const [scores, places] = unit.matmul(unit.at(0)).topk(2);
  const found = (await places.tolist<number[]>()).map((i) => words[i]), [first, second] = await scores.data();
  assertEquals(found, ["cat", "dog"]);
  assert(first > second && second > 0.9);
});

program("tables: columns to tensors, groups, means, missing values", async () => {
  const rows = [{ kind: "a", size: 1 }, { kind: "b", size: 4 }, { kind: "a", size: 3 }, { kind: "b", size: null }];
  const kinds = [...new Set(rows.map((r) => r.kind))], size = new Tensor(rows.map((r) => r.size ?? NaN));
  const group = new Tensor(rows.map((r) => kinds.indexOf(r.kind))).oneHot(kinds.length).bool(),
    known = size.isnan().logicalNot();
  const mask = group.logicalAnd(known.unsqueeze(1)), sums = mask.where(size.unsqueeze(1), 0).sum(0);
  const means = await sums.div(mask.sum(0)).tolist<number[]>();
  assertEquals(Object.fromEntries(kinds.map((k, i) => [k, means[i]])), { a: 2, b: 4 });
});

program("sequences of any length by one captured function", async () => {
  const n = new Variable("everyday_n", 1, 16), buffer = Tensor.arange(16).cast("float32").realize();
  const mean = jit((x: Tensor) => x.mean());
  const means: number[] = [];
  for (const length of [2, 3, 7, 16]) means.push(await mean(buffer.at([0, n.bind(length)])).item());
  assertClose(means, [0.5, 1, 3, 7.5], 1e-5);
  assertEquals(mean.stats.captures <= 2, true);
});

program("memory: scopes and using leave nothing behind", async () => {
  const total = () => Device.memory().WASM?.count ?? 0, start = total();
  for (let i = 0; i < 20; i++) {
    const kept = scope(() => Tensor.ones([64]).contiguous().add(i).realize().sum().realize());
    using twice = kept.mul(2).realize();
    assertEquals(await twice.item(), 128 * (i + 1));
    kept.dispose();
  }
  assert(total() <= start + 2, `${start} to ${total()}`);
});

program("devices: what is here, by name, and why not", async () => {
  const here = Device.list().filter((d) => d.available).map((d) => d.name),
    best = here.find((d) => d === "WASM") ?? "JS";
  const t = new Tensor([1, 2, 3], { device: best }).to("JS");
  assertEquals([t.device, await t.sum().item()], ["JS", 6]);
  assertThrows(() => new Tensor([1], { device: "TPU" as string }), DeviceError, "TPU");
});

program("errors are classes with fields", () => {
  try {
    Tensor.ones([2, 3]).matmul(Tensor.ones([2, 3]));
    assert(false);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    assertEquals([error.name, error.shapes.length], ["ShapeError", 2]);
  }
});

program("looking inside: kernels of a schedule, a recording of rules, settings for a function", () => {
  const make = () => Tensor.rand([16, 16]).contiguous().realize().softmax(-1).sum();
  const seen = record(() => make().add(0.25).realize()), items = schedule([make()]);
  const unfused = context({ NOOPT: 1 }, () => make().itemSync());
  assert(items.length >= 1 && items.length <= 3, `${items.length} kernels`);
  assert(seen.passes.some((p) => p.changes.length > 0), `${seen.passes.length} passes`);
  assertClose(unfused, 16, 1e-4);
});

program("a rule of one's own", async () => {
  const x = UPat.var("x"), y = UPat.var("y"), z = UPat.var("z");
  const factor = new PatternMatcher("factor", [
    rule(x.mul(y).add(x.mul(z)), ({ x, y, z }) => x.mul(y.add(z))),
  ]);
  const [a, b, c] = [[2, 3], [5, 7], [1, 1]].map((list) => new Tensor(list).realize());
  assertEquals(await new Tensor(graphRewrite(a.mul(b).add(a.mul(c)).uop, factor)).tolist(), [12, 24]);
});

program("a kernel of one's own, with its gradient", async () => {
  const cube = (x: Tensor): Tensor => {
    const [y] = Tensor.empty(x.shape, { dtype: "float32" }).customKernel([x], (out, x) => {
      const i = kernel.loop(3), v = kernel.read(x, i);
      return kernel.write(out, i, v.mul(v).mul(v));
    }, { gradFxn: (g, x) => [g.mul(x.square().mul(3))] });
    return y;
  };
  const x = new Tensor([1.5, 2, -1], { requiresGrad: true }).realize();
  const y = cube(x);
  y.sum().backward();
  assertClose(await y.tolist(), [3.375, 8, -1], 1e-5);
  assertClose(await x.grad!.tolist(), [6.75, 12, 3], 1e-5);
});
