/**
 * Online products in kernel ASTs: a weighted sum over a range of keys whose weights are exp2(slope * (x - max x)), where x
 * is made of a sum of products with the same keys. Attention is one. The maximum, the sum of the weights and the weighted
 * sums are lanes of one REDUCE ({@linkcode RescaleCarrier}), so that one pass over tiles of keys does it all.
 *
 * The scheduler asks here whether it may make such a kernel, and code generation how it is made up.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { argOf } from "../core/args.ts";
import { RescaleCarrier } from "../core/carrier.ts";
import { Ops } from "../core/ops.ts";
import { dependsOn, ownRanges, rangesOf, sizeOf } from "../core/ranges.ts";
import { toposort, type UOp } from "../core/uop.ts";
import { factorsOf } from "./contraction.ts";
import { indexForm, liesAlong } from "./linear_form.ts";

/** The parts of a kernel that is an online product. Sizes of its ranges are constants. */
export interface OnlineProduct {
  /** The only STORE. */
  readonly store: UOp;
  /** The REDUCE over `keys`. Its lifts: `x`, 1, and the values. */
  readonly reduce: UOp;
  readonly carrier: RescaleCarrier;
  /** What the weights are made of: `score` and other things. */
  readonly x: UOp;
  /** The sum of products of `query` and `key` over `features`. */
  readonly score: UOp;
  /** LOADs of 16-bit elements, contiguous along their last range, each row of which begins at a multiple of 16 bytes. */
  readonly query: UOp;
  readonly key: UOp;
  readonly value: UOp;
  /** The range of rows that `query` depends on, but not `key` and `value`. */
  readonly rows: UOp;
  readonly keys: UOp;
  readonly features: UOp;
  /** The range of columns that only `value` depends on. */
  readonly columns: UOp;
  /** All other ranges of the STORE. */
  readonly batch: readonly UOp[];
}

/** Rows and keys below which tiles would be mostly empty. */
const LEAST_ROWS = 16, LEAST_KEYS = 16;
/** Features or columns that registers hold, at most. */
const MOST_FEATURES = 256;
/** Features and columns of a tile of matrix units. */
const TILE = 16;
/** Elements of 16 bytes. */
const ALIGNED = 8;

/** The LOAD of a plain buffer below a cast to the dtype of sums, contiguous along `fast`. */
function operandOf(u: UOp, dtype: DType, fast: UOp): UOp | undefined {
  if (u.op !== Ops.CAST) return undefined;
  const [l] = u.src;
  if (l.op !== Ops.LOAD || l.dtype !== dtype || l.src.length > 1 || l.src[0].src.length > 2) return undefined;
  const [base, at] = l.src[0].src;
  if (base.op !== Ops.PARAM || argOf(base, Ops.PARAM).size === 0) return undefined;
  return liesAlong(indexForm(at), fast, ALIGNED) ? l : undefined;
}

/** The only range that a REDUCE closes. */
function ownRange(u: UOp): UOp | undefined {
  const own = ownRanges(u), [r] = own;
  return own.length === 1 && r.op === Ops.RANGE && sizeOf(r) > 0 ? r : undefined;
}

/** The parts of `store`, the only one of its kernel; undefined where it is no online product. */
export function onlineProductOf(store: UOp): OnlineProduct | undefined {
  if (store.op !== Ops.STORE || store.src[0].src.length > 2) return undefined;
  const nodes = toposort(store), reduces = nodes.filter((u) => u.op === Ops.REDUCE);
  if (reduces.length !== 2 || nodes.some((u) => u.op === Ops.STAGE)) return undefined;
  const [score, reduce] = reduces;
  const { arg: carrier } = reduce;
  if (!(carrier instanceof RescaleCarrier) || carrier.lanes !== 3 || carrier.weight === undefined) return undefined;
  const keys = ownRange(reduce), features = ownRange(score), [x, one, product] = reduce.src;
  if (keys === undefined || features === undefined || !one.isConst(1) || !toposort(x).includes(score)) return undefined;
  const outputs = rangesOf(store);
  const columns = outputs.find((r) => dependsOn(product, r) && !dependsOn(x, r));
  if (columns === undefined || outputs.some((r) => sizeOf(r) === 0)) return undefined;
  const value = operandOf(product, carrier.weight, columns);
  const [a, b] = (factorsOf(score) ?? []).map((s) => operandOf(s, carrier.weight!, features));
  if (value === undefined || a === undefined || b === undefined) return undefined;
  const [query, key] = dependsOn(a, keys) ? [b, a] : [a, b];
  if (dependsOn(query, keys) || !dependsOn(key, keys) || !dependsOn(value, keys)) return undefined;
  const candidates = outputs.filter((r) => dependsOn(query, r) && !dependsOn(key, r) && !dependsOn(value, r));
  let rows: UOp | undefined;
  for (const r of candidates) if (rows === undefined || sizeOf(r) >= sizeOf(rows)) rows = r;
  if (rows === undefined || sizeOf(rows) < LEAST_ROWS || sizeOf(keys) < LEAST_KEYS) return undefined;
  for (const r of [features, columns]) {
    if (sizeOf(r) % TILE !== 0 || sizeOf(r) > MOST_FEATURES) return undefined;
  }
  const batch = outputs.filter((r) => r !== rows && r !== columns);
  return { store, reduce, carrier, x, score, query, key, value, rows, keys, features, columns, batch };
}
