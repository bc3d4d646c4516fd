/**
 * The machines of the snapshot: for each writer of kernels a device that is not there, described in numbers that are the
 * same on every computer. Such a device schedules, optimizes and renders as the real one, runs nothing, holds nothing
 * (what is read from it is zero), and notes what it is asked to run: `observe`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { capsOf as clangCaps } from "../../backends/clang/clang.ts";
import { makeJsDevice } from "../../backends/js/js.ts";
import { NullAllocator, nullBackend } from "../../backends/null/null.ts";
import { WasmProgram } from "../../backends/wasm/wasm_programs.ts";
import { type RenderedKernel, WasmRenderer } from "../../backends/wasm/render.ts";
import { webGpuCaps as webgpuCaps } from "../../src/renderer/webgpu_caps.ts";
import { BINDING_ALIGN } from "../../backends/webgpu/webgpu_memory.ts";
import { LruAllocator, type MemoryLayout } from "../../src/device/allocator.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import { type Device, getDevice, registerBackend } from "../../src/device/device.ts";
import { type Compiler, type Graph, groupsOf, type Launch, type Program } from "../../src/device/program.ts";
import { C_LANGUAGE } from "../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../src/renderer/c/cstyle.ts";
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { sharedBytesOf } from "../../src/renderer/lanes.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import { WGSL_LANGUAGE } from "../../src/renderer/c/wgsl.ts";
import { inWindows } from "../../src/renderer/binding_windows.ts";

/** What writes kernels for one machine. */
export interface Writer {
  readonly renderer: Renderer;
  /** How buffers may lie in memory. */
  readonly layout: Partial<MemoryLayout>;
  /** What the compiler of the device is given. */
  readonly image: (program: LinearProgram) => string | Uint8Array;
  /** The same, to read. */
  readonly text: (program: LinearProgram) => string;
  /** What a launch has besides its groups. */
  readonly more?: (program: LinearProgram) => string;
}

/** A writer whose compiler takes text. */
function textWriter(renderer: Renderer, layout: Partial<MemoryLayout>, more?: Writer["more"]): Writer {
  const text = (program: LinearProgram): string => renderer.render(program) as string;
  return { renderer, layout, image: text, text, more };
}

/** Eight cores with AVX-512, 32 KiB and 1 MiB of cache. */
function clang(): Writer {
  const macros = new Set(["__AVX512F__", "__AVX512VL__", "__AVX2__", "__FMA__", "__FLT16_MANT_DIG__"]);
  const caps = clangCaps({ macros }, 8, 32 << 10, 1 << 20);
  return textWriter(new CStyleRenderer(C_LANGUAGE, caps), { viewAlign: 1 });
}

/** An engine with relaxed SIMD and shared memory, on eight cores. */
function wasm(): Writer {
  const renderer = new WasmRenderer(8, { simd: true, relaxed: true, threads: true }, 65536);
  const rendered = new WeakMap<LinearProgram, RenderedKernel>();
  const kernelOf = (program: LinearProgram): RenderedKernel => {
    const known = rendered.get(program) ?? renderer.kernel(program);
    rendered.set(program, known);
    return known;
  };
  return {
    renderer,
    layout: { viewAlign: 1 },
    image: (program) => renderer.module([kernelOf(program)], 0),
    text: (program) => renderer.kernel(program, true).text,
    more: (program) => {
      const { call, claim, kernel } = new WasmProgram(program, { ...kernelOf(program), index: 0 }, renderer);
      return `calls of ${call}, chunks of ${claim} of ${kernel.iterations}`;
    },
  };
}

/** One NVIDIA H200. */
const H200 = cudaCaps({
  arch: "sm_90a",
  units: 132,
  sharedBytes: 227 << 10,
  unitShared: 228 << 10,
  unitThreads: 2048,
  unitRegisters: 65536,
  l2: 50 << 20,
  hasTensorMaps: true,
});

function nvidia(renderer: Renderer): Writer {
  return textWriter(renderer, { viewAlign: 16 }, (program) => `shared ${sharedBytesOf(program)}`);
}

/** The limits that every adapter of WebGPU has, and `shader-f16`. */
function webgpu(): Writer {
  const maxBinding = 128 << 20, maxBytes = 256 << 20;
  const caps = webgpuCaps(
    {
      maxStorageBufferBindingSize: maxBinding,
      maxBufferSize: maxBytes,
      maxStorageBuffersPerShaderStage: 8,
      maxComputeWorkgroupStorageSize: 16 << 10,
      maxComputeInvocationsPerWorkgroup: 256,
      maxComputeWorkgroupSizeX: 256,
      maxComputeWorkgroupSizeY: 256,
      maxComputeWorkgroupSizeZ: 64,
      maxComputeWorkgroupsPerDimension: 65535,
    },
    true,
    false,
  );
  const renderer = new CStyleRenderer(WGSL_LANGUAGE, caps);
  const limits = { device: "WEBGPU", maxBytes: maxBinding, align: BINDING_ALIGN, maxBuffers: caps.maxBuffers };
  const text = (program: LinearProgram): string => renderer.render(inWindows(program, limits)?.program ?? program);
  const more = (program: LinearProgram): string => {
    const boxes = inWindows(program, limits)?.boxes ?? [];
    return boxes.map(({ first, count, starts }) => `box ${first} of ${count} at ${[...starts].join(" ")}`).join("; ");
  };
  return { renderer, layout: { viewAlign: BINDING_ALIGN, arenas: false, maxBytes }, image: text, text, more };
}

/** All writers by name. */
export const WRITERS: Readonly<Record<string, Writer>> = {
  CLANG: clang(),
  WASM: wasm(),
  CUDA: nvidia(new CudaRenderer(H200, 90)),
  PTX: nvidia(new PtxRenderer(H200, "sm_90a")),
  WEBGPU: webgpu(),
  JS: textWriter(makeJsDevice().renderer, { viewAlign: 1 }),
};

/** The names of all writers. */
export const WRITER_NAMES: readonly string[] = Object.keys(WRITERS);

/** `length` characters of the hash of a text. */
export function hashOf(text: string | Uint8Array, length: number): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, length);
}

/** A launch that was asked for: which kernel, on how many groups. */
export interface ObservedKernel {
  readonly name: string;
  /** Of the rendered kernel and the size of its launch. */
  readonly hash: string;
  readonly size: string;
  readonly program: LinearProgram;
}

/** What a device was asked to run. */
export interface Observed {
  /** In the order of launches. */
  readonly kernels: readonly ObservedKernel[];
  /** A line a launch: which kernel, on which parts of which buffers, with which values. */
  readonly launches: readonly string[];
  /** Bytes of the blocks that were planned for intermediates. */
  readonly planned: number;
}

class ObservedProgram implements Program {
  readonly source = "";
  readonly hash: string;
  readonly more: string;
  constructor(readonly linear: LinearProgram, writer: Writer) {
    this.hash = hashOf(writer.image(linear), 43);
    this.more = writer.more?.(linear) ?? "";
  }
}

class AsyncNullAllocator extends NullAllocator {
  copyOutAsync(dst: Uint8Array): Promise<void> {
    return Promise.resolve(this.copyOut(dst));
  }
}

/** A device that notes what it is asked to run. */
class ObservingDevice implements Device, Observed {
  readonly renderer: Renderer;
  readonly compiler: Compiler;
  readonly allocator: LruAllocator;
  readonly kernels: ObservedKernel[] = [];
  readonly launches: string[] = [];
  /** By the order of first use. */
  private readonly buffers = new Map<Buffer, number>();
  private readonly hashes = new Map<string, number>();

  constructor(readonly name: string, writer: Writer) {
    this.renderer = writer.renderer;
    this.allocator = new LruAllocator(name, new AsyncNullAllocator(writer.layout), 0);
    this.compiler = { compile: (programs) => programs.map((p) => new ObservedProgram(p, writer)) };
  }
  get planned(): number {
    let nbytes = 0;
    for (const { use, nbytes: n } of this.buffers.keys()) if (use.startsWith("intermediates of")) nbytes += n;
    return nbytes;
  }
  run(launches: readonly Launch[]): void {
    for (const l of launches) this.note(l);
  }
  private note({ program, buffers, vars }: Launch): void {
    const { linear, hash: written, more } = program as ObservedProgram;
    const grid = linear.grid === undefined ? "" : `groups ${groupsOf(linear, vars)} of ${linear.grid.size}`;
    const size = [`threads ${linear.threads}`, grid, more].filter((x) => x !== "").join(", ");
    const hash = hashOf(`${written} ${size}`, 43);
    const at = this.hashes.get(hash) ?? this.hashes.size;
    this.hashes.set(hash, at);
    const places = buffers.map((b) => {
      const base = this.buffers.get(b.base) ?? this.buffers.size;
      this.buffers.set(b.base, base);
      return b.offset === 0 ? `b${base}` : `b${base}+${b.offset}`;
    });
    this.kernels.push({ name: linear.name, hash, size, program: linear });
    this.launches.push(`${linear.name}#${at} ${places.join(" ")}${vars.length > 0 ? ` | ${vars.join(" ")}` : ""}`);
  }
  graph(): Graph {
    return { setBuffer() {}, setVar() {}, run() {}, dispose() {} };
  }
  synchronize(): Promise<void> {
    return Promise.resolve();
  }
  info(): Record<string, string | number | boolean> {
    return {};
  }
  close(): void {}
}

let opened = 0, next: Writer | undefined;

/**
 * A device for one program, and what it notes. No other program has used it: caches are by the name of the device, so
 * that nothing which ran before changes what is made for it.
 */
export function openObserving(writer: string): Device & Observed {
  registerBackend({
    ...nullBackend,
    open: (ordinal) => {
      if (next === undefined) return nullBackend.open(ordinal);
      return new ObservingDevice(`NULL:${ordinal}`, next);
    },
  });
  next = WRITERS[writer];
  try {
    return getDevice(`NULL:${++opened}`) as ObservingDevice;
  } finally {
    next = undefined;
  }
}
