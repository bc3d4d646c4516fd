/**
 * The order of a straight line. Engines compile instructions in the order in which they stand, and have some fourteen
 * vector registers: an unrolled body that finishes one accumulator after the other keeps all that it has loaded alive, in
 * memory. So accumulators take turns: next is the step that needs the fewest new operands and is the last to need most of
 * those that are there (list scheduling by register pressure alone; Goodman and Hsu, ICS 1988).
 *
 * @module
 */
import type { Item, Node } from "./wasm_ir.ts";

/** Vector registers that engines have for values, of 16. */
const REGISTERS = 14;

/** Orders the straight lines of a body, and of the loops and ifs in it, in place. */
export function order(items: Item[]): void {
  const out: Item[] = [];
  let run: Item[] = [], written = new Set<unknown>();
  const end = (): void => {
    for (const item of ordered(run)) out.push(item);
    run = [];
    written = new Set();
  };
  for (const item of items) {
    if (item.kind === "let" || item.kind === "set") {
      const variable = item.kind === "let" ? item.node.variable : item.variable;
      if (written.has(variable)) end();
      if (item.kind === "set") written.add(variable);
      run.push(item);
      continue;
    }
    end();
    out.push(item);
    if (item.kind === "loop" || item.kind === "if") order(item.body);
  }
  end();
  items.splice(0, items.length, ...out);
}

/** A straight line in which no variable is read after it was set, in an order that keeps few values alive. */
function ordered(run: readonly Item[]): readonly Item[] {
  const steps: Step[] = [],
    stepOf = new Map<Node, Step>(),
    lets = new Map<Node, Item>(),
    users = new Map<Node, number>();
  let accumulators = 0;
  for (const item of run) {
    if (item.kind !== "let") continue;
    const { node } = item, isRead = node.variable?.fixed === false;
    lets.set(node, item);
    if (isRead) accumulators++;
    if (!isRead && !node.src.some((s) => stepOf.has(s) || s.variable?.fixed === false)) {
      for (const s of node.src) users.set(s, Infinity); // of an operand: the last use is not known here
      continue;
    }
    if (isRead) continue;
    const step: Step = { node, waits: 0, operands: [], next: [] };
    for (const s of new Set(node.src)) {
      const before = stepOf.get(s);
      if (before !== undefined) {
        before.next.push(step);
        step.waits++;
      } else if (lets.has(s) && s.variable === undefined) {
        step.operands.push(s);
        users.set(s, (users.get(s) ?? 0) + 1);
      }
    }
    stepOf.set(node, step);
    steps.push(step);
  }
  if (accumulators < 2 || accumulators + users.size <= REGISTERS) return run;
  const out: Item[] = [], done = new Set<Node>(), ready = steps.filter((s) => s.waits === 0);
  const write = (n: Node): void => {
    const item = lets.get(n);
    if (item === undefined || done.has(n)) return;
    done.add(n);
    n.src.forEach(write);
    out.push(item);
  };
  while (ready.length > 0) {
    let best = 0, least = Infinity;
    ready.forEach(({ operands }, i) => {
      let grows = 0;
      for (const o of operands) grows += (done.has(o) ? 0 : 1) - (users.get(o) === 1 ? 1 : 0);
      if (grows < least) {
        least = grows;
        best = i;
      }
    });
    const [{ node, operands, next }] = ready.splice(best, 1);
    write(node);
    node.isPlaced = true;
    for (const o of operands) users.set(o, users.get(o)! - 1);
    for (const n of next) if (--n.waits === 0) ready.push(n);
  }
  for (const n of lets.keys()) write(n);
  for (const item of run) if (item.kind === "set") out.push(item);
  return out;
}

/** What is computed from an accumulator. */
interface Step {
  readonly node: Node;
  /** How many of the steps that it follows from are to come. */
  waits: number;
  /** What it needs besides them. */
  readonly operands: Node[];
  readonly next: Step[];
}
