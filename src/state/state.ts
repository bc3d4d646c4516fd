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
} from "./state_dict.ts";
export {
  checkpointBytes,
  type CheckpointContents,
  latestCheckpoint,
  loadCheckpoint,
  type LoadCheckpointOptions,
  saveCheckpoint,
  type SaveCheckpointOptions,
} from "./checkpoint.ts";
export { distLoad, distSave } from "./dist_files.ts";
export { type MeshPlaceOptions, place } from "./place.ts";
export { safeBytes, safeLoad, safeLoadMetadata, safeParse, safeSave, type SaveOptions } from "./safetensors.ts";
export { npyBytes, npyLoad, npyParse, npySave, npzLoad, type NpzOptions, npzSave } from "./npy.ts";
export { torchLoad } from "./torch.ts";
export { type ArchiveOptions, zipExtract } from "./zip.ts";
export { tarExtract } from "./tar.ts";
export { TensorIO, type Whence } from "./tensor_io.ts";
export { type FileOptions, fromFile, type Loadable, type PlaceOptions } from "./source.ts";
