/**
 * What functions that build the AST of a kernel are written in: loops, elements of buffers, reductions.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError } from "../helpers/errors.ts";
import { checkInteger, checkScalar, describe } from "../helpers/options.ts";
import { AxisKind } from "../uop/core/args.ts";
import { opCarrier, reduce } from "../uop/core/carrier.ts";
import { Ops } from "../uop/core/ops.ts";
import { index, load, range, store, UOp } from "../uop/core/uop.ts";
import { scalarConst } from "./nodes/scalars.ts";

let nextRange = 0;

/** Counts the loops of another kernel. */
export function firstRange(): void {
  nextRange = 0;
}

/**
 * What the bodies of custom kernels are made of, besides the arithmetic of nodes (`a.add(b)`, `c.where(a, b)`). What is no
 * node, number or parameter where one belongs is an ArgumentError, and a node of another dtype a DTypeError.
 */
export interface KernelParts {
  /** A loop over 0, 1, ..., n - 1 that stores run in: an axis of the result. `n` is at least 1. */
  loop(n: number): UOp;
  /** A loop that a `sum`, `product` or `max` runs over. */
  reduceLoop(n: number): UOp;
  /** The element of a buffer at a flat index. Where `gate` is false it is 0, and not read. */
  read(buffer: UOp, at: UOp | number, gate?: UOp): UOp;
  /** Writes an element of a buffer: a node of its dtype, or a number, which becomes one. Where `gate` is false, nothing. */
  write(buffer: UOp, at: UOp | number, value: UOp | number | boolean | bigint, gate?: UOp): UOp;
  /** The sum of a value over reduce loops. */
  sum(value: UOp, loops: readonly UOp[]): UOp;
  /** The product. */
  product(value: UOp, loops: readonly UOp[]): UOp;
  /** The largest. */
  max(value: UOp, loops: readonly UOp[]): UOp;
  /** A constant of the dtype of `like`. */
  constant(value: number | boolean | bigint, like: UOp): UOp;
}

function wrong(action: string, what: string, is: string, x: unknown): never {
  throw new ArgumentError(action, { reason: `${what} must be ${is}, not ${describe(x)}` });
}

function node(action: string, what: string, x: unknown): UOp {
  return x instanceof UOp ? x : wrong(action, what, "a node of the kernel", x);
}

function bufferOf(action: string, x: unknown): UOp {
  const isParameter = x instanceof UOp && x.op === Ops.PARAM;
  return isParameter ? x : wrong(action, "the buffer", "one that the kernel's function was given", x);
}

/** The INDEX of an element. */
function element(action: string, buffer: UOp, at: UOp | number, gate: UOp | undefined | null): UOp {
  const of = bufferOf(action, buffer);
  const place = at instanceof UOp ? at : scalarConst(checkInteger(action, "the position", at), dtypes.int32);
  if (!place.dtype.isInt) {
    throw new DTypeError(`${action} at a position of dtype`, { dtypes: [place.dtype], reason: "it is an integer" });
  }
  if (gate === undefined || gate === null) return index(of, place);
  if (node(action, "the gate", gate).dtype.isBool) return index(of, place, gate);
  throw new DTypeError(`${action} behind a gate of dtype`, { dtypes: [gate.dtype], reason: "it is a bool" });
}

function loop(action: string, n: number, kind: AxisKind): UOp {
  return range(checkInteger(action, "the number of turns", n, 1), nextRange++, kind);
}

const folded = (name: string, op: Ops) => (value: UOp, loops: readonly UOp[]): UOp => {
  const action = `build the ${name} of a kernel`, x = node(action, "the value", value);
  if (!Array.isArray(loops) || !Array.from(loops).every((u) => u instanceof UOp && u.op === Ops.RANGE)) {
    return wrong(action, "the loops", "a list of what reduceLoop gives", loops);
  }
  return loops.length === 0 ? x : reduce(opCarrier(op, x.dtype), [x], loops);
};

/** {@linkcode KernelParts}, for functions given to {@linkcode CustomTensor.customKernel}. */
export const kernel: KernelParts = {
  loop: (n) => loop("build a loop of a kernel", n, AxisKind.LOOP),
  reduceLoop: (n) => loop("build a reduce loop of a kernel", n, AxisKind.REDUCE),
  read: (buffer, at, gate) => load(element("build a read of a kernel", buffer, at, gate)),
  write: (buffer, at, value, gate) => {
    const action = "build a write of a kernel", to = element(action, buffer, at, gate);
    const x = value instanceof UOp ? value : scalarConst(checkScalar(action, "the value", value), to.dtype);
    if (x.dtype === to.dtype) return store(to, x);
    throw new DTypeError(`${action} of dtype`, {
      dtypes: [x.dtype],
      reason: `the buffer is ${to.dtype}; give the value's cast(buffer.dtype)`,
    });
  },
  sum: folded("sum", Ops.ADD),
  product: folded("product", Ops.MUL),
  max: folded("maximum", Ops.MAX),
  constant: (value, like) => {
    const action = "build a constant of a kernel", { dtype } = node(action, "what it is like", like);
    return scalarConst(checkScalar(action, "the value", value), dtype);
  },
};
