/**
 * Which of the user's lines a step of a schedule computes: those of all nodes between what it makes and what other steps,
 * or memory, give it. In: the nodes of the graph in order, and a template of it; out: for each step its lines.
 *
 * @module
 */
import type { Line } from "../../helpers/stack.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Template } from "./template.ts";

/** The lines of each step, in the order of the program's graph, equal texts once; none where no lines were recorded. */
export function stepLines(order: readonly UOp[], { items, becomes }: Template): Line[][] {
  const at = new Map(order.map((u, i) => [u, i] as const));
  // what a step makes: the node that it is about, and those that become what it writes first
  const made = items.map((item) => {
    const own = becomes.filter((b) => b.entry === item.entries[0]).map((b) => b.at);
    return new Set(item.at === undefined ? own : [item.at, ...own]);
  });
  const others = new Set(made.flatMap((m) => [...m]));
  return made.map((roots) => {
    const seen = new Set<UOp>(), found = new Map<number, Line>();
    const stack = [...roots].map((i) => order[i]);
    while (stack.length > 0) {
      const u = stack.pop()!, i = at.get(u);
      if (seen.has(u) || i === undefined || u.op === Ops.BUFFER || (others.has(i) && !roots.has(i))) continue;
      seen.add(u);
      if (u.line !== undefined) found.set(i, u.line);
      for (const s of u.src) stack.push(s);
    }
    const lines = new Map<string, Line>();
    for (const [, line] of [...found].sort((a, b) => a[0] - b[0])) {
      if (!lines.has(String(line))) lines.set(String(line), line);
    }
    lines.delete("an unknown line");
    return [...lines.values()];
  });
}
