/** Recordings on their way to the page: the same comes out, and it is small. */
import { assert, assertEquals } from "@std/assert";
import { context, Device, nn, record, Tensor } from "../../../mod.ts";
import { ResNet50 } from "../../../bench/models.ts";
import { pack, packData } from "../../../src/story/viz/pack.ts";
import { vizPage } from "../../../src/story/viz/page.ts";
import { numbersOf, unpackData } from "../../../src/story/viz/page_data.ts";
import { FORMAT, VERSION, type VizData, vizData } from "../../../src/story/viz/viz_data.ts";
import { optimized } from "../../fixtures/optimized.ts";

/** Times of passes are told in microseconds. */
function rounded(data: VizData): VizData {
  const us = (ms: number): number => Math.round(ms * 1000) / 1000;
  return { ...data, passes: data.passes.map((p) => ({ ...p, startMs: us(p.startMs), timeMs: us(p.timeMs) })) };
}

async function gzipped(text: string): Promise<number> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

for (const device of ["WASM", "NULL", Device.default]) Device.get(device);

Deno.test("viz pack: integers of any size and sign are read as they were written", () => {
  const numbers = [0, 1, -1, 15, 16, -16, 31, 32, 1023, -1024, 123456789, 2 ** 31, -(2 ** 32) - 1, 2 ** 50 + 3];
  const nodes = numbers.map((_, i) => ({
    op: `OP${i % 3}`,
    dtype: "int32",
    src: i < 4 ? [] : [i - 1, i - 4, 0, 1, 2],
  }));
  const lists = { rules: [], works: [], places: [], kernels: [], schedules: [], events: [], notes: [] };
  const passes = numbers.map((n, i) => ({
    name: `pass ${i % 2}`,
    depth: i % 3,
    ...(i % 4 === 0 ? {} : { of: i }),
    startMs: n < 0 ? 0 : n / 1000,
    timeMs: i,
    before: i,
    after: 13 - i,
    changes: i % 5 === 0 ? [] : [[i, 13 - i, i] as const, [0, i, 2] as const],
  }));
  const data = { format: FORMAT, version: VERSION, title: "numbers", dropped: 0, ...lists, nodes, passes };
  assertEquals(unpackData(packData(data)), data);
  assertEquals(numbersOf("uDt7D0TkuK"), [55, -1974, 314, 5346], "as source maps have them");
});

Deno.test("viz pack: a recording comes out as it went in", () => {
  const layers = context({ DEV: "WASM" }, () => [new nn.Linear(24, 12), new nn.Linear(12, 5)]);
  const recording = context({ SCACHE: 0 }, () =>
    record(() => {
      const x = Tensor.rand([16, 24], { device: "WASM" });
      return layers[1].call(layers[0].call(x).relu()).softmax().realize();
    }));
  const data = JSON.parse(JSON.stringify(rounded(vizData(recording, "two layers")))) as VizData;
  assert(data.nodes.length > 500 && data.passes.some((p) => p.changes.length > 3) && data.kernels.length > 2);
  const packed = packData(data);
  assertEquals(unpackData(JSON.parse(JSON.stringify(packed))), data);
  assert(JSON.stringify(packed).length < 0.4 * JSON.stringify(data).length, "it is smaller as text, too");
});

Deno.test(
  "viz pack: all passes of ResNet-50's compile are a page of 300 kB, gzipped",
  optimized(async () => {
    const recording = context(
      { SCACHE: 0, DEV: "NULL" },
      () => record(() => new ResNet50().call(Tensor.empty([1, 3, 224, 224])).realize()),
    );
    const data = vizData(recording, "ResNet-50"), page = await vizPage(data);
    assert(data.passes.length >= 1000 && data.nodes.length > 50_000 && data.kernels.length > 40);
    const [bytes, whole] = [(await pack(data)).byteLength, await gzipped(page)];
    assert(whole <= 300_000 && bytes <= 280_000, `${bytes} bytes of data, ${whole} of the page`);
  }),
);
