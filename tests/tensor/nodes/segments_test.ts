/**
 * Reductions by key: rows that one key moves are combined as rows, wherever their axes are; on devices that go through the
 * keys, and as graphs for grids, which sort them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Device, dtypes, GlobalCounters, schedule, Tensor } from "../../../mod.ts";
import { scheduleTarget } from "../../../src/schedule/schedule_target.ts";

Device.default = "WASM";
Device.get("WASM"); // opened outside of tests

const N = 1500, W = 12, PLACES = 400;
const index = Int32Array.from({ length: N }, (_, i) => (i * 7919 + (i >> 3)) % PLACES);
const values = Float32Array.from({ length: N * W }, (_, i) => ((i * 31) % 17) / 8 + 0.25);

/** A graph as it is made for a device with a grid. */
function onGrid<T>(make: () => T): T {
  scheduleTarget.now = { name: "grid", caps: { ...Device.get("WASM").renderer.caps, hasGrid: true } };
  try {
    return make();
  } finally {
    scheduleTarget.now = undefined;
  }
}
const HERE = <T>(make: () => T): T => make();

type Fold = (old: number, value: number) => number;
const FOLDS: Readonly<Record<string, Fold>> = {
  sum: (a, v) => a + v,
  prod: (a, v) => a * v,
  amax: Math.max,
  last: (_, v) => v,
};

/** Ones with rows of values written to them; keys are moved by `shift`, values multiplied. */
function expected(fold: Fold, shift = 0, factor = 1): Float64Array {
  const out = new Float64Array(PLACES * W).fill(1);
  for (let i = 0; i < N * W; i++) {
    const at = (index[Math.floor(i / W)] + shift) % PLACES * W + i % W;
    out[at] = fold(out[at], factor * values[i]);
  }
  return out;
}

async function near(got: Tensor, want: ArrayLike<number>): Promise<void> {
  const have = await got.contiguous().data();
  assert.equal(have.length, want.length);
  for (let i = 0; i < want.length; i++) {
    assert.ok(Math.abs(Number(have[i]) - want[i]) <= 1e-6 * want[i], `element ${i}`);
  }
}

for (const [name, fold] of Object.entries(FOLDS)) {
  for (const [where, build] of [["here", HERE], ["for a grid", onGrid]] as const) {
    Deno.test(`segments: ${name} of rows by an expanded index, along each axis, in batches, ${where}`, async () => {
      const i = new Tensor(index).unsqueeze(1).expand([N, W]), x = new Tensor(values).reshape([N, W]);
      const put = (to: Tensor, dim: number, at: Tensor, from: Tensor): Tensor =>
        build(() => name === "last" ? to.scatter(dim, at, from) : to.scatterReduce(dim, at, from, name as "sum"));
      const want = expected(fold);
      await near(put(Tensor.ones([PLACES, W]), 0, i, x), want);
      await near(put(Tensor.ones([W, PLACES]), 1, i.transpose(), x.transpose()).transpose(), want);
      const both = Tensor.stack([new Tensor(index), new Tensor(index).add(1).mod(PLACES)]).unsqueeze(2).expand([
        2,
        N,
        W,
      ]);
      const out = put(Tensor.ones([2, PLACES, W]), 1, both, Tensor.stack([x, x.mul(2)]));
      await near(out, [...want, ...expected(fold, 1, 2)]);
    });
  }
}

Deno.test("segments: an expanded index sorts its keys once, not once a column", () => {
  const i = new Tensor(index).unsqueeze(1).expand([N, W]);
  const x = new Tensor(values).reshape([N, W]).realize();
  const bytesOf = (at: Tensor): number => {
    const before = GlobalCounters.globalMem;
    onGrid(() => Tensor.zeros([PLACES, W]).scatterReduce(0, at, x, "sum")).realize();
    return GlobalCounters.globalMem - before;
  };
  const once = bytesOf(i), each = bytesOf(i.contiguous().realize());
  assert.ok(once < each * 0.6, `${once} bytes, with an index of its own for each column ${each}`);
});

Deno.test("segments: an index that was expanded along rows is not written in full", () => {
  const n = 4096, width = 64, at = new Tensor(Int32Array.from({ length: n }, (_, i) => (i * 31) % 512)).realize();
  const x = Tensor.ones([n, width]).contiguous().realize(), to = Tensor.zeros([512, width]);
  const made = to.scatterReduce(0, at.unsqueeze(1).expand([n, width]), x, "sum");
  const large = schedule([made]).flatMap((item) => item.bufs).filter((b) => b.dtype === dtypes.int32 && b.size > 2 * n);
  assert.deepEqual(large, []);
});
