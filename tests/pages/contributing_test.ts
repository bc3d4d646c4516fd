/**
 * docs/contributing.md: its changes, all made in a copy of the sources, give what the page says, leave the tests that go
 * through tables of everything as they were, and touch no more files than its table says.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "../system/subprocess.ts";
import { snippetsOf, wrongExamples } from "./pages.ts";

const PAGE = "docs/contributing.md";
const page = await Deno.readTextFile(new URL(PAGE, ROOT));

/** A change of a file: lines that stand there, one after the other, and what they become. */
interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** The changes of a block: files under `---`, places apart by `@@`. */
function changesOf(diff: string): Change[] {
  return diff.split(/^--- /m).slice(1).flatMap((part) => {
    const [file, ...lines] = part.trimEnd().split("\n");
    return lines.join("\n").split(/^@@\n/m).map((hunk) => {
      const kept = (but: string): string =>
        hunk.trimEnd().split("\n").filter((l) => l[0] !== but).map((l) => `${l.slice(1)}\n`).join("");
      return { file, from: kept("+"), to: kept("-") };
    });
  });
}

/** Tests that go through all ops, dtypes, devices, methods and sources: what is added must have its place in each. */
const TABLES: readonly string[] = [
  "tests/layers_test.ts",
  "tests/errors_test.ts",
  "tests/dtype",
  "tests/uop/core",
  "tests/uop/algebra/eval_test.ts",
  "tests/fuzz/numbers_test.ts",
];

/** The sections: what each is about, what it changes, which files it adds, and what runs after it. */
const sections = page.split(/^## /m).slice(1).map((text) => {
  const title = text.slice(0, text.indexOf("\n"));
  const changes = [...text.matchAll(/^```diff\n(.*?)^```$/gms)].flatMap(([, diff]) => changesOf(diff));
  const blocks = snippetsOf(PAGE, text), added = blocks.filter((b) => b.attributes.includes(".ts"));
  const files = new Set([...changes.map((c) => c.file), ...added.map((b) => b.attributes.split(" ")[1])]);
  return { title, changes, added, files, checks: blocks.filter((b) => !added.includes(b)) };
});

const listed = new Map(
  [...page.matchAll(/^\| (.+?) +\| .+? \| (\d+) +\| .+\|$/gm)].map(([, title, count]) => [title, Number(count)]),
);

Deno.test("contributing: each example touches as many files as the table says", () => {
  assert.deepEqual(sections.map(({ title, files }) => [title.toLowerCase(), files.size]), [...listed]);
  assert.ok(listed.get("an op of the graph")! <= 6);
  assert.ok(listed.get("another method of tensors")! <= 4);
});

async function copied(from: URL, to: URL): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const e of Deno.readDir(from)) {
    if (e.isDirectory) await copied(new URL(`${e.name}/`, from), new URL(`${e.name}/`, to));
    else if (/\.(ts|md)$|^deno\.json$/.test(e.name)) await Deno.copyFile(new URL(e.name, from), new URL(e.name, to));
  }
}

Deno.test("contributing: with all of its changes the examples give what the page says", async () => {
  const dir = await Deno.makeTempDir({ prefix: "dinograd-test-" }), root = new URL(`file://${dir}/`);
  try {
    for (const folder of ["src/", "backends/", "tests/", "bench/", "examples/", "docs/"]) {
      await copied(new URL(folder, ROOT), new URL(folder, root));
    }
    for (const file of ["mod.ts", "deno.json", "README.md"]) {
      await Deno.copyFile(new URL(file, ROOT), new URL(file, root));
    }
    for (const { title, changes, added } of sections) {
      for (const { file, from, to } of changes) {
        const url = new URL(file, root), text = await Deno.readTextFile(url);
        assert.equal(text.split(from).length - 1, 1, `${title}: ${file} has once, and only once:\n${from}`);
        await Deno.writeTextFile(url, text.replace(from, () => to));
      }
      for (const { attributes, code } of added) {
        const url = new URL(attributes.split(" ")[1], root);
        await Deno.mkdir(new URL("./", url), { recursive: true });
        await Deno.writeTextFile(url, code);
      }
    }
    const checks = sections.flatMap((s) => s.checks);
    assert.equal(checks.length, sections.length);
    assert.deepEqual(await wrongExamples(checks, root), []);
    const run = async (...args: string[]): Promise<void> => {
      const { code, stdout, stderr } = await runDeno(["test", "-A", "--no-check", ...args], {
        cwd: root,
        timeoutMs: 600_000,
      });
      assert.equal(code, 0, stdout + stderr);
    };
    await run(...TABLES);
    await run("--filter=every method of tensors has an example", "tests/pages/doc_test.ts");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("contributing: a change is lines that stand there, and what they become", () => {
  const [one, two] = changesOf("--- a.ts\n x\n+y\n@@\n-u\n+v\n");
  assert.deepEqual(one, { file: "a.ts", from: "x\n", to: "x\ny\n" });
  assert.deepEqual(two, { file: "a.ts", from: "u\n", to: "v\n" });
});
