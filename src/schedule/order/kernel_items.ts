/**
 * From kernels in their order to the steps of a template: stores that nobody reads are dropped, reductions of much into
 * little are split, and PARAMs numbered as programs have them: outputs first, then inputs as they appear.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { param, sink, toposort, type UOp, variable } from "../../uop/core/uop.ts";
import { reducesByKey } from "../../uop/graph/keyed_reduce.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { factsOf, slotOf, slotWritten } from "../kernels/slots.ts";
import { type SplitKernel, splitKernel } from "../kernels/split_reduce.ts";
import { joinParts } from "./join_parts.ts";
import { entryOfKey, type Node } from "./kernel_graph.ts";
import type { EntryInfo, TemplateItem } from "./template.ts";

/** An AST that is final, the slot that each of its PARAMs had before, and its variables. */
interface Numbered {
  readonly ast: UOp;
  readonly slots: readonly number[];
  readonly vars: readonly string[];
}

/** What a kernel becomes: one step, or several with buffers between them in the slots from `first` on. */
interface Final {
  readonly steps: readonly Numbered[];
  readonly made: readonly { readonly dtype: DType; readonly size: number }[];
  readonly first: number;
}

/** The steps of nodes in this order; `infos` gets the entries of buffers between the parts of a kernel. */
export function makeItems(
  sequence: readonly Node[],
  infos: EntryInfo[],
  capsOf: (device: string) => Capabilities,
): TemplateItem[] {
  const readers = new Set<number>();
  for (const n of sequence) for (const r of n.reads) readers.add(entryOfKey(r));
  const known = new Map<string, Map<UOp, Final>>();
  const finalOf = (kernel: UOp, device: string): Final => {
    let finals = known.get(device);
    if (finals === undefined) known.set(device, finals = new Map());
    let final = finals.get(kernel);
    if (final === undefined) finals.set(kernel, final = finish(kernel, capsOf(device)));
    return final;
  };
  const items: TemplateItem[] = [];
  for (const n of sequence) {
    const { device, at } = n;
    if (n.step !== undefined) items.push(n.step);
    else {
      const { entries } = n.slots;
      const stores = n.stores.filter((s) => {
        const e = entries[slotWritten(s)];
        return infos[e].kept || infos[e].slot !== undefined || readers.has(e);
      });
      if (stores.length === 0) continue;
      const { steps, made, first } = finalOf(sink(stores), device), from = infos.length;
      for (const { dtype, size } of made) {
        infos.push({ device, dtype, size, slot: undefined, versions: 1, kept: false, view: undefined });
      }
      for (const { ast, slots, vars } of steps) {
        const own = slots.map((slot) => made.length > 0 && slot >= first ? from + slot - first : entries[slot]);
        items.push({ kind: "kernel", device, entries: own, ast, vars, at });
      }
    }
  }
  return joinParts(items, infos, capsOf);
}

function finish(kernel: UOp, caps: Capabilities): Final {
  const facts = kernel.src.map(factsOf);
  const first = 1 + Math.max(...facts.flatMap(({ params }) => params.map(slotOf)));
  const isWhole = facts.some((f) => f.isSymbolic) || kernel.src.some((s) => reducesByKey(s, caps) !== undefined);
  const steps: UOp[] = [], made: SplitKernel["made"][number][] = [];
  let last = kernel;
  for (;;) {
    const split = isWhole ? undefined : splitKernel(last, caps, first + made.length);
    if (split === undefined) break;
    steps.push(split.partial);
    made.push(...split.made);
    last = split.combine;
  }
  return { steps: [...steps, last].map(number), made, first };
}

function number(kernel: UOp): Numbered {
  const slots: number[] = [], vars: string[] = [], map = new Map<UOp, UOp>();
  const take = (p: UOp): void => {
    if (map.has(p)) return;
    const { slot, size } = argOf(p, Ops.PARAM);
    // one slot for each (entry, dtype): a bitcast view is a parameter of its own
    map.set(p, param(slots.length, p.dtype, size));
    slots.push(slot);
  };
  for (const s of kernel.src) take(s.src[0].src[0]);
  for (const u of toposort(kernel)) {
    if (u.op === Ops.PARAM) take(u);
    else if (u.op === Ops.VARIABLE) {
      const { name, min, max } = argOf(u, Ops.VARIABLE);
      map.set(u, variable(`v${vars.length}`, min, max, u.dtype));
      vars.push(name);
    }
  }
  return { ast: substitute(kernel, map), slots, vars };
}
