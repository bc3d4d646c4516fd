/**
 * ONNX: changes of type, those to floats and integers of few bits included, which are rounded here as the standard says:
 * halves to even, what is too large saturating or not.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { Call } from "../values/node_call.ts";
import { knownValue, type Value, valueOf } from "../values/value.ts";
import { BOOL, E8M0, type ElementType, elementType, type SmallType, STRING, typeName } from "../wire/element_types.ts";

/** 2 to whole powers that are given as int32, of normal float32. */
function exp2Of(exponent: Tensor): Tensor {
  return exponent.add(127).lshift(23).bitcast(dtypes.float32);
}
/** The exponent of each float32: floor(log2 |x|), by its bits; -127 of zero. */
function exponentOf(x: Tensor): Tensor {
  return x.bitcast(dtypes.int32).rshift(23).bitwiseAnd(255).sub(127);
}

/** Float32 rounded to what a small float holds, still as float32. */
function roundSmall(x: Tensor, s: SmallType, saturate: boolean): Tensor {
  const y = x.float(), step = exp2Of(exponentOf(y).maximum(1 - s.bias).sub(s.mantissa));
  const r = y.div(step).round().mul(step), big = r.abs().gt(s.max);
  const limit = y.lt(0).where(-s.max, s.max);
  const beyond = s.beyond === "inf" ? y.lt(0).where(-Infinity, Infinity) : r.fullLike(NaN);
  let out = big.where(saturate || s.beyond === "none" ? limit : beyond, r);
  if (s.beyond !== "none") {
    out = y.isinf().where(saturate ? limit : beyond, out);
    out = y.isnan().where(NaN, out);
  } else out = y.isnan().where(0, out);
  return s.unsignedZero ? out.eq(0).where(0, out) : out;
}

/** Float32 rounded to powers of 2, as E8M0 has them: up, as OCP's scales are, unless told otherwise. */
function roundE8M0(x: Tensor, mode: string, saturate: boolean): Tensor {
  const bits = x.float().abs().bitcast(dtypes.int32), e = bits.rshift(23), m = bits.bitwiseAnd(0x7fffff);
  const half = m.ge(0x400000), more = mode === "up" ? m.gt(0) : mode === "down" ? m.lt(0) : half;
  const up = e.add(more.cast(dtypes.int32)), top = e.ge(255);
  const code = saturate ? up.clamp(0, 254) : up;
  const value = code.le(0).where(2 ** -127, code.clamp(1, 254).lshift(23).bitcast(dtypes.float32));
  return top.logicalOr(code.ge(255)).where(saturate ? x.isnan().where(NaN, 2 ** 127) : NaN, value);
}

/** Numbers wrapped to the low bits of an integer of 2 or 4 bits. */
function wrapInt(x: Tensor, type: ElementType): Tensor {
  const mask = (1 << type.bits) - 1, low = x.cast(dtypes.int32).bitwiseAnd(mask);
  if (type.dtype.isUnsigned) return low.cast(type.dtype);
  const half = 1 << (type.bits - 1);
  return low.ge(half).where(low.sub(mask + 1), low).cast(type.dtype);
}

/** A tensor in another type. */
export function castTensor(x: Tensor, to: ElementType, saturate = true, mode = "up"): Value {
  if (to.code === E8M0) return valueOf(roundE8M0(x, mode, saturate), to.code);
  if (to.small !== undefined) {
    const rounded = roundSmall(x, to.small, saturate);
    return valueOf(rounded.cast(to.dtype), to.code);
  }
  if (to.bits < 8) return valueOf(wrapInt(x.dtype.isFloat ? x.trunc() : x, to), to.code);
  if (to.dtype === dtypes.bool) return valueOf(x.ne(0), to.code);
  return valueOf(x.cast(to.dtype), to.code);
}

/** The text of a number, as NumPy writes it. */
function numberText(x: number, type: ElementType): string {
  if (type.code === BOOL) return x === 0 ? "False" : "True";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x < 0 ? "-INF" : "INF";
  if (!type.dtype.isFloat) return String(x);
  if (type.bits === 64) return Number.isInteger(x) && Math.abs(x) < 1e16 ? `${x}.0` : String(x);
  let text = String(x);
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) {
      text = String(short);
      break;
    }
  }
  if (/e/.test(text)) return text.replace(/e([+-])(\d)$/, "e$10$2");
  return text.includes(".") ? text : `${text}.0`;
}

/** A value in another type; text is read and written on the host. */
export function castTo(c: Call, v: Value, to: number, saturate: boolean): Value {
  const target = elementType(to), mode = c.text("round_mode", "up");
  if (target === undefined) throw c.fail(`it casts to type ${to}, which ONNX does not have`);
  if (v.type === to) return v;
  if (v.isText) {
    const numbers = Array.from(v.data as ArrayLike<string>, (s) => {
      const t = s.trim().toLowerCase(),
        x = /^[+-]?inf(inity)?$/.test(t) ? (t[0] === "-" ? -Infinity : Infinity) : Number(t);
      if (t === "" || Number.isNaN(x) && t !== "nan") throw c.fail(`"${s}" is no ${typeName(to)}`);
      return x;
    });
    const wide = knownValue(target.dtype.isFloat ? 11 : 7, v.shape, numbers);
    return castTensor(wide.tensor(c.device), target, saturate, mode);
  }
  if (to === STRING) {
    const { data } = v, from = elementType(v.type)!;
    if (data === undefined) throw c.fail("numbers become text on the host alone: they must be known there");
    return knownValue(STRING, v.shape, Array.from(data as ArrayLike<number>, (x) => numberText(x, from)));
  }
  return castTensor(v.tensor(c.device), target, saturate, mode);
}
