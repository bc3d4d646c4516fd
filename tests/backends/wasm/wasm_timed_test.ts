/** WASM as a device: how a process ends. */
import { assert } from "@std/assert";
import { runDeno } from "../../system/subprocess.ts";

const DEVICE_URL = new URL("../../../backends/wasm/wasm_device.ts", import.meta.url).href;

Deno.test("wasm: the process ends promptly with helpers parked", async () => {
  const script = `
    const { wasmBackend } = await import("${DEVICE_URL}");
    const device = wasmBackend.open(0);
    device.pool.start();
    if (device.pool.helpers > 0) for (let i = 0; i < 300 && device.pool.ready === 0; i++) {
      Atomics.wait(device.memory.i32, 8, 0, 10);
    }
    console.log(device.pool.ready, Date.now());`;
  const { stdout, stderr } = await runDeno(["eval", "--no-check", script]), done = Date.now();
  const text = stdout.trim() + stderr.trim();
  assert(/^\d+ \d+$/.test(text), text);
  const [ready, last] = text.split(" ").map(Number);
  assert(ready > 0 || navigator.hardwareConcurrency === 1);
  assert(done - last < 200, `took ${done - last} ms to end`);
});
