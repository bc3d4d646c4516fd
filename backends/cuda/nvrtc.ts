/**
 * NVRTC, the compiler of CUDA C++ as a library: where it is looked for, and source to machine code.
 *
 * The search, first found first taken; a library is passed over, with the reason, where it does not know the card or is
 * of a newer major version than the driver:
 * 1. what NVRTC_PATH names, a file or the folder of one; then nothing else is tried
 * 2. the dynamic loader (LD_LIBRARY_PATH, ld.so.conf), newest version first
 * 3. `lib64` and `lib` of CUDA_PATH and CUDA_HOME
 * 4. /usr/local/cuda and /usr/local/cuda-*, newest first
 * 5. the wheels of Python (`nvidia/NAME/lib` of site-packages): of VIRTUAL_ENV, CONDA_PREFIX, of each Python on PATH, of the
 *    user, of the system
 *
 * Places 3 to 5 are looked at only where the permission to read is granted.
 *
 * @module
 */
import { cString, textOf } from "../../src/device/foreign.ts";
import { envText, readEnv } from "../../src/helpers/env.ts";
import { CompileError, DeviceError } from "../../src/helpers/errors.ts";
import { canRead, filesOf, inFolder, inWheels } from "./library_search.ts";
import { CompileThreads } from "./nvrtc_threads.ts";
import { versionText } from "./results.ts";
import { NVRTC_SYMBOLS } from "./symbols.ts";

type NvrtcLibrary = Deno.DynamicLibrary<typeof NVRTC_SYMBOLS>;

/** NVRTC libraries opened and programs compiled by this process: under PTX=1 both stay 0. */
export const nvrtcCounters: { opened: number; compiled: number } = { opened: 0, compiled: 0 };

/** Programs that are compiled beside the one on the calling thread, at most. */
const MOST_LANES = 31;

/** Names by which the loader may know it, newest first. */
const NAMES: readonly string[] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
const FILE = /^libnvrtc\.so(\.\d+)*$/;

/** Where to look, in order; later places are asked for only when the earlier ones gave nothing. */
function* candidates(): Generator<string> {
  const named = envText("NVRTC_PATH");
  if (named !== "") {
    const inside = canRead() ? inFolder(named, FILE) : [];
    return yield* inside.length > 0 ? inside : [named];
  }
  yield* NAMES;
  if (!canRead()) return;
  for (const root of [readEnv("CUDA_PATH"), readEnv("CUDA_HOME")]) {
    if (root) { for (const lib of ["lib64", "lib"]) yield* inFolder(`${root}/${lib}`, FILE); }
  }
  const versions = filesOf("/usr/local").filter((name) => name.startsWith("cuda-"));
  for (const root of ["cuda", ...versions]) yield* inFolder(`/usr/local/${root}/lib64`, FILE);
  yield* inWheels(FILE);
}

/** What the library must serve. */
export interface NvrtcTarget {
  /** 90 for compute capability 9.0. */
  readonly capability: number;
  /** Of the driver: 12040 for CUDA 12.4. */
  readonly driverVersion: number;
}

/** An opened NVRTC. */
export class Nvrtc {
  private readonly rt: NvrtcLibrary["symbols"];
  private readonly one: Int32Array<ArrayBuffer> = new Int32Array(1);
  private readonly word: BigUint64Array<ArrayBuffer> = new BigUint64Array(1);

  private constructor(
    /** As it was found. */
    readonly path: string,
    /** "13.0". */
    readonly version: string,
    private readonly library: NvrtcLibrary,
    private readonly builtins: Deno.DynamicLibrary<Record<never, never>> | undefined,
  ) {
    this.rt = library.symbols;
  }

  /** Opens one that serves `target`, or says why none does, one line a library. @throws {DeviceError} for NVRTC_PATH */
  static find(target: NvrtcTarget): Nvrtc | readonly string[] {
    const refused: string[] = [];
    for (const path of candidates()) {
      const found = Nvrtc.open(path, target);
      if (found instanceof Nvrtc) return found;
      if (found !== undefined) refused.push(found);
    }
    const named = envText("NVRTC_PATH");
    if (named === "") return refused;
    throw new DeviceError("open NVRTC", {
      device: "CUDA",
      reason: `NVRTC_PATH names ${named}, which is of no use: ${refused.join("; ") || "there is no such library"}; ` +
        "unset it to look elsewhere, or set PTX=1 to do without",
    });
  }

  /** The library at a path; why it is refused; undefined where there is none. */
  private static open(path: string, { capability, driverVersion }: NvrtcTarget): Nvrtc | string | undefined {
    let library: NvrtcLibrary;
    try {
      library = Deno.dlopen(path, NVRTC_SYMBOLS);
    } catch (error) {
      const { message } = error as Error;
      if (/cannot open shared object file: No such file/.test(message)) return undefined;
      return `${path}: ${message.replace(/^(Could not open library: )+/, "")}`;
    }
    nvrtcCounters.opened++;
    const { symbols: rt } = library, minor = new Int32Array(1), one = new Int32Array(1);
    const refuse = (why: string): string => {
      library.close();
      return `${path}: ${why}`;
    };
    if (rt.nvrtcVersion(one, minor) !== 0) return refuse("it does not tell its version");
    const version = one[0] * 1000 + minor[0] * 10;
    if (one[0] > Math.floor(driverVersion / 1000)) {
      return refuse(`version ${versionText(version)}, but the driver supports CUDA ${versionText(driverVersion)}`);
    }
    const known = rt.nvrtcGetNumSupportedArchs(one) === 0 ? new Int32Array(one[0]) : new Int32Array(0);
    if (known.length === 0 || rt.nvrtcGetSupportedArchs(known) !== 0 || !known.includes(capability)) {
      return refuse(`version ${versionText(version)} does not know sm_${capability}`);
    }
    return new Nvrtc(path, versionText(version), library, openBuiltins(path, versionText(version)));
  }

  /** Threads that compile with these options, as nvcc takes them. */
  threads(options: readonly string[]): CompileThreads {
    const { rt: { nvrtcCompileProgram } } = this;
    return new CompileThreads(
      this.path,
      options,
      nvrtcCompileProgram,
      Math.min(MOST_LANES, navigator.hardwareConcurrency - 1),
    );
  }

  /** Machine code of each source, or why there is none: the line at fault, the source and the log. */
  compile(
    sources: readonly string[],
    kernels: readonly string[],
    threads: CompileThreads,
  ): (Uint8Array<ArrayBuffer> | CompileError)[] {
    const { rt } = this, made = new BigUint64Array(1), programs: bigint[] = [];
    const refuse = (i: number, reason: string): CompileError =>
      new CompileError(`compile kernel ${kernels[i]} for CUDA`, {
        reason: `NVRTC ${this.version} ${reason}`,
        source: sources[i],
      });
    for (const [i, source] of sources.entries()) {
      if (rt.nvrtcCreateProgram(made, cString(source), cString(`${kernels[i]}.cu`), 0, 0n, 0n) !== 0) break;
      programs.push(made[0]);
    }
    nvrtcCounters.compiled += programs.length;
    const statuses = threads.run(programs);
    const images = programs.map((program, i) => {
      if (statuses[i] === 0) return this.image(program) ?? refuse(i, "made no machine code");
      return compileError(`NVRTC ${this.version}`, kernels[i], sources[i], this.log(program), statuses[i]);
    });
    for (const program of programs) {
      made[0] = program;
      rt.nvrtcDestroyProgram(made);
    }
    return sources.map((_, i) => images[i] ?? refuse(i, "takes no more programs"));
  }

  private image(program: bigint): Uint8Array<ArrayBuffer> | undefined {
    const { rt, word } = this;
    if (rt.nvrtcGetCUBINSize(program, word) !== 0 || word[0] === 0n) return undefined;
    const cubin = new Uint8Array(Number(word[0]));
    return rt.nvrtcGetCUBIN(program, cubin) === 0 ? cubin : undefined;
  }

  private log(program: bigint): string {
    const { rt, word } = this;
    if (rt.nvrtcGetProgramLogSize(program, word) !== 0 || word[0] === 0n) return "";
    const text = new Uint8Array(Number(word[0]));
    return rt.nvrtcGetProgramLog(program, text) === 0 ? textOf(text) : "";
  }

  /** Closes the library. */
  close(): void {
    this.library.close();
    this.builtins?.close();
  }
}

/**
 * NVRTC opens its builtins by their bare name when it first compiles. Where the loader does not look into their folder (a
 * wheel's) that works only if they have been opened before.
 */
function openBuiltins(path: string, version: string): Deno.DynamicLibrary<Record<never, never>> | undefined {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  if (folder === "") return undefined;
  try {
    return Deno.dlopen(`${folder}libnvrtc-builtins.so.${version}`, {});
  } catch {
    return undefined; // linked in, or where the loader finds them
  }
}

/** The first complaint in a log of NVRTC (`k.cu(3): error: ...`) or of the assembler (`line 3; error : ...`). */
const COMPLAINT = /\((\d+)\)\s*: (?:catastrophic )?error\s*:?\s*(.*)|line (\d+); (?:error|fatal)\s*: (.*)/;

/** The error of a source that was not taken: line, text and log. @param tool what did not take it */
export function compileError(tool: string, kernel: string, source: string, log: string, code: number): CompileError {
  const m = COMPLAINT.exec(log), line = m?.[1] ?? m?.[3], text = (m?.[2] ?? m?.[4])?.trim().replace(/\.$/, "");
  const at = line === undefined ? undefined : source.split("\n")[Number(line) - 1]?.trim();
  const first = log.trim().split("\n")[0];
  const reason = line === undefined
    ? `${tool} refuses it${first ? `: ${first}` : ` with status ${code}`}`
    : `${tool} says at line ${line}: ${text}${at ? `: ${at.slice(0, 120)}` : ""}`;
  return new CompileError(`compile kernel ${kernel} for CUDA`, { reason: reason.replace(/\.$/, ""), source, log });
}
