/**
 * Schedules as data. In: what a schedule is wanted for; out: text that names it exactly. In: a template; out: two lines, of
 * which the first is what it takes to run it, its kernels by the names that the store of lowered kernels has for them, and the
 * second their ASTs, which are made when somebody asks for one; and from these the template again.
 *
 * @module
 */
import { digest } from "../../device/object_cache.ts";
import type { Program } from "../../device/program.ts";
import { type DType, toDType } from "../../dtype/dtype.ts";
import type { MemoryPlan } from "../../schedule/order/memory_plan.ts";
import type { Becoming, EntryInfo, TemplateItem } from "../../schedule/order/template.ts";
import type { Lowered } from "../../schedule/schedule_passes.ts";
import type { Wanted } from "../../schedule/stored_schedules.ts";
import { type Arg, ShapeArg } from "../../uop/core/args.ts";
import { CustomArg } from "../../uop/core/custom_arg.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { GradientArg } from "../../uop/graph/given_gradient.ts";
import { type GraphData, plainData, recordData, Table } from "../../uop/graph/graph_data.ts";
import { namesOfPrograms } from "./disk_store.ts";
import {
  isReadable,
  kernelGraph,
  kernelsOfGraph,
  kernelsOfText,
  kernelText,
  sameKernelsOfText,
} from "./kernel_data.ts";

/** Arguments of a graph as text: each once. */
class ArgTexts {
  /** One text for equal arguments, and another for others. */
  readonly texts: string[] = [];
  private readonly rows = new Map<string, number>();
  private readonly known = new Map<Arg, number>();
  private readonly apart = new Map<number | GradientArg, number>();

  /** The row of an argument; -1 for none, undefined for one that has no text. */
  rowOf(arg: Arg): number | undefined {
    if (arg === undefined) return -1;
    const isZero = arg === 0; // a Map takes -0 for it
    let row = isZero ? undefined : this.known.get(arg);
    if (row !== undefined) return row;
    const text = this.textOf(arg);
    if (text === undefined) return undefined;
    row = this.rows.get(text);
    if (row === undefined) this.rows.set(text, row = this.texts.push(text) - 1);
    if (!isZero) this.known.set(arg, row);
    return row;
  }

  private textOf(arg: Exclude<Arg, undefined>): string | undefined {
    if (typeof arg !== "object") return JSON.stringify(plainData(arg));
    if (arg instanceof CustomArg) {
      const text = kernelText([arg.kernel]);
      return text === undefined ? undefined : `kernel ${text}`;
    }
    // what a gradient would be is nothing to a schedule
    if (arg instanceof GradientArg) return `gradient ${this.numberOf(arg)}`;
    const data = recordData(arg), text = data === undefined ? undefined : JSON.stringify(data);
    return arg instanceof ShapeArg && arg.apart !== 0 ? `${text} ${this.numberOf(arg.apart)}` : text;
  }

  /** The number that this graph gives to what is told apart from others within a process. */
  private numberOf(one: number | GradientArg): number {
    if (!this.apart.has(one)) this.apart.set(one, this.apart.size);
    return this.apart.get(one)!;
  }
}

/**
 * What a schedule is wanted for as text: two have one text if and only if one schedule serves both. undefined where an argument
 * is a function of the program.
 */
export function wantedText({ key, free, views }: Wanted): string | undefined {
  const { ints, args, constants, constantAt, offsets, boundAt } = key, texts = new ArgTexts(), rows: number[] = [];
  for (const arg of args) {
    const row = texts.rowOf(arg);
    if (row === undefined) return undefined;
    rows.push(row);
  }
  const numbers = [views ? 1 : 0, ints.length, rows.length, constants.length, offsets.length, boundAt.length];
  constants.forEach((c, i) =>
    numbers.push(constantAt[i], free.constants.has(i) ? 1 : 0, free.constants.has(i) ? 0 : c)
  );
  offsets.forEach(({ at, axis, value, max }, i) => {
    const o = free.offsets.get(i);
    numbers.push(at, axis, max, o === undefined ? -1 : o.first, o === undefined ? value : o.unit);
  });
  const all = Float64Array.from(numbers.concat(ints, rows, boundAt));
  return `${digest(new Uint8Array(all.buffer))}\n${texts.texts.join("\n")}`;
}

type DTypeData = readonly [name: string, lanes: number];
type EntryData = Omit<EntryInfo, "dtype" | "slot" | "view"> & {
  readonly dtype: DTypeData;
  readonly slot?: number;
  readonly view?: EntryInfo["view"];
};
type StepData = Omit<TemplateItem, "ast" | "at" | "collective"> & {
  readonly at?: number;
  /** The row of its kernel, or of the number that it fills with. */
  readonly row?: number;
};

/** What it takes to run a template. */
interface Head {
  readonly entries: readonly EntryData[];
  readonly steps: readonly StepData[];
  readonly becomes: readonly Becoming[];
  readonly plan: Omit<MemoryPlan, "places"> & { readonly places: readonly (MemoryPlan["places"][number] | null)[] };
  /** What is filled in. */
  readonly fills: GraphData | undefined;
}

function dtypeData({ scalar, count }: DType): DTypeData {
  return [scalar.name, count];
}

/**
 * A template as two lines; undefined for one that does not read back, or moves values between devices together.
 *
 * @param programs of its kernels
 */
export function scheduleLines(
  { entries, items, becomes, plan }: Lowered,
  programs: ReadonlyMap<TemplateItem, Program>,
): readonly [head: string, list: string] | undefined {
  const itself = (u: UOp): UOp => u, kernels = new Table(itself), fills = new Table(itself), steps: StepData[] = [];
  for (const item of items) {
    const { ast, collective, ...rest } = item, linear = programs.get(item)?.linear;
    if (collective !== undefined) return undefined;
    const row = ast === undefined ? undefined : (item.kind === "kernel" ? kernels : fills).at(ast);
    steps.push({ ...rest, row, stored: linear === undefined ? undefined : namesOfPrograms.get(linear) });
  }
  const list = kernelText(kernels.rows);
  // carriers of a program's own are read by nobody
  if (list === undefined || !isReadable(list) || sameKernelsOfText(list) === undefined) return undefined;
  const head: Head = {
    entries: entries.map((e) => ({ ...e, dtype: dtypeData(e.dtype) })),
    steps,
    becomes,
    plan: { ...plan, places: Array.from(plan.places, (p) => p ?? null) },
    fills: fills.rows.length === 0 ? undefined : kernelGraph(fills.rows),
  };
  return [JSON.stringify(head), list];
}

/** Kernels of a template, made when one is asked for. */
class Kernels {
  private made: readonly UOp[] | undefined;
  constructor(private readonly list: string) {}
  at(row: number): UOp {
    return (this.made ??= kernelsOfText(this.list))[row];
  }
}

/** A step as it was read. */
class StoredStep implements TemplateItem {
  readonly kind: TemplateItem["kind"];
  readonly device: string;
  readonly entries: readonly number[];
  readonly vars: readonly string[];
  readonly at: number | undefined;
  readonly stored: string | undefined;
  constructor(data: StepData, private readonly kernel: (() => UOp) | undefined) {
    const { kind, device, entries, vars, at, stored } = data;
    this.kind = kind;
    this.device = device;
    this.entries = entries;
    this.vars = vars;
    this.at = at;
    this.stored = stored;
  }
  /** Made when it is asked for. */
  get ast(): UOp | undefined {
    return this.kernel?.();
  }
}

/** The template of {@linkcode scheduleLines}. */
export function scheduleOf(head: string, list: string): Lowered {
  const { entries, steps, becomes, plan, fills } = JSON.parse(head) as Head, kernels = new Kernels(list);
  const numbers = fills === undefined ? [] : kernelsOfGraph(fills);
  const kernelOf = ({ kind, row }: StepData): (() => UOp) | undefined => {
    if (row === undefined) return undefined;
    return kind === "kernel" ? () => kernels.at(row) : () => numbers[row];
  };
  return {
    entries: entries.map(({ device, dtype: [name, lanes], size, slot, versions, kept, view }): EntryInfo => (
      { device, dtype: toDType(name).vec(lanes), size, slot, versions, kept, view }
    )),
    items: steps.map((s) => new StoredStep(s, kernelOf(s))),
    becomes,
    plan: { ...plan, places: plan.places.map((p) => p ?? undefined) },
  };
}
