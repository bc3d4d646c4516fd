/**
 * Kernels of several phases where loops run them: each phase is a kernel of its own, with its own opts, and the programs of
 * all become one, whose outermost loop chooses the block of rows. What a phase hands on lies in memory of the thread that
 * stays in its caches. In: an AST with STAGEs of scope phase, whose blocks are a range of kind THREAD or GLOBAL. Out: a kernel for each
 * phase, where the block is a variable; and from their programs the list of one.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { elementsOfPhase, memoryOfPhases, rangesOfPhase } from "../../uop/algebra/row_phases.ts";
import { AccArg, argOf, AxisKind, LocalArg, RangeArg } from "../../uop/core/args.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import {
  after,
  constant,
  index,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../uop/core/uop.ts";
import { flatIndex } from "../../uop/graph/movement_index.ts";
import { baseOf, rebuild } from "../../uop/rewrite/walk.ts";
import { isLeaf } from "./program_order.ts";

/** The phases of a kernel. */
export interface PhaseKernels {
  /** In their order; what they hand on are PARAMs of slots `first`, `first + 1` and so on. */
  readonly kernels: readonly UOp[];
  readonly first: number;
  /** By slot from `first` on: the number of the memory that it has. */
  readonly homes: readonly number[];
  /** Elements of each memory. */
  readonly sizes: readonly number[];
  /** The range that chooses a block, and the variable that stands for it in the kernels. */
  readonly block: UOp;
  readonly chosen: UOp;
}

/** Whether a node is the range that chooses a block: of threads, or, in what was scheduled for a grid, of groups. */
function isBlock(u: UOp): boolean {
  if (u.op !== Ops.RANGE) return false;
  const { kind } = argOf(u, Ops.RANGE);
  return kind === AxisKind.THREAD || kind === AxisKind.GLOBAL;
}

/** A kernel for each phase. */
export function phaseKernels(ast: UOp): PhaseKernels {
  const nodes = toposort(ast), { stages, homes, sizes } = memoryOfPhases(ast);
  const block = nodes.find(isBlock) ?? range(1, 0, AxisKind.THREAD);
  const chosen = variable("block", 0, sizeOf(block) - 1, block.dtype);
  const first = 1 + Math.max(...nodes.flatMap((u) => u.op === Ops.PARAM ? [argOf(u, Ops.PARAM).slot] : []));
  const given = new Map<UOp, UOp>([[block, chosen]]);
  stages.forEach((s, i) => given.set(s, param(first + i, s.dtype, elementsOfPhase(s))));
  const alone = (u: UOp): UOp => rebuild(u, () => undefined, undefined, given);
  const kernels = stages.map((s) => {
    const ranges = rangesOfPhase(s), at = flatIndex(ranges.map(sizeOf), ranges);
    return sink([store(index(given.get(s)!, at), alone(s.src[0]))]);
  });
  return {
    kernels: [...kernels, sink(ast.src.map(alone))],
    first,
    homes,
    sizes,
    block,
    chosen,
  };
}

/** The lists of the programs of all phases as one. */
class Joiner {
  /** What stands before the loop over blocks, and in it. */
  private readonly top: UOp[] = [];
  private readonly body: UOp[] = [];
  private readonly isTop = new Set<UOp>();
  /** What stands in the loop and in no other, so that all that comes later sees it. */
  private readonly isSeen = new Set<UOp>();
  private readonly next = { range: 1, acc: 0, local: 0 };
  private readonly block: UOp;
  private readonly memory: readonly UOp[];

  constructor(private readonly phases: PhaseKernels, dtypesOfHomes: readonly UOp["dtype"][]) {
    this.next.local = phases.sizes.length;
    this.memory = phases.sizes.map((n, i) => uop(Ops.LOCAL, dtypesOfHomes[i], [], new LocalArg(i, n, "thread")));
    const { block } = phases;
    this.block = range(block.src[0], 0, AxisKind.THREAD);
    this.lift(block.src[0]);
    for (const m of this.memory) this.lift(m);
  }

  private lift(u: UOp): void {
    if (this.isTop.has(u)) return;
    this.isTop.add(u);
    this.top.push(u);
  }

  /** Adds the list of phase `k`. */
  add(list: readonly UOp[], k: number): void {
    const { phases: { first, homes, chosen }, next } = this, map = new Map<UOp, UOp>(), start = { ...next };
    // other nodes in each phase, so that what is computed in a loop or under a condition of one, and what is read of memory
    // that another one fills again, is not taken for the same in a later one
    const least = constant(-k, this.block.dtype), block = this.block.alu(Ops.MAX, least);
    const memory = this.memory.map((m) => after(m, block));
    this.lift(least);
    for (const u of [block, ...memory]) {
      this.body.push(u);
      this.isSeen.add(u);
    }
    const made = (u: UOp): UOp => {
      let m = map.get(u);
      if (m === undefined) map.set(u, m = change(u));
      return m;
    };
    const change = (u: UOp): UOp => {
      if (u === chosen) return block;
      if (u.op === Ops.PARAM) {
        const { slot } = argOf(u, Ops.PARAM);
        return slot < first ? u : memory[homes[slot - first]];
      }
      const src = u.src.map(made), numbered = (arg: UOp["arg"]): UOp => uop(u.op, u.dtype, src, arg);
      if (u.op === Ops.RANGE) {
        const { id, kind, sub, first } = argOf(u, Ops.RANGE);
        next.range = Math.max(next.range, start.range + id + 1);
        return numbered(new RangeArg(start.range + id, kind, sub, first));
      }
      if (u.op === Ops.ACC) {
        const { id } = argOf(u, Ops.ACC);
        next.acc = Math.max(next.acc, start.acc + id + 1);
        return numbered(new AccArg(start.acc + id));
      }
      if (u.op === Ops.LOCAL) {
        const { id, size, scope } = argOf(u, Ops.LOCAL);
        next.local = Math.max(next.local, start.local + id + 1);
        return numbered(new LocalArg(start.local + id, size, scope));
      }
      return u.withSrc(src);
    };
    let depth = 0;
    for (const u of list) {
      const m = made(u);
      if (u === chosen) continue;
      if (u.op === Ops.END || u.op === Ops.ENDIF) depth--;
      if (isLeaf(m.op) || this.isConstant(m)) this.lift(m);
      else if (!this.isSeen.has(m)) {
        this.body.push(m);
        if (depth === 0) this.isSeen.add(m);
      }
      if (u.op === Ops.RANGE || u.op === Ops.IF) depth++;
    }
  }

  /** Is it made of constants and arguments alone, whatever the loop? */
  private isConstant(u: UOp): boolean {
    const isValue = isAlu(u.op) || u.op === Ops.INDEX || u.op === Ops.BROADCAST || u.op === Ops.VECTORIZE ||
      u.op === Ops.EXTRACT || u.op === Ops.LANES;
    return isValue && u.src.every((s) => this.isTop.has(s));
  }

  /** The list. */
  finish(): UOp[] {
    return [...this.top, this.block, ...this.body, uop(Ops.END, dtypes.void, [this.block])];
  }
}

/** The list of one program that does what `lists`, of the kernels of `phases`, do. */
export function joinPrograms(phases: PhaseKernels, lists: readonly (readonly UOp[])[]): UOp[] {
  const dtypeOf: UOp["dtype"][] = [];
  for (const u of lists.flat()) {
    const base = u.op === Ops.STORE ? baseOf(u.src[0]) : u;
    if (base.op !== Ops.PARAM) continue;
    const { slot } = argOf(base, Ops.PARAM);
    if (slot >= phases.first) dtypeOf[phases.homes[slot - phases.first]] = base.dtype;
  }
  const joiner = new Joiner(phases, dtypeOf);
  lists.forEach((list, k) => joiner.add(list, k));
  return joiner.finish();
}
