/**
 * Functions that kernels in CUDA C call, by name: conversions, copies and matrix units as inline PTX, so that no header
 * is needed.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { MAP_ALIGN, MAP_BYTES } from "../renderer.ts";
import { elementsOf, type TensorCore } from "../tensor_core_table.ts";

/** What stands before a function that a kernel calls. */
export const FN = "static __device__ __forceinline__";

function copyAsync(nbytes: number): string {
  const mode = nbytes === 16 ? "cg" : "ca";
  return `${FN} void copy_async_${nbytes}(void *to, const void *from, int nbytes) {
  asm volatile("cp.async.${mode}.shared.global [%0], [%1], ${nbytes}, %2;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(nbytes) : "memory");
}`;
}

function ldmatrix(name: string, suffix: string): string {
  return `${FN} uint4 ${name}(const void *row) {
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4${suffix}.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
  return r;
}`;
}

/** A function that waits until at most `n` batches of copies are on their way. */
export function waitCopies(name: string, n: number): string {
  return `${FN} void ${name}() { asm volatile("cp.async.wait_group ${n};" ::: "memory"); }`;
}

/** The type of what the copy engine is told of a buffer. */
export const TENSOR_MAP: string = `struct __align__(${MAP_ALIGN}) tensor_map { unsigned char bytes[${MAP_BYTES}]; };`;

/** A function of the name that starts a copy of a box of so many axes. */
export function copyBox(name: string, axes: number): string {
  const position = Array.from({ length: axes }, (_, i) => `x${i}`);
  return `${FN} void ${name}(void *to, void *barrier, unsigned long long map, ${
    position.map((x) => `int ${x}`).join(", ")
  }) {
  asm volatile("cp.async.bulk.tensor.${axes}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {${
    position.map((_, i) => `%${3 + i}`).join(", ")
  }}], [%2];"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), ${
    position.map((x) => `"r"(${x})`).join(", ")
  } : "memory");
}`;
}

/** The source of each function. */
export const HELPERS: Readonly<Record<string, string>> = {
  f16_to_f32: `${FN} float f16_to_f32(unsigned short x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}`,
  bf16_to_f32: `${FN} float bf16_to_f32(unsigned short x) { return __uint_as_float((unsigned)x << 16); }`,
  f32_to_f16: `${FN} unsigned short f32_to_f16(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}`,
  // instructions for pairs have no need of the slow conversion unit
  f32_to_bf16: `${FN} unsigned short f32_to_bf16(float x) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(0.0f), "f"(x));
  return (unsigned short)r;
}`,
  round_bf16: `${FN} float round_bf16(float x) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(0.0f));
  return __uint_as_float(r);
}`,
  f32_to_bf16_bits: `${FN} unsigned short f32_to_bf16_bits(float x) {
  unsigned b = __float_as_uint(x);
  return (unsigned short)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}`,
  f32x2_to_f16x2: `${FN} unsigned f32x2_to_f16x2(float2 x) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x.y), "f"(x.x));
  return r;
}`,
  f32x2_to_bf16x2: `${FN} unsigned f32x2_to_bf16x2(float2 x) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x.y), "f"(x.x));
  return r;
}`,
  f32x2_to_f16x2_each: `${FN} unsigned f32x2_to_f16x2_each(float2 x) {
  return (unsigned)f32_to_f16(x.x) | (unsigned)f32_to_f16(x.y) << 16;
}`,
  f32x2_to_bf16x2_each: `${FN} unsigned f32x2_to_bf16x2_each(float2 x) {
  return (unsigned)f32_to_bf16_bits(x.x) | (unsigned)f32_to_bf16_bits(x.y) << 16;
}`,
  f32_to_u64: `${FN} unsigned long long f32_to_u64(float x) {
  return x < 0 ? (unsigned long long)(long long)x : (unsigned long long)x;
}`,
  f64_to_u64: `${FN} unsigned long long f64_to_u64(double x) {
  return x < 0 ? (unsigned long long)(long long)x : (unsigned long long)x;
}`,
  max_f32: `${FN} float max_f32(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}`,
  exp2_flush: `${FN} float exp2_flush(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}`,
  // divisors from 1 on: a quarter has a reciprocal that is no subnormal
  divide_rounded: `${FN} float divide_rounded(float a, float b) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b * 0.25f));
  return a * 0.25f * r;
}`,
  divide_reciprocal: `${FN} float divide_reciprocal(float a, float b) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
  return r * a;
}`,
  max_f32_select: `${FN} float max_f32_select(float a, float b) { return a > b || a != a ? a : b; }`,
  max_f64: `${FN} double max_f64(double a, double b) { return a > b || a != a ? a : b; }`,
  copy_async_4: copyAsync(4),
  copy_async_8: copyAsync(8),
  copy_async_16: copyAsync(16),
  commit_copies: `${FN} void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }`,
  init_barrier: `${FN} void init_barrier(void *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}`,
  expect_bytes: `${FN} void expect_bytes(void *barrier, int nbytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(nbytes) : "memory");
}`,
  wait_barrier: `${FN} void wait_barrier(void *barrier, int phase) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
      : "=r"(done) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(phase) : "memory");
  } while (!done);
}`,
  ldmatrix: ldmatrix("ldmatrix", ""),
  ldmatrix_trans: ldmatrix("ldmatrix_trans", ".trans"),
};

/** What mma.sync calls the dtypes of a matrix unit: of C, A, B and C again. */
export function matrixTypes(unit: TensorCore): string {
  if (unit.input === dtypes.int8) return "s32.s8.s8.s32";
  const input = unit.input === dtypes.float16 ? "f16" : unit.input === dtypes.bfloat16 ? "bf16" : "tf32";
  return `f32.${input}.${input}.f32`;
}

/** Registers of 32 bits that a thread's elements of A and of B fill. */
function matrixWords(unit: TensorCore): readonly [a: number, b: number] {
  return [elementsOf(unit.a) * unit.input.bits >> 5, elementsOf(unit.b) * unit.input.bits >> 5];
}

/** A function of the name that does the product of tiles on registers. */
export function matrixUnit(name: string, unit: TensorCore): string {
  const isFloat = unit.output.isFloat, isTf32 = unit.input === dtypes.float32, c = isFloat ? "float4" : "int4";
  const [na, nb] = matrixWords(unit);
  const fields = (v: string, n: number): string[] => Array.from({ length: n }, (_, i) => `${v}.${"xyzw"[i]}`);
  const input = (x: string): string => `"r"(${isTf32 ? `__float_as_uint(${x})` : x})`;
  const list = (from: number, n: number): string =>
    `{${Array.from({ length: n }, (_, i) => `%${from + i}`).join(", ")}}`;
  const kind = isTf32 ? "float" : "uint", operands = [...fields("a", na), ...fields("b", nb)];
  const rounded = operands.map((x) =>
    `  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(${x})); ${x} = __uint_as_float(bits);\n`
  );
  return `${FN} ${c} ${name}(${kind}${na} a, ${kind}${nb} b, ${c} c) {
${isTf32 ? `  unsigned bits;\n${rounded.join("")}` : ""}  asm volatile("mma.sync.aligned.${unit.name}.row.col.${
    matrixTypes(unit)
  } ${list(0, 4)}, ${list(4, na)}, ${list(4 + na, nb)}, ${list(0, 4)};"
    : ${fields("c", 4).map((x) => `"+${isFloat ? "f" : "r"}"(${x})`).join(", ")}
    : ${operands.map(input).join(", ")});
  return c;
}`;
}
