/**
 * The order of a straight line. Engines compile instructions in the order in which they stand, and have some fourteen
 * vector registers: an unrolled body that finishes one accumulator after the other keeps all that it has loaded alive, in
 * memory. So accumulators take turns: next is the step that needs the fewest new operands and is the last to need most of
 * those that are there (list scheduling by register pressure alone; Goodman and Hsu, ICS 1988).
 *
 * @module
 */
import type { Item, Node, Variable } from "./wasm_ir.ts";

/**
 * Values from which an order of their own is worth its bytes: a step that is not the last of its accumulator goes through a
 * local. Twice the vector registers that engines have for values.
 */
const MANY = 28;
/** Values alive for which a step may go through a local rather than stay on the stack. */
const STACKED = 0.5;

/** Orders the straight lines of a body, and of the loops and ifs in it, in place. */
export function order(items: Item[]): void {
  const out: Item[] = [];
  let run: Item[] = [], written = new Set<Variable>();
  const end = (): void => {
    for (const item of ordered(run)) out.push(item);
    run = [];
    written = new Set();
  };
  for (const item of items) {
    if (item.kind === "let" || item.kind === "set") {
      const variable = item.kind === "let" ? item.node.variable : item.variable;
      if (variable !== undefined && written.has(variable)) end();
      if (item.kind === "set") written.add(item.variable);
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
  const steps: Step[] = [], stepOf = new Map<Node, Step>(), lets = new Map<Node, Item>();
  const operands = new Set<Node>(), users = new Map<Node, number>(), reads = new Map<Variable, number>();
  for (const item of run) {
    if (item.kind !== "let") continue;
    const { node } = item;
    lets.set(node, item);
    if (isRead(node)) {
      reads.set(node.variable!, 0);
      continue;
    }
    if (!node.src.some((s) => stepOf.has(s) || isRead(s))) {
      for (const s of node.src) users.set(s, Infinity); // of an operand: the last use is not known here
      continue;
    }
    const step: Step = { node, waits: 0, operands: [], next: [] };
    for (const s of new Set(node.src)) {
      const before = stepOf.get(s);
      if (before !== undefined) {
        before.next.push(step);
        step.waits++;
      } else if (isRead(s)) reads.set(s.variable!, (reads.get(s.variable!) ?? 0) + 1);
      else if (lets.has(s) && s.variable === undefined) {
        step.operands.push(s);
        operands.add(s);
        users.set(s, (users.get(s) ?? 0) + 1);
      }
    }
    stepOf.set(node, step);
    steps.push(step);
  }
  if (reads.size < 2 || reads.size + operands.size <= MANY) return run;
  const sets = new Map(run.flatMap((item) => item.kind === "set" ? [[item.value, item]] : []));
  const out: Item[] = [], there = new Set<Node>(), stored = new Set<Item>(), ready = steps.filter((s) => s.waits === 0);
  const write = (n: Node): void => {
    const item = lets.get(n);
    if (item === undefined || there.has(n)) return;
    there.add(n);
    n.src.forEach(write);
    out.push(item);
  };
  for (const n of lets.keys()) if (isRead(n)) write(n); // before anything is set
  let last: Step | undefined;
  while (ready.length > 0) {
    let best = 0, least = Infinity;
    ready.forEach((step, i) => {
      // what goes on with the last value takes it from the stack
      let grows = isOnly(step, last) ? -STACKED : 0;
      for (const o of step.operands) grows += (there.has(o) ? 0 : 1) - (users.get(o) === 1 ? 1 : 0);
      if (grows < least) {
        least = grows;
        best = i;
      }
    });
    const [step] = ready.splice(best, 1), { node } = step, set = sets.get(node);
    if (last !== undefined) last.node.isPlaced = !isOnly(step, last);
    write(node);
    for (const o of step.operands) users.set(o, users.get(o)! - 1);
    for (const s of new Set(node.src)) if (isRead(s)) reads.set(s.variable!, reads.get(s.variable!)! - 1);
    for (const n of step.next) if (--n.waits === 0) ready.push(n);
    last = step;
    if (set === undefined || step.next.length > 0 || reads.get(set.variable) !== 0) continue;
    stored.add(set);
    out.push(set);
    last = undefined;
  }
  if (last !== undefined) last.node.isPlaced = true;
  for (const n of lets.keys()) write(n);
  for (const item of run) if (item.kind === "set" && !stored.has(item)) out.push(item);
  return out;
}

/** Is it an accumulator's value, and not that of a counter or pointer? */
function isRead(n: Node): boolean {
  return n.variable?.fixed === false;
}

/** Is `step` all that goes on with `last`? */
function isOnly(step: Step, last: Step | undefined): boolean {
  return last?.next.length === 1 && last.next[0] === step;
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
