/** FUSE=0: kernels of operations as written, by lines or one by one. */
import { assertEquals } from "@std/assert";
import { context, Device, Tensor } from "../../../mod.ts";

Device.default = "JS";

function kernels(make: (x: Tensor) => Tensor | Tensor[], vars: { TRACEMETA?: number; FUSE?: number }): number {
  const x = new Tensor([[1, 2], [3, 4]], { dtype: "float32" }).realize();
  return context(vars, () => [make(x)].flat().reduce((n, t) => n + t.schedule().length, 0));
}

const ROWS:
  readonly (readonly [name: string, make: (x: Tensor) => Tensor, fused: number, lines: number, ops: number])[] = [
    ["one operation", (x) => x.add(1), 1, 1, 1],
    ["a chain", (x) => x.add(1).mul(2).sqrt(), 1, 3, 3],
    ["movement is no operation", (x) => x.transpose().reshape([4]).add(1), 1, 1, 1],
    ["a sum between", (x) => x.add(1).sum(0).mul(2), 1, 3, 3],
    ["softmax is one line, and seven ops", (x) => x.softmax(), 1, 1, 7],
  ];
for (const [name, make, fused, lines, ops] of ROWS) {
  Deno.test(`apart: ${name}`, () => {
    assertEquals(kernels(make, {}), fused);
    assertEquals(kernels(make, { FUSE: 0, TRACEMETA: 1 }), lines, "by lines");
    assertEquals(kernels(make, { FUSE: 0 }), ops, "one by one");
  });
}
