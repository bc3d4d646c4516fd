/**
 * examples/notebook.ipynb: its cells show what a notebook can show, by Jupyter's Deno kernel where it can be had, and one
 * after the other in one process.
 */
import assert from "node:assert/strict";
import { type CellOutcome, JupyterKernel } from "../support/jupyter.ts";
import { ROOT } from "../system/subprocess.ts";
import { runModules } from "./pages.ts";

interface Cell {
  readonly cell_type: "code" | "markdown";
  readonly source: readonly string[];
}
type Bundle = Readonly<Record<string, unknown>>;
const url = new URL("examples/notebook.ipynb", ROOT);
const { cells } = JSON.parse(Deno.readTextFileSync(url)) as { cells: readonly Cell[] };
const sources = cells.filter((c) => c.cell_type === "code").map((c) => c.source.join(""));

/** The cells as one module: imports on top, and what the last line of each gives is shown. */
function moduleOf(): string {
  const imports: string[] = [],
    bodies = sources.map((source) => {
      const lines = source.replace(/^import .*;$/gm, (line) => {
        imports.push(line.replace(/"(\.\.?\/[^"]*)"/, (_, path) => JSON.stringify(new URL(path, url).href)));
        return "";
      }).trim().split("\n");
      return [...lines.slice(0, -1), `__show(${lines.at(-1)!.replace(/;$/, "")});`].join("\n");
    });
  return `${imports.join("\n")}
const __out: Record<string, string>[] = [];
function __show(value: unknown): void {
  const asked = (value as Record<symbol, (() => Record<string, string>) | undefined>)[Symbol.for("Jupyter.display")];
  __out.push(asked === undefined ? { "text/plain": String(value) } : asked.call(value));
}
${bodies.join("\n").replaceAll("Deno.jupyter.display(", "__show(")}
console.log(JSON.stringify(__out));
`;
}

const svg = "image/svg+xml", png = "image/png";
/** Checks what all cells show: a table, plots, images, a graph and a value. */
function check(shown: readonly Bundle[]): void {
  const kinds = shown.map((bundle) => Object.keys(bundle).find((k) => k !== "text/plain") ?? bundle["text/plain"]);
  assert.deepEqual(kinds, ["text/html", svg, svg, svg, png, png, svg, svg, "true"]);
  assert.match(shown[0]["text/html"] as string, /<td>11<\/td>/);
  for (const bundle of shown) {
    if (svg in bundle) assert.match(bundle[svg] as string, /^<svg[^]*<\/svg>$/);
    if (png in bundle) assert.equal(atob(bundle[png] as string).slice(1, 4), "PNG");
  }
  assert.match(shown[6][svg] as string, /class="box/);
}

const isKernel = await JupyterKernel.start(new URL("examples/", ROOT)).then(
  async (kernel) => {
    await kernel[Symbol.asyncDispose]();
    return true;
  },
  () => false,
);

Deno.test("notebook: each cell shows what it is to show", async () => {
  check(JSON.parse(await runModules({ "main.ts": moduleOf() }, false)) as Bundle[]);
});

Deno.test({
  name: "notebook: Jupyter's Deno kernel shows the same, and what a cell throws",
  ignore: !isKernel,
  fn: async () => {
    await using kernel = await JupyterKernel.start(new URL("examples/", ROOT));
    const outcomes: CellOutcome[] = [];
    for (const source of sources) outcomes.push(await kernel.execute(source));
    assert.deepEqual(outcomes.map((o) => o.error), sources.map(() => undefined));
    const shown = outcomes.flatMap((o) => o.shown);
    check(shown);
    const failed = await kernel.execute("console.log('before');\nTensor.ones([2]).add(Tensor.ones([3]));");
    assert.equal(failed.printed, "before\n");
    assert.match(failed.error!, /^ShapeError: Cannot add shapes \[2\] and \[3\]: /);
    const lazy = await kernel.execute("Tensor.ones([2, 2]).add(Tensor.rand([2, 2]));");
    assert.deepEqual(lazy.shown.map((bundle) => Object.keys(bundle)), [["text/plain"]]);
  },
});

Deno.test("notebook: it is stored without outputs", () => {
  const stored = JSON.parse(Deno.readTextFileSync(url)) as {
    cells: { outputs?: unknown[]; execution_count?: unknown }[];
  };
  assert.deepEqual(stored.cells.flatMap((c) => c.outputs ?? []), []);
  assert.ok(stored.cells.every((c) => (c.execution_count ?? null) === null));
});
