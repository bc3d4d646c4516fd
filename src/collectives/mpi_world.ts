/**
 * The world of an MPI program: how this process enters and leaves it. It is left in order where the program ends well; where
 * it does not, the library ends the other ranks, so that none waits for this one.
 *
 * @module
 */
import { DeviceError } from "../helpers/errors.ts";
import { CollectiveError } from "./communicator.ts";
import { sleepSync } from "./deadline.ts";
import { endings } from "./engines.ts";
import { MpiCommunicator } from "./mpi.ts";
import { type MpiLibrary, openMpi, outInts } from "./mpi_library.ts";
import { MpiProgress } from "./mpi_progress.ts";
import { checkMpi, newRequest } from "./mpi_requests.ts";

/** How long a launcher has to pass on what a rank printed last: it drops what it has not read when it ends the ranks. */
const LAST_WORDS_MS = 200;

/** How to enter a world. */
export interface MpiWorldOptions {
  /** How many ranks the launcher says there are, where it says so. */
  readonly size?: number;
  /** Milliseconds that a rank waits for others, at most. */
  readonly timeoutMs: number;
  /** The most elements of one call of the library; for tests. */
  readonly most?: number;
  /** Whether a thread moves data while the program computes. */
  readonly hasProgress?: boolean;
  /** Default: that of the launcher. */
  readonly library?: MpiLibrary;
}

/**
 * Enters the world that the launcher has made, for the life of this process.
 *
 * @throws {DeviceError} where there is no library, or it knows another number of ranks than the launcher
 */
export function enterMpi(options: MpiWorldOptions): MpiCommunicator {
  const library = options.library ?? openMpi(), { symbols, handles } = library, { world } = handles, out = outInts();
  checkMpi(library, symbols.MPI_Initialized(out), "MPI_Initialized");
  const isOwn = out[0] === 0;
  if (isOwn) checkMpi(library, symbols.MPI_Init_thread(0n, 0n, Number(handles.threadMultiple), out), "MPI_Init_thread");
  const mayThread = isOwn && out[0] === Number(handles.threadMultiple);
  checkMpi(library, symbols.MPI_Comm_rank(world, out), "MPI_Comm_rank");
  const [rank] = out;
  checkMpi(library, symbols.MPI_Comm_size(world, out), "MPI_Comm_size");
  const [size] = out;
  if (options.size !== undefined && options.size !== size) {
    if (isOwn) symbols.MPI_Finalize();
    throw new DeviceError("enter the world of MPI", {
      device: "MPI",
      reason: `the launcher started ${options.size} ranks, and ${library.version} (${library.path}) knows ${size}: ` +
        "start with the mpirun or srun of that library, or name the launcher's library in MPI_PATH",
    });
  }
  const control = newRequest();
  checkMpi(library, symbols.MPI_Comm_split(world, 0, 0, control), "MPI_Comm_split");
  const { timeoutMs, most, hasProgress } = options;
  const progress = hasProgress && mayThread ? MpiProgress.start(library, control[0], rank) : undefined;
  const made = new MpiCommunicator({ library, data: world, control: control[0], timeoutMs, most, progress });
  leaveAtEnd(library, made, isOwn, progress);
  return made;
}

/** Leaves the world when the program ends: in order after a success, by ending all ranks after anything else. */
function leaveAtEnd(
  library: MpiLibrary,
  world: MpiCommunicator,
  isOwn: boolean,
  progress: MpiProgress | undefined,
): void {
  const { symbols, handles } = library, [rank] = world.ranks;
  let isLeft = false;
  const endAll = (error: unknown, code: number): void => {
    const isTold = error instanceof CollectiveError || !(error instanceof Error);
    const text = isTold ? String(error) : error.stack ?? String(error);
    console.error(`rank ${rank}: ${text}`);
    for (const end of endings) end();
    sleepSync(LAST_WORDS_MS);
    symbols.MPI_Abort(handles.world, code);
  };
  const failed = (event: Event, error: unknown): void => {
    if (event.defaultPrevented || isLeft) return;
    isLeft = true;
    endAll(error, Deno.exitCode || 1);
  };
  globalThis.addEventListener("unhandledrejection", (event) => failed(event, event.reason));
  globalThis.addEventListener("error", (event) => failed(event, event.error));
  globalThis.addEventListener("unload", () => {
    if (isLeft) return;
    isLeft = true;
    if (world.error !== undefined) return endAll(world.error, Deno.exitCode || 1);
    if (Deno.exitCode !== 0) return endAll(`the program ends with code ${Deno.exitCode}`, Deno.exitCode);
    try {
      world.agree("the end of the program", "");
      world.destroy();
    } catch (error) {
      return endAll(error, 1);
    }
    progress?.close();
    if (isOwn) symbols.MPI_Finalize();
  });
}
