/**
 * Who holds device memory, for people: the table that DEBUG_MEMORY=1 prints when the process ends.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { byteText, holderText, type MemoryHolder } from "../helpers/errors.ts";
import { openDevices } from "./device.ts";

/** Holders of one line, dtype, shape and use count as one. */
interface Group extends MemoryHolder {
  readonly count: number;
}

function grouped(holders: readonly MemoryHolder[]): Group[] {
  const groups = new Map<string, { holder: MemoryHolder; count: number }>();
  for (const holder of holders) {
    const key = [holder.line, holder.dtype, holder.shape ?? holder.size, holder.use].join();
    const known = groups.get(key);
    if (known === undefined) groups.set(key, { holder, count: 1 });
    else known.count++;
  }
  return [...groups.values()].map(({ holder: { nbytes, dtype, size, shape, use, line }, count }) => ({
    nbytes: nbytes * count,
    dtype,
    size,
    shape,
    use: count > 1 ? `${count} x ${use}` : use,
    line,
    count,
  })).sort((a, b) => b.nbytes - a.nbytes);
}

/** A table of what each open device holds, largest first; tensors of one line and shape are one row. */
export function memoryTable(limit: number = 40): string {
  return openDevices().map(({ name, allocator }) => {
    const { used, count, peak, cached } = allocator;
    const head = `memory of ${name}: ${byteText(used)} held in ${count} blocks, ${byteText(cached)} kept for reuse, ` +
      `at most ${byteText(peak)} were held`;
    const rows = grouped(allocator.largest());
    const more = rows.length > limit ? [`  ... and ${rows.length - limit} rows more`] : [];
    return [head, ...rows.length === 0 ? [] : [holderText(rows.slice(0, limit))], ...more].join("\n");
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
