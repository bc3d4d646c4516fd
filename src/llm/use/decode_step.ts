/**
 * A step of a decoder as a function of tensors: what `exportModel` of `./export` writes down as a program of its own.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { Variable } from "../../tensor/variable.ts";
import { checkDecoder } from "../files/given_arguments.ts";
import type { Decoder } from "../model/decoder.ts";

/** A function with its first arguments, and the names of its weights. */
export interface DecodeStep {
  /** Of a token, int32 `[1]`, and its position: the most probable next one, int32 `[1]`, and the logits. */
  readonly f: (token: Tensor, position: Tensor) => { next: Tensor; logits: Tensor };
  /** To call and to export it with. */
  readonly args: [Tensor, Tensor];
  /** By their names in the file; what is of several of those has all of them. */
  readonly weights: Readonly<Record<string, Tensor>>;
  /** What the program is called. */
  readonly name: string;
}

/**
 * The step that takes a token at a position and gives the next one. Keys and values are state of the program: positions
 * come one after the other, from 0 on.
 *
 * ```ts ignore files
 * import { exportModel } from "../../export/export.ts";
 * import { decodeStep, LanguageModel } from "../llm.ts";
 * const model = await LanguageModel.load("model.gguf", { context: 256 });
 * const { f, args, weights, name } = decodeStep(model.decoder);
 * await (await exportModel(f, args, { target: "c", weights, name })).write("out");
 * ```
 */
export function decodeStep(decoder: Decoder, name = "llm"): DecodeStep {
  checkDecoder("make a step", decoder);
  const cache = decoder.makeCache(), position = new Variable("position", 0, decoder.context - 1);
  const f = (token: Tensor, at: Tensor) => {
    const logits = decoder.logits(token, at, 0, cache);
    return { next: logits.argmax().cast("int32").reshape([1]), logits };
  };
  const first = new Tensor(Int32Array.of(0), { device: decoder.device });
  const weights = Object.fromEntries(decoder.memory);
  return { f, args: [first, position.bind(0)], weights, name };
}
