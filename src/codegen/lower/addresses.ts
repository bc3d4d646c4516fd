/**
 * The addresses of a kernel's copies. In: an index expression. Out: its value for the current combination, as a sum in
 * which copies share all that they can: first the terms that no copy changes, outer loops first so that sums of outer
 * terms leave the inner loops, then what differs, the constant last. And of a gate, the lanes for which it holds.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { buildAlu, plus, times } from "../ast/alu_builder.ts";
import { indexForm, rangeOfFactor, slopeOf } from "../../uop/algebra/linear_form.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import type { Copies } from "./copies.ts";

/** An index expression split by how it changes from copy to copy. */
interface Address {
  /** The sum of the terms that no copy changes; undefined when there is none. */
  readonly rest: UOp | undefined;
  /** Position of an expanded range, coefficient. */
  readonly expanded: readonly (readonly [position: number, coefficient: number])[];
  /** Other terms that differ from copy to copy. */
  readonly opaque: readonly (readonly [atom: UOp, coefficient: number])[];
  readonly constant: number;
  readonly dtype: DType;
}

/** The index expressions of a kernel; each is split once. */
export class Addresses {
  private readonly split = new Map<UOp, Address>();
  private readonly order: ReadonlyMap<UOp, number>;

  /**
   * @param get the current copy of a node
   * @param finish what stands for a node in the result
   */
  constructor(
    private readonly copies: Copies,
    private readonly get: (u: UOp) => UOp,
    private readonly finish: (u: UOp) => UOp,
  ) {
    this.order = copies.loopOrder();
  }

  /** `idx` for the current combination, with the range at `lane` (none where it is -1) at `at`. */
  value(idx: UOp, lane: number, at: number): UOp {
    const { copies } = this, a = this.address(idx);
    let c = a.constant, v = a.rest;
    for (const [p, k] of a.expanded) {
      const i = p === lane ? at : copies.env[p];
      if (i <= copies.sizes[p]) c += k * i;
      else {
        const s = copies.symbol(p);
        v = this.sum(v, s.dtype === a.dtype ? s : s.cast(a.dtype), k);
      }
    }
    const opaque = (): void => {
      for (const [atom, k] of a.opaque) {
        const known = copies.isKnown(atom);
        const x = this.get(known ? atom : atom.src[0]);
        v = this.sum(v, known ? x : buildAlu(Ops.CAST, atom.dtype, [x]), k);
      }
    };
    if (a.opaque.length > 0) lane < 0 ? opaque() : copies.with(lane, at, opaque);
    return this.finish(plus(v, constant(c, a.dtype)));
  }

  private address(idx: UOp): Address {
    let a = this.split.get(idx);
    if (a !== undefined) return a;
    const { copies } = this, form = indexForm(idx);
    const fixed: [UOp, number, number][] = [];
    const expanded: [number, number][] = [], opaque: [UOp, number][] = [];
    form.factors.forEach((f, i) => {
      const r = rangeOfFactor(f), c = form.coefs[i];
      if (r !== undefined && copies.isExpanded(r)) expanded.push([copies.sets.position(r), c]);
      else if (copies.changes.has(r ?? this.known(f))) opaque.push([f, c]);
      else fixed.push([f, c, this.depth(f)]);
    });
    fixed.sort((x, y) => x[2] - y[2]);
    let rest: UOp | undefined;
    for (const [atom, c] of fixed) rest = this.sum(rest, this.finish(atom), c);
    a = { rest, expanded, opaque, constant: form.constant, dtype: idx.dtype };
    this.split.set(idx, a);
    return a;
  }

  /** `v` plus `x` times `c`. */
  private sum(v: UOp | undefined, x: UOp, c: number): UOp {
    return this.finish(plus(v, this.finish(times(x, c))));
  }

  /** What the kernel has of an atom: the normal form may have cast it. */
  private known(atom: UOp): UOp {
    return this.copies.isKnown(atom) ? atom : atom.src[0];
  }

  /** Where in the loop order an atom becomes known. */
  private depth(atom: UOp): number {
    let depth = -1;
    for (const r of this.copies.rangesOf(this.known(atom))) depth = Math.max(depth, this.order.get(r)!);
    return depth;
  }
}

/** The comparison of whole numbers that a condition is, or is the opposite of; undefined for others. */
export function comparisonOf(c: UOp): UOp | undefined {
  const less = c.op === Ops.CMPNE && c.src[1].isConst(1) ? c.src[0] : c;
  return less.op === Ops.CMPLT && less.src[0].dtype.isInt ? less : undefined;
}

/** Lanes of vectors that are loaded under a mask, where they are of 32 bits. */
const MASKED_LANES: readonly number[] = [4, 8, 16];

/**
 * Is a LOAD of lanes that are neighbors one vector under a mask, though its gate varies by lane? Its gate then is conditions
 * with a step of one a lane, and what it gives elsewhere is 0.
 * @param maskedBytes of the largest vector that the device loads under a mask
 */
export function takesMask(u: UOp, lane: UOp, n: number, depends: (u: UOp) => boolean, maskedBytes: number): boolean {
  const gate = u.src[0].src[2] as UOp | undefined, isZero = u.src.length === 1 || u.src[1].isConst(0);
  if (gate === undefined || !isZero || u.dtype.itemsize !== 4) return false;
  if (n * 4 > maskedBytes || !MASKED_LANES.includes(n)) return false;
  return splitAnd(gate).every((c) => !depends(c) || Math.abs(stepOf(c, lane, n, depends)) === 1);
}

/** By how much the sides of a comparison come closer from lane to lane; NaN for what is none. */
function stepOf(c: UOp, lane: UOp, n: number, depends: (u: UOp) => boolean): number {
  const [from, to] = comparisonOf(c)?.src.map((s) => slopeOf(s, lane, n, depends) ?? NaN) ?? [NaN, NaN];
  return from - to;
}

/**
 * The lanes for which a gate holds, as the bits of a uint32: of conditions with a step of one a lane, each holds for all
 * lanes below some number or for the others. undefined where one has another step.
 * @param get what all lanes share @param first what the first lane has
 */
export function laneBits(
  gate: UOp,
  lane: UOp,
  n: number,
  depends: (u: UOp) => boolean,
  get: (u: UOp) => UOp,
  first: (u: UOp) => UOp,
): UOp | undefined {
  const word = dtypes.uint32, alu = (op: Ops, d: DType, ...src: UOp[]): UOp => buildAlu(op, d, src);
  const all = constant(2 ** n - 1, word);
  let bits: UOp = all, uniform: UOp = constant(1, dtypes.bool);
  for (const c of splitAnd(gate)) {
    if (!depends(c)) {
      uniform = alu(Ops.AND, dtypes.bool, uniform, get(c));
      continue;
    }
    const less = comparisonOf(c), step = stepOf(c, lane, n, depends);
    if (less === undefined || Math.abs(step) !== 1) return undefined;
    // a + step * lane < b: for lanes below b - a, or from a - b + 1 on
    const [a, b] = less.src.map(first), d = a.dtype, minus = (x: UOp): UOp => alu(Ops.MUL, d, x, constant(-1, d));
    const far = step === 1
      ? alu(Ops.ADD, d, b, minus(a))
      : alu(Ops.ADD, d, alu(Ops.ADD, d, a, minus(b)), constant(1, d));
    const most = alu(Ops.WHERE, d, alu(Ops.CMPLT, dtypes.bool, far, constant(n, d)), far, constant(n, d));
    const count = alu(Ops.MAX, d, most, constant(0, d)).cast(word);
    const below = alu(Ops.ADD, word, alu(Ops.SHL, word, constant(1, word), count), constant(2 ** 32 - 1, word));
    bits = alu(Ops.AND, word, bits, (step === 1) === (less === c) ? below : alu(Ops.XOR, word, below, all));
  }
  return alu(Ops.WHERE, word, uniform, bits, constant(0, word));
}
