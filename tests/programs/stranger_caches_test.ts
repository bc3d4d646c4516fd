/** Caches, joins, pads and shifts whose lengths change from call to call, as strangers write them. */
import { Tensor } from "../../mod.ts";
import { flat, lengthPrograms, type Rows } from "./lengths.ts";

const zip = (a: number[], b: number[]): number => a.reduce((s, x, i) => s + x * b[i], 0);
const column = (m: Rows, j: number): number[] => m.map((row) => row[j]);
const dot = (a: Rows, b: Rows): Rows => a.map((row) => b[0].map((_, j) => zip(row, column(b, j))));
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const total = (x: unknown): number => flat(x).reduce((a, b) => a + b, 0);
function soft(row: number[]): number[] {
  const top = Math.max(...row), e = row.map((x) => Math.exp(x - top)), s = total(e);
  return e.map((x) => x / s);
}
lengthPrograms("stranger caches", {
  "a cache of products: what is new joins what is there": {
    arrays: [[[6, 4]], [[3, 5]], [[5, 4]], [[4]]],
    lengths: { p: [0, 6], n: [0, 3] },
    at: [[2, 1], [6, 3], [0, 0], [0, 3], [5, 0], [1, 2], [0, 1]],
    slopes: [0, 1, 2],
    run([cache, x, w, q], [p, n]) {
      const keys = Tensor.cat([cache.at([0, p]), x.at([0, n]).matmul(w)]);
      return [keys, keys.matmul(q), keys.sum(0), keys.square().sum(1).sum()];
    },
    want([cache, x, w, q]: [Rows, Rows, Rows, number[]], [p, n]) {
      const keys = [...cache.slice(0, p), ...dot(x.slice(0, n), w)];
      return [
        keys,
        keys.map((k) => zip(k, q)),
        range(4).map((j) => total(keys.map((k) => k[j]))),
        total(keys.map((k) => zip(k, k))),
      ];
    },
  },
  "attention over a cache and what joins it, causal": {
    arrays: [[[6, 4]], [[6, 4]], [[3, 4]], [[4, 4]], [[4, 4]], [[4, 4]]],
    lengths: { p: [0, 6], n: [1, 3] },
    at: [[2, 1], [6, 3], [0, 1], [0, 3], [5, 2], [1, 2]],
    slopes: [0, 1, 2, 3],
    run([ks, vs, x, wq, wk, wv], [p, n]) {
      const rows = x.at([0, n]), k = ks.at([0, p]).cat([rows.matmul(wk)]), v = vs.at([0, p]).cat([rows.matmul(wv)]);
      const i = Tensor.arange(n).unsqueeze(1).add(p), j = Tensor.arange(n.add(p));
      return j.gt(i).where(-Infinity, rows.matmul(wq).matmul(k.T).div(2)).softmax(-1).matmul(v);
    },
    want([ks, vs, x, wq, wk, wv]: Rows[], [p, n]) {
      const rows = x.slice(0, n), k = [...ks.slice(0, p), ...dot(rows, wk)], v = [...vs.slice(0, p), ...dot(rows, wv)];
      return [rows.map((row, i) => {
        const q = dot([row], wq)[0], seen = k.slice(0, p + i + 1), w = soft(seen.map((k) => zip(k, q) / 2));
        return range(4).map((j) => zip(w, seen.map((_, r) => v[r][j])));
      })];
    },
  },
  "a cache that is written where it stands, by masks and by shrink": {
    arrays: [[[7, 3]], [[2, 3]], [[3, 3]], [[3]]],
    lengths: { p: [0, 5] },
    at: [[3], [0], [5], [1], [4]],
    run([cache, x, w, q], [p]) {
      const rows = x.matmul(w), at = Tensor.arange(7).sub(p).unsqueeze(1);
      const other = at.ge(0).logicalAnd(at.lt(2)).where(rows.pad([[p, p.neg().add(5)], null]), cache);
      cache.shrink([[p, p.add(2)], null]).assign(rows);
      const keys = cache.at([0, p.add(2)]);
      return [cache.mul(1), other, keys.matmul(q).softmax(0), keys.max(0)];
    },
    want([cache, x, w, q]: [Rows, Rows, Rows, number[]], [p]) {
      const rows = dot(x, w), all = [...cache.slice(0, p), ...rows, ...cache.slice(p + 2)], keys = all.slice(0, p + 2);
      return [all, all, soft(keys.map((k) => zip(k, q))), range(3).map((j) => Math.max(...column(keys, j)))];
    },
  },
  "pads of reductions": {
    arrays: [[[6, 4]], [[4, 5]]],
    lengths: { n: [0, 6], m: [0, 4] },
    at: [[3, 2], [6, 4], [0, 0], [0, 3], [5, 0], [1, 1], [6, 0]],
    slopes: [0, 1],
    run([x, w], [n, m]) {
      const part = x.at([0, n], [0, m]), sums = part.sum(1), product = part.matmul(w.at([0, m]));
      return [
        sums.pad([[1, 2]]),
        part.sum(0).pad([[2, 1]], { value: 3 }),
        product.pad([[1, 0], [0, 2]], { value: -1 }),
        product.pad([[1, 0], [0, 2]]).sum(0),
        product.sum(0).pad([[n, m]]).sum(),
        sums.pad([[m, n]]).add(1).prod(),
      ];
    },
    want([x, w]: Rows[], [n, m]) {
      const part = x.slice(0, n).map((r) => r.slice(0, m)), sums = part.map(total);
      const product = part.map((r) => range(5).map((j) => zip(r, column(w, j))));
      const columns = range(5).map((j) => total(column(product, j)));
      return [
        [0, ...sums, 0, 0],
        [3, 3, ...range(m).map((j) => total(column(part, j))), 3],
        [new Array(7).fill(-1), ...product.map((r) => [...r, -1, -1])],
        [...columns, 0, 0],
        total(columns),
        sums.reduce((a, b) => a * (b + 1), 1),
      ];
    },
  },
  "sliding windows: means, maxima, and one mask for all": {
    arrays: [[[9]], [[3]]],
    lengths: { n: [3, 9] },
    at: [[5], [9], [3], [4], [8]],
    slopes: [0, 1],
    run([x, w], [n]) {
      const s = x.at([0, n]), windows = Tensor.stack([0, 1, 2].map((i) => s.at([i, n.sub(2 - i)])), 1);
      const i = Tensor.arange(n).unsqueeze(1), j = Tensor.arange(n), band = i.sub(j).abs().le(1);
      const zero = s.pad([[1, 1]]);
      return [
        windows.mean(1),
        windows.max(1),
        windows.matmul(w),
        band.where(s, 0).sum(1),
        band.where(s, -Infinity).max(1),
        zero.at([0, n]).add(zero.at([1, n.add(1)])).add(zero.at([2, n.add(2)])),
      ];
    },
    want([x, w]: number[][], [n]) {
      const s = x.slice(0, n), windows = range(n - 2).map((i) => s.slice(i, i + 3));
      const bands = s.map((_, i) => s.slice(Math.max(0, i - 1), i + 2));
      return [
        windows.map((v) => total(v) / 3),
        windows.map((v) => Math.max(...v)),
        windows.map((v) => zip(v, w)),
        bands.map(total),
        bands.map((v) => Math.max(...v)),
        bands.map(total),
      ];
    },
  },
  "rolling buffers: by roll, by two slices, by places": {
    arrays: [[[5, 2]], [[3, 2]]],
    lengths: { p: [0, 5], n: [0, 3] },
    at: [[2, 1], [5, 3], [0, 0], [0, 3], [4, 0], [1, 2]],
    slopes: [0, 1],
    run([ring, x], [p, n]) {
      const turned = ring.at([p, null]).cat([ring.at([0, p])]), now = x.at([0, n]);
      const moved = ring.at([n, null]).cat([now]);
      return [turned, ring.roll(p, 0), moved, moved.sum(0), turned.square().sum(1), now.cat([turned]).cumsum(0)];
    },
    want([ring, x]: Rows[], [p, n]) {
      const turned = [...ring.slice(p), ...ring.slice(0, p)], now = x.slice(0, n), moved = [...ring.slice(n), ...now];
      const sums: Rows = [];
      for (const row of [...now, ...turned]) sums.push(row.map((v, j) => v + (sums.at(-1)?.[j] ?? 0)));
      return [
        turned,
        range(5).map((i) => ring[(i - p + 5) % 5]),
        moved,
        [0, 1].map((j) => total(column(moved, j))),
        turned.map((r) => zip(r, r)),
        sums,
      ];
    },
  },
  "stencils: heat in a box of any size, with what stands at its edges": {
    arrays: [[[6, 7]]],
    lengths: { h: [1, 6], w: [0, 7] },
    at: [[3, 4], [6, 7], [1, 1], [1, 7], [5, 0], [2, 1]],
    slopes: [0],
    run([u], [h, w]) {
      const step = (u: Tensor): Tensor => {
        const e = u.pad([[1, 1], [1, 1]]), hh: [number, Tensor] = [1, h.add(1)], ww: [number, Tensor] = [1, w.add(1)];
        const sides = [e.at([0, h], ww), e.at([2, h.add(2)], ww), e.at(hh, [0, w]), e.at(hh, [2, w.add(2)])];
        return u.add(sides.reduce((a, b) => a.add(b)).sub(u.mul(4)).mul(0.1));
      };
      const box = u.at([0, h], [0, w]), after = step(step(box));
      return [after, after.sum(), after.pad([[0, 0], [1, 0]], { value: 1 }).min(1)];
    },
    want([u]: Rows[], [h, w]) {
      const step = (u: Rows): Rows =>
        u.map((row, i) =>
          row.map((v, j) => {
            const sides = (u[i - 1]?.[j] ?? 0) + (u[i + 1]?.[j] ?? 0) + (row[j - 1] ?? 0) + (row[j + 1] ?? 0);
            return v + 0.1 * (sides - 4 * v);
          })
        );
      const after = step(step(u.slice(0, h).map((r) => r.slice(0, w))));
      return [after, total(after), after.map((r) => Math.min(1, ...r))];
    },
  },
  "the game of life in a world of any size": {
    arrays: [[[6, 6], "uint8", (x) => x > 0 ? 1 : 0]],
    lengths: { h: [0, 6], w: [1, 6] },
    at: [[4, 4], [6, 6], [0, 3], [1, 1], [3, 6], [6, 2]],
    run([g], [h, w]) {
      const world = g.at([0, h], [0, w]), e = world.pad([1, 1, 1, 1]);
      let sum = world.zerosLike();
      for (const dy of [0, 1, 2]) {
        for (const dx of [0, 1, 2]) if (dy !== 1 || dx !== 1) sum = sum.add(e.at([dy, h.add(dy)], [dx, w.add(dx)]));
      }
      const next = sum.eq(3).logicalOr(sum.eq(2).logicalAnd(world.eq(1)));
      return [next.cast("uint8"), next.sum(), next.any(0), next.all(1)];
    },
    want([g]: Rows[], [h, w]) {
      const world = g.slice(0, h).map((r) => r.slice(0, w));
      const next = world.map((row, y) =>
        row.map((v, x) => {
          let c = 0;
          for (const dy of [-1, 0, 1]) for (const dx of [-1, 0, 1]) if (dy || dx) c += world[y + dy]?.[x + dx] ?? 0;
          return c === 3 || (v && c === 2) ? 1 : 0;
        })
      );
      return [
        next,
        total(next),
        range(w).map((x) => Number(next.some((r) => r[x]))),
        next.map((r) => Number(r.every(Boolean))),
      ];
    },
  },
});
