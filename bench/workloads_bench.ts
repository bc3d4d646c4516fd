/**
 * Every workload on every device that computes and opens here, under `deno bench`: named `<workload>/<DEVICE>`, a group a
 * workload, the first device its baseline. The device is waited for inside the measured region. DEV names one device.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { prepare, type Prepared, WORKLOADS } from "./workloads.ts";

/** Devices that compute nothing, and the oracle, which would take hours. */
const LEFT_OUT = ["JS", "NULL", "DISK"];

/** Opens what is to be measured; says what is left out that one might expect. */
async function devicesToMeasure(): Promise<string[]> {
  const named = Deno.env.get("DEV");
  if (named) return [(await Device.open(named)).name];
  const names: string[] = [];
  for (const { name, available } of Device.list()) {
    if (!available || LEFT_OUT.includes(name)) continue;
    try {
      const software = (await Device.open(name)).info().software === true;
      if (software) console.log(`bench: ${name} is left out: a software adapter (DEV=${name} measures it)`);
      else names.push(name);
    } catch (error) {
      console.log(`bench: ${name} is left out: ${(error as Error).message}`);
    }
  }
  return names;
}

const devices = await devicesToMeasure();

for (const name of Object.keys(WORKLOADS)) {
  devices.forEach((device, i) => {
    let ready: Promise<Prepared> | undefined;
    Deno.bench({
      name: `${name}/${device}`,
      group: name,
      baseline: i === 0,
      fn: async (b) => {
        const { once } = await (ready ??= prepare(name, device));
        b.start();
        await once();
        b.end();
      },
    });
  });
}
