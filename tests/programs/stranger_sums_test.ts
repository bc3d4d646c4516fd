/**
 * Sums of many parts, as ensembles, mixtures of experts, polynomials and attention over several memories write them: values
 * and gradients are those of the same program in plain numbers, however many parts there are.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";

Device.default = "WASM";
const random = new Random(31);

/** A matrix of plain numbers, which float32 and bfloat16 hold exactly. */
type Matrix = readonly (readonly number[])[];
function drawn(rows: number, columns: number): Matrix {
  return Array.from({ length: rows }, () => Array.from({ length: columns }, () => random.int(-32, 32) / 32));
}
function times(a: Matrix, b: Matrix): Matrix {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));
}
function turned(a: Matrix): Matrix {
  return a[0].map((_, j) => a.map((row) => row[j]));
}
function each(f: (...x: number[]) => number, ...of: Matrix[]): Matrix {
  return of[0].map((row, i) => row.map((_, j) => f(...of.map((m) => m[i][j]))));
}
function total(parts: readonly Matrix[]): Matrix {
  return parts.reduce((a, b) => each((x, y) => x + y, a, b));
}
function tensor(values: Matrix, dtype: "float32" | "bfloat16" | "int32"): Tensor {
  return new Tensor(values.map((row) => [...row]), { dtype, requiresGrad: dtype !== "int32" }).realize();
}
/** That results are these, within a part of the largest number. */
async function agree(what: string, got: readonly Tensor[], want: readonly Matrix[], within: number): Promise<void> {
  Tensor.realize([...got]);
  for (const [k, t] of got.entries()) {
    const values = await t.float().tolist() as number[][], most = Math.max(...want[k].flat().map(Math.abs));
    want[k].forEach((row, i) =>
      row.forEach((w, j) =>
        assert.ok(
          Math.abs(values[i][j] - w) <= within * most,
          `${what}: ${k} at ${i}, ${j} is ${values[i][j]}, not ${w}`,
        )
      )
    );
  }
}

const COUNTS = [3, 8, 100] as const;

Deno.test("sums: an ensemble, all products of one input", async () => {
  for (const count of COUNTS) {
    for (const [dtype, within] of [["float32", 1e-5], ["bfloat16", 0.03]] as const) {
      const x = drawn(6, 9), ws = Array.from({ length: count }, () => drawn(9, 5));
      const tx = tensor(x, dtype), tws = ws.map((w) => tensor(w, dtype));
      const y = tws.map((w) => tx.matmul(w)).reduce((a, b) => a.add(b));
      const want = total(ws.map((w) => times(x, w))), dy = each((v) => 2 * v, want);
      const gradients = y.mul(y).sum().gradient([tx, ...tws]), dw = times(turned(x), dy);
      const wants = [want, total(ws.map((w) => times(dy, turned(w)))), ...ws.map(() => dw)];
      await agree(`${count} in ${dtype}`, [y, ...gradients], wants, within);
    }
    const [x, ...ws] = [drawn(5, 7), ...Array.from({ length: count }, () => drawn(7, 4))].map((m) =>
      each((v) => v * 32, m)
    );
    const y = ws.map((w) => tensor(x, "int32").matmul(tensor(w, "int32"))).reduce((a, b) => a.add(b));
    await agree(`${count} in int32`, [y], [total(ws.map((w) => times(x, w)))], 0);
  }
});

Deno.test("sums: a mixture of experts, each weighted by a column of a gate", async () => {
  for (const count of COUNTS) {
    const x = drawn(4, 8), gate = drawn(8, count), ws = Array.from({ length: count }, () => drawn(8, 6));
    const [tx, tg, ...tws] = [x, gate, ...ws].map((m) => tensor(m, "float32")), shares = tx.matmul(tg);
    const y = tws.map((w, i) => tx.matmul(w).relu().mul(shares.at(":", [i, i + 1]))).reduce((a, b) => a.add(b));
    const s = times(x, gate),
      hs = ws.map((w) => times(x, w)),
      column = (k: number) => s.map((row) => row.slice(k, k + 1));
    const spread = (k: number) => column(k).map(([v]) => Array<number>(6).fill(v));
    const want = total(hs.map((h, k) => each((v, p) => Math.max(v, 0) * p, h, spread(k)))),
      dy = each((v) => 2 * v, want);
    const dhs = hs.map((h, k) => each((v, d, p) => v > 0 ? d * p : 0, h, dy, spread(k)));
    const ds = s.map((row, i) => row.map((_, k) => hs[k][i].reduce((n, v, j) => n + Math.max(v, 0) * dy[i][j], 0)));
    const dx = total([times(ds, turned(gate)), ...dhs.map((dh, k) => times(dh, turned(ws[k])))]);
    const wants = [want, dx, times(turned(x), ds), ...dhs.map((dh) => times(turned(x), dh))];
    await agree(`${count} experts`, [y, ...y.mul(y).sum().gradient([tx, tg, ...tws])], wants, 2e-5);
  }
});

Deno.test("sums: reductions of three kinds, of as many tensors", async () => {
  for (const count of COUNTS) {
    const xs = Array.from({ length: count }, () => drawn(5, 33)), ts = xs.map((x) => tensor(x, "float32"));
    const y = ts.map((t, i) => i % 3 === 0 ? t.sum(1) : i % 3 === 1 ? t.max(1) : t.mul(t).mean(1))
      .reduce((a, b) => a.add(b)).unsqueeze(1);
    const mean = (row: readonly number[]) => row.reduce((n, v) => n + v * v, 0) / row.length;
    const of = (row: readonly number[], k: number) =>
      k === 0 ? row.reduce((a, b) => a + b) : k === 1 ? Math.max(...row) : mean(row);
    const want = total(xs.map((x, k) => x.map((row) => [of(row, k % 3)])));
    const dxs = xs.map((x, k) =>
      x.map((row, i) => {
        const d = 2 * want[i][0], most = Math.max(...row), ties = row.filter((v) => v === most).length;
        return row.map((v) => k % 3 === 0 ? d : k % 3 === 1 ? (v === most ? d / ties : 0) : 2 * v * d / 33);
      })
    );
    await agree(`${count} reductions`, [y, ...y.mul(y).sum().gradient(ts)], [want, ...dxs], 2e-5);
  }
});

Deno.test("sums: a polynomial by powers, by Horner's rule and by stacked powers", async () => {
  for (const count of COUNTS) {
    const [x] = drawn(1, 40).map((row) => row.map((v) => v * 0.875)), [a] = drawn(1, count);
    const tx = tensor([x], "float32"), ta = tensor([a], "float32"), at = (i: number) => ta.at(":", [i, i + 1]);
    const indices = [...a.keys()], zero = Tensor.zeros([1, 40]);
    const forms = [
      indices.reduce((sum, i) => sum.add(tx.pow(i).mul(at(i))), zero),
      indices.toReversed().reduce((sum, i) => sum.mul(tx).add(at(i)), zero),
      Tensor.stack(indices.map((i) => tx.pow(i))).mul(ta.reshape([count, 1, 1])).sum(0),
    ];
    const sum = (f: (c: number, i: number) => number) => a.reduce((n, c, i) => n + f(c, i), 0);
    const want = [x.map((v) => sum((c, i) => c * v ** i))];
    const dx = [x.map((v) => sum((c, i) => i === 0 ? 0 : c * i * v ** (i - 1)))];
    const da = [a.map((_, i) => x.reduce((n, v) => n + v ** i, 0))];
    for (const y of forms) await agree(`${count} powers`, [y, ...y.sum().gradient([tx, ta])], [want, dx, da], 1e-5);
  }
});
