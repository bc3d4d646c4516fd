/**
 * Runs rules over graphs: to a fixed point, without recursion, each node once. Also substitution, and lists of passes.
 * What they did is recorded by record.ts.
 *
 * @module
 */
import { envNumber } from "../../helpers/env.ts";
import { SpecError } from "../../helpers/errors.ts";
import { Ops } from "../core/ops.ts";
import { printUOp } from "../core/print.ts";
import { closedRangesOf, rangesOf } from "../core/ranges.ts";
import { type Spec, verify } from "../core/spec.ts";
import { type UOp, uop } from "../core/uop.ts";
import { type PatternMatcher, type Rule, ruleName } from "./matcher.ts";
import { recorded, recording, runPass } from "./record.ts";
import { knownSources } from "./walk.ts";

/** Options of {@linkcode graphRewrite}. */
export interface RewriteOptions<X> {
  /** Passed to every rule. */
  readonly ctx?: X;
  /** The pass name in records and messages; default is the matcher's. */
  readonly name?: string;
  /** Rules see a node before its sources are visited (and again when they changed). */
  readonly bottomUp?: boolean;
  /** false: the node, and all below it, stays as it is. */
  readonly enter?: (u: UOp) => boolean;
}

/** A row of a list of passes: from a graph to a graph, under a name that records and statistics show. */
export interface Pass<X> {
  /** As DEBUG and recordings show it. */
  readonly name: string;
  /** For which graphs it runs; for all where it is absent. */
  readonly when?: (ctx: X, sink: UOp) => boolean;
  /** What it makes of the graph. */
  readonly run: (sink: UOp, ctx: X) => UOp;
  /** Under SPEC=1: what the graph that it makes may consist of. */
  readonly spec?: Spec;
}

/** Runs the passes of a list, one after the other. @throws {SpecError} for an illegal graph, under SPEC=1 */
export function runPasses<X>(passes: readonly Pass<X>[], sink: UOp, ctx: X): UOp {
  const isChecked = envNumber("SPEC") !== 0;
  for (const { name, when, run, spec } of passes) {
    if (when !== undefined && !when(ctx, sink)) continue;
    const before = sink;
    sink = runPass(name, () => before, () => run(before, ctx), (made) => made);
    if (isChecked && spec !== undefined) verify(sink, spec, `after pass "${name}"`);
  }
  return sink;
}

/**
 * Rewrites the graph below `root` to a fixed point: sources first, then the node; what a rule returns is rewritten in
 * turn. With `bottomUp` the node is tried before its sources.
 * @throws {SpecError} where rules undo each other, naming them
 */
export function graphRewrite<X>(root: UOp, pm: PatternMatcher<X>, options: RewriteOptions<X> = {}): UOp {
  const memo = new NodeMemo();
  try {
    return run(root, pm, options, memo);
  } finally {
    memo.clear();
  }
}

/**
 * As {@linkcode graphRewrite}, by rules that settle: one step where nothing below `u` can change any more. For who builds a
 * graph that such rules will see, so that they find nothing to do.
 */
export function settle(u: UOp, pm: PatternMatcher, depth: number = SETTLE_DEPTH): UOp {
  if (isSettled(u, pm)) return u;
  const { src } = u;
  for (let i = 0; i < src.length; i++) {
    if (isSettled(src[i], pm)) continue;
    if (depth === 0 || settle(src[i], pm, depth - 1) !== src[i]) return graphRewrite(u, pm);
  }
  const to = pm.rewrite(u, undefined);
  if (to !== undefined) return settle(to, pm);
  u.settled |= pm.settledBit;
  return u;
}

/** Nodes that are new, one above the other, for which {@linkcode settle} needs no traversal. */
const SETTLE_DEPTH = 3;

/** Is it certain that these rules change neither `u` nor what is below it? */
function isSettled(u: UOp, pm: PatternMatcher): boolean {
  return (u.settled & pm.settledBit) !== 0 || (u.below0 & pm.roots0 | u.below1 & pm.roots1) === 0;
}

/** As {@linkcode graphRewrite}: every node that was visited, with what it became (itself where nothing changed). */
export function graphRewriteMap<X>(
  root: UOp | readonly UOp[],
  pm: PatternMatcher<X>,
  options: RewriteOptions<X> = {},
): Map<UOp, UOp> {
  const memo = new NodeMemo();
  try {
    for (const r of Array.isArray(root) ? root as readonly UOp[] : [root as UOp]) run(r, pm, options, memo, true);
    return memo.toMap();
  } finally {
    memo.clear();
  }
}

/** As {@linkcode graphRewrite} for several roots: what each of `nodes`, which are below them, became. */
export function graphRewriteEach<X>(
  roots: readonly UOp[],
  nodes: readonly UOp[],
  pm: PatternMatcher<X>,
  options: RewriteOptions<X> = {},
): UOp[] {
  const memo = new NodeMemo();
  try {
    for (const r of roots) run(r, pm, options, memo);
    return nodes.map((u) => memo.get(u) ?? u);
  } finally {
    memo.clear();
  }
}

function run<X>(root: UOp, pm: PatternMatcher<X>, options: RewriteOptions<X>, memo: NodeMemo, all = false): UOp {
  if (recording === undefined && envNumber("TRACK_MATCH_STATS") === 0) {
    return new Rewriter(pm, options, memo, all, undefined).run(root);
  }
  const name = options.name ?? pm.name;
  if (recording === undefined) return new Rewriter(pm, options, memo, all, () => {}).run(root);
  return recorded(name, root, (r) => {
    const onHit = (rule: Rule<X>, from: UOp, to: UOp): void => {
      r.changes.push({ rule: ruleName(rule), line: rule.site, from, to });
    };
    return new Rewriter(pm, options, memo, all, onHit).run(root);
  });
}

let owners = 0;

/**
 * A map from nodes to nodes for the length of one traversal, kept in the nodes themselves (in a Map for those that an
 * outer traversal is using). `clear` must follow, so that no node keeps another alive.
 */
class NodeMemo {
  readonly id: number = ++owners;
  private readonly held: UOp[] = [];
  private spill: Map<UOp, UOp> | undefined = undefined;

  get(u: UOp): UOp | undefined {
    if (u.memoOwner === this.id) return u.memoValue;
    return this.spill === undefined ? undefined : this.spill.get(u);
  }
  set(u: UOp, to: UOp): void {
    if (u.memoOwner === this.id) u.memoValue = to;
    else if (u.memoOwner === 0) {
      u.memoOwner = this.id;
      u.memoValue = to;
      this.held.push(u);
    } else (this.spill ??= new Map()).set(u, to);
  }
  toMap(): Map<UOp, UOp> {
    const map = new Map<UOp, UOp>(this.spill);
    const { held } = this;
    for (let i = 0; i < held.length; i++) map.set(held[i], held[i].memoValue!);
    return map;
  }
  clear(): void {
    const { held } = this;
    for (let i = 0; i < held.length; i++) {
      held[i].memoOwner = 0;
      held[i].memoValue = undefined;
    }
    this.spill = undefined;
  }
}

/** Rewrites of one node in a row, and depth of nesting, at which a loop is looked for. */
const CHAIN_CHECK = 256, CHAIN_LIMIT = 1 << 14, DEPTH_CHECK = 1 << 14;

// Frames of the running rewrites, the inner ones above the outer ones, as parallel arrays: the node as it is now, the next
// source to visit (-1: try rules first), and the earlier forms of the node, which all become what it becomes.
const nodes: UOp[] = [], cursors: number[] = [], earlier: (UOp[] | undefined)[] = [];

class Rewriter<X> {
  private readonly pm: PatternMatcher<X>;
  private readonly options: RewriteOptions<X>;
  private readonly ctx: X;
  private readonly memo: NodeMemo;
  private readonly id: number;
  private readonly onHit: ((rule: Rule<X>, from: UOp, to: UOp) => void) | undefined;
  /** Ops that rules are about: below a node without any of them nothing can change, and nothing is visited. */
  private readonly roots0: number;
  private readonly roots1: number;
  /** Nodes marked by one of these bits are not visited, by one of `baseBits` where there is no op of `more` below. */
  private readonly bit: number;
  private readonly baseBits: number;
  private readonly more0: number;
  private readonly more1: number;
  /** Marks of what is done. */
  private readonly marks: number;
  /** Frames of outer rewrites. */
  private readonly base: number = nodes.length;

  constructor(
    pm: PatternMatcher<X>,
    options: RewriteOptions<X>,
    memo: NodeMemo,
    all: boolean,
    onHit: ((rule: Rule<X>, from: UOp, to: UOp) => void) | undefined,
  ) {
    this.pm = pm;
    this.options = options;
    this.ctx = options.ctx as X;
    this.memo = memo;
    this.id = memo.id;
    this.onHit = onHit;
    this.roots0 = all ? -1 : pm.roots0;
    this.roots1 = all ? -1 : pm.roots1;
    const marks = !all && options.enter === undefined;
    this.bit = marks ? pm.settledBit : 0;
    this.baseBits = marks ? pm.base.bits : 0;
    this.more0 = pm.base.roots0;
    this.more1 = pm.base.roots1;
    this.marks = this.bit === 0 ? 0 : this.bit | this.baseBits;
  }

  /** What `u` becomes, where that is known. */
  private known(u: UOp): UOp | undefined {
    if (u.memoOwner === this.id) return u.memoValue;
    if ((u.below0 & this.roots0 | u.below1 & this.roots1) === 0 || (u.settled & this.bit) !== 0) return u;
    if ((u.settled & this.baseBits) !== 0 && (u.below0 & this.more0 | u.below1 & this.more1) === 0) return u;
    return this.memo.get(u);
  }

  run(root: UOp): UOp {
    const known = this.known(root);
    if (known !== undefined) return known;
    try {
      return this.runFrames(root);
    } finally {
      if (nodes.length > this.base) nodes.length = cursors.length = earlier.length = this.base;
    }
  }

  private runFrames(root: UOp): UOp {
    const { pm, ctx, onHit, base } = this;
    const { enter, bottomUp } = this.options;
    const start = bottomUp ? -1 : 0;
    nodes.push(root);
    cursors.push(start);
    earlier.push(undefined);
    while (nodes.length > base) {
      const top = nodes.length - 1;
      const n = nodes[top];
      let i = cursors[top];
      if (i <= 0 && enter !== undefined && !enter(n)) {
        this.finish(n);
        continue;
      }
      if (i < 0) {
        const to = onHit === undefined ? pm.rewrite(n, ctx) : pm.rewriteTracked(n, ctx, onHit);
        if (to !== undefined) {
          this.become(to, start);
          continue;
        }
        i = 0;
      }
      const src = n.src, length = src.length;
      while (i < length && this.known(src[i]) !== undefined) i++;
      if (i < length) {
        cursors[top] = i + 1;
        nodes.push(src[i]);
        cursors.push(start);
        earlier.push(undefined);
        if (nodes.length >= DEPTH_CHECK && (nodes.length & (nodes.length - 1)) === 0) this.checkDepth();
        continue;
      }
      let now = n;
      let changed: UOp[] | undefined;
      for (let j = 0; j < length; j++) {
        const s = this.known(src[j])!;
        if (changed !== undefined) changed[j] = s;
        else if (s !== src[j]) {
          changed = src.slice() as UOp[];
          changed[j] = s;
        }
      }
      if (changed !== undefined) {
        now = uop(n.op, n.dtype, changed, n.arg);
        if (bottomUp) {
          if (now === n) this.finish(n);
          else this.become(now, start);
          continue;
        }
        if (now !== n) {
          if (n.line !== undefined) now.line ??= n.line;
          const done = this.known(now);
          if (done !== undefined) {
            this.finish(done);
            continue;
          }
        }
      } else if (bottomUp) {
        this.finish(n);
        continue;
      }
      const to = onHit === undefined ? pm.rewrite(now, ctx) : pm.rewriteTracked(now, ctx, onHit);
      if (to === undefined) {
        this.finish(now);
        continue;
      }
      if (now !== n) this.remember(now);
      this.become(to, start);
    }
    return this.memo.get(root)!;
  }

  /** The node of the top frame is `to` from now on. */
  private become(to: UOp, start: number): void {
    const done = this.known(to);
    if (done !== undefined) return this.finish(done);
    const top = nodes.length - 1;
    this.remember(nodes[top]);
    nodes[top] = to;
    cursors[top] = start;
  }

  private remember(u: UOp): void {
    const top = nodes.length - 1;
    const list = earlier[top];
    if (list === undefined) earlier[top] = [u];
    else {
      list.push(u);
      if (list.length >= CHAIN_CHECK && (list.length % CHAIN_CHECK) === 0) {
        if (new Set(list).size < list.length || list.length >= CHAIN_LIMIT) this.fail(list);
      }
    }
  }

  /** The node of the top frame, and its earlier forms, are finally `to`. */
  private finish(to: UOp): void {
    const { memo } = this;
    const n = nodes.pop()!;
    cursors.pop();
    const list = earlier.pop();
    to.settled |= this.marks;
    memo.set(n, to);
    if (n !== to) memo.set(to, to);
    if (list !== undefined) { for (let i = 0; i < list.length; i++) memo.set(list[i], to); }
  }

  private checkDepth(): void {
    const all: UOp[] = [];
    for (let i = this.base; i < nodes.length; i++) all.push(nodes[i], ...(earlier[i] ?? []));
    if (new Set(all).size < all.length || nodes.length - this.base > (1 << 21)) this.fail(all);
  }

  private fail(loop: readonly UOp[]): never {
    const rules = new Set<string>();
    for (const u of loop.slice(-64)) {
      const r = this.pm.ruleFor(u, this.ctx);
      if (r !== undefined) rules.add(ruleName(r));
    }
    throw new SpecError(
      `Cannot finish rewrite "${this.options.name ?? this.pm.name}": it loops, by ${
        [...rules].map((r) => `rule ${r}`).join(" and ")
      }`,
      printUOp(loop[loop.length - 1], 60),
    );
  }
}

/**
 * The graph with each key of `map` replaced by its value, in one pass: values are not searched again. When all keys are
 * RANGEs, what depends on none of them (free or closed) is not visited.
 */
export function substitute(root: UOp, map: ReadonlyMap<UOp, UOp>): UOp {
  if (map.size === 0) return root;
  let ranges: UOp[] | undefined = [];
  for (const key of map.keys()) {
    if (key.op !== Ops.RANGE) {
      ranges = undefined;
      break;
    }
    ranges.push(key);
  }
  const keys = ranges;
  let ops0 = 0, ops1 = 0;
  for (const { op } of map.keys()) {
    if ((op & 32) === 0) ops0 |= 1 << (op & 31);
    else ops1 |= 1 << (op & 31);
  }
  const touches = (u: UOp): boolean => {
    if (u.src.length === 0) return map.has(u);
    if (keys === undefined) return true;
    const free = rangesOf(u), closed = closedRangesOf(u);
    for (let i = 0; i < keys.length; i++) if (free.includes(keys[i]) || closed.includes(keys[i])) return true;
    return false;
  };
  const memo = new NodeMemo(), { id } = memo;
  const known = (u: UOp): UOp | undefined => {
    if (u.memoOwner === id) return u.memoValue;
    return (u.below0 & ops0 | u.below1 & ops1) === 0 ? u : memo.get(u);
  };
  try {
    for (const [from, to] of map) memo.set(from, to);
    const stack: UOp[] = [root];
    while (stack.length > 0) {
      const u = stack[stack.length - 1], { src } = u;
      if (known(u) !== undefined) {
        stack.pop();
        continue;
      }
      if (!touches(u)) {
        memo.set(u, u);
        stack.pop();
        continue;
      }
      const sources = knownSources(src, known, stack);
      if (sources === 0) continue;
      stack.pop();
      memo.set(u, sources === 1 ? u : uop(u.op, u.dtype, src.map((s) => known(s)!), u.arg));
    }
    return known(root)!;
  } finally {
    memo.clear();
  }
}
