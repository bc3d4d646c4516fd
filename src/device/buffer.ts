/**
 * Buffers: device memory of a dtype and size, allocated on first use, possibly a view into another one. A Storage of the
 * graph maps to its Buffer here; when the Storage is collected, a FinalizationRegistry frees the memory.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { type MemoryHolder, SpecError } from "../helpers/errors.ts";
import type { Storage } from "../uop/args.ts";
import type { Block, MemoryDevice } from "./allocator.ts";

/** Memory on one device. Not thread-safe; freed by {@linkcode Buffer.free} or when its Storage is collected. */
export class Buffer implements MemoryHolder {
  private block: Block | undefined;
  private freed: boolean;
  /** The buffer that owns the memory: this one, or the one viewed. */
  readonly base: Buffer;
  /** Shape of the tensor that it became, its line where recorded, and what it is for: for tables of memory. */
  shape: readonly number[] | undefined;
  line: string | undefined;
  use: string;

  /** A buffer, or a view of `base`. @param size in elements @param offset in bytes from the start of `base` */
  constructor(
    readonly device: MemoryDevice,
    readonly dtype: DType,
    readonly size: number,
    base?: Buffer,
    readonly offset: number = 0,
  ) {
    this.base = base ?? this;
    this.block = undefined;
    this.freed = false;
    this.shape = undefined;
    this.line = undefined;
    this.use = "tensor";
  }

  /** Bytes of all elements. */
  get nbytes(): number {
    return this.size * this.dtype.itemsize;
  }
  /** Whether it has memory yet. */
  get isAllocated(): boolean {
    return this.base.block !== undefined;
  }

  /** The device memory, allocated if need be. Add `offset` to address this buffer. @throws {OutOfMemoryError} */
  get memory(): Block {
    return this.base.block ?? this.base.allocate();
  }

  /** Memory for the whole buffer. */
  private allocate(): Block {
    if (this.freed) throw new SpecError(`Use of a freed buffer of ${this.nbytes} bytes on ${this.device.name}`);
    return this.block = this.device.allocator.alloc(this.nbytes, this);
  }

  /** A part of this buffer: `offset` in bytes, `size` in elements. */
  view(offset: number, size: number, dtype: DType = this.dtype): Buffer {
    if (offset + size * dtype.itemsize > this.nbytes) {
      throw new SpecError(`View beyond the end of a buffer of ${this.nbytes} bytes`);
    }
    return new Buffer(this.device, dtype, size, this.base, this.offset + offset);
  }

  /** Writes host bytes, `nbytes` of them. */
  copyIn(src: Uint8Array): this {
    if (this.nbytes > 0) this.device.allocator.copyIn(this.memory, this.offset, src);
    return this;
  }
  /** Reads into host bytes, synchronously. Only where the device can. */
  copyOut(dst: Uint8Array): Uint8Array {
    if (this.nbytes > 0) this.device.allocator.copyOut!(dst, this.memory, this.offset);
    return dst;
  }
  /** As {@linkcode copyOut}, after all work queued so far. */
  async copyOutAsync(dst: Uint8Array): Promise<Uint8Array> {
    if (this.nbytes > 0) await this.device.allocator.copyOutAsync(dst, this.memory, this.offset);
    return dst;
  }

  /** Gives the memory back, for good. Views free nothing. Freeing twice is harmless. `keep` false: not for reuse. */
  free(keep: boolean = true): void {
    this.freed = true;
    const block = this.block;
    if (block === undefined) return;
    this.block = undefined;
    this.device.allocator.free(block, this.nbytes, this, keep);
  }
}

const buffers = new WeakMap<Storage, Buffer>();
const registry = new FinalizationRegistry<Buffer>((buffer) => buffer.free());

let tracked: Storage[] | undefined;

/** From now on storages that get a buffer are added to `list`; returns the list before. */
export function trackStorages(list: Storage[] | undefined): Storage[] | undefined {
  const before = tracked;
  tracked = list;
  return before;
}

/** The buffer of a storage, if it has one. */
export function bufferOf(storage: Storage): Buffer | undefined {
  return buffers.get(storage);
}

/** Makes `buffer` the memory of `storage`: it lives as long as the storage does. */
export function attachBuffer(storage: Storage, buffer: Buffer): void {
  buffers.set(storage, buffer);
  registry.register(storage, buffer, storage);
  tracked?.push(storage);
}

/** Storages freed by disposing so far: whoever replays kernels checks its storages when this has changed. */
export const releases: { count: number } = { count: 0 };

/** Frees the memory of a storage now; `keep` false: not for reuse. */
export function releaseStorage(storage: Storage, keep: boolean = true): void {
  releases.count++;
  const buffer = buffers.get(storage);
  if (buffer === undefined) return;
  registry.unregister(storage);
  buffers.delete(storage);
  buffer.free(keep);
}
