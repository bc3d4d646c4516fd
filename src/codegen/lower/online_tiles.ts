/**
 * Online products (uop/algebra/online_product.ts) by matrix units. In: a kernel AST whose only STORE is one, without
 * opts. Out: a graph of stage P, as the expander makes of other kernels.
 *
 * A group owns a tile of rows, a warp of it some tiles of the matrix unit. Tiles of keys and of values come one after the
 * other into a ring in shared memory, while the tile before is worked on: the scores of its keys are sums of products in
 * registers, and what stands between them and the weights is ordinary arithmetic on the elements that each thread has. Rows
 * have their maximum by exchange among the lanes that share a row; what was summed before is scaled to it. The weights, as
 * the unit leaves its results, are the operand that it takes next: they stay in registers.
 *
 * Comparisons that hide keys (x is -infinity where they do not hold) bound the loop over tiles where they are linear.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ceilDiv, prod } from "../../helpers/math.ts";
import { sharedBytesFor } from "../../renderer/lanes.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { elementsOf, type Fragment, positionIn, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { type OnlineProduct, onlineProductOf } from "../../uop/algebra/online_product.ts";
import { simplifyKernel, splitAnd } from "../../uop/algebra/valid.ts";
import { AccArg, argOf, AxisKind, LocalArg, VariableArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, int, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";
import { extract, plus, times, vectorize } from "../ast/alu_builder.ts";
import { indexForm, rangeOfFactor } from "../../uop/algebra/linear_form.ts";
import { offsetOf, positionOf, rowOf } from "../opt/tensor_core.ts";
import { digits, hardware } from "./gpudims.ts";
import { fillRing } from "./ring.ts";

/** Bytes of an asynchronous copy and of a row that LDMATRIX reads, and elements of 16 bits in it. */
const WIDE = 16, ELEMENTS = 8;
/** Products of a step, in which the operands of the next one are read. */
const STEP = 8;
/** Buffers in the ring. */
const DEPTH = 2;
/** Tiles of the unit's rows that a warp owns, and warps of a group, at most. */
const WARP_TILES = 1, MOST_WARPS = 8;
/** Keys of a tile: fewer where the columns take many registers. */
const KEYS = 64, FEW_KEYS = 32, MANY_COLUMNS = 128;

/** The online product that is the whole of a kernel, the unit that does it, and by which tiles. */
interface OnlineTiles {
  readonly product: OnlineProduct;
  readonly core: TensorCore;
  readonly threads: number;
  readonly keysOfTile: number;
  readonly rowsOfGroup: number;
}

/** How a kernel is an online product without opts; undefined where it is none, or its tiles are too large for a group. */
function onlineTilesOf(sink: UOp, caps: Capabilities): OnlineTiles | undefined {
  const { grid } = caps;
  if (grid === undefined || sink.src.length !== 1 || !grid.hasAsyncCopy) return undefined;
  const product = onlineProductOf(sink.src[0]);
  const core = product && grid.tensorCores.find((c) => c.input === product.carrier.weight && c.k === 2 * c.n);
  if (product === undefined || core === undefined || core.lanes !== grid.warp) return undefined;
  // opts were applied
  if (rangesOf(product.store).some((r) => argOf(r, Ops.RANGE).kind !== AxisKind.LOOP)) return undefined;
  if (nextOperand(core) === undefined) return undefined;
  const { rows, columns, features } = product;
  let warps = 1;
  while (warps < MOST_WARPS && warps * WARP_TILES * core.m < sizeOf(rows)) warps *= 2;
  let keysOfTile = sizeOf(columns) > MANY_COLUMNS ? FEW_KEYS : KEYS;
  const row = (sizeOf(features) + sizeOf(columns) + 2 * ELEMENTS) * 2 * DEPTH;
  while (keysOfTile > core.k && keysOfTile * row > grid.sharedBytes) keysOfTile /= 2;
  const tiles = { product, core, threads: warps * core.lanes, keysOfTile, rowsOfGroup: warps * WARP_TILES * core.m };
  const bytes = [features, columns].map((r) => elementsOfBuffer(tiles, sizeOf(r)) * DEPTH * core.input.itemsize);
  return sharedBytesFor(bytes) > grid.sharedBytes ? undefined : tiles;
}

/** Copies of a thread that fill a buffer of rows of `width` elements. */
function copiesOf({ keysOfTile, threads }: OnlineTiles, width: number): number {
  return ceilDiv(keysOfTile * width / ELEMENTS, threads);
}

/** Elements of a buffer: what the last copies write beyond the tile is never read. */
function elementsOfBuffer(tiles: OnlineTiles, width: number): number {
  return ceilDiv(copiesOf(tiles, width) * tiles.threads * ELEMENTS, width) * (width + ELEMENTS);
}

/** For each element of the left operand of a product: the tile of results and the element in it at the same place. */
function nextOperand(core: TensorCore): (readonly [tile: number, element: number])[] | undefined {
  const lanes = Array.from({ length: core.lanes }, (_, l) => l), results = elementsOf(core.c);
  const out: [number, number][] = [];
  for (let e = 0; e < elementsOf(core.a); e++) {
    for (let c = 0; c < 2 * results && out.length === e; c++) {
      const tile = c < results ? 0 : 1;
      const isSame = lanes.every((l) => {
        const [r, k] = positionIn(core.a, l, e), [row, column] = positionIn(core.c, l, c % results);
        return r === row && k === column + tile * core.n;
      });
      if (isSame) out.push([tile, c % results]);
    }
    if (out.length === e) return undefined;
  }
  return out;
}

/** x as y times a positive constant, with the constant out of a choice between a value and -infinity. */
function scaleOf(x: UOp): [y: UOp, scale: number] {
  if (x.op === Ops.MUL && x.src[1].op === Ops.CONST && x.src[1].value > 0 && x.src[1].value < Infinity) {
    const [y, c] = scaleOf(x.src[0]);
    return [y, c * x.src[1].value];
  }
  if (x.op === Ops.WHERE && x.src[2].isConst(-Infinity)) {
    const [y, c] = scaleOf(x.src[1]);
    return [x.withSrc([x.src[0], y, x.src[2]]), c];
  }
  return [x, 1];
}

/** Tiles of one kernel. */
class Tiler {
  private readonly p: OnlineProduct;
  private readonly core: TensorCore;
  private readonly threads: number;
  private readonly keysOfTile: number;
  private readonly rowsOfGroup: number;
  private readonly lane: UOp;
  private readonly warp: UOp;
  private readonly thread: UOp;
  /** The tile of rows of this group, and what the ranges of the batch are in it. */
  private readonly tile: UOp;
  private readonly places = new Map<UOp, UOp>();
  /** The first tile of keys that this group needs, and how many. */
  private readonly first: UOp;
  private readonly bound: UOp;
  /** The loop over them. To its very end it is one over all tiles, so that nothing simplifies the bound in some places only. */
  private readonly loop: UOp;
  private readonly updates: UOp[] = [];
  /** Products of tiles in the order to compute them in: those of one operand together, each sum far from its next term. */
  private readonly steps: UOp[][] = [];
  private accumulators = 0;

  constructor(private readonly sink: UOp, private readonly tiles: OnlineTiles) {
    const { product, core } = tiles, { rows, keys, batch } = product;
    this.p = product;
    this.core = core;
    this.threads = tiles.threads;
    this.rowsOfGroup = tiles.rowsOfGroup;
    this.keysOfTile = tiles.keysOfTile;
    const parts = ceilDiv(sizeOf(rows), this.rowsOfGroup), others = prod(batch.map(sizeOf));
    const group = hardware("gidx", 0, int(parts * others));
    this.thread = hardware("lidx", 0, int(this.threads));
    this.lane = this.thread.floorMod(core.lanes);
    this.warp = this.thread.floorDiv(core.lanes);
    const inner = batch.toReversed(), [part, ...places] = digits(group, [parts, ...inner.map(sizeOf)]);
    inner.forEach((r, i) => this.places.set(r, typed(places[i], r)));
    const bounds = this.boundsOf(product.x);
    // the groups with most keys first
    this.tile = bounds.length > 0 ? part.mul(-1).add(parts - 1) : part;
    const count = ceilDiv(sizeOf(keys), this.keysOfTile);
    let first: UOp = int(0), end: UOp = int(sizeOf(keys));
    for (const { isLast, bound } of bounds) {
      const row = times(this.tile, this.rowsOfGroup).add(isLast ? this.rowsOfGroup - 1 : 0);
      const limit = substitute(bound, new Map([...this.places, [rows, typed(this.clampedRow(row), rows)]]));
      if (isLast) end = limit.lt(end).where(limit, end);
      else first = first.max(limit);
    }
    // one tile at least: nothing of it remains where all its keys are hidden
    first = first.floorDiv(this.keysOfTile);
    first = first.lt(count - 1).where(first, int(count - 1));
    this.first = simplifyKernel(first);
    end = end.add(this.keysOfTile - 1).floorDiv(this.keysOfTile).add(this.first.mul(-1));
    this.bound = simplifyKernel(bounds.length === 0 ? end : end.max(1));
    const id = freeIds(toposort(sink)).range;
    this.loop = range(this.bound.op === Ops.CONST ? this.bound : count, id, AxisKind.REDUCE);
  }

  // ---- where things are

  private clampedRow(row: UOp): UOp {
    const n = sizeOf(this.p.rows);
    return n % this.rowsOfGroup === 0 ? row : row.lt(n).where(row, int(n - 1));
  }

  /** Row `offset` of tile `tile` of this warp. */
  private row(tile: number, element: number): UOp {
    const warp = times(this.warp, WARP_TILES * this.core.m);
    const own = this.laneOffset(this.core.c, 0);
    const c = tile * this.core.m + positionIn(this.core.c, 0, element)[0];
    return plus(plus(plus(times(this.tile, this.rowsOfGroup), warp), own), int(c));
  }

  /** What the lane adds to a position in a tile. */
  private laneOffset(f: Fragment, dimension: 0 | 1): UOp {
    return offsetOf(this.lane, f.lane, dimension) ?? int(0);
  }

  /**
   * Bounds on the keys that x does not hide, by comparisons that are linear in the key, as expressions of the row: where
   * they end, for the last row, and where they begin, for the first.
   */
  private boundsOf(x: UOp): { isLast: boolean; bound: UOp }[] {
    const { keys, rows, batch } = this.p;
    const out: { isLast: boolean; bound: UOp }[] = [];
    while (x.op === Ops.MUL && x.src[1].op === Ops.CONST && x.src[1].value > 0) x = x.src[0];
    if (x.op !== Ops.WHERE || !x.src[2].isConst(-Infinity)) return out;
    for (const c of splitAnd(x.src[0])) {
      // a < b, or not (b - 1 < a), as a - b < 0
      const isNegated = c.op === Ops.CMPNE && c.src[1].isConst(1), less = isNegated ? c.src[0] : c;
      if (less.op !== Ops.CMPLT || !less.src[0].dtype.isInt) continue;
      const [a, b] = isNegated ? [less.src[1], less.src[0].add(1)] : less.src;
      const { factors, coefs, constant: offset } = indexForm(a.add(b.mul(-1)));
      let slope = 0, rest: UOp = int(offset), isLinear = true, growth = 0;
      factors.forEach((f, i) => {
        const r = rangeOfFactor(f), k = coefs[i];
        if (r === keys) slope += k;
        else if (r === rows || (r !== undefined && batch.includes(r))) {
          if (r === rows) growth += k;
          rest = rest.add(times(r.dtype === dtypes.int32 ? r : r.cast(dtypes.int32), k));
        } else isLinear = false;
      });
      // key < -rest, or key > rest
      if (!isLinear || Math.abs(slope) !== 1 || growth * slope > 0) continue;
      out.push(slope === 1 ? { isLast: true, bound: rest.mul(-1) } : { isLast: false, bound: rest.add(1) });
    }
    return [...out, ...this.boundsOf(x.src[1])];
  }

  // ---- memory

  /** Copies of a tile of `load` (rows of `width` elements along `fast`) to `memory`, from element `slot` on. */
  private copies(load: UOp, fast: UOp, memory: UOp, slot: UOp | undefined, start: UOp): UOp[] {
    const { keys } = this.p, width = sizeOf(fast), chunks = width / ELEMENTS, out: UOp[] = [];
    const isWhole = sizeOf(keys) % this.keysOfTile === 0;
    for (let i = 0; i < copiesOf(this.tiles, width); i++) {
      const chunk = i === 0 ? this.thread : this.thread.add(i * this.threads);
      const key = chunk.floorDiv(chunks), column = chunk.floorMod(chunks).mul(ELEMENTS), at = plus(start, key);
      const map = new Map([...this.places, [keys, typed(at, keys)], [fast, typed(column, fast)]]);
      const from = simplifyKernel(substitute(load.src[0], map));
      const to = simplifyKernel(plus(key.mul(width + ELEMENTS), column));
      const target = index(memory, slot === undefined ? to : slot.add(to));
      const src = isWhole && this.keysOfTile * chunks % this.threads === 0
        ? [target, from]
        : [target, from, at.lt(sizeOf(keys))];
      out.push(uop(Ops.ASYNC_COPY, dtypes.void, src, WIDE));
    }
    return out;
  }

  /** Fills the ring: the memory of keys and values in this iteration, and where their tiles begin. */
  private ring(): { keys: UOp; values: UOp; keySlot: UOp; valueSlot: UOp } {
    const { key, value, features, columns } = this.p, { loop, bound } = this;
    const sizes = [features, columns].map((r) => elementsOfBuffer(this.tiles, sizeOf(r)));
    const { bases: [[keys], [values]], slots: [keySlot, valueSlot] } = fillRing({
      memory: sizes.map((n, i) => uop(Ops.LOCAL, this.core.input, [], new LocalArg(i, n * DEPTH, "shared"))),
      sizes,
      depth: DEPTH,
      loop,
      tileAt: (k) => k.op === Ops.CONST ? simplifyKernel(k.lt(bound).where(k, int(0))) : k.lt(bound).where(k, loop),
      fill: (i, base, tile, slot) => {
        const start = simplifyKernel(plus(this.first, tile).mul(this.keysOfTile));
        return this.copies(i === 0 ? key : value, i === 0 ? features : columns, base, slot, start);
      },
      steps: 1,
    });
    return { keys, values, keySlot, valueSlot };
  }

  /** Two tiles of the right operand that lie side by side along its columns, read from rows of 16-bit elements. */
  private pair(memory: UOp, slot: UOp, width: number, row: number, column: number, isTransposed: boolean): UOp[] {
    const { core } = this, stride = width + ELEMENTS, { lane, element, tile } = rowOf(this.lane, false, isTransposed);
    const sum = positionOf(core.b, lane, element, 0);
    const side = positionOf(core.b, lane, element, 1).add(tile!.mul(core.n));
    const [r, c] = isTransposed ? [sum, side] : [side, sum];
    const at = plus(slot.add(simplifyKernel(r.mul(stride).add(c))), int(row * stride + column));
    const whole = uop(Ops.LDMATRIX, core.input.vec(8), [index(memory, at)], isTransposed ? "trans" : "");
    return [0, 4].map((first) => vectorize(Array.from({ length: 4 }, (_, l) => extract(whole, first + l))));
  }

  private multiply(a: UOp, b: UOp, c: UOp): UOp {
    const product = uop(Ops.WMMA, this.core.output.vec(elementsOf(this.core.c)), [a, b, c], this.core);
    this.steps[this.steps.length - 1].push(product);
    return product;
  }

  private accumulator(identity: UOp): { acc: UOp; before: UOp } {
    const acc = uop(Ops.ACC, identity.dtype, [identity, this.loop], new AccArg(this.accumulators++));
    return { acc, before: uop(Ops.LOAD, acc.dtype, [acc, this.loop]) };
  }

  /** Stores what an accumulator is at the end of an iteration; gives what it is after all. */
  private set(acc: UOp, value: UOp): UOp {
    const store = uop(Ops.STORE, dtypes.void, [acc, value]);
    this.updates.push(store);
    return uop(Ops.LOAD, acc.dtype, [acc, store]);
  }

  /** `x` combined with that of the other lanes that have the same row. */
  private acrossRow(op: Ops, x: UOp): UOp {
    this.core.c.lane.forEach(([row], i) => {
      if (row === 0) x = x.alu(op, uop(Ops.SHUFFLE, x.dtype, [x], 2 ** i));
    });
    return x;
  }

  // ---- the whole

  run(): UOp {
    const { p, core } = this, { float32 } = dtypes;
    const [features, columns] = [sizeOf(p.features), sizeOf(p.columns)];
    const results = elementsOf(core.c), zero = constant(0, float32.vec(results));
    const { keys, values, keySlot, valueSlot } = this.ring();
    const score = uop(Ops.VARIABLE, float32, [], new VariableArg("score", 0, 0));
    const [y, scale] = scaleOf(substitute(p.x, new Map([[p.score, score]])));
    const slope = Math.fround(p.carrier.slope * scale);
    const tiles = this.keysOfTile / core.n;
    const rowOf = Array.from({ length: results }, (_, e) => positionIn(core.c, 0, e)[0]);
    const distinct = [...new Set(rowOf)], next = nextOperand(core)!;
    const stores: UOp[] = [];
    for (let t = 0; t < WARP_TILES; t++) {
      const rows = distinct.map((r) => this.row(t, rowOf.indexOf(r)));
      const scores = this.scores(t, keys, keySlot, features, tiles);
      const elements = scores.map((s, n) =>
        Array.from(
          { length: results },
          (_, e) => this.weighed(y, score, extract(s, e), rows[distinct.indexOf(rowOf[e])], n, e),
        )
      );
      // the maximum and the sum of each row, and what scales those of before
      const exponents: UOp[][][] = [];
      const state = distinct.map((r) => {
        const own = elements.flatMap((list) => list.filter((_, e) => rowOf[e] === r));
        const max = this.accumulator(constant(-Infinity, float32)), sum = this.accumulator(constant(0, float32));
        let top = own.reduce((a, b) => a.alu(Ops.MAX, b));
        top = max.before.alu(Ops.MAX, this.acrossRow(Ops.MAX, top));
        const offset = top.eq(constant(-Infinity, float32)).where(constant(0, float32), top).mul(-slope);
        // beside a weight of 1, that of the maximum, the least numbers are nothing
        const power = (x: UOp): UOp => uop(Ops.EXP2, float32, [x.mul(slope).add(offset)], "flush");
        const factor = power(max.before);
        exponents.push(elements.map((list) => list.filter((_, e) => rowOf[e] === r).map(power)));
        const total = exponents[exponents.length - 1].flat().reduce((a, b) => a.add(b));
        return {
          factor,
          max: this.set(max.acc, top),
          sum: this.set(sum.acc, sum.before.mul(factor).add(total)),
        };
      });
      const weight = (n: number, e: number): UOp => {
        const r = distinct.indexOf(rowOf[e]);
        const place = rowOf.slice(0, e).filter((x) => x === rowOf[e]).length;
        return exponents[r][n][place].cast(core.input);
      };
      const sums: UOp[] = [];
      const accs = Array.from({ length: columns / core.n }, () => this.accumulator(zero));
      const scaled = accs.map(({ before }) =>
        vectorize(rowOf.map((r, e) => extract(before, e).mul(state[distinct.indexOf(r)].factor)))
      );
      for (let k = 0; k < this.keysOfTile / core.k; k++) {
        const a = vectorize(next.map(([tile, e]) => weight(2 * k + tile, e)));
        for (let c = 0; c < columns / core.n; c += 2) {
          if (c % STEP === 0) this.steps.push([]);
          const pair = this.pair(values, valueSlot, columns, k * core.k, c * core.n, true);
          pair.forEach((b, i) => scaled[c + i] = this.multiply(a, b, scaled[c + i]));
        }
      }
      accs.forEach(({ acc }, c) => sums.push(this.set(acc, scaled[c])));
      stores.push(...this.results(state, sums, rows, rowOf, distinct, scale));
    }
    const order = this.steps.map((products) => uop(Ops.TUPLE, dtypes.void, products));
    const all = uop(Ops.SINK, dtypes.void, [...stores, ...this.updates, ...order], this.sink.arg);
    // not by substitute: an ACC lists the loop among its sources, and stands outside of it
    const bounded = new Map([[this.loop, this.loop.withSrc([this.bound])]]);
    return rebuild(all, () => undefined, undefined, bounded);
  }

  /** The scores of tile `t` of the warp's rows and of all keys of a tile. */
  private scores(t: number, keys: UOp, slot: UOp, features: number, tiles: number): UOp[] {
    const { p, core } = this;
    const queries = Array.from(
      { length: features / core.k },
      (_, k) =>
        vectorize(Array.from({ length: elementsOf(core.a) }, (_, e) => {
          const [r, c] = positionIn(core.a, 0, e);
          const warp = times(this.warp, WARP_TILES * core.m);
          const row = plus(plus(times(this.tile, this.rowsOfGroup), warp), this.laneOffset(core.a, 0));
          const at = this.clampedRow(plus(row, int(t * core.m + r)));
          const column = plus(this.laneOffset(core.a, 1), int(k * core.k + c));
          const map = new Map([...this.places, [p.rows, typed(at, p.rows)], [p.features, typed(column, p.features)]]);
          const place = simplifyKernel(substitute(p.query.src[0], map));
          return uop(Ops.LOAD, p.query.dtype, [place]);
        })),
    );
    const out: UOp[] = Array.from({ length: tiles }, () => constant(0, core.output.vec(elementsOf(core.c))));
    queries.forEach((a, k) => {
      this.steps.push([]);
      for (let n = 0; n < tiles; n += 2) {
        const pair = this.pair(keys, slot, features, n * core.n, k * core.k, false);
        pair.forEach((b, i) => out[n + i] = this.multiply(a, b, out[n + i]));
      }
    });
    return out;
  }

  /** What the exponent of an element is made of: `y` of its score, -infinity beyond the last key. */
  private weighed(y: UOp, score: UOp, value: UOp, row: UOp, n: number, e: number): UOp {
    const { p, core } = this, count = sizeOf(p.keys);
    let key = plus(plus(this.first, this.loop).mul(this.keysOfTile), this.laneOffset(core.c, 1));
    key = plus(key, int(n * core.n + positionIn(core.c, 0, e)[1]));
    const valid = count % this.keysOfTile === 0 ? undefined : key.lt(count);
    const at = valid === undefined ? key : valid.where(key, int(count - 1));
    const map = new Map([
      ...this.places,
      [p.keys, typed(at, p.keys)],
      [p.rows, typed(this.clampedRow(row), p.rows)],
    ]);
    const x = substitute(simplifyKernel(substitute(y, map)), new Map([[score, value]]));
    return valid === undefined ? x : valid.where(x, constant(-Infinity, x.dtype));
  }

  /** Stores what is made of the sums, where the rows are in range. */
  private results(
    state: readonly { max: UOp; sum: UOp }[],
    sums: readonly UOp[],
    rows: readonly UOp[],
    rowOf: readonly number[],
    distinct: readonly number[],
    scale: number,
  ): UOp[] {
    const { p, core } = this, { float32 } = dtypes, out: UOp[] = [];
    const lanes = [0, 1, 2].map((i) => uop(Ops.VARIABLE, float32, [], new VariableArg(`lane${i}`, 0, 0)));
    const [place, expression] = p.store.src;
    const tuples = new Map<UOp, UOp>();
    for (const u of toposort(expression)) {
      if (u.op === Ops.GETTUPLE && u.src[0] === p.reduce) tuples.set(u, lanes[u.arg as number]);
    }
    const value = substitute(expression, tuples);
    const totals = state.map(({ max, sum }) => ({
      max: scale === 1 ? max : max.mul(scale),
      sum: this.acrossRow(Ops.ADD, sum),
    }));
    const isWhole = sizeOf(p.rows) % this.rowsOfGroup === 0;
    sums.forEach((s, c) =>
      rowOf.forEach((r, e) => {
        const i = distinct.indexOf(r),
          column = plus(
            this.laneOffset(core.c, 1),
            int(c * core.n + positionIn(core.c, 0, e)[1]),
          );
        const map = new Map([
          ...this.places,
          [p.rows, typed(rows[i], p.rows)],
          [p.columns, typed(column, p.columns)],
        ]);
        const at = simplifyKernel(substitute(place, map));
        const made = simplifyKernel(substitute(value, map));
        const all = substitute(
          made,
          new Map([[lanes[0], totals[i].max], [lanes[1], totals[i].sum], [lanes[2], extract(s, e)]]),
        );
        const gate = isWhole ? undefined : rows[i].lt(sizeOf(p.rows));
        out.push(uop(Ops.STORE, dtypes.void, [index(at.src[0], at.src[1], gate), all]));
      })
    );
    return out;
  }
}

function typed(x: UOp, like: UOp): UOp {
  return x.dtype === like.dtype ? x : x.cast(like.dtype);
}

/** Is a kernel without opts an online product that matrix units do? */
export function isOnline(sink: UOp, caps: Capabilities): boolean {
  return onlineTilesOf(sink, caps) !== undefined;
}

/** The graph of stage P of a kernel that is an online product. */
export function tileOnline(sink: UOp, caps: Capabilities): UOp {
  return new Tiler(sink, onlineTilesOf(sink, caps)!).run();
}
