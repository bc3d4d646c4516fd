/**
 * The entry point `./tfjs`: models of TensorFlow, read and run on tensors: layers models and graph models of TensorFlow.js, as
 * pages have them, and files of TensorFlow Lite, as phones have them.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export { type GraphOptions, loadGraphModel } from "./graph_model.ts";
export { loadTFLite } from "./tflite.ts";
export {
  type LayerFunction,
  type LayersInput,
  LayersModel,
  type LayersOptions,
  type LayersSource,
  loadLayersModel,
} from "./layers_model.ts";
