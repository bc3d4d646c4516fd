/**
 * Opts of a kernel on a grid before they are applied: what they split off each axis, by the arithmetic of opt/kernel.ts and
 * without its AST. Candidates are made and estimated as plans, and only the one that is chosen is applied.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Axis } from "../opt/axis.ts";
import type { AxisOpt } from "../opt/opt.ts";

/** An axis of a kernel on a grid, before anything is split off it; those of the output come first. */
export interface GridAxis {
  readonly range: UOp;
  /** Plans split those of the output and of reductions: a STAGE keeps its own, and of copies there is no loop. */
  readonly role: Axis["role"] | "copies";
  /** Iterations; where they are not known as many as to count with. */
  readonly size: number;
  /** Iterations that lie as its stride says: of axes that were merged, the innermost one's. */
  readonly inner: number;
  /** Does it end at a variable? It has no whole pieces, nor wide accesses, part of which may lie behind the end. */
  readonly isOpen: boolean;
}

/** May a plan split an axis? */
export function isSplit({ role }: Pick<GridAxis, "role">): boolean {
  return role === "output" || role === "reduce";
}

/** Is an axis a loop inside of those of the output? */
export function isInside({ role }: Pick<GridAxis, "role">): boolean {
  return role === "reduce" || role === "stage";
}

/** What was split off an axis: copies within a thread, or threads of a group. */
export interface PlanPiece {
  readonly isThread: boolean;
  readonly size: number;
  /** Iterations of the axis from one of them to the next. */
  readonly stride: number;
}

/** An axis of a plan. */
export interface PlanAxis extends Pick<GridAxis, "role" | "isOpen"> {
  /** Iterations, with those of padding; of one that is open those of its blocks, which its pieces fill. */
  size: number;
  /** What is left to loops and groups. */
  rest: number;
  /** Copies within a thread, and threads, in all. */
  copies: number;
  threads: number;
  readonly pieces: PlanPiece[];
}

function unsplit({ role, size, isOpen }: GridAxis): PlanAxis {
  const isCopies = role === "copies", pieces = isCopies ? [{ isThread: false, size, stride: 1 }] : [];
  return { role, size, rest: isCopies ? 1 : size, copies: isCopies ? size : 1, threads: 1, isOpen, pieces };
}

/** A list of opts on its way. */
export class GridPlan {
  readonly opts: AxisOpt[] = [];
  readonly axes: readonly PlanAxis[];

  constructor(axes: readonly GridAxis[]) {
    this.axes = axes.map(unsplit);
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
    if (a === undefined || !isSplit(a) || a.pieces.length > 0 || k < 2) return false;
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
    if (k === 1) return true;
    const a = this.axes[axis];
    if (a === undefined || !isSplit(a) || k > a.rest) return false;
    const isReduce = a.role === "reduce";
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
        ? { op: isThread ? "GROUP" : "UNROLL", reduce: axis - this.outputs(), size: k }
        : { op: isThread ? "LOCAL" : "UPCAST", axis, size: k },
    );
    return true;
  }

  private outputs(): number {
    return this.axes.findIndex(({ role }) => role !== "output");
  }
}
