/**
 * Lazy graphs that can never be realized: in: a node; out: whether what it is computed from has been overwritten or freed.
 *
 * @module
 */
import { argOf, Storage } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";
import { readNow, untouched } from "./resolve.ts";

/** By lazy graph: memory that it reads and that was gone when someone looked; replays ask for the same ones each time. */
const goneBy = new WeakMap<UOp, UOp>();
/** What has been found to read nothing of that kind, as long as no more memory is lost: of many writes each sees the last one. */
let fresh = new WeakSet<UOp>(), freshSince = 0;

/** Whether a lazy graph reads what has been overwritten or freed: it can never be realized. */
export function isStale(u: UOp): boolean {
  const known = goneBy.get(u);
  if (known !== undefined && isGone(known)) return true;
  if (freshSince !== Storage.losses) {
    fresh = new WeakSet();
    freshSince = Storage.losses;
  }
  const stack = [u], seen = new Set<UOp>();
  for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
    const now = readNow(at);
    if (isGone(now)) {
      goneBy.set(u, now);
      return true;
    }
    if (seen.has(now) || fresh.has(now)) continue;
    seen.add(now);
    if (now.op !== Ops.SHRINK || untouched.below(now, readNow) === undefined) stack.push(...now.src);
  }
  for (const now of seen) fresh.add(now);
  return false;
}

/** Whether a node is memory that has been overwritten or freed. */
export function isGone(u: UOp): boolean {
  if (u.op !== Ops.BUFFER) return false;
  const { storage, version } = argOf(u, Ops.BUFFER);
  return storage.version !== version || storage.disposedAt !== "";
}
