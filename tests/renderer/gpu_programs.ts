/**
 * Linear programs for devices with grids, written by hand: every op in every dtype, scalar and as vectors, conversions
 * between all dtypes, memory in all its forms, and what threads do together. Renderers' outputs for them are assembled.
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { type LinearProgram, programOf } from "../../src/renderer/renderer.ts";
import {
  elementsOf,
  MMA_BF16,
  MMA_F16,
  MMA_INT8,
  MMA_TF32,
  type TensorCore,
} from "../../src/renderer/tensor_core_table.ts";
import { AccArg, AxisKind, LocalArg } from "../../src/uop/core/args.ts";
import { opName, Ops } from "../../src/uop/core/ops.ts";
import {
  constant,
  index,
  int,
  param,
  range,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../src/uop/core/uop.ts";

const { float16, bfloat16, float32, bool, int32, int64, uint32 } = dtypes;
/** What a CUDA device loads and stores. */
const SCALARS: readonly DType[] = cudaCaps({ arch: "sm_90a" }).storageDTypes;
const v = dtypes.void;
/** Elements of every buffer. */
const ELEMENTS = 8192;

/** The thread of a group of `n`. */
export function thread(n = 32, dimension = 0): UOp {
  return uop(Ops.SPECIAL, int32, [int(n)], `lidx${dimension}`);
}
/** Reads `n` elements of a buffer at element `at`. */
export function read(slot: number, d: DType, at: UOp, gate?: UOp, alt?: UOp): UOp {
  const place = index(param(slot, d.scalar, ELEMENTS), at, gate);
  return uop(Ops.LOAD, d, alt === undefined ? [place] : [place, alt]);
}
/** Writes a value to buffer 0 at element `at`. */
export function write(value: UOp, at: UOp): UOp {
  return store(index(param(0, value.dtype.scalar, ELEMENTS), at), value);
}
/** A program of roots, in the order of their sources. */
export function program(name: string, ...roots: UOp[]): LinearProgram {
  return programOf(name, toposort(roots));
}

const INT_OPS = [Ops.CDIV, Ops.CMOD, Ops.SHL, Ops.SHR], BIT_OPS = [Ops.AND, Ops.OR, Ops.XOR];
const FLOAT_OPS = [Ops.FDIV, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN];
const ANY_OPS = [Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.NEG, Ops.TRUNC];
const ARITY: Partial<Record<number, number>> = {
  [Ops.SQRT]: 1,
  [Ops.EXP2]: 1,
  [Ops.LOG2]: 1,
  [Ops.SIN]: 1,
  [Ops.NEG]: 1,
  [Ops.TRUNC]: 1,
  [Ops.MULACC]: 3,
  [Ops.WHERE]: 3,
};

/** The ops of a dtype: arithmetic of bools is logic. */
export function opsOf(d: DType): readonly Ops[] {
  const ops: Ops[] = [...ANY_OPS];
  if (d.isInt) ops.push(...INT_OPS);
  if (!d.isFloat) ops.push(...BIT_OPS);
  if (d.isUnsigned) ops.push(Ops.FLOORDIV, Ops.FLOORMOD);
  if (d.isFloat) ops.push(...FLOAT_OPS, Ops.MULACC);
  return ops;
}

/** `op` of what slots 1, 2 and 3 hold at `at`, `d` being the dtype of the operands. */
export function applied(op: Ops, d: DType, at: UOp, operands?: readonly UOp[]): UOp {
  const [a, b, c] = operands ?? [1, 2, 3].map((slot) => read(slot, d, at));
  if (op === Ops.WHERE) return uop(Ops.CMPLT, bool.vec(d.count), [a, b]).where(b, c);
  const isComparison = op === Ops.CMPLT || op === Ops.CMPNE || op === Ops.CMPEQ;
  return uop(op, isComparison ? bool.vec(d.count) : d, [a, b, c].slice(0, ARITY[op] ?? 2));
}

/** One op of one dtype, `lanes` at a time. */
export function opProgram(op: Ops, d: DType, lanes = 1): LinearProgram {
  const at = thread().mul(lanes);
  return program(`${opName[op]}_${d}_${lanes}`, write(applied(op, d.vec(lanes), at), at));
}

function withConstant(op: Ops, d: DType): LinearProgram {
  const at = thread(), x = read(1, d, at), c = constant(op === Ops.SHL || op === Ops.SHR ? 3 : 1, d);
  const z = constant(d.isFloat ? -Infinity : 0, d);
  return program(`${opName[op]}_${d}_const`, write(applied(op, d, at, [x, c, z]), at));
}

function castProgram(from: DType, to: DType, lanes: number, op: Ops = Ops.CAST): LinearProgram {
  const at = thread().mul(lanes), x = read(1, from.vec(lanes), at);
  return program(`${opName[op]}_${from}_${to}_${lanes}`, write(uop(op, to.vec(lanes), [x]), at));
}

/** Lanes of a vector of 16 bytes. */
export function lanesOf(d: DType): number {
  return 128 / d.bits;
}

function gated(d: DType, lanes: number): LinearProgram {
  const i = thread(), at = i.mul(lanes), out = i.mul(3 * lanes), gate = i.lt(7), x = d.vec(lanes);
  const plain = read(1, x, at, gate), other = read(2, x, at.add(lanes), gate, read(3, x, at));
  const fixed = read(4, x, at, gate, constant(1, x));
  return program(
    `gated_${d}_${lanes}`,
    write(plain, out),
    write(other, out.add(lanes)),
    write(fixed, out.add(2 * lanes)),
  );
}

/** Adds up in an accumulator, a vector of lanes at a time, over a loop. */
function loopProgram(d: DType, lanes: number, end: UOp): LinearProgram {
  const x = d.vec(lanes), i = thread(), k = range(end, 0, AxisKind.REDUCE);
  const acc = uop(Ops.ACC, x, [constant(0, x), k], new AccArg(0));
  const at = k.mul(lanes).add(i.mul(8 * lanes));
  const before = uop(Ops.LOAD, x, [acc, k]), next = before.add(read(1, x, at));
  const set = uop(Ops.STORE, v, [acc, next]), done = uop(Ops.END, v, [k]), after = uop(Ops.LOAD, x, [acc, set]);
  const head = toposort([i, end, acc.src[0]]);
  const inside = toposort(set).filter((u) => !head.includes(u) && u !== acc && u !== k && u.op !== Ops.PARAM);
  const list = [...head, param(1, d, ELEMENTS), acc, k, ...inside, done, after];
  const rest = toposort(write(after, i.mul(lanes))).filter((u) => !list.includes(u));
  const params = rest.filter((u) => u.op === Ops.PARAM);
  return programOf(`loop_${d}_${lanes}_${end.op}`, [...params, ...list, ...rest.filter((u) => !params.includes(u))]);
}

/** Stores under a condition. */
function conditional(): LinearProgram {
  const i = thread(48), n = variable("n", 0, 100), gate = i.lt(n), x = read(1, float32, i);
  const open = uop(Ops.IF, v, [gate]), set = write(x.mul(2), i), close = uop(Ops.ENDIF, v, [open]);
  const body = toposort([gate, set]).filter((u) => u !== set);
  return programOf("conditional", [...body, open, set, close]);
}

/** Through memory of the thread or of the group, then read by another thread. */
function localProgram(d: DType, scope: "thread" | "shared", lanes: number): LinearProgram {
  const memory = uop(Ops.LOCAL, d, [], new LocalArg(0, 512, scope)), i = thread(), x = d.vec(lanes);
  const second = uop(Ops.LOCAL, d, [], new LocalArg(1, 40, scope));
  const set = store(index(memory, i.mul(lanes)), read(1, x, i.mul(lanes)));
  const set2 = store(index(second, i), read(2, d, i));
  const wait = uop(Ops.BARRIER, v, [set, set2]);
  const there = uop(Ops.AFTER, d, [memory, wait]), there2 = uop(Ops.AFTER, d, [second, wait]);
  const mirror = scope === "thread" ? i.mul(lanes) : i.mul(-lanes).add(31 * lanes);
  const y = uop(Ops.LOAD, x, [index(there, mirror)]);
  const z = uop(Ops.LOAD, d, [index(there2, i.cast(int64))]);
  return program(`local_${d}_${scope}_${lanes}`, write(y, mirror), write(z, i.add(32 * lanes)));
}

function shuffleProgram(d: DType): LinearProgram {
  const i = thread(), x = read(1, d, i);
  const other = uop(Ops.SHUFFLE, d, [x], 16), sum = d.isBool ? x.or(other) : x.add(other);
  return program(`shuffle_${d}`, write(i.lt(16).where(uop(Ops.SHUFFLE, d, [sum], 8), sum), i));
}

/** A product of tiles whose fragments are read from global memory, in a loop over `k`. */
function matrixProgram(unit: TensorCore): LinearProgram {
  const i = thread(), [na, nb] = [elementsOf(unit.a), elementsOf(unit.b)], c = unit.output.vec(4);
  const gather = (slot: number, n: number): UOp =>
    uop(
      Ops.VECTORIZE,
      unit.input.vec(n),
      Array.from({ length: n }, (_, l) => read(slot, unit.input, i.add(37 * l))),
    );
  const whole = (slot: number, n: number): UOp => read(slot, unit.input.vec(n), i.mul(n));
  const first = uop(Ops.WMMA, c, [gather(1, na), whole(2, nb), constant(0, c)], unit);
  const second = uop(Ops.WMMA, c, [whole(1, na), gather(2, nb), first], unit);
  return program(`matrix_${unit.name}_${unit.input}`, write(second, i.mul(4)));
}

/** Tiles through shared memory by asynchronous copies, fed to a matrix unit by LDMATRIX. */
export function pipelined(d: DType, unit: TensorCore): LinearProgram {
  const memory = uop(Ops.LOCAL, d, [], new LocalArg(0, 1024, "shared")), i = thread(), n = variable("n", 0, 32);
  const copy = uop(Ops.ASYNC_COPY, v, [
    index(memory, i.mul(8)),
    index(param(1, d, ELEMENTS), i.mul(8)),
  ], 16);
  const guarded = uop(Ops.ASYNC_COPY, v, [
    index(memory, i.mul(8).add(256)),
    index(param(2, d, ELEMENTS), i.mul(8)),
    i.lt(n),
  ], 16);
  const commit = uop(Ops.ASYNC_COMMIT, v, [copy, guarded]), wait = uop(Ops.ASYNC_WAIT, v, [commit], 0);
  const there = uop(Ops.AFTER, d, [memory, uop(Ops.BARRIER, v, [wait])]);
  const a = uop(Ops.LDMATRIX, d.vec(8), [index(there, i.mul(8))], "");
  const b = uop(Ops.LDMATRIX, d.vec(8), [index(there, i.mul(8).add(256))], "trans");
  const c = float32.vec(4);
  const acc = uop(Ops.ACC, c, [constant(0, c)], new AccArg(0)), zero = uop(Ops.LOAD, c, [acc, acc]);
  const half = (from: number): UOp =>
    uop(
      Ops.VECTORIZE,
      d.vec(4),
      [0, 1, 2, 3].map((l) => uop(Ops.EXTRACT, d, [b], from + l)),
    );
  const first = uop(Ops.WMMA, c, [a, half(0), zero], unit), set = uop(Ops.STORE, v, [acc, first]);
  const value = uop(Ops.LOAD, c, [acc, set]), second = uop(Ops.WMMA, c, [a, half(4), value], unit);
  const out = d === float16 ? second.cast(d.vec(4)) : second;
  return program(`pipelined_${d}`, write(out, i.mul(4)));
}

/** Copies of 4 and 8 bytes. */
function smallCopies(): LinearProgram {
  const memory = uop(Ops.LOCAL, float32, [], new LocalArg(0, 128, "shared")), i = thread();
  const copies = [4, 8].map((bytes) =>
    uop(Ops.ASYNC_COPY, v, [
      index(memory, i.mul(bytes >> 2).add(bytes * 8 - 32)),
      index(param(1, float32, ELEMENTS), i.mul(bytes >> 2)),
    ], bytes)
  );
  const wait = uop(Ops.ASYNC_WAIT, v, [uop(Ops.ASYNC_COMMIT, v, copies)], 0);
  const there = uop(Ops.AFTER, float32, [memory, uop(Ops.BARRIER, v, [wait])]);
  return program("small_copies", write(uop(Ops.LOAD, float32, [index(there, i.add(1))]), i));
}

/** Indices of every kind: groups, 64 bits, large constants, variables of several dtypes. */
function indices(): LinearProgram[] {
  const i = thread(8, 1), g = uop(Ops.SPECIAL, int32, [int(7)], "gidx2"), at = g.mul(8).add(i);
  const s = variable("s", 0, 1, float32), b = variable("flag", 0, 1, bool), q = variable("q", 0, 2 ** 40, int64);
  const x = read(1, float32, at.cast(int64).add(q)).mul(s);
  const far = read(2, float32, constant(2 ** 12, int64)), near = read(2, float32, int(3));
  return [
    program("index_64", write(b.where(x, far.add(near)), at.cast(int64).mul(3).add(5))),
    program("scalar", write(read(1, float32, int(0)).add(1), int(0))),
    program("half_variable", write(variable("h", 0, 1, float16).cast(float32), int(0))),
  ];
}

/** EXP2 as exponentials have it, and words of two rounded floats. */
function idioms(): LinearProgram[] {
  const i = thread(), x = read(1, float32, i), list: LinearProgram[] = [];
  list.push(program("natural_exponential", write(x.mul(Math.fround(Math.LOG2E)).exp2(), i)));
  for (const d of [float16, bfloat16]) {
    const y = read(1, d.vec(8), i.mul(8));
    const lanes = Array.from({ length: 8 }, (_, l) => uop(Ops.EXTRACT, d, [y], l).cast(float32).mul(2).cast(d));
    list.push(program(`words_${d}`, write(uop(Ops.VECTORIZE, d.vec(8), lanes), i.mul(8))));
    list.push(program(`half_${d}`, write(uop(Ops.VECTORIZE, d.vec(4), lanes.slice(2, 6)), i.mul(4))));
  }
  const bits = read(1, uint32, i);
  list.push(program("constants", write(bits.xor(2 ** 31).add(2 ** 32 - 5), i), write(bits.shr(bits), i.add(64))));
  return list;
}

/** Programs that every renderer of a CUDA device writes. `hasFunctions` false: without EXP2, LOG2 and SIN. */
export function gpuPrograms(hasFunctions: boolean): LinearProgram[] {
  const list: LinearProgram[] = [];
  const isKnown = (op: Ops): boolean => hasFunctions || (op !== Ops.EXP2 && op !== Ops.LOG2 && op !== Ops.SIN);
  for (const d of SCALARS) {
    for (const op of opsOf(d)) {
      if (!isKnown(op)) continue;
      list.push(opProgram(op, d), opProgram(op, d, lanesOf(d)), withConstant(op, d));
    }
    for (const to of SCALARS) {
      list.push(castProgram(d, to, 1));
      if (d.bits !== to.bits) continue;
      list.push(castProgram(d, to, lanesOf(d)));
      if (!to.isBool || d === to) list.push(castProgram(d, to, 1, Ops.BITCAST)); // other bytes than 0 and 1 are no bools
    }
    for (const lanes of new Set([1, Math.max(1, 32 / d.bits), lanesOf(d)])) list.push(gated(d, lanes));
    if (d.bits === 8) list.push(opProgram(Ops.ADD, d, 2), gated(d, 2));
    list.push(shuffleProgram(d));
    for (const scope of ["thread", "shared"] as const) {
      list.push(localProgram(d, scope, 1), localProgram(d, scope, lanesOf(d)));
    }
    list.push(loopProgram(d, 1, int(8)), loopProgram(d, lanesOf(d), variable("n", 0, 8)));
  }
  list.push(castProgram(float32, float16, 4), castProgram(float32, bfloat16, 4), castProgram(float16, float32, 4));
  list.push(conditional(), smallCopies(), ...indices(), ...idioms().slice(hasFunctions ? 0 : 1));
  for (const unit of [MMA_F16, MMA_BF16, MMA_TF32, MMA_INT8]) list.push(matrixProgram(unit));
  list.push(pipelined(float16, MMA_F16), pipelined(bfloat16, MMA_BF16));
  return list;
}
