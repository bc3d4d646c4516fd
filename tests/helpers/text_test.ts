/** Text as HTML, bytes as base64. */
import { assertEquals } from "@std/assert";
import { base64, escapeHtml } from "../../src/helpers/text.ts";

Deno.test("text: what means something in HTML stands for itself, also between quotes", () => {
  assertEquals(escapeHtml(`<a href="x" id='y'> & `), "&#60;a href=&#34;x&#34; id=&#39;y&#39;&#62; &#38; ");
});

Deno.test("text: what no XML may hold is a sign for it, and all else stays", () => {
  assertEquals(escapeHtml("a\0b\x1b\x7f\ud800c\udc00\uffff"), "a\ufffdb\ufffd\ufffd\ufffdc\ufffd\ufffd");
  assertEquals(escapeHtml("\t\r\nü😀\ufffd"), "\t\r\nü😀\ufffd");
});

Deno.test("text: base64 of many bytes", () => {
  const bytes = Uint8Array.from({ length: 20_000 }, (_, i) => i * 7);
  assertEquals(Uint8Array.from(atob(base64(bytes)), (c) => c.charCodeAt(0)), bytes);
});
