/**
 * Lowered kernels on disk, for devices of loops: a kernel that an earlier process has lowered is read, and not made again.
 * A file a kernel, named by a digest of all that lowering depends on: the kernel itself, what the device can do, the flags
 * that passes read, and this library, by the sizes and times of its sources or, in a package, by what is in its files.
 * A file says first what is needed to run the kernel, with the name that the device's compiler gave to what it made of
 * it, so that nothing is rendered, either; then the list, which is read when somebody asks for it.
 *
 * @module
 */
import type { Device } from "../../device/device.ts";
import { digest } from "../../device/object_cache.ts";
import type { Program } from "../../device/program.ts";
import { type DType, toDType } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { type LinearProgram, programOf, type ProgramParam, type Renderer } from "../../renderer/renderer.ts";
import { TextArg } from "../../uop/core/custom_arg.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { LoweredKernels } from "../front/runners.ts";
import {
  type DiskStore,
  identityOf,
  LOWERING_FLAGS,
  namesOfPrograms,
  type StoreCounts,
  storeNow,
} from "./disk_store.ts";
import { isReadable, kernelText, sameKernelsOfText } from "./kernel_data.ts";
import { schedules } from "./schedule_store.ts";

/** A parameter as JSON. */
type ParamData = readonly [dtype: string, lanes: number, size: number, reads: boolean, writes: boolean];

/** What is written of a program, beside its list. */
interface Head {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  readonly threads: number;
  readonly params: readonly (ParamData | null)[];
  readonly opts?: string;
  readonly streams?: boolean;
  readonly compiled?: string;
  /** Whether launches pass numbers, which are told from each other by nodes of the list. */
  readonly hasVars: boolean;
}

/** A lowered kernel as text: what it takes to run it, and its list. */
export interface ProgramText {
  /** In one line. */
  readonly head: string;
  /** Likewise. */
  readonly list: string;
}

/** A lowered kernel as text; undefined for one that has none. @param compiled {@linkcode Program.key} */
export function programText(p: LinearProgram, compiled?: string): ProgramText | undefined {
  const { name, flops, bytes, threads, opts, streams, uops } = p;
  if (p.text !== undefined || p.grid !== undefined || p.maps !== undefined) return undefined;
  if (!Number.isFinite(flops) || !Number.isFinite(bytes)) return undefined;
  const params = Array.from(p.params, (q): ParamData | null => (
    q === undefined ? null : [q.dtype.scalar.name, q.dtype.count, q.size, q.reads, q.writes]
  ));
  const list = kernelText(uops);
  if (list === undefined || !isReadable(list)) return undefined;
  const hasVars = p.vars.length > 0;
  const head = { name, flops, bytes, threads, params, opts, streams, compiled, hasVars } satisfies Head;
  return { head: JSON.stringify(head), list };
}

/**
 * The program that {@linkcode programText} wrote, whose nodes are there when they are asked for. @param list gives them
 */
export function programFrom(head: string, list: () => readonly UOp[]): LinearProgram {
  const { hasVars, params, ...rest } = JSON.parse(head) as Head;
  if (hasVars) return { ...programOf(rest.name, list()), ...rest };
  let uops: readonly UOp[] | undefined;
  return {
    ...rest,
    params: paramsOf(params),
    vars: [],
    get uops(): readonly UOp[] {
      return uops ??= list();
    },
  };
}

function paramsOf(data: Head["params"]): ProgramParam[] {
  const params: ProgramParam[] = [];
  data.forEach((p, slot) => {
    if (p !== null) params[slot] = { slot, dtype: dtypeOf(p[0], p[1]), size: p[2], reads: p[3], writes: p[4] };
  });
  return params;
}

function dtypeOf(name: string, lanes: number): DType {
  return toDType(name).vec(lanes);
}

/** Kernels read, written, and found damaged so far in this process, and lists of kernels that were read. */
export const storeStats: StoreCounts & { lists: number } = {
  what: "kernel",
  read: 0,
  written: 0,
  damaged: 0,
  lists: 0,
};

/** Where a program is, or will be. */
interface Place {
  readonly store: DiskStore;
  readonly key: string;
  /** Whether it is to be kept once it is compiled. */
  isOwed: boolean;
}
const places = new WeakMap<LinearProgram, Place>();

/** The key of a kernel for a device: a digest of all that lowering reads; undefined where that cannot be told. */
export function loweredKey(ast: UOp, renderer: Renderer): string | undefined {
  if (ast.arg instanceof TextArg) return undefined; // nothing is lowered
  const identity = identityOf(renderer);
  if (identity === undefined) return undefined;
  const text = kernelText([ast]);
  if (text === undefined) return undefined;
  return digest(`${identity}\n${LOWERING_FLAGS.map((f) => envNumber(f)).join()}\n${text}`);
}

/** The kernel that a store has under a key. @param lower makes it anew, where its list is not what it was */
function read(store: DiskStore, key: string, lower: () => LinearProgram): LinearProgram | undefined {
  const head = store.use(key, [0], storeStats);
  if (head === undefined) return undefined;
  const place: Place = { store, key, isOwed: false };
  const made = programFrom(head[0], () => {
    const list = store.lines(key, [1], storeStats), uops = list && sameKernelsOfText(list[0]);
    if (uops !== undefined) {
      storeStats.lists++;
      return uops;
    }
    place.isOwed = true;
    return lower().uops;
  });
  places.set(made, place);
  namesOfPrograms.set(made, key);
  return made;
}

/** The lowered kernel of the store, else what `lower` makes, which {@linkcode keepLowered} keeps. */
function loweredBefore(ast: UOp, device: Device, lower: () => LinearProgram): LinearProgram {
  const store = storeNow(device), key = store === undefined ? undefined : loweredKey(ast, device.renderer);
  if (store === undefined || key === undefined) return lower();
  const known = read(store, key, lower);
  if (known !== undefined) return known;
  const made = lower();
  places.set(made, { store, key, isOwed: true });
  namesOfPrograms.set(made, key);
  return made;
}

/** The lowered kernel that the store calls so, if it has it. */
function loweredAs(name: string, device: Device, lower: () => LinearProgram): LinearProgram | undefined {
  const store = storeNow(device);
  return store === undefined ? undefined : read(store, name, lower);
}

/** Keeps those of these programs that the store did not know, with what their compiler calls them. */
function keepLowered(programs: readonly Program[]): void {
  for (const { linear, key: compiled } of programs) {
    const own = places.get(linear);
    if (own === undefined || !own.isOwed) continue;
    own.isOwed = false;
    own.store.set(own.key, storeStats, () => {
      const text = programText(linear, compiled);
      return text === undefined ? undefined : [text.head, text.list];
    });
  }
}

/** The store, as the engine takes it. */
export const loweredKernels: LoweredKernels = {
  before: loweredBefore,
  named: loweredAs,
  keep: keepLowered,
  schedules,
};
