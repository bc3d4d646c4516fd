/**
 * Layouts of what matrix units multiply. In: a folded tensor graph. Out: the same graph, where an operand that each element
 * of is used many times, but that could be read in small pieces only, is copied first: so that a reduced axis is contiguous
 * in memory (the channels of an image under a convolution, which reads shifted windows along the axis that was contiguous),
 * or, where the contiguous axis is read as it is, so that each of its rows begins with a line of the caches.
 *
 * Only for sums of products that the device has a matrix unit for, whose tiles come by wide copies or not at all fast.
 *
 * @module
 */
import { rangeOf, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { factorsOf } from "../../uop/algebra/contraction.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf, pad, permute, shrink } from "../../uop/core/build_movement.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { sourceIndex } from "../../uop/graph/movement_index.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { note } from "../../uop/rewrite/record.ts";
import { outputRanges } from "./fusion_plan.ts";

/** Uses of each element from which a copy pays: it reads and writes each once, in pieces no smaller than the product would. */
const MIN_USES = 64;
/** Bytes of the widest access of a GPU: a contiguous axis must be a multiple of it. */
const WIDE = 16;
/** Bytes of a line of its caches: where rows begin with one, an access has no part in two. */
const LINE = 128;
/**
 * Uses of each element from which rows are copied to lines. A GPU computes 130 to 220 operations in 16 bits while it moves a
 * byte. Elements of two bytes copied one by one triple the time of a product; rows across lines add a quarter of it, where a
 * copy engine would bring those in lines.
 */
const ROW_USES = 256, LINE_USES = 1280;
/** How much longer rows may become that are read by 16 bytes as they are. */
const MOST_PADDED = 1.125;
/** Products of elements that take a large GPU as long as a launch. */
const LEAST_PRODUCTS = 1 << 28;

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
  if (!cast || u.dtype.itemsize > 2) return undefined;
  // memory is flat: its shape is that of the node above
  const last = chain[chain.length - 1];
  if (last.op !== Ops.RESHAPE || shapeOf(u).length > 1) return { chain, base: u };
  return { chain: chain.slice(0, -1), base: last };
}

/** A copy of an operand: the order of its axes in memory, and how long a row is. */
interface CopyLayout {
  readonly order: readonly number[];
  readonly row: number;
}

/** How `o` should lie in memory; undefined where it may stay as it is. */
function layoutFor(o: Operand, product: UOp, axes: readonly number[], caps: Capabilities): CopyLayout | undefined {
  const shape = shapeOf(o.base), rank = shape.length, uses = numelOf(product) / numelOf(o.base);
  if (rank < 2 || !(uses >= MIN_USES)) return undefined;
  const ranges = outputRanges(shapeOf(product));
  let idx: readonly UOp[] = ranges;
  for (const u of o.chain) if (u.op !== Ops.CAST) idx = sourceIndex(u, idx).idx;
  const lanes = WIDE / o.base.dtype.itemsize;
  const isWide = (d: number): boolean => ranges.includes(idx[d]) && idx[d].op === Ops.RANGE && shape[d] % lanes === 0;
  const last = rank - 1, size = shape[last], row = roundUp(size, LINE / o.base.dtype.itemsize);
  const isRow = ranges.includes(idx[last]) && idx[last].op === Ops.RANGE && row > size;
  if (isRow && caps.grid!.copyEngine !== undefined && numelOf(product) >= LEAST_PRODUCTS) {
    const isWhole = size % lanes === 0;
    if (uses >= (isWhole ? LINE_USES : ROW_USES) && row <= size * (isWhole ? MOST_PADDED : 2)) {
      return { order: rangeOf(rank), row };
    }
  }
  if (isWide(last)) return undefined;
  const inner = shape.map((_, d) => d).filter((d) => isWide(d) && axes.some((a) => ranges[a] === idx[d]));
  if (inner.length === 0) return undefined;
  const best = inner.reduce((a, b) => shape[b] > shape[a] ? b : a);
  return { order: [...shape.map((_, d) => d).filter((d) => d !== best), best], row: shape[best] };
}

/** The operand, read from a copy that lies so. */
function copied({ chain, base }: Operand, { order, row }: CopyLayout): UOp {
  const back = order.map((_, d) => order.indexOf(d)), ordered = permute(base, order), shape = shapeOf(ordered);
  const last = shape.length - 1, whole = shape.map((n) => [0, n] as const);
  const laid = pad(ordered, shape.map((n, d) => [0, d === last ? row - n : 0]));
  let u = permute(shrink(uop(Ops.CONTIGUOUS, base.dtype, [laid]), whole), back);
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
    const o = operandOf(s, caps), layout = o && layoutFor(o, product, reduceOf(u).axes, caps);
    return layout === undefined ? s : copied(o!, layout);
  });
  const copies = src.filter((s, i) => s !== product.src[i]).length;
  if (copies === 0) return u;
  note("passed", u, "operands are copied in rows for matrix units", { copies });
  return u.withSrc([product.withSrc(src)]);
}
