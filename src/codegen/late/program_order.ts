/**
 * From a lowered kernel (graph of stage P, roots in a SINK) to the ordered list that renderers take. Each node stands in
 * the outermost loop that has all its ranges, so what does not change in a loop is outside of it by construction.
 *
 * Loops form a tree. An accumulator's loops stand inside the loops that its value depends on besides its own; where
 * several share a range, inside the loops of all. Output loops nest in the order given by {@linkcode compareLoops}.
 * A loop is one item in its parent's list, ordered by what goes in and comes out; STOREs end the body of their loop.
 *
 * The SINK holds the STOREs to memory (the gate of their INDEX becomes an IF around them), and STOREs to accumulators that
 * a plain walk would miss: those of tuple lanes that only other lanes read, and conditional ones as GROUP(STORE...,
 * condition), as STOREs to shared memory are. A TUPLE there is a wish: its values are computed before those of the next
 * one. What only a conditional STORE needs is computed under its condition, except where threads meet (BARRIER, SHUFFLE,
 * WMMA, ...): that all of them reach.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { argOf } from "../../uop/core/args.ts";
import { isCollective, Ops } from "../../uop/core/ops.ts";
import { index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { descend, throughAfter } from "../../uop/rewrite/walk.ts";
import { compareLoops, isReduceKind, kindOf } from "../ast/range_facts.ts";
import { RangeSets } from "../ast/range_sets.ts";

/** A list of statements: the whole kernel (range undefined) or the body of a loop. */
class Block {
  readonly items: number[] = [];
  readonly stores: number[] = [];
  level = 0;
  isConditional = false;
  /** Do threads meet in it? */
  isCollective = false;
  /** Is it among the items of its parent? */
  isPlaced = false;
  constructor(readonly range: UOp | undefined, readonly parent: Block | undefined, readonly item: number) {}
}

/** Whether a node of this op stands at the top of a program, before all loops. */
export function isLeaf(op: Ops): boolean {
  return op === Ops.PARAM || op === Ops.CONST || op === Ops.VARIABLE || op === Ops.LOCAL;
}

/** Is a STORE to memory of the program, rather than to an accumulator or to what threads of a group share? */
function isResult({ src: [at] }: UOp): boolean {
  return at.op === Ops.INDEX && throughAfter(at.src[0]).op === Ops.PARAM;
}

/** Group of an item in {@linkcode Linearizer} while sections are found: not seen yet; needed outside of sections. */
const UNSEEN = -2, OUTSIDE = -1;

/** The operands of products of tiles, as they are read from memory. */
function fragmentsOf(values: readonly UOp[]): UOp[] {
  const found: UOp[] = [];
  descend(values.flatMap((v) => v.op === Ops.WMMA ? v.src.slice(0, 2) : []).reverse(), (u) => {
    if (u.op === Ops.LDMATRIX || (u.op === Ops.LOAD && u.src[0].op === Ops.INDEX)) found.push(u);
    // what other products or other lanes give is no operand in memory
    else if (u.op !== Ops.WMMA && u.op !== Ops.SHUFFLE && u.op !== Ops.LOAD && u.op !== Ops.INDEX) {
      return u.src.toReversed();
    }
    return [];
  });
  return found;
}

/**
 * Values in the order in which to compute them: step by step. Matrix units have the operands of the next step before the
 * products of this one.
 */
function inOrder(steps: readonly (readonly UOp[])[]): UOp[] {
  const fragments = steps.map(fragmentsOf);
  return steps.flatMap((values, i) => [...(i === 0 ? fragments[0] : []), ...(fragments[i + 1] ?? []), ...values]);
}

/** Is each of `values` a source in `nodes`? Then there is nothing in `nodes` that only `values` need. */
function areUsed(values: readonly UOp[], nodes: readonly UOp[]): boolean {
  if (values.length === 0) return true;
  for (let i = 0; i < values.length; i++) values[i].at = -1;
  for (let i = 0; i < nodes.length; i++) {
    const { src } = nodes[i];
    for (let k = 0; k < src.length; k++) src[k].at = 0;
  }
  return values.every((u) => u.at === 0);
}

class Linearizer {
  private readonly nodes: UOp[];
  private readonly sets: RangeSets = new RangeSets();
  /** Sources by position: those of node i are `sources[first[i]]` to `sources[first[i + 1] - 1]`. */
  private readonly first: Int32Array;
  private readonly sources: Int32Array;
  /** By STORE: the position of its condition, or -1. */
  private readonly gate: Int32Array;
  /** By node: the set of ranges that it depends on. */
  private readonly free: Int32Array;
  /** By ACC: its list in `loopLists`, or -1 where it has no loops. */
  private readonly loops: Int32Array;
  /** Lists of the loops of accumulators, with the set of each. */
  private readonly loopLists: (readonly UOp[])[] = [];
  private readonly loopSets: number[] = [];
  /** By list and set around it, or by set: the state of the tree in which they were nested, which changes nothing again. */
  private readonly nested = new Map<number, number>();
  private readonly nestedSets: number[] = [];
  private treeState = 0;
  /** Has the running pass over all nodes changed what it began with? */
  private isNews = false;
  /** By ACC without loops: the set that its STOREs depend on. */
  private readonly around = new Map<number, number>();
  /** By ACC: its STOREs that the SINK lists, with those under the same condition. */
  private readonly updates = new Map<UOp, UOp[]>();
  /** By conditional STORE to an accumulator: the number of its GROUP. */
  private readonly groups = new Map<UOp, number>();
  /** By range: the set of ranges around it. */
  private readonly outer: number[] = [];
  /** Hardware indices and what their sizes are made of: they stand at the top too. */
  private readonly specials: readonly UOp[];
  private readonly top: Uint8Array;
  private readonly blocks: (Block | undefined)[] = [];
  private readonly blockOfSet: (Block | undefined)[] = [];
  private readonly root: Block = new Block(undefined, undefined, -1);
  /**
   * By item (a node, or nodes.length + a range): the first and the last of the links to the items before it (0: none).
   * Link k is to item `before[k]`, and link `next[k]` follows it.
   */
  private head: Int32Array = new Int32Array(0);
  private tail: Int32Array = this.head;
  private before: Int32Array = this.head;
  private next: Int32Array = this.head;
  private links = 0;
  /** By item: 1 where it stands in its block. */
  private done: Uint8Array = new Uint8Array(0);
  private readonly out: UOp[] = [];
  private readonly storesEarly: boolean;

  /** @param storesEarly for STOREs right after their values, where no buffer is both read and written */
  constructor(sink: UOp, storesEarly: boolean) {
    const gates = new Map<UOp, UOp>();
    const stores: UOp[] = [];
    const steps: UOp[][] = [];
    for (const s of sink.src) {
      if (s.op === Ops.TUPLE) {
        steps.push(s.src.map((x) => x.op === Ops.EXTRACT ? x.src[0] : x));
        continue;
      }
      if (s.op === Ops.GROUP) {
        const last = s.src.length - 1, number = this.groups.size;
        for (let i = 0; i < last; i++) {
          gates.set(s.src[i], s.src[last]);
          this.groups.set(s.src[i], number);
          if (s.src[i].src[0].op === Ops.INDEX) stores.push(s.src[i]);
          else this.update(s.src[i].src[0], s.src.slice(0, last));
        }
        continue;
      }
      const at = s.src[0];
      if (at.op === Ops.ACC) this.update(at, [s]);
      else if (at.op === Ops.INDEX && at.src.length > 2) {
        const plain = s.withSrc([index(at.src[0], at.src[1]), s.src[1]]);
        const before = gates.get(plain), now = at.src[2];
        gates.set(plain, before === undefined || before === now ? now : before.or(now));
        stores.push(plain);
      } else stores.push(s);
    }
    const nodes = this.nodes = this.reachable(stores, gates, inOrder(steps));
    const n = nodes.length, specials: UOp[] = [];
    let edges = 0;
    for (let i = 0; i < n; i++) {
      const u = nodes[i];
      if (u.op === Ops.SPECIAL) specials.push(u);
      edges += u.src.length;
    }
    this.specials = specials.length === 0 ? specials : toposort(specials).filter((u) => !isLeaf(u.op));
    this.top = new Uint8Array(n);
    this.first = new Int32Array(n + 1);
    this.sources = new Int32Array(edges);
    this.gate = new Int32Array(n).fill(-1);
    this.free = new Int32Array(n);
    this.loops = new Int32Array(n).fill(-1);
    for (let i = 0, e = 0; i < n; i++) {
      const u = nodes[i], { src } = u;
      u.at = i;
      this.first[i] = e;
      for (let k = 0; k < src.length; k++) this.sources[e++] = src[k].at;
      if (isLeaf(u.op)) this.top[i] = 1;
      else if (u.op === Ops.RANGE) this.outer[this.sets.position(u)] = 0;
      else if (u.op === Ops.ACC) {
        if (src.length === 1) this.around.set(i, 0);
        else this.loops[i] = this.loopList(src);
      }
    }
    this.first[n] = edges;
    for (const u of this.specials) this.top[u.at] = 1;
    for (const [s, g] of gates) if (nodes[s.at] === s) this.gate[s.at] = g.at;
    this.storesEarly = storesEarly && !this.isInPlace();
    let rounds = 0;
    while (this.analyze(stores)) {
      if (++rounds > 64) throw new SpecError("Loops of a kernel nest in each other");
    }
  }

  private isInPlace(): boolean {
    const written = new Set<UOp>();
    for (const u of this.nodes) if (u.op === Ops.STORE) written.add(u.src[0].src[0]);
    return this.nodes.some((u) =>
      u.op === Ops.LOAD && u.src[0].src[0]?.op === Ops.PARAM && written.has(u.src[0].src[0])
    );
  }

  /** The number of the list of loops that an ACC of these sources has. */
  private loopList(src: readonly UOp[]): number {
    const { loopLists, loopSets, sets } = this;
    for (let k = 0; k < loopLists.length; k++) {
      const list = loopLists[k];
      if (list.length !== src.length - 1) continue;
      let same = true;
      for (let i = 0; i < list.length && same; i++) same = list[i] === src[i + 1];
      if (same) return k;
    }
    const list = src.slice(1);
    loopSets.push(list.reduce((s, r) => sets.union(s, sets.single(r)), 0));
    return loopLists.push(list) - 1;
  }

  /** `stores` come before a reading of what `acc` holds after all. */
  private update(acc: UOp, stores: readonly UOp[]): void {
    const list = this.updates.get(acc);
    if (list === undefined) this.updates.set(acc, stores.slice());
    else list.push(...stores);
  }

  /** All nodes, sources first, with the listed updates of the accumulators among them. */
  private reachable(stores: readonly UOp[], gates: ReadonlyMap<UOp, UOp>, hints: readonly UOp[]): UOp[] {
    const roots: UOp[] = [];
    for (const s of stores) if (gates.has(s)) roots.push(gates.get(s)!);
    if (this.updates.size === 0) {
      const nodes = toposort([...hints, ...roots, ...stores]);
      if (areUsed(hints, nodes)) return nodes;
    }
    const done = new Set<UOp>();
    for (;;) {
      const nodes = toposort([...roots, ...stores]);
      const before = roots.length;
      if (done.size < this.updates.size) {
        for (const u of nodes) {
          if (u.op !== Ops.ACC || done.has(u)) continue;
          for (const s of this.updates.get(u) ?? []) {
            if (gates.has(s)) roots.push(gates.get(s)!);
            roots.push(s);
            done.add(u);
          }
        }
      }
      if (roots.length > before) continue;
      if (hints.length === 0) return nodes;
      const all = new Set(nodes);
      return toposort([...hints.filter((u) => all.has(u)), ...roots, ...stores]);
    }
  }

  // ---- the tree of loops

  /** Adds to what stands around the ranges of `loops` (outermost first). */
  private nest(loops: readonly UOp[], start: number, around: number): void {
    const { sets, outer } = this;
    for (let i = start; i < loops.length; i++) {
      const p = sets.position(loops[i]);
      const next = sets.without(sets.union(outer[p], around), loops, i);
      if (next !== outer[p]) {
        outer[p] = next;
        this.treeState++;
        this.isNews = true;
      }
      around = sets.union(around, sets.single(loops[i]));
    }
  }

  /** {@linkcode nest} for the loops of an accumulator, where that can be news. */
  private nestLoops(list: number, around: number): void {
    const key = list * 0x4000000 + around;
    if (this.nested.get(key) === this.treeState) return;
    this.nest(this.loopLists[list], 0, around);
    this.nested.set(key, this.treeState);
  }

  /** {@linkcode nest} for the loops around a STORE to memory, where that can be news. */
  private nestSet(set: number): void {
    if (this.nestedSets[set] === this.treeState) return;
    const loops = this.sets.list(set).sort(compareLoops);
    if (loops.some((r) => isReduceKind(kindOf(r)))) {
      throw new SpecError("A STORE depends on a loop that reduces");
    }
    this.nest(loops, 0, 0);
    this.nestedSets[set] = this.treeState;
  }

  /** One pass over all nodes; true if the loop tree changed and what was derived from it must be derived again. */
  private analyze(stores: readonly UOp[]): boolean {
    const { sets, nodes, free, outer, first, sources, around, loops, loopLists, loopSets } = this;
    this.isNews = false;
    for (let i = 0; i < nodes.length; i++) {
      const u = nodes[i];
      let s = 0;
      for (let e = first[i]; e < first[i + 1]; e++) {
        const t = free[sources[e]];
        if (t !== s && t !== 0) s = sets.union(s, t);
      }
      switch (u.op) {
        case Ops.RANGE:
          if (s !== 0) this.nest([u], 0, s);
          s = sets.union(s, sets.single(u));
          break;
        case Ops.ACC:
          s = loops[i] < 0 ? around.get(i)! : outer[sets.position(loopLists[loops[i]][0])];
          break;
        case Ops.LOAD:
          if (u.src[0].op === Ops.ACC && u.src[1].op !== Ops.RANGE) {
            const at = sources[first[i]];
            s = loops[at] < 0 ? around.get(at)! : outer[sets.position(loopLists[loops[at]][0])];
          }
          break;
        case Ops.STORE: {
          if (this.gate[i] >= 0) s = sets.union(s, free[this.gate[i]]);
          if (u.src[0].op !== Ops.ACC) break;
          const at = sources[first[i]], list = loops[at];
          if (list < 0) {
            const known = around.get(at)!;
            s = sets.union(s, known);
            if (s !== known) {
              around.set(at, s);
              this.isNews = true;
            }
            break;
          }
          s = sets.union(s, loopSets[list]);
          this.nestLoops(list, sets.without(s, loopLists[list], 0));
          break;
        }
        case Ops.AFTER: {
          let k = u.src.length;
          while (u.src[k - 1].op === Ops.RANGE) k--;
          if (k === u.src.length) break;
          s = sets.without(s, u.src, k);
          this.nest(u.src, k, s);
          s = outer[sets.position(u.src[k])];
          break;
        }
      }
      free[i] = s;
    }
    for (const u of stores) this.nestSet(free[u.at]);
    // What stands around a loop must itself be nested, in one chain; around what stands around it stands around it, too.
    for (let isClosed = false; !isClosed;) {
      isClosed = true;
      for (let p = 0; p < sets.ranges.length; p++) {
        if (outer[p] !== 0 && this.close(p)) isClosed = false;
      }
    }
    for (let p = 0; p < sets.ranges.length; p++) if (outer[p] !== 0) this.nest(this.sorted(outer[p]), 0, 0);
    return this.isNews;
  }

  /** Adds what stands around the ranges around `p`; true if there was any. */
  private close(p: number): boolean {
    const { sets, outer } = this, before = outer[p];
    for (const r of sets.list(before)) outer[p] = sets.union(outer[p], outer[sets.position(r)]);
    if (outer[p] === before) return false;
    if (sets.has(outer[p], sets.ranges[p])) throw new SpecError("Loops of a kernel nest in each other");
    this.treeState++;
    return true;
  }

  /** The ranges of a set, outermost first. */
  private sorted(set: number): UOp[] {
    const { sets, outer } = this;
    const depth = (r: UOp): number => sets.members[outer[sets.position(r)]].length;
    return sets.list(set).sort((a, b) => depth(a) - depth(b) || compareLoops(a, b));
  }

  private block(p: number): Block {
    let b = this.blocks[p];
    if (b === undefined) {
      const parent = this.blockOf(this.outer[p]);
      this.blocks[p] = b = new Block(this.sets.ranges[p], parent, this.nodes.length + p);
      b.level = parent.level + 1;
    }
    return b;
  }

  /** The block for nodes that depend on this set: its innermost loop. */
  private blockOf(set: number): Block {
    let b = this.blockOfSet[set];
    if (b === undefined) {
      b = this.root;
      for (const p of this.sets.members[set]) {
        const c = this.block(p);
        if (c.level > b.level) b = c;
      }
      this.blockOfSet[set] = b;
    }
    return b;
  }

  // ---- items and their order

  /** Records that item `x` of block `b` needs node `j` of block `c`, as an order of items where their loops meet. */
  private edge(x: number, b: Block, j: number, c: Block): void {
    let y = j;
    while (b !== c) {
      if (b.level >= c.level && b.parent !== undefined) {
        x = b.item;
        b = b.parent;
      } else {
        y = c.item;
        c = c.parent!;
      }
    }
    if (x === y) return;
    const last = this.tail[x];
    if (last !== 0 && this.before[last] === y) return;
    const k = ++this.links;
    if (k === this.before.length) this.grow();
    this.before[k] = y;
    if (last === 0) this.head[x] = k;
    else this.next[last] = k;
    this.tail[x] = k;
  }

  /** Makes room for links. */
  private grow(): void {
    const doubled = (a: Int32Array): Int32Array => Int32Array.from({ length: 2 * a.length }, (_, k) => a[k] ?? 0);
    this.before = doubled(this.before);
    this.next = doubled(this.next);
  }

  private place(): void {
    const { nodes, free, first, sources, gate, top } = this;
    const items = nodes.length + this.sets.ranges.length, edges = sources.length + items + 1;
    this.head = new Int32Array(items);
    this.tail = new Int32Array(items);
    this.before = new Int32Array(edges);
    this.next = new Int32Array(edges);
    const where: Block[] = new Array(nodes.length);
    for (let i = 0; i < nodes.length; i++) {
      if (top[i] === 0) where[i] = this.blockOfSet[free[i]] ?? this.blockOf(free[i]);
    }
    for (let i = 0; i < nodes.length; i++) {
      if (top[i] !== 0) continue;
      const u = nodes[i], b = where[i];
      if (isCollective(u.op)) {
        for (let c: Block | undefined = b; c !== undefined; c = c.parent) c.isCollective = true;
      }
      for (let c = b; !c.isPlaced && c.parent !== undefined; c = c.parent) {
        c.isPlaced = true;
        c.parent.items.push(c.item);
      }
      if (u.op === Ops.RANGE) {
        // the head of its block: only its end must come before
        const end = sources[first[i]];
        if (top[end] === 0 && nodes[end].op !== Ops.RANGE) this.edge(b.item, b.parent!, end, where[end]);
        continue;
      }
      for (let e = first[i]; e < first[i + 1]; e++) {
        const j = sources[e];
        if (top[j] === 0 && nodes[j].op !== Ops.RANGE) this.edge(i, b, j, where[j]);
      }
      if (u.op === Ops.STORE) {
        b.stores.push(i);
        const g = gate[i];
        if (g >= 0) {
          b.isConditional = true;
          if (top[g] === 0 && nodes[g].op !== Ops.RANGE) this.edge(i, b, g, where[g]);
        }
      } else {
        b.items.push(i);
        if (u.op === Ops.LOAD && u.src[0].op === Ops.ACC && u.src[1].op !== Ops.RANGE) {
          for (const s of this.updates.get(u.src[0]) ?? []) this.edge(i, b, s.at, where[s.at]);
        }
      }
    }
  }

  /** Puts an item behind what it needs. */
  private visit(item: number, out: number[]): void {
    const { before, next, done } = this;
    if (done[item] !== 0) return;
    done[item] = 1;
    for (let k = this.head[item]; k !== 0; k = next[k]) if (done[before[k]] === 0) this.visit(before[k], out);
    out.push(item);
  }

  /** The items of a block in order. */
  private order(b: Block): number[] {
    const { items, stores } = b, { head, before, next, done } = this, out: number[] = [];
    // each result leaves its registers before the next is computed
    if (this.storesEarly) {
      for (const item of stores) {
        if (isResult(this.nodes[item])) this.visit(item, out);
      }
    }
    for (let i = 0; i < items.length; i++) if (done[items[i]] === 0) this.visit(items[i], out);
    // addresses and conditions first, so that stores under one condition stand together
    for (let i = 0; i < stores.length; i++) {
      for (let k = head[stores[i]]; k !== 0; k = next[k]) if (done[before[k]] === 0) this.visit(before[k], out);
    }
    for (let i = 0; i < stores.length; i++) this.visit(stores[i], out);
    return out;
  }

  private emit(b: Block): void {
    const order = this.order(b);
    if (!b.isConditional) {
      for (let i = 0; i < order.length; i++) this.push(order[i]);
      return;
    }
    // Sections: a conditional STORE (or the STOREs to memory under one condition) and what only it needs.
    const { nodes, gate } = this;
    const last = new Map<number, number>(); // by section: its last STORE
    const sectionOf = new Map<number, number>();
    const group = new Map<number, number>();
    for (const i of b.stores) {
      if (gate[i] < 0) continue;
      const number = this.groups.get(nodes[i]);
      sectionOf.set(i, number === undefined ? gate[i] : nodes.length + number);
    }
    for (let k = 0; k < order.length; k++) if (sectionOf.has(order[k])) last.set(sectionOf.get(order[k])!, order[k]);
    for (let k = order.length - 1; k >= 0; k--) {
      const item = order[k];
      let g = sectionOf.get(item) ?? group.get(item) ?? UNSEEN;
      if (g === UNSEEN || this.isForAll(item, sectionOf.has(item))) g = OUTSIDE;
      group.set(item, g);
      for (let i = this.head[item]; i !== 0; i = this.next[i]) {
        const d = this.before[i], before = group.get(d) ?? UNSEEN;
        group.set(d, before === UNSEEN || before === g ? g : OUTSIDE);
      }
      // the condition is computed before
      if (sectionOf.has(item)) group.set(gate[item], OUTSIDE);
    }
    for (const item of order) {
      const g = group.get(item)!;
      if (g === OUTSIDE) this.push(item);
      else if (last.get(g) === item) {
        const head = uop(Ops.IF, dtypes.void, [nodes[gate[item]]], this.out.length); // blocks of one condition differ by arg
        this.out.push(head);
        for (const x of order) if (group.get(x) === g) this.push(x);
        this.out.push(uop(Ops.ENDIF, dtypes.void, [head]));
      }
    }
  }

  /** True for items that no condition may stand around. */
  private isForAll(item: number, isSection: boolean): boolean {
    if (item >= this.nodes.length) return this.blocks[item - this.nodes.length]!.isCollective;
    const { op } = this.nodes[item];
    return isCollective(op) || (op === Ops.STORE && !isSection);
  }

  private push(item: number): void {
    const n = this.nodes.length;
    if (item < n) {
      this.out.push(this.nodes[item]);
      return;
    }
    const b = this.blocks[item - n]!;
    this.out.push(b.range!);
    this.emit(b);
    this.out.push(uop(Ops.END, dtypes.void, [b.range!]));
  }

  run(): UOp[] {
    const { nodes, out } = this;
    const params: UOp[] = [], locals: UOp[] = [], variables: UOp[] = [], constants: UOp[] = [];
    for (let i = 0; i < nodes.length; i++) {
      const u = nodes[i];
      if (u.op === Ops.CONST) constants.push(u);
      else if (u.op === Ops.PARAM) params.push(u);
      else if (u.op === Ops.LOCAL) locals.push(u);
      else if (u.op === Ops.VARIABLE) variables.push(u);
    }
    params.sort((a, b) => argOf(a, Ops.PARAM).slot - argOf(b, Ops.PARAM).slot);
    out.push(...params, ...locals, ...variables, ...constants, ...this.specials);
    this.done = new Uint8Array(nodes.length + this.sets.ranges.length);
    this.place();
    this.emit(this.root);
    return out;
  }
}

/**
 * The ordered list for a lowered kernel. Deterministic.
 * @param storesEarly STOREs stand right after their values, not at the end of their loop
 * @throws {SpecError} where loops cannot nest
 */
export function linearize(sink: UOp, storesEarly = false): UOp[] {
  return new Linearizer(sink, storesEarly).run();
}
