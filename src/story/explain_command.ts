/**
 * `deno task explain FILE`: runs a program, and writes what it computed as a script that computes the same.
 *
 * @module
 */
import { explain, type Explanation } from "./explain/explain.ts";

const USAGE = "deno task explain FILE [--out DIR] [--level kernel|tensor] [--limit STEPS] [--no-times]";
const LIMIT = "200";

/** Options behind the file. @throws {Error} for one that is not known */
function readArguments(args: readonly string[]): { file: string; options: Map<string, string> } {
  const options = new Map<string, string>(), files: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const m = /^--(\w[\w-]*)(?:=(.*))?$/.exec(args[i]);
    if (m === null) files.push(args[i]);
    else if (m[1] === "no-times") options.set(m[1], "");
    else if (["out", "level", "limit"].includes(m[1])) options.set(m[1], m[2] ?? args[++i] ?? "");
    else throw new Error(`There is no option --${m[1]}: ${USAGE}`);
  }
  if (files.length !== 1) throw new Error(`Name one program: ${USAGE}`);
  return { file: files[0], options };
}

/** Writes the files of an explanation. */
export function writeExplanation(e: Explanation, folder: string): string[] {
  Deno.mkdirSync(folder, { recursive: true });
  const files: string[] = [],
    put = (name: string, content: string | Uint8Array): void => {
      const path = `${folder}/${name}`;
      if (typeof content === "string") Deno.writeTextFileSync(path, content);
      else Deno.writeFileSync(path, content);
      files.push(path);
    };
  put("story.md", e.story);
  put("script.ts", e.script);
  if (e.data.length > 0) put("script.bin", e.data);
  return files;
}

if (import.meta.main) {
  const { file, options } = readArguments(Deno.args);
  const limit = Number(options.get("limit") ?? LIMIT), folder = options.get("out") ?? "out";
  if (!Number.isInteger(limit) || limit < 1) throw new Error(`--limit takes a number of steps from 1 on: ${USAGE}`);
  const url = new URL(file, `file://${Deno.cwd()}/`).href, names: Record<string, unknown> = {};
  const e = await explain(async () => {
    Object.assign(names, await import(url));
  }, {
    limit,
    level: (options.get("level") ?? "kernel") as "kernel",
    times: !options.has("no-times"),
    names,
  });
  const kernels = e.trace.steps.filter((s) => s.kind === "kernel").length;
  console.log(
    `${kernels} ${kernels === 1 ? "kernel" : "kernels"}${e.trace.isCut ? `, the first ${limit} steps` : ""}:`,
  );
  for (const path of writeExplanation(e, folder)) console.log(`  ${path}`);
  console.log(`deno run --allow-read ${folder}/script.ts computes them again`);
  if (e.error !== undefined) {
    console.error("The program stopped:", e.error);
    Deno.exit(1);
  }
}
