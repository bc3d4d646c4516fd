/**
 * Ordinary programs beside what their memory takes at least: what of them is far off is a cliff that no other bench names.
 *
 *     deno run -A --no-check bench/ordinary.ts --device D [--only REGEX] [--scale big|small] [--seconds N]
 *
 * A line each: times the least (what is given and made, at the bandwidth of one pass over memory, and no less than 3 us on
 * a card or 10), microseconds, and milliseconds of the first call; then all again, the furthest off first. What is bound by
 * arithmetic is far off by right: products, convolutions, sorts, functions.
 *
 * @module
 */
import { Device, jit, Tensor } from "../mod.ts";
import { rooflineOf } from "../src/engine/roofline.ts";
import { sum } from "../src/helpers/math.ts";
import { timeOf } from "./breadth.ts";
import type { Scale } from "./breadth_workloads.ts";
import { option } from "./json.ts";
import { type Given, ordinaryPrograms } from "./ordinary_programs.ts";

/** What a call takes at least, in microseconds. */
const LEAST_CARD = 3, LEAST = 10;

function made(given: Given): Tensor {
  if (!("below" in given)) return Tensor.rand([...given]).sub(0.5).realize();
  return Tensor.rand([...given.shape]).mul(given.below).floor().cast("int32").realize();
}

if (import.meta.main) {
  const args = Deno.args, device = option(args, "device") ?? "CLANG", only = new RegExp(option(args, "only") ?? "");
  const open = await Device.open(device as "CLANG"), isCard = open.renderer.caps.hasGrid;
  const scale = (option(args, "scale") ?? (isCard ? "big" : "small")) as Scale;
  const until = performance.now() + 1e3 * Number(option(args, "seconds") ?? Infinity);
  Device.default = open.name;
  const gbs = rooflineOf(open)?.gbs ?? NaN, lines: [times: number, line: string][] = [];
  for (const { name, given, run } of ordinaryPrograms(scale)) {
    if (!only.test(name)) continue;
    if (performance.now() > until) {
      console.log(`${name} and those behind it: no time is left`);
      break;
    }
    try {
      const inputs = given.map(made), began = performance.now();
      const call = jit((...x: Tensor[]) => [run(...x)].flat() as Tensor[]);
      const first = call(...inputs);
      await first[0].data();
      const ms = performance.now() - began, nbytes = sum([...inputs, ...first].map((t) => t.nbytes()));
      const us = 1e3 * await timeOf(() => call(...inputs), open.name, false);
      const times = us / Math.max(nbytes / gbs / 1e3, isCard ? LEAST_CARD : LEAST);
      const line = `${times.toFixed(1).padStart(8)} ${name.padEnd(28)} ${us.toFixed(1).padStart(10)} us` +
        ` ${ms.toFixed(0).padStart(6)} ms at first`;
      lines.push([times, line]);
      console.log(line);
      for (const t of [...inputs, ...first]) t.dispose();
    } catch (error) {
      console.log(`${name}: ${error}`);
    }
  }
  lines.sort(([a], [b]) => b - a);
  console.log(["the furthest off first", ...lines.map(([, line]) => line)].join("\n"));
  Deno.exit(0);
}
