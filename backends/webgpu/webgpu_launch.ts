/**
 * Launches of the WEBGPU device: bind groups of buffers, one encoder and one submit for a list of launches, and what
 * becomes of their outputs where something went wrong.
 *
 * @module
 */
import type { Buffer } from "../../src/device/buffer.ts";
import { groupsOf, type Launch, LaunchGraph } from "../../src/device/program.ts";
import { f32Bits } from "../../src/dtype/convert.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { roundUp } from "../../src/helpers/math.ts";
import type { Box, Windows } from "../../src/renderer/binding_windows.ts";
import type { WebGpuCompiler, WebGpuProgram } from "./pipelines.ts";
import type { GpuContext, ScopeError } from "./webgpu_context.ts";
import { BINDING_ALIGN, GRAIN, type WebGpuBlock } from "./webgpu_memory.ts";

const COPY_SRC = 0x4, COPY_DST = 0x8, UNIFORM = 0x40, STORAGE = 0x80, QUERY_RESOLVE = 0x200;

/** A buffer argument that cannot be bound where it lies: it is copied before, and back after where it is written. */
interface Detour {
  readonly buffer: GPUBuffer;
  readonly block: WebGpuBlock;
  readonly offset: number;
  readonly nbytes: number;
  readonly back: boolean;
}

/** Arguments bound, and the groups to run with them: all of the launch where there is no box. */
interface Dispatch {
  readonly bindGroup: GPUBindGroup;
  readonly box: Box | undefined;
}

/** A launch ready to be encoded. */
interface Prepared {
  readonly dispatches: readonly Dispatch[];
  readonly pipeline: GPUComputePipeline;
  readonly blocks: readonly WebGpuBlock[];
  readonly detours: readonly Detour[];
}

/** Scalar arguments of launches, one after another in a uniform buffer. */
class Uniforms {
  private bytes = new ArrayBuffer(1024);
  private view = new DataView(this.bytes);
  size = 0;

  /** Room for `words`; the offset. */
  reserve(words: number): number {
    const at = roundUp(this.size, BINDING_ALIGN);
    this.size = at + words * 4;
    if (this.size > this.bytes.byteLength) {
      const more = new Uint8Array(2 * this.size);
      more.set(new Uint8Array(this.bytes));
      this.bytes = more.buffer;
      this.view = new DataView(this.bytes);
    }
    return at;
  }
  write(at: number, dtype: DType, value: number | bigint): void {
    const { view } = this;
    if (dtype.isFloat) view.setUint32(at, f32Bits(Number(value)), true);
    else if (dtype.bits === 64) view.setBigInt64(at, BigInt.asIntN(64, BigInt(value)), true);
    else view.setUint32(at, Number(value) >>> 0, true);
  }
  get contents(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.bytes, 0, this.size);
  }
}

/** Bytes from the scalar arguments of a box to those of the next. */
function uniformStride(words: number): number {
  return roundUp(words * 4, BINDING_ALIGN);
}
/** The groups of a box that a launch of `x` by `y` by `z` has. */
function within({ first, count }: Box, x: number, y: number, z: number): number[] {
  return [x, y, z].map((n, d) => Math.max(0, Math.min(count[d], n - first[d])));
}

/** Throws where a shader was rejected. */
function checkPrograms(launches: readonly Launch[]): void {
  for (const { program } of launches) {
    const { error } = (program as WebGpuProgram).pipeline;
    if (error !== undefined) throw error;
  }
}

/** Encodes and submits launches. */
export class Launcher {
  private readonly uniforms = new Uniforms();
  private uniformBuffer: GPUBuffer | undefined;
  /** What windows behind the end of a buffer are bound to. */
  private nothing: GPUBuffer | undefined;

  constructor(private readonly context: GpuContext, private readonly compiler: WebGpuCompiler) {}

  /** Makes sure that a uniform buffer has `nbytes`. */
  uniformOf(known: GPUBuffer | undefined, nbytes: number): GPUBuffer | undefined {
    if (nbytes === 0 || (known !== undefined && known.size >= nbytes)) return known;
    // work that was submitted keeps what it uses
    known?.destroy();
    return this.context.gpu.createBuffer({ size: Math.max(1024, roundUp(nbytes, 1024)), usage: UNIFORM | COPY_DST });
  }

  /** Runs launches in order: one encoder, one submit. */
  run(launches: readonly Launch[]): void {
    const { context, uniforms } = this;
    context.check("run kernels");
    checkPrograms(launches);
    context.scoped(() => {
      uniforms.size = 0;
      const offsets = launches.map((l) => this.writeVars(uniforms, l));
      this.uniformBuffer = this.uniformOf(this.uniformBuffer, uniforms.size);
      if (uniforms.size > 0) context.gpu.queue.writeBuffer(this.uniformBuffer!, 0, uniforms.contents);
      const prepared = launches.map((l, i) => this.prepare(l, this.uniformBuffer, offsets[i]));
      this.submit(launches, prepared);
      return prepared;
    }, this.settler(launches));
  }

  /** Puts the scalar arguments of a launch behind those of the launches before, for each of its boxes; the offset. */
  writeVars(into: Uniforms, { program, vars }: Launch): number {
    const { linear, windows, uniforms: { at, words } } = program as WebGpuProgram;
    if (words === 0) return 0;
    if (windows === undefined) {
      const offset = into.reserve(words);
      for (let i = 0; i < vars.length; i++) into.write(offset + at[i] * 4, linear.vars[i].dtype, vars[i]);
      return offset;
    }
    const offsets = windows.boxes.map((box) => {
      const offset = into.reserve(words);
      windows.vars.forEach((v, i) => {
        const value = v.kind === "given"
          ? vars[v.position]
          : v.kind === "group"
          ? box.first[v.dimension]
          : box.starts.get(v.slot)! / v.itemsize;
        into.write(offset + at[i] * 4, windows.program.vars[i].dtype, value);
      });
      return offset;
    });
    return offsets[0];
  }
  /** Puts another value in place of a scalar argument, for each box of the launch. */
  writeVar(into: Uniforms, program: WebGpuProgram, offset: number, position: number, value: number | bigint): void {
    const { linear, windows, uniforms: { at, words } } = program, { dtype } = linear.vars[position];
    if (windows === undefined) return into.write(offset + at[position] * 4, dtype, value);
    const i = windows.vars.findIndex((v) => v.kind === "given" && v.position === position);
    windows.boxes.forEach((_, k) => into.write(offset + k * uniformStride(words) + at[i] * 4, dtype, value));
  }

  /** Binds the arguments of a launch. */
  prepare(launch: Launch, uniform: GPUBuffer | undefined, offset: number): Prepared {
    const { context: { gpu } } = this, { buffers } = launch, program = launch.program as WebGpuProgram;
    const { linear, windows, uniforms: { words } } = program, { pipeline, layout } = this.compiler.adopt(program);
    const blocks: WebGpuBlock[] = [], detours: Detour[] = [], places: GPUBufferBinding[] = [];
    for (const b of buffers) {
      const block = b.memory as WebGpuBlock;
      block.use(b.base);
      blocks.push(block);
    }
    for (const p of linear.params) {
      if (p === undefined) continue;
      const { slot, writes } = p, block = blocks[slot], at = buffers[slot].offset;
      // at least the grain, so that the last vector of a view lies inside
      const size = Math.min(roundUp(Math.max(p.size * p.dtype.itemsize, GRAIN), GRAIN), block.nbytes - at);
      const shared = !writes && linear.params.some((q) => q?.writes === true && blocks[q.slot] === block);
      if (!shared && at % BINDING_ALIGN === 0) {
        places[slot] = { buffer: block.buffer, offset: at, size };
        continue;
      }
      if (at % 4 !== 0) this.misaligned(linear.name, slot, at);
      const nbytes = size - size % 4;
      const buffer = gpu.createBuffer({ size: roundUp(nbytes, GRAIN), usage: STORAGE | COPY_SRC | COPY_DST });
      detours.push({ buffer, block, offset: at, nbytes, back: writes });
      places[slot] = { buffer, offset: 0, size: buffer.size };
    }
    const { params } = program.bound, boxes: readonly (Box | undefined)[] = windows?.boxes ?? [undefined];
    const dispatches = boxes.map((box, k): Dispatch => {
      const entries: GPUBindGroupEntry[] = [];
      params.forEach((_, binding) => {
        const resource = windows === undefined ? places[binding] : this.window(windows, box!, binding, places);
        entries.push({ binding, resource });
      });
      if (words > 0) {
        const at = offset + k * uniformStride(words);
        entries.push({ binding: params.length, resource: { buffer: uniform!, offset: at, size: words * 4 } });
      }
      return { bindGroup: gpu.createBindGroup({ layout, entries }), box };
    });
    return { dispatches, pipeline, blocks, detours };
  }
  /** The part of a buffer that a slot of a program in windows is. */
  private window(windows: Windows, box: Box, binding: number, places: readonly GPUBufferBinding[]): GPUBufferBinding {
    const { slot, part } = windows.slots[binding], place = places[slot];
    if (part === undefined) return place;
    const from = box.starts.get(slot)! + part * windows.nbytes, left = place.size! - from;
    if (left > 0) return { buffer: place.buffer, offset: place.offset! + from, size: Math.min(windows.nbytes, left) };
    // behind the end, where no access goes: bytes that no other binding has
    const size = windows.slots.length * BINDING_ALIGN;
    if (this.nothing === undefined || this.nothing.size < size) {
      this.nothing = this.context.gpu.createBuffer({ size, usage: STORAGE });
    }
    return { buffer: this.nothing, offset: binding * BINDING_ALIGN, size: BINDING_ALIGN };
  }
  private misaligned(kernel: string, slot: number, at: number): never {
    throw new DeviceError(`run kernel ${kernel}`, {
      device: this.context.name,
      reason: `buffer ${slot} starts at byte ${at}, inside a word; make a copy with .contiguous() first`,
    });
  }

  /** Encodes launches and submits them. `times` gets a pass, and a pair of timestamps, for each launch. */
  submit(launches: readonly Launch[], prepared: readonly Prepared[], times?: GPUQuerySet): void {
    const { gpu } = this.context, encoder = gpu.createCommandEncoder();
    let pass: GPUComputePassEncoder | undefined, pipeline: GPUComputePipeline | undefined;
    const end = (): void => {
      pass?.end();
      pass = pipeline = undefined;
    };
    for (let i = 0; i < prepared.length; i++) {
      const p = prepared[i], { program, vars } = launches[i], [x, y, z] = groupsOf(program.linear, vars);
      if (x * y * z === 0) continue;
      if (p.detours.length > 0) end();
      for (const d of p.detours) encoder.copyBufferToBuffer(d.block.buffer, d.offset, d.buffer, 0, d.nbytes);
      if (pass === undefined) {
        pass = encoder.beginComputePass(
          times && {
            timestampWrites: { querySet: times, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 },
          },
        );
      }
      if (p.pipeline !== pipeline) pass.setPipeline(pipeline = p.pipeline);
      for (const { bindGroup, box } of p.dispatches) {
        const [nx, ny, nz] = box === undefined ? [x, y, z] : within(box, x, y, z);
        if (nx * ny * nz === 0) continue;
        pass.setBindGroup(0, bindGroup);
        pass.dispatchWorkgroups(nx, ny, nz);
      }
      if (p.detours.length > 0 || times !== undefined) end();
      for (const d of p.detours) {
        if (d.back) encoder.copyBufferToBuffer(d.buffer, 0, d.block.buffer, d.offset, d.nbytes);
      }
    }
    end();
    gpu.queue.submit([encoder.finish()]);
    for (const p of prepared) for (const d of p.detours) d.buffer.destroy();
  }

  /** Settles a list of launches: where something went wrong none ran; else errors of inputs become those of outputs. */
  settler(launches: readonly Launch[]): (error: ScopeError | undefined) => void {
    const used = launches.map((l) => ({
      program: l.program as WebGpuProgram,
      blocks: l.buffers.map((b) => b.memory as WebGpuBlock),
      owners: l.buffers.map((b) => new WeakRef(b.base)),
    }));
    return (wrong) => {
      let cause: Error | undefined;
      if (wrong !== undefined) {
        cause = used.map((u) => u.program.pipeline.error ?? u.blocks.find((b) => b.error)?.error).find((e) => e);
        cause ??= this.context.isLost ? this.context.lostError("run kernels") : this.failureOf(launches, wrong);
        this.context.fail(cause);
      }
      for (const { program: { linear }, blocks, owners } of used) {
        const error = cause ?? linear.params.map((p) => p?.reads ? blocks[p.slot].error : undefined).find((e) => e);
        if (error === undefined) continue;
        for (const p of linear.params) {
          if (p?.writes && blocks[p.slot].owner?.deref() === owners[p.slot].deref()) blocks[p.slot].error = error;
        }
      }
    };
  }
  private failureOf(launches: readonly Launch[], { message }: ScopeError): DeviceError {
    const names = [...new Set(launches.map((l) => l.program.linear.name))], many = names.length > 4;
    const what = `${names.slice(0, 4).join(", ")}${many ? ` and ${names.length - 4} more` : ""}`;
    return new DeviceError(`run ${names.length > 1 ? "kernels" : "kernel"} ${what}`, {
      device: this.context.name,
      reason: message.trim(),
    });
  }

  /**
   * Runs launches, each in a pass of its own; when each began and ended, in nanoseconds of the device's own clock. Needs the
   * feature timestamp-query. All but reading the clock is queued before it returns.
   */
  async stamps(launches: readonly Launch[]): Promise<(readonly [begin: bigint, end: bigint])[]> {
    const { context, context: { gpu } } = this, nbytes = launches.length * 16;
    context.check("run kernels");
    checkPrograms(launches);
    const times = gpu.createQuerySet({ type: "timestamp", count: launches.length * 2 });
    const resolved = gpu.createBuffer({ size: nbytes, usage: QUERY_RESOLVE | COPY_SRC });
    const mapped = gpu.createBuffer({ size: nbytes, usage: COPY_DST | 0x1 });
    const uniforms = new Uniforms(), offsets = launches.map((l) => this.writeVars(uniforms, l));
    const uniform = this.uniformOf(undefined, uniforms.size);
    context.scoped(() => {
      if (uniforms.size > 0) gpu.queue.writeBuffer(uniform!, 0, uniforms.contents);
      this.submit(launches, launches.map((l, i) => this.prepare(l, uniform, offsets[i])), times);
      const encoder = gpu.createCommandEncoder();
      encoder.resolveQuerySet(times, 0, launches.length * 2, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, mapped, 0, nbytes);
      gpu.queue.submit([encoder.finish()]);
    }, this.settler(launches));
    await mapped.mapAsync(0x1);
    const stamps = new BigUint64Array(mapped.getMappedRange().slice(0));
    mapped.unmap();
    for (const x of [mapped, resolved, times, uniform]) x?.destroy();
    return launches.map((_, i) => [stamps[2 * i], stamps[2 * i + 1]]);
  }
}

/** Launches with their bind groups, made anew only where an argument has changed. */
export class WebGpuGraph extends LaunchGraph {
  private readonly prepared: (Prepared | undefined)[];
  private readonly uniforms: Uniforms = new Uniforms();
  private readonly offsets: readonly number[];
  private uniform: GPUBuffer | undefined;
  private written = false;

  constructor(
    private readonly context: GpuContext,
    private readonly launcher: Launcher,
    launches: readonly Launch[],
  ) {
    super(launches);
    this.prepared = launches.map(() => undefined);
    this.offsets = launches.map((l) => launcher.writeVars(this.uniforms, l));
  }

  override setBuffer(launch: number, slot: number, buffer: Buffer): void {
    super.setBuffer(launch, slot, buffer);
    this.prepared[launch] = undefined;
  }
  override setVar(launch: number, position: number, value: number | bigint): void {
    super.setVar(launch, position, value);
    const program = this.launches[launch].program as WebGpuProgram;
    this.launcher.writeVar(this.uniforms, program, this.offsets[launch], position, value);
    this.written = false;
  }

  /** The bind groups of a launch, still good where its buffers have the same memory. */
  private ready(i: number): Prepared {
    const { buffers } = this.launches[i], known = this.prepared[i];
    if (known !== undefined && known.detours.length === 0 && buffers.every((b, s) => b.memory === known.blocks[s])) {
      buffers.forEach((b, s) => known.blocks[s].use(b.base));
      return known;
    }
    return this.prepared[i] = this.launcher.prepare(this.launches[i], this.uniform, this.offsets[i]);
  }

  run(): void {
    const { context, launcher, launches } = this;
    if (launches.length === 0) return;
    context.check("run kernels");
    checkPrograms(launches);
    context.scoped(() => {
      this.uniform = launcher.uniformOf(this.uniform, this.uniforms.size);
      if (!this.written && this.uniform !== undefined) {
        context.gpu.queue.writeBuffer(this.uniform, 0, this.uniforms.contents);
        this.written = true;
      }
      launcher.submit(launches, launches.map((_, i) => this.ready(i)));
    }, launcher.settler(launches));
  }
  override dispose(): void {
    super.dispose();
    this.uniform?.destroy();
    this.uniform = undefined;
  }
}
