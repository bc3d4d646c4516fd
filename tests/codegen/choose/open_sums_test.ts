/** Sums over two loops that end at variables: what is chosen for one leaves the other possible. */
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, int, load, param, range, sink, store, variable } from "../../../src/uop/core/uop.ts";
import { CAPS, expectSame, integers, paramsOf, run } from "../harness.ts";

Deno.test("open sums: the lanes of one loop are not unrolled with the other", () => {
  const i32 = dtypes.int32, n = variable("n", 1, 8);
  const a = range(n, 0, AxisKind.REDUCE), b = range(n.add(2), 1, AxisKind.REDUCE);
  const x = load(index(param(1, i32, 720), b.mul(72))), y = load(index(param(2, i32, 80), a.mul(10).add(b)));
  const ast = sink([store(index(param(0, i32, 1), int(0)), reduce(opCarrier(Ops.ADD, i32), [x.mul(y)], [a, b]))]);
  const data = integers(paramsOf(ast));
  for (const [kind, caps] of Object.entries(CAPS)) {
    for (const size of [1, 3, 8]) {
      expectSame(ast, run(ast, data, undefined, caps, [size]), run(ast, data, [], {}, [size]), `${kind}, n = ${size}`);
    }
  }
});
