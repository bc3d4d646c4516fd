/**
 * Tensors divided among devices: shard, reshard, and what they say of it.
 *
 * @module
 */
import { canonicalize, type DeviceName, findGroup } from "../device/device.ts";
import type { Mesh } from "../device/mesh.ts";
import { ArgumentError, DeviceError, ShapeError } from "../helpers/errors.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { checkShards, makeMesh, shardingOf } from "../engine/front/engine.ts";
import { Ops } from "../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../uop/core/shape.ts";
import { CollectiveArg, MeshShape, Sharding, type Spec } from "../uop/core/sharding.ts";
import { type UOp, uop } from "../uop/core/uop.ts";
import { bare, fromPairs } from "../uop/graph/complex.ts";
import { checkTensor, internals, TensorBase } from "./handle/base.ts";
import { cutHere, materializeShape } from "./handle/broadcast.ts";
import { resolveAxis } from "./handle/axes.ts";
import { unplaced } from "./handle/memory_of.ts";
import { holdMemory, type RealizeTensor } from "./realize.ts";

/** Options of {@linkcode ShardTensor.shard} on a list of devices. */
export interface ShardOptions {
  /** The dimension that is divided; absent: each device has all of it. */
  readonly axis?: number | null;
}

/** The axis of a mesh made of a list of devices. */
const LIST_AXIS = "devices";
const listMeshes = new Map<string, Mesh>();

/** The mesh of one axis over a list of devices. */
function listMesh(devices: readonly DeviceName[]): Mesh {
  const key = devices.map(canonicalize).join(",");
  let mesh = listMeshes.get(key);
  if (mesh === undefined) {
    mesh = makeMesh({ [LIST_AXIS]: devices.length }, { devices });
    listMeshes.set(key, mesh);
  }
  return mesh;
}

/** The mesh that is given, or that of a list of devices. @throws {ArgumentError} for anything else */
export function meshOf(action: string, where: MeshShape | readonly DeviceName[]): MeshShape {
  if (Array.isArray(where)) return listMesh(where);
  if (where instanceof MeshShape) return where;
  throw new ArgumentError(action, {
    reason: `it takes a mesh, as Mesh.of({ data: 2 }), or a list of devices, not ${describe(where)}`,
  });
}

/** Throws where `spec` does not say how `shape` is divided. */
function checkSpec(action: string, mesh: MeshShape, spec: Spec, shape: readonly number[]): void {
  if (!Array.isArray(spec) || spec.some((a) => a !== null && typeof a !== "string")) {
    throw new ArgumentError(action, {
      reason: `it takes a list with the name of an axis of the mesh, or null, for each dimension, not ${
        describe(spec)
      }`,
    });
  }
  const example = `as [${shape.map((_, i) => i === 0 ? `"${mesh.names[0]}"` : "null").join(", ")}]`;
  if (spec.length !== shape.length) {
    throw new ShapeError(action, {
      shapes: [shape],
      reason: `${spec.length} entries are given for ${shape.length} dimensions; give one for each, ${example}`,
    });
  }
  spec.forEach((axis: string | null, dim) => {
    if (axis === null) return;
    if (!mesh.names.includes(axis)) {
      throw new ArgumentError(action, { reason: `mesh ${mesh} has no axis ${describe(axis)}` });
    }
    if (spec.indexOf(axis) !== dim) {
      throw new ArgumentError(action, {
        reason: `dimensions ${spec.indexOf(axis)} and ${dim} cannot both be divided along ${axis}`,
      });
    }
  });
}

/** The mesh and the spec of arguments in either form. */
function placeOn(
  action: string,
  where: MeshShape | readonly DeviceName[],
  how: Spec | ShardOptions | number | undefined,
  shape: readonly number[],
): [mesh: MeshShape, spec: Spec] {
  if (!Array.isArray(where)) return [meshOf(action, where), how as Spec];
  const options = typeof how === "number" ? { axis: how } : (how ?? {}) as ShardOptions, { axis = null } = options;
  checkOptions(action, options, ["axis"]);
  const mesh = meshOf(action, where), dim = axis === null ? -1 : resolveAxis(action, axis, shape);
  return [mesh, shape.map((_, i) => i === dim ? LIST_AXIS : null)];
}

/** The families that it is written in. */
export interface ShardTensor extends RealizeTensor {}
/** Adds division among devices. */
export abstract class ShardTensor extends TensorBase {
  /**
   * This tensor on the devices of a mesh, lazily. With a spec, the name of an axis of the mesh or null for each dimension:
   * a dimension with a name is divided along it, in parts of one size (the last ones shorter, or empty, where it does not
   * divide evenly); what no dimension names has all of it. With a list of devices, tinygrad's form: divided along `axis`,
   * which may stand alone (`shard(devices, 0)`), or whole on each where it is absent. Shape and dtype stay.
   *
   * ```ts
   * import { Tensor } from "../../mod.ts";
   * const x = Tensor.arange(8).shard(["JS", "JS:1"], { axis: 0 });
   * console.log(x.sharding, await x.sum().item()); // int32[8@devices] 28
   * ```
   * @throws {ShapeError} for a spec of another length, {ArgumentError} for axes that the mesh has not
   */
  shard(mesh: MeshShape, spec: Spec): this;
  /** On a list of devices, divided along one dimension, or whole on each. */
  shard<N extends string>(devices: readonly DeviceName<N>[], options?: number | ShardOptions): this;
  shard(where: MeshShape | readonly DeviceName[], how?: Spec | ShardOptions | number): this {
    return this.divided("shard", ...placeOn("shard", where, how, this.shape));
  }

  /**
   * Divided otherwise, whatever has to move between the devices: the one op that moves values on its own. Where and how as
   * for {@linkcode shard}. @throws {DeviceError} for a tensor that is not on these devices
   */
  reshard(mesh: MeshShape, spec: Spec): this;
  /** On a list of devices, divided along one dimension, or whole on each. */
  reshard<N extends string>(devices: readonly DeviceName<N>[], options?: number | ShardOptions): this;
  reshard(where: MeshShape | readonly DeviceName[], how?: Spec | ShardOptions | number): this {
    const action = "reshard", [mesh, spec] = placeOn(action, where, how, this.shape), device = deviceOf(this.uop);
    if (device !== null && device !== mesh.device) {
      throw new DeviceError("reshard a tensor", {
        device,
        reason: `it is on ${device}, and not on ${mesh.device}; use .shard(mesh, ...) first`,
      });
    }
    return this.divided(action, mesh, spec);
  }

  /** As {@linkcode shard}, for this tensor itself: it names the shards from then on. */
  shardInPlace(mesh: MeshShape, spec: Spec): this;
  /** On a list of devices, divided along one dimension, or whole on each. */
  shardInPlace<N extends string>(devices: readonly DeviceName<N>[], options?: number | ShardOptions): this;
  shardInPlace(where: MeshShape | readonly DeviceName[], how?: Spec | ShardOptions | number): this {
    return this.replace((this.shard as (where: unknown, how: unknown) => this)(where, how));
  }

  /** Divided as `x` is, which has as many dimensions; on its device where that is one alone. */
  shardLike(x: TensorBase): this {
    checkTensor("shard like a tensor", "x", x);
    const { mesh, axes } = checkShards(bare(x.uop)), device = deviceOf(x.uop);
    if (mesh === undefined) return device === null ? this : this.to(device);
    return this.divided("shard like a tensor", mesh, axes);
  }

  /** This tensor along `spec`. */
  private divided(action: string, mesh: MeshShape, spec: Spec): this {
    checkSpec(action, mesh, spec, this.shape);
    const made = divide(materializeShape(cutHere(this.uop), this.shape), mesh, spec, false);
    return holdMemory(this.wrapNew(made));
  }

  /**
   * How this is divided: dtype, and each dimension with the axis of the mesh that it is divided along. What is a sum that
   * the devices have yet to add up says so in braces, as `float32[10]{data: sum}`.
   */
  get sharding(): string {
    const u = materializeShape(this.uop, this.shape);
    if (u.op !== Ops.COMPLEX) return shardingOf(u);
    return shardingOf(bare(u)).replace(/^\w+\[(.*), 2\]/, `${this.dtype}[$1]`);
  }
  /** The devices that this is on: more than one where it is sharded. */
  get devices(): readonly string[] {
    const { device } = this;
    return findGroup(device)?.members.map((d) => d.name) ?? [device];
  }
}

/**
 * The mesh that a dimension of `t` is divided on; undefined where each device has all of it.
 *
 * @param asRead as whoever reads it has it, who has all of what is divided in memory alone
 */
export function dividingMesh(t: TensorBase, asRead: boolean = false): MeshShape | undefined {
  if (findGroup(deviceOf(t.uop) ?? "") === undefined) return undefined;
  const { mesh, axes, isStored } = checkShards(bare(materializeShape(t.uop, t.shape)));
  return axes.some((a) => a !== null) && !(asRead && isStored) ? mesh : undefined;
}

/** All of `t` on each device that it is divided among: whatever has to move. */
export function gathered<T extends ShardTensor>(t: T): T {
  const mesh = dividingMesh(t);
  return mesh === undefined ? t : t.reshard(mesh, t.shape.map(() => null));
}

/**
 * `t`, divided along `axis` of a mesh, with its parts one rank after the other `by` ranks further, round the axis.
 *
 * @throws {ShapeError} where its parts are of several sizes
 */
export function rotated<T extends TensorBase>(t: T, mesh: MeshShape, axis: string, by: number): T {
  const u = materializeShape(t.uop, t.shape);
  return internals.wrap(
    t,
    uop(Ops.COLLECTIVE, u.dtype, [u], new CollectiveArg("permute", mesh, [axis], 0, mesh.device, by)),
  );
}

/** `t` on a mesh, divided along `spec` in memory alone: whoever reads it gathers it. */
export function storedOn<T extends TensorBase>(t: T, mesh: MeshShape, spec: Spec): T {
  const u = unplaced(t.uop) ?? t.uop; // each device computes its part
  return holdMemory(internals.wrap(t, divide(materializeShape(u, t.shape), mesh, spec, true)));
}

let nextDivided = 1 << 26;

/** `u` on a mesh, as memory of its own; of complex numbers the pairs. */
function divide(u: UOp, mesh: MeshShape, spec: Spec, isStored: boolean): UOp {
  if (u.op === Ops.COMPLEX) return fromPairs(divide(u.src[0], mesh, [...spec, null], isStored));
  const shape = shapeOf(u), axes = spec.map((a, i) => shape[i] <= 1 ? null : a); // of one element there are no parts
  const sharding = new Sharding(mesh, shape, axes, isStored), home = deviceOf(u);
  if (
    sharding.axes.every((a) => a === null) && home !== null && home !== mesh.device && findGroup(home) === undefined
  ) {
    return uop(Ops.COPY, u.dtype, [u], mesh.device); // a copy on each, as `to` gives
  }
  const shards = uop(Ops.SHARD, u.dtype, [u], sharding);
  return uop(Ops.CONTIGUOUS, u.dtype, [shards], nextDivided++);
}
