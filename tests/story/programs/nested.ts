import { Tensor } from "../../../mod.ts";
import { explain, profile } from "../../../src/story/story.ts";
const x = Tensor.linspace(0, 1, 5).realize();
const p = await profile(() => x.exp().sum().item());
console.log(p.kernels.length > 0, Math.round(p.result * 100));
const e = explain(() => x.square().mean(), { names: { x } });
console.log(e.script.includes("x"), e.error === undefined);
const after = x.add(1).log().sum();
console.log(Math.round(1000 * await after.item()));
