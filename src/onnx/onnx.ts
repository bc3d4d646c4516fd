/**
 * ONNX models: read, told about, and run on tensors. `load` gives a model that is called like any function of tensors:
 * lazily, under `jit`, with gradients; `info` tells what a file has and what of it is not known here.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export { info, type OnnxInfo } from "./info.ts";
export {
  load,
  type LoadOptions,
  type OnnxInput,
  OnnxModel,
  type OnnxOutput,
  type OnnxPort,
  type OnnxResults,
  type WeightOptions,
} from "./model.ts";
export { save, type SaveOptions, toBytes } from "./save.ts";
export { type OnnxInputs, type OnnxOutputs, OnnxSession, session, type SessionOptions } from "./session.ts";
export type { Callable } from "../helpers/options.ts";
export type { Dynamic } from "./write/trace.ts";
