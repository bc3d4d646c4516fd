import { nn, state, Tensor } from "../../../mod.ts";
Tensor.manualSeed(11);
const make = (sizes: number[], last: (x: Tensor) => Tensor) => {
  const layers = sizes.slice(1).map((n, i) => new nn.Linear(sizes[i], n));
  return {
    layers,
    run: (x: Tensor) =>
      last(layers.reduce((h, l, i) => i + 1 < layers.length ? l.call(h).leakyRelu(0.2) : l.call(h), x)),
  };
};
const generator = make([2, 8, 3], (x) => x.tanh()), critic = make([3, 8, 1], (x) => x);
const oG = new nn.optim.RMSprop(state.getParameters(generator), { lr: 0.01 }),
  oC = new nn.optim.SGD(state.getParameters(critic), { lr: 0.05, momentum: 0.9 });
const real = Tensor.rand([6, 3]).realize();
for (let round = 0; round < 3; round++) {
  Tensor.train(() => {
    const fake = generator.run(Tensor.randn([6, 2]));
    oC.zeroGrad();
    critic.run(real).sub(1).square().mean().add(critic.run(fake.detach()).square().mean()).backward();
    oC.step();
    oG.zeroGrad();
    critic.run(fake).sub(1).square().mean().backward();
    oG.step();
  });
}
const sample = generator.run(new Tensor([[0.5, -0.5]]));
console.log((await sample.data()).length === 3, (await sample.abs().max().item()) < 1);
