/**
 * Models on several devices: what a tree has of tensors, put on a mesh.
 *
 * @module
 */
import type { DeviceName } from "../device/device.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { notePlaced } from "../tensor/handle/placed.ts";
import { meshOf, storedOn } from "../tensor/shard.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkShards } from "../engine/front/engine.ts";
import { deviceOf } from "../uop/core/shape.ts";
import type { MeshShape, Spec } from "../uop/core/sharding.ts";
import { getParameters } from "./state_dict.ts";

/** Options of {@linkcode place}. */
export interface MeshPlaceOptions {
  /**
   * The axis of the mesh that tensors are divided along in memory: each along its first dimension that divides evenly.
   * They are gathered where they are read, and their gradients, and what an optimizer keeps for them, are divided alike:
   * what others call fully sharded data parallel, or ZeRO 3. Absent: each device has all of each.
   */
  readonly shard?: string;
  /**
   * How much is divided, as the stages of ZeRO (Rajbhandari et al., arXiv 1910.02054): 1, what an optimizer keeps; 2, gradients,
   * too; 3, unless given, the tensors as well. With 1 and 2 each device has all of each tensor, and a step gathers what it
   * has updated of them.
   */
  readonly zero?: 1 | 2 | 3;
}

/** How a tensor is divided already on this mesh, as those of tensor-parallel layers; undefined where it is not. */
function layerAxes(t: Tensor, mesh: MeshShape): Spec | undefined {
  if (deviceOf(t.uop) !== mesh.device || t.dtype.isComplex) return undefined;
  const own = checkShards(t.uop);
  return own.mesh?.same(mesh) && !own.isStored && own.axes.some((a) => a !== null) ? own.axes : undefined;
}

/**
 * Puts the tensors of `tree` (weights, statistics, what an optimizer keeps) on the devices of a mesh, in place; returns
 * the tree. What layers have divided along an axis of the mesh stays so: with `shard` its gradient and what an optimizer keeps
 * are divided along another dimension. An optimizer that was made before follows its parameters at its next step. A list of devices is a mesh of one axis, "devices".
 *
 * ```ts
 * import { nn, state, Tensor } from "../../mod.ts";
 * import { Mesh } from "../dist/dist.ts";
 * const mesh = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });
 * const model = state.place(new nn.Linear(4, 6), mesh, { shard: "data" });
 * console.log(model.weight.sharding); // float32[6@data, 4]
 * const x = Tensor.ones([8, 4]).shard(mesh, ["data", null]);
 * console.log(model.call(x).sharding); // float32[8@data, 6]
 * ```
 * @throws {ArgumentError} for an axis that the mesh has not
 */
export function place<T, N extends string = string>(
  tree: T,
  where: MeshShape | readonly DeviceName<N>[],
  options: MeshPlaceOptions = {},
): T {
  const action = "place a tree on a mesh";
  checkOptions(action, options, ["shard", "zero"]);
  const { shard, zero = 3 } = options;
  const mesh = meshOf(action, where);
  if (shard !== undefined && !mesh.names.includes(shard)) {
    throw new ArgumentError(action, { reason: `mesh ${mesh} has no axis ${describe(shard)}` });
  }
  if (![1, 2, 3].includes(zero)) {
    throw new ArgumentError(action, { reason: `zero must be 1, 2 or 3, not ${describe(zero)}` });
  }
  if (options.zero !== undefined && shard === undefined) {
    throw new ArgumentError(action, {
      reason: `zero: ${zero} says how much is divided; name the axis, too, as { shard: "${
        mesh.names[0]
      }", zero: ${zero} }`,
    });
  }
  const count = shard === undefined ? 0 : mesh.sizeOf(shard), tensors = getParameters(tree);
  for (const t of tensors) {
    const kept = layerAxes(t, mesh), isFree = (i: number): boolean => (kept?.[i] ?? null) === null;
    const dim = count === 0 || kept?.includes(shard!)
      ? -1
      : t.shape.findIndex((n, i) => n > 0 && n % count === 0 && isFree(i));
    const axes = t.shape.map((_, i) => i === dim ? shard! : kept?.[i] ?? null);
    if (kept === undefined) t.replace(storedOn(t, mesh, zero === 3 ? axes : axes.map(() => null)));
    const isNoted = dim >= 0 && !t.dtype.isComplex && (zero < 3 || kept !== undefined);
    notePlaced(t, isNoted ? { mesh, axes, gradients: zero >= 2 } : undefined);
  }
  const [first, ...rest] = tensors;
  first?.realize(rest);
  return tree;
}
