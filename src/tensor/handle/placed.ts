/**
 * Along which axis of a mesh what belongs to a tensor is divided, its gradient and what an optimizer keeps for it, where the
 * tensor itself says nothing of it. Noted when a model is put on a mesh; read by `backward` and by optimizers.
 *
 * @module
 */
import { checkShards } from "../../engine/front/engine.ts";
import { sameArray } from "../../helpers/math.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf } from "../../uop/core/shape.ts";
import { meshes, type MeshShape, Sharding, type Spec } from "../../uop/core/sharding.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import type { TensorBase } from "./base.ts";

/** How what belongs to a tensor lies on a mesh. */
export interface Placed {
  readonly mesh: MeshShape;
  readonly axes: Spec;
  /** Whether gradients are divided, too; else only what an optimizer keeps. */
  readonly gradients: boolean;
}

const placed = new WeakMap<TensorBase, Placed>();

/** Notes it; undefined forgets it. */
export function notePlaced(t: TensorBase, how: Placed | undefined): void {
  if (how === undefined) placed.delete(t);
  else placed.set(t, how);
}

/** What was noted of a tensor, as long as it is on that mesh. */
export function placedOf(t: TensorBase): Placed | undefined {
  const how = placed.get(t);
  return how !== undefined && deviceOf(t.uop) === how.mesh.device ? how : undefined;
}

/**
 * A gradient of `t`, divided along the dimensions that `t` is divided along, or as was noted. What is divided so already
 * stays as it is, a sum that the devices have yet to add up, too.
 */
export function dividedGradient(t: TensorBase, grad: UOp): UOp {
  const device = deviceOf(grad);
  if (meshes.count === 0 || t.dtype.isComplex || device === null || device !== deviceOf(t.uop)) return grad;
  const own = checkShards(t.uop), how = placedOf(t), { shape } = own;
  const isOwn = own.axes.some((a) => a !== null), isNoted = how?.gradients === true;
  const [mesh, axes] = isNoted ? [how.mesh, how.axes] : isOwn ? [own.mesh, own.axes] : [];
  if (axes === undefined || mesh === undefined || sameArray(checkShards(grad).axes, axes)) return grad;
  return uop(Ops.SHARD, grad.dtype, [grad], new Sharding(mesh, shape, axes));
}
