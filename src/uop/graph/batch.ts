/**
 * Batching of the tensor graph: what a graph computes for one example, computed for many along a new first axis. In: roots
 * and the leaves that stand for one example, each with its batched node. Out: batched roots; those that no leaf reaches
 * stay as they are. This is the table behind `vmap`, one rule an op.
 *
 * @module
 */
import { ArgumentError, SpecError } from "../../helpers/errors.ts";
import { argOf, type ArgRecord, ReduceArg, reduceOf, SkewArg } from "../core/args.ts";
import { broadcastTo, expand, flip, pad, permute, reshape, shrink, skew, unskew } from "../core/build_movement.ts";
import { isAlu, isMovement, isSame, opName, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { after, toposort, type UOp, uop } from "../core/uop.ts";
import { window } from "./extent.ts";
import { GradientArg } from "./given_gradient.ts";

/** Movement `u` on `x`, which has one more axis in front than `u.src[0]`. */
function moveBehind(u: UOp, x: UOp, size: number): UOp {
  switch (u.op) {
    case Ops.RESHAPE:
      return reshape(x, [size, ...argOf(u, Ops.RESHAPE).shape]);
    case Ops.EXPAND:
      return expand(x, [size, ...argOf(u, Ops.EXPAND).shape]);
    case Ops.PERMUTE:
      return permute(x, [0, ...argOf(u, Ops.PERMUTE).axes.map((a) => a + 1)]);
    case Ops.PAD:
      return pad(x, [[0, 0], ...argOf(u, Ops.PAD).pairs]);
    case Ops.SHRINK:
      return shrink(x, [[0, size], ...argOf(u, Ops.SHRINK).pairs]);
    case Ops.FLIP:
      return flip(x, argOf(u, Ops.FLIP).axes.map((a) => a + 1));
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, kernelAxis, stride, dilation, size: out } = argOf(u, Ops.SKEW);
      const arg = new SkewArg(axis + 1, kernelAxis + 1, stride, dilation, out);
      return u.op === Ops.UNSKEW ? unskew(x, arg) : skew(x, arg);
    }
    case Ops.WINDOW: {
      const { axis, capacity } = argOf(u, Ops.WINDOW);
      return window(x, axis + 1, u.src[1], u.src[2], capacity);
    }
  }
  throw new SpecError(`${opName[u.op]} is no movement`);
}

class Batcher {
  private readonly made: Map<UOp, UOp>;
  /** Writes of what differs between examples: the AFTERs over them take them. */
  private readonly effects = new Set<UOp>();
  constructor(private readonly leaves: ReadonlyMap<UOp, UOp>, private readonly size: number) {
    this.made = new Map(leaves);
  }

  /** The batched node of `u`; undefined where it is the same for all examples. */
  of(root: UOp): UOp | undefined {
    for (const u of toposort(root)) {
      if (this.made.has(u) || !u.src.some((s) => this.made.has(s) || this.effects.has(s))) continue;
      if (u.op === Ops.STORE || u.op === Ops.CUSTOM) {
        this.effects.add(u);
        continue;
      }
      this.made.set(u, this.batch(u));
    }
    return this.made.get(root);
  }

  /** A source of `u`, batched: repeated where all examples share it. Scalars beside axes broadcast by themselves. */
  private source(u: UOp, s: UOp): UOp {
    const pointwise = isAlu(u.op) || (u.arg instanceof GradientArg && u.arg.pointwise);
    const b = this.made.get(s), shape = shapeOf(s), full = isAlu(u.op) ? shapeOf(u) : shape;
    const isScalar = shape.length < full.length;
    if (b !== undefined) {
      return isScalar ? broadcastTo(reshape(b, [this.size, ...full.map(() => 1)]), [this.size, ...full]) : b;
    }
    const isLeaf = s.op === Ops.CONST || s.op === Ops.VARIABLE || s.op === Ops.BIND;
    return isScalar || (isLeaf && pointwise) ? s : broadcastTo(s, [this.size, ...shape]);
  }

  private batch(u: UOp): UOp {
    if (isMovement(u.op)) return moveBehind(u, this.source(u, u.src[0]), this.size);
    if (isAlu(u.op)) return uop(u.op, u.dtype, u.src.map((s) => this.source(u, s)), u.arg);
    switch (u.op) {
      case Ops.REDUCE: {
        const { op, axes } = reduceOf(u);
        return uop(u.op, u.dtype, [this.source(u, u.src[0])], new ReduceArg(op, axes.map((a) => a + 1)));
      }
      case Ops.CHECKPOINT:
        return uop(u.op, u.dtype, u.src.map((s) => this.source(u, s)), this.gradientOf(u));
      case Ops.AFTER:
        return this.after(u);
    }
    if (isSame(u.op)) return uop(u.op, u.dtype, [this.source(u, u.src[0])], u.arg);
    throw new SpecError(`${opName[u.op]} has no batched form`);
  }

  /** The gradient of its own that a CHECKPOINT has: that of one example, batched. */
  private gradientOf(u: UOp): ArgRecord | undefined {
    if (!(u.arg instanceof GradientArg)) return undefined;
    if (u.arg.pointwise) return u.arg;
    const { gradients } = u.arg, { leaves, size } = this, [value, ...inputs] = u.src;
    return new GradientArg((g, batched, result) => {
      const seed = uop(Ops.CONTIGUOUS_BACKWARD, u.dtype, [value], "gradient"), known = new Map(leaves);
      inputs.forEach((s, i) => known.set(s, batched[i]));
      known.set(seed, g);
      known.set(u, result);
      const found = gradients(seed, inputs, u), batcher = new Batcher(known, size);
      return found.map((given) => {
        if (given === undefined) return undefined;
        const x = typeof given === "function" ? given() : given;
        return batcher.of(x) ?? broadcastTo(x, [size, ...shapeOf(x)]);
      });
    });
  }

  /** Writes into a copy of the old contents for each example: what is written elsewhere stays as it is. */
  private after(u: UOp): UOp {
    const old = u.src[0];
    const base = uop(Ops.CONTIGUOUS, old.dtype, [this.source(u, old)]);
    const stores = u.src.slice(1).map((s) => {
      if (s.op === Ops.CUSTOM) {
        throw new ArgumentError("vmap", { reason: "a custom kernel has no batched form; run it on the whole batch" });
      }
      if (s.op !== Ops.STORE) throw new SpecError(`${opName[s.op]} has no batched form`);
      const chain: UOp[] = [];
      let at = s.src[0];
      for (; at !== old && isMovement(at.op); at = at.src[0]) chain.push(at);
      if (at !== old) throw new SpecError("STORE into another storage than that of its AFTER");
      const target = chain.reduceRight((x, m) => moveBehind(m, x, this.size), base);
      return uop(Ops.STORE, s.dtype, [target, this.source(s, s.src[1])]);
    });
    return after(base, ...stores);
  }
}

/**
 * `roots` with a first axis of `size`, where `leaves` (nodes of one example) become their batched nodes; undefined for a
 * root that no leaf reaches. Resolve graphs with realized nodes first.
 */
export function batchGraph(roots: readonly UOp[], leaves: ReadonlyMap<UOp, UOp>, size: number): (UOp | undefined)[] {
  const batcher = new Batcher(leaves, size);
  return roots.map((r) => batcher.of(r));
}
