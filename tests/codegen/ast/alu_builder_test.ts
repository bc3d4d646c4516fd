/** Copies of operations: what they come to where their sources are the same. */
import { assertStrictEquals } from "@std/assert";
import { broadcast, buildAlu } from "../../../src/codegen/ast/alu_builder.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, load, param, uop } from "../../../src/uop/core/uop.ts";

for (const dtype of [dtypes.int32, dtypes.int64, dtypes.float32]) {
  const x = load(index(param(0, dtype, 4), constant(0, dtypes.int32)));
  const y = load(index(param(0, dtype, 4), constant(1, dtypes.int32)));
  const pair = uop(Ops.VECTORIZE, dtype.vec(2), [x, y]), no = constant(0, dtypes.bool);
  Deno.test(`alu builder: a ${dtype.name} is not less than itself`, () => {
    assertStrictEquals(buildAlu(Ops.CMPLT, dtypes.bool, [x, x]), no);
    assertStrictEquals(buildAlu(Ops.CMPLT, dtypes.bool, [pair, pair]), broadcast(no, 2));
  });
  Deno.test(`alu builder: a ${dtype.name} ${dtype.isFloat ? "may differ" : "does not differ"} from itself`, () => {
    const made = buildAlu(Ops.CMPNE, dtypes.bool, [pair, pair]);
    const want = dtype.isFloat ? uop(Ops.CMPNE, dtypes.bool.vec(2), [pair, pair]) : broadcast(no, 2);
    assertStrictEquals(made, want);
  });
}
