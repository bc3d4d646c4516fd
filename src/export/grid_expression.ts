/**
 * How many groups a kernel runs on, as an expression of the sizes of a call, for the languages that launch kernels.
 *
 * @module
 */
import { ExportError } from "../helpers/errors.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";
import type { PlanScalar } from "./export_plan.ts";

/** How a language writes what is not written alike in all. */
export interface GridForms {
  floorDiv(a: string, b: string): string;
  max(a: string, b: string): string;
  /** A size that is an argument; as it is called, unless given. */
  variable?(name: string): string;
}

/** A size of a grid as text. @throws {ExportError} for what is not there in sizes */
export function gridExpression(
  action: string,
  u: UOp,
  scalars: ReadonlyMap<string, PlanScalar>,
  forms: GridForms,
): string {
  const of = (x: UOp): string => gridExpression(action, x, scalars, forms), [a, b] = u.src;
  switch (u.op) {
    case Ops.CONST:
      return String(u.value);
    case Ops.VARIABLE: {
      const s = scalars.get(argOf(u, Ops.VARIABLE).name);
      if (s?.kind === "variable") return forms.variable?.(s.name) ?? s.name;
      break;
    }
    case Ops.CAST:
      return of(a);
    case Ops.ADD:
      return `(${of(a)} + ${of(b)})`;
    case Ops.SUB:
      return `(${of(a)} - ${of(b)})`;
    case Ops.MUL:
      return `(${of(a)} * ${of(b)})`;
    case Ops.MULACC:
      return `(${of(a)} * ${of(b)} + ${of(u.src[2])})`;
    case Ops.CDIV:
    case Ops.FLOORDIV:
      return forms.floorDiv(of(a), of(b));
    case Ops.MAX:
      return forms.max(of(a), of(b));
    case Ops.SHR:
      return `(${of(a)} >> ${of(b)})`;
    case Ops.SHL:
      return `(${of(a)} << ${of(b)})`;
    case Ops.NEG:
      return `(-${of(a)})`;
  }
  throw new ExportError(action, { reason: "the number of groups of a kernel follows from its sizes in no simple way" });
}
