/**
 * Programs whose buffers are larger than what one binding holds. In: a linear program with a grid. Out: a program in which
 * such a parameter is one or several windows of the buffer, each a parameter of its own, and the launches that make up
 * one of the whole: boxes of groups, and where in each buffer their windows begin.
 *
 * How far the accesses of a box reach is known from the bounds of their indices. A box that reaches farther than the
 * windows is cut in two, along the dimension that shortens its reach most; where even one group reaches farther, or boxes
 * become too many, a parameter gets another window, and each access chooses among them by its index.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { byteText, DeviceError } from "../helpers/errors.ts";
import { vmax, vmin } from "../uop/algebra/bounds.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { index, int, param, store, type UOp, uop, variable } from "../uop/core/uop.ts";
import { substitute } from "../uop/rewrite/rewrite.ts";
import { throughAfter } from "../uop/rewrite/walk.ts";
import { type LinearProgram, programOf } from "./renderer.ts";

type Triple = readonly [number, number, number];

/** `sizes` with another one of dimension `d`. */
function withSize(sizes: Triple, d: number, size: number): Triple {
  const made: [number, number, number] = [...sizes];
  made[d] = size;
  return made;
}

/** One launch: a box of groups. */
export interface Box {
  /** The first group, by dimension. */
  readonly first: Triple;
  /** How many groups, by dimension. */
  readonly count: Triple;
  /** Where the windows of each large parameter begin, in bytes, by its slot in the program that was split. */
  readonly starts: ReadonlyMap<number, number>;
}

/** What the host passes for a scalar argument: one of the launch, the first group of the box, or where a window begins. */
export type WindowVar =
  | { readonly kind: "given"; readonly position: number }
  | { readonly kind: "group"; readonly dimension: number }
  | { readonly kind: "start"; readonly slot: number; readonly itemsize: number };

/** A parameter of the split program: a window of one of the whole, or all of it. */
export interface WindowSlot {
  readonly slot: number;
  /** Windows of the buffer before this one; undefined where it is bound as a whole. */
  readonly part: number | undefined;
}

/** A program in windows. */
export interface Windows {
  readonly program: LinearProgram;
  /** Bytes of a window. */
  readonly nbytes: number;
  readonly slots: readonly WindowSlot[];
  readonly vars: readonly WindowVar[];
  readonly boxes: readonly Box[];
}

/** What a device binds. */
export interface BindingLimits {
  readonly device: string;
  /** Bytes of a binding, and what its offset is a multiple of. */
  readonly maxBytes: number;
  readonly align: number;
  /** Bindings of a program. */
  readonly maxBuffers: number;
}

/** Launches that one is split into, at most: the fewest are tried first, more where windows do not suffice. */
const MAX_BOXES = [64, 1024, 16384];

/** A parameter that no binding holds. */
interface Large {
  readonly slot: number;
  readonly dtype: DType;
  readonly size: number;
  /** Indices of its accesses, and the lanes of each. */
  readonly accesses: { readonly at: UOp; readonly lanes: number }[];
}

/** Parameters that are larger than a binding. */
function largeParams(program: LinearProgram, maxBytes: number): Large[] {
  const out = new Map<number, Large>();
  for (const p of program.params) {
    if (p !== undefined && p.size * p.dtype.itemsize > maxBytes) out.set(p.slot, { ...p, accesses: [] });
  }
  if (out.size === 0) return [];
  for (const u of program.uops) {
    if (u.op !== Ops.LOAD && u.op !== Ops.STORE) continue;
    const place = throughAfter(u.src[0]);
    if (place.op !== Ops.INDEX) continue;
    const base = throughAfter(place.src[0]);
    if (base.op !== Ops.PARAM) continue;
    const lanes = (u.op === Ops.LOAD ? u : u.src[1]).dtype.count;
    out.get(argOf(base, Ops.PARAM).slot)?.accesses.push({ at: place.src[1], lanes });
  }
  return [...out.values()];
}

/** Finds the boxes, and how many windows each large parameter needs. */
class Cutter {
  /** Windows by slot. */
  readonly counts = new Map<number, number>();
  readonly boxes: Box[] = [];
  private readonly specials: (UOp | undefined)[] = [undefined, undefined, undefined];
  /** Bytes of a window. */
  readonly windowBytes: number;

  constructor(
    private readonly program: LinearProgram,
    private readonly large: readonly Large[],
    private readonly limits: BindingLimits,
    private readonly maxBoxes: number,
  ) {
    this.windowBytes = limits.maxBytes - limits.maxBytes % limits.align;
    for (const u of program.uops) {
      if (u.op === Ops.SPECIAL && argOf(u, Ops.SPECIAL).startsWith("gidx")) {
        this.specials[Number(argOf(u, Ops.SPECIAL)[4])] = u;
      }
    }
    for (const p of large) this.counts.set(p.slot, 1);
  }

  /** The bytes of a parameter that a box touches, from an aligned one on. */
  private reach(p: Large, map: ReadonlyMap<UOp, UOp>): [from: number, to: number] {
    let low = p.size - 1, high = 0;
    for (const { at, lanes } of p.accesses) {
      const idx = substitute(at, map);
      low = Math.min(low, Math.max(0, vmin(idx)));
      high = Math.max(high, Math.min(p.size, vmax(idx) + lanes) - 1);
    }
    const { itemsize } = p.dtype, from = Math.min(low, high) * itemsize;
    return [from - from % this.limits.align, (high + 1) * itemsize];
  }
  private reaches(first: Triple, count: Triple): [from: number, to: number][] {
    const map = new Map<UOp, UOp>();
    this.specials.forEach((u, d) => u && map.set(u, variable(`gidx${d}`, first[d], first[d] + count[d] - 1)));
    return this.large.map((p) => this.reach(p, map));
  }
  private windowsFor([from, to]: readonly [number, number]): number {
    return Math.ceil((to - from) / this.windowBytes);
  }

  /** Adds a box, cut until it fits; false where a parameter needs another window first, which it then has. */
  private cut(first: Triple, count: Triple): boolean {
    const reaches = this.reaches(first, count);
    if (this.large.every((p, i) => this.windowsFor(reaches[i]) <= this.counts.get(p.slot)!)) {
      this.boxes.push({ first, count, starts: new Map(this.large.map((p, i) => [p.slot, reaches[i][0]])) });
      return true;
    }
    let best = -1, least = Infinity;
    for (let d = 2; d >= 0; d--) {
      if (count[d] === 1) continue;
      const half = withSize(count, d, Math.ceil(count[d] / 2));
      const bytes = this.reaches(first, half).reduce((sum, [from, to]) => sum + to - from, 0);
      if (bytes < least) [best, least] = [d, bytes];
    }
    if (best < 0 || this.boxes.length >= this.maxBoxes) return this.widen(reaches);
    const half = Math.ceil(count[best] / 2);
    return this.cut(first, withSize(count, best, half)) &&
      this.cut(
        withSize(first, best, first[best] + half),
        withSize(count, best, count[best] - half),
      );
  }
  /** Gives what reaches too far another window, the least first. */
  private widen(reaches: readonly [number, number][]): false {
    const needs = this.large.map((p, i) => [p.slot, this.windowsFor(reaches[i])] as const)
      .filter(([slot, n]) => n > this.counts.get(slot)!).sort((a, b) => a[1] - b[1]);
    this.counts.set(...needs[0]);
    return false;
  }

  /** Bindings that a launch takes: the windows, and the parameters that are bound as a whole. */
  bindings(): number {
    let bindings = this.program.params.filter((p) => p !== undefined).length - this.large.length;
    for (const n of this.counts.values()) bindings += n;
    return bindings;
  }

  /** Finds boxes and windows; false where that takes more bindings than there are. */
  run(): boolean {
    const count = (d: number): number => {
      const special = this.specials[d];
      return special === undefined ? 1 : Math.max(1, vmax(special.src[0]));
    };
    const all: Triple = [count(0), count(1), count(2)];
    while (!this.cut([0, 0, 0], all)) {
      if (this.bindings() > this.limits.maxBuffers) return false;
      this.boxes.length = 0;
    }
    return true;
  }
}

/** Writes the program anew, with windows for its large parameters. */
class Rewriter {
  private readonly out: UOp[] = [];
  private readonly listed = new Set<UOp>();
  /** What a node became. */
  private readonly memo = new Map<UOp, UOp>();
  /** The windows that a parameter, or an index of one, became; and for indices which of them holds the element. */
  private readonly parts = new Map<UOp, readonly UOp[]>();
  private readonly tests = new Map<UOp, readonly UOp[]>();
  private readonly starts = new Map<number, UOp>();
  readonly slots: WindowSlot[];
  readonly passed = new Map<UOp, WindowVar>();

  constructor(
    private readonly program: LinearProgram,
    large: readonly Large[],
    private readonly counts: ReadonlyMap<number, number>,
    private readonly nbytes: number,
    private readonly boxes: readonly Box[],
  ) {
    this.slots = Array.from(program.params, (_, slot) => ({ slot, part: counts.has(slot) ? 0 : undefined }));
    program.vars.forEach((v, position) => this.passed.set(v, { kind: "given", position }));
    for (const { slot, size, dtype } of large) {
      const start = variable(`start_${slot}`, 0, size, size > 2 ** 31 - 1 ? dtypes.int64 : dtypes.int32);
      this.starts.set(slot, this.emit(start));
      this.passed.set(start, { kind: "start", slot, itemsize: dtype.itemsize });
    }
  }

  private emit(u: UOp): UOp {
    for (const s of u.src) if (s.op === Ops.CONST) this.emit(s);
    if (!this.listed.has(u)) {
      this.listed.add(u);
      this.out.push(u);
    }
    return u;
  }
  private now(u: UOp): UOp {
    return this.memo.get(u) ?? u;
  }
  /** Sources as they are now; what became several nodes is all of them. */
  private sources(u: UOp): UOp[] {
    return u.src.flatMap((s) => this.parts.get(s) ?? this.now(s));
  }

  private group(u: UOp): void {
    const dimension = Number(argOf(u, Ops.SPECIAL)[4]), made = this.emit(u.withSrc(this.sources(u)));
    if (this.boxes.every((b) => b.first[dimension] === 0)) return;
    const first = this.emit(variable(`group_${dimension}`, 0, Math.max(0, vmax(u.src[0]) - 1)));
    this.passed.set(first, { kind: "group", dimension });
    this.memo.set(u, this.emit(made.add(first)));
  }

  private param(u: UOp): void {
    const { slot, size } = argOf(u, Ops.PARAM), count = this.counts.get(slot);
    if (count === undefined) return void this.emit(u);
    const elements = Math.min(size, this.nbytes / u.dtype.itemsize);
    this.parts.set(
      u,
      Array.from({ length: count }, (_, part) => {
        if (part > 0) this.slots.push({ slot, part });
        return this.emit(param(part === 0 ? slot : this.slots.length - 1, u.dtype, elements));
      }),
    );
  }

  /** An INDEX in each of the windows, relative to its begin. */
  private index(u: UOp): void {
    const bases = this.parts.get(u.src[0])!, { slot } = argOf(throughAfter(u.src[0]), Ops.PARAM);
    const idx = this.now(u.src[1]), start = this.starts.get(slot)!, wide = start.dtype === dtypes.int64;
    const same = (x: UOp): UOp => !wide || x.dtype === start.dtype ? x : this.emit(x.cast(start.dtype));
    let own = this.emit(uop(Ops.SUB, start.dtype, [same(idx), start]));
    if (wide) own = this.emit(own.cast(dtypes.int32));
    const elements = this.nbytes / u.dtype.itemsize, gate = u.src.slice(2).map((g) => this.now(g));
    const tests: UOp[] = [];
    this.parts.set(
      u,
      bases.map((base, part) => {
        if (part < bases.length - 1) tests.push(this.emit(own.lt(int(elements * (part + 1)))));
        const at = part === 0 ? own : this.emit(uop(Ops.SUB, own.dtype, [own, int(elements * part)]));
        return this.emit(index(base, at, ...gate));
      }),
    );
    this.tests.set(u, tests);
  }

  /** An index of a memory of fewer elements, computed in 64 bits with others. */
  private narrow(u: UOp): void {
    const [base, idx, ...gate] = this.sources(u);
    this.memo.set(u, this.emit(index(base, this.emit(idx.cast(dtypes.int32)), ...gate)));
  }

  private load(u: UOp): void {
    const places = this.parts.get(u.src[0])!, tests = this.tests.get(throughAfter(u.src[0]))!;
    const values = places.map((p) => this.emit(uop(Ops.LOAD, u.dtype, [p, ...u.src.slice(1).map((s) => this.now(s))])));
    let value = values[values.length - 1];
    for (let part = values.length - 2; part >= 0; part--) {
      value = this.emit(this.lanes(tests[part], u.dtype).where(values[part], value));
    }
    this.memo.set(u, value);
  }
  private lanes(test: UOp, d: DType): UOp {
    return d.count === 1 ? test : this.emit(uop(Ops.BROADCAST, dtypes.bool.vec(d.count), [test]));
  }

  private store(u: UOp): void {
    const places = this.parts.get(u.src[0])!,
      tests = this.tests.get(throughAfter(u.src[0]))!,
      value = this.now(u.src[1]);
    if (places.length === 1) return void this.parts.set(u, [this.emit(store(places[0], value))]);
    this.parts.set(
      u,
      places.map((place, part) => {
        const own = part === 0 ? tests[0] : this.emit(int(-1).lt(place.src[1]));
        const inside = part === 0 || part === places.length - 1 ? own : this.emit(own.and(tests[part]));
        const condition = this.emit(uop(Ops.IF, dtypes.void, [inside], this.out.length));
        const made = this.emit(store(place, value));
        this.emit(uop(Ops.ENDIF, dtypes.void, [condition]));
        return made;
      }),
    );
  }

  run(): LinearProgram {
    for (const u of this.program.uops) {
      const place = u.op === Ops.LOAD || u.op === Ops.STORE ? this.parts.get(u.src[0]) : undefined;
      if (place !== undefined) u.op === Ops.LOAD ? this.load(u) : this.store(u);
      else if (u.op === Ops.PARAM) this.param(u);
      else if (u.op === Ops.INDEX && this.parts.has(u.src[0])) this.index(u);
      else if (u.op === Ops.AFTER && this.parts.has(u.src[0])) {
        const order = u.src.slice(1).flatMap((s) => this.parts.get(s) ?? this.now(s));
        this.parts.set(u, this.parts.get(u.src[0])!.map((p) => this.emit(u.withSrc([p, ...order]))));
        if (this.tests.has(u.src[0])) this.tests.set(u, this.tests.get(u.src[0])!);
      } else if (u.op === Ops.INDEX && u.src[1].dtype === dtypes.int64) this.narrow(u);
      else if (u.op === Ops.SPECIAL && argOf(u, Ops.SPECIAL).startsWith("gidx")) this.group(u);
      else this.memo.set(u, this.emit(u.withSrc(this.sources(u))));
    }
    const { name, flops, bytes, opts } = this.program;
    return { ...programOf(name, this.out, flops, bytes), opts };
  }
}

/** The boxes and windows of a program. @throws {DeviceError} where the device binds too little */
function cutProgram(program: LinearProgram, large: readonly Large[], limits: BindingLimits): Cutter {
  let bindings = 0, windowBytes = 0;
  for (const maxBoxes of MAX_BOXES) {
    const cutter = new Cutter(program, large, limits, maxBoxes);
    if (cutter.run()) return cutter;
    [bindings, windowBytes] = [cutter.bindings(), cutter.windowBytes];
  }
  const most = byteText(windowBytes);
  throw new DeviceError(`compile kernel ${program.name} for ${limits.device}`, {
    device: limits.device,
    reason: `buffers larger than a binding (${most}, maxStorageBufferBindingSize) take ${bindings} bindings at once, ` +
      `and there are ${limits.maxBuffers} (maxStorageBuffersPerShaderStage); split the tensors`,
  });
}

/**
 * The program in windows; undefined where all of its buffers can be bound.
 *
 * @throws {DeviceError} where it takes more bindings than there are, or is the user's text
 */
export function inWindows(program: LinearProgram, limits: BindingLimits): Windows | undefined {
  const large = largeParams(program, limits.maxBytes);
  if (large.length === 0) return undefined;
  if (program.text !== undefined) {
    throw new DeviceError(`run kernel ${program.name}`, {
      device: limits.device,
      reason: `a kernel that is given as text is not split, and a binding holds ${byteText(limits.maxBytes)}`,
    });
  }
  const { boxes, counts, windowBytes: nbytes } = cutProgram(program, large, limits);
  const rewriter = new Rewriter(program, large, counts, nbytes, boxes), made = rewriter.run();
  return { program: made, nbytes, slots: rewriter.slots, vars: made.vars.map((v) => rewriter.passed.get(v)!), boxes };
}
