/**
 * Parts of memory that writes have left as they were. In: writes through views, and later a view of an earlier version of
 * what they wrote to; out: whether nothing has been written there since.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { argOf, type Storage } from "../core/args.ts";
import { isMovement, isView, Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";
import { untouched } from "./resolve.ts";
import { nodeView, type View } from "./view.ts";

/** What the writes of one schedule wrote: versions after `from` up to `to` are theirs. */
interface Writes {
  readonly from: number;
  readonly to: number;
  readonly parts: readonly View[];
}

/** The last writes to a storage through views, without a gap. */
const written = new WeakMap<Storage, Writes[]>();

/** How many of them are kept. */
const MAX_WRITES = 64;

/** The part of its buffer that a node is, if it is one strided view that stays where it is. */
function partOf(u: UOp, now?: (u: UOp) => UOp): { readonly base: UOp; readonly part: View } | undefined {
  const { base, view, moving } = nodeView(u, now);
  return view === undefined || moving.length > 0 ? undefined : { base, part: view };
}

/** The memory that a write is to, where nothing but writes stands between. */
function memoryBelow(u: UOp): UOp {
  while (u.op === Ops.AFTER || u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

/** By storage the parts that a graph writes; undefined for what is not known. */
function partsWritten(order: readonly UOp[]): Map<Storage, (View | undefined)[]> | undefined {
  const parts = new Map<Storage, (View | undefined)[]>();
  for (const u of order) {
    if (u.op !== Ops.AFTER) continue;
    const below = memoryBelow(u);
    if (isView(below.op)) return undefined; // it may be any memory
    if (below.op !== Ops.BUFFER) continue;
    const { storage } = argOf(below, Ops.BUFFER), list = parts.get(storage) ?? [];
    for (let i = 1; i < u.src.length; i++) {
      const store = u.src[i], found = store.op === Ops.STORE ? partOf(store.src[0]) : undefined;
      list.push(found !== undefined && memoryBelow(found.base) === below ? found.part : undefined);
    }
    parts.set(storage, list);
  }
  return parts;
}

/** Notes what a schedule that has run wrote to which parts of what memory, and how often. @param order its nodes */
export function notePartsWritten(
  writes: readonly { readonly storage: Storage; readonly writes: number }[],
  order: readonly UOp[],
): void {
  if (writes.length === 0) return;
  const found = partsWritten(order);
  for (const { storage, writes: count } of writes) {
    const parts = found?.get(storage) ?? [], { version: to, size } = storage, from = to - count;
    if (
      storage.layout !== undefined || parts.length < count ||
      !parts.every((part) => part !== undefined && prod(part.shape) < size)
    ) {
      written.delete(storage);
      continue;
    }
    const known = written.get(storage), list = known !== undefined && known[known.length - 1].to === from ? known : [];
    if (list.length === MAX_WRITES) list.shift();
    list.push({ from, to, parts: parts as View[] });
    written.set(storage, list);
    untouched.below = untouchedBelow;
  }
}

/** What was written to a storage since it had `version`; undefined where that is not known. */
function writtenSince(storage: Storage, version: number): View[] | undefined {
  const list = written.get(storage) ?? [], parts: View[] = [];
  for (let i = list.length - 1, now = storage.version; i >= 0 && list[i].to === now; now = list[i--].from) {
    parts.push(...list[i].parts);
    if (list[i].from <= version) return parts;
  }
  return undefined;
}

/** A view as the first place that it has, and steps from there: how far, and how often; undefined if it has none. */
interface Places {
  readonly first: number;
  readonly steps: readonly (readonly [stride: number, count: number])[];
}

function placesOf({ shape, strides, offset, mask }: View): Places | undefined {
  const steps: [number, number][] = [];
  let first = offset;
  for (let i = 0; i < shape.length; i++) {
    const [start, stop] = mask?.[i] ?? [0, shape[i]], count = stop - start, stride = strides[i];
    if (count <= 0) return undefined;
    first += stride * (stride < 0 ? stop - 1 : start);
    if (count > 1 && stride !== 0) steps.push([Math.abs(stride), count - 1]);
  }
  return { first, steps };
}

/** The places of a view modulo `by` as a range [low, high], where they are one that does not go around. */
function rangeModulo({ first, steps }: Places, by: number): readonly [low: number, high: number] | undefined {
  const low = first % by; // all of it where `by` is infinite
  let high = low;
  for (const [stride, count] of steps) if (stride % by !== 0) high += stride * count;
  return high < by ? [low, high] : undefined;
}

/**
 * Whether two views of one buffer are known to share no element: their places lie in ranges apart, as such or modulo a step
 * of one of them (columns of a matrix, every other element).
 */
export function isApart(a: View, b: View): boolean {
  const x = placesOf(a), y = placesOf(b);
  if (x === undefined || y === undefined) return true;
  return [Infinity, ...[...x.steps, ...y.steps].map(([stride]) => stride)].some((by) => {
    const own = rangeModulo(x, by), other = rangeModulo(y, by);
    return own !== undefined && other !== undefined && (own[1] < other[0] || other[1] < own[0]);
  });
}

/**
 * The memory of which `u` is a part of an earlier version, if nothing was written there since: it is that of the newest
 * version, too. `now` reads realized nodes through.
 */
function untouchedBelow(u: UOp, now?: (u: UOp) => UOp): Storage | undefined {
  let base = u;
  while (isMovement(base.op)) base = now === undefined ? base.src[0] : now(base.src[0]);
  if (base.op !== Ops.BUFFER) return undefined;
  const { storage, version } = argOf(base, Ops.BUFFER);
  if (storage.version === version || storage.disposedAt !== "") return undefined;
  const part = partOf(u, now)?.part;
  return part !== undefined && writtenSince(storage, version)?.every((w) => isApart(w, part)) ? storage : undefined;
}
