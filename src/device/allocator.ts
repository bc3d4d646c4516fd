/**
 * Device memory: what a backend implements (Allocator), and the cache of freed blocks around it (LruAllocator), which
 * also knows who holds what.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { byteText, type MemoryHolder, OutOfMemoryError } from "../helpers/errors.ts";

/** A block of device memory; only its backend knows what it is. */
export type Block = object;

/** Memory of somebody else: bytes of the host, or an address, as a number or as a pointer of Deno's. */
export type ForeignMemory = Uint8Array | bigint | object;

/** What a backend offers. Offsets and sizes in bytes. `Block`s come from `alloc` of the same allocator. */
export interface Allocator {
  /** A block of at least `nbytes`. @throws {OutOfMemoryError} */
  alloc(nbytes: number): Block;
  /** Takes a block back. `nbytes` as it was asked for. */
  free(block: Block, nbytes: number): void;
  /** Host to device. The bytes may be changed by the caller once this returns. */
  copyIn(block: Block, offset: number, src: Uint8Array): void;
  /** Device to host, synchronously, after all work queued so far; absent where a device can read only asynchronously. */
  copyOut?(dst: Uint8Array, block: Block, offset: number): void;
  /** Device to host, after all work queued so far; absent where that is `copyOut`. */
  copyOutAsync?(dst: Uint8Array, block: Block, offset: number): Promise<void>;
  /**
   * Device to device without the host, after all work queued so far. `dst` is a block of this allocator; `src` is one of
   * `from`, where that is given: another allocator, which {@linkcode Allocator.peer} accepted.
   */
  transfer?(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number, from?: Allocator): void;
  /** Whether `transfer` takes blocks of `other`, as those of another ordinal of the backend; absent: of none. */
  peer?(other: Allocator): boolean;
  /** The most bytes that all blocks together may have, where that is known. */
  readonly capacity?: number;
  /** Bytes that are free on the device, and all of its bytes; absent where it does not say. */
  available?(): { readonly free: number; readonly total: number };
  /** False for a block that turned out to be of no use; it is not handed out again. */
  isSound?(block: Block): boolean;
  /**
   * `nbytes` of foreign memory as a block that is used where it is, and where they start in it; undefined where the device
   * cannot. Addresses are the device's own. Such a block is never freed.
   */
  adopt?(memory: ForeignMemory, nbytes: number): { readonly block: Block; readonly offset: number } | undefined;
  /**
   * The memory itself, `nbytes` from `offset` of a block on, where it is the host's; absent where it is not. Nothing may run
   * on the device meanwhile, and the bytes are good until something is allocated there.
   */
  hostBytes?(block: Block, offset: number, nbytes: number): Uint8Array | undefined;
  /** What may be done with parts of blocks, and how large blocks may be. */
  readonly layout?: Partial<MemoryLayout>;
}

/** How buffers may lie in blocks: what views and the memory planner ask for. */
export interface MemoryLayout {
  /** Byte offsets of tensors that share a block are multiples of this; 1 where any element may be addressed. */
  readonly viewAlign: number;
  /** False where a kernel must not read and write one block: intermediates then get blocks of their own. */
  readonly arenas: boolean;
  /** The most bytes of a block. */
  readonly maxBytes: number;
}

const LAYOUT: MemoryLayout = { viewAlign: 256, arenas: true, maxBytes: Infinity };

/** What memory asks of the device that it is on. */
export interface MemoryDevice {
  /** Canonical: "WASM", "CUDA:1". */
  readonly name: string;
  /** Its memory. */
  readonly allocator: LruAllocator;
}

/** Bytes and blocks handed out by all allocators since the start: what tells when to let finalizers run. */
export const allocated: { bytes: number; count: number } = { bytes: 0, count: 0 };

/** How often memory was refused. */
export const shortages: { count: number } = { count: 0 };

/**
 * Keeps freed blocks by size and hands them out again, the sizes not used for longest dropped first where it keeps too
 * much (`LRU=0` keeps none); on failure drops all that it keeps and tries once more.
 */
export class LruAllocator implements Allocator {
  /** Freed blocks by size; sizes in the order of their last use. */
  private readonly kept = new Map<number, Block[]>();
  private readonly holders = new Set<MemoryHolder>();
  /** Bytes handed out now, the most there have been, and bytes kept for reuse. */
  used = 0;
  /** The most bytes that were handed out at a time. */
  peak = 0;
  /** Bytes kept for reuse. */
  cached = 0;
  /** Blocks handed out now. */
  count = 0;
  readonly copyOut: ((dst: Uint8Array, block: Block, offset: number) => void) | undefined;
  readonly transfer: Allocator["transfer"];
  readonly layout: MemoryLayout;

  /** A cache around `inner`. @param maxCached bytes kept for reuse, at most */
  constructor(readonly device: string, readonly inner: Allocator, readonly maxCached: number = 2 ** 30) {
    this.copyOut = inner.copyOut === undefined ? undefined : (dst, block, offset) => inner.copyOut!(dst, block, offset);
    this.transfer = inner.transfer === undefined
      ? undefined
      : (dst, dstOffset, src, srcOffset, nbytes, from) =>
        inner.transfer!(dst, dstOffset, src, srcOffset, nbytes, from instanceof LruAllocator ? from.inner : from);
    this.layout = { ...LAYOUT, ...inner.layout };
  }

  /** Whether `transfer` takes blocks of `other`. */
  peer(other: Allocator): boolean {
    const { inner } = this, theirs = other instanceof LruAllocator ? other.inner : other;
    return inner.transfer !== undefined && (theirs === inner || inner.peer?.(theirs) === true);
  }

  /** A block for `holder`, who is named in errors and tables. @throws {OutOfMemoryError} with the largest holders */
  alloc(nbytes: number, holder?: MemoryHolder): Block {
    const limit = envNumber("MAX_BUFFER_SIZE"), list = this.kept.get(nbytes);
    if (limit > 0 && nbytes > limit) this.fail(nbytes, `MAX_BUFFER_SIZE allows ${byteText(limit)} a buffer`);
    const { maxBytes } = this.layout;
    if (nbytes > maxBytes) this.fail(nbytes, `the device allows ${byteText(maxBytes)} a buffer`);
    let block = list?.pop();
    if (block !== undefined && this.inner.isSound?.(block) === false) {
      this.inner.free(block, nbytes);
      this.cached -= nbytes;
      block = undefined;
    }
    if (block !== undefined) {
      this.cached -= nbytes;
      if (list!.length === 0) this.kept.delete(nbytes);
    } else {
      this.checkBudget(nbytes);
      try {
        block = this.inner.alloc(nbytes);
      } catch (error) {
        if (!(error instanceof OutOfMemoryError)) throw error;
        block = this.allocAgain(nbytes, error.reason);
      }
    }
    this.used += nbytes;
    if (this.used > this.peak) this.peak = this.used;
    allocated.bytes += nbytes;
    allocated.count++;
    this.count++;
    if (holder !== undefined) this.holders.add(holder);
    return block;
  }

  /** Throws where the block would go over the budget. */
  private checkBudget(nbytes: number): void {
    const total = envNumber("MAX_MEMORY");
    if (total === 0 || this.used + this.cached + nbytes <= total) return;
    this.drop();
    if (this.used + nbytes > total) this.fail(nbytes, `MAX_MEMORY allows ${byteText(total)} a device`);
  }

  /** A block after all that is kept was given back. */
  private allocAgain(nbytes: number, reason: string): Block {
    if (this.cached === 0) this.fail(nbytes, reason);
    this.drop();
    try {
      return this.inner.alloc(nbytes);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      this.fail(nbytes, error.reason);
    }
  }

  /** Throws with the holders of memory. */
  private fail(nbytes: number, reason: string): never {
    const { device, used, count } = this;
    shortages.count++;
    throw new OutOfMemoryError({ device, nbytes, reason, used, count, holders: this.largest() });
  }

  /** Who holds the most, largest first. */
  largest(): MemoryHolder[] {
    return [...this.holders].sort((a, b) => b.nbytes - a.nbytes);
  }

  /** Takes a block back. `keep` false gives it to the device at once. */
  free(block: Block, nbytes: number, holder?: MemoryHolder, keep = true): void {
    this.used -= nbytes;
    this.count--;
    if (holder !== undefined) this.holders.delete(holder);
    if (!keep || nbytes > this.maxCached || envNumber("LRU") === 0) return this.inner.free(block, nbytes);
    const list = this.kept.get(nbytes);
    if (list === undefined) this.kept.set(nbytes, [block]);
    else {
      list.push(block);
      this.kept.delete(nbytes);
      this.kept.set(nbytes, list);
    }
    this.cached += nbytes;
    if (this.cached > this.maxCached) this.trim();
  }

  /** Drops blocks of the sizes that were not used for longest, until what is kept fits. */
  private trim(): void {
    for (const [nbytes, list] of this.kept) {
      while (list.length > 0 && this.cached > this.maxCached) {
        this.inner.free(list.pop()!, nbytes);
        this.cached -= nbytes;
      }
      if (list.length > 0) return;
      this.kept.delete(nbytes);
    }
  }

  /** Gives all kept blocks back to the device. */
  drop(): void {
    for (const [nbytes, list] of this.kept) for (const block of list) this.inner.free(block, nbytes);
    this.kept.clear();
    this.cached = 0;
  }

  /** Foreign memory as a block; it is in no budget. */
  adopt(memory: ForeignMemory, nbytes: number): { readonly block: Block; readonly offset: number } | undefined {
    return this.inner.adopt?.(memory, nbytes);
  }
  hostBytes(block: Block, offset: number, nbytes: number): Uint8Array | undefined {
    return this.inner.hostBytes?.(block, offset, nbytes);
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    this.inner.copyIn(block, offset, src);
  }
  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    const { inner } = this;
    if (inner.copyOutAsync !== undefined) return inner.copyOutAsync(dst, block, offset);
    return Promise.resolve(inner.copyOut!(dst, block, offset));
  }
}
