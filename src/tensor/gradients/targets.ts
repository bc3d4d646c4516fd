/**
 * Where the gradient with respect to a tensor is found in a graph. In: a graph that was built anew, by which nodes, and a
 * tensor's node. Out: the nodes whose gradients make up that of the tensor, or that it cannot be known: builders of
 * movement merge, so that what was computed from a view may read what lies below it, as what was computed from that does.
 *
 * @module
 */
import { bufferOf } from "../../device/buffer.ts";
import { sameArray } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import {
  addPassed,
  nameOfPassed,
  passedFrom,
  type PassedName,
  passedNames,
  passedNote,
} from "../../uop/core/passed_by.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { fromPairs } from "../../uop/graph/complex.ts";
import { sumTo, unmove } from "../../uop/graph/gradient.ts";
import { moveLike } from "../../uop/graph/resolve.ts";
import { isScalarLeaf, materializeShape } from "../handle/broadcast.ts";

/** A node to ask for, and how its gradient becomes a part of that of the tensor. */
interface Part {
  readonly node: UOp;
  readonly finish: (gradient: UOp) => UOp;
}

/** A target of differentiation: the sum of its parts. */
export type Target = readonly Part[];

/** The arg of a CONTIGUOUS that stands for a buffer. */
export const READ = "read";

/** Of a node of a graph: the views that were passed by where it was made, and whether it was made otherwise, too. */
interface Made {
  readonly over: Set<PassedName>;
  direct: boolean;
}

/** Ops that reorder elements and lose none. */
function isBijection(u: UOp): boolean {
  return u.op === Ops.RESHAPE || u.op === Ops.PERMUTE || u.op === Ops.FLIP;
}

/** Whether builders merge views of this kind. */
function merges(op: Ops): boolean {
  return op === Ops.RESHAPE || op === Ops.PERMUTE || op === Ops.SHRINK || op === Ops.EXPAND;
}

/** A node and what it is a view of, the last of which is no view. */
function chainOf(u: UOp): UOp[] {
  const chain = [u];
  while (isMovement(u.op)) chain.push(u = u.src[0]);
  return chain;
}

/** The gradient of each tensor that a graph was made from is there, or is not known. */
export class Found {
  private readonly made = new Map<UOp, Made>();
  private readonly names = new Map<UOp, Set<PassedName>>();
  private readonly readers = new Map<UOp, UOp[]>();

  /**
   * @param graph the nodes below its root
   * @param memo by node, what it was built anew as: what is known of the first is that of the second from now on
   */
  constructor(private readonly graph: ReadonlySet<UOp>, memo: ReadonlyMap<UOp, UOp>) {
    for (const [u, now] of memo) this.note(u, now, memo);
    for (const [now, { over, direct }] of this.made) {
      if (over.size > 0) addPassed(now, [], { over: [...over], direct });
    }
    for (const [now, names] of this.names) addPassed(now, [...names], undefined);
    for (const u of graph) {
      for (const s of u.src) {
        const list = this.readers.get(s);
        if (list === undefined) this.readers.set(s, [u]);
        else list.push(u);
      }
    }
  }

  /** What is known of `u` is so of `now`. */
  private note(u: UOp, now: UOp, memo: ReadonlyMap<UOp, UOp>): void {
    const names = passedNames(u), own = passedNote(u);
    if (names.length > 0) {
      const all = this.names.get(now);
      if (all === undefined) this.names.set(now, new Set(names));
      else for (const name of names) all.add(name);
    }
    if (own === undefined && !merges(u.op)) return;
    if (own === undefined && !merges(now.op) && u.src[0].op === Ops.BUFFER) return; // memory, which is what it was computed as
    let known = this.made.get(now);
    if (known === undefined) this.made.set(now, known = { over: new Set(), direct: false });
    const below = merges(u.op) ? memo.get(u.src[0]) : undefined;
    if (own !== undefined) {
      for (const name of own.over) known.over.add(name);
      known.direct ||= own.direct;
    } else if (
      below !== undefined && below !== now && u.src[0].op !== Ops.BUFFER && merges(below.op) && !now.src.includes(below)
    ) {
      const name = nameOfPassed(below), its = this.names.get(below); // built anew, it passes by what it was built on
      known.over.add(name);
      if (its === undefined) this.names.set(below, new Set([name]));
      else its.add(name);
    } else known.direct = true;
  }

  /**
   * Where the gradient of a tensor's node is: undefined where it is unused, null where it cannot be told.
   * @param own what the node was before it was built anew
   */
  of(u: UOp, isLeaf: boolean, own: UOp): Target | undefined | null {
    if (u.op === Ops.COMPLEX) {
      const pairs = this.of(u.src[0], isLeaf, own.op === Ops.COMPLEX ? own.src[0] : own);
      return pairs?.map(({ node, finish }) => ({
        node,
        finish: (g) => fromPairs(materializeShape(finish(g), shapeOf(u.src[0]))),
      })) ?? pairs;
    }
    const { graph } = this;
    let base = u;
    while (base.op === Ops.RESHAPE) base = base.src[0];
    if (graph.has(base) && this.isWhole(u, base, isLeaf, own)) {
      return [{ node: base, finish: (g) => reshape(g, shapeOf(u)) }];
    }
    if (isLeaf) return this.below(u);
    const found = this.among(u);
    const isShape = isShapeOfMemory(own) || isShapeOfMemory(u);
    return found && isShape && !this.isAllBelow(u, passedNote(own) !== undefined) ? null : found;
  }

  /**
   * Whether what reads that which `u` is a shape of reads views of `u`.
   * @param isView whether a view led to `u` itself, so that its other shapes may be somebody's as well
   */
  private isAllBelow(u: UOp, isView: boolean): boolean {
    const known = new Set(this.standingFor(u).members), top = u;
    const chain = [u], readersOf = (x: UOp): readonly UOp[] => this.readers.get(x) ?? [];
    while (u.op === Ops.RESHAPE || (u.op === Ops.CONTIGUOUS && u.arg === READ)) chain.push(u = u.src[0]);
    for (const x of chain) known.add(x);
    if (isView && readersOf(top).some((x) => (merges(x.op) || x.arg === READ) && !known.has(x))) return false;
    return chain.slice(1).every((x) => readersOf(x).every((r) => known.has(r)));
  }

  /** Of a leaf, which nothing lies below: the first of what it rearranges that there is. */
  private below(u: UOp): Target | undefined {
    const { graph } = this, path: UOp[] = [];
    for (let base = u; !isScalarLeaf(base); base = base.src[0]) {
      if (graph.has(base)) return [{ node: base, finish: (g) => path.reduce((x, m) => moveLike(m, x), g) }];
      if (!isBijection(base)) break;
      path.unshift(base);
    }
    return undefined;
  }

  /** Whether a tensor is all of the memory below its shape, so that what reads that reads the tensor. */
  private isWhole(u: UOp, base: UOp, isLeaf: boolean, own: UOp): boolean {
    if (base.op === Ops.AFTER) return true;
    if (isLeaf) return base.op === Ops.BUFFER || base.op === Ops.COPY || base.op === Ops.CONTIGUOUS;
    return base.op === Ops.BUFFER && !isShapeOfMemory(u) && !isShapeOfMemory(own);
  }

  /** The views of a tensor that stand for it, and it: undefined where it is unused, null where it cannot be told. */
  private among(u: UOp): Target | undefined | null {
    const { graph } = this, { members, unclear } = this.standingFor(u), chain = chainOf(u);
    for (const x of unclear) if (graph.has(x)) return null;
    const used = members.filter((x) => graph.has(x)), under = used.filter((x) => x !== u && chain.includes(x));
    if (under.length > 0) {
      const lowest = under.reduce((a, b) => chain.indexOf(a) > chain.indexOf(b) ? a : b);
      const all = new Set([...chain, ...members]);
      const others = (this.readers.get(lowest) ?? []).filter((x) => merges(x.op) && !all.has(x));
      if (others.length > 0 || used.some((x) => !chainOf(x).includes(lowest))) return null;
      const path = chain.slice(0, chain.indexOf(lowest)).reverse();
      if (!path.every(isBijection)) return null;
      return [{ node: lowest, finish: (g) => path.reduce((x, m) => moveLike(m, x), g) }];
    }
    const note = this.made.get(u);
    if (!merges(u.op) && note !== undefined && note.over.size > 0 && !note.direct) { // nobody's before a view led back to it
      if ((this.readers.get(u) ?? []).some((x) => merges(x.op) && !members.includes(x))) return null;
    }
    const parts: Part[] = graph.has(u) ? [{ node: u, finish: (g) => g }] : [];
    for (const x of used) {
      if (x === u || chainOf(x).includes(u)) continue;
      const part = partOf(chain, x);
      if (part === undefined) return null;
      parts.push(part);
    }
    return parts.length === 0 ? undefined : parts;
  }

  /** The nodes that stand for views of `u` alone, and those that may. */
  private standingFor(u: UOp): { members: UOp[]; unclear: UOp[] } {
    const names = new Set(passedNames(u)), members = [u], unclear: UOp[] = [];
    if (names.size === 0) return { members, unclear };
    for (const [x, { over, direct }] of this.made) {
      if (x === u || over.size === 0) continue;
      const how = passedFrom({ over: [...over], direct }, names);
      if (how > 0) (how === 2 ? members : unclear).push(x);
    }
    return { members, unclear };
  }
}

/** Whether a tensor's node is memory under another shape than that in which its values were computed. */
function isShapeOfMemory(u: UOp): boolean {
  let base = u;
  while (base.op === Ops.RESHAPE) base = base.src[0];
  if (base.op !== Ops.BUFFER) return false;
  const shape = bufferOf(argOf(base, Ops.BUFFER).storage)?.shape;
  return shape === undefined || !sameArray(shape, shapeOf(u)) || passedNote(u) !== undefined;
}

/** How the gradient of `x` is one of a tensor, of which it stands for a view; undefined where that cannot be said. */
function partOf(chain: readonly UOp[], x: UOp): Part | undefined {
  const own = chainOf(x), at = own.findIndex((y) => chain.includes(y));
  if (at < 0) return undefined;
  const down = own.slice(0, at), up = chain.slice(0, chain.indexOf(own[at])).reverse();
  const u = chain[0];
  if (down.length === 1 && up.length === 1 && down[0].op === Ops.EXPAND && up[0].op === Ops.EXPAND) {
    const shape = shapeOf(u);
    return { node: x, finish: (g) => sumTo(g, shape) };
  }
  if (![...down, ...up].every((m) => isBijection(m) || m.op === Ops.SHRINK)) return undefined;
  return { node: x, finish: (g) => up.reduce((y, m) => moveLike(m, y), down.reduce((y, m) => unmove(m, y), g)) };
}
