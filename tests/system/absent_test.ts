/**
 * `undefined` is absent: every public function that has optional arguments or options gives the same with each of them
 * explicitly undefined. The names of options are those that the function itself lists where it refuses an unknown one.
 */
import { assertEquals } from "@std/assert";
import {
  ArgumentError,
  context,
  grad,
  jit,
  jvp,
  nn,
  scope,
  state,
  Tensor,
  valueAndGrad,
  Variable,
  vmap,
} from "../../mod.ts";

const device = "JS";
const f = new Tensor([[0.5, -1.25, 2], [3, -0.75, 1.5]], { device, dtype: "float64" }).realize();
const square = new Tensor([[4, 1], [1, 3]], { device, dtype: "float64" }).realize();
const i = new Tensor([[1, 2, 0], [2, 0, 1]], { device, dtype: "int16" }).realize();
const b = new Tensor([[true, false, true], [false, false, true]], { device }).realize();
const image = Tensor.arange(32, undefined, undefined, { device, dtype: "float64" }).reshape([1, 2, 4, 4]).realize();
const kernel = Tensor.arange(18, undefined, undefined, { device, dtype: "float64" }).reshape([1, 2, 3, 3]).realize();
const kernelT = kernel.reshape([2, 1, 3, 3]);
const classes = new Tensor([1, 0], { device });
const row = f.at(0);
const q = f.reshape([1, 1, 2, 3]);
const seeded = <T>(make: () => T) => {
  Tensor.manualSeed(7);
  return make();
};

/** The arguments that must be, how many may follow by position, and whether an options object is the last. */
type Row = readonly [name: string, on: object, required: readonly unknown[], optional: number, options?: boolean];
const ROWS: readonly Row[] = [
  ...["add", "sub", "mul", "floorDiv", "mod", "pow", "div"].map((n): Row => [n, f, [1.5], 0, true]),
  ...["bitwiseAnd", "bitwiseOr", "bitwiseXor", "lshift", "rshift"].map((n): Row => [n, i, [1], 0, true]),
  ...["all", "any", "argmax", "argmin", "max", "min", "mean", "logsumexp", "prod", "sum"]
    .map((n): Row => [n, f, [], 1, true]),
  ...["std", "var", "stdMean", "varMean"].map((n): Row => [n, f, [], 1, true]),
  ...["argsort", "sort"].map((n): Row => [n, f, [], 1, true]),
  ...["softmax", "logSoftmax", "softmin", "layernorm"].map((n): Row => [n, f, [], 1, true]),
  ...["cummax", "cummin", "cumsum", "logcumsumexp"].map((n): Row => [n, f, [], 1]),
  ["cumprod", f, [1], 0],
  ["allclose", f, [f], 0, true],
  ["isclose", f, [f], 0, true],
  ["isinf", f, [], 0, true],
  ["avgPool2d", image, [], 1, true],
  ["maxPool2d", image, [], 1, true],
  ["maxUnpool2d", image.maxPool2d([2, 2]), [image.maxPool2d([2, 2], { returnIndices: true })[1]], 1, true],
  ["batchnorm", image, [1, 1, 0, 1].map((x) => new Tensor([x, 2], { device })), 1],
  ["binaryCrossentropy", f.sigmoid(), [b.cast("float64")], 1],
  ["binaryCrossentropyLogits", f, [b.cast("float64")], 0, true],
  ["crossEntropy", f, [classes], 0, true],
  ["sparseCategoricalCrossentropy", f, [classes], 0, true],
  ["nllLoss", f, [classes], 1, true],
  ["cat", f, [[f]], 1],
  ["stack", f, [[f]], 1],
  ["chunk", f, [2], 1],
  ["split", f, [1], 1],
  ["celu", f, [], 1],
  ["elu", f, [], 1],
  ["leakyRelu", f, [], 1],
  ["softplus", f, [], 1],
  ["gelu", f, [], 0, true],
  ["selu", f, [], 0, true],
  ["hardsigmoid", f, [], 0, true],
  ["hardtanh", f, [], 0, true],
  ["clamp", f, [0], 1],
  ["clone", f, [], 0, true],
  ["constLike", f, [3], 0, true],
  ["fullLike", f, [0.1], 0, true],
  ["zerosLike", f, [], 0, true],
  ["onesLike", i, [], 0, true],
  ["randLike", f, [], 0, true],
  ["randnLike", f, [], 0, true],
  ["conv2d", image, [kernel], 1, true],
  ["convTranspose2d", image, [kernelT], 1, true],
  ["diagonal", square, [], 0, true],
  ["dot", f, [f.transpose(0, 1)], 0, true],
  ["matmul", f, [f.transpose(0, 1)], 0, true],
  ["linear", f, [square.at(0).reshape([1, 2]).expand([3, 2])], 1, true],
  ["dropout", f, [], 1],
  ["flatten", image, [], 2],
  ["interpolate", image, [[3, 3]], 0, true],
  ["maskedSelect", f, [b], 0, true],
  ["nonzero", i, [], 0, true],
  ["meshgrid", row, [[row]], 0, true],
  ["multinomial", f.abs(), [], 0, true],
  ["newtonSchulz", square, [2, [3.4, -4.7, 2]], 1],
  ["normalize", f, [], 0, true],
  ["pad", f, [[[1, 1], [0, 2]]], 0, true],
  ["padTo", f, [[3, 4]], 0, true],
  ["repeatInterleave", f, [2], 1],
  ["roll", f, [1], 1],
  ["scaledDotProductAttention", q, [q, q], 1, true],
  ["scatter", f, [1, i.cast("int32"), f], 1],
  ["scatterReduce", f, [1, i.cast("int32"), f, "sum"], 1],
  ["size", f, [], 1],
  ["squeeze", q, [], 1],
  ["svd", square, [], 1],
  ["topk", f, [2], 1, true],
  ["transpose", f, [], 2],
  ["tril", f, [], 1],
  ["triu", f, [], 1],
  ["realize", f.add(1), [], 1],
  ...["zeros", "ones", "rand", "randn", "randint", "uniform", "normal", "kaimingNormal", "kaimingUniform"]
    .map((n): Row => [n, Tensor, [[2, 3]], 0, true]),
  ...["glorotUniform", "scaledUniform"].map((n): Row => [n, Tensor, [[2, 3]], 0, true]),
  ["full", Tensor, [[2], 0.1], 0, true],
  ["full", Tensor, [[2], 3], 0, true],
  ["arange", Tensor, [5], 2, true],
  ["linspace", Tensor, [0, 1, 5], 0, true],
  ["eye", Tensor, [3], 1, true],
  ["randperm", Tensor, [5], 0, true],
  ["einsum", Tensor, ["ij,kj->ik", [f, f]], 0, true],
  ["cat", Tensor, [[f, f]], 1],
  ["stack", Tensor, [[f, f]], 1],
  ["fromBlob", Tensor, [new Float64Array([1, 2]), [2]], 0, true],
];

/** What can be compared of a result: values and dtypes of tensors, in lists too. */
async function shown(x: unknown): Promise<unknown> {
  const now = await x;
  if (now instanceof Tensor) return [now.dtype.name, now.device, now.requiresGrad ?? false, await now.tolist()];
  if (Array.isArray(now)) return await Promise.all(now.map(shown));
  return now;
}

/** The options that a call knows, as its error for an unknown one says. */
function known(call: (options: object) => unknown): string[] {
  try {
    call({ noSuchOption: 1 });
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    const found = /known are (.*)$/.exec(error.message);
    if (found !== null) return found[1].split(", ");
  }
  throw new Error("an unknown option was taken");
}

for (const [name, on, required, optional, options] of ROWS) {
  Deno.test(`absent: ${on === Tensor ? "Tensor." : ""}${name}(${required.length}, ${optional})`, async () => {
    const call = (...more: unknown[]): Promise<unknown> =>
      seeded(() => shown((on as Record<string, (...args: unknown[]) => unknown>)[name](...required, ...more)));
    const want = await call();
    const gaps = new Array<undefined>(optional).fill(undefined);
    for (let n = 1; n <= optional; n++) assertEquals(await call(...gaps.slice(0, n)), want, `${n} times undefined`);
    if (!options) return;
    assertEquals(await call(...gaps, undefined), want, "the options");
    assertEquals(await call(...gaps, {}), want, "no options");
    const method = (on as Record<string, (...args: unknown[]) => unknown>)[name];
    const names = known((o) => method.call(on, ...required, ...gaps, o));
    for (const o of names) assertEquals(await call(...gaps, { [o]: undefined }), want, o);
    assertEquals(await call(...gaps, Object.fromEntries(names.map((o) => [o, undefined]))), want, "all");
  });
}

/** Makers of objects: what they show after a use. */
const MAKERS: Readonly<Record<string, (options?: object) => unknown>> = {
  "new Tensor": (o) => new Tensor([1, 2], o),
  "new Tensor of floats": (o) => new Tensor(new Float64Array([1, 2]), o),
  "Linear": (o) => new nn.Linear(3, 2, o).call(f.float()),
  "Conv2d": (o) => new nn.Conv2d(2, 1, 3, o).call(image.float()),
  "Conv1d": (o) => new nn.Conv1d(2, 1, 3, o).call(image.float().reshape([1, 2, 16])),
  "ConvTranspose2d": (o) => new nn.ConvTranspose2d(2, 1, 3, o).call(image.float()),
  "BatchNorm": (o) => new nn.BatchNorm(2, o).call(image.float()),
  "LayerNorm": (o) => new nn.LayerNorm([3], o).call(f.float()),
  "GroupNorm": (o) => new nn.GroupNorm(1, 2, o).call(image.float()),
  "InstanceNorm": (o) => new nn.InstanceNorm(2, o).call(image.float()),
  "RMSNorm": (o) => new nn.RMSNorm(3, o).call(f.float()),
  "LSTMCell": (o) => new nn.LSTMCell(3, 2, o).call(f.float()),
  ...Object.fromEntries((["SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon"] as const).map((n) => [n, (o?: object) => {
    const w = new Tensor([[1, 2], [3, 4]], { requiresGrad: true, device }),
      optimizer = new nn.optim[n]([w], o as never);
    Tensor.train(() => {
      w.square().sum().backward();
      optimizer.step();
    });
    return w.detach();
  }])),
  "getStateDict": (o) => Object.keys(state.getStateDict({ a: f }, o as never)),
  "jit": (o) => {
    const g = jit((x: Tensor) => x.add(1), o as never);
    g(f);
    return g(f);
  },
  "grad": (o) => grad((x: Tensor) => x.square().sum(), o as never)(f),
  "valueAndGrad": (o) => valueAndGrad((x: Tensor) => x.square().sum(), o as never)(f),
  "vmap": (o) => vmap((x: Tensor) => x.sum(), o as never)(f),
};

for (const [name, make] of Object.entries(MAKERS)) {
  Deno.test(`absent: ${name}`, async () => {
    const shownOf = (o?: object): Promise<unknown> => context({ DEV: device }, () => seeded(() => shown(make(o))));
    const want = await shownOf();
    const names = known(make);
    for (const o of names) assertEquals(await shownOf({ [o]: undefined }), want, o);
    assertEquals(await shownOf(Object.fromEntries(names.map((o) => [o, undefined]))), want, "all");
  });
}

Deno.test("absent: fields of context, the gradient of backward, the end of a Variable's arange", async () => {
  assertEquals(context({ DEFAULT_FLOAT: undefined }, () => new Tensor(0.5).dtype.name), "float32");
  assertEquals(scope(() => 3), 3);
  const x = new Tensor([1, 2], { requiresGrad: true, device });
  x.square().sum().backward(undefined);
  assertEquals(await x.grad!.tolist(), [2, 4]);
  const [value, slope] = jvp((t: Tensor) => t.mul(3), [f], [f]);
  assertEquals((await shown([value, slope]) as unknown[]).length, 2);
  assertEquals(await Tensor.arange(new Variable("n", 1, 9).bind(3), undefined, undefined, undefined).sum().item(), 3);
});
