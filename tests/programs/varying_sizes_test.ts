/**
 * Sizes that change from call to call, in whole programs: one capture serves them all, nothing is compiled for another
 * size, and each value is that of a plain loop over numbers.
 */
import { deepStrictEqual as assertEquals, ok, strictEqual } from "node:assert/strict";
import { jit, nn, scope, state, Tensor, Variable } from "../../mod.ts";
import { compileStats } from "../../src/engine/compile_cache.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";

const noise = (i: number): number => Math.sin(i * 12.9898 + 1) * 0.5;
const series = (n: number, from = 0): number[] => Array.from({ length: n }, (_, i) => noise(from + i));
const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);

function flat(x: unknown): number[] {
  return Array.isArray(x) ? x.flatMap(flat) : [Number(x)];
}

async function near(name: string, got: Tensor, want: unknown, by = 1e-4): Promise<void> {
  const a = flat(await got.tolist()), b = flat(want);
  strictEqual(a.length, b.length, name);
  a.forEach((x, i) => ok(Math.abs(x - b[i]) <= by * (1 + Math.abs(b[i])), `${name}: ${i} is ${x}, not ${b[i]}`));
}

/** Lengths one after the other; from the third on nothing may be lowered. */
async function each<T>(cases: readonly T[], run: (x: T, i: number) => Promise<void>): Promise<void> {
  for (const [i, x] of cases.entries()) {
    const before = compileStats.lowered;
    await run(x, i);
    if (i > 1) strictEqual(compileStats.lowered, before, `case ${i} compiled`);
  }
}

const programs: Record<string, () => Promise<void>> = {
  async "a decoder with a cache: prompts of any length, then token by token"() {
    const MAX = 12,
      D = 4,
      w = series(D * D * 3),
      [wq, wk, wv] = [0, 1, 2].map((i) => w.slice(i * D * D, (i + 1) * D * D));
    const [q, k, v] = [wq, wk, wv].map((m) => new Tensor(m).reshape([D, D]).realize());
    const cache = Tensor.zeros([2, MAX + 4, D]).contiguous().realize();
    const start = new Variable("start", 0, MAX - 1), len = new Variable("len", 1, 5);
    const step = jit((x: Tensor, s: Tensor, n: Tensor) => {
      const rows = x.shrink([[0, n], null]), stop = s.add(n);
      cache.shrink([null, [s, stop], null]).assign(Tensor.stack([rows.matmul(k), rows.matmul(v)])).realize();
      const keys = cache.at(0, [0, stop]), values = cache.at(1, [0, stop]);
      const scores = rows.matmul(q).matmul(keys.T), at = Tensor.arange(n).add(s).unsqueeze(1);
      return at.ge(Tensor.arange(stop)).where(scores, -Infinity).softmax(-1).matmul(values).narrow(
        0,
        -1,
        1,
      );
    });
    const product = (x: number[], m: number[]): number[] =>
      series(D).map((_, j) => sum(x.map((a, i) => a * m[i * D + j])));
    const tokens: number[][] = [];
    await each([[3, 0], [1, 3], [1, 4], [5, 0], [1, 5], [1, 6], [2, 0], [4, 2], [1, 6]], async ([n, s], round) => {
      tokens.splice(s);
      for (let i = 0; i < n; i++) tokens.push(series(D, 100 * round + 10 * i));
      const x = new Tensor([...tokens.slice(s), ...Array.from({ length: 5 - n }, () => [9, 9, 9, 9])]).realize();
      const query = product(tokens[s + n - 1], wq);
      const e = tokens.map((t) => Math.exp(sum(product(t, wk).map((a, i) => a * query[i]))));
      const want = query.map((_, j) => sum(tokens.map((t, i) => e[i] * product(t, wv)[j])) / sum(e));
      await near(`${n} from ${s}`, step(x, start.bind(s), len.bind(n)), want);
    });
    strictEqual(step.stats.captures, 1);
  },

  async "requests beside each other, with batches of any size"() {
    const B = new Variable("B", 1, 8), w = series(12), weight = new Tensor(w).reshape([4, 3]).realize();
    const classify = jit((x: Tensor) => x.matmul(weight).softmax(-1));
    const rows = (n: number): number[][] => Array.from({ length: n }, (_, i) => series(4, 7 * n + i));
    const answer = (x: number[][]): Promise<unknown> =>
      scope(async () => {
        await Promise.resolve();
        const all = new Float32Array(32);
        all.set(x.flat());
        return await classify(new Tensor(all).reshape([8, 4]).shrink([[0, B.bind(x.length)], null])).tolist();
      });
    const want = (x: number[][]): number[][] =>
      x.map((row) => {
        const e = [0, 1, 2].map((j) => Math.exp(sum(row.map((a, i) => a * w[i * 3 + j]))));
        return e.map((a) => a / sum(e));
      });
    await each([[2], [5], [1, 8, 3, 3, 7, 2]], async (sizes) => {
      const given = sizes.map(rows), got = await Promise.all(given.map(answer));
      for (const [i, x] of given.entries()) {
        flat(got[i]).forEach((p, j) => ok(Math.abs(p - want(x).flat()[j]) < 1e-5, `a batch of ${x.length}`));
        strictEqual(flat(got[i]).length, 3 * x.length);
      }
    });
    strictEqual(classify.stats.captures, 1);
  },

  async "training whose last batch is smaller"() {
    const N = 19,
      B = 8,
      X = Array.from({ length: N }, (_, i) => series(2, 3 * i)),
      Y = X.map(([a, b]) => a - 2 * b + 0.5);
    const model = new nn.Linear(2, 1), start = new Variable("start", 0, N - 1), n = new Variable("n", 1, B);
    model.weight.assign(new Tensor([[0.1, -0.2]]));
    model.bias!.assign(Tensor.zeros([1]));
    const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 });
    const xs = new Tensor(X).realize(), ys = new Tensor(Y).realize();
    const step = jit((s: Tensor, n: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const x = xs.at([s, s.add(n)]), y = ys.at([s, s.add(n)]);
        const loss = model.call(x).squeeze(1).mseLoss(y).backward();
        optimizer.step();
        return loss;
      })
    );
    let w = [0.1, -0.2, 0];
    await each([0, 8, 16, 0, 8, 16], async (from) => {
      const ids = Array.from({ length: Math.min(B, N - from) }, (_, i) => from + i);
      const away = ids.map((i) => w[0] * X[i][0] + w[1] * X[i][1] + w[2] - Y[i]);
      const loss = step(start.bind(from), n.bind(ids.length));
      await near(`loss from ${from}`, loss, sum(away.map((a) => a * a)) / ids.length);
      w = w.map((v, j) => v - 0.2 * sum(away.map((a, i) => a * (j < 2 ? X[ids[i]][j] : 1))) / ids.length);
    });
    await near("weights", model.weight, w.slice(0, 2));
    strictEqual(step.stats.captures, 1);
  },

  async "statistics that go on over chunks of any length"() {
    const MAX = 16, n = new Variable("n", 1, MAX), all: number[] = [];
    const [count, mean, m2] = [0, 1, 2].map(() => Tensor.zeros([]).contiguous().realize());
    const update = jit((chunk: Tensor, n: Tensor) => {
      const x = chunk.at([0, n]), total = count.add(n), away = x.mean().sub(mean);
      m2.assign(m2.add(x.sub(x.mean()).square().sum()).add(away.square().mul(count).mul(n).div(total)));
      mean.assign(mean.add(away.mul(n).div(total)));
      count.assign(total);
      return Tensor.stack([x.cov({ correction: 0 }), x.quantile(new Tensor(0.5)), x.trapezoid(), x.diff().sum()]);
    });
    await each([3, 16, 1, 9, 2, 15], async (m, round) => {
      const x = series(m, 50 * round), sorted = x.toSorted((a, b) => a - b), middle = sum(x) / m;
      all.push(...x);
      const half = (sorted[(m - 1) >> 1] + sorted[m >> 1]) / 2, area = sum(x.slice(1).map((v, i) => (v + x[i]) / 2));
      const want = [sum(x.map((v) => (v - middle) ** 2)) / m, half, area, x[m - 1] - x[0]];
      const memory = new Tensor([...x, ...new Array(MAX - m).fill(99)]).float().realize();
      await near(`chunk of ${m}`, update(memory, n.bind(m)), want);
      const whole = sum(all) / all.length;
      await near("mean", mean, whole);
      await near("m2", m2, sum(all.map((v) => (v - whole) ** 2)), 1e-3);
    });
    strictEqual(update.stats.captures, 1);
  },

  async "ragged rows: sums by segment, softmax by segment, a padded form"() {
    const E = 20, e = new Variable("e", 1, E), g = new Variable("g", 1, 6), x = series(E), X = new Tensor(x).realize();
    const owner = x.map((_, i) => Math.floor(i * 6 / E)), ids = new Tensor(owner).realize();
    const f = jit((e: Tensor, g: Tensor) => {
      const v = X.at([0, e]), id = ids.at([0, e]), sums = Tensor.zeros([g]).scatterAdd(0, id, v);
      const most = Tensor.full([g], -Infinity).scatterReduce(0, id, v, "amax"), ex = v.sub(most.at(id)).exp();
      const start = Tensor.arange(g).unsqueeze(1).gt(id).sum(1), size = Tensor.arange(g).unsqueeze(1).eq(id).sum(1);
      const at = start.unsqueeze(1).add(Tensor.arange(4)), isIn = Tensor.arange(4).lt(size.unsqueeze(1));
      const padded = isIn.where(v.at(isIn.where(at, 0)), -1);
      return [sums, ex.div(Tensor.zeros([g]).scatterAdd(0, id, ex).at(id)), padded];
    });
    await each([[5, 2], [20, 6], [1, 1], [13, 4], [8, 6]], async ([m, k]) => {
      const rows = Array.from({ length: k }, (_, r) => x.slice(0, m).filter((_, i) => owner[i] === r));
      const [sums, soft, padded] = f(e.bind(m), g.bind(k));
      await near("sums", sums, rows.map(sum));
      await near("softmax", soft, rows.map((row) => row.map((v) => Math.exp(v) / sum(row.map(Math.exp)))));
      await near("padded", padded, rows.map((row) => [0, 1, 2, 3].map((i) => row[i] ?? -1)));
    });
    strictEqual(f.stats.captures, 1);
  },

  async "the last samples of a stream, and a signal at another rate"() {
    const S = 24, x = series(S), X = new Tensor(x).realize(), pos = new Variable("pos", 0, S - 5);
    const n = new Variable("n", 2, S), m = new Variable("m", 2, 48);
    const f = jit((p: Tensor, n: Tensor, m: Tensor) => {
      const at = Tensor.arange(m).float().mul(n.sub(1)).div(m.sub(1));
      return [X.narrow(0, p, 5).mean(), X.select(0, p), at.interp(Tensor.arange(n).float(), X.narrow(0, 0, n))];
    });
    await each([[0, 10, 5], [19, 24, 48], [7, 7, 13], [3, 2, 2], [11, 15, 29]], async ([p, l, k]) => {
      const line = Array.from({ length: k }, (_, i) => {
        const at = i * (l - 1) / (k - 1), a = Math.min(Math.floor(at), l - 2);
        return x[a] + (at - a) * (x[a + 1] - x[a]);
      });
      const [mean, one, other] = f(pos.bind(p), n.bind(l), m.bind(k));
      await near("window", mean, sum(x.slice(p, p + 5)) / 5);
      await near("one", one, x[p]);
      await near("line", other, line, 1e-3);
    });
    assertEquals([f.stats.captures, f.stats.retraces], [1, 0]);
  },
};

for (const device of (await devicesHere()).filter((d) => d !== "WEBGPU" && d !== "CUDA")) {
  for (const [name, run] of Object.entries(programs)) {
    Deno.test(`varying sizes ${device}: ${name}`, () => onDevice(device, run));
  }
}
