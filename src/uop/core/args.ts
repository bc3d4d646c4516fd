/**
 * The named records that nodes carry as `arg`. Each knows its hash and equality, so that interning never builds a key.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { hashNumber, hashNumbers, hashString, mix } from "../../helpers/hash.ts";
import { sameArray } from "../../helpers/math.ts";
import type { Line } from "../../helpers/stack.ts";
import { opName, type Ops } from "./ops.ts";
import type { CollectiveArg, Sharding } from "./sharding.ts";

/** What every record arg offers. */
export interface ArgRecord {
  /** Equal for equal records. */
  readonly hash: number;
  /** Whether two records are equal. */
  same(other: ArgRecord): boolean;
  /** As printed graphs show it. */
  toString(): string;
}

/** A 64-bit constant beyond 2^53, as two int32 (low word unsigned in meaning). */
export class Int64 implements ArgRecord {
  /** Equal for equal records. */
  readonly hash: number;
  /** The high and the low word. */
  constructor(readonly hi: number, readonly lo: number) {
    this.hash = mix(mix(0x1b873593, hi), lo);
  }
  /** Whether two records are equal. */
  same(o: ArgRecord): boolean {
    return o instanceof Int64 && o.hi === this.hi && o.lo === this.lo;
  }
  /** The signed value. Cold paths only. */
  toBigInt(): bigint {
    return (BigInt(this.hi) << 32n) | BigInt(this.lo >>> 0);
  }
  /** From the low 64 bits of `x`. */
  static fromBigInt(x: bigint): Int64 {
    return new Int64(Number(BigInt.asIntN(32, x >> 32n)), Number(BigInt.asIntN(32, x)));
  }
  /** As printed graphs show it. */
  toString(): string {
    return `${this.toBigInt()}`;
  }
}

/** The value of a CONST: a number (bool as 0 or 1), or Int64 where a 64-bit integer is no safe integer. */
export type ConstValue = number | Int64;

/** A shape: RESHAPE, EXPAND. */
export class ShapeArg implements ArgRecord {
  readonly hash: number;
  /** Sizes of the axes; `apart` tells views of memory apart that gradients are asked of. */
  constructor(readonly shape: readonly number[], readonly apart = 0) {
    this.hash = hashNumbers(shape) ^ apart;
  }
  same(o: ArgRecord): boolean {
    return o instanceof ShapeArg && o.apart === this.apart && sameArray(o.shape, this.shape);
  }
  toString(): string {
    return `[${this.shape.join(", ")}]`;
  }
}

/** Axes: the order of PERMUTE, the axes of FLIP; the lanes of LANES. */
export class AxesArg implements ArgRecord {
  readonly hash: number;
  constructor(readonly axes: readonly number[]) {
    this.hash = hashNumbers(axes) ^ 0x3c6ef372;
  }
  same(o: ArgRecord): boolean {
    return o instanceof AxesArg && sameArray(o.axes, this.axes);
  }
  toString(): string {
    return `[${this.axes.join(", ")}]`;
  }
}

/** A pair of numbers an axis: PAD (before, after), SHRINK (start, stop). */
export class PairsArg implements ArgRecord {
  readonly hash: number;
  constructor(readonly pairs: readonly (readonly [number, number])[]) {
    let h = 0x5be0cd19;
    for (const [a, b] of pairs) h = mix(mix(h, a), b);
    this.hash = h;
  }
  same(o: ArgRecord): boolean {
    if (!(o instanceof PairsArg) || o.pairs.length !== this.pairs.length) return false;
    return this.pairs.every(([a, b], i) => o.pairs[i][0] === a && o.pairs[i][1] === b);
  }
  toString(): string {
    return `[${this.pairs.map(([a, b]) => `[${a}, ${b}]`).join(", ")}]`;
  }
}

/** UNSKEW and SKEW: position axis `axis`, of `size` in the result, is shifted along `kernelAxis`. */
export class SkewArg implements ArgRecord {
  readonly hash: number;
  constructor(
    readonly axis: number,
    readonly kernelAxis: number,
    readonly stride: number,
    readonly dilation: number,
    readonly size: number,
  ) {
    this.hash = hashNumbers([axis, kernelAxis, stride, dilation, size]) ^ 0x71374491;
  }
  same(o: ArgRecord): boolean {
    return o instanceof SkewArg && o.axis === this.axis && o.kernelAxis === this.kernelAxis &&
      o.stride === this.stride &&
      o.dilation === this.dilation && o.size === this.size;
  }
  toString(): string {
    return `axis=${this.axis} by=${this.kernelAxis} stride=${this.stride} dilation=${this.dilation} size=${this.size}`;
  }
}

/** WINDOW: the axis, and how many elements the result may have along it: the largest value of its size. */
export class WindowArg implements ArgRecord {
  readonly hash: number;
  constructor(readonly axis: number, readonly capacity: number) {
    this.hash = mix(mix(0x1f3d5b79, axis), capacity);
  }
  same(o: ArgRecord): boolean {
    return o instanceof WindowArg && o.axis === this.axis && o.capacity === this.capacity;
  }
  toString(): string {
    return `axis=${this.axis} capacity=${this.capacity}`;
  }
}

/** Which axes a tensor-graph REDUCE reduces, and how: op is Ops.ADD, MUL or MAX. Reduced axes stay, with size 1. */
export class ReduceArg implements ArgRecord {
  readonly hash: number;
  /** An op, over these axes. */
  constructor(readonly op: number, readonly axes: readonly number[]) {
    this.hash = mix(hashNumbers(axes), op);
  }
  same(o: ArgRecord): boolean {
    return o instanceof ReduceArg && o.op === this.op && sameArray(o.axes, this.axes);
  }
  toString(): string {
    return `${opName[this.op]} axes=[${this.axes.join(", ")}]`;
  }
}

/**
 * What memory a BUFFER names. `version` counts the writes so far: a BUFFER node of an earlier version is stale.
 * Nodes know no device memory: `device/buffer.ts` gives a Storage its own.
 */
export class Storage {
  private static next = 1;
  /** How often any memory has been overwritten or freed: while it stands, nothing has become stale. */
  static losses = 0;
  /** Counts up; names it in printed graphs. */
  readonly id: number = Storage.next++;
  private writes = 0;
  private gone: Line = "";
  /** Where the last write was asked for ("file.ts:3:5"), for StaleReadError. */
  writtenAt: Line = "";
  /** The last version that an optimizer's step replaced. */
  stepped: number = -1;
  /** `seq` of the oldest node that became it; Infinity while none has. */
  born: number = Infinity;
  /** Handles that hold it: the last one to be disposed frees it. Views and collected handles are not counted down. */
  claims = 0;
  /** Handles of the values that became it: of several, one that is written to must move out. */
  names = 0;
  /** True for host bytes on their way to a device: only the COPY that made it reads it, once. */
  staging = false;
  /** True for whole numbers that were given without a dtype: they are taken as floats where such are expected. */
  weak = false;

  /** Its device memory; device/buffer.ts alone sets and reads it. */
  memory: object | undefined = undefined;
  /** Of memory on several devices: how what it holds is divided. `size` is that of a shard. */
  layout: Sharding | undefined = undefined;

  /** Memory that is yet to be had. @param size in elements */
  constructor(readonly device: string, readonly dtype: DType, readonly size: number) {}

  /** Writes so far. A BUFFER node reads the version it names. */
  get version(): number {
    return this.writes;
  }
  set version(count: number) {
    if (count !== this.writes) Storage.losses++;
    this.writes = count;
  }
  /** Where the user disposed it, "" while alive. */
  get disposedAt(): Line {
    return this.gone;
  }
  set disposedAt(line: Line) {
    Storage.losses++;
    this.gone = line;
  }

  /** Other memory like this. */
  like(): Storage {
    const made = new Storage(this.device, this.dtype, this.size);
    made.layout = this.layout;
    return made;
  }

  /** Bytes of all elements. */
  get nbytes(): number {
    return this.size * this.dtype.itemsize;
  }
}

/** One version of one storage. */
export class BufferArg implements ArgRecord {
  readonly hash: number;
  /** A storage, as some write left it. @param isLocal whether the node is the shard of each device, and not all of it */
  constructor(readonly storage: Storage, readonly version: number, readonly isLocal: boolean = false) {
    this.hash = mix(mix(0x6a09e667, storage.id), version);
  }
  same(o: ArgRecord): boolean {
    return o instanceof BufferArg && o.storage === this.storage && o.version === this.version &&
      o.isLocal === this.isLocal;
  }
  toString(): string {
    return `#${this.storage.id}.${this.version} ${this.storage.device} x${this.storage.size}`;
  }
}

/** A scalar argument, with its bounds (inclusive). */
export class VariableArg implements ArgRecord {
  readonly hash: number;
  /** A name, and the values that it may take. */
  constructor(readonly name: string, readonly min: number, readonly max: number) {
    this.hash = mix(mix(hashString(name), hashNumber(min)), hashNumber(max));
  }
  same(o: ArgRecord): boolean {
    return o instanceof VariableArg && o.name === this.name && Object.is(o.min, this.min) && Object.is(o.max, this.max);
  }
  toString(): string {
    return `${this.name}[${this.min}, ${this.max}]`;
  }
}

/** A buffer argument of a kernel: its slot, and its size in elements. */
export class ParamArg implements ArgRecord {
  readonly hash: number;
  /** A position among the arguments, and elements. */
  constructor(readonly slot: number, readonly size: number) {
    this.hash = mix(mix(0x510e527f, slot), size);
  }
  same(o: ArgRecord): boolean {
    return o instanceof ParamArg && o.slot === this.slot && o.size === this.size;
  }
  toString(): string {
    return `${this.slot} x${this.size}`;
  }
}

/** What becomes of a loop. GLOBAL, LOCAL and WARP are hardware indices; THREAD is split over a CPU's threads. */
export const AxisKind = {
  GLOBAL: 0,
  THREAD: 1,
  LOCAL: 2,
  WARP: 3,
  LOOP: 4,
  GROUP_REDUCE: 5,
  REDUCE: 6,
  UPCAST: 7,
  UNROLL: 8,
  VECTOR: 9,
} as const;
/** One of {@linkcode AxisKind}. */
export type AxisKind = (typeof AxisKind)[keyof typeof AxisKind];
/** Name of each {@linkcode AxisKind}. */
export const axisKindName: readonly string[] = Object.keys(AxisKind);

/**
 * Identity and kind of a RANGE. `id` is unique in its kernel; `sub` counts the pieces an opt split it into. A THREAD loop may
 * be a part of those iterations that threads share: it stands for those from `first` on, and counts from 0 all the same.
 */
export class RangeArg implements ArgRecord {
  readonly hash: number;
  /** As the class says. */
  constructor(readonly id: number, readonly kind: AxisKind, readonly sub: number = 0, readonly first: number = 0) {
    const hash = mix(mix(mix(0x1f83d9ab, id), kind), sub);
    this.hash = first === 0 ? hash : mix(hash, first);
  }
  same(o: ArgRecord): boolean {
    if (!(o instanceof RangeArg) || o.first !== this.first) return false;
    return o.id === this.id && o.kind === this.kind && o.sub === this.sub;
  }
  toString(): string {
    const { id, kind, sub, first } = this;
    return `${id}${sub ? `_${sub}` : ""} ${axisKindName[kind]}${first ? ` from ${first}` : ""}`;
  }
}

/** An accumulator's identity within its kernel. */
export class AccArg implements ArgRecord {
  readonly hash: number;
  /** A number within the kernel. */
  constructor(readonly id: number) {
    this.hash = mix(0x428a2f98, id);
  }
  same(o: ArgRecord): boolean {
    return o instanceof AccArg && o.id === this.id;
  }
  toString(): string {
    return `acc${this.id}`;
  }
}

/** Where kernel-local memory lives. */
export type Scope = "thread" | "shared";

/** Kernel-local memory: `size` elements. */
export class LocalArg implements ArgRecord {
  readonly hash: number;
  /** A number within the kernel, elements, and whose memory it is. */
  constructor(readonly id: number, readonly size: number, readonly scope: Scope) {
    this.hash = mix(mix(hashString(scope), id), size);
  }
  same(o: ArgRecord): boolean {
    return o instanceof LocalArg && o.id === this.id && o.size === this.size && o.scope === this.scope;
  }
  toString(): string {
    return `${this.id} x${this.size} ${this.scope}`;
  }
}

/**
 * How a STAGE keeps its tile: whose memory it is (scope), and of how many buffers in a ring (depth). Where `width` is not 0
 * it lies in rows of so many elements, each followed by 16 bytes that are not used, or (`isSwizzled`) as matrix units read
 * it that find their operands in shared memory (SharedTile in renderer/tensor_core_table.ts); else one element after the other.
 * The scheduler leaves the scope of a row undecided: code generation computes its elements where they are read, or gives each
 * thread memory for it. What a phase hands to the next one (scope phase) the threads of a group share.
 */
export class StageArg implements ArgRecord {
  readonly hash: number;
  constructor(
    readonly id: number,
    readonly scope: Scope | "undecided" | "phase",
    readonly width: number = 0,
    readonly depth: number = 1,
    readonly isSwizzled: boolean = false,
  ) {
    this.hash = mix(mix(mix(hashString(scope), depth), isSwizzled ? -width : width), id);
  }
  same(o: ArgRecord): boolean {
    return o instanceof StageArg && o.id === this.id && o.scope === this.scope && o.depth === this.depth &&
      o.width === this.width && o.isSwizzled === this.isSwizzled;
  }
  toString(): string {
    return `${this.id} ${this.scope}${this.width ? ` ${this.isSwizzled ? "swizzled " : ""}rows of ${this.width}` : ""}${
      this.depth > 1 ? `, ${this.depth} buffers` : ""
    }`;
  }
}

/**
 * Axes of a buffer as a copy engine walks them, the one whose elements are neighbors first: sizes, outside of which there are
 * zeros, steps in elements, and how many elements a box has along each. It begins at element `offset`.
 */
export class TensorMapArg implements ArgRecord {
  readonly hash: number;
  /** Lists of the same length, an entry an axis. */
  constructor(
    readonly offset: number,
    readonly sizes: readonly number[],
    readonly strides: readonly number[],
    readonly box: readonly number[],
  ) {
    this.hash = hashString(this.toString());
  }
  same(o: ArgRecord): boolean {
    return o instanceof TensorMapArg && o.toString() === this.toString();
  }
  toString(): string {
    const { offset, sizes, strides, box } = this;
    return `${sizes.map((n, i) => `${box[i]} of ${n} by ${strides[i]}`).join(", ")}${
      offset === 0 ? "" : ` at ${offset}`
    }`;
  }
}

/**
 * CONTIGUOUS: memory that nothing else shares, as a number says there, too, of what lives nowhere by itself (constants,
 * indices, random bits): it lives on `device`.
 */
export class OwnArg implements ArgRecord {
  readonly hash: number;
  constructor(readonly identity: number, readonly device: string) {
    this.hash = mix(hashString(device), identity);
  }
  same(o: ArgRecord): boolean {
    return o instanceof OwnArg && o.identity === this.identity && o.device === this.device;
  }
  toString(): string {
    return `${this.identity} on ${this.device}`;
  }
}

/** An arg of any op. Strings: device of COPY, name of SPECIAL. Numbers: CONST, IOTA, GETTUPLE, EXTRACT. */
export type Arg = undefined | number | string | ArgRecord;

/** Hash of any arg. */
export function hashArg(arg: Arg): number {
  if (arg === undefined) return 0;
  if (typeof arg === "number") return hashNumber(arg);
  return typeof arg === "string" ? hashString(arg) : arg.hash;
}

/** Equality of any two args; numbers by bits. */
export function sameArg(a: Arg, b: Arg): boolean {
  if (a === b) return a !== 0 || 1 / (a as number) === 1 / (b as number);
  if (typeof a === "number") return a !== a && b !== b;
  return typeof a === "object" && typeof b === "object" && a.hash === b.hash && a.same(b);
}

/** The record that each op carries, where it is always one. */
export interface ArgOf {
  /** Memory. */
  readonly [Ops.BUFFER]: BufferArg;
  /** Name and range. */
  readonly [Ops.VARIABLE]: VariableArg;
  /** Position and size. */
  readonly [Ops.PARAM]: ParamArg;
  /** Number and kind of a loop. */
  readonly [Ops.RANGE]: RangeArg;
  /** Memory of the kernel. */
  readonly [Ops.LOCAL]: LocalArg;
  /** Number of an accumulator. */
  readonly [Ops.ACC]: AccArg;
  /** How a copy engine sees a buffer. */
  readonly [Ops.TENSOR_MAP]: TensorMapArg;
  /** How a tile is kept. */
  readonly [Ops.STAGE]: StageArg;
  /** Where a window lies. */
  readonly [Ops.WINDOW]: WindowArg;
  /** Which lanes. */
  readonly [Ops.LANES]: AxesArg;
  /** The shape. */
  readonly [Ops.RESHAPE]: ShapeArg;
  /** The shape. */
  readonly [Ops.EXPAND]: ShapeArg;
  /** The order of the axes. */
  readonly [Ops.PERMUTE]: AxesArg;
  /** Which axes. */
  readonly [Ops.FLIP]: AxesArg;
  /** Before and after each axis. */
  readonly [Ops.PAD]: PairsArg;
  /** Start and stop on each axis. */
  readonly [Ops.SHRINK]: PairsArg;
  /** How positions are shifted. */
  readonly [Ops.UNSKEW]: SkewArg;
  /** Likewise. */
  readonly [Ops.SKEW]: SkewArg;
  /** The value. */
  readonly [Ops.CONST]: ConstValue;
  /** How many elements. */
  readonly [Ops.IOTA]: number;
  /** Which lane. */
  readonly [Ops.EXTRACT]: number;
  /** Which value of several. */
  readonly [Ops.GETTUPLE]: number;
  /** The index of the hardware: "gidx0", "lidx1". */
  readonly [Ops.SPECIAL]: string;
  /** The device that it is copied to. */
  readonly [Ops.COPY]: string;
  /** Batches of products that may still be on their way; none where it is absent. */
  readonly [Ops.BARRIER]: number | undefined;
  /** By which bits the lanes differ that give each other values. */
  readonly [Ops.SHUFFLE]: number;
  /** Bytes. */
  readonly [Ops.ASYNC_COPY]: number;
  /** Batches that may still be on their way. */
  readonly [Ops.ASYNC_WAIT]: number;
  /** How it is divided. */
  readonly [Ops.SHARD]: Sharding;
  /** What moves between devices. */
  readonly [Ops.COLLECTIVE]: CollectiveArg;
}

/** The arg of a node that is known to be an `op`, or one that carries the same. */
export function argOf<O extends keyof ArgOf>(u: { readonly arg: Arg }, _op: O): ArgOf[O] {
  return u.arg as unknown as ArgOf[O];
}

/** What a REDUCE of the tensor graph does along which axes. */
export function reduceOf(u: { readonly arg: Arg }): ReduceArg {
  return u.arg as ReduceArg;
}
