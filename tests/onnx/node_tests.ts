/**
 * Runs the node tests of ONNX from a folder: `deno run -A --no-check tests/onnx/node_tests.ts FOLDER [--only REGEX]
 * [--device D] [--json FILE]`, or with the folder in ONNX_NODE_TESTS. Prints how many pass by version of the operators, and
 * what fails and why.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { opsetOf, readCase, runCase } from "./node_cases.ts";

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["only", "device", "json"] });
  const folder = String(args._[0] ?? Deno.env.get("ONNX_NODE_TESTS") ?? ""), only = new RegExp(args.only ?? "");
  const names = [...Deno.readDirSync(folder)].map((e) => e.name).filter((n) => n.startsWith("test_") && only.test(n))
    .sort();
  const counts = new Map<string, [number, number]>(), failures: [string, string, string][] = [];
  for (const name of names) {
    const test = readCase(folder, name), opset = opsetOf(test), count = counts.get(opset) ?? [0, 0];
    const wrong = await runCase(test, args.device ?? "WASM");
    counts.set(opset, [count[0] + (wrong === undefined ? 1 : 0), count[1] + 1]);
    if (wrong !== undefined) {
      failures.push([test.name, opset, wrong]);
      console.log(`${test.name} (${opset}): ${wrong.slice(0, 300)}`);
    }
  }
  for (const [opset, [passed, all]] of [...counts].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }))) {
    console.log(`opset ${opset}: ${passed} of ${all}`);
  }
  console.log(`${names.length - failures.length} of ${names.length} pass`);
  if (args.json !== undefined) Deno.writeTextFileSync(args.json, JSON.stringify({ counts: [...counts], failures }));
}
