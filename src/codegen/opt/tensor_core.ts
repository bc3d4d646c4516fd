/**
 * The opt TC: a sum of products is computed by the matrix units, tile by tile. Three ranges, of the rows, the columns and
 * the reduced axis, have been split off by the sizes of the unit's tile. They become expressions of the lane of a warp and of
 * the number of an element in the lane, as the unit's row in renderer/tensor_core_table.ts has it: other ones for each
 * operand and for the result. Everything after the sum stays ordinary arithmetic on the elements of the result.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import {
  elementsOf,
  type Fragment,
  type SharedTile,
  SWIZZLED_ROW,
  type TensorCore,
} from "../../renderer/tensor_core_table.ts";
import { indexForm } from "../../uop/algebra/linear_form.ts";
import { productOf } from "../../uop/algebra/product_chain.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { carrierOf, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { indexAt, sharedTileOf, WIDE } from "./stage.ts";

/** x divided by 2^i, modulo 2^n, for a number of `bits` bits. */
function field(x: UOp, i: number, n: number, bits: number): UOp {
  const shifted = i === 0 ? x : x.floorDiv(2 ** i);
  return i + n === bits ? shifted : shifted.floorMod(2 ** n);
}

/** The sum of the offsets of the bits of `x`, in one dimension of a tile. */
function offsetOf(x: UOp, offsets: Fragment["lane"], dimension: 0 | 1): UOp | undefined {
  let sum: UOp | undefined;
  for (let i = 0; i < offsets.length;) {
    const step = offsets[i][dimension];
    let n = 1;
    while (i + n < offsets.length && offsets[i + n][dimension] === step * 2 ** n) n++;
    if (step > 0) {
      const digit = field(x, i, n, offsets.length);
      const term = step === 1 ? digit : digit.mul(step);
      sum = sum === undefined ? term : sum.add(term);
    }
    i += n;
  }
  return sum;
}

/** Where in a tile element `element` of lane `lane` is. */
export function positionOf(f: Fragment, lane: UOp, element: UOp, dimension: 0 | 1): UOp {
  const a = offsetOf(lane, f.lane, dimension), b = offsetOf(element, f.element, dimension);
  if (a === undefined || b === undefined) return a ?? b ?? constant(0, lane.dtype);
  return a.add(b);
}

/** Has the unit do the sum over `k` in tiles of `rows` x `columns`: ranges of its sizes. @throws {ArgumentError} */
export function useTensorCore(ast: UOp, core: TensorCore, rows: UOp, columns: UOp, k: UOp): UOp {
  const nodes = toposort(ast);
  let next = freeIds(nodes).range;
  const u = nodes.find((x) => x.op === Ops.REDUCE && x.src.includes(k));
  const product = u === undefined ? undefined : productOf(u, core);
  if (u === undefined || product === undefined) {
    throw new ArgumentError("apply TC", { reason: "the reduction is no sum of products of the unit's dtypes" });
  }
  const isSwapped = dependsOn(product.b, rows);
  const [a, b] = isSwapped ? [product.b, product.a] : [product.a, product.b];
  const make = (n: number, kind: AxisKind): UOp => range(constant(n, rows.dtype), next++, kind);
  const lane = make(core.lanes, AxisKind.WARP), unit = inMemory(core, [a, b], [rows, columns], k, ast);
  const [inA, inB, inC] = [core.a, core.b, core.c].map((f) => make(elementsOf(f), AxisKind.VECTOR));
  const typed = (x: UOp, like: UOp): UOp => x.dtype === like.dtype ? x : x.cast(like.dtype);
  const place = (x: UOp, f: Fragment, e: UOp, first: UOp, second: UOp): UOp =>
    substitute(
      x,
      new Map([
        [first, typed(positionOf(f, lane, e, 0), first)],
        [second, typed(positionOf(f, lane, e, 1), second)],
      ]),
    );
  const operands = [place(a, core.a, inA, rows, k), place(b, core.b, inB, k, columns)];
  const own = unit === undefined ? [inC, inA, inB] : [inC];
  const tile = uop(Ops.WMMA, core.output, [...operands, ...own], unit ?? core);
  const sum = reduce(carrierOf(u), [tile], u.src.slice(1).filter((r) => r !== k));
  return place(substitute(ast, new Map([[u, sum]])), (unit ?? core).result, inC, rows, columns);
}

/** Does an index move along a range as `at` says? Asked where rows and blocks begin, and where they end. */
function movesBy(idx: UOp, r: UOp, at: (i: number) => number): boolean {
  return [1, sizeOf(r) / 2, sizeOf(r) - 1].every((i) => indexAt(idx, r, i) === at(i));
}

/**
 * The unit as it finds its operands in shared memory; undefined where its lanes hold them.
 * @throws {ArgumentError} where the operands are no tiles that it can read
 */
function inMemory(
  core: TensorCore,
  operands: readonly UOp[],
  sides: readonly UOp[],
  k: UOp,
  { src }: UOp,
): TensorCore | undefined {
  if (core.shared === undefined) return undefined;
  const [a, b] = operands.map((u, i) => sharedOperand(core, u, sides[i], k));
  // what neighboring lanes store of wider elements fills a sector anyway
  return core.reading(a, b, src.every((s) => s.src[1].dtype.itemsize * 8 <= WIDE));
}

/**
 * Where a unit finds an operand in shared memory: a tile of `side` and of the sum over `k`.
 * @throws {ArgumentError} where it is no tile that it can read
 */
export function sharedOperand(core: TensorCore, u: UOp, side: UOp, k: UOp): SharedTile {
  const base = u.op === Ops.LOAD && u.src.length === 1 ? u.src[0].src[0] : undefined;
  if (base?.op !== Ops.STAGE || !argOf(base, Ops.STAGE).isSwizzled) {
    throw new ArgumentError("apply TC", { reason: `the unit ${core} reads operands from a STAGE, as they are` });
  }
  const idx = u.src[0].src[1], row = SWIZZLED_ROW / u.dtype.itemsize;
  const [near, far] = indexAt(idx, side, 1) === 1 ? [side, k] : [k, side];
  const tile = sharedTileOf(base, near === side), block = tile.block / u.dtype.itemsize;
  if (near === side && !core.readsAlong) {
    throw new ArgumentError("apply TC", { reason: `the unit ${core} reads operands whose sums lie side by side` });
  }
  const isRead = movesBy(idx, near, (x) => x % row + Math.floor(x / row) * block) &&
    movesBy(idx, far, (y) => y * row);
  if (!isRead) {
    throw new ArgumentError("apply TC", { reason: `the unit ${core} cannot read how an operand lies in its STAGE` });
  }
  return tile;
}

/**
 * Which row of eight 16-bit elements each lane gives LDMATRIX the address of: the row begins with this element of that lane,
 * in an operand of four matrices or, of two, in the one of this number of two tiles.
 */
function rowOf(
  lane: UOp,
  four: boolean,
  isTransposed: boolean,
): { lane: UOp; element: UOp; tile: UOp | undefined } {
  const row = lane.floorMod(8), matrix = lane.floorDiv(8), first = (four ? matrix : matrix.floorMod(2)).mul(2);
  return {
    lane: isTransposed ? row.floorDiv(2) : row.mul(4),
    element: isTransposed ? first.add(row.floorMod(2)) : first,
    tile: four ? undefined : lane.floorDiv(16),
  };
}

/** How LDMATRIX reads an operand. */
interface RowRead {
  /** The row that each lane gives the address of. */
  readonly at: UOp;
  readonly isTransposed: boolean;
  /** Where two tiles are read at once: the range that numbers them. */
  readonly copies: UOp | undefined;
}

/**
 * How an operand is read as rows of eight 16-bit elements: it must be read from a STAGE in shared memory in which it is
 * contiguous along one of the dimensions of its tile. undefined for others.
 */
export function rowRead(u: UOp, f: Fragment, lane: UOp, element: UOp): RowRead | undefined {
  if (u.op !== Ops.LOAD || u.dtype.itemsize !== 2 || f.lane.length !== 5) return undefined;
  const [base, flat] = u.src[0].src;
  if (base.op !== Ops.STAGE || argOf(base, Ops.STAGE).scope !== "shared" || u.src[0].src.length > 2) return undefined;
  const four = elementsOf(f) === 8;
  if (!four && elementsOf(f) !== 4) return undefined;
  const offset = (l: number, e: number): number => {
    const map = new Map([[lane, constant(l, lane.dtype)], [element, constant(e, element.dtype)]]);
    return indexForm(simplifyKernel(substitute(flat, map))).constant;
  };
  const start = offset(0, 0);
  const isTransposed = offset(0, 1) - start !== 1;
  if (isTransposed && offset(4, 0) - start !== 1) return undefined;
  const row = rowOf(lane, four, isTransposed);
  const map = new Map([[lane, row.lane], [element, row.element]]);
  const copies = four ? undefined : rangesOf(flat).find((r) => {
    const { kind } = argOf(r, Ops.RANGE);
    return kind === AxisKind.UPCAST && r.src[0].value % 2 === 0;
  });
  if (row.tile !== undefined) {
    if (copies === undefined) return undefined;
    map.set(copies, copies.add(row.tile));
  }
  return { at: index(base, substitute(flat, map)), isTransposed, copies };
}
