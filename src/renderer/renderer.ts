/**
 * What a device's code generator offers: its capabilities (inputs of scheduling, heuristics and decompositions) and
 * `render`, from a linear program to source. Renderers are pure: text or bytes out, nothing touched.
 *
 * @module
 */
import { DType, dtypes } from "../dtype/dtype.ts";
import { AxisKind, type ParamArg, type RangeArg, type VariableArg } from "../uop/args.ts";
import { Ops } from "../uop/ops.ts";
import type { UOp } from "../uop/uop.ts";

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
  /** The second-level cache. */
  readonly l2: number;
  /** Buffers a kernel may take. */
  readonly maxBuffers: number;
  /** True where MULACC is one rounding or at least no slower. */
  readonly hasMulAcc: boolean;
  /** True for grids of GLOBAL and LOCAL axes, false for loops. */
  readonly hasGrid: boolean;
  /** Ops beyond the basic ones that the renderer writes itself (EXP2, LOG2, SIN, ...); others are decomposed. */
  readonly nativeOps: readonly Ops[];
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

/** What renderers take: a kernel as an ordered list of UOps. Its grammar is `specLinear` in uop/spec.ts. */
export interface LinearProgram {
  /** An identifier, unique by content within one compile. */
  readonly name: string;
  /** The nodes, sources before users. */
  readonly uops: readonly UOp[];
  /** Buffer arguments by slot: 0, 1, ... */
  readonly params: readonly ProgramParam[];
  /** Scalar arguments, in the order that a launch passes their values. */
  readonly vars: readonly UOp[];
  /** Iterations of the THREAD loop: a launch runs [begin, end) of them. 1 where there is none. */
  readonly threads: number;
  /** Work of one launch: arithmetic, and bytes touched at least once. */
  readonly flops: number;
  /** Bytes touched at least once by one launch. */
  readonly bytes: number;
  /** The opts that were applied, as text, for DEBUG=3. */
  readonly opts?: string;
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

/** Collects `params`, `vars` and `threads` from an ordered list; the rest of a {@linkcode LinearProgram}. */
export function programOf(name: string, uops: readonly UOp[], flops = 0, bytes = 0): LinearProgram {
  const params: { slot: number; dtype: DType; size: number; reads: boolean; writes: boolean }[] = [];
  const vars: UOp[] = [];
  let threads = 1;
  for (const u of uops) {
    if (u.op === Ops.PARAM) {
      const { slot, size } = u.arg as ParamArg;
      params[slot] = { slot, dtype: u.dtype, size, reads: false, writes: false };
    } else if (u.op === Ops.VARIABLE) vars.push(u);
    else if (u.op === Ops.RANGE && (u.arg as RangeArg).kind === AxisKind.THREAD) threads = u.src[0].value;
  }
  for (const u of uops) {
    if (u.op !== Ops.LOAD && u.op !== Ops.STORE) continue;
    let base = u.src[0];
    while (base.op === Ops.INDEX || base.op === Ops.AFTER) base = base.src[0];
    if (base.op !== Ops.PARAM) continue;
    const p = params[(base.arg as ParamArg).slot];
    if (u.op === Ops.LOAD) p.reads = true;
    else p.writes = true;
  }
  vars.sort((a, b) => (a.arg as VariableArg).name < (b.arg as VariableArg).name ? -1 : 1);
  return { name, uops, params, vars, threads, flops, bytes };
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
  nativeOps: [Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.TRUNC],
  computeDTypes: Object.values(dtypes).filter((d): d is DType => d instanceof DType),
  storageDTypes: Object.values(dtypes).filter((d): d is DType => d instanceof DType),
  vectorLanes: () => 1,
};
