/**
 * Replaces the ranges of kinds UPCAST, UNROLL and VECTOR by copies and lanes, and lowers REDUCE and STAGE on the way.
 * In: a kernel AST with its opts applied. Out: a graph of stage P (loops, accumulators, vectors) for the linearizer.
 *
 * A node has one copy for each combination of the expanded ranges that it depends on (copies.ts), made on demand and kept
 * by that combination, so the work is linear in what comes out. Indices are never vectors (addresses.ts): an address that
 * grows by one a lane is a vector access, any other is an access a lane. Where STAGEs lie is in stage_memory.ts.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { elementsOf, type Fragment, readsShared, type TensorCore, unitOf } from "../../renderer/tensor_core_table.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { slopeOf } from "../../uop/algebra/linear_form.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import { AccArg, argOf, AxisKind, LocalArg } from "../../uop/core/args.ts";
import { CarrierArg, carrierOf, RowCarrier, RowMaximum, ScaledSum } from "../../uop/core/carrier.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { after, constant, index, load, store, type UOp, uop } from "../../uop/core/uop.ts";
import type { PatternMatcher } from "../../uop/rewrite/matcher.ts";
import { settle, substitute } from "../../uop/rewrite/rewrite.ts";
import { broadcast, buildAlu, extract, vectorize } from "../ast/alu_builder.ts";
import { joinsLanes, laneShuffle } from "../ast/lane_layout.ts";
import { compareLoops, isGroup, isThreadKind, kindOf } from "../ast/range_facts.ts";
import { guardedProduct } from "../ast/ungate.ts";
import { rowRead } from "../opt/tensor_core.ts";
import { Addresses, comparisonOf, laneBits, takesMask } from "./addresses.ts";
import { Copies, CopyMemo } from "./copies.ts";
import { combineRows, combineThreads } from "./group_reduce.ts";
import { elementsOfRows, lowerMaximum, lowerScaled, type ScaleJob } from "./scaled_sums.ts";
import { columnsOf, joinedStores, pickSteps, reversed, rowsOf, stepStart } from "./lane_shuffles.ts";
import { accumulatorsFor, combineLanes, lowerReduce, TILES } from "./lower_reduce.ts";
import { StageMemory } from "./stage_memory.ts";

/** What is made for copies, and where each stands in the order to compute them in. */
type Ranked = [rank: number, made: UOp][];

/** Is a REDUCE one of lower/scaled_sums.ts? */
function isScaled(u: UOp): boolean {
  return u.arg instanceof RowMaximum || u.arg instanceof ScaledSum;
}

class Expander {
  private readonly copies: Copies;
  private readonly addresses: Addresses;
  private readonly stages: StageMemory;
  private readonly memo = new CopyMemo<UOp>();
  private readonly reduces = new CopyMemo<readonly UOp[]>();
  /** Writes to accumulators, and what happens only under a condition. */
  private readonly updates: UOp[] = [];
  /** By REDUCE: the values after each unrolled index, of all copies. */
  private readonly steps = new Map<UOp, Ranked[]>();
  /** By REDUCE: its updates, of all copies; those that happen under a condition only are apart. */
  private readonly sets = new Map<UOp, Ranked>();
  private readonly guarded = new Map<UOp, Ranked>();
  /** By vector dtype: a buffer for the lanes of loads at an edge. */
  private readonly edges = new Map<DType, UOp>();
  /** Loads at edges, by what one of their lanes is. */
  private readonly conditional = new Map<UOp, UOp>();
  /** By node that no copy changes: what stands for it. */
  private readonly finished = new Map<UOp, UOp>();
  /** The carriers whose results {@linkcode finish} has seen. */
  private readonly carriers = new Map<CarrierArg, CarrierArg>();
  private accumulators = 0;
  private locals = 0;

  constructor(
    private readonly sink: UOp,
    private readonly warp: number,
    private readonly late?: PatternMatcher,
    private readonly maskedBytes = 0,
    private readonly shuffles = true,
  ) {
    this.copies = new Copies(sink);
    this.addresses = new Addresses(this.copies, (u) => this.get(u), (u) => this.finish(u));
    this.stages = new StageMemory(this.copies, {
      nextLocal: () => this.locals++,
      storeCopies: (store, positions) => this.storeCopies(store, positions),
      guard: (stores, condition) => this.updates.push(uop(Ops.GROUP, dtypes.void, [...stores, condition])),
    });
  }

  run(): UOp {
    const stores = this.sink.src.flatMap((s) => this.storeCopies(s, this.copies.expandedIn(s)));
    for (const [u, sets] of this.guarded) {
      this.updates.push(uop(Ops.GROUP, dtypes.void, [...byRank(sets), this.get(u.src[0].src[0])]));
    }
    const hints: UOp[] = [];
    for (const steps of this.steps.values()) {
      const [first] = steps;
      if (first.length > 1 && (steps.length > 1 || !isByRank(first))) {
        for (const values of steps) hints.push(uop(Ops.TUPLE, dtypes.void, byRank(values)));
      }
    }
    for (const sets of this.sets.values()) if (!isByRank(sets)) hints.push(uop(Ops.TUPLE, dtypes.void, byRank(sets)));
    return uop(Ops.SINK, dtypes.void, [...stores, ...this.updates, ...hints], this.sink.arg);
  }

  // ---- values

  /** The copy of `u` for the current combination. */
  private get(u: UOp): UOp {
    if (!this.copies.changes.has(u)) return this.unchanged(u);
    const key = this.copies.keyOf(u);
    return this.memo.get(u, key) ?? this.memo.set(u, key, this.finish(this.build(u)));
  }

  /** What stands for a node that has just been made: what the late rules make of it. */
  private finish(u: UOp): UOp {
    return this.late === undefined ? u : settle(u, this.late);
  }

  /** {@linkcode finish} for a node of the AST. */
  private unchanged(u: UOp): UOp {
    if (this.late === undefined || u.src.length === 0) return u;
    let v = this.finished.get(u);
    if (v === undefined) this.finished.set(u, v = settle(u, this.late));
    return v;
  }

  /** The carrier with finished results. */
  private finishing(carrier: CarrierArg): CarrierArg {
    if (this.late === undefined) return carrier;
    let made = this.carriers.get(carrier);
    if (made === undefined) {
      const { key, dtypes, identity, combine, join } = carrier;
      const finished = (values: UOp[]): UOp[] => values.map((u) => this.finish(u));
      this.carriers.set(
        carrier,
        made = new CarrierArg(
          key,
          dtypes,
          identity,
          (left, right) => finished(combine(left, right)),
          join && ((parts) => finished(join(parts))),
        ),
      );
    }
    return made;
  }

  private build(u: UOp): UOp {
    if (u.op === Ops.RANGE) return this.rangeValue(u);
    const { copies } = this, p = copies.laneOf(u), lane = copies.env[p], lanes = copies.sizes[p];
    if (p >= 0 && lane < lanes && u.op !== Ops.LOAD) {
      // one lane: of what is a vector anyway, take it from there; compute indices anew
      if (
        u.op === Ops.REDUCE || u.op === Ops.GETTUPLE || u.op === Ops.WMMA ||
        (isAlu(u.op) && (u.dtype.isFloat || copies.reads.has(u)))
      ) {
        return extract(copies.with(p, lanes, () => this.get(u)), lane);
      }
    }
    switch (u.op) {
      case Ops.REDUCE:
        return this.reduceLanes(u)[0];
      case Ops.GETTUPLE: {
        const results = this.reduceLanes(u.src[0]), i = argOf(u, Ops.GETTUPLE);
        return u.src.length === 1 ? results[i] : elementsOfRows(carrierOf(u.src[0]), results, i, copies.sizes[p]);
      }
      case Ops.LOAD:
        return this.load(u);
      case Ops.WMMA:
        return this.product(u);
    }
    if (isAlu(u.op)) {
      const [a, b, c] = u.src;
      const src = [this.get(a)];
      if (b !== undefined) src.push(this.get(b));
      if (c !== undefined) src.push(this.get(c));
      const made = buildAlu(u.op, u.dtype, src);
      return u.arg === undefined || made.op !== u.op ? made : uop(made.op, made.dtype, made.src, u.arg);
    }
    throw new SpecError("Cannot expand a node of a kernel", String(u.op));
  }

  /** A product of tiles: vectors of the thread's elements. */
  private product(u: UOp): UOp {
    const core = unitOf(u);
    const zero = constant(0, u.dtype.vec(elementsOf(core.c)));
    if (readsShared(u)) {
      const [a, b] = core.shared!.map((tile, i) => {
        return tile === undefined ? this.get(u.src[i]) : this.place(u.src[i].src[0], -1, undefined);
      });
      return uop(Ops.WMMA, zero.dtype, [a, b, zero], core);
    }
    const a = this.fragment(u.src[0], core.a, u.src[3]), b = this.fragment(u.src[1], core.b, u.src[4]);
    return uop(Ops.WMMA, zero.dtype, [a, b, zero], core);
  }

  /** The thread's elements of an operand: read as a whole where shared memory holds rows of 16-bit elements. */
  private fragment(u: UOp, f: Fragment, element: UOp): UOp {
    const { copies } = this;
    const lane = copies.sets.ranges.find((r) => kindOf(r) === AxisKind.WARP)!;
    const read = rowRead(u, f, lane, element);
    if (read === undefined) return this.get(u);
    copies.register(read.at);
    const mode = read.isTransposed ? "trans" : "";
    const whole = (): UOp => uop(Ops.LDMATRIX, u.dtype.vec(8), [this.place(read.at, -1, undefined)], mode);
    if (read.copies === undefined) return whole();
    // two neighboring copies share a read: each has half of it
    const p = copies.sets.position(read.copies), i = copies.env[p];
    const both = copies.with(p, i - i % 2, whole), n = elementsOf(f);
    return vectorize(Array.from({ length: n }, (_, l) => extract(both, i % 2 * n + l)));
  }

  private rangeValue(u: UOp): UOp {
    const { copies } = this, p = copies.sets.position(u), i = copies.env[p], n = copies.sizes[p];
    if (i < n) return constant(i, u.dtype);
    if (i > n) return copies.symbol(p);
    return vectorize(Array.from({ length: n }, (_, l) => constant(l, u.dtype)));
  }

  // ---- memory

  /** Where `at` is: the range at `lane` (none where it is -1) counts as its first lane. */
  private place(at: UOp, lane: number, gate: UOp | undefined): UOp {
    const [base, idx] = at.src, memory = this.stages.read(base);
    return index(memory, this.stages.element(base, this.addresses.value(idx, lane, 0)), gate);
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

  private load(u: UOp): UOp {
    const at = u.src[0], gate = at.src[2] as UOp | undefined, alt = u.src[1] as UOp | undefined;
    const { copies } = this, p = copies.laneOf(u);
    if (p < 0 || copies.env[p] !== copies.sizes[p]) {
      const g = this.gate(gate);
      if (g === null) return alt === undefined ? constant(0, u.dtype) : this.get(alt);
      const place = this.place(at, -1, g);
      return uop(Ops.LOAD, u.dtype, alt === undefined || g === undefined ? [place] : [place, this.get(alt)]);
    }
    const n = copies.sizes[p], depends = copies.dependsOn(p);
    const step = u.dtype.itemsize / at.dtype.itemsize; // more than 1 for words of bytes
    if (!depends(at.src[0]) && slopeOf(at.src[1], copies.sets.ranges[p], n, depends) === step) {
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
    return (step > 1 ? undefined : this.shuffledLoad(u, p)) ??
      vectorize(Array.from({ length: n }, (_, l) => copies.with(p, l, () => this.get(u))));
  }

  /** A load of lanes that are no neighbors, from vectors that are loaded whole; undefined where there are none. */
  private shuffledLoad(u: UOp, p: number): UOp | undefined {
    const { copies } = this, n = copies.sizes[p], shuffle = laneShuffle(u, copies.sets.ranges[p]);
    if (shuffle === undefined) return undefined;
    const [base, idx, gate] = u.src[0].src as readonly (UOp | undefined)[], g = this.gate(gate);
    if (g === null) return broadcast(constant(0, u.dtype), n);
    const memory = this.stages.read(base!);
    const vector = (lane: number, offset: number, lanes: number): UOp => {
      const at = this.stages.element(base!, this.addresses.value(idx!, p, lane));
      const place = index(memory, buildAlu(Ops.ADD, at.dtype, [at, constant(offset, at.dtype)]), g);
      return this.finish(uop(Ops.LOAD, u.dtype.vec(lanes), [this.finish(place)]));
    };
    const { step } = shuffle;
    if (step === -1) return reversed(vector(n - 1, 0, n));
    if (step !== undefined) return pickSteps(rangeOf(step).map((k) => vector(0, stepStart(n, step, k), n)), step);
    // all copies of a row at once
    const q = copies.sets.position(shuffle.row), mine = copies.env[q], first = mine - mine % shuffle.length;
    const made = copies.with(q, first, () => columnsOf(rangeOf(n).map((l) => vector(l, 0, shuffle.length))));
    made.forEach((v, i) => copies.with(q, first + i, () => this.memo.set(u, copies.keyOf(u), v)));
    return made[mine - first];
  }

  /** The gate that all lanes share (undefined: true, null: false), or "varies". */
  private uniformGate(gate: UOp, p: number, depends: (u: UOp) => boolean): UOp | undefined | null | "varies" {
    if (!depends(gate)) return this.gate(gate);
    const { copies } = this, first = copies.with(p, 0, () => this.gate(gate));
    for (let l = 1; l < copies.sizes[p]; l++) if (copies.with(p, l, () => this.gate(gate)) !== first) return "varies";
    return first;
  }

  /**
   * A contiguous load whose gate varies by lane: where all lanes are inside, one vector load, else a loop over lanes into
   * a small buffer. For gates that hold on an interval of lanes: then both ends tell. undefined for others.
   */
  private conditionalLoad(u: UOp, p: number, depends: (u: UOp) => boolean): UOp | undefined {
    const [base, idx, gate] = u.src[0].src, { copies } = this;
    const n = copies.sizes[p], lane = copies.sets.ranges[p];
    if (copies.reads.has(idx) || copies.reads.has(gate) || (u.src.length > 1 && depends(u.src[1]))) return undefined;
    const masked = this.maskedLoad(u, p, depends);
    if (masked !== undefined) return masked;
    let uniform: UOp = constant(1, dtypes.bool), full = uniform;
    const and = (a: UOp, b: UOp): UOp => buildAlu(Ops.AND, dtypes.bool, [a, b]);
    for (const c of splitAnd(gate)) {
      if (!depends(c)) {
        uniform = and(uniform, this.get(c));
        continue;
      }
      const less = comparisonOf(c);
      if (less === undefined || less.src.some((s) => slopeOf(s, lane, n, depends) === undefined)) return undefined;
      full = and(full, and(copies.with(p, 0, () => this.get(c)), copies.with(p, n - 1, () => this.get(c))));
    }
    full = and(uniform, full);
    // two copies that read the same are one: under one condition alone, which the linearizer moves it out of otherwise
    const each = copies.with(p, n + 1, () => this.get(u)), known = this.conditional.get(each);
    if (known !== undefined) return known;
    const type = u.dtype.vec(n);
    const alt = broadcast(u.src.length > 1 ? this.get(u.src[1]) : constant(0, u.dtype), n);
    const memory = this.stages.of(base);
    const some = and(uniform, buildAlu(Ops.CMPNE, dtypes.bool, [full, constant(1, dtypes.bool)]));
    const always = vmin(some) === 1;
    const local = always ? this.edge(u.dtype, n) : this.sharedEdge(u.dtype, n);
    const r = copies.loop(lane, AxisKind.VECTOR);
    const one = substitute(each, new Map([[copies.symbol(p), r]]));
    const fill = store(index(local, r), one);
    const lanes = uop(Ops.LOAD, type, [index(after(local, fill, r), constant(0, r.dtype))]);
    const keep = (v: UOp): UOp => {
      this.conditional.set(each, v);
      return v;
    };
    if (always) return keep(lanes);
    const acc = uop(Ops.ACC, type, [alt], new AccArg(this.accumulators++));
    const set = (v: UOp, condition: UOp): UOp => {
      const s = store(acc, v);
      this.updates.push(uop(Ops.GROUP, dtypes.void, [s, condition]));
      return s;
    };
    // with the gate, for what two conditions share, and what does not depend on a loop, stands outside of them
    if (vmax(full) === 1) set(uop(Ops.LOAD, type, [index(memory, this.addresses.value(idx, p, 0), full)]), full);
    return keep(load(acc, set(lanes, some)));
  }

  /** The same load under the bits of its lanes; undefined where the device has none, or the gate tells no bits. */
  private maskedLoad(u: UOp, p: number, depends: (u: UOp) => boolean): UOp | undefined {
    const [base, idx, gate] = u.src[0].src, n = this.copies.sizes[p], lane = this.copies.sets.ranges[p];
    if (!takesMask(u, lane, n, depends, this.maskedBytes)) return undefined;
    const get = (x: UOp): UOp => this.get(x), first = (x: UOp): UOp => this.copies.with(p, 0, () => this.get(x));
    const bits = laneBits(gate, lane, n, depends, get, first);
    if (bits === undefined) return undefined;
    const place = index(this.stages.of(base), this.addresses.value(idx, p, 0));
    return uop(Ops.LOAD, u.dtype.vec(n), [place, broadcast(constant(0, u.dtype), n), bits]);
  }

  /** A buffer for the lanes of one load at an edge. */
  private edge(dtype: DType, n: number): UOp {
    return uop(Ops.LOCAL, dtype, [], new LocalArg(this.locals++, n, "thread"));
  }

  /** The one for loads under conditions, which are filled and read at once. */
  private sharedEdge(dtype: DType, n: number): UOp {
    const key = dtype.vec(n);
    let local = this.edges.get(key);
    if (local === undefined) this.edges.set(key, local = this.edge(dtype, n));
    return local;
  }

  /** The STOREs that `u` becomes, one for each combination of `positions`. */
  private storeCopies(u: UOp, positions: readonly number[]): UOp[] {
    const [at, value] = u.src, [memory, idx] = at.src;
    const gate = at.src[2] as UOp | undefined, { copies } = this, stores: UOp[] = [];
    const write = (g: UOp | undefined | null, lane: number, l: number, v: UOp): void => {
      if (g === null) return;
      stores.push(this.finish(store(index(memory, this.addresses.value(idx, lane, l), g), v)));
    };
    const p = positions.find((q) => copies.lane[q]) ?? -1;
    const shuffle = p < 0 ? undefined : laneShuffle(u, copies.sets.ranges[p]);
    const q = shuffle?.row === undefined ? -1 : copies.sets.position(shuffle.row), m = shuffle?.length ?? 1;
    copies.each(positions, () => {
      if (q >= 0) {
        // as many copies at a time as there are in a row
        const first = copies.env[q], g = first % m === 0 ? this.gate(gate) : null;
        if (g === null) return;
        const column = (i: number): UOp => copies.with(q, first + i, () => broadcast(this.get(value), copies.sizes[p]));
        return rowsOf(rangeOf(m).map(column)).forEach((v, l) => write(g, p, l, v));
      }
      if (p < 0) return write(this.gate(gate), -1, 0, this.get(value));
      const n = copies.sizes[p], depends = copies.dependsOn(p);
      if (slopeOf(idx, copies.sets.ranges[p], n, depends) === 1) {
        const g = gate === undefined ? undefined : this.uniformGate(gate, p, depends);
        if (g !== "varies") return write(g, p, 0, broadcast(this.get(value), n));
      }
      const v = this.get(value);
      const before = copies.env[p];
      for (let l = 0; l < n; l++) {
        copies.env[p] = l;
        write(this.gate(gate), p, l, extract(v, l));
      }
      copies.env[p] = before;
    });
    return p < 0 ? joinedStores(stores, (v) => this.finish(v)) : stores;
  }

  // ---- reductions

  /** The results of a REDUCE for the current combination, one for each lane of its carrier. */
  private reduceLanes(u: UOp): readonly UOp[] {
    const { copies } = this, key = copies.keyOf(u);
    const known = this.reduces.get(u, key);
    if (known !== undefined) return known;
    const threads = u.src.find(isGroup), keepsLanes = threads === undefined && this.joinsLanes(u);
    if (threads === undefined && !keepsLanes) return this.reduces.set(u, key, this.reduceOne(u));
    // the partial results of all copies go through one exchange, or their lanes are combined together
    const keys: number[] = [], values: (readonly UOp[])[] = [];
    copies.each(copies.expandedIn(u), () => {
      keys.push(copies.keyOf(u));
      values.push(this.reduceOne(u, keepsLanes));
    });
    if (threads === undefined) {
      const vectors = values.map(([v]) => v), finish = (v: UOp): UOp => this.finish(v);
      const results = combineLanes(this.finishing(carrierOf(u)), vectors, finish);
      keys.forEach((k, i) => this.reduces.set(u, k, [results[i]]));
      return this.reduces.get(u, key)!;
    }
    const results = combineThreads({
      carrier: carrierOf(u),
      values,
      threads,
      others: this.neighbors(),
      loops: copies.rangesOf(u).filter((r) => !copies.isExpanded(r) && !isThreadKind(kindOf(r))),
      warp: this.warp,
      updates: this.updates,
      nextLocal: () => this.locals++,
    });
    keys.forEach((k, i) => this.reduces.set(u, k, results[i]));
    return this.reduces.get(u, key)!;
  }

  /** Does a REDUCE combine lanes by shuffles? Those of a grid's threads are registers. */
  private joinsLanes(u: UOp): boolean {
    const { copies } = this, carrier = carrierOf(u);
    if (this.warp > 1 || !this.shuffles || u.arg instanceof RowCarrier || isScaled(u)) return false;
    const lane = u.src.slice(carrier.lanes).find((r) => copies.isExpanded(r) && copies.lane[copies.sets.position(r)]);
    return lane !== undefined && joinsLanes(carrier, lane.src[0].value);
  }

  /** Ranges of threads that do not share a reduction with each other: those that some shared reduction depends on. */
  private neighbors(): UOp[] {
    const found = new Set<UOp>();
    for (const u of this.copies.nodes) {
      if (u.op !== Ops.REDUCE || !u.src.some(isGroup)) continue;
      for (const r of this.copies.rangesOf(u)) if (kindOf(r) === AxisKind.LOCAL) found.add(r);
    }
    return [...found].sort(compareLoops).reverse();
  }

  /** What stands for a REDUCE that is scaled in each iteration, or tells by what. */
  private scaled(u: UOp, loops: readonly UOp[], unrolled: readonly number[]): readonly UOp[] {
    const lifts: UOp[] = [], { arg } = u;
    this.copies.each(unrolled, () => lifts.push(this.get(u.src[0])));
    const job: ScaleJob = { loops, lifts, updates: this.updates, nextId: () => this.accumulators++ };
    if (arg instanceof RowMaximum) return lowerMaximum(arg, job);
    const step = (i: number, value: UOp): void => this.step(u, i, [value]);
    return lowerScaled(arg as ScaledSum, tiles(carrierOf(u).dtypes[0]), this.get(u.src[1]), job, step);
  }

  private step(u: UOp, i: number, values: readonly UOp[]): void {
    const rank = this.rankOf(u);
    let steps = this.steps.get(u);
    if (steps === undefined) this.steps.set(u, steps = []);
    const step = steps[i] ??= [];
    for (const v of values) step.push([rank, v]);
  }

  /**
   * Where the current copy of a REDUCE stands among its copies: those along the axis that has fewest follow each other.
   * Then what they share is read for them alone, and what the others share, of which there is least, is held in registers.
   * Threads of a grid hold operands of a whole step.
   */
  private rankOf(u: UOp): number {
    const { copies } = this;
    if (copies.rangesOf(u).some((r) => isThreadKind(kindOf(r)))) return 0;
    const positions = copies.expandedIn(u).filter((p) => !copies.lane[p]);
    let rank = 0;
    for (const p of positions.toSorted((a, b) => copies.sizes[b] - copies.sizes[a])) {
      rank = rank * copies.sizes[p] + copies.env[p];
    }
    return rank;
  }

  /** What one thread reduces, for the current combination. */
  private reduceOne(u: UOp, keepsLanes: boolean = false): readonly UOp[] {
    const { copies } = this;
    if (u.arg instanceof RowCarrier) return combineRows(u.arg, u.src.map((s) => this.get(s)));
    const carrier = isScaled(u)
      ? carrierOf(u)
      : u.src[0].op === Ops.WMMA
      ? tiles(u.dtype)
      : this.finishing(carrierOf(u));
    const loops: UOp[] = [], unrolled: number[] = [];
    let reduceLanes = 1;
    for (let i = carrier.lanes; i < u.src.length; i++) {
      const r = u.src[i], p = copies.sets.position(r);
      if (isGroup(r)) continue;
      if (!copies.isExpanded(r)) loops.push(r);
      else {
        unrolled.push(p);
        if (copies.lane[p]) reduceLanes = copies.sizes[p];
      }
    }
    if (isScaled(u)) return this.scaled(u, loops, unrolled);
    // in loops, what all copies add under one condition is skipped where that does not hold
    const isLoop = loops.length > 0 && !copies.rangesOf(u).some((r) => isThreadKind(kindOf(r)));
    const product = isLoop ? guardedProduct(u) : undefined;
    const guarded = product !== undefined && copies.expandedIn(u.src[0].src[0]).length === 0;
    const values = guarded ? [product] : u.src;
    const lifts: UOp[][] = [];
    copies.each(unrolled, () => lifts.push(Array.from({ length: carrier.lanes }, (_, i) => this.get(values[i]))));
    const results = prod(copies.expandedIn(u).map((p) => copies.lane[p] ? 1 : copies.sizes[p])) * carrier.lanes;
    const total = lowerReduce({
      carrier,
      loops,
      lifts,
      reduceLanes,
      keepsLanes,
      // sums of a unit that goes on by itself are as many as its lanes have room for
      accumulators: readsShared(u.src[0]) ? 1 : accumulatorsFor(results),
      set: (set) => {
        const sets = guarded ? this.guarded : this.sets, known = sets.get(u);
        if (known === undefined) sets.set(u, [[this.rankOf(u), set]]);
        else known.push([this.rankOf(u), set]);
      },
      step: (i, values) => {
        if (!guarded) this.step(u, i, values);
      },
      updates: this.updates,
      finish: (v) => this.finish(v),
      nextId: () => this.accumulators++,
    });
    return u.src[0].op === Ops.WMMA ? [this.exchanged(total[0], unitOf(u.src[0]))] : total;
  }

  /** The sums of a unit's lanes where bits of the lane and of the element have changed places. */
  private exchanged(sums: UOp, core: TensorCore): UOp {
    if (core.exchanged.length === 0) return sums;
    const lane = this.copies.sets.ranges.find((r) => kindOf(r) === AxisKind.WARP)!;
    const values = rangeOf(elementsOf(core.c)).map((e) => extract(sums, e));
    for (const [l, e] of core.exchanged) {
      const isHigh = lane.floorDiv(2 ** l).floorMod(2).eq(1);
      for (let i = 0; i < values.length; i++) {
        if ((i >> e & 1) === 1) continue;
        const [low, high] = [values[i], values[i + 2 ** e]];
        const other = uop(Ops.SHUFFLE, low.dtype, [isHigh.where(low, high)], 2 ** l);
        [values[i], values[i + 2 ** e]] = [isHigh.where(other, low), isHigh.where(high, other)];
      }
    }
    return vectorize(values);
  }
}

/** Values in the order of their ranks. */
function byRank(values: Ranked): UOp[] {
  return values.toSorted(([a], [b]) => a - b).map(([, made]) => made);
}

function isByRank(values: Ranked): boolean {
  return values.every(([rank], i) => i === 0 || rank >= values[i - 1][0]);
}

/** Sums of tiles: a product takes what it is added to as its third operand. */
function tiles(dtype: DType): CarrierArg {
  return new CarrierArg(TILES, [dtype], [0], ([a], [b]) => {
    if (b.op === Ops.WMMA && b.src[2].op === Ops.CONST) return [b.withSrc([b.src[0], b.src[1], a])];
    return [a.alu(Ops.ADD, b)];
  });
}

/**
 * Expands UPCAST, UNROLL and VECTOR ranges and lowers REDUCE and STAGE.
 * @param warp neighbors that can exchange values among the threads of a reduction
 * @param late rules that settle and run later anyway: what is made is built as they would leave it
 * @param maskedBytes of the largest vector that is loaded under a mask
 * @param shuffles whether lanes are combined by shuffles
 */
export function expand(
  sink: UOp,
  warp = 1,
  late?: PatternMatcher,
  maskedBytes = 0,
  shuffles = true,
): UOp {
  return new Expander(sink, warp, late, maskedBytes, shuffles).run();
}
