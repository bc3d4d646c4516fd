/**
 * Random integer expressions: `simplify` must keep the value at random points, and change nothing the second time.
 * `simplifyValid` must keep the condition everywhere and the index where the condition holds. Bounds must contain every
 * value. The evaluator below knows nothing of src/uop/algebra/eval.ts. Failures are shrunk and printed.
 *
 * Run: `deno run -A tests/fuzz/simplify.ts --seconds 30 --seed 1`
 */
import { parseArgs } from "@std/cli/parse-args";
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { AxisKind, type Int64, type VariableArg } from "../../src/uop/core/args.ts";
import { vmax, vmin } from "../../src/uop/algebra/bounds.ts";
import { opName, Ops } from "../../src/uop/core/ops.ts";
import { exprText, printUOp } from "../../src/uop/core/print.ts";
import { simplify } from "../../src/uop/algebra/symbolic.ts";
import { constant, range, toposort, type UOp, uop, variable } from "../../src/uop/core/uop.ts";
import { simplifyValid } from "../../src/uop/algebra/valid.ts";
import { Random } from "../support/random.ts";

const { int32, int64 } = dtypes;

function wrap(v: bigint, d: DType): bigint {
  if (d.isBool) return v === 0n ? 0n : 1n;
  return d.isUnsigned ? BigInt.asUintN(d.bits, v) : BigInt.asIntN(d.bits, v);
}

const floorDiv = (a: bigint, b: bigint): bigint => a / b - (a % b !== 0n && (a < 0n) !== (b < 0n) ? 1n : 0n);

class NoValue extends Error {}

function apply(u: UOp, [a, b, c]: bigint[]): bigint {
  const t = (v: boolean): bigint => v ? 1n : 0n;
  switch (u.op) {
    case Ops.ADD:
      return u.dtype.isBool ? a | b : a + b;
    case Ops.MUL:
      return a * b;
    case Ops.MAX:
      return a > b ? a : b;
    case Ops.FLOORDIV:
    case Ops.FLOORMOD:
    case Ops.CDIV:
    case Ops.CMOD:
      if (b === 0n) throw new NoValue();
      if (u.op === Ops.CDIV) return a / b;
      if (u.op === Ops.CMOD) return a % b;
      return u.op === Ops.FLOORDIV ? floorDiv(a, b) : a - floorDiv(a, b) * b;
    case Ops.AND:
      return a & b;
    case Ops.OR:
      return a | b;
    case Ops.XOR:
      return a ^ b;
    case Ops.SHL:
      return a << b;
    case Ops.SHR:
      return a >> b;
    case Ops.CMPLT:
      return t(a < b);
    case Ops.CMPNE:
      return t(a !== b);
    case Ops.CMPEQ:
      return t(a === b);
    case Ops.WHERE:
      return a !== 0n ? b : c;
    case Ops.CAST:
      return a;
    default:
      throw new Error(`the fuzzer makes no ${opName[u.op]}`);
  }
}

/** The value of `u` where `point` gives the leaves; undefined where a division by zero is evaluated. */
export function evaluate(u: UOp, point: ReadonlyMap<UOp, number>, memo: Map<UOp, bigint> = new Map()): bigint {
  const known = memo.get(u);
  if (known !== undefined) return known;
  let v: bigint;
  if (u.op === Ops.CONST) v = typeof u.arg === "number" ? BigInt(u.arg) : (u.arg as Int64).toBigInt();
  else if (point.has(u)) v = BigInt(point.get(u)!);
  else v = wrap(apply(u, u.src.map((s) => evaluate(s, point, memo))), u.dtype);
  memo.set(u, v);
  return v;
}

/** Makes random expressions over a few leaves. */
export class Maker {
  readonly leaves: UOp[] = [];
  constructor(readonly r: Random) {
    for (let i = 0; i < 4; i++) {
      this.leaves.push(range(r.pick([1, 2, 3, 4, 5, 7, 8, 12, 16, 32]), i, AxisKind.LOOP));
    }
    this.leaves.push(variable("a", r.int(-9, 3), r.int(3, 20)), variable("b", 1, r.int(1, 9)));
    this.leaves.push(variable("w", -(2 ** 31), 2 ** 31 - 1));
  }
  constant(): number {
    return this.r.pick([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 48, -1, -2, -3, -4, -8, 64, 100, 1 << 20]);
  }
  divisor(): number {
    return this.r.next() < 0.1 ? this.r.pick([-1, -2, -3, -4]) : this.r.pick([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32]);
  }
  leaf(): UOp {
    const { r } = this;
    if (r.next() < 0.2) return constant(this.constant(), int32);
    return r.next() < 0.03 ? this.leaves[6] : r.pick(this.leaves.slice(0, 6));
  }
  int(depth: number): UOp {
    const { r } = this;
    if (depth <= 0) return this.leaf();
    const p = r.next();
    const sub = (): UOp => this.int(depth - 1 - r.int(0, 1));
    if (p < 0.3) return sub().add(sub());
    if (p < 0.48) return sub().mul(this.constant());
    if (p < 0.62) return sub().floorDiv(this.divisor());
    if (p < 0.76) return sub().floorMod(this.divisor());
    if (p < 0.79) return sub().mul(sub());
    if (p < 0.82) return sub().alu(r.pick([Ops.FLOORDIV, Ops.FLOORMOD]), this.leaves[5]);
    if (p < 0.84) return sub().max(sub());
    if (p < 0.87) return this.bool(depth - 1).where(sub(), sub());
    if (p < 0.89) return sub().alu(r.pick([Ops.CDIV, Ops.CMOD]), this.divisor());
    if (p < 0.91) return sub().alu(r.pick([Ops.AND, Ops.OR, Ops.XOR]), r.pick([0, 1, 3, 4, 7, 15, -1, -4]));
    if (p < 0.93) return sub().alu(r.pick([Ops.SHL, Ops.SHR]), r.int(0, 4));
    if (p < 0.95) return this.bool(depth - 1).cast(int32);
    if (p < 0.98) return this.wide(depth - 1).cast(int32);
    return sub().sub(sub());
  }
  wide(depth: number): UOp {
    const { r } = this;
    const sub = (): UOp => depth <= 0 || r.next() < 0.5 ? this.int(depth - 1).cast(int64) : this.wide(depth - 1);
    const op = r.pick([Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD]);
    return sub().alu(op, op === Ops.ADD && r.next() < 0.5 ? sub() : constant(this.divisor(), int64));
  }
  bool(depth: number): UOp {
    const { r } = this;
    const p = r.next();
    const sub = (): UOp => this.int(depth - 1);
    if (depth <= 0 || p < 0.4) return sub().lt(this.constant());
    if (p < 0.5) return sub().lt(sub());
    if (p < 0.55) return constant(this.constant(), int32).lt(sub());
    if (p < 0.65) return sub().alu(r.pick([Ops.CMPNE, Ops.CMPEQ]), r.next() < 0.5 ? sub() : this.constant());
    if (p < 0.75) return this.bool(depth - 1).ne(1);
    if (p < 0.97) return this.bool(depth - 1).alu(r.pick([Ops.AND, Ops.AND, Ops.OR, Ops.XOR]), this.bool(depth - 1));
    return this.wide(depth - 1).lt(constant(this.constant(), int64));
  }
  /** A value of every leaf: often at its bounds. */
  point(): Map<UOp, number> {
    const { r } = this;
    return new Map(this.leaves.map((u) => {
      const [lo, hi] = u.op === Ops.RANGE
        ? [0, u.src[0].value - 1]
        : [(u.arg as VariableArg).min, (u.arg as VariableArg).max];
      const p = r.next();
      return [u, p < 0.15 ? lo : p < 0.3 ? hi : r.int(lo, hi)];
    }));
  }
}

const POINTS = 24;

function tryEvaluate(u: UOp, point: ReadonlyMap<UOp, number>): bigint | undefined {
  try {
    return evaluate(u, point);
  } catch (error) {
    if (error instanceof NoValue) return undefined;
    throw error;
  }
}

const pointText = (p: ReadonlyMap<UOp, number>): string => [...p].map(([u, v]) => `${exprText(u)}=${v}`).join(" ");

/** What is wrong with simplifying `u`; undefined when nothing is. */
export function checkSimplify(u: UOp, m: Maker): string | undefined {
  let s: UOp;
  try {
    s = simplify(u);
  } catch (error) {
    return String(error).slice(0, 2000);
  }
  const again = simplify(s);
  if (again !== s) return `not idempotent:\n  ${exprText(s)}\n  ${exprText(again)}`;
  for (let i = 0; i < POINTS; i++) {
    const p = m.point();
    const want = tryEvaluate(u, p);
    if (want === undefined) continue;
    const got = tryEvaluate(s, p);
    if (got !== want) return `${exprText(s)} is ${got}, not ${want}, at ${pointText(p)}`;
    for (const n of [u, s]) {
      if (want < BigInt(vmin(n)) || want > BigInt(vmax(n))) {
        return `bounds [${vmin(n)}, ${vmax(n)}] of ${exprText(n)} leave out ${want} at ${pointText(p)}`;
      }
    }
  }
  return undefined;
}

/** What is wrong with simplifying `idx` under `valid`. */
export function checkValid(valid: UOp, idx: UOp, m: Maker): string | undefined {
  let v: UOp, i: UOp;
  try {
    [v, i] = simplifyValid(valid, idx);
  } catch (error) {
    return String(error).slice(0, 2000);
  }
  for (let k = 0; k < POINTS * 2; k++) {
    const p = m.point();
    const want = tryEvaluate(valid, p);
    if (want === undefined) continue;
    const got = tryEvaluate(v, p);
    if (got !== want) return `condition ${exprText(v)} is ${got}, not ${want}, at ${pointText(p)}`;
    if (want === 0n) continue;
    const a = tryEvaluate(idx, p);
    if (a !== undefined && tryEvaluate(i, p) !== a) {
      return `index ${exprText(i)} is ${tryEvaluate(i, p)}, not ${a}, at ${pointText(p)}`;
    }
  }
  return undefined;
}

/** Smaller variants: a node replaced by one of its sources, or by 0 or 1. */
function* smaller(root: UOp): Generator<UOp> {
  const nodes = toposort(root).reverse();
  for (const n of nodes) {
    for (const s of n.src) if (s.dtype === root.dtype && n === root) yield s;
    const to = [...n.src.filter((s) => s.dtype === n.dtype)];
    if (n.op !== Ops.CONST && n.op !== Ops.RANGE) to.push(constant(0, n.dtype), constant(1, n.dtype));
    if (n === root) continue;
    for (const t of to) yield replace(root, n, t, new Map());
  }
}

function replace(u: UOp, from: UOp, to: UOp, memo: Map<UOp, UOp>): UOp {
  if (u === from) return to;
  if (u.src.length === 0 || u.op === Ops.RANGE) return u;
  let r = memo.get(u);
  if (r === undefined) memo.set(u, r = uop(u.op, u.dtype, u.src.map((s) => replace(s, from, to, memo)), u.arg));
  return r;
}

/** The smallest failing variant that is found by greedy steps. */
export function shrink(u: UOp, fails: (u: UOp) => boolean): UOp {
  for (let steps = 0; steps < 200; steps++) {
    const size = toposort(u).length;
    let next: UOp | undefined;
    for (const v of smaller(u)) {
      if (v !== u && toposort(v).length < size && fails(v)) {
        next = v;
        break;
      }
    }
    if (next === undefined) return u;
    u = next;
  }
  return u;
}

/** Runs `count` expressions (or until `deadline`); the first failure as text, shrunk. */
export function fuzz(seed: number, count: number, deadline: number = Infinity): { done: number; failure?: string } {
  for (let i = 0; i < count; i++) {
    if (performance.now() > deadline) return { done: i };
    const m = new Maker(new Random(seed * 1000003 + i));
    const depth = m.r.int(2, 7);
    if (m.r.next() < 0.3) {
      const clauses = Array.from({ length: m.r.int(1, 4) }, () => m.bool(m.r.int(1, 3)));
      const valid = clauses.reduce((a, b) => a.and(b)), idx = m.int(depth - 1);
      const why = checkValid(valid, idx, m);
      if (why === undefined) continue;
      const v = shrink(valid, (x) => checkValid(x, idx, m) !== undefined);
      const small = shrink(idx, (x) => checkValid(v, x, m) !== undefined);
      return {
        done: i,
        failure: `seed ${seed} case ${i}: ${checkValid(v, small, m) ?? why}\nvalid ${exprText(v)}\nindex ${
          exprText(small)
        }\n${printUOp([v, small])}`,
      };
    }
    const u = m.r.next() < 0.2 ? m.bool(depth) : m.int(depth);
    const why = checkSimplify(u, m);
    if (why === undefined) continue;
    const small = shrink(u, (x) => checkSimplify(x, m) !== undefined);
    return {
      done: i,
      failure: `seed ${seed} case ${i}: ${checkSimplify(small, m) ?? why}\n${exprText(small)}\n${printUOp(small)}`,
    };
  }
  return { done: count };
}

if (import.meta.main) {
  const given = parseArgs(Deno.args, { string: ["seconds", "seed"] });
  const seed = Number(given.seed ?? Math.floor(Math.random() * 1e6));
  const { done, failure } = fuzz(seed, Infinity, performance.now() + Number(given.seconds ?? 10) * 1000);
  console.log(failure === undefined ? `${done} expressions, seed ${seed}: all agree` : failure);
  if (failure !== undefined) Deno.exit(1);
}
