/**
 * `deno task doctor`: every device that is registered, what it is and needs, and why it is not available where it is
 * not; permissions, and what the chosen device says of itself.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { backendOf } from "../src/device/device.ts";

const PERMISSIONS = ["read", "write", "env", "run", "ffi", "sys", "net"] as const;

async function main(): Promise<number> {
  console.log(`Deno ${Deno.version.deno}, V8 ${Deno.version.v8}, ${Deno.build.target}`);
  console.log(`processors: ${navigator.hardwareConcurrency}`);
  const states = PERMISSIONS.map((name) => `${name} ${Deno.permissions.querySync({ name }).state}`);
  console.log(`permissions: ${states.join(", ")}\n`);
  let broken = 0;
  const listing = Device.list(), opened: (string | undefined)[] = [];
  // what opens only when it is awaited is the default of nothing that has not: it is opened behind the others
  const isLate = (i: number): boolean => backendOf(listing[i].name).openAsync !== undefined;
  const all = [...listing.keys()], order = [...all.filter((i) => !isLate(i)), ...all.filter(isLate)];
  let chosen = "";
  for (const i of order) {
    const { name, reason } = listing[i];
    // asking for the default opens it: after the times were taken
    if (chosen === "" && isLate(i)) chosen = Device.default;
    if (reason !== undefined) continue;
    try {
      const at = performance.now(), device = await Device.open(name);
      await device.synchronize();
      opened[i] = `available: opened and tested itself in ${(performance.now() - at).toFixed(0)} ms`;
    } catch (error) {
      // a GPU may turn out to be missing only when it is asked for: then it is not available, not broken
      const now = Device.list().find((d) => d.name === name)?.reason;
      if (now === undefined) broken++;
      opened[i] = `fails: ${(error as Error).message}`;
    }
  }
  if (chosen === "") chosen = Device.default;
  for (const [i, { name, description, permissions, reason }] of listing.entries()) {
    console.log(`${name}${name === chosen ? " (default)" : ""}: ${description}`);
    console.log(`  needs: ${permissions.length === 0 ? "no permission" : permissions.join(" ")}`);
    console.log(`  ${opened[i] ?? `not available: ${reason}`}`);
    if (!opened[i]?.startsWith("available")) continue;
    for (const [key, value] of Object.entries(Device.get(name).info())) console.log(`  ${key}: ${value}`);
  }
  return broken === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
