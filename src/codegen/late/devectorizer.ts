/**
 * Splits vectors that the device does not have into scalars: a node stays a vector where its dtype and those of its
 * sources may have that many lanes. Vectors of bool go with what they were compared from. On devices with a grid all values
 * are scalars, except what matrix units take and give; wide accesses come later (coalesce.ts).
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { unitOf } from "../../renderer/tensor_core_table.ts";
import { AccArg, argOf, AxisKind } from "../../uop/core/args.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { constant, index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { buildAlu, extract, vectorize } from "../ast/alu_builder.ts";

/** A node of the result, or its lanes. */
type Value = UOp | readonly UOp[];

class Devectorizer {
  private readonly values = new Map<UOp, Value>();
  private nextAcc = 0;
  /** The vector dtype that was last found to fit: most nodes have the same. */
  private fitting: DType | undefined = undefined;
  /** On a grid: accumulators of matrix units. */
  private readonly tiles = new Set<UOp>();

  constructor(private readonly caps: Capabilities) {}

  /** On a grid: may `u` take or give a vector? */
  private isTile(u: UOp): boolean {
    switch (u.op) {
      case Ops.WMMA:
        return unitOf(u).half === undefined;
      case Ops.LDMATRIX:
        return true;
      case Ops.ACC:
        return this.tiles.has(u);
      case Ops.LOAD:
      case Ops.STORE:
        return this.tiles.has(u.src[0]);
      default:
        return u.dtype.count === 1 && u.op !== Ops.EXTRACT;
    }
  }

  private isLegal(u: UOp): boolean {
    if (this.caps.hasGrid && (u.dtype.count > 1 || u.src.some((s) => s.dtype.count > 1))) return this.isTile(u);
    if (!this.fits(u.dtype)) return false;
    const { src } = u;
    for (let i = 0; i < src.length; i++) if (!this.fits(src[i].dtype)) return false;
    return true;
  }
  private fits(d: DType): boolean {
    if (d.count === 1 || d === this.fitting) return true;
    if (lanesOf(d, this.caps) < d.count) return false;
    this.fitting = d;
    return true;
  }

  private whole(u: UOp): UOp {
    const v = this.values.get(u)!;
    return Array.isArray(v) ? vectorize(v) : v as UOp;
  }
  private lane(u: UOp, l: number): UOp {
    const v = this.values.get(u)!;
    if (Array.isArray(v)) return v[u.dtype.count > 1 || u.dtype.kind === "void" ? l : 0];
    return extract(v as UOp, l);
  }

  private split(u: UOp): Value {
    const n = u.op === Ops.STORE ? u.src[1].dtype.count : u.dtype.count;
    const lanes = <T>(fn: (l: number) => T): T[] => Array.from({ length: n }, (_, l) => fn(l));
    const scalar = u.dtype.scalar;
    switch (u.op) {
      case Ops.CONST:
        return lanes(() => uop(Ops.CONST, scalar, [], u.arg));
      case Ops.BROADCAST:
        return lanes(() => this.whole(u.src[0]));
      case Ops.VECTORIZE:
        return u.src.map((s) => this.whole(s));
      case Ops.EXTRACT:
        return this.lane(u.src[0], argOf(u, Ops.EXTRACT));
      case Ops.LANES: {
        const [a, b] = u.src, { count } = a.dtype;
        return argOf(u, Ops.LANES).axes.map((l) => l < count ? this.lane(a, l) : this.lane(b, l - count));
      }
      case Ops.WMMA: {
        const core = unitOf(u).half!, a = this.whole(u.src[0]), half = n / 2;
        return [0, 1].flatMap((side) => {
          const part = ({ dtype }: UOp, i: number): UOp => {
            const size = dtype.count / 2;
            return vectorize(Array.from({ length: size }, (_, l) => this.lane(u.src[i], side * size + l)));
          };
          const made = uop(Ops.WMMA, scalar.vec(half), [a, part(u.src[1], 1), part(u.src[2], 2)], core);
          return Array.from({ length: half }, (_, l) => extract(made, l));
        });
      }
      case Ops.ACC:
        return lanes((l) =>
          uop(
            Ops.ACC,
            scalar,
            [this.lane(u.src[0], l), ...u.src.slice(1).map((s) => this.whole(s))],
            new AccArg(this.nextAcc++),
          )
        );
      case Ops.LOAD: {
        if (u.src[0].op === Ops.ACC) {
          return lanes((l) => uop(Ops.LOAD, scalar, [this.lane(u.src[0], l), this.lane(u.src[1], l)]));
        }
        return lanes((l) => {
          const at = this.at(u.src[0], l);
          return uop(Ops.LOAD, scalar, u.src.length > 1 ? [at, this.lane(u.src[1], l)] : [at]);
        });
      }
      case Ops.STORE: {
        const acc = u.src[0].op === Ops.ACC;
        return lanes((l) =>
          uop(Ops.STORE, u.dtype, [acc ? this.lane(u.src[0], l) : this.at(u.src[0], l), this.lane(u.src[1], l)])
        );
      }
    }
    if (!isAlu(u.op)) return u.withSrc(u.src.map((s) => this.whole(s)));
    // positions in a tile become constants
    const isPosition = !scalar.isFloat && !u.src[0].dtype.isFloat && u.arg === undefined;
    return lanes((l) => {
      const src = u.src.map((s) => this.lane(s, l));
      return isPosition ? buildAlu(u.op, scalar, src) : uop(u.op, scalar, src, u.arg);
    });
  }

  /** The address of lane `l` of a vector access. */
  private at(u: UOp, l: number): UOp {
    const place = this.whole(u);
    const idx = place.src[1];
    return l === 0
      ? place
      : index(place.src[0], buildAlu(Ops.ADD, idx.dtype, [idx, constant(l, idx.dtype)]), place.src[2]);
  }

  run(sink: UOp): UOp {
    const nodes = toposort(sink);
    for (const u of nodes) {
      if (u.op === Ops.STORE && u.src[1].op === Ops.WMMA && this.isTile(u.src[1])) this.tiles.add(u.src[0]);
    }
    if (nodes.every((u) => this.isLegal(u))) return sink;
    for (const u of nodes) if (u.op === Ops.ACC) this.nextAcc = Math.max(this.nextAcc, argOf(u, Ops.ACC).id + 1);
    for (const u of nodes) {
      if (u.op !== Ops.TUPLE && !this.isLegal(u)) this.values.set(u, this.split(u));
      else if (u.op === Ops.TUPLE) {
        this.values.set(u, u.withSrc(u.src.flatMap((s) => this.values.get(s)!)));
      } else if (u.op === Ops.SINK || u.op === Ops.AFTER || u.op === Ops.GROUP) {
        const src = u.src.flatMap((s) => s.dtype.kind === "void" ? this.values.get(s)! : [this.whole(s)]);
        this.values.set(u, u.withSrc(src));
      } else this.values.set(u, u.withSrc(u.src.map((s) => this.whole(s))));
    }
    return this.values.get(sink) as UOp;
  }
}

/** Lanes that a vector of this dtype may have, at most: of bools as many as what they are compared from. */
function lanesOf(d: DType, { vectorLanes }: Capabilities): number {
  if (d.kind === "void") return Infinity;
  return d.isBool ? Math.max(vectorLanes(d.scalar), vectorLanes(dtypes.int32)) : vectorLanes(d.scalar);
}

/** Does the device have all vectors that a kernel AST expands to, on loops? */
export function fitsVectors(ast: UOp, caps: Capabilities): boolean {
  let lanes = 1;
  const seen = new Set<DType>();
  for (const u of toposort(ast)) {
    const isLane = u.op === Ops.RANGE && argOf(u, Ops.RANGE).kind === AxisKind.VECTOR;
    lanes = Math.max(lanes, isLane ? u.src[0].value : u.dtype.count);
    seen.add(u.dtype);
  }
  return lanes === 1 || [...seen].every((d) => lanesOf(d, caps) >= lanes);
}

/** Splits the vectors of a lowered kernel that the device does not have. */
export function devectorize(sink: UOp, caps: Capabilities): UOp {
  return new Devectorizer(caps).run(sink);
}
