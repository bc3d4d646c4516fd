/**
 * Kernels as C functions of named, typed parameters, in two styles. "plain": loops as one would write them, with the
 * functions of math.h; "fast": what the optimizer makes of them for vectors of so many bytes, with the compilers' vector
 * extensions. Both are rows of the C family. In: a plan; out: a function for each kernel, and what they share.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { context } from "../helpers/env.ts";
import { roundUp } from "../helpers/math.ts";
import { C_LANGUAGE, noteLoops, vectorCaps } from "../renderer/c/c.ts";
import { floatLiteral, memoryType, scalarType } from "../renderer/c/c_types.ts";
import { PRELUDE } from "../renderer/c/c_prelude.ts";
import { type CLanguage, CStyleRenderer, CWriter, functionRules, identifier, unwrap } from "../renderer/c/cstyle.ts";
import { OwnNames } from "../renderer/c/kernel_names.ts";
import {
  type Capabilities,
  COMMON_DTYPES,
  type LinearProgram,
  type Renderer,
  SCALAR_CAPS,
} from "../renderer/renderer.ts";
import { argOf, AxisKind } from "../uop/core/args.ts";
import { FUNCTION_OPS, opName, Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";
import { Names } from "./export_names.ts";
import type { ExportPlan, PlanStep } from "./export_plan.ts";

/** How C is written. */
export type CStyle = "plain" | "fast";

/** What of C is wanted. */
export interface CForm {
  readonly style: CStyle;
  /** Bytes of a vector: 0, 16, 32 or 64. */
  readonly vector: number;
  /** Threads that may share a loop, at most. */
  readonly threads: number;
}

/** A function of the source. */
export interface CFunction {
  readonly name: string;
  /** Positions of the arrays that it takes, among those of its steps. */
  readonly slots: readonly number[];
  readonly scalars: readonly string[];
  /** Bytes that it needs beside its arrays, given by its caller; 0 for none. */
  readonly scratch: number;
  /** Where threads may share its loop: what the function is called that does from `begin` to `end` of it. */
  readonly part: string | undefined;
  readonly text: string;
  readonly program: LinearProgram;
}

/** All functions, and the declarations that they share. */
export interface CKernels {
  readonly declarations: readonly string[];
  readonly functions: readonly CFunction[];
  readonly usesMath: boolean;
}

/** Arrays of a kernel on the stack, at most, in bytes. */
const STACK_BYTES = 1 << 14;
const FAST_ALIGN = 64;

/** What C can do of itself: all functions by math.h, no 16-bit floats, one element after the other. */
const PLAIN_CAPS: Capabilities = {
  ...SCALAR_CAPS,
  nativeOps: FUNCTION_OPS,
  computeDTypes: COMMON_DTYPES,
  storageDTypes: COMMON_DTYPES,
};

/** What a machine with vectors of so many bytes can do, whichever it is. */
export function cCaps({ style, vector, threads }: CForm): Capabilities {
  if (style === "plain") return PLAIN_CAPS;
  return {
    ...vectorCaps(vector, false),
    registers: vector >= 64 ? 32 : 16,
    threads,
    l1: 32768,
    l2: 1 << 20,
    hasMulAcc: vector >= 32,
  };
}

/** For {@linkcode toProgram}. */
function cRenderer(form: CForm): Renderer {
  return new CStyleRenderer(C_LANGUAGE, cCaps(form));
}

/** What the arrays that a function declares take. */
function localBytes(program: LinearProgram): number {
  let sum = 0;
  for (const u of program.uops) {
    if (u.op === Ops.LOCAL) sum += roundUp(argOf(u, Ops.LOCAL).size * u.dtype.itemsize, FAST_ALIGN);
  }
  return sum;
}

/** Has it the functions of math.h under these names, with an f behind them for float32? */
function mathCall(name: string, d: DType, args: string): string {
  return `${name}${d.bits === 32 ? "f" : ""}(${args})`;
}

/** Statements and rules of one style. */
function languageOf(form: CForm, parameters: readonly string[], scratch: number, isShared: boolean): CLanguage {
  let at = 0;
  const local = (_w: CWriter, u: UOp, name: string): string => {
    const type = memoryType(u.dtype.scalar), count = argOf(u, Ops.LOCAL).size * u.dtype.count;
    if (scratch > 0) {
      const from = at;
      at += roundUp(count * u.dtype.scalar.itemsize, FAST_ALIGN);
      return `${type} *${name} = (${type} *)(scratch + ${from});`;
    }
    return `${type} ${name}[${count}]${form.style === "fast" ? ` __attribute__((aligned(${FAST_ALIGN})))` : ""};`;
  };
  const common: CLanguage = {
    ...C_LANGUAGE,
    open(w, program, symbol) {
      if (form.style === "fast") noteLoops(w, program.uops);
      const given = [
        ...parameters,
        ...(scratch > 0 ? ["unsigned char *restrict scratch"] : []),
        ...(isShared ? ["int begin", "int end"] : []),
      ];
      return [`${hasClones(form) ? "CLONES " : ""}static void ${symbol}(${given.join(", ")}) {`];
    },
    local,
    close: () => [],
  };
  if (form.style === "fast") return common;
  const { rules, literal } = C_LANGUAGE;
  return {
    ...common,
    rules: {
      ...rules,
      ...functionRules((name) => (_w, u, [a]) => u.dtype.isFloat ? mathCall(name, u.dtype, unwrap(a)) : a),
      [Ops.BITCAST]: (w, u, [a]) => {
        const text = rules[Ops.BITCAST](w, u, [a]);
        for (const [name, body] of w.declarations) {
          if (name.startsWith("bits_")) w.declarations.set(name, body.replace("__builtin_memcpy", "memcpy"));
        }
        return text;
      },
    },
    literal(w, d, value) {
      if (!d.isFloat || Number.isFinite(value as number)) {
        return d.isFloat ? floatLiteral(d, value as number) : literal(w, d, value);
      }
      return Number.isNaN(value as number) ? "NAN" : (value as number) > 0 ? "INFINITY" : "(-INFINITY)";
    },
    loop(w, u, name, end) {
      return `for (${w.type(u.dtype)} ${name} = 0; ${name} < ${end}; ${name}++)`;
    },
    define: (type, name, text, changes) => `${changes ? "" : "const "}${type} ${name} = ${text};`,
  };
}

/** What functions of a source may not be called, and their parameters neither. */
const WORDS = new Set(["do", "if", "int", "for", "x", "y", "sum", "scratch", "begin", "end"]);

/** Functions of math.h that kernels call. */
const MATH = FUNCTION_OPS.map((op) => opName[op].toLowerCase()).flatMap((name) => [name, `${name}f`]);

/** What the arrays of a kernel are called in it: as the arrays of its only step are, else a, b, c ... */
function parameterNamesOf(plan: ExportPlan, kernel: number, slots: readonly number[]): string[] {
  const steps = plan.steps.filter((s): s is PlanStep & { kind: "kernel" } =>
    s.kind === "kernel" && s.kernel === kernel
  );
  const names = new Names("p", ["scratch", "begin", "end", ...MATH]);
  return slots.map((slot) => {
    const arrays = new Set(steps.map((s) => s.parts[slot].array));
    const [only] = arrays;
    if (arrays.size === 1 && plan.arrays[only].space !== "arena") return names.take(plan.arrays[only].name);
    return names.take(plan.kernels[kernel].writes[slot] ? "to" : "from");
  });
}

/** What a kernel is called: after the layers whose weights it reads, else after its loops. */
function functionName(plan: ExportPlan, kernel: number, program: LinearProgram): string {
  const steps = plan.steps.filter((s): s is PlanStep & { kind: "kernel" } =>
    s.kind === "kernel" && s.kernel === kernel
  );
  const layers = new Set<string>();
  for (const s of steps) {
    for (const { array } of s.parts) {
      const { layer } = plan.arrays[array];
      if (layer !== undefined) layers.add(layer);
    }
  }
  if (steps.length === 1 && layers.size > 0 && layers.size <= 3) return `layer ${[...layers].join(" ")}`;
  return program.name.startsWith("r_") ? `reduce ${program.name.slice(2)}` : `map ${program.name.replace(/^E_/, "")}`;
}

/** The functions of all kernels of a plan. */
export function writeCKernels(plan: ExportPlan, form: CForm): CKernels {
  const renderer = cRenderer(form), declarations = new Map<string, string>();
  // what a run is given hides functions of the same name
  const taken = new Names("k", [...plan.arrays, ...plan.variables].map(({ name }) => name));
  const functions = plan.kernels.map(({ ast, line }, kernel): CFunction => {
    const program = context(form.style === "plain" ? { NOOPT: 1 } : {}, () => toProgram(ast, renderer));
    const params = program.params.filter((p) => p !== undefined), slots = params.map((p) => p.slot);
    const names = parameterNamesOf(plan, kernel, slots), bySlot: string[] = [];
    slots.forEach((slot, i) => bySlot[slot] = names[i]);
    const scalars = program.vars.map((v) => argOf(v, Ops.VARIABLE).name);
    const parameters = [
      ...params.map((p, i) => `${p.writes ? "" : "const "}${memoryType(p.dtype)} *restrict ${names[i]}`),
      ...program.vars.map((v) => `${scalarType(v.dtype)} var_${identifier(argOf(v, Ops.VARIABLE).name)}`),
    ];
    const bytes = localBytes(program), scratch = bytes > STACK_BYTES ? bytes : 0;
    const name = taken.take(functionName(plan, kernel, program));
    const own = new OwnNames(
      bySlot,
      (n) => names.includes(n) || (WORDS.has(n) && n !== "x" && n !== "y" && n !== "sum"),
    );
    const isShared = program.uops.some((u) => u.op === Ops.RANGE && argOf(u, Ops.RANGE).kind === AxisKind.THREAD);
    const language = languageOf(form, parameters, scratch, isShared);
    const source = new CWriter(language, program, own).write(name);
    for (const [key, text] of source.declarations) {
      // gcc does not see that the loop over lanes fills all of them
      if (key !== "prelude") declarations.set(key, text.replace(/\{ (\w+) r; for/g, "{ $1 r = {0}; for"));
    }
    const body = source.body.replace(/_Pragma\("clang ([^"]*)"\)/g, "CLANG($1)");
    const about = line === undefined ? "" : `/* ${line.replace(/\*\//g, "* /")} */\n`;
    const part = isShared ? taken.take(`${name} part`) : undefined;
    return { name, slots, scalars, scratch, part, text: about + body, program };
  });
  const all = functions.map((f) => f.text).join("");
  return {
    declarations: [...declarations.values()],
    functions,
    usesMath: form.style === "plain" && /\b(?:NAN|INFINITY|[a-z0-9]+f?\()/.test(all.replace(/static void \w+\(/g, "")),
  };
}

/** The type that an array has for the caller: 16-bit and 8-bit floats are their bits. */
export function callerType(d: DType): string {
  if (d.isFloat && d.bits < 32) return memoryType(d.bits === 16 ? dtypes.uint16 : dtypes.uint8);
  return memoryType(d);
}

/** Small functions where there is no prelude: by gcc and clang no local ones, as c_prelude.ts says. */
export const INLINE = `#ifdef __GNUC__
#define INLINE extern inline __attribute__((always_inline, gnu_inline))
#else
#define INLINE static inline
#endif`;

/** Are kernels compiled for several machines, one of which runs them? */
export function hasClones({ style, vector }: CForm): boolean {
  return style === "fast" && vector === 16;
}

/**
 * Kernels of vectors that every x86-64 has are also compiled for those with more registers and longer instructions, which
 * the loader chooses (GNU's ifunc); by gcc 12 and later, beside glibc, unless the whole is compiled for such a machine.
 */
export const CLONES = `#if defined(__x86_64__) && defined(__gnu_linux__) && __STDC_HOSTED__ && !defined(__AVX512F__)
#include <string.h>
#if defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(ONE_MACHINE)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
#ifndef CLONES
#define CLONES
#endif`;

/** What the fast style stands on. */
export const FAST_PRELUDE: string = `#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wpedantic"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define CLANG(x) PRAGMA(clang x)
#else
#define CLANG(x)
#endif
${PRELUDE}`;
