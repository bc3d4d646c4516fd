/**
 * ONNX: losses of classes, steps of optimizers, numbers drawn at random.
 *
 * @module
 */
import { dtypes } from "../../../dtype/dtype.ts";
import { Tensor } from "../../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../../values/node_call.ts";
import { valueOf } from "../../values/value.ts";
import { FLOAT, INT32 } from "../../wire/element_types.ts";

/** The negative logarithm at each class, times the weight of that class. */
function picked(c: Call, log: Tensor): Tensor {
  const classes = log.shape[1],
    target = c.x(1).cast(dtypes.int64),
    weight = c.opt(2),
    reduction = c.text("reduction", "mean");
  const ignored = c.hasAttribute("ignore_index") ? target.eq(c.int("ignore_index")) : undefined;
  const at = ignored === undefined ? target : ignored.where(0, target), safe = at.clamp(0, classes - 1);
  let factor = weight === undefined ? undefined : weight.indexSelect(0, safe.reshape([-1])).reshape(target.shape);
  if (ignored !== undefined) factor = ignored.where(0, factor ?? 1).cast(log.dtype);
  const plain = log.gather(1, safe.unsqueeze(1)).squeeze(1).neg(),
    loss = factor === undefined ? plain : plain.mul(factor);
  if (reduction === "none") return loss;
  if (reduction === "sum") return loss.sum();
  return factor === undefined ? loss.mean() : loss.sum().div(factor.sum());
}
function softmaxCrossEntropy(c: Call): Result {
  const log = c.x(0).logSoftmax(1);
  return [c.like(picked(c, log)), c.like(log)];
}

/** Tensors of a step: for each of `n` its value, gradient and states. */
function stepped(c: Call, states: number, one: (x: Tensor, g: Tensor, s: Tensor[]) => Tensor[]): Result {
  const n = (c.count - 2) / (2 + states), out: Tensor[][] = [];
  if (!Number.isInteger(n)) throw c.fail(`${c.count} inputs are none for ${states} states`);
  for (let i = 0; i < n; i++) {
    const x = c.x(2 + i), g = c.x(2 + n + i).add(x.mul(c.float("norm_coefficient", 0)));
    out.push(one(x, g, Array.from({ length: states }, (_, k) => c.x(2 + (2 + k) * n + i))));
  }
  return Array.from({ length: 1 + states }, (_, k) => out.map((o) => o[k])).flat();
}
/** Whether a step is the first one, as float32. */
const turn = (c: Call): Tensor => c.x(1).cast(dtypes.float32);

function adagrad(c: Call): Result {
  const rate = c.x(0).div(turn(c).mul(c.float("decay_factor", 0)).add(1)), epsilon = c.float("epsilon", 1e-6);
  return stepped(c, 1, (x, g, [h]) => {
    const next = h.add(g.square());
    return [x.sub(rate.mul(g).div(next.sqrt().add(epsilon))), next];
  });
}
function adam(c: Call): Result {
  const a = c.float("alpha", 0.9), b = c.float("beta", 0.999), epsilon = c.float("epsilon", 1e-6), t = turn(c);
  const power = (base: number) => t.mul(Math.log(base)).exp();
  const rate = t.gt(0).where(c.x(0).mul(power(b).mul(-1).add(1).sqrt()).div(power(a).mul(-1).add(1)), c.x(0));
  const after = 1 - c.float("norm_coefficient_post", 0);
  return stepped(c, 2, (x, g, [v, h]) => {
    const first = v.mul(a).add(g.mul(1 - a)), second = h.mul(b).add(g.square().mul(1 - b));
    return [x.sub(rate.mul(first).div(second.sqrt().add(epsilon))).mul(after), first, second];
  });
}
function momentum(c: Call): Result {
  const a = c.float("alpha"), beta = c.float("beta"), nesterov = c.text("mode") === "nesterov", rate = c.x(0);
  const factor = turn(c).gt(0).where(beta, 1);
  return stepped(c, 1, (x, g, [v]) => {
    const next = v.mul(a).add(g.mul(factor));
    return [x.sub(rate.mul(nesterov ? g.add(next.mul(a)) : next)), next];
  });
}

/** A shape and type for drawn numbers: of an input, or of attributes. */
function drawn(c: Call, like: boolean, f: (shape: number[]) => Tensor): Result {
  const given = c.int("dtype", 0), type = given !== 0 ? given : like ? c.type(0) : FLOAT;
  return valueOf(f([...(like ? c.shape(0) : c.ints("shape"))]).cast(c.dtype(type)), type);
}
const uniform = (c: Call) => (shape: number[]) =>
  Tensor.rand(shape, { device: c.device as "JS" }).mul(c.float("high", 1) - c.float("low", 0)).add(c.float("low", 0));
const normal = (c: Call) => (shape: number[]) =>
  Tensor.randn(shape, { device: c.device as "JS" }).mul(c.float("scale", 1)).add(c.float("mean", 0));

/** The rows of this family. */
export const LOSSES: readonly OpRow[] = [
  op("NegativeLogLikelihoodLoss", (c) => c.like(picked(c, c.x(0)))),
  op("SoftmaxCrossEntropyLoss", softmaxCrossEntropy),
  op("Adagrad", adagrad, [], 1, "ai.onnx.preview.training"),
  op("Adam", adam, [], 1, "ai.onnx.preview.training"),
  op("Momentum", momentum, [], 1, "ai.onnx.preview.training"),
  op("RandomUniform", (c) => drawn(c, false, uniform(c))),
  op("RandomUniformLike", (c) => drawn(c, true, uniform(c))),
  op("RandomNormal", (c) => drawn(c, false, normal(c))),
  op("RandomNormalLike", (c) => drawn(c, true, normal(c))),
  op("Bernoulli", (c) => {
    const p = c.x(0), type = c.int("dtype", c.type(0));
    return valueOf(Tensor.rand(p.shape, { device: c.device as "JS" }).lt(p).cast(c.dtype(type)), type);
  }),
  op("Multinomial", (c) => {
    const type = c.int("dtype", INT32), count = c.int("sample_size", 1);
    return valueOf(c.x(0).softmax(-1).multinomial({ numSamples: count, replacement: true }).cast(c.dtype(type)), type);
  }),
];
