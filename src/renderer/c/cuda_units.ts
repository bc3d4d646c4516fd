/**
 * Matrix units that read their operands from shared memory, in PTX: instructions, descriptors of operands, and the functions
 * around them that kernels in CUDA C call. The PTX ISA, section "Asynchronous warpgroup level matrix instructions".
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { elementsOf, type SharedTile, SWIZZLE_ALIGN, type TensorCore } from "../tensor_core_table.ts";
import { FN, matrixTypes } from "./cuda_helpers.ts";

/** The upper half of a descriptor: bytes from eight rows to the next eight, in units of 16, and 128 bytes of swizzle. */
export const DESCRIPTOR_HIGH: number = SWIZZLE_ALIGN >> 4 | 1 << 30;

/** The lower half, beside the address: bytes from block to block, in units of 16. */
export function descriptorLow({ block }: SharedTile): number {
  return block >> 4 << 16;
}

/** The instruction of a product. */
export function unitInstruction(unit: TensorCore): string {
  return `wgmma.mma_async.sync.aligned.${unit.name}.${matrixTypes(unit).split(".").slice(0, 3).join(".")}`;
}

/** What follows its operands: of floats signs, and which of them do not lie along the sum. */
export function unitFlags({ shared, input }: TensorCore): string {
  return input.isFloat ? `, 1, 1, ${shared!.map((x) => x.isAlong ? 1 : 0).join(", ")}` : "";
}

/** The instruction of a UNIT. */
export function unitOrder({ arg }: UOp): string {
  switch (arg) {
    case "begin":
      return "wgmma.fence.sync.aligned";
    case "commit":
      return "wgmma.commit_group.sync.aligned";
    case "publish":
      return "fence.proxy.async.shared::cta";
  }
  if (typeof arg !== "number") throw new SpecError(`A UNIT that orders ${arg}`);
  return `wgmma.wait_group.sync.aligned ${arg}`;
}

/** A name for the function of a unit. */
export function unitFunction(unit: TensorCore): string {
  const tiles = unit.shared!.map(({ isAlong, block }) => `${isAlong ? "t" : "n"}${block}`);
  return `wgmma_${unit.name}_${unit.input}_${tiles.join("_")}`;
}

/** The function of that name. */
export function unitProduct(unit: TensorCore): string {
  const n = elementsOf(unit.c), sums = rangeOf(n).map((i) => `d${i}`), { isFloat } = unit.output;
  const type = isFloat ? "float" : "int";
  const [a, b] = unit.shared!.map((tile, i) =>
    `(unsigned)__cvta_generic_to_shared(${"ab"[i]}) >> 4 | ${descriptorLow(tile)}u`
  );
  return `${FN} void ${unitFunction(unit)}(const void *a, const void *b, ${
    sums.map((x) => `${type} &${x}`).join(", ")
  }) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.s32 p, 1, 0; "
    "mov.b64 x, {%${n}, ${DESCRIPTOR_HIGH}}; mov.b64 y, {%${n + 1}, ${DESCRIPTOR_HIGH}}; "
    "${unitInstruction(unit)} {${sums.map((_, i) => `%${i}`).join(", ")}}, x, y, p${unitFlags(unit)}; }"
    : ${held(sums, isFloat)} : "r"(${a}), "r"(${b}));
}`;
}

/** A statement for a UNIT, which what reads `sums` stays behind. */
export function unitStatement(u: UOp, sums: readonly string[]): string {
  return `asm volatile("${unitOrder(u)};" : ${held(sums, u.src[0]?.dtype.isFloat)} :: "memory");`;
}

/** Operands that an instruction reads and writes. */
function held(names: readonly string[], isFloat = true): string {
  return names.map((x) => `"+${isFloat ? "f" : "r"}"(${x})`).join(", ");
}
