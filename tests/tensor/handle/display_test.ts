/** How tensors show themselves: text, tables and images of what is in memory; and showing computes nothing. @module */
import assert from "node:assert/strict";
import { crc32, inflateSync } from "node:zlib";
import { Buffer } from "node:buffer";
import { Device, display, type DisplayOptions, GlobalCounters, Tensor } from "../../../mod.ts";
import { ArgumentError, ShapeError } from "../../../src/helpers/errors.ts";
import { encodePng } from "../../../src/helpers/png.ts";

const JUPYTER = Symbol.for("Jupyter.display"), DENO = Symbol.for("Deno.customInspect");
const device = "WASM";
const iota = (...shape: number[]): Tensor =>
  Tensor.arange(shape.reduce((a, b) => a * b, 1), undefined, 1, { device }).reshape(shape).contiguous();

/** What a notebook gets for the last value of a cell. */
function bundleOf(x: object): Record<string, string> {
  return (x as Record<symbol, () => Record<string, string>>)[JUPYTER]();
}

/** Width, height, color type and pixels of a PNG, its checksums verified. */
function decodePng(png: Uint8Array): { width: number; height: number; color: number; pixels: Uint8Array } {
  const view = new DataView(png.buffer, png.byteOffset);
  assert.deepEqual([...png.subarray(0, 8)], [137, 80, 78, 71, 13, 10, 26, 10]);
  let at = 8;
  const data: Uint8Array[] = [], types: string[] = [];
  let width = 0, height = 0, color = -1;
  while (at < png.length) {
    const n = view.getUint32(at), type = String.fromCharCode(...png.subarray(at + 4, at + 8));
    types.push(type);
    assert.equal(view.getUint32(at + 8 + n), crc32(png.subarray(at + 4, at + 8 + n)), `checksum of ${type}`);
    if (type === "IHDR") {
      [width, height, color] = [view.getUint32(at + 8), view.getUint32(at + 12), png[at + 17]];
      assert.equal(png[at + 16], 8);
    }
    if (type === "IDAT") data.push(png.subarray(at + 8, at + 8 + n));
    at += 12 + n;
  }
  assert.deepEqual(types, ["IHDR", "IDAT", "IEND"]);
  const lines = new Uint8Array(inflateSync(Buffer.concat(data)));
  const row = lines.length / height, pixels = new Uint8Array(height * (row - 1));
  for (let y = 0; y < height; y++) {
    assert.equal(lines[y * row], 0);
    pixels.set(lines.subarray(y * row + 1, (y + 1) * row), y * (row - 1));
  }
  return { width, height, color, pixels };
}

const imageOf = (x: object) => decodePng(new Uint8Array(Buffer.from(bundleOf(x)["image/png"], "base64")));

const disposed = iota(3).realize();
disposed.dispose();
const written = Tensor.zeros([3], { device }).contiguous().realize();
const before = written.reshape([3, 1]);
written.setAt([0], 1).realize();

/** Name, tensor, its text; `#` stands for what varies. */
const TEXTS: readonly (readonly [string, Tensor, string])[] = [
  // of constants alone, which are on no device: the default one, if that is another, has been asked for
  ["lazy", iota(2, 3).mul(7), `Tensor [2, 3] int32 ${Device.default === "WASM" ? "constant" : "WASM"} (lazy)`],
  ["realized", iota(2, 3).add(1).realize(), "Tensor [2, 3] int32 WASM\n[[1, 2, 3],\n [4, 5, 6]]"],
  ["a constant", Tensor.full([2, 2], 1.5), "Tensor [2, 2] float32 constant\nfilled with 1.5"],
  ["a scalar constant", new Tensor(3), "Tensor [] int32 constant\n3"],
  ["a boolean constant", new Tensor(true), "Tensor [] bool constant\ntrue"],
  ["host data on its way", new Tensor([1, 2], { device }), "Tensor [2] int32 WASM\n[1, 2]"],
  ["a permuted view", iota(2, 3).realize().permute([1, 0]), "Tensor [3, 2] int32 WASM\n[[0, 3],\n [1, 4],\n [2, 5]]"],
  ["a flipped, shrunk view", iota(6).realize().flip(0).shrink([[1, 4]]), "Tensor [3] int32 WASM\n[4, 3, 2]"],
  ["a padded view", iota(2).add(5).realize().pad([1, 2]), "Tensor [5] int32 WASM\n[0, 5, 6, 0, 0]"],
  ["a repeated view", iota(2, 1).realize().expand([2, 2]), "Tensor [2, 2] int32 WASM\n[[0, 0],\n [1, 1]]"],
  ["the previous version of what was overwritten", before, "Tensor [3, 1] float32 WASM (lazy)"],
  ["disposed", disposed, "Tensor [3] int32 WASM (disposed at #)"],
  ["more values than are read", iota(1025, 1024).realize(), "Tensor [1025, 1024] int32 WASM (realized)"],
  [
    "a leaf",
    new Tensor([1, 2], { requiresGrad: true, device }).realize(),
    "Tensor [2] float32 WASM requiresGrad\n[1, 2]",
  ],
  ["no elements", Tensor.zeros([0, 3]), "Tensor [0, 3] float32 constant\nfilled with 0"],
];
for (const [name, t, want] of TEXTS) {
  Deno.test(`display: text of ${name}`, () => {
    GlobalCounters.reset();
    const text = (t as unknown as Record<symbol, () => string>)[DENO]();
    assert.equal(text.replace(/(disposed at ).*\)/, "$1#)"), want);
    assert.equal(Deno.inspect(t), text);
    assert.equal(bundleOf(t)["text/plain"], text);
    assert.deepEqual([GlobalCounters.kernelCount, GlobalCounters.copiedBytes], [0, 0]);
  });
}

Deno.test("display: a lazy tensor has no table and stays lazy", () => {
  const t = iota(2, 3).mul(5);
  GlobalCounters.reset();
  assert.deepEqual(Object.keys(bundleOf(t)), ["text/plain"]);
  assert.deepEqual(Object.keys(display(t, { image: true }).bundle), ["text/plain"]);
  assert.equal(t.isRealized, false);
  assert.equal(GlobalCounters.kernelCount, 0);
});

const cells = (html: string): string[] => [...html.matchAll(/<td>(.*?)<\/td>/g)].map((m) => m[1]);

Deno.test("display: a table of a matrix, and a vector as one row", () => {
  const html = bundleOf(new Tensor([[1.5, -2], [3, 4]]))["text/html"];
  assert.deepEqual(cells(html), ["1.5", "-2", "3", "4"]);
  assert.match(html, /<code>Tensor \[2, 2\] float32 \w+<\/code>/);
  assert.match(html, /<th>0<\/th><th>1<\/th>/);
  assert.deepEqual(cells(bundleOf(new Tensor([true, false]))["text/html"]), ["true", "false"]);
});

Deno.test("display: long axes show both ends, many slices the first", () => {
  const found = cells(bundleOf(iota(100).realize())["text/html"]);
  assert.deepEqual([found.length, found[0], found[8], found[16]], [17, "0", "…", "99"]);
  const many = bundleOf(iota(3, 4, 1, 1).realize())["text/html"];
  assert.equal(many.match(/<table>/g)!.length, 8);
  assert.match(many, /\[1, 2, :, :\]/);
  assert.match(many, /… 4 more/);
});

Deno.test("display: uint8 pixels are an image, a small uint8 matrix is numbers", () => {
  const gray = Uint8Array.from({ length: 200 * 180 }, (_, i) => i % 251);
  const bundle = imageOf(new Tensor(gray).reshape([200, 180]));
  assert.deepEqual(bundle, { width: 180, height: 200, color: 0, pixels: gray });
  const rgb = Uint8Array.from({ length: 161 * 8 * 3 }, (_, i) => i % 253);
  assert.deepEqual(imageOf(new Tensor(rgb).reshape([8, 161, 3])), { width: 161, height: 8, color: 2, pixels: rgb });
  assert.deepEqual(
    Object.keys(bundleOf(new Tensor(Uint8Array.from([1, 2])).reshape([1, 2]))),
    ["text/plain", "text/html"],
  );
  const off = display(new Tensor(gray).reshape([200, 180]), { image: false }).bundle;
  assert.deepEqual(Object.keys(off), ["text/plain", "text/html"]);
});

Deno.test("display: a float matrix is an image when asked, from its smallest to its largest value", () => {
  const t = new Tensor([[-1, 0, 1], [NaN, Infinity, -Infinity]]);
  assert.deepEqual(imageOf(display(t, { image: true, scale: 1 })), {
    width: 3,
    height: 2,
    color: 0,
    pixels: Uint8Array.from([0, 128, 255, 0, 255, 0]),
  });
  const set = imageOf(display(t, { image: true, scale: 1, min: 0, max: 2 }));
  assert.deepEqual([...set.pixels], [0, 0, 128, 0, 255, 0]);
  const large = imageOf(display(t, { image: true }));
  assert.deepEqual([large.width, large.height, large.pixels[0], large.pixels[large.width - 1]], [159, 106, 0, 255]);
  assert.deepEqual([
    ...imageOf(display(Tensor.full([1, 1], 3, { device }).contiguous().realize(), { image: true, scale: 1 })).pixels,
  ], [
    0,
  ]);
});

Deno.test("display: what cannot be shown so", () => {
  assert.throws(() => display(new Tensor([1, 2]), { image: true }), (e: Error) => {
    assert.ok(e instanceof ShapeError);
    assert.match(e.message, /^Cannot draw an image of .*\[2\].*\[height, width\]/);
    return true;
  });
  for (const options of [{ imge: true }, { scale: 0 }, { scale: 1000 }, { scale: NaN }]) {
    assert.throws(() => display(new Tensor([[1]]), options as DisplayOptions), ArgumentError);
  }
});

Deno.test("png: more than one stored block, each color type, and sizes that do not fit", () => {
  for (const [channels, color] of [[1, 0], [3, 2], [4, 6]]) {
    const pixels = Uint8Array.from({ length: 150 * 151 * channels }, (_, i) => (i * 7 + (i >> 8)) & 255);
    assert.deepEqual(decodePng(encodePng(pixels, 151, 150, channels)), { width: 151, height: 150, color, pixels });
  }
  for (const [n, w, h, c] of [[3, 2, 2, 1], [4, 2, 1, 2], [0, 0, 0, 1]]) {
    assert.throws(() => encodePng(new Uint8Array(n), w, h, c), ArgumentError);
  }
});
