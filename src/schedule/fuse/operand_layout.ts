/**
 * Layouts of what matrix units multiply. In: a folded tensor graph. Out: the same graph, where an operand that each element
 * of is used many times, but that could be read in small pieces only, is copied first, so that a reduced axis is contiguous
 * in memory: the channels of an image under a convolution, which reads shifted windows along the axis that was contiguous.
 *
 * Only for sums of products that the device has a matrix unit for, whose tiles come by wide copies or not at all fast.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { factorsOf } from "../../uop/algebra/contraction.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf, permute } from "../../uop/core/build_movement.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { sourceIndex } from "../../uop/graph/movement_index.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { outputRanges } from "./fusion_plan.ts";

/** Uses of each element from which a copy pays: it reads and writes each once, in pieces no smaller than the product would. */
const MIN_USES = 64;
/** Bytes of the widest access of a GPU: a contiguous axis must be a multiple of it. */
const WIDE = 16;

/** An operand: the nodes from the product down to `base`, which would be read from memory. */
interface Operand {
  readonly chain: readonly UOp[];
  readonly base: UOp;
}

/** The operand below a factor of a product: movement, and a cast from the dtype of matrix units. */
function operandOf(u: UOp, caps: Capabilities): Operand | undefined {
  const chain: UOp[] = [];
  const isInput = (x: UOp): boolean => caps.grid!.tensorCores.some((c) => c.input === x.dtype);
  let cast = false;
  for (;; u = u.src[0]) {
    if (u.op === Ops.CAST && !cast && isInput(u.src[0])) cast = true;
    else if (!isMovement(u.op) || u.op === Ops.WINDOW) break;
    chain.push(u);
  }
  if (!cast || u.dtype.itemsize !== 2) return undefined;
  // memory is flat: its shape is that of the node above
  const last = chain[chain.length - 1];
  if (last.op !== Ops.RESHAPE || shapeOf(u).length > 1) return { chain, base: u };
  return { chain: chain.slice(0, -1), base: last };
}

/** The order of axes in which `o` should lie in memory; undefined where it may stay as it is. */
function orderFor(o: Operand, product: UOp, axes: readonly number[]): number[] | undefined {
  const shape = shapeOf(o.base), rank = shape.length;
  if (rank < 2 || numelOf(product) < MIN_USES * numelOf(o.base)) return undefined;
  const ranges = outputRanges(shapeOf(product));
  let idx: readonly UOp[] = ranges;
  for (const u of o.chain) if (u.op !== Ops.CAST) idx = sourceIndex(u, idx).idx;
  const lanes = WIDE / o.base.dtype.itemsize;
  const isWide = (d: number): boolean => ranges.includes(idx[d]) && idx[d].op === Ops.RANGE && shape[d] % lanes === 0;
  if (isWide(rank - 1)) return undefined;
  const inner = shape.map((_, d) => d).filter((d) => isWide(d) && axes.some((a) => ranges[a] === idx[d]));
  if (inner.length === 0) return undefined;
  const best = inner.reduce((a, b) => shape[b] > shape[a] ? b : a);
  return [...shape.map((_, d) => d).filter((d) => d !== best), best];
}

/** The operand, read from a copy whose axes have the given order. */
function copied({ chain, base }: Operand, order: readonly number[]): UOp {
  const back = order.map((_, d) => order.indexOf(d));
  let u = permute(uop(Ops.CONTIGUOUS, base.dtype, [permute(base, order)]), back);
  for (const x of chain.toReversed()) u = x.op === Ops.CAST ? x.withSrc([u]) : moveLike(x, u);
  return u;
}

/** What node `u` becomes: a sum of products has its operands copied to the layout that its tiles are read in. */
export function layOut(u: UOp, capsOf: (u: UOp) => Capabilities): UOp {
  const factors = factorsOf(u);
  if (factors === undefined) return u;
  const caps = capsOf(u), [product] = u.src;
  if (!caps.hasGrid || caps.grid!.tensorCores.length === 0 || numelOf(product) === 0) return u;
  const src = factors.map((s) => {
    const o = operandOf(s, caps), order = o === undefined ? undefined : orderFor(o, product, reduceOf(u).axes);
    return order === undefined ? s : copied(o!, order);
  });
  return src.every((s, i) => s === product.src[i]) ? u : u.withSrc([product.withSrc(src)]);
}
