/**
 * Chooses the opts of a kernel, on every device: of the ways that the sources of candidates propose the one that takes least
 * by the model of the machine (machine/), of equals the first. Deterministic. A source is asked for what takes less than all
 * before it, unless nothing can. Who measures takes the same proposals, with those that are nearly as good.
 *
 * @module
 */
import type { Capabilities, Renderer } from "../../renderer/renderer.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import type { Kernel } from "../opt/kernel.ts";
import { type Opt, optsText } from "../opt/opt.ts";
import { chainProposals } from "./chain_candidates.ts";
import { costText, tellOthers, TOLD, whyNoUnit } from "./choice_notes.ts";
import { dotProposals } from "./dot_candidates.ts";
import { nearThreads, threadProposals } from "./grid_plans.ts";
import { loopProposals, nearLoops } from "./loop_plans.ts";
import { kernelFor, type Proposal } from "./proposal.ts";
import { tileProposals } from "./tile_candidates.ts";

/** Times what the best takes that is nearly as good, for who measures. */
const NEARLY = 2;
/** Threads of a group where nothing is chosen: a warp or two of any device. */
const FEW_THREADS = 64;

/** Where candidates come from: a row of the list. */
interface Source {
  readonly isFor: (caps: Capabilities) => boolean;
  /** Ways, the best first: all there are, or those that take less than `most`. */
  readonly find: (ast: UOp, caps: Capabilities, most: number) => readonly Proposal[];
  /** Ways that take at most `slack` times as much as the best; those of `find` where it is absent. */
  readonly near?: (ast: UOp, caps: Capabilities, slack: number) => readonly Proposal[];
}

const onGrid = ({ hasGrid }: Capabilities): boolean => hasGrid,
  onLoops = (caps: Capabilities): boolean => !onGrid(caps);

/** All sources, in the order in which they are asked. */
const SOURCES: readonly Source[] = [
  { isFor: onGrid, find: chainProposals },
  { isFor: onGrid, find: tileProposals },
  { isFor: onGrid, find: threadProposals, near: nearThreads },
  { isFor: (caps) => onLoops(caps) && caps.hasDots === true, find: dotProposals },
  { isFor: onLoops, find: loopProposals, near: nearLoops },
];

/** What is proposed for a kernel, the best first. */
export function proposalsFor(ast: UOp, caps: Capabilities): Proposal[] {
  let found: Proposal[] = [];
  for (const { isFor, find } of SOURCES) {
    if (!isFor(caps)) continue;
    const best: Proposal | undefined = found[0];
    if (best !== undefined && best.floor >= best.cost) break;
    const most = best?.cost ?? Infinity, own = find(ast, caps, most);
    found = best === undefined || (own.length > 0 && own[0].cost < most) ? [...own, ...found] : [...found, ...own];
  }
  return found;
}

/** The kernel of an AST with the opts that suit the device. */
export function choose(ast: UOp, { caps }: Renderer): Kernel {
  const found = proposalsFor(ast, caps);
  for (const [i, p] of found.entries()) {
    const kernel = p.make();
    if (kernel === undefined) continue;
    if (wantsNotes()) tell(ast, caps, p, kernel, found.slice(i + 1));
    return kernel;
  }
  const kernel = kernelFor(ast, caps);
  if (caps.hasGrid) {
    note("missed", ast, "no plan of the model is possible: the loops are spread over threads as they are");
    spread(kernel, caps);
  }
  return kernel;
}

/** Notes what a kernel was shaped by, what was weighed beside it, and why units that multiply matrices stay unused. */
function tell(ast: UOp, caps: Capabilities, { what, cost }: Proposal, made: Kernel, others: readonly Proposal[]): void {
  const isOnUnits = made.applied.some((o) => o.op === "TC"), unit = caps.hasGrid ? "µs" : "cycles";
  const opts = optsText(made.applied), more = isOnUnits ? ", on matrix units" : "";
  note("passed", ast, `${what}${more}: ${costText(cost)} ${unit} by the model; ${opts || "loops as they are"}`, {
    cost,
  });
  const why = isOnUnits ? undefined : whyNoUnit(kernelFor(ast, caps), caps.grid?.tensorCores ?? []);
  if (why !== undefined) note("missed", ast, `not on matrix units: ${why}`);
  const beside = others.slice(0, TOLD + 1).flatMap((o) => {
    const kernel = o.make();
    return kernel === undefined || optsText(kernel.applied) === opts ? [] : [[o.cost, kernel.applied] as const];
  });
  tellOthers(ast, beside.slice(0, TOLD), unit);
}

/** Lists of opts, at most so many, that the model takes for nearly as good as the best: the best first. */
export function modeledOpts(ast: UOp, caps: Capabilities, count: number): Opt[][] {
  const all = SOURCES.filter((s) => s.isFor(caps)).flatMap(({ find, near }) =>
    near?.(ast, caps, NEARLY) ?? find(ast, caps, Infinity)
  );
  const found = new Map<string, Opt[]>(), least = Math.min(...all.map((p) => p.cost));
  for (const { cost, make } of all.sort((a, b) => a.cost - b.cost)) {
    if (found.size === count || cost > NEARLY * least) break;
    const opts = make()?.applied;
    if (opts !== undefined && !found.has(optsText(opts))) found.set(optsText(opts), opts);
  }
  return [...found.values()];
}

/** Without opts: a thread for each output element, in groups of a few. */
export function spread(kernel: Kernel, caps: Capabilities): void {
  const { outputAxes } = kernel;
  for (let i = outputAxes.length - 1; i >= 0; i--) {
    const { size } = outputAxes[i];
    if (size < 2 || !kernel.isParallel(i)) continue;
    const threads = Math.min(size, FEW_THREADS, caps.grid!.maxGroupSize[0], caps.grid!.maxGroupThreads);
    kernel.apply({ op: "LOCAL", axis: i, size: threads });
    return;
  }
}
