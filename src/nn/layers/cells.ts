/**
 * Recurrent cells: one step of an Elman network, a gated recurrent unit, a long short-term memory. Weights are laid out
 * and named as PyTorch's.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkChoice, checkInteger, checkOptions, describeList } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { uniformWeight } from "./init.ts";

/** Options of recurrent cells. */
export interface CellOptions {
  /** Whether there are biases; true unless given. */
  readonly bias?: boolean;
}
/** Options of {@linkcode LSTMCell}. */
export type LSTMCellOptions = CellOptions;
/** Options of {@linkcode GRUCell}. */
export type GRUCellOptions = CellOptions;

/** What an Elman network squashes its state with. */
export type Nonlinearity = "tanh" | "relu";
/** Options of {@linkcode RNNCell}. */
export interface RNNCellOptions extends CellOptions {
  /** "tanh" unless given. */
  readonly nonlinearity?: Nonlinearity;
}

/** The weights of one step. */
export interface CellWeights {
  readonly weightIh: Tensor;
  readonly weightHh: Tensor;
  readonly biasIh: Tensor | undefined;
  readonly biasHh: Tensor | undefined;
}

/** How a kind of cell makes its next state. The first part of the state is what it gives out. */
export interface CellRule {
  /** Rows of the weights, in hidden sizes. */
  readonly gates: number;
  /** Tensors of the state. */
  readonly states: number;
  /** The next state, of the gates' parts of the input and of the last output, and the last state. */
  advance(input: Tensor, hidden: Tensor, state: readonly Tensor[]): Tensor[];
}

/** Long short-term memory (Hochreiter and Schmidhuber, 1997), gates in PyTorch's order: i, f, g, o. */
export const LSTM_RULE: CellRule = {
  gates: 4,
  states: 2,
  advance(input, hidden, [, c]) {
    const [i, f, g, o] = input.add(hidden).chunk(4, -1);
    const next = f.sigmoid().mul(c).add(i.sigmoid().mul(g.tanh()));
    return [o.sigmoid().mul(next.tanh()), next];
  },
};

/** Gated recurrent unit (Cho et al., arXiv 1406.1078), in PyTorch's form and order: r, z, n. */
export const GRU_RULE: CellRule = {
  gates: 3,
  states: 1,
  advance(input, hidden, [h]) {
    const [ir, iz, inew] = input.chunk(3, -1), [hr, hz, hnew] = hidden.chunk(3, -1);
    const z = iz.add(hz).sigmoid(), n = inew.add(ir.add(hr).sigmoid().mul(hnew)).tanh();
    return [n.add(z.mul(h.sub(n)))];
  },
};

/** Elman network (1990). */
export function rnnRule(what: string, nonlinearity: Nonlinearity = "tanh"): CellRule {
  checkChoice(what, "nonlinearity", nonlinearity, ["tanh", "relu"]);
  return {
    gates: 1,
    states: 1,
    advance(input, hidden) {
      const sum = input.add(hidden);
      return [nonlinearity === "relu" ? sum.relu() : sum.tanh()];
    },
  };
}

/** Fresh weights of `gates` gates. */
export function cellWeights(gates: number, inputSize: number, hiddenSize: number, bias: boolean): CellWeights {
  const bound = 1 / Math.sqrt(hiddenSize), rows = gates * hiddenSize;
  return {
    weightIh: uniformWeight([rows, inputSize], bound),
    weightHh: uniformWeight([rows, hiddenSize], bound),
    biasIh: bias ? uniformWeight([rows], bound) : undefined,
    biasHh: bias ? uniformWeight([rows], bound) : undefined,
  };
}

/** Throws unless a state has its tensors. @throws {ArgumentError} */
export function checkState(what: string, state: readonly Tensor[], count: number): void {
  if (Array.isArray(state) && state.length === count && Array.from(state).every((t) => t instanceof Tensor)) return;
  throw new ArgumentError(what, {
    reason: `the state must be ${count === 1 ? "a tensor" : `a list of ${count} tensors`}, not ${
      describeList(count === 1 ? state[0] : state)
    }`,
  });
}

/** What the cells share. */
abstract class Cell implements CellWeights {
  /** `[gates * hiddenSize, inputSize]`. */
  weightIh: Tensor;
  /** `[gates * hiddenSize, hiddenSize]`. */
  weightHh: Tensor;
  /** `[gates * hiddenSize]`, or undefined. */
  biasIh: Tensor | undefined;
  /** `[gates * hiddenSize]`, or undefined. */
  biasHh: Tensor | undefined;
  readonly inputSize: number;
  readonly hiddenSize: number;
  readonly #rule: CellRule;

  protected constructor(what: string, rule: CellRule, inputSize: number, hiddenSize: number, options: CellOptions) {
    checkInteger(what, "inputSize", inputSize, 1);
    checkInteger(what, "hiddenSize", hiddenSize, 1);
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.#rule = rule;
    const weights = cellWeights(rule.gates, inputSize, hiddenSize, options.bias ?? true);
    this.weightIh = weights.weightIh;
    this.weightHh = weights.weightHh;
    this.biasIh = weights.biasIh;
    this.biasHh = weights.biasHh;
  }

  /** One step, of a state or of zeros. */
  protected step(x: Tensor, state: readonly Tensor[] | undefined): Tensor[] {
    checkTensor("step a recurrent cell", "x", x);
    if (state !== undefined) checkState("step a recurrent cell", state, this.#rule.states);
    if (x.ndim < 1 || x.ndim > 2 || x.shape[x.ndim - 1] !== this.inputSize) {
      throw new ShapeError("step a recurrent cell with", {
        shapes: [x.shape],
        reason: `it takes [N, ${this.inputSize}] or [${this.inputSize}]`,
      });
    }
    const shape = [...x.shape.slice(0, -1), this.hiddenSize], { dtype, device } = x;
    state ??= Array.from({ length: this.#rule.states }, () => Tensor.zeros(shape, { dtype, device }));
    const input = x.linear(this.weightIh.transpose(), this.biasIh);
    return this.#rule.advance(input, state[0].linear(this.weightHh.transpose(), this.biasHh), state);
  }
}

/** One step of a long short-term memory (Hochreiter and Schmidhuber, 1997), gates in PyTorch's order: i, f, g, o. */
export class LSTMCell extends Cell {
  /** @throws {ArgumentError} for an unknown option */
  constructor(inputSize: number, hiddenSize: number, options: LSTMCellOptions = {}) {
    checkOptions("make LSTMCell", options, ["bias"]);
    super("make LSTMCell", LSTM_RULE, inputSize, hiddenSize, options);
  }
  /** `x` of shape `[N, inputSize]` and the state (zeros at first) to the next state, `[N, hiddenSize]` each. */
  call(x: Tensor, state?: readonly [h: Tensor, c: Tensor]): [h: Tensor, c: Tensor] {
    return this.step(x, state) as [Tensor, Tensor];
  }
}

/** One step of a gated recurrent unit (Cho et al., arXiv 1406.1078), gates in PyTorch's order: r, z, n. */
export class GRUCell extends Cell {
  /** @throws {ArgumentError} for an unknown option */
  constructor(inputSize: number, hiddenSize: number, options: GRUCellOptions = {}) {
    checkOptions("make GRUCell", options, ["bias"]);
    super("make GRUCell", GRU_RULE, inputSize, hiddenSize, options);
  }
  /** `x` of shape `[N, inputSize]` and the state (zeros at first) to the next, `[N, hiddenSize]`. */
  call(x: Tensor, h?: Tensor): Tensor {
    return this.step(x, h === undefined ? h : [h])[0];
  }
}

/** One step of an Elman network: `tanh(W x + b + U h + c)`, or its relu. */
export class RNNCell extends Cell {
  /** @throws {ArgumentError} for an unknown option */
  constructor(inputSize: number, hiddenSize: number, options: RNNCellOptions = {}) {
    checkOptions("make RNNCell", options, ["bias", "nonlinearity"]);
    super("make RNNCell", rnnRule("make RNNCell", options.nonlinearity), inputSize, hiddenSize, options);
  }
  /** `x` of shape `[N, inputSize]` and the state (zeros at first) to the next, `[N, hiddenSize]`. */
  call(x: Tensor, h?: Tensor): Tensor {
    return this.step(x, h === undefined ? h : [h])[0];
  }
}
