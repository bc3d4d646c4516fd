/**
 * The entry point `./dist`: several devices, several processes, several hosts.
 *
 * @module
 */
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
