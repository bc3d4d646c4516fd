/**
 * Who holds device memory, for people: the table that DEBUG_MEMORY=1 prints when the process ends; and how much there is,
 * where it may be asked.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { byteText, holderText } from "../helpers/errors.ts";
import type { Allocator } from "./allocator.ts";
import { getDevice, openDevices } from "./device.ts";

/** A table of what each open device holds, largest first; tensors of one line and shape are one row. */
export function memoryTable(limit: number = 40): string {
  return openDevices().map(({ name, allocator }) => {
    const { used, count, peak, cached } = allocator;
    const head = `memory of ${name}: ${byteText(used)} held in ${count} blocks, ${byteText(cached)} kept for reuse, ` +
      `at most ${byteText(peak)} were held`;
    const holders = allocator.largest();
    return holders.length === 0 ? head : `${head}\n${holderText(holders, limit)}`;
  }).join("\n");
}

let watching = false;

/** Under DEBUG_MEMORY=1: prints the table when the process ends. */
export function watchMemory(): void {
  if (watching || envNumber("DEBUG_MEMORY") === 0) return;
  watching = true;
  globalThis.addEventListener?.("unload", () => {
    if (envNumber("DEBUG_MEMORY") > 0) console.error(memoryTable());
  });
}

/** What is used of the runtime. */
interface Runtime {
  permissions?: { querySync(d: { name: string; kind: string }): { state: string } };
  systemMemoryInfo?: () => Readonly<Record<"total" | "swapTotal" | "available" | "swapFree", number>>;
}
/** What the host has, and has left, where it may be asked without a prompt. */
function hostMemory(): { readonly free: number; readonly total: number } | undefined {
  const deno = (globalThis as { Deno?: Runtime }).Deno;
  try {
    const asked = deno?.permissions?.querySync({ name: "sys", kind: "systemMemoryInfo" }).state === "granted";
    const info = asked ? deno?.systemMemoryInfo?.() : undefined;
    return info && { free: info.available + info.swapFree, total: info.total + info.swapTotal };
  } catch {
    return undefined;
  }
}

/** What a device says of its memory, or the host, whose memory it takes; undefined where neither does. */
function memoryOf(of: Allocator): { readonly free: number; readonly total: number } | undefined {
  return of.available?.() ?? (of.hostBytes === undefined ? undefined : hostMemory());
}

/** Bytes that a device has left, where that is known. */
export function bytesLeft(device: string): number | undefined {
  const { used, cached, inner } = getDevice(device).allocator, free = memoryOf(inner)?.free;
  const own = Math.min(envNumber("MAX_MEMORY") || Infinity, inner.capacity ?? Infinity) - used;
  // what is kept for reuse is given back when it is needed
  const left = Math.min(own, free === undefined ? Infinity : free + cached);
  return left === Infinity ? undefined : Math.max(0, left);
}

/** Bytes that a device can hold at most, whatever is freed; undefined where that is not known. */
export function bytesInAll(device: string): number | undefined {
  const { inner } = getDevice(device).allocator;
  const most = Math.min(
    envNumber("MAX_MEMORY") || Infinity,
    inner.capacity ?? Infinity,
    memoryOf(inner)?.total ?? Infinity,
  );
  return most === Infinity ? undefined : most;
}
