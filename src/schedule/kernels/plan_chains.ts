/**
 * Products that are computed wherever they are read, and are in no memory: of few terms each, they are larger than what
 * they are made of, and every reader is a chain that a matrix unit can do (uop/algebra/product_chain.ts). Attention's scores
 * are some: in its gradient, in forms of it without a softmax, and where rows of them are reduced.
 *
 * In: a tensor graph. Out: the nodes to be computed in place, and those that get buffers: operands, and results of rows that
 * stand between. A kernel is made of each reduction, to see that it is a chain. Products that have another reader, or one
 * that is no chain, are left as they are, and so are those that share a reader with them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { chainOf } from "../../renderer/tensor_core_table.ts";
import { findChain } from "../../uop/algebra/product_chain.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { mayHave, sink, toposort, type UOp } from "../../uop/core/uop.ts";
import { isLeaf, mustRealize, type OnlinePlan } from "../fuse/fusion_plan.ts";
import { readersOf, stripped, topOf, trialKernel } from "./trial_kernel.ts";

/** Terms of a sum that is computed again rather than read, at most: its tile's operands are in registers. */
const MOST_TERMS = 256;
/** Elements of operands for each of which there is one of the product, at least: else it is no dearer to read. */
const LEAST_SIDE = 16;
/** Nodes of one chain that are looked at. */
const MAX_NODES = 400;
/** The node that is moved before it is widened. */
function unwidened(u: UOp): UOp {
  while (isMovement(u.op)) u = u.src[0];
  return u.op === Ops.CAST ? u.src[0] : u;
}

/** A chain that may be: its reduction, what ends its kernel, and what is below it. */
interface Candidate {
  readonly outer: UOp;
  readonly top: UOp;
  readonly inside: ReadonlySet<UOp>;
  readonly realized: ReadonlySet<UOp>;
  readonly products: readonly UOp[];
}

class Planner {
  private readonly storage: Set<UOp>;
  /** Nodes that are made of products which are not in memory. */
  private readonly computed = new Set<UOp>();
  private readers: ReadonlyMap<UOp, readonly UOp[]> = new Map();
  private readonly order: readonly UOp[];

  constructor(
    roots: readonly UOp[],
    private readonly capsOf: (u: UOp) => Pick<Capabilities, "grid">,
    private readonly online: OnlinePlan,
  ) {
    this.order = toposort(roots);
    this.storage = new Set([...roots, ...online.realized]);
  }

  private isStored(u: UOp): boolean {
    return isLeaf(u) || this.storage.has(u);
  }

  /** A sum of few products of stored or simply computed operands, of which there are more results than operands. */
  private isProduct(u: UOp): boolean {
    const [term] = u.src;
    if (reduceOf(u).op !== Ops.ADD || term.op !== Ops.MUL || u.dtype !== dtypes.float32) return false;
    const terms = numelOf(term) / Math.max(1, numelOf(u));
    if (terms > MOST_TERMS || term.src.some((s) => this.computed.has(s))) return false;
    const cores = this.capsOf(u).grid?.tensorCores ?? [];
    return term.src.every((s) => numelOf(stripped(s)) * LEAST_SIDE <= numelOf(u) * terms) &&
      cores.some((c) => chainOf(c) !== undefined && term.src.every((s) => unwidened(s).dtype === c.input));
  }

  /** The reductions of what is computed from products. */
  private outers(): UOp[] {
    const out: UOp[] = [];
    for (const u of this.order) {
      if (mustRealize(u)) this.storage.add(u);
      if (this.isStored(u) || this.online.inside.has(u)) {
        if (u.op === Ops.REDUCE && this.computed.has(u.src[0])) out.push(u);
        continue;
      }
      if (u.op === Ops.REDUCE) {
        if (this.computed.has(u.src[0])) out.push(u);
        else if (this.isProduct(u)) this.computed.add(u);
      } else if ((isAlu(u.op) || isMovement(u.op)) && u.src.some((s) => this.computed.has(s))) this.computed.add(u);
    }
    return out;
  }

  /** What a chain that ends in `outer` is made of; undefined where there is too much. */
  private candidate(outer: UOp): Candidate | undefined {
    const inside = new Set<UOp>(), realized = new Set<UOp>(), products: UOp[] = [];
    const below = toposort(outer.src[0], (u) => this.computed.has(u)).filter((u) => this.computed.has(u));
    const all = Math.min(...below.filter((u) => u.op === Ops.REDUCE).map(numelOf));
    const keep = (u: UOp): void => {
      const base = stripped(u);
      if (!isLeaf(base) && mayHave(base, Ops.REDUCE)) realized.add(base);
    };
    const stack = [outer.src[0]];
    while (stack.length > 0) {
      const u = stack.pop()!;
      if (inside.has(u) || !mayHave(u, Ops.REDUCE)) continue;
      // what is spread over rows or columns has few elements
      const isSpread = (isAlu(u.op) || isMovement(u.op)) && numelOf(u) * LEAST_SIDE > all && !this.isStored(u);
      if (!this.computed.has(u) && !isSpread) {
        keep(u);
        continue;
      }
      inside.add(u);
      if (inside.size > MAX_NODES) return undefined;
      if (u.op === Ops.REDUCE) {
        products.push(u);
        inside.add(u.src[0]);
        for (const s of u.src[0].src) keep(s);
      } else stack.push(...u.src);
    }
    return { outer, top: topOf(outer, this.storage, this.readers), inside, realized, products };
  }

  /** Can a matrix unit do the kernel of a chain? */
  private isChain({ outer, top, realized }: Candidate): boolean {
    const cores = this.capsOf(outer).grid?.tensorCores ?? [];
    const ast = sink([trialKernel(top, (u) => this.storage.has(u) || realized.has(u))]);
    return cores.some((c) => {
      const chain = chainOf(c) && findChain(ast, c);
      return chain !== undefined && sizeOf(chain.rows) * sizeOf(chain.middle) >= LEAST_SIDE ** 2;
    });
  }

  run(): OnlinePlan {
    const outers = this.outers();
    if (outers.length === 0) return this.online;
    this.readers = readersOf(this.order);
    const inside = new Set(this.online.inside), realized = new Set(this.online.realized);
    const candidates = outers.map((u) => this.candidate(u));
    // products with a reader that is no chain, and all that share a reader with them, are left
    const refused = new Set<UOp>();
    const ends = new Set(candidates.flatMap((c) => c === undefined ? [] : [c.outer]));
    const refuse = (u: UOp): void => {
      for (const x of toposort([u], (y) => this.computed.has(y))) if (x.op === Ops.REDUCE) refused.add(x);
    };
    for (const c of candidates) {
      if (c === undefined || this.isChain(c)) continue;
      for (const p of c.products) refused.add(p);
      ends.delete(c.outer);
    }
    for (const u of this.order) {
      if (this.computed.has(u)) continue;
      // storage that is computed elementwise takes part of a product only where it is that product's alone
      if (!ends.has(u)) { for (const s of u.src) if (this.computed.has(s)) refuse(s); }
    }
    for (let size = -1; size !== refused.size;) {
      size = refused.size;
      for (const c of candidates) {
        if (c?.products.some((p) => refused.has(p))) { for (const p of c.products) refused.add(p); }
      }
    }
    for (const c of candidates) {
      if (c === undefined || c.products.some((p) => refused.has(p))) continue;
      for (const u of c.inside) inside.add(u);
      for (const u of c.realized) realized.add(u);
      realized.add(c.top);
    }
    return { inside, realized };
  }
}

/** Adds chains of products in the graph below `roots`, which get buffers, to a plan. */
export function planChains(
  roots: readonly UOp[],
  capsOf: (u: UOp) => Pick<Capabilities, "grid">,
  online: OnlinePlan,
): OnlinePlan {
  if (envNumber("NOOPT") !== 0 || !roots.some((u) => capsOf(u).grid?.tensorCores.some((c) => chainOf(c)))) {
    return online;
  }
  return new Planner(roots, capsOf, online).run();
}
