/**
 * From one realized node to a kernel AST: loops over its shape, its expression with movement ops turned into index
 * arithmetic and padding into conditions, loads where it meets storage. Buffers appear as PARAMs numbered by entry.
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { joinAnd, splitAnd } from "../../uop/algebra/valid.ts";
import { AxisKind, reduceOf, StageArg } from "../../uop/core/args.ts";
import { getTuple, opCarrier, reduce } from "../../uop/core/carrier.ts";
import { isMovement, isView, opName, Ops } from "../../uop/core/ops.ts";
import { rangesOf } from "../../uop/core/ranges.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, index, int, load, param, range, store, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { andGate, element, flatIndex, sourceIndex } from "../../uop/graph/movement_index.ts";
import type { Cascade } from "../fuse/cascade.ts";
import { emptyPlan, type KernelPlan, outputRanges, stripReshape } from "../fuse/fusion_plan.ts";

/** What a kernel needs to know of the storage of a node: which entry, of how many elements. */
export interface Entry {
  readonly id: number;
  readonly size: number;
}

/** Where the realized nodes live. `entryOf` gives undefined for nodes that are computed in place. */
export interface Layout {
  entryOf(u: UOp): Entry | undefined;
}

interface Memo {
  readonly idx: readonly UOp[];
  readonly gate: UOp | undefined;
  readonly value: UOp;
}

/** Builds the expressions of one kernel. */
class Builder {
  private readonly memo = new Map<UOp, Memo[]>();
  private readonly rows = new Map<UOp, UOp>();
  private nextRange: number;

  private nextStage = 0;

  constructor(
    private readonly layout: Layout,
    private readonly root: UOp,
    rank: number,
    private readonly staged: ReadonlyMap<UOp, readonly number[]>,
    private readonly joined: ReadonlyMap<UOp, Cascade>,
  ) {
    this.nextRange = rank;
  }

  /** The ranges of a reduce of `from` over `axes`, read at `idx`; and the indices of what it reduces. */
  private reduced(x: UOp, axes: readonly number[], idx: readonly UOp[]): [inner: UOp[], own: UOp[]] {
    const own: UOp[] = [], from = shapeOf(x), extents = extentsOf(x);
    const inner = idx.map((x, i) => {
      if (!axes.includes(i)) return x;
      if (from[i] === 1) return int(0);
      const r = range(extents?.[i] ?? from[i], this.nextRange++, AxisKind.REDUCE);
      own.push(r);
      return r;
    });
    return [inner, own];
  }

  /** The two results of a cascade, from one REDUCE. */
  private join(c: Cascade, idx: readonly UOp[], gate: UOp | undefined): { first: UOp; second: UOp } {
    const [inner, own] = this.reduced(c.first.src[0], reduceOf(c.first).axes, idx);
    const x = this.build(c.first.src[0], inner, gate), term = this.build(c.term, inner, gate);
    if (c.kind === "moments") {
      // about one of the values: what is far from 0 and close together keeps its digits
      const from = shapeOf(c.first.src[0]);
      const value = (share: number): UOp => {
        const at = idx.map((i, a) => inner[a] === i ? i : int(Math.floor((from[a] - 1) * share)));
        return this.build(c.first.src[0], at, gate);
      };
      const pivot = median(value(0), value(0.5), value(1));
      const all = reduce(c.carrier, [int(1), x.add(pivot.mul(-1)), term], own), mean = getTuple(all, 1).add(pivot);
      // where the mean is infinite, nothing has a distance from it
      return { first: mean.mul(c.count), second: getTuple(all, 2).add(mean.add(mean.mul(-1))) };
    }
    const none = constant(-Infinity, x.dtype);
    const lift = c.guarded ? term : x.eq(none).where(constant(0, term.dtype), term);
    const all = reduce(c.carrier, [x, lift], own), first = getTuple(all, 0), second = getTuple(all, 1);
    // subtracted from itself, an infinite maximum is no number
    return { first, second: c.guarded ? second : second.add(first.add(first.mul(-1))) };
  }

  /** A read of the row of `u` that is kept: its STAGE is the same node wherever it is read. */
  private readRow(u: UOp, axes: readonly number[], idx: readonly UOp[]): UOp {
    const shape = shapeOf(u), extents = extentsOf(u);
    let row = this.rows.get(u);
    if (row === undefined) {
      const ranges: UOp[] = [];
      // reads under padding have their own conditions, but the row is made for all of them: whole, or not at all
      let inside: UOp | undefined;
      const inner = idx.map((x, i) => {
        if (!axes.includes(i)) {
          if (vmin(x) < 0) inside = andGate(inside, x.lt(0).ne(1));
          if (vmax(x) >= shape[i]) inside = andGate(inside, x.lt(shape[i]));
          return x;
        }
        if (shape[i] === 1) return x;
        const r = range(extents?.[i] ?? shape[i], this.nextRange++, AxisKind.LOOP);
        ranges.push(r);
        return r;
      });
      const value = this.build(u, inner, inside, true);
      row = uop(Ops.STAGE, u.dtype, [value, ...ranges], new StageArg(this.nextStage++, "undecided"));
      this.rows.set(u, row);
    }
    const sizes = axes.map((a) => extents?.[a] === undefined ? shape[a] : vmax(extents[a]!));
    return load(index(row, flatIndex(sizes, axes.map((a) => idx[a]))));
  }

  build(u: UOp, idx: readonly UOp[], gate: UOp | undefined, whole = false): UOp {
    if (u.op === Ops.CONST || u.op === Ops.VARIABLE) return u;
    if (u.op === Ops.BIND) return u.src[0];
    if (u.op === Ops.IOTA) return idx[0].cast(u.dtype);
    const axes = whole ? undefined : this.staged.get(u);
    if (axes !== undefined) return this.readRow(u, axes, idx);
    const known = this.memo.get(u);
    if (known !== undefined) {
      for (let i = 0; i < known.length; i++) {
        if (known[i].gate === gate && sameArray(known[i].idx, idx)) return known[i].value;
      }
    }
    const value = this.make(u, idx, gate);
    this.remember(u, idx, gate, value);
    return value;
  }

  private remember(u: UOp, idx: readonly UOp[], gate: UOp | undefined, value: UOp): void {
    const list = this.memo.get(u), memo = { idx, gate, value };
    if (list === undefined) this.memo.set(u, [memo]);
    else list.push(memo);
  }

  private make(u: UOp, idx: readonly UOp[], gate: UOp | undefined): UOp {
    if (u !== this.root) {
      const entry = this.layout.entryOf(u);
      if (entry !== undefined) {
        return load(element(param(entry.id, u.dtype, entry.size), entry.size, flatIndex(shapeOf(u), idx), gate));
      }
    }
    if (u.op === Ops.CONTIGUOUS || u.op === Ops.CONTIGUOUS_BACKWARD || u.op === Ops.DETACH) {
      return this.build(u.src[0], idx, gate);
    }
    if (isMovement(u.op)) {
      const at = sourceIndex(u, idx);
      const value = this.build(u.src[0], at.idx, andGate(gate, at.valid));
      return at.valid === undefined ? value : at.valid.where(value, constant(0, u.dtype));
    }
    if (u.op === Ops.REDUCE) {
      const cascade = this.joined.get(u);
      if (cascade !== undefined) {
        const both = this.join(cascade, idx, gate);
        this.remember(cascade.first, idx, gate, both.first);
        this.remember(cascade.second, idx, gate, both.second);
        return u === cascade.first ? both.first : both.second;
      }
      const arg = reduceOf(u);
      const [inner, ranges] = this.reduced(u.src[0], arg.axes, idx);
      const value = this.build(u.src[0], inner, gateAt(gate, idx));
      return ranges.length === 0 ? value : reduce(opCarrier(arg.op as Ops, u.dtype), [value], ranges);
    }
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) {
      const entry = this.layout.entryOf(stripReshape(u.src[0]));
      if (entry === undefined) throw new SpecError("A rescaling BITCAST reads no storage");
      const size = entry.size * u.src[0].dtype.itemsize / u.dtype.itemsize;
      return load(element(param(entry.id, u.dtype, size), size, flatIndex(shapeOf(u), idx), gate));
    }
    if (shapeOf(u).length !== idx.length && shapeOf(u).length !== 0) {
      throw new SpecError(`${opName[u.op]} of rank ${shapeOf(u).length} read at ${idx.length} indices`);
    }
    const src = new Array<UOp>(u.src.length);
    for (let i = 0; i < src.length; i++) {
      src[i] = this.build(u.src[i], idx, gate);
      if (i > 0 || u.op !== Ops.WHERE || u.src[0].op === Ops.CONST) continue;
      const [low, high] = [vmin(src[0]), vmax(src[0])];
      if (low === high) return this.build(u.src[low === 1 ? 1 : 2], idx, gate); // by the position along a copied axis
    }
    return uop(u.op, u.dtype, src, u.arg);
  }
}

/**
 * What of a gate is about the indices: a reduce at these is in memory whatever the rest says, and stands outside of the
 * loops that only the rest depends on.
 */
function gateAt(gate: UOp | undefined, idx: readonly UOp[]): UOp | undefined {
  if (gate === undefined) return undefined;
  const around = new Set(idx.flatMap((x) => rangesOf(x)));
  const about = splitAnd(gate).filter((c) => rangesOf(c).length === 0 || rangesOf(c).some((r) => around.has(r)));
  return about.length === 0 ? undefined : joinAnd(about);
}

/** The one of three that is neither the least nor the greatest: not the one that is far from all others. */
function median(a: UOp, b: UOp, c: UOp): UOp {
  const least = (x: UOp, y: UOp): UOp => x.mul(-1).alu(Ops.MAX, y.mul(-1)).mul(-1);
  return least(a, b).alu(Ops.MAX, least(a.alu(Ops.MAX, b), c));
}

/** The STORE that computes realized node `u` (a value or a tensor-graph STORE) into entry `out`. */
export function rangeify(u: UOp, layout: Layout, out: Entry, plan: KernelPlan = emptyPlan()): UOp {
  const isStore = u.op === Ops.STORE;
  const value = isStore ? u.src[1] : u;
  const shape = isStore && shapeOf(value).length === 0 ? shapeOf(u.src[0]) : shapeOf(value);
  const extents = extentsOf(value) ?? (isStore ? extentsOf(u.src[0]) : null);
  const ranges = outputRanges(shape, plan.outer, extents, plan.copied);
  const builder = new Builder(layout, u, shape.length, plan.staged, plan.joined);
  const body = builder.build(value, ranges, undefined);
  let at: UOp;
  if (isStore) {
    let view = u.src[0], idx: readonly UOp[] = ranges;
    // down to what is written, also where the view itself is a result with memory of its own
    for (; isView(view.op); view = view.src[0]) {
      if (!isMovement(view.op)) continue;
      const next = sourceIndex(view, idx);
      if (next.valid !== undefined) throw new SpecError("A STORE through a padded view");
      idx = next.idx;
    }
    at = flatIndex(shapeOf(view), idx);
  } else at = flatIndex(shape, ranges);
  return store(element(param(out.id, value.dtype, out.size), out.size, at), body);
}
