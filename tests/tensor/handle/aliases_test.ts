/**
 * Which results are views, also where their arguments ask for nothing: what is written to them is written to what they
 * were made of. Rows are named by the expressions of PyTorch, and say what these give there: a view (or the tensor
 * itself), or a value; at the end those of which we decide otherwise, and why.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { checkpoint, Device, jit, nn, StaleReadError, Tensor, vmap } from "../../../mod.ts";

await Device.open("JS");

type Kind = "view" | "value";
type Row = readonly [name: string, kind: Kind, make: (x: Tensor) => Tensor];

const rows = (kind: Kind, list: Readonly<Record<string, (x: Tensor) => Tensor>>): Row[] =>
  Object.entries(list).map(([name, make]) => [name, kind, make]);

const ROWS: readonly Row[] = [
  ...rows("view", {
    "x.reshape(2, 3)": (x) => x.reshape([2, 3]),
    "x.view(3, 2)": (x) => x.view([3, 2]),
    "x.expand(2, 3)": (x) => x.expand([2, 3]),
    "x.expand(1, -1, -1)": (x) => x.expand([1, -1, -1]),
    "x.permute(0, 1)": (x) => x.permute([0, 1]),
    "x.permute(1, 0)": (x) => x.permute([1, 0]),
    "x.transpose(1, 1)": (x) => x.transpose(1, 1),
    "x.T": (x) => x.T,
    "x[:]": (x) => x.at(":"),
    "x[...]": (x) => x.at(),
    "x[0:2]": (x) => x.shrinkTo([2, null]),
    "x[0:1]": (x) => x.shrink([[0, 1], null]),
    "x.squeeze()": (x) => x.squeeze(),
    "x.squeeze(0)": (x) => x.squeeze(0),
    "x.unsqueeze(0)": (x) => x.unsqueeze(0),
    "x.flatten(0, 0)": (x) => x.flatten(0, 0),
    "x.flatten()": (x) => x.flatten(),
    "x.unflatten(1, [3])": (x) => x.unflatten(1, [3]),
    "x.unfold(1, 1, 1)": (x) => x.unfold(1, 1, 1),
    "x.diagonal()": (x) => x.diagonal(),
    "einops.rearrange(x, 'a b -> a b')": (x) => x.rearrange("a b -> a b"),
    "x.split(2)[0]": (x) => x.split(2)[0],
    "x.chunk(1)[0]": (x) => x.chunk(1)[0],
    "torch.meshgrid(x[0])[0]": (x) => x.at(0).meshgrid()[0],
    "torch.einsum('ij->ij', x)": (x) => Tensor.einsum("ij->ij", [x]),
    "x.to(x.dtype)": (x) => x.cast(x.dtype),
    "x.float()": (x) => x.float(),
    "x.to(x.device)": (x) => x.to(x.device),
    "x.view(x.dtype)": (x) => x.bitcast(x.dtype),
    "x.detach()": (x) => x.detach(),
    "F.dropout(x, training=False)": (x) => x.dropout(0.5),
    "nn.Dropout(0.5).eval()(x)": (x) => new nn.Dropout(0.5).call(x),
    "nn.Sequential()(x)": (x) => x.sequential([]),
    "x.copy_(x)": (x) => x.assign(x),
    "x.mul_(1)": (x) => x.mulInPlace(1),
  }),
  ...rows("value", {
    "F.pad(x, (0, 0))": (x) => x.pad([0, 0]),
    "F.pad(x, (0, 0), value=2)": (x) => x.pad([0, 0], { value: 2 }),
    "F.pad(x, (0, -1))": (x) => x.pad([0, -1]),
    "F.pad(x[None], (0, 0), mode='reflect')": (x) => x.unsqueeze(0).pad([0, 0], { mode: "reflect" }),
    "F.pad(x[None], (0, 0), mode='replicate')": (x) => x.unsqueeze(0).pad([0, 0], { mode: "replicate" }),
    "F.pad(x[None], (0, 0), mode='circular')": (x) => x.unsqueeze(0).pad([0, 0], { mode: "circular" }),
    "F.pad(x, (0, 0, 0, 0))": (x) => x.padTo([2, 3]),
    "x.roll(0, 0)": (x) => x.roll(0, 0),
    "x.roll(2, 0)": (x) => x.roll(2, 0),
    "x.roll(6)": (x) => x.roll(6),
    "x[None].roll(1, 0)": (x) => x.unsqueeze(0).roll(1, 0),
    "x.repeat(1, 1)": (x) => x.repeat([1, 1]),
    "x.repeat_interleave(1, 0)": (x) => x.repeatInterleave(1, 0),
    "torch.cat([x])": (x) => x.cat([]),
    "torch.cat([x, x[0:0]])": (x) => x.cat([x.shrink([[0, 0], null])]),
    "torch.stack([x])": (x) => x.stack([]),
    "x.clone()": (x) => x.clone(),
    "x.mul(1)": (x) => x.mul(1),
    "x.add(0)": (x) => x.add(0),
    "x.div(1)": (x) => x.div(1),
    "x.pow(1)": (x) => x.pow(1),
    "x.int().floor()": (x) => x.int().floor(),
    "x.abs()": (x) => x.abs(),
    "x.relu()": (x) => x.relu(),
    "x.neg().neg()": (x) => x.neg().neg(),
    "x.clamp(-100, 100)": (x) => x.clamp(-100, 100),
    "torch.where(True, x, x)": (x) => new Tensor(true).where(x, x),
    "torch.maximum(x, x)": (x) => x.maximum(x),
    "x.masked_fill(False, 1)": (x) => x.maskedFill(false, 1),
    "x[None].sum(0)": (x) => x.unsqueeze(0).sum(0),
    "x[None].max(0)": (x) => x.unsqueeze(0).max(0),
    "x[None].prod(0)": (x) => x.unsqueeze(0).prod(0),
    "x[None].mean(0)": (x) => x.unsqueeze(0).mean(0),
    "x[None].cumsum(0)": (x) => x.unsqueeze(0).cumsum(0),
    "x[None].cumprod(0)": (x) => x.unsqueeze(0).cumprod(0),
    "x[None].cummax(0)[0]": (x) => x.unsqueeze(0).cummax(0)[0],
    "x[None].sort(0)[0]": (x) => x.unsqueeze(0).sort(0)[0],
    "x[None].topk(1, 0)[0]": (x) => x.unsqueeze(0).topk(1, 0)[0],
    "x[None].median(0)": (x) => x.unsqueeze(0).median(0),
    "x[tensor([0, 1])]": (x) => x.at(new Tensor([0, 1])),
    "x.triu(-5)": (x) => x.triu(-5),
    "F.max_pool2d(x[None, None], 1)": (x) => x.reshape([1, 1, 2, 3]).maxPool2d([1, 1]),
    "F.avg_pool2d(x[None, None], 1)": (x) => x.reshape([1, 1, 2, 3]).avgPool2d([1, 1]),
    "F.interpolate(x[None], 3)": (x) => x.unsqueeze(0).interpolate([3]),
    "F.interpolate(x[None], 3, mode='nearest')": (x) => x.unsqueeze(0).interpolate([3], { mode: "nearest" }),
    "vmap(lambda r: r.mul(1))(x)": (x) => vmap((r: Tensor) => r.mul(1))(x),
  }),
  // a flipped tensor is a view, as NumPy's
  ...rows("view", { "x.flip([])": (x) => x.flip([]), "x.flip(0)": (x) => x.flip(0) }),
  // memory of its own, whatever the order was
  ...rows("value", { "x.contiguous()": (x) => x.contiguous() }),
  // an index tensor copies, whatever its shape is, and so does each window of which elements are in two
  ...rows("value", { "x[tensor(1)]": (x) => x.at(new Tensor(1)), "x.unfold(1, 2, 1)": (x) => x.unfold(1, 2, 1) }),
  // results of functions of functions are values
  ...rows("value", {
    "vmap(lambda r: r)(x)": (x) => vmap((r: Tensor) => r)(x),
    "checkpoint(lambda r: r, x)": (x) => checkpoint((r: Tensor) => r)(x),
  }),
];

const VALUES = [[1, 2, 3], [4, 5, 6]];
/** What the rows are made of. */
const SOURCES: Readonly<Record<string, () => Tensor>> = {
  "in memory": () => new Tensor(VALUES, { dtype: "float32" }).realize(),
  "not realized": () => new Tensor(VALUES, { dtype: "float32" }),
  "a value": () => new Tensor(VALUES, { dtype: "float32" }).mul(2).div(2),
  "a slice": () => new Tensor([[0, 0, 0], ...VALUES], { dtype: "float32" }).realize().at([1, 3]),
};

for (const [source, made] of Object.entries(SOURCES)) {
  Deno.test(`aliases: which results are views of ${source}`, () => {
    Device.default = "JS";
    const text = (t: Tensor): string => JSON.stringify(t.tolistSync());
    for (const [name, kind, make] of ROWS) {
      const x = made(), y = make(x), before = text(x), own = text(make(made()));
      y.addInPlace(10);
      assertEquals([name, text(x) !== before ? "view" : "value"], [name, kind]);
      assertEquals(text(y), text(make(made()).add(10)), name);
      if (kind === "view") continue;
      const t = made(), copy = make(t), read = make(t);
      assertEquals([text(copy.realize()), text(read)], [own, own], name);
      t.addInPlace(10).realize();
      assertEquals([text(copy), text(read)], [own, own], name);
    }
  });
}

/** Views that are all of a tensor in order: nothing copies them. */
const SHAPES: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  reshape: (x) => x.reshape([3, 2]),
  detach: (x) => x.detach(),
  "detach, reshaped": (x) => x.detach().flatten(),
  "at()": (x) => x.at(":"),
  permute: (x) => x.permute([0, 1]),
  "a shape of a shape": (x) => x.flatten().reshape([3, 2]),
};
for (const [name, view] of Object.entries(SHAPES)) {
  Deno.test(`aliases: ${name}, once it is realized or read, is what is written to its tensor later`, () => {
    Device.default = "JS";
    const value = () => new Tensor([VALUES, VALUES], { dtype: "float32" }).realize().sum(0);
    for (const source of [SOURCES["in memory"], SOURCES["not realized"], value]) {
      for (const see of [(t: Tensor) => t.realize(), (t: Tensor) => t.tolistSync()]) {
        const x = source(), y = view(x.realize()), step = jit(() => x.addInPlace(1).sum()), on = x.add(0).realize();
        see(y);
        const same = () => assertEquals(y.flatten().tolistSync(), x.flatten().tolistSync());
        x.addInPlace(1);
        same();
        x.at(0).mulInPlace(2).realize();
        same();
        const sum = y.sum(), before = sum.clone();
        x.assign(on); // what was computed from it before is of before
        assertEquals(before.tolistSync(), sum.tolistSync());
        same();
        for (let i = 0; i < 4; i++) {
          step();
          same();
        }
        y.mulInPlace(3);
        same();
        x.realize();
        assertEquals(y.tolistSync(), view(x).tolistSync());
        x.replace(on);
        assertEquals(y.sum().itemSync(), 3 * (on.sum().itemSync() as number + 4 * 6));
      }
    }
  });
}

Deno.test("aliases: a view that was realized follows its leaf, and a detached one gives it no gradient", () => {
  Device.default = "JS";
  const x = new Tensor([1, 2], { dtype: "float32", requiresGrad: true }).realize(),
    opt = new nn.optim.SGD([x], { lr: 0.5 });
  const shape = x.reshape([2, 1]).realize(), apart = x.detach().realize();
  for (const w of [[0.5, 1], [0.25, 0.5]]) {
    Tensor.train(() => {
      opt.zeroGrad();
      x.square().sum().div(2).backward();
      opt.step();
    });
    opt.zeroGrad();
    shape.flatten().mul(apart).sum().backward();
    assertEquals([shape.flatten(), apart, x.grad!].map((t) => t.tolistSync()), [w, w, w]);
    opt.zeroGrad();
  }
});

Deno.test("aliases: a lazy view is of the time when it was made, also where it is realized after a write", () => {
  Device.default = "JS";
  for (const view of Object.values(SHAPES)) {
    const x = SOURCES["in memory"](), y = view(x), z = view(x);
    x.addInPlace(1);
    assertEquals(y.realize().flatten().tolistSync(), VALUES.flat());
    x.realize();
    assertThrows(() => z.tolistSync(), StaleReadError);
    assertEquals(y.flatten().tolistSync(), VALUES.flat());
  }
});
