/**
 * How the lanes of an access lie in memory where they are no neighbors: a few elements apart, or each at the begin of a row
 * of copies. Such lanes are accessed as whole vectors and shuffled (lower/lane_shuffles.ts), and so are lanes that a
 * reduction combines (lower/lower_reduce.ts); what that costs is in machine/cost_model.ts.
 *
 * @module
 */
import { slopeOf } from "../../uop/algebra/linear_form.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import type { CarrierArg } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, rangesOf } from "../../uop/core/ranges.ts";
import { mayHave, type UOp } from "../../uop/core/uop.ts";

/** Steps from lane to lane at which whole vectors are read and lanes picked from them. */
export const SHUFFLED_STEPS: readonly number[] = [-1, 2, 3, 4];
/** Vectors of fewer lanes are combined a lane at a time. */
const LEAST_LANES = 4;

/** Are the lanes of a reduction combined by shuffles? */
export function joinsLanes(carrier: CarrierArg, n: number): boolean {
  return carrier.lanes === 1 && carrier.join === undefined && n >= LEAST_LANES && (n & (n - 1)) === 0;
}

/** Vectors of `n` lanes, of `copies`, of which the lanes are combined together: halves of two of them are a vector again. */
export function joinedVectors(copies: number, n: number): number {
  let m = 1;
  while (2 * m <= Math.min(n, copies)) m *= 2;
  return m;
}

/** Least copies in a row, but where a vector has fewer lanes. */
const LEAST_ROW = 4;

/** Copies that are read or stored as rows of a matrix, of `copies` that lie side by side; 1 where there are none. */
export function rowLength(copies: number, n: number): number {
  let m = 1;
  while (2 * m <= n && copies % (2 * m) === 0) m *= 2;
  return m >= LEAST_ROW || m === n ? m : 1;
}

/** How lanes that are no neighbors lie: a few elements apart, or each at the begin of a row of copies, `length` at a time. */
export type LaneShuffle =
  | { readonly step: number; readonly row?: undefined; readonly length?: undefined }
  | { readonly row: UOp; readonly length: number; readonly step?: undefined };

/** How the lanes of a LOAD or STORE can be shuffled into place; undefined where they are neighbors, or each for itself. */
export function laneShuffle(access: UOp, lane: UOp): LaneShuffle | undefined {
  const [base, idx, gate] = access.src[0].src as readonly (UOp | undefined)[], n = lane.src[0].value;
  const isLoad = access.op === Ops.LOAD, depends = (u: UOp): boolean => dependsOn(u, lane);
  if (base!.dtype.isBool || depends(base!) || (gate !== undefined && depends(gate))) return undefined;
  if (mayHave(idx!, Ops.LOAD) || (isLoad && access.src.length > 1)) return undefined;
  const step = slopeOf(idx!, lane, n, depends);
  if (step === undefined || step === 0 || step === 1) return undefined;
  if (isLoad && SHUFFLED_STEPS.includes(step)) return { step };
  if (base!.op !== Ops.PARAM) return undefined;
  for (const row of rangesOf(idx!)) {
    const { kind } = argOf(row, Ops.RANGE), copies = row.src[0].value;
    if ((kind !== AxisKind.UPCAST && kind !== AxisKind.UNROLL) || (gate !== undefined && dependsOn(gate, row))) {
      continue;
    }
    const length = rowLength(copies, n);
    if (length > 1 && slopeOf(idx!, row, copies, (u) => dependsOn(u, row)) === 1) return { row, length };
  }
  return undefined;
}
