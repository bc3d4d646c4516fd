/**
 * The namespace `state`: weights by name, and files of them.
 *
 * @module
 */
export {
  getParameters,
  getStateDict,
  type LoadOptions,
  loadStateDict,
  type StateDict,
  type StateDictOptions,
} from "./tree.ts";
export { safeBytes, safeLoad, safeLoadMetadata, safeParse, safeSave, type SaveOptions } from "./safetensors.ts";
