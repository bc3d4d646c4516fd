/**
 * Buffers, views, captured functions, whole numbers and edges as strangers write them, beside plain arithmetic; on every device.
 */
import assert from "node:assert/strict";
import { type DTypeName, jit, Tensor, Variable } from "../../mod.ts";
import { equal, onAllDevices } from "./reported.ts";

type Values = ConstructorParameters<typeof Tensor>[0];
const F = (x: Values): Tensor => new Tensor(x, { dtype: "float32" }).realize();
const I = (x: Values, dtype: DTypeName = "int32"): Tensor => new Tensor(x, { dtype }).realize();
const program = (name: string, run: () => void | Promise<void>): void => onAllDevices("strangers", name, run);

program("ring cache: write at i mod n, read in order", async () => {
  const n = 4, ring = Tensor.zeros([n, 2]).contiguous().realize();
  const all: number[][] = [];
  const write = jit((r: Tensor, x: Tensor, p: Tensor) => {
    r.setAt([p], x);
    return r.sum(0);
  });
  const pos = new Variable("pos", 0, n - 1);
  for (let i = 0; i < 11; i++) {
    const row = [i, -i];
    all.push(row);
    const s = write(ring, F(row), pos.bind(i % n));
    const last = all.slice(-n);
    await equal(s, [last.reduce((a, r) => a + r[0], 0), last.reduce((a, r) => a + r[1], 0) + 0]);
    if (i >= n) {
      const k = (i + 1) % n, ordered = ring.at([k, null]).cat([ring.at([0, k])], 0);
      await equal(ordered, last);
      await equal(ring.roll(-k, 0), last);
    }
  }
  assert.equal(write.stats.captures, 1);
});

program("game of life: two buffers swapped", async () => {
  let cur = Tensor.zeros([6, 6], { dtype: "int32" }).contiguous().realize(), nxt = cur.clone().realize();
  const g = Array.from({ length: 6 }, () => new Array(6).fill(0));
  for (const [y, x] of [[0, 1], [1, 2], [2, 0], [2, 1], [2, 2]]) {
    g[y][x] = 1;
    cur.setAt([y, x], 1);
  }
  let G = g;
  const step = jit((a: Tensor, b: Tensor) => {
    let s = Tensor.zeros([6, 6], { dtype: "int32" });
    for (const dy of [-1, 0, 1]) for (const dx of [-1, 0, 1]) if (dy || dx) s = s.add(a.roll([dy, dx], [0, 1]));
    b.assign(s.eq(3).bitwiseOr(s.eq(2).bitwiseAnd(a.eq(1))).cast("int32"));
    b.realize();
    return b.sum();
  });
  for (let t = 0; t < 9; t++) {
    const alive = step(cur, nxt);
    [cur, nxt] = [nxt, cur];
    G = G.map((r, y) =>
      r.map((v, x) => {
        let c = 0;
        for (const dy of [-1, 0, 1]) {
          for (const dx of [-1, 0, 1]) if (dy || dx) c += G[(y + dy + 6) % 6][(x + dx + 6) % 6];
        }
        return c === 3 || (v && c === 2) ? 1 : 0;
      })
    );
    await equal(alive, 5);
    await equal(cur, G);
  }
});

program("views in place: bitcast of slice, permute, flip, diag, unfold", async () => {
  const a = F([[1, 2, 3], [4, 5, 6]]);
  a.at(":", [1, null]).bitcast("uint32").assign(a.at(":", [1, null]).bitcast("uint32").bitwiseXor(0x80000000)); // -x
  await equal(a, [[1, -2, -3], [4, -5, -6]]);
  a.permute([1, 0]).flip(0).at(0).assign(F([30, 60]));
  await equal(a, [[1, -2, 30], [4, -5, 60]]);
  a.T.at([0, 2]).mulInPlace(2);
  await equal(a, [[2, -4, 30], [8, -10, 60]]);
  const b = a.detach();
  b.at(0).assign(b.at(1));
  b.at(1).assign(b.at(0).flip(0));
  await equal(a, [[8, -10, 60], [60, -10, 8]]);
  const v = a.reshape([3, 2]);
  v.setAt([1], F([0, 0]));
  await equal(a, [[8, -10, 0], [0, -10, 8]]);
  a.flatten().at([0, null, 2]).assign(a.flatten().at([1, null, 2]));
  await equal(a, [[-10, -10, 0], [0, 8, 8]]);
  const d = Tensor.zeros([3, 3]).contiguous().realize();
  d.diagonal().assign(F([1, 2, 3]));
  await equal(d, [[1, 0, 0], [0, 2, 0], [0, 0, 3]]);
  const s = I([1, 2, 3, 4, 5, 6]);
  s.at([1, null]).assign(s.at([0, -1]));
  await equal(s, [1, 1, 2, 3, 4, 5]);
  s.at([0, -1]).assign(s.at([1, null]));
  await equal(s, [1, 2, 3, 4, 5, 5]);
  const c = I([1, 2, 3]);
  const old = c.clone();
  c.addInPlace(1);
  await equal(old, [1, 2, 3]);
  await equal(c, [2, 3, 4]);
});

program("int64, uint64: hashing and fixed point", async () => {
  // FNV-1a 64 over columns
  const words = I([[104, 105], [97, 98]], "uint64");
  let h = Tensor.full([2], 0xcbf29ce484222325n, { dtype: "uint64" });
  for (let i = 0; i < 2; i++) {
    h = h.bitwiseXor(words.at(":", i)).mul(Tensor.full([2], 0x100000001b3n, { dtype: "uint64" }));
  }
  const ref = (s: number[]) => {
    let x = 0xcbf29ce484222325n;
    for (const c of s) x = BigInt.asUintN(64, (x ^ BigInt(c)) * 0x100000001b3n);
    return x;
  };
  const want = [ref([104, 105]), ref([97, 98])];
  await equal([...(await h.data())], want);
  await equal([...(await h.rshift(32).data())], want.map((x) => x >> 32n));
  await equal([...(await h.mod(1000003).data())], want.map((x) => x % 1000003n));
  await equal([...(await h.floorDiv(1000003).data())], want.map((x) => x / 1000003n));
  await equal(
    [...(await h.bitcast("int64").floorDiv(1000003).data())],
    want.map((x) => {
      const y = BigInt.asIntN(64, x), m = 1000003n;
      let q = y / m;
      if (y % m < 0n) q--;
      return q;
    }),
  );
  await equal(
    [...(await h.bitcast("int64").mod(-7).data())],
    want.map((x) => {
      const y = BigInt.asIntN(64, x);
      let r = y % -7n;
      if (r > 0n) r -= 7n;
      return r;
    }),
  );
  // xorshift64
  let x = I([88172645463325252n], "uint64"), r = 88172645463325252n;
  for (let i = 0; i < 20; i++) {
    x = x.bitwiseXor(x.lshift(13));
    x = x.bitwiseXor(x.rshift(7));
    x = x.bitwiseXor(x.lshift(17));
    r ^= BigInt.asUintN(64, r << 13n);
    r ^= r >> 7n;
    r ^= BigInt.asUintN(64, r << 17n);
  }
  await equal([...(await x.data())], [r]);
  await equal([...(await I([-(2n ** 63n), 2n ** 63n - 1n], "int64").add(1).data())], [-(2n ** 63n) + 1n, -(2n ** 63n)]);
  await equal([...(await I([-(2n ** 63n)], "int64").abs().data())], [-(2n ** 63n)]);
  await equal(I([2n ** 63n - 1n, -5n], "int64").argsort(), [1, 0]);
  await equal([...(await I([2n ** 64n - 1n, 5n, 2n ** 63n], "uint64").sort()[0].data())], [
    5n,
    2n ** 63n,
    2n ** 64n - 1n,
  ]);
  await equal([...(await I([2n ** 62n, 2n ** 62n], "int64").cumsum(0).data())], [2n ** 62n, -(2n ** 63n)]);
  await equal([...(await I([3n, 5n], "int64").prod().data())], [15n]);
  await equal([...(await I([7n, 9n], "uint64").matmul(I([2n ** 60n, 1n], "uint64")).data())], [7n * 2n ** 60n + 9n]);
  await equal([...(await I([1.9, -1.9, 3e9].map(Math.trunc).map(BigInt), "int64").data())], [1n, -1n, 3000000000n]);
});

program("NaN and infinities through reductions, order, compare", async () => {
  const x = F([1, NaN, 3, -Infinity]);
  await equal(x.max(), NaN);
  await equal(x.min(), NaN);
  await equal(x.argmax(), 1);
  await equal(x.argmin(), 1);
  await equal(x.sort()[0], [-Infinity, 1, 3, NaN]);
  await equal(x.sort(0, { descending: true })[0], [NaN, 3, 1, -Infinity]);
  await equal(x.topk(2)[1], [1, 2]);
  await equal(x.median(), NaN);
  await equal(x.nanmedian(), 1);
  await equal(x.cummax(0)[0], [1, NaN, NaN, NaN]);
  await equal(x.relu(), [1, NaN, 3, 0]);
  await equal(x.clamp(0, 2), [1, NaN, 2, 0]);
  await equal(x.isclose(x), [true, false, true, true]);
  await equal(x.ne(x), [false, true, false, false]);
  await equal(x.sign(), [1, NaN, 1, -1]);
  await equal(x.nanToNum(), [1, 0, 3, -3.4028234663852886e38]);
  await equal(F([Infinity]).sub(F([Infinity])), [NaN]);
  await equal(F([0]).mul(F([Infinity])), [NaN]);
  await equal(F([-0]).sqrt().reciprocal(), [-Infinity]);
  await equal(F([-1]).pow(0.5), [NaN]);
  await equal(F([-8]).pow(1 / 3), [NaN]);
  await equal(F([1]).pow(F([NaN])), [1]);
  await equal(F([NaN]).pow(0), [1]);
  await equal(F([2]).pow(F([-Infinity])), [0]);
  await equal(F([NaN, 2]).maximum(1), [NaN, 2]);
  await equal(F([NaN, 2]).fmax(1), [1, 2]);
  await equal(F([1, NaN]).any(), true);
  await equal(F([0, NaN]).all(), false);
  await equal(F([NaN]).bool(), [true]);
  await equal(F([NaN, Infinity, -Infinity, 1]).logsumexp(0), NaN);
  await equal(F([Infinity, 1]).logsumexp(0), Infinity);
  await equal(F([Infinity, 1]).softmax(), [NaN, NaN]);
  await equal(F([1, NaN]).mean(), NaN);
  await equal(F([NaN, 1, NaN]).nanmean(), 1);
  await equal(F([0.5, 1.5, 2.5, -0.5, -1.5]).round(), [0, 2, 2, -0, -2]);
  await equal(F([-0.2]).ceil(), [-0]);
  await equal(F([5.5, -5.5, 5.5, -5.5]).mod(F([2, 2, -2, -2])), [1.5, 0.5, -0.5, -1.5]);
  await equal(F([5.5, -5.5]).fmod(2), [1.5, -1.5]);
  await equal(F([1, -1, 0]).div(0), [Infinity, -Infinity, NaN]);
  await equal(F([1e38]).mul(10), [Infinity]);
  await equal(F([1e-45]).div(2), [0]);
});

program("jit: shapes that change, lists of tensors, whole numbers, nested results", async () => {
  const mean = jit((xs: Tensor[], o: { scale: number; bias?: Tensor }) => {
    const s = xs.reduce((a, b) => a.add(b)).mul(o.scale);
    return { s, parts: xs.map((x) => x.max()), b: o.bias ? s.add(o.bias) : null };
  });
  for (const n of [3, 3, 3, 5, 3, 5, 5, 7]) {
    const xs = [1, 2, 3].map((k) => Tensor.arange(n).add(k));
    const r = mean(xs, { scale: 2, bias: n > 4 ? new Tensor(1) : undefined });
    const want = Array.from({ length: n }, (_, i) => (3 * i + 6) * 2);
    await equal(r.s, want);
    await equal(r.parts[2], n + 2);
    if (n > 4) await equal(r.b, want.map((x) => x + 1));
    else assert.equal(r.b, null);
  }
  const f = jit((x: Tensor) => x.mul(0.5).add(1));
  await equal(f(new Tensor([1.5, 2])), [1.75, 2]);
  await equal(f(new Tensor([1.5, 2])), [1.75, 2]);
  await equal(f(new Tensor([4, 2])), [3, 2]);
  await equal(f(new Tensor([4, 3.5])), [3, 2.75]);
  let calls = 0;
  const h = jit((x: Tensor, k: string, n: number) => {
    calls++;
    return k === "a" ? x.add(n) : x.mul(n);
  });
  for (let i = 0; i < 4; i++) {
    await equal(h(F([1, 2]), "a", 3), [4, 5]);
    await equal(h(F([1, 2]), "b", 3), [3, 6]);
  }
  assert.equal(calls, 4);
  const views = jit((x: Tensor) => x.T.contiguous());
  const base = F([[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
  for (const [a, b] of [[0, 2], [1, 3], [0, 2], [1, 3]]) {
    await equal(views(base.at([a, b])), [0, 1, 2].map((c) => [a * 3 + c + 1, a * 3 + c + 4]));
  }
  const dup = jit((a: Tensor, b: Tensor) => {
    a.assign(a.add(b));
    return b.sum();
  });
  const z = F([1, 2]);
  for (let i = 0; i < 4; i++) await dup(z, z).item();
  await equal(z, [16, 32]);
  const same = jit((a: Tensor) => a);
  const in1 = F([1]);
  for (let i = 0; i < 3; i++) await equal(same(in1), [1]);
  const rnd = jit((x: Tensor) => x.add(Tensor.rand([2])));
  const seen = new Set();
  for (let i = 0; i < 5; i++) seen.add(JSON.stringify(await rnd(F([0, 0])).tolist()));
  assert.equal(seen.size, 5);
});

program("promotion of scalars in chains", async () => {
  const d = (t: Tensor) => t.dtype.name;
  assert.deepEqual([
    d(I([1], "uint8").add(1)),
    d(I([1], "uint8").add(1.5)),
    d(I([1]).div(2)),
    d(I([1], "int8").add(I([1], "uint8"))),
    d(I([true], "bool").add(1)),
    d(I([true], "bool").add(I([true], "bool"))),
    d(I([1], "int64").mul(0.5)),
    d(F([1]).half().add(1e6)),
    d(F([1]).half().add(F([1]).bfloat16())),
    d(F([1]).half().add(I([1], "int64"))),
    d(I([3]).pow(2)),
    d(I([3]).pow(0.5)),
    d(I([3]).mean()),
    d(I([1], "uint8").sum()),
    d(I([true], "bool").sum()),
    d(I([1]).exp()),
    d(I([1], "uint32").add(I([1], "int32"))),
    d(I([1], "uint64").add(I([1], "int64"))),
  ], [
    "uint8",
    "float32",
    "float32",
    "int16",
    "int32",
    "bool",
    "float32",
    "float16",
    "float32",
    "float16",
    "int32",
    "float32",
    "float32",
    "uint32",
    "int32",
    "float32",
    "int64",
    "float32",
  ]);
  await equal(F([60000]).half().add(60000), [Infinity]);
  await equal(F([2049]).half(), [2048]);
  await equal(I([255], "uint8").add(1), [0]);
  await equal(I([127], "int8").add(I([1], "int8")), [-128]);
  await equal(I([16777217]).add(0.0), [16777217]);
  await equal(I([7, -7]).div(2), [3.5, -3.5]);
  await equal(I([7, -7]).floorDiv(2), [3, -4]);
  await equal(I([7, -7]).div(2, { roundingMode: "trunc" }), [3, -3]);
  await equal(I([7, -7]).mod(3), [1, 2]);
  await equal(I([-7]).fmod(3), [-1]);
  await equal(I([1, 2]).where(I([5, 6]), 0.5), [5, 6]);
});

program("replay buffer: ring of transitions, sampled by a list, written by a slice that wraps", async () => {
  const N = 10, buf = Tensor.zeros([N, 3]).contiguous().realize();
  const B: number[][] = Array.from({ length: N }, () => [0, 0, 0]);
  let head = 0;
  for (let t = 0; t < 9; t++) {
    const n = 3, rows = Array.from({ length: n }, (_, i) => [t, i, t * i]);
    const fit = Math.min(n, N - head);
    buf.setAt([[head, head + fit]], F(rows.slice(0, fit)));
    if (fit < n) buf.setAt([[0, n - fit]], F(rows.slice(fit)));
    rows.forEach((r, i) => B[(head + i) % N] = r);
    head = (head + n) % N;
    const idx = [t % N, (3 * t) % N, (7 * t + 1) % N];
    await equal(buf.at(I(idx)), idx.map((i) => B[i]));
    await equal(buf.at(":", 2).sum(), B.reduce((a, r) => a + r[2], 0));
  }
});

program("slices of slices, negative steps, null axes, ellipsis against plain code", async () => {
  const n = [4, 5, 6],
    a = Tensor.arange(120).reshape(n).realize(),
    at = (i: number, j: number, k: number) => i * 30 + j * 6 + k;
  await equal(
    a.at([null, null, -2], "...", [4, 1, -1]),
    [3, 1].map((i) => [0, 1, 2, 3, 4].map((j) => [4, 3, 2].map((k) => at(i, j, k)))),
  );
  await equal(a.at(1, null, [1, -1], null, -1), [[1, 2, 3].map((j) => [at(1, j, 5)])].map((r) => r));
  await equal(a.at([-3, -1], [-2, null], 0), [1, 2].map((i) => [3, 4].map((j) => at(i, j, 0))));
  await equal(
    a.at(I([[0, 1], [2, 3]]), 0, I([0, 5])),
    [[0, 1], [2, 3]].map((r) => r.map((i, c) => at(i, 0, [0, 5][c]))),
  );
  await equal(
    a.at(":", I([0, -1]), [0, 2]),
    [0, 1, 2, 3].map((i) => [0, 4].map((j) => [0, 1].map((k) => at(i, j, k)))),
  );
  await equal(a.at([10, 20]), []);
  await equal(
    a.at([0, 2]).at([1, null]).at(0, [0, 3, 2]).at(":", [5, null, -3]),
    [0, 2].map((j) => [5, 2].map((k) => at(1, j, k))),
  );
  const b = a.clone();
  b.at([0, 2]).at(1).at([0, 5, 2]).assign(I([[1], [2], [3]]).expand([3, 6]));
  const want = await a.tolist() as number[][][];
  [0, 2, 4].forEach((j, x) => want[1][j] = new Array(6).fill(x + 1));
  await equal(b, want);
  await equal(a.at("...", 0).at(":", 0), [0, 30, 60, 90]);
});

program("strings of ops on bools and bytes: masks, counts, packing bits", async () => {
  const m = new Tensor([[true, false, true, true], [false, false, true, false]]).realize();
  await equal(m.sum(), 4);
  await equal(m.sum(1), [3, 1]);
  await equal(m.logicalNot().any(0), [true, true, false, true]);
  await equal(m.int().mul(I([8, 4, 2, 1])).sum(1), [11, 2]);
  await equal(m.at(0).bitwiseXor(m.at(1)), [true, false, false, true]);
  await equal(m.all(1), [false, false]);
  await equal(m.cumsum(1), [[1, 1, 2, 3], [0, 0, 1, 1]]);
  await equal(m.argmax(1), [0, 2]);
  await equal(m.mean(), 0.5);
  await equal(m.where(I([1, 2, 3, 4]), -1), [[1, -1, 3, 4], [-1, -1, 3, -1]]);
  await equal(m.nonzero ? await m.nonzero() : 0, [[0, 0], [0, 2], [0, 3], [1, 2]]);
  const bytes = I([0xff, 0x0f, 0x80], "uint8");
  await equal(bytes.rshift(4).bitwiseAnd(1), [1, 0, 0]);
  await equal(bytes.bitcast("int8"), [-1, 15, -128]);
  await equal(bytes.bitwiseNot(), [0, 240, 127]);
  await equal(I([1, 2, 3, 4], "uint8").bitcast("uint32"), [67305985]);
  await equal(I([67305985], "uint32").bitcast("uint8"), [1, 2, 3, 4]);
  await equal(await m.maskedSelect(m), [true, true, true, true]);
  await equal(m.max(), true);
  await equal(m.eq(true).sum(), 4);
  await equal(m.lt(I([1, 1, 0, 0])), [[false, true, false, false], [true, true, false, false]]);
});

program("late reads of chunks while others are written", async () => {
  const kv = Tensor.zeros([4, 2]).contiguous().realize(), reads: Tensor[] = [];
  for (let i = 0; i < 4; i++) {
    kv.setAt([i], F([i, i + 0.5]));
    kv.realize();
    reads.push(kv.at([0, i + 1]).sum(0));
  }
  await equal(reads[0], [0, 0.5]);
  await equal(reads[3], [6, 8]);
  await equal(reads[1], [1, 2]);
  kv.setAt([0], 9);
  kv.realize();
  await assert.rejects(() => reads[2].tolist(), { name: "StaleReadError" });
  await equal(kv.at([1, null]).sum(0), [6, 7.5]);
});
