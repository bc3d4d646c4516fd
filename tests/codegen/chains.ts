/** Chains of products as kernels: what tests of matrix units compile, their data, and what is wrong with what they give. */
import { dtypes } from "../../mod.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import type { Capabilities } from "../../src/renderer/renderer.ts";
import { AxisKind } from "../../src/uop/core/args.ts";
import { getTuple, opCarrier, reduce, RescaleCarrier } from "../../src/uop/core/carrier.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, index, load, param, range, sink, store, type UOp } from "../../src/uop/core/uop.ts";
import { decode, encode } from "../reference.ts";
import { difference, toleranceOf } from "../tolerance.ts";
import type { Opt } from "../../src/codegen/opt/opt.ts";
import { type Data, paramsOf, run } from "./harness.ts";

const f = dtypes.float32;

/** Sizes of a chain. */
export interface Shape {
  readonly heads?: number;
  readonly rows?: number;
  readonly middle?: number;
  /** Where the middle ends before, if it does: an expression of a variable, of at most so many. */
  readonly end?: UOp;
  readonly terms?: number;
  readonly columns?: number;
  readonly dtype?: DType;
  /** What is made of the product of row and middle, with a number of each; undefined: what is so. */
  readonly hide?: (row: UOp, middle: UOp) => UOp;
}

/** What a kernel has: its ranges, and reads of operands by row and column. */
export class Parts {
  readonly h: UOp;
  readonly row: UOp;
  readonly middle: UOp;
  readonly column: UOp;
  readonly dtype: DType;
  private term: number;

  constructor(readonly shape: Required<Omit<Shape, "hide" | "end">> & Shape) {
    this.h = range(shape.heads, 0, AxisKind.LOOP);
    this.row = range(shape.rows, 1, AxisKind.LOOP);
    this.column = range(shape.columns, 2, AxisKind.LOOP);
    this.middle = range(shape.end ?? shape.middle, 3, AxisKind.REDUCE);
    this.dtype = shape.dtype;
    this.term = 4;
  }
  read(slot: number, rows: number, width: number, row: UOp, column: UOp, dtype: DType = this.dtype): UOp {
    const { heads } = this.shape, at = this.h.mul(rows * width).add(row.mul(width)).add(column);
    const value = load(index(param(slot, dtype, heads * rows * width), at));
    return dtype === f ? value : value.cast(f);
  }
  /** A sum of products of row and middle. */
  product(a: number, b: number): UOp {
    const { rows, middle, terms } = this.shape, d = range(terms, this.term++, AxisKind.REDUCE);
    const term = this.read(a, rows, terms, this.row, d).mul(this.read(b, middle, terms, this.middle, d));
    return reduce(opCarrier(Ops.ADD, f), [term], [d]);
  }
  ofRow(slot: number): UOp {
    return this.read(slot, this.shape.rows, 1, this.row, constant(0, this.row.dtype), f);
  }
  ofMiddle(slot: number): UOp {
    return this.read(slot, this.shape.middle, 1, this.middle, constant(0, this.row.dtype), f);
  }
  hidden(x: UOp, other: number): UOp {
    const { hide } = this.shape;
    return hide === undefined ? x : hide(this.row, this.middle).where(x, constant(other, f));
  }
  byRow(value: UOp): UOp {
    const { heads, rows } = this.shape;
    return sink([store(index(param(0, f, heads * rows), this.h.mul(rows).add(this.row)), value)]);
  }
  byColumn(value: UOp): UOp {
    const { heads, rows, columns } = this.shape;
    const at = this.h.mul(rows * columns).add(this.row.mul(columns)).add(this.column);
    return sink([store(index(param(0, this.dtype, heads * rows * columns), at), value.cast(this.dtype))]);
  }
}

/** By what they compute. */
export const KERNELS: Readonly<Record<string, (p: Parts) => UOp>> = {
  "a weighted sum": (p) => {
    const weight = p.hidden(p.product(1, 2).mul(0.1), -Infinity).add(p.ofMiddle(4).mul(-1)).mul(Math.LOG2E).alu(
      Ops.EXP2,
    );
    const value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    return p.byColumn(reduce(opCarrier(Ops.ADD, f), [weight.cast(p.dtype).cast(f).mul(value)], [p.middle]));
  },
  "a weighted sum of two products": (p) => {
    const weight = p.product(1, 2).mul(0.1).add(p.ofRow(4)).alu(Ops.EXP2).mul(p.product(5, 6)).fdiv(p.ofRow(7).add(9));
    const value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    const term = value.mul(p.hidden(weight, 0).cast(p.dtype).cast(f));
    return p.byColumn(reduce(opCarrier(Ops.ADD, f), [term], [p.middle]));
  },
  "sums of rows": (p) => {
    const x = p.hidden(p.product(1, 2).mul(0.1).add(p.ofRow(4)).alu(Ops.EXP2).mul(p.product(3, 5)), 0);
    return p.byRow(reduce(opCarrier(Ops.ADD, f), [x], [p.middle]));
  },
  "largest elements of rows": (p) =>
    p.byRow(reduce(opCarrier(Ops.MAX, f), [p.hidden(p.product(1, 2), -Infinity)], [p.middle])),
  "a weighted sum less its maximum": (p) => {
    const x = p.hidden(p.product(1, 2), -Infinity),
      value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    const all = reduce(new RescaleCarrier(f, 0.3, 2, p.dtype), [x, constant(1, f), value], [p.middle]),
      max = getTuple(all, 0);
    return p.byColumn(getTuple(all, 2).fdiv(getTuple(all, 1).add(max.add(max.mul(-1)))));
  },
  "logarithms of sums of exponentials": (p) => {
    const x = p.hidden(p.product(1, 2).mul(0.3), -Infinity);
    const all = reduce(new RescaleCarrier(f, Math.LOG2E, 1), [x, constant(1, f)], [p.middle]);
    return p.byRow(getTuple(all, 1).alu(Ops.LOG2).mul(Math.LN2).add(getTuple(all, 0)));
  },
};

/** A kernel of {@linkcode KERNELS}. */
export function kernel(name: string, shape: Shape): UOp {
  return KERNELS[name](
    new Parts({ heads: 1, rows: 32, middle: 64, terms: 32, columns: 32, dtype: dtypes.bfloat16, ...shape }),
  );
}

/** Numbers around 0, the same each time. */
export function dataOf(ast: UOp): Data[] {
  return paramsOf(ast).map(({ dtype, size }, slot) => {
    const numbers = Array.from({ length: size }, (_, i) => Math.sin(i * 12.9898 + slot * 78.233) * 2);
    const bytes = encode(numbers, dtype).slice().buffer;
    if (dtype === f) return new Float32Array(bytes);
    return dtype === dtypes.float16 ? new Float16Array(bytes) : new Uint16Array(bytes);
  });
}

/** What is wrong with the values of a kernel under opts, beside its scalar form. */
export function wrong(
  ast: UOp,
  made: readonly Opt[] | undefined,
  caps: Capabilities,
  vars: readonly number[] = [],
): string | undefined {
  const data = dataOf(ast), [want] = run(ast, data, [], {}, vars), [got] = run(ast, data, made, caps, vars);
  const { dtype } = paramsOf(ast)[0];
  const values = [got, want].map((x) =>
    decode(new Uint8Array(x.buffer, x.byteOffset, x.byteLength), dtype).map(Number)
  );
  return difference(values[0], values[1], toleranceOf("accumulate", dtypes.bfloat16));
}
