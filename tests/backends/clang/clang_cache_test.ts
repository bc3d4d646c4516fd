/** The cache of CLANG's objects, and what compilers that fail or are missing say. @module */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { clangBackend, clangCounters } from "../../../backends/clang/clang.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { CompileError, DeviceError } from "../../../src/helpers/errors.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { uop } from "../../../src/uop/core/uop.ts";
import { addKernel } from "../../fixtures/kernels.ts";
import { bufferOf, cacheFolder, floats, openAt, test } from "./clang_harness.ts";

const f32 = dtypes.float32;

test("the second process compiles nothing", () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder });
  const list = [addKernel(10), addKernel(11), addKernel(12)].map((k) => programOf(k.name, k.linear!));
  const first = openAt(folder);
  first.compiler.compile(list);
  first.close();
  const before = clangCounters.compilers, second = openAt(folder);
  const [program] = second.compiler.compile(list);
  assertEquals(clangCounters.compilers, before);
  const buffers = [0, 1, 2].map((x) => bufferOf(second, f32, new Float32Array(10).fill(x)));
  second.run([{ program, buffers, vars: [] }]);
  assertEquals(floats(buffers[0]), new Array(10).fill(3));
  second.close();
});

test("short kernels share a compiler: another would take longer to start than it saves", () => {
  const on = openAt(Deno.makeTempDirSync({ dir: cacheFolder })), before = clangCounters.compilers;
  on.compiler.compile([20, 21, 22].map((n) => programOf(`add${n}`, addKernel(n).linear!)));
  assertEquals(clangCounters.compilers, before + 1);
  on.close();
});

test("memory that comes back after a device was closed is freed in a runtime that is still there", () => {
  const maps = (folder: string) =>
    Deno.readTextFileSync("/proc/self/maps").split("\n").filter((l) => l.includes(folder));
  const folder = Deno.makeTempDirSync({ dir: cacheFolder }),
    device = openAt(folder),
    buffer = bufferOf(device, f32, new Float32Array(1000));
  device.close();
  if (Deno.build.os === "linux") assert(maps(folder).length > 0);
  buffer.free(false); // finalizers run when they like
  const again = openAt(folder), other = bufferOf(again, f32, new Float32Array([1, 2]));
  assertEquals(floats(other), [1, 2]);
  again.close();
  again.close();
});

test("a damaged object is compiled again, other files stay", () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder });
  const list = [programOf("add", addKernel(10).linear!)];
  const first = openAt(folder), kernels = String(first.info().cache);
  first.compiler.compile(list);
  first.close();
  const objects = () => [...Deno.readDirSync(kernels)].map((e) => e.name).filter((n) => n.endsWith(".so"));
  const [object] = objects();
  Deno.truncateSync(`${kernels}/${object}`, 1000);
  Deno.writeTextFileSync(`${kernels}/index`, "torn li", { append: true });
  const before = clangCounters.compilers, second = openAt(folder);
  const [program] = second.compiler.compile(list);
  assertEquals(clangCounters.compilers, before + 1);
  const buffers = [0, 1, 2].map((x) => bufferOf(second, f32, new Float32Array(10).fill(x)));
  second.run([{ program, buffers, vars: [] }]);
  assertEquals(floats(buffers[0]), new Array(10).fill(3));
  assertEquals(objects().length, 2);
  second.close();
  const third = openAt(folder);
  third.compiler.compile(list);
  assertEquals(clangCounters.compilers, before + 1);
  third.close();
});

test("two processes share a cache", async () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder });
  const at = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
  const script = `
    import { clangBackend } from ${at("../../../backends/clang/clang.ts")};
    import { Buffer } from ${at("../../../src/device/buffer.ts")};
    import { programOf } from ${at("../../../src/renderer/renderer.ts")};
    import { dtypes } from ${at("../../../src/dtype/dtype.ts")};
    import { addKernel } from ${at("../../fixtures/kernels.ts")};
    const d = clangBackend.open(0);
    const programs = d.compiler.compile([4, 5, 6, 7].map((n) => programOf("add" + n, addKernel(n).linear)));
    const buffers = [0, 1, 2].map((x) =>
      new Buffer(d, dtypes.float32, 7).copyIn(new Uint8Array(new Float32Array(7).fill(x).buffer)));
    for (const program of programs) d.run([{ program, buffers, vars: [] }]);
    console.log(...new Float32Array(buffers[0].copyOut(new Uint8Array(28)).buffer));`;
  await Deno.writeTextFile(`${folder}/main.ts`, script);
  const run = () =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", `${folder}/main.ts`],
      env: { CACHEDIR: folder },
    }).output();
  for (const { stdout, stderr } of await Promise.all([run(), run()])) {
    assertEquals(new TextDecoder().decode(stdout).trim(), "3 3 3 3 3 3 3", new TextDecoder().decode(stderr));
  }
});

test("a compiler error quotes the line, and leaves nothing behind", () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder }), on = openAt(folder);
  const k = addKernel(9);
  const odd = uop(Ops.VARIABLE, f32, [], { hash: 1, name: "x", same: () => false, toString: () => "x" } as never);
  const bad = k.linear!.map((u) => u);
  // an END too many ends the function early
  bad.push(uop(Ops.END, dtypes.void, [bad.find((u) => u.op === Ops.RANGE)!]), odd);
  const error = assertThrows(() => on.compiler.compile([programOf("broken", bad)]), CompileError);
  assertStringIncludes(error.message, "Cannot compile kernel broken_");
  assertStringIncludes(error.message, "line");
  assert(error.source.includes("broken_") && error.log.includes("error"));
  assertEquals([...Deno.readDirSync(String(on.info().cache))].map((e) => e.name), []);
  on.close();
});

test("a missing compiler is named, with where to get one", () => {
  context({ CC: "no-such-compiler" }, () => {
    const text = clangBackend.unavailable();
    assertStringIncludes(String(text), "no-such-compiler, was not found");
    assertStringIncludes(String(text), "apt-get install clang-19");
    assertThrows(() => clangBackend.open(0), DeviceError, "no-such-compiler");
  });
  assertEquals(clangBackend.unavailable(), undefined);
});

test("a compiler that does not work makes the device unavailable", () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder });
  context({ CC: "/bin/false" }, () => {
    if (clangBackend.unavailable() !== undefined) return; // no such program here
    assertThrows(() => openAt(folder), DeviceError, "Cannot open device CLANG: /bin/false cannot compile the runtime");
    assertStringIncludes(String(clangBackend.unavailable()), "cannot compile the runtime");
  });
  assertEquals(clangBackend.unavailable(), undefined);
});
