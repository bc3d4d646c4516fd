/**
 * Products that are computed wherever they are read, and are in no memory: of few terms each, they are larger than what
 * they are made of, and every reader is a chain that a matrix unit can do (uop/algebra/product_chain.ts). Attention's scores
 * are some: in its gradient, in forms of it without a softmax, and where rows of them are reduced.
 *
 * In: a tensor graph. Out: the nodes to be computed in place, and those that get buffers: operands, and results of rows that
 * stand between. Where nobody else reads such results, and they are a maximum and a sum that can be one with what waits for
 * them (join_rescaled.ts), they are computed there too. A kernel is made of each reduction, to see that it is a chain.
 * Products that have another reader, or one that is no chain, are left as they are, and so are those that share a reader with
 * them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { groupBy, sum } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { chainOf, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { expectedSize } from "../../uop/algebra/bounds.ts";
import { findChain } from "../../uop/algebra/product_chain.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, range, sink, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { type ChainNote, type ChainPlan, isLeaf, mustRealize, NO_CHAINS } from "../fuse/fusion_plan.ts";
import { joinRescaled } from "./join_rescaled.ts";
import { rowWeight } from "./row_weights.ts";
import { FOLLOWERS, readersOf, stripped, topOf, trialKernel } from "./trial_kernel.ts";

/** Terms of a sum that is computed again rather than read, at most: its tile's operands are in registers. */
const MOST_TERMS = 256;
/**
 * Elements of operands for each of which there is one of the product, at least: else it is no dearer to read. Where it is
 * computed but once, few queries of many keys are enough.
 */
const LEAST_SIDE = 16, LEAST_ONCE = 2;
/** Nodes of one chain that are looked at, and readers of a product. */
const MAX_NODES = 400, MAX_READERS = 32;

/** The node that is moved before it is widened. */
function unwidened(u: UOp): UOp {
  while (isMovement(u.op)) u = u.src[0];
  return u.op === Ops.CAST ? u.src[0] : u;
}

/** The kernel with its loops in two where their quotients are read: of heads that share keys, each has a row. */
function splitShared(store: UOp): UOp {
  const map = new Map<UOp, UOp>();
  for (const u of toposort(store)) {
    const [r, c] = u.src;
    if (u.op !== Ops.FLOORDIV || r.op !== Ops.RANGE || c.op !== Ops.CONST || map.has(r)) continue;
    const { id, kind } = argOf(r, Ops.RANGE), n = sizeOf(r), k = c.value;
    if (kind !== AxisKind.LOOP || k < 2 || n <= k || n % k !== 0) continue;
    const part = (size: number, sub: number): UOp => range(constant(size, r.dtype), id, kind, sub);
    map.set(r, part(n / k, 0).mul(k).add(part(k, 1)));
  }
  return map.size === 0 ? store : simplifyKernel(substitute(store, map));
}

/** A chain that may be: its reduction, what ends its kernel, and what is below it. */
interface Candidate {
  readonly outer: UOp;
  readonly top: UOp;
  readonly inside: ReadonlySet<UOp>;
  readonly realized: ReadonlySet<UOp>;
  readonly products: readonly UOp[];
  /** Reductions of the same products that are one with it. */
  readonly joined: readonly UOp[];
}

class Planner {
  private readonly storage: Set<UOp>;
  /** Nodes that are made of products which are not in memory. */
  private readonly computed = new Set<UOp>();
  /** Products that get memory, because those that they are operands of are larger. */
  private readonly apart = new Set<UOp>();
  /** Reductions of them, and what is made of those alone. */
  private readonly rows = new Set<UOp>();
  private readonly readers: ReadonlyMap<UOp, readonly UOp[]>;

  constructor(
    roots: readonly UOp[],
    private readonly order: readonly UOp[],
    private readonly capsOf: (u: UOp) => Pick<Capabilities, "grid">,
  ) {
    this.storage = new Set(roots);
    this.readers = readersOf(this.order);
  }

  private isStored(u: UOp): boolean {
    return isLeaf(u) || this.storage.has(u);
  }

  private coresOf(u: UOp): readonly TensorCore[] {
    return this.capsOf(u).grid?.tensorCores.filter((c) => chainOf(c) !== undefined) ?? [];
  }

  /** Are there so many more results than operands of product `u`? */
  private isLarge(u: UOp, side: number): boolean {
    return u.src[0].src.every((s) => numelOf(stripped(s)) * side <= numelOf(u.src[0]));
  }

  /** A sum of few products of stored or simply computed operands. */
  private isProduct(u: UOp): boolean {
    const [term] = u.src;
    if (reduceOf(u).op !== Ops.ADD || term.op !== Ops.MUL || u.dtype !== dtypes.float32) return false;
    const terms = numelOf(term) / Math.max(1, numelOf(u));
    if (terms > MOST_TERMS || this.apart.has(u) || !this.isLarge(u, LEAST_ONCE)) return false;
    if (!this.coresOf(u).some((c) => term.src.every((s) => unwidened(s).dtype === c.input))) return false;
    const inner = term.src.filter((s) => this.computed.has(s)).map((s) => toposort(s, (x) => this.computed.has(x)));
    if (inner.length === 0) return true;
    // of two products the smaller one is kept in memory, and that before a maximum, unless rows of it stand between
    const products = inner.flat().filter((x) => x.op === Ops.REDUCE && this.computed.has(x));
    const waits = inner.map((list) => list.some((x) => this.rows.has(x)));
    if (waits.includes(true)) {
      inner.forEach((list, i) => {
        if (waits.includes(false) && !waits[i]) { for (const p of list) if (p.op === Ops.REDUCE) this.apart.add(p); }
      });
      return false;
    }
    if (products.some((p) => numelOf(p) >= numelOf(u)) && !this.hasMaximum(u)) return false;
    for (const p of products) this.apart.add(p);
    return true;
  }

  /** Is a maximum made of `u`, elementwise? */
  private hasMaximum(u: UOp): boolean {
    const seen = new Set([u]);
    for (const x of seen) {
      for (const r of this.readers.get(x) ?? []) {
        if (r.op === Ops.REDUCE && reduceOf(r).op === Ops.MAX) return true;
        if ((isAlu(r.op) || isMovement(r.op)) && seen.size < MAX_READERS) seen.add(r);
      }
    }
    return false;
  }

  /** The reductions of what is computed from products. */
  private outers(): UOp[] {
    const out: UOp[] = [], { size } = this.apart;
    this.computed.clear();
    this.rows.clear();
    for (const u of this.order) {
      if (mustRealize(u)) this.storage.add(u);
      const isReduce = u.op === Ops.REDUCE, isStored = this.isStored(u), isSpread = isAlu(u.op) || isMovement(u.op);
      if (isReduce && !isStored && this.isProduct(u)) this.computed.add(u);
      else if (isReduce && this.computed.has(u.src[0])) {
        out.push(u);
        if (!isStored) this.rows.add(u);
      } else if (isStored || isReduce) continue;
      else if (isSpread && u.src.some((s) => this.computed.has(s))) this.computed.add(u);
      else if (isSpread && u.src.every((s) => this.rows.has(s) || s.op === Ops.CONST) && u.src.length > 0) {
        this.rows.add(u);
      }
    }
    return this.apart.size === size ? out : this.outers();
  }

  private isOfRows(u: UOp): boolean {
    return this.rows.has(u) || u.op === Ops.CONST;
  }

  /** The node that alone reads `u`, perhaps beside a test of `u` for itself, which comes first; none where there are others. */
  private onlyReaders(u: UOp): UOp[] {
    const list = this.readers.get(u) ?? [];
    const isTest = (x: UOp): boolean => this.readers.get(x)?.length === 1 && list.includes(this.readers.get(x)![0]);
    const tests = list.filter(isTest);
    return list.length - tests.length === 1 ? [...tests, ...list.filter((x) => !isTest(x))] : [];
  }

  /**
   * The last node of the kernel that ends in `outer`, and what its kernel computes after the sum: with `isJoined`, also of
   * rows of the same products.
   */
  private after(outer: UOp, isJoined: boolean): { top: UOp; path: readonly UOp[] } {
    if (!isJoined) return { top: topOf(outer, this.storage, this.readers), path: [] };
    let top = outer;
    const path: UOp[] = [];
    for (let u = outer; !this.storage.has(u);) {
      const list = this.onlyReaders(u);
      if (!list.every((x) => isAlu(x.op) || FOLLOWERS.has(x.op))) break;
      if (list.some((x) => x.src.some((s) => s !== u && !list.includes(s) && !this.isOfRows(s)))) break;
      const next = list.pop();
      if (next === undefined) break;
      path.push(...list, u = next);
      if (u.op !== Ops.RESHAPE) top = u;
    }
    return { top, path: path.slice(0, path.indexOf(top) + 1) };
  }

  /** What a chain that ends in `outer` is made of; undefined where there is too much. */
  private candidate(outer: UOp, isJoined: boolean): Candidate | undefined {
    const realized = new Set<UOp>(), products: UOp[] = [], joined: UOp[] = [];
    const below = toposort(outer.src[0], (u) => this.computed.has(u)).filter((u) => this.computed.has(u));
    const all = Math.min(...below.filter((u) => u.op === Ops.REDUCE).map(numelOf));
    const keep = (u: UOp): void => {
      const base = stripped(u);
      if (!isLeaf(base) && (isJoined || mayHave(base, Ops.REDUCE))) realized.add(base);
    };
    const { top, path } = this.after(outer, isJoined), inside = new Set(path.filter((u) => u !== top));
    const [term] = outer.src, isProduct = isJoined && term.op === Ops.MUL;
    const values = isProduct ? term.src.filter((s) => this.computed.has(s)) : [term];
    if (isProduct) {
      inside.add(term);
      for (const s of term.src) if (!values.includes(s)) keep(s);
    }
    const stack = [
      ...values,
      ...path.flatMap((u) => u.src.filter((s) => this.rows.has(s) && !inside.has(s) && s !== outer)),
    ];
    while (stack.length > 0) {
      const u = stack.pop()!;
      if (inside.has(u) || !mayHave(u, Ops.REDUCE)) continue;
      // what is spread over rows or columns has few elements
      const isSpread = (isAlu(u.op) || isMovement(u.op)) && numelOf(u) * LEAST_SIDE > all && !this.isStored(u);
      const isRow = isJoined && this.rows.has(u);
      if (!this.computed.has(u) && !isSpread && !isRow) {
        keep(u);
        continue;
      }
      inside.add(u);
      if (inside.size > MAX_NODES) return undefined;
      if (u.op === Ops.REDUCE && isRow) {
        joined.push(u);
        stack.push(u.src[0]);
      } else if (u.op === Ops.REDUCE) {
        products.push(u);
        inside.add(u.src[0]);
        for (const s of u.src[0].src) keep(s);
      } else stack.push(...u.src);
    }
    return { outer, top, inside, realized, products, joined };
  }

  /** Can a matrix unit do the kernel of a chain? */
  private isChain({ outer, top, realized, joined }: Candidate): boolean {
    const cores = this.coresOf(outer), kernel = trialKernel(top, (u) => this.storage.has(u) || realized.has(u));
    const made = joined.length === 0 ? kernel : joinRescaled(splitShared(kernel), cores.map((c) => c.input));
    return made !== undefined && cores.some((c) => {
      const chain = findChain(sink([made]), c);
      return chain !== undefined && sizeOf(chain.rows) * expectedSize(chain.middle) >= LEAST_SIDE ** 2;
    });
  }

  /** The chain of `outer` with the reductions of the same products that it waits for, and that nobody else reads. */
  private joinedChain(outer: UOp): Candidate | undefined {
    if (outer.src[0].op !== Ops.MUL && outer.src[0].op !== Ops.EXP2) return undefined;
    const c = this.candidate(outer, true);
    if (c === undefined || c.joined.length === 0) return undefined;
    const isIn = (u: UOp): boolean => c.inside.has(u) || u === c.top || u === outer;
    const isOwn = (u: UOp): boolean => !this.rows.has(u) || this.readers.get(u)!.every(isIn);
    return [...c.inside].every(isOwn) && this.isChain(c) ? c : undefined;
  }

  run(): ChainPlan {
    const outers = this.outers();
    if (outers.length === 0) return NO_CHAINS;
    const inside = new Set<UOp>(), realized = new Set<UOp>(), weights = new Set<UOp>(), chains: Candidate[] = [];
    const notes: ChainNote[] = [];
    // products with a reader that is no chain, and all that share a reader with them, are left
    const refused = new Map<UOp, string>(), ends = new Set(outers), once = new Map<UOp, number>();
    // first those that others are one with
    const joins = new Map(outers.map((u) => [u, this.joinedChain(u)]));
    const done = new Set([...joins.values()].flatMap((c) => c?.joined ?? []));
    for (const outer of outers) {
      if (done.has(outer)) continue;
      const joined = joins.get(outer), c = joined ?? this.candidate(outer, false);
      if (c === undefined) {
        ends.delete(outer);
        continue;
      }
      for (const p of c.products) once.set(p, (once.get(p) ?? 0) + 1);
      if (joined !== undefined || this.isChain(c)) chains.push(c);
      else {
        for (const p of c.products) refused.set(p, "a kernel that reads them is no chain of products on matrix units");
        ends.delete(outer);
      }
    }
    for (const [p, count] of once) {
      if (count > 1 && !this.isLarge(p, LEAST_SIDE)) {
        refused.set(p, `${count} kernels read them, and what they are made of is in fewer than ${LEAST_SIDE} of them`);
      }
    }
    const refuse = (u: UOp): void => {
      for (const x of toposort([u], (y) => this.computed.has(y))) {
        if (x.op === Ops.REDUCE && !refused.has(x)) refused.set(x, "what is kept in memory is computed from them, too");
      }
    };
    for (const u of this.order) {
      if (this.computed.has(u)) continue;
      // storage that is computed elementwise takes part of a product only where it is that product's alone
      if (!ends.has(u)) { for (const s of u.src) if (this.computed.has(s)) refuse(s); }
    }
    for (let size = -1; size !== refused.size;) {
      size = refused.size;
      for (const c of chains) {
        const why = c.products.map((p) => refused.get(p)).find((text) => text !== undefined);
        if (why === undefined) continue;
        for (const p of c.products) if (!refused.has(p)) refused.set(p, why);
      }
    }
    for (const c of chains) {
      if (c.products.some((p) => refused.has(p))) continue;
      const numbers = sum(c.products.map(numelOf)), products = c.products.length;
      const text = "products are computed where they are read, as a chain on matrix units: they are in no memory";
      notes.push(["passed", c.outer, text, { products, numbers }]);
      for (const u of c.inside) inside.add(u);
      for (const u of c.realized) realized.add(u);
      realized.add(c.top);
      if (c.joined.length > 0) continue;
      for (const u of [...c.inside, ...this.readers.get(c.outer) ?? []]) if (rowWeight(u) !== undefined) weights.add(u);
    }
    for (const [why, list] of wantsNotes() ? groupBy([...refused], ([, why]) => why) : []) {
      const numbers = sum(list.map(([p]) => numelOf(p)));
      notes.push(["missed", list[0][0], `products are kept in memory: ${why}`, { products: list.length, numbers }]);
    }
    return { inside, realized, weights, notes };
  }
}

/** The chains of products in the graph below `roots`, which get buffers. */
export function planChains(roots: readonly UOp[], capsOf: (u: UOp) => Pick<Capabilities, "grid">): ChainPlan {
  if (envNumber("NOOPT") !== 0 || !roots.some((u) => capsOf(u).grid?.tensorCores.some((c) => chainOf(c)))) {
    return NO_CHAINS;
  }
  const order = toposort(roots);
  return order.some((u) => u.op === Ops.REDUCE) ? new Planner(roots, order, capsOf).run() : NO_CHAINS;
}

/** The kernel in which reductions that wait for each other are one, where a matrix unit can do that as a chain. */
export function joinChain(store: UOp, { grid }: Pick<Capabilities, "grid">): UOp | undefined {
  const cores = grid?.tensorCores.filter((c) => chainOf(c) !== undefined) ?? [];
  if (cores.length === 0 || envNumber("NOOPT") !== 0) return undefined;
  const made = joinRescaled(splitShared(store), cores.map((c) => c.input));
  return made !== undefined && cores.some((c) => findChain(sink([made]), c) !== undefined) ? made : undefined;
}
