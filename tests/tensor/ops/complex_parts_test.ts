/** Complex tensors: making and reading them, views, writes, gradients, captures and files. Functions are golden cases. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  checkpoint,
  type ComplexValue,
  Device,
  DisposedError,
  DTypeError,
  grad,
  jit,
  jvp,
  nn,
  state,
  Tensor,
  vmap,
} from "../../../mod.ts";
import { npyBytes, npyParse } from "../../../src/state/npy.ts";

Device.default = "WASM";
type Pair = readonly [re: number, im: number];
const at = ([re, im]: Pair): ComplexValue => ({ re, im });
const of = (...pairs: Pair[]): Tensor => new Tensor(pairs.map(at));
const leaf = (...pairs: Pair[]): Tensor => new Tensor(pairs.map(at), { requiresGrad: true });
/** Values, rounded so that they are the same on every machine. */
const pairs = async (t: Tensor): Promise<Pair[]> => {
  const data = Array.from(await t.data() as Float32Array, (x) => Number(x.toFixed(4)) + 0);
  return Array.from({ length: data.length / 2 }, (_, i) => [data[2 * i], data[2 * i + 1]]);
};

Deno.test("complex: values come and go as { re, im }, data as pairs", async () => {
  const z = new Tensor([[at([1, 2]), 3], [at([0, -1]), -0.5]]);
  assertEquals([z.dtype.name, z.shape, z.nbytes(), z.isComplex(), z.isFloatingPoint()], [
    "complex64",
    [2, 2],
    32,
    true,
    false,
  ]);
  assertEquals(await z.tolist(), [[at([1, 2]), at([3, 0])], [at([0, -1]), at([-0.5, 0])]]);
  assertEquals(await z.data(), new Float32Array([1, 2, 3, 0, 0, -1, -0.5, 0]));
  assertEquals(await new Tensor(at([1, 2])).item() as unknown, at([1, 2]));
  assertEquals(String(z.realize()), "Tensor [2, 2] complex64 WASM\n[[1+2i, 3+0i],\n [0-1i, -0.5+0i]]");
  assertEquals(new Tensor([1], { dtype: "float64" }).mul(at([1, 1])).dtype.name, "complex128");
  assertEquals(new Tensor([true]).mul(at([1, 1])).dtype.name, "complex64");
  assertThrows(() => new Tensor([at([1, 2])], { dtype: "float32" }), DTypeError, 'give { dtype: "complex64" }');
});

const MADE: readonly [string, () => Tensor, Pair[]][] = [
  ["zeros", () => Tensor.zeros([2], { dtype: "complex64" }), [[0, 0], [0, 0]]],
  ["full", () => Tensor.full([2], at([1, -1])), [[1, -1], [1, -1]]],
  ["eye", () => Tensor.eye(2, { dtype: "complex64" }), [[1, 0], [0, 0], [0, 0], [1, 0]]],
  ["arange", () => Tensor.arange(3, { dtype: "complex64" }), [[0, 0], [1, 0], [2, 0]]],
  ["cast", () => new Tensor([1, 2]).cast("complex64"), [[1, 0], [2, 0]]],
  ["typed array", () => new Tensor(new Float32Array([1, 2]), { dtype: "complex64" }), [[1, 0], [2, 0]]],
  ["blob", () => Tensor.fromBlob(new Float32Array([1, 2, 3, 4]), [2], { dtype: "complex64" }), [[1, 2], [3, 4]]],
  ["bitcast", () => new Tensor([1, 2, 3, 4], { dtype: "float32" }).bitcast("complex64"), [[1, 2], [3, 4]]],
  ["where", () => new Tensor([true, false]).where(at([1, 2]), 3), [[1, 2], [3, 0]]],
  ["maskedFill", () => of([1, 2], [3, 4]).maskedFill(new Tensor([true, false]), at([0, 1])), [[0, 1], [3, 4]]],
  ["scatter", () => Tensor.zeros([3], { dtype: "complex64" }).scatter(0, new Tensor([2, 0]), of([1, 2], [3, 4])), [
    [3, 4],
    [0, 0],
    [1, 2],
  ]],
  ["JS", () => of([1, 2]).to("JS").mul(at([0, 1])), [[-2, 1]]],
  ["tril", () => of([1, 2], [3, 4], [5, 6], [7, 8]).reshape([2, 2]).tril(), [[1, 2], [0, 0], [5, 6], [7, 8]]],
];
for (const [name, make, want] of MADE) {
  Deno.test(`complex: made by ${name}`, async () => assertEquals(await pairs(make()), want));
}

Deno.test("complex: a real factor keeps infinity apart from NaN", async () => {
  assertEquals(await of([Infinity, 0]).mul(2).tolist(), [at([Infinity, 0])]);
  assertEquals(await of([Infinity, 1]).div(2).tolist(), [at([Infinity, 0.5])]);
});

Deno.test("complex: random parts have half of the variance each", () => {
  const z = Tensor.randn([4096], { dtype: "complex64" });
  const [all, re] = [z.var().itemSync() as number, z.real().var().itemSync() as number];
  assertEquals([Math.round(all * 5), Math.round(re * 10)], [5, 5]);
  assertEquals(Tensor.rand([3], { dtype: "complex128" }).dtype.name, "complex128");
});

const WRITES: readonly [string, (z: Tensor) => unknown, Pair[]][] = [
  ["assign", (z) => z.assign(z.mul(2)), [[2, 4], [6, 8], [10, 12]]],
  ["a value", (z) => z.setAt([0], at([9, 8])), [[9, 8], [3, 4], [5, 6]]],
  ["a mask", (z) => z.setAt([z.abs().gt(4)], 0), [[1, 2], [0, 0], [0, 0]]],
  ["a slice", (z) => z.at([1, 3]).assign(at([0, 1])), [[1, 2], [0, 1], [0, 1]]],
  ["the real part", (z) => z.real().assign(new Tensor([7, 8, 9]).float()), [[7, 2], [8, 4], [9, 6]]],
  ["the imaginary part of a slice", (z) => z.flip(0).at([0, 2]).imag().assign(0), [[1, 2], [3, 0], [5, 0]]],
  ["pairs", (z) => z.viewAsReal().mulInPlace(2), [[2, 4], [6, 8], [10, 12]]],
  ["in place", (z) => (z.addInPlace(1), z.mulInPlace(at([0, 1]))), [[-2, 2], [-4, 4], [-6, 6]]],
];
for (const [name, write, want] of WRITES) {
  for (const realized of [false, true]) {
    Deno.test(`complex: written by ${name}${realized ? ", realized" : ""}`, async () => {
      const z = of([1, 2], [3, 4], [5, 6]);
      if (realized) z.realize();
      write(z);
      assertEquals(await pairs(z), want);
    });
  }
}

Deno.test("complex: pairs seen as complex numbers are written through", async () => {
  const x = new Tensor([[1, 2], [3, 4]], { dtype: "float32" }).realize();
  x.viewAsComplex().assign(of([0, 1], [0, 2]));
  assertEquals(await x.tolist(), [[0, 1], [0, 2]]);
});

Deno.test("complex: what is read before a write, or disposed of, is told", async () => {
  const z = of([1, 2]).realize(), twice = z.mul(2);
  z.assign(of([5, 5])).realize();
  await assertRejects(() => twice.tolist(), Error, "earlier value");
  const w = of([1, 2]).realize(), half = w.div(2);
  w.dispose();
  await assertRejects(() => half.tolist(), DisposedError);
});

Deno.test("complex: gradients are dL/dre + i dL/dim, and real of real leaves", async () => {
  const z = leaf([1, 2], [-3, 0.5]), x = new Tensor([1, 2], { requiresGrad: true, dtype: "float32" });
  z.mul(x).abs().square().sum().backward();
  assertEquals(await pairs(z.grad!), [[2, 4], [-24, 4]]);
  assertEquals([x.grad!.dtype.name, await x.grad!.tolist()], ["float32", [10, 37]]);
  const w = leaf([1, 2]);
  w.mul(w).backward(new Tensor([at([1, 0])]));
  assertEquals(await pairs(w.grad!), [[2, -4]]);
  assertThrows(() => w.mul(w).sum().backward(), DTypeError, "only a real scalar has an implicit gradient");
  const [first] = w.abs().pow(3).sum().gradient([w]);
  assertEquals(await pairs(first.abs().sum().gradient([w])[0]), [[6, 12]]);
  const read = w.mul(w);
  await read.tolist();
  assertEquals(await pairs(read.abs().sum().gradient([w])[0]), [[2, 4]]);
  const made = of([1, 2]).mul(of([2, 1]));
  assertThrows(() => made.abs().sum().gradient([made]), TypeError, "compute from z.contiguous()");
  const own = made.contiguous();
  assertEquals(await pairs(own.abs().sum().gradient([own])[0]), [[0, 1]]);
});

Deno.test("complex: transforms of functions", async () => {
  const square = (z: Tensor): Tensor => z.mul(z);
  assertEquals(await pairs(grad((z: Tensor) => z.abs().square().sum())(of([1, 2]))), [[2, 4]]);
  assertEquals(await pairs(vmap((z: Tensor) => square(z).sum())(of([1, 2], [3, 4]).reshape([2, 1]))), [[-3, 4], [
    -7,
    24,
  ]]);
  const [value, tangent] = jvp(square, [of([1, 2])], [of([1, 0])]);
  assertEquals([await pairs(value), await pairs(tangent)], [[[-3, 4]], [[2, 4]]]);
  const z = leaf([1, 2]);
  checkpoint(square)(z).abs().sum().backward();
  assertEquals(await pairs(z.grad!), [[2, 4]]);
});

Deno.test("complex: captures take, keep and give complex tensors", async () => {
  const sum = of([0, 0]).realize(), z = leaf([1, 2]);
  const step = jit((a: Tensor) => {
    z.grad = undefined;
    sum.assign(sum.add(a));
    return [sum.mul(at([0, 1])), z.mul(a).abs().square().sum().backward(), z.grad!];
  });
  const turn = jit((a: Tensor) => a.assign(a.mul(at([0, 1])))), own = of([1, 0]);
  for (let i = 1; i < 5; i++) {
    const [turned, loss, g] = step(of([i, 1])) as Tensor[], n = i * (i + 1) / 2;
    assertEquals(await pairs(turned), [[-i, n]]);
    assertEquals(await loss.item(), 5 * (i * i + 1));
    assertEquals(await pairs(g), [[2 * (i * i + 1), 4 * (i * i + 1)]]);
    turn(own);
    assertEquals(await pairs(own), [([[0, 1], [-1, 0], [0, -1], [1, 0]] as Pair[])[i - 1]]);
  }
});

Deno.test("complex: files", async () => {
  const z = of([1, 2], [3, 4]), wide = z.cast("complex128");
  const dict = state.safeParse(await state.safeBytes({ z, wide }));
  assertEquals([dict.z.dtype.name, dict.wide.dtype.name], ["complex64", "complex128"]);
  assertEquals(await pairs(dict.wide), await pairs(z));
  assertEquals(await pairs(npyParse(await npyBytes(z))), await pairs(z));
  const target = { z: of([0, 0], [0, 0]).realize() };
  state.loadStateDict(target, { z: dict.z });
  assertEquals(await pairs(target.z), await pairs(z));
});

Deno.test("complex: an optimizer steps along the conjugate", async () => {
  const z = leaf([1, 2]), opt = new nn.optim.SGD([z], { lr: 0.25 });
  for (let i = 0; i < 2; i++) {
    opt.zeroGrad();
    Tensor.train(() => {
      z.abs().square().sum().backward();
      opt.step();
    });
  }
  assertEquals(await pairs(z), [[0.25, 0.5]]);
});

Deno.test("complex: what they have not is refused by name", () => {
  const z = of([1, 2], [3, 4]);
  for (
    const [act, text] of [
      [() => z.lt(z), "Cannot order dtype complex64"],
      [() => z.max(), "Cannot order dtype complex64"],
      [() => z.sort(), "Cannot sort dtype complex64"],
      [() => z.floor(), "Cannot apply floor to dtype complex64"],
      [() => z.erf(), "Cannot apply erf to dtype complex64"],
      [() => z.float(), "Cannot cast complex64 to float32"],
      [() => z.real().imag(), "Cannot take the imaginary part of dtype float32"],
      [() => Tensor.complex(z, z), "Cannot make complex numbers of parts of dtype complex64"],
      [() => z.bitwiseAnd(1), "Cannot bitwiseAnd on dtypes"],
    ] as const
  ) assertThrows(act, DTypeError, text);
  assertThrows(() => new Tensor([1, 2, 3], { dtype: "float32" }).viewAsComplex(), RangeError, "must be of size 2");
});

Deno.test("complex: optimizers step both parts as reals", async () => {
  const { SGD, Adam, AdamW } = nn.optim;
  const made = [
    (w: Tensor) => new SGD([w], { lr: 0.1, momentum: 0.9, weightDecay: 0.1 }),
    (w: Tensor) => new Adam([w], { lr: 0.1 }),
    (w: Tensor) => new AdamW([w], { lr: 0.1, fused: true }),
  ];
  for (const make of made) {
    const z = leaf([1, 2], [-3, 0.5]), x = new Tensor([[1, 2], [-3, 0.5]], { requiresGrad: true });
    for (const [w, loss] of [[z, () => z.abs().square().sum()], [x, () => x.square().sum()]] as const) {
      const opt = make(w);
      for (let i = 0; i < 3; i++) {
        opt.zeroGrad();
        Tensor.train(() => {
          loss().backward();
          opt.step();
        });
      }
    }
    assertEquals(await pairs(z), await pairs(x));
  }
});

Deno.test("complex: numbers beside complex tensors are of the precision of their parts", async () => {
  for (const [dtype, real] of [["complex64", "float32"], ["complex128", "float64"]] as const) {
    const z = Tensor.ones([1], { dtype }), x = Tensor.ones([1], { dtype: real });
    for (const n of [4099, 4099.5, 70000, 1e-8, 0.1, 16777217]) {
      const each = (t: Tensor): Tensor[] => [t.mul(n), t.add(n), t.div(n), t.mul(0).add(1).mul(n), t.fullLike(n)];
      for (const [i, made] of each(z).entries()) {
        assertEquals(await made.at(0).item(), { re: await each(x)[i].at(0).item(), im: 0 }, `${dtype} ${n}, form ${i}`);
      }
    }
  }
});

Deno.test("complex: norms are real, covariances conjugate, NaN is looked for in each part", async () => {
  const z = of([3, 4], [0, 0], [-1, 0]);
  assertEquals([z.norm().dtype.name, await z.norm({ p: 1 }).item(), await z.norm({ p: 0 }).item()], ["float32", 6, 2]);
  const c = z.cov();
  // the products of both parts cancel but for a rounding, where one of them is added unrounded
  assertEquals(await c.imag().abs().lt(1e-6).item(), true);
  assertEquals(await c.real().sub(z.var()).abs().lt(1e-5).item(), true);
  assertEquals(await of([NaN, 2]).nanToNum({ nan: 7 }).tolist(), [at([7, 2])]);
});
