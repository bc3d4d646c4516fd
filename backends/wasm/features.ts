/**
 * What the engine can do, found by validating tiny modules: SIMD, relaxed SIMD, shared memory. Nothing is run.
 *
 * @module
 */
import { Bytes, encodeModule, type FuncBody, V128 } from "./encoder.ts";

/** What this engine offers. */
export interface Features {
  /** 128-bit vectors. */
  readonly simd: boolean;
  /** Fused multiply-add and lane selection on vectors. */
  readonly relaxed: boolean;
  /** Memory shared between threads, with atomic instructions. */
  readonly threads: boolean;
}

function validates(
  code: Bytes,
  type: { params: readonly (typeof V128)[]; results: readonly (typeof V128)[] },
): boolean {
  const body: FuncBody = { type: 0, locals: [], code: code.take() };
  const bytes = encodeModule({ types: [type], imports: [], funcs: [body], exports: [] });
  return WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>);
}

let found: Features | undefined;

/** The engine's features; probed once. */
export function features(): Features {
  if (found !== undefined) return found;
  const simd = validates(new Bytes().i("local.get", 0).i("local.get", 0).i("f32x4.add"), {
    params: [V128],
    results: [V128],
  });
  const relaxed = simd && validates(
    new Bytes().i("local.get", 0).i("local.get", 0).i("local.get", 0).i("f32x4.relaxed_madd").i("local.get", 0)
      .i("local.get", 0).i("i32x4.relaxed_laneselect"),
    { params: [V128], results: [V128] },
  );
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
