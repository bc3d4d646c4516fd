/**
 * A CUDA driver that runs nothing and records everything (fixtures/fake_cuda.c), built by whatever C compiler there is:
 * the CUDA backend can be tested without a card.
 *
 * @module
 */
import { type CudaDevice, openCuda } from "../../../backends/cuda/cuda_device.ts";
import { findCompiler } from "../../../backends/clang/toolchain.ts";
import { context, type ContextValues } from "../../../src/helpers/env.ts";

const SYMBOLS = {
  fake_reset: { parameters: [], result: "void" },
  fake_set: { parameters: ["i32", "i64"], result: "void" },
  fake_alive: { parameters: ["i32"], result: "i64" },
  fake_most_compiling: { parameters: [], result: "i64" },
  fake_fail: { parameters: ["buffer", "i32", "i32"], result: "void" },
  fake_move: { parameters: ["u64", "u64", "u64", "u64"], result: "void" },
  fake_capturing: { parameters: [], result: "u64" },
  fake_log: { parameters: ["buffer", "i64"], result: "i64" },
} as const;

/** What can be set, in the order of the C source. */
const SETTINGS = [
  "version",
  "devices",
  "late",
  "freeBytes",
  "major",
  "nvrtcMajor",
  "noRegister",
  "peers",
  "compileMs",
] as const;
const KINDS = [
  "contexts",
  "streams",
  "events",
  "blocks",
  "pinned",
  "registered",
  "modules",
  "graphs",
  "executables",
  "programs",
] as const;

/** The fake, from the side of the test. */
export class FakeDriver {
  private readonly library: Deno.DynamicLibrary<typeof SYMBOLS>;

  constructor(readonly path: string) {
    this.library = Deno.dlopen(path, SYMBOLS);
    this.reset();
  }
  /** Forgets everything. */
  reset(): void {
    this.library.symbols.fake_reset();
    this.log();
  }
  set(name: (typeof SETTINGS)[number], value: number): void {
    this.library.symbols.fake_set(SETTINGS.indexOf(name), BigInt(value));
  }
  /** The call of `name` after the next `after` gives `code`. */
  fail(name: string, code: number, after: number = 0): void {
    this.library.symbols.fake_fail(new TextEncoder().encode(`${name}\0`), code, after);
  }
  /** Calls since the last time, one line each: name and arguments. */
  log(): string[] {
    const bytes = new Uint8Array(2 ** 22), n = Number(this.library.symbols.fake_log(bytes, BigInt(bytes.byteLength)));
    return new TextDecoder().decode(bytes.subarray(0, n)).split("\n").filter((l) => l !== "");
  }
  /** Names of calls since the last time; runs of one name are one. */
  calls(): string[] {
    return this.log().map((l) => l.split(" ")[0]).filter((name, i, all) => name !== all[i - 1]);
  }
  /** What was made and not destroyed. */
  alive(): Record<string, number> {
    const counts = KINDS.map((kind, i) => [kind, Number(this.library.symbols.fake_alive(i))] as const);
    return Object.fromEntries(counts.filter(([, n]) => n !== 0));
  }
  /** A device of the fake. NVRTC is the fake's too, unless `set` says otherwise. */
  open(ordinal: number = 0, set: ContextValues = {}): CudaDevice {
    return context({ CUDA_DRIVER_PATH: this.path, NVRTC_PATH: this.path, ...set }, () => openCuda(ordinal));
  }
  /** Copies bytes on a stream. */
  move(to: bigint, from: bigint, nbytes: bigint, stream: bigint): void {
    this.library.symbols.fake_move(to, from, nbytes, stream);
  }
  /** The stream that is captured; 0 where none is. */
  get capturing(): bigint {
    return this.library.symbols.fake_capturing();
  }
  /** Programs that NVRTC compiled at a time, at most. */
  mostCompiling(): number {
    return Number(this.library.symbols.fake_most_compiling());
  }
  close(): void {
    this.library.close();
  }
}

/** Whether the fake can be built here. */
export const canFake: boolean = Deno.build.os === "linux" && findCompiler() !== undefined;

/** Compiles the fake to `path`. */
export function buildFake(path: string, ...flags: string[]): void {
  const source = new URL("../../fixtures/fake_cuda.c", import.meta.url).pathname;
  const { code, stderr } = new Deno.Command(findCompiler()!, {
    args: ["-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", ...flags, "-o", path, source],
    stderr: "piped",
  }).outputSync();
  const log = new TextDecoder().decode(stderr);
  if (code !== 0 || log !== "") throw new Error(`the fake driver does not compile cleanly:\n${log}`);
}
