/**
 * The WEBGPU device: linear programs as WGSL, run by the WebGPU of Deno or of a browser. It runs synchronously, and reads
 * asynchronously. webgpu.ts opens it.
 *
 * @module
 */
import { LruAllocator } from "../../src/device/allocator.ts";
import type { Device } from "../../src/device/device.ts";
import type { Graph, Launch } from "../../src/device/program.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { CStyleRenderer } from "../../src/renderer/c/cstyle.ts";
import { WGSL_LANGUAGE } from "../../src/renderer/c/wgsl.ts";
import { webGpuCaps } from "../../src/renderer/webgpu_caps.ts";
import { type Opened, openGpu } from "./adapter.ts";
import { WebGpuCompiler } from "./pipelines.ts";
import { GpuContext } from "./webgpu_context.ts";
import { Launcher, WebGpuGraph } from "./webgpu_launch.ts";
import { BINDING_ALIGN, WebGpuAllocator } from "./webgpu_memory.ts";

/** Timestamps that one list of launches may take: WebGPU has no larger sets. */
const MOST_STAMPS = 4096;

function aligned(nbytes: number): number {
  return nbytes - nbytes % BINDING_ALIGN;
}

/** An open WEBGPU device. */
export class WebGpuDevice implements Device {
  readonly renderer: CStyleRenderer;
  readonly compiler: WebGpuCompiler;
  readonly allocator: LruAllocator;
  /** The GPUDevice and its errors. */
  readonly context: GpuContext;
  private readonly launcher: Launcher;
  private readonly memory: WebGpuAllocator;
  /** Milliseconds from the device's clock to that of the host, as far as is known. */
  private clockMs = -Infinity;

  constructor(readonly name: string, private readonly opened: Opened) {
    const { device: { features }, device, limits, isSoftware } = opened;
    this.context = new GpuContext(name, device);
    this.renderer = new CStyleRenderer(WGSL_LANGUAGE, webGpuCaps(limits, features.has("shader-f16"), isSoftware));
    this.compiler = new WebGpuCompiler(this.context, this.renderer, aligned(limits.maxStorageBufferBindingSize));
    this.memory = new WebGpuAllocator(this.context, aligned(limits.maxBufferSize));
    this.allocator = this.memory.cache = new LruAllocator(name, this.memory);
    this.launcher = new Launcher(this.context, this.compiler);
  }

  /** Whether the device is gone, and all tensors on it: the next `Device.open` makes another. */
  get isLost(): boolean {
    return this.context.isLost;
  }
  /** Whether kernels can be timed by the device itself. */
  get hasTimestamps(): boolean {
    return this.opened.device.features.has("timestamp-query");
  }

  run(launches: readonly Launch[]): void {
    if (launches.length > 0) this.launcher.run(launches);
  }
  graph(launches: readonly Launch[]): Graph {
    return new WebGpuGraph(this.context, this.launcher, launches);
  }
  /** Runs launches, each in a pass of its own; their times on the device in nanoseconds. @throws {DeviceError} */
  async time(launches: readonly Launch[]): Promise<number[]> {
    if (!this.hasTimestamps) {
      throw new DeviceError("time kernels", { device: this.name, reason: "the adapter lacks timestamp-query" });
    }
    return (await this.launcher.stamps(launches)).map(([begin, end]) => Number(end - begin));
  }
  timeLater(launches: readonly Launch[]): Promise<readonly (readonly [startMs: number, endMs: number])[]> | undefined {
    if (!this.hasTimestamps || launches.length > MOST_STAMPS / 2) return undefined;
    const queuedMs = performance.now();
    return this.launcher.stamps(launches).then((stamps) => {
      const ms = stamps.map(([begin, end]) => [Number(begin) / 1e6, Number(end) / 1e6] as const);
      // nothing begins before it was queued: the clocks are apart by what that takes, at least
      for (const [begin] of ms.slice(0, 1)) this.clockMs = Math.max(this.clockMs, queuedMs - begin);
      return ms.map(([begin, end]) => [begin + this.clockMs, end + this.clockMs] as const);
    });
  }
  async synchronize(): Promise<void> {
    const { context } = this;
    context.check("synchronize");
    await context.gpu.queue.onSubmittedWorkDone();
    await context.settled();
    const error = context.takeFailure();
    if (error !== undefined) throw error;
  }
  info(): Record<string, string | number | boolean> {
    const { description, isSoftware, limits, device: { features } } = this.opened;
    return {
      adapter: description,
      software: isSoftware,
      f16: features.has("shader-f16"),
      timestamps: this.hasTimestamps,
      buffers: limits.maxStorageBuffersPerShaderStage,
      bufferBytes: aligned(limits.maxBufferSize),
      bindingBytes: aligned(limits.maxStorageBufferBindingSize),
      groupThreads: limits.maxComputeInvocationsPerWorkgroup,
      sharedBytes: limits.maxComputeWorkgroupStorageSize,
    };
  }
  close(): void {
    if (!this.context.isLost) {
      this.allocator.drop();
      this.memory.reader.drop();
    }
    this.context.close();
  }
}

/** Opens the adapter and the device. @throws {DeviceError} saying why there is none */
export async function openWebGpu(): Promise<WebGpuDevice> {
  return new WebGpuDevice("WEBGPU", await openGpu(navigator.gpu));
}
