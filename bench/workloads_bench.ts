/**
 * Every workload on every CPU device that is available, under `deno bench`: named `<workload>/<DEVICE>`, a group a
 * workload, the first device its baseline. The device is waited for inside the measured region.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { prepare, type Prepared, WORKLOADS } from "./workloads.ts";

const devices = Device.list().filter((d) => d.available && d.name !== "JS" && d.name !== "NULL").map((d) => d.name);

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
