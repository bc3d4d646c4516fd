/** Every example in the documentation runs, without any permission, and prints what it says that it prints. @module */
import assert from "node:assert/strict";
import { printedPage, PROGRAM_PAGES, type Snippet, snippetsOf, wrongExamples } from "./pages.ts";
import * as dinograd from "../../mod.ts";
import { Device } from "../../mod.ts";
import { EXAMPLE_MODULES, writeExampleFiles } from "./example_files.ts";
import { exportedNames } from "./declarations.ts";
import { phraseExample, phrases } from "./phrases.ts";
import { REFERENCE_PAGE, referencePage } from "./reference_page.ts";
import { FAMILIES, methodExamples, methodNames, TENSOR_PAGE, tensorPage } from "./tensor_page.ts";
import { ROOT } from "../system/subprocess.ts";

/** Pages, and sources with comments. */
function written(): string[] {
  const found = ["mod.ts", "README.md", "bench/README.md"];
  const walk = (folder: string) => {
    for (const e of Deno.readDirSync(new URL(folder, ROOT))) {
      if (e.isDirectory) walk(`${folder}${e.name}/`);
      else if (/\.(ts|md)$/.test(e.name)) found.push(folder + e.name);
    }
  };
  for (const folder of ["src/", "backends/", "docs/"]) walk(folder);
  return found.sort();
}

/** Those of them that have examples. */
function documented(): string[] {
  return written().filter((f) => /^(?: +\* ?)?```ts\b/m.test(Deno.readTextFileSync(new URL(f, ROOT))));
}

function exists(file: URL): boolean {
  try {
    return Deno.statSync(file).isFile;
  } catch {
    return false;
  }
}

await Device.open(Device.default); // before the tests
const files = documented();
const snippets: Snippet[] = files.flatMap((f) => snippetsOf(f, Deno.readTextFileSync(new URL(f, ROOT))));

/** Files that the examples of contributing.md make. */
const MADE: readonly string[] = [
  "backends/listing/listing.ts",
  "src/codegen/choose/short_candidates.ts",
  "src/codegen/late/doubling.ts",
];

Deno.test("doc: the files that pages and comments name are there", () => {
  const missing: string[] = [];
  let count = 0;
  for (const file of written()) {
    const text = Deno.readTextFileSync(new URL(file, ROOT));
    for (
      const [name] of text.matchAll(
        /(?<!\w\/|\w)(?:src|backends|tests|bench|examples|docs)\/[\w./]+\.(?:ts|md|py|c|json|tsv)\b/g,
      )
    ) {
      const isThere = ["", ".gz"].some((end) => exists(new URL(name + end, ROOT)));
      if (!isThere && !MADE.includes(name)) missing.push(`${file}: ${name}`);
      count++;
    }
  }
  assert.deepEqual(missing, []);
  assert.ok(count > 150, `${count} names`);
});

Deno.test("doc: every example type-checks, runs, and prints what its comments say", async () => {
  const independent = snippets.filter((s) => !s.attributes.includes("ignore"));
  assert.ok(independent.length > 60);
  // of methods: their values are on the page, their types are checked here
  const examples = Object.values(await methodExamples());
  const methods = examples.map((code) => `async () => {${code};}`).join(",\n");
  const code = `import { Ops } from "../../src/ir/ir.ts";
import { kernel, Tensor, Variable, windows } from "../../mod.ts";
const examples: readonly (() => Promise<void>)[] = [${methods}];
console.log(examples.length); // ${examples.length}
`;
  const checked: Snippet = { file: "tests/pages/method_examples.ts", line: 1, code, attributes: "" };
  assert.deepEqual(await wrongExamples([...independent, checked, phraseExample(phrases())]), []);
});

/** Pages whose examples other tests look at. */
const ELSEWHERE = ["contributing", "inside", "pipeline", "reference", "tensor"].map((name) => `docs/${name}.md`);

Deno.test("doc: examples that read and write files, or compile, do so in a folder that has them", async () => {
  const others = snippets.filter((s) => s.attributes.startsWith("ignore") && !ELSEWHERE.includes(s.file));
  const open = others.filter((s) => s.attributes === "ignore").map((s) => `${s.file}:${s.line}`);
  assert.deepEqual(
    open,
    [],
    "no test looks at them: `ts` runs, `ts ignore files` in a folder of files, `ts ignore types` is compiled",
  );
  const isHere = Device.list().some((d) => d.name === "CLANG" && d.available);
  const withFiles = others.filter((s) => isHere || !/device: "CLANG"/.test(s.code));
  assert.ok(withFiles.length > 8 && withFiles.every((s) => /^ignore (files|types)$/.test(s.attributes)));
  const folder = await Deno.makeTempDir({ prefix: "dinograd-test-" });
  try {
    await writeExampleFiles(folder);
    const place = { url: new URL(`file://${folder}/`), modules: EXAMPLE_MODULES };
    assert.deepEqual(await wrongExamples(withFiles, ROOT, true, place), []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("doc: rows of the tables of other libraries are found, wrong values told", async () => {
  const rows = phrases();
  for (const name of ["PyTorch", "NumPy", "tinygrad"]) {
    assert.ok(rows.filter((r) => r.section === name).length > 20, name);
  }
  const wrong = await wrongExamples(
    [phraseExample([{ ...rows[0], ours: "x.at(0)", value: "[1, 2, 4]" }])],
    ROOT,
    false,
  );
  assert.deepEqual(wrong.map((w) => w.replace(/:\d+/, "")), ["docs/coming.md prints [1,2,3], not [1, 2, 4]"]);
});

Deno.test("doc: examples that fail, or print something else or nothing, are told", async () => {
  const example = (line: number, code: string): Snippet => ({ file: "docs/a.md", line, code, attributes: "" });
  const code = 'import { dtypes } from "../mod.ts";\nconsole.log(dtypes.bool.name); // int8\n';
  const silent = "try {\n  Math.abs(1);\n} catch {\n  console.log(1); // 1\n}\n", no = 'throw new Error("no");\n';
  assert.deepEqual(await wrongExamples([example(3, code), example(9, no), example(20, silent)], ROOT, false), [
    "docs/a.md:4 prints bool, not int8",
    "docs/a.md:9 fails: Error: no",
    "docs/a.md:23 prints nothing, not 1",
  ]);
});

for (const file of PROGRAM_PAGES) {
  Deno.test(`doc: ${file} shows what its code prints`, async () => {
    const page = await Deno.readTextFile(new URL(file, ROOT));
    const now = await printedPage(file, page);
    assert.equal(now, page, "the page is out of date; write it anew: deno run -A tests/pages/pages.ts");
  });
}

const PAGES: readonly (readonly [page: string, make: () => Promise<string>, parts: readonly string[]])[] = [
  [REFERENCE_PAGE, referencePage, [
    "### `new nn.Linear(inFeatures: number, outFeatures: number, options?: LinearOptions)`",
    "### `new nn.optim.OneCycleLR(optimizer: Scheduled, options: OneCycleOptions)`",
    "- `growthInterval?: number`: Sound steps after which the scale grows; 2000 unless given.",
    "### `state.safeSave(",
    "### `dtypes`",
    "- `synchronize(",
    "### `ShapeError`",
  ]],
  [TENSOR_PAGE, tensorPage, [
    "new Tensor([4, 9]).sqrt(); // float32 [2]: [2, 3]",
    "`silu(): this`: x sigmoid(x). Also `swish`.",
    "`crossEntropy(Y: TensorLike, ",
    "Throws `ShapeError` where no window fits. Throws `ArgumentError` for a padding",
    "#### `PoolOptions`",
  ]],
];
for (const [file, make, parts] of PAGES) {
  Deno.test(`doc: ${file} has what the sources declare`, async () => {
    const want = await make(), page = await Deno.readTextFile(new URL(file, ROOT));
    for (const part of parts) assert.ok(want.replace(/\s+/g, " ").includes(part.replace(/\s+/g, " ")), part);
    assert.equal(page, want, "deno run -A tests/pages/reference_page.ts writes it anew");
  });
}

Deno.test("doc: every method of tensors has an example, and every family a title", async () => {
  assert.deepEqual(await methodNames(), { without: [], twice: [], unknown: [], untitled: [] });
});

Deno.test("doc: all that is exported is on a page of the reference", () => {
  const pages = PAGES.map(([file]) => Deno.readTextFileSync(new URL(file, ROOT))).join("\n");
  const told = new Set(
    [...pages.matchAll(/^(?:#+|-) `(?:new |abstract class )?(?:[a-z]\w*\.)?([\w$]+)/gm)].map(([, name]) => name),
  );
  const parts = ["nn", "state", ...FAMILIES.map(([family]) => family)]; // what is in them is told
  const { exports } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))) as {
    exports: Record<string, string>;
  };
  const missing = Object.values(exports).flatMap((m) => exportedNames(m.slice(2)).filter((n) => !told.has(n)));
  assert.deepEqual(missing.filter((n) => !parts.includes(n)), []);
  const own = Object.keys(dinograd).filter((n) => !exportedNames("mod.ts").includes(n));
  assert.deepEqual(own, [], "mod.ts exports in a way that is not seen here");
});

Deno.test("doc: links between pages lead somewhere", () => {
  for (const page of ["README.md", "bench/README.md", ...files.filter((f) => f.startsWith("docs/"))]) {
    const url = new URL(page, ROOT), text = Deno.readTextFileSync(url).replace(/^```.*?^```$/gms, "");
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
      assert.ok(Deno.statSync(new URL(target, url)), `${page} links to ${target}`);
    }
  }
});

Deno.test("doc: the parser finds examples in pages and comments", () => {
  const page = "a\n\n```ts\nx;\n```\n\n```ts ignore\ny;\nz;\n```\n\n```sh\nno\n```\n";
  assert.deepEqual(snippetsOf("a.md", page), [
    { file: "a.md", line: 4, code: "x;\n", attributes: "" },
    { file: "a.md", line: 8, code: "y;\nz;\n", attributes: "ignore" },
  ]);
  const source = "/**\n * Doc.\n *\n * ```ts\n * x;\n *\n * y;\n * ```\n */\n";
  assert.deepEqual(snippetsOf("a.ts", source), [{ file: "a.ts", line: 5, code: "x;\n\ny;\n", attributes: "" }]);
});
