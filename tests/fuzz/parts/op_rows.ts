/**
 * What a random program may call, as a table: a row an op, with the dtypes and ranks that it takes, whether it has a
 * gradient, and how to write a call with legal operands and some of its options. Elementwise ops, reductions, scans and
 * what orders or normalizes; op_rows_more.ts has the rest. In: a hand that the maker holds out. Out: JavaScript.
 */
import type { DType } from "../../../src/dtype/dtype.ts";
import { ACTIVATIONS } from "../../../src/tensor/ops/activation.ts";
import { CASTS } from "../../../src/tensor/ops/elementwise.ts";
import { FUNCTIONS } from "../../../src/tensor/ops/functions.ts";
import { HIGHER_FUNCTIONS } from "../../../src/tensor/ops/higher_functions.ts";
import type { UnaryRow } from "../../../src/tensor/ops/rows.ts";
import type { Random } from "../../support/random.ts";

/** What a row may ask of the program that its call becomes part of. */
export interface Hand {
  readonly r: Random;
  /** The tensor that the op is called on. */
  readonly x: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** An operand that broadcasts with `x`: a number, a tensor that is there, or a new one. */
  operand(): string;
  /** A new tensor of small values. */
  leaf(shape: readonly number[], dtype?: string): string;
  /** A dtype of the program. */
  anyDType(): string;
}

/** One op. Several rows may have one name. */
export interface OpRow {
  /** As tests/pages/parity.ts names it. */
  readonly name: string;
  /** Dtypes that it takes: f for floats, i for integers, b for bool. */
  readonly on: string;
  /** Least and most axes. Default any. */
  readonly rank?: readonly [number, number];
  /** Tensors that it gives. Default 1. */
  readonly results?: number;
  /** Whether its first result has a gradient with respect to what it is called on. */
  readonly smooth?: boolean;
  /** The call; undefined where there are no legal operands. */
  make(h: Hand): string | undefined;
}

/** A row. */
export function row(name: string, on: string, make: OpRow["make"], more: Partial<OpRow> = {}): OpRow {
  return { name, on, make, ...more };
}

/** A list as text. */
export const list = (xs: readonly (number | string)[]): string => `[${xs.join(", ")}]`;

/** An axis, from the front or the back; 0 of a scalar. */
export function axisOf({ r, shape }: Hand): number {
  return shape.length === 0 ? 0 : r.int(-shape.length, shape.length - 1);
}

/** No axis, one, or several. */
export function axesOf({ r, shape }: Hand): string {
  if (shape.length === 0 || r.next() < 0.15) return "null";
  const some = shape.map((_, i) => i).filter(() => r.next() < 0.5);
  return some.length === 0 ? String(r.int(-shape.length, shape.length - 1)) : list(some);
}

/** Some of the options, as a last argument. */
export function options({ r }: Hand, known: Readonly<Record<string, readonly (string | number | boolean)[]>>): string {
  const given = Object.entries(known).filter(() => r.next() < 0.5);
  return given.length === 0 ? "" : `, { ${given.map(([name, values]) => `${name}: ${r.pick(values)}`).join(", ")} }`;
}

/** Integers in [0, n). */
export function below(h: Hand, n: number, shape: readonly number[]): string {
  return `${h.leaf(shape, h.r.pick(["int32", "int32", "int64", "uint8"]))}.mod(${n})`;
}

/** Whether a row takes tensors of a dtype and rank. */
export function takes({ on, rank = [0, 9] }: OpRow, dtype: DType, axes: number): boolean {
  const kind = dtype.isFloat ? "f" : dtype.isBool ? "b" : "i";
  return on.includes(kind) && axes >= rank[0] && axes <= rank[1];
}

const smooth = { smooth: true };

/** What is done before a function, so that it has a value and a slope, by where its row says that it has values. */
function within([least, greatest]: UnaryRow["domain"] & object = [-Infinity, Infinity]): string {
  if (least === -Infinity) return "";
  return greatest < Infinity ? `clamp(${0.9 * least}, ${0.9 * greatest}).` : `abs().add(${least + 0.5}).`;
}

/** Functions of one float: those of the rows, and others; what is done before, and what they may be given. */
const UNARY: Readonly<Record<string, readonly [before?: string, ...given: string[]]>> = {
  ...Object.fromEntries(
    Object.entries({ ...FUNCTIONS, ...HIGHER_FUNCTIONS, ...ACTIVATIONS }).map((
      [name, { domain }],
    ) => [name, [within(domain)]]),
  ),
  celu: ["", "", "0.5", "2"],
  clamp: ["", "-1, 1", "null, 0.5", "0", "-2, 3"],
  clip: ["", "-1, 1", "0.25"],
  contiguous: [],
  contiguousBackward: [],
  cosh: ["clamp(-3, 3)."],
  elu: ["", "", "0.5"],
  gelu: ["", "", '{ approximate: "tanh" }'],
  hardsigmoid: ["", "", "{ alpha: 0.25, beta: 0.4 }"],
  hardtanh: ["", "", "{ minVal: -2, maxVal: 0.5 }"],
  leakyRelu: ["", "", "0.2"],
  neg: [],
  reciprocal: ["abs().add(0.5)."],
  relu: [],
  relu6: [],
  round: [],
  selu: ["", "", "{ alpha: 1.5, gamma: 1.1 }"],
  sinh: ["clamp(-3, 3)."],
  softplus: ["", "", "2"],
  hardshrink: ["", "", "0.2"],
  softshrink: ["", "", "0.2"],
  tan: ["clamp(-1, 1)."],
};

const UNARY_ROWS: readonly OpRow[] = [
  ...Object.entries(UNARY).sort(([a], [b]) => a < b ? -1 : 1).map(([name, [before = "", ...given]]) =>
    row(name, "f", ({ r, x }) => `${x}.${before}${name}(${given.length === 0 ? "" : r.pick(given)})`, smooth)
  ),
  ...["isnan", "isfinite", "logicalNot"].map((name) => row(name, "f", ({ x }) => `${x}.${name}()`)),
  row("sign", "f", ({ x }) => `${x}.add(0.0625).sign()`, smooth), // no leaf is 0 then
  row("isinf", "f", ({ r, x }) => `${x}.isinf(${r.pick(["", "{ detectPositive: false }"])})`),
  ...["abs", "neg", "square", "sign", "relu", "relu6", "floor", "ceil", "trunc", "round", "bitwiseNot", "logicalNot"]
    .map((name) => row(name, "i", ({ x }) => `${x}.${name}()`)),
  row("clamp", "i", ({ r, x }) => `${x}.clamp(${r.pick(["-2, 9", "1", "null, 5"])})`),
  // of integers floats
  ...["exp2", "sin", "sigmoid", "tanh", "erf", "silu"]
    .map((name) => row(name, "i", ({ x }) => `${x}.clamp(0, 6).${name}()`)),
  row("sqrt", "i", ({ x }) => `${x}.abs().clamp(0, 100).sqrt()`),
  row("logicalNot", "b", ({ x }) => `${x}.logicalNot()`),
  row("bitwiseNot", "b", ({ x }) => `${x}.bitwiseNot()`),
  row("detach", "fib", ({ x }) => `${x}.detach()`),
  row("clone", "fib", ({ x }) => `${x}.clone()`, smooth),
  row("dropout", "f", ({ r, x }) => `${x}.dropout(${r.pick([0, 0.5])})`, smooth), // not in training
];

const CAST_ROWS: readonly OpRow[] = [
  row("cast", "fib", (h) => `${h.x}.cast("${h.anyDType()}")`, smooth),
  ...Object.keys(CASTS).map((name) => row(name, "fib", ({ x }) => `${x}.${name}()`)),
  row("bitcast", "fi", ({ r, x, shape, dtype }) => {
    const same = [
      "int32,uint32,float32",
      "int64,uint64,float64",
      "int16,uint16,float16,bfloat16",
      "int8,uint8,fp8e4m3,fp8e5m2",
    ];
    const last = shape.at(-1) ?? 0;
    const size = dtype.bits > 8 && shape.length > 0 && r.next() < 0.3
      ? dtype.bits >> 4 // twice as many elements
      : last > 0 && last % 2 === 0 && dtype.bits < 64 && r.next() < 0.3
      ? dtype.bits >> 2
      : dtype.bits >> 3;
    return `${x}.bitcast("${r.pick(same.find((_, i) => 8 >> i === size)?.split(",") ?? same[2].split(","))}")`;
  }),
];

const BINARY_ROWS: readonly OpRow[] = [
  ...["add", "sub", "mul"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${h.operand()}${options(h, { reverse: [true] })})`, smooth)
  ),
  ...["maximum", "minimum", "logaddexp", "logaddexp2", "fmax", "fmin"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${h.operand()})`, smooth)
  ),
  row("copysign", "f", (h) => `${h.x}.add(0.0625).copysign(${h.operand()})`, smooth),
  ...["atan2", "hypot"].map((name) => row(name, "f", (h) => `${h.x}.add(3).${name}(${h.operand()})`, smooth)),
  row("xlogy", "f", (h) => `${h.x}.xlogy(${h.leaf(h.shape, h.dtype.name)}.square().add(0.5))`, smooth),
  row("addcmul", "f", (h) => `${h.x}.addcmul(${h.operand()}, ${h.operand()}${options(h, { value: [2] })})`, smooth),
  row(
    "addcdiv",
    "f",
    (h) => `${h.x}.addcdiv(${h.operand()}, ${h.leaf(h.shape, h.dtype.name)}.square().add(1))`,
    smooth,
  ),
  ...["logicalAnd", "logicalOr", "logicalXor"].map((name) => row(name, "fib", (h) => `${h.x}.${name}(${h.operand()})`)),
  ...["gcd", "lcm"].map((name) => row(name, "i", (h) => `${h.x}.${name}(${h.leaf(h.shape, h.dtype.name)})`)),
  row("signbit", "fi", ({ x }) => `${x}.signbit()`),
  row("nanToNum", "f", ({ x }) => `${x}.nanToNum()`, smooth),
  row("prelu", "f", (h) => `${h.x}.prelu(${h.leaf([1], h.dtype.name)})`, smooth),
  row("threshold", "f", ({ x }) => `${x}.threshold(0.1, -1)`, smooth),
  row("div", "f", (h) => {
    const y = h.operand();
    return /^t/.test(y) ? `${h.x}.div(${y}.square().add(1))` : `${h.x}.div(${y})`;
  }, smooth),
  row("div", "f", (h) => `${h.x}.div(3${options(h, { roundingMode: ['"trunc"', '"floor"'] })})`, smooth),
  row("div", "f", (h) => `${h.x}.square().add(0.5).div(${h.operand()}, { reverse: true })`, smooth),
  ...["mod", "fmod", "floorDiv"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${h.r.pick([2, -3, 0.75])})`, smooth)
  ),
  ...["mod", "fmod"].map((name) => row(name, "f", (h) => `${h.x}.${name}(${h.x}.square().add(1.5))`, smooth)),
  row("pow", "f", ({ r, x }) => `${x}.pow(${r.pick([0, 1, 2, 3, -1])})`, smooth),
  row("pow", "f", (h) => `${h.x}.abs().add(0.5).pow(${h.r.next() < 0.3 ? "0.5" : h.operand()})`, smooth),
  row("lerp", "f", (h) => `${h.x}.lerp(${h.operand()}, ${h.r.pick(["0.25", h.operand()])})`, smooth),
  row("isclose", "f", (h) => `${h.x}.isclose(${h.operand()}${options(h, { rtol: [0.1], equalNan: [true] })})`),
  row("usum", "fi", (h) => `${h.x}.usum([${h.operand()}, ${h.operand()}])`),
  row("uprod", "fi", (h) => `${h.x}.uprod([${h.operand()}, ${h.operand()}])`),
  ...["add", "sub", "mul", "maximum", "minimum", "bitwiseAnd", "bitwiseOr", "bitwiseXor"].map((name) =>
    row(name, "i", (h) => `${h.x}.${name}(${h.operand()})`)
  ),
  ...["bitwiseAnd", "bitwiseOr", "bitwiseXor", "mul", "add", "maximum"].map((name) =>
    row(name, "b", (h) => `${h.x}.${name}(${h.operand()})`)
  ),
  ...["lshift", "rshift"].map((name) =>
    row(name, "i", (h) => {
      const most = Math.min(7, h.dtype.bits - 1);
      return h.r.next() < 0.6
        ? `${h.x}.${name}(${h.r.int(0, most)})`
        : `${h.x}.${name}(${h.leaf(h.shape, h.dtype.name)}.bitwiseAnd(${most}))`;
    })
  ),
  ...["floorDiv", "mod", "fmod", "div"].map((name) =>
    row(name, "i", (h) => {
      const n = h.r.int(1, 9) * (h.dtype.isUnsigned || h.r.next() < 0.8 ? 1 : -1);
      const by = h.r.next() < 0.7 ? String(n) : `${h.leaf(h.shape, h.dtype.name)}.bitwiseAnd(7).add(1)`;
      return `${h.x}.${name}(${by}${name === "div" ? options(h, { roundingMode: ['"trunc"', '"floor"'] }) : ""})`;
    })
  ),
  row("pow", "i", ({ r, x }) => `${x}.pow(${r.int(0, 4)})`),
  ...["lt", "le", "gt", "ge", "eq", "ne"].map((name) =>
    row("lt le gt ge eq ne", "fib", (h) => `${h.x}.${name}(${h.operand()})`)
  ),
  row("where", "fib", (h) => `${h.x}.ne(${h.operand()}).where(${h.x}, ${h.operand()})`, smooth),
  row("where", "b", (h) => `${h.x}.where(${h.r.pick(["1, 2", "2.5, 0", h.leaf(h.shape, "float32") + ", 1"])})`),
  row("maskedFill", "fi", (h) => `${h.x}.maskedFill(${h.leaf(h.shape, "bool")}, 3)`, smooth),
];

const keep = { keepdim: [true] } as const;

const REDUCE_ROWS: readonly OpRow[] = [
  ...["max", "min", "mean"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${axesOf(h)}${options(h, keep)})`, smooth)
  ),
  ...["sum", "prod"].map((name) =>
    row(
      name,
      "f",
      (h) => `${h.x}.${name}(${axesOf(h)}${options(h, { ...keep, dtype: ['"float32"', '"float64"'] })})`,
      smooth,
    )
  ),
  ...["var", "std"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${axesOf(h)}${options(h, { ...keep, correction: [0, 1, 2] })})`, smooth)
  ),
  ...["varMean", "stdMean"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${axesOf(h)}${options(h, { ...keep, correction: [0] })})`, {
      results: 2,
      smooth: true,
    })
  ),
  row("logsumexp", "f", (h) => `${h.x}.logsumexp(${axesOf(h)}${options(h, keep)})`, smooth),
  row("median", "f", (h) => `${h.x}.median(${axesOf(h)}${options(h, keep)})`, smooth),
  row("quantile", "fi", (h) => {
    const q = h.r.pick(["0.3", "[0.25, 0.8]", "1"]);
    const how = ["linear", "lower", "higher", "midpoint", "nearest"].map((m) => `"${m}"`);
    return `${h.x}.quantile(${q}, ${axesOf(h)}${options(h, { ...keep, interpolation: how })})`;
  }, smooth),
  row("median", "i", (h) => `${h.x}.median(${axesOf(h)})`),
  ...["sum", "prod", "max", "min", "mean"].map((name) =>
    row(name, "i", (h) => `${h.x}.${name}(${axesOf(h)}${options(h, keep)})`)
  ),
  ...["sum", "max", "any", "all"].map((name) =>
    row(name, "b", (h) => `${h.x}.${name}(${axesOf(h)}${options(h, keep)})`)
  ),
  ...["any", "all"].map((name) => row(name, "fi", (h) => `${h.x}.${name}(${axesOf(h)})`)),
  ...["argmax", "argmin"].map((name) =>
    row(name, "fi", (h) => `${h.x}.${name}(${h.r.pick(["null", axisOf(h)])}${options(h, keep)})`)
  ),
  row("allclose", "f", (h) => `${h.x}.allclose(${h.operand()}${options(h, { atol: [1] })})`),
];

const NORM_ROWS: readonly OpRow[] = [
  ...["softmax", "logSoftmax", "softmin"].map((name) =>
    row(name, "f", (h) => `${h.x}.${name}(${axisOf(h)}${options(h, { dtype: ['"float32"'] })})`, smooth)
  ),
  row("softmax", "i", (h) => `${h.x}.softmax(${axisOf(h)})`),
  row("layernorm", "f", (h) => `${h.x}.layernorm(${axisOf(h)}${options(h, { eps: [0.01] })})`, {
    ...smooth,
    rank: [1, 9],
  }),
  row("normalize", "f", (h) => {
    return `${h.x}.add(0.3).normalize({ dim: ${axisOf(h)}${h.r.pick(["", ", p: 1", ", p: 3"])} })`;
  }, { ...smooth, rank: [1, 9] }),
  row("batchnorm", "f", (h) => {
    const one = () => h.leaf([h.shape[1]], h.dtype.name);
    return `${h.x}.batchnorm(${one()}, ${one()}, ${one()}, ${one()}.square().add(0.5).rsqrt())`;
  }, { ...smooth, rank: [2, 4] }),
];

const SCAN_ROWS: readonly OpRow[] = [
  ...["cumsum", "cumprod"].map((name) => row(name, "f", (h) => `${h.x}.${name}(${axisOf(h)})`, smooth)),
  ...["cumsum", "cumprod"].map((name) => row(name, "ib", (h) => `${h.x}.${name}(${axisOf(h)})`)),
  ...["cummax", "cummin"].map((name) =>
    row(name, "fi", (h) => `${h.x}.${name}(${axisOf(h)})`, { results: 2, smooth: true })
  ),
  row("logcumsumexp", "f", (h) => `${h.x}.logcumsumexp(${axisOf(h)})`, smooth),
];

const ORDER_ROWS: readonly OpRow[] = [
  row("sort", "fi", (h) => `${h.x}.sort(${axisOf(h)}${options(h, { descending: [true] })})`, {
    results: 2,
    smooth: true,
    rank: [1, 9],
  }),
  row("argsort", "fi", (h) => `${h.x}.argsort(${axisOf(h)}${options(h, { descending: [true] })})`, { rank: [1, 9] }),
  row("topk", "fi", (h) => `${h.x}.topk(${h.r.int(1, 3)}, ${axisOf(h)}${options(h, { largest: [false] })})`, {
    results: 2,
    smooth: true,
    rank: [1, 9],
  }),
  row("unique", "fi", ({ r, x }) => {
    return r.pick([
      `${x}.unique({ size: 7 })`,
      `${x}.unique({ size: 5, returnInverse: true })[1]`,
      `${x}.unique({ size: 9, returnCounts: true })[1]`,
    ]);
  }),
  row("searchsorted", "fi", (h) => {
    return `${h.x}.sort(-1)[0].searchsorted(${h.leaf([...h.shape.slice(0, -1), 3], h.dtype.name)}${
      options(h, { right: [true] })
    })`;
  }, { rank: [1, 3] }),
  row("bincount", "i", (h) => {
    const weights = h.r.next() < 0.4 ? `, weights: ${h.leaf(h.shape, "float32")}` : "";
    return `${h.x}.bincount({ size: 6${weights} })`;
  }, { rank: [1, 1] }),
  row("histogram", "fi", (h) => {
    return `${h.x}.histogram(4, { min: -2, max: 2${h.r.pick(["", ", density: true"])} })`;
  }, { results: 2 }),
  row("histogram", "f", (h) => `${h.x}.histogram([-1.0625, 0.3, 2])`, { results: 2 }),
];

/** Rows by what a step of a program may do, and how often it does it. */
export const OP_ROWS: readonly (readonly [share: number, rows: readonly OpRow[]])[] = [
  [0.11, UNARY_ROWS],
  [0.06, CAST_ROWS],
  [0.17, BINARY_ROWS],
  [0.11, REDUCE_ROWS],
  [0.04, NORM_ROWS],
  [0.03, SCAN_ROWS],
  [0.03, ORDER_ROWS],
];
