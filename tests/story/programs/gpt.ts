import { nn, state, Tensor } from "../../../mod.ts";
Tensor.manualSeed(11);
class Block {
  readonly ln1 = new nn.LayerNorm(16);
  readonly qkv = new nn.Linear(16, 48);
  readonly out = new nn.Linear(16, 16);
  readonly ln2 = new nn.LayerNorm(16);
  readonly up = new nn.Linear(16, 32);
  readonly down = new nn.Linear(32, 16);
  attend(x: Tensor): Tensor {
    const [q, k, v] = this.qkv.call(x).reshape([2, 6, 3, 4, 4]).permute([2, 0, 3, 1, 4]).chunk(3);
    const [b, heads] = [2, 4];
    const mixed = q.reshape([b, heads, 6, 4]).scaledDotProductAttention(
      k.reshape([b, heads, 6, 4]),
      v.reshape([b, heads, 6, 4]),
      undefined,
      { isCausal: true },
    );
    return this.out.call(mixed.permute([0, 2, 1, 3]).reshape([b, 6, 16]));
  }
  call(x: Tensor): Tensor {
    const attended = x.add(this.attend(this.ln1.call(x)).dropout(0.1));
    return attended.add(this.down.call(this.up.call(this.ln2.call(attended)).gelu()));
  }
}
const wte = new nn.Embedding(12, 16), blocks = [new Block(), new Block()], head = new nn.Linear(16, 12);
const model = { wte, blocks, head };
const tokens = new Tensor([[1, 5, 2, 9, 0, 3], [4, 4, 11, 7, 8, 6]], { dtype: "int32" });
const targets = new Tensor([[5, 2, 9, 0, 3, 1], [4, 11, 7, 8, 6, 2]], { dtype: "int32" });
const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.01 });
const loss = Tensor.train(() => {
  let hidden = wte.call(tokens);
  for (const block of blocks) hidden = block.call(hidden);
  const logits = head.call(hidden);
  const loss = logits.reshape([12, 12]).sparseCategoricalCrossentropy(targets.flatten());
  loss.backward();
  optimizer.step();
  return loss;
});
console.log((await loss.item()).toFixed(4), (await wte.weight.sum().item()).toFixed(2));
