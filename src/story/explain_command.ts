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
function writeExplanation(e: Explanation, folder: string): string[] {
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

/** The program as its end is seen: nothing is awaited any more, or it asks to exit, throws where nobody waits, or Ctrl+C. */
async function runProgram(url: string, names: Record<string, unknown>): Promise<void> {
  let end!: (error: Error) => void;
  const ended = new Promise<never>((_, reject) => end = reject), { exit } = Deno;
  ended.catch(() => {});
  const failed = (e: Event & { readonly reason?: unknown; readonly error?: unknown }): void => {
    e.preventDefault();
    const error = e.reason ?? e.error;
    end(error instanceof Error ? error : new Error(String(error)));
  };
  const interrupted = (): void => end(new Error("interrupted"));
  addEventListener("unhandledrejection", failed);
  addEventListener("error", failed);
  Deno.addSignalListener("SIGINT", interrupted);
  Deno.exit = (code = Deno.exitCode) => {
    const error = new ProgramExit(Number(code));
    end(error);
    throw error;
  };
  try {
    Object.assign(names, await Promise.race([import(url), ended]));
    // what it has begun and does not wait for is part of it
    const idle = new Promise<void>((resolve) => {
      addEventListener("beforeunload", (e) => {
        e.preventDefault();
        resolve();
      }, { once: true });
    });
    await Promise.race([idle, ended]);
  } finally {
    Deno.exit = exit;
    Deno.removeSignalListener("SIGINT", interrupted);
    removeEventListener("unhandledrejection", failed);
    removeEventListener("error", failed);
  }
}

/** A program has called `Deno.exit`. */
class ProgramExit extends Error {
  override readonly name: string = "ProgramExit";
  constructor(readonly code: number) {
    super(`it called Deno.exit(${code})`);
  }
}

async function main(): Promise<number> {
  const { file, options } = readArguments(Deno.args);
  const limit = Number(options.get("limit") ?? LIMIT), folder = options.get("out") ?? "out";
  const level = options.get("level") ?? "kernel";
  if (!Number.isInteger(limit) || limit < 1) throw new Error(`--limit takes a number of steps from 1 on: ${USAGE}`);
  if (level !== "kernel" && level !== "tensor") {
    throw new Error(`--level takes kernel or tensor, not ${level}: ${USAGE}`);
  }
  const url = new URL(file, `file://${Deno.cwd()}/`);
  if (url.protocol === "file:") {
    await Deno.stat(url).catch((error: Error) => {
      throw new Error(`${file} cannot be read: ${error.message}`);
    });
  }
  const names: Record<string, unknown> = {};
  const e = await explain(() => runProgram(url.href, names), { limit, level, times: !options.has("no-times"), names });
  const kernels = e.trace.steps.filter((s) => s.kind === "kernel").length;
  const files = writeExplanation(e, folder);
  console.log(
    `${kernels} ${kernels === 1 ? "kernel" : "kernels"}${e.trace.isCut ? `, the first ${limit} steps` : ""}:`,
  );
  for (const path of files) console.log(`  ${path}`);
  console.log(`deno run --allow-read ${folder}/script.ts computes them again`);
  if (e.error === undefined) return 0;
  if (e.error instanceof ProgramExit) return e.error.code;
  console.error("The program stopped:", e.error);
  return 1;
}

if (import.meta.main) {
  // not awaited: the program may end when nothing is waited for
  main().then((code) => Deno.exit(code), (error: Error) => {
    console.error(error.message);
    Deno.exit(2);
  });
}
