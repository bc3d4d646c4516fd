/**
 * An axis of a kernel that is being optimized: what was split off it, and the ranges that it becomes in the end. Nothing is
 * checked here; what an opt may do is in kernel.ts.
 *
 * Each split takes the innermost part of what is left of an axis: VECTOR 16, then UPCAST 4 make tiles of 64 contiguous
 * elements. Where a size is no multiple, the last tile of an axis overlaps the one before (`last`), or on a grid what is
 * beyond the end repeats the last element, which is not stored (`limit`).
 *
 * @module
 */
import { expectedSize } from "../../uop/algebra/bounds.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, range, type UOp } from "../../uop/core/uop.ts";
import { plus, times } from "../ast/alu_builder.ts";
import type { Replacement } from "../ast/replace_ranges.ts";

/** A piece that was split off an axis. `last`: where the last one starts, when it overlaps the one before. */
interface Piece {
  readonly type: "split";
  readonly size: number;
  readonly kind: AxisKind;
  readonly last: number | undefined;
  /** On a grid: the iterations that the pieces together must not exceed. */
  readonly limit?: number;
}

/** What is left of an axis is cut in tiles of `size`, which later splits divide. */
interface Tile {
  readonly type: "tile";
  readonly size: number;
  readonly last: number | undefined;
}

/** An axis of a kernel. */
export interface Axis {
  /** Its RANGE in the AST that `finish` rewrites. */
  readonly range: UOp;
  /** Iterations; 0 where they are not known. */
  readonly size: number;
  readonly role: "output" | "reduce" | "stage";
  /** Iterations left to loops: of the current tile, and of the loop over tiles (1 where there is none). */
  readonly rest: number;
  readonly outer: number;
  /** True where it is cut in tiles: `outer` of them, of which `rest` iterations are left inside. */
  readonly tiled: boolean;
  /** Does it end at a variable? Cut in blocks, its size is that of one. */
  readonly isOpen: boolean;
  /** Iterations to count with where they are not known. */
  readonly expected: number;
  readonly pieces: readonly Piece[];
}

/** An {@linkcode Axis} while opts are applied to it. */
export class AxisState implements Axis {
  steps: (Piece | Tile)[] = [];
  rest: number;
  outer = 1;
  tiled = false;
  thread = false;
  chunks = 0;
  readonly isOpen: boolean;
  expected: number;
  /** How many tiles there are, where that is not known: `size` is then that of one. */
  blocks: UOp | undefined = undefined;
  constructor(public range: UOp, public size: number, readonly role: Axis["role"]) {
    this.rest = size;
    this.isOpen = size === 0;
    this.expected = size === 0 ? expectedSize(range) : size;
  }
  get pieces(): Piece[] {
    return this.steps.filter((s) => s.type === "split");
  }
}

/** The ranges of an axis, loops first, and the index that they make. */
interface AxisRanges extends Replacement {
  /** Conditions under which that is an index of the axis. */
  readonly inside: readonly UOp[];
}

/**
 * The ranges that an axis becomes.
 * @param loopId id of its loop and pieces
 * @param tileId id of the loop within a tile
 * @param isGlobal true where its loop is one of groups
 */
export function axisRanges(a: AxisState, loopId: number, tileId: number, isGlobal = false): AxisRanges {
  const { dtype } = a.range;
  const inside: UOp[] = [];
  const kind = isGlobal ? AxisKind.GLOBAL : argOf(a.range, Ops.RANGE).kind;
  const ranges: UOp[] = [];
  const make = (end: UOp | number, kind: AxisKind, id: number, sub: number): UOp => {
    if (end === 1) return constant(0, dtype);
    const r = range(typeof end === "number" ? constant(end, dtype) : end, id, kind, sub);
    ranges.push(r);
    return r;
  };
  const loop = (size: number): UOp => {
    if (a.chunks === 0) {
      return make(a.blocks ?? (a.size === 0 ? a.range.src[0] : size), a.thread ? AxisKind.THREAD : kind, loopId, 0);
    }
    const t = make(a.chunks, AxisKind.THREAD, loopId, 0), inner = size / a.chunks;
    return plus(times(t, inner), make(inner, kind, loopId, 1));
  };
  const outer = loop(a.tiled ? a.outer : a.rest);
  const inner = a.tiled ? make(a.rest, kind, tileId, 2) : outer;
  // The value from what is left: `o` counts tiles, `x` is within the tile (all there is without tiles).
  let value = (_o: UOp, x: UOp): UOp => x;
  let left = 0, sub = 3;
  for (const s of a.steps) {
    const within = value;
    const { size, last } = s;
    if (s.type === "tile") {
      value = (o, x) => within(o, plus(clamp(times(o, size), last), x));
      left = size;
    } else {
      const piece = make(size, s.kind, loopId, sub++);
      const { limit } = s;
      /** The index `at` that may be too large: then the last one, which is not stored. */
      const limited = (at: UOp): UOp => {
        if (limit === undefined) return at;
        const valid = at.lt(limit);
        inside.push(valid);
        return valid.where(at, constant(limit - 1, at.dtype));
      };
      if (left === 1) value = (o, x) => within(limited(plus(clamp(times(o, size), last), piece)), x);
      else {
        value = (o, x) => within(o, limited(plus(clamp(times(x, size), last), piece)));
        left = Math.ceil(left / size);
      }
    }
  }
  // pieces in memory order for STAGEs: the first split is the innermost
  const pieces = ranges.splice(ranges.length - a.steps.filter((s) => s.type === "split").length);
  return { value: value(outer, inner), ranges: [...ranges, ...pieces.reverse()], inside };
}

/** min(x, last); x where there is no limit. */
function clamp(x: UOp, last: number | undefined): UOp {
  if (last === undefined || x.op === Ops.CONST) return x;
  return x.lt(last).where(x, constant(last, x.dtype));
}
