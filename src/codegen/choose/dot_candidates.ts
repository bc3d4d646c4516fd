/**
 * How sums of products of bytes may be computed that lower/dot_sums.ts will find: where four neighbors of the sum lie side by
 * side in both operands, and neighbors along an output axis four bytes apart in one of them, so that a vector of words is read
 * as it lies. What the model of loops takes for strides is none then, and nothing needs to be packed. Deterministic.
 *
 * @module
 */
import { divisorUpTo, prod } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { slopeOf } from "../../uop/algebra/linear_form.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { dtypes } from "../../dtype/dtype.ts";
import type { Kernel } from "../opt/kernel.ts";
import { THREAD_COST } from "./loop_costs.ts";
import { kernelFor, type Proposal } from "./proposal.ts";

/** Bytes of a word. */
const WORD = 4;
/** Rows of a tile, at most, which share what words are computed by; vectors of columns. */
const MOST_ROWS = 8, MOST_COLUMNS = 8;
/** Bytes that memory gives a core in a cycle, about. */
const BYTES_A_CYCLE = 4;

/** Where the axes of such a sum are. */
interface DotAxes {
  /** The output axis whose neighbors are a word apart, and another one of the same operand, -1 where it has none. */
  readonly columns: number;
  readonly outer: number;
  /** The one that the other operand has; -1 where it has none. */
  readonly rows: number;
  /** Among the reduce axes. */
  readonly sum: number;
}

function slope(u: UOp, range: UOp, n: number): number | undefined {
  return slopeOf(u.src[0].src[1], range, n, (x) => dependsOn(x, range));
}

function axesOf(kernel: Kernel, lanes: number): DotAxes | undefined {
  const nodes = toposort(kernel.ast), reduces = nodes.filter((u) => u.op === Ops.REDUCE);
  if (reduces.length !== 1 || nodes.some((u) => u.op === Ops.STAGE) || kernel.axes.some((a) => a.size === 0)) {
    return undefined;
  }
  const loads = toposort(reduces[0].src[0]).filter((u) =>
    u.op === Ops.LOAD && u.dtype.isInt && u.dtype.itemsize === 1 && u.src[0].src[0].op === Ops.PARAM
  );
  const outputs = kernel.outputAxes, reduced = kernel.axes.slice(outputs.length).filter((a) => a.role === "reduce");
  for (let sum = reduced.length - 1; sum >= 0; sum--) {
    const { range, size } = reduced[sum], slopes = loads.map((u) => slope(u, range, WORD));
    if (size % WORD !== 0 || !slopes.every((s) => s === 0 || s === 1)) continue;
    const quants = loads.filter((_, i) => slopes[i] === 1);
    for (let columns = outputs.length - 1; columns >= 0; columns--) {
      const { range: column, size } = outputs[columns];
      if (size % lanes !== 0) continue;
      const steps = quants.map((u) => slope(u, column, lanes));
      if (!steps.every((s) => s === 0 || s === WORD) || !steps.includes(0) || !steps.includes(WORD)) continue;
      const other = (isWide: boolean): number =>
        outputs.findLastIndex(({ range, size }, i) =>
          i !== columns && size > 1 &&
          quants.every((u, k) => dependsOn(u, range) === ((steps[k] === WORD) === isWide))
        );
      return { columns, outer: other(true), rows: other(false), sum };
    }
  }
  return undefined;
}

/** The way to compute a kernel that is such a sum; none for others. */
export function dotProposals(ast: UOp, caps: Capabilities): Proposal[] {
  const lanes = caps.vectorLanes(dtypes.float32), kernel = kernelFor(ast, caps);
  const found = lanes < 2 ? undefined : axesOf(kernel, lanes);
  if (found === undefined) return [];
  const { columns, outer, rows, sum } = found, sizes = kernel.axes.map((a) => a.size), most = caps.registers / 2;
  const rowCount = rows < 0 ? 1 : sizes[rows], row = Math.min(rowCount, MOST_ROWS, Math.max(1, most / 2));
  // each word is read from memory once, and multiplied with those of each row
  const cost = prod(sizes) * Math.max(1 / (lanes * WORD), 1 / (BYTES_A_CYCLE * rowCount));
  const threads = cost >= THREAD_COST ? caps.threads : 1, axis = sizes[columns] === lanes ? outer : columns;
  const vectors = axis < 0 ? 1 : axis === columns ? sizes[columns] / lanes : sizes[outer];
  const wanted = Math.min(MOST_COLUMNS, Math.floor(most / row), Math.floor(vectors / threads));
  const column = divisorUpTo(vectors, wanted);
  const make = (): Kernel => {
    kernel.apply({ op: "VECTOR", axis: columns, size: lanes });
    if (column > 1) kernel.apply({ op: "UPCAST", axis, size: column });
    if (row > 1 && (kernel.mayOverlap || rowCount % row === 0)) kernel.apply({ op: "UPCAST", axis: rows, size: row });
    kernel.apply({ op: "UNROLL", reduce: sum, size: WORD });
    // the words of a tile stay in a cache for all rows
    const first = outer >= 0 && sizes[outer] / (axis === outer ? column : 1) >= threads ? outer : axis;
    if (first > 0) kernel.apply({ op: "SWAP", axis: 0, other: first });
    if (threads === 1) return kernel;
    if (first >= 0 && (first === outer || vectors / column >= threads)) {
      kernel.apply({ op: "THREAD", axis: first, chunks: 0 });
    } else if (rowCount / row >= threads) kernel.apply({ op: "THREAD", axis: rows, chunks: 0 });
    return kernel;
  };
  return [{ what: "bytes that lie as they are multiplied", cost, floor: 0, make }];
}
