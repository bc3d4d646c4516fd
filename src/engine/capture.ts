/**
 * What a function realizes while it is captured: the steps of all its schedules, in order, and the memory they use. In,
 * bound schedules as they run; out, the material of a replay (replay.ts).
 *
 * @module
 */
import { Buffer } from "../device/buffer.ts";
import { getDevice } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { dtypes } from "../dtype/dtype.ts";
import type { Line } from "../helpers/stack.ts";
import type { TemplateItem } from "../schedule/order/template.ts";
import type { BoundSchedule, TakeBuffer } from "../schedule/schedule.ts";
import type { Storage } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { nodesMade, toposort, type UOp } from "../uop/core/uop.ts";
import { besideOf } from "../uop/graph/beside.ts";
import { latest } from "../uop/graph/resolve.ts";
import { memoryOf } from "../uop/graph/writes.ts";
import type { Capture } from "./front/listening.ts";

/** A step of a template, as a call took it. */
export interface CapturedStep {
  readonly item: TemplateItem;
  /** Its entries, as numbers of the call's buffers. */
  readonly entries: readonly number[];
  /** What it was compiled to, where it is a kernel. */
  readonly program: Program | undefined;
  /** Values of scalar arguments by name. */
  readonly vars: ReadonlyMap<string, number>;
  /** The names of those that are arguments of the call. */
  readonly given: ReadonlySet<string>;
  /** The user's line, where recorded. */
  readonly line: Line | undefined;
}

/** Listens to every realize of one call: its bound templates, one after the other, on one list of buffers. */
export class Recording implements Capture {
  /** The steps, in the order in which they ran. */
  readonly steps: CapturedStep[] = [];
  /** The buffers of the steps: each once, whichever templates use it. */
  readonly buffers: Buffer[] = [];
  /** By buffer, the storage that it is of. */
  readonly storages: (Storage | undefined)[] = [];
  private readonly numbers = new Map<Buffer, number>();
  /** Where intermediates come from: they live until the recording is {@linkcode release}d. */
  readonly take: TakeBuffer;
  /** Storages that did not exist before. */
  readonly made: Set<Storage> = new Set();
  /** Storages that did, with the number of writes to them. */
  readonly written: Map<Storage, number> = new Map();
  /** By the name that an argument's memory has inside the storage that it is outside. */
  outside: ReadonlyMap<unknown, Storage> = new Map();
  private readonly blocks = new Set<Buffer>();
  /** As in the interface. */
  readonly since: number = nodesMade();

  /** Hears nothing until it is set as the capture. */
  constructor() {
    this.take = (device, nbytes) => {
      const block = new Buffer(getDevice(device), dtypes.uint8, nbytes);
      block.use = "intermediates of a jit function";
      this.blocks.add(block);
      return block;
    };
  }

  /**
   * Memory, and the last writes to some, that somebody asked for before the call: each is done once, not in every replay;
   * so are those that read arguments which are overwritten.
   */
  foreign(nodes: readonly UOp[]): UOp[] {
    const isOwn = (u: UOp): boolean => u.op === Ops.AFTER || (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
    const isOlder = (u: UOp): boolean => u.seq < this.since && isOwn(u);
    const order = toposort(nodes.map(latest), (u) => u.becomes === undefined && !isOlder(u)), over = new Set<Storage>();
    for (const u of order) {
      const own = u.op === Ops.AFTER && u.becomes === undefined ? this.outside.get(memoryOf(u)) : undefined;
      if (own !== undefined) over.add(own);
    }
    const beside = over.size === 0 ? [] : besideOf([], (s) => over.has(s), this.since);
    return [...order.filter((u) => u.becomes === undefined && isOlder(u)), ...beside];
  }

  /** Takes the steps of a schedule that has run. */
  add(bound: BoundSchedule): void {
    const { variant: { items, programs }, vars, given, lines } = bound;
    const numbers = bound.buffers.map((b, e) => this.numberOf(b, bound.storages[e]));
    items.forEach((item, i) => {
      const entries = item.entries.map((e) => numbers[e]);
      this.steps.push({ item, entries, program: programs!.get(item), vars, given, line: lines?.[i] });
    });
    for (const storage of bound.made) this.made.add(storage);
    for (const { storage, writes } of bound.written) {
      if (this.made.has(storage)) continue;
      this.written.set(storage, (this.written.get(storage) ?? 0) + writes);
    }
  }

  private numberOf(buffer: Buffer, storage: Storage | undefined): number {
    let n = this.numbers.get(buffer);
    if (n === undefined) this.numbers.set(buffer, n = this.buffers.push(buffer) - 1);
    if (storage !== undefined) this.storages[n] = storage;
    return n;
  }

  /** Whether a buffer is an intermediate of one of the schedules. */
  isTemporary(buffer: Buffer): boolean {
    return this.blocks.has(buffer.base);
  }

  /** Frees the intermediates. */
  release(): void {
    for (const block of this.blocks) block.free();
  }
}
