/**
 * Instructions of scalar arithmetic: in go an op and its operands, out comes the register of its value. Rounding is
 * always named, so that the assembler fuses nothing that the program does not.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { BITS, isComparison, opFlags, opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { ROUNDED } from "../lanes.ts";
import { classOf, type Emitter, literalOf, typeOf } from "./ptx_emitter.ts";

const { float16, bfloat16, float32 } = dtypes;

function isSmallFloat(d: DType): boolean {
  return d === float16 || d === bfloat16;
}

/** `x` in a register: most conversions and stores take no constant. */
export function inRegister(e: Emitter, d: DType, x: string): string {
  if (x.startsWith("%")) return x;
  const c = classOf(d);
  return e.once(`${c} ${x}`, () => [e.op(c, `mov.${c}`, x)])[0];
}

/** An integer register of the value of a bool. */
export function boolBits(e: Emitter, p: string): string {
  return p.startsWith("%") ? e.op("b32", "selp.b32", "1", "0", p) : p;
}

/** Keeps the low bits of an integer narrower than its register, extended by its sign. */
function extend(e: Emitter, d: DType, r: string): string {
  if (d.bits >= 32 || d.isBool || d.isFloat) return r;
  if (d.isUnsigned) return e.op("b32", "and.b32", r, d.bits === 8 ? "255" : "65535");
  return e.op("b32", `cvt.s32.s${d.bits}`, r);
}

/** A 16-bit float as float32. */
function widen(e: Emitter, d: DType, x: string): string {
  const h = inRegister(e, d, x);
  if (d === float16) return e.op("f32", "cvt.f32.f16", h);
  const zero = e.once("b16 0", () => [e.op("b16", "mov.b16", "0")])[0];
  return e.op("f32", "mov.b32", `{${zero}, ${h}}`);
}

/** A float32 rounded to a 16-bit float. */
function narrow(e: Emitter, d: DType, x: string): string {
  const r = inRegister(e, float32, x);
  if (d === float16) return e.op("b16", "cvt.rn.f16.f32", r);
  if (e.arch >= 80) return e.op("b16", "cvt.rn.bf16.f32", r);
  const bits = e.op("b32", "mov.b32", r), odd = e.op("b32", "bfe.u32", bits, "16", "1");
  const up = e.op("b32", "add.s32", e.op("b32", "add.s32", bits, odd), "32767");
  const quiet = e.op("b32", "or.b32", bits, "0x400000");
  const all = e.op("b32", "selp.b32", quiet, up, e.op("pred", "setp.nan.f32", r, r));
  const [, high] = halves(e, all);
  return high;
}

/** A float32 rounded to bfloat16, as float32. */
function round(e: Emitter, x: string): string {
  if (e.arch < 80) return widen(e, bfloat16, narrow(e, bfloat16, x));
  // one instruction for pairs, without the slow conversion unit
  const pair = e.op("b32", "cvt.rn.bf16x2.f32", inRegister(e, float32, x), literalOf(float32, 0));
  return e.op("f32", "mov.b32", pair);
}

/** The two 16-bit halves of a word. */
export function halves(e: Emitter, word: string): readonly string[] {
  return e.once(`halves ${word}`, () => {
    const low = e.register("b16"), high = e.register("b16");
    e.line(`mov.b32 {${low}, ${high}}, ${word}`);
    return [low, high];
  });
}

function cast(e: Emitter, to: DType, from: DType, x: string): string {
  if (to === from) return x;
  if (isSmallFloat(to)) return narrow(e, to, cast(e, float32, from, x));
  if (isSmallFloat(from)) return cast(e, to, float32, widen(e, from, x));
  if (from.isBool) {
    const one = to.isFloat ? literalOf(to, 1) : "1", zero = to.isFloat ? literalOf(to, 0) : "0";
    return e.op(classOf(to), `selp.${classOf(to)}`, one, zero, inRegister(e, from, x));
  }
  if (to.isBool) return e.op("pred", `setp.${from.isFloat ? "neu" : "ne"}.${typeOf(from)}`, x, literalOf(from, 0));
  const r = inRegister(e, from, x), s = typeOf(from), t = typeOf(to), c = classOf(to);
  if (from.isFloat) {
    if (to.isFloat) return e.op(c, to.bits < from.bits ? `cvt.rn.${t}.${s}` : `cvt.${t}.${s}`, r);
    if (to.bits < 32) return extend(e, to, e.op("b32", `cvt.rzi.s32.${s}`, r));
    if (!to.isUnsigned) return e.op(c, `cvt.rzi.${t}.${s}`, r);
    const wide = e.op("b64", `cvt.rzi.s64.${s}`, r); // what is negative wraps
    if (to.bits === 32) return e.op("b32", "cvt.u32.u64", wide);
    const negative = e.op("pred", `setp.lt.${s}`, r, literalOf(from, 0));
    return e.op("b64", "selp.b64", wide, e.op("b64", `cvt.rzi.u64.${s}`, r), negative);
  }
  if (to.isFloat) return e.op(c, `cvt.rn.${t}.${s}`, r);
  if (to.bits === 64) return from.bits === 64 ? r : e.op("b64", `cvt.${s[0]}64.${s}`, r);
  const low = from.bits === 64 ? e.op("b32", "cvt.u32.u64", r) : r;
  const fits = from.bits < to.bits && (from.isUnsigned || !to.isUnsigned);
  return fits ? low : extend(e, to, low);
}

function bitcast(e: Emitter, to: DType, from: DType, x: string): string {
  const a = classOf(from), b = classOf(to);
  if (to === from) return x;
  if (from.isBool) return boolBits(e, x);
  if (to.isBool) return cast(e, to, from, x);
  const r = inRegister(e, from, x);
  if (a === b) return isSmallFloat(to) ? r : extend(e, to, r);
  if (a === "b16") return e.op("b32", to.isUnsigned ? "cvt.u32.u16" : "cvt.s32.s16", r);
  return b === "b16" ? e.op("b16", "cvt.u16.u32", r) : e.op(b, `mov.b${to.bits}`, r);
}

/** Ops of bools. */
function logical(e: Emitter, op: Ops, [x, y, z]: readonly string[]): string {
  const [a, b, c] = [x, y, z].map((v) => v === undefined ? v : inRegister(e, dtypes.bool, v));
  const p = (head: string, ...operands: string[]): string => e.op("pred", head, ...operands);
  switch (op) {
    case Ops.AND:
    case Ops.MUL:
      return p("and.pred", a, b);
    case Ops.OR:
    case Ops.ADD:
    case Ops.MAX:
      return p("or.pred", a, b);
    case Ops.XOR:
    case Ops.SUB:
    case Ops.CMPNE:
      return p("xor.pred", a, b);
    case Ops.CMPEQ:
      return p("not.pred", p("xor.pred", a, b));
    case Ops.CMPLT:
      return p("and.pred", p("not.pred", a), b);
    case Ops.NEG:
    case Ops.TRUNC:
      return a;
    case Ops.WHERE:
      return p("or.pred", p("and.pred", a, b), p("and.pred", p("not.pred", a), c));
  }
  throw new SpecError(`PTX has no ${opName[op]} of bools`);
}

function maximum(e: Emitter, d: DType, a: string, b: string): string {
  if (!d.isFloat) return e.op(classOf(d), `max.${typeOf(d)}`, a, b);
  if (d === float32 && e.arch >= 80) return e.op("f32", "max.NaN.f32", a, b);
  const t = typeOf(d), larger = e.op(classOf(d), `selp.${t}`, a, b, e.op("pred", `setp.gt.${t}`, a, b));
  return e.op(classOf(d), `selp.${t}`, a, larger, e.op("pred", `setp.nan.${t}`, a, a));
}

function shift(e: Emitter, u: UOp, a: string, b: string): string {
  const d = u.dtype, by = u.src[1], c = classOf(d);
  let n = b;
  if (by.op !== Ops.CONST || by.value < 0 || by.value >= d.bits) {
    if (by.dtype.bits === 64) n = e.op("b32", "cvt.u32.u64", inRegister(e, by.dtype, b));
    n = e.op("b32", "and.b32", n, `${d.bits - 1}`);
  }
  if (u.op === Ops.SHR) return e.op(c, `shr.${typeOf(d)}`, a, n);
  return extend(e, d, e.op(c, `shl.${c}`, a, n));
}

/** Ops that are one instruction: its name on floats and on integers, "" where there is none. */
const ROWS: Partial<Record<Ops, readonly [float: string, integer: string]>> = {
  [Ops.ADD]: ["add.rn", "add"],
  [Ops.SUB]: ["sub.rn", "sub"],
  [Ops.MUL]: ["mul.rn", "mul.lo"],
  [Ops.MULACC]: ["fma.rn", "mad.lo"],
  [Ops.FDIV]: ["div.rn", ""],
  [Ops.SQRT]: ["sqrt.rn", ""],
  [Ops.NEG]: ["neg", ""],
  [Ops.CDIV]: ["", "div"],
  [Ops.FLOORDIV]: ["", "div"], // of unsigned integers only
  [Ops.CMOD]: ["", "rem"],
  [Ops.FLOORMOD]: ["", "rem"],
  [Ops.AND]: ["", "and"],
  [Ops.OR]: ["", "or"],
  [Ops.XOR]: ["", "xor"],
  [Ops.CMPLT]: ["lt", "lt"],
  [Ops.CMPNE]: ["neu", "ne"],
  [Ops.CMPEQ]: ["eq", "eq"],
};

/** Arithmetic in `d`, which is what `u` computes in. */
function compute(e: Emitter, u: UOp, d: DType, src: readonly string[]): string {
  const t = typeOf(d), c = classOf(d), [a, b] = src;
  const name = ROWS[u.op]?.[d.isFloat ? 0 : 1];
  if (isComparison(u.op)) return e.op("pred", `setp.${name}.${t}`, a, b);
  if (u.op === Ops.MAX) return maximum(e, d, a, b);
  if (u.op === Ops.EXP2 && u.arg !== undefined && d === float32) {
    return e.op(c, `ex2.approx${u.arg === "flush" ? ".ftz" : ""}.f32`, a);
  }
  if (u.op === Ops.FDIV && u.arg === "reciprocal" && d === float32) {
    return e.op(c, "mul.rn.f32", e.op(c, "rcp.approx.ftz.f32", b), a);
  }
  if (u.op === Ops.FDIV && u.arg === "rounded" && d === float32) {
    // divisors from 1 on: a quarter has a reciprocal that is no subnormal
    const quarter = literalOf(float32, 0.25), [x, y] = src.map((s) => e.op(c, "mul.rn.f32", s, quarter));
    return e.op(c, "mul.rn.f32", x, e.op(c, "rcp.approx.ftz.f32", y));
  }
  if (name && opFlags[u.op] & BITS) return e.op(c, `${name}.${c}`, a, b);
  if (name) return extend(e, d, e.op(c, `${name}.${t}`, ...src));
  if (u.op === Ops.NEG && !d.isFloat) return extend(e, d, e.op(c, `neg.s${Math.max(32, d.bits)}`, a));
  if (u.op === Ops.TRUNC) return d.isFloat ? e.op(c, `cvt.rzi.${t}.${t}`, inRegister(e, d, a)) : a;
  if (u.op === Ops.SHL || u.op === Ops.SHR) return shift(e, u, a, b);
  throw new SpecError(`PTX cannot write ${opName[u.op]} of ${d}`);
}

/** Writes a scalar op of operands `src` (registers or constants) and gives its register. */
export function writeAlu(e: Emitter, u: UOp, src: readonly string[]): string {
  const d = u.dtype, s = u.src[0].dtype;
  if (u.op === Ops.CAST) return u.arg === ROUNDED ? round(e, src[0]) : cast(e, d, s, src[0]);
  if (u.op === Ops.BITCAST) return bitcast(e, d, s, src[0]);
  if (d.isBool && (s.isBool || !isComparison(u.op))) return logical(e, u.op, src);
  if (u.op === Ops.WHERE) {
    const [c, a, b] = src, type = classOf(d) === "b16" ? "b16" : classOf(d);
    return e.op(classOf(d), `selp.${type}`, a, b, inRegister(e, dtypes.bool, c));
  }
  if (!isSmallFloat(s)) return compute(e, u, s, src);
  const value = compute(e, u, float32, src.map((x) => widen(e, s, x)));
  return d.isBool ? value : narrow(e, d, value);
}
