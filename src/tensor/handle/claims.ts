/**
 * Who holds memory. A handle holds what it was made with (values, `empty`, `clone`, `to`, leaves that require gradients,
 * results of a jit function) and what it was asked to realize; views and handles of lazy expressions hold nothing and
 * read what others hold. The last holder to be disposed frees the memory; a holder that is collected instead leaves it
 * to the collector. Claims are counted on the Storage, before there is one on the node that will become it.
 *
 * @module
 */
import { argOf, Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { unlabeled } from "../../uop/graph/resolve.ts";

/** Where claims on what `u` names are counted. */
export function placeOf(u: UOp): Storage | UOp {
  u = unlabeled(u);
  while (u.op === Ops.AFTER) u = unlabeled(u.src[0]);
  return u.op === Ops.BUFFER ? argOf(u, Ops.BUFFER).storage : u;
}

/** Counts one more holder of what `u` names, or will name. */
export function claim(u: UOp): void {
  placeOf(u).claims++;
}

/** Counts one holder less; gives the storages that nobody holds any more, to be freed where the user asked for it. */
export function unclaim(u: UOp): Storage[] {
  const place = placeOf(u);
  if (--place.claims > 0) return [];
  if (place instanceof Storage) return [place];
  // values that were never needed on their device: their bytes are still the host's
  if (place.op !== Ops.COPY || place.src[0].op !== Ops.BUFFER) return [];
  const { storage } = argOf(place.src[0], Ops.BUFFER);
  return storage.staging ? [storage] : [];
}

/** Moves a claim on what `from` names to what `to` names. */
export function moveClaim(from: UOp, to: UOp): void {
  const next = unlabeled(to);
  // a write makes another version of the same memory: a loop of them never walks back to the first
  if (next.op === Ops.AFTER && unlabeled(next.src[0]) === unlabeled(from)) return;
  unclaim(from);
  claim(to);
}
