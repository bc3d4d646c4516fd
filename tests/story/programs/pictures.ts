import { nn, Tensor } from "../../../mod.ts";
Tensor.manualSeed(4);
const up = new nn.ConvTranspose2d(2, 3, 3, { stride: 2, padding: 1, bias: true });
const image = Tensor.arange(2 * 5 * 4).reshape([1, 2, 5, 4]).float().div(40);
const grown = up.call(image), big = grown.interpolate([12, 10], { mode: "linear" });
const blurred = big.pad([1, 1, 1, 1], { mode: "reflect" }).avgPool2d([3, 3], { stride: 1 });
const edges = blurred.shrink([null, null, [1, 12], null]).sub(blurred.shrink([null, null, [0, 11], null])).abs();
console.log(
  grown.shape.join(),
  big.shape.join(),
  blurred.shape.join(),
  edges.shape.join(),
  (await edges.max().item()) > 0,
);
