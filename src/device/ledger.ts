/**
 * Who holds device memory, for people: the table that DEBUG_MEMORY=1 prints when the process ends.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { byteText, holderText } from "../helpers/errors.ts";
import { openDevices } from "./device.ts";

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
