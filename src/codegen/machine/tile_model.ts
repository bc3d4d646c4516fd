/**
 * What a product of matrices costs on a grid in tiles: microseconds of a tile, from the sizes of the product, how its
 * operands lie in memory, and the numbers of the device. Groups of threads have a tile of the result each, in registers of
 * threads or of matrix units; tiles of both operands come into shared memory step by step of the sum.
 *
 * A step takes what it multiplies, reads and copies, and a barrier; a group by itself waits for copies that are not far
 * enough ahead; groups take turns in waves, the last of which may leave units idle. The constants were measured once on a
 * large card, as what code generation makes of some hundred tiles; sizes of products are not in them.
 *
 * @module
 */
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import { MOST_REGISTERS } from "../../renderer/lanes.ts";
import type { GridCaps } from "../../renderer/renderer.ts";
import { MOST_COLUMNS, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { WIDE } from "../opt/stage.ts";
import {
  ARRIVAL,
  CLOCK,
  COPY_RATE,
  inWaves,
  LANES,
  LAUNCH,
  overlapped,
  QUOTIENT_WORK,
  resident,
  SHARED_RATE,
} from "./grid_rates.ts";

/** Pieces of one axis: copies that are neighbors, threads or warps, copies that are far apart. */
export type Pieces = readonly [near: number, threads: number, far: number];

/** How a group computes its part of the result. */
export interface Tile {
  readonly rows: Pieces;
  readonly columns: Pieces;
  /** Iterations of the sum that are in shared memory at a time: in those of the matrix unit, if there is one. */
  readonly depth: number;
}

/** An operand of a product. */
export interface Operand {
  /** Iterations of its rows, or of its columns. */
  readonly size: number;
  readonly itemsize: number;
  /** Bytes that can be copied at a time, at most. */
  readonly piece: number;
  /** Do these lie side by side, rather than the elements of a sum? */
  readonly isAlong: boolean;
  /** Axes along which its index has quotients. */
  readonly quotients: number;
  /** How often its index has quotients of the sum, anew in each step, because several axes make it. */
  readonly breaks: number;
  /** Sectors that an element takes by itself, at most one, where none of a tile lie side by side; 0 where they do. */
  readonly apart: number;
}

/** A product of matrices. */
export interface Product {
  /** The matrix unit that does it. */
  readonly core: TensorCore | undefined;
  /** What has the rows, and what has the columns. */
  readonly operands: readonly [Operand, Operand];
  /** Iterations of the sum, of loops around it within a group, and of other axes of the result. */
  readonly sum: number;
  readonly loops: number;
  readonly batch: number;
  /** Are neighbors of the result stored side by side? */
  readonly isSideBySide: boolean;
}

/** What a unit of the device needs for tiles of one kind, in its clocks. */
interface Costs {
  /** Products of elements of four bytes in a clock at best, and the share of that time that they take. */
  readonly products: number;
  readonly multiply: number;
  /** 128 bytes read by threads; copied, and the accesses of 16 bytes with which they are. */
  readonly read: number;
  readonly copy: number;
  readonly access: number;
  /** A copy whose index has a quotient of the sum, for each; an element in whose sector no other of the tile is. */
  readonly broken: number;
  readonly apart: number;
  /** A step: for each group, and for each of its warps. */
  readonly step: number;
  readonly warpStep: number;
  /** What a copy takes to arrive, with which a group starts, and for 128 elements of the result: side by side, and apart. */
  readonly latency: number;
  readonly start: number;
  readonly store: number;
  readonly storeApart: number;
  /** Warps that keep it busy, and how fast less of them fall behind. */
  readonly warps: number;
  readonly idle: number;
  /** Registers of a thread beside its results and what it multiplies. */
  readonly registers: number;
}

const ON_UNITS: Costs = {
  products: 1024,
  multiply: 0.75,
  read: 0.15,
  copy: 1,
  access: 2.2,
  broken: 0, // which groups of many warps compute beside the rest
  apart: 0,
  step: 115,
  warpStep: 0,
  latency: 250,
  start: 45,
  store: 29,
  storeApart: 430,
  warps: 8,
  idle: 0.06,
  registers: 45,
};
const BY_THREADS: Costs = {
  products: 128,
  multiply: 1.3,
  read: 0,
  copy: 0.9,
  access: 0.05,
  // convolutions of 64 to 128 channels, their axes merged in four ways, in four tiles each
  broken: 1,
  apart: 2,
  step: 0,
  warpStep: 17,
  latency: 225,
  start: 1000,
  store: 2,
  storeApart: 25,
  warps: 16,
  idle: 0.1,
  registers: 10,
};
/** Of units that read shared memory: clocks that a warp takes to start a copy, and for the rest of a step. */
const START_COPY = 35, WARP_STEP = 130;
/** Rings of their tiles: the slots of others are found by division. A tile is read for one iteration more than its own. */
const UNIT_RINGS: readonly number[] = [4, 8, 3], LATE = 1;
const ON_SHARED: Costs = {
  ...ON_UNITS,
  multiply: 1,
  step: 0,
  start: 600,
  store: 15,
};
/** How much longer copies take along a side that is no power of two: of three, and of more pieces that are. */
const THREE_PIECES = 1.1, MORE_PIECES = 1.7;
/** Bytes of an asynchronous copy, at least. */
const LEAST_PIECE = 4;
/** Lanes that copy an element each by itself, with an index and a gate, in clocks for 32; what such a copy waits for. */
const ELEMENT = 5, ELEMENT_LATENCY = 450;
/** Elements copied one by one that take a thread as long again for want of registers. */
const MANY_ELEMENTS = 500;
/** Sums that a thread may hold for a unit that adds to them. */
const MOST_SUMS = 192;
/** Buffers of a ring: of tiles that are small, and of others; where elements are copied one by one, which nobody awaits. */
const RING = 4, LARGE_RING = 3, ELEMENT_RING = 2;
/** Bytes from which a tile is large. */
const LARGE_TILE = 32 << 10;

/** Iterations of an axis that pieces make, of a matrix unit with so many. */
export function sideOf([near, threads, far]: Pieces, unit: number): number {
  return near * threads * far * unit;
}

/** How much longer copies take along a side. */
function unevenness(side: number): number {
  while (side % 2 === 0) side /= 2;
  return side === 1 ? 1 : side === 3 ? THREE_PIECES : MORE_PIECES;
}

/** Microseconds that so many products by threads take at least, in tiles or not. */
export function threadFloor(products: number, { units }: GridCaps): number {
  return LAUNCH + products / BY_THREADS.products / units / CLOCK;
}

/** What a tile costs, and the ring that it has. */
export interface TileEstimate {
  readonly time: number;
  readonly ring: number;
}

/** Estimates of the tiles of one product. */
export class TileModel {
  private readonly costs: Costs;
  /** Rows, columns and sum of a matrix unit. */
  readonly unit: readonly [number, number, number];
  /** Do threads wait for elements that they copy one by one? Asynchronous copies have {@linkcode LEAST_PIECE} bytes. */
  private readonly isAwaited: boolean;

  constructor(readonly product: Product, private readonly grid: GridCaps) {
    const { core, operands } = product;
    this.costs = core === undefined ? BY_THREADS : core.shared === undefined ? ON_UNITS : ON_SHARED;
    this.unit = core === undefined ? [1, 1, 1] : [core.m, core.n, core.k];
    this.isAwaited = operands.some(({ piece, itemsize }) =>
      piece < LEAST_PIECE && (itemsize < LEAST_PIECE || !grid.hasAsyncCopy)
    );
  }

  /** Microseconds that no tile is below: what is multiplied. */
  get floor(): number {
    const { operands: [a, b], sum, loops, batch } = this.product;
    return LAUNCH + this.multiply(a.size * b.size * sum * loops * batch) / this.grid.units / CLOCK;
  }

  private multiply(n: number): number {
    const { products, multiply } = this.costs;
    return this.product.core === undefined ? n * multiply / products : n * multiply / (products * 4 / this.itemsize);
  }
  private get itemsize(): number {
    return this.product.operands[0].itemsize;
  }

  /** Groups of all tiles of so many rows and columns. */
  private groupsOf(x: number, y: number): number {
    const { operands: [a, b], batch } = this.product;
    return ceilDiv(a.size, x) * ceilDiv(b.size, y) * batch;
  }

  /** {@linkcode estimate} of units that read shared memory by themselves, while threads copy what they read later. */
  private estimateShared({ rows, columns, depth }: Tile, core: TensorCore): TileEstimate | undefined {
    const { product: { operands, sum, loops, isSideBySide }, grid, costs, itemsize } = this;
    const x = sideOf(rows, core.m), y = sideOf(columns, core.n), deep = depth * core.k;
    const threads = rows[1] * columns[1] * core.lanes, held = x * y / threads;
    const registers = Math.min(MOST_REGISTERS, roundUp(held + costs.registers, 8)), bytes = (x + y) * deep * itemsize;
    const isWhole = [x, y].every((side) => side * deep * itemsize % (threads * WIDE) === 0);
    if (threads > grid.maxGroupThreads || held > MOST_SUMS || !isWhole) return undefined;
    if (operands.some(({ piece }) => piece < WIDE) || !grid.hasAsyncCopy) return undefined;
    const steps = ceilDiv(sum, deep) * loops, copy = bytes / COPY_RATE;
    // tiles side by side are one instruction of as many columns as it may have, which reads the left operand once
    const beside = Math.min(columns[0], Math.floor(MOST_COLUMNS / core.n)), high = x / core.m, wide = y / core.n;
    const lefts = ceilDiv(columns[0], beside) * wide / columns[0] * core.m;
    const read = high * (lefts + y) * deep * itemsize;
    const step = overlapped([this.multiply(x * y * deep), (read + bytes) / SHARED_RATE, copy]);
    const store = (isSideBySide ? costs.store : costs.storeApart) * x * y / 128;
    const alone = bytes / (WIDE * threads) * START_COPY + WARP_STEP;
    let best: TileEstimate | undefined;
    for (const ring of UNIT_RINGS) {
      const many = resident(grid, ring * bytes, registers, threads), arrival = (ARRIVAL + copy) / (ring - 1 - LATE);
      if (many === 0 || ring * bytes > grid.sharedBytes) continue;
      const time = inWaves(this.groupsOf(x, y), many, grid, (groups) => {
        return steps * Math.max(groups * step, arrival, alone) + groups * store + costs.start;
      });
      if (best === undefined || time < best.time) best = { time, ring };
    }
    return best;
  }

  /** What a tile costs; undefined where the device cannot have it. */
  estimate(tile: Tile): TileEstimate | undefined {
    const { product, grid, costs, unit } = this, { operands, core, sum, loops } = product;
    if (core?.shared !== undefined) return this.estimateShared(tile, core);
    const { rows, columns, depth } = tile;
    const lanes = core?.lanes ?? 1, threads = rows[1] * columns[1] * lanes, warps = ceilDiv(threads, 32);
    const x = sideOf(rows, unit[0]), y = sideOf(columns, unit[1]), deep = depth * unit[2];
    if (threads > grid.maxGroupThreads) return undefined;
    let bytes = 0, copy = 0, elements = 0, quotients = 0;
    for (let k = 0; k < 2; k++) {
      const { itemsize, piece, isAlong, quotients: axes, breaks, apart } = operands[k],
        side = k === 0 ? x : y,
        count = side * deep;
      if (count % threads !== 0) return undefined; // all threads fill both alike
      bytes += count * itemsize + (isAlong ? deep : side) * WIDE;
      let wide = piece / itemsize;
      while (wide > 1 && ((isAlong ? side : deep) % wide !== 0 || count % (threads * wide) !== 0)) wide /= 2;
      const nbytes = wide * itemsize, uneven = isAlong ? unevenness(side) : 1;
      if (nbytes >= LEAST_PIECE) copy += count * itemsize / 128 * (costs.copy + costs.access * WIDE / nbytes) * uneven;
      else {
        elements += count;
        quotients += count * axes;
      }
      copy += count * (breaks / Math.max(1, wide) * costs.broken + apart * costs.apart);
    }
    copy += elements * ELEMENT / 32 * (1 + elements / threads / MANY_ELEMENTS) + quotients * QUOTIENT_WORK / LANES;
    if (bytes > grid.sharedBytes) return undefined;
    const steps = ceilDiv(sum, deep) * loops, ring = this.ringOf(bytes, steps);
    // registers of a thread: results, and a part of both operands
    const [near, across] = [rows[0] * rows[2], columns[0] * columns[2]];
    const held = core === undefined ? near * across + near + across : 4 * near * across + 4 * near + 2 * across;
    const registers = Math.min(MOST_REGISTERS, roundUp(held + costs.registers, 8));
    if (held > MOST_REGISTERS) return undefined;
    const many = Math.max(1, resident(grid, ring * bytes, registers, threads));
    // of each warp, or of each thread
    const read = core === undefined
      ? threads * (near + across) * deep * this.itemsize / 128
      : warps * (near * unit[0] + across * unit[1]) * deep * this.itemsize / 128;
    const step = this.multiply(x * y * deep) + read * costs.read + copy + costs.step + warps * costs.warpStep;
    const late = costs.latency / Math.max(1, ring - 1) + (elements > 0 && this.isAwaited ? ELEMENT_LATENCY : 0);
    const store = (product.isSideBySide ? costs.store : costs.storeApart) * x * y / 128;
    const timeOf = (groups: number): number => {
      const idle = (n: number): number => Math.max(1, costs.warps / (n * warps)) ** costs.idle;
      return steps * Math.max(groups * step * idle(groups), step * idle(1) + late) + groups * store + costs.start;
    };
    return { time: inWaves(this.groupsOf(x, y), many, grid, timeOf), ring };
  }

  private ringOf(bytes: number, steps: number): number {
    const { hasAsyncCopy, sharedBytes } = this.grid;
    let ring = !hasAsyncCopy || steps < 2 ? 1 : bytes < LARGE_TILE ? RING : LARGE_RING;
    if (this.isAwaited) ring = Math.min(ring, ELEMENT_RING);
    while (ring > 1 && ring * bytes > sharedBytes) ring--;
    return ring;
  }
}
