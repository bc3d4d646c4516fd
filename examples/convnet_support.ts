/**
 * The network of the demos, and how fast it learns.
 *
 * @module
 */
import { nn, type Tensor } from "../mod.ts";

const LEARNING_RATE = 0.01, WARM_UP = 0.1;

/** Three convolutions of 3x3 with batch normalization; two poolings; one linear layer. 8x8 pixels to 10 scores. */
export class ConvNet {
  conv1: nn.Conv2d = new nn.Conv2d(1, 16, 3, { padding: 1, bias: false });
  norm1: nn.BatchNorm = new nn.BatchNorm(16);
  conv2: nn.Conv2d = new nn.Conv2d(16, 32, 3, { padding: 1, bias: false });
  norm2: nn.BatchNorm = new nn.BatchNorm(32);
  conv3: nn.Conv2d = new nn.Conv2d(32, 48, 3, { padding: 1, bias: false });
  norm3: nn.BatchNorm = new nn.BatchNorm(48);
  head: nn.Linear = new nn.Linear(48 * 2 * 2, 10);

  call(x: Tensor): Tensor {
    x = this.norm1.call(this.conv1.call(x)).relu();
    x = this.norm2.call(this.conv2.call(x)).relu().maxPool2d(2);
    x = this.norm3.call(this.conv3.call(x)).relu().maxPool2d(2);
    return this.head.call(x.flatten(1));
  }
}

/** Linear warm-up, then half a cosine. `done` is the share of the training behind. */
export function learningRate(done: number): number {
  return LEARNING_RATE *
    (done < WARM_UP ? done / WARM_UP : 0.5 + 0.5 * Math.cos(Math.PI * (done - WARM_UP) / (1 - WARM_UP)));
}
