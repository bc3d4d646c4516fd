/**
 * Weighted sums whose weights are exponentials of what a sum of products gives, over the same keys: the maximum, the sum
 * of the weights and the weighted sums become one reduction in one kernel (uop/algebra/online_product.ts), where the
 * device has matrix units for it. Scores and weights are in no memory then.
 *
 * In: a tensor graph, for what is to be computed in place; a kernel AST, which computes scores once for each of three
 * reductions one after the other. Out: the AST with one REDUCE, by algebra: the sum over k of w(k) * v(k), where w(k) is
 * exp2(slope * (x(k) - max x)) / total, is the sum of exp2(...) * v(k), divided by the total. What a weight is rounded to, it
 * is rounded to before the division: it is at most 1.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { onlineProductOf } from "../../uop/algebra/online_product.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { carrierOf, getTuple, reduce, RescaleCarrier } from "../../uop/core/carrier.ts";
import { isAlu, isCommutative, isMovement, Ops } from "../../uop/core/ops.ts";
import { dependsOn } from "../../uop/core/ranges.ts";
import { constant, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { isLeaf, mustRealize, NOT_ONLINE, type OnlinePlan } from "../fuse/fusion_plan.ts";
import { readersOf, stripped, topOf, trialKernel } from "./trial_kernel.ts";

/** What online products ask of a device. */
export type OnlineCaps = Pick<Capabilities, "hasGrid" | "grid">;

/** Nodes of one online product that are looked at. */
const MAX_NODES = 400;

// ---- kernel ASTs

/** Are `a`, with range `from` for `to`, and `b` the same, whatever ranges their reductions have? */
function isSame(a: UOp, b: UOp, from: UOp, to: UOp): boolean {
  const ranges = new Map<UOp, UOp>([[from, to]]), seen = new Map<UOp, UOp>();
  const same = (x: UOp, y: UOp): boolean => {
    if (x === y) return !dependsOn(x, from);
    const known = ranges.get(x) ?? seen.get(x);
    if (known !== undefined) return known === y;
    if (x.op !== y.op || x.dtype !== y.dtype || x.src.length !== y.src.length || x.op === Ops.RANGE) return false;
    if (x.arg !== y.arg && !(typeof x.arg === "object" && typeof y.arg === "object" && x.arg.same(y.arg))) return false;
    if (x.op === Ops.REDUCE) {
      const first = carrierOf(x).lanes;
      for (let i = first; i < x.src.length; i++) {
        if (x.src[i].src[0] !== y.src[i].src[0]) return false;
        ranges.set(x.src[i], y.src[i]);
      }
    }
    const equal = x.src.every((s, i) => same(s, y.src[i])) ||
      (isCommutative(x.op) && same(x.src[0], y.src[1]) && same(x.src[1], y.src[0]));
    if (equal) seen.set(x, y);
    return equal;
  };
  return same(a, b);
}

/** The only range of a one-lane REDUCE by `key`. */
function ownRange(u: UOp, key: string): UOp | undefined {
  return u.op === Ops.REDUCE && carrierOf(u).key === key && u.src.length === 2 ? u.src[1] : undefined;
}

/** x of `x == from ? to : x`; anything else is itself. */
function guarded(u: UOp, from: number, to: number): UOp {
  if (u.op !== Ops.WHERE) return u;
  const [condition, a, b] = u.src, [x, other] = condition.op === Ops.CMPNE ? [a, b] : [b, a];
  const isTest = condition.op === Ops.CMPNE || condition.op === Ops.CMPEQ;
  return isTest && condition.src[0] === x && condition.src[1].isConst(from) && other.isConst(to) ? x : u;
}

/** `u` as slope * x + rest * max, where `max` is that of all x. */
function exponentOf(u: UOp, max: UOp, k: UOp): { x: UOp; slope: number; rest: number } | undefined {
  if (guarded(u, -Infinity, 0) === max) return { x: u, slope: 0, rest: 1 };
  if (isSame(max.src[0], u, max.src[1], k)) return { x: u, slope: 1, rest: 0 };
  if (u.op === Ops.MUL && u.src[1].op === Ops.CONST) {
    const e = exponentOf(u.src[0], max, k), c = u.src[1].value;
    return e && { x: e.x, slope: e.slope * c, rest: e.rest * c };
  }
  if (u.op !== Ops.ADD) return undefined;
  const [a, b] = u.src.map((s) => exponentOf(s, max, k));
  if (a === undefined || b === undefined) return undefined;
  return { x: a.slope !== 0 ? a.x : b.x, slope: a.slope + b.slope, rest: a.rest + b.rest };
}

/** A weight: its exponent, what it is divided by, what it is rounded to. */
interface Weight {
  readonly x: UOp;
  readonly slope: number;
  readonly total: UOp;
  readonly dtype: DType;
  /** Whether it is 0 where all x are -Infinity. */
  readonly isGuarded: boolean;
}

function weightOf(u: UOp, max: UOp, k: UOp): Weight | undefined {
  if (u.op !== Ops.CAST || u.src[0].op !== Ops.CAST || u.src[0].src[0].dtype !== u.dtype) return undefined;
  const { dtype, src: [quotient] } = u.src[0];
  if (!dtype.isFloat || quotient.op !== Ops.FDIV || quotient.src[0].op !== Ops.EXP2) return undefined;
  const [power, divisor] = quotient.src, total = guarded(divisor, 0, 1), own = ownRange(total, "ADD");
  if (own === undefined || dependsOn(total, k) || !isSame(total.src[0], power, own, k)) return undefined;
  const e = exponentOf(power.src[0], max, k);
  if (e === undefined || !(e.slope > 0) || e.slope !== -e.rest || dependsOn(max, k)) return undefined;
  return { x: e.x, slope: e.slope, total, dtype, isGuarded: total !== divisor };
}

/** The kernel with one REDUCE for the maximum, the total and the sum; undefined where it is no online product. */
export function joinOnline(store: UOp, caps: OnlineCaps): UOp | undefined {
  const { grid } = caps;
  if (grid === undefined || grid.tensorCores.length === 0 || !grid.hasAsyncCopy || envNumber("NOOPT") !== 0) {
    return undefined;
  }
  const nodes = toposort(store), maxima = nodes.filter((u) => ownRange(u, "MAX") !== undefined);
  if (maxima.length !== 1) return undefined;
  for (const u of nodes) {
    const k = ownRange(u, "ADD"), [product] = u.src;
    if (k === undefined || product.op !== Ops.MUL || u.dtype !== dtypes.float32) continue;
    for (const [a, v] of [product.src, product.src.toReversed()]) {
      const w = weightOf(a, maxima[0], k);
      if (w === undefined || !grid.tensorCores.some((c) => c.input === w.dtype)) continue;
      const carrier = new RescaleCarrier(u.dtype, w.slope, 2, w.dtype);
      const all = reduce(carrier, [w.x, constant(1, u.dtype), v], [k]), max = getTuple(all, 0);
      // subtracted from itself, an infinite maximum is no number
      const total = getTuple(all, 1).add(max.add(max.mul(-1)));
      const sum = getTuple(all, 2).fdiv(total);
      const known = w.isGuarded ? max.eq(-Infinity).where(constant(0, u.dtype), sum) : sum;
      const made = substitute(store, new Map([[u, known]]));
      return onlineProductOf(made) === undefined ? undefined : made;
    }
  }
  return undefined;
}

// ---- tensor graphs

/** What a node is made of, without passing storage or a sum of products. */
const NOTHING = 0, MAXIMUM = 1, POWER = 2;

/** Collects the nodes of one product that ends in `sum`; false where there are too many. */
class Collector {
  readonly inside: Set<UOp> = new Set();
  readonly realized: Set<UOp> = new Set();

  constructor(private readonly kinds: ReadonlyMap<UOp, number>, private readonly storage: ReadonlySet<UOp>) {}

  private operand(u: UOp): void {
    const base = stripped(u);
    if (!isLeaf(base) && !this.storage.has(base)) this.realized.add(base);
  }

  /** The factors of a sum of products, of which those for which `enters` holds are computed in place. */
  private factors(u: UOp, enters: (f: UOp) => boolean): boolean {
    this.inside.add(u.src[0]);
    return u.src[0].src.every((f) => enters(f) ? this.visit(f) : (this.operand(f), true));
  }

  visit(u: UOp): boolean {
    if (isLeaf(u) || this.storage.has(u) || this.inside.has(u) || this.realized.has(u)) return true;
    this.inside.add(u);
    if (this.inside.size > MAX_NODES) return false;
    if (isAlu(u.op) || isMovement(u.op)) return u.src.every((s) => this.visit(s));
    if (u.op === Ops.DETACH || u.op === Ops.CONTIGUOUS_BACKWARD) return this.visit(u.src[0]);
    if (u.op !== Ops.REDUCE) return false;
    const { op } = reduceOf(u), [term] = u.src;
    if (op !== Ops.ADD || this.kinds.get(term) === POWER && term.op !== Ops.MUL) return this.visit(term);
    return term.op === Ops.MUL && this.factors(u, () => false);
  }

  /** From the last sum down. */
  collect(sum: UOp): boolean {
    this.inside.add(sum);
    return this.factors(sum, (f) => this.kinds.get(f) === POWER);
  }
}

/** Finds the online products of the graph below `roots`, which get buffers. */
export function planOnline(roots: readonly UOp[], capsOf: (u: UOp) => OnlineCaps): OnlinePlan {
  const order = toposort(roots);
  if (!order.some((u) => u.op === Ops.EXP2)) return NOT_ONLINE;
  const kinds = new Map<UOp, number>(), sums: UOp[] = [], storage = new Set<UOp>(roots);
  const reduces = new Set<UOp>();
  for (const u of order) {
    let kind = NOTHING;
    if (mustRealize(u)) storage.add(u);
    else if (!storage.has(u)) {
      for (const s of u.src) {
        kind = Math.max(kind, kinds.get(s)!);
        if (reduces.has(s) && !storage.has(s)) reduces.add(u);
      }
    }
    if (u.op === Ops.REDUCE) {
      reduces.add(u);
      if (reduceOf(u).op === Ops.MAX) kind = Math.max(kind, MAXIMUM);
      else if (u.src[0].op === Ops.MUL) {
        if (kinds.get(u.src[0]) === POWER && u.dtype === dtypes.float32) sums.push(u);
        kind = NOTHING;
      }
    } else if (u.op === Ops.EXP2 && kind === MAXIMUM) kind = POWER;
    kinds.set(u, storage.has(u) ? NOTHING : kind);
  }
  if (sums.length === 0) return NOT_ONLINE;
  const inside = new Set<UOp>(), realized = new Set<UOp>();
  const readers = readersOf(order);
  for (const sum of sums) {
    const caps = capsOf(sum);
    if (!caps.hasGrid || caps.grid === undefined || caps.grid.tensorCores.length === 0) continue;
    const c = new Collector(kinds, storage);
    if (!c.collect(sum)) continue;
    // what others read too is computed for all of them at once
    const isOwn = (u: UOp): boolean => u === sum || !reduces.has(u) || readers.get(u)!.every((r) => c.inside.has(r));
    if (![...c.inside].every(isOwn)) continue;
    const top = topOf(sum, storage, readers);
    const store = trialKernel(top, (u) => storage.has(u) || c.realized.has(u));
    if (joinOnline(store, caps) === undefined) continue;
    for (const u of c.inside) if (u !== sum) inside.add(u);
    for (const u of c.realized) realized.add(u);
    realized.add(top);
  }
  return { inside, realized };
}
