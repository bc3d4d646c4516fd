/**
 * Matrix units as data: the sizes of one product of tiles, the dtypes, and where each thread of a warp keeps which
 * elements of the three tiles. A new unit is a new row; the opt TC and the renderers read the table.
 *
 * Positions are linear over bits: element `e` of lane `l` is at the sum of the offsets of the bits set in `l` and in `e`.
 * The layouts of mma.sync are those of the PTX ISA, section "Matrix multiply-accumulate operation using mma instruction".
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { hashString } from "../helpers/hash.ts";
import type { Arg, ArgRecord } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";

/** An offset in a tile. */
export type TileOffset = readonly [row: number, column: number];

/** Where the elements of a tile are: offsets by bit of the lane number and by bit of the element number. */
export interface Fragment {
  /** One offset a bit of the lane: 5 for a warp of 32. */
  readonly lane: readonly TileOffset[];
  /** One offset a bit of the element: a thread holds 2 to the power of their number. */
  readonly element: readonly TileOffset[];
}

/**
 * How a unit finds an operand's tile in shared memory: in rows of 128 bytes of neighboring elements, swizzled
 * ({@linkcode swizzle}), the rows of the other dimension one after the other; what is wider goes on in a block behind those.
 */
export interface SharedTile {
  /** Do the rows or columns of the product lie side by side, rather than the elements of the sum? */
  readonly isAlong: boolean;
  /** Bytes from a row of 128 bytes to the one that it goes on in; 0 where that is not known yet. */
  readonly block: number;
}

/** One product of tiles: C (m x n) += A (m x k) * B (k x n), done by the lanes of a warp together. The arg of WMMA. */
export class TensorCore implements ArgRecord {
  /** Equal for equal units. */
  readonly hash: number;
  /** A row of the table. */
  constructor(
    /** As renderers know it: "m16n8k16". */
    readonly name: string,
    /** Rows of A and C, columns of B and C, columns of A. */
    readonly m: number,
    readonly n: number,
    readonly k: number,
    /** Dtype of A and B, and of C. */
    readonly input: DType,
    readonly output: DType,
    /** Threads that work on it together. */
    readonly lanes: number,
    /** A by (row, k). */
    readonly a: Fragment,
    /** B by (k, column). */
    readonly b: Fragment,
    /** C by (row, column). */
    readonly c: Fragment,
    /** The unit that does each half of its columns, where that is not one instruction. */
    readonly half: TensorCore | undefined = undefined,
    /**
     * Of a unit that reads B from shared memory, and A too or from registers, and goes on with that while its lanes do
     * something else: where they are. Its lanes hold no elements of what is in shared memory.
     */
    readonly shared: readonly [a: SharedTile | undefined, b: SharedTile] | undefined = undefined,
    /** Bits of the lane and of the element whose places are exchanged once a sum is complete. */
    readonly exchanged: readonly (readonly [lane: number, element: number])[] = [],
  ) {
    this.hash = hashString(this.toString());
  }
  /** Whether two are one unit. */
  same(o: ArgRecord): boolean {
    return o instanceof TensorCore && o.toString() === this.toString();
  }
  /** Of a unit that reads shared memory: may rows or columns lie side by side there, rather than the elements of the sum? */
  get readsAlong(): boolean {
    return this.input.itemsize === 2;
  }
  /** C by (row, column) as what follows the sum has it. */
  get result(): Fragment {
    const lane = this.c.lane.slice(), element = this.c.element.slice();
    for (const [l, e] of this.exchanged) [lane[l], element[e]] = [element[e], lane[l]];
    return { lane, element };
  }
  /** Elements of C that a lane holds. */
  get sums(): number {
    return this.m * this.n / this.lanes;
  }
  /**
   * As many of it as one instruction: lanes hold the elements of the columns of each behind those of the one before, which are
   * where `c` says.
   */
  beside(count: number): TensorCore {
    const { m, n, k, input, output, lanes, a, b, c, half, shared, exchanged } = this, all = n * count;
    return new TensorCore(`m${m}n${all}k${k}`, m, all, k, input, output, lanes, a, b, c, half, shared, exchanged);
  }
  /** The same unit for operands that lie so. @param hasEights exchanged, so that a lane has eight neighbors of a row */
  reading(a: SharedTile | undefined, b: SharedTile, hasEights: boolean): TensorCore {
    const { name, m, n, k, input, output, lanes, c } = this, exchanged = hasEights ? EIGHTS : [];
    return new TensorCore(name, m, n, k, input, output, lanes, this.a, NOTHING, c, undefined, [a, b], exchanged);
  }
  /** As printed graphs show it. */
  toString(): string {
    const tiles = this.shared?.map((tile) => {
      if (tile === undefined) return " registers";
      return tile.block === 0 ? "" : `${tile.isAlong ? " along " : " across "}${tile.block}`;
    }) ?? [];
    return `${this.name} ${this.input} ${this.output}${tiles.join("")}${this.exchanged.length > 0 ? " in eights" : ""}`;
  }
}

/** Of four lanes that have two columns of eight each, in four eights, each gets one of those. */
const EIGHTS = [[0, 2], [1, 3]] as const;

/** What lanes hold of an operand in shared memory. */
const NOTHING: Fragment = { lane: [], element: [] };

/** Bytes of a swizzled row, of the pieces that change places in it, and rows after which they stand as before. */
export const SWIZZLED_ROW = 128, SWIZZLED_PIECE = 16, SWIZZLED_ROWS = 8;
/** Swizzled memory begins at a multiple of so many bytes. */
export const SWIZZLE_ALIGN: number = SWIZZLED_ROW * SWIZZLED_ROWS;

/**
 * Where byte `at` of swizzled memory is kept: piece i of row r lies where piece i XOR (r modulo 8) would, so that pieces of
 * one column lie in different banks. PTX ISA, section "Swizzling modes", 128 bytes.
 */
export function swizzle(at: number): number {
  return at ^ (Math.floor(at / SWIZZLED_ROW) % SWIZZLED_ROWS) * SWIZZLED_PIECE;
}

/** Elements that one thread holds of a tile. */
export function elementsOf(f: Fragment): number {
  return 1 << f.element.length;
}

/** Where element `element` of lane `lane` is in its tile. */
export function positionIn(f: Fragment, lane: number, element: number): TileOffset {
  let row = 0, column = 0;
  const add = (offsets: readonly TileOffset[], bits: number): void => {
    offsets.forEach(([r, c], i) => {
      if ((bits >> i & 1) === 0) return;
      row += r;
      column += c;
    });
  };
  add(f.lane, lane);
  add(f.element, element);
  return [row, column];
}

const sameOffsets = (a: readonly TileOffset[], b: readonly TileOffset[]): boolean =>
  a.length === b.length && a.every(([r, c], i) => r === b[i][0] && c === b[i][1]);

/** The unit of a WMMA, or of a load of its operands. */
export function unitOf(u: { readonly arg: Arg }): TensorCore {
  return u.arg as TensorCore;
}

/** Does the matrix unit of a product read its operands from shared memory? */
export function readsShared(u: UOp): boolean {
  return u.op === Ops.WMMA && unitOf(u).shared !== undefined;
}

/** Units of a chain of products: the results of the inner one are where the outer one takes its left operand from. */
export interface ChainUnits {
  readonly inner: TensorCore;
  readonly outer: TensorCore;
}

const chains = new Map<TensorCore, ChainUnits | undefined>();

/**
 * `core` in a chain of products: so that results become an operand in the registers that they are in. Of a unit of few
 * columns two tiles side by side are one inner product; of one that reads its right operand from shared memory the outer
 * product is one of as many terms as the inner one has columns. undefined where there is none.
 */
export function chainOf(core: TensorCore): ChainUnits | undefined {
  if (!chains.has(core)) chains.set(core, core.shared === undefined ? chainOfTwo(core) : chainOfShared(core));
  return chains.get(core);
}

function chainOfTwo(core: TensorCore): ChainUnits | undefined {
  const next: TileOffset = [0, core.n], { a, b, c } = core;
  const isSame = core.k === 2 * core.n && sameOffsets(a.lane, c.lane) && sameOffsets(a.element, [...c.element, next]);
  const { name, m, n, k, input, output, lanes } = core;
  const wide: Fragment = { lane: b.lane, element: [...b.element, next] };
  if (!isSame) return undefined;
  return { inner: new TensorCore(`${name}x2`, m, 2 * n, k, input, output, lanes, a, wide, a, core), outer: core };
}

function chainOfShared({ m, n, k, input, output, lanes, shared }: TensorCore): ChainUnits | undefined {
  if (input.itemsize !== 2 || n > MOST_TERMS) return undefined;
  const tile = shared![1];
  const make = (columns: number, terms: number): TensorCore => {
    const [a, c] = [terms, columns].map(sharedRows), name = `m${m}n${columns}k${terms}`;
    return new TensorCore(name, m, columns, terms, input, output, lanes, a, NOTHING, c, undefined, [undefined, tile]);
  };
  return { inner: make(n, k), outer: make(LEAST_COLUMNS, n) };
}

const QUAD_ROWS: readonly TileOffset[] = [[1, 0], [2, 0], [4, 0]];
const QUAD_COLUMNS: readonly TileOffset[] = [[0, 1], [0, 2], [0, 4]];
const C_16x8: Fragment = { lane: [[0, 2], [0, 4], ...QUAD_ROWS], element: [[0, 1], [8, 0]] };

function mma(k: number, input: DType, output: DType, a: Fragment, b: Fragment): TensorCore {
  return new TensorCore(`m16n8k${k}`, 16, 8, k, input, output, 32, a, b, C_16x8);
}

const A_K16: Fragment = { lane: [[0, 2], [0, 4], ...QUAD_ROWS], element: [[0, 1], [8, 0], [0, 8]] };
const B_K16: Fragment = { lane: [[2, 0], [4, 0], ...QUAD_COLUMNS], element: [[1, 0], [8, 0]] };
const A_K8: Fragment = { lane: [[0, 1], [0, 2], ...QUAD_ROWS], element: [[8, 0], [0, 4]] };
const B_K8: Fragment = { lane: [[1, 0], [2, 0], ...QUAD_COLUMNS], element: [[4, 0]] };
const A_K32: Fragment = { lane: [[0, 4], [0, 8], ...QUAD_ROWS], element: [[0, 1], [0, 2], [8, 0], [0, 16]] };
const B_K32: Fragment = { lane: [[4, 0], [8, 0], ...QUAD_COLUMNS], element: [[1, 0], [2, 0], [16, 0]] };

/** mma.sync on float16, accumulating in float32. */
export const MMA_F16: TensorCore = mma(16, dtypes.float16, dtypes.float32, A_K16, B_K16);
/** mma.sync on bfloat16, accumulating in float32. */
export const MMA_BF16: TensorCore = mma(16, dtypes.bfloat16, dtypes.float32, A_K16, B_K16);
/** mma.sync on float32 rounded to tf32 (10 bits of mantissa): only where the user allows it. */
export const MMA_TF32: TensorCore = mma(8, dtypes.float32, dtypes.float32, A_K8, B_K8);
/** mma.sync on int8, accumulating in int32. */
export const MMA_INT8: TensorCore = mma(32, dtypes.int8, dtypes.int32, A_K32, B_K32);

/** Columns of a unit that reads shared memory, at least; terms of the outer product of a chain, at most. */
const LEAST_COLUMNS = 64, MOST_TERMS = 128;
/** Columns of an instruction of it, at most. */
export const MOST_COLUMNS = 256;

/** Where the lanes of a unit that reads shared memory have 64 rows of `n` columns. */
function sharedRows(n: number): Fragment {
  const element: TileOffset[] = [[0, 1], [8, 0]];
  for (let column = 8; column < n; column *= 2) element.push([0, column]);
  return { lane: [[0, 2], [0, 4], ...QUAD_ROWS, [16, 0], [32, 0]], element };
}

/** wgmma on a tile of 64 rows: the PTX ISA, section "Asynchronous warpgroup level matrix instructions". */
function wgmma(n: number, input: DType, output: DType): TensorCore {
  const c = sharedRows(n), tile: SharedTile = { isAlong: false, block: 0 };
  const k = 32 / input.itemsize, name = `m64n${n}k${k}`;
  return new TensorCore(name, 64, n, k, input, output, 128, NOTHING, NOTHING, c, undefined, [tile, tile]);
}

/** wgmma on bfloat16 and float16, accumulating in float32, and on int8, accumulating in int32, by columns of a tile. */
export const WGMMA: readonly TensorCore[] = [dtypes.bfloat16, dtypes.float16, dtypes.int8].flatMap((input) =>
  [256, 128, 64].map((n) => wgmma(n, input, input.isFloat ? dtypes.float32 : dtypes.int32))
);
