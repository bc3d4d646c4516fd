/**
 * The server of VIZ=1 in a thread of its own: it answers also while the program does nothing but compute. In: what the
 * program gives when it is asked, between two of its steps; out: the address. The thread ends with the program.
 *
 * @module
 */
import { nodeThreads, type NodeWorker } from "../../helpers/node.ts";
import { allInUse, answer, PORT, TRIES } from "./server.ts";

/** What a thread begins with. */
interface ThreadData {
  /** The page, without data. */
  readonly html: string;
  /** {@linkcode STATE} and {@linkcode ASKED}. */
  readonly words: Int32Array;
  /** Ports to try, the first of them. */
  readonly first: number;
  /** How many. */
  readonly tries: number;
}

/** What is used of the port of a thread. */
interface ThreadPort {
  on(event: "message", listener: (text: string) => void): void;
  postMessage(message: unknown): void;
}

/** Words that both see: 0 until the thread listens, then its port, or one of these; and how often it has asked. */
const STATE = 0, ASKED = 1, IN_USE = -1, FAILED = -2;
/** Milliseconds that a thread may take to start. */
const START_MS = 5000;

/** A page that is served. */
export interface ServedPage {
  /** Where. */
  readonly url: string;
  /** Answers who has asked, if anybody has: to be called between steps. It costs a read of shared memory. */
  look(): void;
}

/**
 * What the thread does; its text is run, with that of {@linkcode answer}. A request for data waits until the program comes
 * to the end of a step, but not for long where there are data of before.
 */
function serveIn({ html, words, first, tries }: ThreadData, port: ThreadPort, reply: typeof answer): void {
  interface Server {
    readonly addr: { readonly port: number };
  }
  const { Deno: deno } = globalThis as unknown as {
    Deno: {
      serve(options: object, handler: (request: Request) => unknown): Server;
      errors: { AddrInUse: new () => Error };
    };
  };
  const zip = (text: string): Promise<ArrayBuffer> =>
    new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
  let waiting: ((text: string) => void)[] = [], last: string | undefined;
  port.on("message", (text) => {
    last = text;
    for (const come of waiting) come(text);
    waiting = [];
  });
  const text = (): Promise<string> =>
    new Promise((come) => {
      waiting.push(come);
      Atomics.add(words, 1, 1); // a program that computes sees this
      port.postMessage("data"); // one that waits hears this
      if (last !== undefined) setTimeout(() => come(last!), 1000);
    });
  const packed = async (name: string): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    name === "data" ? new Uint8Array(await zip(await text())) : undefined;
  let state = -1;
  for (let p = first; p < first + tries && state === -1; p++) {
    try {
      let own = p;
      const server = deno.serve(
        { hostname: "127.0.0.1", port: p, onListen: () => {} },
        (request) => reply(request, own, () => html, packed),
      );
      state = own = server.addr.port;
    } catch (error) {
      if (!(error instanceof deno.errors.AddrInUse)) state = -2;
    }
  }
  Atomics.store(words, 0, state);
  Atomics.notify(words, 0);
}

/**
 * Serves the page from a thread.
 *
 * @param html the page, without data
 * @param text what it asks for as "data", before it is compressed
 * @param port exactly this one; without, {@linkcode PORT} or one of the next
 * @returns undefined where no thread can serve it
 * @throws {DeviceError} where no port is free
 */
export function servePage(html: string, text: () => string, port: number | undefined): ServedPage | undefined {
  const threads = nodeThreads(), words = new Int32Array(new SharedArrayBuffer(8));
  if (threads === undefined) return undefined;
  const data: ThreadData = { html, words, first: port ?? PORT, tries: port === undefined ? TRIES : 1 };
  let worker: NodeWorker;
  try {
    worker = new threads.Worker(
      `const { workerData, parentPort } = require("node:worker_threads");
(${serveIn})(workerData, parentPort, ${answer});`,
      { eval: true, workerData: data, name: "VIZ" },
    );
    worker.on("error", () => {}); // it cannot serve: said below
    worker.unref();
    Atomics.wait(words, STATE, 0, START_MS);
  } catch {
    return undefined;
  }
  const state = Atomics.load(words, STATE);
  if (state === IN_USE) throw allInUse(port);
  if (state === 0 || state === FAILED) {
    worker.terminate().catch(() => {});
    return undefined;
  }
  let answered = 0;
  const look = (): void => {
    const asked = Atomics.load(words, ASKED);
    if (asked === answered) return;
    answered = asked;
    worker.postMessage(text());
  };
  worker.on("message", look);
  return { url: `http://127.0.0.1:${state}/`, look };
}
