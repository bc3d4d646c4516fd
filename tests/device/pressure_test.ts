/** Giving others a turn, and collecting: when, and what it costs. */
import { assert, assertEquals } from "@std/assert";
import { Tensor } from "../../mod.ts";
import { allocated } from "../../src/device/allocator.ts";
import { settleMemory, takeTurn } from "../../src/device/pressure.ts";

/** Runs `fn` with a clock that is moved by hand. */
async function withClock<T>(fn: (clock: { ms: number }) => Promise<T>): Promise<T> {
  const { now } = performance, clock = { ms: now.call(performance) + 1e6 };
  performance.now = () => clock.ms;
  try {
    await takeTurn();
    return await fn(clock);
  } finally {
    performance.now = now;
  }
}

/** How many of `n` reads yielded a macrotask, where each follows the allocation of so much. */
async function yields(n: number, bytes: number, blocks: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < n; i++) {
    allocated.bytes += bytes;
    allocated.count += blocks;
    let passed = false;
    setImmediate(() => passed = true);
    await takeTurn();
    if (passed) count++;
    else await new Promise((done) => setImmediate(done));
  }
  return count;
}

Deno.test("pressure: reads yield once 64 MB or 256 blocks were allocated, else not", async () => {
  await settleMemory();
  await withClock(async () => {
    await yields(1, 2 ** 26, 0);
    assertEquals(await yields(10, 0, 1), 0);
    assertEquals(await yields(20, 2 ** 24, 1), 5);
    assertEquals(await yields(20, 0, 64), 5);
    assertEquals(await yields(3, 2 ** 27, 0), 3);
  });
});

Deno.test("pressure: reads yield before 10 ms have gone by since they last did", async () => {
  await settleMemory();
  await withClock(async (clock) => {
    const counts: number[] = [];
    for (const step of [4, 6, 1, 30]) {
      await yields(1, 2 ** 27, 0);
      let count = 0;
      for (let i = 0; i < 20; i++) {
        clock.ms += step;
        count += await yields(1, 0, 0);
      }
      counts.push(count);
    }
    // in steps of 4 after 8, 16, ...: 12 would be late; in steps of 6 each time; in steps of 1 after 9, 18
    assertEquals(counts, [10, 20, 2, 20]);
  });
});

Deno.test("pressure: settling runs finalizers", async () => {
  let gone = 0;
  const registry = new FinalizationRegistry<number>(() => gone++);
  (() => {
    for (let i = 0; i < 10; i++) registry.register({ i }, i);
  })();
  await settleMemory();
  assertEquals(gone, 10);
});

Deno.test("pressure: a read that need not yield waits for nothing, and looks at the clock once", async () => {
  await settleMemory();
  await withClock(async (clock) => {
    let looks = 0, turns = 0;
    performance.now = () => (looks++, clock.ms);
    const timer = setImmediate(() => turns++);
    for (let i = 0; i < 10_000; i++) await takeTurn();
    clearImmediate(timer);
    assertEquals([looks, turns], [10_000, 0]);
  });
});

Deno.test("pressure: parameters that nobody holds go in a synchronous loop, with the graphs of their gradients", () => {
  const x = new Tensor([1, 2], { dtype: "float32", device: "JS" }).realize(), refs: WeakRef<Tensor>[] = [];
  for (let k = 0; k < 1000; k++) {
    const w = new Tensor([k, 1], { dtype: "float32", device: "JS", requiresGrad: true }).realize();
    let y = x;
    for (let i = 0; i < 30; i++) y = y.mul(w).add(1);
    y.sum().backward().realize();
    refs.push(new WeakRef(w));
  }
  const left = refs.filter((r) => r.deref() !== undefined).length;
  assert(left < 800, `${left} of 1000 are left`);
});
