/**
 * An NCCL that joins ranks of this process, for tests without cards: memory of the fake driver is that of the host, and a
 * collective happens when the last rank has called it. Calls are recorded; what may go wrong can be asked for.
 *
 * @module
 */
import { rangeOf } from "../../../src/helpers/math.ts";
import type { FakeDriver } from "./cuda_fake.ts";
import { NcclResult, type NcclSymbols } from "../../../backends/cuda/nccl/nccl_library.ts";

interface Rank {
  readonly rank: number;
  readonly group: Group;
  /** Collectives that it has called. */
  calls: number;
}
interface Group {
  readonly size: number;
  /** By number, what the ranks have called so far. */
  readonly steps: Map<number, Step>;
}
interface Step {
  readonly act: (parts: readonly Part[]) => void;
  readonly parts: Part[];
}
interface Part {
  readonly rank: number;
  readonly from: bigint;
  readonly to: bigint;
}

/** Bytes at an address of the fake driver. */
function bytesAt(address: bigint, nbytes: bigint | number): Uint8Array {
  const pointer = Deno.UnsafePointer.create(address)!;
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, Number(nbytes)));
}

const ARRAYS = [Int8Array, Uint8Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array, , Float32Array];
type Numbers = Float32Array;

/** Elements of a dtype of NCCL's at an address. */
function numbersAt(address: bigint, count: bigint, type: number): Numbers {
  const Class = ARRAYS[type]!;
  const bytes = bytesAt(address, Number(count) * Class.BYTES_PER_ELEMENT);
  return new Class(bytes.buffer as ArrayBuffer) as unknown as Numbers;
}
const REDUCE: readonly ((a: number, b: number) => number)[] = [
  (a, b) => a + b,
  (a, b) => a * b,
  (a, b) => a > b ? a : b,
  (a, b) => a < b ? a : b,
];

/** The fake, and what it has seen. */
export class FakeNccl {
  readonly log: string[] = [];
  /** What ncclCommGetAsyncError says. */
  asyncError: number = NcclResult.SUCCESS;
  /** What ncclCommAbort gives. */
  abortCode: number = NcclResult.SUCCESS;
  /** How often it says that it is not done yet, before that. */
  inProgress = 0;
  /** Whether another rank seems to compare something else. */
  differs = false;
  /** Whether the other ranks do what each does, at once and with the same ranges. */
  mirrors = false;
  /** @param driver what graphs of ranks that are all the same are captured on */
  constructor(private readonly driver: Pick<FakeDriver, "capturing" | "move"> | undefined = undefined) {}

  private readonly ranks = new Map<bigint, Rank>();
  private readonly groups = new Map<string, Group>();

  /** The functions as a library has them. */
  get symbols(): NcclSymbols {
    const text = new TextEncoder().encode("what the fake was told to say\0");
    const table: Record<string, (...args: never[]) => unknown> = {
      ncclGetErrorString: () => Deno.UnsafePointer.of(text),
      ncclCommInitRankConfig: (out: Uint8Array, size: number, id: Uint8Array, rank: number) => {
        this.join(out, size, id.toHex(), rank);
        return NcclResult.IN_PROGRESS;
      },
      ncclCommSplit: (handle: bigint, color: number, key: number, out: Uint8Array) => {
        const { group: { size }, rank } = this.ranks.get(handle)!;
        this.join(out, size, `split ${color} ${key}`, rank);
        return 0;
      },
      ncclCommDestroy: (handle: bigint) => this.note(`destroy ${this.ranks.get(handle)!.rank}`),
      ncclCommAbort: (handle: bigint) => {
        this.note(`abort ${this.ranks.get(handle)!.rank}`);
        return this.abortCode;
      },
      ncclCommGetAsyncError: (_: bigint, out: Uint8Array) => {
        new DataView(out.buffer).setInt32(0, this.inProgress-- > 0 ? NcclResult.IN_PROGRESS : this.asyncError, true);
        return 0;
      },
      ncclCommUserRank: (handle: bigint, out: Uint8Array) => this.give(out, this.ranks.get(handle)!.rank),
      ncclCommCount: (handle: bigint, out: Uint8Array) => this.give(out, this.ranks.get(handle)!.group.size),
      ncclGroupStart: () => this.note("group"),
      ncclGroupEnd: () => this.note("end"),
      ...this.collectives(),
    };
    return table as unknown as NcclSymbols;
  }

  private collectives(): Record<string, (...args: never[]) => unknown> {
    const reduced = (parts: readonly Part[], count: bigint, type: number, op: number): Numbers =>
      parts.map((p) => numbersAt(p.from, count, type)).reduce((a, b) => a.map((x, i) => REDUCE[op](x, b[i])));
    return {
      ncclAllReduce: (from: bigint, to: bigint, count: bigint, type: number, op: number, handle: bigint) =>
        this.step("allReduce", handle, from, to, (parts) => {
          const all = reduced(parts, count, type, op).slice();
          for (const p of parts) numbersAt(p.to, count, type).set(all);
        }),
      ncclReduceScatter: (from: bigint, to: bigint, count: bigint, type: number, op: number, handle: bigint) =>
        this.step("reduceScatter", handle, from, to, (parts) => {
          const all = reduced(parts, count * BigInt(parts.length), type, op).slice(), n = Number(count);
          for (const p of parts) numbersAt(p.to, count, type).set(all.subarray(p.rank * n, p.rank * n + n));
        }),
      ncclAllGather: (from: bigint, to: bigint, nbytes: bigint, _: number, handle: bigint, stream: bigint) =>
        this.step("allGather", handle, from, to, (parts) => {
          if (this.driver?.capturing === stream) return this.captureGather(parts, nbytes, stream);
          for (const p of parts) {
            for (const q of parts) bytesAt(p.to + BigInt(q.rank) * nbytes, nbytes).set(bytesAt(q.from, nbytes));
            if (this.differs) bytesAt(p.to, nbytes)[0] ^= 1;
          }
        }),
      ncclBroadcast: (from: bigint, to: bigint, nbytes: bigint, _: number, root: number, handle: bigint) =>
        this.step("broadcast", handle, from, to, (parts) => {
          const sent = bytesAt(parts.find((p) => p.rank === root)!.from, nbytes).slice();
          for (const p of parts) bytesAt(p.to, nbytes).set(sent);
        }),
      ncclSend: (from: bigint, nbytes: bigint, _: number, peer: number, handle: bigint) =>
        this.message(this.ranks.get(handle)!, peer, (to) => bytesAt(to, nbytes).set(bytesAt(from, nbytes))),
      ncclRecv: (to: bigint, _: bigint, __: number, peer: number, handle: bigint) =>
        this.received(this.ranks.get(handle)!, peer, to),
    };
  }

  /** Of ranks that are all the same: copies that the graph has. */
  private captureGather(parts: readonly Part[], nbytes: bigint, stream: bigint): void {
    for (const { rank, from, to } of parts) this.driver!.move(to + BigInt(rank) * nbytes, from, nbytes, stream);
  }

  private readonly sent = new Map<string, ((to: bigint) => void)[]>();
  private readonly awaited = new Map<string, bigint[]>();
  private message(rank: Rank, peer: number, deliver: (to: bigint) => void): number {
    const key = `${rank.rank} ${peer}`, to = this.awaited.get(key)?.shift();
    if (to !== undefined) deliver(to);
    else this.sent.set(key, [...this.sent.get(key) ?? [], deliver]);
    return this.note(`send ${key}`);
  }
  private received(rank: Rank, peer: number, to: bigint): number {
    const key = `${peer} ${rank.rank}`, deliver = this.sent.get(key)?.shift();
    if (deliver !== undefined) deliver(to);
    else this.awaited.set(key, [...this.awaited.get(key) ?? [], to]);
    return this.note(`receive ${key}`);
  }

  private note(line: string): number {
    this.log.push(line);
    return 0;
  }
  private give(out: Uint8Array, value: number): number {
    new DataView(out.buffer).setInt32(0, value, true);
    return 0;
  }
  private join(out: Uint8Array, size: number, id: string, rank: number): void {
    const group = this.groups.get(id) ?? { size, steps: new Map() };
    this.groups.set(id, group);
    const handle = BigInt(0x100 + this.ranks.size);
    this.ranks.set(handle, { rank, group, calls: 0 });
    new DataView(out.buffer).setBigUint64(0, handle, true);
  }
  private step(name: string, handle: bigint, from: bigint, to: bigint, act: Step["act"]): number {
    const caller = this.ranks.get(handle)!, { rank, group } = caller, number = caller.calls++;
    if (this.mirrors) {
      act(rangeOf(group.size).map((r) => ({ rank: r, from, to })));
      return this.note(`${name} ${rank}`);
    }
    const step = group.steps.get(number) ?? { act, parts: [] };
    group.steps.set(number, step);
    step.parts.push({ rank, from, to });
    if (step.parts.length === group.size) step.act(step.parts.sort((a, b) => a.rank - b.rank));
    return this.note(`${name} ${rank}`);
  }
}
