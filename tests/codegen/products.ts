/** Products of matrices as kernels, for tests of tiles: with either operand transposed, in any dtype, with an epilogue. */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { AxisKind } from "../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../src/uop/core/uop.ts";

/** What a product is made of. */
export interface ProductOptions {
  readonly dtype?: DType;
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
  /** Of the result; that of the sum where absent. */
  readonly stored?: DType;
  /** Elements from one row of an operand in memory to the next, where rows are longer than what is read of them. */
  readonly row?: number;
  /** Adds the bias of slot 3 and takes what is positive. */
  readonly bias?: boolean;
}

/** out (m x n) = a (m x k) times b (k x n), summed in float32. */
export function productKernel(m: number, n: number, k: number, options: ProductOptions = {}): UOp {
  const { dtype = dtypes.float32, transposeA = false, transposeB = false, bias = false, stored, row } = options;
  const i = range(m, 0, AxisKind.LOOP), j = range(n, 1, AxisKind.LOOP), l = range(k, 2, AxisKind.REDUCE);
  const sumType = dtype.isInt ? dtypes.int32 : dtypes.float32;
  const wide = (x: UOp): UOp => x.dtype === sumType ? x : x.cast(sumType);
  const read = (slot: number, [outer, count]: readonly [UOp, number], [inner, size]: readonly [UOp, number]): UOp =>
    load(index(param(slot, dtype, count * (row ?? size)), outer.mul(row ?? size).add(inner)));
  const [rows, columns, sums] = [[i, m], [j, n], [l, k]] as const;
  const a = transposeA ? read(1, sums, rows) : read(1, rows, sums);
  const b = transposeB ? read(2, columns, sums) : read(2, sums, columns);
  let sum = reduce(opCarrier(Ops.ADD, sumType), [wide(a).mul(wide(b))], [l]);
  if (bias) {
    const x = sum.add(load(index(param(3, sumType, n), j)));
    sum = x.lt(0).where(x.constLike(0), x);
  }
  const result = stored === undefined || stored === sumType ? sum : sum.cast(stored);
  return sink([store(index(param(0, result.dtype, m * n), i.mul(n).add(j)), result)]);
}
