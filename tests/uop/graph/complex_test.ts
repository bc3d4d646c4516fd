/** Complex nodes: what they are made of, and what is refused. Values are checked by the golden cases. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { isMovement, Ops } from "../../../src/uop/core/ops.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { permute, reshape } from "../../../src/uop/core/build_movement.ts";
import { constant, toposort, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";
import { bare, fromPairs, fromParts, partsOf } from "../../../src/uop/graph/complex.ts";
import { Storage } from "../../../src/uop/core/args.ts";
import { bufferNode } from "../../../src/uop/core/uop.ts";

const memory = (...shape: number[]): UOp =>
  reshape(bufferNode(new Storage("JS", dtypes.float32, shape.reduce((a, b) => a * b, 1))), shape);

Deno.test("complex: parts that were joined come apart, also behind movement", () => {
  const re = memory(2, 3), im = memory(2, 3), z = fromParts([re, im]);
  assertEquals([z.op, z.dtype, shapeOf(z), shapeOf(bare(z))], [Ops.COMPLEX, dtypes.complex64, [2, 3], [2, 3, 2]]);
  assertStrictEquals(partsOf(z)[0], re);
  assertStrictEquals(partsOf(z)[1], im);
  assertStrictEquals(partsOf(permute(z, [1, 0]))[1], permute(im, [1, 0]));
  assertStrictEquals(partsOf(reshape(z, [6]))[0], reshape(re, [6]));
  assertStrictEquals(partsOf(constant(2, dtypes.complex128))[0], constant(2, dtypes.float64));
});

Deno.test("complex: parts of pairs in memory are views of them", () => {
  const [re, im] = partsOf(reshape(fromPairs(memory(6, 2)), [2, 3]));
  for (const x of [re, im]) {
    assertEquals(shapeOf(x), [2, 3]);
    let u = x;
    while (isMovement(u.op)) u = u.src[0];
    assertEquals(u.op, Ops.BUFFER);
  }
});

Deno.test("complex: a graph has no complex node below its COMPLEX", () => {
  const z = fromPairs(memory(4, 2)), w = fromParts([memory(4), memory(4)]);
  const all = [z.add(w), z.mul(w).cast(dtypes.complex128), z.fdiv(w), memory(4).lt(0).where(z, w)];
  for (const u of all) {
    assertEquals(toposort(u).filter((x) => x !== u && x.dtype.isComplex && x !== z && x !== w), []);
  }
});

Deno.test("complex: a real factor has no imaginary part to multiply by", () => {
  const z = fromPairs(memory(4, 2)), twice = z.mul(constant(2, dtypes.complex64));
  assertStrictEquals(partsOf(twice)[1], partsOf(z)[1].mul(2));
});

for (
  const [name, act, text] of [
    [
      "lt",
      (z) => z.lt(z),
      "Cannot order dtype complex64: complex numbers have no order; take abs(), real() or imag() first",
    ],
    [
      "max",
      (z) => z.max(z),
      "Cannot order dtype complex64: complex numbers have no order; take abs(), real() or imag() first",
    ],
    [
      "trunc",
      (z) => z.trunc(),
      "Cannot apply TRUNC to dtype complex64: it is not defined for complex numbers; take abs(), real() or imag() first",
    ],
    [
      "cast",
      (z) => z.cast(dtypes.float32),
      "Cannot cast complex64 to float32: the imaginary part would be lost; take real(), imag() or abs() first",
    ],
  ] as readonly [string, (z: UOp) => UOp, string][]
) {
  Deno.test(`complex: ${name} is refused`, () =>
    void assertThrows(() => act(fromPairs(memory(4, 2))), TypeError, text));
}

Deno.test("complex: variables and constants join without a shape", () => {
  const v = variable("v", 0, 3).cast(dtypes.float32), z = fromParts([v, constant(0, dtypes.float32)]);
  assertEquals([shapeOf(z), shapeOf(bare(z))], [[], [2]]);
  assertEquals(uop(Ops.CONST, dtypes.complex64, [], 0.1).dtype, dtypes.complex64);
});
