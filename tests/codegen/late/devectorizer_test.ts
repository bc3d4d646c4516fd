/** Vectors that a device does not have become scalars: bools too, which have as many lanes as what they were compared from. */
import { WasmRenderer } from "../../../backends/wasm/render.ts";
import { devectorize } from "../../../src/codegen/late/devectorizer.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { withOpts } from "../../../src/codegen/opt/opt.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { constant, index, load, param, range, sink, store, toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { assert, assertEquals } from "@std/assert";
import { expectSame, opts, run } from "../harness.ts";

const { float32, int32, bool } = dtypes, N = 64;

/** Two comparisons, joined and negated, choose between a value and 3. */
function choice(): UOp {
  const i = range(N, 0, AxisKind.LOOP),
    x = load(index(param(1, float32, N), i)),
    y = load(index(param(2, int32, N), i));
  const both = x.lt(constant(0, float32)).and(y.lt(constant(2, int32))).xor(constant(1, bool));
  return sink([store(index(param(0, float32, N), i), both.where(x, constant(3, float32)))]);
}

const LANES = { vectorBytes: 16, vectorLanes: (d: typeof float32) => d.bits === 32 || d.isBool ? 4 : 1 };

Deno.test("devectorize: bools of more lanes than any vector has are split", () => {
  for (const lanes of [2, 4, 8, 16]) {
    const ast = withOpts(choice(), opts(`VECTOR:0:${lanes}`)), renderer = new WasmRenderer(1);
    const { uops } = toProgram(ast, renderer);
    assert(uops.every((u) => u.dtype.count <= 4), `${lanes} lanes`);
    renderer.render(toProgram(ast, renderer));
    const x = Float32Array.from({ length: N }, (_, i) => i % 5 - 2),
      y = Int32Array.from({ length: N }, (_, i) => i % 4);
    const data = [new Float32Array(N), x, y], plain = run(choice(), data, []);
    assertEquals([...plain[0]], [...x].map((v, i) => v < 0 && y[i] < 2 ? 3 : v));
    expectSame(choice(), run(choice(), data, opts(`VECTOR:0:${lanes}`), LANES), plain, `${lanes} lanes`);
  }
});

Deno.test("devectorize: a graph that fits is the same", () => {
  const ast = choice();
  assertEquals(devectorize(ast, SCALAR_CAPS), ast);
  assert(toposort(devectorize(ast, SCALAR_CAPS)).includes(ast.src[0]));
});
