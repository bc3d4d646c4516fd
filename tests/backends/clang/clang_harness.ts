/** CLANG as its tests open it: a cache folder of their own, three threads. @module */
import { clangBackend } from "../../../backends/clang/clang.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Device } from "../../../src/device/device.ts";
import type { Launch } from "../../../src/device/program.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";

/** Whether there is no compiler here. */
export const ignore: boolean = clangBackend.unavailable() !== undefined;
/** Removed at the end. */
export const cacheFolder: string = ignore ? "" : Deno.makeTempDirSync({ prefix: "dinograd-test-" });
if (!ignore) addEventListener("unload", () => Deno.removeSync(cacheFolder, { recursive: true }));

/** A device whose objects are kept in `folder`. */
export function openAt(folder: string): Device {
  return context({ CACHEDIR: folder, THREADS: 3 }, () => clangBackend.open(0));
}

/** A test that is left out where there is no compiler. */
export function test(name: string, fn: () => void | Promise<void>): void {
  Deno.test({ name: `clang: ${name}`, ignore, fn });
}

/** A buffer with these bytes. */
export function bufferOf(on: Device, dtype: DType, view: ArrayBufferView): Buffer {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  return new Buffer(on, dtype, bytes.byteLength / dtype.itemsize).copyIn(bytes);
}

/** What a buffer of float32 holds. */
export function floats(buffer: Buffer): number[] {
  return [...new Float32Array(buffer.copyOut(new Uint8Array(buffer.nbytes)).buffer)];
}

/** One program, compiled. */
export function compileOne(on: Device, program: LinearProgram): Launch["program"] {
  return on.compiler.compile([program])[0];
}
