/**
 * From a kernel AST to a linear program: the ordered list of passes, and nothing else.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { type LinearProgram, programOf, type Renderer } from "../renderer/renderer.ts";
import { TextArg } from "../uop/custom.ts";
import { graphRewrite, namedPass, substitute } from "../uop/rewrite.ts";
import { specKernel, specLinear, specLowered, verify } from "../uop/spec.ts";
import type { UOp } from "../uop/uop.ts";
import { simplifyKernel } from "../uop/valid.ts";
import { copyAsync } from "./async_copy.ts";
import { decomposeDTypes } from "./decomp/dtype.ts";
import { lateRules, pmDivision } from "./decomp/op.ts";
import { markRounded } from "./decomp/rounded.ts";
import { decomposeTranscendentals } from "./decomp/transcendental.ts";
import { coalesce } from "./coalesce.ts";
import { devectorize } from "./devectorizer.ts";
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

/** The opts in an optimized AST, as text. */
const appliedOpts = new WeakMap<UOp, string>();

/** Applies the opts that the SINK's {@linkcode KernelInfo} lists, else those that the heuristic chooses. */
export function optimize(ast: UOp, renderer: Renderer): UOp {
  const opts = ast.arg instanceof KernelInfo ? ast.arg.opts : undefined;
  const { hasGrid } = renderer.caps, isPlain = opts === undefined && envNumber("NOOPT") !== 0;
  if (isPlain && !hasGrid) return ast;
  if (hasGrid && !isPlain && opts === undefined && onlineTilesOf(ast, renderer.caps) !== undefined) return ast;
  const kernel = new Kernel(hasGrid ? inlineRows(ast) : ast, hasGrid, renderer.caps.grid?.tensorCores);
  if (isPlain) spread(kernel, renderer.caps);
  else if (opts === undefined) (hasGrid ? heuristicGrid : heuristic)(kernel, renderer);
  else for (const o of opts) kernel.apply(o);
  const made = kernel.finish();
  appliedOpts.set(made, kernel.applied.map(optText).join(" "));
  return made;
}

const passSimplify = namedPass("simplify ranges", (sink: UOp, _: Renderer) => simplifyRanges(sink), specKernel);
const passOptimize = namedPass("apply opts", optimize, specKernel);
const passIndices = namedPass("simplify indices", (sink: UOp, _: Renderer) => simplifyKernel(sink), specKernel);
const passExpand = namedPass("expand, lower reduces", (sink: UOp, warp: number) => expand(sink, warp), specLowered);
const passOnline = namedPass("tile online products", tileOnline, specLowered);
const passPlace = namedPass("place threads", (sink: UOp, p: Placement) => substitute(sink, p.places), specLowered);
const passDTypes = namedPass(
  "decompose dtypes",
  (sink: UOp, r: Renderer) => decomposeDTypes(sink, r.caps),
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
const passDevectorize = namedPass("devectorize", (sink: UOp, r: Renderer) => devectorize(sink, r.caps), specLowered);
const passCoalesce = namedPass(
  "coalesce accesses",
  (sink: UOp, r: Renderer) => copyAsync(coalesce(sink, r.caps)),
);
const passLate = namedPass("late rules", (sink: UOp, r: Renderer) => graphRewrite(sink, lateRules(r.caps)));

/** The lowered graph of a kernel whose opts are applied: what the linearizer orders. */
export function lower(optimized: UOp, renderer: Renderer): UOp {
  let sink = passIndices(optimized, renderer);
  const online = renderer.caps.hasGrid ? onlineTilesOf(sink, renderer.caps) : undefined;
  if (online !== undefined) sink = passOnline(sink, online);
  else if (renderer.caps.hasGrid) {
    const placement = placeThreads(sink, renderer.caps);
    sink = passPlace(passExpand(placement.sink, placement.warp), placement);
  } else sink = passExpand(sink, 1);
  sink = passDTypes(sink, renderer);
  if (renderer.caps.roundedOps !== undefined) sink = passRounded(sink, renderer);
  sink = passFunctions(sink, renderer);
  sink = passDivision(sink, renderer);
  sink = passDevectorize(sink, renderer);
  if (renderer.caps.hasGrid) sink = passCoalesce(sink, renderer);
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
