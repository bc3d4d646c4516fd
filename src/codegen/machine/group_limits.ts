/**
 * Programs within the limits of a device: what one asks of a group of threads is known once it is written, and only then.
 * In: a program. Out: what it asks too much of; and opts that ask for less.
 *
 * @module
 */
import { sharedBytesOf, threadsOf } from "../../renderer/lanes.ts";
import type { Capabilities, LinearProgram } from "../../renderer/renderer.ts";
import type { Opt } from "../opt/opt.ts";

/** What a program asks of a device beyond what it has, in words; undefined where it fits. */
export function excessOf(program: LinearProgram, { grid, maxBuffers }: Capabilities): string | undefined {
  const buffers = program.params.length;
  if (buffers > maxBuffers) return `it takes ${buffers} buffers, and a kernel may take ${maxBuffers}`;
  if (grid === undefined || program.grid === undefined) return undefined;
  const shared = sharedBytesOf(program), threads = threadsOf(program), { size } = program.grid;
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

/**
 * The opts of a kernel that takes too much, with less to keep: rings of tiles with a buffer less, then no tiles; undefined
 * where there are none to give up.
 */
export function lesserOpts(opts: readonly Opt[]): readonly Opt[] | undefined {
  const depth = opts.reduce((most, o) => o.op === "STAGE" ? Math.max(most, o.arg) : most, 0);
  if (depth === 0) return undefined;
  if (depth === 1) return opts.filter((o) => o.op !== "STAGE");
  return opts.map((o) => o.op === "STAGE" ? { ...o, arg: Math.min(o.arg, depth - 1) } : o);
}
