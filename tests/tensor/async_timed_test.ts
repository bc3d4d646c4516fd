/** Timers beside awaited reads. */
import { assert } from "@std/assert";
import { Device, jit, Tensor } from "../../mod.ts";

Device.get(); // devices open outside of tests

Deno.test("async: timers have their turn beside a loop of awaited reads", async () => {
  await Device.open("WASM");
  const step = jit((x: Tensor) => x.matmul(x).mul(1e-3));
  let x = Tensor.rand([64, 64], { device: "WASM" }).realize(), ticks = 0, reads = 0;
  for (let i = 0; i < 3; i++) await step(x).data();
  const timer = setInterval(() => ticks++, 10);
  const start = performance.now();
  for (; performance.now() - start < 600; reads++) {
    x = step(x);
    await x.data();
  }
  clearInterval(timer);
  assert(ticks >= 15, `${ticks} ticks of 10 ms in 600 ms beside ${reads} reads`);
});
