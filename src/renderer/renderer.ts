/**
 * What a device's code generator offers: its capabilities (inputs of scheduling, choices of opts and decompositions) and
 * `render`, from a linear program to source. Renderers are pure: text or bytes out, nothing touched.
 *
 * @module
 */
import { type DType, DTYPES, dtypes } from "../dtype/dtype.ts";
import { argOf, type ArgRecord, AxisKind, type TensorMapArg } from "../uop/core/args.ts";
import { FUNCTION_OPS, Ops } from "../uop/core/ops.ts";
import { constant, type UOp } from "../uop/core/uop.ts";
import { baseOf } from "../uop/rewrite/walk.ts";
import type { TensorCore } from "./tensor_core_table.ts";

/** What a device with a grid of thread groups can do: GLOBAL axes are groups, LOCAL and WARP axes threads of a group. */
export interface GridCaps {
  /** Groups along each of the three dimensions. */
  readonly maxGroups: readonly [number, number, number];
  /** Threads of a group along each dimension, and in all. */
  readonly maxGroupSize: readonly [number, number, number];
  /** Threads of a group. */
  readonly maxGroupThreads: number;
  /** Memory that the threads of a group share (LOCAL of scope shared), for one group. */
  readonly sharedBytes: number;
  /** Bytes that an element of a dtype takes there; as many as elsewhere unless given. */
  readonly sharedItem?: (dtype: DType) => number;
  /** Lanes among which SHUFFLE exchanges values and WMMA works; 1 where there is neither. */
  readonly warp: number;
  /** Multiprocessors; a guess where the device does not say. */
  readonly units: number;
  /** Of one multiprocessor: threads that can be resident, 32-bit registers, shared memory. */
  readonly unitThreads: number;
  /** 32-bit registers of one multiprocessor. */
  readonly unitRegisters: number;
  /** Shared memory of one multiprocessor. */
  readonly unitShared: number;
  /** True for ASYNC_COPY from buffers to shared memory. */
  readonly hasAsyncCopy: boolean;
  /** For ASYNC_BOX: what copies boxes of buffers by itself. */
  readonly copyEngine?: CopyEngine;
  /** Matrix units, best first. */
  readonly tensorCores: readonly TensorCore[];
}

/** Tiles that an engine brings in each iteration of a loop, to rings of buffers. */
export interface BoxRing {
  /** Memory, the ASYNC_BOX of a tile, its elements, and those of a row. */
  readonly tiles: readonly {
    readonly memory: UOp;
    readonly box: UOp;
    readonly size: number;
    readonly width: number;
  }[];
  /** Buffers of each. */
  readonly depth: number;
  /** The RANGE in whose iterations they are brought. */
  readonly loop: UOp;
  /** Memory of `depth` barriers. */
  readonly barriers: UOp;
  /** What is true for the thread that starts copies. */
  readonly isFirst: UOp;
}

/** A buffer of a ring: where it begins, for the size of one. */
export type RingSlot = (size: number) => UOp;

/** Copies that fill buffers of a ring. */
export interface RingFill {
  /** What they are, in order; tiles may be read while they are started. */
  readonly copies: readonly UOp[];
  /** What comes after all of them. */
  readonly done: readonly UOp[];
}

/** Who brings the tiles of a loop's iterations to rings of buffers, and how threads wait for them. */
export interface RingCopies {
  /** What comes before the first of them. */
  readonly start: readonly UOp[];
  /** Starts the copies of iteration `k`, after what `order` lists. */
  fill(order: readonly UOp[], k: UOp, slot: RingSlot): RingFill;
  /** Waits for those of the present iteration, while those of `ahead` later ones go on. */
  wait(order: readonly UOp[], slot: RingSlot, ahead: number): UOp;
}

/** An engine that copies boxes of buffers to shared memory: the arg of the ASYNC_BOXes of a kernel AST. */
export interface CopyEngine extends ArgRecord {
  /**
   * The value of a tile that it brings: rows of `width` elements of the LOAD `l`, where `inner` are the tile's ranges in the order
   * in which it lies, of which a box has `piece` along a row. undefined where it cannot.
   */
  boxOf(l: UOp, inner: readonly UOp[], width: number, piece: number): UOp | undefined;
  /** Its copies to rings. */
  copiesTo(ring: BoxRing): RingCopies;
}

/** Bytes of a row that a kernel keeps, where no cache does. */
export const ROW_BYTES: number = 1 << 17;
/** Share of the second-level cache for the rows of a tile: what they are made of and multiplied with takes more. */
export const TILE_SHARE: number = 1 / 8;

/** What a device can do. All sizes in bytes. */
export interface Capabilities {
  /** Bytes of a vector register; 0 where the device has no vectors (all lanes are split). */
  readonly vectorBytes: number;
  /** Vector registers that a tile may use. */
  readonly registers: number;
  /** CPU threads that share a THREAD axis; 1 elsewhere. */
  readonly threads: number;
  /** Caches, for tile sizes. 0 where unknown. */
  readonly l1: number;
  /** The second-level cache; ask {@linkcode cacheShare} and {@linkcode hasLoopCache}. */
  readonly l2: number;
  /** Buffers a kernel may take. */
  readonly maxBuffers: number;
  /** True where MULACC is one rounding or at least no slower. */
  readonly hasMulAcc: boolean;
  /** True where DOT is an instruction or few; false where absent: then there is none in kernels. */
  readonly hasDots?: boolean;
  /** Are programs to be short? Then lanes are combined one by one, without shuffles, which are long in WebAssembly. */
  readonly isShort?: boolean;
  /** True where -x >> n is miscompiled, and written as ~((x - 1) >> n), which is the same; false where absent. */
  readonly avoidsShiftedNegations?: boolean;
  /** True where vectors of 32 bits a lane are loaded under a word of a bit each, as fast as without; false where absent. */
  readonly hasMaskedLoads?: boolean;
  /** Instructions that it takes to select one of two floats that are no vectors; one where absent. */
  readonly selectWork?: number;
  /**
   * Bytes touched by a kernel from which the last cache keeps none of its results until they are read: they go past the
   * caches, and need not be read before they are written. None where absent.
   */
  readonly streamedBytes?: number;
  /** True where subnormal float32 may count as zero; false where absent. */
  readonly flushesSubnormals?: boolean;
  /** True for grids of GLOBAL and LOCAL axes, false for loops. */
  readonly hasGrid: boolean;
  /** Sizes of the grid; present where `hasGrid`. */
  readonly grid?: GridCaps;
  /** Bytes that one buffer argument may have; no limit where absent. */
  readonly maxBufferBytes?: number;
  /** A sub-buffer that is a kernel argument starts at a multiple of this many bytes; 1 where absent. */
  readonly bufferAlignment?: number;
  /** Ops beyond the basic ones that the renderer writes itself (EXP2, LOG2, SIN, COS, ...); others are decomposed. */
  readonly nativeOps: readonly Ops[];
  /**
   * Ops that have a quick form under the arg "rounded", with a relative error of some 2^-16, for what becomes a 16-bit float:
   * EXP2, and FDIV by at least 1. With both there are EXP2 with arg "flush" and FDIV with arg "reciprocal" too. None where
   * absent.
   */
  readonly roundedOps?: readonly Ops[];
  /** Dtypes that can be computed in. Others in `storageDTypes` are cast at loads and stores. */
  readonly computeDTypes: readonly DType[];
  /** Dtypes that LOAD, STORE and CAST to and from float32 take directly; others are emulated by integer bits. */
  readonly storageDTypes: readonly DType[];
  /** Lanes a vector of this dtype may have here, at most; 1 to keep it scalar. */
  readonly vectorLanes: (dtype: DType) => number;
}

/** A buffer argument of a program, in slot order. */
export interface ProgramParam {
  /** Its position among the buffer arguments. */
  readonly slot: number;
  /** The dtype of its elements. */
  readonly dtype: DType;
  /** In elements. */
  readonly size: number;
  /** Whether the program reads it. */
  readonly reads: boolean;
  /** Whether the program writes it. */
  readonly writes: boolean;
}

/** How the copy engine sees a buffer of a program: an argument that is made of its address. */
export interface ProgramMap {
  /** Of the buffer. */
  readonly slot: number;
  /** Of its elements. */
  readonly dtype: DType;
  /** The box that is copied, and how rows lie. */
  readonly map: TensorMapArg;
}

/** How many groups of how many threads a program runs on. */
export interface LaunchGrid {
  /** By dimension: constants, or expressions of the program's variables. */
  readonly groups: readonly [UOp, UOp, UOp];
  /** Threads of a group, by dimension. */
  readonly size: readonly [number, number, number];
}

/** What renderers take: a kernel as an ordered list of UOps. Its grammar is `specLinear` in uop/core/spec.ts. */
export interface LinearProgram {
  /** An identifier, unique by content within one compile. */
  readonly name: string;
  /** The nodes, sources before users. */
  readonly uops: readonly UOp[];
  /** Buffer arguments by slot: 0, 1, ... */
  readonly params: readonly ProgramParam[];
  /** Scalar arguments, in the order that a launch passes their values. */
  readonly vars: readonly UOp[];
  /** Arguments behind those that are made of the addresses of buffers; none where absent. */
  readonly maps?: readonly ProgramMap[];
  /** Iterations of the THREAD loop: a launch runs [begin, end) of them. 1 where there is none. */
  readonly threads: number;
  /** Groups (constants, or expressions of `vars`) and threads of a group, by dimension; absent on devices with loops. */
  readonly grid?: LaunchGrid;
  /** Work of one launch: arithmetic, and bytes touched at least once. */
  readonly flops: number;
  /** Bytes touched at least once by one launch. */
  readonly bytes: number;
  /** True where results go past the caches ({@linkcode Capabilities.streamedBytes}); false where absent. */
  readonly streams?: boolean;
  /** The opts that were applied, as text, for DEBUG=3. */
  readonly opts?: string;
  /** What the device's compiler called what it made of it in an earlier process. */
  readonly compiled?: string;
  /** The source where the user wrote it, in the language of the renderer: it has a function `name`. Then no `uops`. */
  readonly text?: string;
}

/** Turns linear programs into what the device's compiler takes. */
export interface Renderer {
  /** As in errors and `info()`. */
  readonly name: string;
  /** What the device can do. */
  readonly caps: Capabilities;
  /** Source text, or module bytes where the device is its own assembler. */
  render(program: LinearProgram): string | Uint8Array;
}

/** Bytes of a TENSOR_MAP as an argument, which begins at a multiple of so many. */
export const MAP_BYTES = 128, MAP_ALIGN = 64;

/** The number of a TENSOR_MAP among those of the program. */
export function mapNumber({ maps = [] }: LinearProgram, u: UOp): number {
  const { slot } = argOf(u.src[0], Ops.PARAM), map = argOf(u, Ops.TENSOR_MAP);
  return maps.findIndex((m) => m.slot === slot && m.map.same(map));
}

/**
 * Where a THREAD loop begins and ends in a launch of [begin, end), as C and JavaScript write it: where the loop is a part of
 * what threads share, it counts from that part's first iteration.
 */
export function threadBounds({ threads }: LinearProgram, loop: UOp): [begin: string, end: string] {
  const { first } = argOf(loop, Ops.RANGE), n = loop.src[0].value, last = first + n;
  const from = first === 0 ? "begin" : `(begin > ${first} ? begin - ${first} : 0)`;
  const left = first === 0 ? "end" : `end - ${first}`;
  return [from, last === threads ? left : `(end < ${last} ? ${left} : ${n})`];
}

/** Collects `params`, `vars` and `threads` from an ordered list; the rest of a {@linkcode LinearProgram}. */
export function programOf(name: string, uops: readonly UOp[], flops = 0, bytes = 0): LinearProgram {
  const params: { slot: number; dtype: DType; size: number; reads: boolean; writes: boolean }[] = [];
  const vars: UOp[] = [], maps: ProgramMap[] = [];
  const one = constant(1, dtypes.int32);
  const groups: [UOp, UOp, UOp] = [one, one, one], size: [number, number, number] = [1, 1, 1];
  let threads = 1, hasGrid = false;
  for (const u of uops) {
    if (u.op === Ops.PARAM) {
      const { slot, size } = argOf(u, Ops.PARAM);
      params[slot] = { slot, dtype: u.dtype, size, reads: false, writes: false };
    } else if (u.op === Ops.VARIABLE) vars.push(u);
    else if (u.op === Ops.SPECIAL) {
      const name = argOf(u, Ops.SPECIAL), dimension = Number(name[4]);
      hasGrid = true;
      if (name.startsWith("gidx")) groups[dimension] = u.src[0];
      else size[dimension] = u.src[0].value;
    } else if (u.op === Ops.RANGE) {
      const { kind, first } = argOf(u, Ops.RANGE);
      if (kind === AxisKind.THREAD) threads = Math.max(threads, first + u.src[0].value);
    }
  }
  for (const u of uops) {
    if (u.op !== Ops.LOAD && u.op !== Ops.STORE) continue;
    const base = baseOf(u.src[0]);
    if (base.op !== Ops.PARAM) continue;
    const p = params[argOf(base, Ops.PARAM).slot];
    if (u.op === Ops.LOAD) p.reads = true;
    else p.writes = true;
  }
  for (const u of uops) {
    if (u.op !== Ops.TENSOR_MAP) continue;
    const { slot } = argOf(u.src[0], Ops.PARAM), { dtype } = params[slot];
    params[slot].reads = true;
    maps.push({ slot, dtype, map: argOf(u, Ops.TENSOR_MAP) });
  }
  vars.sort((a, b) => argOf(a, Ops.VARIABLE).name < argOf(b, Ops.VARIABLE).name ? -1 : 1);
  const program = { name, uops, params, vars, threads, flops, bytes, ...(maps.length > 0 ? { maps } : {}) };
  return hasGrid ? { ...program, grid: { groups, size } } : program;
}

/** What languages compute in without help: all but floats of 16 bits and fewer. */
export const COMMON_DTYPES: readonly DType[] = DTYPES.filter((d) => d.kind !== "void" && (!d.isFloat || d.bits > 16));

/** Bytes of a share of the second-level cache; `unknown` where the device does not tell how large it is. */
export function cacheShare(caps: Pick<Capabilities, "l2">, share: number, unknown: number = Infinity): number {
  return caps.l2 > 0 ? caps.l2 * share : unknown;
}

/** Has it loops, not a grid, and a cache that it tells of: what a core reads again soon need not be kept by the kernel? */
export function hasLoopCache(caps: Pick<Capabilities, "l2" | "hasGrid">): boolean {
  return caps.l2 > 0 && !caps.hasGrid;
}

/** Capabilities of a scalar machine that has every op and dtype: the base others override. */
export const SCALAR_CAPS: Capabilities = {
  vectorBytes: 0,
  registers: 16,
  threads: 1,
  l1: 0,
  l2: 0,
  maxBuffers: 1 << 16,
  hasMulAcc: false,
  hasGrid: false,
  nativeOps: [...FUNCTION_OPS, Ops.CDIV, Ops.CMOD],
  computeDTypes: DTYPES.filter((d) => !d.isFloat || d.bits > 8),
  storageDTypes: DTYPES.filter((d) => !d.isFloat || d.bits > 8),
  vectorLanes: () => 1,
};
