/**
 * What one kernel can read, found before there is one. In, the nodes that kernels will compute, with the versions in memory
 * below them; out, the nodes to be realized too, so that each kernel takes as few buffers as its device allows, and no two
 * versions of one buffer.
 *
 * @module
 */
import { DeviceError } from "../../helpers/errors.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { factsOf } from "../kernels/slots.ts";
import { bodiesOf, type Entries } from "./entries.ts";
import { entryOfKey, type Node, type VersionKey } from "./kernel_graph.ts";

/** Is memory read as numbers of another size? In a kernel that is a buffer of its own. */
function isResized(u: UOp): boolean {
  return u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize;
}

/** The older ones of several versions of one entry that a kernel reads: in it they would be one. */
function olderVersions(reads: Iterable<VersionKey>): Set<VersionKey> {
  const last = new Map<number, VersionKey>(), older = new Set<VersionKey>();
  for (const key of reads) {
    const entry = entryOfKey(key), other = last.get(entry);
    if (other !== undefined) older.add(Math.min(other, key));
    last.set(entry, Math.max(other ?? key, key));
  }
  return older;
}

/**
 * The nodes to be kept in memory so that there is a kernel for each node of `nodes`. `makeKernel` is asked where a kernel
 * seems to read too much: simplification may leave less.
 */
export function cutKernels(
  nodes: readonly Node[],
  entries: Entries,
  maxBuffers: (device: string) => number,
  makeKernel: (node: Node) => UOp,
): Set<UOp> {
  const cuts = new Set<UOp>(), isStored = (u: UOp): boolean => entries.keyOf(u) !== undefined;
  for (const n of nodes) {
    const { reads, roots: [root], device } = n, most = maxBuffers(device);
    if (n.step !== undefined || reads.size === 0) continue;
    const older = olderVersions(reads);
    if (older.size > 0) { for (const u of entries.readBy(root)) if (older.has(entries.keyOf(u)!)) cuts.add(u); }
    if (2 * reads.size < most) continue; // even where each is read as another dtype too
    const resized = toposort(bodiesOf(root), (u) => !isStored(u)).filter(isResized).length;
    if (reads.size + resized < most || factsOf(makeKernel(n)).params.length <= most) continue;
    for (const u of cutInputs(root, isStored, most, device)) cuts.add(u);
  }
  return cuts;
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
function cutInputs(root: UOp, isStored: (u: UOp) => boolean, most: number, device: string): Set<UOp> {
  const cuts = new Set<UOp>();
  const reads = new Map<UOp, ReadonlySet<UOp>>();
  const body = root.op === Ops.STORE ? root.src[1] : root;
  const isLeaf = (u: UOp): boolean => u !== body && (isStored(u) || isResized(u) || cuts.has(u));
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
      note(
        "missed",
        unmoved(widest),
        `a kernel would read ${all.size} buffers and take ${most} at most: it is cut here`,
        {
          reads: all.size,
          most,
        },
      );
      cuts.add(unmoved(widest));
      all = union(u);
    }
    reads.set(u, all);
  }
  return cuts;
}
