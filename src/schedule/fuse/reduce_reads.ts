/**
 * What the reduces that are computed with a node read: their operands, how much of them, and the loops that these depend on.
 *
 * @module
 */
import { sameArray } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { dependence, outputDependence, sourceIndex } from "../../uop/graph/movement_index.ts";
import { MAX_LOOKED_AT } from "./cascade.ts";
import { type Context, ContextWalk, OUTPUT_RANGES } from "./contexts.ts";
import { isLeaf } from "./fusion_plan.ts";
import { isSelection } from "./reduce_forms.ts";

/** Something that a computation reads: its bytes, and the ranges that its indices depend on. */
interface Operand {
  readonly nbytes: number;
  readonly ranges: readonly UOp[];
}

/** The output axis of each range, as {@linkcode outputRanges} numbers them without an order. */
export function outputAxes(ranges: readonly UOp[]): number[] {
  return ranges.map((r) => argOf(r, Ops.RANGE).id).filter((id) => id < OUTPUT_RANGES).sort((a, b) => a - b);
}

/** A graph, and what is decided of it so far, seen from above its reduces. */
export abstract class ReduceReads extends ContextWalk {
  /** The nearest reduce below `u` that is computed with it, and where it is read if `u` is read at `idx`. */
  protected nearestReduce(u: UOp, idx: readonly UOp[]): { reduce: UOp; idx: readonly UOp[] } | undefined {
    while (u.op !== Ops.REDUCE) {
      const next = u.op === Ops.EXPAND ? undefined : u.src.find((s) => this.of(s).reduces && !this.realized.has(s));
      if (next === undefined) return undefined;
      if (isMovement(u.op)) idx = sourceIndex(u, idx).idx;
      u = next;
    }
    return { reduce: u, idx };
  }

  /**
   * Does `test` hold for all that reduce `u`, read at `idx`, reads: storage, nodes to be realized, other reduces? false
   * also where there is too much to look at.
   */
  protected everyOperand(u: UOp, idx: readonly UOp[], test: (o: Operand) => boolean): boolean {
    const seen = new Map<UOp, (readonly UOp[])[]>();
    let left = MAX_LOOKED_AT;
    const visit = (v: UOp, at: readonly UOp[]): void => {
      if (left <= 0 || v.op === Ops.CONST || v.op === Ops.IOTA || v.op === Ops.VARIABLE || v.op === Ops.BIND) return;
      const before = seen.get(v);
      if (before === undefined) seen.set(v, [at]);
      else if (before.some((x) => sameArray(x, at))) return;
      else before.push(at);
      left--;
      if (isLeaf(v) || this.realized.has(v) || (v.op === Ops.REDUCE && v !== u)) {
        if (!test({ nbytes: numelOf(v) * v.dtype.itemsize, ranges: dependence(at) })) left = 0;
        return;
      }
      this.enter(v, { kernel: u, idx: at, active: 1, underSum: false }, (s, _, i) => visit(s, i));
    };
    visit(u, idx);
    return left > 0;
  }

  /** Does each factor of a sum of products, read as `c` says, depend on a range? */
  protected areFactorsAlong(u: UOp, { kernel, idx }: Context, r: UOp): boolean {
    const at = (idx: readonly UOp[]): Context => ({ kernel, idx, active: 1, underSum: false });
    let along = 0;
    this.enter(u, at(idx), (product, _, i) => {
      this.enter(product, at(i), (factor, _, j) => {
        if (!this.everyOperand(factor, j, (o) => !o.ranges.includes(r))) along++;
      });
    });
    return along === u.src[0].src.length;
  }

  /** Elements that the nearest reduces below `u` read. */
  protected workBelow(u: UOp): number {
    while (isAlu(u.op) || isMovement(u.op)) {
      const next = u.src.find((s) => this.of(s).reduces && !this.realized.has(s));
      if (next === undefined) return 0;
      u = next;
    }
    return u.op === Ops.REDUCE && !this.isSelected(u) ? numelOf(u.src[0]) : 0;
  }

  /** Does a sum select an element of what needs no reduce? Else it is computed where those are. */
  private isSelected(u: UOp): boolean {
    return isSelection(u) && this.of(u.src[0].src[1]).depth === 0;
  }

  /** Times a node without reduces is computed: outside of the output loops behind the last one that it depends on. */
  entered(c: Context): number {
    const ranges = outputDependence(c.idx);
    if (ranges === undefined) return c.active;
    const shape = shapeOf(c.kernel.op === Ops.STORE ? c.kernel.src[1] : c.kernel);
    const last = Math.max(-1, ...outputAxes(ranges));
    return shape.slice(0, last + 1).reduce((n, size) => n * size, 1);
  }
}
