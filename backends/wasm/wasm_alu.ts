/**
 * Arithmetic: each elementwise UOp on values of WebAssembly. Integers of 8 and 16 bits live in an i32, sign- or
 * zero-extended; bool is 0 or 1 in an i32, or a mask of 0 and −1 in a vector of four. Nothing here traps.
 *
 * @module
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { CompileError } from "../../src/helpers/errors.ts";
import { BITS, FLOATS, isComparison, opFlags, opName, Ops } from "../../src/uop/core/ops.ts";
import { type Builder, prefixOf } from "./build.ts";
import { F32, F64, I32, I64, type Instr, V128, type ValType } from "./encoder.ts";
import type { Node } from "./wasm_ir.ts";

/** The value type that holds a dtype. @throws {CompileError} where none does */
export function valTypeOf(d: DType): ValType {
  const s = d.scalar;
  if (d.count > 1) {
    if (d.count !== 2 && d.count !== 4 || (s.bits !== 32 && !s.isBool)) {
      throw new CompileError(`render ${d}`, { reason: "vectors have 2 or 4 lanes of 32 bits" });
    }
    return V128;
  }
  if (s === dtypes.float32) return F32;
  if (s === dtypes.float64) return F64;
  if (s.isBool || s.isInt) return s.bits === 64 ? I64 : I32;
  throw new CompileError(`render ${d}`, { reason: "the WASM device stores it as integer bits" });
}

/** Wraps an i32 to the range of a narrow integer. */
function wrap(b: Builder, d: DType, x: Node): Node {
  if (d.bits >= 32 || d.isBool) return x;
  if (d.isUnsigned) return b.instr("i32.and", I32, [x, b.i32(d.bits === 8 ? 0xff : 0xffff)]);
  return b.instr(d.bits === 8 ? "i32.extend8_s" : "i32.extend16_s", I32, [x]);
}

/** What the engine lets {@linkcode lowerAlu} use. */
export interface AluOptions {
  readonly relaxed: boolean;
}

/** An op that is one instruction, but for its prefix. */
interface Row {
  readonly name: string;
  /** The instruction on bools, of scalars and of masks. */
  readonly bool?: "and" | "or" | "xor";
  /** Narrow integers leave their range. */
  readonly wraps?: true;
  /** Integers of either sign have one each. */
  readonly signed?: true;
}
const ROWS: Partial<Record<Ops, Row>> = {
  [Ops.ADD]: { name: "add", bool: "or", wraps: true },
  [Ops.SUB]: { name: "sub", bool: "xor", wraps: true },
  [Ops.MUL]: { name: "mul", bool: "and", wraps: true },
  [Ops.MAX]: { name: "max", bool: "or", signed: true },
  [Ops.FDIV]: { name: "div" },
  [Ops.SQRT]: { name: "sqrt" },
  [Ops.TRUNC]: { name: "trunc" },
  [Ops.NEG]: { name: "neg" },
  [Ops.AND]: { name: "and", bool: "and" },
  [Ops.OR]: { name: "or", bool: "or" },
  [Ops.XOR]: { name: "xor", bool: "xor" },
  [Ops.SHL]: { name: "shl", wraps: true },
  [Ops.SHR]: { name: "shr", signed: true },
  [Ops.CMPEQ]: { name: "eq" },
  [Ops.CMPNE]: { name: "ne" },
  [Ops.CMPLT]: { name: "lt", signed: true },
};

/** An op of {@linkcode ROWS} of scalars or vectors of `d`. */
function plain(b: Builder, op: Ops, d: DType, prefix: string, type: ValType, x: readonly Node[]): Node {
  const row = ROWS[op], flags = opFlags[op];
  const wrongKind = (flags & FLOATS) !== 0 && !d.isFloat || (flags & BITS) !== 0 && d.isFloat;
  if (row === undefined || wrongKind) return unknown(op, d);
  const sign = row.signed === undefined || d.isFloat ? "" : `_${signOf(d)}`;
  const made = b.instr(`${prefix}.${row.name}${sign}` as Instr, isComparison(op) && type !== V128 ? I32 : type, x);
  return row.wraps ? wrap(b, d, made) : made;
}

/** The bit pattern of one 32-bit lane of a constant. */
export function laneBits(d: DType, value: number): number {
  if (d.isBool) return value ? -1 : 0;
  if (d.isFloat) return new Int32Array(new Float32Array([value]).buffer)[0];
  return value | 0;
}

/** All lanes of a vector `d` equal to the scalar `x`. */
export function splat(b: Builder, d: DType, x: Node): Node {
  if (x.kind === "const") return b.splatBits(laneBits(d.scalar, Number(x.value)));
  if (d.isFloat) return b.instr("f32x4.splat", V128, [x]);
  return b.instr("i32x4.splat", V128, [d.isBool ? b.instr("i32.sub", I32, [b.i32(0), x]) : x]);
}

/** Lane `i` of a vector `d`, as a scalar. */
export function extract(b: Builder, d: DType, x: Node, i: number): Node {
  if (d.isFloat) return b.instr("f32x4.extract_lane", F32, [x], i);
  const lane = b.instr("i32x4.extract_lane", I32, [x], i);
  return d.isBool ? b.instr("i32.and", I32, [lane, b.i32(1)]) : lane;
}

/** The vector with lane `i` replaced by a scalar. */
function replaceLane(b: Builder, d: DType, vector: Node, x: Node, i: number): Node {
  if (d.isFloat) return b.instr("f32x4.replace_lane", V128, [vector, x], i);
  return b.instr("i32x4.replace_lane", V128, [vector, d.isBool ? b.instr("i32.sub", I32, [b.i32(0), x]) : x], i);
}

/** A vector `d` of these scalars. */
export function vectorize(b: Builder, d: DType, lanes: readonly Node[]): Node {
  const isConverted = lanes.every((n) => n.op === "f32.convert_i32_s" || n.op === "f32.convert_i32_u");
  const words = b.neighbors(isConverted ? lanes.map((n) => n.src[0]) : lanes);
  if (words !== undefined) return isConverted ? b.instr("f32x4.convert_i32x4_s", V128, [words]) : words;
  let out = splat(b, d, lanes[0]);
  for (let i = 1; i < lanes.length; i++) if (lanes[i] !== lanes[0]) out = replaceLane(b, d, out, lanes[i], i);
  return out;
}

/** Words of two vectors of `count` each, those of `y` after those of `x`. */
export function lanes(b: Builder, x: Node, y: Node, count: number, picked: readonly number[]): Node {
  let words = 0; // three bits each: of the eight there are
  for (let i = 0; i < 4; i++) {
    const l = picked[i % picked.length];
    words |= (l < count ? l : 4 + l - count) << (3 * i);
  }
  return b.instr("i8x16.shuffle", V128, [x, y], words);
}

/** The elementwise op `op` from sources of dtypes `from` to `to`. @throws {CompileError} for ops decomposed earlier */
export function lowerAlu(
  b: Builder,
  op: Ops,
  to: DType,
  from: readonly DType[],
  x: readonly Node[],
  o: AluOptions,
): Node {
  if (op === Ops.CAST) return cast(b, from[0], to, x[0]);
  if (op === Ops.BITCAST) return bitcast(b, from[0], to, x[0]);
  return to.count > 1 ? vectorAlu(b, op, to, from, x, o) : scalarAlu(b, op, from, x);
}

function unknown(op: Ops, d: DType): never {
  throw new CompileError(`render ${opName[op]} of ${d}`, { reason: "it must be decomposed before it reaches WASM" });
}

/** Does a condition, or what it negates or joins, compare floats, so that nobody foresees it? Others are of loops, as a rule. */
function isOfFloats(condition: Node): boolean {
  return [condition, ...condition.src].some((n) => n.op.startsWith("f"));
}

/** One of two floats, by their bits: an engine has no conditional move of floats but a branch, which is foreseen or costs much. */
function selectBits(b: Builder, type: ValType, [condition, yes, no]: readonly Node[]): Node {
  const [bits, toBits, back] = type === F32
    ? [I32, "i32.reinterpret_f32", "f32.reinterpret_i32"] as const
    : [I64, "i64.reinterpret_f64", "f64.reinterpret_i64"] as const;
  const [one, other] = [yes, no].map((n) => b.instr(toBits, bits, [n]));
  return b.instr(back, type, [b.instr("select", bits, [one, other, condition])]);
}

function scalarAlu(b: Builder, op: Ops, from: readonly DType[], x: readonly Node[]): Node {
  const d = op === Ops.WHERE ? from[1] : from[0], type = valTypeOf(d), p = prefixOf(type);
  const f = (name: string, ...src: readonly Node[]) => b.instr(`${p}.${name}` as Instr, type, src);
  const { bool } = ROWS[op] ?? {};
  if (d.isBool && bool !== undefined) return f(bool, ...x);
  switch (op) {
    case Ops.NEG:
      if (!d.isFloat) return wrap(b, d, f("sub", b.constant(type, 0), x[0]));
      break;
    case Ops.TRUNC:
      if (!d.isFloat) return x[0];
      break;
    case Ops.MAX:
      if (!d.isFloat) return b.instr("select", type, [x[0], x[1], b.instr(`${p}.gt_${signOf(d)}` as Instr, I32, x)]);
      break;
    case Ops.CDIV:
    case Ops.CMOD:
      return wrap(b, d, divide(b, op, d, type, x[0], x[1]));
    case Ops.FLOORDIV:
    case Ops.FLOORMOD:
      return wrap(b, d, divideFloor(b, op, d, type, x[0], x[1]));
    case Ops.WHERE:
      return d.isFloat && isOfFloats(x[0]) ? selectBits(b, type, x) : b.instr("select", type, [x[1], x[2], x[0]]);
    case Ops.MULACC:
      return wrap(b, d, f("add", f("mul", x[0], x[1]), x[2]));
    case Ops.DOT:
      return [0, 8, 16, 24].reduce((sum, i) => {
        const byte = f("and", f("shr_u", x[0], b.i32(i)), b.i32(255));
        return f("add", sum, f("mul", byte, f("shr_s", f("shl", x[1], b.i32(24 - i)), b.i32(24))));
      }, x[2]);
  }
  return plain(b, op, d, p, type, x);
}

/** What the instructions of an integer end in. */
function signOf(d: DType): "u" | "s" {
  return d.isUnsigned || d.isBool ? "u" : "s";
}

/** Division toward zero, or its remainder. Division by zero gives 0, and the least integer by −1 wraps. */
function divide(b: Builder, op: Ops, d: DType, type: ValType, x: Node, y: Node): Node {
  const p = prefixOf(type), sign = signOf(d);
  const name = `${p}.${op === Ops.CDIV ? "div" : "rem"}_${sign}` as Instr;
  const zero = b.constant(type, 0);
  const divisor = y.kind === "const" ? BigInt(y.value) : undefined;
  if (divisor === 0n) return zero;
  if (divisor === -1n && sign === "s") return op === Ops.CMOD ? zero : b.instr(`${p}.sub` as Instr, type, [zero, x]);
  if (divisor !== undefined) return b.instr(name, type, [x, y]);
  const isZero = b.instr(`${p}.eqz` as Instr, I32, [y]);
  let unsafe = isZero, minusOne: Node | undefined;
  if (sign === "s" && op === Ops.CDIV) {
    minusOne = b.instr(`${p}.eq` as Instr, I32, [y, b.constant(type, -1)]);
    unsafe = b.instr("i32.or", I32, [isZero, minusOne]);
  }
  const safe = b.instr("select", type, [b.constant(type, 1), y, unsafe]);
  let q = b.instr(name, type, [x, safe]);
  if (minusOne !== undefined) {
    q = b.instr("select", type, [b.instr(`${p}.sub` as Instr, type, [zero, x]), q, minusOne]);
  }
  return b.instr("select", type, [zero, q, isZero]);
}

/** Division toward minus infinity, or its remainder: the truncated one, corrected where the signs differ. */
function divideFloor(b: Builder, op: Ops, d: DType, type: ValType, x: Node, y: Node): Node {
  const p = prefixOf(type), isDiv = op === Ops.FLOORDIV, zero = b.constant(type, 0);
  if (d.isUnsigned || d.isBool) return divide(b, isDiv ? Ops.CDIV : Ops.CMOD, d, type, x, y);
  const shift = y.kind === "const" && Number(y.value) > 0 ? Math.log2(Number(y.value)) : -1;
  if (shift >= 0 && Number.isInteger(shift)) {
    const by = isDiv
      ? b.constant(type, shift)
      : b.constant(type, type === I64 ? BigInt(y.value) - 1n : Number(y.value) - 1);
    return b.instr(`${p}.${isDiv ? "shr_s" : "and"}` as Instr, type, [x, by]);
  }
  const rest = divide(b, Ops.CMOD, d, type, x, y);
  const differs = b.instr("i32.and", I32, [
    b.instr(`${p}.ne` as Instr, I32, [rest, zero]),
    b.instr(`${p}.lt_s` as Instr, I32, [b.instr(`${p}.xor` as Instr, type, [rest, y]), zero]),
  ]);
  if (!isDiv) {
    const correction = b.instr("select", type, [y, zero, differs]);
    return b.instr(`${p}.add` as Instr, type, [rest, correction]);
  }
  const correction = b.instr("select", type, [b.constant(type, 1), zero, differs]);
  return b.instr(`${p}.sub` as Instr, type, [divide(b, Ops.CDIV, d, type, x, y), correction]);
}

function vectorAlu(b: Builder, op: Ops, to: DType, from: readonly DType[], x: readonly Node[], o: AluOptions): Node {
  const d = op === Ops.WHERE ? from[1] : from[0];
  valTypeOf(d);
  const v = (name: Instr, ...src: readonly Node[]) => b.instr(name, V128, src);
  const p = d.isFloat ? "f32x4" : "i32x4";
  if (d.isBool && op !== Ops.WHERE) return maskAlu(b, op, x) ?? unknown(op, to);
  switch (op) {
    case Ops.TRUNC:
      if (!d.isFloat) return x[0];
      break;
    case Ops.AND:
    case Ops.OR:
    case Ops.XOR:
      return plain(b, op, d, "v128", V128, x);
    case Ops.WHERE:
      if (from[0].count === 1) return b.instr("select", V128, [x[1], x[2], x[0]]);
      return v(o.relaxed ? "i32x4.relaxed_laneselect" : "v128.bitselect", x[1], x[2], x[0]);
    case Ops.MULACC:
      if (d.isFloat && o.relaxed) return v("f32x4.relaxed_madd", ...x);
      return v(`${p}.add`, v(`${p}.mul`, x[0], x[1]), x[2]);
    case Ops.DOT:
      return dot(b, x);
    case Ops.SHL:
    case Ops.SHR: {
      const uniform = uniformLane(b, x[1]);
      return uniform === undefined ? byLane(b, op, to, from, x) : plain(b, op, d, p, V128, [x[0], uniform]);
    }
    case Ops.CDIV:
    case Ops.CMOD:
    case Ops.FLOORDIV:
    case Ops.FLOORMOD:
      return byLane(b, op, to, from, x);
  }
  return plain(b, op, d, p, V128, x);
}

/** Products of bytes, as pairs of products of 16 bits: those of even bytes, and those of odd ones. */
function dot(b: Builder, [x, y, z]: readonly Node[]): Node {
  const v = (name: Instr, ...src: readonly Node[]) => b.instr(name, V128, src), eight = b.i32(8);
  const even = v(
    "i32x4.dot_i16x8_s",
    v("v128.and", x, b.splatBits(0xff00ff)),
    v("i16x8.shr_s", v("i16x8.shl", y, eight), eight),
  );
  const odd = v("i32x4.dot_i16x8_s", v("i16x8.shr_u", x, eight), v("i16x8.shr_s", y, eight));
  return v("i32x4.add", z, v("i32x4.add", even, odd));
}

/** The scalar that all lanes of a splat hold. */
function uniformLane(b: Builder, x: Node): Node | undefined {
  if (x.op === "v128.const") return b.i32(Number(x.value));
  if (x.op === "v128.load32_splat") return b.instr("i32x4.extract_lane", I32, [x], 0);
  return x.op === "i32x4.splat" ? x.src[0] : undefined;
}

function byLane(b: Builder, op: Ops, to: DType, from: readonly DType[], x: readonly Node[]): Node {
  const lanes: Node[] = [];
  for (let i = 0; i < to.count; i++) {
    const src = x.map((s, k) => extract(b, from[k].scalar, s, i));
    lanes.push(scalarAlu(b, op, from.map((d) => d.scalar), src));
  }
  return vectorize(b, to, lanes);
}

/** Bool vectors are masks. */
function maskAlu(b: Builder, op: Ops, x: readonly Node[]): Node | undefined {
  if (op === Ops.TRUNC) return x[0];
  if (op === Ops.CMPEQ) return b.instr("i32x4.eq", V128, x);
  if (op === Ops.CMPLT) return b.instr("v128.andnot", V128, [x[1], x[0]]);
  const name = op === Ops.CMPNE ? "xor" : ROWS[op]?.bool;
  return name === undefined ? undefined : b.instr(`v128.${name}`, V128, x);
}

function cast(b: Builder, from: DType, to: DType, x: Node): Node {
  if (from === to) return x;
  const f = from.scalar, t = to.scalar;
  if (to.count > 1) return vectorCast(b, f, t, x);
  const source = valTypeOf(f), target = valTypeOf(t), p = prefixOf(source);
  if (t.isBool) {
    if (f.isBool) return x;
    return b.instr(`${p}.ne` as Instr, I32, [x, b.constant(source, 0)]);
  }
  if (!f.isFloat && !t.isFloat) {
    if (target === I64) {
      return source === I64 ? x : b.instr(f.isUnsigned ? "i64.extend_i32_u" : "i64.extend_i32_s", I64, [x]);
    }
    if (source === I64) return wrap(b, t, b.instr("i32.wrap_i64", I32, [x]));
    const keeps = f.isBool || (f.bits < t.bits && (f.isUnsigned || !t.isUnsigned)) || f === t;
    return keeps ? x : wrap(b, t, x);
  }
  if (!f.isFloat) {
    const s = source === I32 && f.bits < 32 ? "s" : signOf(f);
    return b.instr(`${prefixOf(target)}.convert_${p}_${s}` as Instr, target, [x]);
  }
  if (t === dtypes.uint32) return b.instr("i32.wrap_i64", I32, [b.instr(`i64.trunc_sat_${p}_s` as Instr, I64, [x])]);
  if (t === dtypes.uint64) {
    // negative values wrap, as they do where C compiles to a signed conversion
    const negative = b.instr(`${p}.lt` as Instr, I32, [x, b.constant(source, 0)]);
    const signed = b.instr(`i64.trunc_sat_${p}_s` as Instr, I64, [x]);
    return b.instr("select", I64, [signed, b.instr(`i64.trunc_sat_${p}_u` as Instr, I64, [x]), negative]);
  }
  if (!t.isFloat) {
    const s = t.bits < 32 ? "s" : signOf(t);
    return wrap(b, t, b.instr(`${prefixOf(target)}.trunc_sat_${p}_${s}` as Instr, target, [x]));
  }
  if (source === target) return x;
  return target === F32 ? b.instr("f32.demote_f64", F32, [x]) : b.instr("f64.promote_f32", F64, [x]);
}

function vectorCast(b: Builder, f: DType, t: DType, x: Node): Node {
  valTypeOf(f.vec(4));
  valTypeOf(t.vec(4));
  const v = (name: Instr, ...src: readonly Node[]) => b.instr(name, V128, src);
  if (t.isBool) return v(f.isFloat ? "f32x4.ne" : "i32x4.ne", x, b.splatBits(0));
  if (f.isBool) return v("v128.and", x, b.splatBits(laneBits(t, 1)));
  if (f.isFloat) {
    const signed = v("i32x4.trunc_sat_f32x4_s", x);
    if (!t.isUnsigned) return signed;
    return v("v128.bitselect", signed, v("i32x4.trunc_sat_f32x4_u", x), v("f32x4.lt", x, b.splatBits(0)));
  }
  if (t.isFloat) return v(f.isUnsigned ? "f32x4.convert_i32x4_u" : "f32x4.convert_i32x4_s", x);
  return x;
}

function bitcast(b: Builder, from: DType, to: DType, x: Node): Node {
  if (from.count > 1 || to.count > 1) return x;
  const source = valTypeOf(from), target = valTypeOf(to);
  if (source === target) return from === to ? x : wrap(b, to, x);
  if (from.bits !== to.bits) {
    throw new CompileError(`render a bitcast of ${from} to ${to}`, { reason: "their sizes differ" });
  }
  return b.instr(`${prefixOf(target)}.reinterpret_${prefixOf(source)}` as Instr, target, [x]);
}
