/**
 * Pictures within models: every kind of PNG beside the platform's packing, JPEG beside libjpeg-turbo (fixtures/onnx/jpeg.py),
 * BMP, TIFF and PNM, and spoiled ones.
 */
import assert from "node:assert/strict";
import { deflateSync } from "node:zlib";
import { crc32 } from "../../src/helpers/crc.ts";
import { inflateNow } from "../../src/onnx/ops/special/inflate_now.ts";
import { decodePicture } from "../../src/onnx/ops/special/picture_codecs.ts";

const bad = (reason: string) => new RangeError(reason);
let seed = 5;
const next = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
const random = (n: number, most = 256) => Uint8Array.from({ length: n }, () => next(most));
const u32 = (...xs: number[]) => xs.flatMap((x) => [x >>> 24, x >> 16 & 255, x >> 8 & 255, x & 255]);

Deno.test("inflate: what the platform packs, at every level, comes out as it was", () => {
  for (const level of [0, 1, 6, 9]) {
    for (const size of [0, 1, 70, 5000, 70000]) {
      for (const most of [2, 256]) {
        const data = random(size, most), packed = new Uint8Array(deflateSync(data, { level })).subarray(2);
        assert.deepEqual(inflateNow(packed, size, bad), data);
        assert.throws(() => inflateNow(packed, size + 1, bad), /unpacks to \d+ bytes/);
        if (size > 0) assert.throws(() => inflateNow(packed, size - 1, bad), /more than the|unpacks to/);
      }
    }
  }
  let refused = 0;
  const packed = new Uint8Array(deflateSync(random(3000, 9))).subarray(2);
  for (let k = 0; k < 300; k++) {
    const spoiled = packed.slice(0, k % 2 ? packed.length : next(packed.length));
    for (let i = 0; i < 3 && spoiled.length > 0; i++) spoiled[next(spoiled.length)] = next(256);
    try {
      inflateNow(spoiled, 3000, bad);
    } catch (error) {
      assert.ok(error instanceof RangeError && /its (packed )?data/.test(error.message), String(error));
      refused++;
    }
  }
  assert.ok(refused > 200);
});

function png(
  width: number,
  height: number,
  color: number,
  depth: number,
  rows: readonly Uint8Array[],
  palette?: Uint8Array,
): Uint8Array {
  const part = (
    kind: string,
    data: ArrayLike<number>,
  ) => [...u32(data.length), ...new TextEncoder().encode(kind), ...Array.from(data), 0, 0, 0, 0];
  const packed = new Uint8Array(deflateSync(Uint8Array.from(rows.flatMap((r) => Array.from(r)))));
  return Uint8Array.from([
    0x89,
    0x50,
    0x4e,
    0x47,
    13,
    10,
    26,
    10,
    ...part("IHDR", [...u32(width, height), depth, color, 0, 0, 0]),
    ...(palette === undefined ? [] : part("PLTE", palette)),
    ...part("IDAT", packed.subarray(0, 5)),
    ...part("IDAT", packed.subarray(5)),
    ...part("IEND", []),
  ]);
}
/** A row by a filter, of the one above. */
function filtered(row: Uint8Array, above: Uint8Array, kind: number, unit: number): Uint8Array {
  const out = Uint8Array.from(row, (v, i) => {
    const a = i >= unit ? row[i - unit] : 0, b = above[i], c = i >= unit ? above[i - unit] : 0, p = a + b - c;
    const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
    return v - [0, a, b, (a + b) >> 1, pa <= pb && pa <= pc ? a : pb <= pc ? b : c][kind];
  });
  return Uint8Array.from([kind, ...out]);
}
const KINDS: readonly (readonly [name: string, color: number, depth: number, samples: number])[] = [
  ["gray", 0, 8, 1],
  ["gray of 1 bit", 0, 1, 1],
  ["gray of 4 bits", 0, 4, 1],
  ["gray of 16 bits", 0, 16, 1],
  ["red, green, blue", 2, 8, 3],
  ["red, green, blue of 16 bits", 2, 16, 3],
  ["a palette of 2 bits", 3, 2, 1],
  ["a palette", 3, 8, 1],
  ["gray and opacity", 4, 8, 2],
  ["red, green, blue, opacity", 6, 8, 4],
];
for (const [name, color, depth, samples] of KINDS) {
  Deno.test(`PNG: ${name}, by every filter`, () => {
    const width = 7,
      height = 5,
      stride = Math.ceil(width * samples * depth / 8),
      unit = Math.max(1, samples * depth >> 3);
    const palette = random(768), rows = Array.from({ length: height }, () => random(stride));
    const file = png(
      width,
      height,
      color,
      depth,
      rows.map((r, y) => filtered(r, rows[y - 1] ?? new Uint8Array(stride), y, unit)),
      palette,
    );
    const got = decodePicture(file, bad), most = (1 << Math.min(8, depth)) - 1;
    assert.deepEqual([got.width, got.height], [width, height]);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const sample = (k: number) => {
          const bit = (x * samples + k) * depth, byte = rows[y][bit >> 3];
          return depth >= 8 ? byte : byte >> (8 - depth - (bit & 7)) & most;
        };
        const want = [0, 1, 2].map((c) =>
          color === 3
            ? palette[3 * sample(0) + c]
            : samples >= 3
            ? sample(c)
            : depth < 8
            ? Math.round(sample(0) * 255 / most)
            : sample(0)
        );
        assert.deepEqual([...got.rgb.subarray(3 * (y * width + x), 3 * (y * width + x) + 3)], want, `${x} ${y}`);
      }
    }
  });
}

Deno.test("pictures: BMP from below, gray PNM with a comment; others are refused by name", () => {
  const bmp = new Uint8Array(54 + 16), view = new DataView(bmp.buffer);
  bmp.set([0x42, 0x4d]);
  for (const [at, x] of [[10, 54], [14, 40], [18, 2], [22, 2]]) view.setUint32(at, x, true);
  view.setUint16(28, 24, true);
  bmp.set([1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12], 54);
  assert.deepEqual([...decodePicture(bmp, bad).rgb], [9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4]);
  const pnm = Uint8Array.from([...new TextEncoder().encode("P5 # two dots\n2 1\n255\n"), 7, 9]);
  assert.deepEqual([...decodePicture(pnm, bad).rgb], [7, 7, 7, 9, 9, 9]);
  const text = (s: string) => new TextEncoder().encode(s);
  for (
    const [file, why] of [
      [Uint8Array.of(0xff, 0xd8, 0xff), /bytes are too few/],
      [text("RIFF"), /the picture is WebP, which is not decoded here: decode it with the platform's codecs/],
      [Uint8Array.of(0xff, 0x4f, 0xff, 0x51), /is JPEG 2000/],
      [text("GIF8"), /none of PNG, JPEG, BMP, TIFF and PNM/],
      [text("P6 9999999 9999999 255\n"), /9999999 by 9999999 pixels is none, or too large/],
      [text("P6 5 5 255\nx"), /bytes are too few for 5 by 5 pixels/],
      [text("P3 1 1 255\n1 2 3"), /kind P3 is not read/],
      [bmp.subarray(0, 60), /bytes are too few/],
      [text("II*\0\xff\xff\xff\xff"), /truncated/],
      [png(30000, 2000, 2, 8, [new Uint8Array(5)]), /cannot unpack to a picture of 30000 by 2000/],
    ] as const
  ) assert.throws(() => decodePicture(file, bad), why);
});

const jpegs = Object.entries(
  JSON.parse(await Deno.readTextFile(new URL("../fixtures/onnx/jpeg.json", import.meta.url))) as Record<
    string,
    { width: number; height: number; file: string; crc: number }
  >,
).map(([name, j]) => ({ ...j, name, bytes: Uint8Array.from(atob(j.file), (c) => c.charCodeAt(0)) }));

for (const { name, bytes, width, height, crc } of jpegs) {
  Deno.test(`JPEG: ${name}, to the bit as libjpeg-turbo`, () => {
    const got = decodePicture(bytes, bad);
    assert.deepEqual([got.width, got.height], [width, height]);
    assert.equal(crc32(got.rgb), crc);
  });
}

Deno.test("JPEG: spoiled files give named errors, never others, or another picture", () => {
  let refused = 0;
  for (const { bytes } of jpegs) {
    for (let i = 0; i < 60; i++) {
      const spoiled = i % 3 === 0 ? bytes.slice(0, next(bytes.length)) : bytes.slice();
      // a size alone may be a large picture, for which there is time elsewhere
      for (let k = 0; k < 1 + i % 4; k++) {
        const at = next(spoiled.length);
        if (spoiled[at - 1] !== 0) spoiled[at] = next(256);
      }
      try {
        assert.ok(decodePicture(spoiled, bad).rgb.length > 0);
      } catch (error) {
        assert.ok(error instanceof RangeError && error.stack!.includes("picture_codecs_test.ts"), String(error));
        refused++;
      }
    }
  }
  assert.ok(refused > 200, `${refused}`);
});
