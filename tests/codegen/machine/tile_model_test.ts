/**
 * What the model of tiles says: it knows waves, what a device can have, and how operands lie in memory.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type Product, type Tile, TileModel } from "../../../src/codegen/machine/tile_model.ts";
import type { GridCaps } from "../../../src/renderer/renderer.ts";
import { MMA_F16, type TensorCore, WGMMA } from "../../../src/renderer/tensor_core_table.ts";
import { WRITERS } from "../../support/snapshot_writers.ts";

const CARD = WRITERS.CUDA.renderer.caps.grid!, ADAPTER = WRITERS.WEBGPU.renderer.caps.grid!;
const TILE: Tile = { rows: [4, 2, 1], columns: [8, 4, 1], depth: 4 };

function productOf(rows: number, columns: number, sum: number, piece = 16, more: Partial<Product> = {}): Product {
  const operands = [
    { size: rows, itemsize: 2, piece, isAlong: false, quotients: 0, breaks: 0, apart: 0 },
    { size: columns, itemsize: 2, piece, isAlong: true, quotients: 0, breaks: 0, apart: 0 },
  ] as const;
  return { core: MMA_F16, operands, sum, loops: 1, batch: 1, isSideBySide: true, ...more };
}

function timeOf(product: Product, tile: Tile = TILE, grid: GridCaps = CARD): number {
  return new TileModel(product, grid).estimate(tile)?.time ?? Infinity;
}

Deno.test("tile model: a tile more than fills all units takes a wave more", () => {
  const whole = timeOf(productOf(128 * 12, 256 * 11, 4096)), more = timeOf(productOf(128 * 12, 256 * 12, 4096));
  assert.ok(more > 1.8 * whole, `${more} of ${whole}`);
});

Deno.test("tile model: elements one by one take longer than wide copies, and stores apart than side by side", () => {
  const wide = timeOf(productOf(4096, 4096, 4096)), few = timeOf(productOf(4096, 4096, 4096, 2));
  assert.ok(few > 2 * wide, `${few} of ${wide}`);
  assert.ok(timeOf(productOf(4096, 4096, 256, 16, { isSideBySide: false })) > timeOf(productOf(4096, 4096, 256)));
});

Deno.test("tile model: quotients of a sum, and sectors of one element each, cost the side that has them", () => {
  const [wide, high] = ([[4, 16, 1], [4, 8, 1]] as const).map((rows, i): Tile => ({
    rows,
    columns: [4, i === 0 ? 8 : 16, 1],
    depth: 16,
  }));
  const plain = productOf(4096, 4096, 576, 4, { core: undefined }), [a, b] = plain.operands;
  for (const more of [{ breaks: 2 }, { breaks: 1, piece: 0 }, { piece: 0, apart: 1 }, { piece: 0, apart: 0.25 }]) {
    const rows = { ...plain, operands: [{ ...a, ...more }, b] as const };
    const columns = { ...plain, operands: [a, { ...b, ...more }] as const };
    assert.ok(timeOf(rows, high) > timeOf(plain, high), JSON.stringify(more));
    assert.ok(timeOf(rows, high) < timeOf(rows, wide), "fewer rows are copied");
    assert.ok(timeOf(columns, wide) < timeOf(columns, high), "fewer columns are copied");
  }
});

Deno.test("tile model: no tile is below what is multiplied, nor more than a device has", () => {
  const product = productOf(4096, 4096, 4096), model = new TileModel(product, CARD);
  assert.ok(model.estimate(TILE)!.time > model.floor);
  assert.equal(model.estimate({ ...TILE, rows: [8, 2, 1] }), undefined, "registers");
  assert.equal(model.estimate({ ...TILE, depth: 32 }), undefined, "shared memory");
  assert.equal(model.estimate({ ...TILE, rows: [4, 16, 1] }), undefined, "threads");
  assert.equal(timeOf(productOf(40, 4096, 4096)), timeOf(productOf(128, 4096, 4096)), "padding is computed too");
  const threads: Tile = { rows: [4, 16, 1], columns: [4, 16, 1], depth: 16 };
  const floats = productOf(512, 512, 512, 16, { core: undefined });
  assert.equal(new TileModel(floats, ADAPTER).estimate(threads)!.ring, 1);
  assert.equal(timeOf(floats, { ...threads, rows: [4, 32, 1] }, ADAPTER), Infinity);
});

Deno.test("tile model: tiles side by side of a unit that reads shared memory read their left operand once", () => {
  const [wide, narrow] = [256, 64].map((n) => WGMMA.find((u) => u.input === MMA_F16.input && u.n === n)!);
  const product = (core: TensorCore): Product => productOf(8192, 8192, 8192, 16, { core });
  const four = timeOf(product(narrow), { rows: [1, 2, 1], columns: [4, 1, 1], depth: 4 });
  assert.equal(four, timeOf(product(wide), { rows: [1, 2, 1], columns: [1, 1, 1], depth: 4 }), "one instruction");
  const three = timeOf(product(narrow), { rows: [2, 2, 1], columns: [3, 1, 1], depth: 4 });
  const two = timeOf(product(narrow), { rows: [3, 2, 1], columns: [2, 1, 1], depth: 4 });
  assert.ok(three < two, `${three}, and ${two} of as many sums`);
});
