import { nn, Tensor } from "../../../mod.ts";
const xs = Tensor.arange(24).reshape([12, 2]).cast("float32"), ys = Tensor.arange(12);
const data = new nn.data.TensorDataset(xs, ys);
const loader = new nn.data.DataLoader(data, { batchSize: 4, shuffle: true, seed: 3 });
let total = 0;
for await (const [a, b] of loader) total += await a.sum().add(b.sum()).item() as number;
console.log(total);
