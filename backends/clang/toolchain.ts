/**
 * The C compiler: finding it without asking for anything, what it and the processor offer, and running several at once.
 *
 * @module
 */
import { isGranted, whyNoForeignCode } from "../../src/device/foreign.ts";
import { cacheRoot } from "../../src/device/host_files.ts";
import { digest, type ObjectCache, temporaryOf } from "../../src/device/object_cache.ts";
import { envText, readEnv } from "../../src/helpers/env.ts";
import { CompileError, DeviceError } from "../../src/helpers/errors.ts";

/** Compiler processes started, kernels compiled, and sources rendered to be looked for by this process. */
export const clangCounters: { compilers: number; kernels: number; rendered: number } = {
  compilers: 0,
  kernels: 0,
  rendered: 0,
};

const NEWEST = 25, OLDEST = 14;

function candidates(): string[] {
  const names: string[] = [];
  for (let v = NEWEST; v >= OLDEST; v--) names.push(`clang-${v}`);
  return [...names, "clang", "gcc", "cc"];
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** What changes the libraries of a program. Where not all may be run, Deno runs none that these are set for. */
const LOADING = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"];

/** Runs a program to its end; of its output is kept what is asked for. @throws what Deno throws where it cannot start */
function runProgram(
  path: string,
  args: string[],
  stdout: "piped" | "null",
  stderr: "piped" | "null",
): Deno.CommandOutput {
  const env = isGranted({ name: "run" }) ? {} : Object.fromEntries(LOADING.map((name) => [name, ""]));
  return new Deno.Command(path, { args, env, stdin: "null", stdout, stderr }).outputSync();
}

/** Whether a program is there and may be started. Where its file may not be looked at, starting it tells. */
function isCompiler(path: string): boolean {
  if (isGranted({ name: "read", path })) return isFile(path) && mayRun(path);
  if (!mayRun(path)) return false;
  try {
    return runProgram(path, ["--version"], "null", "null").success;
  } catch {
    return false;
  }
}
function mayRun(command: string): boolean {
  return isGranted({ name: "run", command });
}

/** The path of the compiler: what CC names, else the newest clang, else gcc or cc, of those that may be run. */
export function findCompiler(): string | undefined {
  const folders = (readEnv("PATH") || "/usr/bin:/usr/local/bin").split(":").filter((f) => f.startsWith("/"));
  const named = envText("CC");
  if (named.includes("/")) return isCompiler(named) ? named : undefined;
  for (const name of named !== "" ? [named] : candidates()) {
    for (const folder of folders) if (isCompiler(`${folder}/${name}`)) return `${folder}/${name}`;
  }
  return undefined;
}

const PERMISSIONS = ["ffi", "run", "read", "write"] as const;

/** The permissions that are missing: each may be granted for the cache folder alone, running for a compiler alone. */
function missingPermissions(): string[] {
  const path = cacheRoot();
  return PERMISSIONS.filter((name) => {
    if (isGranted({ name })) return false;
    if (name === "run") return findCompiler() === undefined;
    return path === undefined || !isGranted({ name, path });
  });
}

/** Why the CLANG device cannot open here, or undefined. Asks for no permission. */
export function whyUnavailable(): string | undefined {
  const why = whyNoForeignCode();
  if (why !== undefined) return why;
  if (Deno.build.os === "windows") return "it needs Linux or macOS";
  const missing = missingPermissions();
  if (missing.length > 0) return `it needs ${missing.map((name) => `--allow-${name}`).join(" ")}`;
  if (findCompiler() !== undefined) return undefined;
  const named = envText("CC");
  const what = named !== "" ? `the C compiler that CC names, ${named}, was not found` : "no C compiler was found";
  return `${what}; install one with "apt-get install clang-19" or "xcode-select --install", or set CC to its path`;
}

/** What a compiler is and what it can make here. */
export interface Toolchain {
  readonly path: string;
  /** As the compiler states it. */
  readonly version: string;
  /** Names of the predefined macros that matter, with -march=native. */
  readonly macros: ReadonlySet<string>;
  /** Those after -mllvm go where it turns out that the compiler does not know them. */
  flags: readonly string[];
}

/** Identifies the file of a compiler, without running it where the file may be looked at. */
export function compilerIdentity(path: string): string {
  if (!isGranted({ name: "read", path })) {
    const { stdout } = runProgram(path, ["--version"], "piped", "null");
    return digest(`${path} ${new TextDecoder().decode(stdout)}`);
  }
  const { size, mtime } = Deno.statSync(path);
  return digest(`${path} ${size} ${mtime?.getTime() ?? 0}`);
}

/** The build of Deno; elsewhere (in a browser) this module loads, too, and its device says that it cannot open. */
const build: { readonly arch?: string; readonly os?: string } = globalThis.Deno?.build ?? {};
const NATIVE = build.arch === "aarch64" ? "-mcpu=native" : "-march=native";
const MACROS = [
  "__AVX512F__",
  "__AVX512VL__",
  "__AVX2__",
  "__FMA__",
  "__FLT16_MANT_DIG__",
  "__ARM_FEATURE_FMA",
  "__ARM_NEON",
];
const LINK: readonly string[] = build.os === "darwin"
  ? ["-shared", "-undefined", "dynamic_lookup"]
  : ["-shared", "-nostdlib"];
/** NaN and infinity keep their meaning: no -ffast-math, only what changes no value but for contraction to FMA. */
const FLAGS: readonly string[] = [
  ...["-x", "c", "-std=gnu11", "-O2", "-fPIC", "-w", NATIVE],
  ...["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fno-stack-protector"],
];

/**
 * Kernels are vectors already; what gcc's loop vectorizer adds is small, and it is wrong where it turns conditional reads
 * of several neighbors in a loop into one read under a mask (gcc 11 and 12, with -fno-trapping-math: lanes of others).
 */
const GCC_FLAGS: readonly string[] = ["-fno-tree-loop-vectorize"];

/**
 * Kernels are vectors already, and their stores as wide as they can be: looking for more costs much time where a kernel
 * writes hundreds of single lanes. Options after -mllvm are left out for a compiler that does not know them.
 */
const CLANG_FLAGS: readonly string[] = ["-fno-slp-vectorize", "-mllvm", "-combiner-store-merging=false"];

/** Flags for the runtime: for any processor of this architecture. */
const RUNTIME_FLAGS: readonly string[] = ["-x", "c", "-std=gnu11", "-O2", "-fPIC", "-w"];
/** What the runtime is linked with, after the source. */
export const RUNTIME_LIBRARIES: readonly string[] = build.os === "darwin" ? [] : ["-lpthread", "-ldl"];
/** The commands that make `made` of the source of the runtime. */
export function runtimeCommands(path: string, source: string, made: string): Pick<Job, "args" | "next"> {
  const object = `${made}.o`, linked = ["-shared", "-o", made, object, ...RUNTIME_LIBRARIES, "-lc"];
  if (!linksApart()) return { args: [path, ...RUNTIME_FLAGS, "-shared", "-o", made, source, ...RUNTIME_LIBRARIES] };
  // a linker that is asked by itself is to refuse where something is in no library
  return {
    args: [path, ...RUNTIME_FLAGS, "-c", "-o", object, source],
    next: [["ld", "-z", "defs", ...linked], [path, ...linked]],
  };
}

/** The arguments that print the predefined macros. */
export const PROBE_ARGS: readonly string[] = [NATIVE, "-dM", "-E", "-x", "c", "/dev/null"];

/** Reads what {@linkcode PROBE_ARGS} printed. */
export function parseProbe(path: string, text: string): Toolchain {
  const macros = new Set(MACROS.filter((m) => text.includes(`#define ${m} `)));
  const version = /#define __VERSION__ "(.*)"/.exec(text)?.[1] ?? "unknown";
  const wide = macros.has("__AVX512F__") ? ["-mprefer-vector-width=512"] : [];
  const own = /clang/i.test(version) ? CLANG_FLAGS : GCC_FLAGS;
  return { path, version, macros, flags: [...FLAGS, ...own, ...wide, ...LINK] };
}

/**
 * One process to start: its arguments, where its output goes, and what to do with the result. Its files are in a folder
 * that is removed afterwards (`ObjectCache.inFolder`).
 */
export interface Job {
  readonly args: readonly string[];
  /** Commands that go on with what it has made: those after the first are for where that one fails. Only by a shell. */
  readonly next?: readonly (readonly string[])[];
  /** File for standard output, if it is wanted. */
  readonly stdout?: string;
  /** File that the process writes, and its name when it is complete. */
  readonly made?: string;
  readonly final?: string;
  /** File for the log. */
  readonly log: string;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Gives what a job has made its name. */
function complete({ made, final }: Job): void {
  if (final !== undefined && isFile(made!)) Deno.renameSync(made!, final);
}

/** One job after the other, where the compiler may be started and no shell. */
function runEach(jobs: readonly Job[]): void {
  for (const job of jobs) {
    const { args, stdout, log } = job, result = runProgram(args[0], args.slice(1), "piped", "piped");
    Deno.writeFileSync(log, result.stderr);
    if (stdout !== undefined) Deno.writeFileSync(stdout, result.stdout);
    if (result.success) complete(job);
  }
}

/**
 * Ends a shell's script: what it makes in a folder of this process goes with the process, if that is interrupted while the
 * compilers run, or killed.
 */
function cleaning(folder: string): [before: string, after: string] {
  const remove = `rm -rf ${quote(folder)}`;
  return [`trap '' HUP; trap ${quote(`${remove}; exit 1`)} INT TERM\n`, `\nkill -0 $PPID 2>/dev/null || ${remove}`];
}

/** Starts all jobs at once and waits for them; a job that fails leaves its log and makes nothing. */
export function runAll(jobs: readonly Job[]): void {
  clangCounters.compilers += jobs.length;
  if (!mayRun("/bin/sh")) return runEach(jobs);
  const { log } = jobs[0], [before, after] = cleaning(temporaryOf(log) ?? log.slice(0, log.lastIndexOf("/")));
  const words = (args: readonly string[]): string => args.map(quote).join(" ");
  // the shell says which have succeeded
  const script = jobs.map((j, i) => {
    const first = `${words(j.args)} 2>${quote(j.log)} >${quote(j.stdout ?? "/dev/null")}`;
    const log = (k: number): string => quote(k < j.next!.length - 1 ? "/dev/null" : j.log); // the last one tells
    const next = (j.next ?? []).map((args, k) => `${words(args)} 2>>${log(k)} >/dev/null`).join(" || ");
    return `(${next === "" ? first : `${first} && { ${next}; }`} && echo ${i}) </dev/null &`;
  });
  let said: Uint8Array;
  try {
    // the linker is found even where PATH leads nowhere
    const text = `PATH="$PATH:/usr/local/bin:/usr/bin:/bin"\n${before}${script.join("\n")}\nwait${after}`;
    said = runProgram("/bin/sh", ["-c", text], "piped", "null").stdout;
  } catch (error) {
    throw new DeviceError("start the C compiler", { device: "CLANG", reason: String(error), cause: error });
  }
  for (const i of new TextDecoder().decode(said).match(/\d+/g) ?? []) complete(jobs[Number(i)]);
}

/** A source to compile, with the symbols that it defines. */
export interface Unit {
  readonly source: string;
  readonly symbols: readonly (readonly [key: string, symbol: string])[];
}

/** A unit that the compiler rejected. */
export interface Failure {
  readonly unit: Unit;
  readonly log: string;
}

/** What LLVM says of an option that it does not have. */
const UNKNOWN_OPTION = /unknown command line argument/i;

/** "file:line: error: text": a fault of the source. */
const LOCATED = /^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$/m;

/**
 * Compiles units in parallel into `cache`, the ones that succeed announced there; gives those that failed. A compiler
 * that ends without finding a fault in the source was killed, or had no room: it gets another chance, then one more in a
 * temporary folder.
 */
export function compileUnits(tool: Toolchain, cache: ObjectCache, units: readonly Unit[]): Failure[] {
  const failures: Failure[] = [];
  for (let attempt = 0;; attempt++) {
    let failed = compileOnce(tool, cache, units);
    if (failed.some((f) => UNKNOWN_OPTION.test(f.log)) && tool.flags.includes("-mllvm")) {
      tool.flags = tool.flags.filter((flag, i, all) => flag !== "-mllvm" && all[i - 1] !== "-mllvm");
      failed = compileOnce(tool, cache, failed.map((f) => f.unit));
    }
    failures.push(...failed.filter((f) => LOCATED.test(f.log)));
    const unclear = failed.filter((f) => !LOCATED.test(f.log));
    if (unclear.length === 0 || !anotherChance(cache, attempt, unclear[0].log)) return [...failures, ...unclear];
    units = unclear.map((f) => f.unit);
  }
}

/** Whether to start a compiler again that ended without finding a fault; moves the cache if that may help. */
export function anotherChance(cache: ObjectCache, attempt: number, log: string): boolean {
  if (attempt === 0 && cache.hasRoom()) return true;
  return cache.moveToTemporary(log.trim().split("\n")[0]);
}

/**
 * Whether we may start the linker: a driver of LLVM that has two things to do starts itself again, and its libraries take
 * longer to load than many a kernel to compile.
 */
function linksApart(): boolean {
  return build.os === "linux" && mayRun("/bin/sh");
}

function compileOnce(tool: Toolchain, cache: ObjectCache, units: readonly Unit[]): Failure[] {
  return cache.inFolder((folder) => {
    const names = units.map((u, i) => {
      Deno.writeTextFileSync(`${folder}/${i}.c`, u.source);
      return cache.newName(".so");
    });
    runAll(names.map((name, i) => {
      const [source, object, made] = ["c", "o", "so"].map((ending) => `${folder}/${i}.${ending}`);
      const files = { made, final: `${cache.folder}/${name}`, log: `${folder}/${i}.log` };
      if (!linksApart() || !/clang/i.test(tool.version)) {
        return { args: [tool.path, ...tool.flags, "-o", made, source], ...files };
      }
      const flags = tool.flags.filter((f) => !LINK.includes(f));
      const next = [["ld", "-shared", "-o", made, object], [tool.path, ...LINK, "-o", made, object]];
      return { args: [tool.path, ...flags, "-c", "-o", object, source], next, ...files };
    }));
    const failures: Failure[] = [];
    units.forEach((unit, i) => {
      if (isFile(`${cache.folder}/${names[i]}`)) cache.add(names[i], unit.symbols);
      else failures.push({ unit, log: readLog(`${folder}/${i}.log`) });
    });
    return failures;
  });
}

/** The text of a log; what to say where there is none. */
export function readLog(path: string): string {
  try {
    return Deno.readTextFileSync(path) || "the compiler ended without a message";
  } catch {
    return "the compiler could not be started";
  }
}

/** Turns a compiler's log into an error that quotes the line at fault. `sources`: each kernel's text by its symbol. */
export function compileError(
  tool: Toolchain,
  failure: Failure,
  sources: ReadonlyMap<string, string>,
): CompileError | DeviceError {
  const m = LOCATED.exec(failure.log);
  if (m === null && /no space|quota|read-only file system/i.test(failure.log)) {
    return new DeviceError("compile kernels for CLANG", {
      device: "CLANG",
      reason: `nothing can be written to the cache or to folders for temporary files: ${
        failure.log.trim().split("\n").find((l) => /no space|quota|read-only/i.test(l))
      }; make room, or set CACHEDIR to a folder that has some`,
    });
  }
  const name = tool.path.slice(tool.path.lastIndexOf("/") + 1);
  const symbol = m?.[1] ?? failure.unit.symbols[0][1];
  const source = sources.get(symbol) ?? failure.unit.source;
  const line = m === null ? undefined : source.split("\n")[Number(m[2]) - 1]?.trim();
  const reason = m === null
    ? `${name} failed: ${failure.log.trim().split("\n")[0]}`
    : `${name} says at line ${m[2]}: ${m[3]}${line ? `: ${line}` : ""}`;
  return new CompileError(`compile kernel ${symbol} for CLANG`, { reason, source, log: failure.log });
}
