/**
 * Kernels that do several steps over one block of rows, on a grid: a group of threads keeps what a step (a phase) makes in
 * shared memory, a STAGE of scope phase, waits, and goes on with the next one. In: a kernel AST whose blocks are ranges of
 * kind GLOBAL. Out: how many threads a group has, what each thread does of a phase, and which phases share memory.
 *
 * Threads have neighbors of a phase's innermost loops, so that neighbors in memory are touched at once; each has the copies
 * that share work (the axes of a step, the results of short sums, elements of a wide access). Where there are more, a thread
 * does several. A phase takes the memory of one that nobody reads any more; also of one that it reads itself, where each
 * thread has its part of the new values in registers before any is written.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { gcd, prod } from "../../helpers/math.ts";
import { argOf, AxisKind } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import { compareRanges, dependsOn, ownRanges, rangesOf, sizeOf } from "../core/ranges.ts";
import { mayHave, toposort, type UOp } from "../core/uop.ts";

/** What a group of threads has. */
export interface GroupLimits {
  readonly maxGroupThreads: number;
  readonly sharedBytes: number;
}

/** One phase: what fills a STAGE, or a STORE. */
export interface Phase {
  readonly root: UOp;
  /** Its ranges, outermost first, and how many elements side by side of each a thread has. */
  readonly ranges: readonly UOp[];
  readonly inner: readonly number[];
  /** Threads' work in all: sets of such elements. */
  readonly work: number;
  /** How many sets a thread does, one after the other or as copies of the body. */
  readonly parts: number;
  readonly isLoop: boolean;
  /** Ranges of sums whose terms are copies of the body. */
  readonly unrolled: readonly UOp[];
  /** The number of its memory; -1 of a STORE. */
  readonly home: number;
}

/** The phases of a kernel, in their order. */
export interface PhasePlan {
  readonly threads: number;
  readonly phases: readonly Phase[];
  /** Bytes of shared memory. */
  readonly bytes: number;
}

/** Elements of a block that a thread should have: enough to do a few steps on, few enough for registers. */
const ELEMENTS = 16;
/** Threads that a group should have, where there is something to do for them. */
const LEAST_THREADS = 128;
/** Registers (of 32 bits) for the values of a phase, at most: of 255 in groups of 256 threads. */
const REGISTERS = 64;
/** Terms of a sum that are copies, at most, and results side by side that share them. */
const TERMS = 64, RESULTS = 32;
/** Bytes of a wide access. */
const WIDE = 16;
/** Groups that should fit one unit: where they do not, phases take the memory of what they read. */
const RESIDENT = 4;
/** Bytes of a row of banks: behind each of them some are left out, so that elements far apart lie in others. */
const BANKS = 128;
/** Each memory begins at a multiple of so many bytes. */
const ALIGN = 128;

/** Elements in a row of banks, and how many are left out behind it; neither where elements are no words. */
function rowOfBanks({ itemsize }: DType): [row: number, pad: number] {
  return itemsize < 2 ? [1, 0] : [BANKS / itemsize, WIDE / itemsize];
}

/** How many elements `n` take. */
function placeInRows(n: number, dtype: DType): number {
  const [row, pad] = rowOfBanks(dtype);
  return n + Math.floor((n - 1) / row) * pad;
}

/** Where element `at` of a phase lies. */
export function placeOf(at: UOp, dtype: DType): UOp {
  const [row, pad] = rowOfBanks(dtype);
  return pad === 0 ? at : at.add(at.floorDiv(row).mul(pad));
}

/** Is it a STAGE that a phase fills? */
export function isPhase(u: UOp): boolean {
  return u.op === Ops.STAGE && argOf(u, Ops.STAGE).scope === "phase";
}

/** Does a kernel consist of phases? */
export function hasPhases(ast: UOp): boolean {
  return mayHave(ast, Ops.STAGE) && toposort(ast).some(isPhase);
}

/** The ranges that a phase runs through, outermost first: all of a STORE but its blocks. */
export function rangesOfPhase(root: UOp): readonly UOp[] {
  if (root.op === Ops.STAGE) return ownRanges(root);
  return rangesOf(root).filter((r) => argOf(r, Ops.RANGE).kind !== AxisKind.GLOBAL).toSorted(compareRanges);
}

/** Elements of a block that a phase gives. */
export function elementsOfPhase(root: UOp): number {
  return prod(rangesOfPhase(root).map(sizeOf));
}

/** What a phase computes, down to the STAGEs that it reads. */
function bodyOf(root: UOp): UOp[] {
  return toposort(root.op === Ops.STAGE ? root.src[0] : root.src, (u) => u.op !== Ops.STAGE);
}

/** A phase before it is known how many threads there are. */
interface Draft {
  readonly root: UOp;
  readonly ranges: readonly UOp[];
  /** By range: elements of it side by side that a thread has. */
  readonly inner: readonly number[];
  readonly unrolled: readonly UOp[];
  /** Copies, and threads that each have one set of them. */
  readonly copies: number;
  readonly work: number;
  readonly reads: readonly UOp[];
}

function draftOf(root: UOp): Draft {
  const ranges = rangesOfPhase(root), body = bodyOf(root), unrolled: UOp[] = [];
  const inner = ranges.map((r) => argOf(r, Ops.RANGE).kind === AxisKind.UPCAST ? sizeOf(r) : 1);
  const last = ranges.length - 1, isCopied = inner.some((n) => n > 1);
  let hasShared = false;
  for (const u of body) {
    if (u.op !== Ops.REDUCE) continue;
    const own = ownRanges(u);
    if (prod(own.map(sizeOf)) > TERMS) continue;
    unrolled.push(...own.filter((r) => !unrolled.includes(r)));
    if (last < 0 || sizeOf(ranges[last]) > RESULTS) continue;
    hasShared ||= toposort(u.src[0], (x) => x.op !== Ops.STAGE).some((l) =>
      l.op === Ops.LOAD && !dependsOn(l, ranges[last]) && own.some((r) => dependsOn(l, r))
    );
  }
  if (!isCopied && last >= 0) {
    const size = sizeOf(ranges[last]), { dtype } = root.op === Ops.STAGE ? root : root.src[1];
    inner[last] = hasShared ? size : gcd(size, Math.max(1, WIDE / dtype.itemsize));
  }
  const copies = prod(inner);
  return {
    root,
    ranges,
    inner,
    unrolled,
    copies,
    work: prod(ranges.map(sizeOf)) / copies,
    reads: body.filter(isPhase),
  };
}

/** Who shares memory, and how many bytes that takes: with `inPlace` also a phase with one that it reads. */
function homesOf(
  drafts: readonly Draft[],
  isHeld: readonly boolean[],
  inPlace: boolean,
): { homes: number[]; bytes: number } {
  // by STAGE: the last phase that reads it
  const last = new Map<UOp, number>();
  drafts.forEach(({ reads }, i) => reads.forEach((s) => last.set(s, i)));
  const homes: { readonly dtype: DType; ends: number; size: number }[] = [];
  const numbers = drafts.map(({ root }, i) => {
    if (root.op !== Ops.STAGE) return -1;
    const own = homes.filter((h) => h.dtype === root.dtype), size = placeInRows(elementsOfPhase(root), root.dtype);
    let home = own.find((h) => h.ends < i) ?? (inPlace && isHeld[i] ? own.find((h) => h.ends === i) : undefined);
    if (home === undefined) homes.push(home = { dtype: root.dtype, ends: 0, size: 0 });
    home.ends = last.get(root) ?? i;
    home.size = Math.max(home.size, size);
    return homes.indexOf(home);
  });
  const bytes = homes.reduce((n, h) => n + Math.ceil(h.size * h.dtype.itemsize / ALIGN) * ALIGN, 0);
  return { homes: numbers, bytes };
}

/** The phases of a kernel. */
export function phasesOf(ast: UOp, { maxGroupThreads, sharedBytes }: GroupLimits): PhasePlan {
  const stages = toposort(ast).filter(isPhase), drafts = [...stages, ...ast.src].map(draftOf);
  const most = Math.max(...drafts.map((d) => d.work)), copies = Math.max(ELEMENTS, ...drafts.map((d) => d.copies));
  const elements = Math.max(...drafts.map((d) => d.work * d.copies));
  const wanted = Math.max(Math.ceil(elements / copies), Math.min(most, LEAST_THREADS));
  const threads = Math.min(maxGroupThreads, 2 ** Math.ceil(Math.log2(Math.max(32, wanted))));
  const parts = drafts.map((d) => Math.ceil(d.work / threads));
  const isLoop = drafts.map(({ root, copies }, i) => {
    const { dtype } = root.op === Ops.STAGE ? root : root.src[1];
    return parts[i] > 1 && parts[i] * copies * Math.max(1, dtype.itemsize / 4) > REGISTERS;
  });
  const isHeld = isLoop.map((is) => !is);
  let { homes, bytes } = homesOf(drafts, isHeld, false);
  if (bytes * RESIDENT > sharedBytes) ({ homes, bytes } = homesOf(drafts, isHeld, true));
  const phases = drafts.map((d, i): Phase => ({ ...d, parts: parts[i], isLoop: isLoop[i], home: homes[i] }));
  return { threads, phases, bytes };
}

/** Where the phases of a kernel that loops run keep what they hand on. */
export interface PhaseMemory {
  /** The STAGEs in the order in which they are filled, and the memory of each. */
  readonly stages: readonly UOp[];
  readonly homes: readonly number[];
  /** Elements of each memory. */
  readonly sizes: readonly number[];
  readonly bytes: number;
}

/** The same without threads: a phase takes the memory of one of its dtype that nobody reads any more. */
export function memoryOfPhases(ast: UOp): PhaseMemory {
  const stages = toposort(ast).filter(isPhase), last = new Map<UOp, number>();
  [...stages, ...ast.src].forEach((root, i) => bodyOf(root).forEach((u) => isPhase(u) && last.set(u, i)));
  const memory: { readonly dtype: DType; ends: number; size: number }[] = [];
  const homes = stages.map((s, i) => {
    let home = memory.find((h) => h.dtype === s.dtype && h.ends < i);
    if (home === undefined) memory.push(home = { dtype: s.dtype, ends: 0, size: 0 });
    home.ends = last.get(s) ?? i;
    home.size = Math.max(home.size, elementsOfPhase(s));
    return memory.indexOf(home);
  });
  const bytes = memory.reduce((n, h) => n + h.size * h.dtype.itemsize, 0);
  return { stages, homes, sizes: memory.map((h) => h.size), bytes };
}
