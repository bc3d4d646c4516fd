/**
 * The engine for several devices of one process: collectives through host memory, done when somebody waits for them, which
 * is as late as any engine may be. It is the reference of the other engines. Between devices that reach each other, and whose
 * memory is not the host's, ranges go directly (peer_ranges.ts).
 *
 * Reductions follow the pattern that RING and ALL2ALL choose, as tinygrad's do: each rank reduces all of it (naive), or a
 * chunk that it then gives to all others, in the order of ranks (ALL2ALL), or in that of a ring (RING). They differ in the
 * order of additions, and so in the last bits; each gives all ranks the same bits.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { truncateTo, writeScalar } from "../dtype/convert.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { type Elements, type Longs, numbersOf } from "../dtype/numbers.ts";
import { concatBytes, rangeOf } from "../helpers/math.ts";
import {
  checkCollective,
  type Collective,
  CollectiveError,
  type CollectiveSite,
  collectiveText,
  type Communicator,
  DONE,
  opOn,
  type RangePair,
  type ReduceOp,
  type Work,
} from "./communicator.ts";
import { arePeers, movePeers, type Reducer } from "./peer_ranges.ts";
import { segmentsOf } from "./addition_order.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** The bytes of a buffer. */
function read(b: Buffer): Bytes {
  const bytes = new Uint8Array(b.nbytes);
  b.copyOut(bytes);
  return bytes;
}

/** What adds up elements of a dtype: small floats as float32. */
function elementsOf(bytes: Bytes, d: DType): Elements | Longs {
  const own = numbersOf(bytes, d);
  return d === dtypes.float16 ? Float32Array.from(own as Float16Array) : own;
}

/** The bytes of elements in a dtype: the other way round. */
function bytesOf(x: Elements | Longs, d: DType): Bytes {
  if (!d.isFloat || d.bits >= 32) return new Uint8Array(x.buffer as ArrayBuffer, x.byteOffset, x.byteLength);
  const out = new Uint8Array(x.length * d.itemsize), view = new DataView(out.buffer);
  for (let i = 0; i < x.length; i++) writeScalar(view, i * d.itemsize, d, truncateTo(d, x[i] as number));
  return out;
}

function larger(a: number, b: number): number {
  return a !== a || b !== b ? NaN : a > b ? a : b;
}

/** `to[i] = to[i] op from[i]` from `start` to `stop`. */
function combine(op: ReduceOp, to: Elements, from: Elements, start: number, stop: number): void {
  switch (op) {
    case "sum":
      for (let i = start; i < stop; i++) to[i] += from[i];
      break;
    case "prod":
      for (let i = start; i < stop; i++) to[i] *= from[i];
      break;
    case "max":
      for (let i = start; i < stop; i++) to[i] = larger(to[i], from[i]);
      break;
    case "min":
      for (let i = start; i < stop; i++) to[i] = -larger(-to[i], -from[i]);
  }
}

function combineLongs(op: ReduceOp, to: Longs, from: Longs, start: number, stop: number): void {
  for (let i = start; i < stop; i++) {
    const a = to[i], b = from[i];
    to[i] = op === "sum" ? a + b : op === "prod" ? a * b : (op === "max") === a > b ? a : b;
  }
}

/** The elements of all ranks reduced, each segment in its order. */
function reduced(given: ReduceOp, parts: readonly Bytes[], d: DType): Bytes {
  const op = opOn(d, given);
  const values = parts.map((p) => elementsOf(p, d)), count = values.length, n = values[0].length;
  const out = values[0].slice() as Elements | Longs;
  for (const { start, stop, first } of segmentsOf(n, count)) {
    for (let i = start; i < stop; i++) out[i] = values[first][i];
    for (let k = 1; k < count; k++) {
      const from = values[(first + k) % count];
      if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
        combineLongs(op, out, from as Longs, start, stop);
      } else combine(op, out, from as Elements, start, stop);
    }
  }
  return bytesOf(out, d);
}

/** The `i`-th of `count` blocks. */
function block(bytes: Bytes, i: number, count: number): Bytes {
  const n = bytes.byteLength / count;
  return bytes.slice(i * n, (i + 1) * n);
}

/** A collective that moves when it is waited for. */
class LocalWork implements Work {
  constructor(private move: (() => void) | undefined) {}

  isDone(): boolean {
    const { move } = this;
    this.move = undefined;
    move?.();
    return true;
  }
  wait(): void {
    this.isDone();
  }
  join(): void {
    this.isDone();
  }
  done(): Promise<void> {
    this.isDone();
    return Promise.resolve();
  }
}

/** All ranks in this process. */
export class LocalCommunicator implements Communicator {
  readonly engine: string = "LOCAL";
  readonly ranks: readonly number[];
  private sequence = 0;
  private broken = "";

  /**
   * Ranks 0 to `size - 1`.
   *
   * @param reduce reduces on a device that the host cannot see into; without it all goes through the host
   */
  constructor(readonly size: number, private readonly reduce: Reducer | undefined = undefined) {
    this.ranks = rangeOf(size);
  }

  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[], site?: CollectiveSite): Work {
    this.sequence++;
    if (this.broken !== "") {
      const text = collectiveText(collective, from[0], site?.shape), { size, sequence } = this;
      throw new CollectiveError({ rank: 0, size, collective: text, sequence, reason: this.broken, line: site?.line });
    }
    checkCollective(collective, from, to, this);
    if (collective.kind === "barrier") return DONE;
    const { reduce } = this;
    if (reduce !== undefined && arePeers([...from, ...to])) {
      movePeers(collective, from, to, reduce);
      return DONE;
    }
    return new LocalWork(() => {
      const parts = from.map(read);
      results(collective, parts, from[0]?.dtype).forEach((bytes, rank) => to[rank].copyIn(bytes));
    });
  }
  startGroup(collective: Collective, pairs: readonly RangePair[], site?: CollectiveSite): readonly Work[] {
    return pairs.map(({ from, to }) => this.start(collective, from, to, site));
  }
  agree(): Work {
    return DONE; // one process, one text
  }
  split(colors: readonly number[]): Communicator[] {
    return [...new Set(colors)].map((c) => new LocalCommunicator(colors.filter((x) => x === c).length, this.reduce));
  }
  abort(reason: string): void {
    this.broken = reason;
  }
  destroy(): void {}
}

/** What each rank gets of what the ranks give. */
function results(collective: Collective, parts: readonly Bytes[], d: DType | undefined): Bytes[] {
  const count = parts.length, same = (bytes: Bytes): Bytes[] => parts.map(() => bytes);
  switch (collective.kind) {
    case "barrier":
      return [];
    case "broadcast":
      return same(parts[collective.root]);
    case "allReduce":
      return same(reduced(collective.op, parts, d!));
    case "allGather":
      return same(concatBytes(parts));
    case "reduceScatter":
      return parts.map((_, i) => reduced(collective.op, parts.map((p) => block(p, i, count)), d!));
    case "allToAll":
      return parts.map((_, i) => concatBytes(parts.map((p) => block(p, i, count))));
    case "permute":
      return parts.map((own, i) => {
        const pair = collective.pairs.find(([, to]) => to === i);
        return pair === undefined ? new Uint8Array(own.byteLength) : parts[pair[0]];
      });
  }
}
