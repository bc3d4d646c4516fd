/**
 * `viewOf`: where a composition of movement ops is one strided view of a buffer, its shape, strides, offset and mask.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { latest } from "../../uop/graph/resolve.ts";
import { bare } from "../../uop/graph/complex.ts";
import { nodeView, type View } from "../../uop/graph/view.ts";
import { TensorBase } from "./base.ts";

export type { View } from "../../uop/graph/view.ts";

/**
 * The view of its buffer that a tensor is, or undefined where one view does not suffice (or there is work to do first).
 * Of a complex tensor that of its pairs of floats, with a last axis of size 2. Runs nothing.
 */
export function viewOf(tensor: TensorBase): View | undefined {
  if (!(tensor instanceof TensorBase)) {
    throw new ArgumentError("show the view of a tensor", { reason: `it takes a tensor, not ${describe(tensor)}` });
  }
  const { base: { op }, view, moving } = nodeView(bare(tensor.uop), latest);
  if (moving.length > 0) return undefined;
  return op === Ops.BUFFER || op === Ops.COPY || op === Ops.CONTIGUOUS || op === Ops.AFTER ? view : undefined;
}
