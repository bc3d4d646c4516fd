/**
 * The singular value decomposition as one kernel in C: the eigenvectors of AᵀA (Householder's tridiagonal form, and QL
 * steps with implicit shifts) turn the columns nearly orthogonal, and Jacobi's rotations of pairs make them so to the last
 * digits (Z. Drmač and K. Veselić, "New fast and accurate Jacobi SVD algorithm", 2008, turn by QR). All in double
 * precision. Parameters: U `[b, m, wide]`, S `[b, n]` descending, Vᵀ `[b, n, n]`, memory to work in, A `[b, m, n]` with
 * m >= n, and int32 b, m, n, wide.
 *
 * @module
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";

/** The kernel, of a type of elements, and the cosine below which columns count as orthogonal. */
function text(type: string, small: string, none: string): string {
  return `
typedef double v4 __attribute__((vector_size(32), aligned(8), may_alias));
static double dot(const double *x, const double *y, long n) {
  v4 a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
  long i = 0;
  for (; i + 8 <= n; i += 8) {
    a += *(const v4 *)(x + i) * *(const v4 *)(y + i);
    b += *(const v4 *)(x + i + 4) * *(const v4 *)(y + i + 4);
  }
  a += b;
  double s = a[0] + a[1] + a[2] + a[3];
  for (; i < n; i++) s += x[i] * y[i];
  return s;
}
static void turn(double *x, double *y, double c, double s, long n) {
  long i = 0;
  for (; i + 4 <= n; i += 4) {
    v4 p = *(v4 *)(x + i), q = *(v4 *)(y + i);
    *(v4 *)(x + i) = c * p - s * q;
    *(v4 *)(y + i) = s * p + c * q;
  }
  for (; i < n; i++) {
    double p = x[i], q = y[i];
    x[i] = c * p - s * q;
    y[i] = s * p + c * q;
  }
}
static void add(double *y, double a, const double *x, long n) {
  long i = 0;
  for (; i + 4 <= n; i += 4) *(v4 *)(y + i) += a * *(const v4 *)(x + i);
  for (; i < n; i++) y[i] += a * x[i];
}
static double size(double x) { return x < 0 ? -x : x; }
/* Eigenvectors of the symmetric g, rows of z; g is overwritten. */
static void eigen(double *g, double *z, double *d, double *e, double *p, double *taus, long n) {
  for (long k = 0; k + 2 < n; k++) {
    double *v = g + k * n + k + 1;
    long r = n - k - 1;
    double norm = __builtin_sqrt(dot(v, v, r)), head = v[0];
    d[k] = g[k * n + k];
    taus[k] = 0;
    e[k] = 0;
    if (norm == 0) continue;
    double beta = head < 0 ? norm : -norm;
    e[k] = beta;
    v[0] = head - beta;
    double tau = taus[k] = 1 / (norm * norm + size(head) * norm); /* 2 / v'v */
    for (long i = 0; i < r; i++) p[i] = tau * dot(g + (k + 1 + i) * n + k + 1, v, r);
    double half = tau * dot(p, v, r) / 2;
    for (long i = 0; i < r; i++) p[i] -= half * v[i];
    for (long i = 0; i < r; i++) {
      double *row = g + (k + 1 + i) * n + k + 1;
      add(row, -v[i], p, r);
      add(row, -p[i], v, r);
    }
  }
  for (long k = n < 2 ? 0 : n - 2; k < n; k++) {
    d[k] = g[k * n + k];
    e[k] = k + 1 < n ? g[k * n + k + 1] : 0;
  }
  /* rows of z: the transposed product of the reflections */
  for (long i = 0; i < n * n; i++) z[i] = 0;
  for (long i = 0; i < n; i++) z[i * n + i] = 1;
  for (long k = n - 3; k >= 0; k--) {
    if (taus[k] == 0) continue;
    double *v = g + k * n + k + 1;
    long r = n - k - 1;
    for (long i = 0; i < r; i++) {
      double *row = z + (k + 1 + i) * n + k + 1;
      add(row, -taus[k] * dot(row, v, r), v, r);
    }
  }
  for (long l = 0; l < n; l++) {
    for (int steps = 0; steps < 60; steps++) {
      long m = l;
      for (; m + 1 < n; m++) {
        double near = size(d[m]) + size(d[m + 1]);
        if (size(e[m]) <= 1e-17 * near) break;
      }
      if (m == l) break;
      double t = (d[l + 1] - d[l]) / (2 * e[l]), r = __builtin_sqrt(t * t + 1);
      double h = d[m] - d[l] + e[l] / (t + (t < 0 ? -r : r)), s = 1, c = 1, q = 0;
      long i = m - 1;
      for (; i >= l; i--) {
        double f = s * e[i], b = c * e[i];
        r = __builtin_sqrt(f * f + h * h);
        e[i + 1] = r;
        if (r == 0) {
          d[i + 1] -= q;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = h / r;
        h = d[i + 1] - q;
        r = (d[i] - h) * s + 2 * c * b;
        q = s * r;
        d[i + 1] = h + q;
        h = c * r - b;
        turn(z + i * n, z + (i + 1) * n, c, s, n);
      }
      if (r == 0 && i >= l) continue;
      d[l] -= q;
      e[l] = h;
      e[m] = 0;
    }
  }
}
static void order(long *at, const double *d, long n) {
  for (long i = 0; i < n; i++) at[i] = i;
  for (long i = 1; i < n; i++) {
    long x = at[i], j = i;
    for (; j > 0 && d[at[j - 1]] < d[x]; j--) at[j] = at[j - 1];
    at[j] = x;
  }
}
void dinograd_svd(${type} *out, double *work, const ${type} *a, const int *dims) {
  long count = dims[0], m = dims[1], n = dims[2], wide = dims[3];
  ${type} *u = out, *s = u + count * m * wide, *vt = s + count * n;
  double *x = work, *y = x + m * n, *g = y + m * n, *v = g + n * n, *w = v + n * n, *d = w + m * m, *e = d + n, *p = e + n + 1;
  double *taus = p + m, *left = taus + n;
  long *at = (long *)(left + m);
  for (long b = 0; b < count; b++, a += m * n, u += m * wide, s += n, vt += n * n) {
    double most = 0;
    for (long i = 0; i < m * n; i++) if (size(a[i]) > most) most = size(a[i]);
    int bad = !(most < 1e300); /* what is not finite has none */
    for (long i = 0; i < m * n; i++) bad |= a[i] != a[i];
    if (bad) {
      for (long i = 0; i < m * wide; i++) u[i] = __builtin_nan("");
      for (long i = 0; i < n; i++) s[i] = __builtin_nan("");
      for (long i = 0; i < n * n; i++) vt[i] = __builtin_nan("");
      continue;
    }
    double scale = most > 0 ? most : 1;
    for (long i = 0; i < m; i++) for (long j = 0; j < n; j++) x[j * m + i] = a[i * n + j] / scale;
    for (long i = 0; i < n; i++) for (long j = 0; j <= i; j++) g[i * n + j] = g[j * n + i] = dot(x + i * m, x + j * m, m);
    eigen(g, v, d, e, p, taus, n);
    order(at, d, n);
    for (long j = 0; j < n; j++) {
      const double *row = v + at[j] * n;
      double *column = y + j * m;
      for (long i = 0; i < m; i++) column[i] = 0;
      for (long k = 0; k < n; k++) add(column, row[k], x + k * m, m);
      for (long k = 0; k < n; k++) g[j * n + k] = row[k];
    }
    for (int sweep = 0; sweep < 40; sweep++) {
      int turned = 0;
      double high = 0;
      for (long j = 0; j < n; j++) {
        d[j] = dot(y + j * m, y + j * m, m);
        if (d[j] > high) high = d[j];
      }
      double floor = high * ${none} * ${none};
      for (long i = 0; i < n; i++) for (long j = i + 1; j < n; j++) {
        if (d[i] <= floor || d[j] <= floor) continue;
        double xy = dot(y + i * m, y + j * m, m);
        if (xy * xy <= ${small} * ${small} * d[i] * d[j]) continue;
        double zeta = (d[j] - d[i]) / (2 * xy), t = (zeta < 0 ? -1 : 1) / (size(zeta) + __builtin_sqrt(1 + zeta * zeta));
        double c = 1 / __builtin_sqrt(1 + t * t);
        turn(y + i * m, y + j * m, c, c * t, m);
        turn(g + i * n, g + j * n, c, c * t, n);
        d[i] -= t * xy;
        d[j] += t * xy;
        turned = 1;
      }
      if (!turned) break;
    }
    double high = 0;
    for (long j = 0; j < n; j++) {
      d[j] = __builtin_sqrt(dot(y + j * m, y + j * m, m));
      if (d[j] > high) high = d[j];
    }
    order(at, d, n);
    for (long i = 0; i < m; i++) left[i] = 1;
    for (long j = 0; j < wide; j++) {
      double *column = w + j * m;
      if (j < n) {
        s[j] = d[at[j]] * scale;
        for (long k = 0; k < n; k++) vt[j * n + k] = g[at[j] * n + k];
      }
      if (j < n && d[at[j]] > high * ${none}) {
        for (long i = 0; i < m; i++) column[i] = y[at[j] * m + i] / d[at[j]];
      } else { /* what is farthest from all so far, less its share in them */
        long best = 0;
        for (long i = 1; i < m; i++) if (left[i] > left[best]) best = i;
        for (long i = 0; i < m; i++) column[i] = i == best;
        for (int pass = 0; pass < 2; pass++) for (long k = 0; k < j; k++) add(column, -dot(w + k * m, column, m), w + k * m, m);
        double norm = __builtin_sqrt(dot(column, column, m));
        for (long i = 0; i < m; i++) column[i] /= norm;
      }
      for (long i = 0; i < m; i++) left[i] -= column[i] * column[i];
    }
    for (long i = 0; i < m; i++) for (long j = 0; j < wide; j++) u[i * wide + j] = w[j * m + i];
  }
}
`;
}

/** The text of the kernel `dinograd_svd` for matrices of a dtype; undefined for those that it does not take. */
export function svdText(dtype: DType): string | undefined {
  if (dtype === dtypes.float32) return text("float", "1e-10", "1e-14");
  return dtype === dtypes.float64 ? text("double", "1e-15", "1e-200") : undefined;
}
