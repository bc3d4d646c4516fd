/**
 * What the models of a grid have in common, those of threads (grid_model.ts), of tiles (tile_model.ts) and of chains
 * (chain_model.ts): numbers of a large card, how many groups a multiprocessor has at a time, and what those take together
 * that take turns.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import { groupsOfUnit } from "../../renderer/lanes.ts";
import type { GridCaps } from "../../renderer/renderer.ts";

/** Clocks of a multiprocessor in a microsecond, and its lanes of arithmetic. */
export const CLOCK = 1750, LANES = 128;
/** Microseconds of a launch. */
export const LAUNCH = 2.5;
/** Lane operations of a quotient. */
export const QUOTIENT_WORK = 10;
/**
 * Bytes of shared memory that are read and written in a clock, bytes that copies bring in a clock, and clocks from a copy's
 * start until it has arrived, beside what it takes to come.
 */
export const SHARED_RATE = 128, COPY_RATE = 56, ARRIVAL = 1000;
/** Groups of a multiprocessor, at most. */
const MOST_GROUPS = 32;
/** How closely what it does at a time is as long as the longest of it. */
const OVERLAP = 4;

/** Groups that a multiprocessor has at a time, each with `bytes` of shared memory; 0 where there is no room for one. */
export function resident(grid: GridCaps, bytes: number, registers: number, threads: number): number {
  return Math.min(groupsOfUnit(grid, bytes, registers, threads), Math.floor(grid.unitThreads / threads), MOST_GROUPS);
}

/** Clocks of what is done side by side. */
export function overlapped(times: readonly number[]): number {
  return times.reduce((n, t) => n + t ** OVERLAP, 0) ** (1 / OVERLAP);
}

/** Microseconds of a kernel of groups of which `many` have room at a time, by the clocks that so many take there. */
export function inWaves(groups: number, many: number, { units }: GridCaps, timeOf: (groups: number) => number): number {
  const wave = units * many, full = Math.floor(groups / wave), left = ceilDiv(groups - full * wave, units);
  return LAUNCH + (full * timeOf(many) + (left > 0 ? timeOf(left) : 0)) / CLOCK;
}
