/**
 * A network learns the sine. Needs no permission: `deno run --no-prompt examples/quickstart.ts`
 *
 * @module
 */
import { jit, nn, state, Tensor } from "../mod.ts";

class Net {
  l1: nn.Linear = new nn.Linear(1, 32);
  l2: nn.Linear = new nn.Linear(32, 32);
  l3: nn.Linear = new nn.Linear(32, 1);
  call(x: Tensor): Tensor {
    return this.l3.call(this.l2.call(this.l1.call(x).tanh()).tanh());
  }
}

Tensor.manualSeed(0);
const net = new Net();
const optimizer = new nn.optim.Adam(state.getParameters(net), { lr: 0.01 });
const x = Tensor.linspace(-3, 3, 64).reshape([64, 1]);
const y = x.sin();

// The first call runs, the second is captured, later ones replay what was captured.
const step = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = net.call(x).sub(y).square().mean().backward();
    optimizer.step();
    return loss;
  })
);

console.log(`training on ${x.device}`);
for (let i = 0; i <= 500; i++) {
  const loss = step(x, y);
  if (i % 100 === 0) console.log(`step ${i}  loss ${(await loss.item()).toFixed(5)}`);
}
const guess = await net.call(new Tensor([[0.5], [1.5]])).tolist();
console.log("sin(0.5), sin(1.5) =", guess, "should be", [[Math.sin(0.5)], [Math.sin(1.5)]]);
