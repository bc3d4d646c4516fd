/**
 * `deno task bench:json [--device D] [--only a,b]`: one JSON line a workload, on standard output.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { measure, WORKLOADS } from "./workloads.ts";

/** The value of `--name value` or `--name=value`. */
export function option(args: readonly string[], name: string): string | undefined {
  for (let i = 0; i < args.length; i++) {
    if (args[i] === `--${name}`) return args[i + 1];
    if (args[i].startsWith(`--${name}=`)) return args[i].slice(name.length + 3);
  }
  return undefined;
}

async function main(args: readonly string[]): Promise<number> {
  const device = option(args, "device") ?? Device.default;
  const names = option(args, "only")?.split(",").filter((n) => n !== "") ?? Object.keys(WORKLOADS);
  let failed = 0;
  for (const name of names) {
    try {
      console.log(JSON.stringify(await measure(name, device)));
    } catch (error) {
      failed++;
      console.log(JSON.stringify({ name, device, error: String((error as Error).message).slice(0, 300) }));
    }
    // A macrotask, so that what the last workload left is freed.
    await new Promise((done) => setTimeout(done, 0));
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
