/**
 * What the engine can do, found by validating tiny modules: SIMD, relaxed SIMD, shared memory. Nothing is run.
 *
 * @module
 */
import { Bytes, encodeModule, V128 } from "./encoder.ts";

/** What this engine offers. */
export interface Features {
  /** 128-bit vectors. */
  readonly simd: boolean;
  /** Fused multiply-add and lane selection on vectors. */
  readonly relaxed: boolean;
  /** Memory shared between threads, with atomic instructions. */
  readonly threads: boolean;
}

/** Whether the engine takes a function of these instructions, of a vector and to one. */
function validates(code: Bytes): boolean {
  const types = [{ params: [V128], results: [V128] }] as const;
  const bytes = encodeModule({ types, imports: [], funcs: [{ type: 0, locals: [], code: code.take() }], exports: [] });
  return WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>);
}

let found: Features | undefined;

/** The engine's features; probed once. */
export function features(): Features {
  if (found !== undefined) return found;
  const get = (b: Bytes, n: number): Bytes => n === 0 ? b : get(b.i("local.get", 0), n - 1);
  const simd = validates(get(new Bytes(), 2).i("f32x4.add"));
  const fused = get(new Bytes(), 3).i("f32x4.relaxed_madd");
  const relaxed = simd && validates(get(fused, 2).i("i32x4.relaxed_laneselect"));
  return found = { simd, relaxed, threads: canShare() };
}

function canShare(): boolean {
  if (typeof SharedArrayBuffer === "undefined" || typeof Atomics === "undefined") return false;
  try {
    return new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}
