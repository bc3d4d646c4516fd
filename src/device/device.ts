/**
 * The registry of devices: names and ordinals ("CUDA:1"), opening on first use, the default, what is missing and why.
 *
 * @module
 */
import type { DType, DTypeLike, MadeText } from "../dtype/dtype.ts";
import { envNumber, envText, readEnv } from "../helpers/env.ts";
import { DeviceError } from "../helpers/errors.ts";
import { checkText } from "../helpers/options.ts";
import type { Renderer } from "../renderer/renderer.ts";
import type { LruAllocator } from "./allocator.ts";
import { isLate, partsReady } from "./parts.ts";
import type { Compiler, Graph, Insertion, Launch, ThreadTimes } from "./program.ts";
import type { Standalone } from "./standalone.ts";

/** An open device. Backends implement it; only `mod.ts` knows them. */
export interface Device {
  /** Canonical: "WASM", "CUDA:1". */
  readonly name: string;
  /** What it can do, and how source is written for it. */
  readonly renderer: Renderer;
  /** Makes programs of linear programs. */
  readonly compiler: Compiler;
  /** Its memory. */
  readonly allocator: LruAllocator;
  /** Runs launches in order, each after all earlier ones have finished with its buffers. May return before they have. */
  run(launches: readonly Launch[], ends?: Float64Array<ArrayBuffer>): void;
  /**
   * Whether `run`, here and of graphs, tells in `ends` when each launch ended, in milliseconds since the first began: then
   * it returns when all have.
   */
  readonly timesLaunches?: boolean;
  /** Of a device that times launches, and runs them by threads: what each thread did of them, while somebody watches. */
  readonly threadTimes?: ThreadTimes;
  /** Prepares launches for replay; insertions only where the device takes them. */
  graph(launches: readonly Launch[], insertions?: readonly Insertion[]): Graph;
  /** Whether collectives of its ranks can be part of its graphs. */
  readonly takesInsertions?: boolean;
  /** Settles when all queued work is done; rejects with what went wrong in it. */
  synchronize(): Promise<void>;
  /**
   * Runs launches as `run` does, and tells later when each began and ended, in milliseconds as `performance.now()` counts
   * them: of a device that cannot be waited for, where it has a clock. Undefined where it has none: then nothing ran.
   */
  timeLater?(launches: readonly Launch[]): Promise<readonly (readonly [startMs: number, endMs: number])[]> | undefined;
  /** Milliseconds that a program must run until it is as fast as it gets: of an engine that compiles again what runs often. */
  readonly warmMs?: number;
  /** Milliseconds that the device works on what `queue` queues, waited for: where it has a clock of its own. */
  timeSync?(queue: () => void): number;
  /** Whether it is gone, with all that was on it; `Device.open` then opens another in its place. */
  readonly isLost?: boolean;
  /** What `doctor` and `info()` show: compiler, threads, features. */
  info(): Record<string, string | number | boolean>;
  /** Stops threads, frees everything. */
  close(): void;
}

/** How a backend introduces itself. */
export interface Backend {
  /** "WASM". */
  readonly name: string;
  /** One line for docs and doctor. */
  readonly description: string;
  /** What it needs under Deno, as flags: ["--allow-ffi"]. */
  readonly permissions: readonly string[];
  /** Position in the choice of a default; undefined: never chosen. Lower first. */
  readonly rank?: number;
  /** The language of kernels that a user writes for it as text, as its renderer is named; absent where it takes none. */
  readonly textLanguage?: string;
  /** What it offers to exports; absent where it has nothing. */
  readonly standalone?: Standalone;
  /** Texts of kernels that it brings for what takes many others: tensors use them where they are. */
  readonly kernelTexts?: {
    /** The singular value decomposition of matrices of a dtype: src/tensor/handle/native_svd.ts. */
    readonly svd?: (dtype: DType) => string | undefined;
  };
  /** Why it cannot open here, or undefined. Cheap, prompts for nothing. */
  unavailable(): string | undefined;
  /** Opens one of its devices. @throws {DeviceError} saying what is missing and how to get it */
  open(ordinal: number): Device;
  /** Whether it is loaded when it is opened: naming it as the default does not open it. */
  readonly isLate?: boolean;
  /** Where opening is asynchronous (WEBGPU): called by `Device.open`; then `open` gives what it made. */
  openAsync?(ordinal: number): Promise<Device>;
}

const backends = new Map<string, Backend>();
const opened = new Map<string, Device>();
/** Names of those that no backend opens: groups of others. */
const groups = new Set<string>();
let chosen: string | undefined;
let selfTest: ((device: Device) => DeviceError | undefined) | undefined;
let selfTestAsync: ((device: Device) => Promise<DeviceError | undefined>) | undefined;
/** Devices that have passed it. */
const tested = new Set<string>();
/** What was wrong with devices that have failed it: they stay refused, with the same error. */
const refusals = new Map<string, DeviceError>();
/** Devices that are opening asynchronously. */
const opening = new Map<string, Promise<Device>>();

function parse(name: string): [base: string, ordinal: number, canonical: string] {
  const m = /^([A-Za-z]+)(?::(\d+))?$/.exec(checkText("use a device", "its name", name));
  if (m === null) {
    throw new DeviceError(`use device "${name}"`, { device: name, reason: "a device is named as WASM or CUDA:1" });
  }
  const base = m[1].toUpperCase(), ordinal = Number(m[2] ?? 0);
  return [base, ordinal, ordinal === 0 ? base : `${base}:${ordinal}`];
}

function lookup(name: string): Backend {
  const [base] = parse(groups.has(name) ? name.replace(/[,@].*/, "") : name);
  const backend = backends.get(base);
  if (backend === undefined) {
    throw new DeviceError(`use device "${name}"`, {
      device: name,
      reason: backends.size === 0
        ? "there are no devices; import mod.ts, too, which brings them"
        : `known devices are ${[...backends.keys()].join(", ")}`,
    });
  }
  return backend;
}

/** The backend of a device. @throws {DeviceError} for one that is not known */
export function backendOf(name: string): Backend {
  return lookup(name);
}

function openNames(): string {
  return [...backends.values()].filter((b) =>
    b.rank !== undefined && b.unavailable() === undefined && !refusals.has(b.name)
  ).map((b) => b.name).join(", ") || "none";
}

/** Adds a backend to the registry. Called by `mod.ts`. Gives its name, as text that `device` takes. */
export function registerBackend(backend: Backend): string {
  backends.set(backend.name, backend);
  return backend.name;
}

/**
 * Sets what runs when a device is used for the first time; it returns an error where results are wrong. `testAsync` is for
 * devices that open asynchronously.
 */
export function setSelfTest(
  test: (device: Device) => DeviceError | undefined,
  testAsync?: (device: Device) => Promise<DeviceError | undefined>,
): void {
  selfTest = test;
  selfTestAsync = testAsync;
  for (const device of opened.values()) runSelfTest(device);
}

/** All registered backends. */
export function listBackends(): Backend[] {
  return [...backends.values()];
}

/** The devices that come along, in capitals. */
export type DeviceKind = "CLANG" | "CUDA" | "DISK" | "JS" | "NULL" | "WASM" | "WEBGPU";

/** The name of a device of those that come along, or of several: "WASM", "CUDA:1"; small letters are taken, too. */
export type KnownDevice =
  | DeviceKind
  | Lowercase<DeviceKind>
  | `${DeviceKind | Lowercase<DeviceKind>}:${number}`
  | `${DeviceKind}${string},${DeviceKind}${string}`;

/**
 * The name of a device: "WASM", "CUDA:1". Editors complete those that come along. Where `N` is the type of an argument, as
 * in `Tensor.zeros` and `to`, another literal is refused by the compiler; text that a program makes passes, such as the
 * name of a backend of one's own, which `registerBackend` gives.
 */
export type DeviceName<N extends string = string> = KnownDevice | MadeText<N>;

/** The names in options: of a dtype and a device, where `N` is their type. */
export interface Named<N extends string> {
  /** A DType or its name. */
  readonly dtype?: DTypeLike<N>;
  /** The name of a device. */
  readonly device?: DeviceName<N>;
}
/**
 * Options `O` whose `dtype` and `device` the compiler compares, where they are literals, with those that there are: of type
 * `N`, which an argument gives.
 */
export type Checked<O, N extends string> =
  & Omit<O, "dtype" | "device">
  & Pick<Named<N>, keyof O & ("dtype" | "device")>;

/** "cuda:0" to "CUDA". The name of a group that is in use is canonical. */
export function canonicalize(name: string): string {
  return opened.has(name) ? name : parse(name)[2];
}

/** Several devices as one (group.ts). */
export interface GroupDevice extends Device {
  readonly members: readonly Device[];
  /** Those of its mesh that the members are. */
  readonly ranks: readonly number[];
}
/** Adds a device that no backend opens: a group of others, named by the first of them up to a comma or "@". */
export function noteGroup(device: GroupDevice): void {
  opened.set(device.name, device);
  groups.add(device.name);
}
/** The group of that name; undefined for a device of its own. */
export function findGroup(name: string): GroupDevice | undefined {
  return groups.has(name) ? opened.get(name) as GroupDevice : undefined;
}
/** How an error tells to bring tensors of two devices together: on the one that is several, where there is one. */
export function togetherText(p: string, q: string): string {
  const home = findGroup(p) === undefined && findGroup(q) !== undefined ? q : p, move = `move one with .to("${home}")`;
  return findGroup(home) === undefined ? move : `${move}, or divide it with .shard(mesh, ...)`;
}

/** As {@linkcode canonicalize}, for the name of a device that exists, open or not. @throws {DeviceError} */
export function knownDevice(name: string): string {
  if (opened.has(name)) return name;
  lookup(name);
  return canonicalize(name);
}

/** The failure of a device to open, with what else is there. */
function withNames(error: unknown): unknown {
  if (!(error instanceof DeviceError)) return error;
  return new DeviceError(error.message.replace(/^Cannot (.*?): .*$/s, "$1"), {
    device: error.device,
    reason: `${error.message.replace(/^Cannot .*?: /, "")}; available here: ${openNames()}`,
    cause: error,
  });
}

/** Closes a device that could not run its self-test. */
function abandon(device: Device): void {
  opened.delete(device.name);
  device.close();
}

/** Closes a device whose self-test gave wrong results: it is not opened again. @throws {DeviceError} */
function refuse(device: Device, wrong: DeviceError): never {
  refusals.set(device.name, wrong);
  abandon(device);
  throw wrong;
}

/** Runs the self-test of a device, once there is one. @throws {DeviceError} */
function runSelfTest(device: Device): void {
  if (selfTest === undefined || tested.has(device.name)) return;
  let wrong: DeviceError | undefined;
  try {
    wrong = selfTest(device);
  } catch (error) {
    abandon(device);
    throw error;
  }
  if (wrong !== undefined) refuse(device, wrong);
  tested.add(device.name);
}

/** Why the self-test of a device was not passed, if it was not. */
export function refusalOf(canonical: string): DeviceError | undefined {
  return refusals.get(canonical);
}

/** Opens a device; what else is there is told with a failure. */
function openBackend(backend: Backend, ordinal: number): Device {
  try {
    return backend.open(ordinal);
  } catch (error) {
    throw withNames(error);
  }
}

/** The device by name, opened if need be. @throws {DeviceError} */
export function getDevice(name: string): Device {
  const known = opened.get(name);
  if (known !== undefined) return known;
  const [, ordinal, canonical] = parse(name);
  let device = opened.get(canonical);
  if (device === undefined) {
    const refusal = refusals.get(canonical);
    if (refusal !== undefined) throw refusal;
    const backend = lookup(canonical);
    const why = backend.unavailable();
    if (why !== undefined) {
      throw new DeviceError(`open device ${canonical}`, {
        device: canonical,
        reason: `${why}; available here: ${openNames()}`,
      });
    }
    if (envNumber("ALLOW_DEVICE_USAGE") === 0) {
      throw new DeviceError(`open device ${canonical}`, { device: canonical, reason: "ALLOW_DEVICE_USAGE is 0" });
    }
    const start = performance.now();
    opened.set(canonical, device = openBackend(backend, ordinal));
    runSelfTest(device);
    if (envNumber("DEBUG") >= 1) {
      const info = Object.entries(device.info()).map(([name, value]) => `${name} ${value}`).join(", ");
      console.error(`opened device ${canonical} in ${(performance.now() - start).toFixed(1)} ms${info && `: ${info}`}`);
    }
  }
  return device;
}

/** The device by name, opened and tested if need be, also where that is asynchronous. @throws {DeviceError} */
export async function openDevice(name: string): Promise<Device> {
  if (isLate()) await partsReady();
  const [base, ordinal, canonical] = parse(name), backend = backends.get(base);
  if (backend?.openAsync === undefined || backend.unavailable() !== undefined) return getDevice(name);
  const known = opened.get(canonical), refusal = refusals.get(canonical);
  if (refusal !== undefined) throw refusal;
  if (known !== undefined && known.isLost !== true && !opening.has(canonical)) return known;
  let promise = opening.get(canonical);
  if (promise === undefined) {
    opened.delete(canonical);
    promise = openTested(backend, ordinal, canonical).finally(() => opening.delete(canonical));
    opening.set(canonical, promise);
  }
  return await promise;
}

async function openTested(backend: Backend, ordinal: number, canonical: string): Promise<Device> {
  try {
    await backend.openAsync!(ordinal);
  } catch (error) {
    throw withNames(error);
  }
  const device = getDevice(canonical);
  let wrong: DeviceError | undefined;
  try {
    wrong = await selfTestAsync?.(device);
  } catch (error) {
    abandon(device);
    throw error;
  }
  return wrong === undefined ? device : refuse(device, wrong);
}

/** Devices that failed to open when they were tried as the default. */
const refused = new Set<Backend>();

/**
 * The name of the default device: as set, as DEV says, else the best that is available and opens: one that nobody named
 * and that does not open is passed over.
 */
export function defaultDevice(): string {
  const named = chosen ?? (envText("DEV") || readEnv("DEV"));
  if (named) return canonicalize(named);
  for (;;) {
    let best: Backend | undefined;
    for (const b of backends.values()) {
      if (b.rank === undefined || refused.has(b) || (best !== undefined && best.rank! <= b.rank)) continue;
      if (b.unavailable() === undefined) best = b;
    }
    if (best === undefined) {
      throw new DeviceError("choose a default device", { device: "", reason: "no backend is available" });
    }
    if (best.isLate === true || opened.has(best.name)) return best.name;
    try {
      return getDevice(best.name).name;
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      refused.add(best);
      console.warn(`${best.name} is passed over: ${error.message}`);
    }
  }
}

/** Sets the default device. @throws {DeviceError} where it cannot open */
export function setDefaultDevice(name: string): void {
  chosen = getDevice(name).name;
}

/** Devices that are open now; groups of them are none. */
export function openDevices(): Device[] {
  return [...opened.values()].filter((d) => !groups.has(d.name));
}
