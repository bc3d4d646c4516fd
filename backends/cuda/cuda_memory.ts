/**
 * Memory of a CUDA device: blocks, and copies through pinned host memory. Everything is queued on the one stream of the
 * device, so copies and kernels happen in the order of the calls; a write to the device returns once the bytes are in
 * pinned memory, an asynchronous read when an event after it is reached.
 *
 * @module
 */
import type { Allocator, Block, ForeignMemory } from "../../src/device/allocator.ts";
import { byteText, DeviceError, OutOfMemoryError } from "../../src/helpers/errors.ts";
import type { CudaContext } from "./cuda_context.ts";
import { addressOf } from "./driver.ts";
import { Result } from "./results.ts";

/** A block of device memory. */
export class CudaBlock {
  /** @param card the name of the device that it is of */
  constructor(readonly address: bigint, readonly card: string) {}
}

/** Bytes of pinned memory that one slot has; larger copies go in parts of it. */
const SLOT_BYTES = 4 * 2 ** 20;
/** Slots that writes go round, and slots kept for reads beside the one that they share. */
const WRITE_SLOTS = 4, READ_SLOTS = 4;
/** Parts of a slot start at multiples of this. */
const PART_ALIGN = 64;

/** Pinned memory, with an event after its last use. */
interface Slot {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  readonly event: bigint;
  /** Bytes that copies in flight may be reading or writing. */
  fill: number;
  /** Reads that are not done. */
  open: number;
}

/** Where a read goes: a part of a slot, with an event after it. */
interface Part {
  readonly slot: Slot;
  readonly at: number;
  readonly event: bigint;
}

/** The next number that a part starts at. */
const aligned = (n: number): number => Math.ceil(n / PART_ALIGN) * PART_ALIGN;

/** The memory of one device. */
export class CudaAllocator implements Allocator {
  private readonly blocks = new Set<CudaBlock>();
  private readonly writeSlots: Slot[] = [];
  private writing = 0;
  /** The slot whose rest the next reads share, and those that rest. */
  private reading: Slot | undefined;
  private readonly readSlots: Slot[] = [];
  /** Events of reads that are done. */
  private readonly events: bigint[] = [];
  /** All slots, those that reads hold included. */
  private readonly slots = new Set<Slot>();

  readonly layout: { readonly viewAlign: number };

  /** @param viewAlign of buffers that kernels are given, in bytes */
  constructor(private readonly context: CudaContext, viewAlign: number = 16) {
    this.layout = { viewAlign };
  }

  /** Bytes that are free on the device, and all of its bytes. */
  available(): { readonly free: number; readonly total: number } {
    const { cu, out, second } = this.context.driver;
    this.context.enter();
    this.context.check(cu.cuMemGetInfo_v2(out.bytes, second), "ask how much memory is free");
    return { free: Number(out.words[0]), total: Number(out.words[1]) };
  }

  alloc(nbytes: number): Block {
    const { context, context: { driver: { cu, out } } } = this;
    context.enter();
    const code = cu.cuMemAlloc_v2(out.bytes, BigInt(Math.max(nbytes, 1)));
    if (code === Result.OUT_OF_MEMORY) {
      const { free, total } = this.available();
      const reason = `the device has ${byteText(free)} free of ${byteText(total)}`;
      throw new OutOfMemoryError({ device: context.name, nbytes, reason });
    }
    context.check(code, `allocate ${nbytes} bytes`);
    const block = new CudaBlock(out.words[0], context.name);
    this.blocks.add(block);
    return block;
  }

  /** Harmless after the device was closed or lost: finalizers come when they come. */
  free(block: Block): void {
    const { context } = this;
    if (!this.blocks.delete(block as CudaBlock) || !context.alive) return;
    context.enter();
    context.check(context.driver.cu.cuMemFree_v2((block as CudaBlock).address), "free memory");
  }

  /** Memory of the device that another library allocated, by its address. That of the host is not used in place. */
  adopt(memory: ForeignMemory): { block: Block; offset: number } | undefined {
    if (memory instanceof Uint8Array) return undefined;
    const address = typeof memory === "bigint" ? memory : Deno.UnsafePointer.value(memory as Deno.PointerObject);
    const { viewAlign } = this.layout, { name } = this.context;
    if (address % BigInt(viewAlign) !== 0n) {
      throw new DeviceError(`use the memory at 0x${address.toString(16)}`, {
        device: name,
        reason: `kernels take addresses that are multiples of ${viewAlign}`,
      });
    }
    return { block: new CudaBlock(address, name), offset: 0 };
  }

  private newSlot(): Slot {
    const { context } = this, slot = { ...context.newPinned(SLOT_BYTES), event: context.newEvent(), fill: 0, open: 0 };
    this.slots.add(slot);
    return slot;
  }
  private freeSlot(slot: Slot): void {
    const { cu } = this.context.driver;
    this.slots.delete(slot);
    cu.cuEventDestroy_v2(slot.event);
    cu.cuMemFreeHost(slot.address);
  }

  /** A slot with room; waits for the oldest copies where there is none. */
  private writeSlot(): Slot {
    const slot = this.writeSlots[this.writing];
    if (slot !== undefined && slot.fill < SLOT_BYTES) return slot;
    if (slot !== undefined) this.writing = (this.writing + 1) % WRITE_SLOTS;
    const next = this.writeSlots[this.writing];
    if (next === undefined) return this.writeSlots[this.writing] = this.newSlot();
    this.context.wait(next.event);
    next.fill = 0;
    return next;
  }

  copyIn(block: Block, offset: number, src: Uint8Array): void {
    const { context, context: { driver: { cu }, stream } } = this;
    const to = (block as CudaBlock).address + BigInt(offset);
    context.enter();
    for (let at = 0; at < src.byteLength;) {
      const slot = this.writeSlot(), n = Math.min(src.byteLength - at, SLOT_BYTES - slot.fill);
      slot.bytes.set(src.subarray(at, at + n), slot.fill);
      const from = slot.address + BigInt(slot.fill);
      context.check(cu.cuMemcpyHtoDAsync_v2(to + BigInt(at), from, BigInt(n), stream), "write to memory");
      context.record(slot.event);
      slot.fill = aligned(slot.fill + n);
      at += n;
    }
  }

  /** Queues a copy of so many bytes, a slot's at most. */
  private beginRead(from: bigint, n: number): Part {
    const { context, context: { driver: { cu }, stream } } = this;
    if (this.reading === undefined || this.reading.fill + n > SLOT_BYTES) {
      this.reading = this.readSlots.pop() ?? this.newSlot();
    }
    const slot = this.reading, part = { slot, at: slot.fill, event: this.events.pop() ?? context.newEvent() };
    slot.fill = aligned(slot.fill + n);
    slot.open++;
    try {
      context.check(
        cu.cuMemcpyDtoHAsync_v2(slot.address + BigInt(part.at), from, BigInt(n), stream),
        "read from memory",
      );
      context.record(part.event);
    } catch (error) {
      this.endRead(part);
      throw error;
    }
    return part;
  }
  /** Gives the room of a read back. */
  private endRead({ slot, event }: Part): void {
    if (!this.context.alive) return; // closing frees all
    this.events.push(event);
    if (--slot.open > 0) return;
    slot.fill = 0;
    if (slot === this.reading) return;
    if (this.readSlots.length < READ_SLOTS) return void this.readSlots.push(slot);
    this.context.enter();
    this.freeSlot(slot);
  }
  /** Copies what was read. */
  private takeRead({ slot, at }: Part, dst: Uint8Array): void {
    dst.set(slot.bytes.subarray(at, at + dst.byteLength));
  }

  /** Of larger reads two parts take turns: one is copied from while the other is filled. */
  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    const { context } = this, { byteLength } = dst, from = (block as CudaBlock).address + BigInt(offset);
    const sizeOf = (at: number): number => Math.min(SLOT_BYTES, byteLength - at), open: Part[] = [];
    const begin = (at: number): void => void open.push(this.beginRead(from + BigInt(at), sizeOf(at)));
    context.enter();
    try {
      if (byteLength > 0) begin(0);
      for (let at = 0; at < byteLength; at += SLOT_BYTES) {
        if (at + SLOT_BYTES < byteLength) begin(at + SLOT_BYTES);
        const [part] = open;
        context.wait(part.event);
        this.takeRead(part, dst.subarray(at, at + sizeOf(at)));
        this.endRead(open.shift()!);
      }
    } finally {
      open.forEach((part) => this.endRead(part));
    }
  }

  /** All of it is queued at the call: what is written to the block later is not seen. */
  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    try {
      this.context.enter();
      return dst.byteLength <= SLOT_BYTES ? this.readSmall(dst, block, offset) : this.readLarge(dst, block, offset);
    } catch (error) {
      return Promise.reject(error);
    }
  }
  private async readSmall(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    if (dst.byteLength === 0) return;
    const part = this.beginRead((block as CudaBlock).address + BigInt(offset), dst.byteLength);
    try {
      await this.context.waitAsync(part.event);
      this.takeRead(part, dst);
    } finally {
      this.endRead(part);
    }
  }
  /** Pins the destination itself for the time of the copy; where the system refuses that, reads synchronously. */
  private async readLarge(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    const { context, context: { driver: { cu }, stream } } = this;
    const to = addressOf(dst), n = BigInt(dst.byteLength);
    if (cu.cuMemHostRegister_v2(to, n, 0) !== 0) return this.copyOut(dst, block, offset);
    let event = 0n;
    try {
      const from = (block as CudaBlock).address + BigInt(offset);
      context.check(cu.cuMemcpyDtoHAsync_v2(to, from, n, stream), "read from memory");
      event = context.newEvent();
      context.record(event);
      await context.waitAsync(event);
    } finally {
      if (context.alive) {
        context.enter();
        if (event !== 0n) cu.cuEventDestroy_v2(event);
        cu.cuMemHostUnregister(to);
      }
    }
  }

  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number, from: Allocator = this): void {
    const { context, context: { driver: { cu }, stream } } = this, other = (from as CudaAllocator).context;
    const to = (dst as CudaBlock).address + BigInt(dstOffset), at = (src as CudaBlock).address + BigInt(srcOffset);
    context.enter();
    if (other === context) {
      return context.check(cu.cuMemcpyDtoDAsync_v2(to, at, BigInt(nbytes), stream), "copy memory");
    }
    context.befriend(other);
    context.after(other);
    const code = cu.cuMemcpyPeerAsync(to, context.handle, at, other.handle, BigInt(nbytes), stream);
    context.check(code, `copy memory of ${other.name}`);
    other.after(context); // what overwrites the source waits for the copy
  }
  peer(other: Allocator): boolean {
    return other instanceof CudaAllocator && other.context.driver === this.context.driver;
  }

  /** Frees everything, blocks that are still held included. */
  close(): void {
    const { context } = this;
    if (!context.alive) return;
    context.enter();
    for (const slot of this.slots) this.freeSlot(slot);
    for (const event of this.events) context.driver.cu.cuEventDestroy_v2(event);
    for (const block of this.blocks) context.driver.cu.cuMemFree_v2(block.address);
    this.blocks.clear();
  }
}
