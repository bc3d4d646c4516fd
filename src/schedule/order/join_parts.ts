/**
 * Sums of few terms an element, as reductions in parts leave them, are taken by the one kernel that reads them: it adds the
 * terms up where it read the sum. In: the steps of a template. Out: the same, without kernels that do only that.
 *
 * On grids alone: there a kernel more costs as much as reading some megabytes, and the terms of an element are under way
 * together.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { indexForm, rangeOfFactor, strideAlong } from "../../uop/algebra/linear_form.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { type CarrierArg, carrierOf, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, iterationsOf, ownRanges } from "../../uop/core/ranges.ts";
import { index, load, mayHave, param, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { addIndex, mulIndex } from "../../uop/graph/movement_index.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import type { EntryInfo, TemplateItem } from "./template.ts";

/** Terms of an element, those of the reader's own sum included, at most: a thread adds them up. */
const MOST_TERMS = 64;

/** A kernel that adds up parts, which lie one after the other in the entry `from`. */
interface SumOfParts {
  readonly item: TemplateItem;
  readonly carrier: CarrierArg;
  readonly count: number;
  readonly from: number;
}

/** The steps without the sums that their readers take. */
export function joinParts(
  items: readonly TemplateItem[],
  infos: readonly EntryInfo[],
  capsOf: (device: string) => Capabilities,
): TemplateItem[] {
  const uses = new Map<number, number>(), sums = new Map<number, SumOfParts>(), taken = new Set<TemplateItem>();
  for (const { entries } of items) for (const e of entries) uses.set(e, (uses.get(e) ?? 0) + 1);
  const isBetween = (e: number): boolean => {
    const { slot, kept, versions, view } = infos[e];
    return slot === undefined && !kept && versions === 1 && view === undefined;
  };
  const joined = items.map((item) => {
    if (item.kind !== "kernel" || !capsOf(item.device).hasGrid) return item;
    for (const e of item.entries) {
      const sum = sums.get(e), next = sum && withSum(item, e, sum);
      if (next === undefined) continue;
      taken.add(sum!.item);
      item = next;
    }
    const sum = sumOfParts(item), [to] = item.entries;
    // written here, and read in one place
    if (sum !== undefined && isBetween(to) && uses.get(to) === 2 && isBetween(sum.from)) sums.set(to, sum);
    return item;
  });
  return joined.filter((item) => !taken.has(item));
}

/** The one read of a PARAM, without a gate. */
function onlyRead(nodes: readonly UOp[], isOf: (p: UOp) => boolean): UOp | undefined {
  const at = nodes.filter((u) => u.op === Ops.INDEX && isOf(u.src[0])), [first] = at;
  if (at.length !== 1 || first.src.length > 2) return undefined;
  const loads = nodes.filter((u) => u.src[0] === first);
  return loads.length === 1 && loads[0].op === Ops.LOAD && loads[0].src.length === 1 ? loads[0] : undefined;
}

/** What a kernel adds up, if that is all it does: each result is the sum of what lies where it is in each of the parts. */
function sumOfParts(item: TemplateItem): SumOfParts | undefined {
  const { ast, entries } = item;
  if (ast === undefined || ast.src.length !== 1 || entries.length !== 2) return undefined;
  const [at, value] = ast.src[0].src;
  if (value.op !== Ops.REDUCE || value.src[0].op !== Ops.LOAD || value.src[0].src.length > 1) return undefined;
  const carrier = carrierOf(value), ranges = ownRanges(value), read = value.src[0].src[0];
  if (carrier.key !== "ADD" || at.src.length > 2 || read.src.length > 2) return undefined;
  const size = argOf(at.src[0], Ops.PARAM).size, results = indexForm(at.src[1]), terms = indexForm(read.src[1]);
  const around = results.factors.map(rangeOfFactor);
  if ([...around, ...ranges].some((r) => r?.op !== Ops.RANGE || r.src[0].op !== Ops.CONST)) return undefined;
  if (results.constant !== 0 || terms.constant !== 0 || iterationsOf(around as UOp[]) !== size) return undefined;
  if (terms.factors.length !== around.length + ranges.length) return undefined;
  if (!around.every((r) => strideAlong(terms, r!) === strideAlong(results, r!))) return undefined;
  let stride = size;
  for (const r of ranges.toReversed()) {
    if (strideAlong(terms, r) !== stride) return undefined;
    stride *= iterationsOf([r]);
  }
  return { item, carrier, count: stride / size, from: entries[1] };
}

/** The kernel that adds the parts up where it read their sum: once each, side by side as it writes. */
function withSum(item: TemplateItem, entry: number, { carrier, count, from }: SumOfParts): TemplateItem | undefined {
  const { ast, entries } = item, slot = entries.indexOf(entry);
  if (ast === undefined || entries.includes(from) || mayHave(ast, Ops.STAGE)) return undefined;
  const nodes = toposort(ast), read = onlyRead(nodes, (p) => argOf(p, Ops.PARAM).slot === slot);
  if (read === undefined) return undefined;
  const [base, at] = read.src[0].src,
    { size } = argOf(base, Ops.PARAM),
    ranges = nodes.filter((u) => u.op === Ops.RANGE);
  if (!ranges.every((r) => r.src[0].op === Ops.CONST && dependsOn(at, r)) || iterationsOf(ranges) !== size) {
    return undefined;
  }
  const terms = iterationsOf(ranges.filter((r) => argOf(r, Ops.RANGE).kind === AxisKind.REDUCE));
  const form = indexForm(at), written = indexForm(ast.src[0].src[0].src[1]);
  const isBeside = ranges.some((r) => strideAlong(form, r) === 1 && strideAlong(written, r) === 1);
  if (terms * count > MOST_TERMS || !isBeside) return undefined;
  const part = range(count, freeIds(nodes).range, AxisKind.REDUCE);
  const all = param(slot, base.dtype, size * count);
  const sum = reduce(carrier, [load(index(all, addIndex(mulIndex(part, size), at)))], [part]);
  return { ...item, ast: substitute(ast, new Map([[read, sum]])), entries: entries.with(slot, from) };
}
