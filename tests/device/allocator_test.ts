/** The cache of freed blocks, limits, and what running out of memory says; on an allocator that only counts. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import { context, Device, dtypes } from "../../mod.ts";
import { type Allocator, type Block, LruAllocator } from "../../src/device/allocator.ts";
import { Buffer } from "../../src/device/buffer.ts";
import { memoryTable } from "../../src/device/ledger.ts";
import { byteText, type MemoryHolder, OutOfMemoryError, SpecError } from "../../src/helpers/errors.ts";

class Counting implements Allocator {
  held = 0;
  constructor(readonly capacity: number = Infinity) {}
  alloc(nbytes: number): Block {
    if (this.held + nbytes > this.capacity) {
      throw new OutOfMemoryError({ device: "TEST", nbytes, reason: "the test has no more" });
    }
    this.held += nbytes;
    return {};
  }
  free(_: Block, nbytes: number): void {
    this.held -= nbytes;
  }
  copyIn(): void {}
  copyOutAsync(): Promise<void> {
    return Promise.resolve();
  }
}

function holder(nbytes: number, more: Partial<MemoryHolder> = {}): MemoryHolder {
  return { nbytes, size: nbytes / 4, dtype: dtypes.float32, shape: undefined, use: "tensor", line: undefined, ...more };
}

Deno.test("allocator: a freed block serves the next of its size", () => {
  const inner = new Counting(), lru = new LruAllocator("TEST", inner);
  const a = lru.alloc(100);
  lru.free(a, 100);
  assertEquals([lru.used, lru.cached, lru.count, lru.peak, inner.held], [0, 100, 0, 100, 100]);
  assertStrictEquals(lru.alloc(100), a);
  assert(lru.alloc(100) !== a);
  assertEquals([lru.used, lru.cached, lru.count, lru.peak, inner.held], [200, 0, 2, 200, 200]);
});

Deno.test("allocator: keeps at most so much, sizes not used for longest go first", () => {
  const inner = new Counting(), lru = new LruAllocator("TEST", inner, 100);
  const blocks = [40, 30, 20, 40].map((n) => [lru.alloc(n), n] as const);
  for (const [block, n] of blocks) lru.free(block, n); // 40, 30, 20, then 40 again, which makes 40 the last used
  assertEquals([lru.cached, inner.held], [100, 100]);
  const big = lru.alloc(60);
  lru.free(big, 60);
  assertEquals(lru.cached, 100, "30 and 20 went, and one of 40");
  assertStrictEquals(lru.alloc(60), big);
  lru.alloc(30);
  assertEquals([lru.used, inner.held], [90, 130]);
  lru.free(lru.alloc(101), 101);
  assertEquals(inner.held, 130, "what is larger than all is never kept");
  lru.drop();
  assertEquals([lru.cached, inner.held], [0, 90]);
});

Deno.test("allocator: a device that reads at once is read the same way asynchronously", async () => {
  const inner: Allocator = {
    alloc: () => ({}),
    free() {},
    copyIn() {},
    copyOut: (dst, _, offset) => void dst.fill(offset),
  };
  const lru = new LruAllocator("TEST", inner), bytes = new Uint8Array(2);
  await lru.copyOutAsync(bytes, lru.alloc(8), 3);
  assertEquals([...bytes], [3, 3]);
});

Deno.test("allocator: gives back what it keeps before it fails", () => {
  const inner = new Counting(100), lru = new LruAllocator("TEST", inner);
  lru.free(lru.alloc(80), 80);
  lru.alloc(90);
  assertEquals([lru.cached, inner.held], [0, 90]);
});

Deno.test("allocator: failing names the largest holders and what helps", () => {
  const lru = new LruAllocator("TEST", new Counting(1000));
  lru.alloc(400, holder(400, { shape: [10, 10] }));
  lru.alloc(500, holder(500, { use: "intermediates", line: "a.ts:3:5" }));
  for (let i = 0; i < 20; i++) lru.alloc(4, holder(4));
  const error = assertThrows(() => lru.alloc(4000), OutOfMemoryError);
  assertEquals([error.device, error.nbytes, error.reason], ["TEST", 4000, "the test has no more"]);
  assertEquals(error.holders.map((h: MemoryHolder) => h.nbytes), [500, 400, ...Array(20).fill(4)]);
  assertMatch(
    error.message,
    /^Cannot allocate 4000 bytes on TEST: the test has no more; 980 bytes are held in 22 blocks; the largest of them:\n +500 bytes +float32 +125 elements +intermediates made at a\.ts:3:5\n +400 bytes +float32 +\[10, 10\] +tensor\n +80 bytes +float32 +1 elements +20 x tensor\nfree tensors/,
  );
  assertMatch(error.message, /\nfree tensors with `using`, dispose\(\) or scope\(\).*await a read.*smaller batches$/);
  assertEquals([lru.used, lru.count], [980, 22]);
});

Deno.test("allocator: MAX_BUFFER_SIZE and MAX_MEMORY", () => {
  const inner = new Counting(), lru = new LruAllocator("TEST", inner);
  lru.free(lru.alloc(600), 600);
  context({ MAX_BUFFER_SIZE: 500, MAX_MEMORY: 1000 }, () => {
    assertMatch(
      assertThrows(() => lru.alloc(600), OutOfMemoryError).reason,
      /^MAX_BUFFER_SIZE allows 500 bytes a buffer$/,
    );
    lru.alloc(500);
    assertEquals(inner.held, 500, "what was kept made room");
    lru.alloc(500);
    assertMatch(assertThrows(() => lru.alloc(4), OutOfMemoryError).reason, /^MAX_MEMORY allows 1\.00 kB a device$/);
  });
  lru.alloc(600);
});

Deno.test("buffer: allocates when used, frees once, and is not used afterwards", () => {
  const device = Device.get("JS"), { used, count } = device.allocator;
  const b = new Buffer(device, dtypes.float32, 8), view = b.view(8, 2);
  assertEquals([b.isAllocated, device.allocator.used], [false, used]);
  view.copyIn(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]));
  assertEquals([...b.copyOut(new Uint8Array(32))].slice(6, 12), [0, 0, 1, 2, 3, 4]);
  assertEquals([view.isAllocated, device.allocator.used - used, device.allocator.count - count], [true, 32, 1]);
  assert(device.allocator.largest().includes(b) && memoryTable().includes("memory of JS"));
  view.free();
  assertEquals(device.allocator.used - used, 32);
  b.free(), b.free(false);
  assertEquals([device.allocator.used, device.allocator.count], [used, count]);
  assertThrows(() => b.memory, SpecError, "freed buffer of 32 bytes on JS");
  assertThrows(() => view.memory, SpecError, "freed buffer");
  assertThrows(() => b.view(16, 8), SpecError, "beyond the end");
});

for (
  const [nbytes, text] of [[0, "0 bytes"], [999, "999 bytes"], [1000, "1.00 kB"], [12345, "12.3 kB"], [
    123456789,
    "123 MB",
  ], [
    5e12,
    "5.00 TB",
  ]] as const
) Deno.test(`bytes: ${text}`, () => assertEquals(byteText(nbytes), text));
