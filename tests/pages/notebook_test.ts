/** examples/notebook.ipynb: its cells, one after the other in one process, show what a notebook can show. */
import assert from "node:assert/strict";
import { ROOT } from "../system/subprocess.ts";
import { runModules } from "./pages.ts";

interface Cell {
  readonly cell_type: "code" | "markdown";
  readonly source: readonly string[];
}
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
${bodies.join("\n")}
console.log(JSON.stringify(__out));
`;
}

Deno.test("notebook: each cell shows what it is to show", async () => {
  const shown = JSON.parse(await runModules({ "main.ts": moduleOf() }, false)) as Record<string, string>[];
  const kinds = shown.map((bundle) => Object.keys(bundle).find((k) => k !== "text/plain") ?? bundle["text/plain"]);
  const svg = "image/svg+xml";
  assert.deepEqual(kinds, ["text/html", svg, svg, svg, "image/png", svg, "true"]);
  assert.match(shown[0]["text/html"], /<td>11<\/td>/);
  for (const bundle of shown) if (svg in bundle) assert.match(bundle[svg], /^<svg[^]*<\/svg>$/);
});

Deno.test("notebook: it is stored without outputs", () => {
  const stored = JSON.parse(Deno.readTextFileSync(url)) as {
    cells: { outputs?: unknown[]; execution_count?: unknown }[];
  };
  assert.deepEqual(stored.cells.flatMap((c) => c.outputs ?? []), []);
  assert.ok(stored.cells.every((c) => (c.execution_count ?? null) === null));
});
