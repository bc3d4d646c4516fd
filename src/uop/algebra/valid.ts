/**
 * Validity of masked access: what the condition of an access says about the index. The clauses of a conjunction bound
 * the terms they compare; under those bounds the other clauses and the index become simpler, and clauses that are then
 * certainly true go.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../core/ops.ts";
import { rangesOf } from "../core/ranges.ts";
import { constant, index, load, toposort, type UOp, variable } from "../core/uop.ts";
import { PatternMatcher, rule } from "../rewrite/matcher.ts";
import { graphRewrite, substitute } from "../rewrite/rewrite.ts";
import { UPat } from "../rewrite/upat.ts";
import { vmax, vmin } from "./bounds.ts";
import { addLinear, emptyLinear, fitsDType, type Linear, linearOf } from "./linear_form.ts";
import { isNot, simplify, symbolic } from "./symbolic.ts";

/** The clauses of a conjunction, in order, without duplicates. `true` has none. */
export function splitAnd(u: UOp): UOp[] {
  const out: UOp[] = [];
  const stack = [u];
  while (stack.length > 0) {
    const n = stack.pop()!;
    if (n.op === Ops.AND && n.dtype.isBool) stack.push(n.src[1], n.src[0]);
    else if (!n.isConst(1) && !out.includes(n)) out.push(n);
  }
  return out;
}

/** The conjunction of clauses; true for none. */
export function joinAnd(clauses: readonly UOp[]): UOp {
  if (clauses.length === 0) return constant(1, dtypes.bool);
  return clauses.reduce((a, b) => a.alu(Ops.AND, b));
}

/** `a - b + k <= 0` as a sum; undefined where a side may wrap. */
function difference(a: UOp, b: UOp, k: number): Linear | undefined {
  const l = linearOf(a), r = linearOf(b);
  if (l === undefined || r === undefined || !fitsDType(l, a.dtype) || !fitsDType(r, b.dtype)) return undefined;
  const out = emptyLinear(k);
  return addLinear(out, a, 1) && addLinear(out, b, -1) ? out : undefined;
}

/** What a clause says, as sums that are <= 0. */
function constraintsOf(clause: UOp): Linear[] {
  const negated = isNot(clause);
  const u = negated ? clause.src[0] : clause;
  if ((u.op !== Ops.CMPLT && u.op !== Ops.CMPEQ) || !u.src[0].dtype.isInt) return [];
  const [a, b] = u.src;
  if (u.op === Ops.CMPLT) {
    const l = negated ? difference(b, a, 0) : difference(a, b, 1);
    return l === undefined ? [] : [l];
  }
  if (negated) return [];
  return [difference(a, b, 0), difference(b, a, 0)].filter((l) => l !== undefined);
}

type Bounds = Map<UOp, [number, number]>;

/** Narrows the bounds of factors until nothing changes; false where the constraints contradict each other. */
function propagate(constraints: readonly Linear[], bounds: Bounds): boolean {
  const get = (f: UOp): [number, number] => bounds.get(f) ?? [vmin(f), vmax(f)];
  for (let round = 0, changed = true; changed && round < 24; round++) {
    changed = false;
    for (const l of constraints) {
      let least = l.constant;
      for (let i = 0; i < l.factors.length; i++) {
        const [lo, hi] = get(l.factors[i]);
        least += l.coefs[i] * (l.coefs[i] > 0 ? lo : hi);
      }
      if (least > 0) return false;
      for (let i = 0; i < l.factors.length; i++) {
        const f = l.factors[i], c = l.coefs[i];
        const [lo, hi] = get(f);
        const slack = -(least - c * (c > 0 ? lo : hi)); // c * f <= slack
        if (!Number.isSafeInteger(slack)) continue;
        const next: [number, number] = c > 0
          ? [lo, Math.min(hi, Math.floor(slack / c))]
          : [Math.max(lo, Math.ceil(slack / c)), hi];
        if (next[0] === lo && next[1] === hi) continue;
        if (next[0] > next[1]) return false;
        bounds.set(f, [next[0] + 0, next[1] + 0]);
        changed = true;
        break; // `least` is out of date
      }
    }
  }
  return true;
}

/** What is known while some clauses hold: bounds of nodes, and bools that are true or false. */
class Facts {
  /** False when the clauses cannot hold together. */
  readonly possible: boolean;
  private readonly map = new Map<UOp, UOp>();
  private readonly back = new Map<UOp, UOp>();
  private readonly sums = new Map<UOp, UOp>();

  constructor(clauses: readonly UOp[]) {
    const constraints: Linear[] = [];
    const bounds: Bounds = new Map();
    for (const c of clauses) {
      constraints.push(...constraintsOf(c));
      const inner = isNot(c) ? c.src[0] : c;
      if (inner.op !== Ops.CONST) this.map.set(inner, constant(isNot(c) ? 0 : 1, inner.dtype));
    }
    this.possible = propagate(constraints, bounds);
    if (!this.possible) return;
    for (const [f, [lo, hi]] of bounds) this.assume(this.map, f, lo, hi);
    const sums: Bounds = new Map();
    for (const c of clauses) {
      const u = isNot(c) ? c.src[0] : c;
      if (u.op !== Ops.CMPLT || u.src[0].op !== Ops.ADD || u.src[1].op !== Ops.CONST) continue;
      const l = linearOf(u.src[0]);
      if (l === undefined || !fitsDType(l, u.src[0].dtype)) continue;
      const known = sums.get(u.src[0]);
      let lo = l.constant, hi = l.constant;
      for (let i = 0; i < l.factors.length; i++) {
        const [a, b] = bounds.get(l.factors[i]) ?? [vmin(l.factors[i]), vmax(l.factors[i])];
        lo += l.coefs[i] * (l.coefs[i] > 0 ? a : b);
        hi += l.coefs[i] * (l.coefs[i] > 0 ? b : a);
      }
      if (known !== undefined) [lo, hi] = [Math.max(lo, known[0]), Math.min(hi, known[1])];
      if (isNot(c)) lo = Math.max(lo, u.src[1].value);
      else hi = Math.min(hi, u.src[1].value - 1);
      sums.set(u.src[0], [lo, hi]);
    }
    for (const [f, [lo, hi]] of sums) {
      if (lo > hi) this.possible = false;
      else this.assume(this.sums, f, lo, hi);
    }
  }

  private assume(map: Map<UOp, UOp>, f: UOp, lo: number, hi: number): void {
    if (f.op === Ops.CONST || map.has(f) || !Number.isSafeInteger(lo) || !Number.isSafeInteger(hi)) return;
    if (lo === vmin(f) && hi === vmax(f)) return;
    if (lo === hi) {
      map.set(f, constant(lo, f.dtype));
      return;
    }
    const fake = variable(`?${this.back.size}`, lo, hi, f.dtype);
    map.set(f, fake);
    this.back.set(fake, f);
  }

  /** A form of `u` that has its value whenever the clauses hold. */
  simplify(u: UOp): UOp {
    let out = this.under(u, this.map);
    if (this.sums.size > 0 && out.op !== Ops.CONST) out = this.under(out, this.sums);
    return out;
  }

  private under(u: UOp, map: Map<UOp, UOp>): UOp {
    if (map.size === 0) return u;
    // memory is read, and loops go as far, whether the clauses hold or not: the index and the gate of a load inside, and
    // the end of a loop, stay as they are
    const isWhole = (n: UOp): boolean => n.op === Ops.LOAD || n.op === Ops.RANGE;
    const whole = toposort(u, (n) => !isWhole(n)).filter((n) => isWhole(n) && !map.has(n));
    if (whole.length > 0) map = new Map([...map, ...whole.map((n) => [n, n] as const)]);
    const assumed = substitute(u, map);
    if (assumed === u) return u;
    return simplify(substitute(simplify(assumed), this.back));
  }
}

/**
 * An index and the condition under which it is used, both simplified: [valid, idx]. The new index has the old one's
 * value wherever the condition holds; the new condition has the old one's value everywhere. A condition that cannot
 * hold becomes false.
 */
export function simplifyValid(valid: UOp, idx: UOp): readonly [valid: UOp, idx: UOp] {
  let clauses = splitAnd(simplify(valid));
  if (clauses.length === 0) return [constant(1, dtypes.bool), idx];
  if (!new Facts(clauses).possible) return [constant(0, dtypes.bool), idx];
  // Clauses that depend on less come first; each is seen under all others that remain.
  clauses.sort((a, b) => rangesOf(a).length - rangesOf(b).length);
  for (let i = 0; i < clauses.length; i++) {
    const others = clauses.filter((_, j) => j !== i);
    if (others.length === 0) break;
    const now = new Facts(others).simplify(clauses[i]);
    if (now === clauses[i]) continue;
    if (now.isConst(0)) return [now, idx];
    clauses = [...clauses.slice(0, i), ...splitAnd(now), ...clauses.slice(i + 1)];
    if (now.isConst(1)) i--;
  }
  clauses = clauses.filter((c, i) => clauses.indexOf(c) === i);
  if (clauses.length === 0) return [constant(1, dtypes.bool), idx];
  return [joinAnd(clauses), new Facts(clauses).simplify(idx)];
}

function simplifyIndex(u: UOp): UOp | undefined {
  const [base, idx, gate] = u.src;
  const [valid, to] = simplifyValid(gate, idx);
  if (valid === gate && to === idx) return undefined;
  return valid.isConst(1) ? index(base, to) : index(base, to, valid);
}

/** Gates of INDEX, and the index under them, simplified. Kernel stage and later. */
const pmValid: PatternMatcher = new PatternMatcher("valid", [
  rule(UPat.op(Ops.INDEX, { src: [UPat.var("b"), UPat.var("i"), UPat.var("g")], name: "u" }), ({ u }) => {
    return simplifyIndex(u);
  }, "gated index"),
]);

function hasLoad(u: UOp): boolean {
  return toposort(u).some((n) => n.op === Ops.LOAD || n.op === Ops.REDUCE || n.op === Ops.STAGE);
}

/** v ? load(i, g) : alt -> the load gated by v too, with that alt, as far as the clauses depend on the load's loops only. */
function moveGate(v: UOp, l: UOp, alt: UOp): UOp | undefined {
  const at = l.src[0];
  if (at.op !== Ops.INDEX) return undefined;
  if (at.src.length > 2 && (l.src.length > 1 ? l.src[1] !== alt : !alt.isConst(0))) return undefined;
  const here = rangesOf(at);
  const moved: UOp[] = [], kept: UOp[] = [];
  for (const c of splitAnd(v)) (rangesOf(c).every((r) => here.includes(r)) && !hasLoad(c) ? moved : kept).push(c);
  if (moved.length === 0) return undefined;
  const gates = at.src.length > 2 ? [...splitAnd(at.src[2]), ...moved] : moved;
  const gate = joinAnd(gates.filter((g, i) => gates.indexOf(g) === i));
  const to = load(index(at.src[0], at.src[1], gate), alt.isConst(0) ? undefined : alt);
  return kept.length === 0 ? to : joinAnd(kept).where(to, alt);
}

/** Is `x` +0 wherever one of `clauses` does not hold, because loads gated by them are all that it is made of? */
function vanishes(x: UOp, clauses: readonly UOp[]): boolean {
  switch (x.op) {
    case Ops.LOAD: {
      const at = x.src[0];
      if (at.op !== Ops.INDEX || at.src.length < 3 || (x.src.length > 1 && !Object.is(x.src[1].arg, 0))) return false;
      const gates = splitAnd(at.src[2]);
      return clauses.every((c) => gates.includes(c));
    }
    case Ops.MUL:
    case Ops.ADD:
      return vanishes(x.src[0], clauses) && vanishes(x.src[1], clauses);
    case Ops.CAST:
      return vanishes(x.src[0], clauses);
    default:
      return false;
  }
}

const v = UPat.var("v"), l = UPat.op(Ops.LOAD, { name: "l" }), alt = UPat.cvar("alt");

/** Moves the condition of a WHERE with a constant into the gate of the load it guards. Kernel stage. */
export const pmMoveGates: PatternMatcher = new PatternMatcher("move gates", [
  rule(v.where(l, alt), ({ v, l, alt }) => l.dtype.count === 1 ? moveGate(v, l, alt) : undefined),
  rule(v.where(alt, l), ({ v, l, alt }) => l.dtype.count === 1 ? moveGate(v.ne(1), l, alt) : undefined),
  rule(v.where(UPat.op(Ops.MUL, { name: "x" }), alt), ({ v, x, alt }) => {
    return Object.is(alt.arg, 0) && vanishes(x, splitAnd(v)) ? x : undefined;
  }, "product of gated loads"),
]);

/** As {@linkcode symbolic}, with gates moved into loads and used to simplify indices. Kernel stage. */
export const symbolicValid: PatternMatcher = symbolic.concat(pmMoveGates).concat(pmValid).settles();

/** The graph with its algebra and its gated accesses simplified. */
export function simplifyKernel(root: UOp): UOp {
  return graphRewrite(root, symbolicValid, { name: "simplify" });
}
