/**
 * The source of a helper thread, as text: no file is read and no permission asked. It instantiates the runtime and every
 * published module on the shared memory, then lives in the runtime's `work`.
 *
 * @module
 */
import { MODULE_RECORD, RECORD_ALIVE, RECORD_TAKEN, RECORD_TICKET, WORDS } from "./wasm_runtime.ts";

/** What a helper is started with. */
export interface HelperData {
  readonly memory: WebAssembly.Memory;
  readonly runtime: Uint8Array;
  /** Address of its thread record. */
  readonly record: number;
  /** What its record must say, so that it is its. */
  readonly ticket: number;
  /** Nanoseconds after which an idle helper ends; −1 for never. */
  readonly timeout: number;
}

const LIFE = `
function live(d, quit) {
  const table = new WebAssembly.Table({ element: "anyfunc", initial: 1024 });
  const runtime = new WebAssembly.Instance(new WebAssembly.Module(d.runtime), { e: { m: d.memory, t: table } }).exports;
  const e = { m: d.memory, t: table, r: d.record };
  const timeout = BigInt(d.timeout);
  let loaded = 0, link = ${WORDS.FIRST};
  const here = (value) => {
    const words = new Int32Array(d.memory.buffer);
    Atomics.store(words, (d.record + ${RECORD_ALIVE}) >>> 2, value);
    Atomics.add(words, ${WORDS.READY >> 2}, value ? 1 : -1);
  };
  const ticket = (d.record + ${RECORD_TICKET}) >>> 2, first = new Int32Array(d.memory.buffer);
  if (Atomics.compareExchange(first, ticket, d.ticket, ${RECORD_TAKEN}) !== d.ticket) return quit();
  here(1);
  for (;;) {
    const words = new Int32Array(d.memory.buffer);
    const count = Atomics.load(words, ${WORDS.MODULES >> 2});
    if (count < 0) break;
    while (loaded < count) {
      const record = words[link >>> 2];
      const at = words[(record + ${MODULE_RECORD.BYTES}) >>> 2], n = words[(record + ${MODULE_RECORD.LENGTH}) >>> 2];
      if (at === undefined || (at >>> 0) + n > d.memory.buffer.byteLength) break;
      const bytes = new Uint8Array(d.memory.buffer, at >>> 0, n).slice();
      const size = words[(record + ${MODULE_RECORD.TABLE}) >>> 2];
      if (table.length < size) table.grow(Math.max(size, table.length * 2) - table.length);
      new WebAssembly.Instance(new WebAssembly.Module(bytes), { e });
      link = record + ${MODULE_RECORD.NEXT};
      loaded++;
    }
    if (loaded < count) continue;
    try {
      if (runtime.work(loaded, timeout) === 1) break;
    } catch {
      Atomics.store(words, ${WORDS.ERROR >> 2}, 1);
      Atomics.sub(words, ${WORDS.GATE >> 2}, 1);
    }
  }
  here(0);
  Atomics.store(new Int32Array(d.memory.buffer), ticket, 0);
  quit();
}
`;

/** For node:worker_threads, started with `eval`: the data comes as `workerData`. */
export const NODE_SOURCE: string = `${LIFE}live(require("node:worker_threads").workerData, () => {});`;

/** For a web Worker: the data comes as the first message. */
export const WEB_SOURCE: string = `${LIFE}onmessage = (m) => live(m.data, () => close());`;
