/**
 * How far results are from PyTorch's: the worst of each op, dtype and device over the golden cases, in units in the last
 * place. `--write` puts what was measured into fixtures/golden/ulps.json, of which golden_test.ts allows each device four
 * times its own; `--widen` keeps what stood there where it is more (another compiler, by CC, another machine, or NOOPT=1:
 * sums in the order that is written).
 * `deno run -A --no-check tests/golden/report.ts [--devices JS,WASM] [--only REGEX] [--write [--widen]]`
 *
 * @module
 */
import { Device, DTypeError } from "../../mod.ts";
import { parseArgs } from "../support/parse_args.ts";
import {
  batches,
  cases,
  devicesOpen,
  firstOfEach,
  isBeyond,
  isInSoftware,
  measured,
  MOST_SLOW,
  ulpKey,
} from "./golden.ts";
import { isMeasured, merged, readUlps, writeUlps } from "./ulps.ts";

const args = parseArgs(Deno.args, { string: ["devices", "only"], boolean: ["write", "widen"] });
const devices = typeof args.devices === "string" ? args.devices.split(",") : await devicesOpen();
const only = new RegExp(typeof args.only === "string" ? args.only : "");
/** By what was measured: ulps by device; by class and dtype: the largest share of the tolerance, and where. */
const worst = new Map<string, Map<string, number>>(), shares = new Map<string, [share: number, where: string]>();
for (const device of devices) {
  Device.default = (await Device.open(device)).name;
  // the cases that golden_test.ts runs
  const chosen = new Set(
    [...firstOfEach(isInSoftware(device) ? MOST_SLOW : Infinity)].filter((i) => only.test(cases[i].name)),
  );
  const get = batches(device, chosen);
  for (const i of chosen) {
    const c = cases[i];
    const distances = await get(i).then((b) => measured(c, b)).catch((error) => {
      // what needs float64 where there is none is refused, or is right without a kernel
      if (isBeyond(c, device) && error instanceof DTypeError && error.dtypes.includes("float64")) return [];
      throw error;
    });
    for (const d of distances) {
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
  const others = devices.filter((d) => !isMeasured(d) || d === "WEBGPU" && !isInSoftware(d));
  if (others.length > 0) throw new Error(`the table has no column for ${others.join(", ")}`);
  const found = Object.fromEntries(sorted.map(([key, ulps]) => [key, Object.fromEntries(ulps)]));
  writeUlps(merged(readUlps(), found, args.widen === true));
}
Deno.exit(0);
