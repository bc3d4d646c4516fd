/** The programs of docs/inside.md. Each is a story of its own: a function, and what its arrays are called. @module */
import { nn, state, Tensor } from "../../mod.ts";

/** A program. */
export interface InsideProgram {
  readonly title: string;
  /** What is worth seeing. */
  readonly text: string;
  readonly names?: unknown;
  readonly run: () => unknown;
  /** The element that is told number by number, of the result. */
  readonly at: readonly number[];
}

const a = new Tensor([[1, 2], [3, 4]], { dtype: "float32" }).realize();
const scores = new Tensor([[1, 3, 2], [0, 0, 5]], { dtype: "float32" }).realize();

class Mlp {
  readonly l1: nn.Linear = new nn.Linear(3, 4);
  readonly l2: nn.Linear = new nn.Linear(4, 2);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).relu());
  }
}
/** Weights of 1/4, 2/4, -3/4, ..., the same on each machine. */
function small(shape: readonly number[]): Tensor {
  const n = shape.reduce((p, s) => p * s, 1);
  return new Tensor(Array.from({ length: n }, (_, i) => ((i * 5) % 7 - 3) / 4), { dtype: "float32" }).reshape([
    ...shape,
  ]);
}
const mlp = new Mlp(), x = small([2, 3]).contiguous(), labels = new Tensor([1, 0]);
for (const w of state.getParameters(mlp)) w.assign(small(w.shape as number[]));
const optimizer = new nn.optim.SGD(state.getParameters(mlp), { lr: 0.5 });
Tensor.realize([...state.getParameters(mlp), x, labels]);

/** In the order of the page. */
export const INSIDE_PROGRAMS: readonly InsideProgram[] = [
  {
    title: "2 + [1, 2, 3]",
    text: "One operation is one kernel: a loop over its elements. The list was given by the program, so it is data.",
    run: () => new Tensor([1, 2, 3]).add(2),
    at: [2],
  },
  {
    title: "A padded sum",
    text: "Padding moves no memory: the sum reads through a condition that says where the matrix is.",
    names: { a },
    run: () => a.pad([1, 1, 1, 1]).sum(1),
    at: [1],
  },
  {
    title: "Softmax",
    text:
      "A maximum, exponentials, their sum and a division by it: one kernel, which keeps each row between its loops.",
    names: { scores },
    run: () => scores.softmax(),
    at: [0, 1],
  },
  {
    title: "One training step",
    text:
      "Forward, backward and the update of all weights, as one schedule. Gradients are computed where they are used.",
    names: { mlp, x, labels },
    run: () =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = mlp.call(x).sparseCategoricalCrossentropy(labels).backward();
        optimizer.step();
        return loss;
      }),
    at: [],
  },
  {
    title: "Ten setAt",
    text: "Ten writes to parts of one tensor are one pass over it: each write is a condition, and the last one wins.",
    run: () => {
      const t = Tensor.zeros([10]).contiguous();
      for (let i = 0; i < 10; i++) t.setAt([i], i * i);
      return t;
    },
    at: [3],
  },
];
