/**
 * Combines the partial results of threads that share a reduction: within a warp by exchanging with the lane at distance
 * 1, 2, 4, ..., between warps by one hop through shared memory. Every thread of the group ends up with the result.
 *
 * The order of combination depends on nothing but the number of threads, so reruns are bit-equal. Devices that cannot
 * exchange between lanes take two hops, each over the square root of the threads.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { LocalArg } from "../../uop/core/args.ts";
import type { CarrierArg, RowCarrier } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { after, constant, index, load, store, type UOp, uop } from "../../uop/core/uop.ts";
import { extract, vectorize } from "../ast/alu_builder.ts";
import { hopOf } from "../machine/group_hops.ts";
import { combineTree } from "./lower_reduce.ts";

/** What {@linkcode combineThreads} takes. */
interface GroupJob {
  readonly carrier: CarrierArg;
  /** The partial results of this thread: by copy, then by carrier lane. */
  readonly values: readonly (readonly UOp[])[];
  /** The range of the threads that share the reduction; its size is a power of two. */
  readonly threads: UOp;
  /** Ranges of other threads of the group, innermost first: for each of their values something else is reduced. */
  readonly others: readonly UOp[];
  /** Loops around the reduction. */
  readonly loops: readonly UOp[];
  /** Neighbors among the threads that can exchange values: the lanes of a warp, or 1. */
  readonly warp: number;
  /** Where conditional STOREs go. */
  readonly updates: UOp[];
  /** A new number for memory. */
  readonly nextLocal: () => number;
}

/** The value of another lane. Small dtypes travel as 32 bits. */
function shuffle(x: UOp, mask: number): UOp {
  const wide = widened(x);
  return narrowed(uop(Ops.SHUFFLE, wide.dtype, [wide], mask), x);
}

function widened(x: UOp): UOp {
  if (x.dtype.bits >= 32) return x;
  return x.cast(x.dtype.isFloat ? dtypes.float32 : dtypes.int32);
}

function narrowed(x: UOp, like: UOp): UOp {
  if (x.dtype === like.dtype) return x;
  return like.dtype.isBool ? x.ne(0) : x.cast(like.dtype);
}

/** The elements of each row of a tile combined, where each of them stood: `tiles` are a thread's elements, by carrier lane. */
export function combineRows({ of: carrier, rows, masks }: RowCarrier, tiles: readonly UOp[]): readonly UOp[] {
  const results = new Map<number, readonly UOp[]>();
  for (const row of new Set(rows)) {
    const own = rows.flatMap((r, e) => r === row ? [tiles.map((x) => extract(x, e))] : []);
    let value = combineTree(carrier, own);
    for (const mask of masks) value = carrier.combine(value, value.map((x) => shuffle(x, mask)));
    results.set(row, value);
  }
  return tiles.map((_, lane) => vectorize(rows.map((r) => results.get(r)![lane])));
}

/** The results of all threads together: by copy, then by carrier lane. */
export function combineThreads(job: GroupJob): readonly (readonly UOp[])[] {
  const { carrier, threads, warp } = job;
  const count = threads.src[0].value;
  let values = job.values;
  const lanes = Math.min(count, warp);
  for (let mask = 1; mask < lanes; mask *= 2) {
    values = values.map((v) => carrier.combine(v, v.map((x) => shuffle(x, mask))));
  }
  // partial results that are left, and who holds number `at` of them
  let left = count / lanes;
  let at = lanes === 1 ? threads : threads.floorDiv(lanes);
  let owner = lanes === 1 ? undefined : threads.floorMod(lanes).eq(0);
  while (left > 1) {
    const step = hopOf(left, warp > 1 || owner !== undefined ? 1 : values.length), next = left / step;
    const segment = next === 1 ? constant(0, threads.dtype) : threads.floorMod(next);
    values = hop(job, values, left, at, owner, segment, step);
    at = threads;
    owner = threads.lt(next);
    left = next;
  }
  return values;
}

/** Each owner stores its partial result; after a barrier, each thread combines `step` of them. */
function hop(
  job: GroupJob,
  values: readonly (readonly UOp[])[],
  left: number,
  at: UOp,
  owner: UOp | undefined,
  segment: UOp,
  step: number,
): readonly (readonly UOp[])[] {
  const { carrier, others, loops } = job;
  const dtype = at.dtype;
  // neighbors that reduce something else have neighboring places
  let offset: UOp | undefined, stride = 1;
  for (const r of others) {
    const x = r.dtype === dtype ? r : r.cast(dtype);
    const term = stride === 1 ? x : x.mul(stride);
    offset = offset === undefined ? term : term.add(offset);
    stride *= r.src[0].value;
  }
  const place = (i: UOp, copy: number): UOp => {
    const isKnown = i.op === Ops.CONST, known = (isKnown ? i.value * stride : 0) + copy * stride * left;
    const row = isKnown ? undefined : stride === 1 ? i : i.mul(stride);
    const own = offset === undefined || row === undefined ? offset ?? row : offset.add(row);
    return own === undefined ? constant(known, dtype) : known === 0 ? own : own.add(known);
  };
  const size = values.length * stride * left;
  const memory = carrier.dtypes.map((_, l) =>
    uop(Ops.LOCAL, widened(values[0][l]).dtype, [], new LocalArg(job.nextLocal(), size, "shared"))
  );
  // what was read in the iteration before must have been read
  const before = loops.length === 0 ? [] : [uop(Ops.BARRIER, dtypes.void, loops)];
  const stores: UOp[] = [];
  memory.forEach((m, l) => {
    const base = after(m, ...before);
    values.forEach((v, c) => {
      stores.push(store(index(base, place(at, c)), widened(v[l])));
    });
  });
  if (owner !== undefined) job.updates.push(uop(Ops.GROUP, dtypes.void, [...stores, owner]));
  const barrier = uop(Ops.BARRIER, dtypes.void, stores);
  const filled = memory.map((m) => after(m, barrier));
  return values.map((v, c) => {
    const parts = Array.from({ length: step }, (_, i) => {
      const from = segment.op === Ops.CONST ? constant(i, dtype) : segment.mul(step).add(i);
      return v.map((x, l) => narrowed(load(index(filled[l], place(from, c))), x));
    });
    return combineTree(carrier, parts);
  });
}
