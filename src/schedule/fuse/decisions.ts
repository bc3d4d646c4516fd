/**
 * What becomes of the nodes of a tensor graph, and how that is told.
 *
 * @module
 */
import { reduceOf } from "../../uop/core/args.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";

/** What becomes of a node: a buffer, a row that its kernel keeps, or neither. */
export type Decision = "realize" | "keep row" | "in place";

const DECISIONS: Readonly<Record<Decision, string>> = {
  realize: "is kept in memory",
  "keep row": "is kept as rows of its kernel",
  "in place": "is computed where it is read",
};

const REDUCTIONS: Readonly<Record<number, string>> = { [Ops.ADD]: "sum", [Ops.MAX]: "maximum", [Ops.MUL]: "product" };

/** A reduction by `op`, as notes call it. */
export function reductionName(op: number): string {
  return REDUCTIONS[op] ?? opName[op].toLowerCase();
}

/** Notes what was decided of a node; not of elementwise work with one reader, which goes without saying. */
export function tellDecision(
  u: UOp,
  list: readonly { readonly kernel: UOp }[],
  repeats: number,
  cost: number,
  then: Decision,
  name: string,
): void {
  const isReduce = u.op === Ops.REDUCE;
  if (then === "in place" && list.length < 2 && repeats <= 1 && !isReduce) return;
  const what = isReduce ? reductionName(reduceOf(u).op) : opName[u.op].toLowerCase();
  const kernels = new Set(list.map((c) => c.kernel)).size;
  const readers = kernels > 1 ? `${kernels} kernels` : list.length > 1 ? `${list.length} places` : "one place";
  const numbers = { kernels, places: list.length, repeats, cost };
  note(then === "realize" ? "missed" : "passed", u, `${what} ${DECISIONS[then]}, read in ${readers}: ${name}`, numbers);
}
