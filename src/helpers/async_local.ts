/**
 * What holds for a function and all that it awaits, and for nothing that runs beside it: values of context variables, the
 * list of a `scope`. While the function runs synchronously a plain variable says what holds; across its awaits the
 * runtime's AsyncLocalStorage does (Deno, Node, Bun; AsyncContext where the engine has it). That is asked only while such
 * an async function is pending: otherwise a read costs a comparison. Browsers have none, so there it is an error.
 *
 * @module
 */
import { ArgumentError } from "./errors.ts";
import { nodeModule } from "./node.ts";

/** One thing that holds, within others. Each kind is a class of its own. */
export abstract class Hold {
  /** False once its function has ended: what that left running sees it no more. */
  isOpen: boolean = true;
  /** What graphs that are built while it holds depend on, as text: a captured call is keyed by it. */
  readonly building: string = "";
  /** @param outer what held where it began */
  protected constructor(readonly outer: Hold | undefined) {}
}

/** Carries a value across awaits. */
interface AsyncLocal {
  run<R>(value: Hold | undefined, fn: () => R): R;
  get(): Hold | undefined;
}
interface Constructors {
  readonly AsyncContext?: {
    readonly Variable?: new () => { run<R>(value: Hold | undefined, fn: () => R): R; get(): Hold | undefined };
  };
}
interface Hooks {
  readonly AsyncLocalStorage?: new () => {
    run<R>(value: Hold | undefined, fn: () => R): R;
    getStore(): Hold | undefined;
  };
}

function findLocal(): AsyncLocal | null {
  const Variable = (globalThis as Constructors).AsyncContext?.Variable;
  if (typeof Variable === "function") return new Variable();
  const Storage = (nodeModule("node:async_hooks") as Hooks | undefined)?.AsyncLocalStorage;
  if (typeof Storage !== "function") return null;
  const storage = new Storage();
  return { run: (value, fn) => storage.run(value, fn), get: () => storage.getStore() };
}

/** Found when something first holds; null where there is none. */
let local: AsyncLocal | null | undefined;
/** What holds for the code that runs synchronously now. */
let top: Hold | undefined;
/** Async functions that something holds for and that have not ended. */
let pending = 0;

/** What holds here, innermost first by `outer`. */
export function currentHold(): Hold | undefined {
  if (top === undefined && pending === 0) return undefined;
  return openHold(top ?? local!.get());
}

/** The innermost of these that has not ended. */
export function openHold(hold: Hold | undefined): Hold | undefined {
  while (hold !== undefined && !hold.isOpen) hold = hold.outer;
  return hold;
}

function isThenable(x: unknown): x is PromiseLike<unknown> {
  return typeof x === "object" && x !== null && typeof (x as { then?: unknown }).then === "function";
}

/** Whether something is what a generator function returns, whose body has not run. */
export function isGenerator(x: unknown): boolean {
  if (typeof x !== "object" || x === null) return false;
  const tag = (x as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === "Generator" || tag === "AsyncGenerator";
}

/**
 * Runs `fn` while `hold` holds, and `end` with its result (undefined where it fails) when it has ended: for an async `fn`
 * when it settles; then a promise is returned. `where` names the caller in errors.
 *
 * @throws {ArgumentError} for an async `fn` where the engine cannot tell it from others, and for a generator
 */
export function runHolding<T>(hold: Hold, where: string, fn: () => T, end: (result: unknown) => void): T {
  if (local === undefined) local = findLocal();
  const before = top;
  top = hold;
  let result: T;
  try {
    result = local === null ? fn() : local.run(hold, fn);
    if (isGenerator(result)) {
      throw new ArgumentError(`run a generator in ${where}`, {
        reason: `its body runs when it is asked for values, after ${where} has ended; call ${where} inside of it`,
      });
    }
    if (isThenable(result)) {
      if (local === null) {
        result.then(undefined, () => {}); // this error is the one to tell
        throw new ArgumentError(`run an async function in ${where}`, {
          reason: "this engine cannot tell what runs in it from what runs beside it (it has no AsyncLocalStorage); " +
            "give it a synchronous function that returns tensors, and await their values outside",
        });
      }
      return wait(hold, result, end) as T;
    }
  } catch (error) {
    hold.isOpen = false;
    end(undefined);
    throw error;
  } finally {
    top = before;
  }
  hold.isOpen = false;
  end(result);
  return result;
}

/** Keeps `hold` open until `result` settles. */
function wait(hold: Hold, result: PromiseLike<unknown>, end: (result: unknown) => void): Promise<unknown> {
  pending++;
  const close = (value: unknown): void => {
    pending--;
    hold.isOpen = false;
    end(value);
  };
  // a thenable that does its work when it is asked does it in here
  const promise = result instanceof Promise ? result : local!.run(hold, () => Promise.resolve(result));
  return promise.then((value) => {
    close(value);
    return value;
  }, (error) => {
    close(undefined);
    throw error;
  });
}
