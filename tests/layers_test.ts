/**
 * The layering of DESIGN.md section 2, checked on the text of the sources: who may import whom, no cycles among files,
 * nothing third-party, and no runtime API left of `program`.
 *
 * @module
 */
import assert from "node:assert/strict";
import { specifiersOf, stripped } from "./support/specifiers.ts";

const ROOT = new URL("../", import.meta.url);

/** A folder of src imports from lower ranks or itself. `nn` stands above `state`, which it offers as `nn.state`. */
const RANKS: Readonly<Record<string, number>> = {
  helpers: 0,
  dtype: 1,
  uop: 2,
  renderer: 3,
  device: 4,
  collectives: 4.5,
  schedule: 5,
  codegen: 5,
  engine: 6,
  tensor: 7,
  state: 8,
  nn: 8.5,
  ir: 5,
  dist: 9,
  story: 9,
  train: 9,
  onnx: 9.5,
  tfjs: 9.7,
  export: 9,
  llm: 9,
};
/**
 * Rooms of a folder, from low to high; "" stands for the files of the folder itself. A room imports from lower ones and
 * itself.
 */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  uop: ["core", "rewrite", "algebra", "graph"],
  renderer: ["", "c", "ptx"],
  schedule: ["fuse", "kernels", "order", "cache", "multi", ""],
  codegen: ["ast", "opt", "machine", "choose", "lower", "late", ""],
  tensor: ["nodes", "handle", "ops", "index", "math", "analysis", "images", "gradients", "", "transforms", "jit"],
  nn: ["layers", "optim", "datasets", "data", ""],
  story: ["program", "viz", "explain", ""],
  onnx: ["wire", "values", "graph", "ops", "write", ""],
};
/** What a backend may import of src. */
const FOR_BACKENDS = new Set(["helpers", "dtype", "uop", "renderer", "device", "collectives"]);
/** Folders that know no runtime: everything left of `program`, and the tensors. */
const NO_RUNTIME = new Set(["helpers", "dtype", "uop", "renderer", "schedule", "codegen", "tensor"]);
/** What others import, beside `src`. */
const ENTRIES: readonly string[] = ["mod.ts"];
/** Entry points that compute: each brings the devices, by `mod.ts`. The others make no tensors. */
const COMPUTING: readonly string[] = Object.entries(
  JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))).exports as Record<string, string>,
).filter(([name]) => ![".", "./ir", "./train"].includes(name)).map(([, file]) => file.slice(2));
const MAY_TOUCH_RUNTIME = new Set(["src/helpers/env.ts", "src/helpers/node.ts"]);

function* sources(folder: string): Generator<string> {
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(new URL(folder, ROOT))];
  } catch {
    return;
  }
  for (const e of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    if (e.isDirectory) yield* sources(`${folder}${e.name}/`);
    else if (e.name.endsWith(".ts")) yield folder + e.name;
  }
}

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const all: Source[] = ["src/", "backends/"].flatMap((f) => [...sources(f)]).concat(ENTRIES)
  .map((path) => {
    const text = Deno.readTextFileSync(new URL(path, ROOT));
    return { path, text, imports: specifiersOf(text) };
  });

function exists(path: string): boolean {
  try {
    return Deno.statSync(new URL(path, ROOT)).isFile;
  } catch {
    return false;
  }
}

/** The path, from the root, that a specifier of `from` names; undefined if it is not relative. */
function target(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith("./") && !specifier.startsWith("../")) return undefined;
  return new URL(specifier, new URL(from, "file:///")).pathname.slice(1);
}

/** The room of a source of src in its folder. */
function roomOf(path: string): string {
  const parts = path.split("/");
  return parts.length > 3 ? parts[2] : "";
}

/** Why one room of a folder may not import the other, or undefined. */
function climbs(from: string, to: string): string | undefined {
  const rooms = ROOMS[from.split("/")[1]];
  if (rooms === undefined || rooms.indexOf(roomOf(to)) <= rooms.indexOf(roomOf(from))) return undefined;
  return `room "${roomOf(from)}" imports the higher "${roomOf(to)}"`;
}

/** Why `from` may not import `to`, or undefined. */
function forbidden(from: string, to: string): string | undefined {
  if (ENTRIES.includes(from)) {
    return to.startsWith("src/") || to.startsWith("backends/") ? undefined : `${from} knows only these`;
  }
  const [top, folder] = from.split("/"), [toTop, toFolder] = to.split("/");
  if (top === "backends") {
    if (toTop === "backends") {
      return toFolder === folder ? undefined : "backends never import each other";
    }
    return toTop === "src" && FOR_BACKENDS.has(toFolder) ? undefined : `backends import only ${[...FOR_BACKENDS]}`;
  }
  if (COMPUTING.includes(from) && ENTRIES.includes(to)) return undefined;
  if (toTop !== "src") return "src imports nothing outside src";
  if (folder === toFolder) return climbs(from, to);
  const rank = RANKS[folder], toRank = RANKS[toFolder];
  if (rank === undefined) return `src/${folder} has no rank`;
  if (toRank === undefined) return `src/${toFolder} has no rank`;
  return toRank < rank ? undefined : `rank ${rank} imports rank ${toRank}`;
}

Deno.test("layers: every import is relative and goes to a lower rank or the own folder", () => {
  const wrong: string[] = [];
  for (const { path, imports } of all) {
    for (const s of imports) {
      const to = target(path, s);
      const why = to === undefined ? "third-party or bare specifier" : forbidden(path, to);
      if (why !== undefined) wrong.push(`${path} imports ${s}: ${why}`);
    }
  }
  assert.deepEqual(wrong, []);
});

Deno.test("layers: each entry point that computes imports mod.ts, which registers the devices", () => {
  const without = COMPUTING.filter((path) =>
    !all.find((s) => s.path === path)?.imports.some((s) => target(path, s) === "mod.ts")
  );
  assert.deepEqual(without, []);
});

Deno.test("layers: every source of a folder with rooms is in one of them, and every room has sources", () => {
  const found = new Set<string>(), wrong: string[] = [];
  for (const { path } of all) {
    const [top, folder] = path.split("/"), rooms = top === "src" ? ROOMS[folder] : undefined;
    if (rooms === undefined) continue;
    found.add(`${folder}/${roomOf(path)}`);
    if (!rooms.includes(roomOf(path))) wrong.push(path);
  }
  assert.deepEqual(wrong, []);
  assert.deepEqual(
    [...found].sort(),
    Object.entries(ROOMS).flatMap(([f, list]) => list.map((r) => `${f}/${r}`)).sort(),
  );
});

Deno.test("layers: a room imports lower ones and itself", () => {
  assert.match(climbs("src/uop/core/a.ts", "src/uop/graph/b.ts") ?? "", /imports the higher "graph"/);
  assert.match(climbs("src/codegen/late/decomp/a.ts", "src/codegen/to_program.ts") ?? "", /"late"/);
  assert.equal(climbs("src/uop/graph/a.ts", "src/uop/core/b.ts"), undefined);
  assert.equal(climbs("src/uop/core/a.ts", "src/uop/core/b.ts"), undefined);
});

Deno.test("layers: no two sources have one name, and no folder has more than 16 of them", () => {
  const names = new Map<string, string[]>(), folders = new Map<string, number>();
  for (const { path } of all) {
    const at = path.lastIndexOf("/"), name = path.slice(at + 1), folder = path.slice(0, Math.max(0, at));
    names.set(name, [...names.get(name) ?? [], path]);
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
  }
  assert.deepEqual([...names.values()].filter((paths) => paths.length > 1), []);
  assert.deepEqual([...folders].filter(([, count]) => count > 16), []);
});

/** Functions of 100 characters and more of a source, without their names, comments and spaces. */
function bodiesOf(text: string): string[] {
  const code = stripped(text, true), found: string[] = [];
  for (const m of code.matchAll(/^(?:export )?(?:async )?function\*? \w+([^]*?\n\})\n/gm)) {
    found.push(m[1].replace(/\s+/g, " "));
  }
  return found.filter((body) => body.length >= 100);
}

Deno.test("layers: no function stands in two sources", () => {
  const first = new Map<string, string>(), twice: string[] = [];
  for (const { path, text } of all) {
    for (const body of bodiesOf(text)) {
      const other = first.get(body);
      if (other !== undefined) twice.push(`${other} and ${path}: ${body.slice(0, 80)}`);
      first.set(body, path);
    }
  }
  assert.ok(first.size > 3000, `${first.size} functions`);
  assert.deepEqual(twice, []);
});

Deno.test("layers: files form a DAG", () => {
  const graph = new Map(all.map(({ path, imports }) => [path, imports.map((s) => target(path, s) ?? "")]));
  const done = new Set<string>(), cycles: string[] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    if (done.has(path)) return;
    const at = trail.indexOf(path);
    if (at >= 0) {
      cycles.push([...trail.slice(at), path].join(" -> "));
      return;
    }
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  assert.deepEqual(cycles, []);
});

Deno.test("layers: imports name files that exist", () => {
  const missing = all.flatMap(({ path, imports }) =>
    imports.map((s) => target(path, s)).filter((to) => to !== undefined && !exists(to)).map((to) => `${path}: ${to}`)
  );
  assert.deepEqual(missing, []);
});

/** Tests, benches and examples, which use what src and backends export. */
const users: { path: string; text: string }[] = ["tests/", "bench/", "examples/"].flatMap((f) => [...sources(f)])
  .map((path) => ({ path, text: Deno.readTextFileSync(new URL(path, ROOT)) }));

/** What packages call, whose sources are changed (package/npm.ts), and what mod.ts imports by a URL that it makes. */
const BY_OTHERS = ["src/story/watch.ts: startWatching", "src/tensor/handle/members.ts: addLateFamilies"];

Deno.test("layers: nothing is exported that nothing imports, and no type that is not even named beside it", () => {
  const imported = new Set<string>(), whole = new Set<string>();
  for (const { path, text } of [...all, ...users]) {
    const code = stripped(text, true), file = (specifier: string): string => target(path, specifier) ?? specifier;
    for (const [, names, from] of code.matchAll(/\b(?:import|export)\s[^;{}"]*\{([^}]*)\}\s*from\s*"([^"]+)"/g)) {
      for (const name of names.split(",")) {
        imported.add(`${file(from)}: ${name.trim().replace(/^type\s+(?!as\b)/, "").split(/\s+as\s+/)[0]}`);
      }
    }
    for (const [, a, b] of code.matchAll(/\*[^;"{}]*from\s*"([^"]+)"|\bimport\(\s*"([^"]+)"/g)) whole.add(file(a ?? b));
  }
  for (const path of Object.values(JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))).exports as object)) {
    whole.add(path.slice(2));
  }
  let count = 0;
  const alone: string[] = [];
  for (const { path, text } of all) {
    if (whole.has(path)) continue;
    const code = stripped(text, true);
    const pattern = /^export (?:async )?(?:function\*?|const|let|(?:abstract )?class|(interface|type)) (\w+)/gm;
    for (const [, type, name] of stripped(text, false).matchAll(pattern)) {
      count++;
      // a type that others get by a function's signature has to be exported with it
      const isNamed = type !== undefined && [...code.matchAll(new RegExp(`\\b${name}\\b`, "g"))].length > 1;
      if (!isNamed && !imported.has(`${path}: ${name}`)) alone.push(`${path}: ${name}`);
    }
  }
  assert.ok(count > 3000, String(count));
  assert.deepEqual(alone.sort(), BY_OTHERS);
});

/** Args of classes that `uop` does not know: a matrix unit and a copy engine. And one to come. */
const CASTS = ["codegen/lower/stage_memory", "renderer/tensor_core_table", "story/explain/explain_element"];

Deno.test("layers: the arg of a node has its type by argOf, which a few accessors beside it use", () => {
  const casts = all.filter(({ path, text }) =>
    !path.startsWith("src/uop/core/") && / ?\.arg as /.test(stripped(text, true))
  );
  assert.deepEqual(casts.map(({ path }) => path).sort(), CASTS.map((path) => `src/${path}.ts`));
});

Deno.test("layers: no source, test, bench or example has more than 600 lines", () => {
  const long = [...all, ...users].map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
    .filter(({ lines }) => lines > 600);
  assert.deepEqual(long, []);
});

Deno.test("layers: left of program nothing touches Deno or navigator", () => {
  const wrong: string[] = [];
  for (const { path, text } of all) {
    const [top, folder] = path.split("/");
    if (top !== "src" || !NO_RUNTIME.has(folder) || MAY_TOUCH_RUNTIME.has(path)) continue;
    const m = /\bDeno\b|\bnavigator\b/.exec(stripped(text, false));
    if (m !== null) wrong.push(`${path} names ${m[0]}`);
  }
  assert.deepEqual(wrong, []);
});

/** The one package that is used, and the one source that loads it when a model's file has a template. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "src/llm/text/chat_template.ts": ["npm:@huggingface/jinja@0.5.11"],
};

Deno.test("layers: packages are named in one place, and loaded there when they are needed", () => {
  for (const { path, text } of all) {
    const named = [...stripped(text, true).matchAll(/["'`](?:npm|jsr|https?):[^"'`\s]*["'`]/g)].map((m) =>
      m[0].slice(1, -1)
    );
    assert.deepEqual(named.filter((n) => n.startsWith("npm:") || n.startsWith("jsr:")), PACKAGES[path] ?? [], path);
  }
});

Deno.test("layers: the parser sees imports and no comments", () => {
  const text = `/** import { a } from "no.ts"; */
import type { A } from "./a.ts";
import { // "b"
  B } from "./b.ts";
export * from "../c.ts";
const x = await import("./d.ts"); // import "e.ts"
import "./f.ts";`;
  assert.deepEqual(specifiersOf(text).sort(), ["../c.ts", "./a.ts", "./b.ts", "./d.ts", "./f.ts"]);
  assert.equal(/Deno/.test(stripped('f("Deno.x"); // Deno', false)), false);
});

Deno.test("layers: nothing calls what the oldest engines that are supported lack", () => {
  // Node.js has them from 21, 22, 24 or 25 on; what a script for Deno says is text
  const newer = new RegExp([
    String.raw`\bMath\.f16round\b|\b(?:Map|Object)\.groupBy\b|\bArray\.fromAsync\b|\bPromise\.(?:try|withResolvers)\b`,
    String.raw`\bUint8Array\.from(?:Base64|Hex)\b|\.(?:toBase64|toHex)\(|\bRegExp\.escape\b|\bError\.isError\b`,
    // methods of iterators
    String
      .raw`\.(?:keys|values|entries)\(\)\.(?:map|filter|forEach|some|every|find|reduce|flatMap|take|drop|toArray)\(`,
  ].join("|"));
  assert.ok(newer.test("xs.keys().forEach(f)") && !newer.test("xs.keys().next(); Object.keys(x).map(f)"));
  const callers = all.filter(({ text }) => newer.test(stripped(text, false))).map(({ path }) => path);
  assert.deepEqual(callers, []);
});
