/**
 * The package of `deno task npm`, packed and installed as users do: under Node.js (20 or later) and Bun the op smoke suite,
 * as they are, without Float16Array (which Node.js has from 24 on) and where no code may be made of text, and files and
 * environment variables as they have them; under Deno, which finds its own devices; in a page that Vite has built; and
 * types, as the strictest compiler sees them. What is not here is left out.
 */
import assert from "node:assert/strict";
import { ROOT, runCommand, runDeno } from "../system/subprocess.ts";
import { nn } from "../../mod.ts";
import {
  AT_ONCE,
  DEVICES,
  FILES,
  FIRST,
  ITEMS,
  LAYERS,
  LIGHT,
  LIGHT_NODE,
  MAIN,
  ONE,
  PAGE,
  START,
  TYPED,
  WORKERS,
} from "./npm_programs.ts";
import { COMPILER, makePackage, sizeOf, sizeOfProgram } from "./npm.ts";

const folder = await Deno.makeTempDir({ prefix: "dinograd-npm-" }), app = `${folder}/app`;
addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const missing = await install();
if (missing !== undefined) console.log(`no package: ${missing}`);

/** Makes the package, packs it, and installs it in a folder; says what is missing for that. */
async function install(): Promise<string | undefined> {
  if (await versionOf("npm") === undefined) return "npm is not here";
  try {
    await makePackage(`${folder}/package`);
  } catch (error) {
    const { message } = error as Error;
    if (/dns|connect|offline|download|fetch|npm package|registry/i.test(message)) return message.split("\n")[0];
    throw error;
  }
  await Deno.mkdir(app);
  const files = {
    "main.mjs": MAIN,
    "files.mjs": FILES,
    "items.mjs": ITEMS,
    "workers.mjs": WORKERS,
    "devices.mjs": DEVICES,
    "page.js": PAGE,
    "typed.mts": TYPED,
    "light.mjs": LIGHT,
    "first.mjs": FIRST,
    "at-once.mjs": AT_ONCE,
    "light-node.mjs": LIGHT_NODE,
    "start.mjs": START,
    "one.mjs": ONE(""),
    "one-light.mjs": ONE("/core"),
    "layers.mjs": LAYERS(""),
    "layers-light.mjs": LAYERS("/core"),
  };
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${app}/${name}`, text);
  await Deno.writeTextFile(
    `${app}/index.html`,
    '<!doctype html><title>page</title><script type="module" src="./page.js"></script>',
  );
  await Deno.writeTextFile(
    `${app}/package.json`,
    '{ "name": "app", "version": "1.0.0", "type": "module", "private": true }',
  );
  await succeed("npm", ["pack", "--silent", "--pack-destination", folder], `${folder}/package`);
  const [packed] = [...Deno.readDirSync(folder)].filter((f) => f.name.endsWith(".tgz"));
  await succeed("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", `../${packed.name}`], app);
  const smoke = await runDeno(["transpile", "--quiet", "-o", `${app}/smoke.mjs`, "tests/web/smoke.ts"]);
  assert.equal(smoke.code, 0, smoke.stderr);
}

/** Runs a program that must end well; gives what it printed. */
async function succeed(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<string> {
  const { code, stdout, stderr } = await runCommand(command, args, { cwd, env, timeoutMs: 250_000 });
  assert.equal(code, 0, stdout + stderr);
  return stdout;
}

/** The version of an engine, undefined where it is not here, or older than is supported. */
async function versionOf(engine: string): Promise<string | undefined> {
  try {
    const { code, stdout } = await runCommand(engine, ["--version"]), version = stdout.trim();
    return code === 0 && (engine !== "node" || Number(/\d+/.exec(version)?.[0]) >= 20) ? version : undefined;
  } catch {
    return undefined;
  }
}

/** What pages may load at once at most, gzipped: of an entry, and of programs of one operation and of all layers. */
const MAX_GZIPPED = {
  "dinograd.browser.js": 482.5e3,
  "dinograd.core.js": 201e3,
  "dinograd.core-node.js": 229e3,
  "one.mjs": 400e3,
  "one-light.mjs": 136.5e3,
  "layers.mjs": 442e3,
  "layers-light.mjs": 187e3,
};
/** What a page must not load at once: what only others need, and what waits until it is asked for. */
const NOT_IN_PAGES = ["nvrtc", "cuLaunchKernel", "MAP_NORESERVE", "@compute", "H4sI"];
/** What the light entry must not load at once besides. */
const NOT_IN_LIGHT = ["WebAssembly.Instance", "devectorize", "memory.grow"];
const FORBID = "--disallow-code-generation-from-strings";
/** With this Node.js takes what it would if it could not `require` modules. */
const WHOLE = "--no-experimental-require-module";
/** What it takes otherwise: the entry, and what that may load at once. */
const SERVER = "dinograd.server.js", SERVER_LOADS = ["loading", "tensor"], SERVER_BYTES = 196.5e3;

for (const engine of ["node", "bun"]) {
  const version = await versionOf(engine), ignore = version === undefined || missing !== undefined;
  const ways: [name: string, args: string[], env: Record<string, string>][] = [
    ["as it is", [], {}],
    ["without Float16Array", [], { WITHOUT_FLOAT16: "1" }],
  ];
  if (engine === "node") ways.push(["without code from text", [FORBID], {}]);
  if (version !== undefined && requiresModules(engine, version)) ways.push(["all of it at once", [WHOLE], {}]);
  for (const [name, args, env] of ways) {
    Deno.test({
      name: `the package in ${engine}: ${name}`,
      ignore,
      async fn() {
        const { code, stdout, stderr } = await runCommand(engine, [...args, "main.mjs"], { cwd: app, env });
        assert.equal(code, 0, stderr);
        const report = JSON.parse(stdout);
        for (const outcomes of Object.values(report.suites) as { name: string; error?: string }[][]) {
          assert.deepEqual(outcomes.filter((o) => o.error !== undefined), []);
          assert.ok(outcomes.length > 20);
        }
        assert.deepEqual(report.half.slice(1), ["2.001953125", "-5", "Infinity"]);
        if (env.WITHOUT_FLOAT16) assert.equal(report.half[0], "Float32Array");
        assert.equal(report.code, args[0] === FORBID ? "not made of text" : "made of text");
      },
    });
  }
  Deno.test({
    name: `the package in ${engine}: files, data sets and environment variables`,
    ignore,
    async fn() {
      const env = { CACHEDIR: `${folder}/cache-${engine}`, DEV: "JS" };
      const { code, stdout, stderr } = await runCommand(engine, ["files.mjs"], { cwd: app, env });
      assert.equal(code, 0, stderr);
      const { unwritable, ...report } = JSON.parse(stdout);
      assert.match(unwritable, /^FormatError: Cannot save files-\w+\/none\/a: ENOENT/);
      assert.match(report.folder, /^FormatError: Cannot read files-\w+: it is no file$/);
      assert.match(
        report.changed,
        /^FormatError: Cannot read files-\S+: it was changed or removed after it was loaded$/,
      );
      assert.deepEqual({ ...report, folder: "", changed: "" }, {
        loaded: [599999, [1, 2], ["a.safetensors"]],
        part: [[123, 34], 2],
        changed: "",
        npy: [[1000], [600, 1000]],
        missing: "ENOENT",
        folder: "",
        fetched: [[2, 1, 28, 28], [3, 4], true, 0],
        device: "JS",
        digits: [1797, 1, 8, 8],
      });
    },
  });
}

for (const [engine, args] of [["node", []], ["node", [FORBID]], ["bun", []]] as const) {
  Deno.test({
    name: `the package in ${[engine, ...args].join(" ")}: threads that load items, and fail`,
    ignore: missing !== undefined || await versionOf(engine) === undefined,
    async fn() {
      const report = JSON.parse(await succeed(engine, [...args, "workers.mjs"], app));
      const batch = (...list: number[]) => [list.map((i) => [i, i * i]), list];
      assert.deepEqual(report.batches, [batch(0, 1, 2), batch(3, 4, 5), batch(6)]);
      const failed = (i: number): string => `DataError: Cannot load items ${i} in worker 0: `;
      assert.equal(report[20], `${failed(20)}RangeError: item 20 is broken in worker 0 of 2`);
      assert.equal(report[21], `${failed(21)}the worker has ended: it called close()`);
      assert.equal(report[22], `${failed(22)}the worker has ended: it called process.exit()`);
      assert.match(report[23], /^DataError: Cannot load items 23 in worker 0: .*late/);
      assert.equal(report[24], `${failed(24)}it did not answer within 100 ms`);
      assert.match(report[25], /could not be cloned|DataCloneError/);
      assert.match(report.nowhere, /nowhere\.mjs/);
    },
  });
}

type Devices = { devices: [name: string, why: string | true][]; rewritten: number[]; one: boolean; line: string };

/** What DEVICES printed, but for the devices that depend on the machine. */
function told(stdout: string): Record<string, unknown> {
  const { devices, ...rest } = JSON.parse(stdout) as Devices, of = Object.fromEntries(devices);
  const needsDeno = ["CLANG", "CUDA"].filter((name) => of[name] === "it needs Deno");
  return { ...rest, wasm: of.WASM, disk: of.DISK, needsDeno };
}

for (
  const [engine, name, args, wants] of [
    ["node", "its own devices", [], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    ["node", "its own devices, all of it at once", [WHOLE], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    ["node", "those of a page", ["-C", "browser"], { disk: "a page has no files", needsDeno: ["CLANG", "CUDA"] }],
    ["bun", "its own devices", [], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    [Deno.execPath(), "its own devices", ["run", "-A", "--no-lock", "--node-modules-dir=manual"], {
      disk: true,
      needsDeno: [],
    }],
  ] as const
) {
  const version = await versionOf(engine), label = engine === Deno.execPath() ? "deno" : engine;
  Deno.test({
    name: `the package in ${label}: ${name}, by both entry points`,
    ignore: missing !== undefined || version === undefined || (args[0] === WHOLE && !requiresModules(engine, version)),
    async fn() {
      const printed = told(await succeed(engine, [...args, "devices.mjs"], app));
      assert.deepEqual(printed, { rewritten: [6, 8], one: true, line: "devices.mjs:12", wasm: true, ...wants });
    },
  });
}

Deno.test({
  name: "the package: its manifest names files that are there, and it weighs what it may",
  ignore: missing !== undefined,
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`,
      manifest = JSON.parse(await Deno.readTextFile(`${root}package.json`));
    const paths = (x: unknown): string[] => typeof x === "string" ? [x] : Object.values(x as object).flatMap(paths);
    for (const file of [...paths(manifest.exports), ...manifest.sideEffects, manifest.types, "LICENSE", "README.md"]) {
      assert.ok((await Deno.stat(root + file)).size > 0, file);
    }
    assert.deepEqual([manifest.dependencies, manifest.scripts, manifest.engines.node], [
      undefined,
      undefined,
      ">=20.16",
    ]);
    const { version, exports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
    assert.equal(manifest.version, version);
    assert.deepEqual(Object.keys(manifest.exports), [...Object.keys(exports), "./core", "./package.json"]);
    // what makes one file of a program asks for "module"; the first condition that holds is taken
    for (const [entry, { node }] of Object.entries(manifest.exports) as [string, { node?: Record<string, string> }][]) {
      if (entry === "./package.json") continue;
      assert.deepEqual(Object.keys(node!), ["module", "module-sync", "default"], entry);
      assert.deepEqual([node!.module, /\.sync\.js$/.test(node!["module-sync"])], [node!.default, true], entry);
    }
    const names = [...Deno.readDirSync(root)].map((f) => f.name).filter((n) => !/^dinograd[\w.-]*\.js$/.test(n)).sort();
    assert.deepEqual(names, ["LICENSE", "README.md", "package.json", "types"]);
    const all = [...Deno.readDirSync(root)].map((f) => f.name).filter((n) => n.endsWith(".js"));
    for (const [name, limit] of Object.entries(MAX_GZIPPED)) {
      const isEntry = name.endsWith(".js");
      const [, gzipped, loaded] = isEntry ? await sizeOf(root, name) : await sizeOfProgram(`${app}/${name}`);
      assert.ok(gzipped < limit, `${name} loads ${gzipped} bytes, more than ${limit}`);
      if (!isEntry) continue;
      for (const word of name.includes(".core") ? [...NOT_IN_PAGES, ...NOT_IN_LIGHT] : NOT_IN_PAGES) {
        const having = all.filter((file) => Deno.readTextFileSync(root + file).includes(word));
        assert.ok(having.length > 0, `no file has ${word}`);
        assert.deepEqual(having.filter((file) => loaded.has(file)), [], `${name} loads ${word}`);
      }
    }
  },
});

Deno.test({
  name: "the package: its light entry loads what runs kernels with the first value that is awaited",
  ignore: missing !== undefined || await versionOf("node") === undefined,
  async fn() {
    const late = "what compiles kernels is not loaded yet; await init() first, or any value";
    const { early, refused, ...rest } = JSON.parse(await succeed("node", ["-C", "browser", "light.mjs"], app));
    assert.deepEqual(
      early,
      ["realize a tensor", "realize a tensor", "schedule a tensor", "svd", "interpolate"].map((action) =>
        `DeviceError: Cannot ${action}: ${late}`
      ),
    );
    assert.deepEqual(
      refused,
      ["make the variable n", "call a jit function", "open device WASM", "make a mesh"].map((action) =>
        `DeviceError: Cannot ${action}: ${late}${action.endsWith("WASM") ? "; available here: WASM" : ""}`
      ),
    );
    assert.deepEqual(rest, {
      shape: [2, 2],
      device: "WASM",
      uses: [2, [[2, 4], [6, 8]], [2, 4, 6, 8], [[1, 2], [3, 4]]],
      eigenvalues: [2],
      first: [[[7, 10], [15, 22]], 10],
      then: [[2, 4], [6, 8]],
      cast: "float32",
      singular: [5465, 366],
      sums: [0, 6, 12, 18, 2],
      learned: true,
      js: [[1.5, 2.5], [3.5, 4.5]],
    });
    const first = await Promise.all(
      ["safeBytes", "npyBytes", "maskedSelect", "eigvals", "DataLoader"].map((call) =>
        succeed("node", ["-C", "browser", "first.mjs", call], app)
      ),
    );
    assert.deepEqual(first.map((text) => JSON.parse(text)), [[2, 0, 4], [2, 0, 4], [2, 4], [3], [2, 0, 4]]);
  },
});

for (const engine of ["node", "bun"]) {
  const version = await versionOf(engine);
  Deno.test({
    name: `the package in ${engine}: its light entry loads what runs kernels where it is needed`,
    ignore: missing !== undefined || version === undefined || (engine === "node" && !requiresModules(engine, version)),
    async fn() {
      // the second process reads what the first one has lowered
      for (let i = 0; i < 2; i++) {
        assert.deepEqual(JSON.parse(await succeed(engine, ["light-node.mjs"], app)), {
          singular: [5465, 366],
          first: [[7, 10], [15, 22]],
          device: "WASM",
          loaded: [[1, 2], [3, 4]],
          disk: true,
        });
      }
    },
  });
}

Deno.test({
  name: "the package in node: what importing loads is little, and the rest comes as it is used",
  ignore: missing !== undefined || !requiresModules("node", await versionOf("node") ?? "v0.0"),
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`, [nbytes, , files] = await sizeOf(root, SERVER);
    assert.deepEqual(
      [...files].map((f) => f.replace(/^dinograd-(\w+)-.*$/, "$1")).sort(),
      [SERVER, ...SERVER_LOADS].sort(),
    );
    assert.ok(nbytes < SERVER_BYTES, `${SERVER} loads ${nbytes} bytes`);
    const { loaded, names, told, ...rest } = JSON.parse(await succeed("node", ["start.mjs"], app));
    const late = "dinograd-late-server.js", whole = [SERVER, "dinograd-ir.js", "dinograd-llm.js"];
    assert.deepEqual(loaded[0], [SERVER]);
    assert.deepEqual(loaded.slice(1).map((list: string[]) => list.sort()), [
      [...whole, late].sort(),
      [...whole, late, "dinograd-namespaces.js"].sort(),
    ]);
    assert.deepEqual([told, names], [[[1], [2]], [true, true, Object.keys(nn).length, "[object Module]"]]);
    assert.deepEqual(rest, { cast: "float32", layer: [true, true, true], values: 1 });
  },
});

Deno.test({
  name: "the package in node: whatever of a tensor is asked for first is there",
  ignore: missing !== undefined || !requiresModules("node", await versionOf("node") ?? "v0.0"),
  async fn() {
    const wanted: Readonly<Record<string, unknown>> = {
      method: [[2, 3], [4, 5]],
      accessor: [[1, 3], [2, 4]],
      iterator: [1, 2],
      inspected: "Tensor",
      "of the class": [3, 7],
      pairs: [[0, 1, 1], [0, 0, 1]],
      gradient: [[2, 4], [6, 8]],
      jit: [[2, 4], [6, 8]],
      read: [[1, 2], [3, 4]],
      extended: [[4, 6], [[10], [20]]],
      missing: [],
    };
    const page = await Deno.readTextFile(new URL("docs/tensor.md", ROOT));
    const names = [...page.matchAll(/^### ([\w.]+)$/gm)].map(([, name]) => name);
    assert.ok(names.length > 500, `${names.length}`);
    for (const [call, want] of Object.entries(wanted)) {
      assert.deepEqual(JSON.parse(await succeed("node", ["at-once.mjs", call, names.join(" ")], app)), want, call);
    }
  },
});

Deno.test({
  name: "the package: no character of its code takes more than a byte",
  ignore: missing !== undefined,
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`;
    const files = (await Array.fromAsync(Deno.readDir(root))).map((f) => f.name).filter((name) => name.endsWith(".js"));
    assert.deepEqual(files.filter((name) => /[\u0080-\uffff]/.test(Deno.readTextFileSync(root + name))), []);
    assert.ok(files.length > 20);
  },
});

/** Whether a version of Node.js can `require` modules; what others can is not asked. */
function requiresModules(engine: string, version: string): boolean {
  if (engine !== "node") return false;
  const [major, minor] = version.slice(1).split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);
}

Deno.test({
  name: "the package: its types are right where all is checked",
  ignore: missing !== undefined,
  async fn() {
    for (const resolution of [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]]) {
      const options = [
        "--ignoreConfig",
        "--strict",
        "--noEmit",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        ...resolution,
      ];
      await succeed(Deno.execPath(), ["run", "-A", "--quiet", "--no-lock", COMPILER, ...options, "typed.mts"], app);
    }
  },
});

Deno.test({
  name: "the package in vite: a page is built, trains and knows its devices",
  ignore: missing !== undefined || !requiresModules("node", await versionOf("node") ?? "v0.0"), // vite takes these, too
  async fn(t) {
    const built = await runCommand("npx", [
      "-y",
      "vite@8.3.8",
      "build",
      "--logLevel",
      "error",
      "--base",
      "./",
      "--target",
      "esnext",
    ], { cwd: app, timeoutMs: 200_000 });
    if (/ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ENOTCACHED/.test(built.stderr)) {
      return void await t.step({ name: "the package in vite: vite cannot be fetched", ignore: true, fn: () => {} });
    }
    assert.equal(built.code, 0, built.stdout + built.stderr);
    const { stdout, stderr } = await runDeno([
      "run",
      "-A",
      "--no-lock",
      "--no-check",
      "tests/web/run.ts",
      "--page",
      `${app}/dist`,
    ], { timeoutMs: 250_000 });
    const answer = JSON.parse(stdout || JSON.stringify({ found: { stderr } })) as
      | { found: Record<string, unknown> }
      | string;
    if (typeof answer === "string") {
      return void await t.step({ name: `the package in vite: ${answer}`, ignore: true, fn: () => {} });
    }
    const { optimizer, ...rest } = answer.found;
    assert.deepEqual(rest, { learned: true, digits: [1797], disk: "a page has no files" });
    assert.match(String(optimizer), /^ArgumentError: Cannot make SGD/);
  },
});
