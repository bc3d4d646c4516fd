/**
 * Layouts of what matrix units multiply. In: a folded tensor graph. Out: the same graph, where an operand that each element
 * of is used many times, but that could be read in small pieces only, is copied first, so that a reduced axis is contiguous
 * in memory: the channels of an image under a convolution, which reads shifted windows along the axis that was contiguous.
 *
 * Only for sums of products that the device has a matrix unit for, whose tiles come by wide copies or not at all fast.
 *
 * @module
 */
import { prod } from "../helpers/math.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import type { AxesArg, ReduceArg } from "../uop/args.ts";
import { numelOf, permute } from "../uop/movement.ts";
import { isMovement, Ops } from "../uop/ops.ts";
import { moveLike } from "../uop/resolve.ts";
import { shapeOf } from "../uop/shape.ts";
import { toposort, type UOp, uop } from "../uop/uop.ts";
import { rebuild } from "../uop/rewrite.ts";
import { isLeaf, outputRanges, stripReshape } from "./fuse.ts";
import { sourceIndex } from "./indexing.ts";

/** Uses of each element from which a copy pays. */
const MIN_USES = 64;
/** Bytes of an access: a contiguous axis must be a multiple of it. */
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
  // of a buffer, a shape that it has already
  while (chain.length > 0 && stripReshape(u) !== u && isMovement(u.op)) u = u.src[0];
  let base = u;
  const last = chain[chain.length - 1];
  if (last.op === Ops.RESHAPE && shapeOf(base).length < 2) {
    chain.pop();
    base = last;
  }
  return { chain, base };
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

/** Copies operands of products on matrix units to the layout that their tiles are read in; roots in their order. */
export function layOut(roots: readonly UOp[], capsOf: (u: UOp) => Capabilities): readonly UOp[] {
  const products = new Map<UOp, UOp>();
  for (const u of toposort([...roots])) {
    if (u.op !== Ops.REDUCE || (u.arg as ReduceArg).op !== Ops.ADD || u.src[0].op !== Ops.MUL) continue;
    const caps = capsOf(u);
    if (!caps.hasGrid || caps.grid!.tensorCores.length === 0 || prod(shapeOf(u.src[0])) === 0) continue;
    const product = u.src[0], { axes } = u.arg as unknown as AxesArg;
    const src = product.src.map((s) => {
      const o = operandOf(s, caps), order = o === undefined ? undefined : orderFor(o, product, axes);
      return order === undefined ? s : copied(o!, order);
    });
    if (src.some((s, i) => s !== product.src[i])) products.set(product, product.withSrc(src));
  }
  return products.size === 0 ? roots : rebuild(roots, (u, made) => products.get(u) ?? made);
}
