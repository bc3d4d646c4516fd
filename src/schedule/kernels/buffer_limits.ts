/**
 * Kernels within the limits of their device. In, a realized node whose kernel takes more buffers than the device allows;
 * out, the nodes below it that must be realized too, so that each kernel reads few enough.
 *
 * @module
 */
import { DeviceError } from "../../helpers/errors.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { factsOf } from "./slots.ts";

/** Buffers that a kernel with this store alone takes. */
export function buffersOf(store: UOp): number {
  return factsOf(store).params.length;
}

/** The node below movement ops: realized there, a value takes no more memory than it must. */
function unmoved(u: UOp): UOp {
  while (isMovement(u.op)) u = u.src[0];
  return u;
}

/**
 * What to realize below `root` so that its kernel, and theirs, take at most `most` buffers, one of them for the result.
 * From the inputs upward: where sources together read too many, those that read most are realized.
 *
 * @param isStored whether a node is memory already
 * @throws {DeviceError} where one operation reads more buffers than that
 */
export function cutInputs(root: UOp, isStored: (u: UOp) => boolean, most: number, device: string): Set<UOp> {
  const cuts = new Set<UOp>();
  const reads = new Map<UOp, ReadonlySet<UOp>>();
  const body = root.op === Ops.STORE ? root.src[1] : root;
  const isLeaf = (u: UOp): boolean => u !== body && (isStored(u) || cuts.has(u));
  const readsOf = (u: UOp): ReadonlySet<UOp> => cuts.has(unmoved(u)) ? new Set([unmoved(u)]) : reads.get(u)!;
  const union = (u: UOp): Set<UOp> => {
    const all = new Set<UOp>();
    for (const s of u.src) for (const x of readsOf(s)) all.add(x);
    return all;
  };
  for (const u of toposort([body], (x) => !isLeaf(x))) {
    if (isLeaf(u)) {
      reads.set(u, new Set([u]));
      continue;
    }
    let all = union(u);
    while (all.size > most - 1) {
      const [widest] = u.src.filter((s) => readsOf(s).size > 1 && unmoved(s) !== root)
        .sort((a, b) => readsOf(b).size - readsOf(a).size);
      if (widest === undefined) {
        throw new DeviceError("lower a kernel", {
          device,
          reason: `an operation reads ${all.size} buffers, and a kernel takes at most ${most}, its result included`,
        });
      }
      cuts.add(unmoved(widest));
      all = union(u);
    }
    reads.set(u, all);
  }
  return cuts;
}
