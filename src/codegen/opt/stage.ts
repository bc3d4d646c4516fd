/** placeholder @module */
import type { UOp } from "../../uop/uop.ts";
import type { Opt } from "./opt.ts";
export function stageInput(ast: UOp, _opt: Opt): UOp {
  return ast;
}
