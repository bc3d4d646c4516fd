/**
 * The memory of a kernel's STAGEs: copies of what is read again and again, in registers or shared memory. In: a STAGE of
 * the current combination. Out: its memory, ordered after the STOREs that fill it, and where in it an access begins. STAGEs
 * in shared memory that are filled in the same loops are filled together (fill_shared.ts says in which order).
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind, LocalArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, index, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { compareLoops, isThreadKind, kindOf } from "../ast/range_facts.ts";
import { paddedIndex, paddedSize, WIDE } from "../opt/shared_tile.ts";
import { plus, times } from "../ast/alu_builder.ts";
import { type Copies, CopyMemo } from "./copies.ts";
import { fillShared } from "./fill_shared.ts";

/** How the tiles of a ring are read: `together` unrolled steps after what `bases` of their number stand behind. */
interface Ring {
  readonly bases: readonly UOp[];
  readonly positions: readonly number[];
  readonly together: number;
}

/** What {@linkcode StageMemory} needs of the expander. */
export interface StageContext {
  /** A new number for memory. */
  readonly nextLocal: () => number;
  /** The STOREs that `store` becomes, one for each combination of `positions`. */
  readonly storeCopies: (store: UOp, positions: readonly number[]) => UOp[];
}

/** The STAGEs of a kernel, each filled on its first use. */
export class StageMemory {
  private readonly memory = new CopyMemo<UOp>();
  /** By STAGE in a ring: where the buffer of this iteration begins. */
  private readonly slots = new Map<UOp, UOp>();
  /** By STAGE in a ring that is filled between the steps in which it is read. */
  private readonly rings = new Map<UOp, Ring>();

  constructor(private readonly copies: Copies, private readonly context: StageContext) {}

  /** The memory of STAGE `u`, ordered after the loops that fill it; other memory is itself. */
  of(u: UOp): UOp {
    if (u.op !== Ops.STAGE) return u;
    const { copies } = this, key = copies.keyOf(u);
    const v = this.memory.get(u, key);
    if (v !== undefined) return v;
    if (argOf(u, Ops.STAGE).scope === "shared") {
      this.share(u);
      return this.memory.get(u, key)!;
    }
    const local = uop(
      Ops.LOCAL,
      u.dtype,
      [],
      new LocalArg(this.context.nextLocal(), elementsOf(u), argOf(u, Ops.STAGE).scope),
    );
    const stores = this.fill(u, local, new Map(), undefined);
    const loops = u.src.slice(1).filter((r) => !copies.isExpanded(r));
    return this.memory.set(u, key, uop(Ops.AFTER, u.dtype, [local, ...stores, ...loops]));
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
    const arg = argOf(u, Ops.STAGE);
    let at = flat ?? constant(0, dtypes.int32);
    if (arg.width > 0) at = simplifyKernel(paddedIndex(arg, u.dtype.itemsize, at));
    if (slot !== undefined) at = plus(slot.dtype === at.dtype ? slot : slot.cast(at.dtype), at);
    const value = replaced.size === 0 ? u.src[0] : substitute(u.src[0], replaced);
    const fill = uop(Ops.STORE, dtypes.void, [index(base, at), value]);
    copies.register(fill);
    return this.context.storeCopies(
      fill,
      ranges.filter((r) => copies.isExpanded(r)).map((r) => copies.sets.position(r)),
    );
  }

  /** Fills `u` and the other shared STAGEs of the same loops together. */
  private share(u: UOp): void {
    const { copies } = this, { depth } = argOf(u, Ops.STAGE);
    const isLoop = (r: UOp): boolean => !isThreadKind(kindOf(r)) && !copies.isExpanded(r);
    const loops = copies.rangesOf(u).filter(isLoop).sort(compareLoops);
    const stages = holdsStage(u) ? [u] : copies.nodes.filter((x) => {
      if (x.op !== Ops.STAGE || argOf(x, Ops.STAGE).scope !== "shared" || argOf(x, Ops.STAGE).depth !== depth) {
        return false;
      }
      if (holdsStage(x)) return false;
      const other = copies.rangesOf(x).filter(isLoop);
      return other.length === loops.length && other.every((r) => loops.includes(r));
    });
    const positions = this.stepPositions(stages);
    // elements that one access may read stay together
    const hasUnits = copies.nodes.some((x) => x.op === Ops.WMMA);
    const together = hasUnits ? 1 : Math.max(...stages.map((x) => Math.floor(WIDE / x.dtype.itemsize)));
    const { bases, slots } = fillShared({
      stages,
      steps: Math.ceil(prod(positions.map((p) => copies.sizes[p])) / together),
      sizes: stages.map((x) => paddedSize(argOf(x, Ops.STAGE), x.dtype.itemsize, elementsOf(x))),
      loops,
      depth,
      nextLocal: this.context.nextLocal,
      fill: (x, base, replaced, slot) => this.fill(x, base, replaced, slot),
      inner: (x) => x.src.slice(1).filter(isLoop),
    });
    stages.forEach((x, i) => {
      this.memory.set(x, 0, bases[i][0]);
      if (slots[i] === undefined) return;
      this.slots.set(x, slots[i]!);
      if (bases[i].length > 1) this.rings.set(x, { bases: bases[i], positions, together });
    });
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

/** Elements of a STAGE, at most. */
function elementsOf(u: UOp): number {
  return prod(u.src.slice(1).map((r) => vmax(r.src[0])));
}

/** Is there another STAGE in what `u` holds? */
function holdsStage(u: UOp): boolean {
  return toposort(u.src[0]).some((x) => x.op === Ops.STAGE);
}
