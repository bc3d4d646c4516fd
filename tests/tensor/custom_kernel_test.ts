/** Kernels of the user's own: values on every device, gradients, their place among other steps, and misuse. */
import { assertAlmostEquals, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  ArgumentError,
  CompiledKernel,
  context,
  DeviceError,
  DTypeError,
  IndexError,
  jit,
  kernel,
  ShapeError,
  SpecError,
  Tensor,
} from "../../mod.ts";
import type { UOp } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";

/** x * 2 + y, of n elements. */
const blend = (n: number) => (out: UOp, x: UOp, y: UOp) => {
  const i = kernel.loop(n), a = kernel.read(x, i);
  return kernel.write(out, i, a.mul(kernel.constant(2, a)).add(kernel.read(y, i)));
};

/** The sums of the rows of a matrix, and their largest elements. */
const rows = (n: number, m: number) => (sums: UOp, tops: UOp, x: UOp) => {
  const i = kernel.loop(n), j = kernel.reduceLoop(m), k = kernel.reduceLoop(m);
  const at = (c: UOp) => kernel.read(x, i.mul(m).add(c));
  return [kernel.write(sums, i, kernel.sum(at(j), [j])), kernel.write(tops, i, kernel.max(at(k), [k]))];
};

for (const device of await devicesHere()) {
  const on = { device };
  Deno.test(`custom kernel ${device}: between lazy inputs and lazy readers, in one schedule`, async () => {
    const x = new Tensor([1.5, 2, 3], on), y = new Tensor([[10, 20, 30]], { dtype: "float32", ...on });
    const [out] = Tensor.empty([3], on).customKernel([x.mul(2), y.flip(1).reshape([3])], blend(3));
    const after = out.add(1).sum();
    assertEquals(await after.item(), 26 + 60 + 3);
    assertEquals(await out.tolist(), [36, 28, 22]);
  });
  Deno.test(`custom kernel ${device}: two results, reduces`, async () => {
    const x = Tensor.arange(12, undefined, undefined, { dtype: "float32", ...on }).reshape([3, 4]);
    const [sums, tops, same] = Tensor.empty([3], on).customKernel([Tensor.empty([3], on), x], rows(3, 4));
    Tensor.realize([sums, tops]);
    assertEquals([await sums.tolist(), await tops.tolist()], [[6, 22, 38], [3, 7, 11]]);
    assertEquals(same, x);
  });
  Deno.test(`custom kernel ${device}: replayed by jit`, async () => {
    const step = jit((a: Tensor, b: Tensor) => Tensor.empty([4], on).customKernel([a, b], blend(4))[0].add(1));
    for (let i = 0; i < 5; i++) {
      const a = new Tensor([i, 1, 2, 3], { dtype: "float32", ...on }).realize();
      const b = new Tensor([1, 1, 1, i], { dtype: "float32", ...on }).realize();
      assertEquals(await step(a, b).tolist(), [2 * i + 2, 4, 6, 7 + i]);
    }
  });
}

const on = { device: "JS" };

Deno.test("custom kernel: the gradient that is given, and none", async () => {
  const x = new Tensor([1, 2, 3], { requiresGrad: true, ...on }),
    y = new Tensor([4, 5, 6], { requiresGrad: true, ...on });
  const out = () => Tensor.empty([3], on);
  const [z] = out().customKernel([x, y], blend(3), { gradFxn: (g, a) => [g.mul(2), g.mul(a).mul(0).add(g)] });
  const [gx, gy] = z.square().sum().gradient([x, y]);
  assertEquals([await gx.tolist(), await gy.tolist()], [[24, 36, 48], [12, 18, 24]]);
  const [none] = out().customKernel([x, y], blend(3));
  assertThrows(
    () => none.sum().gradient([x]),
    ArgumentError,
    "through a custom kernel: it has none; give it a gradFxn",
  );
  const [bad] = out().customKernel([x, y], blend(3), { gradFxn: (g) => [g.sum(), g] });
  assertThrows(() => bad.sum().gradient([x]), ShapeError, "it must have the shape of input 0");
});

Deno.test("custom kernel: gradients agree with finite differences", async () => {
  const start = [0.3, -1.2, 2];
  const cube = (t: Tensor) =>
    Tensor.empty([3], on).customKernel([t], (out, x) => {
      const i = kernel.loop(3), a = kernel.read(x, i);
      return kernel.write(out, i, a.mul(a).mul(a));
    }, { gradFxn: (g, a) => [g.mul(a.square()).mul(3)] })[0];
  const x = new Tensor(start, { requiresGrad: true, ...on }), [g] = cube(x).sum().gradient([x]);
  const loss = async (v: number[]) => Number(await cube(new Tensor(v, on)).sum().item()), h = 1e-2;
  for (const [i, got] of (await g.tolist() as number[]).entries()) {
    const [up, down] = [h, -h].map((d) => start.map((v, j) => j === i ? v + d : v));
    assertAlmostEquals(got, (await loss(up) - await loss(down)) / (2 * h), 1e-2);
  }
});

Deno.test("custom kernel: one step of the schedule; equal bodies are one kernel", () => {
  const make = () =>
    Tensor.empty([3], on).customKernel([new Tensor([1, 2, 3.5], on), Tensor.ones([3], on)], blend(3))[0];
  const kernels = make().schedule().map((s) => s.runner).filter((r) => r instanceof CompiledKernel);
  assertEquals(kernels.length, 1);
  const again = make().schedule().map((s) => s.runner).find((r) => r instanceof CompiledKernel);
  assertEquals(again?.program, kernels[0].program);
});

Deno.test("custom kernel: what was there before is overwritten, and a tensor may be read and written", async () => {
  const x = new Tensor([1, 2, 3.5], on).realize();
  const [y] = x.customKernel([], (buffer) => {
    const i = kernel.loop(3), a = kernel.read(buffer, i);
    return kernel.write(buffer, i, a.add(a));
  });
  assertEquals(await y.tolist(), [2, 4, 7]);
});

Deno.test("asParam: a parameter of this dtype and size", () => {
  const p = Tensor.empty([2, 3], { dtype: "int8", ...on }).asParam(4);
  assertEquals([p.dtype.name, p.arg!.toString()], ["int8", "4 x6"]);
  assertThrows(() => Tensor.empty([1], on).asParam(-1), ArgumentError, "the slot must be an integer of at least 0");
});

const empty = Tensor.empty([3], on), lazy = new Tensor([1, 2, 3.5], on).mul(2);
const put = (out: UOp) => kernel.write(out, kernel.loop(3), kernel.constant(1, out));
const misuse: readonly [string, () => unknown, new (...args: never[]) => Error, string][] = [
  ["no stores", () => empty.customKernel([], () => []), ArgumentError, "the function must give stores"],
  ["a number", () => empty.customKernel([], (() => 3) as never), ArgumentError, "it must give stores, not 3".slice(3)],
  ["no list", () => empty.customKernel(lazy as never, put), ArgumentError, "it takes a list of tensors"],
  ["no memory", () => lazy.customKernel([], put), ArgumentError, "no memory of its own; write to Tensor.empty([3])"],
  [
    "another parameter",
    () => empty.customKernel([], () => put(lazy.asParam(1))),
    ArgumentError,
    "parameter 1 is not one",
  ],
  ["no kernel", () => empty.customKernel([], (p) => kernel.write(p, 0, lazy.uop)), SpecError, "custom kernel"],
  [
    "no buffer",
    () => empty.customKernel([], () => kernel.write(3 as never, 0, 1)),
    ArgumentError,
    "the buffer must be",
  ],
  [
    "a position between two",
    () => empty.customKernel([], (p) => kernel.write(p, 0.5, 1)),
    ArgumentError,
    "the position must be an integer, not 0.5",
  ],
  [
    "text as a value",
    () => empty.customKernel([], (p) => kernel.write(p, 0, "1" as never)),
    ArgumentError,
    'the value must be a number, boolean or bigint, not "1"',
  ],
  [
    "another dtype",
    () => empty.customKernel([], (p) => kernel.write(p, 0, kernel.loop(3))),
    DTypeError,
    "the buffer is float32; give the value's cast(buffer.dtype)",
  ],
  [
    "a number as a gate",
    () => empty.customKernel([], (p) => kernel.write(p, 0, 1, kernel.loop(3))),
    DTypeError,
    "it is a bool",
  ],
  ["no turns", () => empty.customKernel([], () => kernel.loop(0)), ArgumentError, "the number of turns"],
  [
    "no loops",
    () => empty.customKernel([], (p) => kernel.sum(kernel.read(p, 0), [3] as never)),
    ArgumentError,
    "the loops must be a list of what reduceLoop gives",
  ],
  ["an option", () => empty.customKernel([], put, { grad: 1 } as never), ArgumentError, 'unknown option "grad"'],
  ["two devices", () => empty.customKernel([Tensor.empty([3], { device: "NULL" })], put), DeviceError, "NULL"],
];
Deno.test("custom kernel: numbers are written as they are, in the dtype of the buffer", async () => {
  for (const [dtype, value, want] of [["float32", 2, 2], ["int32", 2.9, 2], ["bool", true, true]] as const) {
    const out = Tensor.empty([3], { dtype, ...on });
    const [t] = out.customKernel([], (o) => kernel.write(o, kernel.loop(3), value));
    assertEquals(await t.tolist(), [want, want, want]);
  }
});

for (const [name, run, type, text] of misuse) {
  Deno.test(`custom kernel error: ${name}`, () => {
    assertThrows(run, type, text);
  });
}

Deno.test("custom kernel: positions that leave a buffer are an error before it runs", () => {
  const out = () => Tensor.empty([2], on), x = Tensor.ones([3], on).contiguous();
  const rows: [string, () => unknown, string][] = [
    [
      "a constant",
      () => out().customKernel([], (o) => kernel.write(o, 5, kernel.constant(1, o))),
      "element 5 of buffer 0, which has 2",
    ],
    [
      "a negative one",
      () => out().customKernel([], (o) => kernel.write(o, -1, kernel.constant(1, o))),
      "element -1 of buffer 0",
    ],
    ["a loop", () =>
      out().customKernel([x], (o, x) => {
        const i = kernel.loop(3);
        return kernel.write(o, i, kernel.read(x, i));
      }), "element 2 of buffer 0, which has 2"],
    ["a read", () =>
      out().customKernel([x], (o, x) => {
        const i = kernel.loop(2);
        return kernel.write(o, i, kernel.read(x, i.mul(2).add(1)));
      }), "element 3 of buffer 1, which has 3"],
  ];
  for (const [name, run, text] of rows) assertThrows(run, IndexError, text, name);
  // under a gate, and of no iterations, nothing leaves it
  out().customKernel([x], (o, x) => {
    const i = kernel.loop(3);
    return kernel.write(o, i, kernel.read(x, i), i.lt(2));
  });
});

for (const device of await devicesHere("WEBGPU")) {
  Deno.test(`custom kernel ${device}: SPEC=1 finds positions of data that leave a buffer`, async () => {
    const on = { device }, places = new Tensor([0, 7], { dtype: "int32", ...on }).realize();
    const run = (p: Tensor, n: number) =>
      Tensor.empty([n], on).customKernel([p], (o, p) => {
        const i = kernel.loop(2);
        return kernel.write(o, kernel.read(p, i), kernel.constant(3, o));
      })[0];
    await context({ SPEC: 1 }, async () => {
      const error = assertThrows(() => run(places, 4).realize(), SpecError);
      assertMatch(error.message, /^Kernel \w+ is wrong:\nAccess to an element at 7 of buffer 0, which has 4$/);
      assertEquals((await run(places, 8).tolist() as number[])[7], 3);
      const step = jit((p: Tensor) => run(p, 8));
      for (let i = 0; i < 3; i++) step(places);
      assertThrows(
        () => step(new Tensor([0, 8], { dtype: "int32", ...on }).realize()),
        SpecError,
        "element at 8 of buffer 0",
      );
    });
  });
}
