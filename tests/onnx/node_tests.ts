/**
 * Runs the node tests of ONNX: `deno run -A --no-check tests/onnx/node_tests.ts [FOLDER] [--only REGEX] [--device D]`. The
 * folder, or what ONNX_NODE_TESTS names, holds a `test_*` folder a case, as onnx/onnx has them in
 * onnx/backend/test/data/node; without one, what is stored here runs. Prints how many pass by version of the operators,
 * and what fails and why. `--write` also writes docs/onnx.md, `--pack FILE` stores the small cases.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { opsetOf, packCases, readCase, reasonOf, runCase, storedCases } from "./node_cases.ts";
import { writePage } from "./onnx_page.ts";

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["only", "device", "pack"], boolean: ["write"] });
  const folder = String(args._[0] ?? Deno.env.get("ONNX_NODE_TESTS") ?? ""), only = new RegExp(args.only ?? "");
  const device = args.device ?? "WASM";
  const cases = folder === ""
    ? await storedCases()
    : [...Deno.readDirSync(folder)].map((e) => e.name).filter((n) => n.startsWith("test_")).sort()
      .map((n) => readCase(folder, n));
  if (args.pack !== undefined) {
    const { stored, nbytes } = await packCases(cases, args.pack);
    console.log(`${stored} of ${cases.length} cases are stored, ${nbytes} bytes`);
    Deno.exit();
  }
  const counts = new Map<string, [number, number]>(), failures: { name: string; opset: string; wrong: string }[] = [];
  for (const test of cases.filter((t) => only.test(t.name))) {
    const opset = opsetOf(test), count = counts.get(opset) ?? [0, 0], wrong = await runCase(test, device);
    counts.set(opset, [count[0] + (wrong === undefined ? 1 : 0), count[1] + 1]);
    if (wrong === undefined) continue;
    failures.push({ name: test.name, opset, wrong });
    console.log(`${test.name} (${opset}): ${wrong.slice(0, 300)}; ${reasonOf(test.name) ?? "NOT EXPLAINED"}`);
  }
  const sorted = [...counts].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
  for (const [opset, [passed, all]] of sorted) console.log(`opset ${opset}: ${passed} of ${all}`);
  const all = sorted.reduce((n, [, c]) => n + c[1], 0);
  console.log(`${all - failures.length} of ${all} pass on ${device}`);
  if (args.write) await writePage(device, sorted, failures.map((f) => f.name));
}
