/**
 * Interval analysis: the smallest and largest value of a node, memoized in `minMemo` and `maxMemo`. Integers and bools
 * at any lane count; floats are unbounded except constants. A result that may leave its dtype wraps, so its interval is
 * then the whole dtype. 64-bit values beyond 2^53 are not tracked: they too give the whole dtype.
 *
 * @module
 */
import { type DType, dtypeMax, dtypeMin, DTYPES } from "../../dtype/dtype.ts";
import { floorMod } from "../../helpers/math.ts";
import { argOf } from "../core/args.ts";
import { isAlu, isMovement, isSame, Ops } from "../core/ops.ts";
import { toposort, type UOp } from "../core/uop.ts";

const SAFE = Number.MAX_SAFE_INTEGER;

/** Smallest and largest value by dtype id; vectors share their scalar's. */
const MIN = DTYPES.map(dtypeMin), MAX = DTYPES.map(dtypeMax);

// The interval of the node that `derive` looks at; module state avoids an allocation a node.
let lo = 0, hi = 0;

function set(a: number, b: number): void {
  lo = a;
  hi = b;
}

function unknown(d: DType): void {
  lo = MIN[d.id];
  hi = MAX[d.id];
}

/** The smallest 2^k - 1 that is at least `x`, for x >= 0. */
function mask(x: number): number {
  let m = 1;
  while (m <= x) m *= 2;
  return m - 1;
}

function corners(f: (x: number, y: number) => number, a: number, b: number, c: number, d: number): void {
  const p = f(a, c), q = f(a, d), r = f(b, c), s = f(b, d);
  lo = Math.min(p, q, r, s);
  hi = Math.max(p, q, r, s);
}

const times = (x: number, y: number): number => x * y;
const floorQuotient = (x: number, y: number): number => Math.floor(x / y);
const truncQuotient = (x: number, y: number): number => Math.trunc(x / y);

function modulo(a: number, b: number, c: number, d: number, floor: boolean): void {
  if (c === d) { // a constant divisor: one bucket keeps the order
    const q = floor ? floorQuotient : truncQuotient;
    if (q(a, c) === q(b, c) && (floor || a >= 0 || b <= 0)) {
      const r = floor ? floorMod(a, c) : a % c, s = floor ? floorMod(b, c) : b % c;
      return set(Math.min(r, s) + 0, Math.max(r, s) + 0);
    }
  }
  if (floor) {
    if (c > 0) set(0, a >= 0 ? Math.min(b, d - 1) : d - 1);
    else set(b <= 0 ? Math.max(a, c + 1) : c + 1, 0);
    if (c > 0 && a >= 0 && b < c) lo = a;
    return;
  }
  const m = Math.max(Math.abs(c), Math.abs(d)) - 1;
  set(a >= 0 ? 0 : Math.max(a, -m), b <= 0 ? 0 : Math.min(b, m));
  if (a >= 0 && b < Math.min(Math.abs(c), Math.abs(d))) lo = a;
}

function binary(u: UOp): void {
  const x = u.src[0], y = u.src[1];
  const a = x.minMemo!, b = x.maxMemo!, c = y.minMemo!, d = y.maxMemo!;
  switch (u.op) {
    case Ops.ADD:
      return set(a + c, b + d);
    case Ops.SUB:
      return set(a - d, b - c);
    case Ops.MUL:
      return corners(times, a, b, c, d);
    case Ops.MAX:
      return set(Math.max(a, c), Math.max(b, d));
    case Ops.FLOORDIV:
      return c > 0 || d < 0 ? corners(floorQuotient, a, b, c, d) : unknown(u.dtype);
    case Ops.CDIV:
      return c > 0 || d < 0 ? corners(truncQuotient, a, b, c, d) : unknown(u.dtype);
    case Ops.FLOORMOD:
      return c > 0 || d < 0 ? modulo(a, b, c, d, true) : unknown(u.dtype);
    case Ops.CMOD:
      return c > 0 || d < 0 ? modulo(a, b, c, d, false) : unknown(u.dtype);
    case Ops.AND:
      if (u.dtype.isBool) return set(a * c, b * d);
      if (c === d && c > 0 && mask(c) === c) return modulo(a, b, c + 1, c + 1, true); // the low bits
      if (a >= 0 || c >= 0) return set(0, a >= 0 && c >= 0 ? Math.min(b, d) : a >= 0 ? b : d);
      return unknown(u.dtype);
    case Ops.OR:
      if (u.dtype.isBool) return set(Math.max(a, c), Math.max(b, d));
      return a >= 0 && c >= 0 ? set(Math.max(a, c), mask(Math.max(b, d))) : unknown(u.dtype);
    case Ops.XOR:
      if (u.dtype.isBool) return a === b && c === d ? set(a ^ c, a ^ c) : set(0, 1);
      return a >= 0 && c >= 0 ? set(0, mask(Math.max(b, d))) : unknown(u.dtype);
    case Ops.SHL:
      return c >= 0 && d < u.dtype.bits ? corners((x, y) => x * 2 ** y, a, b, c, d) : unknown(u.dtype);
    case Ops.SHR:
      return c >= 0 && d < u.dtype.bits ? corners((x, y) => Math.floor(x / 2 ** y), a, b, c, d) : unknown(u.dtype);
    case Ops.CMPLT:
      return set(b < c ? 1 : 0, a < d ? 1 : 0);
    case Ops.CMPNE:
      return set(b < c || d < a ? 1 : 0, a === b && c === d && a === c ? 0 : 1);
    case Ops.CMPEQ:
      return set(a === b && c === d && a === c ? 1 : 0, b < c || d < a ? 0 : 1);
    default:
      return unknown(u.dtype);
  }
}

function comparesNumbers(u: UOp): boolean {
  const d = u.src[0].dtype;
  return !d.isFloat;
}

function cast(u: UOp): void {
  const s = u.src[0];
  const a = s.minMemo!, b = s.maxMemo!;
  if (s.dtype.isFloat) return unknown(u.dtype);
  if (u.dtype.isBool) return set(a > 0 || b < 0 ? 1 : 0, a === 0 && b === 0 ? 0 : 1);
  if (u.op === Ops.BITCAST && s.dtype.itemsize !== u.dtype.itemsize) return unknown(u.dtype);
  if (a < MIN[u.dtype.id] || b > MAX[u.dtype.id]) return unknown(u.dtype);
  set(a, b);
}

function derive(u: UOp): void {
  const { op, src, dtype } = u;
  unknown(dtype);
  if (op === Ops.CONST) {
    if (typeof u.arg === "number") set(u.arg, u.arg);
    if (lo !== lo || (dtype.isInt && !(lo >= -SAFE && hi <= SAFE))) unknown(dtype);
    return;
  }
  if (dtype.isFloat || dtype.kind === "void") return;
  switch (op) {
    case Ops.RANGE:
    case Ops.SPECIAL:
      set(0, Math.max(0, src[0].maxMemo! - 1));
      break;
    case Ops.VARIABLE:
      set(argOf(u, Ops.VARIABLE).min, argOf(u, Ops.VARIABLE).max);
      break;
    case Ops.IOTA:
      set(0, Math.max(0, argOf(u, Ops.IOTA) - 1));
      break;
    case Ops.WHERE:
      if (src[0].minMemo! === src[0].maxMemo!) {
        const s = src[src[0].minMemo! ? 1 : 2];
        set(s.minMemo!, s.maxMemo!);
      } else {
        let most = src[1].maxMemo!, least = src[2].minMemo!;
        const [x, y] = src[0].src;
        if (src[0].op === Ops.CMPLT && x.dtype.isInt) { // x < y ? x : ..., x < y ? ... : x: limits
          if (src[1] === x) most = Math.min(most, y.maxMemo! - 1);
          if (src[2] === x) least = Math.max(least, y.minMemo!);
        }
        set(Math.min(src[1].minMemo!, least), Math.max(most, src[2].maxMemo!));
      }
      break;
    case Ops.CAST:
    case Ops.BITCAST:
      cast(u);
      break;
    case Ops.NEG:
      set(-src[0].maxMemo!, -src[0].minMemo!);
      break;
    case Ops.MULACC: {
      corners(times, src[0].minMemo!, src[0].maxMemo!, src[1].minMemo!, src[1].maxMemo!);
      set(lo + src[2].minMemo!, hi + src[2].maxMemo!);
      break;
    }
    case Ops.VECTORIZE:
      set(src[0].minMemo!, src[0].maxMemo!);
      for (let i = 1; i < src.length; i++) set(Math.min(lo, src[i].minMemo!), Math.max(hi, src[i].maxMemo!));
      break;
    case Ops.PAD:
    case Ops.SKEW:
    case Ops.WINDOW:
      set(Math.min(0, src[0].minMemo!), Math.max(0, src[0].maxMemo!));
      break;
    case Ops.BROADCAST:
    case Ops.EXTRACT:
    case Ops.TRUNC:
    case Ops.AFTER:
    case Ops.BIND:
      if (src[0].dtype.scalar === dtype.scalar && !(op === Ops.AFTER && src.length > 1)) {
        set(src[0].minMemo!, src[0].maxMemo!);
      }
      break;
    default:
      if (isMovement(op) || isSame(op)) set(src[0].minMemo!, src[0].maxMemo!);
      else if (isAlu(op) && src.length === 2 && comparesNumbers(u)) binary(u);
      else return;
  }
  // Wrap-around: what leaves the dtype may be anything in it. `!(...)` also catches NaN.
  if (!(lo >= MIN[dtype.id] && hi <= MAX[dtype.id]) || (dtype.bits === 64 && !(lo >= -SAFE && hi <= SAFE))) {
    unknown(dtype);
  }
}

function fill(root: UOp): void {
  const enter = ({ op, dtype, minMemo }: UOp) =>
    minMemo === undefined && !dtype.isFloat && dtype.kind !== "void" && !opaque(op);
  for (const u of toposort(root, enter)) {
    if (u.minMemo !== undefined) continue;
    derive(u);
    u.minMemo = lo + 0; // never -0
    u.maxMemo = hi + 0;
  }
}

/** Ops whose interval is their dtype's whatever their sources are. */
function opaque(op: Ops): boolean {
  return op === Ops.LOAD || op === Ops.INDEX || op === Ops.REDUCE || op === Ops.GETTUPLE || op === Ops.ACC ||
    op === Ops.STAGE || op === Ops.WMMA;
}

/** The smallest value of `u`; -Infinity for floats that are no constant. */
export function vmin(u: UOp): number {
  if (u.minMemo === undefined) fill(u);
  return u.minMemo!;
}

/** The largest value of `u`; Infinity for floats that are no constant. */
export function vmax(u: UOp): number {
  if (u.maxMemo === undefined) fill(u);
  return u.maxMemo!;
}

/** Both bounds, inclusive. */
export function boundsOf(u: UOp): readonly [number, number] {
  return [vmin(u), vmax(u)];
}

/** What a comparison or other bool is for certain; `fallback` when the bounds leave it open. */
export function resolve(u: UOp, fallback: boolean): boolean {
  const a = vmin(u), b = vmax(u);
  return a === b ? a !== 0 : fallback;
}

/** Iterations of a range to count with: of one that ends at a variable half of the most. */
export function expectedSize(range: UOp): number {
  const [end] = range.src;
  return end.op === Ops.CONST ? end.value : Math.ceil(vmax(end) / 2);
}
