/**
 * Accesses that many lanes and copies would make one by one, as loops. In: a kernel AST with its opts applied. Out: the AST
 * where such a STORE has loops of its own instead of copies, and such LOADs beside a reduction do.
 *
 * Lanes that are not neighbors in memory are stored one at a time, so a tile of a reduction ends in hundreds of statements
 * that a compiler takes longer for than for the reduction. Loops take as long to run: they move elements between buffers
 * and memory of the kernel, in the first cache, where vectors are written and read. What is computed stays in lanes: element
 * by element, selections would become branches.
 *
 * @module
 */
import { AxisKind, RangeArg, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, iterationsOf, rangesOf } from "../../uop/core/ranges.ts";
import { index, load, store, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { indexForm, slopeOf, strideAlong } from "../../uop/algebra/linear_form.ts";
import { laneShuffle } from "../ast/lane_layout.ts";
import { compareLoops, kindOf } from "../ast/range_facts.ts";
import { renameFree } from "../ast/replace_ranges.ts";

/** Accesses to single elements from which on they are worth loops. */
const MANY = 48;
/** Nodes of what is rather copied, or computed of indices, by element than kept. */
const FEW_OPS = 12;

/** Is what a LOAD or STORE addresses no vector for the lanes of `lane`, nor vectors that are shuffled? */
function isScattered(access: UOp, lane: UOp): boolean {
  const at = access.src[0], depends = (u: UOp): boolean => rangesOf(u).includes(lane);
  if (!depends(at)) return false;
  if (depends(at.src[0]) || (at.src.length > 2 && depends(at.src[2]))) return true;
  return slopeOf(at.src[1], lane, lane.src[0].value, depends) !== 1 && laneShuffle(access, lane) === undefined;
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

class Roller {
  private readonly next: { range: number; stage: number };
  /** By range of copies or lanes: the loop in its place in STOREs. */
  private readonly loops = new Map<UOp, UOp>();
  /** What is kept, by value: how it is read. */
  private readonly kept = new Map<UOp, UOp>();

  constructor(private readonly sink: UOp) {
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
    if (lane === undefined || iterationsOf(own) < MANY) return s;
    const nodes = ownNodes(s), isApart = isScattered(s, lane);
    const apart = nodes.filter((u) => u.op === Ops.LOAD && isScattered(u, lane) && iterationsOf(ownOf(u, own)) >= MANY);
    if ((!isApart && apart.length === 0) || nodes.some((u) => isComputedAlone(u, own))) return s;
    const value = substitute(s.src[1], new Map(apart.map((l) => [l, this.reads(l, ownOf(l, own))])));
    if (!isApart) return s.withSrc([at, value]);
    for (const r of byStride(own, at.src[1])) if (!this.loops.has(r)) this.loops.set(r, this.loop(r));
    const place = at.src.slice(1).map((u) => renameFree(u, this.loops));
    const isCopy = ownNodes(value).every((u) => u.op !== Ops.REDUCE && (u === value || u.op !== Ops.LOAD));
    const kept = isCopy && ownNodes(value).length <= FEW_OPS
      ? renameFree(value, this.loops)
      : this.row(value, value, ownOf(value, own), (r) => r, (r) => this.loops.get(r)!);
    return store(index(at.src[0], place[0], place[1]), kept);
  }

  private loop(r: UOp): UOp {
    return uop(Ops.RANGE, r.dtype, r.src, new RangeArg(this.next.range++, AxisKind.LOOP));
  }

  /** Reads lanes of what loops have loaded. */
  private reads(l: UOp, own: readonly UOp[]): UOp {
    if (this.kept.has(l)) return this.kept.get(l)!;
    const loops = new Map(own.map((r) => [r, this.loop(r)]));
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
    const known = this.kept.get(u);
    if (known !== undefined) return known;
    const isLane = (r: UOp): number => Number(kindOf(r) === AxisKind.VECTOR);
    const ranges = [...own].sort((a, b) => isLane(a) - isLane(b));
    let flat: UOp | undefined, stride = iterationsOf(ranges);
    for (const r of ranges) {
      stride /= r.src[0].value;
      const term = stride === 1 ? outside(r) : outside(r).mul(stride);
      flat = flat === undefined ? term : flat.add(term);
    }
    const arg = new StageArg(this.next.stage++, "thread");
    const made = load(index(uop(Ops.STAGE, u.dtype, [value, ...ranges.map(inside)], arg), flat!));
    this.kept.set(u, made);
    return made;
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

/** Makes loops of what would be hundreds of accesses to single elements. */
export function rollStores(sink: UOp): UOp {
  return new Roller(sink).run();
}
