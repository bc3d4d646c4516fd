/**
 * The one table of ops: arity and facts about each. `Ops` is a plain object of small integers; facts are unpacked once
 * into typed arrays indexed by op.
 *
 * Stages: T tensor graph, K kernel AST, P linear program (what renderers see). `spec.ts` checks them.
 *
 * @module
 */

/** Every op, by name. Order is stable; the numbers are not serialized anywhere. */
export const Ops = {
  // leaves
  CONST: 0, // T K P: arg ConstValue; any dtype, a vector dtype is a splat. Rank 0 in the tensor graph
  BUFFER: 1, // T: arg BufferArg (storage, version); never interned; shape [size]
  VARIABLE: 2, // T K P: arg VariableArg; a scalar argument of the kernel
  IOTA: 3, // T: arg n; shape [n]; 0, 1, ..., n-1
  PARAM: 4, // K P: arg ParamArg; a buffer argument of the kernel
  RANGE: 5, // K P: src [end]; arg RangeArg; a loop variable, int32 or int64
  SPECIAL: 6, // P: src [end]; arg name: a hardware index, int32. "gidx0" to "gidx2": the group; "lidx0" to "lidx2": the thread in it
  LOCAL: 7, // P: arg LocalArg; memory of the kernel itself (register array, thread's or shared)
  ACC: 8, // P: src [identity, ...reduce ranges]; arg AccArg; an accumulator, initialized outside those ranges
  // structure
  SINK: 9, // T K: the roots; arg undefined or KernelInfo
  AFTER: 10, // T: src [storage node, ...STOREs]: the value of src[0] after the writes. P: src[0] ordered after src[1:]
  BIND: 11, // T: src [VARIABLE, CONST]: a variable with its value now
  TUPLE: 12, // any: several values
  GETTUPLE: 13, // K: src [tuple-valued REDUCE] or [REDUCE of rows, range of elements]; arg lane index
  GROUP: 14, // any: several effects
  // movement (T)
  RESHAPE: 15, // arg ShapeArg
  EXPAND: 16, // arg ShapeArg; same rank, 1 -> n
  PERMUTE: 17, // arg AxesArg (order)
  PAD: 18, // arg PairsArg (before, after), both >= 0; pads with zero
  SHRINK: 19, // arg PairsArg (start, stop)
  FLIP: 20, // arg AxesArg (axes)
  UNSKEW: 65, // arg SkewArg; out[o, k] = x[o * stride + k * dilation, k]: windows of a repeated axis
  SKEW: 66, // arg SkewArg; its adjoint: out[i, k] = x[(i - k * dilation) / stride, k] where there is one, else zero
  WINDOW: 73, // src [x, start, size]; arg WindowArg; out[i] = x[i + start] along an axis, zero where x has no such element;
  // start and size are rank-0 integers that may be variables: the one op that gives an axis a symbolic extent (extent.ts)
  // effects and boundaries (T)
  CONTIGUOUS: 21, // own buffer
  CONTIGUOUS_BACKWARD: 22, // identity; its gradient is contiguous. With a number as arg nothing but a node of its own
  DETACH: 23, // identity; no gradient
  CHECKPOINT: 72, // src [value, ...inputs]; the value, whose gradient computes it from the inputs again
  COPY: 24, // src [x]; arg device name
  CUSTOM: 74, // src the buffers of a kernel of the user's, by slot; arg CustomArg. An effect, as STORE is
  SHARD: 79, // src [x]; arg Sharding: the value of x, divided so over the devices of a mesh. Gone before scheduling
  COLLECTIVE: 78, // src [x]; arg CollectiveArg: shards of several devices become others; both are memory
  COMPLEX: 77, // src [pairs of floats, a last axis of size 2]; their shape without it. The one node of a complex dtype
  // reduce
  REDUCE: 25, // T: src [x]; arg ReduceArg (axes kept as size 1). K: src [...lifts, ...ranges]; arg CarrierArg
  // memory
  INDEX: 26, // K P: src [PARAM|LOCAL|STAGE|AFTER, index, gate?]; index is flat, in elements
  LOAD: 27, // K P: src [INDEX, alt?] (alt where the gate is false, else 0). P also: src [ACC, order]
  STORE: 28, // T: src [target view, value]. K P: src [INDEX, value]. P also: src [ACC, value]
  STAGE: 29, // K: src [value, ...ranges]; arg StageArg; the value over those ranges, kept in scope memory
  // control (P)
  END: 30, // src [RANGE]
  IF: 31, // src [condition]; arg tells blocks of one condition apart
  ENDIF: 32, // src [IF]
  BARRIER: 33, // src what comes before; all threads of the group wait for each other and see each other's shared memory.
  // arg n (0 where absent): so many batches of WMMAs that read it may still be on their way
  SHUFFLE: 67, // src [value]; arg mask: the value of lane (own lane XOR mask) of the warp. All lanes take part
  ASYNC_COPY: 68, // src [INDEX of shared LOCAL, INDEX of PARAM, gate?]; arg bytes (4, 8, 16): starts a copy; zeros without gate
  ASYNC_COMMIT: 69, // src what comes before; closes a batch of ASYNC_COPYs of this thread
  ASYNC_WAIT: 70, // src what comes before; arg n: waits until at most n batches of this thread are still on their way
  TENSOR_MAP: 81, // src [PARAM]; arg TensorMapArg; how a copy engine sees a buffer: made before a launch, which passes it
  // starts a copy of a box, one thread of the group for all. K: src [TENSOR_MAP, ...position of its first element by axis],
  // arg the CopyEngine: the value of a STAGE. P: src [INDEX of shared LOCAL, INDEX of its MBARRIER, gate, TENSOR_MAP, ...position]; zeros outside
  ASYNC_BOX: 82,
  MBARRIER: 83, // src [INDEX of shared LOCAL of int64, gate or phase, ...what comes before]; arg "init" (where the gate holds;
  // for one thread), n (where it holds, that thread has n bytes of ASYNC_BOXes come in this phase), or "wait": until phase
  // 0 or 1 is complete
  // vectors (K P)
  VECTORIZE: 34, // src n scalars: lanes
  BROADCAST: 35, // src [scalar]; all lanes alike
  EXTRACT: 36, // src [vector]; arg lane
  LANES: 76, // P: src [a, b], vectors alike; arg AxesArg: a vector of lanes of both, where those of b follow those of a
  // unary
  CAST: 37,
  BITCAST: 38, // same itemsize, except T where the last axis is rescaled
  EXP2: 39, // arg "flush": what is below the least normal number may be 0; "rounded": caps.roundedOps
  LOG2: 40,
  SIN: 41,
  COS: 75,
  SQRT: 42,
  TRUNC: 43,
  NEG: 44, // P only, introduced late
  // binary
  ADD: 45,
  MUL: 46,
  SUB: 47, // P only, introduced late; a - b is a + b * -1
  FDIV: 48, // floats; arg "rounded": caps.roundedOps; "reciprocal": also, 0 where it is by more than 2^126
  MAX: 49, // NaN if either is NaN
  FLOORDIV: 50, // ints, as Python's //
  FLOORMOD: 51, // ints, as Python's %
  CDIV: 52, // ints, toward zero
  CMOD: 53, // ints, sign of the dividend
  CMPLT: 54,
  CMPNE: 55,
  CMPEQ: 56,
  AND: 57,
  OR: 58,
  XOR: 59,
  SHL: 60,
  SHR: 61, // arithmetic for signed
  // ternary
  WHERE: 62,
  MULACC: 63, // P only: a * b + c, fused where the device fuses
  DOT: 84, // int32, K and P: c and the sum of the four products of a byte of a, unsigned, and one of b, signed. Wraps
  // matrix units
  WMMA: 64, // P: src [a, b, c], each the thread's elements of a tile as a vector; arg TensorCore: a * b + c.
  // Where the unit reads shared memory, b and most a are INDEXes of a tile's first element there.
  // K: src [a, b, element, element of a, element of b], VECTOR ranges that count a thread's elements: one of a * b. The last
  // two are missing where the unit reads that operand in shared memory: it is a LOAD of a tile's first element
  UNIT: 80, // P: orders WMMAs that read shared memory; src what they find in registers, later the ACCs that they add to; arg "begin" | "commit" (a batch of them), "publish" (what the
  // thread wrote to shared memory is seen by them), "found" (behind a loop: what it found in registers), or n: waits until at
  // most n batches are still on their way
  LDMATRIX: 71, // P: src [INDEX of shared LOCAL (a row of 8 16-bit elements a lane)]; arg "" or "trans"; four 8x8 tiles, as mma holds them
} as const;

/** One of {@linkcode Ops}. */
export type Ops = (typeof Ops)[keyof typeof Ops];

/** Flags of {@linkcode opFlags}. */
const COMMUTATIVE = 1, ASSOCIATIVE = 2, COMPARISON = 4, MOVEMENT = 8, IDEMPOTENT = 16, BOUNDARY = 32;
/** More flags: what has the value of its source, and what threads must reach together. */
const SAME = 1024, COLLECTIVE = 2048;
/**
 * More flags, of ALU ops. What operands may be: FLOATS alone, INTEGERS alone, no floats (BITS); all where none of them
 * stands. FUNCTION: of one float, called by its name in lower case in most languages.
 */
export const FLOATS = 64, INTEGERS = 128, BITS = 256, FUNCTION = 512;

/** Any number of sources. */
const N = -1;
/**
 * ALU ops are unary (1), binary or ternary. Their work is 1 where none stands: functions and divisions are sequences of
 * instructions, a bitcast is none.
 */
const TABLE: Record<keyof typeof Ops, readonly [arity: number, flags: number, alu: 0 | 1 | 2 | 3, work?: number]> = {
  CONST: [0, 0, 0],
  BUFFER: [0, 0, 0],
  VARIABLE: [0, 0, 0],
  IOTA: [0, 0, 0],
  PARAM: [0, 0, 0],
  RANGE: [1, 0, 0],
  SPECIAL: [1, 0, 0],
  LOCAL: [0, 0, 0],
  ACC: [N, 0, 0],
  SINK: [N, 0, 0],
  AFTER: [N, 0, 0],
  BIND: [2, 0, 0],
  TUPLE: [N, 0, 0],
  GETTUPLE: [N, 0, 0],
  GROUP: [N, 0, 0],
  RESHAPE: [1, MOVEMENT, 0],
  EXPAND: [1, MOVEMENT, 0],
  PERMUTE: [1, MOVEMENT, 0],
  PAD: [1, MOVEMENT, 0],
  SHRINK: [1, MOVEMENT, 0],
  FLIP: [1, MOVEMENT, 0],
  UNSKEW: [1, MOVEMENT, 0],
  SKEW: [1, MOVEMENT, 0],
  WINDOW: [3, MOVEMENT, 0],
  CONTIGUOUS: [1, BOUNDARY | SAME, 0],
  CONTIGUOUS_BACKWARD: [1, SAME, 0],
  DETACH: [1, SAME, 0],
  CHECKPOINT: [N, SAME, 0],
  COPY: [1, BOUNDARY | SAME, 0],
  CUSTOM: [N, BOUNDARY, 0],
  SHARD: [1, BOUNDARY | SAME, 0],
  COLLECTIVE: [1, BOUNDARY, 0],
  COMPLEX: [1, 0, 0],
  REDUCE: [N, 0, 0],
  INDEX: [N, 0, 0],
  LOAD: [N, 0, 0],
  STORE: [2, 0, 0],
  STAGE: [N, 0, 0],
  END: [1, 0, 0],
  IF: [1, 0, 0],
  ENDIF: [1, 0, 0],
  BARRIER: [N, COLLECTIVE, 0],
  SHUFFLE: [1, COLLECTIVE, 0],
  ASYNC_COPY: [N, COLLECTIVE, 0],
  ASYNC_COMMIT: [N, COLLECTIVE, 0],
  ASYNC_WAIT: [N, COLLECTIVE, 0],
  TENSOR_MAP: [1, 0, 0],
  ASYNC_BOX: [N, COLLECTIVE, 0],
  MBARRIER: [N, COLLECTIVE, 0],
  VECTORIZE: [N, 0, 0],
  BROADCAST: [1, 0, 0],
  EXTRACT: [1, 0, 0],
  LANES: [2, 0, 0],
  CAST: [1, 0, 1],
  BITCAST: [1, 0, 1, 0],
  EXP2: [1, FLOATS | FUNCTION, 1, 12],
  LOG2: [1, FLOATS | FUNCTION, 1, 12],
  SIN: [1, FLOATS | FUNCTION, 1, 48],
  COS: [1, FLOATS | FUNCTION, 1, 48],
  SQRT: [1, FLOATS | FUNCTION, 1, 4],
  TRUNC: [1, FUNCTION, 1],
  NEG: [1, 0, 1],
  ADD: [2, COMMUTATIVE | ASSOCIATIVE, 2],
  MUL: [2, COMMUTATIVE | ASSOCIATIVE, 2],
  SUB: [2, 0, 2],
  FDIV: [2, FLOATS, 2, 4],
  MAX: [2, COMMUTATIVE | ASSOCIATIVE | IDEMPOTENT, 2],
  FLOORDIV: [2, INTEGERS, 2, 6],
  FLOORMOD: [2, INTEGERS, 2, 6],
  CDIV: [2, 0, 2, 6],
  CMOD: [2, 0, 2, 6],
  CMPLT: [2, COMPARISON, 2],
  CMPNE: [2, COMPARISON | COMMUTATIVE, 2],
  CMPEQ: [2, COMPARISON | COMMUTATIVE, 2],
  AND: [2, COMMUTATIVE | ASSOCIATIVE | IDEMPOTENT | BITS, 2],
  OR: [2, COMMUTATIVE | ASSOCIATIVE | IDEMPOTENT | BITS, 2],
  XOR: [2, COMMUTATIVE | ASSOCIATIVE | BITS, 2],
  SHL: [2, INTEGERS, 2],
  SHR: [2, INTEGERS, 2],
  WHERE: [3, 0, 3],
  MULACC: [3, 0, 3],
  DOT: [3, INTEGERS, 3],
  WMMA: [N, COLLECTIVE, 0],
  LDMATRIX: [1, COLLECTIVE, 0],
  UNIT: [N, COLLECTIVE, 0],
};

const names = Object.keys(Ops) as (keyof typeof Ops)[];

/** Number of ops. */
export const OP_COUNT: number = names.length;
/** Name of each op. */
export const opName: readonly string[] = names.slice().sort((a, b) => Ops[a] - Ops[b]);
/** Number of sources of each op; −1 for any. */
export const opArity: Int8Array = new Int8Array(OP_COUNT);
/** Flags of each op. */
export const opFlags: Uint16Array = new Uint16Array(OP_COUNT);
/** 1, 2 or 3 for unary, binary and ternary ALU ops (casts included); 0 for all others. */
const opAlu: Uint8Array = new Uint8Array(OP_COUNT);
/** About the instructions that an op takes for one element, or one vector; 0 for what is no arithmetic. */
export const opWork: Uint8Array = new Uint8Array(OP_COUNT);
for (const name of names) {
  const [arity, flags, alu, work = 1] = TABLE[name];
  opArity[Ops[name]] = arity;
  opFlags[Ops[name]] = flags;
  opAlu[Ops[name]] = alu;
  if (alu > 0) opWork[Ops[name]] = work;
}
/** Functions of one float: those with the flag {@linkcode FUNCTION}. */
export const FUNCTION_OPS: readonly Ops[] = names.map((name) => Ops[name]).filter((op) => opFlags[op] & FUNCTION);

/** True for elementwise ops: unary, binary, ternary. */
export function isAlu(op: Ops): boolean {
  return opAlu[op] > 0;
}
/** True for RESHAPE, EXPAND, PERMUTE, PAD, SHRINK, FLIP, UNSKEW, SKEW, WINDOW: what they move is `src[0]`. */
export function isMovement(op: Ops): boolean {
  return (opFlags[op] & MOVEMENT) !== 0;
}
/** True for what has the value of `src[0]`, for the scheduler or for gradients: CONTIGUOUS, DETACH, CHECKPOINT, COPY, .... */
export function isSame(op: Ops): boolean {
  return (opFlags[op] & SAME) !== 0;
}
/** True for what all threads of a group or warp must reach together: BARRIER, SHUFFLE, WMMA, LDMATRIX, ASYNC_COPY, .... */
export function isCollective(op: Ops): boolean {
  return (opFlags[op] & COLLECTIVE) !== 0;
}
/** True for what shows the memory of `src[0]` in another way: movement, DETACH, CONTIGUOUS_BACKWARD, BITCAST, COMPLEX. */
export function isView(op: Ops): boolean {
  return isMovement(op) || op === Ops.DETACH || op === Ops.CONTIGUOUS_BACKWARD || op === Ops.BITCAST ||
    op === Ops.COMPLEX;
}
/** True where both orders of the sources mean the same. */
export function isCommutative(op: Ops): boolean {
  return (opFlags[op] & COMMUTATIVE) !== 0;
}
/** True for CMPLT, CMPNE, CMPEQ. */
export function isComparison(op: Ops): boolean {
  return (opFlags[op] & COMPARISON) !== 0;
}
