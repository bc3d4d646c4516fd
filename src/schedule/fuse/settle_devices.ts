/**
 * Which device computes a node. In: a folded graph. Out: the same with copies where a value that lives nowhere (constants,
 * indices, random bits) is read on several devices.
 *
 * @module
 */
import { argOf, type Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, movedToDevice } from "../../uop/core/shape.ts";
import { mayHave, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { isMemory, shown } from "../../uop/graph/writes.ts";
import { rebuildAll } from "../../uop/rewrite/walk.ts";

/** Whether all of a graph is on one device, the storages of which are `storages`. */
export function isOnOneDevice(roots: readonly UOp[], storages: Iterable<Storage>): boolean {
  let device: string | undefined;
  for (const s of storages) if ((device ??= s.device) !== s.device) return false;
  return !roots.some((r) => mayHave(r, Ops.COPY) || mayHave(r, Ops.COLLECTIVE));
}

/** Where a node reads its sources: shards are gathered from where they are. */
function readsOn(u: UOp): string | null {
  if (u.op !== Ops.COLLECTIVE) return deviceOf(u);
  const { kind, mesh } = argOf(u, Ops.COLLECTIVE);
  return kind === "scatter" ? null : mesh.device;
}

/**
 * For nodes that live nowhere (constants, indices, random bits): the device of what reads them. What is only moved from
 * memory of its own does not say where that is: its tensor stays on the device that it tells.
 */
export function devicesWanted(order: readonly UOp[]): Map<UOp, string> {
  const wanted = new Map<UOp, string>();
  for (let i = order.length - 1; i >= 0; i--) {
    const { op, src } = order[i], device = readsOn(order[i]) ?? wanted.get(order[i]);
    if (device === undefined) continue;
    for (const s of src) {
      const isMoved = op === Ops.COPY && isMemory(shown(s).base);
      if (deviceOf(s) === null && !isMoved) wanted.set(s, device);
    }
  }
  return wanted;
}

/**
 * A node that lives nowhere is computed on the device of one that reads it; readers on other devices get a COPY. What was
 * on a device before folding left nothing but constants of it is still wanted there. Where all is on one device, nothing
 * changes.
 */
export function settleDevices(
  before: readonly UOp[],
  rootAt: readonly number[],
  now: readonly UOp[],
  storages: Iterable<Storage>,
  defaultDevice: () => string,
): readonly UOp[] {
  const homes = new Map<number, string>(), roots = rootAt.map((i) => before[i]);
  for (const i of rootAt) {
    const home = deviceOf(before[i]);
    if (home !== null && deviceOf(now[i]) === null) homes.set(i, home);
  }
  if (homes.size === 0 && isOnOneDevice(roots, storages)) return now;
  const order = toposort(now);
  const devices = new Set([...order.map(deviceOf), ...homes.values()].filter((d) => d !== null));
  if (devices.size < 2 && [...homes.values()].every((d) => d === defaultDevice())) return now;
  const wanted = devicesWanted(order);
  const isElsewhere = (s: UOp, device: string): boolean => {
    const home = wanted.get(s);
    return s.src.length > 0 && s.op !== Ops.BIND && deviceOf(s) === null && home !== undefined && home !== device;
  };
  const copy = (u: UOp, device: string): UOp => uop(Ops.COPY, u.dtype, [u], device);
  const settled = rebuildAll(now, (u, src) => {
    const device = readsOn(u) ?? wanted.get(u), isMove = u.op !== Ops.COLLECTIVE && movedToDevice(u) !== undefined;
    if (device === undefined || isMove) return undefined;
    return u.withSrc(src.map((s, i) => isElsewhere(u.src[i], device) ? copy(s, device) : s));
  });
  for (const [i, home] of homes) settled[i] = copy(settled[i], home);
  return settled;
}
