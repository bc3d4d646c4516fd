/**
 * Engines that come with a backend, as NCCL does with CUDA: a backend names its own when a device of it opens.
 *
 * @module
 */
import type { Communicator } from "./communicator.ts";

/** How a rank joins the others of its engine. */
export interface JoinOptions {
  readonly rank: number;
  readonly size: number;
  /** Which device of this process is the rank's, as "CUDA:1". */
  readonly device: string;
  /** What rank 0 has made by {@linkcode DeviceEngine.makeId}, the same on all ranks. */
  readonly id: Uint8Array;
  /** Milliseconds that a rank waits for others, at most. */
  readonly timeoutMs: number;
}

/** What joins ranks whose data is on devices of one backend, one device each. */
export interface DeviceEngine {
  /** As {@linkcode Communicator.engine}. */
  readonly name: string;
  /** Bytes by which ranks find each other, made by one of them. */
  makeId(): Uint8Array;
  /** Their length. */
  readonly idBytes: number;
  /** Joins the ranks; returns when all have come. @throws {CollectiveError} past the deadline */
  join(options: JoinOptions): Communicator;
}

const engines = new Map<string, DeviceEngine>();

/** Names the engine of a backend. */
export function setDeviceEngine(backend: string, engine: DeviceEngine): void {
  engines.set(backend, engine);
}

/** The engine of the backend of a device, if it has one. */
export function deviceEngine(device: string): DeviceEngine | undefined {
  return engines.get(device.split(":")[0]);
}
