/**
 * What a device reaches at best with the code generated for it: arithmetic in a matrix product, bytes in one pass over
 * memory beyond its caches. Measured once for each device, when DEBUG=2 first prints a kernel.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { Buffer } from "../device/buffer.ts";
import type { Device } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { dtypes } from "../dtype/dtype.ts";
import { OutOfMemoryError } from "../helpers/errors.ts";
import { AxisKind } from "../uop/core/args.ts";
import { opCarrier, reduce } from "../uop/core/carrier.ts";
import { Ops } from "../uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../uop/core/uop.ts";
import { unwatched } from "../uop/rewrite/record.ts";
import { runTimed } from "./timing.ts";

/** The best rates that were reached. */
export interface Roofline {
  readonly gflops: number;
  readonly gbs: number;
}

/** Sizes: a square matrix product, elements of a pass over memory. Slow devices (the interpreter) stay at the first. */
const SMALL = { matrix: 64, elements: 1 << 16 } as const, LARGE = { matrix: 512, elements: 1 << 23 } as const;
/** The large probe is run where the small one promises that it takes no longer than this. */
const LONGEST_MS = 60;

const known = new Map<string, Roofline | undefined>();

function matmul(n: number): UOp {
  const f32 = dtypes.float32;
  const out = param(0, f32, n * n), a = param(1, f32, n * n), b = param(2, f32, n * n);
  const i = range(n, 0, AxisKind.LOOP), j = range(n, 1, AxisKind.LOOP), k = range(n, 2, AxisKind.REDUCE);
  const product = load(index(a, i.mul(n).add(k))).mul(load(index(b, k.mul(n).add(j))));
  return sink([store(index(out, i.mul(n).add(j)), reduce(opCarrier(Ops.ADD, f32), [product], [k]))]);
}

function pass(n: number): UOp {
  const f32 = dtypes.float32, i = range(n, 0, AxisKind.LOOP);
  return sink([store(index(param(0, f32, n), i), load(index(param(1, f32, n), i)).add(1))]);
}

/** The shortest of several runs, in ms; all that was queued has finished. */
function best(device: Device, program: Program, buffers: readonly Buffer[]): number {
  const launch = { program, buffers, vars: [] }, began = performance.now();
  let shortest = Infinity;
  for (let i = 0; i < 8 && performance.now() - began < LONGEST_MS; i++) {
    shortest = Math.min(shortest, runTimed(device, launch));
  }
  return shortest;
}

function probe(device: Device, { matrix, elements }: { readonly matrix: number; readonly elements: number }): Roofline {
  const [product, copy] = device.compiler.compile(
    [matmul(matrix), pass(elements)].map((ast) => toProgram(ast, device.renderer)),
  );
  const take = (n: number): Buffer => new Buffer(device, dtypes.float32, n);
  const square = [0, 1, 2].map(() => take(matrix * matrix)), rows = [0, 1].map(() => take(elements));
  try {
    for (const b of [...square, ...rows]) b.copyIn(new Uint8Array(b.nbytes));
    return {
      gflops: 2 * matrix ** 3 / best(device, product, square) / 1e6,
      gbs: 8 * elements / best(device, copy, rows) / 1e6,
    };
  } finally {
    for (const b of [...square, ...rows]) b.free(false);
  }
}

function measure(device: Device): Roofline | undefined {
  if (device.name === "NULL" || device.name === "DISK" || device.allocator.copyOut === undefined) return undefined;
  try {
    const small = probe(device, SMALL);
    const expectedMs = Math.max(2 * LARGE.matrix ** 3 / small.gflops, 8 * LARGE.elements / small.gbs) / 1e6;
    if (expectedMs > LONGEST_MS) return small;
    const large = probe(device, LARGE);
    return { gflops: Math.max(small.gflops, large.gflops), gbs: large.gbs };
  } catch (error) {
    if (error instanceof OutOfMemoryError) return undefined;
    throw error;
  }
}

/** The roofline of a device, measured at the first call; undefined where there is none to measure. */
export function rooflineOf(device: Device): Roofline | undefined {
  if (!known.has(device.name)) {
    known.set(device.name, undefined); // what is printed meanwhile has no share
    known.set(device.name, unwatched(() => measure(device)));
  }
  return known.get(device.name);
}
