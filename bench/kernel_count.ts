/**
 * Kernels by graph, on the NULL device: one JSON object of numbers on standard output; a table with bytes and flops on
 * standard error. `deno run -A bench/kernel_count.ts`
 *
 * Shapes: constFold [10]; arange 1024; var, softmax, logSoftmax, layernorm [512, 1024]; batchnormTrain [32, 16, 28, 28];
 * crossEntropy [128, 10]; attention [1, 8, 512, 64]; matmulBiasRelu [256, 256] x [256, 256]; convRelu [8, 16, 28, 28]
 * with 3x3; setAtLoop10 [16]; mnistTrainStep [128, 1, 28, 28]; resnet50Forward [64, 3, 224, 224].
 *
 * @module
 */
import { CompiledKernel, Device, nn, schedule, Tensor } from "../mod.ts";
import { type Graph, GRAPHS } from "./compile_bench.ts";

function empty(...shape: number[]): Tensor {
  return Tensor.empty(shape).realize();
}

function whole(graph: Graph): Tensor[] {
  return graph.build(graph.inputs());
}

/** What to realize, by key. */
export const CASES: Readonly<Record<string, () => Tensor[]>> = {
  constFold: () => [Tensor.ones([10]).mul(15).add(Tensor.ones([10]).mul(30))],
  arange: () => [empty(1024).add(Tensor.arange(1024))],
  var: () => [empty(512, 1024).var(-1)],
  softmax: () => [empty(512, 1024).softmax(-1)],
  logSoftmax: () => [empty(512, 1024).logSoftmax(-1)],
  layernorm: () => [empty(512, 1024).layernorm()],
  batchnormTrain: () => {
    const layer = new nn.BatchNorm(16, { trackRunningStats: false });
    Tensor.realize([layer.weight!, layer.bias!]);
    return Tensor.train(() => [layer.call(empty(32, 16, 28, 28))]);
  },
  crossEntropy: () => [
    empty(128, 10).sparseCategoricalCrossentropy(Tensor.empty([128], { dtype: "int32" }).realize()),
  ],
  attention: () => {
    const [q, k, v] = [1, 2, 3].map(() => empty(1, 8, 512, 64));
    return [q.scaledDotProductAttention(k, v)];
  },
  matmulBiasRelu: () => [empty(256, 256).matmul(empty(256, 256)).add(empty(256)).relu()],
  convRelu: () => [empty(8, 16, 28, 28).conv2d(empty(16, 16, 3, 3), undefined, { padding: 1 }).relu()],
  setAtLoop10: () => {
    const t = empty(16);
    for (let i = 0; i < 10; i++) t.setAt([i], i);
    return [t];
  },
  mnistTrainStep: () => whole(GRAPHS.mnistStep()),
  resnet50Forward: () => whole(GRAPHS.resnet50()),
};

function main(): number {
  Device.default = "NULL";
  const counts: Record<string, number> = {};
  let failed = 0;
  console.error("graph               kernels          bytes            flops");
  for (const [name, make] of Object.entries(CASES)) {
    try {
      const items = schedule(make()).filter((i) => i.runner instanceof CompiledKernel);
      let nbytes = 0, flops = 0;
      for (const { runner } of items) {
        if (!(runner instanceof CompiledKernel)) continue;
        nbytes += runner.program.linear.bytes;
        flops += runner.program.linear.flops;
      }
      counts[name] = items.length;
      const columns = [String(items.length).padStart(7), String(nbytes).padStart(15), String(flops).padStart(17)];
      console.error(`${name.padEnd(18)} ${columns.join("")}`);
    } catch (error) {
      failed++;
      console.error(`${name.padEnd(18)} fails: ${(error as Error).message}`);
    }
  }
  console.log(JSON.stringify(counts));
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(main());
