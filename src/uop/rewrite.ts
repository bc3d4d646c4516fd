/**
 * Runs rules over graphs: to a fixed point, without recursion, each node once. Also substitution, and the record of
 * what each pass did (nothing is allocated for it when it is off).
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { SpecError } from "../helpers/errors.ts";
import { type PatternMatcher, type Rule, ruleName } from "./matcher.ts";
import { Ops } from "./ops.ts";
import { printUOp } from "./print.ts";
import { closedRangesOf, rangesOf } from "./ranges.ts";
import { type PassRecord, Recording } from "./recording.ts";
import { type Spec, verify } from "./spec.ts";
import { type UOp, uop } from "./uop.ts";

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

let recording: PassRecord[] | undefined;
let depth = 0;

/**
 * Runs `fn` and returns its result with a record of every pass in it: the graph before and after, and each replacement
 * with the rule that made it. `JSON.stringify` takes the record.
 *
 * ```ts
 * import { record, Tensor } from "../../mod.ts";
 * const { result, passes } = record(() => Tensor.arange(6).mul(2).sum().realize());
 * console.log(result.shape, passes.length > 0); // [] true
 * ```
 */
export function record<T>(fn: () => T): Recording<T> {
  const outer = recording, outerDepth = depth;
  const passes: PassRecord[] = [];
  recording = passes;
  depth = 0;
  try {
    return new Recording(fn(), passes);
  } finally {
    recording = outer;
    depth = outerDepth;
  }
}

/** True inside {@linkcode record}. */
export function isRecording(): boolean {
  return recording !== undefined;
}

/**
 * A pass: a function from a graph to a graph, under a name that records show. Under SPEC=1 what it returns must be legal
 * by `spec`, where one is given.
 */
export function namedPass<X>(
  name: string,
  fn: (sink: UOp, ctx: X) => UOp,
  spec?: Spec,
): (sink: UOp, ctx: X) => UOp {
  const pass = (sink: UOp, ctx: X): UOp => {
    const out = recording === undefined ? fn(sink, ctx) : recorded(name, sink, () => fn(sink, ctx));
    if (spec !== undefined && envNumber("SPEC") !== 0) verify(out, spec, `after pass "${name}"`);
    return out;
  };
  Object.defineProperty(pass, "name", { value: name });
  return pass;
}

function recorded(name: string, before: UOp, fn: (r: PassRecord) => UOp): UOp {
  const r: PassRecord = { name, depth, before, after: before, timeMs: 0, changes: [] };
  recording!.push(r);
  depth++;
  const start = performance.now();
  try {
    return r.after = fn(r);
  } finally {
    r.timeMs = performance.now() - start;
    depth--;
  }
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

function run<X>(root: UOp, pm: PatternMatcher<X>, options: RewriteOptions<X>, memo: NodeMemo, all = false): UOp {
  if (recording === undefined && envNumber("TRACK_MATCH_STATS") === 0) {
    return new Rewriter(pm, options, memo, all, undefined).run(root);
  }
  const name = options.name ?? pm.name;
  if (recording === undefined) return new Rewriter(pm, options, memo, all, () => {}).run(root);
  return recorded(name, root, (r) => {
    const onHit = (rule: Rule<X>, from: UOp, to: UOp): void => {
      r.changes.push({ rule: ruleName(rule), from, to });
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
  private readonly id = ++owners;
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
    for (const u of this.held) map.set(u, u.memoValue!);
    return map;
  }
  clear(): void {
    const { held } = this;
    for (let i = 0; i < held.length; i++) {
      held[i].memoOwner = 0;
      held[i].memoValue = undefined;
    }
    held.length = 0;
    this.spill = undefined;
  }
}

/** Rewrites of one node in a row, and depth of nesting, at which a loop is looked for. */
const CHAIN_CHECK = 256, CHAIN_LIMIT = 1 << 14, DEPTH_CHECK = 1 << 14;

class Rewriter<X> {
  private readonly pm: PatternMatcher<X>;
  private readonly options: RewriteOptions<X>;
  private readonly ctx: X;
  private readonly memo: NodeMemo;
  private readonly onHit: ((rule: Rule<X>, from: UOp, to: UOp) => void) | undefined;
  /** Ops that rules are about: below a node without any of them nothing can change, and nothing is visited. */
  private readonly roots0: number;
  private readonly roots1: number;
  // Frames as parallel arrays: the node as it is now, the next source to visit (-1: try rules first), and the earlier
  // forms of the node, which all become what it becomes.
  private readonly nodes: UOp[] = [];
  private readonly cursors: number[] = [];
  private readonly earlier: (UOp[] | undefined)[] = [];

  constructor(
    pm: PatternMatcher<X>,
    options: RewriteOptions<X>,
    memo: NodeMemo,
    all: boolean,
    onHit: ((rule: Rule<X>, from: UOp, to: UOp) => void) | undefined,
  ) {
    this.roots0 = all ? -1 : pm.roots0;
    this.roots1 = all ? -1 : pm.roots1;
    this.pm = pm;
    this.options = options;
    this.ctx = options.ctx as X;
    this.memo = memo;
    this.onHit = onHit;
  }

  run(root: UOp): UOp {
    const { memo, nodes, cursors, earlier, pm, ctx, onHit, roots0, roots1 } = this;
    const { enter, bottomUp } = this.options;
    const start = bottomUp ? -1 : 0;
    if ((root.below0 & roots0 | root.below1 & roots1) === 0) return root;
    const known = memo.get(root);
    if (known !== undefined) return known;
    nodes.push(root);
    cursors.push(start);
    earlier.push(undefined);
    while (nodes.length > 0) {
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
      while (i < length) {
        const s = src[i];
        if ((s.below0 & roots0 | s.below1 & roots1) !== 0 && memo.get(s) === undefined) break;
        i++;
      }
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
        const s = memo.get(src[j]) ?? src[j];
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
          const done = memo.get(now);
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
    return memo.get(root)!;
  }

  /** The node of the top frame is `to` from now on. */
  private become(to: UOp, start: number): void {
    if ((to.below0 & this.roots0 | to.below1 & this.roots1) === 0) return this.finish(to);
    const done = this.memo.get(to);
    if (done !== undefined) return this.finish(done);
    const top = this.nodes.length - 1;
    this.remember(this.nodes[top]);
    this.nodes[top] = to;
    this.cursors[top] = start;
  }

  private remember(u: UOp): void {
    const top = this.nodes.length - 1;
    const list = this.earlier[top];
    if (list === undefined) this.earlier[top] = [u];
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
    const n = this.nodes.pop()!;
    this.cursors.pop();
    const list = this.earlier.pop();
    memo.set(n, to);
    if (n !== to) memo.set(to, to);
    if (list !== undefined) { for (let i = 0; i < list.length; i++) memo.set(list[i], to); }
  }

  private checkDepth(): void {
    const all: UOp[] = [];
    this.nodes.forEach((n, i) => all.push(n, ...(this.earlier[i] ?? [])));
    if (new Set(all).size < all.length || this.nodes.length > (1 << 21)) this.fail(all);
  }

  private fail(nodes: readonly UOp[]): never {
    const rules = new Set<string>();
    for (const u of nodes.slice(-64)) {
      const r = this.pm.ruleFor(u, this.ctx);
      if (r !== undefined) rules.add(ruleName(r));
    }
    throw new SpecError(
      `Cannot finish rewrite "${this.options.name ?? this.pm.name}": it loops, by ${
        [...rules].map((r) => `rule ${r}`).join(" and ")
      }`,
      printUOp(nodes[nodes.length - 1], 60),
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
  const touches = (u: UOp): boolean => {
    if (u.src.length === 0) return map.has(u);
    if (keys === undefined) return true;
    const free = rangesOf(u), closed = closedRangesOf(u);
    for (let i = 0; i < keys.length; i++) if (free.includes(keys[i]) || closed.includes(keys[i])) return true;
    return false;
  };
  const memo = new NodeMemo();
  try {
    for (const [from, to] of map) memo.set(from, to);
    const stack: UOp[] = [root];
    while (stack.length > 0) {
      const u = stack[stack.length - 1];
      if (memo.get(u) !== undefined) {
        stack.pop();
        continue;
      }
      if (!touches(u)) {
        memo.set(u, u);
        stack.pop();
        continue;
      }
      let ready = true, same = true;
      for (let i = u.src.length - 1; i >= 0; i--) {
        const s = memo.get(u.src[i]);
        if (s === undefined) {
          stack.push(u.src[i]);
          ready = false;
        } else if (s !== u.src[i]) same = false;
      }
      if (!ready) continue;
      stack.pop();
      memo.set(u, same ? u : uop(u.op, u.dtype, u.src.map((s) => memo.get(s)!), u.arg));
    }
    return memo.get(root)!;
  } finally {
    memo.clear();
  }
}
