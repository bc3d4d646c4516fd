/**
 * What each op does on shards: by op, from its sources as each device has them to itself. What would move values between
 * devices is refused, with the reshard that makes it legal; partial results stay so as long as what reads them is linear.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { argOf, PairsArg, ReduceArg, reduceOf, ShapeArg } from "../../uop/core/args.ts";
import { broadcastTo, expand, pad, reshape, shrink } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import type { MeshShape, Spec } from "../../uop/core/sharding.ts";
import { bufferNode, constant, type UOp, uop } from "../../uop/core/uop.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { stripReshape } from "../fuse/fusion_plan.ts";
import { sourceDim } from "./part_below.ts";
import {
  isDivided,
  localShape,
  Moves,
  NO_PARTIALS,
  type Partials,
  refuse,
  reshardText,
  shardingText,
  type Shards,
  sliced,
  whole,
  withinShape,
  withinSlice,
} from "./shards.ts";

/** The mesh of shards that meet in one node. */
function commonMesh(u: UOp, sources: readonly Shards[]): MeshShape | undefined {
  let mesh: MeshShape | undefined;
  for (const s of sources) {
    if (s.mesh === undefined || s.mesh === mesh) continue;
    if (mesh === undefined || mesh.same(s.mesh)) mesh ??= s.mesh;
    else if (!sources.some((x) => x.mesh === mesh && isDivided(x))) mesh = s.mesh;
    else if (isDivided(s)) {
      refuse(u, sources, `they are on two meshes, ${mesh} and ${s.mesh}: reshard one to the other's`);
    }
  }
  return mesh;
}

/** Rules of one graph. */
export class Rules {
  private readonly moves: Moves = new Moves();
  /** What partial results are made of that are added up somewhere, and that stay partial somewhere. */
  private readonly addedUp = new Set<UOp>();
  private readonly kept = new Set<UOp>();

  /**
   * @param of gives the shards of a node below
   * @param addedAnyway what is added up somewhere: it is so everywhere, instead of a second time in another product
   */
  constructor(private readonly of: (u: UOp) => Shards, private readonly addedAnyway: ReadonlySet<UOp> = new Set()) {}

  /** What rules of another go are to add up anyway; undefined where that changes nothing. */
  get again(): ReadonlySet<UOp> | undefined {
    return [...this.kept].some((u) => this.addedUp.has(u)) ? this.addedUp : undefined;
  }

  /** A source as it is read: what is divided in memory alone is gathered. */
  private read(u: UOp): Shards {
    let s = this.of(u);
    if (!s.isStored) return s;
    s.axes.forEach((a, dim) => {
      if (a !== null) s = this.moves.allGather(s, dim);
    });
    return { ...s, isStored: false };
  }

  /** What a source is without movement: what a user can reshard. */
  private origin(u: UOp): Shards {
    while (isMovement(u.op)) u = u.src[0];
    return this.of(u);
  }

  /** What memory is made of, as a root of the graph is: with values that need nothing more. */
  root(u: UOp, s: Shards): Shards {
    if (s.partial.size > 0) this.addedUp.add(summedIn(u));
    return this.moves.settled(s);
  }

  /** Node `u` as each device has it. */
  shardsOf(u: UOp): Shards {
    if (u.op === Ops.BUFFER) return this.buffer(u);
    if (u.op === Ops.SHARD) return this.shard(u);
    if (u.src.every((s) => this.of(s).mesh === undefined && this.of(s).u === s)) return whole(u);
    if (u.op === Ops.STORE) return this.store(u);
    if (u.op === Ops.AFTER) return this.after(u);
    if (isAlu(u.op)) return u.op === Ops.BITCAST ? this.bitcast(u) : this.elementwise(u);
    if (isMovement(u.op)) return this.movement(u, this.read(u.src[0]));
    switch (u.op) {
      case Ops.REDUCE:
        return this.reduce(u);
      case Ops.COPY:
        return this.copy(u);
      case Ops.CONTIGUOUS: {
        const s = this.root(u.src[0], this.of(u.src[0]));
        return { ...s, u: uop(u.op, u.dtype, [s.u], u.arg) };
      }
      case Ops.COLLECTIVE:
        return this.rolled(u);
      case Ops.DETACH:
      case Ops.CONTIGUOUS_BACKWARD:
      case Ops.CHECKPOINT:
        return this.read(u.src[0]);
    }
    const sources = u.src.map((s) => this.read(s));
    if (sources.some(isDivided)) {
      const axes = (sources.find(isDivided) as Shards).axes.map(() => null);
      refuse(u, sources, `it takes whole tensors: ${reshardText(axes)} first`);
    }
    return { ...whole(u.withSrc(sources.map((s) => s.u))), mesh: commonMesh(u, sources) };
  }

  private buffer(u: UOp): Shards {
    const { storage, version, isLocal } = argOf(u, Ops.BUFFER), { layout } = storage;
    if (layout === undefined || isLocal) return whole(u);
    const { mesh, shape, axes, isStored } = layout;
    const local = reshape(bufferNode(storage, version, true), layout.local);
    return { u: local, shape, axes, mesh, partial: NO_PARTIALS, isStored };
  }

  /** What a STORE writes to: the memory itself, also where readers would get it gathered. */
  private target(u: UOp): Shards {
    if (!isMovement(u.op)) return this.of(u);
    const s = this.target(u.src[0]), [cut] = u.op === Ops.SHRINK ? cutDims(u, s.axes) : [];
    if (cut !== undefined) {
      const wayOut = `${reshardText(s.axes.with(cut, null))} first`;
      refuse(
        u,
        [s],
        `what is moved of dimension ${cut}, which is divided along ${s.axes[cut]}, is no memory: ${wayOut}`,
      );
    }
    return this.movement(u, s);
  }

  private store(u: UOp): Shards {
    const slice = stripReshape(u.src[0]);
    if (slice.op === Ops.SHRINK) {
      const all = this.target(slice.src[0]), cut = cutDims(slice, all.axes);
      if (cut.length > 0) return this.storeIn(u, slice, all, cut);
    }
    const target = this.target(u.src[0]), value = this.of(u.src[1]);
    const from = value.isStored && !sameSpec(value.axes, target.axes) ? this.read(u.src[1]) : value;
    const mesh = commonMesh(u, [target, from]), made = this.moves.converted({ ...from, mesh }, target.axes);
    return { ...whole(u.withSrc([target.u, made.u])), mesh };
  }

  /** A STORE to a slice along dimensions `cut`, which are divided: each rank writes what it has of it. */
  private storeIn(u: UOp, slice: UOp, all: Shards, cut: readonly number[]): Shards {
    const [below] = slice.src, { pairs } = argOf(slice, Ops.SHRINK), given = this.read(u.src[1]);
    const inner = pairs.map((p, dim) => cut.includes(dim) ? [0, all.shape[dim]] as const : p);
    const target = this.movement(uop(Ops.SHRINK, below.dtype, [below], new PairsArg(inner)), all);
    const value = this.shaped(u.src[1], given, shapeOf(slice));
    const mesh = commonMesh(u, [target, value]), axes = target.axes.map((a, dim) => cut.includes(dim) ? null : a);
    let own = this.moves.converted({ ...value, mesh }, axes), isIn: UOp | undefined;
    for (const dim of cut) {
      const [from, to] = pairs[dim], axis = target.axes[dim]!, isHere = withinSlice(target, dim, pairs[dim]);
      const grown = shapeOf(own.u).map((_, i) => i === dim ? [from, all.shape[dim] - to] as const : [0, 0] as const);
      const shape = own.shape.with(dim, all.shape[dim]);
      own = this.moves.ownPart({ ...own, u: pad(own.u, grown), shape }, dim, axis);
      isIn = isIn === undefined ? isHere : isIn.and(isHere);
    }
    return { ...whole(u.withSrc([target.u, isIn!.where(own.u, target.u)])), mesh };
  }

  /** What is stored, with the shape of what it is stored to; a number stands for any. */
  private shaped(u: UOp, s: Shards, shape: readonly number[]): Shards {
    if (s.shape.length === 0) return { ...s, u: broadcastTo(s.u, shape), shape, axes: shape.map(() => null) };
    return sameArray(s.shape, shape) ? s : this.movement(uop(Ops.RESHAPE, u.dtype, [u], new ShapeArg(shape)), s);
  }

  private after(u: UOp): Shards {
    const s = this.target(u.src[0]);
    return { ...s, u: u.withSrc([s.u, ...u.src.slice(1).map((x) => this.of(x).u)]) };
  }

  /** A SHARD: all that is needed moves. */
  private shard(u: UOp): Shards {
    const { mesh, axes, isStored } = argOf(u, Ops.SHARD), [x] = u.src, home = deviceOf(x);
    if (home !== null && home !== mesh.device) return { ...this.moves.from(this.elsewhere(x), mesh, axes), isStored };
    let s = this.of(x);
    if (s.mesh !== undefined && !s.mesh.same(mesh)) {
      s = this.moves.converted(s, s.axes.map(() => null));
    } else if (s.isStored && !sameSpec(s.axes, axes)) s = this.read(x);
    const made = { ...this.moves.converted({ ...s, mesh, isStored: false }, axes), isStored };
    return deviceOf(made.u) === null ? { ...made, u: uop(Ops.COPY, made.u.dtype, [made.u], mesh.device) } : made;
  }

  /** What is on one other device, or the same on all of another group. */
  private elsewhere(x: UOp): UOp {
    const s = this.moves.settled(this.read(x));
    return this.moves.converted(s, s.axes.map(() => null)).u;
  }

  private copy(u: UOp): Shards {
    const [x] = u.src, device = argOf(u, Ops.COPY), s = this.moves.settled(this.of(x));
    if (deviceOf(x) === device) return s;
    const made = this.moves.to(s, device);
    return whole(made);
  }

  /**
   * Along which axes the result of operands that meet is divided.
   *
   * @param origins what the operands are without movement
   * @throws {ShapeError} where they are divided otherwise
   */
  private common(u: UOp, operands: readonly Shards[], origins: readonly Shards[]): Spec {
    const axes: (string | null)[] = operands[0].axes.map((_, dim) => {
      let axis: string | null = null;
      for (const { axes } of operands) {
        const own = axes[dim];
        if (own === null || own === axis) continue;
        if (axis !== null) {
          const to = operands[0].axes;
          refuse(
            u,
            operands,
            `dimension ${dim} is divided along ${axis} and along ${own}: ${reshardText(to)} one of them`,
          );
        }
        axis = own;
      }
      return axis;
    });
    axes.forEach((a, dim) => {
      if (a === null || axes.indexOf(a) === dim) return;
      const one = operands.findIndex((s) => s.axes.includes(a)), origin = origins.findLast((s) => s.axes.includes(a))!;
      const wayOut = operands.every((s, i) => s.axes.length === origins[i].axes.length)
        ? `${reshardText(operands[one].axes)} the other`
        : `${reshardText(cleared(origin.axes, a))} the ${shardingText(origin)} that one is made of`;
      refuse(u, operands, `dimensions ${axes.indexOf(a)} and ${dim} are both divided along ${a}: ${wayOut}`);
    });
    return axes;
  }

  private elementwise(u: UOp): Shards {
    const shape = shapeOf(u);
    // numbers, and what is computed of them, stand for any shape
    const isNumber = (s: UOp): boolean => shapeOf(s).length < shape.length;
    const sources = u.src.map((s) => this.read(s)), isRanked = (_: unknown, i: number) => !isNumber(u.src[i]);
    const ranked = sources.filter(isRanked), origins = u.src.filter(isRanked).map((s) => this.origin(s));
    const mesh = commonMesh(u, ranked), axes = this.common(u, ranked, origins);
    const partial = this.partials(u, sources, axes), kept = new Set(partial.keys());
    sources.forEach((s, i) => {
      for (const axis of s.partial.keys()) (kept.has(axis) ? this.kept : this.addedUp).add(summedIn(u.src[i]));
    });
    const src = sources.map((s, i) => isNumber(u.src[i]) ? s.u : this.moves.converted({ ...s, mesh }, axes, kept).u);
    return { u: uop(u.op, u.dtype, src, u.arg), shape, axes, mesh, partial, isStored: false };
  }

  /** Over which axes the result of an elementwise op is partial: where it is linear in what is. */
  private partials({ op, dtype, src }: UOp, s: readonly Shards[], axes: Spec): Partials {
    const out = new Map<string, Ops>(), isFactor = op !== Ops.WHERE && src.some((x) => x.op === Ops.CONST);
    const isAdded = !isFactor && op !== Ops.CAST &&
      src.some((x, i) => s[i].partial.size > 0 && this.addedAnyway.has(summedIn(x)));
    if (isAdded) return out;
    for (const [axis, by] of new Map(s.flatMap((x) => [...x.partial]))) {
      if (axes.includes(axis)) continue;
      const has = s.map((x) => x.partial.get(axis) === by), isSum = by === Ops.ADD;
      let keeps = false;
      switch (op) {
        case Ops.ADD:
        case Ops.MAX:
          keeps = by === op && has.every((b) => b);
          break;
        case Ops.MUL:
          keeps = isSum && dtype.isFloat && has[0] !== has[1] && !s.some((x, i) => !has[i] && x.partial.has(axis));
          break;
        case Ops.FDIV:
          keeps = isSum && has[0] && !s[1].partial.has(axis);
          break;
        case Ops.CAST:
          keeps = isSum && dtype.isFloat && src[0].dtype.isFloat;
          break;
        case Ops.WHERE:
          keeps = isSum && !s[0].partial.has(axis) && [1, 2].every((i) => has[i] || src[i].isConst(0));
      }
      if (keeps) out.set(axis, by);
    }
    return out;
  }

  private bitcast(u: UOp): Shards {
    const [x] = u.src, s = this.moves.settled(this.read(x)), last = s.axes.length - 1;
    if (u.dtype.itemsize !== x.dtype.itemsize && s.axes[last] !== null) {
      refuse(
        u,
        [s],
        `elements of another size are taken of the last dimension: ${reshardText(s.axes.with(last, null))} first`,
      );
    }
    return { ...s, u: uop(u.op, u.dtype, [s.u], u.arg), shape: shapeOf(u) };
  }

  private reduce(u: UOp): Shards {
    const { op, axes: along } = reduceOf(u);
    let s = this.read(u.src[0]);
    const kept = new Set([...s.partial].filter(([, by]) => by === op && op !== Ops.MUL).map(([a]) => a));
    s = this.moves.settled(s, kept);
    const partial = new Map(s.partial);
    let x = s.u;
    for (const dim of along) {
      const axis = s.axes[dim];
      if (axis === null) continue;
      partial.set(axis, op as Ops);
      if (s.shape[dim] % s.mesh!.sizeOf(axis) === 0) continue;
      x = withinShape(s, dim).where(x, constant(identityOf(op, x.dtype), x.dtype));
    }
    const axes = s.axes.map((a, i) => along.includes(i) ? null : a);
    return { ...s, u: uop(u.op, u.dtype, [x], new ReduceArg(op, along)), shape: shapeOf(u), axes, partial };
  }

  /** A permute: parts of one size go round the ranks; what a rank has all of is the same on all. */
  private rolled(u: UOp): Shards {
    const [axis] = argOf(u, Ops.COLLECTIVE).axes,
      s = this.moves.settled(this.read(u.src[0])),
      dim = s.axes.indexOf(axis);
    if (dim < 0) return s;
    if (s.shape[dim] % s.mesh!.sizeOf(axis) !== 0) {
      refuse(u, [s], `its parts along ${axis} are of several sizes: pad dimension ${dim} first`);
    }
    return { ...s, u: u.withSrc([s.u]) };
  }

  /** The movement of `u` on shards of its source. */
  private movement(u: UOp, s: Shards): Shards {
    if (s.partial.size > 0 && (u.op === Ops.PAD || u.op === Ops.SKEW || u.op === Ops.WINDOW)) {
      const sums = new Set([...s.partial].filter(([, by]) => by === Ops.ADD).map(([a]) => a));
      s = this.moves.settled(s, sums); // zeros are the identity of sums alone
    }
    if (u.op === Ops.SHRINK && s.mesh !== undefined) {
      const pairs = [...argOf(u, Ops.SHRINK).pairs];
      for (const dim of cutDims(u, s.axes)) {
        const axis = s.axes[dim]!;
        s = sliced(s.partial.has(axis) ? this.moves.allReduce(s, axis) : s, dim, pairs[dim]);
        pairs[dim] = [0, s.shape[dim]];
      }
      if (pairs.every(([from, to], dim) => from === 0 && to === s.shape[dim])) return s;
      return { ...s, shape: shapeOf(u), u: shrink(s.u, localPairs(pairs, s)) };
    }
    const axes = s.mesh === undefined ? shapeOf(u).map(() => null) : movedAxes(u, s, this.origin(u));
    const made = { ...s, shape: shapeOf(u), axes };
    return { ...made, u: s.mesh === undefined ? rest(u, s.u) : moved(u, s.u, localShape(made)) };
  }
}

/** The divided dimensions that a SHRINK takes a part of. */
function cutDims(u: UOp, axes: Spec): number[] {
  const from = shapeOf(u.src[0]), to = shapeOf(u);
  return axes.flatMap((a, dim) => a !== null && to[dim] !== from[dim] ? [dim] : []);
}

/** The pairs of a SHRINK that leaves divided dimensions whole, on a shard. */
function localPairs(pairs: PairsArg["pairs"], s: Shards): PairsArg["pairs"] {
  const local = shapeOf(s.u);
  return pairs.map((p, dim) => p[0] === 0 && p[1] === s.shape[dim] ? [0, local[dim]] : p);
}

/** What a partial result is made of: without factors, movement and casts, below which it is added up. */
function summedIn(u: UOp): UOp {
  for (;;) {
    const [a, b] = u.src;
    if (isMovement(u.op) || u.op === Ops.CAST) u = a;
    else if ((u.op === Ops.MUL || u.op === Ops.FDIV) && b.op === Ops.CONST) u = a;
    else if (u.op === Ops.MUL && a.op === Ops.CONST) u = b;
    else return u;
  }
}

function rest(u: UOp, x: UOp): UOp {
  return x === u.src[0] ? u : moveLike(u, x);
}

function sameSpec(a: Spec, b: Spec): boolean {
  return a.every((axis, i) => axis === b[i]);
}

/** The movement of `u` on a shard: `shape` is that of the result there. */
function moved(u: UOp, x: UOp, shape: readonly number[]): UOp {
  switch (u.op) {
    case Ops.RESHAPE:
      return reshape(x, shape);
    case Ops.EXPAND:
      return expand(x, shape);
  }
  return moveLike(u, x);
}

/** `axes` with nothing divided along `axis`. */
function cleared(axes: Spec, axis: string): Spec {
  return axes.map((a) => a === axis ? null : a);
}

/**
 * Along which axes the dimensions of `u`, a movement of `s`, are divided.
 *
 * @param origin what `s` is without movement
 * @throws {ShapeError} where elements would change devices
 */
function movedAxes(u: UOp, s: Shards, origin: Shards): Spec {
  const { axes, shape } = s, to = shapeOf(u);
  const wayOut = (dim: number): string => {
    const made = origin.axes.length === axes.length ? "" : ` the ${shardingText(origin)} that it is made of`;
    return `${reshardText(made === "" ? axes.with(dim, null) : cleared(origin.axes, axes[dim]!))}${made} first`;
  };
  const keep = (touched: (dim: number) => boolean): Spec => {
    const bad = axes.findIndex((a, dim) => a !== null && touched(dim));
    if (bad >= 0) {
      refuse(u, [s], `dimension ${bad} is divided along ${axes[bad]}: ${wayOut(bad)}`);
    }
    return axes;
  };
  switch (u.op) {
    case Ops.PERMUTE:
      return argOf(u, Ops.PERMUTE).axes.map((a) => axes[a]);
    case Ops.EXPAND:
      return keep((dim) => to[dim] !== shape[dim]);
    case Ops.PAD:
      return keep((dim) => argOf(u, Ops.PAD).pairs[dim].some((n) => n !== 0));
    case Ops.FLIP:
      return keep((dim) => argOf(u, Ops.FLIP).axes.includes(dim));
    case Ops.RESHAPE: {
      const out: (string | null)[] = to.map(() => null);
      axes.forEach((axis, dim) => {
        if (axis === null) return;
        const at = sourceDim(to, shape, dim, s.mesh!.sizeOf(axis));
        if (at === undefined) {
          refuse(
            u,
            [s],
            `as [${to.join(", ")}] the parts of dimension ${dim} are no parts of one dimension: ${wayOut(dim)}`,
          );
        }
        out[at] = axis;
      });
      return out;
    }
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, kernelAxis } = argOf(u, Ops.UNSKEW);
      return keep((dim) => dim === axis || dim === kernelAxis);
    }
    case Ops.WINDOW:
      return keep((dim) => dim === argOf(u, Ops.WINDOW).axis);
  }
  throw new ArgumentError("move shards", { reason: "it is no movement" });
}
