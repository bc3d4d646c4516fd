/**
 * Tiles that the threads of a group share, one after the other, in a ring of buffers. In: memory, the loop over the tiles,
 * and who copies them: threads (stage_memory.ts) or an engine (copy_engine.ts). Out: the memory to read in an iteration,
 * ordered after what fills it, and where in it its tile begins.
 *
 * Tiles are fetched `depth` - 1 iterations ahead. In each iteration a thread waits until its own part of the tile has come,
 * then for the others; then nobody reads the buffer before it in the ring any more, and it can be filled again, bit by bit
 * between the steps in which the tile is read. One barrier an iteration. Where matrix units go on reading a tile into the
 * next iteration, the buffer to fill is the one before that, and tiles are fetched one iteration less ahead.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { rangeOf } from "../../helpers/math.ts";
import type { RingCopies, RingSlot } from "../../renderer/renderer.ts";
import { Ops } from "../../uop/core/ops.ts";
import { after, constant, type UOp, uop } from "../../uop/core/uop.ts";

/** What {@linkcode fillRing} takes. */
interface RingJob {
  /** The memory of each tile that is fetched in an iteration: `depth` buffers of so many elements. */
  readonly memory: readonly UOp[];
  readonly sizes: readonly number[];
  /** Buffers of each. */
  readonly depth: number;
  readonly loop: UOp;
  readonly copies: RingCopies;
  /** Unrolled steps in which the tiles are read. */
  readonly steps: number;
  /** Iterations after a tile's own in which it may still be read. */
  readonly late: number;
}

/** What is read in an iteration, of each memory. */
interface Ring {
  /** By memory, then by step: the memory after what must come before that step. */
  readonly bases: readonly (readonly UOp[])[];
  /** Where the tile begins. */
  readonly slots: readonly UOp[];
}

/** The buffer of iteration `k`. */
function slotOf(k: UOp, depth: number): RingSlot {
  if (k.op === Ops.CONST) return (size) => constant(k.value % depth * size, k.dtype);
  const at = k.floorMod(depth);
  return (size) => size === 1 ? at : at.mul(size);
}

/** Fills the ring ahead. */
export function fillRing({ memory, sizes, depth, loop, copies, steps, late }: RingJob): Ring {
  const fetched = depth - 1 - late, now = slotOf(loop, depth), last = loop.add(fetched);
  let order = copies.start;
  for (const k of rangeOf(fetched).map((k) => constant(k, loop.dtype))) {
    order = copies.fill(order, k, slotOf(k, depth)).done;
  }
  const wait = copies.wait(order, now, fetched - 1);
  const barrier = uop(Ops.BARRIER, dtypes.void, [wait], late > 0 ? late : undefined);
  const next = copies.fill([barrier], last, slotOf(last, depth));
  const bases = memory.map((m) => [
    // copies go between the steps, so that they do not hold up the first one
    ...rangeOf(steps - 1).map((k) => {
      return after(m, barrier, ...next.copies.slice(0, Math.floor(next.copies.length * k / (steps - 1))));
    }),
    after(m, ...next.done),
  ]);
  return { bases, slots: sizes.map(now) };
}
