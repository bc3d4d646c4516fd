/**
 * Letting the garbage collector see device memory. V8 counts only the small handles, and finalizers run in no synchronous
 * loop and in no await of resolved promises, only after a macrotask: so asynchronous reads yield one once 64 MB were
 * allocated since the last, and collect first where device memory has grown much since the last collection.
 *
 * @module
 */
import { allocated } from "./allocator.ts";
import { openDevices } from "./device.ts";

const YIELD_BYTES = 64 * 2 ** 20;
/** Memory held below this is no reason to collect. */
const QUIET_BYTES = 256 * 2 ** 20;
const GROWTH = 1.25;

let lastYield = 0;
let heldAfterCollection = 0;
let gc: (() => void) | null | undefined;

interface NodeProcess {
  getBuiltinModule?(name: string): unknown;
}

/** V8's collector, reached without a flag or a permission; null where there is none (a browser). */
function collector(): (() => void) | null {
  if (gc !== undefined) return gc;
  gc = null;
  try {
    const { process } = globalThis as { process?: NodeProcess };
    const v8 = process?.getBuiltinModule?.("node:v8") as { setFlagsFromString(flag: string): void } | undefined;
    const vm = process?.getBuiltinModule?.("node:vm") as { runInNewContext(code: string): unknown } | undefined;
    if (v8 !== undefined && vm !== undefined) {
      v8.setFlagsFromString("--expose-gc");
      const found = vm.runInNewContext("gc");
      if (typeof found === "function") gc = found as () => void;
    }
  } catch {
    // no collector to call: finalizers still run when V8 collects by itself
  }
  return gc;
}

function held(): number {
  let bytes = 0;
  for (const d of openDevices()) bytes += d.allocator.used;
  return bytes;
}

function macrotask(): Promise<void> {
  const later = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
  return new Promise((done) => later === undefined ? setTimeout(done, 0) : later(done));
}

/** Yields to finalizers if enough was allocated since the last time; collects first under pressure. */
export async function yieldToFinalizers(): Promise<void> {
  if (allocated.bytes - lastYield < YIELD_BYTES) return;
  lastYield = allocated.bytes;
  if (held() > Math.max(QUIET_BYTES, heldAfterCollection * GROWTH)) {
    collector()?.();
    await macrotask();
    heldAfterCollection = held();
    return;
  }
  await macrotask();
}
