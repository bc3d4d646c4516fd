/**
 * What the tests of the WASM backend share: its devices beside the JS device, which says what is right, and programs
 * written line by line.
 *
 * @module
 */
import { assert } from "@std/assert";
import { jsBackend } from "../../../backends/js/js.ts";
import { wasmBackend, type WasmDevice } from "../../../backends/wasm/wasm_device.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Device } from "../../../src/device/device.ts";
import type { Program } from "../../../src/device/program.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, param, range, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { Random } from "../../support/random.ts";

/** WASM on two threads, and on one. */
export const device: WasmDevice = context({ THREADS: 2 }, () => wasmBackend.open(0)) as WasmDevice;
export const single: WasmDevice = context({ THREADS: 1 }, () => wasmBackend.open(1)) as WasmDevice;
/** What says which values are right. */
export const js: Device = jsBackend.open(0);
// helpers start lazily: here, so that no test seems to leak them
device.pool.start();

/** Typed arrays, as the tests compare them. */
export type View = Uint8Array | BigInt64Array;

/** Bytes as the typed array of a dtype. */
export function viewOf(d: DType, bytes: Uint8Array): View {
  const name = d.isFloat
    ? `Float${d.bits}Array`
    : `${d.bits === 64 ? "Big" : ""}${d.kind === "int" ? "Int" : "Uint"}${d.bits}Array`;
  const Class = (globalThis as unknown as Record<string, new (b: ArrayBufferLike) => View>)[name];
  return new Class(bytes.buffer);
}

/** Values as bytes. */
export function arrayOf(d: DType, values: readonly (number | bigint)[]): Uint8Array {
  const bytes = new Uint8Array(values.length * d.itemsize), view = viewOf(d, bytes);
  values.forEach((v, i) =>
    (view as unknown as (number | bigint)[])[i] = d.isInt && d.bits === 64 ? BigInt(v) : Number(v)
  );
  return bytes;
}

/** Compiles a program, whose module must be valid. */
export function compile(on: Device, linear: LinearProgram): Program {
  if (on === device || on === single) {
    const bytes = device.renderer.render(linear) as Uint8Array<ArrayBuffer>;
    assert(WebAssembly.validate(bytes), `${linear.name} does not validate`);
  }
  return on.compiler.compile([linear])[0];
}

/** Runs a program once; buffers by slot as bytes, slot 0 is read back. */
export function run(
  on: Device,
  linear: LinearProgram,
  data: readonly Uint8Array[],
  vars: (number | bigint)[] = [],
): Uint8Array {
  const program = compile(on, linear);
  const buffers = data.map((bytes, s) => {
    const d = linear.params[s].dtype;
    return new Buffer(on, d, bytes.length / d.itemsize).copyIn(bytes);
  });
  on.run([{ program, buffers, vars }]);
  const out = buffers[0].copyOut(new Uint8Array(data[0].length));
  buffers.forEach((b) => b.free());
  return out;
}

/** An ordered list: sources first, effects in the order of `add`. */
export class Lines {
  readonly list: UOp[] = [];
  private readonly seen = new Set<UOp>();
  add(u: UOp): UOp {
    if (this.seen.has(u)) return u;
    this.seen.add(u);
    // an accumulator stands before its loops
    for (const s of u.op === Ops.ACC ? u.src.slice(0, 1) : u.src) this.add(s);
    this.list.push(u);
    return u;
  }
  end(r: UOp): void {
    this.list.push(uop(Ops.END, dtypes.void, [r]));
  }
}

/** out[i] = f(in1[i], in2[i], ...) over n elements, `lanes` at a time. */
export function elementwise(
  name: string,
  out: DType,
  ins: readonly DType[],
  n: number,
  lanes: number,
  f: (x: UOp[]) => UOp,
): LinearProgram {
  const l = new Lines();
  const i = l.add(range(n / lanes, 0, AxisKind.LOOP));
  const at = i.mul(lanes);
  const values = ins.map((d, s) => l.add(uop(Ops.LOAD, d.vec(lanes), [index(param(s + 1, d, n), at)])));
  l.add(store(index(param(0, out, n), at), f(values)));
  l.end(i);
  return programOf(name, l.list);
}

const SPECIAL = [0, -0, 1, -1, 0.5, -2.5, 3.75, 1e10, -1e10, Infinity, -Infinity, NaN, 127.6, -128.4, 65535, 1e-40];
const numbers = new Random(12345);
/** A number in [0, 1), the next of one sequence. */
export function random(): number {
  return numbers.next();
}
/** `n` values of a dtype, the same ones for each run; of floats the special ones, in order where `salt` is 0. */
export function sample(d: DType, n: number, salt: number): Uint8Array {
  const values = Array.from({ length: n }, (_, i): number | bigint => {
    if (d.isBool) return (i >> salt) & 1;
    if (d.isFloat) return salt === 0 ? SPECIAL[i % SPECIAL.length] : SPECIAL[(i * 7 + (i >> 4)) % SPECIAL.length];
    const small = (i >> (salt * 2)) % 5 - 2;
    if (i % 3 === 0) return small;
    const r = random() * 2 ** 53;
    return d.bits === 64 ? BigInt(Math.floor(r)) * 2654435761n * (i & 1 ? 1n : -1n) : Math.floor(r / 2 ** (i % 53));
  });
  return arrayOf(d, values);
}
