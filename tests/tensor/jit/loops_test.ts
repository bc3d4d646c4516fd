/** Functions that run a function many times: all derivatives, scans and loops on conditions. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  ArgumentError,
  Device,
  DTypeError,
  grad,
  hessian,
  jacobian,
  jit,
  scan,
  ShapeError,
  Tensor,
  whileLoop,
} from "../../../mod.ts";

Device.default = "WASM";
const x = new Tensor([1, 2.5]), a = new Tensor([[1, 2.5]]), b = new Tensor([[1.5], [2]]);
const sums = (sum: Tensor, x: Tensor): [Tensor, Tensor] => [sum.add(x), sum.mul(x)];

Deno.test("loops: jacobians have the value's shape before the argument's", async () => {
  assertEquals(await jacobian((x: Tensor) => x.mul(x))(x).tolist(), [[2, 0], [0, 5]]);
  assertEquals(await jacobian((x: Tensor, y: Tensor) => x.matmul(y))(a, b).tolist(), [[[[1.5, 2]]]]);
  assertEquals(await jacobian((x: Tensor, y: Tensor) => x.matmul(y), { argnums: 1 })(a, b).tolist(), [[[[1], [2.5]]]]);
  assertEquals(await jacobian((x: Tensor) => x.sum())(x).tolist(), [1, 1]);
  assertEquals(jacobian((x: Tensor) => x.at([0, 0]))(x).shape, [0, 2]);
});

Deno.test("loops: hessians, also of a jacobian's value and within jit", async () => {
  const product = hessian((x: Tensor) => x.prod()), at = new Tensor([2.5, 3, 4]);
  const want = [[0, 4, 3], [4, 0, 2.5], [3, 2.5, 0]];
  assertEquals(await product(at).tolist(), want);
  const captured = jit(product);
  for (let i = 0; i < 3; i++) assertEquals(await captured(at).tolist(), want);
});

Deno.test("loops: gradients through a scan's captured step are those of one graph", async () => {
  const w = new Tensor([0.5, 2], { requiresGrad: true }), first = new Tensor([1, -1], { requiresGrad: true });
  const xs = new Tensor([[1, 2], [3, 4.5], [1, 1]], { requiresGrad: true }), leaves = [w, first, xs];
  type Carry = { sum: Tensor; count: Tensor };
  const step = ({ sum, count }: Carry, x: Tensor): [Carry, Tensor] => {
    const next = sum.mul(w).add(x);
    return [{ sum: next, count: count.add(1) }, next.square()];
  };
  const run = (unroll: boolean, reverse: boolean): Tensor[] => {
    leaves.forEach((t) => t.grad = undefined);
    const [{ sum, count }, squares] = scan(step, { sum: first.mul(2), count: new Tensor(0) }, xs, { unroll, reverse });
    const loss = sum.sum().add(squares.sum().mul(0.25));
    loss.backward();
    return [loss, count, ...leaves.map((t) => t.grad!.clone())];
  };
  const captured = jit(() => run(false, false));
  for (const reverse of [false, true]) {
    const [want, got] = [run(true, reverse), run(false, reverse)];
    for (const [k, t] of want.entries()) assertEquals(await got[k].tolist(), await t.tolist());
  }
  const want = run(true, false);
  for (let i = 0; i < 3; i++) {
    for (const [k, t] of captured().entries()) assertEquals(await t.tolist(), await want[k].tolist());
  }
  const [{ sum }] = scan(step, { sum: first, count: new Tensor(0) }, xs), [slope] = sum.sum().gradient([first]);
  assertThrows(() => slope.sum().gradient([first]), ArgumentError, "give { unroll: true }");
  // random numbers cannot be drawn again: one graph
  const noisy = (c: Tensor, x: Tensor): [Tensor, Tensor] => [c.mul(w).add(x).add(Tensor.rand([2]).mul(c)), c];
  const [value] = scan(noisy, first, xs), [, d] = [await value.tolist(), value.sum().gradient([xs])[0]];
  assertEquals(await d.at(2).tolist(), [1, 1]);
});

Deno.test("loops: a scan gives the last carry and all parts, forward, in reverse and as one graph", async () => {
  const xs = new Tensor([1, 2, 3.5]), first = new Tensor(0.5);
  for (const unroll of [false, true]) {
    const [sum, products] = scan(sums, first, xs, { unroll });
    assertEquals([await sum.item(), await products.tolist()], [7, [0.5, 3, 12.25]]);
    const [, back] = scan(sums, first, xs, { unroll, reverse: true });
    assertEquals(await back.tolist(), [6, 8, 1.75]);
  }
  const slope = grad((x: Tensor) => scan(sums, first, x)[1].sum());
  assertEquals(await slope(xs).tolist(), [6, 5, 3.5]);
  const [{ n }] = scan(({ n }: { n: Tensor }) => [{ n: n.mul(2) }, n], { n: new Tensor(1.5) }, undefined, {
    length: 5,
  });
  assertEquals(await n.item(), 48);
});

Deno.test("loops: a while loop ends with its condition, or after the most steps", async () => {
  const small = (x: Tensor) => x.lt(100), tripled = (x: Tensor) => x.mul(3);
  assertEquals(await (await whileLoop(small, tripled, new Tensor(2.5))).item(), 202.5);
  assertEquals(await (await whileLoop(small, tripled, new Tensor(2.5), { maxSteps: 2 })).item(), 22.5);
  assertEquals(await (await whileLoop(small, tripled, new Tensor(200.5))).item(), 200.5);
});

Deno.test("loops: carries of a while loop keep their form; whole numbers become the floats that a step makes", async () => {
  const small = (c: Tensor) => c.sum().lt(5), wrong = { n: new Tensor(0), m: new Tensor(1) };
  assertEquals(await (await whileLoop(small, (c: Tensor) => c.add(1.5), new Tensor(0))).item(), 6);
  await assertRejects(
    () => whileLoop(small, (c: Tensor) => c.add(new Tensor([1, 2])), new Tensor(0)),
    ShapeError,
    "Cannot run a while loop shapes [] and [2]: a carry keeps its form, and a step changed its shape",
  );
  await assertRejects(
    () => whileLoop(small, (c: Tensor) => c.add(1.5), new Tensor(0, { dtype: "int32" })),
    DTypeError,
    "cast init, or what the step gives",
  );
  await assertRejects(
    () => whileLoop(({ n }) => n.lt(5), ({ n }) => ({ n: n.add(1) }) as typeof wrong, wrong),
    ArgumentError,
    "it has 2 tensors, and then 1",
  );
});

Deno.test("loops: what is no step, no tensor or no float is told", () => {
  assertThrows(() => jacobian((x: Tensor) => x.gt(1))(x), DTypeError, "compute jacobian of a value of dtype bool");
  assertThrows(() => jacobian((x: Tensor) => x)(3 as unknown as Tensor), ArgumentError, "argument 0 must be a tensor");
  assertThrows(() => hessian((x: Tensor) => x)(x), ShapeError, "floating-point scalar");
  assertThrows(() => scan(sums, x, undefined as unknown as Tensor), ArgumentError, "give { length }");
  assertThrows(() => scan(sums, x, x, { length: 3 }), ShapeError, "all must have 2 parts");
  const wrong = ((c: Tensor) => c) as unknown as typeof sums;
  assertThrows(() => scan(wrong, x, x), ArgumentError, "a step must give [carry, y]");
});
