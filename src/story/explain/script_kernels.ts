/**
 * The steps of a script: each kernel that ran, lowered for a scalar machine with its numbers put in, as loops over named
 * arrays; and which runs of steps are the same computation on other arrays, so that they are one loop.
 *
 * @module
 */
import { toProgram } from "../../codegen/to_program.ts";
import type { DType } from "../../dtype/dtype.ts";
import { context } from "../../helpers/env.ts";
import { OwnNames } from "../../renderer/c/kernel_names.ts";
import { type ScriptKernel, typescriptRenderer, writeScriptKernel } from "../../renderer/c/typescript.ts";
import type { LinearProgram } from "../../renderer/renderer.ts";
import { constOf } from "../../uop/algebra/eval.ts";
import { argOf } from "../../uop/core/args.ts";
import { TextArg } from "../../uop/core/custom_arg.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp, uop, variable } from "../../uop/core/uop.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";
import type { TraceBuffer, TraceStep } from "./explain_record.ts";
import { foldDraws, type Folded } from "./script_draws.ts";

/** The AST of a step with the numbers of this run in the places of its variables, and without opts. */
export function plainAst(step: TraceStep): UOp | undefined {
  return bound(step, openAst(step), () => undefined);
}

/** The AST of a step with its variables in it, and without opts. */
export function openAst({ item: { ast } }: TraceStep): UOp | undefined {
  if (ast === undefined || ast.arg instanceof TextArg) return undefined;
  return ast.arg === undefined ? ast : uop(Ops.SINK, ast.dtype, ast.src);
}

/** An AST with the numbers of this run in the places of its variables, but for those that are called something. */
export function bound(
  { item }: TraceStep,
  ast: UOp | undefined,
  nameOf: (u: UOp) => string | undefined,
): UOp | undefined {
  return ast && rebuild(ast, (u) => {
    if (u.op !== Ops.VARIABLE) return undefined;
    const { min, max } = argOf(u, Ops.VARIABLE), name = nameOf(u);
    return name === undefined ? constOf(numberOf(item, u), u.dtype) : variable(name, min, max, u.dtype);
  });
}

/** What the program's schedule calls a variable of a step's AST. */
function nameIn({ varNames }: TraceStep["item"], u: UOp): string {
  return varNames[Number(argOf(u, Ops.VARIABLE).name.slice(1))];
}

/** The value of a variable of a step's AST. */
export function numberOf(item: TraceStep["item"], u: UOp): number {
  return item.vars.get(nameIn(item, u)) ?? 0;
}

/** {@linkcode openAst}, with its random draws read from arrays. */
export function foldedAst(step: TraceStep): Folded | undefined {
  const ast = openAst(step);
  return ast && foldDraws(ast, step.bufs.length, (u) => (nameIn(step.item, u) ?? "").replace(/_\d+$/, ""));
}

/** A variable of a step that is repeated, which is not the same number each time. */
export interface Changing {
  /** What the program's schedule calls it. */
  readonly name: string;
  /** By time. */
  readonly numbers: readonly number[];
}

/** Those of a step that is all of `steps`, by their nodes in its AST. */
export function changingNumbers(steps: readonly TraceStep[], ast: UOp | undefined): Map<UOp, Changing> {
  const out = new Map<UOp, Changing>(), [{ item }] = steps;
  if (ast === undefined) return out;
  for (const u of toposort(ast)) {
    if (u.op !== Ops.VARIABLE) continue;
    const numbers = steps.map((s) => numberOf(s.item, u));
    if (numbers.every((n) => n === numbers[0])) continue;
    out.set(u, { name: nameIn(item, u), numbers });
  }
  return out;
}

/** What a kernel takes its arrays for, by slot: bytes may be read as another kind of number than they were written. */
export function paramTypes(ast: UOp): readonly (DType | undefined)[] {
  const out: (DType | undefined)[] = [];
  for (const u of toposort(ast)) if (u.op === Ops.PARAM) out[argOf(u, Ops.PARAM).slot] = u.dtype;
  return out;
}

/** Kernels lowered so far, by AST. */
export class ScriptKernels {
  private readonly programs = new Map<UOp, LinearProgram>();

  private programOf(ast: UOp): LinearProgram {
    let made = this.programs.get(ast);
    if (made === undefined) {
      made = context({ NOOPT: 1 }, () => toProgram(ast, typescriptRenderer));
      this.programs.set(ast, made);
    }
    return made;
  }

  /** The text of a kernel on arrays of these names. @throws {SpecError} */
  write(ast: UOp, params: readonly string[], isTaken: (name: string) => boolean): ScriptKernel {
    return writeScriptKernel(this.programOf(ast), new OwnNames(params, isTaken));
  }
}

/** Steps that are one after the other `times` times, each time on other arrays. */
export interface Repeat {
  /** Position of the first step. */
  readonly start: number;
  /** Steps of one time. */
  readonly period: number;
  readonly times: number;
}

/** Periods that are tried, at most. */
const MOST_PERIOD = 128;
/** Steps that one loop has to save. */
const LEAST_SAVED = 2;

/** The repetitions of a list of keys, which do not overlap, in order. */
export function findRepeats(keys: readonly unknown[]): Repeat[] {
  const out: Repeat[] = [];
  for (let start = 0; start < keys.length;) {
    let best: Repeat | undefined, saved = LEAST_SAVED - 1;
    for (let period = 1; period <= MOST_PERIOD && start + 2 * period <= keys.length; period++) {
      let same = 0;
      while (start + same + period < keys.length && keys[start + same] === keys[start + same + period]) same++;
      const times = Math.floor(same / period) + 1;
      if ((times - 1) * period > saved) {
        saved = (times - 1) * period;
        best = { start, period, times };
      }
    }
    // a later start may save more: one that begins within the first period of this one
    if (best !== undefined) {
      out.push(best);
      start += best.period * best.times;
    } else start++;
  }
  return out;
}

/** What makes two steps the same computation: the AST and the arrays' kinds. */
export class StepKeys {
  private readonly asts = new Map<UOp, number>();

  /** A text that is equal for equal steps. */
  keyOf(step: TraceStep, ast: UOp | undefined): string {
    const bufs = step.bufs.map((b) => `${b.dtype}x${b.size}`).join();
    if (ast === undefined) return `${step.kind} ${step.number}`;
    let id = this.asts.get(ast);
    if (id === undefined) this.asts.set(ast, id = this.asts.size);
    return `${id} ${bufs}`;
  }
}

/** An array of a loop over repeated steps: one for each time, or one that each time has for itself. */
export interface Column {
  readonly buffers: readonly TraceBuffer[];
  /** True where nobody but one time uses each of them. */
  readonly isOwn: boolean;
}

/** The arrays of a repetition, by step and slot; a buffer where all times use it. */
export function columnsOf(
  steps: readonly TraceStep[],
  { start, period, times }: Repeat,
): readonly (readonly (Column | TraceBuffer)[])[] {
  const known = new Map<string, Column>();
  const isOwn = (b: TraceBuffer, time: number): boolean => {
    const from = start + time * period, within = (n: number): boolean => n >= from && n < from + period;
    return b.isTemporary && b.part === undefined && b.initial === undefined && b.writers.length > 0 &&
      b.writers.every(within) && b.readers.every(within);
  };
  return Array.from({ length: period }, (_, p) =>
    steps[start + p].bufs.map((first, slot) => {
      const buffers = Array.from({ length: times }, (_, t) => steps[start + t * period + p].bufs[slot]);
      if (buffers.every((b) => b === first)) return first;
      const key = buffers.map((b) => b.id).join();
      let column = known.get(key);
      if (column === undefined) known.set(key, column = { buffers, isOwn: buffers.every(isOwn) });
      return column;
    }));
}
