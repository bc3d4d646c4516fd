/**
 * The model of what a kernel costs on a CPU, for the heuristic: a region at a time, by the axis that has the lanes and the
 * register tile. In the time of about a cycle.
 *
 * It is asked for thousands of tiles before anything is compiled, so what no tile changes is found once.
 *
 * @module
 */
import { type DType, dtypes, smallFloatOf } from "../../dtype/dtype.ts";
import { ceilDiv } from "../../helpers/math.ts";
import { cacheShare, type Capabilities } from "../../renderer/renderer.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { joinedVectors, joinsLanes, rowLength, SHUFFLED_STEPS } from "../ast/lane_layout.ts";
import type { Axis } from "../opt/axis.ts";
import { type Access, alignmentOf, LINE, type Region } from "./access.ts";

/** Accumulators that hide the latency of an addition: two units, four cycles. */
export const LATENCY_ACCUMULATORS: number = 8;
/** Cycles from the last step of a reduction whose lanes are combined to what follows: additions one after the other, a branch. */
const COMBINE_LATENCY = 80;
/** Cycles a lane of that at least: it is taken out and added, or compared, and what is no number kept. */
const ADDED_LANE = 1.6, COMBINED_LANE = 4;
/** Cycles of a step that combines neighbors by shuffles, of as many lanes as a vector has. */
const ADDED_VECTOR = 2, COMBINED_VECTOR = 7;
/** Cycles of an addition. */
const LATENCY = 4;
/** Uses of a packed tile below which packing is not considered: it reads, writes and reads each element again. */
const PACK_USES = 4;

/** Vectors up to which the rest of a reduce axis is a vector under a mask instead of a loop: there it is a fifth or more. */
const MASKED_VECTORS = 4;

/** Rows from which on it matters where they lie; bytes of a page, and how many pages are known at once. */
const ROWS = 64, PAGE = 4096, PAGES = 96;
/** Times a vector in the nearest cache: one of many rows that meet in few sets, or a line in a page of its own. */
const CROWDED = 1.6, AWAY = 1.4;
/** Instructions a vector that packing must spare. */
const PACK_GAIN = 0.25;

/**
 * Cycles to load a vector whose gate differs by lane, once that is found: a branch, and now and then a load under a mask or
 * a lane at a time.
 */
const EDGE_COST = 4;
/** Under a word of bits: it is put into a mask's register first. */
const MASK_COST = 1;

/** Cycles to find a gate that differs by lane, and another one: indices are compared, and joined. */
const LANE_GATE = 5, GATE = 0.5;

/** Rows that an axis has where some of it is left beside them, at least. */
const LEAST_ROWS = 2;

/** Iterations of a short axis up to which it is unrolled whole. */
export const WINDOW = 8;
/** Copies of a reduction's body that unrolling a short axis may make: a window of 8 x 8; more are slow to compile. */
export const UNROLL_COPIES = 64;

/** Cycles a lane to put a vector together of elements whose places are known while compiling. */
const FOLDED_COST = 1;

/** Copies along output axes: the register tile. */
export type Tile = readonly (readonly [axis: number, copies: number])[];

/** Are quotients of such a period the same in each piece of `piece` elements of an axis of `size`? */
function isWholePeriods(piece: number, period: number, size: number): boolean {
  return period > 0 && size % piece === 0 && (piece % period === 0 || piece === size);
}

/** Copies that a tile makes along an axis. */
export function copiesOn(tile: Tile, axis: number): number {
  for (let t = 0; t < tile.length; t++) if (tile[t][0] === axis) return tile[t][1];
  return 1;
}

/** The dtype in which a value of `d` is computed. */
export function computedAs(d: DType, caps: Capabilities): DType {
  return caps.computeDTypes.includes(d) || smallFloatOf(d) === undefined ? d : dtypes.float32;
}

/** The dtype in which a value of `d` is loaded and stored. */
export function storedAs(d: DType, caps: Capabilities): DType {
  if (caps.storageDTypes.includes(d) || smallFloatOf(d) === undefined) return d;
  return d.bits === 8 ? dtypes.uint8 : dtypes.uint16;
}

/** Instructions a vector where rows of `row` copies are accessed whole, for each of `lanes`, and transposed. */
function transposeCost(row: number, lanes: number): number {
  return 2 * lanes / row - 1 + Math.log2(row);
}

/** Does an access depend on one of these axes? */
function dependsOn(a: Access, axes: readonly number[]): boolean {
  for (let k = 0; k < axes.length; k++) if (a.depends[axes[k]]) return true;
  return false;
}

/** Useful part of the iterations when an axis of `size` is cut in pieces of `k`. */
function efficiency(size: number, k: number): number {
  return size / (Math.ceil(size / k) * k);
}

/** The tile of an operand that may be packed, without copies. */
interface Pack {
  readonly bytes: number;
  readonly uses: number;
  /** By axis: do copies make it larger, or its uses fewer? */
  readonly grows: readonly boolean[];
  readonly repeats: readonly boolean[];
}

/** An access under a choice of lanes. */
interface LaneAccess {
  readonly depends: readonly boolean[];
  /** Instructions for one execution of it, not packed. */
  readonly cost: number;
  /** The axis along which rows of copies are accessed whole and transposed in registers; -1 where there is none. */
  readonly across: number;
  /** Iterations of a reduced axis that are unrolled to be such rows; 1 where there are none. */
  readonly row: number;
  /** What its gate takes beside those: copies with which it does not change share it. */
  readonly gate: number;
  /** How many axes change it. */
  readonly gates: number;
  /** Instructions to fill one vector of it, packed. */
  readonly fill: number;
  /** Iterations of the closed axes that it stands outside of. */
  readonly share: number;
  readonly isScattered: boolean;
  /** Elements along the lanes' axis after which its quotients are as they began; 0 where there are none, or one vector has them. */
  readonly period: number;
  readonly pack: Pack | undefined;
}

/** A region under a choice of lanes. */
interface LaneRegion {
  readonly lane: number;
  readonly lanes: number;
  /** Infinite where the lanes cannot be. */
  readonly iterations: number;
  readonly accesses: readonly LaneAccess[];
  /** Accesses beside those in the list. */
  readonly others: number;
  /** Results whose lanes are combined. */
  readonly results: number;
  /** Arithmetic of one iteration. */
  readonly work: number;
}

/** Costs of the regions of one kernel. Axes by their position in `axes`, output axes first. */
export class CostModel {
  /** Bytes that a packed tile may have. */
  readonly packBytes: number;
  /** By region: what has been asked for. */
  private readonly known = new Map<Region, LaneRegion[]>();

  constructor(
    private readonly axes: readonly Axis[],
    private readonly sizes: readonly number[],
    private readonly outputs: number,
    private readonly caps: Capabilities,
  ) {
    this.packBytes = cacheShare(caps, 1 / 2, 1 << 18);
  }

  /**
   * The cost of a region with these lanes on axis `lane` (or -1), and this tile; a lower bound where that is `most` or more:
   * what is accessed is asked for last.
   */
  cost(r: Region, lane: number, lanes: number, tile: Tile, most: number = Infinity): number {
    const { iterations: all, accesses, others, work } = this.laneRegion(r, lane, lanes);
    if (all === Infinity) return Infinity;
    const here = lane >= 0 && r.axes[lane], { sizes } = this;
    let iterations = all, copies = 1;
    for (let t = 0; t < tile.length; t++) {
      const axis = tile[t][0], k = tile[t][1];
      if (!r.axes[axis]) continue;
      copies *= k;
      iterations /= efficiency(axis === lane ? ceilDiv(sizes[axis], lanes) : sizes[axis], k);
    }
    // a condition that copies do not share selects each product
    const selects = r.guard !== undefined && (r.guard[lane] || tile.some(([axis]) => r.guard![axis])) ? 1 : 0;
    const computed = (work + selects) * copies / 2;
    // unrolling supplies accumulators, most where the lanes are on a reduced axis
    const unrolled = Math.min(LATENCY_ACCUMULATORS / (copies * r.lanes), lane >= this.outputs && here ? 8 : 2);
    const waits = r.kind === "reduce" ? LATENCY / Math.max(1, Math.floor(unrolled)) : 0;
    const least = iterations / copies * Math.max(1.1 * computed, waits);
    if (least >= most) return least;
    let loads = 0, scalars = 0;
    // windows are unrolled where all is accessed by whole vectors
    const isWhole = r.kind === "reduce" && !accesses.some((a) => a.isScattered && a.row === 1);
    for (let n = 0; n < accesses.length; n++) {
      const a = accesses[n], { gated } = r.accesses[n];
      let own = 1, gate = a.gate, changes = a.gates, each = a.cost, isScattered = a.isScattered;
      for (let t = 0; t < tile.length; t++) {
        const [axis, k] = tile[t];
        if (a.depends[axis]) {
          own *= isWhole && axis !== lane ? this.distinct(r, r.accesses[n], axis, k, lane, copies) : k;
        }
        if (gated[axis]) {
          gate *= k;
          if (k === sizes[axis]) changes--;
        }
        if (axis === lane && isWholePeriods(k * lanes, a.period, sizes[axis])) {
          each = Math.min(each, FOLDED_COST * lanes);
          isScattered = false;
          gate = 0;
        }
        const row = axis === a.across ? rowLength(k, lanes) : 1;
        if (row > 1) {
          each = Math.min(each, transposeCost(row, lanes));
          isScattered = false;
        }
      }
      if (a.row > 1) {
        each = Math.min(each, transposeCost(a.row, lanes));
        isScattered = false;
      }
      const uses = a.pack !== undefined && (each > 1 || gate > 0 || isScattered) ? this.usesOf(a.pack, r, tile) : 0;
      if (uses > 0 && each + gate / own > 1 + PACK_GAIN + a.fill / uses) [each, gate] = [1 + a.fill / uses, 0];
      loads += each * own / a.share + (changes > 0 ? gate : 0); // of copies that are all there are it is a constant
      // accesses a lane make long programs
      if (isScattered && uses === 0) scalars += lanes * own;
    }
    loads += others;
    // lanes that are loaded one by one are put together by an instruction each
    const arithmetic = computed + scalars / 2;
    const body = Math.max(Math.max(arithmetic, loads) + 0.1 * (arithmetic + loads), waits);
    return iterations / copies * body * (1 + scalars / 2000);
  }

  /**
   * How many places `k` copies along an output axis read for each iteration of the window that slides along it, where that
   * is unrolled: neighbors read most of it, too. As many as there are copies where nothing slides.
   * @param copies all of the tile
   */
  private distinct(
    { own, accesses }: Region,
    a: Access,
    axis: number,
    k: number,
    lane: number,
    copies: number,
  ): number {
    const step = Math.abs(a.strides[axis]);
    if (!(step > 0)) return k;
    let unrolled = copies * Math.max(1, accesses.length / 2);
    for (let n = own.length - 1; n >= 0; n--) {
      const size = this.sizes[own[n]], by = own[n] === lane ? NaN : Math.abs(a.strides[own[n]]);
      if (size > WINDOW || unrolled * size > UNROLL_COPIES) return k;
      unrolled *= size;
      if (!(by > 0) || by % step !== 0 && step % by !== 0) continue;
      const far = by % step === 0 ? by / step : step / by, [some, all] = by % step === 0 ? [size, k] : [k, size];
      // of `all` places side by side, `some` times, `far` apart
      const places = far >= all ? some * all : all + (some - 1) * far;
      if (places < k * size) return places / size;
    }
    return k;
  }

  /** What it costs to combine the lanes of all results of a region, after what has been read for them. */
  combining(r: Region, lane: number, lanes: number, tile: Tile): number {
    const { results, iterations } = this.laneRegion(r, lane, lanes);
    if (results === 0) return 0;
    let copies = 1, beside = 1;
    for (const [axis, k] of tile) {
      if (!r.axes[axis]) continue;
      copies *= k;
      if (!r.own.includes(axis)) beside *= k;
    }
    const carrier = carrierOf(r.root), isSum = carrier.key === "ADD";
    let each = (isSum ? ADDED_LANE : COMBINED_LANE) * lanes * r.lanes;
    if (this.caps.isShort !== true && joinsLanes(carrier, lanes)) {
      const m = joinedVectors(beside, lanes);
      each = (isSum ? ADDED_VECTOR : COMBINED_VECTOR) * (m - 1 + Math.log2(lanes / m)) / m;
    }
    // that of copies overlaps, and that of short reductions the next one
    return results * Math.max(each, Math.min(COMBINE_LATENCY, iterations / results) / copies);
  }

  /** What the arithmetic of a region costs however it is tiled. */
  arithmeticCost(r: Region, lane: number, lanes: number): number {
    const here = lane >= 0 && r.axes[lane];
    let n = this.arithmeticOf(r, here ? lanes : 1) / 2;
    for (let i = 0; i < this.sizes.length; i++) if (r.axes[i]) n *= this.sizes[i];
    return here ? n / lanes : n;
  }

  /** What packing an operand spares for each vector that is read; 0 where it is not to be packed. */
  packGain(a: Access, r: Region, lane: number, lanes: number, tile: Tile): number {
    const { accesses } = this.laneRegion(r, lane, lanes), at = accesses[r.accesses.indexOf(a)];
    if (at === undefined || lane < 0 || !a.depends[lane] || at.pack === undefined) return 0;
    const uses = this.usesOf(at.pack, r, tile), row = at.across < 0 ? 1 : rowLength(copiesOn(tile, at.across), lanes);
    const plain = row > 1 ? Math.min(at.cost, transposeCost(row, lanes)) : at.cost;
    const gain = uses === 0 ? 0 : plain + at.gate - 1 - at.fill / uses;
    return gain > PACK_GAIN ? gain : 0;
  }

  /** The copy of a packed operand: the axes of its region that it keeps, lanes and copies innermost. */
  packedTile(a: Access, r: Region, extents: readonly number[]): Access {
    const depends = a.depends.map((d, i) => d && (r.own.includes(i) || extents[i] > 1)), strides = extents.map(() => 0);
    let n = 1;
    for (let i = 0; i < extents.length; i++) {
      if (!depends[i] || r.own.includes(i)) continue;
      strides[i] = n;
      n *= extents[i];
    }
    for (let k = r.own.length - 1; k >= 0; k--) {
      if (!depends[r.own[k]]) continue;
      strides[r.own[k]] = n;
      n *= this.sizes[r.own[k]];
    }
    return { ...a, depends, strides, offset: 0 };
  }

  /** Cost of filling one vector of a packed tile. */
  private fillCost(a: Access, lane: number, lanes: number): number {
    return a.strides[lane] !== 1 ? (3 + a.placeWork[lane] / 2) * lanes : a.gated[lane] ? 6 : 3;
  }

  /** Is it an access a lane, unless rows of copies are transposed? */
  isScattered(a: Access, lane: number): boolean {
    if (!a.depends[lane] || a.strides[lane] === 1) return a.isStore && a.gated[lane];
    return a.isStore || a.gated[lane] || !SHUFFLED_STEPS.includes(a.strides[lane]);
  }

  /** The axis of whose copies rows can be accessed, where the lanes are far apart; -1 where there is none. */
  acrossAxis(a: Access, lane: number): number {
    const { strides, gated, node } = a, s = strides[lane];
    if (!a.depends[lane] || s !== s || s === 1 || gated[lane] || a.dtype.isBool) return -1;
    if ((!a.isStore && SHUFFLED_STEPS.includes(s)) || node.src[0].src[0].op !== Ops.PARAM) return -1;
    for (let i = 0; i < strides.length; i++) if (strides[i] === 1 && !gated[i]) return i;
    return -1;
  }

  /**
   * The reduced axis along which the one operand of a region lies side by side, while its lanes are far apart, and how many
   * iterations are rows that are read whole and transposed; undefined where there are none.
   */
  rowsOf(r: Region, lane: number, lanes: number): { readonly axis: number; readonly copies: number } | undefined {
    const [a] = r.accesses;
    if (r.kind !== "reduce" || r.accesses.length !== 1 || lane < 0 || r.own.includes(lane)) return undefined;
    if (this.isSplit(storedAs(a.dtype, this.caps), lanes)) return undefined;
    const axis = this.acrossAxis(a, lane), size = this.sizes[axis];
    if (axis < 0 || !r.own.includes(axis) || this.axes[axis].size === 0) return undefined;
    let copies = rowLength(lanes, lanes);
    // what is left of the axis is done an element at a time
    while (copies > 1 && size % copies !== 0 && size < LEAST_ROWS * copies) copies = rowLength(copies / 2, lanes);
    return copies > 1 ? { axis, copies } : undefined;
  }

  /** Instructions to read a vector of elements side by side: one that two lines have is read twice. */
  private readCost(a: Access, r: Region, lanes: number): number {
    const split = Math.max(0, Math.min(LINE, lanes * a.dtype.itemsize) - alignmentOf(a)) / LINE;
    return Math.max(1 + split, this.rowCost(a, r, lanes));
  }

  /**
   * What reading row after row costs, times a vector in the nearest cache: rows of a power of two meet in few cache sets, and
   * of rows that are far apart each is a page of its own, of which there are more than are known at once.
   */
  private rowCost(a: Access, r: Region, lanes: number): number {
    const { own } = r, { itemsize } = a.dtype;
    let cost = 1;
    for (let k = 0; k < own.length; k++) {
      const stride = a.strides[own[k]] * itemsize, rows = this.sizes[own[k]];
      if (!(stride > 0) || rows < ROWS) continue;
      if (stride % (PAGE / 2) === 0) return CROWDED;
      const isAway = stride >= PAGE / 2 && rows * Math.min(stride, PAGE) > PAGES * PAGE;
      // narrower vectors are several to a line
      if (isAway && lanes * itemsize >= LINE) cost = AWAY;
    }
    return cost;
  }

  /** Vectors of a short reduce axis whose last one is computed under a mask; 0 for other axes. */
  masked(i: number, lanes: number): number {
    const { role, isOpen } = this.axes[i], size = this.sizes[i], vectors = ceilDiv(size, lanes);
    if (this.caps.hasMaskedLoads !== true || role !== "reduce" || isOpen) return 0;
    return size % lanes > 1 && vectors <= MASKED_VECTORS ? vectors : 0;
  }

  /** Iterations along an axis in lanes: the last vector of an output axis overlaps, the rest of a reduce axis is a loop. */
  private iterationsOn(i: number, lanes: number): number {
    const size = this.sizes[i], rest = this.axes[i].isOpen || i < this.outputs ? 0 : size % lanes;
    if (rest === 0) return i < this.outputs ? ceilDiv(size, lanes) : size / lanes;
    return this.masked(i, lanes) || Math.floor(size / lanes) + rest;
  }

  /** Operations of one iteration: `opWork` is of a function as hardware has it, decomposed it is about twice as many. */
  private arithmeticOf(r: Region, lanes: number): number {
    let { work } = r;
    if (lanes === 1) work += r.selects * ((this.caps.selectWork ?? 1) - 1);
    for (const [d, n] of r.works) if (this.isSplit(computedAs(d, this.caps), lanes)) work += n * (lanes - 1);
    for (const [op, n] of r.functions) if (!this.caps.nativeOps.includes(op)) work += n;
    return Math.max(1, work - (r.kind === "reduce" && this.caps.hasMulAcc ? 1 : 0));
  }

  /** Is a vector of a dtype as many scalars? */
  private isSplit(d: DType, lanes: number): boolean {
    return lanes > 1 && !d.isBool && this.caps.vectorLanes(d) < lanes;
  }

  private laneRegion(r: Region, lane: number, lanes: number): LaneRegion {
    let list = this.known.get(r);
    if (list === undefined) this.known.set(r, list = []);
    for (let i = 0; i < list.length; i++) if (list[i].lane === lane && list[i].lanes === lanes) return list[i];
    const made = this.makeLaneRegion(r, lane, lanes);
    list.push(made);
    return made;
  }

  private makeLaneRegion(r: Region, lane: number, lanes: number): LaneRegion {
    const { sizes } = this, { own } = r, here = lane >= 0 && r.axes[lane], isStage = r.kind === "stage";
    const isWhole = (): boolean =>
      isStage ? sizes[lane] % lanes === 0 : sizes[lane] >= lanes || this.masked(lane, lanes) > 0;
    if (here && ((isStage && !own.includes(lane)) || (lane >= this.outputs && !isWhole()))) {
      return { lane, lanes, iterations: Infinity, accesses: [], others: 0, results: 0, work: 0 };
    }
    let iterations = 1, results = 0;
    for (let i = 0; i < sizes.length; i++) if (r.axes[i]) iterations *= sizes[i];
    if (here) iterations *= this.iterationsOn(lane, lanes) / sizes[lane];
    if (r.kind === "reduce" && own.includes(lane)) {
      // one combination of the lanes for each result
      results = 1;
      for (let i = 0; i < sizes.length; i++) if (r.axes[i] && !own.includes(i)) results *= sizes[i];
    }
    const accesses = r.accesses.map((a): LaneAccess => {
      let share = 1;
      // what does not depend on the closed axes stands outside of their loops
      if (own.length > 0 && !dependsOn(a, own)) {
        for (let k = 0; k < own.length; k++) share *= own[k] === lane ? sizes[lane] / lanes : sizes[own[k]];
      }
      let gateShare = 1;
      for (let k = 0; k < own.length; k++) {
        if (!a.gated[own[k]]) gateShare *= own[k] === lane ? sizes[lane] / lanes : sizes[own[k]];
      }
      const period = here && !a.isStore && (a.strides[lane] !== a.strides[lane] || a.gated[lane]) ? a.periods[lane] : 0;
      const isFolded = isWholePeriods(lanes, period, sizes[lane]),
        cost = this.accessCost(a, r, lane, lanes);
      return {
        depends: a.depends,
        cost: isFolded ? Math.min(cost, FOLDED_COST * lanes) : cost,
        row: isFolded ? 1 : this.rowsOf(r, lane, lanes)?.copies ?? 1,
        gate: isFolded ? 0 : this.gateCost(a, here ? lane : -1) / gateShare,
        gates: a.gated.reduce((n, isGated) => isGated ? n + 1 : n, 0),
        across: here && !this.isSplit(storedAs(a.dtype, this.caps), lanes) ? this.acrossAxis(a, lane) : -1,
        fill: this.fillCost(a, lane, lanes),
        share,
        isScattered: here && !isFolded && this.isScattered(a, lane),
        period: isFolded ? 0 : period,
        pack: this.packOf(a, r, lane, lanes),
      };
    });
    const others = !isStage ? 0 : here || lane < 0 ? 1 : lanes;
    return { lane, lanes, iterations, accesses, others, results, work: this.arithmeticOf(r, here ? lanes : 1) };
  }

  /** Instructions for one execution of an access that is not packed. */
  private accessCost(a: Access, r: Region, lane: number, lanes: number): number {
    if (lane < 0 || !a.depends[lane]) return a.isStore || a.gated.includes(true) ? 1 : 0.5;
    const contiguous = a.strides[lane] === 1;
    if (this.isSplit(storedAs(a.dtype, this.caps), lanes)) {
      return a.isStore || a.gated.includes(true) ? lanes : lanes / 2;
    }
    // a gate that differs by lane: a store a lane
    if (a.gated[lane]) {
      return contiguous && !a.isStore
        ? this.edgeCost(a, r, lanes)
        : (3 + (contiguous ? 0 : a.placeWork[lane] / 2)) * lanes;
    }
    if (contiguous) return a.isStore ? 1.5 : this.readCost(a, r, lanes);
    if (!a.isStore && SHUFFLED_STEPS.includes(a.strides[lane])) return 2 * Math.abs(a.strides[lane]) - 1;
    // without masks the place of each lane is selected
    const isSelected = !a.isStore && this.caps.selectWork !== undefined && a.gated.includes(true);
    return (a.isStore ? 3 : isSelected ? 2.25 : 1.25) * lanes;
  }

  /** What finding a gate takes; of those that do not differ by lane a C compiler makes loops of their own. */
  private gateCost({ gated }: Access, lane: number): number {
    if (lane >= 0 && gated[lane]) return LANE_GATE;
    return this.caps.selectWork !== undefined && gated.includes(true) ? GATE : 0;
  }

  private edgeCost(a: Access, r: Region, lanes: number): number {
    const { hasMaskedLoads, vectorBytes } = this.caps, { itemsize } = a.dtype;
    const isMasked = hasMaskedLoads === true && itemsize === 4 && itemsize * lanes <= vectorBytes;
    return isMasked ? this.readCost(a, r, lanes) + MASK_COST : EDGE_COST;
  }

  /** Where an operand can be packed: it must be read in a reduction, from memory. */
  private packOf(a: Access, r: Region, lane: number, lanes: number): Pack | undefined {
    const { sizes, axes } = this, { own } = r;
    if (a.isStore || r.kind !== "reduce" || own.includes(lane) || !dependsOn(a, own)) return undefined;
    if (a.node.src[0].src[0].op !== Ops.PARAM) return undefined;
    if (axes.some(({ isOpen }, i) => isOpen && a.depends[i])) return undefined;
    let bytes = a.dtype.itemsize * (lane < this.outputs ? lanes : sizes[lane]), uses = 1;
    const grows: boolean[] = [], repeats: boolean[] = [];
    for (let i = 0; i < sizes.length; i++) {
      // loops of a STAGE are inside of those around the tile
      const isStage = axes[i].role === "stage", isWhole = own.includes(i) || (isStage && i !== lane);
      grows.push(r.axes[i] && a.depends[i] && !isWhole);
      repeats.push(r.axes[i] && !a.depends[i]);
      if (!r.axes[i]) continue;
      if (a.depends[i]) bytes *= isWhole ? sizes[i] : 1;
      else if (i < this.outputs || isStage) uses *= sizes[i];
      else return undefined;
    }
    return { bytes, uses, grows, repeats };
  }

  private usesOf(pack: Pack, r: Region, tile: Tile): number {
    let { bytes, uses } = pack;
    for (let t = 0; t < tile.length; t++) {
      const axis = tile[t][0], k = tile[t][1];
      if (!r.axes[axis]) continue;
      if (pack.grows[axis]) bytes *= k;
      else if (pack.repeats[axis]) uses = uses / this.sizes[axis] * ceilDiv(this.sizes[axis], k);
    }
    return bytes <= this.packBytes && uses >= PACK_USES ? uses : 0;
  }
}
