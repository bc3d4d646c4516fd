/**
 * docs/reference.md: every function, class and constant that is exported, but for the methods of tensors, with arguments. In:
 * what `deno doc` says of modules, and their sources. Out: the page. `deno run -A tests/pages/reference_page.ts` writes
 * it anew, and docs/tensor.md.
 *
 * @module
 */
import { ROOT } from "../system/subprocess.ts";
import { declarationsOf, exportedNames, formatted, prose, sectionLines, type Symbol } from "./declarations.ts";
import { TENSOR_PAGE, tensorPage } from "./tensor_page.ts";

/** The page, relative to the project. */
export const REFERENCE_PAGE = "docs/reference.md";

/** What is on the page: how it is reached, its module, what is said of it. */
const SECTIONS: readonly (readonly [title: string, prefix: string, module: string, about: string])[] = [
  ["Layers", "nn.", "src/nn/nn.ts", "Each is called by `.call(x, ...)`."],
  ["Optimizers and schedules", "nn.optim.", "src/nn/optim.ts", ""],
  ["Loading data", "nn.data.", "src/nn/data/data.ts", ""],
  ["Data sets", "nn.datasets.", "src/nn/datasets/datasets.ts", ""],
  ["Weights and files", "state.", "src/state/state.ts", ""],
  [
    "Several processes",
    "dist.",
    "src/dist/dist.ts",
    "What `./dist` exports: `import * as dist`. Guide: [distributed.md](distributed.md).",
  ],
  ["Around training", "", "src/train/train.ts", "What `./train` exports."],
  [
    "Models of ONNX",
    "onnx.",
    "src/onnx/onnx.ts",
    "What `./onnx` exports: `import * as onnx`. Guide: [onnx.md](onnx.md).",
  ],
  [
    "Models of TensorFlow.js",
    "tfjs.",
    "src/tfjs/tfjs.ts",
    "What `./tfjs` exports: `import * as tfjs`. Guide: [onnx.md](onnx.md#models-of-tensorflow).",
  ],
  ["Language models", "", "src/llm/llm.ts", "What `./llm` exports. Guide: [llm.md](llm.md)."],
  ["A program of its own", "", "src/export/export.ts", "What `./export` exports. Guide: [export.md](export.md)."],
  ["The story of a result", "", "src/story/story.ts", "What `./story` exports."],
];

/** What `mod.ts` exports besides, by the files that it is from. */
const GROUPS: readonly (readonly [title: string, files: RegExp, about: string])[] = [
  [
    "Functions of functions",
    /^src\/tensor\/(transforms|jit)\//,
    "Guides: [transforms.md](transforms.md), [jit.md](jit.md).",
  ],
  ["Beside tensors", /^src\/tensor\//, "The methods of tensors are in [tensor.md](tensor.md)."],
  ["Devices", /^src\/device\//, "Guide: [devices.md](devices.md)."],
  ["Dtypes", /^src\/dtype\//, "Guide: [numbers.md](numbers.md)."],
  ["Modes and context variables", /^src\/helpers\/(?!errors)/, "All variables are in [env.md](env.md)."],
  ["Errors", /^src\/helpers\/errors/, "Each extends the nearest class of JavaScript, and has what it names as fields."],
  ["What runs", /./, "Guides: [watching.md](watching.md), [tuning.md](tuning.md)."],
];
/** Elsewhere: tensors and the options of their methods, and the namespaces. */
const ELSEWHERE: ReadonlySet<string> = new Set(["Tensor", "nn", "state", ...exportedNames("src/tensor/types.ts")]);

function fileOf({ declarations: [{ location }] }: Symbol): string {
  return location.filename.slice(ROOT.href.length);
}

/** The symbols that a module exports. */
function exported(module: string, all: readonly Symbol[]): Symbol[] {
  return exportedNames(module).filter((name) => !ELSEWHERE.has(name)).flatMap((name) =>
    all.filter((s) => s.name === name)
  );
}

/** The page as it should be. */
export async function referencePage(): Promise<string> {
  const found = await declarationsOf([...SECTIONS.map(([, , module]) => module), "mod.ts", "src/ir/ir.ts"]);
  const all = found.get("mod.ts")!, rest = new Set(exported("mod.ts", all));
  const lines = SECTIONS.flatMap(([title, prefix, module, about]) =>
    sectionLines(title, prefix, about, found.get(module)!)
  );
  for (const [title, files, about] of GROUPS) {
    const members = [...rest].filter((s) => files.test(fileOf(s)));
    for (const s of members) rest.delete(s);
    lines.push(...sectionLines(title, "", about, members, all));
  }
  lines.push(
    "",
    "## The compiler from within",
    "",
    "What `./ir` exports; [extending.md](extending.md) is about it.",
    "",
  );
  for (const { name, declarations } of exported("src/ir/ir.ts", found.get("src/ir/ir.ts")!)) {
    const [sentence] = prose(declarations.find((d) => prose(d.jsDoc) !== "")?.jsDoc).split(/(?<=\.) /);
    lines.push(`- \`${name}\`${sentence === "" ? "" : `: ${sentence}`}`);
  }
  return await formatted([
    "# Reference: functions, layers, optimizers, files, devices",
    "",
    "Every function, class and constant that is exported, with arguments and options, as the sources declare them. The",
    "methods of `Tensor` have a page of their own: [tensor.md](tensor.md).",
    ...lines,
  ]);
}

if (import.meta.main) {
  await Deno.writeTextFile(new URL(REFERENCE_PAGE, ROOT), await referencePage());
  await Deno.writeTextFile(new URL(TENSOR_PAGE, ROOT), await tensorPage());
}
