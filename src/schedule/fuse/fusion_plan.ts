/**
 * What fusion decides, as data: the nodes that get a buffer, and what each kernel keeps besides its output. Also the few
 * facts about nodes and output loops that all of scheduling shares.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { AxisKind } from "../../uop/core/args.ts";
import type { NoteKind } from "../../uop/core/notes.ts";
import { Ops } from "../../uop/core/ops.ts";
import { type Extents, int, range, type UOp } from "../../uop/core/uop.ts";
import type { Cascade } from "./cascade.ts";

/** Results of a reduce that fill the lanes and the registers of a machine: some tiles of registers (16 lanes x 4 x 8) a thread. */
export const MIN_RESULTS: number = 1 << 12;

/** True for nodes that are storage already or always get some. */
export function mustRealize(u: UOp): boolean {
  return u.op === Ops.CONTIGUOUS || u.op === Ops.STORE || readsMemory(u);
}

/** True for what reads memory as a whole, and runs as a step of its own: COPY, COLLECTIVE, CUSTOM. */
export function readsMemory({ op }: UOp): boolean {
  return op === Ops.COPY || op === Ops.COLLECTIVE || op === Ops.CUSTOM;
}

/** True where reading a node reads memory or needs none: nothing is computed. */
export function isLeaf(u: UOp): boolean {
  switch (u.op) {
    case Ops.BUFFER:
    case Ops.CONST:
    case Ops.VARIABLE:
    case Ops.BIND:
    case Ops.IOTA:
    case Ops.AFTER:
      return true;
    default:
      return false;
  }
}

/** The node below RESHAPEs: what a buffer would hold. */
export function stripReshape(u: UOp): UOp {
  while (u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

/** What is kept inside of one kernel besides its output. */
export interface KernelPlan {
  /** Output axes that reduces of the kernel depend on: their loops are outermost, the reduces run once in each iteration. */
  outer: readonly number[] | undefined;
  /** Nodes whose values over some axes are kept in a STAGE for each iteration of the outer loops: those axes. */
  readonly staged: Map<UOp, readonly number[]>;
  /** Reduces that are lanes of one carrier, both of a cascade by node. */
  readonly joined: Map<UOp, Cascade>;
  /** Output axes that are no loops but copies of the body, which compute together what they have in common. */
  readonly copied: number[];
}

/** A plan that keeps nothing. */
export function emptyPlan(): KernelPlan {
  return { outer: undefined, staged: new Map(), joined: new Map(), copied: [] };
}

/** Which nodes get buffers, and what else each kernel keeps. */
export interface FusionPlan {
  readonly realized: Set<UOp>;
  readonly kernels: Map<UOp, KernelPlan>;
}

/** Plans that can tell why they are what they are. */
export interface ToldPlan extends FusionPlan {
  /** Notes what was decided: to be called of the plan that is taken. */
  tell(): void;
}

/**
 * Output ranges of a kernel over `shape`: ids 0, 1, ... by axis, `outer` axes first; axes of size 1 are the constant 0. All
 * are loops but those of `copied` axes.
 */
export function outputRanges(
  shape: readonly number[],
  outer: readonly number[] = [],
  extents: Extents | null = null,
  copied: readonly number[] = [],
): UOp[] {
  const out = new Array<UOp>(shape.length);
  let next = outer.length; // of the axes that are not outer ones
  for (let i = 0; i < shape.length; i++) {
    const at = outer.indexOf(i), id = at < 0 ? next++ : at;
    const kind = copied.includes(i) ? AxisKind.UPCAST : AxisKind.LOOP;
    out[i] = shape[i] === 1 ? int(0) : range(extents?.[i] ?? shape[i], id, kind);
  }
  return out;
}

/** What the fuser asks of the device of a kernel. */
export type FusionCaps = Pick<Capabilities, "l2" | "hasGrid" | "grid" | "vectorLanes" | "hasDots">;

/** What a note of a chain is made of. */
export type ChainNote = readonly [
  kind: NoteKind,
  node: UOp,
  text: string,
  numbers: Readonly<Record<string, number>>,
];

/** Nodes to be computed in place, whatever it costs elsewhere, and nodes that get buffers. */
export interface ChainPlan {
  readonly inside: ReadonlySet<UOp>;
  readonly realized: ReadonlySet<UOp>;
  /** Weights that chains compute again of rows in memory (kernels/row_weights.ts). */
  readonly weights: ReadonlySet<UOp>;
  /** Why chains are some, or are not. */
  readonly notes: readonly ChainNote[];
}

/** The plan of a graph without chains of products. */
export const NO_CHAINS: ChainPlan = { inside: new Set(), realized: new Set(), weights: new Set(), notes: [] };
