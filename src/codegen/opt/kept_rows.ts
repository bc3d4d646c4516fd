/**
 * Rows that a kernel keeps, where loops run it: inputs that several loops read one after the other are kept too, and
 * where a kept row is the result of a reduce, several rows are computed side by side, so that what they share is read once.
 *
 * @module
 */
import { simplify } from "../../uop/algebra/symbolic.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import { cacheShare, type Capabilities, hasLoopCache, ROW_BYTES, TILE_SHARE } from "../../renderer/renderer.ts";
import { argOf, AxisKind, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, iterationsOf, ownRanges, rangesOf, renumbered, sizeOf } from "../../uop/core/ranges.ts";
import { index, load as read, mayHave, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { andGate, flatIndex } from "../../uop/graph/movement_index.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";

/** Rows of a tile, at most and at least. */
const MAX_TILE = 64, MIN_TILE = 8;

/** True where a reduce in `value` reads some input that depends on its own range and on one of `own`, but not on `row`. */
function sharesInput(value: UOp, row: UOp, own: (reduce: UOp) => readonly UOp[]): boolean {
  for (const r of toposort(value)) {
    if (r.op !== Ops.REDUCE) continue;
    const reduced = ownRanges(r), others = own(r);
    for (const l of toposort(r.src[0])) {
      if (l.op !== Ops.LOAD || l.src[0].src[0].op !== Ops.PARAM || dependsOn(l, row)) continue;
      if (reduced.some((x) => dependsOn(l, x)) && others.some((x) => dependsOn(l, x))) return true;
    }
  }
  return false;
}

/** Do rows share what they are made of, or what they are multiplied with? */
function sharesOperand(stage: UOp, store: UOp, row: UOp): boolean {
  const own = ownRanges(stage), outputs = rangesOf(store);
  const reads = (r: UOp): boolean => toposort(r.src[0], (x) => x.op !== Ops.STAGE).includes(stage);
  return sharesInput(stage.src[0], row, () => own) ||
    sharesInput(store.src[1], row, (r) => reads(r) ? outputs : []);
}

/** The largest divisor of `n` from MIN_TILE to `most`; 0 where there is none. */
function tileOf(n: number, most: number): number {
  for (let t = Math.min(n, most); t >= MIN_TILE; t--) if (n % t === 0) return t;
  return 0;
}

/** How one LOAD reads a row: the indices along it, one an axis. */
interface RowRead {
  readonly load: UOp;
  readonly along: readonly UOp[];
}

/** By LOAD: the ranges of the loops in which it stands, in a kernel whose REDUCEs, STAGEs and STORE are `regions`. */
function loopsAround(regions: readonly UOp[]): Map<UOp, Set<UOp>> {
  const out = new Map<UOp, Set<UOp>>();
  for (const region of regions) {
    const closes = region.op !== Ops.STORE;
    const loops = [...rangesOf(region), ...(closes ? ownRanges(region) : [])];
    const values = closes ? region.src.slice(0, region.src.length - ownRanges(region).length) : region.src;
    for (const u of toposort(values, (x) => x.op !== Ops.REDUCE && x.op !== Ops.STAGE)) {
      if (u.op !== Ops.LOAD) continue;
      const known = out.get(u);
      if (known === undefined) out.set(u, new Set(loops));
      else for (const r of loops) known.add(r);
    }
  }
  return out;
}

/** The gate of `at` says that some e is less than `n`, and e for `r` in `row` gives its index: that e. */
function pickedAt(at: UOp, row: UOp, r: UOp): UOp | undefined {
  if (at.src.length < 3) return undefined;
  for (const c of splitAnd(at.src[2])) {
    if (c.op !== Ops.CMPLT || !c.src[1].isConst(sizeOf(r))) continue;
    const e = c.src[0].cast(r.dtype);
    if (simplify(substitute(row, new Map([[r, e]]))) === at.src[1]) return e;
  }
  return undefined;
}

/** The loads as reads of one row, by ranges of their own or at an index; undefined where they are not. */
function rowReads(
  loads: readonly UOp[],
  loopsOf: ReadonlyMap<UOp, ReadonlySet<UOp>>,
  reduces: readonly UOp[],
): RowRead[] | undefined {
  const around = rangesOf(loads[0]).filter((r) => loads.every((l) => dependsOn(l, r)));
  const reads = loads.map((load) => ({ load, along: rangesOf(load).filter((r) => !around.includes(r)) }));
  const first = reads.find((x) => x.along.length > 0);
  if (first === undefined) return undefined;
  const at = first.load.src[0];
  for (const x of reads) {
    const other = x.load.src[0];
    if (x.along.length === 0 && first.along.length === 1 && at.src.length === 2) {
      const e = pickedAt(other, at.src[1], first.along[0]);
      if (e === undefined) return undefined;
      x.along = [e];
      continue;
    }
    if (x.along.length !== first.along.length || other.src.length !== at.src.length) return undefined;
    if (x.along.some((r, i) => r.src[0] !== first.along[i].src[0])) return undefined;
    const rename = new Map(x.along.map((r, i) => [r, first.along[i]]));
    if (at.src.some((s, i) => i > 0 && simplify(substitute(other.src[i], rename)) !== s)) return undefined;
  }
  // a loop that a load does not depend on reads it again and again, with other operands: a matter of tiles
  for (const { load, along } of reads) {
    for (const r of loopsOf.get(load)!) if (!around.includes(r) && !along.includes(r)) return undefined;
  }
  const own = new Set(reads.flatMap((x) => x.along));
  const mixed = (r: UOp): boolean =>
    ownRanges(r).some((x) => own.has(x)) && ownRanges(r).some((x) => around.includes(x));
  return reduces.some(mixed) ? undefined : reads;
}

/**
 * Where several loops read the same row of an input one after the other, keeps the row: each element is loaded once. Only
 * for devices that name no cache, which would do the same.
 */
function keepInputs(store: UOp, caps: Capabilities): UOp {
  if (hasLoopCache(caps)) return store;
  const nodes = toposort(store);
  const groups = new Map<UOp, UOp[]>(), reduces: UOp[] = [], regions = [store];
  for (const u of nodes) {
    if (u.op === Ops.STAGE) regions.push(u);
    else if (u.op === Ops.REDUCE) reduces.push(u);
    else if (u.op === Ops.LOAD && u.src[0].src[0].op === Ops.PARAM) {
      const list = groups.get(u.src[0].src[0]);
      if (list === undefined) groups.set(u.src[0].src[0], [u]);
      else list.push(u);
    }
  }
  const loopsOf = loopsAround([...regions, ...reduces]);
  const map = new Map<UOp, UOp>(), next = freeIds(nodes);
  for (const loads of groups.values()) {
    const reads = loads.length > 1 ? rowReads(loads, loopsOf, reduces) : undefined;
    if (reads === undefined) continue;
    const { load, along } = reads.find((x) => x.along.every((r) => r.op === Ops.RANGE))!;
    const shape = along.map(sizeOf);
    if (shape.reduce((n, k) => n * k, load.dtype.itemsize) > ROW_BYTES) continue;
    const fresh = along.map((r) => range(sizeOf(r), next.range++, AxisKind.LOOP));
    const value = substitute(load, new Map(along.map((r, i) => [r, fresh[i]])));
    const row = uop(Ops.STAGE, load.dtype, [value, ...fresh], new StageArg(next.stage++, "undecided"));
    for (const r of reads) {
      const gate = r.along[0].op === Ops.RANGE ? undefined : r.load.src[0].src[2];
      map.set(r.load, read(index(row, flatIndex(shape, r.along), gate)));
    }
  }
  return map.size === 0 ? store : substitute(store, map);
}

/** Rebuilds a kernel with range `row` split: `inner` takes the part within a tile, STAGEs keep all rows of a tile. */
class RowTiler {
  private readonly stages = new Map<UOp, UOp>();
  private readonly memos = new Map<UOp, Map<UOp, UOp>>();

  constructor(
    private readonly row: UOp,
    private readonly outer: UOp,
    private readonly size: number,
    private nextRange: number,
  ) {}

  build(root: UOp, inner: UOp): UOp {
    let memo = this.memos.get(inner);
    if (memo === undefined) this.memos.set(inner, memo = new Map([[this.row, this.outer.mul(this.size).add(inner)]]));
    return rebuild(
      root,
      (u, src) => {
        if (!dependsOn(u, this.row)) return undefined;
        if (u.op === Ops.STAGE) return this.stage(u);
        if (u.op !== Ops.INDEX || u.src[0].op !== Ops.STAGE || !dependsOn(u.src[0], this.row)) return undefined;
        const [stage, at, gate] = src as [UOp, UOp, UOp | undefined];
        return index(stage, inner.mul(iterationsOf(ownRanges(u.src[0]))).add(at), gate);
      },
      (u) => dependsOn(u, this.row) && u.op !== Ops.STAGE,
      memo,
    );
  }

  private stage(u: UOp): UOp {
    let made = this.stages.get(u);
    if (made === undefined) {
      const r = range(this.size, this.nextRange++, AxisKind.LOOP);
      made = uop(Ops.STAGE, u.dtype, [this.build(u.src[0], r), r, ...ownRanges(u)], u.arg);
      this.stages.set(u, made);
    }
    return made;
  }
}

/**
 * Where rows that a kernel keeps are the results of reduces, and rows share what these read (the keys of attention, the
 * weights before a norm): splits the innermost loop around the rows in tiles, and keeps all rows of a tile.
 */
function tileRows(store: UOp, caps: Capabilities): UOp {
  if (!hasLoopCache(caps) || !mayHave(store, Ops.STAGE)) return store;
  const stages = toposort(store).filter((u) => u.op === Ops.STAGE);
  let row: UOp | undefined;
  for (const s of stages) {
    const around = rangesOf(s).filter((r) => argOf(r, Ops.RANGE).kind === AxisKind.LOOP && dependsOn(store, r));
    const last = around[around.length - 1];
    if (last !== undefined && last.src[0].op === Ops.CONST && sharesOperand(s, store, last)) row ??= last;
  }
  if (row === undefined) return store;
  const kept = stages.filter((s) => dependsOn(s, row)).reduce(
    (n, s) => n + s.dtype.itemsize * iterationsOf(ownRanges(s)),
    0,
  );
  const most = Math.max(MIN_TILE, Math.floor(cacheShare(caps, TILE_SHARE) / kept));
  const size = tileOf(sizeOf(row), Math.min(MAX_TILE, most));
  if (size === 0 || size === sizeOf(row)) return store;
  // the new loop comes right after the one that is split
  const { id } = argOf(row, Ops.RANGE);
  const later = new Map<UOp, UOp>();
  let next = 0;
  for (const r of toposort(store)) {
    if (r.op !== Ops.RANGE) continue;
    const arg = argOf(r, Ops.RANGE);
    next = Math.max(next, arg.id + 2);
    if (arg.id > id) later.set(r, renumbered(r, arg.id + 1));
  }
  const outer = range(sizeOf(row) / size, id, AxisKind.LOOP), inner = range(size, id + 1, AxisKind.LOOP);
  return new RowTiler(row, outer, size, next).build(substitute(store, later), inner);
}

/**
 * Rounds rows up to whole vectors: what is computed beyond their end touches no input and is never read. Only rows of one
 * axis, long enough that it costs little.
 */
function padRows(store: UOp, caps: Capabilities): UOp {
  if (!mayHave(store, Ops.STAGE)) return store;
  const map = new Map<UOp, UOp>();
  for (const u of toposort(store)) {
    if (u.op !== Ops.STAGE || u.src.length !== 2 || u.src[1].src[0].op !== Ops.CONST) continue;
    const r = u.src[1], n = sizeOf(r), lanes = caps.vectorLanes(u.dtype);
    if (lanes < 2 || n < 2 * lanes || n % lanes === 0) continue;
    map.set(r, uop(Ops.RANGE, r.dtype, [r.src[0].constLike(Math.ceil(n / lanes) * lanes)], r.arg));
  }
  if (map.size === 0) return store;
  return rebuild(
    store,
    (u, src) => {
      if (u.op !== Ops.INDEX || u.src[0].op !== Ops.PARAM) return undefined;
      let gate = src[2] as UOp | undefined;
      for (const [r, wide] of map) if (dependsOn(u, r)) gate = andGate(gate, wide.lt(sizeOf(r)));
      return index(src[0], src[1], gate);
    },
    undefined,
    new Map(map),
  );
}

/** Rows that loops run through, in a kernel with one STORE and loops of known size: what it keeps of them, and how. */
export function keepRows(ast: UOp, caps: Capabilities): UOp {
  const [store, ...others] = ast.src;
  const isSymbolic = (u: UOp): boolean => u.op === Ops.RANGE && u.src[0].op !== Ops.CONST;
  if (
    others.length > 0 || !(mayHave(store, Ops.REDUCE) || mayHave(store, Ops.STAGE)) || toposort(store).some(isSymbolic)
  ) return ast;
  return ast.withSrc([tileRows(padRows(keepInputs(store, caps), caps), caps)]);
}
