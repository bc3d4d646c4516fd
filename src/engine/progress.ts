/**
 * Telling that kernels are being compiled, which may take seconds: listeners of `onCompile`, and a line on a terminal where
 * it takes more than one (`compiling 37 kernels, 12 done`), rewritten in place and removed at the end.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { checkFunction } from "../helpers/options.ts";
import { nodeProcess } from "../helpers/node.ts";

/** How far compiling has come. */
export interface CompileEvent {
  /** For which device. */
  readonly device: string;
  /** Kernels that are compiled together. */
  readonly total: number;
  /** Of these so many are done: 0 at the start, `total` at the end. */
  readonly done: number;
}

/** Is told how many kernels are done, and for how many milliseconds nothing else will be told, as far as is known. */
export type CompileProgress = (done: number, nextMs: number) => void;

/** Shorter waits need no line. */
const LONG_MS = 1000;

interface DenoLike {
  readonly stderr?: { isTerminal?(): boolean; writeSync?(bytes: Uint8Array): number };
}

/** Standard error; a test puts another in its place. */
export const terminal: { isThere(): boolean; write(text: string): void } = {
  isThere(): boolean {
    const { Deno: deno } = globalThis as { Deno?: DenoLike };
    return (deno !== undefined ? deno.stderr?.isTerminal?.() : nodeProcess()?.stderr?.isTTY) === true;
  },
  write(text: string): void {
    const { Deno: deno } = globalThis as { Deno?: DenoLike };
    if (deno?.stderr?.writeSync !== undefined) deno.stderr.writeSync(new TextEncoder().encode(text));
    else nodeProcess()?.stderr?.write(text);
  },
};

const listeners = new Set<(event: CompileEvent) => void>();

/**
 * Calls `listener` whenever kernels are compiled: as they begin, as some are done, and at the end. Compiling is
 * synchronous, so what the listener starts asynchronously runs after it. Returns a function that ends this.
 *
 * ```ts
 * import { onCompile, Tensor } from "../../mod.ts";
 * const seen: string[] = [];
 * const stop = onCompile(({ device, total, done }) => seen.push(`${device} ${done}/${total}`));
 * Tensor.ones([3], { device: "JS" }).contiguous().add(0.125).realize();
 * stop();
 * console.log(seen.at(0), seen.at(-1)); // JS 0/1 JS 1/1
 * ```
 *
 * @throws {ArgumentError} unless `listener` is a function
 */
export function onCompile(listener: (event: CompileEvent) => void): () => void {
  checkFunction("listen to compiling", "the listener", listener);
  // a function given twice is two listeners
  const own = (event: CompileEvent): void => listener(event);
  listeners.add(own);
  return () => void listeners.delete(own);
}

/** Runs `work`, which compiles `total` kernels, and tells how far it is; of tuning them, only on a terminal. */
export function tellingProgress<T>(
  device: string,
  total: number,
  work: (progress: CompileProgress) => T,
  doing: "compiling" | "tuning" = "compiling",
): T {
  const start = performance.now();
  let written = -1, last = -1;
  const tell: CompileProgress = (done, nextMs) => {
    if (done !== last && doing === "compiling") {
      last = done;
      for (const listener of listeners) listener({ device, total, done });
    }
    if (written === done) return;
    const isLong = written >= 0 || performance.now() - start + nextMs >= LONG_MS;
    if (!isLong || envNumber("PROGRESS") === 0 || !terminal.isThere()) return;
    written = done;
    terminal.write(`\r\x1b[K${doing} ${total} ${total === 1 ? "kernel" : "kernels"}, ${done} done`);
  };
  try {
    tell(0, 0);
    const result = work(tell);
    tell(total, 0);
    return result;
  } finally {
    if (written >= 0) terminal.write("\r\x1b[K");
  }
}
