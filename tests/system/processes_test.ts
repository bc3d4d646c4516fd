/**
 * Caches and processes: a cache folder that is full, cannot be written, is damaged or used by others; compilers and
 * processes that are killed; compilers that are missing or no compilers; helper threads that die; one thread.
 */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { WasmDevice } from "../../backends/wasm/wasm_device.ts";
import { Buffer } from "../../src/device/buffer.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { programOf } from "../../src/renderer/renderer.ts";
import { addThreadVector } from "../fixtures/kernels.ts";
import { type Outcome, ROOT, runDeno } from "./subprocess.ts";
import { inFolder } from "../support/folder.ts";

const clang = Device.list().find((d) => d.name === "CLANG")!;
/** Where the processes have their temporary files: those that fail leave some. */
const scratch = Deno.makeTempDirSync({ prefix: "dinograd-test-" });
addEventListener("unload", () => Deno.removeSync(scratch, { recursive: true }));
const compiler = clang.available ? String(Device.get("CLANG").info().compiler) : "";

function test(name: string, fn: (folder: string) => Promise<void>): void {
  Deno.test({ name: `processes CLANG: ${name}`, ignore: !clang.available, fn: () => inFolder(fn) });
}

/** Four kernels, what they give, and what the device says of itself and of its compilers. */
const PROGRAM = `
  import { Device, GlobalCounters, Tensor } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
  import { clangCounters } from ${JSON.stringify(new URL("backends/clang/clang.ts", ROOT).href)};
  const x = new Tensor([[1, 2, 3], [4, 5, 6]]).realize();
  const out = [x.add(1), x.matmul(x.T), x.sum(1).sqrt(), x.pad([1, 1]).flip([1])];
  Tensor.realize(out);
  console.log(JSON.stringify({
    values: await Promise.all(out.map((t) => t.tolist())),
    device: x.device,
    compilers: clangCounters.compilers,
    info: Device.get().info(),
  }));`;
const VALUES = [
  [[2, 3, 4], [5, 6, 7]],
  [[14, 32], [32, 77]],
  [Math.fround(Math.sqrt(6)), Math.fround(Math.sqrt(15))],
  [[0, 3, 2, 1, 0], [0, 6, 5, 4, 0]],
];
interface Report {
  readonly device: string;
  readonly compilers: number;
  readonly info: Record<string, string | number>;
}

/** Where a card is, it would be the default, and among what is available. */
const NO_CARD = { CUDA_DRIVER_PATH: "/nowhere" };

/** Runs the program on CLANG with its cache in `folder`. */
function run(folder: string, env: Record<string, string> = {}): Promise<Outcome> {
  const url = `data:application/typescript,${encodeURIComponent(PROGRAM)}`;
  return runDeno(["run", "-A", "--no-check", url], {
    env: { DEV: "CLANG", CACHEDIR: folder, TMPDIR: scratch, ...NO_CARD, ...env },
  });
}
/** What the program reported, its values checked. */
function reportOf({ code, stdout, stderr }: Outcome, device = "CLANG"): Report {
  assert.equal(code, 0, stderr);
  const { values, ...report } = JSON.parse(stdout) as Report & { values: number[][][] };
  assert.deepEqual(values.map((v, i) => i === 2 ? (v as unknown as number[]).map(Math.fround) : v), VALUES);
  assert.equal(report.device, device);
  return report;
}
/** All files below a folder. */
function filesBelow(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap((e) =>
    e.isDirectory ? filesBelow(`${folder}/${e.name}`) : [`${folder}/${e.name}`]
  );
}
/** A script that stands for the compiler. */
async function script(folder: string, text: string): Promise<string> {
  const path = `${folder}/cc`;
  await Deno.writeTextFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
}

// ---- the cache folder

test("two processes compile the same kernels at once, a third none", async (folder) => {
  const reports = (await Promise.all([run(folder), run(folder)])).map((o) => reportOf(o));
  assert.ok(reports.every((r) => r.compilers > 0));
  assert.equal(reportOf(await run(folder)).compilers, 0);
  assert.deepEqual(filesBelow(folder).filter((f) => /\.tmp|\.part/.test(f)), []);
});

test("damaged files are compiled again: objects, index, runtime, probe", async (folder) => {
  reportOf(await run(folder));
  const all = filesBelow(folder);
  for (const file of all) {
    if (file.endsWith(".so")) await Deno.truncate(file, 100);
    else if (file.includes("macros")) await Deno.writeTextFile(file, "#define __VERS");
    else await Deno.writeFile(file, crypto.getRandomValues(new Uint8Array(3000)));
  }
  assert.ok(reportOf(await run(folder)).compilers > 0);
  assert.equal(reportOf(await run(folder)).compilers, 0);
});

test("objects of another content under a known name are not opened", async (folder) => {
  reportOf(await run(folder));
  for (const file of filesBelow(folder).filter((f) => f.endsWith(".so"))) {
    const bytes = await Deno.readFile(file);
    bytes[bytes.length >> 1] ^= 255;
    await Deno.remove(file);
    await Deno.writeFile(file, bytes);
  }
  assert.ok(reportOf(await run(folder)).compilers > 0);
});

test("an index that is a folder, and a cache folder that is a file", async (folder) => {
  const { info } = reportOf(await run(folder));
  await Deno.remove(`${info.cache}/index`);
  await Deno.mkdir(`${info.cache}/index`);
  reportOf(await run(folder));
  await Deno.writeTextFile(`${folder}/file`, "");
  const { info: other } = reportOf(await run(`${folder}/file`));
  assert.ok(!String(other.cache).startsWith(folder));
  assert.throws(() => Deno.statSync(String(other.cache)), Deno.errors.NotFound, "the temporary folder stays");
  assert.equal(Deno.statSync(`${folder}/file`).size, 0);
});

test("a folder that cannot be written: what it holds is used, the rest is compiled elsewhere", async (folder) => {
  // /proc takes no file, whoever asks
  const { info } = reportOf(await run("/proc", { DEBUG: "1" }));
  assert.ok(!String(info.cache).startsWith("/proc"));
  const told = await run("/proc", { DEBUG: "1" });
  assert.match(
    told.stderr,
    /CLANG: \/proc\/clang\/\w+ cannot be used \(.*\); kernels go to .* until this process ends/,
  );
  if (Deno.uid() === 0) return; // root writes everywhere
  reportOf(await run(folder));
  const below = [...Deno.readDirSync(`${folder}/clang`)].map((e) => `${folder}/clang/${e.name}`);
  const folders = [folder, `${folder}/clang`, ...below];
  for (const f of folders) await Deno.chmod(f, 0o555);
  assert.equal(reportOf(await run(folder)).compilers, 0);
  for (const f of folders) await Deno.chmod(f, 0o755);
});

test("a full disk: kernels go to a temporary folder", async (folder) => {
  // this compiler finds no room wherever the path leads to the cache
  const cc = await script(
    folder,
    `case "$*" in *${folder}/cache*) echo "error: unable to open output file: 'No space left on device'" >&2; exit 1;; esac
exec ${compiler} "$@"`,
  );
  const { info } = reportOf(await run(`${folder}/cache`, { CC: cc }));
  assert.ok(!String(info.cache).startsWith(folder), String(info.cache));
  assert.deepEqual(filesBelow(folder).filter((f) => f.endsWith(".so")), []);
});

test("objects that the loader refuses, as where nothing may be executed: made elsewhere", async (folder) => {
  const spoil = `|| exit 1
for f in "$@"; do case "$f" in *${folder}/cache/*.so) echo junk > "$f";; esac; done`;
  const cc = await script(folder, `${compiler} "$@" ${spoil}`);
  // what clang has compiled is linked by a command of its own
  await Deno.writeTextFile(`${folder}/ld`, `#!/bin/sh\n/usr/bin/ld "$@" ${spoil}\n`, { mode: 0o755 });
  const PATH = `${folder}:${Deno.env.get("PATH")}`;
  const { info } = reportOf(await run(`${folder}/cache`, { CC: cc, PATH }));
  assert.ok(!String(info.cache).startsWith(folder), String(info.cache));
});

test("a disk that is full wherever one looks: an error that says so", async (folder) => {
  const cc = await script(folder, `echo "ld: final link failed: No space left on device" >&2; exit 1`);
  const { code, stderr } = await run(`${folder}/cache`, { CC: cc });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /DeviceError: Cannot open device CLANG: .*cc cannot compile the runtime: .*No space left on device; available here: WASM/,
  );
  // what was lowered needs no compiler, and is whole
  assert.deepEqual(filesBelow(folder).filter((f) => !f.startsWith(`${folder}/cache/lowered/`)), [cc]);
});

// ---- compilers

test("a compiler that is killed midway is started once more", async (folder) => {
  const cc = await script(
    folder,
    `case "$*" in *kernel*|*0.c*) if [ ! -e ${folder}/killed ]; then touch ${folder}/killed; kill -9 $$; fi;; esac
exec ${compiler} "$@"`,
  );
  reportOf(await run(`${folder}/cache`, { CC: cc }));
  assert.ok(Deno.statSync(`${folder}/killed`).isFile);
  assert.deepEqual(filesBelow(`${folder}/cache`).filter((f) => f.includes(".tmp")), []);
});

test("a compiler that dies each time: CompileError, and nothing is left behind", async (folder) => {
  const cc = await script(
    folder,
    `case "$*" in *0.c*) kill -9 $$;; esac\nexec ${compiler} "$@"`,
  );
  const { code, stderr } = await run(`${folder}/cache`, { CC: cc });
  assert.equal(code, 1);
  assert.match(stderr, /CompileError: Cannot compile kernel \w+ for CLANG: cc failed: /);
  assert.deepEqual(filesBelow(`${folder}/cache`).filter((f) => f.includes(".tmp")), []);
});

test("a missing compiler: named, with where to get one, and what is open instead", async (folder) => {
  const message = (o: Outcome) => /^.*?DeviceError: (.*)$/m.exec(o.stderr)?.[1];
  const gone = `install one with "apt-get install clang-19" or "xcode-select --install", or set CC to its path; ` +
    "available here: WASM";
  const rows: [env: Record<string, string>, text: string][] = [
    [{ PATH: folder, CC: "" }, `no C compiler was found; ${gone}`],
    [{ CC: "no-such-cc" }, `the C compiler that CC names, no-such-cc, was not found; ${gone}`],
    [{ CC: folder }, `the C compiler that CC names, ${folder}, was not found; ${gone}`],
  ];
  for (const [env, text] of rows) {
    const named = await run(folder, env);
    assert.equal(named.code, 1);
    assert.equal(message(named), `Cannot open device CLANG: ${text}`);
    // nobody asked for CLANG: the next best, silently
    const { stderr } = await run(folder, { ...env, DEV: "" }).then((o) => (reportOf(o, "WASM"), o));
    assert.equal(stderr, "");
  }
});

test("a compiler that is none is passed over unless it was asked for", async (folder) => {
  const cc = await script(folder, "exit 0");
  const named = await run(`${folder}/cache`, { CC: cc });
  assert.match(
    named.stderr,
    /Cannot open device CLANG: \S+ cannot compile the runtime: the compiler ended without a message; available here: WASM/,
  );
  reportOf(await run(`${folder}/cache`, { CC: cc, DEV: "" }), "WASM");
});

test("the doctor with and without a compiler on PATH", async (folder) => {
  const doctor = (env: Record<string, string>) =>
    runDeno(["run", "-A", "--no-check", "bench/doctor.ts"], { env: { ...NO_CARD, ...env } });
  const [sound, without] = await Promise.all([doctor({}), doctor({ PATH: folder, CC: "" })]);
  assert.equal(sound.code, 0, sound.stderr);
  assert.match(sound.stdout, /^CLANG \(default\): .*\n.*\n {2}available: opened and tested itself in \d+ ms$/m);
  assert.equal(without.code, 0, without.stderr);
  assert.match(without.stdout, /^CLANG: .*\n.*\n {2}not available: no C compiler was found; install one with .*$/m);
  assert.match(without.stdout, /^WASM \(default\): .*\n.*\n {2}available: opened and tested itself in \d+ ms$/m);
});

// ---- processes

/** Whether a file is there within ten seconds. */
async function isThere(path: string): Promise<boolean> {
  for (let i = 0; i < 400; i++) {
    if (await Deno.stat(path).then(() => true, () => false)) return true;
    await new Promise((r) => setTimeout(r, 25));
  }
  return false;
}

/**
 * Kills a process while its compiler waits for a file `go`, or for the end of the test, which removes the compiler; gives the
 * compiler, the cache, and which folders are left there.
 */
async function killCompiling(folder: string): Promise<{ cc: string; cache: string; left: () => string[] }> {
  const cc = await script(
    folder,
    `cd ${folder}
    case "$*" in *0.c*) [ -e started ] || { touch started; while [ -e cc ] && [ ! -e go ]; do sleep 0.05; done; };; esac
    exec ${compiler} "$@"`,
  );
  const cache = `${folder}/cache`, url = `data:application/typescript,${encodeURIComponent(PROGRAM)}`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", url],
    env: { DEV: "CLANG", CACHEDIR: cache, CC: cc, DEBUG: "0" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  assert.ok(await isThere(`${folder}/started`), "no compiler was started");
  child.kill("SIGKILL");
  assert.equal((await child.status).success, false);
  const below = (path: string) => [...Deno.readDirSync(path)].map((e) => `${path}/${e.name}`);
  const left = () => below(`${cache}/clang`).flatMap(below).filter((f) => f.endsWith(".tmp"));
  assert.ok(left().length > 0, "it was killed too late for this test");
  return { cc, cache, left };
}

test("a process killed while it compiles leaves a cache that works, and is cleaned up", async (folder) => {
  const { cc, cache, left } = await killCompiling(folder);
  reportOf(await run(cache, { CC: cc }));
  const old = new Date(Date.now() - 2 * 3600e3), [folderLeft] = left();
  assert.ok(folderLeft !== undefined, "what another process may be using stays");
  await Deno.utime(folderLeft, old, old);
  // the next process that compiles something removes it
  await Deno.remove(`${folderLeft}/../index`);
  reportOf(await run(cache, { CC: cc }));
  assert.deepEqual(left(), []);
  await Deno.writeTextFile(`${folder}/go`, "");
});

test("compilers whose process was killed remove what they made", async (folder) => {
  const { cc, cache, left } = await killCompiling(folder);
  await Deno.writeTextFile(`${folder}/go`, "");
  for (let i = 0; i < 400 && left().length > 0; i++) await new Promise((r) => setTimeout(r, 25));
  assert.deepEqual(left(), []);
  reportOf(await run(cache, { CC: cc }));
});

test("a working folder that changes does not matter", async (folder) => {
  const program = PROGRAM.replace(
    "Tensor.realize(out);",
    `Tensor.realize(out.slice(0, 1)); Deno.chdir("/");
    Tensor.realize(out);`,
  );
  const outcome = await runDeno(
    ["run", "-A", "--no-check", `data:application/typescript,${encodeURIComponent(program)}`],
    { env: { DEV: "CLANG", CACHEDIR: "relative" }, cwd: folder },
  );
  const cache = String(reportOf(outcome).info.cache);
  assert.equal(cache.slice(0, cache.lastIndexOf("/")), `${await Deno.realPath(folder)}/relative/clang`);
});

// ---- threads

for (const device of ["WASM", "CLANG"]) {
  Deno.test({
    name: `processes ${device}: THREADS`,
    ignore: device === "CLANG" && !clang.available,
    async fn() {
      await inFolder(async (folder) => {
        for (const [given, want] of [["1", 1], ["3", 3], ["-4", 1], ["2.7", 2]] as const) {
          const { info } = reportOf(await run(folder, { DEV: device, THREADS: given }), device);
          assert.equal(info.threads, want, `THREADS=${given}`);
        }
      });
    },
  });
}

interface Ended {
  terminate(): Promise<number>;
}

Deno.test("processes WASM: helpers that die are done without, and replaced", async () => {
  const process = globalThis as unknown as {
    process: { getBuiltinModule(name: string): { Worker: new (...args: unknown[]) => Ended } };
  };
  const threads = process.process.getBuiltinModule("node:worker_threads"), { Worker } = threads;
  const made: Ended[] = [];
  threads.Worker = class {
    constructor(...args: unknown[]) {
      const worker = new Worker(...args);
      made.push(worker);
      return worker;
    }
  } as unknown as typeof Worker;
  const device = new WasmDevice("WASM:7");
  try {
    const { pool } = device, chunks = 64, k = addThreadVector(chunks), n = chunks * 8;
    if (pool.helpers === 0) return;
    const [program] = device.compiler.compile([programOf("threads", k.linear!)]);
    const buffer = (x: number) =>
      new Buffer(device, dtypes.float32, n).copyIn(new Uint8Array(new Float32Array(n).fill(x).buffer));
    const [out, a, b] = [0, 1, 2].map(buffer);
    const work = () => {
      const graph = device.graph(Array.from({ length: 200 }, (_, i) => ({
        program,
        buffers: i % 2 === 0 ? [out, a, b] : [a, out, b],
        vars: [],
      })));
      graph.run();
      graph.dispose();
      return new Float32Array(a.copyOut(new Uint8Array(n * 4)).buffer)[n - 1];
    };
    const ready = async (count: number) => {
      for (let i = 0; i < 400 && pool.ready !== count; i++) await new Promise((r) => setTimeout(r, 10));
      assert.equal(pool.ready, count);
    };
    pool.start();
    await ready(pool.helpers);
    assert.equal(work(), 401);
    await made[0].terminate();
    assert.equal(work(), 801, "one is missing");
    await ready(pool.helpers - 1);
    pool.start();
    await ready(pool.helpers);
    assert.equal(made.length, pool.helpers + 1);
    assert.equal(work(), 1201, "it was replaced");
    await Promise.all(made.map((w) => w.terminate()));
    assert.equal(work(), 1601, "all are missing");
    await ready(0);
  } finally {
    threads.Worker = Worker;
    device.close();
  }
});

Deno.test("processes WASM: where no helper can be started, one thread does everything", () => {
  const process = globalThis as unknown as { process: { getBuiltinModule(name: string): { Worker: unknown } } };
  const threads = process.process.getBuiltinModule("node:worker_threads"), { Worker } = threads;
  threads.Worker = class {
    constructor() {
      throw new Error("no threads here");
    }
  };
  const device = new WasmDevice("WASM:8");
  try {
    device.pool.start();
    assert.equal(device.pool.ready, 0);
    const [program] = device.compiler.compile([programOf("threads", addThreadVector(4).linear!)]);
    const buffers = [0, 1, 2].map((x) =>
      new Buffer(device, dtypes.float32, 32).copyIn(new Uint8Array(new Float32Array(32).fill(x).buffer))
    );
    device.run([{ program, buffers, vars: [] }]);
    assert.equal(new Float32Array(buffers[0].copyOut(new Uint8Array(128)).buffer)[31], 3);
  } finally {
    threads.Worker = Worker;
    device.close();
  }
});
