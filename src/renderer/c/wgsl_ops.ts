/**
 * WGSL's types, literals and expressions: what a kernel computes. How it declares and reaches memory is in wgsl.ts.
 *
 * - Values narrower than 32 bits are computed in i32 or u32 and wrapped; 64-bit integers are pairs of words (wgsl_int64).
 * - An expression of constants that overflows, or makes an infinity or NaN, is an error in WGSL: such constants, and
 *   operands that all are constant, come from a private variable or a function, which no compiler may evaluate early.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { f16Round } from "../../dtype/float16.ts";
import { DTypeError, SpecError } from "../../helpers/errors.ts";
import { vmin } from "../../uop/algebra/bounds.ts";
import { argOf, type ConstValue, Int64 } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { type CRule, type CWriter, functionRules, staysInRange, unwrap } from "./cstyle.ts";
import { hiddenOperand } from "./wgsl_folds.ts";
import { WIDE, wideFunction } from "./wgsl_int64.ts";

/** The components of a vector. */
export const LANES: string = "xyzw";

/** True for integers that are pairs of words. */
export function isWide(d: DType): boolean {
  return d.isInt && d.bits === 64;
}
/** True for integers that are computed in more bits than they have. */
function isNarrow(d: DType): boolean {
  return d.isInt && d.bits < 32;
}
/** True for dtypes that share words in memory. */
export function isPacked(d: DType): boolean {
  return d.bits < 32 && d.scalar !== dtypes.float16;
}

/** A type as part of a function's name. */
function wordOf(type: string): string {
  return type.replace(/\W+/g, "_").replace(/_$/, "");
}

function scalarType(d: DType): string {
  if (d.isBool) return "bool";
  if (isWide(d)) return WIDE;
  if (d.isInt) return d.isUnsigned ? "u32" : "i32";
  if (d.scalar === dtypes.float32) return "f32";
  if (d.scalar === dtypes.float16) return "f16";
  throw new DTypeError("compile a kernel for WEBGPU with values of", {
    dtypes: [d.scalar],
    reason: `WGSL has no such type; cast to float32, or compute on another device`,
  });
}

/** The type of values of `d`. @throws {DTypeError} where WGSL has none */
export function type(_w: CWriter, d: DType): string {
  const scalar = scalarType(d);
  if (d.count === 1) return scalar;
  if (d.count > 4 || isWide(d)) throw new SpecError(`WGSL has no vector for dtype ${d}`);
  return `vec${d.count}<${scalar}>`;
}

/** `text`, a scalar of `d`'s lanes, as a value of `d`. */
export function splat(w: CWriter, d: DType, text: string): string {
  return d.count === 1 ? text : `${type(w, d)}(${text})`;
}

/** A float constant that WGSL would not take as one. */
function bitsLiteral(w: CWriter, name: string, bits: number): string {
  w.declare(name, `var<private> ${name}: u32 = ${bits}u;`);
  return `bitcast<f32>(${name})`;
}

/** The word 0, which no compiler knows to be it: that an array has a length is seen when it runs. */
function nothing(w: CWriter): string {
  w.declare("nothing", "fn nothing() -> u32 { return select(0u, 1u, arrayLength(&b0) == 0u); }");
  return "nothing()";
}

/** A constant, also one that WGSL has no literal for. */
export function literal(w: CWriter, d: DType, value: ConstValue): string {
  return splat(w, d, scalarLiteral(w, d, value));
}

function scalarLiteral(w: CWriter, d: DType, value: ConstValue): string {
  if (isWide(d)) {
    const x = value instanceof Int64 ? value : Int64.fromBigInt(BigInt(Math.trunc(value)));
    return `${WIDE}(${x.lo >>> 0}u, ${x.hi >>> 0}u)`;
  }
  const x = value instanceof Int64 ? Number(value.toBigInt()) : value;
  if (d.isBool) return x === 0 ? "false" : "true";
  if (d.isInt) {
    if (d.isUnsigned) return `${x >>> 0}u`;
    if (x === -(2 ** 31)) return "i32(-2147483648)";
    return x < 0 ? `(${x}i)` : `${x}i`;
  }
  const t = scalarType(d);
  if (Number.isFinite(x)) {
    const rounded = t === "f16" ? f16Round(x) : Math.fround(x);
    if (Number.isFinite(rounded)) {
      if (Object.is(rounded, -0)) {
        // drivers take a -0 that they see for 0
        w.declare("minus_zero", `fn minus_zero() -> f32 { return bitcast<f32>(2147483648u | ${nothing(w)}); }`);
        return t === "f16" ? "f16(minus_zero())" : "minus_zero()";
      }
      const text = `${Math.abs(rounded)}${t === "f16" ? "h" : "f"}`;
      return rounded < 0 ? `(-${text})` : text;
    }
  }
  const special = x !== x
    ? bitsLiteral(w, "nan_bits", 0x7fc00000)
    : x > 0
    ? bitsLiteral(w, "inf_bits", 0x7f800000)
    : bitsLiteral(w, "neg_inf_bits", 0xff800000);
  return t === "f16" ? `f16(${special})` : special;
}

/** `text` as an expression that is not constant. */
function opaque(w: CWriter, d: DType, text: string): string {
  const t = type(w, d), name = `opaque_${wordOf(t)}`;
  w.declare(name, `fn ${name}(x: ${t}) -> ${t} { return x; }`);
  return `${name}(${text})`;
}

/**
 * A function of a float's bits, `b` (without its sign, `m`), whose value drivers guess wrong: they take x / x for 1,
 * x * 0 for 0, x + 0 for x and 0 - x for -x, whatever x is.
 */
function ofBits(w: CWriter, d: DType, name: string, text: string, x: string): string {
  const float = dtypes.float32.vec(d.count);
  if (scalarType(d) === "f16") {
    return `${type(w, d)}(${ofBits(w, float, name, text, `${type(w, float)}(${unwrap(x)})`)})`;
  }
  const t = type(w, float),
    bits = type(w, dtypes.uint32.vec(d.count)),
    full = name + (d.count > 1 ? `_${d.count}` : "");
  const body = text.replace(/\b\d+u/g, (n) => d.count > 1 ? `${bits}(${n})` : n);
  w.declare(
    full,
    `fn ${full}(x: ${t}) -> ${t} { let b = bitcast<${bits}>(x); let m = b & ${bits}(2147483647u); ` +
      `return bitcast<${t}>(${body}); }`,
  );
  return `${full}(${unwrap(x)})`;
}

/** x / x: NaN for zeros, infinities and NaN. */
const ownQuotient = (w: CWriter, d: DType, x: string): string =>
  ofBits(w, d, "own_quotient", "select(1065353216u, 2143289344u, (m == 0u) | (m >= 2139095040u))", x);

/** x * 0, or x * -0: the sign of x, or the other; NaN for infinities and NaN. */
function timesZero(w: CWriter, d: DType, x: string, minus: boolean): string {
  const zero = minus ? "(b ^ m) ^ 2147483648u" : "b ^ m";
  return ofBits(w, d, minus ? "times_minus_zero" : "times_zero", `select(${zero}, 2143289344u, m >= 2139095040u)`, x);
}

/** x + 0, which is 0 where x is -0. */
const plusZero = (w: CWriter, d: DType, x: string): string =>
  ofBits(w, d, "plus_zero", "select(b, 0u, b == 2147483648u)", x);

/** 0 - x, which is 0 where x is. */
const zeroMinus = (w: CWriter, d: DType, x: string): string =>
  ofBits(w, d, "zero_minus", "select(b ^ 2147483648u, 0u, m == 0u)", x);

/** The operands' texts: what a driver would fold is hidden; where all are constant, the first is made opaque. */
function operands(w: CWriter, u: UOp, src: readonly string[]): readonly string[] {
  const d = u.src[0].dtype, k = d.isFloat && u.src.length > 1 ? hiddenOperand(u) : -1;
  if (k >= 0) {
    return src.with(k, ofBits(w, d, "hidden", `b | ${splat(w, dtypes.uint32.vec(d.count), nothing(w))}`, src[k]));
  }
  if (!u.src.every((s) => s.op === Ops.CONST)) return src;
  return [opaque(w, u.src[0].dtype, src[0]), ...src.slice(1)];
}

function wide(w: CWriter, name: string): string {
  return wideFunction((n, text) => w.declare(n, text), name);
}
function wideCall(w: CWriter, name: string, ...args: readonly string[]): string {
  return `${wide(w, name)}(${args.join(", ")})`;
}
/** "u" or "i": of functions that differ by sign. */
function signOf(d: DType): string {
  return d.isUnsigned ? "u" : "i";
}

/** Wraps an integer that is computed in 32 bits to its own. */
function wrap(w: CWriter, d: DType, text: string): string {
  if (!isNarrow(d)) return text;
  if (!d.isUnsigned) return `extractBits(${unwrap(text)}, 0u, ${d.bits}u)`;
  return `(${text} & ${splat(w, d, `${2 ** d.bits - 1}u`)})`;
}

/** a / b, also by more than 2^126, whose reciprocal is subnormal: WGSL promises nothing there. */
function quotient(w: CWriter, d: DType, a: string, b: string): string {
  const t = type(w, d), name = `quotient${d.count > 1 ? d.count : ""}`, c = (x: string): string => splat(w, d, x);
  w.declare(
    name,
    `fn ${name}(a: ${t}, b: ${t}) -> ${t} { let s = select(${c("1f")}, ${c("0.25f")}, abs(b) > ${c("8e37f")}); ` +
      "return a / (b * s) * s; }",
  );
  return `${name}(${unwrap(a)}, ${unwrap(b)})`;
}

/** Arithmetic: an operator, that of bools, and the function for pairs of words. */
const arithmetic = (operator: string, bool: string, wideName: string): CRule => (w, u, src) => {
  const d = u.dtype, [a, b] = operands(w, u, src);
  if (d.isBool) return `(${a} ${bool} ${b})`;
  if (isWide(d)) return wideCall(w, wideName, a, b);
  const text = `(${a} ${operator} ${b})`;
  return isNarrow(d) && !(d.count === 1 && staysInRange(u)) ? wrap(w, d, text) : text;
};

const isZero = (u: UOp): boolean => u.op === Ops.CONST && Object.is(u.value, 0);
const sum = arithmetic("+", "!=", "wide_add"), difference = arithmetic("-", "!=", "wide_sub");
const product = arithmetic("*", "&", "wide_mul");

const division = (operator: string, wideName: string): CRule => (w, u, [a, b]) => {
  const d = u.dtype;
  if (isWide(d)) return wideCall(w, `${wideName}_${signOf(d)}`, a, b);
  // a constant divisor of zero is an error, as is a constant quotient that overflows
  const by = u.src[1].op === Ops.CONST && u.src[1].value <= 0 ? opaque(w, d, b) : b;
  if (operator === "%" && !d.isUnsigned && Math.min(vmin(u.src[0]), vmin(u.src[1])) < 0) {
    // Vulkan leaves the remainder with a negative operand open (OpSRem), the quotient not
    const t = type(w, d), name = `remainder_${wordOf(t)}`;
    w.declare(name, `fn ${name}(a: ${t}, b: ${t}) -> ${t} { return a - a / b * b; }`);
    return wrap(w, d, `${name}(${unwrap(a)}, ${unwrap(by)})`);
  }
  const text = `(${a} ${operator} ${by})`;
  return d.isUnsigned ? text : wrap(w, d, text);
};

const logic = (operator: string, bool: string): CRule => (_w, u, [a, b]) =>
  `(${a} ${u.dtype.isBool ? bool : operator} ${b})`;

const shift = (operator: string, wideName: string): CRule => (w, u, src) => {
  const d = u.dtype, [a, b] = operands(w, u, src), count = u.src[1], known = count.op === Ops.CONST;
  const n = known
    ? `${count.value & (d.bits - 1)}u`
    : isWide(count.dtype)
    ? `${b}.x`
    : count.dtype.isUnsigned
    ? b
    : `u32(${unwrap(b)})`;
  if (isWide(d)) return wideCall(w, wideName === "wide_shr" ? `${wideName}_${signOf(d)}` : wideName, a, n);
  const counts = dtypes.uint32.vec(d.count);
  let by = known ? splat(w, counts, n) : n;
  if (!known) {
    if (d.count > 1 && count.dtype.count > 1) by = count.dtype.isUnsigned ? b : `${type(w, counts)}(${unwrap(b)})`;
    else if (d.count > 1) by = splat(w, counts, by);
    by = `(${by} & ${splat(w, counts, `${d.bits - 1}u`)})`;
  }
  const text = `(${a} ${operator} ${by})`;
  return operator === "<<" ? wrap(w, d, text) : text;
};

/** Where the lanes of a float are NaN: by bits, which no optimization assumes away. */
function isNan(w: CWriter, d: DType, x: string): string {
  const words = dtypes.uint32.vec(d.count), wideX = d.scalar === dtypes.float16 ? castText(w, d, dtypes.float32, x) : x;
  const name = `is_nan${d.count > 1 ? d.count : ""}`, t = type(w, dtypes.float32.vec(d.count));
  const mask = splat(w, words, "2147483647u"), infinity = splat(w, words, "2139095040u");
  w.declare(
    name,
    `fn ${name}(x: ${t}) -> ${type(w, dtypes.bool.vec(d.count))} { return (bitcast<${
      type(w, words)
    }>(x) & ${mask}) > ${infinity}; }`,
  );
  return `${name}(${unwrap(wideX)})`;
}

const compare = (operator: string): CRule => (w, u, src) => {
  const s = u.src[0].dtype;
  if (u.src[0] === u.src[1] && s.isFloat && operator !== "<") {
    const nan = isNan(w, s, src[0]);
    return operator === "!=" ? nan : `(!${nan})`;
  }
  const [a, b] = operands(w, u, src);
  if (isWide(s)) {
    if (operator === "<") return wideCall(w, `wide_lt_${signOf(s)}`, a, b);
    return `${operator === "!=" ? "!" : ""}${wideCall(w, "wide_eq", a, b)}`;
  }
  if (s.isBool && operator === "<") return `(!${a} & ${b})`;
  // some compilers take != of floats as false where one is NaN
  return s.isFloat && operator === "!=" ? `(!(${a} == ${b}))` : `(${a} ${operator} ${b})`;
};

/** The larger; NaN where either is. */
const max: CRule = (w, u, src) => {
  const d = u.dtype, [a, b] = operands(w, u, src);
  if (d.isBool) return `(${a} | ${b})`;
  if (isWide(d)) return wideCall(w, `wide_max_${signOf(d)}`, a, b);
  if (!d.isFloat) return `max(${a}, ${b})`;
  const t = type(w, d), name = `max_${wordOf(t)}`;
  // said so that drivers of OpenGL make no max of it, which loses a NaN
  const isGreater = `(!(a <= b) & !${isNan(w, d, "b")}) | ${isNan(w, d, "a")}`,
    words = type(w, dtypes.uint32.vec(d.count));
  const chosen = d.bits === 32
    ? `bitcast<${t}>(select(bitcast<${words}>(b), bitcast<${words}>(a), ${isGreater}))`
    : `select(b, a, ${isGreater})`;
  w.declare(name, `fn ${name}(a: ${t}, b: ${t}) -> ${t} { return ${chosen}; }`);
  return `${name}(${a}, ${b})`;
};

/** What a condition is where `a` or `b`, floats, is NaN; undefined where it is not by comparing these two. */
function whereNan(condition: UOp, a: UOp, b: UOp): boolean | undefined {
  const { op, src } = condition;
  if (op === Ops.CONST) return condition.value !== 0;
  const isOrder = op === Ops.CMPLT || op === Ops.CMPEQ || op === Ops.CMPNE;
  if (isOrder && src[0].dtype.isFloat) return src.includes(a) && src.includes(b) ? op === Ops.CMPNE : undefined;
  if (!src.every((s) => s.dtype.isBool) || src.length !== 2) return undefined;
  const x = whereNan(src[0], a, b), y = whereNan(src[1], a, b);
  if (x === undefined || y === undefined) return undefined;
  if (op === Ops.OR) return x || y;
  if (op === Ops.AND) return x && y;
  if (op === Ops.CMPEQ) return x === y;
  return op === Ops.CMPNE || op === Ops.XOR ? x !== y : undefined;
}

const where: CRule = (w, u, [condition, a, b]) => {
  const chosen = u.dtype.isFloat ? whereNan(u.src[0], u.src[1], u.src[2]) : undefined;
  let text = `select(${unwrap(b)}, ${unwrap(a)}, ${unwrap(condition)})`;
  // drivers make the lesser or larger of two min or max, which lose a NaN, and 0 or -0 one of them; bits they leave alone
  const zeros = u.dtype.isFloat && u.src.some((s) => s.op === Ops.CONST && Object.is(s.value, -0));
  if ((chosen !== undefined || zeros) && u.dtype.bits === 32) {
    const bits = type(w, dtypes.uint32.vec(u.dtype.count));
    const of = (s: UOp, x: string): string =>
      `bitcast<${bits}>(${s.op === Ops.CONST ? opaque(w, s.dtype, x) : unwrap(x)})`;
    text = `bitcast<${type(w, u.dtype)}>(select(${of(u.src[2], b)}, ${of(u.src[1], a)}, ${unwrap(condition)}))`;
  }
  if (chosen === undefined) return text;
  const [kept, its] = chosen ? [u.src[1], a] : [u.src[2], b];
  return kept.op === Ops.CONST ? text : `select(${text}, ${unwrap(its)}, ${isNan(w, u.dtype, its)})`;
};

/** The value `x` of dtype `from` in the dtype `to`, lane by lane. */
function castText(w: CWriter, from: DType, to: DType, x: string): string {
  const d = to.vec(from.count);
  if (isWide(from)) {
    if (d.isBool) return `(!${wideCall(w, "wide_eq", x, `${WIDE}(0u, 0u)`)})`;
    if (isWide(d)) return x;
    if (d.isFloat) {
      const float = wideCall(w, `f32_of_wide_${signOf(from)}`, x);
      return d.scalar === dtypes.float16 ? `f16(${float})` : float;
    }
    return wrap(w, d, d.isUnsigned ? `${x}.x` : `bitcast<i32>(${x}.x)`);
  }
  if (isWide(d)) {
    if (from.isBool) return wideCall(w, "wide_of_u32", `u32(${x})`);
    if (from.isFloat) return wideCall(w, "wide_of_f32", from.scalar === dtypes.float16 ? `f32(${x})` : x);
    return wideCall(w, from.isUnsigned ? "wide_of_u32" : "wide_of_i32", x);
  }
  const t = type(w, d), inner = unwrap(x);
  if (d.isBool) return from.isBool ? x : `(!(${x} == ${literal(w, from, 0)}))`;
  if (d.isFloat || from.isBool) return t === type(w, from) ? x : `${t}(${inner})`;
  if (!from.isFloat) return t === type(w, from) && from.bits <= d.bits ? x : wrap(w, d, `${t}(${inner})`);
  const signed = dtypes.int32.vec(d.count), full = d.bits === 32;
  if (!d.isUnsigned) return wrap(w, d, `${t}(${inner})`);
  // a negative float wraps, as it does by way of a signed integer
  if (!full) return wrap(w, d, `${t}(${type(w, signed)}(${inner}))`);
  const ft = type(w, from), name = `u32_of_${wordOf(ft)}`;
  w.declare(
    name,
    `fn ${name}(x: ${ft}) -> ${t} { return select(${t}(x), bitcast<${t}>(${type(w, signed)}(x)), x < ${
      literal(w, from, 0)
    }); }`,
  );
  return `${name}(${inner})`;
}

const cast: CRule = (w, u, src) => {
  const from = u.src[0].dtype;
  return castText(w, from, u.dtype.scalar, u.src[0].op === Ops.CONST ? opaque(w, from, src[0]) : src[0]);
};

const bitcast: CRule = (w, u, src) => {
  const d = u.dtype, s = u.src[0], f = s.dtype, x = s.op === Ops.CONST ? opaque(w, f, src[0]) : src[0];
  if (isWide(d) || d.scalar === f.scalar) return x;
  const half = (e: DType): boolean => e.scalar === dtypes.float16;
  if (half(d) || half(f)) {
    if (d.count > 1) throw new SpecError(`WGSL cannot write BITCAST of ${f} to ${d}`);
    // not all implementations have bitcasts between vectors and scalars
    if (half(d)) return `f16(unpack2x16float(${f.isUnsigned ? unwrap(x) : `bitcast<u32>(${unwrap(x)})`}).x)`;
    const bits = `pack2x16float(vec2<f32>(f32(${unwrap(x)}), 0f))`;
    return d.isUnsigned ? bits : wrap(w, d, `bitcast<i32>(${bits})`);
  }
  if (d.isBool || f.isBool) return d.isBool ? `(${x} != ${literal(w, f, 0)})` : `${type(w, d)}(${unwrap(x)})`;
  const text = `bitcast<${type(w, d)}>(${unwrap(x)})`;
  return d.bits < 32 ? wrap(w, d, text) : text;
};

const builtin = (name: string): CRule => (w, u, src) =>
  u.dtype.isFloat ? `${name}(${unwrap(operands(w, u, src)[0])})` : src[0];

/** The expressions of ALU ops. */
export const WGSL_RULES: Record<number, CRule> = {
  [Ops.ADD]: (w, u, src) => {
    const k = u.dtype.isFloat ? u.src.findIndex(isZero) : -1;
    return k < 0 || u.src[1 - k].op === Ops.CONST ? sum(w, u, src) : plusZero(w, u.dtype, src[1 - k]);
  },
  [Ops.SUB]: (w, u, src) =>
    u.dtype.isFloat && isZero(u.src[0]) && u.src[1].op !== Ops.CONST
      ? zeroMinus(w, u.dtype, src[1])
      : difference(w, u, src),
  [Ops.MUL]: (w, u, src) => {
    const k = u.src.findIndex((s) => s.op === Ops.CONST && s.value === 0);
    if (!u.dtype.isFloat || k < 0 || u.src[1 - k].op === Ops.CONST) return product(w, u, src);
    return timesZero(w, u.dtype, src[1 - k], Object.is(u.src[k].value, -0));
  },
  [Ops.NEG]: (w, u, [a]) => {
    const d = u.dtype;
    if (d.isBool) return a;
    if (isWide(d)) return wideCall(w, "wide_neg", a);
    return wrap(w, d, d.isUnsigned ? `(${splat(w, d, "0u")} - ${a})` : `(-${a})`);
  },
  [Ops.MULACC]: (w, u, src) => {
    const k = u.dtype.isFloat ? u.src.findIndex((s, i) => i < 2 && s.op === Ops.CONST && s.value === 0) : -1;
    if (k >= 0) return `(${timesZero(w, u.dtype, src[1 - k], Object.is(u.src[k].value, -0))} + ${unwrap(src[2])})`;
    const [a, b, c] = operands(w, u, src);
    if (u.dtype.isFloat) return `fma(${unwrap(a)}, ${unwrap(b)}, ${unwrap(c)})`;
    if (isWide(u.dtype)) return wideCall(w, "wide_add", wideCall(w, "wide_mul", a, b), c);
    return wrap(w, u.dtype, `(${a} * ${b} + ${c})`);
  },
  [Ops.FDIV]: (w, u, src) => {
    const by = u.src[1];
    if (u.src[0] === by && by.op !== Ops.CONST) return ownQuotient(w, u.dtype, src[1]);
    const [a, b] = operands(w, u, src);
    if (by.op !== Ops.CONST) return u.dtype.bits === 32 ? quotient(w, u.dtype, a, b) : `(${a} / ${b})`;
    if (by.value !== 0) return `(${a} / ${b})`;
    // by a constant zero is an error, or wrong where a driver folds it: times infinity is the same
    return `(${a} * ${literal(w, u.dtype, 1 / by.value)})`;
  },
  [Ops.MAX]: max,
  [Ops.CDIV]: division("/", "wide_div"),
  [Ops.CMOD]: division("%", "wide_mod"),
  [Ops.FLOORDIV]: division("/", "wide_div"), // only where proved to be the same
  [Ops.FLOORMOD]: division("%", "wide_mod"),
  [Ops.CMPLT]: compare("<"),
  [Ops.CMPNE]: compare("!="),
  [Ops.CMPEQ]: compare("=="),
  [Ops.AND]: logic("&", "&"),
  [Ops.OR]: logic("|", "|"),
  [Ops.XOR]: logic("^", "!="),
  [Ops.SHL]: shift("<<", "wide_shl"),
  [Ops.SHR]: shift(">>", "wide_shr"),
  [Ops.WHERE]: where,
  [Ops.CAST]: cast,
  [Ops.BITCAST]: bitcast,
  ...functionRules(builtin),
  [Ops.VECTORIZE]: (w, u, src) => `${type(w, u.dtype)}(${src.map(unwrap).join(", ")})`,
  [Ops.BROADCAST]: (w, u, [a]) => splat(w, u.dtype, unwrap(a)),
  [Ops.EXTRACT]: (_w, u, [a]) => `${a}.${LANES[argOf(u, Ops.EXTRACT)]}`,
};
