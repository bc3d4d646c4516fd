/** Products that are in no memory: attention-like programs and their gradients on SIM, against the graph op by op. */
import { assert, assertEquals } from "@std/assert";
import { CompiledKernel, Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort } from "../../../src/uop/core/uop.ts";
import { numelOf } from "../../../src/uop/core/build_movement.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { registerSim } from "../../fixtures/sim.ts";
import { evaluateTensor } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";

registerSim();
Device.get("SIM" as string);

const ROWS = 40, KEYS = 48, WIDTH = 16;
type Program = (q: Tensor, k: Tensor, v: Tensor) => Tensor;

function numbers(n: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898 + seed * 78.233) * 2);
}

/** Numbers around 0 in 16 bits, the same each time. */
function make(device: string, shape: number[], seed: number, dtype = dtypes.bfloat16): Tensor {
  const values = numbers(shape.reduce((a, b) => a * b, 1), seed);
  return new Tensor(values, { device }).reshape(shape).cast(dtype).contiguous().realize();
}

function operands(device: string, rows = ROWS, keys = KEYS, width = WIDTH): [Tensor, Tensor, Tensor] {
  return [make(device, [2, rows, width], 1), make(device, [2, keys, width], 2), make(device, [2, keys, width], 3)];
}

/** Of a sum of the results, each times a number: the gradients. */
function gradients(program: Program, device: string): Tensor[] {
  const all = operands(device);
  for (const t of all) t.requiresGrad = true;
  const out = program(...all);
  out.mul(make(device, [...out.shape], 4)).float().sum().backward();
  return all.map((t) => t.grad!);
}

function kernels(outputs: Tensor[]): number {
  return schedule(outputs).filter((i) => i.runner instanceof CompiledKernel).length;
}

/** Elements of the largest intermediate. */
function largest(outputs: Tensor[]): number {
  const own = new Set(outputs.map((t) => numelOf(t.uop)));
  const sizes = schedule(outputs).flatMap((i) => i.bufs.map((b) => b?.size ?? 0));
  return Math.max(...sizes.filter((n) => !own.has(n)));
}

/** Which keys a query sees: the first one none. */
function seen(device: string): Tensor {
  const values = Array.from({ length: ROWS * KEYS }, (_, i) => i >= KEYS && i * 7 % 5 !== 3);
  return new Tensor(values, { device }).reshape([ROWS, KEYS]);
}

const scores = (q: Tensor, k: Tensor): Tensor => q.dot(k.transpose(-2, -1), { dtype: "float32" }).mul(0.1);

/** By name: a program, and the kernels of its gradients. */
const PROGRAMS: Readonly<Record<string, readonly [program: Program, kernels: number]>> = {
  "attention": [(q, k, v) => q.scaledDotProductAttention(k, v), 5],
  "causal attention": [(q, k, v) => q.scaledDotProductAttention(k, v, undefined, { isCausal: true }), 5],
  "attention with a mask": [(q, k, v) => q.scaledDotProductAttention(k, v, seen(q.device)), 5],
  "attention written out": [(q, k, v) => q.matmul(k.transpose(-2, -1)).mul(0.2).softmax(-1).matmul(v), 5],
  "capped scores": [(q, k, v) => q.matmul(k.transpose(-2, -1)).mul(0.2).tanh().mul(5).softmax(-1).matmul(v), 5],
  "sigmoids of scores": [(q, k, v) => q.matmul(k.transpose(-2, -1)).sigmoid().matmul(v), 3],
  "no softmax": [(q, k, v) => q.matmul(k.transpose(-2, -1)).mul(0.1).matmul(v), 3],
  "einsums": [(q, k, v) => Tensor.einsum("bij,bjk->bik", [Tensor.einsum("bqd,bkd->bqk", [q, k]).sigmoid(), v]), 3],
};

for (const [name, [program, count]] of Object.entries(PROGRAMS)) {
  Deno.test(
    `chains: the gradient of ${name} keeps no scores`,
    optimized(async () => {
      const want = gradients(program, "JS").map((t) => evaluateTensor(t).data), got = gradients(program, "SIM");
      assertEquals([largest(got) < 2 * ROWS * KEYS, kernels(got)], [true, count]);
      Tensor.realize(got);
      for (const [i, t] of got.entries()) {
        const values = await t.data() as Float32Array;
        assertEquals(difference(values, want[i], toleranceOf("accumulate", dtypes.bfloat16)), undefined);
      }
    }),
  );
}

Deno.test(
  "chains: maxima, sums and exponentials of rows of a product that is in no memory",
  optimized(async () => {
    const [q, k] = operands("SIM"), [a, b] = operands("JS");
    for (
      const program of [
        (q: Tensor, k: Tensor) => scores(q, k).max(-1),
        (q: Tensor, k: Tensor) => scores(q, k).exp().sum(-1),
        (q: Tensor, k: Tensor) => scores(q, k).logsumexp(-1),
      ]
    ) {
      const t = program(q, k), want = evaluateTensor(program(a, b)).data;
      assert(largest([t]) < 2 * ROWS * KEYS);
      const values = await t.data() as Float32Array;
      assertEquals(difference(values, want, toleranceOf("accumulate", dtypes.bfloat16)), undefined);
    }
  }),
);

Deno.test(
  "chains: scores that are read otherwise too, are few or have many terms are kept",
  optimized(() => {
    const [q, k, v] = operands("SIM"), s = scores(q, k);
    assertEquals(largest([s.contiguous().sigmoid().cast("bfloat16").dot(v)]), 2 * ROWS * KEYS, "stored");
    assertEquals(kernels([s.sigmoid().cast("bfloat16").dot(v), s.cumsum(-1)]) > 2, true);
    const [q2, k2, v2] = operands("SIM", 4, 24);
    assertEquals(kernels([scores(q2, k2).sigmoid().cast("bfloat16").dot(v2)]), 2, "few");
    const [q3, k3, v3] = operands("SIM", 32, 32, 320);
    assertEquals(kernels([scores(q3, k3).sigmoid().cast("bfloat16").dot(v3)]), 2, "many terms");
  }),
);

// ---- attention, whose maxima and sums are computed with what waits for them

type Make = (shape: number[], seed: number) => Tensor;
const heads = (make: Make, rows: number, keys: number, width = 32, count = 2): [Tensor, Tensor, Tensor] => [
  make([1, count, rows, width], 1),
  make([1, count, keys, width], 2),
  make([1, count, keys, width], 3),
];

const ATTENTION: Readonly<Record<string, (make: Make) => Tensor>> = {
  "plain": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    return q.scaledDotProductAttention(k, v);
  },
  "causal": (make) => {
    const [q, k, v] = heads(make, 70, 70);
    return q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
  },
  "an added mask": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    return q.scaledDotProductAttention(k, v, make([1, 1, 40, 50], 4));
  },
  "a mask of bools": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    return q.scaledDotProductAttention(k, v, make([1, 2, 40, 50], 4).lt(1).contiguous().realize());
  },
  "rows without keys": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    return q.scaledDotProductAttention(k, v, make([1, 1, 40, 1], 4).lt(1).contiguous().realize());
  },
  "shared heads": (make) => {
    const [q] = heads(make, 40, 50, 32, 4), [, k, v] = heads(make, 40, 50, 32, 2);
    return q.scaledDotProductAttention(k, v, undefined, { enableGqa: true });
  },
  "heads that stand inside": (make) => {
    const [q, k, v] = [1, 2, 3].map((seed) => make([2, 40, 3, 16], seed).permute([0, 2, 1, 3]));
    return q.scaledDotProductAttention(k, v).permute([0, 2, 1, 3]).reshape([2, 40, 48]);
  },
  "divided after the product": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    const x = q.dot(k.transpose(-2, -1), { dtype: "float32" }).mul(0.2);
    const e = x.sub(x.max(-1, { keepdim: true })).exp(), sum = e.sum(-1, { keepdim: true });
    return e.cast(q.dtype).dot(v, { dtype: "float32" }).div(sum).cast(q.dtype);
  },
  "written out": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    const scores = q.dot(k.transpose(-2, -1), { dtype: "float32" }).mul(0.2).tanh().mul(5);
    return scores.softmax(-1).cast(q.dtype).dot(v);
  },
};

for (const dtype of [dtypes.bfloat16, dtypes.float16]) {
  const maker = (device: string): Make => (shape, seed) => make(device, shape, seed, dtype);
  for (const [name, program] of Object.entries(ATTENTION)) {
    Deno.test(
      `chains: ${name}, ${dtype}, is one kernel`,
      optimized(async () => {
        const want = evaluateTensor(program(maker("JS"))), make = maker("SIM");
        assertEquals(kernels([program(make)]), 1);
        const got = await program(make).data() as Float32Array;
        assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
      }),
    );
  }

  Deno.test(`chains: weights that are read again are kept, ${dtype}`, async () => {
    const weigh = (make: Make): Tensor[] => {
      const [q, k, v] = heads(make, 20, 24);
      const weights = q.dot(k.transpose(-2, -1), { dtype: "float32" }).softmax(-1).cast(q.dtype);
      return [weights, weights.dot(v)];
    };
    const want = weigh(maker("JS")).map((t) => evaluateTensor(t).data), got = weigh(maker("SIM"));
    Tensor.realize(got);
    for (const [i, t] of got.entries()) {
      const values = await t.data() as Float32Array;
      assertEquals(difference(values, want[i], toleranceOf("accumulate", dtype)), undefined);
    }
  });

  Deno.test(
    `chains: operands that are products get memory first, ${dtype}`,
    optimized(async () => {
      const program = (make: Make): Tensor => {
        const [x, ...weights] = [make([2, 24, 32], 1), make([32, 64], 2), make([32, 64], 3), make([32, 64], 4)];
        const [q, k, v] = weights.map((w) => x.dot(w.mul(0.1)).reshape([2, 24, 2, 32]).transpose(1, 2));
        return q.scaledDotProductAttention(k, v).transpose(1, 2).reshape([2, 24, 64]);
      };
      const want = evaluateTensor(program(maker("JS")));
      assertEquals(kernels([program(maker("SIM"))]), 4);
      const got = await program(maker("SIM")).data() as Float32Array;
      assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
    }),
  );

  Deno.test(
    `chains: operands that are computed get memory first, ${dtype}`,
    optimized(async () => {
      const program = (make: Make): Tensor => {
        const [q, k, v] = heads(make, 20, 24);
        return q.mul(0.5).scaledDotProductAttention(k.add(1), v.relu());
      };
      const want = evaluateTensor(program(maker("JS")));
      assertEquals(kernels([program(maker("SIM"))]), 4);
      const got = await program(maker("SIM")).data() as Float32Array;
      assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
    }),
  );
}

Deno.test(
  "chains: few queries of many keys are cut over the keys, and so are masked ones",
  optimized(async () => {
    const attend = (device: string, isMasked: boolean): Tensor => {
      const [q, k, v] = [[1, 8, 1, 16], [1, 2, 400, 16], [1, 2, 400, 16]].map((s, i) => make(device, s, i));
      const mask = isMasked ? make(device, [1, 1, 1, 400], 4).lt(-1).contiguous().realize() : undefined;
      return q.scaledDotProductAttention(k, v, mask, { enableGqa: true });
    };
    for (const isMasked of [false, true]) {
      const want = evaluateTensor(attend("JS", isMasked)).data, t = attend("SIM", isMasked);
      assertEquals(kernels([t]), 2);
      assert(schedule([t]).at(-1)!.bufs.every((b) => b!.size < 2000), "no scores in memory");
      const got = await t.data() as Float32Array;
      assertEquals(difference(got, want, toleranceOf("accumulate", dtypes.bfloat16)), undefined);
    }
  }),
);

Deno.test(
  "chains: in float32 there are none, and the sum of a row stands beside no product in tiles",
  optimized(async () => {
    const attend = (device: string): Tensor => {
      const [q, k, v] = [[32, 64], [64, 64], [64, 64]].map((s, i) => make(device, s, i, dtypes.float32));
      return q.scaledDotProductAttention(k, v);
    };
    const want = evaluateTensor(attend("JS")).data, t = attend("SIM");
    const products = schedule([t]).flatMap(({ ast }) =>
      ast === undefined ? [] : [toposort(ast).filter((u) => u.op === Ops.REDUCE).length]
    );
    assertEquals(products, [1, 1, 1, 1]);
    assertEquals(
      difference(await t.data() as Float32Array, want, toleranceOf("accumulate", dtypes.float32)),
      undefined,
    );
  }),
);
