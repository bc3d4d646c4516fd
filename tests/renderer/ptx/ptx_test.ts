/** The text of PTX, kernel by kernel. That it assembles is tested beside (assemble). */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { cudaCaps, PTX_OPS } from "../../../src/renderer/cuda_caps.ts";
import { PtxRenderer, ptxVersion } from "../../../src/renderer/ptx/ptx.ts";
import { Int64 } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, int, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { gpuPrograms, opProgram, program, read, write } from "../gpu_programs.ts";

const caps = cudaCaps({ arch: "sm_90a" }), renderer = new PtxRenderer(caps, "sm_90a");
const { float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint32, uint64, bool } = dtypes;
const programs = new Map(gpuPrograms(false).map((p) => [p.name, p]));

/** Instructions of a kernel, without parameters' loads. */
function instructions(text: string): string[] {
  return text.split("\n").map((l) => l.trim()).filter((l) =>
    l !== "" && !/^(\.visible|\.param|\.maxntid|\.minnctapersm|\.reg|[(){}]|ld\.param\.u64|cvta)/.test(l)
  );
}

for (
  const [name, want] of [
    ["ADD_float32_4", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, 4;",
      "mad.wide.s32 %rd4, %r1, 4, %rd3;",
      "ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd4];",
      "mad.wide.s32 %rd7, %r1, 4, %rd6;",
      "ld.global.nc.v4.f32 {%f4, %f5, %f6, %f7}, [%rd7];",
      "add.rn.f32 %f8, %f0, %f4;",
      "add.rn.f32 %f9, %f1, %f5;",
      "add.rn.f32 %f10, %f2, %f6;",
      "add.rn.f32 %f11, %f3, %f7;",
      "mad.wide.s32 %rd8, %r1, 4, %rd1;",
      "st.global.v4.f32 [%rd8], {%f8, %f9, %f10, %f11};",
      "ret;",
    ]],
    ["words_bfloat16", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, 8;",
      "mad.wide.s32 %rd4, %r1, 2, %rd3;",
      "ld.global.nc.v4.b32 {%r2, %r3, %r4, %r5}, [%rd4];",
      "mov.b32 {%h0, %h1}, %r2;",
      "mov.b32 {%h2, %h3}, %r3;",
      "mov.b32 {%h4, %h5}, %r4;",
      "mov.b32 {%h6, %h7}, %r5;",
      "mov.b16 %h8, 0;",
      "mov.b32 %f0, {%h8, %h0};",
      "mul.rn.f32 %f1, %f0, 0f40000000;",
      "mov.b32 %f2, {%h8, %h1};",
      "mul.rn.f32 %f3, %f2, 0f40000000;",
      "mov.b32 %f4, {%h8, %h2};",
      "mul.rn.f32 %f5, %f4, 0f40000000;",
      "mov.b32 %f6, {%h8, %h3};",
      "mul.rn.f32 %f7, %f6, 0f40000000;",
      "mov.b32 %f8, {%h8, %h4};",
      "mul.rn.f32 %f9, %f8, 0f40000000;",
      "mov.b32 %f10, {%h8, %h5};",
      "mul.rn.f32 %f11, %f10, 0f40000000;",
      "mov.b32 %f12, {%h8, %h6};",
      "mul.rn.f32 %f13, %f12, 0f40000000;",
      "mov.b32 %f14, {%h8, %h7};",
      "mul.rn.f32 %f15, %f14, 0f40000000;",
      "cvt.rn.bf16x2.f32 %r6, %f3, %f1;",
      "cvt.rn.bf16x2.f32 %r7, %f7, %f5;",
      "cvt.rn.bf16x2.f32 %r8, %f11, %f9;",
      "cvt.rn.bf16x2.f32 %r9, %f15, %f13;",
      "mad.wide.s32 %rd5, %r1, 2, %rd1;",
      "st.global.v4.b32 [%rd5], {%r6, %r7, %r8, %r9};",
      "ret;",
    ]],
    ["gated_int8_4", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, 12;",
      "mul.lo.s32 %r2, %r0, 4;",
      "setp.lt.s32 %p0, %r0, 7;",
      "mad.wide.s32 %rd4, %r2, 1, %rd3;",
      "mov.b32 %r3, 0;",
      "@%p0 ld.global.nc.b32 %r3, [%rd4];",
      "mad.wide.s32 %rd5, %r1, 1, %rd1;",
      "st.global.b32 [%rd5], %r3;",
      "add.s32 %r4, %r1, 4;",
      "add.s32 %r5, %r2, 4;",
      "mad.wide.s32 %rd10, %r2, 1, %rd9;",
      "ld.global.nc.b32 %r6, [%rd10];",
      "mad.wide.s32 %rd11, %r2, 1, %rd7;",
      "mov.b32 %r7, %r6;",
      "@%p0 ld.global.nc.b32 %r7, [%rd11+4];",
      "st.global.b32 [%rd5+4], %r7;",
      "add.s32 %r8, %r1, 8;",
      "prmt.b32 %r9, 1, 1, 0x7740;",
      "prmt.b32 %r10, 1, 1, 0x7740;",
      "prmt.b32 %r11, %r9, %r10, 0x5410;",
      "mad.wide.s32 %rd14, %r2, 1, %rd13;",
      "mov.b32 %r12, %r11;",
      "@%p0 ld.global.nc.b32 %r12, [%rd14];",
      "st.global.b32 [%rd5+8], %r12;",
      "ret;",
    ]],
    ["conditional", [
      "mov.u32 %r0, %tid.x;",
      "ld.param.s32 %r1, [k_n];",
      "setp.lt.s32 %p0, %r0, %r1;",
      "mad.wide.s32 %rd4, %r0, 4, %rd3;",
      "ld.global.nc.f32 %f0, [%rd4];",
      "mul.rn.f32 %f1, %f0, 0f40000000;",
      "@!%p0 bra $L0;",
      "mad.wide.s32 %rd5, %r0, 4, %rd1;",
      "st.global.f32 [%rd5], %f1;",
      "$L0:",
      "ret;",
    ]],
    ["local_float16_shared_1", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, -1;",
      "add.s32 %r2, %r1, 31;",
      "mov.u32 %r3, shared;",
      "mul.lo.s32 %r4, %r0, 1;",
      "mad.wide.s32 %rd4, %r4, 2, %rd3;",
      "ld.global.nc.b16 %h0, [%rd4];",
      "mad.lo.s32 %r5, %r4, 2, %r3;",
      "st.shared.b16 [%r5], %h0;",
      "add.s32 %r6, %r3, 1024;",
      "mad.wide.s32 %rd7, %r0, 2, %rd6;",
      "ld.global.nc.b16 %h1, [%rd7];",
      "mad.lo.s32 %r7, %r0, 2, %r6;",
      "st.shared.b16 [%r7], %h1;",
      "bar.sync 0;",
      "mad.lo.s32 %r8, %r1, 2, %r3;",
      "ld.shared.b16 %h2, [%r8+62];",
      "mad.wide.s32 %rd8, %r1, 2, %rd1;",
      "st.global.b16 [%rd8+62], %h2;",
      "add.s32 %r9, %r0, 32;",
      "cvt.s64.s32 %rd9, %r0;",
      "cvt.u32.u64 %r10, %rd9;",
      "mad.lo.s32 %r11, %r10, 2, %r6;",
      "ld.shared.b16 %h3, [%r11];",
      "mad.wide.s32 %rd10, %r0, 2, %rd1;",
      "st.global.b16 [%rd10+64], %h3;",
      "ret;",
    ]],
    ["shuffle_float64", [
      "mov.u32 %r0, %tid.x;",
      "setp.lt.s32 %p0, %r0, 16;",
      "mad.wide.s32 %rd4, %r0, 8, %rd3;",
      "ld.global.nc.f64 %fd0, [%rd4];",
      "mov.b64 {%r1, %r2}, %fd0;",
      "shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;",
      "shfl.sync.bfly.b32 %r4, %r2, 16, 31, -1;",
      "mov.b64 %fd1, {%r3, %r4};",
      "add.rn.f64 %fd2, %fd0, %fd1;",
      "mov.b64 {%r5, %r6}, %fd2;",
      "shfl.sync.bfly.b32 %r7, %r5, 8, 31, -1;",
      "shfl.sync.bfly.b32 %r8, %r6, 8, 31, -1;",
      "mov.b64 %fd3, {%r7, %r8};",
      "selp.f64 %fd4, %fd3, %fd2, %p0;",
      "mad.wide.s32 %rd5, %r0, 8, %rd1;",
      "st.global.f64 [%rd5], %fd4;",
      "ret;",
    ]],
    ["loop_float32_1_0", [
      "mov.u32 %r0, %tid.x;",
      "mov.f32 %f0, 0f00000000;",
      "mov.b32 %r1, 0;",
      "$L0:",
      '.pragma "nounroll";',
      "mov.f32 %f1, %f0;",
      "mul.lo.s32 %r2, %r1, 1;",
      "mul.lo.s32 %r3, %r0, 8;",
      "add.s32 %r4, %r2, %r3;",
      "mad.wide.s32 %rd4, %r4, 4, %rd3;",
      "ld.global.nc.f32 %f2, [%rd4];",
      "add.rn.f32 %f3, %f1, %f2;",
      "mov.f32 %f0, %f3;",
      "add.s32 %r1, %r1, 1;",
      "setp.lt.s32 %p0, %r1, 8;",
      "@%p0 bra $L0;",
      "$L0_end:",
      "mov.f32 %f4, %f0;",
      "mul.lo.s32 %r5, %r0, 1;",
      "mad.wide.s32 %rd5, %r5, 4, %rd1;",
      "st.global.f32 [%rd5], %f4;",
      "ret;",
    ]],
    ["pipelined_float16", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, 4;",
      "mov.u32 %r2, shared;",
      "mul.lo.s32 %r3, %r0, 8;",
      "mad.lo.s32 %r4, %r3, 2, %r2;",
      "mad.wide.s32 %rd4, %r3, 2, %rd3;",
      "cp.async.cg.shared.global [%r4], [%rd4], 16;",
      "add.s32 %r5, %r3, 256;",
      "ld.param.s32 %r6, [k_n];",
      "setp.lt.s32 %p0, %r0, %r6;",
      "mad.wide.s32 %rd7, %r3, 2, %rd6;",
      "selp.b32 %r7, 16, 0, %p0;",
      "cp.async.cg.shared.global [%r4+512], [%rd7], 16, %r7;",
      "cp.async.commit_group;",
      "cp.async.wait_group 0;",
      "bar.sync 0;",
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r4];",
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r12, %r13, %r14, %r15}, [%r4+512];",
      "mov.f32 %f0, 0f00000000;",
      "mov.f32 %f1, 0f00000000;",
      "mov.f32 %f2, 0f00000000;",
      "mov.f32 %f3, 0f00000000;",
      "mov.f32 %f4, %f0;",
      "mov.f32 %f5, %f1;",
      "mov.f32 %f6, %f2;",
      "mov.f32 %f7, %f3;",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f8, %f9, %f10, %f11}, {%r8, %r9, %r10, %r11}, {%r12, %r13}, {%f4, %f5, %f6, %f7};",
      "mov.f32 %f0, %f8;",
      "mov.f32 %f1, %f9;",
      "mov.f32 %f2, %f10;",
      "mov.f32 %f3, %f11;",
      "mov.f32 %f12, %f0;",
      "mov.f32 %f13, %f1;",
      "mov.f32 %f14, %f2;",
      "mov.f32 %f15, %f3;",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f16, %f17, %f18, %f19}, {%r8, %r9, %r10, %r11}, {%r14, %r15}, {%f12, %f13, %f14, %f15};",
      "cvt.rn.f16x2.f32 %r16, %f17, %f16;",
      "cvt.rn.f16x2.f32 %r17, %f19, %f18;",
      "mad.wide.s32 %rd8, %r1, 2, %rd1;",
      "st.global.v2.b32 [%rd8], {%r16, %r17};",
      "ret;",
    ]],
    ["index_64", [
      "mov.u32 %r0, %ctaid.z;",
      "mul.lo.s32 %r1, %r0, 8;",
      "mov.u32 %r2, %tid.y;",
      "add.s32 %r3, %r1, %r2;",
      "cvt.s64.s32 %rd2, %r3;",
      "mul.lo.s64 %rd3, %rd2, 0x3;",
      "add.s64 %rd4, %rd3, 0x5;",
      "ld.param.u8 %r4, [k_flag];",
      "setp.ne.s32 %p0, %r4, 0;",
      "ld.param.s64 %rd7, [k_q];",
      "add.s64 %rd8, %rd2, %rd7;",
      "mad.lo.s64 %rd9, %rd8, 4, %rd6;",
      "ld.global.nc.f32 %f0, [%rd9];",
      "ld.param.f32 %f1, [k_s];",
      "mul.rn.f32 %f2, %f0, %f1;",
      "ld.global.nc.f32 %f3, [%rd11+16384];",
      "ld.global.nc.f32 %f4, [%rd11+12];",
      "add.rn.f32 %f5, %f3, %f4;",
      "selp.f32 %f6, %f2, %f5, %p0;",
      "mad.lo.s64 %rd12, %rd3, 4, %rd1;",
      "st.global.f32 [%rd12+20], %f6;",
      "ret;",
    ]],
    ["ADD_int8_2", [
      "mov.u32 %r0, %tid.x;",
      "mul.lo.s32 %r1, %r0, 2;",
      "mad.wide.s32 %rd4, %r1, 1, %rd3;",
      "ld.global.nc.u16 %r2, [%rd4];",
      "bfe.s32 %r3, %r2, 0, 8;",
      "bfe.s32 %r4, %r2, 8, 8;",
      "mad.wide.s32 %rd7, %r1, 1, %rd6;",
      "ld.global.nc.u16 %r5, [%rd7];",
      "bfe.s32 %r6, %r5, 0, 8;",
      "bfe.s32 %r7, %r5, 8, 8;",
      "add.s32 %r8, %r3, %r6;",
      "cvt.s32.s8 %r9, %r8;",
      "add.s32 %r10, %r4, %r7;",
      "cvt.s32.s8 %r11, %r10;",
      "prmt.b32 %r12, %r9, %r11, 0x7740;",
      "mad.wide.s32 %rd8, %r1, 1, %rd1;",
      "st.global.u16 [%rd8], %r12;",
      "ret;",
    ]],
  ] as [string, string[]][]
) {
  Deno.test(`ptx: ${name}`, () => assertEquals(instructions(renderer.body(programs.get(name)!, "k")), want));
}

/** The instructions between the load of `value`'s sources and its store. */
function computed(value: UOp, r = renderer): string {
  const lines = instructions(r.body(program("k", write(value, int(0))), "k"));
  return lines.filter((l) => !/^(ld|st|ret)\b/.test(l)).map((l) => l.replace(/;$/, "")).join("; ");
}
const at = int(1), x = read(1, float32, at), y = read(2, float32, at), h = read(1, float16, at);
const i = read(1, int32, at), c = read(1, int8, at), w = read(1, int64, at), q = read(1, bool, at);
const old = new PtxRenderer(cudaCaps({ arch: "sm_75" }), "sm_75");

for (
  const [name, value, want, r = renderer] of [
    ["sums are rounded", x.add(y), "add.rn.f32 %f2, %f0, %f1"],
    ["fused product", uop(Ops.MULACC, float32, [x, y, x]), "fma.rn.f32 %f2, %f0, %f1, %f0"],
    ["float constants", x.mul(0.1), "mul.rn.f32 %f1, %f0, 0f3DCCCCCD"],
    ["double constants", read(1, float64, at).mul(0.1), "mul.rn.f64 %fd1, %fd0, 0d3FB999999999999A"],
    ["division", uop(Ops.FDIV, float32, [x, y]), "div.rn.f32 %f2, %f0, %f1"],
    ["square root", uop(Ops.SQRT, float64, [read(1, float64, at)]), "sqrt.rn.f64 %fd1, %fd0"],
    ["maximum", x.max(y), "max.NaN.f32 %f2, %f0, %f1"],
    [
      "maximum without instruction",
      x.max(y),
      "setp.gt.f32 %p0, %f0, %f1; selp.f32 %f2, %f0, %f1, %p0; setp.nan.f32 %p1, %f0, %f0; selp.f32 %f3, %f0, %f2, %p1",
      old,
    ],
    [
      "unequal is true of NaN",
      x.ne(y).cast(float32),
      "setp.neu.f32 %p0, %f0, %f1; selp.f32 %f2, 0f3F800000, 0f00000000, %p0",
    ],
    ["small integers stay in range", c.add(1), "add.s32 %r1, %r0, 1; cvt.s32.s8 %r2, %r1"],
    [
      "int64 constants",
      w.add(constant(Int64.fromBigInt(-(2n ** 63n)), int64)),
      "add.s64 %rd5, %rd4, 0x8000000000000000",
    ],
    ["shift by what may be too far", uop(Ops.SHL, int32, [i, i]), "and.b32 %r1, %r0, 31; shl.b32 %r2, %r0, %r1"],
    ["shift by a constant", uop(Ops.SHR, int32, [i, int(4)]), "shr.s32 %r1, %r0, 4"],
    ["float16 to float32", h.cast(float32), "cvt.f32.f16 %f0, %h0"],
    ["bfloat16 to float32", read(1, bfloat16, at).cast(float32), "mov.b16 %h1, 0; mov.b32 %f0, {%h1, %h0}"],
    ["float32 to float16", x.cast(float16), "cvt.rn.f16.f32 %h0, %f0"],
    ["float32 to bfloat16", x.cast(bfloat16), "cvt.rn.bf16.f32 %h0, %f0"],
    ["float to uint8 wraps", x.cast(uint8), "cvt.rzi.s32.f32 %r0, %f0; and.b32 %r1, %r0, 255"],
    ["float to uint32 wraps", x.cast(uint32), "cvt.rzi.s64.f32 %rd4, %f0; cvt.u32.u64 %r0, %rd4"],
    [
      "float to uint64",
      x.cast(uint64),
      "cvt.rzi.s64.f32 %rd4, %f0; setp.lt.f32 %p0, %f0, 0f00000000; cvt.rzi.u64.f32 %rd5, %f0; selp.b64 %rd6, %rd4, %rd5, %p0",
    ],
    ["integers widen by their sign", c.cast(int64), "cvt.s64.s32 %rd4, %r0"],
    ["integers narrow", i.cast(int16), "cvt.s32.s16 %r1, %r0"],
    ["int64 to float", w.cast(float32), "cvt.rn.f32.s64 %f0, %rd4"],
    ["bits", x.bitcast(int32), "mov.b32 %r0, %f0"],
    ["bits of a half", h.bitcast(int16), "cvt.s32.s16 %r0, %h0"],
    [
      "not",
      q.ne(1),
      "setp.ne.s32 %p0, %r0, 0; mov.pred %p1, 1; xor.pred %p2, %p0, %p1; selp.b32 %r1, 1, 0, %p2",
    ],
  ] as [string, UOp, string, PtxRenderer?][]
) {
  Deno.test(`ptx: ${name}`, () => assertEquals(computed(value, r), want));
}

Deno.test("ptx: a module names its version and target", () => {
  assertStringIncludes(
    renderer.render(opProgram(Ops.ADD, float32)),
    ".version 8.0\n.target sm_90a\n.address_size 64\n",
  );
  assertEquals([75, 80, 86, 89, 90, 100, 120].map(ptxVersion), ["7.0", "7.0", "7.1", "7.8", "8.0", "8.6", "8.7"]);
});

Deno.test("ptx: functions without instructions are left to code generation", () => {
  assertEquals(renderer.caps.nativeOps, PTX_OPS);
  assertThrows(() => renderer.render(opProgram(Ops.SIN, float32)), SpecError, "PTX cannot write SIN of float32");
});

Deno.test("ptx: what becomes a 16-bit float has quick functions", () => {
  const [x, y] = [1, 2].map((slot) => read(slot, float32, int(0)));
  const [quotient, power] = [uop(Ops.FDIV, float32, [x, y], "rounded"), uop(Ops.EXP2, float32, [x], "rounded")];
  const text = (value: UOp): string[] =>
    instructions(renderer.body(program("k", write(value, int(0))), "k")).slice(-6, -2);
  assertEquals(text(quotient), [
    "mul.rn.f32 %f2, %f0, 0f3E800000;",
    "mul.rn.f32 %f3, %f1, 0f3E800000;",
    "rcp.approx.ftz.f32 %f4, %f3;",
    "mul.rn.f32 %f5, %f2, %f4;",
  ]);
  assertEquals(text(power).slice(-1), ["ex2.approx.f32 %f1, %f0;"]);
  assertEquals(text(uop(Ops.FDIV, float32, [x, y], "reciprocal")).slice(-2), [
    "rcp.approx.ftz.f32 %f2, %f1;",
    "mul.rn.f32 %f3, %f2, %f0;",
  ]);
  assertEquals(text(x.cast(bfloat16).cast(float32)).slice(-2), [
    "cvt.rn.bf16x2.f32 %r0, %f0, 0f00000000;",
    "mov.b32 %f1, %r0;",
  ]);
});

Deno.test("ptx: what is far goes into a register", () => {
  const text = renderer.body(program("far", write(read(1, float32, constant(2 ** 30, int64)), int(0))), "k");
  assertStringIncludes(text, "add.s64 %rd4, %rd3, 4294967296;");
});

Deno.test("ptx: an address whose index is a sum of constants", () => {
  const at = uop(Ops.ADD, int32, [int(3), int(8)]),
    text = renderer.body(
      program("sum", write(read(1, float32, at), int(0))),
      "k",
    );
  assertStringIncludes(text, "[%rd3+44]");
});
