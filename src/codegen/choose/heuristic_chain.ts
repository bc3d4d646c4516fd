/**
 * Chooses opts for chains of products (opt/chain_tiles.ts) on matrix units: a group owns some tiles of rows, a warp of it
 * one; tiles of what depends on the middle axis come one after the other into rings in shared memory, and all columns of a
 * row are one thread's, so that what is computed is computed once. What depends on rows alone stays in registers.
 *
 * @module
 */
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { findChain } from "../../uop/algebra/product_chain.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { Kernel } from "../opt/kernel.ts";
import { WIDE } from "../opt/stage.ts";

/** Warps of a group, at most: each has a tile of rows. Small groups fit side by side: one computes while another waits. */
const MOST_WARPS = 4;
/** Columns that a thread has sums of, at most. */
const MOST_COLUMNS = 256;
/** Tiles of the middle in memory at a time. */
const TILES = 2;
/** Buffers of a ring. */
const RING = 3;
/** Share of a unit's shared memory for the rings of a group, so that another one fits beside it. */
const SHARE = 2;

/** LOADs of inputs below `u`. */
function loadsBelow(u: UOp): UOp[] {
  return toposort(u).filter((l) => l.op === Ops.LOAD && l.src[0].src[0].op === Ops.PARAM);
}

/** Tiles a chain of products; false where the kernel is none, and nothing was done. */
export function tileChain(kernel: Kernel, caps: Capabilities): boolean {
  const { tensorCores, units, sharedBytes, maxGroupThreads, hasAsyncCopy } = caps.grid!;
  const number = tensorCores.findIndex((c) => kernel.chainAxes(c) !== undefined), core = tensorCores[number];
  if (number < 0 || kernel.axes.some((a) => a.size === 0)) return false;
  const { rows, columns, middle, sums } = kernel.chainAxes(core)!, chain = findChain(kernel.ast, core)!;
  const outputs = kernel.outputAxes.length, size = (i: number): number => kernel.axes[i].size;
  const results = kernel.outputAxes.reduce((n, a, i) => i === columns ? n : n * a.size, 1);
  // a tile of rows a warp, and a group for each unit of the device
  let warps = 1;
  const isUseful = (n: number): boolean => n * core.m < 2 * size(rows) && results / (n * core.m) >= units;
  while (warps < MOST_WARPS && warps * 2 * core.lanes <= maxGroupThreads && isUseful(warps * 2)) warps *= 2;
  const width = columns < 0 ? 0 : Math.min(MOST_COLUMNS, roundUp(size(columns), 2 * core.n));
  const depth = Math.min(TILES, ceilDiv(size(outputs + middle), core.k)) * core.k;
  const staged = new Map<number, number>();
  const add = (u: UOp, elements: number): void => {
    for (const l of loadsBelow(u)) {
      const { slot } = argOf(l.src[0].src[0], Ops.PARAM), row = elements * l.dtype.itemsize + WIDE;
      staged.set(slot, (staged.get(slot) ?? 0) + depth * row);
    }
  };
  chain.inner.forEach(({ b, sum }) => add(b, roundUp(sum.src[0].value, core.k)));
  if (chain.product !== undefined) add(chain.product.b, width);
  const pad = (axis: number, to: number): void => {
    if (size(axis) % to !== 0) kernel.apply({ op: "PADTO", axis, arg: to });
  };
  pad(rows, warps * core.m);
  if (columns >= 0) pad(columns, width);
  pad(outputs + middle, depth);
  for (const s of sums) pad(outputs + s, core.k);
  kernel.apply({ op: "TC", axis: -1, arg: number });
  if (warps > 1) kernel.apply({ op: "LOCAL", axis: rows, arg: warps });
  if (width > core.n) kernel.apply({ op: "UPCAST", axis: columns, arg: width / core.n });
  if (depth > core.k) kernel.apply({ op: "UNROLL", axis: middle, arg: depth / core.k });
  for (const s of sums) {
    const { rest } = kernel.axes[outputs + s];
    if (rest > 1) kernel.apply({ op: "UNROLL", axis: s, arg: rest });
  }
  const bytes = [...staged.values()].reduce((a, b) => a + b, 0);
  const isLoop = kernel.axes[outputs + middle].rest > 1;
  let ring = hasAsyncCopy && isLoop ? RING : 1;
  while (ring > 1 && ring * bytes > sharedBytes / SHARE) ring--;
  if (ring * bytes <= sharedBytes) {
    for (const slot of staged.keys()) {
      kernel.apply({ op: "STAGE", input: slot, ring });
    }
  }
  return true;
}
