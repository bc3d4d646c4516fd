/**
 * Linear programs for grids against the JS device: inputs drawn at random, with everything that floats can be, and results
 * compared bit by bit where arithmetic is exact.
 */
import { assertEquals } from "@std/assert";
import { makeJsDevice } from "../../backends/js/js.ts";
import { Buffer } from "../../src/device/buffer.ts";
import { bf16BitsToF32, f32ToBf16Bits } from "../../src/dtype/convert.ts";
import { type DType, dtypeEpsilon, dtypes } from "../../src/dtype/dtype.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import type { Capabilities, LinearProgram } from "../../src/renderer/renderer.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { Random } from "../support/random.ts";

/** A device with everything that the programs use. */
export const caps: Capabilities = cudaCaps({ arch: "sm_90a", tf32: true });
const device = makeJsDevice(caps);

/** How the floats of a program's inputs are drawn. */
export type Draw = "whole" | "finite" | "any";
const SPECIAL = [NaN, Infinity, -Infinity, -0, 0, 1e-40, 3e38, -1];

/** What a program can take: sums in any order want whole numbers, conversions to integers finite ones. */
export function drawOf(p: LinearProgram): Draw {
  const isSum = p.uops.some((u) => u.op === Ops.WMMA || u.op === Ops.ACC);
  if (isSum) return "whole";
  return p.uops.some((u) => u.op === Ops.CAST && u.dtype.isInt && u.src[0].dtype.isFloat) ? "finite" : "any";
}

const random = new Random(1);

/** Bytes of `n` elements. Integers are never 0 (they divide), nor the least of their dtype. */
function bytesOf(d: DType, n: number, draw: Draw): Uint8Array {
  const view = new DataView(new ArrayBuffer(n * d.itemsize));
  for (let i = 0; i < n; i++) {
    const at = i * d.itemsize, whole = Math.floor(random.next() * 17) - 8;
    let x = draw === "whole"
      ? whole
      : draw === "any" && random.next() < 0.2
      ? SPECIAL[i % SPECIAL.length]
      : random.next() * 90 - 45;
    if (d.isBool) view.setUint8(at, random.next() < 0.5 ? 1 : 0);
    else if (d === dtypes.float16) view.setFloat16(at, x, true);
    else if (d === dtypes.bfloat16) view.setUint16(at, f32ToBf16Bits(x), true);
    else if (d === dtypes.float32) view.setFloat32(at, x, true);
    else if (d === dtypes.float64) view.setFloat64(at, x, true);
    else {
      const small = draw === "whole" ? whole : whole || 3,
        wide = Math.floor((random.next() - 0.5) * 2 ** Math.min(52, d.bits - 1));
      x = draw !== "whole" && random.next() < 0.5 ? wide || 1 : small;
      if (d.bits === 8) view.setInt8(at, x);
      else if (d.bits === 16) view.setInt16(at, x, true);
      else if (d.bits === 32) view.setInt32(at, x, true);
      else view.setBigInt64(at, BigInt(x) * (i % 3 === 0 ? 2039n : 1n), true);
    }
  }
  return new Uint8Array(view.buffer);
}

function valuesOf(d: DType, bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.byteLength / d.itemsize }, (_, i) => {
    const at = i * d.itemsize;
    if (d === dtypes.float16) return view.getFloat16(at, true);
    if (d === dtypes.bfloat16) return bf16BitsToF32(view.getUint16(at, true));
    return d === dtypes.float32 ? view.getFloat32(at, true) : view.getFloat64(at, true);
  });
}

/** Scalar arguments: as the JS device takes them, and 8 bytes each. */
function variables(p: LinearProgram): [number[], Uint8Array] {
  const view = new DataView(new ArrayBuffer(8 * p.vars.length));
  const values = p.vars.map((v, i) => {
    if (v.dtype === dtypes.float16) view.setFloat16(8 * i, 1, true);
    else if (v.dtype === dtypes.float32) view.setFloat32(8 * i, 1, true);
    else view.setUint8(8 * i, v.dtype.isInt ? 5 : 1);
    return v.dtype.isInt ? 5 : 1;
  });
  return [values, new Uint8Array(view.buffer)];
}

const FUNCTIONS: readonly number[] = [Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.MULACC];

/** Relative and absolute error that a program may have beyond the oracle, which rounds once from double precision. */
function toleranceOf(p: LinearProgram, d: DType): [number, number] {
  if (!p.uops.some((u) => FUNCTIONS.includes(u.op))) return [0, 0];
  const eps = dtypeEpsilon(d), isNatural = p.name === "natural_exponential"; // the oracle rounds the product
  return [(isNatural ? 64 : 4) * eps, d.bits >= 32 ? 2e3 * eps : 2e-38];
}

function compare(p: LinearProgram, d: DType, got: Uint8Array, want: Uint8Array): void {
  if (!d.isFloat) return assertEquals(got, want, p.name);
  const [relative, absolute] = toleranceOf(p, d), a = valuesOf(d, got), b = valuesOf(d, want);
  a.forEach((x, i) => {
    const isSame = Object.is(x, b[i]) || (x === b[i] && relative > 0);
    if (!isSame && !(Math.abs(x - b[i]) <= absolute + relative * Math.abs(b[i]))) {
      throw new Error(`${p.name}: element ${i} is ${x}, want ${b[i]}`);
    }
  });
}

/** Runs a program: changes the bytes of its buffers. `packed` has 8 bytes a variable. */
export type Run = (buffers: readonly Uint8Array[], vars: readonly number[], packed: Uint8Array) => void;

/** Runs a program elsewhere and on the JS device, on equal inputs. @throws {Error} where results differ */
export function checkProgram(p: LinearProgram, draw: Draw, run: Run): void {
  const [vars, packed] = variables(p);
  const inputs = p.params.map((b) => bytesOf(b.dtype, b.size, draw)), outputs = inputs.map((x) => x.slice());
  run(outputs, vars, packed);
  const buffers = p.params.map((b, i) => {
    const buffer = new Buffer(device, b.dtype, b.size);
    buffer.copyIn(inputs[i].slice());
    return buffer;
  });
  const [program] = device.compiler.compile([p]);
  device.run([{ program, buffers, vars }]);
  p.params.forEach((b, i) => {
    if (!b.writes) return;
    const want = new Uint8Array(inputs[i].byteLength);
    buffers[i].copyOut(want);
    compare(p, b.dtype, outputs[i], want);
  });
}

/** Checks all of them and gives what is wrong. */
export function checkPrograms(
  programs: readonly LinearProgram[],
  draw: (p: LinearProgram) => Draw,
  run: (k: number) => Run,
): string[] {
  const failed: string[] = [];
  programs.forEach((p, k) => {
    try {
      checkProgram(p, draw(p), run(k));
    } catch (error) {
      failed.push(`${p.name}: ${(error as Error).message.slice(0, 300)}`);
    }
  });
  return failed;
}
