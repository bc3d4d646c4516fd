/**
 * What the type checker takes and refuses: everyday lines, and lines that must not compile. `deno check` reads them (a
 * refusal that is gone is an unused directive, an error); the test runs those that compile, once.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import {
  Device,
  type DType,
  type DTypeName,
  dtypes,
  grad,
  IndexError,
  jit,
  jvp,
  nn,
  scope,
  state,
  Tensor,
  valueAndGrad,
  Variable,
  vmap,
} from "../mod.ts";
import * as dist from "../src/dist/dist.ts";
import { EmbeddingModel, LanguageModel } from "../src/llm/llm.ts";
import * as onnx from "../src/onnx/onnx.ts";
import * as tfjs from "../src/tfjs/tfjs.ts";

/** Compiles where `T` is `Want` and nothing else. */
type Same<T, Want> = (<X>() => X extends T ? 1 : 2) extends <X>() => X extends Want ? 1 : 2 ? true : false;
/** A place for the proof that two types are the same. */
function proven<_ extends true>(): void {}

Device.default = "JS";

const square = (x: Tensor): Tensor => x.mul(x).sum();

Deno.test("types: values that are read are numbers, arrays of numbers, or what the dtype named has", async () => {
  const t = new Tensor([1, 2, 3]), loss = t.float().mean();
  const one = await loss.item() + 1;
  let total = 0;
  total += await loss.item();
  total += loss.itemSync();
  const percent = `${((await loss.item()) * 100).toFixed(1)} %`;
  const largest = Math.max(await loss.item(), 0);
  const d = await t.data(),
    next = d[0] + 1,
    copy = new Float32Array(d),
    list = [...d],
    sum = list.reduce((a, b) => a + b);
  const sent = new Blob([d]).size + new Blob([t.dataSync(), d.buffer]).size;
  const bytes = sent + d.byteLength, part = d.slice(0, 2), top = Math.max(...d), doubled = Array.from(d, (x) => 2 * x);
  const ints = await t.data<"int32">(), wide = await t.cast("int64").data<"int64">();
  const yes = await t.gt(2).any().item<"bool">(), big = await t.cast("int64").max().item<"int64">();
  const z = await Tensor.complex(t.float(), t.float()).sum().item<"complex64">();
  const rows = await t.reshape([1, 3]).tolist<number[][]>(), first = rows[0][0] + 1;
  const floats = t.float().dataSync<"float32">().map((x) => x / 2);
  proven<Same<typeof one, number>>();
  proven<Same<typeof ints, Int32Array<ArrayBuffer>>>();
  proven<Same<typeof wide, BigInt64Array<ArrayBuffer>>>();
  proven<Same<typeof yes, boolean>>();
  proven<Same<typeof big, number | bigint>>();
  assertEquals([one, total, percent, largest], [3, 4, "200.0 %", 2]);
  assertEquals([next, copy.length, sum, bytes, part.length, top, doubled[1]], [2, 3, 6, 48, 2, 3, 4]);
  assertEquals([ints[2] + 1, wide[2] + 1n, yes, Number(big), z.re + z.im, first, floats[0]], [
    4,
    4n,
    true,
    3,
    12,
    2,
    0.5,
  ]);
});

Deno.test("types: creation, arithmetic, movement and reductions", async () => {
  const a = Tensor.zeros([2, 3]),
    b = Tensor.ones([2, 3], { dtype: "float64" }),
    c = Tensor.full([2], 7, { device: "JS" });
  const r = Tensor.rand([4]),
    n = Tensor.randn([2, 2]),
    e = Tensor.eye(3),
    k = Tensor.arange(10),
    w = Tensor.linspace(0, 1, 5);
  const f = new Tensor(new Float32Array(6)),
    g = new Tensor([[1, 2], [3, 4]], { requiresGrad: false }),
    h = new Tensor(true);
  const s = a.add(1).mul(b).sub(2).div(3).pow(2).neg(), m = g.matmul(g), o = g.eq(1).logicalNot();
  const shapes = [
    a.reshape([3, 2]),
    a.permute([1, 0]),
    a.T,
    a.transpose(0, 1),
    a.flatten(),
    a.unsqueeze(0).squeeze(0),
  ];
  const parts = [
    k.at(0),
    k.at([2, 5]),
    k.at([null, null, -1]),
    a.at(":", 1),
    a.at(null, "...", 0),
    k.at(new Tensor([1, 2])),
  ];
  const [left, right] = Tensor.ones([4]).split(2), joined = left.cat(right), high = left.stack(right);
  const mixed = Tensor.cat([[1, 2], left]).add(Tensor.hstack([[1, 2], [3, 4]])),
    picked: Tensor = Tensor.where([true, false], left, [0, 1]),
    product: Tensor = Tensor.einsum("i,ij->j", [left, [[1, 2], [3, 4]]]),
    [first] = Tensor.meshgrid([[1, 2], left]);
  const all = [s.sum(), s.sum(1), s.mean([0, 1]), s.max(-1, { keepdim: true }), s.argmax(), s.std(), s.logsumexp(1)];
  const [values, places] = k.float().topk(3), [mean, variance] = [r.mean(), r.var()];
  const where = o.where(g, 0),
    relu = n.relu().gelu().softmax(-1),
    i = e.inv(),
    total = f.size().reduce((x, y) => x * y, 1);
  const size: readonly number[] = a.shape, name: string = a.dtype.name, device: string = c.device;
  for (const row of g) assertEquals(row.ndim, 1);
  const some = [
    a,
    b,
    c,
    r,
    n,
    e,
    w,
    h,
    m,
    ...shapes,
    ...parts,
    joined,
    high,
    mixed,
    picked,
    product,
    first,
    ...all,
    values,
    places,
    mean,
    variance,
    where,
  ];
  assertEquals(some.every((t) => t instanceof Tensor), true);
  assertEquals([size.length, name, device, total, relu.ndim, i.ndim], [2, "float32", "JS", 6, 2, 2]);
  assertEquals(await m.tolist(), [[7, 10], [15, 22]]);
});

Deno.test("types: functions of functions give what they are given", async () => {
  const x = new Tensor([1.5, 2.5]), y = new Tensor([2.5]);
  const slope = grad(square)(x), [value, gradient] = valueAndGrad(square)(x);
  const [dx, dy] = grad((a: Tensor, b: Tensor) => a.mul(b).sum(), { argnums: [0, 1] })(x, y);
  const second = grad((a: Tensor, b: { w: Tensor }) => a.mul(b.w).sum(), { argnums: 1 })(x, { w: y });
  const [g, aux] = grad((a: Tensor): [Tensor, { count: number }] => [square(a), { count: 1 }], { hasAux: true })(x);
  const [, [gx, gy]] = valueAndGrad((a: Tensor, b: Tensor) => a.mul(b).sum(), { argnums: [0, 1] })(x, y);
  const each = vmap((a: Tensor) => a.mul(2))(x), [, tangent] = jvp(square, [x], [x]);
  const number = grad((k: number) => x.mul(k).sum())(3);
  proven<Same<typeof dx, Tensor>>();
  proven<Same<typeof second, { w: Tensor }>>();
  proven<Same<typeof aux.count, number>>();
  proven<Same<typeof number, Tensor>>();
  const all = [slope, value, gradient, dx, dy, second.w, g, gx, gy, each, tangent, number];
  assertEquals(all.map((t) => t instanceof Tensor), all.map(() => true));
  assertEquals([aux.count, await number.item()], [1, 4]);
});

Deno.test("types: jit keeps the form of arguments and results", async () => {
  const step = jit((x: Tensor, { scale }: { scale: number }) => ({ y: x.mul(scale), total: x.sum() }));
  const tuple = jit((x: Tensor): [Tensor, Tensor] => [x.add(1), x.sub(1)]);
  const { y, total } = step(new Tensor([1, 2]), { scale: 2 }), [more, less] = tuple(new Tensor([1]));
  const inside = scope(() => Tensor.ones([3]).sum()),
    late = await scope(async () => await Tensor.ones([3]).sum().item());
  const replays: number = step.stats.replays, i = new Variable("types_i", 0, 3);
  proven<Same<typeof late, number>>();
  const list = new Tensor([5, 6, 7, 8]), at = list.at(i.bind(2));
  assertEquals([await y.tolist(), await total.item(), replays], [[2, 4], 3, 0]);
  assertEquals([await more.item(), await less.item(), await inside.item(), late, await at.item()], [2, 0, 3, 3, 7]);
  // slices that were named first are arrays of their elements' type
  const n = i.bind(2),
    upTo = [0, n],
    from = [n, null],
    plain = [1, 3],
    steps = [null, null, -1],
    frozen = [0, n] as const;
  const parts = [upTo, from, plain, steps, frozen].map((s) => list.at(s).sum());
  assertEquals(await Promise.all(parts.map((t) => t.item())), [11, 15, 13, 26, 11]);
  list.setAt([upTo], 0);
  assertEquals(await list.tolist(), [0, 0, 7, 8]);
  // @ts-expect-error texts are no ends of slices
  assertThrows(() => list.at(["0", "2"]), IndexError);
});

Deno.test("types: layers, optimizers and losses", async () => {
  class Net {
    readonly one = new nn.Linear(4, 8);
    readonly two = new nn.Linear(8, 2, { bias: false });
    call(x: Tensor): Tensor {
      return this.two.call(this.one.call(x).relu());
    }
  }
  const net = new Net(), parameters = state.getParameters(net), named = state.getStateDict(net);
  const optimizer = new nn.optim.AdamW(parameters, { lr: 1e-3 });
  const losses: number[] = [];
  await Tensor.train(async () => {
    for (let i = 0; i < 2; i++) {
      optimizer.zeroGrad();
      const loss = net.call(Tensor.ones([3, 4])).crossEntropy(new Tensor([0, 1, 0]));
      loss.backward();
      optimizer.step();
      losses.push(await loss.item());
    }
  });
  const list = new nn.Sequential(new nn.Linear(4, 2), new nn.ReLU(), (x) => x.mul(2), new nn.Softmax(-1));
  const wrong = new nn.MSELoss({ reduction: "none" }).call(list.call(Tensor.ones([3, 4])), Tensor.zeros([3, 2]));
  assertEquals(wrong.shape, [3, 2]);
  const weight: Tensor | undefined = named["one.weight"];
  assertEquals([parameters.length, losses.length, weight?.shape], [3, 2, [8, 4]]);
});

Deno.test("types: names of dtypes and devices, also those that a program makes", () => {
  const made: string[] = [];
  for (const dtype of ["float32", "int8"]) made.push(new Tensor([1], { dtype, device: "JS" }).dtype.name);
  const half = (dtype = "float16") => Tensor.ones([2]).cast(dtype), { device = "JS" }: { device?: string } = {};
  const named: DTypeName = "uint8", given: DType = dtypes.float64, wide = { narrow: dtypes.int16, wide: dtypes.int64 };
  // options that were put together first, and what may be one name or another
  const options = { dtype: "float64", device: "JS" }, either = made.length > 0 ? "float16" : "bfloat16";
  const zeros = [Tensor.zeros([1], options), new Tensor([1], options), new Tensor([1], { ...options, dtype: either })];
  assertEquals(zeros.map((t) => t.dtype.name), ["float64", "float64", "float16"]);
  const places = [0].map((i) => `JS:${i}` as const),
    all = [named, given, wide.narrow].map((d) => Tensor.zeros([1]).cast(d));
  made.push(half().dtype.name, Tensor.full([1], 2, { device, dtype: named }).dtype.name, all[1].dtype.name);
  assertEquals(made, ["float32", "int8", "float16", "uint8", "float64"]);
  assertEquals([places[0], Tensor.ones([1], { device: places[0] }).device], ["JS:0", "JS"]);
  // optimizers are types, too, whatever device they were made for; one of them may be made into another class
  class Halved extends nn.optim.SGD {
    readonly half = 0.5;
  }
  const w = Tensor.ones([2]), settings = { lr: 0.1, device };
  const optimizers: nn.optim.Optimizer[] = [
    new nn.optim.SGD([w], { device: "JS" }),
    new nn.optim.Adam([w], settings),
    new Halved([w], { lr: 0.1, device: "js" }),
  ];
  const adam: nn.optim.Adam = new nn.optim.Adam([w], { device: "JS" }), was = Device.default;
  Device.default = device;
  Device.default = was;
  assertEquals([optimizers.length, adam.lr instanceof Tensor], [3, true]);
});

/** Lines that must not compile: never called. */
export function refused(t: Tensor): void {
  // @ts-expect-error: a promise is no number
  t.item() + 1;
  // @ts-expect-error: a shape is a list
  Tensor.zeros("2, 3");
  // @ts-expect-error: no such option
  Tensor.zeros([2], { dtyp: "float32" });
  // @ts-expect-error: a dtype is a name or a DType
  Tensor.zeros([2], { dtype: 32 });
  // @ts-expect-error: tensors have no operators
  t + t;
  // @ts-expect-error: no such method
  t.soft();
  // @ts-expect-error: a dtype is no number
  t.cast(16);
  // @ts-expect-error: an axis is a number
  t.softmax("last");
  // @ts-expect-error: no such reduction
  t.crossEntropy(t, { reduction: "average" });
  // @ts-expect-error: no such padding
  t.pad([[1, 1]], { mode: "mirror" });
  // @ts-expect-error: the function gives a promise
  jit(async (x: Tensor) => await x.item());
  // @ts-expect-error: an argument is missing
  jit((x: Tensor, y: Tensor) => x.add(y))(t);
  // @ts-expect-error: an argument of another type
  jit((x: Tensor) => x)(1);
  // @ts-expect-error: there are two gradients
  grad((a: Tensor, b: Tensor) => a.mul(b).sum(), { argnums: [0, 1] })(t, t).sum();
  // @ts-expect-error: no such option
  grad(square, { argnum: 1 });
  // @ts-expect-error: the values of bool are no numbers
  t.itemSync<"bool">() + 1;
  // @ts-expect-error: there is no such dtype
  t.itemSync<"float23">();
  // @ts-expect-error: the values of int64 are no numbers
  t.dataSync<"int64">()[0] + 1;
  // @ts-expect-error: a layer takes a tensor
  new nn.Linear(2, 2).call([1, 2]);
  // @ts-expect-error: no such option of the optimizer
  new nn.optim.SGD([t], { learningRate: 1 });
  // @ts-expect-error: there is no such dtype
  t.cast(dtypes.float23);
  // @ts-expect-error: there is no such dtype
  t.cast("float23");
  // @ts-expect-error: there is no such dtype
  new Tensor([1], { dtype: "float23" });
  // @ts-expect-error: there is no such dtype
  Tensor.zeros([1], { dtype: "float23", device: "WASM" });
  // @ts-expect-error: there is no such dtype
  t.sum(0, { dtype: "float23" });
  // @ts-expect-error: there is no such device
  new Tensor([1], { device: "WSAM" });
  // @ts-expect-error: there is no such device
  t.to("gpu");
  // @ts-expect-error: there is no such device
  t.to(["WASM", "cpu"]);
  // @ts-expect-error: there is no such device
  Tensor.rand([1], { dtype: "float32", device: "WASM:one" });
  // @ts-expect-error: there is no such device
  Device.get("WSAM");
  // @ts-expect-error: there is no such device
  Device.open("gpu");
  // @ts-expect-error: there is no such device
  Device.synchronize("CLANGG");
  // @ts-expect-error: there is no such device
  new nn.optim.AdamW([t], { lr: 1e-3, device: "gpu" });
  // @ts-expect-error: there is no such device
  new nn.optim.SGD([t], { device: "WSAM" });
  // @ts-expect-error: there is no such device
  new nn.optim.RMSprop([t], { device: "mps" });
  // @ts-expect-error: there is no such device
  nn.datasets.mnist("data", { device: "cpu" });
  // @ts-expect-error: there is no such device
  state.torchLoad("a.pt", { device: "cpu" });
  // @ts-expect-error: there is no such device
  state.npzLoad("a.npz", { device: "cpu" });
  // @ts-expect-error: there is no such device
  state.place({ t }, ["WASM", "WASM:one"]);
  // @ts-expect-error: there is no such device
  dist.Mesh.of({ data: 2 }, { devices: ["CLANG", "GPU:1"] });
  // @ts-expect-error: there is no such device
  dist.init({ device: "gpu" });
  // @ts-expect-error: there is no such device
  onnx.load("a.onnx", { device: "cpu" });
  // @ts-expect-error: there is no such device
  tfjs.loadGraphModel("model.json", { device: "webgl" });
  // @ts-expect-error: there is no such device
  tfjs.loadLayersModel("model.json", { device: "webgl" });
  // @ts-expect-error: there is no such device
  LanguageModel.load("a.gguf", { device: "metal" });
  // @ts-expect-error: there is no such device
  EmbeddingModel.load("a.gguf", { device: "metal" });
  // @ts-expect-error: a device is a name, here, too
  Device.default = 0;
  // @ts-expect-error: nor does a constant name one
  ((name) => Tensor.ones([1], name))({ dtype: "float23" } as const);
  // @ts-expect-error: no dtype of a file
  state.fromFile("a.bin", { dtype: "float23" });
  // @ts-expect-error: an activation takes no text
  new nn.LeakyReLU("0.1");
  // @ts-expect-error: no such reduction
  new nn.CrossEntropyLoss({ reduction: "average" });
  // @ts-expect-error: a number is no layer
  new nn.Sequential([new nn.Linear(2, 2), 3]);
  // @ts-expect-error: no name of a dtype
  "float23" satisfies DTypeName;
  // @ts-expect-error: a device is a name
  Tensor.zeros([2], { device: 0 });
  // @ts-expect-error: the shape of a tensor is read only
  t.shape = [1];
  // @ts-expect-error: what is read by name has its form
  (async () => (await t.tolist<number[]>())[0][0])();
}
