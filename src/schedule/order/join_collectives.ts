/**
 * Collectives that go as one: sums of gradients wait for each other, up to some bytes, and are then one step: over memory in
 * which they lie next to each other (memory_plan.ts), or as a group, where each rank gets parts of several. In: nodes in a legal order. Out: one in which those that may go
 * together follow each other, early, with what reads them as late as the graph allows; then their steps as one. A function
 * of the graph alone, so that it is the same on all ranks.
 *
 * @module
 */
import { byteText } from "../../helpers/errors.ts";
import { groupBy, sum } from "../../helpers/math.ts";
import { type NoteKind, wantsNotes } from "../../uop/core/notes.ts";
import type { CollectiveArg } from "../../uop/core/sharding.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { type Node, predecessors } from "./kernel_graph.ts";
import type { EntryInfo, TemplateItem } from "./template.ts";
import { lastBeside, waitsOf } from "./under_way.ts";

/** Bytes of a bucket, and of the first one, which starts the earlier: as in PyTorch's DistributedDataParallel. */
const BUCKET = 25e6, FIRST_BUCKET = 1e6;

type Infos = readonly Pick<EntryInfo, "size" | "dtype" | "kept" | "slot" | "view">[];

/** What collectives that go together have in common; undefined for those that go alone. */
function bucketKey(step: TemplateItem | undefined, infos: Infos): string | undefined {
  if (step?.kind !== "collective" || step.entries.length !== 2) return undefined;
  const { kind, mesh, axes, op } = step.collective!, [to, from] = step.entries.map((e) => infos[e]);
  const isFree = (i: Infos[number]): boolean => !i.kept && i.slot === undefined && i.view === undefined;
  return kind === "reduceScatter" || (liesTogether(kind) && isFree(to) && isFree(from))
    ? `${kind} ${from.dtype} ${op} ${axes} ${mesh} ${mesh.device}`
    : undefined;
}

function bytesOf(step: TemplateItem, infos: Infos): number {
  const { size, dtype } = infos[step.entries[1]];
  return size * dtype.itemsize;
}

/** Whether several collectives of a kind are one over memory that lies next to each other: others have parts between. */
function liesTogether(kind: CollectiveArg["kind"]): boolean {
  return kind === "allReduce";
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
  if (!nodes.some((n) => n.step?.kind === "collective")) return nodes;
  const keys = nodes.map((n) => bucketKey(n.step, infos)), reduces = nodes.map((n) => isReduction(n.step));
  const before = predecessors(nodes), leads = leadingOn(before, keys), out: number[] = [];
  const isOut = new Uint8Array(nodes.length), buckets = new Map<string, Bucket>();
  let started = new Set<number>();
  const emit = (i: number): void => {
    out.push(i);
    isOut[i] = 1;
    if (reduces[i]) started.add(i);
  };
  const flush = (bucket: Bucket): void => {
    bucket.members.forEach(emit);
    Object.assign(bucket, { members: [], nbytes: 0, isFirst: false });
  };
  let left = nodes.map((_, i) => i);
  while (left.length > 0) {
    const held: number[] = [];
    started = new Set();
    for (const i of left) {
      // what reads a reduction lets all go first that does not
      const isReady = [...before[i]].every((j) => isOut[j] === 1 && !started.has(j)), key = keys[i];
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
  const early = startEarly(out, before, nodes, keys);
  return early.every((i, at) => i === at) ? nodes : early.map((i) => nodes[i]);
}

function isReduction(step: TemplateItem | undefined): boolean {
  const kind = step?.collective?.kind;
  return kind === "allReduce" || kind === "reduceScatter";
}

/**
 * `order` with each collective where what it reads is there: reductions, with those of their bucket, at once, and what is
 * computed for them alone as soon as it can be, but for what other ranks wait for; others, which
 * make more of what they are given, no earlier than what first reads those before, so that there is no more at a time than
 * two steps read.
 */
function startEarly(
  order: readonly number[],
  before: readonly ReadonlySet<number>[],
  nodes: readonly Node[],
  keys: readonly (string | undefined)[],
): readonly number[] {
  const out: number[] = [], readers = firstReaders(order, before, nodes), feeds = feedingOnly(before, nodes);
  const isMove = (i: number): boolean => nodes[i].step?.kind === "collective";
  const leads = leadingOn(before, nodes.map((_, i) => isMove(i) ? "" : undefined));
  /** What reads the collectives that were placed last, and those before them. */
  let reader: number | undefined, readerBefore: number | undefined;
  for (let i = 0; i < order.length;) {
    const group = [order[i++]], { step } = nodes[group[0]], key = keys[group[0]];
    while (key !== undefined && i < order.length && keys[order[i]] === key) group.push(order[i++]);
    let place = out.length;
    if (step?.kind === "collective") {
      let least = 0;
      if (!isReduction(step)) {
        const own = readers.get(group[0]);
        if (own !== reader) [reader, readerBefore] = [own, reader];
        const at = readerBefore === undefined ? -1 : out.indexOf(readerBefore);
        least = at < 0 ? place : at;
      }
      while (place > least && !group.some((g) => before[g].has(out[place - 1]))) place--;
    } else if (feeds[group[0]] === 1) {
      const own = before[group[0]], isUrgent = (j: number): boolean => isMove(j) && leads[j] === 1;
      while (own.size > 0 && place > 0 && !own.has(out[place - 1]) && !isUrgent(out[place - 1])) place--;
    }
    out.splice(place, 0, ...group);
  }
  return out;
}

/** Nodes whose results reductions alone read. */
function feedingOnly(before: readonly ReadonlySet<number>[], nodes: readonly Node[]): Uint8Array {
  const feeds = new Uint8Array(nodes.length), others = new Uint8Array(nodes.length);
  before.forEach((list, i) => {
    for (const j of list) (isReduction(nodes[i].step) ? feeds : others)[j] = 1;
  });
  return feeds.map((f, i) => nodes[i].step === undefined && others[i] === 0 ? f : 0);
}

/** By collective, the first of `order` that waits for it. */
function firstReaders(
  order: readonly number[],
  before: readonly ReadonlySet<number>[],
  nodes: readonly Node[],
): ReadonlyMap<number, number> {
  const out = new Map<number, number>();
  for (const i of order) {
    for (const j of before[i]) if (nodes[j].step?.kind === "collective" && !out.has(j)) out.set(j, i);
  }
  return out;
}

/**
 * The steps with collectives that follow each other and can go together as one: entries are what they write, then what they
 * read. `nodeOf` gives the node that a step is, for notes of what goes together, and why the rest does not.
 */
export function joinCollectives(
  items: readonly TemplateItem[],
  infos: Infos,
  nodeOf?: (item: TemplateItem) => UOp | undefined,
): readonly TemplateItem[] {
  const out: TemplateItem[] = [], tells = nodeOf !== undefined && wantsNotes();
  const groups: Group[] = [];
  let key: string | undefined, nbytes = 0, count = 0;
  for (const item of items) {
    const own = bucketKey(item, infos), last = out.at(-1);
    const isTaken = last?.kind === "collective" && item.entries.some((e) => last.entries.includes(e));
    if (own === undefined || own !== key || isTaken || nbytes >= (count === 1 ? FIRST_BUCKET : BUCKET)) {
      if (tells && item.kind === "collective") {
        const [before] = groups.at(-1)?.members ?? [];
        const same = last?.kind !== "collective"
          ? "a step between them waits for the one before, or is waited for"
          : isTaken
          ? "they use the same memory"
          : "those before have as many bytes as go at once";
        const why = before === undefined
          ? ""
          : own === undefined
          ? aloneText(item)
          : otherText(item, before, infos) ?? same;
        groups.push({ members: [item], why });
      }
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
    if (tells) groups.at(-1)!.members.push(item);
  }
  if (tells) tellGroups(groups, infos, nodeOf);
  return out;
}

/** Collectives that go as one, and why they are apart from those before; empty for the first ones. */
interface Group {
  readonly members: TemplateItem[];
  readonly why: string;
}

/** Why a collective goes with no other. */
function aloneText({ entries, collective }: TemplateItem): string {
  const { kind } = collective!, isOfBuckets = kind === "reduceScatter" || liesTogether(kind);
  return isOfBuckets && entries.length === 2 ? "its memory is the program's" : `${kind} has its parts apart`;
}

/** By what a collective differs from that before it, so that they cannot go together. */
function otherText(item: TemplateItem, other: TemplateItem, infos: Infos): string | undefined {
  const [a, b] = [item, other].map(({ collective, entries: [, from] }) => ({
    what: `${collective!.kind} ${collective!.op}`,
    dtype: infos[from].dtype,
    ranks: `${collective!.axes} ${collective!.mesh} ${collective!.mesh.device}`,
  }));
  if (bucketKey(other, infos) === undefined) return "the one before goes with no other";
  if (a.what !== b.what) return "the one before does something else";
  if (a.dtype !== b.dtype) return `the one before is of ${b.dtype}`;
  return a.ranks !== b.ranks ? "the one before is among other ranks" : undefined;
}

/** Tells of collectives that go as one, and, once for each reason, of those that could not go with those before. */
function tellGroups(groups: readonly Group[], infos: Infos, nodeOf: (item: TemplateItem) => UOp | undefined): void {
  const tell = (kind: NoteKind, of: readonly TemplateItem[], textOf: (what: string) => string): void => {
    const nbytes = sum(of.map((item) => bytesOf(item, infos))), node = nodeOf(of[0]), { length: collectives } = of;
    const what = collectives === 1 ? "a collective goes" : `${collectives} collectives go`;
    if (node !== undefined) note(kind, node, textOf(what), { collectives, bytes: nbytes });
  };
  for (const { members } of groups) {
    if (members.length > 1) {
      tell("passed", members, (what) => `${what} as one, of ${byteText(sum(members.map((m) => bytesOf(m, infos))))}`);
    }
  }
  for (const [why, list] of groupBy(groups.filter((g) => g.why !== ""), (g) => g.why)) {
    tell("missed", list.map((g) => g.members[0]), (what) => `${what} not with those before: ${why}`);
  }
}

/** The entries that one collective writes, and those that it reads, where it has several of each: they lie next to each other. */
export function neighborsOf(
  items: readonly { readonly entries: readonly number[]; readonly collective?: CollectiveArg }[],
): number[][] {
  return items.flatMap(({ entries, collective }) => {
    const half = entries.length / 2;
    return collective === undefined || half < 2 || !liesTogether(collective.kind)
      ? []
      : [entries.slice(0, half), entries.slice(half)];
  });
}

/** By collective, the last step that runs beside it: one that is waited for where the first step needs its memory. */
export function stepsBeside(items: readonly TemplateItem[], infos: Infos): ReadonlyMap<number, number> | undefined {
  if (!items.some((i) => i.kind === "collective")) return undefined;
  const baseOf = (e: number): number => infos[e].view?.base ?? e;
  const touched = items.map(({ entries }) => new Set(entries.map(baseOf)));
  return lastBeside(waitsOf({
    count: items.length,
    movedBytes: (i) => movedBytes(items[i], infos),
    conflicts: (i, c) => items[c].entries.some((e) => touched[i].has(baseOf(e))),
  }));
}

/** What a collective reads, in bytes. */
function movedBytes({ kind, entries }: TemplateItem, infos: Infos): number | undefined {
  if (kind !== "collective") return undefined;
  return sum(entries.slice(entries.length / 2).map((e) => infos[e].size * infos[e].dtype.itemsize));
}
