/**
 * What the tests of the CUDA backend share: a device on a driver that records its calls, small kernels for it, and what
 * every test asserts: that all is freed at the end.
 *
 * @module
 */
import assert from "node:assert/strict";
import { cudaBackend } from "../../../backends/cuda/cuda.ts";
import type { CudaDevice } from "../../../backends/cuda/cuda_device.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Launch } from "../../../src/device/program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import type { ContextValues } from "../../../src/helpers/env.ts";
import { DeviceError } from "../../../src/helpers/errors.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, int, load, param, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { buildFake, canFake, FakeDriver } from "./cuda_fake.ts";

/** A folder of the test's own, removed at the end; empty where nothing can be built. */
export const folder: string = canFake ? Deno.makeTempDirSync({ prefix: "dinograd-test-" }) : "";
/** The driver that records its calls. */
export let fake: FakeDriver;
if (canFake) {
  buildFake(`${folder}/libfake.so`);
  fake = new FakeDriver(`${folder}/libfake.so`);
  addEventListener("unload", () => {
    fake.close();
    Deno.removeSync(folder, { recursive: true });
  });
}

cudaBackend.unavailable(); // where there is a driver, it stays open: not within a test

/** A test of the fake driver; ignored where there is no compiler to build it. */
export function test(name: string, fn: () => void | Promise<void>): void {
  Deno.test({ name: `CUDA: ${name}`, ignore: !canFake, fn });
}

let caches = 0;
/** Runs `fn` on a fresh device with an empty cache of kernels; everything must be freed at the end. */
export async function withDevice(
  fn: (device: CudaDevice) => void | Promise<void>,
  set: ContextValues = {},
  prepare: () => void = () => {},
): Promise<void> {
  fake.reset();
  prepare();
  const device = fake.open(0, { CACHEDIR: `${folder}/cache${caches++}`, ...set });
  try {
    await fn(device);
  } finally {
    device.close();
  }
  assert.deepEqual(fake.alive(), {}, "all is freed on close");
}

const f32 = dtypes.float32;

/** The nodes below `roots`, sources before users. */
export function ordered(roots: readonly UOp[]): UOp[] {
  const seen = new Set<UOp>(), out: UOp[] = [];
  const visit = (u: UOp): void => {
    if (seen.has(u)) return;
    seen.add(u);
    u.src.forEach(visit);
    out.push(u);
  };
  roots.forEach(visit);
  return out;
}

/** out[i] = in[i] + extra, over groups of 32 threads; `groups` a constant or an expression of variables. */
export function gridProgram(
  name: string,
  groups: UOp,
  extra: (i: UOp) => UOp = () => int(1),
  size = 64,
): LinearProgram {
  const g = uop(Ops.SPECIAL, dtypes.int32, [groups], "gidx0"), l = uop(Ops.SPECIAL, dtypes.int32, [int(32)], "lidx0");
  const i = g.mul(32).add(l);
  const value = load(index(param(1, f32, size), i)).add(uop(Ops.CAST, f32, [extra(i)]));
  return programOf(name, ordered([store(index(param(0, f32, size), i), value)]));
}

/** Buffers of so many float32, of zeros. */
export function buffersOn(device: CudaDevice, ...sizes: number[]): Buffer[] {
  return sizes.map((n) => new Buffer(device, f32, n).copyIn(new Uint8Array(4 * n)));
}

/** A launch with buffers of its own. */
export function launchOf(device: CudaDevice, linear: LinearProgram, vars: readonly (number | bigint)[] = []): Launch {
  const buffers = linear.params.map((p) => new Buffer(device, p.dtype, p.size));
  return { program: device.compiler.compile([linear])[0], buffers, vars };
}

/** The bytes of a little-endian address, as the log prints them. */
export function addressText(buffer: Buffer): string {
  const { address } = buffer.memory as unknown as { readonly address: bigint };
  const bytes = new Uint8Array(new BigUint64Array([address + BigInt(buffer.offset)]).buffer);
  return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** What `act` throws. */
export function errorOf(act: () => unknown): Error {
  try {
    act();
  } catch (error) {
    return error as Error;
  }
  throw new assert.AssertionError({ message: "no error" });
}

/** Opening fails with this reason, and nothing is left open. */
export function refusesToOpen(reason: string | RegExp, ordinal = 0, set: ContextValues = {}): void {
  const error = errorOf(() => fake.open(ordinal, set));
  assert.ok(error instanceof DeviceError, error.stack);
  if (typeof reason === "string") assert.equal(error.message, reason);
  else assert.match(error.message, reason);
  assert.deepEqual(fake.alive(), {});
}
