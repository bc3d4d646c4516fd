/** Every example in the documentation runs, without any permission, and prints what it says that it prints. @module */
import assert from "node:assert/strict";
import { printedPage, PROGRAM_PAGES, type Snippet, snippetsOf, wrongComments } from "./pages.ts";
import { REFERENCE_PAGE, referencePage } from "./reference_page.ts";
import { ROOT, runDeno } from "../system/subprocess.ts";

/** What has examples: pages, and sources with comments. */
function documented(): string[] {
  const found = ["mod.ts", "README.md", "bench/README.md"];
  const walk = (folder: string) => {
    for (const e of Deno.readDirSync(new URL(folder, ROOT))) {
      if (e.isDirectory) walk(`${folder}${e.name}/`);
      else if (/\.(ts|md)$/.test(e.name)) found.push(folder + e.name);
    }
  };
  for (const folder of ["src/", "backends/", "docs/"]) walk(folder);
  return found.filter((f) => /^(?: +\* ?)?```ts\b/m.test(Deno.readTextFileSync(new URL(f, ROOT)))).sort();
}

const files = documented();
const snippets: Snippet[] = files.flatMap((f) => snippetsOf(f, Deno.readTextFileSync(new URL(f, ROOT))));

Deno.test("doc: every example type-checks and runs", async () => {
  const { code, stdout, stderr } = await runDeno(["test", "--doc", "--no-prompt", ...files], { timeoutMs: 400_000 });
  assert.equal(code, 0, stdout + stderr);
  const ran = Number(/(\d+) passed/.exec(stdout)?.[1]);
  assert.equal(ran, snippets.filter((s) => !s.attributes.includes("ignore")).length, stdout);
});

Deno.test("doc: examples print what their comments say", async () => {
  const independent = snippets.filter((s) => !s.attributes.includes("ignore"));
  assert.ok(independent.length > 10);
  assert.deepEqual(await wrongComments(independent), []);
});

for (const file of PROGRAM_PAGES) {
  Deno.test(`doc: ${file} shows what its code prints`, async () => {
    const page = await Deno.readTextFile(new URL(file, ROOT));
    const now = await printedPage(file, page);
    assert.equal(now, page, "the page is out of date; write it anew: deno run -A tests/pages/pages.ts");
  });
}

Deno.test(`doc: ${REFERENCE_PAGE} has what the sources declare`, async () => {
  const want = await referencePage(), page = await Deno.readTextFile(new URL(REFERENCE_PAGE, ROOT));
  for (
    const part of [
      "### `new nn.Linear(inFeatures: number, outFeatures: number, options?: LinearOptions)`",
      "### `new nn.optim.OneCycleLR(optimizer: Scheduled, options: OneCycleOptions)`",
      "- `growthInterval?: number`: Sound steps after which the scale grows; 2000 unless given.",
      "- `crossEntropy(Y: this, ",
      "### `state.safeSave(",
    ]
  ) assert.ok(want.includes(part), part);
  assert.equal(page, want, "deno run -A tests/pages/reference_page.ts writes it anew");
});

Deno.test("doc: links between pages lead somewhere", () => {
  for (const page of ["README.md", "bench/README.md", ...files.filter((f) => f.startsWith("docs/"))]) {
    const url = new URL(page, ROOT), text = Deno.readTextFileSync(url);
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
