/**
 * What stands between a linear program and a function body: values (nodes of WebAssembly instructions), mutable
 * variables, and nested lists of items. `lower.ts` builds it, `emit.ts` writes it. Values are placed as far out as their
 * sources allow, so loop-invariant arithmetic is hoisted here.
 *
 * @module
 */
import type { Instr, ValType } from "./encoder.ts";

/** A value. Pure, except `load` (reads memory) and `get` of a variable that is set again. */
export class Node {
  /** Local that holds it, once written; −1 before. */
  local = -1;
  /** Uses not yet written. */
  uses = 0;
  /** Loops open where its local was set. */
  loops = 0;
  /** Written onto the stack as part of its only user. */
  written = false;
  /** Written where it stands, and not where it is first used. */
  isPlaced = false;
  /** Reads memory, itself or below where it is written inline. */
  readsMemory = false;
  /** The variables that it reads, itself or below where it is written inline. */
  readsVars: Variable[] | undefined;

  /**
   * @param depth the frame that it stands in: 0 is the function
   * @param imm lane, or offset of a memory access
   */
  constructor(
    readonly kind: "const" | "instr" | "load" | "get",
    readonly op: Instr,
    readonly type: ValType,
    readonly src: readonly Node[],
    public depth: number,
    readonly imm: number = -1,
    readonly value: number | bigint = 0,
    readonly variable: Variable | undefined = undefined,
  ) {}
}

/** A mutable local: accumulator, loop counter, running pointer. */
export class Variable {
  local = -1;
  /** @param fixed never set while a value that was read from it is alive: counters and pointers */
  constructor(readonly type: ValType, readonly fixed: boolean, readonly name: string) {}
}

/** A pointer or scaled counter that grows by `step` each iteration. */
export interface Induction {
  readonly variable: Variable;
  readonly init: Node;
  readonly step: number;
}

/** A counted loop. `pre` is written before it. */
export interface Loop {
  readonly kind: "loop";
  readonly pre: Item[];
  readonly counter: Variable;
  readonly begin: Node;
  readonly end: Node;
  /** The count may be zero: test before the first iteration. */
  readonly guard: boolean;
  readonly body: Item[];
  readonly inductions: Induction[];
}

/** One step of a function. */
export type Item =
  | { readonly kind: "let"; readonly node: Node }
  | { readonly kind: "declare"; readonly variable: Variable }
  | { readonly kind: "set"; readonly variable: Variable; readonly value: Node }
  | {
    readonly kind: "store";
    readonly op: Instr;
    readonly address: Node;
    readonly value: Node;
    readonly offset: number;
    readonly lane: number;
  }
  | { readonly kind: "if"; readonly condition: Node; readonly body: Item[] }
  | Loop;

/** A kernel ready to be written. */
export interface Kernel {
  readonly items: Item[];
  /** Iterations of the entry loop, which a call runs from `begin` to `end`; 1 where there is none. */
  readonly iterations: number;
  /** Threads may share those iterations. */
  readonly parallel: boolean;
  /** Each call does other loops too: call seldom. */
  readonly setup: boolean;
  /** Bytes of memory that a thread needs for LOCAL arrays. */
  readonly scratch: number;
}

/** Parameters of a kernel function: pointers to the buffers and to the scalar arguments, and the iterations to run. */
export const BUFS = 0, VARS = 1, BEGIN = 2, END = 3;
/** Number of those parameters. */
export const KERNEL_PARAMS = 4;
