/**
 * From a lowered kernel (graph of stage P, roots in a SINK) to the ordered list that renderers take. Each node stands in
 * the outermost loop that has all its ranges, so what does not change in a loop is outside of it by construction.
 *
 * Loops form a tree. An accumulator's loops stand inside the loops that its value depends on besides its own; where
 * several share a range, inside the loops of all. Output loops nest in the order given by {@linkcode compareLoops}.
 * Updates of accumulators that nothing reads after the loop may stand in the SINK: they are kept where another needs them.
 * A loop is one item in its parent's list, ordered by what goes in and comes out; STOREs end the body of their loop.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { SpecError } from "../helpers/errors.ts";
import { AxisKind, type ParamArg, type RangeArg } from "../uop/args.ts";
import { Ops } from "../uop/ops.ts";
import { index, toposort, type UOp, uop } from "../uop/uop.ts";
import { RangeSets } from "./range_sets.ts";

/** Order of loops where nothing else decides: THREAD outermost, then output loops, then reduces, each by id and piece. */
export function compareLoops(a: UOp, b: UOp): number {
  const x = a.arg as RangeArg, y = b.arg as RangeArg;
  return rank(x.kind) - rank(y.kind) || x.id - y.id || x.sub - y.sub;
}

function rank(kind: AxisKind): number {
  if (kind === AxisKind.THREAD || kind === AxisKind.GLOBAL) return 0;
  return kind === AxisKind.REDUCE || kind === AxisKind.GROUP_REDUCE ? 2 : 1;
}

/** A list of statements: the whole kernel (range undefined) or the body of a loop. */
class Block {
  readonly items: number[] = []; // nodes by position; loops as -1 - their position among the ranges
  readonly stores: number[] = [];
  level = 0;
  constructor(readonly range: UOp | undefined, readonly parent: Block | undefined, readonly id: number) {}
}

/** Nodes that stand at the top, before all loops. */
function isTop(op: Ops): boolean {
  return op === Ops.PARAM || op === Ops.CONST || op === Ops.VARIABLE || op === Ops.LOCAL;
}

/** True for LOAD(ACC, after): the value after the loops. LOAD(ACC, range) is the value in the loop. */
function readsResult(u: UOp): boolean {
  return u.op === Ops.LOAD && u.src[0].op === Ops.ACC && u.src[1].op !== Ops.RANGE;
}

class Linearizer {
  private nodes: UOp[];
  private readonly gates = new Map<UOp, UOp>();
  private readonly sets = new RangeSets();
  private readonly position = new Map<UOp, number>();
  private readonly free: number[] = [];
  /** By range: the set of ranges around it. */
  private readonly outer: number[] = [];
  private readonly blocks: (Block | undefined)[] = [];
  private readonly blockOfSet: (Block | undefined)[] = [];
  private readonly root: Block = new Block(undefined, undefined, -1);
  private readonly deps = new Map<number, number[]>();
  private readonly emitted = new Set<number>();
  private readonly out: UOp[] = [];

  constructor(sink: UOp) {
    const roots: UOp[] = [];
    const stores: UOp[] = [];
    const sets = new Map<UOp, UOp>();
    for (const s of sink.src) {
      const at = s.src[0];
      if (at.op === Ops.ACC) {
        sets.set(at, s);
        continue;
      }
      if (at.op !== Ops.INDEX || at.src.length < 3) stores.push(s);
      else {
        const gate = at.src[2];
        const plain = s.withSrc([index(at.src[0], at.src[1]), s.src[1]]);
        const before = this.gates.get(plain);
        this.gates.set(plain, before === undefined || before === gate ? gate : before.or(gate));
        roots.push(this.gates.get(plain)!);
        stores.push(plain);
      }
    }
    this.nodes = toposort([...roots, ...stores]);
    // a lane of a tuple that only the other lanes read: its updates too
    for (let i = 0; i < this.nodes.length && sets.size > 0; i++) {
      const set = sets.get(this.nodes[i]);
      if (set === undefined) continue;
      sets.delete(this.nodes[i]);
      roots.push(set);
      this.nodes = toposort([...roots, ...stores]);
      i = 0;
    }
    this.nodes.forEach((u, i) => this.position.set(u, i));
    for (const u of this.nodes) if (u.op === Ops.RANGE) this.outer[this.sets.position(u)] = 0;
    let rounds = 0;
    while (this.analyze(stores)) {
      if (++rounds > 64) throw new SpecError("Loops of a kernel nest in each other");
    }
  }

  /** Adds to what stands around the ranges of `loops` (outermost first). True if that is news. */
  private nest(loops: readonly UOp[], start: number, around: number): boolean {
    let changed = false;
    for (let i = start; i < loops.length; i++) {
      const p = this.sets.position(loops[i]);
      const next = this.sets.without(this.sets.union(this.outer[p], around), loops, i);
      if (next !== this.outer[p]) {
        this.outer[p] = next;
        changed = true;
      }
      around = this.sets.union(around, this.sets.single(loops[i]));
    }
    return changed;
  }

  /** One pass over all nodes; true if the loop tree changed and what was derived from it must be derived again. */
  private analyze(stores: readonly UOp[]): boolean {
    const { sets, nodes, free, outer, position } = this;
    let changed = false;
    for (let i = 0; i < nodes.length; i++) {
      const u = nodes[i];
      let s = 0;
      for (const x of u.src) s = sets.union(s, free[position.get(x)!]);
      if (u.op === Ops.RANGE) {
        if (s !== 0 && this.nest([u], 0, s)) changed = true;
        s = sets.union(s, sets.single(u));
      } else if (u.op === Ops.ACC) {
        s = u.src.length > 1 ? outer[sets.position(u.src[1])] : free[position.get(u.src[0])!];
      } else if (readsResult(u)) {
        const acc = u.src[0];
        if (acc.src.length > 1) s = outer[sets.position(acc.src[1])];
      } else if (u.op === Ops.STORE) {
        const gate = this.gates.get(u);
        if (gate !== undefined) s = sets.union(s, free[position.get(gate)!]);
        if (u.src[0].op === Ops.ACC) {
          const acc = u.src[0].src;
          for (let k = 1; k < acc.length; k++) s = sets.union(s, sets.single(acc[k]));
          if (this.nest(acc, 1, sets.without(s, acc, 1))) changed = true;
        }
      } else if (u.op === Ops.AFTER && u.src[u.src.length - 1].op === Ops.RANGE) {
        let k = u.src.length;
        while (u.src[k - 1].op === Ops.RANGE) k--;
        s = sets.without(s, u.src, k);
        if (this.nest(u.src, k, s)) changed = true;
        s = outer[sets.position(u.src[k])];
      }
      free[i] = s;
    }
    for (const u of stores) {
      const around = sets.list(free[position.get(u)!]).sort(compareLoops);
      if (around.some((r) => rank((r.arg as RangeArg).kind) === 2)) {
        throw new SpecError("A STORE depends on a loop that reduces");
      }
      if (this.nest(around, 0, 0)) changed = true;
    }
    // What stands around a loop must itself be nested, in one chain.
    for (let p = 0; p < sets.ranges.length; p++) {
      const chain = this.sorted(outer[p]);
      for (const r of chain) {
        outer[p] = sets.union(outer[p], outer[sets.position(r)]);
        if (sets.has(outer[p], sets.ranges[p])) throw new SpecError("Loops of a kernel nest in each other");
      }
      if (this.nest(this.sorted(outer[p]), 0, 0)) changed = true;
    }
    return changed;
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
      this.blocks[p] = b = new Block(this.sets.ranges[p], parent, -1 - p);
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

  private depend(user: number, source: number): void {
    const list = this.deps.get(user);
    if (list === undefined) this.deps.set(user, [source]);
    else if (list[list.length - 1] !== source) list.push(source);
  }

  /** Records that node `i` in block `b` needs node `j` in block `c`, as an order of items where their loops meet. */
  private edge(i: number, b: Block, j: number, c: Block): void {
    let x = i, y = j;
    while (b !== c) {
      if (b.level >= c.level && b.parent !== undefined) {
        x = b.id;
        b = b.parent;
      } else {
        y = c.id;
        c = c.parent!;
      }
    }
    if (x !== y) this.depend(x, y);
  }

  private place(): void {
    const { nodes, free, position } = this;
    const placed = new Set<Block>([this.root]);
    const where: Block[] = new Array(nodes.length);
    for (let i = 0; i < nodes.length; i++) {
      const u = nodes[i];
      if (isTop(u.op)) continue;
      const b = this.blockOf(free[i]);
      for (let c = b; !placed.has(c); c = c.parent!) {
        placed.add(c);
        c.parent!.items.push(c.id);
      }
      where[i] = b;
      if (u.op === Ops.RANGE) {
        // the head of its block: only its end must come before
        const end = position.get(u.src[0])!;
        if (where[end] !== undefined) this.edge(b.id, b.parent!, end, where[end]);
        continue;
      }
      if (u.op === Ops.STORE) b.stores.push(i);
      else b.items.push(i);
      for (const s of u.src) this.source(i, b, s, where);
      const gate = u.op === Ops.STORE ? this.gates.get(u) : undefined;
      if (gate !== undefined) this.source(i, b, gate, where);
    }
  }

  private source(i: number, b: Block, s: UOp, where: readonly Block[]): void {
    if (isTop(s.op) || s.op === Ops.RANGE) return;
    const j = this.position.get(s)!;
    this.edge(i, b, j, where[j]);
  }

  private visit(item: number): void {
    if (this.emitted.has(item)) return;
    this.emitted.add(item);
    const before = this.deps.get(item);
    if (before !== undefined) { for (let k = 0; k < before.length; k++) this.visit(before[k]); }
    if (item < 0) return this.emitBlock(this.blocks[-1 - item]!);
    const u = this.nodes[item];
    const gate = u.op === Ops.STORE ? this.gates.get(u) : undefined;
    if (gate === undefined) {
      this.out.push(u);
      return;
    }
    const last = this.out[this.out.length - 1];
    let open: UOp;
    if (last?.op === Ops.ENDIF && last.src[0].src[0] === gate) {
      this.out.pop();
      open = last.src[0];
    } else this.out.push(open = uop(Ops.IF, dtypes.void, [gate]));
    this.out.push(u, uop(Ops.ENDIF, dtypes.void, [open]));
  }

  private emitBlock(b: Block): void {
    if (b.range !== undefined) this.out.push(b.range);
    for (const item of b.items) this.visit(item);
    // addresses and gates first, so that stores under one condition stand together
    for (const item of b.stores) for (const d of this.deps.get(item) ?? []) this.visit(d);
    for (const item of b.stores) this.visit(item);
    if (b.range !== undefined) this.out.push(uop(Ops.END, dtypes.void, [b.range]));
  }

  run(): UOp[] {
    const { nodes, out } = this;
    const params = nodes.filter((u) => u.op === Ops.PARAM)
      .sort((a, b) => (a.arg as ParamArg).slot - (b.arg as ParamArg).slot);
    out.push(...params);
    for (const op of [Ops.LOCAL, Ops.VARIABLE, Ops.CONST]) for (const u of nodes) if (u.op === op) out.push(u);
    this.place();
    this.emitBlock(this.root);
    return out;
  }
}

/** The ordered list for a lowered kernel. Deterministic. @throws {SpecError} where loops cannot nest */
export function linearize(sink: UOp): UOp[] {
  return new Linearizer(sink).run();
}
