/**
 * Opts of a kernel on a grid before they are applied: what they split off each axis, by the arithmetic of opt/kernel.ts and
 * without its AST. Candidates are made and estimated as plans, and only the one that is chosen is applied.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import type { AxisOpt, Opt } from "../opt/opt.ts";

/** What was split off an axis: copies within a thread, or threads of a group. */
export interface PlanPiece {
  readonly isThread: boolean;
  readonly size: number;
  /** Iterations of the axis from one of them to the next. */
  readonly stride: number;
}

/** An axis of a plan. */
export interface PlanAxis {
  /** Iterations, with those of padding. */
  size: number;
  /** What is left to loops and groups. */
  rest: number;
  /** Copies within a thread, and threads, in all. */
  copies: number;
  threads: number;
  /** Does it end at a variable? Then it is cut in blocks that its pieces fill, `size` iterations as a rule. */
  readonly isOpen: boolean;
  readonly pieces: PlanPiece[];
}

/** A list of opts on its way. */
export class GridPlan {
  readonly opts: AxisOpt[] = [];
  readonly axes: readonly PlanAxis[];

  /**
   * @param sizes iterations of the axes, those of the output first
   * @param outputs how many are of the output
   * @param isFixed which axes are not split: those of a STAGE, and those that are copies
   * @param isOpen which axes end at a variable
   * @param loops how many axes are loops; those that follow are copies already
   */
  constructor(
    sizes: readonly number[],
    private readonly outputs: number,
    private readonly isFixed: readonly boolean[] = [],
    isOpen: readonly boolean[] = [],
    loops: number = sizes.length,
  ) {
    this.axes = sizes.map((size, i) =>
      i < loops
        ? { size, rest: size, copies: 1, threads: 1, isOpen: isOpen[i] === true, pieces: [] }
        : { size, rest: 1, copies: size, threads: 1, isOpen: false, pieces: [{ isThread: false, size, stride: 1 }] }
    );
  }

  /** The plan that a list of opts is; undefined where it has others than those of axes. */
  static of(opts: readonly Opt[], sizes: readonly number[], outputs: number): GridPlan | undefined {
    const plan = new GridPlan(sizes, outputs);
    for (const o of opts) {
      if (!("size" in o)) return undefined;
      const axis = "reduce" in o ? o.reduce + outputs : o.axis;
      const isMade = o.op === "PADTO"
        ? plan.pad(axis, o.size)
        : o.op === "UPCAST" || o.op === "UNROLL"
        ? plan.copy(axis, o.size)
        : (o.op === "LOCAL" || o.op === "GROUP") && plan.share(axis, o.size);
      if (!isMade) return undefined;
    }
    return plan;
  }

  /** Splits `k` copies off an axis; false, and nothing done, where that is not possible. */
  copy(axis: number, k: number): boolean {
    return this.split(axis, k, false);
  }
  /** Splits `k` threads off an axis. */
  share(axis: number, k: number): boolean {
    return this.split(axis, k, true);
  }
  /** Rounds an axis up to a multiple. */
  pad(axis: number, k: number): boolean {
    const a = this.axes[axis];
    if (a === undefined || this.isFixed[axis] || a.pieces.length > 0 || k < 2) return false;
    if (a.isOpen || a.size % k === 0) return true; // blocks are as large as their pieces
    a.size = a.rest = ceilDiv(a.size, k) * k;
    this.opts.push({ op: "PADTO", axis, size: k });
    return true;
  }

  /** Cuts an axis that ends at a variable in blocks of `k`, or larger ones than those that it was cut in. */
  private block(axis: number, k: number): void {
    const at = this.opts.findIndex((o) => o.op === "PADTO" && o.axis === axis);
    this.opts.splice(at < 0 ? this.opts.length : at, at < 0 ? 0 : 1, { op: "PADTO", axis, size: k });
  }

  private split(axis: number, k: number, isThread: boolean): boolean {
    const a = this.axes[axis], isReduce = axis >= this.outputs;
    if (k === 1) return true;
    if (a === undefined || this.isFixed[axis] || k > a.rest) return false;
    if (a.isOpen) {
      this.block(axis, a.copies * a.threads * k);
      a.size = ceilDiv(a.rest, k) * a.copies * a.threads * k;
    } else if (isReduce && a.rest % k !== 0) {
      // threads are padded, copies peeled off
      if (a.pieces.length > 0) return false;
      a.size = a.rest = ceilDiv(a.rest, k) * k;
    }
    a.pieces.push({ isThread, size: k, stride: a.copies * a.threads });
    if (isThread) a.threads *= k;
    else a.copies *= k;
    a.rest = ceilDiv(a.rest, k);
    this.opts.push(
      isReduce
        ? { op: isThread ? "GROUP" : "UNROLL", reduce: axis - this.outputs, size: k }
        : { op: isThread ? "LOCAL" : "UPCAST", axis, size: k },
    );
    return true;
  }
}
