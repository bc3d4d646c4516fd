/**
 * `scope`: memory without waiting for the garbage collector. What a function realizes is freed when it returns, except
 * what its result needs and what belongs to tensors made before.
 *
 * @module
 */
import { releaseStorage } from "../../device/buffer.ts";
import {
  addPending,
  belongsTo,
  notePointed,
  removePending,
  scopeAround,
  ScopeHold,
  type Tracked,
} from "../../device/scopes.ts";
import { currentCapture } from "../../engine/front/listening.ts";
import { runHolding } from "../../helpers/async_local.ts";
import { checkFunction } from "../../helpers/options.ts";
import { Site } from "../../helpers/stack.ts";
import { leavesOf } from "../../helpers/tree.ts";
import { argOf, type Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { forgetOpen } from "../../uop/graph/writes.ts";
import { handlesMade, TensorBase } from "./base.ts";

/** The tensors of a tree and their gradients. */
function tensorsIn(tree: unknown): TensorBase[] {
  const found = leavesOf(tree, (x): x is TensorBase => x instanceof TensorBase);
  return found.flatMap((t) => t.grad ? [t, t.grad] : [t]);
}

/**
 * Runs `fn` and frees the memory of all that it realized, at once, except what its result (a tensor, or a tree of objects
 * and arrays with tensors) needs, and what tensors made before the scope became or were assigned, also through views, and
 * realized or not. A tensor that escapes by another way throws DisposedError when it is used.
 *
 * An async `fn` is waited for: the scope is `fn` and all that it awaits, and frees nothing of what runs beside it. That
 * needs Deno, Node or Bun; in browsers `fn` must be synchronous.
 *
 * What a loop drops while it runs inside, or what results of earlier scopes are dropped, is freed where memory has grown:
 * `for (…) u = scope(() => step(u))` and `scope(() => { for (…) u = step(u); return u; })` take as much memory for 100,000
 * steps as for 100 (where the engine has a collector to call: Deno, Node).
 *
 * ```ts
 * import { scope, Tensor } from "../../../mod.ts";
 * const sum = scope(() => Tensor.ones([1000]).mul(2).contiguous().sum().realize());
 * console.log(await sum.item()); // 2000
 * console.log(await scope(async () => await Tensor.ones([1000]).contiguous().sum().item())); // 1000
 * ```
 *
 * @throws {ArgumentError} for a generator, and in browsers for an async `fn`
 */
export function scope<T>(fn: () => T): T {
  checkFunction("run a scope", "fn", fn);
  if (currentCapture() !== undefined) return fn(); // what a captured function makes belongs to the capture
  const made: Tracked = [], hold = new ScopeHold(made, handlesMade());
  const run = (): T => {
    const result = fn();
    if (result instanceof Promise) addPending(hold);
    return result;
  };
  const end = new Site("the end of scope(), which keeps nothing but what it returns and assigns, at ");
  return runHolding(hold, "scope()", run, (result) => free(hold, made, end, result));
}

/** Frees what was made in a scope, but for what its result needs. */
function free(hold: ScopeHold, made: Tracked, end: Site, result: unknown): void {
  const kept = new Set<Storage>(), memo = new Map<UOp, UOp>(), outer = scopeAround(hold);
  const needed = [...tensorsIn(result), ...hold.older.keys()].map((t) => resolve(t.uop, memo));
  for (const u of toposort(needed)) if (u.op === Ops.BUFFER) kept.add(argOf(u, Ops.BUFFER).storage);
  if (hold.awaitedAt === Infinity) forgetOpen(hold.start, memo); // else others may have made them
  for (const [t, serial] of hold.older) notePointed(t, serial, outer);
  for (const known of made) {
    const storage = known instanceof WeakRef ? known.deref() : known;
    if (storage === undefined) continue; // collected
    if (kept.has(storage) || !belongsTo(storage, hold)) outer?.made?.push(known);
    else {
      storage.disposedAt = end;
      releaseStorage(storage);
    }
  }
  removePending(hold);
}
