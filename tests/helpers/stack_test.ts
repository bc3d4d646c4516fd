/** Lines of the user: taken cheaply, read late. */
import { assert, assertEquals, assertMatch, assertStrictEquals } from "@std/assert";
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

Deno.test("stack: a site that nobody reads costs microseconds", () => {
  const take = (depth: number): Site => depth === 0 ? new Site() : take(depth - 1);
  const batches = Array.from({ length: 40 }, () => {
    const start = performance.now();
    for (let i = 0; i < 100; i++) take(10);
    return (performance.now() - start) * 10;
  });
  const us = Math.min(...batches); // others use the machine too
  assert(us < 40, `${us} us`);
  assertEquals((Error as { stackTraceLimit?: number }).stackTraceLimit, 10);
});
