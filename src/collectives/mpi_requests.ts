/**
 * Collectives as requests of an MPI library: which nonblocking functions do one, with counts beyond 2^31 in pieces.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { type Collective, opOn, type ReduceOp } from "./communicator.ts";
import type { HostRange } from "./host_ranges.ts";
import { mpiErrorText, type MpiHandle, type MpiLibrary, outInts } from "./mpi_library.ts";

/** The most elements that one call counts: counts are C's int. */
const MOST_ELEMENTS = 2 ** 31 - 1;
/** Messages of `permute` and of pieces; other tags are of other purposes. */
const DATA_TAG = 1;

/** A request under way: a handle that the library writes to, and that does not move. */
export type MpiRequest = BigUint64Array<ArrayBuffer>;

/** A request that is none yet. */
export function newRequest(): MpiRequest {
  return new BigUint64Array(new ArrayBuffer(8));
}

/** Throws where a call of the library failed. */
export function checkMpi(library: MpiLibrary, code: number, what: string): void {
  if (code !== 0) throw new Error(`${what} failed: ${mpiErrorText(library, code)}`);
}

const flag = outInts();

/** Whether a request is done; it is none from then on. */
export function isRequestDone(library: MpiLibrary, request: MpiRequest): boolean {
  checkMpi(library, library.symbols.MPI_Test(request, flag, library.handles.statusIgnore), "MPI_Test");
  return flag[0] !== 0;
}

/** What all requests of a communicator have in common. */
export interface RequestOptions {
  readonly library: MpiLibrary;
  /** The handle of the communicator. */
  readonly group: bigint;
  readonly rank: number;
  readonly size: number;
  /** The most elements of a call; tests set it low. */
  readonly most?: number;
}

/** The handle of a dtype as it is reduced, or moved: bits of its size where MPI has no such numbers. */
function typeOf({ handles }: MpiLibrary, dtype: DType): bigint {
  const name = dtype.isBool ? "uint8" : dtype.name;
  return name in handles ? handles[name as MpiHandle] : handles[dtype.itemsize === 1 ? "uint8" : "uint16"];
}

/** The handle of an operation. */
function opOf({ handles }: MpiLibrary, op: ReduceOp, dtype: DType): bigint {
  return handles[opOn(dtype, op)];
}

/** Posts the requests of a collective on ranges of the host; those of the ranges that are small stay one call. */
export class RequestPoster {
  private readonly requests: MpiRequest[] = [];
  private readonly type: bigint;
  private readonly most: number;

  constructor(
    private readonly options: RequestOptions,
    private readonly from: HostRange,
    private readonly to: HostRange,
  ) {
    this.type = typeOf(options.library, from.dtype);
    this.most = options.most ?? MOST_ELEMENTS;
  }

  /** Posts them all. */
  post(collective: Collective): readonly MpiRequest[] {
    if (this.from.size === 0 && collective.kind !== "barrier") return [];
    switch (collective.kind) {
      case "allReduce":
        this.allReduce(collective.op);
        break;
      case "reduceScatter":
        this.reduceScatter(collective.op);
        break;
      case "allGather":
        this.allGather();
        break;
      case "allToAll":
        this.allToAll();
        break;
      case "broadcast":
        this.broadcast(collective.root);
        break;
      case "permute":
        this.permute(collective.pairs);
        break;
      case "barrier":
        break; // the comparison before it is one
    }
    return this.requests;
  }

  /** Calls `post` for each piece of `size` elements: where it starts, in bytes, and how many it has. */
  private inPieces(size: number, post: (offset: bigint, count: number, request: MpiRequest) => number): void {
    const { itemsize } = this.from.dtype;
    for (let at = 0; at < size; at += this.most) {
      const request = newRequest(), count = Math.min(this.most, size - at);
      checkMpi(this.options.library, post(BigInt(at * itemsize), count, request), "the call of MPI");
      this.requests.push(request);
    }
  }

  private allReduce(op: ReduceOp): void {
    const { from, to, type, options: { library, group } } = this, handle = opOf(library, op, from.dtype);
    this.inPieces(from.size, (offset, count, request) => {
      const read = from.address === to.address ? library.handles.inPlace : from.address + offset;
      return library.symbols.MPI_Iallreduce(read, to.address + offset, count, type, handle, group, request);
    });
  }

  private reduceScatter(op: ReduceOp): void {
    const { from, to, type, options: { library, group, size } } = this, handle = opOf(library, op, from.dtype);
    const { symbols } = library, block = from.size / size;
    if (block <= this.most) {
      return this.inPieces(
        block,
        (_, count, request) =>
          symbols.MPI_Ireduce_scatter_block(from.address, to.address, count, type, handle, group, request),
      );
    }
    for (let root = 0; root < size; root++) {
      const start = from.address + this.bytesOf(root * block);
      this.inPieces(
        block,
        (offset, count, request) =>
          symbols.MPI_Ireduce(start + offset, to.address + offset, count, type, handle, root, group, request),
      );
    }
  }

  private allGather(): void {
    const { from, to, type, options: { library: { symbols }, group, size, rank } } = this;
    if (from.size <= this.most) {
      return this.inPieces(
        from.size,
        (_, count, request) =>
          symbols.MPI_Iallgather(from.address, count, type, to.address, count, type, group, request),
      );
    }
    to.bytes.set(from.bytes, rank * from.bytes.byteLength);
    for (let root = 0; root < size; root++) this.spread(to.address + this.bytesOf(root * from.size), from.size, root);
  }

  private allToAll(): void {
    const { from, to, type, options: { library: { symbols }, group, size, rank } } = this, block = from.size / size;
    if (block <= this.most) {
      return this.inPieces(
        block,
        (_, count, request) =>
          symbols.MPI_Ialltoall(from.address, count, type, to.address, count, type, group, request),
      );
    }
    for (let shift = 0; shift < size; shift++) {
      const target = (rank + shift) % size, source = (rank + size - shift) % size;
      this.receive(to.address + this.bytesOf(source * block), block, source);
      this.send(from.address + this.bytesOf(target * block), block, target);
    }
  }

  private broadcast(root: number): void {
    const { from, to, options: { rank } } = this;
    if (rank === root && from.address !== to.address) to.bytes.set(from.bytes);
    this.spread(to.address, to.size, root);
  }

  private permute(pairs: readonly (readonly [number, number])[]): void {
    const { from, to, options: { rank } } = this;
    const source = pairs.find((p) => p[1] === rank)?.[0], target = pairs.find((p) => p[0] === rank)?.[1];
    if (source === undefined) to.bytes.fill(0);
    else this.receive(to.address, to.size, source);
    if (target !== undefined) this.send(from.address, from.size, target);
  }

  private spread(address: bigint, size: number, root: number): void {
    const { type, options: { library: { symbols }, group } } = this;
    this.inPieces(
      size,
      (offset, count, request) => symbols.MPI_Ibcast(address + offset, count, type, root, group, request),
    );
  }
  private send(address: bigint, size: number, target: number): void {
    const { type, options: { library: { symbols }, group } } = this;
    this.inPieces(
      size,
      (offset, count, request) => symbols.MPI_Isend(address + offset, count, type, target, DATA_TAG, group, request),
    );
  }
  private receive(address: bigint, size: number, source: number): void {
    const { type, options: { library: { symbols }, group } } = this;
    this.inPieces(
      size,
      (offset, count, request) => symbols.MPI_Irecv(address + offset, count, type, source, DATA_TAG, group, request),
    );
  }
  private bytesOf(elements: number): bigint {
    return BigInt(elements * this.from.dtype.itemsize);
  }
}
