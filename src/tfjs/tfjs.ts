/**
 * The entry point `./tfjs`: models of TensorFlow.js, read and run on tensors. `loadLayersModel` reads what
 * `tf.loadLayersModel` does, which is how Keras models come to pages.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export {
  type LayerFunction,
  type LayersInput,
  LayersModel,
  type LayersOptions,
  type LayersSource,
  loadLayersModel,
} from "./layers_model.ts";
