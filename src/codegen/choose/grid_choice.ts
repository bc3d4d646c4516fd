/**
 * The opts of a kernel on a grid: what heuristic_grid.ts makes by rules, or, where the model says that it is much better, one
 * of all that grid_candidates.ts has. Products in tiles are left to their own chooser.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { Renderer } from "../../renderer/renderer.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { regionsOf } from "../machine/access.ts";
import { GridModel } from "../machine/grid_model.ts";
import { GridPlan } from "../machine/grid_plan.ts";
import { Kernel } from "../opt/kernel.ts";
import type { AxisOpt } from "../opt/opt.ts";
import { GridCandidates } from "./grid_candidates.ts";
import { heuristicGrid } from "./heuristic_grid.ts";

/** How many times quicker another plan must be by the model, which is exact to some 15 %. */
const MUCH_QUICKER = 1.25;
/** Microseconds that it must save: so little is not worth the search. */
const LEAST_SAVED = 1;

/** A kernel with the axes of a plan, and what its plans cost. */
interface Base {
  readonly kernel: Kernel;
  readonly merges: readonly AxisOpt[];
  readonly model: GridModel;
  readonly candidates: GridCandidates;
  readonly sizes: readonly number[];
}

function baseOf(ast: UOp, renderer: Renderer, merges: readonly AxisOpt[]): Base | undefined {
  const { caps } = renderer, kernel = new Kernel(ast, true, caps.grid!.tensorCores);
  for (const o of merges) kernel.apply(o);
  const { axes } = kernel, sizes = axes.map((a) => a.size), outputs = kernel.outputAxes.length;
  if (axes.some((a) => a.size === 0 || a.role === "stage")) return undefined;
  const { regions } = regionsOf(kernel.ast, axes),
    model = new GridModel(regions, outputs, caps, axes.map((a) => a.range), sizes);
  const isParallel = (i: number): boolean => kernel.isParallel(i);
  const candidates = new GridCandidates({ regions, sizes, outputs, caps, isParallel });
  return { kernel, merges, model, candidates, sizes };
}

/** The kernel of an AST with the opts that suit the device. */
export function chooseGrid(ast: UOp, renderer: Renderer): Kernel {
  const byRules = new Kernel(ast, true, renderer.caps.grid!.tensorCores);
  heuristicGrid(byRules, renderer);
  const merges: AxisOpt[] = [], others: AxisOpt[] = [];
  for (const o of byRules.applied) {
    if (o.op === "STAGE" || o.op === "TC") return byRules;
    (o.op === "MERGE" ? merges : others).push(o);
  }
  const base = baseOf(ast, renderer, merges);
  const plan = base && GridPlan.of(others, base.sizes, base.kernel.outputAxes.length);
  const rules = plan && base.model.estimate(plan);
  if (rules === undefined) return byRules;
  let least = Math.min(rules.time / MUCH_QUICKER, rules.time - LEAST_SAVED),
    best: { base: Base; plan: GridPlan } | undefined;
  if (least <= base!.model.floor) return byRules;
  for (const b of merges.length === 0 ? [base!] : [base!, baseOf(ast, renderer, [])!]) {
    for (const plan of b.candidates.all()) {
      const time = b.model.estimate(plan)?.time ?? Infinity;
      if (time < least) [least, best] = [time, { base: b, plan }];
    }
  }
  if (best === undefined) return byRules;
  const { base: { kernel }, plan: { opts } } = best;
  try {
    for (const o of opts) kernel.apply(o);
    return kernel;
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    return byRules; // the AST has more to say than axes and accesses
  }
}
