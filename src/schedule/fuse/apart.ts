/**
 * FUSE=0: which nodes of a graph are kept in memory so that each operation as written has kernels of its own. What one line
 * of the user's computes for another is kept; where no lines are recorded, the result of each arithmetic op and reduce is.
 *
 * @module
 */
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, isSame, Ops } from "../../uop/core/ops.ts";
import { mayHave, toposort, type UOp } from "../../uop/core/uop.ts";

function computes(u: UOp): boolean {
  return isAlu(u.op) || u.op === Ops.REDUCE;
}

/** Is it more than a number that is known when kernels start? */
function isWorthMemory(u: UOp): boolean {
  return mayHave(u, Ops.BUFFER) || numelOf(u) > 1;
}

/** The results of operations below `roots`. */
export function resultsAsWritten(roots: readonly UOp[]): UOp[] {
  const order = toposort(roots), kept: UOp[] = [];
  /** The lines for which a node is read; undefined for one that nothing tells of. */
  const readers = new Map<UOp, Set<string | undefined>>();
  /** Of what has no line, that of its view: both are the result of one operation. */
  const ofView = new Map<UOp, string>();
  for (let i = order.length - 1; i >= 0; i--) {
    const u = order[i], read = readers.get(u) ?? new Set();
    let lines: ReadonlySet<string | undefined> = read;
    if (computes(u)) {
      // what has no line is of the one that reads it
      const line = u.line?.toString() ?? ofView.get(u) ?? (read.size === 1 ? [...read][0] : undefined);
      if (line === undefined || [...read].some((r) => r !== line)) { if (isWorthMemory(u)) kept.push(u); }
      lines = new Set([line]);
    } else if (!isMovement(u.op) && !isSame(u.op)) lines = new Set([undefined]);
    else {
      const line = u.line?.toString() ?? ofView.get(u);
      if (line !== undefined && u.src[0].line === undefined) ofView.set(u.src[0], line);
    }
    for (const s of u.src) {
      const known = readers.get(s);
      if (known === undefined) readers.set(s, new Set(lines));
      else for (const line of lines) known.add(line);
    }
  }
  return kept;
}
