/**
 * How a tensor lies on several devices: a mesh (its axes by name and size), which axis of the mesh each dimension is
 * divided along, and the collectives that move values between the shards. Axes have names here, and never devices: one
 * graph serves all ranks.
 *
 * @module
 */
import { hashNumbers, hashString, mix } from "../../helpers/hash.ts";
import { ceilDiv, prod, sameArray } from "../../helpers/math.ts";

/** Along which axis of a mesh each dimension is divided; null: it is whole on every device. */
export type Spec = readonly (string | null)[];

/** Axes of a mesh with their sizes: "data: 4, model: 2". */
export function sizesText(names: readonly string[], sizes: readonly number[]): string {
  return names.map((name, i) => `${name}: ${sizes[i]}`).join(", ");
}

/** How many meshes there are: while there is none, no graph is looked at for shards. */
export const meshes: { count: number } = { count: 0 };

/** Devices as a grid with named axes, the last one the fastest. */
export class MeshShape {
  /** Equal for equal meshes. */
  readonly hash: number;
  /** How many ranks there are. */
  readonly size: number;
  /** A grid. @param names of the axes @param sizes of the axes @param device what holds a shard for each rank: a group, or the device of a rank */
  constructor(readonly names: readonly string[], readonly sizes: readonly number[], readonly device: string) {
    this.size = prod(sizes);
    let h = hashNumbers(sizes);
    for (const name of names) h = mix(h, hashString(name));
    this.hash = mix(h, hashString(device));
  }
  /** Whether two records are equal. */
  same(o: object): boolean {
    return o instanceof MeshShape && o.device === this.device && sameArray(o.sizes, this.sizes) &&
      sameArray(o.names, this.names);
  }
  /** How many ranks there are along an axis. */
  sizeOf(axis: string): number {
    return this.sizes[this.names.indexOf(axis)];
  }
  /** Where a rank is along an axis. */
  coordinate(rank: number, axis: string): number {
    const at = this.names.indexOf(axis);
    for (let i = this.names.length - 1; i > at; i--) rank = Math.floor(rank / this.sizes[i]);
    return rank % this.sizes[at];
  }
  /** The number of a rank among those that differ along `axes` alone, the last one the fastest. */
  block(rank: number, axes: readonly string[]): number {
    return axes.reduce((n, a) => n * this.sizeOf(a) + this.coordinate(rank, a), 0);
  }
  /** As printed graphs show it. */
  toString(): string {
    return `{${sizesText(this.names, this.sizes)}}`;
  }
}

/** A tensor of `shape` on a mesh. */
export class Sharding {
  /** Equal for equal records. */
  readonly hash: number;
  /** One entry a dimension. */
  readonly axes: Spec;
  /**
   * A division.
   *
   * @param shape of all of it @param axes one entry a dimension; an axis of one device divides nothing
   * @param isStored whether it is divided in memory alone: whoever reads it has all of it
   */
  constructor(
    readonly mesh: MeshShape,
    readonly shape: readonly number[],
    axes: Spec,
    readonly isStored: boolean = false,
  ) {
    this.axes = axes.map((a) => a === null || mesh.sizeOf(a) === 1 ? null : a);
    let h = mix(mesh.hash, hashNumbers(shape));
    for (const a of this.axes) h = mix(h, a === null ? 1 : hashString(a));
    this.hash = mix(h, isStored ? 1 : 0);
  }
  /** Whether two records are equal. */
  same(o: object): boolean {
    return o instanceof Sharding && o.isStored === this.isStored && sameArray(o.shape, this.shape) &&
      sameArray(o.axes, this.axes) && o.mesh.same(this.mesh);
  }
  /** The shape of a shard; uneven sizes are rounded up. */
  get local(): number[] {
    return this.shape.map((n, i) => shardSize(n, this.mesh, this.axes[i]));
  }
  /** As printed graphs show it. */
  toString(): string {
    return `${dividedText(this.shape, this.axes)} ${this.mesh}`;
  }
}

/** A shape with the axes that it is divided along: "[512@data, 784]". */
export function dividedText(shape: readonly number[], axes: Spec): string {
  return `[${shape.map((n, i) => axes[i] === null ? n : `${n}@${axes[i]}`).join(", ")}]`;
}

/** Elements of a shard along a dimension of `n`. */
export function shardSize(n: number, mesh: MeshShape, axis: string | null): number {
  return axis === null ? n : ceilDiv(n, mesh.sizeOf(axis));
}

/**
 * What a COLLECTIVE does: the ranks that differ along `axes` act together. Blocks, one for each of these ranks, lie along
 * new first dimensions, one for each axis. `scatter` and `gather` are between the shards and blocks on one other device.
 * `permute` gives each rank what the one `shift` before it has, round the axis: also in graphs of whole tensors, where it
 * rolls the parts of the dimension that is divided.
 */
export type MoveKind = "allReduce" | "allGather" | "reduceScatter" | "allToAll" | "scatter" | "gather" | "permute";

/** The arg of a COLLECTIVE. */
export class CollectiveArg {
  /** Equal for equal records. */
  readonly hash: number;
  /** A collective. @param op the ALU op that reduces; 0 where nothing is reduced @param device where it is to: the mesh, unless given @param shift of a permute */
  constructor(
    readonly kind: MoveKind,
    readonly mesh: MeshShape,
    readonly axes: readonly string[],
    readonly op: number = 0,
    readonly device: string = mesh.device,
    readonly shift: number = 0,
  ) {
    let h = mix(mix(mix(mesh.hash, hashString(kind)), op), shift);
    for (const a of axes) h = mix(h, hashString(a));
    this.hash = mix(h, hashString(device));
  }
  /** Whether two records are equal. */
  same(o: object): boolean {
    return o instanceof CollectiveArg && o.kind === this.kind && o.op === this.op && o.device === this.device &&
      o.shift === this.shift && sameArray(o.axes, this.axes) && o.mesh.same(this.mesh);
  }
  /** The shape of the result for a source of `shape`. */
  shapeFrom(shape: readonly number[]): readonly number[] {
    switch (this.kind) {
      case "allReduce":
      case "allToAll":
      case "permute":
        return shape;
      case "allGather":
      case "gather":
        return [...this.axes.map((a) => this.mesh.sizeOf(a)), ...shape];
      case "reduceScatter":
      case "scatter":
        return shape.slice(this.axes.length);
    }
  }
  /** The axes with their sizes: "data(4)". */
  get rankText(): string {
    return this.axes.map((a) => `${a}(${this.mesh.sizeOf(a)})`).join(" ");
  }
  /** As printed graphs show it. */
  toString(): string {
    return `${this.kind} ${this.rankText}`;
  }
}
