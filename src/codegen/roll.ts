/**
 * STOREs that many lanes and copies would make one by one, as loops. In: a kernel AST with its opts applied. Out: the AST
 * where such a STORE has loops of its own instead of copies, and reads what is computed in lanes from memory of the kernel.
 *
 * Lanes that are not neighbors in memory are stored one at a time, so a tile of a reduction ends in hundreds of statements
 * that a compiler takes longer for than for the reduction. In loops they take as long to run: vectors are written to the
 * first cache, and read from there by element. What is read there lane by lane as well moves into the loops, too.
 *
 * @module
 */
import { prod } from "../helpers/math.ts";
import { AxisKind, RangeArg, StageArg } from "../uop/args.ts";
import { isAlu, Ops } from "../uop/ops.ts";
import { freeIds, rangesOf } from "../uop/ranges.ts";
import { index, load, store, toposort, type UOp, uop } from "../uop/uop.ts";
import { linearOf, rangeOfAtom, slopeOf } from "./linear_form.ts";
import { compareLoops, kindOf } from "./ranges.ts";

/** STOREs of single lanes from which on they are worth loops. */
const MANY_STORES = 48;
/** Operations on indices that are rather computed by element than kept. */
const FEW_OPS = 12;

/** Is what an INDEX addresses no vector for the lanes of `lane`? */
function isScattered(at: UOp, lane: UOp): boolean {
  const depends = (u: UOp): boolean => rangesOf(u).includes(lane);
  if (!depends(at)) return false;
  if (depends(at.src[0]) || (at.src.length > 2 && depends(at.src[2]))) return true;
  return slopeOf(at.src[1], lane, lane.src[0].value, depends) !== 1;
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

/** How far an index moves along a range, as far as that is seen at once. */
function strideOf(idx: UOp, r: UOp): number {
  let stride = 0;
  for (const [atom, c] of linearOf(idx).terms) if (rangeOfAtom(atom) === r) stride += c;
  return Math.abs(stride);
}

class Roller {
  private readonly next: { range: number; stage: number };
  /** By range of copies or lanes: the loop in its place. */
  private readonly loops = new Map<UOp, UOp>();
  /** What is kept, by value. */
  private readonly kept = new Map<UOp, UOp>();

  constructor(private readonly sink: UOp) {
    this.next = freeIds(toposort(sink));
  }

  run(): UOp {
    const { sink } = this;
    const made = sink.src.map((s) => this.roll(s));
    return made.every((s, i) => s === sink.src[i]) ? sink : sink.withSrc(made);
  }

  /** A STORE with loops for its copies and lanes, where that is better. */
  private roll(s: UOp): UOp {
    const [at, value] = s.src;
    const own = rangesOf(s).filter((r) => kindOf(r) === AxisKind.UPCAST || kindOf(r) === AxisKind.VECTOR);
    const lane = own.find((r) => kindOf(r) === AxisKind.VECTOR);
    if (lane === undefined || prod(own.map((r) => r.src[0].value)) < MANY_STORES || !isScattered(at, lane)) return s;
    // what is written may be read only where it is written
    if (toposort(s).some((u) => u.op === Ops.LOAD && u.src[0].src[0] === at.src[0] && u.src[0] !== at)) return s;
    if (ownNodes(s).some((u) => isComputedAlone(u, own))) return s;
    const order = own.sort((a, b) => strideOf(at.src[1], b) - strideOf(at.src[1], a) || compareLoops(a, b));
    for (const r of order) {
      if (this.loops.has(r)) continue;
      this.loops.set(r, uop(Ops.RANGE, r.dtype, r.src, new RangeArg(this.next.range++, AxisKind.LOOP)));
    }
    const memo = new Map<UOp, UOp>();
    const kept = this.keep(value, order, lane, memo);
    const place = at.src.slice(1).map((u) => this.renamed(u, memo));
    return store(index(at.src[0], place[0], place[1]), kept);
  }

  /** `u` by element: what lanes compute better is kept for all of `ranges`. */
  private keep(u: UOp, ranges: readonly UOp[], lane: UOp, memo: Map<UOp, UOp>): UOp {
    const known = memo.get(u);
    if (known !== undefined) return known;
    const free = rangesOf(u), own = ranges.filter((r) => free.includes(r));
    let made: UOp;
    if (own.length === 0) made = u;
    else if (u.op === Ops.RANGE || u.op === Ops.LOAD || this.isIndex(u)) made = this.renamed(u, memo);
    else if (!isAlu(u.op) || !ownNodes(u).some((x) => x.op === Ops.LOAD && isScattered(x.src[0], lane))) {
      made = this.kept.get(u) ?? this.row(u, own);
    } else made = u.withSrc(u.src.map((x) => this.keep(x, ranges, lane, memo)));
    memo.set(u, made);
    return made;
  }

  /** Is it a little arithmetic on indices? */
  private isIndex(u: UOp): boolean {
    const nodes = ownNodes(u);
    return nodes.length <= FEW_OPS && !nodes.some((x) => x.op === Ops.LOAD || x.op === Ops.REDUCE);
  }

  /** Reads element after element of `u`, which is kept: lanes innermost, so that vectors are written. */
  private row(u: UOp, own: readonly UOp[]): UOp {
    const inOrder = [...own].sort((a, b) =>
      Number(kindOf(a) === AxisKind.VECTOR) - Number(kindOf(b) === AxisKind.VECTOR)
    );
    const arg = new StageArg(this.next.stage++, "thread", "packed");
    let flat: UOp | undefined, stride = prod(inOrder.map((r) => r.src[0].value));
    for (const r of inOrder) {
      stride /= r.src[0].value;
      const loop = this.loops.get(r)!, term = stride === 1 ? loop : loop.mul(stride);
      flat = flat === undefined ? term : flat.add(term);
    }
    const made = load(index(uop(Ops.STAGE, u.dtype, [u, ...inOrder], arg), flat!));
    this.kept.set(u, made);
    return made;
  }

  /** `u` with loops in place of copies and lanes. */
  private renamed(u: UOp, memo: Map<UOp, UOp>): UOp {
    const loop = this.loops.get(u);
    if (loop !== undefined) return loop;
    const known = memo.get(u);
    if (known !== undefined || u.src.length === 0) return known ?? u;
    const free = rangesOf(u);
    const made = free.some((r) => this.loops.has(r)) ? u.withSrc(u.src.map((x) => this.renamed(x, memo))) : u;
    memo.set(u, made);
    return made;
  }
}

/** Makes loops of STOREs that would be hundreds of statements. */
export function rollStores(sink: UOp): UOp {
  return new Roller(sink).run();
}
