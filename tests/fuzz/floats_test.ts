/** A few programs of floats.ts on every device, and what a compiler would compute that takes floats for real numbers. */
import { assertEquals } from "@std/assert";
import { grad, Tensor } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";
import { checkFloats } from "./floats.ts";

/** Programs on each device: compilers are slow. */
const COUNTS: Readonly<Record<string, number>> = { JS: 300, WASM: 300 };
const HUGE = Math.fround(3e38), BIG = 2 ** 24;

/** A function of float32 tensors, what it is of, and what it is. */
type Row = [name: string, f: (x: Tensor, y: Tensor) => Tensor, x: number[], y: number[], want: number[]];
const ROWS: Row[] = [
  ["x - x", (x) => x.sub(x), [NaN, Infinity, -Infinity, 1], [], [NaN, NaN, NaN, 0]],
  ["x y - x y", (x, y) => x.mul(y).add(x.neg().mul(y)), [NaN, Infinity, 1], [1, 2, 3], [NaN, NaN, 0]],
  ["x + y - x", (x, y) => x.add(y).sub(x), [BIG, Infinity, NaN, HUGE], [1, 2, 3, HUGE], [0, NaN, NaN, Infinity]],
  ["x - (x - y)", (x, y) => x.sub(x.sub(y)), [BIG, Infinity], [0.5, 2], [0, NaN]],
  ["x + 1 - x", (x) => x.add(1).sub(x), [BIG, Infinity, 1], [], [0, NaN, 1]],
  ["x + c - c", (x) => x.add(HUGE).sub(HUGE), [HUGE, 1], [], [Infinity, 0]],
  ["x c / c", (x) => x.mul(2 ** 100).mul(2 ** -100), [2 ** 100, 3], [], [Infinity, 3]],
  ["the square of a root", (x) => x.sqrt().square(), [-4, 4, -Infinity, Infinity], [], [NaN, 4, NaN, Infinity]],
  ["x + y < x", (x, y) => x.add(y).lt(x).float(), [BIG, -Infinity, 8], [-0.25, -1, -1], [0, 0, 1]],
  ["x + y = x", (x, y) => x.add(y).eq(x).float(), [BIG, Infinity, 8], [1, 1, 1], [1, 1, 0]],
  ["x y + x z", (x, y) => x.mul(y).add(x.mul(y.neg().add(1))), [Infinity, 2], [2, 3], [NaN, 2]],
  ["from x to x", (x) => x.lerp(x, 0.5), [Infinity, NaN, 3], [], [NaN, NaN, 3]],
  ["the slope of atan2(x, x)", (x) => grad((x: Tensor) => x.atan2(x).sum())(x), [NaN, 1], [], [NaN, 0]],
];

for (const device of await devicesHere()) {
  Deno.test(`floats ${device}: random sums, differences and products`, async () => {
    await onDevice(device, async () => {
      for (let n = 0; n < (COUNTS[device] ?? 25); n++) assertEquals(await checkFloats(20261127, n), undefined);
    });
  });
  for (const [name, f, x, y, want] of ROWS) {
    Deno.test(`floats ${device}: ${name} is no real number`, async () => {
      const [a, b] = await onDevice(device, () => [x, y].map((v) => new Tensor(v, { dtype: "float32" }).realize()));
      assertEquals(await f(a, b).tolist(), want);
    });
  }
}
