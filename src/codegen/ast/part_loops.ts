/**
 * Loops in parts, on CPUs: where the conditions of what is joined (concatenated, rolled, padded, written to a slice) change
 * along a loop, it is cut, and each part computes what holds there. In: a kernel AST for loops with its opts applied. Out:
 * the AST with a STORE for each part, whose loops are its own.
 *
 * A condition is a comparison that is linear in one loop besides lanes, copies and variables. Between two cuts (at numbers,
 * or, of a loop that threads do not share, at values of variables) it holds for all iterations or for none, and the algebra
 * leaves one of the values that were selected; or it differs among lanes, as it did before. Loops around the one that is cut are shared. A part of a loop that threads share is one, too: each thread does what
 * is its share of every part, and what is reduced there has loops of its own. What keeps rows stays whole: its memory belongs
 * to all of its loops.
 *
 * @module
 */
import { expectedSize, vmin } from "../../uop/algebra/bounds.ts";
import { indexForm, rangeOfFactor } from "../../uop/algebra/linear_form.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { freeIds, ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { compareLoops, isReduceKind, kindOf } from "./range_facts.ts";
import { renameFree, renumberNest } from "./replace_ranges.ts";

/** Parts of a kernel, at most. */
const MOST_PARTS = 64;
/** Nodes that parts may have more than the whole: so many times, and so many besides. */
const GROWTH = 2, BESIDE = 64;
/** Share of the work of the whole above which it stays whole. */
const WORTH = 0.8;
/** Instructions of a load, of one under a condition besides, and of beginning a loop. */
const LOAD_WORK = 2, GATE_WORK = 2, LOOP_WORK = 4;

/** A loop and an iteration at which conditions change: a number, or a value of variables. */
interface Cut {
  readonly loop: UOp;
  readonly at: number | UOp;
}

function isLoop(r: UOp): boolean {
  return kindOf(r) === AxisKind.LOOP ? sizeOf(r) !== 1 : kindOf(r) === AxisKind.THREAD && sizeOf(r) > 1;
}

/** Iterations of a part, at least: with one it would be no loop, and what is no loop each thread does. */
function leastPart(loop: UOp): number {
  return kindOf(loop) === AxisKind.THREAD ? 2 : 1;
}

/** Does one iteration of the loops that are cut have all iterations of this: lanes, copies, and what is reduced? */
function isSpan(r: UOp): boolean {
  const kind = kindOf(r);
  return kind === AxisKind.VECTOR || kind === AxisKind.UPCAST || isReduceKind(kind);
}

function sub(a: UOp, b: UOp): UOp {
  return simplify(a.add(b.mul(-1)));
}

/** Where, along the only loop that it depends on, a comparison begins or ends to be the same for all lanes and copies. */
function cutsOf(less: UOp): Cut[] {
  const [a, b] = less.src;
  if (!a.dtype.isInt) return [];
  const sum = indexForm(a.add(b.mul(-1)));
  let loop: UOp | undefined, step = 0, low = sum.constant, high = low, variables: UOp | undefined;
  for (let i = 0; i < sum.factors.length; i++) {
    const factor = sum.factors[i], r = rangeOfFactor(factor), k = sum.coefs[i];
    if (r === undefined) {
      if (rangesOf(factor).length > 0 || mayHave(factor, Ops.LOAD)) return [];
      const term = factor.mul(k);
      variables = variables === undefined ? term : variables.add(term);
    } else if (isSpan(r) && sizeOf(r) > 0) {
      if (k < 0) low += k * (sizeOf(r) - 1);
      else high += k * (sizeOf(r) - 1);
    } else if (loop === undefined && isLoop(r)) [loop, step] = [r, k];
    else return [];
  }
  if (loop === undefined) return [];
  if (variables !== undefined) {
    if (Math.abs(step) !== 1 || kindOf(loop) === AxisKind.THREAD) return [];
    const [end] = loop.src,
      ats = [low, high].map((rest) => simplify(step > 0 ? variables!.add(rest).mul(-1) : variables!.add(rest + 1)));
    // a part that may not run has conditions still: what is read before its loop may be for it alone
    const isInside = (at: UOp): boolean => vmin(at) > 0 && vmin(sub(end, at)) > 0;
    return [...new Set(ats)].filter(isInside).map((at) => ({ loop: loop!, at }));
  }
  if (sizeOf(loop) === 0) return [];
  // step * iteration + rest < 0: up to some iteration, or from one on
  const ats = [low, high].map((rest) => step > 0 ? Math.ceil(-rest / step) : Math.floor(rest / -step) + 1);
  const least = leastPart(loop);
  return ats.flatMap((at) => at >= least && at <= sizeOf(loop) - least ? { loop, at } : []);
}

/** The loops of all STOREs, outermost first. */
function sharedLoops(sink: UOp): UOp[] {
  const [first, ...others] = sink.src.map((s) => rangesOf(s));
  return first.filter((r) => isLoop(r) && others.every((o) => o.includes(r))).sort(compareLoops);
}

/** Iterations of loops in each other: of those that end at a variable, half of the most. */
function expectedOf(ranges: readonly UOp[]): number {
  return ranges.reduce((n, r) => n * expectedSize(r), 1);
}

/** What a kernel does, roughly, in instructions. */
function workOf(sink: UOp): number {
  const loops = new Set<UOp>();
  let work = 0;
  for (const u of toposort(sink)) {
    const ranges = rangesOf(u).filter((r) => kindOf(r) !== AxisKind.VECTOR);
    if (u.op === Ops.RANGE && isLoop(u)) loops.add(u);
    if (isAlu(u.op)) work += expectedOf(ranges);
    else if (u.op === Ops.LOAD) work += (LOAD_WORK + (u.src[0].src.length > 2 ? GATE_WORK : 0)) * expectedOf(ranges);
  }
  for (const s of sink.src) {
    const around: UOp[] = [];
    for (const r of rangesOf(s).filter(isLoop).sort(compareLoops)) {
      if (loops.delete(r)) work += LOOP_WORK * expectedOf(around);
      around.push(r);
    }
  }
  return work;
}

class Parts {
  private readonly stores: UOp[] = [];
  private nextRange: number;

  constructor(private readonly whole: UOp) {
    this.nextRange = freeIds(toposort(whole)).range;
  }

  run(): UOp {
    const { whole, stores } = this;
    if (!this.part(whole, MOST_PARTS) || stores.length === whole.src.length) return whole;
    const made = whole.withSrc(stores), most = toposort(whole).length * GROWTH + BESIDE;
    return toposort(made).length <= most && workOf(made) <= workOf(whole) * WORTH ? made : whole;
  }

  /** Cuts a part in two at the middle one of its places, and so on, some times at most; false where there are too many. */
  private part(sink: UOp, times: number): boolean {
    const cut = this.middle(sink);
    if (cut === undefined) this.stores.push(...sink.src);
    else {
      const { loop, at } = cut;
      const middle = typeof at === "number" ? constant(at, loop.dtype) : at, zero = constant(0, loop.dtype);
      return times > 0 && this.part(this.piece(sink, loop, zero, middle), times - 1) &&
        this.part(this.piece(sink, loop, middle, loop.src[0]), times - 1);
    }
    return this.stores.length <= MOST_PARTS;
  }

  /** Of the outermost loop that has places to cut at: one at a variable, else the one in the middle of them. */
  private middle(sink: UOp): Cut | undefined {
    const cuts = toposort(sink).flatMap((u) => u.op === Ops.CMPLT ? cutsOf(u) : []);
    const loop = cuts.length === 0 ? undefined : sharedLoops(sink).find((r) => cuts.some((c) => c.loop === r));
    if (loop === undefined) return undefined;
    const ats = [...new Set(cuts.flatMap((c) => c.loop === loop ? c.at : []))];
    const numbers = ats.filter((at) => typeof at === "number").sort((a, b) => a - b);
    return { loop, at: ats.find((at) => typeof at !== "number") ?? numbers[numbers.length >> 1] };
  }

  /** Adds the ranges of what is reduced in a part to those that are made anew. */
  private renameReduces(sink: UOp, map: Map<UOp, UOp>): void {
    const reduces = toposort(sink).filter((u) => u.op === Ops.REDUCE);
    // outer ones come last, and what they go through may be all that an inner one depends on
    for (const u of reduces.reverse()) {
      if (!rangesOf(u).some((r) => map.has(r))) continue;
      renumberNest(ownRanges(u).filter((r) => !map.has(r)), map, () => this.nextRange++);
    }
  }

  /** Iterations of a loop from `begin` on, with that loop and those inside of it made anew. */
  private piece(sink: UOp, loop: UOp, begin: UOp, end: UOp): UOp {
    const map = new Map<UOp, UOp>(), all = new Set(sink.src.flatMap((s) => rangesOf(s)));
    for (const r of [...all].filter((r) => r === loop || kindOf(r) === AxisKind.LOOP).sort(compareLoops)) {
      if (compareLoops(r, loop) < 0) continue;
      const isCut = r === loop, from = isCut ? begin : constant(0, r.dtype);
      const { kind, first } = argOf(r, Ops.RANGE), start = kind === AxisKind.THREAD ? first + from.value : 0;
      const n = isCut ? sub(end, begin) : renameFree(r.src[0], map);
      const own = isCut && n.isConst(1) ? undefined : range(n, this.nextRange++, kind, 0, start);
      map.set(r, own === undefined ? from : from.isConst(0) ? own : own.add(from));
    }
    this.renameReduces(sink, map);
    return simplifyKernel(renameFree(sink, map));
  }
}

/** Is memory read that is written? Parts would change what comes first. */
function isInPlace(sink: UOp): boolean {
  const written = new Set(sink.src.map((s) => s.src[0].src[0]));
  return toposort(sink).some((u) => u.op === Ops.LOAD && written.has(u.src[0].src[0]));
}

/** Cuts the loops of a kernel where its conditions change, if that spares work. */
export function partLoops(ast: UOp): UOp {
  if (!mayHave(ast, Ops.CMPLT) || mayHave(ast, Ops.STAGE)) return ast;
  if (ast.src.some((s) => s.op !== Ops.STORE) || isInPlace(ast)) return ast;
  return new Parts(ast).run();
}
