/** The text of CUDA C, kernel by kernel. That it compiles and means what it should is tested beside (assemble, cuda_host). */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { CudaRenderer } from "../../../src/renderer/c/cuda_c.ts";
import { archNumber, cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { sharedBytesOf, threadsOf } from "../../../src/renderer/lanes.ts";
import { SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { MMA_TF32 } from "../../../src/renderer/tensor_core_table.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, int, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { gpuPrograms, opProgram, program, read, thread, write } from "../gpu_programs.ts";

const caps = cudaCaps({ arch: "sm_90a" }), renderer = new CudaRenderer(caps, 90);
const { float16, bfloat16, float32, float64, int8, int32, uint8, uint32, uint64, bool } = dtypes;
const programs = new Map(gpuPrograms(true).map((p) => [p.name, p]));
const bodyOf = (name: string): string => renderer.parts(programs.get(name)!, name).body;

for (
  const [name, want] of [
    [
      "ADD_float32_4",
      `extern "C" __global__ void __launch_bounds__(32) ADD_float32_4(float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2) {
  int v0 = (int)threadIdx.x;
  int v1 = v0 * 4;
  float4 v2 = *(const float4 *)&b1[v1];
  float4 v3 = *(const float4 *)&b2[v1];
  *(float4 *)&b0[v1] = make_float4((v2.x + v3.x), (v2.y + v3.y), (v2.z + v3.z), (v2.w + v3.w));
}
`,
    ],
    [
      "words_float16",
      `extern "C" __global__ void __launch_bounds__(32) words_float16(unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1) {
  int v0 = (int)threadIdx.x;
  int v1 = v0 * 8;
  uint4 v2 = *(const uint4 *)&b1[v1];
  float2 v3 = make_float2((f16_to_f32((unsigned short)v2.x) * 2.0f), (f16_to_f32((unsigned short)(v2.x >> 16)) * 2.0f));
  float2 v4 = make_float2((f16_to_f32((unsigned short)v2.y) * 2.0f), (f16_to_f32((unsigned short)(v2.y >> 16)) * 2.0f));
  float2 v5 = make_float2((f16_to_f32((unsigned short)v2.z) * 2.0f), (f16_to_f32((unsigned short)(v2.z >> 16)) * 2.0f));
  float2 v6 = make_float2((f16_to_f32((unsigned short)v2.w) * 2.0f), (f16_to_f32((unsigned short)(v2.w >> 16)) * 2.0f));
  *(uint4 *)&b0[v1] = make_uint4(f32x2_to_f16x2(v3), f32x2_to_f16x2(v4), f32x2_to_f16x2(v5), f32x2_to_f16x2(v6));
}
`,
    ],
    [
      "gated_int8_4",
      `extern "C" __global__ void __launch_bounds__(32) gated_int8_4(signed char *__restrict__ b0, const signed char *__restrict__ b1, const signed char *__restrict__ b2, const signed char *__restrict__ b3, const signed char *__restrict__ b4) {
  int v0 = (int)threadIdx.x;
  int v1 = v0 * 12;
  int v2 = v0 * 4;
  bool v3 = v0 < 7;
  *(unsigned *)&b0[v1] = v3 ? (*(const unsigned *)&b1[v2]) : 0u;
  *(unsigned *)&b0[v1 + 4] = v3 ? (*(const unsigned *)&b2[v2 + 4]) : (*(const unsigned *)&b3[v2]);
  unsigned v4 = (unsigned)(unsigned char)1 | (unsigned)(unsigned char)1 << 8 | (unsigned)(unsigned char)1 << 16 | (unsigned)(unsigned char)1 << 24;
  *(unsigned *)&b0[v1 + 8] = v3 ? (*(const unsigned *)&b4[v2]) : v4;
}
`,
    ],
    [
      "conditional",
      `extern "C" __global__ void __launch_bounds__(48) conditional(float *__restrict__ b0, const float *__restrict__ b1, const int var_n) {
  int v0 = (int)threadIdx.x;
  float v1 = b1[v0] * 2.0f;
  if (v0 < var_n) {
    b0[v0] = v1;
  }
}
`,
    ],
    [
      "local_float16_shared_1",
      `extern "C" __global__ void __launch_bounds__(32) local_float16_shared_1(unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2) {
  extern __shared__ __align__(128) unsigned char shared[];
  int v0 = (int)threadIdx.x;
  int v1 = (v0 * (-1)) + 31;
  unsigned short *const local0 = (unsigned short *)(shared + 0);
  int v2 = v0 * 1;
  local0[v2] = b1[v2];
  unsigned short *const local1 = (unsigned short *)(shared + 1024);
  local1[v0] = b2[v0];
  __syncthreads();
  b0[v1] = local0[v1];
  b0[v0 + 32] = local1[(long long)v0];
}
`,
    ],
    [
      "shuffle_uint8",
      `extern "C" __global__ void __launch_bounds__(32) shuffle_uint8(unsigned char *__restrict__ b0, const unsigned char *__restrict__ b1) {
  int v0 = (int)threadIdx.x;
  unsigned char v1 = b1[v0];
  unsigned char v2 = (unsigned char)__shfl_xor_sync(0xffffffffu, (int)v1, 16);
  unsigned char v3 = (unsigned char)((unsigned)v1 + (unsigned)v2);
  unsigned char v4 = (unsigned char)__shfl_xor_sync(0xffffffffu, (int)v3, 8);
  b0[v0] = (v0 < 16) ? v4 : v3;
}
`,
    ],
    [
      "loop_float32_1_0",
      `extern "C" __global__ void __launch_bounds__(32) loop_float32_1_0(float *__restrict__ b0, const float *__restrict__ b1) {
  int v0 = (int)threadIdx.x;
  float acc0 = 0.0f;
  _Pragma("unroll 1") for (int i0 = 0; i0 < 8; i0++) {
    acc0 = acc0 + b1[(i0 * 1) + (v0 * 8)];
  }
  b0[v0 * 1] = acc0;
}
`,
    ],
    [
      "loop_int16_8_2",
      `extern "C" __global__ void __launch_bounds__(32) loop_int16_8_2(short *__restrict__ b0, const short *__restrict__ b1, const int var_n) {
  int v0 = (int)threadIdx.x;
  short acc1 = 0;
  short acc2 = 0;
  short acc3 = 0;
  short acc4 = 0;
  short acc5 = 0;
  short acc6 = 0;
  short acc7 = 0;
  short acc8 = 0;
  _Pragma("unroll 1") for (int i0 = 0; i0 < var_n; i0++) {
    uint4 v1 = *(const uint4 *)&b1[(i0 * 8) + (v0 * 64)];
    acc1 = (short)((unsigned)acc1 + (unsigned)((short)v1.x));
    acc2 = (short)((unsigned)acc2 + (unsigned)((short)(v1.x >> 16)));
    acc3 = (short)((unsigned)acc3 + (unsigned)((short)v1.y));
    acc4 = (short)((unsigned)acc4 + (unsigned)((short)(v1.y >> 16)));
    acc5 = (short)((unsigned)acc5 + (unsigned)((short)v1.z));
    acc6 = (short)((unsigned)acc6 + (unsigned)((short)(v1.z >> 16)));
    acc7 = (short)((unsigned)acc7 + (unsigned)((short)v1.w));
    acc8 = (short)((unsigned)acc8 + (unsigned)((short)(v1.w >> 16)));
  }
  uint4 v2 = make_uint4(((unsigned)(unsigned short)acc1 | (unsigned)(unsigned short)acc2 << 16), ((unsigned)(unsigned short)acc3 | (unsigned)(unsigned short)acc4 << 16), ((unsigned)(unsigned short)acc5 | (unsigned)(unsigned short)acc6 << 16), ((unsigned)(unsigned short)acc7 | (unsigned)(unsigned short)acc8 << 16));
  *(uint4 *)&b0[v0 * 8] = v2;
}
`,
    ],
    [
      "pipelined_float16",
      `extern "C" __global__ void __launch_bounds__(32, 1) pipelined_float16(unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, const int var_n) {
  extern __shared__ __align__(128) unsigned char shared[];
  int v0 = (int)threadIdx.x;
  unsigned short *const local0 = (unsigned short *)(shared + 0);
  int v1 = v0 * 8;
  copy_async_16(&local0[v1], &b1[v1], 16);
  int v2 = v1 + 256;
  copy_async_16(&local0[v2], &b2[v1], (v0 < var_n) ? 16 : 0);
  commit_copies();
  wait_copies_0();
  __syncthreads();
  uint4 v3 = ldmatrix(&local0[v1]);
  uint4 v4 = ldmatrix_trans(&local0[v2]);
  float acc1 = 0.0f;
  float acc2 = 0.0f;
  float acc3 = 0.0f;
  float acc4 = 0.0f;
  float4 v5 = mma_m16n8k16_float16(v3, make_uint2(v4.x, v4.y), make_float4(acc1, acc2, acc3, acc4));
  acc1 = v5.x;
  acc2 = v5.y;
  acc3 = v5.z;
  acc4 = v5.w;
  float4 v6 = mma_m16n8k16_float16(v3, make_uint2(v4.z, v4.w), make_float4(acc1, acc2, acc3, acc4));
  *(uint2 *)&b0[v0 * 4] = make_uint2(f32x2_to_f16x2(make_float2(v6.x, v6.y)), f32x2_to_f16x2(make_float2(v6.z, v6.w)));
}
`,
    ],
    [
      "index_64",
      `extern "C" __global__ void __launch_bounds__(8) index_64(float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, const bool var_flag, const long long var_q, const float var_s) {
  int v0 = (int)blockIdx.z;
  int v1 = (int)threadIdx.y;
  long long v2 = (long long)((v0 * 8) + v1);
  b0[(v2 * 3ll) + 5ll] = var_flag ? (b1[v2 + var_q] * var_s) : (b2[4096ll] + b2[3]);
}
`,
    ],
  ] as const
) {
  Deno.test(`cuda: ${name}`, () => assertEquals(bodyOf(name), want));
}

/** The text that is stored when `value` is. */
function stored(value: UOp, r = renderer): string {
  const { body } = r.parts(program("k", write(value, int(0))), "k");
  return /b0\[0\] = (.*);\n\}/.exec(body)![1];
}
const at = int(1),
  x = read(1, float32, at),
  y = read(2, float32, at),
  h = read(1, float16, at),
  b = read(1, bfloat16, at);
const old = new CudaRenderer(cudaCaps({ arch: "sm_75" }), 75);

for (
  const [name, value, want, r = renderer] of [
    ["infinity", constant(-Infinity, float32), "__int_as_float(0xff800000)"],
    ["NaN", constant(NaN, float64), "__longlong_as_double(0x7ff8000000000000ll)"],
    ["float16 constants", constant(1.5, float16), "(unsigned short)15872"],
    ["bfloat16 constants", constant(1.5, bfloat16), "(unsigned short)16320"],
    ["maximum", x.max(y), "max_f32(b1[1], b2[1])"],
    ["maximum without instruction", x.max(y), "max_f32_select(b1[1], b2[1])", old],
    ["fused product", uop(Ops.MULACC, float32, [x, y, x]), "fmaf(v0, b2[1], v0)"],
    ["e^x", x.mul(Math.fround(Math.LOG2E)).exp2(), "expf(b1[1])"],
    ["2^x in double", read(1, float64, at).exp2(), "exp2(b1[1])"],
    ["float16 to float32", h.cast(float32), "f16_to_f32(b1[1])"],
    ["bfloat16 to int", b.cast(int32), "(int)bf16_to_f32(b1[1])"],
    ["float64 to float16", read(1, float64, at).cast(float16), "f32_to_f16((float)b1[1])"],
    ["to bfloat16 without instruction", x.cast(bfloat16), "f32_to_bf16_bits(b1[1])", old],
    ["what was rounded to bfloat16", x.cast(bfloat16).cast(float32), "round_bf16(b1[1])"],
    [
      "what was rounded without instruction",
      x.cast(bfloat16).cast(float32),
      "bf16_to_f32(f32_to_bf16_bits(b1[1]))",
      old,
    ],
    [
      "what was rounded from double",
      read(1, float64, at).cast(bfloat16).cast(float32),
      "bf16_to_f32(f32_to_bf16((float)b1[1]))",
    ],
    [
      "bfloat16 sums, rounded",
      b.add(b).mul(b),
      "f32_to_bf16(bf16_to_f32(f32_to_bf16(bf16_to_f32(v0) + bf16_to_f32(v0))) * bf16_to_f32(v0))",
    ],
    [
      "2^x for 16 bits",
      uop(Ops.EXP2, float32, [x.mul(Math.fround(Math.LOG2E))], "rounded"),
      "exp2f(b1[1] * 1.4426950216293335f)",
    ],
    ["quotient for 16 bits", uop(Ops.FDIV, float32, [x, y], "rounded"), "divide_rounded(b1[1], b2[1])"],
    ["quotient by a reciprocal", uop(Ops.FDIV, float32, [x, y], "reciprocal"), "divide_reciprocal(b1[1], b2[1])"],
    ["float16 sums", h.add(h), "f32_to_f16(f16_to_f32(v0) + f16_to_f32(v0))"],
    ["float to small integers wraps", x.cast(uint8), "(unsigned char)(int)b1[1]"],
    ["float to unsigned wraps", x.cast(uint32), "(unsigned)(long long)b1[1]"],
    ["float to uint64", x.cast(uint64), "f32_to_u64(b1[1])"],
    ["bits", x.bitcast(int32), "__float_as_int(b1[1])"],
    ["small sums wrap", read(1, int8, at).add(1), "(signed char)((unsigned)b1[1] + (unsigned)1)"],
    ["bools", read(1, bool, at), "b1[1] != 0"],
  ] as [string, UOp, string, CudaRenderer?][]
) {
  Deno.test(`cuda: ${name}`, () => assertEquals(stored(value, r), want));
}

Deno.test("cuda: capabilities by architecture", () => {
  const shown = (arch: string) => {
    const { grid, storageDTypes } = cudaCaps({ arch });
    return [archNumber(arch), grid!.sharedBytes, grid!.unitThreads, grid!.hasAsyncCopy, grid!.tensorCores.join(", ")]
      .concat(storageDTypes.includes(float16) ? ["half"] : []);
  };
  const units = "m16n8k16 bfloat16 float32, m16n8k16 float16 float32, m16n8k32 int8 int32";
  assertEquals(shown("sm_75"), [75, 64512, 1024, false, "", "half"]);
  assertEquals(shown("sm_80"), [80, 166912, 2048, true, units, "half"]);
  assertEquals(shown("sm_86"), [86, 101376, 1536, true, units, "half"]);
  const wide = ["k16 bfloat16 float32", "k16 float16 float32", "k32 int8 int32"]
    .flatMap((d) => [256, 128, 64].map((n) => `, m64n${n}${d}`)).join("");
  assertEquals(shown("sm_90"), [90, 232448, 2048, true, units, "half"]);
  assertEquals(shown("sm_90a"), [90, 232448, 2048, true, units + wide, "half"]);
  assertEquals(cudaCaps({ arch: "sm_80", tf32: true }).grid!.tensorCores.includes(MMA_TF32), true);
  const lanes = (d: DType) => caps.vectorLanes(d);
  assertEquals([int8, float16, float32, float64].map(lanes), [16, 8, 4, 2]);
});

Deno.test("cuda: threads and shared memory of a program", () => {
  const p = programs.get("local_float16_shared_1")!;
  assertEquals([threadsOf(p), sharedBytesOf(p)], [32, 1024 + 80]);
  assertEquals([threadsOf(programs.get("scalar")!), sharedBytesOf(programs.get("scalar")!)], [1, 0]);
});

Deno.test("cuda: programs without a grid are one thread", () => {
  assertStringIncludes(bodyOf("scalar"), "__launch_bounds__(1)");
});

Deno.test("cuda: a renderer without the architecture writes for sm_80", () => {
  assertStringIncludes(new CudaRenderer(SCALAR_CAPS).render(opProgram(Ops.MAX, float32)), "max.NaN.f32");
});

Deno.test("cuda: vectors wider than 16 bytes are a contradiction", () => {
  const p = program("wide", write(read(1, float64.vec(4), thread()), thread()));
  assertThrows(() => renderer.render(p), SpecError, "no vector float64x4");
});
