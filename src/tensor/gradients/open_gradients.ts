/**
 * Gradients that `backward()` has built and nobody has computed yet. They are of the values of their time: what overwrites
 * memory that one of them reads computes it as well. In: what is to be realized, or what an optimizer is to step; out:
 * the gradients that go with it. Lazy ones that read what has been overwritten before are lost.
 *
 * @module
 */
import type { Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { mayHave, type UOp } from "../../uop/core/uop.ts";
import { besideOf, Effects } from "../../uop/graph/beside.ts";
import { bare } from "../../uop/graph/complex.ts";
import { unshaped } from "../../uop/graph/resolve.ts";
import type { TensorBase } from "../handle/base.ts";
import { placeOf } from "../handle/claims.ts";
import { lossesOf } from "./backward.ts";
import { isStepped, liveLeaves } from "./origins.ts";

/** Lazy gradients that read what has been overwritten: they always will. */
const lost = new WeakSet<UOp>();

function isLazy(t: TensorBase): boolean {
  const u = bare(t.uop);
  return !lost.has(u) && unshaped(u).op !== Ops.BUFFER;
}

/** The lazy gradients of leaves, and the losses that filled them. */
function withLosses(leaves: readonly TensorBase[]): TensorBase[] {
  const grads = leaves.flatMap(({ grad }) => grad ? [grad] : []);
  return [...grads, ...lossesOf(grads)].filter(isLazy);
}

/** Of lazy tensors those that read what is overwritten. */
function met(tensors: readonly TensorBase[], effects: Effects): TensorBase[] {
  const found = effects.meeting(tensors.map((t) => bare(t.uop))), kept = new Set(found.met);
  for (const u of found.lost) lost.add(u);
  return tensors.filter((t) => kept.has(bare(t.uop)));
}

/**
 * The gradients of other leaves, and their losses, that read the memory of `weights`, which an optimizer is to overwrite:
 * it realizes them in the same schedule, for what steps after it. Those of leaves `besides` are its own.
 */
export function gradsReading(weights: readonly TensorBase[], besides: readonly TensorBase[]): TensorBase[] {
  const own = new Set(besides);
  const others = withLosses(liveLeaves().filter((leaf) => !own.has(leaf)));
  if (others.length === 0) return [];
  const written = new Set(weights.map((t) => placeOf(t.uop)));
  return met(others, new Effects((storage) => written.has(storage)));
}

/**
 * What goes with a schedule of `nodes`, or with writes to storages of which `isWritten` is true: the open writes `beside`
 * them, and the gradients that read what is overwritten, with the losses that filled them. An optimizer's step has them.
 */
export function allBeside(
  nodes: readonly UOp[],
  beside: readonly UOp[] = besideOf(nodes),
  isWritten?: (storage: Storage) => boolean,
): readonly UOp[] {
  for (;;) {
    const all = [...nodes, ...beside];
    if (isWritten === undefined && !all.some((u) => mayHave(u, Ops.AFTER))) return beside;
    const roots = new Set(all), leaves = liveLeaves(), lazy = withLosses(leaves);
    if (lazy.length === 0 || leaves.some((leaf) => roots.has(leaf.uop) && isStepped(leaf))) return beside;
    const effects = new Effects(isWritten);
    effects.add(all);
    const found = met(lazy.filter((t) => !roots.has(bare(t.uop))), effects).map((t) => bare(t.uop));
    if (found.length === 0) return beside;
    beside = [...beside, ...found, ...besideOf([...all, ...found], isWritten)];
  }
}
