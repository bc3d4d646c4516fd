// halves of a network on two devices
import { nn, Tensor } from "../../../mod.ts";

Tensor.manualSeed(1);
const first = new nn.Linear(6, 4), second = new nn.Linear(4, 2);
for (const p of [second.weight, second.bias!]) p.replace(p.to("JS"));
const x = Tensor.arange(12).reshape([2, 6]).mul(0.1).realize();
const hidden = first.call(x).relu();
const there = hidden.to("JS");
const scores = second.call(there).softmax();
console.log(await scores.tolist());
