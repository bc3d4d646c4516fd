/**
 * Chooses opts for products of matrices on a grid: tiles of both operands in shared memory, tiles of the result in the
 * registers of threads or of matrix units. By arithmetic: of the tiles that fit the device, the one with the least time by
 * the waves of groups that it takes, what a group computes, and how often it reads an element. Convolutions and their
 * gradients are products too, with several axes a side: either one axis of each makes the tiles and the others are loops and
 * groups, or all of a side are merged into one.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { ceilDiv, rangeOf, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import type { TensorCore } from "../../renderer/tensor_core_table.ts";
import { type Contraction, contraction } from "../../uop/algebra/contraction.ts";
import { productOf } from "../../uop/algebra/product_chain.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort } from "../../uop/core/uop.ts";
import { type Access, isAligned, type Region, regionsOf } from "../machine/access.ts";
import { applyMerges, type Kernel } from "../opt/kernel.ts";
import type { AxisOpt } from "../opt/opt.ts";
import { WIDE } from "../opt/stage.ts";

/** Pieces of one axis: copies that are neighbors, threads or warps, copies that are far apart. */
type Pieces = readonly [near: number, threads: number, far: number];

/** How a group computes its part of the result. */
interface Shape {
  readonly rows: Pieces;
  readonly columns: Pieces;
  /** Iterations of the sum that are in shared memory at a time. */
  readonly depth: number;
}

/** Tiles for matrix units of 16 x 8: pieces count them. */
const UNIT_SHAPES: readonly Shape[] = [
  { rows: [4, 2, 1], columns: [8, 4, 1], depth: 4 },
  { rows: [4, 2, 1], columns: [6, 4, 1], depth: 4 },
  { rows: [4, 2, 1], columns: [4, 4, 1], depth: 4 },
  { rows: [2, 2, 1], columns: [4, 4, 1], depth: 4 },
  { rows: [4, 2, 1], columns: [4, 2, 1], depth: 4 },
  { rows: [2, 2, 1], columns: [4, 2, 1], depth: 4 },
  { rows: [1, 2, 1], columns: [4, 2, 1], depth: 4 },
  { rows: [1, 2, 1], columns: [4, 2, 1], depth: 2 },
  { rows: [1, 1, 1], columns: [4, 2, 1], depth: 2 },
  // many of one side for few of the other, whose elements are copied one by one
  { rows: [4, 1, 1], columns: [4, 8, 1], depth: 2 },
  { rows: [4, 1, 1], columns: [4, 8, 1], depth: 1 },
  { rows: [2, 8, 1], columns: [8, 1, 1], depth: 2 },
  { rows: [2, 8, 1], columns: [8, 1, 1], depth: 1 },
];
/** Tiles for threads. */
const THREAD_SHAPES: readonly Shape[] = [
  { rows: [4, 16, 2], columns: [4, 16, 2], depth: 8 },
  { rows: [4, 8, 2], columns: [4, 16, 2], depth: 8 },
  { rows: [4, 16, 1], columns: [4, 16, 1], depth: 16 },
  { rows: [4, 8, 1], columns: [4, 16, 2], depth: 8 },
  { rows: [4, 8, 1], columns: [4, 16, 1], depth: 8 },
  { rows: [4, 8, 1], columns: [4, 8, 1], depth: 8 },
  { rows: [2, 8, 1], columns: [4, 8, 1], depth: 8 },
];
/** Buffers of a ring: of tiles that are small, and of others (three of 32 KB for two groups fit the 228 KB of a unit). */
const RING = 4, LARGE_RING = 3;
/** Bytes from which a tile is large. */
const LARGE_TILE = 32 << 10;
/** Sides of a product from which tiles pay: what a matrix unit has of rows. */
const LEAST_SIDE = 16;
/** Part of the padded product that must be useful: else the next smaller tile is better. */
const LEAST_USE = 0.6;
/**
 * Elements that a side of a tile must have for copying the other one to take as long as computing with it: where copies are
 * wide, and where they are of single elements, with an index and a gate each; on units, and by threads.
 */
const UNIT_SIDE = 32, UNIT_SIDE_APART = 128, THREAD_SIDE = 8, THREAD_SIDE_APART = 16;
/** Products of an element of the result in the time of storing it, where neighbors are stored side by side, and apart. */
const UNIT_STORE = 100, UNIT_STORE_APART = 1500, THREAD_STORE = 12, THREAD_STORE_APART = 150;
/** The same for a group and its barriers in each step of its loop. */
const UNIT_STEP = 50_000, THREAD_STEP = 5000;
/** Elements copied one by one that take a thread as long again as what it does beside. */
const MANY_PIECES = 100;
/** Buffers of a ring whose elements are copied one by one, which nobody does asynchronously. */
const APART_RING = 2;
/** Products that matrix units do in the time of one by threads, at least: 8 to 16 in 16 bits on cards since sm_80. */
const UNIT_SPEED = 8;
/** Threads of a unit that have a tile each in registers: 128 each of 65,536. */
const TILE_THREADS = 512;

/** A product: its two reads, and its axes. */
interface Matrices {
  readonly reads: readonly [Access, Access];
  /** Positions among all axes. */
  readonly rows: number;
  readonly columns: number;
  readonly sum: number;
  /** Iterations of the sum along other axes. */
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

/** The innermost axes that are long enough for tiles; undefined where a side has none. */
function matricesOf({ reads, rows, columns, sums }: Sides, sizes: readonly number[]): Matrices | undefined {
  const long = (axes: readonly number[]): number => axes.findLast((i) => sizes[i] >= LEAST_SIDE) ?? -1;
  const [i, j, k] = [long(rows), long(columns), long(sums)];
  if (i < 0 || j < 0 || k < 0) return undefined;
  const loops = sums.reduce((n, x) => x === k ? n : n * sizes[x], 1);
  return { reads, rows: Math.min(i, j), columns: Math.max(i, j), sum: k, loops };
}

/** The axes of a product that a matrix unit can do, and may. */
function productAxes(kernel: Kernel, core: TensorCore): ReturnType<Kernel["productAxes"]> {
  const isExcluded = core.input === dtypes.float32 && envNumber("ALLOW_TF32") === 0;
  return isExcluded ? undefined : kernel.productAxes(core);
}

/** Is there a sum of products that a matrix unit can do, and may, whatever its axes are? */
function hasProduct(kernel: Kernel, core: TensorCore): boolean {
  if (core.input === dtypes.float32 && envNumber("ALLOW_TF32") === 0) return false;
  return toposort(kernel.ast).some((u) => productOf(u, core) !== undefined);
}

function sideOf([near, threads, far]: Pieces, unit: number): number {
  return near * threads * far * unit;
}

/** A choice of tiles, and about how long it takes. */
interface Tiling {
  readonly shape: Shape;
  readonly time: number;
}

/** The matrix unit that does it, by number, if one does; its sizes, and the tiles to use. */
interface Choice {
  readonly core: TensorCore | undefined;
  readonly number: number;
  readonly units: readonly number[];
  readonly best: Tiling;
  /** Is an operand copied in pieces that are too small for asynchronous copies? */
  readonly isPieced: boolean;
}

/** Bytes that copies to a tile take at a time: of elements that are side by side along one of these axes; 0 for none. */
function pieceOf(a: Access, axes: readonly number[], sizes: readonly number[]): number {
  const along = axes.find((i) => a.strides[i] === 1);
  if (along === undefined) return 0;
  let n = a.gated[along] ? 1 : WIDE / a.dtype.itemsize;
  while (n > 1 && !isAligned(a, along, sizes[along], n)) n /= 2;
  return n * a.dtype.itemsize;
}

/** Bytes of an asynchronous copy, at least. */
const LEAST_PIECE = 4;

class TileChooser {
  /** @param isFlat is it a kernel whose axes are to be merged so? */
  constructor(
    private readonly kernel: Kernel,
    private readonly caps: Capabilities,
    private readonly matrices: Matrices,
    private readonly sizes: readonly number[],
    private readonly outputs: number,
    private readonly store: Access,
    private readonly isFlat: boolean = false,
  ) {}

  /** The first matrix unit that can do it, by number; -1 for none. */
  unit(): number {
    const { rows, columns, sum } = this.matrices;
    return this.caps.grid!.tensorCores.findIndex((core) => {
      if (this.isFlat) return this.sizes[sum] >= core.k && hasProduct(this.kernel, core);
      const axes = productAxes(this.kernel, core);
      return axes !== undefined && axes.rows === rows && axes.columns === columns && axes.sum === sum - this.outputs;
    });
  }

  /** Bytes of shared memory that one buffer of both tiles takes. */
  private bytesOf(x: number, y: number, depth: number): number {
    const { reads, rows, columns } = this.matrices;
    return reads.reduce((n, a) => {
      const side = a.depends[rows] ? x : y;
      const isTransposed = a.strides[rows] === 1 || a.strides[columns] === 1;
      return n + side * depth * a.dtype.itemsize + (isTransposed ? depth : side) * WIDE;
    }, 0);
  }

  /** Can all threads fill both tiles alike? */
  private fills(shape: Shape, units: readonly number[], threads: number): boolean {
    const elements = (p: Pieces, unit: number): number => sideOf(p, unit) * shape.depth * units[2];
    return elements(shape.rows, units[0]) % threads === 0 && elements(shape.columns, units[1]) % threads === 0;
  }

  private best(shapes: readonly Shape[], units: readonly number[], lanes: number): Tiling | undefined {
    const grid = this.caps.grid!, onUnits = lanes > 1;
    const { rows, columns, sum, loops } = this.matrices;
    const [m, n, k] = [this.sizes[rows], this.sizes[columns], this.sizes[sum]];
    let batch = 1;
    for (let i = 0; i < this.outputs; i++) if (i !== rows && i !== columns) batch *= this.sizes[i];
    const [near, far] = onUnits ? [UNIT_SIDE, UNIT_SIDE_APART] : [THREAD_SIDE, THREAD_SIDE_APART];
    // what copying an operand takes, for each element of the side that the other one has
    const { reads } = this.matrices, { pieces } = this;
    const side = (axis: number): number =>
      pieces.reduce((cost, bytes, i) => reads[i].depends[axis] ? cost + (bytes < LEAST_PIECE ? far : near) : cost, 0);
    const [ofRows, ofColumns] = [side(rows), side(columns)];
    const isApart = [rows, columns].map((i) => reads.some((a, k) => a.depends[i] && pieces[k] < LEAST_PIECE));
    const isSideBySide = [rows, columns].some((i) => this.store.strides[i] === 1);
    const store = onUnits
      ? (isSideBySide ? UNIT_STORE : UNIT_STORE_APART)
      : (isSideBySide ? THREAD_STORE : THREAD_STORE_APART);
    let best: Tiling | undefined;
    for (const s of shapes) {
      const [x, y, depth] = [sideOf(s.rows, units[0]), sideOf(s.columns, units[1]), s.depth * units[2]];
      const threads = s.rows[1] * s.columns[1] * lanes;
      if (threads > grid.maxGroupThreads || this.bytesOf(x, y, depth) > grid.sharedBytes) continue;
      if (!this.fills(s, units, threads)) continue;
      const use = m * n * k / (roundUp(m, x) * roundUp(n, y) * roundUp(k, depth));
      const tiles = ceilDiv(m, x) * ceilDiv(n, y) * batch;
      const waves = Math.max(1, tiles / grid.units);
      // threads that wait for others leave the unit to other groups, if there are some
      const idle = onUnits ? 1 : 1 + threads / TILE_THREADS / 2;
      // each of those has an address, a gate and a register of a thread
      const apart = (isApart[0] ? x : 0) + (isApart[1] ? y : 0), crowd = 1 + apart * depth / threads / MANY_PIECES;
      const step = x * y * depth * (1 + ofRows / y + ofColumns / x) * crowd + (onUnits ? UNIT_STEP : THREAD_STEP);
      const time = (waves < 4 ? Math.ceil(waves) : waves) * idle * (ceilDiv(k, depth) * loops * step + x * y * store);
      if (use >= LEAST_USE && (best === undefined || time < best.time)) best = { shape: s, time };
    }
    return best;
  }

  /** By operand: {@linkcode pieceOf}. */
  private get pieces(): number[] {
    const { reads, rows, columns, sum } = this.matrices;
    return reads.map((a) => pieceOf(a, [rows, columns, sum], this.sizes));
  }

  /** The matrix unit, if there is one, and the tiles to use; undefined where none fit. */
  choose(): Choice | undefined {
    const number = this.unit();
    const core: TensorCore | undefined = this.caps.grid!.tensorCores[number];
    const units = core === undefined ? [1, 1, 1] : [core.m, core.n, core.k];
    const best = this.best(core === undefined ? THREAD_SHAPES : UNIT_SHAPES, units, core?.lanes ?? 1);
    return best && { core, number, units, best, isPieced: this.pieces.some((bytes) => bytes < LEAST_PIECE) };
  }

  /** Applies a choice. */
  run({ core, number, units, best: { shape }, isPieced }: Choice): void {
    const { kernel, matrices, sizes, outputs } = this;
    const { rows, columns, sum } = matrices;
    const depth = shape.depth * units[2];
    const sides = [sideOf(shape.rows, units[0]), sideOf(shape.columns, units[1]), depth];
    [rows, columns, sum].forEach((axis, i) => {
      if (sizes[axis] % sides[i] !== 0) kernel.apply({ op: "PADTO", axis, arg: sides[i] });
    });
    if (core !== undefined) kernel.apply({ op: "TC", axis: -1, arg: number });
    for (const [axis, [near, threads, far]] of [[rows, shape.rows], [columns, shape.columns]] as const) {
      if (near > 1) kernel.apply({ op: "UPCAST", axis, arg: near });
      if (threads > 1) kernel.apply({ op: "LOCAL", axis, arg: threads });
      if (far > 1) kernel.apply({ op: "UPCAST", axis, arg: far });
    }
    if (shape.depth > 1) kernel.apply({ op: "UNROLL", axis: sum - outputs, arg: shape.depth });
    const loops = ceilDiv(sizes[sum], depth) * matrices.loops;
    const bytes = this.bytesOf(sides[0], sides[1], depth);
    let ring = !this.caps.grid!.hasAsyncCopy || loops < 2 ? 1 : bytes < LARGE_TILE ? RING : LARGE_RING;
    if (isPieced) ring = Math.min(ring, APART_RING);
    while (ring > 1 && ring * bytes > this.caps.grid!.sharedBytes) ring--;
    const slots = new Set(matrices.reads.map((a) => argOf(a.node.src[0].src[0], Ops.PARAM).slot));
    for (const slot of slots) kernel.apply({ op: "STAGE", input: slot, ring });
  }
}

/** About how long a choice takes, in products of a matrix unit; infinite where there is none. */
function timeOf(choice: Choice | undefined): number {
  return choice === undefined ? Infinity : choice.best.time * (choice.core === undefined ? UNIT_SPEED : 1);
}

/** How many times longer copies take whose addresses are quotients and remainders (an estimate). */
const MERGED_COST = 1.15;

/**
 * The same product with one axis a side: what its tiles would take, and the opts that make it so.
 * @param isOnUnits may matrix units compute it? Asked only where there are sums to order
 */
function merged(
  sides: Sides,
  sizes: readonly number[],
  isOnUnits: () => boolean,
): { matrices: Matrices; sizes: number[]; opts: AxisOpt[] } {
  const opts: AxisOpt[] = [], now = sizes.slice();
  const axisOf = (axes: readonly number[]): number => {
    const last = axes[axes.length - 1];
    for (const i of axes.slice(0, -1).reverse()) {
      opts.push({ op: "MERGE", axis: i, arg: last });
      now[last] *= now[i];
      now[i] = 1;
    }
    return last;
  };
  // matrix units take the sum in any order: neighbors in memory innermost, so that copies of tiles are wide
  const isNear = (i: number): number => sides.reads.filter((a) => a.strides[i] === 1).length;
  const sums = sides.sums.length > 1 && isOnUnits() ? sides.sums.toSorted((i, j) => isNear(i) - isNear(j)) : sides.sums;
  const [rows, columns, sum] = [axisOf(sides.rows), axisOf(sides.columns), axisOf(sums)];
  return { matrices: { reads: sides.reads, rows, columns, sum, loops: 1 }, sizes: now, opts };
}

/** Tiles a product of matrices; false where the kernel is none, or too small, and nothing was done. */
export function tileProduct(
  kernel: Kernel,
  caps: Capabilities,
  regions: readonly Region[],
  sizes: readonly number[],
): boolean {
  const outputs = kernel.outputAxes.length;
  const sides = sidesOf(regions, outputs, sizes);
  if (sides === undefined || kernel.axes.some((a) => a.size === 0)) return false;
  const store = regions.find((r) => r.kind === "store")!.accesses.find((a) => a.isStore)!;
  const plain = matricesOf(sides, sizes);
  const chooser = plain === undefined ? undefined : new TileChooser(kernel, caps, plain, sizes, outputs, store);
  const choice = chooser?.choose(), time = timeOf(choice);
  const isOnUnits = (): boolean => caps.grid!.tensorCores.some((core) => hasProduct(kernel, core));
  const flat = merged(sides, sizes, isOnUnits);
  if (
    flat.opts.length > 0 && kernel.mayMerge &&
    [flat.matrices.rows, flat.matrices.columns, flat.matrices.sum].every((i) => flat.sizes[i] >= LEAST_SIDE)
  ) {
    const other = new TileChooser(kernel, caps, flat.matrices, flat.sizes, outputs, store, true).choose();
    if (timeOf(other) * MERGED_COST < time && applyMerges(kernel, flat.opts)) {
      const size = kernel.axes.map((a) => a.size), count = kernel.outputAxes.length;
      const again = sidesOf(regionsOf(kernel.ast, kernel.axes).regions, count, size);
      const matrices = again === undefined ? undefined : matricesOf(again, size);
      if (matrices === undefined) return false;
      const chooser = new TileChooser(kernel, caps, matrices, size, count, store);
      const known = chooser.unit() === other!.number ? other : chooser.choose();
      if (known !== undefined) chooser.run(known);
      return known !== undefined;
    }
  }
  if (choice === undefined) return false;
  chooser!.run(choice);
  return true;
}
