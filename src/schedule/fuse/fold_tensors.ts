/**
 * Folding of the tensor graph before scheduling: uniform values (a constant under movement ops) act as scalars,
 * identities vanish, reduces of uniform or merely repeated values become arithmetic. Shapes never change.
 *
 * @module
 */
import { FILES } from "../../device/files.ts";
import { sameArray } from "../../helpers/math.ts";
import { foldConst } from "../../uop/algebra/eval.ts";
import { ReduceArg, reduceOf } from "../../uop/core/args.ts";
import { broadcastTo, expand, numelOf } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { isAlu, isMovement, opName, Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { constant, mayHave, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { isInside, isRange, nodeView } from "../../uop/graph/view.ts";
import { PatternMatcher, rule } from "../../uop/rewrite/matcher.ts";
import { graphRewriteEach } from "../../uop/rewrite/rewrite.ts";
import { note } from "../../uop/rewrite/record.ts";
import { UPat } from "../../uop/rewrite/upat.ts";
import { reductionName } from "./decisions.ts";
import { hoistFactors, reduceOnce } from "./hoist_factors.ts";

/** The CONST that every element of `u` equals, if its graph shows one. */
export function uniformOf(u: UOp): UOp | undefined {
  if (mayHave(u, Ops.BUFFER) || mayHave(u, Ops.IOTA)) return undefined; // however far below
  for (let isPadded = false;; u = u.src[0]) {
    if (u.op === Ops.CONST) return !isPadded || Object.is(u.arg, 0) ? u : undefined;
    if (u.op === Ops.PAD || (u.op === Ops.WINDOW && !isInside(u) && u.src[2].op === Ops.CONST)) {
      if (shapeOf(u.src[0]).includes(0)) return constant(0, u.dtype);
      isPadded = true;
    } else if (!isMovement(u.op) || u.op === Ops.SKEW || u.op === Ops.UNSKEW) return undefined;
    else if (u.op === Ops.WINDOW && !isInside(u)) return undefined;
  }
}

/** `value` under the shape of `like`. */
function shaped(value: UOp, like: UOp): UOp {
  const shape = shapeOf(like);
  return shapeOf(value).length === shape.length ? value : broadcastTo(value, shape);
}

/** A number times `x`, in the dtype of `x`. */
function times(x: UOp, n: number): UOp {
  if (x.dtype.isBool) return x;
  return x.mul(n);
}

function foldReduce(u: UOp): UOp | undefined {
  const { op, axes } = reduceOf(u);
  const x = u.src[0], from = shapeOf(x);
  const real = axes.filter((a) => from[a] !== 1);
  if (real.length === 0) return x;
  const n = real.reduce((p, a) => p * from[a], 1);
  if (n === 0) return shaped(constant(identityOf(op, u.dtype), u.dtype), u);
  const c = uniformOf(x);
  if (c !== undefined && (op === Ops.MAX || op === Ops.ADD)) {
    const value = op === Ops.MAX ? c : foldConst(Ops.MUL, c.dtype, [c, constant(n, c.dtype)]);
    if (value !== undefined) {
      if (wantsNotes()) {
        const text = `terms of a ${reductionName(op)} are all one number, which is known: nothing is reduced`;
        note("passed", u, text, { terms: n, number: c.value });
      }
      return shaped(value, u);
    }
  }
  if (x.op === Ops.EXPAND) { // sum of repeated values is a product
    const inner = shapeOf(x.src[0]);
    const repeated = real.filter((a) => inner[a] === 1);
    if (repeated.length > 0 && op !== Ops.MUL) {
      const count = repeated.reduce((p, a) => p * from[a], 1);
      const rest = real.filter((a) => inner[a] !== 1);
      const keep = from.map((s, a) => repeated.includes(a) ? 1 : s);
      const part = expand(x.src[0], keep);
      if (wantsNotes()) {
        const once = op === Ops.ADD ? `one is multiplied by ${count}` : "one of them is the result";
        note("passed", u, `of a ${reductionName(op)} each term is there ${count} times: ${once}`, { repeats: count });
      }
      const reduced = rest.length === 0 ? part : uop(Ops.REDUCE, u.dtype, [part], new ReduceArg(op, rest));
      return op === Ops.ADD ? times(reduced, count) : reduced;
    }
  }
  if (x.op === Ops.REDUCE && reduceOf(x).op === op && op !== Ops.MUL) {
    const inner = reduceOf(x).axes;
    if (wantsNotes()) {
      const name = reductionName(op);
      note("passed", u, `a ${name} of ${name}s is one ${name}, over the axes of both`, {
        axes: inner.length + real.length,
      });
    }
    return uop(
      Ops.REDUCE,
      u.dtype,
      [x.src[0]],
      new ReduceArg(op, [...new Set([...inner, ...real])].sort((a, b) => a - b)),
    );
  }
  return real.length < axes.length ? uop(Ops.REDUCE, u.dtype, [x], new ReduceArg(op, real)) : undefined;
}

const ZERO_IS_NEUTRAL: ReadonlySet<Ops> = new Set([Ops.ADD, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR]);

function foldAlu(u: UOp): UOp | undefined {
  let uniform = 0, src: UOp[] | undefined;
  for (let i = 0; i < u.src.length; i++) {
    const c = uniformOf(u.src[i]);
    if (c === undefined) continue;
    uniform++;
    if (c !== u.src[i]) (src ??= u.src.slice())[i] = c;
  }
  if (uniform === u.src.length) {
    const value = foldConst(u.op, u.dtype, src ?? u.src);
    if (value !== undefined) return shaped(value, u);
  }
  if (src !== undefined) {
    const shape = shapeOf(u);
    // scalars need no axes, as long as one source keeps the shape
    if (shape.length === 0 || src.some((s) => shapeOf(s).length === shape.length)) {
      const made = uop(u.op, u.dtype, src, u.arg);
      made.line ??= u.line;
      return made;
    }
  }
  const [a, b] = u.src;
  if (u.op === Ops.CAST && a.dtype === u.dtype) return a;
  if (u.op === Ops.WHERE) {
    const c = uniformOf(a);
    if (c !== undefined) {
      const isTrue = c.arg !== 0, [made, gone] = isTrue ? [b, u.src[2]] : [u.src[2], b];
      tellGone(
        gone,
        u,
        isTrue
          ? "a condition is true everywhere: the other side is not computed"
          : "a condition is true nowhere: that side is not computed",
      );
      return shaped(made, u);
    }
    if (b === u.src[2]) {
      tellGone(a, u, "both sides of a condition are the same: it is not computed");
      return shaped(b, u);
    }
    return undefined;
  }
  if (u.src.length !== 2) return undefined;
  const right = neutral(u, b, a);
  if (right !== undefined) return right;
  return u.op === Ops.ADD || u.op === Ops.MUL || u.op === Ops.OR || u.op === Ops.XOR ? neutral(u, a, b) : undefined;
}

/** Tells why `gone`, of which `u` was made, is not computed for it, where that would read memory, and is no memory itself. */
function tellGone(gone: UOp, u: UOp, why: string): void {
  if (!wantsNotes() || !mayHave(gone, Ops.BUFFER) || baseOf(gone).op === Ops.BUFFER) return;
  note("passed", u, why, { elements: numelOf(u) });
}

/** What `u` moves. */
function baseOf(u: UOp): UOp {
  while (isMovement(u.op)) u = u.src[0];
  return u;
}

/** What `u` is, an operation of `x` and constant `c`, where that leaves `x` as it is or makes nothing of it. */
function neutral(u: UOp, c: UOp, x: UOp): UOp | undefined {
  if (c.op !== Ops.CONST || x.dtype !== u.dtype) return undefined;
  if (c.arg === 0 && ZERO_IS_NEUTRAL.has(u.op)) { // x + 0 is 0 for x = -0
    if (!u.dtype.isFloat || Object.is(c.arg, -0)) return shaped(x, u);
  }
  if (c.arg === 1 && (u.op === Ops.MUL || u.op === Ops.FDIV || u.op === Ops.FLOORDIV)) return shaped(x, u);
  if (c.arg === 1 && u.op === Ops.CDIV && !u.dtype.isFloat) return shaped(x, u);
  if (c.arg === 0 && u.op === Ops.MUL && !u.dtype.isFloat) {
    tellGone(x, u, "integers times 0 are 0: they are not computed");
    return shaped(c, u);
  }
  return undefined;
}

/** What `u` folds to, with the symbolic sizes that it may have had from a source that is gone. */
function keepExtents(u: UOp, made: UOp | undefined): UOp | undefined {
  return made === undefined ? undefined : withExtents(made, extentsOf(u));
}

/** A movement node as its builder makes it: no-ops vanish, neighbors of one kind merge. */
function mergeMovement(u: UOp): UOp | undefined {
  const [x] = u.src;
  if (x.op !== u.op && !sameArray(shapeOf(x), shapeOf(u))) return undefined; // neither
  const made = moveLike(u, x);
  return made === u ? undefined : made;
}

/** A uniform value under a movement op other than RESHAPE and EXPAND, which are how uniform values get a shape. */
function uniformMovement(u: UOp): UOp | undefined {
  const c = uniformOf(u);
  return c === undefined ? undefined : shaped(c, u);
}

/** CONTIGUOUS of what is contiguous already, where it asks for no identity of its own. */
function dropContiguous(u: UOp): UOp | undefined {
  if (u.arg !== undefined) return undefined;
  let base = u.src[0];
  while (base.op === Ops.RESHAPE) base = base.src[0];
  const isOwn = base.op === Ops.CONTIGUOUS || base.op === Ops.COPY || base.op === Ops.COLLECTIVE;
  if (!isOwn && base.op !== Ops.BUFFER) return undefined;
  note("passed", u, "is contiguous already: contiguous() copies nothing");
  return u.src[0];
}

/**
 * A part of a copy from DISK, where it is a range of the file, is a copy of that part: nothing else of the file is read,
 * which may be larger than the device.
 */
function shrinkCopy(u: UOp): UOp | undefined {
  const copy = u.src[0];
  if (copy.op !== Ops.COPY || deviceOf(copy.src[0]) !== FILES) return undefined;
  const part = moveLike(u, copy.src[0]), { view } = nodeView(part);
  if (view === undefined || !isRange(view)) return undefined;
  if (wantsNotes()) {
    const [nbytes, whole] = [u, copy].map((x) => numelOf(x) * x.dtype.itemsize);
    note("passed", u, `${nbytes} bytes of a file are read, not all ${whole}`, { nbytes, whole });
  }
  return uop(Ops.COPY, u.dtype, [part], copy.arg);
}

const x = UPat.var("x");
const ALU = opName.map((_, i) => i as Ops).filter((op) => isAlu(op) && op !== Ops.BITCAST);
const MOVES = opName.map((_, i) => i as Ops).filter(isMovement);

/** Folding of tensor graphs. Keeps shape and dtype; tensor stage only. */
export const pmFold: PatternMatcher = new PatternMatcher("fold tensors", [
  rule(UPat.op([Ops.DETACH, Ops.CONTIGUOUS_BACKWARD], { src: [x] }), ({ x }) => x), // only autograd sees them
  rule(UPat.op(Ops.CHECKPOINT).named("u"), ({ u }) => u.src[0]), // and this one
  rule(UPat.op(MOVES).named("u"), ({ u }) => mergeMovement(u)),
  rule(UPat.op([Ops.SHRINK, Ops.WINDOW]).named("u"), ({ u }) => shrinkCopy(u), "a part of a copy"),
  rule(
    UPat.op([Ops.PERMUTE, Ops.SHRINK, Ops.FLIP, Ops.PAD, Ops.WINDOW]).named("u"),
    ({ u }) => uniformMovement(u),
    "one number moved",
  ),
  rule(UPat.op(Ops.CONTIGUOUS).named("u"), ({ u }) => dropContiguous(u), "contiguous already"),
  rule(UPat.op(Ops.REDUCE).named("u"), ({ u }) => foldReduce(u), "fold reduce"),
  rule(UPat.op(Ops.REDUCE).named("u"), ({ u }) => hoistFactors(u), "hoist factors"),
  rule(UPat.op(Ops.REDUCE).named("u"), ({ u }) => reduceOnce(u), "reduce once"),
  rule(UPat.op(ALU).named("u"), ({ u }) => keepExtents(u, foldAlu(u)), "fold arithmetic"),
]);

/** Folds everything below `roots`. Returns what each node of `order`, which has all of them, became. */
export function foldTensorGraph(roots: readonly UOp[], order: readonly UOp[]): UOp[] {
  const folded = graphRewriteEach(roots, order, pmFold);
  for (let i = 0; i < order.length; i++) if (order[i].line !== undefined) folded[i].line ??= order[i].line;
  return folded;
}
