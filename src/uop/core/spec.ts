/**
 * The legal nodes of each stage, as tables from op to test. Run between stages under SPEC=1 and in tests: a graph that
 * breaks its table is an internal contradiction and throws SpecError with the node and its neighbors.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import {
  AccArg,
  argOf,
  AxesArg,
  AxisKind,
  BufferArg,
  Int64,
  LocalArg,
  PairsArg,
  ParamArg,
  RangeArg,
  ReduceArg,
  ShapeArg,
  StageArg,
  TensorMapArg,
  VariableArg,
  WindowArg,
} from "./args.ts";
import { CarrierArg } from "./carrier.ts";
import { CustomArg } from "./custom_arg.ts";
import { BITS, FLOATS, INTEGERS, isAlu, isComparison, opArity, opFlags, opName, Ops } from "./ops.ts";
import { printNeighbors } from "./print.ts";
import { shapeOf } from "./shape.ts";
import { CollectiveArg } from "./sharding.ts";
import { toposort, type UOp } from "./uop.ts";

/** A test of one node: true where it is legal, else what is wrong. */
export type SpecTest = (u: UOp) => true | string;

/** The legal nodes of a stage: a test by op; an op without one is not legal there. */
export interface Spec {
  /** Where it holds. */
  readonly stage: "tensor" | "kernel" | "lowered" | "linear";
  /** By op; an op without one does not exist at this stage. */
  readonly tests: readonly (SpecTest | undefined)[];
}

/** What stands behind the storage in an AFTER. */
const EFFECTS: readonly number[] = [Ops.STORE, Ops.AFTER, Ops.CUSTOM];

function check(ok: boolean, why: string): true | string {
  return ok || why;
}

/** What is wrong with the dtypes of an ALU node, the same at every stage. */
function aluTest(u: UOp): true | string {
  const { op, dtype, src } = u;
  if (op === Ops.CAST) return check(dtype.count === src[0].dtype.count, "a cast keeps the number of lanes");
  if (op === Ops.BITCAST) return true;
  if (op === Ops.WHERE) {
    if (!src[0].dtype.isBool) return "the condition of WHERE is a bool";
    if (src[0].dtype.count !== dtype.count) return "the condition of WHERE has as many lanes as the result";
    return check(src[1].dtype === dtype && src[2].dtype === dtype, "both branches of WHERE have its dtype");
  }
  for (const s of src) if (s.dtype !== src[0].dtype) return "all sources have one dtype";
  if (isComparison(op)) return check(dtype === dtypes.bool.vec(src[0].dtype.count), "a comparison gives bool");
  if (dtype !== src[0].dtype) return "the result has the dtype of the sources";
  const flags = opFlags[op];
  if ((flags & FLOATS) !== 0 && !dtype.isFloat) return "only floats have this op";
  if ((flags & INTEGERS) !== 0 && !dtype.isInt) return "only integers have this op";
  if (op === Ops.DOT && dtype.scalar !== dtypes.int32) return "DOT is of words of 32 bits";
  if ((flags & BITS) !== 0 && dtype.isFloat) return "floats have no bits here";
  return true;
}

function constTest(u: UOp): true | string {
  if (u.dtype.kind === "void") return "a constant has a dtype";
  if (u.arg instanceof Int64) return check(u.dtype.isInt && u.dtype.bits === 64, "only 64-bit integers are Int64");
  if (typeof u.arg !== "number") return "the value is a number or Int64";
  if (u.dtype.isBool) return check(u.arg === 0 || u.arg === 1, "a bool is 0 or 1");
  return check(u.dtype.isFloat || Number.isSafeInteger(u.arg), "an integer constant is an integer");
}

const leaf = (type: new (...args: never[]) => unknown): SpecTest => (u) => check(u.arg instanceof type, "wrong arg");
const any: SpecTest = () => true;

/** Sources have equal shapes, except rank-0 ones that are leaves. */
function tensorAlu(u: UOp): true | string {
  const dtypeTest = aluTest(u);
  if (dtypeTest !== true || u.op === Ops.BITCAST) return dtypeTest;
  const shape = shapeOf(u);
  for (const s of u.src) {
    const t = shapeOf(s);
    if (!sameArray(t, shape) && t.length > 0) return `shapes [${t}] and [${shape}] differ`;
  }
  return true;
}

const sameDType: SpecTest = (u) => check(u.dtype === u.src[0].dtype, "the dtype of the source is kept");

function movementTest(type: new (...args: never[]) => unknown): SpecTest {
  return (u) => u.arg instanceof type ? sameDType(u) : "wrong arg";
}

const isIndex = (u: UOp): boolean => u.dtype === dtypes.int32 || u.dtype === dtypes.int64;
const BASES: readonly number[] = [Ops.PARAM, Ops.LOCAL, Ops.STAGE, Ops.AFTER, Ops.BUFFER];

function indexTest(u: UOp): true | string {
  const [base, at, gate] = u.src;
  if (u.src.length < 2 || u.src.length > 3) return "INDEX has a base, an index and perhaps a gate";
  if (!BASES.includes(base.op)) return `${opName[base.op]} cannot be indexed`;
  if (!isIndex(at)) return "an index is a scalar int32 or int64";
  return check(gate === undefined || gate.dtype === dtypes.bool, "a gate is a scalar bool");
}

function loadTest(u: UOp): true | string {
  const [at, alt, mask] = u.src;
  if (at?.op !== Ops.INDEX) return "LOAD reads an INDEX";
  if (mask !== undefined && (mask.dtype !== dtypes.uint32 || u.dtype.count === 1)) {
    return "the mask of a LOAD is a uint32 with a bit for each lane, without which it is 0";
  }
  if (alt !== undefined && alt.dtype !== u.dtype) return "the alternative has the dtype of the LOAD";
  return check(u.dtype.scalar === at.dtype.scalar || isWord(u), "LOAD gives what is stored, or words of bytes");
}

/** Is a LOAD one of four neighboring bytes as an integer of 32 bits, the first lowest? */
function isWord({ dtype, src: [at] }: UOp): boolean {
  return dtype.scalar === dtypes.int32 && at.dtype.scalar.isInt && at.dtype.itemsize === 1 &&
    at.src[0].op === Ops.PARAM;
}

function storeTest(u: UOp): true | string {
  const [at, value] = u.src;
  if (at.op !== Ops.INDEX) return "STORE writes an INDEX";
  return check(at.dtype.scalar === value.dtype.scalar, "STORE writes what is stored");
}

function rangeTest(u: UOp): true | string {
  if (!(u.arg instanceof RangeArg) || !isIndex(u.src[0]) || u.dtype !== u.src[0].dtype) {
    return "RANGE has an integer end";
  }
  return check(u.arg.first === 0 || u.arg.kind === AxisKind.THREAD, "a THREAD loop alone may begin later");
}

const isLoop = (u: UOp): boolean => u.op === Ops.RANGE || u.op === Ops.CONST;

function kernelReduce(u: UOp): true | string {
  if (!(u.arg instanceof CarrierArg)) return "REDUCE carries a CarrierArg here";
  const { lanes } = u.arg;
  if (u.src.length < lanes) return `the carrier has ${lanes} lanes`;
  if (!u.src.slice(lanes).every(isLoop)) return "ranges follow the lifted values";
  return check(u.dtype === (lanes === 1 ? u.src[0].dtype : dtypes.void), "several lanes are void, one has its dtype");
}

const scalars: SpecTest = (u) =>
  check(
    u.src.length === u.dtype.count && u.src.every((s) => s.dtype === u.dtype.scalar),
    "VECTORIZE has a scalar a lane",
  );
const broadcast: SpecTest = (u) => check(u.src[0].dtype === u.dtype.scalar, "BROADCAST repeats a scalar of its dtype");
const extract: SpecTest = (u) =>
  check(
    u.dtype === u.src[0].dtype.scalar && argOf(u, Ops.EXTRACT) >= 0 && argOf(u, Ops.EXTRACT) < u.src[0].dtype.count,
    "EXTRACT takes one of the lanes",
  );

const lanes: SpecTest = (u) => {
  const [a, b] = u.src, { axes: picked } = argOf(u, Ops.LANES);
  return check(
    u.arg instanceof AxesArg && a.dtype === b.dtype && a.dtype.scalar === u.dtype.scalar &&
      picked.length === u.dtype.count &&
      picked.every((l) => l >= 0 && l < 2 * a.dtype.count),
    "LANES takes lanes of two vectors alike",
  );
};

function table(stage: Spec["stage"], alu: SpecTest, tests: Partial<Record<keyof typeof Ops, SpecTest>>): Spec {
  const list: (SpecTest | undefined)[] = opName.map((_, op) => isAlu(op as Ops) ? alu : undefined);
  for (const [name, test] of Object.entries(tests)) list[Ops[name as keyof typeof Ops]] = test;
  return { stage, tests: list };
}

const never: SpecTest = () => "not at this stage";

/** The tensor graph, from Tensor to the scheduler. */
export const specTensor: Spec = table("tensor", tensorAlu, {
  CONST: constTest,
  BUFFER: leaf(BufferArg),
  VARIABLE: leaf(VariableArg),
  IOTA: (u) => check(typeof u.arg === "number", "IOTA has a size"),
  SINK: any,
  AFTER: (u) => check(u.src.slice(1).every((s) => EFFECTS.includes(s.op)), "AFTER follows STOREs"),
  BIND: (u) => check(u.src[0].op === Ops.VARIABLE && u.src[1].op === Ops.CONST, "BIND gives a VARIABLE a CONST"),
  TUPLE: any,
  GROUP: any,
  RESHAPE: movementTest(ShapeArg),
  EXPAND: movementTest(ShapeArg),
  PERMUTE: movementTest(AxesArg),
  PAD: movementTest(PairsArg),
  SHRINK: movementTest(PairsArg),
  FLIP: movementTest(AxesArg),
  UNSKEW: sameDType,
  SKEW: sameDType,
  WINDOW: (u) =>
    u.arg instanceof WindowArg && u.src[1].dtype.isInt && u.src[2].dtype.isInt
      ? sameDType(u)
      : "start and size are integers",
  CONTIGUOUS: sameDType,
  CONTIGUOUS_BACKWARD: sameDType,
  DETACH: sameDType,
  CHECKPOINT: sameDType,
  CUSTOM: (u) => check(u.arg instanceof CustomArg && u.dtype === dtypes.void, "CUSTOM has a kernel, and no value"),
  COPY: (u) => typeof u.arg === "string" ? sameDType(u) : "COPY names a device",
  COLLECTIVE: movementTest(CollectiveArg),
  REDUCE: (u) => check(u.arg instanceof ReduceArg, "REDUCE has a ReduceArg here"),
  STORE: (u) => check(u.src[0].dtype === u.src[1].dtype, "STORE writes what is stored"),
  NEG: never,
  SUB: never,
  MULACC: never,
  DOT: never,
});

/** What a kernel has at all stages. */
const KERNEL: Parameters<typeof table>[2] = {
  TENSOR_MAP: (u) => check(u.arg instanceof TensorMapArg && u.src[0].op === Ops.PARAM, "TENSOR_MAP is of a PARAM"),
  CONST: constTest,
  VARIABLE: leaf(VariableArg),
  PARAM: leaf(ParamArg),
  RANGE: rangeTest,
  SPECIAL: any,
  LOCAL: leaf(LocalArg),
  AFTER: any,
  INDEX: indexTest,
  BARRIER: any,
  VECTORIZE: scalars,
  BROADCAST: broadcast,
  EXTRACT: extract,
};

/** The kernel AST, from the scheduler through the passes of codegen. */
export const specKernel: Spec = table("kernel", aluTest, {
  ...KERNEL,
  SINK: any,
  GROUP: any,
  TUPLE: any,
  GETTUPLE: (u) =>
    check(
      u.src[0].op === Ops.REDUCE && u.src[0].arg instanceof CarrierArg &&
          (argOf(u, Ops.GETTUPLE) < u.src[0].arg.lanes || u.src[1]?.op === Ops.RANGE) ||
        u.src[0].op === Ops.TUPLE,
      "GETTUPLE reads a lane of a REDUCE",
    ),
  REDUCE: kernelReduce,
  LOAD: loadTest,
  STORE: storeTest,
  ASYNC_BOX: (u) => check(isBoxAt(u.src), "ASYNC_BOX has a position in a TENSOR_MAP"),
  STAGE: (u) => check(u.arg instanceof StageArg && u.src.slice(1).every(isLoop), "STAGE has a value and ranges"),
  WMMA: (u) =>
    check(
      u.src.length >= 3 && u.src.length <= 5 && u.src.slice(2).every(isLoop),
      "WMMA has two values and a range here, and one of each operand that lanes hold",
    ),
});

const readsAcc = (u: UOp): boolean => u.src[0].op === Ops.ACC || u.src[0].op === Ops.AFTER;

/** A TENSOR_MAP, and a position by its axes. */
function isBoxAt([map, ...position]: readonly UOp[]): boolean {
  return map?.arg instanceof TensorMapArg && position.length === map.arg.sizes.length &&
    position.every((x) => x.dtype === dtypes.int32);
}

/** A linear program, as renderers take it. */
export const specLinear: Spec = table("linear", aluTest, {
  ...KERNEL,
  ACC: (u) =>
    check(
      u.arg instanceof AccArg && u.src[0].dtype === u.dtype && u.src.slice(1).every(isLoop),
      "ACC has an identity of its dtype, then ranges",
    ),
  LOAD: (u) => readsAcc(u) ? check(u.dtype === u.src[0].dtype, "reading an ACC keeps its dtype") : loadTest(u),
  STORE: (u) => readsAcc(u) ? check(u.src[1].dtype === u.src[0].dtype, "an ACC takes its dtype") : plainStore(u),
  END: (u) => check(u.src[0].op === Ops.RANGE, "END closes a RANGE"),
  IF: (u) => check(u.src[0].dtype === dtypes.bool, "IF has a scalar bool"),
  ENDIF: (u) => check(u.src[0].op === Ops.IF, "ENDIF closes an IF"),
  SHUFFLE: (u) => check(u.dtype === u.src[0].dtype && typeof u.arg === "number", "SHUFFLE keeps the dtype"),
  ASYNC_COPY: (u) =>
    check(u.src[0].op === Ops.INDEX && u.src[1].op === Ops.INDEX, "ASYNC_COPY goes from an INDEX to an INDEX"),
  ASYNC_COMMIT: any,
  ASYNC_WAIT: (u) => check(typeof u.arg === "number", "ASYNC_WAIT has a number of batches"),
  ASYNC_BOX: (u) =>
    check(
      u.src[0].op === Ops.INDEX && u.src[1].op === Ops.INDEX && u.src[2].dtype === dtypes.bool &&
        isBoxAt(u.src.slice(3)),
      "ASYNC_BOX goes from a position in a TENSOR_MAP to an INDEX",
    ),
  MBARRIER: (u) =>
    check(u.src[0].op === Ops.INDEX && u.src[0].dtype === dtypes.int64, "MBARRIER is an int64 in memory"),
  LANES: lanes,
  WMMA: (u) => check(u.src.length === 3 && u.src[2].dtype === u.dtype, "WMMA adds to a tile of its dtype"),
  UNIT: (u) => check(typeof u.arg === "number" || typeof u.arg === "string", "UNIT says what it orders"),
  LDMATRIX: (u) => check(u.src[0].op === Ops.INDEX && u.dtype.count === 8, "LDMATRIX reads 8 elements a lane"),
  FLOORDIV: (u) => u.dtype.isUnsigned ? aluTest(u) : "codegen lowers FLOORDIV",
  FLOORMOD: (u) => u.dtype.isUnsigned ? aluTest(u) : "codegen lowers FLOORMOD",
});

/** The graph of a kernel from expansion to linearization: what will be a linear program, not ordered yet. */
export const specLowered: Spec = {
  stage: "lowered",
  tests: Object.assign([...specLinear.tests], {
    [Ops.SINK]: any,
    [Ops.GROUP]: any,
    [Ops.TUPLE]: any,
    [Ops.FLOORDIV]: aluTest,
    [Ops.FLOORMOD]: aluTest,
    [Ops.STORE]: (u: UOp) => readsAcc(u) ? specLinear.tests[Ops.STORE]!(u) : storeTest(u),
  }),
};

function plainStore(u: UOp): true | string {
  const test = storeTest(u);
  return test === true && u.src[0].src.length > 2 ? "a store in a linear program is never gated" : test;
}

function fail(u: UOp, list: readonly UOp[], spec: Spec, stage: string, why: string): never {
  throw new SpecError(
    `Illegal ${opName[u.op]} (${u.dtype}) ${stage}, by the table of the ${spec.stage} stage: ${why}`,
    printNeighbors(u, list),
  );
}

/**
 * Checks a graph, or the list of a linear program (then also that sources come first and loops and conditions nest).
 * @param stage when this runs, for the message: "after expand"
 * @throws {SpecError} at the first node that is not legal, with its sources and users
 */
export function verify(root: UOp | readonly UOp[], spec: Spec, stage: string): void {
  const list = spec.stage === "linear" && Array.isArray(root) ? root as readonly UOp[] : toposort(root);
  for (const u of list) {
    const test = spec.tests[u.op];
    if (test === undefined) fail(u, list, spec, stage, "this op does not exist here");
    const arity = opArity[u.op];
    if (arity >= 0 && u.src.length !== arity) {
      fail(u, list, spec, stage, `it has ${u.src.length} sources, not ${arity}`);
    }
    const result = test(u);
    if (result !== true) fail(u, list, spec, stage, result);
  }
  if (list === root) verifyOrder(list, spec, stage);
}

function verifyOrder(list: readonly UOp[], spec: Spec, stage: string): void {
  const seen = new Set<UOp>();
  const open: UOp[] = [];
  for (const u of list) {
    // a UNIT is no value: the same order may be given again
    if (seen.has(u) && u.op !== Ops.UNIT) fail(u, list, spec, stage, "it is listed twice");
    for (const s of u.src) {
      if (seen.has(s)) continue;
      // An accumulator stands before the loops that it lists.
      if (u.op === Ops.ACC && s.op === Ops.RANGE) continue;
      fail(u, list, spec, stage, `its source ${opName[s.op]} does not come before it`);
    }
    seen.add(u);
    if (u.op === Ops.RANGE || u.op === Ops.IF) open.push(u);
    else if (u.op === Ops.END || u.op === Ops.ENDIF) {
      if (open.pop() !== u.src[0]) fail(u, list, spec, stage, "it does not close the innermost loop or condition");
    }
  }
  if (open.length > 0) fail(open[open.length - 1], list, spec, stage, "it is never closed");
}
