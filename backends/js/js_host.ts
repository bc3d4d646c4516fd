/**
 * The host as a device: memory, where data given by the user lives, and what runs programs in it, which may be loaded
 * later than the memory is needed.
 *
 * @module
 */
import { type Allocator, type Block, type ForeignMemory, LruAllocator } from "../../src/device/allocator.ts";
import type { Backend, Device } from "../../src/device/device.ts";
import type { Compiler, Graph, Launch } from "../../src/device/program.ts";
import { arrayClass, type DType } from "../../src/dtype/dtype.ts";
import { OutOfMemoryError } from "../../src/helpers/errors.ts";
import type { Capabilities, Renderer } from "../../src/renderer/renderer.ts";
import type { Elements } from "./js_runtime.ts";

/** Memory of the JS device. */
export class JsBlock {
  readonly bytes: Uint8Array<ArrayBuffer>;
  private readonly whole: (Elements | undefined)[] = [];

  constructor(memory: number | ArrayBuffer) {
    this.bytes = typeof memory === "number" ? new Uint8Array(memory) : new Uint8Array(memory);
  }

  /** `size` elements from byte `offset` on; a copy where the offset does not suit the dtype (write it back then). */
  view(dtype: DType, offset: number, size: number): Elements {
    if (offset === 0) {
      const known = this.whole[dtype.id];
      if (known !== undefined && known.length === size) return known;
    }
    const Class = arrayClass<Elements>(dtype);
    if (offset % dtype.itemsize !== 0) {
      return new Class(this.bytes.slice(offset, offset + size * dtype.itemsize).buffer as ArrayBuffer);
    }
    const made = new Class(this.bytes.buffer, offset, size);
    if (offset === 0) this.whole[dtype.id] = made;
    return made;
  }
}

/** Bytes of one buffer: beyond some size engines hand out addresses for which there is no memory, which ends the process. */
const MOST_BYTES = 2 ** 36;

class JsAllocator implements Allocator {
  readonly layout = { viewAlign: 1 };
  constructor(private readonly device: string) {}
  alloc(nbytes: number): Block {
    if (nbytes > MOST_BYTES) {
      throw new OutOfMemoryError({ device: this.device, nbytes, reason: "a buffer of the host is at most 64 GiB" });
    }
    try {
      return new JsBlock(nbytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new OutOfMemoryError({ device: this.device, nbytes, reason: "the JavaScript engine refused the array" });
    }
  }
  free(): void {}
  adopt(memory: ForeignMemory, nbytes: number): { block: Block; offset: number } {
    if (memory instanceof Uint8Array) {
      return { block: new JsBlock(memory.buffer as ArrayBuffer), offset: memory.byteOffset };
    }
    const pointer = typeof memory === "bigint" ? Deno.UnsafePointer.create(memory) : memory as Deno.PointerObject;
    return { block: new JsBlock(Deno.UnsafePointerView.getArrayBuffer(pointer!, nbytes)), offset: 0 };
  }
  hostBytes(block: Block, offset: number, nbytes: number): Uint8Array {
    return (block as JsBlock).bytes.subarray(offset, offset + nbytes);
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    (block as JsBlock).bytes.set(src, offset);
  }
  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    dst.set((block as JsBlock).bytes.subarray(offset, offset + dst.byteLength));
  }
  peer(other: Allocator): boolean {
    return other instanceof JsAllocator;
  }
  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number): void {
    (dst as JsBlock).bytes.set((src as JsBlock).bytes.subarray(srcOffset, srcOffset + nbytes), dstOffset);
  }
}

/** What makes programs of the host and runs them: js.ts. */
export interface HostPrograms {
  /** Those of a scalar machine. */
  readonly caps: Capabilities;
  renderer(caps: Capabilities): Renderer;
  /** @param warp threads of a grid that go in step */
  compiler(warp: number): Compiler;
  run(launches: readonly Launch[]): void;
  graph(launches: readonly Launch[]): Graph;
}

/** A device of the host. */
export class HostDevice implements Device {
  readonly allocator: LruAllocator;
  private made: { readonly renderer: Renderer; readonly compiler: Compiler } | undefined;

  /**
   * @param changes to the capabilities
   * @param programs gives what runs programs, asked for when it is needed
   */
  constructor(
    readonly name: string,
    private readonly changes: Partial<Capabilities>,
    private readonly programs: () => HostPrograms,
  ) {
    this.allocator = new LruAllocator(name, new JsAllocator(name), 2 ** 26);
  }
  private get parts(): { readonly renderer: Renderer; readonly compiler: Compiler } {
    if (this.made !== undefined) return this.made;
    const programs = this.programs(), caps = { ...programs.caps, ...this.changes };
    return this.made = { renderer: programs.renderer(caps), compiler: programs.compiler(caps.grid?.warp ?? 1) };
  }
  get renderer(): Renderer {
    return this.parts.renderer;
  }
  get compiler(): Compiler {
    return this.parts.compiler;
  }
  run(launches: readonly Launch[]): void {
    this.programs().run(launches);
  }
  graph(launches: readonly Launch[]): Graph {
    return this.programs().graph(launches);
  }
  synchronize(): Promise<void> {
    return Promise.resolve();
  }
  info(): Record<string, string | number | boolean> {
    return { threads: 1, vectorBytes: this.renderer.caps.vectorBytes };
  }
  close(): void {
    this.allocator.drop();
  }
}

/** The JS backend: always there, never the default. */
export function hostBackend(programs: () => HostPrograms): Backend {
  return {
    name: "JS",
    description: "plain JavaScript, one element at a time: the host, and the oracle of tests",
    permissions: [],
    unavailable: () => undefined,
    open: (ordinal) => new HostDevice(ordinal === 0 ? "JS" : `JS:${ordinal}`, {}, programs),
  };
}
