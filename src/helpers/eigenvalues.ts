/**
 * Eigenvalues and vectors of square matrices of any kind, on the host: how many steps they take depends on the data.
 * Householder's reflections give Hessenberg's form, QR steps with Wilkinson's shifts make it triangular (J. Francis, 1961), and
 * substitution in the triangle gives the vectors. All in double precision, complex. In: numbers. Out: numbers.
 *
 * @module
 */

/** A square matrix of complex numbers, its rows one after the other. */
export interface ComplexMatrix {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

/** A rotation: its cosine, and the parts of its sine. */
type Rotation = readonly [c: number, sr: number, si: number];

/** QR steps a value may take. */
const MOST_STEPS = 60;

/** The identity. */
function identity(n: number): ComplexMatrix {
  const re = new Float64Array(n * n);
  for (let i = 0; i < n; i++) re[i * n + i] = 1;
  return { re, im: new Float64Array(n * n) };
}

/**
 * Turns lines `p` and `q` of `a` by [[c, s], [-conj(s), c]] at places `from` to `to`: rows, whose elements are `along` 1
 * apart. Columns (`along` n, `s` conjugated) turn by the conjugated transpose.
 */
function turn(
  { re, im }: ComplexMatrix,
  p: number,
  q: number,
  [c, sr, si]: Rotation,
  along: number,
  from: number,
  to: number,
): void {
  for (let j = from, i = p + from * along, k = q + from * along; j < to; j++, i += along, k += along) {
    const xr = re[i], xi = im[i], yr = re[k], yi = im[k];
    re[i] = c * xr + sr * yr - si * yi;
    im[i] = c * xi + sr * yi + si * yr;
    re[k] = c * yr - sr * xr - si * xi;
    im[k] = c * yi - sr * xi + si * xr;
  }
}

/** Turns rows `p` and `p + 1` from column `from` on. */
function turnRows(a: ComplexMatrix, n: number, p: number, by: Rotation, from: number): void {
  turn(a, p * n, (p + 1) * n, by, 1, from, n);
}

/** Turns columns `p` and `p + 1` by the conjugated transpose of that, down to row `to` (not included). */
function turnColumns(a: ComplexMatrix, n: number, p: number, [c, sr, si]: Rotation, to: number): void {
  turn(a, p, p + 1, [c, sr, -si], n, 0, to);
}

/** The rotation that turns (x, y) to (r, 0): its cosine, and the parts of its sine. */
function rotation(xr: number, xi: number, yr: number, yi: number): Rotation {
  const x = Math.hypot(xr, xi), y = Math.hypot(yr, yi), r = Math.hypot(x, y);
  if (y === 0) return [1, 0, 0];
  if (x === 0) return [0, yr / y, -yi / y];
  // s = x conj(y) / (|x| r)
  return [x / r, (xr * yr + xi * yi) / x / r, (xi * yr - xr * yi) / x / r];
}

/** a / b */
function quotient(ar: number, ai: number, br: number, bi: number): [number, number] {
  const scale = Math.max(Math.abs(br), Math.abs(bi)), r = br / scale, i = bi / scale, size = (r * r + i * i) * scale;
  return [(ar * r + ai * i) / size, (ai * r - ar * i) / size];
}

/** Makes `a` upper triangular with a subdiagonal, and turns the columns of `z` alike. */
function reduce(a: ComplexMatrix, z: ComplexMatrix, n: number): void {
  for (let k = 0; k + 2 < n; k++) {
    for (let i = n - 1; i > k + 1; i--) {
      const at = (i - 1) * n + k, by = rotation(a.re[at], a.im[at], a.re[i * n + k], a.im[i * n + k]);
      if (by[1] === 0 && by[2] === 0) continue;
      turnRows(a, n, i - 1, by, k);
      turnColumns(a, n, i - 1, by, n);
      turnColumns(z, n, i - 1, by, n);
      a.re[i * n + k] = a.im[i * n + k] = 0;
    }
  }
}

/** The eigenvalue of the 2 x 2 block that ends in `m` that is nearer to its last element. */
function shiftOf({ re, im }: ComplexMatrix, n: number, m: number): [number, number] {
  const at = (i: number, j: number): [number, number] => [re[i * n + j], im[i * n + j]];
  const [[ar, ai], [br, bi], [cr, ci], [dr, di]] = [at(m - 1, m - 1), at(m - 1, m), at(m, m - 1), at(m, m)];
  const hr = (ar - dr) / 2, hi = (ai - di) / 2, pr = br * cr - bi * ci, pi = br * ci + bi * cr;
  const qr = hr * hr - hi * hi + pr, qi = 2 * hr * hi + pi, size = Math.hypot(qr, qi);
  let sr = Math.sqrt(Math.max((size + qr) / 2, 0)), si = Math.sqrt(Math.max((size - qr) / 2, 0)) * (qi < 0 ? -1 : 1);
  if (hr * sr + hi * si < 0) [sr, si] = [-sr, -si];
  const r = hr + sr, i = hi + si;
  if (r === 0 && i === 0) return [dr, di];
  const [xr, xi] = quotient(pr, pi, r, i);
  return [dr - xr, di - xi];
}

/** Makes Hessenberg's form triangular. False where that takes too many steps. */
function triangularize(a: ComplexMatrix, z: ComplexMatrix, n: number): boolean {
  const { re, im } = a;
  for (let m = n - 1, steps = 0; m > 0;) {
    let l = m;
    for (; l > 0; l--) {
      const low = Math.abs(re[l * n + l - 1]) + Math.abs(im[l * n + l - 1]);
      const near = Math.hypot(re[l * n + l], im[l * n + l]) +
        Math.hypot(re[(l - 1) * n + l - 1], im[(l - 1) * n + l - 1]);
      if (low <= 2 ** -53 * near || low < 1e-300) {
        re[l * n + l - 1] = im[l * n + l - 1] = 0;
        break;
      }
    }
    if (l === m) {
      m--;
      steps = 0;
      continue;
    }
    if (++steps > MOST_STEPS) return false;
    // now and then another shift, against cycles
    const low = m * n + m - 1;
    const [tr, ti] = steps % 11 === 10 ? [re[low] + re[m * n + m], im[low] + im[m * n + m]] : shiftOf(a, n, m);
    for (let i = l; i <= m; i++) {
      re[i * n + i] -= tr;
      im[i * n + i] -= ti;
    }
    const turns: Rotation[] = [];
    for (let i = l; i < m; i++) {
      const at = i * n + i, by = rotation(re[at], im[at], re[at + n], im[at + n]);
      turns.push(by);
      turnRows(a, n, i, by, i);
    }
    for (let i = l; i < m; i++) {
      turnColumns(a, n, i, turns[i - l], Math.min(i + 2, m + 1));
      turnColumns(z, n, i, turns[i - l], n);
    }
    // the rotations moved what stands above the block too
    for (let i = l; i <= m; i++) {
      re[i * n + i] += tr;
      im[i * n + i] += ti;
    }
  }
  return true;
}

/** The vectors of the triangle `a`, in the basis `z`: columns of length 1. */
function vectorsOf(a: ComplexMatrix, z: ComplexMatrix, n: number): ComplexMatrix {
  const out: ComplexMatrix = { re: new Float64Array(n * n), im: new Float64Array(n * n) };
  let norm = 0;
  for (let i = 0; i < n * n; i++) norm = Math.max(norm, Math.abs(a.re[i]) + Math.abs(a.im[i]));
  const small = Math.max(norm * 2 ** -52, 1e-300), xr = new Float64Array(n), xi = new Float64Array(n);
  for (let k = 0; k < n; k++) {
    xr.fill(0);
    xi.fill(0);
    xr[k] = 1;
    for (let i = k - 1; i >= 0; i--) {
      let sr = 0, si = 0;
      for (let j = i + 1; j <= k; j++) {
        const at = i * n + j;
        sr += a.re[at] * xr[j] - a.im[at] * xi[j];
        si += a.re[at] * xi[j] + a.im[at] * xr[j];
      }
      let dr = a.re[k * n + k] - a.re[i * n + i];
      const di = a.im[k * n + k] - a.im[i * n + i];
      if (Math.abs(dr) + Math.abs(di) < small) dr = small; // equal values: a vector close by, if there is none
      [xr[i], xi[i]] = quotient(sr, si, dr, di);
    }
    let size = 0;
    for (let i = 0; i < n; i++) {
      let vr = 0, vi = 0;
      for (let j = 0; j <= k; j++) {
        const at = i * n + j;
        vr += z.re[at] * xr[j] - z.im[at] * xi[j];
        vi += z.re[at] * xi[j] + z.im[at] * xr[j];
      }
      out.re[i * n + k] = vr;
      out.im[i * n + k] = vi;
      size = Math.hypot(size, vr, vi);
    }
    for (let i = 0; i < n; i++) {
      out.re[i * n + k] /= size;
      out.im[i * n + k] /= size;
    }
  }
  return out;
}

/**
 * Values `n` and vectors (columns) of a matrix, which is overwritten; undefined where it has numbers that are not finite, or
 * the steps do not end.
 */
export function eigen(a: ComplexMatrix, n: number): { values: ComplexMatrix; vectors: ComplexMatrix } | undefined {
  for (let i = 0; i < n * n; i++) if (!Number.isFinite(a.re[i]) || !Number.isFinite(a.im[i])) return undefined;
  const z = identity(n), values = { re: new Float64Array(n), im: new Float64Array(n) };
  reduce(a, z, n);
  if (!triangularize(a, z, n)) return undefined;
  for (let i = 0; i < n; i++) {
    values.re[i] = a.re[i * n + i];
    values.im[i] = a.im[i * n + i];
  }
  return { values, vectors: vectorsOf(a, z, n) };
}
