/**
 * Nodes of several operands: on one device, under one shape, cut from gradients where those are off.
 *
 * @module
 */
import { togetherText } from "../../device/device.ts";
import { cutsGradients } from "../../helpers/env.ts";
import { DeviceError, ShapeError } from "../../helpers/errors.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { extentOf, extentText } from "../../uop/graph/extent.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { isMemory } from "../../uop/graph/writes.ts";

/** A rank-0 leaf: it broadcasts without movement nodes. */
export function isScalarLeaf(u: UOp): boolean {
  return u.op === Ops.CONST || u.op === Ops.VARIABLE || u.op === Ops.BIND;
}

/**
 * `u` as it is where it is computed: a constant to gradients in `Tensor.noGrad`, which needs a cut only where none is
 * right below.
 */
export function cutHere(u: UOp): UOp {
  if (!cutsGradients() || !u.dtype.isFloat || u.op === Ops.DETACH || isScalarLeaf(u)) return u;
  const isOpen = u.src.length === 0 || u.src.some((s) => s.dtype.isFloat && s.op !== Ops.DETACH && !isScalarLeaf(s));
  return isOpen || isMemory(u) ? uop(Ops.DETACH, u.dtype, [u]) : u;
}

/** Throws where two nodes live on two devices: nothing is moved silently. @throws {DeviceError} */
export function checkSameDevice(action: string, a: UOp, b: UOp): void {
  const p = deviceOf(a), q = deviceOf(b);
  if (p === q || p === null || q === null) return;
  throw new DeviceError(`${action} tensors on ${p} and ${q}`, {
    device: q,
    reason: `both must be on one device; ${togetherText(p, q)}`,
  });
}

/** The shape that `shapes` broadcast to, of `nodes` where they are such. @throws {ShapeError} naming the axis */
export function broadcastShape(
  action: string,
  shapes: readonly (readonly number[])[],
  nodes?: readonly UOp[],
): number[] {
  const rank = Math.max(...shapes.map((s) => s.length));
  const out: number[] = [];
  for (let i = 0; i < rank; i++) {
    let size = 1;
    for (const s of shapes) {
      const n = s[s.length - rank + i];
      if (n === undefined || n === 1 || n === size) continue;
      if (size !== 1) {
        // from the end where ranks differ, as NumPy aligns them
        const named = shapes.every((x) => x.length === rank) ? i : i - rank;
        const [a, b] = [size, n].map((m) => {
          const u = nodes?.find((u) => shapeOf(u).at(i - rank) === m);
          return u === undefined ? m : extentText(extentOf(u, i - rank + shapeOf(u).length));
        });
        throw new ShapeError(action, { shapes, axis: i, reason: `axis ${named} has sizes ${a} and ${b}` });
      }
      size = n;
    }
    out.push(size);
  }
  return out;
}

/** Broadcasts nodes to one shape; rank-0 leaves stay as they are, unless all are. */
export function broadcastNodes(action: string, nodes: readonly UOp[]): UOp[] {
  const shape = broadcastShape(action, nodes.map(shapeOf), nodes);
  return nodes.map((u) => isScalarLeaf(u) ? u : broadcastTo(u, shape));
}

/** `u` under exactly `shape`, also for rank-0 leaves, which get real axes. */
export function materializeShape(u: UOp, shape: readonly number[]): UOp {
  return shape.length === 0 ? reshape(u, shape) : broadcastTo(u, shape);
}
