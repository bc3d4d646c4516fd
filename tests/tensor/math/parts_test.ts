/** Results of several tensors: each read by itself, in any order, and all at once, is what it is beside the others. @module */
import assert from "node:assert/strict";
import { context, Device, Tensor } from "../../../mod.ts";

const x = () => new Tensor([[4, 1, 0.5], [1, 3, -1], [0.5, -1, 2]]);
const MANY: Readonly<Record<string, (x: Tensor) => readonly Tensor[]>> = {
  svd: (x) => x.svd(),
  "svd of a tall one": (x) => x.at(":", [0, 2]).svd(false),
  "svd of several": (x) => x.expand([2, 3, 3]).svd(false),
  eigh: (x) => x.eigh(),
  qr: (x) => x.qr(),
  lu: (x) => x.lu(),
  luFactor: (x) => x.luFactor(),
  slogdet: (x) => x.slogdet(),
  lstsq: (x) => x.lstsq(x.at(":", [0, 2])),
  sort: (x) => x.sort(),
  topk: (x) => x.topk(2),
  varMean: (x) => x.mul(36).varMean(), // whole numbers, whose sums are exact in any order
  frexp: (x) => x.frexp(),
  aminmax: (x) => x.aminmax(),
  pool: (x) => x.reshape([1, 1, 3, 3]).maxPool2d(2, { stride: 1, returnIndices: true }),
};

for (const device of ["CLANG", "WASM", "JS"] as const) {
  const off = Device.list().find((d) => d.name === device)?.reason;
  for (const [name, make] of Object.entries(MANY)) {
    Deno.test({
      name: `parts ${device}: ${name}`,
      ignore: off !== undefined,
      sanitizeResources: false,
      fn: async () => {
        await context({ DEV: device }, async () => {
          const together = make(x());
          Tensor.realize([...together]);
          const want = await Promise.all(together.map((t) => t.tolist()));
          assert.deepEqual(await Promise.all(make(x()).map((t) => t.tolist())), want);
          for (const turned of [false, true]) {
            const parts = make(x()).map((t, i) => [t, i] as const), got: unknown[] = [];
            for (const [t, i] of turned ? parts.toReversed() : parts) got[i] = await t.tolist();
            assert.deepEqual(got, want);
          }
        });
      },
    });
  }
}
