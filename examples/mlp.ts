/**
 * A multilayer perceptron tells two spirals apart: batches, dropout, a learning rate that falls, and accuracy on points
 * that it has not seen. Needs no permission: `deno run --no-prompt examples/mlp.ts`
 *
 * @module
 */
import { jit, nn, state, Tensor } from "../mod.ts";

const TRAIN = 1024, TEST = 512, BATCH = 128, EPOCHS = 60, TURNS = 1.5, NOISE = 0.02;
const LEARNING_RATE = 0.01;

class Mlp {
  layers: nn.Linear[] = [new nn.Linear(2, 64), new nn.Linear(64, 64), new nn.Linear(64, 2)];
  dropout: nn.Dropout = new nn.Dropout(0.1);

  /** Points `[N, 2]` to scores `[N, 2]`. */
  call(x: Tensor): Tensor {
    const [first, second, last] = this.layers;
    x = first.call(x).relu();
    return last.call(this.dropout.call(second.call(x).relu()));
  }
}

/** `n` points of two spirals, and which spiral each is of: all lazy, all drawn at the call. */
function spirals(n: number): { x: Tensor; y: Tensor } {
  const y = Tensor.randint([n], { high: 2 });
  const along = Tensor.rand([n]).sqrt();
  const angle = along.mul(TURNS * 2 * Math.PI).add(y.mul(Math.PI));
  const x = Tensor.stack([angle.cos().mul(along), angle.sin().mul(along)], 1).add(Tensor.randn([n, 2]).mul(NOISE));
  Tensor.realize([x, y]);
  return { x, y };
}

Tensor.manualSeed(1);
const train = spirals(TRAIN), test = spirals(TEST);
const model = new Mlp();
const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: LEARNING_RATE, weightDecay: 0.01 });

const step = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = model.call(x).sparseCategoricalCrossentropy(y).backward();
    optimizer.step();
    return loss;
  })
);
/** The share of points that the model gets right. Outside `Tensor.train`, dropout drops nothing. */
async function accuracy({ x, y }: { x: Tensor; y: Tensor }): Promise<string> {
  const share = await model.call(x).argmax(1).eq(y).mean().item();
  return `${(100 * Number(share)).toFixed(1)} %`;
}

for (let epoch = 1; epoch <= EPOCHS; epoch++) {
  optimizer.setLr(LEARNING_RATE * (1 + Math.cos(Math.PI * epoch / EPOCHS)) / 2);
  const order = Tensor.randperm(TRAIN).realize();
  let loss: Tensor | undefined;
  for (let at = 0; at < TRAIN; at += BATCH) {
    const rows = order.at([at, at + BATCH]);
    loss = step(train.x.at(rows).realize(), train.y.at(rows).realize());
  }
  if (epoch % 10 === 0) {
    const [seen, unseen] = [await accuracy(train), await accuracy(test)];
    console.log(
      `epoch ${epoch}  loss ${Number(await loss!.item()).toFixed(4)}  accuracy ${seen}, on new points ${unseen}`,
    );
  }
}
