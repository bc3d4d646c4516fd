import { assertEquals } from "@std/assert";
import { dtypes } from "../../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../../src/uop/core/args.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../../src/uop/core/uop.ts";
import { SCALAR_CAPS } from "../../../../src/renderer/renderer.ts";
import { compile, opts, run } from "../../harness.ts";

const small = [dtypes.float16, dtypes.bfloat16];
const without = SCALAR_CAPS.computeDTypes.filter((d) => !small.includes(d));
/** Neither computes in nor stores small floats. */
const BITS = { computeDTypes: without, storageDTypes: without, vectorBytes: 16, vectorLanes: () => 4 };
/** Stores them. */
const STORED = { ...BITS, storageDTypes: SCALAR_CAPS.storageDTypes };

function copy(from: typeof small[0], to: typeof small[0], n: number): UOp {
  const i = range(n, 0, AxisKind.LOOP);
  return sink([store(index(param(0, to, n), i), load(index(param(1, from, n), i)).cast(to))]);
}

for (const [name, caps] of [["bits", BITS], ["stored", STORED]] as const) {
  Deno.test(`dtype: all float16 to float32 by ${name}`, () => {
    const n = 1 << 16;
    const bits = Uint16Array.from({ length: n }, (_, i) => i);
    const half = new Float16Array(bits.buffer);
    const got = run(copy(dtypes.float16, dtypes.float32, n), [new Float32Array(n), half], opts("VECTOR:0:4"), caps)[0];
    half.forEach((x, i) => Object.is(got[i], x) || assertEquals(got[i], x, `bits ${i}`));
  });

  Deno.test(`dtype: float32 to float16 and bfloat16 by ${name}`, () => {
    const values: number[] = [
      0,
      -0,
      NaN,
      Infinity,
      -Infinity,
      65504,
      65519.99,
      65520,
      1e-8,
      2 ** -24,
      2 ** -25,
      1.5 * 2 ** -25,
    ];
    for (let i = 0; i < 4000; i++) {
      values.push((i % 2 ? -1 : 1) * 2 ** ((i * 7 % 60) - 30) * (1 + (i * 37 % 4096) / 4096 + 2 ** -12));
    }
    const x = Float32Array.from(values), n = x.length;
    const half = run(copy(dtypes.float32, dtypes.float16, n), [new Float16Array(n), x], opts(""), caps)[0];
    x.forEach((v, i) => assertEquals(Number(half[i]), Math.f16round(v), `of ${v}`));
    const want = run(copy(dtypes.float32, dtypes.bfloat16, n), [new Uint16Array(n), x], opts(""), {})[0];
    assertEquals(run(copy(dtypes.float32, dtypes.bfloat16, n), [new Uint16Array(n), x], opts(""), caps)[0], want);
  });
}

Deno.test("dtype: where the bits are converted, buffers are seen as uint16", () => {
  const p = compile(copy(dtypes.float16, dtypes.float32, 8), [], BITS);
  assertEquals(p.params.map((x) => x.dtype.name), ["float32", "uint16"]);
});
