/**
 * Products of which one operand is nothing under a condition on loops: strides of a transposed convolution, edges of padding.
 * In: a kernel AST for loops with its opts applied. Out: the AST where such products are added under the condition, so that
 * whole iterations are skipped (lower/expander.ts), and what they would have added is a sum of its own.
 *
 * 0 times a number is 0, but of an infinity or of what is no number it is none. So sum(gated * y) is the sum of the products
 * where the condition holds, and of 0 * y where it does not: that has only the copies and lanes that `y` depends on, and as
 * a product of tiles has many more, most of the work is left out.
 *
 * @module
 */
import { rangeOf } from "../../helpers/math.ts";
import { factorsOf } from "../../uop/algebra/contraction.ts";
import { evalOp } from "../../uop/algebra/eval.ts";
import { joinAnd, splitAnd } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, type ConstValue } from "../../uop/core/args.ts";
import { carrierOf, reduce } from "../../uop/core/carrier.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { freeIds, iterationsOf, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { gateOf } from "./ungate.ts";
import { isReduceKind, kindOf } from "./range_facts.ts";
import { rebuildKernel, renameFree, renumberNest } from "./replace_ranges.ts";

/** Products of an iteration for what asking for the condition takes. */
const ASKING = 2;
/** Iterations in which a condition is looked at, at most. */
const LOOKS = 256;
/** Share of the work of the whole above which it stays whole. */
const WORTH = 0.8;

/** Is it the same for all copies and lanes of an iteration? */
function isLoop(r: UOp): boolean {
  const kind = kindOf(r);
  return sizeOf(r) > 0 && (kind === AxisKind.LOOP || kind === AxisKind.THREAD || isReduceKind(kind));
}

/** How many copies of `u` an iteration of its loops makes. */
function copiesOf(u: UOp): number {
  return iterationsOf(rangesOf(u).filter((r) => kindOf(r) === AxisKind.UPCAST || kindOf(r) === AxisKind.UNROLL));
}

/** How often the loops of `u` go around. */
function loopsOf(u: UOp): number {
  return iterationsOf(rangesOf(u).filter(isLoop));
}

/** The share of iterations in which a condition holds, of as many as are looked at; undefined where it has no value. */
function shareOf(condition: UOp): number | undefined {
  const nodes = toposort(condition), ranges = rangesOf(condition), all = iterationsOf(ranges);
  const looks = Math.min(all, LOOKS);
  let held = 0;
  for (let i = 0; i < looks; i++) {
    // multiples of the golden section are spread evenly, whatever strides conditions have
    let rest = all <= LOOKS ? i : Math.floor((i * 0.6180339887498949) % 1 * all);
    const values = new Map<UOp, ConstValue>();
    for (const r of ranges) {
      values.set(r, argOf(r, Ops.RANGE).first + rest % sizeOf(r));
      rest = Math.floor(rest / sizeOf(r));
    }
    for (const u of nodes) {
      if (values.has(u)) continue;
      const value = u.op === Ops.CONST
        ? argOf(u, Ops.CONST)
        : isAlu(u.op)
        ? evalOp(u.op, u.dtype, u.src[0].dtype, u.src.map((s) => values.get(s)!))
        : 0;
      if (value === undefined) return undefined;
      values.set(u, value);
    }
    held += Number(values.get(condition));
  }
  return held / looks;
}

/** The clauses of a gate that loops alone decide. */
function clausesOf(gate: UOp | undefined, own: readonly UOp[]): UOp[] {
  if (gate === undefined) return [];
  return splitAnd(gate).filter((c) => {
    const ranges = rangesOf(c);
    return ranges.length > 0 && ranges.every(isLoop) && ranges.some((r) => own.includes(r)) &&
      toposort(c).every((u) => u.op === Ops.RANGE || u.op === Ops.CONST || isAlu(u.op));
  });
}

function isOwn(r: UOp): boolean {
  return r.op === Ops.RANGE && sizeOf(r) > 0 && kindOf(r) !== AxisKind.VECTOR && kindOf(r) !== AxisKind.GROUP_REDUCE;
}

class Skipping {
  private nextRange: number;

  constructor(private readonly ast: UOp) {
    this.nextRange = freeIds(toposort(ast)).range;
  }

  run(): UOp {
    return rebuildKernel(this.ast, (u, src) => {
      if (u.op !== Ops.REDUCE || carrierOf(u).lanes > 1) return undefined;
      const made = this.parted(u, src);
      return made === undefined ? undefined : [made];
    });
  }

  /** A sum of products as two, of what counts and of what else would be no number; undefined for others. */
  private parted(u: UOp, [product, ...own]: readonly UOp[]): UOp | undefined {
    const factors = factorsOf(u, product);
    if (factors === undefined || !product.dtype.isFloat || !own.every(isOwn)) return undefined;
    const all = copiesOf(product) * loopsOf(product), zero = constant(0, product.dtype);
    for (const i of rangeOf(2)) {
      const clauses = clausesOf(gateOf(factors[i]), own), other = factors[1 - i];
      if (clauses.length === 0 || gateOf(other) !== undefined) continue;
      const condition = joinAnd(clauses), share = shareOf(condition);
      const lost = condition.alu(Ops.CMPNE, constant(1, condition.dtype)).where(other.alu(Ops.MUL, zero), zero);
      const work = share === undefined
        ? Infinity
        : share * all + ASKING * loopsOf(product) + copiesOf(lost) * loopsOf(lost);
      if (work > all * WORTH) continue;
      const counted = reduce(carrierOf(u), [condition.where(product, zero)], own);
      // in loops of its own, which stand outside of those that it does not depend on
      const apart = renumberNest(own, new Map(), () => this.nextRange++);
      return counted.alu(Ops.ADD, reduce(carrierOf(u), [renameFree(lost, apart)], [...apart.values()]));
    }
    return undefined;
  }
}

/** Skips products that add nothing, where loops alone say so. */
export function skipProducts(ast: UOp): UOp {
  const mayGate = mayHave(ast, Ops.REDUCE) && (mayHave(ast, Ops.CMPLT) || mayHave(ast, Ops.CMPEQ));
  return mayGate ? new Skipping(ast).run() : ast;
}
