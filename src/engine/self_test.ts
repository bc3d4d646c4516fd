/**
 * What a device runs when it is first used: an elementwise kernel, a sum and a matrix product, with exact results. A
 * device that gets them wrong is refused.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { Buffer } from "../device/buffer.ts";
import type { Device } from "../device/device.ts";
import { dtypes } from "../dtype/dtype.ts";
import { DeviceError } from "../helpers/errors.ts";
import { AxisKind } from "../uop/core/args.ts";
import { opCarrier, reduce } from "../uop/core/carrier.ts";
import { Ops } from "../uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../uop/core/uop.ts";
import { unwatched } from "../uop/rewrite/record.ts";
import { compiling } from "./front/runners.ts";

const N = 16;

interface Case {
  readonly name: string;
  readonly ast: UOp;
  readonly outSize: number;
  readonly expected: (a: Float32Array, b: Float32Array) => Float32Array;
}

function cases(): Case[] {
  const f32 = dtypes.float32;
  const a = param(1, f32, N * N), b = param(2, f32, N * N);
  const i = range(N, 0, AxisKind.LOOP), j = range(N, 1, AxisKind.LOOP), k = range(N, 2, AxisKind.REDUCE);
  const flat = i.mul(N).add(j);
  const out = param(0, f32, N * N), column = param(0, f32, N);
  const add = store(index(out, flat), load(index(a, flat)).add(load(index(b, flat))));
  const inRow = i.mul(N).add(k);
  const sum = store(
    index(column, i),
    reduce(opCarrier(Ops.ADD, f32), [load(index(a, inRow)).mul(load(index(b, inRow)))], [k]),
  );
  const product = load(index(a, inRow)).mul(load(index(b, k.mul(N).add(j))));
  const matmul = store(index(out, flat), reduce(opCarrier(Ops.ADD, f32), [product], [k]));
  return [
    { name: "add", ast: sink([add]), outSize: N * N, expected: (x, y) => x.map((v, n) => v + y[n]) },
    {
      name: "sum",
      ast: sink([sum]),
      outSize: N,
      expected: (x, y) =>
        Float32Array.from(
          { length: N },
          (_, r) => x.subarray(r * N, r * N + N).reduce((s, v, c) => s + v * y[r * N + c], 0),
        ),
    },
    {
      name: "matmul",
      ast: sink([matmul]),
      outSize: N * N,
      expected: (x, y) =>
        Float32Array.from({ length: N * N }, (_, n) => {
          let s = 0;
          for (let z = 0; z < N; z++) s += x[(n / N | 0) * N + z] * y[z * N + n % N];
          return s;
        }),
    },
  ];
}

/** The kernels of the test, running on a device. */
class Running {
  private readonly made: Buffer[] = [];
  private readonly all: readonly Case[] = cases();
  // small integers: every sum is exact, in any order
  private readonly a: Float32Array = Float32Array.from({ length: N * N }, (_, n) => (n * 7) % 13 - 6);
  private readonly b: Float32Array = Float32Array.from({ length: N * N }, (_, n) => (n * 5) % 11 - 5);
  /** What the kernels write. */
  readonly outs: readonly Buffer[];

  constructor(private readonly device: Device) {
    const programs = device.compiler.compile(
      this.all.map(({ ast }) => compiling.lowered.before(ast, device, () => toProgram(ast, device.renderer))),
    );
    compiling.lowered.keep(programs);
    try {
      const left = this.upload(this.a), right = this.upload(this.b);
      this.outs = this.all.map((c) => this.upload(new Float32Array(c.outSize).fill(NaN)));
      device.run(this.outs.map((out, n) => ({ program: programs[n], buffers: [out, left, right], vars: [] })));
    } catch (error) {
      this.free();
      throw error;
    }
  }

  private upload(x: Float32Array): Buffer {
    const bytes = new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
    const buffer = new Buffer(this.device, dtypes.float32, x.length);
    this.made.push(buffer);
    return buffer.copyIn(bytes);
  }

  /** Compares what was read, by kernel; the first that is wrong, as an error. */
  check(results: readonly Uint8Array[]): DeviceError | undefined {
    for (const [n, c] of this.all.entries()) {
      const got = new Float32Array(results[n].buffer), want = c.expected(this.a, this.b);
      const bad = want.findIndex((v, m) => v !== got[m]);
      if (bad < 0) continue;
      const { name } = this.device;
      return new DeviceError(`use device ${name}`, {
        device: name,
        reason: `its self-test "${c.name}" gave ${got[bad]} instead of ${
          want[bad]
        } at element ${bad}; results of this device cannot be trusted`,
      });
    }
    return undefined;
  }

  free(): void {
    for (const buffer of this.made) buffer.free();
  }
}

/** Runs the test on a device that reads synchronously; what it gets wrong, as an error. */
export function selfTest(device: Device): DeviceError | undefined {
  if (device.allocator.copyOut === undefined || /^NULL\b/.test(device.name) || device.name === "DISK") return undefined;
  const test = unwatched(() => new Running(device));
  try {
    return test.check(test.outs.map((out) => out.copyOut(new Uint8Array(out.nbytes))));
  } finally {
    test.free();
  }
}

/** As {@linkcode selfTest}, on a device that reads only asynchronously. */
export async function selfTestAsync(device: Device): Promise<DeviceError | undefined> {
  if (device.allocator.copyOut !== undefined) return undefined;
  const test = unwatched(() => new Running(device));
  try {
    return test.check(await Promise.all(test.outs.map((out) => out.copyOutAsync(new Uint8Array(out.nbytes)))));
  } finally {
    test.free();
  }
}
