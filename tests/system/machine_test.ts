/**
 * Machines that are full, read-only or careful: folders that cannot be written, permissions for one folder and one
 * compiler, processes that end by an error or a signal.
 */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { ROOT, runCommand, runDeno } from "./subprocess.ts";
import { inFolder } from "../support/folder.ts";

Device.get(); // opened before the tests
const clang = Device.list().find((d) => d.name === "CLANG")!.available;
const MOD = JSON.stringify(new URL("mod.ts", ROOT).href);
const compiler = clang ? String(Device.get("CLANG").info().compiler) : "";

function program(text: string): string {
  return `data:application/typescript,${
    encodeURIComponent(`import { Device, nn, state, Tensor } from ${MOD};\n${text}`)
  }`;
}
function test(name: string, ignore: boolean, fn: (folder: string) => Promise<void>): void {
  Deno.test({ name: `machine: ${name}`, ignore, fn: () => inFolder(fn) });
}
function namesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map((e) => e.name);
}
const COMPUTE = `console.log(await new Tensor([1, 2]).add(1).tolist(), Device.default);`;

// ---- permissions

for (const cc of ["clang", "gcc"]) {
  const path = compiler.includes(cc) ? compiler : `/usr/bin/${cc}`;
  const isHere = clang && await Deno.stat(path).then(() => true, () => false);
  test(`CLANG by ${cc} with permission for one folder and one compiler`, !isHere, async (folder) => {
    const flags = [`--allow-ffi=${folder}`, `--allow-read=${folder}`, `--allow-write=${folder}`, `--allow-run=${path}`];
    // without PATH a compiler is looked for where systems have it; one elsewhere is named
    const env: Record<string, string> = path.startsWith("/usr/bin/") ? {} : { CC: path };
    const names = ["CACHEDIR", ...Object.keys(env)];
    const run = (...flags: string[]) =>
      runDeno(["run", "--no-prompt", "--no-check", `--allow-env=${names}`, ...flags, program(COMPUTE)], {
        env: { ...env, CACHEDIR: folder, LD_LIBRARY_PATH: folder }, // as where there is a card's toolkit
      });
    const { code, stdout, stderr } = await run(...flags);
    assert.deepEqual([code, stdout], [0, "[ 2, 3 ] CLANG\n"], stderr);
    assert.deepEqual(namesIn(folder), ["clang"]);
    // each is needed: without one the next device, silently
    const others = await Promise.all(flags.map((f) => run(...flags.filter((x) => x !== f))));
    for (const o of others) assert.deepEqual([o.code, o.stdout, o.stderr], [0, "[ 2, 3 ] WASM\n", ""]);
  });
}

test("saving with permission for one folder", false, async (folder) => {
  const text = `
    await state.safeSave({ w: Tensor.ones([3]) }, ${JSON.stringify(`${folder}/w.safetensors`)});
    console.log((await state.safeLoad(${JSON.stringify(`${folder}/w.safetensors`)})).w.shape);`;
  const flags = [`--allow-read=${folder}`, `--allow-write=${folder}`];
  const { code, stdout, stderr } = await runDeno(["run", "--no-prompt", "--no-check", ...flags, program(text)]);
  assert.deepEqual([code, stdout], [0, "[ 3 ]\n"], stderr);
});

// ---- what is left behind

const LEFT: readonly (readonly [name: string, text: string, signal: Deno.Signal | undefined])[] = [
  ["an uncaught error", `throw new Error("mine");`, undefined],
  ["a rejected promise", `Promise.reject(new Error("mine")); await new Promise((r) => setTimeout(r, 1e6));`, undefined],
  ["SIGINT", `console.log("ready"); await new Promise((r) => setTimeout(r, 1e6));`, "SIGINT"],
  ["SIGTERM", `console.log("ready"); await new Promise((r) => setTimeout(r, 1e6));`, "SIGTERM"],
  ["SIGKILL", `console.log("ready"); await new Promise((r) => setTimeout(r, 1e6));`, "SIGKILL"],
];
for (const [name, text, signal] of LEFT) {
  test(`without a HOME nothing stays in TMPDIR after ${name}`, !clang, async (folder) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", program(`${COMPUTE}\n${text}`)],
      env: { HOME: "", XDG_CACHE_HOME: "", CACHEDIR: "", TMPDIR: folder, DEV: "CLANG", NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    if (signal !== undefined) {
      let seen = "";
      const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      while (!seen.includes("ready")) {
        const { value, done } = await reader.read();
        assert.ok(!done, seen);
        seen += value;
      }
      child.kill(signal);
      await reader.cancel();
      await child.stderr.cancel();
      await child.status;
    } else {
      const { code, stderr } = await child.output();
      assert.equal(code, 1);
      assert.match(new TextDecoder().decode(stderr), /mine/);
    }
    assert.deepEqual(namesIn(folder).filter((n) => n.startsWith("dinograd")), []);
  });
}

test("without a HOME nothing stays in TMPDIR of a process that is ended while it compiles", !clang, async (folder) => {
  const cc = `${folder}/cc`, tmp = `${folder}/tmp`;
  await Deno.mkdir(tmp);
  await Deno.writeTextFile(
    cc,
    `#!/bin/sh\ncase "$*" in *0.c*) touch ${folder}/started; sleep 1;; esac\nexec ${compiler} "$@"\n`,
    { mode: 0o755 },
  );
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", program(COMPUTE)],
    env: { HOME: "", XDG_CACHE_HOME: "", CACHEDIR: "", TMPDIR: tmp, DEV: "CLANG", CC: cc },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  while (!await Deno.stat(`${folder}/started`).then(() => true, () => false)) {
    await new Promise((r) => setTimeout(r, 20));
  }
  child.kill("SIGTERM");
  await child.status;
  for (let i = 0; i < 100 && namesIn(tmp).length > 0; i++) await new Promise((r) => setTimeout(r, 100));
  assert.deepEqual(namesIn(tmp).filter((n) => n.startsWith("dinograd")), []);
});

// ---- no room

/** Where a card is, it would be the next device. */
const NO_CARD = { CUDA_DRIVER_PATH: "/nowhere" };

/** A compiler that finds no room. */
async function fullCompiler(folder: string): Promise<string> {
  const path = `${folder}/cc`;
  const text =
    `case "$*" in *0.c*|*runtime.c*) echo "ld: final link failed: No space left on device" >&2; exit 1;; esac`;
  await Deno.writeTextFile(path, `#!/bin/sh\n${text}\nexec ${compiler} "$@"\n`, { mode: 0o755 });
  return path;
}

test("no room anywhere for kernels: the next device, said once", !clang, async (folder) => {
  const env = { CC: await fullCompiler(folder), CACHEDIR: `${folder}/cache`, TMPDIR: folder, ...NO_CARD };
  const text = `${COMPUTE}\nconsole.log(await Tensor.ones([2, 2]).matmul(Tensor.ones([2, 2])).tolist());`;
  const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", program(text)], { env });
  assert.deepEqual([code, stdout], [0, "[ 2, 3 ] WASM\n[ [ 2, 2 ], [ 2, 2 ] ]\n"], stderr);
  assert.equal(stderr.match(/No space left on device/g)?.length, 1, stderr);
  assert.match(stderr, /^CLANG is passed over: Cannot open device CLANG: .*No space left on device/m);
});

/** Runs a command where `folder` is a file system of 64 KB; undefined where this user may not make one. */
async function onSmallDisk(folder: string, command: readonly string[]): ReturnType<typeof runCommand> {
  const script = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"';
  return await runCommand("unshare", ["-r", "-m", "/bin/sh", "-c", script, folder, ...command]);
}
const maySmall = Deno.build.os === "linux" &&
  await inFolder(async (folder) => (await onSmallDisk(folder, ["true"])).code === 0).catch(() => false);

const SAVERS = ["safeSave(tensors, path)", "npzSave(tensors, path)", "npySave(tensors.w, path)"];
for (const saver of SAVERS) {
  test(`${saver} on a full disk names the path and the cause, and leaves what was there`, !maySmall, async (folder) => {
    const text = `
      const path = ${JSON.stringify(`${folder}/weights.bin`)}, tensors = { w: Tensor.ones([1000]) };
      await state.${saver};
      const before = Deno.statSync(path).size;
      tensors.w = Tensor.ones([100000]);
      try {
        await state.${saver};
      } catch (error) {
        console.log(error.name, error.message);
      }
      console.log(before === Deno.statSync(path).size, [...Deno.readDirSync(${JSON.stringify(folder)})].length);`;
    const args = [Deno.execPath(), "run", "-A", "--no-check", program(text)];
    const { code, stdout, stderr } = await onSmallDisk(folder, args);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^FormatError Cannot save .*weights\.bin: .*[Nn]o space left on device.*\ntrue 1\n$/);
  });
}

test("kernels on a full disk: compiled elsewhere", !maySmall || !clang, async (folder) => {
  const env = ["env", `CACHEDIR=${folder}`, "DEV=CLANG", "DEBUG=0"];
  const { code, stdout, stderr } = await onSmallDisk(folder, [
    ...env,
    Deno.execPath(),
    "run",
    "-A",
    "--no-check",
    program(
      `const big = new Uint8Array(60000); Deno.writeFileSync(${JSON.stringify(`${folder}/big`)}, big);\n${COMPUTE}`,
    ),
  ]);
  assert.deepEqual([code, stdout], [0, "[ 2, 3 ] CLANG\n"], stderr);
});

test("saving where nothing can be written names the path and the cause", false, async (folder) => {
  const { state, Tensor } = await import("../../mod.ts");
  const path = `${folder}/missing/w.safetensors`;
  await assert.rejects(() => state.safeSave({ w: Tensor.ones([1]) }, path), (error: Error) => {
    assert.match(error.message, /^Cannot save .*missing\/w\.safetensors: /);
    assert.equal(error.name, "FormatError");
    assert.ok(error.cause instanceof Deno.errors.NotFound);
    return true;
  });
});
