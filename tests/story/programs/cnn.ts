import { nn, state, Tensor } from "../../../mod.ts";
class Cnn {
  readonly c1 = new nn.Conv2d(1, 4, 3);
  readonly c2 = new nn.Conv2d(4, 8, 3);
  readonly head = new nn.Linear(8 * 2 * 2, 3);
  call(x: Tensor): Tensor {
    const a = this.c1.call(x).relu().maxPool2d([2, 2]);
    const b = this.c2.call(a).relu();
    return this.head.call(b.flatten(1));
  }
}
Tensor.manualSeed(1);
const net = new Cnn(), opt = new nn.optim.Adam(state.getParameters(net), { lr: 0.01 });
const x = Tensor.randn([6, 1, 10, 10]), y = new Tensor([0, 1, 2, 0, 1, 2]);
await Tensor.train(async () => {
  for (let i = 0; i < 3; i++) {
    opt.zeroGrad();
    const loss = net.call(x).sparseCategoricalCrossentropy(y);
    loss.backward();
    opt.step();
    console.log(i, (await loss.item()).toFixed(4));
  }
});
