/**
 * Reads of what is overwritten. Assignments of one schedule read the versions that were there before it: a kernel that
 * reads a version comes before the one that writes the next. Where kernels stand before each other in a circle, no order
 * of them does that, and something must be kept aside: what a kernel computes of the old version (the new value of an
 * assignment, a sum of what it reads, a part of it, or all of it), in memory of its own. In, kernels in any order; out,
 * the nodes of the graph to be kept, as few bytes as a greedy choice finds.
 *
 * @module
 */
import { CycleError } from "../../helpers/errors.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { bodiesOf } from "./entries.ts";
import { type Node, type VersionKey, writersOf } from "./kernel_graph.ts";

/** Bytes that one kernel more is worth. */
const KERNEL_BYTES = 1 << 12;

/** A read, by what one node computes, of a version that another kernel overwrites: it must come before that kernel. */
interface Read {
  readonly from: number;
  readonly to: number;
  readonly root: UOp;
  readonly key: VersionKey;
}

/** A node to be kept: then all that `root` reads of `key` is no such read any more; where one is undefined, of all. */
interface Cut {
  readonly node: UOp;
  readonly cost: number;
  readonly root: UOp | undefined;
  readonly key: VersionKey | undefined;
}

/** Groups of nodes that are before each other, by node; -1 for those that are in none. */
function circles(after: readonly (readonly number[])[]): Int32Array {
  const count = after.length;
  const group = new Int32Array(count).fill(-1), low = new Int32Array(count), seen = new Int32Array(count);
  const stack: number[] = [], onStack = new Uint8Array(count), cursor = new Int32Array(count);
  let time = 0;
  for (let start = 0; start < count; start++) {
    if (seen[start] !== 0) continue;
    const path = [start];
    while (path.length > 0) {
      const i = path[path.length - 1];
      if (seen[i] === 0) {
        seen[i] = low[i] = ++time;
        stack.push(i);
        onStack[i] = 1;
      }
      let next = -1;
      while (cursor[i] < after[i].length) {
        const j = after[i][cursor[i]++];
        if (seen[j] === 0) {
          next = j;
          break;
        }
        if (onStack[j] === 1) low[i] = Math.min(low[i], seen[j]);
      }
      if (next >= 0) {
        path.push(next);
        continue;
      }
      path.pop();
      if (path.length > 0) {
        const parent = path[path.length - 1];
        low[parent] = Math.min(low[parent], low[i]);
      }
      if (low[i] !== seen[i]) continue;
      const alone = stack[stack.length - 1] === i;
      for (let j = -1; j !== i;) {
        j = stack.pop()!;
        onStack[j] = 0;
        if (!alone) group[j] = i;
      }
    }
  }
  return group;
}

/** Whether a read is one still, once a cut is made. */
function isLeftBy({ root, key }: Cut): (r: Read) => boolean {
  return (r) => (root !== undefined && r.root !== root) || (key !== undefined && r.key !== key);
}

/** The kernels, and what orders them: what cannot be changed, and reads of what is overwritten. */
class Order {
  readonly writer: ReadonlyMap<VersionKey, number>;
  /** By kernel, those that must come after it whatever is kept. */
  private readonly after: number[][];
  private readonly reads: Read[] = [];
  private readonly reached = new Map<number, Uint8Array>();
  private readonly regions = new Map<UOp, readonly UOp[]>();

  constructor(private readonly nodes: readonly Node[], private readonly keyOf: (u: UOp) => VersionKey | undefined) {
    this.writer = writersOf(nodes);
    this.after = nodes.map(() => []);
    nodes.forEach((n, i) => {
      for (const w of n.writes) this.edge(this.writer.get(w - 1), i);
      for (const r of n.reads) this.edge(this.writer.get(r), i);
      for (const root of n.roots) {
        for (const key of new Set(this.region(root).map(keyOf))) {
          if (key === undefined || !n.reads.has(key)) continue;
          const to = this.writer.get(key + 1);
          if (to !== undefined && to !== i) this.reads.push({ from: i, to, root, key });
        }
      }
    });
  }

  private edge(from: number | undefined, to: number): void {
    if (from !== undefined && from !== to) this.after[from].push(to);
  }

  /** The nodes that one kernel computes for `root`, itself left out, and those in memory that it reads; sources first. */
  private region(root: UOp): readonly UOp[] {
    let region = this.regions.get(root);
    if (region === undefined) {
      region = toposort(bodiesOf(root), (u) => this.keyOf(u) === undefined);
      this.regions.set(root, region);
    }
    return region;
  }

  /** What to keep so that there is an order. @throws {CycleError} */
  cuts(): Set<UOp> {
    const kept = new Set<UOp>(), known = new Map<Read, readonly Cut[]>();
    for (let left = this.reads;;) {
      const after = this.after.map((list) => list.slice());
      for (const { from, to } of left) after[from].push(to);
      const group = circles(after);
      const stuck = left.filter((r) => group[r.from] >= 0 && group[r.from] === group[r.to]);
      if (stuck.length === 0) {
        if (group.some((g) => g >= 0)) this.refuse(group);
        return kept;
      }
      const byRoot = new Map<UOp, number>(), byKey = new Map<VersionKey, number>();
      for (const { root, key } of stuck) {
        byRoot.set(root, (byRoot.get(root) ?? 0) + 1);
        byKey.set(key, (byKey.get(key) ?? 0) + 1);
      }
      const bestBut = (late: ReadonlySet<Cut>): Cut | undefined => {
        let best: Cut | undefined, least = Infinity;
        for (const read of stuck) {
          let cuts = known.get(read);
          if (cuts === undefined) known.set(read, cuts = this.cutsOf(read));
          for (const cut of cuts) {
            const removed = cut.root === undefined
              ? byKey.get(read.key)!
              : cut.key === undefined
              ? byRoot.get(read.root)!
              : 1;
            if (cut.cost / removed < least && !late.has(cut)) [best, least] = [cut, cut.cost / removed];
          }
        }
        return best;
      };
      const late = new Set<Cut>();
      let best = bestBut(late);
      while (best !== undefined && this.isLate(best, left.filter(isLeftBy(best)))) best = bestBut(late.add(best));
      best ??= bestBut(new Set()); // perhaps with others
      if (best === undefined) this.refuse(group);
      kept.add(best.node);
      left = left.filter(isLeftBy(best));
    }
  }

  private refuse(group: Int32Array): never {
    const lines = this.nodes.flatMap((n, i) => group[i] >= 0 && n.line !== undefined ? [String(n.line)] : []);
    throw new CycleError(lines.length > 0 ? [...new Set(lines)] : ["an unknown line"]);
  }

  /** What may be kept instead of a read: the nodes through which all of what `root` computes sees the version. */
  private cutsOf({ root, key }: Read): Cut[] {
    const region = this.region(root), uses = new Map<UOp, readonly UOp[]>(), cuts: Cut[] = [];
    for (const u of region) {
      const at = this.keyOf(u), sees = at === undefined ? u.src.filter((s) => uses.has(s)) : [];
      if (at === key || sees.length > 0) uses.set(u, sees);
    }
    // from the root down: a node is on all ways where no other one is still to be visited
    const open = new Set(bodiesOf(root).filter((b) => uses.has(b)));
    for (let k = region.length - 1; k >= 0 && open.size > 0; k--) {
      const u = region[k];
      if (!open.delete(u)) continue;
      const cost = numelOf(u) * u.dtype.itemsize + KERNEL_BYTES;
      if (this.keyOf(u) === key) cuts.push({ node: u, cost, root: undefined, key }); // all who read it read the copy
      else if (open.size === 0 && this.isInTime(u)) {
        const isValue = root.op === Ops.STORE && root.src[1] === u;
        cuts.push({ node: isValue ? root : u, cost, root, key: isValue ? undefined : key });
      }
      for (const s of uses.get(u)!) open.add(s);
    }
    return cuts;
  }

  /** The kernels that make what `u` is computed of, and those that overwrite it. */
  private around(u: UOp): { made: number[]; next: number[] } {
    const made: number[] = [], next: number[] = [];
    for (const v of this.region(u)) {
      const key = this.keyOf(v);
      if (key === undefined) continue;
      const by = this.writer.get(key), then = this.writer.get(key + 1);
      if (by !== undefined) made.push(by);
      if (then !== undefined) next.push(then);
    }
    return { made, next };
  }

  /** Whether `u` could be computed before what it reads is overwritten. */
  private isInTime(u: UOp): boolean {
    const { made, next } = this.around(u);
    return next.every((i) => {
      const reached = this.reachedFrom(i);
      return made.every((m) => reached[m] === 0);
    });
  }

  /** Whether what is kept would itself stand in a circle, with the reads that are `left`. */
  private isLate({ node, root }: Cut, left: readonly Read[]): boolean {
    if (root === undefined) return false; // memory as it is
    const { made, next } = this.around(node.op === Ops.STORE ? node.src[1] : node);
    if (made.length === 0) return false;
    const after = this.after.map((list) => list.slice()), reached = new Set(next);
    for (const { from, to } of left) after[from].push(to);
    for (const i of reached) for (const j of after[i]) reached.add(j);
    return made.some((m) => reached.has(m));
  }

  /** The kernels that come after one whatever is kept, and itself. */
  private reachedFrom(start: number): Uint8Array {
    let reached = this.reached.get(start);
    if (reached !== undefined) return reached;
    this.reached.set(start, reached = new Uint8Array(this.nodes.length));
    const stack = [start];
    reached[start] = 1;
    for (let i = stack.pop(); i !== undefined; i = stack.pop()) {
      for (const j of this.after[i]) {
        if (reached[j] !== 0) continue;
        reached[j] = 1;
        stack.push(j);
      }
    }
    return reached;
  }
}

/**
 * The nodes to be kept so that kernels can be ordered: of STOREs the values; of nodes that are memory a copy. `keyOf`
 * tells which version a node in memory is.
 *
 * @throws {CycleError} where nothing helps
 */
export function findCuts(nodes: readonly Node[], keyOf: (u: UOp) => VersionKey | undefined): Set<UOp> {
  return new Order(nodes, keyOf).cuts();
}
