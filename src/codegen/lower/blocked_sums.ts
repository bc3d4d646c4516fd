/**
 * Long float sums in blocks: a loop that would add very many numbers to one accumulator becomes two or three, one inside
 * the other, each with accumulators of its own. What is rounded off grows with the longest of these loops, and not with the
 * number of elements (N. Higham, "The accuracy of floating point summation", 1993). In and out: a kernel AST with its opts
 * applied.
 *
 * A REDUCE over loops and copies becomes a REDUCE of REDUCEs: inside, a suffix of the loops, the innermost cut if need be,
 * and what is unrolled, which shares accumulators anyway; outside, the other loops, lanes and threads, which meet once.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { type CarrierArg, carrierOf, reduce, RescaleCarrier } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, rangesOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { kindOf } from "../ast/range_facts.ts";
import { lanesOf, rebuildKernel, type Replacement, replaceRanges } from "../ast/replace_ranges.ts";
import { separateNests } from "../ast/simplify.ts";
import { accumulatorsFor } from "./lower_reduce.ts";

/** Numbers that one accumulator may add up, and products of tiles. */
const LONGEST = 1024, LONGEST_PRODUCT = 4096;
/** Numbers in a block, about, of one accumulator. */
const BLOCK = 128;
/** Blocks whose sums one accumulator may add up. */
const MOST_BLOCKS = 512;
/** Iterations that make a loop of blocks worth its while. */
const LEAST_BLOCK = 32;

/** Iterations of a loop, at most. */
function mostOf(r: UOp): number {
  return vmax(r.src[0]);
}

/** Does what a carrier adds up lose digits with every addition? */
function isLossy({ key, dtypes }: CarrierArg): boolean {
  const parts = key.split(",");
  return dtypes.some((d) => d.isFloat) && parts.some((p) => p === "ADD" || p === "MOMENTS" || p.startsWith("EXP2")) &&
    parts.every((p) => p === "ADD" || p === "MUL" || p === "MAX" || p === "MOMENTS" || p.startsWith("EXP2"));
}

/** A range of a REDUCE that is a loop, and neither copies, lanes nor threads. */
function isLoop(r: UOp): boolean {
  return r.op === Ops.RANGE && kindOf(r) === AxisKind.REDUCE;
}

/** How the loops of a REDUCE are cut. */
interface Plan {
  /** The loops that are inside as they are. */
  readonly inside: readonly UOp[];
  /** The loop that is cut, and into blocks of how many iterations. */
  readonly cut: UOp | undefined;
  readonly block: number;
}

/** The plan for a REDUCE; undefined where one accumulator is good enough. */
function planOf(u: UOp): Plan | undefined {
  const carrier = carrierOf(u);
  if (carrier instanceof RescaleCarrier || u.src[0].op === Ops.WMMA || !isLossy(carrier)) return undefined;
  const own = u.src.slice(carrier.lanes).filter((r) => r.op === Ops.RANGE);
  const loops = own.filter(isLoop);
  const size = (ranges: readonly UOp[], kind: AxisKind): number =>
    prod(ranges.map((r) => kindOf(r) === kind ? mostOf(r) : 1));
  // unrolled copies that share an accumulator
  const unrolled = size(own, AxisKind.UNROLL), tile = size(rangesOf(u), AxisKind.UPCAST);
  const copies = unrolled / Math.min(unrolled, accumulatorsFor(tile * carrier.lanes));
  const [first] = u.src, [below] = first.op === Ops.GETTUPLE ? first.src : [first];
  const isOuter = below.op === Ops.REDUCE && carrierOf(below).key === carrier.key;
  const most = isOuter ? MOST_BLOCKS : first.op === Ops.MUL && tile > 1 ? LONGEST_PRODUCT : LONGEST;
  if (prod(loops.map(mostOf)) * copies <= most) return undefined;
  const inside: UOp[] = [], want = Math.max(LEAST_BLOCK, BLOCK / copies);
  let done = 1;
  for (const r of loops.toReversed()) {
    const n = mostOf(r), left = want / done;
    if (n > 2 * left && left >= 2) return { inside, cut: r, block: blockOf(r, left) };
    if (done * 2 > want) return inside.length < loops.length ? { inside, cut: undefined, block: 0 } : undefined;
    inside.push(r);
    done *= n;
  }
  return undefined;
}

/** Iterations of a block of a loop: about `want`, and a divisor of the loop's where there is one near it. */
function blockOf(r: UOp, want: number): number {
  const near = Math.max(2, Math.round(want));
  if (r.src[0].op !== Ops.CONST) return near;
  const n = r.src[0].value;
  for (let k = near; k <= 2 * near; k++) if (n % k === 0) return k;
  for (let k = near - 1; k >= Math.max(2, near / 2); k--) if (n % k === 0) return k;
  return near;
}

/** A loop over the blocks of another, and one over the iterations of a block; the last block may be shorter. */
function blocksOf(r: UOp, block: number, id: number): Replacement {
  const { dtype } = r, end = r.src[0], { kind } = argOf(r, Ops.RANGE);
  const loop = (n: UOp, id: number): UOp => range(n, id, kind);
  const isConst = end.op === Ops.CONST, count = end.add(block - 1).floorDiv(block);
  const outer = loop(isConst ? constant(Math.ceil(end.value / block), dtype) : count, id);
  const start = outer.mul(block), left = end.add(start.mul(-1));
  const isEven = isConst && end.value % block === 0, whole = constant(block, dtype);
  const inner = loop(isEven ? whole : left.lt(block).where(left, whole), id + 1);
  return { value: start.add(inner), ranges: [outer, inner] };
}

/** Is memory filled within the loops of a REDUCE, by the threads of a group or for itself? Those loops stay as they are. */
function isShared(nodes: readonly UOp[], u: UOp): boolean {
  return nodes.some((x) => x.op === Ops.STAGE && u.src.some((r) => r.op === Ops.RANGE && dependsOn(x, r)));
}

/** One level of blocks; the AST itself where none is needed. */
function blocked(ast: UOp): UOp {
  const nodes = toposort(ast), wanted = new Set<UOp>();
  const inside = new Set<UOp>(), cut = new Map<UOp, Replacement>(), owners = new Map<UOp, string>();
  let id = -1;
  for (const u of nodes) {
    const plan = u.op === Ops.REDUCE ? planOf(u) : undefined;
    if (plan === undefined || isShared(nodes, u)) continue;
    const loops = u.src.filter(isLoop), list = loops.map((r) => argOf(r, Ops.RANGE).toString()).join();
    // REDUCEs that share a loop are cut alike, or one of them is not cut
    if (loops.some((r) => (owners.get(r) ?? list) !== list)) continue;
    wanted.add(u);
    note("passed", u, "a long sum is added in blocks: less is rounded off than by one number after the other");
    if (owners.has(loops[0])) continue;
    for (const r of loops) owners.set(r, list);
    for (const r of plan.inside) inside.add(r);
    if (plan.cut === undefined) continue;
    if (id < 0) id = freeIds(nodes).range;
    const made = blocksOf(plan.cut, plan.block, id);
    cut.set(plan.cut, made);
    inside.add(made.ranges[1]);
    id += 2;
  }
  if (wanted.size === 0) return ast;
  const nested = rebuildKernel(ast, (u, src) => {
    if (!wanted.has(u)) return undefined;
    const carrier = carrierOf(u), n = carrier.lanes;
    const ranges = u.src.slice(n).flatMap((r) => cut.get(r)?.ranges ?? [r]);
    const isInside = (r: UOp): boolean => inside.has(r) || (r.op === Ops.RANGE && kindOf(r) === AxisKind.UNROLL);
    const block = reduce(carrier, src.slice(0, n), ranges.filter(isInside));
    return lanesOf(reduce(carrier, lanesOf(block), ranges.filter((r) => !isInside(r))));
  });
  return cut.size === 0 ? nested : replaceRanges(nested, cut);
}

/** A kernel AST whose long float sums are sums of blocks. */
export function blockSums(ast: UOp): UOp {
  if (!mayHave(ast, Ops.REDUCE)) return ast;
  let made = blocked(ast);
  if (made === ast) return ast;
  for (let next = blocked(made); next !== made; next = blocked(made)) made = next;
  // a loop that was cut stands inside of others now, which not all REDUCEs over it have
  return separateNests(made);
}
