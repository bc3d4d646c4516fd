/**
 * What notes tell of a choice: the plans that were weighed beside it, and why no matrix unit computes a product of matrices
 * where the device has units. In: the kernel before opts; out: sentences.
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
import { note } from "../../uop/rewrite/record.ts";
import type { Kernel } from "../opt/kernel.ts";
import { type Opt, optsText } from "../opt/opt.ts";
import { isAllowed } from "./tile_candidates.ts";

/** Plans that notes tell beside the chosen one. */
export const TOLD = 3;

/** A number of the model with three digits: "41,000". */
export function costText(cost: number): string {
  return Number(cost.toPrecision(3)).toLocaleString("en-US");
}

/** Notes the plans that were weighed beside the chosen one, with what each takes by the model, in its unit. */
export function tellOthers(
  ast: UOp,
  others: readonly (readonly [cost: number, opts: readonly Opt[]])[],
  unit: string,
): void {
  if (others.length === 0) return;
  const texts = others.map(([cost, opts]) => `${costText(cost)} ${unit} ${optsText(opts) || "loops as they are"}`);
  note("analysis", ast, `beside it, by the model: ${texts.join("; ")}`, { least: others[0][0] });
}

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
