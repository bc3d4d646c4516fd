/**
 * Which buffer holds a node: entries, those that exist and those that a schedule makes, and their versions, one more with
 * each write.
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { argOf, type Storage } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { wholesOf } from "../../uop/graph/resolve.ts";
import { stripReshape } from "../fuse/fusion_plan.ts";
import type { Entry, Layout } from "../kernels/rangeify.ts";
import { Slots } from "../kernels/slots.ts";
import { entryOfKey, type VersionKey, versionKey } from "./kernel_graph.ts";
import type { Becoming, EntryInfo, ViewInfo } from "./template.ts";

/** What realizing a node computes: of a STORE its value, else what the node is made of. */
export function bodiesOf(root: UOp): readonly UOp[] {
  return root.op === Ops.STORE ? [root.src[1]] : root.src;
}

/** Is a node a number or a position, which kernels compute and never read? */
function isNumber({ op }: UOp): boolean {
  return op === Ops.CONST || op === Ops.VARIABLE || op === Ops.BIND || op === Ops.IOTA;
}

/** Entries and versions of the nodes of a folded graph that are, or get, memory. */
export class Entries {
  readonly infos: EntryInfo[] = [];
  private readonly byStorage = new Map<Storage, number>();
  private readonly byNode = new Map<UOp, VersionKey>();

  constructor(private readonly slotOf: ReadonlyMap<Storage, number>) {}

  private add(info: EntryInfo): number {
    return this.infos.push(info) - 1;
  }

  /** The (entry, version) that holds `u`, if it has storage. */
  keyOf(u: UOp): VersionKey | undefined {
    const known = this.byNode.get(u);
    if (known !== undefined) return known;
    let key: VersionKey;
    if (u.op === Ops.BUFFER) {
      const { storage } = argOf(u, Ops.BUFFER), { device, dtype, size } = storage;
      let e = this.byStorage.get(storage);
      if (e === undefined) {
        const slot = this.slotOf.get(storage);
        e = this.add({ device, dtype, size, slot, versions: 0, kept: true, view: undefined });
        this.byStorage.set(storage, e);
      }
      key = versionKey(e, 0);
    } else if (u.op === Ops.AFTER) key = this.writtenKey(stripReshape(u.src[0])) + u.src.length - 1;
    else return undefined;
    this.byNode.set(u, key);
    return key;
  }

  /** The (entry, version) of a node that is written, or read as a whole: it must have storage. */
  writtenKey(u: UOp): VersionKey {
    const key = this.keyOf(u);
    if (key === undefined) throw new SpecError("A node that is written or copied has no storage");
    return key;
  }

  /** A new entry for realized node `u`: the version that it is once it is computed; of a view, that which is there. */
  make(u: UOp, device: string, view: ViewInfo | undefined = undefined): VersionKey {
    const versions = view === undefined ? 1 : 0;
    const e = this.add({ device, dtype: u.dtype, size: numelOf(u), slot: undefined, versions, kept: false, view });
    this.byNode.set(u, versionKey(e, versions));
    return versionKey(e, versions);
  }

  /** The nodes in memory that `root` is computed of. */
  readBy(root: UOp): UOp[] {
    const isRead = (u: UOp): boolean => !isNumber(u) && this.keyOf(u) !== undefined;
    return toposort(bodiesOf(root), (u) => !isRead(u)).filter(isRead);
  }
}

/** The entries of one kernel, numbered as they appear in it. */
export class OwnEntries implements Layout {
  readonly slots: Slots = new Slots();

  constructor(private readonly entries: Entries) {}

  /** A version's entry as the kernel has it. */
  own(key: VersionKey): Entry {
    const e = entryOfKey(key);
    return { id: this.slots.take(e), size: this.entries.infos[e].size };
  }
  entryOf(u: UOp): Entry | undefined {
    const key = this.entries.keyOf(u);
    return key === undefined ? undefined : this.own(key);
  }
}

/**
 * What the nodes of `order` become that last, where `now` is what folding made of them: the roots, what these are all of,
 * and writes and copies that were computed on the way. `live` are the nodes of the folded graph.
 */
export function whatBecomes(
  order: readonly UOp[],
  rootAt: readonly number[],
  now: readonly UOp[],
  live: readonly UOp[],
  entries: Entries,
): Becoming[] {
  const roots = new Set(rootAt.flatMap((i) => wholesOf(order[i]))), out: Becoming[] = [];
  for (let k = 0; k < live.length; k++) live[k].at = k;
  order.forEach((u, at) => {
    const lasts = roots.has(u) || u.op === Ops.AFTER || u.op === Ops.COPY ||
      (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
    if (!lasts || u.op === Ops.BUFFER || u.op === Ops.STORE) return;
    const base = stripReshape(now[at]);
    if (live[base.at] !== base) return; // folding left nobody who reads it: it stays lazy, writes too
    const key = entries.keyOf(base);
    if (key === undefined) return;
    const entry = entryOfKey(key);
    out.push({ at, entry, version: key - versionKey(entry, 0) });
  });
  return out;
}
