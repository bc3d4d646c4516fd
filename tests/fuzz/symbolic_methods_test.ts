/** A short run of symbolic_methods.ts (long ones are by hand): some of the functions, each with a few symbolic axes. */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { putBack } from "./arguments.ts";
import { caseOf, checkCase, symbolicTargets } from "./symbolic_methods.ts";

Device.default = "JS";
const targets = symbolicTargets();

/** Functions that have counted a symbolic axis by its largest size, and some that users begin with. */
const NAMES = new Set(
  ("adaptiveAvgPool1d bernoulli cat constLike corrcoef cov crossEntropy cumsum diagEmbed diagflat exponential gather " +
    "indexCopy indexSelect isreal klDiv layernorm luFactor maskedScatter matmul multiMarginLoss multilabelMarginLoss " +
    "oneHot pad pdist scaledDotProductAttention softmax sort topk trapezoid vander var").split(" "),
);

Deno.test("symbolic methods: all functions of tensors are tried", () => {
  assert.ok(targets.length > 500, String(targets.length));
  assert.deepEqual([...NAMES].filter((name) => !targets.some((t) => t.name === name)), []);
  assert.equal(targets.filter((_, i) => caseOf(targets, 1, i) === undefined).length < 40, true);
});

Deno.test("symbolic methods: what a seed makes", async () => {
  const chosen = targets.filter((t) => NAMES.has(t.name)), found: string[] = [];
  for (let i = 0; i < chosen.length; i++) {
    const c = caseOf(chosen, 7, i);
    const why = c && await checkCase(c);
    if (why !== undefined) found.push(`case ${i}: ${c!.text}\n  ${why}`);
  }
  putBack("JS");
  assert.deepEqual(found, []);
});

Deno.test("symbolic methods: what is wrong is found", async () => {
  const mean = targets.find((t) => t.name === "mean")!, seen: string[] = [];
  // divides by the largest size, as what reads `shape` does
  const wrong = {
    ...mean,
    apply: (self: unknown) => {
      const t = self as { shape: number[]; sum(): { div(n: number): unknown } };
      return t.sum().div(t.shape.reduce((a, b) => a * b, 1));
    },
  };
  for (let i = 0; i < 6; i++) seen.push(await checkCase(caseOf([wrong], 3, i)!) ?? "");
  putBack("JS");
  assert.ok(seen.some((why) => /result 0 at 0 is/.test(why)), seen.join("\n"));
});
