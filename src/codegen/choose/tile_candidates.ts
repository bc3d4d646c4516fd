/**
 * The tiles that a product of matrices on a grid may have: parts of both operands in shared memory, parts of the result in
 * the registers of threads or of matrix units. All that the device can have are priced (machine/tile_model.ts). Convolutions
 * and their gradients are products too, with several axes a side: either one axis of each makes the tiles and the others are
 * loops and groups, or all of a side are merged into one.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { rangeOf } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import type { TensorCore } from "../../renderer/tensor_core_table.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { type Contraction, contraction } from "../../uop/algebra/contraction.ts";
import { productOf } from "../../uop/algebra/product_chain.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { type Access, type Region, regionsOf, wideOf } from "../machine/access.ts";
import { SECTOR } from "../machine/grid_traffic.ts";
import { type Operand, type Pieces, sideOf, threadFloor, type Tile, TileModel } from "../machine/tile_model.ts";
import type { Axis } from "../opt/axis.ts";
import { applyMerges, type Kernel } from "../opt/kernel.ts";
import type { PairOpt } from "../opt/opt.ts";
import { WIDE } from "../opt/stage.ts";
import { ifPossible, kernelFor, type Proposal } from "./proposal.ts";

/** Bytes of a line of the cache of a card. */
const LINE = 128;
/** Sides of a product that matrix units fill, of which the innermost is taken; of shorter ones the longest. */
const LEAST_SIDE = 16;
/** How many times longer copies take whose addresses are quotients and remainders (an estimate). */
const MERGED_COST = 1.15;

/** Tiles of matrix units that a warp has, by rows and by columns; warps of a group; units of a sum in memory at a time. */
const UNIT_ROWS: readonly number[] = [1, 2, 4, 8], UNIT_COLUMNS: readonly number[] = [1, 2, 3, 4, 5, 6, 8];
const MOST_UNIT_TILES = 32, MOST_WARPS = 8;
const UNIT_DEPTHS: readonly number[] = [1, 2, 4];
/** Neighbors that a thread has along a side, how many of them it has twice, threads along a side, and iterations. */
const THREAD_PIECES: readonly (readonly [near: number, far: number])[] = [[2, 1], [4, 1], [4, 2]];
const THREADS_ALONG: readonly number[] = [8, 16];
const THREAD_DEPTHS: readonly number[] = [8, 16];

function unitTiles(): Tile[] {
  const out: Tile[] = [];
  for (const near of UNIT_ROWS) {
    for (const across of UNIT_COLUMNS) {
      if (near * across > MOST_UNIT_TILES) continue;
      for (let down = 1; down <= MOST_WARPS; down *= 2) {
        for (let along = 1; down * along <= MOST_WARPS; along *= 2) {
          for (const depth of UNIT_DEPTHS) out.push({ rows: [near, down, 1], columns: [across, along, 1], depth });
        }
      }
    }
  }
  return out;
}

/** Of units that read shared memory: its rows of 128 bytes are four of their sums. */
function sharedTiles(): Tile[] {
  const out: Tile[] = [];
  for (const near of [1, 2]) {
    for (const down of [1, 2, 4]) {
      for (const across of [1, 2, 3]) out.push({ rows: [near, down, 1], columns: [across, 1, 1], depth: 4 });
    }
  }
  return out;
}

function threadTiles(): Tile[] {
  const out: Tile[] = [];
  const sides = THREAD_PIECES.flatMap(([near, far]) => THREADS_ALONG.map((n): Pieces => [near, n, far]));
  for (const rows of sides) {
    for (const columns of sides) for (const depth of THREAD_DEPTHS) out.push({ rows, columns, depth });
  }
  return out;
}

const UNIT_TILES = unitTiles(), SHARED_TILES = sharedTiles(), THREAD_TILES = threadTiles();

/** The tiles that a matrix unit may have, or threads without one. */
function tilesOf(core: TensorCore | undefined): readonly Tile[] {
  return core === undefined ? THREAD_TILES : core.shared === undefined ? UNIT_TILES : SHARED_TILES;
}

/** A product: its two reads, and its axes. */
interface Matrices {
  readonly reads: readonly [Access, Access];
  /** Positions among all axes. */
  readonly rows: number;
  readonly columns: number;
  readonly sum: number;
  /** Axes that are merged into that of the sum, which is the last of them; iterations of the sum along others. */
  readonly merged: readonly number[];
  readonly loops: number;
}

/** A product: its reads, and the positions of its axes, outermost first. */
interface Sides extends Contraction<number> {
  readonly reads: readonly [Access, Access];
}

/** The product that a kernel's only reduction sums; undefined where it is something else. */
function sidesOf(regions: readonly Region[], outputs: number, sizes: readonly number[]): Sides | undefined {
  const reduces = regions.filter((r) => r.kind !== "store");
  if (reduces.length !== 1 || reduces[0].kind !== "reduce" || reduces[0].lanes !== 1) return undefined;
  const [r] = reduces;
  const reads = r.accesses.filter((a) => a.node.op === Ops.LOAD && a.node.src[0].src[0].op === Ops.PARAM);
  if (reads.length !== 2 || reads.length !== r.accesses.length) return undefined;
  const [a, b] = reads;
  const long = rangeOf(outputs).filter((i) => sizes[i] > 1), own = r.own.toSorted((x, y) => x - y);
  const axes = contraction(long, own, (i) => a.depends[i], (i) => b.depends[i]);
  return axes === undefined || axes.sums.length === 0 ? undefined : { reads: [a, b], ...axes };
}

/** The axes of tiles: the innermost that are long, or the longest. */
function matricesOf({ reads, rows, columns, sums }: Sides, sizes: readonly number[]): Matrices {
  const axisOf = (axes: readonly number[]): number =>
    axes.findLast((i) => sizes[i] >= LEAST_SIDE) ?? axes.reduce((best, i) => sizes[i] >= sizes[best] ? i : best);
  const [i, j, k] = [axisOf(rows), axisOf(columns), axisOf(sums)];
  const loops = sums.reduce((n, x) => x === k ? n : n * sizes[x], 1);
  return { reads, rows: Math.min(i, j), columns: Math.max(i, j), sum: k, merged: [k], loops };
}

/** May a matrix unit do products of its dtypes? */
export function isAllowed(core: TensorCore): boolean {
  return core.input !== dtypes.float32 || envNumber("ALLOW_TF32") !== 0;
}

/** Is there a sum of products that a matrix unit can do, and may, whatever its axes are? */
function hasProduct(kernel: Kernel, core: TensorCore): boolean {
  return isAllowed(core) && toposort(kernel.ast).some((u) => productOf(u, core) !== undefined);
}

/**
 * Bytes that copies to a tile take at a time: of elements that are side by side along one of these axes, one by one where
 * that ends at a variable; 0 for none.
 */
function pieceOf(a: Access, axes: readonly number[], sizes: readonly number[], isOpen: readonly boolean[]): number {
  const along = axes.find((i) => a.strides[i] === 1);
  if (along === undefined) return 0;
  return (isOpen[along] ? 1 : wideOf(a, along, sizes[along], WIDE / a.dtype.itemsize)) * a.dtype.itemsize;
}

/** Do rows begin with lines of the cache, as far as that is known? The copy engine takes a line at a time, threads 16 bytes. */
function isInLines({ strides, dtype: { itemsize } }: Access): boolean {
  return !strides.some((s) => Math.abs(s) > 1 && s * itemsize % LINE !== 0);
}

/** Iterations of an axis, as a rule. */
function lengthOf({ isOpen, expected, size }: Axis): number {
  return isOpen ? expected : size;
}

/** A tile, and about how long it takes. */
interface Choice {
  readonly tile: Tile;
  readonly time: number;
  readonly ring: number;
  /** The matrix unit by number; -1 for none. */
  readonly number: number;
}

class TileChooser {
  /** Which axes end at a variable: they are cut in blocks of a tile's size, and `sizes` has how long they are as a rule. */
  private readonly isOpen: readonly boolean[];

  /**
   * @param isFlat is it a kernel whose axes are to be merged so?
   * @param mayShare may units read shared memory?
   */
  constructor(
    private readonly kernel: Kernel,
    private readonly caps: Capabilities,
    private readonly matrices: Matrices,
    private readonly sizes: readonly number[],
    private readonly outputs: number,
    private readonly store: Access,
    private readonly isFlat: boolean = false,
    private readonly mayShare: boolean = true,
  ) {
    this.isOpen = kernel.axes.map((a) => a.isOpen);
  }

  /** Can a matrix unit do it? */
  private isFor(core: TensorCore): boolean {
    const { rows, columns, sum } = this.matrices;
    if (core.shared !== undefined && !(this.mayShare && this.isInRows(core))) return false;
    if (this.isFlat) return this.sizes[sum] >= core.k && hasProduct(this.kernel, core);
    const axes = isAllowed(core) ? this.kernel.productAxes(core) : undefined;
    return axes !== undefined && axes.rows === rows && axes.columns === columns && axes.sum === sum - this.outputs;
  }

  /** Can a unit that reads shared memory take the operands as they are read, in rows that lie evenly apart? */
  private isInRows(core: TensorCore): boolean {
    const { kernel, matrices: { reads, rows, columns, sum } } = this;
    if (!reads.every(({ strides }) => [rows, columns, sum].every((i) => Number.isFinite(strides[i])))) return false;
    if (!core.readsAlong && reads.some((a) => this.isAlong(a))) return false;
    const product = toposort(kernel.ast).map((u) => productOf(u, core)).find((p) => p !== undefined);
    return product !== undefined && [product.a, product.b].every((x) => x.op === Ops.LOAD && x.src.length === 1);
  }

  /** The matrix units that can do it, by number: the first that has its lanes hold operands, and those that do not. */
  units(): readonly number[] {
    const { tensorCores } = this.caps.grid!;
    const first = tensorCores.findIndex((core) => core.shared === undefined && this.isFor(core));
    return tensorCores.flatMap((core, i) => i === first || (core.shared !== undefined && this.isFor(core)) ? [i] : []);
  }

  /**
   * May tiles come by the copy engine? It fills with zeros what lies beyond an axis, wherever in a piece that is, and knows
   * the sizes of all axes.
   */
  private hasBoxes(core: TensorCore | undefined, a: Access): boolean {
    const isKnown = !a.depends.some((depends, i) => depends && this.isOpen[i]);
    return core?.shared !== undefined && this.caps.grid!.copyEngine !== undefined && isKnown && isInLines(a);
  }

  /** Can tiles of these sides be cut off the axes? */
  private isRoom(tile: Tile, core: TensorCore | undefined): boolean {
    return !this.isOpen.includes(true) ||
      this.sidesOf(tile, core).every(([axis, side]) =>
        !this.isOpen[axis] || 2 * side <= vmax(this.kernel.axes[axis].range.src[0])
      );
  }

  /** The sides of a tile, by axis. */
  private sidesOf({ rows, columns, depth }: Tile, core: TensorCore | undefined): [axis: number, side: number][] {
    const [m, n, k] = core === undefined ? [1, 1, 1] : [core.m, core.n, core.k], { matrices } = this;
    return [[matrices.rows, sideOf(rows, m)], [matrices.columns, sideOf(columns, n)], [matrices.sum, depth * k]];
  }

  /** The best of all tiles; undefined where none fit. */
  choose(): Choice | undefined {
    const numbers = this.units();
    let best: Choice | undefined;
    for (const number of numbers.length === 0 ? [-1] : numbers) {
      const made = this.chooseFor(number);
      if (made !== undefined && (best === undefined || made.time < best.time)) best = made;
    }
    return best;
  }

  private chooseFor(number: number): Choice | undefined {
    const { matrices: { rows, columns, sum, loops }, sizes, store, outputs } = this;
    const core: TensorCore | undefined = this.caps.grid!.tensorCores[number];
    const operandOf = (axis: number): Operand => {
      const a = this.readOf(axis), { itemsize } = a.dtype, bytes = pieceOf(a, [rows, columns, sum], sizes, this.isOpen);
      const piece = bytes > 0 && this.hasBoxes(core, a) ? WIDE : bytes; // which may end within a piece
      const quotients = a.strides.filter((s) => s !== s).length;
      const near = Math.min(...[rows, columns, sum].map((i) => Math.abs(a.strides[i]) || Infinity));
      const apart = bytes > 0 ? 0 : Math.min(1, near * itemsize / SECTOR), isAlong = this.isAlong(a);
      return { size: sizes[axis], itemsize, piece, isAlong, quotients, breaks: this.breaksOf(a), apart };
    };
    let batch = 1;
    for (let i = 0; i < outputs; i++) if (i !== rows && i !== columns) batch *= sizes[i];
    const isSideBySide = store.strides[rows] === 1 || store.strides[columns] === 1;
    const operands = [operandOf(rows), operandOf(columns)] as const;
    const model = new TileModel({ core, operands, sum: sizes[sum], loops, batch, isSideBySide }, this.caps.grid!);
    let best: Choice | undefined;
    for (const tile of tilesOf(core)) {
      const made = this.isRoom(tile, core) ? model.estimate(tile) : undefined;
      if (made !== undefined && (best === undefined || made.time < best.time)) best = { tile, ...made, number };
    }
    return best;
  }

  /** Places between the axes that make the sum where elements do not lie as far apart as along the inner one. */
  private breaksOf({ strides }: Access): number {
    const { kernel, matrices: { merged } } = this;
    return merged.filter((i, k) => k > 0 && strides[merged[k - 1]] !== strides[i] * kernel.axes[i].size).length;
  }

  /** The operand that has the rows, or the columns. */
  private readOf(axis: number): Access {
    return this.matrices.reads.find((r) => r.depends[axis])!;
  }
  /** Do rows or columns lie side by side, rather than the elements of a sum? */
  private isAlong({ strides }: Access): boolean {
    return strides[this.matrices.rows] === 1 || strides[this.matrices.columns] === 1;
  }

  /** Applies a choice. */
  run({ tile, ring, number }: Choice): void {
    const { kernel, matrices: { rows, columns, sum, reads }, sizes, outputs } = this;
    const core: TensorCore | undefined = this.caps.grid!.tensorCores[number];
    for (const [axis, size] of this.sidesOf(tile, core)) {
      if (this.isOpen[axis] || sizes[axis] % size !== 0) kernel.apply({ op: "PADTO", axis, size });
    }
    if (core !== undefined) kernel.apply({ op: "TC", unit: number });
    // threads of a warp stand along the columns: where each column is a row of shared memory, those next to each other have
    // columns next to each other, which begin in other banks
    const [first, second, third] = tile.columns, isRow = core === undefined && !this.isAlong(this.readOf(columns));
    const across: Pieces = isRow ? [1, second, first * third] : tile.columns;
    for (const [axis, [near, threads, far]] of [[rows, tile.rows], [columns, across]] as const) {
      if (near > 1) kernel.apply({ op: "UPCAST", axis, size: near });
      if (threads > 1) kernel.apply({ op: "LOCAL", axis, size: threads });
      if (far > 1) kernel.apply({ op: "UPCAST", axis, size: far });
    }
    if (tile.depth > 1) kernel.apply({ op: "UNROLL", reduce: sum - outputs, size: tile.depth });
    const slotOf = (a: Access): number => argOf(a.node.src[0].src[0], Ops.PARAM).slot;
    for (const slot of new Set(reads.map(slotOf))) {
      const boxes = reads.every((a) => slotOf(a) !== slot || this.hasBoxes(core, a)) ? { boxes: true } : {};
      kernel.apply({ op: "STAGE", input: slot, ring, ...boxes });
    }
  }
}

/**
 * The same product with one axis a side, and the opts that make it so.
 * @param isOnUnits may matrix units compute it? Asked only where there are sums to order
 */
function merged(
  sides: Sides,
  sizes: readonly number[],
  isOnUnits: () => boolean,
): { matrices: Matrices; sizes: number[]; opts: PairOpt[] } {
  const opts: PairOpt[] = [], now = sizes.slice();
  const axisOf = (axes: readonly number[]): number => {
    const last = axes[axes.length - 1];
    for (const i of axes.slice(0, -1).reverse()) {
      opts.push({ op: "MERGE", axis: i, other: last });
      now[last] *= now[i];
      now[i] = 1;
    }
    return last;
  };
  // matrix units take the sum in any order: neighbors in memory innermost, so that copies of tiles are wide
  const isNear = (i: number): number => sides.reads.filter((a) => a.strides[i] === 1).length;
  const sums = sides.sums.length > 1 && isOnUnits() ? sides.sums.toSorted((i, j) => isNear(i) - isNear(j)) : sides.sums;
  const [rows, columns, sum] = [axisOf(sides.rows), axisOf(sides.columns), axisOf(sums)];
  return { matrices: { reads: sides.reads, rows, columns, sum, merged: sums, loops: 1 }, sizes: now, opts };
}

/** The best tiles for a kernel that is a product of matrices; none where it is none, or too small. */
export function tileProposals(ast: UOp, caps: Capabilities): Proposal[] {
  const found = productInTiles(ast, caps, true), number = found?.make()?.unit ?? -1;
  if (found === undefined) return [];
  if (caps.grid!.tensorCores[number]?.shared === undefined) return [found];
  // how operands with quotients in their indices lie in a tile is known once it is made
  const trial = kernelFor(ast, caps);
  const isPossible = ifPossible(() => {
    for (const o of found.make()!.applied) trial.apply(o);
    return trial.finish();
  }) !== undefined;
  const other = isPossible ? found : productInTiles(ast, caps, false);
  return other === undefined ? [] : [other];
}

/** @param mayShare may units read shared memory? */
function productInTiles(ast: UOp, caps: Capabilities, mayShare: boolean): Proposal | undefined {
  const what = "a product in tiles", kernel = kernelFor(ast, caps), { axes } = kernel;
  const outputs = kernel.outputAxes.length, sizes = axes.map(lengthOf);
  const { regions } = regionsOf(kernel.ast, axes), sides = sidesOf(regions, outputs, sizes);
  if (sides === undefined) return undefined;
  const store = regions.find((r) => r.kind === "store")!.accesses.find((a) => a.isStore)!;
  const plain = matricesOf(sides, sizes);
  const chooser = new TileChooser(kernel, caps, plain, sizes, outputs, store, false, mayShare);
  const choice = chooser.choose(), time = choice?.time ?? Infinity;
  const isOnUnits = (): boolean => caps.grid!.tensorCores.some((core) => hasProduct(kernel, core));
  const flat = merged(sides, sizes, isOnUnits), { rows, columns, sum } = flat.matrices;
  const floor = threadFloor(sizes.reduce((n, k) => n * k, 1), caps.grid!);
  if (flat.opts.length > 0 && kernel.mayMerge && [rows, columns, sum].every((i) => flat.sizes[i] >= LEAST_SIDE)) {
    const other = new TileChooser(kernel, caps, flat.matrices, flat.sizes, outputs, store, true, mayShare).choose();
    if (other !== undefined && other.time * MERGED_COST < time) {
      const made = mergedProduct(kernelFor(ast, caps), caps, flat.opts, other);
      if (made !== undefined) return { what, cost: other.time * MERGED_COST, floor, make: () => made };
    }
  }
  if (choice === undefined) return undefined;
  let isMade = false;
  return {
    what,
    cost: time,
    floor,
    make: () => {
      if (!isMade) chooser.run(choice);
      isMade = true;
      return kernel;
    },
  };
}

/** The product whose axes are merged so, in its tiles. */
function mergedProduct(
  kernel: Kernel,
  caps: Capabilities,
  opts: readonly PairOpt[],
  found: Choice,
): Kernel | undefined {
  if (!applyMerges(kernel, opts)) return undefined;
  const sizes = kernel.axes.map(lengthOf), outputs = kernel.outputAxes.length;
  const { regions } = regionsOf(kernel.ast, kernel.axes), sides = sidesOf(regions, outputs, sizes);
  if (sides === undefined) return undefined;
  const matrices = matricesOf(sides, sizes);
  const store = regions.find((r) => r.kind === "store")!.accesses.find((a) => a.isStore)!;
  const chooser = new TileChooser(kernel, caps, matrices, sizes, outputs, store);
  const isKnown = caps.grid!.tensorCores[found.number]?.shared !== undefined ||
    (chooser.units()[0] ?? -1) === found.number;
  const known = isKnown ? found : chooser.choose();
  if (known === undefined) return undefined;
  chooser.run(known);
  return kernel;
}
