/**
 * Collectives of several devices of one process that reach each other's memory, and whose memory the host does not have, as
 * cards: ranges go from device to device, and each device reduces what came to it. All of it is queued where kernels are.
 *
 * The order of additions is that of the host's engine (local.ts), and so are the bits.
 *
 * @module
 */
import { Buffer } from "../device/buffer.ts";
import { ceilDiv, rangeOf } from "../helpers/math.ts";
import { type Collective, opOn, type ReduceOp } from "./communicator.ts";
import { segmentsOf } from "./addition_order.ts";

/** Queues a kernel: `to` becomes `parts` reduced, in their order; all have one size and dtype, on one device. */
export type Reducer = (op: ReduceOp, to: Buffer, parts: readonly Buffer[]) => void;

/** Bytes of a rank that are reduced at a time: what the scratch memory of a device has for each rank. */
const PIECE_BYTES = 16 * 2 ** 20;
/** What parts of scratch memory are aligned to. */
const ALIGN = 256;

/** Whether all ranges are on devices that reach each other, and none in memory of the host. */
export function arePeers(ranges: readonly Buffer[]): boolean {
  return ranges.every(({ device: { allocator } }, _, [{ device: first }]) =>
    allocator.peer(first.allocator) && first.allocator.peer(allocator)
  ) && ranges.every((b) => b.nbytes > 0 && b.hostBytes() === undefined);
}

/** Queues a copy between devices, or within one. */
function copy(to: Buffer, from: Buffer): void {
  if (to.base === from.base && to.offset === from.offset) return;
  const { allocator } = to.device, source = from.device.allocator;
  const other = source === allocator ? undefined : source;
  allocator.transfer!(to.memory, to.offset, from.memory, from.offset, from.nbytes, other);
}

/** Elements `start` to `stop` of a range. */
function part(b: Buffer, start: number, stop: number): Buffer {
  return b.view(start * b.dtype.itemsize, stop - start);
}
/** The `i`-th of `count` blocks. */
function block(b: Buffer, i: number, count: number): Buffer {
  return part(b, i * b.size / count, (i + 1) * b.size / count);
}

/** What a rank reduces: a range of each rank's elements, in the order of a ring from rank `first` on, and who gets it. */
interface Job {
  readonly rank: number;
  readonly first: number;
  readonly from: readonly Buffer[];
  readonly to: readonly Buffer[];
}

/** Memory of the device of `like` for one part more than there are ranks. */
class Scratch {
  readonly whole: Buffer;
  private readonly stride: number;

  constructor(private readonly like: Buffer, private readonly size: number, ranks: number) {
    const { device, dtype } = like;
    this.stride = ceilDiv(size * dtype.itemsize, ALIGN) * ALIGN;
    this.whole = new Buffer(device, dtype, (ranks + 1) * this.stride / dtype.itemsize);
  }
  /** The `i`-th part; 0 is for the result. */
  part(i: number, size: number): Buffer {
    return this.whole.view(i * this.stride, size, this.like.dtype);
  }
}

/** Runs the jobs piece by piece: a piece is written once all ranks have reduced theirs, as `to` may be what others read. */
function reduceAll(op: ReduceOp, jobs: readonly Job[], reduce: Reducer, pieceBytes: number): void {
  const busy = jobs.filter((j) => j.from[0].size > 0), most = Math.max(0, ...busy.map((j) => j.from[0].size));
  if (most === 0) return;
  const [{ from: { 0: { dtype } } }] = busy, piece = Math.min(most, pieceBytes / dtype.itemsize);
  const scratch = busy.map(({ rank, from }) => new Scratch(from[rank], piece, from.length));
  for (let start = 0; start < most; start += piece) {
    const stopOf = ({ from: [{ size }] }: Job): number => Math.min(size, start + piece);
    const results = busy.map((job, k) => {
      const { from, first } = job, count = from.length, size = stopOf(job) - start;
      if (size <= 0) return undefined;
      const parts = rangeOf(count).map((i) => {
        const here = scratch[k].part(i + 1, size);
        copy(here, part(from[(first + i) % count], start, start + size));
        return here;
      });
      const result = scratch[k].part(0, size);
      reduce(opOn(dtype, op), result, parts);
      return result;
    });
    results.forEach((result, k) => {
      if (result !== undefined) { for (const to of busy[k].to) copy(part(to, start, start + result.size), result); }
    });
  }
  for (const { whole } of scratch) whole.free();
}

/** Each rank reduces all, where that is little; else a part that it gives to all. */
function allReduceJobs(from: readonly Buffer[], to: readonly Buffer[]): Job[] {
  const count = from.length, segments = segmentsOf(from[0].size, count);
  if (segments.length < count) return rangeOf(count).map((rank) => ({ rank, first: 0, from, to: [to[rank]] }));
  return segments.map(({ start, stop, first }, rank) => {
    const cut = (all: readonly Buffer[]): Buffer[] => all.map((b) => part(b, start, stop));
    return { rank, first, from: cut(from), to: cut(to) };
  });
}

/** Each rank reduces its block: the segments of it one after the other. */
function reduceScatterJobs(from: readonly Buffer[], to: readonly Buffer[]): Job[] {
  const count = from.length;
  return rangeOf(count).flatMap((rank) => {
    const blocks = from.map((b) => block(b, rank, count));
    return segmentsOf(to[rank].size, count).map(({ start, stop, first }) => ({
      rank,
      first,
      from: blocks.map((b) => part(b, start, stop)),
      to: [part(to[rank], start, stop)],
    }));
  });
}

/**
 * Queues what a collective moves between devices for which {@linkcode arePeers} holds.
 *
 * @param pieceBytes bytes of a rank that are reduced at a time, a multiple of all sizes of elements
 */
export function movePeers(
  collective: Collective,
  from: readonly Buffer[],
  to: readonly Buffer[],
  reduce: Reducer,
  pieceBytes: number = PIECE_BYTES,
): void {
  const count = from.length;
  switch (collective.kind) {
    case "barrier":
      return;
    case "broadcast":
      return to.forEach((b) => copy(b, from[collective.root]));
    case "allReduce":
      return reduceAll(collective.op, allReduceJobs(from, to), reduce, pieceBytes);
    case "reduceScatter":
      return reduceAll(collective.op, reduceScatterJobs(from, to), reduce, pieceBytes);
    case "allGather":
      return to.forEach((b) => from.forEach((own, j) => copy(block(b, j, count), own)));
    case "allToAll":
      return to.forEach((b, i) => from.forEach((own, j) => copy(block(b, j, count), block(own, i, count))));
    case "permute":
      return to.forEach((b, i) => {
        const pair = collective.pairs.find(([, target]) => target === i);
        if (pair === undefined) b.copyIn(new Uint8Array(b.nbytes));
        else copy(b, from[pair[0]]);
      });
  }
}
