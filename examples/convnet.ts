/**
 * A convolutional network reads handwritten digits, 8 by 8 pixels. The core of `examples/demo.ts`, which adds
 * distortions, a schedule, saving and pictures. Needs no permission: `deno run --no-prompt examples/convnet.ts [epochs]`
 *
 * @module
 */
import type { Exportable } from "../src/export/export.ts";
import { jit, nn, state, Tensor } from "../mod.ts";

const TRAIN = 1437, BATCH = 64, EPOCHS = Number(Deno.args[0]) || 6;

class ConvNet {
  conv1: nn.Conv2d = new nn.Conv2d(1, 16, 3, { padding: 1, bias: false });
  norm1: nn.BatchNorm = new nn.BatchNorm(16);
  conv2: nn.Conv2d = new nn.Conv2d(16, 32, 3, { padding: 1, bias: false });
  norm2: nn.BatchNorm = new nn.BatchNorm(32);
  head: nn.Linear = new nn.Linear(32 * 2 * 2, 10);

  /** Images `[N, 1, 8, 8]` to scores `[N, 10]`. */
  call(x: Tensor): Tensor {
    x = this.norm1.call(this.conv1.call(x)).relu().maxPool2d(2);
    x = this.norm2.call(this.conv2.call(x)).relu().maxPool2d(2);
    return this.head.call(x.flatten(1));
  }
}

Tensor.manualSeed(0);
const { images, labels, attribution } = await nn.datasets.digits();
console.log(attribution);
const [trainX, trainY] = [images.at([0, TRAIN]).contiguous(), labels.at([0, TRAIN]).contiguous()];
const [testX, testY] = [images.at([TRAIN, null]), labels.at([TRAIN, null])]; // other people's hands
Tensor.realize([trainX, trainY]);

const model = new ConvNet();
const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.005 });
const step = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = model.call(x).sparseCategoricalCrossentropy(y).backward();
    optimizer.step(); // the running statistics of the batch normalization too
    return loss;
  })
);

for (let epoch = 1; epoch <= EPOCHS; epoch++) {
  const order = Tensor.randperm(TRAIN).realize();
  const losses: Tensor[] = [];
  for (let at = 0; at + BATCH <= TRAIN; at += BATCH) {
    const rows = order.at([at, at + BATCH]);
    const [x, y] = [trainX.at(rows), trainY.at(rows)];
    Tensor.realize([x, y]);
    losses.push(step(x, y));
  }
  const loss = await Tensor.stack(losses).mean().item();
  console.log(`epoch ${epoch}  loss ${Number(loss).toFixed(4)}`);
}
const accuracy = await model.call(testX).argmax(1).eq(testY).mean().item();
console.log(`accuracy on ${testY.shape[0]} images by other writers: ${(100 * Number(accuracy)).toFixed(1)} %`);

const image = testX.at([0, 1]).contiguous().realize(), scores = (x: Tensor): Tensor => model.call(x).softmax();
console.log(
  `the first of them is a ${await scores(image).argmax(1).item()}, and written as a ${await testY.at(0).item()}`,
);

/** For `deno task export examples/convnet.ts`: the network as a program of its own, and one image to try it on. */
export const exported: Exportable = { f: scores, args: [image], weights: model, name: "digits" };
