/**
 * Groups of threads in plain JavaScript, for tests of what codegen makes for GPUs. A kernel whose threads work together
 * becomes a generator that yields where they meet; the threads of a group run in turn from one meeting to the next. What
 * goes wrong on a GPU now and then goes wrong here always: a race in shared memory, a barrier that not all threads reach,
 * a copy that was not waited for, an access that is not aligned.
 *
 * @module
 */
import { dtypes } from "../../src/dtype/dtype.ts";
import { SpecError } from "../../src/helpers/errors.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import {
  elementsOf,
  type Fragment,
  positionIn,
  swizzle,
  SWIZZLED_ROW,
  type TensorCore,
} from "../../src/renderer/tensor_core_table.ts";
import { isShared } from "../../src/renderer/visitor.ts";
import { isCollective } from "../../src/uop/core/ops.ts";

/** True where the threads of a group work together: such kernels run as generators. */
export function worksTogether(program: LinearProgram): boolean {
  return program.uops.some((u) => isCollective(u.op) || isShared(u));
}

/** What a thread waits for: all threads of the group, or the lanes of its warp. `site` tells the places apart. */
export interface Meeting {
  readonly site: number;
  readonly group: boolean;
}

/** Who touched each element of one shared array last, between two barriers. */
export class SharedWatch {
  private readonly writer: Int32Array;
  private readonly written: Int32Array;
  private readonly reader: Int32Array;
  private readonly read: Int32Array;
  constructor(private readonly name: string, size: number) {
    this.writer = new Int32Array(size);
    this.written = new Int32Array(size).fill(-1);
    this.reader = new Int32Array(size);
    this.read = new Int32Array(size).fill(-1);
  }
  private race(what: string, at: number, a: number, b: number): never {
    throw new SpecError(`Threads ${a} and ${b} ${what} element ${at} of ${this.name} without a barrier between`);
  }
  /** Thread `me` reads `n` elements in the span `epoch` between barriers. */
  onRead(at: number, n: number, me: number, epoch: number): void {
    for (let i = at; i < at + n; i++) {
      if (this.written[i] < 0) {
        throw new SpecError(`Thread ${me} reads element ${i} of ${this.name}, which nobody wrote`);
      }
      if (this.written[i] === epoch && this.writer[i] !== me) this.race("write and read", i, this.writer[i], me);
      this.reader[i] = this.read[i] === epoch && this.reader[i] !== me ? -1 : me;
      this.read[i] = epoch;
    }
  }
  /** Thread `me` writes them. */
  onWrite(at: number, n: number, me: number, epoch: number): void {
    for (let i = at; i < at + n; i++) {
      if (this.written[i] === epoch && this.writer[i] !== me) this.race("both write", i, this.writer[i], me);
      if (this.read[i] === epoch && this.reader[i] !== me) this.race("read and write", i, this.reader[i], me);
      this.writer[i] = me;
      this.written[i] = epoch;
    }
  }
  /** A matrix unit has read an element until now, since the span `epoch`. */
  onLateRead(at: number, epoch: number): void {
    if (this.written[at] <= epoch) return;
    throw new SpecError(`Thread ${this.writer[at]} writes element ${at} of ${this.name}, which a matrix unit reads`);
  }
  /** Forgets everything: another group begins. */
  reset(): void {
    this.written.fill(-1);
    this.read.fill(-1);
  }
}

/** What a thread has started, in batches: it happens when it is waited for. */
class Batches {
  /** Closed batches, then the open one. */
  private readonly list: (() => void)[][] = [[]];
  start(fn: () => void): void {
    this.list[this.list.length - 1].push(fn);
  }
  commit(): void {
    this.list.push([]);
  }
  /** Performs all but the latest `n` batches. */
  wait(n: number): void {
    while (this.list.length > n + 1) for (const fn of this.list.shift()!) fn();
  }
}

/** What one thread of a group sees of the others. */
export class ThreadContext {
  /** Copies that were started, and what matrix units read. */
  readonly copies: Batches = new Batches();
  readonly products: Batches = new Batches();
  /** Barriers passed. */
  epoch = 0;
  private side = 0;
  constructor(
    /** Number in the group, and of its warp's first lane. */
    readonly me: number,
    readonly first: number,
    private readonly values: unknown[][],
  ) {}
  /** Shows a value to the warp; then the thread meets the others. */
  offer(value: unknown): void {
    this.side ^= 1;
    this.values[this.side][this.me] = value;
  }
  /** What lane `lane` of the warp offered. */
  from(lane: number): unknown {
    return this.values[this.side][this.first + lane];
  }
  get lane(): number {
    return this.me - this.first;
  }
}

/** The body of a thread. */
export type ThreadBody = (
  group: readonly number[],
  thread: readonly number[],
  context: ThreadContext,
) => Generator<Meeting, void, void>;

/** Runs all groups, one after the other; `reset` before each. */
export function runGroups(
  linear: LinearProgram,
  warp: number,
  groups: readonly number[],
  body: ThreadBody,
  reset: () => void,
): void {
  const [sx, sy, sz] = linear.grid?.size ?? [1, 1, 1];
  const n = sx * sy * sz;
  for (let z = 0; z < groups[2]; z++) {
    for (let y = 0; y < groups[1]; y++) {
      for (let x = 0; x < groups[0]; x++) {
        reset();
        runGroup(linear.name, warp, n, (me, context) => {
          return body([x, y, z], [me % sx, Math.floor(me / sx) % sy, Math.floor(me / (sx * sy))], context);
        });
      }
    }
  }
}

function runGroup(
  name: string,
  warp: number,
  n: number,
  start: (me: number, context: ThreadContext) => Generator<Meeting, void, void>,
): void {
  const values: unknown[][] = [[], []];
  const contexts = Array.from({ length: n }, (_, me) => new ThreadContext(me, me - me % warp, values));
  const threads = contexts.map((c, me) => start(me, c));
  const warps = Math.ceil(n / warp);
  /** Where each warp waits for the group; undefined once it has ended. */
  let waiting: (Meeting | undefined)[] = [];
  do {
    waiting = [];
    for (let w = 0; w < warps; w++) {
      let met: Meeting | undefined;
      do {
        const lanes = threads.slice(w * warp, (w + 1) * warp).map((t) => t.next().value as Meeting | undefined);
        met = lanes[0];
        const odd = lanes.findIndex((m) => m?.site !== met?.site);
        if (odd >= 0) {
          throw new SpecError(`Lanes 0 and ${odd} of warp ${w} part in the program ${name}: not all meet the others`);
        }
      } while (met !== undefined && !met.group);
      waiting.push(met);
    }
    const odd = waiting.findIndex((m) => m?.site !== waiting[0]?.site);
    if (odd >= 0) throw new SpecError(`Warps 0 and ${odd} wait at different barriers in the program ${name}`);
    for (const c of contexts) c.epoch++;
  } while (waiting[0] !== undefined);
}

/** By fragment: lane and element of each position, as lane * elements + element, by row * columns + column. */
const places = new WeakMap<Fragment, Int32Array>();

function placesOf(f: Fragment, rows: number, columns: number): Int32Array {
  let table = places.get(f);
  if (table === undefined) {
    places.set(f, table = new Int32Array(rows * columns).fill(-1));
    const elements = elementsOf(f);
    for (let lane = 0; lane < 1 << f.lane.length; lane++) {
      for (let e = 0; e < elements; e++) {
        const [r, c] = positionIn(f, lane, e);
        table[r * columns + c] = lane * elements + e;
      }
    }
  }
  return table;
}

const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);

/** `x` with the ten bits of mantissa that tf32 has, ties away from zero. */
function tf32(x: number): number {
  float[0] = x;
  if ((bits[0] & 0x7f800000) !== 0x7f800000) bits[0] = (bits[0] + 0x1000) & 0xffffe000;
  return float[0];
}

/** The thread's elements of A * B + C, from what all lanes of the warp offered: [a, b] each. */
export function multiply(core: TensorCore, context: ThreadContext, c: readonly number[]): number[] {
  const a = placesOf(core.a, core.m, core.k), b = placesOf(core.b, core.k, core.n);
  const na = elementsOf(core.a), nb = elementsOf(core.b);
  const round = core.input === dtypes.float32 ? tf32 : (x: number): number => x;
  return c.map((start, e) => {
    const [row, column] = positionIn(core.c, context.lane, e);
    let sum = start;
    for (let k = 0; k < core.k; k++) {
      const i = a[row * core.k + k], j = b[k * core.n + column];
      const x = (context.from(Math.floor(i / na)) as number[][])[0][i % na];
      const y = (context.from(Math.floor(j / nb)) as number[][])[1][j % nb];
      sum += round(x) * round(y);
    }
    return core.output.isFloat ? Math.fround(sum) : sum | 0;
  });
}

/** A tile of an operand in shared memory. */
interface TileMemory {
  /** Its first element, and bytes of each. */
  readonly at: number;
  readonly itemsize: number;
  readonly watch: SharedWatch;
  readonly read: (i: number) => number;
}

/** What a lane offers of a product that reads shared memory. */
interface SharedOperands {
  /** Its elements of a left operand in registers. */
  readonly held: readonly number[] | undefined;
  /** The first lane of a warp: the operands in shared memory, by side and element of the sum. */
  readonly tiles: readonly Float64Array[];
}

/** What a lane offers of the operands of a product, of those in shared memory the last is the right one. */
export function readShared(
  core: TensorCore,
  context: ThreadContext,
  tiles: readonly TileMemory[],
  held?: readonly number[],
): SharedOperands {
  if (context.lane > 0) return { held, tiles: [] };
  const places = core.shared!.slice(-tiles.length);
  return {
    held,
    tiles: tiles.map(({ at, itemsize, watch, read }, i) => {
      const { isAlong, block } = places[i]!, { epoch } = context, sides = i < tiles.length - 1 ? core.m : core.n;
      return Float64Array.from({ length: sides * core.k }, (_, e) => {
        const k = e % core.k, side = Math.floor(e / core.k), [x, y] = isAlong ? [side, k] : [k, side];
        const far = Math.floor(x * itemsize / SWIZZLED_ROW) * block;
        const place = swizzle(at * itemsize + far + y * SWIZZLED_ROW + x * itemsize % SWIZZLED_ROW) / itemsize;
        watch.onRead(place, 1, context.me, epoch);
        context.products.start(() => watch.onLateRead(place, epoch));
        return read(place);
      });
    }),
  };
}

/** The thread's elements of A * B + C, of what the lanes of the warp offered. */
export function multiplyShared(core: TensorCore, context: ThreadContext, c: readonly number[]): number[] {
  const { held, tiles } = context.from(0) as SharedOperands, b = tiles[tiles.length - 1], { k: terms } = core;
  const places = held && placesOf(core.a, core.m, terms), n = elementsOf(core.a), isFloat = core.output.isFloat;
  const rows = new Map<number, ArrayLike<number>>();
  // of a left operand in registers the lanes of this warp have its rows
  const rowOf = (row: number): ArrayLike<number> => {
    if (places === undefined) return tiles[0].subarray(row * terms, (row + 1) * terms);
    return Float64Array.from({ length: terms }, (_, k) => {
      const i = places[row * terms + k], lane = Math.floor(i / n) - context.me % core.lanes + context.lane;
      return (context.from(lane) as SharedOperands).held![i % n];
    });
  };
  return c.map((start, e) => {
    const [row, column] = positionIn(core.c, context.me % core.lanes, e);
    let a = rows.get(row), sum = start;
    if (a === undefined) rows.set(row, a = rowOf(row));
    for (let k = 0; k < terms; k++) sum += a[k] * b[column * terms + k];
    return isFloat ? Math.fround(sum) : sum | 0;
  });
}

/** Indices of the eight elements that LDMATRIX gives this lane, from the row addresses that the lanes offered. */
export function matrixElements(context: ThreadContext, transposed: boolean): number[] {
  const l = context.lane, out: number[] = [];
  for (let tile = 0; tile < 4; tile++) {
    for (let j = 0; j < 2; j++) {
      const pair = (l & 3) * 2 + j, quad = l >> 2;
      const [row, column] = transposed ? [pair, quad] : [quad, pair];
      out.push(context.from(tile * 8 + row) as number + column);
    }
  }
  return out;
}
