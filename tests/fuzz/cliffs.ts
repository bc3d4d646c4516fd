/**
 * Kernels that take many times what their arithmetic does: random ones of every family, and ordinary programs of all kinds,
 * compiled for machines that are not there. On loops none goes around more often than the kernel has iterations before it
 * is optimized (loops that shall follow each other stood in each other once); on a grid none takes many times as long, by
 * the model of the machine, as the memory and the arithmetic of the whole program would (a sum of two sums had one thread
 * once).
 *
 *     deno run -A --no-check tests/fuzz/cliffs.ts [--count N] [--seed S]
 *
 * @module
 */
import { CompiledKernel, schedule, Tensor } from "../../mod.ts";
import { proposalsFor } from "../../src/codegen/choose/choose.ts";
import { beforeOpts } from "../../src/codegen/passes.ts";
import { sum } from "../../src/helpers/math.ts";
import { hasPhases } from "../../src/uop/algebra/row_phases.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { iterationsOf, ownRanges, rangesOf } from "../../src/uop/core/ranges.ts";
import { toposort, type UOp } from "../../src/uop/core/uop.ts";
import { parseArgs } from "../support/parse_args.ts";
import { openObserving } from "../support/snapshot_writers.ts";
import { Draw, FAMILIES } from "./kernels.ts";

type Make = (empty: (...shape: number[]) => Tensor) => Tensor[];

/** Iterations more than the kernel has: of what is computed once for many, and of rests of loops. */
const SLACK = 4;
/** GB/s and GFLOP/s of a card, and microseconds of a launch, for the least that a program takes. */
const GBS = 4200, GFLOPS = 45_000, LAUNCH = 3;
/** Times that it may take. */
export const TIMES = 4;

/** How often the loops of a list go around, all together; undefined where only a run knows. */
function goesAround(uops: readonly UOp[]): number | undefined {
  let now = 1, all = 0;
  const open: number[] = [];
  for (const u of uops) {
    if (u.op === Ops.RANGE) {
      if (u.src[0].op !== Ops.CONST) return undefined;
      open.push(now);
      all += now *= Number(u.src[0].value);
    } else if (u.op === Ops.END) now = open.pop()!;
  }
  return all;
}

/** How often the loops of a kernel go around as it is written. */
function asWritten(ast: UOp): number {
  const reduces = toposort(ast).filter((u) => u.op === Ops.REDUCE || u.op === Ops.STAGE);
  const inside = sum(reduces.map((u) => iterationsOf([...rangesOf(u), ...ownRanges(u)])));
  return inside + sum(ast.src.map((s) => iterationsOf(rangesOf(s))));
}

/** Kernels of a program, compiled for a machine. */
function kernelsOf(
  writer: string,
  make: Make,
): { device: ReturnType<typeof openObserving>; kernels: CompiledKernel[]; results: Tensor[] } {
  const device = openObserving(writer), results = make((...shape) => Tensor.empty(shape, { device: device.name }));
  const runners = schedule(results).map((i) => i.runner);
  return { device, results, kernels: runners.filter((r): r is CompiledKernel => r instanceof CompiledKernel) };
}

/** Kernels whose loops go around too often. */
export function tooOften(writer: "CLANG" | "WASM", make: Make): string[] {
  return kernelsOf(writer, make).kernels.flatMap(({ program: { linear }, ast }) => {
    const times = goesAround(linear.uops), written = asWritten(ast);
    if (times === undefined || written === 0 || hasPhases(ast)) return [];
    return times > SLACK * written + 64
      ? [`${linear.name}: ${times} iterations for ${written}, by ${linear.opts}`]
      : [];
  });
}

/** What a program takes on a card by the model, over what its memory and arithmetic take. */
export function timesTheLeast(make: Make): number {
  const { device: { renderer }, kernels, results } = kernelsOf("CUDA", make);
  const made = sum(results.map((t) => t.nbytes())), flops = sum(kernels.map((k) => k.program.linear.flops));
  const most = Math.max(...kernels.map((k) => k.program.linear.bytes));
  const least = Math.max(LAUNCH, Math.max(made, most) / GBS / 1e3, flops / GFLOPS / 1e3);
  const took = sum(kernels.map((k) => proposalsFor(beforeOpts(k.ast, renderer), renderer.caps)[0]?.cost ?? 0));
  return took / least;
}

const gradient = (f: (x: Tensor) => Tensor, x: Tensor): Tensor[] => f(x).square().sum().gradient([x]);

/** Ordinary programs of few kernels, none of which is done on chip in phases. */
export const ORDINARY: Readonly<Record<string, Make>> = {
  "a sum of sums": (e) => [e(4096, 4096).square().sum().add(e(1024, 4096).square().sum())],
  "three sums of little": (e) => [e(300_000).sum().add(e(70_000).sum()).add(e(9).sum())],
  "gradients clipped by their norm": (e) => {
    const [a, b] = [e(2048, 2048), e(2048, 512)], norm = a.square().sum().add(b.square().sum()).sqrt();
    const by = norm.add(1e-6).reciprocal().minimum(1);
    return [a.mul(by), b.mul(by)];
  },
  "a sum over a maximum": (e) => {
    const x = e(4096, 4096);
    return [x.sum().div(x.max())];
  },
  "two sums of long rows": (e) => [e(64, 500_000).sum(-1).add(e(64, 500_000).max(-1))],
  "a trace": (e) => [e(4096, 4096).trace()],
  "sums of long columns": (e) => [e(65_536, 512).sum(0)],
  "few columns": (e) => [e(65_536, 4).sum(0)],
  "a quarter of a million": (e) => [e(262_144).sum()],
  "means of parts of images": (e) => gradient((x) => x.adaptiveAvgPool2d(7), e(64, 64, 112, 112)),
  "a convolution between strides": (
    e,
  ) => [e(64, 64, 28, 28).convTranspose2d(e(64, 32, 2, 2), undefined, { stride: 2 })],
  "standardized": (e) => {
    const x = e(4096, 4096);
    return [x.sub(x.mean()).div(x.std())];
  },
};

/** Ordinary programs for loops, of all that has stood wrong. */
export const LOOPS: Readonly<Record<string, Make>> = {
  "a spectrum of frames": (e) => [e(8, 65_536).stft(512, { hopLength: 128 }).viewAsReal().contiguous()],
  "a spectrum of rows": (e) => [e(64, 512).stft(64).viewAsReal().contiguous()],
  "gradients of maxima": (e) => gradient((x) => x.maxPool2d(3, { stride: 2, padding: 1 }), e(4, 8, 56, 56)),
  "larger pictures": (e) => gradient((x) => x.interpolate([56, 56]), e(4, 8, 28, 28)),
};

/** What is found in `count` random programs: their loops. */
export function findIn(count: number, seed: number): string[] {
  const names = Object.keys(FAMILIES), out: string[] = [];
  for (let i = 0; i < count; i++) {
    const family = names[i % names.length], writer = i % 2 === 0 ? "CLANG" : "WASM";
    const make: Make = (empty) => FAMILIES[family](new Draw(seed + i, 1 << 16), empty).results;
    out.push(...tooOften(writer, make).map((t) => `${family} ${seed + i} on ${writer}: ${t}`));
  }
  return out;
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["count", "seed"] }), count = Number(args.count ?? 500);
  const found = findIn(count, Number(args.seed ?? 1));
  console.log([...found, `${count} programs, ${found.length} findings`].join("\n"));
  Deno.exit(found.length > 0 ? 1 : 0);
}
