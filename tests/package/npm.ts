/**
 * `deno task npm`: the package for npm in dist/npm, from the sources as they are. In: the entry points of deno.json. Out:
 * ES modules for browsers, for Node.js and Bun, and for Deno, which share all but what registers devices, minified;
 * declarations. `npm pack` or `npm publish` in that folder does the rest. Prints what each loads. The tools come from npm,
 * pinned; nothing of the project imports them.
 *
 * @module
 */
import { ROOT, runDeno } from "../system/subprocess.ts";

const BUNDLER = "npm:rolldown@1.2.19";
/** The compiler of declarations. */
export const COMPILER = "npm:typescript@7.0.2/tsc";

/** The name that files of JavaScript begin with: what the library takes for its own lines (src/helpers/stack.ts). */
const NAME = "dinograd";
const NEEDS_DENO = "it needs Deno";
/** For whom a bundle is, and why backends are left out of it. */
const PLATFORMS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  browser: {
    clang: NEEDS_DENO,
    cuda: NEEDS_DENO,
    disk: "a page has no files",
    null: "the package for pages is made without it",
  },
  node: { clang: NEEDS_DENO, cuda: NEEDS_DENO },
  deno: {},
};
/**
 * The light entry is that of browsers without what compiles and runs kernels, which comes with what is awaited first. The
 * server's is for engines that load modules in the middle of whatever needs them: there `nn`, `state`, all methods of
 * tensors and functions that transform functions are late, too.
 */
const LIGHT: Readonly<Record<string, keyof typeof PLATFORMS>> = {
  core: "browser",
  "core-node": "node",
  server: "node",
};
/** Entries of mod.ts. */
const ENTRIES: readonly string[] = [...Object.keys(PLATFORMS), ...Object.keys(LIGHT)];
/** What the light entries load then; a server has those that come at once. */
const LATE = `${NAME}-late`, LATE_IN_SERVER = `${NAME}-late-server`, NAMESPACES = `${NAME}-namespaces`;
/** Files of the light entry that programs may do without, or that load others when they are asked to. */
const PARTS = /-(?:nn|state|jit|loading)-/;
/** What declarations use beyond the libraries of ES2022 and the DOM. */
const LIBRARIES = ["esnext.disposable", "esnext.float16"].map((l) => `/// <reference lib="${l}" />\n`).join("");

/** What is used of the bundler. */
interface Output {
  readonly fileName: string;
  readonly code: string;
  readonly exports: readonly string[];
  /** What it is made of, by path. */
  readonly modules: Readonly<Record<string, unknown>>;
}
interface Bundler {
  rolldown(options: {
    input: Readonly<Record<string, string>> | string;
    platform: "browser";
    logLevel: "silent";
    plugins: readonly { name: string; [hook: string]: unknown }[];
    resolve?: { readonly conditionNames: readonly string[] };
  }): Promise<{
    generate(options: Readonly<Record<string, unknown>>): Promise<{ readonly output: readonly Output[] }>;
    close(): Promise<void>;
  }>;
}

/** deno.json, as far as a package needs it. */
interface Config {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly exports: string | Readonly<Record<string, string>>;
}

const path = (relative: string): string => decodeURIComponent(new URL(relative, ROOT).pathname);

function readConfig(): Config & { readonly entries: Readonly<Record<string, string>> } {
  const config = JSON.parse(Deno.readTextFileSync(path("deno.json"))) as Config;
  return { ...config, entries: typeof config.exports === "string" ? { ".": config.exports } : config.exports };
}

/** "dinograd" for ".", "dinograd-ir" for "./ir". */
function fileOf(entry: string): string {
  return entry === "." ? NAME : `${NAME}-${entry.slice(2).replaceAll("/", "-")}`;
}

/**
 * `mod.ts` for a platform: of backends that could not open there it has entries of the list of devices alone, and what
 * watches whole programs, by functions of Deno, is loaded from the package or not at all.
 */
async function forPlatform(text: string, platform: string): Promise<string> {
  const left = PLATFORMS[LIGHT[platform] ?? platform],
    watch = /^if \(isWatched\(\)\) await \(await import\(new URL\(("[^"]+").*$/m;
  if (!watch.test(text)) throw new Error("mod.ts does not load what watches programs in a line of its own");
  text = platform === "deno"
    ? text.replace(watch, (_, file) => `if (isWatched()) await (await import("./${file.slice(1)})).startWatching();`)
    : text.replace(watch, "").replace(/^import \{ isWatched \} .*$/m, "");
  for (const [backend, reason] of Object.entries(left)) {
    const m = new RegExp(`^import \\{ (\\w+) \\} from "(\\./backends/${backend}/\\w+\\.ts)";$`, "m").exec(text);
    if (m === null) throw new Error(`mod.ts does not import backend ${backend} in a line of its own`);
    const { [m[1]]: { name, description, permissions } } = await import(new URL(m[2], ROOT).href);
    const here = { name, description, permissions, reason };
    text = text.replace(m[0], `const ${m[1]} = absent(${JSON.stringify(here)});`);
  }
  if (platform === "browser") { // nothing is kept without files
    const whole = `setEngine({ ...wholeEngine, lowered: loweredKernels });`;
    if (!text.includes(whole)) throw new Error(`mod.ts has no line ${whole}`);
    text = text.replace(whole, "setEngine(wholeEngine);")
      .replace(`import { loweredKernels } from "${RUNNING.loweredKernels}";`, "");
  }
  if (platform in LIGHT) text = await lightened(text, platform);
  return Object.keys(left).length === 0 ? text : text + `
function absent({ reason, ...backend }) {
  return { ...backend, unavailable: () => reason, open() { throw new Error(reason); } };
}`;
}

/** What `mod.ts` imports for running kernels, in lines of its own. */
const RUNNING: Readonly<Record<string, string>> = {
  wasmBackend: "./backends/wasm/wasm_device.ts",
  jsPrograms: "./backends/js/js.ts",
  loweredKernels: "./src/engine/lowered/lowered_store.ts",
  wholeEngine: "./src/engine/whole_engine.ts",
  Jit: "./src/tensor/jit/jit_calls.ts",
  setJitCalls: "./src/tensor/jit/jit.ts",
  LATE_FAMILIES: "./src/tensor/late_families.ts",
};
/** What else a server needs no sooner. */
const SERVING: Readonly<Record<string, string>> = {
  FAMILIES: "./src/tensor/families.ts",
  nullBackend: "./backends/null/null.ts",
  diskBackend: "./backends/disk/disk.ts",
};
/** Objects of functions and classes by name, of which a server loads all with the first that is asked for. */
const NAMED: Readonly<Record<string, string>> = {
  nn: "./src/nn/nn_namespace.ts",
  state: "./src/state/state_namespace.ts",
};
/** Files of which `mod.ts` exports functions alone, which a server loads when one of them is called. */
const CALLED: readonly string[] = [
  "./src/engine/tuning/tune.ts",
  "./src/tensor/handle/display.ts",
  "./src/tensor/handle/view_of.ts",
  "./src/tensor/jit/jit.ts",
  "./src/tensor/jit/loops.ts",
  "./src/tensor/transforms/autocast.ts",
  "./src/tensor/transforms/transforms.ts",
  "./src/uop/rewrite/record.ts",
];
/** What is loaded late, by the name of its file: what it exports, and where that is. */
const LATE_FILES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [LATE]: RUNNING,
  [LATE_IN_SERVER]: { ...RUNNING, ...SERVING, ...calledNames() },
  [NAMESPACES]: NAMED,
};

/** What a line of `mod.ts` exports of a file: no types. */
function exportLine(from: string): RegExp {
  return new RegExp(`^export \\{([^{}]*)\\} from "${from.replaceAll(".", "\\.")}";$`, "m");
}

/** The functions of those files, and where they are. @throws {Error} where `mod.ts` exports none of a file */
function calledNames(): Record<string, string> {
  const text = Deno.readTextFileSync(path("mod.ts")), names: Record<string, string> = {};
  for (const from of CALLED) {
    const [, list] = exportLine(from).exec(text) ?? [];
    if (list === undefined) throw new Error(`mod.ts exports nothing of ${from}`);
    for (const name of list.split(",").map((n) => n.trim())) if (/^\w+$/.test(name)) names[name] = from;
  }
  return names;
}

/**
 * `mod.ts` without that: WASM is there by name, JS as memory, and the engine when it is needed: at once where modules can
 * be `require`d, as Node.js from 20.19 on and Bun do, else with what is awaited.
 */
async function lightened(text: string, platform: string): Promise<string> {
  const isServer = platform === "server", file = isServer ? LATE_IN_SERVER : LATE;
  const cut = (line: string, by: string): void => {
    if (!text.includes(line)) throw new Error(`mod.ts has no line ${line}`);
    text = text.replace(line, by);
  };
  const made: string[] = [];
  for (const [binding, from] of Object.entries(isServer ? { ...RUNNING, ...SERVING } : RUNNING)) {
    if (!binding.endsWith("Backend")) continue;
    cut(`import { ${binding} } from "${from}";`, "");
    made.push(await backendByName(binding, from));
  }
  cut(`import { jsBackend } from "${RUNNING.jsPrograms}";`, 'import { hostBackend } from "./backends/js/js_host.ts";');
  cut(
    `import { wholeEngine } from "${RUNNING.wholeEngine}";`,
    'import { needParts, setLateParts } from "./src/device/parts.ts";',
  );
  cut(`import { loweredKernels } from "${RUNNING.loweredKernels}";`, "");
  cut(`import { Jit } from "${RUNNING.Jit}";`, "");
  cut(`import { setJitCalls } from "${RUNNING.setJitCalls}";`, "");
  cut("setJitCalls((fn, options) => new Jit(fn, options));", "");
  cut("import { addFamilies }", "import { addFamilies, addLateFamilies }");
  const lists = Object.entries({ ...RUNNING, ...(isServer ? SERVING : {}) }).filter(([name]) => /FAMILIES$/.test(name));
  for (const [list, from] of lists) {
    cut(`import { ${list} } from "${from}";`, "");
    cut(
      `addFamilies(TensorClass, ${list});`,
      `addLateFamilies(TensorClass, ${await lateMembers(list, from, isServer)});`,
    );
  }
  cut(
    "const backends = [",
    `
let late;
const arrived = (action) => late ?? (needParts(action), late);
const jsBackend = hostBackend(() => arrived("run a kernel on JS").jsPrograms);${made.join("")}
const backends = [`,
  );
  const canRequire = isServer || LIGHT[platform] === "node";
  cut(
    "setEngine({ ...wholeEngine, lowered: loweredKernels });",
    `const take = (parts) => {
  late = parts;
  setEngine({ ...late.wholeEngine, lowered: late.loweredKernels });
  late.setJitCalls((fn, options) => new late.Jit(fn, options));
  ${lists.map(([list]) => `addFamilies(TensorClass, late.${list});`).join("\n")}
};
setLateParts({
  now() {
    ${
      canRequire && !isServer
        ? "if (process.features.require_module !== true && process.versions.bun === undefined) return false;"
        : ""
    }
    ${canRequire ? `take(load("./${file}.js"));` : ""}
    return ${canRequire};
  },
  async later() {
    ${isServer ? "this.now();" : `take(await import(${JSON.stringify(`${path("late.ts")}?${file}`)}));`}
  },
});`,
  );
  if (canRequire) {
    text += `
function load(file) {
  return process.getBuiltinModule("node:module").createRequire(import.meta.url)(file);
}`;
  }
  if (!isServer) return text;
  for (const from of CALLED) cut(exportLine(from).exec(text)![0], "");
  text += Object.keys(calledNames()).map((name) =>
    `export const ${name} = (...args) => arrived("call ${name}").${name}(...args);`
  ).join("\n");
  const [lines, all] = await lateNames();
  for (const [line, by] of Object.entries(lines)) cut(line, by);
  return text + all;
}

/** A backend that is there by name: whether it can be opened, and a device of it, are for the late one to say. */
async function backendByName(binding: string, from: string): Promise<string> {
  const { [binding]: { name, description, permissions, rank } } = await import(new URL(from, ROOT).href);
  const isWasm = name === "WASM",
    why = `typeof WebAssembly === "undefined" ? "this engine has no WebAssembly" : undefined`;
  return `
const ${binding} = {
  ...${JSON.stringify({ name, description, permissions, rank })},
  unavailable: () => late !== undefined ? late.${binding}.unavailable() : ${isWasm ? why : "undefined"},
  isLate: true,
  ${isWasm ? `get standalone() { return arrived("export for ${name}").${binding}.standalone; },` : ""}
  open: (ordinal) => arrived("open device ${name}").${binding}.open(ordinal),
};`;
}

/** Objects that have the names of `nn` and `state`, and load what these are when it is asked for: a line for each, and all. */
async function lateNames(): Promise<readonly [lines: Readonly<Record<string, string>>, all: string]> {
  const lines: Record<string, string> = {};
  for (const [name, from] of Object.entries(NAMED)) {
    const names = Object.keys((await import(new URL(from, ROOT).href))[name]);
    lines[`export { ${name} } from "${from}";`] = `export const ${name} = named("${name}", ${JSON.stringify(names)});`;
  }
  const all = `
let namespaces;
function named(name, keys) {
  const object = {};
  for (const key of keys) {
    Object.defineProperty(object, key, { enumerable: true, get: () => (namespaces ??= load("./${NAMESPACES}.js"))[name][key] });
  }
  return Object.defineProperty(object, Symbol.toStringTag, { value: "Module" });
}`;
  return [lines, all];
}

/**
 * An entry of servers: what another file exports, which is loaded at once with all that it imports. Where every entry does
 * so, none finds what it needs in the middle of another's loading, from which modules cannot be \`require\`d.
 */
function atOnce({ fileName, exports }: Output): string {
  return `import{createRequire}from"node:module";const{${
    exports.join(",")
  }}=createRequire(import.meta.url)("./${fileName}");` +
    `export{${exports.join(",")}};`;
}

/** The members of a list of families by name, as code: those that are there at once wait for nothing where all can be loaded. */
async function lateMembers(list: string, from: string, canLoad: boolean): Promise<string> {
  const members: Record<string, string[]> = { methods: [], waiting: [], accessors: [], statics: [] };
  const families = (await import(new URL(from, ROOT).href))[list] as readonly { readonly prototype: object }[];
  const hidden = await privateMethods(from);
  for (const family of families) {
    const { constructor: _, ...own } = Object.getOwnPropertyDescriptors(family.prototype);
    for (const key of Reflect.ownKeys(own)) {
      // a method that its own family alone calls is there by then
      if (typeof key === "string" && hidden.get(family.prototype.constructor.name)?.has(key)) continue;
      const { value, set } = own[key as string], waits = value?.constructor.name === "AsyncFunction" && !canLoad;
      if (set !== undefined) throw new Error(`a late property cannot be set: ${String(key)}`);
      members[value === undefined ? "accessors" : waits ? "waiting" : "methods"].push(codeOf(key));
    }
    const { length: _l, name: _n, prototype: _p, ...statics } = Object.getOwnPropertyDescriptors(family);
    members.statics.push(...Object.keys(statics).map(codeOf));
  }
  return `{ ${Object.entries(members).map(([kind, keys]) => `${kind}: [${keys.join(", ")}]`).join(", ")} }`;
}

/** The name of a property, as code. */
function codeOf(key: string | symbol): string {
  if (typeof key === "string") return JSON.stringify(key);
  const shared = Symbol.keyFor(key);
  return shared === undefined ? key.description! : `Symbol.for("${shared}")`;
}

/** By family of a list, the names of methods that are private in its file: nobody calls them before it is there. */
async function privateMethods(from: string): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const names = new Map<string, ReadonlySet<string>>(), list = new URL(from, ROOT);
  for (const [, family, file] of (await Deno.readTextFile(list)).matchAll(/^import \{ (\w+) \} from "(.+)";$/gm)) {
    const text = await Deno.readTextFile(new URL(file, list));
    names.set(family, new Set([...text.matchAll(/^ {2}private (?:async )?(\w+)[(<]/gm)].map(([, name]) => name)));
  }
  return names;
}

/** Classes keep the names that errors print when the package is minified. */
function withNames(text: string): string {
  return text.replace(
    /^export class (\w+)(?:<[^{]*>)?(?: extends [\w.]+)?(?: implements [^{]+)? \{$/gm,
    '$&\n  static name = "$1";',
  );
}

/** Code of the same value whose characters take a byte each: engines read and keep it as bytes. */
function inAscii(code: string): string {
  if (/String\.raw`[^`]*[\u0080-\uffff]/.test(code)) throw new Error("String.raw has other characters than ASCII's");
  return code.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The entry points, bundled. What they share is there once, so that all work on the same tensors. */
export async function bundle(): Promise<readonly Output[]> {
  const { rolldown } = await import(BUNDLER) as Bundler, { entries } = readConfig();
  const input: Record<string, string> = {};
  for (const [entry, file] of Object.entries(entries)) {
    // only what registers devices differs
    if (entry !== ".") input[fileOf(entry)] = path(file);
    else for (const platform of ENTRIES) input[`${NAME}.${platform}`] = `${path(file)}?${platform}`;
  }
  for (const late of Object.keys(LATE_FILES)) input[late] = `${path("late.ts")}?${late}`;
  const bundled = await rolldown({
    input,
    platform: "browser",
    logLevel: "silent", // what is wrong is thrown
    plugins: [{
      name: "platforms",
      resolveId: (id: string) => /\?[\w-]+$/.test(id) ? id : undefined,
      async load(id: string): Promise<{ code: string; moduleType: "ts" } | undefined> {
        const [file, platform] = id.split("?");
        if (platform !== undefined && platform in LATE_FILES) {
          const lines = Object.entries(LATE_FILES[platform]).map(([name, from]) =>
            `export { ${name} } from "${from}";`
          );
          return { code: lines.join("\n"), moduleType: "ts" };
        }
        const text = await Deno.readTextFile(file);
        if (platform !== undefined) return { code: await forPlatform(text, platform), moduleType: "ts" };
        // which devices there are is said by the entry of the platform, or by `./core`
        const code = text.replace(/^import "\.\.\/\.\.\/mod\.ts";/m, "");
        return { code: /\/src\/(nn|tensor)\//.test(file) ? withNames(code) : code, moduleType: "ts" };
      },
    }],
  });
  const generate = async (groups: Readonly<Record<string, ReadonlySet<string>>>): Promise<readonly Output[]> => {
    const { output } = await bundled.generate({
      format: "esm",
      minify: true,
      comments: { legal: false, jsdoc: false, annotation: true }, // which calls may be left out
      entryFileNames: "[name].js",
      chunkFileNames: `${NAME}-[name]-[hash].js`,
      // bundlers leave out files of which nothing is used, but not what is done beside that in those that are
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: [
          {
            name: "nn",
            test: /\/src\/nn\/(?!data\/workers\.|datasets\/\w+_(?:data|files)\.|datasets\/(?:download|idx)\.)/,
          },
          { name: "state", test: /\/src\/state\/(?!formats\/|server_files\.)/ },
          {
            name: "jit",
            test: /\/src\/tensor\/(?:jit\/(?:jit|loops|scan_gradient|jit_places|jit_arguments)\.|transforms\/)/,
          },
          { name: "loading", test: /\/backends\/webgpu\/webgpu\.|\/src\/engine\/tuning\/tune\./ },
          { name: "rules", test: /\/src\/uop\/(?:algebra\/(?:symbolic|divmod|valid)|rewrite\/(?!record|walk)\w+)\./ },
          ...Object.entries(groups).map(([name, ids]) => ({ name, test: (id: string) => ids.has(id) })),
        ],
      },
    });
    return output;
  };
  // what a server loads at once is one file, and what else the light entry loads, but for what programs may leave out,
  // what pages load besides, if nobody else does, and what servers alone load then
  const all = new Map((await generate({})).map((o) => [o.fileName, o]));
  const codes = new Map([...all].map(([name, { code }]) => [name, code]));
  const modulesWith = (entry: string): Set<string> =>
    new Set(
      [...loadedWith(codes, `${NAME}${entry}.js`)].filter((file) => !PARTS.test(file))
        .flatMap((file) => Object.keys(all.get(file)!.modules).filter((id) => !id.includes("?"))),
    );
  const tensor = modulesWith(".server"), methods = modulesWith(".core").difference(tensor);
  const engine = modulesWith(".browser").difference(modulesWith(".core-node")).difference(modulesWith("-ir"));
  const others = Object.keys(entries).filter((entry) => entry !== ".").map((entry) => fileOf(entry).slice(NAME.length));
  const serving = [".browser", ".core-node", ...others].reduce(
    (ids, entry) => ids.difference(modulesWith(entry)),
    modulesWith(LATE_IN_SERVER.slice(NAME.length)),
  );
  const output = await generate({ tensor, methods, engine, serving });
  await bundled.close();
  const files = new Map(output.map((o) => [o.fileName, { ...o, code: inAscii(o.code) }]));
  const whole = Object.keys(entries).map((entry) => {
    const of = files.get(entry === "." ? `${NAME}.server.js` : `${fileOf(entry)}.js`)!;
    return { ...of, fileName: `${fileOf(entry)}.sync.js`, code: atOnce(of), modules: {} };
  });
  return [...files.values(), ...whole];
}

/** Declarations of all that the entry points reach, by path; their comments are what editors show. */
async function declare(into: string): Promise<void> {
  const { entries } = readConfig(), whole = await Deno.makeTempDir({ prefix: "dinograd-types-" });
  try {
    // deno-fmt-ignore
    const args = [
      "run", "-A", "--quiet", "--no-lock", COMPILER, ...Object.values(entries).map(path), "--ignoreConfig", "--noCheck", "--declaration",
      "--emitDeclarationOnly", "--stripInternal", "--allowImportingTsExtensions", "--target", "es2024", "--module", "esnext", "--moduleResolution",
      "bundler", "--lib", "esnext,dom,dom.iterable,dom.asynciterable", "--rootDir", path("."), "--outDir", whole,
    ];
    const { code, stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
    if (code !== 0) throw new Error(`the declarations cannot be made: ${stdout}${stderr}`);
    const wanted = Object.values(entries).map((e) => e.slice(2)), tops = new Set(wanted), seen = new Set<string>();
    for (let file = wanted.pop(); file !== undefined; file = wanted.pop()) {
      if (seen.has(file)) continue;
      seen.add(file);
      const here = file.replace(/\.ts$/, ".d.ts"), text = await Deno.readTextFile(`${whole}/${here}`);
      // examples in comments import nothing
      const out = text.replace(/\/\*[\s\S]*?\*\/|((?:from|import\(?) ?")(\.[^"]+)\.ts"/g, (all, before, to) => {
        if (before === undefined) return all;
        wanted.push(new URL(`${to}.ts`, `file:///${file}`).pathname.slice(1));
        return `${before}${to}.js"`;
      });
      await write(`${into}/${here}`, (tops.has(file) ? LIBRARIES : "") + out);
    }
  } finally {
    await Deno.remove(whole, { recursive: true });
  }
}

async function write(file: string, text: string): Promise<void> {
  await Deno.mkdir(file.slice(0, file.lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(file, text);
}

/** What package.json says. */
function manifest(): Record<string, unknown> {
  const { name, version, license, entries } = readConfig(), exports: Record<string, unknown> = {};
  const of = (platform: string): string => `./${NAME}.${platform}.js`;
  // an engine that can `require` modules takes the server's files; what makes files of them, which has conditions of its
  // own, could not follow
  const served = (entry: string, whole: string): Record<string, string> => ({
    module: whole,
    "module-sync": `./${fileOf(entry)}.sync.js`,
    default: whole,
  });
  for (const [entry, file] of Object.entries(entries)) {
    const types = `./types/${file.slice(2).replace(/\.ts$/, ".d.ts")}`;
    const [browser, node, own] = [of("browser"), of("node"), `./${fileOf(entry)}.js`];
    exports[entry] = entry === "."
      ? { types, deno: of("deno"), browser, bun: node, node: served(entry, node), default: browser }
      : { types, deno: own, browser: own, bun: own, node: served(entry, own), default: own };
  }
  const page = `./${NAME}.browser.js`;
  exports["./core"] = {
    types: "./types/mod.d.ts",
    deno: of("deno"),
    browser: of("core"),
    bun: of("core-node"),
    node: served(".", of("core-node")),
    default: of("core"),
  };
  return {
    name,
    version,
    license,
    description:
      "Tensors with autograd, compiled to WebAssembly and WebGPU (under Deno also to C and CUDA); no dependencies",
    keywords: ["tensor", "autograd", "machine learning", "webgpu", "webassembly", "compiler"],
    type: "module",
    exports: { ...exports, "./package.json": "./package.json" },
    types: "./types/mod.d.ts",
    unpkg: page,
    jsdelivr: page,
    // these register devices
    sideEffects: [...ENTRIES.map(of), ...Object.keys(entries).map((entry) => `./${fileOf(entry)}.sync.js`)],
    engines: { node: ">=20.16", bun: ">=1.2", deno: ">=2.8" },
    files: ["*.js", "types/", "README.md", "LICENSE"],
  };
}

/** Makes the package in a folder that it empties. @throws {Error} where the tools cannot be fetched */
export async function makePackage(folder: string): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  const declared = declare(`${folder}/types`);
  declared.catch(() => {}); // it is thrown below, unless what comes before it fails, too
  for (const { fileName, code } of await bundle()) await write(`${folder}/${fileName}`, code);
  await write(`${folder}/package.json`, `${JSON.stringify(manifest(), undefined, 2)}\n`);
  await write(`${folder}/README.md`, await Deno.readTextFile(path("docs/npm.md")));
  await Deno.copyFile(path("LICENSE"), `${folder}/LICENSE`);
  await declared;
}

/** The files that come with a file: those that it and what it imports import at once. */
function loadedWith(all: ReadonlyMap<string, string>, file: string, seen: Set<string> = new Set()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const m of all.get(file)!.matchAll(/(?:from|import)"\.\/([^"]+)"/g)) loadedWith(all, m[1], seen);
  return seen;
}

/** What is loaded: bytes of minified code, the same gzipped, and the files. */
export type Weight = readonly [nbytes: number, gzipped: number, files: ReadonlySet<string>];

async function weigh(all: ReadonlyMap<string, string>, file: string): Promise<Weight> {
  let nbytes = 0, gzipped = 0;
  const files = loadedWith(all, file);
  for (const name of files) {
    const bytes = new TextEncoder().encode(all.get(name)!);
    const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
    nbytes += bytes.length;
    gzipped += (await new Response(packed).arrayBuffer()).byteLength;
  }
  return [nbytes, gzipped, files];
}

/** What a file of the package and what comes with it take. */
export async function sizeOf(folder: string, file: string): Promise<Weight> {
  const all = new Map<string, string>();
  for await (const { name } of Deno.readDir(folder)) {
    if (name.endsWith(".js")) all.set(name, await Deno.readTextFile(`${folder}/${name}`));
  }
  return await weigh(all, file);
}

/** What a program in a folder where the package is installed takes, made for browsers: what it does not use is left out. */
export async function sizeOfProgram(file: string): Promise<Weight> {
  const { rolldown } = await import(BUNDLER) as Bundler;
  const made = await rolldown({
    input: { program: file },
    platform: "browser",
    logLevel: "silent",
    plugins: [],
    resolve: { conditionNames: ["browser", "import", "default"] },
  });
  const { output } = await made.generate({ format: "esm", minify: true, comments: false });
  await made.close();
  return await weigh(new Map(output.map((o) => [o.fileName, o.code])), "program.js");
}

if (import.meta.main) {
  const folder = path("dist/npm");
  await makePackage(folder);
  for (const platform of ENTRIES) {
    const [nbytes, gzipped] = await sizeOf(folder, `${NAME}.${platform}.js`);
    console.log(`${platform}: ${Math.round(nbytes / 1e3)} kB, ${Math.round(gzipped / 1e3)} kB gzipped`);
  }
}
