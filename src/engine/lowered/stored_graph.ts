/**
 * Graphs of kernels as text, which names them exactly: two graphs have one text if and only if they are the same, and what
 * a lowered kernel is made of can be read back. In: nodes without memory. Out: JSON; undefined of what has no such form.
 *
 * @module
 */
import { KernelInfo } from "../../codegen/opt/opt.ts";
import { type DType, DTYPES } from "../../dtype/dtype.ts";
import {
  AccArg,
  type Arg,
  AxesArg,
  type AxisKind,
  Int64,
  LocalArg,
  ParamArg,
  RangeArg,
  type Scope,
  StageArg,
  VariableArg,
} from "../../uop/core/args.ts";
import { CarrierArg } from "../../uop/core/carrier.ts";
import type { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp, uop, variable } from "../../uop/core/uop.ts";

/** A number as JSON has it, or as text where it has none. */
type Field = number | string;
type Encoded = readonly [kind: string, ...fields: Field[]];

function field(x: number): Field {
  return Number.isFinite(x) && !Object.is(x, -0) ? x : Object.is(x, -0) ? "-0" : String(x);
}

/** Args of lowered kernels: what is written of each, and what is made of that again. */
const KINDS: Readonly<Record<string, (f: readonly Field[]) => Arg>> = {
  number: ([x]) => Number(x),
  string: ([x]) => String(x),
  Int64: ([hi, lo]) => new Int64(Number(hi), Number(lo)),
  Axes: (f) => new AxesArg(f.map(Number)),
  Variable: ([name, min, max]) => new VariableArg(String(name), Number(min), Number(max)),
  Param: ([slot, size]) => new ParamArg(Number(slot), Number(size)),
  Range: ([id, kind, sub, first]) => new RangeArg(Number(id), Number(kind) as AxisKind, Number(sub), Number(first)),
  Acc: ([id]) => new AccArg(Number(id)),
  Local: ([id, size, scope]) => new LocalArg(Number(id), Number(size), scope as Scope),
};

/** An arg as fields; undefined for those that no kernel has, or that hold what cannot be compared. */
function encoded(arg: Arg): Encoded | undefined {
  if (typeof arg === "number") return ["number", field(arg)];
  if (typeof arg === "string") return ["string", arg];
  if (arg instanceof Int64) return ["Int64", arg.hi, arg.lo];
  if (arg instanceof AxesArg) return ["Axes", ...arg.axes];
  if (arg instanceof VariableArg) return ["Variable", arg.name, field(arg.min), field(arg.max)];
  if (arg instanceof ParamArg) return ["Param", arg.slot, arg.size];
  if (arg instanceof RangeArg) return ["Range", arg.id, arg.kind, arg.sub, arg.first];
  if (arg instanceof AccArg) return ["Acc", arg.id];
  if (arg instanceof LocalArg) return ["Local", arg.id, arg.size, arg.scope];
  // of kernels before they are lowered
  if (arg instanceof StageArg) {
    return ["Stage", arg.id, arg.scope, arg.width, arg.depth, Number(arg.isSwizzled)];
  }
  if (arg instanceof KernelInfo) return ["Kernel", arg.name, JSON.stringify(arg.opts ?? null)];
  return arg instanceof CarrierArg ? carrierFields(arg) : undefined;
}

/** Carriers are told apart by what they combine, too: a key alone says so only within one program. */
function carrierFields({ key, dtypes, identity, combine, join }: CarrierArg): Encoded | undefined {
  const lanes = (part: number): UOp[] => dtypes.map((d, i) => variable(`p${part}_${i}`, -Infinity, Infinity, d));
  const parts = [0, 1, 2].map(lanes), combined = graphText(combine(parts[0], parts[1]));
  const joined = join === undefined ? "" : graphText(join(parts));
  if (combined === undefined || joined === undefined) return undefined;
  return ["Carrier", key, dtypes.map((d) => `${d.id}x${d.count}`).join(), ...identity.map(field), combined, joined];
}

/** A graph in JSON. */
interface Stored {
  /** Of each node: op, dtype, lanes, how many sources, which, and the position of its arg plus one. */
  readonly ints: number[];
  readonly args: Encoded[];
  /** Positions of the nodes that were given. */
  readonly at: number[];
}

/** The nodes and all below them as text; undefined where an arg has no such form. */
export function graphText(nodes: readonly UOp[]): string | undefined {
  const order = toposort(nodes), ints: number[] = [], args: Encoded[] = [], at = new Map<UOp, number>();
  for (const u of order) {
    const { op, dtype, src, arg } = u;
    if (DTYPES[dtype.id]?.vec(dtype.count) !== dtype) return undefined;
    at.set(u, at.size);
    ints.push(op, dtype.id, dtype.count, src.length);
    for (const s of src) ints.push(at.get(s)!);
    if (arg === undefined) ints.push(0);
    else {
      const fields = encoded(arg);
      if (fields === undefined) return undefined;
      ints.push(args.push(fields));
    }
  }
  return JSON.stringify({ ints, args, at: nodes.map((u) => at.get(u)!) } satisfies Stored);
}

/** What {@linkcode graphText} was given; undefined where a node has an arg that cannot be made again. */
export function graphOf(text: string): UOp[] | undefined {
  const { ints, args, at } = JSON.parse(text) as Stored, made: UOp[] = [];
  for (let i = 0; i < ints.length;) {
    const op = ints[i] as Ops, dtype: DType = DTYPES[ints[i + 1]].vec(ints[i + 2]), end = i + 4 + ints[i + 3];
    const src = ints.slice(i + 4, end).map((k) => made[k]), number = ints[end];
    i = end + 1;
    if (number === 0) made.push(uop(op, dtype, src));
    else {
      const [kind, ...fields] = args[number - 1], make = KINDS[kind];
      if (make === undefined) return undefined;
      made.push(uop(op, dtype, src, make(fields)));
    }
  }
  return at.map((k) => made[k]);
}
