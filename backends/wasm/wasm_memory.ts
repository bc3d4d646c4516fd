/**
 * The device's memory: one WebAssembly.Memory, shared where the engine can, grown on demand, and an allocator of 64-byte
 * aligned blocks in it. Free blocks are kept in address order and merged with their neighbors.
 *
 * @module
 */
import type { Allocator, Block } from "../../src/device/allocator.ts";
import { DeviceError, OutOfMemoryError } from "../../src/helpers/errors.ts";
import { OFFSET_WINDOW } from "./build.ts";

/** Bytes of one page of memory. */
const PAGE = 65536;
/** Blocks start here: the control words lie below, and folded offsets never reach below 0. */
export const HEAP: number = 2 * OFFSET_WINDOW;
const ALIGN = 64;

/** A block of the device's memory. */
export class WasmBlock {
  /** @param address in bytes from the start of memory; `size` as allocated */
  constructor(readonly address: number, readonly size: number) {}
}

/** Memory and its allocator. */
export class WasmMemory implements Allocator {
  readonly layout: { readonly viewAlign: number } = { viewAlign: 1 };
  readonly memory: WebAssembly.Memory;
  /** Pages that it may grow to. */
  readonly maximum: number;
  readonly capacity: number;
  /** Views of the whole memory; replaced when it grows. */
  u8: Uint8Array;
  i32: Int32Array;
  view: DataView;
  /** Start and size of free stretches, in address order. */
  private starts: number[] = [];
  private sizes: number[] = [];
  /** End of what was ever handed out. */
  private end = HEAP;

  /** @throws {DeviceError} where the engine grants no memory at all */
  constructor(readonly device: string, readonly shared: boolean) {
    let memory: WebAssembly.Memory | undefined, maximum = 65536;
    for (; memory === undefined; maximum >>= 1) {
      try {
        memory = new WebAssembly.Memory({ initial: HEAP / PAGE + 16, maximum, shared });
        break;
      } catch (cause) {
        if (maximum <= 1024) throw new DeviceError(`open device ${device}`, { device, reason: "no memory", cause });
      }
    }
    this.memory = memory!;
    this.maximum = maximum;
    this.capacity = maximum * PAGE - HEAP;
    this.u8 = new Uint8Array();
    this.i32 = new Int32Array();
    this.view = new DataView(new ArrayBuffer(0));
    this.refresh();
  }

  private refresh(): void {
    const { buffer } = this.memory;
    this.u8 = new Uint8Array(buffer);
    this.i32 = new Int32Array(buffer);
    this.view = new DataView(buffer);
  }

  /** Bytes that the memory has now. */
  get nbytes(): number {
    return this.u8.length;
  }

  /** The smallest free stretch that fits, else fresh memory at the end. @throws {OutOfMemoryError} */
  alloc(nbytes: number): WasmBlock {
    const size = Math.max(ALIGN, Math.ceil(nbytes / ALIGN) * ALIGN);
    const { starts, sizes } = this;
    let best = -1;
    for (let i = 0; i < sizes.length; i++) {
      if (sizes[i] < size || (best >= 0 && sizes[i] >= sizes[best])) continue;
      best = i;
      if (sizes[i] === size) break;
    }
    if (best >= 0) {
      const address = starts[best];
      if (sizes[best] === size) {
        starts.splice(best, 1);
        sizes.splice(best, 1);
      } else {
        starts[best] += size;
        sizes[best] -= size;
      }
      return new WasmBlock(address, size);
    }
    // a free stretch at the very end is grown rather than left behind
    const last = starts.length - 1;
    let address = this.end;
    const joins = last >= 0 && starts[last] + sizes[last] === this.end;
    if (joins) address = starts[last];
    this.reach(address + size, nbytes);
    if (joins) {
      starts.pop();
      sizes.pop();
    }
    this.end = address + size;
    return new WasmBlock(address, size);
  }

  /** Grows the memory until `end` is inside it. */
  private reach(end: number, nbytes: number): void {
    const have = this.u8.length / PAGE, need = Math.ceil(end / PAGE);
    if (need <= have) return;
    if (need <= this.maximum) {
      const wanted = Math.min(this.maximum, Math.max(need, Math.ceil(have * 1.25)));
      for (const pages of wanted > need ? [wanted, need] : [need]) {
        try {
          this.memory.grow(pages - have);
          return this.refresh();
        } catch {
          continue;
        }
      }
    }
    throw new OutOfMemoryError({
      device: this.device,
      nbytes,
      reason:
        `${this.u8.length} of at most ${this.maximum * PAGE} bytes of WebAssembly memory are in use or reserved, ` +
        "and no more could be had",
    });
  }

  free(block: Block): void {
    const { address, size } = block as WasmBlock;
    const { starts, sizes } = this;
    let low = 0, high = starts.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (starts[mid] < address) low = mid + 1;
      else high = mid;
    }
    const joinsBefore = low > 0 && starts[low - 1] + sizes[low - 1] === address;
    const joinsAfter = low < starts.length && address + size === starts[low];
    if (joinsBefore) {
      sizes[low - 1] += size;
      if (!joinsAfter) return;
      sizes[low - 1] += sizes[low];
      starts.splice(low, 1);
      sizes.splice(low, 1);
    } else if (joinsAfter) {
      starts[low] = address;
      sizes[low] += size;
    } else {
      starts.splice(low, 0, address);
      sizes.splice(low, 0, size);
    }
  }

  hostBytes(block: Block, offset: number, nbytes: number): Uint8Array {
    const at = (block as WasmBlock).address + offset;
    return this.u8.subarray(at, at + nbytes);
  }

  copyIn(block: Block, offset: number, src: Uint8Array): void {
    this.u8.set(src, (block as WasmBlock).address + offset);
  }

  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    const at = (block as WasmBlock).address + offset;
    dst.set(this.u8.subarray(at, at + dst.length));
  }

  transfer(
    dst: Block,
    dstOffset: number,
    src: Block,
    srcOffset: number,
    nbytes: number,
    from: Allocator = this,
  ): void {
    const at = (src as WasmBlock).address + srcOffset;
    this.u8.set((from as WasmMemory).u8.subarray(at, at + nbytes), (dst as WasmBlock).address + dstOffset);
  }

  peer(other: Allocator): boolean {
    return other instanceof WasmMemory;
  }
}
