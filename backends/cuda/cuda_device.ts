/**
 * The CUDA device: what the driver tells of a card as capabilities, and the parts (context, memory, compiler, graphs) put
 * together. All work of a device is queued on one stream, in the order of the calls.
 *
 * @module
 */
import { type JoinOptions, setDeviceEngine } from "../../src/collectives/engines.ts";
import { LruAllocator } from "../../src/device/allocator.ts";
import type { Device } from "../../src/device/device.ts";
import { textOf } from "../../src/device/foreign.ts";
import type { Graph, Insertion, Launch } from "../../src/device/program.ts";
import { envNumber } from "../../src/helpers/env.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { Capabilities, Renderer } from "../../src/renderer/renderer.ts";
import { type Assembler, CudaCompiler, NvrtcAssembler, ptxAssembler } from "./compiler.ts";
import { CudaContext } from "./cuda_context.ts";
import { type CudaProgram, LaunchSlot, slotWords } from "./cuda_launch.ts";
import { CudaAllocator } from "./cuda_memory.ts";
import { type Driver, HostMemory, openDriver } from "./driver.ts";
import { CudaGraph } from "./graph.ts";
import { joinNccl, type NcclCommunicator } from "./nccl/nccl.ts";
import { ID_BYTES, makeNcclId, type NcclSymbols, openNccl } from "./nccl/nccl_library.ts";
import { Nvrtc } from "./nvrtc.ts";
import { resultError, versionText } from "./results.ts";
import { Attribute } from "./symbols.ts";

/** What the driver tells of a card. */
export interface CardFacts {
  /** As NVIDIA calls it. */
  readonly card: string;
  /** 90 for compute capability 9.0. */
  readonly capability: number;
  /** For compilers: "sm_90a". */
  readonly arch: string;
  readonly multiprocessors: number;
  readonly clockMHz: number;
  /** What its memory can move at best, in GB/s: clock and width of the bus; 0 where the driver does not tell. */
  readonly memoryGBs: number;
  readonly caps: Capabilities;
}

/** The oldest cards that code is made for: Volta. */
const OLDEST_CAPABILITY = 70;

function factsOf(driver: Driver, device: number): CardFacts {
  const { cu, out } = driver;
  const ask = (attribute: number): number =>
    cu.cuDeviceGetAttribute(out.bytes, attribute, device) === 0 ? out.i32[0] : 0;
  const name = new Uint8Array(256);
  const card = cu.cuDeviceGetName(name, name.byteLength, device) === 0 ? textOf(name) : "unknown";
  const capability = ask(Attribute.MAJOR) * 10 + ask(Attribute.MINOR);
  // code for "a" uses what only this generation has
  const arch = `sm_${capability}${capability >= 90 ? "a" : ""}`;
  const caps = cudaCaps({
    arch,
    units: ask(Attribute.MULTIPROCESSORS),
    sharedBytes: Math.max(ask(Attribute.SHARED_PER_BLOCK_OPTIN), ask(Attribute.SHARED_PER_BLOCK)),
    unitShared: ask(Attribute.SHARED_PER_MULTIPROCESSOR),
    unitThreads: ask(Attribute.THREADS_PER_MULTIPROCESSOR),
    unitRegisters: ask(Attribute.REGISTERS_PER_MULTIPROCESSOR),
    l2: ask(Attribute.L2_BYTES),
    hasTensorMaps: cu.cuTensorMapEncodeTiled !== null && cu.cuFuncGetParamInfo !== null && envNumber("TMA") > 0,
    tf32: envNumber("ALLOW_TF32") > 0,
  });
  const { MAX_GRID_DIM_X, MAX_BLOCK_DIM_X } = Attribute;
  const three = (first: number): [number, number, number] => [ask(first), ask(first + 1), ask(first + 2)];
  const grid = {
    ...caps.grid!,
    maxGroups: three(MAX_GRID_DIM_X),
    maxGroupSize: three(MAX_BLOCK_DIM_X),
    maxGroupThreads: ask(Attribute.MAX_THREADS_PER_BLOCK),
    warp: ask(Attribute.WARP_SIZE),
  };
  return {
    card,
    capability,
    arch,
    multiprocessors: grid.units,
    clockMHz: Math.round(ask(Attribute.CLOCK_RATE) / 1e3),
    memoryGBs: Math.round(2 * ask(Attribute.MEMORY_CLOCK_RATE) * ask(Attribute.MEMORY_BUS_WIDTH) / 8 / 1e6),
    caps: { ...caps, grid },
  };
}

/** What writes kernels and what assembles them. */
interface Language {
  readonly renderer: Renderer;
  readonly assembler: Assembler;
}

/** CUDA C where NVRTC is found, else PTX; PTX also where it is asked for, and then NVRTC is not opened. */
function languageFor({ version: driverVersion }: Driver, { arch, capability, caps }: CardFacts): Language {
  let why = "PTX=1";
  if (envNumber("PTX") === 0) {
    const nvrtc = Nvrtc.find({ capability, driverVersion });
    if (nvrtc instanceof Nvrtc) {
      return { renderer: new CudaRenderer(caps, capability), assembler: new NvrtcAssembler(nvrtc, arch) };
    }
    why = nvrtc.length === 0 ? "no NVRTC was found" : `no NVRTC is of use: ${nvrtc.join("; ")}`;
  }
  const assembler = ptxAssembler(driverVersion);
  return { renderer: new PtxRenderer(caps, arch), assembler: { ...assembler, info: { ptx: why } } };
}

/** Of the memory that is free when the device is opened, how much freed blocks may keep. */
const KEPT_SHARE = 0.5;

/** One card. */
export class CudaDevice implements Device {
  readonly renderer: Renderer;
  readonly compiler: CudaCompiler;
  readonly allocator: LruAllocator;
  readonly facts: CardFacts;
  private readonly context: CudaContext;
  private readonly memory: CudaAllocator;
  /** Of the card, when it was opened. */
  private readonly bytes: { readonly free: number; readonly total: number };
  private readonly graphs = new Set<CudaGraph>();
  private readonly communicators: NcclCommunicator[] = [];
  /** The arguments of launches that are not part of a graph: the driver copies them. */
  private slot: LaunchSlot = new LaunchSlot(new HostMemory(64));
  private slotWords = 64;
  private closed = false;

  /** @throws {DeviceError} */
  constructor(readonly name: string, driver: Driver, device: number) {
    this.facts = factsOf(driver, device);
    const { card, capability, caps } = this.facts;
    if (capability < OLDEST_CAPABILITY) {
      throw new DeviceError(`open device ${name}`, {
        device: name,
        reason: `${card} has compute capability ${capability / 10}; 7.0 or newer is needed`,
      });
    }
    const { renderer, assembler } = languageFor(driver, this.facts);
    this.renderer = renderer;
    let context: CudaContext | undefined;
    try {
      this.context = context = new CudaContext(name, driver, device);
      this.memory = new CudaAllocator(context, caps.bufferAlignment);
      this.bytes = this.memory.available();
    } catch (error) {
      context?.close();
      assembler.close();
      throw error;
    }
    this.compiler = new CudaCompiler(context, renderer, assembler);
    this.allocator = new LruAllocator(name, this.memory, Math.floor(this.bytes.free * KEPT_SHARE));
  }

  /** What joins this card to those of other processes. @throws {DeviceError} without the NCCL library */
  join(options: JoinOptions, nccl: NcclSymbols = openNccl()): NcclCommunicator {
    const made = joinNccl({ nccl, context: this.context, timeoutMs: options.timeoutMs }, options);
    this.communicators.push(made);
    return made;
  }

  /** Cards that the driver sees. */
  get cardCount(): number {
    return this.context.driver.count;
  }

  run(launches: readonly Launch[]): void {
    const { context } = this;
    context.enter();
    for (const launch of launches) {
      const words = slotWords(launch.program as CudaProgram);
      if (words > this.slotWords) this.slot = new LaunchSlot(new HostMemory(this.slotWords = 2 * words));
      this.slot.set(launch);
      context.enter(); // allocating a buffer may have entered another device
      this.slot.launch(context);
    }
  }
  /** Once it has joined other cards: their library's work can be captured. */
  get takesInsertions(): boolean {
    return this.communicators.length > 0;
  }
  graph(launches: readonly Launch[], insertions: readonly Insertion[] = []): Graph {
    const graph = new CudaGraph(this.context, launches, insertions, (g) => this.graphs.delete(g));
    this.graphs.add(graph);
    return graph;
  }
  synchronize(): Promise<void> {
    return this.context.settle();
  }
  /** Milliseconds that the device works on what `queue` queues; waits for it. */
  timeSync(queue: () => void): number {
    return this.context.time(queue);
  }
  info(): Record<string, string | number | boolean> {
    const { card, capability, arch, multiprocessors, clockMHz, memoryGBs } = this.facts;
    const { name, info } = this.compiler.assembler;
    const grid = this.renderer.caps.grid!;
    const units = new Set(grid.tensorCores.map((c) => c.shared === undefined ? "mma.sync" : "wgmma"));
    return {
      card,
      computeCapability: (capability / 10).toFixed(1),
      arch,
      driver: versionText(this.context.driver.version),
      multiprocessors,
      clockMHz,
      memoryGBs,
      memoryMB: Math.round(this.bytes.total / 1e6),
      matrixUnits: [...units].join(", ") || "none",
      tileCopies: grid.copyEngine !== undefined ? "TMA" : grid.hasAsyncCopy ? "cp.async" : "none",
      language: this.renderer.name,
      compiler: name,
      ...info,
    };
  }
  /** Frees all that was made on the device, in the reverse order. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    const { context } = this;
    try {
      if (context.alive) context.synchronize();
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error; // lost: nothing more to wait for
    }
    for (const graph of this.graphs) graph.dispose();
    for (const communicator of this.communicators) communicator.abort("its card was closed");
    this.allocator.drop();
    this.memory.close();
    this.compiler.close();
    context.close();
    context.driver.release();
  }
}

/** Opens the card of an ordinal. @throws {DeviceError} saying what is missing */
export function openCuda(ordinal: number): CudaDevice {
  const name = ordinal === 0 ? "CUDA" : `CUDA:${ordinal}`, driver = openDriver().retain();
  try {
    if (ordinal >= driver.count) {
      const has = driver.count === 1 ? "one device, CUDA" : `${driver.count} devices, CUDA to CUDA:${driver.count - 1}`;
      throw new DeviceError(`open device ${name}`, { device: name, reason: `the driver sees ${has}` });
    }
    const { cu, out } = driver;
    const code = cu.cuDeviceGet(out.bytes, ordinal);
    if (code !== 0) throw resultError(name, `open device ${name}`, code);
    const device = new CudaDevice(name, driver, out.i32[0]);
    setDeviceEngine(name, {
      name: "NCCL",
      idBytes: ID_BYTES,
      makeId: makeNcclId,
      join: (options) => device.join(options),
    });
    return device;
  } catch (error) {
    driver.release();
    throw error;
  }
}
