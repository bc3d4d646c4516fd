/**
 * The node. One type from the tensor graph to the linear program; hash-consed: same op, dtype, sources and arg mean the
 * same object, so `===` is equality (of nodes interned in one generation) and a Map keyed by node is a memo.
 * The node holds no analysis; functions memoize in the slots declared here.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { mix } from "../../helpers/hash.ts";
import type { Line } from "../../helpers/stack.ts";
import {
  type Arg,
  BufferArg,
  type ConstValue,
  hashArg,
  Int64,
  ParamArg,
  RangeArg,
  sameArg,
  type Storage,
  VariableArg,
} from "./args.ts";
import type { AxisKind } from "./args.ts";
import { Arithmetic } from "./arithmetic.ts";
import { isComparison, opName, Ops } from "./ops.ts";

let made = 0;
/** How many nodes have been made so far. */
export function nodesMade(): number {
  return made;
}

/** By axis: how many elements there are, where that is no constant. */
export type Extents = readonly (UOp | undefined)[];

/** A node of the graph. Make one with {@linkcode uop} or a method, never with `new`. */
export class UOp extends Arithmetic<UOp> {
  /** What it does. */
  readonly op: Ops;
  /** The dtype of its value. */
  readonly dtype: DType;
  /** What it is computed from. */
  readonly src: readonly UOp[];
  /** What else it needs to know: a number, a text or a record. */
  readonly arg: Arg;
  /** Of op, dtype, sources and arg. */
  readonly hash: number;
  /** Memo of `shapeOf` (shape.ts); null where a node has no shape. */
  shapeMemo: readonly number[] | null | undefined;
  /** Memo of `extentsOf` (extent.ts); null where all axes have the extent that the shape says. */
  extentMemo: Extents | null | undefined;
  /** Memo of `deviceOf` (shape.ts). */
  deviceMemo: string | null | undefined;
  /** Memo of `rangesOf` (ranges.ts): the free ranges below. */
  rangesMemo: readonly UOp[] | undefined;
  /** Memo of `closedRangesOf` (ranges.ts): the ranges below that some node closes. */
  closedMemo: readonly UOp[] | undefined;
  /** Memos of `boundsOf` (bounds.ts). */
  minMemo: number | undefined;
  /** The upper bound. */
  maxMemo: number | undefined;
  /** Bit set of the ops of the sources (two words), for early reject; by matcher.ts. */
  srcMask0: number;
  /** The second word. */
  srcMask1: number;
  /** Bit set of the ops of this node and of all below it (numbers modulo 64), to leave alone what no rule can match. */
  below0: number;
  /** The second word. */
  below1: number;
  /** Bit set of the matchers that are known to change neither it nor what is below it (`settles` in matcher.ts). */
  settled: number;
  /** Slot of the running rewrite (NodeMemo in rewrite.ts): who uses it (0: nobody), and what this node becomes. */
  memoOwner: number;
  /** What this node becomes. */
  memoValue: UOp | undefined;
  /** The walk (of `toposort`) that has seen it last. */
  walk: number;
  /** Its position in the list of the pass that runs: it is in `list` where `list[u.at] === u`. */
  at: number;
  /** What a realized node is now: read it through. Set by the scheduler only. */
  becomes: UOp | undefined;
  /** Handles that hold what this node will become; counted on the Storage once there is one. */
  claims: number;
  /** Handles made of it. */
  names: number;
  /** The user's line that made it, where recorded. */
  line: Line | undefined;
  /** Nodes made before this one: tells what is older than a scope. */
  readonly seq: number;

  /** Internal: use {@linkcode uop}. */
  constructor(op: Ops, dtype: DType, src: readonly UOp[], arg: Arg, hash: number) {
    super();
    this.op = op;
    this.dtype = dtype;
    this.src = src;
    this.arg = arg;
    this.hash = hash;
    this.shapeMemo = undefined;
    this.extentMemo = undefined;
    this.deviceMemo = undefined;
    this.rangesMemo = undefined;
    this.closedMemo = undefined;
    this.minMemo = undefined;
    this.maxMemo = undefined;
    let m0 = 0, m1 = 0, b0 = 0, b1 = 0;
    if ((op & 32) === 0) b0 = 1 << (op & 31);
    else b1 = 1 << (op & 31);
    for (let i = 0; i < src.length; i++) {
      const s = src[i], o = s.op;
      if (o < 32) m0 |= 1 << o;
      else m1 |= 1 << (o & 31);
      b0 |= s.below0;
      b1 |= s.below1;
    }
    this.srcMask0 = m0;
    this.srcMask1 = m1;
    this.below0 = b0;
    this.below1 = b1;
    this.settled = 0;
    this.memoOwner = 0;
    this.memoValue = undefined;
    this.walk = 0;
    this.at = 0;
    this.becomes = undefined;
    this.claims = 0;
    this.names = 0;
    this.line = undefined;
    this.seq = made++;
  }

  /** Applies `op`: comparisons give bool, WHERE the dtype of its second source, all others this dtype. */
  alu(op: Ops, ...src: (UOp | number)[]): UOp {
    const first = op === Ops.WHERE ? src[0] as UOp : this;
    const all = new Array<UOp>(src.length + 1);
    all[0] = this;
    for (let i = 0; i < src.length; i++) {
      const s = src[i];
      all[i + 1] = typeof s === "number" ? constant(s, first.dtype) : s;
    }
    if (this.dtype.isComplex) return pairs.node(op, first.dtype, all, undefined);
    const dtype = isComparison(op) ? dtypes.bool.vec(this.dtype.count) : first.dtype;
    return uop(op, dtype, all);
  }
  /** The value in another dtype; this node where it has it. */
  cast(dtype: DType): UOp {
    return dtype === this.dtype ? this : converted(Ops.CAST, dtype, this);
  }
  /** The bits in another dtype of the same size. */
  bitcast(dtype: DType): UOp {
    return dtype === this.dtype ? this : converted(Ops.BITCAST, dtype, this);
  }
  /** A constant of this dtype. */
  constLike(value: ConstValue): UOp {
    return constant(value, this.dtype);
  }
  /** This node with other sources; itself when they are the same. */
  withSrc(src: readonly UOp[]): UOp {
    if (sameSrc(src, this.src)) return this;
    return uop(this.op, this.dtype, src, this.arg);
  }
  /** The value of a CONST as a number (64-bit values beyond 2^53 rounded). */
  get value(): number {
    if (!(this.arg instanceof Int64)) return this.arg as number;
    const big = this.arg.toBigInt();
    return Number(this.dtype.isUnsigned ? BigInt.asUintN(64, big) : big);
  }
  /** Whether it is a constant, of `value` if given; -0 is not 0. */
  isConst(value?: number): boolean {
    return this.op === Ops.CONST && (value === undefined || sameArg(this.arg, value));
  }
}

const SMALL_TABLE = 1 << 12;
/** Size up to which a table grows by more than it must, so that few nodes are put in again. */
const FAST_GROWTH = 1 << 16;
/** Nodes up to which a generation is emptied slot by slot. */
const FEW = 256;

/** One generation of the intern table: open addressing, a power of two, at most half full. */
class Table {
  private slots: (UOp | undefined)[];
  /** Hashes of the nodes in the slots, 0 for none: most comparisons need no node. */
  private hashes: Int32Array;
  private mask: number;
  used = 0;
  /** Where the last `find` without success ended. */
  private free = 0;
  /** Slots of the first nodes: few are emptied one by one. */
  private readonly filled: number[] = [];
  constructor(size: number) {
    this.slots = new Array<UOp | undefined>(size).fill(undefined);
    this.hashes = new Int32Array(size);
    this.mask = size - 1;
  }
  find(hash: number, op: Ops, dtype: DType, src: readonly UOp[], arg: Arg): UOp | undefined {
    const { hashes, mask } = this;
    let i = hash & mask;
    for (let h = hashes[i]; h !== 0; h = hashes[i = (i + 1) & mask]) {
      if (h !== hash) continue;
      const u = this.slots[i]!;
      if (u.op === op && u.dtype === dtype && u.becomes === undefined && sameSrc(u.src, src) && sameArg(u.arg, arg)) {
        return u; // never a realized node: what is built anew is computed anew
      }
    }
    this.free = i;
    return undefined;
  }
  /** Adds a node that {@linkcode find} has just not found. */
  insert(u: UOp): void {
    let i = this.free;
    if (this.used * 2 >= this.slots.length) {
      this.grow();
      i = this.freeFor(u.hash);
    }
    this.slots[i] = u;
    this.hashes[i] = u.hash;
    if (this.used++ < FEW) this.filled.push(i);
  }
  /** Empty again; a table that had become much larger than what it held shrinks. */
  clear(): this {
    if (this.slots.length > SMALL_TABLE && this.used * 16 < this.slots.length) return new Table(SMALL_TABLE) as this;
    const { slots, hashes, filled } = this;
    if (this.used > FEW || slots.length > SMALL_TABLE) {
      slots.fill(undefined);
      hashes.fill(0);
    } else {
      for (let k = 0; k < filled.length; k++) {
        slots[filled[k]] = undefined;
        hashes[filled[k]] = 0;
      }
    }
    filled.length = 0;
    this.used = 0;
    return this;
  }
  private freeFor(hash: number): number {
    const { hashes, mask } = this;
    let i = hash & mask;
    while (hashes[i] !== 0) i = (i + 1) & mask;
    return i;
  }
  private grow(): void {
    const { slots, hashes } = this, size = slots.length * (slots.length < FAST_GROWTH ? 4 : 2);
    this.slots = new Array<UOp | undefined>(size).fill(undefined);
    this.hashes = new Int32Array(size);
    this.mask = size - 1;
    for (let k = 0; k < slots.length; k++) {
      if (hashes[k] === 0) continue;
      const i = this.freeFor(hashes[k]);
      this.slots[i] = slots[k];
      this.hashes[i] = hashes[k];
    }
  }
}

function sameSrc(a: readonly UOp[], b: readonly UOp[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

let current = new Table(SMALL_TABLE);
let previous = new Table(SMALL_TABLE);

const NO_SRC: readonly UOp[] = Object.freeze([]);

/** What makes nodes that are complex, or read what is, of real ones: set by graph/complex.ts. */
export const pairs: { node: (op: Ops, dtype: DType, src: readonly UOp[], arg: Arg) => UOp } = {
  node: (op) => {
    throw new SpecError(`graph/complex.ts, which makes complex ${opName[op]}s, is not loaded`);
  },
};

function converted(op: Ops, dtype: DType, x: UOp): UOp {
  return x.dtype.isComplex ? pairs.node(op, dtype, [x], undefined) : uop(op, dtype, [x]);
}

/**
 * The node with these fields: the one that exists, else a new one. Keep `src` unchanged afterwards. Of a complex dtype
 * the COMPLEX of real nodes that has its value.
 */
export function uop(op: Ops, dtype: DType, src: readonly UOp[] = NO_SRC, arg?: Arg): UOp {
  if (dtype.isComplex && op !== Ops.COMPLEX) return pairs.node(op, dtype, src, arg);
  let h = mix(Math.imul(op + 1, 0x85ebca6b) ^ (dtype.id << 8) ^ dtype.count, hashArg(arg));
  for (let i = 0; i < src.length; i++) h = mix(h, src[i].hash);
  if (h === 0) h = 1; // what marks an empty slot
  let u = current.find(h, op, dtype, src, arg);
  if (u !== undefined) return u;
  if (previous.used > 0) u = previous.find(h, op, dtype, src, arg);
  u ??= new UOp(op, dtype, src, arg, h);
  current.insert(u);
  return u;
}

/**
 * `u`, whose sources are of the present generation, as a node of it: one that is equal, or itself. A tensor whose handle
 * names a node of an older generation so sees what the graph of another one makes of it.
 */
export function renewed(u: UOp): UOp {
  const { hash, op, dtype, src, arg } = u;
  const known = current.find(hash, op, dtype, src, arg);
  if (known !== undefined) return known;
  const made = previous.find(hash, op, dtype, src, arg) ?? u;
  current.insert(made);
  return made;
}

/**
 * `root` and all below it as nodes of the present generation: what is built of them meets what they hold. For graphs that are
 * kept while generations pass, as kernels are that are compiled later, or for another device too; they hold no BUFFERs.
 */
export function renewedGraph(root: UOp): UOp {
  const nodes = toposort(root), made = new Map<UOp, UOp>();
  for (const u of nodes) {
    const src = u.src.map((s) => made.get(s)!);
    made.set(u, sameSrc(src, u.src) ? renewed(u) : uop(u.op, u.dtype, src, u.arg));
  }
  return made.get(root)!;
}

let generations = 0;

/** Number of the present generation of the intern table: what holds nodes for reuse drops them when it changes. */
export function generation(): number {
  return generations;
}

/** Starts a new generation of the intern table; what the older one alone held may be collected. At realize only. */
export function rotateInternTable(): void {
  generations++;
  const cleared = previous.clear();
  previous = current;
  current = cleared;
}

/** Starts a new generation where the present one is large: for what makes nodes and realizes none. */
export function trimInternTable(): void {
  if (current.used > SMALL_TABLE / 4) rotateInternTable();
}

/** Nodes in both generations. */
export function internedCount(): number {
  return current.used + previous.used;
}

/** A constant. Bool as 0 or 1; integers are wrapped by the caller (a 64-bit bound as a number is taken exactly); a vector dtype is a splat. */
export function constant(value: ConstValue, dtype: DType): UOp {
  if (value === 0 && !dtype.isFloat) value = 0; // integers have no -0
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER && dtype.isInt) {
    value = Int64.fromBigInt(BigInt(value));
  }
  return uop(Ops.CONST, dtype, NO_SRC, value);
}

/** A constant of float dtype `d`, rounded to it. */
export function floatConst(value: number, d: DType): UOp {
  return constant(d === dtypes.float32 ? Math.fround(value) : value, d);
}

/** The largest int32. */
export const INT32_MAX: number = 2 ** 31 - 1;

/** The dtype of positions on an axis of this size, and of the size: int32, or int64 where that cannot count so far. */
export function positionDType(size: number): DType {
  return size <= INT32_MAX ? dtypes.int32 : dtypes.int64;
}

/** A constant of index arithmetic: int32, or int64 where that cannot hold it. */
export function int(value: number): UOp {
  return uop(Ops.CONST, value <= INT32_MAX && value >= -INT32_MAX - 1 ? dtypes.int32 : dtypes.int64, NO_SRC, value);
}

/** The positions 0, 1, ..., n - 1 of an axis: shape `[n]`, int32 or, where that cannot count so far, int64. */
export function iota(n: number): UOp {
  return uop(Ops.IOTA, positionDType(n), NO_SRC, n);
}

/** A loop variable 0 <= r < end; of a THREAD loop also for those iterations that begin with `first`. */
export function range(end: UOp | number, id: number, kind: AxisKind, sub = 0, first = 0): UOp {
  const e = typeof end === "number" ? int(end) : end;
  return uop(Ops.RANGE, e.dtype, [e], new RangeArg(id, kind, sub, first));
}

let buffers = 0;
/**
 * A BUFFER node: this version of this storage. Not interned by content: each storage has its own arg. Shape `[size]`, or
 * that of the tensor which is divided in it, unless it stands for the shards: `isLocal`.
 */
export function bufferNode(storage: Storage, version: number = storage.version, isLocal: boolean = false): UOp {
  const arg = new BufferArg(storage, version, isLocal);
  // equal to no other node, so with a hash of its own: what stands on the nodes of one memory would collide
  return new UOp(Ops.BUFFER, storage.dtype, NO_SRC, arg, mix(arg.hash, ++buffers));
}

/** A scalar kernel argument with inclusive bounds. */
export function variable(name: string, min: number, max: number, dtype: DType = dtypes.int32): UOp {
  return uop(Ops.VARIABLE, dtype, NO_SRC, new VariableArg(name, min, max));
}

/** A buffer argument of a kernel; `size` in elements. */
export function param(slot: number, dtype: DType, size: number): UOp {
  return uop(Ops.PARAM, dtype, NO_SRC, new ParamArg(slot, size));
}

/** An element of a buffer argument or stage: `gate` false means it must not be touched. */
export function index(base: UOp, idx: UOp, gate?: UOp): UOp {
  return uop(Ops.INDEX, base.dtype, gate === undefined ? [base, idx] : [base, idx, gate]);
}

/** Reads an INDEX. `alt` is the value where the gate is false (0 when absent). */
export function load(at: UOp, alt?: UOp): UOp {
  return uop(Ops.LOAD, at.dtype, alt === undefined ? [at] : [at, alt]);
}

/** Writes an INDEX (or, in the tensor graph, a view). */
export function store(at: UOp, value: UOp): UOp {
  return uop(Ops.STORE, dtypes.void, [at, value]);
}

/** Memory as it is after all that is in `order`. */
export function after(memory: UOp, ...order: readonly UOp[]): UOp {
  return order.length === 0 ? memory : uop(Ops.AFTER, memory.dtype, [memory, ...order]);
}

/** The roots of a graph. */
export function sink(roots: readonly UOp[], arg?: Arg): UOp {
  return uop(Ops.SINK, dtypes.void, roots, arg);
}

/** Could a node of this op be `u` or below it? false is certain. */
export function mayHave(u: UOp, op: Ops): boolean {
  return (((op & 32) === 0 ? u.below0 : u.below1) & 1 << (op & 31)) !== 0;
}

let walks = 0;
/** The nodes above the one that `toposort` is at, and their next sources. */
const above: (UOp | undefined)[] = [], cursors: number[] = [];

/**
 * All nodes below `roots`, sources before users, each once. `enter` false: keep the node, not what is below it; it must
 * not walk a graph itself.
 */
export function toposort(roots: UOp | readonly UOp[], enter?: (u: UOp) => boolean): UOp[] {
  // no other walk runs in between, so that marks in the nodes are as good as a Set, and quicker
  const walk = ++walks, out: UOp[] = [];
  if (!Array.isArray(roots)) visit(roots as UOp, walk, out, enter);
  else for (let i = 0; i < roots.length; i++) visit(roots[i], walk, out, enter);
  return out;
}

function visit(root: UOp, walk: number, out: UOp[], enter: ((u: UOp) => boolean) | undefined): void {
  if (root.walk === walk) return;
  root.walk = walk;
  let u = root, i = enter === undefined || enter(root) ? 0 : root.src.length, depth = 0;
  for (;;) {
    const { src } = u;
    let next: UOp | undefined;
    while (i < src.length) {
      const s = src[i++];
      if (s.walk !== walk) {
        next = s;
        break;
      }
    }
    if (next !== undefined) {
      next.walk = walk;
      if (next.src.length === 0 || (enter !== undefined && !enter(next))) {
        out.push(next);
        continue;
      }
      above[depth] = u;
      cursors[depth++] = i;
      u = next;
      i = 0;
      continue;
    }
    out.push(u);
    if (depth === 0) return;
    u = above[--depth]!;
    above[depth] = undefined;
    i = cursors[depth];
  }
}
