import { jit, nn, state, Tensor } from "../../../mod.ts";
class Mlp {
  #scale = 0.5;
  readonly up = new nn.Linear(4, 8);
  readonly down = new nn.Linear(8, 1);
  call(x: Tensor): Tensor {
    return this.down.call(this.up.call(x).gelu()).mul(this.#scale);
  }
}
Tensor.manualSeed(8);
const mlp = new Mlp(), sgd = new nn.optim.SGD(state.getParameters(mlp), { lr: 0.1, momentum: 0.9 });
const xs = Tensor.rand([16, 4]).realize(), ys = xs.sum(1, { keepdim: true }).realize();
const fit = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    sgd.zeroGrad();
    const loss = mlp.call(x.half().float()).sub(y).square().mean().backward();
    sgd.step();
    return loss;
  })
);
for (let epoch = 0; epoch < 6; epoch++) console.log((await fit(xs, ys).item() as number).toFixed(4));
