import { nn, state, Tensor } from "../../../mod.ts";
Tensor.manualSeed(9);
const net = {
  emb: new nn.Embedding(10, 6),
  half: Tensor.randn([6, 4]).half().realize(),
  brain: Tensor.randn([4, 2]).cast("bfloat16").realize(),
  ids: new Tensor([3, 1, 4, 1], { dtype: "int64" }),
};
const path = await Deno.makeTempFile({ suffix: ".safetensors" });
await state.safeSave(state.getStateDict(net), path);
const loaded = await state.safeLoad(path);
const picked = loaded["emb.weight"].at(loaded.ids);
const hidden = picked.half().matmul(loaded.half), logits = hidden.cast("bfloat16").matmul(loaded.brain).float();
const best = logits.argmax(1), probs = logits.softmax(1);
console.log(await best.tolist(), probs.shape, (await probs.sum().item() as number).toFixed(2));
await Deno.remove(path);
