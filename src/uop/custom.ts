/**
 * Kernels that a user wrote, as the arg of a CUSTOM node of the tensor graph: a kernel AST whose PARAM slots number the
 * sources of the node. Codegen takes it from there as it takes kernels of the scheduler.
 *
 * @module
 */
import type { ArgRecord, ParamArg } from "./args.ts";
import { Ops } from "./ops.ts";
import { printUOp } from "./print.ts";
import { toposort, type UOp } from "./uop.ts";

/** A kernel AST, and which of its buffers it writes. */
export class CustomArg implements ArgRecord {
  readonly hash: number;
  /** Slots that the kernel stores to, ascending. */
  readonly written: readonly number[];
  /** @param kernel a SINK of STOREs */
  constructor(readonly kernel: UOp) {
    const slots = new Set<number>();
    for (const u of toposort(kernel)) {
      if (u.op === Ops.STORE && u.src[0].src[0].op === Ops.PARAM) slots.add((u.src[0].src[0].arg as ParamArg).slot);
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
