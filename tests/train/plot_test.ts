/** Plots: what is drawn, for lists of all kinds, and what mistakes are told. */
import assert from "node:assert/strict";
import { plot } from "../../src/train/train.ts";

const count = (svg: string, what: string): number => svg.split(what).length - 1;

Deno.test("plot: lines, dots and bars, as many as there are", () => {
  assert.equal(count(plot.line([1, 2, 3]).svg, "<path"), 1);
  assert.equal(count(plot.line({ a: new Float32Array([1, NaN, 3]), b: [[0, 1], [5, 2]] }).svg, "<path"), 2);
  assert.equal(count(plot.scatter([1, 2, 3], new BigInt64Array([1n, 2n, 3n])).svg, "<circle"), 3);
  const hist = plot.hist(new Float32Array([1, 1, 2, 9, NaN]), { bins: 4, title: "<t>" }).svg;
  assert.equal(count(hist, 'fill="#2f7ed8"'), 5); // four bars, and the legend
  assert.ok(hist.includes("&#60;t&#62;"));
  for (const list of [[], [5], [NaN], [0, 0], [-1, -1]]) {
    for (const made of [plot.line(list), plot.hist(list), plot.scatter(list, list)]) {
      assert.doesNotMatch(made.svg.replace(/<style>.*?<\/style>/s, ""), /NaN|Infinity|undefined/);
    }
  }
});

Deno.test("plot: bars stand on zero, and count all", () => {
  const { svg } = plot.hist([0, 0, 0, 1], { bins: 2, width: 200, height: 200 });
  const bars = [...svg.matchAll(/<rect x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)" fill/g)];
  const [[y0, h0], [y1, h1]] = bars.map(([, y, h]) => [Number(y), Number(h)]);
  assert.ok(Math.abs(y0 + h0 - (y1 + h1)) < 0.2 && Math.abs(h0 / h1 - 3) < 0.02, `${[y0, h0, y1, h1]}`);
});

Deno.test("plot: notebooks show it, and mistakes are told", () => {
  const shown = plot.line([1, 2]) as unknown as Record<symbol, () => Record<string, string>>;
  assert.match(shown[Symbol.for("Jupyter.display")]()["image/svg+xml"], /^<svg/);
  assert.throws(() => plot.scatter([1], [1, 2]), /Cannot plot dots: x has 1 numbers and y 2/);
  assert.throws(
    () => plot.hist(5 as unknown as number[]),
    /values must be a list of numbers \(await t\.data\(\)\), not 5/,
  );
  assert.throws(() => plot.hist([1], { bins: 0 }), /Cannot plot a histogram/);
  assert.throws(() => plot.hist([1], { bin: 3 } as never), /unknown option "bin"/);
});
