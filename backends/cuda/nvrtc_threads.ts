/**
 * Threads that compile beside the calling one. They share the process and so the programs of NVRTC: the caller makes them
 * and reads the results, the others only call nvrtcCompileProgram on handles that they take from a list in shared memory.
 * The caller works on the list too, then blocks until all is done; so a helper that starts late, or never, does no harm.
 *
 * The helper is one node:worker_threads Worker, unref'd, whose calls are nonblocking ones: each has a thread of Deno's pool,
 * which costs far less than an isolate of its own. It ends when nothing came for a while, or when the library is closed.
 *
 * @module
 */
import { cString } from "../../src/device/foreign.ts";
import { nodeThreads } from "../../src/helpers/node.ts";
import { addressOf } from "./driver.ts";

/**
 * 32-bit words of the list: how many programs were added, taken and done since the start; a number that changes when there is
 * something new; 1 while the helper lives; 1 at the end.
 */
const ADDED = 0, TAKEN = 1, DONE = 2, NEWS = 3, ALIVE = 4, CLOSED = 5, HEAD = 16;
/** Programs in the list at a time. Each has words: its handle (two), and what the compiler said. */
const ROOM = 1024, ENTRY = 4, STATUS = 2;
/** Milliseconds after which an idle helper ends. */
const IDLE_MS = 5000;
/** Programs that the caller compiles in the time that a helper takes to start. */
const ALONE = 2;

/** What the helper is started with. */
interface HelperData {
  /** The library, as dlopen takes it. */
  readonly path: string;
  readonly list: Int32Array<SharedArrayBuffer>;
  /** Programs that it compiles at a time. */
  readonly lanes: number;
  /** The options: how many, and the address of their addresses. */
  readonly count: number;
  readonly options: bigint;
}

const HELPER = `
const { path, list, lanes, count, options } = require("node:worker_threads").workerData;
const handles = new BigUint64Array(list.buffer);
const library = Deno.dlopen(path, {
  nvrtcCompileProgram: { parameters: ["u64", "i32", "u64"], result: "i32", nonblocking: true },
});
function take() {
  for (;;) {
    const n = Atomics.load(list, ${TAKEN});
    if (n >= Atomics.load(list, ${ADDED})) return -1;
    if (Atomics.compareExchange(list, ${TAKEN}, n, n + 1) === n) return n;
  }
}
async function lane() {
  for (let n = take(); n >= 0; n = take()) {
    const at = ${HEAD} + n % ${ROOM} * ${ENTRY};
    list[at + ${STATUS}] = await library.symbols.nvrtcCompileProgram(handles[at >> 1], count, options);
    Atomics.add(list, ${DONE}, 1);
    Atomics.notify(list, ${DONE});
  }
}
async function live() {
  while (Atomics.load(list, ${CLOSED}) === 0) {
    const news = Atomics.load(list, ${NEWS});
    await Promise.all(Array.from({ length: lanes }, lane));
    if (Atomics.wait(list, ${NEWS}, news, ${IDLE_MS}) === "timed-out") break;
  }
  library.close();
  Atomics.store(list, ${ALIVE}, 0);
}
live();
`;

/** Compiles programs of one library, all with the same options. */
export class CompileThreads {
  private readonly list: Int32Array<SharedArrayBuffer> = new Int32Array(
    new SharedArrayBuffer(4 * (HEAD + ROOM * ENTRY)),
  );
  private readonly handles: BigUint64Array<SharedArrayBuffer> = new BigUint64Array(this.list.buffer);
  private readonly texts: readonly Uint8Array<ArrayBuffer>[];
  private readonly pointers: BigUint64Array<ArrayBuffer>;
  private readonly address: bigint;
  private failed = false;

  /**
   * @param path the library, as it was opened
   * @param compile nvrtcCompileProgram on this thread
   * @param lanes programs that others compile at a time
   */
  constructor(
    private readonly path: string,
    options: readonly string[],
    private readonly compile: (program: bigint, count: number, options: bigint) => number,
    private readonly lanes: number,
  ) {
    this.texts = options.map(cString);
    this.pointers = BigUint64Array.from(this.texts, addressOf);
    this.address = addressOf(new Uint8Array(this.pointers.buffer));
  }

  /** Compiles programs by handle; what the compiler said of each. Returns when all are done. */
  run(programs: readonly bigint[]): number[] {
    const statuses: number[] = [];
    for (let at = 0; at < programs.length; at += ROOM) statuses.push(...this.some(programs.slice(at, at + ROOM)));
    return statuses;
  }

  private some(programs: readonly bigint[]): number[] {
    const { list, handles } = this, first = Atomics.load(list, ADDED), end = first + programs.length;
    const place = (n: number): number => HEAD + n % ROOM * ENTRY;
    programs.forEach((p, i) => handles[place(first + i) >> 1] = p);
    Atomics.store(list, ADDED, end);
    this.tell();
    if (programs.length > ALONE) this.start();
    for (;;) {
      const n = Atomics.load(list, TAKEN);
      if (n >= end) break;
      if (Atomics.compareExchange(list, TAKEN, n, n + 1) !== n) continue;
      list[place(n) + STATUS] = this.compile(handles[place(n) >> 1], this.texts.length, this.address);
      Atomics.add(list, DONE, 1);
    }
    for (;;) {
      const done = Atomics.load(list, DONE);
      if (done >= end) break;
      Atomics.wait(list, DONE, done);
    }
    return programs.map((_, i) => list[place(first + i) + STATUS]);
  }

  /** Wakes the helper. */
  private tell(): void {
    Atomics.add(this.list, NEWS, 1);
    Atomics.notify(this.list, NEWS);
  }

  /** Starts the helper, where there can be one and none lives. */
  private start(): void {
    const { path, list, lanes, texts, address } = this;
    if (lanes < 1 || this.failed || Atomics.compareExchange(list, ALIVE, 0, 1) !== 0) return;
    try {
      const { Worker } = nodeThreads()!;
      const workerData: HelperData = { path, list, lanes, count: texts.length, options: address };
      const worker = new Worker(HELPER, { eval: true, workerData, name: "NVRTC" });
      worker.on("error", () => this.failed = true);
      worker.unref();
    } catch {
      this.failed = true; // this thread does it all
    }
  }

  /** Ends the helper. */
  close(): void {
    this.failed = true;
    Atomics.store(this.list, CLOSED, 1);
    this.tell();
  }
}
