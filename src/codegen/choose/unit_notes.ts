/**
 * Why no matrix unit computes a product of matrices: what is told of a kernel where units are there and stay unused. In: the
 * kernel before opts and the units of the device; out: a sentence.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import type { TensorCore } from "../../renderer/tensor_core_table.ts";
import { contraction, factorsOf } from "../../uop/algebra/contraction.ts";
import { productOf } from "../../uop/algebra/product_chain.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, sizeOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { Kernel } from "../opt/kernel.ts";
import { isAllowed } from "./tile_candidates.ts";

/** The dtype that a factor has in memory. */
function memoryDType(u: UOp): DType {
  return u.op === Ops.CAST ? u.src[0].dtype : u.dtype;
}

/** The first sum of products of two matrices, with its factors. */
function productIn({ ast, outputAxes }: Kernel): { readonly sum: UOp; readonly factors: readonly UOp[] } | undefined {
  const outputs = outputAxes.map((a) => a.range);
  for (const sum of toposort(ast)) {
    const factors = factorsOf(sum);
    if (factors === undefined) continue;
    const [isInA, isInB] = factors.map((f) => (r: UOp): boolean => dependsOn(f, r));
    if (contraction(outputs, [], isInA, isInB) !== undefined) return { sum, factors };
  }
  return undefined;
}

/** Why no unit computes the product of a kernel; undefined where it has none, or the device has no units. */
export function whyNoUnit(kernel: Kernel, units: readonly TensorCore[]): string | undefined {
  const product = units.length === 0 ? undefined : productIn(kernel);
  if (product === undefined) return undefined;
  const { sum, factors } = product, fitting = units.filter((unit) => productOf(sum, unit) !== undefined);
  const allowed = fitting.filter(isAllowed), types = [...new Set(factors.map(memoryDType))];
  if (allowed.length === 0) {
    return types.every((d) => d === dtypes.float32)
      ? "they multiply float32 with 10 bits of mantissa alone, which ALLOW_TF32=1 allows when the device opens"
      : `none of the device multiplies ${types.join(" and ")} for a sum of ${sum.dtype}`;
  }
  if (allowed.some((unit) => kernel.productAxes(unit) !== undefined)) {
    return "they could do it, and threads take less by the model";
  }
  const terms = Math.max(...sum.src.slice(1).map(sizeOf)), [{ k }] = allowed;
  return terms < k
    ? `one adds ${k} products at a time, and the sum has ${terms}`
    : "the axes are no rows and columns of two matrices as they take them";
}
