/**
 * Matrix units that read their operands from shared memory, in PTX: instructions, descriptors of operands, and the functions
 * around them that kernels in CUDA C call. The PTX ISA, section "Asynchronous warpgroup level matrix instructions".
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { elementsOf, type SharedTile, SWIZZLE_ALIGN, SWIZZLED_ROW, type TensorCore } from "../tensor_core_table.ts";
import { FN, matrixTypes } from "./cuda_helpers.ts";

/** The upper half of a descriptor: bytes from eight rows to the next eight, in units of 16, and 128 bytes of swizzle. */
export const DESCRIPTOR_HIGH: number = SWIZZLE_ALIGN >> 4 | 1 << 30;

/** The lower half, beside the address: bytes from block to block, in units of 16. */
export function descriptorLow({ block }: SharedTile): number {
  return block >> 4 << 16;
}

/** Terms of one instruction's sum. */
function termsOf({ input }: TensorCore): number {
  return 32 / input.itemsize;
}

/** One instruction of a product. */
export interface UnitStep {
  /** Of the words of a left operand in registers, the first and the one behind the last. */
  readonly words: readonly [number, number];
  /** How far behind the first one's its right operand lies, in units of 16 bytes. */
  readonly offset: number;
}

/** The instructions of a product: one, or as many as have the terms of a left operand in registers. */
export function unitSteps(unit: TensorCore): readonly UnitStep[] {
  const [a, { isAlong, block }] = unit.shared!, terms = termsOf(unit), nbytes = terms * unit.input.itemsize;
  const words = a === undefined ? elementsOf(unit.a) * unit.input.bits >> 5 : 0, count = unit.k / terms;
  return rangeOf(count).map((i) => {
    const at = i * nbytes, row = Math.floor(at / SWIZZLED_ROW);
    const offset = isAlong ? i * terms * SWIZZLED_ROW : row * block + at % SWIZZLED_ROW;
    return { words: [i * words / count, (i + 1) * words / count], offset: offset >> 4 };
  });
}

/** The instruction of a product. */
export function unitInstruction(unit: TensorCore): string {
  const { m, n } = unit, name = `m${m}n${n}k${termsOf(unit)}`;
  return `wgmma.mma_async.sync.aligned.${name}.${matrixTypes(unit).split(".").slice(0, 3).join(".")}`;
}

/** What follows its operands: of floats signs, and which of those in memory do not lie along the sum. */
export function unitFlags({ shared, input }: TensorCore): string {
  return input.isFloat ? `, 1, 1, ${shared!.flatMap((x) => x ? [x.isAlong ? 1 : 0] : []).join(", ")}` : "";
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

/** A name for the function of a unit: one that adds to what its sums are, or begins them. */
export function unitFunction(unit: TensorCore, adds: boolean): string {
  const tiles = unit.shared!.map((tile) => tile === undefined ? "r" : `${tile.isAlong ? "t" : "n"}${tile.block}`);
  return `wgmma_${unit.name}_${unit.input}_${tiles.join("_")}${adds ? "" : "_first"}`;
}

/** The function of that name. */
export function unitProduct(unit: TensorCore, adds: boolean): string {
  const n = unit.sums, sums = rangeOf(n).map((i) => `d${i}`), { isFloat } = unit.output;
  const type = isFloat ? "float" : "int", steps = unitSteps(unit), [tileA, tileB] = unit.shared!;
  const words = rangeOf(steps[steps.length - 1].words[1]).map((i) => `a${i}`);
  const low = (name: string, tile: SharedTile): string =>
    `"r"((unsigned)__cvta_generic_to_shared(${name}) >> 4 | ${descriptorLow(tile)}u)`;
  const left = tileA === undefined ? words.map((x) => `"r"(${x})`) : [low("a", tileA)];
  const at = n + left.length,
    list = (from: number, to: number): string => `{${rangeOf(to - from).map((i) => `%${from + i}`).join(", ")}}`;
  const lines = steps.map(({ words: [from, to], offset }, i) => {
    const a = tileA === undefined ? list(n + from, n + to) : "x", p = i === 0 ? "p" : "q";
    const next = i === 0 ? "" : `add.s32 z, %${at}, ${offset}; mov.b64 y, {z, ${DESCRIPTOR_HIGH}}; `;
    return `    "${next}${unitInstruction(unit)} ${list(0, n)}, ${a}, y, ${p}${unitFlags(unit)};"\n`;
  });
  const args = tileA === undefined ? words.map((x) => `unsigned ${x}`) : ["const void *a"];
  const first = tileA === undefined ? "" : `mov.b64 x, {%${n}, ${DESCRIPTOR_HIGH}}; `;
  return `${FN} void ${unitFunction(unit, adds)}(${args.join(", ")}, const void *b, ${
    sums.map((x) => `${type} &${x}`).join(", ")
  }) {
  asm volatile("{ .reg .pred p, q; .reg .b32 z; .reg .b64 x, y; setp.ne.s32 p, ${
    adds ? 1 : 0
  }, 0; setp.ne.s32 q, 1, 0; "
    "${first}mov.b64 y, {%${at}, ${DESCRIPTOR_HIGH}}; "
${lines.join("")}    "}"
    : ${held(sums, isFloat)} : ${[...left, low("b", tileB)].join(", ")});
}`;
}

/** Reads registers, so that they are kept until then: for a store that never happens. */
function foundStatement(words: readonly string[]): string {
  const all = words.map((_, i) => `xor.b32 x, x, %${i}; `).join("");
  return `asm volatile("{ .reg .pred p; .reg .b32 n, x; mov.u32 n, %%nctaid.x; setp.eq.s32 p, n, 0; mov.b32 x, n; " ` +
    `"${all}@p st.shared.b32 [n], x; }" :: ${words.map((x) => `"r"(${x})`).join(", ")} : "memory");`;
}

/** A statement for a UNIT, which what reads `sums` stays behind, and what computes operands in registers before. */
export function unitStatement(u: UOp, names: readonly string[]): string {
  if (u.arg === "found") return foundStatement(names);
  const isInput = u.arg === "begin", input = names.filter((_, i) => isInput && u.src[i].op !== Ops.ACC);
  const sums = names.filter((_, i) => !isInput || u.src[i].op === Ops.ACC);
  const read = input.length === 0 ? "" : ` : ${input.map((x) => `"r"(${x})`).join(", ")} `;
  const isFloat = u.src.find((s) => s.op === Ops.ACC)?.dtype.isFloat;
  return `asm volatile("${unitOrder(u)};" : ${held(sums, isFloat)}${read === "" ? " :" : read}: "memory");`;
}

/** Operands that an instruction reads and writes. */
function held(names: readonly string[], isFloat = true): string {
  return names.map((x) => `"+${isFloat ? "f" : "r"}"(${x})`).join(", ");
}
