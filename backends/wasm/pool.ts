/**
 * Helper threads: started once work is worth it, fed with modules through shared memory, never waited for. In Deno and
 * Node they are node:worker_threads, unref'd; in a browser web Workers, which end when nothing came for a while.
 *
 * @module
 */
import { type NodeThreads, nodeThreads } from "../../src/helpers/node.ts";
import type { WasmBlock, WasmMemory } from "./wasm_memory.ts";
import { MODULE_RECORD, RECORD_ALIVE, RECORD_TAKEN, RECORD_TICKET, THREAD_RECORDS, WORDS } from "./wasm_runtime.ts";
import { type HelperData, NODE_SOURCE, WEB_SOURCE } from "./worker.ts";

/** Milliseconds that a web Worker may take to check in. */
const WEB_START = 5000;

/** True where helpers can be started. */
export function canStartThreads(): boolean {
  return nodeThreads() !== undefined || typeof Worker !== "undefined";
}

/** True where this thread may block: everywhere but on the main thread of a browser. */
export function mayBlock(): boolean {
  return typeof (globalThis as { document?: unknown }).document === "undefined";
}

/** The helpers of one device. */
export class Pool {
  private readonly modules: { readonly bytes: Uint8Array; readonly table: number }[] = [];
  private readonly blocks: WasmBlock[] = [];
  private link: number = WORDS.FIRST;
  private published = 0;
  private started = 0;
  /** Helpers by id that were started and have not ended, as far as is known. */
  private readonly running: boolean[] = [];
  private startedAt = 0;
  private tickets = 0;
  private failed = false;
  private url: string | undefined;
  /** An idle web Worker ends after this many nanoseconds. */
  webIdle = 2e9;

  /** @param helpers threads beside this one */
  constructor(readonly memory: WasmMemory, readonly runtime: Uint8Array, readonly helpers: number) {}

  /** Helpers that have checked in. */
  get ready(): number {
    return this.started === 0 ? 0 : Atomics.load(this.memory.i32, WORDS.READY >> 2);
  }

  /** Tells helpers, present and future, of a module that fills the table up to `table`. */
  addModule(bytes: Uint8Array, table: number): void {
    if (this.helpers === 0) return;
    this.modules.push({ bytes, table });
    if (this.started > 0) this.publish();
  }

  private publish(): void {
    const { memory } = this;
    for (; this.published < this.modules.length; this.published++) {
      const { bytes, table } = this.modules[this.published];
      const block = memory.alloc(MODULE_RECORD.SIZE + bytes.length);
      this.blocks.push(block);
      const at = block.address, words = memory.i32;
      memory.u8.set(bytes, at + MODULE_RECORD.SIZE);
      words[(at + MODULE_RECORD.BYTES) >>> 2] = at + MODULE_RECORD.SIZE;
      words[(at + MODULE_RECORD.LENGTH) >>> 2] = bytes.length;
      words[(at + MODULE_RECORD.TABLE) >>> 2] = table;
      words[(at + MODULE_RECORD.NEXT) >>> 2] = 0;
      words[this.link >>> 2] = at;
      this.link = at + MODULE_RECORD.NEXT;
      Atomics.add(words, WORDS.MODULES >> 2, 1);
    }
    this.wake();
  }

  private wake(): void {
    Atomics.add(this.memory.i32, WORDS.SEQ >> 2, 1);
    Atomics.notify(this.memory.i32, WORDS.SEQ >> 2);
  }

  /** Starts what is missing. Returns at once; helpers check in when they are ready. */
  start(): void {
    if (this.helpers === 0 || this.failed) return;
    const node = nodeThreads();
    if (this.started >= this.helpers) {
      // web Workers end when idle: start again once all have, but not while they are on their way
      if (node !== undefined || this.ready > 0 || performance.now() < this.startedAt + WEB_START) return;
      this.started = 0;
      this.running.length = 0;
    }
    this.started = this.helpers;
    this.startedAt = performance.now();
    if (this.published === 0) this.publish();
    try {
      for (let id = 1; id <= this.helpers; id++) {
        if (!this.running[id]) this.running[id] = this.startOne(node, id);
      }
    } catch {
      // without helpers this thread does everything
      this.failed = true;
    }
  }

  /** Starts a helper, unless one that was started before has come after all, or has not gone yet. */
  private startOne(node: NodeThreads | undefined, id: number): boolean {
    const record = THREAD_RECORDS + 64 * id, ticket = ++this.tickets;
    const words = this.memory.i32, at = (record + RECORD_TICKET) >>> 2, had = Atomics.load(words, at);
    if (had === RECORD_TAKEN || Atomics.compareExchange(words, at, had, ticket) !== had) return false;
    const data: HelperData = {
      memory: this.memory.memory,
      runtime: this.runtime,
      record,
      ticket,
      timeout: node === undefined ? this.webIdle : -1,
    };
    if (node !== undefined) {
      const worker = new node.Worker(NODE_SOURCE, { eval: true, workerData: data });
      worker.on("error", () => this.failed = true);
      worker.on("exit", () => this.died(id, record));
      worker.unref();
      return true;
    }
    this.url ??= URL.createObjectURL(new Blob([WEB_SOURCE], { type: "text/javascript" }));
    new Worker(this.url, { type: "module" }).postMessage(data);
    return true;
  }

  /** A helper has ended. Where it did not check out first, that is done for it; `start` replaces it. */
  private died(id: number, record: number): void {
    this.running[id] = false;
    if (this.started > 0) this.started--;
    const words = this.memory.i32;
    Atomics.store(words, (record + RECORD_TICKET) >>> 2, 0);
    if (Atomics.exchange(words, (record + RECORD_ALIVE) >>> 2, 0) !== 0) Atomics.sub(words, WORDS.READY >> 2, 1);
  }

  /** Ends the helpers. */
  close(): void {
    if (this.url !== undefined) URL.revokeObjectURL(this.url);
    this.url = undefined;
    this.failed = true;
    if (this.started === 0) return;
    Atomics.store(this.memory.i32, WORDS.MODULES >> 2, -1);
    this.wake();
    this.started = 0;
  }
}
