/**
 * One schedule and one kernel for all offsets: slices, padding and writes at other places share what was compiled for the
 * first two. The generator is tests/fuzz/offsets.ts; here is what people write.
 */
import { assert, assertEquals } from "@std/assert";
import { compileStats } from "../../src/engine/compile_cache.ts";
import { scheduleCacheStats } from "../../src/schedule/schedule.ts";
import { Device, jit, Tensor } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { checkOffsets } from "../fuzz/offsets.ts";
import { onDevice } from "../support/on_device.ts";
import { Random } from "../support/random.ts";

const devices = await devicesHere();
Device.default = "WASM";
const N = 4096, random = new Random(7);
const any = (n: number): number => random.int(0, n - 1);
const line = Tensor.arange(N).cast("float32").realize(), square = line.reshape([64, 64]).contiguous().realize();
const list = new Tensor(Array.from({ length: N }, (_, i) => (i * 7) % N), { dtype: "int32" }).realize();
/** n numbers from a on, times k. */
const run = (a: number, n: number, k = 1): number[] => Array.from({ length: n }, (_, i) => (a + i) * k);

/** Computes something at offsets that differ each time, and what it should be. */
type Case = [name: string, make: (i: number) => [Tensor, number[]]];
const CASES: Case[] = [
  ["batches", (i) => [line.at([i * 64, i * 64 + 64]).mul(2), run(i * 64, 64, 2)]],
  ["windows anywhere", () => {
    const o = any(N - 10);
    return [line.at([o, o + 10]).mul(3), run(o, 10, 3)];
  }],
  ["views alone", () => {
    const o = any(N - 10);
    return [line.at([o, o + 10]), run(o, 10)];
  }],
  ["shrink", () => {
    const a = any(60), b = any(61);
    const rows = [0, 1, 2, 3].flatMap((r) => run((a + r) * 64 + b, 3, 2));
    return [square.shrink([[a, a + 4], [b, b + 3]]).mul(2), rows];
  }],
  ["rows", () => {
    const o = any(64);
    return [square.at(o).add(1), run(o * 64 + 1, 64)];
  }],
  ["elements", () => {
    const [o, p] = [any(64), any(64)];
    return [square.at(o, -1 - p).mul(2), [(o * 64 + 63 - p) * 2]];
  }],
  ["elements of a list", (i) => [line.at(list.at([i * 8, i * 8 + 8])), run(i * 8, 8).map((j) => (j * 7) % N)]],
  ["a batch of windows", () => {
    const at = run(0, 16).map(() => any(400));
    const windows = (k: number) => Tensor.stack(at.map((o) => line.at([o + k, o + k + 8])));
    return [windows(0).mul(2).sub(windows(1)), at.flatMap((o) => run(o - 1, 8))];
  }],
  ["a window that is used twice", () => {
    const o = any(N - 8), x = line.at([o, o + 8]);
    return [x.sub(x.min()).add(x), run(0, 8).map((i) => 2 * i + o)];
  }],
  ["padding", () => {
    const o = any(9);
    return [line.at([5, 8]).pad([[o, 8 - o]]).add(1), run(0, 11).map((i) => i >= o && i < o + 3 ? 6 + i - o : 1)];
  }],
  ["padding with a value", () => {
    const o = any(9);
    const want = run(0, 11).map((i) => i >= o && i < o + 3 ? 5 + i - o : 9);
    return [line.at([5, 8]).pad([[o, 8 - o]], { value: 9 }), want];
  }],
  ["slices of computed values", () => {
    const [o, p] = [any(100), any(3)];
    return [line.at([o, o + 5]).mul(2).at([p, p + 3]).add(1), run(o + p, 3).map((v) => v * 2 + 1)];
  }],
  ["steps and mirrors", () => {
    const o = any(100);
    return [line.at([o, o + 10, 2]).flip(0), run(0, 5).map((i) => o + 2 * i).reverse()];
  }],
  ["writes", () => {
    const o = any(12), c = Tensor.zeros([16]).clone();
    c.setAt([[o, o + 4]], line.at([1, 5]));
    return [c, run(0, 16).map((i) => i >= o && i < o + 4 ? i - o + 1 : 0)];
  }],
  ["writes of what was there", () => {
    const o = any(12), c = line.at([0, 16]).clone();
    c.setAt([[o, o + 4]], c.at([o, o + 4]).mul(3));
    return [c, run(0, 16).map((i) => i >= o && i < o + 4 ? 3 * i : i)];
  }],
  ["writes of what was beside", () => {
    const o = any(11), c = line.at([0, 16]).clone();
    c.setAt([[o, o + 4]], c.at([o + 1, o + 5]));
    return [c, run(0, 16).map((i) => i >= o && i < o + 4 ? i + 1 : i)];
  }],
  ["ramps and constants", () => {
    const o = any(50);
    return [Tensor.arange(60).at([o, o + 3]).add(Tensor.ones([60]).at([o, o + 3])), run(o + 1, 3)];
  }],
];

for (const [name, make] of CASES) {
  Deno.test(`offsets: ${name}`, async () => {
    const misses = scheduleCacheStats.misses, counts: number[] = [];
    for (let i = 0; i < 30; i++) {
      const [got, want] = make(i), before = compileStats.lowered;
      assertEquals(Array.from(await got.data() as Float32Array, Number), want, `${i}`);
      counts.push(compileStats.lowered - before);
    }
    assert(scheduleCacheStats.misses - misses <= 2, `${scheduleCacheStats.misses - misses} schedules`);
    assertEquals(counts.slice(3), counts.slice(3).map(() => 0));
  });
}

Deno.test("offsets: thousands of them compile two kernels, and views none", async () => {
  const before = compileStats.lowered, all = new Set<number>();
  for (let i = 0; all.size < 3000; i++) {
    const o = i % 2 === 0 ? (i * 37) % (N - 12) : any(N - 12);
    all.add(o);
    const x = line.at([o, o + 12]).mul(5).realize();
    if (i % 100 === 0) assertEquals(await x.tolist(), run(o, 12, 5));
    x.dispose();
  }
  assertEquals(compileStats.lowered - before, 2);
  for (let o = 0; o < 300; o++) assertEquals(line.at([o, o + 3]).schedule().map((i) => i.runner.kind), ["ViewOp"]);
  assertEquals(compileStats.lowered - before, 2);
});

Deno.test("offsets: a view of memory at another place names what was there, and writes to where it is now", async () => {
  for (const o of [3, 4, 9]) {
    const base = Tensor.arange(16).clone().realize(), view = base.at([o, o + 4]).realize();
    base.setAt([[o, o + 2]], 100);
    assertEquals(await view.tolist(), run(o, 4));
    view.setAt([0], -1);
    assertEquals(await base.at([o, o + 4]).tolist(), [-1, 100, o + 2, o + 3]);
  }
});

Deno.test("offsets: sizes are part of a schedule, and what is shared is read once", () => {
  const kernels = (n: number, o: number) => {
    const x = line.at([o, o + n]);
    return x.mul(x).add(x).schedule().map((i) => i.bufs.length);
  };
  // one read of the window, not three
  for (const o of [0, 5, 11]) assertEquals([kernels(8, o), kernels(9, o)], [[2], [2]]);
});

Deno.test("offsets: a copy has the schedule of another copy", () => {
  const misses = scheduleCacheStats.misses;
  for (let i = 0; i < 5; i++) line.at([i, i + 7]).clone().realize();
  assert(scheduleCacheStats.misses - misses <= 2);
});

Deno.test("offsets: in jit they are part of what is captured", async () => {
  const f = jit((x: Tensor, o: number) => x.at([o, o + 3]).mul(2));
  for (const o of [0, 1, 2, 0, 1, 2, 0, 1, 2]) assertEquals(await f(line, o).tolist(), run(o, 3, 2));
  assertEquals([f.stats.captures, f.stats.replays], [3, 3]);
});

Deno.test("offsets: random programs, on every draw, from two schedules", async () => {
  for (const [device, count] of [["JS", 40], ["WASM", 15]] as const) {
    Device.default = device;
    for (let at = 0; at < count; at++) assertEquals(await checkOffsets(20251122, at), undefined);
  }
  Device.default = "WASM";
});

for (const device of devices.filter((d) => d === "WEBGPU" || d === "CUDA")) {
  Deno.test(`offsets ${device}: what an offset is a multiple of by chance is none of what is assumed`, async () => {
    await onDevice(device, async () => {
      for (const [seed, at] of [[2713, 34], [2713, 62], [20251122, 3]]) {
        assertEquals(await checkOffsets(seed, at), undefined);
      }
    });
  });
}
