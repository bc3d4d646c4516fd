/**
 * A kernel tried out: operands of its own, on which the programs that different opts make of it run, are compared with
 * the one that the chooser made, and are timed. Nothing of the user's is read or written.
 *
 * @module
 */
import { Buffer } from "../../device/buffer.ts";
import type { Device } from "../../device/device.ts";
import type { Graph, Launch, Program } from "../../device/program.ts";
import { writeScalar } from "../../dtype/convert.ts";
import type { DType } from "../../dtype/dtype.ts";
import { DeviceError } from "../../helpers/errors.ts";
import { mix } from "../../helpers/hash.ts";
import type { LinearProgram } from "../../renderer/renderer.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { runTimed } from "../timing.ts";
import { difference, roundedOf } from "../validate.ts";

/** Elements after which operands repeat: a prime, so that rows differ. */
const PERIOD = 16381;
/** Whole numbers are below this where nothing says what they may be. */
const MOST_INT = 1000;
/** A sample should take so long, in milliseconds, and be of no more launches than this. */
const SAMPLE_MS = 0.1, MOST_LAUNCHES = 64;
/** Bytes of a result that are compared at once, and how many such pieces there are at most. */
const PIECE = 1 << 16, PIECES = 16;

/** By slot of whole numbers: what they stay below for the kernel to read what it would. */
function limitsOf(ast: UOp): Map<number, number> {
  const limits = new Map<number, number>(), slots = new Map<UOp, ReadonlySet<number>>();
  const limit = (u: UOp, most: number): void => {
    for (const s of slots.get(u)!) limits.set(s, Math.min(limits.get(s) ?? Infinity, most));
  };
  for (const u of toposort(ast)) {
    const all = new Set<number>();
    for (const s of u.src) for (const slot of slots.get(s)!) all.add(slot);
    if (u.op === Ops.LOAD && u.dtype.isInt && u.src[0].src[0].op === Ops.PARAM) {
      all.add(argOf(u.src[0].src[0], Ops.PARAM).slot);
    }
    slots.set(u, u.dtype.isFloat ? new Set() : all);
    if (u.op === Ops.CMPLT && u.src[1].op === Ops.CONST && u.src[1].value > 1) limit(u.src[0], u.src[1].value);
    if (u.op === Ops.CMPEQ) {
      for (const [a, b] of [u.src, u.src.toReversed()]) if (b.op === Ops.RANGE) limit(a, Math.max(2, vmax(b.src[0])));
    }
  }
  return limits;
}

/** A period of an operand: floats from -1 to 1, whole numbers from 1 on below `limit`. */
function patternOf(dtype: DType, seed: number, limit: number): Uint8Array {
  const { itemsize } = dtype, bytes = new Uint8Array(PERIOD * itemsize), view = new DataView(bytes.buffer);
  const most = Math.max(2, Math.min(limit, dtype.bits <= 8 ? 100 : 2 ** 31));
  let state = seed;
  for (let i = 0; i < PERIOD; i++) {
    state = mix(state, i);
    const x = (state >>> 0) / 2 ** 32;
    const value = dtype.isBool ? Math.round(x) : dtype.isFloat ? 2 * x - 1 : 1 + Math.floor(x * (most - 1));
    writeScalar(view, i * itemsize, dtype, value);
  }
  return bytes;
}

/** By slot: what the elements of a buffer are, where a device that lacks their dtype moves their bits. */
function dtypesOf(ast: UOp): Map<number, DType> {
  const found = new Map<number, DType>();
  for (const u of toposort(ast)) if (u.op === Ops.PARAM) found.set(argOf(u, Ops.PARAM).slot, u.dtype);
  return found;
}

function fill(buffer: Buffer, period: Uint8Array): void {
  const { allocator } = buffer.device, { memory, offset, nbytes } = buffer;
  const long = new Uint8Array(Math.min(nbytes, period.length * 64));
  for (let i = 0; i < long.length; i += period.length) long.set(period.subarray(0, long.length - i), i);
  for (let at = 0; at < nbytes; at += long.length) {
    allocator.copyIn(memory, offset + at, nbytes - at < long.length ? long.subarray(0, nbytes - at) : long);
  }
}

/** Values of variables with which no access is outside: ends in the middle, all else as low as it goes. */
function varsOf(ast: UOp, { vars }: LinearProgram): number[] {
  const ends = new Set<UOp>();
  for (const u of toposort(ast)) if (u.op === Ops.RANGE) { for (const x of toposort(u.src[0])) ends.add(x); }
  return vars.map((v) => {
    const { min, max } = argOf(v, Ops.VARIABLE);
    if (v.dtype.isFloat || !Number.isFinite(min)) return 0.5;
    return ends.has(v) && Number.isFinite(max) ? Math.ceil((min + max) / 2) : min;
  });
}

/** What a program does on the operands of a kernel. */
export class Trial {
  private readonly buffers: Buffer[] = [];
  private readonly patterns: Uint8Array[] = [];
  private readonly vars: readonly number[];
  private readonly written: readonly number[];
  /** Those among the written ones that are read too. */
  private readonly inPlace: readonly number[];
  private readonly wanted: readonly Uint8Array[][];
  private readonly rounded: ReadonlyMap<number, DType>;
  /** Milliseconds of the last run whose results were looked at: about what the program takes, or more. */
  firstMs = 0;
  private readonly graphs = new Map<Program, { graph: Graph; launches: number }>();

  /**
   * Takes memory for the kernel's operands.
   * @param chosen what the chooser made of it: what others must give
   * @param clock milliseconds, for devices without a clock of their own
   * @throws {OutOfMemoryError} @throws {DeviceError} where the device tells no times
   */
  constructor(
    private readonly device: Device,
    ast: UOp,
    private readonly chosen: Program,
    private readonly clock?: () => number,
  ) {
    if (!tellsTime(device)) {
      throw new DeviceError("measure kernels", {
        device: device.name,
        reason: device.name.startsWith("NULL") ? "it runs nothing" : "it cannot wait for a kernel at once",
      });
    }
    const { linear } = chosen, limits = limitsOf(ast), meant = dtypesOf(ast);
    this.vars = varsOf(ast, linear);
    this.rounded = roundedOf(ast);
    this.written = linear.params.filter((p) => p.writes).map((p) => p.slot);
    this.inPlace = linear.params.filter((p) => p.writes && p.reads).map((p) => p.slot);
    try {
      for (const { slot, dtype, size } of linear.params) {
        const own = meant.get(slot), d = own?.itemsize === dtype.itemsize ? own : dtype;
        this.buffers[slot] = new Buffer(device, d, size);
        this.patterns[slot] = patternOf(d, slot, limits.get(slot) ?? MOST_INT);
        fill(this.buffers[slot], this.patterns[slot]);
      }
      this.wanted = this.resultsOf(chosen);
    } catch (error) {
      this.free();
      throw error;
    }
  }

  /** The results of a program, in pieces. */
  private resultsOf(program: Program): Uint8Array[][] {
    const poison = new Uint8Array(4096).fill(0xff);
    for (const slot of this.written) {
      fill(this.buffers[slot], this.inPlace.includes(slot) ? this.patterns[slot] : poison);
    }
    this.firstMs = this.once(program);
    return this.written.map((slot) => {
      const { device: { allocator }, memory, offset, nbytes } = this.buffers[slot];
      const count = Math.min(PIECES, Math.ceil(nbytes / PIECE)), last = Math.max(0, nbytes - PIECE);
      return Array.from({ length: count }, (_, i) => {
        const at = count < 2 ? 0 : Math.floor(last * i / (count - 1) / 64) * 64 + (i === count - 1 ? last % 64 : 0);
        const bytes = new Uint8Array(Math.min(PIECE, nbytes - at));
        allocator.copyOut!(bytes, memory, offset + at);
        return bytes;
      });
    });
  }

  private launch(program: Program): Launch {
    return { program, buffers: this.buffers, vars: this.vars };
  }

  /** Milliseconds of one launch. */
  private once(program: Program): number {
    const { clock } = this, start = clock?.() ?? 0, ms = runTimed(this.device, this.launch(program));
    return clock === undefined ? ms : clock() - start;
  }

  /** Why a program is wrong: what it gives that the chooser's does not; undefined where they agree. */
  wrong(program: Program): string | undefined {
    const got = this.resultsOf(program);
    for (const [i, slot] of this.written.entries()) {
      for (const [k, piece] of got[i].entries()) {
        const why = difference(piece, this.wanted[i][k], this.buffers[slot].dtype, this.rounded.get(slot));
        if (why !== undefined) return `buffer ${slot}: ${why}`;
      }
    }
    return undefined;
  }

  /** Milliseconds of one launch: of as many as make a sample, one after the other. */
  time(program: Program): number {
    for (const slot of this.inPlace) fill(this.buffers[slot], this.patterns[slot]);
    let known = this.graphs.get(program);
    if (known === undefined) {
      const once = this.once(program);
      const launches = Math.max(1, Math.min(MOST_LAUNCHES, Math.ceil(SAMPLE_MS / Math.max(once, 1e-3))));
      const { timeSync, warmMs = 0 } = this.device;
      if (launches === 1 && timeSync === undefined && warmMs === 0) return once;
      const list = Array.from({ length: launches }, () => this.launch(program));
      this.graphs.set(program, known = { graph: this.device.graph(list), launches });
      const begin = performance.now();
      do known.graph.run(); while (performance.now() < begin + warmMs);
    }
    const { graph, launches } = known;
    return timeGraph(this.device, graph, this.clock) / launches;
  }

  /** Gives its memory back. */
  free(): void {
    for (const { graph } of this.graphs.values()) graph.dispose();
    this.graphs.clear();
    for (const b of this.buffers) b?.free(false);
  }
}

function timeGraph(device: Device, graph: Graph, clock: () => number = () => performance.now()): number {
  if (device.timeSync !== undefined) return device.timeSync(() => graph.run());
  const start = clock();
  graph.run();
  return clock() - start;
}

/** Can a device wait for a kernel at once, so that its time can be taken? */
export function tellsTime(device: Device): boolean {
  if (/^(NULL|DISK)\b/.test(device.name)) return false;
  return device.timeSync !== undefined || (!device.renderer.caps.hasGrid && device.allocator.copyOut !== undefined);
}
