/** Places in sorted rows and bins between edges, beside scalar loops, for tables of all sizes and values on edges. */
import { assert, assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

const DEVICES = ["JS", "WASM"] as const;

/** Numbers from 0 to 1 that look random. */
function numbers(seed: number): () => number {
  let s = seed;
  return () => (s = Math.imul(s, 1664525) + 1013904223 >>> 0) / 2 ** 32;
}

/** Is a before b where NaN is behind all else? */
function isBefore(a: number, b: number): boolean {
  return a < b || (Number.isNaN(b) && !Number.isNaN(a));
}

for (const device of DEVICES) {
  Deno.test(`search: tables of all sizes, on both sides of equal ones and of NaN, ${device}`, () =>
    onDevice(device, async () => {
      const random = numbers(7);
      for (const n of [0, 1, 2, 3, 5, 8, 23, 24, 25, 26, 31, 32, 33, 100, 127, 129]) {
        const table = Array.from({ length: n }, () => Math.floor(random() * 40)).sort((a, b) => a - b);
        if (n > 3) table[n - 1] = NaN;
        const values = [...Array.from({ length: 200 }, () => Math.floor(random() * 44) - 2), NaN, Infinity, -Infinity];
        const sorted = new Tensor(table, { dtype: "float32" });
        for (const right of [false, true]) {
          const want = values.map((v) => table.filter((t) => right ? !isBefore(v, t) : isBefore(t, v)).length);
          assertEquals(await sorted.searchsorted(new Tensor(values), { right }).tolist(), want, `${n}`);
          // rows, each with its own table, and few values of a large table
          const rows = Tensor.stack([sorted, sorted.add(1)]), few = new Tensor([values, values]);
          const [first] = await rows.searchsorted(few, { right }).tolist() as number[][];
          assertEquals(first, want);
        }
      }
    }));

  Deno.test(`histc: equal bins are those between the edges, whatever a product rounds to, ${device}`, () =>
    onDevice(device, async () => {
      const random = numbers(11);
      const ranges: readonly [bins: number, low: number, high: number][] = [
        [100, 0, 1],
        [24, -3, 4],
        [25, 0, 0.1],
        [400, -1e-3, 1e3],
        [30, 1e6, 1e6 + 1],
        [30, 1e6, 1e6 + 30],
        [255, 0, 255],
        [64, 1e-20, 3e-20],
        [33, -5e-30, 1],
        [1, 0, 1],
      ];
      for (const [bins, low, high] of ranges) {
        for (const dtype of ["float32", "float64"] as const) {
          const width = (high - low) / bins, near = (i: number): number => (i % 3 - 1) * 2 ** -23;
          const given = Array.from({ length: 1200 }, (_, i) => {
            if (i < 600) return (low + i % (bins + 1) * width) * (1 + near(i));
            return low + (high - low) * (random() * 1.2 - 0.1);
          });
          const x = new Tensor([...given, NaN, Infinity, -Infinity, low, high], { dtype });
          const [counts, edges] = x.histogram(bins, { min: low, max: high });
          const ends = await edges.tolist() as number[], want = new Array<number>(bins).fill(0);
          for (const v of await x.tolist() as number[]) {
            if (!(v >= ends[0] && v <= ends[bins])) continue;
            want[v === ends[bins] ? bins - 1 : ends.findLastIndex((e) => e <= v)]++;
          }
          assert(want.some((c) => c > 0));
          assertEquals(await counts.tolist(), want, `${bins} ${low} ${high} ${dtype}`);
          assertEquals(await x.histc(bins, low, high).tolist(), want);
        }
      }
    }));
}
