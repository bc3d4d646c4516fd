/** What programs of strangers assert: that a value is that of NumPy, SciPy or PyTorch. @module */
import assert from "node:assert/strict";
import { Tensor } from "../../mod.ts";

/** A value, or lists of values. */
type Values = number | boolean | string | readonly Values[];

/** The largest of finite numbers. */
function largest(x: Values): number {
  if (typeof x === "object") return Math.max(1, ...x.map(largest));
  return typeof x === "number" && Number.isFinite(x) ? Math.abs(x) : 1;
}

/** Compares what a function gives with what must come, numbers to five digits of the largest of them. */
export async function is(name: string, make: () => unknown, want: Values): Promise<void> {
  const made = await make(), got = made instanceof Tensor ? await made.tolist() : made, slack = 1e-5 * largest(want);
  const compare = (a: unknown, b: Values, place: string): void => {
    if (typeof b === "object") {
      assert.ok(Array.isArray(a) && a.length === b.length, `${name}${place}: ${a} is not of ${b.length}`);
      b.forEach((w, i) => compare(a[i], w, `${place}[${i}]`));
    } else if (typeof b === "number" && Number.isFinite(b)) {
      assert.ok(Math.abs(Number(a) - b) <= slack, `${name}${place}: ${a}, not ${b}`);
    } else assert.ok(Object.is(a, b), `${name}${place}: ${a}, not ${b}`);
  };
  compare(got, want, "");
}
