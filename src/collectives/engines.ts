/**
 * Engines that come with a device, as NCCL does with cards: a backend names one when the device opens.
 *
 * @module
 */
import type { Communicator } from "./communicator.ts";

/** How a rank joins the others of its engine. */
export interface JoinOptions {
  readonly rank: number;
  readonly size: number;
  /** What rank 0 has made by {@linkcode DeviceEngine.makeId}, the same on all ranks. */
  readonly id: Uint8Array;
  /** Milliseconds that a rank waits for others, at most. */
  readonly timeoutMs: number;
}

/** What joins the rank of a device to the others. */
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

/** What joins this process to the others that were started with it, once it has joined them. */
export const world: { communicator: Communicator | undefined } = { communicator: undefined };

/** What engines of devices end before the process does by an error, which other libraries may end at once. */
export const endings: Set<() => void> = new Set();

const engines = new Map<string, DeviceEngine>();

/** Names the engine of a device that is open. */
export function setDeviceEngine(device: string, engine: DeviceEngine): void {
  engines.set(device, engine);
}

/** The engine of an open device, if it has one. */
export function deviceEngine(device: string): DeviceEngine | undefined {
  return engines.get(device);
}
