/**
 * Threads that load items: each imports the user's module, and answers lists of indices with the items. In: indices; out:
 * items, or a DataError that says which worker failed and why. A thread that ends is an error of what it was asked for.
 * Threads are Web Workers, or under Node, which has none, node:worker_threads; in Bun's, `process.exit` ends the thread.
 *
 * @module
 */
import { ArgumentError, DataError } from "../../helpers/errors.ts";
import { nodeThreads, type NodeWorker } from "../../helpers/node.ts";

/** What a worker answers. */
interface Answer {
  readonly id: number;
  readonly items?: unknown[];
  readonly batch?: unknown;
  readonly error?: { readonly text: string; readonly stack?: string };
  /** Set when the thread is about to end. */
  readonly ending?: string;
}

/** What is used of a Web Worker. */
interface WebWorker {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: { readonly data: Answer }) => void) | null;
  onerror: ((event: { readonly message?: string; preventDefault?(): void }) => void) | null;
  onmessageerror: (() => void) | null;
  /** Bun tells so when a thread has ended by itself. */
  addEventListener(name: "close", listener: () => void): void;
}
/** A thread of either kind. */
interface Thread {
  send(message: unknown): void;
  end(): void;
}
/** What becomes of a thread. */
interface Told {
  answered(answer: Answer): void;
  ended(why: string): void;
}

const UNREAD = "its answer could not be read";

/** What an error says: Bun tells it with the lines of code around it. */
function errorLine(message: string): string {
  return /\n(?:error: )?(\S.*)\n +at /.exec(message)?.[1] ?? message;
}

/**
 * What runs in a thread. It is text, so that it needs no file beside a bundle. The first message names the module; `close`
 * and `exit` would end the thread without an event, so they tell first; not where Node.js ends it so for an error, which
 * has an event.
 */
const SOURCE = `
let source, collate;
const post = (message) => postMessage(message);
const failed = (e) => ({ text: e instanceof Error ? e.name + ": " + e.message : String(e), stack: e?.stack });
if (self.process?.versions?.bun) self.close ??= self.stop = process.exit.bind(process);
const ends = (how, end) => (...args) => { if (!self.thrown) post({ id: -1, ending: how }); end(...args); };
try { self.close = ends("it called close()", self.close.bind(self)); } catch {}
try { if (self.Deno) Deno.exit = ends("it called Deno.exit()", self.close.bind(self)); } catch {}
try { if (self.stop) process.exit = ends("it called process.exit()", self.stop); } catch {}
async function open({ module, worker, workers }) {
  const m = await import(module), given = m.dataset ?? m.default;
  source = typeof given === "function" ? await given({ worker, workers }) : given;
  if (Array.isArray(source)) { const list = source; source = { get: (i) => list[i] }; }
  if (typeof source?.get !== "function") throw new TypeError("the module exports no dataset with get(index)");
  collate = m.collate;
}
let ready;
onmessage = async ({ data }) => {
  if (data.module) { ready = open(data); ready.catch(() => {}); return; }
  const { id, indices } = data;
  try {
    await ready;
    const items = await Promise.all(indices.map((i) => source.get(i)));
    post(collate ? { id, batch: await collate(items) } : { id, items });
  } catch (e) { post({ id, error: failed(e) }); }
};`;

/** What makes of a thread of Node one in which {@linkcode SOURCE} runs. */
const NODE_SOURCE = `
const { parentPort } = require("node:worker_threads");
const stop = process.exit.bind(process);
Object.assign(globalThis, { self: globalThis, stop, close: () => stop(), postMessage: (m) => parentPort.postMessage(m) });
process.on("uncaughtExceptionMonitor", () => { self.thrown = true; });
parentPort.on("message", (data) => onmessage({ data }));
${SOURCE}`;

/** Starts Web Workers; undefined where there are none. */
function webWorkers(url: string): ((name: string, told: Told) => Thread) | undefined {
  const { Worker: Make } = globalThis as {
    Worker?: new (url: string, options: { type: "module"; name: string }) => WebWorker;
  };
  if (Make === undefined) return undefined;
  return (name, told) => {
    const thread = new Make(url, { type: "module", name });
    thread.onmessage = ({ data }) => told.answered(data);
    thread.onerror = (event) => {
      event.preventDefault?.();
      told.ended(errorLine(event.message ?? "it failed"));
    };
    thread.onmessageerror = () => told.ended(UNREAD);
    thread.addEventListener("close", () => told.ended("the worker has ended"));
    return {
      send: (message) => thread.postMessage(message),
      end: () => {
        thread.onmessage = thread.onerror = thread.onmessageerror = null;
        thread.terminate();
      },
    };
  };
}

/** Starts threads of Node; undefined where there are none. */
function nodeWorkers(): ((name: string, told: Told) => Thread) | undefined {
  const Make = nodeThreads()?.Worker;
  if (Make === undefined) return undefined;
  return (name, told) => {
    const thread: NodeWorker = new Make(NODE_SOURCE, { eval: true, name });
    let isOpen = true;
    const ended = (why: string): void => isOpen ? told.ended(why) : undefined;
    thread.on("message", (answer) => isOpen ? told.answered(answer as Answer) : undefined);
    thread.on("messageerror", () => ended(UNREAD));
    thread.on("error", (error) => ended(error instanceof Error ? error.message : String(error)));
    thread.on("exit", () => ended("the worker has ended"));
    return {
      send: (message) => thread.postMessage(message),
      end: () => {
        isOpen = false;
        thread.terminate().catch(() => undefined);
      },
    };
  };
}

interface Waiting {
  readonly indices: readonly number[];
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
  timer?: ReturnType<typeof setTimeout>;
}

/**
 * Where a thread finds a module: paths count from the root, and in pages from the page. @throws {ArgumentError} for a path
 * from a place that nobody knows
 */
function moduleUrl(module: string | URL): string {
  const text = String(module), { location } = globalThis as { location?: { readonly href: string } };
  if (!/^\.{0,2}\//.test(text)) return text;
  if (location !== undefined) return new URL(text, location.href).href;
  if (text[0] === "/") return `file://${text.split("/").map(encodeURIComponent).join("/")}`;
  throw new ArgumentError("start workers", { reason: `workerModule must be new URL("${text}", import.meta.url)` });
}

/** Threads that load items of one module. */
export class WorkerPool {
  private readonly threads: Thread[] = [];
  private readonly waiting = new Map<number, Waiting & { readonly worker: number }>();
  /** Why a worker answers no more. */
  private readonly dead = new Map<number, string>();
  private readonly url: string;
  private next = 0;

  /** @throws {ArgumentError} where the runtime has no workers, or the module is not to be found */
  constructor(module: string | URL, count: number, private readonly timeoutMs: number) {
    const from = moduleUrl(module);
    this.url = URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" }));
    const start = webWorkers(this.url) ?? nodeWorkers();
    if (start === undefined) {
      throw new ArgumentError("start workers", { reason: "this runtime has no threads; load with numWorkers: 0" });
    }
    for (let worker = 0; worker < count; worker++) {
      const thread = start(`data ${worker}`, {
        answered: (answer) => this.answered(worker, answer),
        ended: (why) => this.ended(worker, why),
      });
      thread.send({ module: from, worker, workers: count });
      this.threads.push(thread);
    }
  }

  /** The items at `indices`, or what the module's own collate function made of them. @throws {DataError} */
  load(indices: readonly number[]): Promise<{ readonly items?: unknown[]; readonly batch?: unknown }> {
    const id = this.next++, worker = id % this.threads.length;
    return new Promise((resolve, reject) => {
      const waiting: Waiting & { readonly worker: number } = { indices, resolve, reject, worker };
      const why = this.dead.get(worker);
      if (why !== undefined) return reject(this.failure(waiting, why));
      this.waiting.set(id, waiting);
      if (this.timeoutMs > 0) {
        waiting.timer = setTimeout(
          () => this.ended(worker, `it did not answer within ${this.timeoutMs} ms`),
          this.timeoutMs,
        );
      }
      this.threads[worker].send({ id, indices });
    });
  }

  /** Ends the threads; what they still load is given up. */
  close(): void {
    for (const thread of this.threads) thread.end();
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    this.waiting.clear();
    this.threads.length = 0;
    URL.revokeObjectURL(this.url);
  }

  private failure({ indices, worker }: Waiting & { readonly worker: number }, why: string, stack?: string): DataError {
    const some = `${indices.slice(0, 5).join(", ")}${indices.length > 5 ? ", ..." : ""}`;
    const cause = stack === undefined ? undefined : Object.assign(new Error(why), { stack });
    return new DataError(`load items ${some} in worker ${worker}`, { reason: why, cause });
  }

  private answered(worker: number, answer: Answer): void {
    if (answer.ending !== undefined) return this.ended(worker, `the worker has ended: ${answer.ending}`);
    const waiting = this.waiting.get(answer.id);
    if (waiting === undefined) return;
    this.waiting.delete(answer.id);
    clearTimeout(waiting.timer);
    if (answer.error === undefined) waiting.resolve(answer);
    else waiting.reject(this.failure(waiting, answer.error.text, answer.error.stack));
  }

  /** All that a worker was asked for, and will be, fails. */
  private ended(worker: number, why: string): void {
    if (this.dead.has(worker)) return;
    this.dead.set(worker, why);
    for (const [id, waiting] of this.waiting) {
      if (waiting.worker !== worker) continue;
      this.waiting.delete(id);
      clearTimeout(waiting.timer);
      waiting.reject(this.failure(waiting, why));
    }
  }
}
