/**
 * Chooses opts for chains of products (opt/chain_tiles.ts) on matrix units: a group owns some tiles of rows, a warp of it
 * one; tiles of what depends on the middle axis come one after the other into rings in shared memory, and all columns of a
 * row are one thread's, so that what is computed is computed once. What depends on rows alone stays in registers.
 *
 * @module
 */
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import type { TensorCore } from "../../renderer/tensor_core_table.ts";
import { findChain } from "../../uop/algebra/product_chain.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { Kernel } from "../opt/kernel.ts";
import { WIDE } from "../opt/stage.ts";

/** Rows of a group, at most: as many as share what it reads. A warp has one tile of them, or two, and each operand serves both. */
const MOST_ROWS = 128, MOST_TILES = 2;
/** Columns that a thread has sums of, at most. */
const MOST_COLUMNS = 256;
/** Tiles of the middle in memory at a time, in the order to try. */
const DEPTHS = [4, 2, 1];
/** Registers of a thread, at most, and those that it needs besides tiles. */
const MOST_REGISTERS = 256, OTHER_REGISTERS = 40;
/** Buffers of a ring: more for groups of few rows, which wait for memory. */
const RING = 2, LONG_RING = 3;
/** Groups side by side on a unit that share its memory, at most: fewer where registers are short. */
const MOST_GROUPS = 4;

/** What the tiles of a thread are made of: the columns of its sums, the terms of each inner one, all in elements. */
interface Widths {
  readonly columns: number;
  readonly terms: readonly number[];
}

/** Registers that a thread takes with so many tiles of rows, of `depth` of the middle. */
function registersOf(core: TensorCore, { columns, terms }: Widths, tiles: number, depth: number): number {
  const elements = core.m / core.lanes, narrow = core.input.itemsize / 4;
  const operands = terms.reduce((a, b) => a + b, 0) * narrow, scores = depth * (terms.length + narrow);
  return OTHER_REGISTERS + tiles * elements * (columns + operands + scores);
}

/** LOADs of inputs below `u`. */
function loadsBelow(u: UOp): UOp[] {
  return toposort(u).filter((l) => l.op === Ops.LOAD && l.src[0].src[0].op === Ops.PARAM);
}

/** Tiles a chain of products; false where the kernel is none, and nothing was done. */
export function tileChain(kernel: Kernel, caps: Capabilities): boolean {
  const { tensorCores, units, unitRegisters, sharedBytes, maxGroupThreads, hasAsyncCopy } = caps.grid!;
  const number = tensorCores.findIndex((c) => kernel.chainAxes(c) !== undefined), core = tensorCores[number];
  if (number < 0 || kernel.axes.some((a) => a.size === 0)) return false;
  const { rows, columns, middle, sums } = kernel.chainAxes(core)!, chain = findChain(kernel.ast, core)!;
  const outputs = kernel.outputAxes.length, size = (i: number): number => kernel.axes[i].size;
  const results = kernel.outputAxes.reduce((n, a, i) => i === columns ? n : n * a.size, 1);
  const width = columns < 0 ? 0 : Math.min(MOST_COLUMNS, roundUp(size(columns), 2 * core.n));
  const widths = { columns: width, terms: chain.inner.map(({ sum }) => roundUp(sizeOf(sum), core.k)) };
  // few rows have small groups, and there is one for each unit of the device
  const isUseful = (n: number): boolean => n * core.m < 2 * size(rows) && results / (n * core.m) >= units;
  let tiles = 1, warps = 1, depth = 0;
  const registers = (depth: number): number => registersOf(core, widths, tiles, depth);
  if (isUseful(MOST_TILES)) tiles = MOST_TILES;
  if (registers(DEPTHS[1] * core.k) > MOST_REGISTERS) tiles = 1;
  const isRoom = (n: number): boolean => n * core.m <= MOST_ROWS && n / tiles * core.lanes <= maxGroupThreads;
  while (isRoom(warps * tiles * 2) && isUseful(warps * tiles * 2)) warps *= 2;
  /** By input: bytes of it by step of the middle. */
  const staged = new Map<number, number>();
  const add = (u: UOp, elements: number): void => {
    for (const l of loadsBelow(u)) {
      const { slot } = argOf(l.src[0].src[0], Ops.PARAM), row = elements * l.dtype.itemsize + WIDE;
      staged.set(slot, (staged.get(slot) ?? 0) + row);
    }
  };
  chain.inner.forEach(({ b, sum }) => add(b, roundUp(sizeOf(sum), core.k)));
  if (chain.operand !== undefined) add(chain.operand, width);
  const bytes = [...staged.values()].reduce((a, b) => a + b, 0);
  const most = warps * tiles * core.m < MOST_ROWS ? LONG_RING : RING;
  for (const n of DEPTHS) {
    depth = Math.min(n, ceilDiv(size(outputs + middle), core.k)) * core.k;
    const need = registers(depth), groups = Math.floor(unitRegisters / (need * warps * core.lanes));
    const share = sharedBytes / Math.max(1, Math.min(MOST_GROUPS, groups));
    if (need <= MOST_REGISTERS && most * depth * bytes <= share) break;
  }
  const pad = (axis: number, to: number): void => {
    if (size(axis) % to !== 0) kernel.apply({ op: "PADTO", axis, arg: to });
  };
  pad(rows, warps * tiles * core.m);
  if (columns >= 0) pad(columns, width);
  pad(outputs + middle, depth);
  for (const s of sums) pad(outputs + s, core.k);
  kernel.apply({ op: "TC", axis: -1, arg: number });
  if (tiles > 1) kernel.apply({ op: "UPCAST", axis: rows, arg: tiles });
  if (warps > 1) kernel.apply({ op: "LOCAL", axis: rows, arg: warps });
  if (width > core.n) kernel.apply({ op: "UPCAST", axis: columns, arg: width / core.n });
  if (depth > core.k) kernel.apply({ op: "UNROLL", axis: middle, arg: depth / core.k });
  for (const s of sums) {
    const { rest } = kernel.axes[outputs + s];
    if (rest > 1) kernel.apply({ op: "UNROLL", axis: s, arg: rest });
  }
  const isLoop = kernel.axes[outputs + middle].rest > 1;
  let ring = hasAsyncCopy && isLoop ? most : 1;
  while (ring > 1 && ring * depth * bytes > sharedBytes) ring--;
  if (ring * depth * bytes <= sharedBytes) {
    for (const slot of staged.keys()) {
      kernel.apply({ op: "STAGE", input: slot, ring });
    }
  }
  return true;
}
