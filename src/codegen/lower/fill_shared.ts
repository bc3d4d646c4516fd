/**
 * The order in which threads fill and read STAGEs in shared memory. In: STAGEs that are filled in the same loops, and how to
 * store their elements. Out: the memory to read, ordered after what fills it.
 *
 * One buffer: wait until all have read the last iteration's tile, fill, wait, read. A ring of n buffers: tiles are fetched
 * n - 1 iterations ahead. In each iteration a thread waits until its own part of the tile has come, then for the others;
 * then nobody reads the buffer before it in the ring any more, and it can be filled again, bit by bit between the steps in
 * which the tile is read. One barrier an iteration.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { LocalArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";

/** What {@linkcode fillShared} takes. */
export interface SharedJob {
  readonly stages: readonly UOp[];
  /** Elements of memory of each. */
  readonly sizes: readonly number[];
  /** The loops around all of them, outermost first. */
  readonly loops: readonly UOp[];
  /** Buffers of each in a ring; 1 for none. */
  readonly depth: number;
  /** A new number for memory. */
  readonly nextLocal: () => number;
  /** The STOREs that fill a STAGE at `base` from element `slot` on, with ranges replaced. */
  readonly fill: (stage: UOp, base: UOp, replaced: ReadonlyMap<UOp, UOp>, slot: UOp | undefined) => UOp[];
  /** Loops of a STAGE's own that remain in the program. */
  readonly inner: (stage: UOp) => readonly UOp[];
  /** Unrolled steps in which the tiles are read. */
  readonly steps: number;
}

/** The memory of each STAGE, and where in it the current buffer begins. */
export interface SharedMemory {
  /** By STAGE, then by step: the memory after what must come before that step. */
  readonly bases: readonly (readonly UOp[])[];
  readonly slots: readonly (UOp | undefined)[];
}

function after(memory: UOp, ...order: readonly UOp[]): UOp {
  return uop(Ops.AFTER, memory.dtype, [memory, ...order]);
}

/** Fills the STAGEs, with the barriers that this takes. */
export function fillShared(job: SharedJob): SharedMemory {
  const { stages, loops, depth } = job;
  const memory = stages.map((s, i) =>
    uop(Ops.LOCAL, s.dtype, [], new LocalArg(job.nextLocal(), job.sizes[i] * depth, "shared"))
  );
  if (depth > 1) return fillRing(job, memory, loops[0]);
  const before = loops.length === 0 ? undefined : uop(Ops.BARRIER, dtypes.void, loops);
  const filled = stages.map((s, i) => {
    const base = before === undefined ? memory[i] : after(memory[i], before);
    return after(memory[i], ...job.fill(s, base, new Map(), undefined), ...job.inner(s));
  });
  const barrier = uop(Ops.BARRIER, dtypes.void, filled);
  return { bases: memory.map((m) => [after(m, barrier)]), slots: stages.map(() => undefined) };
}

function fillRing(job: SharedJob, memory: readonly UOp[], loop: UOp): SharedMemory {
  const { stages, sizes, depth, steps } = job;
  const { dtype } = loop, iterations = sizeOf(loop);
  let commit: UOp | undefined;
  for (let k = 0; k < depth - 1; k++) {
    // past the end the last tile comes again: nobody reads it
    const replaced = new Map([[loop, constant(Math.min(k, iterations - 1), dtype)]]);
    const stores = stages.flatMap((s, i) => {
      const base = commit === undefined ? memory[i] : after(memory[i], commit);
      return job.fill(s, base, replaced, k === 0 ? undefined : constant(k * sizes[i], dtype));
    });
    commit = uop(Ops.ASYNC_COMMIT, dtypes.void, stores);
  }
  const wait = uop(Ops.ASYNC_WAIT, dtypes.void, [commit!, loop], depth - 2);
  const barrier = uop(Ops.BARRIER, dtypes.void, [wait]);
  const ahead = loop.add(depth - 1), last = constant(iterations - 1, dtype);
  const replaced = new Map([[loop, ahead.lt(last).where(ahead, last)]]);
  const slotOf = (k: UOp, size: number): UOp => k.floorMod(depth).mul(size);
  const stores = stages.flatMap((s, i) => job.fill(s, after(memory[i], barrier), replaced, slotOf(ahead, sizes[i])));
  const next = uop(Ops.ASYNC_COMMIT, dtypes.void, stores);
  const bases = memory.map((m) => [
    // copies go between the steps, so that they do not hold up the first one
    ...Array.from({ length: steps - 1 }, (_, k) => {
      const before = stores.slice(0, Math.floor(stores.length * k / (steps - 1)));
      return after(m, barrier, ...before);
    }),
    after(m, next),
  ]);
  return { bases, slots: sizes.map((n) => slotOf(loop, n)) };
}
