/** Carriers: joining several partial results is what combining them one after the other is, up to rounding. */
import { assertClose, assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { type CarrierArg, momentsCarrier, opCarrier, productCarrier } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { simplify } from "../../../src/uop/algebra/symbolic.ts";
import { constant, type UOp } from "../../../src/uop/core/uop.ts";

const f64 = dtypes.float64;

function part(carrier: CarrierArg, values: readonly number[]): UOp[] {
  return values.map((v, i) => constant(v, carrier.dtypes[i]));
}
function numbers(lanes: readonly UOp[]): number[] {
  return lanes.map((u) => {
    const { op, value } = simplify(u);
    assertEquals(op, Ops.CONST);
    return value;
  });
}

const ROWS: readonly (readonly [name: string, parts: readonly (readonly number[])[]])[] = [
  ["single values", [[1, 3, 0], [1, 5, 0], [1, -2, 0], [1, 4.5, 0]]],
  ["nothing and something", [[0, 0, 0], [1, 1e8, 0], [0, 0, 0], [1, 1e8 + 8, 0], [1, 1e8 - 8, 0]]],
  ["parts of several sizes", [[5, 2, 10], [1, -3, 0], [12, 0.5, 7], [3, 9, 1]]],
  ["nothing", [[0, 0, 0], [0, 0, 0], [0, 0, 0]]],
];
for (const [name, parts] of ROWS) {
  Deno.test(`carrier: moments joined are moments combined: ${name}`, () => {
    const moments = momentsCarrier(f64), both = productCarrier([moments, opCarrier(Ops.ADD, f64)]);
    for (const carrier of [moments, both]) {
      const lifts = parts.map((p) => part(carrier, [...p, ...carrier === both ? [p[1]] : []]));
      const got = numbers(carrier.join!(lifts)), want = numbers(lifts.reduce((a, b) => carrier.combine(a, b)));
      assertClose(got, want, 1e-12);
    }
  });
}

Deno.test("carrier: only what gains by it is joined", () => {
  assertEquals(opCarrier(Ops.ADD, f64).join, undefined);
  assertEquals(productCarrier([opCarrier(Ops.ADD, f64), opCarrier(Ops.MAX, f64)]).join, undefined);
});
