/**
 * For languages whose vectors only move: in goes a linear program, out comes one whose arithmetic is scalar. Vectors are
 * left where memory and matrix units have them: what LOAD, LDMATRIX and WMMA give, and VECTORIZEs that STORE and WMMA take.
 *
 * Lanes of 8 and 16 bits travel in words of 32 bits: such a VECTORIZE has words as sources (vectors of 2 or 4 lanes), and a
 * word is a VECTORIZE of scalars, a CAST of two float32 at once, or an EXTRACT of a vector dtype, whose arg counts words.
 * Two ops tell more than elsewhere: EXP2 with arg "e" is e^x, made from 2^(x * log2 e); CAST of float32 to itself with arg
 * "bfloat16" rounds to that, made from two CASTs.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { SpecError } from "../helpers/errors.ts";
import { rangeOf, roundUp } from "../helpers/math.ts";
import { AccArg, argOf } from "../uop/core/args.ts";
import { isAlu, opName, Ops } from "../uop/core/ops.ts";
import { store, type UOp, uop } from "../uop/core/uop.ts";
import { baseOf, throughAfter } from "../uop/rewrite/walk.ts";
import { naturalExponent } from "./natural.ts";
import { isShared } from "./visitor.ts";
import { joinUnits } from "./wide_units.ts";
import type { GridCaps, LinearProgram } from "./renderer.ts";
import { readsShared, SWIZZLE_ALIGN, unitOf } from "./tensor_core_table.ts";

/** The arg of a CAST that rounds a float32 to bfloat16 and leaves it a float32. */
export const ROUNDED = "bfloat16";

/** Lanes that one word of 32 bits holds; 1 for wider ones. */
export function lanesOfWord(d: DType): number {
  return Math.max(1, 32 / d.bits);
}

/** Whether values of this vector dtype travel in words (of 32 bits, or one of 16): lanes of 8 and 16 bits. */
export function isPacked(d: DType): boolean {
  return d.count > 1 && d.bits < 32;
}

/** Words of a packed vector: two lanes of 8 bits are half of one. */
export function wordsOf(d: DType): number {
  return Math.max(1, d.itemsize >> 2);
}

class Lanes {
  private out: UOp[] = [];
  /** What has been listed, by open scope. */
  private readonly scopes: UOp[][] = [[]];
  private readonly listed = new Set<UOp>();
  private readonly values = new Map<UOp, readonly UOp[]>();
  private readonly wholes = new Map<UOp, UOp>();
  private nextAcc = 0;
  /** ACCs that matrix units add to where they are, and the lanes of those that they may be adding to. */
  private readonly tiles = new Set<UOp>();
  private readonly sums: UOp[] = [];
  /** By value that a unit begins to add to, and that is not where the sum is kept: the ACC that it is. */
  private readonly homes = new Map<UOp, UOp>();

  constructor(private readonly uops: readonly UOp[]) {
    for (const u of uops) {
      if (u.op === Ops.ACC) this.nextAcc = Math.max(this.nextAcc, argOf(u, Ops.ACC).id + 1);
      else if (u.op === Ops.STORE && readsShared(u.src[1])) {
        let first = u.src[1];
        while (readsShared(first)) first = first.src[2];
        const acc = throughAfter(u.src[0]);
        this.tiles.add(acc);
        if (first.op !== Ops.LOAD) this.homes.set(first, acc);
      }
    }
  }

  private emit(u: UOp): UOp {
    if (this.listed.has(u)) return u;
    this.listed.add(u);
    this.scopes[this.scopes.length - 1].push(u);
    this.out.push(u);
    return u;
  }

  /** The lanes of a value; what a node without a value became. */
  private of(u: UOp): readonly UOp[] {
    const known = this.values.get(u);
    if (known !== undefined) return known;
    if (u.op === Ops.CONST && u.dtype.count > 1) {
      const lane = uop(Ops.CONST, u.dtype.scalar, [], u.arg);
      return new Array<UOp>(u.dtype.count).fill(lane);
    }
    return [u];
  }
  private one(u: UOp): UOp {
    return this.of(u)[0];
  }

  /** Lists the vector of `lanes`. */
  private vector(lanes: readonly UOp[], d: DType): UOp {
    const first = lanes[0];
    if (first.op === Ops.EXTRACT) {
      const v = first.src[0], at = argOf(first, Ops.EXTRACT), n = lanes.length;
      if (at % n === 0 && lanes.every((x, l) => x.op === Ops.EXTRACT && x.src[0] === v && x.arg === at + l)) {
        if (v.dtype.count === n) return v;
        if (isPacked(d) && n === lanesOfWord(d)) return this.emit(uop(Ops.EXTRACT, d, [v], at / n));
      }
    }
    const word = lanesOfWord(d);
    if (isPacked(d) && lanes.length > word) {
      const words: UOp[] = [];
      for (let l = 0; l < lanes.length; l += word) words.push(this.vector(lanes.slice(l, l + word), d.vec(word)));
      const all = words[0];
      if (
        all.op === Ops.EXTRACT && words.length === wordsOf(all.src[0].dtype) &&
        words.every((x, i) => x.op === Ops.EXTRACT && x.src[0] === all.src[0] && x.arg === i)
      ) return all.src[0];
      return this.emit(uop(Ops.VECTORIZE, d, words));
    }
    const isRounded = (x: UOp): boolean => x.op === Ops.CAST && x.src[0].dtype === dtypes.float32;
    if (d.isFloat && d.bits === 16 && lanes.length === 2 && lanes.every(isRounded)) {
      const pair = this.emit(uop(Ops.VECTORIZE, dtypes.float32.vec(2), lanes.map((x) => x.src[0])));
      return this.emit(uop(Ops.CAST, d, [pair]));
    }
    return this.emit(uop(Ops.VECTORIZE, d, lanes));
  }

  /** A value as memory and matrix units take it. */
  private whole(u: UOp): UOp {
    if (u.dtype.count === 1) return this.one(u);
    return this.wholes.get(u) ?? this.vector(this.of(u), u.dtype);
  }

  /** Lists a node that gives a vector, and its lanes. */
  private origin(u: UOp, made: UOp): void {
    this.emit(made);
    if (made.dtype.count === 1) return void this.values.set(u, [made]);
    this.wholes.set(u, made);
    const scalar = made.dtype.scalar;
    this.values.set(
      u,
      Array.from({ length: made.dtype.count }, (_, l) => this.emit(uop(Ops.EXTRACT, scalar, [made], l))),
    );
  }

  private visit(u: UOp): void {
    const n = u.dtype.count;
    const each = (fn: (l: number) => UOp): void =>
      void this.values.set(u, Array.from({ length: n }, (_, l) => this.emit(fn(l))));
    const lane = (s: UOp, l: number): UOp => {
      const all = this.of(s);
      return all.length === 1 ? all[0] : all[l];
    };
    switch (u.op) {
      case Ops.TUPLE:
      case Ops.SINK:
      case Ops.GROUP:
        return;
      case Ops.CONST:
        if (n === 1) this.emit(u);
        return;
      case Ops.BROADCAST:
        return void this.values.set(u, new Array<UOp>(n).fill(this.one(u.src[0])));
      case Ops.VECTORIZE:
        return void this.values.set(u, u.src.map((s) => this.one(s)));
      case Ops.EXTRACT:
        return void this.values.set(u, [lane(u.src[0], argOf(u, Ops.EXTRACT))]);
      case Ops.WMMA:
        if (readsShared(u)) return this.addTo(u);
        return this.origin(u, u.withSrc(u.src.map((s) => this.whole(s))));
      case Ops.ACC:
        if (n === 1) break;
        return each((l) =>
          uop(Ops.ACC, u.dtype.scalar, [lane(u.src[0], l), ...u.src.slice(1)], new AccArg(this.nextAcc++))
        );
      case Ops.AFTER:
        if (n === 1) break;
        return each((l) => uop(Ops.AFTER, u.dtype.scalar, u.src.map((s) => lane(s, l))));
      case Ops.UNIT:
        // each stands where it is, also what another one of its kind came before
        this.out.push(u.withSrc(u.arg === 0 ? this.sums.splice(0) : u.src.flatMap((s) => this.held(s))));
        return;
      case Ops.LOAD:
        if (this.isTile(u.src[0])) {
          const lanes = this.of(throughAfter(u.src[0]));
          // before the loop is over the unit has them
          if (u.src[1].op === Ops.RANGE) return void this.values.set(u, lanes);
          return each((l) => uop(Ops.LOAD, u.dtype.scalar, [lanes[l]]));
        }
        if (this.isAcc(u.src[0])) {
          return each((l) => uop(Ops.LOAD, u.dtype.scalar, u.src.map((s) => lane(s, l)), u.arg));
        }
        return this.origin(u, u.withSrc([this.one(u.src[0]), ...u.src.slice(1).map((s) => this.whole(s))]));
      case Ops.LDMATRIX:
        return this.origin(u, u.withSrc(u.src.map((s) => this.one(s))));
      case Ops.STORE: {
        const value = u.src[1];
        if (this.isTile(u.src[0])) return void this.values.set(u, []);
        if (!this.isAcc(u.src[0])) {
          return void this.values.set(u, [this.emit(u.withSrc([this.one(u.src[0]), this.whole(value)]))]);
        }
        const stores = Array.from({ length: value.dtype.count }, (_, l) => {
          return this.emit(uop(Ops.STORE, u.dtype, [lane(u.src[0], l), lane(value, l)]));
        });
        return void this.values.set(u, stores);
      }
      case Ops.RANGE:
      case Ops.IF:
        this.values.set(u, [this.emit(u.withSrc(u.src.map((s) => this.one(s))))]);
        this.scopes.push([]);
        return;
      case Ops.END:
      case Ops.ENDIF:
        for (const x of this.scopes.pop()!) this.listed.delete(x);
        break;
      case Ops.BITCAST:
        if (n !== u.src[0].dtype.count) throw new SpecError(`${opName[u.op]} from ${u.src[0].dtype} to ${u.dtype}`);
    }
    if (n > 1) return each((l) => this.special(uop(u.op, u.dtype.scalar, u.src.map((s) => lane(s, l)), u.arg)));
    const src = u.src.flatMap((s) => s.dtype.kind === "void" ? this.of(s) : this.one(s));
    this.values.set(u, [this.emit(this.special(u.withSrc(src)))]);
  }

  /**
   * A product that is added to its sum where that is: to lanes of an ACC. In: words of a left operand that lanes hold, or where
   * it is, where the right one is, whether there is something in the lanes yet, and those.
   */
  private addTo(u: UOp): void {
    const [a, b, c] = u.src, isFirst = c.op === Ops.CONST;
    const lanes = !isFirst ? this.of(c) : this.of(c).map((x) => {
      return this.emit(uop(Ops.ACC, x.dtype, [], new AccArg(this.nextAcc++)));
    });
    for (const x of lanes) if (!this.sums.includes(x)) this.sums.push(x);
    const left = unitOf(u).shared![0] === undefined ? this.held(a) : [this.one(a)];
    const src = [...left, this.one(b), uop(Ops.CONST, dtypes.bool, [], isFirst ? 0 : 1), ...lanes];
    this.emit(uop(Ops.WMMA, dtypes.void, src, u.arg));
    this.values.set(u, lanes);
  }

  /** The registers that a unit reads of a value, or adds to: words of small elements, else lanes. */
  private held(u: UOp): UOp[] {
    const lanes = this.of(u), word = lanesOfWord(u.dtype.scalar);
    if (word === 1) return lanes.slice();
    return rangeOf(lanes.length / word).map((i) =>
      this.vector(lanes.slice(i * word, (i + 1) * word), u.dtype.scalar.vec(word))
    );
  }

  /** A value that a unit begins to add to: it becomes the sum's. */
  private bringHome(u: UOp, acc: UOp): void {
    const lanes = this.of(acc);
    lanes.forEach((x, l) => this.emit(store(x, this.of(u)[l])));
    this.values.set(u, lanes);
  }

  private isTile(u: UOp): boolean {
    return this.tiles.has(throughAfter(u));
  }
  private isAcc(u: UOp): boolean {
    return throughAfter(u).op === Ops.ACC;
  }

  /** e^y under the arg "e", two CASTs as one that rounds. */
  private special(u: UOp): UOp {
    const { dtype, src: [s] } = u;
    if (u.op === Ops.CAST && dtype === dtypes.float32 && s.op === Ops.CAST && s.dtype === dtypes.bfloat16) {
      return s.src[0].dtype === dtype ? uop(Ops.CAST, dtype, s.src, ROUNDED) : u;
    }
    const y = u.arg === undefined ? naturalExponent(u) : undefined;
    return y === undefined ? u : uop(Ops.EXP2, dtype, [y], "e");
  }

  run(): UOp[] {
    for (const u of this.uops) {
      this.visit(u);
      const home = this.homes.get(u);
      if (home !== undefined) this.bringHome(u, home);
    }
    return this.out;
  }
}

/** Where in shared memory a product reads its operands: those of `u`, of a program as renderers are given it, or in lanes. */
export function sharedPlaces(u: UOp): readonly UOp[] {
  return u.src.filter((s) => throughAfter(s).op === Ops.INDEX);
}

/** Registers of a thread, at most. */
export const MOST_REGISTERS = 255;
/** Bytes of shared memory that a group takes beside its own. */
const GROUP_SHARED = 1024;
/** Registers of a thread beside what units have. */
const OTHER_REGISTERS = 24;

/** Groups for whose shared memory and registers a multiprocessor has room. */
export function groupsOfUnit(
  { unitRegisters, unitShared }: Pick<GridCaps, "unitRegisters" | "unitShared">,
  sharedBytes: number,
  registers: number,
  threads: number,
): number {
  return Math.min(
    Math.floor(unitShared / (sharedBytes + GROUP_SHARED)),
    Math.floor(unitRegisters / (registers * threads)),
  );
}

/**
 * Groups of the program, in lanes, that are to have room on a multiprocessor at a time. One where tiles are in registers: the
 * assembler's own guess is more and no operands ahead. More where their sums and operands leave room, and units of one group
 * may go on while others compute. undefined where there are no tiles.
 */
export function residentGroups(program: LinearProgram, grid: GridCaps | undefined): number | undefined {
  const held = new Set<UOp>(), readsRegisters = (u: UOp): boolean => unitOf(u).shared?.[0] === undefined;
  let hasTiles = false;
  for (const u of program.uops) {
    if (u.op === Ops.ACC) held.add(u);
    if (u.op !== Ops.WMMA) continue;
    hasTiles = true;
    if (u.dtype !== dtypes.void || !readsRegisters(u)) return 1;
    for (const s of u.src) if (s.op !== Ops.CONST && throughAfter(s).op !== Ops.INDEX) held.add(s);
  }
  if (!hasTiles) return undefined;
  const registers = Math.min(MOST_REGISTERS + 1, roundUp(held.size + OTHER_REGISTERS, 8));
  return Math.max(1, groupsOfUnit(grid!, sharedBytesOf(program), registers, threadsOf(program)));
}

/** What is nothing but its value, beside arithmetic. */
const PURE: readonly Ops[] = [Ops.EXTRACT, Ops.VECTORIZE, Ops.CONST, Ops.INDEX];

/** Drops the values that nothing uses. */
function withoutUnused(list: readonly UOp[]): UOp[] {
  const used = new Set<UOp>(), out: UOp[] = [];
  for (let i = list.length - 1; i >= 0; i--) {
    const u = list[i];
    const isPure = isAlu(u.op) || PURE.includes(u.op);
    if (isPure && !used.has(u)) continue;
    for (const s of u.src) used.add(s);
    out.push(u);
  }
  return out.reverse();
}

/** The program with scalar arithmetic. */
export function inLanes(program: LinearProgram): LinearProgram {
  return { ...program, uops: withoutUnused(joinUnits(new Lanes(program.uops).run())) };
}

/** What says how large elements are in shared memory. */
type SharedItems = Pick<GridCaps, "sharedItem">;

/** Bytes of an element in shared memory. */
export function sharedItemOf(dtype: DType, grid?: SharedItems): number {
  return grid?.sharedItem?.(dtype) ?? dtype.itemsize;
}

/** Each LOCAL in shared memory begins at a multiple of so many bytes. */
export const SHARED_ALIGN = 128;

/** The shared memory of a group. */
interface SharedLayout {
  /** Where it holds each LOCAL, in bytes. */
  readonly at: ReadonlyMap<UOp, number>;
  /** How much of it there is, and a multiple of what its address must be. */
  readonly nbytes: number;
  readonly align: number;
}

/** Where the shared memory of a group holds each LOCAL. `grid` says how large elements are there. */
export function sharedLayout(program: LinearProgram, grid?: SharedItems): SharedLayout {
  const at = new Map<UOp, number>();
  const swizzled = new Set(program.uops.flatMap((u) => readsShared(u) ? sharedPlaces(u).map(baseOf) : []));
  let nbytes = 0;
  for (const u of program.uops) {
    if (!isShared(u) || at.has(u)) continue;
    nbytes = roundUp(nbytes, swizzled.has(u) ? SWIZZLE_ALIGN : SHARED_ALIGN);
    at.set(u, nbytes);
    nbytes += argOf(u, Ops.LOCAL).size * sharedItemOf(u.dtype, grid);
  }
  return { at, nbytes, align: swizzled.size > 0 ? SWIZZLE_ALIGN : SHARED_ALIGN };
}

/** Bytes of shared memory that buffers of these sizes take together. */
export function sharedBytesFor(nbytes: readonly number[]): number {
  return nbytes.reduce((sum, n) => sum + roundUp(n, SHARED_ALIGN), 0);
}

/** Bytes of shared memory that a launch of the program asks for. */
export function sharedBytesOf(program: LinearProgram, grid?: SharedItems): number {
  return sharedLayout(program, grid).nbytes;
}

/** Threads of a group of the program. */
export function threadsOf(program: LinearProgram): number {
  return program.grid === undefined ? 1 : program.grid.size.reduce((a, b) => a * b, 1);
}
