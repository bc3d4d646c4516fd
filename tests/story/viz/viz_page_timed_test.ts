/** The page in headless Chromium: how long it is until something is shown. Left out where there is no browser. */
import { assert, assertEquals } from "@std/assert";
import { seenInChromium } from "./seen.ts";

const { ignore, errors, seen, large } = await seenInChromium("--large");

Deno.test({
  name: "viz page: all passes of ResNet-50's compile open in 2 s, and a rewrite is shown at once",
  ignore,
  fn: () => {
    assertEquals(errors, []);
    assert(Number(large.openMs) <= 2000, `${large.openMs} ms until it was shown`);
    assert(Number(large.moveMs) <= 100, `${large.moveMs} ms from one rewrite to the next`);
    assert(Number(large.passes) >= 400 && Number(large.changes) >= 100 && Number(large.boxes) > 10, String(large));
  },
});

Deno.test({
  name: "viz page: a rewrite of a small recording is shown at once",
  ignore,
  fn: () => {
    const moves = seen.map((s) => Number(s.moveMs));
    assert(moves.length === 3 && moves.every((ms) => ms < 1000), `${moves} ms from one rewrite to the next`);
  },
});
