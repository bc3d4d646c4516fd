/**
 * Names to read for a kernel that is shown or handed on: its arrays as they are called around it, loops i, j, k, sums sum,
 * other values x. In: the names of its arguments, and what others have taken; out: what `CWriter` asks for.
 *
 * @module
 */
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { KernelNames } from "./cstyle.ts";

/** Names of loops, from the outside in. */
const LOOPS = ["i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u"];

/** Names inside of one kernel. */
export class OwnNames implements KernelNames {
  private readonly used = new Set<string>();
  private readonly loops = new Map<UOp, string>();
  private readonly next = new Map<string, number>();

  /** @param params names of arguments by slot @param isTaken whether a name means something else */
  constructor(private readonly params: readonly string[], private readonly isTaken: (name: string) => boolean) {}

  /** As in the interface. */
  param(slot: number): string {
    return this.params[slot];
  }
  /** As in the interface. */
  own(u: UOp): string {
    if (u.op === Ops.RANGE) {
      const free = LOOPS.find((name) => !this.used.has(name) && !this.isTaken(name));
      const name = this.take(free ?? "index");
      this.loops.set(u, name);
      return name;
    }
    if (u.op === Ops.LOCAL) return this.take("row");
    if (u.op !== Ops.ACC) return this.take("x");
    const first = u.src[0];
    if (first.op !== Ops.CONST) return this.take("total");
    if (first.dtype.isBool) return this.take(first.isConst(0) ? "any" : "all");
    return this.take(first.isConst(0) ? "sum" : first.isConst(1) ? "product" : "max");
  }
  /** As in the interface. */
  leave(range: UOp): void {
    this.used.delete(this.loops.get(range)!);
  }
  private take(base: string): string {
    let name = base, i = this.next.get(base) ?? 2;
    for (; this.used.has(name) || this.isTaken(name); i++) name = `${base}${i}`;
    this.next.set(base, i);
    this.used.add(name);
    return name;
  }
}
