// attention over a cache that grows by a row each step, greedily
import { jit, nn, Tensor, Variable } from "../../../mod.ts";

const [vocab, dim, most] = [11, 8, 6];
Tensor.manualSeed(3);
const embed = new nn.Embedding(vocab, dim), out = new nn.Linear(dim, vocab, { bias: false });
const keys = Tensor.zeros([most, dim]).contiguous().realize();

const step = jit((token: Tensor, at: Tensor) => {
  const query = embed.call(token).reshape([1, dim]);
  keys.setAt([at], query.reshape([dim]));
  const seen = keys.at([0, at.add(1)]);
  const weights = query.matmul(seen.transpose()).softmax();
  const context = weights.matmul(seen);
  return out.call(context).argmax(1).contiguous();
});

let token = new Tensor([2], { dtype: "int32" }).realize();
const length = new Variable("length", 0, most - 1), said: number[] = [];
for (let i = 0; i < most; i++) {
  token = step(token, length.bind(i)).realize();
  said.push(Number(await token.item()));
}
console.log(said.join(" "));
