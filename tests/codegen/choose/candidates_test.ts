/**
 * Candidates: every one that is drawn is possible and gives the kernel's values, on loops and on grids; draws, all in
 * turn and neighbors are the same each time.
 *
 * @module
 */
import assert from "node:assert/strict";
import { makeJsDevice } from "../../../backends/js/js.ts";
import { allCandidates, drawCandidates, isPossible, neighborsOf } from "../../../src/codegen/choose/candidates.ts";
import { estimateOf } from "../../../src/codegen/choose/loop_costs.ts";
import { optsText, parseOpts } from "../../../src/codegen/opt/opt.ts";
import { beforeOpts } from "../../../src/codegen/passes.ts";
import { context } from "../../../src/helpers/env.ts";
import { DeviceError } from "../../../src/helpers/errors.ts";
import type { Capabilities } from "../../../src/renderer/renderer.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { CAPS, compile, expectSame, integers, paramsOf, run } from "../harness.ts";
import { KERNELS } from "../kernels.ts";
import { productKernel } from "../products.ts";

const KINDS: Readonly<Record<string, Partial<Capabilities>>> = {
  small: CAPS.small,
  large: CAPS.large,
  GPU: simCaps(SIM_GRID),
  WEB: simCaps(SMALL_GRID),
};
/** Candidates of each kernel on each kind of device. */
const COUNT = 4;

function opened(ast: UOp, caps: Partial<Capabilities>): [UOp, Capabilities] {
  const { renderer } = makeJsDevice(caps);
  return [beforeOpts(ast, renderer), renderer.caps];
}

let ran = 0;
const seen = new Set<string>();
for (const [name, ast] of Object.entries(KERNELS)) {
  Deno.test(`candidates: of ${name}, those that are drawn give the same values`, () => {
    const vars = name === "symbolic" ? [11] : [], data = integers(paramsOf(ast)), want = run(ast, data, [], {}, vars);
    for (const [kind, caps] of Object.entries(KINDS)) {
      const drawn = drawCandidates(...opened(ast, caps), COUNT, 5);
      for (const o of drawn) {
        let program;
        try {
          program = compile(ast, o, caps);
        } catch (error) {
          if (error instanceof DeviceError) continue; // more than a group has
          throw error;
        }
        expectSame(ast, run(ast, data, o, caps, vars, program), want, `${optsText(o)} on ${kind}`);
        ran++;
        for (const { op } of o) seen.add(op);
      }
    }
  });
}

Deno.test("candidates: they are of all kinds", () => {
  if (ran === 0) return;
  for (
    const op of [
      "UPCAST",
      "UNROLL",
      "VECTOR",
      "LOCAL",
      "GROUP",
      "GROUPTOP",
      "THREAD",
      "PADTO",
      "MERGE",
      "SWAP",
      "STAGE",
    ]
  ) {
    assert.ok(seen.has(op), `none has ${op}`);
  }
  assert.ok(ran > 8 * Object.keys(KERNELS).length, `${ran} ran`);
});

Deno.test("candidates: the same seed draws the same, another seed others, and none twice", () => {
  const [ast, caps] = opened(productKernel(96, 80, 64), CAPS.large);
  const texts = (seed: number): string[] => drawCandidates(ast, caps, 40, seed).map(optsText);
  assert.deepEqual(texts(1), texts(1));
  assert.notDeepEqual(texts(1), texts(2));
  assert.equal(new Set(texts(1)).size, 40);
  for (const text of texts(3)) assert.ok(isPossible(ast, caps, parseOpts(text)!), text);
});

Deno.test("candidates: all of a kernel hold those that are drawn", () => {
  const [ast, caps] = opened(KERNELS.sum_columns, { ...CAPS.small, threads: 1 });
  const all = new Set<string>();
  for (const o of allCandidates(ast, caps)) all.add(optsText(o));
  assert.ok(all.has("") && all.size > 100, `${all.size}`);
  for (const o of drawCandidates(ast, caps, 20, 1)) assert.ok(all.has(optsText(o)), optsText(o));
});

Deno.test("candidates: neighbors differ in one opt and are possible", () => {
  const [ast, caps] = opened(productKernel(64, 64, 64), CAPS.large);
  const from = parseOpts("VECTOR:1:16 UPCAST:0:4 UNROLL:0:4 THREAD:0:0 STAGE:2:loops=1")!;
  const near = neighborsOf(ast, caps, from).map(optsText);
  for (
    const text of [
      "UPCAST:0:4 UNROLL:0:4 THREAD:0:0 STAGE:2:loops=1",
      "VECTOR:1:16 UPCAST:0:8 UNROLL:0:4 THREAD:0:0 STAGE:2:loops=1",
      "VECTOR:1:16 UPCAST:0:4 UNROLL:0:4 THREAD:1:0 STAGE:2:loops=1",
      "VECTOR:1:16 UPCAST:0:4 UNROLL:0:4 THREAD:0:0 STAGE:2:loops=2",
      "VECTOR:1:16 UPCAST:0:4 UNROLL:0:4 THREAD:0:0",
    ]
  ) assert.ok(near.includes(text), `${text} is not among ${near.join(" | ")}`);
  assert.equal(new Set(near).size, near.length);
});

Deno.test("candidates: matrix units for TF32 are offered only where it is allowed", () => {
  const has = (allowed: number): boolean =>
    context(
      { ALLOW_TF32: allowed },
      () =>
        drawCandidates(...opened(productKernel(64, 64, 64), KINDS.GPU), 60, 1).some((o) =>
          o.some((x) => x.op === "TC")
        ),
    );
  assert.equal(has(0), false);
  assert.equal(has(1), true);
});

Deno.test("candidates: the model of CPUs has the lanes on the contiguous axis first, and none for grids", () => {
  const [ast, caps] = opened(productKernel(256, 256, 256), CAPS.large);
  const [good, bad] = ["VECTOR:1:16 UPCAST:0:4", "VECTOR:0:16"].map((t) => estimateOf(ast, caps, parseOpts(t)!)!);
  assert.ok(good * 2 < bad, `${good} ${bad}`);
  assert.equal(estimateOf(ast, simCaps(SIM_GRID), []), undefined);
});
