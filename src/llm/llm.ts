/**
 * The entry point `./llm`: language models: their files, tokenizers, decoders, and texts that they write.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export {
  BLOCK_FORMATS,
  type BlockFormat,
  type ByteGroups,
  dequantize,
  type FormatName,
} from "./files/block_formats.ts";
export {
  type Gguf,
  type GgufEntry,
  type GgufScalarType,
  type GgufTensor,
  type GgufValue,
  readGguf,
} from "./files/gguf.ts";
export {
  encodeGguf,
  type GgufContents,
  type GgufInput,
  type GgufTensorInput,
  typed,
  writeGguf,
} from "./files/gguf_write.ts";
export { download, type DownloadOptions, type ModelProgress } from "./files/model_download.ts";
export type { ModelSource } from "./files/model_source.ts";
export { formatsOf, type MixName, quantizeModel } from "./files/mixes.ts";
export { quantize, QUANTIZED } from "./files/quantize.ts";
export type { Adapter, Weight } from "./model/weight_store.ts";
export { Decoder } from "./model/decoder.ts";
export { ARCHITECTURES, type ModelSpec, modelSpec, type Pooling } from "./model/model_spec.ts";
export type { CacheKind } from "./model/cache_memory.ts";
export type { SamplingOptions } from "./model/sampler.ts";
export type { TokenLogprobs } from "./model/sequence.ts";
export { type ChatMessage, renderChat, type Tool } from "./text/chat_template.ts";
export type { ToolForm } from "./text/tool_calls.ts";
export { PRE_TOKENIZERS } from "./text/pretokenize.ts";
export { trainBpe, type TrainBpeOptions } from "./text/train_bpe.ts";
export { type LlamaShape, newLlama } from "./train/new_llama.ts";
export { loadLora, Lora, lora, type LoraOptions } from "./train/lora.ts";
export { type EncodeOptions, Tokenizer, TokenStream } from "./text/tokenizer.ts";
export { TokenKind } from "./text/known_tokens.ts";
export { Metadata, type Vocabulary, vocabularyOf } from "./text/vocabulary.ts";
export { EmbeddingModel } from "./use/embedding_model.ts";
export { Encoder } from "./model/text_encoder.ts";
export { type DecodeStep, decodeStep } from "./use/decode_step.ts";
export type {
  Completion,
  CompletionToken,
  DraftModel,
  FinishReason,
  GenerateOptions,
  Piece,
  Usage,
} from "./use/generation.ts";
export { LanguageModel, type LoadModelOptions, type Prompt } from "./use/language_model.ts";
export { ModelServer, type RunningServer, serve, type ServeOptions } from "./use/model_server.ts";
export { readHfFolder } from "./files/hf_folder.ts";
export { writeHfFolder } from "./files/hf_write.ts";
export { readLlama2c } from "./files/llama2c.ts";
