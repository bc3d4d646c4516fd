/**
 * ExecItems: the steps of a schedule, each a Runner with its buffers. How they run is in exec.ts.
 *
 * @module
 */
import type { Buffer } from "../../device/buffer.ts";
import { type Device, getDevice } from "../../device/device.ts";
import type { Program } from "../../device/program.ts";
import type { Line } from "../../helpers/stack.ts";
import type { LinearProgram } from "../../renderer/renderer.ts";
import { type StoredSchedules, storedSchedules } from "../../schedule/stored_schedules.ts";
import { printUOp } from "../../uop/core/print.ts";
import type { CollectiveArg } from "../../uop/core/sharding.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** Kernels as other processes have lowered them, and the schedules that these are of. */
export interface LoweredKernels {
  /** The lowered kernel of an AST: one that is known, else what `lower` makes. */
  before(ast: UOp, device: Device, lower: () => LinearProgram): LinearProgram;
  /** The lowered kernel that a schedule names so (TemplateItem.stored), if it is known. @param lower makes its list anew */
  named(name: string, device: Device, lower: () => LinearProgram): LinearProgram | undefined;
  /** Keeps those of these programs that were not known, with what their compiler calls them. */
  keep(programs: readonly Program[]): void;
  readonly schedules: StoredSchedules;
}
/** None, and none is kept. */
export const NO_LOWERED: LoweredKernels = {
  before: (_ast, _device, lower) => lower(),
  named() {
    return undefined;
  },
  keep() {},
  schedules: storedSchedules.now,
};

/** What compiles kernels; set with the engine (engine.ts), without which there are none. */
export const compiling: { compile(device: Device, asts: readonly UOp[]): Program[]; lowered: LoweredKernels } = {
  compile: () => [],
  lowered: NO_LOWERED,
};

/** A kernel; compiled when first asked for. */
export class CompiledKernel {
  /** Tells runners apart. */
  readonly kind = "CompiledKernel";
  private readonly step: { readonly ast: UOp | undefined };
  private made: Program | undefined;
  /** The kernel of a step, whose AST may be read when it is asked for. @param program what it was compiled to, if it was */
  constructor(readonly device: string, step: { readonly ast: UOp | undefined }, program?: Program) {
    this.step = step;
    this.made = program;
  }
  /** What it computes. */
  get ast(): UOp {
    return this.step.ast!;
  }
  /** What it is compiled to: now, if it was not. */
  get program(): Program {
    return this.made ??= compiling.compile(getDevice(this.device), [this.ast])[0];
  }
  /** The name of the kernel: its kind and the sizes of its loops. */
  get name(): string {
    return this.program.linear.name;
  }
  /** One line: what, and on which buffers. */
  toString(): string {
    return `CompiledKernel ${this.device} ${this.name}`;
  }
}

/** A copy through the host: bufs [to, from]. */
export class BufferCopy {
  /** Tells runners apart. */
  readonly kind = "BufferCopy";
  /** Names of the devices, and how much goes. */
  constructor(readonly to: string, readonly from: string, readonly nbytes: number) {}
  /** One line: what, and on which buffers. */
  toString(): string {
    return `BufferCopy ${this.nbytes} bytes, ${this.to} <- ${this.from}`;
  }
}

/** A copy that the device does itself, or two of one backend between them: bufs [to, from]. */
export class BufferXfer {
  /** Tells runners apart. */
  readonly kind = "BufferXfer";
  /** Names of the devices, and how much goes. */
  constructor(readonly to: string, readonly from: string, readonly nbytes: number) {}
  /** One line: what, and on which buffers. */
  toString(): string {
    return `BufferXfer ${this.nbytes} bytes, ${this.to} <- ${this.from}`;
  }
}

/** Shards of several devices become others: bufs are what is written, then what is read; several are one after the other in memory. */
export class CollectiveStep {
  /** Tells runners apart. */
  readonly kind = "CollectiveStep";
  /** What moves, and how much a device gives. */
  constructor(readonly what: CollectiveArg, readonly nbytes: number) {}
  /** One line: what, and on which buffers. */
  toString(): string {
    return `${this.what}, ${this.nbytes} bytes`;
  }
}

/** A function of the host: bufs as it likes. Uniform constants are filled this way. */
export class CustomOp {
  /** Tells runners apart. */
  readonly kind = "CustomOp";
  /** A step of the host. @param fn is called with the buffers */
  constructor(readonly name: string, readonly fn: (bufs: readonly Buffer[]) => void) {}
  /** One line: what, and on which buffers. */
  toString(): string {
    return `CustomOp ${this.name}`;
  }
}

/** Nothing to run: a buffer of no elements. */
export class EmptyOp {
  /** Tells runners apart. */
  readonly kind = "EmptyOp";
  /** One line: what, and on which buffers. */
  toString(): string {
    return "EmptyOp";
  }
}

/** Nothing to run: bufs [view, base] share memory. */
export class ViewOp {
  /** Tells runners apart. */
  readonly kind = "ViewOp";
  /** `nbytes` of the base, from byte `offset` on. */
  constructor(readonly offset: number, readonly nbytes: number) {}
  /** One line: what, and on which buffers. */
  toString(): string {
    return `ViewOp ${this.nbytes} bytes at ${this.offset}`;
  }
}

/** What an ExecItem does. */
export type Runner = CompiledKernel | BufferCopy | BufferXfer | CollectiveStep | CustomOp | EmptyOp | ViewOp;

/** What a step reads, and what it writes: buffers, or what stands for them. */
export interface Access<T = Buffer> {
  readonly reads: readonly T[];
  readonly writes: readonly T[];
}

/** One step of a schedule. */
export class ExecItem {
  /**
   * A runner on its buffers.
   *
   * @param varNames names of the schedule's variables that the kernel calls v0, v1, ...
   * @param vars values by those names
   * @param site the user's line, where recorded
   */
  constructor(
    readonly runner: Runner,
    readonly bufs: readonly Buffer[],
    readonly varNames: readonly string[],
    readonly vars: ReadonlyMap<string, number>,
    readonly site: Line | undefined = undefined,
  ) {}

  /** The user's line, where it was recorded. */
  get line(): string | undefined {
    return this.site?.toString();
  }
  /** This step on other buffers. */
  on(bufs: readonly Buffer[], vars: ReadonlyMap<string, number> = this.vars): ExecItem {
    return new ExecItem(this.runner, bufs, this.varNames, vars, this.site);
  }

  /** The kernel's AST, where it has one. */
  get ast(): UOp | undefined {
    return this.runner instanceof CompiledKernel ? this.runner.ast : undefined;
  }
  /** One line: what, and on which buffers. */
  toString(): string {
    const bufs = this.bufs.map((b) => `${b.dtype}x${b.size}@${b.device.name}`).join(", ");
    return `${this.runner} (${bufs})`;
  }
}

Object.defineProperty(ExecItem.prototype, Symbol.for("Deno.customInspect"), {
  value(this: ExecItem): string {
    return this.ast === undefined ? `ExecItem ${this}` : `ExecItem ${this}\n${printUOp(this.ast)}`;
  },
});
