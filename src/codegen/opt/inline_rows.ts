/**
 * Rows that a kernel keeps, on a grid. A CPU keeps them in memory of its own (STAGE of scope thread); the threads of a group
 * each keep their part in registers instead, without a STAGE: what is computed for the same element is the same node,
 * wherever it is used, once the loops over the row are split alike and unrolled.
 *
 * @module
 */
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { rangesOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { rebuildKernel, renameFree } from "../ast/replace_ranges.ts";

/** Is an element of the row computed without a loop of its own? Then computing it where it is read costs no more. */
function isElementwise(stage: UOp): boolean {
  const own = stage.src.slice(1);
  for (const u of toposort(stage.src[0])) {
    if (u.op === Ops.STAGE) return false;
    if (u.op === Ops.REDUCE && rangesOf(u).some((r) => own.includes(r))) return false;
  }
  return own.every((r) =>
    r.op === Ops.RANGE && r.src[0].op === Ops.CONST && argOf(r, Ops.RANGE).kind === AxisKind.LOOP
  );
}

/** Puts the elements of rows where they are read. */
export function inlineRows(ast: UOp): UOp {
  for (;;) {
    const rows = new Set(
      toposort(ast).filter((u) => u.op === Ops.STAGE && argOf(u, Ops.STAGE).scope === "undecided" && isElementwise(u)),
    );
    for (const u of toposort(ast)) if (u.op === Ops.INDEX && u.src.length > 2) rows.delete(u.src[0]);
    if (rows.size === 0) return ast;
    const before = ast;
    ast = simplifyKernel(rebuildKernel(ast, (u, src) => {
      if (u.op !== Ops.LOAD || u.src[0].op !== Ops.INDEX || !rows.has(u.src[0].src[0])) return undefined;
      const [stage, flat] = src[0].src;
      const map = new Map<UOp, UOp>();
      let stride = 1;
      const own = stage.src.slice(1);
      for (let i = own.length - 1; i >= 0; i--) {
        const r = own[i], n = r.src[0].value;
        const shifted = stride === 1 ? flat : flat.floorDiv(stride);
        const digit = i === 0 ? shifted : shifted.floorMod(n);
        map.set(r, digit.dtype === r.dtype ? digit : digit.cast(r.dtype));
        stride *= n;
      }
      return [renameFree(stage.src[0], map)];
    }));
    if (ast === before) return ast;
  }
}
