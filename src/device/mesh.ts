/**
 * Meshes of devices as users make them, and what each device of one must know: where it stands.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { prod, rangeOf } from "../helpers/math.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { Storage } from "../uop/core/args.ts";
import { meshes, MeshShape, sizesText } from "../uop/core/sharding.ts";
import { bufferNode, type UOp } from "../uop/core/uop.ts";
import { attachBuffer, Buffer } from "./buffer.ts";
import { defaultDevice, type DeviceName, findGroup, type GroupDevice } from "./device.ts";
import { groupOf, partsOfBuffer, processes, processGroup } from "./group.ts";

/** Options of {@linkcode Mesh.of}. */
export interface MeshOptions<N extends string = string> {
  /**
   * The devices, by rank, all of one backend. Default: after `dist.init()` those of the processes that were started
   * together, one each; in a process alone as many of the default device's, by ordinal ("CLANG", "CLANG:1").
   */
  readonly devices?: readonly DeviceName<N>[];
}

const action = "make a mesh";

/**
 * Devices as a grid with named axes: tensors are divided along them.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { Mesh } from "../dist/dist.ts";
 * const mesh = Mesh.of({ data: 2, model: 2 }, { devices: ["JS", "JS:1", "JS:2", "JS:3"] });
 * const x = Tensor.ones([8, 4]).shard(mesh, ["data", null]);
 * console.log(x.sharding); // float32[8@data, 4]
 * ```
 */
export class Mesh extends MeshShape {
  /**
   * A mesh with these axes; the last one runs fastest over the devices.
   *
   * @param axes sizes by name: `{ data: 4, model: 2 }`
   * @throws {ArgumentError} for no axes, bad names or sizes, or a number of devices that is not their product
   * @throws {DeviceError} for devices of several backends, one listed twice, or one that does not open
   */
  static of<N extends string = string>(axes: Readonly<Record<string, number>>, options: MeshOptions<N> = {}): Mesh {
    checkOptions(action, options, ["devices"]);
    const names = Object.keys(axes ?? {}), sizes = names.map((name) => axes[name]);
    if (typeof axes !== "object" || names.length === 0) {
      throw new ArgumentError(action, { reason: `it takes sizes by name, as { data: 4 }, not ${describe(axes)}` });
    }
    names.forEach((name, i) => {
      if (!/^[A-Za-z_]\w*$/.test(name)) {
        throw new ArgumentError(action, { reason: `"${name}" names no axis: letters, digits and _ do` });
      }
      if (!Number.isInteger(sizes[i]) || sizes[i] < 1) {
        throw new ArgumentError(action, { reason: `axis ${name} must have a size of 1 or more, not ${sizes[i]}` });
      }
    });
    const size = prod(sizes);
    const group = options.devices === undefined ? processGroup() : undefined;
    if (group !== undefined) return new Mesh(names, sizes, ofProcesses(group, names, sizes));
    const devices = options.devices ?? ordinals(defaultDevice(), size);
    if (devices.length !== size) {
      throw new ArgumentError(action, {
        reason: `axes ${sizesText(names, sizes)} are ${size} devices, not ${devices.length}`,
      });
    }
    return new Mesh(names, sizes, groupOf(devices));
  }

  /** The devices of this process, by rank. */
  readonly devices: readonly string[];

  private constructor(names: readonly string[], sizes: readonly number[], group: GroupDevice) {
    super(names, sizes, group.name);
    this.devices = group.members.map((d) => d.name);
    meshes.count++;
  }
  /** The names and sizes of the axes. */
  override toString(): string {
    return super.toString();
  }
}

/** The group, where axes are as many as there are processes. @throws {ArgumentError} */
function ofProcesses(group: GroupDevice, names: readonly string[], sizes: readonly number[]): GroupDevice {
  const { size } = processes.place!;
  if (prod(sizes) === size) return group;
  throw new ArgumentError(action, {
    reason: `axes ${sizesText(names, sizes)} are not as many as the ${size} processes; ` +
      "name { devices } for a mesh in this process alone",
  });
}

/** The first `n` devices of the backend of `device`. */
function ordinals(device: string, n: number): string[] {
  const base = device.replace(/:.*/, "");
  return rangeOf(n).map((i) => i === 0 ? base : `${base}:${i}`);
}

const known = new Map<string, UOp>();

/** How far along an axis each rank is: memory of one int32, another one on each device of the mesh. */
export function coordinateNode(mesh: MeshShape, axis: string): UOp {
  const key = `${mesh.device} ${mesh} ${axis}`;
  let node = known.get(key);
  if (node === undefined) {
    const group = findGroup(mesh.device) ?? groupOf(mesh.device.split(",")),
      storage = new Storage(group.name, dtypes.int32, 1);
    const buffer = new Buffer(group, dtypes.int32, 1);
    buffer.use = "coordinates of a mesh";
    partsOfBuffer(buffer).forEach((part, i) =>
      part.copyIn(new Uint8Array(new Int32Array([mesh.coordinate(group.ranks[i], axis)]).buffer))
    );
    attachBuffer(storage, buffer);
    known.set(key, node = bufferNode(storage, 0, true));
  }
  return node;
}
