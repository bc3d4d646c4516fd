/**
 * The long short-term memory cell.
 *
 * @module
 */
import { checkInteger, checkOptions } from "../helpers/options.ts";
import { Tensor } from "../tensor/tensor.ts";
import { uniformWeight } from "./init.ts";

/** Options of {@linkcode LSTMCell}. */
export interface LSTMCellOptions {
  /** Whether there are biases; true unless given. */
  readonly bias?: boolean;
}

/** One step of a long short-term memory (Hochreiter and Schmidhuber, 1997), gates in PyTorch's order: i, f, g, o. */
export class LSTMCell {
  /** `[4 * hiddenSize, inputSize]`. */
  weightIh: Tensor;
  /** `[4 * hiddenSize, hiddenSize]`. */
  weightHh: Tensor;
  /** `[4 * hiddenSize]`, or undefined. */
  biasIh: Tensor | undefined;
  /** `[4 * hiddenSize]`, or undefined. */
  biasHh: Tensor | undefined;
  readonly hiddenSize: number;

  /** @throws {ArgumentError} for an unknown option */
  constructor(inputSize: number, hiddenSize: number, options: LSTMCellOptions = {}) {
    checkOptions("make LSTMCell", options, ["bias"]);
    checkInteger("make LSTMCell", "inputSize", inputSize, 1);
    checkInteger("make LSTMCell", "hiddenSize", hiddenSize, 1);
    const bound = 1 / Math.sqrt(hiddenSize), bias = options.bias ?? true;
    this.hiddenSize = hiddenSize;
    this.weightIh = uniformWeight([4 * hiddenSize, inputSize], bound);
    this.weightHh = uniformWeight([4 * hiddenSize, hiddenSize], bound);
    this.biasIh = bias ? uniformWeight([4 * hiddenSize], bound) : undefined;
    this.biasHh = bias ? uniformWeight([4 * hiddenSize], bound) : undefined;
  }

  /** `x` of shape `[N, inputSize]` and the state (zeros at first) to the next state, `[N, hiddenSize]` each. */
  call(x: Tensor, state?: readonly [h: Tensor, c: Tensor]): [h: Tensor, c: Tensor] {
    const shape = [x.shape[0], this.hiddenSize];
    const [h, c] = state ?? [Tensor.zeros(shape, { dtype: x.dtype }), Tensor.zeros(shape, { dtype: x.dtype })];
    const gates = x.linear(this.weightIh.transpose(), this.biasIh).add(
      h.linear(this.weightHh.transpose(), this.biasHh),
    );
    const [i, f, g, o] = gates.chunk(4, 1);
    const next = f.sigmoid().mul(c).add(i.sigmoid().mul(g.tanh()));
    return [o.sigmoid().mul(next.tanh()), next];
  }
}
