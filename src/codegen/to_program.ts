/**
 * From a kernel AST to a linear program: the ordered list of passes, and nothing else.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { DeviceError } from "../helpers/errors.ts";
import { type Capabilities, type LinearProgram, programOf, type Renderer } from "../renderer/renderer.ts";
import { simplifyKernel } from "../uop/algebra/valid.ts";
import { TextArg } from "../uop/core/custom_arg.ts";
import { specKernel, specLinear, specLowered, verify } from "../uop/core/spec.ts";
import { type UOp, uop } from "../uop/core/uop.ts";
import type { PatternMatcher } from "../uop/rewrite/matcher.ts";
import { graphRewrite, isRecording, namedPass, substitute } from "../uop/rewrite/rewrite.ts";
import { simplifyRanges } from "./ast/simplify.ts";
import { ungate } from "./ast/ungate.ts";
import { heuristic } from "./choose/heuristic_cpu.ts";
import { heuristicGrid, spread } from "./choose/heuristic_grid.ts";
import { copyAsync } from "./late/async_copy.ts";
import { coalesce } from "./late/coalesce.ts";
import { lateRules, pmDivision } from "./late/decomp/missing_ops.ts";
import { markRounded } from "./late/decomp/rounded.ts";
import { decomposeDTypes, hasSmallFloats } from "./late/decomp/small_floats.ts";
import { decomposeTranscendentals } from "./late/decomp/transcendental.ts";
import { devectorize, fitsVectors } from "./late/devectorizer.ts";
import { linearize } from "./late/program_order.ts";
import { blockSums } from "./lower/blocked_sums.ts";
import { expand } from "./lower/expander.ts";
import { type Placement, placeThreads } from "./lower/gpudims.ts";
import { onlineTilesOf, tileOnline } from "./lower/online_tiles.ts";
import { rollStores } from "./lower/roll_stores.ts";
import { textProgram } from "./lower/text_program.ts";
import { nameOf, workOf } from "./machine/estimate.ts";
import { excessOf, lesserOpts } from "./machine/group_limits.ts";
import { inlineRows } from "./opt/inline_rows.ts";
import { Kernel } from "./opt/kernel.ts";
import { KernelInfo, type Opt, optText } from "./opt/opt.ts";

/** The opts in an optimized AST. */
const appliedOpts = new WeakMap<UOp, readonly Opt[]>();

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
  appliedOpts.set(made, kernel.applied.slice());
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
const passBlocks = namedPass("block long sums", (sink: UOp, _: Renderer) => blockSums(sink), specKernel);
const passIndices = namedPass("simplify indices", (sink: UOp, _: Renderer) => simplifyKernel(sink), specKernel);
const passRoll = namedPass("roll stores", (sink: UOp, _: Renderer) => rollStores(sink), specKernel);
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
  let sink = passIndices(passBlocks(optimized, renderer), renderer),
    known: Known = { caps, hasSmall: true, fits: false };
  const online = caps.hasGrid ? onlineTilesOf(sink, caps) : undefined;
  if (online !== undefined) sink = passOnline(sink, online);
  else if (caps.hasGrid) {
    const placement = placeThreads(sink, caps);
    sink = passPlace(passExpand(placement.sink, placement), placement);
  } else {
    if (caps.vectorBytes > 0) sink = passRoll(sink, renderer);
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

/** The program of a kernel whose opts are applied; `simple` is what its work is counted of. */
function finish(optimized: UOp, simple: UOp, renderer: Renderer): LinearProgram {
  const uops = linearize(lower(optimized, renderer), renderer.caps.hasGrid);
  if (envNumber("SPEC") !== 0) verify(uops, specLinear, "after linearize");
  const { flops, bytes } = workOf(simple), opts = appliedOpts.get(optimized)?.map(optText).join(" ") ?? "";
  return { ...programOf(nameOf(optimized), uops, flops, bytes), opts };
}

/** @throws {DeviceError} for a program that a device has not the memory, threads or bindings for */
function checkLimits(program: LinearProgram, { name, caps }: Renderer): LinearProgram {
  const reason = excessOf(program, caps);
  if (reason !== undefined) throw new DeviceError(`compile kernel ${program.name}`, { device: name, reason });
  return program;
}

/**
 * Compiles a kernel AST (spec "kernel") to a linear program (spec "linear") for a device. Deterministic. Opts that the
 * heuristic chose and that turn out to ask for more than the device has are given up, one by one.
 *
 * @throws {DeviceError} for a kernel beyond the limits of the device
 */
export function toProgram(ast: UOp, renderer: Renderer): LinearProgram {
  if (ast.arg instanceof TextArg) return checkLimits(textProgram(ast, ast.arg, renderer), renderer);
  if (envNumber("SPEC") !== 0) verify(ast, specKernel, "before codegen");
  const simple = passSimplify(ast, renderer), isFree = !(simple.arg instanceof KernelInfo) || !simple.arg.opts;
  const first = choose(simple, renderer, isFree);
  if (!isFree || excessOf(first, renderer.caps) === undefined) return checkLimits(first, renderer);
  return checkLimits(choose(simple, withoutUnits(renderer), true), renderer);
}

/** The program of a kernel by the opts that are chosen for it, or by less of them where they take too much. */
function choose(simple: UOp, renderer: Renderer, isFree: boolean): LinearProgram {
  let optimized = passOptimize(simple, renderer), program = finish(optimized, simple, renderer);
  const name = simple.arg instanceof KernelInfo ? simple.arg.name : "";
  while (isFree && excessOf(program, renderer.caps) !== undefined) {
    const opts = lesserOpts(appliedOpts.get(optimized) ?? []);
    if (opts === undefined) break;
    optimized = passOptimize(uop(simple.op, simple.dtype, simple.src, new KernelInfo(name, opts)), renderer);
    program = finish(optimized, simple, renderer);
  }
  return program;
}

/** A device without matrix units, whose kernels share tiles of the least size. */
function withoutUnits(renderer: Renderer): Renderer {
  const { caps, name } = renderer;
  const lean = caps.grid === undefined ? caps : { ...caps, grid: { ...caps.grid, tensorCores: [] } };
  return { name, caps: lean, render: (program) => renderer.render(program) };
}
