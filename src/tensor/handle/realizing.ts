/**
 * What handles need of realizing, which is above them.
 *
 * @module
 */
import type { Storage } from "../../uop/core/args.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { TensorBase } from "./base.ts";

/** What realizing, which is above this, does where handles come to name something else. */
export interface Realizing {
  /** Tells jit functions that `t` is about to name something else. */
  noteRenamed(t: TensorBase): void;
  /** Tells jit functions that a handle has left a storage for another one. */
  noteLeft(storage: Storage): void;
  /** Makes `copy` the memory of `top`, which `t` shows, instead of `memory`, which is another tensor's, too; gives what it is now. */
  copyOut(t: TensorBase, top: TensorBase, memory: UOp, copy: UOp): UOp;
  /** Writes `value` into `view`, a view of the memory of `t`, which then names the new version, as does what it is a view of. */
  assignView(t: TensorBase, view: UOp, value: UOp): void;
}
/** Set by realize.ts. */
export const realizing: Realizing = {} as Realizing;
