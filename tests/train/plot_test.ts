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

/** The bytes of the pixels of a picture, a row after the other, as the PNG inside of it stores them. */
function pixelsOf(svg: string, columns: number): number[][] {
  const png = Uint8Array.from(atob(/base64,([^"]+)"/.exec(svg)![1]), (c) => c.charCodeAt(0));
  // signature and header take 33 bytes; a block has 8 before it, and deflate 7
  const view = new DataView(png.buffer), end = 41 + view.getUint32(33), row = columns * 4 + 1, rows: number[][] = [];
  for (let at = 41 + 7; at + row <= end; at += row) rows.push([...png.subarray(at + 1, at + row)]);
  return rows;
}

Deno.test("plot: of a matrix each number is a pixel, brighter for larger ones, and NaN is open", () => {
  const { svg } = plot.image([[0, 1], [NaN, Infinity], [-7, 0.5]], { title: "<m>", low: 0, high: 1 });
  const [dark, bright, middle] = [[68, 1, 84, 255], [253, 231, 37, 255], [33, 145, 140, 255]];
  assert.deepEqual(pixelsOf(svg, 2), [[...dark, ...bright], [0, 0, 0, 0, ...bright], [...dark, ...middle]]);
  assert.ok(svg.includes("&#60;m&#62;") && !svg.includes("NaN"));
  assert.deepEqual(pixelsOf(plot.image([new Float32Array([3, 9])]).svg, 2), [[...dark, ...bright]]);
  for (const rows of [[[5]], [[NaN]], [[2n, 2n]]] as number[][][]) {
    assert.doesNotMatch(plot.image(rows).svg.replace(/<style>.*?<\/style>/s, ""), /NaN|Infinity|undefined/);
  }
  assert.throws(
    () => plot.image([[1, 2], [3]]),
    /Cannot plot an image shapes \[2\] and \[1\]: rows must be of one length/,
  );
  assert.throws(
    () => plot.image([] as number[][]),
    /rows must be lists of numbers \(await t\.tolist\(\)\), not a list of 0/,
  );
  assert.throws(() => plot.image([1, 2] as never), /rows must be lists of numbers/);
  assert.throws(() => plot.image([[1]], { lo: 3 } as never), /unknown option "lo"/);
  assert.throws(() => plot.image([[1]], { low: "3" as never }), /low must be a number/);
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
