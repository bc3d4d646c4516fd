/**
 * Which copies the nodes of a kernel get: one for each combination of the expanded ranges (UPCAST, UNROLL, VECTOR) that a
 * node depends on. In: a kernel AST. Out: what its nodes depend on, and a walk over the combinations, of which one is
 * current at a time. Nothing is built here; expander.ts does that, and asks which combination it is in.
 *
 * A VECTOR range has two values more than lanes: its size for "all lanes", for which a node is a vector, and one more for
 * "some lane", for which it depends on a symbol.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { argOf, AxisKind, RangeArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds } from "../../uop/core/ranges.ts";
import { toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { compareLoops } from "../ast/range_facts.ts";
import { freeSets, RangeSets } from "../ast/range_sets.ts";

/** True for kinds that become copies or lanes. */
function isExpandedKind(kind: AxisKind): boolean {
  return kind === AxisKind.UPCAST || kind === AxisKind.UNROLL || kind === AxisKind.VECTOR;
}

/** The combinations of a kernel's expanded ranges. Ranges are known by their position in `sets`. */
export class Copies {
  readonly sets: RangeSets = new RangeSets();
  /** The nodes of the kernel, sources first. */
  readonly nodes: readonly UOp[];
  /** Nodes that have something to expand or lower below them. */
  readonly changes: Set<UOp> = new Set();
  /** Nodes with a LOAD or REDUCE below them. */
  readonly reads: Set<UOp> = new Set();
  /** By position: the copies or lanes of an expanded range, 0 of others. */
  readonly sizes: number[] = [];
  /** By position: true for a VECTOR range. */
  readonly lane: boolean[] = [];
  /** By position: the value of the range in the current combination. */
  readonly env: number[] = [];
  private readonly free: Map<UOp, number>;
  private readonly expanded: boolean[] = [];
  /** By set: the expanded positions in it. */
  private readonly expandedOf: (readonly number[] | undefined)[] = [];
  private readonly symbols: (UOp | undefined)[] = [];
  private nextRange: number;

  /** @throws {ArgumentError} where a value depends on two VECTOR ranges */
  constructor(sink: UOp) {
    this.nodes = toposort(sink);
    this.free = freeSets(this.nodes, this.sets);
    this.nextRange = freeIds(this.sets.ranges).range;
    for (const r of this.sets.ranges) {
      const { kind } = argOf(r, Ops.RANGE), p = this.sets.position(r);
      this.expanded[p] = isExpandedKind(kind);
      this.lane[p] = kind === AxisKind.VECTOR;
      this.sizes[p] = this.expanded[p] ? r.src[0].value : 0;
      this.env[p] = this.lane[p] ? this.sizes[p] : 0;
    }
    for (const set of new Set(this.free.values())) {
      if (this.sets.members[set].filter((p) => this.lane[p]).length > 1) {
        throw new ArgumentError("expand a kernel", { reason: "a value depends on two VECTOR axes" });
      }
    }
    for (const u of this.nodes) {
      let changed = u.op === Ops.REDUCE || u.op === Ops.STAGE, read = u.op === Ops.LOAD || u.op === Ops.REDUCE;
      if (u.op === Ops.RANGE) changed = this.isExpanded(u);
      for (const s of u.src) {
        changed ||= this.changes.has(s);
        read ||= this.reads.has(s);
      }
      if (changed) this.changes.add(u);
      if (read) this.reads.add(u);
    }
  }

  /** Makes the nodes below `root` known that were not in the kernel at first. */
  register(root: UOp): void {
    for (const x of toposort(root, (y) => !this.free.has(y))) {
      if (this.free.has(x)) continue;
      let s = 0;
      for (const y of x.src) s = this.sets.union(s, this.free.get(y)!);
      this.free.set(x, s);
      if (x.src.some((y) => this.changes.has(y))) this.changes.add(x);
      if (x.op === Ops.LOAD || x.src.some((y) => this.reads.has(y))) this.reads.add(x);
    }
  }

  // ---- what a node depends on

  /** False for nodes that the normal form of an index made: casts of atoms. */
  isKnown(u: UOp): boolean {
    return this.free.has(u);
  }

  /** Does a range become copies or lanes? */
  isExpanded(range: UOp): boolean {
    return this.expanded[this.sets.position(range)] ?? false;
  }

  /** The ranges that `u` depends on. */
  rangesOf(u: UOp): UOp[] {
    return this.sets.list(this.free.get(u)!);
  }

  /** The expanded ranges that `u` depends on, by position. */
  expandedIn(u: UOp): readonly number[] {
    const set = this.free.get(u)!;
    return this.expandedOf[set] ??= this.sets.members[set].filter((p) => this.expanded[p]);
  }

  /** The VECTOR range that `u` depends on, by position; -1 if none. */
  laneOf(u: UOp): number {
    for (const p of this.expandedIn(u)) if (this.lane[p]) return p;
    return -1;
  }

  /** Tells whether a node depends on the range at `p`. */
  dependsOn(p: number): (u: UOp) => boolean {
    const depends = (u: UOp): boolean => {
      const s = this.free.get(u);
      return s === undefined ? u.src.some(depends) : this.sets.members[s].includes(p);
    };
    return depends;
  }

  // ---- the current combination

  /** Number of the combination that the expanded ranges of `u` have now. */
  keyOf(u: UOp): number {
    const positions = this.expandedIn(u);
    let k = 0;
    for (let i = 0; i < positions.length; i++) {
      const p = positions[i];
      k = k * (this.sizes[p] + 2) + this.env[p];
    }
    return k;
  }

  /** Runs `fn` for every combination of `positions` (all lanes at once for VECTOR), the last one fastest. */
  each(positions: readonly number[], fn: () => void, at = 0): void {
    if (at === positions.length) return fn();
    const p = positions[at], before = this.env[p];
    if (this.lane[p]) {
      this.env[p] = this.sizes[p];
      this.each(positions, fn, at + 1);
    } else {
      for (let i = 0; i < this.sizes[p]; i++) {
        this.env[p] = i;
        this.each(positions, fn, at + 1);
      }
    }
    this.env[p] = before;
  }

  /** What `fn` returns where the range at `p` has `value`. */
  with<T>(p: number, value: number, fn: () => T): T {
    const before = this.env[p];
    this.env[p] = value;
    const result = fn();
    this.env[p] = before;
    return result;
  }

  // ---- ranges of their own

  /** The range that stands for "some lane" of the one at `p`. */
  symbol(p: number): UOp {
    return this.symbols[p] ??= this.loop(this.sets.ranges[p]);
  }

  /** A new loop with the iterations of `range`. One of kind VECTOR may run for all of them at a time. */
  loop(range: UOp, kind: AxisKind = AxisKind.LOOP): UOp {
    return uop(Ops.RANGE, range.dtype, [range.src[0]], new RangeArg(this.nextRange++, kind));
  }

  /** By range: its place in the order of loops, outermost first. */
  loopOrder(): Map<UOp, number> {
    return new Map(this.sets.ranges.slice().sort(compareLoops).map((r, i) => [r, i]));
  }
}

/** What was made for each copy of a node, by node and {@linkcode Copies.keyOf}. */
export class CopyMemo<T> {
  private readonly made = new Map<UOp, Map<number, T>>();

  get(u: UOp, key: number): T | undefined {
    return this.made.get(u)?.get(key);
  }

  set(u: UOp, key: number, value: T): T {
    let copies = this.made.get(u);
    if (copies === undefined) this.made.set(u, copies = new Map());
    copies.set(key, value);
    return value;
  }
}
