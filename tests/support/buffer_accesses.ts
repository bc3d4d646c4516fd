/**
 * What a linear program reads and writes of buffers, and how often one thread does so: what tests of choosers count.
 *
 * @module
 */
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { baseOf } from "../../src/uop/rewrite/walk.ts";

/** A LOAD or STORE of a buffer. */
export interface BufferAccess {
  readonly isStore: boolean;
  /** Elements of one. */
  readonly lanes: number;
  /** Iterations of the loops around it. */
  readonly times: number;
}

/** The accesses of a program to its buffers, in order. Its loops have constant ends. */
export function bufferAccesses({ uops }: LinearProgram): BufferAccess[] {
  const open: number[] = [], found: BufferAccess[] = [];
  let times = 1;
  for (const u of uops) {
    if (u.op === Ops.RANGE) {
      open.push(u.src[0].value);
      times *= u.src[0].value;
    } else if (u.op === Ops.END) times /= open.pop()!;
    const isStore = u.op === Ops.STORE;
    if ((!isStore && u.op !== Ops.LOAD) || baseOf(u.src[0]).op !== Ops.PARAM) continue;
    found.push({ isStore, lanes: (isStore ? u.src[1] : u).dtype.count, times });
  }
  return found;
}
