/** docs/coming.md, "What is left out": none of its names is there, what stands in their place runs, and no name stands twice. @module */
import assert from "node:assert/strict";
import * as dinograd from "../../mod.ts";
import { ROOT } from "../system/subprocess.ts";

const { nn, fft, Tensor, windows } = dinograd;
await dinograd.Device.open(dinograd.Device.default); // its library is no leak of the first test
const page = Deno.readTextFileSync(new URL("docs/coming.md", ROOT)), section = page.split("\n## What is left out\n")[1];
const spans = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code);
const rows = [...section.matchAll(/^\| (`.+?) \| (.+?) \| (.*`) +\|$/gm)]
  .map(([, names, why, code]) => ({ names: spans(names), why: why.trim(), code: spans(code) }));

/** A name as it would be here: in camelCase, but for classes. */
function ours(name: string): string {
  return name.replace(/_+(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** Whether a name of another library is there after all. */
function isThere(name: string): boolean {
  const parts = name.split("."), last = ours(parts.at(-1)!);
  const places: Record<string, object> = { nn, optim: nn.optim, fft, signal: windows };
  const own = places[parts[0]];
  if (own !== undefined && parts.length > 1) return last in own;
  return [Tensor.prototype, Tensor, dinograd].some((place) => last in place);
}

Deno.test("left out: names are found, each once, with a reason and what is written in its place", () => {
  assert.ok(rows.length > 35, String(rows.length));
  assert.equal(rows.length, section.split("\n").filter((line) => line.startsWith("| `")).length);
  const names = rows.flatMap((row) => row.names);
  assert.ok(names.length > 120, String(names.length));
  for (const row of rows) assert.ok(row.why.length > 5 && row.code.length > 0, row.names[0]);
});

Deno.test("left out: none of the names is there", () => {
  assert.deepEqual(rows.flatMap((row) => row.names).filter(isThere), []);
  for (const name of ["abs", "nn.Linear", "fft.hfft", "optim.Adam", "signal.windows.hann", "nan_to_num"]) {
    assert.ok(isThere(name), name);
  }
});

Deno.test("left out: what is written in their place runs", async () => {
  const names = Object.keys(dinograd), values = Object.values(dinograd);
  const x = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32" }), i = new Tensor([2, 0]);
  for (const code of rows.flatMap((row) => row.code)) {
    const run = new Function(...names, "x", "i", `return (async () => (${code}))();`);
    let value = await run(...values, x, i).catch((e: unknown) => assert.fail(`${code}: ${e}`));
    while (Array.isArray(value)) value = value[0];
    assert.notEqual(value, undefined, code);
    if (value instanceof Tensor) await value.data();
  }
});
