/** Masks, scans, ragged batches and narrow dtypes whose lengths change from call to call, as strangers write them. */
import { Tensor } from "../../mod.ts";
import { flat, lengthPrograms, type Rows } from "./lengths.ts";

const zip = (a: number[], b: number[]): number => a.reduce((s, x, i) => s + x * b[i], 0);
const column = (m: Rows, j: number): number[] => m.map((row) => row[j]);
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const total = (x: unknown): number => flat(x).reduce((a, b) => a + b, 0);
const most = (x: number[], none = -Infinity): number => x.reduce((a, b) => Math.max(a, b), none);
const byte = (x: number): number => Math.round(x * 127);

lengthPrograms("stranger masks", {
  "causal and banded masks, and where around reductions": {
    arrays: [[[6, 6]], [[6]]],
    lengths: { n: [0, 6], k: [0, 3] },
    at: [[4, 1], [6, 0], [0, 2], [1, 3], [5, 2], [3, 3]],
    slopes: [0, 1],
    run([x, b], [n, k]) {
      const s = x.at([0, n], [0, n]), i = Tensor.arange(n).unsqueeze(1), j = Tensor.arange(n);
      const band = i.ge(j).logicalAnd(i.sub(j).le(k)), row = band.where(s, 0);
      return [
        s.tril().sum(0),
        s.triu(k).sum(1),
        row.sum(1),
        band.where(s, -Infinity).max(1),
        band.where(s, -Infinity).softmax(1),
        row.sum(1).gt(0).where(row.sum(1), b.at([0, n])).sum(),
        i.squeeze(1).lt(k).where(s.sum(1), s.max(1)),
      ];
    },
    want([x, b]: [Rows, number[]], [n, k]) {
      const s = x.slice(0, n).map((r) => r.slice(0, n));
      const isIn = (i: number, j: number): boolean => i >= j && i - j <= k;
      const sums = s.map((r, i) => total(r.filter((_, j) => isIn(i, j))));
      return [
        range(n).map((j) => total(s.filter((_, i) => i >= j).map((r) => r[j]))),
        s.map((r, i) => total(r.filter((_, j) => j - i >= k))),
        sums,
        s.map((r, i) => most(r.filter((_, j) => isIn(i, j)))),
        s.map((r, i) => {
          const e = r.map((v, j) => isIn(i, j) ? Math.exp(v) : 0);
          return e.map((v) => v / total(e));
        }),
        total(sums.map((v, i) => v > 0 ? v : b[i])),
        s.map((r, i) => i < k ? total(r) : most(r)),
      ];
    },
  },
  "scans with what was before": {
    arrays: [[[7, 3]], [[3]]],
    lengths: { n: [0, 7] },
    at: [[4], [7], [0], [1], [6]],
    slopes: [0, 1],
    run([x, first], [n]) {
      const s = x.at([0, n]), all = first.unsqueeze(0).cat([s]);
      return [
        all.cumsum(0),
        s.cumsum(0).add(first),
        all.cummax(0)[0],
        all.cumprod(0).at(-1),
        all.logcumsumexp(0).sum(0),
        all.cumsum(0).at([0, n]).sum(0),
        all.diff({ dim: 0 }),
        all.flip(0).cumsum(0).flip(0).sum(1),
      ];
    },
    want([x, first]: [Rows, number[]], [n]) {
      const all = [first, ...x.slice(0, n)];
      const scan = (f: (a: number, b: number) => number): Rows =>
        all.reduce<Rows>((rows, r) => [...rows, r.map((v, j) => rows.length ? f(rows.at(-1)![j], v) : v)], []);
      const sums = scan((a, b) => a + b), logs = scan((a, b) => Math.log(Math.exp(a) + Math.exp(b)));
      return [
        sums,
        sums.slice(1),
        scan(Math.max),
        scan((a, b) => a * b).at(-1)!,
        range(3).map((j) => total(column(logs, j))),
        range(3).map((j) => total(column(sums.slice(0, n), j))),
        all.slice(1).map((r, i) => r.map((v, j) => v - all[i][j])),
        all.map((_, i) => total(all.slice(i))),
      ];
    },
  },
  "ragged batches by masks: sums, means, maxima, the last of each": {
    arrays: [[[5, 6, 2]], [[5], "int32", (x) => Math.floor((x + 1) * 3.4)], [[2, 3]]],
    lengths: { n: [0, 5], t: [0, 6] },
    at: [[3, 6], [5, 4], [0, 3], [4, 0], [1, 1], [2, 5]],
    slopes: [0, 2],
    run([x, sizes, w], [n, t]) {
      const rows = x.at([0, n], [0, t]), size = sizes.at([0, n]).minimum(t).unsqueeze(1);
      const isIn = Tensor.arange(t).lt(size), open = isIn.unsqueeze(2);
      const sums = open.where(rows, 0).sum(1);
      const last = Tensor.arange(t).eq(size.sub(1)).unsqueeze(2).where(rows.matmul(w), 0).sum(1);
      return [
        isIn.sum(1),
        sums,
        sums.div(size.maximum(1)).matmul(w),
        open.where(rows, -1).max(1).maximum(-5),
        last,
        isIn.any(1).where(sums.sum(1), 7),
        open.where(rows.matmul(w), 0).sum([0, 1]),
      ];
    },
    want([x, sizes, w]: [Rows[], number[], Rows], [n, t]) {
      const rows = x.slice(0, n).map((r, i) => r.slice(0, Math.min(sizes[i], t)));
      const by = (v: number[]): number[] => range(3).map((j) => zip(v, column(w, j)));
      const sums = rows.map((r) => range(2).map((j) => total(column(r, j))));
      return [
        rows.map((r) => r.length),
        sums,
        sums.map((v, i) => by(v.map((s) => s / Math.max(rows[i].length, 1)))),
        rows.map((r) => range(2).map((j) => t === 0 ? -5 : most(column(r, j), r.length < t ? -1 : -5))),
        rows.map((r) => r.length ? by(r.at(-1)!) : [0, 0, 0]),
        rows.map((r, i) => r.length ? total(sums[i]) : 7),
        range(3).map((j) => total(rows.flatMap((r) => r.map((v) => by(v)[j])))),
      ];
    },
  },
  "steps of a network in both directions, held where a sequence has ended": {
    arrays: [[[4, 3, 2]], [[3], "int32", (x) => Math.floor((x + 1) * 2.4)], [[2, 2]], [[2, 2]]],
    lengths: { b: [0, 3] },
    at: [[2], [3], [0], [1], [3]],
    slopes: [0, 2, 3],
    near: 5e-5,
    run([x, sizes, w, u], [b]) {
      const size = sizes.at([0, b]).unsqueeze(1), rows = x.at(":", [0, b]);
      const walk = (order: number[]): Tensor => {
        let h = Tensor.zeros([b, 2]);
        for (const t of order) h = size.gt(t).where(rows.at(t).matmul(w).add(h.matmul(u)).tanh(), h);
        return h;
      };
      return Tensor.cat([walk([0, 1, 2, 3]), walk([3, 2, 1, 0])], 1);
    },
    want([x, sizes, w, u]: [Rows[], number[], Rows, Rows], [b]) {
      const walk = (i: number, order: number[]): number[] =>
        order.filter((t) => t < sizes[i]).reduce(
          (h, t) => [0, 1].map((j) => Math.tanh(zip(x[t][i], column(w, j)) + zip(h, column(u, j)))),
          [0, 0],
        );
      return [range(b).map((i) => [...walk(i, [0, 1, 2, 3]), ...walk(i, [3, 2, 1, 0])])];
    },
  },
  "beam search: what is best of all, and where it comes from": {
    arrays: [[[3, 7]], [[7, 7]], [[3, 4], "int32", (x) => Math.floor((x + 1) * 3.4)]],
    lengths: { v: [3, 7], p: [0, 3] },
    at: [[5, 0], [7, 3], [3, 1], [6, 2], [4, 3]],
    run([scores, next, tokens], [v, p]) {
      const s = scores.at(":", [0, v]), [best, at] = s.reshape([v.mul(3)]).topk(3);
      const from = at.floorDiv(v), word = at.mod(v), rows = tokens.at(from, [0, p]);
      const after = next.at(word, [0, v]).logSoftmax(1).add(best.unsqueeze(1));
      return [best, from, Tensor.cat([rows, word.unsqueeze(1)], 1), after.max(1), after.argmax(1)];
    },
    want([scores, next, tokens]: Rows[], [v, p]) {
      const all = scores.flatMap((r, i) => r.slice(0, v).map((s, w) => ({ s, i, w }))).sort((a, b) => b.s - a.s);
      const top = all.slice(0, 3);
      const after = top.map(({ s, w }) => {
        const row = next[w].slice(0, v), norm = Math.log(total(row.map(Math.exp)));
        return row.map((x) => x - norm + s);
      });
      return [
        top.map(({ s }) => s),
        top.map(({ i }) => i),
        top.map(({ i, w }) => [...tokens[i].slice(0, p), w]),
        after.map((r) => most(r)),
        after.map((r) => r.indexOf(most(r))),
      ];
    },
  },
  "quantized products: int8 by int8, with zero points, and what joins them": {
    arrays: [[[5, 8], "int8", byte], [[8, 6], "int8", byte], [[6], "int32", (x) => Math.round(x * 900)], [
      [5, 8],
      "uint8",
      (x) => byte(x) + 127,
    ]],
    lengths: { n: [0, 5], k: [0, 8] },
    at: [[3, 8], [5, 5], [0, 4], [4, 0], [1, 1], [2, 7]],
    run([a, b, bias, u], [n, k]) {
      const l = a.at([0, n], [0, k]), r = b.at([0, k]), wide = (x: Tensor): Tensor => x.cast("int32");
      const product = wide(l).matmul(wide(r)), other = wide(u.at([0, n], [0, k])).sub(127).matmul(wide(r));
      return [
        product,
        l.matmul(r, { dtype: "int32" }).add(bias),
        other.sum(0),
        product.add(bias).float().div(100).round().clamp(-128, 127).cast("int8"),
        product.pad([[1, 0], [0, 1]], { value: -5 }).max(1),
        l.matmul(r),
        Tensor.cat([product, other]).abs().max(),
      ];
    },
    want([a, b, bias, u]: [Rows, Rows, number[], Rows], [n, k]) {
      const by = (x: number[]): number[] => range(6).map((j) => zip(x.slice(0, k), column(b, j)));
      const product = a.slice(0, n).map(by), other = u.slice(0, n).map((r) => by(r.map((x) => x - 127)));
      const even = (x: number): number => {
        const r = Math.round(x);
        return Math.abs(x % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
      };
      return [
        product,
        product.map((r) => r.map((x, j) => x + bias[j])),
        range(6).map((j) => total(column(other, j))),
        product.map((r) => r.map((x, j) => Math.max(-128, Math.min(127, even(Math.fround((x + bias[j]) / 100)))))),
        [-5, ...product.map((r) => most(r, -5))],
        product.map((r) => r.map((x) => x << 24 >> 24)),
        most([...product, ...other].flat().map(Math.abs), -(2 ** 31)),
      ];
    },
  },
  "narrow integers: sums, joins, pads, and shifts that wrap": {
    arrays: [[[9], "uint8", (x) => byte(x) + 128], [[9], "int8", byte], [[9], "int16", (x) => Math.round(x * 30000)]],
    lengths: { n: [0, 9], p: [0, 9] },
    at: [[5, 2], [9, 9], [0, 4], [7, 0], [1, 1], [8, 3]],
    run([u, i, s], [n, p]) {
      const a = u.at([0, n]), b = i.at([p, null]), c = s.at([0, n]);
      return [
        a.sum(),
        a.cat([u.at([p, null])]).max(),
        a.add(100).pad([[2, 0]], { value: 250 }),
        b.mul(3).cat([i.at([0, p])]),
        b.min(),
        c.add(c).sum(),
        a.rshift(1).bitwiseXor(0x55).cat([a.lshift(1)]),
        a.cast("int8").sum(),
        b.pad([[p, 0]], { value: -1 }).sum(),
        a.gt(127).all(),
        a.gt(127).cat([b.lt(0)]).any(),
      ];
    },
    want([u, i, s]: number[][], [n, p]) {
      const a = u.slice(0, n), b = i.slice(p), c = s.slice(0, n);
      return [
        total(a),
        most([...a, ...u.slice(p)], 0),
        [250, 250, ...a.map((x) => (x + 100) & 255)],
        [...b.map((x) => (x * 3) << 24 >> 24), ...i.slice(0, p)],
        b.reduce((x, y) => Math.min(x, y), 127),
        total(c.map((x) => (2 * x) << 16 >> 16)),
        [...a.map((x) => (x >> 1) ^ 0x55), ...a.map((x) => (x << 1) & 255)],
        total(a.map((x) => x << 24 >> 24)),
        total(b) - p,
        Number(a.every((x) => x > 127)),
        Number(a.some((x) => x > 127) || b.some((x) => x < 0)),
      ];
    },
  },
  "half floats: what is joined, masked and reduced": {
    arrays: [[[6, 5], "float16", (x) => Math.round(x * 64) / 64], [
      [6, 5],
      "bfloat16",
      (x) => Math.round(x * 64) / 64,
    ], [[5]]],
    lengths: { n: [0, 6], p: [0, 5] },
    at: [[3, 2], [6, 5], [0, 4], [5, 0], [1, 1]],
    near: 1e-2,
    run([h, g, w], [n, p]) {
      const a = h.at([0, n], [0, p]), b = g.at([n, null], [0, p]);
      const all = a.float().cat([b.float()]);
      return [
        all.matmul(w.at([0, p])),
        a.sum(1).pad([[0, 1]], { value: 2 }),
        b.sum(0),
        Tensor.arange(p).lt(n).where(a, 0).sum(),
        a.add(1).prod(1),
        a.cat([h.at([n, null], [0, p])]).sum(0),
      ];
    },
    want([h, g, w]: [Rows, Rows, number[]], [n, p]) {
      const a = h.slice(0, n).map((r) => r.slice(0, p)), b = g.slice(n).map((r) => r.slice(0, p));
      return [
        [...a, ...b].map((r) => zip(r, w)),
        [...a.map(total), 2],
        range(p).map((j) => total(column(b, j))),
        total(a.map((r) => r.slice(0, n))),
        a.map((r) => r.reduce((x, y) => x * (y + 1), 1)),
        range(p).map((j) => total(column(h, j))),
      ];
    },
  },
  "argmax over masked rows, and bools reduced": {
    arrays: [[[5, 7]], [[5, 7], "bool", (x) => Number(x > 0.2)]],
    lengths: { n: [0, 5], m: [1, 7], k: [0, 7] },
    at: [[3, 5, 2], [5, 7, 7], [0, 3, 0], [4, 1, 1], [1, 6, 0], [2, 4, 6]],
    run([x, mask], [n, m, k]) {
      const s = x.at([0, n], [0, m]), isIn = mask.at([0, n], [0, m]), open = Tensor.arange(m).lt(k);
      return [
        isIn.where(s, -Infinity).argmax(1),
        open.where(s, -9).argmin(1),
        isIn.any(1),
        isIn.logicalAnd(open).all(0),
        isIn.sum(),
        isIn.any(1).where(isIn.where(s, 0).max(1), -1),
        s.maskedFill(open.logicalNot(), 0).pad([[0, 0], [1, 1]], { value: 0.5 }).argmax(1),
        isIn.logicalXor(open).cat([open.unsqueeze(0)]).sum(1),
      ];
    },
    want([x, mask]: Rows[], [n, m, k]) {
      const s = x.slice(0, n).map((r) => r.slice(0, m)), isIn = mask.slice(0, n).map((r) => r.slice(0, m));
      const at = (r: number[]): number => r.indexOf(most(r)), open = range(m).map((j) => j < k);
      return [
        s.map((r, i) => at(r.map((v, j) => isIn[i][j] ? v : -Infinity))),
        s.map((r) => at(r.map((v, j) => open[j] ? -v : 9))),
        isIn.map((r) => Number(r.some(Boolean))),
        range(m).map((j) => Number(isIn.every((r) => r[j] && open[j]))),
        total(isIn),
        s.map((r, i) => isIn[i].some(Boolean) ? most(r.map((v, j) => isIn[i][j] ? v : 0)) : -1),
        s.map((r) => at([0.5, ...r.map((v, j) => open[j] ? v : 0), 0.5])),
        [...isIn.map((r) => r.filter((v, j) => Boolean(v) !== open[j]).length), open.filter(Boolean).length],
      ];
    },
  },
});
