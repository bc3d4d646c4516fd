/** The data set that ships: shape, range, and known rows. @module */
import assert from "node:assert/strict";
import { nn } from "../../../mod.ts";
import "../support.ts";

Deno.test("datasets: digits", async () => {
  const { images, labels, pixels, digits, attribution } = await nn.datasets.digits();
  assert.deepEqual(images.shape, [1797, 1, 8, 8]);
  assert.deepEqual(labels.shape, [1797]);
  assert.equal(images.dtype.name, "float32");
  assert.equal(labels.dtype.name, "int32");
  assert.deepEqual(Array.from(pixels.subarray(0, 8), (x) => x * 16), [0, 0, 5, 13, 9, 1, 0, 0]);
  assert.deepEqual([...digits.subarray(0, 10)], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(digits.length, 1797);
  const counts = new Array<number>(10).fill(0);
  for (const d of digits) counts[d]++;
  assert.deepEqual(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
  assert.equal(Math.max(...pixels), 1);
  assert.match(attribution, /Alpaydin.*CC BY 4\.0/);
  const data = await images.data();
  assert.equal(data[2], 5 / 16);
});
