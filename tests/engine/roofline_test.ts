/** The best rates of a device, and the counters of the process. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { Device, GlobalCounters, Tensor } from "../../mod.ts";
import { rooflineOf } from "../../src/engine/roofline.ts";

for (const name of ["JS", "WASM", "CLANG"]) {
  let ignore = false;
  try {
    Device.get(name);
  } catch {
    ignore = true;
  }
  Deno.test({
    name: `roofline ${name}: positive, measured once, holds nothing`,
    ignore,
    fn: () => {
      const before = { ...GlobalCounters }, { bytes } = Device.memory()[name];
      const roof = rooflineOf(Device.get(name))!;
      assert(roof.gflops > 0.001 && roof.gbs > 0.001, JSON.stringify(roof));
      const { now } = performance;
      let clocks = 0;
      performance.now = () => (clocks++, now.call(performance));
      try {
        assertStrictEquals(rooflineOf(Device.get(name)), roof);
      } finally {
        performance.now = now;
      }
      assertEquals(clocks, 0);
      assertEquals(Device.memory()[name].bytes, bytes);
      assertEquals({ ...GlobalCounters }, before);
    },
  });
}

Deno.test("roofline: none where nothing runs", () => {
  assertStrictEquals(rooflineOf(Device.get("NULL")), undefined);
});

Deno.test("counters: kernels, copies, bytes, and memory in use", () => {
  GlobalCounters.reset();
  assertEquals([GlobalCounters.kernelCount, GlobalCounters.copyCount, GlobalCounters.globalOps], [0, 0, 0]);
  const used = GlobalCounters.memUsed;
  const t = new Tensor(new Float32Array(1000), { device: "JS" }).add(1).realize();
  assertEquals([GlobalCounters.kernelCount, GlobalCounters.copyCount], [1, 0]);
  assertEquals(GlobalCounters.globalOps, 1000);
  assertEquals(GlobalCounters.globalMem, 8000);
  assertEquals(GlobalCounters.memUsed - used, 8000);
  t.to("WASM").realize();
  assertEquals([GlobalCounters.copyCount, GlobalCounters.copiedBytes], [1, 4000]);
});
