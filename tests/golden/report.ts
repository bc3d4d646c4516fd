/**
 * How far results are from PyTorch's: the worst of each op, dtype and device over the golden cases, in units in the last
 * place. `--write` puts the worst of all devices into fixtures/golden/ulps.json, of which golden_test.ts allows four times.
 * `deno run -A --no-check tests/golden/report.ts [--devices JS,WASM] [--write]`
 *
 * @module
 */
import { Device } from "../../mod.ts";
import { parseArgs } from "../support/parse_args.ts";
import { batches, cases, devicesOpen, isBeyond, measured, ulpKey, ULPS } from "./golden.ts";

const args = parseArgs(Deno.args, { string: ["devices"], boolean: ["write"] });
const devices = typeof args.devices === "string" ? args.devices.split(",") : await devicesOpen();
/** By what was measured: ulps by device; by class and dtype: the largest share of the tolerance, and where. */
const worst = new Map<string, Map<string, number>>(), shares = new Map<string, [share: number, where: string]>();
for (const device of devices) {
  Device.default = (await Device.open(device)).name;
  const get = batches(device);
  for (const [i, c] of cases.entries()) {
    if (isBeyond(c, device)) continue;
    for (const d of await measured(c, await get(i))) {
      const key = ulpKey(c, d), found = worst.get(key) ?? new Map<string, number>();
      worst.set(key, found.set(device, Math.max(found.get(device) ?? 0, d.ulp)));
      const kind = `${c.tol.padEnd(14)} ${d.dtype.padEnd(9)} ${d.gradient ? "gradient" : "output  "}`;
      if (d.share > (shares.get(kind)?.[0] ?? -1)) shares.set(kind, [d.share, `${device}: ${c.name}`]);
    }
  }
}
const sorted = [...worst].sort(([a], [b]) => a < b ? -1 : 1);
console.log(`${"ulps".padEnd(40)} ${devices.map((d) => d.padStart(8)).join(" ")}`);
for (const [key, found] of sorted) {
  if (Math.max(...found.values()) < 1) continue;
  console.log(`${key.padEnd(40)} ${devices.map((d) => (found.get(d)?.toFixed(1) ?? "-").padStart(8)).join(" ")}`);
}
console.log("\nThe largest shares of tolerances");
for (const [kind, [share, where]] of [...shares].sort()) console.log(`${kind}  ${share.toFixed(2)}  ${where}`);
if (args.write) {
  const rows = sorted.map(([key, found]) => [key, Number(Math.max(...found.values()).toFixed(1))] as const);
  const table = Object.fromEntries(rows.filter(([, ulp]) => ulp > 1));
  await Deno.writeTextFile(ULPS, `${JSON.stringify(table, null, 1)}\n`);
}
Deno.exit(0);
