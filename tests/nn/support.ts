/** What the tests of `nn` share: golden values, the inputs they were made with, comparison. @module */
import assert from "node:assert/strict";
import { assertClose } from "@std/assert";
import { Device, state, Tensor } from "../../mod.ts";

Device.default = "JS";

/** Values by graph, then by what they are: made by generate.py with PyTorch. */
export const golden: Record<string, Record<string, number[]>> = JSON.parse(
  Deno.readTextFileSync(new URL("golden.json", import.meta.url)),
);

/** sin(i * a + b) + c in a shape. */
export function fill(shape: number[], a: number, b: number, c = 0): Tensor {
  const n = shape.reduce((x, y) => x * y, 1);
  return new Tensor(Float32Array.from({ length: n }, (_, i) => Math.sin(i * a + b) + c)).reshape(shape);
}

/** Sets the parameters of a layer as generate.py does, in the order of PyTorch's names. */
export function setParameters(parameters: readonly (Tensor | undefined)[]): void {
  parameters.forEach((p, k) => p?.assign(fill(p.shape, 0.37, 0.2 * k, 0.1)));
}

/** Asserts that a tensor has the values `want`, row-major. */
export async function close(t: Tensor | undefined, want: readonly number[], tolerance = 2e-5): Promise<void> {
  assert.ok(t !== undefined, "no tensor");
  assertClose(await t.data(), want, tolerance);
}

/** Sets all parameters of a layer as generate.py does: in the order of PyTorch's names of them. */
export function setAll(layer: unknown): void {
  const named = Object.entries(state.getStateDict(layer)).map(([name, t]) =>
    [name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), t] as const
  );
  setParameters(named.sort(([a], [b]) => a < b ? -1 : 1).map(([, t]) => t));
}
