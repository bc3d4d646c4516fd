/**
 * Random programs under `explain`: what each computed is written as a script of its kernels, and as one of its operations
 * as written, and both are run. Each compares itself with what was recorded; where it says that it is far, outputs are held
 * to the bounds of rounding that tracked.ts derives, so that only what is wrong fails. A failure is printed as the program.
 *
 * Run: `deno run -A tests/fuzz/explained.ts --count 1000 --seed 1`. Other options: `--device CLANG`, `--case 17` (only that
 * one), `--failures 5` (stop after as many), `--seconds 60`, `--show` (prints the scripts).
 */
import { context, Tensor } from "../../mod.ts";
import { explain, type Explanation } from "../../src/story/story.ts";
import { realizedMemory } from "../../src/tensor/realize.ts";
import { onDevice } from "../support/on_device.ts";
import { type CaseOptions, caseOptions, runCases } from "./parts/command.ts";
import { type Names, type Program, runLines } from "./parts/program_maker.ts";
import { compareTracked, type Tracked } from "./parts/tracked.ts";
import { expected, programOf, script } from "./programs.ts";

/** The levels of scripts. */
const LEVELS = ["kernel", "tensor"] as const;
type Level = typeof LEVELS[number];

/** What a script says by throwing that its numbers are far. */
const FAR = /is farther from the recorded one/;

/** Runs a script; gives the arrays of these names, and whether it found itself to be far. @throws {Error} of any other kind */
export function runScript(
  { script, data }: Pick<Explanation, "script" | "data">,
  names: readonly string[],
): { readonly arrays: readonly ArrayLike<number | bigint>[]; readonly isFar: boolean } {
  const plain = script.replaceAll(/\] as const\) \{$/gm, "]) {").replace(/^const data = Deno\..*$/m, "")
    .replace(/^if \(isFar\) throw .*$/m, "");
  const make = Function as unknown as new (...args: string[]) => (
    data: ArrayBufferLike,
    console: { log(text: string): void },
  ) => { arrays: ArrayLike<number | bigint>[]; isFar: boolean };
  const text = `"use strict";\n${plain}\nreturn { arrays: [${names.join(", ")}], isFar: ${
    /^let isFar/m.test(plain) ? "isFar" : "false"
  } };`;
  if (/^if \(isFar\) throw /m.test(script) && !FAR.test(script)) {
    throw new Error("the script's last line is another one");
  }
  return new make("data", "console", text)(data.slice().buffer, { log() {} });
}

/** A program under explain at a level; undefined where it is refused by a named error, as it may deserve. */
function explained(program: Program, device: string, level: Level): Explanation | undefined {
  return onDevice(device, () => {
    const e = explain(() => {
      Tensor.manualSeed(1);
      const names = runLines(program.lines, true) as Names;
      const list = Object.fromEntries(program.outputs.map((name) => [name, names[name]]));
      Tensor.realize(Object.values(list));
      return list;
    }, { level, times: false });
    if (e.error === undefined) return e;
    if (/^(StaleReadError|CycleError|DTypeError)$/.test((e.error as Error).name)) return undefined;
    throw e.error;
  });
}

/** Whether a script has an array of that name. */
function declares(text: string, name: string): boolean {
  return new RegExp(`^const ${name.replaceAll("$", "\\$")} = `, "m").test(text);
}

/** What is wrong with the scripts of a program; undefined where nothing is. `ran` counts those that ran. */
export function wrongScript(
  program: Program,
  device: string,
  ran: { scripts: number; far: number },
): string | undefined {
  for (const level of LEVELS) {
    let text = "";
    try {
      const e = explained(program, device, level);
      if (e === undefined) continue;
      text = e.script;
      const result = e.result as Names,
        { arrays: all } = e.toJSON() as unknown as { arrays: readonly { name: string }[] };
      const memory = (name: string): number => {
        const buffer = realizedMemory(result[name].uop);
        return e.trace.buffers.findIndex((b) => b.buffer === buffer && b.size === result[name].numel());
      };
      const live = program.outputs.filter((name) => memory(name) >= 0 && declares(text, all[memory(name)].name));
      const { arrays, isFar } = runScript(e, live.map((name) => all[memory(name)].name));
      ran.scripts++;
      if (e.story.length === 0) return `${level}: no story`;
      if (!isFar) continue;
      ran.far++;
      const want: readonly Tracked[] = expected(program);
      for (const [i, name] of live.entries()) {
        const { why } = compareTracked(arrays[i] as never, want[program.outputs.indexOf(name)]);
        if (why !== undefined) return `${level}: ${name}: ${why}\n${text}`;
      }
    } catch (error) {
      return `${level}: ${(error as Error).stack?.split("\n").slice(0, 6).join("\n")}\n${text}`;
    }
  }
}

/** Runs programs until the time is up. */
export async function fuzzExplained(
  { device, ...options }: CaseOptions,
): Promise<{ programs: number; scripts: number; far: number; failures: string[] }> {
  const ran = { scripts: 0, far: 0 };
  const found = await runCases(options, (at) => {
    const program = programOf(options.seed, at), why = wrongScript(program, device, ran);
    return why === undefined ? undefined : `${why}\n\n${script(program, { device, noopt: false })}\n`;
  });
  return { ...found, ...ran };
}

if (import.meta.main) {
  const { show, ...options } = await caseOptions({ seed: Math.floor(Math.random() * 1e6), count: 200 });
  if (show) {
    for (const level of LEVELS) {
      console.log(context({}, () => explained(programOf(options.seed, options.only!), options.device, level)?.script));
    }
  }
  const { programs, scripts, far, failures } = await fuzzExplained(options);
  const found = failures.length === 0 ? "all come to the same" : `${failures.length} fail`;
  console.log(`${programs} programs, ${scripts} scripts, ${far} of them by bounds, seed ${options.seed}: ${found}`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
