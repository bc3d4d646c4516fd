/**
 * Carriers: what a kernel-level REDUCE accumulates. A carrier is a tuple of lanes with an identity and an associative
 * combine; a plain sum is the carrier of one lane. The same combine serves loops, vector lanes, threads, groups and splits.
 *
 * @module
 */
import { type DType, dtypeMin, dtypes } from "../../dtype/dtype.ts";
import { mix } from "../../helpers/hash.ts";
import type { Arg, ArgRecord } from "./args.ts";
import { Ops } from "./ops.ts";
import { constant, type UOp, uop } from "./uop.ts";

/** Builds the combined lanes from the lanes of two partial results (left before right in index order). */
export type Combine = (left: readonly UOp[], right: readonly UOp[]) => UOp[];
/** Builds the combined lanes from those of several partial results at once. */
export type Join = (parts: readonly (readonly UOp[])[]) => UOp[];

/** The arg of a kernel-level REDUCE. `key` names the combine: two carriers are the same when key and dtypes are. */
export class CarrierArg implements ArgRecord {
  readonly hash: number;

  /**
   * @param key names the carrier, e.g. "ADD" or "MAX,ADD"
   * @param dtypes one a lane
   * @param identity one constant value a lane
   * @param combine must be a function of its operands alone
   * @param join the same for several, where that is cheaper than combining one after the other
   */
  constructor(
    readonly key: string,
    readonly dtypes: readonly DType[],
    readonly identity: readonly number[],
    readonly combine: Combine,
    readonly join: Join | undefined = undefined,
  ) {
    let h = 0x27d4eb2f;
    for (let i = 0; i < key.length; i++) h = mix(h, key.charCodeAt(i));
    for (const d of dtypes) h = mix(h, d.id);
    this.hash = h;
  }

  /** Number of lanes; the first that many sources of the REDUCE are the lifted values, the rest are ranges. */
  get lanes(): number {
    return this.dtypes.length;
  }
  same(o: ArgRecord): boolean {
    return o instanceof CarrierArg && o.key === this.key && o.dtypes.length === this.dtypes.length &&
      o.dtypes.every((d, i) => d === this.dtypes[i]);
  }
  toString(): string {
    return this.key;
  }
}

/** The carrier of a kernel-level REDUCE. */
export function carrierOf(u: { readonly arg: Arg }): CarrierArg {
  return u.arg as CarrierArg;
}

/** Identity of ADD, MUL or MAX in `dtype`. */
export function identityOf(op: number, dtype: DType): number {
  return op === Ops.ADD ? 0 : op === Ops.MUL ? 1 : dtypeMin(dtype);
}

const KEYS: Record<number, string> = { [Ops.ADD]: "ADD", [Ops.MUL]: "MUL", [Ops.MAX]: "MAX" };

/** The one-lane carrier of ADD, MUL or MAX. */
export function opCarrier(op: Ops, dtype: DType): CarrierArg {
  return new CarrierArg(KEYS[op], [dtype], [identityOf(op, dtype)], ([a], [b]) => [a.alu(op, b)]);
}

/** The product of carriers: independent reduces over the same ranges as one. */
export function productCarrier(parts: readonly CarrierArg[]): CarrierArg {
  const combine: Combine = (left, right) => {
    const out: UOp[] = [];
    let at = 0;
    for (const p of parts) {
      out.push(...p.combine(left.slice(at, at + p.lanes), right.slice(at, at + p.lanes)));
      at += p.lanes;
    }
    return out;
  };
  const join: Join = (rows) => {
    let at = 0;
    return parts.flatMap((p) => {
      const own = rows.map((row) => row.slice(at, at + p.lanes));
      at += p.lanes;
      return p.join?.(own) ?? own.reduce((a, b) => p.combine(a, b));
    });
  };
  return new CarrierArg(
    parts.map((p) => p.key).join(","),
    parts.flatMap((p) => p.dtypes),
    parts.flatMap((p) => p.identity),
    combine,
    parts.some((p) => p.join !== undefined) ? join : undefined,
  );
}

/**
 * Mean and sum of squares about it. Lanes: how many (int32), their mean, the sum of (x - mean)^2. Lifts: 1, x, 0.
 * Merging is exact algebra and as stable as two passes, however large the mean is. Several are joined about their common
 * mean: two passes over registers, with one division.
 */
export function momentsCarrier(dtype: DType): CarrierArg {
  const combine: Combine = ([n, mean, sum], [m, mean2, sum2]) => {
    const all = n.add(m), delta = mean2.add(mean.mul(-1));
    // of nothing and nothing the share is 0
    const share = m.cast(like(dtype, m)).alu(Ops.FDIV, all.alu(Ops.MAX, 1).cast(like(dtype, m)));
    const step = delta.mul(share);
    return [all, mean.add(step), sum.add(sum2).add(delta.mul(n.cast(like(dtype, n))).mul(step))];
  };
  const join: Join = (parts) => {
    const [[n0, first]] = parts, weighted = (x: UOp, n: UOp): UOp => n.isConst(1) ? x : x.mul(n.cast(like(dtype, n)));
    const isFixed = parts.every(([n]) => n.op === Ops.CONST);
    const all = isFixed ? constant(parts.reduce((s, [n]) => s + n.value, 0), n0.dtype) : sumOf(parts.map(([n]) => n));
    // about the first mean, which may be large
    const deltas = parts.map(([, mean]) => mean.add(first.mul(-1)));
    const total = sumOf(parts.slice(1).map(([n], i) => weighted(deltas[i + 1], n)));
    const step = isFixed
      ? total.mul(1 / Math.max(1, all.value))
      : total.alu(Ops.FDIV, all.alu(Ops.MAX, 1).cast(like(dtype, all)));
    const squares = parts.map(([n], i) => {
      const far = i === 0 ? step : deltas[i].add(step.mul(-1));
      return weighted(far.mul(far), n);
    });
    return [all, first.add(step), sumOf([...parts.map(([, , sum]) => sum).filter((s) => !s.isConst(0)), ...squares])];
  };
  return new CarrierArg("MOMENTS", [dtypes.int32, dtype, dtype], [0, 0, 0], combine, join);
}

/** The sum of `terms`, as a tree of neighbors. */
function sumOf(terms: readonly UOp[]): UOp {
  if (terms.length === 1) return terms[0];
  const half = terms.length >> 1;
  return sumOf(terms.slice(0, half)).add(sumOf(terms.slice(half)));
}

/** `dtype` with as many lanes as `u` has. */
function like(dtype: DType, u: UOp): DType {
  return u.dtype.count === 1 ? dtype : dtype.vec(u.dtype.count);
}

/** A maximum r and a sum of terms with a factor exp2(a * (x - r)), a < 0. Lifts: x, and the term with x for r. */
export function rescaleCarrier(dtype: DType, a: number): CarrierArg {
  return new CarrierArg(`MAX,EXP2(${-a})`, [dtype, dtype], [dtypeMin(dtype), 0], ([r, s], [r2, s2]) => {
    const top = r.alu(Ops.MAX, r2);
    // what belongs to the maximum is kept as it is, infinite ones too
    const scaled = (x: UOp, of: UOp): UOp =>
      x.mul(top.eq(of).where(x.constLike(1), top.add(of.mul(-1)).mul(a).alu(Ops.EXP2)));
    return [top, scaled(s, r).add(scaled(s2, r2))];
  });
}

/**
 * A maximum r and sums of terms with a factor exp2(slope * (x - r)), slope > 0. Lifts: x, and the terms without the factor.
 * Where r is infinite, the sums are of no use.
 */
export class RescaleCarrier extends CarrierArg {
  /**
   * @param dtype of all lanes
   * @param sums how many
   * @param weight what the factor may be rounded to before it is multiplied with the last term; undefined: nothing
   */
  constructor(dtype: DType, readonly slope: number, sums: number, readonly weight: DType | undefined = undefined) {
    const all = <T>(first: T, rest: T): T[] => [first, ...Array.from({ length: sums }, () => rest)];
    const key = `RESCALE(${slope})x${sums}${weight === undefined ? "" : ` ${weight}`}`;
    super(key, all(dtype, dtype), all(dtypeMin(dtype), 0), ([r, ...s], [r2, ...s2]) => {
      const top = r.alu(Ops.MAX, r2);
      const factor = (of: UOp): UOp => top.eq(of).where(of.constLike(1), of.add(top.mul(-1)).mul(slope).alu(Ops.EXP2));
      const [a, b] = [factor(r), factor(r2)];
      return [top, ...s.map((x, i) => x.mul(a).add(s2[i].mul(b)))];
    });
  }
}

/**
 * Combines, by another carrier, those elements of a tile of a matrix unit that are in one row: a REDUCE without ranges, of
 * which each element is the result of its row.
 */
export class RowCarrier extends CarrierArg {
  /**
   * @param of what combines
   * @param rows the row of each element of a thread
   * @param masks lanes that have the same rows as the lane with the number of which these bits are flipped
   */
  constructor(readonly of: CarrierArg, readonly rows: readonly number[], readonly masks: readonly number[]) {
    super(`ROWS(${of.key}) ${rows.join()} ${masks.join()}`, of.dtypes, of.identity, of.combine, of.join);
  }
}

/**
 * The largest element of each row of a tile of a matrix unit, by iteration of its loops. Results by row, for
 * {@linkcode getRow}: the maximum after all iterations; in each of them -slope times the maximum so far (0 of -infinity), and
 * the factor by which it changes sums of exp2(slope * (x - maximum)) of the iterations before.
 */
export class RowMaximum extends CarrierArg {
  /** @param rows, masks as {@linkcode RowCarrier} has them */
  constructor(
    dtype: DType,
    readonly slope: number,
    readonly rows: readonly number[],
    readonly masks: readonly number[],
  ) {
    super(
      `ROWMAX(${slope}) ${rows.join()} ${masks.join()}`,
      [dtype],
      [dtypeMin(dtype)],
      ([a], [b]) => [a.alu(Ops.MAX, b)],
    );
  }
}

/**
 * A sum that is multiplied by a factor in each iteration of its loops before what this one lifts is added, once for all
 * unrolled copies. Lifts: what is added, and the factor. Of tiles of products, or of their elements by row.
 */
export class ScaledSum extends CarrierArg {
  /** @param rows, masks as {@linkcode RowCarrier} has them; undefined: each element is a sum of its own */
  constructor(
    dtype: DType,
    readonly rows: readonly number[] | undefined = undefined,
    readonly masks: readonly number[] = [],
  ) {
    super(
      `SCALED ${rows?.join() ?? "tiles"} ${masks.join()}`,
      [dtype, dtype],
      [0, 1],
      ([s, f], [s2, f2]) => [s.mul(f2).add(s2), f.mul(f2)],
    );
  }
}

/** A maximum, and a reduce by `op` of what stands where it is (NaN is the maximum of all). Lifts: x, and its value. */
export function selectCarrier(dtype: DType, op: Ops, value: DType): CarrierArg {
  const none = identityOf(op, value);
  return new CarrierArg(`SELECT,${KEYS[op]}`, [dtype, value], [dtypeMin(dtype), none], ([r, s], [r2, s2]) => {
    const top = r.alu(Ops.MAX, r2);
    const kept = (x: UOp, of: UOp): UOp => {
      const isTop = of.eq(top);
      return (dtype.isFloat ? isTop.or(of.ne(of)) : isTop).where(x, x.constLike(none));
    };
    return [top, kept(s, r).alu(op, kept(s2, r2))];
  });
}

/** A kernel-level REDUCE: lane 0 itself where the carrier has one lane, else a tuple for {@linkcode getTuple}. */
export function reduce(carrier: CarrierArg, lifts: readonly UOp[], ranges: readonly UOp[]): UOp {
  return uop(Ops.REDUCE, carrier.lanes === 1 ? lifts[0].dtype : dtypes.void, [...lifts, ...ranges], carrier);
}

/** Lane `i` of a tuple-valued REDUCE. */
export function getTuple(u: UOp, i: number): UOp {
  const carrier = carrierOf(u);
  return carrier.lanes === 1 ? u : uop(Ops.GETTUPLE, carrier.dtypes[i], [u], i);
}

/** Result `i` of a REDUCE of rows, for the elements of a tile that `elements` numbers: that of the row of each. */
export function getRow(u: UOp, i: number, elements: UOp): UOp {
  return uop(Ops.GETTUPLE, carrierOf(u).dtypes[0], [u, elements], i);
}

/** The identity of lane `i` as a constant, in the dtype (possibly a vector) given. */
export function identityConst(carrier: CarrierArg, i: number, dtype: DType = carrier.dtypes[i]): UOp {
  return constant(carrier.identity[i], dtype);
}
