/** The backend of docs/extending.md, which is written by src/ir/ir.ts alone: everything runs on it as on JS. */
import assert from "node:assert/strict";
import { Device, jit, nn, state, Tensor, Variable } from "../../mod.ts";
import { snippetsOf } from "../pages/pages.ts";

const PAGE = new URL("../../docs/extending.md", import.meta.url);
const { code } = snippetsOf("extending.md", Deno.readTextFileSync(PAGE)).find((s) =>
  s.code.includes("registerBackend")
)!;
const [backend] = code.split("// it is a device");
const located = backend.replace(
  /"\.\.\/([\w/]+)\.ts"/g,
  (_, name) => JSON.stringify(new URL(`../${name}.ts`, PAGE).href),
);
await import(`data:application/typescript,${encodeURIComponent(located)}`);

Device.default = "JS";

type Make = (list: Parameters<typeof Tensor.zeros>[1] & { device: string }) => Tensor;
const PROGRAMS: Readonly<Record<string, Make>> = {
  "a product": (o) => new Tensor([[1.5, 2], [3, 4]], o).matmul(new Tensor([[1, -1], [0.5, 2]], o)),
  "half precision": (o) => new Tensor([1.5, 65504, NaN, 1e-7], { ...o, dtype: "float16" }).mul(1.5),
  "64-bit integers": (o) => new Tensor([2n ** 62n, -(2n ** 53n) - 1n, 3n], o).add(2n ** 60n).mul(3n),
  "division by zero": (o) => new Tensor([5, -5, 0], o).floorDiv(new Tensor([2, 2, 3], o)),
  "gates": (o) => new Tensor([1, 2, 3], o).pad([1, 2], { value: 7 }).roll(1),
  "a sort": (o) => new Tensor([3, 1, 2, 2, -5], o).sort()[0],
  "computed places": (o) => new Tensor([10, 20, 30], o).at(new Tensor([2, 0, 2, -1], o)),
  "a scatter": (o) =>
    Tensor.zeros([4], o).scatter(0, new Tensor([1, 1, 3], o), new Tensor([1, 2, 3], o).float(), "add"),
  "softmax": (o) => new Tensor([[1, 2, 3], [0, 0, 100]], o).float().softmax(),
  "functions": (o) => new Tensor([0.25, 1, 2], o).exp().log1p().sin().sqrt().erf(),
  "bits": (o) => new Tensor([1, -1, 12], o).bitwiseXor(5).lshift(2).bitcast("uint32"),
  "a convolution": (o) => Tensor.ones([1, 2, 4, 4], o).conv2d(Tensor.ones([3, 2, 3, 3], o), null, { padding: 1 }),
  "random numbers": (o) => {
    Tensor.manualSeed(3);
    return Tensor.rand([4], o);
  },
  "nothing": (o) => Tensor.zeros([0, 3], o).sum(0),
};

for (const [name, make] of Object.entries(PROGRAMS)) {
  Deno.test(`toy: ${name}`, async () => {
    const [got, want] = await Promise.all(["TOY", "JS"].map((device) => make({ device }).tolist()));
    assert.deepEqual(got, want);
  });
}

Deno.test("toy: a captured step trains, and symbolic sizes follow", async () => {
  const TOY: string = "TOY", o = { device: TOY }, layer = new nn.Linear(2, 1);
  for (const p of state.getParameters(layer)) p.replace(p.to(TOY).realize()).requiresGrad = true;
  const optimizer = new nn.optim.SGD(state.getParameters(layer), { lr: 0.1, ...o });
  const x = new Tensor([[1, 2], [3, -1], [0.5, 0]], o).realize(), y = new Tensor([[1], [2], [3]], o).realize();
  const step = jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layer.call(x).sub(y).square().mean().backward();
      optimizer.step();
      return loss;
    })
  );
  const losses: number[] = [];
  for (let i = 0; i < 8; i++) losses.push(await step().item());
  assert.ok(losses[7] < losses[0], String(losses));
  assert.equal(step.stats.captures, 1);

  const n = new Variable("n", 1, 3), first = jit((m: Tensor) => x.at([0, m]).sum());
  assert.deepEqual([first(n.bind(1)), first(n.bind(2)), first(n.bind(3))].map((t) => t.itemSync()), [3, 5, 5.5]);
});
