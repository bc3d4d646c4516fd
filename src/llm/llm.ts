/**
 * The entry point `./llm`: files of language models.
 *
 * @module
 */
export { BLOCK_FORMATS, type BlockFormat, dequantize, type FormatName } from "./files/block_formats.ts";
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
export { quantize, QUANTIZED } from "./files/quantize.ts";
