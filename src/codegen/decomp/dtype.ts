/**
 * Small floats on devices that cannot compute in them: float16 and bfloat16 values live as float32, rounded after every
 * op that rounds. Where a device can store them, LOAD, STORE and CAST stay; else their buffers are seen as uint16 and
 * the bits are converted by integer arithmetic (ties to even, NaN, infinities and subnormals right).
 *
 * @module
 */
import { roundFloat } from "../../dtype/convert.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { isAlu, isComparison, Ops } from "../../uop/ops.ts";
import { constant, toposort, type UOp, uop } from "../../uop/uop.ts";
import { broadcast } from "../fold.ts";

const { float16, bfloat16, float32, uint16, uint32 } = dtypes;

/** The bits of a float32 rounded to float16, as uint16. */
export function halfBits(x: UOp): UOp {
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

/** The float32 value of float16 bits. */
export function halfValue(bits: UOp): UOp {
  const n = bits.dtype.count, uint = uint32.vec(n), float = float32.vec(n);
  const h = bits.cast(uint);
  const shifted = h.and(0x7fff).shl(13);
  const finite = shifted.bitcast(float).mul(2 ** 112).bitcast(uint);
  const any = h.and(0x7c00).eq(0x7c00).where(shifted.or(0x7f800000), finite);
  return any.or(h.and(0x8000).shl(16)).bitcast(float);
}

/** The bits of a float32 rounded to bfloat16, as uint16. */
export function bfloatBits(x: UOp): UOp {
  const n = x.dtype.count;
  const bits = x.bitcast(uint32.vec(n));
  const rounded = bits.add(0x7fff).add(bits.shr(16).and(1)).shr(16);
  return x.ne(x).where(bits.shr(16).or(0x40), rounded).cast(uint16.vec(n));
}

/** The float32 value of bfloat16 bits. */
export function bfloatValue(bits: UOp): UOp {
  const n = bits.dtype.count;
  return bits.cast(uint32.vec(n)).shl(16).bitcast(float32.vec(n));
}

function bitsOf(d: DType, x: UOp): UOp {
  return d.scalar === float16 ? halfBits(x) : bfloatBits(x);
}
function valueOf(d: DType, bits: UOp): UOp {
  return d.scalar === float16 ? halfValue(bits) : bfloatValue(bits);
}

/** Ops whose result needs no rounding when the operands are of the small dtype. */
function isExact(op: Ops): boolean {
  return op === Ops.WHERE || op === Ops.MAX || op === Ops.NEG || op === Ops.TRUNC || isComparison(op);
}

class SmallFloats {
  private readonly memo = new Map<UOp, UOp>();
  constructor(private readonly caps: Capabilities) {}

  isSmall(d: DType): boolean {
    const s = d.scalar;
    return (s === float16 || s === bfloat16) && !this.caps.computeDTypes.includes(s);
  }
  private isStored(d: DType): boolean {
    return this.caps.storageDTypes.includes(d.scalar);
  }

  /** The float32 `x` rounded to `d`, as float32. */
  private round(x: UOp, d: DType): UOp {
    if (this.isStored(d)) return x.cast(d).cast(x.dtype);
    return valueOf(d, bitsOf(d, x));
  }

  /** What `u` becomes; values of small dtypes become float32. */
  private build(u: UOp): UOp {
    const { dtype } = u;
    const src = u.src.map((s) => this.memo.get(s)!);
    const small = this.isSmall(dtype), wide = small ? float32.vec(dtype.count) : dtype;
    switch (u.op) {
      case Ops.CONST:
        return small ? constant(roundFloat(dtype.scalar, u.value), wide) : u;
      case Ops.PARAM:
      case Ops.LOCAL:
        return small && !this.isStored(dtype) ? uop(u.op, uint16, [], u.arg) : u;
      case Ops.VARIABLE:
        return small && this.isStored(dtype) ? u.cast(float32) : u;
      case Ops.INDEX:
      case Ops.AFTER:
        return uop(u.op, src[0].dtype, src, u.arg);
      case Ops.LOAD: {
        if (!small || u.src[0].op === Ops.ACC) return uop(u.op, wide, src, u.arg);
        const stored = this.isStored(dtype);
        const bits = uop(Ops.LOAD, stored ? dtype : uint16.vec(dtype.count), [src[0]]);
        const value = stored ? bits.cast(wide) : valueOf(dtype, bits);
        if (src.length === 1) return value;
        return broadcast(src[0].src[2], dtype.count).where(value, src[1]);
      }
      case Ops.STORE: {
        const d = u.src[1].dtype;
        if (!this.isSmall(d) || u.src[0].op === Ops.ACC) return u.withSrc(src);
        return u.withSrc([src[0], this.isStored(d) ? narrow(src[1], d) : bitsOf(d, src[1])]);
      }
      case Ops.CAST: {
        const from = u.src[0].dtype;
        if (small) return from === dtype ? src[0] : this.round(src[0].cast(wide), dtype);
        return this.isSmall(from) && dtype.scalar === float32 ? src[0] : src[0].cast(dtype);
      }
      case Ops.BITCAST: {
        const from = u.src[0].dtype;
        if (small) return valueOf(dtype, src[0].bitcast(uint16.vec(dtype.count)));
        return this.isSmall(from) ? bitsOf(from, src[0]).bitcast(dtype) : u.withSrc(src);
      }
    }
    if (!small) return u.withSrc(src);
    const value = uop(u.op, wide, src, u.arg);
    return isAlu(u.op) && !isExact(u.op) ? this.round(value, dtype) : value;
  }

  run(sink: UOp): UOp {
    const nodes = toposort(sink);
    if (!nodes.some((u) => this.isSmall(u.dtype))) return sink;
    for (const u of nodes) this.memo.set(u, this.build(u));
    return this.memo.get(sink)!;
  }
}

/** `x` as `d`; what was just widened from it is taken as it was. */
function narrow(x: UOp, d: DType): UOp {
  return x.op === Ops.CAST && x.src[0].dtype === d ? x.src[0] : x.cast(d);
}

/** Computes float16 and bfloat16 in float32 where the device cannot compute in them. */
export function decomposeDTypes(sink: UOp, caps: Capabilities): UOp {
  return new SmallFloats(caps).run(sink);
}
