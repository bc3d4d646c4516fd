/** Two programs of strangers: sparse matrices as places and values, hashes and codes of bits. Values are those of NumPy, SciPy and PyTorch. */
import { Device, scan, Tensor } from "../../mod.ts";
import { is } from "./areas.ts";

Device.default = "WASM";
const f64 = { dtype: "float64" } as const;

Deno.test("areas: sparse matrices as places and values", async () => {
  const r = new Tensor([0, 0, 1, 3, 3, 3]),
    c = new Tensor([1, 4, 2, 0, 3, 4]),
    v = new Tensor([1, 2, 3, 4, 5, 6], f64),
    x = new Tensor([1, 2, 3, 4, 5], f64);
  await is("spmv", () => Tensor.zeros([4], f64).indexAdd(0, r, v.mul(x.at(c))), [12, 9, 0, 54]);
  await is("dense", () => Tensor.zeros([4, 5], f64).indexPut([r, c], v), [[0, 1, 0, 0, 2], [0, 0, 3, 0, 0], [
    0,
    0,
    0,
    0,
    0,
  ], [4, 0, 0, 5, 6]]);
  await is("dense2", () => {
    const d = Tensor.zeros([4, 5], f64);
    d.setAt([r, c], v);
    return d;
  }, [[0, 1, 0, 0, 2], [0, 0, 3, 0, 0], [0, 0, 0, 0, 0], [4, 0, 0, 5, 6]]);
  await is("csr", () => r.bincount({ size: 4 }).cumsum().pad([1, 0]), [0, 2, 3, 3, 6]);
  await is("fromcsr", () => Tensor.arange(4).repeatInterleave(new Tensor([2, 1, 0, 3])), [0, 0, 1, 3, 3, 3]);
  await is("spmm", () => {
    const B = Tensor.arange(10, f64).reshape([5, 2]);
    return Tensor.zeros([4, 2], f64).indexAdd(0, r, v.unsqueeze(1).mul(B.at(c)));
  }, [[18, 21], [12, 15], [0, 0], [78, 93]]);
  await is("softmax", () => {
    const m = Tensor.full([4], -Infinity, f64).scatterReduce(0, r, v, "amax"),
      e = v.sub(m.at(r)).exp(),
      s = Tensor.zeros([4], f64).indexAdd(0, r, e);
    return e.div(s.at(r));
  }, [0.268941421, 0.731058579, 1, 0.0900305732, 0.244728471, 0.665240956]);
  await is("coalesce", async () => {
    const i = new Tensor([5, 2, 5, 7]),
      w = new Tensor([1, 2, 3, 4], f64),
      [u, inv] = await i.unique({ returnInverse: true });
    return Tensor.stack([u.double(), Tensor.zeros([3], f64).indexAdd(0, inv, w)]);
  }, [[2, 5, 7], [2, 4, 4]]);
  await is("tocoo", async () => {
    const d = new Tensor([[0, 5, 0], [7, 0, 9]]), i = await d.nonzero();
    return Tensor.cat([i, d.at(i.at(":", 0), i.at(":", 1)).unsqueeze(1)], 1);
  }, [[0, 1, 5], [1, 0, 7], [1, 2, 9]]);
  await is("transpose", () => {
    const o = c.mul(4).add(r).argsort();
    return Tensor.stack([c.at(o), r.at(o)]);
  }, [[0, 1, 2, 3, 4, 4], [3, 0, 1, 3, 0, 3]]);
  await is(
    "bag",
    () =>
      new Tensor([1, 2, 4, 5, 4, 3]).embeddingBag(Tensor.arange(12).float().reshape([6, 2]), new Tensor([0, 2, 5]), {
        mode: "sum",
      }),
    [[6, 8], [26, 29], [6, 7]],
  );
  await is("segsort", () => {
    const k = new Tensor([3, 1, 2, 9, 7, 8]), o = k.argsort(), p = r.at(o).argsort();
    return k.at(o.at(p));
  }, [1, 3, 2, 7, 8, 9]);
  await is("segscan", () => {
    const s = v.cumsum(), first = r.searchsorted(r);
    return s.sub(s.at(first)).add(v.at(first));
  }, [1, 3, 3, 4, 9, 15]);
  await is("grad", () => {
    const w = v.clone().realize();
    return Tensor.zeros([4], f64).indexAdd(0, r, w.mul(x.at(c))).square().sum().gradient([w])[0];
  }, [48, 120, 54, 108, 432, 540]);
  await is("gathergrad", () => {
    const t = Tensor.ones([5], f64).realize();
    return t.at(c).mul(v).sum().gradient([t])[0];
  }, [4, 1, 3, 5, 8]);
  await is("bandsolve", () => {
    const n = 5, d = Tensor.full([n], 4, f64), e = Tensor.ones([n - 1], f64);
    return d.diag().add(e.diagEmbed({ offset: 1 })).add(e.diagEmbed({ offset: -1 })).solve(x);
  }, [0.167948718, 0.328205128, 0.519230769, 0.594871795, 1.10128205]);
  await is("jaccard", () => {
    const a = new Tensor([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]], f64), i = a.matmul(a.T), s = a.sum(1);
    return i.div(s.unsqueeze(1).add(s).sub(i));
  }, [[1, 0.5, 0.333333333], [0.5, 1, 0], [0.333333333, 0, 1]]);
  await is("bipart", () => {
    const d = Tensor.zeros([4, 5], f64).indexPut([r, c], v);
    return d.countNonzero(1);
  }, [2, 1, 0, 3]);
  await is("isin", () => c.isin([0, 4]), [false, true, false, true, false, true]);
  await is("topkmask", () => {
    const m = Tensor.zeros([6], { dtype: "bool" }).scatter(0, v.topk(2)[1], true);
    return m.where(v, 0);
  }, [0, 0, 0, 0, 5, 6]);
  await is("kron", () => new Tensor([[1, 0], [0, 2]]).kron(new Tensor([[0, 1], [1, 0]])), [[0, 1, 0, 0], [1, 0, 0, 0], [
    0,
    0,
    0,
    2,
  ], [0, 0, 2, 0]]);
  await is("cg", () => {
    const A = new Tensor([[4, 1, 0], [1, 3, 1], [0, 1, 2]], f64), b = new Tensor([1, 2, 3], f64);
    let y: Tensor = b.zerosLike(), rr: Tensor = b, p: Tensor = b;
    for (let k = 0; k < 3; k++) {
      const Ap = A.matmul(p), al = rr.dot(rr).div(p.dot(Ap));
      y = y.add(al.mul(p));
      const n = rr.sub(al.mul(Ap));
      p = n.add(n.dot(n).div(rr.dot(rr)).mul(p));
      rr = n;
    }
    return y;
  }, [0.222222222, 0.111111111, 1.44444444]);
});

Deno.test("areas: hashes, codes and integers of bits", async () => {
  const text = new Tensor(new TextEncoder().encode("hello world")),
    u = (x: number[]) => new Tensor(x, { dtype: "uint32" });
  await is("fnv", () => {
    const [h] = scan(
      (h: Tensor, b: Tensor): [Tensor, Tensor] => {
        const n = h.bitwiseXor(b.cast("uint32")).mul(16777619);
        return [n, n];
      },
      u([2166136261]).at(0),
      text,
    ) as [Tensor, Tensor];
    return h;
  }, 3582672807);
  await is("xorshift", () => {
    let x: Tensor = u([123456789, 1]);
    for (let k = 0; k < 3; k++) {
      x = x.bitwiseXor(x.lshift(13));
      x = x.bitwiseXor(x.rshift(17));
      x = x.bitwiseXor(x.lshift(5));
    }
    return x;
  }, [1250077441, 2647435461]);
  await is("popcount", () => {
    let x: Tensor = u([0xffffffff, 0x80000001, 12345]);
    x = x.sub(x.rshift(1).bitwiseAnd(0x55555555));
    x = x.bitwiseAnd(0x33333333).add(x.rshift(2).bitwiseAnd(0x33333333));
    x = x.add(x.rshift(4)).bitwiseAnd(0x0f0f0f0f);
    return x.mul(0x01010101).rshift(24);
  }, [32, 2, 6]);
  await is("murmur", () => {
    let h: Tensor = u([1, 0xdeadbeef]);
    h = h.bitwiseXor(h.rshift(16)).mul(0x85ebca6b);
    h = h.bitwiseXor(h.rshift(13)).mul(0xc2b2ae35);
    return h.bitwiseXor(h.rshift(16));
  }, [1364076727, 233162409]);
  await is("crc", () => {
    let t: Tensor = Tensor.arange(256).cast("uint32");
    for (let k = 0; k < 8; k++) {
      t = t.bitwiseAnd(1).ne(0).where(t.rshift(1).bitwiseXor(0xedb88320), t.rshift(1)) as Tensor;
    }
    t = t.contiguous().realize();
    const [c] = scan(
      (c: Tensor, b: Tensor): [Tensor, Tensor] => {
        const n = t.at(c.bitwiseXor(b.cast("uint32")).bitwiseAnd(255).int()).bitwiseXor(c.rshift(8));
        return [n, n];
      },
      u([0xffffffff]).at(0),
      text,
    ) as [Tensor, Tensor];
    return c.bitwiseNot();
  }, 222957957);
  await is("gray", () => {
    const i = Tensor.arange(8);
    return i.bitwiseXor(i.rshift(1));
  }, [0, 1, 3, 2, 6, 7, 5, 4]);
  await is(
    "reverse",
    () => Tensor.arange(8).unsqueeze(1).rshift(Tensor.arange(3)).bitwiseAnd(1).mul(new Tensor([4, 2, 1])).sum(1),
    [0, 4, 2, 6, 1, 5, 3, 7],
  );
  await is("pack", () => new Tensor([1, 0, 1, 1, 0, 0, 0, 1]).lshift(Tensor.arange(7, -1, -1)).sum(), 177);
  await is("unpack", () => new Tensor([177]).unsqueeze(1).rshift(Tensor.arange(7, -1, -1)).bitwiseAnd(1).flatten(), [
    1,
    0,
    1,
    1,
    0,
    0,
    0,
    1,
  ]);
  await is("bitlen", () => new Tensor([1, 2, 255, 256]).log2().floor().int().add(1), [1, 2, 8, 9]);
  await is("poly", () => {
    const w = new Tensor(Array.from({ length: 11 }, (_, i) => 31n ** BigInt(10 - i) % 1000000007n));
    return text.long().mul(w).sum().mod(1000000007);
  }, 204910434);
  await is("lcg", () => {
    let x: Tensor = new Tensor([42n], { dtype: "uint64" });
    for (let k = 0; k < 4; k++) x = x.mul(6364136223846793005n).add(1442695040888963407n);
    return x.rshift(33);
  }, [1353769503]);
  await is("rotl", () => {
    const x = u([0x80000001, 0x12345678]);
    return x.lshift(7).bitwiseOr(x.rshift(25));
  }, [192, 439041033]);
  await is(
    "float",
    () => new Tensor([1.5, -0.1], { dtype: "float32" }).bitcast("int32").rshift(23).bitwiseAnd(255).sub(127),
    [0, -4],
  );
  await is("fastinv", () => {
    const x = new Tensor([4, 0.25], { dtype: "float32" }),
      i = x.bitcast("int32").rshift(1).neg().add(0x5f3759df),
      y = i.bitcast("float32");
    return y.mul(x.mul(y).mul(y).mul(-0.5).add(1.5));
  }, [0.499153584, 1.99661434]);
  await is("bloom", () => {
    const h = text.int().mul(131).add(7).mod(32),
      f = Tensor.zeros([32], { dtype: "bool" }).scatter(0, h, true);
    return f.int().sum();
  }, 8);
  await is("endian", () => new Tensor(new Uint8Array([1, 2, 3, 4, 255, 0, 0, 0])).bitcast("uint32"), [67305985, 255]);
  await is("bswap", () => new Tensor([0x01020304], { dtype: "uint32" }).bitcast("uint8").flip(0).bitcast("uint32"), [
    67305985,
  ]);
  await is("hamming", () => {
    const a = text.at([0, 5]), b = text.at([6, 11]);
    const x = a.bitwiseXor(b).int();
    return x.unsqueeze(1).rshift(Tensor.arange(8)).bitwiseAnd(1).sum();
  }, 14);
  await is("caesar", async () => {
    const isL = text.ge(97).logicalAnd(text.le(122));
    const s = isL.where(text.int().sub(97).add(13).mod(26).add(97), text.int()).cast("uint8");
    return new TextDecoder().decode(await s.data() as Uint8Array);
  }, "uryyb jbeyq");
  await is("histogram", async () => (await text.int().sub(97).clamp(0).bincount({ size: 26 }).argmax().item()), 11);
  await is("sar", () => new Tensor([-8, -1]).rshift(1), [-4, -1]);
  await is("int8wrap", () => new Tensor([127, -128], { dtype: "int8" }).add(new Tensor([1, -1], { dtype: "int8" })), [
    -128,
    127,
  ]);
  await is("edit", () => {
    const a = text.at([0, 5]).int(), b = new Tensor([...new TextEncoder().encode("yellow")]);
    const j = Tensor.arange(7);
    let row: Tensor = j;
    for (let i = 0; i < 5; i++) {
      const sub = row.at([0, -1]).add(b.ne(a.at(i)).int()),
        del = row.at([1, null]).add(1),
        m = Tensor.cat([new Tensor([i + 1]), sub.minimum(del)]);
      row = m.sub(j).cummin(0)[0].add(j);
    }
    return row.at(-1);
  }, 2);
  await is("morton", () => {
    const sp = (v: Tensor) => {
      let x: Tensor = v;
      x = x.bitwiseOr(x.lshift(8)).bitwiseAnd(0x00ff00ff);
      x = x.bitwiseOr(x.lshift(4)).bitwiseAnd(0x0f0f0f0f);
      x = x.bitwiseOr(x.lshift(2)).bitwiseAnd(0x33333333);
      return x.bitwiseOr(x.lshift(1)).bitwiseAnd(0x55555555);
    };
    return sp(u([5, 65535])).bitwiseOr(sp(u([9, 65535])).lshift(1));
  }, [147, 4294967295]);
  await is("modpow", () => {
    let r: Tensor = new Tensor([1n]), b: Tensor = new Tensor([7n]), e = 560;
    while (e > 0) {
      if (e & 1) r = r.mul(b).mod(561n);
      b = b.mul(b).mod(561n);
      e >>= 1;
    }
    return r;
  }, [1]);
  await is("sieve", () => {
    const n = Tensor.arange(2, 30);
    return n.maskedSelect(n.unsqueeze(1).mod(n).eq(0).sum(1).eq(1));
  }, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
  await is("gcd", () => new Tensor([12, 35]).gcd(new Tensor([18, 14])), [6, 7]);
});
