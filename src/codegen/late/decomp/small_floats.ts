/**
 * Small floats on devices that cannot compute in them: float16, bfloat16 and fp8 values live as float32, rounded after
 * every op that rounds. Where a device can store them, LOAD, STORE and CAST stay; else their buffers are seen as uint16
 * (uint8) and the bits are converted by integer arithmetic (ties to even, NaN, infinities and subnormals right).
 *
 * @module
 */
import { roundFloat } from "../../../dtype/convert.ts";
import { type DType, dtypes, smallFloatOf } from "../../../dtype/dtype.ts";
import type { Capabilities } from "../../../renderer/renderer.ts";
import { argOf } from "../../../uop/core/args.ts";
import { isAlu, isComparison, Ops } from "../../../uop/core/ops.ts";
import { constant, toposort, type UOp, uop } from "../../../uop/core/uop.ts";
import { rebuild } from "../../../uop/rewrite/walk.ts";
import { broadcast, extract, vectorize } from "../../ast/alu_builder.ts";

const { float16, float32, uint8, uint16, uint32 } = dtypes;

/** The bits of a float32 rounded to float16, as uint16. */
function halfBits(x: UOp): UOp {
  const n = x.dtype.count, uint = uint32.vec(n);
  const bits = x.bitcast(uint);
  const sign = bits.shr(16).and(0x8000), abs = bits.and(0x7fffffff);
  const normal = abs.add(0xfff).add(abs.shr(13).and(1)).add(0xc8000000).shr(13); // less 0x38000000, modulo 2^32
  const infinite = normal.lt(0x7c00).where(normal, constant(0x7c00, uint));
  const small = abs.bitcast(x.dtype).add(0.5).bitcast(uint).add(0xc1000000); // the sum rounds to subnormal steps
  const finite = abs.lt(0x38800000).where(small, infinite);
  const any = constant(0x7f800000, uint).lt(abs).where(constant(0x7e00, uint), finite);
  return any.or(sign).cast(uint16.vec(n));
}

/**
 * The bits of the float32 value of a small float's exponent and mantissa, which `shifted` has where a float32 has its own.
 * A product moves the exponent, of subnormals too: they are subnormal float32. Where a device flushes those to zero, they
 * are numbers from the smallest normal one on, less that.
 */
function rebias(shifted: UOp, bias: number, flushes: boolean): UOp {
  const uint = shifted.dtype, float = float32.vec(uint.count);
  if (!flushes) return shifted.bitcast(float).mul(2 ** (127 - bias)).bitcast(uint);
  const least = (128 - bias) << 23;
  const subnormal = shifted.add(least).bitcast(float).add(-(2 ** (1 - bias))).bitcast(uint);
  return shifted.lt(constant(1 << 23, uint)).where(subnormal, shifted.add((127 - bias) << 23));
}

/** The float32 value of float16 bits. `flushes`: the device may take subnormal float32 as zero. */
function halfValue(bits: UOp, flushes: boolean = false): UOp {
  const n = bits.dtype.count, uint = uint32.vec(n), float = float32.vec(n);
  const h = bits.cast(uint);
  const shifted = h.and(0x7fff).shl(13);
  const finite = rebias(shifted, 15, flushes);
  const any = h.and(0x7c00).eq(0x7c00).where(shifted.or(0x7f800000), finite);
  return any.or(h.and(0x8000).shl(16)).bitcast(float);
}

/** The bits of a float32 rounded to bfloat16, as uint16. */
function bfloatBits(x: UOp): UOp {
  const n = x.dtype.count;
  const bits = x.bitcast(uint32.vec(n));
  const rounded = bits.add(0x7fff).add(bits.shr(16).and(1)).shr(16);
  return x.ne(x).where(bits.shr(16).or(0x40), rounded).cast(uint16.vec(n));
}

/** The float32 value of bfloat16 bits. */
function bfloatValue(bits: UOp): UOp {
  const n = bits.dtype.count;
  return bits.cast(uint32.vec(n)).shl(16).bitcast(float32.vec(n));
}

/** The bits of a float32 rounded to fp8, as uint8; what is too large is the largest value. */
function fp8Bits(x: UOp, d: DType): UOp {
  const n = x.dtype.count, uint = uint32.vec(n), { mantissa, bias, hasInfinity } = smallFloatOf(d)!;
  const infinity = 0x80 - (1 << mantissa), most = hasInfinity ? infinity - 1 : 0x7e, drop = 23 - mantissa;
  const bits = x.bitcast(uint), sign = bits.shr(24).and(0x80), abs = bits.and(0x7fffffff);
  const rounded = abs.add((1 << (drop - 1)) - 1).add(abs.shr(drop).and(1)).shr(drop);
  const normal = rounded.add(constant(2 ** 32 - ((127 - bias) << mantissa), uint));
  const finite = constant(most, uint).lt(normal).where(constant(most, uint), normal);
  // adding a power of two rounds to subnormal steps
  const exponent = 127 + 24 - bias - mantissa, magic = 2 ** (exponent - 127);
  const small = abs.bitcast(x.dtype).add(magic).bitcast(uint).add(constant(2 ** 32 - exponent * 2 ** 23, uint));
  const value = abs.lt(constant((128 - bias) << 23, uint)).where(small, finite);
  const limited = hasInfinity ? abs.eq(constant(0x7f800000, uint)).where(constant(infinity, uint), value) : value;
  return constant(0x7f800000, uint).lt(abs).where(constant(0x7f, uint), limited.or(sign)).cast(uint8.vec(n));
}

/** The float32 value of fp8 bits. `flushes`: the device may take subnormal float32 as zero. */
function fp8Value(bits: UOp, d: DType, flushes: boolean = false): UOp {
  const uint = uint32.vec(bits.dtype.count), float = float32.vec(bits.dtype.count);
  const { mantissa, bias, hasInfinity } = smallFloatOf(d)!, infinity = 0x80 - (1 << mantissa);
  const h = bits.cast(uint), abs = h.and(0x7f), shifted = abs.shl(23 - mantissa);
  const finite = rebias(shifted, bias, flushes);
  const any = hasInfinity
    ? h.and(infinity).eq(infinity).where(shifted.or(0x7f800000), finite)
    : abs.eq(0x7f).where(constant(0x7fc00000, uint), finite);
  return any.or(h.and(0x80).shl(24)).bitcast(float);
}

/**
 * `x` as a float32 that is rounded to odd where it must be: cut, with the last bit set if anything was cut off. What is
 * rounded to a small float after is rounded as if from `x` (Boldo and Melquiond, IEEE Trans. Computers 57, 2008).
 */
function oddFloat(x: UOp): UOp {
  const { dtype } = x, n = dtype.count, float = float32.vec(n), uint = uint32.vec(n);
  if (dtype.isBool || (dtype.isFloat ? dtype.bits <= 32 : dtype.bits < 32)) return x.cast(float);
  if (dtype.isFloat) {
    const near = x.cast(float), back = near.cast(dtype), bits = near.bitcast(uint);
    const beyond = x.lt(0).where(back.lt(x).cast(uint), x.lt(back).cast(uint));
    const isCut = back.ne(x).and(x.eq(x));
    return isCut.where(bits.add(beyond.mul(2 ** 32 - 1)).or(1), bits).bitcast(float);
  }
  const unsigned = (dtype.bits === 64 ? dtypes.uint64 : uint32).vec(n), isSigned = !dtype.isUnsigned;
  const size = isSigned ? x.lt(0).where(x.mul(-1), x).cast(unsigned) : x;
  // as many bits are shifted out as leave 24, which float32 holds; small floats need 13 of them
  let shift = constant(0, unsigned), unit = constant(1, float);
  for (const [from, by] of dtype.bits === 64 ? [[24, 10], [34, 20], [44, 30], [54, 40]] : [[24, 8]]) {
    const isLarge = size.lt(constant(2 ** from, unsigned)).ne(constant(1, dtypes.bool.vec(n)));
    shift = isLarge.where(constant(by, unsigned), shift);
    unit = isLarge.where(constant(2 ** by, float), unit);
  }
  const top = size.shr(shift), lost = top.shl(shift).ne(size).cast(unsigned);
  const value = top.or(lost).cast(dtypes.int32.vec(n)).cast(float).mul(unit);
  return isSigned ? x.lt(0).where(value.mul(-1), value) : value;
}

function bitsOf(d: DType, x: UOp): UOp {
  return d.bits === 8 ? fp8Bits(x, d) : d.scalar === float16 ? halfBits(x) : bfloatBits(x);
}
function valueOf(d: DType, bits: UOp, flushes: boolean): UOp {
  return d.bits === 8
    ? fp8Value(bits, d, flushes)
    : d.scalar === float16
    ? halfValue(bits, flushes)
    : bfloatValue(bits);
}
/** The integers that hold the bits of `d`. */
function bitType(d: DType): DType {
  return (d.bits === 8 ? uint8 : uint16).vec(d.count);
}

/** Ops whose result needs no rounding when the operands are of the small dtype. */
function isExact(op: Ops): boolean {
  return op === Ops.WHERE || op === Ops.MAX || op === Ops.NEG || op === Ops.TRUNC || isComparison(op);
}

class SmallFloats {
  private readonly flushes: boolean;
  constructor(private readonly caps: Capabilities) {
    this.flushes = caps.flushesSubnormals ?? false;
  }

  isSmall(d: DType): boolean {
    return smallFloatOf(d) !== undefined && !this.caps.computeDTypes.includes(d.scalar);
  }
  private isStored(d: DType): boolean {
    return this.caps.storageDTypes.includes(d.scalar);
  }

  /** The float32 `x` rounded to `d`, as float32. */
  private round(x: UOp, d: DType): UOp {
    if (this.isStored(d)) return x.cast(d).cast(x.dtype);
    return valueOf(d, bitsOf(d, x), this.flushes);
  }

  /** What `u` becomes; values of small dtypes become float32. */
  private build(u: UOp, src: readonly UOp[]): UOp {
    const { dtype } = u;
    const small = this.isSmall(dtype), wide = small ? float32.vec(dtype.count) : dtype;
    switch (u.op) {
      case Ops.CONST:
        return small ? constant(roundFloat(dtype.scalar, u.value), wide) : u;
      case Ops.PARAM:
      case Ops.LOCAL:
        return small && !this.isStored(dtype) ? uop(u.op, bitType(dtype.scalar), [], u.arg) : u;
      case Ops.VARIABLE: // an argument that a constant became: rounded already, so float32 has its value
        return small ? uop(u.op, float32, [], u.arg) : u;
      case Ops.INDEX:
      case Ops.AFTER:
        return uop(u.op, src[0].dtype, src, u.arg);
      case Ops.LOAD: {
        if (!small || u.src[0].op === Ops.ACC) return uop(u.op, wide, src, u.arg);
        const stored = this.isStored(dtype);
        const bits = uop(Ops.LOAD, stored ? dtype : bitType(dtype), [src[0]]);
        const value = stored ? bits.cast(wide) : valueOf(dtype, bits, this.flushes);
        if (src.length === 1) return value;
        return broadcast(src[0].src[2], dtype.count).where(value, src[1]);
      }
      case Ops.STORE: {
        const d = u.src[1].dtype;
        if (!this.isSmall(d) || u.src[0].op === Ops.ACC) return u.withSrc(src);
        return u.withSrc([src[0], this.isStored(d) ? narrow(src[1], d) : bitsOf(d, src[1])]);
      }
      case Ops.LDMATRIX:
        return small ? uop(u.op, dtype, src, u.arg).cast(wide) : u.withSrc(src);
      case Ops.WMMA:
        // matrix units take small dtypes as they are
        return u.withSrc(src.map((x, i) => {
          const { op, dtype } = u.src[i];
          return op !== Ops.INDEX && this.isSmall(dtype) ? narrow(x, dtype) : x;
        }));
      case Ops.CAST: {
        const from = u.src[0].dtype;
        if (small) return from === dtype ? src[0] : this.round(oddFloat(src[0]), dtype);
        return this.isSmall(from) && dtype.scalar === float32 ? src[0] : src[0].cast(dtype);
      }
      case Ops.BITCAST: {
        const from = u.src[0].dtype;
        if (!small && !this.isSmall(from)) return u.withSrc(src);
        const bits = this.isSmall(from) ? bitsOf(from, src[0]) : src[0];
        return small ? valueOf(dtype, bits.bitcast(bitType(dtype)), this.flushes) : bits.bitcast(dtype);
      }
    }
    if (!small) return u.withSrc(src);
    const value = uop(u.op, wide, src, u.arg);
    return isAlu(u.op) && !isExact(u.op) ? this.round(value, dtype) : value;
  }

  isIn(nodes: readonly UOp[]): boolean {
    let last: DType = dtypes.void; // neighbors mostly have the same
    return nodes.some(({ dtype }) => dtype !== last && this.isSmall(last = dtype));
  }

  run(sink: UOp): UOp {
    return this.isIn(toposort(sink)) ? rebuild(sink, (u, src) => this.build(u, src)) : sink;
  }
}

/** `x` as `d`; what was just widened from it is taken as it was. */
function narrow(x: UOp, d: DType): UOp {
  if (x.op === Ops.CAST && x.src[0].dtype === d) return x.src[0];
  if (x.op === Ops.VECTORIZE) return vectorize(x.src.map((s) => narrow(s, d.scalar)));
  if (x.op === Ops.EXTRACT) {
    const [from] = x.src, whole = narrow(from, d.vec(from.dtype.count));
    if (whole.op !== Ops.CAST || whole === from.src[0]) return extract(whole, argOf(x, Ops.EXTRACT));
  }
  return x.cast(d);
}

/** Has a kernel values of dtypes that {@linkcode decomposeDTypes} replaces? Its AST tells as well as what it is expanded to. */
export function hasSmallFloats(ast: UOp, caps: Capabilities): boolean {
  return new SmallFloats(caps).isIn(toposort(ast));
}

/** Computes float16, bfloat16 and fp8 in float32 where the device cannot compute in them. */
export function decomposeDTypes(sink: UOp, caps: Capabilities): UOp {
  return new SmallFloats(caps).run(sink);
}
