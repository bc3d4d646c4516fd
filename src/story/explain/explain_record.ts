/**
 * What a function ran, as data: each step with its buffers, numbers, time and line, the contents of memory that was there
 * before, and what each step wrote. In: steps as the engine runs them, one by one. Out: a {@linkcode Trace}, from which
 * scripts and stories are made.
 *
 * @module
 */
import type { Buffer } from "../../device/buffer.ts";
import { partsOfBuffer } from "../../device/group.ts";
import { type Statistics, statisticsOf } from "./explain_values.ts";
import type { DType } from "../../dtype/dtype.ts";
import { accessOf, type StepListener } from "../../engine/exec.ts";
import { CompiledKernel, type ExecItem, ViewOp } from "../../engine/front/runners.ts";
import { DeviceError } from "../../helpers/errors.ts";
import type { Line } from "../../helpers/stack.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { iterationsOf, rangesOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";

/** Memory that steps used. */
export interface TraceBuffer {
  /** Counts up from 0 in the order of first use. */
  readonly id: number;
  readonly buffer: Buffer;
  /** What the program has: the same, or of devices that are used together the memory of all of them. */
  readonly whole: Buffer;
  readonly dtype: DType;
  /** In elements. */
  readonly size: number;
  readonly device: string;
  /** What it held before the first step that used it, where that matters. */
  initial: Uint8Array | undefined;
  /** What it held after the last step that wrote it; undefined for what lives no longer than its schedule. */
  last: Uint8Array | undefined;
  /** The memory of which it is a part, and where it begins, in bytes. */
  readonly part: { readonly of: TraceBuffer; readonly offset: number } | undefined;
  /** True where it is gone when its schedule has run. */
  readonly isTemporary: boolean;
  /** Steps that wrote it and that read it, by number. */
  readonly writers: number[];
  readonly readers: number[];
  /** The line that made it, where that was recorded. */
  line: Line | undefined;
}

/** A step that ran. */
export interface TraceStep {
  /** Counts up from 0. */
  readonly number: number;
  readonly item: ExecItem;
  readonly kind: "kernel" | "copy" | "fill" | "view" | "empty" | "collective";
  /** By slot. */
  readonly bufs: readonly TraceBuffer[];
  readonly reads: readonly TraceBuffer[];
  readonly writes: readonly TraceBuffer[];
  timeMs: number;
  /** Of what it wrote, in the order of `writes`. */
  readonly statistics: Statistics[];
  /** The same as bytes; undefined where there was no room to keep them. */
  readonly values: (Uint8Array | undefined)[];
}

/** A run. */
export interface Trace {
  readonly steps: readonly TraceStep[];
  readonly buffers: readonly TraceBuffer[];
  /** True where steps after the last one were left out. */
  readonly isCut: boolean;
}

/** Bytes of values of intermediates that are kept, about. */
const KEEP_BYTES = 2 ** 28;

function kindOf({ runner }: ExecItem): TraceStep["kind"] {
  switch (runner.kind) {
    case "CompiledKernel":
      return "kernel";
    case "CustomOp":
      return "fill";
    case "ViewOp":
      return "view";
    case "EmptyOp":
      return "empty";
    case "CollectiveStep":
      return "collective";
    default:
      return "copy";
  }
}

/** Whether a kernel certainly writes each element of a buffer: there are as many of them as iterations of ungated STOREs. */
function writesAll(ast: UOp, slot: number, size: number): boolean {
  return toposort(ast).some((u) => {
    if (u.op !== Ops.STORE || u.src[0].op !== Ops.INDEX) return false;
    const [base, index, gate] = u.src[0].src;
    return base.op === Ops.PARAM && argOf(base, Ops.PARAM).slot === slot && gate === undefined &&
      iterationsOf(rangesOf(index)) === size;
  });
}

function isTemporary({ base }: Buffer): boolean {
  return base.use.startsWith("intermediates");
}

function isGroup(device: Buffer["device"]): boolean {
  return "members" in device;
}

/** Listens to the engine, and keeps what it hears. */
export class TraceRecorder implements StepListener {
  private readonly steps: TraceStep[] = [];
  private readonly known: Map<Buffer, TraceBuffer> = new Map();
  private kept = 0;
  private isCut = false;
  /** Of what devices have together, the memory of each. */
  private readonly parts: Map<Buffer, readonly TraceBuffer[]> = new Map();
  private running: readonly TraceStep[] = [];

  /** @param limit of steps: later ones run unheard */
  constructor(private readonly limit: number) {}

  /** What it has heard so far. */
  get trace(): Trace {
    const { steps, known, isCut } = this, used = new Set(steps.flatMap((s) => s.bufs));
    for (const { part } of used) if (part !== undefined) used.add(part.of);
    return { steps, buffers: [...known.values()].filter((b) => used.has(b)), isCut };
  }

  /** Before a step: the memory that it finds. */
  before(item: ExecItem): void {
    if (this.steps.length >= this.limit) {
      this.isCut = true;
      return;
    }
    const { runner } = item, access = accessOf(item);
    for (const { device } of access.writes) {
      if (device.allocator.copyOut !== undefined) continue;
      const reason =
        `${device.name} gives what kernels wrote only to who awaits it; explain the program on another device`;
      throw new DeviceError("explain what ran", { device: device.name, reason });
    }
    const all = item.bufs.map((b, slot) =>
      runner instanceof ViewOp && slot === 0
        ? this.partsOf(b, { of: this.partsOf(item.bufs[1]), offset: runner.offset })
        : this.partsOf(b)
    );
    const kind = kindOf(item), number = this.steps.length;
    // a kernel of devices that are used together is one on each of them
    const places = kind === "collective" ? [undefined] : [...all[item.bufs.indexOf(access.writes[0])].keys()];
    this.running = places.map((place, i): TraceStep => {
      const ownOf = (parts: readonly TraceBuffer[]): readonly TraceBuffer[] =>
        place === undefined ? parts : [parts[parts.length === 1 ? 0 : place]];
      const of = (b: Buffer): readonly TraceBuffer[] => ownOf(all[item.bufs.indexOf(b)]);
      const reads = access.reads.flatMap(of), writes = kind === "view" ? [] : access.writes.flatMap(of);
      const bufs = all.flatMap(ownOf);
      for (const b of reads) this.findInitial(b);
      for (const b of writes) {
        const ast = runner instanceof CompiledKernel ? runner.ast : undefined;
        if (ast === undefined ? kind === "kernel" : !writesAll(ast, bufs.indexOf(b), b.size)) this.findInitial(b);
      }
      return { number: number + i, item, kind, bufs, reads, writes, timeMs: 0, statistics: [], values: [] };
    });
  }

  /** After it: what it wrote. */
  after(_item: ExecItem, timeMs: number): void {
    const { running } = this;
    this.running = [];
    for (const step of running) this.ran(step, timeMs);
  }

  private ran(step: TraceStep, timeMs: number): void {
    step.timeMs = timeMs;
    // where the device cannot give them the step is none that there is something to tell of
    const written = step.writes.map((b) => b.buffer.copyOut(new Uint8Array(b.buffer.nbytes)));
    this.steps.push(step);
    step.item.site?.toString(); // with the calls that led there, while they are wanted
    for (const b of step.reads) b.readers.push(step.number);
    for (const [i, b] of step.writes.entries()) {
      const bytes = written[i];
      b.writers.push(step.number);
      step.statistics.push(statisticsOf(bytes, b.dtype));
      b.line = step.item.site ?? b.line;
      if (!b.isTemporary) b.last = bytes;
      const keeps = this.kept + bytes.length <= KEEP_BYTES;
      if (keeps) this.kept += bytes.length;
      step.values.push(keeps ? bytes : undefined);
    }
  }

  /** The records of what a buffer is on each device that has it. */
  private partsOf(
    buffer: Buffer,
    from?: { readonly of: readonly TraceBuffer[]; readonly offset: number },
  ): readonly TraceBuffer[] {
    const partOf = (i: number): TraceBuffer["part"] => from && { of: from.of[i], offset: from.offset };
    if (!isGroup(buffer.device)) return [this.bufferOf(buffer, partOf(0))];
    let parts = this.parts.get(buffer);
    if (parts === undefined) {
      const { base, offset, shape } = buffer;
      if (from === undefined && base !== buffer && !isTemporary(buffer)) from = { of: this.partsOf(base), offset };
      parts = partsOfBuffer(buffer).map((own, i) => {
        own.shape = shape;
        return this.made(own, buffer, partOf(i));
      });
      this.parts.set(buffer, parts);
    }
    return parts;
  }

  /** The record of a buffer; parts of one memory know it. */
  private bufferOf(buffer: Buffer, part?: TraceBuffer["part"]): TraceBuffer {
    const found = this.known.get(buffer);
    if (found !== undefined) return found;
    const { base, offset } = buffer;
    if (part === undefined && base !== buffer && !isTemporary(buffer)) part = { of: this.bufferOf(base), offset };
    return this.made(buffer, buffer, part);
  }

  private made(buffer: Buffer, whole: Buffer, part: TraceBuffer["part"]): TraceBuffer {
    const { dtype, size, device } = buffer, { line } = whole;
    const made: TraceBuffer = {
      id: this.known.size,
      buffer,
      whole,
      dtype,
      size,
      device: device.name,
      initial: undefined,
      last: undefined,
      part,
      isTemporary: isTemporary(whole),
      writers: [],
      readers: [],
      line,
    };
    this.known.set(buffer, made);
    return made;
  }

  /** Takes what a buffer holds, where no step has written it yet. */
  private findInitial(b: TraceBuffer): void {
    const { part } = b;
    if (part !== undefined) return this.findInitial(part.of);
    // what nothing has been written to means nothing
    if (b.initial !== undefined || b.writers.length > 0 || b.isTemporary || !b.buffer.isAllocated) return;
    b.initial = b.buffer.copyOut(new Uint8Array(b.buffer.nbytes));
  }
}
