/** A verifier of linear programs: order, nesting, scopes and vectors, independent of uop/core/spec.ts. */
import type { Capabilities } from "../../src/renderer/renderer.ts";
import { isAlu, opName, Ops } from "../../src/uop/core/ops.ts";
import { listText } from "../../src/uop/core/print.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { verifyUnits } from "./verify_units.ts";

/** @throws {Error} with the listing, where a program is wrong */
export function verifyLinear(uops: readonly UOp[], caps: Capabilities): void {
  const scopes: { head: UOp | undefined; seen: Set<UOp> }[] = [{ head: undefined, seen: new Set() }];
  const everywhere = new Set<UOp>();
  // what the lanes of a matrix unit hold of a tile is no vector of the device
  const tiles = new Set(uops.flatMap((u) => u.op === Ops.WMMA ? [u, ...u.src].map((x) => x.dtype) : []));
  const fail = (i: number, why: string): never => {
    throw new Error(`uop ${i} (${opName[uops[i].op]}): ${why}\n${listText(uops)}`);
  };
  uops.forEach((u, i) => {
    const top = scopes[scopes.length - 1];
    if (u.op === Ops.END || u.op === Ops.ENDIF) {
      if (scopes.length < 2 || top.head !== u.src[0]) fail(i, "closes what is not open");
      scopes.pop();
      return;
    }
    const visible = (s: UOp): boolean => scopes.some((x) => x.seen.has(s));
    u.src.forEach((s, k) => {
      if (u.op === Ops.ACC && k > 0) return;
      if (s.op === Ops.STORE && everywhere.has(s)) return; // order only
      if (u.op === Ops.AFTER && (s.op === Ops.STORE || s.op === Ops.RANGE)) return;
      if (!visible(s)) fail(i, `source ${k} (${opName[s.op]}) is not visible`);
    });
    if (everywhere.has(u) && u.op !== Ops.IF && u.op !== Ops.UNIT) fail(i, "stands twice");
    everywhere.add(u);
    top.seen.add(u);
    if (u.op === Ops.RANGE || u.op === Ops.IF) scopes.push({ head: u, seen: new Set([u]) });
    const n = u.dtype.count;
    if (n > 1 && !tiles.has(u.dtype) && !u.dtype.isBool && caps.vectorLanes(u.dtype.scalar) < n) {
      fail(i, `${u.dtype} is no vector here`);
    }
    if (isAlu(u.op)) { for (const s of u.src) if (s.dtype.count !== n) fail(i, "lanes differ"); }
    if ([Ops.FLOORDIV, Ops.FLOORMOD, Ops.REDUCE, Ops.GETTUPLE, Ops.STAGE].includes(u.op as never)) {
      fail(i, "is not for renderers");
    }
    if (isAlu(u.op) && u.op !== Ops.CAST && u.dtype.isFloat && !caps.computeDTypes.includes(u.dtype.scalar)) {
      fail(i, `computes in ${u.dtype}`);
    }
    if (u.op === Ops.STORE && u.src[0].op === Ops.INDEX && u.src[0].src.length > 2) fail(i, "is gated");
    if (u.op === Ops.INDEX && (u.src[1].dtype.count > 1 || (u.src[2]?.dtype.count ?? 1) > 1)) {
      fail(i, "has a vector index");
    }
    if ([Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.SQRT].includes(u.op as never) && !caps.nativeOps.includes(u.op)) {
      fail(i, "is no native op");
    }
  });
  verifyUnits(uops);
  if (scopes.length !== 1) throw new Error("Scopes left open\n" + listText(uops));
}
