/**
 * The memory of a kernel's STAGEs: copies of what is read again and again, in registers or shared memory. In: a STAGE of
 * the current combination. Out: its memory, ordered after the STOREs that fill it, and where in it an access begins. STAGEs
 * in shared memory that are filled in the same loops are filled together: into a ring of buffers (ring.ts), or into one,
 * where all threads wait until the last iteration's tile has been read, fill, wait, and read.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import type { CopyEngine, RingCopies } from "../../renderer/renderer.ts";
import { type TensorCore, unitOf } from "../../renderer/tensor_core_table.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { isPhase } from "../../uop/algebra/row_phases.ts";
import { argOf, AxisKind, LocalArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { after, constant, index, store, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { compareLoops, isThreadKind, kindOf } from "../ast/range_facts.ts";
import { bufferSizeOf, isOfBoxes, placeIn, WIDE } from "../opt/stage.ts";
import { plus, times } from "../ast/alu_builder.ts";
import { type Copies, CopyMemo } from "./copies.ts";
import { fillRing } from "./ring.ts";

/** How the tiles of a ring are read: `together` unrolled steps after what `bases` of their number stand behind. */
interface Steps {
  readonly bases: readonly UOp[];
  readonly positions: readonly number[];
  readonly together: number;
}

/** STAGEs whose tiles are in rings of `depth` buffers, filled in the iterations of `loop`: their memory, and elements of a tile. */
interface RingTiles {
  readonly stages: readonly UOp[];
  readonly memory: readonly UOp[];
  readonly sizes: readonly number[];
  readonly loop: UOp;
  readonly depth: number;
}

/** What {@linkcode StageMemory} needs of the expander. */
interface StageContext {
  /** A new number for memory. */
  readonly nextLocal: () => number;
  /** The STOREs that `store` becomes, one for each combination of `positions`. */
  readonly storeCopies: (store: UOp, positions: readonly number[]) => UOp[];
  /** STOREs that happen only where `condition` holds. */
  readonly guard: (stores: readonly UOp[], condition: UOp) => void;
}

/** The STAGEs of a kernel, each filled on its first use. */
export class StageMemory {
  private readonly memory = new CopyMemo<UOp>();
  /** By STAGE in a ring: where the buffer of this iteration begins. */
  private readonly slots = new Map<UOp, UOp>();
  /** By STAGE in a ring that is filled between the steps in which it is read. */
  private readonly rings = new Map<UOp, Steps>();

  constructor(private readonly copies: Copies, private readonly context: StageContext) {}

  /** The memory of STAGE `u`, ordered after the loops that fill it; other memory is itself. */
  of(u: UOp): UOp {
    if (u.op !== Ops.STAGE) return u;
    const { copies } = this, key = copies.keyOf(u);
    const v = this.memory.get(u, key);
    if (v !== undefined) return v;
    const { scope } = argOf(u, Ops.STAGE);
    if (scope === "shared") this.share(u);
    else if (scope === "phase") this.fillPhases();
    const shared = this.memory.get(u, key);
    if (shared !== undefined) return shared;
    const local = this.local(u, bufferSizeOf(u));
    return this.memory.set(u, key, this.filled(u, local, local));
  }

  /** Memory for STAGE `u`. */
  private local(u: UOp, size: number): UOp {
    const { scope } = argOf(u, Ops.STAGE), isShared = scope === "shared" || scope === "phase";
    return uop(Ops.LOCAL, u.dtype, [], new LocalArg(this.context.nextLocal(), size, isShared ? "shared" : "thread"));
  }

  /**
   * Fills the STAGEs of all phases, one after the other: threads wait for the one before. Where a phase takes the memory of
   * one that it reads, they also wait between what all of them read and what any of them writes.
   */
  private fillPhases(): void {
    const phases = this.copies.nodes.filter(isPhase), sizes = new Map<number, number>(), homes = new Map<number, UOp>();
    const homeOf = (u: UOp): number => argOf(u, Ops.STAGE).id;
    for (const u of phases) sizes.set(homeOf(u), Math.max(sizes.get(homeOf(u)) ?? 0, vmax(u.src[0].src[1]) + 1));
    let before: UOp | undefined;
    for (const u of phases) {
      const home = homeOf(u);
      let memory = homes.get(home);
      if (memory === undefined) homes.set(home, memory = this.local(u, sizes.get(home)!));
      const isOwn = toposort(u.src[0], (x) => x.op !== Ops.STAGE).some((x) => isPhase(x) && homeOf(x) === home);
      const stores = this.fillPhase(u, memory, before, isOwn);
      const filled = after(memory, ...stores, ...u.src.slice(1).filter((r) => this.isLoop(r)));
      before = uop(Ops.BARRIER, dtypes.void, [filled]);
      this.memory.set(u, 0, after(memory, before));
    }
  }

  /** The STOREs that fill the STAGE of a phase after `before`: with `waits`, when all threads have computed their values. */
  private fillPhase(u: UOp, memory: UOp, before: UOp | undefined, waits: boolean): UOp[] {
    const { copies } = this, [value, at, isBusy] = u.src[0].src;
    const fill = store(index(memory, at, isBusy), value);
    copies.register(fill);
    const expanded = u.src.slice(1).filter((r) => copies.isExpanded(r)).map((r) => copies.sets.position(r));
    const made = this.context.storeCopies(fill, expanded), guarded = new Map<UOp, UOp[]>();
    // values that are held may be computed before: other phases may still read what lies there
    const held = waits ? [uop(Ops.BARRIER, dtypes.void, made.map((s) => s.src[1]))] : [];
    const base = after(memory, ...before === undefined ? [] : [before], ...held);
    const stores = made.map((s) => {
      const [, place, gate] = s.src[0].src, plain = s.withSrc([index(base, place), s.src[1]]);
      if (gate !== undefined) guarded.set(gate, [...guarded.get(gate) ?? [], plain]);
      return plain;
    });
    for (const [gate, list] of guarded) this.context.guard(list, gate);
    return stores;
  }

  /** `memory` after all that fills it, which sees it as `base`. */
  private filled(u: UOp, memory: UOp, base: UOp): UOp {
    const loops = u.src.slice(1).filter((r) => this.isLoop(r));
    return after(memory, ...this.fill(u, base, new Map(), undefined), ...loops);
  }

  /** Does a range stay a loop of the program? */
  private isLoop(r: UOp): boolean {
    return !isThreadKind(kindOf(r)) && !this.copies.isExpanded(r);
  }

  /** The memory of `u` as the current step reads it. */
  read(u: UOp): UOp {
    const memory = this.of(u), ring = this.rings.get(u);
    if (ring === undefined) return memory;
    const { sizes, env } = this.copies;
    const step = ring.positions.reduce((k, p) => k * sizes[p] + env[p], 0);
    return ring.bases[Math.floor(step / ring.together)];
  }

  /** Element `idx` of what {@linkcode read} gives for `u`. */
  element(u: UOp, idx: UOp): UOp {
    const slot = this.slots.get(u);
    if (slot === undefined) return idx;
    // the constant last: copies differ by that
    const [rest, c] = idx.op === Ops.ADD && idx.src[1].op === Ops.CONST ? idx.src : [idx, constant(0, idx.dtype)];
    return plus(plus(slot, rest), c);
  }

  /** The STOREs that fill a STAGE's memory at `base`, with ranges around it replaced, from element `slot` on. */
  private fill(u: UOp, base: UOp, replaced: ReadonlyMap<UOp, UOp>, slot: UOp | undefined): UOp[] {
    const { copies } = this, ranges = u.src.slice(1);
    let flat: UOp | undefined, stride = 1;
    for (let i = ranges.length - 1; i >= 0; i--) {
      flat = plus(times(ranges[i], stride), flat ?? constant(0, ranges[i].dtype));
      stride *= vmax(ranges[i].src[0]);
    }
    let at = placeIn(u, flat ?? constant(0, dtypes.int32));
    if (slot !== undefined) at = plus(slot.dtype === at.dtype ? slot : slot.cast(at.dtype), at);
    const value = replaced.size === 0 ? u.src[0] : substitute(u.src[0], replaced);
    const fill = store(index(base, at), value);
    copies.register(fill);
    return this.context.storeCopies(
      fill,
      ranges.filter((r) => copies.isExpanded(r)).map((r) => copies.sets.position(r)),
    );
  }

  /** Fills `u` and the other shared STAGEs of the same loops together. */
  private share(u: UOp): void {
    const { copies } = this, { depth } = argOf(u, Ops.STAGE);
    const loopsOf = (x: UOp): UOp[] => copies.rangesOf(x).filter((r) => this.isLoop(r));
    const loops = loopsOf(u).sort(compareLoops);
    const stages = holdsStage(u) ? [u] : copies.nodes.filter((x) => {
      if (x.op !== Ops.STAGE || argOf(x, Ops.STAGE).scope !== "shared" || argOf(x, Ops.STAGE).depth !== depth) {
        return false;
      }
      if (holdsStage(x) || isOfBoxes(x) !== isOfBoxes(u)) return false;
      const other = loopsOf(x);
      return other.length === loops.length && other.every((r) => loops.includes(r));
    });
    const sizes = stages.map(bufferSizeOf);
    const memory = stages.map((x, i) => this.local(x, sizes[i] * depth));
    const ring = { stages, memory, sizes, loop: loops[0], depth };
    if (depth > 1 || isOfBoxes(u)) return this.shareRing(ring);
    const before = loops.length === 0 ? [] : [uop(Ops.BARRIER, dtypes.void, loops)];
    const filled = stages.map((x, i) => this.filled(x, memory[i], after(memory[i], ...before)));
    const barrier = uop(Ops.BARRIER, dtypes.void, filled);
    stages.forEach((x, i) => this.memory.set(x, 0, after(memory[i], barrier)));
  }

  /** The units of the kernel, if it has any. */
  private units(): TensorCore | undefined {
    const product = this.copies.nodes.find((x) => x.op === Ops.WMMA);
    return product && unitOf(product);
  }

  /** Iterations after its own in which units may still read a tile: where they read registers, they are done as the loop ends. */
  private late(depth: number): number {
    return this.units()?.shared?.[0] !== undefined && depth > 2 ? 1 : 0;
  }

  /** Fills the buffers of a ring: an engine does, or threads do. */
  private shareRing(ring: RingTiles): void {
    const { stages, memory, sizes, loop, depth } = ring, { copies } = this, isBoxed = isOfBoxes(stages[0]);
    const units = this.units(), positions = this.stepPositions(stages);
    // elements that one access may read stay together
    const together = units !== undefined ? 1 : Math.max(...stages.map((x) => Math.floor(WIDE / x.dtype.itemsize)));
    // copies of an engine take no time, and a unit that is still busy holds up who gives it more: they come first
    const isAtOnce = isBoxed || (units?.shared !== undefined && depth > 2);
    const steps = isAtOnce ? 1 : Math.ceil(prod(positions.map((p) => copies.sizes[p])) / together);
    const filled = fillRing({
      memory,
      sizes,
      depth,
      loop,
      copies: isBoxed ? this.boxCopies(ring) : this.threadCopies(ring),
      steps,
      late: this.late(depth),
    });
    stages.forEach((x, i) => {
      const bases = filled.bases[i];
      if (isBoxed) copies.register(bases[0]);
      this.memory.set(x, 0, bases[0]);
      this.slots.set(x, filled.slots[i]);
      if (steps > 1) this.rings.set(x, { bases, positions, together });
    });
  }

  /** What an engine does, at the word of one thread. */
  private boxCopies({ stages, memory, sizes, loop, depth }: RingTiles): RingCopies {
    const threads = stages[0].src.find((r) => r.op === Ops.RANGE && kindOf(r) === AxisKind.LOCAL)!;
    const barriers = uop(Ops.LOCAL, dtypes.int64, [], new LocalArg(this.context.nextLocal(), depth, "shared"));
    const tiles = stages.map((u, i) => {
      return { memory: memory[i], box: u.src[0], size: sizes[i], width: argOf(u, Ops.STAGE).width };
    });
    const engine = stages[0].src[0].arg as CopyEngine;
    return engine.copiesTo({ tiles, depth, loop, barriers, isFirst: threads.eq(0) });
  }

  /** What each thread does: its part of a tile, past the end of the last one, which nobody reads. */
  private threadCopies({ stages, memory, sizes, loop }: RingTiles): RingCopies {
    const last = lastOf(loop), isKnown = last.op === Ops.CONST;
    return {
      start: [],
      fill: (order, k, slot) => {
        const tile = isKnown && k.op === Ops.CONST
          ? constant(Math.min(k.value, last.value), loop.dtype)
          : k.lt(last).where(k, last);
        const moved = new Map([[loop, tile]]);
        const copies = stages.flatMap((u, i) => this.fill(u, after(memory[i], ...order), moved, slot(sizes[i])));
        return { copies, done: [uop(Ops.ASYNC_COMMIT, dtypes.void, copies)] };
      },
      wait: (order, _, ahead) => uop(Ops.ASYNC_WAIT, dtypes.void, [...order, loop], ahead),
    };
  }

  /** The unrolled ranges that all reads of the STAGEs depend on, by position; none where they differ. */
  private stepPositions(stages: readonly UOp[]): readonly number[] {
    const { copies } = this;
    let common: readonly number[] | undefined;
    for (const u of copies.nodes) {
      if (u.op !== Ops.INDEX || !stages.includes(u.src[0])) continue;
      const mine = copies.expandedIn(u).filter((p) => kindOf(copies.sets.ranges[p]) === AxisKind.UNROLL);
      common ??= mine;
      if (common.length !== mine.length || common.some((p) => !mine.includes(p))) return [];
    }
    return common ?? [];
  }
}

/** The last iteration of a loop; the first of one that ends at a variable and has none, of which there is memory all the same. */
function lastOf(loop: UOp): UOp {
  const n = sizeOf(loop);
  return n > 0 ? constant(n - 1, loop.dtype) : simplify(loop.src[0].add(-1).max(0));
}

/** Is there another STAGE in what `u` holds? */
function holdsStage(u: UOp): boolean {
  return toposort(u.src[0]).some((x) => x.op === Ops.STAGE);
}
