/** Explanations inside of each other, and beside each other. */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { stepLog } from "../../src/engine/exec.ts";
import { siteFrames } from "../../src/helpers/stack.ts";
import { explain, type Explanation } from "../../src/story/story.ts";
import { wantsNotes } from "../../src/uop/core/notes.ts";
import { isRecording } from "../../src/uop/rewrite/record.ts";
import { optimized } from "../fixtures/optimized.ts";
import { farthest, passesIn, runScript as run } from "./run_script.ts";

Device.default = "WASM";

function values(n: number): Tensor {
  return new Tensor(Array.from({ length: n }, (_, i) => Math.sin(i * 1.7)));
}

Deno.test(
  "explain: inside of what is explained, both tell of what ran in them",
  optimized(async () => {
    const names = (e: Explanation): number => e.trace.steps.filter((s) => s.kind === "kernel").length;
    let inner: Explanation | undefined;
    const outer = explain(() => {
      const x = values(6).add(1).realize();
      inner = explain(() => x.exp().sum(), { passes: true });
      return (inner.result as Tensor).mul(2);
    }, { passes: true });
    assertEquals([names(inner!), names(outer)], [1, 3]);
    const [all, own] = [outer, inner!].map((e) => e.notes.map((n) => n.text));
    assert(own.length > 0 && own.every((text) => all.includes(text)));
    for (const e of [inner!, outer]) assert(farthest(await run(e, "nested")) < 1e-5); // of about 20
    assert(passesIn(inner!) > 0 && passesIn(outer) > passesIn(inner!));
    assertEquals([isRecording(), wantsNotes(), stepLog.listener, siteFrames.wanted], [false, false, undefined, 0]);
  }),
);

Deno.test("explain: of two that run at once each hears until it ends, and nobody afterwards", async () => {
  const first = Promise.withResolvers<void>(), second = Promise.withResolvers<void>();
  const a = explain(async () => {
    await first.promise;
    return values(3).add(1);
  }, { passes: true });
  const b = explain(async () => {
    await second.promise;
    return values(4).mul(2).add(0.5).sum();
  }, { passes: true });
  first.resolve();
  const one = await a;
  second.resolve();
  const two = await b;
  assertEquals(one.trace.steps.filter((s) => s.kind === "kernel").length, 1);
  assert(two.trace.steps.some((s) => s.kind === "kernel" && s.writes.some((w) => w.size === 1)));
  assert(passesIn(two) > 0);
  assertEquals([isRecording(), wantsNotes(), stepLog.listener, siteFrames.wanted], [false, false, undefined, 0]);
});
