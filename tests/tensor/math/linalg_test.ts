/** Products: shapes, dtypes and errors. Values are checked by the golden cases. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, ShapeError, Tensor } from "../../../mod.ts";
import { evaluateTensor } from "../../reference.ts";

const t = (shape: number[], dtype = "float32") => Tensor.ones(shape, { dtype, device: "JS" });
const value = (x: Tensor) => evaluateTensor(x).data;

const shapes: readonly [string, Tensor, number[], string][] = [
  ["vector vector", t([3]).dot(t([3])), [], "float32"],
  ["matrix vector", t([2, 3]).dot(t([3])), [2], "float32"],
  ["vector matrix", t([3]).matmul(t([3, 4])), [4], "float32"],
  ["batch vector", t([5, 2, 3]).matmul(t([3])), [5, 2], "float32"],
  ["vector batch", t([3]).matmul(t([5, 3, 2])), [5, 2], "float32"],
  ["broadcast", t([2, 1, 3, 4]).matmul(t([5, 4, 2])), [2, 5, 3, 2], "float32"],
  ["reverse", t([4, 2]).matmul(t([3, 4]), { reverse: true }), [3, 2], "float32"],
  ["half stays half", t([2, 3], "float16").matmul(t([3, 2], "float16")), [2, 2], "float16"],
  ["half and float", t([2, 3], "float16").matmul(t([3, 2])), [2, 2], "float32"],
  ["dtype", t([2, 3], "float16").dot(t([3, 2], "float16"), { dtype: "float32" }), [2, 2], "float32"],
  ["uint8", t([2, 3], "uint8").dot(t([3, 2], "uint8")), [2, 2], "uint8"],
  ["linear of one axis", t([2, 3]).linear(t([3])), [2, 3], "float32"],
  ["einsum outer", Tensor.einsum("i,j->ij", [t([2]), t([3])]), [2, 3], "float32"],
  ["einsum of arguments", Tensor.einsum("i,j->ij", t([2]), t([3])), [2, 3], "float32"],
  ["einsum of one", Tensor.einsum("ij->ji", t([2, 3])), [3, 2], "float32"],
  ["einsum of arguments, options", Tensor.einsum("i,i->", t([2]), t([2]), { dtype: "float64" }), [], "float64"],
  ["einsum implicit", Tensor.einsum("ba", [t([2, 3])]), [3, 2], "float32"],
  ["einsum ellipsis", Tensor.einsum("...i,...i->...", [t([4, 1, 3]), t([5, 3])]), [4, 5], "float32"],
  ["einsum diagonal", Tensor.einsum("bii->bi", [t([2, 3, 3])]), [2, 3], "float32"],
  ["empty inner axis", t([2, 0]).matmul(t([0, 3])), [2, 3], "float32"],
];
for (const [name, x, shape, dtype] of shapes) {
  Deno.test(`linalg: ${name}`, () => {
    assertEquals([x.shape, x.dtype.name], [shape, dtype]);
    assertEquals(evaluateTensor(x).shape, shape);
  });
}

Deno.test("linalg: half products accumulate in float32", () => {
  const a = Tensor.full([1, 4096], 1, { dtype: "float16", device: "JS" });
  assertEquals(value(a.matmul(a.T)), [4096]);
});

Deno.test("linalg: the gradient of attention's scores is rounded where both operands are in 16 bits", () => {
  const make = (seed: number, dtype: string): Tensor =>
    new Tensor(Float32Array.from({ length: 12 }, (_, i) => Math.sin(i * seed)), { device: "JS" }).reshape([3, 4])
      .cast(dtype as "float32").realize();
  const gradients = (dtype: string, attend: (q: Tensor, k: Tensor, v: Tensor) => Tensor): unknown[] => {
    const operands = [make(3, "bfloat16"), make(5, dtype), make(7, "bfloat16")] as const;
    for (const x of operands) x.requiresGrad = true;
    attend(...operands).float().square().sum().backward();
    return operands.map((x) => value(x.grad!));
  };
  const written = (q: Tensor, k: Tensor, v: Tensor): Tensor => {
    const scores = q.dot(k.transpose(-2, -1), { dtype: "float32" }).mul(0.5);
    return scores.softmax(-1).cast(q.dtype).dot(v);
  };
  for (const [dtype, isExact] of [["float32", true], ["bfloat16", false]] as const) {
    const [got, want] = [
      gradients(dtype, (q, k, v) => q.scaledDotProductAttention(k, v)),
      gradients(dtype, written),
    ];
    assertEquals(String(got) === String(want), isExact, dtype);
  }
});

Deno.test("linalg: attention of rows that the mask leaves no key is zeros, with finite gradients", () => {
  const q = t([1, 2, 2]), m = new Tensor([[[true, false], [false, false]]], { device: "JS" });
  for (const mask of [m, m.where(0, -Infinity)]) {
    const out = q.scaledDotProductAttention(q, q, mask), [g] = out.sum().gradient([q]);
    assertEquals(value(out), [1, 1, 0, 0]);
    assertEquals(value(g), [1, 1, 0, 0]);
  }
});

Deno.test("linalg: newtonSchulz drives singular values towards one", () => {
  const x = new Tensor([[2, 0], [0, 1], [0, 0]], { dtype: "float64", device: "JS" });
  const got = value(x.newtonSchulz(12, [1.5, -0.5]));
  [1, 0, 0, 1, 0, 0].forEach((w, i) => assertEquals(Math.abs(got[i] - w) < 1e-6, true, `${got}`));
});

const errors: readonly [string, () => unknown, new (...args: never[]) => Error, string][] = [
  [
    "inner sizes",
    () => t([2, 3]).matmul(t([4, 5])),
    ShapeError,
    "Cannot matmul shapes [2, 3] and [4, 5]: axis 1 of the first has size 3",
  ],
  ["scalar", () => t([]).matmul(t([2])), ShapeError, "Cannot matmul shapes [] and [2]"],
  ["batch", () => t([2, 3, 4]).matmul(t([3, 4, 5])), ShapeError, "batch axes do not broadcast"],
  [
    "einsum count",
    () => Tensor.einsum("ij,jk->ik", [t([2, 3])]),
    ArgumentError,
    'einsum "ij,jk->ik": it names 2 operands',
  ],
  [
    "einsum of nothing",
    () => Tensor.einsum("ij->ji", []),
    ArgumentError,
    "takes a list of at least one tensor, not []",
  ],
  [
    "einsum of a number",
    () => Tensor.einsum("ij->ji", 3 as never),
    ArgumentError,
    "a list of at least one tensor, not [3]",
  ],
  ["einsum rank", () => Tensor.einsum("ijk->i", [t([2, 3])]), ArgumentError, '"ijk" does not fit shape [2, 3]'],
  ["einsum sizes", () => Tensor.einsum("ij,jk->ik", [t([2, 3]), t([4, 5])]), ShapeError, "letter j has sizes 3 and 4"],
  ["einsum output", () => Tensor.einsum("ij->iz", [t([2, 3])]), ArgumentError, "letter z"],
  [
    "attention twice masked",
    () => t([1, 2, 4]).scaledDotProductAttention(t([1, 2, 4]), t([1, 2, 4]), t([2, 2]), { isCausal: true }),
    ArgumentError,
    "isCausal",
  ],
  [
    "attention heads",
    () => t([3, 2, 4]).scaledDotProductAttention(t([2, 2, 4]), t([2, 2, 4]), undefined, { enableGqa: true }),
    ShapeError,
    "3 query heads",
  ],
];
for (const [name, run, kind, text] of errors) {
  Deno.test(`linalg error: ${name}`, () => void assertThrows(run, kind as new () => Error, text));
}
