/**
 * What a chain of products costs on a grid in tiles of its rows: microseconds, from the sizes of the chain, the matrix unit
 * that does it and the numbers of the device. A group has some tiles of rows; step by step of the middle it copies what
 * depends on that into a ring of shared memory, multiplies, computes what stands between the products, and multiplies again.
 *
 * A step takes the longest of what a multiprocessor multiplies, computes, reads and copies for all groups that share it, or
 * what a group by itself waits for, one after the other; groups take turns in waves.
 *
 * @module
 */
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import { MOST_REGISTERS } from "../../renderer/lanes.ts";
import type { GridCaps } from "../../renderer/renderer.ts";
import type { TensorCore } from "../../renderer/tensor_core_table.ts";
import { ARRIVAL, COPY_RATE, inWaves, LANES, overlapped, resident, SHARED_RATE } from "./grid_rates.ts";

/** Part of the rows or columns of tiles that must be useful: what else padding takes is not in the model. */
export const LEAST_USE = 0.6;

/** A chain of products. */
export interface ChainWork {
  /** Rows, what of them is computed one by one, and the middle. */
  readonly rows: number;
  readonly batch: number;
  readonly middle: number;
  /** Columns of the result, 0 where a row has one, and terms of each inner product: as many as the unit's tiles have. */
  readonly columns: number;
  readonly terms: readonly number[];
  /** Bytes of shared memory that a step of the middle takes. */
  readonly bytes: number;
  /** Functions such as powers that are computed of each row and step of the middle. */
  readonly functions: number;
  /** Are there sums of its own for each element of a tile, which are combined by row at the end? */
  readonly isByElement: boolean;
}

/** How a group computes its part. */
export interface ChainTile {
  readonly core: TensorCore;
  /** Tiles of rows that the lanes of a unit have, and such lanes of a group. */
  readonly tiles: number;
  readonly warps: number;
  /** Steps of the middle in memory at a time. */
  readonly depth: number;
}

/** Products of two elements of two bytes in a clock, of all units of a multiprocessor; how much longer lanes take that feed them. */
const PRODUCTS = 2048, FED_BY_LANES = 2;
/** Functions in a clock; other operations of each row and step of the middle. */
const FUNCTIONS = 16, OPERATIONS = 6;
/** Clocks that a group waits in a step, beside what it computes; with which it starts and ends, and for 128 results. */
const WAITS = 400, START = 1200, STORE = 15;
/** Registers of a thread beside tiles: of lanes that feed units, and of others. */
const OTHERS = 40, OTHERS_SHARED = 24;
/** Buffers of a ring: the slots of others are found by division. */
const RINGS: readonly number[] = [4, 2, 3];

/** Registers of a thread. */
export function chainRegisters({ core, tiles, depth }: ChainTile, { columns, terms, isByElement }: ChainWork): number {
  const elements = core.m / core.lanes, narrow = core.input.itemsize / 4, isShared = core.shared !== undefined;
  const operands = terms.reduce((a, b) => a + b, 0) * narrow, scores = depth * (terms.length + narrow);
  const sums = isShared && isByElement ? depth : columns;
  return (isShared ? OTHERS_SHARED : OTHERS) + tiles * elements * (sums + operands + scores);
}

/** Microseconds of a chain in such tiles, and the buffers of its ring; undefined where the device has no room for it. */
export function estimateChain(
  tile: ChainTile,
  work: ChainWork,
  grid: GridCaps,
  rings: readonly number[] = RINGS,
): { time: number; ring: number } | undefined {
  const { core, tiles, warps, depth } = tile, { rows, batch, middle, columns, terms, bytes, functions } = work;
  const threads = warps * core.lanes, registers = roundUp(chainRegisters(tile, work), 8), own = tiles * warps * core.m;
  const width = columns + terms.reduce((a, b) => a + b, 0), isShared = core.shared !== undefined;
  if (registers > MOST_REGISTERS + 1 || threads > grid.maxGroupThreads) return undefined;
  if (isShared && rows < LEAST_USE * roundUp(rows, own)) return undefined;
  const multiply = own * depth * width / PRODUCTS * (isShared ? 1 : FED_BY_LANES);
  const compute = own * depth * (functions / FUNCTIONS + OPERATIONS / LANES);
  const copy = depth * bytes / COPY_RATE,
    read = depth * bytes * (1 + own / core.m / (isShared ? 1 : tiles)) / SHARED_RATE;
  const step = overlapped([multiply, compute, copy, read]);
  // threads of a group wait for each other in each step: what some multiply hides little of what others compute
  const chain = multiply + compute,
    alone = Math.max(chain / Math.min(1, threads / LANES), chain * LANES / threads + WAITS);
  const steps = ceilDiv(middle, depth), groups = ceilDiv(rows, own) * batch;
  let best: { time: number; ring: number } | undefined;
  for (const ring of rings) {
    const shared = ring * depth * bytes;
    if (shared > grid.sharedBytes) continue;
    const many = resident(grid, shared, registers, threads);
    if (many === 0) continue;
    const arrival = ring > 1 ? (ARRIVAL + copy) / (ring - 1) : alone + ARRIVAL + copy;
    const timeOf = (n: number): number =>
      steps * Math.max(n * step, alone, arrival) + START + n * STORE * own * columns / 128;
    const time = inWaves(groups, many, grid, timeOf);
    if (best === undefined || time < best.time) best = { time, ring };
  }
  return best;
}
