/**
 * The opts of a kernel on a grid: of all that grid_candidates.ts and tile_candidates.ts have, those that the models of
 * machine/ say take least. Deterministic: of equals the first.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { Capabilities, Renderer } from "../../renderer/renderer.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { regionsOf } from "../machine/access.ts";
import { GridModel, LAUNCH } from "../machine/grid_model.ts";
import type { GridPlan } from "../machine/grid_plan.ts";
import { stepOf } from "../machine/grid_traffic.ts";
import { applyMerges, Kernel } from "../opt/kernel.ts";
import { type AxisOpt, optsText } from "../opt/opt.ts";
import { GridCandidates } from "./grid_candidates.ts";
import { tileChain } from "./heuristic_chain.ts";
import { tiledProduct } from "./tile_candidates.ts";
import { costText, tellOthers, TOLD, whyNoUnit } from "./choice_notes.ts";

/** What is so near the least that any plan takes, or takes so little more than a launch (in microseconds), is good enough. */
const NEAR_FLOOR = 1.05, LITTLE = 0.5;
/** How many times quicker plans must be whose indices have quotients: more of their price is a guess. */
const MERGED_RISK = 1.08;
/** Threads of a group where nothing is chosen: a warp or two of any device. */
const FEW_THREADS = 64;

/** Without opts: a thread for each output element, in groups of a few. */
export function spread(kernel: Kernel, caps: Capabilities): void {
  const { outputAxes } = kernel;
  for (let i = outputAxes.length - 1; i >= 0; i--) {
    const { size } = outputAxes[i];
    if (size < 2 || !kernel.isParallel(i)) continue;
    const threads = Math.min(size, FEW_THREADS, caps.grid!.maxGroupSize[0], caps.grid!.maxGroupThreads);
    kernel.apply({ op: "LOCAL", axis: i, arg: threads });
    return;
  }
}

/** A kernel with the axes of a plan, some of them merged, and what its plans cost. */
export interface Base {
  readonly merges: readonly AxisOpt[];
  readonly model: GridModel;
  readonly candidates: GridCandidates;
}

/** The kernel of an AST. */
function kernelOf(ast: UOp, { caps }: Renderer): Kernel {
  return new Kernel(ast, true, caps.grid!.tensorCores, caps.grid!.copyEngine);
}

export function baseOf(ast: UOp, renderer: Renderer, merges: readonly AxisOpt[]): Base | undefined {
  const { caps } = renderer, kernel = kernelOf(ast, renderer), whole = kernel.axes.map((a) => a.size);
  if (merges.length > 0 && !(kernel.mayMerge && applyMerges(kernel, merges))) return undefined;
  const { axes, copies } = kernel, loops = axes.length, outputs = kernel.outputAxes.length;
  const sizes = [...axes.map((a) => a.size === 0 ? a.expected : a.size), ...copies.map(sizeOf)];
  const isFixed = [...axes.map((a) => a.size === 0 || a.role === "stage"), ...copies.map(() => true)];
  const ranges = [...axes.map((a) => a.range), ...copies], gone = new Set(merges.map((o) => o.axis));
  // the index of axes that were merged has quotients and remainders: within the innermost one it has a stride
  const inner = merges.length === 0 ? sizes : [...whole.filter((_, i) => !gone.has(i)), ...copies.map(sizeOf)];
  const { regions } = regionsOf(kernel.ast, ranges.map((range) => ({ range })));
  const model = new GridModel(regions, outputs, caps, ranges, sizes, inner, loops);
  const near = merges.length === 0 ? regions : regions.map((r) => ({
    ...r,
    accesses: r.accesses.map((a) => ({ ...a, strides: a.strides.map((s, i) => s === s ? s : stepOf(a, ranges[i])) })),
  }));
  const isParallel = (i: number): boolean => kernel.isParallel(i);
  return {
    merges,
    model,
    candidates: new GridCandidates({ regions: near, sizes, outputs, caps, isParallel, isFixed, inner, loops }),
  };
}

/** A plan and its price. */
export interface PricedPlan {
  readonly base: Base;
  readonly plan: GridPlan;
  readonly time: number;
}

/** Plans of an AST that take less than `most` microseconds: each less than all before, or with `isAll` any. */
export function pricedPlans(
  ast: UOp,
  renderer: Renderer,
  most: number = Infinity,
  isAll: boolean = false,
): PricedPlan[] {
  const found: PricedPlan[] = [], plain = baseOf(ast, renderer, [])!, bases = [plain];
  for (const merges of plain.candidates.merges()) {
    const base = baseOf(ast, renderer, merges);
    if (base !== undefined) bases.push(base);
  }
  const enough = isAll ? 0 : Math.max(plain.model.floor * NEAR_FLOOR, LAUNCH + LITTLE);
  let least = most;
  for (const base of bases) {
    const risk = base.merges.length > 0 ? MERGED_RISK : 1;
    for (const plan of base.candidates.all()) {
      const bound = isAll ? most : least, time = risk * (base.model.estimate(plan, bound / risk)?.time ?? Infinity);
      if (time >= bound) continue;
      found.push({ base, plan, time });
      least = time;
      if (least <= enough) return found;
    }
  }
  return found;
}

/** A kernel with the opts of a plan; undefined where they are not possible: the AST has more to say than axes and accesses. */
function planned(ast: UOp, renderer: Renderer, { base, plan }: PricedPlan): Kernel | undefined {
  const kernel = kernelOf(ast, renderer);
  try {
    if (base.merges.length > 0) applyMerges(kernel, base.merges);
    for (const o of plan.opts) kernel.apply(o);
    return kernel;
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    return undefined;
  }
}

/** Notes what a kernel was shaped by, what it takes by the model, and why units that multiply matrices stay unused. */
function tell(
  [ast, renderer]: readonly [UOp, Renderer],
  what: string,
  { time }: { readonly time: number },
  kernel: Kernel,
  others?: number,
): Kernel {
  if (!wantsNotes()) return kernel;
  const isOnUnits = kernel.applied.some((o) => o.op === "TC"), more = isOnUnits ? ", on matrix units" : "";
  const beside = others === undefined ? "" : `, in tiles ${costText(others)}`;
  note("passed", ast, `${what}${more}: ${costText(time)} µs by the model${beside}; ${optsText(kernel.applied)}`, {
    time,
    ...others === undefined ? {} : { tiles: others },
  });
  const why = isOnUnits ? undefined : whyNoUnit(kernelOf(ast, renderer), renderer.caps.grid!.tensorCores);
  if (why !== undefined) note("missed", ast, `not on matrix units: ${why}`);
  return kernel;
}

/** The kernel of an AST with the opts that suit the device. */
export function chooseGrid(ast: UOp, renderer: Renderer): Kernel {
  const chain = kernelOf(ast, renderer);
  if (tileChain(chain, renderer.caps)) {
    note("passed", ast, "a chain of products in one kernel, in tiles of its rows");
    return chain;
  }
  const tiled = tiledProduct(() => kernelOf(ast, renderer), renderer.caps);
  if (tiled !== undefined && tiled.floor >= tiled.time) {
    return tell([ast, renderer], "a product in tiles", tiled, tiled.kernel());
  }
  const plans = pricedPlans(ast, renderer, tiled?.time);
  for (const [i, p] of plans.reverse().entries()) {
    const kernel = planned(ast, renderer, p);
    if (kernel === undefined) continue;
    tell([ast, renderer], `threads, the best of ${plans.length} plans`, p, kernel, tiled?.time);
    if (wantsNotes()) {
      const others = plans.slice(i + 1, i + 1 + TOLD);
      tellOthers(ast, others.flatMap((o) => [[o.time, planned(ast, renderer, o)?.applied ?? []] as const]), "µs");
    }
    return kernel;
  }
  if (tiled !== undefined) {
    return tell([ast, renderer], "a product in tiles, less than by threads", tiled, tiled.kernel());
  }
  note("missed", ast, "no plan of the model is possible: the loops are spread over threads as they are");
  const kernel = kernelOf(ast, renderer);
  spread(kernel, renderer.caps);
  return kernel;
}
