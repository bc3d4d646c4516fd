/**
 * What a node of a distributed graph is on each device: a node of the same graph for all of them, along which axes of the
 * mesh it is divided, and over which it is a partial result. Also what moves values between devices: collectives.
 *
 * Shards of uneven sizes are as large as the first one; what lies beyond the end is undefined, and masked where a reduction
 * would read it.
 *
 * @module
 */
import { coordinateNode } from "../../device/mesh.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, pad, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import {
  CollectiveArg,
  dividedText,
  type MeshShape,
  type MoveKind,
  Sharding,
  shardSize,
  type Spec,
} from "../../uop/core/sharding.ts";
import { constant, iota, positionDType, type UOp, uop } from "../../uop/core/uop.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { partBelow } from "./part_below.ts";

/** Axes of a mesh over which a node is yet to be reduced, with the op that reduces. */
export type Partials = ReadonlyMap<string, Ops>;

/** A node as each device has it. */
export interface Shards {
  /** The node on each device. */
  readonly u: UOp;
  /** The shape of all of it. */
  readonly shape: readonly number[];
  /** Of each dimension, the axis that it is divided along. */
  readonly axes: Spec;
  /** Undefined where it is the same on all devices, or on one alone. */
  readonly mesh: MeshShape | undefined;
  readonly partial: Partials;
  /** Whether it is divided in memory alone: whoever reads it has all of it. */
  readonly isStored: boolean;
}

export const NO_PARTIALS: Partials = new Map();

/** A node that is whole on its device, or on each of several. */
export function whole(u: UOp): Shards {
  const shape = u.dtype.kind === "void" ? [] : shapeOf(u);
  return { u, shape, axes: shape.map(() => null), mesh: undefined, partial: NO_PARTIALS, isStored: false };
}

/** Whether shards differ from what they are shards of. */
export function isDivided({ axes, partial }: Shards): boolean {
  return partial.size > 0 || axes.some((a) => a !== null);
}

/** How memory of shards is laid out; undefined where it is like any other. */
export function layoutOf({ mesh, shape, axes, isStored }: Shards): Sharding | undefined {
  return mesh === undefined || axes.every((a) => a === null) ? undefined : new Sharding(mesh, shape, axes, isStored);
}

/** A sharding as users read it: "float32[512@data, 784]{model: sum}". */
export function shardingText({ u, shape, axes, partial }: Shards): string {
  const names: Record<number, string> = { [Ops.ADD]: "sum", [Ops.MUL]: "prod", [Ops.MAX]: "max" };
  const sums = [...partial].map(([axis, op]) => `${axis}: ${names[op]}`).join(", ");
  return `${u.dtype}${dividedText(shape, axes)}` + (sums === "" ? "" : `{${sums}}`);
}

/** The dimensions that are divided. */
function dividedDims(axes: Spec): number[] {
  return axes.flatMap((a, i) => a === null ? [] : [i]);
}

/** The shape of each shard. */
export function localShape({ mesh, shape, axes }: Shards): number[] {
  return shape.map((n, i) => mesh === undefined ? n : shardSize(n, mesh, axes[i]));
}

/** An action on shards that would move values, with what makes it legal. */
export function refuse(u: UOp, operands: readonly Shards[], reason: string): never {
  const line = u.line === undefined ? "" : ` (${u.line})`;
  throw new ShapeError(`compute ${opName[u.op]} on shards of`, {
    shapes: operands.map((s) => s.shape),
    reason: `${reason}; the operands are ${operands.map(shardingText).join(" and ")}${line}`,
  });
}

/** How `reshard` would be called for these axes. */
export function reshardText(axes: Spec): string {
  return `.reshard(mesh, ${JSON.stringify(axes).replaceAll(",", ", ")})`;
}

function collective(kind: MoveKind, mesh: MeshShape, axes: readonly string[], x: UOp, op = 0, to?: string): UOp {
  return uop(Ops.COLLECTIVE, x.dtype, [x], new CollectiveArg(kind, mesh, axes, op, to));
}

/** Blocks along first axes, one for each of `dims`, as the parts of these dimensions: all of `shape`. */
function assembled(x: UOp, dims: readonly number[], shape: readonly number[]): UOp {
  const sizes = shapeOf(x), count = dims.length, order: number[] = [], out: number[] = [];
  for (let i = 0; i < shape.length; i++) {
    const at = dims.indexOf(i);
    if (at >= 0) order.push(at);
    order.push(count + i);
    out.push(at >= 0 ? sizes[at] * sizes[count + i] : sizes[count + i]);
  }
  return shrink(reshape(permute(x, order), out), shape.map((n) => [0, n] as const));
}

/** The other way round: `dims`, padded where they are uneven, as blocks along first axes of `counts`. */
function apart(x: UOp, dims: readonly number[], counts: readonly number[]): UOp {
  const shape = shapeOf(x), parted: number[] = [], first: number[] = new Array(dims.length), rest: number[] = [];
  const countOf = (dim: number): number => dims.includes(dim) ? counts[dims.indexOf(dim)] : 1;
  const sizes = shape.map((n, i) => Math.ceil(n / countOf(i))), whole = sizes.map((n, i) => n * countOf(i));
  shape.forEach((_, i) => {
    const at = dims.indexOf(i);
    if (at >= 0) first[at] = parted.push(counts[at]) - 1;
    rest.push(parted.push(sizes[i]) - 1);
  });
  return permute(reshape(pad(x, shape.map((n, i) => [0, whole[i] - n] as const)), parted), [...first, ...rest]);
}

/** Reduced over the ranks along `axis`, and divided among them along dimension `dim`. */
function scattered(x: UOp, dim: number, mesh: MeshShape, axis: string, op: number): UOp {
  return collective("reduceScatter", mesh, [axis], apart(x, [dim], [mesh.sizeOf(axis)]), op);
}

/** `make` of what is multiplied with numbers in `u`, multiplied with them: what differs in factors alone is reduced once. */
function underFactors(u: UOp, make: (x: UOp) => UOp): UOp {
  if (u.op !== Ops.MUL && u.op !== Ops.FDIV) return make(u);
  const [a, b] = u.src;
  if (b.op === Ops.CONST) return uop(u.op, u.dtype, [underFactors(a, make), b], u.arg);
  if (a.op === Ops.CONST && u.op === Ops.MUL) return uop(u.op, u.dtype, [a, underFactors(b, make)], u.arg);
  return make(u);
}

/** What is repeated along dimensions of `u`, and numbers that it is multiplied with: below these there is less to reduce. */
function underExpands(u: UOp, make: (x: UOp) => UOp): UOp {
  return underFactors(u, (x) => x.op === Ops.EXPAND ? moveLike(x, underExpands(x.src[0], make)) : make(x));
}

/** Whether `u` is the same all along dimension `dim`. */
function isRepeated(u: UOp, dim: number): boolean {
  let found = false;
  underFactors(u, (x) => {
    found = x.op === Ops.EXPAND && shapeOf(x)[dim] > 1 && shapeOf(x.src[0])[dim] === 1;
    return x;
  });
  return found;
}

/** What graphs of shards are built with; nodes of one graph share it. */
export class Moves {
  /** What assembled nodes were gathered from: whoever takes the own part of one takes that. */
  private readonly gathered = new Map<UOp, { readonly from: UOp; readonly dim: number; readonly axis: string }>();
  private readonly parts = new Map<UOp, Map<string, UOp>>();

  /** The result of all ranks along `axis`, on each of them. */
  allReduce(s: Shards, axis: string): Shards {
    const mesh = s.mesh!, op = s.partial.get(axis)!;
    const u = underExpands(s.u, (x) => collective("allReduce", mesh, [axis], x, op));
    return { ...s, u, partial: without(s.partial, axis) };
  }
  /** The result of all ranks along `axis`, divided among them along dimension `dim`. */
  reduceScatter(s: Shards, axis: string, dim: number): Shards {
    const mesh = s.mesh!, op = s.partial.get(axis)!;
    const u = underFactors(s.u, (x) => scattered(x, dim, mesh, axis, op));
    return { ...s, u, axes: s.axes.with(dim, axis), partial: without(s.partial, axis) };
  }
  /** All of dimension `dim`. */
  allGather(s: Shards, dim: number): Shards {
    const axis = s.axes[dim]!, next = { ...s, axes: s.axes.with(dim, null) };
    const u = assembled(collective("allGather", s.mesh!, [axis], s.u), [dim], localShape(next));
    this.gathered.set(u, { from: s.u, dim, axis });
    return { ...next, u };
  }
  /** Divided along dimension `to` instead of `from`. */
  allToAll(s: Shards, from: number, to: number): Shards {
    const axis = s.axes[from]!, mesh = s.mesh!;
    const next = { ...s, axes: s.axes.with(from, null).with(to, axis) };
    const moved = collective("allToAll", mesh, [axis], apart(s.u, [to], [mesh.sizeOf(axis)]));
    return { ...next, u: assembled(moved, [from], localShape(next)) };
  }
  /** Of what is whole, the own part along dimension `dim`. */
  ownPart(s: Shards, dim: number, axis: string): Shards {
    return { ...s, u: this.part(s.u, dim, s.mesh!, axis), axes: s.axes.with(dim, axis) };
  }

  /** On another device, or the same on all of a group. */
  to(s: Shards, device: string): UOp {
    const dims = dividedDims(s.axes);
    if (dims.length === 0) return uop(Ops.COPY, s.u.dtype, [s.u], device);
    return assembled(collective("gather", s.mesh!, dims.map((i) => s.axes[i]!), s.u, 0, device), dims, s.shape);
  }
  /** From another device, divided along `axes`. */
  from(u: UOp, mesh: MeshShape, axes: Spec): Shards {
    const dims = dividedDims(axes), names = dims.map((i) => axes[i]!);
    const made = dims.length === 0
      ? uop(Ops.COPY, u.dtype, [u], mesh.device)
      : collective("scatter", mesh, names, apart(u, dims, names.map((a) => mesh.sizeOf(a))), 0, mesh.device);
    return { u: made, shape: shapeOf(u), axes, mesh, partial: NO_PARTIALS, isStored: false };
  }

  /** Reduced over all axes but those of `kept`. */
  settled(s: Shards, kept?: ReadonlySet<string>): Shards {
    for (const axis of s.partial.keys()) if (kept?.has(axis) !== true) s = this.allReduce(s, axis);
    return s;
  }

  /** Divided along `axes`, whatever has to move; partial over the axes of `kept` alone. */
  converted(s: Shards, axes: Spec, kept?: ReadonlySet<string>): Shards {
    for (const axis of s.partial.keys()) {
      if (kept?.has(axis)) continue;
      const dim = axes.indexOf(axis);
      const isFree = dim >= 0 && s.axes[dim] === null && !s.axes.includes(axis) && !isRepeated(s.u, dim);
      s = isFree ? this.reduceScatter(s, axis, dim) : this.allReduce(s, axis);
    }
    for (let dim = 0; dim < axes.length; dim++) {
      const axis = s.axes[dim];
      if (axis === null || axis === axes[dim]) continue;
      const to = axes.indexOf(axis);
      s = to >= 0 && s.axes[to] === null ? this.allToAll(s, dim, to) : this.allGather(s, dim);
    }
    for (let dim = 0; dim < axes.length; dim++) {
      const axis = axes[dim];
      if (axis !== null && s.axes[dim] !== axis) s = this.ownPart(s, dim, axis);
    }
    return s;
  }

  /** The part of `u` along dimension `dim` that belongs to each rank: of what is only computed, no more is computed. */
  private part(u: UOp, dim: number, mesh: MeshShape, axis: string): UOp {
    const key = `${dim} ${axis}`, known = this.parts.get(u) ?? new Map<string, UOp>();
    let made = known.get(key);
    if (made === undefined) {
      made = this.partOf(u, dim, mesh, axis);
      known.set(key, made);
      this.parts.set(u, known);
    }
    return made;
  }

  private partOf(u: UOp, dim: number, mesh: MeshShape, axis: string): UOp {
    const from = this.gathered.get(u), shape = shapeOf(u), size = shardSize(shape[dim], mesh, axis);
    if (from?.dim === dim && from.axis === axis) return from.from;
    if (
      u.op === Ops.COLLECTIVE && u.arg instanceof CollectiveArg && u.arg.kind === "allReduce" && u.arg.axes[0] === axis
    ) {
      return scattered(u.src[0], dim, mesh, axis, u.arg.op);
    }
    const below = partBelow(u, dim, size, mesh.sizeOf(axis), (x, d) => this.part(x, d, mesh, axis));
    if (below !== undefined) return below;
    const coordinate = reshape(coordinateNode(mesh, axis), []);
    if (u.op === Ops.IOTA) {
      const d = positionDType(shape[0]), start = broadcastTo(coordinate.cast(d).mul(size), [size]);
      return iota(size).cast(d).add(start).cast(u.dtype);
    }
    return selected(apart(u, [dim], [mesh.sizeOf(axis)]), coordinate);
  }
}

/** Element `at` along the first axis: a sum that the compiler folds into one load. */
function selected(x: UOp, at: UOp): UOp {
  const shape = shapeOf(x), [n, ...rest] = shape, isBool = x.dtype.isBool;
  const position = broadcastTo(reshape(iota(n), [n, ...rest.map(() => 1)]), shape);
  const value = isBool ? x.cast(dtypes.int32) : x, isOwn = position.eq(broadcastTo(at, shape));
  const one = isOwn.where(value, constant(0, value.dtype));
  const own = reshape(uop(Ops.REDUCE, value.dtype, [one], new ReduceArg(Ops.ADD, [0])), rest);
  return isBool ? own.ne(0) : own;
}

/** Elements `from` to `to` of dimension `dim`, which is divided: what the ranks have of them, added up. */
export function sliced(s: Shards, dim: number, [from, to]: readonly [number, number]): Shards {
  const axis = s.axes[dim]!, mesh = s.mesh!, count = mesh.sizeOf(axis), sizes = shapeOf(s.u);
  const blocks = [...sizes.slice(0, dim), count, ...sizes.slice(dim)];
  const place = broadcastTo(reshape(iota(count), blocks.map((n, i) => i === dim ? n : 1)), blocks);
  const own = broadcastTo(reshape(s.u, [...sizes.slice(0, dim), 1, ...sizes.slice(dim)]), blocks);
  const isOwn = place.eq(broadcastTo(reshape(coordinateNode(mesh, axis), []), blocks));
  const all = reshape(isOwn.where(own, constant(0, own.dtype)), sizes.with(dim, count * sizes[dim]));
  const u = shrink(all, shapeOf(all).map((n, i) => i === dim ? [from, to] as const : [0, n] as const));
  const shape = s.shape.with(dim, to - from), axes = s.axes.with(dim, null);
  const op = own.dtype.isBool ? Ops.MAX : Ops.ADD;
  return { ...s, u, shape, axes, partial: to > from ? new Map([...s.partial, [axis, op]]) : s.partial };
}

/** Positions along dimension `dim` of a shard that are within all of it. */
export function withinShape(s: Shards, dim: number): UOp {
  return withinSlice(s, dim, [0, s.shape[dim]]);
}

/** Positions along dimension `dim` of a shard that are from `from` to `to` of all of it. */
export function withinSlice({ u, axes, mesh }: Shards, dim: number, [from, to]: readonly [number, number]): UOp {
  const sizes = shapeOf(u), size = sizes[dim], d = positionDType(size * mesh!.sizeOf(axes[dim]!));
  const start = broadcastTo(reshape(coordinateNode(mesh!, axes[dim]!), []).cast(d).mul(size), [size]);
  const position = iota(size).cast(d).add(start), isBelow = position.lt(to);
  const isWithin = from === 0 ? isBelow : position.lt(from).lt(isBelow);
  return broadcastTo(reshape(isWithin, sizes.map((_, i) => i === dim ? size : 1)), sizes);
}

/** Partial results but for those over `axis`. */
function without(partial: Partials, axis: string): Partials {
  return new Map([...partial].filter(([a]) => a !== axis));
}
