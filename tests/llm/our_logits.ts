/**
 * Our logits of a model, behind each of the tokens of random_models.ts. @module
 */
import { jit, Tensor, Variable } from "../../mod.ts";
import { Decoder, type Gguf } from "../../src/llm/llm.ts";
import { TOKENS } from "./random_models.ts";

/** The logits behind each token: by one step each, but for the last, which is that of all tokens at once. */
export async function ourLogits(file: Gguf, name: string, device: string): Promise<Float32Array[]> {
  const decoder = new Decoder(file, name, device), cache = decoder.makeCache(), n = TOKENS.length;
  const place = new Variable("place", 0, decoder.context - n), out: Float32Array[] = [];
  const step = jit((tokens: Tensor, start: Tensor) =>
    decoder.logits(tokens, start, tokens.shape[0] - 1, cache).realize()
  );
  const at = (ids: readonly number[]) => new Tensor(Int32Array.from(ids), { device });
  for (let i = 0; i + 1 < n; i++) out.push(await step(at([TOKENS[i]]), place.bind(i)).data() as Float32Array);
  out.push(await step(at(TOKENS), place.bind(0)).data() as Float32Array);
  return out;
}
