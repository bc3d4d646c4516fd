import { assertEquals, assertStringIncludes } from "@std/assert";
import { makeNullDevice, nullBackend } from "../../../backends/null/null.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { programOf, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { addKernel } from "../../fixtures/kernels.ts";

const list = [programOf("add", addKernel(10).linear!)];

Deno.test("null: renders, launches nothing", () => {
  const device = makeNullDevice(), [program] = device.compiler.compile(list);
  assertStringIncludes(program.source, "void add(");
  const buffers = [0, 1, 2].map(() => new Buffer(device, dtypes.float32, 10).copyIn(new Uint8Array(40).fill(1)));
  device.run([{ program, buffers, vars: [] }]);
  const graph = device.graph([{ program, buffers, vars: [] }]);
  graph.run();
  assertEquals(device.counters, { launches: 2, compiled: 1 });
  assertEquals(device.allocator.used, 120);
  assertEquals([...buffers[0].copyOut(new Uint8Array(40).fill(9))], new Array(40).fill(0));
  buffers.forEach((b) => b.free());
  assertEquals(device.allocator.used, 0);
});

Deno.test("null: takes any renderer, bytes too", () => {
  const renderer = { name: "BYTES", caps: SCALAR_CAPS, render: () => new Uint8Array(12) };
  assertEquals(makeNullDevice(renderer).compiler.compile(list)[0].source, "12 bytes");
});

Deno.test("null: never the default", () => {
  assertEquals([nullBackend.rank, nullBackend.unavailable(), nullBackend.open(1).name], [
    undefined,
    undefined,
    "NULL:1",
  ]);
});
