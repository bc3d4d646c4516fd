/**
 * Device memory: what a backend implements (Allocator), and the cache of freed blocks around it (LruAllocator).
 *
 * @module
 */
import { OutOfMemoryError } from "../helpers/errors.ts";

/** A block of device memory; only its backend knows what it is. */
export type Block = object;

/** What a backend offers. Offsets and sizes in bytes. `Block`s come from `alloc` of the same allocator. */
export interface Allocator {
  /** @throws {OutOfMemoryError} */
  alloc(nbytes: number): Block;
  free(block: Block, nbytes: number): void;
  /** Host to device. The bytes may be changed by the caller once this returns. */
  copyIn(block: Block, offset: number, src: Uint8Array): void;
  /** Device to host, synchronously, after all work queued so far; absent where a device can read only asynchronously. */
  copyOut?(dst: Uint8Array, block: Block, offset: number): void;
  /** Device to host, after all work queued so far. */
  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void>;
  /** Device to device of one backend, where it can do better than through the host. */
  transfer?(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number): void;
}

/** Bytes handed out by all allocators since the start: what tells when to let finalizers run. */
export const allocated: { bytes: number } = { bytes: 0 };

/** What a buffer needs to know of its device. */
export interface MemoryDevice {
  /** Canonical: "WASM", "CUDA:1". */
  readonly name: string;
  readonly allocator: LruAllocator;
}

/** Keeps freed blocks by size and hands them out again; on failure drops all that it keeps and tries once more. */
export class LruAllocator implements Allocator {
  private readonly kept = new Map<number, Block[]>();
  /** Bytes handed out now, and kept for reuse. */
  used = 0;
  cached = 0;
  /** Blocks handed out now. */
  count = 0;
  readonly copyOut: ((dst: Uint8Array, block: Block, offset: number) => void) | undefined;
  readonly transfer: Allocator["transfer"];

  constructor(readonly device: string, readonly inner: Allocator, readonly maxCached: number = 2 ** 30) {
    this.copyOut = inner.copyOut === undefined ? undefined : (dst, block, offset) => inner.copyOut!(dst, block, offset);
    this.transfer = inner.transfer === undefined
      ? undefined
      : (dst, dstOffset, src, srcOffset, nbytes) => inner.transfer!(dst, dstOffset, src, srcOffset, nbytes);
  }

  alloc(nbytes: number): Block {
    let block = this.kept.get(nbytes)?.pop();
    if (block !== undefined) this.cached -= nbytes;
    else {
      try {
        block = this.inner.alloc(nbytes);
      } catch (error) {
        if (!(error instanceof OutOfMemoryError) || this.cached === 0) throw error;
        this.drop();
        block = this.inner.alloc(nbytes);
      }
    }
    this.used += nbytes;
    allocated.bytes += nbytes;
    this.count++;
    return block;
  }

  free(block: Block, nbytes: number): void {
    this.used -= nbytes;
    this.count--;
    if (this.cached + nbytes > this.maxCached) return this.inner.free(block, nbytes);
    const list = this.kept.get(nbytes);
    if (list === undefined) this.kept.set(nbytes, [block]);
    else list.push(block);
    this.cached += nbytes;
  }

  /** Gives all kept blocks back to the device. */
  drop(): void {
    for (const [nbytes, list] of this.kept) for (const block of list) this.inner.free(block, nbytes);
    this.kept.clear();
    this.cached = 0;
  }

  copyIn(block: Block, offset: number, src: Uint8Array): void {
    this.inner.copyIn(block, offset, src);
  }
  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    return this.inner.copyOutAsync(dst, block, offset);
  }
}
