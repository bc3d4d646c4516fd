/**
 * What goes on by itself in a PTX kernel: copies to shared memory, of boxes too, and matrix units that read it. All happen as late as they
 * may, when they are waited for: what is read before, or overwritten, is found by its values.
 *
 * Source: NVIDIA, "Parallel Thread Execution ISA", sections on cp.async, cp.async.bulk.tensor, mbarrier and wgmma.
 *
 * @module
 */
import { bf16BitsToF32 } from "../../../src/dtype/convert.ts";
import { f16Value } from "../../../src/dtype/float16.ts";
import type { ProgramMap } from "../../../src/renderer/renderer.ts";

/** Batches of what is under way: closed ones, then the open one. */
export class Batches<T> {
  private list: T[][] = [[]];
  add(x: T): void {
    this.list[this.list.length - 1].push(x);
  }
  commit(): void {
    this.list.push([]);
  }
  /** All but the latest `left` batches: they are no longer under way. */
  take(left: number): T[] {
    return this.list.splice(0, Math.max(0, this.list.length - 1 - left)).flat();
  }
}

/** A barrier with phases, each of which is complete when so many threads have arrived and all bytes have come. */
export class PhaseBarrier {
  private phase = 0;
  private left: number;
  private expected = 0;
  /** Copies on their way. */
  private copies: { readonly nbytes: number; readonly run: () => void }[] = [];

  constructor(private readonly count: number) {
    this.left = count;
  }
  /** A thread arrives, and has so many bytes come. */
  expect(nbytes: number): void {
    if (--this.left < 0) throw new Error("more threads arrive at a barrier than it has been made for");
    this.expected += nbytes;
  }
  /** A copy of so many bytes is under way. */
  bring(nbytes: number, run: () => void): void {
    this.copies.push({ nbytes, run });
  }
  /** Is the phase of this parity complete? Copies come in the last moment. */
  isOver(parity: number): boolean {
    if (this.phase !== parity) return true;
    if (this.left > 0) return false;
    const nbytes = this.copies.reduce((n, c) => n + c.nbytes, 0);
    if (nbytes > this.expected) throw new Error(`${nbytes} bytes come to a barrier that expects ${this.expected}`);
    if (nbytes < this.expected) return false;
    for (const { run } of this.copies.splice(0)) run();
    this.phase ^= 1;
    this.left = this.count;
    this.expected = 0;
    return true;
  }
}

/** Bytes of a box. */
export function boxBytes({ map, dtype }: ProgramMap): number {
  return map.box.reduce((n, k) => n * k, dtype.itemsize);
}

/** Copies the box at a position into rows of 128 swizzled bytes; what is outside is zero. */
export function bringBox(
  { map: { offset, sizes, strides, box }, dtype: { itemsize } }: ProgramMap,
  source: Uint8Array,
  position: readonly number[],
  shared: DataView,
  start: number,
): void {
  if (box[0] * itemsize !== 128) throw new Error(`rows of ${box[0] * itemsize} bytes in a box`);
  const count = box.reduce((n, k) => n * k, 1);
  for (let i = 0; i < count; i++) {
    let left = i, from = offset, isInside = true;
    box.forEach((n, d) => {
      const x = position[d] + left % n;
      left = Math.floor(left / n);
      isInside &&= x >= 0 && x < sizes[d];
      from += x * strides[d];
    });
    const at = start + i * itemsize, place = at ^ (at >> 3 & 0x70);
    for (let b = 0; b < itemsize; b++) shared.setUint8(place + b, isInside ? source[from * itemsize + b] : 0);
  }
}

/** A product of a unit, as its instruction says. */
export interface UnitProduct {
  readonly text: string;
  readonly columns: number;
  readonly isHalf: boolean;
  readonly sums: readonly string[];
  /** Registers of the left operand, or of the descriptor of where it is. */
  readonly left: readonly string[];
  readonly right: bigint;
  readonly leftAt: bigint | undefined;
  readonly adds: boolean;
  readonly isAlong: readonly boolean[];
}

/** A product of wgmma.mma_async. `read` gives the value of an operand. */
export function unitProduct(
  name: string,
  operands: readonly string[],
  read: (operand: string) => number | bigint | boolean,
): UnitProduct {
  const [, columns, type] = /m64n(\d+)k16\.f32\.(\w+)\./.exec(name)!, parts = (x: string) => x.slice(1, -1).split(", ");
  const isHeld = operands[1].startsWith("{"), flags = operands.slice(6).map((x) => x === "1");
  return {
    text: name,
    columns: Number(columns),
    isHalf: type === "f16",
    sums: parts(operands[0]),
    left: isHeld ? parts(operands[1]) : [],
    leftAt: isHeld ? undefined : read(operands[1]) as bigint,
    right: read(operands[2]) as bigint,
    adds: read(operands[3]) as boolean,
    isAlong: flags,
  };
}

/** Element (side, k) of a tile that a descriptor tells, in rows of 128 swizzled bytes. */
function placeOf(descriptor: bigint, side: number, k: number, isAlong: boolean): number {
  const field = (at: bigint): number => Number(descriptor >> at & 0x3fffn) << 4;
  if (BigInt.asUintN(64, descriptor) >> 62n !== 1n) throw new Error("no swizzle of 128 bytes");
  const [start, block, eight] = [field(0n), field(16n), field(32n)];
  const at = isAlong
    ? start + (side >> 6) * block + (k >> 3) * eight + (k & 7) * 128 + (side & 63) * 2
    : start + (side >> 3) * eight + (side & 7) * 128 + k * 2;
  return at ^ (at >> 3 & 0x70);
}

/** One of 128 threads. */
export interface UnitLane {
  readonly get: (register: string) => number;
  readonly set: (register: string, x: number) => void;
}

/** Does a product. */
export function multiply(p: UnitProduct, lanes: readonly UnitLane[], shared: DataView): void {
  const value = (bits: number): number => p.isHalf ? f16Value(bits & 0xffff) : bf16BitsToF32(bits & 0xffff);
  const a = new Float64Array(64 * 16), b = new Float64Array(p.columns * 16);
  lanes.forEach((lane, l) => {
    const row = (l >> 5) * 16 + (l >> 2 & 7), column = (l & 3) * 2;
    p.left.forEach((r, w) => {
      const bits = lane.get(r), at = (row + (w & 1) * 8) * 16 + column + (w >> 1) * 8;
      a[at] = value(bits);
      a[at + 1] = value(bits >>> 16);
    });
  });
  const element = (d: bigint, side: number, k: number, isAlong: boolean): number =>
    value(shared.getUint16(placeOf(d, side, k, isAlong), true));
  for (let k = 0; k < 16; k++) {
    for (let i = 0; p.leftAt !== undefined && i < 64; i++) a[i * 16 + k] = element(p.leftAt, i, k, p.isAlong[0]);
    for (let j = 0; j < p.columns; j++) b[j * 16 + k] = element(p.right, j, k, p.isAlong[p.isAlong.length - 1]);
  }
  lanes.forEach((lane, l) => {
    const first = (l >> 5) * 16 + (l >> 2 & 7);
    p.sums.forEach((r, e) => {
      const row = first + (e >> 1 & 1) * 8, column = (l & 3) * 2 + (e & 1) + (e >> 2) * 8;
      let sum = p.adds ? lane.get(r) : 0;
      for (let k = 0; k < 16; k++) sum += a[row * 16 + k] * b[column * 16 + k];
      lane.set(r, Math.fround(sum));
    });
  });
}
