/** Origins of gradients: what finding them costs. */
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";

Device.default = "WASM"; // reads synchronously
Device.get(); // devices open outside of tests

const leaf = (data: number[]) => new Tensor(data, { dtype: "float32", requiresGrad: true });
const values = (t: Tensor) => [...t.dataSync()];

Deno.test("origins: thousands of writes to one tensor are walked once each", () => {
  const w = leaf([1, 2]);
  /** What realizing so many costs, in milliseconds of this process. */
  const costOf = (count: number): number => {
    const total = Tensor.zeros([2]).realize();
    for (let i = 0; i < count; i++) total.addInPlace(1);
    const before = process.cpuUsage();
    total.realize();
    const { user, system } = process.cpuUsage(before);
    assertEquals(values(total), [count, count]);
    return (user + system) / 1000;
  };
  const few = costOf(1000), many = costOf(4000);
  assert(many < 9 * few, `${many} ms against ${few} ms`); // 16 times where each write is followed down to the first
  assertEquals(w.grad, undefined);
});
