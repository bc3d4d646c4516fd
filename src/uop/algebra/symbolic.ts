/**
 * Algebra: identities, constant folding, casts, bools, WHERE, and the normal form of index arithmetic. Rules keep dtype
 * and, in the tensor graph, shape: what folds to a constant there is a constant under the old shape.
 *
 * `symbolicSimple` is local, shrinks or orders, and may run at every stage. `symbolic` adds the normal forms of integer
 * sums, products, divisions and comparisons; it may run at every stage too, and pays off on index arithmetic.
 * Floats keep the meaning of NaN, infinities and rounding: no reassociation, no `x * 0`, no `x / x`.
 *
 * @module
 */
import { dtypeMax, dtypeMin, dtypes } from "../../dtype/dtype.ts";
import { isLossless } from "../../dtype/promotion.ts";
import { argOf, ReduceArg } from "../core/args.ts";
import { broadcastTo } from "../core/build_movement.ts";
import { CarrierArg, carrierOf, RowCarrier } from "../core/carrier.ts";
import { isAlu, isMovement, isSame, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { constant, generation, type UOp, uop } from "../core/uop.ts";
import { PatternMatcher, rule } from "../rewrite/matcher.ts";
import { isRecording } from "../rewrite/record.ts";
import { graphRewrite } from "../rewrite/rewrite.ts";
import { UPat } from "../rewrite/upat.ts";
import { vmax, vmin } from "./bounds.ts";
import { foldDivMod, foldEqual, foldLess, recombine } from "./divmod.ts";
import { constOf, foldConst } from "./eval.ts";
import { addLinear, buildLinear, compareTerms, emptyLinear, factorOf, inDType, isIndexLike } from "./linear_form.ts";

const x = UPat.var("x"), y = UPat.var("y"), z = UPat.var("z"), c = UPat.var("c");
const c0 = UPat.cvar("c0"), c1 = UPat.cvar("c1");
const bool = dtypes.bool;

/** Whether a node is of the tensor graph with a shape (1), of another stage (2), or a rank-0 expression of leaves (0). */
function shapedness(u: UOp, seen?: Set<UOp>): 0 | 1 | 2 {
  if (u.shapeMemo !== undefined && u.shapeMemo !== null && u.shapeMemo.length > 0) return 1;
  switch (u.op) {
    case Ops.CONST:
    case Ops.VARIABLE:
    case Ops.BIND:
      return 0;
    case Ops.BUFFER:
    case Ops.IOTA:
      return 1;
    case Ops.REDUCE:
      return u.arg instanceof ReduceArg ? 1 : 2;
    case Ops.AFTER:
      return shapedness(u.src[0], seen);
  }
  if (isMovement(u.op) || isSame(u.op)) return 1;
  if (!isAlu(u.op)) return 2;
  seen ??= new Set(); // expressions of scalars share: each node once
  for (const s of u.src) {
    if (seen.has(s)) continue;
    seen.add(s);
    const k = shapedness(s, seen);
    if (k !== 0) return k;
  }
  return 0;
}

/** `to` in place of `u`: under the shape of `u` where `to` is a rank-0 expression of a tensor graph. */
function like(u: UOp, to: UOp): UOp {
  if (to.op !== Ops.CONST && to.op !== Ops.VARIABLE && to.op !== Ops.BIND && !isAlu(to.op)) return to;
  if (shapedness(to) !== 0 || shapedness(u) !== 1) return to;
  return broadcastTo(to, shapeOf(u));
}

/** A constant in place of `u`. */
function value(u: UOp, v: number): UOp {
  return like(u, constOf(v, u.dtype));
}

function not(u: UOp): UOp {
  return u.alu(Ops.CMPNE, 1);
}

const isInt = (u: UOp): boolean => u.dtype.isInt;
const isIntOrBool = (u: UOp): boolean => u.dtype.isInt || u.dtype.isBool;

/** True for `!b` of a bool, as CMPNE(b, true). */
export function isNot(u: UOp): boolean {
  return u.op === Ops.CMPNE && u.src[1].op === Ops.CONST && u.src[1].arg === 1 && u.src[1].dtype.isBool;
}

const ALU_OPS = Object.values(Ops).filter((op) => isAlu(op));
const INT_OPS: Ops[] = [
  ...ALU_OPS.filter((op) => op !== Ops.CAST && op !== Ops.BITCAST),
  Ops.CAST,
  Ops.RANGE,
  Ops.SPECIAL,
  Ops.VARIABLE,
  Ops.BIND,
];

function byBounds(u: UOp): UOp | undefined {
  if (!u.dtype.isInt && !u.dtype.isBool) return undefined;
  if (u.op === Ops.RANGE && vmin(u.src[0]) < 1) return undefined; // a loop that may not run
  const v = vmin(u);
  return v === vmax(u) && Number.isSafeInteger(v) ? value(u, v) : undefined;
}

/** Constants evaluate; bounds decide. Every stage. */
const pmFold: PatternMatcher = new PatternMatcher("fold", [
  rule(
    UPat.op(ALU_OPS, { name: "u", when: (u) => u.srcMask0 === 1 && u.srcMask1 === 0 }),
    ({ u }) => foldConst(u.op, u.dtype, u.src),
    "constants",
  ),
  rule(UPat.op(INT_OPS, { name: "u" }), ({ u }) => byBounds(u), "min = max"),
]);

/** Constants stand on the right of commutative ops; index terms in a fixed order. Every stage. */
const pmOrder = new PatternMatcher("order", [
  rule(
    UPat.op([Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.AND, Ops.OR, Ops.XOR], {
      src: [c0, x],
      ordered: true,
      name: "u",
    }),
    ({ u, c0, x }) => x.op === Ops.CONST ? undefined : uop(u.op, u.dtype, [x, c0], u.arg), // c+x -> x+c
    "constant to the right",
  ),
  rule(
    UPat.op([Ops.MUL, Ops.MAX], { src: [x, y], ordered: true, name: "u", when: isInt }),
    ({ u, x, y }) => y.op !== Ops.CONST && compareTerms(x, y) > 0 ? uop(u.op, u.dtype, [y, x]) : undefined,
    "order of factors",
  ),
]);

/** Identities of one op. Every stage. */
const pmIdentities = new PatternMatcher("identities", [
  rule(x.add(0), ({ x }) => x.dtype.isFloat ? undefined : x), // x+0 -> x, ints only: -0+0 is 0
  rule(x.add(-0), ({ x }) => x), // x+-0 -> x
  rule(x.mul(1), ({ x }) => x), // x*1 -> x
  rule(x.mul(0).named("u"), ({ u }) => isIntOrBool(u) ? value(u, 0) : undefined), // x*0 -> 0, ints only: inf*0 is NaN
  rule(x.fdiv(1), ({ x }) => x), // x/1 -> x
  rule(x.fdiv(c0), ({ x, c0 }) => { // x/2^k -> x*2^-k, exact where 2^-k is a normal value of the dtype
    const v = c0.value, k = Math.log2(Math.abs(v));
    return Number.isInteger(k) && Math.abs(k) <= (x.dtype.bits > 8 ? 14 : 6) ? x.mul(1 / v) : undefined;
  }),
  rule(x.floorDiv(1), ({ x }) => x),
  rule(x.cdiv(1), ({ x }) => isInt(x) ? x : undefined),
  rule(x.cmod(1).named("u"), ({ u }) => isInt(u) ? value(u, 0) : undefined),
  rule(UPat.op([Ops.CDIV, Ops.CMOD], { src: [x, c0], name: "u" }), ({ u, x, c0 }) => { // one bucket
    const v = c0.value;
    if (!isInt(u) || v === 0 || !inDType(v, u.dtype)) return undefined;
    const lo = vmin(x), hi = vmax(x), q = Math.trunc(lo / v);
    if (q !== Math.trunc(hi / v) || (q === 0 && Math.max(-lo, hi) >= Math.abs(v))) return undefined;
    return u.op === Ops.CDIV ? value(u, q) : q === 0 ? x : undefined;
  }, "constant quotient"),
  rule(UPat.op([Ops.CDIV, Ops.FLOORDIV], { src: [x.mul(y), y], name: "u" }), ({ u, x, y }) => { // x*y//y -> x
    if (!isInt(u) || vmin(y) <= 0) return undefined;
    const ends = [vmin(x) * vmin(y), vmin(x) * vmax(y), vmax(x) * vmin(y), vmax(x) * vmax(y)];
    return ends.every((e) => inDType(e, u.dtype)) ? like(u, x) : undefined;
  }),
  rule(x.shl(0), ({ x }) => x),
  rule(x.shr(0), ({ x }) => x),
  rule(UPat.op(Ops.SHR, { src: [x.shr(c0), c1], name: "u" }), ({ u, x, c0, c1 }) => { // (x>>a)>>b -> x>>(a+b)
    const k = c0.value + c1.value;
    return c0.value >= 0 && c1.value >= 0 && k < u.dtype.bits ? x.alu(Ops.SHR, k) : undefined;
  }),
  rule(x.and(c0).shr(c1), ({ x, c0, c1 }) => keepsAbove(x, c0, c1.value) ? x.shr(c1) : undefined), // mask of lost bits
  rule(x.and(c0).floorDiv(c1), ({ x, c0, c1 }) => {
    const k = Math.log2(c1.value);
    return Number.isInteger(k) && keepsAbove(x, c0, k) ? x.floorDiv(c1) : undefined;
  }),
  rule(x.and(x), ({ x }) => x),
  rule(x.or(x), ({ x }) => x),
  rule(x.max(x), ({ x }) => x),
  rule(x.xor(x).named("u"), ({ u }) => value(u, 0)),
  rule(UPat.op(Ops.XOR, { src: [x.xor(y), y] }), ({ x }) => x), // (x^y)^y -> x
  rule(x.and(0).named("u"), ({ u }) => value(u, 0)),
  rule(x.or(0), ({ x }) => x),
  rule(x.xor(0), ({ x }) => x),
  rule(UPat.op([Ops.AND, Ops.OR], { src: [x, c0], name: "u" }), ({ u, x, c0 }) => { // all bits set
    const ones = u.dtype.isBool ? 1 : u.dtype.isUnsigned ? dtypeMax(u.dtype) : -1;
    return c0.arg !== ones ? undefined : u.op === Ops.AND ? x : like(u, c0);
  }, "all ones"),
  rule(x.and(y).and(y).named("u"), ({ u, x, y }) => u.src[0] === y || x === y ? undefined : x.and(y)), // (x&y)&y
  rule(x.or(y).or(y).named("u"), ({ u, x, y }) => u.src[0] === y || x === y ? undefined : x.or(y)),
  rule(x.and(x.or(y)).named("u"), ({ u, x }) => like(u, x)), // absorption
  rule(x.or(x.and(y)).named("u"), ({ u, x }) => like(u, x)),
  rule(x.max(c0), ({ x, c0 }) => c0.arg === dtypeMin(x.dtype) ? x : undefined), // max(x, lowest) -> x
  rule(UPat.op(Ops.MAX, { src: [x, y], ordered: true, name: "u", when: isIntOrBool }), ({ u, x, y }) => {
    return vmin(x) >= vmax(y) ? like(u, x) : vmin(y) >= vmax(x) ? like(u, y) : undefined;
  }, "max by bounds"),
  rule(x.lt(x).named("u"), ({ u }) => value(u, 0)),
  rule(x.lt(c0).named("u"), ({ u, c0 }) => Number.isNaN(c0.arg) ? value(u, 0) : undefined), // nothing is below NaN
  rule(c0.lt(x).named("u"), ({ u, c0 }) => Number.isNaN(c0.arg) ? value(u, 0) : undefined),
  rule(x.ne(x).named("u"), ({ u, x }) => isIntOrBool(x) ? value(u, 0) : undefined), // the NaN test of floats stays
  rule(x.eq(x).named("u"), ({ u, x }) => isIntOrBool(x) ? value(u, 1) : undefined),
  rule(UPat.op(Ops.TRUNC, { src: [x] }), ({ x }) => x.dtype.isFloat ? undefined : x),
  rule(UPat.op(Ops.TRUNC, { src: [UPat.op(Ops.TRUNC, { name: "x" })] }), ({ x }) => x),
]);

/** True when masking `u` with `m` clears no bit from bit `k` up. */
function keepsAbove(u: UOp, m: UOp, k: number): boolean {
  if (k < 0 || k >= 31 || u.dtype.bits > 32 || typeof m.arg !== "number") return false;
  const low = 2 ** k - 1;
  const ones = u.dtype.isUnsigned ? dtypeMax(u.dtype) : -1;
  return ((m.arg | low) | 0) === (ones | 0);
}

/** Is it log2(e) as float32 or float64 has it? */
export function isLog2E(c: UOp): boolean {
  return c.isConst(c.dtype.bits === 64 ? Math.LOG2E : Math.fround(Math.LOG2E));
}

/** (x op a) op b -> x op (a op b). Integers and bools; floats only where nothing rounds. Every stage. */
const pmAssociative = new PatternMatcher("associative", [
  rule(
    UPat.op([Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX], {
      src: [UPat.op([Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX], { src: [x, c0], name: "v" }), c1],
      name: "u",
    }),
    ({ u, v, x, c0, c1 }) => {
      if (u.op !== v.op || x.op === Ops.CONST) return undefined;
      if (u.dtype.isFloat && u.op !== Ops.MAX) {
        if (u.op !== Ops.MUL || (Math.abs(c0.value) !== 1 && Math.abs(c1.value) !== 1)) return undefined;
        if (isLog2E(c1)) return undefined; // a power of e is told by it (renderer/natural.ts), and that of -x, too
      }
      const k = foldConst(u.op, u.dtype, [c0, c1]);
      return k === undefined ? undefined : x.alu(u.op, k);
    },
    "constants of a chain",
  ),
]);

/** Bools: ADD and MAX are OR, MUL is AND, comparisons with constants are the bool or its negation. Every stage. */
const pmBool = new PatternMatcher("bool", [
  rule(UPat.op([Ops.ADD, Ops.MAX], { src: [x, y], dtype: bool, ordered: true }), ({ x, y }) => x.or(y)),
  rule(UPat.op(Ops.MUL, { src: [x, y], dtype: bool, ordered: true }), ({ x, y }) => x.and(y)),
  rule(UPat.op(Ops.XOR, { src: [x, UPat.const(1)], dtype: bool }), ({ x }) => not(x)),
  rule(x.ne(UPat.const(0, bool)), ({ x }) => x),
  rule(x.eq(UPat.const(1, bool)), ({ x }) => x),
  rule(x.eq(UPat.const(0, bool)), ({ x }) => not(x)),
  rule(x.ne(UPat.const(1, bool)).ne(UPat.const(1, bool)), ({ x }) => x), // !!x
  rule(x.eq(y).ne(UPat.const(1, bool)), ({ x, y }) => x.ne(y)), // !(x==y) -> x!=y, NaN too
  rule(UPat.op(Ops.CMPNE, { src: [x.ne(y), UPat.const(1, bool)] }), ({ x, y }) => x.dtype.isBool ? undefined : x.eq(y)),
  rule(UPat.op(Ops.CMPLT, { src: [x, y], ordered: true }), ({ x, y }) => x.dtype.isBool ? not(x).and(y) : undefined),
  rule(x.and(x.ne(UPat.const(1, bool))).named("u"), ({ u }) => value(u, 0)), // x & !x
  rule(x.or(x.ne(UPat.const(1, bool))).named("u"), ({ u }) => value(u, 1)),
  rule(UPat.op(Ops.AND, { src: [x.lt(c0), x.lt(c1)], name: "u" }), ({ u }) => u.src[tighter(u)]), // one bound suffices
  rule(UPat.op(Ops.OR, { src: [x.lt(c0), x.lt(c1)], name: "u" }), ({ u }) => u.src[1 - tighter(u)]),
  rule(UPat.op(Ops.AND, { src: [x.lt(c0).ne(1), x.lt(c1).ne(1)], name: "u" }), ({ u }) => u.src[1 - tighter(u)]),
  rule(UPat.op(Ops.OR, { src: [x.lt(c0).ne(1), x.lt(c1).ne(1)], name: "u" }), ({ u }) => u.src[tighter(u)]),
]);

/** Which source of two comparisons with constants has the smaller one. */
function tighter(u: UOp): number {
  const at = (s: UOp): UOp => (s.op === Ops.CMPLT ? s : s.src[0]).src[1];
  return foldConst(Ops.CMPLT, bool, [at(u.src[1]), at(u.src[0])])!.value;
}

/** Casts that change nothing or merge, and comparisons of a bool in another dtype. Every stage. */
const pmCast = new PatternMatcher("cast", [
  rule(UPat.op([Ops.CAST, Ops.BITCAST], { src: [x], name: "u" }), ({ u, x }) => u.dtype === x.dtype ? x : undefined),
  rule(UPat.op(Ops.CAST, { src: [UPat.op(Ops.CAST, { src: [x], name: "v" })], name: "u" }), ({ u, v, x }) => {
    const a = x.dtype.scalar, b = v.dtype.scalar, c = u.dtype.scalar;
    if (isLossless(a, b)) return x.cast(u.dtype);
    // Integers that only lose high bits.
    return a.isInt && b.isInt && c.isInt && c.bits <= b.bits ? x.cast(u.dtype) : undefined;
  }),
  rule(UPat.op(Ops.BITCAST, { src: [UPat.op(Ops.BITCAST, { src: [x], name: "v" })], name: "u" }), ({ u, v, x }) => {
    return v.dtype.itemsize === x.dtype.itemsize && u.dtype.itemsize === x.dtype.itemsize
      ? x.bitcast(u.dtype)
      : undefined;
  }),
  rule(UPat.op(Ops.CAST, { src: [x], dtype: bool }), ({ x }) => x.ne(0)),
  rule(
    UPat.op([Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ], {
      src: [UPat.op(Ops.CAST, { src: [x] }), c0],
      ordered: true,
      name: "u",
    }),
    ({ u, x, c0 }) => x.dtype.isBool ? ofBool(u, x, (t) => [constOf(t, c0.dtype), c0]) : undefined,
    "comparison of a cast bool",
  ),
  rule(
    UPat.op(Ops.CMPLT, { src: [c0, UPat.op(Ops.CAST, { src: [x] })], name: "u" }),
    ({ u, x, c0 }) => x.dtype.isBool ? ofBool(u, x, (t) => [c0, constOf(t, c0.dtype)]) : undefined,
    "comparison with a cast bool",
  ),
  rule(
    UPat.op([Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ], {
      src: [UPat.op(Ops.CAST, { src: [x] }), c],
      name: "u",
      when: intSides,
    }),
    ({ u }) => compareNarrow(u),
    "comparison of widened ints",
  ),
  rule(
    UPat.op(Ops.CMPLT, { src: [c, UPat.op(Ops.CAST, { src: [x] })], name: "u", when: intSides }),
    ({ u }) => compareNarrow(u),
    "comparison with widened ints",
  ),
]);

/** A comparison of the cast bool `b`: what it is for false and true decides. */
function ofBool(u: UOp, b: UOp, sides: (t: number) => UOp[]): UOp | undefined {
  const f = foldConst(u.op, u.dtype, sides(0))!.arg, t = foldConst(u.op, u.dtype, sides(1))!.arg;
  return f === t ? value(u, f as number) : t === 1 ? b : not(b);
}

function intSides(u: UOp): boolean {
  return u.src[0].dtype.isInt;
}

/** The node that `u` widens without loss; a constant as the dtype `d` where it fits. */
function narrow(u: UOp, d: UOp["dtype"]): UOp | undefined {
  if (u.op === Ops.CONST) return typeof u.arg === "number" && inDType(u.arg, d) ? constant(u.arg, d) : undefined;
  return u.op === Ops.CAST && u.src[0].dtype === d ? u.src[0] : undefined;
}

function widened(u: UOp): UOp["dtype"] | undefined {
  for (const s of u.src) {
    if (s.op === Ops.CAST && s.src[0].dtype.isInt && isLossless(s.src[0].dtype, s.dtype)) return s.src[0].dtype;
  }
  return undefined;
}

function compareNarrow(u: UOp): UOp | undefined {
  const d = widened(u);
  if (d === undefined || d.bits < 32) return undefined;
  const a = narrow(u.src[0], d), b = narrow(u.src[1], d);
  return a === undefined || b === undefined ? undefined : a.alu(u.op, b);
}

/** int64 arithmetic of widened int32 values in int32, where the result provably fits. Every stage. */
const pmNarrow = new PatternMatcher("narrow", [
  rule(
    UPat.op([Ops.ADD, Ops.MUL, Ops.MAX, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD], {
      src: [x, y],
      ordered: true,
      dtype: dtypes.int64,
      name: "u",
    }),
    ({ u, x, y }) => {
      const d = widened(u);
      if (d === undefined || d.scalar !== dtypes.int32 || !inDType(vmin(u), d) || !inDType(vmax(u), d)) {
        return undefined;
      }
      const a = narrow(x, d), b = narrow(y, d);
      return a === undefined || b === undefined ? undefined : a.alu(u.op, b).cast(u.dtype);
    },
    "int64 as int32",
  ),
  rule( // int32(int64(a) + b) -> a + int32(b): both wrap alike
    UPat.op(Ops.CAST, {
      src: [UPat.op([Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR], { src: [x, y], ordered: true, name: "v" })],
      dtype: dtypes.int32,
      name: "u",
    }),
    ({ u, v, x, y }) => {
      if (!v.dtype.isInt || v.dtype.bits !== 64) return undefined;
      const free = (s: UOp): boolean =>
        s.op === Ops.CAST && s.src[0].dtype === u.dtype || s.op === Ops.CONST && typeof s.arg === "number";
      return free(x) && free(y) ? x.cast(u.dtype).alu(v.op, y.cast(u.dtype)) : undefined;
    },
    "cast into a sum",
  ),
]);

/** WHERE. Every stage. */
const pmWhere = new PatternMatcher("where", [
  rule(c0.where(x, y).named("u"), ({ u, c0, x, y }) => like(u, c0.arg !== 0 ? x : y)),
  rule(c.where(x, x).named("u"), ({ u, x }) => like(u, x)),
  rule(c.ne(UPat.const(1, bool)).where(x, y), ({ c, x, y }) => c.where(y, x)), // !c ? x : y -> c ? y : x
  rule(UPat.op(Ops.WHERE, { src: [c, x, y], dtype: bool, name: "u" }), ({ c, x, y }) => { // bool branches are logic
    const a = x.op === Ops.CONST ? x.arg : undefined, b = y.op === Ops.CONST ? y.arg : undefined;
    if (a === 1) return b === 0 ? c : c.or(y);
    if (a === 0) return b === 1 ? not(c) : not(c).and(y);
    if (b === 0) return c.and(x);
    return b === 1 ? not(c).or(x) : undefined;
  }),
  rule(c.where(c.where(x, y), z), ({ c, x, z }) => c.where(x, z)),
  rule(c.where(x, c.where(y, z)), ({ c, x, z }) => c.where(x, z)),
  rule(UPat.var("a").where(UPat.var("b").where(x, y), y), ({ a, b, x, y }) => a.and(b).where(x, y)),
  rule(UPat.var("a").where(x, UPat.var("b").where(x, y)), ({ a, b, x, y }) => a.or(b).where(x, y)),
  rule(UPat.op(Ops.ADD, { src: [c.where(x, 0), c.where(0, y)], name: "u" }), ({ u, c, x, y }) => {
    return u.dtype.isFloat ? undefined : c.where(x, y); // -0+0 is 0
  }),
  rule(c.where(x, c0).add(c.where(y, c1)), ({ c, x, y, c0, c1 }) => c.where(x.add(y), c0.add(c1))),
  rule(c.where(c0, x).add(c.where(c1, y)), ({ c, x, y, c0, c1 }) => c.where(c0.add(c1), x.add(y))),
  rule(UPat.op(Ops.CAST, { src: [c.where(x, y)], name: "u" }), ({ u, c, x, y }) => { // cast of a constant folds
    return x.op === Ops.CONST || y.op === Ops.CONST ? c.where(x.cast(u.dtype), y.cast(u.dtype)) : undefined;
  }),
  rule( // f(c ? a : b, k) of constants -> c ? f(a, k) : f(b, k)
    UPat.op([Ops.ADD, Ops.MUL, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.FLOORDIV, Ops.FLOORMOD], {
      src: [c.where(UPat.cvar("a"), UPat.cvar("b")), c0],
      ordered: true,
      name: "u",
    }),
    ({ u, c, a, b, c0 }) => {
      const p = foldConst(u.op, u.dtype, [a, c0]), q = foldConst(u.op, u.dtype, [b, c0]);
      return p === undefined || q === undefined ? undefined : c.where(p, q);
    },
    "constant branches",
  ),
  rule(UPat.op(Ops.WHERE, { src: [x.lt(y), y, x], when: isInt }), ({ x, y }) => x.max(y)), // x<y ? y : x
]);

function vectorOf(u: UOp): UOp | undefined {
  const first = u.src[0];
  if (first.op === Ops.CONST && u.src.every((s) => s === first)) return constant(argOf(first, Ops.CONST), u.dtype);
  if (first.op !== Ops.EXTRACT || first.src[0].dtype.count !== u.src.length) return undefined;
  const v = first.src[0];
  return u.src.every((s, i) => s.op === Ops.EXTRACT && s.src[0] === v && s.arg === i) ? v : undefined;
}

/** Nodes of structure: lanes, tuples, reduces over loops that ran away, gates that are known. Every stage. */
const pmStructure = new PatternMatcher("structure", [
  rule(UPat.op(Ops.AFTER, { src: [x] }), ({ x }) => x),
  rule(UPat.op(Ops.GETTUPLE, { src: [UPat.op(Ops.TUPLE, { name: "t" })], name: "u" }), ({ u, t }) => {
    return t.src[argOf(u, Ops.GETTUPLE)];
  }),
  rule(UPat.op(Ops.VECTORIZE, { name: "u" }), ({ u }) => vectorOf(u)),
  rule(UPat.op(Ops.BROADCAST, { src: [c0], name: "u" }), ({ u, c0 }) => constant(argOf(c0, Ops.CONST), u.dtype)),
  rule(UPat.op(Ops.EXTRACT, { src: [c0], name: "u" }), ({ u, c0 }) => constant(argOf(c0, Ops.CONST), u.dtype)),
  rule(UPat.op(Ops.EXTRACT, { src: [UPat.op(Ops.BROADCAST, { src: [x] })] }), ({ x }) => x),
  rule(UPat.op(Ops.EXTRACT, { src: [UPat.op(Ops.VECTORIZE, { name: "v" })], name: "u" }), ({ u, v }) => {
    return v.src[argOf(u, Ops.EXTRACT)];
  }),
  rule(UPat.op([Ops.REDUCE, Ops.STAGE], { name: "u", when: (u) => (u.srcMask0 & 1) !== 0 }), ({ u }) => fewerRanges(u)),
  rule(UPat.op(Ops.ACC, { name: "u", when: (u) => (u.srcMask0 & 1) !== 0 }), ({ u }) => {
    const src = u.src.filter((s, i) => i === 0 || s.op !== Ops.CONST);
    return src.length < u.src.length ? uop(u.op, u.dtype, src, u.arg) : undefined;
  }),
  rule(UPat.op(Ops.GETTUPLE, { src: [UPat.op(Ops.REDUCE, { name: "r" })], name: "u" }), ({ u, r }) => {
    const isValue = r.arg instanceof CarrierArg && r.src.length === r.arg.lanes && !(r.arg instanceof RowCarrier);
    return isValue ? r.src[argOf(u, Ops.GETTUPLE)] : undefined;
  }),
  rule(UPat.op(Ops.INDEX, { src: [x, y, UPat.const(1)], name: "u" }), ({ u, x, y }) => uop(u.op, u.dtype, [x, y])),
  rule(
    UPat.op(Ops.LOAD, { src: [UPat.op(Ops.INDEX, { src: [x, y, UPat.const(0)] })], allowAny: true, name: "u" }),
    ({ u }) => u.src.length > 1 ? u.src[1] : constant(0, u.dtype), // never touched
  ),
  rule( // an alternative value without a gate
    UPat.op(Ops.LOAD, { src: [UPat.op(Ops.INDEX, { src: [x, y], name: "i" }), z], name: "u" }),
    ({ u, i }) => uop(u.op, u.dtype, [i], u.arg),
  ),
  rule(
    UPat.op(Ops.STORE, { src: [UPat.op(Ops.INDEX, { src: [x, y, UPat.const(0)] }), z] }),
    () => uop(Ops.GROUP, dtypes.void),
  ),
  rule(UPat.op([Ops.SINK, Ops.GROUP], { name: "u" }), ({ u }) => {
    if (!u.src.some((s) => s.op === Ops.GROUP)) return undefined;
    return uop(u.op, u.dtype, u.src.flatMap((s) => s.op === Ops.GROUP ? s.src : [s]), u.arg);
  }, "no groups in groups"),
  rule( // v ? load(i, gate v) : alt, where alt is the load's own
    c.where(UPat.op(Ops.LOAD, { src: [UPat.op(Ops.INDEX, { src: [x, y, c] })], allowAny: true, name: "l" }), c0),
    ({ l, c0 }) => (l.src.length > 1 ? l.src[1] === c0 : c0.isConst(0)) ? l : undefined,
  ),
]);

/** A REDUCE or STAGE without the ranges that became constants (loops of one iteration); one without any is its value. */
function fewerRanges(u: UOp): UOp | undefined {
  if (u.op === Ops.REDUCE && !(u.arg instanceof CarrierArg)) return undefined;
  const lanes = u.op === Ops.STAGE ? 1 : carrierOf(u).lanes;
  const src = u.src.filter((s, i) => i < lanes || s.op !== Ops.CONST);
  if (src.length === u.src.length) return undefined;
  if (src.length === 1 && u.op === Ops.REDUCE) return src[0];
  return uop(u.op, u.dtype, src, u.arg);
}

/** Local rules: identities, folding, casts, bools, WHERE, structure. They end, and may run at every stage. */
const symbolicSimple: PatternMatcher = new PatternMatcher("symbolic simple", [
  ...pmFold.rules,
  ...pmOrder.rules,
  ...pmIdentities.rules,
  ...pmBool.rules,
  ...pmAssociative.rules,
  ...pmCast.rules,
  ...pmNarrow.rules,
  ...pmWhere.rules,
  ...pmStructure.rules,
]);

/** True when the sum `u` of two terms is in normal form already, its sources being so. */
function isNormalSum(u: UOp): boolean {
  const [a, b] = u.src;
  if (b.op === Ops.ADD || a.op === Ops.CONST) return false;
  const last = a.op === Ops.ADD ? a.src[1] : a;
  if (b.op === Ops.CONST) return last.op !== Ops.CONST;
  if (last.op === Ops.CONST) return false;
  const f = factorOf(b);
  if (f.op === Ops.ADD || f.op === Ops.FLOORMOD || f.op === Ops.FLOORDIV) return false;
  // Earlier terms in order, down to those that are before `f` for certain.
  for (let rest = a;;) {
    const g = factorOf(rest.op === Ops.ADD ? rest.src[1] : rest);
    const order = compareTerms(g, f);
    if (order > 0 || g === f) return false;
    if (order < 0 || rest.op !== Ops.ADD) return true;
    rest = rest.src[0];
  }
}

/** The normal form of an integer sum: equal terms added, quotient and remainder put together, terms in order. */
function normalSum(u: UOp): UOp | undefined {
  if (!u.dtype.isInt || isNormalSum(u)) return undefined;
  const l = emptyLinear();
  if (!addLinear(l, u, 1)) return undefined;
  while (recombine(l));
  const to = buildLinear(l, u.dtype);
  return to === u ? undefined : like(u, to);
}

/** (a + b) * c -> a * c + b * c for index arithmetic; (a + k) * c -> a * c + k * c for all integers. */
function distribute(u: UOp, sum: UOp, by: UOp): UOp | undefined {
  if (!u.dtype.isInt || typeof by.arg !== "number") return undefined;
  if (sum.src[1].op !== Ops.CONST && !(isIndexLike(sum.src[0]) && isIndexLike(sum.src[1]))) return undefined;
  const l = emptyLinear();
  return addLinear(l, u, 1) ? buildLinear(l, u.dtype) : undefined;
}

/** Sums, products, divisions and comparisons of integers in normal form. Exact under wrap-around. */
const pmIndex: PatternMatcher = new PatternMatcher("index", [
  rule(UPat.op(Ops.ADD, { name: "u" }), ({ u }) => normalSum(u), "sum"),
  rule(UPat.op(Ops.MUL, { src: [UPat.op(Ops.ADD, { name: "x" }), c0], name: "u" }), ({ u, x, c0 }) => {
    return distribute(u, x, c0);
  }, "distribute"),
  rule(x.mul(c0).mul(y).named("u"), ({ u, x, y, c0 }) => { // (x*c)*y -> (x*y)*c
    return isInt(u) && y.op !== Ops.CONST && x.op !== Ops.CONST ? x.mul(y).mul(c0) : undefined;
  }),
  rule(UPat.op([Ops.FLOORDIV, Ops.FLOORMOD], { name: "u" }), ({ u }) => {
    const to = foldDivMod(u);
    return to === undefined ? undefined : like(u, to);
  }, "div mod"),
  rule(UPat.op(Ops.CMPLT, { name: "u", when: intSides }), ({ u }) => {
    const to = foldLess(u);
    return to === undefined ? undefined : like(u, to);
  }, "less"),
  rule(UPat.op([Ops.CMPNE, Ops.CMPEQ], { name: "u", when: intSides }), ({ u }) => {
    const to = foldEqual(u);
    return to === undefined ? undefined : like(u, to);
  }, "equal"),
]);

/** All algebra: {@linkcode symbolicSimple} and the normal forms of {@linkcode pmIndex}. */
export const symbolic: PatternMatcher = symbolicSimple.concat(pmIndex).settles();

/** What nodes were simplified to in this generation. */
const simplest = new Map<UOp, UOp>();
let simplestIn = 0;

/** The simplest form of `u` that the rules know; the same node when there is none simpler. */
export function simplify(u: UOp): UOp {
  if (u.src.length === 0 || (u.settled & symbolic.settledBit) !== 0) return u;
  if (isRecording()) return graphRewrite(u, symbolic);
  if (simplestIn !== generation()) {
    simplest.clear();
    simplestIn = generation();
  }
  let to = simplest.get(u);
  if (to === undefined) simplest.set(u, to = graphRewrite(u, symbolic));
  return to;
}
