/**
 * Schedules on disk, for devices of loops: what an earlier process has scheduled is read, and not scheduled again. A file a
 * schedule, beside those of lowered kernels, named by a digest of all that scheduling depends on: the graph and what of it are
 * arguments, what its devices can do and how their memory is shared out, the flags that passes read, and the scheduler. The
 * kernels are there by name: they are read as they were lowered, and what was compiled of them is found.
 *
 * @module
 */
import { defaultDevice, type Device, getDevice } from "../../device/device.ts";
import { digest } from "../../device/object_cache.ts";
import type { Program } from "../../device/program.ts";
import { type ContextVar, envNumber } from "../../helpers/env.ts";
import type { TemplateItem } from "../../schedule/order/template.ts";
import type { Lowered } from "../../schedule/schedule_passes.ts";
import type { StoredSchedules, Wanted } from "../../schedule/stored_schedules.ts";
import { OwnArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, movedToDevice } from "../../uop/core/shape.ts";
import { type DiskStore, identityOf, LOWERING_FLAGS, type StoreCounts, storeNow } from "./disk_store.ts";
import { schedulerText } from "./library_text.ts";
import { scheduleLines, scheduleOf, wantedText } from "./schedule_data.ts";

/** Flags that scheduling reads, with those of lowering; under FUSE=0 and SCACHE=0 nothing is kept. */
export const SCHEDULING_FLAGS: readonly ContextVar[] = [
  ...LOWERING_FLAGS,
  "MAX_KERNEL_BUFFERS",
  "NO_MEMORY_PLANNER",
  "MAX_BUFFER_SIZE",
];

/** Schedules read, written, and found damaged so far in this process. */
export const scheduleStats: StoreCounts = { what: "schedule", read: 0, written: 0, damaged: 0 };

let scheduler: { readonly digest: string | undefined } | undefined;
const texts = new WeakMap<Device, string>();

/** Where a schedule is, or will be. */
interface Place {
  readonly store: DiskStore;
  readonly key: string;
}

/** What scheduling asks of a device, as text; undefined where that cannot be told. */
function deviceText(device: Device): string | undefined {
  let text = texts.get(device);
  if (text !== undefined) return text;
  const { name, renderer, allocator: { layout, transfer, copyOut } } = device, identity = identityOf(renderer);
  if (identity === undefined) return undefined;
  const { viewAlign, arenas, maxBytes } = layout, sharing = transfer !== undefined || copyOut !== undefined;
  texts.set(device, text = `${name} ${identity} ${viewAlign} ${arenas} ${maxBytes} ${sharing}`);
  return text;
}

/** Names of the devices that a graph is on. */
function devicesOf({ key }: Wanted): Set<string> {
  const names = new Set<string>();
  for (const u of key.order) {
    const moved = movedToDevice(u);
    if (moved !== undefined) names.add(moved);
    else if (u.op === Ops.CONTIGUOUS && u.arg instanceof OwnArg) names.add(u.arg.device);
  }
  for (const { device } of key.storages) names.add(device);
  if (names.size === 0 || key.rootAt.some((at) => deviceOf(key.order[at]) === null)) names.add(defaultDevice());
  return names;
}

/** Where the schedule is that is wanted; undefined where none is kept. */
function placeOf(wanted: Wanted): Place | undefined {
  let store: DiskStore | undefined, known = "";
  for (const name of devicesOf(wanted)) {
    const device = getDevice(name), text = deviceText(device);
    store = text === undefined ? undefined : storeNow(device);
    if (store === undefined) return undefined;
    known += `${text}\n`;
  }
  if (store === undefined) return undefined;
  if (scheduler === undefined) {
    const text = schedulerText(import.meta.url);
    scheduler = { digest: text === undefined ? undefined : digest(text) };
  }
  const text = scheduler.digest === undefined ? undefined : wantedText(wanted);
  if (text === undefined) return undefined;
  const flags = SCHEDULING_FLAGS.map((f) => envNumber(f)).join();
  return { store, key: `${digest(`${scheduler.digest}\n${flags}\n${known}${text}`)}.schedule` };
}

/** Schedules that are to be kept once their kernels are compiled. */
const owed = new WeakMap<Lowered, Place>();

/** What `read` makes of the schedule that is known, else what `lower` makes. */
function scheduledBefore<V extends Lowered>(wanted: Wanted, read: (known: Lowered) => V, lower: () => V): V {
  const place = placeOf(wanted), lines = place?.store.use(place.key, [0, 1], scheduleStats);
  if (lines !== undefined) return read(scheduleOf(lines[0], lines[1]));
  const made = lower();
  if (place !== undefined) owed.set(made, place);
  return made;
}

/** Keeps a schedule that was not known. */
function keepSchedule(made: Lowered, programs: ReadonlyMap<TemplateItem, Program>): void {
  const place = owed.get(made);
  if (place === undefined) return;
  owed.delete(made);
  place.store.set(place.key, scheduleStats, () => scheduleLines(made, programs));
}

/** The store, as the scheduler takes it. */
export const schedules: StoredSchedules = { before: scheduledBefore, keep: keepSchedule };
