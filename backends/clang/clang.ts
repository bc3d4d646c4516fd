/**
 * The CLANG device: linear programs as C with vector types, compiled by whatever C compiler there is, kept in a cache,
 * run by a small C runtime with a thread pool. A list of launches is one command buffer and one foreign call.
 *
 * @module
 */
import { type Allocator, type Block, type ForeignMemory, LruAllocator } from "../../src/device/allocator.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import type { Backend, Device } from "../../src/device/device.ts";
import { cacheDirectory, digest, emptyTemporary, ObjectCache } from "../../src/device/object_cache.ts";
import { type Graph, type Launch, LaunchGraph, type ThreadTimes } from "../../src/device/program.ts";
import { writeScalar } from "../../src/dtype/convert.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { envNumber, envText } from "../../src/helpers/env.ts";
import { DeviceError, OutOfMemoryError } from "../../src/helpers/errors.ts";
import { C_LANGUAGE, vectorCaps } from "../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../src/renderer/c/cstyle.ts";
import type { Capabilities } from "../../src/renderer/renderer.ts";
import { COMMAND_HEADER, RUNTIME_ABI, RUNTIME_SOURCE, RUNTIME_SYMBOLS } from "./c_runtime.ts";
import { ClangCompiler, type ClangProgram, type Runtime } from "./clang_programs.ts";
import { svdText } from "./svd_kernel.ts";
import { ThreadRows, uncountedText } from "./thread_times.ts";
import {
  anotherChance,
  compilerIdentity,
  findCompiler,
  parseProbe,
  PROBE_ARGS,
  readLog,
  runAll,
  RUNTIME_LIBRARIES,
  runtimeCommands,
  type Toolchain,
  whyUnavailable,
} from "./toolchain.ts";

export { clangCounters } from "./toolchain.ts";

/** Memory of the CLANG device. */
class ClangBlock {
  /** @param owner keeps memory alive that is not the allocator's */
  constructor(readonly address: bigint, readonly owner?: object) {}
}

class ClangAllocator implements Allocator {
  readonly layout = { viewAlign: 1 };
  private readonly take: Runtime["dino_alloc"];
  private readonly give: Runtime["dino_free"];
  /** @param guarded each block ends where a page without access begins */
  constructor(private readonly device: string, private readonly runtime: Runtime, guarded: boolean) {
    this.take = guarded ? runtime.dino_alloc_guarded : runtime.dino_alloc;
    this.give = guarded ? runtime.dino_free_guarded : runtime.dino_free;
  }
  alloc(nbytes: number): Block {
    const address = this.take(BigInt(nbytes));
    if (address === 0n) {
      throw new OutOfMemoryError({ device: this.device, nbytes, reason: "the system has no such block of memory" });
    }
    return new ClangBlock(address);
  }
  free(block: Block, nbytes: number): void {
    this.give((block as ClangBlock).address, BigInt(nbytes));
  }
  adopt(memory: ForeignMemory): { block: Block; offset: number } {
    if (typeof memory === "bigint") return { block: new ClangBlock(memory), offset: 0 };
    if (!(memory instanceof Uint8Array)) {
      return { block: new ClangBlock(Deno.UnsafePointer.value(memory as Deno.PointerObject)), offset: 0 };
    }
    const address = Deno.UnsafePointer.value(Deno.UnsafePointer.of(exact(memory)));
    return { block: new ClangBlock(address, memory), offset: 0 };
  }
  hostBytes(block: Block, offset: number, nbytes: number): Uint8Array {
    const pointer = Deno.UnsafePointer.create((block as ClangBlock).address + BigInt(offset))!;
    return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, nbytes));
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    const to = (block as ClangBlock).address + BigInt(offset);
    if (src.byteLength > 0) this.runtime.dino_copy_in(to, exact(src), BigInt(src.byteLength));
  }
  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    const from = (block as ClangBlock).address + BigInt(offset);
    if (dst.byteLength > 0) this.runtime.dino_copy_out(exact(dst), from, BigInt(dst.byteLength));
  }
  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number): void {
    const to = (dst as ClangBlock).address + BigInt(dstOffset), from = (src as ClangBlock).address + BigInt(srcOffset);
    this.runtime.dino_copy(to, from, BigInt(nbytes));
  }
  peer(other: Allocator): boolean {
    return other instanceof ClangAllocator;
  }
}

/** The same bytes, typed as the foreign call wants them. */
function exact(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes as Uint8Array<ArrayBuffer>;
}

/** A command buffer: launches with their arguments. */
class Commands {
  readonly words: BigUint64Array<ArrayBuffer>;
  private readonly view: DataView;
  private readonly starts: number[] = [];
  private at = 0;

  constructor(size: number) {
    this.words = new BigUint64Array(size);
    this.view = new DataView(this.words.buffer);
  }

  static sizeOf({ buffers, vars }: Launch): number {
    return COMMAND_HEADER + buffers.length + vars.length;
  }
  /** Starts over. */
  reset(): void {
    this.at = 0;
    this.starts.length = 0;
  }

  add(launch: Launch): void {
    const { buffers, vars } = launch, { address, linear, chunks, ns } = launch.program as ClangProgram;
    const start = this.at, size = Commands.sizeOf(launch);
    this.starts.push(start);
    this.words[start] = address;
    this.words[start + 1] = BigInt(size);
    this.words[start + 2] = BigInt(buffers.length);
    this.words[start + 3] = BigInt(linear.threads);
    this.words[start + 4] = BigInt(chunks);
    this.words[start + 5] = BigInt(ns);
    this.at += size;
    const index = this.starts.length - 1;
    for (let i = 0; i < buffers.length; i++) this.setBuffer(index, i, buffers[i]);
    for (let i = 0; i < vars.length; i++) this.setVar(index, i, linear.vars[i].dtype, vars[i]);
  }

  setBuffer(launch: number, slot: number, buffer: Buffer): void {
    const base = (buffer.memory as ClangBlock).address;
    this.words[this.starts[launch] + COMMAND_HEADER + slot] = buffer.offset === 0 ? base : base + BigInt(buffer.offset);
  }
  setVar(launch: number, position: number, dtype: DType, value: number | bigint): void {
    const start = this.starts[launch];
    writeScalar(this.view, (start + COMMAND_HEADER + Number(this.words[start + 2]) + position) * 8, dtype, value);
  }
}

class ClangGraph extends LaunchGraph {
  private readonly commands: Commands;

  constructor(private readonly runner: Runner, launches: readonly Launch[]) {
    super(launches);
    this.commands = new Commands(launches.reduce((n, l) => n + Commands.sizeOf(l), 0));
    for (const l of launches) this.commands.add(l);
  }
  override setBuffer(launch: number, slot: number, buffer: Buffer): void {
    super.setBuffer(launch, slot, buffer);
    this.commands.setBuffer(launch, slot, buffer);
  }
  override setVar(launch: number, position: number, value: number | bigint): void {
    this.commands.setVar(launch, position, this.launches[launch].program.linear.vars[position].dtype, value);
  }
  run(ends?: Float64Array<ArrayBuffer>): void {
    this.runner.run(this.commands, this.launches.length, ends);
  }
}

/** Runs commands, and keeps what each thread did of them while somebody watches. */
class Runner {
  readonly threadTimes: ThreadRows;

  constructor(private readonly runtime: Runtime) {
    this.threadTimes = new ThreadRows(
      () => uncounted(runtime),
      () => runtime.dino_number(5),
      (rows) => runtime.dino_populate(rows, BigInt(rows.byteLength)),
    );
  }

  run({ words }: Commands, count: number, ends: Float64Array<ArrayBuffer> | undefined): void {
    if (count === 0) return;
    const { runtime, threadTimes } = this, place = ends === undefined ? undefined : threadTimes.place(count);
    if (place === undefined) return runtime.dino_run(words, count, ends ?? null);
    const { rows, part, threads, isCounted } = place;
    runtime.dino_run_watched(words, count, ends!, rows, isCounted ? -part : part, threads, threadTimes.firstOf(place));
  }
}

/** Which counters the system does not give, and why. */
function uncounted(runtime: Runtime): string | undefined {
  const error = new Uint8Array(200), found = runtime.dino_counters(error, error.byteLength);
  return uncountedText(found, new TextDecoder().decode(error.subarray(0, Math.max(0, error.indexOf(0)))));
}

class ClangDevice implements Device {
  readonly timesLaunches = true;
  readonly renderer: CStyleRenderer;
  readonly compiler: ClangCompiler;
  readonly allocator: LruAllocator;
  private readonly runtime: Runtime;
  private readonly runner: Runner;
  private readonly threads: number;
  private scratch = new Commands(256);
  private closed = false;

  constructor(
    readonly name: string,
    private readonly library: Deno.DynamicLibrary<typeof RUNTIME_SYMBOLS>,
    private readonly tool: Toolchain,
    private readonly cache: ObjectCache,
  ) {
    const runtime = this.runtime = library.symbols;
    this.runner = new Runner(runtime);
    const cores = Math.max(1, runtime.dino_number(0)), wanted = Math.max(1, Math.trunc(envNumber("THREADS") || cores));
    // a pool may hold more threads than this device asked for, if another device did
    this.threads = Math.min(wanted, runtime.dino_start(wanted));
    this.renderer = new CStyleRenderer(
      C_LANGUAGE,
      capsOf(tool, this.threads, runtime.dino_number(1), runtime.dino_number(2), runtime.dino_number(4)),
    );
    this.compiler = new ClangCompiler(runtime, tool, cache, this.renderer, this.threads, cores);
    this.allocator = new LruAllocator(name, new ClangAllocator(name, runtime, envNumber("SPEC") !== 0));
  }

  run(launches: readonly Launch[], ends?: Float64Array<ArrayBuffer>): void {
    if (launches.length === 0) return;
    let size = 0;
    for (const l of launches) size += Commands.sizeOf(l);
    if (size > this.scratch.words.length) this.scratch = new Commands(2 * size);
    this.scratch.reset();
    for (const l of launches) this.scratch.add(l);
    this.runner.run(this.scratch, launches.length, ends);
  }
  graph(launches: readonly Launch[]): Graph {
    return new ClangGraph(this.runner, launches);
  }
  get threadTimes(): ThreadTimes {
    return this.runner.threadTimes;
  }
  synchronize(): Promise<void> {
    return Promise.resolve();
  }
  info(): Record<string, string | number | boolean> {
    const { vectorBytes } = this.renderer.caps;
    return {
      compiler: this.tool.path,
      version: this.tool.version,
      threads: this.threads,
      vectorBits: vectorBytes * 8,
      fma: this.renderer.caps.hasMulAcc,
      cache: this.cache.folder,
    };
  }
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.allocator.drop();
    this.runtime.dino_stop();
    this.library.close();
  }
}

/** Capabilities of C code made by this compiler for this processor. */
export function capsOf(
  { macros }: Pick<Toolchain, "macros">,
  threads: number,
  l1: number,
  l2: number,
  last = 0,
): Capabilities {
  const wide = macros.has("__AVX512F__"), arm = macros.has("__ARM_NEON");
  const vectorBytes = wide ? 64 : macros.has("__AVX2__") ? 32 : 16;
  return {
    ...vectorCaps(vectorBytes, macros.has("__FLT16_MANT_DIG__")),
    registers: wide || arm ? 32 : 16,
    threads,
    l1: Math.max(0, l1),
    l2: Math.max(0, l2),
    hasMulAcc: macros.has("__FMA__") || macros.has("__ARM_FEATURE_FMA"),
    hasDots: wide || macros.has("__AVX2__"),
    hasMaskedLoads: macros.has(wide ? "__AVX512VL__" : "__AVX2__"),
    ...(last > 0 ? { streamedBytes: last } : {}),
  };
}

/** The compiled runtime and what the compiler offers, both from the cache where they are there. */
interface Prepared {
  /** Path of the runtime. */
  readonly runtime: () => string;
  /** What the compiler offers on this processor. */
  readonly probe: (cpu: string) => Toolchain;
  /** Gives up the shared directory: its objects cannot be opened. False if there is no other. */
  readonly elsewhere: (why: string) => boolean;
}

function prepare(path: string, root: string): Prepared {
  const identity = compilerIdentity(path), cache = new ObjectCache(root, "clang/runtime", "CLANG", ".so");
  const key = digest(`${identity} ${RUNTIME_ABI} ${Deno.build.target} ${RUNTIME_LIBRARIES} ${RUNTIME_SOURCE}`);
  let printed: string | undefined;
  const macros = (folder: string) => ({
    args: [path, ...PROBE_ARGS],
    stdout: `${folder}/macros`,
    log: `${folder}/macros.log`,
  });
  /** Compiles the runtime; the log of the compiler where it made nothing. */
  const compile = (): string | undefined =>
    cache.inFolder((folder) => {
      const name = cache.newName(".so"), source = `${folder}/runtime.c`, log = `${folder}/runtime.log`;
      Deno.writeTextFileSync(source, RUNTIME_SOURCE);
      const made = `${folder}/runtime.so`, final = `${cache.folder}/${name}`;
      runAll([{ ...runtimeCommands(path, source, made), made, final, log }, macros(folder)]);
      printed = Deno.readTextFileSync(`${folder}/macros`);
      try {
        cache.add(name, [[key, "dino_run"]]);
      } catch {
        return readLog(log);
      }
    });
  const runtime = (): string => {
    cache.refresh();
    let log: string | undefined;
    for (let attempt = 0; cache.get(key) === undefined; attempt++) {
      log = compile();
      if (log !== undefined && !anotherChance(cache, attempt, log)) break;
    }
    const entry = cache.get(key);
    if (entry !== undefined) return cache.path(entry);
    const lines = (log ?? "").trim().split("\n");
    throw new DeviceError("open device CLANG", {
      device: "CLANG",
      reason: `${path} cannot compile the runtime: ${lines.find((l) => l.includes("error")) ?? lines[0]}`,
    });
  };
  const probe = (cpu: string): Toolchain => {
    const file = `${cache.directory}/macros-${digest(`${identity} ${cpu} ${PROBE_ARGS.join(" ")}`)}`;
    try {
      const known = Deno.readTextFileSync(file);
      if (known.includes("#define __VERSION__")) return parseProbe(path, known);
    } catch { /* first time on this processor */ }
    const sound = printed?.includes("#define __VERSION__") ? printed : undefined;
    const text = sound ?? cache.inFolder((folder) => {
      runAll([macros(folder)]);
      return Deno.readTextFileSync(`${folder}/macros`);
    });
    try {
      const temp = `${file}.${cache.newName("")}`;
      Deno.writeTextFileSync(temp, text.split("\n").filter((l) => /__(VERSION|AVX|FMA|FLT16|ARM)/.test(l)).join("\n"));
      Deno.renameSync(temp, file);
    } catch { /* asked again next time */ }
    return parseProbe(path, text);
  };
  const elsewhere = (why: string): boolean => {
    cache.drop(key);
    return cache.moveToTemporary(why);
  };
  return { runtime, probe, elsewhere };
}

/** Opens the runtime; compiled again in a temporary folder where the loader refuses it (a folder without execution). */
function openRuntime({ runtime, elsewhere }: Prepared): Deno.DynamicLibrary<typeof RUNTIME_SYMBOLS> {
  for (;;) {
    const path = runtime();
    try {
      return Deno.dlopen(path, RUNTIME_SYMBOLS);
    } catch (error) {
      const why = (error as Error).message;
      if (elsewhere(why)) continue;
      throw new DeviceError("open device CLANG", {
        device: "CLANG",
        reason: `the compiled runtime cannot be loaded: ${why}`,
        cause: error,
      });
    }
  }
}

function openDevice(ordinal: number): Device {
  const why = whyUnavailable();
  if (why !== undefined) throw new DeviceError("open device CLANG", { device: "CLANG", reason: why });
  const path = findCompiler()!, root = cacheDirectory();
  const prepared = prepare(path, root), { probe } = prepared;
  const library = openRuntime(prepared);
  try {
    const text = new Uint8Array(16384);
    const cpu = digest(text.subarray(0, library.symbols.dino_cpu(text, text.byteLength)));
    const tool = probe(cpu);
    const key = digest(`${tool.version} ${path} ${tool.flags.join(" ")} ${cpu} ${RUNTIME_ABI} ${Deno.build.target}`);
    const cache = new ObjectCache(root, `clang/${key.slice(0, 16)}`, "CLANG", ".so");
    emptyTemporary(); // the runtime is loaded
    return new ClangDevice(ordinal === 0 ? "CLANG" : `CLANG:${ordinal}`, library, tool, cache);
  } catch (error) {
    library.close();
    throw error;
  }
}

/** The last answer of `unavailable`; `final` where opening failed, which does not heal by itself. */
let lastCheck: { cc: string; why: string | undefined; final: boolean } | undefined;

/** The CLANG backend. */
export const clangBackend: Backend = {
  name: "CLANG",
  description: "C compiled by clang or gcc, on all cores of the processor",
  permissions: ["--allow-ffi", "--allow-run", "--allow-read", "--allow-write"],
  rank: 1,
  textLanguage: C_LANGUAGE.name,
  kernelTexts: { svd: svdText },
  /** A success is remembered, so that asking for the default device costs nothing; so is a failure to open. */
  unavailable(): string | undefined {
    const cc = envText("CC");
    if (lastCheck === undefined || lastCheck.cc !== cc || (lastCheck.why !== undefined && !lastCheck.final)) {
      lastCheck = { cc, why: whyUnavailable(), final: false };
    }
    return lastCheck.why;
  },
  open(ordinal: number): Device {
    try {
      return openDevice(ordinal);
    } catch (error) {
      if (error instanceof DeviceError) {
        lastCheck = { cc: envText("CC"), why: error.message.replace(/^[^:]*: /, ""), final: true };
      }
      throw error;
    }
  },
};
