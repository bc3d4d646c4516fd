/**
 * Carriers: what a kernel-level REDUCE accumulates. A carrier is a tuple of lanes with an identity and an associative
 * combine; a plain sum is the carrier of one lane. The same combine serves loops, vector lanes, threads, groups and splits.
 *
 * @module
 */
import { type DType, dtypeMin, dtypes } from "../dtype/dtype.ts";
import { mix } from "../helpers/hash.ts";
import type { ArgRecord } from "./args.ts";
import { Ops } from "./ops.ts";
import { constant, type UOp, uop } from "./uop.ts";

/** Builds the combined lanes from the lanes of two partial results (left before right in index order). */
export type Combine = (left: readonly UOp[], right: readonly UOp[]) => UOp[];

/** The arg of a kernel-level REDUCE. `key` names the combine: two carriers are the same when key and dtypes are. */
export class CarrierArg implements ArgRecord {
  readonly hash: number;

  /**
   * @param key names the carrier, e.g. "ADD" or "MAX,ADD"
   * @param dtypes one a lane
   * @param identity one constant value a lane
   * @param combine must be a function of its operands alone
   */
  constructor(
    readonly key: string,
    readonly dtypes: readonly DType[],
    readonly identity: readonly number[],
    readonly combine: Combine,
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
  return new CarrierArg(
    parts.map((p) => p.key).join(","),
    parts.flatMap((p) => p.dtypes),
    parts.flatMap((p) => p.identity),
    combine,
  );
}

/** A kernel-level REDUCE: lane 0 itself where the carrier has one lane, else a tuple for {@linkcode getTuple}. */
export function reduce(carrier: CarrierArg, lifts: readonly UOp[], ranges: readonly UOp[]): UOp {
  return uop(Ops.REDUCE, carrier.lanes === 1 ? lifts[0].dtype : dtypes.void, [...lifts, ...ranges], carrier);
}

/** Lane `i` of a tuple-valued REDUCE. */
export function getTuple(u: UOp, i: number): UOp {
  const carrier = u.arg as CarrierArg;
  return carrier.lanes === 1 ? u : uop(Ops.GETTUPLE, carrier.dtypes[i], [u], i);
}

/** The identity of lane `i` as a constant, in the dtype (possibly a vector) given. */
export function identityConst(carrier: CarrierArg, i: number, dtype: DType = carrier.dtypes[i]): UOp {
  return constant(carrier.identity[i], dtype);
}
