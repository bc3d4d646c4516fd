/**
 * ExecItems: the steps of a schedule, each a Runner with its buffers, and how they run: kernels of one device that follow
 * each other go to it as one list of launches.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { type Device, getDevice } from "../device/device.ts";
import type { Launch, Program } from "../device/program.ts";
import { f32ToBf16Bits, f32ToF16Bits } from "../dtype/convert.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { envNumber } from "../helpers/env.ts";
import type { BoundSchedule } from "../schedule/schedule.ts";
import { Int64, type VariableArg } from "../uop/args.ts";
import { printUOp } from "../uop/print.ts";
import type { UOp } from "../uop/uop.ts";
import { compileKernels } from "./compile_cache.ts";
import { GlobalCounters } from "./stats.ts";

/** A kernel; compiled when first asked for. */
export class CompiledKernel {
  readonly kind = "CompiledKernel";
  private made: Program | undefined;
  constructor(readonly device: string, readonly ast: UOp, program?: Program) {
    this.made = program;
  }
  get program(): Program {
    return this.made ??= compileKernels(getDevice(this.device), [this.ast])[0];
  }
  get name(): string {
    return this.program.linear.name;
  }
  toString(): string {
    return `CompiledKernel ${this.device} ${this.name}`;
  }
}

/** A copy through the host: bufs [to, from]. */
export class BufferCopy {
  readonly kind = "BufferCopy";
  constructor(readonly to: string, readonly from: string, readonly nbytes: number) {}
  toString(): string {
    return `BufferCopy ${this.nbytes} bytes, ${this.to} <- ${this.from}`;
  }
}

/** A copy that the device does itself: bufs [to, from]. */
export class BufferXfer {
  readonly kind = "BufferXfer";
  constructor(readonly to: string, readonly from: string, readonly nbytes: number) {}
  toString(): string {
    return `BufferXfer ${this.nbytes} bytes, ${this.to} <- ${this.from}`;
  }
}

/** A function of the host: bufs as it likes. Uniform constants are filled this way. */
export class CustomOp {
  readonly kind = "CustomOp";
  constructor(readonly name: string, readonly fn: (bufs: readonly Buffer[]) => void) {}
  toString(): string {
    return `CustomOp ${this.name}`;
  }
}

/** Nothing to run: a buffer of no elements. */
export class EmptyOp {
  readonly kind = "EmptyOp";
  toString(): string {
    return "EmptyOp";
  }
}

/** Nothing to run: bufs [view, base] share memory. */
export class ViewOp {
  readonly kind = "ViewOp";
  constructor(readonly offset: number, readonly nbytes: number) {}
  toString(): string {
    return `ViewOp ${this.nbytes} bytes at ${this.offset}`;
  }
}

/** What an ExecItem does. */
export type Runner = CompiledKernel | BufferCopy | BufferXfer | CustomOp | EmptyOp | ViewOp;

/** One step of a schedule. */
export class ExecItem {
  /**
   * @param varNames names of the schedule's variables that the kernel calls v0, v1, ...
   * @param vars values by those names
   */
  constructor(
    readonly runner: Runner,
    readonly bufs: readonly Buffer[],
    readonly varNames: readonly string[],
    readonly vars: ReadonlyMap<string, number>,
  ) {}

  /** The kernel's AST, where it has one. */
  get ast(): UOp | undefined {
    return this.runner instanceof CompiledKernel ? this.runner.ast : undefined;
  }
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

/** The schedule's name of each scalar argument of a kernel, in the order of its program. */
export function varNamesOf(item: ExecItem): string[] {
  const { linear } = (item.runner as CompiledKernel).program;
  return linear.vars.map((v) => item.varNames[Number((v.arg as VariableArg).name.slice(1))]);
}

/** The values of a kernel's scalar arguments, in the order of its program. */
export function varValues(item: ExecItem): number[] {
  return varNamesOf(item).map((name) => item.vars.get(name) ?? 0);
}

/** The bytes of one value, little-endian. */
function packConstant(value: number | bigint, dtype: DType): Uint8Array {
  const bytes = new Uint8Array(dtype.itemsize), view = new DataView(bytes.buffer);
  if (dtype === dtypes.float32) view.setFloat32(0, Number(value), true);
  else if (dtype === dtypes.float64) view.setFloat64(0, Number(value), true);
  else if (dtype === dtypes.float16) view.setUint16(0, f32ToF16Bits(Number(value)), true);
  else if (dtype === dtypes.bfloat16) view.setUint16(0, f32ToBf16Bits(Number(value)), true);
  else if (dtype.bits === 64) view.setBigInt64(0, BigInt.asIntN(64, BigInt(value)), true);
  else if (dtype.bits === 32) view.setInt32(0, Number(value) | 0, true);
  else if (dtype.bits === 16) view.setInt16(0, Number(value), true);
  else view.setInt8(0, Number(value));
  return bytes;
}

/** Fills a buffer with one value. */
export function fillBuffer(buffer: Buffer, value: number | Int64, dtype: DType): void {
  const one = packConstant(value instanceof Int64 ? value.toBigInt() : value, dtype);
  const bytes = new Uint8Array(buffer.nbytes);
  if (one.some((b) => b !== 0)) {
    bytes.set(one);
    for (let n = one.length; n < bytes.length; n *= 2) bytes.copyWithin(n, 0, Math.min(n, bytes.length - n));
  }
  buffer.copyIn(bytes);
}

/** Copies all of `from` into `to`. */
export function copyBuffer(to: Buffer, from: Buffer): void {
  GlobalCounters.copiedBytes += from.nbytes;
  const { transfer } = to.device.allocator;
  if (to.device === from.device && transfer !== undefined) {
    transfer(to.memory, to.offset, from.memory, from.offset, from.nbytes);
  } else to.copyIn(from.copyOut(new Uint8Array(from.nbytes)));
}

/** The steps of a bound schedule as ExecItems; kernels compiled, all of a device in one call. */
export function execItems(bound: BoundSchedule): ExecItem[] {
  const { variant, items, vars } = bound;
  let programs = variant.programs as (Program | undefined)[] | undefined;
  if (programs === undefined) {
    programs = new Array<Program | undefined>(items.length).fill(undefined);
    const byDevice = new Map<string, number[]>();
    items.forEach(({ template }, i) => {
      if (template.kind !== "kernel") return;
      const list = byDevice.get(template.device);
      if (list === undefined) byDevice.set(template.device, [i]);
      else list.push(i);
    });
    for (const [device, at] of byDevice) {
      const made = compileKernels(getDevice(device), at.map((i) => items[i].template.ast!));
      at.forEach((i, j) => programs![i] = made[j]);
    }
    variant.programs = programs;
  }
  return items.map(({ template, buffers }, i) => {
    if (template.kind === "kernel") {
      return new ExecItem(
        new CompiledKernel(template.device, template.ast!, programs![i]),
        buffers,
        template.vars,
        vars,
      );
    }
    if (template.kind === "fill") {
      const value = template.ast!.arg as number | Int64;
      return new ExecItem(new CustomOp("fill", ([b]) => fillBuffer(b, value, b.dtype)), buffers, template.vars, vars);
    }
    const [to, from] = buffers;
    const Copy = to.device === from.device && to.device.allocator.transfer !== undefined ? BufferXfer : BufferCopy;
    return new ExecItem(new Copy(to.device.name, from.device.name, from.nbytes), buffers, template.vars, vars);
  });
}

/** Runs ExecItems in order. */
export function runItems(items: readonly ExecItem[]): void {
  const debug = envNumber("DEBUG");
  for (let i = 0; i < items.length;) {
    const { runner, bufs } = items[i];
    if (!(runner instanceof CompiledKernel)) {
      if (runner instanceof CustomOp) runner.fn(bufs);
      else if (runner instanceof BufferCopy || runner instanceof BufferXfer) copyBuffer(bufs[0], bufs[1]);
      if (debug >= 2) console.error(`*** ${runner}`);
      i++;
      continue;
    }
    const device = getDevice(runner.device);
    const launches: Launch[] = [];
    for (; i < items.length; i++) {
      const it = items[i];
      if (!(it.runner instanceof CompiledKernel) || it.runner.device !== runner.device) break;
      const program = it.runner.program;
      launches.push({ program, buffers: it.bufs, vars: varValues(it) });
      GlobalCounters.kernelCount++;
      GlobalCounters.globalOps += program.linear.flops;
      GlobalCounters.globalMem += program.linear.bytes;
      if (debug >= 2) break;
    }
    if (debug >= 2) {
      i++;
      debugLaunch(device, launches[0], items[i - 1].ast!, debug);
    } else device.run(launches);
  }
}

let printed: Set<Program> | undefined;

function debugLaunch(device: Device, launch: Launch, ast: UOp, debug: number): void {
  const { linear, source } = launch.program;
  printed ??= new Set();
  if (debug >= 4 && !printed.has(launch.program)) {
    printed.add(launch.program);
    console.error(printUOp(ast));
    console.error(source);
  }
  const start = performance.now();
  device.run([launch]);
  const ms = performance.now() - start;
  GlobalCounters.timeSumS += ms / 1e3;
  const n = String(GlobalCounters.kernelCount).padStart(5);
  console.error(
    `*** ${device.name.padEnd(6)} ${n} ${linear.name.padEnd(36)} args ${String(launch.buffers.length).padStart(2)} ${
      ms.toFixed(3).padStart(9)
    } ms ` +
      `${(linear.flops / ms / 1e6).toFixed(1).padStart(8)} GFLOP/s ${
        (linear.bytes / ms / 1e6).toFixed(1).padStart(7)
      } GB/s`,
  );
}
