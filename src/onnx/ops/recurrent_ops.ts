/**
 * ONNX: recurrent networks, RNN, GRU and LSTM, unrolled over time: each direction by itself, steps beyond the length of a
 * sequence leaving its state as it is.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";

type Activation = (x: Tensor) => Tensor;

/** An activation by its name, with its parameters. */
function activation(c: Call, name: string, alpha: number | undefined, beta: number | undefined): Activation {
  switch (name.toLowerCase()) {
    case "relu":
      return (x) => x.relu();
    case "tanh":
      return (x) => x.tanh();
    case "sigmoid":
      return (x) => x.sigmoid();
    case "affine":
      return (x) => x.mul(alpha ?? 1).add(beta ?? 0);
    case "leakyrelu":
      return (x) => x.leakyRelu(alpha ?? 0.01);
    case "thresholdedrelu":
      return (x) => x.gt(alpha ?? 1).where(x, 0);
    case "scaledtanh":
      return (x) => x.mul(beta ?? 1).tanh().mul(alpha ?? 1);
    case "hardsigmoid":
      return (x) => x.mul(alpha ?? 0.2).add(beta ?? 0.5).clamp(0, 1);
    case "elu":
      return (x) => x.elu(alpha ?? 1);
    case "softsign":
      return (x) => x.softsign();
    case "softplus":
      return (x) => x.softplus();
  }
  throw c.fail(`activation "${name}" is not known`);
}

/** What one direction has. */
interface Cell {
  /** `[gates * hidden, hidden]`. */
  readonly r: Tensor;
  /** What the hidden state adds to all gates, `[batch, gates * hidden]`. */
  readonly times: (h: Tensor) => Tensor;
  readonly rb: Tensor | undefined;
  readonly act: readonly Activation[];
  readonly clip: (x: Tensor) => Tensor;
  readonly hidden: number;
  /** Of LSTM, `[3 * hidden]`. */
  readonly peep: Tensor | undefined;
}
type State = readonly Tensor[];
/** A step: of `x W + b`, `[batch, gates * hidden]`, and the state, to the next state. */
type Step = (c: Call, cell: Cell, wx: Tensor, state: State) => State;

const rnnStep: Step = (_c, { times, rb, act, clip }, wx, [h]) => {
  const z = wx.add(times(h));
  return [act[0](clip(rb === undefined ? z : z.add(rb)))];
};
const gruStep: Step = (c, { r, rb, act, clip, hidden }, wx, [h]) => {
  const gate = (x: Tensor, i: number) => x.at("...", [i * hidden, (i + 1) * hidden]);
  const rows = (i: number) => r.shrink([[i * hidden, (i + 1) * hidden], [0, hidden]]).transpose(0, 1);
  const rh = h.matmul(r.shrink([[0, 2 * hidden], [0, hidden]]).transpose(0, 1)),
    bias = (i: number) => rb && gate(rb, i);
  const plus = (x: Tensor, b: Tensor | undefined) => b === undefined ? x : x.add(b);
  const z = act[0](clip(plus(gate(wx, 0).add(gate(rh, 0)), bias(0))));
  const reset = act[0](clip(plus(gate(wx, 1).add(gate(rh, 1)), bias(1))));
  const candidate = c.int("linear_before_reset", 0) === 0
    ? plus(gate(wx, 2).add(reset.mul(h).matmul(rows(2))), bias(2))
    : gate(wx, 2).add(reset.mul(plus(h.matmul(rows(2)), bias(2))));
  const next = act[1](clip(candidate));
  return [z.mul(h).add(z.mul(-1).add(1).mul(next))];
};
const lstmStep: Step = (c, { times, rb, act, clip, hidden, peep }, wx, [h, cell]) => {
  const all = wx.add(times(h)), z = rb === undefined ? all : all.add(rb);
  const gate = (i: number) => z.at("...", [i * hidden, (i + 1) * hidden]);
  const seen = (i: number, x: Tensor) =>
    peep === undefined ? undefined : peep.at([i * hidden, (i + 1) * hidden]).mul(x);
  const plus = (x: Tensor, y: Tensor | undefined) => y === undefined ? x : x.add(y);
  const i = act[0](clip(plus(gate(0), seen(0, cell))));
  const f = c.int("input_forget", 0) === 1 ? i.mul(-1).add(1) : act[0](clip(plus(gate(2), seen(2, cell))));
  const next = f.mul(cell).add(i.mul(act[1](clip(gate(3)))));
  const o = act[0](clip(plus(gate(1), seen(1, next))));
  return [o.mul(act[2](next)), next];
};

const DEFAULTS: Readonly<Record<number, readonly string[]>> = {
  1: ["Tanh"],
  3: ["Sigmoid", "Tanh"],
  4: ["Sigmoid", "Tanh", "Tanh"],
};

/** Products of a direction: of rows of the input with its weights, and of the hidden state with those of the recurrence. */
export interface Products {
  readonly input: (rows: Tensor) => Tensor;
  readonly hidden: (h: Tensor) => Tensor;
}
/** A network of `gates` gates; LSTM has two states. */
function recurrent(c: Call, gates: number, step: Step, given?: (direction: number) => Products): Result {
  const layout = c.int("layout", 0), turn = (t: Tensor) => layout === 1 ? t.transpose(0, 1) : t;
  const x = turn(c.x(0)), w = c.x(1), r = c.x(2), [steps, batch] = x.shape;
  const hidden = r.shape[2] / (given === undefined ? 1 : gates);
  const direction = c.text("direction", "forward"),
    ways = direction === "bidirectional" ? 2 : 1,
    states = gates === 4 ? 2 : 1;
  const names = c.strings("activations", [...DEFAULTS[gates], ...DEFAULTS[gates]]),
    alphas = c.floats("activation_alpha", []);
  const betas = c.floats("activation_beta", []), limit = c.float("clip", 0);
  const lengths = c.opt(4)?.cast("int32"),
    start = [c.opt(5), states === 2 ? c.opt(6) : undefined].map((t) => t && turn(t));
  const finals: Tensor[][] = [], outputs: Tensor[] = [];
  for (let d = 0; d < ways; d++) {
    const backward = direction === "reverse" || d === 1, bias = c.opt(3)?.at(d), size = gates * hidden;
    const products = given?.(d) ?? {
      input: (rows) => rows.matmul(w.at(d).transpose(0, 1)),
      hidden: (h) => h.matmul(r.at(d).transpose(0, 1)),
    };
    const cell: Cell = {
      r: r.at(d),
      times: products.hidden,
      rb: bias?.at([size, 2 * size]),
      act: DEFAULTS[gates].map((_, i) => {
        const at = d * DEFAULTS[gates].length + i;
        return activation(c, names[at] ?? DEFAULTS[gates][i], alphas[at], betas[at]);
      }),
      clip: (t) => limit > 0 ? t.clamp(-limit, limit) : t,
      hidden,
      peep: gates === 4 ? c.opt(7)?.at(d) : undefined,
    };
    const plain = products.input(x.reshape([steps * batch, x.shape[2]]));
    const wx = (bias === undefined ? plain : plain.add(bias.at([0, size]))).reshape([steps, batch, size]);
    let state: State = Array.from(
      { length: states },
      (_, i) => start[i]?.at(d) ?? Tensor.zeros([batch, hidden], { dtype: x.dtype }),
    );
    const rows = new Array<Tensor>(steps);
    for (let k = 0; k < steps; k++) {
      const t = backward ? steps - 1 - k : k, next = step(c, cell, wx.at(t), state);
      const live = lengths?.gt(t).unsqueeze(1);
      state = live === undefined ? next : next.map((s, i) => live.where(s, state[i]));
      rows[t] = live === undefined ? next[0] : live.where(next[0], 0);
    }
    outputs.push(rows[0].stack(rows.slice(1), 0));
    finals.push([...state]);
  }
  const y = outputs[0].stack(outputs.slice(1), 1);
  const last = Array.from({ length: states }, (_, i) => finals[0][i].stack(finals.slice(1).map((f) => f[i]), 0));
  return layout === 1
    ? [c.like(y.permute([2, 0, 1, 3])), ...last.map((t) => c.like(t.transpose(0, 1)))]
    : [c.like(y), ...last.map((t) => c.like(t))];
}

/** LSTM with other products than those of floats. */
export function lstmBy(c: Call, products: (direction: number) => Products): Result {
  return recurrent(c, 4, lstmStep, products);
}

/** The rows of this family. */
export const RECURRENT: readonly OpRow[] = [
  op("RNN", (c) => recurrent(c, 1, rnnStep)),
  op("GRU", (c) => recurrent(c, 3, gruStep)),
  op("LSTM", (c) => recurrent(c, 4, lstmStep)),
];
