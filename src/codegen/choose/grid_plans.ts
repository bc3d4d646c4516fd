/**
 * What the plans of grid_candidates.ts take by the model of machine/, with the axes of a kernel as they are and merged.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { regionsOf } from "../machine/access.ts";
import { GridModel } from "../machine/grid_model.ts";
import { LAUNCH } from "../machine/grid_rates.ts";
import type { GridAxis, GridPlan } from "../machine/grid_plan.ts";
import { stepOf } from "../machine/grid_traffic.ts";
import { applyMerges, type Kernel } from "../opt/kernel.ts";
import type { PairOpt } from "../opt/opt.ts";
import { GridCandidates } from "./grid_candidates.ts";
import { ifPossible, kernelFor, type Proposal } from "./proposal.ts";

/** What is so near the least that any plan takes, or takes so little more than a launch (in microseconds), is good enough. */
const NEAR_FLOOR = 1.05, LITTLE = 0.5;
/** How many times quicker plans must be whose indices have quotients: more of their price is a guess. */
const MERGED_RISK = 1.08;

/** A kernel with the axes of a plan, some of them merged, and what its plans cost. */
export interface Base {
  readonly merges: readonly PairOpt[];
  readonly model: GridModel;
  readonly candidates: GridCandidates;
}

/** The axes of a kernel without opts but merges. @param inner iterations that lie along their strides, where axes were merged */
export function gridAxes({ axes, copies }: Kernel, inner?: readonly number[]): GridAxis[] {
  return [
    ...axes.map(({ range, role, size: known, isOpen, expected }, i) => {
      const size = isOpen ? expected : known;
      return { range, role, size, inner: inner?.[i] ?? size, isOpen };
    }),
    ...copies.map((range): GridAxis => {
      const size = sizeOf(range);
      return { range, role: "copies", size, inner: size, isOpen: false };
    }),
  ];
}

export function baseOf(ast: UOp, caps: Capabilities, merges: readonly PairOpt[]): Base | undefined {
  const kernel = kernelFor(ast, caps), whole = kernel.axes.map((a) => a.size), isMerged = merges.length > 0;
  if (isMerged && !(kernel.mayMerge && applyMerges(kernel, merges))) return undefined;
  // the index of axes that were merged has quotients and remainders: within the innermost one it has a stride
  const gone = new Set(merges.map((o) => o.axis)), inner = whole.filter((_, i) => !gone.has(i));
  const axes = gridAxes(kernel, isMerged ? inner : undefined), { regions } = regionsOf(kernel.ast, axes);
  const near = !isMerged ? regions : regions.map((r) => ({
    ...r,
    accesses: r.accesses.map((a) => ({
      ...a,
      strides: a.strides.map((s, i) => s === s ? s : stepOf(a, axes[i].range)),
    })),
  }));
  const isParallel = (i: number): boolean => kernel.isParallel(i);
  return {
    merges,
    model: new GridModel(regions, axes, caps),
    candidates: new GridCandidates({ regions: near, axes, caps, isParallel }),
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
  caps: Capabilities,
  most: number = Infinity,
  isAll: boolean = false,
): PricedPlan[] {
  const found: PricedPlan[] = [], plain = baseOf(ast, caps, [])!, bases = [plain];
  for (const merges of plain.candidates.merges()) {
    const base = baseOf(ast, caps, merges);
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

/** A kernel with the opts of a plan. */
function planned(ast: UOp, caps: Capabilities, { base, plan }: PricedPlan): Kernel {
  const kernel = kernelFor(ast, caps);
  if (base.merges.length > 0) applyMerges(kernel, base.merges);
  for (const o of plan.opts) kernel.apply(o);
  return kernel;
}

function proposed(ast: UOp, caps: Capabilities, plans: readonly PricedPlan[]): Proposal[] {
  const what = `threads, the best of ${plans.length} plans`;
  return plans.map((p) => ({ what, cost: p.time, floor: 0, make: () => ifPossible(() => planned(ast, caps, p)) }));
}

/** Plans that take less than `most`, the best first. */
export function threadProposals(ast: UOp, caps: Capabilities, most: number): Proposal[] {
  return proposed(ast, caps, pricedPlans(ast, caps, most).reverse());
}

/** Plans that take at most `slack` times as much as the best. */
export function nearThreads(ast: UOp, caps: Capabilities, slack: number): Proposal[] {
  const least = pricedPlans(ast, caps).at(-1)?.time ?? Infinity;
  return proposed(ast, caps, pricedPlans(ast, caps, slack * least, true));
}
