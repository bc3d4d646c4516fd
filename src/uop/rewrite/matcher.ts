/**
 * Rules and their matcher. A PatternMatcher groups its rules by root op; on first use of an op it compiles all rules of
 * that op into one function of straight code: early reject on the bit set of source ops, then nested tests, and an object
 * of captures only where everything matched. Where code cannot be compiled (a page that forbids it) an interpreter does
 * the same.
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";
import { rowSite, type Site } from "../../helpers/stack.ts";
import { sameArg } from "../core/args.ts";
import { isCommutative, OP_COUNT, opArity, type Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";
import type { UPat } from "./upat.ts";

/** Captures as the compiled code passes them. */
export type Captures = Record<string, UOp>;

/** One rule: where the pattern matches, `apply` gives the replacement, or undefined to decline. */
export interface Rule<X = unknown> {
  /** What it matches. */
  readonly pattern: UPat;
  /** What a match becomes; undefined is no match after all. */
  readonly apply: (captures: Captures, ctx: X) => UOp | undefined;
  /** As recordings and statistics show it. */
  readonly name: string;
  /** The row of its table, for records. */
  readonly site: Site;
}

/** A rule. The callback's captures are those of the pattern; it returns the replacement, or undefined for no match. */
export function rule<C, X = unknown>(
  pattern: UPat<C>,
  apply: (captures: C, ctx: X) => UOp | undefined,
  name?: string,
): Rule<X> {
  return { pattern, apply: apply as unknown as Rule<X>["apply"], name: name ?? "", site: rowSite() };
}

/** What a rule is called in records and statistics: its name, or its pattern. */
export function ruleName(r: Rule<never>): string {
  return r.name || String(r.pattern);
}

/** Tries, hits and time of one rule, counted while TRACK_MATCH_STATS or a record is on. */
export interface RuleStats {
  readonly matcher: string;
  readonly rule: string;
  tries: number;
  hits: number;
  timeMs: number;
}

const stats = new Map<Rule<never>, RuleStats>();

/** The statistics so far, most expensive first. */
export function matchStats(): RuleStats[] {
  return [...stats.values()].sort((a, b) => b.timeMs - a.timeMs);
}

/** Forgets the statistics. */
export function resetMatchStats(): void {
  stats.clear();
}

/** The next bit of `settled` in nodes. */
let settledBits = 1;

type Test = (u: UOp, ctx: unknown) => UOp | undefined;

/** A named list of rules, tried in order; the first replacement that differs from the node wins. */
export class PatternMatcher<X = unknown> {
  /** As recordings and errors show it. */
  readonly name: string;
  /** In the order in which they are tried. */
  readonly rules: readonly Rule<X>[];
  /** By op: the compiled test; null without rules; undefined before first use. */
  private readonly table: (Test | null | undefined)[];
  /** By op: each rule with its own test, for counting. */
  private readonly single: ([Rule<X>, Test][] | undefined)[];
  private readonly joined: Map<unknown, unknown>;
  /** Bit set of the ops that rules are about (numbers modulo 64), as `below0` and `below1` of nodes. */
  readonly roots0: number;
  /** The second word. */
  readonly roots1: number;
  /** Bit of `settled` in nodes that these rules leave alone; 0 where that is not kept. */
  settledBit = 0;
  /** Where these rules are those of a matcher that settles, and more: its bits, and the ops that the others are about. */
  readonly base: { readonly bits: number; readonly roots0: number; readonly roots1: number };

  /** A table of rules under a name. */
  constructor(
    name: string,
    rules: readonly Rule<X>[],
    base: PatternMatcher["base"] = { bits: 0, roots0: 0, roots1: 0 },
  ) {
    this.name = name;
    this.base = base;
    this.rules = rules;
    this.table = new Array<Test | null | undefined>(OP_COUNT).fill(undefined);
    this.single = new Array<[Rule<X>, Test][] | undefined>(OP_COUNT).fill(undefined);
    this.joined = new Map();
    let r0 = 0, r1 = 0;
    for (const { pattern } of rules) {
      const ops = rootsOf(pattern);
      if (ops === undefined) r0 = r1 = -1;
      else {
        for (const op of ops) {
          if ((op & 32) === 0) r0 |= 1 << (op & 31);
          else r1 |= 1 << (op & 31);
        }
      }
    }
    this.roots0 = r0;
    this.roots1 = r1;
  }

  /** These rules, then the other's. Cached: the same two give the same matcher. */
  concat<Y>(other: PatternMatcher<Y>): PatternMatcher<X & Y> {
    let m = this.joined.get(other) as PatternMatcher<X & Y> | undefined;
    if (m === undefined) {
      const rules = [...this.rules as readonly Rule<never>[], ...other.rules as readonly Rule<never>[]];
      const { bits, roots0, roots1 } = this.base;
      const base = this.settledBit !== 0
        ? { bits: bits | this.settledBit, roots0: other.roots0, roots1: other.roots1 }
        : { bits, roots0: roots0 | other.roots0, roots1: roots1 | other.roots1 };
      m = new PatternMatcher<X & Y>(`${this.name} + ${other.name}`, rules as unknown as Rule<X & Y>[], base);
      this.joined.set(other, m);
    }
    return m;
  }

  /**
   * Nodes that these rules leave alone, with all below them, are marked and not visited again. For rules that see nothing
   * but the node: neither a context nor anything that changes.
   */
  settles(): this {
    if (settledBits === 1 << 31) throw new SpecError("Too many matchers settle");
    this.settledBit = settledBits;
    settledBits <<= 1;
    return this;
  }

  /** The replacement of `u` by the first rule that has one; undefined if none has. One step, at this node only. */
  rewrite(u: UOp, ctx: X): UOp | undefined {
    let f = this.table[u.op];
    if (f === undefined) f = this.compile(u.op);
    return f === null ? undefined : f(u, ctx);
  }

  /** As {@linkcode rewrite}, counting each rule's tries, hits and time; `onHit` hears which rule fired. */
  rewriteTracked(u: UOp, ctx: X, onHit?: (rule: Rule<X>, from: UOp, to: UOp) => void): UOp | undefined {
    const list = this.single[u.op] ??= this.rulesOf(u.op).map((r) => [r, compileRules([r], u.op)]);
    for (const [r, test] of list) {
      let s = stats.get(r);
      if (s === undefined) {
        stats.set(r, s = { matcher: this.name, rule: ruleName(r), tries: 0, hits: 0, timeMs: 0 });
      }
      const start = performance.now();
      const to = test(u, ctx);
      s.timeMs += performance.now() - start;
      s.tries++;
      if (to === undefined) continue;
      s.hits++;
      onHit?.(r, u, to);
      return to;
    }
    return undefined;
  }

  /** The rule that replaces `u`, if one does. For messages. */
  ruleFor(u: UOp, ctx: X): Rule<X> | undefined {
    return this.rulesOf(u.op).find((r) => compileRules([r], u.op)(u, ctx) !== undefined);
  }

  /** Rules that may match an op. */
  private rulesOf(op: Ops): Rule<X>[] {
    return this.rules.filter((r) => canBe(r.pattern, op));
  }

  /** The test of an op: those of all of its rules in one. */
  private compile(op: Ops): Test | null {
    const rules = this.rulesOf(op);
    return this.table[op] = rules.length === 0 ? null : sharedTest(rules, op);
  }
}

/** The test that the constant `e` has this value: -0 is not 0. */
function constTest(e: string, value: number): string {
  return value === 0 ? `Object.is(${e}.arg,${1 / value < 0 ? "-0" : "0"})` : `${e}.arg===${value}`;
}

function canBe(p: UPat, op: Ops): boolean {
  if (p.alternatives !== undefined) return p.alternatives.some((a) => canBe(a, op));
  return p.ops === undefined || p.ops.includes(op);
}

/** The ops that a pattern can be; undefined for any. */
function rootsOf(p: UPat): readonly Ops[] | undefined {
  if (p.alternatives === undefined) return p.ops;
  const all: Ops[] = [];
  for (const a of p.alternatives) {
    const ops = rootsOf(a);
    if (ops === undefined) return undefined;
    all.push(...ops);
  }
  return all;
}

// ---- compiler

/** Names that a pattern captures, in order of first appearance. */
function namesOf(p: UPat, out: string[] = []): string[] {
  if (p.name !== undefined && !out.includes(p.name)) out.push(p.name);
  for (const q of p.alternatives ?? p.src ?? []) namesOf(q, out);
  if (p.everySrc !== undefined) namesOf(p.everySrc, out);
  return out;
}

/** The bits that `srcMask0`/`srcMask1` must have for the pattern to match. */
function requiredMask(p: UPat): [number, number] {
  let m0 = 0, m1 = 0;
  for (const s of p.src ?? []) {
    if (s.ops === undefined || s.ops.length !== 1) continue;
    if (s.ops[0] < 32) m0 |= 1 << s.ops[0];
    else m1 |= 1 << (s.ops[0] & 31);
  }
  return [m0, m1];
}

/** True where the two source patterns of a commutative op must also be tried in the other order. */
function swaps(p: UPat, op: Ops | undefined): boolean {
  if (p.src === undefined || p.src.length !== 2 || p.ordered || p.src[0] === p.src[1]) return false;
  return op !== undefined ? isCommutative(op) : p.ops !== undefined && p.ops.every(isCommutative);
}

type Bound = ReadonlyMap<string, string>;
type Pending = readonly (readonly [UPat, string, Ops | undefined])[];

class Generator {
  readonly pool: unknown[] = [];
  private code = "";
  private temps = 0;

  constant(value: unknown): string {
    let i = this.pool.indexOf(value);
    if (i < 0) i = this.pool.push(value) - 1;
    return `k${i}`;
  }

  ruleCode(r: Rule<never>, op: Ops): void {
    const names = namesOf(r.pattern);
    const f = this.constant(r.apply);
    const emit = (bound: Bound): void => {
      const fields = names.map((n) => `${JSON.stringify(n)}:${bound.get(n) ?? "undefined"}`);
      this.code += `r=${f}({${fields.join()}},ctx);if(r!==undefined&&r!==u)return r;\n`;
    };
    const [m0, m1] = r.pattern.alternatives === undefined ? requiredMask(r.pattern) : [0, 0];
    const tests = [];
    if (m0 !== 0) tests.push(`(u.srcMask0&${m0})===${m0}`);
    if (m1 !== 0) tests.push(`(u.srcMask1&${m1})===${m1}`);
    if (tests.length) this.code += `if(${tests.join("&&")}){`;
    this.match([[r.pattern, "u", op]], new Map(), emit);
    if (tests.length) this.code += "}\n";
  }

  /** Code that matches all of `pending`, then what `then` writes, once for each way to match. */
  private match(pending: Pending, bound: Bound, then: (bound: Bound) => void): void {
    if (pending.length === 0) return then(bound);
    const [[p, e, known], ...rest] = pending;
    if (p.alternatives !== undefined) {
      for (const a of p.alternatives) {
        if (known !== undefined && !canBe(a, known)) continue;
        this.match([[a, e, known]], bound, (b) => {
          const c = this.bind(p, e, b);
          if (c.test !== undefined) this.code += `if(${c.test}){`;
          this.match(rest, c.bound, then);
          if (c.test !== undefined) this.code += "}";
        });
      }
      return;
    }
    const op = known ?? (p.ops?.length === 1 ? p.ops[0] : undefined);
    const tests: string[] = [];
    if (known === undefined && p.ops !== undefined) {
      tests.push(`(${p.ops.map((o) => `${e}.op===${o}`).join("||")})`);
    }
    if (p.value !== undefined) tests.push(constTest(e, p.value));
    if (p.hasArg) tests.push(`sameArg(${e}.arg,${this.constant(p.arg)})`);
    if (p.dtypes !== undefined) {
      const one = p.dtypes.map((d) =>
        d.count === 1 ? `${e}.dtype.scalar===${this.constant(d)}` : `${e}.dtype===${this.constant(d)}`
      );
      tests.push(`(${one.join("||")})`);
    }
    if (p.src !== undefined && (p.allowAny || op === undefined || opArity[op] !== p.src.length)) {
      tests.push(`${e}.src.length${p.allowAny ? ">=" : "==="}${p.src.length}`);
    }
    const c = this.bind(p, e, bound);
    if (c.test !== undefined) tests.push(c.test);
    if (p.when !== undefined) tests.push(`${this.constant(p.when)}(${e})`);
    if (tests.length) this.code += `if(${tests.join("&&")}){`;
    if (p.everySrc !== undefined) this.every(p.everySrc, e, c.bound, (b) => this.match(rest, b, then));
    else if (p.src === undefined || p.src.length === 0) this.match(rest, c.bound, then);
    else {
      const at = p.src.map((_, i) => {
        const t = `t${this.temps++}`;
        this.code += `const ${t}=${e}.src[${i}];`;
        return t;
      });
      const orders = swaps(p, op) ? [at, [at[1], at[0]]] : [at];
      for (const order of orders) {
        this.code += "{";
        // Leaves first: they are the cheap tests.
        const next = p.src.map((q, i) => [q, order[i], undefined] as const)
          .sort((a, b) => weight(a[0]) - weight(b[0]));
        this.match([...next, ...rest], c.bound, then);
        this.code += "}";
      }
    }
    if (tests.length) this.code += "}\n";
  }

  /** Every source by one pattern that captures nothing beyond what is bound. */
  private every(p: UPat, e: string, bound: Bound, then: (bound: Bound) => void): void {
    const flag = `f${this.temps++}`, item = `t${this.temps++}`;
    this.code += `let ${flag}=true;for(const ${item} of ${e}.src){let ok=false;do{`;
    this.match([[p, item, undefined]], bound, () => this.code += "ok=true;break;");
    this.code += `}while(false);if(!ok){${flag}=false;break;}}if(${flag}){`;
    then(bound);
    this.code += "}";
  }

  private bind(p: UPat, e: string, bound: Bound): { test: string | undefined; bound: Bound } {
    if (p.name === undefined) return { test: undefined, bound };
    const before = bound.get(p.name);
    if (before !== undefined) return { test: before === e ? undefined : `${before}===${e}`, bound };
    return { test: undefined, bound: new Map(bound).set(p.name, e) };
  }

  finish(): Test {
    const names = this.pool.map((_, i) => `k${i}`);
    const body = `"use strict";return function(u,ctx){let r;\n${this.code}return undefined;}`;
    return new Function("sameArg", ...names, body)(sameArg, ...this.pool) as Test;
  }
}

function weight(p: UPat): number {
  if (p.alternatives !== undefined) return 3;
  return p.src === undefined ? 0 : 1 + p.src.length;
}

/** By first rule: tests of lists of rules. Matchers that are joined of others have the code of those that add nothing to an op. */
const compiled = new WeakMap<Rule<never>, { op: Ops; rules: readonly Rule<never>[]; test: Test }[]>();

/** The test of these rules for `op`: that of an equal list, where there is one. */
function sharedTest(rules: readonly Rule<never>[], op: Ops): Test {
  let known = compiled.get(rules[0]);
  if (known === undefined) compiled.set(rules[0], known = []);
  for (const k of known) {
    if (k.op === op && k.rules.length === rules.length && k.rules.every((r, i) => r === rules[i])) return k.test;
  }
  const test = compileRules(rules, op);
  known.push({ op, rules, test });
  return test;
}

let canCompile = true;

/** Whether a pattern asks for nothing but an op. */
function isBare(p: UPat): boolean {
  return p.alternatives === undefined && p.src === undefined && p.everySrc === undefined && p.dtypes === undefined &&
    p.when === undefined && p.value === undefined && !p.hasArg;
}

/** The test of rules for whole nodes: there is nothing to compile. */
function callRules(rules: readonly Rule<never>[]): Test {
  return (u, ctx) => {
    for (let i = 0; i < rules.length; i++) {
      const { pattern: { name }, apply } = rules[i];
      const to = apply(name === undefined ? {} : { [name]: u }, ctx as never);
      if (to !== undefined && to !== u) return to;
    }
    return undefined;
  };
}

function compileRules(rules: readonly Rule<never>[], op: Ops): Test {
  if (rules.every((r) => isBare(r.pattern))) return callRules(rules);
  if (canCompile) {
    try {
      const g = new Generator();
      for (const r of rules) g.ruleCode(r, op);
      return g.finish();
    } catch (error) {
      if (!(error instanceof EvalError)) throw error;
      canCompile = false;
    }
  }
  return interpretRules(rules);
}

// ---- interpreter

/** The test of these rules without compiled code: slow, and the reference for the compiler's tests. */
export function interpretRules(rules: readonly Rule<never>[]): (u: UOp, ctx: unknown) => UOp | undefined {
  return (u, ctx) => {
    for (const r of rules) {
      const captures: Captures = {};
      const found = interpret(r.pattern, u, captures, () => {
        const to = r.apply({ ...captures }, ctx as never);
        return to === u ? undefined : to;
      });
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

function interpret(p: UPat, u: UOp, captures: Captures, then: () => UOp | undefined): UOp | undefined {
  if (p.alternatives !== undefined) {
    for (const a of p.alternatives) {
      const r = interpret(a, u, captures, () => bound(p.name, u, captures, then));
      if (r !== undefined) return r;
    }
    return undefined;
  }
  if (p.ops !== undefined && !p.ops.includes(u.op)) return undefined;
  if (p.value !== undefined && !Object.is(u.arg, p.value)) return undefined;
  if (p.hasArg && !sameArg(u.arg, p.arg)) return undefined;
  if (p.dtypes !== undefined && !p.dtypes.some((d) => d === u.dtype || d === u.dtype.scalar)) return undefined;
  const { src } = p;
  if (src !== undefined && (p.allowAny ? u.src.length < src.length : u.src.length !== src.length)) return undefined;
  return bound(p.name, u, captures, () => {
    if (p.when !== undefined && !p.when(u)) return undefined;
    const { everySrc } = p;
    if (everySrc !== undefined) {
      const none = u.src.some((s) => interpret(everySrc, s, captures, () => s) === undefined);
      return none ? undefined : then();
    }
    if (src === undefined) return then();
    const walk = (order: readonly UOp[], i: number): UOp | undefined =>
      i === src.length ? then() : interpret(src[i], order[i], captures, () => walk(order, i + 1));
    return walk(u.src, 0) ?? (swaps(p, u.op) ? walk([u.src[1], u.src[0]], 0) : undefined);
  });
}

function bound(name: string | undefined, u: UOp, captures: Captures, then: () => UOp | undefined): UOp | undefined {
  if (name === undefined) return then();
  const before = captures[name];
  if (before !== undefined) return before === u ? then() : undefined;
  captures[name] = u;
  const r = then();
  delete captures[name];
  return r;
}
