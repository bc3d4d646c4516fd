/**
 * `deno task export FILE`: runs a program that exports `exported`, and writes what that is as a program of its own.
 *
 * @module
 */
import { type Exportable, exportModel, exportModels, type ExportOptions } from "./export.ts";

const USAGE = "deno task export FILE [--target c|wasm|web|deno|cuda] [--style plain|fast] [--vector 0|16|32|64] " +
  "[--threads N] [--single] [--name NAME] [--out DIR]";
const OPTIONS = ["target", "style", "vector", "threads", "name", "out"];

/** Options behind the file. @throws {Error} for one that is not known */
function readArguments(args: readonly string[]): { file: string; options: Map<string, string> } {
  const options = new Map<string, string>(), files: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const m = /^--(\w+)(?:=(.*))?$/.exec(args[i]);
    if (args[i] === "--single") options.set("single", "yes");
    else if (m === null) files.push(args[i]);
    else if (OPTIONS.includes(m[1])) options.set(m[1], m[2] ?? args[++i] ?? "");
    else throw new Error(`There is no option --${m[1]}: ${USAGE}`);
  }
  if (files.length !== 1) throw new Error(`Name one program: ${USAGE}`);
  return { file: files[0], options };
}

/** What to do with the files of a target. */
const NEXT: Readonly<Record<string, (out: string) => string>> = {
  web: (out) => `serve the folder ${out}, as by: deno run --allow-read --allow-net jsr:@std/http/file-server ${out}`,
  wasm: (out) => `deno run --allow-read ${out}/*_test.js`,
  deno: (out) => `deno run --allow-read ${out}/main.ts`,
  cuda: (out) => `make -C ${out} && ${out}/example`,
  c: (out) => `make -C ${out} && ${out}/example`,
};

const SHAPES = "export const exported = { f, args, weights, name }, or { entries: { name: [f, args] }, weights, name }";

/** What a program gives. @throws {Error} where it gives nothing that can be written down */
function exportableOf(file: string, found: unknown): Exportable {
  const given = typeof found === "object" && found !== null ? found as Record<string, unknown> : {};
  const isOne = given.f !== undefined && Array.isArray(given.args), isMany = given.entries !== undefined;
  if (isOne !== isMany) return found as Exportable;
  const why = isOne ? "has both f and entries" : found === undefined ? "exports nothing to write down" : "lacks a part";
  throw new Error(`${file} ${why}: ${SHAPES}`);
}

if (import.meta.main) {
  const { file, options } = readArguments(Deno.args);
  const program = await import(new URL(file, `file://${Deno.cwd()}/`).href);
  const found = exportableOf(file, program.exported);
  const base = file.replace(/^.*\//, "").replace(/\.\w+$/, "").replace(/\W+/g, "_"), out = options.get("out") ?? "out";
  const number = (name: string): number | undefined => options.has(name) ? Number(options.get(name)) : undefined;
  const target = (options.get("target") ?? "c") as ExportOptions["target"];
  const settings: ExportOptions = {
    target,
    style: options.get("style") as ExportOptions["style"],
    single: options.has("single"),
    vector: number("vector"),
    threads: number("threads"),
    ...(found.weights === undefined ? {} : { weights: found.weights }), // those of a model are found by themselves
    name: options.get("name") ?? found.name ?? base,
  };
  const made = "entries" in found
    ? await exportModels(found.entries, settings)
    : await exportModel(found.f, found.args, settings);
  for (const path of await made.write(out)) console.log(`  ${path}`);
  console.log(options.has("single") ? `open ${out}/index.html` : NEXT[target ?? "c"](out));
}
