/**
 * Collectives that go as one: sums of gradients wait for each other, up to some bytes, and are then one step over memory in
 * which they lie next to each other (memory_plan.ts). In: nodes in a legal order. Out: one in which those that may go
 * together follow each other, early, with what reads them as late as the graph allows; then their steps as one. A function
 * of the graph alone, so that it is the same on all ranks.
 *
 * @module
 */
import type { CollectiveArg } from "../../uop/core/sharding.ts";
import { type Node, predecessors } from "./kernel_graph.ts";
import type { EntryInfo, TemplateItem } from "./template.ts";

/** Bytes of a bucket, and of the first one, which starts the earlier: as in PyTorch's DistributedDataParallel. */
const BUCKET = 25e6, FIRST_BUCKET = 1e6;

type Infos = readonly Pick<EntryInfo, "size" | "dtype" | "kept" | "slot" | "view">[];

/** What collectives that go together have in common; undefined for those that go alone. */
function bucketKey(step: TemplateItem | undefined, infos: Infos): string | undefined {
  if (step?.kind !== "collective" || step.entries.length !== 2) return undefined;
  const { kind, mesh, axes, op } = step.collective!, [to, from] = step.entries.map((e) => infos[e]);
  const isFree = (i: Infos[number]): boolean => !i.kept && i.slot === undefined && i.view === undefined;
  return kind === "allReduce" && isFree(to) && isFree(from)
    ? `${from.dtype} ${op} ${axes} ${mesh} ${mesh.device}`
    : undefined;
}

function bytesOf(step: TemplateItem, infos: Infos): number {
  const { size, dtype } = infos[step.entries[1]];
  return size * dtype.itemsize;
}

/** Nodes that some candidate depends on. */
function leadingOn(before: readonly ReadonlySet<number>[], keys: readonly (string | undefined)[]): Uint8Array {
  const leads = new Uint8Array(before.length), todo = [...keys.keys()].filter((i) => keys[i] !== undefined);
  while (todo.length > 0) {
    for (const j of before[todo.pop()!]) {
      if (leads[j] === 1) continue;
      leads[j] = 1;
      todo.push(j);
    }
  }
  return leads;
}

/** Collectives on their way to a bucket. */
interface Bucket {
  members: number[];
  nbytes: number;
  isFirst: boolean;
}

/** The nodes with collectives that can go together next to each other; `nodes` themselves where there are none. */
export function bringTogether(nodes: readonly Node[], infos: Infos): readonly Node[] {
  const keys = nodes.map((n) => bucketKey(n.step, infos));
  const known = keys.filter((k) => k !== undefined);
  if (new Set(known).size === known.length) return nodes; // none has a companion
  const before = predecessors(nodes), leads = leadingOn(before, keys), out: number[] = [];
  const isOut = new Uint8Array(nodes.length), buckets = new Map<string, Bucket>();
  const emit = (i: number): void => {
    out.push(i);
    isOut[i] = 1;
  };
  const flush = (bucket: Bucket): void => {
    bucket.members.forEach(emit);
    Object.assign(bucket, { members: [], nbytes: 0, isFirst: false });
  };
  let left = nodes.map((_, i) => i);
  while (left.length > 0) {
    const held: number[] = [];
    for (const i of left) {
      const isReady = [...before[i]].every((j) => isOut[j] === 1), key = keys[i];
      if (!isReady) held.push(i);
      else if (key === undefined) emit(i);
      else {
        const bucket = buckets.get(key) ?? { members: [], nbytes: 0, isFirst: true };
        buckets.set(key, bucket);
        bucket.members.push(i);
        bucket.nbytes += bytesOf(nodes[i].step!, infos);
        if (bucket.nbytes >= (bucket.isFirst ? FIRST_BUCKET : BUCKET)) flush(bucket);
      }
    }
    // what others wait for goes first; the rest may become more until the end
    const all = [...buckets.values()].filter((b) => b.members.length > 0);
    const needed = all.filter((b) => b.members.some((i) => leads[i] === 1));
    (needed.length > 0 ? needed : all).forEach(flush);
    left = held;
  }
  return out.map((i) => nodes[i]);
}

/** The steps with collectives that follow each other and can go together as one: entries are what they write, then what they read. */
export function joinCollectives(items: readonly TemplateItem[], infos: Infos): readonly TemplateItem[] {
  const out: TemplateItem[] = [];
  let key: string | undefined, nbytes = 0, count = 0;
  for (const item of items) {
    const own = bucketKey(item, infos), last = out.at(-1);
    const isTaken = last?.kind === "collective" && item.entries.some((e) => last.entries.includes(e));
    if (own === undefined || own !== key || isTaken || nbytes >= (count === 1 ? FIRST_BUCKET : BUCKET)) {
      out.push(item);
      if (own !== undefined) [nbytes, count] = [bytesOf(item, infos), key === own ? count + 1 : 1];
      key = own;
      continue;
    }
    const half = last!.entries.length / 2, [to, from] = item.entries;
    out[out.length - 1] = {
      ...last!,
      entries: [...last!.entries.slice(0, half), to, ...last!.entries.slice(half), from],
    };
    nbytes += bytesOf(item, infos);
  }
  return out;
}

/** The entries that one collective writes, and those that it reads, where it has several of each: they lie next to each other. */
export function neighborsOf(
  items: readonly { readonly entries: readonly number[]; readonly collective?: CollectiveArg }[],
): number[][] {
  return items.flatMap(({ entries, collective }) => {
    const half = entries.length / 2;
    return collective === undefined || half < 2 ? [] : [entries.slice(0, half), entries.slice(half)];
  });
}
