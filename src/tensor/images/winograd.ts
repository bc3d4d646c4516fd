/**
 * Convolution with 3x3 kernels and stride 1 by Winograd's minimal filtering F(4x4, 3x3): tiles of 6x6 of the input and the
 * kernels are transformed, multiplied elementwise and summed over channels (36 matrix products), and transformed back to
 * tiles of 4x4: 36 products where the sum over windows has 144. Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks" (2016). Used under the context variable WINO; results differ in the last digits from the direct sum.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import { expand, pad, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { catNodes, type Pair } from "../nodes/movement_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { pool } from "../nodes/windows.ts";
import { sumLast } from "../math/linalg.ts";

/** Elements of a tile of the result along an axis, and of the input. */
const OUT = 4, IN = OUT + 2;

/** What turns a tile of the input, of the kernel and of the products: the paper's B^T, G and A^T, for points 0, ±1, ±2. */
const INPUT = [
  [4, 0, -5, 0, 1, 0],
  [0, -4, -4, 1, 1, 0],
  [0, 4, -4, -1, 1, 0],
  [0, -2, -1, 2, 1, 0],
  [0, 2, -1, -2, 1, 0],
  [0, 4, 0, -5, 0, 1],
];
const KERNEL = [
  [1 / 4, 0, 0],
  [-1 / 6, -1 / 6, -1 / 6],
  [-1 / 6, 1 / 6, -1 / 6],
  [1 / 24, 1 / 12, 1 / 6],
  [1 / 24, -1 / 12, 1 / 6],
  [0, 0, 1],
];
const OUTPUT = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]];

/** The product of a matrix of constants with `x` along `axis`: the rows are sums of few slices, joined. */
function transformed(matrix: readonly (readonly number[])[], x: UOp, axis: number): UOp {
  const shape = shapeOf(x);
  const slice = (j: number) => shrink(x, shape.map((n, i): Pair => i === axis ? [j, j + 1] : [0, n]));
  const rows = matrix.map((row) =>
    row.flatMap((c, j) => c === 0 ? [] : [c === 1 ? slice(j) : slice(j).mul(floatConst(c, x.dtype))])
      .reduce((a, b) => a.add(b))
  );
  return catNodes(rows, axis);
}

/** Both spatial axes, which come first, in memory of their own. */
function tile(matrix: readonly (readonly number[])[], x: UOp): UOp {
  return uop(Ops.CONTIGUOUS, x.dtype, [transformed(matrix, transformed(matrix, x, 0), 1)]);
}

/**
 * `x` `[N, groups, Cin, H, W]`, padded already, with `weight` `[groups, Cout, Cin, 3, 3]` of the same float dtype:
 * `[N, groups, Cout, H - 2, W - 2]`.
 */
export function winograd(x: UOp, weight: UOp): UOp {
  const [n, groups, channels, height, width] = shapeOf(x), [, each] = shapeOf(weight);
  const tiles = [ceilDiv(height - 2, OUT), ceilDiv(width - 2, OUT)];
  const missing = tiles.map((count, i) => count * OUT + 2 - [height, width][i]);
  const padded = pad(x, [[0, 0], [0, 0], [0, 0], [0, missing[0]], [0, missing[1]]]);
  // [6, 6, groups, Cin, N, tiles...] and [6, 6, groups, Cout, Cin]
  const d = tile(INPUT, permute(pool(padded, [IN, IN], [OUT, OUT], [1, 1]), [5, 6, 1, 2, 0, 3, 4]));
  const g = tile(KERNEL, permute(weight, [3, 4, 0, 1, 2]));
  const places = n * tiles[0] * tiles[1], full = [IN, IN, groups, each, places, channels];
  const left = expand(reshape(g, [IN, IN, groups, each, 1, channels]), full);
  const right = permute(reshape(d, [IN, IN, groups, channels, places]), [0, 1, 2, 4, 3]);
  const product = sumLast(left.mul(expand(reshape(right, [IN, IN, groups, 1, places, channels]), full)), 1);
  const m = uop(Ops.CONTIGUOUS, product.dtype, [product]);
  // [4, 4, groups, Cout, N, tiles...]
  const y = tile(OUTPUT, reshape(m, [IN, IN, groups, each, n, ...tiles]));
  const whole = reshape(permute(y, [4, 2, 3, 5, 0, 6, 1]), [n, groups, each, tiles[0] * OUT, tiles[1] * OUT]);
  return shrink(whole, [[0, n], [0, groups], [0, each], [0, height - 2], [0, width - 2]]);
}
