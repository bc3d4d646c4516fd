/**
 * A plane through noisy points, by gradient descent written out: no layer, no optimizer.
 * Needs no permission: `deno run --no-prompt examples/regression.ts`
 *
 * @module
 */
import { Tensor } from "../mod.ts";

const POINTS = 512, STEPS = 60, LEARNING_RATE = 0.1, NOISE = 0.1;
const SLOPES = [3, -2], OFFSET = 0.5;

Tensor.manualSeed(0);
const x = Tensor.randn([POINTS, SLOPES.length]).realize();
const noise = Tensor.randn([POINTS]).mul(NOISE);
const y = x.mul(new Tensor(SLOPES)).sum(1).add(OFFSET).add(noise).realize();

const slopes = Tensor.zeros([SLOPES.length], { requiresGrad: true });
const offset = Tensor.zeros([1], { requiresGrad: true });
const predict = (x: Tensor) => x.mul(slopes).sum(1).add(offset);

for (let i = 0; i <= STEPS; i++) {
  const loss = predict(x).sub(y).square().mean().backward();
  if (i % 20 === 0) {
    console.log(`step ${String(i).padStart(2)}  mean squared error ${(await loss.item()).toFixed(5)}`);
  }
  // One schedule: both gradients are computed before either parameter is overwritten.
  const updates = [slopes, offset].map((p) => p.assign(p.detach().sub(p.grad!.mul(LEARNING_RATE))));
  Tensor.realize(updates);
  for (const p of [slopes, offset]) p.grad = undefined;
}

const residual = predict(x).sub(y).square().sum(), total = y.sub(y.mean()).square().sum();
const rounded = (await slopes.tolist() as number[]).map((v) => v.toFixed(2));
console.log(`slopes ${rounded.join(", ")} in truth ${SLOPES.join(", ")}`);
console.log(`offset ${(await offset.item()).toFixed(2)} in truth ${OFFSET}`);
console.log(`explained variance ${(1 - (await residual.div(total).item())).toFixed(4)}`);
