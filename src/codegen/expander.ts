/**
 * Replaces the ranges of kinds UPCAST, UNROLL and VECTOR by copies and lanes, and lowers REDUCE and STAGE on the way.
 * In: a kernel AST with its opts applied. Out: a graph of stage P (loops, accumulators, vectors) for the linearizer.
 *
 * A node has one copy for each combination of the expanded ranges that it depends on, made on demand and kept by that
 * combination, so the work is linear in what comes out. A VECTOR range has one value more than lanes: "all of them", for
 * which a node is a vector. Indices are never vectors: an address that grows by one a lane is a vector access, any other
 * is an access a lane.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { ArgumentError, SpecError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { AccArg, AxisKind, LocalArg, RangeArg, type StageArg } from "../uop/args.ts";
import { vmax, vmin } from "../uop/bounds.ts";
import { elementsOf, type Fragment, type TensorCore } from "../renderer/tensor_core.ts";
import { CarrierArg } from "../uop/carrier.ts";
import { foldConst } from "../uop/eval.ts";
import { isAlu, Ops } from "../uop/ops.ts";
import { substitute } from "../uop/rewrite.ts";
import { constant, index, toposort, type UOp, uop } from "../uop/uop.ts";
import { simplifyKernel, splitAnd } from "../uop/valid.ts";
import { broadcast, buildAlu, extract, vectorize } from "./fold.ts";
import { isThreadKind } from "./gpudims.ts";
import { combineThreads } from "./group.ts";
import { linearOf, rangeOfAtom, slopeOf } from "./linear_form.ts";
import { compareLoops } from "./linearizer.ts";
import { rowRead } from "./opt/tensor_core.ts";
import { paddedIndex, paddedSize, WIDE } from "./opt/stage_shared.ts";
import { freeSets, RangeSets } from "./range_sets.ts";
import { lowerReduce } from "./reduce.ts";
import { fillShared } from "./shared.ts";

/** True for kinds that become copies or lanes. */
export function isExpanded(kind: AxisKind): boolean {
  return kind === AxisKind.UPCAST || kind === AxisKind.UNROLL || kind === AxisKind.VECTOR;
}

/** An index expression split by how it changes from copy to copy. */
interface Address {
  /** The sum of the terms that no copy changes; undefined when there is none. */
  readonly rest: UOp | undefined;
  /** Position of an expanded range, coefficient. */
  readonly expanded: readonly (readonly [position: number, coefficient: number])[];
  /** Other terms that differ from copy to copy. */
  readonly opaque: readonly (readonly [atom: UOp, coefficient: number])[];
  readonly constant: number;
  readonly dtype: DType;
}

/** How the tiles of a ring are read: `together` unrolled steps after what `bases` of their number stand behind. */
interface Ring {
  readonly bases: readonly UOp[];
  readonly positions: readonly number[];
  readonly together: number;
}

/** Accumulators that keep the floating-point units busy: units times latency. */
const BUSY_ACCUMULATORS = 8;

class Expander {
  private readonly sets = new RangeSets();
  private readonly free: Map<UOp, number>;
  private readonly nodes: readonly UOp[];
  /** Nodes that have something to expand or lower below them. */
  private readonly changes = new Set<UOp>();
  /** Nodes with a LOAD or REDUCE below them. */
  private readonly reads = new Set<UOp>();
  private readonly sizes: number[] = [];
  private readonly lane: boolean[] = [];
  private readonly expanded: boolean[] = [];
  /** By range position: the value it has now; its size for "all lanes", one more for "some lane" (a symbol). */
  private readonly env: number[] = [];
  /** By set: the expanded positions in it, and its VECTOR range or -1. */
  private readonly expandedOf: (readonly number[] | undefined)[] = [];
  private readonly order = new Map<UOp, number>();
  private readonly memo = new Map<UOp, Map<number, UOp>>();
  private readonly reduces = new Map<UOp, Map<number, readonly UOp[]>>();
  private readonly stages = new Map<UOp, Map<number, UOp>>();
  /** By STAGE in a ring: where the buffer of this iteration begins. */
  private readonly slots = new Map<UOp, UOp>();
  /** By STAGE in a ring that is filled between the steps in which it is read. */
  private readonly rings = new Map<UOp, Ring>();
  private readonly addresses = new Map<UOp, Address>();
  private readonly updates: UOp[] = [];
  /** By REDUCE: the values after each unrolled index, of all copies. */
  private readonly steps = new Map<UOp, UOp[][]>();
  /** By vector dtype: a buffer for the lanes of loads at an edge. */
  private readonly edges = new Map<DType, UOp>();
  private readonly symbols: (UOp | undefined)[] = [];
  private nextRange = 0;
  private accumulators = 0;
  private locals = 0;

  constructor(private readonly sink: UOp, private readonly warp: number) {
    this.nodes = toposort(sink);
    this.free = freeSets(this.nodes, this.sets);
    for (const r of this.sets.ranges) {
      const { kind, id } = r.arg as RangeArg, p = this.sets.position(r);
      this.expanded[p] = isExpanded(kind);
      this.nextRange = Math.max(this.nextRange, id + 1);
      this.lane[p] = kind === AxisKind.VECTOR;
      this.sizes[p] = this.expanded[p] ? r.src[0].value : 0;
      this.env[p] = this.lane[p] ? this.sizes[p] : 0;
    }
    for (const set of new Set(this.free.values())) {
      if (this.sets.members[set].filter((p) => this.lane[p]).length > 1) {
        throw new ArgumentError("expand a kernel", { reason: "a value depends on two VECTOR axes" });
      }
    }
    this.sets.ranges.slice().sort(compareLoops).forEach((r, i) => this.order.set(r, i));
    for (const u of this.nodes) {
      let changed = u.op === Ops.REDUCE || u.op === Ops.STAGE, read = u.op === Ops.LOAD || u.op === Ops.REDUCE;
      if (u.op === Ops.RANGE) changed = this.expanded[this.sets.position(u)];
      for (const s of u.src) {
        changed ||= this.changes.has(s);
        read ||= this.reads.has(s);
      }
      if (changed) this.changes.add(u);
      if (read) this.reads.add(u);
    }
  }

  run(): UOp {
    const out: UOp[] = [];
    for (const s of this.sink.src) this.storeCopies(s, this.expandedIn(this.free.get(s)!), out);
    const hints: UOp[] = [];
    for (const steps of this.steps.values()) {
      if (steps.length > 1 && steps[0].length > 1) {
        for (const values of steps) hints.push(uop(Ops.TUPLE, dtypes.void, values));
      }
    }
    return uop(Ops.SINK, dtypes.void, [...out, ...this.updates, ...hints], this.sink.arg);
  }

  // ---- combinations

  private expandedIn(set: number): readonly number[] {
    return this.expandedOf[set] ??= this.sets.members[set].filter((p) => this.expanded[p]);
  }

  /** Number of the combination that `positions` have now. */
  private key(positions: readonly number[]): number {
    let k = 0;
    for (let i = 0; i < positions.length; i++) {
      const p = positions[i];
      k = k * (this.sizes[p] + 2) + this.env[p];
    }
    return k;
  }

  /** Runs `fn` for every combination of `positions` (all lanes at once for VECTOR), the last one fastest. */
  private each(positions: readonly number[], fn: () => void, at = 0): void {
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

  private with<T>(p: number, value: number, fn: () => T): T {
    const before = this.env[p];
    this.env[p] = value;
    const result = fn();
    this.env[p] = before;
    return result;
  }

  /** The VECTOR range that `u` depends on, by position; -1 if none. */
  private laneOf(u: UOp): number {
    for (const p of this.expandedIn(this.free.get(u)!)) if (this.lane[p]) return p;
    return -1;
  }

  /** Tells whether a node depends on the range at `p`. */
  private dependsOnLane(p: number): (u: UOp) => boolean {
    const depends = (u: UOp): boolean => {
      const s = this.free.get(u);
      // nodes made by the normal form (casts of atoms) are not in the table
      return s === undefined ? u.src.some(depends) : this.sets.members[s].includes(p);
    };
    return depends;
  }

  // ---- values

  /** The copy of `u` for the current combination. */
  private get(u: UOp): UOp {
    if (!this.changes.has(u)) return u;
    const k = this.key(this.expandedIn(this.free.get(u)!));
    let copies = this.memo.get(u);
    if (copies === undefined) this.memo.set(u, copies = new Map());
    let v = copies.get(k);
    if (v === undefined) copies.set(k, v = this.build(u));
    return v;
  }

  private build(u: UOp): UOp {
    if (u.op === Ops.RANGE) return this.rangeValue(u);
    const p = this.laneOf(u);
    if (p >= 0 && this.env[p] < this.sizes[p] && u.op !== Ops.LOAD) {
      // one lane: of what is a vector anyway, take it from there; compute indices anew
      if (
        u.op === Ops.REDUCE || u.op === Ops.GETTUPLE || u.op === Ops.WMMA ||
        (isAlu(u.op) && (u.dtype.isFloat || this.reads.has(u)))
      ) {
        const l = this.env[p];
        return extract(this.with(p, this.sizes[p], () => this.get(u)), l);
      }
    }
    switch (u.op) {
      case Ops.REDUCE:
        return this.reduceLanes(u)[0];
      case Ops.GETTUPLE:
        return this.reduceLanes(u.src[0])[u.arg as number];
      case Ops.LOAD:
        return this.load(u);
      case Ops.WMMA:
        return this.product(u);
    }
    if (isAlu(u.op)) return buildAlu(u.op, u.dtype, u.src.map((s) => this.get(s)));
    throw new SpecError("Cannot expand a node of a kernel", String(u.op));
  }

  /** A product of tiles: vectors of the thread's elements. */
  private product(u: UOp): UOp {
    const core = u.arg as TensorCore;
    const zero = constant(0, u.dtype.vec(elementsOf(core.c)));
    const a = this.fragment(u.src[0], core.a, u.src[3]), b = this.fragment(u.src[1], core.b, u.src[4]);
    return uop(Ops.WMMA, zero.dtype, [a, b, zero], core);
  }

  /** The thread's elements of an operand: read as a whole where shared memory holds rows of 16-bit elements. */
  private fragment(u: UOp, f: Fragment, element: UOp): UOp {
    const lane = this.sets.ranges.find((r) => kindOf(r) === AxisKind.WARP)!;
    const read = rowRead(u, f, lane, element);
    if (read === undefined) return this.get(u);
    const { at, copies } = read;
    this.register(at);
    const mode = read.isTransposed ? "trans" : "";
    const whole = (): UOp => uop(Ops.LDMATRIX, u.dtype.vec(8), [this.place(at, -1, undefined)], mode);
    if (copies === undefined) return whole();
    // two neighboring copies share a read: each has half of it
    const p = this.sets.position(copies), i = this.env[p];
    const both = this.with(p, i - i % 2, whole), n = elementsOf(f);
    return vectorize(Array.from({ length: n }, (_, l) => extract(both, i % 2 * n + l)));
  }

  private rangeValue(u: UOp): UOp {
    const p = this.sets.position(u), i = this.env[p];
    if (i < this.sizes[p]) return constant(i, u.dtype);
    if (i > this.sizes[p]) return this.symbol(p);
    return vectorize(Array.from({ length: this.sizes[p] }, (_, l) => constant(l, u.dtype)));
  }

  /** A range that stands for "some lane". */
  private symbol(p: number): UOp {
    const r = this.sets.ranges[p];
    return this.symbols[p] ??= uop(Ops.RANGE, r.dtype, [r.src[0]], new RangeArg(this.nextRange++, AxisKind.LOOP));
  }

  // ---- addresses

  private address(idx: UOp): Address {
    let a = this.addresses.get(idx);
    if (a !== undefined) return a;
    const form = linearOf(idx);
    const fixed: [UOp, number, number][] = [];
    const expanded: [number, number][] = [], opaque: [UOp, number][] = [];
    for (const [atom, c] of form.terms) {
      const r = rangeOfAtom(atom);
      if (r !== undefined && this.expanded[this.sets.position(r)]) expanded.push([this.sets.position(r), c]);
      else if (this.changes.has(r ?? (this.free.has(atom) ? atom : atom.src[0]))) opaque.push([atom, c]);
      else fixed.push([atom, c, this.depth(atom)]);
    }
    // outer loops first, so that sums of outer terms leave the inner loops
    fixed.sort((x, y) => x[2] - y[2]);
    let rest: UOp | undefined;
    for (const [atom, c] of fixed) rest = plus(rest, times(atom, c));
    a = { rest, expanded, opaque, constant: form.constant, dtype: idx.dtype };
    this.addresses.set(idx, a);
    return a;
  }

  /** Where in the loop order an atom becomes known. */
  private depth(atom: UOp): number {
    const x = this.free.has(atom) ? atom : atom.src[0];
    let d = -1;
    for (const p of this.sets.members[this.free.get(x)!]) d = Math.max(d, this.order.get(this.sets.ranges[p])!);
    return d;
  }

  /** The index for the current combination; lanes count as `lane0` where all are wanted. */
  private indexValue(a: Address, lane: number, at: number): UOp {
    let c = a.constant, v = a.rest;
    for (const [p, k] of a.expanded) {
      const i = p === lane ? at : this.env[p];
      if (i <= this.sizes[p]) c += k * i;
      else {
        const s = this.symbol(p);
        v = plus(v, times(s.dtype === a.dtype ? s : s.cast(a.dtype), k));
      }
    }
    const opaque = (): void => {
      for (const [atom, k] of a.opaque) {
        const known = this.free.has(atom);
        const x = this.get(known ? atom : atom.src[0]);
        v = plus(v, times(known ? x : buildAlu(Ops.CAST, atom.dtype, [x]), k));
      }
    };
    if (a.opaque.length > 0) lane < 0 ? opaque() : this.with(lane, at, opaque);
    if (v === undefined) return constant(c, a.dtype);
    return plus(v, constant(c, a.dtype));
  }

  /** The gate for the current combination; undefined for true, null for false. */
  private gate(u: UOp | undefined): UOp | undefined | null {
    if (u === undefined) return undefined;
    const g = this.get(u);
    if (g.dtype.count === 1) {
      if (vmin(g) === 1) return undefined;
      if (vmax(g) === 0) return null;
    }
    return g;
  }

  // ---- memory

  private base(u: UOp): UOp {
    return u.op === Ops.STAGE ? this.stage(u) : u;
  }

  /** The memory of a STAGE as the current step reads it. */
  private stepBase(u: UOp, base: UOp): UOp {
    const ring = this.rings.get(u);
    if (ring === undefined) return base;
    const step = ring.positions.reduce((k, p) => k * this.sizes[p] + this.env[p], 0);
    return ring.bases[Math.floor(step / ring.together)];
  }

  /** The unrolled ranges that all reads of the STAGEs depend on, by position; none where they differ. */
  private stepPositions(stages: readonly UOp[]): readonly number[] {
    let common: readonly number[] | undefined;
    for (const u of this.nodes) {
      if (u.op !== Ops.INDEX || !stages.includes(u.src[0])) continue;
      const mine = this.expandedIn(this.free.get(u)!).filter((p) => kindOf(this.sets.ranges[p]) === AxisKind.UNROLL);
      common ??= mine;
      if (common.length !== mine.length || common.some((p) => !mine.includes(p))) return [];
    }
    return common ?? [];
  }

  private place(at: UOp, lane: number, gate: UOp | undefined): UOp {
    const base = this.stepBase(at.src[0], this.base(at.src[0])), slot = this.slots.get(at.src[0]);
    const idx = this.indexValue(this.address(at.src[1]), lane, 0);
    if (slot === undefined) return index(base, idx, gate);
    // the constant last: copies differ by that
    const [rest, c] = idx.op === Ops.ADD && idx.src[1].op === Ops.CONST ? idx.src : [idx, constant(0, idx.dtype)];
    return index(base, plus(plus(slot, rest), c), gate);
  }

  private load(u: UOp): UOp {
    const at = u.src[0], gate = at.src[2] as UOp | undefined, alt = u.src[1] as UOp | undefined;
    const p = this.laneOf(u);
    if (p < 0 || this.env[p] !== this.sizes[p]) {
      const g = this.gate(gate);
      if (g === null) return alt === undefined ? constant(0, u.dtype) : this.get(alt);
      const place = this.place(at, -1, g);
      return uop(Ops.LOAD, u.dtype, alt === undefined || g === undefined ? [place] : [place, this.get(alt)]);
    }
    const n = this.sizes[p], depends = this.dependsOnLane(p);
    if (!depends(at.src[0]) && slopeOf(at.src[1], this.sets.ranges[p], n, depends) === 1) {
      const g = gate === undefined ? undefined : this.uniformGate(gate, p, depends);
      if (g === "varies") {
        const v = this.conditionalLoad(u, p, depends);
        if (v !== undefined) return v;
      }
      if (g === null) return alt === undefined ? broadcast(constant(0, u.dtype), n) : broadcast(this.get(alt), n);
      if (g !== "varies") {
        const place = this.place(at, p, g);
        const v = u.dtype.vec(n);
        return uop(Ops.LOAD, v, alt === undefined || g === undefined ? [place] : [place, broadcast(this.get(alt), n)]);
      }
    }
    return vectorize(Array.from({ length: n }, (_, l) => this.with(p, l, () => this.get(u))));
  }

  /** The gate that all lanes share (undefined: true, null: false), or "varies". */
  private uniformGate(gate: UOp, p: number, depends: (u: UOp) => boolean): UOp | undefined | null | "varies" {
    if (!depends(gate)) return this.gate(gate);
    const first = this.with(p, 0, () => this.gate(gate));
    for (let l = 1; l < this.sizes[p]; l++) if (this.with(p, l, () => this.gate(gate)) !== first) return "varies";
    return first;
  }

  /**
   * A contiguous load whose gate varies by lane: where all lanes are inside, one vector load, else a loop over lanes into
   * a small buffer. For gates that hold on an interval of lanes: then both ends tell. undefined for others.
   */
  private conditionalLoad(u: UOp, p: number, depends: (u: UOp) => boolean): UOp | undefined {
    const [base, idx, gate] = u.src[0].src;
    const n = this.sizes[p], lane = this.sets.ranges[p];
    if (this.reads.has(idx) || this.reads.has(gate) || (u.src.length > 1 && depends(u.src[1]))) return undefined;
    let uniform: UOp = constant(1, dtypes.bool), full = uniform;
    const and = (a: UOp, b: UOp): UOp => buildAlu(Ops.AND, dtypes.bool, [a, b]);
    for (const c of splitAnd(gate)) {
      if (!depends(c)) {
        uniform = and(uniform, this.get(c));
        continue;
      }
      const less = c.op === Ops.CMPNE && c.src[1].isConst(1) ? c.src[0] : c;
      if (less.op !== Ops.CMPLT || !less.src[0].dtype.isInt) return undefined;
      if (less.src.some((s) => slopeOf(s, lane, n, depends) === undefined)) return undefined;
      full = and(full, and(this.with(p, 0, () => this.get(c)), this.with(p, n - 1, () => this.get(c))));
    }
    full = and(uniform, full);
    const type = u.dtype.vec(n);
    const alt = broadcast(u.src.length > 1 ? this.get(u.src[1]) : constant(0, u.dtype), n);
    const memory = this.base(base), address = this.address(idx);
    const acc = uop(Ops.ACC, type, [alt], new AccArg(this.accumulators++));
    const set = (v: UOp, condition: UOp): UOp => {
      const s = uop(Ops.STORE, dtypes.void, [acc, v]);
      this.updates.push(uop(Ops.GROUP, dtypes.void, [s, condition]));
      return s;
    };
    if (vmax(full) === 1) set(uop(Ops.LOAD, type, [index(memory, this.indexValue(address, p, 0))]), full);
    // the loop over lanes
    let local = this.edges.get(type);
    if (local === undefined) {
      this.edges.set(type, local = uop(Ops.LOCAL, u.dtype, [], new LocalArg(this.locals++, n, "thread")));
    }
    const r = uop(Ops.RANGE, lane.dtype, [lane.src[0]], new RangeArg(this.nextRange++, AxisKind.LOOP));
    const one = substitute(this.with(p, n + 1, () => this.get(u)), new Map([[this.symbol(p), r]]));
    const fill = uop(Ops.STORE, dtypes.void, [index(local, r), one]);
    const whole = uop(Ops.LOAD, type, [index(uop(Ops.AFTER, u.dtype, [local, fill, r]), constant(0, r.dtype))]);
    const some = and(uniform, buildAlu(Ops.CMPNE, dtypes.bool, [full, constant(1, dtypes.bool)]));
    return uop(Ops.LOAD, type, [acc, set(whole, some)]);
  }

  /** The STOREs that `u` becomes, one for each combination of `positions`. */
  private storeCopies(u: UOp, positions: readonly number[], out: UOp[], target?: UOp): void {
    const [at, value] = u.src;
    const gate = at.src[2] as UOp | undefined;
    const address = this.address(at.src[1]);
    const write = (g: UOp | undefined | null, lane: number, l: number, v: UOp): void => {
      if (g === null) return;
      out.push(uop(Ops.STORE, dtypes.void, [index(target ?? at.src[0], this.indexValue(address, lane, l), g), v]));
    };
    const p = positions.find((q) => this.lane[q]) ?? -1;
    this.each(positions, () => {
      if (p < 0) return write(this.gate(gate), -1, 0, this.get(value));
      const n = this.sizes[p], depends = this.dependsOnLane(p);
      if (slopeOf(at.src[1], this.sets.ranges[p], n, depends) === 1) {
        const g = gate === undefined ? undefined : this.uniformGate(gate, p, depends);
        if (g !== "varies") return write(g, p, 0, broadcast(this.get(value), n));
      }
      const v = this.get(value);
      for (let l = 0; l < n; l++) {
        this.with(p, l, () => write(this.gate(gate), p, l, extract(v, l)));
      }
    });
  }

  // ---- reduce and stage

  private reduceLanes(u: UOp): readonly UOp[] {
    const expanded = this.expandedIn(this.free.get(u)!);
    let copies = this.reduces.get(u);
    if (copies === undefined) this.reduces.set(u, copies = new Map());
    let v = copies.get(this.key(expanded));
    if (v !== undefined) return v;
    const threads = u.src.find((r) => r.op === Ops.RANGE && kindOf(r) === AxisKind.GROUP_REDUCE);
    if (threads === undefined) {
      copies.set(this.key(expanded), v = this.reduceOne(u));
      return v;
    }
    // the partial results of all copies go through one exchange
    const keys: number[] = [], values: (readonly UOp[])[] = [];
    this.each(expanded, () => {
      keys.push(this.key(expanded));
      values.push(this.reduceOne(u));
    });
    const around = this.sets.list(this.free.get(u)!).filter((r) => !this.expanded[this.sets.position(r)]);
    const results = combineThreads({
      carrier: u.arg as CarrierArg,
      values,
      threads,
      others: this.neighbors(),
      loops: around.filter((r) => !isThreadKind(kindOf(r))),
      warp: this.warp,
      updates: this.updates,
      nextLocal: () => this.locals++,
    });
    keys.forEach((k, i) => copies.set(k, results[i]));
    return copies.get(this.key(expanded))!;
  }

  /** Ranges of threads that do not share a reduction with each other: those that some shared reduction depends on. */
  private neighbors(): UOp[] {
    const found = new Set<UOp>();
    for (const u of this.nodes) {
      if (u.op !== Ops.REDUCE || !u.src.some((r) => r.op === Ops.RANGE && kindOf(r) === AxisKind.GROUP_REDUCE)) {
        continue;
      }
      for (const r of this.sets.list(this.free.get(u)!)) if (kindOf(r) === AxisKind.LOCAL) found.add(r);
    }
    return [...found].sort(compareLoops).reverse();
  }

  /** What one thread reduces, for the current combination. */
  private reduceOne(u: UOp): readonly UOp[] {
    const carrier = u.src[0].op === Ops.WMMA ? tiles(u.dtype) : u.arg as CarrierArg;
    const loops: UOp[] = [], unrolled: number[] = [];
    let reduceLanes = 1;
    for (let i = carrier.lanes; i < u.src.length; i++) {
      const r = u.src[i], p = this.sets.position(r);
      if (kindOf(r) === AxisKind.GROUP_REDUCE) continue;
      if (!this.expanded[p]) loops.push(r);
      else {
        unrolled.push(p);
        if (this.lane[p]) reduceLanes = this.sizes[p];
      }
    }
    const lifts: UOp[][] = [];
    this.each(unrolled, () => lifts.push(Array.from({ length: carrier.lanes }, (_, i) => this.get(u.src[i]))));
    const copies = prod(this.expandedIn(this.free.get(u)!).map((p) => this.lane[p] ? 1 : this.sizes[p]));
    return lowerReduce({
      carrier,
      loops,
      lifts,
      reduceLanes,
      accumulators: Math.max(1, Math.floor(BUSY_ACCUMULATORS / (copies * carrier.lanes))),
      step: (i, values) => {
        let steps = this.steps.get(u);
        if (steps === undefined) this.steps.set(u, steps = []);
        (steps[i] ??= []).push(...values);
      },
      updates: this.updates,
      nextId: () => this.accumulators++,
    });
  }

  /** The memory that holds a STAGE, ordered after the loops that fill it. */
  private stage(u: UOp): UOp {
    const k = this.key(this.expandedIn(this.free.get(u)!));
    let copies = this.stages.get(u);
    if (copies === undefined) this.stages.set(u, copies = new Map());
    let v = copies.get(k);
    if (v !== undefined) return v;
    if ((u.arg as StageArg).scope === "shared") {
      this.shareStages(u);
      return this.stages.get(u)!.get(k)!;
    }
    const ranges = u.src.slice(1);
    const size = prod(ranges.map((r) => vmax(r.src[0])));
    const local = uop(Ops.LOCAL, u.dtype, [], new LocalArg(this.locals++, size, (u.arg as StageArg).scope));
    const stores = this.fill(u, local, new Map(), undefined);
    const loops = ranges.filter((r) => !this.expanded[this.sets.position(r)]);
    v = uop(Ops.AFTER, u.dtype, [local, ...stores, ...loops]);
    copies.set(k, v);
    return v;
  }

  /** The STOREs that fill a STAGE's memory at `base`, with ranges around it replaced, from element `slot` on. */
  private fill(u: UOp, base: UOp, replaced: ReadonlyMap<UOp, UOp>, slot: UOp | undefined): UOp[] {
    const ranges = u.src.slice(1);
    let flat: UOp | undefined, stride = 1;
    for (let i = ranges.length - 1; i >= 0; i--) {
      flat = plus(times(ranges[i], stride), flat ?? constant(0, ranges[i].dtype));
      stride *= vmax(ranges[i].src[0]);
    }
    const arg = u.arg as StageArg;
    let at = flat ?? constant(0, dtypes.int32);
    if (arg.width > 0) at = simplifyKernel(paddedIndex(arg, u.dtype.itemsize, at));
    if (slot !== undefined) at = plus(slot.dtype === at.dtype ? slot : slot.cast(at.dtype), at);
    const value = replaced.size === 0 ? u.src[0] : substitute(u.src[0], replaced);
    const fill = uop(Ops.STORE, dtypes.void, [index(base, at), value]);
    this.register(fill);
    const own = ranges.map((r) => this.sets.position(r)).filter((p) => this.expanded[p]);
    const stores: UOp[] = [];
    this.storeCopies(fill, own, stores);
    return stores;
  }

  /** Makes nodes known that were not in the kernel at first. */
  private register(root: UOp): void {
    for (const x of toposort(root, (y) => !this.free.has(y))) {
      if (this.free.has(x)) continue;
      let s = 0;
      for (const y of x.src) s = this.sets.union(s, this.free.get(y)!);
      this.free.set(x, s);
      if (x.src.some((y) => this.changes.has(y))) this.changes.add(x);
      if (x.op === Ops.LOAD || x.src.some((y) => this.reads.has(y))) this.reads.add(x);
    }
  }

  /** Fills `u` and the other shared STAGEs of the same loops together. */
  private shareStages(u: UOp): void {
    const loopsOf = (x: UOp): UOp[] =>
      this.sets.list(this.free.get(x)!).filter((r) =>
        !isThreadKind(kindOf(r)) && !this.expanded[this.sets.position(r)]
      );
    const loops = loopsOf(u).sort(compareLoops), depth = (u.arg as StageArg).depth;
    const isAlone = toposort(u.src[0]).some((x) => x.op === Ops.STAGE);
    const list = isAlone ? [u] : this.nodes.filter((x) => {
      if (x.op !== Ops.STAGE || (x.arg as StageArg).scope !== "shared" || (x.arg as StageArg).depth !== depth) {
        return false;
      }
      if (toposort(x.src[0]).some((y) => y.op === Ops.STAGE)) return false;
      const other = loopsOf(x);
      return other.length === loops.length && other.every((r) => loops.includes(r));
    });
    const positions = this.stepPositions(list);
    // elements that one access may read stay together
    const hasUnits = this.nodes.some((x) => x.op === Ops.WMMA);
    const together = hasUnits ? 1 : Math.max(...list.map((x) => Math.floor(WIDE / x.dtype.itemsize)));
    const { bases, slots } = fillShared({
      stages: list,
      steps: Math.ceil(prod(positions.map((p) => this.sizes[p])) / together),
      sizes: list.map((x) => {
        return paddedSize(x.arg as StageArg, x.dtype.itemsize, prod(x.src.slice(1).map((r) => vmax(r.src[0]))));
      }),
      loops,
      depth,
      nextLocal: () => this.locals++,
      fill: (x, base, replaced, slot) => this.fill(x, base, replaced, slot),
      inner: (x) => x.src.slice(1).filter((r) => !this.expanded[this.sets.position(r)] && !isThreadKind(kindOf(r))),
    });
    list.forEach((x, i) => {
      let copies = this.stages.get(x);
      if (copies === undefined) this.stages.set(x, copies = new Map());
      copies.set(0, bases[i][0]);
      if (slots[i] === undefined) return;
      this.slots.set(x, slots[i]!);
      if (bases[i].length > 1) this.rings.set(x, { bases: bases[i], positions, together });
    });
  }
}

function times(x: UOp, c: number): UOp {
  if (c === 1) return x;
  const k = constant(c, x.dtype);
  return x.op === Ops.CONST ? foldConst(Ops.MUL, x.dtype, [x, k])! : x.mul(c);
}

function plus(a: UOp | undefined, b: UOp): UOp {
  if (a === undefined || a.isConst(0)) return b;
  return buildAlu(Ops.ADD, b.dtype, [a, b]);
}

/** Sums of tiles: a product takes what it is added to as its third operand. */
function tiles(dtype: DType): CarrierArg {
  return new CarrierArg("tiles", [dtype], [0], ([a], [b]) => {
    if (b.op === Ops.WMMA && b.src[2].op === Ops.CONST) return [b.withSrc([b.src[0], b.src[1], a])];
    return [a.alu(Ops.ADD, b)];
  });
}

function kindOf(r: UOp): AxisKind {
  return (r.arg as RangeArg).kind;
}

/**
 * Expands UPCAST, UNROLL and VECTOR ranges and lowers REDUCE and STAGE.
 * @param warp neighbors that can exchange values among the threads of a reduction
 */
export function expand(sink: UOp, warp = 1): UOp {
  return new Expander(sink, warp).run();
}
