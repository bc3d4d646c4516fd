/**
 * What many lanes and copies would do one by one, as loops. In: a kernel AST with its opts applied. Out: the AST where a
 * STORE of single elements, LOADs of such, and what is computed of each result of a long reduction have loops of their own
 * instead of copies.
 *
 * Lanes that are not neighbors in memory are stored one at a time, so a tile of a reduction ends in hundreds of statements
 * that a compiler takes longer for than for the reduction. Loops take as long to run: they move elements between buffers
 * and memory of the kernel, in the first cache, where vectors are written and read. What is computed stays in lanes: element
 * by element, selections would become branches.
 *
 * A tile of a reduction is some 20 vectors, and of each a few things may be computed before it is stored: most of a program,
 * and least of its time. The sums are kept, and loops read them; what does not change from tile to tile is kept as well,
 * where it takes functions.
 *
 * @module
 */
import { AxisKind, StageArg } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { isAlu, Ops, opWork } from "../../uop/core/ops.ts";
import { freeIds, iterationsOf, ownRanges, rangesOf } from "../../uop/core/ranges.ts";
import { index, load, mayHave, range, store, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { indexForm, slopeOf, strideAlong } from "../../uop/algebra/linear_form.ts";
import { laneShuffle } from "../ast/lane_layout.ts";
import { compareLoops, kindOf } from "../ast/range_facts.ts";
import { renameFree } from "../ast/replace_ranges.ts";
import { takesMask } from "./addresses.ts";

/** Accesses to single elements from which on they are worth loops. */
const MANY = 48;
/** Copies and lanes whose places are computed while compiling, at most: each is a statement. */
const MOST_FOLDED = 128;
/** Iterations of a reduction that takes much longer than to write its results and read them again. */
const LONG = 48;
/** Nodes that loops after such a reduction must spare. */
const MANY_NODES = 48;
/** Instructions of what is kept rather than computed for each tile. */
const MUCH_WORK = 6;
/** Nodes of what is rather copied, or computed of indices, by element than kept. */
const FEW_OPS = 12;

/** Is what a LOAD or STORE addresses no vector for the lanes of `lane`, nor vectors that are shuffled? */
function isScattered(access: UOp, lane: UOp | undefined, maskedBytes: number): boolean {
  if (lane === undefined) return false;
  const at = access.src[0], depends = (u: UOp): boolean => rangesOf(u).includes(lane);
  if (!depends(at)) return false;
  if (depends(at.src[0])) return true;
  const n = lane.src[0].value, isApart = slopeOf(at.src[1], lane, n, depends) !== 1;
  if (at.src.length > 2 && depends(at.src[2])) {
    // positions in memory and gates that are read from memory are of each lane
    const isKnown = at.src.slice(1).every((place) => !mayHave(place, Ops.LOAD));
    return isApart || !isLoad(access) || !isKnown || !takesMask(access, lane, n, depends, maskedBytes);
  }
  return isApart && laneShuffle(access, lane) === undefined;
}

/**
 * Has the place of an access quotients of `own` ranges alone? Copies have constants there, and what a condition on them
 * rules out is no access: loops would divide for each element.
 */
function isFolded(access: UOp, own: readonly UOp[]): boolean {
  if (iterationsOf(own) > MOST_FOLDED) return false;
  const isConstant = (u: UOp): boolean => {
    if (u.op !== Ops.FLOORDIV && u.op !== Ops.FLOORMOD) return false;
    const ranges = rangesOf(u);
    return ranges.length > 0 && ranges.every((r) => own.includes(r));
  };
  return access.src[0].src.slice(1).some((place) => toposort(place).some(isConstant));
}

function isLoad(u: UOp): boolean {
  return u.op === Ops.LOAD;
}

/** The nodes below `u` that belong to what it computes for one element: not those of reductions and rows in it. */
function ownNodes(u: UOp): UOp[] {
  return toposort(u, (x) => x.op !== Ops.REDUCE && x.op !== Ops.STAGE);
}

/** Is `u` memory whose content, or a read whose place, takes a reduction or row for each of `ranges`? */
function isComputedAlone(u: UOp, ranges: readonly UOp[]): boolean {
  if (u.op === Ops.STAGE) return rangesOf(u).some((r) => ranges.includes(r));
  return u.op === Ops.INDEX && ownNodes(u).some((x) => x.op === Ops.REDUCE);
}

/** Is something read that is written, elsewhere or by another STORE? Loops would change what comes first. */
function isMixed(sink: UOp): boolean {
  const written = new Set(sink.src.map((s) => s.src[0].src[0]));
  return sink.src.some((s) =>
    toposort(s).some((u) => u.op === Ops.LOAD && written.has(u.src[0].src[0]) && u.src[0] !== s.src[0])
  );
}

/** STOREs that stand in the same loops. */
interface Nest {
  readonly around: readonly UOp[];
  /** By range of copies or lanes: the loop in its place in STOREs. */
  readonly loops: Map<UOp, UOp>;
  /** The same, in what is computed after a reduction. */
  readonly afterwards: Map<UOp, UOp>;
}

class Roller {
  private readonly next: { range: number; stage: number };
  private readonly nests: Nest[] = [];
  /** What is kept, by value. */
  private readonly kept = new Map<UOp, UOp>();

  constructor(private readonly sink: UOp, private readonly maskedBytes: number) {
    this.next = freeIds(toposort(sink));
  }

  run(): UOp {
    const { sink } = this;
    if (isMixed(sink)) return sink;
    const made = sink.src.map((s) => this.roll(s));
    return made.every((s, i) => s === sink.src[i]) ? sink : sink.withSrc(made);
  }

  /** A STORE with loops for its copies and lanes, and for what it reads element by element, where there are many. */
  private roll(s: UOp): UOp {
    const [at] = s.src;
    const own = rangesOf(s).filter((r) => kindOf(r) === AxisKind.UPCAST || kindOf(r) === AxisKind.VECTOR);
    const lane = own.find((r) => kindOf(r) === AxisKind.VECTOR);
    const nodes = ownNodes(s),
      isMany = iterationsOf(own) >= MANY,
      isApart = isMany && isScattered(s, lane, this.maskedBytes);
    const apart = nodes.filter((u) =>
      isMany && isLoad(u) && isScattered(u, lane, this.maskedBytes) && iterationsOf(ownOf(u, own)) >= MANY &&
      !isFolded(u, own)
    );
    if (nodes.some((u) => isComputedAlone(u, own))) return s;
    const value = substitute(s.src[1], new Map(apart.map((l) => [l, this.reads(l, ownOf(l, own))])));
    const ranges = this.loopsAfter(s, value, own);
    // STOREs share loops: what is kept for one is read by the others
    const { loops, afterwards } = this.nestOf(rangesOf(s).filter((r) => !own.includes(r)));
    for (const r of ranges) if (!afterwards.has(r)) afterwards.set(r, this.loop(r));
    const inner = new Map(ranges.map((r) => [r, afterwards.get(r)!]));
    const computed = ranges.length > 0 ? this.after(value, own, inner) : value;
    if (!isApart) {
      return computed === s.src[1] ? s : s.withSrc([renameFree(at, inner), computed]);
    }
    for (const r of byStride(own, at.src[1])) if (!loops.has(r)) loops.set(r, this.loop(r));
    const place = at.src.slice(1).map((u) => renameFree(u, loops));
    const isCopy = ownNodes(value).every((u) => u.op !== Ops.REDUCE && (u === value || u.op !== Ops.LOAD));
    const kept = isCopy && ownNodes(value).length <= FEW_OPS
      ? renameFree(value, loops)
      : this.row(value, computed, ownOf(value, own), (r) => inner.get(r) ?? r, (r) => loops.get(r)!);
    return store(index(at.src[0], place[0], place[1]), kept);
  }

  /** Ranges of copies of a STORE of long reductions that shall be loops, outermost first: most is moved out of the last one. */
  private loopsAfter(s: UOp, value: UOp, own: readonly UOp[]): UOp[] {
    const nodes = ownNodes(value), sums = nodes.filter((u) => u.op === Ops.REDUCE);
    const isLong = (u: UOp): boolean => carrierOf(u).lanes === 1 && iterationsOf(ownRanges(u)) >= LONG;
    if (sums.length === 0 || !sums.every(isLong)) return [];
    const lane = own.find((r) => kindOf(r) === AxisKind.VECTOR), copies = own.filter((r) => r !== lane);
    // rows that are shuffled in registers stay copies
    const shuffles = new Map([s, ...nodes.filter(isLoad)].map((u) => [u, lane && laneShuffle(u, lane)]));
    const ranges = copies.filter((r) => ![...shuffles.values()].some((x) => x?.row === r));
    const follows = [s, ...nodes].filter((u) => u.op !== Ops.REDUCE && (opWork[u.op] > 0 || shuffles.has(u)));
    const copied = (u: UOp): number => iterationsOf(ownOf(u, copies));
    const gain = follows.reduce((n, u) => {
      const each = shuffles.get(u) !== undefined ? lane!.src[0].value : isAlu(u.op) ? 1 : 2;
      return n + each * copied(u) * (1 - 1 / iterationsOf(ownOf(u, ranges)));
    }, 0);
    if (gain < MANY_NODES + sums.reduce((n, u) => n + 2 * copied(u), 0)) return [];
    const fixed = (r: UOp): number => follows.reduce((n, u) => rangesOf(u).includes(r) ? n : n + opWork[u.op], 0);
    return ranges.sort((a, b) => fixed(a) - fixed(b));
  }

  /** What is computed of sums, in loops over those of their copies that `loops` has. */
  private after(value: UOp, own: readonly UOp[], loops: ReadonlyMap<UOp, UOp>): UOp {
    const around = rangesOf(value).filter((r) => !own.includes(r)).sort(compareLoops), innermost = around.at(-1);
    const kept = new Map<UOp, UOp>(), seen = new Set<UOp>();
    const isKept = (u: UOp): boolean => {
      if (u.op === Ops.REDUCE) return true;
      if (!isAlu(u.op) || innermost === undefined || rangesOf(u).includes(innermost)) return false;
      return ownNodes(u).reduce((n, x) => n + opWork[x.op], 0) >= MUCH_WORK;
    };
    const visit = (u: UOp): void => {
      if (seen.has(u)) return;
      seen.add(u);
      const ranges = ownOf(u, own);
      if (ranges.some((r) => loops.has(r))) {
        if (isKept(u)) kept.set(u, this.row(u, u, ranges, (r) => r, (r) => loops.get(r) ?? r));
        else if (u.op !== Ops.INDEX) u.src.forEach(visit);
      }
    };
    visit(value);
    return renameFree(substitute(value, kept), loops);
  }

  /** The parts of a loop that was parted have loops of their own: one in all of them would stand in all of those at once. */
  private nestOf(around: readonly UOp[]): Nest {
    const known = this.nests.find((n) =>
      n.around.length === around.length && n.around.every((r) => around.includes(r))
    );
    if (known !== undefined) return known;
    const nest = { around, loops: new Map<UOp, UOp>(), afterwards: new Map<UOp, UOp>() };
    this.nests.push(nest);
    return nest;
  }

  private loop(r: UOp): UOp {
    return range(r.src[0], this.next.range++, AxisKind.LOOP);
  }

  /** Reads lanes of what loops have loaded. */
  private reads(l: UOp, own: readonly UOp[]): UOp {
    const loops = new Map(this.kept.has(l) ? [] : own.map((r) => [r, this.loop(r)]));
    return this.row(l, renameFree(l, loops), own, (r) => loops.get(r)!, (r) => r);
  }

  /**
   * Keeps `value`, which stands for `u` and has the ranges `inside`, in the order of lanes, and reads it at `outside`.
   * Lanes are innermost, so that they are vectors.
   */
  private row(
    u: UOp,
    value: UOp,
    own: readonly UOp[],
    inside: (r: UOp) => UOp,
    outside: (r: UOp) => UOp,
  ): UOp {
    const isLane = (r: UOp): number => Number(kindOf(r) === AxisKind.VECTOR);
    const ranges = [...own].sort((a, b) => isLane(a) - isLane(b));
    let stage = this.kept.get(u);
    if (stage === undefined) {
      stage = uop(Ops.STAGE, u.dtype, [value, ...ranges.map(inside)], new StageArg(this.next.stage++, "thread"));
      this.kept.set(u, stage);
    }
    let flat: UOp | undefined, stride = iterationsOf(ranges);
    for (const r of ranges) {
      stride /= r.src[0].value;
      const term = stride === 1 ? outside(r) : outside(r).mul(stride);
      flat = flat === undefined ? term : flat.add(term);
    }
    return load(index(stage, flat!));
  }
}

/** Those of `ranges` that `u` depends on. */
function ownOf(u: UOp, ranges: readonly UOp[]): UOp[] {
  const free = rangesOf(u);
  return ranges.filter((r) => free.includes(r));
}

/** Ranges in the order of loops: the smallest step in memory innermost. */
function byStride(ranges: readonly UOp[], idx: UOp): UOp[] {
  const form = indexForm(idx), stride = (r: UOp): number => Math.abs(strideAlong(form, r));
  return [...ranges].sort((a, b) => stride(b) - stride(a) || compareLoops(a, b));
}

/**
 * Makes loops of what would be hundreds of accesses to single elements.
 * @param maskedBytes of the largest vector that the device loads under a mask: such a load is one access
 */
export function rollStores(sink: UOp, maskedBytes = 0): UOp {
  return new Roller(sink, maskedBytes).run();
}
