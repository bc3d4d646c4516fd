/** Metrics: values by hand from the formulas, over batches of several sizes; what is left out, and what is refused. */
import { assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, jit, JitError, nn, ShapeError, Tensor } from "../../mod.ts";

Device.default = "JS"; // the host code is what is tested
Device.get();
const M = nn.metrics;
const t = (x: number[] | number[][]) => new Tensor(x),
  f = (x: number[] | number[][]) => new Tensor(x, { dtype: "float32" });

const truth = [0, 1, 2, 0, 1, 2, 2], guess = [0, 2, 2, 0, 0, 1, 2];
/** The predictions in batches of two, one and four. */
function inBatches<T extends { update(a: Tensor, b: Tensor): T }>(metric: T, a = guess, b = truth): T {
  for (const [i, j] of [[0, 2], [2, 3], [3, 7]]) metric.update(t(a.slice(i, j)), t(b.slice(i, j)));
  return metric;
}

Deno.test("metrics: accuracy of classes, scores, probabilities, positions and the k best", async () => {
  assertAlmostEquals(await inBatches(new M.Accuracy()).compute(), 4 / 7);
  const scores = f([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.2, 0.35, 0.45]]), labels = t([2, 0, 0]);
  assertAlmostEquals(await new M.Accuracy().update(scores, labels).compute(), 1 / 3);
  assertAlmostEquals(await new M.TopKAccuracy(2).update(scores, labels).compute(), 2 / 3);
  assertEquals(await new M.Accuracy({ topk: 3 }).update(scores, labels).compute(), 1);
  assertEquals(await new M.Accuracy({ threshold: 0.7 }).update(f([0.6, 0.8]), t([0, 1])).compute(), 1);
  const maps = f([[[0.9, 0.1], [0.1, 0.9]]] as never); // [1, 2 classes, 2 places]
  assertEquals(await new M.Accuracy().update(maps, t([[0, 0]])).compute(), 0.5);
  assertEquals(await new M.Accuracy({ ignoreIndex: -1 }).update(t([1, 1, 0]), t([1, -1, 1])).compute(), 0.5);
  const reset = inBatches(new M.Accuracy());
  reset.reset();
  assertEquals([await reset.compute(), await reset.update(t([1]), t([1])).compute()], [0, 1]);
});

Deno.test("metrics: confusion, precision, recall and F1 by all averages", async () => {
  const matrix = await inBatches(new M.ConfusionMatrix(3)).compute();
  assertEquals(matrix, [[2, 0, 0], [1, 0, 1], [0, 1, 2]]);
  const precision = [2 / 3, 0, 2 / 3], recall = [1, 0, 2 / 3], f1 = [0.8, 0, 2 / 3];
  for (
    const [make, each, micro] of [
      [M.Precision, precision, 4 / 7],
      [M.Recall, recall, 4 / 7],
      [M.F1, f1, 4 / 7],
    ] as const
  ) {
    const of = (average?: nn.metrics.Average) => inBatches(new make({ numClasses: 3, average })).compute();
    assertEquals((await of("none") as number[]).map((x) => x.toFixed(9)), each.map((x) => x.toFixed(9)));
    assertAlmostEquals(await of() as number, (each[0] + each[1] + each[2]) / 3);
    assertAlmostEquals(await of("weighted") as number, (2 * each[0] + 2 * each[1] + 3 * each[2]) / 7);
    assertAlmostEquals(await of("micro") as number, micro);
  }
  const binary = new M.F1().update(f([0.9, 0.8, 0.2, 0.4]), t([1, 0, 1, 0]));
  assertEquals(await binary.compute(), 0.5);
  assertEquals(await new M.Precision().update(t([0, 0]), t([1, 0])).compute(), 0, "nothing was predicted");
  assertThrows(() => new M.F1({ numClasses: 3, average: "binary" }), ArgumentError, 'average by "macro"');
  assertThrows(() => new M.F1({ average: "mean" as never }), ArgumentError, 'unknown average "mean"');
});

Deno.test("metrics: AUROC with ties, batches and classes", async () => {
  const of = (s: number[], y: number[]) => new M.AUROC().update(f(s), t(y)).compute();
  assertEquals(await of([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]), 0.75);
  assertEquals(await of([0.5, 0.5, 0.5], [0, 1, 1]), 0.5);
  const parts = new M.AUROC().update(f([0.1, 0.4]), t([0, 0])).update(f([0.35, 0.8]), t([1, 1]));
  assertEquals(await parts.compute(), 0.75);
  const classes = new M.AUROC().update(f([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.4, 0.3]]), t([0, 1, 2]));
  assertAlmostEquals(await classes.compute(), (1 + 1 + 0.75) / 3);
  await assertRejects(() => of([0.5], [1]), ArgumentError, "both must occur");
  assertThrows(() => new M.AUROC().update(f([0.5]), t([1, 0])), ShapeError, "[N, C] beside [N]");
});

Deno.test("metrics: perplexity and regression", async () => {
  const scores = f([[0, 0], [Math.log(3), 0]]), perplexity = new M.Perplexity().update(scores, t([0, 0]));
  assertAlmostEquals(await perplexity.compute(), Math.exp((Math.log(2) + Math.log(4 / 3)) / 2), 1e-6);
  const some = new M.Perplexity({ ignoreIndex: -100 }).update(scores.reshape([1, 2, 2]), t([[0, -100]]));
  assertAlmostEquals(await some.compute(), 2, 1e-6);
  const regress = <T extends { update(a: Tensor, b: Tensor): T; compute(): Promise<number> }>(m: T) =>
    m.update(f([2.5, 0]), f([3, -0.5])).update(f([2, 8]), f([2, 7])).compute();
  assertAlmostEquals(await regress(new M.MSE()), 0.375);
  assertAlmostEquals(await regress(new M.MSE({ squared: false })), Math.sqrt(0.375));
  assertAlmostEquals(await regress(new M.MAE()), 0.5);
  assertAlmostEquals(await regress(new M.R2()), 1 - 1.5 / 29.1875, 1e-6);
  const far = new M.R2().update(f([10000.5, 10001, 10003]), f([10000, 10001, 10002]));
  assertAlmostEquals(await far.compute(), 1 - 1.25 / 2, 1e-6);
  const mean = new M.Mean().update(2).update(new Tensor(5), 3);
  assertEquals([await mean.compute(), await new M.Mean().compute()], [17 / 4, 0]);
});

Deno.test("metrics: of many batches sums stay few, and exact", async () => {
  const accuracy = new M.Accuracy(), p = t([1, 0, 1]).realize(), y = t([1, 1, 1]).realize();
  for (let i = 0; i < 600; i++) accuracy.update(p, y);
  assertAlmostEquals(await accuracy.compute(), 2 / 3, 1e-12);
});

Deno.test("metrics: what is refused", () => {
  assertThrows(() => new M.Accuracy().update(t([1, 0]), t([1])), ShapeError, "axis of classes behind the first");
  assertThrows(() => new M.TopKAccuracy(3).update(f([[1, 2]]), t([1])), ShapeError, "at least 3 classes");
  assertThrows(() => new M.Accuracy().update([1] as never, t([1])), ArgumentError, "the predictions must be a tensor");
  assertThrows(() => new M.Accuracy({ topk: 0 }), ArgumentError, "topk must be an integer of at least 1");
  assertThrows(() => new M.MSE().update(f([1]), f([1, 2])), ShapeError, "shapes [1] and [2]");
  assertThrows(() => new M.TopKAccuracy(undefined as never), ArgumentError, "k must be an integer of at least 1");
  assertThrows(() => new M.Perplexity({ ignoreIndex: 1.5 }), ArgumentError, "ignoreIndex must be an integer");
  assertThrows(() => new M.MSE({ squared: 1 as never }), ArgumentError, "squared must be a boolean");
  assertThrows(() => new M.Perplexity().update(new Tensor(1), new Tensor(1)), ShapeError, "one more axis");
  const scores = f([[1, 2]]), none = undefined as never;
  for (const m of [new M.TopKAccuracy(2), new M.AUROC(), new M.Perplexity()]) {
    assertThrows(() => m.update(scores, none), ArgumentError, "must be a tensor, not undefined");
  }
  const metric = new M.MAE(),
    step = jit((x: Tensor) => {
      metric.update(x, x);
      return x;
    });
  step(f([1]));
  assertThrows(() => step(f([1])), JitError, "return the predictions, and update outside of it");
});
