/** Buffers that share memory: who holds it, who moves out of it, and when it is freed. */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../mod.ts";
import { type Allocator, type Block, LruAllocator } from "../../src/device/allocator.ts";
import { Buffer, sharing } from "../../src/device/buffer.ts";
import { DeviceError, OutOfMemoryError, SpecError } from "../../src/helpers/errors.ts";

/** Host memory of at most `capacity` bytes. */
class Bytes implements Allocator {
  held = 0;
  constructor(readonly capacity: number = Infinity) {}
  alloc(nbytes: number): Block {
    if (this.held + nbytes > this.capacity) throw new OutOfMemoryError({ device: "TEST", nbytes, reason: "full" });
    this.held += nbytes;
    return new Uint8Array(nbytes);
  }
  free(_: Block, nbytes: number): void {
    this.held -= nbytes;
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    (block as Uint8Array).set(src, offset);
  }
  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    dst.set((block as Uint8Array).subarray(offset, offset + dst.length));
  }
  copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    this.copyOut(dst, block, offset);
    return Promise.resolve();
  }
  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number): void {
    (dst as Uint8Array).set((src as Uint8Array).subarray(srcOffset, srcOffset + nbytes), dstOffset);
  }
}

function tenBytes(inner = new Bytes()): { base: Buffer; inner: Bytes; allocator: LruAllocator } {
  const allocator = new LruAllocator("TEST", inner, 0);
  const base = new Buffer({ name: "TEST", allocator }, dtypes.uint8, 10);
  base.copyIn(Uint8Array.from({ length: 10 }, (_, i) => i));
  return { base, inner, allocator };
}
const valuesOf = (b: Buffer): number[] => [...b.copyOut(new Uint8Array(b.nbytes))];

Deno.test("buffer: a shared view takes no memory of its own, and says that it shares", () => {
  const { base, allocator } = tenBytes(), before = sharing.count;
  const v = base.share(2, 5);
  assertEquals([valuesOf(v), allocator.used, allocator.count, sharing.count], [[2, 3, 4, 5, 6], 10, 1, before + 1]);
  assertStrictEquals(v.base, base);
});

Deno.test("buffer: before a write to the base its views move out; the base stays where it is", () => {
  const { base, allocator } = tenBytes(), block = base.memory;
  const v = base.share(2, 5), w = v.share(1, 2);
  base.unshare();
  base.copyIn(new Uint8Array(10).fill(9));
  assertEquals([valuesOf(v), valuesOf(w), allocator.used], [[2, 3, 4, 5, 6], [3, 4], 17]);
  assertStrictEquals(base.memory, block);
  assertStrictEquals(v.base, v);
});

Deno.test("buffer: before a write to a view it moves out alone", () => {
  const { base } = tenBytes();
  const v = base.share(2, 5), w = v.share(1, 2);
  v.unshare();
  v.copyIn(new Uint8Array(5).fill(9));
  assertEquals([valuesOf(base).slice(0, 5), valuesOf(w), valuesOf(v)], [[0, 1, 2, 3, 4], [3, 4], [9, 9, 9, 9, 9]]);
  assertStrictEquals(w.base, base);
});

Deno.test("buffer: a view of half of the base or more keeps its memory", () => {
  const { base, inner } = tenBytes();
  const v = base.share(0, 5);
  base.free();
  assertEquals([inner.held, valuesOf(v)], [10, [0, 1, 2, 3, 4]]);
  v.free();
  v.free();
  assertEquals(inner.held, 0);
  assertThrows(() => base.memory, SpecError, "freed buffer");
});

Deno.test("buffer: views stay where they are when the base is freed after the device was lost", () => {
  const { base, inner, allocator } = tenBytes();
  const v = base.share(2, 2);
  inner.alloc = () => {
    throw new DeviceError("allocate 2 bytes", { device: "TEST", reason: "TEST was lost" });
  };
  base.free();
  assertEquals([v.base === base, allocator.used], [true, 10]);
  v.free();
  assertEquals(allocator.used, 0);
});

Deno.test("buffer: views of less than half move into copies when the base is freed", () => {
  const { base, inner, allocator } = tenBytes();
  const views = [base.share(1, 2), base.share(7, 1)];
  base.free();
  assertEquals([inner.held, allocator.count, views.map(valuesOf)], [3, 2, [[1, 2], [7]]]);
  for (const v of views) v.free();
  assertEquals([inner.held, allocator.used], [0, 0]);
});

Deno.test("buffer: ... and also when those that kept it are gone", () => {
  const { base, inner } = tenBytes();
  const large = base.share(0, 8), small = base.share(8, 2);
  base.free();
  assertEquals(inner.held, 10);
  large.free();
  assertEquals([inner.held, valuesOf(small)], [2, [8, 9]]);
});

Deno.test("buffer: without room for the copies views stay where they are", () => {
  const { base, inner } = tenBytes(new Bytes(10));
  const v = base.share(1, 2);
  base.free();
  assertEquals([inner.held, valuesOf(v)], [10, [1, 2]]);
  v.free();
  assertEquals(inner.held, 0);
});

Deno.test("buffer: a view of memory that was never had has its own once the base is freed", () => {
  const allocator = new LruAllocator("TEST", new Bytes(), 0);
  const base = new Buffer({ name: "TEST", allocator }, dtypes.uint8, 10), v = base.share(2, 8);
  base.free();
  assert(!v.isAllocated);
  v.copyIn(new Uint8Array(8).fill(3));
  assertEquals([valuesOf(v)[7], allocator.used], [3, 8]);
});

Deno.test("buffer: many views leave at once", () => {
  const { base, inner } = tenBytes();
  for (let i = 0; i < 20_000; i++) base.share(i % 10, 1);
  base.unshare();
  assertEquals(inner.held, 20_010);
});

Deno.test("allocator: a block beyond what the device allows is an error that names the limit", () => {
  const inner = Object.assign(new Bytes(), { layout: { maxBytes: 64 } });
  const allocator = new LruAllocator("TEST", inner);
  allocator.alloc(64);
  assertThrows(() => allocator.alloc(65), OutOfMemoryError, "the device allows 64 bytes a buffer");
});
