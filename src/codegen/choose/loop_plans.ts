/**
 * How loops on CPUs may be shaped, and which of the ways takes least by a model of cost. Deterministic.
 *
 * Which axes carry the lanes, how many copies along which output axes make the register tile, and in which blocks matrices
 * are walked through, is found by trying the few candidates there are. What an iteration takes is its arithmetic and its
 * instructions for accesses (machine/cost_model.ts), or the lines that it fetches (machine/memory_cost.ts), whichever is
 * more. Rows are kept where that costs less than computing their elements again. Operands that are read in strides again and
 * again are packed (STAGE). Then small reduce axes are unrolled, loops ordered so that panels are reused from the cache, and
 * threads assigned.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ceilDiv, divisorUpTo, sum } from "../../helpers/math.ts";
import type { Capabilities, Renderer } from "../../renderer/renderer.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { argOf } from "../../uop/core/args.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { isComparison, Ops } from "../../uop/core/ops.ts";
import { dependsOn as dependsOnRange } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { indexForm, liesAlong } from "../../uop/algebra/linear_form.ts";
import type { Access, Region } from "../machine/access.ts";
import {
  copiesOn,
  type CostModel,
  LATENCY_ACCUMULATORS,
  type Tile,
  UNROLL_COPIES,
  WINDOW,
} from "../machine/cost_model.ts";
import type { Axis } from "../opt/axis.ts";
import { blockStage, stagesIn } from "../opt/blocks.ts";
import { inlineRows } from "../opt/inline_rows.ts";
import type { Kernel } from "../opt/kernel.ts";
import { ungate } from "../ast/ungate.ts";
import { costText } from "./choice_notes.ts";
import { type Candidate, LoopCandidates } from "./loop_candidates.ts";
import { LoopCosts, spread, THREAD_COST, touches } from "./loop_costs.ts";
import { kernelFor, type Proposal } from "./proposal.ts";

/** Regions up to which their lanes are chosen together: the choices multiply. */
const JOINT_REGIONS = 6;

/** Vectors of a closed axis up to which what is left of it is much. */
const SHORT = 8;

/** Part of the cost of another candidate that the best must come below: else the one with fewer copies is chosen. */
const TIE = 0.994;

/** Part of the cost of a plan that may be done once more for each thread to have as much to do as others. */
const MOST_REPEATED = 1 / 4;

/** Times the cost of the best up to which notes tell others. */
const NEARLY = 2;

/** What has been chosen, and what it costs. */
interface Plan extends Candidate {
  readonly cost: number;
}

/** A register tile, and what the instructions of each region cost with it, and of all. */
interface Offer {
  readonly tile: Tile;
  readonly costs: readonly number[];
  readonly bound: number;
}

/** Vectors in a block of an axis that ends at a variable: half of the accumulators that hide the latency of an addition. */
const BLOCK_VECTORS = 4;

class Chooser {
  private readonly axes: readonly Axis[];
  private readonly sizes: readonly number[];
  /** Output axes come first. */
  private readonly outputs: number;
  private readonly regions: readonly Region[];
  private readonly loops: LoopCandidates;
  private readonly model: CostModel;
  private readonly costs: LoopCosts;

  constructor(private readonly kernel: Kernel, private readonly caps: Capabilities) {
    this.loops = new LoopCandidates(kernel, caps);
    this.costs = new LoopCosts(this.loops);
    ({ axes: this.axes, sizes: this.sizes, outputs: this.outputs, regions: this.regions, model: this.model } =
      this.loops);
  }

  // ---- choice

  /** The lanes of each region, given the output axis with lanes, and the cost of everything. */
  private assign(vector: number, lanes: number): { cost: number; regionLanes: readonly number[] } {
    const { regions } = this;
    const taken: number[] = vector >= 0 ? [vector] : [];
    const current = new Array<number>(regions.length).fill(-1);
    let best = Infinity, bestLanes: readonly number[] = current.slice();
    const joint = regions.filter((r) => r.own.length > 0).length <= JOINT_REGIONS;
    const visit = (k: number, cost: number): void => {
      if (cost >= best) return;
      if (k === regions.length) {
        best = cost;
        bestLanes = current.slice();
        return;
      }
      const r = regions[k];
      // a region inside of another has the other's lanes already
      const outer = taken.find((i) => r.axes[i]);
      if (outer !== undefined) {
        current[k] = outer;
        visit(k + 1, cost + this.costs.regionCost(r, outer, lanes, []));
        return;
      }
      const options: [cost: number, axis: number][] = [[this.costs.regionCost(r, -1, 1, []), -1]];
      for (const i of r.own) {
        if (lanes > 1 && this.axes[i].size > 0) options.push([this.costs.regionCost(r, i, lanes, []), i]);
      }
      options.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      for (const [c, i] of options) {
        current[k] = i;
        if (i >= 0) taken.push(i);
        visit(k + 1, cost + c);
        if (i >= 0) taken.pop();
        // of many regions each takes what is best for it, unless one inside of it cannot have these lanes
        if (!joint && best < Infinity) break;
      }
    };
    visit(0, 0);
    return { cost: best, regionLanes: bestLanes };
  }

  /** Lanes, tile and blocks that cost least; of those that cost about the same, those with fewest copies. */
  plan(): Plan {
    const plans = this.plans(1 / TIE);
    const copies = (p: Plan): number => p.tile.reduce((n, [, k]) => n * k, p.blocks.length + 1);
    return plans.reduce((a, b) => copies(b) < copies(a) ? b : a);
  }

  /** Plans that cost up to `slack` times as much as the best of those that are found. */
  plans(slack: number): Plan[] {
    const { regions } = this, { lanes } = this.loops;
    const vectors: [number, number][] = [[-1, lanes]];
    // fewer lanes leave less of a short axis that is closed
    const isShort = regions.some((r) =>
      r.own.some((i) => this.axes[i].size % lanes > 0 && this.sizes[i] < SHORT * lanes)
    );
    for (let n = lanes / 2; isShort && n >= 2 && n >= lanes / 4; n /= 2) vectors.push([-1, n]);
    if (lanes > 1) {
      for (let v = 0; v < this.outputs; v++) {
        for (let n = lanes; n >= 2 && n >= lanes / 4; n /= 2) {
          if (!this.loops.canSplit(v, n)) continue;
          vectors.push([v, n]);
          if (this.axes[v].size % n === 0) break;
        }
      }
    }
    const candidates = vectors.map(([vector, n]) => ({ vector, n, ...this.assign(vector, n) }));
    candidates.sort((a, b) => a.cost - b.cost);
    const plans: Plan[] = [];
    // what others must come below
    let most = Infinity;
    for (const { vector, n, cost, regionLanes } of candidates) {
      // no tile takes less arithmetic
      const least = sum(regions.map((r, k) => this.model.arithmeticCost(r, regionLanes[k], n)));
      if (cost === Infinity || least >= most) continue;
      // those whose instructions cost least are asked for their memory first: then few of the others need to be asked
      for (const { tile, costs, bound } of this.offers(vector, n, regionLanes, most)) {
        if (bound >= most) break;
        let packed: readonly Access[] | undefined;
        for (const blocks of this.loops.blocks(tile, vector, n)) {
          const uneven = this.costs.imbalance(tile, blocks, vector, n);
          if (spread(bound, uneven) >= most) continue;
          packed ??= this.loops.packed({ lanes: n, regionLanes, tile });
          for (const order of this.loops.orders(tile, vector, packed)) {
            const made = { vector, lanes: n, regionLanes, tile, blocks, order, packed };
            let rest = bound;
            // reductions, which cost most, are last in the list
            for (let k = regions.length - 1; k >= 0 && spread(rest, uneven) < most; k--) {
              rest += this.costs.wholeCost(regions[k], k, costs[k], made) - costs[k];
            }
            const cost = spread(rest, uneven);
            if (cost >= most) continue;
            plans.push({ ...made, cost });
            most = Math.min(most, cost * slack);
          }
        }
      }
    }
    return plans.filter((p) => p.cost < most);
  }

  /** The tiles for these lanes whose instructions alone cost less than `most`, the cheapest first. */
  private offers(vector: number, lanes: number, regionLanes: readonly number[], most: number): Offer[] {
    const { regions } = this, offers: Offer[] = [];
    // what a tile does not touch costs the same
    const alone = regions.map((r, k) => this.costs.regionCost(r, regionLanes[k], lanes, []));
    const main = this.costs.mainRegion(regionLanes, lanes);
    for (const tile of this.loops.tiles(main, regionLanes, vector, lanes)) {
      const costs: number[] = [];
      let bound = 0;
      for (let k = regions.length - 1; k >= 0 && bound < most; k--) {
        const r = regions[k];
        costs[k] = touches(tile, r) ? this.costs.regionCost(r, regionLanes[k], lanes, tile, most - bound) : alone[k];
        bound += costs[k];
      }
      if (bound < most) offers.push({ tile, costs, bound });
    }
    return offers.sort((a, b) => a.bound - b.bound);
  }

  // ---- application

  /** Applies a plan to the kernel. */
  run(plan: Plan): void {
    const { kernel, caps } = this;
    const copies = Array.from({ length: this.outputs }, (_, i) => copiesOn(plan.tile, i));
    const v = plan.vector;
    if (v >= 0) copies[v] = this.loops.wholeCopies(v, plan.lanes, copies[v]);
    const tileOf = (i: number): number => copies[i] * (i === v ? plan.lanes : 1);
    // order of loops, and who is split over threads
    const { packed: packs, order } = plan, [packed] = packs;
    let thread = -1;
    if (caps.threads > 1 && plan.cost >= THREAD_COST) thread = this.threadAxis(plan, tileOf);
    let chunk = -1, chunks = 0;
    if (thread >= 0 && packed !== undefined && !packed.depends[thread]) {
      // a few long chunks, so that each fills its tiles rarely
      const tiles = ceilDiv(this.sizes[thread], tileOf(thread)), most = ceilDiv(tiles, caps.threads);
      const size = most * tileOf(thread);
      if (tiles % most === 0 && most > 1 && most < tiles) [chunk, chunks] = [thread, tiles / most];
      else if (thread !== v && kernel.mayOverlap && size > 1 && size < this.sizes[thread]) {
        kernel.apply({ op: "PADTO", axis: thread, size });
        chunk = thread;
      }
    }
    for (const [i, size] of plan.blocks) kernel.apply({ op: "PADTO", axis: i, size });
    if (v >= 0) {
      const tile = tileOf(v);
      if (this.axes[v].size % tile !== 0 && plan.blocks.length === 0) {
        kernel.apply({ op: "PADTO", axis: v, size: tile });
      }
      kernel.apply({ op: "VECTOR", axis: v, size: plan.lanes });
    }
    for (let i = 0; i < this.outputs; i++) {
      if (copies[i] > 1) kernel.apply({ op: "UPCAST", axis: i, size: copies[i] });
    }
    for (const i of new Set(plan.regionLanes)) {
      if (i < this.outputs) continue;
      if (this.model.masked(i, plan.lanes) > 0) kernel.apply({ op: "PADTO", axis: i, size: plan.lanes });
      kernel.apply({ op: "VECTOR", axis: i, size: plan.lanes });
    }
    // reductions of one STAGE share its axes: the first that wants a tile has it
    const tiled = new Set<number>();
    this.regions.forEach((r, k) => {
      const tile = this.costs.stageTile(r, plan.regionLanes[k], plan.lanes);
      if (tile.some(([i]) => tiled.has(i))) return;
      for (const [i, n] of tile) {
        tiled.add(i);
        kernel.apply({ op: "UPCAST", axis: i, size: n });
      }
    });
    this.unroll(plan);
    const now = Array.from({ length: this.outputs }, (_, i) => i);
    for (let i = 0; i < order.length; i++) {
      if (now[i] === order[i]) continue;
      kernel.apply({ op: "SWAP", axis: now[i], other: order[i] });
      now[now.indexOf(order[i])] = now[i];
      now[i] = order[i];
    }
    if (thread >= 0) kernel.apply({ op: "THREAD", axis: thread, chunks });
    let loops = chunk >= 0 ? 1 : 0;
    for (const i of order) if (packed?.depends[i] && i !== chunk && this.loopsOf(i) > 1) loops++;
    for (const a of packs) kernel.apply({ op: "STAGE", input: argOf(a.node.src[0].src[0], Ops.PARAM).slot, loops });
  }

  /** Iterations of the loop that an output axis has now. */
  private loopsOf(i: number): number {
    const a = this.axes[i];
    return a.tiled ? a.outer : a.rest;
  }

  /**
   * Unrolls reduce axes: short ones whole, also less short ones whose steps become constants of conditions (the triangle of
   * a scan); others where that supplies accumulators. Long bodies are left alone: values of several iterations at once would
   * not fit the registers.
   */
  private unroll(plan: Plan): void {
    const { kernel } = this;
    const done = new Set<number>();
    this.regions.forEach((r, region) => {
      if (r.kind !== "reduce") return;
      const here = plan.tile.reduce((n, [i, k]) => r.axes[i] ? n * k : n, r.lanes);
      const want = Math.max(1, Math.floor(LATENCY_ACCUMULATORS / here));
      const lane = plan.regionLanes[region];
      const unroll = (i: number, k: number): void => {
        done.add(i);
        kernel.apply({ op: "UNROLL", reduce: i - this.outputs, size: k });
      };
      const rows = this.model.rowsOf(r, lane, plan.lanes);
      if (rows !== undefined) {
        if (!done.has(rows.axis)) unroll(rows.axis, rows.copies);
        return;
      }
      if (r.own.includes(lane)) {
        const vectors = this.model.masked(lane, plan.lanes);
        if (vectors > 0) {
          if (vectors > 1 && !done.has(lane)) unroll(lane, vectors);
          return;
        }
        const scalars = r.accesses.reduce((n, a) => this.model.isScattered(a, lane) ? n + plan.lanes : n, 1);
        const most = Math.max(1, Math.min(want, Math.floor(UNROLL_COPIES / scalars)));
        const k = divisorUpTo(Math.floor(this.axes[lane].size / plan.lanes), most);
        if (k > 1 && !done.has(lane)) unroll(lane, k);
        return;
      }
      let body = here * Math.max(1, r.accesses.length / 2);
      for (const a of r.accesses) {
        if (
          lane < 0 || !this.model.isScattered(a, lane) || this.model.packGain(a, r, lane, plan.lanes, plan.tile) > 0
        ) continue;
        body += plan.tile.reduce((n, [i, k]) => a.depends[i] ? n * k : n, plan.lanes);
      }
      for (const i of [...r.own].reverse()) {
        const { size } = this.axes[i];
        if (size === 0) break;
        if (done.has(i)) continue;
        const whole = size * body <= UNROLL_COPIES && (size <= WINDOW || isMaskedBy(r.root, this.axes[i].range));
        const k = whole ? size : divisorUpTo(size, Math.min(4, want));
        if (k < 2) break;
        if (k > this.axes[i].rest) continue; // it has lanes, of another region
        unroll(i, k);
        if (!whole) break;
        body *= size;
      }
    });
  }

  /** The output axis to split over threads: outer ones first, inner ones only where they balance clearly better. */
  private threadAxis(plan: Plan, tileOf: (i: number) => number): number {
    const { order, packed: [packed] } = plan, { threads } = this.caps;
    let best = -1, bestBalance = 0.5;
    for (const i of order) {
      if (this.axes[i].size === 0 || this.regions.some((r) => r.kind === "store" && !r.axes[i])) continue;
      const loops = ceilDiv(this.sizes[i], tileOf(i));
      if (loops < 2) continue;
      let n = loops;
      // an axis that the packed operand does not depend on is cut in one chunk a thread
      if (packed !== undefined && !packed.depends[i]) n = ceilDiv(n, ceilDiv(n, threads));
      const balance = n / (ceilDiv(n, threads) * threads);
      const isBetter = balance > bestBalance + (best < 0 ? 0 : 0.15);
      if (isBetter && (loops - 1) * this.outside(plan, i) <= MOST_REPEATED * plan.cost) {
        [best, bestBalance] = [i, balance];
      }
    }
    return best;
  }

  /** What regions cost that stand outside of the loop of an axis: where that is the outermost one, each iteration does them. */
  private outside({ order, tile, regionLanes, lanes }: Plan, axis: number): number {
    const { regions, costs } = this, inside = order.slice(order.indexOf(axis));
    return regions.reduce((n, r, k) => {
      const isOutside = order.some((i) => r.axes[i]) && !inside.some((i) => r.axes[i]);
      return isOutside ? n + costs.regionCost(r, regionLanes[k], lanes, tile) : n;
    }, 0);
  }
}

/** Does what a REDUCE adds up depend on a comparison of the number of an iteration, and not only of what that reads? */
function isMaskedBy(root: UOp, range: UOp): boolean {
  const counts = new Set([range]), isRead = (u: UOp): boolean => u.op === Ops.LOAD || u.op === Ops.REDUCE;
  for (const u of toposort(root.src[0], (u) => !isRead(u))) {
    if (isRead(u) || !u.src.some((s) => counts.has(s))) continue;
    if (isComparison(u.op)) return true;
    counts.add(u);
  }
  return false;
}

/** Does a STORE that has this range write what is next to each other along it? */
function isContiguous(ast: UOp, range: UOp): boolean {
  return ast.src.every((s) => !dependsOnRange(s, range) || liesAlong(indexForm(s.src[0].src[1]), range));
}

/** Cuts axes that end at variables in blocks of a few vectors: reductions, rows, and what is stored side by side. */
function blockAxes(kernel: Kernel, caps: Capabilities): void {
  const lanes = caps.vectorLanes(dtypes.float32);
  kernel.axes.forEach(({ size, role, range }, axis) => {
    if (size > 0 || lanes < 2 || (role === "output" && !isContiguous(kernel.ast, range))) return;
    if (role !== "stage" && stagesIn(kernel.ast, range)) return; // the rest would fill them in loops that it shares
    const most = vmax(range.src[0]);
    for (let k = BLOCK_VECTORS * lanes; k >= lanes; k /= 2) {
      if (2 * k > most || (role === "stage" && blockStage(kernel.ast, range, k) === undefined)) continue;
      kernel.apply({ op: "PADTO", axis, size: k });
      return;
    }
  });
}

/** The chooser for a kernel, whose open axes are cut in blocks; undefined for scalar machines. */
function chooserFor(kernel: Kernel, caps: Capabilities): Chooser | undefined {
  if (caps.vectorBytes === 0 && caps.threads < 2) return undefined;
  blockAxes(kernel, caps);
  return new Chooser(kernel, caps);
}

/** Computes the elements of rows where they are read, if that costs less than keeping the rows: by the model. */
export function cheaperRows(ast: UOp, { caps }: Renderer): UOp {
  const inlined = inlineRows(ast);
  if (inlined === ast) return ast;
  const [kept, computed] = [ast, inlined].map((u) => chooserFor(kernelFor(ungate(u), caps), caps)?.plan().cost ?? 0);
  if (wantsNotes()) {
    const costs = `${costText(computed)} cycles by the model with their elements computed again, ${
      costText(kept)
    } with rows`;
    const isComputed = computed < kept, what = isComputed ? "rows are not kept" : "rows are kept by the kernel";
    note(isComputed ? "missed" : "passed", ast, `${what}: ${costs}`, { kept, computed });
  }
  return computed < kept ? inlined : ast;
}

function proposed(chooser: Chooser, plan: Plan, kernel: Kernel): Proposal {
  const make = (): Kernel => {
    chooser.run(plan);
    return kernel;
  };
  return { what: "loops, by the plan that takes least", cost: plan.cost, floor: 0, make };
}

/** The plan that is chosen, for notes also those that cost a little more; none for scalar machines. */
export function loopProposals(ast: UOp, caps: Capabilities): Proposal[] {
  const kernel = kernelFor(ast, caps), chooser = chooserFor(kernel, caps);
  if (chooser === undefined) return [];
  const found = proposed(chooser, chooser.plan(), kernel);
  return wantsNotes() ? [found, ...nearLoops(ast, caps, NEARLY)] : [found];
}

/** Plans that cost up to `slack` times as much as the best, which is first. */
export function nearLoops(ast: UOp, caps: Capabilities, slack: number): Proposal[] {
  const plans = chooserFor(kernelFor(ast, caps), caps)?.plans(slack) ?? [];
  return plans.sort((a, b) => a.cost - b.cost).map((plan) => {
    const make = (): Kernel => {
      const kernel = kernelFor(ast, caps);
      return proposed(chooserFor(kernel, caps)!, plan, kernel).make()!;
    };
    return { what: "loops", cost: plan.cost, floor: 0, make };
  });
}
