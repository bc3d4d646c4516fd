/**
 * Context variables: what tinygrad's users set as environment variables, here also as `context({ DEBUG: 2 }, fn)`.
 * The environment is read only where the permission is already granted (never a prompt). The one file left of
 * `program` that may touch `Deno.*`.
 *
 * @module
 */

/** Every context variable: default and meaning. A number default makes it numeric. */
export const CONTEXT_VARS = {
  DEV: { value: "", doc: "the default device by name, as CLANG or CUDA:1" },
  DEBUG: {
    value: 0,
    doc: "how much to print: 1 devices and schedules, 2 kernels, 3 opts, 4 source, 5 linear UOps, 6 rewrites",
  },
  NOOPT: { value: 0, doc: "1 turns all kernel optimizations off" },
  BEAM: { value: 0, doc: "beam width of the kernel search, 0 for the heuristic" },
  JIT: { value: 1, doc: "0 makes jit() call the function each time" },
  SPEC: { value: 0, doc: "1 checks the legal UOps of each stage between passes" },
  TRACEMETA: { value: 0, doc: "1 records the user's line for each op (implied by DEBUG >= 2)" },
  TRACK_MATCH_STATS: { value: 0, doc: "1 counts tries, hits and time per rewrite rule" },
  NO_MEMORY_PLANNER: { value: 0, doc: "1 gives each intermediate its own buffer" },
  SCACHE: { value: 1, doc: "0 turns the schedule cache off" },
  TRAINING: { value: 0, doc: "1 inside Tensor.train: dropout drops, batchnorm uses batch statistics" },
  THREADS: { value: 0, doc: "threads of CPU devices, 0 for one a core" },
  CACHEDIR: { value: "", doc: "where compiled kernels are kept; default is the user's cache folder" },
  CC: { value: "", doc: "the C compiler of the CLANG device" },
  DEBUG_MEMORY: { value: 0, doc: "1 records the creating line of each live tensor" },
  DEFAULT_FLOAT: { value: "float32", doc: "dtype of floating-point values without one" },
} as const;

/** The name of a context variable. */
export type ContextVar = keyof typeof CONTEXT_VARS;
/** Values to set with {@linkcode context}. */
export type ContextValues = {
  readonly [K in ContextVar]?: typeof CONTEXT_VARS[K]["value"] extends number ? number : string;
};

const values = new Map<ContextVar, number | string>();

interface DenoLike {
  permissions: { querySync(d: { name: string; variable?: string }): { state: string } };
  env: { get(name: string): string | undefined };
}

/** The environment variable `name`, or undefined where it is unset or the permission is not granted. */
export function readEnv(name: string): string | undefined {
  const deno = (globalThis as { Deno?: DenoLike }).Deno;
  if (!deno?.permissions?.querySync) return undefined;
  try {
    return deno.permissions.querySync({ name: "env", variable: name }).state === "granted"
      ? deno.env.get(name)
      : undefined;
  } catch {
    return undefined;
  }
}

function lookup(name: ContextVar): number | string {
  const fallback = CONTEXT_VARS[name].value;
  const text = readEnv(name);
  let value: number | string = fallback;
  if (text !== undefined) value = typeof fallback === "number" ? (Number(text) || 0) : text;
  values.set(name, value);
  return value;
}

/** The numeric context variable `name` now. */
export function envNumber(name: ContextVar): number {
  return (values.get(name) ?? lookup(name)) as number;
}

/** The textual context variable `name` now. */
export function envText(name: ContextVar): string {
  return String(values.get(name) ?? lookup(name));
}

/** Sets a context variable until it is set again. Prefer {@linkcode context}. */
export function setEnv(name: ContextVar, value: number | string): void {
  values.set(name, value);
}

/**
 * Runs `fn` with context variables set, and restores them afterwards (for an async `fn`, when it settles).
 *
 * ```ts
 * import { context } from "../../mod.ts";
 * context({ NOOPT: 1 }, () => 1 + 1);
 * ```
 */
export function context<T>(set: ContextValues, fn: () => T): T {
  const saved: [ContextVar, number | string][] = [];
  for (const name of Object.keys(set) as ContextVar[]) {
    if (!(name in CONTEXT_VARS)) throw new TypeError(`Cannot set context variable ${name}: no such variable`);
    saved.push([name, values.get(name) ?? lookup(name)]);
    values.set(name, set[name]!);
  }
  const restore = () => {
    for (const [name, value] of saved) values.set(name, value);
  };
  let result: T;
  try {
    result = fn();
  } catch (error) {
    restore();
    throw error;
  }
  if (result instanceof Promise) return result.finally(restore) as T;
  restore();
  return result;
}
