/**
 * Results that stand side by side along a short axis: a selection, by the position along it, of values that do not depend on
 * it. Where it is an output axis, its kernel has copies of its body (UPCAST) instead of a loop, so that what the results have
 * in common is computed once for all of them. In: a node. Out: the axis. Steps of networks that sort or transform are such
 * selections, each along another axis of two, and a kernel does several of them.
 *
 * @module
 */
import { numelOf } from "../../uop/core/build_movement.ts";
import { isComparison, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { stripReshape } from "./fusion_plan.ts";

/** Size of such an axis, at most: of longer ones the lanes and threads of a device make more than copies do. */
const LONGEST = 4;

/** The axis whose position, compared with a number, decides a condition; -1 where something else does. */
function decidingAxis(condition: UOp): number {
  while (condition.op === Ops.EXPAND) condition = condition.src[0];
  if (!isComparison(condition.op) || condition.src[1].op !== Ops.CONST) return -1;
  let [position] = condition.src;
  while (position.op === Ops.EXPAND) position = position.src[0];
  if (position.op !== Ops.RESHAPE || position.src[0].op !== Ops.IOTA) return -1;
  const shape = shapeOf(position), axis = shape.findIndex((n) => n > 1);
  return axis >= 0 && shape[axis] === numelOf(position) ? axis : -1;
}

/** The axis along which `u` has its values side by side; undefined where it has none. */
export function stackedAxis(u: UOp): number | undefined {
  if (u.op !== Ops.WHERE) return undefined;
  const axis = decidingAxis(u.src[0]);
  if (axis < 0 || shapeOf(u)[axis] > LONGEST) return undefined;
  // the same numbers for all take no copies
  let computed = 0;
  const isApart = (v: UOp): boolean => {
    if (v.op === Ops.CONST) return true;
    if (v.op === Ops.EXPAND) {
      if (stripReshape(v.src[0]).op !== Ops.CONST) computed++;
      return shapeOf(v.src[0])[axis] === 1;
    }
    return v.op === Ops.WHERE && decidingAxis(v.src[0]) === axis && isApart(v.src[1]) && isApart(v.src[2]);
  };
  return isApart(u.src[1]) && isApart(u.src[2]) && computed > 0 ? axis : undefined;
}
