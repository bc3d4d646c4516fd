/**
 * `deno task doctor`: every device that is registered, what it is and needs, and why it is not available where it is
 * not; permissions, and what the chosen device says of itself.
 *
 * @module
 */
import { Device } from "../mod.ts";

const PERMISSIONS = ["read", "write", "env", "run", "ffi", "sys", "net"] as const;

async function main(): Promise<number> {
  console.log(`Deno ${Deno.version.deno}, V8 ${Deno.version.v8}, ${Deno.build.target}`);
  console.log(`processors: ${navigator.hardwareConcurrency}`);
  const states = PERMISSIONS.map((name) => `${name} ${Deno.permissions.querySync({ name }).state}`);
  console.log(`permissions: ${states.join(", ")}\n`);
  const chosen = Device.default;
  let broken = 0;
  for (const { name, description, permissions, reason } of Device.list()) {
    console.log(`${name}${name === chosen ? " (default)" : ""}: ${description}`);
    console.log(`  needs: ${permissions.length === 0 ? "no permission" : permissions.join(" ")}`);
    if (reason !== undefined) {
      console.log(`  not available: ${reason}`);
      continue;
    }
    try {
      const at = performance.now(), device = await Device.open(name);
      await device.synchronize();
      console.log(`  available: opened and tested itself in ${(performance.now() - at).toFixed(0)} ms`);
      for (const [key, value] of Object.entries(device.info())) console.log(`  ${key}: ${value}`);
    } catch (error) {
      broken++;
      console.log(`  fails: ${(error as Error).message}`);
    }
  }
  return broken === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
