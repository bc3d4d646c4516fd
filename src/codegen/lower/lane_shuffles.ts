/**
 * Lanes that are not neighbors in memory: instead of an access a lane, whole vectors are loaded or stored, and their lanes
 * shuffled. In: vectors. Out: vectors of other lanes, by LANES.
 *
 * @module
 */
import { rangeOf } from "../../helpers/math.ts";
import { AxesArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { store, type UOp, uop } from "../../uop/core/uop.ts";

/** Lanes that stay together while groups of them change places: what hardware moves as one. */
const GROUP = 4;

/** A vector of lanes of `a` and `b`, which are vectors alike: those of `b` follow those of `a`. */
function lanes(a: UOp, b: UOp, picked: AxesArg): UOp {
  const count = a.dtype.count, { axes } = picked;
  if (axes.length === count && axes.every((l, i) => l === i)) return a;
  if (axes.length === count && axes.every((l, i) => l === count + i)) return b;
  return uop(Ops.LANES, a.dtype.scalar.vec(axes.length), [a, b], picked);
}

/** All lanes of these vectors, one after the other; as many as a power of two. */
function joined(parts: readonly UOp[]): UOp {
  while (parts.length > 1) {
    const twice = new AxesArg(rangeOf(2 * parts[0].dtype.count));
    parts = rangeOf(parts.length / 2).map((i) => lanes(parts[2 * i], parts[2 * i + 1], twice));
  }
  return parts[0];
}

/** Where vector `k` of the `step` begins that hold `n` lanes `step` apart: none ends beyond the last lane. */
export function stepStart(n: number, step: number, k: number): number {
  return Math.min(k * n, (step - 1) * (n - 1));
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
    made = lanes(made, parts[k], new AxesArg(rangeOf(n).map(lane)));
    known = Math.ceil(end / step);
  }
  return made;
}

/** The lanes of a vector the other way round. */
export function reversed(v: UOp): UOp {
  return lanes(v, v, new AxesArg(rangeOf(v.dtype.count).reverse()));
}

/** Which lanes of two vectors each of two others has. */
type Exchange = readonly [first: AxesArg, second: AxesArg];

/**
 * The steps that exchange rows and columns of blocks of `m`, in vectors of `n` lanes. Halves, quarters, ... down to groups:
 * what is beside the diagonal changes places. Within a group, lanes are interleaved twice: a single instruction each.
 */
function exchanges(m: number, n: number): { readonly halves: readonly Exchange[]; readonly within: Exchange } {
  const pick = (lane: (x: number) => number): AxesArg => new AxesArg(rangeOf(n).map(lane)), halves: Exchange[] = [];
  for (let s = m / 2; s >= (m >= GROUP ? GROUP : 1); s /= 2) {
    halves.push([pick((x) => (x & s) === 0 ? x : n + x - s), pick((x) => (x & s) === 0 ? x + s : n + x)]);
  }
  const interleaved = (x: number, half: number): number => {
    const g = x & -GROUP, l = x & (GROUP - 1);
    return (l & 1) * n + g + half * (GROUP / 2) + (l >> 1);
  };
  return { halves, within: [pick((x) => interleaved(x, 0)), pick((x) => interleaved(x, 1))] };
}

/** Exchanges rows and columns of each square block of lanes that `rows` hold side by side: as many rows as a block has. */
function transposeBlocks(rows: readonly UOp[]): UOp[] {
  const m = rows.length, out = rows.slice(), { halves, within: [low, high] } = exchanges(m, rows[0].dtype.count);
  halves.forEach(([first, second], k) => {
    const s = m >> k + 1;
    for (let i = 0; i < m; i++) {
      if ((i & s) !== 0) continue;
      const a = out[i], b = out[i + s];
      out[i] = lanes(a, b, first);
      out[i + s] = lanes(a, b, second);
    }
  });
  if (m < GROUP) return out;
  for (let g = 0; g < m; g += GROUP) {
    const [p, q, r, s] = out.slice(g, g + GROUP);
    const [a, b, c, d] = [lanes(p, r, low), lanes(p, r, high), lanes(q, s, low), lanes(q, s, high)];
    [out[g], out[g + 1], out[g + 2], out[g + 3]] = [
      lanes(a, c, low),
      lanes(a, c, high),
      lanes(b, d, low),
      lanes(b, d, high),
    ];
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
  const m = columns.length, made = transposeBlocks(columns), n = made[0].dtype.count;
  const parts = rangeOf(n / m).map((k) => new AxesArg(rangeOf(m).map((i) => k * m + i)));
  return rangeOf(n).map((l) => lanes(made[l % m], made[l % m], parts[Math.floor(l / m)]));
}

/** Fewer lanes are stored one by one. */
const LEAST_STORED = 4;

/** How many stores from `first` on are of the first lanes of one vector, to neighbors: a power of two. */
function lanesStored(stores: readonly UOp[], first: number): number {
  const [{ src: [memory, start, gate] }, { src: [from] }] = stores[first].src as readonly UOp[];
  let n = 0;
  for (let same = gate === undefined; same && first + n < stores.length;) {
    const [at, value] = stores[first + n].src;
    same = value.op === Ops.EXTRACT && value.src[0] === from && value.arg === n && at.src.length === 2 &&
      at.src[0] === memory && distance(start, at.src[1]) === n;
    if (same) n++;
  }
  return n < LEAST_STORED ? 1 : 1 << Math.floor(Math.log2(n));
}

/** What `b` is more than `a`, where that is a constant; else NaN. */
function distance(a: UOp, b: UOp): number {
  const [x, y] = [a, b].map((u) =>
    u.op === Ops.CONST
      ? { c: u.value }
      : u.op === Ops.ADD && u.src[1].op === Ops.CONST
      ? { of: u.src[0], c: u.src[1].value }
      : { of: u, c: 0 }
  );
  return x.of === y.of ? y.c - x.c : NaN;
}

/** Stores of copies in their order, of which those of the first lanes of a vector to neighbors are one of them all. */
export function joinedStores(stores: readonly UOp[], finish: (u: UOp) => UOp): UOp[] {
  const made: UOp[] = [];
  for (let i = 0, n; i < stores.length; i += n) {
    const [at, value] = stores[i].src, [from] = value.src;
    n = lanesStored(stores, i);
    if (n === 1) made.push(stores[i]);
    else made.push(finish(store(at, finish(lanes(from, from, new AxesArg(rangeOf(n)))))));
  }
  return made;
}
