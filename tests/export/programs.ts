/**
 * Functions that are exported in tests: each target builds and runs all of them.
 */
import { dtypes, nn, state, Tensor, Variable } from "../../mod.ts";
import type { ExportEntries } from "../../src/export/export.ts";

/** A function, its arguments, what its weights are, and how exactly it is computed. */
export interface Example {
  readonly f: (...args: never[]) => unknown;
  readonly args: readonly unknown[];
  readonly weights?: unknown;
}

class Digits {
  readonly conv1: nn.Conv2d = new nn.Conv2d(1, 4, 3, { padding: 1 });
  readonly norm: nn.BatchNorm = new nn.BatchNorm(4);
  readonly conv2: nn.Conv2d = new nn.Conv2d(4, 6, 3);
  readonly head: nn.Linear = new nn.Linear(24, 10);
  call(x: Tensor): Tensor {
    x = this.norm.call(this.conv1.call(x)).relu().maxPool2d(2);
    x = this.conv2.call(x).gelu().maxPool2d(1);
    return this.head.call(x.flatten(1)).softmax();
  }
}

class Net {
  readonly l1: nn.Linear = new nn.Linear(6, 5);
  readonly l2: nn.Linear = new nn.Linear(5, 3);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).tanh());
  }
}

/** Numbers that look random, and are the same everywhere. */
export function wave(shape: readonly number[], scale = 1): Tensor {
  const n = shape.reduce((a, b) => a * b, 1);
  return new Tensor(Float32Array.from({ length: n }, (_, i) => scale * Math.sin(i * 1.7 + 0.3))).reshape([...shape])
    .realize();
}

/** All examples, made anew. */
export function examples(): Record<string, Example> {
  Tensor.manualSeed(7);
  const digits = new Digits(), net = new Net(), trained = new Net();
  Tensor.realize([
    ...state.getParameters(digits),
    ...state.getParameters(net),
    ...state.getParameters(trained),
  ]);
  const optimizer = new nn.optim.Adam(state.getParameters(trained), { lr: 0.05 });
  const count = Tensor.zeros([3]).contiguous().realize(), n = new Variable("n", 1, 8);
  const table = wave([8, 3]);
  return {
    digits: { f: (image: Tensor) => digits.call(image), args: [wave([1, 1, 8, 8])], weights: digits },
    net: {
      f: (x: Tensor) => ({ scores: net.call(x), best: net.call(x).argmax(1) }),
      args: [wave([4, 6])],
      weights: net,
    },
    train: {
      f: (x: Tensor, y: Tensor) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const loss = trained.call(x).crossEntropy(y).backward();
          optimizer.step();
          return loss;
        }),
      args: [wave([4, 6]), new Tensor([0, 2, 1, 1], { dtype: "int32" }).realize()],
      weights: { trained, optimizer },
    },
    counter: { f: (x: Tensor) => [count.assign(count.add(x)).mul(2), x.neg()], args: [wave([3])], weights: { count } },
    random: { f: (x: Tensor) => x.add(Tensor.rand([2, 3])).sub(Tensor.rand([3]).mul(0.5)), args: [wave([2, 3])] },
    sizes: {
      f: (m: Tensor) => table.at([0, m]).mul(2).sum(0),
      args: [n.bind(5)],
      weights: { table },
    },
    whole: {
      f: (
        a: Tensor,
        b: Tensor,
      ) => [a.mul(b).add(7), a.floorDiv(3), b.gt(0), a.bitwiseXor(b), a.maximum(b)],
      args: [
        new Tensor([7, -7, 2147483647, -2147483648], { dtype: "int32" }).realize(),
        new Tensor([2, -3, 5, -1], { dtype: "int32" }).realize(),
      ],
    },
    // one call of a helper, where a comparison holds
    clamped: {
      f: (a: Tensor) => a.lt(16).where(a.maximum(0), 16),
      args: [new Tensor([100, 5, -9, 16], { dtype: "int32" }).realize()],
    },
    halves: {
      f: (x: Tensor) => [x.mul(1.5).exp(), x.cast(dtypes.bfloat16), x.sum()],
      args: [wave([9]).half().realize()],
    },
    special: { f: (x: Tensor) => [x.div(0), x.sub(x).log(), x.sqrt(), x.sin(), x.maximum(0.5)], args: [wave([5])] },
  };
}

/** Functions that share weights and state: two that read, one that learns, one with a size, one that draws random numbers. */
export function agent(): { readonly entries: ExportEntries; readonly weights: unknown } {
  Tensor.manualSeed(3);
  const net = new nn.Linear(4, 3), cache = Tensor.zeros([6, 4]).contiguous().realize();
  const optimizer = new nn.optim.SGD(state.getParameters(net), { lr: 0.1, momentum: 0.9 });
  const n = new Variable("n", 0, 5), x = wave([1, 4]), many = wave([5, 4]), labels = new Tensor([0, 2, 1, 0, 2]);
  const entries: ExportEntries = {
    scores: [net, [x]],
    best: [(x: Tensor) => net.call(x).argmax(1), [many]],
    learn: [(x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = net.call(x).crossEntropy(y).backward();
        optimizer.step();
        return loss;
      }), [many, labels]],
    remember: [(x: Tensor, at: Tensor) => {
      cache.setAt([[at, at.add(1)]], x);
      return net.call(cache).sum();
    }, [x, n.bind(2)]],
    noise: [(x: Tensor) => x.add(Tensor.rand([1, 4])), [x]],
  };
  return { entries, weights: { net, cache } };
}
