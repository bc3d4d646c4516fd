/**
 * Recurrent layers over sequences: LSTM, GRU, RNN; several layers, both directions. Weights are named as PyTorch's:
 * `weightIhL0`, `biasHhL1Reverse`, so that its state dictionaries load.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkCount, checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import {
  type CellRule,
  type CellWeights,
  cellWeights,
  checkState,
  GRU_RULE,
  LSTM_RULE,
  type Nonlinearity,
  rnnRule,
} from "./cells.ts";

/** Options of {@linkcode LSTM} and {@linkcode GRU}. */
export interface RecurrentOptions {
  /** Layers, each over the outputs of the one before; 1 unless given. */
  readonly numLayers?: number;
  /** Whether there are biases; true unless given. */
  readonly bias?: boolean;
  /** Whether sequences are `[N, L, size]` instead of `[L, N, size]`; false unless given. */
  readonly batchFirst?: boolean;
  /** Share of the outputs of all layers but the last that is dropped in training; 0 unless given. */
  readonly dropout?: number;
  /** Whether a second set of weights goes from the end to the start; false unless given. */
  readonly bidirectional?: boolean;
}
/** Options of {@linkcode RNN}. */
export interface RNNOptions extends RecurrentOptions {
  /** "tanh" unless given. */
  readonly nonlinearity?: Nonlinearity;
}

const OPTIONS = ["numLayers", "bias", "batchFirst", "dropout", "bidirectional"];
/** The parts of PyTorch's names of weights. */
const NAMES = ["weightIh", "weightHh", "biasIh", "biasHh"] as const;

/** What the layers share. */
abstract class Recurrent {
  readonly inputSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
  readonly batchFirst: boolean;
  readonly bidirectional: boolean;
  readonly dropout: number;
  readonly #rule: CellRule;

  protected constructor(what: string, rule: CellRule, sizes: readonly [number, number], options: RecurrentOptions) {
    [this.inputSize, this.hiddenSize] = sizes;
    checkInteger(what, "inputSize", this.inputSize, 1);
    checkInteger(what, "hiddenSize", this.hiddenSize, 1);
    this.numLayers = checkCount(what, "numLayers", options.numLayers ?? 1, 1);
    this.batchFirst = options.batchFirst ?? false;
    this.bidirectional = options.bidirectional ?? false;
    this.dropout = options.dropout ?? 0;
    if (!(this.dropout >= 0 && this.dropout <= 1)) {
      throw new ArgumentError(what, { reason: `dropout is ${this.dropout}, outside [0, 1]` });
    }
    this.#rule = rule;
    const fields = this as unknown as Record<string, Tensor | undefined>;
    for (let layer = 0; layer < this.numLayers; layer++) {
      for (const suffix of this.suffixes(layer)) {
        const size = layer === 0 ? this.inputSize : this.hiddenSize * this.directions;
        const weights = cellWeights(rule.gates, size, this.hiddenSize, options.bias ?? true);
        for (const name of NAMES) fields[name + suffix] = weights[name];
      }
    }
  }

  private get directions(): number {
    return this.bidirectional ? 2 : 1;
  }
  /** The ends of the names of a layer's weights, by direction. */
  private suffixes(layer: number): string[] {
    return this.bidirectional ? [`L${layer}`, `L${layer}Reverse`] : [`L${layer}`];
  }
  /** The weights of a layer in a direction. */
  weightsOf(layer: number, reverse: boolean = false): CellWeights {
    const what = "find the weights of a layer";
    if (checkInteger(what, "layer", layer, 0) >= this.numLayers) {
      throw new ArgumentError(what, { reason: `layer ${layer} is none of its ${this.numLayers}` });
    }
    if (checkBoolean(what, "reverse", reverse) && !this.bidirectional) {
      throw new ArgumentError(what, { reason: "it goes in one direction; { bidirectional: true } makes two" });
    }
    const fields = this as unknown as Record<string, Tensor>, suffix = this.suffixes(layer)[reverse ? 1 : 0];
    const [weightIh, weightHh, biasIh, biasHh] = NAMES.map((name) => fields[name + suffix]);
    return { weightIh, weightHh, biasIh, biasHh };
  }

  /** One direction of one layer over `x` of `[L, N, size]`: outputs of each step, and the last state. */
  private scan(x: Tensor, weights: CellWeights, state: Tensor[], reverse: boolean): [Tensor[], Tensor[]] {
    // the products with the inputs of all steps are one
    const inputs = x.linear(weights.weightIh.transpose(), weights.biasIh), outputs: Tensor[] = [];
    const recurrent = weights.weightHh.transpose(), length = x.shape[0];
    for (let i = 0; i < length; i++) {
      const t = reverse ? length - 1 - i : i;
      state = this.#rule.advance(inputs.at(t), state[0].linear(recurrent, weights.biasHh), state);
      outputs[t] = state[0];
    }
    return [outputs, state];
  }

  /** Outputs `[L, N, directions * hiddenSize]`, and the last states, `[numLayers * directions, N, hiddenSize]` each. */
  protected run(input: Tensor, initial: readonly Tensor[] | undefined): [Tensor, Tensor[]] {
    const what = "run a recurrent layer over", batched = checkTensor("run a recurrent layer", "x", input).ndim === 3;
    if (initial !== undefined) checkState("run a recurrent layer", initial, this.#rule.states);
    if ((input.ndim !== 2 && !batched) || input.shape[input.ndim - 1] !== this.inputSize) {
      const axes = this.batchFirst ? "N, L" : "L, N";
      throw new ShapeError(what, {
        shapes: [input.shape],
        reason: `it takes [${axes}, ${this.inputSize}], or [L, ${this.inputSize}]`,
      });
    }
    let x = !batched ? input.unsqueeze(1) : this.batchFirst ? input.transpose(0, 1) : input;
    const [length, n] = x.shape, rows = this.numLayers * this.directions, { dtype, device } = x;
    if (length === 0) throw new ShapeError(what, { shapes: [input.shape], reason: "it has no steps" });
    const shape = [rows, n, this.hiddenSize];
    const given = initial?.map((s) => batched ? s : s.unsqueeze(1));
    for (const s of given ?? []) {
      if (s.shape.join() === shape.join()) continue;
      throw new ShapeError(what, { shapes: [s.shape], reason: `its state must have shape [${shape.join(", ")}]` });
    }
    const last: Tensor[][] = [];
    for (let layer = 0; layer < this.numLayers; layer++) {
      const parts: Tensor[] = [];
      for (let d = 0; d < this.directions; d++) {
        const row = layer * this.directions + d;
        const state = given?.map((s) => s.at(row)) ??
          Array.from({ length: this.#rule.states }, () => Tensor.zeros(shape.slice(1), { dtype, device }));
        const [outputs, final] = this.scan(x, this.weightsOf(layer, d === 1), state, d === 1);
        parts.push(Tensor.stack(outputs));
        last.push(final);
      }
      x = parts.length === 1 ? parts[0] : Tensor.cat(parts, -1);
      if (this.dropout > 0 && layer < this.numLayers - 1) x = x.dropout(this.dropout);
    }
    const states = Array.from({ length: this.#rule.states }, (_, i) => {
      const s = Tensor.stack(last.map((l) => l[i]));
      return batched ? s : s.squeeze(1);
    });
    return [!batched ? x.squeeze(1) : this.batchFirst ? x.transpose(0, 1) : x, states];
  }
}

/**
 * A long short-term memory (Hochreiter and Schmidhuber, 1997) over sequences, as PyTorch's.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const lstm = new nn.LSTM(8, 16, { numLayers: 2, bidirectional: true, batchFirst: true });
 * const [output, [h, c]] = lstm.call(Tensor.zeros([3, 5, 8]));
 * console.log(output.shape, h.shape, c.shape); // [3, 5, 32] [4, 3, 16] [4, 3, 16]
 * ```
 */
export class LSTM extends Recurrent {
  /** @throws {ArgumentError} for an unknown option or a bad size */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptions("make LSTM", options, OPTIONS);
    super("make LSTM", LSTM_RULE, [inputSize, hiddenSize], options);
  }
  /**
   * `x` of shape `[L, N, inputSize]` and the state (zeros at first) to the outputs `[L, N, directions * hiddenSize]` and
   * the last state, `[numLayers * directions, N, hiddenSize]` each. @throws {ShapeError}
   */
  call(x: Tensor, state?: readonly [h: Tensor, c: Tensor]): [output: Tensor, state: [h: Tensor, c: Tensor]] {
    const [output, states] = this.run(x, state);
    return [output, states as [Tensor, Tensor]];
  }
}

/** A gated recurrent unit (Cho et al., arXiv 1406.1078) over sequences, as PyTorch's. */
export class GRU extends Recurrent {
  /** @throws {ArgumentError} for an unknown option or a bad size */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptions("make GRU", options, OPTIONS);
    super("make GRU", GRU_RULE, [inputSize, hiddenSize], options);
  }
  /** As {@linkcode LSTM.call}, with a state of one tensor. @throws {ShapeError} */
  call(x: Tensor, h?: Tensor): [output: Tensor, h: Tensor] {
    const [output, [last]] = this.run(x, h === undefined ? h : [h]);
    return [output, last];
  }
}

/** An Elman network over sequences, as PyTorch's. */
export class RNN extends Recurrent {
  /** @throws {ArgumentError} for an unknown option or a bad size */
  constructor(inputSize: number, hiddenSize: number, options: RNNOptions = {}) {
    checkOptions("make RNN", options, [...OPTIONS, "nonlinearity"]);
    super("make RNN", rnnRule("make RNN", options.nonlinearity), [inputSize, hiddenSize], options);
  }
  /** As {@linkcode LSTM.call}, with a state of one tensor. @throws {ShapeError} */
  call(x: Tensor, h?: Tensor): [output: Tensor, h: Tensor] {
    const [output, [last]] = this.run(x, h === undefined ? h : [h]);
    return [output, last];
  }
}
