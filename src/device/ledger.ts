/**
 * Who holds device memory, for people: the table that DEBUG_MEMORY=1 prints when the process ends; and how much there is,
 * where it may be asked.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { byteText, holderText } from "../helpers/errors.ts";
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

/** Devices whose memory is that of the host. */
const ON_HOST: ReadonlySet<string> = new Set(["JS", "WASM", "CLANG"]);

/** What is used of the runtime. */
interface Runtime {
  permissions?: { querySync(d: { name: string; kind: string }): { state: string } };
  systemMemoryInfo?: () => Readonly<Record<"total" | "swapTotal" | "available" | "swapFree", number>>;
}
/** What the host has, and has left, where it may be asked without a prompt. */
function hostMemory(): { readonly total: number; readonly left: number } | undefined {
  const deno = (globalThis as { Deno?: Runtime }).Deno;
  try {
    const asked = deno?.permissions?.querySync({ name: "sys", kind: "systemMemoryInfo" }).state === "granted";
    const info = asked ? deno?.systemMemoryInfo?.() : undefined;
    return info && { total: info.total + info.swapTotal, left: info.available + info.swapFree };
  } catch {
    return undefined;
  }
}

/** Bytes that a device has left, where that is known. */
export function bytesLeft(device: string): number | undefined {
  const { used, inner } = getDevice(device).allocator, limit = envNumber("MAX_MEMORY") || Infinity;
  const own = Math.min(limit, inner.capacity ?? Infinity) - used;
  const left = Math.min(own, ON_HOST.has(device) && hostMemory()?.left || Infinity);
  return left === Infinity ? undefined : Math.max(0, left);
}

/** Bytes that a device can hold at most, whatever is freed; undefined where that is not known. */
export function bytesInAll(device: string): number | undefined {
  const own = Math.min(envNumber("MAX_MEMORY") || Infinity, getDevice(device).allocator.inner.capacity ?? Infinity);
  const most = Math.min(own, ON_HOST.has(device) && hostMemory()?.total || Infinity);
  return most === Infinity ? undefined : most;
}
