/**
 * Reductions by key: of `reduce over r of where(t == key(r), value(r), identity)` each term goes to one result, the one that
 * its key says, or to none. In: the STORE of a kernel. Out: what each term is combined with, so that loops over the terms
 * (lower/keyed_loops.ts in codegen) can do in one pass what else looks at all of them for each result. Which of the two costs
 * less is told here too: the scheduler keeps such a reduction in a kernel of its own, codegen lowers it.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { vmin } from "../algebra/bounds.ts";
import { indexForm, strideAlong } from "../algebra/linear_form.ts";
import { simplify } from "../algebra/symbolic.ts";
import { joinAnd, splitAnd } from "../algebra/valid.ts";
import { argOf, AxisKind } from "../core/args.ts";
import { CarrierArg, carrierOf, identityConst, reduce } from "../core/carrier.ts";
import { Ops } from "../core/ops.ts";
import { dependsOn, iterationsOf, ownRanges, rangesOf } from "../core/ranges.ts";
import { constant, mayHave, toposort, type UOp } from "../core/uop.ts";
import { rebuild } from "../rewrite/walk.ts";
import { exactly, selects, substituteGated } from "./selecting.ts";

/** A reduction by key. */
export interface KeyedReduce {
  /** The INDEX of a result by the ranges of all results. */
  readonly all: UOp;
  readonly carrier: CarrierArg;
  /** What a result is before any term; undefined: what is there. */
  readonly start: UOp | undefined;
  /** Ranges that keys choose from, and others of results, along which a term is a row. */
  readonly keyed: readonly UOp[];
  readonly rows: readonly UOp[];
  /** The one of `rows` whose elements are neighbors in memory, and whether keys are the same for all of them. */
  readonly neighbors: UOp | undefined;
  readonly isRun: boolean;
  /** The terms, in kinds that have keys of their own. */
  readonly parts: readonly KeyedTerms[];
}

/** Terms of a reduction by key. */
export interface KeyedTerms {
  /** The INDEX of the result that a term goes to, and whether it goes anywhere; undefined: always. */
  readonly at: UOp;
  readonly valid: UOp | undefined;
  readonly value: UOp;
  /** The ranges of terms: those that keys depend on. */
  readonly ranges: readonly UOp[];
  /** Values that are combined to one of a term first, for each of its results. */
  readonly inner: number;
}

const known = new WeakMap<UOp, KeyedReduce | null>();

/** What a device is, as far as going by key is concerned. */
interface Machine {
  readonly hasGrid: boolean;
  readonly vectorLanes: (d: DType) => number;
}

/** The reduction by key that a STORE writes, where going through its terms once is what the device does, and costs less. */
export function reducesByKey(s: UOp, { hasGrid, vectorLanes }: Machine): KeyedReduce | undefined {
  const found = hasGrid ? undefined : keyedReduce(s);
  return found !== undefined && paysByKey(found, vectorLanes(found.carrier.dtypes[0])) ? found : undefined;
}

/** The REDUCE that a STORE writes, and what it is combined with before: what is there, or a number. */
function writtenReduce({ src: [all, value] }: UOp): { readonly sum: UOp; readonly before?: UOp } | undefined {
  const isCombined = value.src.length === 2 && (value.op === Ops.ADD || value.op === Ops.MUL || value.op === Ops.MAX);
  const at = isCombined
    ? value.src.findIndex((x) => x.op === Ops.CONST || (x.op === Ops.LOAD && x.src[0] === all))
    : -1;
  const sum = at < 0 ? value : value.src[1 - at];
  if (sum.op !== Ops.REDUCE || !(sum.arg instanceof CarrierArg)) return undefined;
  return at < 0 ? { sum } : OPS[sum.arg.key] === value.op ? { sum, before: value.src[at] } : undefined;
}

/** The reduction by key that a STORE writes, as it is; undefined of others. */
function keyedReduce(s: UOp): KeyedReduce | undefined {
  if (s.op !== Ops.STORE || writtenReduce(s) === undefined) return undefined;
  let found = known.get(s);
  if (found === undefined) known.set(s, found = find(s) ?? null);
  return found ?? undefined;
}

/** Is it read of memory, whatever is computed of that? */
function isRead(u: UOp): boolean {
  return mayHave(u, Ops.LOAD) && toposort(u).some((x) => x.op === Ops.LOAD);
}

const OPS: Readonly<Record<string, Ops | undefined>> = { ADD: Ops.ADD, MUL: Ops.MUL, MAX: Ops.MAX };
/** Kinds of terms that a reduction has, at most. */
const MOST_PARTS = 32;

function find(s: UOp): KeyedReduce | undefined {
  const [all] = s.src, { sum, before } = writtenReduce(s)!, carrier = carrierOf(sum), op = OPS[carrier.key];
  const [memory] = all.src;
  if (op === undefined || all.src.length > 2) return undefined;
  const results = rangesOf(all), reduced = ownRanges(sum);
  if (iterationsOf([...results, ...reduced]) === 0) return undefined;
  if (results.some((r) => argOf(r, Ops.RANGE).kind !== AxisKind.LOOP)) return undefined;
  if (toposort(sum).some((u) => u.op === Ops.LOAD && u.src[0].src[0] === memory)) return undefined;
  const lifted = before === undefined ? exactly(sum.src[0]) : undefined;
  const start = lifted && startOf(carrier, lifted.value, lifted.other);
  const none = identityConst(carrier, 0), form = indexForm(all.src[1]);
  const drafts = start !== undefined && start !== none
    ? draftsOf(lifted!.value, splitAnd(lifted!.condition), none, op)
    : draftsOf(sum.src[0], [], none, op);
  if (drafts.length > MOST_PARTS) return undefined;
  const found = drafts.map((d) => keysOf(d, results, reduced)), [first] = found;
  if (first === undefined || !found.every((f) => f !== undefined && first.keys.size === f.keys.size)) return undefined;
  const { keys } = first, rows = results.filter((r) => !keys.has(r)), parts: KeyedTerms[] = [];
  const neighbors = rows.find((r) => strideAlong(form, r) === 1);
  let isRun = neighbors !== undefined;
  for (const f of found) {
    if ([...f!.keys.keys()].some((r) => !keys.has(r))) return undefined;
    parts.push(termsOf(all, carrier, reduced, f!));
    isRun &&= ![...f!.keys.values()].some((e) => dependsOn(e, neighbors!));
  }
  return {
    all,
    carrier,
    start: before === undefined ? start ?? none : before.op === Ops.CONST ? before : undefined,
    keyed: [...keys.keys()],
    rows,
    neighbors,
    isRun,
    parts,
  };
}

/** A value, and the conditions under which it counts. */
interface Draft {
  readonly value: UOp;
  readonly conditions: readonly UOp[];
}

/** What a REDUCE by `op` lifts, in parts that each count under conditions, and change nothing elsewhere. */
function draftsOf(u: UOp, conditions: readonly UOp[], none: UOp, op: Ops): Draft[] {
  const c = exactly(u);
  if (c !== undefined && (c.other === none || c.other.isConst(none.value))) {
    return draftsOf(c.value, [...conditions, ...splitAnd(c.condition)], none, op);
  }
  if (u.op === op && u.src.every((s) => draftsOf(s, [], none, op).every((d) => d.conditions.length > 0))) {
    return u.src.flatMap((s) => draftsOf(s, conditions, none, op));
  }
  return [{ value: u, conditions }];
}

/** A draft with the ranges of results that its conditions choose, and by what. */
interface Keyed {
  readonly draft: Draft;
  readonly keys: ReadonlyMap<UOp, UOp>;
  readonly others: readonly UOp[];
}

function keysOf(draft: Draft, results: readonly UOp[], reduced: readonly UOp[]): Keyed | undefined {
  const keys = new Map<UOp, UOp>(), others: UOp[] = [];
  for (const c of draft.conditions) {
    const key = selects(c, results);
    const isKey = key !== undefined && !keys.has(key.r) && isRead(key.e) && reduced.some((r) => dependsOn(key.e, r));
    if (isKey) keys.set(key.r, key.e);
    else others.push(c);
  }
  const isFree = [...keys.values()].every((e) => ![...keys.keys()].some((r) => dependsOn(e, r)));
  return keys.size > 0 && isFree ? { draft, keys, others } : undefined;
}

function termsOf(all: UOp, carrier: CarrierArg, reduced: readonly UOp[], { draft, keys, others }: Keyed): KeyedTerms {
  const ranges = reduced.filter((r) => [...keys.values()].some((e) => dependsOn(e, r)));
  const inner = reduced.filter((r) => !ranges.includes(r));
  let [memory, at] = all.src, inside: UOp | undefined;
  for (const [r, e] of keys) {
    const low = e.lt(constant(0, e.dtype)).ne(1), high = e.lt(r.src[0].cast(e.dtype));
    inside = inside === undefined ? low.and(high) : inside.and(low).and(high);
    at = replaced(at, r, e);
  }
  /** What holds, or is, for the result that a term goes to. */
  const there = (u: UOp): UOp => {
    for (const [r, e] of keys) if (dependsOn(u, r)) u = substituteGated(u, r, e.cast(r.dtype), inside!);
    return u;
  };
  const conditions = others.map(there), isInner = (c: UOp): boolean => inner.some((r) => dependsOn(c, r));
  const below = conditions.filter(isInner);
  let value = there(draft.value);
  if (below.length > 0) value = joinAnd(below).where(value, identityConst(carrier, 0));
  if (inner.length > 0) value = reduce(carrier, [value], inner);
  const valid = simplify(joinAnd([inside!, ...conditions.filter((c) => !isInner(c))]));
  return {
    at: all.withSrc([memory, at]),
    valid: valid.isConst(1) ? undefined : valid,
    value,
    ranges,
    inner: iterationsOf(inner),
  };
}

/** What a result is before any term; undefined where what else it is combined with may change it. */
function startOf(carrier: CarrierArg, value: UOp, other: UOp): UOp | undefined {
  // a maximum with what no value is below
  const isLeast = carrier.key === "MAX" && other.dtype.isInt && other.dtype.bits < 64 && vmin(value) >= other.value;
  return isLeast ? other : undefined;
}

function replaced(u: UOp, r: UOp, e: UOp): UOp {
  const to = e.cast(r.dtype);
  return rebuild(u, (v) => v === r ? to : undefined, (v) => dependsOn(v, r));
}

/**
 * About cycles: of a term for its key and where that is, of a result, or a vector of them, that it is combined with, and of a
 * kernel more. Counts of 2^20 random keys take 1.1 cycles each on a Zen 5, those that wait for the one before 5.
 */
const TERM = 1, RESULT = 2, KERNEL = 4096;

/** Does it cost less to go through the terms once than to look at all of them for each result, with so many lanes? */
function paysByKey(k: KeyedReduce, lanes: number): boolean {
  const run = k.isRun ? iterationsOf([k.neighbors!]) : 1, width = iterationsOf(k.rows);
  const results = iterationsOf(k.keyed) * width;
  let looks = 0, byKey = (k.start === undefined ? 0 : results / lanes) + KERNEL;
  for (const { ranges, inner } of k.parts) {
    const terms = iterationsOf(ranges), combined = terms * width;
    looks += results * terms * inner / lanes;
    byKey += combined / run * TERM + combined * (RESULT + inner - 1) / Math.min(lanes, run);
  }
  return looks > byKey;
}
