/**
 * A thread that lets MPI move what is under way while kernels run: libraries do that in their own calls alone, and the
 * thread of the program makes none meanwhile. It sleeps while nothing is under way, and little between two calls.
 *
 * @module
 */
import { nodeThreads } from "../helpers/node.ts";
import type { MpiLibrary } from "./mpi_library.ts";

/** Words that are shared with the thread: what it is to do, something that nobody wakes it by, whether it lives. */
const ORDER = 0, NEVER = 1, ALIVE = 2;
const REST = 0, POLL = 1, END = 2;
/** Messages that nobody sends: asking for them is a call that only moves things on. */
const TAG = 3;
/** Between two calls, in milliseconds. */
const PAUSE_MS = 0.05;
/** What the end waits for the thread, at most. */
const LAST_CALL_MS = 1000;

/** What the thread is given. */
interface HelperData {
  readonly path: string;
  readonly list: Int32Array<SharedArrayBuffer>;
  readonly group: bigint;
  readonly rank: number;
  readonly ignore: bigint;
}

const HELPER = `
const { path, list, group, rank, ignore } = require("node:worker_threads").workerData;
const { symbols } = Deno.dlopen(path, {
  MPI_Iprobe: { parameters: ["i32", "i32", "u64", "buffer", "u64"], result: "i32" },
});
const flag = new Int32Array(new ArrayBuffer(4));
Atomics.store(list, ${ALIVE}, 1);
for (let order = ${REST}; order !== ${END}; order = Atomics.load(list, ${ORDER})) {
  if (order === ${REST}) Atomics.wait(list, ${ORDER}, ${REST});
  else {
    symbols.MPI_Iprobe(rank, ${TAG}, group, flag, ignore);
    Atomics.wait(list, ${NEVER}, 0, ${PAUSE_MS});
  }
}
Atomics.store(list, ${ALIVE}, 0);
Atomics.notify(list, ${ALIVE});
`;

/** The thread of a process that has entered MPI for many threads. */
export class MpiProgress {
  private readonly list: Int32Array<SharedArrayBuffer> = new Int32Array(new SharedArrayBuffer(16));
  /** Communicators with something under way. */
  private readonly busy = new Set<object>();

  /** Starts it. @param group a communicator of this `rank` @returns undefined where there are no threads */
  static start({ path, handles }: MpiLibrary, group: bigint, rank: number): MpiProgress | undefined {
    const threads = nodeThreads(), made = new MpiProgress();
    if (threads === undefined) return undefined;
    try {
      const workerData: HelperData = { path, list: made.list, group, rank, ignore: handles.statusIgnore };
      const worker = new threads.Worker(HELPER, { eval: true, workerData, name: "MPI" });
      worker.on("error", () => {}); // then things move when the program waits
      worker.unref();
      return made;
    } catch {
      return undefined;
    }
  }

  /** Says whether `owner` has something under way. */
  note(owner: object, isBusy: boolean): void {
    const before = this.busy.size;
    if (isBusy) this.busy.add(owner);
    else this.busy.delete(owner);
    if ((before > 0) !== (this.busy.size > 0)) this.order(before > 0 ? REST : POLL);
  }

  /** Ends it, before the library ends. */
  close(): void {
    this.order(END);
    if (Atomics.load(this.list, ALIVE) === 1) Atomics.wait(this.list, ALIVE, 1, LAST_CALL_MS);
  }

  private order(what: number): void {
    if (Atomics.exchange(this.list, ORDER, what) !== what) Atomics.notify(this.list, ORDER);
  }
}
