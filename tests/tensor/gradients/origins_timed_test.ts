/** Origins of gradients: what finding them costs. */
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";

Device.default = "WASM"; // reads synchronously
Device.get(); // devices open outside of tests

const leaf = (data: number[]) => new Tensor(data, { dtype: "float32", requiresGrad: true });
const values = (t: Tensor) => [...t.dataSync()];
/** Milliseconds of this process. */
function costOf(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

Deno.test("origins: thousands of writes to one tensor are walked once each", () => {
  const w = leaf([1, 2]);
  /** What realizing so many costs. */
  const costOfWrites = (count: number): number => {
    const total = Tensor.zeros([2]).realize();
    for (let i = 0; i < count; i++) total.addInPlace(1);
    const ms = costOf(() => void total.realize());
    assertEquals(values(total), [count, count]);
    return ms;
  };
  const few = costOfWrites(1000), many = costOfWrites(4000);
  assert(many < 9 * few, `${many} ms against ${few} ms`); // 16 times where each write is followed down to the first
  assertEquals(w.grad, undefined);
});

Deno.test("views: what a view of thousands of views costs that is realized, and views that are realized one by one", () => {
  const shapes = [[2, 3], [6]];
  const costOfViews = (count: number, eachOne: boolean): number => {
    let x = leaf([1, 2, 3, 4, 5, 6]).realize();
    const ms = costOf(() => {
      for (let i = 0; i < count; i++) {
        x = x.reshape(shapes[i % 2]);
        if (eachOne) x.realize();
      }
      x.realize();
    });
    assertEquals(values(x), [1, 2, 3, 4, 5, 6]);
    return ms;
  };
  costOfViews(100, true);
  for (const eachOne of [false, true]) {
    // 5 to 20 seconds where each view remembers by which others it is one
    const ms = costOfViews(2000, eachOne);
    assert(ms < 2500, `${ms} ms, ${eachOne ? "one by one" : "at once"}`);
  }
});
