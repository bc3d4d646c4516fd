/**
 * Candidates: lists of opts that are possible for a kernel, found from its axes and accesses alone. What is possible
 * is asked of opt/kernel.ts, and only there; a list is made by a walk of decisions (what is merged, cut in blocks, has
 * the lanes or threads, is copied, unrolled, kept in memory of the kernel), each of which proposes pieces of many sizes.
 *
 * Decisions come from a draw by seed, from all in turn (an odometer), or from a list that is known to be good, of which
 * the neighbors are taken. All three are deterministic.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { mix } from "../../helpers/hash.ts";
import { rangeOf, roundUp } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { type Region, regionsOf } from "../machine/access.ts";
import type { Axis } from "../opt/axis.ts";
import type { Kernel } from "../opt/kernel.ts";
import { type AxisOpt, axisOpt, type Opt, optsText } from "../opt/opt.ts";
import { ifPossible, kernelFor } from "./proposal.ts";

/** Sizes of blocks of a loop on CPUs. */
const BLOCKS = [16, 32, 64, 128, 256, 512];
/** Blocks of axes that end at a variable, on grids. */
const OPEN_BLOCKS: readonly number[] = [8, 32, 128, 512];
/** Copies along an axis on CPUs, and on grids. */
const LOOP_COPIES = [2, 3, 4, 6, 8, 12, 14, 16], GRID_COPIES = [2, 4, 8, 16];
/** Copies of a body that a candidate may make: more are slow to compile, and never good. */
const MOST_COPIES = 256;
/** Instructions, about, that a body may have. */
const MOST_BODY = 2000;
/** Reduce axes that are unrolled as a whole. */
const WHOLE = 9;
/** Threads of a group that share a reduction. */
const GROUPS = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
/** Draws for each candidate that is wanted, at most: of a small kernel there are not more. */
const DRAWS = 6;

/** Answers the questions of a walk. */
export interface Choices {
  /** One of `options`, each as likely as its weight says; 1 where there are none. */
  pick<T>(options: readonly T[], weight?: (option: T) => number): T;
}

/** Draws by seed. */
class Drawn implements Choices {
  constructor(private state: number) {}
  pick<T>(options: readonly T[], weight: (option: T) => number = () => 1): T {
    this.state = mix(this.state, 0x5bd1e995);
    const weights = options.map(weight);
    let left = (this.state >>> 0) / 2 ** 32 * weights.reduce((a, b) => a + b, 0);
    for (let i = 0; i < options.length; i++) if ((left -= weights[i]) < 0) return options[i];
    return options[options.length - 1];
  }
}

/** Answers in every way there is, one after the other: the last answers change first. */
class Odometer implements Choices {
  private readonly trail: { at: number; of: number }[] = [];
  private depth = 0;
  pick<T>(options: readonly T[]): T {
    const i = this.depth++;
    if (i === this.trail.length) this.trail.push({ at: 0, of: options.length });
    return options[this.trail[i].at];
  }
  /** Goes on to the next way; false where that was the last one. */
  next(): boolean {
    this.depth = 0;
    for (;;) {
      const last = this.trail.pop();
      if (last === undefined) return false;
      if (last.at + 1 >= last.of) continue;
      this.trail.push({ at: last.at + 1, of: last.of });
      return true;
    }
  }
}

const NOTHING = -1;

/** One way of deciding, step by step. A step that is not possible is left out. */
class Walk {
  readonly opts: Opt[] = [];
  private current: Kernel;

  constructor(
    private readonly ast: UOp,
    private readonly caps: Capabilities,
    private readonly choices: Choices,
  ) {
    this.current = kernelFor(ast, caps);
  }

  private get outputs(): number {
    return this.current.outputAxes.length;
  }
  private get axes(): Kernel["axes"] {
    return this.current.axes;
  }
  private get regions(): readonly Region[] {
    return regionsOf(this.current.ast, this.axes).regions;
  }

  /** Applies opts that belong together: all, or none. */
  private take(...opts: readonly Opt[]): boolean {
    const kernel = ifPossible(() => withAll(this.ast, this.caps, [...this.opts, ...opts]));
    if (kernel === undefined) return false;
    this.current = kernel;
    this.opts.push(...opts);
    return true;
  }

  /** One of `options` or nothing, which is `bias` times as likely as one of them. */
  private maybe(options: readonly number[], bias: number): number {
    return options.length === 0 ? NOTHING : this.choices.pick([NOTHING, ...options], (o) => o === NOTHING ? bias : 1);
  }

  /** Copies so far, of any body. */
  private get copies(): number {
    let n = 1;
    for (const o of this.opts) if (o.op === "UPCAST" || o.op === "UNROLL") n *= o.size;
    return n;
  }
  private copy(op: AxisOpt["op"], axis: number, k: number): void {
    if (k > 1 && this.copies * k <= MOST_COPIES) this.take(axisOpt(op, axis, k));
  }

  /** Unrolls reduce axes, each perhaps. */
  private unroll(sizes: readonly number[]): void {
    for (let i = this.outputs; i < this.axes.length; i++) {
      const { role, size, rest } = this.axes[i];
      if (role !== "reduce" || size < 2) continue;
      const whole = rest > 1 && rest <= WHOLE && !sizes.includes(rest) ? [rest] : [];
      this.copy("UNROLL", i - this.outputs, this.maybe([...whole, ...sizes.filter((k) => k <= rest)], 2));
    }
  }

  /** The inputs that may be kept, by slot. */
  private inputs(): number[] {
    const slots = new Set<number>();
    for (const r of this.regions) {
      for (const { node, isStore } of r.kind === "reduce" ? r.accesses : []) {
        const base = node.src[0].src[0];
        if (!isStore && base.op === Ops.PARAM) slots.add(argOf(base, Ops.PARAM).slot);
      }
    }
    return [...slots].sort((a, b) => a - b);
  }

  // ---- loops

  /** The axes that get the lanes, by region from the outside in: a region inside of another has the other's. */
  private laneAxes(lanes: number): Set<number> {
    const taken = new Set<number>();
    for (const r of this.regions) {
      if ([...taken].some((i) => r.axes[i])) continue;
      const own = r.kind === "store" ? rangeOf(this.outputs) : r.own;
      const options = own.filter((i) => r.axes[i] && this.axes[i].size >= Math.min(lanes, 2));
      const isNear = (i: number): boolean => r.accesses.some((a) => a.strides[i] === 1);
      if (options.length === 0) continue;
      const axis = this.choices.pick([NOTHING, ...options], (i) => i === NOTHING ? 1 : isNear(i) ? 4 : 1);
      if (axis !== NOTHING) taken.add(axis);
    }
    return taken;
  }

  private onLoops(): void {
    const { caps, choices } = this, most = caps.vectorLanes(dtypes.float32);
    this.axes.forEach(({ size }, i) => {
      if (size === 0) this.takeBlock(i, this.maybe([most, 2 * most, 4 * most].filter((k) => k > 1), 1));
    });
    const vectors = most > 1 ? this.laneAxes(most) : new Set<number>();
    // at most two loops are cut in blocks: the panels of both stay in a cache
    for (const i of rangeOf(this.outputs)) {
      const { size } = this.axes[i], open = this.opts.filter((o) => o.op === "PADTO").length;
      if (open < 2) this.takeBlock(i, this.maybe(BLOCKS.filter((b) => 2 * b <= size), 24));
    }
    for (const i of vectors) {
      const n = choices.pick(
        [most, most / 2, most / 4].filter((k) => k >= 2 && k <= this.axes[i].rest),
        (k) => k === most ? 4 : 1,
      );
      if (n !== undefined && !this.take(axisOpt("VECTOR", i, n))) {
        this.take(axisOpt("PADTO", i, n), axisOpt("VECTOR", i, n));
      }
    }
    const tiled = rangeOf(this.axes.length).filter((i) => this.axes[i].role !== "reduce" && this.axes[i].rest > 1);
    for (let n = choices.pick([0, 1, 2]); n > 0 && tiled.length > 0; n--) {
      const i = choices.pick(tiled);
      tiled.splice(tiled.indexOf(i), 1);
      const sizes = LOOP_COPIES.filter((k) => k <= this.axes[i].rest && k * this.copies <= 32);
      if (sizes.length > 0) this.copy("UPCAST", i, choices.pick(sizes));
    }
    this.unroll([2, 4, 8]);
    const loops = rangeOf(this.outputs).filter((i) => this.axes[i].size !== 1);
    for (let n = loops.length < 2 ? 0 : choices.pick([0, 1, 2], (k) => 3 - k); n > 0; n--) {
      const i = choices.pick(loops);
      this.take(axisOpt("SWAP", i, choices.pick(loops.filter((j) => j !== i))));
    }
    if (caps.threads > 1) {
      const options = loops.filter((i) => this.axes[i].rest * this.axes[i].outer > 1);
      if (options.length > 0) {
        const axis = choices.pick([NOTHING, ...options], (i) => i === NOTHING ? 0.5 : 1);
        if (axis !== NOTHING) this.take(axisOpt("THREAD", axis, 0));
      }
    }
    const input = this.maybe(this.inputs(), 3);
    if (input !== NOTHING) this.take({ op: "STAGE", input, loops: choices.pick(rangeOf(loops.length + 1)) });
  }

  private takeBlock(axis: number, size: number): void {
    if (size !== NOTHING) this.take(axisOpt("PADTO", axis, size));
  }

  // ---- grids

  private onGrid(): void {
    const grid = this.caps.grid!;
    this.merge();
    this.axes.forEach(({ size }, i) => {
      if (size === 0) this.takeBlock(i, this.maybe(OPEN_BLOCKS, 1));
    });
    const product = this.regions.find((r) => r.kind === "reduce" && r.accesses.length === 2 && r.own.length > 0);
    const kind = product === undefined ? "threads" : this.choices.pick(["threads", "tiles"] as const);
    if (kind === "tiles" && this.tiles(product!)) return;
    let left = Math.min(grid.maxGroupThreads, grid.maxGroupSize[0]);
    const open = rangeOf(this.outputs).filter((i) => this.axes[i].size > 1 && this.current.isParallel(i));
    const near = open.filter((i) => this.regions.some((r) => r.accesses.some((a) => a.strides[i] === 1)));
    if (near.length > 0) this.copy("UPCAST", this.choices.pick(near), this.maybe([2, 4, 8], 2));
    const shared = this.group(left);
    if (shared > 1) left = Math.floor(left / shared);
    const order = [...near, ...open.filter((i) => !near.includes(i))];
    for (let n = 0; n < 3 && order.length > 0 && left > 1; n++) {
      const i = this.choices.pick(order, (x) => near.includes(x) ? 3 : 1), { rest } = this.axes[i];
      order.splice(order.indexOf(i), 1);
      const sizes = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].filter((k) => k <= left && k < 2 * rest);
      const all = rest > 1 && rest <= left && !sizes.includes(rest) ? [rest] : [];
      const k = this.maybe([...sizes, ...all], 1);
      if (k > 1 && this.take(axisOpt("LOCAL", i, k))) left = Math.floor(left / k);
    }
    if (open.length > 0) {
      const i = this.choices.pick(open);
      this.copy("UPCAST", i, this.maybe(GRID_COPIES.filter((k) => k <= this.axes[i].rest), 4));
    }
    this.unroll([2, 4, 8, 16]);
    const input = this.maybe(this.inputs(), 6);
    if (input !== NOTHING) this.take({ op: "STAGE", input, ring: this.choices.pick([1, 2, 3, 4]) });
  }

  /** Makes one axis of neighbors, perhaps. */
  private merge(): void {
    for (let n = this.choices.pick([0, 1, 2], (k) => k === 0 ? 4 : 1); n > 0; n--) {
      const pairs = rangeOf(this.axes.length - 1).filter((i) => this.current.canMerge(i, i + 1));
      if (pairs.length === 0) return;
      const i = this.choices.pick(pairs);
      this.take(axisOpt("MERGE", i, i + 1));
    }
  }

  /** Shares reductions among threads, perhaps; gives how many. */
  private group(most: number): number {
    const long = rangeOf(this.axes.length).filter((i) =>
      this.axes[i].role === "reduce" && this.axes[i].size >= GROUPS[0]
    );
    if (long.length === 0) return 1;
    const first = this.maybe(long, 1);
    if (first === NOTHING) return 1;
    const sizes = GROUPS.filter((k) => k <= most && k < 2 * this.axes[first].size);
    const k = this.choices.pick(sizes),
      op = this.choices.pick(["GROUP", "GROUPTOP"] as const, (o) => o === "GROUP" ? 3 : 1);
    if (!this.take(axisOpt(op, first - this.outputs, k))) return 1;
    // others may be shared too: by the same threads
    for (const i of long) {
      if (i !== first && this.choices.pick([true, false])) this.take(axisOpt(op, i - this.outputs, k));
    }
    return k;
  }

  /** Tiles of both sides of a product, by threads or by matrix units, with its operands in shared memory. */
  private tiles(product: Region): boolean {
    const { choices, outputs } = this, grid = this.caps.grid!;
    const cores = grid.tensorCores.flatMap((core, number) => {
      if (core.input === dtypes.float32 && envNumber("ALLOW_TF32") === 0) return [];
      const axes = this.current.productAxes(core);
      return axes === undefined ? [] : [{ core, number, axes }];
    });
    const unit = cores.length === 0 ? undefined : choices.pick([...cores, undefined], (c) => c === undefined ? 1 : 4);
    const isLong = ({ size, isOpen }: Axis): boolean => isOpen || size >= 8;
    const long = rangeOf(outputs).filter((i) => product.axes[i] && isLong(this.axes[i]));
    if (unit === undefined && long.length < 2) return false;
    const rows = unit?.axes.rows ?? choices.pick(long);
    const columns = unit?.axes.columns ?? choices.pick(long.filter((i) => i !== rows));
    const sum = unit === undefined
      ? choices.pick(product.own.filter((i) => this.axes[i].size !== 1))
      : unit.axes.sum + outputs;
    if (sum === undefined) return false;
    const sizes = unit === undefined ? [1, 1, 1] : [unit.core.m, unit.core.n, unit.core.k];
    const pieces = [rows, columns].map((axis, i) => {
      const { size, expected } = this.axes[axis];
      let left = (size || expected) / sizes[i] * 1.5;
      return [unit === undefined ? [4, 8, 16] : [1, 2, 4], [1, 2, 4, 8], [1, 2]].map((list) => {
        const k = choices.pick(list.filter((n) => n <= Math.max(left, 1)).concat(1));
        left /= k;
        return k;
      });
    });
    const depth = choices.pick(unit === undefined ? [4, 8, 16] : [1, 2, 4, 8]);
    const opts: Opt[] = [];
    [rows, columns, sum].forEach((axis, i) => {
      const tile = sizes[i] * (i < 2 ? pieces[i].reduce((a, b) => a * b, 1) : depth);
      const { size } = this.axes[axis];
      if (size === 0 || size % tile !== 0) opts.push(axisOpt("PADTO", axis, tile));
    });
    if (unit !== undefined) opts.push({ op: "TC", unit: unit.number });
    [rows, columns].forEach((axis, i) => {
      const [threads, near, far] = pieces[i];
      if (near > 1) opts.push(axisOpt("UPCAST", axis, near));
      if (threads > 1) opts.push(axisOpt("LOCAL", axis, threads));
      if (far > 1) opts.push(axisOpt("UPCAST", axis, far));
    });
    if (depth > 1) opts.push(axisOpt("UNROLL", sum - outputs, depth));
    const padded = [rows, columns, sum].reduce((n, axis, i) => {
      const tile = sizes[i] * (i < 2 ? pieces[i].reduce((a, b) => a * b, 1) : depth), { size } = this.axes[axis];
      return size === 0 ? n : n * roundUp(size, tile) / size;
    }, 1);
    const group = pieces[0][0] * pieces[1][0] * (unit?.core.lanes ?? 1);
    if (padded > 3 || group > grid.maxGroupThreads || group > grid.maxGroupSize[0]) return false;
    if (!this.take(...opts)) return false;
    const ring = grid.hasAsyncCopy ? choices.pick([1, 2, 3, 4]) : 1;
    if (choices.pick([true, false], (x) => x ? 4 : 1)) {
      for (const input of this.inputs()) this.take({ op: "STAGE", input, ring });
    }
    return true;
  }

  // ----

  /** On loops: is the body of a size that compilers take? */
  private isSmall(): boolean {
    const { axes } = this;
    let total = 0;
    for (const r of this.regions) {
      let copies = 1, lanes = 1, lane = -1;
      axes.forEach((a, i) => {
        if (!r.axes[i]) return;
        for (const p of a.pieces) {
          if (p.kind === AxisKind.VECTOR) [lane, lanes] = [i, p.size];
          else if (p.kind === AxisKind.UPCAST || p.kind === AxisKind.UNROLL) copies *= p.size;
        }
      });
      const scalars = r.accesses.filter((a) => lane >= 0 && a.depends[lane] && a.strides[lane] !== 1).length;
      total += copies * (r.work + r.accesses.length + scalars * lanes);
    }
    return total <= MOST_BODY;
  }

  /** The opts, where they are possible together. */
  run(): Opt[] | undefined {
    if (this.caps.hasGrid) this.onGrid();
    else this.onLoops();
    return (this.caps.hasGrid || this.isSmall()) && isPossible(this.ast, this.caps, this.opts) ? this.opts : undefined;
  }
}

/** Whether a kernel, as it is when opts are applied, takes these. */
export function isPossible(ast: UOp, caps: Capabilities, opts: readonly Opt[]): boolean {
  return ifPossible(() => withAll(ast, caps, opts).finish()) !== undefined;
}

/** A kernel under opts. @throws {ArgumentError} where one of them is not possible */
function withAll(ast: UOp, caps: Capabilities, opts: readonly Opt[]): Kernel {
  const kernel = kernelFor(ast, caps);
  for (const o of opts) kernel.apply(o);
  return kernel;
}

/** All candidates of a kernel, as it is when opts are applied: each once, in a fixed order. There may be millions. */
export function* allCandidates(ast: UOp, caps: Capabilities): Generator<Opt[]> {
  const seen = new Set<string>(), choices = new Odometer();
  do {
    const opts = new Walk(ast, caps, choices).run();
    if (opts === undefined || seen.has(optsText(opts))) continue;
    seen.add(optsText(opts));
    yield opts;
  } while (choices.next());
}

/** Up to `count` different candidates, drawn by seed. */
export function drawCandidates(ast: UOp, caps: Capabilities, count: number, seed: number): Opt[][] {
  const found = new Map<string, Opt[]>();
  for (let i = 0; i < DRAWS * count && found.size < count; i++) {
    const opts = new Walk(ast, caps, new Drawn(mix(mix(0x1b873593, seed), i))).run();
    if (opts !== undefined && !found.has(optsText(opts))) found.set(optsText(opts), opts);
  }
  return [...found.values()];
}

/** The lists that differ from one in a single opt: without it, of another size, or deeper in the loops. */
export function neighborsOf(ast: UOp, caps: Capabilities, opts: readonly Opt[]): Opt[][] {
  const found = new Map<string, Opt[]>();
  const offer = (list: Opt[]): void => {
    const text = optsText(list);
    if (text !== optsText(opts) && !found.has(text) && isPossible(ast, caps, list)) found.set(text, list);
  };
  opts.forEach((o, i) => {
    const put = (...now: Opt[]): void => offer([...opts.slice(0, i), ...now, ...opts.slice(i + 1)]);
    put();
    if (o.op === "STAGE") {
      for (const d of [-1, 1]) {
        if (o.loops !== undefined && o.loops + d >= 0) put({ ...o, loops: o.loops + d });
        if (o.ring !== undefined && o.ring + d >= 1) put({ ...o, ring: o.ring + d });
      }
    } else if (o.op === "THREAD") {
      for (let axis = 0; axis < opts.length + 4; axis++) put({ ...o, axis });
    } else if ("size" in o) {
      for (const size of [o.size * 2, o.size / 2]) if (Number.isInteger(size) && size > 1) put({ ...o, size });
    }
  });
  return [...found.values()];
}
