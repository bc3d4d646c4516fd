/**
 * `deno task export FILE`: runs a program that exports `exported`, and writes what that is as a program of its own.
 *
 * @module
 */
import { type Exportable, exportModel, type ExportOptions } from "./export.ts";

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

if (import.meta.main) {
  const { file, options } = readArguments(Deno.args);
  const found = (await import(new URL(file, `file://${Deno.cwd()}/`).href)).exported as Exportable | undefined;
  if (typeof found?.f !== "function" || !Array.isArray(found.args)) {
    throw new Error(`${file} exports nothing to write down: export const exported = { f, args, weights, name }`);
  }
  const base = file.replace(/^.*\//, "").replace(/\.\w+$/, "").replace(/\W+/g, "_"), out = options.get("out") ?? "out";
  const target = (options.get("target") ?? "c") as ExportOptions["target"], vector = options.get("vector");
  const threads = options.get("threads");
  const made = await exportModel(found.f, found.args, {
    target,
    style: options.get("style") as ExportOptions["style"],
    single: options.has("single"),
    vector: vector === undefined ? undefined : Number(vector),
    threads: threads === undefined ? undefined : Number(threads),
    weights: found.weights,
    name: options.get("name") ?? found.name ?? base,
  });
  for (const path of await made.write(out)) console.log(`  ${path}`);
  console.log(options.has("single") ? `open ${out}/index.html` : NEXT[target ?? "c"](out));
}
