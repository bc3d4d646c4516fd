/**
 * CUDA C on the CPU: a header that makes it C++, with threads of a group as coroutines that meet at barriers, and what is
 * inline PTX in functions of C++. This runs what the renderer writes where there is no GPU.
 */
import { dtypes } from "../../src/dtype/dtype.ts";
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { threadsOf } from "../../src/renderer/lanes.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import {
  elementsOf,
  MMA_BF16,
  MMA_F16,
  MMA_INT8,
  MMA_TF32,
  positionIn,
  type TensorCore,
} from "../../src/renderer/tensor_core_table.ts";
import { isAvailable } from "./tools.ts";

/** A compiler of C++ that is here. */
export const hostCompiler: string | undefined = ["clang++", "clang++-19", "clang-19", "clang", "g++", "c++"].find((c) =>
  isAvailable(c, "--version")
);

const VECTORS = ([["int", "int"], ["uint", "unsigned"], ["float", "float"], ["double", "double"]] as const)
  .concat([["longlong", "long long"], ["ulonglong", "unsigned long long"]] as never)
  .flatMap(([name, type]) =>
    [2, 4].filter((n) => n === 2 || !/double|long/.test(name)).map((n) => {
      const fields = [..."xyzw"].slice(0, n), size = n * (/double|long/.test(name) ? 8 : 4);
      return `struct alignas(${size}) ${name}${n} { ${type} ${fields.join(", ")}; };
static inline ${name}${n} make_${name}${n}(${fields.map((f) => `${type} ${f}`).join(", ")}) { return {${fields}}; }`;
    })
  );

const HEADER = `#include <math.h>
#include <string.h>
#include <stdlib.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
${VECTORS.join("\n")}
template <class T, class F> static inline T bits(F x) { T r; memcpy(&r, &x, sizeof r); return r; }
#define __int_as_float bits<float, int>
#define __uint_as_float bits<float, unsigned>
#define __float_as_int bits<int, float>
#define __float_as_uint bits<unsigned, float>
#define __longlong_as_double bits<double, long long>
#define __double_as_longlong bits<long long, double>
template <class T> static inline T max(T a, T b) { return a > b ? a : b; }

struct Index { int x, y, z; };
static Index threadIdx, blockIdx;
extern "C" { alignas(128) unsigned char shared[1 << 18]; }
static const int STACK = 1 << 16;
static ucontext_t scheduler, fibers[1024];
static char *stacks;
static int current, finished[1024];
static void (*body)();
static void **B;
static const unsigned char *V;

/* Every thread runs from one meeting to the next before any goes on. */
static void meet() { swapcontext(&fibers[current], &scheduler); }
static void thread_main() { body(); finished[current] = 1; }
static void __syncthreads() { meet(); }
static unsigned long long slots[1024];
template <class T> static T __shfl_xor_sync(unsigned, T x, int mask) {
  memcpy(&slots[current], &x, sizeof x);
  meet();
  T r;
  memcpy(&r, &slots[current ^ mask], sizeof r);
  meet();
  return r;
}
static void launch(void (*fn)(), void **b, const unsigned char *v, const int *grid, int nx, int ny, int nz) {
  body = fn, B = b, V = v;
  if (!stacks) stacks = (char *)malloc((size_t)STACK * 1024);
  for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
  for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
  for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) {
    int n = nx * ny * nz, left = n;
    memset(shared, 0xcc, sizeof shared);
    for (int i = 0; i < n; i++) {
      finished[i] = 0;
      getcontext(&fibers[i]);
      fibers[i].uc_stack.ss_sp = stacks + (size_t)STACK * i;
      fibers[i].uc_stack.ss_size = STACK;
      fibers[i].uc_link = &scheduler;
      makecontext(&fibers[i], thread_main, 0);
    }
    while (left > 0) {
      for (int i = 0; i < n; i++) {
        if (finished[i]) continue;
        current = i;
        threadIdx = {i % nx, i / nx % ny, i / nx / ny};
        swapcontext(&scheduler, &fibers[i]);
        left -= finished[i];
      }
    }
  }
}

static float half_value(unsigned short x) { return (float)bits<_Float16>(x); }
static float bfloat_value(unsigned short x) { return bits<float>((unsigned)x << 16); }
static unsigned short round_bfloat(float x) {
  unsigned b = bits<unsigned>(x);
  return (unsigned short)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
static unsigned short round_half(float x) { return bits<unsigned short>((_Float16)x); }
/* Tiles of each warp, while its lanes multiply. */
static double A[32][16][32], M[32][32][8];
static const void *rows[1024];
static uint4 matrix_rows(const void *row, int transposed) {
  rows[current] = row;
  meet();
  unsigned short r[8];
  int warp = current & ~31, lane = current & 31;
  for (int t = 0; t < 4; t++)
    for (int e = 0; e < 2; e++) {
      int i = lane / 4, j = lane % 4 * 2 + e;
      r[2 * t + e] = ((const unsigned short *)rows[warp + 8 * t + (transposed ? j : i)])[transposed ? i : j];
    }
  meet();
  uint4 all;
  memcpy(&all, r, sizeof all);
  return all;
}
`;

function copy(nbytes: number): string {
  return `static void copy_async_${nbytes}(void *to, const void *from, int n) {
  memset(to, 0, ${nbytes});
  memcpy(to, from, n);
}`;
}

/** What stands for the functions with inline PTX. */
const FUNCTIONS: Record<string, string> = {
  f16_to_f32: "static float f16_to_f32(unsigned short x) { return half_value(x); }",
  f32_to_f16: "static unsigned short f32_to_f16(float x) { return round_half(x); }",
  f32_to_bf16: "static unsigned short f32_to_bf16(float x) { return round_bfloat(x); }",
  round_bf16: "static float round_bf16(float x) { return __uint_as_float((unsigned)round_bfloat(x) << 16); }",
  f32x2_to_f16x2:
    "static unsigned f32x2_to_f16x2(float2 x) { return round_half(x.x) | (unsigned)round_half(x.y) << 16; }",
  f32x2_to_bf16x2:
    "static unsigned f32x2_to_bf16x2(float2 x) { return round_bfloat(x.x) | (unsigned)round_bfloat(x.y) << 16; }",
  exp2_flush: "static float exp2_flush(float x) { return exp2f(x); }",
  divide_reciprocal: "static float divide_reciprocal(float a, float b) { return a * (1 / b); }",
  divide_rounded: "static float divide_rounded(float a, float b) { return a * 0.25f * (1 / (b * 0.25f)); }",
  max_f32: "static float max_f32(float a, float b) { return a > b || a != a ? a : b; }",
  copy_async_4: copy(4),
  copy_async_8: copy(8),
  copy_async_16: copy(16),
  commit_copies: "static void commit_copies() {}",
  ldmatrix: "static uint4 ldmatrix(const void *row) { return matrix_rows(row, 0); }",
  ldmatrix_trans: "static uint4 ldmatrix_trans(const void *row) { return matrix_rows(row, 1); }",
};

/** The product of tiles by the table of the unit. */
function hostUnit(unit: TensorCore): string {
  const name = `mma_${unit.name}_${unit.input}`, input = unit.input;
  const table = (f: TensorCore["a"]): string =>
    `{${
      Array.from({ length: 32 }, (_, lane) =>
        `{${
          Array.from({ length: elementsOf(f) }, (_, e) => `{${positionIn(f, lane, e)}}`)
        }}`)
    }}`;
  const value = input === dtypes.float16 ? "half_value" : input === dtypes.bfloat16 ? "bfloat_value" : "(double)";
  const element = input === dtypes.int8 ? "signed char" : input === dtypes.float32 ? "float" : "unsigned short";
  const c = unit.output.isFloat ? "float" : "int", kind = input === dtypes.float32 ? "float" : "uint";
  const [na, nb] = [elementsOf(unit.a), elementsOf(unit.b)], words = (n: number) => n * input.bits / 32;
  return `static ${c}4 ${name}(${kind}${words(na)} a, ${kind}${words(nb)} b, ${c}4 c) {
  static const unsigned char PA[32][${na}][2] = ${table(unit.a)}, PB[32][${nb}][2] = ${table(unit.b)}, PC[32][4][2] = ${
    table(unit.c)
  };
  int lane = current & 31, w = current >> 5;
  ${element} x[${na}], y[${nb}];
  ${c} r[4];
  memcpy(x, &a, sizeof a), memcpy(y, &b, sizeof b), memcpy(r, &c, sizeof c);
  for (int e = 0; e < ${na}; e++) A[w][PA[lane][e][0]][PA[lane][e][1]] = ${value}(x[e]);
  for (int e = 0; e < ${nb}; e++) M[w][PB[lane][e][0]][PB[lane][e][1]] = ${value}(y[e]);
  meet();
  for (int e = 0; e < 4; e++) {
    double sum = r[e];
    for (int k = 0; k < ${unit.k}; k++) sum += A[w][PC[lane][e][0]][k] * M[w][k][PC[lane][e][1]];
    r[e] = (${c})sum;
  }
  meet();
  memcpy(&c, r, sizeof c);
  return c;
}`;
}
for (const unit of [MMA_F16, MMA_BF16, MMA_TF32, MMA_INT8]) {
  FUNCTIONS[`mma_${unit.name}_${unit.input}`] = hostUnit(unit);
}

/** The header, all kernels, and `run(k, buffers, variables of 8 bytes each, groups)`. */
function unitOf(programs: readonly LinearProgram[]): string {
  const renderer = new CudaRenderer(cudaCaps({ arch: "sm_90a" }), 90), shared = new Map<string, string>();
  const bodies: string[] = [], cases: string[] = [];
  programs.forEach((p, k) => {
    const { declarations, body } = renderer.parts(p, `k${k}`);
    for (const [name, text] of declarations) {
      shared.set(name, FUNCTIONS[name] ?? (name.startsWith("wait_copies") ? `static void ${name}() {}` : text));
    }
    const args = /\((.*)\) \{$/.exec(body.slice(body.indexOf(`k${k}(`), body.indexOf("\n")))![1];
    let slot = 0, position = 0;
    const values = (args === "" ? [] : args.split(", ")).map((a) => {
      const pointer = /^(.*\*)(?:__restrict__ )?b\d+$/.exec(a);
      if (pointer !== null) return `(${pointer[1]})B[${slot++}]`;
      return `*(${a.replace(/ \w+$/, "")} *)(V + ${8 * position++})`;
    });
    const size = p.grid?.size ?? [1, 1, 1];
    if (threadsOf(p) > 1024) throw new Error(`${p.name} has ${threadsOf(p)} threads`);
    bodies.push(`// ${p.name}\n${body}static void call_k${k}() { k${k}(${values.join(", ")}); }`);
    cases.push(`case ${k}: return launch(call_k${k}, b, v, grid, ${size.join(", ")});`);
  });
  return [
    HEADER,
    ...shared.values(),
    ...bodies,
    `extern "C" void run(int k, void **b, const unsigned char *v, const int *grid) { switch (k) {\n${
      cases.join("\n")
    }\n} }`,
  ].join("\n");
}

/** Kernels on the CPU. */
export interface HostKernels extends Disposable {
  /** Runs program `k` on the bytes of its buffers by slot, with 8 bytes a variable. */
  run(k: number, buffers: readonly Uint8Array[], vars: Uint8Array, groups: readonly [number, number, number]): void;
}

/** Compiles programs with the host's compiler. @throws {Error} with its log */
export async function compileForHost(programs: readonly LinearProgram[]): Promise<HostKernels> {
  const directory = await Deno.makeTempDir({ prefix: "dinograd-host-" });
  try {
    const path = `${directory}/kernels.cpp`, library = `${directory}/kernels.so`;
    await Deno.writeTextFile(path, unitOf(programs));
    const flags = [
      "-std=c++17",
      "-O1",
      "-w",
      "-fPIC",
      "-shared",
      "-ffp-contract=off",
      "-fwrapv",
      "-fno-strict-aliasing",
    ];
    const args = [...flags, "-o", library, path, "-lm"];
    const { success, stderr } = await new Deno.Command(hostCompiler!, { args, stderr: "piped" }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr).slice(0, 3000));
    const lib = Deno.dlopen(library, { run: { parameters: ["i32", "buffer", "buffer", "buffer"], result: "void" } });
    return {
      run(k, buffers, vars, groups) {
        // vectors need addresses that are multiples of their size
        const places = buffers.map((b) => {
          const room = new Uint8Array(b.byteLength + 256);
          const start = BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(room)));
          const place = room.subarray(Number(-start & 127n), Number(-start & 127n) + b.byteLength);
          place.set(b);
          return { place, address: start + (-start & 127n) };
        });
        const pointers = new BigUint64Array(places.map((x) => x.address));
        const some = vars.byteLength === 0 ? new Uint8Array(8) : vars.slice();
        lib.symbols.run(k, pointers, some, new Int32Array(groups));
        places.forEach(({ place }, i) => buffers[i].set(place));
      },
      [Symbol.dispose]: () => lib.close(),
    };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
