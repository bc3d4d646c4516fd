/**
 * Slices along dimensions that are divided: read, they are sums of what the devices have of them; written, each device
 * writes what it has. Values, gradients and captured writes against one device, on sizes that do not divide evenly too.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, ShapeError, Tensor } from "../../mod.ts";
import { Mesh } from "../../src/dist/dist.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"];
const line = Mesh.of({ data: 3 }, { devices: devices.slice(0, 3) }), grid = Mesh.of({ data: 2, model: 2 }, { devices });

const READS: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  "rows": (x) => x.shrink([[2, 5], null]),
  "a row": (x) => x.at(3),
  "the last row": (x) => x.at(-1),
  "rows and columns": (x) => x.shrink([[1, 7], [1, 3]]),
  "no rows": (x) => x.shrink([[2, 2], null]),
  "a slice of a slice": (x) => x.shrink([[1, 6], null]).shrink([[2, 4], null]),
  "bools": (x) => x.gt(5).shrink([[2, 5], null]),
  "integers": (x) => x.int().shrink([[2, 5], null]),
  "infinities": (x) => x.sub(6).log().shrink([[1, 3], null]),
  "a sum of it": (x) => x.shrink([[2, 5], null]).mul(2).sum(0),
  "its square": (x) => x.shrink([[2, 5], null]).square(),
  "parts": (x) => x.split(3)[1].add(1),
  "beside all": (x) => x.sub(x.at(0)),
  "differences": (x) => x.shrink([[1, 7], null]).sub(x.shrink([[0, 6], null])),
};
const WRITES: Readonly<Record<string, (x: Tensor) => unknown>> = {
  "a number to rows": (x) => x.setAt([[1, 4]], 9),
  "a number to a row": (x) => x.setAt([3], 9),
  "a row to a row": (x) => x.setAt([3], x.at(0).mul(2)),
  "an element": (x) => x.setAt([6, 1], 9),
  "rows and columns": (x) => x.shrink([[5, 7], [0, 1]]).assign(x.shrink([[0, 2], [1, 2]])),
  "two after each other": (x) => x.setAt([0], 9).setAt([[0, 2], [1, 3]], 5),
  "rows of a part": (x) => x.setAt([[2, 6]], x.shrink([[0, 4], null]).add(1)),
  "what is read beside": (x) => x.setAt([1], x.sum(0)),
};
const whole = Tensor.arange(21).float().reshape([7, 3]).realize();
const PLACES: readonly (readonly [string, (t: Tensor) => Tensor])[] = [
  ["three devices", (t) => t.shard(line, ["data", null])],
  ["a grid", (t) => t.shard(grid, ["data", "model"])],
  ["columns", (t) => t.shard(grid, [null, "data"])],
];
/** Memory of its own, somewhere. */
const put = (place: (t: Tensor) => Tensor): Tensor => place(whole.clone()).realize();
const ALONE = (t: Tensor): Tensor => t;

for (const [where, place] of PLACES) {
  for (const [what, f] of Object.entries(READS)) {
    Deno.test(`slices: ${what}, on ${where}`, async () => {
      const results = [ALONE, place].map((p) => f(put(p)));
      assert.deepEqual(await results[1].tolist(), await results[0].tolist());
      if (!results[0].dtype.isFloat || what === "infinities") return;
      const grads = [ALONE, place].map((p) => {
        const x = put(p);
        x.requiresGrad = true;
        f(x).square().sum().add(x.sum()).backward();
        return x.grad!;
      });
      assert.deepEqual(await grads[1].tolist(), await grads[0].tolist());
      assert.equal(grads[1].sharding, put(place).sharding, "its gradient is divided as it is");
    });
  }
  for (const [what, write] of Object.entries(WRITES)) {
    Deno.test(`slices: ${what} is written, on ${where}`, async () => {
      const after = (p: (t: Tensor) => Tensor): Tensor => {
        const x = put(p);
        write(x);
        return x;
      };
      const want = await after(ALONE).tolist(), got = after(place), { sharding } = put(place);
      assert.deepEqual([await got.tolist(), got.sharding], [want, sharding]);
      const again = [ALONE, place].map((p) => {
        const x = put(p),
          step = jit((x: Tensor) => {
            write(x);
            return x.sum().realize();
          });
        return [0, 1, 2].map(() => step(x)).concat(x);
      });
      for (const [i, t] of again[1].entries()) assert.deepEqual(await t.tolist(), await again[0][i].tolist());
    });
  }
}

Deno.test("slices: one that is summed goes as its sum, and says that it is one", () => {
  const x = put(PLACES[0][1]), before = GlobalCounters.collectiveBytes, sum = x.shrink([[1, 5], null]).sum(0);
  assert.equal(x.shrink([[1, 5], null]).sharding, "float32[4, 3]{data: sum}");
  assert.equal(x.gt(1).at(0).sharding, "bool[3]{data: max}");
  sum.realize();
  assert.equal(GlobalCounters.collectiveBytes - before, 3 * 3 * 4);
});

Deno.test("slices: what is written through more than a slice is refused, and the advice works", async () => {
  const x = put(PLACES[0][1]), zeros = Tensor.zeros([3, 3]).to(x.device);
  const write = (t: Tensor) => t.shrink([[2, 5], null]).transpose(0, 1).assign(zeros);
  assert.throws(
    () => write(x).sharding,
    (e) => e instanceof ShapeError && /\.reshard\(mesh, \[null, null\]\)/.test(e.message),
  );
  const moved = put(PLACES[0][1]).reshard(line, [null, null]).realize(), alone = put(ALONE);
  write(moved);
  alone.shrink([[2, 5], null]).transpose(0, 1).assign(Tensor.zeros([3, 3]));
  assert.deepEqual(await moved.tolist(), await alone.tolist());
});
