/**
 * Reductions by key that are combined with other values: how many kernels there are and what memory they plan, and values,
 * beside loops of this file.
 *
 * @module
 */
import assert from "node:assert/strict";
import { planOf } from "../../../bench/memory.ts";
import { context, Device, jit, nn, schedule, Tensor } from "../../../mod.ts";
import { isByKey } from "../../../src/codegen/late/keyed_loops.ts";
import { scheduleNodes } from "../../../src/schedule/schedule.ts";
import { devicesHere } from "../../fixtures/devices.ts";

/** Calls `run` where `device` is the default. */
async function on(device: string, run: () => unknown): Promise<void> {
  const before = Device.default;
  Device.default = device;
  try {
    await run();
  } finally {
    Device.default = before;
  }
}

/** Bytes planned for the intermediates of `ts`. */
function planned(ts: readonly Tensor[]): number {
  return scheduleNodes(ts.map((t) => t.uop)).variant.plan.blocks.reduce((n, b) => n + b.nbytes, 0);
}

const WORDS = 4096, DIM = 256, LENGTH = 16, TABLE = WORDS * DIM * 4;

/** The loss of a model whose table of words is looked up, so often, and multiplied with. */
function lossOf(words: nn.Embedding, mixed: nn.Linear, lookups: number): Tensor {
  const tokens = Tensor.empty([LENGTH], { dtype: "int32" }).realize();
  let x = mixed.call(words.call(tokens));
  // other shapes: gradients are not one sum
  if (lookups > 1) x = x.add(words.call(tokens.reshape([LENGTH / 2, 2])).reshape([LENGTH, DIM]));
  return x.matmul(words.weight.transpose()).sparseCategoricalCrossentropy(tokens);
}

/** How many tables the plan of `make` on the NULL device may have. */
const PLANS: readonly [name: string, most: number, make: (words: nn.Embedding, mixed: nn.Linear) => Tensor[]][] = [
  ["a gradient", 0.5, (words, mixed) => lossOf(words, mixed, 1).gradient([words.weight, mixed.weight])],
  ["a gradient of two lookups", 0.5, (words, mixed) => lossOf(words, mixed, 2).gradient([words.weight])],
  ["a step of Adam", 1.5, (words, mixed) => stepOf(new nn.optim.Adam([words.weight, mixed.weight]), words, mixed)],
  [
    "a step with momentum",
    1.5,
    (words, mixed) => stepOf(new nn.optim.SGD([words.weight, mixed.weight], { lr: 1, momentum: 0.9 }), words, mixed),
  ],
];

function stepOf(optimizer: nn.optim.Adam | nn.optim.SGD, words: nn.Embedding, mixed: nn.Linear): Tensor[] {
  return Tensor.train(() => {
    lossOf(words, mixed, 1).backward();
    return optimizer.scheduleStep();
  });
}

for (const [name, most, make] of PLANS) {
  Deno.test(`combine there: ${name} of a table that is looked up and multiplied with`, () =>
    on("NULL", () => {
      const tables = planned(make(new nn.Embedding(WORDS, DIM), new nn.Linear(DIM, DIM))) / TABLE;
      assert.ok(tables < most, `${tables} tables are planned`);
    }));
}

Deno.test("combine there: the gradient of GPT-2 plans less than its table", () =>
  on("NULL", () => {
    const { planned } = planOf("gpt2");
    assert.ok(planned < 50257 * 768 * 4 / 2, `${planned} bytes are planned`);
  }));

const ROWS = 2000, WIDTH = 8, TERMS = 150;

/** Places of terms, other ones for each `step`. */
function places(step: number): number[] {
  return Array.from({ length: TERMS }, (_, i) => (i * step) % ROWS);
}

type Fold = (a: number, b: number) => number;
const SUM: Fold = (a, b) => a + b;

/** What `from(row * WIDTH + column)` is, with the number of each term folded to the rows of its place for each of `steps`. */
function expected(from: (i: number) => number, steps: readonly number[], fold: Fold = SUM): number[] {
  const out = Array.from({ length: ROWS * WIDTH }, (_, i) => from(i));
  for (const step of steps) {
    places(step).forEach((row, t) => {
      for (let j = 0; j < WIDTH; j++) out[row * WIDTH + j] = fold(out[row * WIDTH + j], t * WIDTH + j);
    });
  }
  return out;
}

for (const device of await devicesHere()) {
  const { caps } = Device.get(device).renderer, isOnLoops = !caps.hasGrid;
  const given = (n: number): Tensor => Tensor.arange(n, undefined, undefined, { device }).cast("float32").realize();
  const terms = given(TERMS * WIDTH).reshape([TERMS, WIDTH]), memory = given(ROWS * WIDTH).reshape([ROWS, WIDTH]);
  const at = (step: number): Tensor => new Tensor(places(step), { device, dtype: "int32" }).realize();
  const folded = (x: Tensor, index: Tensor, how: "sum" | "amax" | "prod" = "sum"): Tensor =>
    x.scatterReduce(0, index.reshape([TERMS, 1]).expand([TERMS, WIDTH]), terms, how);
  const one = at(7), other = at(31);
  const values = (t: Tensor): Promise<unknown> => t.flatten().tolist();

  /** Kernels that go by key, all kernels, what is computed, and what that is. */
  const cases: readonly [string, number, number, () => Tensor[], (readonly number[])[]][] = [
    ["a value", 1, 2, () => [folded(memory.mul(2), one)], [expected((i) => 2 * i, [7])]],
    ["memory", 1, 2, () => [folded(memory, one)], [expected((i) => i, [7])]],
    ["memory that is kept", 1, 3, () => [folded(memory, one).contiguous().add(1)], [expected((i) => i + 1, [7])]],
    ["two of one value", 2, 3, () => {
      const x = memory.mul(2);
      return [folded(x, one), folded(x, other)];
    }, [expected((i) => 2 * i, [7]), expected((i) => 2 * i, [31])]],
    [
      "one after the other",
      2,
      3,
      () => [folded(folded(memory.mul(2), one), other)],
      [expected((i) => 2 * i, [7, 31])],
    ],
    ["each other", 2, 2, () => {
      const none = Tensor.zeros([ROWS, WIDTH]);
      return [folded(none, one).add(folded(none, other).reshape([ROWS, WIDTH]))];
    }, [expected(() => 0, [7, 31])]],
    ["a number", 1, 1, () => [folded(Tensor.full([ROWS, WIDTH], 3, { dtype: "float32" }), one)], [
      expected(() => 3, [7]),
    ]],
    ["itself", 1, 2, () => {
      const x = folded(Tensor.zeros([ROWS, WIDTH]), one);
      return [x.add(x)];
    }, [expected(() => 0, [7, 7])]],
    [
      "a maximum",
      1,
      2,
      () => [folded(memory.sub(9000), one, "amax")],
      [expected((i) => i - 9000, [7], Math.max)],
    ],
  ];
  for (const [name, byKey, count, make, want] of cases) {
    Deno.test(`combine there ${device}: ${name}`, () =>
      on(device, async () => {
        if (isOnLoops) {
          const items = schedule(make()).filter((i) => i.ast !== undefined);
          assert.equal(items.filter((i) => isByKey(i.ast!, caps)).length, byKey);
          assert.ok(items.length <= count, `${items.length} kernels`);
        }
        for (const flags of [{}, { FUSE: 0 }, { NOOPT: 1 }]) {
          const made = make();
          context(flags, () => Tensor.realize(made));
          for (const [i, t] of made.entries()) assert.deepEqual(await values(t), want[i]);
        }
        assert.deepEqual(await values(memory), expected((i) => i, []));
      }));
  }

  Deno.test(`combine there ${device}: what is assigned to what it adds to is added there`, async () => {
    const x = given(ROWS * WIDTH).reshape([ROWS, WIDTH]).clone().realize();
    x.assign(folded(x, one));
    if (isOnLoops) assert.deepEqual(schedule([x]).map((i) => isByKey(i.ast!, caps)), [true]);
    else x.realize();
    x.realize();
    x.assign(folded(x, other)).realize();
    // rows of what is added to, which must be those from before
    const before = await x.tolist() as number[][];
    x.assign(x.indexAdd(0, one, x.indexSelect(0, other)));
    const want = before.map((row) => row.slice()), from = places(31);
    places(7).forEach((row, t) => before[from[t]].forEach((v, j) => want[row][j] += v));
    assert.deepEqual(await x.tolist(), want);
  });

  Deno.test(`combine there ${device}: a captured call begins with what is there anew`, async () => {
    const twice = memory.mul(2), f = jit((index: Tensor) => folded(twice, index));
    const g = jit((index: Tensor, x: Tensor) => folded(x.add(1), index));
    for (const step of [7, 31, 17, 5]) {
      assert.deepEqual(await values(f(at(step))), expected((i) => 2 * i, [step]));
      const x = memory.add(step).realize();
      assert.deepEqual(await values(g(at(step), x)), expected((i) => i + step + 1, [step]));
    }
  });
}
