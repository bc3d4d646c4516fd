/**
 * `scope`: memory without waiting for the garbage collector. What a function realizes is freed when it returns, except
 * what its result needs and what belongs to tensors made before.
 *
 * @module
 */
import { releaseStorage, trackStorages } from "../device/buffer.ts";
import { currentCapture } from "../engine/realize.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { Site } from "../helpers/stack.ts";
import { leavesOf } from "../helpers/tree.ts";
import type { BufferArg, Storage } from "../uop/args.ts";
import { Ops } from "../uop/ops.ts";
import { resolve } from "../uop/resolve.ts";
import { nodesMade, toposort } from "../uop/uop.ts";
import { TensorBase } from "./base.ts";

/** The tensors of a tree and their gradients. */
function tensorsIn(tree: unknown): TensorBase[] {
  const found = leavesOf(tree, (x): x is TensorBase => x instanceof TensorBase);
  return found.flatMap((t) => t.grad === undefined ? [t] : [t, t.grad]);
}

/**
 * Runs `fn` and frees the memory of all that it realized, at once, except what its result (a tensor, or a tree of objects
 * and arrays with tensors) needs, and what tensors made before the scope became or were assigned. A tensor that escapes
 * by another way throws DisposedError when it is used. Synchronous only.
 *
 * ```ts
 * import { scope, Tensor } from "../../mod.ts";
 * const sum = scope(() => Tensor.ones([1000]).mul(2).contiguous().sum().realize());
 * console.log(await sum.item()); // 2000
 * ```
 *
 * @throws {ArgumentError} if `fn` is asynchronous
 */
export function scope<T>(fn: () => T): T {
  if (currentCapture() !== undefined) return fn(); // what a captured function makes belongs to the capture
  const made: Storage[] = [];
  const start = nodesMade(), outer = trackStorages(made);
  const kept = new Set<Storage>();
  try {
    const result = fn();
    if (result instanceof Promise) {
      result.catch(() => {}); // this error is the one to tell
      throw new ArgumentError("run an async function in scope()", {
        reason: "its memory would be freed before it ends; make it synchronous, or use `using`",
      });
    }
    const memo = new Map();
    for (const t of tensorsIn(result)) {
      for (const u of toposort(resolve(t.uop, memo))) if (u.op === Ops.BUFFER) kept.add((u.arg as BufferArg).storage);
    }
    return result;
  } finally {
    trackStorages(outer);
    const at = new Site("the end of scope() at ");
    for (const storage of made) {
      if (kept.has(storage) || storage.born < start) outer?.push(storage);
      else {
        storage.disposedAt = at;
        releaseStorage(storage);
      }
    }
  }
}
