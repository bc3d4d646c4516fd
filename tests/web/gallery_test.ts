/** The gallery of examples/web, in headless Chromium; what is drawn, as pictures. Left out where there is no browser. */
import assert from "node:assert/strict";
import { DOTS, pictureOf } from "../../examples/web/strokes.ts";
import { runDeno } from "../system/subprocess.ts";
import type { GallerySeen } from "./gallery.ts";
import type { DemosSeen } from "./gallery_demos.ts";

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

/** What a program saw: in a process of its own, as its driver is in no lock file, which would have every run fetch it. */
async function visited<T>(program: string): Promise<T | string> {
  const args = ["run", "-A", "--no-lock", "--no-check", `tests/web/${program}`];
  const { stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
  if (stdout === "") throw new Error(`the gallery was not visited: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as T | string;
}
const seen = await visited<GallerySeen>("gallery.ts");
if (typeof seen === "string") console.log(`Chromium is left out: ${seen}`);

Deno.test({
  name: "Chromium: the gallery trains, reads what is drawn, fits a phone and works offline",
  ignore: typeof seen === "string",
  fn: () => {
    const { devices, loss, accuracy, chart, credit, typed, drawn, cleared, gpu, width, offline, missing, errors } =
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
    const without = "This page was built without this network: deno task web --";
    assert.deepEqual(missing, [`${without}models`, `${without}models`, `${without}models`, `${without}faces FILE`]);
  },
});

const demos = typeof seen === "string" ? seen : await visited<DemosSeen>("gallery_demos.ts");
Deno.test({
  name:
    "Chromium: the gallery hears, reads, enlarges and finds, with small networks; denied cameras and broken files are told",
  ignore: typeof demos === "string",
  fn: () => {
    const found = demos as DemosSeen;
    assert.deepEqual(found.errors, []);
    assert.match(found.before.speech, /made by a test, MIT\. It is loaded when it is first asked for\./);
    assert.deepEqual(found.disabled, ["speech-sample", "upscale-sample"]); // no samples are there
    assert.equal(found.speech[0], "a small!");
    assert.match(found.speech[1], /^0\.5 s of sound\. \d+\.\d\d s on WASM, \d+ MB\.$/);
    assert.deepEqual(found.read[0], ["ab", "ab"]);
    assert.match(found.read[1], /^2 lines\. /);
    assert.deepEqual(found.upscale.slice(0, 2), [[192, 128], [10, 200, 90, 255]]);
    assert.match(found.upscale[2], /^96 by 64 became 192 by 128\. /);
    assert.match(found.photo, /^1 face\. /);
    assert.match(found.denied, /^The camera is denied: allow it/);
    assert.match(found.camera, /^[01] faces?\. .* on WASM/);
    assert.equal(found.broken, "This file cannot be read as picture.");
    assert.deepEqual(found.stops, [
      "speech-record",
      "speech-file",
      "read-file",
      "read-sample",
      "upscale-file",
      "faces-camera",
      "faces-file",
    ]);
    assert.deepEqual(found.nameless, []);
    assert.equal(found.width, 360);
  },
});
