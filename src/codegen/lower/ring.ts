/**
 * Tiles that the threads of a group share, one after the other, in a ring of buffers. In: memory, the loop over the tiles,
 * and how to fill a buffer. Out: the memory to read in an iteration, ordered after what fills it, and where in it its tile
 * begins.
 *
 * Tiles are fetched `depth` - 1 iterations ahead. In each iteration a thread waits until its own part of the tile has come,
 * then for the others; then nobody reads the buffer before it in the ring any more, and it can be filled again, bit by bit
 * between the steps in which the tile is read. One barrier an iteration. Where matrix units go on reading a tile into the
 * next iteration, the buffer to fill is the one before that, and tiles are fetched one iteration less ahead.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
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
  /** The tile to fetch when number `k` is due: past the end any one, nobody reads it. */
  readonly tileAt: (k: UOp) => UOp;
  /** What fills memory `i`, seen as `base`, with a tile from element `slot` on. */
  readonly fill: (i: number, base: UOp, tile: UOp, slot: UOp | undefined) => UOp[];
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

/** Fills the ring ahead. */
export function fillRing({ memory, sizes, depth, loop, tileAt, fill, steps, late }: RingJob): Ring {
  const fetch = (order: UOp | undefined, k: UOp, slot: (size: number) => UOp | undefined): UOp[] => {
    const tile = tileAt(k);
    return memory.flatMap((m, i) => fill(i, order === undefined ? m : after(m, order), tile, slot(sizes[i])));
  };
  const commit = (stores: readonly UOp[]): UOp => uop(Ops.ASYNC_COMMIT, dtypes.void, stores);
  const fetched = depth - 1 - late;
  let first: UOp | undefined;
  for (let k = 0; k < fetched; k++) {
    first = commit(
      fetch(first, constant(k, loop.dtype), (n) => k === 0 ? undefined : constant(k * n, loop.dtype)),
    );
  }
  const wait = uop(Ops.ASYNC_WAIT, dtypes.void, [first!, loop], fetched - 1);
  const barrier = uop(Ops.BARRIER, dtypes.void, [wait], late > 0 ? late : undefined);
  const slotOf = (k: UOp, n: number): UOp => k.floorMod(depth).mul(n), ahead = loop.add(fetched);
  const stores = fetch(barrier, ahead, (n) => slotOf(ahead, n)), next = commit(stores);
  const bases = memory.map((m) => [
    // copies go between the steps, so that they do not hold up the first one
    ...Array.from(
      { length: steps - 1 },
      (_, k) => after(m, barrier, ...stores.slice(0, Math.floor(stores.length * k / (steps - 1)))),
    ),
    after(m, next),
  ]);
  return { bases, slots: sizes.map((n) => slotOf(loop, n)) };
}
