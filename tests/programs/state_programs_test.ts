/**
 * Programs that train and carry state from step to step, as people write them who come from PyTorch: averages of weights and
 * swapping, accumulation, recurrent state, two optimizers, targets, sharpness, a spectral norm. What they end with is what
 * PyTorch computes.
 */
import { nn, Tensor } from "../../mod.ts";
import { data, leaf, numbersOf, testPrograms } from "./inplace_programs.ts";

const inputs = (): [Tensor, Tensor] => [data([8, 3], 1), data([8, 2], 2)];

/** A line through points, and what fits it. */
function line() {
  const [x, y] = inputs(), w = leaf([3, 2], 3), b = leaf([2], 4), weights = [w, b];
  const opt = new nn.optim.SGD(weights, { lr: 0.1, momentum: 0.9 });
  return { w, b, weights, opt, loss: (): Tensor => x.matmul(w).add(b).sub(y).square().mean() };
}

testPrograms({
  /** A moving average takes the place of the weights to be looked at, and gives it back. */
  async ema(under) {
    const [X, Y] = inputs(), w = leaf([3, 2], 5), b = leaf([2], 6), weights = [w, b], log: number[] = [];
    const averages = weights.map((p) => p.detach().clone());
    const opt = new nn.optim.SGD(weights, { lr: 0.1, momentum: 0.9, nesterov: true });
    const loss = (x: Tensor, y: Tensor): Tensor => x.matmul(w).add(b).sub(y).square().mean();
    const step = under((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        opt.zeroGrad();
        const l = loss(x, y).backward();
        opt.step();
        averages.forEach((e, i) => e.mulInPlace(0.8).addInPlace(weights[i].detach().mul(0.2)));
        return l;
      })
    );
    const evaluate = under((x: Tensor, y: Tensor) =>
      Tensor.noGrad(() => {
        const saved = weights.map((p) => p.clone());
        weights.forEach((p, i) => p.assign(averages[i]));
        const l = loss(x, y);
        Tensor.realize([l, ...weights]);
        weights.forEach((p, i) => p.assign(saved[i]));
        Tensor.realize(weights);
        return l;
      })
    );
    for (let i = 0; i < 5; i++) {
      const l = step(X, Y);
      log.push(await evaluate(X, Y).item(), await l.item());
    }
    return numbersOf(log, w, b, averages);
  },

  /** Gradients of parts of a batch are added up, and made smaller where they are. */
  async accumulate(under) {
    const [X, Y] = inputs(), w = leaf([3, 2], 7), opt = new nn.optim.Adam([w], { lr: 0.05 }), norms: number[] = [];
    const add = under((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        x.matmul(w).sub(y).square().mean().div(4).backward();
        return w.grad!;
      })
    );
    const finish = under(() =>
      Tensor.train(() => {
        const norm = w.grad!.square().sum().sqrt();
        w.grad!.mulInPlace(norm.add(1e-6).reciprocal().mul(0.5).minimum(1));
        opt.step({ also: [norm] });
        return norm;
      })
    );
    for (let i = 0; i < 4; i++) {
      opt.zeroGrad();
      for (let k = 0; k < 8; k += 2) add(X.at([k, k + 2]), Y.at([k, k + 2]));
      norms.push(await finish().item());
    }
    return numbersOf(norms, w);
  },

  async rnn(under) {
    const wx = leaf([3, 4], 30), wh = data([4, 4], 31).mul(0.5), h = Tensor.zeros([2, 4]), log: number[] = [];
    wh.requiresGrad = true;
    const opt = new nn.optim.SGD([wx, wh], { lr: 0.1 });
    const step = under((xs: Tensor) =>
      Tensor.train(() => {
        opt.zeroGrad();
        let state: Tensor = h, loss = Tensor.zeros([]);
        for (const x of xs.unbind(0)) {
          state = x.matmul(wx).add(state.matmul(wh)).tanh();
          loss = loss.add(state.square().mean());
        }
        loss.backward();
        opt.step({ also: [state] });
        h.assign(state.detach());
        return loss;
      })
    );
    for (let i = 0; i < 6; i++) log.push(await step(data([2, 2, 3], 40 + i)).item());
    return numbersOf(log, h, wx, wh);
  },

  /** State that is given and returned, and, below, state in variables that the function sets itself. */
  async rebind(under) {
    const wx = data([3, 4], 23), wh = data([4, 4], 24), sums: number[] = [];
    let state = { h: Tensor.zeros([2, 4]), c: Tensor.zeros([2, 4]) };
    const cell = under((x: Tensor, { h, c }: typeof state) => {
      const f = x.matmul(wx).add(h.matmul(wh)).sigmoid(), next = c.mul(f).add(x.matmul(wx).tanh().mul(f.neg().add(1)));
      return { h: f.mul(next.tanh()), c: next };
    });
    for (let i = 0; i < 5; i++) {
      state = cell(data([2, 3], 500 + i), state);
      sums.push(await state.h.sum().item());
    }
    return numbersOf(sums, state.h, state.c);
  },
  async "rebind, in the function"(under) {
    const wx = data([3, 4], 23), wh = data([4, 4], 24), sums: number[] = [], { error } = console;
    let h = Tensor.zeros([2, 4]), c = Tensor.zeros([2, 4]);
    const cell = under((x: Tensor) => {
      const f = x.matmul(wx).add(h.matmul(wh)).sigmoid();
      c = c.mul(f).add(x.matmul(wx).tanh().mul(f.neg().add(1)));
      h = f.mul(c.tanh());
      return h;
    });
    console.error = () => {}; // jit says that it captures no such function
    try {
      for (let i = 0; i < 5; i++) {
        cell(data([2, 3], 500 + i));
        sums.push(await h.sum().item());
      }
    } finally {
      console.error = error;
    }
    return numbersOf(sums, h, c);
  },

  /** Uphill, the gradient there, and back. */
  async sam(under) {
    const { w, b, weights, opt, loss } = line(), log: number[] = [];
    const step = under(() =>
      Tensor.train(() => {
        opt.zeroGrad();
        const l = loss().backward(), norm = Tensor.stack(weights.map((p) => p.grad!.norm())).norm();
        const up = weights.map((p) => p.grad!.mul(norm.add(1e-12).reciprocal().mul(0.05)));
        Tensor.noGrad(() => weights.forEach((p, i) => p.addInPlace(up[i])));
        Tensor.realize([l, ...up, ...weights]);
        opt.zeroGrad();
        loss().backward();
        Tensor.realize(weights.map((p) => p.grad!));
        Tensor.noGrad(() => weights.forEach((p, i) => p.subInPlace(up[i])));
        opt.step();
        return l;
      })
    );
    for (let i = 0; i < 4; i++) log.push(await step().item());
    return numbersOf(log, w, b);
  },
  /** The same by copies of the weights, and nothing realized on the way. */
  async "sam, by copies"(under) {
    const { w, b, weights, opt, loss } = line(), log: number[] = [];
    const step = under(() =>
      Tensor.train(() => {
        opt.zeroGrad();
        const l = loss().backward(), norm = Tensor.stack(weights.map((p) => p.grad!.norm())).norm();
        const old = weights.map((p) => p.clone());
        for (const p of weights) p.assign(p.detach().add(p.grad!.mul(norm.add(1e-12).reciprocal().mul(0.05))));
        opt.zeroGrad();
        loss().backward();
        weights.forEach((p, i) => p.assign(old[i].detach()));
        opt.step({ also: [l] });
        return l;
      })
    );
    for (let i = 0; i < 4; i++) log.push(await step().item());
    return numbersOf(log, w, b);
  },

  async gan(under) {
    const g = leaf([2, 3], 5), d = leaf([3, 1], 6), log: number[] = [];
    const [ofG, ofD] = [g, d].map((w) => new nn.optim.Adam([w], { lr: 0.05 }));
    const step = under((z: Tensor, real: Tensor) =>
      Tensor.train(() => {
        const fake = z.matmul(g).tanh();
        ofD.zeroGrad();
        const right = real.matmul(d).neg().softplus().mean();
        const first = right.add(fake.detach().matmul(d).softplus().mean()).backward();
        ofD.step();
        ofG.zeroGrad();
        const second = fake.matmul(d).neg().softplus().mean().backward();
        ofG.step();
        return [first, second];
      })
    );
    for (let i = 0; i < 4; i++) {
      for (const l of step(data([4, 2], 90 + i), data([4, 3], 190 + i))) log.push(await l.item());
    }
    return numbersOf(log, g, d);
  },

  async spectral(under) {
    const w = leaf([4, 3], 7), u = data([4], 8).normalize({ dim: 0 }), opt = new nn.optim.SGD([w], { lr: 0.1 });
    const log: number[] = [];
    const step = under((x: Tensor) =>
      Tensor.train(() => {
        const v = Tensor.noGrad(() => {
          const made = w.T.matmul(u).normalize({ dim: 0 });
          u.assign(w.matmul(made).normalize({ dim: 0 }));
          return made;
        });
        const loss = x.matmul(w.div(u.dot(w.matmul(v))).T).square().mean();
        opt.zeroGrad();
        loss.backward();
        opt.step();
        return loss;
      })
    );
    for (let i = 0; i < 4; i++) log.push(await step(data([8, 3], 1)).item());
    return numbersOf(log, u, w);
  },

  /** One target follows slowly, another one is set now and then. */
  async dqn(under) {
    const q = leaf([3, 2], 9), slow = q.detach().clone(), late = q.detach().clone(), log: number[] = [];
    const squares = Tensor.zeros([3, 2]), chosen = new Tensor([[0], [1], [1], [0]]);
    const learn = under((s: Tensor, next: Tensor, reward: Tensor) => {
      const want = reward.add(next.matmul(slow).minimum(next.matmul(late)).max(1).mul(0.9));
      const loss = s.matmul(q).gather(1, chosen).squeeze(1).smoothL1Loss(want);
      q.grad = undefined;
      loss.backward();
      const g = q.grad!;
      Tensor.noGrad(() => {
        squares.mulInPlace(0.9).addInPlace(g.square().mul(0.1));
        q.subInPlace(g.div(squares.sqrt().add(1e-8)).mul(0.01));
        slow.assign(slow.lerp(q, 0.1));
      });
      return loss;
    });
    for (let i = 0; i < 5; i++) {
      log.push(await learn(data([4, 3], 100 + i), data([4, 3], 200 + i), data([4], 300 + i)).item());
      if (i % 2 === 1) late.assign(q.detach());
    }
    return numbersOf(log, q, slow, late);
  },

  /** One weight read twice, and brought back to length one after each step. */
  async tied(under) {
    const e = leaf([5, 3], 11), opt = new nn.optim.SGD([e], { lr: 0.5 }), log: number[] = [];
    const step = under((ids: Tensor, y: Tensor) =>
      Tensor.train(() => {
        const loss = e.at(ids).tanh().matmul(e.T).crossEntropy(y);
        opt.zeroGrad();
        loss.backward();
        opt.step();
        Tensor.noGrad(() => e.divInPlace(e.norm({ dim: 1, keepdim: true })));
        return loss;
      })
    );
    for (let i = 0; i < 4; i++) log.push(await step(new Tensor([0, 2, 4, 1]), new Tensor([1, 3, 0, 2])).item());
    return numbersOf(log, e);
  },

  /** Weights saved and brought back, one of them frozen for a step, a rate that falls. */
  async resume(under) {
    const [x, y] = inputs(), w = leaf([3, 2], 12), b = leaf([2], 13), log: number[] = [];
    const ofW = new nn.optim.AdamW([w], { lr: 0.05, weightDecay: 0.1 });
    const ofB = new nn.optim.AdamW([b], { lr: 0.01, weightDecay: 0.1 });
    let saved: Tensor[] = [];
    const loss = (): Tensor => {
      ofW.zeroGrad();
      ofB.zeroGrad();
      return x.matmul(w).add(b).sub(y).square().mean().backward();
    };
    const both = under(() =>
      Tensor.train(() => {
        const l = loss();
        Tensor.realize([l, ...ofW.scheduleStep(), ...ofB.scheduleStep()]);
        return l;
      })
    );
    const first = under(() =>
      Tensor.train(() => {
        const l = loss();
        ofW.step();
        return l;
      })
    );
    for (let i = 0; i < 6; i++) {
      if (i === 2) saved = [w, b].map((p) => p.detach().clone());
      if (i === 4) [w, b].forEach((p, k) => p.assign(saved[k]));
      const l = i === 3 ? first() : both();
      ofW.lr.assign(ofW.lr.mul(0.9));
      log.push(await l.item());
    }
    return numbersOf(log, w, b);
  },

  async bn(under) {
    const w = leaf([2, 1, 3, 3], 21), gain = leaf([2], 22), mean = Tensor.zeros([2]), variance = Tensor.ones([2]);
    const opt = new nn.optim.SGD([w, gain], { lr: 0.1, momentum: 0.5 }), log: number[] = [];
    const step = under((x: Tensor) =>
      Tensor.train(() => {
        const h = x.conv2d(w), mu = h.mean([0, 2, 3]), va = h.var([0, 2, 3], { correction: 0 });
        Tensor.noGrad(() => {
          mean.mulInPlace(0.9).addInPlace(mu.mul(0.1));
          variance.mulInPlace(0.9).addInPlace(va.mul(0.1));
        });
        const [m, v, g] = [mu, va, gain].map((t) => t.reshape([1, 2, 1, 1]));
        const y = h.sub(m).div(v.add(1e-5).sqrt()).mul(g).relu(), loss = y.square().mean().sub(y.mean());
        opt.zeroGrad();
        loss.backward();
        opt.step();
        return loss;
      })
    );
    for (let i = 0; i < 4; i++) log.push(await step(data([2, 1, 5, 5], 400 + i)).item());
    return numbersOf(log, w, gain, mean, variance);
  },
});
