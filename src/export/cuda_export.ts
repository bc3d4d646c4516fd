/**
 * An export as CUDA: kernels and the host functions that launch them in one .cu file, a header, the weights, a test of the
 * recorded call. `run` takes arrays of the host; `launch` takes addresses of the device and a stream, and returns at once.
 * In: plans that share weights and state; out: files.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { ExportError } from "../helpers/errors.ts";
import { roundUp } from "../helpers/math.ts";
import { CudaRenderer } from "../renderer/c/cuda_c.ts";
import { cudaCaps } from "../renderer/cuda_caps.ts";
import { sharedBytesOf } from "../renderer/lanes.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { callerType } from "./c_kernels.ts";
import { CLOSED, CText, declaration, type ExportFiles, opened } from "./c_export.ts";
import {
  arraysOf,
  EXPORT_ALIGN,
  type ExportPlan,
  placesOf,
  type PlanArray,
  type PlanEntry,
  type PlanPart,
} from "./export_plan.ts";
import { gridExpression } from "./grid_expression.ts";

/** Kernels are for cards from this architecture on, and for the shared memory that every one of them gives unasked. */
const ARCH = 80, SHARED_BYTES = 49152, ALIGN = 16;
const LAYOUT = { viewAlign: 256, arenas: true, maxBytes: Infinity } as const;

/** Renders CUDA C for any card from sm_80 on. */
export const cudaRenderer: CudaRenderer = new CudaRenderer(
  cudaCaps({ arch: `sm_${ARCH}`, sharedBytes: SHARED_BYTES }),
  ARCH,
);

/** Texts of one export. */
class CudaText extends CText {
  private readonly programs: readonly LinearProgram[];
  /** Where each array lies in the device's memory of a context; those of a run are in the map of its plan. */
  private readonly at = new Map<number, number>();
  private readonly inRun = new Map<ExportPlan, Map<number, number>>();
  private readonly nbytes: number;

  constructor(private readonly action: string, entries: readonly PlanEntry[]) {
    super(entries, { style: "fast", vector: 16, threads: 1 }, { declarations: [], functions: [], usesMath: false });
    const [{ plan: { kernels, weightBytes, stateBytes } }] = entries;
    this.programs = kernels.map(({ ast }) => toProgram(ast, cudaRenderer));
    let end = roundUp(weightBytes, 256) + roundUp(stateBytes, 256), block = 0;
    for (const { plan } of entries) {
      for (const [n, a] of plan.arrays.entries()) {
        if (a.space === "weight") this.at.set(n, a.offset);
        else if (a.space === "state") this.at.set(n, roundUp(weightBytes, 256) + a.offset);
        else if (a.space !== "arena") {
          this.at.set(n, end);
          end = roundUp(end + a.size * a.dtype.itemsize, 256);
        }
      }
    }
    for (const { plan } of entries) {
      const { blocks, places } = placesOf(plan, LAYOUT);
      this.inRun.set(plan, new Map([...places].map(([n, { offset }]) => [n, end + offset])));
      block = Math.max(block, blocks[0] ?? 0);
    }
    this.nbytes = roundUp(end + block, EXPORT_ALIGN);
  }
  /** What the function of an entry point is called that takes addresses of the device. */
  private launchName(e: PlanEntry): string {
    return e.name === "" ? `${e.plan.name}_launch` : `${e.plan.name}_${e.name}_launch`;
  }

  private pointers(isHost: boolean): string[] {
    const { plan } = this,
      put = (a: PlanArray): string => isHost ? declaration(a) : `${callerType(a.dtype)} *${a.name}`;
    return [
      `${plan.name}_context *context`,
      ...plan.variables.map((v) => `int ${v.name}`),
      ...arraysOf(plan, "input").map(([, a]) => `${a.isWritten ? "" : "const "}${put(a)}`),
      ...arraysOf(plan, "output").map(([, a]) => put(a)),
    ];
  }

  override header(): string {
    const { plan, upper } = this, { name } = plan;
    return [
      `/* ${name}: written by dinograd for CUDA, cards from sm_${ARCH} on. Functions give 0, or an error of CUDA. */`,
      ...opened(upper),
      `typedef struct ${name}_context {`,
      `  unsigned char *memory; /* of the device, ${this.nbytes} bytes: weights, state, arrays of a run */`,
      "  const unsigned char *weights;",
      "  unsigned long long seed, counter; /* of random numbers */",
      `} ${name}_context;`,
      "",
      `int ${name}_init(${name}_context *context${this.usesWeights ? ", const void *weights" : ""});`,
      ...(this.usesWeights ? [`const void *${name}_weights(void); /* of ${name}_weights.c */`] : []),
      `int ${name}_reset(${name}_context *context);`,
      ...(this.draws ? [`${this.seedHead()};`] : []),
      `void ${name}_free(${name}_context *context);`,
      "/* Arrays of the host; it returns when they are filled. */",
      ...this.each((e) => `int ${this.runName(e)}(${this.pointers(true).join(", ")});`),
      "/* Arrays of the device, at multiples of 16 bytes, and a cudaStream_t; it returns at once. */",
      ...this.each((e) =>
        `int ${this.launchName(e)}(${[...this.pointers(false), `void *${this.own("stream")}`].join(", ")});`
      ),
      ...CLOSED,
    ].join("\n");
  }

  private place({ array, offset }: PlanPart): string {
    const { space, name } = this.plan.arrays[array];
    const at = (this.at.get(array) ?? this.inRun.get(this.plan)!.get(array)!) + offset;
    if (space !== "input" && space !== "output") return `(${this.own("m")} + ${at})`;
    return offset === 0 ? `((unsigned char *)${name})` : `((unsigned char *)${name} + ${offset})`;
  }

  /** Statements of a launch. */
  private steps(symbols: readonly string[]): string[] {
    return this.plan.steps.map((s) => {
      if (s.kind === "copy") {
        return `cudaMemcpyAsync(${this.place(s.to)}, ${this.place(s.from)}, ${s.nbytes}, cudaMemcpyDeviceToDevice, ${
          this.own("on")
        });`;
      }
      const program = this.programs[s.kernel], { grid } = program;
      const args = Array.from(program.params, (p, slot) => {
        if (p === undefined) return "nullptr";
        const part = s.parts[slot];
        if (part.offset % ALIGN !== 0) {
          throw new ExportError(this.action, {
            reason: `a part of a tensor begins at byte ${part.offset}, and kernels want a multiple of ${ALIGN}; ` +
              "take a contiguous() copy",
          });
        }
        return `(${callerType(p.dtype)} *)${this.place(part)}`;
      });
      program.vars.forEach((v) => {
        args.push(this.scalar(s.scalars.get(argOf(v, Ops.VARIABLE).name)!, callerType(v.dtype)));
      });
      const forms = {
        floorDiv: (a: string, b: string) => `(${a} / ${b})`,
        max: (a: string, b: string) => `(${a} > ${b} ? ${a} : ${b})`,
      };
      const groups = (grid?.groups ?? []).map((g) => gridExpression(this.action, g, s.scalars, forms));
      const size = grid?.size ?? [1, 1, 1], shared = sharedBytesOf(program);
      const launch = `${symbols[s.kernel]}<<<dim3(${groups.join(", ") || "1"}), dim3(${size.join(", ")}), ${shared}, ${
        this.own("on")
      }>>>`;
      return `${launch}(${args.join(", ")});`;
    });
  }

  override source(): string {
    const { plan } = this, { name } = plan, declarations = new Map<string, string>(), bodies: string[] = [];
    const symbols = this.programs.map((p, k) => `${name}_kernel_${k}_${p.name}`);
    this.programs.forEach((p, k) => {
      const source = cudaRenderer.parts(p, symbols[k]), { line } = plan.kernels[k];
      for (const [key, text] of source.declarations) declarations.set(key, text);
      bodies.push(
        `${line === undefined ? "" : `/* ${line} */\n`}${
          source.body.replace('extern "C" __global__', "static __global__")
        }`,
      );
    });
    const initial = roundUp(plan.weightBytes, 256), runs = this.each((e) => this.functions(e, symbols)).flat();
    return [
      `// ${name}.cu: see ${name}.h. Written by dinograd; build with --fmad=false: sums and products are fused where that was meant.`,
      "#include <cuda_runtime.h>",
      `#include "${name}.h"`,
      ...declarations.values(),
      "",
      ...bodies,
      `extern "C" int ${name}_reset(${name}_context *context) {`,
      `  context->seed = ${plan.test.seed}ull;`,
      `  context->counter = ${plan.test.counter}ull;`,
      ...(plan.stateBytes > 0
        ? [
          `  return cudaMemcpy(context->memory + ${initial}, context->weights + ${plan.weightBytes}, ${plan.stateBytes}, cudaMemcpyHostToDevice);`,
        ]
        : ["  return 0;"]),
      "}",
      "",
      `extern "C" int ${name}_init(${name}_context *context${this.usesWeights ? ", const void *weights" : ""}) {`,
      `  context->weights = ${this.usesWeights ? "(const unsigned char *)weights" : "nullptr"};`,
      `  int error = cudaMalloc((void **)&context->memory, ${Math.max(this.nbytes, 64)});`,
      ...(plan.weightBytes > 0
        ? [
          `  if (error == 0) error = cudaMemcpy(context->memory, weights, ${plan.weightBytes}, cudaMemcpyHostToDevice);`,
        ]
        : []),
      `  return error != 0 ? error : ${name}_reset(context);`,
      "}",
      "",
      `extern "C" void ${name}_free(${name}_context *context) { cudaFree(context->memory); }`,
      "",
      ...(this.draws
        ? [`extern "C" ${this.seedHead()} {`, "  context->seed = seed;", "  context->counter = counter;", "}", ""]
        : []),
      ...runs,
    ].join("\n");
  }
  private seedHead(): string {
    const { name } = this.plan;
    return `void ${name}_seed(${name}_context *context, unsigned long long seed, unsigned long long counter)`;
  }

  /** The functions of an entry point: for arrays of the device, and for arrays of the host. */
  private functions(e: PlanEntry, symbols: readonly string[]): string[] {
    const { plan } = e, inputs = arraysOf(plan, "input"), outputs = arraysOf(plan, "output");
    const bytes = (a: PlanArray): number => a.size * a.dtype.itemsize;
    const [m, on, stream, error] = ["m", "on", "stream", "error"].map((name) => this.own(name));
    const device = (n: number, a: PlanArray): string => `(${callerType(a.dtype)} *)(${m} + ${this.at.get(n)})`;
    const given = [...plan.variables.map((v) => v.name), ...[...inputs, ...outputs].map(([n, a]) => device(n, a))];
    const checks = plan.variables.map((v) => `${v.name} < ${v.min} || ${v.name} > ${v.max}`);
    return [
      `extern "C" int ${this.launchName(e)}(${[...this.pointers(false), `void *${stream}`].join(", ")}) {`,
      `  cudaStream_t ${on} = (cudaStream_t)${stream};`,
      `  unsigned char *const ${m} = context->memory;`,
      `  (void)${m};`,
      ...(checks.length > 0 ? [`  if (${checks.join(" || ")}) return cudaErrorInvalidValue;`] : []),
      ...this.steps(symbols).map((l) => `  ${l}`),
      ...(plan.draws > 0 ? [`  context->counter += ${plan.draws}u;`] : []),
      "  return cudaGetLastError();",
      "}",
      "",
      `extern "C" int ${this.runName(e)}(${this.pointers(true).join(", ")}) {`,
      `  unsigned char *const ${m} = context->memory;`,
      `  int ${error} = 0;`,
      ...inputs.map(([n, a]) =>
        `  if (${error} == 0) ${error} = cudaMemcpy(${m} + ${this.at.get(n)}, ${a.name}, ${
          bytes(a)
        }, cudaMemcpyHostToDevice);`
      ),
      `  if (${error} == 0) ${error} = ${this.launchName(e)}(${["context", ...given, "nullptr"].join(", ")});`,
      ...[...inputs.filter(([, a]) => a.isWritten), ...outputs].map(([n, a]) =>
        `  if (${error} == 0) ${error} = cudaMemcpy(${a.name}, ${m} + ${this.at.get(n)}, ${
          bytes(a)
        }, cudaMemcpyDeviceToHost);`
      ),
      `  return ${error};`,
      "}",
      "",
    ];
  }

  /** The weights as part of a program. */
  weightSource(): string {
    const { name } = this.plan;
    return [
      `/* The bytes of ${name}.bin. */`,
      ...this.embedded(`${name}.bin`, `${this.upper}_EMBED`, `${name}_weights`),
      "",
    ].join("\n");
  }

  protected override get returns(): "int" {
    return "int";
  }

  override makefile(): string {
    const { name } = this.plan, weights = this.usesWeights ? ` ${name}_weights.c` : "";
    return [
      "# example: runs the recorded call.",
      "NVCC ?= nvcc",
      `ARCH ?= sm_${ARCH}`,
      "",
      `example: ${name}.cu ${name}_test.c ${name}.h${weights}`,
      `\t$(NVCC) -arch=$(ARCH) -O2 --fmad=false -D${this.upper}_EMBED -o $@ ${name}.cu ${name}_test.c${weights} -lm`,
      "",
    ].join("\n");
  }
}

/** The files of an export as CUDA. */
export function writeCuda(
  action: string,
  entries: readonly PlanEntry[],
  weights: Uint8Array<ArrayBuffer>,
): ExportFiles {
  const text = new CudaText(action, entries), files: ExportFiles = new Map(), [{ plan: { name } }] = entries;
  files.set(`${name}.h`, text.header());
  files.set(`${name}.cu`, text.source());
  if (text.usesWeights) {
    files.set(`${name}.bin`, weights);
    files.set(`${name}_weights.c`, text.weightSource());
  }
  const test = text.test();
  files.set(`${name}_test.c`, test.text);
  if (test.data !== undefined) files.set(`${name}_test.bin`, test.data);
  files.set("Makefile", text.makefile());
  return files;
}
