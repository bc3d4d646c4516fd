/**
 * Context variables: what tinygrad's users set as environment variables, here also as `context({ DEBUG: 2 }, fn)`.
 * The environment is read only where the permission is already granted (never a prompt). The one file left of
 * `program` that may touch `Deno.*`.
 *
 * @module
 */
import { currentHold, Hold, openHold, runHolding } from "./async_local.ts";
import { ArgumentError } from "./errors.ts";
import { checkFunction, describe, isPlain } from "./options.ts";
import { nodeProcess } from "./node.ts";
import { spans } from "./spans.ts";

/**
 * Every context variable and its default. A number as that makes it numeric. `early` marks those that are read once,
 * when a device opens. docs/env.md is made of this table and what stands above its rows: `deno run -A bench/env_docs.ts`.
 */
export const CONTEXT_VARS = {
  /** The default device by name, as CLANG or CUDA:1; empty for the best that is available. */
  DEV: { value: "" },
  /**
   * How much to print on standard error, each level with those before it: 1 devices as they open, schedules, compiling
   * and captures; 2 a line for each kernel and copy as it ends, and which passes took the time of compiling; 3 applied
   * opts and buffers; 4 the kernel AST as a tree and the generated source; 5 the linear UOps; 6 every rewrite.
   */
  DEBUG: { value: 0 },
  /** 0 writes no line on a terminal while compiling takes more than a second. */
  PROGRESS: { value: 1 },
  /** 1 prints without colors (on a terminal; elsewhere there are none). */
  NO_COLOR: { value: 0 },
  /** 1 records the user's line with each operation; DEBUG >= 2, DEBUG_MEMORY and `record` do so too. */
  TRACEMETA: { value: 0 },
  /**
   * 1 records the line that made each tensor, lists the tensors in Device.memory(), and prints those that are left
   * when the process ends.
   */
  DEBUG_MEMORY: { value: 0 },
  /** 1 inside Tensor.train: dropout drops, batch normalization uses the batch. */
  TRAINING: { value: 0 },
  /** 0 inside Tensor.noGrad: what is computed there is a constant to gradients. */
  GRAD: { value: 1 },
  /** Dtype of integers without one, where they fit. */
  DEFAULT_INT: { value: "int32" },
  /** Dtype of floating-point values without one. */
  DEFAULT_FLOAT: { value: "float32" },
  /** 1 convolves with 3x3 kernels and stride 1 by Winograd's algorithm. */
  WINO: { value: 0 },
  /** 0 makes jit() call the function each time; 2 captures, but replays kernel by kernel. */
  JIT: { value: 1 },
  /** 1 calls the function beside each replay of jit(), and throws where a bit differs. */
  JIT_CHECK: { value: 0 },
  /**
   * Above 0 finds the opts of each kernel by measuring 8 times so many candidates beside the chosen ones, once for
   * each kernel and device: what was found is kept in the cache folder (see `tune`).
   */
  BEAM: { value: 0 },
  /** 1 turns all kernel optimizations off. */
  NOOPT: { value: 0 },
  /**
   * 0 gives each operation as written kernels of its own, by the lines that TRACEMETA=1 records; without, each op.
   */
  FUSE: { value: 1 },
  /** 0 turns the schedule cache off, in memory and on disk. */
  SCACHE: { value: 1 },
  /** 1 gives each intermediate of a schedule its own buffer. */
  NO_MEMORY_PLANNER: { value: 0 },
  /** The most buffers a kernel may take, 0 for what the device allows. */
  MAX_KERNEL_BUFFERS: { value: 0 },
  /** 0 gives freed memory back to the device at once instead of keeping it for reuse. */
  LRU: { value: 1 },
  /**
   * How devices of one process add up shards: 1 reduces more than 256,000 elements of more than two devices as a ring
   * does, 2 all, 0 none.
   */
  RING: { value: 1 },
  /**
   * 1 has each device reduce a part of more than 256,000 elements in the order of devices, 2 of all; before RING.
   */
  ALL2ALL: { value: 0 },
  /** The most bytes of one buffer, beyond which OutOfMemoryError is thrown; 0 for any. */
  MAX_BUFFER_SIZE: { value: 0 },
  /** The most bytes a device may hold, beyond which OutOfMemoryError is thrown; 0 for any. */
  MAX_MEMORY: { value: 0 },
  /** 0 makes opening a device an error. */
  ALLOW_DEVICE_USAGE: { value: 1 },
  /**
   * 1 checks that each stage of a kernel has only the UOps that it may have; CLANG then opens with memory that ends at
   * pages without access, so that reads and writes behind a buffer end the process.
   */
  SPEC: { value: 0 },
  /** 1 runs each kernel also on the JS interpreter, and throws where results differ. */
  VALIDATE_WITH_JS: { value: 0 },
  /**
   * 1 counts tries, hits and time of each rewrite rule and the time of passes, and prints them when the process ends.
   */
  TRACK_MATCH_STATS: { value: 0 },
  /**
   * 1 records the program and serves a page that shows it on 127.0.0.1, a number above 1 on that port, while the
   * program runs and, at a terminal, until Ctrl+C; page.html and recording.json write a file when it ends; read when
   * the library loads (see watching.md).
   */
  VIZ: { value: "" },
  /**
   * 1 writes the graph and the steps of each schedule to the folder graph as SVG and DOT; another value is the name of
   * the folder; read when the library loads.
   */
  GRAPH: { value: "" },
  /**
   * 1 writes all schedules of the program to schedule.json when it ends; another value is the name of that file; read
   * when the library loads.
   */
  SAVE_SCHEDULE: { value: "" },
  /**
   * 1 writes the AST, opts and source of each kernel to kernels.json when the program ends, which `deno task replay`
   * compiles again; another value is the name of that file; read when the library loads.
   */
  CAPTURE_KERNELS: { value: "" },
  /**
   * 1 tells when the program ends where its time went, and writes profile.pftrace, which https://ui.perfetto.dev
   * opens; another value is the name of that file; read when the library loads (see watching.md).
   */
  PROFILE: { value: "" },
  /**
   * 1 has PROFILE read page faults, context switches and time on cores of each thread of CLANG, and cycles, instructions
   * and cache misses where Linux allows it.
   */
  PROFILE_COUNTERS: { value: 0 },
  /** Threads of the CPU devices, 0 for one a core. */
  THREADS: { value: 0, early: true },
  /** Where schedules, lowered and compiled kernels are kept; empty for $XDG_CACHE_HOME/dinograd or ~/.cache/dinograd. */
  CACHEDIR: { value: "", early: true },
  /** The most megabytes of schedules and of kernels in a cache folder; those not used for longest go first. 0 for any. */
  CACHE_SIZE: { value: 1024, early: true },
  /** Empty raises WEBGPU's limits to the adapter's, default does not; maxBufferSize=65536 and its like lower one. */
  WEBGPU_LIMITS: { value: "", early: true },
  /** 1 lets WEBGPU open on an adapter of OpenGL, where there is no other; they are refused otherwise. */
  WEBGPU_OPENGL: { value: 0, early: true },
  /** The C compiler of CLANG; empty for the newest clang, else gcc or cc. */
  CC: { value: "", early: true },
  /** 1 lets matrix units of CUDA multiply float32 with 10 bits of mantissa. */
  ALLOW_TF32: { value: 0, early: true },
  /** 1 renders PTX on CUDA, which the driver assembles; NVRTC is then not opened. */
  PTX: { value: 0, early: true },
  /** 0 keeps CUDA's copy engine for tensors (TMA, compute capability 9.0) from bringing the tiles of matrix units. */
  TMA: { value: 1, early: true },
  /**
   * Milliseconds that a process of a distributed program waits for the others; past them a CollectiveError tells who
   * is where.
   */
  DIST_TIMEOUT: { value: 600_000 },
  /**
   * 1 has a thread of each MPI process move data while kernels run, 0 moves it when the program waits; -1 is 1 where
   * the host has two cores for each of its processes.
   */
  DIST_PROGRESS: { value: -1, early: true },
  /** The MPI library; empty for that of the launcher, where it usually is. */
  MPI_PATH: { value: "", early: true },
  /** The NCCL library (libnccl.so.2); empty to look for it where it usually is. */
  NCCL_PATH: { value: "", early: true },
  /** The NVRTC library of CUDA, or its folder; empty to look for it where it usually is. */
  NVRTC_PATH: { value: "", early: true },
  /** The driver library of CUDA (libcuda.so.1); empty to look for it where it usually is. */
  CUDA_DRIVER_PATH: { value: "", early: true },
} as const;

/** The name of a context variable. */
export type ContextVar = keyof typeof CONTEXT_VARS;
/** Values to set with {@linkcode context}. */
export type ContextValues = {
  readonly [K in ContextVar]?: typeof CONTEXT_VARS[K]["value"] extends number ? number : string;
};

/** Variables as the environment or `setEnv` has them. */
const values = new Map<ContextVar, number | string>();
/** What is asked for each tensor that is made. */
interface Modes {
  readonly lines: boolean;
  readonly cuts: boolean;
}
/** Memos of {@linkcode currentModes} and {@linkcode modesText} where nothing holds. */
let freeModes: Modes | undefined, freeText: string | undefined;
/** Counts sets: memos of older ones are void. */
let sets = 0;

/** Variables as a `context` has them. */
class ContextHold extends Hold {
  modes: Modes | undefined;
  modesAt = -1;
  constructor(readonly values: Map<ContextVar, number | string>) {
    super(currentHold());
  }
}

/** The innermost context that holds here. */
function currentContext(): ContextHold | undefined {
  return contextOf(currentHold());
}
function contextOf(hold: Hold | undefined): ContextHold | undefined {
  while (hold !== undefined && !(hold.isOpen && hold instanceof ContextHold)) hold = hold.outer;
  return hold;
}

/** The value of a variable that a context has set. */
function heldValue(name: ContextVar): number | string | undefined {
  const hold = currentHold();
  if (hold === undefined) return undefined;
  for (let c = contextOf(hold); c !== undefined; c = contextOf(c.outer)) {
    const value = c.values.get(name);
    if (value !== undefined) return value;
  }
  return undefined;
}

interface DenoLike {
  permissions?: { querySync(d: { name: string; variable?: string; path?: string }): { state: string } };
  cwd(): string;
  env: { get(name: string): string | undefined };
}

/** The environment variable `name`, or undefined where it is unset or Deno does not grant the permission. */
export function readEnv(name: string): string | undefined {
  const { Deno: deno } = globalThis as { Deno?: DenoLike };
  if (deno === undefined) return nodeProcess()?.env?.[name];
  if (!deno.permissions?.querySync) return undefined;
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
  if (text !== undefined && text !== "") value = typeof fallback === "number" ? (Number(text) || 0) : text;
  values.set(name, value);
  return value;
}

/** The numeric context variable `name` now. */
export function envNumber(name: ContextVar): number {
  return (heldValue(name) ?? values.get(name) ?? lookup(name)) as number;
}

/** The textual context variable `name` now. */
export function envText(name: ContextVar): string {
  return String(heldValue(name) ?? values.get(name) ?? lookup(name));
}

/** The working folder as a path that ends with "/", where it may be known; else "". */
export function workingFolder(): string {
  const deno = (globalThis as { Deno?: DenoLike }).Deno;
  try {
    if (deno?.permissions?.querySync({ name: "read", path: "." }).state !== "granted") return "";
    return `${deno.cwd().replaceAll("\\", "/").replace(/^(?!\/)/, "/").replace(/\/$/, "")}/`;
  } catch {
    return "";
  }
}

/** Variables by which a whole program is watched, from its start. */
const WATCHING = [
  "VIZ",
  "PROFILE",
  "GRAPH",
  "SAVE_SCHEDULE",
  "CAPTURE_KERNELS",
] as const satisfies readonly ContextVar[];

/** Whether the program is to be watched: never in workers, which belong to some program. */
export function isWatched(): boolean {
  if ("WorkerGlobalScope" in globalThis) return false;
  return WATCHING.some((name) => envText(name) !== "" && envText(name) !== "0");
}

function currentModes(): Modes {
  const held = currentContext();
  if (held === undefined) return freeModes ??= modesNow();
  if (held.modesAt !== sets) {
    held.modesAt = sets;
    held.modes = modesNow();
  }
  return held.modes!;
}

function modesNow(): Modes {
  return {
    lines: envNumber("TRACEMETA") > 0 || envNumber("DEBUG") >= 2 || envNumber("DEBUG_MEMORY") > 0,
    cuts: envNumber("GRAD") === 0,
  };
}

/**
 * Whether the user's line is recorded with each operation: TRACEMETA, DEBUG >= 2 or DEBUG_MEMORY, or where who hears spans
 * wants it. Who is told so takes a stack: they are counted.
 */
export function wantsLines(): boolean {
  if (spans.listener !== undefined && spans.wantsLines) return ++spans.lines > 0;
  return currentModes().lines;
}

/** Whether the user's line is recorded with memory: as {@linkcode wantsLines}, but nobody who hears spans asks for it. */
export function wantsMemoryLines(): boolean {
  return currentModes().lines;
}

/** Whether what is computed here is a constant to gradients: `Tensor.noGrad`. */
export function cutsGradients(): boolean {
  return currentModes().cuts;
}

/** Variables that a graph depends on which the same calls build. */
const BUILDING = [
  "TRAINING",
  "GRAD",
  "DEFAULT_INT",
  "DEFAULT_FLOAT",
  "WINO",
  "BEAM",
] as const satisfies readonly ContextVar[];

/** What a captured call must be keyed by besides its arguments: "" where all is as it is by default. */
export function modesText(): string {
  return currentHold() === undefined ? freeText ??= buildingText() : buildingText();
}

function buildingText(): string {
  let text = "";
  for (const name of BUILDING) {
    const value = heldValue(name) ?? values.get(name) ?? lookup(name);
    if (value !== CONTEXT_VARS[name].value) text += `${name}=${value} `;
  }
  for (let h = currentHold(); h !== undefined; h = openHold(h.outer)) text += h.building;
  return text;
}

/**
 * Sets a context variable until it is set again, or until the end of the context that has set it here; elsewhere for all.
 * Prefer {@linkcode context}.
 */
export function setEnv(name: ContextVar, value: number | string): void {
  sets++;
  freeModes = freeText = undefined;
  for (let c = currentContext(); c !== undefined; c = contextOf(c.outer)) {
    if (c.values.has(name)) return void c.values.set(name, value);
  }
  values.set(name, value);
}

function checkContextValue(name: ContextVar, value: unknown): void {
  if (!Object.hasOwn(CONTEXT_VARS, name)) {
    throw new ArgumentError(`set context variable ${name}`, {
      reason: `there is none of that name; known are ${Object.keys(CONTEXT_VARS).join(", ")}`,
    });
  }
  const kind = typeof CONTEXT_VARS[name].value;
  if (typeof value === kind && !Number.isNaN(value)) return;
  throw new ArgumentError(`set context variable ${name}`, {
    reason: `it takes a ${kind}, not ${describe(value)}`,
  });
}

/**
 * Runs `fn` with context variables set. They hold for `fn` and all that it awaits, and for nothing that runs beside it:
 * async functions overlap as they like. What `fn` starts and does not await sees them until `fn` has ended.
 *
 * An async `fn` needs an engine that tells what runs in it from what runs beside it: Deno, Node and Bun do, browsers do
 * not. There `fn` must be synchronous: let it return tensors, and await their values outside.
 *
 * @throws {ArgumentError} for an unknown variable or a value of the wrong kind; for a generator; and in browsers for an
 * async `fn`
 *
 * ```ts
 * import { context, Tensor } from "../../mod.ts";
 * const half = context({ DEFAULT_FLOAT: "float16" }, () => new Tensor([0.5]));
 * console.log(half.dtype.name, await half.tolist()); // float16 [0.5]
 * ```
 */
export function context<T>(set: ContextValues, fn: () => T): T {
  if (!isPlain(set)) {
    throw new ArgumentError("set context variables", {
      reason: `they must be an object by name, not ${describe(set)}`,
    });
  }
  checkFunction("set context variables", "fn", fn);
  return withContext("context()", set, fn);
}

/** As {@linkcode context}; `where` is what the user called. */
export function withContext<T>(where: string, set: ContextValues, fn: () => T): T {
  const values = new Map<ContextVar, number | string>();
  for (const name of Object.keys(set) as ContextVar[]) {
    const value = set[name];
    if (value === undefined) continue;
    checkContextValue(name, value);
    values.set(name, value);
  }
  return runHolding(new ContextHold(values), where, fn, nothing);
}

function nothing(): void {}
