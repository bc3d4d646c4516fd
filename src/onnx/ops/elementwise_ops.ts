/**
 * ONNX: functions of elements: arithmetic, comparisons, logic, bits, casts, activations.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { knownValue, type Value, valueOf } from "../values/value.ts";
import { BOOL } from "../wire/element_types.ts";
import { castTo } from "./casts.ts";
import { joined } from "./special/text_ops.ts";

type Unary = (x: Tensor, c: Call) => Tensor;

/** A function of floats, whose result has the type of its input. */
const unary = (name: string, f: Unary): OpRow => op(name, (c) => c.like(f(c.x(0), c)));
/** A function of two operands that broadcast, whose result has the type of the first. */
const binary = (name: string, f: (a: Tensor, b: Tensor, c: Call) => Tensor): OpRow =>
  op(name, (c) => c.like(f(c.x(0), aligned(c), c)));
/** A comparison. */
const compare = (name: string, f: (a: Tensor, b: Tensor) => Tensor): OpRow =>
  op(name, (c) => f(c.x(0), aligned(c)).cast(dtypes.bool));

/** The second operand, which versions below 7 put at an axis of the first. */
function aligned(c: Call): Tensor {
  const a = c.x(0), b = c.x(1);
  if (c.version >= 7 || c.int("broadcast", 0) === 0 || !c.hasAttribute("axis")) return b;
  const axis = c.axis(c.int("axis"), a.ndim);
  return b.reshape([...b.shape, ...new Array<number>(a.ndim - axis - b.ndim).fill(1)]);
}

/** A fold over any number of operands. */
const variadic = (name: string, f: (a: Tensor, b: Tensor) => Tensor): OpRow =>
  op(name, (c) => c.like(c.xs().reduce(f)));

function divide(a: Tensor, b: Tensor): Tensor {
  return a.dtype.isInt ? a.div(b, { roundingMode: "trunc" }) : a.div(b);
}
function modulo(a: Tensor, b: Tensor, c: Call): Tensor {
  if (c.int("fmod", 0) === 1 || a.dtype.isFloat) return a.fmod(b);
  return a.mod(b);
}
/** Powers: of integers exactly, by the dtype of the base. */
function power(a: Tensor, b: Tensor): Tensor {
  if (a.dtype.isInt && b.dtype.isFloat) return a.cast(b.dtype).pow(b).trunc();
  return a.pow(b.dtype === a.dtype ? b : b.cast(a.dtype));
}

function clip(c: Call): Result {
  const x = c.x(0),
    bound = (i: number, name: string): Tensor | number | undefined => {
      const v = c.has(i) ? c.value(i) : undefined;
      if (v !== undefined) {
        return v.shape.length === 0 && v.numbers && x.dtype.bits < 64 ? v.numbers[0] : v.tensor(c.device);
      }
      return c.version < 11 && c.hasAttribute(name) ? c.float(name) : undefined;
    };
  const min = bound(1, "min"), max = bound(2, "max");
  return c.like(min === undefined && max === undefined ? x : x.clamp(min as Tensor, max as Tensor));
}

function shift(c: Call): Result {
  const left = c.text("direction") === "LEFT";
  return c.like(left ? c.x(0).lshift(c.x(1)) : c.x(0).rshift(c.x(1)));
}

function bitcast(c: Call): Result {
  const to = c.int("to");
  return valueOf(c.x(0).bitcast(c.dtype(to)), to);
}

function gelu(x: Tensor, c: Call): Tensor {
  return x.gelu({ approximate: c.text("approximate", "none") === "tanh" ? "tanh" : "none" });
}
function shrink(x: Tensor, c: Call): Tensor {
  const lambda = c.float("lambd", 0.5), bias = c.float("bias", 0), y = x.float();
  return y.lt(-lambda).where(y.add(bias), y.gt(lambda).where(y.sub(bias), y.mul(0)));
}
/** Axes of a slope stand behind those that it lacks. */
function prelu(x: Tensor, slope: Tensor, c: Call): Tensor {
  const s = c.version < 7 && slope.ndim === 1 && x.ndim > 1
    ? slope.reshape([-1, ...new Array<number>(x.ndim - 2).fill(1)])
    : slope;
  return x.lt(0).where(x.mul(s), x);
}
/** x sigmoid(alpha x) times the other half. */
function swiglu(c: Call): Result {
  const alpha = c.float("alpha", 1), limit = c.float("limit", 0);
  let gate = c.x(0), up = c.x(1);
  if (limit > 0) [gate, up] = [gate.clamp(undefined, limit), up.clamp(-limit, limit)];
  const g = gate.float();
  return c.like(g.mul(g.mul(alpha).sigmoid()).mul(up.float()));
}

/** The rows of this family. */
export const ELEMENTWISE: readonly OpRow[] = [
  unary("Abs", (x) => x.dtype.isUnsigned ? x : x.abs()),
  unary("Acos", (x) => x.acos()),
  unary("Acosh", (x) => x.acosh()),
  unary("Asin", (x) => x.asin()),
  unary("Asinh", (x) => x.asinh()),
  unary("Atan", (x) => x.atan()),
  unary("Atanh", (x) => x.atanh()),
  unary("Ceil", (x) => x.ceil()),
  unary("Cos", (x) => x.cos()),
  unary("Cosh", (x) => x.cosh()),
  unary("Erf", (x) => x.erf()),
  unary("Exp", (x) => x.exp()),
  unary("Floor", (x) => x.floor()),
  unary("Log", (x) => x.log()),
  unary("Neg", (x) => x.neg()),
  unary("Reciprocal", (x) => x.reciprocal()),
  unary("Round", (x) => x.round()),
  unary("Sign", (x) => x.dtype.isUnsigned ? x.ne(0) : x.sign()),
  unary("Sin", (x) => x.sin()),
  unary("Sinh", (x) => x.sinh()),
  unary("Sqrt", (x) => x.sqrt()),
  unary("Tan", (x) => x.tan()),
  unary("Tanh", (x) => x.tanh()),
  unary("Sigmoid", (x) => x.sigmoid()),
  unary("Relu", (x) => x.relu()),
  unary("LeakyRelu", (x, c) => x.leakyRelu(c.float("alpha", 0.01))),
  unary("Elu", (x, c) => x.elu(c.float("alpha", 1))),
  unary("Celu", (x, c) => x.celu(c.float("alpha", 1))),
  unary(
    "Selu",
    (x, c) => x.selu({ alpha: c.float("alpha", 1.6732632423543772), gamma: c.float("gamma", 1.0507009873554805) }),
  ),
  unary("ThresholdedRelu", (x, c) => x.gt(c.float("alpha", 1)).where(x, 0)),
  unary("HardSigmoid", (x, c) => x.mul(c.float("alpha", 0.2)).add(c.float("beta", 0.5)).clamp(0, 1)),
  unary("HardSwish", (x) => x.mul(x.mul(1 / 6).add(0.5).clamp(0, 1))),
  unary("Softplus", (x) => x.softplus()),
  unary("Softsign", (x) => x.softsign()),
  unary("Mish", (x) => x.mish()),
  unary("Swish", (x, c) => x.mul(x.mul(c.float("alpha", 1)).sigmoid())),
  unary("Gelu", gelu),
  unary("Shrink", shrink),
  binary("PRelu", prelu),
  op("SwiGLU", swiglu, [], 1),
  op("SwiGLU", swiglu, [], 1, "ai.onnx.preview"),
  binary("Add", (a, b) => a.add(b)),
  binary("Sub", (a, b) => a.sub(b)),
  binary("Mul", (a, b) => a.mul(b)),
  binary("Div", divide),
  binary("Mod", modulo),
  binary("Pow", power),
  variadic("Sum", (a, b) => a.add(b)),
  variadic("Max", (a, b) => a.maximum(b)),
  variadic("Min", (a, b) => a.minimum(b)),
  op("Mean", (c) => c.like(c.xs().reduce((a, b) => a.add(b)).div(c.count))),
  op("Equal", (c) => {
    if (!c.value(0).isText) return c.x(0).eq(aligned(c));
    const { shape, data } = joined(c, (a, b) => a === b ? 1 : 0);
    return knownValue(BOOL, shape, data);
  }),
  compare("Less", (a, b) => a.lt(b)),
  compare("LessOrEqual", (a, b) => a.le(b)),
  compare("Greater", (a, b) => a.gt(b)),
  compare("GreaterOrEqual", (a, b) => a.ge(b)),
  compare("And", (a, b) => a.logicalAnd(b)),
  compare("Or", (a, b) => a.logicalOr(b)),
  compare("Xor", (a, b) => a.logicalXor(b)),
  op("Not", (c) => c.x(0).logicalNot()),
  op("IsNaN", (c) => c.x(0).isnan()),
  op("IsInf", (c) =>
    c.x(0).isinf({
      detectPositive: c.int("detect_positive", 1) === 1,
      detectNegative: c.int("detect_negative", 1) === 1,
    })),
  binary("BitwiseAnd", (a, b) => a.bitwiseAnd(b)),
  binary("BitwiseOr", (a, b) => a.bitwiseOr(b)),
  binary("BitwiseXor", (a, b) => a.bitwiseXor(b)),
  unary("BitwiseNot", (x) => x.bitwiseNot()),
  op("BitShift", shift),
  op("BitCast", bitcast),
  op("Clip", clip),
  op("Where", (c) => {
    if (c.value(1).isText) throw c.fail("texts are chosen on the host alone: its condition must be known there");
    return valueOf(Tensor.where(c.x(0), c.x(1), c.x(2)), c.type(1));
  }),
  op("Cast", (c) => castTo(c, c.value(0), c.version < 6 ? 1 : c.int("to"), c.int("saturate", 1) === 1)),
  op("CastLike", (c) => castTo(c, c.value(0), c.type(1), c.int("saturate", 1) === 1)),
  op("Identity", (c) => c.item(0)),
  op("Dropout", dropout, [1, 2]),
];

/** The input, and what of it was kept; in training mode some elements are zeros. */
function dropout(c: Call): Result {
  const x = c.x(0), ratio = c.version >= 12 ? c.number(1, 0.5) : c.float("ratio", 0.5);
  const training = c.version >= 12 && c.number(2, 0) !== 0 && ratio > 0;
  if (!training) return [c.value(0) as Value, c.wants(1) ? x.onesLike().cast(dtypes.bool) : undefined];
  const kept = x.randLike({ dtype: dtypes.float32 }).ge(ratio);
  return [c.like(kept.where(x.mul(1 / (1 - ratio)), 0)), kept];
}
