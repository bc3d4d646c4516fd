/**
 * The NULL device: schedules, optimizes and renders for any renderer, launches nothing, holds no memory. For benches of
 * the compiler and tests without hardware. What is read from it is zero.
 *
 * @module
 */
import { type Allocator, type Block, LruAllocator, type MemoryLayout } from "../../src/device/allocator.ts";
import type { Backend, Device } from "../../src/device/device.ts";
import type { Compiler, Graph, Program } from "../../src/device/program.ts";
import { C_LANGUAGE, vectorCaps } from "../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../src/renderer/c/cstyle.ts";
import type { Capabilities, LinearProgram, Renderer } from "../../src/renderer/renderer.ts";

/** A processor with AVX-512, two threads and common caches: the same on every machine, so that counts can be compared. */
export const NULL_CAPS: Capabilities = {
  ...vectorCaps(64, true),
  registers: 32,
  threads: 2,
  l1: 32768,
  l2: 1048576,
  hasMulAcc: true,
};

/** What the NULL device would have done. */
export interface NullCounters {
  launches: number;
  compiled: number;
}

/** Memory that is not there: what is read from it is 0. */
export class NullAllocator implements Allocator {
  constructor(readonly layout: Partial<MemoryLayout> = { viewAlign: 1 }) {}
  alloc(nbytes: number): Block {
    return { nbytes };
  }
  free(): void {}
  copyIn(): void {}
  copyOut(dst: Uint8Array): void {
    dst.fill(0);
  }
  transfer(): void {}
  peer(other: Allocator): boolean {
    return other instanceof NullAllocator;
  }
}

class NullProgram implements Program {
  constructor(readonly linear: LinearProgram, readonly source: string) {}
}

/** The NULL device of one renderer. */
class NullDevice implements Device {
  readonly counters: NullCounters = { launches: 0, compiled: 0 };
  readonly compiler: Compiler;
  readonly allocator: LruAllocator;

  constructor(readonly name: string, readonly renderer: Renderer) {
    this.allocator = new LruAllocator(name, new NullAllocator(), 0);
    this.compiler = { isPortable: true, compile: (programs) => this.compile(programs) };
  }
  private compile(programs: readonly LinearProgram[]): Program[] {
    this.counters.compiled += programs.length;
    return programs.map((p) => {
      const source = this.renderer.render(p);
      return new NullProgram(p, typeof source === "string" ? source : `${source.byteLength} bytes`);
    });
  }
  run(launches: readonly unknown[]): void {
    this.counters.launches += launches.length;
  }
  graph(launches: readonly unknown[]): Graph {
    return { setBuffer() {}, setVar() {}, run: () => this.run(launches), dispose() {} };
  }
  synchronize(): Promise<void> {
    return Promise.resolve();
  }
  info(): Record<string, string | number | boolean> {
    return { renderer: this.renderer.name };
  }
  close(): void {}
}

/** A NULL device that renders as another device would; without a renderer, C for {@linkcode NULL_CAPS}. */
export function makeNullDevice(renderer?: Renderer, name = "NULL"): NullDevice {
  return new NullDevice(name, renderer ?? new CStyleRenderer(C_LANGUAGE, NULL_CAPS));
}

/** The NULL backend: always there, never the default. */
export const nullBackend: Backend = {
  name: "NULL",
  description: "compiles, launches nothing: for benches of the compiler",
  permissions: [],
  unavailable: () => undefined,
  open: (ordinal: number): Device => makeNullDevice(undefined, ordinal === 0 ? "NULL" : `NULL:${ordinal}`),
};
