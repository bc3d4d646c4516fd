/**
 * WGSL: the language of the WEBGPU device. One entry point `main`; buffer arguments are bindings 0, 1, ... of group 0, by
 * slot, and scalar arguments are words of a uniform buffer, the binding after them.
 *
 * - WGSL stores nothing narrower than 32 bits (but f16): bool and 8- and 16-bit integers lie packed in words. A store of
 *   whole words is plain; any other changes its bits atomically, so that threads may own parts of a word.
 * - Values narrower than 32 bits are computed in i32 or u32 and wrapped; 64-bit integers are pairs of words (wgsl_int64).
 * - A buffer that is written only by vectors of one width is an array of these; narrower reads take lanes.
 * - An expression of constants that overflows, or makes an infinity or NaN, is an error in WGSL: such constants, and
 *   operands that all are constant, come from a private variable or a function, which no compiler may evaluate early.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { DTypeError, SpecError } from "../helpers/errors.ts";
import { type ConstValue, Int64, type LocalArg, type ParamArg, type VariableArg } from "../uop/args.ts";
import { vmin } from "../uop/bounds.ts";
import { Ops } from "../uop/ops.ts";
import type { UOp } from "../uop/uop.ts";
import { type CAddress, type CLanguage, type CRule, type CWriter, identifier, staysInRange, unwrap } from "./cstyle.ts";
import type { LinearProgram } from "./renderer.ts";
import { WIDE, wideFunction } from "./wgsl_int64.ts";

const LANES = "xyzw";

function isWide(d: DType): boolean {
  return d.isInt && d.bits === 64;
}
/** True for integers that are computed in more bits than they have. */
function isNarrow(d: DType): boolean {
  return d.isInt && d.bits < 32;
}
/** True for dtypes that share words in memory. */
function isPacked(d: DType): boolean {
  return d.bits < 32 && d.scalar !== dtypes.float16;
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

function type(_w: CWriter, d: DType): string {
  const scalar = scalarType(d);
  if (d.count === 1) return scalar;
  if (d.count > 4 || isWide(d)) throw new SpecError(`WGSL has no vector for dtype ${d}`);
  return `vec${d.count}<${scalar}>`;
}

/** `text`, a scalar of `d`'s lanes, as a value of `d`. */
function splat(w: CWriter, d: DType, text: string): string {
  return d.count === 1 ? text : `${type(w, d)}(${text})`;
}

/** A float constant that WGSL would not take as one. */
function bitsLiteral(w: CWriter, name: string, bits: number): string {
  w.declare(name, `var<private> ${name}: u32 = ${bits}u;`);
  return `bitcast<f32>(${name})`;
}

function literal(w: CWriter, d: DType, value: ConstValue): string {
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
    const rounded = t === "f16" ? Math.f16round(x) : Math.fround(x);
    if (Number.isFinite(rounded)) {
      if (Object.is(rounded, -0)) return t === "f16" ? "f16(bitcast<f32>(2147483648u))" : "bitcast<f32>(2147483648u)";
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
  const t = type(w, d), name = `opaque_${t.replace(/\W+/g, "_").replace(/_$/, "")}`;
  w.declare(name, `fn ${name}(x: ${t}) -> ${t} { return x; }`);
  return `${name}(${text})`;
}

/** The operands' texts; where all are constant, the first is made opaque. */
function operands(w: CWriter, u: UOp, src: readonly string[]): readonly string[] {
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

/** Arithmetic: an operator, that of bools, and the function for pairs of words. */
const arithmetic = (operator: string, bool: string, wideName: string): CRule => (w, u, src) => {
  const d = u.dtype, [a, b] = operands(w, u, src);
  if (d.isBool) return `(${a} ${bool} ${b})`;
  if (isWide(d)) return wideCall(w, wideName, a, b);
  const text = `(${a} ${operator} ${b})`;
  return isNarrow(d) && !(d.count === 1 && staysInRange(u)) ? wrap(w, d, text) : text;
};

const division = (operator: string, wideName: string): CRule => (w, u, [a, b]) => {
  const d = u.dtype;
  if (isWide(d)) return wideCall(w, `${wideName}_${signOf(d)}`, a, b);
  // a constant divisor of zero is an error, as is a constant quotient that overflows
  const by = u.src[1].op === Ops.CONST && u.src[1].value <= 0 ? opaque(w, d, b) : b;
  if (operator === "%" && !d.isUnsigned && vmin(u.src[0]) < 0) {
    // Vulkan leaves the remainder of a negative number open (OpSRem), the quotient not
    const t = type(w, d), name = `remainder_${t.replace(/\W+/g, "_").replace(/_$/, "")}`;
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
  const t = type(w, d), name = `max_${t.replace(/\W+/g, "_").replace(/_$/, "")}`;
  const nan = isNan(w, d, "a");
  w.declare(name, `fn ${name}(a: ${t}, b: ${t}) -> ${t} { return select(select(b, a, a > b), a, ${nan}); }`);
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
  if (chosen === undefined) return `select(${unwrap(b)}, ${unwrap(a)}, ${unwrap(condition)})`;
  // the lesser or larger of two: drivers make it min or max, which lose a NaN; of bits most leave it alone
  let text = `select(${unwrap(b)}, ${unwrap(a)}, ${unwrap(condition)})`;
  if (u.dtype.bits === 32) {
    const bits = type(w, dtypes.uint32.vec(u.dtype.count));
    const of = (s: UOp, x: string): string =>
      `bitcast<${bits}>(${s.op === Ops.CONST ? opaque(w, s.dtype, x) : unwrap(x)})`;
    text = `bitcast<${type(w, u.dtype)}>(select(${of(u.src[2], b)}, ${of(u.src[1], a)}, ${unwrap(condition)}))`;
  }
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
  const ft = type(w, from), name = `u32_of_${ft.replace(/\W+/g, "_").replace(/_$/, "")}`;
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

const rules: Record<number, CRule> = {
  [Ops.ADD]: arithmetic("+", "|", "wide_add"),
  [Ops.SUB]: arithmetic("-", "!=", "wide_sub"),
  [Ops.MUL]: arithmetic("*", "&", "wide_mul"),
  [Ops.NEG]: (w, u, [a]) => {
    const d = u.dtype;
    if (d.isBool) return a;
    if (isWide(d)) return wideCall(w, "wide_neg", a);
    return wrap(w, d, d.isUnsigned ? `(${splat(w, d, "0u")} - ${a})` : `(-${a})`);
  },
  [Ops.MULACC]: (w, u, src) => {
    const [a, b, c] = operands(w, u, src);
    if (u.dtype.isFloat) return `fma(${unwrap(a)}, ${unwrap(b)}, ${unwrap(c)})`;
    if (isWide(u.dtype)) return wideCall(w, "wide_add", wideCall(w, "wide_mul", a, b), c);
    return wrap(w, u.dtype, `(${a} * ${b} + ${c})`);
  },
  [Ops.FDIV]: (w, u, src) => {
    const [a, b] = operands(w, u, src), by = u.src[1];
    if (by.op !== Ops.CONST || by.value !== 0) return `(${a} / ${b})`;
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
  [Ops.SQRT]: builtin("sqrt"),
  [Ops.TRUNC]: builtin("trunc"),
  [Ops.EXP2]: builtin("exp2"),
  [Ops.LOG2]: builtin("log2"),
  [Ops.SIN]: builtin("sin"),
  [Ops.VECTORIZE]: (w, u, src) => `${type(w, u.dtype)}(${src.map(unwrap).join(", ")})`,
  [Ops.BROADCAST]: (w, u, [a]) => splat(w, u.dtype, unwrap(a)),
  [Ops.EXTRACT]: (_w, u, [a]) => `${a}.${LANES[u.arg as number]}`,
};

// ---- memory ----

/** How a buffer argument or kernel-local memory is declared. */
interface Memory {
  /** The dtype of an element. */
  readonly dtype: DType;
  /** Elements of an entry of the array: lanes of a vector, or the narrow elements of a word. */
  readonly width: number;
  readonly packed: boolean;
  /** Words that threads write parts of. */
  readonly atomic: boolean;
  /** Declared in the module: functions may name it. */
  readonly isGlobal: boolean;
}

const memories = new WeakMap<LinearProgram, Map<UOp, Memory>>();

function baseOf(u: UOp): UOp {
  while (u.op === Ops.AFTER || u.op === Ops.INDEX) u = u.src[0];
  return u;
}

/** Chooses the form of each memory by its accesses. */
function chooseMemories(program: LinearProgram): Map<UOp, Memory> {
  const loads = new Map<UOp, Set<number>>(), stores = new Map<UOp, Set<number>>();
  for (const u of program.uops) {
    if (u.op !== Ops.LOAD && u.op !== Ops.STORE) continue;
    const base = baseOf(u.src[0]), widths = u.op === Ops.LOAD ? loads : stores;
    if (base.op !== Ops.PARAM && base.op !== Ops.LOCAL) continue;
    const set = widths.get(base) ?? new Set();
    widths.set(base, set.add(u.op === Ops.LOAD ? u.dtype.count : u.src[1].dtype.count));
  }
  const out = new Map<UOp, Memory>();
  for (const u of program.uops) {
    if (u.op !== Ops.PARAM && u.op !== Ops.LOCAL) continue;
    const dtype = u.dtype.scalar, isParam = u.op === Ops.PARAM, isGlobal = isParam || isShared(u);
    const written = stores.get(u) ?? new Set<number>();
    if (isParam && isPacked(dtype)) {
      const width = 32 / dtype.bits, atomic = [...written].some((n) => n % width !== 0);
      out.set(u, { dtype, width, packed: true, atomic, isGlobal });
      continue;
    }
    const widest = Math.max(1, ...written, ...loads.get(u) ?? []);
    const alike = [...written].every((n) => n === widest) && (widest === 2 || widest === 4) && !isWide(dtype);
    out.set(u, { dtype, width: alike ? widest : 1, packed: false, atomic: false, isGlobal });
  }
  return out;
}

function isShared(u: UOp): boolean {
  return (u.arg as LocalArg).scope === "shared";
}

function memoryOf(w: CWriter, base: UOp): Memory {
  return memories.get(w.program)!.get(base)!;
}

/** The type of the array that a memory is, `size` elements where it is not as long as its binding. */
function arrayType(w: CWriter, m: Memory, size?: number): string {
  const count = size === undefined ? "" : `, ${Math.ceil(size / m.width)}`;
  if (m.packed) return `array<${m.atomic ? "atomic<u32>" : "u32"}${count}>`;
  return `array<${type(w, m.dtype.vec(m.width))}${count}>`;
}

/** `at` in entries of `width` elements. */
function entry(at: string, width: number): string {
  return width === 1 ? at : `(${at}) >> ${Math.log2(width)}u`;
}

/** The value of a load of `n` elements from packed words: the body of a function of `i`. */
function unpackBody(w: CWriter, m: Memory, name: string, n: number): string {
  const { bits, isUnsigned, isBool } = m.dtype, { width } = m;
  const unsigned = isUnsigned || isBool || m.dtype.isFloat, mask = `${2 ** bits - 1}u`;
  const word = (k: number): string => {
    const at = `${name}[(i >> ${Math.log2(width)}u)${k > 0 ? ` + ${k}` : ""}]`;
    return m.atomic ? `atomicLoad(&${at})` : at;
  };
  if (n % width === 0) {
    const lanes = Array.from({ length: n }, (_, l) => {
      const from = `w${Math.floor(l / width)}`, at = (l % width) * bits;
      return unsigned ? `(${from} >> ${at}u) & ${mask}` : `extractBits(bitcast<i32>(${from}), ${at}u, ${bits}u)`;
    });
    const words = Array.from({ length: n / width }, (_, k) => `let w${k} = ${word(k)};`).join(" ");
    const t = type(w, (unsigned ? dtypes.uint32 : dtypes.int32).vec(n));
    const value = `${t}(${lanes.join(", ")})`;
    return `${words} return ${isBool ? `${value} != ${splat(w, dtypes.uint32.vec(n), "0u")}` : value};`;
  }
  const at = `(u32(i) & ${width - 1}u) << ${Math.log2(bits)}u`;
  const value = unsigned
    ? `(${word(0)} >> (${at})) & ${mask}`
    : `extractBits(bitcast<i32>(${word(0)}), ${at}, ${bits}u)`;
  return `return ${isBool ? `(${value}) != 0u` : value};`;
}

/** The value of a load, in place: `at` may stand several times. */
function directLoad(w: CWriter, m: Memory, n: number, name: string, at: string): string {
  const lane = (l: number): string => {
    const i = l === 0 ? at : `(${at}) + ${l}`;
    return m.width === 1 ? `${name}[${i}]` : `${name}[${entry(i, m.width)}][(${i}) & ${m.width - 1}]`;
  };
  if (n === m.width && n > 1) return `${name}[${entry(at, n)}]`;
  if (n === 1) return lane(0);
  return `${type(w, m.dtype.vec(n))}(${Array.from({ length: n }, (_, l) => lane(l)).join(", ")})`;
}

function load(w: CWriter, u: UOp, { base, name, at }: CAddress): string {
  const m = memoryOf(w, base), n = u.dtype.count;
  const simple = !m.packed && (n === m.width || !m.isGlobal);
  if (simple) return directLoad(w, m, n, name, at);
  const whole = m.packed && n > 1 && n % m.width !== 0;
  const call = `load_${name}${n > 1 && !whole ? `x${n}` : ""}`;
  const body = m.packed ? unpackBody(w, m, name, whole ? 1 : n) : `return ${directLoad(w, m, n, name, "i")};`;
  w.declare(call, `fn ${call}(i: i32) -> ${type(w, whole ? u.dtype.scalar : u.dtype)} { ${body} }`);
  if (!whole) return `${call}(${at})`;
  return `${type(w, u.dtype)}(${Array.from({ length: n }, (_, l) => `${call}((${at}) + ${l})`).join(", ")})`;
}

/** The bits of a narrow scalar as u32, those above its own undefined. */
function bitsOf(d: DType, text: string): string {
  return d.isUnsigned ? text : d.isBool ? `u32(${unwrap(text)})` : `bitcast<u32>(${unwrap(text)})`;
}

function packedStore(w: CWriter, m: Memory, d: DType, text: string, name: string, at: string): string {
  const { bits } = m.dtype, { width } = m, mask = 2 ** bits - 1, n = d.count;
  if (n % width === 0) {
    const lane = (l: number): string => {
      const x = `(${bitsOf(m.dtype, `x.${LANES[l]}`)} & ${mask}u)`;
      return l % width === 0 ? x : `(${x} << ${(l % width) * bits}u)`;
    };
    const words = Array.from({ length: n / width }, (_, k) => {
      const value = Array.from({ length: width }, (_, l) => lane(k * width + l)).join(" | ");
      const to = `${name}[(i >> ${Math.log2(width)}u)${k > 0 ? ` + ${k}` : ""}]`;
      return m.atomic ? `atomicStore(&${to}, ${value});` : `${to} = ${value};`;
    });
    const call = `store_${name}x${n}`;
    w.declare(call, `fn ${call}(i: i32, x: ${type(w, d)}) { ${words.join(" ")} }`);
    return `${call}(${at}, ${unwrap(text)});`;
  }
  const call = `store_${name}`, to = `${name}[i >> ${Math.log2(width)}u]`;
  w.declare(
    call,
    `fn ${call}(i: i32, x: ${type(w, d.scalar)}) { let s = (u32(i) & ${width - 1}u) << ${Math.log2(bits)}u; ` +
      `atomicAnd(&${to}, ~(${mask}u << s)); atomicOr(&${to}, (${bitsOf(m.dtype, "x")} & ${mask}u) << s); }`,
  );
  if (n === 1) return `${call}(${at}, ${unwrap(text)});`;
  const lanes = Array.from({ length: n }, (_, l) => `${call}((${at}) + ${l}, x.${LANES[l]});`).join(" ");
  return `{ let x = ${unwrap(text)}; ${lanes} }`;
}

function store(w: CWriter, value: UOp, text: string, { base, name, at }: CAddress): string {
  const m = memoryOf(w, base), d = value.dtype, n = d.count;
  if (m.packed) return packedStore(w, m, d, text, name, at);
  if (n === m.width) return `${name}[${entry(at, n)}] = ${unwrap(text)};`;
  return `{ let x = ${unwrap(text)}; ${
    Array.from({ length: n }, (_, l) => `${name}[${l === 0 ? at : `(${at}) + ${l}`}] = x.${LANES[l]};`).join(" ")
  } }`;
}

// ---- arguments ----

/** The word of the uniform buffer where each scalar argument begins, and the number of words. */
export function uniformWords(program: LinearProgram): { readonly at: readonly number[]; readonly words: number } {
  let words = 0;
  const at = program.vars.map(({ dtype }) => {
    if (isWide(dtype)) words += words % 2;
    words += isWide(dtype) ? 2 : 1;
    return words - (isWide(dtype) ? 2 : 1);
  });
  return { at, words: Math.ceil(words / 4) * 4 };
}

function argument(w: CWriter, d: DType, word: number): string {
  const at = (k: number): string => `vars[${k >> 2}].${LANES[k & 3]}`;
  if (isWide(d)) return `${WIDE}(${at(word)}, ${at(word + 1)})`;
  if (d.isBool) return `${at(word)} != 0u`;
  if (d.scalar === dtypes.float16) return `f16(bitcast<f32>(${at(word)}))`;
  return d.isUnsigned ? at(word) : `bitcast<${type(w, d)}>(${at(word)})`;
}

function open(w: CWriter, program: LinearProgram): string[] {
  const known = chooseMemories(program);
  memories.set(program, known);
  if (program.uops.some((u) => u.dtype.scalar === dtypes.float16)) w.declare("enable f16", "enable f16;");
  for (const u of program.uops) {
    if (u.op !== Ops.PARAM) continue;
    const { slot } = u.arg as ParamArg, { writes } = program.params[slot];
    w.declare(
      `b${slot}`,
      `@group(0) @binding(${slot}) var<storage, ${writes ? "read_write" : "read"}> b${slot}: ${
        arrayType(w, known.get(u)!)
      };`,
    );
  }
  const { at, words } = uniformWords(program);
  if (words > 0) {
    const binding = program.params.length;
    w.declare("vars", `@group(0) @binding(${binding}) var<uniform> vars: array<vec4<u32>, ${words / 4}>;`);
  }
  const size = program.grid?.size ?? [1, 1, 1];
  return [
    `@compute @workgroup_size(${size.join(", ")})\n` +
    "fn main(@builtin(workgroup_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {",
    ...program.vars.map((v, i) =>
      `let var_${identifier((v.arg as VariableArg).name)}: ${type(w, v.dtype)} = ${argument(w, v.dtype, at[i])};`
    ),
  ];
}

function local(w: CWriter, u: UOp, name: string): string | undefined {
  const { size } = u.arg as LocalArg, text = `${name}: ${arrayType(w, memoryOf(w, u), size * u.dtype.count)};`;
  if (!isShared(u)) return `var ${text}`;
  w.declare(name, `var<workgroup> ${text}`);
}

/** WGSL, with f16 where the device has `shader-f16`. */
export const WGSL_LANGUAGE: CLanguage = {
  name: "WGSL",
  rules,
  type,
  literal,
  load,
  store,
  convert: (_w, _value, text) => text,
  // both sides may be evaluated: a read outside of a buffer gives some value and touches nothing
  choose: (_w, _d, condition, a, b) => `select(${unwrap(b)}, ${unwrap(a)}, ${unwrap(condition)})`,
  open,
  loop(w, u, name, end) {
    if (isWide(u.dtype)) {
      throw new DTypeError("compile a kernel for WEBGPU with a loop over", {
        dtypes: [u.dtype],
        reason: "its indices exceed 32 bits, more than a binding of WebGPU holds",
      });
    }
    return `for (var ${name}: ${type(w, u.dtype)} = 0; ${name} < ${end}; ${name}++)`;
  },
  define: (type, name, text, changes) => `${changes ? "var" : "let"} ${name}: ${type} = ${text};`,
  local,
  special: (_w, u) => `i32(${(u.arg as string)[0]}id.${LANES[Number((u.arg as string)[4])]})`,
  barrier: "workgroupBarrier();",
};
