/**
 * The passes of code generation: from a kernel AST to the graph that the linearizer orders. Their order is that of the list,
 * and nothing else decides it; a row says for which kernels it runs. Each is a table of rules or a function, is recorded and
 * timed under its name, and checked by the spec of what it makes.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import type { Capabilities, Renderer } from "../renderer/renderer.ts";
import { hasPhases } from "../uop/algebra/row_phases.ts";
import { simplifyKernel } from "../uop/algebra/valid.ts";
import { Ops } from "../uop/core/ops.ts";
import { rangesOf } from "../uop/core/ranges.ts";
import { specKernel, specLowered } from "../uop/core/spec.ts";
import { mayHave, type UOp } from "../uop/core/uop.ts";
import { isRecording } from "../uop/rewrite/record.ts";
import { graphRewrite, type Pass, runPasses, substitute } from "../uop/rewrite/rewrite.ts";
import { rebuild } from "../uop/rewrite/walk.ts";
import { partLoops } from "./ast/part_loops.ts";
import { simplifyRanges } from "./ast/simplify.ts";
import { skipProducts } from "./ast/skip_products.ts";
import { ungate } from "./ast/ungate.ts";
import { choose, spread } from "./choose/choose.ts";
import { cheaperRows } from "./choose/loop_plans.ts";
import { kernelFor } from "./choose/proposal.ts";
import { coalesce, copyAsync, simplifyAddresses } from "./late/coalesce.ts";
import { lateRules, pmDivision } from "./late/decomp/missing_ops.ts";
import { markRounded } from "./late/decomp/rounded.ts";
import { decomposeDTypes, hasSmallFloats } from "./late/decomp/small_floats.ts";
import { decomposeTranscendentals } from "./late/decomp/transcendental.ts";
import { devectorize, fitsVectors } from "./late/devectorizer.ts";
import { shareLimits } from "./late/share_limits.ts";
import { blockSums } from "./lower/blocked_sums.ts";
import { dotSums } from "./lower/dot_sums.ts";
import { expand } from "./lower/expander.ts";
import { factorSums } from "./lower/factored_sums.ts";
import { type Placement, placeThreads } from "./lower/gpudims.ts";
import { layPhases } from "./lower/lay_phases.ts";
import { loopEnds } from "./lower/loop_ends.ts";
import { rollStores } from "./lower/roll_stores.ts";
import type { Bound } from "./opt/chain_bounds.ts";
import { inlineRows } from "./opt/inline_rows.ts";
import { keepRows } from "./opt/kept_rows.ts";
import { KernelInfo, type Opt, withOpts } from "./opt/opt.ts";

/** One kernel on its way through the passes, for one device: what they find out about it. */
export class KernelState {
  readonly caps: Capabilities;
  /** Is it as it was written, but for threads? */
  readonly isPlain: boolean;
  /** The opts to apply; undefined where choose.ts does. */
  readonly given: readonly Opt[] | undefined;
  /** The opts that were applied. */
  applied: readonly Opt[] = [];
  /** The AST before and after its opts. */
  simple: UOp;
  optimized: UOp;
  /** Threads of a group that does several phases; 0 where there are none. */
  phaseThreads = 0;
  /** Loops that end earlier: in some groups, or some iterations of those around them. */
  bounds: readonly Bound[] = [];
  /** Where the threads of its groups stand. */
  placement: Placement | undefined = undefined;
  /** May there be values of dtypes that the device does not compute in? */
  hasSmall = true;
  /** The expanded graph where it is certain that the device has all of its vectors. */
  fitting: UOp | undefined = undefined;

  constructor(ast: UOp, readonly renderer: Renderer) {
    this.caps = renderer.caps;
    this.given = ast.arg instanceof KernelInfo ? ast.arg.opts : undefined;
    this.isPlain = this.given === undefined && envNumber("NOOPT") !== 0;
    this.simple = this.optimized = ast;
  }
}

function simplified(ast: UOp, k: KernelState): UOp {
  k.simple = k.optimized = simplifyRanges(ast);
  return k.simple;
}

/** Kernels of several phases take no opts: each phase shares its loops among the same threads. */
function shareOutPhases(ast: UOp, k: KernelState): UOp {
  const { ast: made, threads } = layPhases(ast, k.caps.grid!);
  k.phaseThreads = threads;
  return k.optimized = made;
}

/** Applies the opts that the SINK's {@linkcode KernelInfo} lists, else chooses. */
function optimize(ast: UOp, k: KernelState): UOp {
  const { caps, given, isPlain } = k;
  const kernel = given === undefined && !isPlain ? choose(ast, k.renderer) : kernelFor(ast, caps);
  if (isPlain) spread(kernel, caps);
  else for (const o of given ?? []) kernel.apply(o);
  k.optimized = kernel.finish(given === undefined ? caps.grid : undefined);
  k.applied = kernel.applied;
  if (kernel.bound !== undefined) k.bounds = [kernel.bound];
  return k.optimized;
}

/** Rows stay where loops keep them for less than it costs to compute their elements again. */
function rows(ast: UOp, k: KernelState): UOp {
  return k.caps.hasGrid ? inlineRows(ast) : cheaperRows(ast, k.renderer);
}

/** Bytes of the largest vector that is loaded under a mask. */
function maskedBytes(caps: Capabilities): number {
  return caps.hasMaskedLoads ? caps.vectorBytes : 0;
}

function roll(ast: UOp, { caps }: KernelState): UOp {
  return rollStores(ast, maskedBytes(caps));
}

function gateThreads(sink: UOp, k: KernelState): UOp {
  k.placement = placeThreads(sink, k.caps, k.phaseThreads);
  return k.placement.sink;
}

function expandRanges(sink: UOp, k: KernelState): UOp {
  const { caps } = k;
  if (k.placement !== undefined) return expand(sink, k.placement.warp);
  if (!k.isPlain) ({ ast: sink, bounds: k.bounds } = loopEnds(sink));
  // what the AST tells is asked before it is expanded: the graph that later passes would search is much larger
  const fits = fitsVectors(sink, caps);
  k.hasSmall = hasSmallFloats(sink, caps);
  // what rounds after each op must see each op, and a record or a count which rule made what
  const isLater = k.hasSmall || caps.roundedOps !== undefined || isRecording() || envNumber("TRACK_MATCH_STATS") !== 0;
  const made = expand(sink, 1, isLater ? undefined : lateRules(caps), maskedBytes(caps), caps.isShort !== true);
  if (fits) k.fitting = made;
  return made;
}

/** To here such a loop is one over all of its range, so that nothing simplifies its end in some places only. */
function boundLoops(sink: UOp, { bounds, placement }: KernelState): UOp {
  const ended = new Map<UOp, UOp>(), ends = new Map(bounds.map((b) => [b.loop, b.end]));
  /** The loop that ends earlier, of which the end may be that of one around it. */
  const bounded = (loop: UOp): UOp => {
    let made = ended.get(loop);
    if (made !== undefined) return made;
    const end = ends.get(loop)!, around = rangesOf(end).filter((r) => ends.has(r));
    const places = new Map([...placement?.places ?? [], ...around.map((r): [UOp, UOp] => [r, bounded(r)])]);
    const at = simplifyKernel(places.size === 0 ? end : substitute(end, places));
    ended.set(loop, made = loop.withSrc([at.dtype === loop.dtype ? at : at.cast(loop.dtype)]));
    return made;
  };
  bounds.forEach((b) => bounded(b.loop));
  // not by substitute: an ACC lists the loop among its sources, and stands outside of it
  return rebuild(sink, () => undefined, undefined, ended);
}

const onGrid = ({ caps }: KernelState): boolean => caps.hasGrid, onLoops = (k: KernelState): boolean => !onGrid(k);
const isChosen = (k: KernelState): boolean => onLoops(k) && !k.isPlain;
const takesOpts = (k: KernelState): boolean => (onGrid(k) && k.phaseThreads === 0) || isChosen(k);

/** From a kernel AST (spec "kernel") to its lowered graph. */
export const KERNEL_PASSES: readonly Pass<KernelState>[] = [
  { name: "keep rows", when: onLoops, run: (u, k) => keepRows(u, k.caps), spec: specKernel },
  { name: "simplify ranges", run: simplified, spec: specKernel },
  { name: "inline rows", when: (k) => onGrid(k) || isChosen(k), run: rows, spec: specKernel },
  { name: "add under conditions", when: isChosen, run: ungate, spec: specKernel },
  { name: "lay phases", when: (k, u) => onGrid(k) && hasPhases(u), run: shareOutPhases, spec: specKernel },
  { name: "apply opts", when: takesOpts, run: optimize, spec: specKernel },
  // dot products and blocks are made of sums that have lost their scales
  { name: "factor sums", when: isChosen, run: factorSums, spec: specKernel },
  { name: "dot products", when: (k) => isChosen(k) && k.caps.hasDots === true, run: dotSums, spec: specKernel },
  { name: "block long sums", run: blockSums, spec: specKernel },
  { name: "simplify indices", run: simplifyKernel, spec: specKernel },
  // threads of a grid have one index where axes were merged: what a scale depends on shows once that is simplified
  { name: "factor sums of threads", when: (k) => onGrid(k) && !k.isPlain, run: factorSums, spec: specKernel },
  { name: "gate threads", when: onGrid, run: gateThreads },
  { name: "part loops", when: isChosen, run: partLoops, spec: specKernel },
  { name: "skip products", when: isChosen, run: skipProducts, spec: specKernel },
  { name: "roll stores", when: (k) => onLoops(k) && k.caps.vectorBytes > 0, run: roll, spec: specKernel },
  { name: "expand, lower reduces", run: expandRanges, spec: specLowered },
  { name: "place threads", when: onGrid, run: (u, k) => substitute(u, k.placement!.places), spec: specLowered },
  { name: "simplify addresses", when: onGrid, run: simplifyAddresses, spec: specLowered },
  { name: "bound loops", when: (k) => k.bounds.length > 0, run: boundLoops, spec: specLowered },
  { name: "decompose dtypes", when: (k) => k.hasSmall, run: (u, k) => decomposeDTypes(u, k.caps), spec: specLowered },
  {
    name: "mark rounded functions",
    when: (k) => k.caps.roundedOps !== undefined,
    run: (u, k) => markRounded(u, k.caps),
    spec: specLowered,
  },
  { name: "decompose functions", run: (u, k) => decomposeTranscendentals(u, k.caps), spec: specLowered },
  { name: "decompose division", run: (u) => graphRewrite(u, pmDivision), spec: specLowered },
  { name: "devectorize", when: (k, u) => u !== k.fitting, run: (u, k) => devectorize(u, k.caps), spec: specLowered },
  { name: "coalesce accesses", when: onGrid, run: (u, k) => coalesce(u, k.caps) },
  { name: "copy asynchronously", when: (k) => k.caps.grid?.hasAsyncCopy === true, run: copyAsync },
  { name: "late rules", run: (u, k) => graphRewrite(u, lateRules(k.caps)) },
  { name: "share limits", when: (k, u) => onGrid(k) && mayHave(u, Ops.WMMA), run: shareLimits },
];

/** A kernel as it is when opts are applied: what candidates are found for. */
export function beforeOpts(ast: UOp, renderer: Renderer): UOp {
  const given = withOpts(ast, []), at = KERNEL_PASSES.findIndex((p) => p.name === "apply opts");
  return runPasses(KERNEL_PASSES.slice(0, at), given, new KernelState(given, renderer));
}
