/**
 * Sums of products that a matrix unit can do, and chains of them: reductions of what is computed from sums of products. In: a
 * kernel AST with a REDUCE over `middle` of an expression of inner sums of products, each of an operand that depends on
 * `rows` (axis of the result) and one that depends on `middle`. The outer REDUCE is a sum of products too (of what is
 * computed, and of an operand that depends on `columns`), or anything else that has one result a row.
 *
 * Attention's weighted sum is one, and its gradients are, where the maxima and sums of rows are known; so are scores without
 * a softmax, and each row's maxima, sums or largest elements of a product that is in no memory. The scheduler asks here
 * whether it may make such a kernel, and code generation how it is made up.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { carrierOf, RescaleCarrier } from "../core/carrier.ts";
import { Ops } from "../core/ops.ts";
import { dependsOn, ownRanges, rangesOf, sizeOf } from "../core/ranges.ts";
import { constant, toposort, type UOp } from "../core/uop.ts";
import { factorsOf } from "./contraction.ts";
import { splitAnd } from "./valid.ts";

/** A matrix unit: the dtypes of its operands, and of its sums. */
export interface Unit {
  readonly input: DType;
  readonly output: DType;
}

/** A sum of products that a unit can do. */
interface Product {
  /** Its operands, in the unit's dtype. */
  readonly a: UOp;
  readonly b: UOp;
}

/** An operand in the dtype of the unit: without the cast to the dtype of the sum. */
function operand(u: UOp, unit: Unit): UOp | undefined {
  // padding is read as zero anyway
  if (u.op === Ops.WHERE && u.src[2].isConst(0) && isPadding(u.src[0], u.src[1])) return operand(u.src[1], unit);
  if (u.dtype === unit.input) return u;
  return u.op === Ops.CAST && u.src[0].dtype === unit.input ? u.src[0] : undefined;
}

/** The product that `u`, a REDUCE, sums; undefined where the unit cannot do it. */
export function productOf(u: UOp, unit: Unit): Product | undefined {
  if (u.op !== Ops.REDUCE || u.dtype !== unit.output) return undefined;
  const [x] = u.src;
  // what lies beyond the end of a padded axis is read as zero anyway
  const isGuarded = x.op === Ops.WHERE && x.src[2].isConst(0) && isMasked(x.src[1]);
  // a product in the dtype of the operands is not rounded by the unit
  const factors = factorsOf(u, isGuarded ? x.src[1] : x);
  if (factors === undefined) return undefined;
  const a = operand(factors[0], unit), b = operand(factors[1], unit);
  return a === undefined || b === undefined ? undefined : { a, b };
}

/** Is `u` one read, perhaps cast, that gives zero where `valid` does not hold? */
function isPadding(valid: UOp, u: UOp): boolean {
  const read = u.op === Ops.CAST ? u.src[0] : u;
  if (read.op !== Ops.LOAD || read.src.length > 1) return false;
  const base = read.src[0].src[0];
  // a STAGE was filled through the same gate
  if (base.op === Ops.STAGE) return isMasked(base);
  const gate = read.src[0].src[2] as UOp | undefined;
  if (gate === undefined) return false;
  const clauses = splitAnd(gate);
  return splitAnd(valid).every((c) => clauses.includes(c));
}

function isMasked(u: UOp): boolean {
  const loads = toposort(u).filter((x) => x.op === Ops.LOAD && x.src[0].src[0].op === Ops.PARAM);
  return loads.length > 0 && loads.every((x) => x.src[0].src.length > 2);
}

/** Inner sums of a chain, and nodes that are looked at, at most. */
const MOST_INNER = 4, MAX_NODES = 400;

/** An inner sum: its operands, of rows and of the middle, and the range that it is over. */
interface Inner {
  readonly reduce: UOp;
  readonly a: UOp;
  readonly b: UOp;
  readonly sum: UOp;
}

/** The nodes of a chain. */
export interface ChainParts {
  readonly outer: UOp;
  /** What is computed of inner sums: where the outer REDUCE is a sum of products an operand of it, in the unit's dtype. */
  readonly values: readonly UOp[];
  /** The other operand of the sum of products. */
  readonly operand: UOp | undefined;
  readonly inner: readonly Inner[];
}

/** A chain. */
export interface Chain extends ChainParts {
  readonly rows: UOp;
  readonly columns: UOp | undefined;
  readonly middle: UOp;
}

function reducesIn(u: UOp): UOp[] {
  return toposort(u).filter((x) => x.op === Ops.REDUCE);
}

/** Does a reduction in `u` depend on `range`? */
function reducesDependOn(u: UOp, range: UOp): boolean {
  return reducesIn(u).some((x) => dependsOn(x, range));
}

/** The inner sums in `values`, of rows `rows` and of the `middle`; `sumOf` tells the range of each that the unit sums over. */
function innerOf(
  values: readonly UOp[],
  unit: Unit,
  rows: UOp,
  middle: UOp,
  sumOf: (own: readonly UOp[]) => UOp | undefined,
): Inner[] | undefined {
  const out: Inner[] = [];
  for (const u of toposort(values).filter((x) => x.op === Ops.REDUCE)) {
    const p = productOf(u, unit), sum = sumOf(ownRanges(u));
    if (p === undefined || sum === undefined) return undefined;
    const [a, b] = dependsOn(p.a, middle) ? [p.b, p.a] : [p.a, p.b];
    const isApart = dependsOn(a, rows) && !dependsOn(a, middle) && dependsOn(b, middle) && !dependsOn(b, rows);
    if (!isApart || out.length === MOST_INNER || [a, b].some((x) => !dependsOn(x, sum))) return undefined;
    out.push({ reduce: u, a, b, sum });
  }
  return out.length > 0 ? out : undefined;
}

/** The only range of an inner sum that is not split. */
function onlyRange(own: readonly UOp[]): UOp | undefined {
  return own.length === 1 && own[0].op === Ops.RANGE && sizeOf(own[0]) > 0 ? own[0] : undefined;
}

/** What is computed in the unit's dtype, and cast from it: also where it is a choice between such values. */
function narrowed(u: UOp, unit: Unit): UOp | undefined {
  const { input } = unit;
  if (u.dtype === input) return u;
  if (u.op === Ops.CAST) return u.src[0].dtype === input ? u.src[0] : undefined;
  if (u.isConst(0)) return constant(0, input);
  if (u.op !== Ops.WHERE) return undefined;
  const [a, b] = u.src.slice(1).map((s) => narrowed(s, unit));
  return a && b && u.src[0].where(a, b);
}

/**
 * What the outer REDUCE is made of: of a sum of products the computed factor, perhaps with the condition under which it is
 * added, and the other one; of sums that are rescaled, the last of which is of products, all that weights are made of.
 */
function outerParts(u: UOp, unit: Unit): Pick<ChainParts, "values" | "operand"> {
  const carrier = carrierOf(u), lifts = u.src.slice(0, carrier.lanes), [x] = lifts;
  if (carrier instanceof RescaleCarrier && carrier.weight === unit.input) {
    return { values: lifts.slice(0, -1), operand: operand(lifts[lifts.length - 1], unit) };
  }
  const isGuarded = x.op === Ops.WHERE && x.src[2].isConst(0);
  const factors = u.dtype === unit.output ? factorsOf(u, isGuarded ? x.src[1] : x) : undefined;
  if (factors === undefined) return { values: lifts, operand: undefined };
  const [a, b] = reducesIn(factors[0]).length > 0 ? factors : [factors[1], factors[0]];
  const left = narrowed(a, unit), right = operand(b, unit);
  if (left === undefined || right === undefined || reducesIn(right).length > 0) {
    return { values: lifts, operand: undefined };
  }
  return { values: [isGuarded ? x.src[0].where(left, left.constLike(0)) : left], operand: right };
}

/** The chain of a kernel that a unit can do; undefined where there is none. Of its ranges the middle alone may end at a variable. */
export function findChain(ast: UOp, unit: Unit): Chain | undefined {
  const nodes = toposort(ast);
  if (nodes.length > MAX_NODES || nodes.some((u) => u.op === Ops.STAGE)) return undefined;
  const open = nodes.filter((u) => u.op === Ops.RANGE && sizeOf(u) === 0);
  const reduces = nodes.filter((u) => u.op === Ops.REDUCE);
  const outer = reduces[reduces.length - 1];
  if (reduces.length < 2 || reduces.some((u) => u !== outer && rangesOf(u).every((r) => !outer.src.includes(r)))) {
    return undefined;
  }
  const outputs = new Set(ast.src.flatMap((s) => rangesOf(s)));
  const { values, operand: other } = outerParts(outer, unit);
  for (const middle of ownRanges(outer).toReversed()) {
    if (open.some((r) => r !== middle)) continue;
    for (const rows of [...outputs].reverse().sort((a, b) => sizeOf(b) - sizeOf(a))) {
      if (other !== undefined && dependsOn(other, rows)) continue;
      const inner = innerOf(values, unit, rows, middle, onlyRange);
      if (inner === undefined) continue;
      // for any other range of the result all would be computed again
      const others = [...outputs].filter((r) => dependsOn(outer, r) && !values.some((x) => reducesDependOn(x, r)));
      const [columns] = others, isWide = columns !== undefined && !dependsOn(values[0], columns);
      if (other === undefined ? others.length > 0 : others.length !== 1 || !isWide) continue;
      if (other !== undefined && (!dependsOn(other, columns) || !dependsOn(other, middle))) continue;
      return { outer, values, operand: other, inner, rows, columns, middle };
    }
  }
  return undefined;
}

/** The ranges of a chain that are the unit's tiles. */
export interface ChainRanges {
  readonly rows: UOp;
  readonly columns: UOp | undefined;
  readonly middle: UOp;
  readonly sums: readonly UOp[];
}

/** The chain whose ranges, or pieces of them, are given. */
export function chainAt(nodes: readonly UOp[], unit: Unit, { rows, middle, sums }: ChainRanges): ChainParts {
  const outer = nodes.find((u) => u.op === Ops.REDUCE && u.src.includes(middle))!;
  const parts = outerParts(outer, unit);
  return {
    outer,
    ...parts,
    inner: innerOf(parts.values, unit, rows, middle, (own) => sums.find((r) => own.includes(r)))!,
  };
}
