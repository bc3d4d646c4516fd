/**
 * Memory of the WEBGPU device: one GPUBuffer a block; writes through the queue, reads through a ring of staging buffers,
 * all that are asked for in one moment together, because a read costs Deno a poll of 10 ms.
 *
 * @module
 */
import type { Allocator, Block, LruAllocator, MemoryLayout } from "../../src/device/allocator.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import { DeviceError, OutOfMemoryError, SpecError } from "../../src/helpers/errors.ts";
import { roundUp } from "../../src/helpers/math.ts";
import type { GpuContext, ScopeError } from "./webgpu_context.ts";

/** Blocks are multiples of this many bytes, so that a view of vectors ends inside. */
export const GRAIN = 16;
/** Offsets of bindings are multiples of this: what the specification asks for at most. */
export const BINDING_ALIGN = 256;
/** Bytes of one staging buffer, at most: a longer read takes several. */
const PAGE = 2 ** 26;
/** Bytes of one write through the queue. */
const WRITE_CHUNK = 2 ** 26;
/** Staging buffers kept for reuse, of each size. */
const KEPT_STAGING = 4;

// numbers of the specification, for engines whose globals are not there yet
const MAP_READ = 0x1, COPY_SRC = 0x4, COPY_DST = 0x8, STORAGE = 0x80;

/** Device memory. */
export class WebGpuBlock {
  /** Why its contents are of no use. */
  error: Error | undefined;
  /** Who used it last: another owner starts without the errors of the one before. */
  owner: WeakRef<Buffer> | undefined;
  constructor(readonly buffer: GPUBuffer, readonly nbytes: number) {}

  /** Takes it for `owner`. */
  use(owner: Buffer): void {
    if (this.owner?.deref() === owner) return;
    if (this.owner !== undefined) this.error = undefined;
    this.owner = new WeakRef(owner);
  }
}

interface Read {
  readonly block: WebGpuBlock;
  readonly offset: number;
  readonly dst: Uint8Array;
  readonly done: () => void;
  readonly fail: (error: unknown) => void;
}

/** A part of a read in a staging buffer. */
interface Piece {
  readonly read: Read;
  /** In the block, and in the staging buffer; multiples of 4. */
  readonly from: number;
  readonly at: number;
  readonly nbytes: number;
}

/** Reads of one moment, through staging buffers that are used again. */
class Reader {
  private waiting: Read[] = [];
  private readonly free = new Map<number, GPUBuffer[]>();
  constructor(private readonly context: GpuContext) {}

  read(block: WebGpuBlock, offset: number, dst: Uint8Array): Promise<void> {
    return new Promise((done, fail) => {
      this.waiting.push({ block, offset, dst, done, fail });
      if (this.waiting.length === 1) queueMicrotask(() => this.flush());
    });
  }

  private take(nbytes: number): GPUBuffer {
    const size = Math.max(4096, 2 ** Math.ceil(Math.log2(nbytes)));
    return this.free.get(size)?.pop() ?? this.context.gpu.createBuffer({ size, usage: MAP_READ | COPY_DST });
  }
  private giveBack(buffer: GPUBuffer): void {
    const list = this.free.get(buffer.size) ?? [];
    this.free.set(buffer.size, list);
    if (list.length < KEPT_STAGING && !this.context.isLost) list.push(buffer);
    else buffer.destroy();
  }

  private flush(): void {
    const reads = this.waiting;
    this.waiting = [];
    const { context } = this;
    if (context.isLost) return reads.forEach((r) => r.fail(context.lostError("read a tensor")));
    const pages = pagesOf(reads);
    let wrong: ScopeError | undefined;
    const staging = context.scoped(() => {
      const encoder = context.gpu.createCommandEncoder();
      const made = pages.map((pieces) => {
        const last = pieces[pieces.length - 1], buffer = this.take(last.at + last.nbytes);
        for (const { read, from, at, nbytes } of pieces) {
          encoder.copyBufferToBuffer(read.block.buffer, from, buffer, at, nbytes);
        }
        return buffer;
      });
      context.gpu.queue.submit([encoder.finish()]);
      return made;
    }, (error) => void (wrong = error));
    const mapped = staging.map((buffer, i) => this.collect(buffer, pages[i]));
    Promise.all([...mapped, context.settled()]).then(() => {
      for (const r of reads) {
        const error = r.block.error ?? (wrong && this.errorOf(wrong));
        if (error === undefined) r.done();
        else r.fail(error);
      }
    }).catch(async (reason) => {
      await context.settled().catch(() => {});
      for (const r of reads) {
        r.fail(
          r.block.error ?? this.errorOf(wrong ?? { kind: "validation", message: String(reason?.message ?? reason) }),
        );
      }
    });
  }

  private errorOf({ message }: ScopeError): Error {
    const { context } = this, action = "read a tensor";
    return context.isLost
      ? context.lostError(action)
      : new DeviceError(action, { device: context.name, reason: message });
  }

  private async collect(buffer: GPUBuffer, pieces: readonly Piece[]): Promise<void> {
    const last = pieces[pieces.length - 1], nbytes = last.at + last.nbytes;
    await buffer.mapAsync(MAP_READ, 0, nbytes);
    const bytes = new Uint8Array(buffer.getMappedRange(0, nbytes));
    for (const { read: { dst, offset }, from, at, nbytes } of pieces) {
      const skip = Math.max(0, offset - from), to = Math.max(0, from - offset);
      const count = Math.min(nbytes - skip, dst.byteLength - to);
      dst.set(bytes.subarray(at + skip, at + skip + count), to);
    }
    buffer.unmap();
    this.giveBack(buffer);
  }

  /** Destroys what is kept. */
  drop(): void {
    for (const list of this.free.values()) for (const buffer of list) buffer.destroy();
    this.free.clear();
  }
}

/** Packs reads into staging buffers of at most {@linkcode PAGE} bytes. */
function pagesOf(reads: readonly Read[]): Piece[][] {
  const pages: Piece[][] = [];
  let page: Piece[] = [], used = 0;
  for (const read of reads) {
    const start = read.offset - read.offset % 4, end = roundUp(read.offset + read.dst.byteLength, 4);
    for (let from = start; from < end;) {
      if (used === PAGE || page.length === 0) {
        pages.push(page = []);
        used = 0;
      }
      const nbytes = Math.min(end - from, PAGE - used);
      page.push({ read, from, at: used, nbytes });
      used += nbytes;
      from += nbytes;
    }
  }
  return pages;
}

/** Blocks of GPU memory. */
export class WebGpuAllocator implements Allocator {
  readonly layout: Partial<MemoryLayout>;
  readonly reader: Reader;
  /** The cache around this: set by the device, for tables of holders. */
  cache: LruAllocator | undefined;

  constructor(private readonly context: GpuContext, private readonly maxBytes: number) {
    // a kernel may not read and write one GPUBuffer through two bindings: each intermediate has its own
    this.layout = { viewAlign: BINDING_ALIGN, arenas: false, maxBytes };
    this.reader = new Reader(context);
  }

  alloc(nbytes: number): Block {
    const { context } = this, size = roundUp(Math.max(nbytes, GRAIN), GRAIN);
    context.check(`allocate ${nbytes} bytes`);
    if (size > this.maxBytes) {
      const reason = `one buffer of this adapter has at most ${this.maxBytes} bytes (maxBufferSize)`;
      throw new OutOfMemoryError({ device: context.name, nbytes, reason });
    }
    const block: WebGpuBlock = new WebGpuBlock(
      context.scoped(
        () => context.gpu.createBuffer({ size, usage: STORAGE | COPY_SRC | COPY_DST }),
        (error) => error && this.refused(block, nbytes, error),
      ),
      size,
    );
    return block;
  }
  private refused(block: WebGpuBlock, nbytes: number, { kind, message }: ScopeError): void {
    const { context, cache } = this, device = context.name;
    block.error = kind === "out-of-memory"
      ? new OutOfMemoryError({
        device,
        nbytes,
        reason: `the adapter refused the buffer: ${message}`,
        used: cache?.used,
        count: cache?.count,
        holders: cache?.largest(),
      })
      : kind === "lost" && context.isLost
      ? context.lostError(`allocate ${nbytes} bytes`)
      : new DeviceError(`allocate ${nbytes} bytes on ${device}`, { device, reason: message });
    context.fail(block.error);
  }

  isSound(block: Block): boolean {
    return (block as WebGpuBlock).error === undefined;
  }

  free(block: Block): void {
    (block as WebGpuBlock).buffer.destroy();
  }

  copyIn(block: Block, offset: number, src: Uint8Array): void {
    const { context } = this, { buffer } = block as WebGpuBlock;
    context.check("write a tensor");
    if (offset % 4 !== 0) throw new SpecError(`A write at byte ${offset} of a buffer of ${context.name}`);
    for (let at = 0; at < src.byteLength; at += WRITE_CHUNK) {
      const end = Math.min(at + WRITE_CHUNK, src.byteLength);
      context.gpu.queue.writeBuffer(buffer, offset + at, exactWords(src, at, end));
    }
  }

  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    return this.reader.read(block as WebGpuBlock, offset, dst);
  }

  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number): void {
    const { context } = this, to = dst as WebGpuBlock, from = src as WebGpuBlock;
    context.check("copy a tensor");
    if (dstOffset % 4 !== 0 || srcOffset % 4 !== 0) {
      throw new SpecError(`A copy between bytes of words on ${context.name}`);
    }
    context.scoped(() => {
      const encoder = context.gpu.createCommandEncoder();
      encoder.copyBufferToBuffer(from.buffer, srcOffset, to.buffer, dstOffset, roundUp(nbytes, 4));
      context.gpu.queue.submit([encoder.finish()]);
    }, (error) => {
      if (error !== undefined) {
        context.fail(to.error = new DeviceError("copy a tensor", { device: context.name, reason: error.message }));
      } else if (from.error !== undefined) to.error = from.error;
    });
  }
}

/** Bytes `from` to `to` as an exact view of their own, filled up to whole words. */
function exactWords(src: Uint8Array, from: number, to: number): Uint8Array<ArrayBuffer> {
  const part = src.subarray(from, to),
    shared = typeof SharedArrayBuffer === "function" && src.buffer instanceof SharedArrayBuffer;
  if (part.byteLength % 4 === 0 && !shared) return part as Uint8Array<ArrayBuffer>;
  const padded = new Uint8Array(roundUp(part.byteLength, 4));
  padded.set(part);
  return padded;
}
