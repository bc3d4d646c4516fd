/** Sums of products that are gated on both sides: one gate is enough, and iterations without products are skipped. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { ungate } from "../../../src/codegen/ast/ungate.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { simplifyKernel } from "../../../src/uop/algebra/valid.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { CAPS, compile, type Data, opts, paramsOf, run } from "../harness.ts";

const f32 = dtypes.float32, MADE = 24, GIVEN = 20, TAPS = 5, INNER = 16, OUTER = 32;

/** The gradient of an input of a convolution, [OUTER, MADE]: of windows that lie in the gradient of its output in part. */
function kernel(op: Ops = Ops.ADD): UOp {
  const c = range(OUTER, 0, AxisKind.LOOP), x = range(MADE, 1, AxisKind.LOOP);
  const k = range(TAPS, 2, AxisKind.REDUCE), o = range(INNER, 3, AxisKind.REDUCE), from = x.sub(k);
  const gate = from.lt(0).ne(1).and(from.lt(GIVEN));
  const at = (slot: number, size: number, i: UOp): UOp => load(index(param(slot, f32, size), i, gate));
  const product = at(1, INNER * GIVEN, o.mul(GIVEN).add(from))
    .mul(at(2, INNER * OUTER * TAPS, o.mul(OUTER * TAPS).add(c.mul(TAPS)).add(k)));
  const value = reduce(opCarrier(op, f32), [product], [k, o]);
  return simplifyKernel(sink([store(index(param(0, f32, OUTER * MADE), c.mul(MADE).add(x)), value)]));
}

function gates(ast: UOp): number {
  return toposort(ast).filter((u) => u.op === Ops.INDEX && u.src.length > 2).length;
}

function data(ast: UOp): Data[] {
  return paramsOf(ast).map(({ size }, slot) =>
    Float32Array.from({ length: size }, (_, i) => (i * (slot + 3)) % 17 - 8)
  );
}

Deno.test("ungate: the operand that lies in memory anyway loses its gate, the product is selected", () => {
  const ast = kernel(), made = ungate(ast);
  assertEquals([gates(ast), gates(made)], [2, 1]);
  const [where] = toposort(made).filter((u) => u.op === Ops.WHERE);
  assertStrictEquals(where.src[1].op, Ops.MUL);
  assertStrictEquals(ungate(made), made);
});

Deno.test("ungate: only sums", () => {
  const ast = kernel(Ops.MAX);
  assertStrictEquals(ungate(ast), ast);
});

Deno.test("ungate: values, with infinities under what is not added", () => {
  const ast = kernel(), given = data(ast);
  const want = run(ast, given, []);
  assert(want[0].some((v) => v !== 0));
  for (const caps of Object.values(CAPS)) assertEquals(run(ast, given, undefined, caps)[0], want[0]);
  // the last tap is never added to the first element
  for (let i = TAPS - 1; i < given[2].length; i += TAPS) given[2][i] = Infinity;
  for (const caps of Object.values(CAPS)) {
    const [got] = run(ast, given, undefined, caps), [plain] = run(ast, given, []);
    assertEquals(got, plain);
    assert(Number.isFinite(got[0]) && !Number.isFinite(got[TAPS]));
  }
});

Deno.test(
  "ungate: iterations whose products all lanes leave out are skipped",
  optimized(() => {
    const p = compile(kernel(), opts("VECTOR:0:16"), CAPS.large);
    const from = p.uops.findIndex((u) => u.op === Ops.IF), to = p.uops.findIndex((u) => u.op === Ops.ENDIF);
    const adds = p.uops.filter((u) => (u.op === Ops.MULACC || u.op === Ops.MUL) && u.dtype.count === 16);
    assert(adds.length > 0 && adds.every((u) => p.uops.indexOf(u) > from && p.uops.indexOf(u) < to));
    assert(p.uops.every((u) => u.op !== Ops.WHERE || u.dtype.count === 1), "nothing is selected");
  }),
);
