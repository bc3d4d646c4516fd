/**
 * Chains of steps within rows, on a simulated grid and where loops run kernels: the same values as kernel by kernel, in few
 * kernels, without races.
 */
import { assert, assertEquals } from "@std/assert";
import { context, Device, dtypes, GlobalCounters, Tensor } from "../../../mod.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { registerLoops, registerSim } from "../../fixtures/sim.ts";
import { Random } from "../../support/random.ts";

registerSim();
registerLoops();
Device.get("SIM" as string);
Device.get("LOOPS" as string);

type Step = (x: Tensor) => Tensor;
type Values = Float32Array | Int32Array | BigInt64Array;

function rowsOf(seed: number, shape: readonly number[], device: string): Tensor {
  const random = new Random(seed), n = shape.reduce((a, b) => a * b);
  const values = Float32Array.from({ length: n }, () => random.below(200) - 100);
  return new Tensor(values, { device }).reshape([...shape]).realize();
}

/** What `f` gives on `device`, the kernels that it takes, and what it gives on JS without opts. */
async function both(f: Step, shape: readonly number[], seed = 1, device = "SIM"): Promise<[Values, number, Values]> {
  const y = f(rowsOf(seed, shape, device)), before = GlobalCounters.kernelCount;
  optimized(() => y.realize())();
  const kernels = GlobalCounters.kernelCount - before;
  const want = await context({ NOOPT: 1 }, async () => await f(rowsOf(seed, shape, "JS")).data());
  return [await y.data() as Values, kernels, want as Values];
}

/** A transform of Walsh and Hadamard, as its definition says. */
function hadamard(x: Tensor): Tensor {
  const shape = x.shape as number[], n = shape[1];
  for (let h = 1; h < n; h *= 2) {
    const y = x.reshape([shape[0], n / (2 * h), 2, h]), a = y.at(":", ":", 0), b = y.at(":", ":", 1);
    x = a.add(b).stack([a.sub(b)], 2).reshape(shape).contiguous();
  }
  return x;
}

const CASES: readonly (readonly [name: string, shape: readonly number[], kernels: number, f: Step])[] = [
  ["sort", [3, 300], 1, (x) => x.sort(1)[0]],
  [
    "sort of float16, descending",
    [2, 100],
    1,
    (x) => x.cast(dtypes.float16).contiguous().sort(1, { descending: true })[0],
  ],
  ["argsort of int64", [2, 65], 1, (x) => x.cast(dtypes.int64).contiguous().argsort(1)],
  ["sort of uint8", [1, 64], 1, (x) => x.abs().cast(dtypes.uint8).contiguous().sort(1)[0]],
  ["topk", [3, 200], 1, (x) => x.topk(7, 1)[0]],
  ["cumsum", [5, 1000], 1, (x) => x.cumsum(1)],
  ["cumsum of one row", [1, 300], 1, (x) => x.cumsum(1)],
  ["cummax of ints", [4, 129], 1, (x) => x.cast(dtypes.int32).contiguous().cummax(1)[0]],
  ["steps by hand", [3, 128], 1, hadamard],
  ["short rows", [1024, 32], 1, hadamard],
];

for (const [name, shape, most, f] of CASES) {
  Deno.test(`join rows: ${name}`, async () => {
    const [got, kernels, want] = await both(f, shape);
    assertEquals(got, want);
    assert(kernels <= most, `${kernels} kernels`);
  });
}

const ON_LOOPS: readonly (readonly [name: string, shape: readonly number[], kernels: number, f: Step])[] = [
  ["sort", [80, 64], 1, (x) => x.sort(1)[0]],
  ["topk", [60, 60], 1, (x) => x.topk(7, 1)[0]],
  ["cumsum", [40, 400], 1, (x) => x.cumsum(1)],
  ["cummax of ints", [64, 129], 1, (x) => x.cast(dtypes.int32).contiguous().cummax(1)[0]],
  ["steps by hand", [32, 128], 1, hadamard],
  ["short rows", [1024, 32], 1, hadamard],
  ["rows that do not fit", [4, 2048], 2, (x) => x.cumsum(1)],
  ["what the cache holds anyway", [3, 32], 5, hadamard],
  ["fewer rows than threads", [1, 512], 9, hadamard],
];

for (const [name, shape, count, f] of ON_LOOPS) {
  Deno.test(`join rows on loops: ${name}`, async () => {
    const [got, kernels, want] = await context({ SPEC: 1 }, () => both(f, shape, 1, "LOOPS"));
    assertEquals(got, want);
    assertEquals(kernels, count);
  });
}

Deno.test("join rows on loops: one thread", async () => {
  for (const [shape, count] of [[[1, 512], 9], [[2, 256], 1]] as const) { // one row is no block of several
    const [got, kernels, want] = await both(hadamard, shape, 1, "LOOPS:1");
    assertEquals([got, kernels], [want, count]);
  }
});

Deno.test("join rows: loops run what was scheduled for a grid", async () => {
  for (const [name, shape, most, f] of CASES) {
    const [got, kernels, want] = await context({ VALIDATE_WITH_JS: 1 }, () => both(f, shape));
    assertEquals(got, want, name);
    assert(kernels <= most, `${name}: ${kernels} kernels`);
  }
});

Deno.test("join rows: a Fourier transform", async () => {
  const [got, kernels, want] = await both((x) => x.rfft(), [3, 256]);
  assert(got.every((v, i) => Math.abs(Number(v) - Number(want[i])) < 1e-2));
  assert(kernels <= 2, `${kernels} kernels`);
});

Deno.test("join rows: NaN, zeros of both signs and infinities are sorted as elsewhere", async () => {
  const values = [NaN, -0, 0, Infinity, -Infinity, 1, -1, NaN], x = Array.from({ length: 96 }, (_, i) => values[i % 8]);
  const f = (device: string) => new Tensor([x, x.toReversed()], { device, dtype: "float32" }).realize().sort(1)[0];
  const want = await context({ NOOPT: 1 }, async () => await f("JS").data());
  assertEquals(await f("SIM").data(), want);
});

Deno.test("join rows: what is seen as another dtype is read from memory", async () => {
  const f: Step = (x) => x.cast(dtypes.int32).contiguous().bitcast(dtypes.int64).add(1).bitcast(dtypes.int32);
  const [got, , want] = await both(f, [3, 8]);
  assertEquals(got, want);
  const [same, , there] = await both((x) => x.add(1).contiguous().bitcast(dtypes.int32).add(1), [3, 8]);
  assertEquals(same, there);
});

/** A random step that takes a kernel: what it makes of an element depends on a few others of its row. */
function randomStep(random: Random, n: number): Step {
  const parts = [2, 3, 4, 5, 8].filter((d) => n % d === 0), d = parts.length === 0 ? 1 : random.pick(parts), k = n / d;
  const by = 1 + random.below(3);
  const wrap = (u: Tensor, rows: number): Tensor => u.reshape([rows, n]).contiguous();
  switch (random.below(7)) {
    case 0: // a transpose of the row
      return (x) => wrap(x.reshape([-1, d, k]).permute([0, 2, 1]).add(1), x.shape[0] as number);
    case 1: // sums and differences of its parts
      return (x) => wrap(x.add(x.reshape([-1, d, k]).flip([1]).reshape([-1, n])).contiguous(), x.shape[0] as number);
    case 2: // a short sum, which all that made it get
      return (x) => {
        const y = x.reshape([-1, k, d]);
        return wrap(y.sub(y.sum(2, { keepdim: true }).contiguous()), x.shape[0] as number);
      };
    case 3: // neighbors, with zeros beyond the edge
      return (x) => {
        return wrap(
          x.add(x.shrink([[0, x.shape[0] as number], [0, n - by]]).pad([[0, 0], [by, 0]])),
          x.shape[0] as number,
        );
      };
    case 4: // the other way round
      return (x) => wrap(x.flip([1]).mul(-1), x.shape[0] as number);
    case 5:
      return (x) => wrap(x.cumsum(1).mod(101), x.shape[0] as number);
    default: // other rows too: no phase
      return (x) => wrap(x.add(x.flip([0])), x.shape[0] as number);
  }
}

Deno.test("join rows: random chains", async () => {
  for (let seed = 1; seed <= 24; seed++) {
    const random = new Random(seed),
      rows = random.pick([1, 2, 3, 8, 64]),
      n = random.pick([6, 16, 30, 64, 75, 128, 160]);
    const steps = Array.from({ length: 2 + random.below(5) }, () => randomStep(random, n));
    const f: Step = (x) => steps.reduce((y, step) => step(y).mod(1009).contiguous(), x);
    const [got, , want] = await both(f, [rows, n], seed);
    assertEquals(got, want, `seed ${seed}`);
  }
});

Deno.test("join rows on loops: random chains", async () => {
  let joined = 0;
  for (let seed = 1; seed <= 24; seed++) {
    const random = new Random(seed), rows = random.pick([16, 24, 64]), n = random.pick([6, 16, 30, 64, 75, 128, 160]);
    const steps = Array.from({ length: 2 + random.below(5) }, () => randomStep(random, n));
    const f: Step = (x) => steps.reduce((y, step) => step(y).mod(1009).contiguous(), x);
    const [got, kernels, want] = await context({ SPEC: 1 }, () => both(f, [rows, n], seed, "LOOPS"));
    assertEquals(got, want, `seed ${seed}`);
    if (kernels < steps.length) joined++;
  }
  assert(joined >= 6, `${joined} of 24 were joined`);
});
