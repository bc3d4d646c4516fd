/**
 * Kernels that a user wrote, as the arg of a CUSTOM node of the tensor graph: a kernel AST whose PARAM slots number the
 * sources of the node. Codegen takes it from there as it takes kernels of the scheduler.
 *
 * @module
 */
import { hashString, mix } from "../../helpers/hash.ts";
import { type Arg, argOf, type ArgRecord } from "./args.ts";
import { Ops } from "./ops.ts";
import { printUOp } from "./print.ts";
import { toposort, type UOp } from "./uop.ts";

/** Three sizes of a grid, by dimension. */
export type GridSize = readonly [number, number, number];

/** A kernel given as text, as the arg of its SINK over the PARAMs: nothing is generated for it. */
export class TextArg implements ArgRecord {
  /** Equal for equal records. */
  readonly hash: number;
  /**
   * @param language as the renderer of the device is named, which compiles it
   * @param entry the function in `text`
   * @param written slots that it writes, ascending
   * @param groups how many, by dimension @param threads of a group
   */
  constructor(
    readonly language: string,
    readonly entry: string,
    readonly text: string,
    readonly written: readonly number[],
    readonly groups: GridSize,
    readonly threads: GridSize,
  ) {
    this.hash = mix(hashString(text), hashString(this.toString()));
  }
  /** Whether two records are equal. */
  same(o: ArgRecord): boolean {
    return o instanceof TextArg && o.text === this.text && o.toString() === this.toString();
  }
  /** As printed graphs show it. */
  toString(): string {
    const { language, entry, written, groups, threads } = this;
    return `${language} ${entry}, writes ${written.join(", ")}, groups ${groups.join("x")} of ${threads.join("x")}`;
  }
}

/** A kernel AST, and which of its buffers it writes. */
export class CustomArg implements ArgRecord {
  readonly hash: number;
  /** Slots that the kernel stores to, ascending. */
  readonly written: readonly number[];
  /** @param kernel a SINK of STOREs, or one with a {@linkcode TextArg} */
  constructor(readonly kernel: UOp) {
    const slots = new Set<number>(kernel.arg instanceof TextArg ? kernel.arg.written : []);
    for (const u of toposort(kernel)) {
      if (u.op === Ops.STORE && u.src[0].src[0].op === Ops.PARAM) slots.add(argOf(u.src[0].src[0], Ops.PARAM).slot);
    }
    this.written = [...slots].sort((a, b) => a - b);
    this.hash = kernel.hash;
  }
  same(o: ArgRecord): boolean {
    if (!(o instanceof CustomArg)) return false;
    // of two generations of nodes, equal kernels are two objects
    return o.kernel === this.kernel || (o.hash === this.hash && printUOp(o.kernel) === printUOp(this.kernel));
  }
  toString(): string {
    return `kernel of ${toposort(this.kernel).length} nodes, writes ${this.written.join(", ")}`;
  }
}

/** The kernel of a CUSTOM. */
export function customOf(u: { readonly arg: Arg }): CustomArg {
  return u.arg as CustomArg;
}
