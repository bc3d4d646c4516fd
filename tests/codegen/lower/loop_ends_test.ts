/** Loops of reductions that end, or begin, where conditions hide the rest: values, and that they do. */
import { assert, assertEquals } from "@std/assert";
import { context, Device, schedule, Tensor } from "../../../mod.ts";
import { scheduleTarget } from "../../../src/schedule/schedule_target.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { devicesHere } from "../../fixtures/devices.ts";

/** Rows and columns. */
const N = 640;

/** What is computed of a square `x`, and which elements count at row i, column j. */
const FORMS: Readonly<Record<string, { of: (x: Tensor) => Tensor; counts: (i: number, j: number) => boolean }>> = {
  "below a diagonal": { of: (x) => x.tril().sum(1), counts: (i, j) => j <= i },
  "above a diagonal": { of: (x) => x.triu(3).sum(1), counts: (i, j) => j >= i + 3 },
  "beside a diagonal": { of: (x) => x.tril(90).triu(-50).sum(1), counts: (i, j) => j <= i + 90 && j >= i - 50 },
  "of columns": { of: (x) => x.transpose().triu(1).sum(0), counts: (i, j) => j < i },
  "of which some rows have none": { of: (x) => x.tril(-200).sum(1), counts: (i, j) => j <= i - 200 },
};

/** How many loops of the kernels of `t` end at what is computed. */
function computedEnds(t: Tensor, device: string): number {
  const { renderer } = Device.get(device);
  const uops = context({ NOOPT: 0 }, () => {
    return schedule([t]).flatMap((item) => item.ast === undefined ? [] : toProgram(item.ast, renderer).uops);
  });
  return uops.filter((u) => u.op === Ops.RANGE && u.src[0].op !== Ops.CONST).length;
}

for (const device of await devicesHere()) {
  if (Device.get(device).renderer.caps.hasGrid) continue;
  const values = Float32Array.from({ length: N * N }, (_, i) => (i * 7919) % 101 / 8 - 6);
  for (const [name, { of, counts }] of Object.entries(FORMS)) {
    Deno.test(`loop ends ${device}: sums ${name}`, async () => {
      const x = new Tensor(values, { device }).reshape([N, N]), sums = of(x), want = new Float64Array(N);
      for (let i = 0; i < N * N; i++) if (counts(Math.floor(i / N), i % N)) want[Math.floor(i / N)] += values[i];
      assert(computedEnds(sums, device) > 0);
      // numbers are multiples of 1/8: their sums are exact
      assertEquals([...await sums.data()], [...want]);
    });
  }

  Deno.test(`loop ends ${device}: sums by key, as many as memory says`, async () => {
    const keys = Array.from({ length: 4000 }, (_, i) => i % 5 === 0 ? 3 : i * 7919 % 700),
      r = 64,
      want = new Float64Array(700 * r);
    keys.forEach((k, i) => {
      for (let j = 0; j < r; j++) want[k * r + j] += values[i * r + j];
    });
    const x = new Tensor(values.subarray(0, 4000 * r), { device }).reshape([4000, r]);
    const index = new Tensor(keys, { device, dtype: "int32" }).unsqueeze(1).expand([4000, r]);
    // as for a grid, which sorts the keys
    scheduleTarget.now = { name: "grid", caps: { ...Device.get(device).renderer.caps, hasGrid: true } };
    const sums = x.constLike(0).shrink([[0, 700], [0, r]]).scatterReduce(0, index, x, "sum");
    scheduleTarget.now = undefined;
    assert(computedEnds(sums, device) > 0);
    assertEquals([...await sums.data()], [...want]);
  });

  Deno.test(`loop ends ${device}: what is hidden is not read, and what is not a number shows`, async () => {
    const bad = values.map((v, i) => i % N > Math.floor(i / N) ? (i % 2 ? NaN : Infinity) : v);
    const x = new Tensor(bad, { device }).reshape([N, N]), seen = x.constLike(1, { dtype: "bool" }).tril();
    assertEquals(await x.tril().sum(1).isfinite().all().item(), true);
    assertEquals(await seen.where(x, -Infinity).max(1).isfinite().all().item(), true);
    // 0 times what is not a number is none: products with a triangle are whole
    const product = seen.cast("float32").matmul(x);
    assertEquals(await product.at(0).isfinite().sum().item(), 1);
    // rows that are hidden as a whole
    const p = x.constLike(1, { dtype: "bool" }).tril(-200).where(x.isfinite().where(x, 0), -Infinity).softmax(1);
    assertEquals(await p.isnan().sum().item(), 200 * N);
  });

  Deno.test(`loop ends ${device}: causal attention, as without opts`, async () => {
    const [q, k, v] = [1, 2, 3].map((s) =>
      new Tensor(Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, i) => Math.sin(i * s)), { device }).reshape([
        2,
        3,
        64,
        64,
      ]).realize()
    );
    const of = () => q.scaledDotProductAttention(k, v, undefined, { isCausal: true }).realize();
    const [got, want] = [of(), context({ NOOPT: 1 }, of)];
    assert(Number(await got.sub(want).abs().max().item()) < 1e-5);
  });
}
