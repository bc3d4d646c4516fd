/**
 * Programs that write in place, as people write them who come from PyTorch: memory that is filled, shifted, swapped and
 * written through views, without an optimizer of ours. What they end with is what PyTorch computes.
 */
import { Tensor, Variable } from "../../mod.ts";
import { data, leaf, numbersOf, testPrograms } from "./inplace_programs.ts";

const inputs = (): [Tensor, Tensor] => [data([8, 3], 1), data([8, 2], 2)];

testPrograms({
  async momentum(under) {
    const [X, Y] = inputs(), w = leaf([3, 2], 3), v = Tensor.zeros([3, 2]), losses: number[] = [];
    const step = under((x: Tensor, y: Tensor) => {
      const loss = x.matmul(w).sub(y).square().mean();
      w.grad = undefined;
      loss.backward();
      v.mulInPlace(0.9).addInPlace(w.grad!);
      w.detach().subInPlace(v.mul(0.1));
      return loss.realize([v, w]);
    });
    for (let i = 0; i < 6; i++) losses.push(await step(X, Y).item());
    return numbersOf(losses, w, v);
  },

  async adam(under) {
    const [X, Y] = inputs(), w = leaf([3, 2], 3), losses: number[] = [];
    const m = Tensor.zeros([3, 2]), u = Tensor.zeros([3, 2]), t = Tensor.zeros([1]);
    const step = under((x: Tensor, y: Tensor) => {
      const loss = x.matmul(w).sub(y).square().mean();
      w.grad = undefined;
      loss.backward();
      const g = w.grad!;
      Tensor.noGrad(() => {
        t.addInPlace(1);
        m.assign(m.lerp(g, 0.1));
        u.mulInPlace(0.99).addInPlace(g.square().mul(0.01));
        const [first, second] = [0.9, 0.99].map((b) => Tensor.full([1], b).pow(t).neg().add(1));
        w.subInPlace(m.div(first).div(u.div(second).sqrt().add(1e-8)).mul(0.05));
      });
      Tensor.realize([loss, w, m, u, t]);
      return loss;
    });
    for (let i = 0; i < 6; i++) losses.push(await step(X, Y).item());
    return numbersOf(losses, w, m, u, t);
  },

  /** Weights are views of one vector, which is stepped as a whole; pairs of differences are kept in rings. */
  async lbfgs(under) {
    const [X, Y] = inputs(), flat = leaf([8], 4), S = Tensor.zeros([3, 8]), G = Tensor.zeros([3, 8]);
    const losses: number[] = [];
    const closure = under((x: Tensor, y: Tensor) => {
      const A = flat.at([0, 6]).reshape([3, 2]), b = flat.at([6, null]);
      const loss = x.matmul(A).add(b).sub(y).square().mean();
      return [loss, ...loss.gradient([flat])];
    });
    let [, g] = closure(X, Y);
    for (let it = 0; it < 6; it++) {
      const q = g.clone(), alpha: Tensor[] = [], last = (it + 2) % 3;
      const ring = Array.from({ length: Math.min(it, 3) }, (_, k) => (it - 1 - k) % 3);
      const rho = (i: number): Tensor => S.at(i).dot(G.at(i)).reciprocal();
      for (const i of ring) {
        alpha[i] = rho(i).mul(S.at(i).dot(q));
        q.subInPlace(alpha[i].mul(G.at(i)));
      }
      if (it > 0) q.mulInPlace(S.at(last).dot(G.at(last)).div(G.at(last).dot(G.at(last))));
      for (const i of ring.toReversed()) q.addInPlace(S.at(i).mul(alpha[i].sub(rho(i).mul(G.at(i).dot(q)))));
      const step = q.mul(-0.5).realize([g]); // both are read after the weights have moved on
      Tensor.noGrad(() => flat.addInPlace(step));
      const [loss, next] = closure(X, Y);
      losses.push(await loss.item());
      S.setAt([it % 3], step);
      G.setAt([it % 3], next.sub(g));
      g = next;
    }
    return numbersOf(losses, flat, S, G);
  },

  async replay(under) {
    const rows = Tensor.zeros([6, 3]), priority = Tensor.zeros([6]), log: number[] = [];
    const sample = under(() => {
      const [, at] = priority.add(Tensor.arange(6).mul(0.01)).topk(3), some = rows.at(at);
      priority.setAt([at], some.abs().sum(1).mul(0.1));
      return some.sum();
    });
    for (let i = 0, at = 0; i < 5; i++, at = (at + 4) % 6) {
      const fresh = data([4, 3], 10 + i), n = Math.min(4, 6 - at);
      rows.setAt([[at, at + n]], fresh.at([0, n]));
      priority.setAt([[at, at + n]], 1);
      if (n < 4) { // around the end
        rows.setAt([[0, 4 - n]], fresh.at([n, null]));
        priority.at([0, 4 - n]).assign(1);
      }
      log.push(await sample().item());
    }
    return numbersOf(log, rows, priority);
  },

  async kv(under) {
    const [K, V] = [0, 1].map(() => Tensor.zeros([2, 6, 4]).realize()), outs: number[] = [];
    const position = new Variable("position", 0, 5);
    const step = under((x: Tensor, p: Tensor) => {
      K.setAt([":", [p, p.add(1)]], x.mul(0.5));
      V.at(":", [p, p.add(1)]).assign(x.flip(-1));
      const k = K.at(":", [0, p.add(1)]), v = V.at(":", [0, p.add(1)]);
      return x.matmul(k.transpose(1, 2)).div(2).softmax(-1).matmul(v).sum();
    });
    for (let t = 0; t < 6; t++) outs.push(await step(data([2, 1, 4], 20 + t), position.bind(t)).item());
    return numbersOf(outs, K, V);
  },

  /** The same, with numbers, read at the end: each read is of its own version. */
  "kv, by numbers"(under) {
    const K = Tensor.zeros([2, 6, 4]), V = Tensor.zeros([2, 6, 4]);
    const outs = Array.from({ length: 6 }, (_, t) => {
      const x = data([2, 1, 4], 20 + t),
        attend = under((k: Tensor, v: Tensor) => x.matmul(k).div(2).softmax(-1).matmul(v));
      K.setAt([":", [t, t + 1]], x.mul(0.5));
      V.setAt([":", t], x.flip(-1).squeeze(1));
      return attend(K.at(":", [0, t + 1]).transpose(1, 2), V.at(":", [0, t + 1])).sum();
    });
    return numbersOf(outs, K, V);
  },

  /** Two grids that change places by name. */
  async life(under) {
    let now = Tensor.zeros([8, 8]), next = Tensor.zeros([8, 8]);
    const seen: number[] = [], offsets = [-1, 0, 1].flatMap((a) => [-1, 0, 1].map((b) => [a, b]));
    now.setAt([1, 2], 1);
    now.setAt([2, 3], 1);
    now.setAt([3, [1, 4]], 1);
    const step = under((from: Tensor, to: Tensor) => {
      const rolled = offsets.filter(([a, b]) => a !== 0 || b !== 0).map((by) => from.roll(by, [0, 1]));
      const n = rolled.reduce((a, b) => a.add(b));
      return to.assign(n.eq(3).bitwiseOr(n.eq(2).bitwiseAnd(from.eq(1))).float());
    });
    for (let i = 0; i < 9; i++) {
      step(now, next);
      [now, next] = [next, now];
      seen.push(await now.mul(Tensor.arange(64).reshape([8, 8])).sum().item());
    }
    return numbersOf(seen, now, next);
  },

  /** Shortest ways, a factorization, sorting by exchanging neighbors, a sweep over every second cell: all in place. */
  inplace(under) {
    const ways = data([5, 5], 50).add(1.1).mul(3), A = data([4, 4], 51).add(Tensor.eye(4).mul(3)), list = data([7], 52);
    const plate = Tensor.zeros([6, 6]);
    ways.setAt([Tensor.eye(5).bool()], 0);
    under((d: Tensor) => {
      for (let k = 0; k < 5; k++) d.assign(d.minimum(d.at(":", [k, k + 1]).add(d.at([k, k + 1], ":"))));
      return d;
    })(ways);
    under((a: Tensor) => {
      for (let k = 0; k < 3; k++) {
        const below: [number, null] = [k + 1, null];
        a.at(below, k).divInPlace(a.at(k, k));
        a.at(below, below).subInPlace(a.at(below, [k, k + 1]).mul(a.at([k, k + 1], below)));
      }
      return a;
    })(A);
    under((s: Tensor) => {
      for (let round = 0; round < 7; round++) {
        const a = round % 2, end = a + 2 * ((7 - a) >> 1), low = s.at([a, end, 2]);
        const high = s.at([a + 1, Math.min(7, end + 1), 2]), least = low.minimum(high), most = low.maximum(high);
        low.assign(least);
        high.assign(most);
      }
      return s;
    })(list);
    plate.setAt([0], 1);
    const sweep = under((p: Tensor) => {
      for (const color of [0, 1]) {
        for (let row = 1; row < 5; row++) {
          const a = 1 + (row + color) % 2, cells: [number, number, number] = [a, 5, 2];
          const beside = p.at(row, [a - 1, a + 2, 2]).add(p.at(row, [a + 1, Math.min(6, a + 4), 2]));
          p.setAt([row, cells], p.at(row - 1, cells).add(p.at(row + 1, cells)).add(beside).mul(0.25));
        }
      }
      return p;
    });
    for (let i = 0; i < 4; i++) sweep(plate);
    return numbersOf(ways, A, list, plate);
  },

  /** Columns of one tensor under names of their own. */
  particles(under) {
    const all = data([6, 4], 60).realize();
    const move = under((P: Tensor) => {
      const [x, y, vx, vy] = P.unbind(1);
      vy.subInPlace(0.05);
      x.addInPlace(vx.mul(0.3));
      y.addInPlace(vy.mul(0.3));
      vx.setAt([x.lt(-1).bitwiseOr(x.gt(1))], vx.mul(-1));
      vy.assign(y.abs().gt(1).where(vy.mul(-0.9), vy));
      x.assign(x.clamp(-1, 1));
      y.assign(y.clamp(-1, 1));
      return P;
    });
    for (let i = 0; i < 8; i++) move(all);
    return numbersOf(all);
  },

  planes(under) {
    const image = data([3, 4, 4], 70), mean = Tensor.zeros([3]), variance = Tensor.ones([3]);
    under((t: Tensor) => {
      const [r, g, b] = t.unbind(0), even = t.at(":", [null, null, 2]);
      r.mulInPlace(2);
      g.addInPlace(r);
      b.setAt([[1, 3], [1, 3]], g.at([1, 3], [1, 3]).T);
      even.mulInPlace(-1);
      t.transpose(1, 2).setAt([0, 1], 5);
      t.flatten().setAt([[null, null, 7]], 0);
      return t;
    })(image);
    const track = under((z: Tensor) => {
      mean.assign(mean.lerp(z.mean(1), 0.1));
      variance.mulInPlace(0.9).addInPlace(z.var(1).mul(0.1));
      return z.sum();
    });
    for (let i = 0; i < 3; i++) track(data([3, 16], 80 + i));
    return numbersOf(image, mean, variance);
  },

  async classic(under) {
    const A = data([4, 3], 14).clone(), sum = Tensor.zeros([10]), fibonacci: number[] = [], filtered: number[] = [];
    A.at([0, 3]).addInPlace(Tensor.eye(3));
    under((a: Tensor) => { // columns at right angles
      for (let j = 0; j < 3; j++) {
        const own = a.at(":", j);
        for (let k = 0; k < j; k++) own.subInPlace(a.at(":", k).dot(a.at(":", j)).mul(a.at(":", k)));
        own.divInPlace(a.at(":", j).norm());
      }
      return a;
    })(A);
    under((t: Tensor, win: Tensor) => { // windows that overlap
      for (let k = 0; k < 4; k++) t.at([2 * k, 2 * k + 4]).addInPlace(win.mul(k + 1));
      return t;
    })(sum, data([4], 15));
    const a = Tensor.ones([1]), b = Tensor.ones([1]);
    const add = under((x: Tensor, y: Tensor) => {
      x.addInPlace(y);
      y.addInPlace(x);
      return y.clone();
    });
    for (let k = 0; k < 5; k++) fibonacci.push(await add(a, b).item());
    const line = Tensor.zeros([3]);
    const filter = under((s: Tensor) => {
      const y = s.add(line.at(0).mul(0.5)).sub(line.at(2).mul(0.2));
      line.at([1, null]).assign(line.at([null, -1])); // overlaps
      line.setAt([0], y);
      return y;
    });
    for (let k = 0; k < 8; k++) filtered.push(await filter(new Tensor([Math.sin(k * 1.3)]).squeeze()).item());
    const M = data([3, 3], 16).mul(0.7), square = under((m: Tensor) => m.matmulInPlace(m));
    for (let k = 0; k < 3; k++) square(M);
    const likely = Tensor.zeros([5, 3]).sub(1);
    under((t: Tensor, rows: Tensor) => {
      for (let k = 1; k < 5; k++) {
        rows.setAt([k], rows.at(k - 1).unsqueeze(1).add(t).logsumexp(0).add(data([3], 18 + k)));
      }
      return rows;
    })(data([3, 3], 17).logSoftmax(1), likely);
    const D = data([4, 4], 19).clone(), bytes = Tensor.arange(6).clone();
    under((d: Tensor) => {
      d.diagonal().mulInPlace(2);
      d.diagonal({ offset: 1 }).assign(7);
      d.setAt([Tensor.ones([4, 4]).triu(2).bool()], 0);
      d.T.at(0).addInPlace(1);
      return d;
    })(D);
    under((t: Tensor) => {
      t.bitcast("int16").at([null, null, 2]).addInPlace(3);
      t.bitwiseXorInPlace(5);
      t.setAt([t.mod(2).eq(0)], 9);
      return t;
    })(bytes);
    return numbersOf(A, sum, fibonacci, filtered, line, M, likely, D, bytes);
  },
});
