/**
 * The tensor copy engine of Hopper (TMA): what of an input it can bring, and how it fills rings of buffers. Devices that have
 * one offer it to code generation among their capabilities.
 *
 * First, the tile that a group reads at a time, as boxes of axes. In: the LOAD, and which of its ranges lie inside of the tile.
 * Out: the axes of the input as the engine walks them, with their sizes, and where the tile begins along each; nothing where its
 * index is no position along axes, or its gate says more than that it is inside. Then, the copies of such tiles: who starts them,
 * and who waits. Source: NVIDIA, "Parallel Thread Execution ISA", sections on cp.async.bulk.tensor and mbarrier.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { hashString } from "../helpers/hash.ts";
import { rangeOf } from "../helpers/math.ts";
import { indexForm, type Linear, rangeOfFactor } from "../uop/algebra/linear_form.ts";
import { simplifyKernel } from "../uop/algebra/valid.ts";
import { argOf, type ArgRecord, TensorMapArg } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { sizeOf } from "../uop/core/ranges.ts";
import { after, constant, index, type UOp, uop } from "../uop/core/uop.ts";
import { substitute } from "../uop/rewrite/rewrite.ts";
import type { BoxRing, CopyEngine, RingCopies, RingFill, RingSlot } from "./renderer.ts";

/** Axes of a map, elements of a box along one, and bytes that its addresses are multiples of. */
const MOST_AXES = 5, MOST_BOX = 256, ALIGN = 16;

/** An axis of an input: the ranges that walk along it. */
interface BoxAxis {
  readonly id: number;
  /** Elements from one position to the next. */
  readonly step: number;
  /** What each range moves along the axis: those of the tile, and those around it. */
  readonly inside: readonly (readonly [range: UOp, by: number])[];
  readonly outside: readonly (readonly [range: UOp, by: number])[];
  /** Positions; what is beyond is zero. */
  readonly size: number;
}

/** The coefficients of a sum of ranges and nothing else; undefined for others. */
function termsOf({ factors, coefs }: Readonly<Linear>): Map<UOp, number> | undefined {
  const terms = new Map<UOp, number>();
  for (let i = 0; i < factors.length; i++) {
    const r = rangeOfFactor(factors[i]);
    if (r === undefined || coefs[i] <= 0 || sizeOf(r) === 0) return undefined;
    terms.set(r, coefs[i]);
  }
  return terms;
}

/** The terms of a conjunction. */
function conditionsOf(gate: UOp | undefined): readonly UOp[] {
  if (gate === undefined) return [];
  return gate.op === Ops.AND ? gate.src.flatMap(conditionsOf) : [gate];
}

/** How many positions of an axis a condition lets pass: it must say that the axis ends there; undefined for others. */
function boundOf(condition: UOp, terms: ReadonlyMap<UOp, number>, step: number): number | undefined {
  if (condition.op !== Ops.CMPLT || condition.src[1].op !== Ops.CONST) return undefined;
  const form = indexForm(condition.src[0]), by = form.constant === 0 ? termsOf(form) : undefined;
  const isPosition = by?.size === terms.size && [...terms].every(([r, c]) => by.get(r) === c / step);
  return isPosition ? condition.src[1].value : undefined;
}

/** The axes of the input that `l` reads; undefined where its index or its gate is something else. */
function axesOf(l: UOp, isInside: (r: UOp) => boolean): { axes: BoxAxis[]; offset: number } | undefined {
  const [, idx, gate] = l.src[0].src as readonly (UOp | undefined)[], form = indexForm(idx!), terms = termsOf(form);
  if (terms === undefined || form.constant < 0) return undefined;
  const byId = new Map<number, Map<UOp, number>>();
  for (const [r, c] of terms) {
    const { id } = argOf(r, Ops.RANGE);
    byId.set(id, (byId.get(id) ?? new Map<UOp, number>()).set(r, c));
  }
  const left = new Set(conditionsOf(gate)), axes: BoxAxis[] = [];
  for (const [id, mine] of byId) {
    const step = Math.min(...mine.values()), moves = [...mine].map(([r, c]) => [r, c / step] as const);
    if (moves.some(([, by]) => !Number.isInteger(by))) return undefined;
    let size = moves.reduce((n, [r, by]) => n + (sizeOf(r) - 1) * by, 1);
    for (const c of left) {
      const bound = boundOf(c, mine, step);
      if (bound === undefined) continue;
      size = Math.min(size, bound);
      left.delete(c);
    }
    const inside = moves.filter(([r]) => isInside(r)), outside = moves.filter(([r]) => !isInside(r));
    axes.push({ id, step, inside, outside, size });
  }
  return left.size > 0 ? undefined : { axes, offset: form.constant };
}

/** Do the ranges of a tile, in this order, count its positions along an axis? */
function countsAlong({ inside }: BoxAxis, order: readonly UOp[]): boolean {
  let before = 1;
  for (const r of order) {
    if (inside.find(([x]) => x === r)?.[1] !== before) return false;
    before *= sizeOf(r);
  }
  return order.length === inside.length;
}

/** {@linkcode CopyEngine.boxOf}, as the sources of an ASYNC_BOX. */
function boxOf(l: UOp, inner: readonly UOp[], width: number, piece: number): UOp[] | undefined {
  const { itemsize } = l.dtype, found = axesOf(l, (r) => inner.includes(r));
  if (found === undefined || (l.src.length > 1 && !l.src[1].isConst(0))) return undefined;
  const { axes, offset } = found, idOf = (r: UOp): number => argOf(r, Ops.RANGE).id, near = idOf(inner[0]);
  const along = inner.filter((r) => idOf(r) === near), across = inner.filter((r) => idOf(r) !== near);
  const far = across.length === 0 ? undefined : idOf(across[0]);
  const first = axes.find((a) => a.id === near), rows = across.reduce((n, r) => n * sizeOf(r), 1);
  const others = axes.filter((a) => a !== first).sort((a, b) => a.step - b.step);
  if (first === undefined || first.step !== 1 || along.reduce((n, r) => n * sizeOf(r), 1) !== width) return undefined;
  for (const a of axes) if (!countsAlong(a, a.id === near ? along : a.id === far ? across : [])) return undefined;
  const all = [first, ...others], isEven = all.every(({ step }, i) => i < 2 || step % all[i - 1].step === 0);
  const isAligned = [offset, ...others.map((a) => a.step)].every((n) => n * itemsize % ALIGN === 0);
  const side = Math.min(rows, MOST_BOX);
  if (!isEven || !isAligned || all.length > MOST_AXES || all.length < 2 || rows % side !== 0) return undefined;
  const box = all.map((a) => a === first ? piece : a.id === far ? side : 1);
  const map = new TensorMapArg(offset, all.map((a) => a.size), all.map((a) => a.step), box);
  const position = all.map(({ outside }) => {
    return outside.reduce((sum, [r, by]) => sum.add(int32(r).mul(by)), constant(0, dtypes.int32));
  });
  return [uop(Ops.TENSOR_MAP, dtypes.uint64, [l.src[0].src[0]], map), ...position];
}

function int32(r: UOp): UOp {
  return r.dtype === dtypes.int32 ? r : r.cast(dtypes.int32);
}

/** One copy of several that bring a tile: where it goes, in elements, and how far it lies from the first, by axis. */
interface BoxPart {
  readonly at: number;
  readonly move: readonly number[];
}

/** The copies that bring a tile of `size` elements in rows of `width`: blocks of rows, each in parts of a box. */
function boxParts({ box }: TensorMapArg, size: number, width: number): BoxPart[] {
  const [piece] = box,
    far = box.findIndex((n, i) => i > 0 && n > 1),
    rows = size / width,
    side = far < 0 ? 1 : box[far];
  const parts: BoxPart[] = [];
  for (let x = 0; x < width; x += piece) {
    for (let y = 0; y < rows; y += side) {
      parts.push({ at: x * rows + y * piece, move: box.map((_, i) => i === 0 ? x : i === far ? y : 0) });
    }
  }
  return parts;
}

/**
 * One thread starts the copies, and each buffer has a barrier at which all wait for what comes to it. Its phases take turns: in
 * iteration k, k divided by `depth` have been complete. Nothing is fetched past the end: a group that has ended has no memory
 * to fill.
 */
class BoxCopies implements RingCopies {
  readonly start: readonly UOp[];
  private readonly count: number;
  /** Bytes of an iteration. */
  private readonly nbytes: number;

  constructor(private readonly ring: BoxRing) {
    const { tiles, depth, loop, isFirst } = ring;
    this.count = sizeOf(loop);
    this.nbytes = tiles.reduce((n, { box, size }) => n + size * box.dtype.itemsize, 0);
    const made = rangeOf(depth).map((k) => this.barrier("init", constant(k, loop.dtype), isFirst, []));
    this.start = [uop(Ops.BARRIER, dtypes.void, made)];
  }

  private barrier(op: string | number, at: UOp, second: UOp, order: readonly UOp[]): UOp {
    return uop(Ops.MBARRIER, dtypes.void, [index(after(this.ring.barriers, ...order), at), second], op);
  }

  fill(order: readonly UOp[], k: UOp, slot: RingSlot): RingFill {
    const { count, ring: { tiles, loop, barriers, isFirst } } = this;
    if (k.op === Ops.CONST && k.value >= count) return { copies: [], done: order };
    const gate = k.op === Ops.CONST ? isFirst : isFirst.and(k.lt(count));
    const expected = this.barrier(this.nbytes, slot(1), gate, order), moved = new Map([[loop, k]]);
    const full = index(after(barriers, expected), slot(1));
    const copies = tiles.flatMap(({ memory, box, size, width }) => {
      const [map, ...position] = box.src, first = position.map((x) => simplifyKernel(substitute(x, moved)));
      const base = after(memory, expected);
      return boxParts(argOf(map, Ops.TENSOR_MAP), size, width).map(({ at, move }) => {
        const to = index(base, simplifyKernel(slot(size).add(at)));
        return uop(Ops.ASYNC_BOX, dtypes.void, [to, full, gate, map, ...first.map((x, d) => x.add(move[d]))]);
      });
    });
    return { copies, done: copies };
  }

  wait(order: readonly UOp[], slot: RingSlot): UOp {
    const { loop, depth } = this.ring, phase = loop.floorDiv(depth).floorMod(2);
    return this.barrier("wait", slot(1), phase.dtype === dtypes.int32 ? phase : phase.cast(dtypes.int32), order);
  }
}

class TensorCopyEngine implements CopyEngine {
  readonly hash: number = hashString("TMA");
  same(o: ArgRecord): boolean {
    return o === this;
  }
  toString(): string {
    return "TMA";
  }
  boxOf(l: UOp, inner: readonly UOp[], width: number, piece: number): UOp | undefined {
    const found = boxOf(l, inner, width, piece);
    return found && uop(Ops.ASYNC_BOX, l.dtype, found, this);
  }
  copiesTo(ring: BoxRing): RingCopies {
    return new BoxCopies(ring);
  }
}

/** The engine of compute capability 9.0. */
export const TMA: CopyEngine = new TensorCopyEngine();
