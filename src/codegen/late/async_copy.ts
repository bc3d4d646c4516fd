/**
 * Turns copies from buffers to shared memory into asynchronous ones, where a STORE that an ASYNC_COMMIT waits for stores
 * nothing but what a LOAD read. Others stay: they are complete at the barrier that follows anyway. In and out: a lowered
 * graph of stage P whose accesses are coalesced.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import { index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";

/** The asynchronous copy that a STORE is; undefined where it is none. */
function asyncOf(s: UOp): UOp | undefined {
  const [to, value] = s.src;
  if (s.op !== Ops.STORE || to.op !== Ops.INDEX || value.op !== Ops.LOAD || value.src[0].op !== Ops.INDEX) {
    return undefined;
  }
  const [base, at, gate] = value.src[0].src as readonly (UOp | undefined)[];
  const { itemsize } = value.dtype;
  if (base!.op !== Ops.PARAM || (itemsize !== 4 && itemsize !== 8 && itemsize !== 16)) return undefined;
  const alt = value.src[1] as UOp | undefined;
  if (alt !== undefined && !alt.isConst(0)) return undefined;
  const from = index(base!, at!);
  return uop(Ops.ASYNC_COPY, dtypes.void, gate === undefined ? [to, from] : [to, from, gate], itemsize);
}

/** Makes copies to shared memory asynchronous where they are plain. */
export function copyAsync(sink: UOp): UOp {
  const nodes = toposort(sink), awaited = new Set<UOp>();
  for (const u of nodes) if (u.op === Ops.ASYNC_COMMIT) { for (const s of u.src) awaited.add(s); }
  if (awaited.size === 0) return sink;
  return rebuild(sink, (u, src) => awaited.has(u) ? asyncOf(u.withSrc(src)) : undefined);
}
