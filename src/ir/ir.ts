/**
 * The compiler from within, for those who extend it from outside: nodes and their ops, patterns and rules, rewriting,
 * printing and checking of graphs, and all that a backend is made of. Whoever computes with tensors needs `mod.ts` alone.
 *
 * ```ts
 * import { graphRewrite, PatternMatcher, rule, UPat } from "./ir.ts";
 * import { Tensor } from "../../mod.ts";
 * const x = UPat.var("x"), y = UPat.var("y"), z = UPat.var("z");
 * const factor = new PatternMatcher("factor", [
 *   rule(x.mul(y).add(x.mul(z)), ({ x, y, z }) => x.mul(y.add(z))), // x*y + x*z -> x*(y+z)
 * ]);
 * const [a, b, c] = [[2, 3], [5, 7], [1, 1]].map((list) => new Tensor(list).realize());
 * const factored = graphRewrite(a.mul(b).add(a.mul(c)).uop, factor);
 * console.log(await new Tensor(factored).tolist()); // [12, 24]
 * ```
 *
 * @module
 */

// ---- nodes

export {
  AccArg,
  type Arg,
  type ArgOf,
  argOf,
  type ArgRecord,
  AxisKind,
  BufferArg,
  type ConstValue,
  Int64,
  LocalArg,
  ParamArg,
  RangeArg,
  ReduceArg,
  type Scope,
  ShapeArg,
  Storage,
  TensorMapArg,
  VariableArg,
} from "../uop/core/args.ts";
export { Arithmetic } from "../uop/core/arithmetic.ts";
export { isAlu, isCommutative, isComparison, isMovement, opArity, opName, Ops } from "../uop/core/ops.ts";
export type { Line, Site } from "../helpers/stack.ts";
export { deviceOf, shapeOf } from "../uop/core/shape.ts";
export { constant, type Extents, param, range, toposort, UOp, uop, variable } from "../uop/core/uop.ts";
export { type DType, type DTypeKind, type DTypeName, type DTypes, dtypes } from "../dtype/dtype.ts";

// ---- patterns, rules, rewriting

export { type Captures, PatternMatcher, type Rule, rule } from "../uop/rewrite/matcher.ts";
export { record } from "../uop/rewrite/record.ts";
export {
  graphRewrite,
  graphRewriteMap,
  type Pass,
  type RewriteOptions,
  runPasses,
  substitute,
} from "../uop/rewrite/rewrite.ts";
export type { Change, NodeData, PassData, PassRecord, Recording, RecordingData } from "../uop/core/recording.ts";
export { UPat, type UPatOptions } from "../uop/rewrite/upat.ts";
export { baseOf, throughAfter } from "../uop/rewrite/walk.ts";
export { vmax, vmin } from "../uop/algebra/bounds.ts";
export { evalOp, truncate } from "../uop/algebra/eval.ts";
export { simplify, symbolic } from "../uop/algebra/symbolic.ts";

// ---- looking at graphs, and what is legal in them

export { listText, printTree, printUOp } from "../uop/core/print.ts";
export { type Spec, specKernel, specLinear, specLowered, specTensor, type SpecTest, verify } from "../uop/core/spec.ts";

// ---- backends

export {
  type Allocator,
  type Block,
  type ForeignMemory,
  LruAllocator,
  type MemoryDevice,
  type MemoryLayout,
} from "../device/allocator.ts";
export { Buffer } from "../device/buffer.ts";
export { type Backend, type Device as BackendDevice, registerBackend } from "../device/device.ts";
export type {
  Standalone,
  StandaloneEntry,
  StandaloneScalar,
  StandaloneSpec,
  StandaloneStep,
} from "../device/standalone.ts";
export {
  type Compiler,
  type Graph,
  groupsOf,
  type Insertion,
  type Launch,
  LaunchGraph,
  type Program,
  type ThreadCounts,
  type ThreadTime,
  type ThreadTimes,
  type ThreadWatch,
} from "../device/program.ts";
export { arrayName } from "../dtype/dtype.ts";
export { CompileError, DeviceError, type MemoryHolder, OutOfMemoryError, SpecError } from "../helpers/errors.ts";
export { C_LANGUAGE } from "../renderer/c/c.ts";
export {
  type CAddress,
  type CLanguage,
  type CRule,
  type CSource,
  type CStatement,
  CStyleRenderer,
  CWriter,
} from "../renderer/c/cstyle.ts";
export {
  type BoxRing,
  type Capabilities,
  COMMON_DTYPES,
  type CopyEngine,
  type GridCaps,
  type LaunchGrid,
  type LinearProgram,
  type ProgramMap,
  type ProgramParam,
  type Renderer,
  type RingCopies,
  type RingFill,
  type RingSlot,
  SCALAR_CAPS,
} from "../renderer/renderer.ts";
export type { Fragment, SharedTile, TensorCore, TileOffset } from "../renderer/tensor_core_table.ts";
export { LinearVisitor, type Place } from "../renderer/visitor.ts";
