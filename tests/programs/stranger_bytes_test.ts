/** Programs as someone writes them who has read the pages alone: bytes for pages and servers, systems, spectra, complex. */
import { assert, assertEquals } from "@std/assert";
import { Device, fft, nn, state, Tensor } from "../../mod.ts";

Device.get();

Deno.test("stranger: weights go to a Blob and a server, and come back", async () => {
  const model = new nn.Linear(2, 3), blob = new Blob([await state.safeBytes(state.getStateDict(model))]);
  const served = new Response(await state.npyBytes(model.weight)), other = new nn.Linear(2, 3);
  state.loadStateDict(other, await state.safeLoad(blob));
  assertEquals(await other.weight.tolist(), await model.weight.tolist());
  assertEquals(await (await state.npyLoad(await served.blob())).tolist(), await model.weight.tolist());
});

Deno.test("stranger: values are the body of a request, and a Blob, as they are", async () => {
  const x = new Tensor([1, 2.5]).float(), body = new Response(await x.data<"float32">());
  assertEquals([...new Float32Array(await body.arrayBuffer())], [1, 2.5]);
  assertEquals(new Blob([await x.data()]).size, 8);
  assertEquals(new Blob([x.add(1).dataSync<"float32">().buffer]).size, 8);
});

Deno.test("stranger: ridge regression by the normal equations", async () => {
  Tensor.manualSeed(0);
  const x = Tensor.randn([50, 3]), y = x.matmul(new Tensor([1, -2, 0.5]).float());
  const found = x.T.matmul(x).add(Tensor.eye(3).mul(1e-3)).solve(x.T.matmul(y));
  const off = found.sub(new Tensor([1, -2, 0.5])).abs().max();
  assert(await off.item() < 1e-3);
});

Deno.test("stranger: a low-pass filter by the spectrum", async () => {
  const n = 256, k = Tensor.arange(n).mul(2 * Math.PI / n), low = k.mul(3).sin();
  const spectrum = fft.rfft(low.add(k.mul(60).sin())), kept = Tensor.arange(spectrum.shape[0]).lt(10);
  const smooth = fft.irfft(spectrum.mul(kept), -1, { n });
  assert(await smooth.sub(low).abs().max().item() < 1e-4);
});

Deno.test("stranger: the Mandelbrot set, in complex numbers", async () => {
  const re = Tensor.linspace(-2, 1, 7).expand([3, 7]), im = Tensor.linspace(-1, 1, 3).unsqueeze(1).expand([3, 7]);
  const c = Tensor.complex(re, im);
  let z = c.mul(0);
  for (let i = 0; i < 20; i++) z = z.mul(z).add(c);
  const inside: number[][] = await z.abs().le(2).int().tolist();
  assertEquals(inside[1], [1, 1, 1, 1, 1, 0, 0]); // of the real line what lies between -2 and 1/4
  assertEquals([inside[0], inside[2]], [[0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0, 0]]); // i alone is in it, -i too
});

Deno.test("stranger: the first principal direction of points near a line, and an indefinite system", async () => {
  const x = new Tensor([[1, 2], [2, 4.1], [3, 6], [4, 7.9]]).float();
  const [, sizes, directions] = x.sub(x.mean(0, { keepdim: true })).svd(false);
  const [large, small]: number[] = await sizes.tolist(), [a, b]: number[] = await directions.at(0).tolist();
  assert(small / large < 0.03);
  assert(Math.abs(b / a - 1.97) < 0.02);
  const [ld, pivots] = new Tensor([[4, 1], [1, -3]]).float().ldlFactor();
  const solved = ld.ldlSolve(pivots, new Tensor([[5], [-2]]).float());
  assert(await solved.sub(1).abs().max().item() < 1e-6);
});
