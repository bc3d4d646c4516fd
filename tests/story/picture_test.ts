/** Pictures of graphs and schedules, and schedules as tables and files. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { ArgumentError, Device, schedule, Tensor } from "../../mod.ts";
import { graph } from "../../src/story/picture.ts";
import { runDeno } from "../system/subprocess.ts";
import { withProgram } from "./program_folder.ts";

const device = "JS";
Device.get();

Deno.test("graph: tensors and their schedule as DOT and SVG", () => {
  const t = Tensor.ones([6, 4], { device }).contiguous().add(1.5).sum(1).contiguous().sqrt();
  for (const what of ["tensors", "schedule"] as const) {
    const { dot, svg } = graph(t, { of: what }), boxes = dot.match(/^ {2}n\d+ \[/gm)!.length;
    assertMatch(dot, /^digraph \{\n(?: {2}.*;\n)+\}\n$/);
    for (const [, a, b] of dot.matchAll(/^ {2}n(\d+) -> n(\d+);$/gm)) {
      assert(dot.includes(`  n${a} [`) && dot.includes(`  n${b} [`), `${a} -> ${b}`);
    }
    assertEquals([svg.match(/<rect /g)!.length, svg.slice(0, 4), svg.slice(-6)], [boxes, "<svg", "</svg>"]);
    assert(what === "schedule" ? /\b[rE]_\d/.test(dot) : /SQRT/.test(dot) && /REDUCE/.test(dot), dot);
  }
  const bundle = (graph(t) as unknown as Record<symbol, () => Record<string, string>>)[Symbol.for("Jupyter.display")]();
  assertMatch(bundle["image/svg+xml"], /^<svg/);
});

Deno.test("graph: what is larger than a picture is in DOT alone", () => {
  let t = Tensor.ones([3], { device }).contiguous();
  for (let i = 0; i < 500; i++) t = t.sin();
  const { dot, svg } = graph([t]);
  assert(dot.match(/SIN/g)!.length >= 500);
  assertEquals(svg.match(/<rect /g)!.length, 400);
  assertMatch(svg, /and \d+ nodes more/);
});

Deno.test("graph: labels are quoted; what is no tensor is refused", () => {
  const t = Tensor.ones([2], { device });
  for (const wrong of [3, [], [t, 4], null]) {
    assertThrows(() => graph(wrong as never), ArgumentError, "a tensor or a list");
  }
  assertThrows(() => graph(t, { of: "nodes" } as never), ArgumentError, "nodes");
  assertThrows(() => graph(t, { off: 1 } as never), ArgumentError, "off");
});

Deno.test("schedule: prints as a table of its steps", () => {
  const x = new Tensor([[1, 2], [3, 4]], { device }), steps = schedule([x.add(1.5).sum(0), x.mul(2.5)]);
  const lines = Deno.inspect(steps).split("\n");
  assertMatch(lines[0], /^ +step +device +writes +reads +ops +moves +line$/);
  assertEquals(lines.length, steps.length + 1);
  lines.slice(1).forEach((l, i) => assertMatch(l, new RegExp(`^ *${i}  \\S+ +JS +#\\d+ float32x\\d+ `)));
  assertEquals([Array.isArray(steps), Object.keys(steps).length], [true, steps.length]);
  assertMatch(Deno.inspect(Tensor.ones([2], { device }).realize().schedule()), /^ +step/);
});

Deno.test("graph: GRAPH and SAVE_SCHEDULE of a program", () =>
  withProgram(
    `const x = Tensor.ones([8], { device: "WASM" }).contiguous().realize();
for (let i = 0; i < 3; i++) x.add(2.5).sum().realize();`,
    async (folder) => {
      const env = { GRAPH: "1", SAVE_SCHEDULE: "kept/s.json" };
      const { code, stderr } = await runDeno(["run", "-A", "--no-check", "program.ts"], { cwd: folder, env });
      assertEquals(code, 0, stderr);
      const names = [...Deno.readDirSync(`${folder}/graph`)].map((e) => e.name).sort();
      assertEquals(
        names.filter((n) => n.startsWith("1_")),
        ["schedule.dot", "schedule.svg", "tensors.dot", "tensors.svg"].map((n) => `1_${n}`),
      );
      assert(names.length <= 12, "each schedule once");
      assertMatch(Deno.readTextFileSync(`${folder}/graph/${names.at(-1)}`), /^<svg/);
      const { title, schedules, kernels } = JSON.parse(Deno.readTextFileSync(`${folder}/kept/s.json`));
      assertEquals(title, "program.ts");
      assert(schedules.some((s: { uses: number }) => s.uses >= 2) && kernels.length > 0);
      assert(
        kernels.some((k: { lines: string[] }) =>
          k.lines.includes("program.ts:3:35") || k.lines.some((l) => l.startsWith("program.ts:3:"))
        ),
      );
    },
  ));
