/** Steps down a graph. */
import { assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, int, load, param, store, uop } from "../../../src/uop/core/uop.ts";
import { baseOf, throughAfter } from "../../../src/uop/rewrite/walk.ts";

Deno.test("walk: past order, and to the memory of an address", () => {
  const memory = param(0, dtypes.float32, 8), at = index(memory, int(3)), write = store(at, load(at));
  const after = uop(Ops.AFTER, dtypes.float32, [uop(Ops.AFTER, dtypes.float32, [memory, write]), write]);
  assertStrictEquals(throughAfter(after), memory);
  assertStrictEquals(throughAfter(at), at);
  assertStrictEquals(baseOf(uop(Ops.AFTER, dtypes.float32, [index(after, int(2)), write])), memory);
});
