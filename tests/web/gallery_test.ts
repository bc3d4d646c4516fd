/** The gallery of examples/web, in headless Chromium; what is drawn, as pictures. Left out where there is no browser. */
import assert from "node:assert/strict";
import { DOTS, pictureOf } from "../../examples/web/strokes.ts";
import { runDeno } from "../system/subprocess.ts";
import type { GallerySeen } from "./gallery.ts";

Deno.test("gallery: what is drawn is moved to the middle, and fills the picture", () => {
  const bitmap = new Uint8Array(DOTS * DOTS);
  assert.equal(pictureOf(bitmap), undefined);
  for (let y = 0; y < 15; y++) bitmap[y * DOTS] = bitmap[y * DOTS + 1] = 1; // a bar of 2 by 15 in the corner
  const picture = pictureOf(bitmap)!, row = (y: number) => Array.from(picture.subarray(y * 8, y * 8 + 8));
  // twice as large: 4 by 30 of the 32 dots
  assert.deepEqual(row(3), [0, 0, 0, 0.5, 0.5, 0, 0, 0]);
  assert.equal(picture.reduce((a, b) => a + b, 0), 4 * 30 / 16);
  assert.equal(row(0)[3], 3 * 2 / 16);
});

// in a process of its own: its driver is in no lock file, which would have every run fetch it
const args = ["run", "-A", "--no-lock", "--no-check", "tests/web/gallery.ts"];
const { stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
if (stdout === "") throw new Error(`the gallery was not visited: ${stderr}`);
const seen = JSON.parse(stdout.trim().split("\n").at(-1)!) as GallerySeen | string;
if (typeof seen === "string") console.log(`Chromium is left out: ${seen}`);

Deno.test({
  name: "Chromium: the gallery trains, reads what is drawn, fits a phone and works offline",
  ignore: typeof seen === "string",
  fn: () => {
    const { devices, loss, accuracy, chart, credit, typed, drawn, cleared, gpu, width, offline, errors } =
      seen as GallerySeen;
    assert.deepEqual(errors, []);
    assert.equal(devices[0], "WebAssembly");
    assert.ok(loss < 0.1, `${loss}`);
    assert.ok(accuracy > 93, `${accuracy}`);
    assert.match(chart, /^Loss by step: 132 steps, 2\.\d\d to 0\.0\d$/);
    assert.match(credit, /Alpaydin.*CC BY 4\.0/);
    assert.match(typed, /^It reads 1 /);
    assert.match(drawn, /^It reads 0 /);
    assert.equal(cleared, "Draw something");
    assert.equal(gpu, devices.includes("WebGPU") ? "Ready on WEBGPU." : undefined);
    assert.equal(width, 360);
    assert.equal(offline, "Ready on WASM.");
  },
});
