/**
 * A verifier of matrix units that go on by themselves: nobody reads or changes registers that they add to or read, before
 * they have been waited for, and what is in registers is there before a batch begins.
 */
import { readsShared } from "../../src/renderer/tensor_core_table.ts";
import type { TensorCore } from "../../src/renderer/tensor_core_table.ts";
import { SpecError } from "../../src/helpers/errors.ts";
import { opName, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { throughAfter } from "../../src/uop/rewrite/walk.ts";

/** The registers of a product or an ACC: the ACC where it is one, else the first product that adds to them. */
function sumsOf(u: UOp): UOp {
  const x = throughAfter(u);
  if (readsShared(x)) return x.src[2].op === Ops.CONST ? x : sumsOf(x.src[2]);
  return x.op === Ops.LOAD && throughAfter(x.src[0]).op === Ops.ACC ? throughAfter(x.src[0]) : x;
}

class Flight {
  /** What products of closed batches, and of the open one, add to and read. */
  private batches: Set<UOp>[] = [];
  private open: Set<UOp> | undefined;
  /** What has been computed since a batch began. */
  private since = new Set<UOp>();
  /** Sums that are kept in an ACC from one iteration to the next. */
  private readonly homes = new Map<UOp, UOp>();

  constructor(uops: readonly UOp[]) {
    for (const u of uops) {
      if (u.op === Ops.STORE && readsShared(u.src[1])) this.homes.set(sumsOf(u.src[1]), throughAfter(u.src[0]));
    }
  }

  private home(u: UOp): UOp {
    const sums = sumsOf(u);
    return this.homes.get(sums) ?? sums;
  }
  private isBusy(x: UOp): boolean {
    return this.open?.has(x) === true || this.batches.some((b) => b.has(x));
  }
  private fail(u: UOp, why: string): never {
    throw new SpecError(`${opName[u.op]} ${why}`);
  }

  /** One uop after the other; of loops all twice. */
  step(u: UOp): void {
    if (u.op === Ops.UNIT) {
      if (u.arg === "begin") {
        this.open = new Set();
        this.since.clear();
      } else if (u.arg === "commit") {
        this.batches.push(this.open!);
        this.open = undefined;
      } else if (typeof u.arg === "number") this.batches.splice(0, this.batches.length - u.arg);
      return;
    }
    this.since.add(u);
    if (readsShared(u)) return this.product(u);
    if (this.isBusy(u)) this.fail(u, "computes what a matrix unit reads");
    if (u.op === Ops.STORE && throughAfter(u.src[0]).op === Ops.ACC) {
      // of a product that is where the sum is kept
      if (!readsShared(u.src[1]) && this.isBusy(throughAfter(u.src[0]))) this.fail(u, "changes what a unit adds to");
      return;
    }
    if (u.op === Ops.LOAD || u.op === Ops.AFTER || u.op === Ops.TUPLE || u.op === Ops.ACC) return;
    for (const s of u.src) {
      if (this.isBusy(this.home(s))) this.fail(u, "reads what a matrix unit adds to");
    }
  }

  private product(u: UOp): void {
    if (this.open === undefined) this.fail(u, "stands in no batch");
    const [a, , c] = u.src, isHeld = (u.arg as TensorCore).shared![0] === undefined;
    if (isHeld && this.since.has(a)) this.fail(u, "reads registers that are computed after its batch began");
    if (!readsShared(c) && c.op !== Ops.LOAD && this.since.has(c)) {
      this.fail(u, "adds to what is computed after its batch began");
    }
    if (isHeld) this.open!.add(a);
    this.open!.add(this.home(u));
  }
}

/** @throws {SpecError} where registers are touched that a unit has */
export function verifyUnits(uops: readonly UOp[]): void {
  if (!uops.some(readsShared)) return;
  const flight = new Flight(uops);
  const walk = (from: number, to: number): void => {
    for (let i = from; i < to; i++) {
      const u = uops[i];
      flight.step(u);
      if (u.op !== Ops.RANGE) continue;
      const end = uops.findIndex((x, k) => k > i && x.op === Ops.END && x.src[0] === u);
      walk(i + 1, end);
      walk(i + 1, end);
      i = end;
    }
  };
  walk(0, uops.length);
}
