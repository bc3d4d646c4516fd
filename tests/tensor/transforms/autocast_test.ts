/** autocast: the dtype of each op beside PyTorch's (2.13, `torch.autocast("cpu")`), values, gradients, jit, and what holds. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, autocast, Device, DTypeError, jit, nn, state, Tensor } from "../../../mod.ts";

Device.get("JS");
Device.get();

type Make = (d: string) => Tensor;
const m: Make = (dtype) => new Tensor([[0.5, 0.25], [0.75, 0.5]], { dtype });
const b: Make = (dtype) => m(dtype).unsqueeze(0);
const v: Make = (dtype) => new Tensor([0.5, 0.25], { dtype });
const img: Make = (dtype) => Tensor.ones([1, 2, 4, 4], { dtype });
const target = new Tensor([0, 1]);

/**
 * By what they are of tensors of a dtype. "low": the low dtype of either. "both": float32, as PyTorch on CPUs and CUDA.
 * "cuda": float32, as PyTorch on CUDA; on CPUs it keeps the low dtype. "same": the dtype that is given.
 */
const OPS: Readonly<Record<"low" | "both" | "cuda" | "same", Readonly<Record<string, (d: string) => Tensor>>>> = {
  low: {
    matmul: (d) => m(d).matmul(m(d)),
    mm: (d) => m(d).mm(m(d)),
    vecdot: (d) => m(d).vecdot(m(d)),
    bmm: (d) => b(d).bmm(b(d)),
    linear: (d) => m(d).linear(m(d), v(d)),
    addmm: (d) => m(d).addmm(m(d), m(d)),
    baddbmm: (d) => b(d).baddbmm(b(d), b(d)),
    addbmm: (d) => m(d).addbmm(b(d), b(d)),
    einsum: (d) => Tensor.einsum("ij,jk->ik", [m(d), m(d)]),
    tensordot: (d) => m(d).tensordot(m(d), 1),
    inner: (d) => m(d).inner(m(d)),
    multiDot: (d) => m(d).multiDot([m(d), m(d)]),
    matrixPower: (d) => m(d).matrixPower(3),
    conv2d: (d) => img(d).conv2d(img(d)),
    convTranspose2d: (d) => img(d).convTranspose2d(img(d).transpose(0, 1)),
    scaledDotProductAttention: (d) => b(d).scaledDotProductAttention(b(d), b(d)),
  },
  both: {
    prod: (d) => m(d).prod(),
    quantile: (d) => m(d).quantile(0.5),
    mseLoss: (d) => m(d).mseLoss(m(d)),
    l1Loss: (d) => m(d).l1Loss(m(d)),
    huberLoss: (d) => m(d).huberLoss(m(d)),
    smoothL1Loss: (d) => m(d).smoothL1Loss(m(d)),
    crossEntropy: (d) => m(d).crossEntropy(target),
    nllLoss: (d) => m(d).nllLoss(target),
    binaryCrossentropy: (d) => m(d).binaryCrossentropy(m(d)),
    binaryCrossentropyLogits: (d) => m(d).binaryCrossentropyLogits(m(d)),
    klDiv: (d) => m(d).klDiv(m(d)),
    cdist: (d) => m(d).cdist(m(d)),
    multilabelMarginLoss: (d) => m(d).multilabelMarginLoss(new Tensor([[0, -1], [1, 0]])),
    tripletMarginLoss: (d) => m(d).tripletMarginLoss(m(d), m(d)),
    poissonNllLoss: (d) => m(d).poissonNllLoss(m(d)),
    gridSample: (d) => img(d).gridSample(Tensor.zeros([1, 2, 2, 2], { dtype: d })),
    inv: (d) => m(d).add(Tensor.eye(2, { dtype: d })).inv(),
    svd: (d) => m(d).svd()[0],
    qr: (d) => m(d).qr()[0],
    cholesky: (d) => Tensor.eye(2, { dtype: d }).cholesky(),
    solve: (d) => Tensor.eye(2, { dtype: d }).solve(m(d)),
    trace: (d) => m(d).trace(),
    choleskyInverse: (d) => Tensor.eye(2, { dtype: d }).choleskyInverse(),
    householderProduct: (d) => m(d).householderProduct(v(d)),
    ormqr: (d) => m(d).ormqr(v(d), m(d)),
    tensorinv: (d) => Tensor.eye(4, { dtype: d }).reshape([2, 2, 2, 2]).tensorinv(),
    tensorsolve: (d) => Tensor.eye(2, { dtype: d }).tensorsolve(v(d)),
    lobpcg: (d) => Tensor.eye(9, { dtype: d }).lobpcg({ k: 1 })[0],
    logdet: (d) => Tensor.eye(2, { dtype: d }).logdet(), // PyTorch refuses half precision in this and the two below
    ldlFactor: (d) => Tensor.eye(2, { dtype: d }).ldlFactor()[0],
    ldlSolve: (d) => Tensor.eye(2, { dtype: d }).ldlSolve(new Tensor([1, 2]), m(d)),
    "of two dtypes": (d) => m(d).add(m("float32")),
    "cat of two dtypes": (d) => m(d).cat([m("float32")]),
  },
  cuda: {
    exp: (d) => m(d).exp(),
    log: (d) => m(d).log(),
    pow: (d) => m(d).pow(2),
    reciprocal: (d) => m(d).reciprocal(),
    rsqrt: (d) => m(d).rsqrt(),
    tan: (d) => m(d).tan(),
    softplus: (d) => m(d).softplus(),
    sum: (d) => m(d).sum(),
    cumsum: (d) => m(d).cumsum(0),
    norm: (d) => m(d).norm(),
    softmax: (d) => m(d).softmax(),
    logSoftmax: (d) => m(d).logSoftmax(),
    layernorm: (d) => m(d).layernorm(),
    normalize: (d) => m(d).normalize(),
    cosineSimilarity: (d) => m(d).cosineSimilarity(m(d)),
  },
  same: {
    add: (d) => m(d).add(1),
    div: (d) => m(d).div(m(d)),
    relu: (d) => m(d).relu(),
    sigmoid: (d) => m(d).sigmoid(),
    tanh: (d) => m(d).tanh(),
    gelu: (d) => m(d).gelu(),
    silu: (d) => m(d).silu(),
    mish: (d) => m(d).mish(),
    elu: (d) => m(d).elu(),
    logsigmoid: (d) => m(d).logsigmoid(),
    square: (d) => m(d).square(),
    sqrt: (d) => m(d).sqrt(),
    erf: (d) => m(d).erf(),
    mean: (d) => m(d).mean(),
    std: (d) => m(d).std(),
    max: (d) => m(d).max(),
    median: (d) => m(d).median(),
    outer: (d) => v(d).outer(v(d)),
    avgPool2d: (d) => img(d).avgPool2d(2),
    maxPool2d: (d) => img(d).maxPool2d(2),
    reshape: (d) => m(d).reshape([4]),
  },
};

for (const [kind, ops] of Object.entries(OPS)) {
  Deno.test(`autocast: dtypes of ${Object.keys(ops).length} ops: ${kind}`, () => {
    for (const [name, op] of Object.entries(ops)) {
      for (const low of ["bfloat16", "float16"] as const) {
        const got = autocast({ dtype: low }, () => [op("float32").dtype.name, op(low).dtype.name]);
        const want = kind === "low" ? [low, low] : ["float32", kind === "same" ? low : "float32"];
        assertEquals(got, want, name);
      }
      if (kind !== "low") continue;
      assertEquals(op("float32").dtype.name, "float32", `${name} outside`);
      assertEquals(autocast({ enabled: false }, () => op("float32").dtype.name), "float32");
      assertEquals(autocast(() => op("float64").dtype.name), "float64", `${name} of float64`);
    }
  });
}

Deno.test("autocast: values are those of casts by hand", () => {
  const x = new Tensor([[1.001, 2.003], [3.007, -4.001]]), w = new Tensor([[0.1, 0.2], [0.3, -0.4]]);
  for (const low of ["bfloat16", "float16"] as const) {
    const by = x.cast(low).matmul(w.cast(low)), hand = by.float().softmax();
    const made = autocast({ dtype: low }, () => x.matmul(w).softmax());
    assertEquals(made.tolistSync(), hand.tolistSync());
    const einsum = autocast({ dtype: low }, () => Tensor.einsum("ij,jk->ik", [x, w]));
    assertEquals(einsum.tolistSync(), by.tolistSync());
  }
});

Deno.test("autocast: holds for what it awaits, nests, and for tensors of its device", async () => {
  const x = m("float32"), dtype = (t: Tensor = x) => t.matmul(t).dtype.name;
  const seen = await autocast(async () => {
    await Promise.resolve();
    return [
      dtype(),
      autocast({ enabled: false }, () => dtype()),
      autocast({ dtype: "float16" }, () => dtype()),
      dtype(),
    ];
  });
  assertEquals(seen, ["bfloat16", "float32", "float16", "bfloat16"]);
  assertEquals(dtype(), "float32");
  const js = x.to("JS").realize(), there = autocast({ device: "JS", dtype: "float16" }, () => [dtype(js), dtype()]);
  assertEquals(there, ["float16", js.device === x.device ? "float16" : "float32"]);
  assertEquals(autocast("JS", () => dtype(js)), "bfloat16");
  assertEquals(autocast("JS", { dtype: "float16" }, () => dtype(js)), "float16");
  await assertRejects(() => autocast(() => Promise.reject(new Error("late"))), Error, "late");
  assertThrows(
    () =>
      autocast(() => {
        throw new Error("now");
      }),
    Error,
    "now",
  );
  assertEquals([dtype(), autocast(() => dtype())], ["float32", "bfloat16"], "as before after an error");
});

Deno.test("autocast: what it refuses", () => {
  assertThrows(() => autocast({ dtype: "float32" }, () => 1), DTypeError, "it must be float16 or bfloat16");
  assertThrows(() => autocast({ dtype: "bfloat16" } as never), ArgumentError, "fn must be a function, not an object");
  assertThrows(() => autocast({ type: "bfloat16" } as never, () => 1), ArgumentError, 'unknown option "type"');
  assertThrows(() => autocast({ enabled: 1 } as never, () => 1), ArgumentError, "enabled must be a boolean");
  assertThrows(() => autocast({ device: "TPU" as string }, () => 1), Error, "TPU");
  assertThrows(() => autocast(function* () {}), ArgumentError, "generator in autocast()");
  assertThrows(() => autocast("JS", { device: "JS" } as never, () => 1), ArgumentError, 'unknown option "device"');
  assertThrows(() => (autocast as (...x: unknown[]) => unknown)({}, {}, () => 1), ArgumentError, "not 2 arguments");
});

Deno.test("autocast: captured calls are keyed by it", () => {
  const x = m("float32").realize(), f = jit((x: Tensor) => x.matmul(x));
  for (let i = 0; i < 3; i++) {
    assertEquals(f(x).dtype.name, "float32");
    assertEquals(autocast(() => f(x)).dtype.name, "bfloat16");
    assertEquals(autocast({ dtype: "float16" }, () => f(x)).dtype.name, "float16");
  }
});

for (const dtype of ["bfloat16", "float16"] as const) {
  Deno.test(`autocast: ${dtype} trains under jit, with a scaled loss, and weights stay float32`, async () => {
    Tensor.manualSeed(5);
    const model = { a: new nn.Linear(2, 8), norm: new nn.LayerNorm(8), b: new nn.Linear(8, 2) };
    const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.05 });
    const scaler = new nn.optim.GradScaler({ initScale: 1024 });
    const x = Tensor.rand([32, 2]).realize(), y = x.at(":", 0).gt(x.at(":", 1)).int().realize();
    const step = jit((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = autocast({ dtype }, () => {
          const hidden = model.a.call(x);
          assertEquals(hidden.dtype.name, dtype);
          return model.b.call(model.norm.call(hidden).gelu()).crossEntropy(y);
        });
        scaler.backward(loss);
        scaler.unscale(optimizer);
        nn.optim.clipGradNorm(optimizer.params, 1);
        scaler.step(optimizer);
        return loss;
      })
    );
    const losses: number[] = [];
    for (let i = 0; i < 25; i++) losses.push(await step(x, y).item());
    assert(losses[24] < 0.3 && losses[24] < losses[0] / 2, String(losses));
    assertEquals(new Set(state.getParameters(model).map((p) => p.dtype.name)), new Set(["float32"]));
  });
}
