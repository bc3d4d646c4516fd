/**
 * Modules of Node, which Deno has too. They are asked for by name at run time: a browser has none, and an import of one
 * would keep it from loading the file.
 *
 * @module
 */

/** A thread of node:worker_threads. */
export interface NodeWorker {
  /** Lets the process end while it lives. */
  unref(): void;
  /** Calls `listener` when it fails, by what, or has ended. */
  on(event: "error" | "exit", listener: (error: unknown) => void): void;
  /** Calls `listener` with what it sends, or when that could not be read. */
  on(event: "message" | "messageerror", listener: (message: unknown) => void): void;
  /** Sends it what its port gets. */
  postMessage(message: unknown): void;
  /** Ends it. */
  terminate(): Promise<unknown>;
}

/** What is used of node:worker_threads. */
export interface NodeThreads {
  /** Runs the text `source` in a thread, which finds `workerData` there. */
  readonly Worker: new (
    source: string,
    options: { readonly eval: true; readonly workerData?: unknown; readonly name?: string },
  ) => NodeWorker;
}

/** What is used of `process`. */
export interface NodeProcess {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly stderr?: { readonly isTTY?: boolean; write(text: string): unknown };
  cwd(): string;
}

/**
 * `process` of Node and Bun; undefined elsewhere, under Deno, too: that has one, but loads modules of Node's as soon as it
 * is named, which takes longer than all that importing the library evaluates.
 */
export function nodeProcess(): NodeProcess | undefined {
  const here = globalThis as { Deno?: unknown; process?: NodeProcess };
  return here.Deno === undefined ? here.process : undefined;
}

/** A module of Node, as "node:v8"; undefined where there is none. */
export function nodeModule(name: string): unknown {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } };
  try {
    return process?.getBuiltinModule?.(name);
  } catch {
    return undefined;
  }
}

/** Threads as Node has them; undefined where there are none. */
export function nodeThreads(): NodeThreads | undefined {
  return nodeModule("node:worker_threads") as NodeThreads | undefined;
}
