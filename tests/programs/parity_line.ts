/**
 * Lines of what tinygrad offers (tests/pages/parity.ts), each with what it means: a line's function asserts the values, dtypes
 * and errors that the line promises, or those that are ours where that was decided otherwise. In: lines by section. Out:
 * a test for each, and one that no line of the section is without.
 *
 * @module
 */
import assert from "node:assert/strict";
import { dtypes, Tensor } from "../../mod.ts";
import { PARITY } from "../pages/parity.ts";
import { onDevice } from "../support/on_device.ts";

/** What a line promises. */
export type Line = readonly [row: string, holds: () => void | Promise<void>];

/** Any values, as `tolist` gives them. */
export type Values = unknown;

/** Asserts that values are those, floats within `slack` of the larger of 1 and the value, and the dtype where it is told. */
export async function gives(t: Tensor, want: Values, dtype?: string, slack = 2e-6): Promise<void> {
  if (dtype !== undefined) assert.equal(t.dtype.name, dtype);
  const walk = (got: unknown, value: unknown, place: string): void => {
    if (Array.isArray(value)) {
      assert.ok(Array.isArray(got) && got.length === value.length, `${place}: ${got} for ${value}`);
      return value.forEach((v, i) => walk(got[i], v, `${place}[${i}]`));
    }
    if (typeof value === "number" && typeof got === "number" && Number.isFinite(value)) {
      const apart = Math.abs(got - value);
      return assert.ok(apart <= slack * Math.max(1, Math.abs(value)), `${place}: ${got} for ${value}`);
    }
    assert.ok(Object.is(got, value), `${place}: ${got} for ${value}`);
  };
  walk(await t.tolist(), want, "at ");
}

/** Asserts that a call throws an error of this name, whose text holds `says`. */
export function refuses(name: string, says: string, call: () => unknown): void {
  assert.throws(
    call,
    (e: Error) => e.name === name && e.message.includes(says) || assert.fail(`${e.name}: ${e.message}`),
  );
}

/** Numbers as a float32 tensor. */
export const f32 = (x: Values): Tensor => new Tensor(x as number[], { dtype: dtypes.float32 });

/** One test a line, and that sections are whole. */
export function testLines(sections: Readonly<Record<string, readonly Line[]>>): void {
  for (const [number, lines] of Object.entries(sections)) {
    const rows = PARITY.find((s) => s.number === number)?.rows.map(([name]) => name) ?? [];
    Deno.test(`parity ${number}: every line is here`, () => assert.deepEqual(lines.map(([name]) => name), rows));
    for (const [i, [row, holds]] of lines.entries()) {
      Deno.test(`parity ${number}.${i + 1}: ${row}`, () => onDevice("JS", holds));
    }
  }
}
