/**
 * One list of sources for all devices: what is chosen is the first of what they propose, and what is nearly as good, which
 * measuring takes, gives the same values on loops and on grids.
 *
 * @module
 */
import assert from "node:assert/strict";
import { schedule, Tensor } from "../../../mod.ts";
import { makeJsDevice } from "../../../backends/js/js.ts";
import { choose, modeledOpts, proposalsFor } from "../../../src/codegen/choose/choose.ts";
import { optsText } from "../../../src/codegen/opt/opt.ts";
import { beforeOpts } from "../../../src/codegen/passes.ts";
import { DeviceError } from "../../../src/helpers/errors.ts";
import type { Capabilities } from "../../../src/renderer/renderer.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { CAPS, compile, expectSame, integers, paramsOf, run } from "../harness.ts";
import { KERNELS } from "../kernels.ts";

const KINDS: Readonly<Record<string, Partial<Capabilities>>> = {
  small: CAPS.small,
  large: CAPS.large,
  GPU: simCaps(SIM_GRID),
  WEB: simCaps(SMALL_GRID),
};
/** Lists of opts of each kernel on each kind of device. */
const COUNT = 4;
/** What a list may cost more than the best where it makes fewer copies. */
const TIE = 1.01;

const ran: Record<string, number> = {}, several: Record<string, number> = {};
for (const [name, ast] of Object.entries(KERNELS)) {
  Deno.test(`choose: of ${name}, the first proposal that is possible is chosen, and those beside it give the same values`, () => {
    const vars = name === "symbolic" ? [11] : [], data = integers(paramsOf(ast)), want = run(ast, data, [], {}, vars);
    for (const [kind, caps] of Object.entries(KINDS)) {
      const { renderer } = makeJsDevice(caps),
        open = beforeOpts(ast, renderer),
        found = proposalsFor(open, renderer.caps);
      found.forEach(({ cost }, i) =>
        assert.ok(cost <= TIE * (found[i + 1]?.cost ?? Infinity), `${kind} ${i}: ${cost}`)
      );
      const first = found.map((p) => p.make()).find((k) => k !== undefined);
      if (first !== undefined) assert.equal(optsText(choose(open, renderer).applied), optsText(first.applied), kind);
      const lists = modeledOpts(open, renderer.caps, COUNT);
      assert.equal(new Set(lists.map(optsText)).size, lists.length);
      if (lists.length > 1) several[kind] = (several[kind] ?? 0) + 1;
      for (const o of lists) {
        let program;
        try {
          program = compile(ast, o, caps);
        } catch (error) {
          if (error instanceof DeviceError) continue; // more than a group has
          throw error;
        }
        expectSame(ast, run(ast, data, o, caps, vars, program), want, `${optsText(o)} on ${kind}`);
        ran[kind] = (ran[kind] ?? 0) + 1;
      }
    }
  });
}

Deno.test("choose: sums of products of bytes are weighed beside loops, and take less", () => {
  const { renderer } = makeJsDevice({ ...CAPS.large, hasDots: true }), { renderer: other } = makeJsDevice(CAPS.large);
  for (const [rows, columns, sum] of [[1, 64, 64], [1, 4096, 4096], [8, 256, 1024], [256, 128, 64]]) {
    // words of sixteen neighbors lie side by side, as they are multiplied
    const a = Tensor.empty([rows, sum], { device: "JS", dtype: "int8" });
    const words = Tensor.empty([columns / 16, sum / 4, 16, 4], { device: "JS", dtype: "int8" });
    const b = words.permute([0, 2, 1, 3]).reshape([columns, sum]).transpose(0, 1);
    const [{ ast }] = schedule([a.cast("int32").matmul(b.cast("int32"))]);
    const open = beforeOpts(ast!, renderer), [best, ...others] = proposalsFor(open, renderer.caps);
    const loops = proposalsFor(open, other.caps);
    assert.ok(loops.length > 0 && others.length > 0);
    assert.ok(best.cost < 0.7 * loops[0].cost, `${best.cost}, loops ${loops[0].cost}`);
    assert.deepEqual([best, others[0]].map((p) => p.what === loops[0].what), [false, true]);
    assert.match(optsText(choose(open, renderer).applied), /^VECTOR:\d:16 .*UNROLL:\d:4/);
  }
});

Deno.test("choose: each kind of device had several lists for kernels, and they ran", () => {
  if (Object.keys(ran).length === 0) return; // a filter left the kernels out
  for (const kind of Object.keys(KINDS)) {
    assert.ok(several[kind] > 3 && ran[kind] > 20, JSON.stringify({ several, ran }));
  }
});
