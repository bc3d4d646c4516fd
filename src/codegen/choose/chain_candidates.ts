/**
 * How chains of products (opt/chain_tiles.ts) may be computed on matrix units: a group owns some tiles of rows, a warp of it
 * one; tiles of what depends on the middle axis come one after the other into rings in shared memory, and all columns of a
 * row are one thread's, so that what is computed is computed once. What depends on rows alone stays in registers. Which unit
 * does it, and how many of its lanes share what a group reads, the model tells (machine/chain_model.ts).
 *
 * @module
 */
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { chainOf, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { expectedSize, vmax } from "../../uop/algebra/bounds.ts";
import { indexForm, liesAlong } from "../../uop/algebra/linear_form.ts";
import { type Chain, findChain } from "../../uop/algebra/product_chain.ts";
import { argOf } from "../../uop/core/args.ts";
import { carrierOf, RescaleCarrier } from "../../uop/core/carrier.ts";
import { FUNCTION_OPS, isAlu, Ops } from "../../uop/core/ops.ts";
import { dependsOn, sizeOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { chainRegisters, type ChainTile, type ChainWork, estimateChain, LEAST_USE } from "../machine/chain_model.ts";
import type { Kernel } from "../opt/kernel.ts";
import { WIDE } from "../opt/stage.ts";
import { ifPossible, kernelFor, type Proposal } from "./proposal.ts";

/** Rows of a group, at most: as many as share what it reads. A warp has one tile of them, or two, and each operand serves both. */
const MOST_ROWS = 128, MOST_TILES = 2;
/** Columns that a thread has sums of, at most. */
const MOST_COLUMNS = 256;
/** Tiles of the middle in memory at a time, in the order to try. */
const DEPTHS = [4, 2, 1];
/** Registers of a thread, at most. */
const MOST_REGISTERS = 256;
/** Buffers of a ring: more for groups of few rows, which wait for memory. */
const RING = 2, LONG_RING = 3;
/** Groups side by side on a unit that share its memory, at most: fewer where registers are short. */
const MOST_GROUPS = 4;

/** Rows that the lanes of units that read shared memory have together, in units; rows of what they read there. */
const SHARED_UNITS: readonly number[] = [1, 2, 4], SHARED_ROW = 64;

/** A chain, and where its axes are. */
interface ChainAxes {
  readonly kernel: Kernel;
  readonly caps: Capabilities;
  readonly number: number;
  readonly core: TensorCore;
  readonly chain: Chain;
  readonly axes: { rows: number; columns: number; middle: number; sums: readonly number[] };
}

/** How it is done. */
interface ChainPlan extends ChainAxes {
  readonly tile: ChainTile;
  readonly work: ChainWork;
  /** Inputs that are staged. */
  readonly slots: readonly number[];
  readonly ring: number;
  readonly time: number;
}

/** LOADs of inputs below `u`. */
function loadsBelow(u: UOp): UOp[] {
  return toposort(u).filter((l) => l.op === Ops.LOAD && l.src[0].src[0].op === Ops.PARAM);
}

function slotOf(l: UOp): number {
  return argOf(l.src[0].src[0], Ops.PARAM).slot;
}

/** The chain as it is in tiles: results and terms rounded up to `columns` and `terms`, a row of memory to `pad` bytes more. */
function workOf(
  found: ChainAxes,
  round: { readonly columns: number; readonly terms: number; readonly pad: number },
): { work: ChainWork; slots: number[] } {
  const { kernel, chain, axes: { rows, columns } } = found, staged = new Map<number, number>();
  const add = (u: UOp, elements: number): void => {
    for (const l of loadsBelow(u)) {
      staged.set(slotOf(l), (staged.get(slotOf(l)) ?? 0) + elements * l.dtype.itemsize + round.pad);
    }
  };
  const width = Math.min(MOST_COLUMNS, roundUp(operandColumns(found), round.columns));
  const terms = chain.inner.map(({ sum }) => roundUp(sizeOf(sum), round.terms));
  chain.inner.forEach(({ b }, i) => add(b, terms[i]));
  if (chain.operand !== undefined) add(chain.operand, width);
  const computed = toposort(chain.values).filter((u) => isAlu(u.op) && FUNCTION_OPS.includes(u.op)).length;
  const batch = kernel.outputAxes.reduce((n, a, i) => i === columns || i === rows ? n : n * a.size, 1);
  const isRescaled = carrierOf(chain.outer) instanceof RescaleCarrier;
  const work = {
    rows: kernel.axes[rows].size,
    batch,
    middle: expectedSize(chain.middle),
    columns: width,
    terms,
    bytes: [...staged.values()].reduce((a, b) => a + b, 0),
    functions: computed + (isRescaled ? 1 : 0),
    isByElement: chain.operand === undefined && !isRescaled,
  };
  return { work, slots: [...staged.keys()] };
}

/** The tiles of a chain whose units have lanes hold all operands. */
function planByLanes(found: ChainAxes): ChainPlan {
  const { kernel, caps, core, axes: { columns } } = found;
  const { units, unitRegisters, sharedBytes, maxGroupThreads, hasAsyncCopy } = caps.grid!;
  const { work, slots } = workOf(found, { columns: 2 * core.n, terms: core.k, pad: WIDE });
  const results = kernel.outputAxes.reduce((n, a, i) => i === columns ? n : n * a.size, 1);
  // few rows have small groups, and there is one for each unit of the device
  const isUseful = (n: number): boolean => n * core.m < 2 * work.rows && results / (n * core.m) >= units;
  let tiles = 1, warps = 1, depth = 0;
  const registers = (depth: number): number => chainRegisters({ core, tiles, warps, depth }, work);
  if (isUseful(MOST_TILES)) tiles = MOST_TILES;
  if (registers(DEPTHS[1] * core.k) > MOST_REGISTERS) tiles = 1;
  const isRoom = (n: number): boolean => n * core.m <= MOST_ROWS && n / tiles * core.lanes <= maxGroupThreads;
  while (isRoom(warps * tiles * 2) && isUseful(warps * tiles * 2)) warps *= 2;
  const most = warps * tiles * core.m < MOST_ROWS ? LONG_RING : RING;
  for (const n of DEPTHS) {
    depth = Math.min(n, ceilDiv(work.middle, core.k)) * core.k;
    const need = registers(depth), groups = Math.floor(unitRegisters / (need * warps * core.lanes));
    const share = sharedBytes / Math.max(1, Math.min(MOST_GROUPS, groups));
    if (need <= MOST_REGISTERS && most * depth * work.bytes <= share) break;
  }
  const isLoop = work.middle > depth;
  let ring = hasAsyncCopy && isLoop ? most : 1;
  while (ring > 1 && ring * depth * work.bytes > sharedBytes) ring--;
  const tile = { core, tiles, warps, depth }, time = estimateChain(tile, work, caps.grid!, [ring])?.time ?? Infinity;
  return { ...found, tile, work, slots: ring * depth * work.bytes <= sharedBytes ? slots : [], ring, time };
}

/** Can a unit find an operand in shared memory: is it read as it is, in rows of 16 bytes along one of these ranges? */
function isInRows(u: UOp, ...ranges: readonly UOp[]): boolean {
  if (u.op !== Ops.LOAD || u.src.length > 1 || u.src[0].src[0].op !== Ops.PARAM) return false;
  const form = indexForm(u.src[0].src[1]), n = WIDE / u.dtype.itemsize;
  return ranges.some((r) => sizeOf(r) % n === 0 && liesAlong(form, r, n));
}

/**
 * Is it computed for each step of the middle by a function that branches on a card? Where a loop has branches between
 * products, ptxas (13.0) may give the registers of a left operand that the loop found there to other values: from the second
 * iteration on the product is another one.
 */
function mayBranch(u: UOp, middle: UOp): boolean {
  if (u.op === Ops.FDIV) return dependsOn(u.src[1], middle);
  return isAlu(u.op) && FUNCTION_OPS.includes(u.op) && u.op !== Ops.EXP2 && dependsOn(u, middle);
}

/** Columns of the result; 0 where a row has one. */
function operandColumns({ kernel, axes: { columns } }: ChainAxes): number {
  return columns < 0 ? 0 : kernel.axes[columns].size;
}

/** The best tiles of a chain whose unit reads shared memory; undefined where it cannot. */
function planShared(found: ChainAxes): ChainPlan | undefined {
  const { caps, core, chain: { outer, values, inner, operand, middle } } = found;
  // gradients, which read what belongs to the middle for each element, take longer so
  if (!caps.grid!.hasAsyncCopy || !(carrierOf(outer) instanceof RescaleCarrier)) return undefined;
  if (toposort(values).some((u) => mayBranch(u, middle))) return undefined;
  const isRead = inner.every(({ b, sum }) => isInRows(b, sum, middle)) &&
    (operand === undefined || isInRows(operand, found.chain.columns!, middle));
  if (!isRead) return undefined;
  const { work, slots } = workOf(found, { columns: SHARED_ROW, terms: SHARED_ROW, pad: 0 });
  const columns = operandColumns(found), width = columns + inner.reduce((n, { sum }) => n + sizeOf(sum), 0);
  const padded = work.columns + work.terms.reduce((a, b) => a + b, 0);
  if (columns > work.columns || width < LEAST_USE * padded) return undefined;
  let best: ChainPlan | undefined;
  for (const warps of SHARED_UNITS) {
    const tile = { core, tiles: 1, warps, depth: core.n }, rings = work.middle > core.n ? undefined : [1];
    const made = estimateChain(tile, work, caps.grid!, rings);
    if (made !== undefined && (best === undefined || made.time < best.time)) {
      best = { ...found, ...made, tile, work, slots };
    }
  }
  return best;
}

/** Does a middle that ends at a variable have room for two blocks of a tile? */
function isRoom({ chain: { middle }, tile: { depth } }: ChainPlan): boolean {
  return sizeOf(middle) > 0 || 2 * depth <= vmax(middle.src[0]);
}

/** Applies the opts of a plan. */
function applyPlan(kernel: Kernel, { tile, work, slots, ring, number, core, axes }: ChainPlan): void {
  const { rows, columns, middle, sums } = axes, { tiles, warps, depth } = tile, { outer, inner } = chainOf(core)!;
  const outputs = kernel.outputAxes.length;
  const pad = (axis: number, to: number): void => {
    const { isOpen, size } = kernel.axes[axis];
    if (isOpen || size % to !== 0) kernel.apply({ op: "PADTO", axis, size: to });
  };
  pad(rows, warps * tiles * outer.m);
  if (columns >= 0) pad(columns, work.columns);
  pad(outputs + middle, depth);
  for (const s of sums) pad(outputs + s, core.shared === undefined ? inner.k : SHARED_ROW);
  kernel.apply({ op: "TC", unit: number });
  if (tiles > 1) kernel.apply({ op: "UPCAST", axis: rows, size: tiles });
  if (warps > 1) kernel.apply({ op: "LOCAL", axis: rows, size: warps });
  if (work.columns > outer.n) kernel.apply({ op: "UPCAST", axis: columns, size: work.columns / outer.n });
  if (depth > outer.k) kernel.apply({ op: "UNROLL", reduce: middle, size: depth / outer.k });
  for (const s of sums) {
    const { rest } = kernel.axes[outputs + s];
    if (rest > 1) kernel.apply({ op: "UNROLL", reduce: s, size: rest });
  }
  for (const slot of slots) kernel.apply({ op: "STAGE", input: slot, ring });
}

/** A kernel with the opts of a plan. */
function planned(ast: UOp, caps: Capabilities, plan: ChainPlan): Kernel {
  const kernel = kernelFor(ast, caps);
  applyPlan(kernel, plan);
  return kernel;
}

/** The best way to compute a chain of products in tiles; none for other kernels. What a chain is by threads is not weighed. */
export function chainProposals(ast: UOp, caps: Capabilities): Proposal[] {
  const { tensorCores } = caps.grid!, kernel = kernelFor(ast, caps);
  const plans = tensorCores.flatMap((core, number): ChainPlan[] => {
    const axes = kernel.chainAxes(core);
    if (axes === undefined) return [];
    const found = { kernel, caps, number, core, chain: findChain(kernel.ast, core)!, axes };
    return [core.shared === undefined ? planByLanes(found) : planShared(found)].filter((p) => p !== undefined)
      .filter(isRoom);
  });
  plans.sort((a, b) => a.time - b.time);
  // how operands lie in a tile is known once it is made
  const best = plans.find((p) =>
    p.core.shared === undefined || ifPossible(() => planned(ast, caps, p).finish()) !== undefined
  );
  if (best === undefined) return [];
  const what = "a chain of products in one kernel, in tiles of its rows";
  return [{ what, cost: best.time, floor: Infinity, make: () => planned(ast, caps, best) }];
}
