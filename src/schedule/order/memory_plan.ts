/**
 * Memory planner: where the temporary buffers of a schedule lie. In, when each is in use and how large it is; out, blocks
 * and an offset in one of them for each, such that no two that are in use together overlap. One arena a device, as close
 * to the largest sum of what is in use at a time as the best of three packings comes; where a device wants a block for each buffer, a
 * pool of them. `NO_MEMORY_PLANNER=1` gives each temporary its own block.
 *
 * Memory that exists is never planned over: an input may be read again as long as any handle or lazy node names it, and
 * a schedule that fails half way must leave it whole. What gives an input's memory to a result is assignment, in place.
 *
 * @module
 */
import type { MemoryLayout } from "../../device/allocator.ts";
import { envNumber } from "../../helpers/env.ts";
import { roundUp, sum } from "../../helpers/math.ts";
import type { EntryInfo, TemplateItem } from "./template.ts";

/** A block that temporaries share. */
export interface PlannedBlock {
  readonly device: string;
  readonly nbytes: number;
}

/** Where a temporary lies: `offset` in bytes. */
export interface Placement {
  readonly block: number;
  readonly offset: number;
}

/** Where the temporaries of a template lie. */
export interface MemoryPlan {
  readonly blocks: readonly PlannedBlock[];
  /** By entry; undefined for entries that are no temporaries. */
  readonly places: readonly (Placement | undefined)[];
  /** The most bytes in use at a time, over all devices: no plan takes less. */
  readonly boundBytes: number;
}

/** What a plan is for. */
export interface Plannable {
  readonly entries: readonly Pick<EntryInfo, "device" | "dtype" | "size" | "slot" | "kept" | "view">[];
  readonly items: readonly Pick<TemplateItem, "entries">[];
  /** Entries that lie next to each other, in this order, where the device has arenas; none is in two lists. */
  readonly neighbors?: readonly (readonly number[])[];
  /** By step that goes on beside later ones, the last of these: what it uses is in use until then. */
  readonly beside?: ReadonlyMap<number, number>;
}

/** A temporary: in use from step `first` to step `last`, both included. */
interface Interval {
  /** Its entry, or the first of neighbors. */
  readonly entry: number;
  readonly isAlone: boolean;
  readonly nbytes: number;
  readonly first: number;
  readonly last: number;
}

/** Intervals by position, and where each lies. */
interface Packing {
  readonly nbytes: readonly number[];
  readonly places: readonly Placement[];
}

/** Blocks and offsets are multiples of this: what the strictest device asks of a binding. */
const ALIGN = 256;
/** Beyond so many temporaries only the packing in order of time is tried: the others compare each with each. */
const MAX_COMPARED = 4096;

/** Plans the temporaries of a template: entries that are neither storages of the graph, nor views, nor kept. */
export function planMemory(t: Plannable, layoutOf: (device: string) => MemoryLayout): MemoryPlan {
  const neighbors = new Map((t.neighbors ?? []).map((list) => [list[0], list]));
  const intervals = intervalsOf(t, (device) => layoutOf(device).arenas);
  const blocks: PlannedBlock[] = [];
  const places = new Array<Placement | undefined>(t.entries.length).fill(undefined);
  let boundBytes = 0;
  for (const [device, list] of intervals) {
    const used = inUse(list);
    boundBytes += most(used);
    const packing = pack(list, used, layoutOf(device));
    const start = blocks.length;
    for (const nbytes of packing.nbytes) blocks.push({ device, nbytes });
    packing.places.forEach(({ block, offset }, i) => {
      const { entry, isAlone } = list[i];
      for (const e of isAlone ? [entry] : neighbors.get(entry)!) {
        places[e] = { block: start + block, offset };
        offset += roomOf(t.entries[e]);
      }
    });
  }
  return { blocks, places, boundBytes };
}

/** Bytes that a temporary takes. */
function roomOf({ size, dtype }: Plannable["entries"][number]): number {
  return roundUp(Math.max(size * dtype.itemsize, 1), ALIGN);
}

/** The temporaries by device, in the order of their first use; neighbors as one. */
function intervalsOf(t: Plannable, hasArenas: (device: string) => boolean): Map<string, Interval[]> {
  const headOf = new Map<number, readonly number[]>();
  if (envNumber("NO_MEMORY_PLANNER") === 0) {
    for (const list of t.neighbors ?? []) {
      if (hasArenas(t.entries[list[0]].device)) { for (const e of list) headOf.set(e, list); }
    }
  }
  const first = new Map<number, number>(), last = new Map<number, number>();
  t.items.forEach((item, i) => {
    for (const e of item.entries) {
      const { slot, kept, view } = t.entries[e];
      if (slot !== undefined || kept || view !== undefined) continue;
      const head = headOf.get(e)?.[0] ?? e;
      if (!first.has(head)) first.set(head, i);
      last.set(head, Math.max(last.get(head) ?? 0, t.beside?.get(i) ?? i));
    }
  });
  const out = new Map<string, Interval[]>();
  for (const [entry, from] of first) {
    const { device } = t.entries[entry], group = headOf.get(entry);
    const nbytes = (group ?? [entry]).reduce((n, e) => n + roomOf(t.entries[e]), 0);
    const interval = { entry, isAlone: group === undefined, nbytes, first: from, last: last.get(entry)! };
    const list = out.get(device);
    if (list === undefined) out.set(device, [interval]);
    else list.push(interval);
  }
  return out;
}

/** Bytes in use in each step. */
function inUse(list: readonly Interval[]): number[] {
  const steps = list.reduce((n, i) => Math.max(n, i.last + 1), 0);
  const change = new Array<number>(steps + 1).fill(0);
  for (const { first, last, nbytes } of list) {
    change[first] += nbytes;
    change[last + 1] -= nbytes;
  }
  let now = 0;
  return change.slice(0, steps).map((c) => now += c);
}

function pack(list: readonly Interval[], used: readonly number[], layout: MemoryLayout): Packing {
  if (envNumber("NO_MEMORY_PLANNER") > 0) {
    return { nbytes: list.map((i) => i.nbytes), places: list.map((_, block) => ({ block, offset: 0 })) };
  }
  if (!layout.arenas) return packInOrder(list, bySize(list), 0);
  const limit = envNumber("MAX_BUFFER_SIZE"), maxBytes = Math.min(layout.maxBytes, limit > 0 ? limit : Infinity);
  let best = packInTime(list);
  const fits = best.nbytes[0] <= maxBytes, bound = most(used);
  if (fits && (best.nbytes[0] === bound || list.length > MAX_COMPARED)) return best;
  if (!fits) best = packInOrder(list, bySize(list), maxBytes);
  for (const order of fits ? [bySize(list), byCrowd(list, used)] : [byCrowd(list, used)]) {
    const other = packInOrder(list, order, maxBytes);
    if (sum(other.nbytes) < sum(best.nbytes)) best = other;
  }
  return best;
}

function most(list: readonly number[]): number {
  return list.reduce((a, b) => Math.max(a, b), 0);
}

/** Positions, the largest first. */
function bySize(list: readonly Interval[]): number[] {
  return list.map((_, i) => i).sort((a, b) => list[b].nbytes - list[a].nbytes || a - b);
}

/** Positions: first what is there when most is in use, of those the ones that stay longest. */
function byCrowd(list: readonly Interval[], used: readonly number[]): number[] {
  const crowd = list.map(({ first, last }) => most(used.slice(first, last + 1)));
  const length = ({ first, last }: Interval): number => last - first;
  return list.map((_, i) => i).sort((a, b) => crowd[b] - crowd[a] || length(list[b]) - length(list[a]) || a - b);
}

/** One arena, filled in order of time: the smallest gap that suffices, as an allocator would choose. */
function packInTime(list: readonly Interval[]): Packing {
  const steps = list.reduce((n, i) => Math.max(n, i.last + 1), 0);
  const dying: number[][] = Array.from({ length: steps }, () => []);
  list.forEach((i, at) => dying[i.last].push(at));
  const offsets = new Array<number>(list.length);
  /** [start, end) of what is free below `top`, in order. */
  const gaps: [start: number, end: number][] = [];
  let top = 0, end = 0, next = 0;
  for (let step = 0; step < steps; step++) {
    for (; next < list.length && list[next].first === step; next++) {
      const { nbytes } = list[next];
      let best = -1;
      for (let g = 0; g < gaps.length; g++) {
        const room = gaps[g][1] - gaps[g][0];
        if (room >= nbytes && (best < 0 || room < gaps[best][1] - gaps[best][0])) best = g;
      }
      if (best >= 0) {
        offsets[next] = gaps[best][0];
        if ((gaps[best][0] += nbytes) === gaps[best][1]) gaps.splice(best, 1);
      } else {
        offsets[next] = top;
        top += nbytes;
        end = Math.max(end, top);
      }
    }
    for (const at of dying[step]) {
      const start = offsets[at], stop = start + list[at].nbytes;
      let g = gaps.findIndex((gap) => gap[0] > start);
      if (g < 0) g = gaps.length;
      gaps.splice(g, 0, [start, stop]);
      if (g + 1 < gaps.length && gaps[g + 1][0] === stop) gaps[g][1] = gaps.splice(g + 1, 1)[0][1];
      if (g > 0 && gaps[g - 1][1] === start) gaps[g - 1][1] = gaps.splice(g, 1)[0][1];
      const tail = gaps.at(-1)!;
      if (tail[1] === top) {
        top = tail[0];
        gaps.pop();
      }
    }
  }
  return { nbytes: list.length === 0 ? [] : [end], places: offsets.map((offset) => ({ block: 0, offset })) };
}

/**
 * One after another, each at the lowest offset that is free while it is in use (Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020: greedy by size, greedy by breadth). Blocks of at most `maxBytes`, but for what is larger itself; 0 gives
 * blocks that temporaries use one after another, never side by side.
 */
function packInOrder(list: readonly Interval[], order: readonly number[], maxBytes: number): Packing {
  const nbytes: number[] = [], members: number[][] = [];
  const places = new Array<Placement>(list.length);
  for (const i of order) {
    let block = 0, offset = 0;
    for (; block < nbytes.length; block++) {
      const found = lowestGap(list, members[block], places, list[i]);
      if (found > 0 && found + list[i].nbytes > maxBytes) continue;
      offset = found;
      break;
    }
    if (block === nbytes.length) {
      nbytes.push(0);
      members.push([]);
      offset = 0;
    }
    places[i] = { block, offset };
    nbytes[block] = Math.max(nbytes[block], offset + list[i].nbytes);
    // in order of offset
    const into = members[block];
    let at = into.length;
    while (at > 0 && places[into[at - 1]].offset > offset) at--;
    into.splice(at, 0, i);
  }
  return { nbytes, places };
}

/** The lowest offset at which `x` overlaps no member that is in use with it. `members` are in order of offset. */
function lowestGap(
  list: readonly Interval[],
  members: readonly number[],
  places: readonly Placement[],
  x: Interval,
): number {
  let offset = 0;
  for (const m of members) {
    const other = list[m];
    if (other.last < x.first || other.first > x.last) continue;
    if (places[m].offset - offset >= x.nbytes) return offset;
    offset = Math.max(offset, places[m].offset + other.nbytes);
  }
  return offset;
}
