/**
 * What may be chosen for loops on a CPU: register tiles, blocks and orders of loops, operands that are packed. In: a kernel
 * before any opt. Out: the few choices that are worth the question what they cost (loop_costs.ts).
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { ceilDiv, gcd } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { type Access, type Region, regionsOf } from "../machine/access.ts";
import { computedAs, copiesOn, CostModel, storedAs, type Tile } from "../machine/cost_model.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Axis } from "../opt/axis.ts";
import type { Kernel } from "../opt/kernel.ts";

/** Sizes of register tiles that are tried along an axis: those whose products fill, but do not exceed, 16 or 32 registers. */
const TILE_SIZES = [2, 3, 4, 6, 8, 12];
/** Copies along the lanes' axis for the sake of quotients, at most. */
const MOST_PERIOD_COPIES = 8;
/** Sizes of blocks that are tried where accesses lie along different axes. */
const BLOCK_SIZES = [32, 64, 128, 256];
/** Elements of an axis that may all be copies for the sake of gates, at most. */
const SHORT_GATE = 4;
/** The tile of one copy. */
export const NO_TILE: Tile = [];
const NONE: readonly Access[] = [];

/** How a kernel may be vectorized and tiled. */
export interface Candidate {
  /** Output axis with the lanes; -1 where none has. */
  readonly vector: number;
  readonly lanes: number;
  /** By region: the axis with the lanes, -1 where none has. */
  readonly regionLanes: readonly number[];
  readonly tile: Tile;
  /** Elements of blocks of output axes: what they hold is read and written before the next block. */
  readonly blocks: Tile;
  /** Output axes in the order of loops. */
  readonly order: readonly number[];
  /** The operands that are packed: all change in the same loops. */
  readonly packed: readonly Access[];
}

/** Lanes for the values of a kernel: the fewest that any vectorizable dtype of them has. */
function lanesFor(values: Iterable<DType>, caps: Capabilities): number {
  let lanes = Infinity;
  for (const d of values) {
    for (const e of [computedAs(d, caps), storedAs(d, caps)]) {
      const n = caps.vectorLanes(e);
      if (n > 1) lanes = Math.min(lanes, n);
    }
  }
  return lanes === Infinity ? 1 : lanes;
}

/** A kernel's loops, and the choices that there are for them. Axes by their position, output axes first. */
export class LoopCandidates {
  readonly axes: readonly Axis[];
  readonly sizes: readonly number[];
  readonly outputs: number;
  readonly regions: readonly Region[];
  /** The regions of STAGEs. */
  readonly stages: readonly Region[];
  /** The most lanes that all values have. */
  readonly lanes: number;
  readonly model: CostModel;
  /** The output axes as they are. */
  private readonly inOrder: readonly number[];

  constructor(private readonly kernel: Kernel, readonly caps: Capabilities) {
    this.axes = kernel.axes;
    this.outputs = kernel.outputAxes.length;
    this.sizes = this.axes.map((a) => a.expected);
    const { regions, dtypes } = regionsOf(kernel.ast, this.axes);
    this.regions = regions;
    this.stages = regions.filter((r) => r.kind === "stage");
    // what is read and written decides: indices have vectors everywhere
    const hasVectors = regions.some((r) => r.accesses.some((a) => lanesFor([a.dtype], caps) > 1));
    this.lanes = hasVectors ? lanesFor(dtypes, caps) : 1;
    this.model = new CostModel(this.axes, this.sizes, this.outputs, caps);
    this.inOrder = Array.from({ length: this.outputs }, (_, i) => i);
  }

  /** Can `k` be split off output axis `i`? */
  canSplit(i: number, k: number): boolean {
    const { size } = this.axes[i];
    return size >= k && (size % k === 0 || this.kernel.mayOverlap);
  }

  /** At most `copies` vectors along an axis, so that they divide it or the last ones may overlap. */
  wholeCopies(axis: number, lanes: number, copies: number): number {
    const { size } = this.axes[axis];
    for (; copies > 1; copies--) {
      const tile = lanes * copies;
      if (size % tile === 0 || (this.kernel.mayOverlap && size >= tile)) break;
    }
    return copies;
  }

  /** Tiles to try with these lanes: none first, then rows that are transposed, then those of the main reduction. */
  tiles(
    main: Region | undefined,
    regionLanes: readonly number[],
    vector: number,
    lanes: number,
  ): Tile[] {
    const tiles: Tile[] = [this.plainTile(vector, lanes)];
    const rows = new Set<number>();
    for (const [k, r] of this.regions.entries()) {
      for (const a of r.accesses) rows.add(regionLanes[k] < 0 ? -1 : this.model.acrossAxis(a, regionLanes[k]));
    }
    for (const i of rows) {
      if (i < 0 || i >= this.outputs || i === vector) continue;
      for (let n = lanes; n >= Math.min(4, lanes); n /= 2) if (this.canSplit(i, n)) tiles.push([[i, n]]);
    }
    for (const n of this.periodCopies(vector, lanes)) tiles.push([[vector, n]]);
    for (const i of this.shortGates()) {
      if (i !== vector && this.canSplit(i, this.sizes[i])) tiles.push([[i, this.sizes[i]]]);
    }
    const plain = tiles[0], withPlain = (t: Tile): Tile => copiesOn(t, vector) > 1 ? t : [...t, ...plain];
    if (main !== undefined) tiles.push(...this.tilesOf(main, this.inOrder, vector, lanes).map(withPlain));
    return tiles.filter((tile, k) => k === 0 || !this.copiesMemory(tile));
  }

  /** Short output axes that gates depend on: of copies of all of it they are constants. */
  private shortGates(): Set<number> {
    const isShort = (i: number): boolean => i < this.outputs && this.sizes[i] > 1 && this.sizes[i] <= SHORT_GATE;
    const found = new Set<number>();
    for (const r of this.regions) {
      for (const { gated } of r.accesses) {
        gated.forEach((is, i) => is && isShort(i) && this.axes[i].size > 0 && found.add(i));
      }
    }
    return found;
  }

  /** Copies along the lanes' axis with which quotients in places of accesses are constants. */
  private periodCopies(vector: number, lanes: number): Set<number> {
    const found = new Set<number>(), size = vector < 0 ? 0 : this.axes[vector].size;
    if (size === 0 || size % lanes !== 0) return found;
    for (const r of this.regions) {
      for (const { periods } of r.accesses) {
        if (periods[vector] === 0) continue;
        for (const n of [periods[vector] / gcd(periods[vector], lanes), size / lanes]) {
          if (n > 1 && n <= MOST_PERIOD_COPIES && size % (n * lanes) === 0) found.add(n);
        }
      }
    }
    return found;
  }

  /** Copies along the lanes' axis for independent work, where nothing is reduced along it. */
  private plainTile(vector: number, lanes: number): Tile {
    if (vector < 0 || this.regions.some((r) => r.axes[vector] && r.own.length > 0)) return NO_TILE;
    const work = this.regions.reduce((n, r) => n + (r.axes[vector] ? r.work + r.accesses.length : 0), 0);
    const copies = this.wholeCopies(vector, lanes, work <= 12 ? 4 : work <= 40 ? 2 : 1);
    return copies > 1 ? [[vector, copies]] : NO_TILE;
  }

  /**
   * Register tiles of one or two of `axes`: of two, where they let different operands be used again. Those of a STAGE are
   * cut in equal parts.
   */
  tilesOf(main: Region, axes: readonly number[], vector: number, lanes: number): Tile[] {
    const out: Tile[] = [];
    const limit = Math.floor(this.budget / main.lanes);
    const options = axes.filter((i) => main.axes[i] && this.axes[i].size > 0).map((i) => {
      const { size, isOpen } = this.axes[i], overlaps = i < this.outputs && !isOpen && this.kernel.mayOverlap;
      const piece = i === vector ? lanes : 1;
      const sizes = TILE_SIZES.filter((k) => k <= limit && size >= k * piece && (overlaps || size % (k * piece) === 0));
      return { axis: i, sizes, uses: main.accesses.map((a) => a.depends[i] ? 1 : 0).join("") };
    });
    options.forEach((a, n) => {
      for (const k of a.sizes) {
        out.push([[a.axis, k]]);
        for (const b of options.slice(n + 1)) {
          if (a.uses === b.uses) continue;
          for (const m of b.sizes) if (k * m <= limit) out.push([[a.axis, k], [b.axis, m]]);
        }
      }
    });
    return out;
  }

  /** Accumulators that fit the registers beside operands. */
  private get budget(): number {
    const { registers, vectorBytes } = this.caps;
    // an engine that compiles in one pass (WebAssembly) spills sooner than a C compiler
    return registers >= 32 ? 24 : vectorBytes <= 16 ? Math.max(4, Math.floor(registers * 0.57)) : 12;
  }

  /** Would copies along output axes multiply what the kernel keeps beyond the first cache? */
  private copiesMemory(tile: Tile): boolean {
    let nbytes = 0, copies = 1;
    for (const r of this.stages) {
      let n = 1;
      for (let t = 0; t < tile.length; t++) if (r.axes[tile[t][0]]) n *= tile[t][1];
      copies = Math.max(copies, n);
      nbytes += r.own.reduce((p, i) => p * this.sizes[i], n * r.root.dtype.itemsize);
    }
    return copies > 1 && nbytes > (this.caps.l1 || 1 << 15);
  }

  /** Blocks to try: none, and where nothing is kept or reduced, blocks of all axes along which some access lies. */
  blocks(tile: Tile, vector: number, lanes: number): Tile[] {
    const out: Tile[] = [NO_TILE], axes = new Set<number>();
    if (!this.kernel.mayOverlap || this.regions.some((r) => r.kind !== "store")) return out;
    for (const r of this.regions) {
      for (const a of r.accesses) a.strides.forEach((s, i) => Math.abs(s) === 1 && axes.add(i));
    }
    if (axes.size < 2 || [...axes].some((i) => this.axes[i].isOpen)) return out;
    for (const size of BLOCK_SIZES) {
      const blocks = [...axes].map((i): [number, number] => {
        const piece = copiesOn(tile, i) * (i === vector ? lanes : 1);
        return [i, Math.min(Math.floor(this.sizes[i] / piece) * piece, ceilDiv(size, piece) * piece)];
      });
      if (blocks.every(([, k]) => k > 1)) out.push(blocks);
      if (blocks.every(([i, k]) => 2 * k > this.sizes[i])) break;
    }
    return out;
  }

  /** The operands to pack: where it gains most, and others that change in the same loops. */
  packed({ lanes, regionLanes, tile }: Pick<Candidate, "lanes" | "regionLanes" | "tile">): readonly Access[] {
    const found: { access: Access; gain: number }[] = [];
    this.regions.forEach((r, k) => {
      for (const access of r.accesses) {
        const gain = this.model.packGain(access, r, regionLanes[k], lanes, tile);
        if (gain > 0) found.push({ access, gain });
      }
    });
    if (found.length === 0) return NONE;
    found.sort((a, b) => b.gain - a.gain);
    const first = found[0].access, bases = new Set<UOp>();
    return found.map((f) => f.access).filter((a) => {
      const base = a.node.src[0].src[0];
      if (bases.has(base) || this.inOrder.some((i) => a.depends[i] !== first.depends[i])) return false;
      return bases.add(base);
    });
  }

  /**
   * Loop orders of the output axes to try. With packed operands: first the axes that they depend on. Else as they are, or the
   * lanes' axis outside of the other tiled axis, so that a panel along it is read again from the cache.
   */
  orders(tile: Tile, vector: number, [packed]: readonly Access[]): (readonly number[])[] {
    const order = this.inOrder;
    if (packed !== undefined) {
      return [[...order.filter((i) => packed.depends[i]), ...order.filter((i) => !packed.depends[i])]];
    }
    const other = tile.find(([i]) => i !== vector)?.[0] ?? -1;
    if (vector < 0 || other < 0 || other > vector) return [order];
    const isTiled = this.regions.some((r) => r.kind === "reduce" && r.axes[vector] && r.axes[other]);
    // what does not depend on the lanes' axis would be computed again and again inside of it
    const isAlone = this.regions.some((r) => r.axes[other] && !r.axes[vector]);
    if (!isTiled || isAlone) return [order];
    const swapped = order.slice();
    [swapped[vector], swapped[other]] = [other, vector];
    return [order, swapped];
  }
}
