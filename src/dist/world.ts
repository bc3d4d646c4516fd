/**
 * The world of a distributed program: entered once, by the variables of whatever has started this process.
 *
 * @module
 */
import type { Communicator } from "../collectives/communicator.ts";
import { deviceEngine, world as joined } from "../collectives/engines.ts";
import { enterMpi } from "../collectives/mpi_world.ts";
import { type RankPlace, rankPlace } from "../collectives/rank_place.ts";
import { SoloCommunicator } from "../collectives/solo.ts";
import { Buffer } from "../device/buffer.ts";
import {
  type Checked,
  defaultDevice,
  type DeviceName,
  getDevice,
  openDevice,
  setDefaultDevice,
} from "../device/device.ts";
import { processes } from "../device/group.ts";
import { dtypes } from "../dtype/dtype.ts";
import { envNumber, setEnv } from "../helpers/env.ts";
import { ArgumentError, DeviceError } from "../helpers/errors.ts";
import { checkNumber, checkOptions } from "../helpers/options.ts";
import { meetAtMaster } from "./meeting.ts";

/** Options of {@linkcode init}. */
export interface DistOptions {
  /** Milliseconds that a rank waits for others, at most; default: the context variable DIST_TIMEOUT. */
  readonly timeout?: number;
  /**
   * The device of this rank; default: the default device, of the ordinal of the rank on its host where it is CUDA. Then
   * that card is the default device from here on.
   */
  readonly device?: DeviceName;
}

/** A world that was entered. */
export interface World {
  readonly place: RankPlace;
  readonly communicator: Communicator;
}

let entered: Promise<World> | undefined, world: World | undefined;

/** The rank of this process, from 0; once `init` is done, as all here. */
export let rank: number = 0;
/** How many ranks there are. */
export let size: number = 1;
/** The rank among those of this host. */
export let localRank: number = 0;

/** The world. @throws {ArgumentError} before it was entered */
export function currentWorld(action: string): World {
  if (world !== undefined) return world;
  throw new ArgumentError(action, { reason: "this process has not joined the others yet: await dist.init() first" });
}

/**
 * Joins the processes that were started together: by mpirun, srun, torchrun or a Kubernetes job, as the environment says;
 * alone without them. Later calls wait for the first, and do nothing else.
 *
 * ```ts
 * import * as dist from "../dist/dist.ts";
 * await dist.init();
 * console.log(dist.rank, dist.size); // 0 1
 * ```
 *
 * @throws {DeviceError} where there is no library that joins them, or it knows another number of ranks than the launcher
 */
export async function init<N extends string = string>(options: Checked<DistOptions, N> = {}): Promise<void> {
  checkOptions("join the other processes", options, ["timeout", "device"]);
  const timeoutMs = options.timeout ?? envNumber("DIST_TIMEOUT");
  if (!(checkNumber("join the other processes", "timeout", timeoutMs) > 0)) {
    throw new ArgumentError("join the other processes", { reason: `timeout must be above 0, not ${timeoutMs}` });
  }
  try {
    world = await (entered ??= enter(rankPlace(), timeoutMs, options.device));
    ({ rank, size, localRank } = world.place);
    joined.communicator = world.communicator;
    const device = deviceOf(world.place, options.device);
    processes.place = size > 1 ? { rank, size, device } : undefined;
    // what a rank makes is on its own card
    if (options.device === undefined && device !== defaultDevice()) setDefaultDevice(device);
  } catch (error) {
    entered = undefined;
    throw error;
  }
}

/** The device of a rank: of CUDA the card of its number on the host, unless it was named. */
function deviceOf(place: RankPlace, named: string | undefined): string {
  const device = named ?? defaultDevice();
  return named === undefined && device === "CUDA" && place.localRank > 0 ? `CUDA:${place.localRank}` : device;
}

async function enter(place: RankPlace, timeoutMs: number, named: string | undefined): Promise<World> {
  if (place.launcher === "") return { place, communicator: new SoloCommunicator() };
  shareCores(place);
  const device = deviceOf(place, named), hasProgress = wantsProgress(place);
  const mpi = place.hasMpi ? enterMpi({ size: place.size, timeoutMs, hasProgress }) : undefined;
  if (device.startsWith("CUDA")) await openCard(place, device);
  const engine = deviceEngine(device);
  if (engine === undefined) {
    if (mpi !== undefined) return { place, communicator: mpi };
    throw new DeviceError(`join the other processes of ${place.launcher}`, {
      device,
      reason: `ranks on ${device} are joined by MPI: start the program with mpirun or srun --mpi=pmix`,
    });
  }
  const id = place.rank === 0 ? engine.makeId() : new Uint8Array(engine.idBytes);
  const shared = mpi === undefined ? await meetAtMaster(place, id, timeoutMs) : broadcastBytes(mpi, id);
  return { place, communicator: engine.join({ rank: place.rank, size: place.size, id: shared, timeoutMs }) };
}

/** Leaves each rank of a host its share of the processor, unless THREADS says how many it has. */
function shareCores({ localSize }: RankPlace): void {
  if (localSize === undefined || envNumber("THREADS") > 0) return;
  setEnv("THREADS", Math.max(1, Math.floor((globalThis.navigator?.hardwareConcurrency ?? 1) / localSize)));
}

/** Whether data is moved by a thread of its own while kernels run: where the ranks of this host leave it a core. */
function wantsProgress({ localSize }: RankPlace): boolean {
  const asked = envNumber("DIST_PROGRESS");
  if (asked >= 0 || localSize === undefined) return asked > 0;
  return (globalThis.navigator?.hardwareConcurrency ?? 1) >= 2 * localSize;
}

/** Opens the card of a rank. @throws {DeviceError} where there are fewer cards than ranks on the host */
async function openCard(place: RankPlace, device: string): Promise<void> {
  try {
    await openDevice(device);
  } catch (cause) {
    const reason = `rank ${place.rank} is number ${place.localRank} of its host, and needs a card of its own ` +
      `(${(cause as Error).message})`;
    throw new DeviceError(`join the other processes on ${device}`, { device, reason, cause });
  }
}

/** Bytes of rank 0, on all ranks. */
function broadcastBytes(mpi: Communicator, bytes: Uint8Array): Uint8Array {
  const buffer = new Buffer(getDevice("JS"), dtypes.uint8, bytes.length).copyIn(bytes);
  mpi.start({ kind: "broadcast", root: 0 }, [buffer], [buffer]).wait();
  return buffer.copyOut(new Uint8Array(bytes.length));
}
