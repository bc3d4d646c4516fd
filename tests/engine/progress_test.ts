/** Compiling that takes long is told: to listeners always, on a terminal after a second, elsewhere never. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, type CompileEvent, context, Device, onCompile, Tensor } from "../../mod.ts";
import { tellingProgress, terminal } from "../../src/engine/progress.ts";

Device.get();
Device.get("JS");

/** What is written to a terminal while `fn` runs. */
function written(fn: () => void, isThere = true): string[] {
  const lines: string[] = [], { isThere: before, write } = terminal;
  terminal.isThere = () => isThere;
  terminal.write = (text) => void lines.push(text);
  try {
    fn();
  } finally {
    Object.assign(terminal, { isThere: before, write });
  }
  return lines;
}

Deno.test("progress: listeners hear the beginning and the end, until they stop", () => {
  const seen: CompileEvent[] = [], x = Tensor.rand([3, 5], { device: "JS" }).realize();
  const stop = onCompile((e) => seen.push(e));
  x.add(0.4375).sum().realize();
  stop();
  x.add(0.4375).prod().realize();
  assertEquals(seen[0].done, 0);
  const last = seen[seen.length - 1];
  assertEquals([last.device, last.done], ["JS", last.total]);
  assert(seen.length <= 2 * last.total);
  assertThrows(() => onCompile(3 as never), ArgumentError, "the listener must be a function, not 3");
});

Deno.test("progress: a line where more than a second is to be expected, rewritten, and removed", () => {
  const long = () =>
    tellingProgress("CLANG", 37, (progress) => {
      progress(0, 4000);
      progress(12, 3000);
      progress(24, 10);
    });
  assertEquals(written(long), [
    "\r\x1b[Kcompiling 37 kernels, 0 done",
    "\r\x1b[Kcompiling 37 kernels, 12 done",
    "\r\x1b[Kcompiling 37 kernels, 24 done",
    "\r\x1b[Kcompiling 37 kernels, 37 done",
    "\r\x1b[K",
  ]);
  assertEquals(written(long, false), []);
  assertEquals(written(() => context({ PROGRESS: 0 }, long)), []);
  assertEquals(written(() => tellingProgress("CLANG", 2, (progress) => progress(0, 50))), []);
  const fails = () =>
    tellingProgress("CLANG", 1, (progress) => {
      progress(0, 2000);
      throw new Error("no");
    });
  const lines = written(() => assertThrows(fails, Error, "no"));
  assertEquals(lines, ["\r\x1b[Kcompiling 1 kernel, 0 done", "\r\x1b[K"]);
});
