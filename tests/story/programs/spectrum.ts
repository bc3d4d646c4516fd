import { Tensor } from "../../../mod.ts";
const time = Tensor.arange(32).div(32);
const wave = time.mul(2 * Math.PI * 3).sin().add(time.mul(2 * Math.PI * 7).cos().mul(0.5));
const halves = wave.rfft();
const power = halves.square().sum(-1);
console.log(await power.argmax().item(), (await power.tolist() as number[]).map((x) => Math.round(x)));
console.log(await halves.irfft().sub(wave).abs().max().lt(1e-5).item());
