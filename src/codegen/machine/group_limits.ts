/**
 * Programs within the limits of a device. What opts ask for is held to them before a kernel is lowered (opt/kernel.ts); this
 * is the check of what has come of it.
 *
 * @module
 */
import { sharedBytesOf, threadsOf } from "../../renderer/lanes.ts";
import type { Capabilities, LinearProgram } from "../../renderer/renderer.ts";

/** What a program asks of a device beyond what it has, in words; undefined where it fits. */
export function excessOf(program: LinearProgram, { grid, maxBuffers }: Capabilities): string | undefined {
  const buffers = program.params.length;
  if (buffers > maxBuffers) return `it takes ${buffers} buffers, and a kernel may take ${maxBuffers}`;
  if (grid === undefined || program.grid === undefined) return undefined;
  const shared = sharedBytesOf(program, grid), threads = threadsOf(program), { size } = program.grid;
  if (shared > grid.sharedBytes) {
    return `its groups take ${shared} bytes of shared memory, and a group may take ${grid.sharedBytes}`;
  }
  if (threads > grid.maxGroupThreads) {
    return `its groups have ${threads} threads, and a group may have ${grid.maxGroupThreads}`;
  }
  if (size.some((n, i) => n > grid.maxGroupSize[i])) {
    return `its groups have ${size.join(" x ")} threads, and a group may have ${grid.maxGroupSize.join(" x ")}`;
  }
  return undefined;
}
