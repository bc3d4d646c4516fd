/** Online products by matrix units: kernels against their own scalar form, and attention as users write it, on SIM. */
import { assert, assertEquals } from "@std/assert";
import { CompiledKernel, Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { getTuple, opCarrier, reduce, RescaleCarrier } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { jsCounters } from "../../../backends/js/js.ts";
import { onlineProductOf } from "../../../src/uop/algebra/online_product.ts";
import { specLinear, verify } from "../../../src/uop/core/spec.ts";
import { constant, index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { registerSim, SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { decode, encode, evaluateTensor } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { compile, type Data, paramsOf, run } from "../harness.ts";
import { optimized } from "../../fixtures/optimized.ts";

registerSim();
Device.get("SIM");
const GPU = simCaps(SIM_GRID);

interface Shape {
  readonly heads?: number;
  readonly rows?: number;
  readonly keys?: number;
  readonly features?: number;
  readonly columns?: number;
  readonly dtype?: DType;
  readonly bias?: boolean;
  /** Keys up to the row's own number. */
  readonly causal?: boolean;
  /** So many keys before the row's own number. */
  readonly window?: number;
}

function kernel(shape: Shape): UOp {
  const { heads = 2, rows = 64, keys = 64, features = 32, columns = 32, dtype = dtypes.bfloat16 } = shape;
  const h = range(heads, 0, AxisKind.LOOP), q = range(rows, 1, AxisKind.LOOP), e = range(columns, 2, AxisKind.LOOP);
  const k = range(keys, 3, AxisKind.REDUCE), d = range(features, 4, AxisKind.REDUCE), f = dtypes.float32;
  const read = (slot: number, n: number, width: number, row: UOp, column: UOp): UOp =>
    load(index(param(slot, dtype, heads * n * width), h.mul(n * width).add(row.mul(width)).add(column))).cast(f);
  const product = read(1, rows, features, q, d).mul(read(2, keys, features, k, d));
  let x = reduce(opCarrier(Ops.ADD, f), [product], [d]).mul(1 / Math.sqrt(features));
  const never = constant(-Infinity, f);
  if (shape.bias) x = x.add(load(index(param(4, f, rows * keys), q.mul(keys).add(k))));
  if (shape.causal) x = k.lt(q.add(1)).where(x, never);
  if (shape.window !== undefined) x = q.add(-shape.window).lt(k).where(x, never);
  const values = read(3, keys, columns, k, e);
  const r = reduce(new RescaleCarrier(f, Math.LOG2E, 2, dtype), [x, constant(1, f), values], [k]), max = getTuple(r, 0);
  const out = getTuple(r, 2).fdiv(getTuple(r, 1).add(max.add(max.mul(-1)))).cast(dtype);
  const at = h.mul(rows * columns).add(q.mul(columns)).add(e);
  return sink([store(index(param(0, dtype, heads * rows * columns), at), out)]);
}

function count(p: LinearProgram, op: Ops): number {
  return p.uops.filter((u) => u.op === op).length;
}

/** Numbers around 0, the same each time. */
function numbers(n: number, seed: number): number[] {
  return Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898 + seed * 78.233) * 2);
}

function dataOf(ast: UOp): Data[] {
  return paramsOf(ast).map(({ dtype, size }, slot) => {
    const bytes = encode(numbers(size, slot), dtype).slice().buffer;
    if (dtype === dtypes.float32) return new Float32Array(bytes);
    return dtype === dtypes.float16 ? new Float16Array(bytes) : new Uint16Array(bytes);
  });
}

function valuesOf(data: Data, dtype: DType): number[] {
  return decode(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), dtype).map(Number);
}

const SHAPES: Readonly<Record<string, Shape>> = {
  "whole tiles": {},
  "several groups, several tiles": { heads: 1, rows: 256, keys: 192 },
  "odd sizes": { rows: 33, keys: 45, features: 48, columns: 16 },
  "more columns than features": { rows: 20, keys: 70, features: 16, columns: 80 },
  "float16": { dtype: dtypes.float16, rows: 48 },
  "a bias": { rows: 40, keys: 90, bias: true },
  "causal": { rows: 256, keys: 256, causal: true, heads: 1 },
  "causal, odd sizes": { rows: 150, keys: 170, causal: true, heads: 1 },
  "a window": { rows: 256, keys: 300, causal: true, window: 20, heads: 1 },
  "a window with rows beyond the keys": { rows: 256, keys: 64, causal: true, window: 20, heads: 1 },
  "one head": { heads: 1, rows: 16, keys: 16, features: 16, columns: 16 },
  "many columns": { heads: 1, rows: 32, keys: 64, features: 16, columns: 256 },
};

for (const [name, shape] of Object.entries(SHAPES)) {
  Deno.test(
    `online tiles: ${name}`,
    optimized(() => {
      const ast = kernel(shape), data = dataOf(ast), dtype = shape.dtype ?? dtypes.bfloat16;
      const [want] = run(ast, data, [], {}), [got] = run(ast, data, undefined, GPU);
      const wrong = difference(valuesOf(got, dtype), valuesOf(want, dtype), toleranceOf("accumulate", dtype));
      assertEquals(wrong, undefined);
      const p = compile(ast, undefined, GPU);
      verify(p.uops, specLinear, "in a test");
      assert(count(p, Ops.WMMA) > 0 && count(p, Ops.LDMATRIX) > 0 && count(p, Ops.ASYNC_COPY) > 0);
      assertEquals([count(p, Ops.BARRIER), count(p, Ops.RANGE)], [1, 1]);
    }),
  );
}

Deno.test(
  "online tiles: hidden keys bound the loop",
  optimized(() => {
    const loopOf = (shape: Shape): UOp => compile(kernel(shape), undefined, GPU).uops.find((u) => u.op === Ops.RANGE)!;
    assert(loopOf({ rows: 512, keys: 512 }).src[0].isConst(8));
    assert(loopOf({ rows: 512, keys: 512, causal: true }).src[0].op !== Ops.CONST);
    // of 1024 keys, 128 rows and the 20 before them are in at most four tiles of 64
    const copies = (shape: Shape): number => {
      const ast = kernel(shape), before = jsCounters.read;
      run(ast, dataOf(ast), undefined, GPU);
      return jsCounters.read - before;
    };
    const wide = { rows: 128, keys: 1024, heads: 1 };
    assert(copies({ ...wide, window: 20 }) > 0.9 * copies(wide), "a window that has no end");
    assert(copies({ ...wide, causal: true, window: 20 }) < 0.4 * copies(wide));
  }),
);

Deno.test("online tiles: fewer keys where little memory is shared", () => {
  const shape = { heads: 1, rows: 32, keys: 48, features: 128, columns: 128 };
  const ast = kernel(shape), data = dataOf(ast), small = simCaps({ ...SIM_GRID, sharedBytes: 40 << 10 });
  const [want] = run(ast, data, [], {}), [got] = run(ast, data, undefined, small);
  const wrong = difference(
    valuesOf(got, dtypes.bfloat16),
    valuesOf(want, dtypes.bfloat16),
    toleranceOf("accumulate", dtypes.bfloat16),
  );
  assertEquals(wrong, undefined);
});

Deno.test("online tiles: without opts or matrix units the same kernel is computed plainly", () => {
  const ast = kernel({ heads: 1, rows: 16, keys: 20, features: 16, columns: 16 }), data = dataOf(ast);
  const [want] = run(ast, data, [], {});
  for (const grid of [{ ...SIM_GRID, tensorCores: [] }, { ...SIM_GRID, hasAsyncCopy: false }]) {
    const [got] = run(ast, data, undefined, simCaps(grid));
    const values = [got, want].map((x) => valuesOf(x, dtypes.bfloat16));
    assertEquals(difference(values[0], values[1], toleranceOf("accumulate", dtypes.bfloat16)), undefined);
    assertEquals(count(compile(ast, undefined, simCaps(grid)), Ops.WMMA), 0);
  }
  const p = context({ NOOPT: 1 }, () => compile(ast, undefined, GPU));
  assertEquals(count(p, Ops.WMMA), 0);
});

Deno.test("online products: what is none", () => {
  const isOne = (shape: Shape): boolean => onlineProductOf(kernel(shape).src[0]) !== undefined;
  assert(isOne({}));
  assert(!isOne({ features: 24 }), "features of half a tile");
  assert(!isOne({ columns: 40 }), "columns of half a tile");
  assert(!isOne({ rows: 4 }), "few rows");
  assert(!isOne({ columns: 512 }), "too many columns for registers");
});

// ---- as users write it

function kernels(t: Tensor): number {
  return schedule([t]).filter((i) => i.runner instanceof CompiledKernel).length;
}

type Make = (shape: number[], seed: number) => Tensor;
const heads = (make: Make, rows: number, keys: number, width = 32, count = 2): [Tensor, Tensor, Tensor] => [
  make([1, count, rows, width], 1),
  make([1, count, keys, width], 2),
  make([1, count, keys, width], 3),
];

const PROGRAMS: Readonly<Record<string, (make: Make) => Tensor>> = {
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
  "written out": (make) => {
    const [q, k, v] = heads(make, 40, 50);
    const scores = q.dot(k.transpose(-2, -1), { dtype: "float32" }).mul(0.2).tanh().mul(5);
    return scores.softmax(-1).cast(q.dtype).dot(v);
  },
};

for (const dtype of [dtypes.bfloat16, dtypes.float16]) {
  const maker = (device: string): Make => (shape, seed) => {
    const n = shape.reduce((a, b) => a * b, 1);
    return new Tensor(Float32Array.from(numbers(n, seed)), { device }).reshape(shape).cast(dtype).contiguous()
      .realize();
  };
  for (const [name, program] of Object.entries(PROGRAMS)) {
    Deno.test(
      `online products: ${name}, ${dtype}, is one kernel`,
      optimized(async () => {
        const want = evaluateTensor(program(maker("JS"))), make = maker("SIM");
        assertEquals(kernels(program(make)), 1);
        const got = await program(make).data() as Float32Array;
        assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
      }),
    );
  }

  Deno.test(`online products: weights that are read again are kept, ${dtype}`, async () => {
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
    `online products: operands that are products get memory first, ${dtype}`,
    optimized(async () => {
      const program = (make: Make): Tensor => {
        const [x, ...weights] = [make([2, 24, 32], 1), make([32, 64], 2), make([32, 64], 3), make([32, 64], 4)];
        const [q, k, v] = weights.map((w) => x.dot(w.mul(0.1)).reshape([2, 24, 2, 32]).transpose(1, 2));
        return q.scaledDotProductAttention(k, v).transpose(1, 2).reshape([2, 24, 64]);
      };
      const want = evaluateTensor(program(maker("JS")));
      assertEquals(kernels(program(maker("SIM"))), 4);
      const got = await program(maker("SIM")).data() as Float32Array;
      assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
    }),
  );

  Deno.test(
    `online products: operands that are computed get memory first, ${dtype}`,
    optimized(async () => {
      const program = (make: Make): Tensor => {
        const [q, k, v] = heads(make, 20, 24);
        return q.mul(0.5).scaledDotProductAttention(k.add(1), v.relu());
      };
      const want = evaluateTensor(program(maker("JS")));
      assertEquals(kernels(program(maker("SIM"))), 4);
      const got = await program(maker("SIM")).data() as Float32Array;
      assertEquals(difference(got, want.data, toleranceOf("accumulate", dtype)), undefined);
    }),
  );
}
