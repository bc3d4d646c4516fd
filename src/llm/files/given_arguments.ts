/**
 * Whether what functions are given is what they take: a file that was read, a model that was loaded, tokens. What is not
 * is told with what gives one.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** Has a value, whatever it is, methods of these names? */
function hasMethods(x: unknown, ...names: string[]): boolean {
  return x !== null && x !== undefined &&
    names.every((name) => typeof (x as Record<string, unknown>)[name] === "function");
}
function wrong(action: string, x: unknown, what: string): never {
  throw new ArgumentError(action, { reason: `${describe(x)} is ${what}` });
}

/** Is it a map, as metadata and tensors of files are? */
export function isMap(x: unknown): boolean {
  return hasMethods(x, "get", "has", "keys");
}
/** Throws unless it is a file that was read. @throws {ArgumentError} */
export function checkGguf(action: string, file: unknown): void {
  const { metadata, tensors } = Object(file) as { readonly metadata?: unknown; readonly tensors?: unknown };
  if (!isMap(metadata) || !isMap(tensors)) wrong(action, file, "no file that was read; await readGguf(path) gives one");
}
/** Throws unless it is a language model. @throws {ArgumentError} */
export function checkModel(action: string, model: unknown): void {
  if (hasMethods(model, "generate", "complete")) return;
  wrong(action, model, "no language model; await LanguageModel.load(path) gives one");
}
/** Throws unless it is a decoder. @throws {ArgumentError} */
export function checkDecoder(action: string, decoder: unknown): void {
  if (!hasMethods(decoder, "makeCache", "logits")) wrong(action, decoder, "no decoder; model.decoder is one");
}
/** Throws unless it is the metadata of a file. @throws {ArgumentError} */
export function checkMetadata(action: string, meta: unknown): void {
  if (hasMethods(meta, "text", "numbers")) return;
  wrong(action, meta, "no metadata; new Metadata(file.metadata, name) is");
}
/** Throws unless it is a list of tokens: a tensor of integers with one axis. @throws {ArgumentError} */
export function checkTokens(action: string, tokens: unknown): void {
  if (!(tokens instanceof Tensor)) wrong(action, tokens, "no tensor of tokens; new Tensor(ids) makes one");
  else if (tokens.ndim !== 1 || !tokens.dtype.isInt) {
    const reason = `tokens are integers in one axis, not ${tokens.dtype.name} of shape [${tokens.shape.join(", ")}]`;
    throw new ArgumentError(action, { reason });
  }
}
