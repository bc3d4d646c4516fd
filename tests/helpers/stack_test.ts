/** Lines of the user: taken cheaply, read late. */
import { assertEquals, assertMatch, assertStrictEquals } from "@std/assert";
import { Site, userLine } from "../../src/helpers/stack.ts";
import { Device, Tensor } from "../../mod.ts";
import type { BufferArg } from "../../src/uop/core/args.ts";

Device.get();

Deno.test("stack: the line is that of the call, whenever it is read", () => {
  const site = new Site(), now = userLine();
  const [a, b] = [site, now].map((x) => /stack_test\.ts:(\d+):\d+$/.exec(String(x))![1]);
  assertEquals(a, b);
  assertStrictEquals(String(site), String(site));
  assertMatch(String(new Site("the end at ")), /^the end at \/.*stack_test\.ts:\d+:\d+$/);
});

Deno.test("stack: frames of the library are passed over", () => {
  const t = Tensor.zeros([2]).realize();
  t.assign(t.add(1));
  t.realize();
  assertMatch(String((t.uop.arg as BufferArg).storage.writtenAt), /stack_test\.ts:\d+:\d+$/);
});
