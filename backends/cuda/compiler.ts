/**
 * From linear programs to functions of loaded modules. CUDA C goes through NVRTC to machine code, which is kept on disk
 * under a digest of the source, the compiler and its options; PTX goes to the driver, which assembles it and keeps a cache
 * of its own. Equal sources share a module; the last program that is disposed unloads it.
 *
 * @module
 */
import { cString, isGranted, textOf } from "../../src/device/foreign.ts";
import { cacheDirectory, digest, ObjectCache } from "../../src/device/object_cache.ts";
import type { Compiler } from "../../src/device/program.ts";
import { envNumber } from "../../src/helpers/env.ts";
import { CompileError, DeviceError } from "../../src/helpers/errors.ts";
import { identifier } from "../../src/renderer/c/cstyle.ts";
import { sharedBytesOf, threadsOf } from "../../src/renderer/lanes.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import type { CudaContext } from "./cuda_context.ts";
import { TensorMap } from "./tensor_maps.ts";
import { CudaProgram } from "./cuda_launch.ts";
import { HostMemory } from "./driver.ts";
import { compileError, type Nvrtc } from "./nvrtc.ts";
import type { CompileThreads } from "./nvrtc_threads.ts";
import { Result, resultError, versionText } from "./results.ts";
import { FunctionAttribute, JitOption } from "./symbols.ts";

/** Makes what the driver loads. */
export interface Assembler {
  /** As `info()` and errors name it. */
  readonly name: string;
  /** Images of sources, in their order; `names` of their kernels. @throws {CompileError} */
  assemble(sources: readonly string[], names: readonly string[]): Uint8Array<ArrayBuffer>[];
  /** What else `info()` shows. */
  readonly info: Readonly<Record<string, string>>;
  /** Gives up the library. */
  close(): void;
}

/** PTX as it is, for the driver to assemble. */
export function ptxAssembler(driverVersion: number): Assembler {
  return {
    name: `the driver's assembler (CUDA ${versionText(driverVersion)})`,
    info: {},
    assemble: (sources) => sources.map(cString),
    close() {},
  };
}

const SUFFIX = ".cubin";

/** The disk cache for one compiler with its options; undefined where files may not be used. */
function openCache(identity: string): ObjectCache | undefined {
  if (!isGranted({ name: "read" }) || !isGranted({ name: "write" })) return undefined;
  return new ObjectCache(cacheDirectory(), `cuda/${digest(identity).slice(0, 16)}`, "CUDA", SUFFIX);
}

/** CUDA C through NVRTC, with its results on disk. */
export class NvrtcAssembler implements Assembler {
  readonly name: string;
  readonly info: Readonly<Record<string, string>>;
  private readonly threads: CompileThreads;
  private readonly cache: ObjectCache | undefined;

  /** @param arch "sm_90a" */
  constructor(private readonly nvrtc: Nvrtc, arch: string) {
    this.name = `NVRTC ${nvrtc.version}`;
    // products and sums are fused where the program says so, and nowhere else
    const options = [`--gpu-architecture=${arch}`, "--std=c++17", "--fmad=false"];
    this.threads = nvrtc.threads(options);
    this.cache = openCache(`${nvrtc.version} ${options.join(" ")}`);
    this.info = { nvrtc: nvrtc.path, nvrtcVersion: nvrtc.version, cache: this.cache?.folder ?? "none" };
  }

  assemble(sources: readonly string[], names: readonly string[]): Uint8Array<ArrayBuffer>[] {
    const { cache } = this, keys = sources.map(digest);
    cache?.refresh();
    const images = keys.map((key) => this.read(key)),
      missing = images.flatMap((image, i) => image === undefined ? [i] : []);
    const made = this.nvrtc.compile(missing.map((i) => sources[i]), missing.map((i) => names[i]), this.threads);
    const kept: [key: string, name: string, image: Uint8Array][] = [];
    let error: CompileError | undefined;
    missing.forEach((i, k) => {
      const image = made[k];
      if (image instanceof CompileError) error ??= image;
      else kept.push([keys[i], names[i], images[i] = image]);
    });
    if (kept.length > 0) this.keep(kept);
    if (error !== undefined) throw error;
    return images as Uint8Array<ArrayBuffer>[];
  }

  /** The image on disk. */
  private read(key: string): Uint8Array<ArrayBuffer> | undefined {
    const entry = this.cache?.get(key);
    if (entry === undefined) return undefined;
    try {
      return Deno.readFileSync(this.cache!.path(entry));
    } catch {
      return undefined; // removed just now
    }
  }

  /** Writes images to disk; where that fails, this process has them all the same. */
  private keep(made: readonly (readonly [key: string, name: string, image: Uint8Array])[]): void {
    const { cache } = this;
    if (cache === undefined) return;
    try {
      cache.inFolder((folder) => {
        for (const [key, name, image] of made) {
          const object = cache.newName(SUFFIX);
          Deno.writeFileSync(`${folder}/${object}`, image);
          Deno.renameSync(`${folder}/${object}`, `${cache.folder}/${object}`);
          cache.add(object, [[key, name]]);
        }
      });
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      if (envNumber("DEBUG") >= 1) console.error(`CUDA: compiled kernels are not kept: ${error.message}`);
    }
  }
  close(): void {
    this.threads.close();
    this.nvrtc.close();
  }
}

/** A loaded module with its only function. */
export interface LoadedKernel {
  readonly name: string;
  readonly module: bigint;
  readonly handle: bigint;
  /** Of a thread: 32-bit registers, and bytes in memory (spills, private arrays). */
  readonly registers: number;
  readonly localBytes: number;
  /** Programs that use it. */
  users: number;
}

/** Shared memory that a group may have without asking. */
const PLAIN_SHARED_BYTES = 48 * 1024;
const LOG_WORDS = 2048;
/** What the driver says where the image itself is at fault. */
const IMAGE_RESULTS: ReadonlySet<number> = new Set([200, Result.NO_BINARY_FOR_GPU, Result.INVALID_PTX, 300]);

/** The compiler of one device. */
export class CudaCompiler implements Compiler {
  private readonly loaded = new Map<string, LoadedKernel>();
  /** The logs of the driver's assembler, and the options that name them. */
  private readonly log: HostMemory = new HostMemory(LOG_WORDS);
  private readonly optionTags: Uint32Array<ArrayBuffer>;
  private readonly optionValues: BigUint64Array<ArrayBuffer>;

  constructor(
    private readonly context: CudaContext,
    private readonly renderer: Renderer,
    readonly assembler: Assembler,
  ) {
    this.optionTags = new Uint32Array([JitOption.ERROR_LOG, JitOption.ERROR_LOG_BYTES]);
    this.optionValues = new BigUint64Array([this.log.address, BigInt(LOG_WORDS * 8)]);
  }

  compile(programs: readonly LinearProgram[]): CudaProgram[] {
    const sources = programs.map((p) => this.renderer.render(p) as string);
    const missing = new Map<string, string>();
    sources.forEach((source, i) => {
      if (!this.loaded.has(source) && !missing.has(source)) missing.set(source, programs[i].name);
    });
    if (missing.size > 0) {
      const texts = [...missing.keys()], names = [...missing.values()];
      this.assembler.assemble(texts, names).forEach((image, i) => this.load(image, texts[i], names[i]));
    }
    return programs.map((p, i) => this.programOf(p, sources[i]));
  }

  private programOf(linear: LinearProgram, source: string): CudaProgram {
    const { context } = this, loaded = this.loaded.get(source)!, sharedBytes = sharedBytesOf(linear);
    if (sharedBytes > PLAIN_SHARED_BYTES) {
      context.enter();
      const { MAX_DYNAMIC_SHARED } = FunctionAttribute;
      const code = context.driver.cu.cuFuncSetAttribute(loaded.handle, MAX_DYNAMIC_SHARED, sharedBytes);
      context.check(code, `give kernel ${linear.name} ${sharedBytes} bytes of shared memory`);
    }
    const { handle, registers, localBytes } = loaded;
    const { unitRegisters } = this.renderer.caps.grid!, threads = threadsOf(linear);
    if (registers * threads > unitRegisters) {
      throw new DeviceError(`launch kernel ${linear.name}`, {
        device: context.name,
        reason: `its ${threads} threads take ${registers} registers each, and a group may take ${unitRegisters}`,
      });
    }
    loaded.users++;
    let disposed = false;
    return new CudaProgram(
      linear,
      source,
      handle,
      sharedBytes,
      registers,
      localBytes,
      () => {
        if (disposed) return;
        disposed = true;
        if (--loaded.users > 0 || this.loaded.get(source) !== loaded) return;
        this.loaded.delete(source);
        this.unload(loaded);
      },
      (linear.maps ?? []).map((m) => new TensorMap(context, linear.name, m)),
      (i) => this.placeOf(handle, i),
    );
  }

  /** Where the assembler has put an argument of a kernel, in bytes. */
  private placeOf(handle: bigint, argument: number): number {
    const [offset, nbytes] = [new BigUint64Array(1), new BigUint64Array(1)];
    const code = this.context.driver.cu.cuFuncGetParamInfo!(handle, BigInt(argument), offset, nbytes);
    this.context.check(code, `find argument ${argument} of a kernel`);
    return Number(offset[0]);
  }

  /** Loads an image. @throws {CompileError} if the driver's assembler does not take it */
  private load(image: Uint8Array<ArrayBuffer>, source: string, name: string): void {
    const { context, log, context: { driver: { cu, out } } } = this;
    context.enter();
    log.bytes[0] = 0;
    const { optionTags, optionValues } = this;
    const code = cu.cuModuleLoadDataEx(out.bytes, image, optionTags.length, optionTags, optionValues);
    if (code !== 0) this.refuse(code, source, name);
    const module = out.words[0];
    try {
      context.check(
        cu.cuModuleGetFunction(out.bytes, module, cString(identifier(name))),
        `find kernel ${name} in its module`,
      );
      const handle = out.words[0];
      const ask = (attribute: number): number => {
        context.check(cu.cuFuncGetAttribute(out.bytes, attribute, handle), `ask about kernel ${name}`);
        return out.i32[0];
      };
      const registers = ask(FunctionAttribute.REGISTERS), localBytes = ask(FunctionAttribute.LOCAL_BYTES);
      this.loaded.set(source, { name, module, handle, registers, localBytes, users: 0 });
    } catch (error) {
      cu.cuModuleUnload(module);
      throw error;
    }
  }

  private refuse(code: number, source: string, name: string): never {
    const { context, context: { driver } } = this, log = textOf(this.log.bytes);
    if (code === Result.UNSUPPORTED_PTX_VERSION) {
      const version = /\.version\s+(\S+)/.exec(source)?.[1];
      const wants = version === undefined ? "" : `; the kernel is PTX ${version}`;
      const has = `${wants}, the driver supports CUDA ${versionText(driver.version)}`;
      throw resultError(context.name, `load kernel ${name} on ${context.name}`, code, has);
    }
    if (IMAGE_RESULTS.has(code) && log !== "") throw compileError(this.assembler.name, name, source, log, code);
    this.context.fail(code, `load kernel ${name}`);
  }

  private unload({ module }: LoadedKernel): void {
    const { context } = this;
    if (!context.alive) return;
    context.enter();
    context.check(context.driver.cu.cuModuleUnload(module), "unload a kernel");
  }

  /** What is loaded now. */
  kernels(): LoadedKernel[] {
    return [...this.loaded.values()];
  }

  /** Unloads all modules and the compiler's library. */
  close(): void {
    for (const l of this.loaded.values()) this.unload(l);
    this.loaded.clear();
    this.assembler.close();
  }
}
