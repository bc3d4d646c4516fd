/**
 * The WASM device: needs no permission, no file and no tool. Launches become a list of commands in the device's memory,
 * and one call into the runtime module walks it, with the help of other threads where that pays.
 *
 * @module
 */
import { LruAllocator } from "../../src/device/allocator.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import type { Backend, Device } from "../../src/device/device.ts";
import { type Graph, type Launch, LaunchGraph } from "../../src/device/program.ts";
import { writeScalar } from "../../src/dtype/convert.ts";
import { envNumber } from "../../src/helpers/env.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { ceilDiv, roundUp } from "../../src/helpers/math.ts";
import { type Features, features } from "./features.ts";
import { canStartThreads, mayBlock, Pool } from "./pool.ts";
import { WasmRenderer } from "./render.ts";
import { wasmStandalone } from "./standalone_module.ts";
import { type WasmBlock, WasmMemory } from "./wasm_memory.ts";
import { WasmCompiler, type WasmProgram } from "./wasm_programs.ts";
import { COMMAND, MAX_THREADS, type Runtime, runtimeModule, THREAD_RECORDS, WORDS } from "./wasm_runtime.ts";

/** Helpers take part in lists that are estimated to take longer than this. */
const PARALLEL_NS = 30000;
/** Helpers are started after this much work that could have used them. */
const START_NS = 2000000;

/** How many threads to use: THREADS, else one a core. */
function threadCount(f: Features): number {
  if (!f.threads || !canStartThreads()) return 1;
  const cores = (globalThis as { navigator?: { hardwareConcurrency?: number } }).navigator?.hardwareConcurrency ?? 1;
  return Math.max(1, Math.min(MAX_THREADS, Math.trunc(envNumber("THREADS") || cores)));
}

/** Launches laid out in memory: the commands, then the arguments of each. */
class CommandList {
  readonly count: number;
  private readonly block: WasmBlock;
  private readonly buffers: number[] = [];
  private readonly vars: number[] = [];
  private readonly launches: readonly Launch[];
  /** Estimated nanoseconds on one thread: of all launches, and of those that threads can share. */
  readonly cost: number;
  readonly shareable: number;

  /** @param reuse a block to put it in, if it is large enough */
  constructor(private readonly device: WasmDevice, launches: readonly Launch[], reuse?: WasmBlock) {
    const { memory } = device;
    this.launches = launches;
    this.count = launches.length;
    let size = launches.length * COMMAND.SIZE, cost = 0, shareable = 0;
    for (const { program, buffers, vars } of launches) {
      this.buffers.push(size);
      size += roundUp(buffers.length * 4, 8);
      this.vars.push(size);
      size += vars.length * 8;
      const p = program as WasmProgram;
      cost += p.cost;
      if (p.claim < p.kernel.iterations) shareable += p.cost;
    }
    this.cost = cost;
    this.shareable = shareable;
    this.block = reuse !== undefined && reuse.size >= size ? reuse : memory.alloc(size);
    const base = this.block.address;
    for (let i = 0; i < launches.length; i++) {
      const { program, buffers, vars } = launches[i];
      const { kernel, call, claim } = program as WasmProgram;
      for (let slot = 0; slot < buffers.length; slot++) this.setBuffer(i, slot, buffers[slot]);
      for (let k = 0; k < vars.length; k++) this.setVar(i, k, vars[k]);
      // after the buffers: their allocation may have grown the memory
      const words = memory.i32, at = (base + i * COMMAND.SIZE) >>> 2;
      words[at + (COMMAND.KERNEL >> 2)] = kernel.index;
      words[at + (COMMAND.BUFS >> 2)] = base + this.buffers[i];
      words[at + (COMMAND.VARS >> 2)] = base + this.vars[i];
      words[at + (COMMAND.TOTAL >> 2)] = kernel.iterations;
      words[at + (COMMAND.CLAIM >> 2)] = claim;
      words[at + (COMMAND.CALL >> 2)] = call;
      words[at + (COMMAND.CHUNKS >> 2)] = ceilDiv(kernel.iterations, claim);
    }
  }

  get address(): number {
    return this.block.address;
  }
  /** The block, to be reused or freed by whoever made the list. */
  get memory(): WasmBlock {
    return this.block;
  }
  get names(): string {
    return this.launches.map((l) => l.program.linear.name).join(", ");
  }

  setBuffer(launch: number, slot: number, buffer: Buffer): void {
    const address = (buffer.memory as WasmBlock).address + buffer.offset;
    this.device.memory.i32[((this.block.address + this.buffers[launch]) >>> 2) + slot] = address;
  }

  setVar(launch: number, position: number, value: number | bigint): void {
    const { dtype } = this.launches[launch].program.linear.vars[position];
    writeScalar(this.device.memory.view, this.block.address + this.vars[launch] + position * 8, dtype, value);
  }
}

/** Launches prepared for replay. */
class WasmGraph extends LaunchGraph {
  private list: CommandList | undefined;

  constructor(private readonly device: WasmDevice, launches: readonly Launch[]) {
    super(launches);
    this.list = new CommandList(device, launches);
  }

  private get open(): CommandList {
    if (this.list === undefined) {
      throw new DeviceError("run a graph", { device: this.device.name, reason: "it was disposed" });
    }
    return this.list;
  }
  override setBuffer(launch: number, slot: number, buffer: Buffer): void {
    this.open.setBuffer(launch, slot, buffer);
    super.setBuffer(launch, slot, buffer);
  }
  override setVar(launch: number, position: number, value: number | bigint): void {
    this.open.setVar(launch, position, value);
  }
  run(): void {
    this.device.execute(this.open);
  }
  override dispose(): void {
    super.dispose();
    if (this.list !== undefined) this.device.memory.free(this.list.memory);
    this.list = undefined;
  }
}

/** The device. Its extra members serve tests and this backend. */
export class WasmDevice implements Device {
  readonly renderer: WasmRenderer;
  readonly compiler: WasmCompiler;
  readonly allocator: LruAllocator;
  readonly memory: WasmMemory;
  readonly pool: Pool;
  private readonly features: Features;
  private readonly threads: number;
  private readonly runtime: Runtime;
  private readonly table: WebAssembly.Table;
  private readonly scratch: WasmBlock[] = [];
  private scratchSize = 0;
  private temporary: WasmBlock | undefined;
  /**
   * V8 runs what it compiled in one pass until some megabytes of code have run, by experiment within some 5 ms, then compiles
   * it well.
   */
  readonly warmMs = 20;
  /** Estimated nanoseconds of work that helpers could have shared, until they are started. */
  private missed = 0;
  private readonly mayWait = mayBlock() ? 1 : 0;

  /** @param f what to use of the engine: all that it offers */
  constructor(readonly name: string, f: Features = features()) {
    this.features = f;
    this.threads = threadCount(f);
    this.memory = new WasmMemory(name, f.threads);
    this.allocator = new LruAllocator(name, this.memory);
    this.renderer = new WasmRenderer(this.threads, f, this.memory.maximum);
    this.table = new WebAssembly.Table({ element: "anyfunc", initial: 1024 });
    const bytes = runtimeModule(this.memory.maximum, f.threads);
    const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>);
    const instance = new WebAssembly.Instance(module, { e: { m: this.memory.memory, t: this.table } });
    this.runtime = instance.exports as unknown as Runtime;
    this.pool = new Pool(this.memory, bytes, this.threads - 1);
    this.compiler = new WasmCompiler(this.renderer, (bytes, table, scratch) => this.install(bytes, table, scratch));
  }

  private install(bytes: Uint8Array, table: number, scratch: number): void {
    if (this.table.length < table) this.table.grow(Math.max(table, this.table.length * 2) - this.table.length);
    const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>);
    const record = new WebAssembly.Global({ value: "i32" }, THREAD_RECORDS);
    new WebAssembly.Instance(module, { e: { m: this.memory.memory, t: this.table, r: record } });
    if (scratch > this.scratchSize) this.growScratch(scratch);
    this.pool.addModule(bytes, table);
  }

  /** Gives every thread scratch memory of that size. No job runs now. */
  private growScratch(size: number): void {
    for (const block of this.scratch) this.memory.free(block);
    this.scratch.length = 0;
    for (let t = 0; t < this.threads; t++) {
      const block = this.memory.alloc(size);
      this.scratch.push(block);
      this.memory.i32[(THREAD_RECORDS + 64 * t) >> 2] = block.address;
    }
    this.scratchSize = size;
  }

  run(launches: readonly Launch[]): void {
    if (launches.length === 0) return;
    const list = new CommandList(this, launches, this.temporary);
    if (list.memory !== this.temporary) {
      if (this.temporary !== undefined) this.memory.free(this.temporary);
      this.temporary = list.memory;
    }
    this.execute(list);
  }

  graph(launches: readonly Launch[]): Graph {
    return new WasmGraph(this, launches);
  }

  /** Runs a list to its end. */
  execute(list: CommandList): void {
    const share = this.threads > 1 && list.shareable > PARALLEL_NS;
    if (share && (this.missed += list.shareable) >= START_NS && this.pool.ready < this.pool.helpers) {
      this.pool.start();
    }
    const parallel = share && this.pool.ready > 0;
    let failed = 0, cause: unknown;
    try {
      if (parallel) failed = this.runtime.parallel(list.address, list.count, this.mayWait);
      else this.runtime.serial(list.address, list.count);
    } catch (error) {
      failed = 1;
      cause = error;
    }
    if (failed === 0) return;
    if (parallel) {
      Atomics.store(this.memory.i32, WORDS.ERROR >> 2, 1);
      this.runtime.close(this.mayWait);
      Atomics.store(this.memory.i32, WORDS.ERROR >> 2, 0);
    }
    const why = cause instanceof Error ? cause.message : "a kernel trapped in a helper thread";
    throw new DeviceError(`run ${list.names}`, { device: this.name, reason: why, cause });
  }

  synchronize(): Promise<void> {
    return Promise.resolve();
  }

  info(): Record<string, string | number | boolean> {
    return {
      simd: this.features.simd,
      "relaxed simd": this.features.relaxed,
      "shared memory": this.features.threads,
      threads: this.threads,
      "helpers ready": this.pool.ready,
      kernels: this.compiler.count,
      modules: this.compiler.modules,
      "memory bytes": this.memory.nbytes,
      "memory limit": this.memory.maximum * 65536,
    };
  }

  close(): void {
    this.pool.close();
    this.allocator.drop();
  }
}

/** The WASM backend: the default where nothing faster is permitted. */
export const wasmBackend: Backend = {
  name: "WASM",
  description: "WebAssembly with SIMD and threads, assembled in memory; needs no permission",
  permissions: [],
  rank: 2,
  standalone: wasmStandalone,
  unavailable(): string | undefined {
    return typeof WebAssembly === "undefined" ? "this engine has no WebAssembly" : undefined;
  },
  open(ordinal: number): Device {
    return new WasmDevice(ordinal === 0 ? "WASM" : `WASM:${ordinal}`);
  },
};
