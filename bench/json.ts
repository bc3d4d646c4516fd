/**
 * `deno task bench:json [--device D] [--only a,b] [--peers torch.jsonl,torch-compile.jsonl] [--table]`: one JSON line a
 * workload, on standard output; with the lines of PyTorch's measurements the better of them, and the ratio of its time to
 * this; with `--table` rows for README.md instead. Also what the other benches share: options, and peers.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { measure, type Measurement, WORKLOADS } from "./workloads.ts";

/** The value of `--name value` or `--name=value`. */
export function option(args: readonly string[], name: string): string | undefined {
  for (let i = 0; i < args.length; i++) {
    if (args[i] === `--${name}`) return args[i + 1];
    if (args[i].startsWith(`--${name}=`)) return args[i].slice(name.length + 3);
  }
  return undefined;
}

/** What another library took, and a checksum of its result. */
export interface Peer {
  readonly peer: string;
  readonly us: number;
  readonly check?: number;
}

/** The best of the peers by workload, and a checksum of any, of JSON objects with `med_us` or `med_ms`. */
export function bestPeers(lines: readonly string[]): Map<string, Peer> {
  const best = new Map<string, Peer>();
  for (const line of lines.filter((l) => l.startsWith("{"))) {
    const { peer, name, med_us, med_ms, check } = JSON.parse(line) as Record<"peer" | "name", string> & {
      med_us?: number;
      med_ms?: number;
      check?: number;
    };
    const known = best.get(name), us = med_us ?? (med_ms === undefined ? undefined : med_ms * 1e3);
    if (us === undefined) continue;
    const isBest = known === undefined || us < known.us;
    best.set(name, { ...(isBest ? { peer, us } : known), check: known?.check ?? check });
  }
  return best;
}

/** The best of the peers in the files of `--peers`. */
export async function readPeers(args: readonly string[]): Promise<Map<string, Peer>> {
  const files = (option(args, "peers") ?? "").split(",").filter((f) => f !== "");
  return bestPeers((await Promise.all(files.map((f) => Deno.readTextFile(f)))).flatMap((text) => text.split("\n")));
}

const digits = (ms: number): string => ms.toFixed(ms < 1 ? 3 : 2);

/** A row of README.md: workload, time and rate, kernels, the better PyTorch's time, which it is, the ratio. */
export function tableRow({ name, med_ms, kernels, gflops, gbs }: Measurement, peer: Peer | undefined): string {
  const rate = gflops !== undefined
    ? ` (${gflops.toFixed(0)} GF/s)`
    : gbs !== undefined
    ? ` (${gbs.toFixed(0)} GB/s)`
    : "";
  const beside = peer === undefined
    ? "| | | |"
    : `| ${digits(peer.us / 1e3)} | ${peer.peer} | ${(peer.us / 1e3 / med_ms).toFixed(2)} |`;
  return `| ${name} | ${digits(med_ms)}${rate} | ${kernels} ${beside}`;
}

async function main(args: readonly string[]): Promise<number> {
  const device = option(args, "device") ?? Device.default;
  const names = option(args, "only")?.split(",").filter((n) => n !== "") ?? Object.keys(WORKLOADS);
  const peers = await readPeers(args);
  let failed = 0;
  for (const name of names) {
    try {
      const row = await measure(name, device), peer = peers.get(name);
      const beside = peer === undefined
        ? {}
        : { peer: peer.peer, ratio: Number((peer.us / 1e3 / row.med_ms).toFixed(2)) };
      console.log(args.includes("--table") ? tableRow(row, peer) : JSON.stringify({ ...row, ...beside }));
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
