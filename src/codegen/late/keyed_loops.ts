/**
 * Reductions by key as loops over their terms, where loops run kernels: every result is filled with what it is without any
 * term, unless that is there, then each term in its order is combined with the result that its key says, which is read and
 * stored. Results are of one thread: threads share out rows, each with all terms, so that no order depends on how many
 * there are.
 *
 * In: a kernel AST that stores a reduction by key (uop/graph/keyed_reduce.ts). Out: the kernels that do these steps one after
 * the other, as phases of one (join_phases.ts), with vectors along rows as ranges of kind VECTOR already.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { envNumber } from "../../helpers/env.ts";
import { indexForm, type Linear, strideAlong } from "../../uop/algebra/linear_form.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { compareRanges, freeIds, iterationsOf, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, load, range, sink, store, toposort, type UOp, variable } from "../../uop/core/uop.ts";
import { type KeyedReduce, type KeyedTerms, reducesByKey } from "../../uop/graph/keyed_reduce.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { withOpts } from "../opt/opt.ts";
import type { PhaseKernels } from "./join_phases.ts";

/** Combined elements from which threads share them: some 50 microseconds of one. */
const SHARED = 1 << 16;
/** Bytes of a row that threads share out, for each: they write no line together. */
const LINE = 64;
/** Iterations that reading the keys once more is worth. */
const AGAIN = 4;

/** The reduction by key of a kernel that has nothing else to do, where that pays. */
function foundIn(ast: UOp, caps: Capabilities): KeyedReduce | undefined {
  return ast.src.length > 1 ? undefined : reducesByKey(ast.src[0], caps);
}

/** Is a kernel one whose terms are gone through by key? */
export function isByKey(ast: UOp, caps: Capabilities): boolean {
  return foundIn(ast, caps) !== undefined;
}

/** The kernels of a reduction by key; undefined where an AST is none, or looking at all terms costs less. */
export function keyedKernels(ast: UOp, caps: Capabilities): PhaseKernels | undefined {
  const found = foundIn(ast, caps);
  return found && new KeyedLoops(ast, found, caps).kernels();
}

/** The largest number of lanes that leaves few elements of `n` over, for what the device has. */
function lanesFor(n: number, most: number): number {
  let best = 1, least = n;
  for (let lanes = 2; lanes <= Math.min(most, n); lanes *= 2) {
    const rest = n % lanes, cost = Math.floor(n / lanes) + (rest === 0 ? 0 : rest + AGAIN);
    if (cost <= least) [best, least] = [lanes, cost];
  }
  return best;
}

/** What a thread has of a row: so many elements, from the first one on. */
interface Share {
  readonly size: number;
  readonly first: UOp;
}

class KeyedLoops {
  private id: number;
  /** Where a result lies. */
  private readonly form: Readonly<Linear>;

  constructor(ast: UOp, private readonly k: KeyedReduce, private readonly caps: Capabilities) {
    this.id = freeIds(toposort(ast)).range;
    this.form = indexForm(k.all.src[1]);
  }

  kernels(): PhaseKernels {
    const { k } = this, { neighbors } = k, shared = this.sharedOut();
    const parts = shared?.parts ?? 1, block = range(parts, 0, AxisKind.THREAD);
    const chosen = variable("block", 0, parts - 1, block.dtype);
    const own = new Map<UOp, Share>();
    for (const r of k.rows) {
      const size = r === shared?.row ? sizeOf(r) / parts : sizeOf(r);
      own.set(r, { size, first: size < sizeOf(r) ? chosen.cast(r.dtype).mul(size) : constant(0, r.dtype) });
    }
    const kernels = k.start === undefined ? [] : [this.part(store(k.all, k.start), own)],
      n = k.isRun ? own.get(neighbors!) : undefined;
    for (const terms of k.parts) {
      if (n === undefined) {
        kernels.push(this.combining(terms, own));
        continue;
      }
      const lanes = lanesFor(n.size, envNumber("NOOPT") === 0 ? this.lanes(terms) : 1);
      const whole = n.size - n.size % lanes;
      kernels.push(this.combining(terms, new Map([...own, [neighbors!, { size: whole, first: n.first }]]), lanes));
      if (whole === n.size) continue;
      const rest = { size: n.size - whole, first: n.first.add(whole) };
      kernels.push(this.combining(terms, new Map([...own, [neighbors!, rest]])));
    }
    const slots = kernels.flatMap((u) => toposort(u)).flatMap((u) =>
      u.op === Ops.PARAM ? argOf(u, Ops.PARAM).slot : []
    );
    return { kernels, first: 1 + Math.max(...slots), homes: [], sizes: [], block, chosen };
  }

  /** Lanes that the device has for all that a term is made of. */
  private lanes({ value, at }: KeyedTerms): number {
    const all = toposort([value, at]).filter((u) => u.op === Ops.LOAD);
    return Math.min(...[value, ...all].map((u) => Math.max(1, this.caps.vectorLanes(u.dtype))));
  }

  /** The row that threads share out, and into how many parts; undefined where one thread does it all. */
  private sharedOut(): { readonly row: UOp; readonly parts: number } | undefined {
    const { k, caps: { threads } } = this, { neighbors } = k;
    const terms = k.parts.reduce((n, p) => n + iterationsOf(p.ranges), 0);
    if (threads < 2 || terms * iterationsOf(k.rows) < SHARED) return undefined;
    const mayShare = (r: UOp): boolean => {
      const n = sizeOf(r) / threads;
      return Number.isInteger(n) && (r !== neighbors || n * k.carrier.dtypes[0].itemsize >= LINE);
    };
    const row = k.rows.toSorted((a, b) => strideAlong(this.form, b) - strideAlong(this.form, a)).find(mayShare);
    return row && { row, parts: threads };
  }

  /** The kernel of a STORE for what a thread has of rows, with so many lanes of neighbors. */
  private part(made: UOp, own: ReadonlyMap<UOp, Share>, lanes = 1): UOp {
    const { k, form } = this, { neighbors } = k, map = new Map<UOp, UOp>();
    const results = rangesOf(k.all), isTerm = (r: UOp): boolean => !results.includes(r);
    // what terms are rows of stands outside of them, but neighbors in memory
    const rank = (r: UOp): number => r === neighbors ? 2 : isTerm(r) ? 1 : 0;
    const order = rangesOf(made).toSorted((a, b) =>
      rank(a) - rank(b) || (isTerm(a) ? compareRanges(a, b) : strideAlong(form, b) - strideAlong(form, a))
    );
    for (const r of order) {
      const { size, first } = own.get(r) ?? { size: sizeOf(r), first: constant(0, r.dtype) };
      const width = r === neighbors ? lanes : 1, count = size / width;
      const loop = count === 1 ? constant(0, r.dtype) : range(constant(count, r.dtype), this.id++, AxisKind.LOOP);
      const lane = width === 1 ? constant(0, r.dtype) : range(constant(width, r.dtype), this.id++, AxisKind.VECTOR);
      map.set(r, first.add(loop.mul(width)).add(lane));
    }
    return sink([simplifyKernel(substitute(made, map))]);
  }

  /** The kernel that combines terms with the results of `own` rows. */
  private combining({ at, valid, value }: KeyedTerms, own: ReadonlyMap<UOp, Share>, lanes = 1): UOp {
    const place = index(at.src[0], at.src[1], valid), made = this.k.carrier.combine([load(place)], [value])[0];
    return withOpts(this.part(store(place, made), own, lanes), []);
  }
}
