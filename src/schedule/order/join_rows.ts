/**
 * Kernels of which each reads only its own row of what those before it made become one kernel with several phases: what they
 * hand on stays in the shared memory of a group, or in the caches of a thread. Steps of networks that sort and transform,
 * scans in blocks, and what users write in that form. In: kernels in their order. Out: the same, with such chains joined in
 * their last kernel.
 *
 * A row is a block of neighbors in memory: what the outer loops of a kernel choose. That an access stays in it is read off
 * its index: along the outer loops it moves by whole rows of what it reads, and what is left is within one. Several short
 * rows are one block. What a chain may be ends where a row is too large for the memory of a group, or for a share of the
 * second-level cache; where that holds all that kernels hand on anyway, they stay apart.
 *
 * @module
 */
import { envNumber } from "../../helpers/env.ts";
import { byteText } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { cacheShare, type Capabilities, hasLoopCache } from "../../renderer/renderer.ts";
import { indexForm, linearMax, linearMin, rangeOfFactor } from "../../uop/algebra/linear_form.ts";
import { type GroupLimits, memoryOfPhases, phasesOf } from "../../uop/algebra/row_phases.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { simplifyKernel, simplifyValid } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { index, int, load, mayHave, range, sink, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { note } from "../../uop/rewrite/record.ts";
import { reducesByKey } from "../../uop/graph/keyed_reduce.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { factsOf, loadsOf, renumber, Slots, slotWritten } from "../kernels/slots.ts";
import { entryOfKey, type Node, type VersionKey, weightOf } from "./kernel_graph.ts";
import type { EntryInfo } from "./template.ts";

/** Terms of a sum in a phase, at most: a thread adds them up. */
const MOST_TERMS = 64;
/** Terms from which a sum of products is for tiles, and matrix units. */
const PRODUCT_TERMS = 8;
/** Elements that a block should have: shorter rows share one. Where loops run it, of this many bytes with what becomes of them. */
const BLOCK_WORK = 2048, WORK_BYTES = 16;
/** Blocks that there are for each unit where short rows share one, at least. */
const BLOCKS_A_UNIT = 4;
/** Elements of a row, at most, where there are too few rows for half of the device: what one group does as fast as all. */
const FEW_ROWS = 1 << 12;
/** How many times less goes into a chain from which another one parts. */
const NARROW = 32;
/** Kernels whose loops say how rows may be cut, and ways to cut them, at most. */
const LOOKED_AT = 4, MOST_BLOCKS = 16;
/** Bytes of memory that are read as one. */
const PIECE = 32;
/** Weight of the bodies of a kernel, at most; and where few units, as of an adapter in software, take long to compile waits. */
const MOST_WEIGHT = 1 << 13, LIGHT_WEIGHT = 1 << 8, FEW_UNITS = 8;

/** Share of the second-level cache for what phases hand on: what they read and write besides takes the rest. */
const ROW_SHARE = 1 / 4;
/** Bytes of an element that a thread's memory holds as it is computed in: others are packed in memory alone. */
const PLAIN_BYTES = 4;

/** Where rows stay. */
interface Room {
  /** Bytes of it, and how many of them there are side by side. */
  readonly bytes: number;
  readonly units: number;
  /** Blocks that there must be: one row alone is nothing that loops could share. */
  readonly fewest: number;
  /** Bytes that a chain saves at least. */
  readonly least: number;
  /** Elements that a block should have. */
  readonly work: number;
  /** Weight of the bodies of a kernel, at most. */
  readonly weight: number;
  readonly kind: AxisKind;
  /** Of the groups of a grid; undefined where loops run. */
  readonly group: GroupLimits | undefined;
}

function roomOf(caps: Capabilities): Room | undefined {
  const { grid, threads, l2 } = caps;
  if (grid !== undefined) {
    const { units, sharedBytes: bytes } = grid, weight = units < FEW_UNITS ? LIGHT_WEIGHT : MOST_WEIGHT;
    return { bytes, units, fewest: 1, least: 0, work: BLOCK_WORK, weight, kind: AxisKind.GLOBAL, group: grid };
  }
  if (!hasLoopCache(caps)) return undefined;
  const bytes = cacheShare(caps, ROW_SHARE), work = Math.min(BLOCK_WORK, bytes / WORK_BYTES);
  return {
    bytes,
    units: threads,
    fewest: Math.max(2, threads),
    least: l2,
    work,
    weight: MOST_WEIGHT,
    kind: AxisKind.THREAD,
    group: undefined,
  };
}

/** The output loops of a kernel, outermost first in memory. */
interface Form {
  readonly ranges: readonly UOp[];
  /** Elements written. */
  readonly size: number;
}

const forms = new WeakMap<UOp, Form | null>();

/** The loops of a STORE that fills a buffer in order; undefined of others. */
function formOf(store: UOp): Form | undefined {
  let form = forms.get(store);
  if (form === undefined) forms.set(store, form = findForm(store));
  return form ?? undefined;
}

function findForm(store: UOp): Form | null {
  const [param, at, gate] = store.src[0].src, { size } = argOf(param, Ops.PARAM);
  if (gate !== undefined || at.dtype !== dtypes.int32 || factsOf(store).isSymbolic) return null;
  const { factors, coefs, constant } = indexForm(at);
  if (constant !== 0 || factors.some((f) => f.op !== Ops.RANGE)) return null;
  const order = factors.map((_, i) => i).sort((i, j) => coefs[j] - coefs[i]), ranges = order.map((i) => factors[i]);
  let stride = size;
  for (const i of order) if ((stride /= sizeOf(factors[i])) !== coefs[i]) return null;
  return stride === 1 && rangesOf(store).length === ranges.length ? { ranges, size } : null;
}

/** How many of the outermost loops choose one of `blocks`; -1 where none do. Copies, which share work, stay together. */
function leadsOf({ ranges }: Form, blocks: number): number {
  let n = 1, i = 0;
  while (n < blocks && i < ranges.length && argOf(ranges[i], Ops.RANGE).kind === AxisKind.LOOP) {
    n *= sizeOf(ranges[i++]);
  }
  return n === blocks ? i : -1;
}

const parted = new WeakMap<UOp, Map<number, UOp>>();

/** A STORE whose outermost loops choose one of `blocks`: where they choose parts of a loop, that is two loops. */
function partedBy(store: UOp, blocks: number): UOp {
  let known = parted.get(store);
  if (known === undefined) parted.set(store, known = new Map());
  let made = known.get(blocks);
  if (made === undefined) known.set(blocks, made = part(store, blocks));
  return made;
}

function part(store: UOp, blocks: number): UOp {
  const { ranges } = formOf(store)!;
  let n = 1, i = 0;
  while (i < ranges.length && n * sizeOf(ranges[i]) <= blocks) n *= sizeOf(ranges[i++]);
  const r = ranges[i], parts = blocks / n;
  if (parts === 1 || r === undefined || !Number.isInteger(parts) || sizeOf(r) % parts !== 0) return store;
  const { kind } = argOf(r, Ops.RANGE), { range: id } = freeIds(toposort(store)), inner = sizeOf(r) / parts;
  if (kind !== AxisKind.LOOP || r.dtype !== dtypes.int32) return store;
  return substitute(store, new Map([[r, range(parts, id, kind).mul(inner).add(range(inner, id + 1, kind))]]));
}

const light = new WeakMap<UOp, boolean>();

/** May a STORE be a phase: does each thread have little to add up? */
function isLight(store: UOp): boolean {
  let is = light.get(store);
  if (is === undefined) light.set(store, is = formOf(store) !== undefined && hasLittleWork(store));
  return is;
}

function hasLittleWork(store: UOp): boolean {
  if (!mayHave(store, Ops.REDUCE) && !mayHave(store, Ops.STAGE)) return true;
  return toposort(store).every((u) => {
    if (u.op === Ops.STAGE) return false;
    if (u.op !== Ops.REDUCE) return true;
    const own = ownRanges(u), terms = prod(own.map(sizeOf));
    if (terms === 0 || terms > MOST_TERMS) return false;
    const isFactor = (x: UOp): boolean => mayHave(x, Ops.LOAD) && own.some((r) => dependsOn(x, r));
    return terms < PRODUCT_TERMS || !(u.src[0].op === Ops.MUL && u.src[0].src.every(isFactor));
  });
}

/** Does `load`, of a buffer with `size` elements, read only the row of it that the first `leads` loops of `form` choose? */
function isInRow(l: UOp, { ranges }: Form, leads: number, size: number, blocks: number): boolean {
  const [buffer, at, gate] = l.src[0].src, row = size / blocks;
  // elements seen as others have other places
  if (!Number.isInteger(row) || at.dtype !== dtypes.int32 || argOf(buffer, Ops.PARAM).size !== size) return false;
  const { factors, coefs, constant } = indexForm(at);
  let stride = size, seen = 0;
  const strides = new Map(ranges.slice(0, leads).map((r) => [r, stride /= sizeOf(r)]));
  const rest = { factors: [] as UOp[], coefs: [] as number[], constant };
  for (let i = 0; i < factors.length; i++) {
    const f = factors[i], own = strides.get(rangeOfFactor(f)!);
    if (own !== undefined) {
      if (coefs[i] !== own) return false;
      seen++;
      continue;
    }
    for (const r of strides.keys()) if (dependsOn(f, r)) return false;
    rest.factors.push(f);
    rest.coefs.push(coefs[i]);
  }
  if (seen !== strides.size) return false;
  if (linearMin(rest) >= 0 && linearMax(rest) < row) return true;
  if (gate === undefined) return false;
  const inner = simplify(substitute(at, new Map([...strides.keys()].map((r) => [r, int(0)]))));
  const never = (u: UOp): boolean => simplifyValid(gate.and(u), inner)[0].isConst(0);
  return never(inner.lt(0)) && never(inner.lt(row).ne(1));
}

/** Do neighbors of a row lie as near to each other in what a kernel reads as rows do, or in one piece of memory? */
function readsAlong(store: UOp, leads: number): boolean {
  const rows = formOf(store)!.ranges.slice(0, leads);
  return toposort(store).every((l) => {
    if (l.op !== Ops.LOAD || l.src[0].src[0].op !== Ops.PARAM) return true;
    const { factors, coefs } = indexForm(l.src[0].src[1]);
    let across = Infinity, along = Infinity;
    factors.forEach((f, i) => {
      const r = rangeOfFactor(f), step = Math.abs(coefs[i]);
      if (r !== undefined && rows.includes(r)) across = Math.min(across, step);
      else if (rangesOf(f).length > 0) along = Math.min(along, step);
    });
    return along === Infinity || along <= across || along * l.dtype.itemsize < PIECE;
  });
}

/** What a chain may be: nodes by position, the last one first, and the bytes that need not go through memory. */
interface Chain {
  readonly members: readonly number[];
  readonly blocks: number;
  readonly saved: number;
}

/** The kernel of a chain, and the entries of its slots. */
interface Joined {
  readonly ast: UOp;
  readonly slots: Slots;
}

class Joiner {
  private readonly readers = new Map<number, number[]>();
  /** Nodes that write each entry. */
  private readonly writes = new Map<number, number[]>();
  private readonly bases: ReadonlySet<number>;
  private readonly gone = new Set<number>();
  private readonly inRow = new Map<UOp, Map<string, boolean>>();

  constructor(
    private readonly nodes: readonly Node[],
    private readonly infos: readonly EntryInfo[],
    private readonly capsOf: (device: string) => Capabilities,
  ) {
    const add = (map: Map<number, number[]>, e: number, i: number): void => {
      const list = map.get(e);
      if (list === undefined) map.set(e, [i]);
      else if (list[list.length - 1] !== i) list.push(i);
    };
    nodes.forEach((n, i) => {
      for (const r of n.reads) add(this.readers, entryOfKey(r), i);
      for (const w of n.writes) add(this.writes, entryOfKey(w), i);
    });
    this.bases = new Set(infos.flatMap((e) => e.view === undefined ? [] : [e.view.base]));
  }

  /** Is an entry only there to be read by kernels of this schedule, and written once? */
  private isTemporary(e: number): boolean {
    const { slot, kept, view } = this.infos[e];
    return slot === undefined && !kept && view === undefined && !this.bases.has(e) && this.writes.get(e)?.length === 1;
  }

  private isKernel(i: number): boolean {
    const n = this.nodes[i];
    return n.step === undefined && !this.gone.has(i) && n.stores.every(isLight) &&
      n.stores.every((s) => reducesByKey(s, this.capsOf(n.device)) === undefined);
  }

  /** Can it be computed where `end` is: is nothing that it reads written between? */
  private mayMove(i: number, end: number): boolean {
    for (const r of this.nodes[i].reads) {
      for (const w of this.writes.get(entryOfKey(r)) ?? []) if (w > i && w <= end) return false;
    }
    return true;
  }

  /** Do all that node `i` reads of entry `e` lie in the row that it computes? */
  private readsRow(i: number, e: number, blocks: number): boolean {
    const { stores, slots } = this.nodes[i], { size, dtype } = this.infos[e];
    return stores.every((store) => {
      const s = partedBy(store, blocks),
        key = `${slots.find(e)} ${size} ${dtype.id} ${blocks}`,
        known = this.inRow.get(s)?.get(key);
      if (known !== undefined) return known;
      const form = formOf(s)!, leads = leadsOf(form, blocks);
      const is = leads >= 0 &&
        loadsOf(s, slots.find(e)).every((l) => l.dtype === dtype && isInRow(l, form, leads, size, blocks));
      let map = this.inRow.get(s);
      if (map === undefined) this.inRow.set(s, map = new Map());
      map.set(key, is);
      return is;
    });
  }

  /** The chain that ends in node `end`, of kernels whose rows are one of `blocks`. */
  private grow(end: number, blocks: number, room: Room): Chain | undefined {
    const { nodes, infos } = this, members = new Set<number>(), candidates = new Set([end]);
    let weight = 0, hasOther = false;
    // from the last to the first: all that read one have been looked at before it
    while (candidates.size > 0) {
      const next = Math.max(...candidates);
      candidates.delete(next);
      if (next !== end && !this.joins(next, end, members, blocks, room)) {
        hasOther ||= this.isKernel(next);
        continue;
      }
      if ((weight += weightOf(nodes[next].stores)) > room.weight && next !== end) {
        hasOther = true;
        break;
      }
      members.add(next);
      for (const r of nodes[next].reads) {
        const [w] = this.writes.get(entryOfKey(r)) ?? [];
        if (w !== undefined && w < next) candidates.add(w);
      }
    }
    // where more could be joined, but is another chain, the two part where little goes through memory
    let count = members.size;
    if (hasOther || [...candidates].some((i) => this.isKernel(i))) {
      const bytes = this.bytesInto(members), all = bytes[count - 1];
      for (let n = count - 1; n > 1; n--) {
        if (bytes[n - 1] * NARROW > all) continue;
        count = n;
        break;
      }
    }
    if (count < 2) return undefined;
    const chain = [...members].slice(0, count);
    let saved = 0;
    for (const i of chain.slice(1)) {
      for (const w of nodes[i].writes) {
        const e = entryOfKey(w);
        saved += infos[e].size * infos[e].dtype.itemsize * (1 + (this.readers.get(e)?.length ?? 0));
      }
    }
    return saved > room.least ? { members: chain, blocks, saved } : undefined;
  }

  /** Bytes that the first member of a chain reads of what others make, the first two, and so on. */
  private bytesInto(members: ReadonlySet<number>): number[] {
    const { nodes, infos } = this, read = new Set<number>(), before = new Set<number>(), out: number[] = [];
    const bytesOf = (e: number): number => infos[e].size * infos[e].dtype.itemsize;
    let bytes = 0;
    for (const m of members) {
      before.add(m);
      for (const w of nodes[m].writes) if (read.delete(entryOfKey(w))) bytes -= bytesOf(entryOfKey(w));
      for (const r of nodes[m].reads) {
        const e = entryOfKey(r), [w] = this.writes.get(e) ?? [];
        if (w === undefined || before.has(w) || read.has(e)) continue;
        read.add(e);
        bytes += bytesOf(e);
      }
      out.push(bytes);
    }
    return out;
  }

  /** Is node `i` one that only members of the chain that ends in `end` read, each the row that it computes? */
  private joins(i: number, end: number, members: ReadonlySet<number>, blocks: number, { bytes, group }: Room): boolean {
    const n = this.nodes[i], { infos } = this;
    return n.device === this.nodes[end].device && this.isKernel(i) &&
      n.writes.every((w) => {
        const e = entryOfKey(w), { size, dtype } = infos[e];
        return this.isTemporary(e) && size / blocks * dtype.itemsize <= bytes &&
          (group !== undefined || dtype.itemsize >= PLAIN_BYTES) &&
          (this.readers.get(e) ?? []).every((r) => members.has(r) && this.readsRow(r, e, blocks));
      }) && n.stores.every((store) => {
        const s = partedBy(store, blocks), leads = leadsOf(formOf(s)!, blocks);
        return leads >= 0 && readsAlong(s, leads);
      }) && this.mayMove(i, end);
  }

  /** The kernel of the first `count` members of a chain; undefined where a group has not the memory for it. */
  private kernelOf({ members: all, blocks }: Chain, count: number, room: Room): Joined | undefined {
    const members = all.slice(0, count).sort((a, b) => a - b), end = all[0], { nodes } = this, slots = new Slots();
    const { maxBuffers } = this.capsOf(nodes[end].device), { units, group } = room;
    const rowOf = (i: number): number => formOf(nodes[i].stores[0])!.size / blocks;
    const row = Math.max(...members.map(rowOf)), lasts = members.map((i) => this.lastLead(i, blocks));
    if (2 * blocks < units && row > FEW_ROWS) return undefined;
    // short rows side by side, where there are enough for all units
    let side = 1;
    while (
      row * side < room.work && blocks / side >= BLOCKS_A_UNIT * units && lasts.every((n) => n % (2 * side) === 0)
    ) {
      side *= 2;
    }
    const groups = blocks / side, block = range(groups, 0, room.kind);
    let next = 1;
    const stages = new Map<number, UOp>(), stores: UOp[] = [];
    for (const i of members) {
      for (const own of nodes[i].stores) {
        const s = renumber(partedBy(own, blocks), nodes[i].slots, slots),
          form = formOf(s)!,
          leads = leadsOf(form, blocks);
        const beside = side > 1 ? range(side, next++, AxisKind.LOOP) : undefined;
        const whole = new Map<UOp, UOp>(),
          inside = new Map<UOp, UOp>(),
          mine: UOp[] = beside === undefined ? [] : [beside];
        let left = groups;
        form.ranges.forEach((r, k) => {
          if (k >= leads) {
            const fresh = range(sizeOf(r), next++, argOf(r, Ops.RANGE).kind);
            mine.push(fresh);
            whole.set(r, fresh);
            inside.set(r, fresh);
            return;
          }
          const size = k === leads - 1 ? sizeOf(r) / side : sizeOf(r),
            shifted = (left /= size) === 1 ? block : block.floorDiv(left);
          const digit = k === 0 ? shifted : shifted.floorMod(size), isLast = k === leads - 1 && beside !== undefined;
          whole.set(r, isLast ? digit.mul(side).add(beside) : digit);
          inside.set(r, isLast ? beside : int(0));
        });
        for (const r of toposort(s)) {
          if (r.op !== Ops.RANGE || whole.has(r)) continue;
          const fresh = range(sizeOf(r), next++, argOf(r, Ops.RANGE).kind);
          whole.set(r, fresh);
          inside.set(r, fresh);
        }
        const map = new Map(whole);
        for (const l of toposort(s)) {
          if (l.op !== Ops.LOAD || l.src[0].src[0].op !== Ops.PARAM) continue;
          const stage = stages.get(argOf(l.src[0].src[0], Ops.PARAM).slot), [, at, gate] = l.src[0].src;
          if (stage === undefined) continue;
          // where in its row; what an index reads is read where the whole says
          const place = new Map(inside);
          for (const x of toposort(at)) if (x.op === Ops.LOAD) place.set(x, map.get(x) ?? substitute(x, map));
          map.set(l, load(index(stage, simplify(substitute(at, place)), gate && substitute(gate, map))));
        }
        const value = substitute(s.src[1], map);
        if (i === end) stores.push(s.withSrc([substitute(s.src[0], whole), value]));
        else {stages.set(
            slotWritten(s),
            uop(Ops.STAGE, value.dtype, [value, ...mine], new StageArg(stages.size, "phase")),
          );}
      }
    }
    const ast = simplifyKernel(sink(stores));
    const { bytes } = group === undefined ? memoryOfPhases(ast) : phasesOf(ast, group);
    const params = toposort(ast).filter((u) => u.op === Ops.PARAM).length;
    return bytes <= room.bytes && params <= maxBuffers ? { ast, slots } : undefined;
  }

  /** The size of the innermost loop that chooses a row. */
  private lastLead(i: number, blocks: number): number {
    return Math.min(...this.nodes[i].stores.map((s) => {
      const form = formOf(partedBy(s, blocks))!, leads = leadsOf(form, blocks);
      return leads === 0 ? 1 : sizeOf(form.ranges[leads - 1]);
    }));
  }

  /** How many blocks there may be: as many as outer loops choose, of the last kernel or of some before it. */
  private blocksOf(end: number): Set<number> {
    const blocks = new Set<number>(), { size } = formOf(this.nodes[end].stores[0])!, seen = new Set([end]);
    for (const i of seen) {
      let n = 1;
      for (const r of [undefined, ...formOf(this.nodes[i].stores[0])!.ranges]) {
        if (r !== undefined) n *= sizeOf(r);
        if (size % n === 0 && blocks.size < MOST_BLOCKS) blocks.add(n);
      }
      if (seen.size >= LOOKED_AT) continue;
      for (const r of this.nodes[i].reads) {
        const e = entryOfKey(r), [w] = this.writes.get(e) ?? [];
        if (w !== undefined && w < end && this.isTemporary(e) && this.isKernel(w)) seen.add(w);
      }
    }
    return blocks;
  }

  /** Joins what can be, from the last kernel to the first. */
  run(): Node[] {
    const { nodes } = this;
    for (let end = nodes.length - 1; end > 0; end--) {
      if (!this.isKernel(end)) continue;
      const room = roomOf(this.capsOf(nodes[end].device)), chains: Chain[] = [];
      if (room === undefined) continue;
      for (const blocks of this.blocksOf(end)) {
        if (blocks < room.fewest) continue;
        const chain = this.grow(end, blocks, room);
        if (chain !== undefined) chains.push(chain);
      }
      // what saves most; of those the one with the smallest rows
      chains.sort((a, b) => b.saved - a.saved || b.blocks - a.blocks);
      const isJoined = chains.some((c) => {
        for (let count = c.members.length; count > 1; count = Math.ceil(count / 2)) {
          const kernel = this.kernelOf(c, count, room);
          if (kernel === undefined && count > 2) continue;
          if (kernel !== undefined) this.join(c.members.slice(0, count), kernel);
          return kernel !== undefined;
        }
        return false;
      });
      if (!isJoined && chains.length > 0) this.tellApart(chains[0], room);
    }
    return nodes.filter((_, i) => !this.gone.has(i));
  }

  /** Bytes of all that a kernel writes. */
  private bytesWritten({ writes }: Node): number {
    let bytes = 0;
    for (const w of writes) bytes += this.infos[entryOfKey(w)].size * this.infos[entryOfKey(w)].dtype.itemsize;
    return bytes;
  }

  /** Notes that kernels which could be joined by their rows are not. */
  private tellApart({ members, blocks, saved }: Chain, { bytes }: Room): void {
    if (!wantsNotes()) return;
    const kernels = members.length;
    const text = `${kernels} kernels that stay in their rows run apart: what ${
      blocks === 1 ? "one row" : `each of ${blocks} rows`
    } would hand on needs more than the ${byteText(bytes)} that there are near the threads, or there are too few rows`;
    note("missed", this.nodes[members[0]].roots[0], text, { kernels, blocks, saved });
  }

  /** The last of `members` does what all of them did. */
  private join([end, ...others]: readonly number[], { ast, slots }: Joined): void {
    const node = this.nodes[end], made = new Set<VersionKey>(), kernels = others.length + 1;
    if (wantsNotes()) {
      const bytes = others.reduce((n, i) => n + this.bytesWritten(this.nodes[i]), 0);
      const text = `${kernels} kernels are joined: each reads only its own row of what those before it made, and ` +
        `${byteText(bytes)} that they hand on stay near the threads`;
      note("passed", node.roots[0], text, { kernels, bytes });
    }
    for (const i of others) {
      const { reads, writes, roots, line } = this.nodes[i];
      for (const r of reads) node.reads.add(r);
      for (const w of writes) made.add(w);
      node.roots.push(...roots);
      node.line ??= line;
      this.gone.add(i);
    }
    for (const w of made) node.reads.delete(w);
    node.stores = [...ast.src];
    node.slots = slots;
  }
}

/** Is there room for rows on a device: in the memory of a group, or in a cache that it tells of? */
export function keepsRows(caps: Capabilities): boolean {
  return caps.hasGrid || hasLoopCache(caps);
}

/** Joins chains of kernels that stay in their rows. */
export function joinRows(nodes: Node[], infos: readonly EntryInfo[], capsOf: (device: string) => Capabilities): Node[] {
  return envNumber("NOOPT") !== 0 ? nodes : new Joiner(nodes, infos, capsOf).run();
}
