/** Comparing results: what may differ where sums were taken in another order, and what may not. */
import { match, strictEqual } from "node:assert/strict";
import { difference, roundedTo } from "../../src/engine/validate.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { AxisKind } from "../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { index, load, param, range } from "../../src/uop/core/uop.ts";

const bytes = (x: ArrayBufferView): Uint8Array => new Uint8Array(x.buffer);

Deno.test("validate: what a value is rounded to on the way is its coarsest arithmetic, not what is read", () => {
  const k = range(8, 0, AxisKind.REDUCE), { float16, float32, bfloat16 } = dtypes;
  const x = load(index(param(1, float16, 8), k)), sum = reduce(opCarrier(Ops.ADD, float32), [x.cast(float32)], [k]);
  strictEqual(roundedTo(x), float16);
  strictEqual(roundedTo(sum), float32);
  strictEqual(roundedTo(sum.cast(float16).cast(float32)), float16);
  strictEqual(roundedTo(sum.cast(bfloat16).cast(float32).add(1)), bfloat16);
  strictEqual(roundedTo(load(index(param(1, dtypes.int32, 8), k))), dtypes.int32);
});

Deno.test("validate: float32 that was rounded to 16 bits may fall to either side of a tie, and no further", () => {
  const want = bytes(new Float32Array([3.025390625])), near = bytes(new Float32Array([3.0234375]));
  strictEqual(difference(near, want, dtypes.float32, dtypes.float16), undefined);
  strictEqual(difference(near, want, dtypes.float32), "element 0 of float32 is 3.0234375, not 3.025390625");
  const far = bytes(new Float32Array([3.046875]));
  strictEqual(
    difference(far, want, dtypes.float32, dtypes.float16),
    "element 0 of float32 is 3.046875, not 3.025390625",
  );
  // whole numbers are what they are, whatever was rounded
  const ints = [bytes(new Int32Array([5])), bytes(new Int32Array([6]))] as const;
  strictEqual(difference(ints[0], ints[1], dtypes.int32, dtypes.float16), "element 0 of int32 has the byte 5, not 6");
});

Deno.test("validate: what terms leave that cancel is held to the size of others, and a wrong element is still one", () => {
  const sums = Float32Array.from({ length: 64 }, (_, i) => 300 * Math.sin(i)),
    at5 = (x: number) => bytes(sums.with(5, x));
  const want = at5(0.992);
  strictEqual(difference(at5(0.9927), want, dtypes.float32), undefined);
  match(difference(at5(1.4), want, dtypes.float32)!, /^element 5 of float32 is 1\.39/);
  const small = new Float32Array(64).fill(0.01);
  match(difference(bytes(small.with(5, 0.0115)), bytes(small), dtypes.float32)!, /^element 5 of float32 /);
});
