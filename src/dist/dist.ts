/**
 * The entry point `./dist`: several devices, several processes, several hosts.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import * as dist from "./dist.ts";
 * await dist.init(); // mpirun -n 4 starts four ranks; without it there is one
 * const sum = await dist.allReduce(new Tensor([1, 2]));
 * console.log(await sum.tolist()); // [1, 2]
 * ```
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export {
  type Collective,
  CollectiveError,
  type CollectiveErrorOptions,
  type CollectiveKind,
  type CollectiveSite,
  type Communicator,
  type ReduceOp,
  type Work,
} from "../collectives/communicator.ts";
export { Mesh, type MeshOptions } from "../device/mesh.ts";
export type { MeshShape, Spec } from "../uop/core/sharding.ts";
export {
  ColumnLinear,
  type ParallelLinearOptions,
  RowLinear,
  VocabEmbedding,
  type VocabEmbeddingOptions,
} from "./parallel.ts";
export {
  Pipeline,
  type PipelineOp,
  type PipelineOptions,
  type PipelineSchedule,
  pipelineTable,
  type Stage,
} from "./pipeline.ts";
export { ringAttention, type RingAttentionOptions } from "./ring_attention.ts";
export { collectiveCost, simulate, type SimulatedStep, type SimulateOptions } from "./simulate.ts";
export {
  allGather,
  allReduce,
  allToAll,
  averageGradients,
  type AverageOptions,
  barrier,
  broadcast,
  type CollectiveOptions,
  type ReduceOptions,
  reduceScatter,
  sendReceive,
  split,
  type TensorReduceOp,
} from "./tensor_collectives.ts";
export { type DistOptions, init, localRank, rank, size } from "./world.ts";
