/**
 * An export as a program for Deno: the WebAssembly module, and a script that takes numbers as JSON and prints numbers. In:
 * plans; out: files.
 *
 * @module
 */
import type { Standalone } from "../device/standalone.ts";
import type { ExportFiles } from "./c_export.ts";
import { arraysOf, entryName, type PlanEntry } from "./export_plan.ts";
import { argumentsText, resultsText, writeWasm } from "./wasm_export.ts";

/**
 * The files of an export as a program for Deno: it reads numbers of the input as JSON, an object or, where there is one
 * input, a list, and writes those of the output; without input it does the recorded call. Of several functions it takes
 * names, each with its input or without.
 */
export function writeDeno(
  entries: readonly PlanEntry[],
  writer: Standalone,
  weights: Uint8Array<ArrayBuffer>,
): ExportFiles {
  const [{ name: first, plan: { name } }] = entries, files = new Map(writeWasm(entries, writer, weights));
  const hasWeights = weights.length > 0, isOne = first === "";
  const names = [`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : []), `${name}.test.json`];
  const read = (file: string): string => `Deno.readFileSync(import.meta.dirname + "/${file}")`;
  const calls = entries.map((e) => {
    const inputs = arraysOf(e.plan, "input"), only = inputs.length === 1 ? inputs[0][1].name : undefined;
    return `  ${entryName(e)}: { only: ${JSON.stringify(only)}, call: (given: Given): Record<string, Taken> => {\n` +
      `    return ${resultsText(e, `m.${entryName(e)}(${argumentsText(e, "given")})`)};\n  } },`;
  });
  files.set(
    "main.ts",
    [
      `// ${name}: numbers in as JSON, numbers out. deno run --allow-read main.ts ${
        isOne ? "" : `${entryName(entries[0])} `
      }'{"inputs": {...}, "sizes": {...}}'`,
      ...(isOne ? [] : [`// functions: ${entries.map(entryName).join(", ")}; several are called one after the other`]),
      `// deno compile --allow-read ${names.map((n) => `--include ${n}`).join(" ")} -o ${name} main.ts`,
      `import { load } from "./${name}.js";`,
      "",
      "type Numbers = unknown[]; // numbers, bigints as text, in lists of any depth",
      "type Taken = Iterable<number | bigint>;",
      "interface Given {",
      "  inputs: Record<string, Numbers>;",
      "  sizes: Record<string, number>;",
      "}",
      "interface Call {",
      "  only: string | undefined;",
      "  call(given: Given): Record<string, Taken>;",
      "}",
      `const recorded = JSON.parse(new TextDecoder().decode(${read(`${name}.test.json`)}));`,
      "// deno-lint-ignore no-explicit-any",
      'const typed = (A: any, list: Numbers) => A.from(list.flat(Infinity), A.name.startsWith("Big") ? BigInt : Number);',
      `const m = await load(${[`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : [])].map(read).join(", ")});`,
      "const calls: Record<string, Call> = {",
      ...calls,
      "};",
      "function answer(name: string, text: string | undefined): void {",
      "  const found = Object.hasOwn(calls, name) ? calls[name] : undefined;",
      '  if (found === undefined) throw new Error(`There is no function ${name}: ${Object.keys(calls).join(", ")}`);',
      `  const known: Given = ${isOne ? "recorded" : "recorded[name]"};`,
      "  const read = text === undefined ? known : JSON.parse(text), { only } = found;",
      "  const isList = Array.isArray(read) && only !== undefined;",
      "  const made = found.call(isList ? { inputs: { [only]: read }, sizes: known.sizes } : { ...known, ...read });",
      "  const all = Object.entries(made).map(([key, list]) => [key, Array.from(list, Number)]);",
      "  console.log(JSON.stringify(Object.fromEntries(all)));",
      "}",
      ...(isOne ? [`answer("run", Deno.args[0]);`] : [
        "const isName = (x: string | undefined): boolean => x !== undefined && /^[A-Za-z]/.test(x);",
        `const args = Deno.args.length > 0 ? [...Deno.args] : ["${entryName(entries[0])}"];`,
        "while (args.length > 0) answer(args.shift()!, args.length === 0 || isName(args[0]) ? undefined : args.shift());",
      ]),
      "",
    ].join("\n"),
  );
  return files;
}
