/** docs/inside.md is what `deno task inside` writes. @module */
import assert from "node:assert/strict";
import { INSIDE_PAGE, insidePage } from "./inside_page.ts";

Deno.test("inside: the page is what the programs compute; deno task inside writes it anew", async () => {
  assert.equal(await Deno.readTextFile(INSIDE_PAGE), await insidePage());
});
