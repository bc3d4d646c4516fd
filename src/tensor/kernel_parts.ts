/**
 * What functions that build the AST of a kernel are written in: loops, elements of buffers, reductions.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { AxisKind } from "../uop/core/args.ts";
import { opCarrier, reduce } from "../uop/core/carrier.ts";
import { Ops } from "../uop/core/ops.ts";
import { index, load, range, store, type UOp } from "../uop/core/uop.ts";
import { scalarConst } from "./nodes/scalars.ts";

let nextRange = 0;

/** Counts the loops of another kernel. */
export function firstRange(): void {
  nextRange = 0;
}

/** What the bodies of custom kernels are made of, besides the arithmetic of nodes (`a.add(b)`, `c.where(a, b)`). */
export interface KernelParts {
  /** A loop over 0, 1, ..., n - 1 that stores run in: an axis of the result. */
  loop(n: number): UOp;
  /** A loop that a `sum`, `product` or `max` runs over. */
  reduceLoop(n: number): UOp;
  /** The element of a buffer at a flat index. Where `gate` is false it is 0, and not read. */
  read(buffer: UOp, at: UOp | number, gate?: UOp): UOp;
  /** Writes an element of a buffer. Where `gate` is false, nothing. */
  write(buffer: UOp, at: UOp | number, value: UOp, gate?: UOp): UOp;
  /** The sum of a value over reduce loops. */
  sum(value: UOp, loops: readonly UOp[]): UOp;
  /** The product. */
  product(value: UOp, loops: readonly UOp[]): UOp;
  /** The largest. */
  max(value: UOp, loops: readonly UOp[]): UOp;
  /** A constant of the dtype of `like`. */
  constant(value: number, like: UOp): UOp;
}

const at = (x: UOp | number): UOp => typeof x === "number" ? scalarConst(x, dtypes.int32) : x;
const folded = (op: Ops) => (value: UOp, loops: readonly UOp[]): UOp =>
  loops.length === 0 ? value : reduce(opCarrier(op, value.dtype), [value], loops);

/** {@linkcode KernelParts}, for functions given to {@linkcode CustomTensor.customKernel}. */
export const kernel: KernelParts = {
  loop: (n) => range(n, nextRange++, AxisKind.LOOP),
  reduceLoop: (n) => range(n, nextRange++, AxisKind.REDUCE),
  read: (buffer, i, gate) => load(index(buffer, at(i), gate)),
  write: (buffer, i, value, gate) => store(index(buffer, at(i), gate), value),
  sum: folded(Ops.ADD),
  product: folded(Ops.MUL),
  max: folded(Ops.MAX),
  constant: (value, like) => scalarConst(value, like.dtype),
};
