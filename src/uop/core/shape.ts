/**
 * Shape and device of tensor-graph nodes, memoized in the node. ALU sources have equal shapes, except that rank-0
 * leaves (CONST, VARIABLE, BIND) stand for any shape: they broadcast without a node and have no gradient.
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { argOf, OwnArg, reduceOf } from "./args.ts";
import { isAlu, isSame, opName, Ops } from "./ops.ts";
import { toposort, type UOp } from "./uop.ts";

const SCALAR: readonly number[] = Object.freeze([]);

function derive(u: UOp): readonly number[] | null {
  switch (u.op) {
    case Ops.CONST:
    case Ops.VARIABLE:
    case Ops.BIND:
      return SCALAR;
    case Ops.BUFFER: {
      const { storage: { layout, size }, isLocal } = argOf(u, Ops.BUFFER);
      return layout === undefined || isLocal ? [size] : layout.shape;
    }
    case Ops.COLLECTIVE:
      return argOf(u, Ops.COLLECTIVE).shapeFrom(shapeOf(u.src[0]));
    case Ops.IOTA:
      return [argOf(u, Ops.IOTA)];
    case Ops.RESHAPE:
    case Ops.EXPAND:
      return argOf(u, Ops.EXPAND).shape;
    case Ops.PERMUTE: {
      const s = shapeOf(u.src[0]);
      return argOf(u, Ops.PERMUTE).axes.map((a) => s[a]);
    }
    case Ops.PAD: {
      const s = shapeOf(u.src[0]);
      return argOf(u, Ops.PAD).pairs.map(([before, after], i) => s[i] + before + after);
    }
    case Ops.SHRINK:
      return argOf(u, Ops.SHRINK).pairs.map(([start, stop]) => stop - start);
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, size } = argOf(u, Ops.SKEW);
      return shapeOf(u.src[0]).map((n, i) => i === axis ? size : n);
    }
    case Ops.WINDOW: {
      const { axis, capacity } = argOf(u, Ops.WINDOW);
      return shapeOf(u.src[0]).map((n, i) => i === axis ? capacity : n);
    }
    case Ops.REDUCE: {
      const { axes } = reduceOf(u);
      return shapeOf(u.src[0]).map((n, i) => axes.includes(i) ? 1 : n);
    }
    case Ops.BITCAST: {
      const s = shapeOf(u.src[0]);
      const from = u.src[0].dtype.itemsize, to = u.dtype.itemsize;
      return from === to ? s : [...s.slice(0, -1), s[s.length - 1] * from / to];
    }
    case Ops.COMPLEX:
      return shapeOf(u.src[0]).slice(0, -1);
    case Ops.FLIP:
    case Ops.AFTER:
      return shapeOf(u.src[0]);
    default:
      if (isSame(u.op)) return shapeOf(u.src[0]);
      if (!isAlu(u.op)) return null;
  }
  for (let i = 0; i < u.src.length; i++) {
    const shape = shapeOf(u.src[i]);
    if (shape.length > 0) return shape;
  }
  return SCALAR;
}

/** The shape of a tensor-graph node. @throws {SpecError} for nodes that have none */
export function shapeOf(u: UOp): readonly number[] {
  let s = u.shapeMemo;
  if (s === undefined) {
    if (isReady(u)) u.shapeMemo = derive(u);
    else fill(u);
    s = u.shapeMemo;
  }
  if (s === null || s === undefined) throw new SpecError(`${opName[u.op]} has no shape`);
  return s;
}

/** Whether the sources have their memos. */
function isReady({ src }: UOp): boolean {
  for (let i = 0; i < src.length; i++) if (src[i].shapeMemo === undefined) return false;
  return true;
}

/** Fills memos below `root`, itself included. */
function fill(root: UOp): void {
  for (const u of toposort(root, (u) => u.shapeMemo === undefined)) {
    if (u.shapeMemo === undefined) u.shapeMemo = derive(u);
  }
}

/** Where a node puts what it reads from elsewhere: a COPY, a SHARD, a COLLECTIVE. */
export function movedToDevice(u: UOp): string | undefined {
  switch (u.op) {
    case Ops.COPY:
      return argOf(u, Ops.COPY);
    case Ops.SHARD:
      return argOf(u, Ops.SHARD).mesh.device;
    case Ops.COLLECTIVE:
      return argOf(u, Ops.COLLECTIVE).device;
  }
  return undefined;
}

/** Where memory is kept of what lives nowhere; null where nothing says so. */
function homeOf({ op, arg }: UOp): string | null {
  return op === Ops.CONTIGUOUS && arg instanceof OwnArg ? arg.device : null;
}

/** The device where a tensor-graph node lives or will be computed; null for constants and the like. */
export function deviceOf(root: UOp): string | null {
  if (root.deviceMemo !== undefined) return root.deviceMemo;
  for (const u of toposort(root, (u) => u.deviceMemo === undefined && movedToDevice(u) === undefined)) {
    if (u.deviceMemo !== undefined) continue;
    const target = movedToDevice(u);
    if (u.op === Ops.BUFFER) u.deviceMemo = argOf(u, Ops.BUFFER).storage.device;
    else if (target !== undefined) u.deviceMemo = target;
    else u.deviceMemo = u.src.find((s) => s.deviceMemo !== null)?.deviceMemo ?? homeOf(u);
  }
  return root.deviceMemo ?? null;
}
