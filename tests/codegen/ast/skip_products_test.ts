/** Products of which one operand is nothing under a condition on loops: skipped, without hiding what is no number. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { skipProducts } from "../../../src/codegen/ast/skip_products.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { simplifyKernel } from "../../../src/uop/algebra/valid.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { CAPS, compile, type Data, opts, paramsOf, run } from "../harness.ts";

const GIVEN = 9, STRIDE = 2, TAPS = 3, INNER = 8, OUTER = 32, WIDE = 12, MADE = GIVEN * STRIDE - 1;

/** A transposed convolution along the outer axis of [MADE, WIDE, OUTER], with `taps` at a distance of `stride`. */
function kernel(op: Ops = Ops.ADD, dtype = dtypes.float32, stride = STRIDE): UOp {
  const y = range(MADE, 0, AxisKind.LOOP), x = range(WIDE, 1, AxisKind.LOOP), c = range(OUTER, 2, AxisKind.LOOP);
  const i = range(INNER, 3, AxisKind.REDUCE), k = range(TAPS, 4, AxisKind.REDUCE), from = y.add(k);
  const at = (slot: number, size: number, place: UOp, gate?: UOp): UOp =>
    load(index(param(slot, dtype, size), place, gate));
  const row = from.sub(1).floorDiv(stride);
  const gate = from.lt(1).ne(1).and(from.lt(GIVEN * stride)).and(from.add(1).floorMod(stride).lt(1));
  const product = at(1, INNER * GIVEN * WIDE, i.mul(GIVEN * WIDE).add(row.mul(WIDE)).add(x), gate)
    .mul(at(2, INNER * TAPS * OUTER, i.mul(TAPS * OUTER).add(k.mul(OUTER)).add(c)));
  const value = reduce(opCarrier(op, dtype), [product], [i, k]);
  const place = y.mul(WIDE * OUTER).add(x.mul(OUTER)).add(c);
  return simplifyKernel(sink([store(index(param(0, dtype, MADE * WIDE * OUTER), place), value)]));
}

function data(ast: UOp): Data[] {
  return paramsOf(ast).map(({ size }, slot) =>
    Float32Array.from({ length: size }, (_, i) => (i * (slot + 3)) % 17 - 8)
  );
}

const TILE = opts("VECTOR:2:16 UPCAST:1:12");

Deno.test(
  "skip products: iterations in which an operand is nothing add nothing",
  optimized(() => {
    const { uops } = compile(kernel(), TILE, CAPS.large);
    const from = uops.findIndex((u) => u.op === Ops.IF), depths: number[] = [];
    let depth = 0;
    for (const u of uops) {
      if (u.op === Ops.IF) depth++;
      if (u.op === Ops.ENDIF) depth--;
      if ((u.op === Ops.MULACC || u.op === Ops.MUL) && u.dtype.count === 16) depths.push(depth);
    }
    assert(from > 0 && depths.length > 12 && depths.every((d) => d === 1), "each product is under a condition");
  }),
);

Deno.test("skip products: what is left alone", () => {
  const edges = kernel(Ops.ADD, dtypes.float32, 1);
  for (const ast of [kernel(Ops.MAX), kernel(Ops.ADD, dtypes.int32), edges, kernel()]) {
    // a maximum, whole numbers, a condition that nearly always holds, and no tiles of which there would be less
    assertStrictEquals(skipProducts(ast), ast);
  }
});

Deno.test("skip products: values, with infinities and what is no number beside nothing", () => {
  const ast = kernel(), given = data(ast);
  for (const bad of [undefined, Infinity, -Infinity, NaN]) {
    if (bad !== undefined) given[2][TAPS * OUTER + OUTER + 5] = bad;
    const [want] = run(ast, given, []);
    assert(bad === undefined || Number.isNaN(want[WIDE * OUTER + 5]), "0 * Infinity is no number");
    assert(want.some((v) => v !== 0 && Number.isFinite(v)));
    for (const caps of Object.values(CAPS)) {
      assertEquals(run(ast, given, TILE, caps)[0], want);
      assertEquals(run(ast, given, undefined, caps)[0], want);
    }
  }
});
