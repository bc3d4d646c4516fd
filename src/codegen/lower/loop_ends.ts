/**
 * Loops of reductions end where conditions hide the rest, on CPUs. In: a kernel AST with its opts applied. Out: where its
 * loops end, as expressions of the loops around them and of what is in memory: the AST stays as it is.
 *
 * An element is hidden where a condition, a comparison that is linear in the loop, gives the number with which the reduction
 * begins: 0 of a sum, or a weight, which is the exponential of minus infinity; so causal attention reads half of its rows,
 * and the sum of a segment its own elements. A reduction of which all that reads it is selected by a condition that fails
 * for a whole tile does nothing there.
 *
 * Weights and what is added to minus infinity count as if numbers in memory were finite; one iteration is always done, so
 * that a row that is hidden as a whole is what it would be.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import {
  addTerm,
  copyLinear,
  emptyLinear,
  indexForm,
  type Linear,
  rangeOfFactor,
} from "../../uop/algebra/linear_form.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { type CarrierArg, carrierOf, identityConst } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { ownRanges, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { kindOf } from "../ast/range_facts.ts";
import { rebuildKernel } from "../ast/replace_ranges.ts";
import { type Bound, negativeWhere } from "../opt/chain_bounds.ts";

/** Iterations from which a loop is worth a look at how many of them count. */
const MANY = 4;

/** Share of a loop that is left as it is: an end that is computed is dearer than one that is known. */
const MOST = 7 / 8;

/** What a value is wherever the sum is not negative: a number, or a weight that is 0. */
interface Hidden {
  readonly sum: Readonly<Linear>;
  readonly is: number | "weight";
  /** Iterations that are done even so: 1 where numbers that are not finite would show. */
  readonly least: 0 | 1;
}

/** The iterations of a loop in which elements count. */
interface Part {
  readonly first?: UOp;
  readonly end?: UOp;
}

const NOTHING: readonly Hidden[] = [];

function isCopied(r: UOp): boolean {
  const kind = kindOf(r);
  return kind === AxisKind.UPCAST || kind === AxisKind.UNROLL || kind === AxisKind.VECTOR;
}

/** What two sets have in common. `Set.prototype.intersection`, which Node.js has from 22 on, gives them in this order too. */
function both<T>(a: ReadonlySet<T>, b: ReadonlySet<T>): Set<T> {
  return new Set(a.size <= b.size ? [...a].filter((x) => b.has(x)) : [...b].filter((x) => a.has(x)));
}

/** The sums of the clauses of a condition: it holds nowhere where one of them is not negative. */
function sumsOf(condition: UOp): Readonly<Linear>[] {
  return splitAnd(condition).flatMap((c) => negativeWhere(c) ?? []);
}

class Ends {
  private readonly known = new Map<UOp, readonly Hidden[]>();
  private readonly written: ReadonlySet<UOp>;

  constructor(private readonly ast: UOp) {
    this.written = new Set(ast.src.map((s) => s.src[0].src[0]));
  }

  run(): { ast: UOp; bounds: Bound[] } {
    const nodes = toposort(this.ast), reduces = nodes.filter((u) => u.op === Ops.REDUCE);
    if (!nodes.some((u) => this.hides(u))) return { ast: this.ast, bounds: [] };
    const guards = this.guards(nodes), parts = new Map<UOp, Part[]>();
    for (const u of reduces) {
      const own = ownRanges(u), hidden = this.hiddenOf(u), outside = guards.get(u)!;
      for (const r of own) {
        if (r.op !== Ops.RANGE || kindOf(r) !== AxisKind.REDUCE || sizeOf(r) < MANY) continue;
        const all = hidden.flatMap((h) => this.partOf(h, r, u) ?? []);
        if (r === own[0]) { for (const sum of outside) all.push(...this.noneOf(sum, r, u)); }
        const list = parts.get(r) ?? [];
        list.push({ end: foldOf(all.map((p) => p.end), least), first: foldOf(all.map((p) => p.first), most) });
        parts.set(r, list);
      }
    }
    // what several reductions share does all that one of them needs
    const bounds: Bound[] = [], shifts = new Map<UOp, UOp>();
    for (const [loop, list] of parts) {
      const ends = list.flatMap((p) => p.end ?? []), firsts = list.flatMap((p) => p.first ?? []);
      let end = ends.length < list.length ? undefined : foldOf(ends, most);
      const first = firsts.length < list.length ? undefined : foldOf(firsts, least);
      if (first !== undefined) {
        shifts.set(loop, loop.add(first));
        end = (end ?? constant(sizeOf(loop), loop.dtype)).add(first.mul(-1));
      }
      if (end !== undefined) bounds.push({ loop, end });
    }
    if (shifts.size === 0) return { ast: this.ast, bounds };
    // the end of a loop may depend on the place in one around it
    const placed = bounds.map(({ loop, end }) => ({ loop, end: substitute(end, shifts) }));
    return { ast: shifted(this.ast, shifts), bounds: placed };
  }

  private hides(u: UOp): boolean {
    return u.op === Ops.WHERE || (u.op === Ops.INDEX && u.src.length > 2);
  }

  // ---- what is hidden

  /** By node: the sums of clauses of which one that is not negative makes its value one that nothing reads. */
  private guards(nodes: readonly UOp[]): ReadonlyMap<UOp, ReadonlySet<Readonly<Linear>>> {
    const guards = new Map<UOp, ReadonlySet<Readonly<Linear>>>(), sums = new Map<UOp, Readonly<Linear>[]>();
    const none: ReadonlySet<Readonly<Linear>> = new Set();
    for (let k = nodes.length - 1; k >= 0; k--) {
      const u = nodes[k], mine = u.op === Ops.STAGE ? none : guards.get(u) ?? none;
      guards.set(u, mine);
      for (let i = 0; i < u.src.length; i++) {
        const s = u.src[i];
        let now = mine;
        if (u.op === Ops.WHERE && i === 1 && s !== u.src[0] && s !== u.src[2]) {
          const [c] = u.src, own = sums.get(c) ?? sumsOf(c);
          sums.set(c, own);
          if (own.length > 0) now = new Set([...mine, ...own]);
        }
        const before = guards.get(s);
        guards.set(s, before === undefined ? now : before.size === 0 ? before : both(before, now));
      }
    }
    return guards;
  }

  /** The sums that hide elements from a REDUCE. */
  private hiddenOf(u: UOp): readonly Hidden[] {
    const carrier = carrierOf(u);
    if (carrier.lanes !== 1 || u.src[0].op === Ops.WMMA) return [];
    const first = firstOf(carrier);
    return this.of(u.src[0]).filter(({ is }) => is === first || (is === "weight" && first === 0));
  }

  private of(u: UOp): readonly Hidden[] {
    let found = this.known.get(u);
    if (found === undefined) this.known.set(u, found = this.find(u));
    return found;
  }

  private find(u: UOp): readonly Hidden[] {
    const [a, b] = u.src, weights = (x: UOp): readonly Hidden[] => this.of(x).filter(({ is }) => is === "weight");
    const lowest = (x: UOp): Hidden[] =>
      this.of(x).filter(({ is }) => is === -Infinity).map((h) => ({ ...h, least: 1 }));
    switch (u.op) {
      case Ops.WHERE: {
        const is: unknown = u.src[2].op === Ops.CONST ? u.src[2].arg : undefined;
        if (typeof is !== "number") return NOTHING;
        return [...sumsOf(a).map((sum): Hidden => ({ sum, is, least: 0 })), ...this.of(b).filter((h) => h.is === is)];
      }
      case Ops.LOAD:
        if (u.src.length > 1) return NOTHING;
        if (a.src[0].op === Ops.STAGE) return a.src.length > 2 ? NOTHING : this.kept(a.src[0], a.src[1]);
        return a.src.length > 2 ? sumsOf(a.src[2]).map((sum) => ({ sum, is: 0, least: 0 })) : NOTHING;
      case Ops.CAST:
        return u.dtype.isFloat && a.dtype.isFloat
          ? this.of(a).filter(({ is }) => is === 0 || is === -Infinity || is === "weight")
          : NOTHING;
      case Ops.MUL:
        return b.op === Ops.CONST && b.value > 0 && b.value < Infinity
          ? this.of(a).filter(({ is }) => is === 0 || is === -Infinity || is === "weight")
          : [...weights(a), ...weights(b)];
      case Ops.ADD:
        return [...lowest(a), ...lowest(b)];
      case Ops.FDIV:
        return weights(a);
      case Ops.EXP2:
        return lowest(a).map((h) => ({ ...h, is: "weight" }));
    }
    return NOTHING;
  }

  /** What is hidden of what a STAGE keeps, by where it is read. */
  private kept(stage: UOp, idx: UOp): readonly Hidden[] {
    const ranges = ownRanges(stage), at = indexForm(idx);
    return this.of(stage.src[0]).flatMap(({ sum, is, least }) => {
      const rest = copyLinear(sum);
      // ranges that the sum has as one count of elements: digits of the place, innermost first
      const digits: { stride: number; size: number; step: number }[] = [];
      let stride = 1;
      for (const r of ranges.toReversed()) {
        const k = rest.factors.findIndex((f) => rangeOfFactor(f) === r), step = k < 0 ? 0 : rest.coefs[k];
        if (k >= 0) addTerm(rest, rest.factors[k], -step);
        const n = sizeOf(r), last = digits.at(-1);
        if (n === 0) return [];
        if (last !== undefined && step === last.step * last.size) last.size *= n;
        else if (n > 1) digits.push({ stride, size: n, step });
        stride *= n;
      }
      for (const { stride, size, step } of digits) {
        const part = digitOf(at, stride, size);
        if (part === undefined) return [];
        for (let i = 0; i < part.factors.length; i++) addTerm(rest, part.factors[i], part.coefs[i] * step);
        rest.constant += part.constant * step;
      }
      return [{ sum: rest, is, least }];
    });
  }

  // ---- ends

  /** The least value of a sum in one iteration of the loops around a REDUCE, apart from `loop`, and its step along that. */
  private leastOf(sum: Readonly<Linear>, loop: UOp, u: UOp): { rest: UOp; step: number } | undefined {
    const around = rangesOf(u);
    let least = sum.constant, step = 0;
    const terms: [UOp, number][] = [];
    for (let i = 0; i < sum.factors.length; i++) {
      const f = sum.factors[i], k = sum.coefs[i], r = rangeOfFactor(f);
      if (r === loop) step += k;
      else if (r !== undefined && (isCopied(r) || !around.includes(r))) {
        if (sizeOf(r) === 0) return undefined;
        if (k < 0) least += k * (sizeOf(r) - 1);
      } else if (this.isOutside(f, around)) terms.push([f, k]);
      else return undefined;
    }
    const dtype = terms.some(([f]) => f.dtype.bits > 32) ? dtypes.int64 : dtypes.int32;
    const parts = terms.map(([f, k]) => (f.dtype === dtype ? f : f.cast(dtype)).mul(k));
    return { rest: parts.reduce((a, b) => a.add(b), constant(least, dtype)), step };
  }

  /** Is it computed outside of a loop, in the loops `around`, of what the kernel does not change? */
  private isOutside(f: UOp, around: readonly UOp[]): boolean {
    return f.dtype.isInt && rangesOf(f).every((r) => around.includes(r) && !isCopied(r)) &&
      toposort(f).every((x) =>
        x.op !== Ops.REDUCE && x.op !== Ops.STAGE &&
        (x.op !== Ops.LOAD || (x.src[0].src[0].op === Ops.PARAM && !this.written.has(x.src[0].src[0])))
      );
  }

  /** The part of `loop` in which elements count, if they do only where the sum is negative. */
  private partOf({ sum, least: some }: Hidden, loop: UOp, u: UOp): Part | undefined {
    const found = this.leastOf(sum, loop, u);
    if (found === undefined || found.step === 0) return undefined;
    const { rest, step } = found, n = sizeOf(loop), by = Math.abs(step);
    if (step > 0) {
      const end = rest.mul(-1).add(by - 1).floorDiv(by);
      if (share(vmin(end), vmax(end), n) > MOST) return undefined;
      return { end: asEnd(within(end, some, n), loop) };
    }
    const first = rest.floorDiv(by).add(1), last = n - some;
    if (share(n - vmax(first), n - vmin(first), n) > MOST) return undefined;
    return { first: asEnd(within(first, 0, last), loop) };
  }

  /** No part of `loop` where the sum, in which it does not stand, is negative for no element of the tile. */
  private noneOf(sum: Readonly<Linear>, loop: UOp, u: UOp): Part[] {
    const found = this.leastOf(sum, loop, u);
    if (found === undefined || found.rest.op === Ops.CONST) return [];
    const { rest } = found;
    if (share(-vmax(rest), -vmin(rest), 1) > MOST) return [];
    return [{ end: rest.lt(0).where(constant(sizeOf(loop), loop.dtype), constant(0, loop.dtype)) }];
  }
}

/** The expected value, as a share of `n`, of what is spread evenly from `low` to `high` and then held within 0 and `n`. */
function share(low: number, high: number, n: number): number {
  if (high <= low) return Math.min(Math.max(low, 0), n) / n;
  const area = (x: number): number => x <= 0 ? 0 : x >= n ? n * x - n * n / 2 : x * x / 2;
  return (area(high) - area(low)) / (high - low) / n;
}

/** `u` held within `low` and `high`. */
function within(u: UOp, low: number, high: number): UOp {
  return u.lt(high).where(u, constant(high, u.dtype)).max(low);
}

function least(a: UOp, b: UOp): UOp {
  return a.lt(b).where(a, b);
}
function most(a: UOp, b: UOp): UOp {
  return a.lt(b).where(b, a);
}
function foldOf(list: readonly (UOp | undefined)[], by: (a: UOp, b: UOp) => UOp): UOp | undefined {
  return list.reduce((a, b) => a === undefined ? b : b === undefined ? a : by(a, b), undefined);
}

/** The AST where sums count their loops from elsewhere. */
function shifted(ast: UOp, shifts: ReadonlyMap<UOp, UOp>): UOp {
  return rebuildKernel(ast, (u, src) => {
    if (u.op !== Ops.REDUCE || carrierOf(u).lanes > 1) return undefined;
    const own = ownRanges(u).filter((r) => shifts.has(r));
    if (own.length === 0) return undefined;
    return [u.withSrc([substitute(src[0], new Map(own.map((r) => [r, shifts.get(r)!]))), ...src.slice(1)])];
  });
}

/** Of a place: its digit of `size` values that counts `stride` elements; undefined where it is no sum of what `at` has. */
function digitOf(at: Readonly<Linear>, stride: number, size: number): Linear | undefined {
  const whole = stride * size, part = emptyLinear(Math.floor(at.constant % whole / stride));
  let most = part.constant, below = at.constant % stride;
  if (at.constant < 0) return undefined;
  for (let i = 0; i < at.factors.length; i++) {
    const c = at.coefs[i], r = rangeOfFactor(at.factors[i]);
    if (c % whole === 0) continue;
    if (c < 0 || r === undefined || sizeOf(r) === 0) return undefined;
    if (c % stride === 0) {
      addTerm(part, at.factors[i], c / stride);
      most += c / stride * (sizeOf(r) - 1);
    } else below += c * (sizeOf(r) - 1);
  }
  return most < size && below < stride ? part : undefined;
}

function asEnd(u: UOp, loop: UOp): UOp {
  return u.dtype === loop.dtype ? u : u.cast(loop.dtype);
}

/** The number with which a reduction begins. */
function firstOf(carrier: CarrierArg): unknown {
  return identityConst(carrier, 0, carrier.dtypes[0]).arg;
}

/** Where loops of reductions end before their last iteration; with the AST, in which they may begin later. */
export function loopEnds(ast: UOp): { ast: UOp; bounds: readonly Bound[] } {
  return mayHave(ast, Ops.CMPLT) && mayHave(ast, Ops.REDUCE) ? new Ends(ast).run() : { ast, bounds: [] };
}
