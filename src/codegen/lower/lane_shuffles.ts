/**
 * Lanes that are not neighbors in memory: instead of an access a lane, whole vectors are loaded or stored, and their lanes
 * shuffled. In: vectors. Out: vectors of other lanes, by LANES.
 *
 * @module
 */
import { rangeOf } from "../../helpers/math.ts";
import { AxesArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";

/** Lanes that stay together while groups of them change places: what hardware moves as one. */
const GROUP = 4;

/** A vector of lanes of `a` and `b`, which are vectors alike: those of `b` follow those of `a`. */
function lanes(a: UOp, b: UOp, picked: readonly number[]): UOp {
  const count = a.dtype.count;
  if (picked.length === count && picked.every((l, i) => l === i)) return a;
  if (picked.length === count && picked.every((l, i) => l === count + i)) return b;
  return uop(Ops.LANES, a.dtype.scalar.vec(picked.length), [a, b], new AxesArg(picked));
}

/** All lanes of these vectors, one after the other; as many as a power of two. */
function joined(parts: readonly UOp[]): UOp {
  while (parts.length > 1) {
    const twice = rangeOf(2 * parts[0].dtype.count);
    parts = rangeOf(parts.length / 2).map((i) => lanes(parts[2 * i], parts[2 * i + 1], twice));
  }
  return parts[0];
}

/** Where vector `k` of the `step` begins that hold `n` lanes `step` apart: the last one ends where the last lane is. */
export function stepStart(n: number, step: number, k: number): number {
  return k === step - 1 ? k * (n - 1) : k * n;
}

/** The lanes `step` apart, from the vectors that {@linkcode stepStart} tells of. */
export function pickSteps(parts: readonly UOp[], step: number): UOp {
  const n = parts[0].dtype.count;
  let made = parts[0];
  for (let k = 1, known = 1; k < step; k++) {
    const start = stepStart(n, step, k), end = start + n;
    const lane = (l: number): number => {
      if (k === 1 ? l * step < n : l < known) return k === 1 ? l * step : l;
      return l * step < end ? n + l * step - start : 0;
    };
    made = lanes(made, parts[k], rangeOf(n).map(lane));
    known = Math.ceil(end / step);
  }
  return made;
}

/** The lanes of a vector the other way round. */
export function reversed(v: UOp): UOp {
  return lanes(v, v, rangeOf(v.dtype.count).reverse());
}

/** Exchanges rows and columns of each square block of lanes that `rows` hold side by side: as many rows as a block has. */
function transposeBlocks(rows: readonly UOp[]): UOp[] {
  const m = rows.length, out = rows.slice(), all = rangeOf(rows[0].dtype.count);
  const exchange = (i: number, j: number, first: (x: number) => number, second: (x: number) => number): void => {
    const a = out[i], b = out[j];
    out[i] = lanes(a, b, all.map(first));
    out[j] = lanes(a, b, all.map(second));
  };
  const n = all.length;
  // halves, quarters, ... down to groups: what is beside the diagonal changes places
  for (let s = m / 2; s >= (m >= GROUP ? GROUP : 1); s /= 2) {
    for (let i = 0; i < m; i++) {
      if ((i & s) !== 0) continue;
      exchange(i, i + s, (x) => (x & s) === 0 ? x : n + x - s, (x) => (x & s) === 0 ? x + s : n + x);
    }
  }
  if (m < GROUP) return out;
  // within a group, lanes are interleaved twice: a single instruction each
  const interleaved = (x: number, half: number): number => {
    const g = x & -GROUP, l = x & (GROUP - 1);
    return (l & 1) * n + g + half * (GROUP / 2) + (l >> 1);
  };
  for (let g = 0; g < m; g += GROUP) {
    const [p, q, r, s] = out.slice(g, g + GROUP);
    const low = (a: UOp, b: UOp): UOp => lanes(a, b, all.map((x) => interleaved(x, 0)));
    const high = (a: UOp, b: UOp): UOp => lanes(a, b, all.map((x) => interleaved(x, 1)));
    const [a, b, c, d] = [low(p, r), high(p, r), low(q, s), high(q, s)];
    [out[g], out[g + 1], out[g + 2], out[g + 3]] = [low(a, c), high(a, c), low(b, d), high(b, d)];
  }
  return out;
}

/** The columns of a matrix of which `rows` are the rows: as many as a row has lanes, at most as many as there are rows. */
export function columnsOf(rows: readonly UOp[]): UOp[] {
  const m = rows[0].dtype.count;
  return transposeBlocks(
    rangeOf(m).map((r) => joined(rangeOf(rows.length / m).map((b) => rows[r + b * m]))),
  );
}

/** The rows of a matrix of which `columns` are the columns: as many as a column has lanes, at least as many as columns. */
export function rowsOf(columns: readonly UOp[]): UOp[] {
  const m = columns.length, made = transposeBlocks(columns);
  return rangeOf(made[0].dtype.count).map((l) => {
    const v = made[l % m], first = l - l % m;
    return lanes(v, v, rangeOf(m).map((i) => first + i));
  });
}
