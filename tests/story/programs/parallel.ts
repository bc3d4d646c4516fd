import { Tensor } from "../../../mod.ts";
const shared = Tensor.arange(6).reshape([2, 3]).float().realize();
async function work(name: string, scale: number) {
  const first = shared.mul(scale);
  await new Promise((done) => setTimeout(done, 5 * scale));
  const second = first.add(shared);
  const total = await second.sum().item();
  return `${name} ${total}`;
}
const results = await Promise.all([work("slow", 3), work("fast", 1), work("middle", 2)]);
console.log(results.join(", "));
for await (
  const n of (async function* () {
    for (const k of [2, 4]) yield shared.pow(k).sum();
  })()
) console.log(await n.item());
queueMicrotask(() => void shared.neg().tolist().then((t) => console.log(JSON.stringify(t))));
