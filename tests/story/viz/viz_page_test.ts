/** The page in headless Chromium: clicks through a rewrite, a kernel and the timeline. Left out where there is no browser. */
import { assert, assertEquals } from "@std/assert";
import { type Seen, seenInChromium } from "./seen.ts";

const { ignore, errors, seen, compared, scriptBytes } = await seenInChromium();

Deno.test({
  name: "viz page: no console error, and small",
  ignore,
  fn: () => {
    assertEquals(errors, []);
    assertEquals(seen.length, 3);
    assert(scriptBytes < 300_000, `${scriptBytes} bytes`);
  },
});

for (const [i, name] of ["light", "dark", "narrow"].entries()) {
  const page = seen[i] as unknown as Seen | undefined;
  Deno.test({
    name: `viz page ${name}: the five views tell what was recorded`,
    ignore,
    fn: () => {
      const s = page!;
      assert(Number(s.lines) >= 3 && /viz_browser\.ts:\d+/.test(String(s.program)), String(s.program));
      assert(/Tensor\.rand\(\[16, 24\]/.test(String(s.program)), "a line is shown with what stands in it");
      assert(Number(s.steps) >= 5 && s.boxes === s.steps && Number(s.memory) > 0);
      assert(/step=\d+/.test(String(s.selectedStep)));
      assert(Number(s.passes) > 20 && Number(s.all) > Number(s.passes), "those that changed nothing are hidden");
      assert(Number(s.found) > 0 && Number(s.found) < Number(s.passes), "searching leaves some");
      assert(/^E_|^r_/.test(String(s.kernel)) && /func/.test(String(s.source)), String(s.kernel));
      assertEquals((s.sections as string[]).map((t) => t.split(" ")[0]), ["AST", "linear", "source"]);
      assert(Number(s.same) > 0, "what is the same node is marked");
      assertEquals(s.compared, 4, "opts, AST, passes and source");
      assert(/in all\./.test(String(s.legend)) && Number(s.topKernels) > 3 && Number(s.drawn) > 5);
      assert(/took/.test(String(s.event)) && /event=\d/.test(String(s.hash)), String(s.hash));
      for (const [key, value] of Object.entries(s)) if (key.startsWith("wide ")) assert(Number(value) <= 0, key);
    },
  });
  Deno.test({
    name: `viz page ${name}: a rewrite is shown with its rule, line, difference and graph`,
    ignore,
    fn: () => {
      const s = page!;
      assert(/^change 1 of \d+/.test(String(s.change)));
      assert(/^src\/\S+\.ts:\d+:\d+$/.test(String(s.rule)), String(s.rule));
      assert(Number(s.old) > 0 && Number(s.new) > 0 && Number(s.changeBoxes) > 0);
      assertEquals([s.onAfterMove, s.onAfterBack, s.madeAnew], ["2", "1", 0], "a move makes no list anew");
      assertEquals([s.askedForward, s.askedBack, s.backBoxes], [1, 0, s.changeBoxes], "a graph is laid out once");
    },
  });
}

Deno.test({
  name: "viz page: dark where the system is",
  ignore,
  fn: () => {
    const [light, dark] = seen.map((s) => (s as unknown as Seen).background);
    assert(light !== dark, String(light));
  },
});

Deno.test({
  name: "viz page: two recordings compared: what differs is listed, and shown by a click or by its address",
  ignore,
  fn: () => {
    const found = /^Beside as written: (\d+) kernels are the same, (\d+) differ, 0 are here alone, 0 there alone\.$/
      .exec(String(compared.differences));
    assert(found !== null && Number(found[2]) >= 1, String(compared.differences));
    assertEquals(Number(compared.marks), Number(found[2]));
    assertEquals((compared.sections as string[]).slice(-4), ["opts", "AST", "passes", "source"]);
    assert(Number(compared.changed) > 3 && compared.again === compared.changed, JSON.stringify(compared));
    assert(/^A launch takes [\d.]+ [mµ]s; that of \w+ [\d.]+ [mµ]s\.$/.test(String(compared.times)));
    assert(/^In as written: \w+, another opts, source\.$/.test(String(compared.beside)), String(compared.beside));
  },
});
