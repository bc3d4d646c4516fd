/**
 * An export as C: a header, a source, the weights as bytes, a test of the recorded call, and a Makefile. C11 that is C++
 * too, without malloc, globals or a runtime: what a call needs is in a context that the caller has. In: a plan; out: files.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { f32FromF16, smallFloatText } from "./export_numbers.ts";
import {
  arraysOf,
  entryName,
  type ExportPlan,
  placesOf,
  type PlanArray,
  type PlanEntry,
  type PlanPart,
  type PlanScalar,
} from "./export_plan.ts";
import { localName } from "./export_names.ts";
import { partFunction, poolHeader, poolSource, sharedCall, shareHeader } from "./c_threads.ts";
import {
  callerType,
  type CForm,
  type CFunction,
  type CKernels,
  CLONES,
  FAST_PRELUDE,
  hasClones,
  INLINE,
  writeCKernels,
} from "./c_kernels.ts";

/** What is beside a source as numbers in its text, at most; more lies in a file of bytes. */
const TEXT_BYTES = 1 << 16;
/** One arena, in which any element may be addressed. */
const LAYOUT = { viewAlign: 1, arenas: true, maxBytes: Infinity } as const;

/** Files by name. */
export type ExportFiles = Map<string, string | Uint8Array<ArrayBuffer>>;

/** `float x[784]` */
export function declaration(a: PlanArray, name: string = a.name): string {
  return `${callerType(a.dtype)} ${name}[${Math.max(1, a.size)}]`;
}

/** A header begins so, for C and C++. */
export function opened(upper: string): string[] {
  return [
    `#ifndef ${upper}_H`,
    `#define ${upper}_H`,
    "#include <stddef.h>",
    "#ifdef __cplusplus",
    'extern "C" {',
    "#endif",
    "",
  ];
}
/** And ends so. */
export const CLOSED: readonly string[] = ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""];

/** The header's text of the parameters of a run. */
function runParameters(plan: ExportPlan): string {
  const lists = [
    [`${plan.name}_context *context`],
    plan.variables.map((v) => `int ${v.name}`),
    arraysOf(plan, "input").map(([, a]) => `${a.isWritten ? "" : "const "}${declaration(a)}`),
    arraysOf(plan, "output").map(([, a]) => declaration(a)),
  ];
  return lists.flat().join(", ");
}

function shapeText({ dtype, shape }: PlanArray): string {
  return `${dtype} [${shape.join(", ")}]`;
}

/** A comment of these lines. */
function comment(lines: readonly string[]): string {
  if (lines.length === 1) return `/* ${lines[0]} */`;
  return `/*\n${lines.map((l) => ` * ${l}`.trimEnd()).join("\n")}\n */`;
}

/** Texts of one plan in one form. */
export class CText {
  readonly upper: string;
  readonly usesWeights: boolean;
  /** The plan of the entry point that is written now; what all share is the same in each. */
  protected plan: ExportPlan;
  private arena: ReturnType<typeof placesOf>;
  private readonly arenaBytes: number;
  private readonly scratch: number;
  protected readonly draws: boolean;

  constructor(
    private readonly entries: readonly PlanEntry[],
    readonly form: CForm,
    private readonly kernels: CKernels,
  ) {
    const plan = this.plan = entries[0].plan;
    this.upper = plan.name.toUpperCase();
    this.arena = placesOf(plan, LAYOUT);
    this.scratch = Math.max(...entries.map((e) => placesOf(e.plan, LAYOUT).blocks[0] ?? 0));
    this.arenaBytes = this.scratch +
      Math.max(0, ...this.kernels.functions.map((f) => f.scratch * (f.part === undefined ? 1 : form.threads)));
    this.usesWeights = plan.weightBytes + plan.stateBytes > 0;
    this.draws = entries.some((e) => e.plan.draws > 0);
  }

  /** Writes something of each entry point. */
  protected each<T>(f: (entry: PlanEntry) => T): T[] {
    return this.entries.map((entry) => {
      this.plan = entry.plan;
      this.arena = placesOf(entry.plan, LAYOUT);
      return f(entry);
    });
  }
  /** What the function of an entry point is called. */
  protected runName(entry: PlanEntry): string {
    return `${entry.plan.name}_${entryName(entry)}`;
  }

  /** What a run gives. */
  protected get returns(): "int" | "void" {
    return this.plan.variables.length > 0 ? "int" : "void";
  }
  /** Threads may share loops of it. */
  get isShared(): boolean {
    return this.kernels.functions.some((f) => f.part !== undefined);
  }
  private get hasState(): boolean {
    return this.plan.stateBytes > 0 || this.draws;
  }

  /** Bytes of the context: state, the arena of a run, seed and counter. */
  private get contextBytes(): number {
    const states = arraysOf(this.plan, "state").reduce((n, [, a]) => n + a.size * a.dtype.itemsize, 0);
    return states + this.arenaBytes + (this.draws ? 16 : 0);
  }
  private contextFields(): string[] {
    const { plan } = this, fields: string[] = [];
    if (this.usesWeights) fields.push("const unsigned char *weights;");
    if (this.isShared) fields.push(`${plan.name}_share *share;`, "void *pool;");
    if (this.draws) fields.push("unsigned long long seed, counter; /* of random numbers */");
    for (const [, a] of arraysOf(plan, "state")) fields.push(`${declaration(a)}; /* ${shapeText(a)} */`);
    if (this.arenaBytes > 0) {
      fields.push(`union { unsigned char bytes[${this.arenaBytes}]; double align; } arena; /* of one run */`);
    }
    return fields.length > 0 ? fields : ["char unused;"];
  }

  header(): string {
    const { plan, upper } = this, { name } = plan;
    const about = [
      `${name}: written by dinograd; no library, no allocation, no globals.`,
      ...this.each(({ name, plan }) => [
        ...(name === "" ? [] : [`${plan.name}_${name}`]),
        ...arraysOf(plan, "input").map(([, a]) => `  ${a.isWritten ? "in, out" : "in"}: ${a.name}, ${shapeText(a)}`),
        ...arraysOf(plan, "output").map(([, a]) => `  out: ${a.name}, ${shapeText(a)}`),
        ...plan.variables.map((v) =>
          `  size: ${v.name}, from ${v.min} to ${v.max}; the run gives 1 for another, else 0`
        ),
        ...(plan.variables.length === 0
          ? []
          : ["  arrays lie as they do of the largest sizes, whatever the sizes are"]),
      ]).flat(),
      `  memory: a context of ${this.contextBytes} bytes beside its pointers; the ${
        plan.weightBytes + plan.stateBytes
      } bytes of`,
      "  weights are read where they are, as from flash; nothing else is kept",
      "NaN and infinity are what they are: build without -ffast-math.",
    ];
    const lines = [
      comment(about),
      ...opened(upper),
      ...(this.usesWeights ? [`#define ${upper}_WEIGHTS_BYTES ${plan.weightBytes + plan.stateBytes}`, ""] : []),
      ...(this.isShared ? shareHeader(name, this.form.threads) : []),
      `typedef struct ${name}_context {`,
      ...this.contextFields().map((f) => `  ${f}`),
      `} ${name}_context;`,
      "",
    ];
    lines.push(
      `/* sizeof(${name}_context), for callers in other languages. */`,
      `size_t ${name}_context_bytes(void);`,
    );
    if (this.usesWeights) {
      lines.push(
        `/* weights: the bytes of ${name}.bin, at a multiple of 64; they stay the caller's, and must stay. */`,
        `void ${name}_init(${name}_context *context, const void *weights);`,
        `/* The bytes of ${name}.bin, where ${name}.c was compiled with -D${upper}_EMBED. */`,
        `const void *${name}_weights(void);`,
      );
    } else lines.push(`void ${name}_init(${name}_context *context);`);
    if (this.hasState) lines.push("/* As after init. */", `void ${name}_reset(${name}_context *context);`);
    if (this.draws) {
      lines.push(
        "/* Random numbers: the same seed and counter give the same. */",
        `void ${name}_seed(${name}_context *context, unsigned long long seed, unsigned long long counter);`,
      );
    }
    if (this.isShared) {
      lines.push(
        `/* Who runs parts of loops, as ${name}_threads_share of ${name}_threads.h with its pool; 0, as after init: the caller. */`,
        `void ${name}_share_by(${name}_context *context, ${name}_share *share, void *pool);`,
      );
    }
    lines.push(...this.each((e) => `${this.returns} ${this.runName(e)}(${runParameters(e.plan)});`));
    return [...lines, ...CLOSED].join("\n");
  }

  /** What a variable of a run is called, beside what that is given. */
  protected own(wanted: string): string {
    const { plan } = this, given = [...arraysOf(plan, "input"), ...arraysOf(plan, "output")];
    return localName(wanted, [...plan.variables, ...given.map(([, a]) => a)].map(({ name }) => name));
  }
  /** The address of a part. */
  private address({ array, offset }: PlanPart): string {
    const a = this.plan.arrays[array];
    switch (a.space) {
      case "weight":
        return `${this.own("w")} + ${a.offset + offset}`;
      case "arena":
        return `${this.own("t")} + ${this.arena.places.get(array)!.offset + offset}`;
      default: {
        const base = a.space === "state" ? `context->${a.name}` : a.name, { itemsize } = a.dtype;
        if (offset === 0) return base;
        return offset % itemsize === 0 ? `${base} + ${offset / itemsize}` : `(unsigned char *)${base} + ${offset}`;
      }
    }
  }
  /** An argument of a kernel: of the type that it takes. */
  private argument(part: PlanPart, type: string, isConst: boolean): string {
    const a = this.plan.arrays[part.array], text = this.address(part);
    const isOwn = a.space !== "weight" && a.space !== "arena" && callerType(a.dtype) === type && !/^\(/.test(text);
    return isOwn ? text : `(${isConst ? "const " : ""}${type} *)(${text})`;
  }

  /** A scalar argument of a kernel. */
  protected scalar(s: PlanScalar, type: string): string {
    switch (s.kind) {
      case "variable":
        return s.name;
      case "counter":
        return `(${type})(context->counter${s.offset === 0 ? "" : ` + ${s.offset}u`})`;
      case "counterHigh":
        return `(${type})(context->counter >> 32)`;
      case "seed":
        return `(${type})(context->seed${s.word === 0 ? " >> 32" : ""})`;
    }
  }

  private callOf(f: CFunction, parts: readonly PlanPart[], scalars: ReadonlyMap<string, PlanScalar>): string[] {
    const { program } = f,
      params = new Map(program.params.flatMap((p) => p === undefined ? [] : [[p.slot, p] as const]));
    const args = f.slots.map((slot) => {
      const p = params.get(slot)!;
      return this.argument(parts[slot], callerType(p.dtype), !p.writes);
    });
    const numbers = program.vars.map((v, i) => {
      const type = callerType(v.dtype);
      return [type, this.scalar(scalars.get(f.scalars[i])!, type)] as const;
    });
    const scratch = f.scratch > 0 ? [`(${this.own("t")} + ${this.scratch})`] : [];
    if (f.part !== undefined) return sharedCall(f, f.part, args, numbers, scratch);
    return [`${f.name}(${[...args, ...numbers.map(([, text]) => text), ...scratch].join(", ")});`];
  }

  private runBody(): string[] {
    const { plan } = this, lines: string[] = [];
    const checks = plan.variables.map((v) => `${v.name} < ${v.min} || ${v.name} > ${v.max}`);
    const body = plan.steps.flatMap((s) => {
      if (s.kind === "kernel") return this.callOf(this.kernels.functions[s.kernel], s.parts, s.scalars);
      return [`memcpy(${this.address(s.to)}, ${this.address(s.from)}, ${s.nbytes});`];
    });
    const all = body.join("\n");
    const [w, t] = ["w", "t"].map((name) => this.own(name)),
      uses = (name: string) => new RegExp(`[( ]${name} \\+ `).test(all);
    if (uses(w)) lines.push(`const unsigned char *const ${w} = context->weights;`);
    if (uses(t)) lines.push(`unsigned char *const ${t} = context->arena.bytes;`);
    if (checks.length > 0) lines.push(`if (${checks.join(" || ")}) return 1;`);
    lines.push(...body);
    if (plan.draws > 0) lines.push(`context->counter += ${plan.draws}u;`);
    const given = [...arraysOf(plan, "input"), ...arraysOf(plan, "output")].map(([, a]) => a.name),
      text = lines.join("\n");
    for (const name of ["context", ...given].reverse()) {
      if (!new RegExp(`\\b${name}\\b`).test(text)) lines.unshift(`(void)${name};`);
    }
    if (checks.length > 0) lines.push("return 0;");
    return lines;
  }

  source(): string {
    const { plan, upper, kernels } = this, { name } = plan;
    const runs = this.each((e) => [
      "",
      `${this.returns} ${this.runName(e)}(${runParameters(e.plan)}) {`,
      ...this.runBody().map((l) => `  ${l}`),
      "}",
    ]).flat();
    const states = arraysOf(plan, "state"), functions = kernels.functions.map((f) => f.text).join("\n");
    const reset = states.map(([, a]) =>
      `memcpy(context->${a.name}, context->weights + ${plan.weightBytes + a.offset}, ${a.size * a.dtype.itemsize});`
    );
    if (this.draws) reset.push(`${name}_seed(context, ${plan.test.seed}u, ${plan.test.counter}u);`);
    const all = [...runs, ...reset, functions, ...kernels.declarations].join("\n");
    const lines = [
      `/* ${name}.c: see ${name}.h. Written by dinograd, ${
        this.form.style === "plain" ? "plain loops" : `vectors of ${this.form.vector} bytes`
      }. */`,
      `#include "${name}.h"`,
      ...(kernels.usesMath ? ["#include <math.h>"] : []),
      ...(/\bmemcpy\(/.test(all) ? ["#include <string.h>"] : []),
      "#ifdef __cplusplus",
      "#define restrict __restrict__",
      ...(/\b_Bool\b/.test(all) ? ["#define _Bool bool"] : []),
      "#endif",
    ];
    if (this.form.style === "fast") lines.push(FAST_PRELUDE, ...hasClones(this.form) ? [CLONES] : []);
    else if (/\bINLINE\b/.test(all)) lines.push(INLINE);
    lines.push(...kernels.declarations, "", functions);
    for (const f of kernels.functions) if (f.part !== undefined) lines.push(...partFunction(f, f.part));
    if (this.usesWeights) lines.push(...this.embedded(`${name}.bin`, `${upper}_EMBED`, `${name}_weights`), "");
    lines.push(`size_t ${name}_context_bytes(void) { return sizeof(${name}_context); }`, "");
    if (this.usesWeights) {
      lines.push(`void ${name}_init(${name}_context *context, const void *weights) {`);
      lines.push("  context->weights = (const unsigned char *)weights;");
    } else lines.push(`void ${name}_init(${name}_context *context) {`);
    if (this.isShared) lines.push(`  ${name}_share_by(context, 0, 0);`);
    lines.push(this.hasState ? `  ${name}_reset(context);` : this.usesWeights ? "" : "  (void)context;", "}");
    if (this.isShared) {
      lines.push(
        `void ${name}_share_by(${name}_context *context, ${name}_share *share, void *pool) {`,
        "  context->share = share;",
        "  context->pool = pool;",
        "}",
      );
    }
    if (this.hasState) lines.push(`void ${name}_reset(${name}_context *context) {`, ...reset.map((l) => `  ${l}`), "}");
    if (this.draws) {
      lines.push(
        `void ${name}_seed(${name}_context *context, unsigned long long seed, unsigned long long counter) {`,
        "  context->seed = seed;",
        "  context->counter = counter;",
        "}",
      );
    }
    lines.push(...runs, "");
    return lines.filter((l, i) => l !== "" || lines[i - 1] !== "").join("\n");
  }

  /** A function that gives the bytes of a file, where a macro asks for that. */
  protected embedded(file: string, macro: string, symbol: string): string[] {
    const path = macro.replace(/EMBED$/, "BIN");
    return [
      `#ifdef ${macro}`,
      `#ifndef ${path}`,
      `#define ${path} "${file}" /* from where the compiler runs, or from its -I */`,
      "#endif",
      "#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L && defined(__has_embed)",
      `static const _Alignas(64) unsigned char ${symbol}_bytes[] = {`,
      `#embed ${path}`,
      "};",
      "#elif defined(__ELF__)",
      `__asm__(".pushsection .rodata\\n.balign 64\\n${symbol}_bytes:\\n.incbin \\"" ${path} "\\"\\n.popsection\\n");`,
      ...["#ifdef __cplusplus", 'extern "C"', "#else", "extern", "#endif"],
      `const unsigned char ${symbol}_bytes[];`,
      "#else",
      `#error "this compiler has neither #embed nor ELF: read ${file}, and pass its bytes to the init function"`,
      "#endif",
      `const void *${symbol}(void) { return ${symbol}_bytes; }`,
      "#endif",
    ];
  }

  /** Does the recorded call again and compares. */
  test(): { readonly text: string; readonly data: Uint8Array<ArrayBuffer> | undefined } {
    const { plan: { name } } = this,
      all = this.entries.flatMap(({ plan: { test } }) => [...test.inputs, ...test.outputs]);
    const total = all.reduce((n, [, b]) => n + b.length, 0);
    const inText = total <= TEXT_BYTES, data = inText ? undefined : new Uint8Array(total);
    const lines = [
      `/* Runs ${name} on the recorded input, prints what comes out, and compares it with what was recorded. */`,
      `#include "${name}.h"`,
      "#include <math.h>",
      "#include <stdio.h>",
      "#include <string.h>",
      "",
      `static ${name}_context context;`,
      ...(this.isShared
        ? [`#ifndef ${this.upper}_ALONE`, `#include "${name}_threads.h"`, `static ${name}_threads pool;`, "#endif"]
        : []),
    ];
    let at = 0;
    const arrayOf = (n: number, bytes: Uint8Array, prefix: string): void => {
      const a = this.plan.arrays[n];
      if (inText) {
        const text = numbersText(a.dtype, bytes);
        lines.push(`static const ${declaration(a, prefix + a.name)} = {\n${text}\n};`);
      } else {
        data!.set(bytes, at);
        lines.push(`#define ${prefix}${a.name} ((const ${callerType(a.dtype)} *)(recorded + ${at}))`);
        at += bytes.length;
      }
    };
    if (!inText) {
      lines.push(
        `__asm__(".pushsection .rodata\\n.balign 64\\nrecorded_bytes:\\n.incbin \\"${name}_test.bin\\"\\n.popsection\\n");`,
        ...["#ifdef __cplusplus", 'extern "C"', "#else", "extern", "#endif"],
        "const unsigned char recorded_bytes[];",
        "#define recorded recorded_bytes",
      );
    }
    const calls = this.each((entry) => {
      const { test } = entry.plan, inputs = arraysOf(entry.plan, "input"), outputs = arraysOf(entry.plan, "output");
      const own = entry.name === "" ? "" : `${entry.name}_`, body: string[] = [];
      for (const [n, bytes] of test.inputs) arrayOf(n, bytes, `in_${own}`);
      for (const [n, bytes] of test.outputs) arrayOf(n, bytes, `want_${own}`);
      for (const [, a] of outputs) lines.push(`static ${declaration(a, `got_${own}${a.name}`)};`);
      for (const [, a] of inputs) if (a.isWritten) lines.push(`static ${declaration(a, `now_${own}${a.name}`)};`);
      const args = [
        "&context",
        ...entry.plan.variables.map((v) => String(test.variables.get(v.name) ?? v.min)),
        ...inputs.map(([, a]) => a.isWritten ? `now_${own}${a.name}` : `in_${own}${a.name}`),
        ...outputs.map(([, a]) => `got_${own}${a.name}`),
      ];
      for (const [, a] of inputs) {
        if (a.isWritten) body.push(`  memcpy(now_${own}${a.name}, in_${own}${a.name}, ${a.size * a.dtype.itemsize});`);
      }
      if (entry.name !== "" && this.hasState) body.push(`  ${name}_reset(&context);`);
      if (entry.name !== "" && this.draws) body.push(`  ${name}_seed(&context, ${test.seed}u, ${test.counter}u);`);
      const run = `${this.runName(entry)}(${args.join(", ")})`;
      body.push(this.returns === "int" ? `  if (${run} != 0) return 2;` : `  ${run};`);
      for (const [n, a] of outputs) body.push(...this.comparison(n, a, own));
      return body;
    });
    const small = this.each(({ plan }) => arraysOf(plan, "output").map(([, a]) => a)).flat();
    if (small.some((a) => a.dtype.isFloat && a.dtype.bits < 32)) lines.push(smallFloatText(small));
    lines.push(
      "",
      "static double farthest;",
      "static void compare(double got, double want, double scale, double tolerance, int *failed) {",
      "  double far = got == want || (got != got && want != want) ? 0 : fabs(got - want) / scale;",
      "  if (!(far <= tolerance)) ++*failed;",
      "  if (!(far <= farthest)) farthest = far;",
      "}",
      "",
      "int main(void) {",
      "  int i, failed = 0;",
      `  ${name}_init(&context${this.usesWeights ? `, ${name}_weights()` : ""});`,
    );
    if (this.isShared) {
      lines.push(
        `#ifndef ${this.upper}_ALONE`,
        `  ${name}_threads_start(&pool, ${this.upper}_THREADS);`,
        `  ${name}_share_by(&context, ${name}_threads_share, &pool);`,
        "#endif",
      );
    }
    lines.push(...calls.flat());
    if (this.isShared) {
      lines.push(`#ifndef ${this.upper}_ALONE`, `  ${name}_threads_stop(&pool);`, "#endif");
    }
    lines.push(
      '  printf("largest difference from what was recorded, relative to the largest value: %g\\n", farthest);',
      '  if (failed > 0) printf("FAILED: %d values are wrong\\n", failed);',
      "  return failed > 0;",
      "}",
      "",
    );
    return { text: lines.join("\n"), data };
  }

  private comparison(n: number, a: PlanArray, own: string): string[] {
    const count = Math.min(a.size, this.plan.test.counts.get(n)!), { dtype } = a;
    const isSmall = dtype.isFloat && dtype.bits < 32;
    const value = (x: string): string => isSmall ? `${f32FromF16(dtype)}(${x})` : `(double)${x}`;
    const tolerance = !dtype.isFloat
      ? 0
      : dtype.bits === 64
      ? 1e-9
      : dtype.bits === 32
      ? 1e-4
      : dtype.bits === 16
      ? 2e-2
      : 0.2;
    const got = `got_${own}${a.name}`, want = `want_${own}${a.name}`, shown = Math.min(count, 10);
    const lines = [
      `  printf("${own}${a.name}:");`,
      `  for (i = 0; i < ${shown}; i++) printf(" %g", ${value(`${got}[i]`)});`,
      `  printf("${count > shown ? " ..." : ""}\\n");`,
    ];
    if (count > 1 && a.shape.filter((s) => s !== 1).length === 1 && dtype.isFloat && count <= 4096) {
      lines.push(
        "  {",
        "    int best = 0;",
        `    for (i = 1; i < ${count}; i++) if (${value(`${got}[i]`)} > ${value(`${got}[best]`)}) best = i;`,
        `    printf("the largest is number %d\\n", best);`,
        "  }",
      );
    }
    lines.push(
      "  {",
      "    double scale = 1e-30;",
      `    for (i = 0; i < ${count}; i++) if (fabs(${value(`${want}[i]`)}) > scale && fabs(${
        value(`${want}[i]`)
      }) < 1e300) scale = fabs(${value(`${want}[i]`)});`,
      `    for (i = 0; i < ${count}; i++) compare(${value(`${got}[i]`)}, ${
        value(`${want}[i]`)
      }, scale, ${tolerance}, &failed);`,
      "  }",
    );
    return lines;
  }

  makefile(): string {
    const { name } = this.plan, bin = this.usesWeights ? ` ${name}.bin` : "";
    const { style, vector } = this.form, wide = style === "fast" && vector >= 64;
    return [
      "# example: runs the recorded call. CFLAGS are yours: -O3 -march=native for this machine alone" +
      `${wide ? ", on x86 with -mprefer-vector-width=512" : ""}.`,
      "# As C++: make CC=g++ STD='-x c++ -std=c++17'.",
      "CC ?= cc",
      "CFLAGS ?= -O2",
      "STD ?= -std=c11",
      "",
      `example: ${name}_test.c ${name}.c ${name}.h${this.isShared ? ` ${name}_threads.c ${name}_threads.h` : ""}${bin}`,
      `\t$(CC) $(STD) $(CFLAGS)${this.usesWeights ? ` -D${this.upper}_EMBED` : ""} -o $@ ${name}_test.c ${name}.c${
        this.isShared ? ` ${name}_threads.c -pthread` : ""
      } -lm`,
      "",
      "test: example",
      "\t./example",
      "",
      "clean:",
      "\trm -f example",
      "",
      ".PHONY: test clean",
      "",
    ].join("\n");
  }
}

/** Numbers as C writes them, eight a line; floats below 32 bits as their bits. */
function numbersText(d: DType, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), out: string[] = [];
  for (let at = 0; at + d.itemsize <= bytes.length; at += d.itemsize) out.push(numberText(d, view, at));
  if (out.length === 0) out.push("0");
  const lines: string[] = [];
  for (let i = 0; i < out.length; i += 8) lines.push(`  ${out.slice(i, i + 8).join(", ")}`);
  return lines.join(",\n");
}

function numberText(d: DType, view: DataView, at: number): string {
  if (d.isFloat && d.bits >= 32) {
    const x = d.bits === 32 ? view.getFloat32(at, true) : view.getFloat64(at, true), suffix = d.bits === 32 ? "f" : "";
    if (Number.isNaN(x)) return "NAN";
    if (!Number.isFinite(x)) return x > 0 ? "INFINITY" : "-INFINITY";
    const text = d.bits === 32 ? shortest(x) : String(x);
    return `${Object.is(x, -0) ? "-0" : text}${/[.e]/.test(text) ? "" : ".0"}${suffix}`;
  }
  if (d.bits === 64) {
    if (d.isUnsigned) return `${view.getBigUint64(at, true)}ull`;
    const x = view.getBigInt64(at, true);
    return x === -(1n << 63n) ? "(-9223372036854775807ll - 1)" : `${x}ll`;
  }
  const isUnsigned = d.isFloat || d.isUnsigned || d.isBool;
  if (d.bits === 32) return isUnsigned ? `${view.getUint32(at, true)}u` : int32Text(view.getInt32(at, true));
  if (d.bits === 16) return String(isUnsigned ? view.getUint16(at, true) : view.getInt16(at, true));
  return String(isUnsigned ? view.getUint8(at) : view.getInt8(at));
}

function int32Text(x: number): string {
  return x === -2147483648 ? "(-2147483647 - 1)" : String(x);
}

/** The shortest text that is this float32 again. */
function shortest(x: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const text = x.toPrecision(digits);
    if (Math.fround(Number(text)) === x) return String(Number(text));
  }
  return x.toPrecision(9);
}

/** The files of an export as C. */
export function writeC(entries: readonly PlanEntry[], form: CForm, weights: Uint8Array<ArrayBuffer>): ExportFiles {
  const [{ plan }] = entries, { name } = plan, files: ExportFiles = new Map();
  const text = new CText(entries, form, writeCKernels(plan, form));
  files.set(`${name}.h`, text.header());
  files.set(`${name}.c`, text.source());
  if (text.usesWeights) files.set(`${name}.bin`, weights);
  const test = text.test();
  files.set(`${name}_test.c`, test.text);
  if (test.data !== undefined) files.set(`${name}_test.bin`, test.data);
  if (text.isShared) {
    files.set(`${name}_threads.h`, [...opened(`${text.upper}_THREADS`), ...poolHeader(name), ...CLOSED].join("\n"));
    files.set(`${name}_threads.c`, poolSource(name));
  }
  files.set("Makefile", text.makefile());
  return files;
}
