/**
 * The network of the page and its training: one step at a time, so that the page can show what happens. In: a device; out:
 * losses, accuracy, scores of a picture.
 *
 * @module
 */
import { Device, type DeviceName, GlobalCounters, jit, nn, state, Tensor } from "../../mod.ts";
import { ConvNet } from "../convnet_support.ts";

const TRAIN = 1437, BATCH = 64;
/** Steps of an epoch. */
export const STEPS: number = Math.floor(TRAIN / BATCH);

/** A network on one device, with the data beside it. */
export class DigitsTrainer {
  private readonly model = new ConvNet();
  private readonly step: (x: Tensor, y: Tensor) => Tensor;
  private readonly predict: (x: Tensor) => Tensor;
  private readonly right: (x: Tensor, y: Tensor) => Tensor;
  private order: Tensor;

  private constructor(
    readonly device: DeviceName,
    /** Whom to credit for the data. */
    readonly attribution: string,
    private readonly train: readonly [Tensor, Tensor],
    private readonly test: readonly [Tensor, Tensor],
  ) {
    const optimizer = new nn.optim.Adam(state.getParameters(this.model), { lr: 0.005 });
    this.step = jit((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = this.model.call(x).sparseCategoricalCrossentropy(y).backward();
        optimizer.step();
        return loss;
      })
    );
    this.predict = jit((x: Tensor) => this.model.call(x).softmax());
    this.right = jit((x: Tensor, y: Tensor) => this.model.call(x).argmax(1).eq(y).mean());
    this.order = Tensor.randperm(TRAIN).realize();
  }

  /** A network that has seen nothing, the same each time. */
  static async on(name: DeviceName): Promise<DigitsTrainer> {
    const device = (await Device.open(name)).name as DeviceName;
    Device.default = device;
    Tensor.manualSeed(0);
    const { images, labels, attribution } = await nn.datasets.digits();
    const parts = (from: number, to: number | null): [Tensor, Tensor] => {
      return [images.at([from, to]).contiguous(), labels.at([from, to]).contiguous()];
    };
    const train = parts(0, TRAIN), test = parts(TRAIN, null);
    Tensor.realize([...train, ...test]);
    return new DigitsTrainer(device, attribution, train, test);
  }

  /** One step of training: the loss. `k` counts the steps of an epoch; the first one shuffles. */
  async learn(k: number): Promise<number> {
    if (k === 0) this.order = Tensor.randperm(TRAIN).realize();
    const rows = this.order.at([k * BATCH, (k + 1) * BATCH]), x = this.train[0].at(rows), y = this.train[1].at(rows);
    Tensor.realize([x, y]);
    return Number(await this.step(x, y).item());
  }
  /** The share of test digits that it reads rightly. */
  async accuracy(): Promise<number> {
    return Number(await this.right(...this.test).item());
  }
  /** Scores of the ten digits for a picture of 8 by 8. */
  async scores(picture: Float32Array<ArrayBuffer>): Promise<number[]> {
    const x = new Tensor(picture, { device: this.device }).reshape([1, 1, 8, 8]).contiguous().realize();
    return (await this.predict(x).tolist() as number[][])[0];
  }
  /** Bytes of memory that tensors have. */
  get nbytes(): number {
    return GlobalCounters.memUsed;
  }
}
