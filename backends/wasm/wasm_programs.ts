/**
 * Compiling: all programs of a schedule become one module, kernels known by content are taken from before, and each
 * thread gets every kernel at the same index of its table.
 *
 * @module
 */
import type { Compiler, Program } from "../../src/device/program.ts";
import { CompileError } from "../../src/helpers/errors.ts";
import { mix } from "../../src/helpers/hash.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { RenderedKernel, WasmRenderer } from "./render.ts";

/** A call should take about this long, so that the engine soon enters the optimized code of a kernel. */
const CALL_NS = 50000;
/** A chunk that a thread claims should take at least this long. */
const CHUNK_NS = 5000;

/** A kernel in the tables of all threads. */
export interface InstalledKernel extends RenderedKernel {
  readonly index: number;
}

/** A compiled program. */
export class WasmProgram implements Program {
  /** Estimated nanoseconds of one launch on one thread. */
  readonly cost: number;
  /** Iterations of one call, and of one chunk. */
  readonly call: number;
  readonly claim: number;

  constructor(
    readonly linear: LinearProgram,
    readonly kernel: InstalledKernel,
    private readonly renderer: WasmRenderer,
  ) {
    const { iterations, parallel } = kernel;
    let { bytes } = linear;
    if (bytes === 0) { for (const p of linear.params) bytes += p === undefined ? 0 : p.size * p.dtype.itemsize; }
    this.cost = 200 + linear.flops * 0.15 + bytes * 0.1;
    const { threads } = renderer.caps;
    if (!parallel || threads === 1) this.claim = iterations;
    else if (kernel.setup) this.claim = Math.ceil(iterations / threads);
    else {
      const least = Math.ceil(iterations * CHUNK_NS / this.cost);
      this.claim = Math.min(iterations, Math.max(1, least, Math.ceil(iterations / (threads * 8))));
    }
    const piece = kernel.setup ? this.claim : Math.floor(iterations * CALL_NS / this.cost);
    this.call = Math.max(1, Math.min(this.claim, piece));
  }

  /** The listing of the function, rendered when asked for. */
  get source(): string {
    return this.renderer.kernel(this.linear, true).text;
  }
}

/** Installs a module in the table of this thread, and tells others. */
export type Install = (module: Uint8Array, table: number, scratch: number) => void;

/** The compiler of one device. */
export class WasmCompiler implements Compiler {
  private readonly byProgram = new WeakMap<LinearProgram, WasmProgram>();
  private readonly byContent = new Map<number, InstalledKernel[]>();
  /** Kernels installed so far. */
  count = 0;
  /** Modules made so far. */
  modules = 0;

  constructor(readonly renderer: WasmRenderer, private readonly install: Install) {}

  compile(programs: readonly LinearProgram[]): Program[] {
    const fresh: InstalledKernel[] = [];
    let kernels: InstalledKernel[];
    const base = this.count;
    try {
      kernels = programs.map((linear) => this.kernelOf(linear, base, fresh));
      if (fresh.length > 0) {
        const scratch = fresh.reduce((most, k) => Math.max(most, k.scratch), 0);
        this.install(this.renderer.module(fresh, base), base + fresh.length, scratch);
      }
    } catch (error) {
      for (const k of fresh) this.forget(k); // others will have their places in the table
      throw this.explain(error, programs);
    }
    if (fresh.length > 0) {
      this.count += fresh.length;
      this.modules++;
    }
    return programs.map((linear, i) => {
      let program = this.byProgram.get(linear);
      if (program === undefined) {
        this.byProgram.set(linear, program = new WasmProgram(linear, kernels[i], this.renderer));
      }
      return program;
    });
  }

  /** The kernel of a program: a known one of the same content, or another one of `fresh`, which will be installed from `base` on. */
  private kernelOf(linear: LinearProgram, base: number, fresh: InstalledKernel[]): InstalledKernel {
    const known = this.byProgram.get(linear);
    if (known !== undefined) return known.kernel;
    const rendered = this.renderer.kernel(linear), hash = hashBytes(rendered.code);
    const alike = this.byContent.get(hash), same = alike?.find((k) => sameKernel(k, rendered));
    if (same !== undefined) return same;
    const kernel = { ...rendered, index: base + fresh.length };
    fresh.push(kernel);
    if (alike === undefined) this.byContent.set(hash, [kernel]);
    else alike.push(kernel);
    return kernel;
  }

  private forget(kernel: InstalledKernel): void {
    const hash = hashBytes(kernel.code);
    this.byContent.set(hash, this.byContent.get(hash)!.filter((k) => k !== kernel));
  }

  /** Finds the program that the engine rejects. */
  private explain(error: unknown, programs: readonly LinearProgram[]): unknown {
    if (!(error instanceof WebAssembly.CompileError)) return error;
    for (const program of programs) {
      const bytes = this.renderer.render(program) as Uint8Array<ArrayBuffer>;
      if (WebAssembly.validate(bytes)) continue;
      return new CompileError(`compile ${program.name}`, {
        reason: "the engine rejects the module",
        source: this.renderer.kernel(program, true).text,
        log: error.message,
      });
    }
    return error;
  }
}

function hashBytes(bytes: Uint8Array): number {
  let h = 0x6a09e667;
  for (let i = 0; i < bytes.length; i++) h = mix(h, bytes[i]);
  return h;
}

function sameBytes(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function sameKernel(a: RenderedKernel, b: RenderedKernel): boolean {
  return a.iterations === b.iterations && a.parallel === b.parallel && a.scratch === b.scratch &&
    sameBytes(a.locals, b.locals) && sameBytes(a.code, b.code);
}
