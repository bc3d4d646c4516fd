/**
 * Kernels by graph, on the NULL device: one JSON object of numbers on standard output. On standard error a table: kernels
 * beside the number to reach, what else is run (fills, copies, views), both also for a grid with the capabilities of a large
 * card, and what the interpreter (the JS device) counts while it runs the graph: bytes read and
 * written, floating-point operations, each beside the least there is. Values are checked against `tests/reference.ts`.
 * `deno run -A bench/kernel_count.ts`
 *
 * Shapes: constFold [10]; arange 1024; var, softmax, logSoftmax, layernorm [512, 1024]; batchnormTrain [32, 16, 28, 28];
 * crossEntropy [128, 10]; attention [1, 8, 512, 64]; matmulBiasRelu [256, 256] x [256, 256]; convRelu [8, 16, 28, 28]
 * with 3x3; setAtLoop10 [16]; mnistTrainStep [128, 1, 28, 28]; resnet50Forward [64, 3, 224, 224]. The interpreter runs
 * smaller ones: rows [16, 256], [4, 8, 14, 14], attention [1, 2, 48, 16], [32, 32] x [32, 32]; the last two not at all.
 *
 * batchnormTrain keeps no running statistics; batchnormStats, which is in the table alone, does, as a layer does where
 * nothing is said, and realizes them together with its output.
 *
 * arange counts the kernels of `x.add(Tensor.arange(n))` beyond those of `x.add(1)`: none, where the numbers are made in
 * the kernel that reads them.
 *
 * The least: reads, each input once, but the operands of products as often as an interpreter without tiles needs them, two
 * a multiplication (of attention one for the values: the weights are in no memory); writes, each output once; operations,
 * those of the formulas below, each once an element.
 *
 * @module
 */
import { jsCounters } from "../backends/js/js.ts";
import { CompiledKernel, Device, nn, schedule, state, Tensor } from "../mod.ts";
import { registerSim } from "../tests/fixtures/sim.ts";
import { evaluateTensor } from "../tests/reference.ts";
import { difference } from "../tests/tolerance.ts";
import { type Graph, GRAPHS } from "./compile_bench.ts";

/** Inputs of a case: memory that holds nothing, or values. */
export type Make = (shape: number[], classes?: number) => Tensor;

/** What the interpreter must do at least. */
interface Least {
  readonly read: number;
  readonly written: number;
  readonly flops: number;
}

/** A graph, the kernels that it may take, and what running it takes at least. */
export interface Case {
  readonly kernels: number;
  readonly build: (make: Make, small: boolean) => Tensor[];
  /** Kernels that are no part of the count. */
  readonly less?: (make: Make) => Tensor[];
  /** Whether it is in the table alone. */
  readonly tableOnly?: boolean;
  /** In elements and operations, at the small shapes; undefined where the interpreter does not run it. */
  readonly least?: () => Least;
}

function whole(graph: Graph): Tensor[] {
  return graph.build(graph.inputs());
}

/** A case over rows: `perElement` operations an element and `perRow` a row. */
function rows(kernels: number, f: (x: Tensor) => Tensor, perElement: number, perRow: number, small = false): Case {
  return {
    kernels,
    build: (make, isSmall) => [f(make(isSmall ? [16, 256] : [512, 1024]))],
    least: () => ({ read: 4096, written: small ? 16 : 4096, flops: 4096 * perElement + 16 * perRow }),
  };
}

/** A layer in training: its output, and the running statistics where it keeps some. */
function batchnorm(make: Make, small: boolean, trackRunningStats: boolean): Tensor[] {
  const layer = new nn.BatchNorm(small ? 8 : 16, { trackRunningStats });
  const held = state.getParameters(layer);
  Tensor.realize(held);
  const out = Tensor.train(() => layer.call(make(small ? [4, 8, 14, 14] : [32, 16, 28, 28])));
  return [out, ...trackRunningStats ? held : []];
}

/** What to realize, by key. */
export const CASES: Readonly<Record<string, Case>> = {
  constFold: {
    kernels: 0,
    build: () => [Tensor.ones([10]).mul(15).add(Tensor.ones([10]).mul(30))],
    least: () => ({ read: 0, written: 0, flops: 0 }),
  },
  arange: {
    kernels: 0,
    build: (make) => [make([1024]).add(Tensor.arange(1024))],
    less: (make) => [make([1024]).add(1)],
    least: () => ({ read: 1024, written: 1024, flops: 1024 }),
  },
  // a sum, a difference, its square, a sum; two quotients
  var: rows(1, (x) => x.var(-1), 4, 2, true),
  // a maximum, a difference, a scale, a power, a sum, a quotient
  softmax: rows(1, (x) => x.softmax(-1), 6, 0),
  // the same with a difference for the quotient; a logarithm and its scale
  logSoftmax: rows(1, (x) => x.logSoftmax(-1), 6, 2),
  // as var, and a product; a mean, a variance moved from 0, its root and reciprocal
  layernorm: rows(1, (x) => x.layernorm(), 5, 5),
  batchnormTrain: {
    kernels: 2,
    build: (make, small) => batchnorm(make, small, false),
    // as var, and the difference scaled by one factor and shifted
    least: () => ({ read: 6272 + 16, written: 6272, flops: 6272 * 6 + 8 * 6 }),
  },
  batchnormStats: { kernels: 6, build: (make, small) => batchnorm(make, small, true), tableOnly: true },
  crossEntropy: {
    kernels: 1,
    build: (make) => [make([128, 10]).sparseCategoricalCrossentropy(make([128], 10))],
    // as logSoftmax, but the difference of the chosen class alone, and the mean
    least: () => ({ read: 1280 + 128, written: 1, flops: 1280 * 5 + 128 * 5 + 1 }),
  },
  attention: {
    kernels: 1,
    build: (make, small) => {
      const shape = small ? [1, 2, 48, 16] : [1, 8, 512, 64];
      return [make(shape).scaledDotProductAttention(make(shape), make(shape))];
    },
    // of each pair two products of length 16, the scale and the softmax
    least: () => ({
      read: 3 * 2 * 48 * 48 * 16,
      written: 2 * 48 * 16,
      flops: 2 * 48 * 48 * (4 * 16 + 6) + 2 * 48 * 16,
    }),
  },
  matmulBiasRelu: {
    kernels: 1,
    build: (make, small) => {
      const n = small ? 32 : 256;
      return [make([n, n]).matmul(make([n, n])).add(make([n])).relu()];
    },
    least: () => ({ read: 2 * 32 ** 3 + 32 ** 2, written: 32 ** 2, flops: 2 * 32 ** 3 + 32 ** 2 }),
  },
  convRelu: {
    kernels: 1,
    build: (make, small) => {
      const [n, c, size] = small ? [2, 4, 10] : [8, 16, 28];
      return [make([n, c, size, size]).conv2d(make([c, c, 3, 3]), undefined, { padding: 1 }).relu()];
    },
    // 28 of 30 taps along each axis are inside
    least: () => ({ read: 2 * 4 * 4 * 28 * 28 + 2 * 4 * 4 * 30 * 30, written: 800, flops: 800 * 2 * 36 }),
  },
  setAtLoop10: {
    kernels: 1,
    build: (make) => {
      const t = make([16]);
      for (let i = 0; i < 10; i++) t.setAt([i], i);
      return [t];
    },
    least: () => ({ read: 0, written: 10, flops: 0 }),
  },
  mnistTrainStep: { kernels: 90, build: () => whole(GRAPHS.mnistStep()) },
  resnet50Forward: { kernels: 51, build: () => whole(GRAPHS.resnet50()) },
};

/** Kernels of a graph, and what else is run: fills, copies, views. */
export function kernelsOf(roots: readonly Tensor[]): readonly [kernels: number, others: number] {
  const items = schedule([...roots]), kernels = items.filter((i) => i.runner instanceof CompiledKernel).length;
  return [kernels, items.length - kernels];
}

/** What a case takes on a device, without what is no part of it. */
function countOn(device: string, c: Case): readonly [kernels: number, others: number] {
  Device.default = device;
  const [kernels, others] = kernelsOf(c.build(empty, false)),
    [less, alike] = c.less ? kernelsOf(c.less(empty)) : [0, 0];
  return [kernels - less, others - alike];
}

/** Memory without values, on the default device. */
export function empty(shape: number[], classes?: number): Tensor {
  return Tensor.empty(shape, { dtype: classes === undefined ? "float32" : "int32" }).realize();
}

/** Values that look random, the same each time; with `classes`, labels. */
export function filled(shape: number[], classes?: number): Tensor {
  const n = shape.reduce((a, b) => a * b, 1);
  const values = Array.from({ length: n }, (_, i) => classes === undefined ? Math.sin(i * 12.9898) : i * 7 % classes);
  return new Tensor(values, { dtype: classes === undefined ? "float32" : "int32" }).reshape(shape).contiguous()
    .realize();
}

/** Runs a case on the interpreter. @throws {Error} where the values are not those of the reference */
export function interpret(name: string, c: Case): Least {
  const roots = c.build(filled, true);
  const want = roots.map((t) => evaluateTensor(t));
  jsCounters.reset();
  Tensor.realize(roots);
  const { read, written, flops } = jsCounters;
  roots.forEach((t, i) => {
    const got = t.dataSync() as Float32Array, what = difference(got, want[i].data, { relative: 1e-5, absolute: 1e-5 });
    if (what !== undefined) throw new Error(`${name}: ${what}`);
  });
  return { read, written, flops };
}

function main(): number {
  const counts: Record<string, number> = {};
  let failed = 0;
  const cell = (x: string | number, width: number): string => String(x).padStart(width);
  registerSim();
  const against = (got: number, least: number): string => `${cell(got, 9)} ${cell(least, 9)}`;
  console.error("                                    grid");
  console.error(
    "graph            kernels <= others kernels others     read     least   written     least     flops     least",
  );
  for (const [name, c] of Object.entries(CASES)) {
    try {
      const [kernels, others] = countOn("NULL", c), grid = countOn("SIM", c);
      if (!c.tableOnly) counts[name] = kernels;
      let line = `${name.padEnd(16)} ${cell(kernels, 7)} ${cell(c.kernels, 2)} ${cell(others, 6)}`;
      line += ` ${cell(grid[0], 7)} ${cell(grid[1], 6)}`;
      if (c.least !== undefined) {
        Device.default = "JS";
        const got = interpret(name, c), least = c.least();
        const columns = [against(got.read, 4 * least.read), against(got.written, 4 * least.written)];
        line += ` ${columns.join(" ")} ${against(got.flops, least.flops)}`;
      }
      console.error(line);
    } catch (error) {
      failed++;
      console.error(`${name.padEnd(16)} fails: ${(error as Error).message}`);
    }
  }
  console.log(JSON.stringify(counts));
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(main());
