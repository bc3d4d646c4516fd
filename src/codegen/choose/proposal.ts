/**
 * What the sources of candidates give to choose.ts: ways to compute a kernel, each with what it takes by the model of the
 * machine, in one unit for all sources of a device.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { Kernel } from "../opt/kernel.ts";

/** A way to compute a kernel. */
export interface Proposal {
  /** In words, for notes. */
  readonly what: string;
  /** What it takes by the model: microseconds on grids, about a cycle each on loops. */
  readonly cost: number;
  /** No way of a later source takes less; 0 where that is not known. */
  readonly floor: number;
  /** The kernel under its opts; undefined where they are not possible: an AST has more to say than axes and accesses. */
  readonly make: () => Kernel | undefined;
}

/** The kernel of an AST on a device, before any opt. */
export function kernelFor(ast: UOp, { hasGrid, grid }: Capabilities): Kernel {
  return new Kernel(ast, hasGrid, grid?.tensorCores, grid?.copyEngine);
}

/** What `make` gives; undefined where an opt that it applies is not possible. */
export function ifPossible<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    return undefined;
  }
}
