/**
 * What CLANG makes of linear programs: C, compiled together where it is not in the cache, and functions by their addresses.
 *
 * @module
 */
import { cString, textOf } from "../../src/device/foreign.ts";
import { digest, emptyTemporary, type ObjectCache } from "../../src/device/object_cache.ts";
import type { Compiler, Program } from "../../src/device/program.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { type CSource, type CStyleRenderer, identifier } from "../../src/renderer/c/cstyle.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { RUNTIME_SYMBOLS } from "./c_runtime.ts";
import { clangCounters, compileError, compileUnits, type Toolchain, type Unit } from "./toolchain.ts";

/** The functions of the C runtime. */
export type Runtime = Deno.DynamicLibrary<typeof RUNTIME_SYMBOLS>["symbols"];

/** Below this a kernel is not worth sharing; no chunk should be much smaller; one whose work is not known is long enough. */
const MIN_PARALLEL_SECONDS = 20e-6, MIN_CHUNK_SECONDS = 10e-6, UNKNOWN_SECONDS = 1;

/** A compiled kernel. */
export class ClangProgram implements Program {
  /** Chunks of the THREAD loop, by the work: four for each thread at most; 1 runs it on the calling thread. */
  readonly chunks: number;
  /** Nanoseconds in one thread, at most: what it takes indeed is seen when it runs. */
  readonly ns: number;

  private text: string | undefined;

  /** @param made its source, where that was rendered */
  constructor(
    readonly linear: LinearProgram,
    readonly key: string,
    readonly address: bigint,
    threads: number,
    made: string | undefined,
    private readonly renderer: CStyleRenderer,
  ) {
    this.text = made;
    const { flops, bytes } = linear, seconds = Math.max(flops, bytes) / 10e9 || UNKNOWN_SECONDS;
    const most = threads === 1 ? 1 : Math.min(linear.threads, threads * 4);
    const wanted = Math.max(threads, Math.floor(seconds / MIN_CHUNK_SECONDS));
    this.chunks = seconds < MIN_PARALLEL_SECONDS ? 1 : Math.max(1, Math.min(most, wanted));
    this.ns = Math.round(seconds * 1e9);
  }

  /** Rendered when asked for, where an earlier process has compiled it. */
  get source(): string {
    return this.text ??= rendered(this.linear, this.renderer).text;
  }
}

type Progress = (done: number, nextMs: number) => void;
const silent: Progress = () => {};

/**
 * Compiling takes about so long for a character of generated text. A unit of so many is enough for one compiler; where there
 * are fewer, another would take longer to start than it saves.
 */
const COST_MS = 0.005, MOST_COST = 400_000, LEAST_COST = 10_000;

/** A kernel to compile, and its text under the name "kernel". */
interface Missing {
  readonly program: LinearProgram;
  readonly source: CSource;
}

/** The source of a program: in parts, as a text, and the digest by which compilers' objects are known. */
function rendered(program: LinearProgram, renderer: CStyleRenderer): { source: CSource; text: string; key: string } {
  const source = renderer.parts(program, "kernel"), shared = [...source.declarations.values()].join("\n");
  const body = renamed(source.body, identifier(program.name));
  return { source, text: shared === "" ? body : `${shared}\n${body}`, key: digest(`${shared}\n${source.body}`) };
}

/** A generated function under another name than "kernel". */
function renamed(body: string, symbol: string): string {
  return body.replace(/^void kernel\(/, `void ${symbol}(`);
}

/** The compiler of a device. */
export class ClangCompiler implements Compiler {
  readonly isPortable: boolean = true;
  private readonly addresses = new Map<string, bigint>();
  private readonly handles = new Map<string, bigint>();
  /** Why the loader refused an object last. */
  private refusal = "it lacks a symbol";

  constructor(
    private readonly runtime: Runtime,
    private readonly tool: Toolchain,
    private readonly cache: ObjectCache,
    private readonly renderer: CStyleRenderer,
    private readonly threads: number,
    private readonly cores: number,
  ) {}

  compile(programs: readonly LinearProgram[], progress: Progress = silent): Program[] {
    const keys: string[] = [], sources: (string | undefined)[] = [];
    const missing = new Map<string, Missing>();
    this.cache.refresh();
    for (const program of programs) {
      const { compiled } = program;
      if (compiled !== undefined && (this.addresses.has(compiled) || this.load(compiled))) {
        keys.push(compiled);
        sources.push(undefined);
        continue;
      }
      const { source, text, key } = rendered(program, this.renderer);
      clangCounters.rendered++;
      keys.push(key);
      sources.push(text);
      if (!this.addresses.has(key)) missing.set(key, { program, source });
    }
    if (missing.size > 0) {
      for (const key of [...missing.keys()]) if (this.load(key)) missing.delete(key);
      if (missing.size > 0) {
        this.build(missing, (done, nextMs) => progress(programs.length - missing.size + done, nextMs));
      }
      emptyTemporary();
    }
    return programs.map((p, i) => (
      new ClangProgram(p, keys[i], this.addresses.get(keys[i])!, this.threads, sources[i], this.renderer)
    ));
  }

  /** Finds the function of a key in the cache; false where it must be compiled. */
  private load(key: string): boolean {
    const entry = this.cache.get(key);
    if (entry === undefined) return false;
    const path = this.cache.path(entry);
    let handle = this.handles.get(path);
    if (handle === undefined) {
      const message = new Uint8Array(512);
      handle = this.runtime.dino_open(cString(path), message, message.byteLength);
      this.handles.set(path, handle);
      if (handle === 0n) this.refusal = textOf(message);
    }
    const address = handle === 0n ? 0n : this.runtime.dino_symbol(handle, cString(entry.symbol));
    if (address === 0n) {
      this.cache.drop(key);
      return false;
    }
    this.addresses.set(key, address);
    return true;
  }

  /**
   * Compiles kernels, spread evenly over one unit a core, or several where it takes so long that somebody should be told;
   * each text of a user is one of its own.
   */
  private build(missing: ReadonlyMap<string, Missing>, progress: Progress): void {
    const own = [...missing].filter(([, { program }]) => program.text !== undefined);
    const generated = [...missing].filter(([, { program }]) => program.text === undefined);
    const total = generated.reduce((sum, [, { source }]) => sum + source.body.length, 0);
    const rounds = Math.ceil(total / (this.cores * MOST_COST));
    const count = Math.min(this.cores * rounds, Math.ceil(total / LEAST_COST), generated.length);
    const bins = Array.from({ length: count }, () => ({ cost: 0, keys: [] as string[] }));
    for (const [key, { source }] of generated.sort((a, b) => b[1].source.body.length - a[1].source.body.length)) {
      const bin = bins.reduce((best, b) => b.cost < best.cost ? b : best);
      bin.cost += source.body.length + 400;
      bin.keys.push(key);
    }
    const texts = new Map<string, string>();
    const units: Unit[] = [...bins, ...own.map(([key]) => ({ keys: [key] }))].map(({ keys }) => {
      const shared = new Map<string, string>(), bodies: string[] = [], symbols: [string, string][] = [];
      for (const key of keys) {
        const { program, source } = missing.get(key)!;
        const symbol = `${identifier(program.name)}_${key.slice(0, 12)}`;
        const body = program.text === undefined
          ? renamed(source.body, symbol)
          : this.renderer.parts(program, symbol).body;
        const { declarations } = source;
        for (const [name, text] of declarations) if (!shared.has(name)) shared.set(name, text);
        bodies.push(`#line 1 "${symbol}"\n${body}`);
        symbols.push([key, symbol]);
        texts.set(symbol, body);
      }
      return { source: [...shared.values(), ...bodies].join("\n"), symbols };
    });
    for (;;) {
      for (let at = 0, done = 0; at < units.length; at += this.cores) {
        const some = units.slice(at, at + this.cores);
        progress(done, Math.max(...some.map((u) => u.source.length)) * COST_MS);
        const failures = compileUnits(this.tool, this.cache, some);
        if (failures.length > 0) throw compileError(this.tool, failures[0], texts);
        for (const u of some) done += u.symbols.length;
      }
      const refused = [...missing.keys()].find((key) => !this.load(key));
      if (refused === undefined) return;
      // a loader that opens nothing of that folder may do so elsewhere
      if (this.cache.moveToTemporary(this.refusal)) continue;
      throw new DeviceError(`load kernel ${missing.get(refused)!.program.name}`, {
        device: "CLANG",
        reason: `the object that was just compiled cannot be opened: ${this.refusal}`,
      });
    }
  }
}
