/**
 * Memory planner: the temporary buffers of a schedule share memory where their lifetimes do not overlap. A free list by
 * size; `NO_MEMORY_PLANNER=1` gives each its own.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { roundUp } from "../helpers/math.ts";
import type { Template } from "./lower.ts";

/** A block that temporaries share. */
export interface PlannedBlock {
  readonly device: string;
  readonly nbytes: number;
}

/** Which block each temporary entry uses; undefined for entries that are no temporaries. */
export interface MemoryPlan {
  readonly blocks: readonly PlannedBlock[];
  readonly blockOf: readonly (number | undefined)[];
}

const ALIGN = 256;

/** Plans the temporaries of a template: entries that are neither storages of the graph nor kept. */
export function planMemory(t: Pick<Template, "entries" | "items">): MemoryPlan {
  const first = new Map<number, number>(), last = new Map<number, number>();
  t.items.forEach((item, i) => {
    for (const e of item.entries) {
      if (t.entries[e].slot !== undefined || t.entries[e].kept) continue;
      if (!first.has(e)) first.set(e, i);
      last.set(e, i);
    }
  });
  const dying: number[][] = t.items.map(() => []);
  for (const [e, i] of last) dying[i].push(e);
  const blocks: { device: string; nbytes: number }[] = [];
  const blockOf: (number | undefined)[] = new Array(t.entries.length).fill(undefined);
  const free: number[] = [];
  const planner = envNumber("NO_MEMORY_PLANNER") === 0;
  t.items.forEach((item, i) => {
    for (const e of item.entries) {
      if (first.get(e) !== i || blockOf[e] !== undefined) continue;
      const { device, size, dtype } = t.entries[e];
      const nbytes = roundUp(Math.max(size * dtype.itemsize, 1), ALIGN);
      // the smallest free block that is large enough and not wastefully larger
      let best = -1;
      for (let f = 0; f < free.length; f++) {
        const b = blocks[free[f]];
        if (b.device !== device || b.nbytes < nbytes || b.nbytes > nbytes * 2) continue;
        if (best < 0 || b.nbytes < blocks[free[best]].nbytes) best = f;
      }
      if (best >= 0) blockOf[e] = free.splice(best, 1)[0];
      else {
        blockOf[e] = blocks.length;
        blocks.push({ device, nbytes });
      }
    }
    if (planner) { for (const e of dying[i]) free.push(blockOf[e]!); }
  });
  return { blocks, blockOf };
}
