/**
 * From a kernel AST to a linear program: the ordered list of passes, and nothing else.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { type Capabilities, type LinearProgram, programOf, type Renderer } from "../renderer/renderer.ts";
import { TextArg } from "../uop/custom.ts";
import type { PatternMatcher } from "../uop/matcher.ts";
import { graphRewrite, isRecording, namedPass, substitute } from "../uop/rewrite.ts";
import { specKernel, specLinear, specLowered, verify } from "../uop/spec.ts";
import type { UOp } from "../uop/uop.ts";
import { simplifyKernel } from "../uop/valid.ts";
import { copyAsync } from "./async_copy.ts";
import { decomposeDTypes, hasSmallFloats } from "./decomp/dtype.ts";
import { lateRules, pmDivision } from "./decomp/op.ts";
import { markRounded } from "./decomp/rounded.ts";
import { decomposeTranscendentals } from "./decomp/transcendental.ts";
import { coalesce } from "./coalesce.ts";
import { devectorize, fitsVectors } from "./devectorizer.ts";
import { nameOf, workOf } from "./estimate.ts";
import { expand } from "./expander.ts";
import { type Placement, placeThreads } from "./gpudims.ts";
import { linearize } from "./linearizer.ts";
import { heuristic } from "./opt/heuristic.ts";
import { heuristicGrid, spread } from "./opt/heuristic_grid.ts";
import { Kernel } from "./opt/kernel.ts";
import { onlineTilesOf, tileOnline } from "./online_tiles.ts";
import { inlineRows } from "./opt/rows.ts";
import { KernelInfo, optText } from "./opt/opt.ts";
import { simplifyRanges } from "./simplify.ts";
import { textProgram } from "./text_program.ts";
import { ungate } from "./ungate.ts";

/** The opts in an optimized AST, as text. */
const appliedOpts = new WeakMap<UOp, string>();

/** Applies the opts that the SINK's {@linkcode KernelInfo} lists, else those that the heuristic chooses. */
export function optimize(ast: UOp, renderer: Renderer): UOp {
  const opts = ast.arg instanceof KernelInfo ? ast.arg.opts : undefined;
  const { hasGrid } = renderer.caps, isPlain = opts === undefined && envNumber("NOOPT") !== 0;
  if (isPlain && !hasGrid) return ast;
  if (hasGrid && !isPlain && opts === undefined && onlineTilesOf(ast, renderer.caps) !== undefined) return ast;
  const kernel = new Kernel(hasGrid ? inlineRows(ast) : ungate(ast), hasGrid, renderer.caps.grid?.tensorCores);
  if (isPlain) spread(kernel, renderer.caps);
  else if (opts === undefined) (hasGrid ? heuristicGrid : heuristic)(kernel, renderer);
  else for (const o of opts) kernel.apply(o);
  const made = kernel.finish();
  appliedOpts.set(made, kernel.applied.map(optText).join(" "));
  return made;
}

/** What the AST of a kernel tells before it is expanded: the graph that later passes would search is much larger. */
interface Known {
  readonly caps: Capabilities;
  /** May there be values of dtypes that the device does not compute in? */
  readonly hasSmall: boolean;
  /** Is it certain that the device has all vectors of the expanded graph? */
  readonly fits: boolean;
}

/** What is known of a kernel that loops run. */
function knownOf(ast: UOp, caps: Capabilities): Known {
  return { caps, hasSmall: hasSmallFloats(ast, caps), fits: fitsVectors(ast, caps) };
}

const passSimplify = namedPass("simplify ranges", (sink: UOp, _: Renderer) => simplifyRanges(sink), specKernel);
const passOptimize = namedPass("apply opts", optimize, specKernel);
const passIndices = namedPass("simplify indices", (sink: UOp, _: Renderer) => simplifyKernel(sink), specKernel);
const passExpand = namedPass(
  "expand, lower reduces",
  (sink: UOp, { warp, late }: { warp: number; late?: PatternMatcher }) => expand(sink, warp, late),
  specLowered,
);
const passOnline = namedPass("tile online products", tileOnline, specLowered);
const passPlace = namedPass("place threads", (sink: UOp, p: Placement) => substitute(sink, p.places), specLowered);
const passDTypes = namedPass(
  "decompose dtypes",
  (sink: UOp, { caps, hasSmall }: Known) => hasSmall ? decomposeDTypes(sink, caps) : sink,
  specLowered,
);
const passRounded = namedPass(
  "mark rounded functions",
  (sink: UOp, r: Renderer) => markRounded(sink, r.caps),
  specLowered,
);
const passFunctions = namedPass(
  "decompose functions",
  (sink: UOp, r: Renderer) => decomposeTranscendentals(sink, r.caps),
  specLowered,
);
const passDivision = namedPass(
  "decompose division",
  (sink: UOp, _: Renderer) => graphRewrite(sink, pmDivision),
  specLowered,
);
const passDevectorize = namedPass(
  "devectorize",
  (sink: UOp, { caps, fits }: Known) => fits ? sink : devectorize(sink, caps),
  specLowered,
);
const passCoalesce = namedPass(
  "coalesce accesses",
  (sink: UOp, r: Renderer) => copyAsync(coalesce(sink, r.caps)),
);
const passLate = namedPass("late rules", (sink: UOp, r: Renderer) => graphRewrite(sink, lateRules(r.caps)));

/** The lowered graph of a kernel whose opts are applied: what the linearizer orders. */
export function lower(optimized: UOp, renderer: Renderer): UOp {
  const { caps } = renderer;
  let sink = passIndices(optimized, renderer), known: Known = { caps, hasSmall: true, fits: false };
  const online = caps.hasGrid ? onlineTilesOf(sink, caps) : undefined;
  if (online !== undefined) sink = passOnline(sink, online);
  else if (caps.hasGrid) {
    const placement = placeThreads(sink, caps);
    sink = passPlace(passExpand(placement.sink, placement), placement);
  } else {
    known = knownOf(sink, caps);
    // what rounds after each op must see each op, and a record or a count which rule made what
    const isLater = known.hasSmall || caps.roundedOps !== undefined || isRecording() ||
      envNumber("TRACK_MATCH_STATS") !== 0;
    const late = isLater ? undefined : lateRules(caps);
    sink = passExpand(sink, { warp: 1, late });
  }
  const expanded = sink;
  sink = passDTypes(sink, known);
  if (caps.roundedOps !== undefined) sink = passRounded(sink, renderer);
  sink = passFunctions(sink, renderer);
  sink = passDivision(sink, renderer);
  sink = passDevectorize(sink, sink === expanded ? known : { ...known, fits: false });
  if (caps.hasGrid) sink = passCoalesce(sink, renderer);
  return passLate(sink, renderer);
}

/** Compiles a kernel AST (spec "kernel") to a linear program (spec "linear") for a device. Deterministic. */
export function toProgram(ast: UOp, renderer: Renderer): LinearProgram {
  if (ast.arg instanceof TextArg) return textProgram(ast, ast.arg, renderer);
  const check = envNumber("SPEC") !== 0;
  if (check) verify(ast, specKernel, "before codegen");
  const simple = passSimplify(ast, renderer);
  const optimized = passOptimize(simple, renderer);
  const uops = linearize(lower(optimized, renderer), renderer.caps.hasGrid);
  if (check) verify(uops, specLinear, "after linearize");
  const { flops, bytes } = workOf(simple);
  return { ...programOf(nameOf(optimized), uops, flops, bytes), opts: appliedOpts.get(optimized) ?? "" };
}
