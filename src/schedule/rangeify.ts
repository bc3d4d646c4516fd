/**
 * From one realized node to a kernel AST: loops over its shape, its expression with movement ops turned into index
 * arithmetic and padding into conditions, loads where it meets storage. Buffers appear as PARAMs numbered by entry.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import { sameArray } from "../helpers/math.ts";
import { AxisKind, type ReduceArg, StageArg } from "../uop/args.ts";
import { vmax, vmin } from "../uop/bounds.ts";
import { opCarrier, reduce } from "../uop/carrier.ts";
import { isMovement, opName, Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { constant, index, int, load, param, range, store, type UOp, uop } from "../uop/uop.ts";
import { type KernelPlan, outputRanges, stripReshape } from "./fuse.ts";
import { andGate, flatIndex, sourceIndex } from "./indexing.ts";

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
  ) {
    this.nextRange = rank;
  }

  /** A read of the row of `u` that is kept: its STAGE is the same node wherever it is read. */
  private readRow(u: UOp, axes: readonly number[], idx: readonly UOp[]): UOp {
    const shape = shapeOf(u);
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
        const r = range(shape[i], this.nextRange++, AxisKind.LOOP);
        ranges.push(r);
        return r;
      });
      const value = this.build(u, inner, inside, true);
      row = uop(Ops.STAGE, u.dtype, [value, ...ranges], new StageArg(this.nextStage++, "thread"));
      this.rows.set(u, row);
    }
    return load(index(row, flatIndex(axes.map((a) => shape[a]), axes.map((a) => idx[a]))));
  }

  build(u: UOp, idx: readonly UOp[], gate: UOp | undefined, whole = false): UOp {
    if (u.op === Ops.CONST || u.op === Ops.VARIABLE) return u;
    if (u.op === Ops.BIND) return u.src[0];
    if (u.op === Ops.IOTA) return idx[0].cast(u.dtype);
    const axes = whole ? undefined : this.staged.get(u);
    if (axes !== undefined) return this.readRow(u, axes, idx);
    let list = this.memo.get(u);
    if (list === undefined) this.memo.set(u, list = []);
    for (const m of list) if (m.gate === gate && sameArray(m.idx, idx)) return m.value;
    const value = this.make(u, idx, gate);
    list.push({ idx, gate, value });
    return value;
  }

  private make(u: UOp, idx: readonly UOp[], gate: UOp | undefined): UOp {
    if (u !== this.root) {
      const entry = this.layout.entryOf(u);
      if (entry !== undefined) {
        return load(index(param(entry.id, u.dtype, entry.size), flatIndex(shapeOf(u), idx), gate));
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
      const arg = u.arg as ReduceArg;
      const from = shapeOf(u.src[0]);
      const ranges: UOp[] = [];
      const inner = idx.map((x, i) => {
        if (!arg.axes.includes(i)) return x;
        if (from[i] === 1) return int(0);
        const r = range(from[i], this.nextRange++, AxisKind.REDUCE);
        ranges.push(r);
        return r;
      });
      const value = this.build(u.src[0], inner, gate);
      return ranges.length === 0 ? value : reduce(opCarrier(arg.op as Ops, u.dtype), [value], ranges);
    }
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) {
      const entry = this.layout.entryOf(stripReshape(u.src[0]));
      if (entry === undefined) throw new SpecError("A rescaling BITCAST reads no storage");
      const size = entry.size * u.src[0].dtype.itemsize / u.dtype.itemsize;
      return load(index(param(entry.id, u.dtype, size), flatIndex(shapeOf(u), idx), gate));
    }
    if (shapeOf(u).length !== idx.length && shapeOf(u).length !== 0) {
      throw new SpecError(`${opName[u.op]} of rank ${shapeOf(u).length} read at ${idx.length} indices`);
    }
    return uop(u.op, u.dtype, u.src.map((s) => this.build(s, idx, gate)), u.arg);
  }
}

const NONE: ReadonlyMap<UOp, readonly number[]> = new Map();

/** The STORE that computes realized node `u` (a value or a tensor-graph STORE) into entry `out`. */
export function rangeify(u: UOp, layout: Layout, out: Entry, plan?: KernelPlan): UOp {
  const isStore = u.op === Ops.STORE;
  const value = isStore ? u.src[1] : u;
  const shape = isStore && shapeOf(value).length === 0 ? shapeOf(u.src[0]) : shapeOf(value);
  const ranges = outputRanges(shape, plan?.outer);
  const builder = new Builder(layout, u, shape.length, plan?.staged ?? NONE);
  const body = builder.build(value, ranges, undefined);
  let at: UOp;
  if (isStore) {
    let view = u.src[0], idx: readonly UOp[] = ranges;
    while (layout.entryOf(view) === undefined) {
      const next = sourceIndex(view, idx);
      if (next.valid !== undefined) throw new SpecError("A STORE through a padded view");
      idx = next.idx;
      view = view.src[0];
    }
    at = flatIndex(shapeOf(view), idx);
  } else at = flatIndex(shape, ranges);
  return store(index(param(out.id, value.dtype, out.size), at), body);
}
