/**
 * Buffers: device memory of a dtype and size, allocated on first use, possibly a view into another one. A Storage of the
 * graph gets its Buffer here; when the Storage is collected, a FinalizationRegistry frees the memory.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { DeviceError, type MemoryHolder, OutOfMemoryError, SpecError } from "../helpers/errors.ts";
import type { Line } from "../helpers/stack.ts";
import type { Storage } from "../uop/core/args.ts";
import type { Block, ForeignMemory, MemoryDevice } from "./allocator.ts";
import { currentScope } from "./scopes.ts";

/** Bytes from which on a buffer is looked for by {@linkcode freeUnreachable}. */
const LARGE = 1 << 16;
/** Large buffers of storages. */
const large = new Set<Buffer>();

/** How many buffers have come to share memory since the start: whoever replays kernels looks anew when it has changed. */
export const sharing: { count: number } = { count: 0 };

/**
 * Memory on one device. Not thread-safe; freed by {@linkcode Buffer.free} or when its Storage is collected.
 *
 * Buffers may share memory: a plain view ({@linkcode Buffer.view}) is a window that holds nothing, a shared one
 * ({@linkcode Buffer.share}) is a tensor of its own that keeps the memory alive. Before a write in place the writer calls
 * {@linkcode Buffer.unshare}, which gives shared views memory of their own: no tensor sees a write to another.
 */
export class Buffer implements MemoryHolder {
  private block: Block | undefined;
  private freed: boolean;
  /** Whether somebody else owns the memory. */
  private foreign: boolean;
  private root: Buffer;
  private at: number;
  /** Shared views of this memory that are alive. */
  private sharers: Set<Buffer> | undefined;
  /** Shape of the tensor that it became, its line where recorded, and what it is for: for tables of memory. */
  shape: readonly number[] | undefined;
  /** The line that made it, unread. */
  madeAt: Line | undefined;
  use: string;
  /** The storage whose memory it is, where that is large. */
  private owner: WeakRef<Storage> | undefined;

  /** A buffer, or a view of `base`. @param size in elements @param offset in bytes from the start of `base` */
  constructor(
    readonly device: MemoryDevice,
    readonly dtype: DType,
    readonly size: number,
    base?: Buffer,
    offset: number = 0,
  ) {
    this.root = base ?? this;
    this.at = offset;
    this.block = undefined;
    this.freed = false;
    this.foreign = false;
    this.sharers = undefined;
    this.shape = undefined;
    this.madeAt = undefined;
    this.use = "tensor";
    this.owner = undefined;
  }

  /** The user's line that made it, where recorded. */
  get line(): string | undefined {
    return this.madeAt === undefined ? undefined : String(this.madeAt);
  }

  /** Memory of somebody else, used where it is; undefined where the device cannot. It is never freed here. */
  static adopt(device: MemoryDevice, dtype: DType, size: number, memory: ForeignMemory): Buffer | undefined {
    const found = device.allocator.adopt(memory, size * dtype.itemsize);
    if (found === undefined) return undefined;
    const made = new Buffer(device, dtype, size, undefined, found.offset);
    made.block = found.block;
    made.foreign = true;
    return made;
  }

  /** The buffer that owns the memory: this one, or the one viewed. */
  get base(): Buffer {
    return this.root;
  }
  /** Whether the memory is another buffer's, or others are views of it that keep it. */
  get isShared(): boolean {
    return this.root !== this || (this.sharers !== undefined && this.sharers.size > 0);
  }
  /** In bytes from the start of `base`. */
  get offset(): number {
    return this.at;
  }
  /** Bytes of all elements. */
  get nbytes(): number {
    return this.size * this.dtype.itemsize;
  }
  /** Whether it has memory yet. */
  get isAllocated(): boolean {
    return this.root.block !== undefined;
  }

  /** The device memory, allocated if need be. Add `offset` to address this buffer. @throws {OutOfMemoryError} */
  get memory(): Block {
    return this.root.block ?? this.root.allocate();
  }

  /** Memory for the whole buffer. */
  private allocate(): Block {
    if (this.freed) throw new SpecError(`Use of a freed buffer of ${this.nbytes} bytes on ${this.device.name}`);
    return this.block = this.device.allocator.alloc(this.nbytes, this);
  }

  /** A part of this buffer: `offset` in bytes, `size` in elements. It holds nothing. */
  view(offset: number, size: number, dtype: DType = this.dtype): Buffer {
    if (offset + size * dtype.itemsize > this.nbytes) {
      throw new SpecError(`View beyond the end of a buffer of ${this.nbytes} bytes`);
    }
    return new Buffer(this.device, dtype, size, this.root, this.at + offset);
  }

  /** As {@linkcode view}, for a tensor of its own: the memory stays until this, too, is freed or has left it. */
  share(offset: number, size: number, dtype: DType = this.dtype): Buffer {
    const made = this.view(offset, size, dtype);
    (this.root.sharers ??= new Set()).add(made);
    sharing.count++;
    return made;
  }

  /**
   * Makes this buffer's memory its own, so that a write to it is seen by no other tensor: where this is a shared view it
   * moves into a copy, else the shared views of it do. @throws {OutOfMemoryError}
   */
  unshare(): void {
    const { root } = this;
    if (root === this) return this.sharers?.forEach((s) => s.move());
    if (root.sharers?.has(this) !== true) return;
    this.move();
    root.settle(true);
  }

  /** Moves a shared view into memory of its own. */
  private move(): void {
    const { root, at, device: { allocator } } = this;
    if (root.block !== undefined) {
      const block = allocator.alloc(this.nbytes, this);
      if (allocator.transfer !== undefined) allocator.transfer(block, 0, root.block, at, this.nbytes);
      else allocator.copyIn(block, 0, this.copyOut(new Uint8Array(this.nbytes)));
      this.block = block;
    }
    this.root = this;
    this.at = 0;
    root.sharers!.delete(this);
  }

  /** The memory itself where it is the host's: good until something is allocated on the device. */
  hostBytes(): Uint8Array | undefined {
    if (this.nbytes === 0) return new Uint8Array();
    return this.device.allocator.hostBytes(this.memory, this.at, this.nbytes);
  }
  /** Writes host bytes, `nbytes` of them. */
  copyIn(src: Uint8Array): this {
    if (this.nbytes > 0) this.device.allocator.copyIn(this.memory, this.at, src);
    return this;
  }
  /** Reads into host bytes, synchronously. Only where the device can. */
  copyOut(dst: Uint8Array): Uint8Array {
    if (this.nbytes === 0) return dst;
    const { name, allocator: { copyOut } } = this.device;
    if (copyOut === undefined) {
      throw new DeviceError(`read a buffer of ${name} at once`, {
        device: name,
        reason: `${name} reads only asynchronously: await t.data(), and make a tensor of that where it is wanted`,
      });
    }
    copyOut(dst, this.memory, this.at);
    return dst;
  }
  /** As {@linkcode copyOut}, after all work queued so far. */
  async copyOutAsync(dst: Uint8Array): Promise<Uint8Array> {
    if (this.nbytes > 0) await this.device.allocator.copyOutAsync(dst, this.memory, this.at);
    return dst;
  }

  /**
   * Gives the memory back, for good; shared views of less than half of it move into copies first, larger ones keep it.
   * Plain views free nothing. Freeing twice is harmless. `keep` false: not for reuse.
   */
  free(keep: boolean = true): void {
    this.freed = true;
    this.disown();
    const { root } = this;
    if (root !== this && root.sharers?.delete(this) !== true) return;
    root.settle(keep);
  }

  /** Makes this the memory of `storage`; gives what to remember it by, which keeps it alive only where it is small. */
  own(storage: Storage): Storage | WeakRef<Storage> {
    if (this.nbytes < LARGE) return storage;
    large.add(this);
    return this.owner = new WeakRef(storage);
  }
  /** Makes it nobody's memory. */
  disown(): void {
    if (this.owner === undefined) return;
    this.owner = undefined;
    large.delete(this);
  }
  /** Whether the storage whose memory it was has been collected. */
  get isOrphan(): boolean {
    return this.owner !== undefined && this.owner.deref() === undefined;
  }

  /** Frees the block of a buffer that is freed itself, and of no use to others, or of little. */
  private settle(keep: boolean): void {
    const { block, sharers } = this;
    if (!this.freed) return;
    if (sharers !== undefined && sharers.size > 0) {
      let shared = 0;
      for (const s of sharers) shared += s.nbytes;
      const canMove = this.device.allocator.transfer !== undefined;
      if (block !== undefined && (shared * 2 >= this.nbytes || !canMove)) return;
      try {
        for (const s of sharers) s.move();
      } catch (error) {
        // no room for copies, or the device is gone: they stay where they are
        if (!(error instanceof OutOfMemoryError || error instanceof DeviceError)) throw error;
        return;
      }
    }
    if (block === undefined) return;
    this.block = undefined;
    if (this.foreign) return;
    this.device.allocator.free(block, this.nbytes, this, keep);
  }
}

const registry = new FinalizationRegistry<Buffer>((buffer) => buffer.free());

/** Frees large buffers whose storages the collector has taken already: their finalizers have yet to run. */
export function freeUnreachable(): void {
  for (const buffer of large) if (buffer.isOrphan) buffer.free();
}

/** The buffer of a storage, if it has one. */
export function bufferOf(storage: Storage): Buffer | undefined {
  return storage.memory as Buffer | undefined;
}

/** Makes `buffer` the memory of `storage`: it lives as long as the storage does. */
export function attachBuffer(storage: Storage, buffer: Buffer): void {
  storage.memory = buffer;
  registry.register(storage, buffer, storage);
  const known = buffer.own(storage);
  currentScope()?.made?.push(known);
}

/** Takes its memory from a storage, for another to have; undefined where it has none, or not alone. */
export function detachBuffer(storage: Storage): Buffer | undefined {
  const buffer = bufferOf(storage);
  if (buffer === undefined || buffer.isShared) return undefined;
  registry.unregister(storage);
  storage.memory = undefined;
  buffer.disown();
  return buffer;
}

/** Storages freed by disposing so far: whoever replays kernels checks its storages when this has changed. */
export const releases: { count: number } = { count: 0 };

/** Frees the memory of a storage now; `keep` false: not for reuse. */
export function releaseStorage(storage: Storage, keep: boolean = true): void {
  releases.count++;
  const buffer = bufferOf(storage);
  if (buffer === undefined) return;
  registry.unregister(storage);
  storage.memory = undefined;
  buffer.free(keep);
}
